#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Crowded programs: few kinds of statements, each value read by many, on real ranks against the serial run.

  crowded.py DTC DTRUN FIRST COUNT [--state FILE] [--layouts N]    the programs of seeds FIRST .. FIRST + COUNT - 1
  crowded.py DTC DTRUN FIRST COUNT --proved                        only compiled, without kernels; also for GPUs
  crowded.py DTC DTRUN FIRST COUNT --gpu                           layouts for sm_90a; LD_LIBRARY_PATH has stand-ins
  crowded.py DTC DTRUN SEED --show | --minimise LAYOUT             as ranks.py

What ranks.py rarely draws: values with several readers in loops whose iterations are computed again, so that kernels
compute maps again next to updates; weights that layers share with each other and with what follows the loops; slices
that overlap, are turned around, or lie outside, joined again; groups of parameters with norms of their own; pipelines
cut unevenly under all schedules, with samples over ranks, buckets and 16 bits beside them. Compared as in ranks.py."""

import math
import os
import random
import sys
import tempfile

import layouts
import programs
import proved
import ranks

MAPS = ("tanh(%s)", "gelu_tanh(%s)", "silu(%s)", "exp(0.3 * tanh(%s))", "sin(%s)", "0.7 * %s + 0.1",
        "sqrt(1 + %s ** 2)")
PAIRS = ("0.6 * %s + 0.6 * %s", "%s * tanh(%s)", "%s - 0.5 * %s", "%s * sigmoid(%s)", "max(%s, 0.8 * %s)")
CLIPS = ("", ", clip = 0.5", ", clip = 1.0", ", clip = 0.3, own_norm = true")
SCHEDULES = ("1f1b", "gpipe", "zb_h1", "zb_h1", "zb_v", "zb_v", "dualpipe_v", "interleaved_1f1b")


class Maker:
    def __init__(self, rng):
        self.rng, self.lines, self.indent, self.count = rng, [], "  ", 0
        self.n = {"seq": rng.choice((4, 6, 8)), "embed": rng.choice((4, 8, 12)), "ffn": rng.choice((8, 16)),
                  "vocab": rng.choice((10, 16))}
        self.shared = []  # weights [embed, ffn] of the top level
        self.places = []

    def fresh(self, stem="v"):
        self.count += 1
        return "%s%d" % (stem, self.count)

    def let(self, expression, stem="v"):
        name = self.fresh(stem)
        self.say("%s = %s" % (name, expression))
        return name

    def say(self, text):
        self.lines.append(self.indent + text)

    # ---- statements: all values have batch, seq, embed ----

    def mapped(self, x, _):
        return self.rng.choice(MAPS) % x

    def paired(self, x, y):
        return self.rng.choice(PAIRS) % (x, y)

    def normed(self, x, _):
        return "%s:%s[embed](%s)" % (self.fresh("n"), self.rng.choice(("layernorm", "rmsnorm")), x)

    def scaled(self, x, y):
        p = self.fresh("p")
        self.say("param %s[embed] = %s" % (p, self.rng.choice(("normal(0.5)", "ones"))))
        return self.rng.choice(("{0} * {2}", "{0} + {2}", "{0} * {2} + {1}")).format(x, y, p)

    def through(self, x, y):
        """Adds a top-level weight there, and perhaps uses another one again."""
        if not self.shared:
            return self.paired(x, y)
        a, b = self.rng.choice(self.shared), self.rng.choice(self.shared)
        wide = self.let("%s @embed %s" % (x, a), "q")
        wide = "(%s)" % (self.rng.choice(MAPS) % wide)
        return "%.3f * (%s @ffn %s)" % (0.7 / math.sqrt(self.n["ffn"]), wide, b)

    def block(self, x, _):
        """A layer's own weights; the value between them has two readers."""
        a, b = self.fresh("l"), self.fresh("l")
        self.places += [a, b]
        std = 1 / math.sqrt(self.n["embed"])
        bias = self.rng.choice(("", ", bias = false"))
        wide = self.let("%s:linear[embed, ffn](%s, std = %.3f%s)" % (a, x, std, bias), "q")
        form = self.rng.choice(("%s * sigmoid(%s)", "gelu_tanh(%s) + 0.1 * %s"))
        return "%s:linear[ffn, embed](%s, std = 0.2)" % (b, form % (wide, wide))

    def pieces(self, x, y):
        """Slices of an axis, which may overlap or leave out some of it, joined again; perhaps slices
        of two values."""
        axis, rng = self.rng.choice(("seq", "embed")), self.rng
        n, left, parts = self.n[axis], self.n[axis], []
        names = [self.let("%s[%s -> piece]" % (v, axis), "s") for v in (x, y)]
        while left:
            length = left if len(parts) == 3 else rng.randint(1, left)
            lo = rng.randint(0, n - length)
            parts.append("%s[piece = %d .. %d]" % (rng.choice(names), lo, lo + length))
            left -= length
        if len(parts) == 1:
            return "%s + 0.5 * %s" % (x, y)
        return "concat[piece](%s)[piece -> %s]" % (", ".join(parts), axis)

    def covered(self, x, y):
        """All slices of a value, each read by another statement."""
        axis = self.rng.choice(("seq", "embed"))
        n = self.n[axis]
        cuts = sorted(self.rng.sample(range(1, n), min(n - 1, self.rng.choice((1, 1, 2)))))
        e = self.let("%s[%s -> piece]" % (x, axis), "s")
        parts = ["%s[piece = %d .. %d]" % (e, lo, hi) for lo, hi in zip([0] + cuts, cuts + [n])]
        parts = [self.rng.choice(MAPS + ("%s",)) % part for part in parts]
        self.rng.shuffle(parts)
        return "concat[piece](%s)[piece -> %s] + 0.3 * %s" % (", ".join(parts), axis, y)

    def turned(self, x, y):
        axis = self.rng.choice(("seq", "embed"))
        n = self.n[axis]
        at = self.rng.choice(("%d - iota[%s]" % (n - 1, axis), "iota[%s] - %d" % (axis, self.rng.choice((1, 2))),
                              "iota[%s] + %d" % (axis, self.rng.choice((1, 3))), "%d - iota[%s]" % (n, axis),
                              "(iota[%s] * 3) %% %d" % (axis, n)))
        form = self.rng.choice(("{0}[{2} = {3}]", "{1} + 0.5 * {0}[{2} = {3}]", "{0} * {0}[{2} = {3}]"))
        return form.format(x, y, axis, at)

    def halves(self, x, y):
        """Two parts of the features that are multiplied with each other, like rotary embeddings rotate
        them."""
        n = self.n["embed"] // 2
        parts = self.let("%s[embed -> (two = 2, half = %d)]" % (x, n), "r")
        a, b = self.fresh(), self.fresh()
        self.say("%s, %s = unstack[two](%s)" % (a, b, parts))
        angle = "cos(0.1 * iota[seq])"
        return "stack[two](%s * %s - %s, %s + %s)[(two, half) -> embed] + 0.2 * %s" % (a, angle, b, b, a, y)

    def narrowed(self, x, y):
        axis = self.rng.choice(("seq", "embed"))
        kind = self.rng.choice(("mean", "max", "sum"))
        r = self.let(("0.3 * " if kind == "sum" else "") + "%s[%s](%s)" % (kind, axis, x), "r")
        return self.rng.choice(("{0} - {2}", "{1} * tanh({2})", "{0} + 0.3 * {2} * {2}")).format(x, y, r)

    def soft(self, x, _):
        axis = self.rng.choice(("seq", "embed"))
        return "%d * softmax[%s](%s)" % (self.n[axis], axis, x)

    def dropped(self, x, _):
        return "dropout(%s, %s)" % (x, self.rng.choice(("0.1", "0.4")))

    # ---- structure ----

    def body(self, values, n):
        """n statements; each reads earlier values, mostly values that already have a reader."""
        kinds = ((self.mapped, 2), (self.paired, 3), (self.normed, 1.5), (self.scaled, 1), (self.through, 2),
                 (self.block, 2), (self.pieces, 1.5), (self.covered, 1.5), (self.turned, 1), (self.halves, 1),
                 (self.narrowed, 1), (self.soft, 0.5), (self.dropped, 0.5))
        for _ in range(n):
            make = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
            values.append(self.let(make(self.rng.choice(values[-4:]), self.rng.choice(values))))
        return values

    def gathered(self, values):
        some = self.rng.sample(values, min(len(values), 3))
        terms = ["%.1f * %s" % (self.rng.choice((0.3, 0.5, 0.8)), v) for v in some + values[-1:]]
        return "1.5 * tanh(%s)" % " + ".join(terms)

    def loop(self, x, number, seen):
        label, count = "h%d" % number, self.rng.choice((2, 3, 4, 5, 6))
        carried = self.let(x, "c")
        self.say("repeat %s in layers%d {" % (label, number))
        self.indent, begin = "    ", len(self.lines)
        first = [carried, self.rng.choice(seen)] if self.rng.random() < 0.5 else [carried]
        values = self.body(first, self.rng.choice((2, 3, 4, 5)))
        self.say("%s = 0.5 * %s + 0.6 * %s" % (carried, carried, self.gathered(values)))
        names = [line.split()[0] for line in self.lines[begin:] if " = " in line]
        self.indent = "  "
        self.say("}")
        return carried, label, count, sorted({name for name in names if name[0] in "vqsr" and name[1:].isdigit()})


def optimizers(rng, lines):
    """The entry `optimizer` of the train block, and others for parameters of their own."""
    calls = ["sgd(lr = 0.2, momentum = 0.9%s)", "sgd(lr = 0.1%s)", "adamw(lr = 0.01, eps = 1e-2%s)",
             "adamw(lr = 0.01, eps = 1e-2, decay = 0.1, decay_if = rank > 1%s)"]
    call = lambda: rng.choice(calls) % rng.choice(CLIPS).replace(", own_norm = true", "")
    names, more = programs.parameters("\n".join(lines)), []
    rng.shuffle(names)
    for entry in ("apart", "third"):
        if len(names) > 3 and rng.random() < 0.5:
            some = [names.pop() for _ in range(rng.choice((1, 2)))]
            text, paths = (rng.choice(calls) % rng.choice(CLIPS))[:-1], ", ".join('"*%s"' % name for name in some)
            more.append("  %s = %s, params = %s)" % (entry, text, "(%s)" % paths if len(some) > 1 else paths))
    return call(), more


def make(rng):
    """Returns (program, optimizer)"""
    maker = Maker(rng)
    for _ in range(rng.choice((0, 1, 2))):
        w = maker.fresh("w")
        maker.say("param %s[embed, ffn] = normal(0.4)" % w)
        maker.shared.append(w)
    maker.say("param wte[vocab, embed] = normal(0.7)")
    x = maker.let("wte[vocab = tokens]")
    maker.lines.append("NUDGE " + x)
    seen, loops, bodies, dims = [x], [], {}, dict(maker.n, batch=rng.choice((8, 8, 12)))
    for number in range(rng.choice((1, 1, 2))):
        values = maker.body(seen[-1:], rng.choice((0, 1, 2)))
        carried, label, count, names = maker.loop(values[-1], number, seen)
        seen.append(carried)
        loops.append(label)
        bodies[label], dims["layers%d" % number] = names, count
    values = maker.body(seen[-2:], rng.choice((1, 2, 3)))
    out = maker.let(maker.gathered(values))
    tied = rng.random() < 0.6
    maker.say("return %s" % ("%s @embed wte" % out if tied else "out:linear[embed, vocab](%s)" % out))
    optimizer, more = optimizers(rng, maker.lines)
    text = ['include "std.dsl"', "dim " + ", ".join("%s = %d" % item for item in dims.items()), "axis piece, two, half",
            "model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {"] + maker.lines + [
            "}", "train {", "  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))",
            "  y = m(tokens)", "  loss = mean[batch, seq](xent[vocab](y, labels))"] + more + [
            "  optimizer = OPTIMIZER", "  seed = SEED", "  steps = 3", "}", ""]
    return programs.Program("\n".join(text), dims, loops, maker.places, False, bodies), optimizer


def pipeline(rng, program, size):
    schedule = rng.choice(SCHEDULES)
    chunks = layouts.CHUNKS.get(schedule, 1)
    total = sum(program.dims["layers%d" % i] for i in range(len(program.loops)))
    options = 'schedule = "%s"' % schedule + (", chunks = %d" % chunks if chunks > 1 else "")
    if size * chunks <= total + 2 and rng.random() < 0.7:
        cuts = sorted(rng.sample(range(total + 1), size * chunks - 1))
        options += ", cuts = (%s)" % ", ".join(map(str, cuts)) if len(cuts) > 1 else ", cuts = (%d,)" % cuts[0]
    return "pipeline %s on pipe (%s)" % (", ".join(program.loops), options.replace(",)", ")"))


def layout(rng, program):
    """Returns (lines of the parallel block, ranks)"""
    sizes, lines = {}, []
    if rng.random() < 0.6:
        sizes["pipe"] = rng.choice((2, 2, 2, 3, 4))
        lines.append(pipeline(rng, program, sizes["pipe"]))
    if "pipe" not in sizes or rng.random() < 0.6:
        sizes["data"] = rng.choice((2, 2, 4)) if "pipe" not in sizes and program.dims["batch"] % 4 == 0 else 2
        lines.append("shard batch on data")
    if math.prod(sizes.values()) <= 4 and rng.random() < 0.35:
        sizes["tensor"] = 2
        lines.append("shard %s on tensor" % rng.choice(("ffn", "ffn, vocab", "embed", "vocab", "seq", "vocab, seq")))
    if "pipe" in sizes or rng.random() < 0.4:
        four = program.dims["batch"] == 8 or "data" not in sizes
        lines.append("micro batch = %d" % (rng.choice((2, 2, 4)) if four else 2))
    if "data" in sizes and rng.random() < 0.75:
        level = rng.choice((1, 2, 3, 3))
        options = rng.choice(([], ["bucket = 256B"], ["bucket = 1KB"]))
        if level == 3 and rng.random() < 0.5:
            options = options + ["prefetch = %d" % rng.choice((1, 2))]
        lines.append("zero %d on data%s" % (level, " (%s)" % ", ".join(options) if options else ""))
    for loop in program.loops:
        if rng.random() < 0.6:
            names = program.bodies[loop]
            some = rng.sample(names, min(len(names), rng.choice((1, 2)))) if rng.random() < 0.6 else []
            of = " (%s = %s)" % (rng.choice(("keep", "drop")), some[0] if len(some) == 1 else "(%s)" % ", ".join(some))
            lines.append("remat " + loop + (of if some else ""))
    return ["mesh " + ", ".join("%s = %d" % item for item in sizes.items())] + lines, math.prod(sizes.values())


class Odd(ranks.Odd):
    gpu = False

    def __init__(self, tools, seed, n_layouts):
        rng = random.Random("crowded %d" % seed)
        self.tools, self.seed, self.runs = tools, seed, {}
        self.program, self.optimizer = make(rng)
        self.precision = rng.choice(("f32", "f32") + tuple(ranks.PRECISIONS))
        self.layouts = [layout(rng, self.program) for _ in range(n_layouts)]
        self.calls = self.optimizer + self.program.text[self.program.text.index("train {"):]

    def laid_out(self, case, seed, block):
        if not self.gpu:
            yield from super().laid_out(case, seed, block)
        else:
            yield "", case.run("layout", block, ["--target=sm_90a"], flags=["--share-gpu"])


def prove(tools, seed, n_layouts, folder):
    """Returns [(what was run, verdict, output)]"""
    odd, found = Odd(tools, seed, n_layouts), []
    path = os.path.join(folder, "%d.dsl" % seed)
    for lines, n in [([], 1)] + odd.layouts:
        for options in ([], ["--target=sm_90a"], ["--unfused"]):
            with open(path, "w") as file:
                file.write(odd.text(ranks.SEEDS[0]) + (layouts.text(lines, n) if lines else ""))
            more = options + (["--parallel", "odd"] if lines else [])
            found.append(("; ".join(lines + options),) + proved.verdict_of(tools[0], path, more))
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    return odd, found


def prove_all(tools, first, count, n_layouts):
    tally, bad = {}, 0
    with tempfile.TemporaryDirectory(prefix="crowded-") as folder:
        for seed in ranks.share.of(range(first, first + count)):
            odd, found = prove(tools, seed, n_layouts, folder)
            for what, verdict, said in found:
                tally[verdict] = tally.get(verdict, 0) + 1
                if proved.is_bad(verdict):
                    bad += 1
                    proved.show(odd, what, verdict, said)
    print(", ".join("%d %s" % (n, verdict) for verdict, n in sorted(tally.items(), key=lambda item: -item[1])))
    print("%d passed, %d failed" % (sum(tally.values()) - bad, bad))
    return 1 if bad else 0


def main(arguments):
    ranks.Odd = Odd
    if "--gpu" in arguments:
        arguments.remove("--gpu")
        Odd.gpu = True
    if "--proved" in arguments:
        arguments.remove("--proved")
        return prove_all([os.path.abspath(path) for path in arguments[:2]], int(arguments[2]), int(arguments[3]), 4)
    return ranks.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
