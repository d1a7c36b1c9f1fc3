#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Samples of `mlm` and `span_corruption`:  samplers.py DTC DTRUN

--show-samples prints those of the reference (samples_of.py), which knows the manual alone; how often tokens are chosen, masked,
replaced and kept, and how long spans are, is what the papers say; four ranks, micro-batches and a run that was interrupted
read the same samples; held-out data has the same masks each time. Then what does not fit."""
import collections
import json
import math
import os
import sys
import tempfile

import samples_of as samples
from runs import check, failures, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEED, BATCH = 5, 8
HEAD = """include "std.dsl"
dim batch = 8, seq = %(seq)d, src = %(seq)d, tgt = %(target)d, vocab = %(vocab)d, kinds = 2, embed = 4
cluster four { gpus = 4; gpu = "cpu" }
parallel data on four { mesh data = 4; shard batch on data }
parallel micro on four { mesh data = 4; shard batch on data; micro batch = 2 }
"""
MLM = HEAD + """
model net(i32 tokens[batch, seq], i32 kind[batch, seq], bool valid[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], seg[kinds, embed] = normal(0.3)
  return where(valid, wte[vocab = tokens] + seg[kinds = kind], 0) @embed wte
}
train {
  i32 tokens[batch, seq], i32 kind[batch, seq], bool valid[batch, seq], i32 labels[batch, seq], bool masked[batch, seq] =
    mlm(%(source)s, mask_id = %(mask)d%(more)s)
  l = xent[vocab](net(tokens, kind, valid), labels)
  loss = sum[batch, seq](where(masked, l, 0)) / max(sum[batch, seq](f32(masked)), 1)
  place = f32(1 + iota[batch] * size[seq] + iota[seq])
  inputs = sum[batch, seq](f32(tokens) * place)
  targets = sum[batch, seq](f32(labels) * place)
  metrics = (inputs, targets)
  optimizer = sgd(lr = 0.1)
  seed = 5
  steps = 6
  save = every(3)
  %(eval)s
}
"""
SPANS = HEAD + """
model net(i32 source[batch, src], i32 target[batch, tgt]) -> [batch, tgt, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return (wte[vocab = target] + mean[src](wte[vocab = source])) @embed wte
}
train {
  i32 source[batch, src], i32 target[batch, tgt], i32 labels[batch, tgt], bool valid[batch, tgt] =
    span_corruption(%(source)s%(more)s)
  l = xent[vocab](net(source, target), labels)
  loss = sum[batch, tgt](where(valid, l, 0)) / max(sum[batch, tgt](f32(valid)), 1)
  inputs = sum[batch, src](f32(source) * f32(1 + iota[batch] * size[src] + iota[src]))
  targets = sum[batch, tgt](f32(labels) * f32(1 + iota[batch] * size[tgt] + iota[tgt]))
  metrics = (inputs, targets)
  optimizer = sgd(lr = 0.1)
  seed = 5
  steps = 6
  save = every(3)
}
"""


def compile_to(tools, plan, text, *options, wants=0):
    with open("p.dsl", "w") as file:
        file.write(text)
    return run([tools[0], "p.dsl", "-o", plan, *options], wants)


def shown(tools, plan, n):
    """Columns by name of each table of each sample that --show-samples prints."""
    found = []
    for line in run([tools[1], plan, "--show-samples", str(n)]).splitlines():
        if line.startswith("sample "):
            found.append([])
        elif line.startswith("position"):
            names = [name for name in line.split() if name != "word"]
            found[-1].append(collections.defaultdict(list))
        elif " to " in line[:24]:  # padding
            first, last = int(line.split()[0]), int(line.split()[2].rstrip(":"))
            for name, value in (("token", int(line.split("token ")[1].split(",")[0])), ("target", -1), ("valid", 0)):
                found[-1][-1][name] += [value] * (last + 1 - first)
        elif line[:8].strip().isdigit():
            values = iter(line.split())
            for name in names[:names.index("token") + 1]:
                found[-1][-1][name].append(int(next(values)))
            if "target" in names:
                found[-1][-1]["target"].append(int(line.rstrip().rsplit(" train ", 1)[-1].split()[0] if " train " in line
                                                   else line.split()[-1]))
    return found


def within(what, got, want, sigma):
    check(abs(got - want) <= 4.5 * sigma, "%s: %g, not %g within %g" % (what, got, want, 4.5 * sigma))


def text_tokens():
    with open(os.path.join(ROOT, "docs", "language.md"), "rb") as file:
        return list(file.read(60000))


# ---- masks

SEQ, MASK, SPECIAL = 40, 256, (10, 32)
MASKS = {"seq": SEQ, "target": 8, "vocab": 257, "mask": MASK, "more": ", special = (10, 32)", "source": 'text("a.txt")', "eval": ""}


def mlm_reference(tokens, n, seed=SEED, is_eval=False, rate=0.15):
    key = samples.hash_text("data", seed)
    draws = samples.hash_text("mlm.%s.tokens" % ("eval" if is_eval else "data"), key)
    stream = samples.Stream(tokens, SEQ, 0, key, is_eval)
    return [samples.masked(stream.window(s), s, draws, rate, MASK, SPECIAL, 257) for s in range(n)]


def test_masks(tools, tokens):
    n = 480
    compile_to(tools, "mlm", MLM % MASKS, "--parallel", "none")
    got, want = shown(tools, "mlm", n), mlm_reference(tokens, n)
    check(len(got) == n, "%d samples" % len(got))
    for s, ((table,), (inputs, labels)) in enumerate(zip(got, want)):
        check(table["token"] == inputs and table["target"] == labels, "mlm: sample %d is another one" % s)
        check(table["masked"] == [int(label >= 0) for label in labels] and set(table["kind"]) == {0} and
              set(table["valid"]) == {1}, "mlm: kind, valid and masked of sample %d" % s)
    ends = collections.Counter()  # of the 15 % that are chosen: Devlin et al., 3.1
    places, drawn = collections.Counter(), []
    for (table,) in got:
        original = [t if m else i for i, t, m in zip(table["token"], table["target"], table["masked"])]
        free = sum(token not in SPECIAL for token in original)
        check(sum(table["masked"]) == math.floor(0.15 * free + 0.5), "mlm: %d of %d chosen" % (sum(table["masked"]), free))
        for at, (token, was, chosen) in enumerate(zip(table["token"], original, table["masked"])):
            check(not chosen or was not in SPECIAL, "mlm: token %d is special" % was)
            if chosen:
                end = "mask" if token == MASK else "same" if token == was else "random"
                ends[end] += 1
                places[at] += 1
                drawn += [token] if end == "random" else []
    total = sum(ends.values())
    for end, part in (("mask", 0.8), ("random", 0.1 * 253 / 254), ("same", 0.1 + 0.1 / 254)):
        within("mlm: " + end, ends[end] / total, part, math.sqrt(part * (1 - part) / total))
    within("mlm: places", sum((places[at] - total / SEQ) ** 2 for at in range(SEQ)) * SEQ / total, SEQ - 1,
           math.sqrt(2 * (SEQ - 1)))
    within("mlm: random tokens", sum(drawn) / len(drawn), sum(set(range(256)) - set(SPECIAL)) / 254,
           256 / math.sqrt(12 * len(drawn)))
    check(not set(drawn) & (set(SPECIAL) | {MASK}), "mlm: a random token is special")


def test_special(tools):
    """Tokens that the tokenizer's file calls special are never chosen, nor drawn; the reference is told which they are."""
    with open(os.path.join(ROOT, "tests", "golden", "errors", "mini", "bytes.json"), "rb") as file, open("t.json", "wb") as to:
        to.write(file.read())
    os.mkdir("few")
    tokens = []
    for i in range(60):
        words = bytes(range(97 + i % 3, 97 + i % 7 + 4)) * 3
        with open("few/%02d.txt" % i, "wb") as file:
            file.write(words)
        with open("t.json") as file:
            vocabulary = json.load(file)["model"]["vocab"]
        tokens += [vocabulary[chr(byte)] for byte in words] + [256]
    about = {**MASKS, "vocab": 258, "mask": 257, "more": "",
             "source": 'text("few/*.txt", tokenizer = "t.json", end = "<end>")'}
    compile_to(tools, "special", MLM % about, "--parallel", "none")
    key = samples.hash_text("data", SEED)
    stream, n = samples.Stream(tokens, SEQ, 0, key), 60
    draws = samples.hash_text("mlm.data.tokens", key)
    want = [samples.masked(stream.window(s), s, draws, 0.15, 257, (256,), 258) for s in range(n)]
    got = [(table["token"], table["target"]) for (table,) in shown(tools, "special", n)]
    check(got == want[:len(got)] and len(got) >= min(n, stream.n), "special tokens of a tokenizer")
    check(any(256 in tokens for tokens, _ in got) and not any(256 in labels for _, labels in got), "<end> is masked")


def weighed(rows):
    at = iter(range(1, 1 << 30))
    return sum(next(at) * value for row in rows for value in row)


def steps_of(tools, plan, *options):
    run([tools[1], plan, "--quiet", "--overwrite", "--log", "log", *options])
    with open("log") as file:
        return {event["step"]: (event["metrics"]["inputs"], event["metrics"]["targets"])
                for event in map(json.loads, file) if event["event"] == "step"}


def test_layouts(tools, name, program, want):
    """Each step reads the reference's samples on one rank and four, in micro-batches, and after an interruption."""
    sums = {t + 1: (weighed(row[0] for row in want[t * BATCH:(t + 1) * BATCH]),
                    weighed(row[1] for row in want[t * BATCH:(t + 1) * BATCH])) for t in range(6)}
    for layout in ("none", "data", "micro"):
        compile_to(tools, name + "." + layout, program, "--parallel", layout)
        got = steps_of(tools, name + "." + layout)
        check(got == sums, "%s on %s: %s, not %s" % (name, layout, got, sums))
    run([tools[1], name + ".data", "--quiet", "--steps", "3", "--save", name + ".ck"])
    got = steps_of(tools, name + ".none", "--resume", name + ".ck")
    check(got == {t: sums[t] for t in (4, 5, 6)}, "%s resumed: %s" % (name, got))


def test_held_out(tools, tokens):
    """Masks of held-out data are the same in each evaluation: with a rate of 0 so is the loss."""
    held = 'eval = every(2, data = mlm(text("a.txt", from = 0.99), mask_id = 256, special = (10, 32)))'
    program = (MLM % {**MASKS, "eval": held}).replace("lr = 0.1", "lr = 0")
    compile_to(tools, "held", program, "--parallel", "none")
    run([tools[1], "held", "--quiet", "--overwrite", "--log", "log"])
    with open("log") as file:
        losses = [event["loss"] for event in map(json.loads, file) if event["event"] == "eval"]
    check(len(losses) == 3 and len(set(losses)) == 1, "held-out losses %s" % losses)


# ---- spans

SOURCE, TARGET, VOCAB, MEAN = 60, 20, 300, 2
CORRUPT = {"seq": SOURCE, "target": TARGET, "vocab": VOCAB, "more": ", mean_span = 2", "source": 'text("a.txt")'}


def spans_reference(tokens, n):
    key = samples.hash_text("data", SEED)
    draws = samples.hash_text("span_corruption.data.source", key)
    numbers = samples.span_numbers(SOURCE, 0.15, MEAN)
    stream = samples.Stream(tokens, numbers[0], 0, key)
    made = [samples.corrupted(stream.window(s), s, draws, numbers, VOCAB - 1, 1) for s in range(n)]
    return [(source, labels + [-1] * (TARGET - len(labels))) for source, labels in made]


def test_spans(tools, tokens):
    n = 480
    compile_to(tools, "spans", SPANS % CORRUPT, "--parallel", "none")
    got, want = shown(tools, "spans", n), spans_reference(tokens, n)
    window, noise, spans = samples.span_numbers(SOURCE, 0.15, MEAN)
    check((window, noise, spans) == (64, 10, 5), "a window of %d, %d in %d spans" % (window, noise, spans))
    seen = collections.Counter()
    for s, ((first, second), (source, labels)) in enumerate(zip(got, want)):
        filled = noise + spans + 1
        check(first["token"] == source and second["target"] == labels, "spans: sample %d is another one" % s)
        check(second["token"] == [0] + labels[:filled - 1] + [0] * (TARGET - filled), "spans: target %d" % s)
        check(second["valid"] == [1] * filled + [0] * (TARGET - filled), "spans: valid %d" % s)
        marks = [at for at, token in enumerate(labels) if token > VOCAB - 1 - spans] + [filled - 1]
        seen.update(b - a - 1 for a, b in zip(marks, marks[1:]))
    check(sum(seen.values()) == n * spans and sum(k * v for k, v in seen.items()) == n * noise, "spans: %s" % seen)
    for length in range(1, noise - spans + 2):  # as many as there are ways to cut the rest into spans - 1 parts
        part = math.comb(noise - length - 1, spans - 2) / math.comb(noise - 1, spans - 1)
        within("spans of %d tokens" % length, seen[length] / (n * spans), part, math.sqrt(part * (1 - part) / n))


# ---- what does not fit


def test_refused(tools):
    for program, about, said in (
            (MLM, {**MASKS, "vocab": 256}, "the mask token 256 is outside `vocab` of 256, which `tokens` indexes"),
            (SPANS, {**CORRUPT, "target": 15}, "a target takes 16 tokens, and `target` has 15 positions"),
            (SPANS, {**CORRUPT, "more": ", sentinel = 130, mean_span = 2"}, "tokens 130 down to 126, which text has as well"),
            (SPANS, {**CORRUPT, "more": ", rate = 1.0"}, "no window of tokens leaves 60")):
        text = compile_to(tools, "no", program % about, "--parallel", "none", wants=3)
        check("E0814" in text and said in text, text)
    with open("u.bin", "wb") as file:
        file.write(bytes([9, 8, 7, 6, 130] * 100))
    compile_to(tools, "no", SPANS % {**CORRUPT, "source": 'bin("u.bin", u8)', "more": ", sentinel = 132, mean_span = 2"},
               "--parallel", "none")
    text = run([tools[1], "no"], 5)
    check("token 4 (byte 4) of u.bin is 130, one of the sentinels 128 to 132 of span_corruption" in text or
          "is 130, one of the sentinels 128 to 132" in text, text)


def main(tools):
    tokens = text_tokens()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("a.txt", "wb") as file:
            file.write(bytes(tokens))
        test_masks(tools, tokens)
        test_spans(tools, tokens)
        test_special(tools)
        test_layouts(tools, "mlm", MLM % MASKS, mlm_reference(tokens, 48))
        test_layouts(tools, "spans", SPANS % CORRUPT, spans_reference(tokens, 48))
        test_held_out(tools, tokens)
        test_refused(tools)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]]))
