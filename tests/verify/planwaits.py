#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every wait, copy and zeroing of plans, left out:  planwaits.py DTC [PLAN..]

Of each plan for GPUs below (messages of pipelines, gathers ahead, buckets of gradients, all of them together) each `wait`
is removed, one at a time: the certificate refuses the plan without it, and planraces.py, which shares nothing with it, finds what
touches what is on its way. Loops are long enough: where there are as many iterations as slots, a wait that is for the
iteration before last waits for nothing. Each copy and each zeroing, one at a time, goes to memory that nothing else touches: the
certificate refuses that, too."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runtime"))
from layouts import PROGRAM  # noqa: E402

import planraces  # noqa: E402

PLANS = {  # ranks, layers, layout, and the least number of waits
    "buckets": (2, 3, "mesh data = 2; shard batch on data; micro batch = 2", 3),
    "shared": (4, 3, "mesh data = 4; shard batch on data; micro batch = 2; zero 2 on data", 3),
    "ahead": (4, 3, "mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data (prefetch = 1)", 12),
    "further": (2, 5, "mesh data = 2; shard batch on data; zero 3 on data (prefetch = 2)", 12),
    "groups": (4, 3, "mesh data = 2, tensor = 2; shard batch on data; shard heads, ffn on tensor; micro batch = 2; "
                     "zero 3 on data (prefetch = 1)", 12),
    "messages": (2, 2, 'mesh pipe = 2; pipeline h on pipe (schedule = "1f1b"); micro batch = 4', 6),
    "turns": (2, 4, 'mesh pipe = 2; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4', 6),
    "apart": (4, 4, 'mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "zb_h1"); micro batch = 4; '
                    "zero 1 on data", 6),
    "both": (4, 8, 'mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "1f1b"); micro batch = 4; '
                   "zero 3 on data (prefetch = 1)", 12),
    "dual": (4, 16, 'mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "dualpipe_v"); micro batch = 4; '
                   "zero 2 on data", 6),
}
BLOCK = 'cluster here { nodes = 1; gpus = %d; gpu = "h100-sxm" }\nparallel %s on here { %s }\n'


def compile_plan(dtc, folder, name):
    ranks, layers, layout, _ = PLANS[name]
    source, out = (os.path.join(folder, name + end) for end in (".dsl", ".plan"))
    with open(source, "w") as file:
        file.write(PROGRAM + BLOCK % (ranks, name, layout))
    subprocess.run([dtc, source, "--parallel", name, "--target=sm_90a", "--no-kernels", "-D", "layers=%d" % layers, "-o", out],
                   capture_output=True, check=True)
    return out


def number(word, line):
    return int((re.search(r" %s=(\d+)" % word, line) or [0, 0])[1])


def lowered(line, word):
    """The record with one of its numbers reduced by one."""
    now = number(word, line) - 1
    return re.sub(r" %s=\d+" % word, " %s=%d" % (word, now) if now else "", line)


def without(lines, wait):
    """The plan's text without this instruction. Notes do not count waits."""
    kept, insts = [], 0
    for line in lines:
        if line.startswith("INST "):
            insts += 1
            if insts - 1 == wait:
                continue
        elif line.startswith("BODY "):
            first, n = number("first_inst", line), number("n_insts", line)
            if first > wait:
                line = lowered(line, "first_inst")
            elif wait < first + n:
                line = lowered(line, "n_insts")
        kept.append(line)
    return "\n".join(kept)


def elsewhere(lines, inst):
    """The plan's text in which this instruction writes to memory of its own, after the
    activations."""
    places = {tag: [i for i, line in enumerate(lines) if line.startswith(tag + " ")] for tag in ("INST", "ARGS", "AREN", "ASIZ")}
    at, arenas = places["INST"][inst], places["AREN"]
    first, n = number("first_arg", lines[at]), number("n_args", lines[at])
    args = [re.sub(r" # \d+$", "", lines[places["ARGS"][first + i]]) for i in range(n)]
    arena = next(i for i, line in enumerate(arenas) if "kind=activations" in lines[line])
    base = (max(number("bytes", lines[i]) for i in arenas + places["ASIZ"]) + 127) // 128 * 128
    bytes_ = number("bytes", args[0])
    assert "written=1" in args[0] and bytes_, args
    args[0] = "ARGS kind=address arena=%d written=1 base=%d bytes=%d" % (arena, base, bytes_)
    lines = list(lines)
    for i in [arenas[arena]] + places["ASIZ"][arena::len(arenas)]:
        lines[i] = re.sub(r" bytes=\d+", "", re.sub(r" # \d+$", "", lines[i])) + " bytes=%d" % (base + bytes_)
    lines[at] = re.sub(r" first_arg=\d+", "", re.sub(r" # \d+$", "", lines[at])) + " first_arg=%d" % len(places["ARGS"])
    return "\n".join(lines[:places["ARGS"][-1] + 1] + args + lines[places["ARGS"][-1] + 1:])


def is_refused(dtc, text, folder):
    """Whether the certificate refuses the plan; and what else is wrong with it."""
    path = os.path.join(folder, "without")
    with open(path, "w") as file:
        file.write(text)
    made = subprocess.run([dtc, "asm", path, "-o", path + ".plan"], capture_output=True, text=True)
    done = subprocess.run([dtc, "verify", path + ".plan"], capture_output=True, text=True)
    refused = done.returncode == 1 and "is not proved to do what it says: " in done.stderr
    wrong = made.stderr if made.returncode else done.stderr if done.returncode and not refused else ""
    return refused, wrong[:200]


def judge(dtc, text, folder):
    """What happens to a plan without one of its waits."""
    refused, wrong = is_refused(dtc, text, folder)
    if wrong:
        return wrong
    try:
        planraces.starts(dtc, os.path.join(folder, "without.plan"))
    except planraces.Race as race:
        return "refused" if refused else "accepted, and " + str(race)
    return "refused, and there is no race" if refused else "accepted"


def check(dtc, name, folder):
    out = compile_plan(dtc, folder, name)
    lines = subprocess.run([dtc, "dump", out], capture_output=True, text=True, check=True).stdout.split("\n")
    insts = [line for line in lines if line.startswith("INST ")]
    waits = [i for i, line in enumerate(insts) if "kind=wait" in line]
    writes = [i for i, line in enumerate(insts) if re.search("kind=(copy|zero)", line)]
    said = [(wait, judge(dtc, without(lines, wait), folder)) for wait in waits]
    lost = [(inst, is_refused(dtc, elsewhere(lines, inst), folder)) for inst in writes]
    wrong = ["%s: without instruction %d: %s" % (name, wait, what) for wait, what in said if what != "refused"]
    wrong += ["%s: instruction %d elsewhere: %s" % (name, inst, what[1] or "accepted") for inst, what in lost if not what[0]]
    itself = judge(dtc, "\n".join(lines), folder)
    wrong += ["%s itself: %s" % (name, itself)] if itself != "accepted" else []
    wrong += ["%s has %d waits" % (name, len(waits))] if len(waits) < PLANS[name][3] else []
    print("%s: %d of %d waits, %d of %d copies and zeroings" % (name, sum(what == "refused" for _, what in said), len(waits),
                                                                sum(what[0] for _, what in lost), len(writes)), flush=True)
    return wrong


def main(dtc, *names):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or PLANS:
            wrong += check(os.path.abspath(dtc), name, folder)
    for what in wrong:
        print("FAIL", what)
    print("%d passed, %d failed" % (len(names or PLANS), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
