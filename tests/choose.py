#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chooses tests of a build folder, and the programs that they need.

    choose.py BUILD usual K        all tests that need at most some seconds, and every third of the others
    choose.py BUILD sanitized K    of the programs that are tests themselves every second, and of the long ones every fourth;
                                   every twentieth of the scripts and sweeps (programs among them)
    choose.py BUILD complete       checks instead that a plain `ninja` builds whatever a test starts

The first two print two lines: the names of the tests, and the targets for ninja. ./check runs only these, and builds only
these with sanitizers. K is the number of the commit. A quarter of a test's generated cases follows from K, too (share.py):
twelve commits in a row have run all of them; with sanitizers sixteen those of programs, and eighty those of scripts."""
import json
import os
import subprocess
import sys
import zlib

# suites that need not run under sanitizers
NEVER = {"slow", "tsan", "tsan-all", "repo", "timing", "standin", "apart"}
SWEEPS = {"sweep", "oracle", "verify", "search"}                   # suites whose programs count as scripts
LONG = {"long", "standin"}                                         # tests that `./check --quick` leaves out
APART = {"slow", "toolkit"}                                        # suites for which ./check has runs of their own


def introspect(build, what):
    done = subprocess.run(["meson", "introspect", build, "--" + what], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def suites_of(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def is_program(test, build):
    return os.path.abspath(test["cmd"][0]).startswith(os.path.abspath(build) + os.sep)


def every(n, turn, tests):
    """Those of the tests whose turn it is, in the order of their names. A test keeps its turn when others come and go."""
    return sorted((test for test in tests if zlib.crc32(test["name"].encode()) % n == turn % n), key=lambda test: test["name"])


def usual(build, turn):
    tests = [test for test in introspect(build, "tests") if not suites_of(test) & APART]
    quick = [test for test in tests if not suites_of(test) & LONG]
    return quick + every(3, turn, (test for test in tests if test not in quick))


def sanitized(build, turn):
    tests = [test for test in introspect(build, "tests") if not suites_of(test) & NEVER]
    programs = [test for test in tests if is_program(test, build) and not suites_of(test) & SWEEPS]
    short = [test for test in programs if not suites_of(test) & LONG]
    return (every(2, turn, short) + every(4, turn, (test for test in programs if test not in short)) +
            every(20, turn, (test for test in tests if test not in programs)))


def files_of(tests, build):
    """The targets that these tests need, by the names that ninja uses."""
    built = {target["id"]: target["filename"] for target in introspect(build, "targets")}
    names = {name for test in tests for id in test["depends"] for name in built[id]}
    return sorted(os.path.relpath(name, os.path.abspath(build)) for name in names)


def missing(build):
    """The programs that tests need, but that `ninja` alone does not build."""
    targets = introspect(build, "targets")
    built = {target["id"]: target["build_by_default"] for target in targets}
    names = {target["id"]: target["name"] for target in targets}
    return sorted({"%s needs %s" % (test["name"], names[id]) for test in introspect(build, "tests")
                   for id in test["depends"] if not built[id]})


def main(arguments):
    build, what, *turn = arguments
    if what == "complete":
        lacking = missing(build)
        for line in lacking:
            print("FAIL", line + ", which a plain `ninja` does not build: meson 1.7 then runs no test at all")
        print("%d passed, %d failed" % (not lacking, len(lacking)))
        return 1 if lacking else 0
    chosen = {"usual": usual, "sanitized": sanitized}[what](build, int(turn[0]))
    print(*(test["name"] for test in chosen))
    print(*files_of(chosen, build))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
