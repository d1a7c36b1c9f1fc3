#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What MFU and HFU count:  utilisation.py DTC

Of a model the operations are those of the formula that papers use, 6 for each weight of a product and token and 12 for each
pair of positions, channel and layer: of attention all scores, and none of them twice. HFU counts all scores, too, and what
is computed again; it is never below MFU. Of cuDNN's attention the text says the traffic of the gradients of all scores, where
its workspace has room for them."""

import json
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# number of weights of products, layers, channels of all heads, positions, tokens of a step
MODELS = {
    "llama3_8b": (8030261248 - 128256 * 4096 - 65 * 4096, 32, 4096, 8192, 256 * 8192),
    "gpt2": (12 * 12 * 768 * 768 + 768 * 50257, 12, 768, 1024, None),
}
# example and options
LAYOUTS = [
    ("llama3_8b", ["--parallel", "none"]),
    ("llama3_8b", ["--parallel", "d3"]),
    ("llama3_8b", ["--parallel", "d3", "--add", "remat h"]),
    ("gpt2", ["--parallel", "none"]),
    ("bert", ["--parallel", "none", "--data", "synthetic"]),
    ("moe", ["--parallel", "none"]),
    ("vit", ["--parallel", "none", "--data", "synthetic"]),
]


def report(dtc, name, options):
    done = subprocess.run(
        [dtc, EXAMPLES / f"{name}.dsl", "--report=json", *options], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout) if done.returncode in (0, 4) else done.stderr


def look(dtc, name, options):
    found = report(dtc, name, options)
    if not isinstance(found, dict):
        return found
    time = found["time"]
    if time["hfu"] < time["mfu"] * (1 - 1e-9) or time["flops"] < time["model_flops"] * (1 - 1e-9):
        return f"HFU {time['hfu']} below MFU {time['mfu']}"
    if "remat h" in options and time["hfu"] < 1.2 * time["mfu"]:
        return f"HFU {time['hfu']}, MFU {time['mfu']}: nothing is computed again"
    if name in MODELS:
        weights, layers, channels, positions, tokens = MODELS[name]
        tokens = tokens or found["tokens"]
        formula = tokens * (6 * weights + 12 * layers * channels * positions)
        if abs(time["model_flops"] - formula) > 1e-3 * formula:
            return f"{time['model_flops']:.4e} operations, by the formula {formula:.4e}"
    return None


def look_at_scores(dtc):
    """GPT-2 on 16 ranks: 512 samples, 12 layers and heads. With 8,192 positions the gradients of
    scores need 12 GiB."""
    texts = [
        subprocess.run([dtc, EXAMPLES / "gpt2.dsl", "--report", "-D", f"seq={n}"], capture_output=True, text=True).stdout
        for n in (1024, 8192)
    ]
    gib = 2 * 2 * 512 * 12 * 12 * 1024 * 1024 / 16 / 2**30
    wanted = f"stores and reads gradients of scores (not on sm_10x): {gib:.1f} GiB a rank in a step, at least 5.77 ms\n"
    if wanted not in texts[0] or "up to 198 MiB more" not in texts[1] or "gradients of scores" in texts[1]:
        return "\n".join(texts)
    return None


def main():
    failed = 0
    wrong = look_at_scores(sys.argv[1])
    if wrong:
        print(wrong)
        sys.exit(1)
    for name, options in LAYOUTS:
        wrong = look(sys.argv[1], name, options)
        failed += wrong is not None
        if wrong:
            print(f"{name} {' '.join(options)}: {wrong}")
    print(f"{len(LAYOUTS) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
