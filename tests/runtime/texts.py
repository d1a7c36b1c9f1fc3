#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts and states of texts.dsl:  texts.py DTC DTRUN

What --generate writes: whole characters, also where their bytes are several tokens, and bytes that
belong to none as escapes. Without --resume it says that the parameters have their initial values. A
state that is not finite is not saved, and the message names it, unless it begins as infinite."""

import os
import subprocess
import sys
import tempfile

from runs import check, failures, run

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "texts.dsl")
TEXT = "A\u00e9\\xff\u20acB\\xe1C\\xf0"


def dtrun(tools, *options):
    done = subprocess.run([tools[1], "texts.plan", *options], capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def texts(tools):
    """The tokens that follow A, as bytes: c3 a9, ff, e2 82 ac, B, e1, C, f0."""
    said = "the parameters have their initial values"
    for n, want in ((10, TEXT), (1, "A\\xc3"), (2, "A\u00e9"), (4, "A\u00e9\\xff\\xe2"),
                    (5, "A\u00e9\\xff\\xe2\\x82"), (6, "A\u00e9\\xff\u20ac")):
        code, out, err = dtrun(tools, "--generate", "A", "--tokens", str(n), "--temperature", "0")
        check(code == 0 and out == want + "\n", "%d tokens: %r, exit status %d" % (n, out, code))
        check(said in err, "nothing says that the values are initial ones: %s" % err)
    options = ("--resume", "saved", "--generate", "A", "--tokens", "2", "--temperature", "0")
    code, out, err = dtrun(tools, *options)
    check(code == 0 and out == "A\u00e9\n", "with --resume: %r, exit status %d" % (out, code))
    check(said not in err, "with --resume: %s" % err)


def states(tools):
    code, _, err = dtrun(tools, "--quiet", "--steps", "1", "--save", "saved")
    check(code == 0, "a state that begins as infinite: exit status %d, %s" % (code, err))
    code, _, err = dtrun(tools, "--quiet", "--steps", "2", "--save", "spoilt")
    check(code == 1 and "the state `count` has numbers that are not finite" in err,
          "a state that is not finite: exit status %d, %s" % (code, err))
    check(not os.path.exists("spoilt/step-00000002"), "a state that is not finite was saved")


def main():
    tools = [os.path.abspath(tool) for tool in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run([tools[0], PROGRAM, "-o", "texts.plan"])
        states(tools)
        texts(tools)
    print("%d failures" % len(failures))
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
