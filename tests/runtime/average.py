#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Averages of parameters that evaluation reads:  average.py DTC DTRUN

The programs of average.dsl. Training is the same with an average and without. The averages of a checkpoint are those that
this file computes of the parameters of all steps (ema, swa, a rule of the program, also with a master copy), begin as the
parameters do (initial, imported, of a checkpoint), go on in a resumed run with the same bits, and are the same under ZeRO,
tensor parallelism and a pipeline. The held-out loss of a run, and that of --eval, are what the program without averages says
of files with the averages in place of the parameters; --export writes these, and --average none takes the parameters."""

import array
import json
import os
import re
import struct
import sys
import tempfile

from runs import OF_VALUE, check, compare_tensors, failures, run, saved, tensors_of

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "average.dsl")
STEPS = 5


def write_tokens(name, seed):
    at, values = seed, []
    for i in range(300):
        at = (3 * at + 1 + (i * seed) % 2) % 20
        values.append(at)
    with open(name, "wb") as file:
        file.write(bytes(values))


def compile_plan(tools, train, layout="none", more=()):
    text = open(PROGRAM, encoding="utf-8").read()
    with open("p.dsl", "w", encoding="utf-8") as file:
        file.write(text)
    name = "%s_%s.plan" % (train, layout)
    run([tools[0], "p.dsl", "--train", train, "--parallel", layout, "-o", name, *more])
    return name


def train(tools, plan, folder, *options):
    run([tools[1], plan, "--quiet", "--log", folder + ".jsonl", "--save", folder, *options])
    with open(folder + ".jsonl", encoding="utf-8") as file:
        return [event for event in map(json.loads, file)]


def losses(events, kind):
    return [event["loss"] for event in events if event["event"] == kind]


def loss(tools, plan, *options):
    return float(re.search(r"loss ([\d.]+)", run([tools[1], plan, "--eval", *options]))[1])


def parts(tensors):
    """Parameters, and averages under the names of the parameters."""
    averages = {name[len("average."):]: values for name, values in tensors.items() if name.startswith("average.")}
    return {name: values for name, values in tensors.items() if not re.match(r"moment\d\.|average\.", name)}, averages


def near(what, got, want):
    check(sorted(got) == sorted(want), what + ": other tensors")
    for name in set(got) & set(want):
        off = max(abs(a - b) for a, b in zip(got[name], want[name]))
        check(off <= 4 * OF_VALUE * max(map(abs, want[name])), "%s: `%s` is off by %g" % (what, name, off))


def follow(rule, steps):
    """The averages after the last of these parameters, of which the first are the initial ones."""
    averages = {name: list(values) for name, values in steps[0].items()}
    for update, now in enumerate(steps[1:], 1):
        for name, values in now.items():
            averages[name] = [rule(update, a, p) for a, p in zip(averages[name], values)]
    return averages


def write_files(folder, tensors):
    names = {"wte": "wte", "out.gain": "out"}
    header, data = {}, b""
    for name, values in tensors.items():
        name = names.get(name) or name.replace(".gain", "").replace(".b0", ".b")
        kind = name.split(".", 2)[-1]
        shape = {"wte": [20, 8], "up.w": [8, 12], "down.w": [12, 8]}.get(kind, [len(values)])
        part = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    os.mkdir(folder)
    text = json.dumps(header).encode()
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def follows_parameters(tools):
    plain = train(tools, compile_plan(tools, "plain"), "plain")
    ema = train(tools, compile_plan(tools, "ema"), "ema")
    check(losses(plain, "step") == losses(ema, "step"), "training is the same with an average")
    train(tools, "ema_none.plan", "begin", "--steps", "0")
    begin, averages = parts(saved("begin", 0))
    trained = sorted(name for name in begin if not name.startswith("out."))
    check(averages == {name: begin[name] for name in trained}, "averages begin as the initial parameters")
    steps = [begin] + [parts(saved("ema", step))[0] for step in range(1, STEPS + 1)]
    steps = [{name: step[name] for name in trained} for step in steps]
    near("ema", parts(saved("ema", STEPS))[1], follow(lambda n, a, p: 0.75 * a + 0.25 * p, steps))
    train(tools, compile_plan(tools, "swa"), "swa")
    want = follow(lambda n, a, p: p if n <= 2 else a + (p - a) / (n - 2), steps)
    near("swa", parts(saved("swa", STEPS))[1], want)
    return plain, ema, begin


def is_evaluated(tools, plain, ema):
    model, averages = parts(saved("ema", STEPS))
    write_files("averaged", {**model, **averages})
    write_files("last", model)
    of_average = loss(tools, "plain_none.plan", "--import", "averaged")
    of_last = loss(tools, "plain_none.plan", "--import", "last")
    check(abs(of_average - of_last) > 1e-3, "averages have another loss")
    check(loss(tools, "ema_none.plan", "--resume", "ema") == of_average, "--eval reads averages")
    check(loss(tools, "ema_none.plan", "--resume", "ema", "--average", "none") == of_last, "--average none")
    check(loss(tools, "ema_none.plan", "--import", "last") == of_last, "averages begin as what is imported")
    check(loss(tools, "ema_none.plan", "--weights", "ema") == of_last, "--weights: as the parameters")
    model, averages = parts(saved("ema", 4))
    write_files("fourth", {**model, **averages})
    during = losses(ema, "eval")
    check(len(during) == 3 and abs(during[1] - loss(tools, "plain_none.plan", "--import", "fourth")) < 1e-4,
          "evaluation during training reads averages: %s" % during)
    check(losses(plain, "eval") != during, "without an average it is another one")
    for more, want in (((), "averaged"), (("--average", "none"), "last")):
        out = "out_" + want
        run([tools[1], "ema_none.plan", "--resume", "ema", "--steps", "0", "--export", out, "--like", "none", *more])
        check(tensors_of(out + "/model.safetensors") == tensors_of(want + "/model.safetensors"), "exported: " + want)


def goes_on(tools):
    train(tools, "ema_none.plan", "half", "--steps", "3")
    train(tools, "ema_none.plan", "rest", "--resume", "half")
    check(saved("rest", STEPS) == saved("ema", STEPS), "a resumed run ends with the same bits")
    said = run([tools[1], "ema_none.plan", "--resume", "plain", "--steps", "6"], 1)
    check("which keeps averages (--weights begins anew with them)" in said and "average." in said and "missing" in said,
          "a checkpoint without averages: " + said)
    said = run([tools[1], "ema_none.plan", "--resume", "ema", "--eval", "--prune", "h.*.w=50%"], 2)
    check("averages of parameters (`average." in said, said)
    said = run([tools[1], "ema_none.plan", "--resume", "plain", "--eval"], 1)
    check("which keeps averages (--average none reads the parameters)" in said, said)
    run([tools[1], "ema_none.plan", "--resume", "plain", "--eval", "--average", "none"])
    said = run([tools[1], "plain_none.plan", "--resume", "ema", "--steps", "6"], 1)
    check("which keeps no averages (--weights begins anew without them)" in said, said)
    said = run([tools[1], "ema_none.plan", "--average", "none", "--steps", "1"], 2)
    check("--average belongs to --eval" in said, said)
    said = run([tools[1], "ema_none.plan", "--eval", "--average", "some"], 2)
    check("--average takes `none`" in said, said)


def ranks_agree(tools, begin):
    begin = {**begin, **{"average." + name: values for name, values in begin.items()}}
    for layout in ("zero1", "zero3", "tensor", "pipe"):
        events = train(tools, compile_plan(tools, "ema", layout), layout)
        compare_tensors(layout, saved(layout, STEPS), saved("ema", STEPS), begin)
        got, want = losses(events, "eval"), losses(train(tools, "ema_none.plan", "serial", "--overwrite"), "eval")
        check(all(abs(a - b) < 1e-4 for a, b in zip(got, want)) and len(got) == 3, "%s evaluates %s, not %s" % (layout, got, want))
        check(abs(loss(tools, "ema_%s.plan" % layout, "--resume", "ema") - loss(tools, "ema_none.plan", "--resume", "ema")) < 2e-4,
              layout + ": --eval")


def has_own_rules(tools):
    """A rule of the program, groups of parameters, and parameters of 16 bits with a master copy, which is averaged."""
    plan = compile_plan(tools, "own")
    steps = []
    for step in range(STEPS + 1):
        train(tools, plan, "own", "--steps", str(step), *(("--resume", "own") if step else ()))
        steps.append({name: values for name, values in parts(saved("own", step))[0].items() if not name.startswith("out.")})
    near("own", parts(saved("own", STEPS))[1], follow(lambda n, a, p: (a + p) / 2, steps))
    text = run([tools[0], "p.dsl", "--train", "own", "--parallel", "zero1", "--verify", "--no-kernels"])
    check("equal to the serial program: 2 ranks" in text, text)


def is_left_alone(tools):
    """Updates that a loss scale skips, since gradients are not finite, change no average."""
    events = train(tools, compile_plan(tools, "skipping"), "skipping")
    skipped = [0] + [event["skipped"] for event in events if event["event"] == "step"]
    last = len(skipped) - 1
    check(0 < skipped[-1] < last - 1, "some updates are skipped: %s" % skipped)
    train(tools, "skipping_none.plan", "unskipped", "--steps", "0")
    model = [parts(saved("skipping" if step else "unskipped", step))[0] for step in range(last + 1)]
    taken = [0] + [step for step in range(1, last + 1) if skipped[step] == skipped[step - 1]]
    steps = [{name: values for name, values in model[step].items() if not name.startswith("out.")} for step in taken]
    near("skipping", parts(saved("skipping", last))[1], follow(lambda n, a, p: 0.75 * a + 0.25 * p, steps))


def main():
    tools = [os.path.abspath(tool) for tool in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens("tokens.bin", 3)
        write_tokens("held.bin", 5)
        plain, ema, begin = follows_parameters(tools)
        is_evaluated(tools, plain, ema)
        goes_on(tools)
        ranks_agree(tools, begin)
        has_own_rules(tools)
        is_left_alone(tools)
        os.chdir("/")
    print("%d failed" % len(failures))
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
