#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every schedule on 2 to 64 stages, with micro-batches around the numbers where its order changes form: `dtc` proves
each plan, so slots that are too few, swapped actions and queues that wait for ever are refusals.

  schedules.py DTC [STAGES...]
"""
import os
import subprocess
import sys
import tempfile

SCHEDULES = [("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2), ("interleaved_1f1b", 3), ("zb_h1", 1), ("zb_v", 2),
             ("dualpipe_v", 2)]
STAGES = [2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 64]
DIMS = {"embed": 64, "heads": 8, "head": 8, "ffn": 64, "vocab": 64, "seq": 16}


def micro_batches(stages):
    """Numbers of micro-batches: fewer than stages, about as many as stages, about twice as many, and
    more."""
    near = {2, stages // 2 + 1, stages - 1, stages, stages + 1, 2 * stages - 2, 2 * stages - 1, 2 * stages, 3 * stages,
            3 * stages + 1, 4 * stages + 3}
    return sorted(m for m in near if m >= 2)


def compile_plan(dtc, plan, stages, schedule, chunks, micro):
    dims = dict(DIMS, layers=stages * chunks, batch=6 * micro)
    settings = {"mesh.pipe": stages, "pipeline.schedule": schedule, "pipeline.chunks": chunks, "micro.batch": micro}
    command = [dtc, "examples/gpt_1t.dsl", "--no-kernels", "-o", plan, "--set", f"cluster.nodes={6 * stages}"]
    for name, extent in dims.items():
        command += ["-D", f"{name}={extent}"]
    for key, value in settings.items():
        command += ["--set", f"parallel.{key}={value}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def main(dtc, stages):
    runs = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for p in stages:
            for schedule, chunks in SCHEDULES:
                for micro in micro_batches(p):
                    made = compile_plan(dtc, os.path.join(folder, "plan"), p, schedule, chunks, micro)
                    runs += 1
                    if made.returncode:
                        failed += 1
                        said = [line for line in made.stderr.splitlines() if "error" in line]
                        print(f"FAIL {schedule} chunks={chunks} stages={p} micro={micro}: {said[0] if said else ''}")
    print(f"schedules: {runs - failed} of {runs} proved")
    return failed > 0 or runs == 0


sys.exit(main(os.path.abspath(sys.argv[1]), [int(word) for word in sys.argv[2:]] or STAGES))
