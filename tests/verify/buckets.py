#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Buckets of gradients that are on their way while the next iteration runs: buckets.py DTC DTRUN.

Layouts of tests/passes/programs/buckets.dsl, on real ranks: the plan has such starts, no instruction meets what one of
them reads or writes (planraces.py), and losses are those of one rank, but for the order in which ranks add up."""
import json
import os
import subprocess
import sys
import tempfile

import planraces

PROGRAM = "tests/passes/programs/buckets.dsl"
LAYOUTS = {"two": 2, "three": 2, "small": 2, "both": 2, "levels": 2}  # loops that leave a bucket to their result


def losses(dtc, dtrun, folder, layout):
    path, log = (os.path.join(folder, layout + end) for end in (".plan", ".jsonl"))
    subprocess.run([dtc, PROGRAM, "--parallel", layout, "-o", path], check=True, capture_output=True)
    subprocess.run([dtrun, path, "--log", log], check=True, capture_output=True)
    events = [json.loads(line) for line in open(log)]
    return path, [event["loss"] for event in events if event["event"] == "step"]


def judge(dtc, path, layout, got, want):
    dump = subprocess.run([dtc, "dump", path], capture_output=True, text=True, check=True).stdout
    left = [line for line in dump.split("\n") if line.startswith("INST kind=reduce_scatter") and "event_step=1" in line]
    if len(left) != LAYOUTS[layout]:
        return "%d buckets are left to their loops" % len(left)
    try:
        planraces.starts(dtc, path)
    except planraces.Race as race:
        return str(race)
    far = [(a, b) for a, b in zip(got, want) if not abs(a - b) <= 2e-5 * abs(b)]
    return "losses %r, serially %r" % far[0] if far or len(got) != len(want) else ""


def main(dtc, dtrun):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        _, want = losses(dtc, dtrun, folder, "none")
        for layout in LAYOUTS:
            path, got = losses(dtc, dtrun, folder, layout)
            problem = judge(dtc, path, layout, got, want)
            failed += problem != ""
            print("%s: %s" % (layout, problem or "as one rank"))
    print("%d passed, %d failed, 0 skipped" % (len(LAYOUTS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
