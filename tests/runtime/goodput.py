#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted and measured time, MFU and goodput in logs and in --profile --json:  goodput.py DTC FLAKY DTRUN

Goodput is recomputed from the log: the seconds of steps that counted, by the time since the first attempt began. A restart loses the
steps after its checkpoint, which flaky.c's fault forces; they are not counted."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from runs import CLUSTERS, NET, check, failures, run, write_tokens

PROGRAM = NET.replace("batch = 4, seq = 4", "batch = 32, seq = 4") + """  optimizer = sgd(lr = 0.01)
  steps = 60
  save = every(20, keep = 1)
}
""" + CLUSTERS.replace('gpu = "cpu" }', 'gpu = "mine" }', 1) + """device "mine" { like = "cpu"; peak_f32 = 10GFLOP/s }
parallel pair on two { mesh data = 2; shard batch on data }
"""


def steps_of(log):
    with open(log) as file:
        return [event for event in map(json.loads, file.read().splitlines()) if event["event"] == "step"]


def test_log(tools):
    began = time.time()
    said = run([tools[2], "pair.plan", "--log", "log"])
    took = time.time() - began
    steps = steps_of("log")
    useful = sum(step["seconds"] for step in steps)
    check(len(steps) == 60 and all(0 < step["goodput"] <= 1 for step in steps), "goodput is between 0 and 1")
    check(useful / took <= steps[-1]["goodput"] * 1.01 + 1e-3, "goodput %g, at least %g" % (steps[-1]["goodput"], useful / took))
    shown = re.search(r"^done .*, goodput ([0-9.]+) %$", said, re.M)
    check(shown and abs(float(shown.group(1)) - 100 * steps[-1]["goodput"]) < 0.06, said)
    plan = [step.get("predicted_seconds") for step in steps]
    check(plan[0] and plan[0] > 0 and len(set(plan)) == 1, "predicted_seconds")
    products = [step["mfu"] * step["seconds"] for step in steps]
    check(max(products) < min(products) * 1.0001, "MFU is operations by time and peak")


def test_restart(tools):
    with open("once", "w"):
        pass
    done = subprocess.run([tools[1], "pair.plan", "--quiet", "--log", "log", "--overwrite", "--save", "out", "--restarts", "1"],
                          stderr=subprocess.PIPE, text=True, timeout=100,
                          env=dict(os.environ, FLAKY_NAN="1 50 3 " + os.path.abspath("once")))
    check(done.returncode == 0 and "starting again (1 of 1) from the checkpoint after 40 steps" in done.stderr, done.stderr)
    steps = steps_of("log")
    check([step["step"] for step in steps] == [*range(1, 50), *range(41, 61)], "steps of the log")
    counted = sum(step["seconds"] for step in steps[:40]) + sum(step["seconds"] for step in steps[49:])
    wall = counted / steps[-1]["goodput"]
    everything = sum(step["seconds"] for step in steps)
    check(wall > everything, "the time of lost steps counts as useful: %g s of %g s" % (everything, wall))
    first = steps[0]["seconds"] / steps[0]["goodput"]  # to the end of step 1
    between = steps[49]["goodput"] * wall
    check(steps[49]["goodput"] < steps[39]["goodput"] and first < wall and between < wall, "a restart lowers the goodput")


def wait_until(holds, seconds=60):
    """Whether it holds in time."""
    for _ in range(seconds * 50):
        if holds():
            return True
        time.sleep(0.02)
    return False


def text_of(path):
    with open(path) as file:
        return file.read()


def test_middle_of_a_step(tools):
    """A rank is killed in the step in which a checkpoint came to its place: the run goes on from that one."""
    with open("said", "w") as said:
        run_of = subprocess.Popen([tools[1], "pair.plan", "--quiet", "--save", "middle", "--restarts", "1"], stderr=said,
                                  env=dict(os.environ, FLAKY_SLOW="1 0.000002 21"))
    try:
        check(wait_until(lambda: os.path.exists("middle/latest")), "a checkpoint in the middle of a step")
        time.sleep(0.2)
        ranks = subprocess.run(["pgrep", "-P", str(run_of.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(ranks[1]), signal.SIGKILL)
        check(wait_until(lambda: "starting again" in text_of("said")), "it does not start again")
    finally:
        run_of.kill()
        run_of.wait()
    check("from the checkpoint after 20 steps" in text_of("said"), text_of("said"))


def test_profile(tools):
    done = subprocess.run([tools[2], "pair.plan", "--quiet", "--profile", "--json"], stdout=subprocess.PIPE, text=True, timeout=100)
    found = json.loads(done.stdout)
    check(0 < found["goodput"] <= 1 and found["predicted_ms"] > 0 and found["mfu"] > 0 and found["ms"] > 0, str(found)[:300])


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        with open("p.dsl", "w") as file:
            file.write(PROGRAM)
        run([tools[0], "p.dsl", "--parallel", "pair", "-o", "pair.plan"])
        test_log(tools)
        test_restart(tools)
        test_middle_of_a_step(tools)
        test_profile(tools)
    print("goodput: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:4]]))
