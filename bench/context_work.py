#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention under causal context parallelism: what each of 4 ranks computes and receives, layout
against layout.

    bench/context_work.py BUILD [SEQ]

One layer of causal attention is trained for two steps under each layout; `dtrun --trace` tells
which matrix products of attention each rank ran, `--log` how many bytes ranks received. Columns:
the products' floating-point operations on each rank, as multiples of a quarter of what one rank
does alone (so 1 everywhere is the best there is, and the largest one is what all wait for); the
largest; bytes received by all ranks per step, gradients of parameters included, in units of the
keys (batch x seq x heads x head, 4 bytes each). Operations and bytes are counted; the last column,
milliseconds inside these products on the slowest rank, is measured and means something on an idle
machine only.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

RANKS, STEPS, HEADS, HEAD = 4, 2, 4, 32
PROGRAM = """include "std.dsl"
dim batch = 1, seq = {seq}, kseq = seq, embed = 64, heads = {heads}, head = {head}
model net(x[batch, seq, embed]) -> [batch, seq, embed] {{
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o, bias = false)
}}
train {{
  x[batch, seq, embed] = synthetic(-1, 1)
  y = net(x)
  loss = mean[batch, seq, embed](y * y)
  optimizer = sgd(lr = 0.01)
  steps = {steps}
}}
cluster alone {{ gpus = 1; gpu = "cpu" }}
cluster here {{ gpus = {ranks}; gpu = "cpu" }}
parallel serial on alone {{ mesh data = 1; shard batch on data }}
"""
LAYOUTS = {
    "gather": "shard seq on context",
    "gather, zigzag": "shard seq on context (order = zigzag)",
    "ring": "shard seq on context; shard kseq on context (ring = true)",
    "ring, zigzag": "shard seq on context (order = zigzag); shard kseq on context (ring = true, order = zigzag)",
    "Ulysses": "shard attend.heads on context; shard seq on context",
}
# Half as many heads, twice as wide. If the heads divided over the ranks, all-to-alls of heads
# would replace gathers.
FEW_HEADS = ["-D", "heads=%d" % (HEADS // 2), "-D", "head=%d" % (2 * HEAD)]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:]))


def measure(build, source, layout, ranks, options=()):
    """Operations and milliseconds of attention's products by rank, and received bytes, of one
    step."""
    run(os.path.join(build, "dtc"), source, "--parallel", layout, "-o", "plan", *options)
    run(os.path.join(build, "dtrun"), "plan", "--quiet", "--steps", str(STEPS), "--trace", "trace.json",
        "--overwrite", "--log", "log.jsonl")
    flops, times, received = [0] * ranks, [0.0] * ranks, 0
    with open("trace.json") as file:
        for event in json.load(file)["traceEvents"]:
            shape = re.fullmatch(r"gemm (\d+)x(\d+)x(\d+)(?: x(\d+))?", event.get("name", ""))
            line = re.match(r".*std\.dsl:(\d+):", event.get("args", {}).get("line", ""))
            if not shape or not line or int(line.group(1)) not in ATTEND:
                continue
            m, n, k, batch = (int(size or 1) for size in shape.groups())
            flops[event["pid"]] += 2 * m * n * k * batch
            times[event["pid"]] += event["dur"] / 1000
    with open("log.jsonl") as file:
        for event in map(json.loads, file):
            if event.get("event") == "traffic":
                received += sum(group["received"] for group in event["groups"])
    return [x / STEPS for x in flops], [t / STEPS for t in times], received / STEPS


def main(arguments):
    global ATTEND
    build = os.path.abspath(arguments[0])
    seq = int(arguments[1]) if len(arguments) > 1 else 1024
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "lib", "std.dsl")) as file:
        lines = file.read().split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("fn attend["))
    ATTEND = range(first + 1, lines.index("}", first) + 2)
    keys = 4 * seq * HEADS * HEAD
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("context.dsl", "w") as file:
            file.write(PROGRAM.format(seq=seq, heads=HEADS, head=HEAD, steps=STEPS, ranks=RANKS))
            for number, lines in enumerate(LAYOUTS.values()):
                file.write("parallel l%d on here { mesh context = %d; %s }\n" % (number, RANKS, lines))
        (whole,), (alone,), _ = measure(build, "context.dsl", "serial", 1)
        print("%d queries and keys, %d heads of %d, %d ranks; one rank alone: %.3g operations, %.1f ms"
              % (seq, HEADS, HEAD, RANKS, whole, alone))
        print("%-16s %s %10s %10s %8s"
              % ("", "   ".join("rank %d" % r for r in range(RANKS)), "largest", "received", "ms"))
        for number, name in enumerate(LAYOUTS):
            flops, times, received = measure(build, "context.dsl", "l%d" % number, RANKS,
                                             FEW_HEADS if name.startswith("gather") else ())
            parts = [x * RANKS / whole for x in flops]
            print("%-16s %s %10.3f %10.2f %8.1f"
                  % (name, "   ".join("%6.3f" % part for part in parts), max(parts), received / keys, max(times)))


if __name__ == "__main__":
    main(sys.argv[1:])
