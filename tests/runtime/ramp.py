#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps that begin with a part of the batch:  ramp.py DTC DTRUN

A model is trained for 20 steps while its batch grows from 2 to 8 samples, as one rank, with data and tensor parallelism and with
`zero 3`. In every step the number of samples is that of Megatron-LM's rule, each sample of the data is read once, and the loss
and the parameters are those of plain gradient descent with momentum in Python, over just these samples. A run that is interrupted
while its batch grows goes on with the same bits. `epochs` counts samples, and a loss that divides two sums needs no other number."""
import json
import math
import os
import random
import struct
import sys
import tempfile

from runs import Bench, bytes_of, saved

FEATURES, HIDDEN, LAYERS, BATCH = 5, 4, 3, 8
FROM, BY, OVER, STEPS = 2, 2, 24, 20
PARTS, BITS = 6, 22  # a sample is a bit in one of the parts, so their sums say which samples a step has read
RATE, FACTOR = 0.05, 0.9
MEAN, QUOTIENT = "mean[batch](d * d)", "sum[batch](d * d * counts) / sum[batch](counts)"
PROGRAM = """include "std.dsl"
dim batch = %d, feature = %d, hidden = %d
axis part
layer block(x[batch, feature]) -> [batch, feature] {
  param s[feature, hidden], t[hidden, feature] = normal(0.3)
  return x + tanh(x @feature s) @hidden t
}
model net(x[batch, feature]) -> [batch] {
  param w[feature] = normal(0.3)
  repeat h in %d { x = b:block(x) }
  return x @feature w
}
train {
  x[batch, feature] = bin("x.bin", f32)
  y[batch] = bin("y.bin", f32)
  counts[batch] = bin("counts.bin", f32)
  bits[batch, part = %d] = bin("bits.bin", f32)
  d = net(x) - y
  loss = %s
  %s
  root, twice = sqrt(loss), 2 * size[batch] + sum[batch](y * 0)
  metrics = (root, twice, %s)
  optimizer = sgd(lr = %g, momentum = %g)
  ramp = batch(from = %d, by = %d, over = %d)
  steps = %d
  eval = every(1000, data = (bin("x.bin", f32), bin("y.bin", f32), bin("counts.bin", f32), bin("bits.bin", f32)))
}
cluster one { gpus = 1; gpu = "cpu" }
cluster two { gpus = 2; gpu = "cpu" }
parallel alone on one { mesh data = 1; shard batch on data; micro batch = 4 }
parallel data on two { mesh data = 2; shard batch on data; micro batch = 4 }
parallel zero on two { mesh data = 2; shard batch on data; micro batch = 4; zero 3 on data }
parallel tensor on two { mesh tensor = 2; shard hidden on tensor; micro batch = 4 }
"""


def program(loss):
    parts = ["part%d" % i for i in range(PARTS)]
    lines = "\n  ".join("%s = sum[batch](bits[part = %d])" % (name, i) for i, name in enumerate(parts))
    return PROGRAM % (BATCH, FEATURES, HIDDEN, LAYERS, PARTS, loss, lines, ", ".join(parts), RATE, FACTOR, FROM, BY, OVER, STEPS)


def write_data():
    """Writes the files; returns x, y and what counts, by sample."""
    rng = random.Random(5)
    n = PARTS * BITS
    x = [[rng.uniform(-1, 1) for _ in range(FEATURES)] for _ in range(n)]
    x = [list(struct.unpack("%df" % FEATURES, struct.pack("%df" % FEATURES, *row))) for row in x]
    y = [struct.unpack("f", struct.pack("f", math.sin(3 * row[0]) + row[1] * row[2]))[0] for row in x]
    counts = [float(i % 3 > 0) for i in range(n)]
    bits = [[float(1 << i % BITS) if i // BITS == part else 0.0 for part in range(PARTS)] for i in range(n)]
    for name, rows in (("x", x), ("y", [[v] for v in y]), ("counts", [[v] for v in counts]), ("bits", bits)):
        with open(name + ".bin", "wb") as file:
            file.write(b"".join(struct.pack("<%df" % len(row), *row) for row in rows))
    return x, y, counts


def sizes():
    """The samples of each step, by Megatron's rule (num_microbatches_calculator.py)."""
    increments, consumed, out = (BATCH - FROM) // BY, 0, []
    for _ in range(STEPS):
        out.append(BATCH if consumed > OVER else min(BATCH, FROM + BY * int(consumed / (OVER / increments))))
        consumed += out[-1]
    return out


def read_of(event):
    """Which samples a step has read."""
    return [part * BITS + i for part in range(PARTS) for i in range(BITS) if int(event["metrics"]["part%d" % part]) >> i & 1]


# ---- plain gradient descent ----

def forward(p, x):
    kept = []
    for h in range(LAYERS):
        s, t = p["h.%d.b.s" % h], p["h.%d.b.t" % h]
        a = [math.tanh(sum(x[i] * s[i * HIDDEN + k] for i in range(FEATURES))) for k in range(HIDDEN)]
        kept.append((x, a))
        x = [x[i] + sum(a[k] * t[k * FEATURES + i] for k in range(HIDDEN)) for i in range(FEATURES)]
    return sum(x[i] * p["w"][i] for i in range(FEATURES)), x, kept


def backward(p, grads, x, kept, dy):
    dx = [dy * p["w"][i] for i in range(FEATURES)]
    for i in range(FEATURES):
        grads["w"][i] += dy * x[i]
    for h in reversed(range(LAYERS)):
        s, t, (x, a) = p["h.%d.b.s" % h], p["h.%d.b.t" % h], kept[h]
        da = [sum(dx[i] * t[k * FEATURES + i] for i in range(FEATURES)) * (1 - a[k] * a[k]) for k in range(HIDDEN)]
        for k in range(HIDDEN):
            for i in range(FEATURES):
                grads["h.%d.b.t" % h][k * FEATURES + i] += a[k] * dx[i]
                grads["h.%d.b.s" % h][i * HIDDEN + k] += x[i] * da[k]
        dx = [dx[i] + sum(da[k] * s[i * HIDDEN + k] for k in range(HIDDEN)) for i in range(FEATURES)]


def descend(p, velocity, data, samples, quotient):
    """A step in place; returns the loss."""
    x, y, counts = data
    grads = {name: [0.0] * len(value) for name, value in p.items()}
    of, loss = [counts[s] if quotient else 1.0 for s in samples], 0.0
    for s, weight in zip(samples, of):
        out, last, kept = forward(p, x[s])
        loss += weight * (out - y[s]) ** 2
        backward(p, grads, last, kept, 2 * weight * (out - y[s]) / sum(of))
    for name, grad in grads.items():
        for i, g in enumerate(grad):
            velocity[name][i] = FACTOR * velocity[name][i] + g
            p[name][i] -= RATE * velocity[name][i]
    return loss / sum(of)


def check_run(bench, name, log, begin, end, data, quotient):
    with open(log) as file:
        events = [event for event in map(json.loads, file) if event["event"] == "step"]
    bench.check(name + " sizes", [event["batch"] for event in events] == sizes(), [event["batch"] for event in events])
    read = [read_of(event) for event in events]
    bench.check(name + " samples", [len(r) for r in read] == sizes() and len({s for r in read for s in r}) == sum(sizes()), read)
    p = {path: list(value) for path, value in begin.items() if "." not in path or path.startswith("h.")}
    velocity = {path: [0.0] * len(value) for path, value in p.items()}
    for event, samples in zip(events, read):
        loss, rows = descend(p, velocity, data, samples, quotient), len(samples)
        got = (event["loss"], event["metrics"]["root"], event["metrics"]["twice"])
        want = (loss, math.sqrt(loss), 2 * rows)
        good = all(abs(a - b) < 2e-5 * max(1, abs(b)) for a, b in zip(got, want))
        bench.check("%s step %d" % (name, event["step"]), good, (got, want))
    off = max(abs(a - b) for path in p for a, b in zip(p[path], end[path]))
    bench.check(name + " parameters", off < 1e-5, off)


def check_layouts(bench, data, loss):
    quotient = loss == QUOTIENT
    kind = "quotient" if quotient else "mean"
    with open("ramp.dsl", "w") as file:
        file.write(program(loss))
    for layout in ("alone", "data", "zero", "tensor"):
        name, plan = kind + " " + layout, layout + ".plan"
        code, said = bench.run(bench.dtc, "ramp.dsl", "--parallel", layout, "-o", plan)
        bench.check(name + " compiles", code == 0, said)
        folder = kind + layout
        for steps, to in (("0", folder + "0"), (str(STEPS), folder)):
            code, said = bench.run(bench.dtrun, plan, "--steps", steps, "--save", to, "--log", to + ".log")
            bench.check(name + " runs", code == 0, said)
        if code == 0:
            check_run(bench, name, folder + ".log", saved(folder + "0", 0), saved(folder, STEPS), data, quotient)


def check_resumed(bench):
    """At every step of the ramp, on two ranks; after it, the manifest counts the samples."""
    for at in (1, 5, 7, 9):
        first, second = "first%d" % at, "second%d" % at
        bench.run(bench.dtrun, "zero.plan", "--steps", str(at), "--save", first)
        code, said = bench.run(bench.dtrun, "zero.plan", "--resume", first, "--save", second)
        bench.check("resumed after %d" % at, code == 0, said)
        for part in ("model", "optimizer"):
            path = "step-%08d/%s.safetensors" % (STEPS, part)
            bench.check("bits after %d: %s" % (at, part),
                        bytes_of(os.path.join(second, path)) == bytes_of(os.path.join("meanzero", path)))
    with open("second5/step-%08d/manifest.json" % STEPS) as file:
        bench.check("samples", json.load(file)["samples"] == sum(sizes()))


def check_epochs(bench):
    code, said = bench.run(bench.dtrun, "alone.plan", "--set", "train.epochs=0.9", "--log", "epochs")
    with open("epochs") as file:
        events = [event for event in map(json.loads, file) if event["event"] == "step"]
    wanted, n = sizes(), 0
    while sum(wanted[:n + 1]) <= 0.9 * PARTS * BITS:
        n += 1
    bench.check("epochs", code == 0 and len(events) == n, (len(events), n, said))
    bench.check("said", "from 2 on, 2 more each time, over the first 24 samples" in said and "batch 2" in said, said)


def check_proved(bench):
    code, said = bench.run(bench.dtc, "ramp.dsl", "--parallel", "zero", "--verify")
    bench.check("--verify", code == 0, said)
    code, said = bench.run(bench.dtc, "ramp.dsl", "--parallel", "zero", "--report=json")
    report = json.loads(said[said.index("{"):]) if code == 0 else {}
    bench.check("report", report.get("ramp") == {"from": FROM, "by": BY, "over": OVER} and report.get("batch") == BATCH, said)


def main():
    bench = Bench(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        data = write_data()
        check_layouts(bench, data, MEAN)
        check_resumed(bench)
        check_epochs(bench)
        check_proved(bench)
        check_layouts(bench, data, QUOTIENT)
    print("%d passed, %d failed, 0 skipped" % (bench.passed, bench.failed))
    return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
