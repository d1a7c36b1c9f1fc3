# SPDX-License-Identifier: Apache-2.0
"""Ranks with a GPU each, which talk by NCCL, on stand-ins of CUDA's libraries:  nccl.py DTC DTRUN [KIND]

Each layout is trained with --comm nccl and with --comm shm: losses, norms, checkpoints and bytes received are the same,
since the stand-in adds in the order of members, as shm does. It may also begin at another member and round after each
addition, as rings do: then losses agree but for roundings. Kinds: `few` and `more`
layouts; `windows`, `more_windows`: with --windows, which changes no bit and no byte; `failures`: what is missing or refused, and
ranks that end, hang, or whose GPU fails while others wait for them on theirs; without one all."""

import os
import re
import subprocess
import sys
import tempfile

from training import INTERPRETED, ROOT, STEPS, bytes_of, run, train

sys.path.insert(0, os.path.join(ROOT, "tests/runtime"))
from layouts import LAYOUTS, PROGRAM, events  # noqa: E402

FEW = ("data", "tensor", "zero", "pipeline", "ulysses")
MORE = ("sequence", "ahead", "ring", "zigzag", "eight", "pipes", "experts", "alone")
EIGHT = {
    "eight": (8, "mesh data = 4, tensor = 2; shard batch on data; shard heads, ffn on tensor; zero 2 on data, tensor"),
    "pipes": (8, "mesh pipe = 2, data = 2, tensor = 2; shard batch on data; shard heads, ffn on tensor; "
                 'pipeline h on pipe (schedule = "1f1b"); micro batch = 4; zero 1 on data, tensor'),
}
ZERO = "mesh data = 4; shard batch on data; micro batch = 2; zero %d on data"
# ranks, layout; whether there are windows with the symmetric flag, other windows, gathers by copy
# engines
WINDOWS = {
    "tensor": (2, LAYOUTS["tensor"][1].replace("; shard vocab on tensor (pad = 8)", ""), (True, False, False)),
    "zero1": (4, ZERO % 1, (True, True, False)),
    "zero2": (4, ZERO % 2, (True, False, False)),
    "ahead": (*LAYOUTS["ahead"], (True, False, True)),
    "strided": (*LAYOUTS["context"], (True, False, True)),
    "pipes": (*EIGHT["pipes"], (True, True, True)),
}
MOE = ["-D", "batch=4", "-D", "pool=2", "-D", "seq=16", "-D", "vocab=64", "-D", "layers=2", "-D", "embed=32", "-D", "ffn=32",
       "-D", "kv=2", "-D", "group=2", "-D", "head=8"]
ONE_BY_ONE = 'cluster here { nodes = 1; gpus = %d; gpu = "cpu" }\nparallel %s on here { %s }\n'
# also run with another order of additions: losses may then differ by roundings of f32 (6e-8) in
# some hundred sums, twice; the test of layouts on processors has the same limit
SUMS = ("data", "eight")
OFF = 1e-5  # roundings of f32 (6e-8) in some hundred sums, twice; the test of layouts on processors has the same bound


def compile_plan(dtc, text, name, *more):
    with open(name + ".dsl", "w") as file:
        file.write(text)
    run(dtc, name + ".dsl", "--parallel", name, "--target=" + INTERPRETED, "--epilogues=all", "-o", name + ".plan", *more)
    return name + ".plan"


def moved(plan):
    return [(e["groups"], e["channels"]) for e in events(plan + ".jsonl") if e["event"] == "traffic"]


def check(dtrun, plan, ranks, sums):
    os.environ["DT_STANDIN"] = "gpus=%d" % ranks
    wanted, traffic = train(dtrun, plan, "--overwrite", "--comm", "shm"), moved(plan)
    got = train(dtrun, plan, "--overwrite")
    assert len(wanted[0]) == STEPS and got[0] == wanted[0], "%s: steps are %s instead of %s" % (plan, got[0], wanted[0])
    assert got[1] == wanted[1] and len(got[1]) >= 1, plan + ": checkpoints differ"
    assert moved(plan) == traffic, "%s: moved %s instead of %s" % (plan, moved(plan), traffic)
    if sums:
        os.environ["DT_STANDIN"] += " order=1"
        other = train(dtrun, plan, "--overwrite")
        assert all(abs(x - y) <= OFF * abs(x) for a, b in zip(wanted[0], other[0]) for x, y in zip(a, b)), \
            "%s: steps are %s instead of %s" % (plan, other[0], wanted[0])
        assert other[1] != got[1], plan + ": the stand-in's order is no other"
    print("ok", plan, flush=True)


def check_layouts(dtc, dtrun, names):
    layouts = {name: (ranks, text.replace("; shard vocab on tensor (pad = 8)", "")) for name, (ranks, text) in LAYOUTS.items()}
    layouts.update(EIGHT, data=(3, "mesh data = 3; shard batch on data"), alone=(1, "mesh data = 1"))
    layouts = {name: layouts[name] for name in names if name in layouts}
    for name, (ranks, layout) in layouts.items():
        more = ("-D", "batch=6") if name == "data" else ()
        check(dtrun, compile_plan(dtc, PROGRAM + ONE_BY_ONE % (ranks, name, layout), name, *more), ranks, name in SUMS)
    if "experts" in names:
        check_experts(dtc, dtrun)
    if "alone" in names:
        os.environ["DT_STANDIN"] = "gpus=1"
        alone = train(dtrun, "alone.plan", "--overwrite", "--comm", "nccl")
        assert alone == train(dtrun, "alone.plan", "--overwrite")
    return len(names)


def windows_of(path):
    """What all communicators did since it was asked last: windows whose flag is symmetric, others, collectives inside,
    outside, by copy engines; and the lines of those that had windows."""
    with open(path) as file:
        lines = [[int(word) for word in line.split()] for line in file]
    os.remove(path)
    return [sum(line[i] for line in lines) for i in range(2, 7)], [line for line in lines if line[2] + line[3]]


def check_windows(dtc, dtrun, names):
    told, runs = os.path.abspath("windows"), {}
    os.environ["DT_STANDIN_WINDOWS"] = told
    for name in names:
        ranks, layout, wanted = WINDOWS[name]
        plan = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (ranks, name, layout), name)
        os.environ["DT_STANDIN"] = "gpus=%d" % ranks
        without = runs[name] = train(dtrun, plan, "--overwrite")
        traffic = moved(plan)
        assert windows_of(told)[0][0] == 0
        assert train(dtrun, plan, "--overwrite", "--windows") == without, plan + ": with windows it is another run"
        assert moved(plan) == traffic and len(without[0]) == STEPS and len(without[1]) >= 1
        (symmetric, others, _, _, copied), lines = windows_of(told)
        got = (symmetric > 0, others > 0, copied > 0)
        assert got == wanted, "%s: windows %s instead of %s" % (name, got, wanted)
        assert all(line[5] == 0 for line in lines) and any(line[4] for line in lines), "%s: %s" % (name, lines)
        print("ok windows", name, got, flush=True)
    if "ahead" in names:
        check_machines(dtrun, "ahead.plan", told, runs["ahead"])
    del os.environ["DT_STANDIN_WINDOWS"]
    return len(names) + 2 * ("ahead" in names)


def check_machines(dtrun, plan, told, without):
    """Machines without copy engines, or without windows."""
    for words, some, said in (("nccl=22705", True, ""), ("windowless=1", False, "note: NCCL has no windows for 3 of 3 pieces of memory")):
        os.environ["DT_STANDIN"] = "gpus=4 " + words
        assert train(dtrun, plan, "--overwrite", "--windows") == without, words
        (_, _, inside, outside, copied), _ = windows_of(told)
        assert (inside > 0, outside == 0, copied) == (some, some, 0), (words, inside, outside, copied)
        assert not said or said in run(dtrun, plan, "--quiet", "--steps", "1", "--windows")
        print("ok windows", words, flush=True)


def check_experts(dtc, dtrun):
    with open(os.path.join(ROOT, "examples/moe.dsl")) as file:
        moe = file.read().replace('"llama_block.dsl"', '"%s"' % os.path.join(ROOT, "examples/llama_block.dsl"))
    experts = "mesh data = 2, expert = 2; shard experts on expert; shard batch on data, expert; zero 1 on data, expert"
    check(dtrun, compile_plan(dtc, moe + ONE_BY_ONE % (4, "experts_", experts), "experts_", "--data=synthetic", *MOE), 4, False)


def fails(dtrun, plan, standin, code, wanted, *arguments):
    os.environ["DT_STANDIN"] = standin
    said = run(dtrun, plan, "--quiet", "--steps", "2", *arguments, wants=code)
    assert re.search(wanted, said), "%s %s: said %s" % (standin, " ".join(arguments), said)
    assert "stand-in" not in said and "NCCL reports" not in said, said
    print("ok", standin, *arguments, flush=True)


def check_failures(dtc, dtrun):
    plan = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (2, "two", "mesh data = 2; shard batch on data; zero 2 on data"), "two")
    processor = "cpu.plan"
    run(dtc, "two.dsl", "--parallel", "two", "-o", processor)
    fails(dtrun, processor, "gpus=2", 2, "--comm nccl is for GPUs, and this plan runs on device `cpu`", "--comm", "nccl")
    fails(dtrun, plan, "gpus=2", 2, "no communicator `mpi`, only `shm`; `nccl`, between GPUs; and `ucx`", "--comm", "mpi")
    fails(dtrun, plan, "gpus=1", 2, r"ranks 0 and 1 have one GPU, between which NCCL does not work: --comm shm does\n +before its first step",
          "--comm", "nccl", "--share-gpu")
    fails(dtrun, plan, "gpus=2 nccl=21705", 1, r"libnccl found here is version 2\.17, and 2\.18 is the oldest that will do; --comm shm")
    fails(dtrun, plan, "gpus=2 only=1 die=60", 75, r"rank 1 was ended by signal 9 \(Killed\)")
    fails(dtrun, plan, "gpus=2 only=1 fault=60", 1, r"rank 1 failed: the GPU failed to .*an illegal memory access.*\n.*instruction \d+ \(kernel .*\n.*dsl:\d+:\d+")
    fails(dtrun, plan, "gpus=2 only=1 hang=60", 75, r"rank 1 hangs.*\n.*instruction \d+ \(kernel .*\n.*dsl:\d+:\d+", "--timeout", "5")
    fails(dtrun, plan, "gpus=2 nccl=22605", 1, r"libnccl found here is version 2\.26, and --windows needs 2\.27\n +before its first step", "--windows")
    fails(dtrun, plan, "gpus=2", 2, "--windows is for ranks that talk by NCCL, and those of this run talk by `shm`", "--windows", "--comm", "shm")
    fails(dtrun, processor, "gpus=2", 2, "--windows is for ranks that talk by NCCL, and those of this run talk by `shm`", "--windows")
    fails(dtrun, plan, "gpus=2 only=1 die=60", 75, r"rank 1 was ended by signal 9 \(Killed\)", "--windows")
    ranks, layout = LAYOUTS["ulysses"][:2]
    swaps = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (ranks, "swaps", layout), "swaps")
    os.environ["DT_STANDIN"] = "gpus=%d send_fails=1" % ranks
    said = run(dtrun, swaps, "--quiet", "--steps", "2", wants=1)
    assert "NCCL reports: invalid argument" in said and "inside a group" not in said, said
    check_upset(dtc, dtrun)
    libraries = os.environ["LD_LIBRARY_PATH"].split(":")[0]
    os.mkdir("without")
    for name in ("libcuda.so.1", "libcublasLt.so.13"):
        os.symlink(os.path.join(libraries, name), os.path.join("without", name))
    without = os.path.abspath("without")
    os.environ.update(LD_LIBRARY_PATH=without, DT_CUDA_LIBRARIES=without)
    fails(dtrun, plan, "gpus=2", 1, r"there is no libnccl\.so\.2 in the folders of .*package libnccl2.*--comm shm")
    fails(dtrun, plan, "gpus=2", 0, "", "--comm", "shm")
    os.environ.update(LD_LIBRARY_PATH=libraries, DT_CUDA_LIBRARIES=libraries)
    return 15


def check_upset(dtc, dtrun):
    """An error in a collective that was only started, while others that follow it wait for another
    one."""
    layout = "mesh data = 2, tensor = 2; shard batch on data; shard heads, ffn on tensor; micro batch = 2; zero 2 on data"
    plan = compile_plan(dtc, PROGRAM + ONE_BY_ONE % (4, "both", layout), "both")
    os.environ["DT_STANDIN"] = "gpus=4 only=1 upset=26"
    said = run(dtrun, plan, "--quiet", "--steps", "1", "--timeout", "60", wants=1)
    assert re.search(r"rank 1 failed: NCCL reports: internal error\n +in step 1, instruction \d+ \(", said), said
    print("ok upset", flush=True)


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    kinds = sys.argv[3:] or ["few", "more", "windows", "more_windows", "failures"]
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for kind, names in (("few", FEW), ("more", MORE)):
            n += check_layouts(dtc, dtrun, names) if kind in kinds else 0
        n += check_windows(dtc, dtrun, [name for name in WINDOWS if name == "ahead"]) if "windows" in kinds else 0
        n += check_windows(dtc, dtrun, [name for name in WINDOWS if name != "ahead"]) if "more_windows" in kinds else 0
        if "failures" in kinds:
            n += check_failures(dtc, dtrun)
    print("%d passed, 0 failed" % n)


if __name__ == "__main__":
    main()
