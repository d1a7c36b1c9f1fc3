#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of unusual form under layouts: `dtc --verify` proves each layout and its plan, and the interpreter of all
ranks computes what the serial program does.

  programs.py DTC
"""
import os
import subprocess
import sys
import tempfile

ROOT = "tests/passes/programs"
# Loops that begin with one value twice: a parameter, an input, a gradient of zero.
CARRIED = ["", "mesh data = 2; shard batch on data; micro batch = 2"] + [
    f"mesh pipe = {stages}; pipeline h on pipe (schedule = \"{schedule}\", chunks = {chunks}); micro batch = 2"
    for stages, schedule, chunks in [(3, "interleaved_1f1b", 2), (2, "1f1b", 1), (2, "zb_h1", 1)]]


def ranks(layout):
    """The product of the sizes of its mesh."""
    product = 1
    for word in layout.split("mesh ")[1].split(";")[0].split(",") if "mesh " in layout else []:
        product *= int(word.split("=")[1])
    return product


def verify(dtc, folder, program, layout):
    """dtc's messages if it does not say that the layout is the serial program."""
    path = os.path.join(folder, "program.dsl")
    with open(os.path.join(ROOT, program + ".dsl")) as source, open(path, "w") as file:
        file.write(source.read())
        if layout:
            file.write(f"cluster c {{ gpus = {ranks(layout)}; gpu = \"cpu\" }}\nparallel p on c {{ {layout} }}\n")
    made = subprocess.run([dtc, path, "--verify", "--no-kernels"], capture_output=True, text=True, timeout=300)
    said = made.stdout + made.stderr
    good = made.returncode == 0 and said.count("proved: ") == 2 and "\nequal to the serial program" in said
    return "" if good else made.stderr or said


def main(dtc):
    cases = [("carried", layout) for layout in CARRIED]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for program, layout in cases:
            said = verify(dtc, folder, program, layout)
            failed += said != ""
            if said:
                print(f"FAIL {program}, {layout or 'serial'}: {said.strip()}")
    print(f"programs: {len(cases) - failed} of {len(cases)} proved and equal")
    return failed > 0


sys.exit(main(os.path.abspath(sys.argv[1])))
