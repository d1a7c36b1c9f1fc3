#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of padded layouts:  padded.py DTC DTRUN

No axis here is divided by the ranks that split it. A rank may have some padding, nothing but padding, or more elements than
the tensor has. Each layout trains from the same serial checkpoint and saves; its parameters, states and moments must be
those that the serial program saves at the same step, up to the order of sums. Its checkpoint is then loaded by the next
layout and by the serial program, which save it again after a step with a learning rate of zero: the parameters must be the
same bits, which they are only if every element was saved, loaded and saved again.
"""
import array
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

FIRST, LAST = 2, 4
# tolerance after two steps: sums of at most 64 terms in another order, with an error of 6e-8 each
TOLERANCE = 2e-5
PROGRAM = """include "std.dsl"
dim batch = 8, seq = 8, vocab = 10, embed = 6, hidden = 5, layers = 3
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  repeat h in layers {
    state seen[embed] = zeros
    seen = 0.9 * seen + mean[batch, seq](x)
    x = x + (x |> up:linear[embed, hidden] |> gelu |> down:linear[hidden, embed])
  }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
%s
  steps = 4
%s
}
"""
# Parameters rounded to bf16; their master copies are saved. Only these are compared with the
# serial program: values computed in bf16 differ by 2^-9 of each partial sum, and AdamW turns
# gradients near zero into whole steps.
ADAMW = "  optimizer = adamw(lr = 1e-3, decay = 0.1, clip = 1.0)"
# Optimizers that look at whole parameters: rows and columns of padding must not count.
ADAFACTOR = "  optimizer = adafactor(lr = 1e-2)"
MUON = """  matrices = muon(lr = 0.02, params = ("wte", "h.*.w"))
  rest = lamb(lr = 1e-3, params = "h.*.b0")"""
ROUNDED = "  precision = mixed(compute = f32, params = bf16, master = f32, grads = f32)"
LAYOUTS = {
    "some": (2, "mesh tensor = 2; shard vocab on tensor (pad = 4)"),
    "only": (2, "mesh tensor = 2; shard vocab on tensor (pad = 20)"),
    "larger": (2, "mesh tensor = 2; shard vocab on tensor (pad = 128)"),
    "fourth": (4, "mesh tensor = 4; shard vocab on tensor (pad = 8)"),
    "inner": (2, "mesh tensor = 2; shard hidden on tensor (pad = 8)"),
    "inner_only": (2, "mesh tensor = 2; shard hidden on tensor (pad = 16)"),
    "embed": (4, "mesh tensor = 4; shard embed on tensor (pad = 8)"),
    "both": (4, "mesh row = 2, column = 2; shard vocab on row (pad = 32); shard embed on column (pad = 16)"),
    "twice": (4, "mesh row = 2, column = 2; shard vocab on row, column (pad = 64)"),
    "alone": (1, "mesh tensor = 1; shard hidden on tensor (pad = 24)"),
    "zero1": (4, "mesh data = 2, tensor = 2; shard batch on data; shard vocab on tensor (pad = 20); zero 1 on data"),
    "zero3": (4, "mesh data = 2, tensor = 2; shard batch on data; shard vocab, hidden on tensor (pad = 128); zero 3 on data"),
    "pipe": (4, "mesh pipe = 2, tensor = 2; shard vocab, hidden on tensor (pad = 20); pipeline h on pipe; micro batch = 2"),
}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:]))


def tensors(folder, step):
    found = {}
    for name in "model", "optimizer":
        with open("%s/step-%08d/%s.safetensors" % (folder, step, name), "rb") as file:
            data = file.read()
        length = struct.unpack("<Q", data[:8])[0]
        for key, entry in json.loads(data[8:8 + length]).items():
            if key == "__metadata__":
                continue
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            values = array.array({"F32": "f", "BF16": "H"}[entry["dtype"]], data[begin:end])
            if entry["dtype"] == "BF16":
                values = array.array("f", struct.pack("<%dI" % len(values), *(v << 16 for v in values)))
            assert len(values) == math.prod(entry["shape"]), key
            found[key] = values
    return found


def check_alike(what, got, wanted, tolerance):
    assert sorted(got) == sorted(wanted), "%s: other tensors" % what
    for name, values in wanted.items():
        scale = max(abs(v) for v in values)
        assert scale > 0 or "down.b" in name, "%s: `%s` is nothing but zeros" % (what, name)
        worst = max(abs(a - b) for a, b in zip(got[name], values))
        assert worst <= tolerance * scale, "%s: `%s` is wrong by %g of %g" % (what, name, worst, scale)


def check_equal(what, got, wanted):
    for name, values in wanted.items():
        if not name.startswith("moment") and not name.endswith("seen"):
            assert got[name] == values, "%s: `%s` has other bits" % (what, name)


def resume(dtrun, name, source, target, *more):
    run(dtrun, name + ".plan", "-q", "--resume", source, "--save", target, *more)


def check_layouts(dtc, dtrun, optimizer, precision, names, tolerance):
    still = ["--set", "lr.base=0"] if optimizer != MUON else ["--set", "matrices.lr.base=0", "--set", "rest.lr.base=0"]
    with open("m.dsl", "w") as file:
        file.write(PROGRAM % (optimizer, precision))
        for name, (ranks, lines) in LAYOUTS.items():
            file.write('cluster of_%s { gpus = %d; gpu = "cpu" }\nparallel %s on of_%s { %s }\n' %
                       (name, ranks, name, name, lines))
    for name in ["none"] + names:
        run(dtc, "m.dsl", "--parallel", name, "-o", name + ".plan")
    run(dtrun, "none.plan", "-q", "--save", "first", "--steps", str(FIRST))
    resume(dtrun, "none", "first", "serial")
    serial = tensors("serial", LAST)
    for name in names:
        resume(dtrun, name, "first", name)
        check_alike(name, tensors(name, LAST), serial, tolerance)
    for i, name in enumerate(names):
        saved = tensors(name, LAST)
        for other in (names + names)[i + 1], "none":
            target = "%s_%s" % (name, other)
            resume(dtrun, other, name, target, "--steps", str(LAST + 1), *still)
            check_equal("%s, loaded by %s" % (name, other), tensors(target, LAST + 1), saved)
    return 3 * len(names)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    passed = 0
    whole = ["zero1", "zero3"]
    for optimizer, precision, names, tolerance in ((ADAMW, "", list(LAYOUTS), TOLERANCE),
                                                   (ADAMW, ROUNDED, ["only", "larger", "both", "zero3"], 1e-2),
                                                   (ADAFACTOR, "", whole, TOLERANCE), (MUON, "", whole, TOLERANCE)):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            passed += check_layouts(dtc, dtrun, optimizer, precision, names, tolerance)
            os.chdir("/")
    print("%d passed, 0 failed" % passed)


main()
