#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What dtrun says of single instructions:  profile.py DTC DTRUN

--profile counts what a step does as `dtc --report` does, and its times add up to no more than the steps'. --record and
--compare: a run is equal to itself on another device; one byte, another step, another plan are noticed and named."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NO_EVAL = ["--set", "eval.every=0"]
SMALL = ["-D", "batch=2", "-D", "seq=8", "-D", "vocab=17", "-D", "embed=8", "-D", "layers=2"]


def run(*command, wants=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == wants, "%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:])
    return done.stdout, done.stderr


def profile(dtc, dtrun):
    said = json.loads(run(dtrun, "a.plan", "--quiet", "--steps", "5", "--profile", "--json")[0])
    assert said["steps"] == 3 and said["first_step"] == 3 and said["device"] == "cpu", said
    rows, busy = said["rows"], sum(row["ms"] for row in said["rows"])
    assert all(row["ms"] >= 0 and row["times"] > 0 for row in rows)
    assert 0 < busy <= said["ms"] * 1.001 and abs(sum(row["share"] for row in rows) - said["in_instructions"]) < 1e-3
    assert [row["ms"] for row in rows] == sorted((row["ms"] for row in rows), reverse=True)
    report = json.loads(run(dtc, os.path.join(ROOT, "examples/quickstart.dsl"), "--report=json", "--parallel", "none", "--data=synthetic", *SMALL)[0])
    wanted = {}
    for entry in report["entries"]:
        if entry["name"] in ("step", "update"):
            for counted in entry["instructions"]:
                wanted[counted["kind"]] = wanted.get(counted["kind"], 0) + counted["runs"]
    got = {}
    for row in rows:
        got[row["kind"]] = got.get(row["kind"], 0) + row["times"]
    assert got == wanted, (got, wanted)
    table = run(dtrun, "a.plan", "--quiet", "--steps", "1", "--profile")[0].splitlines()
    assert "steps 1 to 1" in table[0] and table[1].split() == ["ms", "share", "times", "GB/s", "TFLOP/s", "what"], table[:2]
    assert len(table) == len(rows) + 2, (len(table), len(rows))
    assert "belongs to --profile" in run(dtrun, "a.plan", "--json", wants=2)[1]


def replay(dtrun):
    run(dtrun, "a.plan", "--quiet", "--steps", "2", *NO_EVAL, "--record", "a.record")
    said = run(dtrun, "a.plan", "--quiet", "--steps", "2", *NO_EVAL, "--device", "apart", "--compare", "a.record")[0]
    assert "instructions compared" in said and "different" not in said, said
    with open("a.record", "rb") as file:
        bytes_of = bytearray(file.read())
    bytes_of[-1] ^= 0x40
    with open("b.record", "wb") as file:
        file.write(bytes_of)
    out, err = run(dtrun, "a.plan", "--quiet", "--steps", "2", *NO_EVAL, "--compare", "b.record", wants=1)
    assert out.count("different: step 2, instruction ") == 1 and "1 of " in out and "wrote something else than recorded" in err, out + err
    with open("c.record", "wb") as file:
        file.write(bytes_of[: len(bytes_of) // 2])
    for steps, record, why in (("1", "a", "goes on behind"), ("3", "a", "ends before"), ("2", "c", "other instructions")):
        err = run(dtrun, "a.plan", "--quiet", "--steps", steps, *NO_EVAL, "--compare", record + ".record", wants=1)[1]
        assert why in err, err
    err = run(dtrun, "b.plan", "--quiet", "--steps", "2", *NO_EVAL, "--compare", "a.record", wants=2)[1]
    assert "no record of a run of this plan" in err, err
    run(dtrun, "a.plan", "--quiet", "--record", "/proc/no/x", wants=5)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, more in (("a", []), ("b", ["-D", "embed=16"])):
            run(dtc, os.path.join(ROOT, "examples/quickstart.dsl"), "--parallel", "none", "--data=synthetic", "-o", name + ".plan", *SMALL, *more)
        profile(dtc, dtrun)
        replay(dtrun)
    print("2 passed, 0 failed")


main()
