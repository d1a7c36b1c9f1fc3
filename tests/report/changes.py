#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a report says would help, beside the layout that has it:  changes.py DTC

A change that is said to be a bound must not promise less than the layout with it brings; one that is simulated must come
close to it. Lines of a layout are changed by --add, and both are reported."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = f"""include "{Path(__file__).resolve().parents[2]}/examples/llama3_8b.dsl"
cluster two {{ nodes = 2; gpus = 8; gpu = "h100-sxm" }}
parallel zero on two {{ mesh data = 16; shard batch on data; micro batch = 16; zero 3 on data }}
parallel ring on two {{ mesh data = 4, context = 4; shard batch on data; shard seq on context; micro batch = 16; zero 3 on data }}
parallel piped on two {{ mesh pipe = 4, tensor = 4; shard vocab, ffn, kv on tensor; pipeline h on pipe; micro batch = 16 }}
parallel early on two {{ mesh pipe = 4, tensor = 4; shard vocab, ffn, kv on tensor; pipeline h on pipe (schedule = "zb_h1"); micro batch = 16 }}
parallel uneven on two {{ mesh pipe = 4, tensor = 4; shard vocab, ffn, kv on tensor; pipeline h on pipe (cuts = (4, 8, 12)); micro batch = 16 }}
"""

REMAT = "backward computed no products"
MICRO = "twice the micro-batches"
LEVEL = "all stages had as much to do"

# block, a line that is added before the report, words of the change in the report, the block and
# the line that make the change
CASES = [
    ("zero", "remat h", REMAT, "zero", None),
    ("ring", "remat h", REMAT, "ring", None),
    ("piped", "remat h", REMAT, "piped", None),
    ("early", "remat h", REMAT, "early", None),
    ("piped", None, MICRO, "piped", "micro batch = 32"),
    ("early", None, MICRO, "early", "micro batch = 32"),
    ("uneven", None, LEVEL, "piped", None),
]


def report(dtc, path, block, line):
    add = ["--add", line] if line else []
    done = subprocess.run(
        [dtc, path, "--parallel", block, "--report=json", *add], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout)["time"]


def look(dtc, path, case):
    block, line, words, other, brings = case
    before, after = report(dtc, path, block, line), report(dtc, path, other, brings)["step"]
    change = next((c for c in before["changes"] if words in c["change"]), None)
    if not change:
        return f"not among {[c['change'] for c in before['changes']]}"
    if change["bound"] and change["step"] > after * (1 + 1e-9):
        return f"at least {change['step']:.3f} s are said, and it takes {after:.3f} s"
    if words == REMAT and (change["bound"] or not 0.98 * after <= change["step"] <= 1.08 * after):
        return f"{change['step']:.3f} s are said, and it takes {after:.3f} s"
    if words == LEVEL and "stage 3 waits" in change["change"]:
        return f"the last stage has most to do: {change['change']}"
    return None


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layouts.dsl"
        path.write_text(PROGRAM)
        for case in CASES:
            wrong = look(sys.argv[1], path, case)
            failed += wrong is not None
            if wrong:
                print(f"{case[0]}, {case[2]}: {wrong}")
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
