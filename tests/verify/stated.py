#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients that functions state: right ones compile, wrong ones are refused on every compile, not by
--verify alone.

  stated.py DTC [COUNT [SEED]]

For each function below, all right gradients must compile, and must be proved as a box if the table
says so. Then COUNT random faults are made in them: a number, name or operator is replaced by
another one. Whether the changed gradient is wrong is computed here: by differences for functions of
one number, by the Jacobian for functions of a row. A wrong one must be refused; one that is still
right must compile.
"""
import math
import os
import random
import re
import subprocess
import sys
import tempfile

PROGRAM = """include "std.dsl"
dim batch = 2, embed = 4
fn f%s {
%s
  gradient(dy) { return %s }
}
model m(x[batch, embed]) -> [batch, embed] {
  param g[embed] = normal(0.5)
  return f%s(x * g)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed]((m(x) - 0.3) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
"""
ROW = ("[a](x[..., a]) -> [..., a]", "[embed]")
ONE = ("(x[...]) -> [...]", "")
# name: (signature, what it computes, right gradients, and whether they are proved; the others are
# tested with numbers)
FUNCTIONS = {
    "logistic": (ONE, "e = 1 / (1 + exp(-x))\n  return e",
                 [("dy * e * (1 - e)", True), ("dy * exp(-x) * e * e", True)]),
    "cube": (ONE, "return x * x * x", [("dy * 3 * x * x", True), ("3 * dy * x ** 2", True)]),
    "tenth": (ONE, "return 0.1 * x * x * x", [("dy * 0.3 * x * x", False)]),
    "tangent": (ONE, "t = tanh(x)\n  return t",
                [("dy * (1 - t * t)", True), ("dy * 4 / ((exp(x) + exp(-x)) ** 2)", False)]),
    "ramp": (ONE, "return max(x, 0)", [("where(x > 0, dy, 0)", True), ("where(x >= 0, dy, 0)", False)]),
    "softplus": (ONE, "return log(1 + exp(x))",
                 [("dy * exp(x) / (1 + exp(x))", True), ("dy / (1 + exp(-x))", True)]),
    "root": (ONE, "return sqrt(x * x + 1)", [("dy * x / sqrt(x * x + 1)", True)]),
    "ratio": (ONE, "u = x * x + 1\n  return x / u", [("dy * (1 - x * x) / (u * u)", True)]),
    "tower": (ONE, "return exp(exp(x) + x)", [("dy * exp(exp(x)) * exp(x) * (exp(x) + 1)", False)]),
    "softmax": (ROW, "e = exp(x - max[a](x))\n  p = e / sum[a](e)\n  return p",
                [("p * (dy - sum[a](p * dy))", True)]),
    "shares": (ROW, "e = exp(x)\n  p = e / sum[a](e)\n  return p", [("p * (dy - sum[a](p * dy))", True)]),
    "centred": (ROW, "u = x - mean[a](x)\n  return u * u",
                [("2 * (u * dy - mean[a](u * dy))", True)]),
}
NAMES = {"logistic": "x e dy", "tangent": "x t dy", "ratio": "x u dy", "softmax": "x p dy", "shares": "x p dy", "centred": "x u dy"}


# ---- what statements are, with rows as lists ----

class Row(list):
    def _each(self, other, op):
        other = other if isinstance(other, Row) else Row([other] * len(self))
        return Row([op(a, b) for a, b in zip(self, other)])
    def __add__(self, o): return self._each(o, lambda a, b: a + b)
    def __sub__(self, o): return self._each(o, lambda a, b: a - b)
    def __mul__(self, o): return self._each(o, lambda a, b: a * b)
    def __truediv__(self, o): return self._each(o, lambda a, b: a / b)
    def __pow__(self, o): return self._each(o, lambda a, b: a ** b)
    def __gt__(self, o): return self._each(o, lambda a, b: a > b)
    def __ge__(self, o): return self._each(o, lambda a, b: a >= b)
    def __lt__(self, o): return self._each(o, lambda a, b: a < b)
    def __neg__(self): return Row([-a for a in self])
    def __radd__(self, o): return self + o
    def __rsub__(self, o): return -self + o
    def __rmul__(self, o): return self * o
    def __rtruediv__(self, o): return Row([o / a for a in self])


def each(function):
    return lambda x: Row([function(a) for a in x]) if isinstance(x, Row) else function(x)


def row(x):
    return x if isinstance(x, Row) else Row([x] * 4)


def where(condition, a, b):
    a, b = row(a), row(b)
    return Row([a[i] if c else b[i] for i, c in enumerate(row(condition))])


def the_larger(x, y):
    return Row([max(a, b) for a, b in zip(row(x), row(y))])


WORDS = {"exp": each(math.exp), "tanh": each(math.tanh), "log": each(math.log), "sqrt": each(math.sqrt), "where": where,
         "max": the_larger, "sum_a": lambda x: sum(row(x)), "mean_a": lambda x: sum(row(x)) / 4,
         "max_a": lambda x: max(row(x))}


def values(body, x, dy=None, gradient=None):
    """What the function returns, or its gradient, as a Python function."""
    names = dict(WORDS, x=Row(x), dy=Row(dy or [0] * 4))
    for line in re.sub(r"(sum|mean|max)\[a\]", r"\1_a", body).split("\n"):
        name, equal, text = line.strip().partition(" = ")
        if equal:
            names[name] = eval(text, {}, names)
        else:
            made = eval(line.strip()[len("return "):], {}, names)
    return row(eval(re.sub(r"(sum|mean|max)\[a\]", r"\1_a", gradient), {}, names) if gradient else made)


def is_right(body, gradient, rng):
    """Whether the gradient agrees with differences at some places; None: it nearly does, or is not a
    number."""
    worst = 0
    for _ in range(12):
        x, dy, along = ([rng.uniform(-1.5, 1.5) for _ in range(4)] for _ in range(3))
        h = 1e-5
        try:
            ahead, behind = (values(body, [a + s * b for a, b in zip(x, along)]) for s in (h, -h))
            want = sum(d * (a - b) / (2 * h) for d, a, b in zip(dy, ahead, behind))
            have = sum(g * a for g, a in zip(values(body, x, dy, gradient), along))
        except (ArithmeticError, ValueError, TypeError, SyntaxError):
            return None
        if isinstance(have, complex):
            return None
        worst = max(worst, abs(want - have) / max(1, abs(want), abs(have)))
    return True if worst < 1e-7 else False if worst > 1e-3 else None


# ---- faults ----

def faulty(gradient, names, rng):
    """The text with one token replaced by another one."""
    tokens = list(re.finditer(r"\b(?:%s)\b|\*\*|[-+*/]|\b\d+(?:\.\d+)?\b" % "|".join(names), gradient))
    token = rng.choice(tokens)
    old = token.group()
    if old in names:
        new = rng.choice([name for name in names if name != old] + ["-" + old, "2 * " + old])
    elif old[0].isdigit():
        new = rng.choice([str(float(old) + 1), "-" + old, str(float(old) * 1.25)])
    else:
        new = rng.choice([sign for sign in "+-*/" if sign != old])
    new = new if new in "+-*/" or new[0] not in "-2" else "(%s)" % new
    return gradient[:token.start()] + new + gradient[token.end():]


class Stated:
    def __init__(self, dtc, folder):
        self.dtc, self.path, self.failed, self.count = dtc, os.path.join(folder, "stated.dsl"), 0, 0

    def compile(self, name, gradient, *options):
        (signature, axis), body, _ = FUNCTIONS[name]
        with open(self.path, "w") as file:
            file.write(PROGRAM % (signature, "  " + body, gradient, axis))
        return subprocess.run([self.dtc, self.path, "--no-kernels", *options], capture_output=True, text=True)

    def expect(self, good, name, gradient, said):
        self.count += 1
        if not good:
            self.failed += 1
            print("FAIL %s, %s: %s" % (name, gradient, said))

    def right(self, name, gradient, proved):
        done = self.compile(name, gradient, "--verify")
        want = "proved: 1 custom gradient" if proved else "tried along random directions: 1 custom"
        self.expect(done.returncode == 0 and want in done.stdout, name, gradient, done.stdout + done.stderr)

    def fault(self, name, gradient, right):
        done = self.compile(name, gradient, "-o", self.path + ".plan")
        refused = done.returncode == 3 and "`f` states is not its derivative" in done.stderr
        self.expect(done.returncode == 0 if right else refused, name, gradient,
                    done.stderr or "a wrong gradient is accepted")


def main(arguments):
    count, seed = (int(word) for word in (arguments[1:] + ["60", "1"][len(arguments) - 1:])[:2])
    rng, wrong = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        stated = Stated(os.path.abspath(arguments[0]), folder)
        for name, (_, _, gradients) in FUNCTIONS.items():
            for gradient, proved in gradients:
                stated.right(name, gradient, proved)
        while wrong < count:
            name = rng.choice(list(FUNCTIONS))
            gradient = faulty(rng.choice(FUNCTIONS[name][2])[0], NAMES.get(name, "x dy").split(), rng)
            right = is_right(FUNCTIONS[name][1], gradient, rng)
            if right is not None:
                stated.fault(name, gradient, right)
                wrong += not right
    print("%d passed, %d failed" % (stated.count - stated.failed, stated.failed))
    return 1 if stated.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
