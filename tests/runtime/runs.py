# SPDX-License-Identifier: Apache-2.0
"""Runs of tests and what they leave: what losses.py and optimizers.py share. Sums of a layout are taken in another
order, so numbers differ by some of 2^-24; what steps make of that is measured by what they changed."""

import array
import json
import os
import struct
import subprocess
import sys

OF_VALUE, OF_CHANGE = 2.0**-18, 2.0**-12
failures = []


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
