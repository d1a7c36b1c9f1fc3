#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Learning curves of gradients in a smaller form beside those of exact data parallelism, and what they cost on slow links:

  compress.py DTC DTRUN [STEPS]

A small language model learns the text of the library on four ranks. Each line has the mean loss of a tenth of the steps, and the bytes
that a rank receives in a step. Below are predicted times of a step of GPT-2 on four machines, by the rate of the links between them."""

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
METHODS = {"exact": "", **{name: "compress %s on data" % name for name in ("int8", "fp8", "one_bit")}}
SMALL = """include "std.dsl"
dim batch = 16, seq = 64, vocab = 256, embed = 64, mid = 256, layers = 2
model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + (n:rmsnorm[embed](x) |> up:linear[embed, mid] |> gelu |> down:linear[mid, embed])
  }
  return out:linear[embed, vocab](x)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(text("%s/lib/*.dsl"))
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  optimizer = adamw(lr = 2e-3)
  steps = %d
}
cluster four { gpus = 4; gpu = "cpu" }
parallel p on four { mesh data = 4; shard batch on data; %s }
"""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def curve(dtc, dtrun, steps, line):
    with open("p.dsl", "w") as file:
        file.write(SMALL % (ROOT, steps, line))
    run(dtc, "p.dsl", "-o", "p.plan")
    run(dtrun, "p.plan", "--quiet", "--log", "log", "--overwrite")
    with open("log") as file:
        events = [json.loads(text) for text in file]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    received = sum(group["received"] for event in events if event["event"] == "traffic" for group in event["groups"])
    tenth = max(steps // 10, 1)
    return [sum(losses[i:i + tenth]) / tenth for i in range(0, steps - tenth + 1, tenth)], received / steps / 4


def predicted(dtc, line, rate):
    with open(os.path.join(ROOT, "examples/gpt2.dsl")) as file:
        text = file.read()
    with open("g.dsl", "w") as file:
        file.write(text + '\ncluster far { nodes = 4; gpus = 1; gpu = "h100-sxm"; inter = link(%s, 50us) }\n'
                   "parallel thin on far { mesh data = 4; shard batch on data; %s }\n" % (rate, line))
    return json.loads(run(dtc, "g.dsl", "-D", "batch=64", "--parallel", "thin", "--no-kernels", "--report=json"))["time"]["step"]


def main(dtc, dtrun, steps):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, line in METHODS.items():
            losses, received = curve(dtc, dtrun, steps, line)
            print("%-7s %s  %.0f bytes" % (name, " ".join("%.4f" % loss for loss in losses), received))
        for rate in ("12.5GB/s", "1.25GB/s", "125MB/s"):
            print("GPT-2, 4 machines, %-9s" % rate, "  ".join("%s %.3f s" % (name, predicted(dtc, line, rate)) for name, line in METHODS.items()))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 200)
