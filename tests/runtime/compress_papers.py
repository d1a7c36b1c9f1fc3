#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""20 steps with `compress` next to the algorithms of papers:  compress_papers.py DTC DTRUN [all]

A perceptron is trained on two and four ranks. The same steps are computed here, for all workers in turn and in double precision, from
the papers' algorithms: nothing is read back from the ranks but the first parameters. Every tensor of every checkpoint, the errors that
workers keep among them, is within 1e-6 of the result. An algorithm decides (which elements are the largest, which sign): a decision
that rounding could turn would be no fault, so the test refuses data for which one is that close.

The bytes that ranks receive are those that follow from the algorithm, in the report of the plan and in the log of the run. With `all`
there are more layouts. A model with a loop, whose iterations are on two stages, and with a parameter without axes is interpreted."""

import json
import os
import sys
import tempfile

import samples_of as samples
from compress import INPUTS, HIDDEN, OUTPUTS, BATCH, SAMPLES, SHAPES, SIZES, own_gradients, rows_of_steps
from runs import CLUSTERS, NET, check, failures, run, saved, write_tokens

STEPS, RATE, MOMENTUM, CLOSE, NEAR = 20, 0.04, 0.9, 1e-6, 1e-5
PROGRAM = """include "std.dsl"
dim batch = %d, inputs = %d, hidden = %d, outputs = %d
model net(x[batch, inputs]) -> [batch, outputs] {
  return x |> one:linear[inputs, hidden](std = 0.5) |> two:linear[hidden, outputs](std = 0.5)
}
train {
  x[batch, inputs] = npy("x.npy")
  y[batch, outputs] = npy("y.npy")
  d = net(x) - y
  loss = mean[batch, outputs](d * d) / 8
  optimizer = OPTIMIZER
  save = every(1)
  steps = %d
}
cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
parallel thin on LAYOUT
""" % (BATCH, INPUTS, HIDDEN, OUTPUTS, STEPS)
LAYOUTS = {  # workers, micro-batches, text
    "data2": (2, 1, "two { mesh data = 2; shard batch on data; %s }"),
    "data4": (4, 1, "four { mesh data = 4; shard batch on data; %s }"),
    "micro": (2, 2, "two { mesh data = 2; shard batch on data; micro batch = 2; %s }"),
    "mixed": (2, 1, "four { mesh data = 2, tensor = 2; shard batch on data; shard inputs on tensor; %s }"),
}
ALWAYS = ("data2", "data4")
LOOPED = NET.replace("  x = wte", "  param gain[] = normal(0.3)\n  x = wte").replace("(x, std = 0.3)\n}", "(x, std = 0.3) * (1 + gain)\n}") + """
  optimizer = OPTIMIZER
  steps = 2
}
""" + CLUSTERS + "parallel p on four { mesh data = 2, pipe = 2; shard batch on data; pipeline h on pipe; micro batch = 2; %s }"


class Margin:
    """How close a decision came to the other one, relative to the numbers that it compares."""

    least = 1.0

    @classmethod
    def decide(cls, difference, size):
        cls.least = min(cls.least, abs(difference) / size if size else 1.0)


# ---- what workers send: functions of a parameter's name, the step, and what each worker has

class Exchange:
    """What workers keep, by name of a parameter: an error each."""

    def __init__(self, workers):
        self.error = {name: [[0.0] * n for _ in range(workers)] for name, n in SIZES.items()}

    def kept(self):
        """All states, in the order of the checkpoint."""
        return [{name: sum(errors, []) for name, errors in self.error.items()}]


def signs(wanted, error):
    """Signs with the mean of what they stand for; the rest stays in `error`."""
    scale = sum(map(abs, wanted)) / len(wanted)
    for x in wanted:
        Margin.decide(x, scale)
    sent = [scale if x >= 0 else -scale for x in wanted]
    error[:] = [x - y for x, y in zip(wanted, sent)]
    return sent


class OneBit(Exchange):
    """Karimireddy et al. 2019."""

    def __call__(self, name, step, terms):
        total = [0.0] * len(terms[0])
        for term, error in zip(terms, self.error[name]):
            total = [a + b for a, b in zip(total, signs([x + e for x, e in zip(term, error)], error))]
        return total

    def received(self, workers):
        """By all workers in a step: from each other one signs and a scale."""
        return workers * (workers - 1) * sum((n + 7) // 8 + 4 for n in SIZES.values())


class OneBitTwice(OneBit):
    """DoubleSqueeze (Tang et al. 2019): a server adds up what workers send, and sends signs, too; it keeps an error of its own. Here
    each worker is the server of a part: whole bytes of signs, as many for each."""

    def __init__(self, workers):
        super().__init__(workers)
        self.server = {name: [0.0] * n for name, n in SIZES.items()}
        self.bytes = {name: -(-((n + 7) // 8) // workers) for name, n in SIZES.items()}
        self.workers = workers

    def __call__(self, name, step, terms):
        error = self.server[name]
        return signs([x + e for x, e in zip(super().__call__(name, step, terms), error)], error)

    def kept(self):
        padded = {name: error + [0.0] * (8 * self.workers * self.bytes[name] - len(error)) for name, error in self.server.items()}
        return super().kept() + [padded]

    def received(self, workers):
        """Signs of its part from each other one, and of the other parts; scales, of which one is added up."""
        return sum((workers - 1) * (workers * (2 * n + 4) + 2 * 4) for n in self.bytes.values())


class TopK(Exchange):
    """Stich et al. 2018: each worker sends its largest elements, and where they are."""

    def __init__(self, workers, fraction):
        super().__init__(workers)
        self.fraction = fraction

    def count(self, n):
        return max(int(n * self.fraction), 1)

    def chosen(self, name, step, wanted):
        order = sorted(range(len(wanted)), key=lambda i: (-abs(wanted[i]), i))
        k = self.count(len(wanted))
        if k < len(order):
            Margin.decide(abs(wanted[order[k - 1]]) - abs(wanted[order[k]]), abs(wanted[order[0]]))
        return set(order[:k])

    def __call__(self, name, step, terms):
        total = [0.0] * len(terms[0])
        for term, error in zip(terms, self.error[name]):
            wanted = [a + b for a, b in zip(term, error)]
            chosen = self.chosen(name, step, wanted)
            for i, x in enumerate(wanted):
                error[i] = 0.0 if i in chosen else x
                total[i] += x if i in chosen else 0.0
        return total

    def received(self, workers):
        """By all workers in a step: from each other one an index and a value."""
        return workers * (workers - 1) * sum(8 * self.count(n) for n in SIZES.values())


class RandomK(TopK):
    """The same paper: elements at random, here those with the largest numbers of a draw that all workers make alike."""

    def chosen(self, name, step, wanted):
        key = samples.hash_text("update.%s.uniform#0" % name, 0)
        numbers = range(len(wanted))
        if name == "one.w":  # elements of a draw are numbered with axes sorted by name, and `hidden` comes before `inputs`
            numbers = [i % HIDDEN * INPUTS + i // HIDDEN for i in numbers]
        drawn = [samples.philox(key, i // 4, step, 0)[i % 4] >> 8 for i in numbers]
        return set(sorted(range(len(wanted)), key=lambda i: (-drawn[i], i))[:self.count(len(wanted))])

    def received(self, workers):
        """An all-reduce of the values."""
        return 2 * (workers - 1) * sum(4 * self.count(n) for n in SIZES.values())


# ---- optimizers: generators of the tensors after each step

def tensors(p, moments):
    """As a checkpoint names them."""
    return {**p, **{"moment%d.%s" % (i + 1, name): values for i, moment in enumerate(moments) for name, values in moment.items()}}


def momentum(exchange, p, own_of):
    """Stochastic gradient descent with a velocity, of the gradient that the exchange makes."""
    velocity = {name: [0.0] * n for name, n in SIZES.items()}
    for step in range(STEPS):
        own = own_of(p, step)
        for name in SHAPES:
            g = exchange(name, step, [terms[name] for terms in own])
            velocity[name] = [MOMENTUM * v + x for v, x in zip(velocity[name], g)]
            p[name] = [x - RATE * v for x, v in zip(p[name], velocity[name])]
        yield tensors(p, [velocity] + exchange.kept())


SGD = "sgd(lr = %g, momentum = %g)" % (RATE, MOMENTUM)
METHODS = {  # optimizer and line of the layout; what is sent, and what it is for
    "one_bit": (SGD, "compress one_bit on data", OneBit, momentum),
    "one_bit_twice": (SGD, "compress one_bit_twice on data", OneBitTwice, momentum),
    "top_k": (SGD, "compress top_k on data (fraction = 0.3)", lambda workers: TopK(workers, 0.3), momentum),
    "random_k": (SGD, "compress random_k on data (fraction = 0.3)", lambda workers: RandomK(workers, 0.3), momentum),
}


def compare(what, got, want):
    check(sorted(got) == sorted(want), "%s: tensors are %s, not %s" % (what, sorted(got), sorted(want)))
    for name in sorted(set(got) & set(want)):
        off = max(abs(a - b) for a, b in zip(got[name], want[name]))
        check(len(got[name]) == len(want[name]), "%s: `%s` has another length" % (what, name))
        check(off <= CLOSE * max(1.0, *map(abs, want[name])), "%s: `%s` is off by %g" % (what, name, off))


def traffic(tools, name):
    """Bytes that all ranks receive in a step over mesh axis `data`, as the report and as the log say."""
    report = json.loads(run([tools[0], "report", name + ".plan", "--report=json"]))
    with open(name + ".jsonl") as file:
        log = [event for event in map(json.loads, file.read().splitlines()) if event["event"] == "traffic"][-1]
    of_data = [sum(group["received"] for group in groups if group["axes"] == ["data"])
               for groups in (report["traffic"]["groups"], log["groups"])]
    return of_data[0], of_data[1] / STEPS


def test(tools, method, layout, rows):
    optimizer, line, algorithm, steps = METHODS[method]
    workers, micro, text = LAYOUTS[layout]
    name = method + "." + layout
    with open(name + ".dsl", "w") as file:
        file.write(PROGRAM.replace("OPTIMIZER", optimizer).replace("LAYOUT", text % line))
    run([tools[0], name + ".dsl", "--parallel", "thin", "-o", name + ".plan"])
    run([tools[1], name + ".plan", "--quiet", "--overwrite", "--steps", "0", "--save", name + ".0"])
    run([tools[1], name + ".plan", "--quiet", "--overwrite", "--save", name, "--log", name + ".jsonl"])
    begin = saved(name + ".0", 0)
    exchange = algorithm(workers)
    p = {key: list(begin[key]) for key in SHAPES}
    own_of = lambda now, step: [{key: [x / 8 for x in g] for key, g in own.items()}
                                for own in own_gradients(now, rows[step], workers, micro)]
    for step, want in enumerate(steps(exchange, p, own_of)):
        compare("%s, step %d" % (name, step + 1), saved(name, step + 1), want)
    check(any(max(map(abs, errors)) > 0 for kept in exchange.error.values() for errors in kept), name + ": no error is kept")
    if layout == "mixed":  # ranks of `tensor` exchange gradients, too, and a rank has one of two parts
        return
    expected = exchange.received(workers) + 2 * 4 * (workers - 1)  # and the loss, by an all-reduce
    for said, got in zip(("report", "log"), traffic(tools, name)):
        check(got == expected, "%s: %s: %g bytes a step, not %g" % (name, said, got, expected))


def looped(tools, method):
    optimizer, line = METHODS[method][:2]
    with open("looped.dsl", "w") as file:
        file.write(LOOPED.replace("OPTIMIZER", optimizer) % line)
    said = run([tools[0], "looped.dsl", "--verify", "--no-kernels"])
    check("equal to the serial program: 4 ranks" in said, "%s: %s" % (method, said))


def main(tools, layouts):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rows = rows_of_steps(3, STEPS)
        for layout in layouts:
            for method in METHODS:
                test(tools, method, layout, rows)
        write_tokens()
        for method in METHODS:
            looped(tools, method)
    check(Margin.least > NEAR, "a decision is within %g of the other one: take other data" % Margin.least)
    print("compress_papers: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]], LAYOUTS if "all" in sys.argv[3:] else ALWAYS))
