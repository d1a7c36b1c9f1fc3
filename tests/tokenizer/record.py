#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py [FORM...]: writes tests/tokenizer/fixtures anew: a small tokenizer in each form of made.py (or in those named),
a text, and the ids that the Python package `tokenizers` gives it (pip install tokenizers)."""
import json
import os
import sys

import made
import tokenizers

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    corpus = made.text(30000, 7).splitlines(True)
    text = "\n".join(made.SAMPLES) + "".join(["<|endoftext|>", " <|endoftext|> a", "<|endoftext|", "<|im_start|>user\n",
                                              "a  <mask>\n b", "<s>", "<|endoftext|>\u0338", "  "])
    with open(os.path.join(FOLDER, "text"), "w", encoding="utf-8", newline="") as file:
        file.write(text)
    for name in sys.argv[1:] or made.FORMS:
        made.make(tokenizers, name, corpus, 450).save(os.path.join(FOLDER, name + ".json"))
        path = os.path.join(FOLDER, name + ".json")
        known = tokenizers.Tokenizer.from_file(path)
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
        with open(os.path.join(FOLDER, name + ".ids"), "w", encoding="ascii") as file:
            ids = known.encode(text).ids
            for at in range(0, len(ids), 24):
                file.write(" ".join(map(str, ids[at:at + 24])) + "\n")


if __name__ == "__main__":
    main()
