#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of model states beside table 1 of "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (SC20):
what parameters, gradients and Adam's states take on a rank, for three sizes of models, 1 to 1,024 replicas and three
levels. Parameters and gradients of 16 bits, the optimizer's part of 12 bytes: with N parameters over n ranks
4 N + 12 N / n bytes, 2 N + 14 N / n, 16 N / n. Plans must have that, but for what rounds runs of buckets up (a ten
thousandth), and the table's digits, some of which its authors cut instead of rounding. Gradients of two micro-batches
add up: with one, level 1 needs no more memory for gradients than level 2.

    zero_table.py DTC"""

import json
import os
import subprocess
import sys
import tempfile

# number of layers and width of their matrices; GB on a rank by level, for 1, 4, 16, 64, 256, 1024
# replicas
MODELS = {
    "7.5B": (75, 10_000, (120, 52.5, 35.6, 31.4, 30.4, 30.1), (120, 41.3, 21.6, 16.6, 15.4, 15.1),
             (120, 30, 7.5, 1.88, 0.47, 0.12)),
    "128B": (20, 80_000, (2048, 896, 608, 536, 518, 513), (2048, 704, 368, 284, 263, 257),
             (2048, 512, 128, 32, 8, 2)),
    "1T": (100, 100_000, (16000, 7000, 4750, 4187, 4046, 4011), (16000, 5500, 2875, 2218, 2054, 2013),
           (16000, 4000, 1000, 250, 62.5, 15.6)),
}
REPLICAS = (1, 4, 16, 64, 256, 1024)
PROGRAM = """
dim batch = 2048, width = WIDTH, wider = width, layers = LAYERS
model m(x[batch, width]) -> [batch, width] {
  repeat h in layers { param w[width, wider] = normal(0.02); x = (x @width w)[wider -> width] }
  return x
}
train {
  x[batch, width] = synthetic(-1, 1)
  loss = sum[batch, width](m(x))
  optimizer = adamw(lr = constant(1e-3))
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = bf16, reduce = bf16)
  steps = 10
}
cluster many { nodes = 1; gpus = RANKS; gpu = "cpu" }
parallel it on many { mesh data = RANKS; shard batch on data; micro batch = 2; ZERO }
"""


def states(dtc, folder, layers, width, ranks, level):
    path = os.path.join(folder, "it.dsl")
    text = PROGRAM
    for key, value in (("WIDTH", width), ("LAYERS", layers), ("RANKS", ranks), ("ZERO", f"zero {level} on data")):
        text = text.replace(key, str(value))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    run = subprocess.run([dtc, path, "--report=json"], capture_output=True, text=True, check=False)
    if not run.stdout:
        sys.exit(run.stderr)
    arenas = json.loads(run.stdout)["memory"]["stages"][0]
    return sum(arenas[kind] for kind in ("parameters", "gradients", "optimizer"))


def main():
    dtc = os.path.abspath(sys.argv[1])
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (layers, width, *table) in MODELS.items():
            n = layers * width * width
            for level, row in enumerate(table, 1):
                for ranks, published in zip(REPLICAS, row):
                    alone, shared = ((4, 12), (2, 14), (0, 16))[level - 1]
                    wanted = alone * n + shared * n // ranks
                    found = states(dtc, folder, layers, width, ranks, level)
                    digits = abs(found / 1e9 - published) <= (0.003 if published >= 1 else 0.03) * published
                    if 0 <= found - wanted + 1 <= 1e-4 * wanted + 1 and digits:
                        passed += 1
                    else:
                        failed += 1
                        print(f"{name}, zero {level}, {ranks} ranks: {found}, {wanted} wanted; published {published} GB")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
