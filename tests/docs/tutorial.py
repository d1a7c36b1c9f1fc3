#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lines of docs/tutorial.md:  tutorial.py DTC

Runs the commands of its ```console blocks ("$ ", and "> " for the rest of a command) in one shell, in an empty folder that has the
sources' docs/ and examples/ and the build at build/release. Every command must succeed and print the lines below it: numbers may
differ, and ".." stands for any text, alone on a line for any lines. Two ranks must have the losses of one, for some steps: then
training, on a page of the docs that changes, makes the rounding of another order of sums larger with each step."""

import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.dirname(os.path.abspath(__file__)) + "/../..")
MARK = "@@@ command"
FEW = 5  # steps of which losses are compared, and that of the evaluation after them
AGAIN = "".join(f"dtrun {plan} -q --import ./tiny --set lr.base=3e-3 --steps {FEW} --log {plan}.jsonl\n" for plan in ("my.plan", "two.plan"))


def commands(page):
    """(command, lines that it prints) of each command of the page."""
    out, inside = [], False
    for line in page.split("\n"):
        if line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            out.append((line[2:], []))
        elif inside and line.startswith("> "):
            out[-1] = (out[-1][0] + "\n" + line[2:], out[-1][1])
        elif inside:
            out[-1][1].append(line)
    return out


def masked(line):
    """The line without what may differ: numbers with their units, and blanks."""
    line = re.sub(r"\d[\d,.]*(e[+-]?\d+)?( ?([kMBT]|[KMGT]i?B|[mu]?s|min|h|hours|days)\b)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def fits(line, wanted):
    return re.fullmatch(".*".join(re.escape(part) for part in masked(wanted).split("..")), masked(line)) is not None


def missing(printed, wanted):
    """The first wanted line that is not printed in its place; None: all are."""
    at, skips = 0, False
    for line in wanted:
        if line == "..":
            skips = True
            continue
        while skips and at < len(printed) and not fits(printed[at], line):
            at += 1
        if at == len(printed) or not fits(printed[at], line):
            return line
        at, skips = at + 1, False
    return None if skips or at == len(printed) else "the end, and there is more"


def run(work, dtc, steps):
    os.symlink(f"{ROOT}/docs", f"{work}/docs")
    os.symlink(f"{ROOT}/examples", f"{work}/examples")
    os.mkdir(f"{work}/build")
    os.symlink(os.path.dirname(dtc), f"{work}/build/release")
    script = "exec 2>&1\n" + "".join(f"{command}\necho '{MARK}' $?\n" for command, _ in steps) + AGAIN
    with open(f"{work}/out.txt", "w") as out:
        subprocess.run(["sh"], input=script, stdout=out, text=True, cwd=work, timeout=200)
    with open(f"{work}/out.txt", errors="replace") as out:
        parts = re.split(rf"^{MARK} (\d+)\n", out.read(), flags=re.M)
    logs = []
    for plan in ("my.plan", "two.plan"):
        with open(f"{work}/out/tutorial/{plan}.jsonl") as log:
            logs.append(log.read())
    return parts, logs


def main():
    dtc = os.path.abspath(sys.argv[1])
    with open(f"{ROOT}/docs/tutorial.md") as file:
        page = file.read()
    steps, failed = commands(page), 0
    with tempfile.TemporaryDirectory() as work:
        parts, logs = run(work, dtc, steps)
    for i, (command, wanted) in enumerate(steps):
        text = parts[2 * i] if 2 * i < len(parts) else ""
        code = parts[2 * i + 1] if 2 * i + 1 < len(parts) else "no end"
        line = missing(text.rstrip("\n").split("\n") if text else [], wanted)
        if code != "0" or line is not None:
            failed += 1
            print(f"FAIL {command}\nexit code {code}; lacks: {line}\n{text[-3000:]}")
    losses = re.findall(r"^loss +(\S+) at the first step, (\S+) over the last 20; evaluation: loss (\S+)$", "".join(parts), re.M)
    logged = [[json.loads(line)["loss"] for line in text.splitlines() if '"loss"' in line] for text in logs]
    near = all(len(log) == FEW + 1 for log in logged) and all(abs(a - b) < 2**-18 * a for a, b in zip(*logged))
    if not near or len(losses) != 2 or any(float(last) > float(first) - 1 for first, _, last in losses):
        failed += 1
        print("FAIL losses of one rank and of two:", losses, logged)
    print(f"{len(steps)} commands, {failed} failed")
    return 1 if failed or len(steps) < 15 else 0


sys.exit(main())
