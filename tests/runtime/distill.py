#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Teachers from other files:  distill.py DTC DTRUN

The programs of distill.dsl. A large model is trained, and written for other programs twice. A small one begins with initial
values beside two instances of the large one, each imported from its own folder by the label of its call; they are those
files, bit for bit, also after training. --import without a label is for the small one, and --export writes it alone. Two
ranks with ZeRO 3 and micro-batches, or with tensor parallelism, learn the same. Where PyTorch is installed, the losses are
those of alpha T^2 KL + (1 - alpha) cross-entropy there, and so is what six steps change."""

import array
import json
import os
import random
import re
import sys
import tempfile

from runs import OF_VALUE, check, compare_tensors, failures, norm, run, saved, tensors_of

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "distill.dsl")
STEPS, BATCH, ROWS, T, ALPHA, RATE, MOMENTUM = 6, 8, 60, 2.5, 0.6, 0.1, 0.5


def write_data():
    draw = random.Random(5)
    x = [[draw.uniform(-2, 2) for _ in range(6)] for _ in range(ROWS)]
    labels = [draw.randrange(4) for _ in range(ROWS)]
    with open("x.bin", "wb") as file:
        file.write(array.array("f", [v for row in x for v in row]).tobytes())
    for name, values in (("label.bin", labels), ("row.bin", range(ROWS))):
        with open(name, "wb") as file:
            file.write(bytes(values))
    return x, labels


def compile_plan(tools, name, train="distill", layout="none"):
    text = open(PROGRAM, encoding="utf-8").read()
    with open("p.dsl", "w", encoding="utf-8") as file:
        file.write(text)
    run([tools[0], "p.dsl", "--train", train, "--parallel", layout, "-o", name])


def train(tools, plan, folder, *options):
    run([tools[1], plan, "--quiet", "--log", folder + ".jsonl", "--save", folder, *options])
    with open(folder + ".jsonl", encoding="utf-8") as file:
        return [{**event, **event.get("metrics", {})} for event in map(json.loads, file) if event["event"] == "step"]


def near(a, b):
    return abs(a - b) <= 8 * OF_VALUE * max(1, abs(b))


def below(label, tensors):
    return {name[len(label) + 1:]: values for name, values in tensors.items() if name.startswith(label + ".")}


def imports_by_label(tools):
    compile_plan(tools, "teach.plan", "teach")
    run([tools[1], "teach.plan", "--quiet", "--save", "teach", "--export", "one", "--like", "none"])
    run([tools[1], "teach.plan", "--quiet", "--steps", "3", "--export", "two", "--like", "none"])
    compile_plan(tools, "distill.plan")
    two = ["--import", "teacher=one", "--import", "other=two"]
    events = train(tools, "distill.plan", "all", *two)
    last, one = saved("all", STEPS), saved("teach", 20)
    teacher, other = below("teacher", last), below("other", last)
    check({name: values for name, values in teacher.items() if name != "head.b0"} ==
          {name: values for name, values in one.items() if name != "head.b0" and not name.startswith("moment")},
          "the teacher is what was exported")
    check(other["head.w"] != teacher["head.w"] and other["h.0.up.w"] != teacher["h.0.up.w"], "the two are two")
    begin = saved_at_begin(tools, two)
    student = [name for name in begin if not name.startswith(("teacher.", "other.", "moment"))]
    check(all(begin[name] != last[name] for name in student if not name.endswith("b0")), "the student trains")
    run([tools[1], "distill.plan", "--resume", "all", "--steps", "0", "--export", "small", "--like", "none"])
    check(sorted(tensors_of("small/model.safetensors"))[-1] == "head.weight" and
          len(tensors_of("small/model.safetensors")) == 10, "the export is the student")
    train(tools, "distill.plan", "again", "--import", "small", *two, "--steps", "0")
    check({name: saved("again", 0)[name] for name in student} == {name: last[name] for name in student},
          "the student is imported without a label")
    for wrong, wanted in ((["--import", "pupil=one"], "no names block is for an instance `pupil:MODEL(..)`"),
                          (["--import", "teacher=small"], "does not fit `names files`"),
                          (["--import", "one"], "does not fit `names small_files`"),
                          (["--import", "teacher=none"], "none")):
        code = 2 if "pupil" in wrong[1] else 5 if "none" in wrong[1] else 1
        said = run([tools[1], "distill.plan", "--steps", "1", *wrong], code)
        check(wanted in said, "%s: %s" % (wrong, said))
    return begin, student, events, last


def saved_at_begin(tools, two):
    train(tools, "distill.plan", "begin", *two, "--steps", "0")
    return saved("begin", 0)


def ranks_agree(tools, begin, events, last):
    for layout in ("zero", "tensor"):
        compile_plan(tools, layout + ".plan", layout=layout)
        got = train(tools, layout + ".plan", layout, "--import", "teacher=one", "--import", "other=two")
        check(all(near(a["loss"], b["loss"]) for a, b in zip(got, events)), layout + ": losses")
        compare_tensors(layout, saved(layout, STEPS), last, begin)


# ---- what PyTorch says ----

def compare_with_pytorch(torch, tools, x, labels, begin, student, events, last):
    said = run([tools[1], "distill.plan", "--show-samples", str(STEPS * BATCH)])
    rows = [int(n) for n in re.findall(r"^row: (\d+)$", said, re.M)]
    check(len(rows) == STEPS * BATCH, "rows of samples")
    shapes = {"linear.w": (6, 10), "up.w": (10, 10), "down.w": (10, 10), "l1.w": (6, 5), "l2.w": (5, 6)}

    def tensor(name, values):
        kind = name.split(".", 2)[-1] if name[0] == "h" and name[1] == "." else name
        columns = {"head.w": 4}.get(kind) or shapes.get(kind, (0, len(values)))[1]
        found = torch.tensor(list(values), dtype=torch.float64)
        return found.reshape(-1, columns) if kind.endswith(".w") else found

    def linear(of, u, name):
        return u @ of[name + ".w"] + of[name + ".b0"]

    def large(of, u):
        u = linear(of, u, "linear").tanh()
        for h in range(2):
            u = u + linear(of, torch.nn.functional.gelu(linear(of, u, "h.%d.up" % h)), "h.%d.down" % h)
        return linear(of, u, "head")

    def small(of, u):
        for h in range(2):
            u = u + linear(of, torch.nn.functional.gelu(linear(of, u, "h.%d.l1" % h)), "h.%d.l2" % h)
        return linear(of, u, "head")

    teachers = [{name: tensor(name, values) for name, values in below(label, begin).items()} for label in ("teacher", "other")]
    of = {name: tensor(name, begin[name]).requires_grad_() for name in student}
    optimizer = torch.optim.SGD(of.values(), lr=RATE, momentum=MOMENTUM)
    for step in range(STEPS):
        mine = rows[step * BATCH:(step + 1) * BATCH]
        u = torch.tensor([x[row] for row in mine], dtype=torch.float32).double()
        target = torch.tensor([labels[row] for row in mine])
        with torch.no_grad():
            meant = ((large(teachers[0], u) + large(teachers[1], u)) / 2 / T).log_softmax(-1)
        z = small(of, u)
        apart = torch.nn.functional.kl_div((z / T).log_softmax(-1), meant, log_target=True, reduction="batchmean")
        loss = ALPHA * T ** 2 * apart + (1 - ALPHA) * torch.nn.functional.cross_entropy(z, target)
        check(near(events[step]["loss"], loss.item()) and near(events[step]["apart"], apart.item()),
              "step %d: loss %g, PyTorch's %g" % (step, events[step]["loss"], loss.item()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name in student:
        want = (of[name].detach().reshape(-1) - torch.tensor(list(begin[name]), dtype=torch.float64)).tolist()
        ours = [a - b for a, b in zip(last[name], begin[name])]
        off = norm([a - b for a, b in zip(ours, want)])
        check(off <= 1e-3 * norm(want) > 0, "`%s` changes by another %g of %g" % (name, off, norm(want)))


def main():
    tools = [os.path.abspath(tool) for tool in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        x, labels = write_data()
        begin, student, events, last = imports_by_label(tools)
        ranks_agree(tools, begin, events, last)
        sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
        try:
            import torch
        except ImportError as error:
            print("not compared with PyTorch: %s" % error)
        else:
            compare_with_pytorch(torch, tools, x, labels, begin, student, events, last)
        os.chdir("/")
    print("%d failed" % len(failures))
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
