#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schedules and optimizers of the library against papers:  formulas.py DTC DTRUN

formulas.dsl runs 20 steps on gradients that are known without a model, and saves each. Here the
same steps are computed in double precision, from formulas of papers and of PyTorch's manual,
without sight of the library. The rate of a schedule is what its parameter loses in a step. A
parameter may be off by 2^-12 of what the steps changed.

A norm keeps statistics of three steps; an evaluation uses these, and no dropout."""

import json
import math
import os
import sys
import tempfile

from runs import OF_CHANGE, check, failures, norm, run, saved

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, ROWS, COLS, SLIM = 20, 4, 6, 3
BASE = 0.1


def after_warm_up(warmup, rest):
    """Linear to the base in `warmup` steps from step 0 on (Goyal et al., 2017); then rest."""
    return lambda t: BASE * (t + 1) / warmup if t < warmup else rest(t - warmup)


def cosine_of(start, end, part):
    """Annealing from start to end (Loshchilov and Hutter, SGDR, 2017)."""
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


def one_cycle(t):
    """PyTorch's OneCycleLR: 30 % up from base / 25, then down to base / 25 / 10000."""
    top, last = 0.3 * STEPS - 1, STEPS - 1
    if t <= top:
        return cosine_of(BASE / 25, BASE, t / top)
    return cosine_of(BASE, BASE / 25 / 1e4, (t - top) / (last - top))


SCHEDULES = {
    "s_constant": lambda t: BASE,
    "s_cosine": after_warm_up(5, lambda t: cosine_of(BASE, 0.01, min(t / 11, 1))),
    "s_linear": after_warm_up(5, lambda t: BASE - (BASE - 0.01) * min(t / 11, 1)),
    "s_steps": lambda t: BASE * 0.5 ** (t // 6),
    "s_sqrt": lambda t: BASE / math.sqrt(max(t + 1, 4)),
    "s_power": after_warm_up(5, lambda t: 0.01 + (BASE - 0.01) * max(1 - t / 11, 0) ** 2),
    # stable for 7 steps, then 7 steps down to the floor at step 18
    "s_wsd": after_warm_up(4, lambda t: BASE - (BASE - 0.02) * min(max(t - 7, 0) / 7, 1)),
    "s_cycle": one_cycle,
    "s_range": lambda t: 0.001 * 1000 ** (t / 20),
}


class Matrix:
    """The final values of a parameter, row-major, and the state of its optimizer."""

    def __init__(self, values, n):
        self.w, self.rows, self.cols = list(values), len(values) // n, n
        self.m, self.v = [0.0] * len(values), [0.0] * len(values)
        self.r, self.c = [0.0] * self.rows, [0.0] * self.cols

    def gradient(self):
        return [(1 + i // self.cols + 2 * (i % self.cols)) * (w - 0.25)
                for i, w in enumerate(self.w)]

    def row(self, i, values):
        return values[i * self.cols:(i + 1) * self.cols]


def shorter(g, most):
    return [x * min(most / (norm(g) + 1e-6), 1) for x in g]


def mixed(old, new, keeps):
    return [keeps * a + (1 - keeps) * b for a, b in zip(old, new)]


def adam_direction(x, g, t, betas, eps):
    """Kingma and Ba, 2015, algorithm 1."""
    x.m = mixed(x.m, g, betas[0])
    x.v = mixed(x.v, [d * d for d in g], betas[1])
    return [m / (1 - betas[0] ** t) / (math.sqrt(v / (1 - betas[1] ** t)) + eps)
            for m, v in zip(x.m, x.v)]


def adamw(x, t, lr=0.05, betas=(0.9, 0.999), eps=1e-8, decay=0.0, clip=None):
    """Loshchilov and Hutter, 2019, algorithm 2."""
    g = shorter(x.gradient(), clip) if clip else x.gradient()
    way = adam_direction(x, g, t, betas, eps)
    x.w = [w - lr * (d + decay * w) for w, d in zip(x.w, way)]


def sgd(x, t, lr=0.002, momentum=0.9, decay=0.0, clip=None, nesterov=False):
    """torch.optim.SGD without dampening."""
    g = shorter(x.gradient(), clip) if clip else x.gradient()
    d = [a + decay * w for a, w in zip(g, x.w)]
    x.m = [momentum * m + a for m, a in zip(x.m, d)]
    x.w = [w - lr * (a + momentum * m if nesterov else m) for w, a, m in zip(x.w, d, x.m)]


def lion(x, t, lr=0.01, betas=(0.6, 0.9), decay=0.1):
    """Chen et al., 2023, algorithm 2."""
    g = x.gradient()
    way = [math.copysign(1, u) if u else 0.0 for u in mixed(x.m, g, betas[0])]
    x.w = [w - lr * (d + decay * w) for w, d in zip(x.w, way)]
    x.m = mixed(x.m, g, betas[1])


def lamb(x, t, lr=0.02, decay=0.1):
    """You et al., 2020, algorithm 2, with the identity for phi."""
    way = adam_direction(x, x.gradient(), t, (0.9, 0.999), 1e-6)
    way = [d + decay * w for d, w in zip(way, x.w)]
    trust = norm(x.w) / norm(way)
    x.w = [w - lr * trust * d for w, d in zip(x.w, way)]


def adafactor(x, t, lr=0.3, decay=0.1, threshold=0.5):
    """Shazeer and Stern, 2018, algorithm 4, as torch.optim.Adafactor states it."""
    g, new = x.gradient(), t ** -0.8
    root_mean = lambda values: norm(values) / math.sqrt(len(values))
    length = max(1e-3, root_mean(x.w)) * min(lr, 1 / math.sqrt(t))
    x.w = [w * (1 - lr * decay) for w in x.w]
    square = [d * d for d in g]
    x.r = mixed(x.r, [sum(x.row(i, square)) / x.cols for i in range(x.rows)], 1 - new)
    x.c = mixed(x.c, [sum(square[k::x.cols]) / x.rows for k in range(x.cols)], 1 - new)
    mean = sum(x.r) / x.rows
    way = [d / math.sqrt(x.r[i // x.cols] * x.c[i % x.cols] / mean) for i, d in enumerate(g)]
    long = max(1, root_mean(way) / threshold)
    x.w = [w - length / long * d for w, d in zip(x.w, way)]


def product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def muon(x, t, lr=0.02, momentum=0.9, decay=0.1):
    """Jordan et al., 2024, as torch.optim.Muon states it; the matrix is declared [in, out]."""
    g = x.gradient()
    x.m = mixed(x.m, g, momentum)
    u = mixed(g, x.m, 1 - momentum)
    y = [[v / max(norm(u), 1e-7) for v in x.row(i, u)] for i in range(x.rows)]
    turns = x.rows > x.cols
    y = [list(row) for row in zip(*y)] if turns else y
    for _ in range(5):
        gram = product(y, [list(row) for row in zip(*y)])
        more = [[-4.775 * p + 2.0315 * q for p, q in zip(*rows)]
                for rows in zip(gram, product(gram, gram))]
        y = [[3.4445 * p + q for p, q in zip(*rows)] for rows in zip(y, product(more, y))]
    y = [list(row) for row in zip(*y)] if turns else y
    scale = lr * math.sqrt(max(1, x.cols / x.rows))
    x.w = [w * (1 - lr * decay) - scale * v for w, v in zip(x.w, [v for row in y for v in row])]


OPTIMIZERS = {
    "adamw_w": lambda x, t: adamw(x, t, betas=(0.8, 0.95), eps=1e-3, decay=0.1, clip=2),
    "plain_w": adamw,
    "sgd_w": lambda x, t: sgd(x, t, decay=0.1, clip=9),
    "nesterov_w": lambda x, t: sgd(x, t, nesterov=True),
    "lion_w": lion,
    "lamb_w": lamb,
    "factor_w": adafactor,
    "muon_w": muon,
    "muon_t": muon,
}


def check_schedule(name, values):
    for t in range(STEPS):
        got, want = values[t][0] - values[t + 1][0], SCHEDULES[name](t)
        check(abs(got - want) <= 1e-6,
              "%s: the rate of step %d is %.7g instead of %.7g" % (name, t, got, want))


def check_optimizer(name, values):
    x = Matrix(values[0], SLIM if name == "muon_t" else COLS)
    for t in range(1, STEPS + 1):
        OPTIMIZERS[name](x, t)
        off = norm([a - b for a, b in zip(values[t], x.w)])
        change = norm([a - b for a, b in zip(values[0], x.w)])
        check(off <= OF_CHANGE * change,
              "%s: step %d is off by %g, and steps changed it by %g" % (name, t, off, change))


def check_norm(dtc, dtrun):
    """Running statistics, and what an evaluation computes with them (torch.nn.BatchNorm1d)."""
    steps, rate, batch = 3, 0.25, 2
    run([dtc, os.path.join(HERE, "formulas.dsl"), "--train", "norms", "-o", "norms"])
    run([dtrun, "norms", "--quiet", "--save", "normed", "--log", "norms.jsonl"])
    with open("norms.jsonl") as file:
        evaluated = [e["loss"] for e in map(json.loads, file) if e["event"] == "eval"]
    tensors, squares, left = saved("normed", steps), 0.0, (1 - rate) ** steps
    n = batch * ROWS
    for k in range(COLS):
        values = [(i + 1) * (k + 1) for i in range(ROWS)]
        mean = sum(values) / ROWS
        mu = (1 - left) * mean
        var = left + (1 - left) * sum((v - mean) ** 2 for v in values) / ROWS * n / (n - 1)
        squares += sum((v - mu) ** 2 / (var + 1e-5) for v in values)
        for state, want in (".mu", mu), (".var", var):
            got = [tensor[k] for name, tensor in tensors.items() if name.endswith(state)]
            check(len(got) == 1 and abs(got[0] - want) <= 1e-5 * want,
                  "norm%s %d is %s instead of %g" % (state, k, got, want))
    want = squares / ROWS / COLS
    check(len(evaluated) == 1 and abs(evaluated[0] - want) <= 1e-5 * want,
          "an evaluation gives %s instead of %g" % (evaluated, want))


def main():
    dtc, dtrun = [os.path.abspath(path) for path in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run([dtc, os.path.join(HERE, "formulas.dsl"), "--train", "steps_of_all", "-o", "plan"])
        run([dtrun, "plan", "--quiet", "--steps", "0", "--save", "begin"])
        run([dtrun, "plan", "--quiet", "--save", "steps"])
        kept = [saved("begin", 0)] + [saved("steps", t) for t in range(1, STEPS + 1)]
        check_norm(dtc, dtrun)
    for name in SCHEDULES:
        check_schedule(name, [tensors[name] for tensors in kept])
    for name in OPTIMIZERS:
        check_optimizer(name, [tensors[name] for tensors in kept])
    print("%d failures" % len(failures))
    sys.exit(bool(failures))


main()
