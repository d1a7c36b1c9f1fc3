#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bubbles of pipelines beside published ones:  bubbles.py DTC BUBBLES

Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), tables 5 and 6: times of forward, backward, weight gradient and
message of twelve runs, and the bubble of each schedule that the authors' own simulation finds with them. Here the same
schedules are compiled, and their plans simulated with those times."""

import os
import subprocess
import sys
import tempfile

# stages, micro-batches, times of F, B, W and a message in ms, bubbles of 1f1b, zb_h1 and
# interleaved_1f1b, and the number of chunks of a stage in the latter
ROWS = (
    (8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1055, 3),
    (8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0818, 3),
    (8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0443, 3),
    (8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0808, 4),
    (8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0628, 4),
    (8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0320, 4),
    (16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.1104, 3),
    (16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0852, 3),
    (16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0445, 3),
    (32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1421, 0.1493, 2),
    (32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.1164, 2),
    (32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0594, 0.0624, 2),
)
MOST = {"1f1b": 0.001, "zb_h1": 0.001, "interleaved_1f1b": 0.005}


def program(stages, layers):
    return f"""
dim batch = 512, embed = 4, ffn = 8, layers = {layers}
layer mlp(x[batch, embed]) -> [batch, embed] {{
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}}
model tiny(x[batch, embed]) -> [batch, embed] {{
  param gain[embed] = normal(1.0)
  x = x * gain
  repeat h in layers {{ x = x + mlp(x) }}
  return x
}}
train {{
  f32 x[batch, embed] = synthetic(-1.0, 1.0)
  loss = sum[batch, embed](tiny(x) * x)
  optimizer = sgd(lr = 0.1)
  steps = 10
}}
cluster many {{ nodes = {stages}; gpus = 1; gpu = "cpu" }}
parallel piped on many {{ mesh pipe = {stages}; pipeline h on pipe (schedule = "1f1b"); micro batch = 8 }}
"""


def main():
    dtc, bubbles = (os.path.abspath(path) for path in sys.argv[1:3])
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for stages, micro, *times, of_1f1b, of_zb, of_interleaved, chunks in ROWS:
            batch = micro * max(1, 512 // micro)
            for schedule, wanted, pieces in (("1f1b", of_1f1b, 1), ("zb_h1", of_zb, 1),
                                             ("interleaved_1f1b", of_interleaved, chunks)):
                with open("program.dsl", "w", encoding="utf-8") as file:
                    file.write(program(stages, stages * pieces))
                subprocess.run(
                    [dtc, "program.dsl", "--no-kernels", "-D", f"batch={batch}", "--set", f"piped.micro={micro}", "--set",
                     f"piped.pipeline.schedule={schedule}", "--set", f"piped.pipeline.chunks={pieces}", "-o", "plan"],
                    check=True, stderr=subprocess.DEVNULL)
                *work, message = times
                of_piece = [str(time / pieces) for time in work] + [str(message)]
                said = subprocess.run([bubbles, "plan", *of_piece], capture_output=True, text=True, check=True)
                # the schedule with several chunks counts the work of one piece for each micro-batch
                found = 1 - pieces * (1 - float(said.stdout))
                if abs(found - wanted) <= MOST[schedule]:
                    passed += 1
                else:
                    failed += 1
                    print(f"{schedule}, {stages} stages, {micro} micro-batches: {found:.4f}, published {wanted:.4f}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
