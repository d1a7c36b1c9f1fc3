#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is drawn in a step, element by element:  draws.py DTC DTRUN

One step of gradient descent on sums of parameters times draws, from zero and with rate 1, leaves
the draws themselves, with their sign turned, in the checkpoint. They must be what language.md says
(this file contains the generator once more): word e mod 4 of call e / 4, where e is the number of
the element in the whole tensor, in every layout, wherever it cuts the tensor. With `draws = one`,
it is the first word of call e. Keys are read from the kernels; other tests check that they are the
keys of the sites.
"""
import array
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

PROGRAM = """include "std.dsl"
dim batch = 4, seq = 20, embed = 24, wide = 37, odd = 7, some = 18, layers = 2
model net(x[batch]) -> [batch] {
  param across[seq, embed] = zeros
  param along[embed, seq] = zeros
  param ends[wide] = zeros
  param neither[some, odd] = zeros
  y = sum[seq, embed](across * uniform[seq, embed]()) + sum[seq, embed](along * uniform[embed, seq]())
  y = y + sum[wide](ends * uniform[wide]()) + sum[some, odd](neither * uniform[some, odd]())
  repeat h in layers {
    param inner[seq, embed] = zeros
    y = y + sum[seq, embed](inner * uniform[seq, embed]())
  }
  return x * 0 + y
}
train {
  x[batch] = synthetic(0, 1)
  loss = mean[batch](net(x))
  optimizer = sgd(lr = 1)
  steps = 1
%s
}
"""
# of axis `seq` a rank has 10 or 5 elements, of `wide` 19 (one of them padding), of `some` 9: cut
# inside of a group of four
LAYOUTS = {
    "seq": (2, "mesh t = 2; shard seq on t"),
    "fifths": (4, "mesh t = 4; shard seq on t"),
    "embed": (4, "mesh t = 4; shard embed, wide on t (pad = 10)"),
    "grid": (4, "mesh r = 2, t = 2; shard embed, some on r; shard seq on t"),
    "wide": (2, "mesh t = 2; shard wide, some on t (pad = 2)"),
    "pipe": (4, "mesh p = 2, t = 2; pipeline h on p; micro batch = 2; shard seq on t"),
    "zero": (2, "mesh d = 2; shard batch on d; zero 3 on d"),
}
AXES = {"across": {"seq": 20, "embed": 24}, "along": {"embed": 24, "seq": 20}, "ends": {"wide": 37},
        "neither": {"some": 18, "odd": 7}, "h.0.inner": {"seq": 20, "embed": 24}, "h.1.inner": {"seq": 20, "embed": 24}}


def philox(key, call, step, iteration):
    low = 0xFFFFFFFF
    c, k = [call & low, call >> 32, step, iteration], [key & low, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & low, a >> 32 ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


def drawn(axes, key, iteration, words):
    """Elements in the order of axes."""
    names, values = sorted(axes), []
    for i in range(math.prod(axes.values())):
        at = {}
        for name in reversed(list(axes)):
            i, at[name] = divmod(i, axes[name])
        e = 0
        for name in names:
            e = e * axes[name] + at[name]
        values.append((philox(key, e // words, 0, iteration)[e % words] >> 8) / 2 ** 24)
    return values


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:]))
    return done.stdout + done.stderr


def tensors(folder):
    with open(folder + "/step-00000001/model.safetensors", "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    found = {}
    for key, entry in json.loads(data[8:8 + length]).items():
        if key != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            found[key] = [-v for v in array.array("f", data[begin:end])]
    return found


def check(name, got, keys, words):
    assert sorted(got) == sorted(AXES), "%s: other tensors" % name
    for path, values in got.items():
        iteration = int(path[2]) if path.startswith("h.") else 0
        assert any(values == drawn(AXES[path], key, iteration, words) for key in keys), \
            "%s: `%s` is not what the language says" % (name, path)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for rule, words in ("", 4), ("  draws = one", 1):
            with open("m.dsl", "w") as file:
                file.write(PROGRAM % rule)
                for name, (ranks, lines) in LAYOUTS.items():
                    file.write('cluster of_%s { gpus = %d; gpu = "cpu" }\nparallel %s on of_%s { %s }\n' %
                               (name, ranks, name, name, lines))
            text = run(dtc, "m.dsl", "--parallel", "none", "--emit=c")
            keys = {int(key, 16) for key in re.findall(r"dt_draw.*?0x([0-9a-f]+)ull", text)}
            assert len(keys) == 5, "%d draws" % len(keys)
            for name in ["none"] + list(LAYOUTS):
                plan = "%s%d" % (name, words)
                run(dtc, "m.dsl", "--parallel", name, "-o", plan)
                run(dtrun, plan, "-q", "--save", plan + ".out")
                check(plan, tensors(plan + ".out"), keys, words)
                passed += 1
        for plan, saved, other in ("none4", "none4", False), ("none4", "seq1", True), ("none1", "seq4", True):
            says = run(dtrun, plan, "-q", "--resume", saved + ".out", "--save", "more" + plan + saved, "--steps", "1")
            keeps = "`draws = %s` in the train block keeps those" % ("one" if saved.endswith("1") else "four")
            assert (keeps in says) == other and ("random draws" in says) == other, says
            passed += 1
    print("%d passed, 0 failed, 0 skipped" % passed)


main()
