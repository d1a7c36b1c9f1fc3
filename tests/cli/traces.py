#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of the simulated step of every example under each of its layouts:  traces.py DTC
EXAMPLES

No two slices of a track may overlap, since Perfetto drops slices that do. The times are read in the
three ways that programs use: exactly, as doubles, and as Perfetto does (multiplied by 1000, without
the fraction)."""

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

READINGS = {
    "exactly": lambda text: Decimal(text),
    "as doubles": lambda text: float(text),
    "in whole nanoseconds": lambda text: int(float(text) * 1000.0),
}


def layouts(path):
    """Arguments that choose each complete layout of the program, and the last of several train blocks. Without a cluster no times
    are predicted."""
    text = path.read_text()
    trains = re.findall(r"^train (\w+) \{", text, re.M)
    for name, body in re.findall(r"^parallel (\w+) on \w+ \{(.*?)\}$", text, re.M | re.S):
        if not re.search(r"\bauto\b", body):
            yield ["--parallel", name, *(["--train", trains[-1]] if trains else [])]


def overlaps(slices, read):
    tracks = {}
    for event in slices:
        at, lasts = read(event["ts"]), read(event["dur"])
        tracks.setdefault((event["pid"], event["tid"]), []).append((at, at + lasts))
    return sum(
        second[0] < first[1]
        for track in map(sorted, tracks.values())
        for first, second in zip(track, track[1:])
    )


def check(dtc, path, arguments):
    """The number of slices in the trace, and what is wrong with them."""
    command = [dtc, str(path), *arguments, "--no-kernels", "--report=trace"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return 0, ["it ends with %d: %s" % (done.returncode, done.stderr[-300:])]
    events = json.loads(done.stdout, parse_float=str)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    found = {name: overlaps(slices, read) for name, read in READINGS.items()}
    return len(slices), ["%d slices overlap, read %s" % (n, name) for name, n in found.items() if n]


def main(dtc, folder):
    passed = failed = 0
    for path in sorted(Path(folder).glob("*.dsl")):
        for arguments in layouts(path):
            n, problems = check(dtc, path, arguments)
            problems = problems or ([] if n else ["no slices"])
            for problem in problems:
                print("FAIL %s %s: %s" % (path.name, " ".join(arguments), problem))
            passed, failed = passed + (not problems), failed + bool(problems)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 0 if passed >= 15 and not failed else 1


sys.exit(main(*sys.argv[1:]))
