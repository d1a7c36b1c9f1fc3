# SPDX-License-Identifier: Apache-2.0
"""Plans for GPUs on stand-ins of CUDA's libraries:  training.py DTC DTRUN [examples]

Each program is compiled for the processor and for sm_90a (by the stand-in of NVRTC: the CUDA text
with the host's body of its prelude), and trained for some steps. Losses, norms and checkpoints are
the same bits: kernels take sums in the same order (--rows), and products are summed in double on
both sides, with epilogues on both. Only attention is a kernel of another form, so programs with it
agree but for roundings, in 16 bits for those of what its products take (attention.py looks closer;
how far, BITS_16 says). Instructions begun on the device run late, and host code cannot reach its
memory; several ranks share it. Code is kept, and equal bytes come out twice. Of the programs, those
in COMPILED have a fiber for each thread of their kernels; those of the others are interpreted, on
the processor, too. `examples` compiles all of them, and the other examples; `ranks`: each example
on 2 to 8 ranks with a GPU each, in the layout that it has itself, if it has one, whose streams run
in several orders that events allow.

With DT_SHARE=K/N in the environment (tests/share.py) one of N of PROGRAMS runs, and those of ALWAYS, which other
checks use."""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STEPS = 2
# Programs that test layouts, queues, messages and saving have their kernels interpreted
# (kir/kir.h). This takes a fiftieth of the time of a fiber for each thread; everything else is the
# same as with code for sm_90a.
INTERPRETED = "sm_90a-interpreted"
# How far a program in 16 bits may be off, losses and norms each. Its two runs round equally many values in a row by
# equally much, those that attention hands to its products at other places: so either is off the program in f32 by a sum
# of as many roundings of one size. The size of that sum, which the program amplifies (T5's scores are not scaled), is
# measured: the distance of the processor's run from one in f32, the most of all steps; of a program on several ranks also
# that of its run on one, which rounds as many values, added up in another order. Two such sums may have opposite
# signs, so the two runs may be twice as far from each other.
BITS_16, SIDES = "16 bits", 2
SMALL = ["-D", "batch=4", "-D", "seq=16", "-D", "vocab=61", "-D", "embed=32", "-D", "layers=2"]
F32 = ["--set", "train.precision=mixed(compute = f32)"]
BERT = "-D batch=2 -D seq=16 -D vocab=61 -D layers=2 -D embed=32 -D heads=2 -D head=16 -D ffn=64".split()
BYOL = "-D batch=4 -D side=4 -D wide=16 -D feature=8 -D hidden=16 -D latent=8".split()
DIFFUSION = "-D batch=8 -D layers=2 -D embed=16 -D waves=4".split()
GAN = "-D batch=8 -D hidden=16".split()
GPT_1T = "-D batch=8 -D seq=16 -D vocab=64 -D layers=4 -D embed=32 -D heads=2".split()
LLAMA = "-D batch=2 -D seq=16 -D vocab=64 -D layers=2 -D embed=32 -D ffn=64 -D kv=2 -D group=2 -D head=8".split()
LSTM = "-D batch=2 -D seq=8 -D vocab=61 -D embed=16 -D hidden=16".split()
MAMBA = "-D batch=2 -D seq=12 -D vocab=70 -D embed=16 -D cell=4 -D layers=2".split()
MOE = "-D batch=2 -D pool=2 -D seq=16 -D vocab=64 -D layers=2 -D embed=32 -D ffn=32 -D kv=2 -D group=2 -D head=8".split()
RESNET = "-D batch=4 -D side=8 -D c0=4".split()
T5 = "-D batch=2 -D src=16 -D tgt=16 -D vocab=64 -D enc=2 -D dec=2 -D embed=32 -D heads=2 -D head=16 -D ffn=64 -D buckets=8".split()
VGG = "-D batch=2 -D side=32 -D c0=4 -D classes=10 -D fc=32".split()
VIT = "-D batch=2 -D gh=2 -D gw=4 -D ph=4 -D pw=4 -D classes=10 -D layers=2 -D embed=32 -D heads=2 -D head=16 -D ffn=64".split()
FEW = "tests/runtime/zero.dsl"  # a program of few kernels
PROGRAMS = [  # name, file, layout, further arguments, how far losses may be off, and another precision on the GPU
    ("gpt", "examples/quickstart.dsl", "none", SMALL, 1e-6),
    ("gpt, 16 bits", "examples/quickstart.dsl", "none",
     SMALL + ["--set", "train.precision=mixed(compute = bf16, params = f32, grads = f32)"], BITS_16),
    ("biases", "examples/gpt2.dsl", "none", SMALL + ["-D", "heads=2", "--set", "train.precision=mixed(compute = f32)"], 1e-6),
    ("gpt, tf32", "examples/quickstart.dsl", "none", SMALL, 2.0 ** -9, "mixed(compute = f32, matmul = tf32)"),
    ("biases, 16 bits, ranks", "examples/gpt2.dsl", "dp", SMALL + ["-D", "heads=2", "--set", "parallel.mesh.data=2",
     "--set", "parallel.micro.batch=2", "--set", "cluster.nodes=1", "--set", "cluster.gpus=2"], BITS_16),
    ("recurrence", "examples/mamba.dsl", "none", MAMBA),
    ("operands with gaps", "examples/diffusion.dsl", "none", DIFFUSION),
    ("images", "examples/resnet.dsl", "none", RESNET),
    ("experts", "examples/moe.dsl", "none", MOE, BITS_16),
    ("zero", "tests/runtime/zero.dsl", "z3", []),
    ("pipeline", "tests/runtime/zero.dsl", "pipe", []),
]
# Programs whose kernels have a fiber for each thread always: rows, items, pieces, scatters, draws, attention in f32;
# wide accesses; top-k, sums of integers, attention in 16 bits. Of the others only if all are compiled (`examples`).
COMPILED = ("biases", "operands with gaps", "experts")
ALWAYS = ("gpt", "gpt, tf32", "pipeline")
EXAMPLES = [  # as PROGRAMS; what they train in 16 bits also in f32
    ("bert", "examples/bert.dsl", "none", BERT + F32, 1e-6),
    ("bert, 16 bits", "examples/bert.dsl", "none", BERT, BITS_16),
    ("byol", "examples/byol.dsl", "none", BYOL),
    ("gan", "examples/gan.dsl", "none", GAN),
    ("gpt_1t", "examples/gpt_1t.dsl", "none", GPT_1T + F32, 1e-6),
    ("gpt_1t, 16 bits", "examples/gpt_1t.dsl", "none", GPT_1T, BITS_16),
    ("llama", "examples/llama3_8b.dsl", "none", LLAMA + F32, 1e-6),
    ("llama, 16 bits", "examples/llama3_8b.dsl", "none", LLAMA, BITS_16),
    ("lstm", "examples/lstm.dsl", "none", LSTM),
    ("shakespeare", "examples/shakespeare.dsl", "none", SMALL, 1e-6),
    ("t5", "examples/t5.dsl", "none", T5 + F32, 1e-6),
    ("t5, 16 bits", "examples/t5.dsl", "none", T5, BITS_16),
    ("vgg16", "examples/vgg16.dsl", "none", VGG + F32),
    ("vgg16, 16 bits", "examples/vgg16.dsl", "none", VGG, BITS_16),
    ("vit", "examples/vit.dsl", "none", VIT + F32, 1e-6),
    ("vit, 16 bits", "examples/vit.dsl", "none", VIT, BITS_16),
]

# orders of streams (standin.h), in turn
ORDERS = ("newest", "oldest", "chance=7", "resident=1 chance=3")
ONE = 'cluster here { nodes = 1; gpus = %d; gpu = "cpu" }\nparallel spread on here { %s }\n'
# name, ranks, layout (of shakespeare.dsl: its directives), extents of its mesh, micro-batches,
# more, tolerance in f32
SPREAD = [
    ("bert", 4, "dptp", {"data": 2}, 0, BERT + ["-D", "vocab=62"], 1e-6),
    ("byol", 2, "two", {}, 0, BYOL, 0),
    ("diffusion", 4, "four", {}, 0, DIFFUSION, 0),
    ("gan", 2, "two", {}, 0, GAN, 0),
    ("gpt2", 3, "dp", {"data": 3}, 2, SMALL + ["-D", "batch=6", "-D", "heads=2"], 1e-6),
    ("gpt_1t", 8, "megatron", {"pipe": 2, "data": 2, "tensor": 2}, 2, GPT_1T, 1e-6),
    ("llama3_8b", 8, "d3", {"pipe": 2, "data": 1, "tensor": 2}, 2, LLAMA + ["-D", "layers=4"], 1e-6),
    ("lstm", 2, "halves", {}, 0, LSTM, 0),
    ("mamba", 2, "dp", {"data": 2}, 2, MAMBA + ["-D", "batch=4"], 0),
    ("moe", 8, "ep", {"pipe": 2, "data": 1, "expert": 2}, 2, MOE + ["-D", "batch=4"], 1e-6),
    ("quickstart", 2, "two", {}, 0, SMALL, 1e-6),
    ("resnet", 4, "four", {}, 0, RESNET, 0),
    ("shakespeare", 6, "mesh data = 3, tensor = 2; shard batch on data; shard heads, ffn, vocab on tensor; zero 2 on data", {}, 0,
     SMALL + ["-D", "batch=6", "-D", "vocab=62"], 1e-6),
    ("t5", 8, "pp", {"data": 2}, 2, T5 + ["-D", "batch=4"], 1e-6),
    ("vgg16", 4, "hybrid", {"data": 2}, 0, VGG + ["-D", "batch=4"], 0),
    ("vit", 4, "fsdp", {"data": 4}, 0, VIT + ["-D", "batch=4"], 1e-6),
]


def run(*command, wants=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if wants is not None and done.returncode != wants:
        sys.exit("%s: exit code %d\n%s%s" % (" ".join(command), done.returncode, done.stdout[-800:], done.stderr[-1500:]))
    return done.stdout + done.stderr


def numbers(path):
    with open(path) as file:
        log = [json.loads(line) for line in file]
    several = [[e] if "loss" in e else list(e["losses"].values()) for e in log if e["event"] == "step"]
    return [tuple(one.get(name) for one in losses for name in ("loss", "grad_norm")) for losses in several]


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def train(dtrun, plan, *arguments):
    run(dtrun, plan, "--quiet", "--steps", str(STEPS), "--log", plan + ".jsonl", "--save", plan + ".saved", *arguments)
    step = os.path.join(plan + ".saved", "step-%08d" % STEPS)
    return numbers(plan + ".jsonl"), {name: bytes_of(os.path.join(step, name)) for name in sorted(os.listdir(step))
                                      if name.endswith(".safetensors")}


def distances(a, b):
    """The largest differences of losses and of norms over all steps."""
    return [max(abs(x[i] - y[i]) / abs(x[i]) for x, y in zip(a, b) for i in range(kind, len(x), 2) if x[i]) if a else 0
            for kind in (0, 1)]


def limits(dtc, dtrun, target, file, layout, arguments, steps, alone):
    """The limit BITS_16, from the steps on the processor."""
    run(dtc, os.path.join(ROOT, file), "--parallel", layout, "--data=synthetic",
        "--target=" + target, "-o", "f32.plan", "--epilogues=all", "--rows=sm_90a", *arguments, *F32)
    exact, _ = train(dtrun, "f32.plan", "--gemm", "plain", "--overwrite")
    most = distances(exact, steps)
    if alone:
        run(dtc, file, "--parallel", "none", "--data=synthetic", "--target=" + target,
            "-o", "alone.plan", "--epilogues=all", "--rows=sm_90a", *alone)
        one = distances(exact, train(dtrun, "alone.plan", "--gemm", "plain", "--overwrite")[0])
        most = [max(sizes) for sizes in zip(most, one)]
    return [SIDES * distance for distance in most]


def check(dtc, dtrun, number, name, file, layout, arguments, off=0, precision=None, alone=None, target="sm_90a"):
    """alone: arguments of the same program on one rank, for programs on several ranks with a GPU
    each."""
    plans, here = [], "interpreted" if target == INTERPRETED else "cpu"
    for target in (here, target):
        plans.append("%d.%s.plan" % (number, target))
        run(dtc, os.path.join(ROOT, file), "--parallel", layout, "--data=synthetic", "--target=" + target, "-o", plans[-1],
            "--epilogues=all", "--rows=sm_90a", *arguments,
            *(["--set", "train.precision=" + precision] if precision and target != here else []))
    wanted = train(dtrun, plans[0], "--gemm", "plain")
    got = train(dtrun, plans[1], *([] if alone else ["--share-gpu"]))
    most = limits(dtc, dtrun, here, file, layout, arguments, wanted[0], alone) if off == BITS_16 else [off, off]
    apart = distances(wanted[0], got[0])
    if off == BITS_16:
        print("%s: %s apart of at most %s" % (name, *(["%.1e" % x for x in of] for of in (apart, most))))
    near = wanted[0] == got[0] or all(x <= y for x, y in zip(apart, most))
    assert len(wanted[0]) == STEPS and near, "%s: steps are %s instead of %s" % (name, got[0], wanted[0])
    assert not precision or wanted[0] != got[0], "%s: products are not rounded" % name
    assert off or wanted[1] == got[1], "%s: checkpoints differ" % name
    assert len(wanted[1]) >= 1, name
    return plans[1]


def check_spread(dtc, dtrun, number, name, ranks, layout, mesh, micro, more, off):
    """Compares an example on several ranks with its training on a processor, in f32 and in its own
    precision."""
    path = os.path.join(ROOT, "examples", name + ".dsl")
    with open(path) as file:
        text = file.read()
    if layout.startswith("mesh"):
        path, layout, text = os.path.abspath(name + ".dsl"), "spread", text + ONE % (ranks, layout)
        with open(path, "w") as file:
            file.write(text)
    alone, more = more, more + (["--set", "cluster.nodes=1", "--set", "cluster.gpus=%d" % ranks] if mesh else [])
    for key, extent in [("mesh." + axis, mesh[axis]) for axis in mesh] + ([("micro.batch", micro)] if micro else []):
        more += ["--set", "parallel.%s=%d" % (key, extent)]
    os.environ["DT_STANDIN"] = "gpus=%d %s" % (ranks, ORDERS[number % len(ORDERS)])
    if "precision" in text:
        check(dtc, dtrun, 2 * number, name + ", 16 bits", path, layout, more, BITS_16, alone=alone, target=INTERPRETED)
    whole = F32 if "precision" in text else []
    check(dtc, dtrun, 2 * number + 1, name, path, layout, more + whole, off, alone=alone, target=INTERPRETED)
    del os.environ["DT_STANDIN"]


def check_tf32(dtc, plan):
    """A plan that does not match its program is refused."""
    run(dtc, "verify", plan)
    text = run(dtc, "dump", plan)
    assert text.count(" tf32=1 ") == 1
    with open("forged.txt", "w") as file:
        file.write(text.replace(" tf32=1 ", " "))
    run(dtc, "asm", "forged.txt", "-o", "forged.plan")
    said = run(dtc, "verify", "forged.plan", wants=1)
    assert "META record has tf32 = 0, the program 1" in said, said


def check_again(dtc, dtrun):
    """Equal programs give equal plans. If a plan has no code for this GPU, it is compiled from the
    text in the plan."""
    file, more = os.path.join(ROOT, FEW), ("--parallel", "none")
    for name in ("first", "again"):
        run(dtc, file, *more, "--target=sm_90a", "-o", name + ".plan")
    assert bytes_of("again.plan") == bytes_of("first.plan"), "equal programs make other plans"
    run(dtc, file, *more, "--target=sm_80", "-o", "other.plan", "--no-kernels")
    said = run(dtrun, "other.plan", "--quiet", "--steps", "1", wants=1)
    assert "none for this stand-in 0 (sm_90): compile it with --target=sm_90a, or run it with --rebuild where NVRTC is" in said, said
    wanted, got = train(dtrun, "first.plan"), train(dtrun, "other.plan", "--rebuild")
    assert len(wanted[0]) == STEPS and wanted == got, "rebuilt: steps are %s instead of %s" % (got[0], wanted[0])


def check_spills(dtc):
    """There is a message about kernels that run out of registers, also if their code is in the
    cache."""
    command = (dtc, os.path.join(ROOT, FEW), "--parallel", "none", "--target=sm_80", "-o", "spills.plan")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["DT_STANDIN"], os.environ["XDG_CACHE_HOME"] = "spills=48", os.path.abspath("fresh")
    for _ in range(2):  # the second time the code comes from the cache
        said = run(*command)
        assert re.search(r"warning\[L0586\]: a kernel that puts 48 bytes .*\n +--> .*\.dsl:\d+:\d+", said), said
        assert re.search(r"note: kernel `dt_k\d+` for sm_80 has 255 registers", said), said
    del os.environ["DT_STANDIN"], os.environ["XDG_CACHE_HOME"]
    if before:
        os.environ["XDG_CACHE_HOME"] = before
    said = run(*command)
    assert "L0586" not in said, said


def check_fault(dtrun):
    """A fault of a GPU after some steps: the message names it, with the rank and the line; the run
    continues from a checkpoint. Threads write these while the run trains, so the last ones may be
    missing. Saves launch kernels too, so the step of the fault is not known."""
    plan, more = "0.%s.plan" % INTERPRETED, ["--quiet", "--set", "save.every=1", "--steps", "32"]
    profile = json.loads(run(dtrun, plan, "--quiet", "--steps", "1", "--profile", "--json"))
    launches = sum(row["times"] for row in profile["rows"] if row["kind"] == "kernel")
    os.environ["DT_STANDIN"] = "fault=%d" % (launches * 61 // 2)
    said = run(dtrun, plan, *more, "--sync", "--save", "faulty", wants=1)
    del os.environ["DT_STANDIN"]
    wanted = r"rank 0 failed: the GPU failed to .*an illegal memory access.*\n +in step (\d+), instruction \d+ \(kernel `.*`\)\n +.*dsl:\d+:\d+"
    found = re.search(wanted, said)
    assert found and int(found[1]) > 10, said
    left = [name for name in os.listdir("faulty") if name.startswith("step-")]
    assert left and all("step-00000001" <= name < "step-%08d" % int(found[1]) for name in left), left
    run(dtrun, plan, *more, "--resume", "faulty")
    run(dtrun, plan, *more, "--save", "whole")
    folders = ["whole/step-00000032", "faulty/step-00000032"]
    for name in os.listdir(folders[0]):
        if name.endswith(".safetensors"):
            assert bytes_of(os.path.join(folders[0], name)) == bytes_of(os.path.join(folders[1], name)), name


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if sys.argv[3:4] == ["ranks"]:
            names = sys.argv[4:] or [program[0] for program in SPREAD]
            for number, program in enumerate(SPREAD):
                if program[0] in names:
                    check_spread(dtc, dtrun, number, *program)
                    print("ok", program[0], flush=True)
            print("%d passed, 0 failed" % len(names))
            return
        is_all = sys.argv[3:] == ["examples"]
        programs = list(enumerate(PROGRAMS + EXAMPLES if is_all else PROGRAMS))
        mine = share.of(number for number, program in programs if program[0] not in ALWAYS)
        programs = [(n, program) for n, program in programs if is_all or n in mine or program[0] in ALWAYS]
        for number, program in programs:
            is_compiled = is_all or program[0] in COMPILED
            plan = check(dtc, dtrun, number, *program, target="sm_90a" if is_compiled else INTERPRETED)
            if "tf32" in program[0]:
                check_tf32(dtc, plan)
            print("ok", program[0], flush=True)
        if is_all:
            print("%d passed, 0 failed" % len(programs))
            return
        check_again(dtc, dtrun)
        check_fault(dtrun)
        check_spills(dtc)
        said = run(dtrun, plan, "--quiet", "--steps", "1", wants=1)
        assert re.search(r"has \d+ ranks and this machine 1 GPU; with --share-gpu ranks share them", said), said
        said = run(dtrun, "first.plan", "--quiet", "--steps", "1", "--device", "cpu", wants=2)
        assert "code for sm_90a, and none for device `cpu`: compile it with --target=cpu" in said, said
    print("%d passed, 0 failed" % (len(programs) + 5))


if __name__ == "__main__":
    main()
