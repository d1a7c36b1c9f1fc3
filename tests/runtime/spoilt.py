#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps whose loss or norm is not finite:  spoilt.py DTC FLAKY DTRUN [N]

A kernel on one rank leaves NaN once (flaky.c): the step is repeated, ends otherwise, and the run ends with 75 and the name of that rank;
with --restarts the parameters are those of an undisturbed run. A program that computes NaN does so again: the run ends with 1 and names
the kernel. A parameter that a fault spoilt stays so, and replicas tell which rank's it is. N: kernels, drawn for each layout."""

import os
import random
import re
import sys
import tempfile
import subprocess

from runs import CLUSTERS, NET, check, failures, run, saved, write_tokens

PROGRAM = NET.replace("batch = 4", "batch = 8") + """  optimizer = adamw(lr = 0.01, clip = 1.0)
  steps = 6
  save = every(2, keep = 1)
}
""" + CLUSTERS + """parallel pair on two { mesh data = 2; shard batch on data }
parallel zero on four { mesh data = 2, tensor = 2; shard batch on data; shard mid on tensor; zero 3 on data }
parallel pipe on four { mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe; micro batch = 2 }
parallel many on four { mesh data = 4; shard batch on data; micro batch = 2; zero 1 on data }
"""
RANKS = {"none": 1, "pair": 2, "zero": 4, "pipe": 4, "many": 4}
LOG = "x = x + 0.0 * log(x - x - 1)\n    x = x + (n:rms"


def once():
    with open("once", "w"):
        return os.path.abspath("once")


def faulty(tools, layout, rank, step, kernel, *options):
    """Runs the plan where that kernel leaves NaN. Returns the exit code and the messages."""
    done = subprocess.run([tools[1], layout + ".plan", "--quiet", *options], stderr=subprocess.PIPE, text=True, timeout=100,
                          env=dict(os.environ, FLAKY_NAN="%d %d %d %s" % (rank, step, kernel, once())))
    check(not os.path.exists("once"), "%s: rank %d, kernel %d: no fault was made" % (layout, rank, kernel))
    return done.returncode, done.stderr


def test_once(tools, layout, rank, kernel):
    what = "%s, rank %d, kernel %d: " % (layout, rank, kernel)
    code, said = faulty(tools, layout, rank, 3, kernel, "--save", "out", "--overwrite")
    check(code == 75, what + "exit code %d: %s" % (code, said))
    named = re.search(r"rank (\d) failed: the (loss|gradient norm) of step 3 was not a number, and is \S+ when the step is repeated", said)
    check(named and int(named.group(1)) == rank, what + said)
    check(RANKS[layout] == 1 or "rank %d gave the first such value to others" % rank in said, what + said)
    check(os.listdir("out") and not os.path.exists("out/step-00000003"), what + "the step is saved")


def test_restart(tools, layout):
    run([tools[2], layout + ".plan", "--quiet", "--save", "whole", "--overwrite"])
    code, said = faulty(tools, layout, RANKS[layout] - 1, 4, 2, "--save", "out", "--overwrite", "--restarts", "1")
    check(code == 0 and "starting again (1 of 1)" in said, "%s: %d: %s" % (layout, code, said))
    if code == 0:
        want, got = saved("whole", 6), saved("out", 6)
        check(all(want[name] == got[name] for name in want), layout + ": other parameters after a restart")


def test_same(tools, layout):
    done = subprocess.run([tools[2], layout + ".log.plan", "--quiet"], stderr=subprocess.PIPE, text=True, timeout=100)
    said = done.stderr
    check(done.returncode == 1 and "the loss of step 1 is not a number" in said, said)
    check("The step was repeated, with the same result; rank" in said and "makes the first such value" in said, said)
    check("in step 1, instruction" in said and "+log+" in said, said)  # a fused kernel, named by its ops


def main(tools, n):
    draw = random.Random(11)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        with open("p.dsl", "w") as file:
            file.write(PROGRAM)
        faults = PROGRAM.replace("x = x + (n:rms", LOG)
        with open("p.log.dsl", "w") as file:
            file.write(faults)
        for layout in RANKS:
            run([tools[0], "p.dsl", "--parallel", layout, "-o", layout + ".plan"])
            for _ in range(n or 2):
                test_once(tools, layout, draw.randrange(RANKS[layout]), draw.randrange(1000))
        for layout in ("pipe", "zero"):
            test_restart(tools, layout)
        for layout in ("none", "pair", "pipe"):
            run([tools[0], "p.log.dsl", "--parallel", layout, "-o", layout + ".log.plan"])
            test_same(tools, layout)
    print("spoilt: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:4]], int(sys.argv[4]) if len(sys.argv) > 4 else 0))
