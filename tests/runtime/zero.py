#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ZeRO on real ranks:  zero.py DTC DTRUN [--bless]

A small model (zero.dsl) on four processes for 20 steps under ZeRO 1, 2, 3, with small buckets, hybrid, beside tensor
parallelism and in a pipeline. What is checked:

  - Losses and gradient norms are those without ZeRO: gradients are the same numbers, only the sum of squares (and, with
    other meshes, sums over ranks) is taken in another order, so a few last bits (6e-8 each) may differ; 1e-6 relative.
  - Checkpoints hold the same tensors with the same values, and a run that was saved under one level goes on under another.
  - Bytes per rank of parameters, gradients, optimizer state are the formulas of the paper (Rajbhandari et al., 2020,
    section 5) over padded buckets; padding is less than a run of 64 bytes per rank and bucket.
  - Bytes received are those of a reduce_scatter and an all_gather of each bucket where the level has them, exactly, and at
    most the paper's 2 or 3 times the parameters per micro-batch.
  - In a pipeline a stage gathers once before its first piece, and then each piece for the next one.
  - `prefetch` changes no bit of losses and norms and no byte of traffic; before the first loop of the first micro-batch k
    iterations are gathered, and in every iteration the one k behind it before anything is computed: behind the forward
    loop comes the backward loop, behind that the next micro-batch's forward loop; k + 1 slots for all and not more.
  - So it is where a loop of gradients made apart gathers and carries nothing else (zero_apart.dsl).
  - IR after the pass: tests/golden/passes/zero1.txt, zero2.txt, zero3.txt; schedules with `prefetch`: zero_ahead.txt,
    zero_pieces.txt (--bless writes them).
"""
import array
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(os.path.dirname(HERE), "golden", "passes")
RANKS, MICRO, LAYERS, STEPS, SAVED = 4, 2, 3, 20, 8
# (iterations, elements, elements with padding, whether backward needs the parameters): matrices, biases of a layer (a bias is
# added again to the product that is saved); embedding
BUCKETS = [(LAYERS, 256, 256, True), (LAYERS, 24, 64, True), (1, 128, 128, False)]
PARAMETERS = sum(n * used for n, used, _, _ in BUCKETS)
PADDED = sum(n * extent for n, _, extent, _ in BUCKETS)
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAIL", what)


def close(a, b, tolerance):
    return abs(a - b) <= tolerance * abs(b)


def run(command):
    done = subprocess.run(command, capture_output=True, timeout=100)
    if done.returncode:
        sys.exit("%s\n%s%s" % (" ".join(command), done.stdout.decode(), done.stderr.decode()))
    return done.stdout.decode()


def read_log(path):
    with open(path) as file:
        events = [json.loads(line) for line in file]
    steps = [(e["loss"], e["grad_norm"]) for e in events if e["event"] == "step"]
    traffic = [g for e in events if e["event"] == "traffic" for g in e["groups"]]
    return steps, traffic


def read_tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, about in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            first, end = about["data_offsets"]
            tensors[name] = array.array("f", data[8 + n + first:8 + n + end])
    return tensors


def read_checkpoint(folder):
    tensors = {}
    for path in ("model.safetensors", "optimizer.safetensors"):
        tensors.update(read_tensors(os.path.join(folder, "step-%08d" % STEPS, path)))
    return tensors


def compare_runs(name, got, want):
    check(len(got) == len(want), "%s: %d steps instead of %d" % (name, len(got), len(want)))
    for step, (a, b) in enumerate(zip(got, want)):
        check(close(a[0], b[0], 1e-6), "%s: step %d: loss %r instead of %r" % (name, step + 1, a[0], b[0]))
        check(close(a[1], b[1], 1e-6), "%s: step %d: norm %r instead of %r" % (name, step + 1, a[1], b[1]))


def compare_tensors(name, got, want):
    check(sorted(got) == sorted(want), "%s: its checkpoint has other tensors" % name)
    for tensor in got:
        # an Adam step has a length of at most lr = 0.01, and its sign is arbitrary if a gradient
        # is nothing but rounding errors
        worst = max(abs(a - b) for a, b in zip(got[tensor], want[tensor]))
        check(worst <= 1e-5, "%s: `%s` differs by %g" % (name, tensor, worst))


def arena_bytes(dump):
    return {kind: int(n) for kind, n in re.findall(r'^AREN name="(\w+)".* bytes=(\d+)', dump, re.M)}


def check_memory(level, dump):
    whole, part = 4 * PADDED, 4 * PADDED // RANKS
    want = {"parameters": part if level == 3 else whole, "gradients": part if level >= 2 else whole, "optimizer": 2 * part}
    got = arena_bytes(dump)
    check(int(re.search(r"^META .*parameters=(\d+)", dump, re.M).group(1)) == PARAMETERS, "parameters are not counted once")
    for arena, n in want.items():
        check(got[arena] == n, "zero %d: %d bytes of %s instead of %d" % (level, got[arena], arena, n))
    for _, used, extent, _ in BUCKETS:
        check(extent - used < RANKS * 16, "a bucket has more padding than a run of 64 bytes per rank")


def check_traffic(level, traffic):
    # bytes that a rank receives, for an element, from each of the others
    share, once = RANKS - 1, 4 // RANKS
    scatters = 1 if level == 1 else MICRO
    gathers = [MICRO * (2 if backward else 1) if level == 3 else 1 for _, _, _, backward in BUCKETS]
    scalars = 2 * 2 * share * once  # all_reduces of the loss and of the norm's square
    want = scalars + share * once * sum((scatters + g) * n * extent for g, (n, _, extent, _) in zip(gathers, BUCKETS))
    got = sum(group["received"] for group in traffic)
    check(got == RANKS * STEPS * want, "zero %d: a rank receives %g bytes a step instead of %d" %
          (level, got / RANKS / STEPS, want))
    bound = (3 * MICRO if level == 3 else 1 + scatters) * 4 * PADDED * share / RANKS
    check(want <= bound + scalars, "zero %d: more traffic than the paper's" % level)


def bodies(dump):
    """The instructions of each body of the plan."""
    insts = re.findall(r"^INST kind=(\w+)", dump, re.M)
    return [insts[int(first or 0):int(first or 0) + int(n)]
            for first, n in re.findall(r"^BODY [^\n]*?(?:first_inst=(\d+) )?n_insts=(\d+)", dump, re.M)]


def items_of(dump, entry):
    """The items of the entry's schedule. Items that a WHEN guards have the key `if`, with (register,
    first, count) of each."""
    first, count = re.search(r'^ENTR name="%s"(?: first=(\d+))?(?: count=(\d+))?' % entry, dump, re.M).groups()
    items = [dict(field.split("=") for field in item.split())
             for item in re.findall(r"^SCHD (.*?)(?: # \d+)?$", dump, re.M)[int(first or 0):int(first or 0) + int(count or 0)]]
    for item in items:
        item["if"] = []
    for i, item in enumerate(items):
        if item["kind"] == "when":
            for inner in items[i + 1:i + 1 + int(item["body"])]:
                inner["if"] = inner["if"] + [tuple(int(item.get(name, 0)) for name in ("reg", "first", "count"))]
    return [item for item in items if item["kind"] != "when"]


def check_ahead(ahead, dump, plain):
    """The loops over layers, there and back: the first iterations are gathered in the first micro-batch, then each loop's
    in itself and those of the loop behind it, into slots in turn; nothing else is gathered in a loop."""
    items, insts = items_of(dump, "step"), bodies(dump)
    gathers = [set(insts[int(item.get("body", 0))]) == {"all_gather"} if item["kind"] == "run" else False for item in items]
    at = [i for i, item in enumerate(items) if item["kind"] == "loop" and int(item["count"]) == LAYERS]
    check(len(at) == 2, "ahead %d: %d loops over layers" % (ahead, len(at)))
    end = at[0] - 1  # here the value that the loop carries is copied
    check(items[end]["kind"] == "run" and not items[end]["if"] and not gathers[end], "ahead %d: what the loop carries" % ahead)
    begin = items[end - 1 - 2 * ahead:end]
    check([item["kind"] for item in begin] == ["set"] + ["run", "set"] * ahead and
          all(item["if"] == [(0, 0, 1)] for item in begin) and
          gathers[end - 1 - 2 * ahead:end] == [False] + [True, False] * ahead,
          "ahead %d: the first gathers are not where they belong" % ahead)
    own, behind = (1, 0, LAYERS - ahead), (1, LAYERS - ahead, ahead)
    back_own, back_behind = (1, ahead, LAYERS - ahead), (1, 0, ahead)
    for loop, guards in zip(at, ([[own], [behind]], [[back_own], [(0, 0, MICRO - 1), back_behind]])):
        inside = items[loop + 1:next(i for i in range(loop, len(items)) if items[i]["kind"] == "end")]
        check([item["kind"] for item in inside[:4]] == ["run", "run", "set", "run"] and
              [item["if"] for item in inside[:2]] == guards and int(inside[2]["count"]) == ahead + 1 and
              gathers[loop + 1:loop + 3] == [True, True] and
              not any("all_gather" in insts[int(item["body"])] for item in inside[3:] if item["kind"] == "run"),
              "ahead %d: the loop is no loop that gathers ahead: %s" % (ahead, inside))
    more = arena_bytes(dump)["activations"] - arena_bytes(plain)["activations"]
    check(0 < more <= (ahead + 1) * 4 * sum(extent for n, _, extent, _ in BUCKETS if n == LAYERS),
          "ahead %d: %d bytes more" % (ahead, more))


def check_pieces(dtc, dtrun, program):
    """Pieces of a pipeline that gather for each other: they give the same bits and bytes; in each
    stage one piece begins with gathers."""
    for name in "chunks", "apart":
        logs = {}
        for layout in name, name + "_ahead":
            run([dtc, program, "--parallel", layout, "-D", "layers=8", "-o", layout + ".plan"])
            run([dtrun, layout + ".plan", "--steps", "8", "--log", layout + ".jsonl"])
            logs[layout] = read_log(layout + ".jsonl")
        check(logs[name] == logs[name + "_ahead"], "%s_ahead: other losses, norms or traffic than %s" % (name, name))
        dump = run([dtc, "dump", name + "_ahead.plan"])
        names = re.findall(r'^ENTR name="(grad[^"]*)"', dump, re.M)
        begin = [entry for entry in names if any(item["kind"] == "set" and "step" not in item for item in items_of(dump, entry))]
        check(len(begin) == 2, "%s: %s begin with gathers of their own" % (name, begin))


def check_golden(name, text, bless):
    path = os.path.join(GOLDEN, name + ".txt")
    if bless:
        with open(path, "w") as file:
            file.write(text)
    with open(path) as file:
        check(file.read() == text, "%s is not what is made now (--bless writes it)" % path)


def check_goldens(dtc, bless):
    after = ["--print-after=zero", "-o", os.devnull]
    goldens = {"zero1": after, "zero2": after, "zero3": after, "zero_ahead": ["--emit=schedule"],
               "zero_pieces": ["--emit=schedule", "-D", "layers=4"]}
    for name, options in goldens.items():
        said = run([dtc, os.path.join(GOLDEN, "zero.dsl"), "--parallel", name, "--no-kernels"] + options)
        check_golden(name, re.sub(r" @\d+:\d+-\d+|    # .*", "", said), bless)


def check_apart(dtc, dtrun):
    runs = {}
    for name in "serial", "plain", "ahead":
        run([dtc, os.path.join(HERE, "zero_apart.dsl"), "--parallel", name, "-o", "apart.plan"])
        run([dtrun, "apart.plan", "--log", "alone_%s.jsonl" % name])
        runs[name] = read_log("alone_%s.jsonl" % name)
    compare_runs("zero_apart", runs["plain"][0], runs["serial"][0])
    check(runs["ahead"] == runs["plain"], "zero_apart: `prefetch` changes losses, norms or traffic")


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    program = os.path.join(HERE, "zero.dsl")
    check_goldens(dtc, "--bless" in sys.argv or "DT_BLESS" in os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        runs = {}
        for name in "z0", "z1", "z2", "z3", "small", "hybrid", "tensor", "pipe", "ahead1", "ahead2", "micro4", "ahead_micro4", \
                "pipe_ahead":
            run([dtc, program, "--parallel", name, "-o", name + ".plan"])
            run([dtrun, name + ".plan", "--log", name + ".jsonl", "--save", name])
            runs[name] = read_log(name + ".jsonl")
            if name == "z0":
                tensors = read_checkpoint(name)
                continue
            compare_runs(name, runs[name][0], runs["z0"][0])
            compare_tensors(name, read_checkpoint(name), tensors)
            if "ahead" in name:
                same = {"pipe_ahead": "pipe", "ahead_micro4": "micro4"}.get(name, "z3")
                check(runs[name] == runs[same], "%s: other losses, norms or traffic than %s" % (name, same))
            if name in ("ahead1", "ahead2"):
                check_ahead(int(name[5]), run([dtc, "dump", name + ".plan"]), run([dtc, "dump", "z3.plan"]))
            if name in ("z1", "z2", "z3"):
                check_memory(int(name[1]), run([dtc, "dump", name + ".plan"]))
                check_traffic(int(name[1]), runs[name][1])
        check_pieces(dtc, dtrun, program)
        check_apart(dtc, dtrun)
        for saved, resumed in ("z3", "z0"), ("z0", "z1"), ("z1", "hybrid"), ("tensor", "z3"), ("z2", "pipe"):
            half = "half_%s_%s" % (saved, resumed)
            run([dtrun, saved + ".plan", "--steps", str(SAVED), "--save", half])
            run([dtrun, resumed + ".plan", "--resume", half, "--log", half + ".jsonl"])
            compare_runs("%s after %s" % (resumed, saved), read_log(half + ".jsonl")[0], runs["z0"][0][SAVED:])
    print("%d failures" % len(failures))
    sys.exit(bool(failures))


main()
