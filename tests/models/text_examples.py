#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples BERT and T5 learn from real text, cut to tiny extents:  text_examples.py DTC DTRUN

The text is the manual; its tokens come from a byte-level tokenizer with a mask token. The loss falls well below that of
guessing evenly, log(452) = 6.1, and four ranks, split as the examples say, have the losses of one."""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOKENIZER = os.path.join(ROOT, "tests", "tokenizer", "fixtures", "roberta.json")
TINY = ["layers=1", "enc=1", "dec=1", "embed=32", "heads=2", "head=16", "ffn=64", "batch=16"]
SETTINGS = ["train.precision=mixed(compute = f32)", "train.optimizer.lr=0.005", "cluster.nodes=1", "cluster.gpus=4"]
FEW, LAST, NEAR = 2, 20, 1e-4
TABLE = (  # name, its folder of texts, extents, loops, layout, its mesh, steps, the loss that they must reach
    ("bert", "wiki", ["seq=32", "vocab=452", "mask=450"], ["layers"], ["dptp", "data=2"], 250, 5.3),
    ("t5", "c4", ["src=32", "tgt=8", "vocab=480", "sentinel=479", "buckets=8"], ["enc", "dec"], ["pp", "data=1"],
     200, 4.2),
)


def execute(command):
    done = subprocess.run(command, capture_output=True, timeout=300, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr.decode(errors="replace")))
    return done.stderr.decode()


def losses_of(tools, folder, row, layout, settings, steps):
    name, source, extents, depth, _, _, _ = row
    plan, log = os.path.join(folder, "plan"), os.path.join(folder, "%s.%s.jsonl" % (name, layout))
    other = {"layers", "enc", "dec"} - set(depth)
    dims = extents + [dim for dim in TINY if dim.split("=")[0] not in other]
    command = [tools[0], os.path.join(ROOT, "examples", name + ".dsl"), "--parallel", layout, "-o", plan, "--target=cpu"]
    for dim in dims:
        command += ["-D", dim]
    for setting in settings:
        command += ["--set", setting]
    execute(command)
    said = execute([tools[1], plan, "--steps", str(steps), "--log", log,
                    "--data", "%s/*.txt=%s" % (source, os.path.join(ROOT, "docs", "*.md")),
                    "--data", "%s/tokenizer.json=%s" % (source, TOKENIZER)])
    if "warning" in said:
        sys.exit(said)
    with open(log) as file:
        return [event["loss"] for event in map(json.loads, file) if event["event"] == "step"]


def main(tools):
    failed = 0
    for row in TABLE:
        name, _, _, _, (layout, mesh), steps, reached = row
        with tempfile.TemporaryDirectory() as folder:
            serial = losses_of(tools, folder, row, "none", SETTINGS[:2], steps)
            end = sum(serial[-LAST:]) / LAST
            print("%s: loss %.4g at first, %.4g after %d steps" % (name, serial[0], end, steps))
            failed += not end < reached
            split = losses_of(tools, folder, row, layout, SETTINGS + ["parallel.mesh." + mesh], FEW)
            equal = len(split) == FEW and all(abs(a - b) <= NEAR * b for a, b in zip(split, serial))
            print("%s: %s %s" % (name, layout, "as serial" if equal else "%s, serial %s" % (split, serial[:FEW])))
            failed += not equal
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]]))
