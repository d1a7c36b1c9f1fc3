#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dtrun starts no rank of a plan that is not proved: unproved.py DTC DTRUN

The text of a plan is edited line by line: an instruction takes the address, the kernel or the place
of another one, a record of training gets another number. The edited plan is whole (`dtc asm` writes
digest and checksums), and whatever `dtc verify` refuses, dtrun refuses, too, before it writes
anything. With --unproved it runs, and some of the edits compute other numbers to the end."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REFUSED = "no rank is started, since edited.plan is not proved to compute what its program says"
LEAST = 30  # edits which are refused; a plan with one of them runs nevertheless
RUNS = 6  # of them run all the same


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout + done.stderr


def swapped(lines, i, j):
    made = list(lines)
    made[i], made[j] = made[j], made[i]
    return made


def edits(lines):
    """Texts of plans that differ from the original in one or two lines."""
    kernels = [i for i, line in enumerate(lines) if line.startswith("INST kind=kernel")]
    for i, j in zip(kernels, kernels[1:]):
        yield swapped(lines, i, j)
    addresses = [i for i, line in enumerate(lines) if line.startswith("ARGS") and "base=" in line]
    for i, j in list(zip(addresses, addresses[2:]))[:40]:
        base = re.search(r" base=\d+", lines[j]).group()
        yield lines[:i] + [re.sub(r" base=\d+", base, lines[i])] + lines[i + 1:]
    for i, line in enumerate(lines):
        if line.startswith("SETT") and "value=" in line:
            yield lines[:i] + [re.sub(r" value=\S+", " value=0.25", line)] + lines[i + 1:]
        if line.startswith("META"):
            yield lines[:i] + [re.sub(r" seed=\d+", " seed=4", line)] + lines[i + 1:]


def trained(dtrun, plan, *options):
    """Returns the exit code, the output, and the losses in the log; None: there is no log."""
    if os.path.exists("log.jsonl"):
        os.remove("log.jsonl")
    code, said = run(dtrun, plan, "--quiet", "--steps", "2", "--timeout", "20", "--log", "log.jsonl", *options)
    if not os.path.exists("log.jsonl"):
        return code, said, None
    with open("log.jsonl") as file:
        events = [json.loads(line) for line in file]
    return code, said, [event["loss"] for event in events if event["event"] == "step"]


def check(dtc, dtrun, layout):
    plan = layout + ".plan"
    code, said = run(dtc, "small.dsl", "--parallel", layout, "-o", plan)
    assert code == 0, said
    code, said, wanted = trained(dtrun, plan)
    assert code == 0 and len(wanted) == 2, said
    lines = run(dtc, "dump", plan)[1].splitlines()
    refused, others, wrong = 0, 0, []
    for text in edits(lines):
        with open("edited.txt", "w") as file:
            file.write("\n".join(text) + "\n")
        if run(dtc, "asm", "edited.txt", "-o", "edited.plan")[0] or run(dtc, "verify", "edited.plan")[0] == 0:
            continue
        refused += 1
        code, said, losses = trained(dtrun, "edited.plan")
        if code != 1 or REFUSED not in said or losses is not None:
            wrong.append("a plan that `dtc verify` refuses: dtrun ends with %d: %s" % (code, said[:300]))
        if others < RUNS:
            code, said, losses = trained(dtrun, "edited.plan", "--unproved")
            others += code == 0 and losses != wanted
    if refused < LEAST or others == 0:
        wrong.append("of `%s` %d edits are refused and %d compute something else" % (layout, refused, others))
    print("%s: %d edits refused, of those run %d compute other losses" % (layout, refused, others))
    return wrong


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(HERE, "small.dsl"), folder)
        os.chdir(folder)
        with open("numbers.txt", "w") as file:
            file.write(" ".join(map(str, range(2000))))
        wrong = check(dtc, dtrun, "none") + check(dtc, dtrun, "d2")
    for what in wrong:
        print("FAIL", what)
    print("2 passed, 0 failed" if not wrong else "%d failed" % len(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
