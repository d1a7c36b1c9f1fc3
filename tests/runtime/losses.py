#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several losses in turn on real ranks:  losses.py DTC DTRUN

The programs of losses.dsl. Numbers that can be computed by hand, where one loss is taken in every third step: each loss finds
the parameters as those before have left them, and counts its own updates. A GAN on one rank and on two and four processes,
under data and tensor parallelism, micro-batches and ZeRO 1, 2, 3: losses, norms, metrics, evaluations and checkpoints are those
of one rank, but for roundings (as in optimizers.py). A run that is resumed between two updates of the second loss ends in the
same bits. Losses draw different numbers, `loss` those that it draws alone. What is not finite ends the run."""

import json
import os
import re
import sys
import tempfile

from runs import OF_VALUE, bytes_of, check, compare_tensors, failures, run, saved, tensors_of

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "losses.dsl")
STEPS = 8


def updates(folder, step):
    with open("%s/step-%08d/manifest.json" % (folder, step)) as file:
        return json.load(file)["updates"]


def numbers(event):
    """Returns (name, value) of everything that an event of the log shows."""
    for loss, values in event.get("losses", {}).items():
        for what, value in values.items() if isinstance(values, dict) else [("loss", values)]:
            yield "%s.%s" % (loss, what), value
    yield from event.get("metrics", {}).items()


def compile_plan(tools, train, layout):
    name = "%s_%s" % (train, layout)
    run([tools[0], PROGRAM, "--train", train, "--parallel", layout, "-o", name + ".plan"])
    return name


def train(tools, name, *options):
    run([tools[1], name + ".plan", "--quiet", "--log", name + ".jsonl", *options])
    with open(name + ".jsonl") as file:
        return [event for event in map(json.loads, file) if event["event"] in ("step", "eval")]


def by_hand(tools):
    """Compares f64 here with f32 there: errors of a few 2^-24 for each of 10 steps."""
    got = [dict(numbers(event)) for event in train(tools, compile_plan(tools, "by_hand", "none"))]
    w, v, sums, counts = 1.0, 2.0, [0.0, 0.0], [0, 0]
    check(len(got) == 10, "by hand: %d steps" % len(got))
    for step, mine in enumerate(got):
        want = {"near.loss": (w - 3 * v) ** 2, "near.grad_norm": abs(2 * (w - 3 * v)), "near.lr": 0.01}
        sums[0], counts[0] = sums[0] + 2 * (w - 3 * v), counts[0] + 1
        w -= 0.01 * sums[0] / counts[0] + 0.001 * step
        if (step + 1) % 3 == 0:
            want.update({"far.loss": w * v + v * v, "far.grad_norm": abs(w + 2 * v), "far.lr": 0.02})
            sums[1], counts[1] = sums[1] + w + 2 * v, counts[1] + 1
            v -= 0.02 * sums[1] / counts[1] + 0.001 * step
        check(list(mine) == list(want), "by hand: step %d shows %s" % (step + 1, list(mine)))
        for what in set(mine) & set(want):
            check(abs(mine[what] - want[what]) <= 1e-5 * abs(want[what]),
                  "by hand: %s of step %d: %r instead of %r" % (what, step + 1, mine[what], want[what]))


def compare(what, got, want, end, serial_end, begin):
    check([(e["event"], e["step"]) for e in got] == [(e["event"], e["step"]) for e in want], "%s: other events" % what)
    for mine, serial in zip(got, want):
        a, b = dict(numbers(mine)), dict(numbers(serial))
        check(list(a) == list(b), "%s: step %d shows %s" % (what, mine["step"], list(a)))
        for name in set(a) & set(b):
            check(abs(a[name] - b[name]) <= OF_VALUE * abs(b[name]) * mine["step"],
                  "%s: %s of step %d: %r instead of %r" % (what, name, mine["step"], a[name], b[name]))
    compare_tensors(what, end, serial_end, begin, all_change=True)


def layouts(tools):
    serial = compile_plan(tools, "gan", "none")
    want, end = train(tools, serial, "--save", serial), saved(serial, STEPS)
    run([tools[1], serial + ".plan", "--quiet", "--steps", "0", "--save", "begin"])
    begin = tensors_of("begin/step-00000000/model.safetensors")
    check("generator.level" in end and "moment2.generator.l3.w" not in end, "the GAN's states: %s" % sorted(end))
    check(updates(serial, STEPS) == {"apart": 8, "fooled": 4}, "the GAN's updates: %s" % updates(serial, STEPS))
    for layout in "data", "zero1", "zero2", "zero3":
        name = compile_plan(tools, "gan", layout)
        compare(layout, train(tools, name, "--save", name), want, saved(name, STEPS), end, begin)
        run([tools[0], "verify", name + ".plan", "--program", PROGRAM, "--train", "gan", "--parallel", layout])
    said = run([tools[0], PROGRAM, "--train", "gan", "--parallel", "zero2", "--verify"])
    check("update@fooled" in said, "--verify does not say what it compared: " + said)
    resumed(tools, "gan_zero3")
    shown(tools, serial)
    counted(tools)
    tampered(tools, serial)


def resumed(tools, name):
    run([tools[1], name + ".plan", "--quiet", "--steps", "5", "--save", "half"])
    check(updates("half", 5) == {"apart": 5, "fooled": 2}, "updates after 5 steps: %s" % updates("half", 5))
    run([tools[1], name + ".plan", "--quiet", "--resume", "half"])
    for part in "model", "optimizer":
        file = "step-%08d/%s.safetensors" % (STEPS, part)
        check(bytes_of(os.path.join("half", file)) == bytes_of(os.path.join(name, file)), "resumed: other bits in " + file)
    check(updates("half", STEPS) == updates(name, STEPS), "resumed: updates %s" % updates("half", STEPS))


def shown(tools, name):
    said = run([tools[1], name + ".plan", "--steps", "2"])
    check(re.search(r"step 1/2  apart [0-9.]+  norm [0-9.]+  lr 2.00e-03  right [0-9.]+  ", said), "the first step shows " + said)
    check(re.search(r"step 2/2  apart .*  fooled [0-9.]+  norm [0-9.]+  lr 1.00e-02  right ", said), "the second shows " + said)
    said = run([tools[1], name + ".plan", "--eval", "--resume", name])
    check(re.search(r"apart [0-9.]+, fooled [0-9.]+, right [0-9.]+ over 32 samples", said), "--eval shows " + said)


def counted(tools):
    """The reported flops of a step are those of the mean step: half of those of the second loss, which
    is taken in every second step."""
    with open(PROGRAM) as file:
        text = file.read()
    flops = []
    for every in 1, 2, 4:
        with open("turns.dsl", "w") as file:
            file.write(text.replace("every = 2)", "every = %d)" % every))
        run([tools[0], "turns.dsl", "--train", "gan", "--parallel", "none", "--no-kernels", "-o", "turns.plan"])
        flops.append(float(re.search(r"META .* flops=([0-9.e+]+)", run([tools[0], "dump", "turns.plan"])).group(1)))
    check(flops[0] > flops[1] and flops[0] - flops[2] == 1.5 * (flops[0] - flops[1]), "flops of a step: %s" % flops)


def tampered(tools, name):
    text = run([tools[0], "dump", name + ".plan"])
    for old, new in (("every=2 #", "every=3 #"), ('step="step@apart" update="update@apart"', 'step="step@fooled" update="update@apart"')):
        check(old in text, "no `%s` in the dump" % old)
        with open("other.txt", "w") as file:
            file.write(text.replace(old, new))
        run([tools[0], "asm", "other.txt", "-o", "other.plan"])
        check("OBJE" in run([tools[0], "verify", "other.plan"], 1), "a plan with %s is proved" % new)


def named(tools):
    """A checkpoint contains the name of the loss that was trained, even if there is only one; that one
    may be renamed."""
    plans = [compile_plan(tools, train, "none") for train in ("first_alone", "renamed", "by_hand")]
    run([tools[1], plans[0] + ".plan", "--quiet", "--steps", "4", "--save", "one"])
    check(updates("one", 4) == {"near": 4}, "updates of one loss: %s" % updates("one", 4))
    said = run([tools[1], plans[2] + ".plan", "--quiet", "--resume", "one"], 2)
    check("was not trained on the loss `far`" in said, said)
    run([tools[1], plans[1] + ".plan", "--quiet", "--resume", "one"])
    check(updates("one", 11) == {"close": 11}, "updates of a loss renamed: %s" % updates("one", 11))


def draws(tools):
    got = [{loss: values["loss"] for loss, values in event["losses"].items()}
           for event in train(tools, compile_plan(tools, "draws", "none"))]
    alone = [event["loss"] for event in train(tools, compile_plan(tools, "alone", "none"))]
    check([losses["loss"] for losses in got] == alone, "`loss` draws other numbers beside another loss: %s, %s" % (got, alone))
    drawn = [value for losses in got for value in losses.values()]
    check(len(set(drawn)) == 8, "losses draw the same numbers: %s" % got)


def infinite(tools):
    name = compile_plan(tools, "infinite", "none")
    said = run([tools[1], name + ".plan", "--quiet", "--save", name], 1)
    check("the loss `bad` of step 2 is infinite; losses before it in this step have had their update" in said, said)
    check(not os.path.exists(name) or not os.listdir(name), "half a step is saved: " + said)


def main():
    tools = [os.path.abspath(path) for path in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for case in by_hand, layouts, named, draws, infinite:
            case(tools)
    print("%d failures" % len(failures))
    sys.exit(bool(failures))


main()
