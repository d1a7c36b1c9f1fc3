#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What products do with their results: epilogues.py DTC. Layers are written in several ways; --print-after=fuse says what
became of them, for a processor with --epilogues=all and for a GPU, the certificate proves both plans, and --verify runs the machine
code of the first beside the interpreter."""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = """include "std.dsl"
dim batch = 8, seq = 4, a = 16, b = 24, classes = 8, layers = 2
%s
model m(x[batch, seq, a]) -> [batch, seq, classes] {
  repeat h in layers { x = x + down:linear[b, a](f:hidden(x), bias = false) }
  return out:linear[a, classes](x, bias = false)
}
train {
  f32 x[batch, seq, a] = synthetic(-1, 1)
  i32 y[batch, seq] = synthetic(0, classes)
  loss = mean[batch, seq](xent[classes](m(x), y))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
"""
LAYER = "layer hidden(x[batch, seq, a]) -> [batch, seq, b] { %s }"
UP = "param w[a, b] = normal(0.5); param v[b] = normal(0.5); u = x @a w + v; "
CASES = [  # what the layer does, what products do
    ("bias", UP + "return sum[seq](u) * 0 + u", {"sum": 1}),
    ("relu", "param w[a, b] = normal(0.5); return relu(x @a w)", {}),
    ("gelu", UP + "return gelu_tanh(u)", {"bias_gelu": 1, "bias_gelu_aux": 1, "dgelu": 1, "sum": 1}),
    ("gelu, no bias", "param w[a, b] = normal(0.5); return gelu_tanh(x @a w)", {"gelu": 1, "gelu_aux": 1, "dgelu": 1}),
    ("gelu, otherwise", UP + "k = sqrt(2.0 / 3.14159265358979); return (u + u * tanh(k * u * (1 + u * u * 0.044715))) / 2",
     {"bias_gelu": 1, "bias_gelu_aux": 1, "dgelu": 1, "sum": 1}),
    ("gelu by erf", UP + "return gelu(u)", {"bias_gelu": 0, "bias_gelu_aux": 0, "dgelu": 0}),
    ("nearly gelu", UP + "return 0.5 * u * (1 + tanh(0.797884 * (u + 0.0447 * u ** 3)))",
     {"bias_gelu": 0, "bias_gelu_aux": 0, "dgelu": 0}),
    ("bias of the first", UP + "return where(iota[b] < 20, u, 0)", {"bias": 0}),
    ("bias of the first, otherwise", UP + "return where(iota[b] >= 20, 0, u)", {"bias": 0}),
    ("bias of rows", "param w[a, b] = normal(0.5); param v[seq] = normal(0.5); return gelu_tanh(x @a w + v)",
     {"bias_gelu": 0, "bias_gelu_aux": 0}),
]


def count(text):
    found = {}
    for name in re.findall(r" text=(\w+) func=", text):
        found[name] = found.get(name, 0) + 1
    return found


def check(dtc, folder, number, name, layer, wanted, precision):
    path = os.path.join(folder, "%d.dsl" % number)
    with open(path, "w") as file:
        file.write(PROGRAM % (LAYER % layer))
    command = [dtc, path, "--parallel", "none", "--print-after=fuse", "-o", path + ".plan"]
    command += ["--set", "train.precision=" + precision]
    wrong = []
    for more in (["--epilogues=all", "--verify"], ["--target=sm_90a", "--no-kernels"]):
        done = subprocess.run(command + more, capture_output=True, text=True)
        got = count(done.stdout)
        if done.returncode:
            wrong.append("%s, %s: exit code %d: %s" % (name, more, done.returncode, done.stderr[-400:]))
        wrong += ["%s, %s: %d of `%s`, not %d (%s)" % (name, more, got.get(kind, 0), kind, n, got)
                  for kind, n in wanted.items() if got.get(kind, 0) != n]
        none = subprocess.run(command + more + ["--epilogues=none"], capture_output=True, text=True)
        if set(count(none.stdout)) & set(wanted):
            wrong.append("%s: --epilogues=none joins %s" % (name, count(none.stdout)))
    return wrong


def main(dtc):
    dtc, failed, n = os.path.abspath(dtc), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, layer, wanted in CASES:
            for precision in ("mixed(compute = f32)", "mixed(compute = bf16, params = f32, grads = f32)"):
                wrong = check(dtc, folder, n, name, layer, wanted, precision)
                n += 1
                failed += bool(wrong)
                print("".join(text + "\n" for text in wrong), end="")
    print("%d passed, %d failed, 0 skipped" % (n - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
