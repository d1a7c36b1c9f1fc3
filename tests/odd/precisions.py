#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every precision on real ranks against the serial run:  precisions.py DTC DTRUN

One small program whose extents no rank count divides evenly into cache lines, in each precision of docs/precision.md, under
layouts that add gradients among two, three and four ranks, in buckets, and stage by stage. For each:

  - losses, gradient norms and every tensor of the checkpoints, moments and 16-bit parameters included, are those of the
    serial run of that precision, within the tolerances of ranks.py.
  - a run that is interrupted after the first step saves the same bits as one that goes on: what is loaded (a parameter
    rounded from its master copy, the count of steps, the loss scale) is what was in memory.
  - the serial run in 16 bits makes the step of the one in float32, but for roundoff: the steps of all tensors together
    differ by at most 32 roundoffs of their norm (as tests/oracle allows), or what a bf16 parameter without a master copy loses.
"""

import concurrent.futures
import json
import math
import os
import shutil
import sys
import tempfile

import ranks

PROGRAM = """include "std.dsl"
dim batch = 12, seq = 7, kseq = seq, vocab = 37, embed = 15, heads = 3, head = 5, hidden = 21, layers = 2
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  return wo:linear[(heads, head), embed](attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq]))
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  param shift[embed] = uniform(-0.1, 0.3)
  x = wte[vocab = tokens] + shift
  repeat h in layers {
    state seen[embed] = zeros
    x = x + a:mix(n:layernorm[embed](x))
    seen = 0.9 * seen + 0.1 * mean[batch, seq](x)
    x = x + (x |> up:linear[embed, hidden] |> gelu |> down:linear[hidden, embed])
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = OPTIMIZER
  steps = 3
PRECISION}
"""
SGD = "sgd(lr = 0.5, momentum = 0.9, decay = 0.05, clip = 1.0)"
ADAM = "adamw(lr = 0.01, eps = 1e-2, decay = 0.1, decay_if = rank > 1, clip = 0.5)"
# optimizer, precision, index into ranks.ROUNDOFF, layouts
PRECISIONS = {
    "f32": (SGD, None, "f32", ("three", "buckets", "whole", "staged")),
    "adam": (ADAM, None, "f32", ("three", "buckets")),
    "bf16": (ADAM, "mixed(compute = bf16, params = f32, grads = f32, reduce = f32)", "bf16", ("three", "staged")),
    "narrow": (SGD, "mixed(compute = bf16, params = bf16, grads = bf16, reduce = bf16)", "bf16", ("buckets", "whole")),
    "master": (
        SGD,
        "mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)",
        "master",
        ("three", "whole"),
    ),
    "f16": (
        SGD,
        "mixed(compute = f16, params = f32, grads = f32, reduce = f16, loss_scale = 256)",
        "f16",
        ("four", "buckets"),
    ),
    "scaled": (
        ADAM,
        "mixed(compute = f16, params = f16, master = f32, grads = f32, loss_scale = dynamic)",
        "f16",
        ("three", "staged"),
    ),
}
LAYOUTS = {
    "three": (3, "mesh data = 3; shard batch on data"),
    "four": (4, "mesh data = 4; shard batch on data"),
    "buckets": (
        4,
        "mesh data = 2, tensor = 2; shard batch on data; shard vocab, hidden on tensor (pad = 4); zero 1 on data",
    ),
    "whole": (4, "mesh data = 4; shard batch on data; micro batch = 3; zero 3 on data"),
    "staged": (2, "mesh pipe = 2; pipeline h on pipe; micro batch = 3"),
}


def bits(folder, step):
    found = []
    for part in ("model", "optimizer"):
        with open(os.path.join(folder, "step-%08d" % step, part + ".safetensors"), "rb") as file:
            found.append(file.read())
    return found


def program(optimizer, precision):
    line = "  precision = %s\n" % precision if precision else ""
    return PROGRAM.replace("OPTIMIZER", optimizer).replace("PRECISION", line)


def resumes(case, name):
    """What differs from the run without an interruption; None: nothing."""
    base, first = os.path.join(case.folder, name), "step-%08d" % 1
    part = base + ".part"
    shutil.copytree(os.path.join(base + ".saved", first), os.path.join(part, first))
    ranks.execute(
        [
            case.dtrun,
            base + ".plan",
            "--quiet",
            "--steps",
            str(ranks.STEPS),
            "--resume",
            part,
            "--save",
            part,
            "--timeout",
            "100",
        ],
        "dtrun",
    )
    same = bits(part, ranks.STEPS) == bits(base + ".saved", ranks.STEPS)
    return None if same else "resumed after a step: other bits"


def steps_of(run):
    return {name: [b - a for a, b in zip(run.saved[0][name], run.saved[1][name])] for name in run.saved[0]}


def check_step(serial, wide, precision):
    """The update of the second step, whose momentum is the sum of both gradients."""
    mine, want = steps_of(serial), steps_of(wide)
    off = math.sqrt(sum((a - b) ** 2 for name in want for a, b in zip(mine[name], want[name])))
    norm = math.sqrt(sum(b * b for name in want for b in want[name]))
    lost = math.sqrt(sum((v * values.unit) ** 2 for values in serial.saved[1].values() for v in values))
    allowed = 32 * ranks.ROUNDOFF[precision] * norm + lost
    return (
        None
        if off <= allowed
        else "its step is off by %.3g of %.3g from float32's (allowed: %.3g)" % (off, norm, allowed)
    )


def check_precision(tools, name):
    """Returns [(what was run, None or what is wrong)]"""
    optimizer, text, precision, names = PRECISIONS[name]
    found = []
    with tempfile.TemporaryDirectory(prefix="precisions-") as folder:
        case = ranks.Case(tools, folder, program(optimizer, text))
        serial = case.run("serial")
        near = ranks.Case(tools, folder, program(optimizer, None)).run("near") if text else serial
        found.append(("serial, resumed", resumes(case, "serial")))
        if text:
            found.append(("serial, step", check_step(serial, near, precision)))
        for layout in names:
            n, lines = LAYOUTS[layout]
            block = 'cluster c { gpus = %d; gpu = "cpu" }\nparallel odd on c { %s }\n' % (n, lines)
            found.append((layout, ranks.compare(case.run(layout, block), serial, near, optimizer, precision)))
            found.append((layout + ", resumed", resumes(case, layout)))
    return found


def check(tools, name):
    try:
        return check_precision(tools, name)
    except ranks.Failed as failure:
        return [("run", "%s\n%s" % failure.args)]


def main(dtc, dtrun):
    tools, failed, passed = (os.path.abspath(dtc), os.path.abspath(dtrun)), 0, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, found in zip(PRECISIONS, pool.map(lambda name: check(tools, name), PRECISIONS)):
            for what, wrong in found:
                failed, passed = failed + bool(wrong), passed + (not wrong)
                if wrong:
                    print("FAIL %s, %s: %s" % (name, what, wrong))
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
