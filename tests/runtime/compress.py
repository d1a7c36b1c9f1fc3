#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients in a smaller form between ranks:  compress.py DTC DTRUN [SEED...]

A perceptron is trained by every method of `compress` on ranks, and its checkpoint of each step is what the algorithm of the method's
paper, written here for all workers in turn, makes of the one before: parameters, velocities, and the errors that workers keep.

Sums of ranks are rounded in f32, here they are in f64; so what a worker wants to send is known up to ROUNDED of the largest of its
tensor. Where a threshold between two codes lies in that interval, either is right, and the one that the rank took shows in the error it
keeps. All other codes must be the same, and as steps are compared one by one, a code that is the other one changes no later step.

The bytes that a rank receives are counted, and a run that goes on from a checkpoint has the bits of one that does not. dtc proves each
layout, and `--verify` interprets it. Data are drawn for each seed; any seed passes."""

import array
import json
import math
import os
import random
import struct
import sys
import tempfile

import samples_of as samples
from runs import check, failures, run, saved

ROUNDED = 2.0**-18
SAMPLES, BATCH, INPUTS, HIDDEN, OUTPUTS, STEPS, RATE = 64, 8, 4, 4, 2, 8, 0.05
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
  save = every(1)
  steps = %d
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel exact on four { mesh data = 4; shard batch on data }
""" % (BATCH, INPUTS, HIDDEN, OUTPUTS, RATE, STEPS)
LAYOUTS = {
    "data4": (4, 1, "four { mesh data = 4; shard batch on data; %s }"),
    "data2": (2, 1, "two { mesh data = 2; shard batch on data; %s }"),
    "micro": (2, 2, "two { mesh data = 2; shard batch on data; micro batch = 2; %s }"),
    "mixed": (2, 1, "four { mesh data = 2, tensor = 2; shard batch on data; shard inputs on tensor; %s }"),
    "nodes": (2, 1, "four { mesh data = 2, near = 2; shard batch on data, near; %s }"),
}
SHAPES = {"one.w": (INPUTS, HIDDEN), "one.b0": (HIDDEN,), "two.w": (HIDDEN, OUTPUTS), "two.b0": (OUTPUTS,)}
SIZES = {name: math.prod(shape) for name, shape in SHAPES.items()}


# ---- the algorithms of papers: scale of a tensor, and what others read of an element that is sent ----

def largest_of(levels):
    return lambda wanted: max(max(map(abs, wanted)) / levels, 1e-30)


def int8(x, scale):
    """Seide et al. 2014, with 255 levels."""
    return math.floor(x / scale + 0.5) * scale


def fp8(x, scale):
    """Peng et al. 2023: floats of 4 bits of exponent and 3 of mantissa (Micikevicius et al. 2022), the largest of them 448."""
    size = min(abs(x) / scale, 448)
    unit = 2.0 ** (min(max(math.frexp(size)[1] - 1, -6), 8) - 3)
    return math.copysign(math.floor(size / unit + 0.5) * unit * scale, x)


def one_bit(x, scale):
    """Karimireddy et al. 2019: signs, and the mean of what they stand for."""
    return scale if x >= 0 else -scale


METHODS = {  # the scale, what is sent, and bytes of all elements of a parameter as a rank sends them, besides 4 of the scale
    "int8": (largest_of(127), int8, lambda n: n),
    "fp8": (largest_of(448), fp8, lambda n: n),
    "one_bit": (lambda wanted: sum(map(abs, wanted)) / len(wanted), one_bit, lambda n: (n + 7) // 8),
}


def gradients(p, rows, share=2 / (BATCH * OUTPUTS)):
    """The part of these rows, pairs of x and y, of the gradient of a mean of squares: over the whole batch, or as `share` says."""
    g = {name: [0.0] * n for name, n in SIZES.items()}
    for x, y in rows:
        h = [p["one.b0"][k] + sum(x[i] * p["one.w"][i * HIDDEN + k] for i in range(INPUTS)) for k in range(HIDDEN)]
        z = [p["two.b0"][o] + sum(h[k] * p["two.w"][k * OUTPUTS + o] for k in range(HIDDEN)) for o in range(OUTPUTS)]
        d = [(z[o] - y[o]) * share for o in range(OUTPUTS)]
        back = [sum(d[o] * p["two.w"][k * OUTPUTS + o] for o in range(OUTPUTS)) for k in range(HIDDEN)]
        for name, left, right in (("two.w", h, d), ("two.b0", [1], d), ("one.w", x, back), ("one.b0", [1], back)):
            for i, a in enumerate(left):
                for k, b in enumerate(right):
                    g[name][i * len(right) + k] += a * b
    return g


def own_gradients(p, rows, workers, micro):
    """By worker: the gradients of its rows of all micro-batches."""
    each = BATCH // workers // micro
    for w in range(workers):
        yield gradients(p, [row for m in range(micro) for row in rows[(m * workers + w) * each:(m * workers + w + 1) * each]])


# ---- ranks ----

class Step:
    """A checkpoint. Where nothing is compressed, no errors are kept."""

    def __init__(self, folder, step, workers):
        tensors = saved(folder, step)
        self.p = {name: tensors[name] for name in SHAPES}
        self.velocity = {name: tensors["moment1." + name] for name in SHAPES}
        self.error = {}
        for name, n in SIZES.items():
            kept = tensors.get("moment2." + name, array.array("f", bytes(4 * n * workers)))
            self.error[name] = [kept[w * n:(w + 1) * n] for w in range(workers)]


def near(what, got, want, most):
    off = max(abs(a - b) for a, b in zip(got, want))
    check(len(got) == len(want) and off <= most, "%s is off by %g, at most %g is rounding" % (what, off, most))


class Doubts:
    """Counts codes, and those of them of which rounding decides."""

    codes = doubtful = 0


def sent_by(what, method, wanted, kept, doubts):
    """What a worker sends, whose error is then `kept`: what it must send, unless rounding decides."""
    scale_of, send, _ = METHODS[method]
    scale, noise, sent = scale_of(wanted), max(map(abs, wanted)) * ROUNDED, []
    for i, x in enumerate(wanted):
        allowed = [send(x + d, scale) for d in (0, -noise, noise)]
        took = x - kept[i]
        sent.append(min(allowed, key=lambda value: abs(value - took)))
        check(abs(sent[-1] - took) <= 2 * noise, "%s: element %d of %g is sent as %g, not %g" % (what, i, x, took, allowed[0]))
        doubts.codes += 1
        doubts.doubtful += max(allowed) - min(allowed) > 2 * noise
    return sent


def compare_step(what, before, after, rows, method, workers, micro, doubts):
    own = list(own_gradients(before.p, rows, workers, micro))
    for name in SHAPES:
        place, total = "%s: `%s`" % (what, name), [0.0] * SIZES[name]
        largest = max(map(abs, before.velocity[name]))
        for w in range(workers):
            wanted = [g + e for g, e in zip(own[w][name], before.error[name][w])]
            largest += max(map(abs, wanted))
            kept = after.error[name][w]
            sent = sent_by("%s of worker %d" % (place, w), method, wanted, kept, doubts) if method else wanted
            total = [a + b for a, b in zip(total, sent)]
        velocity = [0.9 * v + g for v, g in zip(before.velocity[name], total)]
        moved = [p - RATE * v for p, v in zip(before.p[name], velocity)]
        near("the velocity of " + place, after.velocity[name], velocity, largest * ROUNDED)
        near(place, after.p[name], moved, (RATE * largest + max(map(abs, moved))) * ROUNDED)


def compare_steps(name, begin, rows, method, workers, micro):
    doubts = Doubts()
    before = Step(begin, 0, workers)
    check(not any(any(error) for errors in before.error.values() for error in errors), name + ": errors at the beginning")
    for step in range(STEPS):
        after = Step(name, step + 1, workers)
        compare_step("%s, step %d" % (name, step + 1), before, after, rows[step], method, workers, micro, doubts)
        before = after
    if method:
        check(doubts.codes == STEPS * workers * sum(SIZES.values()), name + ": not all codes are compared")
        check(doubts.doubtful < doubts.codes / 50, "%s: %d of %d codes are in doubt" % (name, doubts.doubtful, doubts.codes))
        check(all(max(map(abs, error)) > 0 for errors in before.error.values() for error in errors if len(error) > 1),
              name + ": nothing is rounded away")


def received(log):
    with open(log) as file:
        traffic = [event for event in map(json.loads, file.read().splitlines()) if event["event"] == "traffic"][-1]
    return sum(group["received"] for group in traffic["groups"] if group["axes"] == ["data"])


def test(tools, method, layout, rows, checks_more):
    workers, micro, text = LAYOUTS[layout]
    name = method + "." + layout
    with open(name + ".dsl", "w") as file:
        file.write(PROGRAM + "parallel thin on " + text % ("compress %s on data" % method) + "\n")
    run([tools[0], name + ".dsl", "--parallel", "thin", "-o", name + ".plan"])
    run([tools[1], name + ".plan", "--quiet", "--overwrite", "--save", name, "--log", name + ".jsonl"])
    compare_steps(name, "begin", rows, method, workers, micro)
    if layout == "data4":
        sent = sum(METHODS[method][2](n) + 4 for n in SIZES.values())
        got = received(name + ".jsonl") / STEPS
        check(got == 4 * 3 * sent + 2 * 4 * 3, "%s: %g bytes a step" % (name, got))  # from others; the loss, by an all-reduce
    if not checks_more:
        return
    run([tools[1], name + ".plan", "--quiet", "--resume", name + "/step-00000004", "--save", name + ".again"])
    again = saved(name + ".again", STEPS)
    check(all(again[key] == value for key, value in saved(name, STEPS).items()), name + ": other bits after a checkpoint")
    said = run([tools[0], name + ".dsl", "--parallel", "thin", "--verify", "--no-kernels"])
    check("equal to the serial program" in said, said)


def write_npy(path, rows):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    header = (header + " " * (117 - len(header)) + "\n").encode()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
        for row in rows:
            file.write(array.array("f", row).tobytes())
    return [array.array("f", row) for row in rows]


def rows_of_steps(seed, steps=STEPS):
    """Writes the data of the seed, and returns the rows of each step (docs/data.md)."""
    draw = random.Random(seed)
    mix = [[draw.gauss(0, 1) for _ in range(INPUTS)] for _ in range(OUTPUTS)]
    x = [array.array("f", [draw.gauss(0, 1) for _ in range(INPUTS)]) for _ in range(SAMPLES)]
    y = [array.array("f", [math.sin(sum(a * b for a, b in zip(row, column))) for column in mix]) for row in x]
    write_npy("x.npy", x)
    write_npy("y.npy", y)
    key = samples.hash_text("data", 0)
    order = [samples.permuted(key, i // SAMPLES, SAMPLES, i % SAMPLES) for i in range(steps * BATCH)]
    return [[(x[i], y[i]) for i in order[step * BATCH:(step + 1) * BATCH]] for step in range(steps)]


def main(tools, seeds):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("p.dsl", "w") as file:
            file.write(PROGRAM)
        for seed in seeds:
            rows = rows_of_steps(seed)
            run([tools[0], "p.dsl", "--parallel", "exact", "-o", "exact.plan"])
            run([tools[1], "exact.plan", "--quiet", "--overwrite", "--steps", "0", "--save", "begin"])
            run([tools[1], "exact.plan", "--quiet", "--overwrite", "--save", "exact"])
            compare_steps("exact", "begin", rows, None, 4, 1)  # the reference without compression is what ranks do without it
            for number, layout in enumerate(LAYOUTS):
                for turn, method in enumerate(METHODS):
                    test(tools, method, layout, rows, seed == seeds[0] and (layout == "data4" or number % 3 == turn))
    print("compress: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]], [int(seed) for seed in sys.argv[3:]] or [3]))
