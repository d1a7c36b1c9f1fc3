#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests of diagnostics:  errors.py [--bless] PATTERN PROGRAM [ARGUMENT...]

tests/golden/errors has the faulty programs of each code in one file, CODE.dsl. A line `# ---- NAME` begins the program
CODE_NAME.dsl; a file without such lines is one program (where its very bytes are what is wrong). What the program under test
prints to stderr for each is in the file of the same name that ends with .txt, in the same order.

A first line `# dtc ARGUMENT...` of a program gives other arguments: for what only a plan draws,
`--no-kernels --report`. The code must be among the diagnostics; for E codes the exit code must be 3 (4 for E0701), for L codes (lints) 0. PATTERN
selects files. --bless (or DT_BLESS=1) writes the .txt files instead of comparing. errors.py --split FOLDER writes the
programs there as files, for a look at one."""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "errors"
BEGIN = re.compile(rb"^# ---- (\w+)\n", re.M)
# it depends on the draws which of the differing ranks is found first
RANK = re.compile(rb"(?<=differs on rank )\d+")


def sections(path):
    """(name, bytes) of the cases that a file contains: several for its code, or the file itself."""
    parts = BEGIN.split(path.read_bytes())
    if len(parts) == 1:
        return [(path.stem, parts[0])]
    if parts[0]:
        sys.exit(f"{path}: text before the first `# ---- NAME`")
    names = [f"{path.stem}_{name.decode()}" for name in parts[1::2]]
    if len(set(names)) < len(names):
        sys.exit(f"{path}: two programs have one name")
    return list(zip(names, parts[2::2]))


def run(name, source, command, folder):
    """What the program under test prints for this source, and what is wrong with its exit code or
    diagnostics."""
    code = name.split("_")[0]
    (folder / f"{name}.dsl").write_bytes(source)
    own = re.match(rb"# dtc (.*)\n", source)
    arguments = own[1].decode().split() if own else command[1:]
    done = subprocess.run(
        [command[0], *arguments, f"{name}.dsl"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    wanted = 0 if code[0] == "L" else 4 if code == "E0701" else 3
    if done.returncode != wanted:
        return done.stderr, f"exit code {done.returncode} instead of {wanted}"
    if f"[{code}]".encode() not in done.stderr:
        return done.stderr, f"no {code} among the diagnostics"
    return done.stderr, None


def copy_parts(folder):
    for part in ("mini", "parts"):  # files that programs include
        shutil.copytree(FOLDER / part, Path(folder) / part)


def show_difference(wanted, printed):
    lines = [text.decode(errors="backslashreplace").splitlines() for text in (wanted, printed)]
    print("\n".join(difflib.unified_diff(*lines, "wanted", "printed", lineterm="", n=1)))


def check_file(path, command, folder, bless):
    """For each program of the file, whether it passed."""
    golden = path.with_suffix(".txt")
    texts = dict(sections(golden)) if golden.exists() else {}
    results, text = [], b""
    for name, source in sections(path):
        printed, problem = run(name, source, command, folder)
        printed = RANK.sub(b"0", printed)
        if not problem and not bless and texts.get(name) != printed:
            problem = "the text differs"
            show_difference(texts.get(name, b""), printed)
        if problem:
            print(f"FAIL {name}: {problem}")
            printed = texts.get(name, printed)
        text += printed if name == path.stem else b"# ---- " + name.split("_", 1)[1].encode() + b"\n" + printed
        results.append(problem is None)
    for name in texts.keys() - {name for name, _ in sections(path)}:
        if not bless:
            print(f"FAIL {name}: a text without a program")
            results.append(False)
    if bless:
        golden.write_bytes(text)
    return results


def main(arguments):
    bless = bool(os.environ.get("DT_BLESS"))
    if arguments[:1] == ["--bless"]:
        bless = True
        del arguments[0]
    if len(arguments) == 2 and arguments[0] == "--split":
        for path in FOLDER.glob("*.dsl"):
            for name, source in sections(path):
                (Path(arguments[1]) / f"{name}.dsl").write_bytes(source)
        return 0
    if len(arguments) < 2:
        sys.exit("usage: errors.py [--bless] PATTERN PROGRAM [ARGUMENT...]")
    pattern, program, *rest = arguments
    program = str(Path(program).resolve()) if "/" in program else program
    results = []
    with tempfile.TemporaryDirectory() as folder:
        copy_parts(folder)
        for path in sorted(FOLDER.glob(f"{pattern}.dsl")):
            results += check_file(path, [program, *rest], Path(folder), bless)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
