#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pairs of files as Megatron-LM writes them:  megatron.py DTC DTRUN

A writer that knows the published format alone (megatron/core/datasets/indexed_dataset.py) makes pairs of every integer dtype;
their samples are those of the same tokens in plain files. An index that does not fit ends the run with a reason before any
rank starts, and no change of its bytes makes it read outside of the files."""
import os
import random
import struct
import subprocess
import sys
import tempfile

from runs import check, failures, run

PROGRAM = """include "std.dsl"
dim batch = 4, seq = 8, vocab = 100, embed = 4
model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  return wte[vocab = tokens] @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(SOURCE)
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 3
}
"""
CODES = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}  # uint8, int8, int16, int32, int64, uint16
END = 99


def index_of(lengths, starts, code, width, version=1, magic=b"MMIDIDX\x00\x00"):
    pointers, at = [], 0
    for length in lengths:
        pointers.append(at)
        at += length * width
    return (magic + struct.pack("<QBQQ", version, code, len(lengths), len(starts)) +
            struct.pack("<%di" % len(lengths), *lengths) + struct.pack("<%dq" % len(lengths), *pointers) +
            struct.pack("<%dq" % len(starts), *starts))


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


def write_pair(name, documents, code):
    """documents: each a list of sequences of tokens."""
    sequences = [sequence for document in documents for sequence in document]
    starts = [0]
    for document in documents:
        starts.append(starts[-1] + len(document))
    tokens = [token for sequence in sequences for token in sequence]
    data = struct.pack("<%d%s" % (len(tokens), CODES[code]), *tokens)
    write(name + ".bin", data)
    write(name + ".idx", index_of([len(s) for s in sequences], starts, code, struct.calcsize("<" + CODES[code])))
    return tokens


def draw(seed, n):
    """Documents of some sequences, the last of which ends with the end token; one document and one sequence are empty."""
    rng = random.Random(seed)
    documents = [[[rng.randrange(END) for _ in range(rng.randrange(1, 30))] for _ in range(rng.randrange(1, 4))]
                 for _ in range(n)]
    for document in documents:
        document[-1].append(END)
    documents[3:3] = [[]]
    documents[5][0:0] = [[]]
    return documents


def compile_to(tools, plan, source):
    write("p.dsl", PROGRAM.replace("SOURCE", source).encode())
    run([tools[0], "p.dsl", "-o", plan])


def shown(tools, plan, *options):
    lines = run([tools[1], plan, "--show-samples", "500", *options]).splitlines()
    return [line.split()[:4] for line in lines if line[:8].strip().isdigit()]


def test_dtypes(tools):
    compile_to(tools, "pairs", 'megatron("c-*.bin", from = 0.25)')
    compile_to(tools, "plain", 'bin("plain.u8", u8, from = 0.25)')
    for code in CODES:
        # two pairs of different dtypes are one stream
        tokens = write_pair("c-1", draw(1, 40), code) + write_pair("c-2", draw(2, 20), 8)
        write("plain.u8", bytes(tokens))
        got, want = shown(tools, "pairs"), shown(tools, "plain")
        check(len(got) > 400 and [g[:2] for g in got] == [w[:2] for w in want], "code %d: other samples" % code)
    said = run([tools[1], "pairs", "--quiet"])
    check("warning" not in said, said)
    run([tools[1], "pairs", "--quiet", "--save", "ck"])  # other tokens in one of the pairs are other data
    write_pair("c-1", draw(3, 40), 8)
    check("reads other data" in run([tools[1], "pairs", "--resume", "ck", "--steps", "5"], 5), "changed pairs")


def test_ends(tools):
    compile_to(tools, "ends", 'megatron("e.bin")')
    write_pair("e", [[[1, 2, 3, k % 7] * 4] for k in range(30)], 8)
    said = run([tools[1], "ends"])
    check("the 30 documents of e.bin end with different tokens" in said, said)
    write_pair("e", draw(4, 30), 8)
    check("documents" not in run([tools[1], "ends"]), "documents with an end token")


def change(data, at, packed):
    return data[:at] + packed + data[at + len(packed):]


def test_refused(tools):
    compile_to(tools, "bad", 'megatron("b.bin")')
    lengths, starts = [20, 30, 50], [0, 1, 3]
    good, tokens = index_of(lengths, starts, 8, 2), bytes(200)
    q = struct.Struct("<q").pack
    first = 34 + 4 * 3
    for index, data, said in (
            (None, tokens, "b.bin is read by its index: cannot open b.idx"),
            (b"", tokens, "b.idx is no index of Megatron-LM"),
            (good[:33], tokens, "b.idx is no index of Megatron-LM"),
            (change(good, 0, b"TNTIDX"), tokens, "it begins with other bytes than MMIDIDX"),
            (change(good, 9, q(2)), tokens, "b.idx has version 2; version 1 can be read"),
            (change(good, 17, b"\0"), tokens, "no dtype that Megatron-LM knows: code 0"),
            (change(good, 17, b"\x63"), tokens, "no dtype that Megatron-LM knows: code 99"),
            (change(good, 17, b"\x07"), tokens, "its numbers are float32, which are no tokens"),
            (change(good, 18, q(4)), tokens, "counts 4 sequences and 3 ends of documents, which take 106 bytes, and it has 94"),
            (change(good, 18, q(1 << 62)), tokens, "perhaps a part of it is missing"),
            (change(good, 18, q(-1)), tokens, "perhaps a part of it is missing"),
            (change(good, 26, q(1 << 61)), tokens, "perhaps a part of it is missing"),
            (good[:-1], tokens, "and it has 93: perhaps a part of it is missing"),
            (good + b"12", tokens, "it holds something else, too"),
            (good + b"123", tokens, "it is of several kinds of data (multimodal)"),
            (change(good, 34, struct.pack("<i", -20)), tokens, "sequence 0 of b.idx has -20 tokens"),
            (change(good, 34, struct.pack("<i", 21)), tokens, "sequence 1 of b.idx has 30 tokens from byte 40 on; the one before it ends "
                                                              "at byte 42"),
            (change(good, first + 8, q(-2)), tokens, "from byte -2 on"),
            (change(good, first + 16, q(1 << 60)), tokens, "sequence 2 of b.idx has 50 tokens from byte 1152921504606846976"),
            (change(good, 42, struct.pack("<i", 0x7fffffff)), tokens, "ends at byte 4294967394, and b.bin has 200 bytes"),
            (change(good, first + 24, q(1)), tokens, "its documents do not begin at ascending sequences from 0 to 3"),
            (change(good, first + 32, q(4)), tokens, "its documents do not begin at ascending sequences from 0 to 3"),
            (change(good, first + 40, q(2)), tokens, "its documents do not begin at ascending sequences from 0 to 3"),
            (good, tokens[:-2], "sequence 2 of b.idx ends at byte 200, and b.bin has 198 bytes"),
            (good, tokens + b"1", "the sequences of b.idx have 200 bytes, and b.bin 201: do they belong together?")):
        if index is None:
            if os.path.exists("b.idx"):
                os.remove("b.idx")
        else:
            write("b.idx", index)
        write("b.bin", data)
        text = run([tools[1], "bad"], 5)
        check(said in text and "p.dsl:8:3" in text and "rank" not in text, "%s, not %s" % (text, said))
    compile_to(tools, "name", 'megatron("b.idx")')
    text = run([tools[1], "name"], 5)
    check("`megatron` takes the names of .bin files" in text, text)
    compile_to(tools, "name", 'bin("b.idx", u8)')
    text = run([tools[1], "name"], 5)
    check('read the pair as `megatron("NAME.bin")`' in text, text)
    write("b.bin", struct.pack("<100H", *([7] * 60 + [100] * 40)))  # each token is checked against the axis
    write("b.idx", good)
    text = run([tools[1], "bad"], 5)
    check("token 60 (byte 120) of b.bin is 100: outside `vocab` of 100" in text, text)
    write("b.bin", tokens)
    rng = random.Random(5)
    for _ in range(40):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(9, len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        write("b.idx", bytes(data))
        code = subprocess.run([tools[1], "bad", "--show-samples", "9"], capture_output=True, timeout=60).returncode
        check(code in (0, 5), "exit code %d for %s" % (code, data.hex()))


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        test_dtypes(tools)
        test_ends(tools)
        test_refused(tools)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:3]]))
