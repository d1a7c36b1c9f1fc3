#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oracle.py TOKENS [MIB]: tokens of mixed text, and from 1 MiB on also of every code point, equal those of the Python package `tokenizers`
for tokenizers in the forms of published ones. Skipped without the package."""
import array
import os
import random
import re
import subprocess
import sys
import tempfile

import made

try:
    import tokenizers
except ImportError:
    print("oracle: 0 passed, 0 failed, 1 skipped (no Python package `tokenizers`)")
    sys.exit(77)

FRONTED = ("llama2", "mistral", "albert", "roberta")  # a text gets a space, or what stands for it, in front


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


def decoded(program, known, file, folder, ids, seed):
    """Where the text of these ids, and of random ones, differs. Bytes that are no text are shown otherwise there, so no
    random token is one of a byte."""
    rng, path = random.Random(seed), os.path.join(folder, "ids")
    few = [t for t in range(known.get_vocab_size()) if known.id_to_token(t) not in made.BYTES]
    for chosen in (ids, [rng.choice(few) for _ in range(20000)], ids[1:2], []):
        with open(path, "wb") as out:
            out.write(array.array("I", chosen).tobytes())
        run = subprocess.run([program, file, path, "decode"], capture_output=True, check=True)
        mine, theirs = run.stdout.decode(errors="replace"), known.decode(chosen, skip_special_tokens=False)
        if mine != theirs:
            at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
            return "text: %r, not %r" % (mine[max(at - 10, 0):at + 20], theirs[max(at - 10, 0):at + 20])
    return ""


def in_parts(program, known, file, folder, seed):
    """Where the tokens of parts that follow each other differ from those of the whole text. It is cut between two tokens,
    where merges and pieces of a part are those of the whole. Words that repeat something three times are not cut: "0", "000"
    and "000", "0" are equally likely, so the rounding of what comes before chooses."""
    rng, text = random.Random(seed), made.text(20000, seed).replace("\0", "")
    theirs = known.encode(text, add_special_tokens=False)
    places = [b for (_, a), (b, _) in zip(theirs.offsets, theirs.offsets[1:])
              if a == b > 0 and text[b].isascii() and text[b].isalnum() and text[b - 1].isascii() and text[b - 1].isprintable() and text[b - 1] != " "]
    repeats = [m.span() for m in re.finditer(r"\S*?(\S+?)\1\1\S*", text)]
    places = [p for p in places if not any(a <= p <= b for a, b in repeats)]
    places = [0] + sorted(rng.sample(places, 60)) + [len(text)]
    path = os.path.join(folder, "parts")
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.write("\0".join(text[a:b] for a, b in zip(places, places[1:])))
    return difference(text, theirs, ours(program, file, path, "parts"))


def main():
    program, mib = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10
    passed = failed = 0
    corpus = made.text(400000, 7)
    texts = [made.text(int(mib * 2 ** 20))] + (list(made.every_point()) if mib >= 1 else [])
    with tempfile.TemporaryDirectory() as folder:
        for name in made.FORMS if len(sys.argv) < 4 else sys.argv[3:]:
            made.make(tokenizers, name, corpus.splitlines(True)).save(os.path.join(folder, "tokenizer.json"))
            file = os.path.join(folder, "tokenizer.json")
            known = tokenizers.Tokenizer.from_file(file)
            for seed in range(3) if name in FRONTED else ():
                wrong = in_parts(program, known, file, folder, seed)
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print("%s, parts %d: %s" % (name, seed, wrong))
            for number, text in enumerate(texts):
                path = os.path.join(folder, "text")
                with open(path, "w", encoding="utf-8", newline="") as out:
                    out.write(text)
                theirs = known.encode(text)
                wrong = difference(text, theirs, ours(program, file, path, "3")) or decoded(program, known, file, folder,
                                                                                            theirs.ids, number)
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print("%s, text %d: %s" % (name, number, wrong))
    print("oracle: %d passed, %d failed, 0 skipped" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
