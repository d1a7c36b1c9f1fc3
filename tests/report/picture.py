#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of schedules:  picture.py DTC

Each is read as XML: at most 4,000 pixels wide, with legend and axis; boxes of a stage do not overlap; what is not left
out is all there, each piece once for every micro-batch. Where the middle is left out the ends are there and the picture
says so; a window shows its micro-batches."""

import collections
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = """include "%s/examples/gpt2.dsl"
cluster eight { gpus = 8; gpu = "a100-80g" }
parallel line on eight { mesh pipe = 4, data = 2; shard batch on data; pipeline h on pipe; micro batch = 8; zero 1 on data }
parallel zb on eight { mesh pipe = 8; pipeline h on pipe (schedule = zb_h1); micro batch = 16 }
parallel v on eight { mesh pipe = 8; pipeline h on pipe (schedule = zb_v); micro batch = 16 }
parallel parts on eight { mesh pipe = 2, tensor = 4; shard heads, ffn, vocab on tensor
  pipeline h on pipe (schedule = interleaved_1f1b, chunks = 7); micro batch = 8 }
parallel long on eight { mesh pipe = 8; pipeline h on pipe; micro batch = 512 }
"""
LAYERS, VOCAB, SPACE = 14, 50304, "{http://www.w3.org/2000/svg}"
LETTERS = {"k0": "F", "k1": "B", "k2": "W"}


class Picture:
    def __init__(self, text):
        root = xml.fromstring(text)
        self.width, self.words = float(root.get("width")), " ".join(e.text or "" for e in root.iter(SPACE + "text"))
        self.rows, self.boxes = collections.defaultdict(list), collections.Counter()
        for rect in root.iter(SPACE + "rect"):
            title = rect.find(SPACE + "title")
            if title is None:
                continue
            piece, letter, micro = re.fullmatch(r"(\d+)([FBW])(\d+)", title.text).groups()
            assert LETTERS[rect.get("class")] == letter, title.text
            self.boxes[int(piece), letter, int(micro)] += 1
            x, w = float(rect.get("x")), float(rect.get("width"))
            assert x >= 69.9 and x + w <= self.width, title.text
            self.rows[rect.get("y")].append((x, x + w, letter))
        for row in self.rows.values():
            row.sort()
            for a, b in zip(row, row[1:]):
                assert a[1] <= b[0] + 0.21, "boxes overlap at %r" % (a,)

    def check(self, *words):
        assert self.width <= 4000, self.width
        for word in ("forward", "backward", "waiting", "numbers: micro-batches", "stage 0", "times: ") + words:
            assert word in self.words, "no %r in %r" % (word, self.words[:400])


def draw(dtc, path, *options):
    dims = ["-D", "layers=%d" % LAYERS, "-D", "vocab=%d" % VOCAB]
    run = subprocess.run([dtc, path, *dims, "--emit=schedule-svg", *options], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return Picture(run.stdout.decode())


def main():
    dtc, passed = os.path.abspath(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.dsl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM % ROOT)
        for layout, pieces, micro, letters in (("line", 4, 8, "FB"), ("zb", 8, 16, "FBW"), ("v", 16, 16, "FBW"),
                                               ("parts", 14, 8, "FB")):
            picture = draw(dtc, path, "--parallel", layout)
            picture.check("simulated for a100-80g", " ms")
            want = {(p, letter, m) for p in range(pieces) for letter in letters for m in range(micro)}
            # the first piece is the embedding, or begins with it: it may have no B
            if layout in ("zb", "v"):
                want -= {(0, "B", m) for m in range(micro)} - set(picture.boxes)
            assert set(picture.boxes) == want and set(picture.boxes.values()) == {1}, layout
            assert ("paler: later pieces" in picture.words) == (pieces > 8 or layout == "parts"), layout
            passed += 1
        picture = draw(dtc, path, "--parallel", "long")
        picture.check("left out", "--window=A..B")
        micros = {m for _, _, m in picture.boxes}
        assert {0, 1, 7, 510, 511} <= micros and len(micros) < 512
        assert picture.boxes[0, "F", 0] and picture.boxes[0, "B", 511] and picture.boxes[7, "F", 511]
        passed += 1
        picture = draw(dtc, path, "--parallel", "long", "--window=100..104")
        picture.check("micro-batches 100 to 104")
        assert "left out" not in picture.words
        for m in range(100, 105):
            for p in range(8):
                assert picture.boxes[p, "F", m] and picture.boxes[p, "B", m]
        assert not any(m < 80 or m > 124 for _, _, m in picture.boxes)
        passed += 1
        for window in ("3", "5..4", "0..512", "-1..3", "1..2x", "a..b"):
            run = subprocess.run([dtc, path, "--parallel", "long", "--emit=schedule-svg", "--window=" + window],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            assert run.returncode == 2 and b"between 0 and 511" in run.stderr, (window, run.stderr)
            passed += 1
    print("%d passed, 0 failed, 0 skipped" % passed)


main()
