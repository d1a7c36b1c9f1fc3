#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pass `expand` writes, form by form: forms.py DTC [STRIDE]

Every form of the functions that `expand` makes is proved (verify/box.h) and evaluated here, all ranks in lockstep and in double
precision, against the serial program: loss, gradients of everything, updated parameters. A form is a number of ranks (2 to 4), an
order of blocks, how heads go with keys, what is masked or added, and what else is split beside; or several mesh axes
in the place of one, and how queries and keys lie on them. Each program has all ops that must know the zigzag order. The
functions that the pass can make must occur. With STRIDE one form of so many is evaluated.
"""
import collections
import concurrent.futures
import itertools
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = (2, 3, 4)
ORDERS = {  # keys travel in plain blocks, in zigzag order; they are gathered
    "ring": ("shard seq on context", "shard kseq on context (ring = true)"),
    "zigzag ring": ("shard seq on context (order = zigzag)", "shard kseq on context (ring = true, order = zigzag)"),
    "zigzag": ("shard seq on context (order = zigzag)",),
}
SEVERAL = ((2, 2), (2, 3), (3, 2), (2, 2, 2))  # sizes of mesh axes a, b, c
SPREAD = {  # all: a, b, c; turned: c, b, a
    "in order": ("shard seq on {all}{seq}", "shard kseq on {all}{keys}"),
    "turned": ("shard seq on {turned}{seq}", "shard kseq on {turned}{keys}"),
    "across": ("shard seq on {all}{seq}", "shard kseq on {turned}{keys}"),
    "gathered behind": ("shard seq on {all}{seq}", "shard kseq on a{keys}", "shard kseq on b{seq}"),
    "gathered before": ("shard seq on {turned}{seq}", "shard kseq on a{keys}"),
    "heads": ("shard attend.kv on b", "shard seq on {all}{seq}", "shard kseq on {all}{keys}"),
    "groups": ("shard attend.group on b", "shard seq on {all}{seq}", "shard kseq on {all}{keys}"),
}
OPTIONS = {  # of queries, of keys; None: keys have no line
    "ring": ("", " (ring = true)"),
    "zigzag ring": (" (order = zigzag)", " (ring = true, order = zigzag)"),
    "zigzag": (" (order = zigzag)", None),
}
HEADS = {"one head": "", "heads": "kv", "grouped heads": "kv, group"}
# arguments of attend: masks and biases that are computed from positions, from data, from parameters
SCORES = {
    "nothing": "",
    "causal": ", mask = iota[kseq] <= iota[seq]",
    "window": ", mask = iota[kseq] <= iota[seq] and iota[seq] - iota[kseq] < 3",
    "data": ", mask = seen[seq -> kseq] > 0.3",
    "data and causal": ", mask = seen[seq -> kseq] > 0.3 and iota[kseq] <= iota[seq]",
    "slope": ", bias = f32(iota[kseq] - iota[seq]) * 0.1, mask = iota[kseq] <= iota[seq]",
    "keys": ", bias = sink",
    "distances": ", bias = near[far = min(abs(iota[seq] - iota[kseq]), 3)]",
    "scale": ", mask = iota[kseq] <= iota[seq]",  # a learned bias
}
MAKES = {  # functions that the pass must make, for every number of ranks
    "ring": ["attend.ring", "attend.bwd.ring"],
    "zigzag ring": ["attend.ring", "attend.bwd.ring", "iota.zigzag", "rng.zigzag", "shard.zigzag", "gather.zigzag",
                    "scatter_add.zigzag", "all_gather.zigzag"],
    "zigzag": ["reduce_scatter.zigzag"],
}
PROGRAM = """include "std.dsl"
dim batch = 4, seq = {seq}, kseq = seq, vocab = 6, embed = 6, head = 3{dims}
layer mix(x[batch, seq, embed], seen[batch, seq]) -> [batch, seq, embed] {{
  {params}
  angle = f32(iota[seq]) * exp(-f32(iota[head]))
  q = wq:linear[embed, ({queries})](x, bias = false)
  k = (wk:linear[embed, ({keys})](x, bias = false) * (1 + cos(angle) * 0.1))[seq -> kseq]
  v = wv:linear[embed, ({keys})](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = {scale}{scores})
  return wo:linear[({queries}), embed](o)
}}
model forms(i32 tokens[batch, seq]) -> [batch, seq, vocab] {{
  param wte[vocab, embed] = normal(0.5)
  param wpe[seq, embed] = normal(0.2)
  x = wte[vocab = tokens] + wpe
  seen = exp(-f32(tokens) * 0.2)
  x = x + dropout(mix(x, seen), 0.1)
  x = x + x[seq = tokens] * 0.1
  x = x + x[seq = tokens[seq = 1]] * 0.1
  return x @embed wte
}}
train {{
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  valid = labels > 1
  loss = sum[batch, seq](where(valid, xent[vocab](forms(tokens), labels), 0)) / max(sum[batch, seq](f32(valid)), 1)
  optimizer = adamw(lr = 0.05, decay = 0.1)
  steps = 2
  {precision}
}}
cluster ranks {{ nodes = 1; gpus = {gpus}; gpu = "cpu" }}
parallel form on ranks {{
  mesh {mesh}
  {lines}
}}
"""


def spread(sizes, order, how):
    """Lines for several mesh axes, the mesh, and the number of its ranks."""
    names = "abc"[:len(sizes)]
    seq, keys = OPTIONS[order]
    lines = [line.format(all=", ".join(names), turned=", ".join(reversed(names)), seq=seq, keys=keys)
             for line in SPREAD[how] if keys or "kseq" not in line]
    return lines, ", ".join("%s = %d" % pair for pair in zip(names, sizes)), math.prod(sizes)


def program(ranks, order, heads, scores, beside):
    if isinstance(ranks, tuple):
        lines, mesh, ranks = spread(ranks, order, beside)
    else:
        lines, mesh = list(ORDERS[order]), "context = %d" % ranks
    gpus = ranks * (2 if beside in ("batch", "heads of all") else 1)
    if beside == "batch":
        mesh, lines = "data = 2, " + mesh, lines + ["shard batch on data", "micro batch = 2"]
    if beside == "heads of all":
        mesh, lines = mesh + ", tensor = 2", lines + ["shard kv, vocab on tensor" if heads != "one head"
                                                      else "shard embed on tensor"]
    precision = "precision = mixed(compute = bf16, params = f32, grads = f32)" if beside == "16 bits" else ""
    axes = HEADS[heads]
    keys = axes.split(",")[0]
    params = {"keys": "param sink[kseq%s] = normal(0.3)" % (", " + keys if keys else ""),
              "distances": "param near[far] = normal(0.3)", "scale": "param gain[unit] = ones"}.get(scores, "")
    dims = {"": "", "kv": ", kv = 2", "kv, group": ", kv = 2, group = 2"}[axes]
    dims += {"distances": ", far = 4", "scale": ", unit = 1"}.get(scores, "")
    return PROGRAM.format(
        dims=dims, seq=4 * ranks, params=params, queries=", ".join(filter(None, [axes, "head"])),
        keys=", ".join(filter(None, [keys, "head"])), scale="sum[unit](gain)" if scores == "scale" else "0.5",
        scores=SCORES[scores], gpus=gpus, mesh=mesh, precision=precision, lines="\n  ".join(lines))


def forms():
    """All forms with one mesh axis; some with another axis as well; some with several."""
    alone = [form + (None,) for form in itertools.product(RANKS, ORDERS, HEADS, SCORES)]
    beside = list(itertools.product((2, 3), ORDERS, HEADS, ("causal", "data", "distances"),
                                    ("batch", "heads of all")))
    # Keys that are an f32 product have f32 gradients, which are sums of 16-bit terms that the ring
    # adds.
    narrow = list(itertools.product((2, 3), ORDERS, ("heads",), ("causal",), ("16 bits",)))
    several = [(sizes, order, heads, scores, how) for sizes, order, heads, scores, how in itertools.product(
        SEVERAL, OPTIONS, ("one head", "grouped heads"), ("causal", "data", "distances"), SPREAD)
        if how not in ("heads", "groups") or (heads != "one head" and sizes[1] == 2)]
    return alone + beside + narrow + several


def evaluate(dtc, folder, number, form):
    """Returns what is wrong, and the functions that were made."""
    path = os.path.join(folder, "%d.dsl" % number)
    with open(path, "w") as file:
        file.write(program(*form))
    done = subprocess.run([dtc, path, "--verify", "--no-kernels", "--print-after=expand"], capture_output=True, text=True, timeout=120)
    made = re.findall(r"^func ([\w.]+\.(?:ring|zigzag))", done.stdout, flags=re.M)
    proved = "what ranks do for rings and the zigzag order is that" in done.stdout
    if done.returncode or "made smaller" in done.stdout or not proved or "\nequal to the serial program" not in done.stdout:
        return done.stdout[-300:] + done.stderr[done.stderr.find("error"):][:600], made
    return None, made


def kind_of(name):
    return re.sub(r"\.\d+", "", name)


def main(dtc, stride):
    chosen, failed, made = forms()[::stride], 0, collections.Counter()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(evaluate, dtc, folder, i, form) for i, form in enumerate(chosen)]
        for form, job in zip(chosen, jobs):
            wrong, names = job.result()
            made.update({(form[0], form[1], kind_of(name)) for name in names})
            if wrong:
                failed += 1
                print("FAIL %s ranks, %s, %s, %s, beside %s: %s" % (form + (wrong,)))
    for order, names in MAKES.items():
        for name, ranks in itertools.product(names, RANKS if stride == 1 else ("any",)):
            if not any(key[0] == ranks or ranks == "any" for key in made if key[1:] == (order, name)):
                failed += 1
                print("FAIL %s ranks, %s: %s is never made" % (ranks, order, name))
    print("%d forms, %d failed" % (len(chosen), failed))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1))
