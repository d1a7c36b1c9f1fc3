#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every line of frontend/foreign.def compiles where its row says:  foreign.py DTC FOREIGN.DEF

A row of PLACE SETTING, OPTIMIZER or SCHEDULE has a line of the train block, LAYOUT one of the
parallel block, ARGUMENT one of the model or of the train block, all others one of the model. And
dtc says the row where the name is written in its place (arguments are left out here)."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """include "std.dsl"
dim batch = 4, seq = 8, kseq = seq, vocab = 16, embed = 8, embed2 = embed
dim heads = 2, head = 4, ffn = 16, layers = 2
dim two = 2, half = embed // two, one = 1, rows = batch * seq
axis part
model m(i32 ids[batch, seq], i32 labels[batch, seq],
        image[batch, height = 8, width = 8, chan = 4]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param w0[embed, ffn], gain[embed] = ones
  x = wte[vocab = ids]
  w = 1 * w0
  pooled = x[embed -> (embed, one)]
  q = wq:linear[embed, (heads, head)](x)
  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]
  repeat h in layers { x = x + mix:linear[embed, embed2](x)[embed2 -> embed] }
  z = out:linear[embed, vocab](x)
@MODEL@
}
train {
  i32 ids[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  image[batch, height = 8, width = 8, chan = 4] = synthetic(0, 1)
  z = m(ids, labels, image)
  loss = mean[batch, seq](xent[vocab](z, labels))
@TRAIN@
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel p on pair {
  mesh data = 2
@LAYOUT@
}
"""
TRAIN = {"optimizer": "optimizer = adamw(lr = 1e-3)", "steps": "steps = 9"}
BLOCKS = {"SETTING": "TRAIN", "OPTIMIZER": "TRAIN", "SCHEDULE": "TRAIN", "LAYOUT": "LAYOUT"}
WRONG = {  # how the name of a row is written by someone who knows another system
    "VALUE": "y = %s",
    "FIELD": "y = x.%s",
    "SETTING": "%s = 3",
    "OPTIMIZER": "optimizer = %s(lr = 1e-3)",
    "SCHEDULE": "optimizer = adamw(lr = %s(1e-3))",
    "LAYOUT": "%s on data",
    "STATEMENT": "%s(x)",
}


def rows(path):
    for row in re.findall(r"^DT_FOREIGN\((.*)\)$", path.read_text(), re.M):
        place, rest = row.split(", ", 1)
        yield place, re.findall(r'"((?:[^"\\]|\\.)*)"', rest)


def program(block, line):
    is_train = block == "TRAIN"
    train = {key: text for key, text in TRAIN.items() if not (is_train and line.startswith(key))}
    if is_train and line.startswith("epochs"):
        del train["steps"]
    is_statement = block == "MODEL" and not line.startswith("return")
    parts = {
        "MODEL": (line + "\n") * is_statement + "  return z",
        "TRAIN": "\n".join([line] * is_train + list(train.values())),
        "LAYOUT": line if block == "LAYOUT" else "shard batch on data",
    }
    if block == "LAYOUT" and not line.startswith("shard"):
        parts["LAYOUT"] = "shard batch on data\n" + line
    text = PROGRAM
    for name, part in parts.items():
        text = text.replace("@%s@" % name, part)
    return text


def dtc_says(dtc, folder, text):
    (Path(folder) / "program.dsl").write_text(text)
    done = subprocess.run([dtc, "program.dsl"], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stderr


def check(dtc, folder, place, theirs, says, line):
    block = BLOCKS.get(place, "TRAIN" if line.startswith("optimizer") else "MODEL")
    code, text = dtc_says(dtc, folder, program(block, line))
    if code:
        return "its line does not compile:\n" + text
    if place in WRONG:
        _, text = dtc_says(dtc, folder, program(block, WRONG[place] % theirs))
        if says not in text:
            return "dtc does not say it of `%s`:\n%s" % (WRONG[place] % theirs, text)
    return None


def main(dtc, table):
    failed, n, seen = 0, 0, set()
    with tempfile.TemporaryDirectory() as folder:
        for place, (theirs, _, says, line) in rows(Path(table)):
            problem = check(dtc, folder, place, theirs, says, line)
            if (place, theirs) in seen:
                problem = "it is there twice"
            seen.add((place, theirs))
            n += 1
            if problem:
                failed += 1
                print("FAIL %s %s: %s" % (place, theirs, problem))
    print("%d passed, %d failed, 0 skipped" % (n - failed, failed))
    return 0 if n >= 80 and not failed else 1


sys.exit(main(os.path.realpath(sys.argv[1]), sys.argv[2]))
