#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a gated layer, silu(gate) * up, costs in memory and traffic: gated.py DTC. A layer of
examples/llama3_8b.dsl: forward reads gate and up and writes their product; backward reads both and
the gradient of the product, and writes the product again, for the gradient of the next weight, and
the gradients of both. No other values of that size are saved than gate and up. Backward evaluates
the exponential once, although it computes both silu and its derivative."""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = "batch=4 seq=32 vocab=256 layers=3 embed=64 ffn=160".split()
TOKENS, EMBED, KEYS, FFN, HEADS = 256 * 8192, 4096, 1024, 14336, 32


def run(dtc, *options):
    path = os.path.join(ROOT, "examples", "llama3_8b.dsl")
    always = ["--parallel", "none", "--data=synthetic", "--no-kernels"]
    return subprocess.run([dtc, path, *always, *options], capture_output=True, text=True).stdout


def main(dtc):
    dtc, wrong = os.path.abspath(dtc), []
    for target in ("cpu", "sm_90a"):
        report = json.loads(run(dtc, "--report=json", "--target=" + target))
        kernels = [k for k in report["kernels"] if k.get("path") == "swiglu"]
        moved = [round(k["bytes"] / k["runs"] / (2 * TOKENS * FFN)) for k in kernels]
        if sorted(moved) != [3, 6]:
            wrong.append("%s: kernels move %s tensors, not 3 and 6" % (target, moved))
        # saved values: two inputs and outputs of norms, queries, attention, keys, values, gate,
        # up; statistics of attention
        saved = TOKENS * (2 * (6 * EMBED + 2 * KEYS + 2 * FFN) + 2 * 4 * HEADS)
        if report["saved"][0]["saved"] != saved:
            wrong.append("%s: a layer saves %d bytes, not %d" % (target, report["saved"][0]["saved"], saved))
    text = run(dtc, "--emit=c", "--target=cpu", *[word for dim in SMALL for word in ("-D", dim)])
    bodies = [body for body in re.split(r"^/\* ", text, flags=re.M) if body.startswith("lt+neg+where+exp")]
    counts = [body.count("dt_exp(") for body in bodies]
    if not counts or max(counts) > 1:
        wrong.append("kernels of silu evaluate exponentials: %s" % counts)
    print("\n".join(wrong))
    print("%d passed, %d failed, 0 skipped" % (0 if wrong else 1, 1 if wrong else 0))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
