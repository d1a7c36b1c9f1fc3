#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs that end when the held-out loss falls no longer:  patience.py DTC DTRUN

A small model learns a few samples by heart, so the held-out loss falls and then rises. With `patience = 3` the run ends, with
exit code 0, after three evaluations without a lower loss than the lowest; with `keep_best` that evaluation's checkpoint is kept
though `keep = 1` removes all but the newest. The log, the manifest, the file `best` and the last lines name it. So it is on one
rank, on two, and on four in a pipeline with tensor parallelism; a run that is resumed on its way ends after the same step with
the same bits. A run that has ended is not trained further unless it gets more patience."""

import json
import os
import random
import struct
import sys
import tempfile

from runs import CLUSTERS, NET, OF_VALUE, PIPE, bytes_of, check, failures, run

PROGRAM = NET + """  optimizer = adamw(lr = 0.01)
  eval = every(2, data = next_token(bin("held.bin", u16)), patience = 3, keep_best = true)
  save = every(4, keep = 1)
  steps = 400
}
""" + CLUSTERS + """parallel data on two { mesh data = 2; shard batch on data; zero 1 on data }
""" + PIPE


def write_tokens(name, seed, n):
    """A chain in which two tokens may follow each other token."""
    draw, at, values = random.Random(seed), 0, []
    for _ in range(n):
        at = (5 * at + 3 * draw.randrange(2) + 1) % 16
        values.append(at)
    with open(name, "wb") as file:
        file.write(struct.pack("<%dH" % n, *values))


def train(tools, plan, folder, *options):
    """What the run prints, and the (step, loss) of its evaluations."""
    log = folder + ".jsonl"
    said = run([tools[1], plan + ".plan", "--log", log, "--save", folder, *options])
    with open(log) as file:
        events = [json.loads(line) for line in file]
    check(not any(e["event"] == "not_saved" for e in events), "%s: a save failed" % folder)
    return said, [(e["step"], e["loss"]) for e in events if e["event"] == "eval"], events


def manifest(folder, step):
    with open("%s/step-%08d/manifest.json" % (folder, step)) as file:
        return json.load(file)


def check_end(tools, plan, folder, said, evals, events):
    """That the run ended as it should; returns the last step."""
    losses = [loss for _, loss in evals]
    lowest = losses.index(min(losses))
    best, last = evals[lowest][0], evals[-1][0]
    check(2 < best < last < 400 and len(losses) == lowest + 4, "%s: evaluations %s" % (folder, evals))
    check("stopped after step %d: 3 evaluations without a lower loss than %.4f after step %d" % (last, min(losses), best)
          in said, "%s: %s" % (folder, said[-600:]))
    check("evaluation after step %d: loss %.4f, %s/step-%08d" % (best, min(losses), folder, best) in said, said[-400:])
    check([e["step"] for e in events if e["event"] == "patience"] == [last], "%s: the log has another end" % folder)
    kept = sorted(name for name in os.listdir(folder) if name.startswith("step-"))
    check(kept == ["step-%08d" % best, "step-%08d" % last], "%s: %s are kept, not %d and %d" % (folder, kept, best, last))
    check(bytes_of(folder + "/best") == b"step-%08d\n" % best, "%s: best is %s" % (folder, bytes_of(folder + "/best")))
    found = manifest(folder, last)["best"]
    check(found["steps"] == best and found["since"] == 3 and abs(found["loss"] - min(losses)) < 1e-6, "%s: %s" % (folder, found))
    again = run([tools[1], plan + ".plan", "--eval", "--resume", "%s/step-%08d" % (folder, best)])
    check("%.4f" % min(losses) in again, "%s: the best checkpoint has another loss: %s" % (folder, again))
    return last


def test_layouts(tools):
    want = None
    for plan in ("none", "data", "pipe"):
        run([tools[0], "program.dsl", "--parallel", plan, "-o", plan + ".plan"])
        said, evals, events = train(tools, plan, plan)
        last = check_end(tools, plan, plan, said, evals, events)
        want = want or evals
        check(len(evals) == len(want) and all(abs(a[1] - b[1]) < 64 * OF_VALUE * b[1] for a, b in zip(evals, want)),
              "%s: evaluations %s, not %s" % (plan, evals, want))
    return last


def test_resumed(tools, last):
    train(tools, "none", "half", "--steps", str(last - 3))
    said = run([tools[1], "none.plan", "--resume", "half"])
    check("stopped after step %d: 3 evaluations" % last in said, "resumed: " + said[-600:])
    paths = ["%s/step-%08d/model.safetensors" % (folder, last) for folder in ("none", "half")]
    check(bytes_of(paths[0]) == bytes_of(paths[1]), "the resumed run ends with other bits")
    said = run([tools[1], "none.plan", "--resume", "half"])
    check("ended after 3 evaluations without a lower loss; go on with --set eval.patience=N" in said, "ended: " + said)
    check(not os.path.exists("half/step-%08d" % (last + 2)), "a run that had ended was trained")
    said = run([tools[1], "none.plan", "--resume", "half", "--set", "eval.patience=4"])
    check("stopped after step %d: 4 evaluations" % (last + 2) in said, "more patience: " + said[-600:])
    said = run([tools[1], "none.plan", "--resume", "none/step-%08d" % last, "--save", "copied"])
    check("saved %d steps in copied" % last in said, "the checkpoint of a run that had ended is copied: " + said)
    said = run([tools[1], "none.plan", "--resume", "none/step-%08d" % last, "--save", "other", "--set", "eval.patience=4"])
    check("best " in said and "other/step-%08d" % manifest("none", last)["best"]["steps"] not in said,
          "the best checkpoint is in another folder: " + said[-600:])


def test_changed(tools):
    """With --data-changed and other held-out data, on every rank the lowest loss is looked for anew."""
    train(tools, "data", "changed", "--steps", "8")
    os.rename("held.bin", "first.bin")
    write_tokens("held.bin", 3, 120)
    before = manifest("changed", 8)["best"]
    said, evals, _ = train(tools, "data", "changed", "--resume", "changed", "--data-changed", "--steps", "12", "--overwrite")
    os.replace("first.bin", "held.bin")
    after = manifest("changed", 12)["best"]
    losses = [loss for step, loss in evals if step > 8]
    check("was on other held-out data" in said, "changed: " + said[:900])
    check(before["steps"] <= 8 and after["steps"] > 8 and abs(after["loss"] - min(losses)) < 1e-6,
          "changed: the best is %s, was %s, of %s" % (after, before, evals))


def test_overwritten(tools):
    """--overwrite removes the file `best`, too, whose name may become that of a checkpoint that is not the best."""
    run([tools[0], "program.dsl", "--parallel", "none", "-o", "any.plan", "--set", "train.eval.keep_best=false"])
    run([tools[1], "any.plan", "--save", "none", "--overwrite", "--steps", "4"])
    check(sorted(os.listdir("none")) == ["latest", "step-00000004"], "overwritten: %s" % sorted(os.listdir("none")))


def test_alone(tools):
    """Without a folder, with a loss that does not change, and with no patience at all."""
    run([tools[0], "program.dsl", "--parallel", "none", "-o", "alone.plan", "--set", "train.eval.keep_best=false"])
    said = run([tools[1], "alone.plan", "--set", "eval.patience=1", "--set", "lr.base=0"])
    check("stopped after step 4: 1 evaluation without a lower loss" in said, "no change: " + said[-600:])
    said = run([tools[1], "alone.plan", "--set", "eval.patience=0", "--steps", "60"])
    check("stopped" not in said and "best" not in said, "no patience: " + said[-300:])


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("program.dsl", "w") as file:
            file.write(PROGRAM)
        write_tokens("tokens.bin", 1, 60)
        write_tokens("held.bin", 2, 120)
        last = test_layouts(tools)
        test_resumed(tools, last)
        test_alone(tools)
        test_changed(tools)
        test_overwritten(tools)
    print("patience: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:]]))
