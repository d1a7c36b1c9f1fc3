#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chooses tests of a build folder, and the programs that they need.

    choose.py BUILD sanitized K    all programs that are tests themselves, and every tenth of the scripts and
                                   sweeps (programs among them), those whose place in the list is K modulo 10
    choose.py BUILD complete       checks instead that a plain `ninja` builds whatever a test starts

The first form prints two lines: the names of the tests, and the targets for ninja. ./check builds only these with
sanitizers. K follows the commit, so that ten commits in a row have run all scripts; a script that tests/turn.sh
starts has its turn once in forty."""
import json
import os
import subprocess
import sys

# suites that need not run under sanitizers; suites of which a tenth of the tests run
NEVER = {"slow", "tsan", "tsan-all", "repo", "timing", "standin", "apart"}
SWEEPS = {"sweep", "oracle", "verify", "search"}                   # suites of which a tenth runs
TENTH = 10


def introspect(build, what):
    done = subprocess.run(["meson", "introspect", build, "--" + what], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def suites_of(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def is_program(test, build):
    return os.path.abspath(test["cmd"][0]).startswith(os.path.abspath(build) + os.sep)


def sanitized(build, turn):
    tests = [test for test in introspect(build, "tests") if not suites_of(test) & NEVER]
    always = [test for test in tests if is_program(test, build) and not suites_of(test) & SWEEPS]
    others = sorted((test for test in tests if test not in always), key=lambda test: test["name"])
    return always + [test for i, test in enumerate(others) if i % TENTH == turn % TENTH]


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
    chosen = sanitized(build, int(turn[0]))
    print(*(test["name"] for test in chosen))
    print(*files_of(chosen, build))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
