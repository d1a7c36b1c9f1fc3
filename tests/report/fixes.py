#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The text that E0701 says to write:  fixes.py DTC

Programs that do not fit, whose blocks have lines already that say something else: each is compiled again with what the
help inserts where it says so, and must then need the bytes that the help promises. `--check` says the same, before and
after."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = """dim batch = 16777216, embed = 4, ffn = 8, layers = 4
layer mlp(x[batch, embed]) -> [batch, embed] {
  param up[embed, ffn], down[ffn, embed] = normal(0.02)
  return max(x @embed up, 0) @ffn down
}
model tiny(x[batch, embed]) -> [batch, embed] {
  repeat h in layers { x = x + mlp(x) }
  return x
}
train {
  f32 x[batch, embed] = synthetic(-1.0, 1.0)
  loss = sum[batch, embed](tiny(x) ** 2)
  optimizer = adamw(lr = constant(1e-3))
  steps = 10
}
"""
WIDE = MODEL.replace("embed = 4, ffn = 8", "embed = 4096, ffn = 4096").replace("batch = 16777216", "batch = 256")
LONG = WIDE.replace("batch = 256", "batch = 65536")

# name, model, capacity of a device, devices, block, number of places that the help changes
CASES = [
    ("new", MODEL, "2GiB", 2, "mesh data = 2\n  shard batch on data", 1),
    ("behind", MODEL, "1200MiB", 2, "mesh data = 2\n  shard batch on data\n  micro batch = 2", 1),
    ("in_front", MODEL, "1200MiB", 2, "micro batch = 2; mesh data = 2; shard batch on data", 1),
    ("one_line", MODEL, "800MiB", 2, "micro batch = 2; mesh data = 2; remat h (keep = (mlp)); shard batch on data", 1),
    ("stages", MODEL, "1GiB", 2, "mesh pipe = 2; pipeline h on pipe; micro batch = 4", 1),
    ("level", WIDE, "1500MiB", 4, "zero 1 on data\n  mesh data = 4\n  shard batch on data", 1),
    ("both", LONG, "1760MiB", 4, "zero 1 on data\n  mesh data = 4\n  micro batch = 2\n  shard batch on data", 2),
    ("new_too", LONG, "1760MiB", 4, "mesh data = 4\n  shard batch on data\n  micro batch = 2", 2),
    ("one_line_both", LONG, "1760MiB", 4, "zero 1 on data; mesh data = 4; micro batch = 2; shard batch on data", 1),
]


def run(dtc, path, *more):
    return subprocess.run([dtc, path, "--report=json", *more], capture_output=True, text=True)


def check(dtc, path):
    return subprocess.run([dtc, path, "--check", "--json"], capture_output=True, text=True)


def fit_of(printed):
    """The diagnostic E0701 in the output of dtc --json."""
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return next((d for d in found if d["code"] == "E0701"), None)


def apply(text, fixes):
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for fix in sorted(fixes, key=lambda f: (f["line"], f["column"]), reverse=True):
        lo = starts[fix["line"] - 1] + fix["column"] - 1
        hi = starts[fix["end_line"] - 1] + fix["end_column"] - 1
        text = text[:lo] + fix["insert"] + text[hi:]
    return text


def look(dtc, path, case):
    name, model, capacity, devices, block, places = case
    text = (
        f'{model}device "tiny" {{ like = "a100-80g"; capacity = {capacity} }}\n'
        f'cluster few {{ gpus = {devices}; gpu = "tiny" }}\nparallel it on few {{\n  {block}\n}}\n'
    )
    path.write_text(text)
    done = run(dtc, path, "--json")
    fit = fit_of(done.stderr)
    if done.returncode != 4 or not fit:
        return f"exit code {done.returncode}, no E0701: {done.stderr}"
    checked = check(dtc, path)
    if checked.returncode != 4 or fit_of(checked.stderr) != fit:
        return f"--check ends with {checked.returncode}: {checked.stderr}"
    fixes = [h for h in fit["help"] if "insert" in h]
    if len(fixes) != places:
        return f"{len(fixes)} fixes instead of {places}: {fit['help']}"
    path.write_text(apply(text, fixes))
    again = run(dtc, path, "--json")
    if again.returncode:
        return f"what is to be written is refused: {again.stderr}\n{path.read_text()}"
    if check(dtc, path).returncode:
        return f"--check refuses what fits: {check(dtc, path).stderr}"
    promised = re.search(r"this fits: ([\d.]+) (\w+)", fixes[0]["text"])
    need = json.loads(again.stdout)["memory"]["stages"][json.loads(again.stdout)["memory"]["worst"]]["reserved"]
    said = float(promised[1]) * {"MiB": 2**20, "GiB": 2**30}[promised[2]]
    return None if abs(need - said) < 0.01 * said else f"{promised[0]}, and it needs {need} bytes"


def main():
    dtc = sys.argv[1]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            wrong = look(dtc, Path(folder) / f"{case[0]}.dsl", case)
            failed += wrong is not None
            if wrong:
                print(f"{case[0]}: {wrong}")
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
