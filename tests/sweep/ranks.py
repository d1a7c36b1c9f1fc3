#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts of the sweep on real rank processes: 20 steps, compared with the serial run of the same precision step by step.

  ranks.py DTC DTRUN            the layouts marked * in ranks.txt
  ranks.py DTC DTRUN --all      all of them
  ranks.py DTC DTRUN 17 23      these (numbers of layouts.txt), with what went wrong
  ranks.py DTC DTRUN --bless    writes what becomes of each
  ranks.py --plan               chooses the layouts anew from layouts.txt and writes ranks.txt

Tolerances, relative: 1e-4 for the loss of every step, and for the norm of the gradient in the first three. Both sides compute in float32 (eps = 6e-8) and
add in other orders. A sum of n terms differs by about eps sqrt(n), here some 1e-7 of the gradients' norm of about 1.
adamw divides by sqrt(v) + eps; with its usual eps of 1e-8 it would turn the rounding errors of gradients that are almost
0 into steps of full size, and two right runs part after ten steps. With eps = 1e-3 an error of 1e-7 becomes at most
1e-4 of a step, 0.01 * 1e-4 in a parameter. Training is chaotic, so this grows (measured: the norm's error doubles with
every step), and 20 steps leave up to 3e-5 of the loss; by then the norm says nothing. A missing or doubled contribution
changes the norm by 1e-2 and more in the first step.

In 16 bits with unit roundoff u (bf16: 2^-9, f16: 2^-12) both sides round every value, and a sum over ranks is rounded
where the serial one is not. Single gradients are then up to 32 u off (tests/oracle); the norm of all of them, which
averages, is allowed 16 u in the first step, where both sides have the same parameters (measured: up to 10 u). The loss
is a mean of logarithms near ln(vocabulary), most of which no rounding touches, but training goes apart: 8 u over 20
steps (measured: up to 5 u). Both sides are about as far from float32's numbers, so 4 times what the serial run is off
from those is allowed besides (t5, whose scores are not scaled: 20 u). Where a kink (relu) lies within rounding of a value
two right runs may take different sides, which in so small a model is 100 u of the norm (measured; with gelu in its place
it was 1 u). That does not come again with other random numbers: only what differs with two of three seeds is wrong.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import plan
import sweep

FILE = os.path.join(sweep.HERE, "ranks.txt")
OPTIMIZER = "adamw(lr = 0.01, eps = 1e-3, decay = 0.1, decay_if = rank > 1, clip = 1.0)"
STEPS, COUNT, ORDINARY = 20, 72, 6
HALVES, ORDINARY_HALVES = 16, 2  # number of rows in 16 bits; 0: the program's precision
SEEDS = (0, 1, 2)  # 0: the program's
ROUNDOFF = {"bf16": 2**-9, "master": 2**-9, "f16": 2**-12}


def read():
    chosen = []
    with open(FILE) as file:
        for line in file:
            if not line.startswith("#"):
                number, mark, rest = line.split(None, 2)
                what, verdict = rest.split(":")[:2]
                chosen.append((int(number), mark == "*", plan.parse(what), verdict.strip()))
    return chosen


def write(rows):
    with open(FILE, "w") as file:
        file.write("# numbers are those of layouts.txt: %s : verdict\n" % ", ".join(plan.FACTORS))
        for number, ordinary, row, verdict in rows:
            file.write("%03d %s %s : %s\n" % (number, "*" if ordinary else "-", plan.name(row), verdict))


def choose():
    """Chooses rows in float32, then in 16 bits: those that are already listed stay, then those that
    cover most pairs early."""
    known, written = read() if os.path.exists(FILE) else [], []
    here = {plan.name(row) for _, _, row, _ in known}
    for is_half, count, ordinary_count in (False, COUNT, ORDINARY), (True, HALVES, ORDINARY_HALVES):
        kept = [entry for entry in known if (entry[2]["precision"] != "f32") == is_half]
        rows = [(number, row) for number, _, row, _ in sweep.read()
                if (row["precision"] != "f32") == is_half and (row["kind"] != "none" or row["schedule"] != "-")
                and plan.name(row) not in here]
        added = [rows[i] for i in sorted(plan.choose([row for _, row in rows], max(0, count - len(kept))))]
        ordinary = plan.choose([row for _, row in added], 0 if kept else ordinary_count)
        written += kept + [(number, k in ordinary, row, "-") for k, (number, row) in enumerate(added)]
    write(written)


class Failed(Exception):
    """Returns verdict and output"""


def execute(command, verdict):
    try:
        done = subprocess.run(command, capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        raise Failed("timeout", " ".join(command)) from None
    said = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode != 0:
        code = re.search(r"error\[(E\d+)\]", said)
        raise Failed(code.group(1) if code and done.returncode == 3 else "%s %d" % (verdict, done.returncode), said)


def train(dtc, dtrun, folder, row, options):
    """Returns (loss, norm) of each step."""
    source, out, log = (os.path.join(folder, name) for name in ("layout.dsl", "plan", "log.jsonl"))
    with open(source, "w") as file:
        file.write(plan.layout(row, sweep.ROOT))
    execute([dtc, source, "-o", out, "--data=synthetic", "--set", "train.optimizer=" + OPTIMIZER] + options, "dtc")
    execute([dtrun, out, "--steps", str(STEPS), "--overwrite", "--log", log, "--quiet", "--timeout", "60"], "dtrun")
    with open(log) as file:
        events = [json.loads(line) for line in file]
    return [(event["loss"], event["grad_norm"]) for event in events if event["event"] == "step"]


def tolerances(precision):
    """The tolerances of the loss and of the gradient's norm, and for how many steps the norm is
    compared."""
    return (8 * ROUNDOFF[precision], 16 * ROUNDOFF[precision], 1) if precision in ROUNDOFF else (1e-4, 1e-4, 3)


def compare(got, want, near, precision):
    """The verdict: equal, or the first step that differs. near: the serial run in float32."""
    of_loss, of_norm, norm_steps = tolerances(precision)
    if len(got) != len(want):
        return "%d steps" % len(got)
    for step, ((loss, norm), (loss1, norm1), (loss2, norm2)) in enumerate(zip(got, want, near)):
        if not abs(loss - loss1) <= of_loss * abs(loss1) + 4 * abs(loss1 - loss2):
            return "different: step %d: loss %.9g, serially %.9g" % (step + 1, loss, loss1)
        if step < norm_steps and not abs(norm - norm1) <= of_norm * abs(norm1) + 4 * abs(norm1 - norm2):
            return "different: step %d: gradient norm %.9g, serially %.9g" % (step + 1, norm, norm1)
    return "equal"


def judge(dtc, dtrun, folder, row, options, serial):
    """The verdict. serial: results of serial runs by program, precision and seed; new ones are
    added."""
    precision, wrong = row["precision"], []
    wide = plan.options(dict(row, precision="f32"))
    for seed in SEEDS if precision in ROUNDOFF else SEEDS[:1]:
        other = ["--set", "train.seed=%d" % seed] if seed else []
        for of, its in (("f32", wide), (precision, options)):
            if (row["program"], of, seed) not in serial:
                alone = dict(row, kind="none", schedule="-", micro="1", zero="0", remat="-", precision=of)
                serial[row["program"], of, seed] = train(dtc, dtrun, folder, alone, its + other)
        want, near = (serial[row["program"], of, seed] for of in (precision, "f32"))
        found = compare(train(dtc, dtrun, folder, row, options + other), want, near, precision)
        wrong += [found] if found != "equal" else []
        if len(wrong) != 1:  # equal with the first seed, or different with two seeds
            break
    return wrong[0] if wrong and (len(wrong) > 1 or precision not in ROUNDOFF) else "equal"


def run(dtc, dtrun, rows, detailed):
    good, found, serial = True, [], {}
    with tempfile.TemporaryDirectory() as folder:
        for number, ordinary, row, before in rows:
            options, said = plan.options(row), ""
            try:
                verdict = judge(dtc, dtrun, folder, row, options, serial)
            except Failed as failure:
                verdict, said = failure.args
            bad = not re.match(r"equal|E\d+$", verdict) or (verdict != "equal" and before not in (verdict, "-"))
            good = good and not bad
            if bad or detailed:
                print("---- %03d %s : %s (was %s)" % (number, plan.name(row), verdict, before))
                print(plan.layout(row, sweep.ROOT) + "\n".join(said.splitlines()[-12:]))
            elif verdict != before and before != "-":
                print("now equal: %03d %s (was %s)" % (number, plan.name(row), before))
            found.append((number, ordinary, row, verdict))
            sys.stdout.flush()
    verdicts = [verdict.split(":")[0] for _, _, _, verdict in found]
    print(", ".join("%d %s" % (verdicts.count(v), v) for v in sorted(set(verdicts))))
    print("%d passed, %d failed" % ((len(found), 0) if good else (0, len(found))))
    return found, good


def main(arguments):
    if "--plan" in arguments:
        choose()
        return 0
    dtc, dtrun, rows = os.path.abspath(arguments[0]), os.path.abspath(arguments[1]), read()
    numbers = [int(word) for word in arguments[2:] if word.isdigit()]
    if numbers:
        _, good = run(dtc, dtrun, [row for row in rows if row[0] in numbers], True)
    elif "--bless" in arguments:
        found, good = run(dtc, dtrun, rows, False)
        write(found)
    else:
        _, good = run(dtc, dtrun, sweep.asked_for(rows, arguments), False)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
