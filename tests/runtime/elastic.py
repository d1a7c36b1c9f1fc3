#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dtc recompile: the program in a plan for other numbers of ranks:  elastic.py DTC DTRUN

Runs go from 8 ranks to 6, 4, 3 and back to 8, each from the checkpoint of the one before. Their losses are those of 8 ranks, and the
manifest counts each sample once. Sums over ranks and micro-batches are taken in another order, so each of some thousand additions may
differ by its last bit: 1e-5 of a loss of about 3 is 40 of them. Then sizes of several layouts, what is refused, and damaged plans."""

import base64
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from runs import CLUSTERS, NET, Bench, write_tokens

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

DATA = NET.replace("batch = 4", "batch = 24").replace("+ (n:rmsnorm", "+ dropout((n:rmsnorm").replace(
    "std = 0.3))\n  }", "std = 0.3)), 0.1)\n  }")
TRAIN = """  optimizer = adamw(lr = 0.01, decay = 0.1, clip = 1.0)
  eval = every(5, steps = 2, data = next_token(bin("tokens.bin", u16)))
  save = every(10, keep = 2)
  steps = 10
}
"""
PROGRAM = DATA + TRAIN + CLUSTERS + """cluster eight { nodes = 2; gpus = 4; gpu = "cpu" }
parallel data on eight { mesh data = 8; shard batch on data; zero 1 on data }
parallel three on eight { mesh data = 2, fsdp = 4; shard batch on data, fsdp; zero 3 on fsdp; zero 1 on data; micro batch = 3 }
parallel tensor on eight { mesh data = 4, tensor = 2; shard batch on data; shard mid on tensor; zero 2 on data }
parallel pipe on eight { mesh data = 4, pipe = 2; shard batch on data; pipeline h on pipe; micro batch = 2 }
parallel thin on eight { mesh data = 4, slow = 2; shard batch on data, slow; compress int8 on slow }
parallel whole on two { mesh tensor = 2; shard mid on tensor }
parallel found on two { auto }
"""


def losses_of(log):
    with open(log) as file:
        events = [json.loads(line) for line in file]
    return {(event["event"], event["step"]): event["loss"] for event in events if event["event"] in ("step", "eval")}


class Elastic(Bench):
    def compile(self, layout, plan, *more):
        code, said = self.run(self.dtc, "net.dsl", "--parallel", layout, "--target=interpreted", "-o", plan, *more)
        self.check("%s compiles" % layout, code == 0, said)

    def recompile(self, plan, ranks, new, holds=""):
        code, said = self.run(self.dtc, "recompile", plan, "--ranks", str(ranks), "-o", new)
        self.check("%s for %d ranks" % (plan, ranks), code == 0 and holds in said, said)

    def train(self, what, plan, log, *more):
        code, said = self.run(self.dtrun, plan, "--quiet", "--log", log, *more)
        self.check(what, code == 0, said)
        return losses_of(log) if code == 0 else {}

    def near(self, what, got, want):
        # a run that ends between two evaluations of the other one evaluates there, too
        far = [(at, got[at], want.get(at)) for at in got
               if (at in want or at[0] == "step") and not abs(got[at] - want.get(at, 0)) <= 1e-5]
        self.check(what, got and not far, far)


def test_there_and_back(b):
    b.compile("data", "8.plan")
    want = b.train("8 ranks", "8.plan", "8.log", "--save", "reference")
    before, done = "8.plan", 0
    for ranks, steps, says in ((8, 2, "mesh data = 8;"), (6, 4, "mesh data = 6; a batch of 24 samples in 2"),
                               (4, 6, "mesh data = 4; a batch of 24 samples in 2"), (3, 8, "mesh data = 3; a batch of 24 samples in 4"),
                               (8, 10, "mesh data = 8;")):
        plan = "to-%d.plan" % steps
        b.recompile(before, ranks, plan, says)
        more = ["--resume", "moving"] if done else ["--save", "moving"]
        got = b.train("%d ranks" % ranks, plan, "to-%d.log" % steps, "--steps", str(steps), *more)
        b.check("%d ranks begin after step %d" % (ranks, done),
                [step for event, step in got if event == "step"] == list(range(done + 1, steps + 1)), sorted(got))
        b.near("losses of %d ranks are those of 8" % ranks, got, want)
        with open("moving/step-%08d/manifest.json" % steps) as file:
            manifest = json.load(file)
        b.check("each sample once", manifest["samples"] == 24 * steps, manifest["samples"])
        before, done = plan, steps
    with open("8.plan", "rb") as first, open(before, "rb") as last:
        b.check("back at 8 ranks the plan has the bytes of the first one", first.read() == last.read())


def test_sizes(b, want):
    """Sizes of other layouts, one run of each."""
    for layout, ranks, says in share.of((("data", 5, "mesh data = 5; a batch of 24 samples, padded in memory, in 1"), ("data", 1, "24"),
                                ("three", 6, "data = 2, fsdp = 3"), ("three", 12, "data = 3, fsdp = 4"), ("tensor", 6, "data = 3, tensor = 2"),
                                ("pipe", 4, "data = 2, pipe = 2; a batch of 24 samples in 4"))):
        b.compile(layout, "old.plan")
        b.recompile("old.plan", ranks, "new.plan", says)
        code, said = b.run(b.dtc, "verify", "new.plan")
        b.check("%s on %d ranks is proved" % (layout, ranks), code == 0, said)
        got = b.train("%s on %d ranks trains" % (layout, ranks), "new.plan", "new.log", "--steps", "3", "--overwrite")
        b.near("%s on %d ranks has the losses of 8" % (layout, ranks), got, want)


def test_refused(b):
    for layout, ranks, says in (("tensor", 5, "multiples of 2 up to 48"), ("tensor", 50, "multiples of 2 up to 48"), ("thin", 3, "multiples of 2 up to 24"),
                                ("whole", 1, "possible are only 2"), ("data", 25, "1 to 24")):
        b.compile(layout, "old.plan")
        code, said = b.run(b.dtc, "recompile", "old.plan", "--ranks", str(ranks), "-o", "no.plan")
        b.check("%s for %d ranks is refused" % (layout, ranks), code == 1 and says in said, said)
        b.check("and nothing is written", not os.path.exists("no.plan"))
    b.compile("none", "one.plan")
    code, said = b.run(b.dtc, "recompile", "one.plan", "--ranks", "2")
    b.check("one rank has no layout", code == 1 and "is of one rank" in said, said)
    for words, says in ((["--ranks", "0"], "from 1"), (["--set", "train.steps=3"], "--set belongs"), (["-o", "x"], "-o needs --ranks")):
        code, said = b.run(b.dtc, "recompile", "8.plan", *words)
        b.check(" ".join(words), code == 2 and says in said, said)
    code, said = b.run(b.dtc, "net.dsl", "--ranks", "2")
    b.check("--ranks elsewhere", code == 2 and "belongs to `dtc recompile`" in said, said)


def test_said(b):
    code, said = b.run(b.dtc, "recompile", "8.plan")
    b.check("what is possible", code == 0 and said == "8.plan is for 8 ranks; possible are 1 to 24\n", said)
    code, said = b.run(b.dtc, "recompile", "to-4.plan", "--json")
    b.check("the same as JSON", code == 0 and json.loads(said) == {"plan": "to-4.plan", "ranks": 6, "program_ranks": 8,
                                                                   "multiple_of": 1, "most": 24}, said)
    code, said = b.run(b.dtc, "recompile", "8.plan", "--ranks", "6", "--json")
    b.check("a size as JSON", code == 0 and json.loads(said) == {"plan": "8.plan", "ranks": 6, "mesh": {"data": 6}, "batch": 24,
                                                                 "micro": 2, "padded": False}, said)


def with_words(b, plan, new, words):
    """Writes a copy of the plan whose options are these words."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_compress.restype = zstd.ZSTD_decompress.restype = ctypes.c_size_t
    before, _, rest = b.run(b.dtc, "dump", plan)[1].partition("ORIG text=base64")
    first, _, rest = rest.partition("\n")
    lines = rest.split("\n")
    n = next((i for i, line in enumerate(lines) if not line.startswith(":")), len(lines))
    packed = base64.b64decode("".join(line[1:] for line in lines[:n]))
    texts = ctypes.create_string_buffer(1 << 24)
    size = zstd.ZSTD_decompress(texts, ctypes.c_size_t(len(texts)), packed, ctypes.c_size_t(len(packed)))
    changed = b"".join(word.encode() + b"\0" for word in words) + b"\0" + texts.raw[:size].split(b"\0\0", 1)[1]
    room = ctypes.create_string_buffer(1 << 24)
    size = zstd.ZSTD_compress(room, ctypes.c_size_t(len(room)), changed, ctypes.c_size_t(len(changed)), 3)
    with open("words.txt", "w") as file:
        file.write("%sORIG text=base64%s\n:%s\n%s" % (before, first, base64.b64encode(room.raw[:size]).decode(), "\n".join(lines[n:])))
    code, said = b.run(b.dtc, "asm", "words.txt", "-o", new)
    b.check("a plan with the options %s" % words, code == 0, said)


def test_words(b):
    """Options that dtc does not write into plans, which would print or write what nobody asked for."""
    usual = ["--parallel", "data", "--target", "interpreted"]
    with_words(b, "8.plan", "words.plan", usual)
    b.recompile("words.plan", 4, "words4.plan")
    for words in (["--emit=c"], ["--print-after=place"], ["-o", "other"], ["--library", "/"], ["--verify"], ["--json"], ["-D", "batch=8"],
                  ["--set"], ["net.dsl"], ["--help"]):
        with_words(b, "8.plan", "words.plan", usual + words)
        code, said = b.run(b.dtc, "recompile", "words.plan", "--ranks", "4", "-o", "no.plan")
        b.check("refuses %s" % words, code == 1 and "other options than dtc writes" in said, said)
        b.check("and writes nothing", not os.path.exists("no.plan") and not os.path.exists("other"))


def test_alone(b):
    """A plan needs no other file; data are found from the new plan's folder, too."""
    os.makedirs("far/away")
    b.recompile("8.plan", 2, "far/away/2.plan")
    got = b.train("a plan in another folder", "far/away/2.plan", "away.log", "--steps", "1")
    b.near("it reads the data", got, losses_of("8.log"))
    os.makedirs("alone")
    shutil.copy("8.plan", "alone/8.plan")
    shutil.copy("tokens.bin", "alone")
    os.rename("net.dsl", "hidden.dsl")
    b.recompile("alone/8.plan", 4, "alone/4.plan")
    b.train("without the program", "alone/4.plan", "alone.log", "--steps", "1")
    os.rename("hidden.dsl", "net.dsl")
    b.compile("found", "found.plan", "--set", "two.gpus=4", "-D", "batch=16")
    code, said = b.run(b.dtc, "recompile", "found.plan")
    b.check("a layout that auto chose", code == 0 and "is for 4 ranks" in said, said)
    least = 1 if "possible are 1 to" in said else 2
    b.recompile("found.plan", 2 * least if least == 1 else 2, "found2.plan", "a batch of 16 samples")


def ranks_of(supervisor):
    """The process of each rank, by the number that its command line has."""
    found = {}
    with open("/proc/%d/task/%d/children" % (supervisor, supervisor)) as file:
        for child in file.read().split():
            try:
                with open("/proc/%s/cmdline" % child) as line:
                    words = line.read().split("\0")
            except OSError:
                continue
            if "--rank" in words:
                found[int(words[words.index("--rank") + 1])] = int(child)
    return found


def steps_in(log):
    try:
        with open(log) as file:
            return sum('"event": "step"' in line or '"event":"step"' in line for line in file)
    except OSError:
        return 0


def kill_ranks(b, words, kills):
    """Runs dtrun, and sends each of the signals to its rank once the log has so many steps. Returns exit code and messages."""
    if os.path.exists("run.log"):
        os.remove("run.log")
    with open("said", "w+") as said:
        run = subprocess.Popen([b.dtrun] + words, stderr=said, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        until = time.time() + 90
        for steps, rank, number in kills:
            while run.poll() is None and time.time() < until and (steps_in("run.log") < steps or rank not in ranks_of(run.pid)):
                time.sleep(0.002)
            process = ranks_of(run.pid).get(rank) if run.poll() is None else None
            if process:
                os.kill(process, number)
        try:
            code = run.wait(timeout=90)
        except subprocess.TimeoutExpired:
            run.kill()
            code = run.wait()
        said.seek(0)
        return code, said.read()


def test_run(b):
    """dtrun --elastic: ranks are killed and stopped, and the run goes on by itself."""
    more = ["--steps", "200"]
    want = b.train("200 steps", "8.plan", "want.log", *more)
    words = ["8.plan", "--save", "kept", "--log", "run.log", "--overwrite"] + more
    code, said = kill_ranks(b, words + ["--elastic=3"], [(25, 3, signal.SIGKILL), (80, 0, signal.SIGSTOP)])
    b.check("a run that loses two ranks ends well", code == 0, (code, said))
    b.check("it says with how many it goes on", "going on with 7 of 8 ranks (8.plan.7) from the checkpoint after" in said and
            "going on with 6 of 7 ranks (8.plan.6) from the checkpoint after" in said, said)
    got = losses_of("run.log")
    b.check("all steps are there", {at for at in got if at[0] == "step"} == {at for at in want if at[0] == "step"})
    far = [(at, got[at], want[at]) for at in got if at in want and not abs(got[at] - want[at]) <= 1e-4]
    b.check("with the losses of a run that loses none", not far, far[:3])
    with open("kept/step-00000200/manifest.json") as file:
        b.check("and each sample once", json.load(file)["samples"] == 24 * 200)
    shutil.rmtree("kept")
    code, said = kill_ranks(b, words + ["--elastic=8"], [(25, 3, signal.SIGKILL)])
    b.check("too few ranks are refused at the start", code == 2 and "cannot have fewer" in said, (code, said))
    code, said = kill_ranks(b, words + ["--elastic=7", "--restarts", "1"],
                            [(25, 3, signal.SIGKILL), (60, 1, signal.SIGKILL), (90, 1, signal.SIGKILL)])
    b.check("restarts come first, and the least number of ranks is kept", code == 75 and "starting again (1 of 1)" in said and
            "going on with 7 of 8" in said and "--elastic allows no fewer than 7" in said, (code, said))
    for more, says in ((["--eval"], "belongs to training"), (["--spares", "1"], "leaves none for ranks")):
        code, said = b.run(b.dtrun, "8.plan", "--elastic", *more)
        b.check(more[0], code == 2 and says in said, said)


def record_of(text, tag):
    """Begin and end of a record with the blobs after it."""
    begin = text.index("\n%s " % tag) + 1
    end = re.compile(r"\n(?=[A-Z]{4} )").search(text, begin)
    return begin, end.start() + 1 if end else len(text)


def test_damage(b):
    dumps = {}
    with open("other.dsl", "w") as file, open("net.dsl") as old:
        file.write(old.read().replace("adamw(lr = 0.01", "adamw(lr = 0.02"))
    code, said = b.run(b.dtc, "other.dsl", "--parallel", "data", "--target=interpreted", "-o", "other.plan")
    b.check("another program", code == 0, said)
    for plan in ("8.plan", "other.plan"):
        dumps[plan] = b.run(b.dtc, "dump", plan)[1]
    text, (begin, end) = dumps["8.plan"], record_of(dumps["8.plan"], "ORIG")
    other = dumps["other.plan"][slice(*record_of(dumps["other.plan"], "ORIG"))]

    def try_record(what, record, says, may_pass=False):
        with open("bad.text", "w") as file:
            file.write(text[:begin] + record + text[end:])
        code, said = b.run(b.dtc, "asm", "bad.text", "-o", "bad.plan")
        if code == 0:
            code, said = b.run(b.dtc, "recompile", "bad.plan", "--ranks", "4", "-o", "never.plan")
        if code == 0 and may_pass: # a comment may be damaged: the new plan was compared with the old one
            return
        b.check(what, 0 < code < 100 and any(word in said for word in says), (code, said))
        b.check("nothing was written", not os.path.exists("never.plan"))

    try_record("the program of another plan", other, ["is not a plan of"])
    try_record("no program", "", ["does not hold the program"])
    random.seed(5)
    record = text[begin:end]
    for i in range(6):
        at = random.randrange(record.index("\n:") + 2, len(record) - 4)
        byte = random.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        changed = record[:at] + byte + record[at + 1:]
        if record[at] not in "\n:=" and changed != record:
            try_record("byte %d damaged" % at, changed, ["does not hold the program", "plan text", "error", "dtc:"], may_pass=True)
        if os.path.exists("never.plan"):
            os.remove("never.plan")


def main():
    b = Elastic(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    with tempfile.TemporaryDirectory(prefix="elastic-") as folder:
        os.chdir(folder)
        write_tokens()
        with open("net.dsl", "w") as file:
            file.write(PROGRAM)
        test_there_and_back(b)
        test_run(b)
        test_sizes(b, losses_of("8.log"))
        test_refused(b)
        test_said(b)
        test_words(b)
        test_alone(b)
        test_damage(b)
        os.chdir("/")
    print("%d passed, %d failed, 0 skipped" % (b.passed, b.failed))
    return b.failed > 0


if __name__ == "__main__":
    sys.exit(main())
