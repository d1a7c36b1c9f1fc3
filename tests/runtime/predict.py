#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--predict: the model's results for arrays of NumPy:  predict.py DTC DTRUN

A small network with two inputs and two results is trained for three steps. What it predicts for 21 samples, 1 to 16 at a
time, is compared with this script's own computation from the checkpoint's parameters: on one rank, with samples, axes of
parameters and results split, an axis padded, ZeRO 3, in a pipeline, and in memory that only instructions reach. Then
results whose samples are their last axis, larger than what ranks add at a time, of integers and of 16 bits, with known
values. All of that also with fewer samples than the batch at a time (pass `rows`), which programs whose samples depend on
each other keep. Then what is refused; nothing is left of results that were not finished. Arrays are written and read with the
standard library alone."""
import array
import ast
import glob
import json
import os
import random
import re
import struct
import sys
import tempfile

import runs

N, PIX, WIDE, FFN, CLASSES, GROUPS, LAYERS = 21, 6, 8, 12, 5, 3, 2
PROGRAM = """include "std.dsl"
dim batch = 16, pix = %d, wide = %d, ffn = %d, classes = %d, groups = %d, layers = %d
layer block(x[batch, wide]) -> [batch, wide] {
  return x + (x |> up:linear[wide, ffn] |> relu |> down:linear[ffn, wide])
}
model net(x[batch, pix], i32 group[batch]) -> [batch, classes], [batch, wide] {
  param table[groups, wide] = normal(0.5)
  h = inn:linear[pix, wide](x, std = 0.5) + table[groups = group]
  repeat b in layers { h = block(h) }
  return out:linear[wide, classes](h, std = 0.5), h
}
train {
  x[batch, pix] = npy("x.npy")
  i32 group[batch] = npy("g.npy")
  i32 y[batch] = npy("y.npy")
  z, h = net(x * 0.5, group)
  loss = mean[batch](xent[classes](z, y))
  optimizer = adamw(lr = 1e-2)
  steps = 3
}
cluster four { gpus = 4; gpu = "cpu" }
cluster two { gpus = 2; gpu = "cpu" }
parallel none on two { mesh data = 1 }
parallel zero on four {
  mesh data = 2, tp = 2; shard batch on data; shard ffn on tp; shard classes on tp (pad = 6); zero 3 on data; micro batch = 4
}
parallel tensor on two { mesh tp = 2; shard ffn, wide on tp; shard classes on tp (pad = 6) }
parallel pipe on four { mesh pipe = 2, data = 2; shard batch on data; micro batch = 4; pipeline b on pipe }
""" % (PIX, WIDE, FFN, CLASSES, GROUPS, LAYERS)
OTHER = """include "std.dsl"
dim batch = 8, wide = 20000
model net(x[batch]) -> [wide, batch], i32 [batch], bf16 [batch, wide], [] {
  param w[wide] = ones
  y = x * (w * f32(iota[wide]))
  return y, i32(x), bf16(y), sum[batch](x)
}
train {
  x[batch] = npy("v.npy")
  y, i, h, s = net(x)
  loss = mean[batch, wide](y)
  optimizer = sgd(lr = 0.0)
  steps = 1
}
cluster two { gpus = 2; gpu = "cpu" }
parallel wide on two { mesh tp = 2; shard wide on tp }
parallel split on two { mesh data = 2; shard batch on data }
"""


def npy(name, dtype, shape, values):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    letter = {"f4": "f", "f8": "d", "u1": "B", "i2": "h", "i4": "i"}[dtype[1:]]
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack((">" if dtype[0] == ">" else "<") + "%d%s" % (len(values), letter), *values))


def load(name):
    with open(name, "rb") as file:
        data = file.read()
    header = ast.literal_eval(data[10:10 + struct.unpack("<H", data[8:10])[0]].decode())
    values = array.array({"<f4": "f", "<i4": "i"}[header["descr"]])
    values.frombytes(data[10 + struct.unpack("<H", data[8:10])[0]:])
    return header["shape"], values


class Bench(runs.Bench):
    def predict(self, plan, *options):
        return self.run(self.dtrun, plan, "--gemm", "plain", *options)

    def refused(self, name, code, words, *options):
        got, said = self.predict(*options)
        self.check(name, got == code and words in said and "rank" not in said, (got, said))


def parameters(folder):
    with open(glob.glob(folder + "/step-*/model.safetensors")[0], "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, tensor in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            first, end = tensor["data_offsets"]
            values = array.array("f", data[8 + length + first:8 + length + end]).tolist()
            rows = tensor["shape"][1] if len(tensor["shape"]) > 1 else len(values)
            tensors[name] = [values[i:i + rows] for i in range(0, len(values), rows)]
    return tensors


def linear(p, name, x):
    w, b = p[name + ".w"], p[name + ".b0"][0]
    return [b[j] + sum(x[i] * w[i][j] for i in range(len(x))) for j in range(len(b))]


def network(p, x, group):
    h = [a + b for a, b in zip(linear(p, "inn", [v * 0.5 for v in x]), p["table"][group])]
    for k in range(LAYERS):
        up = [max(v, 0) for v in linear(p, "b.%d.block.up" % k, h)]
        h = [a + b for a, b in zip(h, linear(p, "b.%d.block.down" % k, up))]
    return linear(p, "out", h), h


def compare(bench, name, file, right):
    shape, got = load(file)
    worst = max(abs(a - b) for a, b in zip(got, sum(right, [])))
    bench.check(name, shape == (N, len(right[0])) and len(got) == N * len(right[0]) and worst < 1e-5, (shape, worst))


def samples(bench, plan, name):
    """The samples that the input of its own has which predict reads; None: it has none, and reads the batch."""
    code, text = bench.run(bench.dtc, "dump", plan)
    bench.check("dump", code == 0, text)
    found = re.search(r'INPT name="predict:%s" .*?first_axis=(\d+)' % name, text)
    axis = found and re.search(r"^AXIS .*?extent=(\d+).* # %s$" % found.group(1), text, re.M)
    return int(axis.group(1)) if axis else None


def layouts(bench):
    draw = random.Random(1)
    x = [draw.uniform(-2, 2) for _ in range(N * PIX)]
    group = [draw.randrange(GROUPS) for _ in range(N)]
    npy("x.npy", ">f4", (N, PIX), x)
    npy("g.npy", "|u1", (N,), group)
    npy("y.npy", "<i2", (N, 1), [draw.randrange(CLASSES) for _ in range(N)])
    code, said = bench.run(bench.dtc, "p.dsl", "--parallel", "none", "-o", "none")
    bench.check("dtc", code == 0, said)
    code, said = bench.predict("none", "--save", "ck")
    bench.check("training", code == 0, said)
    for rows in (16, 1):
        predicted(bench, x, group, rows)


# the samples of a pass with `predict_rows = 1`: the layouts have 1, 2 ranks and 4 micro-batches, 1, 2 and 4
FEWEST = {"none": 1, "zero": 8, "tensor": 1, "pipe": 8}


def predicted(bench, x, group, rows):
    for name in FEWEST:
        code, said = bench.run(bench.dtc, "p.dsl", "--parallel", name, "--set", "train.predict_rows=%d" % rows, "-o", name)
        bench.check("dtc", code == 0, said)
        if rows == 1:
            code, said = bench.run(bench.dtc, "p.dsl", "--parallel", name, "--set", "train.predict_rows=1", "--verify",
                                   "--no-kernels")
            bench.check("verify: " + name, code == 0, said)
        want = FEWEST[name] if rows == 1 else None
        bench.check("samples of a pass: %s" % name, samples(bench, name, "x") == want, samples(bench, name, "x"))
    results = [network(parameters("ck"), x[i * PIX:(i + 1) * PIX], group[i]) for i in range(N)]
    inputs = ("--predict", "x=x.npy", "--predict", "group=g.npy")
    for name in ("none", "zero", "tensor", "pipe", "apart"):
        plan, more = ("zero", ("--device", "apart")) if name == "apart" else (name, ())
        begin = ("--resume", "ck") if name in ("none", "pipe") else ("--weights", "ck")
        code, said = bench.predict(plan, *begin, *inputs, "--out", "out/z.npy", "--out", "1=out/h.npy", *more)
        bench.check(name, code == 0 and "out/z.npy: net.0 of 21 samples, f4(21, 5)" in said, (code, said))
        compare(bench, name + " 0", "out/z.npy", [r[0] for r in results])
        compare(bench, name + " 1", "out/h.npy", [r[1] for r in results])
        bench.check("the results alone", sorted(os.listdir("out")) == ["h.npy", "z.npy"], os.listdir("out"))
        for left in ("out/h.npy", "out/z.npy"):
            os.remove(left)


MIXED = {
    "the batch's mean": "x - mean[batch](x)",
    "a running sum over it": "cumsum[batch](x)",
    "its own row": "x * f32(iota[batch])",
    "a parameter of a row": "x * w",
    "another sample": "x[batch = 7 - iota[batch]]",
    "an axis that runs slower": "relu(x[(pix, batch) -> flat])[flat -> (pix, batch)]",
    "samples beside samples": "x + sum[other](x[batch -> other] * f32(iota[other] < iota[batch]))",
}
APART = {
    "elements": "x * x + 1",
    "another axis": "x - mean[pix](x)",
    "a renamed axis": "(x[batch -> b] * 2)[b -> batch]",
    "a merged axis": "relu(x[(batch, pix) -> flat])[flat -> (batch, pix)]",
    "a loop": "go(x)",
}
ROWS = """include "std.dsl"
dim batch = 8, pix = 6, other = batch
axis b, flat
fn go(x[batch, pix]) -> [batch, pix] {
  h = x[pix = 0] * 0
  repeat t in pix { h = h + x[pix = t] }
  return x + h
}
model net(x[batch, pix]) -> [batch, pix] {
  param w[batch, pix] = ones
  return %s
}
train {
  x[batch, pix] = npy("x.npy")
  loss = mean[batch, pix](net(x))
  optimizer = sgd(lr = 0.0)
  steps = 1
  predict_rows = 2
}
"""


def mixtures(bench):
    """Which models compute samples apart; those that do have the bits of the whole batch."""
    for name, value in [*MIXED.items(), *APART.items()]:
        with open("m.dsl", "w") as file:
            file.write(ROWS % value)
        outs = []
        for rows in (2, 8):
            code, said = bench.run(bench.dtc, "m.dsl", "--target=interpreted", "--set", "train.predict_rows=%d" % rows, "-o", "m")
            bench.check("dtc: " + name, code == 0, said)
            want = 2 if rows == 2 and name in APART else None
            bench.check(name, samples(bench, "m", "x") == want, samples(bench, "m", "x"))
            code, said = bench.predict("m", "--predict", "x.npy", "--out", "m.npy")
            bench.check("run: " + name, code == 0, said)
            outs.append(load("m.npy"))
        bench.check("the same bits: " + name, outs[0] == outs[1])
        code, said = bench.run(bench.dtc, "m.dsl", "--verify", "--no-kernels")
        bench.check("verify: " + name, code == 0, said)


def others(bench):
    npy("v.npy", "<f8", (N,), range(N))
    right = array.array("f", [float(x * i) for x in range(N) for i in range(20000)])
    for name in ("wide", "split"):
        code, said = bench.run(bench.dtc, "o.dsl", "--parallel", name, "-o", name)
        bench.check("dtc", code == 0, said)
        code, said = bench.predict(name, "--predict", "v.npy", "--out", "y.npy", "--out", "1=i.npy", "--out", "2=h.npy")
        bench.check(name, code == 0 and "no --resume" in said, (code, said))
        bench.check("samples last, in pieces", load("y.npy") == ((N, 20000), right))
        bench.check("integers", load("i.npy") == ((N,), array.array("i", range(N))))
        shape, half = load("h.npy")
        near = all(abs(a - b) <= (b / 256 if b > 256 else 0) for a, b in zip(half, right))
        bench.check("16 bits", shape == (N, 20000) and near and half[-1] == 399360)


def errors(bench):
    one = ("none", "--resume", "ck", "--predict")
    npy("short.npy", "|u1", (N - 1,), [0] * (N - 1))
    npy("big.npy", "|u1", (N,), [0] * (N - 1) + [GROUPS])
    npy("wide.npy", "<f4", (N, PIX + 1), [0] * N * (PIX + 1))
    good = (*one, "x=x.npy", "--predict", "group=g.npy", "--out")
    bench.refused("no --out", 2, "--predict [NAME=]FILE and --out FILE belong together", *one, "x.npy")
    bench.refused("no name", 2, "the model reads `x`, `group`: say which", *one, "x.npy", "--out", "o.npy")
    bench.refused("labels", 2, "--predict y=y.npy: the model reads `x`, `group`", *one, "y=y.npy", "--out", "o.npy")
    bench.refused("one of two", 2, "the model also reads `group`: --predict group=FILE.npy", *one, "x=x.npy", "--out", "o.npy")
    bench.refused("twice", 2, "`x` has two files", *one, "x=x.npy", "--predict", "x=y.npy", "--out", "o.npy")
    bench.refused("lengths", 5, "short.npy has 20 samples, and x.npy has 21", *one, "x=x.npy", "--predict", "group=short.npy",
                  "--out", "o.npy")
    bench.refused("axes", 5, "wide.npy is an array of 21 samples of 7 numbers each; a sample of `x` has 6 values", *one,
                  "x=wide.npy", "--predict", "group=g.npy", "--out", "o.npy")
    bench.refused("values", 5, "big.npy is 3: outside `groups` of 3, which `group` indexes at p.dsl:", *one, "x=x.npy",
                  "--predict", "group=big.npy", "--out", "o.npy")
    bench.refused("no file", 5, "cannot open none.npy", *one, "x=none.npy", "--predict", "group=g.npy", "--out", "o.npy")
    bench.refused("no such result", 2, "--out 2=o.npy: the model has 2 results, from 0 on", *good, "2=o.npy")
    bench.refused("a result without samples", 2, "result `net.3` of the model has no axis `batch`", "split", "--predict", "v.npy",
                  "--out", "3=o.npy")
    bench.refused("one file for two", 2, "two results for o.npy", *good, "o.npy", "--out", "1=o.npy")
    bench.refused("and --eval", 2, "exclude each other", *good, "o.npy", "--eval")
    bench.refused("a folder", 5, "ck", *good, "ck")
    code, said = bench.predict(*good, "/dev/full")
    bench.check("a full disk", code == 5 and "No space left" in said, (code, said))
    left = [name for name in os.listdir(".") if name.startswith("o.npy")]
    bench.check("nothing is left of refused predictions", not left, left)


def main():
    bench = Bench(*(os.path.abspath(path) for path in sys.argv[1:3]))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in (("p.dsl", PROGRAM), ("o.dsl", OTHER)):
            with open(name, "w") as file:
                file.write(text)
        layouts(bench)
        mixtures(bench)
        others(bench)
        errors(bench)
        os.chdir("/")
    print(f"{bench.passed} passed, {bench.failed} failed, 0 skipped")
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
