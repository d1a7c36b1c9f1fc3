# SPDX-License-Identifier: Apache-2.0
"""The covering plan of the sweep: which layouts of which programs are tried.

A layout is one value of each factor below. First come the simple ones, with one factor that is not the plainest. Then
every pair of values of two factors that dtc accepts together occurs in some layout (pairwise covering, found greedily
from a fixed seed). `sweep.py --plan` prints it; layouts.txt holds it, with what becomes of each. Pairs that it rejects
whatever else a layout has (`meaningless`) stand in rejected.txt with the diagnostic.
"""
import itertools
import math
import random
import re

# ---- programs ----

# dims: extents small enough for an interpreter and divisible by every split below. The names that each role has in
# the program: what tensor parallelism splits, the sequence axes, loops, experts.
PROGRAMS = {
    "quickstart": dict(file="examples/quickstart.dsl", dims="batch=16 seq=8 vocab=16 embed=8 heads=4 layers=8",
                       tensor="heads, ffn, vocab", seq="seq", keys="kseq", loops=["h"], heads="heads"),
    "gpt2": dict(file="examples/gpt2.dsl", dims="batch=16 seq=8 vocab=16 embed=8 heads=4 layers=8",
                 tensor="heads, ffn, vocab", seq="seq", keys="kseq", loops=["h"], heads="heads"),
    "llama": dict(file="examples/llama3_8b.dsl", dims="batch=16 seq=8 vocab=16 layers=8 embed=8 kv=4 group=2 head=4 ffn=8",
                  tensor="kv, ffn, vocab", seq="seq", keys="kseq", loops=["h"], heads="kv"),
    "moe": dict(file="examples/moe.dsl",
                dims="batch=16 seq=8 vocab=16 layers=8 pool=8 experts=4 embed=8 kv=4 group=1 head=4 ffn=8",
                tensor="kv, ffn, vocab", seq="seq", keys="kseq", loops=["h"], heads="kv", experts="experts"),
    "bert": dict(file="examples/bert.dsl", dims="batch=16 seq=8 vocab=16 layers=8 embed=8 heads=4 head=4 ffn=8",
                 tensor="heads, ffn, vocab", seq="seq", keys="kseq", loops=["h"], heads="heads"),
    "t5": dict(file="examples/t5.dsl",
               dims="batch=16 src=8 tgt=8 vocab=16 enc=4 dec=4 embed=8 heads=4 head=4 ffn=8 buckets=8",
               tensor="heads, ffn, vocab", seq="src, tgt", keys="ksrc, ktgt", loops=["e", "d"], heads="heads"),
    "vit": dict(file="examples/vit.dsl",
                dims="batch=16 gh=2 gw=2 ph=2 pw=2 classes=8 layers=8 embed=8 heads=4 head=4 ffn=8",
                tensor="heads, ffn, classes", loops=["h"], heads="heads"),
    "vgg16": dict(file="examples/vgg16.dsl", dims="batch=16 side=32 c0=2 classes=8 fc=8", tensor="fc, fd, classes",
                  cuts={2: ["f1"], 4: ["t.0.c1", "t.2.c1", "f1"]}),
    "states": dict(file="tests/sweep/shared_states.dsl", dims="batch=16 pool=8 embed=8 ffn=8 layers=8 classes=8",
                   tensor="ffn, classes", loops=["h"]),
}

# ---- factors ----

# Kinds of parallelism, a pipeline aside: mesh axes, then shard lines with the roles of the program in capitals.
KINDS = {
    "none": ([], []),
    "d": ([("data", 2)], ["batch on data"]),
    "d4": ([("data", 4)], ["batch on data"]),
    "dd": ([("outer", 2), ("data", 2)], ["batch on outer, data"]),
    "t": ([("tensor", 2)], ["TENSOR on tensor"]),
    "t4": ([("tensor", 4)], ["TENSOR on tensor"]),
    "ts": ([("tensor", 2)], ["TENSOR on tensor", "SEQ on tensor"]),
    "tt": ([("row", 2), ("column", 2)], ["TENSOR on column", "embed on row"]),
    "c": ([("context", 2)], ["SEQ on context"]),
    "u": ([("context", 2)], ["attend.HEADS on context", "SEQ on context"]),
    "r": ([("context", 2)], ["SEQ on context", "KEYS on context (ring = true)"]),
    "z": ([("context", 2)], ["SEQ on context (order = zigzag)"]),
    "p": ([("tensor", 2)], ["vocab on tensor (pad = 6)"]),
    "e": ([("expert", 2)], ["EXPERTS on expert", "batch on expert"]),
    "e4": ([("expert", 4)], ["EXPERTS on expert", "batch on expert"]),
    "dt": ([("data", 2), ("tensor", 2)], ["TENSOR on tensor", "batch on data"]),
    "dts": ([("data", 2), ("tensor", 2)], ["TENSOR on tensor", "SEQ on tensor", "batch on data"]),
    "dtt": ([("data", 2), ("row", 2), ("column", 2)], ["TENSOR on column", "embed on row", "batch on data"]),
    "dc": ([("data", 2), ("context", 2)], ["SEQ on context", "batch on data"]),
    "du": ([("data", 2), ("context", 2)], ["attend.HEADS on context", "SEQ on context", "batch on data"]),
    "ct": ([("context", 2), ("tensor", 2)], ["TENSOR on tensor", "SEQ on context"]),
    "cts": ([("context", 2), ("tensor", 2)], ["TENSOR on tensor", "SEQ on context, tensor"]),
    "ut": ([("context", 2), ("tensor", 2)],
           ["attend.HEADS on tensor, context", "TENSOR on tensor", "SEQ on context"]),
    "dct": ([("data", 2), ("context", 2), ("tensor", 2)],
            ["TENSOR on tensor", "SEQ on context, tensor", "batch on data"]),
    "de": ([("data", 2), ("expert", 2)], ["EXPERTS on expert", "batch on data, expert"]),
    "et": ([("expert", 2), ("tensor", 2)],
           ["EXPERTS on expert", "TENSOR on tensor", "SEQ on tensor", "batch on expert"]),
    "det": ([("data", 2), ("expert", 2), ("tensor", 2)],
            ["EXPERTS on expert", "TENSOR on tensor", "batch on data, expert"]),
}
FACTORS = {
    "program": list(PROGRAMS),
    "kind": list(KINDS),
    "schedule": ["-", "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "dualpipe_v"],
    "micro": ["1", "2", "4"],
    "zero": ["0", "1", "2", "3"],
    "remat": ["-", "all", "keep"],
    "precision": ["f32", "bf16", "master", "f16"],
}
# A program of rows made by hand: a loop along an axis.
PROGRAMS["along"] = dict(file="tests/sweep/along.dsl", dims="batch=16 seq=8 embed=8 wide=8 layers=8 classes=8",
                         tensor="wide, classes", seq="seq", loops=["h"])
# Kinds of rows made by hand: windows along split axes, and lines for places. Such rows may also have a value of zero
# with what `prefetch` is behind a plus: 3+2.
KINDS.update({
    "h": ([("rows", 2)], ["height on rows"]),
    "hw": ([("rows", 2), ("columns", 2)], ["height on rows", "width on columns"]),
    "dh": ([("data", 2), ("rows", 2)], ["height on rows", "batch on data"]),
    "ht": ([("rows", 2), ("tensor", 2)], ["TENSOR on tensor", "height, width on rows"]),
    "lh": ([("data", 2), ("rows", 2)], ["s.c1.height on data", "s.c2.width on rows", "batch on data, rows"]),
    "ln": ([("data", 2), ("tensor", 2)], ["ln1.embed on tensor", "mlp.seq on tensor", "attention.batch on data", "ffn on tensor, data"]),
    "lp": ([("data", 2), ("tensor", 2)], ["wte.vocab on data", "wq.embed on tensor", "wk.heads on tensor", "wv.head on tensor", "batch on data"]),
    "lb": ([("data", 2), ("context", 2)], ["attend.heads on data", "attend.batch on context", "seq on data, context"]),
    "lg": ([("context", 2), ("tensor", 2)], ["attend.group on context", "group, kv on tensor", "seq on context"]),
    "lt": ([("data", 2), ("tensor", 2)], ["rel_e.heads on data", "rel_d.buckets on data", "cross.tgt on data", "heads on tensor"]),
    "lf": ([("tensor", 2)], ["rope.head on tensor", "kv, ffn, vocab on tensor"]),
    "ls": ([("data", 2), ("tensor", 2)], ["ph on data", "pw on tensor"]),
    "eo": ([("expert", 2), ("data", 2)], ["experts on expert, data", "batch on data, expert"]),
    "er": ([("expert", 2), ("data", 2)], ["route on expert", "experts on data", "batch on data, expert"]),
    "eb": ([("expert", 2)], ["each on expert", "experts on expert"]),
    "zr": ([("context", 4)], ["SEQ on context (order = zigzag)", "KEYS on context (ring = true, order = zigzag)"]),
    "dzrt": ([("data", 2), ("context", 2), ("tensor", 2)],
             ["TENSOR on tensor", "SEQ on context (order = zigzag)", "KEYS on context (ring = true, order = zigzag)",
              "batch on data"]),
    "zu": ([("context", 2), ("tensor", 2)],
           ["attend.HEADS on tensor, context", "TENSOR on tensor", "SEQ on context (order = zigzag)"]),
    "rr": ([("outer", 2), ("inner", 2)], ["SEQ on outer, inner", "KEYS on outer, inner (ring = true)"]),
    "rx": ([("outer", 2), ("inner", 2)], ["SEQ on inner, outer", "KEYS on inner, outer (ring = true)"]),
    "rg": ([("outer", 2), ("inner", 2)], ["SEQ on outer, inner", "KEYS on outer (ring = true)", "KEYS on inner"]),
    "ru": ([("outer", 2), ("inner", 2)],
           ["attend.HEADS on inner", "SEQ on outer, inner", "KEYS on outer, inner (ring = true)"]),
    "rrt": ([("outer", 2), ("inner", 2), ("tensor", 2)],
            ["TENSOR on tensor", "SEQ on outer, inner, tensor", "KEYS on outer, inner (ring = true)"]),
    "drr": ([("data", 2), ("outer", 2), ("inner", 2)],
            ["SEQ on outer, inner", "KEYS on outer, inner (ring = true)", "batch on data"]),
    "zz": ([("outer", 2), ("inner", 2)], ["SEQ on outer, inner (order = zigzag)"]),
    "zzr": ([("outer", 2), ("inner", 2)],
            ["SEQ on outer, inner (order = zigzag)", "KEYS on outer, inner (ring = true, order = zigzag)"]),
    "zzg": ([("outer", 2), ("inner", 2)],
            ["SEQ on outer, inner (order = zigzag)", "KEYS on outer (ring = true, order = zigzag)",
             "KEYS on inner (order = zigzag)"]),
    "zzu": ([("outer", 2), ("inner", 2)],
            ["attend.HEADS on inner", "SEQ on outer, inner (order = zigzag)"]),
    "dzzrt": ([("data", 2), ("outer", 2), ("inner", 2), ("tensor", 2)],
              ["TENSOR on tensor", "SEQ on outer, inner (order = zigzag)",
               "KEYS on outer, inner (ring = true, order = zigzag)", "batch on data"]),
    "rt": ([("context", 2), ("tensor", 2)],
           ["TENSOR on tensor", "SEQ on context, tensor", "KEYS on context (ring = true)"]),
})
PRECISIONS = {
    "f32": "mixed(compute = f32, params = f32, grads = f32, reduce = f32)",
    "bf16": "mixed(compute = bf16, params = f32, grads = f32, reduce = f32)",
    "master": "mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)",
    "f16": "mixed(compute = f16, params = f32, grads = f32, reduce = f32, loss_scale = dynamic)",
}
CHUNKS = {"interleaved_1f1b": 2, "zb_v": 2, "dualpipe_v": 2}


def meaningless(name, value, other, other_value):
    """Whether dtc rejects these two values together, whatever the rest of the layout is."""
    if name > other:
        name, value, other, other_value = other, other_value, name, value
    if (name, other) == ("kind", "program"):
        program, (_, lines) = PROGRAMS[other_value], KINDS[value]
        text = " ".join(lines)
        lacks = any(role in text and role.lower() not in program for role in ("SEQ", "KEYS", "EXPERTS"))
        lacks = lacks or ("vocab" in text and "vocab" not in program["dims"])
        return lacks or ("HEADS" in text and "heads" not in program) or ("embed" in text and "cuts" in program)
    if (name, other) == ("program", "remat"):  # `keep` names a function
        return (other_value != "-" and "loops" not in PROGRAMS[value]) or (
            other_value == "keep" and "heads" not in PROGRAMS[value])
    return False


def pairs_of_values():
    for (a, values), (b, others) in itertools.combinations(FACTORS.items(), 2):
        for x, y in itertools.product(values, others):
            yield (a, x), (b, y)


def rejected():
    """Pairs that are rejected together, each with a layout that has little else."""
    for (a, x), (b, y) in pairs_of_values():
        if meaningless(a, x, b, y):
            yield (a, x), (b, y), dict({name: values[0] for name, values in FACTORS.items()}, **{a: x, b: y})


def fits(row):
    """Whether no two values are meaningless together, and there are 16 ranks at most."""
    if any(meaningless(a, row[a], b, row[b]) for a, b in itertools.combinations(row, 2)):
        return False
    ranks = math.prod(size for _, size in KINDS[row["kind"]][0])
    return ranks * (1 if row["schedule"] == "-" else 2) <= 16


def pairs(row):
    return {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(FACTORS, 2)}


def complete(rng, fixed):
    """A row with these values and random other values; None if none is found."""
    for _ in range(200):
        row = {name: fixed.get(name) or rng.choice(values) for name, values in FACTORS.items()}
        if fits(row):
            return row
    return None


def simple():
    """Rows with one value that is not the plainest, and the values that it needs."""
    rows = []
    for program, (factor, values) in itertools.product(PROGRAMS, list(FACTORS.items())[1:]):
        for value in values:
            row = {name: values[0] for name, values in FACTORS.items()}
            row.update({"program": program, factor: value})
            if factor == "schedule" and value != "-":
                row["micro"] = "4"
            if factor == "zero" and value != "0":
                row["kind"] = "d"
            if fits(row) and row not in rows:
                rows.append(row)
    return rows


def missing(rows):
    """Pairs of values that could occur together, but occur in no row."""
    seen = set().union(*(pairs(row) for row in rows)) if rows else set()
    return [pair for pair in pairs_of_values() if pair not in seen and can_be(pair)]


def can_be(pair):
    """Whether some row can have this pair: every third value may exclude it."""
    fixed = dict(pair)
    if meaningless(*pair[0], *pair[1]):
        return False
    free = [[fixed[name]] if name in fixed else values for name, values in FACTORS.items()]
    return any(fits(dict(zip(FACTORS, values))) for values in itertools.product(*free))


def cover(known):
    """The plan: the rows that exist, which keep their numbers, and the rows that are missing."""
    rng, rows = random.Random(20 + len(known)), list(known)
    rows += [row for row in simple() if row not in rows]
    order = missing(rows)
    open_pairs = set(order)
    for first in order:
        if first not in open_pairs:
            continue
        tries = [complete(rng, dict(first)) for _ in range(30)]
        row = max((row for row in tries if row), key=lambda r: len(pairs(r) & open_pairs))
        open_pairs -= pairs(row)
        rows.append(row)
    return rows


def choose(rows, count):
    """Numbers of the rows that cover most pairs early: every run tests these."""
    chosen, seen = [], set()
    while len(chosen) < min(count, len(rows)):
        best = max((i for i in range(len(rows)) if i not in chosen), key=lambda i: len(pairs(rows[i]) - seen))
        chosen.append(best)
        seen |= pairs(rows[best])
    return set(chosen)


# ---- text ----

def zero_axes(kind):
    """Axes over which parameters are not split: those of the samples, else any."""
    names = [name for name, _ in KINDS[kind][0]]
    return [name for name in names if name in ("outer", "data", "context", "expert")] or names or ["alone"]


def layout(row, root):
    """The program text of a layout."""
    program, (mesh, lines) = PROGRAMS[row["program"]], KINDS[row["kind"]]
    if row["zero"] != "0" and not mesh:
        mesh = [("alone", 1)]  # one rank, so nothing is split
    staged = row["schedule"] != "-"
    mesh = ([("pipe", 2)] if staged else []) + mesh
    ranks = math.prod(size for _, size in mesh)
    text = ['include "%s/%s"' % (root, program["file"]), 'cluster swept { gpus = %d; gpu = "cpu" }' % ranks,
            "parallel swept on swept {"]
    text.append("  mesh " + ", ".join("%s = %d" % axis for axis in mesh) if mesh else "  mesh alone = 1")
    for line in lines:
        for role in ("TENSOR", "SEQ", "KEYS", "HEADS", "EXPERTS"):
            # an axis that the program lacks is rejected
            line = line.replace(role, program.get(role.lower(), role.lower()))
        text.append("  shard " + line)
    if staged:
        options = ['schedule = "%s"' % row["schedule"]]
        if row["schedule"] in CHUNKS:
            options.append("chunks = %d" % CHUNKS[row["schedule"]])
        if "cuts" in program:
            cuts = program["cuts"][2 * CHUNKS.get(row["schedule"], 1)]
            options.append("cuts = (%s)" % ", ".join('"%s"' % cut for cut in cuts))
        text.append("  pipeline %s on pipe (%s)" % (", ".join(program.get("loops", ["model"])), ", ".join(options)))
    if row["micro"] != "1":
        text.append("  micro batch = " + row["micro"])
    if row["zero"] != "0":
        level, _, ahead = row["zero"].partition("+")
        text.append("  zero %s on %s%s" % (level, ", ".join(zero_axes(row["kind"])),
                                           " (prefetch = %s)" % ahead if ahead else ""))
    for loop in program.get("loops", ["h"]):
        if row["remat"] != "-":
            text.append("  remat %s%s" % (loop, " (keep = (attend))" if row["remat"] == "keep" else ""))
    return "\n".join(text + ["}", ""])


def options(row):
    """The options for the command line."""
    made = ["--parallel", "swept", "--set", "train.precision=" + PRECISIONS[row["precision"]]]
    for dim in PROGRAMS[row["program"]]["dims"].split():
        made += ["-D", dim]
    return made


# ---- layouts that nobody planned ----

# Names that shard lines may split, with extents that many numbers of ranks divide.
LOOSE = {
    "gpt2": "batch=24 seq=4 vocab=12 embed=12 heads=6 layers=8 | kseq ffn",
    "llama": "batch=24 seq=4 vocab=12 layers=8 embed=4 kv=4 group=2 head=4 ffn=12 | kseq",
    "moe": "batch=24 seq=4 vocab=12 layers=8 pool=12 experts=4 embed=4 kv=4 group=2 head=4 ffn=12 | kseq route each",
    "t5": "batch=24 src=4 tgt=6 vocab=12 enc=4 dec=4 embed=4 heads=4 head=4 ffn=12 buckets=8 | ksrc ktgt",
    "vit": "batch=24 gh=2 gw=2 ph=2 pw=2 classes=12 layers=8 embed=12 heads=4 head=4 ffn=12 |",
    "vgg16": "batch=12 side=32 c0=2 classes=12 fc=12 | fd height width",
    "states": "batch=24 pool=12 embed=12 ffn=12 layers=8 classes=12 |",
    "bert": "batch=24 seq=4 vocab=12 layers=8 embed=12 heads=4 head=4 ffn=12 | kseq embed2",
}


def loose_shards(rng, program, names, mesh):
    """Random shard lines in which every mesh axis occurs."""
    lines = ["%s on %s" % (", ".join(rng.sample(names, rng.choice((1, 1, 2, 3)))), axis) for axis in mesh]
    for _ in range(rng.choice((0, 1, 1, 2)) if mesh else 0):
        on = rng.sample(mesh, min(len(mesh), rng.choice((1, 2))))
        place = rng.choice(("", "", "", "attend.")) if "heads" in PROGRAMS[program] else ""
        lines.append("%s on %s" % (", ".join(place + n for n in rng.sample(names, rng.choice((1, 2)))), ", ".join(on)))
    lines = [line + rng.choice(("", "", "", " (pad = 3)")) if "," not in line and "." not in line else line for line in lines]
    rng.shuffle(lines)
    return ["shard " + line for line in lines]


def loose_rest(rng, program, mesh):
    """Returns (directives, stages): micro-batches, a pipeline, ZeRO, recomputation."""
    lines, stages, micro, loops = [], 1, rng.choice((1, 1, 2, 3, 4)), PROGRAMS[program].get("loops", [])
    if loops and rng.random() < 0.4:
        stages, micro = rng.choice((2, 2, 4)), rng.choice((2, 3, 4, 6))
        schedule = rng.choice(FACTORS["schedule"][1:])
        if schedule == "interleaved_1f1b":
            micro = 4
        chunks = CHUNKS.get(schedule, 1)
        lines.append('pipeline %s on pipe (schedule = "%s"%s)' % (
            ", ".join(loops), schedule, ", chunks = %d" % chunks if chunks > 1 else ""))
    if micro > 1:
        lines.append("micro batch = %d" % micro)
    if mesh and rng.random() < 0.5:
        on = [axis for axis in mesh if rng.random() < 0.7] or mesh[:1]
        bucket = rng.choice(("", "", " (bucket = 256B)", " (bucket = 1KiB)"))
        level, ahead = rng.choice((1, 2, 3)), rng.choice((0, 0, 1, 2, 9))
        if level == 3 and ahead:
            bucket = bucket.replace(")", ", prefetch = %d)" % ahead) or " (prefetch = %d)" % ahead
        lines.append("zero %d on %s%s" % (level, ", ".join(on), bucket))
    if loops and rng.random() < 0.4:
        what = "" if "heads" not in PROGRAMS[program] else rng.choice(("", "", " (keep = (attend))", " (keep = (attention))", " (drop = (mlp))", " (drop = (attend))"))
        lines += ["remat %s%s" % (loop, what) for loop in loops if rng.random() < 0.8]
    return lines, stages


def loose(rng, root):
    """Returns (text, options, description in one line) of a random mesh with random directives."""
    program = rng.choice(list(LOOSE))
    dims, more = LOOSE[program].split(" |")
    names = [dim.split("=")[0] for dim in dims.split()] + more.split()
    names = [name for name in names
             if name not in ("layers", "enc", "dec", "side", "c0", "pool", "gh", "gw", "ph", "pw")]
    sizes = [rng.choice((2, 2, 3, 4)) for _ in range(rng.choice((1, 1, 2, 2, 3, 4)))]
    rest, stages = loose_rest(rng, program, ["m%d" % i for i in range(len(sizes))])
    while math.prod(sizes) * stages > 16:
        sizes.pop()
    mesh = ["m%d" % i for i in range(len(sizes))]
    rest = [line for line in rest if not line.startswith("zero") or set(re.findall(r"m\d", line)) <= set(mesh)]
    lines = loose_shards(rng, program, names, mesh) + rest
    axes = (["pipe = %d" % stages] if stages > 1 else []) + ["%s = %d" % pair for pair in zip(mesh, sizes)]
    text = ['include "%s/%s"' % (root, PROGRAMS[program]["file"]),
            'cluster swept { gpus = %d; gpu = "cpu" }' % (math.prod(sizes) * stages),
            "parallel swept on swept {", "  mesh " + ", ".join(axes)] + ["  " + line for line in lines] + ["}", ""]
    made = ["--parallel", "swept", "--set", "train.precision=" + PRECISIONS["f32"]]
    for dim in dims.split():
        made += ["-D", dim]
    return "\n".join(text), made, "%s: mesh %s; %s" % (program, ", ".join(axes), "; ".join(lines))


def name(row):
    return " ".join(row[factor] for factor in FACTORS)


def parse(text):
    return dict(zip(FACTORS, text.split()))
