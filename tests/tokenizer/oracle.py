#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oracle.py TOKENS [MIB]: tokens of mixed text, and from 1 MiB on also of every code point, equal those of the Python package `tokenizers`
for tokenizers in the forms of published ones. Skipped without the package."""
import array
import os
import subprocess
import sys
import tempfile

import made

try:
    import tokenizers
except ImportError:
    print("oracle: 0 passed, 0 failed, 1 skipped (no Python package `tokenizers`)")
    sys.exit(77)

NAMES = ["gpt2", "llama3", "qwen2", "roberta", "o200k", "deepseek", "starcoder"]


def ours(program, tokenizer, path, how):
    """The ids that `tokens` prints."""
    run = subprocess.run([program, tokenizer, path, how], capture_output=True, check=False)
    if run.returncode:
        return run.stderr.decode().strip()
    return array.array("I", run.stdout)


def difference(text, theirs, mine):
    """Where two lists of ids first differ."""
    if isinstance(mine, str):
        return mine
    ids = theirs.ids
    for i, (a, b) in enumerate(zip(ids, mine)):
        if a != b:
            at = theirs.offsets[i][0]
            return "token %d: %d, not %d, at %r" % (i, b, a, text[max(at - 10, 0):at + 20])
    return "%d tokens, not %d" % (len(mine), len(ids)) if len(ids) != len(mine) else ""


def main():
    program, mib = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10
    passed = failed = 0
    corpus = made.text(400000, 7)
    texts = [made.text(int(mib * 2 ** 20))] + (list(made.every_point()) if mib >= 1 else [])
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            made.train(tokenizers, name, corpus.splitlines(True)).save(os.path.join(folder, "tokenizer.json"))
            file = os.path.join(folder, "tokenizer.json")
            known = tokenizers.Tokenizer.from_file(file)
            for number, text in enumerate(texts):
                path = os.path.join(folder, "text")
                with open(path, "w", encoding="utf-8", newline="") as out:
                    out.write(text)
                theirs = known.encode(text)
                wrong = difference(text, theirs, ours(program, file, path, "3"))
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print("%s, text %d: %s" % (name, number, wrong))
    print("oracle: %d passed, %d failed, 0 skipped" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
