#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quotients of sums on real ranks:  ratios.py DTC DTRUN

Losses per valid label, perplexities and root mean squares of ratios.dsl, over held-out data whose
rows have different numbers of valid labels, some none. For every batch size, a last part of a batch
and each layout they are what this script computes in double precision from the saved parameters.
Metrics of a training step are those of its batch, with micro-batches too. Data in which no label is
valid end the run, and the message names the input."""

import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

from runs import check, failures, run, saved

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "ratios.dsl")
ROWS, SEQ, VOCAB, EMBED = 16, 8, 16, 8
LAYOUTS = [("none", b) for b in (1, 3, 4, 5, 16)]
LAYOUTS += [(name, b) for name in ("micro", "data", "both", "pipe") for b in (4, 12)]


def write(name, values):
    with open(name, "wb") as file:
        file.write(struct.pack("<%di" % len(values), *values))


def make_data():
    """In rows 0 to 3 and 9 of the held-out data no label is valid; in the other rows between one and
    all are."""
    draw = random.Random(7)
    tokens = [draw.randrange(VOCAB) for _ in range(ROWS * SEQ)]
    held = []
    for row in range(ROWS):
        valid = 0 if row < 4 or row == 9 else 1 + row % SEQ
        held += [draw.randrange(VOCAB) if k < valid else -100 for k in range(SEQ)]
    write("tokens.bin", tokens)
    write("held.bin", held)
    write("labels.bin", [t if k % 3 else -100 for k, t in enumerate(tokens)])
    write("none.bin", [-100] * (ROWS * SEQ))
    return tokens, held


def expected(wte, tokens, labels):
    """Of all labels: what ratios.dsl shows; `batches` is the number of valid labels, by a name that
    formulas use for something else."""
    total = squares = count = 0
    # over even and over odd labels: sum and number of sums by the last bit and the bit before it
    pair = [[0, 0], [0, 0]]
    table = [[0, 0], [0, 0]]  # sums by the last bit and the one before it
    for token, label in zip(tokens, labels):
        if label < 0:
            continue
        x = wte[token]
        for _ in range(2):
            x = [2 * math.tanh(v) for v in x]
        z = [sum(a * b for a, b in zip(x, row)) for row in wte]
        most = max(z)
        ce = most + math.log(sum(math.exp(v - most) for v in z)) - z[label]
        total, squares, count = total + ce, squares + ce * ce, count + 1
        pair[label % 2][0] += ce
        pair[label % 2][1] += 1
        table[label % 2][label // 2 % 2] += ce
    loss = total / count
    share = [ce / n for ce, n in pair]
    middle = sum(share) / 2
    return {"loss": loss, "perplexity": math.exp(loss), "guarded": loss,
            "rms": math.sqrt(squares / len(labels)), "batches": count, "capped": total / 1000,
            "balanced": middle, "worst": max(share),
            "uneven": sum((x - middle) ** 2 for x in share) / 2,
            "rows": sum(max(row) for row in table) / total,
            "columns": sum(max(column) for column in zip(*table)) / total}


def near(got, want):
    return abs(got - want) <= 1e-5 * abs(want)


def compare(what, got, want, batches):
    """Compares f32 there with f64 here. The number of valid labels is that of one batch: the mean over
    batches."""
    mine = {"loss": got["loss"], **got["metrics"]}
    check(set(mine) == set(want), "%s shows %s" % (what, sorted(mine)))
    for name in set(mine) & set(want):
        value = want[name] / (batches if name == "batches" else 1)
        check(mine[name] is not None and near(mine[name], value),
              "%s: %s is %r instead of %r" % (what, name, mine[name], value))


def logged(name):
    with open(name + ".jsonl") as file:
        return {event["event"]: event for event in map(json.loads, file)}


def train(tools, layout, batch):
    name = "%s_%d" % (layout, batch)
    run([tools[0], PROGRAM, "--parallel", layout, "-D", "batch=%d" % batch, "-o", name + ".plan"])
    run([tools[1], name + ".plan", "--quiet", "--log", name + ".jsonl",
         "--save", name + ".saved"] + redirect())
    return logged(name)


def redirect(names=("tokens", "labels", "held")):
    return [word for name in names
            for word in ("--data", "%s.bin=%s" % (name, os.path.abspath(name + ".bin")))]


def same_everywhere(tools, tokens, held):
    want, steps = None, {}
    for layout, batch in LAYOUTS:
        events = train(tools, layout, batch)
        if want is None:
            values = saved("%s_%d.saved" % (layout, batch), 1)["wte"]
            want = expected([values[i * EMBED:(i + 1) * EMBED] for i in range(VOCAB)], tokens, held)
        what = "%s, batches of %d" % (layout, batch)
        compare("held-out data, " + what, events["eval"], want, ROWS / batch)
        samples = events["eval"]["samples"]
        check(samples == ROWS, "%s: %d samples" % (what, samples))
        step = events["step"]
        check(near(step["metrics"]["perplexity"], math.exp(step["loss"])),
              "%s: the perplexity of a step is not the exponential of its loss" % what)
        first = steps.setdefault(batch, step)
        for name in first["metrics"]:
            check(near(step["metrics"][name], first["metrics"][name]),
                  "%s: %s of the step is not that of other layouts" % (what, name))


def refused(tools, what, options, *words):
    done = subprocess.run([tools[1], "micro_4.plan", "--quiet", *options],
                          capture_output=True, text=True)
    check(done.returncode == 1, "%s: exit status %d" % (what, done.returncode))
    for word in words:
        check(word in done.stderr, "%s: no %r in %s" % (what, word, done.stderr))


def with_none(name):
    """Options by which the program reads none.bin in place of NAME.bin."""
    here, none = os.path.abspath(name + ".bin"), os.path.abspath("none.bin")
    return [word.replace("=" + here, "=" + none) for word in redirect()]


def nothing_valid(tools):
    refused(tools, "a step without valid labels", with_none("labels"),
            "the loss of step 1 is not a number", "every value of `labels` in this batch is -100")
    refused(tools, "held-out data without valid labels", with_none("held"),
            "over 16 samples", "every value of `labels` in the held-out data is -100")


def without_held_out(tools):
    """The expressions of a step are the same if the program has no held-out data."""
    with open(PROGRAM) as file:
        lines = file.read().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("  eval = ")]
    check(len(kept) == len(lines) - 1, "the program has no line `eval`")
    with open("alone.dsl", "w") as file:
        file.writelines(kept)
    run([tools[0], "alone.dsl", "--parallel", "micro", "-o", "alone.plan"])
    run([tools[1], "alone.plan", "--quiet", "--log", "alone.jsonl"] +
        redirect(("tokens", "labels")))
    alone, both = logged("alone"), logged("micro_4")["step"]
    check("eval" not in alone, "an evaluation without held-out data")
    check(alone["step"]["loss"] == both["loss"] and alone["step"]["metrics"] == both["metrics"],
          "without held-out data a step shows other numbers")


def main():
    tools = [os.path.abspath(tool) for tool in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tokens, held = make_data()
        same_everywhere(tools, tokens, held)
        nothing_valid(tools)
        without_held_out(tools)
    print("%d failures" % len(failures))
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
