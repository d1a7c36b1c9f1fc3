#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A loss that is a mean over the positions that a mask selects: masked.py DTC. The number of these
positions does not depend on the logits. So one kernel computes the loss and its gradient, as for a
plain mean: it reads the logits and writes their gradient. If the divisor depends on the logits,
there are two kernels. Both programs are proved, and their results compared with the
interpreter's."""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = """include "std.dsl"
dim batch = 8, seq = 64, vocab = 1000, embed = 64
model lm(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  return layernorm[embed](wte[vocab = tokens]) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  each = xent[vocab](lm(tokens), labels)
  %s
  optimizer = sgd(lr = constant(1e-3))
  steps = 2
}
cluster two { nodes = 1; gpus = 2; gpu = "cpu" }
parallel dp on two { mesh data = 2; shard batch on data }
parallel tp on two { mesh tensor = 2; shard vocab on tensor }
"""
KEEP = "keep = f32(labels % 7 > 0)\n  "
ONE = {
    "plain": "loss = mean[batch, seq](each)",
    "mask": KEEP + "loss = sum[batch, seq](each * keep) / sum[batch, seq](keep)",
    "at least one": KEEP + "loss = sum[batch, seq](each * keep) / max(sum[batch, seq](keep), 1)",
    "chosen": "keep = labels != 3\n  loss = sum[batch, seq](where(keep, each, 0)) / sum[batch, seq](f32(keep))",
    "in each sequence": KEEP + "loss = mean[batch](sum[seq](each * keep) / sum[seq](keep))",
}
TWO = {"divided by itself": "loss = sum[batch, seq](each * each) / sum[batch, seq](each)"}


def dtc(path, *options):
    run = subprocess.run([sys.argv[1], path, "--target=cpu", *options], capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def readers(text):
    """The number of kernels of the gradient that read the logits. The logits are the only product with
    their axes; values with the same layout in memory count as well."""
    grad = re.search(r"^func grad : entry.*?^}", text, re.M | re.S).group(0)
    logits = re.search(r"(%\S+) = dot\[embed\]", grad).group(1)
    return sum(logits in re.findall(r"%[\w.]+", line.split("fused")[1]) for line in grad.splitlines() if "= fused" in line)


def main():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, wanted in (("one", ONE), ("two", TWO)):
            for name, loss in wanted.items():
                path = os.path.join(folder, name.replace(" ", "_") + ".dsl")
                with open(path, "w") as file:
                    file.write(PROGRAM % loss)
                count = readers(dtc(path, "--parallel=none", "--print-after=fuse", "--no-kernels")[1])
                if count != {"one": 1, "two": 2}[kind]:
                    wrong.append("%s: %d kernels read the logits" % (name, count))
                for layout in ("none", "dp", "tp"):
                    code, text = dtc(path, "--parallel=" + layout, "--verify")
                    if code:
                        wrong.append("%s, %s: %s" % (name, layout, text))
    print("\n".join(wrong))
    print("%d passed, %d failed, 0 skipped" % (4 * len(ONE | TWO) - len(wrong), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
