# SPDX-License-Identifier: Apache-2.0
"""Who does the epilogues of products, a library or kernels: forms.py DTC DTRUN

Plans have both forms of a product with an epilogue. The stand-in of cuBLASLt refuses an epilogue,
or is slow with it: runs end well, both ranks take the same form though only one of them sees why,
a run that goes on keeps its form, and a later run takes the one that was the faster. Both forms
compute the same but for roundings, also on a processor. A plan whose second form computes
something else is refused."""

import json
import os
import re
import shutil
import sys
import tempfile

from algorithms import Trainer, manifest, tensors
from training import run

PROGRAM = """include "std.dsl"
dim batch = 8, seq = 4, a = 16, b = 24, classes = 8, layers = 2
layer hidden(x[batch, seq, a]) -> [batch, seq, b] {
  param w[a, b] = normal(0.5); param v[b] = normal(0.5)
  return gelu_tanh(x @a w + v)
}
model m(x[batch, seq, a]) -> [batch, seq, classes] {
  repeat h in layers { x = x + down:linear[b, a](f:hidden(x)) }
  return out:linear[a, classes](x)
}
train {
  f32 x[batch, seq, a] = synthetic(-1, 1)
  i32 y[batch, seq] = synthetic(0, classes)
  loss = mean[batch, seq](xent[classes](m(x), y))
  optimizer = sgd(lr = 0.1)
  steps = 3
  precision = mixed(compute = bf16, params = f32, grads = f32, reduce = f32)
}
cluster twins { gpus = 2; gpu = "cpu" }
parallel twice on twins { mesh twin = 2; shard batch on twin }
"""
# The epilogue of bias and GELU that keeps its input; that of a bias; all epilogues.
SAVES, BIAS, ALL = 164, 4, 4096


def lines(folder):
    with open(folder + "/log") as file:
        said = [json.loads(line) for line in file]
    texts = [line["text"] for line in said if line["event"] == "product"]
    return [text for text in texts if " epilogue `" in text and ": by " in text]


def losses(folder):
    with open(folder + "/log") as file:
        return [line["loss"] for line in map(json.loads, file) if line["event"] == "step"]


def near(a, b):
    return all(abs(x - y) < 2e-3 for x, y in zip(losses(a), losses(b)))


def check_timed(t):
    usual = t.train("")
    assert len(lines(usual)) == 8, lines(usual)
    assert all("by the library; " in line and " us by product" in line for line in lines(usual))
    assert "forms" not in manifest(usual)
    refused = t.train("refuses=%d" % SAVES)
    assert "note: 1 epilogue of products are done by kernels, since cuBLASLt" in t.said, t.said
    why = "by a kernel after the product; since the library does not do it"
    assert sum(why in line for line in lines(refused)) == 1
    assert len(manifest(refused)["forms"]) == 1
    assert tensors(refused) != tensors(usual) and near(refused, usual)
    slow = t.train("slow=%d" % SAVES)
    assert tensors(slow) == tensors(refused)
    none = t.train("", "--epilogues", "none")
    why = "by a kernel after the product; as asked for"
    assert all(why in line for line in lines(none)), lines(none)
    assert tensors(none) == tensors(t.train("refuses=%d" % ALL)) != tensors(usual)
    assert near(none, usual)
    assert tensors(t.train("slow=%d" % SAVES, "--epilogues", "all")) == tensors(usual)
    assert tensors(t.train("slow=%d" % SAVES, "--algorithms", "first")) == tensors(usual)
    t.train("refuses=%d" % SAVES, "--epilogues", "all", wants=1)
    assert "--epilogues all: cuBLASLt does no epilogue `bias_gelu_aux`" in t.said, t.said
    assert tensors(t.train("refuses=%d" % ALL, "--graph")) == tensors(none)
    return usual, slow


def check_kept(t, usual, slow):
    begun = t.train("slow=%d" % SAVES, steps=1)
    again = t.train("", "--resume", begun + "/saved")
    assert tensors(again) == tensors(slow) and "stay as they are" not in t.said
    for key in ("forms", "products"):
        assert manifest(again)[key] == manifest(begun, 1)[key], key
    begun = t.train("", steps=1)
    again = t.train("slow=%d" % SAVES, "--resume", begun + "/saved", "--epilogues", "timed")
    assert tensors(again) == tensors(usual) and "forms" not in manifest(again)
    note = "note: 8 epilogues of products stay as they are in the checkpoint, not as --epilogues"
    assert note in t.said, t.said
    again = t.train("refuses=%d" % SAVES, "--resume", begun + "/saved")
    assert len(manifest(again)["forms"]) == 1
    os.mkdir("cache")
    t.train("slow=%d" % SAVES, cache="cache")
    kept = t.train("", cache="cache")
    assert tensors(kept) == tensors(slow)
    assert sum("kept from an earlier run" in line for line in lines(kept)) == 8
    shutil.rmtree("cache")


def check_ranks(dtc, dtrun):
    run(dtc, "forms.dsl", "--parallel", "twice", "--target=sm_90a", "-o", "twice.plan")
    t = Trainer(dtrun, "twice.plan")
    t.n = 100
    slow = t.train("slow0=%d" % SAVES)
    assert len(manifest(slow)["forms"]) == 1
    for standin in ("refuses0=%d" % SAVES, "slow=%d" % SAVES):
        assert tensors(t.train(standin)) == tensors(slow)
    assert tensors(t.train("slow1=%d" % SAVES)) == tensors(t.train(""))


def check_processor(dtc, dtrun):
    run(dtc, "forms.dsl", "--parallel", "none", "--target=cpu", "--epilogues=all", "-o", "cpu.plan")
    for which in ("all", "none", "timed"):
        os.mkdir("cpu." + which)
        run(dtrun, "cpu.plan", "--quiet", "--epilogues", which, "--log", "cpu.%s/log" % which,
            "--save", "cpu.%s/saved" % which)
        assert manifest("cpu." + which)["epilogues"] == ("none" if which == "none" else "all")
    assert tensors("cpu.all") == tensors("cpu.timed") != tensors("cpu.none")
    assert near("cpu.all", "cpu.none")
    for first, then in (("none", "timed"), ("none", "all"), ("all", "none")):
        folder = "cpu.%s.%s" % (first, then)
        run(dtrun, "cpu.plan", "--quiet", "--epilogues", first, "--steps", "1", "--save",
            folder + "/saved")
        said = run(dtrun, "cpu.plan", "--quiet", "--epilogues", then, "--resume", folder + "/saved")
        assert tensors(folder) == tensors("cpu." + first), folder
        note = "goes on with --epilogues %s, which its checkpoint was trained with, and not %s"
        assert note % (first, then) in said, said
        if then == "timed":  # an option that asks for nothing else, and none
            for more in (["--epilogues", first], []):
                said = run(dtrun, "cpu.plan", "--quiet", "--steps", "2", "--resume",
                           folder + "/saved/step-00000001", *more)
                assert "goes on with" not in said, said
    said = run(dtrun, "cpu.plan", "--epilogues", "some", wants=2)
    assert "--epilogues wants timed, all or none, not `some`" in said, said


def number(line, name):
    found = re.search(r" %s=(\d+)" % name, line)
    return int(found[1]) if found else 0


def with_one_form(text, of_step, own_record):
    """A plan's text in which the product of BIAS has one form in one of its two instructions: in
    that of the step, or of a prediction. own_record: the other one has a record of its own, which
    is the same product, after all others."""
    records = text.split("\n")
    all_of = {tag: [i for i, line in enumerate(records) if line.startswith(tag + " ")]
              for tag in ("GEMM", "INST", "BODY", "ARGS", "AREN")}
    arena = next(n for n, i in enumerate(all_of["AREN"]) if " kind=instead" in records[i])
    gemm = next(n for n, i in enumerate(all_of["GEMM"]) if " epilogue=bias_add " in records[i])
    step, predict = [i for i in all_of["INST"]
                     if number(records[i], "ref") == gemm and " instead=" in records[i]]
    one, two = (step, predict) if of_step else (predict, step)
    body = records[all_of["BODY"][number(records[one], "instead") - 1]]
    for n in range(number(body, "n_insts")):  # now it is nobody's second form
        inst = records[all_of["INST"][number(body, "first_inst") + n]]
        for a in range(number(inst, "n_args")):
            at = all_of["ARGS"][number(inst, "first_arg") + a]
            records[at] = records[at].replace(" arena=%d" % arena, " arena=3")
    records[one] = re.sub(r" instead=\d+", "", records[one])
    if own_record:
        records[two] = records[two].replace(" ref=%d " % gemm, " ref=%d " % len(all_of["GEMM"]))
        copy = re.sub(r" # \d+$", "", records[all_of["GEMM"][gemm]])
        records.insert(all_of["GEMM"][-1] + 1, copy)
    return "\n".join(records)


def check_shared(dtc, dtrun):
    """Two records are one product, and only the second has two forms: a run that goes on keeps the
    form and the algorithm, though a checkpoint has one choice for both."""
    text = run(dtc, "dump", "one.plan")
    plans = {}
    for name, of_step, own_record in (("apart", False, True), ("mixed", True, False)):
        with open(name + ".txt", "w") as file:
            file.write(with_one_form(text, of_step, own_record))
        run(dtc, "asm", name + ".txt", "-o", name + ".plan")
        plans[name] = Trainer(dtrun, name + ".plan")
        plans[name].n = 200 + 100 * of_step
    t = plans["apart"]
    slow = "fast=1 slow=%d" % BIAS
    straight, begun = t.train(slow, "--unproved"), t.train(slow, "--unproved", steps=1)
    again = t.train("fast=2", "--unproved", "--resume", begun + "/saved")
    assert tensors(again) == tensors(straight)
    for key in ("forms", "products"):
        assert manifest(again)[key] == manifest(begun, 1)[key], key
    t = plans["mixed"]
    t.train("", "--unproved")
    t.train("refuses=%d" % BIAS, "--unproved", wants=1)
    assert "cuBLASLt does not do product" in t.said and "has no second form" in t.said, t.said


def edits(text):
    """Texts of plans by name: each has a second form that computes something else."""
    records = text.split("\n")
    product = next(i for i, line in enumerate(records) if re.match("INST .*instead=", line))
    body = int(re.search(r"instead=(\d+)", records[product])[1]) - 1
    bodies = [i for i, line in enumerate(records) if line.startswith("BODY ")]
    insts = [i for i, line in enumerate(records) if line.startswith("INST ")]
    first = int((re.search(r"first_inst=(\d+)", records[bodies[body]]) or ["0", "0"])[1])
    kernel = next(i for i in insts[first:] if not re.search("kind=(?!kernel)", records[i]))

    def changed(at, old, new):
        lines_ = list(records)
        lines_[at] = re.sub(old, new, lines_[at])
        assert lines_[at] != records[at], (records[at], old)
        return "\n".join(lines_)

    yield "no kernel", changed(bodies[body], r"n_insts=\d+", "n_insts=1")
    yield "another body", changed(product, r"instead=\d+", "instead=%d" % len(bodies))
    yield "no form", changed(product, r" instead=\d+", "")
    yield "the product again", changed(insts[first], r" (ref=\d+ )?span", " ref=0 span")
    yield "fewer arguments", changed(kernel, r"n_args=\d+", "n_args=1")


def check_proof(dtc):
    run(dtc, "forms.dsl", "--parallel", "none", "--target=cpu", "--epilogues=all", "--no-kernels",
        "-o", "proof.plan")
    text = run(dtc, "dump", "proof.plan")
    for name, edit in edits(text):
        with open("edit.txt", "w") as file:
            file.write(edit)
        said = run(dtc, "asm", "edit.txt", "-o", name + ".plan", wants=None)
        if os.path.exists(name + ".plan"):
            said = run(dtc, "verify", name + ".plan", wants=None)
        assert "is not proved to do what it says" in said or "plan record" in said, (name, said)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("forms.dsl", "w") as out:
            out.write(PROGRAM)
        os.environ["XDG_CACHE_HOME"] = folder
        check_proof(dtc)
        check_processor(dtc, dtrun)
        run(dtc, "forms.dsl", "--parallel", "none", "--target=sm_90a", "-o", "one.plan")
        trainer = Trainer(dtrun, "one.plan")
        check_kept(trainer, *check_timed(trainer))
        check_ranks(dtc, dtrun)
        check_shared(dtc, dtrun)
    print("products have one form on all ranks, whatever the library refuses")


if __name__ == "__main__":
    main()
