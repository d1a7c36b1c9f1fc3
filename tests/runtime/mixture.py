#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixtures of sources:  mixture.py DTC DTRUN

Samples come from the sources in the order of a reference that takes one sample after the other (samples_of.py), and each
source is read in its own order without gaps, over several of its epochs: on one rank and four, in micro-batches, after an
interruption, and with batches of another size. Other weights are other data. Then samplers, conversations, random numbers in
place of a source."""
import json
import os
import shutil
import struct
import sys
import tempfile

import samples_of as samples
from runs import check, failures, run

SEED, SEQ, WEIGHTS = 3, 16, (0.5, 0.3, 0.2)
SIZES = (900, 5000, 700)
MIX = 'mix(0.5 * bin("a.bin", u8), bin("b.bin", u16) * 0.3, 0.2 * bin("c*.bin", u8, from = 0.25))'
PROGRAM = """include "std.dsl"
dim batch = 8, seq = 16, vocab = 200, embed = 4
model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(SOURCE)
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  place = f32(1 + iota[batch] * size[seq] + iota[seq])
  inputs = sum[batch, seq](f32(tokens) * place)
  targets = sum[batch, seq](f32(labels) * place)
  metrics = (inputs, targets)
  optimizer = sgd(lr = 0.01)
  seed = 3
  steps = 30
}
cluster four { gpus = 4; gpu = "cpu" }
parallel data on four { mesh data = 4; shard batch on data }
parallel micro on four { mesh data = 4; shard batch on data; micro batch = 2 }
"""


def tokens_of(source):
    """Numbers that tell where they were read."""
    return [(at * 7 + at // 50 * (source + 3) + source) % 200 for at in range(SIZES[source])]


def write_sources():
    parts = [tokens_of(source) for source in range(3)]
    for name, data in (("a.bin", bytes(parts[0])), ("b.bin", struct.pack("<5000H", *parts[1])),
                       ("c1.bin", bytes(parts[2][:333])), ("c2.bin", bytes(parts[2][333:]))):
        with open(name, "wb") as file:
            file.write(data)
    return parts


def compile_to(tools, plan, *options, source=MIX, wants=0):
    with open("p.dsl", "w") as file:
        file.write(PROGRAM.replace("SOURCE", source))
    return run([tools[0], "p.dsl", "-o", plan, *options], wants)


def reference(parts, n, weights=WEIGHTS):
    """The windows of the first n samples."""
    key = samples.hash_text("tokens", samples.hash_text("data", SEED))
    parts = parts[:2] + [parts[2][175:]]
    streams = [samples.Stream(part, SEQ, 1, samples.hash_text("part %d" % (i + 1), key)) for i, part in enumerate(parts)]
    return [streams[i].window(k) for i, k in samples.mixed(weights, n)]


def weighed(windows, shift):
    rows = [window[shift:shift + SEQ] for window in windows]
    return sum((1 + b * SEQ + i) * token for b, row in enumerate(rows) for i, token in enumerate(row))


def sums(windows, batch, first=0):
    batches = [windows[at:at + batch] for at in range(first, len(windows) - batch + 1, batch)]
    return [(weighed(each, 0), weighed(each, 1)) for each in batches]


def steps_of(tools, plan, *options, wants=0):
    said = run([tools[1], plan, "--overwrite", "--log", "log", *options], wants)
    with open("log") as file:
        return said, [(event["metrics"]["inputs"], event["metrics"]["targets"])
                      for event in map(json.loads, file) if event["event"] == "step"]


def resume(name="ck"):
    """Options that go on from a copy of the checkpoint: the run adds its own."""
    shutil.rmtree("copy", ignore_errors=True)
    shutil.copytree(name, "copy")
    return ["--resume", "copy"]


def test_reference():
    """The reference itself: each source gets its part of any number of samples, and gives its own samples in order."""
    for weights in (WEIGHTS, (1.0, 1.0), (0.7, 0.3), (0.001, 5.0), (3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0)):
        count = [0] * len(weights)
        for s, (source, k) in enumerate(samples.mixed(weights, 3000)):
            check(k == count[source], "sample %d of %s" % (s, weights))
            count[source] += 1
            for i, weight in enumerate(weights):
                check(abs(count[i] - weight / sum(weights) * (s + 1)) <= (i + 1) / 2 + 1e-9,
                      "%s: %s of %d samples" % (weights, count, s + 1))


def test_order(tools, parts):
    windows = reference(parts, 240)
    for layout in ("none", "data", "micro"):
        compile_to(tools, layout, "--parallel", layout)
        said, got = steps_of(tools, layout)
        check(got == sums(windows, 8), "%s: other samples" % layout)
    check("a.bin, 50 % of the samples: 55 samples, an epoch of 13.75 steps" in said and
          "c*.bin, 20 % of the samples: 31 samples" in said, said)
    run([tools[1], "data", "--quiet", "--steps", "13", "--save", "ck"])
    said, got = steps_of(tools, "none", *resume())
    check(got == sums(windows, 8)[13:], "resumed: other samples")
    compile_to(tools, "twelve", "--parallel", "none", "-D", "batch=12")
    said, got = steps_of(tools, "twelve", *resume(), "--steps", "20")
    check(got == sums(windows, 12, 13 * 8)[:7], "resumed with batches of 12: other samples")
    lines = [line.split(" of ") for line in run([tools[1], "none", "--show-samples", "60"]).splitlines()
             if line.startswith("sample ")]
    names = [("a.bin", "b.bin", "c*.bin")[i] for i, _ in samples.mixed(WEIGHTS, 60)]
    check([line[1] for line in lines] == names, "--show-samples: %s" % lines)


def test_other_data(tools):
    """A run that goes on with other weights, sources or contents says so."""
    for source, said in ((MIX.replace("0.5 *", "0.6 *"), "0.5 of the mixture's samples, now 0.545455"),
                         ('mix(0.5 * bin("a.bin", u8), 0.3 * bin("b.bin", u16))', "0.5 of the mixture's samples, now 0.625"),
                         ('bin("a.bin", u8)', "0.5 of the mixture's samples, now all samples")):
        compile_to(tools, "other", "--parallel", "none", source=source)
        text = run([tools[1], "other", *resume()], 5)
        check("reads other data" in text and said in text, text)
        run([tools[1], "other", "--quiet", *resume(), "--data-changed"])
    with open("b.bin", "r+b") as file:
        file.write(b"\5\0")
    text = run([tools[1], "none", *resume()], 5)
    check("`tokens.2` reads other data (b.bin)" in text, text)
    write_sources()
    steps_of(tools, "none", "--data", "b.bin=synthetic", "--steps", "3")
    steps_of(tools, "none", "--data=synthetic", "--steps", "3")
    compile_to(tools, "drawn", "--parallel", "data", "--data=synthetic")
    said, got = steps_of(tools, "drawn")
    check(len(got) == 30, said)


CHAT = """include "std.dsl"
dim batch = 4, seq = 16, vocab = 257, embed = 4
model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] =
    mix(3 * chat("x.jsonl", tokenizer = "t.json", end = "<end>"), chat("y.jsonl", tokenizer = "t.json", end = "<end>"))
  ce = xent[vocab](net(tokens), labels)
  loss = sum[batch, seq](ce) / max(sum[batch, seq](f32(labels >= 0)), 1)
  optimizer = sgd(lr = 0.1)
  steps = 3
}
"""


def test_kinds(tools):
    """Conversations can be mixed, and streams inside of any sampler."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, "golden", "errors", "mini", "bytes.json"), "rb") as file, open("t.json", "wb") as to:
        to.write(file.read())
    for name, text in (("x.jsonl", "xxx"), ("y.jsonl", "yyy")):
        with open(name, "w") as file:
            file.write('{"text": "%s"}\n' % text * 9)
    with open("chat.dsl", "w") as file:
        file.write(CHAT)
    run([tools[0], "chat.dsl", "-o", "chat"])
    run([tools[1], "chat", "--quiet"])
    lines = [line for line in run([tools[1], "chat", "--show-samples", "8"]).splitlines() if line.startswith("       0")]
    want = ["xy"[i] for i, _ in samples.mixed((3.0, 1.0), 8)]
    check([line.split()[2][1] for line in lines] == want, "chat: %s, not %s" % (lines, want))
    with open("p.dsl", "w") as file:
        file.write(PROGRAM.replace("i32 labels[batch, seq] = next_token(SOURCE)",
                                   "i32 kind[batch, seq], bool valid[batch, seq], i32 labels[batch, seq], "
                                   "bool masked[batch, seq] = mlm(%s, mask_id = 199, special = 198)" % MIX))
    run([tools[0], "p.dsl", "-o", "mlm", "--parallel", "data"])
    said, got = steps_of(tools, "mlm")
    check(len(got) == 30, said)


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        test_reference()
        test_order(tools, write_sources())
        test_other_data(tools)
        test_kinds(tools)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]]))
