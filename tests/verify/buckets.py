#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Buckets of gradients that are on their way while the next iteration runs: buckets.py DTC DTRUN.

Layouts of tests/passes/programs/buckets.dsl, on real ranks: the plan has such starts, no instruction meets what one of
them reads or writes (planraces.py), and losses are those of one rank, but for the order in which ranks add up. `dtc
verify` refuses a plan in which a bucket is waited for in the wrong iteration, or not at all."""
import json
import os
import re
import subprocess
import sys
import tempfile

import planraces

PROGRAM = "tests/passes/programs/buckets.dsl"
LAYOUTS = {"two": 2, "three": 2, "small": 2, "both": 2, "levels": 2, "plain": 2, "one": 2, "ahead": 2,
           "further": 2, "late": 2, "later": 3, "late_cut": 2, "late_small": 4, "late_both": 3, "late_two": 2}  # loops that leave a bucket to their result

MUTANTS = ("plain", "ahead", "late", "late_cut")
CARRIED = "INST kind=(reduce_scatter|all_reduce) .*event_step=1"
LATE = "SCHD kind=when "  # around the sum of what micro-batches add up, in the last one


def losses(dtc, dtrun, folder, layout):
    path, log = (os.path.join(folder, layout + end) for end in (".plan", ".jsonl"))
    subprocess.run([dtc, PROGRAM, "--parallel", layout, "-o", path], check=True, capture_output=True)
    subprocess.run([dtrun, path, "--log", log], check=True, capture_output=True)
    events = [json.loads(line) for line in open(log)]
    return path, [event["loss"] for event in events if event["event"] == "step"]


def judge(dtc, path, layout, got, want):
    dump = subprocess.run([dtc, "dump", path], capture_output=True, text=True, check=True).stdout
    left = [line for line in dump.split("\n") if re.match(LATE if layout.startswith("late") else CARRIED, line)]
    if len(left) != LAYOUTS[layout]:
        return "%d buckets are left to their loops" % len(left)
    try:
        planraces.starts(dtc, path)
    except planraces.Race as race:
        return str(race)
    far = [(a, b) for a, b in zip(got, want) if not abs(a - b) <= 2e-5 * abs(b)]
    return "losses %r, serially %r" % far[0] if far or len(got) != len(want) else ""


def changes(lines):
    """(line, what it becomes): a bucket's event, or that of a wait for it, is another slot's or another one at all; a
    sum is done in another micro-batch. Of the loop of five iterations: in one of three, two slots come once again and
    no wait is for nothing."""
    most = max(int(re.search(r" events=(\d+)", line).group(1)) for line in lines if line.startswith("META "))
    late = r"INST kind=(?:all_reduce|reduce_scatter) .*count=\d\d+ event="
    starts = [line for line in lines if re.match(CARRIED, line)] or [line for line in lines if re.match(late, line)]
    longest = max(starts, key=lambda line: int(re.search(r" count=(\d+)", line).group(1)))
    event = int(re.search(r" event=(\d+)", longest).group(1))
    for at, line in enumerate(lines):
        if re.match(LATE, line) and not re.match(CARRIED, max(starts)):
            for first in range(3):
                yield at, re.sub(r"( first=\d+)? count=1", " first=%d count=1" % first, line)
            yield at, re.sub(r" first=3 count=1", " first=2 count=2", line)
        found = re.match(r"INST kind=(?:wait|reduce_scatter|all_reduce) .* event=(\d+)", line)
        if not found or int(found.group(1)) not in (event, event + 1):
            continue
        if " event_step=1" in line:
            yield at, line.replace(" event_step=1", "")
        for other in range(1, most + 1):
            if other != int(found.group(1)):
                yield at, re.sub(r" event=\d+", " event=%d" % other, line)


def refuses(dtc, folder, path):
    """How many changed plans are refused, and the changes that are not."""
    lines = subprocess.run([dtc, "dump", path], capture_output=True, text=True, check=True).stdout.split("\n")
    text, plan = (os.path.join(folder, "changed" + end) for end in (".txt", ".plan"))
    refused, proved = 0, []
    for at, changed in changes(lines):
        with open(text, "w") as file:
            file.write("\n".join(lines[:at] + [changed] + lines[at + 1:]))
        made = subprocess.run([dtc, "asm", text, "-o", plan], capture_output=True).returncode
        if made == 0 and subprocess.run([dtc, "verify", plan], capture_output=True).returncode == 0:
            proved.append(changed)
        refused += 1
    return refused, proved


def main(dtc, dtrun):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        _, want = losses(dtc, dtrun, folder, "none")
        for layout in LAYOUTS:
            path, got = losses(dtc, dtrun, folder, layout)
            problem = judge(dtc, path, layout, got, want)
            n, proved = refuses(dtc, folder, path) if layout in MUTANTS else (8, [])
            problem = problem or "".join("proved with %s" % line for line in proved)
            problem = problem or ("" if n >= 8 else "only %d changes" % n)
            failed += problem != ""
            print("%s: %s" % (layout, problem or "as one rank"))
    print("%d passed, %d failed, 0 skipped" % (len(LAYOUTS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
