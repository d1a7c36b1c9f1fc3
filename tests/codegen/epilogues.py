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
CASES = [  # what the layer computes, and what its products compute
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

# Ops that are nearly an epilogue: a cap with another value (the bias is that of u, which is
# saved), other constants, a threshold, one more term. A cast between floats counts as no op, as in
# a kernel.
NEAR = [
    ("capped", UP + "return 60000 * tanh(u / 60000)", {"bias": 1}),
    ("capped gelu", UP + "return 1e30 * tanh(gelu_tanh(u) / 1e30)", {"bias_gelu": 0, "bias_gelu_aux": 0}),
    ("clamped", UP + "return max(u, -1e30)", {"bias": 1}),
    ("gelu, 1e-12 more", UP + "return 0.5 * u * (1 + tanh(0.7978845608 * (u + 0.04471500000005 * u ** 3)))",
     {"bias_gelu": 0, "bias_gelu_aux": 0, "dgelu": 0}),
    ("a threshold", "param w[a, b] = normal(0.5); return where(x @a w > 1e-30, x @a w, 0)", {"relu": 0}),
    ("a term", "param w[a, b] = normal(0.5); return relu(x @a w) + 1e-35", {"relu": 0}),
    ("rounded", "param w[a, b] = normal(0.5); return relu(f32(bf16(x @a w)))", {"relu": 1}),
    ("cut to an integer", "param w[a, b] = normal(0.5); return relu(f32(i32(x @a w)))", {"relu": 0}),
]

# Attention that a library can compute (SDPA): a softmax of scaled scores, with a mask; and
# functions that are nearly that.
ATTENTION = """include "std.dsl"
dim batch = 4, seq = 16, heads = 2, head = 16, embed = 32, vocab = 16, kseq = 16
fn own[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], scale, mask = true) -> [..., s, d] {
  z = where(mask, {score}, -inf)
  e = {e}
  o = ({p}) @t v
  return o
  stream[t] {
    z = where(mask, {score}, -inf)
    m = max[t](z)
    e = exp(z - max(m, -1e30))
    return (m, sum[t](e), f32(e @t v))
  }
  merge(m, l, u, m2, l2, u2) {
    most = max(m, m2)
    a = exp(max(m, -1e30) - max(most, -1e30))
    b = exp(max(m2, -1e30) - max(most, -1e30))
    return (most, l * a + l2 * b, u * a + u2 * b)
  }
  finish(m, l, u) { return u / max(l, 1e-30) }
}
layer att(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  return wo:linear[(heads, head), embed](own[seq, kseq, head](q, k, v, {scale}, iota[kseq] <= iota[seq]))
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  x = wte[vocab = tokens]
  return (x + a:att(x)) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = 0.1)
  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32)
  steps = 2
}
"""
SOFTMAX = {"score": "f32(q @d k) * scale", "e": "exp(z - max(max[t](z), -1e30))", "p": "e / max(sum[t](e), 1e-30)",
           "scale": "0.3"}
SOFTMAXES = [{}, {"score": "f32(q @d k) / 3"}, {"scale": "0.123456789"}, {"score": "f32(bf16(q @d k)) * scale"}]
OTHERS = [{"score": "max(f32(q @d k) * scale, -%s)" % far} for far in ("1", "10", "1e9", "1e29", "1e32")]
OTHERS += [{"score": "%s * tanh(f32(q @d k) * scale / %s)" % (far, far)} for far in ("20", "60000", "1e30")]
OTHERS += [{"score": "f32(q @d k) * scale + %s * f32(q @d k) * f32(q @d k)" % tiny} for tiny in ("1e-9", "1e-30")]
OTHERS += [{"e": "exp(z - max(max[t](z), -%s))" % bound} for bound in ("1e29", "100")]
OTHERS += [{"p": "e / max(sum[t](e), %s)" % bound} for bound in ("1.5e-30", "1e-9", "2")]
OTHERS += [{"p": "e / (sum[t](e) + %s)" % tiny} for tiny in ("1e-6", "1e-12", "1e-30")]
OTHERS += [{"p": "%s * e / max(sum[t](e), 1e-30)" % factor} for factor in ("1.001", "1.000000001", "1.000000000001")]
OTHERS += [{"score": "f32(i32(q @d k)) * scale"}]


def count(text):
    found = {}
    for name in re.findall(r" text=(\w+) func=", text):
        found[name] = found.get(name, 0) + 1
    return found


BOTH = (["--epilogues=all", "--verify"], ["--target=sm_90a", "--no-kernels"])
PRECISIONS = ("mixed(compute = f32)", "mixed(compute = bf16, params = f32, grads = f32)")


def check(dtc, folder, number, name, layer, wanted, precision, ways):
    path = os.path.join(folder, "%d.dsl" % number)
    with open(path, "w") as file:
        file.write(PROGRAM % (LAYER % layer))
    command = [dtc, path, "--parallel", "none", "--print-after=fuse", "-o", path + ".plan"]
    command += ["--set", "train.precision=" + precision]
    wrong = []
    for more in ways:
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


def is_attention(dtc, folder, words):
    """Whether the plan gives this attention to the library; None: the program is refused."""
    path = os.path.join(folder, "attention.dsl")
    text = ATTENTION
    for name, by in {**SOFTMAX, **words}.items():
        text = text.replace("{%s}" % name, by)
    with open(path, "w") as file:
        file.write(text)
    done = subprocess.run([dtc, path, "--parallel", "none", "--target=sm_90a", "--no-kernels", "-o", path + ".plan"],
                          capture_output=True, text=True)
    if done.returncode:
        print("%s: exit code %d: %s" % (words, done.returncode, done.stderr[-400:]))
        return None
    return "\nSDPA " in subprocess.run([dtc, "dump", path + ".plan"], capture_output=True, text=True).stdout


def main(dtc):
    dtc, failed, n = os.path.abspath(dtc), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, layer, wanted in CASES + NEAR:
            for precision in PRECISIONS if (name, layer, wanted) in CASES else PRECISIONS[n % 2:][:1]:
                wrong = check(dtc, folder, n, name, layer, wanted, precision, BOTH if (name, layer, wanted) in CASES else BOTH[1:])
                n += 1
                failed += bool(wrong)
                print("".join(text + "\n" for text in wrong), end="")
        for words in SOFTMAXES + OTHERS:
            got = is_attention(dtc, folder, words)
            n += 1
            failed += got is not (words in SOFTMAXES)
            if got is not (words in SOFTMAXES):
                print("attention with %s: a library has it: %s" % (words, got))
    print("%d passed, %d failed, 0 skipped" % (n - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
