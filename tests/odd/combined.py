#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Features combined on real ranks: small language models (nets.py) whose training blocks and layouts combine what the
manual allows, against a run of the same program that computes the same without them.

  combined.py DTC DTRUN FIRST COUNT [--kind KIND] [--layouts N] [--state FILE]
  combined.py DTC DTRUN SEED --show [--kind KIND]
  combined.py DTC DTRUN SEED --minimise LAYOUT [--kind KIND]

The kind of a program follows from its seed, or is given:

  serial     any layout of at most 8 ranks; the reference is the serial program
  auto       layouts that the compiler chooses
  compress   a compressed gradient with other mesh axes, remat, groups, against the same compression over samples alone
  replicas   `local` and `gossip` likewise
  exact      a compression that keeps everything, replicas that meet after each step of sgd: against the serial program
  ramp       a growing batch, against one rank with the same micro-batches

Losses, norms, metrics, evaluations and all tensors of checkpoints, also those of optimizers and averages, are compared by
step as ranks.py does, with its tolerances; a run also goes on from the first checkpoint of the reference. Then the layout's
plan and the reference's, from one checkpoint, write the same text at temperature 0 (with a cache against without one),
export the same files to the last bit and read them back, and prune the same weights to the last bit."""

import collections
import concurrent.futures
import json
import math
import os
import random
import re
import shutil
import sys
import tempfile
import traceback
import types
import zlib

import layouts
import nets
import ranks

KINDS = ("serial",) * 6 + ("auto", "compress", "compress", "replicas", "replicas", "exact", "ramp")
ranks.STEPS = 4
KEEPS_ALL = """axis received
fn all_of[worker, all](terms[..., worker, all]) -> [..., all] { return sum[worker](terms) }
fn sent[worker, all](terms[..., worker, all]) -> [..., all] { return sum[received](terms[worker -> received]) }
"""


PLAIN = ranks.Run


def read_run(log, folder):
    """A run with the tensors of its optimizer, too."""
    run = PLAIN(log, folder)
    for values, name in zip(run.saved, sorted(name for name in os.listdir(folder) if name.startswith("step-"))):
        path = os.path.join(folder, name, "optimizer.safetensors")
        if os.path.exists(path):
            values.update(ranks.read_tensors(path))
    return run


ranks.Run = read_run
# codes of compressed gradients: where a threshold lies within rounding another code is right, too, a part of the update
ranks.ROUNDOFF.update(int8=2.0**-10, fp8=2.0**-8)
ranks.NEXT_TO_1.update(int8=(1e-6, 1e-6), fp8=(1e-6, 1e-6))


# ---- layouts ----


def divisors(n, most):
    return [d for d in range(1, most + 1) if n % d == 0]


class Layout:
    def __init__(self, rng, net, kind):
        self.rng, self.net, self.kind, self.lines, self.sizes, self.notes = rng, net, kind, [], {}, set()
        self.left = 8
        self.dims = net.dims

    def axis(self, name, size):
        self.sizes[name], self.left = size, self.left // size

    def tensor(self):
        rng, net = self.rng, self.net
        size = rng.choice([n for n in (2, 2, 3, 4) if n <= self.left])
        some = rng.sample(net.splits, rng.choice((1, 2, min(3, len(net.splits)))))
        text, lines = "\n".join(net.model_text), []
        for name in some:
            if self.dims[name] % size == 0:
                lines.append("shard %s on tensor" % name)
            elif rng.random() < 0.5 and not net.library and self.dims[name] > 1:
                lines.append("shard %s on tensor (pad = %d)" % (name, size))
                self.notes.add("pad")
        lines = [line for line in lines if len(re.findall(r"\b%s\b" % line.split()[1], text)) > 1]
        if lines:
            self.axis("tensor", size)
            self.notes.add("tensor")
            if self.dims["seq"] % size == 0 and rng.random() < 0.25:
                lines.append("shard seq on tensor")
                self.notes.add("sequence")
            self.lines += lines

    def context(self):
        rng, seq = self.rng, self.dims["seq"]
        sizes = [n for n in divisors(seq, self.left) if n > 1]
        if not sizes:
            return
        size = rng.choice(sizes)
        order = " (order = zigzag)" if seq % (2 * size) == 0 and rng.random() < 0.4 else ""
        self.lines.append("shard seq on context" + order)
        if rng.random() < 0.7:
            self.lines.append("shard kseq on context (ring = true%s)" % (", order = zigzag" if order else ""))
            self.notes.add("ring")
        self.notes |= {"context"} | ({"zigzag"} if order else set())
        self.axis("context", size)

    def expert(self):
        sizes = [n for n in divisors(self.dims.get("experts", 1), self.left) if n > 1]
        if not sizes or "experts" not in "\n".join(self.net.model_text[2:]):
            return
        self.axis("expert", self.rng.choice(sizes))
        self.lines.append("shard experts on expert")
        self.notes.add("expert")

    def pipeline(self):
        rng, net = self.rng, self.net
        total = sum(extent for _, extent in net.loops)
        if not net.loops or total < 2:
            return
        schedule = rng.choice(layouts.SCHEDULES)
        chunks = layouts.CHUNKS.get(schedule, 1)
        if schedule == "interleaved_1f1b":
            chunks = rng.choice((2, 2, 3))
        sizes = [n for n in range(2, self.left + 1) if n * chunks <= total + 1]
        if not sizes:
            return
        size = rng.choice(sizes)
        options = 'schedule = "%s"' % schedule + (", chunks = %d" % chunks if chunks > 1 else "")
        if rng.random() < 0.3:
            options += ", cuts = (%s)" % ", ".join(map(str, sorted(rng.sample(range(total + 1), size * chunks - 1))))
        self.lines.append("pipeline %s on pipe (%s)" % (", ".join(label for label, _ in net.loops), options))
        self.notes |= {"pipeline", schedule} | ({"5 stages and more"} if size > 4 else set())
        self.axis("pipe", size)
        self.wants_micro = True

    def samples(self, least=1):
        batch = self.dims["batch"] // self.micro
        sizes = [n for n in divisors(batch, self.left) if n >= least]
        if not sizes:
            return False
        size = self.rng.choice(sizes)
        if size > 1:
            self.axis("data", size)
            self.lines.append("shard batch on data")
            self.notes.add("data")
        return size > 1 or least == 1

    def zero(self):
        axes = [a for a in self.sizes if a != "pipe"]
        if not axes or self.rng.random() < 0.4:
            return
        some = self.rng.sample(axes, self.rng.choice((1, len(axes))))
        if "data" in axes and self.rng.random() < 0.5:
            some = ["data"]
        line = layouts.zero_line(self.rng, some)
        if self.rng.random() < 0.3:
            line = line.replace("zero 2", "zero 1").split(" (prefetch")[0]
        self.lines.append(line)
        self.notes.add(line[:6])

    def remat(self):
        for label, _ in self.net.loops:
            if self.rng.random() < 0.2:
                self.lines.append("remat " + label)
                self.notes.add("remat")

    def more(self, pipeline=True):
        """Mesh axes besides that of samples."""
        rng = self.rng
        ways = [self.tensor, self.tensor, self.context, self.expert] + [self.pipeline] * 2 * pipeline
        for way in rng.sample(ways, rng.choice((1, 1, 2, 3))):
            if way.__name__ not in self.done and self.left > 1:
                self.done.add(way.__name__)
                way()

    def block(self):
        lines = list(self.lines)
        self.rng.shuffle(lines)
        sizes = self.sizes or {"one": 1}
        return ["mesh " + ", ".join("%s = %d" % item for item in sizes.items())] + lines, math.prod(sizes.values())

    def any(self):
        rng, self.done, self.wants_micro = self.rng, set(), False
        self.micro = 1
        batch = self.dims["batch"]
        if rng.random() < 0.8:
            self.more()
        if self.net.micro > 1:
            self.micro = self.net.micro
        elif rng.random() < (0.85 if self.wants_micro else 0.3):
            self.micro = rng.choice(divisors(batch, batch))
        self.samples()
        if self.micro > 1:
            self.lines.append("micro batch = %d" % self.micro)
            self.notes.add("micro")
        self.zero()
        self.remat()
        if rng.random() < 0.1 and not any(re.match("shard .*(vocab|embed)", line) for line in self.lines):
            self.lines.append("stream vocab")
            self.notes.add("stream")
        return self.block()


COMPRESS = ("int8", "fp8", "one_bit", "one_bit_twice", "top_k", "random_k")


def around(rng, net, line, notes, size, micro, pipeline):
    """A layout with a line about the mesh axis `data`, and other mesh axes."""
    layout = Layout(rng, net, "around")
    layout.done, layout.wants_micro, layout.micro = set(), False, micro
    layout.axis("data", size)
    layout.lines += [line] if line.startswith(("local", "gossip")) else ["shard batch on data", line]
    layout.more(pipeline)
    if micro > 1:
        layout.lines.append("micro batch = %d" % micro)
    layout.remat()
    layout.notes |= notes
    return layout.block(), layout.notes


class Combined(ranks.Odd):
    def __init__(self, tools, seed, n_layouts, kind=None):
        rng = random.Random("combined %d" % seed)
        self.tools, self.seed, self.runs = tools, seed, {}
        first = rng.choice(KINDS)
        self.kind = kind or first
        self.net = net = nets.Net(rng, "serial" if self.kind == "auto" else self.kind)
        self.program = types.SimpleNamespace(text=net.text)
        self.optimizer = net.optimizer
        self.precision = "f32" if self.kind != "serial" or rng.random() < 0.7 else rng.choice(tuple(ranks.PRECISIONS))
        self.reference, self.layouts, self.notes, self.tolerance = None, [], [], self.precision
        getattr(self, "lay_" + self.kind)(rng, n_layouts)
        self.calls = self.optimizer + self.program.text[self.program.text.index("train {") :]
        self.cached = net.causal and rng.random() < 0.5
        self.codes = rng.random() < 0.3

    # ---- the layouts of each kind ----

    def lay_serial(self, rng, n):
        for _ in range(n):
            layout = Layout(rng, self.net, "serial")
            self.layouts.append(layout.any())
            self.notes.append(layout.notes)

    def lay_auto(self, rng, n):
        for _ in range(2):
            lines = ["auto" + rng.choice(("", "", " (minimise = memory)"))]
            if self.net.loops and rng.random() < 0.5:
                schedule = rng.choice(("interleaved_1f1b", "1f1b"))
                loops = ", ".join(label for label, _ in self.net.loops)
                lines = ["mesh pipe = %d, data = %d" % rng.choice(((2, 1), (2, 2), (3, 1), (4, 1))),
                         'pipeline %s on pipe (schedule = "%s")' % (loops, schedule)] + lines
            self.layouts.append((lines, rng.choice((2, 3, 4, 4, 6, 8))))
            self.notes.append({"auto"})

    def lay_ramp(self, rng, n):
        self.reference = (["mesh one = 1", "micro batch = %d" % self.net.micro], 1)
        self.lay_serial(rng, n)
        for notes in self.notes:
            notes.add("ramp")

    def size_and_micro(self, rng):
        batch = self.net.dims["batch"]
        micro = rng.choice([m for m in (1, 1, 2, 3) if batch % m == 0 and batch // m > 1])
        return rng.choice([d for d in range(2, 9) if batch // micro % d == 0]), micro

    def lay_compress(self, rng, n):
        size, micro = self.size_and_micro(rng)
        # gradients of a softmax add up to 0: of few, the largest two may be equal but for rounding
        ties = self.net.notes & {"layer all", "layer moe", "library mixtral"}
        name = rng.choice([name for name in COMPRESS if name != "top_k" or not ties])
        self.tolerance = name if name in ranks.ROUNDOFF else self.precision
        line = "compress %s on data%s" % (name, " (fraction = %g)" % rng.choice((0.1, 0.3, 0.01)) if name.endswith("_k") else "")
        lines = ["mesh data = %d" % size, "shard batch on data", line] + ["micro batch = %d" % micro] * (micro > 1)
        self.reference = (lines, size)
        for _ in range(n):
            layout, notes = around(rng, self.net, line, {"compress " + name}, size, micro, True)
            self.layouts.append(layout)
            self.notes.append(notes)

    def lay_replicas(self, rng, n):
        size, micro = self.size_and_micro(rng)
        line = rng.choice((
            "local %d on data" % rng.choice((1, 2, 3)),
            "local 2 on data (outer = sgd(lr = 0.7, momentum = 0.9, nesterov = true))",
            "local 2 on data (outer = adamw(lr = 0.05, eps = 1e-2))",
            "gossip ring on data", "gossip pairs on data", "gossip ring on data (every = 2)", "gossip pairs on data (every = 2)"))
        lines = ["mesh data = %d" % size, line] + ["micro batch = %d" % micro] * (micro > 1)
        self.reference = (lines, size)
        for _ in range(n):
            layout, notes = around(rng, self.net, line, {" ".join(line.split()[:2]) if "gossip" in line else
                                                        "local outer" if "outer" in line else "local"}, size, micro, False)
            self.layouts.append(layout)
            self.notes.append(notes)

    def lay_exact(self, rng, n):
        size, micro = self.size_and_micro(rng)
        batch = self.net.dims["batch"]
        for _ in range(n):
            ways = ["compress all_of on data", "compress sent on data"]
            if self.net.data in ("synthetic", "bin", "mix"):
                ways += ["local 1 on data"]
                ways += ["gossip ring on data"] * (size <= 3) + ["gossip pairs on data"] * (size == 2)
            line = rng.choice(ways)
            layout, notes = around(rng, self.net, line, {"exact " + line.split()[0]}, size, micro, line.startswith("compress"))
            self.layouts.append(layout)
            self.notes.append(notes)
        self.program.text = self.program.text.replace("train {", KEEPS_ALL + "train {", 1)

    # ---- runs ----

    def case(self, folder, text):
        for name, data in self.net.files.items():
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(data)
        return ranks.Case(self.tools, folder, text)

    def serial(self, folder, seed):
        if (folder, seed) not in self.runs:
            block = layouts.text(*self.reference) if self.reference else ""
            want = self.case(folder, self.text(seed)).run("serial%d" % seed, block)
            factor = 1.000001 if self.precision == "f32" else 1
            self.runs[folder, seed] = want, self.case(folder, self.text(seed, "f32", factor)).run("near", block)
        return self.runs[folder, seed]

    def differs(self, folder, seed, run):
        want, near = self.serial(folder, seed)
        block = layouts.text(*self.reference) if self.reference else ""
        wrong = []
        for what, got in run(self.case(folder, self.text(seed)), seed):
            if isinstance(got, str):
                wrong += [what + got] if got else []
                continue
            if self.kind == "exact":
                # a replica's norm is that of its own gradients
                replicas = any(name.startswith("replica.") for values in got.saved for name in values)
                for mine, other in zip(got.steps if replicas else (), want.steps):
                    mine[got.names.index("grad_norm")] = other[want.names.index("grad_norm")]
                for mine, other in zip(got.saved, want.saved):
                    for name in set(mine) - set(other):
                        del mine[name]
            found = ranks.compare(got, want, near, self.calls, self.tolerance)
            if found and not wrong:
                below, above = ranks.NEXT_TO_1[self.tolerance]
                nudged = [
                    self.case(folder, self.text(seed, factor=factor)).run("nudged", block)
                    for factor in (1 - below, 1 + above, 1 - 2 * below, 1 + 2 * above)
                ]
                found = ranks.compare(got, want, near, self.calls, self.tolerance, *nudged)
            wrong += [what + found] if found else []
        return "; ".join(wrong) or None

    def laid_out(self, case, seed, block):
        whole = case.run("layout", block)
        yield "", whole
        base, serial = (os.path.join(case.folder, name) for name in ("layout", "serial%d" % seed))
        turn = zlib.crc32(block.encode()) % 3
        if self.kind != "exact" and turn == 0:
            run, first = case.goes_on("layout", serial), read_run(serial + ".log", serial + ".saved")
            for values in ("steps", "norms", "saved"):
                setattr(run, values, getattr(first, values)[:1] + getattr(run, values))
            yield "gone on from a step of the reference: ", run
        elif not os.path.exists(base + ".log"):
            yield "", "no log"
        yield from self.afterwards(case, block, base, serial, turn)

    # ---- one checkpoint, two plans ----

    def afterwards(self, case, block, base, serial, turn):
        begin = ["--weights" if self.kind == "exact" else "--resume", serial + ".saved"]
        average = ["--average", "none"] if "average =" in case.text else []
        if self.net.names and self.kind != "exact" and turn == 1:
            yield "export: ", self.exports(case, base, serial, begin, average)
        if self.kind in ("serial", "auto") and turn == 1 and not average:
            yield "prune: ", self.prunes(case, base, serial)
        if self.cached and turn == 2:
            yield "text: ", self.writes(case, block, base, serial, begin + average)

    def both(self, case, base, serial, what, options):
        """Runs both plans with `options(name)`."""
        paths = [os.path.join(case.folder, name + "." + what) for name in ("mine", "other")]
        for plan, path in zip((base, serial), paths):
            shutil.rmtree(path, ignore_errors=True)
            ranks.execute([self.tools[1], plan + ".plan", "--quiet", "--timeout", "100"] + options(path), "dtrun")
        return paths

    def exports(self, case, base, serial, begin, average):
        if self.adapted_otherwise():
            return ""
        options = begin + average + ["--steps", "0", "--names", "huggingface" if self.net.library else "other", "--export"]
        mine, other = self.both(case, base, serial, "out", lambda path: options + [path])
        files = sorted(os.listdir(other))
        if sorted(os.listdir(mine)) != files:
            return "other files: %s" % sorted(os.listdir(mine))
        for name in files:
            with open(os.path.join(mine, name), "rb") as a, open(os.path.join(other, name), "rb") as b:
                if a.read() != b.read():
                    return "other bytes in %s" % name
        if self.net.adapted or average or self.precision != "f32":
            return ""
        back = os.path.join(case.folder, "back")
        shutil.rmtree(back, ignore_errors=True)
        options = ["--import", other, "--steps", "0", "--save", back]
        ranks.execute([self.tools[1], base + ".plan", "--quiet", "--timeout", "100"] + options, "dtrun")
        got = ranks.read_tensors(os.path.join(back, "step-%08d" % 0, "model.safetensors"))
        want = ranks.read_tensors(os.path.join(serial + ".saved", "step-%08d" % ranks.STEPS, "model.safetensors"))
        for name, values in want.items():
            if name not in got or got[name].tobytes() != values.tobytes():
                return "%s comes back otherwise" % name
        return ""

    def adapted_otherwise(self):
        return self.net.adapted and "ia3" in self.net.text

    def prunes(self, case, base, serial):
        pattern = random.Random(self.seed).choice(("*.w=50%", "*.w=1:2", "wte=30%", "*.w=2:4"))
        axes = self.net.dims
        if ":" in pattern and (any(axes[a] % 4 for a in ("embed", "ffn", "kv", "embed_row") if a in axes) or "conv1d" in case.text):
            pattern = "*.w=50%"
        options = ["--resume", serial + ".saved", "--steps", "0", "--prune", pattern, "--save"]
        mine, other = self.both(case, base, serial, "pruned", lambda path: options + [path])
        step = "step-%08d" % ranks.STEPS
        for part in ("model", "optimizer"):
            paths = [os.path.join(path, step, part + ".safetensors") for path in (mine, other)]
            if os.path.exists(paths[1]):
                got, want = map(ranks.read_tensors, paths)
                for name in set(got) | set(want):
                    if name not in got or name not in want or got[name].tobytes() != want[name].tobytes():
                        return "other bits in %s after %s" % (name, pattern)
        return ""

    def writes(self, case, block, base, serial, begin):
        """The text that both write. The layout's plan has a cache, unless it is a pipeline; both read weights in 8 bits, or do
        not."""
        codes = self.codes and "pipeline" not in block
        has_codes = codes and "out:linear[embed, vocab]" in case.text
        sets = ['train.quantize=int8("out.w", group = %d)' % self.net.dims["embed"]] if has_codes else []
        cache = [] if "pipeline" in block or self.kind == "exact" else ["train.generate=cached(rows = 2, chunk = 3)"]
        prompts = os.path.join(case.folder, "p.jsonl")
        rng = random.Random(self.seed)
        with open(prompts, "w") as file:
            for n in (1, 3, self.net.dims["seq"] + 1, 2, 5):
                file.write(json.dumps({"prompt": [rng.randrange(self.net.dims["vocab"]) for _ in range(n)]}) + "\n")
        found = []
        reference = layouts.text(*self.reference) if self.reference else ""
        for what, text, more in (("written", block, cache), ("writes", reference, [])):
            path = os.path.join(case.folder, what)
            with open(path + ".dsl", "w") as file:
                file.write(case.text + text)
            options = [word for item in sets + more for word in ("--set", item)]
            try:
                ranks.execute([self.tools[0], path + ".dsl", "-o", path + ".plan"] + ["--parallel", "odd"] * bool(text) + options, "dtc")
            except ranks.Failed as failure:
                if re.fullmatch(r"E\d+", failure.args[0]) and more:
                    return ""
                raise
            if os.path.exists(path + ".out"):
                os.remove(path + ".out")
            ranks.execute([self.tools[1], path + ".plan", "--quiet", "--timeout", "100", "--prompts", prompts, "--temperature", "0",
                           "--tokens", "9", "--out", path + ".out"] + begin, "dtrun")
            with open(path + ".out") as file:
                found.append([json.loads(line) for line in file])
        if len(found[0]) != len(found[1]):
            return "%d lines instead of %d" % (len(found[0]), len(found[1]))
        for a, b in zip(*found):
            if a["tokens"] != b["tokens"] or abs(a["logprob"] - b["logprob"]) > (1e-4 if self.precision == "f32" else 0.3):
                return "%s %s instead of %s %s" % (a["tokens"], a["logprob"], b["tokens"], b["logprob"])
        return ""

    def check(self):
        found = []
        with tempfile.TemporaryDirectory(prefix="combined-") as folder:
            try:
                self.serial(folder, ranks.SEEDS[0])
            except ranks.Failed as failure:
                return [("reference",) + failure.args]
            for lines, n in self.layouts:
                found.append(("; ".join(lines),) + self.judge_layout(folder, layouts.text(lines, n)))
        return found

    def judge_layout(self, folder, block):
        if block:
            return self.judge(folder, lambda case, seed: self.laid_out(case, seed, block))
        return self.judge(folder, lambda case, _: [("", case.run("layout"))])


def message(said):
    """The first error, without names and numbers."""
    found = re.search(r"error\[E\d+\]: (.*)", said) or re.search(r"(.+)", said)
    return found[1][:160] if found else ""


def checked(odd):
    try:
        return odd.check()
    except Exception as failure:  # of this program: shown with its seed
        return [("generator", "error", traceback.format_exc())]


def run_all(tools, first, count, n_layouts, kind, state):
    tally, features, bad, refused = collections.Counter(), collections.Counter(), 0, collections.Counter()
    seeds = ranks.share.of(range(first, first + count))
    with concurrent.futures.ThreadPoolExecutor(ranks.JOBS) as pool:
        odds = [Combined(tools, seed, n_layouts, kind) for seed in seeds]
        runs = {pool.submit(checked, odd): odd for odd in odds}
        for run in concurrent.futures.as_completed(runs):
            odd, found = runs[run], run.result()
            for i, (what, verdict, said) in enumerate(found):
                tally[verdict] += 1
                wrong = ranks.is_bad(what, verdict)
                if wrong:
                    bad += 1
                    wrongs = [line for line in said.splitlines() if "internal" in line or "error" in line] or [said]
                    ranks.show(odd, odd.kind + ": " + what, verdict, "\n".join(wrongs))
                elif verdict != "equal":
                    refused[verdict + " " + message(said)] += 1
                elif what != "reference":
                    features.update(odd.net.notes | odd.notes[i] | {"kind " + odd.kind, "precision " + odd.precision})
                if state:
                    notes = sorted(odd.net.notes | (odd.notes[i] if i < len(odd.notes) else set()))
                    with open(state, "a") as file:
                        file.write(json.dumps([odd.seed, odd.kind, what, verdict, message(said) if said else "", notes]) + "\n")
    print(", ".join("%d %s" % (n, verdict) for verdict, n in tally.most_common()))
    print("equal by feature: " + ", ".join("%s %d" % item for item in sorted(features.items())))
    if "--refused" in sys.argv:
        print("\n".join("%5d %s" % (n, text) for text, n in refused.most_common()))
    print("%d passed, %d failed" % (sum(tally.values()) - bad, bad))
    return bad == 0


def main(arguments):
    flags = {}
    for flag in ("--state", "--layouts", "--minimise", "--kind"):
        if flag in arguments:
            at = arguments.index(flag)
            flags[flag] = arguments[at + 1]
            del arguments[at : at + 2]
    tools, n_layouts = [os.path.abspath(path) for path in arguments[:2]], int(flags.get("--layouts", 3))
    first, kind = int(arguments[2]), flags.get("--kind")
    if "--minimise" in flags:
        ranks.minimise(Combined(tools, first, n_layouts, kind), int(flags["--minimise"]))
        return 0
    if "--show" in arguments:
        odd = Combined(tools, first, n_layouts, kind)
        print(odd.text(ranks.SEEDS[0]))
        print(odd.reference)
        for what, verdict, said in checked(odd):
            ranks.show(odd, odd.kind + ": " + what, verdict, said)
        return 0
    return 0 if run_all(tools, first, int(arguments[3]), n_layouts, kind, flags.get("--state")) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
