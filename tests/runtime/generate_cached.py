#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--generate with a cache: the same tokens as without one: generate_cached.py DTC DTRUN [NAME...]

Each model is compiled with and without `generate = cached(...)`. Both plans continue prompts of different lengths,
more of them than rows, past the end of the window, at temperature 0 and 1. Models of the library, and one of each kind
of layer that a cache knows; heads split over 2 ranks, samples and heads over 4. Tiny models of Hugging Face, imported
into such plans on 1 rank and on 2 with tensor parallelism, write the tokens that `generate` of transformers writes
(import_transformers.py compares these with it)."""
import array
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import families

WINDOW, TOKENS = 24, 110
SIZES = "batch = 4, seq = %d, vocab = 64, layers = 2, embed = 16, ffn = 24" % WINDOW
TRAIN = """
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin("tokens.bin", u8))
  loss = mean[batch, seq](xent[vocab](%s(tokens), labels))
  optimizer = adamw(lr = 0.02)
  steps = 30%s
}
"""
LAYOUTS = """
cluster two { nodes = 1; gpus = 2; gpu = "cpu" }
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
parallel heads on two { mesh tensor = 2; shard %s, ffn, vocab on tensor }
parallel both on four { mesh data = 2, tensor = 2; shard %s, ffn, vocab on tensor; shard batch on data; zero 3 on data }
"""
OWN = """include "std.dsl"
dim %s, kseq = seq
axis tap
layer part(x[batch, seq, embed]) -> [batch, seq, embed] {
%%s
}
model own(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], wpe[seq, embed] = normal(0.3)
  x = wte[vocab = tokens] + wpe
  repeat h in layers { x = x + mat(part(n:layernorm[embed](x))) }
  return x @embed wte
}
layer mat(x[..., embed]) -> [..., embed] {
  param w[embed, ffn], v[ffn, embed] = normal(0.3)
  return gelu(x @embed w) @ffn v
}
""" % SIZES


# a position's number, and a sum of token numbers, in the kernel that also chooses the last position
NUMBERS = """include "std.dsl"
dim %s
layer pre(x[batch, seq, embed]) -> [batch, seq, embed] { return n:rmsnorm[embed](x) }
layer waves(x[batch, seq, embed], i32 tokens[batch, seq]) -> [batch, seq, embed] {
  return x * sin(cumsum[seq](tokens) * 0.1)
}
layer means(x[batch, seq, embed]) -> [batch, seq, embed] { return cumsum[seq](x) / (1 + iota[seq]) }
model own(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  x = wte[vocab = tokens]
  x = x + waves(p0:pre(x), tokens)
  x = x + means(p1:pre(x))
  return p2:pre(x) @embed wte
}
""" % SIZES.replace("layers = 2, ", "").replace(", ffn = 24", "")


def library(file, dims, lines=""):
    return 'include "models/%s.dsl"\ndim %s, %s\n%s\n' % (file, SIZES, dims, lines)


# name: (program, its model, the axis of heads that ranks split)
MODELS = {
    "gpt2": (library("gpt2", "heads = 4, positions = %d" % WINDOW), "gpt2", "heads"),
    "llama": (library("llama", "heads = 4, kv = 2"), "llama", "kv"),
    "mistral": (library("mistral", "heads = 4, kv = 2", "constant reach = 7"), "mistral", "kv"),
    "qwen3": (library("qwen3", "heads = 4, kv = 2, head = 4"), "qwen3", "kv"),
    "gemma3": (library("gemma3", "heads = 4, kv = 2, head = 4", "constant reach = 7, interval = 2"), "gemma3", "kv"),
    "mixtral": (library("mixtral", "heads = 4, kv = 2, experts = 4, choice = 2"), "mixtral", "kv"),
    # the cache has `low` numbers of each position, and heads are made of them
    "latent": (OWN % """  dim_low = down:linear[embed, low](x, bias = false)
  k = keys:linear[low, (heads, head)](dim_low[seq -> kseq], bias = false)
  v = values:linear[low, (heads, head)](dim_low[seq -> kseq], bias = false)
  q = queries:linear[embed, (heads, head)](x, bias = false)
  o = attend[seq, kseq, head](q, k, v, scale = 0.5, mask = not (iota[seq] < iota[kseq]))
  return out:linear[(heads, head), embed](o)""" + "\ndim low = 6, heads = 4, head = 4", "own", "heads"),
    "steps": (OWN % """  y = x[seq = iota[seq] - 1] + x[seq = iota[seq] - 3] + x[seq = max(iota[seq] - 2, 0)]
  g = cumsum[seq](x) / (1 + iota[seq])
  w = sum[tap](window[seq, tap](x, 4, pad = (3, 0)))
  return y + x[seq = 0] + g + w + apart:conv1d[seq, embed](x, embed, k = 2, dilation = 3, causal = true)""", "own", None),
    "numbers": (NUMBERS, "own", None),
    "carried": (OWN % """  s[batch, embed] = 0.0
  repeat t in seq {
    s = tanh(0.5 * s + x[seq = t] * 0.1 * (t + 1))
    y[seq = t] = s
  }
  return y""", "own", None),
    "blocks": (OWN % """  return remembered[seq, embed](x, -abs(x))
}
fn remembered[t, d](x[..., t, d], decay[..., t, d]) -> [..., t, d] {
  h = x[t = 0] * 0
  repeat i in size[t] {
    h = exp(decay[t = i]) * h + x[t = i]
    y[t = i] = h
  }
  return y
  scan[t = 8] {
    all, so_far = sum[t](decay), cumsum[t](decay)
    return all, sum[t](x * exp(all - so_far))
  }
  neutral() { return 0, 0 }
  merge(all, h, more, g) { return all + more, h * exp(more) + g }
  emit(all, h) {
    repeat i in size[t] {
      h = exp(decay[t = i]) * h + x[t = i]
      y[t = i] = h
    }
    return y
  }""", "own", None),
}


# prompts, and what transformers writes after them, up to 16 positions
PROMPTS = [5, 11, 2], [7], [30, 4, 4, 19, 8, 23], [1, 39, 17, 3, 12]
WRITTEN = {
    "gpt2": [[7, 7, 17, 17, 34, 34, 17, 17, 34, 34, 17, 17, 34], [17, 17, 17, 17, 17, 34, 34, 34, 34, 34, 34, 34, 17, 17, 34],
             [35, 34, 34, 34, 34, 34, 34, 17, 17, 34], [34, 34, 34, 34, 34, 34, 34, 34, 17, 17, 34]],
    "qwen3": [[17] * 13, [30] * 15, [19, 8, 8, 8, 8, 8, 8, 8, 8, 8], [36, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]],
    "mistral": [[10, 10, 10, 17, 33, 33, 12, 34, 16, 18, 33, 5, 34], [34, 7, 18, 33, 5, 38, 29, 29, 29, 31, 2, 32, 24, 24, 34],
                [32, 24, 35, 35, 2, 2, 10, 10, 10, 33], [18, 33, 33, 5, 29, 31, 2, 3, 24, 24, 35]],
    "gemma3": [[17, 18, 30, 22, 5, 5, 5, 5, 5, 5, 5, 5, 5], [27] * 15, [8, 0, 36, 36, 36, 0, 0, 36, 36, 36], [12] * 11],
    "mixtral": [[24, 33, 29, 29, 9, 29, 34, 28, 29, 9, 29, 9, 29], [21, 33, 33, 33, 33, 33, 12, 33, 12, 34, 12, 34, 33, 12, 33],
                [30, 28, 28, 28, 28, 28, 33, 33, 33, 33], [34, 33, 33, 33, 33, 33, 33, 33, 33, 12, 39]],
}
IMPORTED = """include "models/%(family)s.dsl"
train {
%(lines)s
  generate = cached(rows = 3, chunk = 4)
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster two { gpus = 2; gpu = "cpu" }
parallel heads on two { mesh tensor = 2; shard %(axis)s, ffn on tensor }
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, "%s: %s" % (" ".join(command), done.stdout + done.stderr)
    return done.stdout


def ask(file):
    with open(file, "w") as out:
        for i, n in enumerate((1, 3, 19, 7, WINDOW + 5, 2, 11)):
            line = {"prompt": [(5 * k + 11 * i) % 64 for k in range(n)], "seed": i, "temperature": i % 2,
                    "max_tokens": TOKENS - 10 * i}
            out.write(json.dumps(line) + "\n")


def answers(dtrun, plan):
    run(dtrun, plan, "--resume", "saved", "--prompts", "ask.jsonl", "--out", plan + ".jsonl")
    with open(plan + ".jsonl") as lines:
        return [json.loads(line)["tokens"] for line in lines]


def compare(dtc, dtrun, name, layout):
    program, model, heads = MODELS[name]
    for kind, line in (("plain", ""), ("cached", "\n  generate = cached(rows = 3, chunk = 5)")):
        with open(kind + ".dsl", "w") as file:
            file.write(program + TRAIN % (model, line) + (LAYOUTS % (heads, heads) if heads else ""))
        run(dtc, kind + ".dsl", "--parallel", layout, "-o", kind)
    run("rm", "-rf", "saved", "plain.jsonl", "cached.jsonl")
    run(dtrun, "plain", "--save", "saved", "--quiet")
    want, got = answers(dtrun, "plain"), answers(dtrun, "cached")
    assert len(want) == 7 and all(len(set(tokens)) > 3 for tokens in want[1::2]), want
    return want == got


def imported(dtc, dtrun, name, layout):
    """Whether the model writes what transformers does."""
    case = families.CASES[name]
    families.write(name, "model")
    with open("model.dsl", "w") as file:
        file.write(IMPORTED % {**case, "lines": families.program(case)})
    dims = families.dims(name, 2, 16)
    run(dtc, "model.dsl", "--parallel", layout, "-o", "model.plan", "--target=interpreted", *(o for d, n in dims.items() for o in ("-D", f"{d}={n}")))
    with open("prompts.jsonl", "w") as file:
        for prompt, tokens in zip(PROMPTS, WRITTEN[name]):
            file.write(json.dumps({"prompt": prompt, "max_tokens": len(tokens)}) + "\n")
    said = run(dtrun, "model.plan", "--import", "model", "--prompts", "prompts.jsonl", "--temperature", "0", "--ignore-end", "--quiet")
    got = [json.loads(line)["tokens"] for line in said.splitlines()]
    if got != WRITTEN[name]:
        print("%s, %s: %s instead of %s" % (name, layout, got, WRITTEN[name]))
    return got == WRITTEN[name]


def halves(dtc, dtrun, dtype):
    """Whether a model with a result of 16 bits writes the largest of what --predict gives; with a cache of about that probability."""
    program, model, _ = MODELS["gpt2"]
    prompts = [[(5 * k + 11 * i) % 64 for k in range(1 + 4 * i)] for i in range(5)]
    with open("prompts.jsonl", "w") as file:
        file.write("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    families.npy("in.npy", "i32", (5, WINDOW), [v for prompt in prompts for v in prompt + [0] * (WINDOW - len(prompt))])
    wrote = {}
    for kind, line in (("plain", ""), ("cached", "\n  generate = cached(rows = 3, chunk = 5)")):
        with open("half.dsl", "w") as file:
            file.write(program + TRAIN % (model, line + "\n  precision = mixed(compute = %s)" % dtype))
        run(dtc, "half.dsl", "-o", "half", "--target=interpreted")
        wrote[kind] = [json.loads(line) for line in run(dtrun, "half", "--prompts", "prompts.jsonl", "--temperature", "0", "--tokens", "1", "--quiet").splitlines()]
    run("rm", "-f", "out.npy")
    run(dtrun, "half", "--predict", "tokens=in.npy", "--out", "out.npy")
    with open("out.npy", "rb") as file:
        data = file.read()
    logits = array.array("f", data[10 + struct.unpack("<H", data[8:10])[0]:])
    good = True
    for i, (plain, cached) in enumerate(zip(wrote["plain"], wrote["cached"])):
        at = (i * WINDOW + len(prompts[i]) - 1) * 64
        row = logits[at:at + 64]
        good = good and plain["tokens"] == [max(range(64), key=lambda v: (row[v], -v))] and abs(plain["logprob"] - cached["logprob"]) < 0.02
    if not good or len(wrote["plain"]) != 5:
        print("%s: %s" % (dtype, wrote))
    return good and len(wrote["plain"]) == 5


def refused(dtc, dtrun):
    """Whether a plan whose tokens have one axis, which is the last of all, is refused before it is read."""
    text = run(dtc, "dump", "model.plan")
    last = text.count("\nAXIS ") - 1
    with open("wrong.txt", "w") as file:
        file.write(re.sub(r'(INPT name="tokens" dtype=i32) first_axis=\d+ n_axes=2 row_elements=\d+',
                          rf"\1 first_axis={last} n_axes=1 row_elements=1", text, count=1))
    run(dtc, "asm", "wrong.txt", "-o", "wrong.plan")
    done = subprocess.run([dtrun, "wrong.plan", "--unproved", "--generate", "1"], capture_output=True, text=True, timeout=100)
    if done.returncode != 1 or "the plan is broken: nothing reads tokens" not in done.stderr:
        print("a broken plan: exit code %d, %s" % (done.returncode, done.stderr))
        return False
    return True


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    names = sys.argv[3:] or list(MODELS)
    wrong = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        ask("ask.jsonl")
        with open("tokens.bin", "wb") as file:
            file.write(bytes((i * i // 7 + i) % 64 for i in range(3000)))
        for name in names:
            layouts = ["none"] + (["heads"] if name in ("gpt2", "llama", "latent") else [])
            for layout in layouts + (["both"] if name == "llama" else []):
                same = compare(dtc, dtrun, name, layout)
                passed += same
                wrong += not same
                if not same:
                    print("%s, %s: other tokens than without a cache" % (name, layout))
        for name in sys.argv[3:] or WRITTEN:
            for layout in ("none", "heads") if name in WRITTEN else ():
                same = imported(dtc, dtrun, name, layout)
                passed, wrong = passed + same, wrong + (not same)
        for check in (lambda: halves(dtc, dtrun, "bf16"), lambda: halves(dtc, dtrun, "f16"), lambda: refused(dtc, dtrun)) if not sys.argv[3:] else ():
            good = check()
            passed, wrong = passed + good, wrong + (not good)
    print("%d passed, %d failed, 0 skipped" % (passed, wrong))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
