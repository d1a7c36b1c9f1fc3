# SPDX-License-Identifier: Apache-2.0
"""dtrun --graph on stand-ins of CUDA's libraries: graphs.py DTC DTRUN

Runs with graphs have the bits of runs without: one rank, micro-batches, random draws, a schedule of rates, held-out data, ranks
that talk by NCCL or through memory of the host, stages of a pipeline, a run that goes on. The stand-in starts what a graph
has in any order that was captured, and refuses what may not be done while it is captured (test_graph.c).

With DT_SHARE=K/N in the environment (tests/share.py) one of N of PROGRAMS runs, and the first two, which other checks use."""

import json
import os
import re
import sys
import tempfile

from training import INTERPRETED, ROOT, SMALL, bytes_of, run, share

STEPS = 5
ZERO = os.path.join(ROOT, "tests/runtime/zero.dsl")
DRAWS = """
include "std.dsl"
dim batch = 4, seq = 4, vocab = 16, embed = 8, ffn = 16, layers = 2
layer block(x[batch, seq, embed]) -> [batch, seq, embed] {
  y = up:linear[embed, ffn](x)
  return x + dropout(down:linear[ffn, embed](max(y, 0)), 0.25)
}
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.1)
  x = wte[vocab = tokens]
  repeat h in layers { x = block(x) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = warmup_cosine(0.01, warmup = 2, total = 8), clip = 1.0)
  steps = 20
  eval = every(1, steps = 3, data = next_token(synthetic(0, vocab)))
}
"""
# name, file, layout, GPUs, arguments of dtc, of dtrun, what the log says about the graphs of entry
# "step"
PROGRAMS = [
    ("gpt", os.path.join(ROOT, "examples/quickstart.dsl"), "none", 1, ["--data=synthetic", *SMALL], [], r"2 graphs of \d+ instr.*, 1 outside"),
    ("draws", "draws.dsl", "none", 1, [], [], r"2 graphs of \d+ instructions, 1 outside of them$"),
    ("micro", ZERO, "z2", 4, [], [], r"[2-9]\d* graphs of"),
    ("shm", ZERO, "z2", 4, [], ["--comm", "shm"], r"[2-9]\d* graphs of"),
    ("pipeline", ZERO, "pipe", 4, [], [], r"graphs? of"),
]


def train(dtrun, plan, name, gpus, order, *arguments):
    os.environ["DT_STANDIN"] = "gpus=%d %s" % (gpus, order)
    run(dtrun, plan, "--quiet", "--overwrite", "--steps", str(STEPS), "--log", name + ".log", "--save", name, *arguments)
    with open(name + ".log") as file:
        log = [json.loads(line) for line in file]
    losses = [(e["event"], e["step"], e.get("loss"), e.get("grad_norm")) for e in log if e["event"] in ("step", "eval")]
    step = os.path.join(name, "step-%08d" % STEPS)
    tensors = [bytes_of(os.path.join(step, file)) for file in ("model.safetensors", "optimizer.safetensors")]
    return losses, tensors, [e["text"] for e in log if e["event"] == "graphs"]


def check(dtc, dtrun, name, file, layout, gpus, compiled, more, said):
    plan = name + ".plan"
    run(dtc, file, "--parallel", layout, "--target=" + INTERPRETED, "-o", plan, "--epilogues=all", *compiled)
    wanted = train(dtrun, plan, name, gpus, "", *more)
    assert len(wanted[0]) >= STEPS and not wanted[2]
    for order in ("", "oldest", "chance=3"):
        got = train(dtrun, plan, name + ".graph", gpus, order, "--graph", *more)
        assert got[0] == wanted[0], "%s %s: steps are %s instead of %s" % (name, order, got[0], wanted[0])
        assert got[1] == wanted[1], "%s %s: checkpoints differ" % (name, order)
        assert any(line.startswith("step: ") and re.search(said, line) for line in got[2]), got[2]
    print("ok", name, flush=True)
    return wanted


def check_resumed(dtrun, wanted):
    os.environ["DT_STANDIN"] = "gpus=1"
    run(dtrun, "draws.plan", "--quiet", "--steps", "2", "--save", "part", "--graph")
    run(dtrun, "draws.plan", "--quiet", "--steps", str(STEPS), "--resume", "part", "--graph")
    step = os.path.join("part", "step-%08d" % STEPS)
    assert [bytes_of(os.path.join(step, f)) for f in ("model.safetensors", "optimizer.safetensors")] == wanted[1]


def check_refused(dtc, dtrun):
    run(dtc, "draws.dsl", "--parallel", "none", "-o", "cpu.plan")
    for plan, arguments, wanted in (
            ("cpu.plan", [], "--graph is for GPUs, and this plan runs on device `cpu`"),
            ("draws.plan", ["--profile"], "--graph and --profile exclude each other"),
            ("draws.plan", ["--sync"], "--graph and --sync exclude each other"),
            ("draws.plan", ["--trace", "t"], "--graph and --trace exclude each other"),
            ("draws.plan", ["--record", "r"], "--graph and --record exclude each other")):
        said = run(dtrun, plan, "--quiet", "--steps", "1", "--graph", *arguments, wants=2)
        assert wanted in said, said


def check_fault(dtrun):
    """A kernel that was captured fails: the run ends."""
    os.environ["DT_STANDIN"] = "gpus=1 fault=60"
    said = run(dtrun, "gpt.plan", "--quiet", "--steps", str(STEPS), "--graph", wants=1)
    assert "rank 0 failed: the GPU failed to" in said and "an illegal memory access" in said, said


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("draws.dsl", "w") as file:
            file.write(DRAWS)
        programs = PROGRAMS[:2] + share.of(PROGRAMS[2:])
        results = {program[0]: check(dtc, dtrun, *program) for program in programs}
        check_resumed(dtrun, results["draws"])
        check_refused(dtc, dtrun)
        check_fault(dtrun)
    print("%d passed, 0 failed" % (len(programs) + 3))


main()
