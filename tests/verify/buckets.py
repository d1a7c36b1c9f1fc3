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
           "further": 2, "late": 2, "later": 3, "late_cut": 2, "late_small": 4, "late_both": 3, "late_two": 2,
           "adds": 2, "adds_three": 2, "adds_small": 2, "adds_both": 2, "adds_levels": 2, "adds_pipe": 2, "adds_zb": 2,
           "adds_chunks": 3, "adds_ahead": 2, "adds_ahead_pipe": 9, "late_pipe": 3, "late_zb": 3, "late_chunks": 4,
           "late_dual": 10}  # loops whose last bucket becomes a result of the loop

MUTANTS = ("plain", "ahead", "late", "late_cut", "adds", "adds_pipe", "adds_ahead", "late_pipe", "late_chunks")
CARRIED = "INST kind=(reduce_scatter|all_reduce) .*event_step=1"
LATE = "SCHD kind=when "  # around the sum of what micro-batches accumulate, in the last micro-batch


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
        # after the loop it may be slot 0
        if " event_step=1" in line and at <= lines.index(longest):
            yield at, line.replace(" event_step=1", "")
        for other in range(1, most + 1):
            if other != int(found.group(1)):
                yield at, re.sub(r" event=\d+", " event=%d" % other, line)
    yield from added(lines)


def added(lines):
    """The same of what is added to a result once it has come to its slot: it is of another iteration, or slot, is added
    in an iteration more, or less, or the ring does not turn."""
    items = [line for line in lines if line.startswith("SCHD ")]
    bodies = [line for line in lines if line.startswith("BODY ")]
    insts = [line for line in lines if line.startswith("INST ")]
    for at, line in enumerate(lines):
        found = re.match(r"SCHD kind=when (reg=\d+)(?: first=(\d+))? body=1 count=(\d+) # (\d+)", line)
        if not found:
            continue
        first, count, number = int(found.group(2) or 0), int(found.group(3)), int(found.group(4))
        body = re.search(r" body=(\d+)", items[number + 1])
        inst = re.search(r" first_inst=(\d+)", bodies[int(body.group(1))])
        if not insts[int(inst.group(1))].startswith("INST kind=kernel "):
            continue
        arg = int(re.search(r" first_arg=(\d+)", insts[int(inst.group(1))]).group(1))
        for a, n in ((first, count - 1), (first, count + 1), (first + 1, count - 1), (first + 1, count)):
            yield at, "SCHD kind=when %s first=%d body=1 count=%d # %d" % (found.group(1), a, n, number)
        for k in (arg, arg + 1):
            yield from moved(lines, k)
        for back in range(1, 4):  # the item before it that turns the ring
            if items[number - back].startswith("SCHD kind=set reg=7 "):
                place = lines.index(items[number - back])
                yield place, lines[place].replace(" first=1", "")
                yield place, lines[place].replace(" count=2", " count=3")
                break


def moved(lines, number):
    """Moves the argument by one slot, or by one iteration."""
    for at, line in enumerate(lines):
        if line.startswith("ARGS ") and line.endswith(" # %d" % number):
            base = int(re.search(r" base=(\d+)", line).group(1)) if " base=" in line else 0
            steps = [int(step) for step in re.search(r" reg=\(([^)]*)\)", line).group(1).split(",") if int(step)]
            bare = re.sub(r" base=\d+", "", line)
            for away in (steps[0], -steps[0]):
                if base + away >= 0:
                    yield at, bare.replace(" bytes=", " base=%d bytes=" % (base + away))


def refuses(dtc, folder, path):
    """The number of changed plans that are refused, and the changes that are not refused."""
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
