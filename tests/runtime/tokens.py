#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text with a tokenizer as a user meets it:  tokens.py DTC DTRUN TOKENS

A run on text trains as one on the ids of the same text; the ids are made once; another tokenizer is other data; what is
wrong with the tokenizer or the text ends the run before any rank starts, and leaves nothing behind."""
import array
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURES = os.path.join(ROOT, "tests", "tokenizer", "fixtures")
PROGRAM = """include "std.dsl"
dim batch = 2, seq = 8, vocab = 512, embed = 8
model net(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  return wte[vocab = tokens] |> out:linear[embed, vocab]
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(SOURCE)
  loss = mean[batch, seq](xent[vocab](net(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 3
}
"""
TEXT = 'text("t/*.txt", tokenizer = "tok", end = "<|endoftext|>")'


class Bench:
    def __init__(self, dtc, dtrun, tokens, folder):
        self.programs, self.folder = (dtc, dtrun, tokens), folder
        self.cache = os.path.join(folder, "cache")
        self.passed = self.failed = 0

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def check(self, name, good, shown=""):
        self.passed += bool(good)
        self.failed += not good
        if not good:
            print("%s: FAILED\n%s" % (name, shown))

    def start(self, program, *words, **more):
        return subprocess.Popen([self.programs[program], *words], cwd=self.folder, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "XDG_CACHE_HOME": self.cache, **more})

    def run(self, program, *words, **more):
        process = self.start(program, *words, **more)
        said = process.communicate()[0]
        return process.returncode, said

    def compile(self, name, source, vocab=512):
        with open(self.path(name + ".dsl"), "w", encoding="utf-8") as file:
            file.write(PROGRAM.replace("SOURCE", source).replace("vocab = 512", "vocab = %d" % vocab))
        return self.run(0, name + ".dsl", "-o", name + ".plan")

    def losses(self, log):
        with open(self.path(log), encoding="utf-8") as file:
            return [line["loss"] for line in map(json.loads, file) if "loss" in line]

    def made(self):
        return sorted(glob.glob(self.path("cache", "dtc", "*.ids*")))


def ids_of(bench, tokenizer):
    """The ids of the texts, each with the end token, as `tokens` gives them."""
    ids = array.array("H")
    for name in ("a.txt", "b.txt"):
        out = subprocess.run([bench.programs[2], bench.path(tokenizer), bench.path("t", name)], capture_output=True,
                             check=True, env=dict(os.environ, TOKENS_END="<|endoftext|>")).stdout
        ids.extend(array.array("I", out).tolist())
    return ids


def trains(bench):
    code, said = bench.compile("text", TEXT)
    bench.check("text compiles", code == 0, said)
    code, said = bench.run(1, "text.plan", "--log", "text.jsonl", "--save", "saved")
    bench.check("text trains", code == 0 and len(bench.made()) == 1, said)
    with open(bench.path("ids.bin"), "wb") as file:
        ids_of(bench, "tok").tofile(file)
    bench.compile("ids", 'bin("ids.bin", u16)')
    code, said = bench.run(1, "ids.plan", "--log", "ids.jsonl")
    bench.check("ids train", code == 0, said)
    bench.check("the losses are equal", bench.losses("text.jsonl") == bench.losses("ids.jsonl"))
    before = os.stat(bench.made()[0]).st_mtime_ns
    code, said = bench.run(1, "text.plan")
    bench.check("ids are made once", code == 0 and os.stat(bench.made()[0]).st_mtime_ns == before, said)


def is_other_data(bench):
    code, said = bench.run(1, "text.plan", "--resume", "saved", "--data", "tok=other")
    bench.check("another tokenizer is other data", code != 0 and "reads other data" in said, said)
    code, said = bench.run(1, "text.plan", "--resume", "saved", "--data", "tok=other", "--data-changed")
    bench.check("--data-changed goes on", code == 0 and len(bench.made()) == 2, said)
    code, said = bench.run(1, "text.plan", "--data", "tok=synthetic")
    bench.check("a tokenizer is no source", code == 2 and "a tokenizer is no source" in said, said)
    code, said = bench.run(1, "text.plan", "--data", "x=y")
    bench.check("names that can be replaced", code == 2 and "`t/*.txt`, `tok`" in said, said)


def writes_words(bench):
    code, said = bench.run(1, "text.plan", "--resume", "saved", "--generate", "Größe of", "--tokens", "12")
    bench.check("words are written", code == 0 and said.startswith("Größe of") and not said[8:].strip().isdigit(), said)
    code, said = bench.run(1, "text.plan", "--resume", "saved", "--generate", "", "--tokens", "2")
    bench.check("an empty prompt", code == 0, said)


def joins_words(bench):
    """Words of Mistral and BERT have marks of where they begin, which a text has not."""
    for form, mark in (("mistral", "\u2581"), ("bert", "##")):
        os.makedirs(bench.path(form))
        shutil.copy(os.path.join(FIXTURES, form + ".json"), bench.path(form, "tokenizer.json"))
        bench.compile(form, 'text("t/*.txt", tokenizer = "%s")' % form, 800)
        code, said = bench.run(1, form + ".plan", "--save", "saved_" + form)
        bench.check(form + " trains", code == 0, said)
        code, said = bench.run(1, form + ".plan", "--resume", "saved_" + form, "--generate", "the", "--tokens", "30",
                               "--temperature", "1")
        bench.check(form + " writes words", code == 0 and said.startswith("the") and mark not in said and " " in said, said)


def several_at_once(bench):
    shutil.rmtree(bench.cache)
    runs = [bench.start(1, "text.plan", "--log", "at%d.jsonl" % i) for i in range(2)]
    said = [run.communicate()[0] for run in runs]
    good = all(run.returncode == 0 for run in runs) and bench.losses("at0.jsonl") == bench.losses("at1.jsonl")
    bench.check("two runs at once", good and len(bench.made()) == 1, "\n".join(said))


def forgets_what_was_interrupted(bench):
    left = bench.made()[0] + ".abcdef"
    with open(left, "wb") as file:
        file.write(b"half")
    os.truncate(bench.made()[0], 100)
    code, said = bench.run(1, "text.plan", "--log", "again.jsonl")
    good = code == 0 and bench.losses("again.jsonl") == bench.losses("text.jsonl")
    bench.check("a damaged file is made anew", good and bench.made() == [left[:-7]], said)


def fails_cleanly(bench):
    shutil.rmtree(bench.cache)
    for fault in ("write:1", "write:3", "fsync:1", "rename:1"):
        os.utime(bench.path("t", "b.txt"))  # of files that changed just now no note is kept, whose writing would fail instead
        code, said = bench.run(1, "text.plan", DT_FAULT=fault)
        bench.check(fault, code == 5 and "dtrun: text.dsl:8" in said and not bench.made(), "%d %s %s" % (code, said, bench.made()))
    with open(bench.path("t", "bad.txt"), "wb") as file:
        file.write(b"good\xff")
    code, said = bench.run(1, "text.plan")
    bench.check("text that is not UTF-8", code == 5 and "bad.txt is not UTF-8: byte 4 is 0xff" in said, said)
    os.remove(bench.path("t", "bad.txt"))
    code, said = bench.run(1, "text.plan", "--data", "tok=t")
    bench.check("no tokenizer there", code == 5 and "t/tokenizer.json" in said, said)
    with open(bench.path("other", "broken.json"), "w", encoding="ascii") as file:
        file.write('{"model": {"type": "Unigram"}}')
    code, said = bench.run(1, "text.plan", "--data", "tok=other/broken.json")
    bench.check("another kind", code == 5 and "its Unigram model has no vocabulary" in said, said)
    code, said = bench.run(1, "text.plan", XDG_CACHE_HOME="/proc/nowhere")
    bench.check("no cache", code == 5 and "there is no cache folder for tokens" in said, said)
    os.rename(bench.path("tok"), bench.path("hidden"))  # so that dtc does not see it
    bench.compile("small", TEXT, 300)
    os.rename(bench.path("hidden"), bench.path("tok"))
    code, said = bench.run(1, "small.plan")
    bench.check("an id outside the axis", code == 5 and "of t/a.txt is" in said and "outside `vocab` of 300" in said, said)


def main():
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(*map(os.path.abspath, sys.argv[1:4]), folder)
        for name, fixture in (("tok", "gpt2"), ("other", "llama3")):
            os.makedirs(bench.path(name))
            shutil.copy(os.path.join(FIXTURES, fixture + ".json"), bench.path(name, "tokenizer.json"))
        os.makedirs(bench.path("t"))
        shutil.copy(os.path.join(FIXTURES, "text"), bench.path("t", "a.txt"))
        with open(bench.path("t", "b.txt"), "w", encoding="utf-8") as file:
            file.write("A second text, which ends here.\n")
        for part in (trains, is_other_data, writes_words, joins_words, several_at_once, forgets_what_was_interrupted,
                     fails_cleanly):
            part(bench)
        print("%d passed, %d failed, 0 skipped" % (bench.passed, bench.failed))
        return bench.failed > 0


if __name__ == "__main__":
    sys.exit(main())
