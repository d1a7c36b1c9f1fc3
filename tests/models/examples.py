#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples that a newcomer can train in seconds do train, and say the same on any number of ranks.

  examples.py DTC DTRUN

A row has the program, its layouts, how many steps a serial run takes (None: all), and what the mean over its last ones
must reach. A layout runs for a few steps, whose losses must be the serial ones: float32 adds up in another order, and
updates pass that on (1e-3 of a loss above 0.3). A commit's run has its share of the rows (tests/share.py)."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import share  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "examples")
FEW, LAST, NEAR = 4, 10, 1e-3
TABLE = (
    ("resnet", ("two", "four"), None, "accuracy", lambda x: x > 0.9),
    # a linear probe on random features reaches 0.6
    ("byol", ("two",), 200, "accuracy", lambda x: x > 0.9),
    ("diffusion", ("four",), 400, "loss", lambda x: x < 0.55),
    ("dpo", ("two",), 60, "accuracy", lambda x: x > 0.95),
    ("gan", ("two",), 1600, "near", lambda x: x > 0.6),
)


def execute(command):
    done = subprocess.run(command, capture_output=True, timeout=300)
    if done.returncode:
        print("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr.decode(errors="replace")))
        sys.exit(1)


def steps_of(tools, folder, name, layout, options):
    plan, log = os.path.join(folder, "plan"), os.path.join(folder, "%s.%s.jsonl" % (name, layout))
    execute([tools[0], os.path.join(EXAMPLES, name + ".dsl"), "--parallel", layout, "-o", plan])
    execute([tools[1], plan, "--quiet", "--log", log] + options)
    with open(log) as file:
        return [event for event in map(json.loads, file) if event["event"] == "step"]


def loss_of(step):
    """All losses of the step; a GAN has two."""
    return sum(each["loss"] for each in step["losses"].values()) if "losses" in step else step["loss"]


def main(tools):
    failed = 0
    for name, layouts, steps, what, reached in share.of(TABLE):
        with tempfile.TemporaryDirectory() as folder:
            serial = steps_of(tools, folder, name, "none", ["--steps", str(steps)] if steps else [])
            end = sum(loss_of(step) if what == "loss" else step["metrics"][what] for step in serial[-LAST:]) / LAST
            print("%s: %s %.4g after %d steps" % (name, what, end, len(serial)))
            failed += not reached(end)
            for layout in layouts:
                losses = [loss_of(step) for step in steps_of(tools, folder, name, layout, ["--steps", str(FEW)])]
                wanted = [loss_of(step) for step in serial[:FEW]]
                equal = len(losses) == FEW and all(abs(a - b) <= NEAR * b for a, b in zip(losses, wanted))
                print("%s: %s %s" % (name, layout, "as serial" if equal else "%s, serial %s" % (losses, wanted)))
                failed += not equal
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]]))
