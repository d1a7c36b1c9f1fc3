#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kernels of a step read and write, and which of them compute nothing:  moved.py DTC [--bless]

Of each program on one rank: bytes of all kernels and operations of its products, then the kernels that only move elements,
sum them up or cast them. moved.txt has the numbers as they were; who makes them larger says so there. Of GPT-2 124M with 32
sequences also what a layer costs, forward and backward, which has a limit: bytes of its kernels but attention, which has
products in it, and how many launches one layer more makes, kernels in pieces twice, products and copies among them."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/verify"))
import planraces  # noqa: E402

PROGRAMS = ["llama3_8b", "lstm"]
MOVES = {"relabel", "slice", "pad", "concat", "copy", "expand", "reduce", "cast", "add"}


MOST_GB, MOST_LAUNCHES = 1.2, 40  # bytes and launches of a layer of GPT-2


GPT2 = [os.path.join(ROOT, "examples/gpt2.dsl"), "--parallel", "none", "--target=sm_90a", "--epilogues=all", "-D", "batch=32"]


def report(dtc, *arguments):
    done = subprocess.run([dtc, *arguments, "--no-kernels", "--report=json"], capture_output=True, text=True)
    return json.loads(done.stdout)


def launches(dtc, folder, layers):
    """Launches of a step: kernels (those in pieces count twice), products, copies and zeroings."""
    path = os.path.join(folder, "plan")
    subprocess.run([dtc, *GPT2, "-D", "layers=%d" % layers, "--no-kernels", "-o", path], capture_output=True, check=True)
    plan = planraces.tables(subprocess.run([dtc, "dump", path], capture_output=True, text=True, check=True).stdout)
    n = 0
    for entry in plan["ENTR"]:
        first, turns = entry.get("first", 0), [1]
        for item in plan["SCHD"][first:first + entry.get("count", 0)] if entry["name"] in ('"step"', '"update"') else []:
            turns = turns + [turns[-1] * item["count"]] if item["kind"] == "loop" else turns[:-1] if item["kind"] == "end" else turns
            body = plan["BODY"][item.get("body", 0)] if item["kind"] == "run" else {}
            for inst in plan["INST"][body.get("first_inst", 0):][:body.get("n_insts", 0)]:
                pieces = inst["kind"] == "kernel" and plan["LNCH"][inst.get("ref", 0)].get("finish", 0)
                n += turns[-1] * (2 if pieces else 1)
    return n


def layer(dtc):
    """What one layer costs, as text; and whether that is too much."""
    layers = 12
    said = report(dtc, *GPT2)
    of_layer = [k["bytes"] / layers for k in said["kernels"] if k["runs"] % layers == 0 and "dot" not in k["name"].split("+")]
    with tempfile.TemporaryDirectory() as folder:
        more = launches(dtc, folder, layers + 1) - launches(dtc, folder, layers)
    moved = sum(of_layer) / 1e9
    return "gpt2, a layer: %.4g GB, %d launches" % (moved, more), moved > MOST_GB or more > MOST_LAUNCHES or not of_layer


def lines_of(dtc, name):
    moves = {}
    said = report(dtc, os.path.join(ROOT, "examples", name + ".dsl"), "--parallel", "none", "--target=sm_90a")
    for k in said["kernels"]:
        if set(k["name"].split("+")) <= MOVES:
            moves[k["name"]] = moves.get(k["name"], 0) + k["bytes"]
    all_of_it = sum(k["bytes"] for k in said["kernels"]) / 1e9
    return ["%s: %.4g GB, %.4g TFLOP of the model" % (name, all_of_it, said["time"]["model_flops"] / 1e12)] + ["  %s: %.4g GB" % (n, moves[n] / 1e9) for n in sorted(moves)]


def main():
    dtc, bless = sys.argv[1], "--bless" in sys.argv
    of_layer, too_much = layer(dtc)
    got = "\n".join([line for name in PROGRAMS for line in lines_of(dtc, name)] + [of_layer]) + "\n"
    path = os.path.join(HERE, "moved.txt")
    if bless:
        with open(path, "w") as file:
            file.write(got)
    with open(path) as file:
        good = file.read() == got and not too_much
    print(got if good else "FAIL moved.txt says something else than this (--bless), or a layer costs more than %.1f GB, %d launches:\n%s"
          % (MOST_GB, MOST_LAUNCHES, got), end="")
    print("%d passed, %d failed, 0 skipped" % (good, not good))
    return 0 if good else 1


sys.exit(main())
