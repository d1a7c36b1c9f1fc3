#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sweep: programs under many layouts, each compared with the serial program by `dtc --verify`, and its plan proved.

  sweep.py DTC           the layouts marked * in layouts.txt
  sweep.py DTC --all     all of them, and 100 random ones
  sweep.py DTC 17 23     these, with their texts and what dtc says
  sweep.py DTC --prove   all of them are compiled, which proves them; nothing is evaluated. Plans have no kernels, but the
                         C compiler checks the text of those of some rows
  sweep.py DTC --some    a fourth of those, also of --prove
  sweep.py DTC --bless   runs all and writes what became of each
  sweep.py DTC --random N [SEED]   N random meshes with random shard lines: none may be different or crash
  sweep.py DTC --covers [--bless]  whether the plan covers every pair, and what dtc says to those that it rejects
  sweep.py --plan        prints the covering plan (--write makes it layouts.txt)

rejected.txt has one line per pair of values that dtc rejects: the two values, and the diagnostic.
layouts.txt has one line per layout: number, * or -, the value of each factor (plan.py), and the verdict: `equal`, or the
code of the diagnostic that refuses it. A layout that is refused there and is equal now is told, and no failure.
With DT_SHARE=K/N in the environment (tests/share.py) the runs without numbers, without --all and --bless, and --prove go
through one layout of N; --some goes through a fourth all the same.
"""
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile

import plan

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FILE, REJECTED = os.path.join(HERE, "layouts.txt"), os.path.join(HERE, "rejected.txt")
# compiles everything that --emit=c leaves out
PRELUDE = os.path.join(ROOT, "codegen", "kernels", "prelude.h")
BAD = ("different", "crash", "timeout")
ORDINARY, SECONDS, JOBS = 40, 120, int(os.environ.get("DT_SWEEP_JOBS", "2"))
# --some: one row in this many; --prove: the C compiler reads the kernels of one row in this many
SOME = 4
READ = 7  # --prove: the C compiler reads the kernels of one row in so many


def read():
    rows = []
    with open(FILE) as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            number, mark, rest = line.split(None, 2)
            what, verdict = rest.split(":")
            rows.append((int(number), mark == "*", plan.parse(what), verdict.strip()))
    return rows


def write(rows):
    with open(FILE, "w") as file:
        file.write("# %s : verdict\n" % ", ".join(plan.FACTORS))
        for number, ordinary, row, verdict in rows:
            file.write("%03d %s %s : %s\n" % (number, "*" if ordinary else "-", plan.name(row), verdict))


def make_plan(dtc, folder, number, text, options):
    """Returns (exit code, output) of dtc, which writes a plan without kernels."""
    path = os.path.join(folder, "%03d.dsl" % number)
    with open(path, "w") as file:
        file.write(text)
    command = [dtc, path, "-o", path + ".plan", "--no-kernels", "--data=synthetic"] + options
    done = subprocess.run(command, capture_output=True, timeout=SECONDS)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


def refused_c(dtc, folder, number, options):
    """What the C compiler reports about the kernels of a row for which make_plan was called."""
    path = os.path.join(folder, "%03d.dsl" % number)
    text = subprocess.run([dtc, path, "--emit=c", "--data=synthetic"] + options, capture_output=True, timeout=SECONDS)
    if text.returncode != 0 or b"dt_k0" not in text.stdout:
        return text.stderr.decode(errors="replace") or "no kernels"
    command = [os.environ.get("DT_CC", "cc"), "-x", "c", "-", "-std=gnu11", "-fsyntax-only", "-include", PRELUDE,
               "-Werror=implicit-function-declaration"]
    done = subprocess.run(command, input=text.stdout, capture_output=True, timeout=SECONDS)
    return done.stderr.decode(errors="replace") if done.returncode != 0 else ""


def run(dtc, folder, number, text, options):
    """Returns (verdict, output)"""
    try:
        exit_code, said = make_plan(dtc, folder, number, text, ["--verify", "--no-kernels"] + options)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    if exit_code == 0 and "\nequal to the serial program" in said:
        return "equal", said
    code = re.search(r"error\[(E\d+)\]", said)
    if exit_code == 3 and code:
        return code.group(1), said
    return "different" if "NOT equal" in said else "crash %d" % exit_code, said


def prove(dtc, rows):
    """Compiles every row. Returns whether rows with the verdict `equal` compile, including their
    kernels, and others are refused."""
    def compile_row(row):
        try:
            return compile_or_refuse(*row)
        except subprocess.TimeoutExpired as late:
            return False, str(late)

    def compile_or_refuse(number, _, factors, verdict):
        options = plan.options(factors)
        exit_code, said = make_plan(dtc, folder, number, plan.layout(factors, ROOT), options)
        if exit_code == 0 and number % READ == 0:
            said = refused_c(dtc, folder, number, options)
            return verdict == "equal" and not said, said
        return exit_code == (0 if verdict == "equal" else 3), "exit code %d: %s" % (exit_code, said)

    bad = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for row, (good, said) in zip(rows, pool.map(compile_row, rows)):
            if not good:
                bad += 1
                print("%03d %s, expected %s: %s" % (row[0], plan.name(row[2]), row[3], said[:2000]))
    print("%d passed, %d failed" % (len(rows) - bad, bad))
    return bad == 0


def show(number, row, verdict, said):
    print("---- %03d %s : %s" % (number, plan.name(row), verdict))
    print(plan.layout(row, ROOT) + "# dtc %03d.dsl --verify --no-kernels %s" % (
        number, " ".join("'%s'" % o if " " in o else o for o in plan.options(row))))
    print("\n".join(said.splitlines()[-40:]))


def sweep(dtc, rows, detailed):
    """Returns the new verdicts, and whether all are as before."""
    good, found = True, []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = pool.map(lambda r: run(dtc, folder, r[0], plan.layout(r[2], ROOT), plan.options(r[2])), rows)
        for (number, ordinary, row, before), (verdict, said) in zip(rows, outcomes):
            found.append((number, ordinary, row, verdict))
            bad = verdict not in (before, "equal") and before != "-" or verdict.split()[0] in BAD
            if bad or detailed:
                show(number, row, verdict, said)
                print("expected: " + before)
            elif verdict != before and before != "-":
                print("now equal: %03d %s (was %s)" % (number, plan.name(row), before))
            good = good and not bad
    verdicts = [verdict for _, _, _, verdict in found]
    print(", ".join("%d %s" % (verdicts.count(v), v) for v in sorted(set(verdicts))))
    print("%d passed, %d failed" % ((len(found), 0) if good else (0, len(found))))
    return found, good


def covers(dtc, bless):
    """Whether every pair of values either occurs in a layout, or is rejected by dtc as rejected.txt
    says."""
    rows, said = read(), []
    lacking = plan.missing([row for _, _, row, _ in rows])
    for (a, x), (b, y) in lacking:
        print("no layout has %s %s and %s %s (sweep.py --plan --write adds one)" % (a, x, b, y))
    with tempfile.TemporaryDirectory() as folder:
        for i, ((a, x), (b, y), row) in enumerate(plan.rejected()):
            _, output = make_plan(dtc, folder, i, plan.layout(row, ROOT), plan.options(row))
            message = re.search(r"error\[(E\d+)\]: (.*)", output)
            said.append("%s %s, %s %s : %s\n" % (a, x, b, y, " ".join(message.groups()) if message else "accepted"))
    if bless:
        with open(REJECTED, "w") as file:
            file.writelines(said)
    with open(REJECTED) as file:
        known = file.readlines()
    # the words of messages may change
    codes = [{" ".join(line.split()[:6]) for line in lines} for lines in (said, known)]
    wrong = sorted(codes[0] ^ codes[1]) + [line.strip() for line in said if line.endswith("accepted\n")]
    for line in wrong:
        print("%s: %s" % ("now" if line in codes[0] else "known", line))
    seen = set().union(*(plan.pairs(row) for _, _, row, _ in rows))
    print("%d layouts cover %d pairs; %d pairs are rejected" % (len(rows), len(seen), len(said)))
    print("%d passed, %d failed" % (len(seen) + len(said) - len(wrong), len(lacking) + len(wrong)))
    return not lacking and not wrong


def sweep_random(dtc, count, seed):
    rng, verdicts, bad = random.Random(seed), [], 0
    layouts = [plan.loose(rng, ROOT) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = pool.map(lambda i: run(dtc, folder, i, layouts[i][0], layouts[i][1]), range(count))
        for (text, options, what), (verdict, said) in zip(layouts, outcomes):
            verdicts.append(verdict)
            if os.environ.get("DT_SWEEP_SHOW"):
                print("%s : %s %s" % (what, verdict, "" if verdict == "equal" else said.split("\n")[0][:200]))
            if verdict.split()[0] in BAD:
                bad += 1
                print("---- %s : %s\n%s# %s" % (what, verdict, text, " ".join("'%s'" % o for o in options)))
                print("\n".join(line[:300] for line in said.splitlines()[-12:]))
    print(", ".join("%d %s" % (verdicts.count(v), v) for v in sorted(set(verdicts))))
    print("%d passed, %d failed" % (count - bad, bad))
    return bad == 0


def asked_for(rows, arguments):
    """All rows, those that always run, or only some of these: sanitizers test the compiler's code, not every layout."""
    return rows if "--all" in arguments else some([row for row in rows if row[1]], arguments)


def some(rows, arguments):
    """The share of this run; with --some a fourth, whether or not there is a share."""
    return rows[::SOME] if "--some" in arguments and share.share()[1] < SOME else share.of(rows)


def main(arguments):
    if "--plan" in arguments:
        before = read() if os.path.exists(FILE) else []
        rows = plan.cover([row for _, _, row, _ in before])
        chosen = plan.choose(rows, ORDINARY)
        marks = {plan.name(row): ordinary for _, ordinary, row, _ in before}
        chosen = {i for i, row in enumerate(rows) if marks.get(plan.name(row))} or chosen
        table = [(i + 1, i in chosen, row, "-") for i, row in enumerate(rows)]
        if "--write" in arguments:
            known = {plan.name(row): verdict for _, _, row, verdict in before}
            write([(n, o, row, known.get(plan.name(row), "-")) for n, o, row, _ in table])
        else:
            for number, ordinary, row, _ in table:
                print("%03d %s %s" % (number, "*" if ordinary else "-", plan.name(row)))
        return 0
    dtc, rows = os.path.abspath(arguments[0]), read()
    if "--covers" in arguments:
        return 0 if covers(dtc, "--bless" in arguments) else 1
    if "--random" in arguments:
        numbers = [int(word) for word in arguments[1:] if word.isdigit()]
        return 0 if sweep_random(dtc, numbers[0], numbers[1] if len(numbers) > 1 else 0) else 1
    if "--prove" in arguments:
        return 0 if prove(dtc, some(rows, arguments)) else 1
    numbers = [int(word) for word in arguments[1:] if word.isdigit()]
    if numbers:
        _, good = sweep(dtc, [row for row in rows if row[0] in numbers], True)
    elif "--bless" in arguments:
        found, good = sweep(dtc, rows, False)
        write(found)
    else:
        _, good = sweep(dtc, asked_for(rows, arguments), False)
    if "--all" in arguments:
        good = sweep_random(dtc, 100, 5) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
