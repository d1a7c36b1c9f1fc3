#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which steps a dynamic loss scale skips (docs/precision.md): the same under layouts that take the same sums, on real
ranks; not the same where ranks take parts of a sum of 16 bits, which are smaller than the whole. What a skipped step leaves
as it was: parameters and moments, and AdamW's count of steps, so that its first step is one of the learning rate.

  scale.py DTC DTRUN
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../odd"))
import ranks  # noqa: E402

PROGRAM = "tests/runtime/scale.dsl"


def scales(dtc, dtrun, folder, layout):
    """The loss scale of each step."""
    plan, log = (os.path.join(folder, layout + suffix) for suffix in (".plan", ".jsonl"))
    subprocess.run([dtc, PROGRAM, "--parallel", layout, "-o", plan], check=True, capture_output=True, timeout=300)
    subprocess.run([dtrun, plan, "--log", log], check=True, capture_output=True, timeout=300)
    with open(log) as file:
        return [event["loss_scale"] for event in map(json.loads, file) if "loss" in event]


def largest_steps(dtc, dtrun, folder):
    """For each step but the first: whether it was skipped, and the largest change of any parameter, in
    units of the learning rate."""
    rate, base = 1e-3, os.path.join(folder, "adam")
    with open(PROGRAM) as source, open(base + ".dsl", "w") as file:
        file.write(source.read().replace("sgd(lr = 1e-4)", "adamw(lr = %g, eps = 1e-12, decay = 0)" % rate))
    subprocess.run([dtc, base + ".dsl", "--parallel", "alone", "-o", base + ".plan"], check=True, capture_output=True, timeout=300)
    subprocess.run([dtrun, base + ".plan", "--log", base + ".jsonl", "--save", base, "--set", "save.every=1", "--set", "save.keep=0"],
                   check=True, capture_output=True, timeout=300)
    with open(base + ".jsonl") as file:
        skipped = [event.get("skipped", 0) for event in map(json.loads, file) if "loss" in event]
    saved = [ranks.read_tensors(os.path.join(base, name, "model.safetensors")) for name in sorted(os.listdir(base))
             if name.startswith("step-")]
    moved = [max(ranks.difference(after[name], before[name]) for name in after) / rate for before, after in zip(saved, saved[1:])]
    return [after > before for before, after in zip(skipped, skipped[1:])], moved


def main(dtc, dtrun):
    with tempfile.TemporaryDirectory() as folder:
        of = {layout: scales(dtc, dtrun, folder, layout) for layout in ("alone", "again", "staged", "data", "shared")}
        skipped, moved = largest_steps(dtc, dtrun, folder)
    checks = [("skips steps", of["alone"][-1] < 65536), ("trains in the end", of["alone"][-1] == of["alone"][-3]),
              ("remat skips the same", of["again"] == of["alone"]),
              ("a pipeline skips the same", of["staged"] == of["alone"]),
              ("ZeRO skips what its ranks skip without it", of["shared"] == of["data"]),
              ("half of the samples overflow later", of["data"][-1] > of["alone"][-1]),
              ("AdamW skips steps", skipped[0]), ("a skipped step changes nothing", skipped == [far == 0 for far in moved]),
              ("AdamW's first step is one of the learning rate", abs(next(filter(None, moved), 0) - 1) < 1e-3)]
    for what, good in checks:
        if not good:
            print(f"FAIL {what}: {of}, {skipped} {moved}")
    print(f"{sum(good for _, good in checks)} passed, {sum(not good for _, good in checks)} failed, 0 skipped")
    return not all(good for _, good in checks)


sys.exit(main(*(os.path.abspath(path) for path in sys.argv[1:3])))
