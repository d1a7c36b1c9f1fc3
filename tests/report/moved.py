#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kernels of a step read and write, and which of them compute nothing:  moved.py DTC [--bless]

Of each program on one rank: bytes of all kernels and operations of its products, then the kernels that only move elements,
sum them up or cast them. moved.txt has the numbers as they were; who makes them larger says so there."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = ["llama3_8b", "lstm"]
MOVES = {"relabel", "slice", "pad", "concat", "copy", "expand", "reduce", "cast", "add"}


def report(dtc, name):
    path = os.path.join(ROOT, "examples", name + ".dsl")
    done = subprocess.run([dtc, path, "--parallel", "none", "--target=sm_90a", "--no-kernels", "--report=json"], capture_output=True, text=True)
    return json.loads(done.stdout)


def lines_of(dtc, name):
    moves = {}
    said = report(dtc, name)
    for k in said["kernels"]:
        if set(k["name"].split("+")) <= MOVES:
            moves[k["name"]] = moves.get(k["name"], 0) + k["bytes"]
    all_of_it = sum(k["bytes"] for k in said["kernels"]) / 1e9
    return ["%s: %.4g GB, %.4g TFLOP of the model" % (name, all_of_it, said["time"]["model_flops"] / 1e12)] + ["  %s: %.4g GB" % (n, moves[n] / 1e9) for n in sorted(moves)]


def main():
    dtc, bless = sys.argv[1], "--bless" in sys.argv
    got = "\n".join(line for name in PROGRAMS for line in lines_of(dtc, name)) + "\n"
    path = os.path.join(HERE, "moved.txt")
    if bless:
        with open(path, "w") as file:
            file.write(got)
    with open(path) as file:
        good = file.read() == got
    print(got if good else "FAIL moved.txt says something else than this (--bless):\n" + got, end="")
    print("%d passed, %d failed, 0 skipped" % (good, not good))
    return 0 if good else 1


sys.exit(main())
