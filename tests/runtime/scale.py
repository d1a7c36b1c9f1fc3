#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which steps a dynamic loss scale skips (docs/precision.md): the same under layouts that take the same sums, on real
ranks; not the same where ranks take parts of a sum of 16 bits, which are smaller than the whole.

  scale.py DTC DTRUN
"""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = "tests/runtime/scale.dsl"


def scales(dtc, dtrun, folder, layout):
    """The scale of each step."""
    plan, log = (os.path.join(folder, layout + suffix) for suffix in (".plan", ".jsonl"))
    subprocess.run([dtc, PROGRAM, "--parallel", layout, "-o", plan], check=True, capture_output=True, timeout=300)
    subprocess.run([dtrun, plan, "--log", log], check=True, capture_output=True, timeout=300)
    with open(log) as file:
        return [event["loss_scale"] for event in map(json.loads, file) if "loss" in event]


def main(dtc, dtrun):
    with tempfile.TemporaryDirectory() as folder:
        of = {layout: scales(dtc, dtrun, folder, layout) for layout in ("alone", "again", "staged", "data", "shared")}
    checks = [("skips steps", of["alone"][-1] < 65536), ("trains in the end", of["alone"][-1] == of["alone"][-3]),
              ("remat skips the same", of["again"] == of["alone"]),
              ("a pipeline skips the same", of["staged"] == of["alone"]),
              ("ZeRO skips what its ranks skip without it", of["shared"] == of["data"]),
              ("half of the samples overflow later", of["data"][-1] > of["alone"][-1])]
    for what, good in checks:
        if not good:
            print(f"FAIL {what}: {of}")
    print(f"{sum(good for _, good in checks)} passed, {sum(not good for _, good in checks)} failed, 0 skipped")
    return not all(good for _, good in checks)


sys.exit(main(*(os.path.abspath(path) for path in sys.argv[1:3])))
