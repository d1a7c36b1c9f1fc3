#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The diagnostics that beginners' mistakes draw, and whether the fixes in them work: mistakes.py
[--bless] DTC

tests/golden/mistakes/base.dsl is a small GPT. mistakes.txt has 50 mistakes in it: a line `# ----
NAME` begins one, lines with `-` are replaced by those with `+` that follow. What dtc says of each
is in said.txt; --bless (or DT_BLESS=1) writes it.

Then every fix that dtc shows is applied and compiled: of these programs, and of all of
tests/golden/errors (the share of them that this run of ./check takes). The error must be gone, no
new one may be on the line of the fix, and what had this one error, none of syntax, must compile."""

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import errors

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import share  # noqa: E402

FOLDER = Path(__file__).resolve().parent / "mistakes"


def mistakes():
    """(name, program) of each."""
    base = (FOLDER / "base.dsl").read_text()
    parts = re.split(r"^# ---- (\w+)\n", (FOLDER / "mistakes.txt").read_text(), flags=re.M)[1:]
    for name, edits in zip(parts[::2], parts[1::2]):
        text, at = base, 0
        for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)*)", edits, re.M):
            old, new = (re.sub(r"^.", "", part, flags=re.M) for part in (old, new))
            assert text.count(old) == 1 and text.find(old) >= at, "%s: where?\n%s" % (name, old)
            at = text.find(old)
            text = text.replace(old, new)
        yield name, text


def run(dtc, name, arguments, folder):
    done = subprocess.run([dtc, *arguments, name], cwd=folder, capture_output=True)
    return done.returncode, done.stderr.decode(errors="backslashreplace")


def diagnostics(dtc, name, arguments, folder):
    code, text = run(dtc, name, [*arguments, "--json"], folder)
    lines = [line for line in text.splitlines() if line.startswith("{") and '"code"' in line]
    return code, [json.loads(line) for line in lines]


def offset(source, line, column):
    """The byte at a line and a column, which counts characters."""
    lines = source.split(b"\n")
    before = sum(len(text) + 1 for text in lines[: line - 1])
    return before + len(lines[line - 1].decode(errors="replace")[: column - 1].encode())


def applied(source, fixes):
    """The program after applying the fixes, which do not overlap."""
    for f in sorted(fixes, key=lambda f: (f["line"], f["column"]), reverse=True):
        low = offset(source, f["line"], f["column"])
        high = offset(source, f["end_line"], f["end_column"])
        source = source[:low] + f["insert"].encode() + source[high:]
    return source


def key(diagnostic):
    return diagnostic["code"], diagnostic["message"]


def problem_of(dtc, name, arguments, folder, source, diagnostic, fixes, before):
    """What is wrong with the fixes of one diagnostic; None: nothing is."""
    path = Path(folder) / name
    path.write_bytes(applied(source, fixes))
    code, after = diagnostics(dtc, name, arguments, folder)
    path.write_bytes(source)
    old, new = Counter(map(key, before)), Counter(map(key, after))
    if new[key(diagnostic)] >= old[key(diagnostic)]:
        return "the error is still there"
    errors_before = [d for d in before if d["severity"] == "error"]
    lines = range(fixes[0]["line"], fixes[0]["line"] + fixes[0]["insert"].count("\n") + 1)
    for d in after:
        is_new = d["severity"] == "error" and new[key(d)] > old[key(d)]
        if is_new and d.get("file") == name and d.get("line") in lines:
            return "it makes another error: %s %s" % key(d)
    if len(errors_before) == 1 and not diagnostic["code"].startswith("E01") and code:
        return "the program does not compile: exit status %d" % code
    return None


def check_fixes(dtc, name, arguments, folder, source):
    """How many fixes the program's diagnostics have, and what is wrong with them."""
    _, before = diagnostics(dtc, name, arguments, folder)
    n, problems = 0, []
    for diagnostic in before:
        fixes = [f for f in diagnostic["help"] if "insert" in f and f.get("file") == name]
        groups = [fixes] if diagnostic["code"] == "E0701" and fixes else [[f] for f in fixes]
        for group in groups:
            n += 1
            problem = problem_of(dtc, name, arguments, folder, source, diagnostic, group, before)
            if problem:
                what = name, diagnostic["code"], group[0]["insert"], problem
                problems.append("%s: %s, %r: %s" % what)
    return n, problems


def error_programs():
    for path in sorted(errors.FOLDER.glob("[EL]0[0-7]*.dsl")):
        for name, source in errors.sections(path):
            own = re.match(rb"# dtc (.*)\n", source)
            yield name, source, own[1].decode().split() if own else ["--check"]


def check_golden(dtc, folder, bless):
    """Checks the texts and the fixes of each; returns what failed."""
    wanted = dict(errors.sections(FOLDER / "said.txt")) if (FOLDER / "said.txt").exists() else {}
    failed, said, n = [], b"", 0
    for name, text in mistakes():
        (Path(folder) / ("%s.dsl" % name)).write_text(text)
        _, printed = run(dtc, "%s.dsl" % name, [], folder)
        printed = printed.encode()
        if not bless and wanted.get("said_" + name) != printed:
            failed.append("%s: the text differs" % name)
            both = [t.decode().splitlines() for t in (wanted.get("said_" + name, b""), printed)]
            print("\n".join(difflib.unified_diff(*both, "wanted", "printed", lineterm="", n=1)))
        said += b"# ---- " + name.encode() + b"\n" + printed
        fixes, problems = check_fixes(dtc, "%s.dsl" % name, [], folder, text.encode())
        n, failed = n + fixes, failed + problems
    if bless:
        (FOLDER / "said.txt").write_bytes(said)
    return n, failed


def main(arguments):
    bless = bool(os.environ.get("DT_BLESS")) or arguments[:1] == ["--bless"]
    dtc = os.path.realpath(arguments[-1])
    with tempfile.TemporaryDirectory() as folder:
        n, failed = check_golden(dtc, folder, bless)
        errors.copy_parts(folder)
        others = 0
        for name, source, options in share.of(error_programs()):
            (Path(folder) / ("%s.dsl" % name)).write_bytes(source)
            fixes, problems = check_fixes(dtc, "%s.dsl" % name, options, folder, source)
            others, failed = others + fixes, failed + problems
    for line in failed:
        print("FAIL " + line)
    print("%d fixes of mistakes, %d of error programs" % (n, others))
    print("%d passed, %d failed, 0 skipped" % (n + others, len(failed)))
    return 0 if not failed and n >= 40 and others >= 40 // share.share()[1] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
