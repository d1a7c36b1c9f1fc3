# SPDX-License-Identifier: Apache-2.0
"""Runs of tests and what they leave: what losses.py, optimizers.py and others share. Sums of a layout are taken in another
order, so numbers differ by some of 2^-24; what steps make of that is measured by what they changed."""

import array
import json
import os
import struct
import subprocess
import sys

OF_VALUE, OF_CHANGE = 2.0**-18, 2.0**-12
failures = []

# a small model of tokens, up to the settings of its train block; clusters, and a layout with a pipeline
NET = """include "std.dsl"
dim batch = 4, seq = 4, vocab = 16, embed = 8, mid = 16, layers = 2
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  repeat h in layers {
    x = x + (n:rmsnorm[embed](x) |> up:linear[embed, mid](std = 0.3) |> gelu |> down:linear[mid, embed](std = 0.3))
  }
  return out:linear[embed, vocab](x, std = 0.3)
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u16))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
"""
CLUSTERS = """cluster two { gpus = 2; gpu = "cpu" }
cluster four { gpus = 4; gpu = "cpu" }
"""
PIPE = """parallel pipe on four { mesh pipe = 2, tensor = 2; shard mid on tensor; pipeline h on pipe; micro batch = 2 }
"""


def write_tokens():
    """The file that NET learns from."""
    with open("tokens.bin", "wb") as file:
        file.write(struct.pack("<200H", *((7 * i * i + i // 3) % 16 for i in range(200))))


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAIL", what)


def run(command, wants=0):
    done = subprocess.run(command, capture_output=True, timeout=100)
    if done.returncode != wants:
        sys.exit("%s\n%s%s" % (" ".join(command), done.stdout.decode(), done.stderr.decode()))
    return (done.stdout + done.stderr).decode()


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def tensors_of(path):
    data = bytes_of(path)
    n = struct.unpack("<Q", data[:8])[0]
    return {name: array.array("f", data[8 + n + about["data_offsets"][0]:8 + n + about["data_offsets"][1]])
            for name, about in json.loads(data[8:8 + n]).items() if name != "__metadata__"}


def saved(folder, step):
    """Reads all tensors of a checkpoint; if there are no states, there is no second file."""
    paths = [os.path.join(folder, "step-%08d" % step, part + ".safetensors") for part in ("model", "optimizer")]
    return {name: tensor for path in paths if os.path.exists(path) for name, tensor in tensors_of(path).items()}


def norm(values):
    return sum(x * x for x in values) ** 0.5


def compare_tensors(what, got, want, begin, all_change=False):
    check(sorted(got) == sorted(want), "%s: its checkpoint has other tensors" % what)
    for name in set(got) & set(want):
        change = norm([a - b for a, b in zip(want[name], begin.get(name) or [0.0] * len(want[name]))])
        off = norm([a - b for a, b in zip(got[name], want[name])])
        check(off <= OF_CHANGE * change and (change > 0 or not all_change),
              "%s: `%s` is off by %g, and steps change it by %g" % (what, name, off, change))


class Bench:
    """Counts what holds, where a test runs both programs many times."""

    limit = 100  # seconds for a run

    def __init__(self, dtc, dtrun):
        self.dtc, self.dtrun = dtc, dtrun
        self.passed = self.failed = 0

    def check(self, name, good, shown=""):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print("FAIL", name, shown)

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.limit, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr
