#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate of plan files against recorded bugs: planknown.py DTC PLANMUTANTS [--bless DTRUN [KIND...]]

planmutants.txt names faults in plans of the layouts of planmutants.py by layout, kind and a checksum of what is
changed: those that count. Of a STRICT kind that says what is changed of what, so such rows are found again in other
plans; with fewer than APPLIES of them the test fails. Every one must be refused, but for rows that say `open`: holes that are known, and not yet
closed; another checker can be held against the same ones. Faults of the kinds of STRICT count as they are; of those of
LOOSE the ones with which ranks compute other losses or norms, or fail (--bless runs them), of `event` those in which
planraces.py finds a race. Where plans have changed and
a fault cannot be drawn again, others of its kind take its place, for STRICT kinds, of which AT_LEAST each must be
there; that there are few of a LOOSE kind is said. --bless draws all anew, or those of the KINDs."""
import collections
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import zlib

import planmutants

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "planmutants.txt")
APPLIES = 0.8
# per kind: candidates in an ordinary run, entries of a blessed list; per kind and layout:
# candidates that are tried; kinds for which few layouts have a place; number of candidates that
# count of these
AT_LEAST, MOST, EACH = 8, 14, 4
FEW = ["stage", "prologue", "ring", "guard", "peer"]  # kinds that few layouts have a place for
RARE = {"channel": 0, "text": 0, "entry": 4, "actions": 4, "prologue": 1, "scratch": 4}  # fewer of these count


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        sys.exit("%s ended with %d: %s" % (" ".join(command), done.returncode, (done.stdout + done.stderr)[-1000:]))
    return done.stdout.splitlines()


def bless(dtc, tool, dtrun, kinds):
    strict, few, loose = ([kind for kind in some if not kinds or kind in kinds]
                          for some in (planmutants.STRICT, FEW, planmutants.LOOSE))
    with open(FILE) as file:
        kept = [row.rstrip("\n") for row in file if kinds and row[0] != "#" and row.split(", ")[1].strip() not in kinds]
    for name in planmutants.LAYOUTS:
        with tempfile.TemporaryDirectory() as folder:
            out = planmutants.compile_plan(dtc, folder, name, False)
            rows = lines_of([tool, out, "draw", name, str(EACH), ",".join(strict)])
            rows += lines_of([tool, out, "draw", name, str(3 * EACH), ",".join(few)])
            kept += [row for row in rows if not row.endswith(" accepted")]
            runs = loose and name != "library"
            out = planmutants.compile_plan(dtc, folder, name, True) if runs else out
            want = planmutants.losses(dtrun, out, folder) if runs and loose != ["event"] else None
            for row in lines_of([tool, out, "draw", name, str(2 * EACH), ",".join(loose), folder]) if runs else []:
                _, kind, sum_ = row.replace(" accepted", "").split(", ")
                path = os.path.join(folder, "%s-%s.plan" % (kind, sum_))
                if planmutants.races(dtc, path) if kind == "event" else planmutants.losses(dtrun, path, folder) != want:
                    kept.append(row.replace(" accepted", ", open"))
                    if row.endswith(" accepted"):
                        print("accepted, and it counts: " + row)
        print("%s: %d so far" % (name, len(kept)))
        sys.stdout.flush()
    counts = collections.Counter()
    with open(FILE, "w") as file:
        file.write("# layout, kind, checksum of what is changed: bugs that count (planknown.py --bless)\n")
        for row in sorted(set(kept), key=lambda row: (not row.endswith("open"), zlib.crc32(row.encode()))):
            kind = row.split(", ")[1]
            counts[kind] += 1
            if counts[kind] <= MOST:
                file.write(row + "\n")
    for kind in planmutants.STRICT + planmutants.LOOSE:
        print("%-12s %d" % (kind, counts[kind]))


def check(dtc, tool, name):
    """For a layout: (kind -> [rejected, accepted, gone], what was accepted, what is gone)."""
    with tempfile.TemporaryDirectory() as folder:
        out = planmutants.compile_plan(dtc, folder, name, False)
        found, wrong, lost = {}, [], []
        for line in lines_of([tool, out, "known", name, FILE]):
            if line.startswith("accepted: "):
                wrong.append(line)
            elif line.startswith("gone: "):
                lost.append(line[len("gone: "):])
            else:
                kind, _, rejected, _, accepted, _, gone = line.split()
                found[kind] = [int(rejected), int(accepted), int(gone)]
    return found, wrong, lost


def fresh(dtc, tool, missing):
    """Faults that replace those that are gone; only of kinds for which every fault counts."""
    counts, wrong = collections.Counter(), []
    for name in planmutants.LAYOUTS:
        kinds = [kind for kind, n in missing.items() if counts[kind] < n]
        if not kinds:
            break
        with tempfile.TemporaryDirectory() as folder:
            out = planmutants.compile_plan(dtc, folder, name, False)
            for row in lines_of([tool, out, "draw", name, str(AT_LEAST), ",".join(kinds)]):
                counts[row.split(", ")[1]] += 1
                wrong += [row] if row.endswith(" accepted") else []
    return counts, wrong


def main(arguments):
    dtc, tool = (os.path.abspath(path) for path in arguments[:2])
    if "--bless" in arguments:
        bless(dtc, tool, os.path.abspath(arguments[3]), arguments[4:])
        return 0
    totals, gone, wrong, still = collections.Counter(), [], [], []
    with open(FILE) as file:
        known_open = {"accepted: " + line[:-len(", open\n")] for line in file if line.endswith(", open\n")}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found, bad, rows in pool.map(lambda name: check(dtc, tool, name), planmutants.LAYOUTS):
            still += [row for row in bad if row in known_open]
            wrong += [row for row in bad if row not in known_open]
            gone += rows
            for kind, (rejected, accepted, _) in found.items():
                totals[kind] += rejected + accepted
    kinds = planmutants.STRICT + planmutants.LOOSE
    missing = {kind: AT_LEAST - totals[kind] for kind in planmutants.STRICT if totals[kind] < RARE.get(kind, AT_LEAST)}
    made, bad = fresh(dtc, tool, missing)
    totals.update(made)
    wrong += bad
    for kind in kinds:
        print("%-12s %d" % (kind, totals[kind]))
        if totals[kind] < RARE.get(kind, AT_LEAST):
            few = "%s: too few in these layouts" % kind
            wrong += [few] if kind in planmutants.STRICT else []
            print(few)
    with open(FILE) as file:
        strict = [row for row in file if row[0] != "#" and row.split(", ")[1] in planmutants.STRICT]
    found = len(strict) - sum(row.split(", ")[1] in planmutants.STRICT for row in gone)
    if found < APPLIES * len(strict):
        wrong.append("%d of %d that are recorded of kinds that always count are found" % (found, len(strict)))
    for what in wrong:
        print("FAIL", what)
    for row in sorted(known_open):
        row = row[len("accepted: "):]
        print("open: %s %s" % (row, "is still accepted" if "accepted: " + row in still else
                               "cannot be drawn again" if row in gone else "is refused by now: --bless"))
    if gone:
        print("%d cannot be drawn again, %d took their place: --bless draws all anew" % (len(gone), sum(made.values())))
    total = sum(totals.values())
    print("%d passed, %d failed" % (max(total - len(wrong), 0), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
