#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Odd programs and the certificates: random programs under random layouts are compiled without kernels, and nothing
is run.

  proved.py DTC FIRST COUNT [--layouts N] [--state FILE]    programs of seeds FIRST .. FIRST + COUNT - 1, N layouts each
  proved.py DTC SEED --show                                 one program, its layouts, and what became of each
  proved.py DTC SEED --minimise LAYOUT                      lines that are not needed for the failure are left out
  proved.py DTC FIRST COUNT --bless                         writes what is refused falsely to refused.txt

A layout that dtc takes must be proved: what a certificate does not understand ("is not proved") is a false refusal, as
is any other error of dtc's own, a crash, or no end after LIMIT seconds. Some are compiled for GPUs, or with --unfused. Diagnostics are good: most random layouts are
refused for a reason. refused.txt names false refusals that are known and not yet mended, by seed, number of the layout
(0: the serial program) and a checksum of the text. The programs are those of ranks.py; `--layouts` there draws the same
first ones. With --state (or ODD_PROVED_STATE) a long run goes on where it was ended."""

import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import zlib

import layouts
import programs
import ranks

LIMIT = 300
OWN = """fn own(p[...], g[...], updates, lr, factor = 0.9) -> [...] {
  state mean[...], most[...] = zeros
  next = factor * mean + g
  high = max(0.9 * most, abs(g))
  mean = next
  most = high
  return p - lr * next / (high + 0.01 * sqrt(updates))
}
"""
# small changes of the data change much of what these programs compute, so ranks.py leaves them out
OPTIMIZERS = (
    "lion(lr = warmup_linear(0.01, warmup = 2, total = 9), clip = 1.0)",
    "lamb(lr = 0.02, decay = 0.1, decay_if = rank >= 2, clip = 1.0)",
    "adafactor(lr = 0.05, decay = 0.01, threshold = 0.5)",
    "own(lr = inverse_sqrt(0.1, warmup = 3))",
    'adamw(lr = 0.01)\n  matrices = muon(lr = 0.02, momentum = 0.9, clip = 1.0, params = "*.w")',
)
KNOWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "refused.txt")


def verdict_of(dtc, path, options):
    """Returns (verdict, output)"""
    try:
        command = [dtc, path, "-o", path + ".plan", "--no-kernels"] + options
        done = subprocess.run(command, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "no end", ""
    said = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode < 0 or "internal error" in said or "AddressSanitizer" in said:
        return "refused: " + ("not proved" if "not proved" in said else "ended with %d" % done.returncode), said
    if done.returncode == 0:
        return "proved", said
    code = re.search(r"error\[(E\d+)\]", said)
    return (code.group(1) if done.returncode == 3 and code else "refused: ended with %d" % done.returncode), said


class Odd(ranks.Odd):
    def __init__(self, dtc, seed, n_layouts):
        super().__init__((dtc, None), seed, n_layouts)
        self.dtc, self.known, self.bad = dtc, set(), []
        rng = random.Random(seed)
        if rng.random() < 0.35:
            self.optimizer = rng.choice(OPTIMIZERS)
        text = self.program.text
        if "muon" in self.optimizer and (":linear" not in text or " params = " in text or " frozen = " in text):
            self.optimizer = OPTIMIZERS[0]
        if self.optimizer.startswith("own"):
            self.program.text = text.replace('include "std.dsl"\n', 'include "std.dsl"\n' + OWN, 1)
        self.scale = rng.choice(("256", "dynamic"))

    def text(self, seed, precision=None, factor=1):
        return super().text(seed, precision, factor).replace("loss_scale = 256", "loss_scale = " + self.scale)

    def options(self, number):
        """The options of dtc besides the program, by the number of the layout; 0: the serial
        program."""
        rng = random.Random(self.seed * 1000 + number)
        return (["--parallel", "odd"] if number else []) + rng.choice(([],) * 6 + (["--target=sm_90a"],) * 2 + (["--unfused"],))

    def blocks(self):
        """Returns (name, block, options) of each; the serial program first."""
        blocks = [("serial", "")] + [("; ".join(lines), layouts.text(lines, n)) for lines, n in self.layouts]
        return [
            (" ".join([what] + [o for o in self.options(number) if "=" in o or "un" in o]), block, self.options(number))
            for number, (what, block) in enumerate(blocks)
        ]

    def verdict(self, folder, block, options):
        path = os.path.join(folder, "%d.dsl" % self.seed)
        with open(path, "w") as file:
            file.write(self.text(ranks.SEEDS[0]) + block)
        return verdict_of(self.dtc, path, options)

    def all(self, folder):
        """Returns (name, verdict, output) of each; a refusal that is known has a verdict of its
        own."""
        for number, (what, block, options) in enumerate(self.blocks()):
            verdict, said = self.verdict(folder, block, options)
            row = (self.seed, number, "%08x" % zlib.crc32((self.text(ranks.SEEDS[0]) + block).encode()))
            if is_bad(verdict) and row in self.known:
                verdict = "known"
            elif row in self.known:
                print("mended: seed %d, layout %d (--bless)" % row[:2])
            if is_bad(verdict):
                self.bad.append(", ".join(map(str, row)) + ": " + first_words(said))
            yield what, verdict, said


def first_words(said):
    """The message of the error, without names of files."""
    found = re.search(r"internal error: (?:the (?:layout|plan) is not proved[^:]*: )?([^\n]*)", said)
    return re.sub(r" \((?:in|function) .*", "", found.group(1))[:100] if found else "no end or a crash"


def read_known():
    if not os.path.exists(KNOWN):
        return set()
    with open(KNOWN) as file:
        rows = [line.split(":")[0].split(", ") for line in file if not line.startswith("#")]
    return {(int(seed), int(number), checksum) for seed, number, checksum in rows}


def is_bad(verdict):
    return not re.fullmatch(r"proved|known|E\d+", verdict)


def show(odd, what, verdict, said):
    print("---- seed %d, %s, %s: %s : %s" % (odd.seed, odd.precision, odd.optimizer, what, verdict))
    if is_bad(verdict):
        lines = said.splitlines()
        wrong = [i for i, line in enumerate(lines) if re.search("internal error|Sanitizer", line)]
        first = wrong[0] if wrong else -6
        print("\n".join(line[:600] for line in lines[first:][:6]))
    sys.stdout.flush()


def minimise(odd, number):
    """Like ranks.minimise, but judges by what dtc says; layout 0 is the serial program, as in
    refused.txt."""
    odd.judge_layout = lambda folder, block: odd.verdict(folder, block, odd.options(number))
    odd.layouts = [([], 1)] + odd.layouts
    ranks.minimise(odd, number)


def main(arguments):
    flags = {}
    for flag in ("--state", "--layouts", "--minimise"):
        if flag in arguments:
            at = arguments.index(flag)
            flags[flag] = arguments[at + 1]
            del arguments[at : at + 2]
    dtc, first, n_layouts = os.path.abspath(arguments[0]), int(arguments[1]), int(flags.get("--layouts", 4))
    if "--minimise" in flags:
        minimise(Odd(dtc, first, n_layouts), int(flags["--minimise"]))
        return 0
    state = flags.get("--state", os.environ.get("ODD_PROVED_STATE"))
    tally, done = collections.Counter(), set()
    if state and os.path.exists(state):
        with open(state) as file:
            for line in file:
                seed, found = json.loads(line)
                done.add(seed)
                tally.update(found)
    known = set() if "--bless" in arguments or "--show" in arguments else read_known()
    count, rows = 1 if "--show" in arguments else int(arguments[2]), []
    with tempfile.TemporaryDirectory(prefix="proved-") as folder:
        for seed in ranks.share.of(range(first, first + count)):
            if seed in done:
                continue
            odd = Odd(dtc, seed, n_layouts)
            odd.known = known
            found = list(odd.all(folder))
            rows += odd.bad
            tally.update(verdict for _, verdict, _ in found)
            for what, verdict, said in found:
                if is_bad(verdict) or "--show" in arguments:
                    show(odd, what, verdict, said)
            if state:
                with open(state, "a") as file:
                    file.write(json.dumps([seed, [verdict for _, verdict, _ in found]]) + "\n")
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))
    if "--bless" in arguments:
        with open(KNOWN, "w") as file:
            file.write("# seed, layout, checksum of the program: what is said; refused falsely (proved.py --bless)\n")
            file.write("".join(row + "\n" for row in rows))
    print(", ".join("%d %s" % (n, verdict) for verdict, n in tally.most_common()))
    bad = sum(n for verdict, n in tally.items() if is_bad(verdict))
    print("%d passed, %d failed" % (sum(tally.values()) - bad, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
