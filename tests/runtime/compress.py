#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients in a smaller form between ranks:  compress.py DTC DTRUN

A perceptron is trained by every method of `compress` on ranks, and by the algorithm of its paper, written here with NumPy for all
workers in turn: parameters after 20 steps, and errors that workers keep, agree to 1e-6. The bytes that a rank receives are counted, and a
run that goes on from a checkpoint has the bits of one that does not. dtc proves each layout, and `--verify` interprets it."""

import json
import os
import subprocess
import sys
import tempfile

import samples_of as samples
from runs import check, failures, run, saved

try:
    import numpy
except ImportError:
    print("compress: skipped, there is no NumPy")
    sys.exit(77)

F = numpy.float32
SAMPLES, BATCH, INPUTS, HIDDEN, OUTPUTS, STEPS, RATE = 64, 8, 4, 4, 2, 20, 0.05
PROGRAM = """include "std.dsl"
dim batch = %d, inputs = %d, hidden = %d, outputs = %d
model net(x[batch, inputs]) -> [batch, outputs] {
  return x |> one:linear[inputs, hidden](std = 0.5) |> two:linear[hidden, outputs](std = 0.5)
}
train {
  x[batch, inputs] = npy("x.npy")
  y[batch, outputs] = npy("y.npy")
  d = net(x) - y
  loss = mean[batch, outputs](d * d)
  optimizer = sgd(lr = %g, momentum = 0.9)
  steps = %d
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel exact on four { mesh data = 4; shard batch on data }
""" % (BATCH, INPUTS, HIDDEN, OUTPUTS, RATE, STEPS)
LINES = {method: "compress %s on data" % method for method in ("int8", "fp8", "one_bit")}
LAYOUTS = {
    "data4": (4, 1, "four { mesh data = 4; shard batch on data; %s }"),
    "data2": (2, 1, "two { mesh data = 2; shard batch on data; %s }"),
    "micro": (2, 2, "two { mesh data = 2; shard batch on data; micro batch = 2; %s }"),
    "mixed": (2, 1, "four { mesh data = 2, tensor = 2; shard batch on data; shard inputs on tensor; %s }"),
    "nodes": (2, 1, "four { mesh data = 2, near = 2; shard batch on data, near; %s }"),
}


# ---- the algorithms of papers, for all workers in turn ----

def int8(wanted):
    """Seide et al. 2014, with 255 levels: what a worker sends of what it wants to send, as others read it."""
    scale = numpy.maximum(numpy.abs(wanted).max() / F(127), F(1e-30))
    return (numpy.floor(wanted / scale + F(0.5)) * scale).astype(F)


def fp8(wanted):
    """Peng et al. 2023: floats of 4 bits of exponent and 3 of mantissa (Micikevicius et al. 2022), the largest of them 448."""
    scale = numpy.maximum(numpy.abs(wanted).max() / F(448), F(1e-30))
    size = numpy.minimum(numpy.abs(wanted) / scale, F(448))
    power = F(2) ** numpy.clip(numpy.floor(numpy.log2(numpy.maximum(size.astype(float), 2.0**-6))), -6, 8).astype(F)
    digits = numpy.floor(size / power * 8 + F(0.5))
    return (numpy.where(wanted < 0, -1, 1).astype(F) * power * digits / 8 * scale).astype(F)


def one_bit(wanted):
    """Karimireddy et al. 2019: signs, and the mean of what they stand for."""
    scale = F(numpy.abs(wanted).sum(dtype=F) / F(wanted.size))
    return numpy.where(wanted >= 0, scale, -scale).astype(F)


METHODS = {"int8": int8, "fp8": fp8, "one_bit": one_bit}
# bytes of all elements of a parameter as a rank sends them, besides 4 of the scale
SENT = {"int8": lambda n: n, "fp8": lambda n: n, "one_bit": lambda n: (n + 7) // 8}


def gradients(p, x, y):
    """Of the mean over the whole batch, a worker's part of it."""
    h = x @ p["one.w"] + p["one.b0"]
    d = (h @ p["two.w"] + p["two.b0"] - y) * F(2 / (BATCH * OUTPUTS))
    back = d @ p["two.w"].T
    return {"two.w": h.T @ d, "two.b0": d.sum(0), "one.w": x.T @ back, "one.b0": back.sum(0)}


def train(p, x, y, order, workers, micro, send):
    """Returns parameters and errors after the last step. order: the samples of each step."""
    error = {name: numpy.zeros((workers,) + value.shape, F) for name, value in p.items()}
    momentum = {name: numpy.zeros_like(value) for name, value in p.items()}
    each = BATCH // workers // micro
    for step in range(STEPS):
        own = [{name: F(0) for name in p} for _ in range(workers)]
        for m in range(micro):
            for w in range(workers):
                rows = order[step][(m * workers + w) * each:(m * workers + w + 1) * each]
                for name, g in gradients(p, x[rows], y[rows]).items():
                    own[w][name] = (own[w][name] + g).astype(F)
        for name in p:
            total = F(0)
            for w in range(workers):
                wanted = (own[w][name] + error[name][w]).astype(F)
                sent = send(wanted)
                error[name][w] = wanted - sent
                total = total + sent
            momentum[name] = (F(0.9) * momentum[name] + total).astype(F)
            p[name] = (p[name] - F(RATE) * momentum[name]).astype(F)
    return p, error


# ---- ranks ----

def read(folder, step, shapes, workers):
    tensors = saved(folder, step)
    values = {name: numpy.array(tensors[name], F).reshape(shape) for name, shape in shapes.items()}
    errors = {name: numpy.array(tensors["moment2." + name], F).reshape((workers,) + shape)
              for name, shape in shapes.items() if "moment2." + name in tensors}
    return values, errors


def received(log):
    with open(log) as file:
        traffic = [event for event in map(json.loads, file.read().splitlines()) if event["event"] == "traffic"][-1]
    return sum(group["received"] for group in traffic["groups"] if group["axes"] == ["data"])


def order_of_samples():
    """The samples of each step (docs/data.md)."""
    key = samples.hash_text("data", 0)
    rows = [samples.permuted(key, i // SAMPLES, SAMPLES, i % SAMPLES) for i in range(STEPS * BATCH)]
    return [rows[step * BATCH:(step + 1) * BATCH] for step in range(STEPS)]


def test(tools, method, layout, x, y, order, shapes):
    workers, micro, text = LAYOUTS[layout]
    name = method + "." + layout
    with open(name + ".dsl", "w") as file:
        file.write(PROGRAM + "parallel thin on " + text % LINES[method] + "\n")
    run([tools[0], name + ".dsl", "--parallel", "thin", "-o", name + ".plan"])
    run([tools[1], name + ".plan", "--quiet", "--steps", "0", "--save", name + ".begin"])
    begin, _ = read(name + ".begin", 0, shapes, workers)
    run([tools[1], name + ".plan", "--quiet", "--save", name, "--log", name + ".jsonl"])
    got, errors = read(name, STEPS, shapes, workers)
    want, kept = train(begin, x, y, order, workers, micro, METHODS[method])
    for parameter in shapes:
        off = numpy.abs(got[parameter] - want[parameter]).max()
        check(off < 1e-6, "%s: `%s` is off by %g" % (name, parameter, off))
        off = numpy.abs(errors[parameter] - kept[parameter]).max()
        check(off < 1e-6, "%s: the errors of `%s` are off by %g" % (name, parameter, off))
        check(numpy.abs(kept[parameter]).max() > 1e-6, name + ": nothing is rounded away")
    run([tools[1], name + ".plan", "--quiet", "--steps", "8", "--save", name + ".part"])
    run([tools[1], name + ".plan", "--quiet", "--resume", name + ".part"])
    again = saved(name + ".part", STEPS)
    check(all(again[key] == value for key, value in saved(name, STEPS).items()), name + ": other bits after a checkpoint")
    said = run([tools[0], name + ".dsl", "--parallel", "thin", "--verify", "--no-kernels"])
    check("equal to the serial program" in said, said)
    return received(name + ".jsonl") / STEPS


def main(tools):
    draw = numpy.random.default_rng(3)
    x = draw.standard_normal((SAMPLES, INPUTS)).astype(F)
    y = numpy.sin(x @ draw.standard_normal((INPUTS, OUTPUTS)).astype(F)).astype(F)
    shapes = {"one.w": (INPUTS, HIDDEN), "one.b0": (HIDDEN,), "two.w": (HIDDEN, OUTPUTS), "two.b0": (OUTPUTS,)}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        numpy.save("x.npy", x)
        numpy.save("y.npy", y)
        with open("p.dsl", "w") as file:
            file.write(PROGRAM)
        run([tools[0], "p.dsl", "--parallel", "exact", "-o", "exact.plan"])
        run([tools[1], "exact.plan", "--quiet", "--steps", "0", "--save", "exact.begin"])
        run([tools[1], "exact.plan", "--quiet", "--log", "exact.jsonl", "--save", "exact"])
        begin, _ = read("exact.begin", 0, shapes, 4)
        want, _ = train(begin, x, y, order_of_samples(), 4, 1, lambda wanted: wanted)
        got, _ = read("exact", STEPS, shapes, 4)
        for name in shapes:  # the algorithm without compression is what ranks do without it
            check(numpy.abs(got[name] - want[name]).max() < 1e-6, "exact: `%s`" % name)
        exact = received("exact.jsonl") / STEPS
        for method in METHODS:
            for layout in LAYOUTS:
                bytes_of_step = test(tools, method, layout, x, y, order_of_samples(), shapes)
                if layout == "data4":
                    sent = sum(SENT[method](int(numpy.prod(shape))) + 4 for shape in shapes.values())
                    check(bytes_of_step == 4 * 3 * sent + 2 * 4 * 3,  # from the others; and the loss, by an all-reduce
                          "%s: %g bytes a step, %g without it" % (method, bytes_of_step, exact))
    print("compress: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]]))
