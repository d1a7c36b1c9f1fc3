#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Epochs:  epochs.py DTC DTRUN

`epochs` in place of `steps`: the number of steps is that of whole batches among so many passes over the data, on one rank and
on two; `total = steps` in a schedule is that number, as the rates of the log show. A run that is resumed, also with batches of
another size, ends after the same samples. --steps and --set take the place of `epochs`. What --set gave to a schedule, a resumed
run keeps, and says so. Then what has no epochs."""

import json
import os
import struct
import sys
import tempfile

from runs import check, failures, run

PROGRAM = """include "std.dsl"
dim batch = 4, seq = 4, vocab = 16, embed = 8
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u16))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = sgd(lr = warmup_linear(0.1, warmup = steps // 4, total = steps))
  epochs = 2.5
}
cluster two { gpus = 2; gpu = "cpu" }
parallel data on two { mesh data = 2; shard batch on data }
"""
SAMPLES = 18  # so 2.5 epochs are 45, of which 11 steps of 4 take 44


def compile_plan(tools, name, *options):
    run([tools[0], "program.dsl", "-o", name + ".plan", *options])


def train(tools, plan, log, *options):
    run([tools[1], plan + ".plan", "--quiet", "--log", log + ".jsonl", *options])
    with open(log + ".jsonl") as file:
        return [event for event in map(json.loads, file) if event["event"] == "step"]


def test_steps(tools):
    for plan, options in (("none", ("--parallel", "none")), ("data", ("--parallel", "data"))):
        compile_plan(tools, plan, *options)
        steps = train(tools, plan, plan, "--save", plan)
        check(len(steps) == 11, "%s: %d steps" % (plan, len(steps)))
        for at, event in enumerate(steps):  # warm-up of 11 // 4 steps, then a line down to step 11
            want = 0.1 * (at + 1) / 2 if at < 2 else 0.1 * (1 - (at - 2) / 9)
            check(abs(event["lr"] - want) < 1e-6, "%s: rate %g of step %d, not %g" % (plan, event["lr"], at + 1, want))
    said = run([tools[1], "none.plan"])
    check("steps 1 to 11 (2.5 epochs)" in said, said)
    check(len(train(tools, "none", "given", "--steps", "3")) == 3, "--steps 3")
    check(len(train(tools, "none", "set", "--set", "train.epochs=0.5")) == 2, "--set train.epochs=0.5")
    run([tools[1], "none.plan", "--quiet", "--steps", "0", "--save", "zero"])  # no step needs a schedule of 0 steps
    check(os.path.isdir("zero/step-00000000"), "--steps 0 saves the initial values")
    compile_plan(tools, "steps", "--parallel", "none", "--set", "train.steps=5")
    check(len(train(tools, "steps", "steps")) == 5, "dtc --set train.steps=5")


def test_resumed(tools):
    train(tools, "none", "half", "--save", "half", "--set", "train.epochs=1")
    check(len(train(tools, "none", "half", "--resume", "half")) == 11, "a resumed run has another number of steps")
    compile_plan(tools, "large", "--parallel", "none", "-D", "batch=6")
    run([tools[1], "none.plan", "--quiet", "--save", "few", "--steps", "4"])  # 16 samples, 29 are left
    check(len(train(tools, "large", "large", "--resume", "few")) == 4, "batches of 6 go on after 16 of 45 samples")
    said = run([tools[1], "none.plan", "--resume", "half"])
    check("has 11 steps already" in said, said)


def test_settings(tools):
    def rates(steps):
        return [(event["step"], event["lr"]) for event in steps]

    def resumed(plan, *options):
        said = run([tools[1], plan, "--resume", "whole/step-00000004", "--log", "rest.jsonl", "--overwrite", *options])
        with open("rest.jsonl") as file:
            return said, rates(event for event in map(json.loads, file) if event["event"] == "step")
    given = ("--set", "lr.base=0.3", "--set", "lr.warmup=3")
    with open("rates.dsl", "w") as file:
        file.write(PROGRAM.replace("warmup = steps // 4", "warmup = 2"))
    for layout in ("none", "data"):
        run([tools[0], "rates.dsl", "--parallel", layout, "-o", "rates-%s.plan" % layout])
    whole = rates(train(tools, "rates-none", "whole", "--save", "whole", "--set", "save.every=4", "--set", "save.keep=9", *given))
    check(abs(max(rate for _, rate in whole) - 0.3) < 1e-6, "the rates of --set: %s" % whole)
    for plan in ("none", "data"):
        said, rest = resumed("rates-%s.plan" % plan, "--save", "next-" + plan)
        check(rest == whole[4:], "%s: a resumed run forgets --set: %s, not %s" % (plan, rest, whole[4:]))
        check("was trained with --set lr.base=0.3, and the run goes on with it (without it: --set lr.base=0.1)" in said and "lr.warmup=3, and" in said
              and said.count("was trained with --set") == 2, said)
        with open("next-%s/step-00000011/manifest.json" % plan) as file:
            check(json.load(file)["settings"] == {"lr.base": 0.3, "lr.warmup": 3.0}, "the next checkpoint forgets --set")
    said, rest = resumed("rates-none.plan", *given)
    check(rest == whole[4:] and "was trained with --set" not in said, "the same --set: " + said)
    said, rest = resumed("rates-none.plan", "--set", "lr.base=0.2")
    check("was trained with --set lr.base=0.3, and the run goes on with 0.2" in said and "lr.warmup=3, and the run goes on with it" in said and
          abs(rest[0][1] - whole[4][1] * 2 / 3) < 1e-6, "another --set: %s %s" % (said, rest))
    with open("constant.dsl", "w") as file:
        file.write(PROGRAM.replace("warmup_linear(0.1, warmup = steps // 4, total = steps)", "0.1"))
    run([tools[0], "constant.dsl", "--parallel", "none", "-o", "constant.plan"])
    said, rest = resumed("constant.plan")
    check("was trained with --set lr.warmup=3, which this plan does not have" in said and all(abs(rate - 0.3) < 1e-6 for _, rate in rest), said)


def test_refused(tools):
    for options, text in ((("--set", "train.epochs=0.1"), "less than a step"), (("--data", "synthetic"), "have none"),
                          (("--set", "train.epochs=0"), "not above 0"), (("--set", "train.epochs=1e300"), "at most 1e9"),
                          (("--set", "train.epoch=2"), "did you mean `train.epochs`"),
                          (("--steps", "3", "--set", "train.epochs=2"), "both say how long the run is"),
                          (("--set", "train.steps=4", "--steps", "3"), "both say how long the run is")):
        said = run([tools[1], "none.plan", *options], wants=2)
        check(text in said, "%s: %s" % (options, said))


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("program.dsl", "w") as file:
            file.write(PROGRAM)
        n = SAMPLES * 4 + 4  # windows overlap by one, and each epoch begins at another offset
        with open("tokens.bin", "wb") as file:
            file.write(struct.pack("<%dH" % n, *(5 * i % 16 for i in range(n))))
        test_steps(tools)
        test_resumed(tools)
        test_settings(tools)
        test_refused(tools)
    print("epochs: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:]]))
