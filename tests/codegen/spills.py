#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No kernel of an example spills registers on any GPU, and dtc gives no diagnostics about kernels:
spills.py DTC [FILE..]

Each example is compiled by NVRTC for all three machines, as its file lays it out (each way, if it
has several) and for one device."""

import pathlib
import re
import subprocess
import sys

TARGETS = "sm_80,sm_90a,sm_100a"
# Diagnostics that are expected: the queues of experts are counted by few threads (docs/kernels.md,
# section 6).
EXPECTED = {"moe": {"L0589"}}


def layouts(text):
    """Options of dtc for a file; a file without `train` is only included by others."""
    named = re.findall(r"^parallel (\w+)", text, re.M)
    found = [["--parallel", name] for name in named] if len(named) > 1 else [[]]
    return found + [["--parallel", "none"]] if re.search(r"^train", text, re.M) and named else found


def compile_one(dtc, path, options):
    """What is wrong, and the diagnostics; None: the program needs more memory than the machine
    has."""
    said = subprocess.run([dtc, path, *options, "--data=synthetic", f"--target={TARGETS}", "--emit=cuda"],
                          capture_output=True, text=True)
    if "error[E0701]" in said.stderr or "a plan holds at most" in said.stderr:
        return None, "does not fit one device"
    if said.returncode:
        return [said.stderr[:300]], ""
    kernels = re.findall(r"^ \* (\w+): (\d+) registers, (\d+) bytes spilled$", said.stdout, re.M)
    wrong = [f"{name} spills {spilled} bytes" for name, _, spilled in kernels if int(spilled)]
    expected = EXPECTED.get(path.stem, set())
    wrong += sorted({code for code in re.findall(r"^\w+\[(\w+)\]", said.stderr, re.M) if code not in expected})
    wrong += [] if len(re.findall(r"^/\* NVRTC .* for sm_", said.stdout, re.M)) >= 3 else ["no code"]
    return wrong, f"{len(kernels)} kernels, at most {max(int(registers) for _, registers, _ in kernels)} registers"


def main():
    dtc, *files = sys.argv[1:]
    passed = failed = skipped = 0
    for path in [pathlib.Path(file) for file in files] or sorted(pathlib.Path("examples").glob("*.dsl")):
        text = path.read_text()
        if not re.search(r"^(train|sample|generate)\b", text, re.M):
            continue
        for options in layouts(text):
            wrong, what = compile_one(dtc, path, options)
            if wrong and "there is no libnvrtc" in wrong[0]:
                print("there is no NVRTC\n0 passed, 0 failed, 1 skipped")
                sys.exit(77)
            passed, failed, skipped = passed + (wrong == []), failed + bool(wrong), skipped + (wrong is None)
            print("FAIL" if wrong else "ok  ", path.stem, *options, "; ".join(wrong or [what]), flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


main()
