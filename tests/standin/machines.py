# SPDX-License-Identifier: Apache-2.0
"""A step recorded on one machine, compared on another whose matrix units add in another order and whose exponentials are
off by 2^-21:  machines.py DTC DTRUN [all]

In 32 bits attention has the same bytes; in 16 bits it lies within what rounding explains, and all else has the same bytes.
A machine that leaves a product out of each sum is noticed, and one whose exponentials are off by 2^-7, whose sums of rows
alone show it; attention is named. A query may see no key: its maximum is -inf everywhere. Without `all` two programs; with DT_SHARE=K/N in
the environment (tests/share.py) one of N of all programs."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = ["-D", "batch=2", "-D", "seq=40", "-D", "vocab=61", "-D", "embed=64", "-D", "layers=1"]
MOE = "-D batch=2 -D pool=2 -D seq=16 -D vocab=64 -D layers=2 -D embed=32 -D ffn=32 -D kv=2 -D group=2 -D head=8".split()
BF16 = ["--set", "train.precision=mixed(compute = bf16, params = f32, grads = f32)"]
PROGRAMS = [("gpt", "examples/quickstart.dsl", SMALL, False), ("gpt, bf16", "examples/quickstart.dsl", SMALL + BF16, True),
            ("queries without keys, bf16", "later.dsl", SMALL + BF16, True), ("experts", "examples/moe.dsl", MOE, True)]
FEW = ("gpt", "queries without keys, bf16")  # programs that always run


def run(*command, units=0, wants=(0,)):
    machine = dict(os.environ, DT_STANDIN="units=%d" % units)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=machine)
    assert done.returncode in wants, "%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stdout + done.stderr[-1500:])
    return done.stdout + done.stderr


def check(dtc, dtrun, file, more, is_16):
    # of another machine, and of wrong ones, the texts differ in 16 bits
    for units in range(4 if is_16 else 2):
        run(dtc, file, "--parallel", "none", "--data=synthetic", "--target=sm_90a", "-o", "%d.plan" % units, *more,
            units=units)
    step = ["--quiet", "--steps", "1", "--attention", "generated", "--set", "eval.every=0"]
    run(dtrun, "0.plan", *step, "--record", "record")
    same = run(dtrun, "0.plan", *step, "--compare", "record")
    other = run(dtrun, "1.plan", *step, "--compare", "record", units=1)
    said = [re.search(r"and (\d+) attention in 16 bits, at most ([-0-9.e]+)", text) for text in (same, other)]
    if not is_16:
        assert not any(said) and "different" not in same + other, same + other
        return "the same bytes"
    wrong = [run(dtrun, "%d.plan" % units, *step, "--compare", "record", units=units, wants=(1,)) for units in (2, 3)]
    assert all(said) and said[0].group(2) == "0" and 0 < float(said[1].group(2)) < 1, (same, other)
    named = [re.findall(r"different: step 1, instruction \d+, kernel (.*?), .* as far from what was recorded as rounding", text) for text in wrong]
    assert all(named) and all("exp" in name for names in named for name in names), wrong
    return "%s of %s kernels' roundings; without a product %d differ, by exponentials %d" % (
        said[1].group(2), said[1].group(1), len(named[0]), len(named[1]))


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(os.path.join(ROOT, "examples/quickstart.dsl")) as file, open("later.dsl", "w") as later:
            later.write(file.read().replace("iota[kseq] <= iota[seq]", "iota[kseq] < iota[seq]"))
        is_part = share.share()[1] > 1
        programs = [program for program in share.of(PROGRAMS) if sys.argv[3:] == ["all"] or is_part or program[0] in FEW]
        for name, file, more, is_16 in programs:
            path = file if os.path.exists(file) else os.path.join(ROOT, file)
            print("ok", name + ":", check(dtc, dtrun, path, more, is_16), flush=True)
    print("%d passed, 0 failed" % len(programs))


if __name__ == "__main__":
    main()
