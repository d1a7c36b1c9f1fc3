#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""States that several pipeline stages use, on real ranks, against the serial run:  stages.py DTC DTRUN

A student and its momentum teacher, whose layers are moving averages of the student's, a loop over all stages; a codebook
that is a moving average of what it is looked up for, used in front of the first layer and behind the last; running
statistics of a layer; a temperature of all layers; a counter in integers; a state that nothing reads. For each layout:

  - losses, norms and every tensor of the checkpoints are those of the serial run, as ranks.py compares; integers exactly.
  - each checkpoint has every state once: it goes on in one other layout as the serial run does, and in its own with
    the bits of a run that was not interrupted."""

import concurrent.futures
import json
import os
import shutil
import sys
import tempfile
from array import array

import precisions
import ranks

PROGRAM = """include "std.dsl"
dim batch = 8, pool = 4, each = batch // pool, embed = 6, mid = 10, codes = 5, last = 6, layers = 8
layer block(x[batch, embed], t[batch, embed], warm) -> [batch, embed], [batch, embed] {
  param up[embed, mid], down[mid, embed] = normal(0.3)
  state slow_up[embed, mid], slow_down[mid, embed] = normal(0.3)
  state mu[embed] = zeros
  g = stop(x)[batch -> (pool, each)]
  y = x + warm * (gelu((x - 0.1 * mu) @embed up) @mid down)
  z = t + gelu(t @embed slow_up) @mid slow_down
  slow_up = 0.9 * slow_up + 0.1 * stop(up)
  slow_down = 0.9 * slow_down + 0.1 * stop(down)
  mu = 0.9 * mu + 0.1 * mean[pool](mean[each](g))
  return y, stop(z)
}
model m(x[batch, embed]) -> [batch] {
  state code[codes, embed] = normal(0.5)
  state warm[], unread[] = ones
  state i32 count[] = zeros
  param inner[embed, last] = normal(0.4)
  state slow[embed, last] = normal(0.4)
  size2 = mean[batch](sum[embed](x * x))
  a = x + 0.3 * softmax[codes](x @embed code) @codes code
  t = x + 0.1 * (x @embed slow)[last -> embed]
  a = a + 0.1 * (a @embed inner)[last -> embed]
  repeat h in layers { a, t = block(a, t, warm + 0.01 * f32(count)) }
  near = softmax[codes](a @embed code)
  p = a @embed inner + 0.1 * (near @codes code)[embed -> last]
  q = t @embed slow
  code = 0.8 * code + 0.2 * (stop(near) @batch stop(a)) / size[batch]
  warm = 0.9 * warm + 0.02 * size2
  unread = 0.5 * unread + 0.1 * stop(sum[embed, last](inner))
  count = count + 1
  slow = 0.9 * slow + 0.1 * stop(inner)
  return sum[last]((p - stop(q)) ** 2)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = 0.05 * mean[batch](m(x))
  optimizer = OPTIMIZER
  steps = 2
PRECISION}
"""
F16 = "mixed(compute = f16, params = f16, master = f32, grads = f32, loss_scale = dynamic)"
LAYOUTS = {  # ranks, lines of the block, the layout in which a run continues from its checkpoints
    "gpipe": (2, 'mesh pipe = 2; pipeline h on pipe (schedule = "gpipe")', "four"),
    "four": (4, "mesh pipe = 4; pipeline h on pipe; micro batch = 4", "there and back"),
    "interleaved": (
        2,
        'mesh pipe = 2; pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 2',
        "serial",
    ),
    "there and back": (2, 'mesh pipe = 2; pipeline h on pipe (schedule = "zb_v"); micro batch = 4', "padded"),
    "dual": (2, 'mesh pipe = 2; pipeline h on pipe (schedule = "dualpipe_v"); micro batch = 4', "buckets"),
    "padded": (
        4,
        "mesh pipe = 2, tensor = 2; shard mid, codes, last on tensor (pad = 4); pipeline h on pipe; micro batch = 2",
        "interleaved",
    ),
    "buckets": (
        4,
        'mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = "zb_h1"); micro batch = 2; '
        "zero 2 on data",
        "gpipe",
    ),
}


def block(name):
    n, lines, _ = LAYOUTS[name]
    return 'cluster c { gpus = %d; gpu = "cpu" }\nparallel odd on c { %s }\n' % (n, lines)


def integers(folder, step):
    """The integer tensors of a checkpoint, which ranks.read_tensors leaves out."""
    with open(os.path.join(folder, "step-%08d" % step, "model.safetensors"), "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if entry.get("dtype") == "I32":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            found[name] = array("i", data[begin:end]).tolist()
    return found


def goes_on(case, name, other, serial):
    """The run in another layout that continues from the checkpoint of this layout's first step."""
    base, first = os.path.join(case.folder, name), "step-%08d" % 1
    part = "%s.to.%s" % (base, other)
    shutil.copytree(os.path.join(base + ".saved", first), os.path.join(part, first))
    ranks.execute(
        [case.dtrun, os.path.join(case.folder, other + ".plan"), "--quiet", "--steps", str(ranks.STEPS)]
        + ["--resume", part, "--save", part, "--log", part + ".log", "--timeout", "100"],
        "dtrun",
    )
    run = ranks.Run(part + ".log", part)
    run.steps = serial.steps[:1] + run.steps
    return run


def check(tools, folder, optimizer, text, precision):
    """Returns [(name, None or what is wrong)]"""
    found = []
    line = "  precision = %s\n" % text if text else ""
    case = ranks.Case(tools, folder, PROGRAM.replace("OPTIMIZER", optimizer).replace("PRECISION", line))
    serial = case.run("serial")
    near = serial
    if text:
        near = ranks.Case(tools, folder, PROGRAM.replace("OPTIMIZER", optimizer).replace("PRECISION", "")).run("near")
    names = list(LAYOUTS) if not text else ["there and back"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = dict(zip(names, pool.map(lambda name: case.run(name, block(name)), names)))
    for name in names:
        found.append((name, ranks.compare(runs[name], serial, near, optimizer, precision)))
        for step in (1, 2):
            counts = integers(os.path.join(folder, name + ".saved"), step)
            found.append((name, None if counts == {"count": [step]} else "count is %s after step %d" % (counts, step)))
        found.append((name + ", resumed", precisions.resumes(case, name)))
    for name in names if not text else ():
        other = LAYOUTS[name][2]
        run = goes_on(case, name, other, serial)
        found.append(("%s, goes on in %s" % (name, other), ranks.compare(run, serial, near, optimizer, precision)))
    return found


def main(dtc, dtrun):
    tools, failed, passed = (os.path.abspath(dtc), os.path.abspath(dtrun)), 0, 0
    for optimizer, text, precision in (precisions.ADAM, None, "f32"), (precisions.SGD, F16, "f16"):
        with tempfile.TemporaryDirectory(prefix="stages-") as folder:
            for what, wrong in check(tools, folder, optimizer, text, precision):
                failed, passed = failed + bool(wrong), passed + (not wrong)
                if wrong:
                    print("FAIL %s, %s: %s" % (precision, what, wrong))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
