#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Contractions of the examples are computed by a library: products.py DTC. No contraction is printed
as loops. In each of its matrices, elements that are neighbours along rows or along columns are
adjacent in memory."""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A program whose contraction sums over two axes, which the two operands have in opposite orders.
APART = {"diffusion.dsl": 1}
# Programs whose batch takes more memory on one rank than a plan can say.
BATCH = {"gpt_1t.dsl": 64, "llama3_405b.dsl": 16, "deepseek_v3.dsl": 16}


def check(dtc, path):
    name = os.path.basename(path)
    more = ["-D", "batch=%d" % BATCH[name]] if name in BATCH else []
    done = subprocess.run([dtc, path, "--parallel", "none", "--data=synthetic", "--target=cpu", "--no-kernels", "--emit=plan"] + more,
                          capture_output=True, text=True)
    if done.returncode:
        return ["%s: %s" % (name, done.stderr[-300:])]
    wrong = ["%s: %s" % (name, line) for line in re.findall(r'^KERN .*name="dot.*', done.stdout, re.M)]
    apart = []
    for line in re.findall("^GEMM .*", done.stdout, re.M):
        number = {key: int(value) for key, value in re.findall(r"(\w+)=(-?\d+)\b", line)}
        for rows, columns, matrix in (("m", "k", "a"), ("k", "n", "b"), ("m", "n", "c")):
            if min(number[rows], number[columns]) > 1 and 1 not in (number[matrix + "_row"], number[matrix + "_col"]):
                apart.append("%s: %s" % (name, line))
    return wrong + (apart if len(apart) > APART.get(name, 0) else [])


def main(dtc):
    dtc, wrong = os.path.abspath(dtc), []
    paths = sorted(glob.glob(os.path.join(ROOT, "examples", "*.dsl")))
    paths = [path for path in paths if "train {" in open(path).read()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda path: check(dtc, path), paths):
            wrong += found
            print("".join(text + "\n" for text in found), end="")
    failed = len({text.split(":")[0] for text in wrong})
    print("%d passed, %d failed, 0 skipped" % (len(paths) - failed, failed))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
