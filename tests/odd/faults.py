#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Odd programs in plans with a fault:
faults.py DTC DTRUN PLANMUTANTS FIRST COUNT [--faults N] [--layouts N] [--gpu] [--keep FOLDER]

Random programs under random layouts (those of ranks.py) are compiled for processors; into each plan planmutants.c puts
up to N faults of each of its kinds. What the certificate takes is run on real ranks, MOST of each kind, and must leave
the bits that the plan itself leaves: losses, norms and every tensor of both checkpoints of two steps. A plan that does
not is a false accept; with --keep it is left in FOLDER, beside the right one. --gpu: plans for GPUs, run on the libraries
that stand in for those (gpus.py)."""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

import gpus
import layouts
import ranks

MOST = 4
# kinds of faults in what runs at the same time as other work, and in names: ranks compute the same
# values with them
UNSEEN = ("event", "text", "message")


def bits_of(case, name, flags):
    """The result of running the plan, or how it failed, as a tuple."""
    base = os.path.join(case.folder, name)
    shutil.rmtree(base + ".saved", ignore_errors=True)
    if os.path.exists(base + ".log"):
        os.remove(base + ".log")
    try:
        ranks.execute([case.dtrun, base + ".plan", "--unproved", "--quiet", "--steps", str(ranks.STEPS),
                       "--log", base + ".log", "--save", base + ".saved", "--set", "save.every=1",
                       "--set", "save.keep=0", "--timeout", "30"] + flags, "dtrun")
        return repr(ranks.Run(base + ".log", base + ".saved").bits)
    except ranks.Failed as failure:
        return failure.args


def accepted(tool, folder, name, seed, n):
    """[(kind, name of the plan)] of faults that were accepted, and the number that was refused."""
    base = os.path.join(folder, name)
    done = subprocess.run([tool, base + ".plan", str(seed), str(n), base], capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise ranks.Failed("planmutants", (done.stdout + done.stderr)[-300:])
    refused = sum(map(int, re.findall(r" rejected (\d+) ", done.stdout)))
    names = sorted(other[:-5] for other in os.listdir(folder) if re.match(name + r"-\w+-\d+\.plan$", other))
    return [(other.split("-")[1], other) for other in names], refused, re.findall("^differs:.*$", done.stdout, re.M)


def check(tools, seed, counts, n_faults, n_layouts, keep, how):
    """Lines about what is wrong."""
    wrong, odd = [], ranks.Odd(tools[:2], seed, n_layouts)
    for number, (lines, n_ranks) in enumerate(odd.layouts):
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            case, seen = ranks.Case(tools[:2], folder, odd.text(ranks.SEEDS[0])), collections.Counter()
            try:
                case.run("right", layouts.text(lines, n_ranks), **how)
            except ranks.Failed as failure:
                if ranks.is_bad("", failure.args[0]):
                    wrong.append("seed %d, layout %d: %s" % (seed, number, failure.args[0]))
                counts[failure.args[0]] += 1 # the certificate refused it
                continue
            try:
                faults, refused, differ = accepted(tools[2], folder, "right", seed, n_faults)
            except ranks.Failed as failure:
                wrong.append("seed %d, layout %d: planmutants: %s" % (seed, number, failure.args[1]))
                continue
            want = bits_of(case, "right", how.get("flags", []))
            if isinstance(want, tuple):
                wrong.append("seed %d, layout %d: the plan itself: %s" % (seed, number, want))
                continue
            counts["plans"] += 1
            counts["refused"] += refused
            wrong += ["seed %d, layout %d: %s" % (seed, number, said) for said in differ]
            for kind, name in faults:
                seen[kind] += 1
                if kind in UNSEEN or seen[kind] > MOST:
                    continue
                got = bits_of(case, name, how.get("flags", []))
                counts["run"] += 1
                if got == want:
                    counts["equal"] += 1
                    continue
                wrong.append("seed %d, layout %d: %s leaves something else%s" % (
                    seed, number, name, ": %s" % (got,) if isinstance(got, tuple) else ""))
                for plan in ("right", name) if keep else ():
                    shutil.copy(os.path.join(folder, plan + ".plan"), os.path.join(keep, "%d-%d-%s.plan" % (seed, number, plan)))
    return wrong


def main(arguments):
    flags = {"--faults": "6", "--layouts": "2", "--keep": ""}
    for flag in flags:
        if flag in arguments:
            at = arguments.index(flag)
            flags[flag] = arguments[at + 1]
            del arguments[at:at + 2]
    how = gpus.ON_GPU if "--gpu" in arguments else {}
    arguments = [word for word in arguments if word != "--gpu"]
    tools, first = [os.path.abspath(path) for path in arguments[:3]], int(arguments[3])
    counts, n_wrong = collections.Counter(), 0
    for seed in ranks.share.of(range(first, first + int(arguments[4]))):
        found = check(tools, seed, counts, int(flags["--faults"]), int(flags["--layouts"]), flags["--keep"], how)
        n_wrong += len(found)
        for what in found:
            print("FAIL", what)
        sys.stdout.flush()
    print(", ".join("%d %s" % (n, what) for what, n in sorted(counts.items())))
    if not counts["refused"]:
        print("FAIL no fault was put into any plan")
        n_wrong += 1
    print("%d passed, %d failed" % (counts["equal"], n_wrong))
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
