#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replicas that train parameters of their own:  mixing.py DTC DTRUN [--long] [SEED...]

A perceptron is trained on ranks by each method of `local` and `gossip`, and its checkpoints are what the algorithm of the method's
paper, written here for all replicas in turn and in f64, makes of the initial values in 20 steps: parameters and velocities of every
replica, the average, and the states of the outer optimizer, to NEAR of the largest element of all tensors of the kind; so are the
losses.

The bytes that ranks receive are those of a closed form, and those of the plan's report. A run that goes on from a checkpoint has the
bits of one that does not, and a plan without replicas reads the average as the model. dtc proves each layout, and `--verify` compares
it with the interpreter, and its machine code. What replicas cannot have is refused. Data are drawn for each seed; any seed passes."""

import json
import math
import os
import random
import sys
import tempfile

import samples_of as samples
from compress import gradients, write_npy
from runs import check, failures, run, saved

NEAR = 1e-6
SAMPLES, BATCH, INPUTS, HIDDEN, OUTPUTS, STEPS, RATE = 64, 24, 4, 4, 2, 20, 0.02
PROGRAM = """include "std.dsl"
dim batch = %d, inputs = %d, hidden = %d, outputs = %d
model net(x[batch, inputs]) -> [batch, outputs] {
  return x |> one:linear[inputs, hidden](std = 0.5) |> two:linear[hidden, outputs](std = 0.5)
}
names files on net {
  "first"[hidden, inputs] = one.w
  "shift"[hidden] = one.b0
  "second"[hidden, outputs] = two.w
  "last"[outputs] = two.b0
}
train {
  x[batch, inputs] = npy("x.npy")
  y[batch, outputs] = npy("y.npy")
  d = net(x) - y
  loss = mean[batch, outputs](d * d)
  optimizer = sgd(lr = %g, momentum = 0.9)
  eval = every(%d, data = (npy("x.npy"), npy("y.npy")))
  save = every(5)
  steps = %d
}
cluster two { gpus = 2; gpu = "cpu" }
cluster three { gpus = 3; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel exact on two { mesh data = 2; shard batch on data }
""" % (BATCH, INPUTS, HIDDEN, OUTPUTS, RATE, STEPS, STEPS)
LAYOUTS = {  # replicas, micro-batches, ranks, the block
    "data4": (4, 1, 4, "four { mesh data = 4; %s }"),
    "data2": (2, 1, 2, "two { mesh data = 2; %s }"),
    "data3": (3, 1, 3, "three { mesh data = 3; %s }"),
    "micro": (2, 3, 2, "two { mesh data = 2; micro batch = 3; %s }"),
    "mixed": (2, 1, 4, "four { mesh data = 2, tensor = 2; shard inputs on tensor; %s }"),
    "nodes": (2, 2, 4, "four { mesh data = 2, near = 2; shard batch on near; micro batch = 2; %s }"),
}
METHODS = {
    "local": "local 4 on data",
    "every": "local 1 on data",
    "diloco": "local 5 on data (outer = sgd(lr = 0.7, momentum = 0.9, nesterov = true))",
    "outer_adam": "local 2 on data (outer = adamw(lr = 0.03, decay = 0))",
    "ring": "gossip ring on data",
    "pairs": "gossip pairs on data",
    "seldom": "gossip pairs on data (every = 3)",
}
CASES = [("local", "data4"), ("diloco", "data4"), ("ring", "data4"), ("pairs", "data4"), ("diloco", "nodes"), ("ring", "micro")]
SHAPES = {"one.w": (INPUTS, HIDDEN), "one.b0": (HIDDEN,), "two.w": (HIDDEN, OUTPUTS), "two.b0": (OUTPUTS,)}
SIZES = {name: math.prod(shape) for name, shape in SHAPES.items()}
ELEMENTS = sum(SIZES.values())


# ---- the algorithms of papers ----

class Replica:
    """A worker: stochastic gradient descent with a velocity that nobody else sees."""

    def __init__(self, p):
        self.p = {name: list(values) for name, values in p.items()}
        self.velocity = {name: [0.0] * n for name, n in SIZES.items()}

    def step(self, rows):
        loss, g = 0.0, gradients(self.p, rows, 2 / (len(rows) * OUTPUTS))
        for x, y in rows:
            h = [self.p["one.b0"][k] + sum(x[i] * self.p["one.w"][i * HIDDEN + k] for i in range(INPUTS)) for k in range(HIDDEN)]
            z = [self.p["two.b0"][o] + sum(h[k] * self.p["two.w"][k * OUTPUTS + o] for k in range(HIDDEN)) for o in range(OUTPUTS)]
            loss += sum((z[o] - y[o]) ** 2 for o in range(OUTPUTS)) / (len(rows) * OUTPUTS)
        for name in SHAPES:
            self.velocity[name] = [0.9 * v + d for v, d in zip(self.velocity[name], g[name])]
            self.p[name] = [w - RATE * v for w, v in zip(self.p[name], self.velocity[name])]
        return loss


def mean_of(replicas):
    return {name: [sum(values) / len(replicas) for values in zip(*(r.p[name] for r in replicas))] for name in SHAPES}


class Average:
    """Stich, Local SGD converges fast and communicates little, 2019."""

    def __init__(self, every, p):
        self.every, self.states = every, {}

    def mix(self, replicas, step):
        if (step + 1) % self.every == 0:
            self.give(replicas, mean_of(replicas))

    def give(self, replicas, p):
        for r in replicas:
            r.p = {name: list(values) for name, values in p.items()}


class Diloco(Average):
    """Douillard et al., DiLoCo, 2023: Nesterov's momentum on what replicas have moved by, on average."""

    def __init__(self, every, p):
        super().__init__(every, p)
        self.p = {name: list(values) for name, values in p.items()}
        self.states = {"moment1": {name: [0.0] * n for name, n in SIZES.items()}, "moment2": self.p}

    def mix(self, replicas, step):
        if (step + 1) % self.every:
            return
        mean, velocity = mean_of(replicas), self.states["moment1"]
        for name in SHAPES:
            moved = [a - b for a, b in zip(self.p[name], mean[name])]
            velocity[name] = [0.9 * v + d for v, d in zip(velocity[name], moved)]
            self.p[name] = [a - 0.7 * (d + 0.9 * v) for a, d, v in zip(self.p[name], moved, velocity[name])]
        self.give(replicas, self.p)


class OuterAdam(Average):
    """Reddi et al., Adaptive federated optimization, 2021: Adam, with corrections of its own count."""

    def __init__(self, every, p):
        super().__init__(every, p)
        self.p, self.n = {name: list(values) for name, values in p.items()}, 0
        self.states = {"moment1": {name: [0.0] * n for name, n in SIZES.items()},
                       "moment2": {name: [0.0] * n for name, n in SIZES.items()}, "moment3": self.p}

    def mix(self, replicas, step):
        if (step + 1) % self.every:
            return
        self.n += 1
        mean = mean_of(replicas)
        for name in SHAPES:
            for i in range(SIZES[name]):
                d, m, v = self.p[name][i] - mean[name][i], self.states["moment1"][name], self.states["moment2"][name]
                m[i], v[i] = 0.9 * m[i] + 0.1 * d, 0.999 * v[i] + 0.001 * d * d
                self.p[name][i] -= 0.03 * (m[i] / (1 - 0.9**self.n)) / (math.sqrt(v[i] / (1 - 0.999**self.n)) + 1e-8)
        self.give(replicas, self.p)


class Ring(Average):
    """Lian et al., Can decentralized algorithms outperform centralized algorithms?, 2017, with the update before the average."""

    def mix(self, replicas, step):
        n = len(replicas)
        meets = [sorted({(r - 1) % n, r, (r + 1) % n}) for r in range(n)]
        self.meet(replicas, meets)

    def meet(self, replicas, meets):
        before = [r.p for r in replicas]
        for r, members in zip(replicas, meets):
            r.p = {name: [sum(values) / len(members) for values in zip(*(before[m][name] for m in members))] for name in SHAPES}


class Pairs(Ring):
    """Boyd et al., Randomized gossip algorithms, 2006: of all rounds in which everybody has a partner one is drawn."""

    def mix(self, replicas, step):
        n = len(replicas)
        if (step + 1) % self.every:
            return
        # a tournament: the last of an even number stands still, the others go round it
        circle = list(range(n if n % 2 else n - 1))
        word = samples.philox(samples.hash_text("gossip", 0), step, 0, 0)[0]
        turn = word * max(len(circle), 1) >> 32
        meets = [[r] for r in range(n)]
        for a in range(n):
            for b in range(a):
                if (b + a) % len(circle) == turn if a in circle else (2 * b) % len(circle) == turn:
                    meets[a].append(b)
                    meets[b].append(a)
        check(all(len(m) == 2 for m in meets) or n % 2, "a member of a round has no partner, or two: %s" % meets)
        self.meet(replicas, meets)


ALGORITHMS = {"local": (Average, 4), "every": (Average, 1), "diloco": (Diloco, 5), "outer_adam": (OuterAdam, 2), "ring": (Ring, 1),
              "pairs": (Pairs, 1), "seldom": (Pairs, 3)}


# ---- ranks ----

def near(what, got, prefix, want, suffix=""):
    """Compares tensors of one kind, by name of the parameter."""
    most = max(abs(x) for values in want.values() for x in values) or 1
    for name, values in want.items():
        tensor = got[prefix + name + suffix]
        off = max(abs(a - b) for a, b in zip(tensor, values))
        check(len(tensor) == len(values) and off <= NEAR * most, "%s of `%s` is off by %g of %g" % (what, name, off, most))


def own_rows(rows, replica, n, micro):
    """A micro-batch has an equal part of the samples of each replica."""
    each = BATCH // n // micro
    return [row for m in range(micro) for row in rows[(m * n + replica) * each:(m * n + replica + 1) * each]]


def compare(name, begin, rows, method, n, micro, losses):
    kind, every = ALGORITHMS[method]
    p = {key: [float(value) for value in begin[key]] for key in SHAPES}
    replicas, algorithm = [Replica(p) for _ in range(n)], kind(every, p)
    for step in range(STEPS):
        loss = sum(r.step(own_rows(rows[step], i, n, micro)) for i, r in enumerate(replicas)) / n
        check(abs(losses[step] - loss) <= NEAR * 10 * loss, "%s, step %d: a loss of %.9g, not %.9g" % (name, step + 1, losses[step], loss))
        algorithm.mix(replicas, step)
        if (step + 1) % 5:
            continue
        got, mean, where = saved(name, step + 1), mean_of(replicas), "%s after %d steps" % (name, step + 1)
        near(where + ": the average", got, "", mean)
        near(where + ": replicas", got, "replica.", {key: [x for r in replicas for x in r.p[key]] for key in SHAPES})
        near(where + ": velocities", got, "replica.moment1.", {key: [x for r in replicas for x in r.velocity[key]] for key in SHAPES})
        for state, values in algorithm.states.items():
            near("%s: outer %s" % (where, state), got, state + ".", values, "@outer")
        check(len(got) == len(SHAPES) * (3 + len(algorithm.states)), where + ": other tensors")
    apart = max(max(map(abs, (a - b for a, b in zip(r.p["one.w"], replicas[0].p["one.w"])))) for r in replicas)
    check(apart > 1e-3 or STEPS % every == 0, "%s: replicas are alike" % name)


def exchanged(method, n, elements):
    """Bytes that all replicas together receive in an exchange."""
    if method == "ring":
        return 4 * elements * n * min(n - 1, 2)
    if method in ("pairs", "seldom"):
        return 4 * elements * (n - n % 2)
    return 2 * 4 * elements * (n - 1)


def test(tools, method, layout, rows, begin, checks_more):
    n, micro, ranks, text = LAYOUTS[layout]
    name = method + "." + layout
    with open(name + ".dsl", "w") as file:
        file.write(PROGRAM + "parallel mixes on " + text % METHODS[method] + "\n")
    run([tools[0], name + ".dsl", "--parallel", "mixes", "-o", name + ".plan"])
    run([tools[1], name + ".plan", "--quiet", "--overwrite", "--save", name, "--log", name + ".jsonl"])
    with open(name + ".jsonl") as file:
        events = [json.loads(line) for line in file]
    compare(name, begin, rows, method, n, micro, [event["loss"] for event in events if event["event"] == "step"])
    if layout.startswith("data"):
        every = ALGORITHMS[method][1]
        got = sum(g["received"] for e in events if e["event"] == "traffic" for g in e["groups"])
        step = 2 * 4 * (n - 1) * 2  # the loss, and the norm of gradients
        want = STEPS * step + STEPS // every * exchanged(method, n, ELEMENTS)
        check(got == want, "%s: %d bytes, not %d" % (name, got, want))
        said = json.loads(run([tools[0], name + ".dsl", "--parallel", "mixes", "--no-kernels", "--report=json"]))["traffic"]["replicas"]
        part = sum(g["received"] for g in said["groups"])
        check(abs(part * every - exchanged(method, n, ELEMENTS)) < 1e-6, "%s: %g bytes a step by the report" % (name, part))
    if not checks_more:
        return
    run([tools[1], name + ".plan", "--quiet", "--resume", name + "/step-00000010", "--save", name + ".again"])
    again = saved(name + ".again", STEPS)
    check(all(again[key] == value for key, value in saved(name, STEPS).items()), name + ": other bits after a checkpoint")
    verified = run([tools[0], name + ".dsl", "--parallel", "mixes", "--verify"])
    check("machine code: equal" in verified and "life of a run: equal" in verified, verified)


def test_others(tools, rows):
    """A plan without replicas begins with the average, and evaluates it; it cannot go on with replicas."""
    run([tools[0], "p.dsl", "--parallel", "exact", "-o", "exact.plan"])
    own = run([tools[1], "local.data4.plan", "--eval", "--resume", "local.data4"])
    other = run([tools[1], "exact.plan", "--eval", "--resume", "local.data4"])
    numbers = [float(text.split("loss")[1].split()[0]) for text in (own, other)]
    check(abs(numbers[0] - numbers[1]) <= 1e-4, "evaluations: %s and %s" % (own, other))
    said = run([tools[1], "exact.plan", "--resume", "local.data4", "--save", "no", "--steps", "30"], wants=1)
    check("replica" in said and "--weights" in said, said)
    run([tools[1], "local.data4.plan", "--quiet", "--weights", "diloco.data4", "--steps", "0", "--save", "from", "--overwrite"])
    began, was = saved("from", 0), saved("diloco.data4", STEPS)
    check(all(began[key] == was[key] and began["replica." + key] == was[key] * 4 for key in SHAPES), "replicas begin with other weights")
    run([tools[1], "diloco.data4.plan", "--quiet", "--resume", "diloco.data4", "--steps", "0", "--export", "files", "--overwrite"])
    run([tools[1], "local.data4.plan", "--quiet", "--import", "files", "--steps", "0", "--save", "read", "--overwrite"])
    read = saved("read", 0)
    check(all(read[key] == was[key] and read["replica." + key] == was[key] * 4 for key in SHAPES), "the export is not the average")
    said = run([tools[1], "local.data4.plan", "--resume", "local.data4", "--save", "no", "--steps", "30", "--prune", "*.w=50%"], wants=2)
    check("has replicas (`replica." in said and "--weights" in said, said)
    said = run([tools[0], "local.data4.dsl", "--parallel", "mixes", "--set", 'train.quantize=int8("*.w", group = 2)', "--verify"])
    check("codes: of 2 parameters" in said and "machine code: equal" in said, "codes of the average: " + said)


REFUSED = [
    ("two { mesh data = 2; local 4 on data; shard batch on data }", "E0486"),
    ("two { mesh data = 2; local 0 on data }", "E0511"),
    ("two { mesh data = 2; gossip star on data }", "E0511"),
    ("two { mesh data = 2; gossip ring on data; local 2 on data }", "E0512"),
    ("four { mesh data = 2, near = 2; local 4 on data; shard batch on near; zero 1 on near }", "E0592"),
    ("four { mesh data = 2, near = 2; local 4 on data; shard batch on near; compress int8 on near }", "E0592"),
]


def test_refused(tools):
    for block, code in REFUSED:
        with open("no.dsl", "w") as file:
            file.write(PROGRAM + "parallel no on %s\n" % block)
        said = run([tools[0], "no.dsl", "--parallel", "no", "--check"], wants=3)
        check(code in said, "%s is not refused by %s: %s" % (block, code, said))
    said = run([tools[0], "no.dsl", "--parallel", "no", "--check", "-D", "batch=5"], wants=3)
    check("E0486" in said, "replicas of 2.5 samples: " + said)


def rows_of_steps(seed):
    draw = random.Random(seed)
    mix = [[draw.gauss(0, 1) for _ in range(INPUTS)] for _ in range(OUTPUTS)]
    x = [[draw.gauss(0, 1) for _ in range(INPUTS)] for _ in range(SAMPLES)]
    y = [[math.sin(sum(a * b for a, b in zip(row, column))) for column in mix] for row in x]
    x, y = write_npy("x.npy", x), write_npy("y.npy", y)
    key = samples.hash_text("data", 0)
    order = [samples.permuted(key, i // SAMPLES, SAMPLES, i % SAMPLES) for i in range(STEPS * BATCH)]
    return [[(x[i], y[i]) for i in order[step * BATCH:(step + 1) * BATCH]] for step in range(STEPS)]


def main(tools, words):
    long = "--long" in words
    seeds = [int(word) for word in words if word != "--long"] or [3]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("p.dsl", "w") as file:
            file.write(PROGRAM)
        for seed in seeds:
            rows = rows_of_steps(seed)
            run([tools[0], "p.dsl", "--parallel", "exact", "-o", "exact.plan"])
            run([tools[1], "exact.plan", "--quiet", "--overwrite", "--steps", "0", "--save", "begin"])
            begin = saved("begin", 0)
            for method, layout in [(m, l) for m in METHODS for l in LAYOUTS] if long else CASES:
                test(tools, method, layout, rows, begin, long or (method, layout) == ("diloco", "data4"))
            test_others(tools, rows)
        test_refused(tools)
    print("mixing: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]], sys.argv[3:]))
