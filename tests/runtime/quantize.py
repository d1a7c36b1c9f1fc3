#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights as codes:  quantize.py DTC DTRUN

A model multiplies rows of the identity by its weights, so --predict returns what codes stand for: bit for bit what a plain
computation here makes of the weights, with 8 and 4 bits, for few and for many rows, on one rank, with the groups or the other
axis split, and with ZeRO 3. Weights are random, zeros, ties, and so small that their scale is rounded. Then a small GPT with
codes generates the tokens, and has the held-out loss, that the same model without codes has with the weights that this script
restores. At the end what is refused."""
import array
import ast
import json
import math
import os
import random
import re
import struct
import sys
import tempfile

from runs import bytes_of, check, failures, run, saved

B, V = 12, 10
ROWS = """include "std.dsl"
dim batch = %d, a = %d, b = %d, v = %d
model m(x[batch, a]) -> [batch, b], [batch, b], [batch, v], [batch, a] {
  param w8[a, b] = ones
  param w4[a, b] = ones
  param t4[v, a] = ones
  return x @a w8, x @a w4, x @a t4, t4[v = iota[batch] %% v]
}
train {
  x[batch, a] = npy("x.npy")
  p, q, r, s = m(x)
  loss = mean[batch, b](p + q) + mean[batch, v](r) + mean[batch, a](s)
  optimizer = sgd(lr = 0.1)
  quantize = (int8("w8", group = %d), int4(("w4", "t4"), group = %d))
  steps = 1
}
names plain on m { "w8"[a, b] = w8; "w4"[a, b] = w4; "t4"[v, a] = t4 }
cluster two { gpus = 2; gpu = "cpu" }
parallel groups on two { mesh tp = 2; shard a on tp }
parallel other on two { mesh tp = 2; shard b on tp }
parallel zero on two { mesh data = 2; shard batch on data; zero 3 on data }
"""
GPT = """include "std.dsl"
dim batch = 2, seq = 8, kseq = seq, vocab = 64, embed = 32, heads = 4, head = 8, ffn = 64, layers = 2
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return down:linear[ffn, embed](gelu_tanh(up:linear[embed, ffn](x)))
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.2)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + mlp(ln2:layernorm[embed](x))
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u16))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = 1e-2)
  steps = 20
  eval = every(20, steps = 3, data = next_token(bin("tokens.bin", u16)))
  QUANTIZE
}
names plain on gpt {
  "wte"[vocab, embed] = wte
  "{h}.wq"[embed, heads, head] = h.attention.wq.w
  "{h}.wk"[embed, heads, head] = h.attention.wk.w
  "{h}.wv"[embed, heads, head] = h.attention.wv.w
  "{h}.wo"[heads, head, embed] = h.attention.wo.w
  "{h}.up"[embed, ffn] = h.mlp.up.w
  "{h}.down"[ffn, embed] = h.mlp.down.w
  "{h}.bq"[heads, head] = h.attention.wq.b0
  "{h}.bk"[heads, head] = h.attention.wk.b0
  "{h}.bv"[heads, head] = h.attention.wv.b0
  "{h}.bo"[embed] = h.attention.wo.b0
  "{h}.bup"[ffn] = h.mlp.up.b0
  "{h}.bdown"[embed] = h.mlp.down.b0
  "{h}.g1"[embed] = h.ln1.gain
  "{h}.s1"[embed] = h.ln1.shift
  "{h}.g2"[embed] = h.ln2.gain
  "{h}.s2"[embed] = h.ln2.shift
  "g"[embed] = ln_f.gain
  "s"[embed] = ln_f.shift
}
cluster two { gpus = 2; gpu = "cpu" }
parallel tensor on two { mesh tensor = 2; shard heads, ffn, vocab on tensor }
parallel zero on two { mesh data = 2; shard batch on data; zero 3 on data }
"""
CODES = 'quantize = (int8("h.*.w", group = 8), int4("wte", group = 16))'


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def restored(group, most):
    """What the codes of a group stand for."""
    scale = f32(max(map(abs, group)) / most)
    if scale == 0:
        return [0.0] * len(group)
    codes = [max(-most, min(most, round(f32(x / scale)))) for x in group]  # Python rounds ties to even
    return [f32(code * scale) for code in codes]


def restored_along(values, shape, axis, group, most):
    """The same for a tensor, with groups of neighbours along an axis."""
    stride = math.prod(shape[axis + 1:])
    made = list(values)
    for i in range(len(values)):
        if i // stride % shape[axis] % group == 0:
            at = [i + k * stride for k in range(group)]
            for k, x in zip(at, restored([values[k] for k in at], most)):
                made[k] = x
    return made


def npy(name, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + array.array("f", values).tobytes())


def load(name):
    data = bytes_of(name)
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return ast.literal_eval(data[10:start].decode())["shape"], array.array("f", data[start:])


def write_tensors(name, tensors):
    head, data = {}, b""
    for path, (shape, values) in tensors.items():
        raw = array.array("f", values).tobytes()
        head[path] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def weights(A, few, many):
    """Random weights, with groups of each kind in the first columns: zeros, ties, tiny ones, equal ones."""
    draw = random.Random(3)
    ties = {127: [127, 0.5, 1.5, -0.5, -2.5, 126.5, -126.5, 0.49999997] * (few // 8),
            7: [7, 0.5, 1.5, -2.5, -6.5, 6.5, 0.25, -0.75] * (many // 8)}
    tensors = {}
    for name, shape, axis, most in (("w8", [A, B], 0, 127), ("w4", [A, B], 0, 7), ("t4", [V, A], 1, 7)):
        values = [f32(draw.gauss(0, 1)) for _ in range(math.prod(shape))]
        stride, size = math.prod(shape[axis + 1:]), len(ties[most])
        for column, group in enumerate(([0.0] * size, ties[most], [190 * 2.0**-149, 2.0**-149] * (size // 2),
                                        [1.5, -1.5] * (size // 2), [3e38, 1e38] * (size // 2))):
            first = column if axis == 0 else column * shape[1]
            for k, x in enumerate(group):
                values[first + k * stride] = f32(x)
        tensors[name] = (shape, values)
    return tensors


def test_rows(tools, A, few, many, layouts):
    tensors = weights(A, few, many)
    os.makedirs("model", exist_ok=True)
    write_tensors("model/model.safetensors", tensors)
    npy("x.npy", (A, A), [float(i == k) for i in range(A) for k in range(A)])
    want = {"w8": restored_along(tensors["w8"][1], [A, B], 0, few, 127),
            "w4": restored_along(tensors["w4"][1], [A, B], 0, many, 7)}
    table = restored_along(tensors["t4"][1], [V, A], 1, many, 7)
    turned = [table[i * A + k] for k in range(A) for i in range(V)]
    for rows in (4, 16):
        with open("rows.dsl", "w") as file:
            file.write(ROWS % (rows, A, B, V, few, many))
        for layout in layouts:
            name = "%s of %d rows, groups of %d" % (layout, rows, many)
            run([tools[0], "rows.dsl", "--parallel", layout, "-o", "rows.plan"])
            said = run([tools[1], "rows.plan", "--import", "model", "--predict", "x.npy", "--out", "0=p.npy",
                        "--out", "1=q.npy", "--out", "2=r.npy", "--out", "3=s.npy"])
            check("3 parameters are codes" in said, "%s: %s" % (name, said))
            for file, of in (("p.npy", want["w8"]), ("q.npy", want["w4"]), ("r.npy", turned),
                             ("s.npy", [x for i in range(A) for x in table[i % rows % V * A:][:A]])):
                check(list(load(file)[1]) == of, "%s: %s: codes stand for other weights" % (name, file))
    run([tools[0], "rows.dsl", "--parallel", "groups", "--verify", "--no-kernels"])


def compile_gpt(tools, name, layout, quantize):
    with open(name + ".dsl", "w") as file:
        file.write(GPT.replace("QUANTIZE", quantize))
    run([tools[0], name + ".dsl", "--parallel", layout, "-o", name + ".plan"])


def loss_in(text, words):
    return float(re.search(words + r".*?loss ([0-9.]+)", text).group(1))


def patch(folder):
    """Puts restored weights into an exported file."""
    path = os.path.join(folder, "model.safetensors")
    data = bytearray(bytes_of(path))
    n = struct.unpack("<Q", data[:8])[0]
    for name, about in json.loads(data[8:8 + n]).items():
        if name != "wte" and name[2:] not in ("wq", "wk", "wv", "wo", "up", "down"):
            continue
        first, end = (8 + n + at for at in about["data_offsets"])
        shape, values = about["shape"], array.array("f", bytes(data[first:end]))
        axis, group, most = (1, 16, 7) if name == "wte" else (1 if name.endswith("wo") else 0, 8, 127)
        data[first:end] = array.array("f", restored_along(values, shape, axis, group, most)).tobytes()
    with open(path, "wb") as file:
        file.write(data)


def test_gpt(tools):
    compile_gpt(tools, "none", "none", CODES)
    run([tools[1], "none.plan", "--quiet", "--save", "begin"])
    before = saved("begin", 20)
    texts, losses = [], []
    for layout in ("none", "tensor", "zero"):
        if layout != "none":
            compile_gpt(tools, layout, layout, CODES)
        said = run([tools[1], layout + ".plan", "--resume", "begin", "--eval", "--quantized"])
        losses.append((loss_in(said, "eval after"), loss_in(said, "eval of codes")))
        texts.append(run([tools[1], layout + ".plan", "--quiet", "--resume", "begin", "--generate", "9 10 11", "--tokens", "5",
                          "--temperature", "0"]))
    check(saved("begin", 20) == before, "the checkpoint has changed")
    compile_gpt(tools, "plain", "none", "")
    run([tools[1], "plain.plan", "--quiet", "--weights", "begin", "--steps", "0", "--export", "restored"])
    patch("restored")
    want = loss_in(run([tools[1], "plain.plan", "--import", "restored", "--eval"]), "eval after")
    text = run([tools[1], "plain.plan", "--quiet", "--import", "restored", "--generate", "9 10 11", "--tokens", "5",
                "--temperature", "0"])
    for full, codes in losses:
        check(abs(full - losses[0][0]) < 2e-4 and abs(codes - want) < 2e-4 and codes != full,
              "losses %g and with codes %g, want %g" % (full, codes, want))
    for one in texts:
        check(one == text, "codes write %r, restored weights %r" % (one, text))
    test_cache(tools, text)


def test_cache(tools, text):
    """Generation with a cache reads codes, too: entries "prefill" with several rows of a product, "decode" with few."""
    for layout in ("none", "tensor", "zero"):
        compile_gpt(tools, "cached", layout, CODES + "; generate = cached(rows = 2, chunk = 4)")
        got = run([tools[1], "cached.plan", "--quiet", "--resume", "begin", "--generate", "9 10 11", "--tokens", "5",
                   "--temperature", "0"])
        check(got == text, "%s: with a cache codes write %r, restored weights %r" % (layout, got, text))


def test_refused(tools):
    for plan, options, text in (("plain", ["--import", "restored", "--eval", "--quantized"], "the plan has no codes"),
                                ("none", ["--quantized"], "--quantized belongs to --eval")):
        said = run([tools[1], plan + ".plan", "--quiet", *options], wants=2)
        check(text in said, "%s: %s" % (options, said))


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("tokens.bin", "wb") as file:
            file.write(struct.pack("<400H", *((7 * i * i + i // 3) % 64 for i in range(400))))
        test_rows(tools, 32, 8, 16, ("none", "groups", "other", "zero"))
        test_rows(tools, 128, 16, 32, ("none", "groups"))  # four groups, and two, share the lanes of a sum
        test_gpt(tools)
        test_refused(tools)
    print("quantize: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:]]))
