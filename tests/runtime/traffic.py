#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What travels and what a rank keeps, against the formulas of the papers:  traffic.py DTC DTRUN

Models of layers alone (traffic_layers.dsl, traffic_experts.dsl), so that nothing else travels, run under one layout after
the other. For each, the bytes that all ranks received over each group and through the channels of the pipeline, counted by
the running ranks, must equal `dtc --report` and the closed form, all three exactly. Then bytes of parameters, gradients and
optimizer state per rank under ZeRO 0 to 3 in three precisions, against the formulas of the ZeRO paper.

Forms: v bytes of an activation (batch x seq x embed), n ranks, L layers, P bytes of parameters (of those that every rank
holds whole: W). Received by all ranks together: a gather or a scatter of v (n-1) v, a sum 2 (n-1) v, an all-to-all
(n-1) v / n. Scalars of 4 bytes that are summed: the loss where samples are split, and the norm of the gradients, whose
square is summed over ranks that hold different parameters.

  Megatron (Shoeybi et al. 2019): 4 sums of v per layer.
  with sequence parallelism (Korthikanti et al. 2022): 4 gathers and 4 scatters of v per layer, and 2 gathers again for
    the gradients of the parameters behind them (its section 4.2.2); sums of W.
  Ulysses (Jacobs et al. 2023): all-to-alls of q, k, v, o and of their cotangents; sums of W = P.
  keys and values gathered: 2 gathers forwards, 2 backwards again, 2 scatters; sums of W = P.
  a ring (Liu et al. 2023): n-1 steps of keys and values each way, of v over all ranks each, and n steps of their
    gradients; sums of W = P. Over several mesh axes n counts all their ranks.
  data parallel, ZeRO 1, ZeRO 2 (Rajbhandari et al. 2020, section 7): 2P. ZeRO 3: 3P.
  experts (GShard): 2 all-to-alls of all places of all experts forwards, 2 backwards; sums of W = routers.
  pipeline: v forwards and v backwards over every border between pieces that lie on different stages.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 3
BATCH, SEQ, LAYERS, EMBED, FFN = 8, 8, 4, 64, 64
EXPERTS, SLOT = 4, 4
V = 4 * BATCH * SEQ * EMBED
MATRICES = LAYERS * (4 * EMBED * EMBED + 2 * EMBED * FFN)  # elements
GAINS = LAYERS * 2 * EMBED
P = 4 * (MATRICES + GAINS)
PLACES = 4 * BATCH * EXPERTS * SLOT * EMBED
ROUTERS = 4 * LAYERS * EMBED * EXPERTS


def moved(n, size):
    """The bytes of a gather or a scatter."""
    return (n - 1) * size


def summed(n, size):
    return 2 * (n - 1) * size


def switched(n, size):
    """The bytes of an all-to-all."""
    assert (n - 1) * size % n == 0
    return (n - 1) * size // n


TENSOR = "shard heads, ffn on tensor"
CONTEXT = "shard seq on context"
ULYSSES = "shard attend.heads on context; " + CONTEXT
DATA = "shard batch on data"
# neither samples nor heads can be divided over 4 ranks; name: (model, mesh, lines, options, bytes
# over each group, bytes through channels)
ONE = ["-D", "batch=1", "-D", "heads=2", "-D", "head=32"]
LAYOUTS = {
    "megatron": ("layers", "tensor = 4", TENSOR, [], {"tensor": LAYERS * 4 * summed(4, V) + summed(4, 4)}, 0),
    "sequence": ("layers", "tensor = 4", TENSOR + "; shard seq on tensor", [],
                 {"tensor": LAYERS * 10 * moved(4, V) + summed(4, 4 * GAINS) + 2 * summed(4, 4)}, 0),
    "ulysses": ("layers", "context = 4", ULYSSES, [],
                {"context": LAYERS * 9 * switched(4, V) + summed(4, P) + summed(4, 4)}, 0),
    "gathered": ("layers", "context = 4", CONTEXT, ONE,
                 {"context": LAYERS * 6 * moved(4, V // BATCH) + summed(4, P) + summed(4, 4)}, 0),
    "ring": ("layers", "context = 4", CONTEXT + "; shard kseq on context (ring = true)", [],
             {"context": LAYERS * (2 * 3 + 2 * 3 + 2 * 4) * V + summed(4, P) + summed(4, 4)}, 0),
    "ring_axes": ("layers", "outer = 2, inner = 2", "shard seq on outer, inner; shard kseq on outer, inner (ring = true)", [],
                  {"outer inner": LAYERS * (2 * 3 + 2 * 3 + 2 * 4) * V + summed(4, P) + summed(4, 4)}, 0),
    "data": ("layers", "data = 4", DATA, [], {"data": summed(4, P) + summed(4, 4)}, 0),
    "data_micro": ("layers", "data = 4", DATA + "; micro batch = 2", [], {"data": summed(4, P) + summed(4, 4)}, 0),
    "zero1": ("layers", "data = 4", DATA + "; zero 1 on data", [], {"data": 2 * moved(4, P) + 2 * summed(4, 4)}, 0),
    "zero2": ("layers", "data = 4", DATA + "; zero 2 on data", [], {"data": 2 * moved(4, P) + 2 * summed(4, 4)}, 0),
    "zero3": ("layers", "data = 4", DATA + "; zero 3 on data", [], {"data": 3 * moved(4, P) + 2 * summed(4, 4)}, 0),
    "experts": ("experts", "expert = 4", "shard experts on expert; shard batch on expert", [],
                {"expert": LAYERS * 4 * switched(4, PLACES) + summed(4, ROUTERS) + 2 * summed(4, 4)}, 0),
    "pipeline": ("layers", "pipe = 4", "pipeline h on pipe; micro batch = 8", [], {"pipe": 2 * summed(4, 4)}, 6 * V),
    "chunks": ("layers", "pipe = 2", 'pipeline h on pipe (schedule = "interleaved_1f1b", chunks = 2); micro batch = 4', [],
               {"pipe": 2 * summed(2, 4)}, 6 * V),
    "there_and_back": ("layers", "pipe = 2", 'pipeline h on pipe (schedule = "zb_v"); micro batch = 4', [],
                       {"pipe": 2 * summed(2, 4)}, 4 * V),
    "three": ("layers", "pipe = 2, data = 2, tensor = 2", TENSOR + "; " + DATA + "; pipeline h on pipe; micro batch = 4", [],
              # tensor: each rank holds half of the samples and half of the layers
              {"tensor": LAYERS * 4 * summed(2, V) + 4 * summed(2, 4), "data": 4 * summed(2, MATRICES + 2 * GAINS) + 2 * summed(2, 4),
               "pipe": 4 * 2 * summed(2, 4)}, 2 * 2 * V),
}
# (bytes per element of parameters, gradients, optimizer state): precision
PRECISIONS = {
    (4, 4, 8): "mixed(compute = f32, params = f32, grads = f32)",
    (2, 2, 12): "mixed(compute = bf16, params = bf16, master = f32, grads = bf16)",
    (2, 4, 12): "mixed(compute = f16, params = f16, master = f32, grads = f32, loss_scale = 1024)",
}
passed, failures = 0, []


def check(holds, what):
    global passed
    passed += bool(holds)
    if not holds:
        failures.append(what)
        print("FAIL", what)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:]))
    return done.stdout


def write(name, model, mesh, lines):
    ranks = 1
    for size in re.findall(r"= (\d+)", mesh):
        ranks *= int(size)
    with open(name + ".dsl", "w") as file:
        file.write('include "%s/traffic_%s.dsl"\ncluster here { gpus = %d; gpu = "cpu" }\n' % (HERE, model, ranks))
        file.write("parallel it on here { mesh %s; %s }\n" % (mesh, lines))


def check_traffic(dtc, dtrun, name):
    model, mesh, lines, options, groups, channels = LAYOUTS[name]
    write(name, model, mesh, lines)
    compile_it = [dtc, name + ".dsl", "--parallel", "it"] + options
    report = json.loads(run(*compile_it, "--no-kernels", "--report=json"))["traffic"]
    run(*compile_it, "-o", name + ".plan")
    run(dtrun, name + ".plan", "--quiet", "--steps", str(STEPS), "--log", name + ".jsonl")
    with open(name + ".jsonl") as file:
        counted = [json.loads(line) for line in file if '"traffic"' in line][0]
    for source, times, said in ("the ranks count", STEPS, counted), ("the report says", 1, report):
        # groups of ranks that run different sums have rows of their own
        sums = {axis: sum(g["received"] for g in said["groups"] if g["axes"] == axis.split()) for axis in groups}
        for axis, want in groups.items():
            check(sums[axis] == times * want, "%s: %s %g bytes over %s, the formula %d" % (
                name, source, sums[axis], axis, times * want))
        check(sum(g["received"] for g in said["groups"]) == sum(sums.values()), "%s: other groups, too" % name)
        through = sum(c if isinstance(c, int) else c["received"] for c in said["channels"])
        check(through == times * channels, "%s: %s %g bytes through channels, the formula %d" % (
            name, source, through, times * channels))


def check_memory(dtc, level, sizes, micro):
    """The paper's (2 + 2 + K) P, (2 + 2) P + K P / n, 2 P + (2 + K) P / n, (2 + 2 + K) P / n; here K = 8 or 12. What no
    other micro-batch adds to is cut where it is made."""
    n, elements, name = 4, MATRICES + GAINS, "memory%d" % level
    lines = ("; zero %d on data" % level if level else "") + ("; micro batch = 2" if micro else "")
    write(name, "layers", "data = %d" % n, DATA + lines)
    said = run(dtc, name + ".dsl", "--parallel", "it", "--no-kernels", "--report=json", "--set", "train.optimizer=adamw(lr = 0.01)",
               "--set", "train.precision=" + PRECISIONS[sizes])
    memory = json.loads(said)["memory"]["stages"][0]
    for kind, size, cut in zip(("parameters", "gradients", "optimizer"), sizes, (level >= 3, level >= (2 if micro else 1), level >= 1)):
        want = size * elements // (n if cut else 1)
        check(memory[kind] == want, "zero %d, %s: %d bytes of %s, the formula %d" % (level, sizes, memory[kind], kind, want))


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in LAYOUTS:
            check_traffic(dtc, dtrun, name)
        for sizes in PRECISIONS:
            for level in range(4):
                for micro in (False, True):
                    check_memory(dtc, level, sizes, micro)
    print("%d passed, %d failed" % (passed, len(failures)))
    sys.exit(bool(failures))


main()
