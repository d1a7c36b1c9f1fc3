#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Optimizers on real ranks:  optimizers.py DTC DTRUN

Each train block of optimizers.dsl, for 20 steps on one rank and on four processes under data and tensor parallelism, ZeRO
1, 2, 3 and in a pipeline. Losses and gradient norms are those of one rank, and so are parameters and states in checkpoints,
under the same names. Sums are taken in another order, so numbers differ by some of 2^-24; what 20 steps make of that is
measured by what the steps changed: a tensor may be off by 2^-12 of its change's norm, with which a rate that is 1 % off, a
state that is not kept or a norm that lacks a part is far outside. Settings of groups have the group's name."""

import array
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "optimizers.dsl")
STEPS = 20
OF_LOSS, OF_CHANGE = 2.0**-18, 2.0**-12
LAYOUTS = {"groups": "dp z2 z3 rows pipe", "whole": "tensor wide z1 pipe", "factored": "dp wide z2 rows cut",
           "orthogonal": "tensor rows z3 pipe"}
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAIL", what)


def run(command, wants=0):
    done = subprocess.run(command, capture_output=True, timeout=100)
    if done.returncode != wants:
        sys.exit("%s\n%s%s" % (" ".join(command), done.stdout.decode(), done.stderr.decode()))
    return (done.stdout + done.stderr).decode()


def tensors_of(path):
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    return {name: array.array("f", data[8 + n + about["data_offsets"][0]:8 + n + about["data_offsets"][1]])
            for name, about in json.loads(data[8:8 + n]).items() if name != "__metadata__"}


def saved(folder, step):
    tensors = {}
    for part in "model", "optimizer":
        path = os.path.join(folder, "step-%08d" % step, part + ".safetensors")
        tensors.update(tensors_of(path) if os.path.exists(path) else {})
    return tensors


def norm(values):
    return sum(x * x for x in values) ** 0.5


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
            check(abs(a - b) <= OF_LOSS * abs(b) * (1 + i), "%s: step %d: %r instead of %r" % (what, i + 1, a, b))
    check(sorted(got.end) == sorted(want.end), "%s: its checkpoint has other tensors" % what)
    for name in set(got.end) & set(want.end):
        first = begin.get(name) or [0.0] * len(want.end[name])
        change = norm([a - b for a, b in zip(want.end[name], first)])
        off = norm([a - b for a, b in zip(got.end[name], want.end[name])])
        check(off <= OF_CHANGE * change, "%s: `%s` is off by %g, and 20 steps change it by %g" % (what, name, off, change))


def check_groups(tools, serial, begin):
    """States are those of each group's optimizer; a rate is set by its group's name."""
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
    print("%d failures" % len(failures))
    sys.exit(bool(failures))


main()
