#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimizers on real ranks:  optimizers.py DTC DTRUN

Each train block of optimizers.dsl, for 20 steps on one rank and on four processes under data and tensor parallelism, ZeRO
1, 2, 3 and in a pipeline. Losses and gradient norms are those of one rank, and so are parameters and states in checkpoints,
under the same names. Sums are taken in another order, so numbers differ by some of 2^-24; what 20 steps make of that is
measured by what the steps changed: a tensor may be off by 2^-12 of its change's norm, with which a rate that is 1 % off, a
state that is not kept or a norm that lacks a part is far outside. Settings of groups have the group's name."""

import json
import os
import re
import sys
import tempfile

from runs import OF_VALUE, check, compare_tensors, failures, run, saved

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "optimizers.dsl")
STEPS = 20
LAYOUTS = {"groups": "dp z2 z3 rows pipe", "whole": "tensor wide z1 pipe", "factored": "dp wide z2 rows cut",
           "orthogonal": "tensor rows z3 pipe"}


class Run:
    def __init__(self, tools, train, layout, *options):
        name = "%s_%s%s" % (train, layout, "".join(options))
        run([tools[0], PROGRAM, "--train", train, "--parallel", layout, "-o", name + ".plan"])
        run([tools[1], name + ".plan", "--log", name + ".jsonl", "--save", name, *options])
        with open(name + ".jsonl") as file:
            events = [json.loads(line) for line in file]
        self.steps = [(e["loss"], e["grad_norm"]) for e in events if e["event"] == "step"]
        self.end = saved(name, STEPS)
        self.plan = name + ".plan"


def compare(what, got, want, begin):
    check(len(got.steps) == STEPS, "%s: %d steps" % (what, len(got.steps)))
    for i, (mine, serial) in enumerate(zip(got.steps, want.steps)):
        for a, b in zip(mine, serial):
            check(abs(a - b) <= OF_VALUE * abs(b) * (1 + i), "%s: step %d: %r instead of %r" % (what, i + 1, a, b))
    compare_tensors(what, got.end, want.end, begin)


def check_groups(tools, serial, begin):
    """The states are those of each group's optimizer; the learning rate of a group is set by the
    group's name."""
    names = set(serial.end)
    for name in begin:
        if name.startswith("moment"):
            continue
        has = [(state + name) in names for state in ("moment1.", "moment2.")]
        adam = not (name in ("wte", "heat") or ".n." in name or name.endswith(".b0"))
        check(has == [True, adam], "groups: `%s` has states %s" % (name, has))
    still = Run(tools, "groups", "none", "--set", "tables.lr.base=0")
    check(still.end["wte"] == begin["wte"] and still.end["heat"] == begin["heat"], "tables.lr.base=0 moves `wte` or `heat`")
    check(still.end["h.0.block.up.w"] != begin["h.0.block.up.w"], "tables.lr.base=0 stops all")
    said = run([tools[1], serial.plan, "--quiet", "--set", "table.lr.base=1"], 2)
    check("did you mean `tables.lr.base`" in said, "table.lr.base: " + said)
    run([tools[0], PROGRAM, "--train", "groups", "--parallel", "none", "--set", "groups.tables.lr=0", "-o", "set.plan"])
    run([tools[1], "set.plan", "--quiet", "--save", "set"])
    check(saved("set", STEPS)["wte"] == begin["wte"], "--set groups.tables.lr=0 moves `wte`")


def check_owned(tools):
    """Each rank orthogonalises the matrices of the layers that it owns, and no others."""
    for layout, split in ("z1", "layers=4/data"), ("rows", "layers=4/data"), ("pipe", "layers=2/data"):
        text = run([tools[0], PROGRAM, "--train", "orthogonal", "--parallel", layout, "--no-kernels", "--print-after=zero"])
        dots = re.findall(r"= dot\[muon.* : f32\[([^,]*),", text)
        check(len(dots) >= 30 and set(dots) == {split}, "%s: products of %s" % (layout, sorted(set(dots))))


def main():
    tools = [os.path.abspath(path) for path in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for train in sys.argv[3:] or LAYOUTS:
            serial = Run(tools, train, "none")
            run([tools[1], serial.plan, "--quiet", "--steps", "0", "--save", "begin_" + train])
            begin = saved("begin_" + train, 0)
            for layout in LAYOUTS[train].split():
                compare("%s, %s" % (train, layout), Run(tools, train, layout), serial, begin)
            if train == "groups":
                check_groups(tools, serial, begin)
            if train == "orthogonal":
                check_owned(tools)
    print("%d failures" % len(failures))
    sys.exit(bool(failures))


main()
