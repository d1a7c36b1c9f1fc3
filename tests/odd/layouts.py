# SPDX-License-Identifier: Apache-2.0
"""Random layouts of a random program: any mesh of up to eight ranks, any lines, or such lines as one would write. Most
that dtc refuses are refused for a reason; what it accepts must train as the serial program does."""

import math
import random
import re

SCHEDULES = ("1f1b", "gpipe", "zb_h1", "zb_v", "dualpipe_v", "interleaved_1f1b")
CHUNKS = {"interleaved_1f1b": 2, "zb_v": 2, "dualpipe_v": 2}


def shard_lines(rng, program, axes, sizes):
    lines, names = [], [d for d in program.dims if d != "batch" and not d.startswith("layers")]
    for axis in axes:
        fits = [d for d in names if program.dims[d] % sizes[axis] == 0] or ["batch"]
        way = rng.random()
        if way < 0.3:
            lines.append("shard batch on " + axis)
        elif way < 0.6:
            lines.append("shard %s on %s" % (", ".join(rng.sample(fits, min(len(fits), rng.choice((1, 2, 3))))), axis))
        elif way < 0.72 and program.has_keys:
            zigzag = rng.random() < 0.5 and program.dims["seq"] % (2 * sizes[axis]) == 0
            lines.append("shard seq on %s%s" % (axis, " (order = zigzag)" if zigzag else ""))
            lines.append("shard kseq on %s (ring = true%s)" % (axis, ", order = zigzag" if zigzag else ""))
        elif way < 0.82:
            lines.append("shard %s on %s (pad = %d)" % (rng.choice(names), axis, rng.choice((2, 3, 4, 6, 8, 16))))
        elif way < 0.92 and program.places:
            lines.append("shard %s.%s on %s" % (rng.choice(program.places), rng.choice(fits), axis))
            lines.append("shard %s on %s" % (rng.choice(fits + ["batch"]), axis))
        else:
            lines.append("shard %s on %s" % (rng.choice(fits), axis))
            lines.append("shard %s on %s" % (rng.choice(fits + ["batch"]), axis))
    if len(axes) > 1 and rng.random() < 0.15:
        lines.append("shard %s on %s" % (rng.choice(names + ["batch"]), ", ".join(rng.sample(axes, 2))))
    rng.shuffle(lines)
    return lines


def pipeline_line(rng, loops, axis, size, text):
    schedule = rng.choice(SCHEDULES)
    chunks = CHUNKS.get(schedule, 1)
    counts = [re.search(r"repeat %s in layers(\d+)" % loop, text) for loop in loops]
    total = sum(int(count[1]) for count in counts if count)
    options = 'schedule = "%s"' % schedule + (", chunks = %d" % chunks if chunks > 1 else "")
    if 1 < size * chunks <= total + 1 and rng.random() < 0.3:  # pieces of different lengths
        cuts = sorted(rng.sample(range(total + 1), size * chunks - 1))
        options += ", cuts = (%s)" % ", ".join(map(str, cuts))
    return "pipeline %s on %s (%s)" % (", ".join(loops), axis, options)


def zero_line(rng, axes):
    """Loops that gather parameters ahead, or whose buckets are summed in the next iteration, need
    parameters that fill some buckets."""
    level = rng.choice((2, 3, 3))
    options = rng.choice(([], ["bucket = 256B"], ["bucket = 1KB"], ["bucket = 4KB"]))
    if level == 3 and rng.random() < 0.6:
        options = options + ["prefetch = %d" % rng.choice((0, 1, 2, 3))]
    return "zero %d on %s%s" % (level, ", ".join(axes), " (%s)" % ", ".join(options) if options else "")


def usual(rng, program):
    """A sensible layout: samples over one mesh axis, features over another, positions or stages over a
    third, optimizer states split over the first."""
    sizes = {"data": rng.choice([d for d in (2, 2, 4) if program.dims["batch"] % d == 0])}
    lines = ["shard batch on data"]
    wide = [d for d in ("ffn", "wide", "mid", "heads", "vocab", "experts") if program.dims.get(d, 1) % 2 == 0]
    if wide and rng.random() < 0.4:
        sizes["tensor"] = 2
        lines.append("shard %s on tensor" % ", ".join(rng.sample(wide, rng.choice((1, len(wide))))))
    third = rng.random()
    if program.loops and third < 0.3:
        sizes["pipe"] = 2
        lines.append(pipeline_line(rng, program.loops, "pipe", 2, program.text))
        lines.append("micro batch = 2")
    elif program.dims.get("seq", 1) % 2 == 0 and third < 0.5:
        sizes["context"] = 2
        lines.append("shard seq on context")
        if program.has_keys:
            lines.append("shard kseq on context%s" % rng.choice(("", " (ring = true)")))
    elif rng.random() < 0.2:
        lines.append("micro batch = 2")
    lines.append(zero_line(rng, ["data"] + ["context"] * ("context" in sizes and rng.random() < 0.5)))
    lines += ["remat " + loop for loop in program.loops if rng.random() < 0.2]
    return ["mesh " + ", ".join("%s = %d" % item for item in sizes.items())] + lines, math.prod(sizes.values())


def streamed(lines, program):
    """Adds a line that streams logits to some layouts that do not split them. Other layouts stay what they
    are: this draws from a generator of its own."""
    own = random.Random("\n".join(lines))
    whole = not any(re.match(r"shard .*\b(vocab|embed)\b", line) for line in lines)
    return lines + ["stream vocab"] * ("xent[vocab](y," in program.text and whole and own.random() < 0.3)


def make(rng, program):
    """Returns (lines of the parallel block, ranks)"""
    lines, ranks = usual(rng, program) if rng.random() < 0.3 else strange(rng, program)
    return streamed(lines, program), ranks


def chosen(rng, program):
    """A layout that the compiler chooses, by step time or by memory; sometimes with lines that it must
    keep."""
    line = "auto" + rng.choice(("", "", " (minimise = memory)"))
    kept = [["micro batch = 2"], ["remat " + rng.choice(program.loops)] if program.loops else []]
    return rng.choice(([], [], *kept)) + [line], rng.choice((2, 3, 4, 4, 8))


def strange(rng, program):
    ranks = rng.choice((1, 2, 2, 2, 4, 4, 4, 3, 8))
    left, sizes = ranks, {}
    for axis in rng.sample(("data", "tensor", "context", "expert"), rng.choice((1, 1, 2, 2, 3))):
        sizes[axis] = rng.choice([d for d in (1, 2, 3, 4, 8) if left % d == 0])
        left //= sizes[axis]
    if left > 1:
        sizes["rest"] = left
    axes, staged = list(sizes), None
    if program.loops and rng.random() < 0.35:
        staged = rng.choice(axes)
        axes.remove(staged)
    lines = ["mesh " + ", ".join("%s = %d" % item for item in sizes.items())] + shard_lines(rng, program, axes, sizes)
    if staged:
        loops = program.loops if rng.random() < 0.7 else [rng.choice(program.loops)]
        lines.append(pipeline_line(rng, loops, staged, sizes[staged], program.text))
    if staged or rng.random() < 0.3:
        lines.append("micro batch = %d" % rng.choice((2, 4) if staged else (2, 2, 4)))
    if axes and rng.random() < 0.4:
        level = rng.choice((1, 2, 3))
        more = rng.choice(("", "", " (bucket = 256B)", " (prefetch = 1)" if level == 3 else ""))
        lines.append("zero %d on %s%s" % (level, ", ".join(rng.sample(axes, rng.choice((1, len(axes))))), more))
    for loop in program.loops:
        if rng.random() < 0.25:
            names = program.bodies[loop]
            some = rng.sample(names, min(len(names), rng.choice((1, 2)))) if rng.random() < 0.5 else []
            of = " (%s = %s)" % (rng.choice(("keep", "drop")), some[0] if len(some) == 1 else "(%s)" % ", ".join(some))
            lines.append("remat " + loop + (of if some else ""))
    return lines, math.prod(sizes.values())


def text(lines, ranks):
    return 'cluster odd_machine { gpus = %d; gpu = "cpu" }\nparallel odd on odd_machine {\n%s\n}\n' % (
        ranks,
        "\n".join("  " + line for line in lines),
    )
