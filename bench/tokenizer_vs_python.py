#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tokenizer_vs_python.py BUILD [MIB]: bytes a second, on one thread, of this tree's tokenizers and of the Python
package `tokenizers` (pip install tokenizers), in the forms of published ones, with 32,000 tokens (8,000 if they are not over bytes).

Both read the same text in one run: mixed text of many scripts, and English with C. `tokenizers` gets documents of 64 KiB, with
encode_batch_fast, which makes no offsets; each number is the best of three."""
import os
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "tokenizer"))
import made  # noqa: E402
import tokenizers  # noqa: E402

DOCUMENT = 1 << 16


def plain_text(size):
    """Documents and code of this tree, as often as it takes."""
    import glob
    text = "".join(open(path, encoding="utf-8").read() for path in
                   sorted(glob.glob(ROOT + "/docs/*.md") + glob.glob(ROOT + "/[a-z]*/*.[ch]")))
    return (text * (size // len(text) + 1))[:size]


def theirs(known, text):
    """Seconds that `tokenizers` takes."""
    documents = [text[at:at + DOCUMENT] for at in range(0, len(text), DOCUMENT)]
    encode = getattr(known, "encode_batch_fast", known.encode_batch)
    best = 1e9
    for _ in range(3):
        begin = time.perf_counter()
        encode(documents)
        best = min(best, time.perf_counter() - begin)
    return best


def main():
    program, mib = os.path.join(sys.argv[1], "tests/tokenizer/tokens"), float(sys.argv[2]) if len(sys.argv) > 2 else 10
    size = int(mib * 2 ** 20)
    texts = {"mixed": made.text(size), "English and C": plain_text(size)}
    corpus = [line for text in texts.values() for line in text[:4 << 20].splitlines(True)]
    print("%-10s %-14s %12s %12s %6s" % ("form", "text", "MB/s", "tokenizers", "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        path, file = os.path.join(folder, "tokenizer.json"), os.path.join(folder, "text")
        for name in ("gpt2", "llama3", "qwen2", "o200k", "mistral", "gemma", "t5", "albert", "bert"):
            made.make(tokenizers, name, corpus, 32000 if name in made.BYTE_FORMS else 8000).save(path)
            known = tokenizers.Tokenizer.from_file(path)
            for kind, text in texts.items():
                with open(file, "w", encoding="utf-8", newline="") as out:
                    out.write(text)
                ours = float(subprocess.run([program, path, file, "time"], capture_output=True, check=True).stdout)
                other, bytes_of = theirs(known, text), os.path.getsize(file) / 1e6
                print("%-10s %-14s %12.1f %12.1f %6.1f" % (name, kind, bytes_of / ours, bytes_of / other, other / ours), flush=True)


if __name__ == "__main__":
    main()
