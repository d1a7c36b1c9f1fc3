# SPDX-License-Identifier: Apache-2.0
"""Bugs for planted.py: (what is wrong, file, its text, the wrong text, cases that reach it, what finds it).

The old text stands once in its file: when a change of the compiler takes it away, the row is mended by hand. Cases are
names of CASES. What finds it, the first in this order:
  abort         the verifier of the IR, or another check that aborts, while dtc compiles
  certificate   the certificate of the layout, on every compile
  plan          the certificate of the plan, on every compile that writes one
  verify        dtc --verify: gradients by forward derivatives, the optimizer, the ranks beside the serial program
  machine       dtc --verify: the plan's code on real ranks beside the interpreter
  nothing       a hole: say in the row why
"""
import forms
import mutants

QUICK = mutants.QUICK
TIED = """include "std.dsl"
dim batch = 8, vocab = 16, embed = 8, layers = 4, hidden = 8
model m(i32 tokens[batch]) -> [batch, vocab], f32[] {
  param wte[vocab, embed], wtf[vocab, embed] = normal(0.5)
  x = wte[vocab = tokens] + wtf[vocab = tokens]
  repeat h in layers { x = x + fc:linear[embed, hidden](x)[hidden -> embed] }
  return x @embed (wte * wtf), sum[embed](mean[batch](x))
}
train {
  i32 tokens[batch] = synthetic(0, vocab)
  i32 labels[batch] = synthetic(0, vocab)
  z, r = m(tokens)
  loss = mean[batch](xent[vocab](z, labels)) + r
  optimizer = adamw(lr = 0.1, clip = 1.0)
  steps = 3
}
"""
# Everything that a derivative may get wrong: maxima, top-k, lookups, windows, scans, loops with
# invariants, kinks, states.
ZOO = """include "std.dsl"
dim batch = 4, seq = 6, vocab = 8, embed = 6, hid = 6, layers = 3, win = 3, best = 2
layer block(x[batch, seq, embed], y[batch, seq, embed]) -> [batch, seq, embed] {
  param g[embed] = normal(0.3)
  w = mean[win](window[seq, win](x * (1 + g), 3, 1, (2, 0), 0.0))
  h = rmsnorm[embed](tanh(f:linear[embed, hid](w)[hid -> embed]) * y + relu(x - 0.1) + abs(x) * 0.1)
  return x + dropout(h, 0.1) * 0.5
}
model zoo(i32 tokens[batch, seq]) -> [batch, seq, vocab], f32[] {
  param wte[vocab, embed], wpe[seq, embed] = normal(0.5)
  state seen[embed] = 0.5
  x = wte[vocab = tokens] + wpe
  y = x * 0.5 + cumsum[seq](x) * 0.1
  repeat h in layers { x = block(x, y) }
  m = max[seq](x)
  top, at = topk[embed, best](x)
  x = x / (1 + exp(-x)) + m * 0.2 + sum[best](top) * 0.1 + erf(x) * sqrt(1 + x * x) + seen
  seen = 0.9 * seen + 0.1 * stop(mean[batch, seq](x))
  return x @embed wte, mean[batch, seq, embed](log(1 + x ** 2))
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z, r = zoo(tokens)
  valid = labels > 1
  loss = sum[batch, seq](where(valid, xent[vocab](z, labels), 0)) / max(sum[batch, seq](f32(valid)), 1) + 0.1 * r
  optimizer = OPTIMIZER
  steps = 3
}
"""
HALO = """include "std.dsl"
dim batch = 2, classes = 4
model net(image[batch, height = 8, width = 4, chan = 2]) -> [batch, classes] {
  x = image |> c1:conv(3) |> tanh |> c2:conv(2) |> tanh
  return x |> f:linear[(height, width, chan), classes]
}
train {
  image[batch, height = 8, width = 4, chan = 2] = synthetic(-1, 1)
  loss = mean[batch, classes](net(image) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
"""
# A maximum and a sum along an axis that is padded.
PADDED = """dim batch = 4, seq = 4, embed = 4
model net(x[batch, seq, embed]) -> [batch] {
  param w[embed] = ones
  y = x @embed w
  return max[seq](y) + sum[seq]((y + sum[embed, seq](x)) ** 2)
}
train {
  x[batch, seq, embed] = synthetic(-2, -1)
  loss = sum[batch](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 2
}
"""
# Values that a loop carries are exchanged.
TURNED = """include "std.dsl"
dim batch = 4, embed = 8, layers = 3
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed] = normal(0.5)
  y = x * w
  z = tanh(x + w)
  repeat h in layers {
    p = y
    y = z
    z = tanh(p + w)
    q = y
    y = z
    z = q
  }
  repeat g in layers {
    p = y
    y = z
    z = p
  }
  return relu(y) + z * 0.5
}
train {
  x[batch, embed] = synthetic(-1, 1)
  loss = mean[batch, embed](m(x) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
"""
# Values with several readers: slices that are all read, values that are read in reverse order, and
# values that kernels recompute.
PIECES = """include "std.dsl"
dim batch = 4, seq = 6, embed = 8, layers = 3
axis piece, major, minor
model m(x[batch, seq, embed]) -> [batch, seq, embed] {
  param w[embed], v[embed] = normal(0.5)
  repeat h in layers {
    s = x[embed -> piece]
    a = (concat[piece](tanh(s[piece = 5 .. 8]), s[piece = 0 .. 5] * 0.5) + 0.2 * s * s)[piece -> embed]
    b = exp(0.3 * tanh(x * w)) - 0.7 * v
    r = (a * b)[embed -> (major = 2, minor = 4)]
    x = 0.5 * x + 0.5 * tanh(sin(r[(minor, major) -> embed]) + a - 0.3 * b) + 0.1 * cos(r[(major, minor) -> embed])
  }
  return x
}
train {
  x[batch, seq, embed] = synthetic(-1, 1)
  loss = mean[batch, seq, embed](m(x) ** 2)
  optimizer = adamw(lr = 0.01, clip = 0.1)
  steps = 3
}
"""
# Both results are sums over ranks; `eval` also reads their terms: in (a - 0.3) ** 2 one factor is
# the sum.
HEADS = """include "std.dsl"
dim batch = 8, embed = 8, wide = 16, end = 8
model m(x[batch, embed]) -> [batch, end], [batch, end] {
  h = relu(up:linear[embed, wide](x))
  return one:linear[wide, end](h), two:linear[wide, end](h)
}
train {
  x[batch, embed] = synthetic(-1, 1)
  a, b = m(x)
  loss = mean[batch, end]((a - 0.3) ** 2) + mean[batch, end]((b - 0.1) ** 2)
  optimizer = sgd(lr = 0.1)
  steps = 2
}
"""
ADAMW = "adamw(lr = 0.01, betas = (0.8, 0.95), eps = 1e-4, decay = 0.1, decay_if = rank > 1, clip = 0.05)"
SGD = "sgd(lr = 0.1, momentum = 0.9, decay = 0.1, decay_if = rank > 1, clip = 0.05)"
MASTER = "mixed(compute = bf16, params = bf16, master = f32, grads = f32, reduce = bf16)"
SCALED = "mixed(compute = f16, params = f32, grads = f32, loss_scale = 256)"


def block(gpus, layout):
    return 'cluster c { nodes = 1; gpus = %d; gpu = "cpu" }\nparallel p on c {\n%s\n}\n' % (gpus, layout)


def zoo(optimizer, gpus=1, layout="mesh data = 1", more=""):
    return ZOO.replace("OPTIMIZER", optimizer + more) + block(gpus, layout)


def quick(gpus, layout, dims=QUICK + " layers=4", program="quickstart", more=""):
    text = mutants.source(program, dims, gpus, layout)
    return text.replace("  optimizer =", more + "  optimizer =", 1) if more else text


CACHED = """include "std.dsl"
dim batch = 4, seq = 16, kseq = seq, vocab = 8, embed = 8, layers = 2
axis tap
layer mix(x[batch, seq, embed]) -> [batch, seq, embed] {
  s[batch, embed] = 0.0
  repeat t in seq {
    s = tanh(0.5 * s + x[seq = t])
    y[seq = t] = s
  }
  w = sum[tap](window[seq, tap](x, 3, pad = (2, 0)))
  return y + w + x[seq = iota[seq] - 2] + cumsum[seq](x) / size[seq] + x[seq = 0]
}
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  return attend[seq, kseq, embed](x, x[seq -> kseq], x[seq -> kseq], scale = 1.0, mask = iota[kseq] <= iota[seq])
}
model decoder(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed], wpe[seq, embed] = normal(0.5)
  x = wte[vocab = tokens] + wpe
  repeat h in layers { x = x + 0.3 * mix(n:rmsnorm[embed](x)) + attention(m:rmsnorm[embed](x)) }
  return x @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](decoder(tokens), labels))
  optimizer = sgd(lr = 0.1)
  steps = 3
  generate = cached(rows = 2, chunk = 8)
}
"""
# Samples that depend on their neighbours: "predict" computes all of the batch.
NEIGHBOURS = """include "std.dsl"
dim batch = 8, pix = 6
axis w
model net(x[batch, pix]) -> [batch, pix] {
  param gain[pix] = normal(0.5)
  return sum[w](window[batch, w](x, 3, 1, 1)) * gain
}
train {
  x[batch, pix] = synthetic(-1.0, 1.0)
  loss = mean[batch, pix](net(x))
  optimizer = sgd(lr = 0.1)
  steps = 3
  predict_rows = 2
}
"""
CASES = {name: (lambda name=name: mutants.source(*mutants.LAYOUTS[name])) for name in mutants.LAYOUTS}
CASES.update({
    "owned factors": lambda: zoo("lamb(lr = 0.01)", 3, "mesh data = 3\nshard batch on data\nzero 1 on data").replace(
        "batch = 4", "batch = 6"),
    "cached": lambda: CACHED,
    "neighbours": lambda: NEIGHBOURS,
    "ring form": lambda: forms.program(3, "ring", "heads", "causal", "batch"),
    "zigzag ring form": lambda: forms.program(2, "zigzag ring", "heads", "data and causal", "nothing"),
    "zigzag form": lambda: forms.program(2, "zigzag", "heads", "distances", "batch"),
    "ring of slopes": lambda: forms.program(3, "ring", "one head", "slope", "nothing"),
    "relay": lambda: open("tests/cli/scans.dsl").read().split("cluster c")[0] + block(4, "mesh t = 4\nshard seq on t"),
    "turned ring": lambda: forms.program((2, 2), "ring", "one head", "causal", "turned"),
    "tensor zero": lambda: quick(4, "mesh data = 2, tensor = 2\nshard heads, ffn, vocab on tensor\n"
                                    "shard seq on tensor\nshard batch on data\nzero 2 on data"),
    "halos of four": lambda: HALO + block(4, "mesh rows = 4\nshard height on rows"),
    "padded maximum": lambda: PADDED + block(3, "mesh context = 3\nshard seq on context (pad = 3)"),
    "padded mean": lambda: 'include "std.dsl"\n' + PADDED.replace(
        "max[seq](y) + sum[seq]((y + sum[embed, seq](x)) ** 2)", "mean[seq](y ** 2)") + block(
            3, "mesh context = 3\nshard seq on context (pad = 3)"),
    "padded zoo": lambda: zoo(ADAMW, 2, "mesh tensor = 2\nshard embed, hid on tensor (pad = 4)"),
    "turned": lambda: TURNED,
    "heads": lambda: HEADS + block(2, "mesh tensor = 2\nshard wide on tensor"),
    "pieces": lambda: PIECES + block(2, "mesh data = 2\nshard batch on data\nmicro batch = 2\nremat h"),
    "crooked": lambda: quick(2, "mesh data = 2\nshard batch on data", QUICK.replace("vocab=16", "vocab=257")),
    "tied": lambda: TIED + block(4, "mesh pipe = 2, data = 2\nshard batch on data\npipeline h on pipe\n"
                                    "micro batch = 2"),
    "zero 3": lambda: quick(4, "mesh outer = 2, data = 2\nshard batch on outer, data\nmicro batch = 2\n"
                               "zero 3 on outer (bucket = 1KiB)\nzero 1 on data"),
    "compressed": lambda: quick(2, "mesh data = 2\nshard batch on data\ncompress int8 on data"),
    "compressed twice": lambda: quick(4, "mesh data = 2, near = 2\nshard batch on data, near\ncompress int8 on data"),
    "compressed, scaled": lambda: quick(2, "mesh data = 2\nshard batch on data\ncompress int8 on data",
                                        more="  precision = %s\n" % SCALED),
    "late": lambda: quick(2, "mesh data = 2\nshard batch on data\nmicro batch = 2"),
    "late cut": lambda: quick(2, "mesh data = 2\nshard batch on data\nmicro batch = 2\nzero 1 on data"),
    "late pipe": lambda: quick(4, "mesh pipe = 2, data = 2\nshard batch on data\npipeline h on pipe\nmicro batch = 2"),
    "adds": lambda: quick(2, "mesh data = 2\nshard batch on data\nmicro batch = 2\nzero 2 on data"),
    "joined": lambda: quick(2, "mesh data = 2\nshard batch on data\nmicro batch = 2", "batch=8 seq=4 vocab=16 layers=2 "
                            "embed=8 heads=2 head=4 ffn=8", "bert"),
    "apart": lambda: open("tests/passes/programs/padded_halo.dsl").read(),
    "outer number": lambda: open("tests/passes/programs/outer_number.dsl").read().split("parallel q")[0],
    "renamed positions": lambda: open("tests/passes/programs/attend_renamed.dsl").read(),
    "rings of stages": lambda: open("tests/passes/programs/rings_beside.dsl").read(),
    "ahead": lambda: quick(2, "mesh data = 2\nshard batch on data\nmicro batch = 2\nzero 3 on data (prefetch = 1)"),
    "two levels": lambda: quick(4, "mesh outer = 2, data = 2\nshard batch on outer, data\nzero 2 on data\n"
                                   "zero 1 on outer"),
    "kept": lambda: quick(4, "mesh data = 2, tensor = 2\nshard batch on data\nshard heads, ffn on tensor\n"
                             "micro batch = 2\nremat h (keep = (wq, wk))", program="gpt2"),
    "remat": lambda: quick(2, "mesh data = 2\nshard batch on data\nmicro batch = 2\nremat h", program="gpt2"),
    "zoo": lambda: zoo(ADAMW),
    "zoo, sgd": lambda: zoo(SGD),
    "zoo, data": lambda: zoo(ADAMW, 2, "mesh data = 2\nshard batch on data\nmicro batch = 2"),
    "zoo, positions": lambda: zoo(ADAMW, 2, "mesh context = 2\nshard seq on context"),
    "zoo, features": lambda: zoo(ADAMW, 2, "mesh tensor = 2\nshard embed, hid on tensor"),
    "zoo, scaled": lambda: zoo(ADAMW, 2, "mesh data = 2\nshard batch on data\nmicro batch = 2",
                               "\n  precision = " + SCALED),
    "master": lambda: quick(2, "mesh data = 2\nshard batch on data\nmicro batch = 2\nzero 1 on data",
                            more="  precision = %s\n" % MASTER),
    "narrow": lambda: quick(4, "mesh outer = 2, data = 2\nshard batch on outer, data\nmicro batch = 2",
                            more="  precision = %s\n" % MASTER),
})

OPTIONS = {"joined": ["--epilogues=all"], "apart": ["--epilogues=all"]}  # options of dtc

BUGS = [
    # ---- widen, narrow ----
    ("a gradient keeps the rounding of a sum", "passes/grad/widen.c", "        return op->in[0];\n", "        return value;\n",
     ["narrow", "zoo, scaled"], "abort"),
    ("a weight is not what its master copy is", "passes/grad/narrow.c", "dt_graph_cast(&b, new, n->dtype);",
     "dt_graph_cast(&b, dt_graph_unary(&b, DT_OP_NEG, new), n->dtype);", ["zoo, scaled"], "verify"),
    # ---- place ----
    ("a term that is whole is added to a pending sum by two ranks", "passes/place/place_lazy.c",
     "DT_OP_EQ, rank, dt_graph_constant(b, DT_I32, kept)", "DT_OP_LE, rank, dt_graph_constant(b, DT_I32, kept + 1)",
     ["ring form", "zoo, data", "tensor", "experts"], "certificate"),
    ("a sum over ranks is done twice", "passes/place/place_convert.c",
     "        y->op->text = what_is_pending(x, step->mesh);\n",
     "        y->op->text = what_is_pending(x, step->mesh);\n"
     "        if (step->kind == DT_OP_ALL_REDUCE)\n            y = dt_graph_binary(&s->b, DT_OP_ADD, y, y);\n",
     ["tensor", "pipeline"], "certificate"),
    ("what the data decide is that of the last micro-batch", "passes/place/place_lazy.c",
     "((DtEntryResult){.name = p->completed.at[i].to->op->text, .accumulate = true})",
     "((DtEntryResult){.name = p->completed.at[i].to->op->text, .accumulate = false})", ["zoo, data", "stages"],
     "certificate"),
    ("each rank counts a running sum from its own first row", "ir/shape_contract.c",
     "if (t.axes[k].n_split)\n            return dt_shape_fail(s, \"`scan`",
     "if (false)\n            return dt_shape_fail(s, \"`scan`",
     ["zoo, positions"], "certificate"),
    ("the largest are chosen among those of a rank", "ir/shape_contract.c",
     "if (t.axes[k].n_split)\n        return dt_shape_fail(s, \"`topk`",
     "if (false)\n        return dt_shape_fail(s, \"`topk`",
     ["zoo, features"], "certificate"),
    # ---- halos ----
    ("a halo comes from the other neighbour", "passes/place/place_halo.c",
     "y->op->reverse = back;", "y->op->reverse = !back;", ["halos of four"], "certificate"),
    ("the last rank's halo wraps around", "passes/place/place_halo.c",
     "last ? (double)(h->parts - 1) : 0)", "last ? (double)h->parts : 0)", ["halo"], "certificate"),
    ("a halo is the neighbour's first rows", "passes/place/place_halo.c",
     "cut(s, h, part, h->rows - h->before, h->before)", "cut(s, h, part, 0, h->before)", ["halo"], "certificate"),
    ("gradients of a halo are added at the other edge", "passes/place/place_halo.c",
     "true, h->rows - h->before, 0);", "true, 0, h->rows - h->before);", ["halo"], "certificate"),
    ("gradients of a halo wrap around", "passes/place/place_halo.c",
     "edge = shift(s, h, but_at(s, h, edge, !back, 0), back);", "edge = shift(s, h, edge, back);", ["halo"],
     "certificate"),
    # ---- pad ----
    ("a mask of padding is off by one", "passes/place/pad.c",
     "(double)padding_of(s->p->module, axis)->logical);", "(double)padding_of(s->p->module, axis)->logical + 1);",
     ["padded", "padded stages"], "certificate"),
    ("padding of a maximum is 0", "passes/place/pad.c",
     "if (fill == DT_REDUCE_SUM)\n", "if (fill == DT_REDUCE_SUM || fill == DT_REDUCE_MAX)\n", ["padded maximum"],
     "certificate"),
    ("what is repeated along a padded axis counts as zero there", "passes/place/pad.c",
     "            dt_type_find(value->type, out->axes[i].name) < 0)\n            return false;",
     "            dt_type_find(value->type, out->axes[i].name) < 0)\n            return true;",
     ["padded", "padded maximum", "padded zoo"], "certificate"),
    ("a loss is normalised over padding", "passes/place/pad.c",
     "    const bool rule = has_rule(s, op);\n",
     "    const bool rule = has_rule(s, op);\n    if (op->kind == DT_OP_DIV && op->in[1]->op && op->in[1]->op->kind == DT_OP_CONST)\n"
     "        op->in[1]->op->number *= (double)p->module->padded.at[0].physical / (double)p->module->padded.at[0].logical;\n",
     ["padded mean"], "certificate"),
    # ---- remat ----
    ("what is computed again begins with what the loop began with", "passes/grad/remat.c",
     "    if (value->op == NULL && value->index > n_carried) {",
     "    if (value->op == NULL && value->index == 1 && pair->outer == NULL)\n"
     "        return dt_loops_take(b, f->in[0], false, value->name);\n"
     "    if (value->op == NULL && value->index > n_carried) {", ["remat", "tensor"], "certificate"),
    ("draws that are computed again are those of another site", "passes/grad/remat.c",
     "a->out[0]->type == b->out[0]->type &&\n               strcmp(a->text, b->text) == 0;",
     "a->out[0]->type == b->out[0]->type;", ["remat", "kept"], "certificate"),
    # ---- stage ----
    ("a stage counts its iterations from 0", "passes/pipeline/stage_ranges.c",
     "loop.first += cut->lo[piece];", "loop.first += 0;", ["padded stages", "stages"], "certificate"),
    ("a tied parameter's gradient of another stage is lost", "passes/pipeline/stage_update.c",
     "    if (!stages)\n        return value;", "    if (!stages || gradients)\n        return value;", ["tied", "pipeline"], "certificate"),
    ("clipping counts a tied parameter on each of its stages", "passes/pipeline/stage_update.c",
     "        return NULL; /* a lower stage counts the shared parameter */", "        (void)0;", ["tied", "pipeline"], "certificate"),
    ("a stage's norm is of its own gradients", "passes/pipeline/stage_update.c",
     "u->sums_of[i] = across(u, mine ? mine : zeros(u, squares->type), all, false);",
     "u->sums_of[i] = mine ? mine : zeros(u, squares->type);", ["tied", "pipeline"], "certificate"),
    ("what a stage keeps has one slot", "passes/pipeline/stage_build.c",
     "depths[j] = between[j] > depths[j] ? between[j] : depths[j];", "depths[j] = depths[j];", ["pipeline", "stages"],
     "plan"),
    # ---- zero ----
    ("what a rank owns counts for all iterations", "passes/zero/zero_update.c",
     "    if (!now->as[PLAIN] && now->shape == OWNED) {", "    if (now->shape == OWNED)\n        return now->value;\n    if (false) {",
     ["owned factors"], "abort"),
    ("a parameter begins elsewhere in its bucket", "passes/zero/zero.c",
     "each->bucket_offset = bucket->extent;", "each->bucket_offset = bucket->extent + (bucket->members.n > 1);",
     ["zero 3", "pipeline"], "certificate"),
    ("parameters with and without decay share a bucket", "passes/zero/zero.c",
     "                if (!of[op->in[other]->id])\n                    mix_other(m, op->in[other]);\n",
     "                if (!of[op->in[other]->id])\n                    mix_other(m, op->in[other]);\n"
     "            m->key = 0;\n",
     ["zero 3", "ahead", "pipeline"], "certificate"),
    ("the norm leaves out a bucket's other tensors", "passes/zero/zero_update.c",
     "        if (in->shape == PLAIN && chooses(op->kind) && op->in[i]->type->rank == 0)\n            now = *in;",
     "        if (in->shape == PLAIN && chooses(op->kind) && op->in[i]->type->rank == 0 && i)\n            now = *in;",
     ["zero 3", "pipeline"], "certificate"),
    ("the norm is of a rank's run", "passes/zero/zero_update.c",
     "    return dt_zero_complete(&u->b, x,",
     "    if (x->type->rank == 0)\n"
     "        return dt_graph_map(&u->b, DT_OP_STOP, 1, &x, dt_type_scalar(x->type->dtype));\n"
     "    return dt_zero_complete(&u->b, x,",
     ["zero 3", "pipeline"], "abort"),
    ("a gathered parameter is that of the first iteration", "passes/zero/zero_entry.c",
     "const DtStore *member = loop.sliced.at[i];\n        DtBucket *bucket",
     "const DtStore *member = loop.sliced.at[0];\n        DtBucket *bucket", ["zero 3", "ahead"], "certificate"),
    # ---- reduce ----
    ("gradients cross ranks over the first of two mesh axes", "passes/place/reduce.c",
     "DtValue *sum = dt_graph_comm(&b, DT_OP_ALL_REDUCE, x, pending->partial,",
     "DtValue *sum = dt_graph_comm(&b, DT_OP_ALL_REDUCE, x, (uint16_t)(pending->partial & -pending->partial),",
     ["narrow"], "abort"),
    ("gradients that cross ranks in bf16 are added twice", "passes/place/reduce.c",
     "    DtValue *wide = dt_graph_cast(&b, sum, out->type->dtype);\n    out->op = wide->op; /* readers",
     "    sum = dt_graph_binary(&b, DT_OP_ADD, sum, sum);\n"
     "    DtValue *wide = dt_graph_cast(&b, sum, out->type->dtype);\n    out->op = wide->op; /* readers", ["master"],
     "certificate"),
    # ---- expand ----
    ("a ring's visitor counts as the block behind", "passes/place/ring_build.c",
     "binary(g, DT_OP_SUB, me, step)", "binary(g, DT_OP_ADD, me, step)", ["ring form", "ring of slopes"],
     "certificate"),
    ("gradients of keys stay one rank from home", "passes/place/ring_build.c",
     "        if (state.travels[i])\n            state.at[i] = shift(g, state.at[i]);\n        g->outside",
     "        g->outside", ["ring form", "zigzag ring form"], "certificate"),
    ("a ring goes one round too few", "passes/place/ring_build.c",
     ".count = g->n - 1,", ".count = g->n - 2 ? g->n - 2 : 1,", ["ring form"], "certificate"),
    ("ranks begin with what they add themselves", "passes/place/relay.c",
     "dt_graph_binary(&r->b, DT_OP_LT, reverse", "dt_graph_binary(&r->b, DT_OP_LE, reverse", ["relay"], "certificate"),
    ("what ranks hand on arrives a step too late", "passes/place/relay.c",
     ".count = r->ranks.axis.extent - 1,", ".count = r->ranks.axis.extent - 2,", ["relay"], "certificate"),
    ("gradients are handed on forwards", "passes/place/relay.c",
     "shifted->op->reverse = r->op->loop->reverse;", "shifted->op->reverse = false;", ["relay"], "certificate"),
    ("the first rank begins with what the last one hands on", "passes/place/relay.c",
     "dt_graph_where(&r->b, is_first, first[i], shifted)", "dt_graph_where(&r->b, is_first, shifted, shifted)",
     ["relay"], "certificate"),
    ("what only multiplies is added up", "passes/place/relay.c",
     "if (!op || op->kind != DT_OP_ADD ||", "if (!op || (op->kind != DT_OP_ADD && op->kind != DT_OP_MUL) ||", ["relay"],
     "certificate"),
    ("a ring merges a block with itself", "passes/place/ring_build.c",
     "        in[i] = state->at[i];\n        in[block", "        in[i] = step ? block->out[i] : state->at[i];\n        in[block",
     ["ring form", "zigzag ring form"], "certificate"),
    ("zigzag positions of the second half are off by one", "passes/place/zigzag.c",
     "(double)(2 * n - 1));", "(double)(2 * n - 2));", ["zigzag form", "zigzag ring form"], "certificate"),
    ("dropout in zigzag order draws as if in blocks", "passes/place/zigzag.c",
     "            plain = whole(plain, d);", "            plain = in_blocks(plain, d);", ["zigzag form"],
     "certificate"),
    ("a lookup along a zigzag axis finds the first half", "passes/place/zigzag.c",
     "DtValue *second = with(b, DT_OP_ADD, first, half);", "DtValue *second = with(b, DT_OP_ADD, first, 0);",
     ["zigzag form", "zigzag ring form"], "certificate"),
    ("blocks of several mesh axes are numbered in the order of the mesh", "passes/place/ring_build.c",
     "    if (memcmp(g->blocks->split, ring->split, ring->n_split) == 0)\n        return rank;",
     "    return rank;", ["turned ring"], "certificate"),
    # ---- inline, cse ----
    ("two calls of a layer draw the same numbers", "passes/inline.c",
     "if (op->kind == DT_OP_RNG || op->kind == DT_OP_CALL)", "if (op->kind == DT_OP_CALL)", ["remat", "zoo"], "certificate"),
    ("equal slices of other rows become one", "passes/cse.c",
     "a->ranges[i].lo != b->ranges[i].lo ||", "", ["zoo", "halo", "experts"], "certificate"),
    # ---- optimizer ----
    ("clipping counts the first gradient twice", "passes/grad/optimizer.c",
     "sum = sum == NULL ? all[i].squares : dt_graph_binary(&u->b, DT_OP_ADD, sum, all[i].squares);",
     "sum = dt_graph_binary(&u->b, DT_OP_ADD, sum == NULL ? all[i].squares : sum, all[i].squares);",
     ["zoo", "zoo, sgd"], "verify"),
    ("what `compress` keeps is the optimizer's moment", "passes/grad/optimizer.c",
     "one->moment_value + one->rule->func->params.n, now,", "one->moment_value, now,",
     ["compressed", "compressed twice", "compressed, scaled"], "verify"),
    ("terms of gradients keep their loss scale", "passes/grad/optimizer.c", "    if (u->unscale)\n        own =",
     "    if (false)\n        own =", ["compressed, scaled"], "verify"),
    ("moments are swapped", "passes/grad/optimizer.c",
     "now[func->inputs.at[n++]->id] = moments[i];",
     "now[func->inputs.at[n++]->id] = moments[func->params.n - 1 - i];", ["zoo"], "verify"),
    ("the second moment has the first's correction of the bias", "passes/grad/optimizer.c",
     "scalar(u, rule->scalars[i])", "scalar(u, rule->scalars[i > 1 ? 1 : i])", ["zoo"], "verify"),
    ("clipping looks at gradients with their loss scale", "passes/grad/optimizer.c",
     "return u->unscale != NULL ? dt_graph_binary(&u->b, DT_OP_MUL, g, u->unscale) : g;", "return g;",
     ["zoo, scaled"], "verify"),
    ("a step is skipped where its norm is finite", "passes/grad/optimizer.c",
     "return dt_graph_where(&u->b, u->applies, new, old);", "return dt_graph_where(&u->b, u->applies, old, new);",
     ["zoo"], "verify"),
    # ---- differentiate ----
    ("gradients of micro-batches are not added up", "passes/place/place.c",
     "result->accumulate = (value->type->partial & p->time) != 0 || (is_grad && !p->time);",
     "result->accumulate = is_grad && !p->time;", ["zoo, data", "tensor"], "abort"),
    ("gradients are made without the loss scale", "passes/grad/differentiate.c",
     "n * (p != NULL && p->loss_scale > 0 ? p->loss_scale : 1));",
     "n);", ["zoo, scaled"], "verify"),
    ("a value's second use gets no gradient", "passes/grad/reverse.c",
     "cotangent = dt_graph_binary(b, DT_OP_ADD, cell->cotangent, cotangent);", "cotangent = cell->cotangent;", ["zoo"],
     "verify"),
    ("a loop's invariant gets the gradient of the first iteration", "passes/grad/vjp_struct.c",
     "l->step->inputs.at[1 + l->sums[i]], out[at]));", "l->step->inputs.at[1 + l->sums[i]], out[at])),\n"
     "            l->step->results.at[l->step->results.n - 1] = out[at];", ["zoo"], "verify"),
    ("the derivative of rsqrt has the other sign", "passes/grad/vjp_map.c",
     "number(v, -0.5)), cube);", "number(v, 0.5)), cube);", ["zoo", "tensor"], "verify"),
    ("all maxima get the gradient", "passes/grad/vjp_contract.c",
     "DtValue *first =\n            first_equal(v, dt_diff_in(v, 0), dt_diff_out(v, 0), v->op->n_axes, v->op->axes);",
     "DtValue *first = dt_graph_binary(&v->b, DT_OP_LE, dt_diff_in(v, 0), dt_diff_out(v, 0));", ["zoo"], "verify"),
    ("the gradient of a running sum runs forwards", "passes/grad/vjp_contract.c",
     "v->op->axes, !v->op->reverse);", "v->op->axes, v->op->reverse);", ["zoo"], "verify"),
    ("each part of a concat gets the gradient of the first", "passes/grad/vjp_axis.c",
     "        lo += n;\n", "        (void)n;\n", ["experts"], "verify"),
    ("of what slices cover, what else there is to add is lost", "passes/grad/pads.c", "        if (used[i])\n",
     "        if (used[i] || i)\n", ["pieces"], "verify"),
    # ---- fuse ----
    ("what is computed again has its operands in another order", "passes/lower/fuse.c",
     "in[i] = operand(f, k, value->op, i, group);", "in[i] = operand(f, k, value->op, value->op->n_in - 1 - i, group);",
     ["pieces", "zoo", "tensor"], "abort"),
    ("what is computed again is what was before", "passes/lower/fuse.c",
     "    if (f->copy[value->id])\n        return f->copy[value->id];\n",
     "    if (f->copied.n)\n        return f->copy[f->copied.at[0]];\n", ["pieces", "zoo", "tensor"], "abort"),
    ("nobody writes what is computed again elsewhere", "passes/lower/fuse.c",
     "        need(f, value->op->in[i], group, needed);", "        (void)needed;", ["class", "padded"], "abort"),
    ("all numbers of a kernel are one", "codegen/kernel.c", "memcmp(&known->number, &node.number, sizeof node.number) == 0;",
     "true;", ["pieces", "zoo"], "machine"),
    ("all maps of the same values are one", "codegen/kernel.c", "known->dtype == node.dtype &&\n                    known->map == node.map &&",
     "known->dtype == node.dtype &&", ["pieces", "zoo"], "machine"),
    # ---- code generation ----
    ("ranks draw the same dropout", "codegen/kernel.c",
     "        add_base(&bases, axis, stride);\n        stride *=", "        stride *=", ["remat"], "machine"),
    ("all iterations of a loop draw the same", "codegen/kernel.c",
     "node.iteration = integer(b, (DtKInt){.kind = DT_KINT_ITERATION});", "node.iteration = DT_KNONE;", ["remat"],
     "machine"),
    ("a sum goes over another mesh axis", "codegen/exchange.c",
     "uint32_t ranks = dt_inst_stage_group(e, mesh, op ? op->stages : NULL);",
     "uint32_t ranks = dt_inst_stage_group(e, mesh == 2 && e->module->mesh.n > 2 ? 4 : mesh, op ? op->stages : NULL);",
     ["tensor"], "plan"),
    ("a maximum over ranks becomes their sum", "codegen/exchange.c",
     "op->mesh, (DtReduce)op->in[0]->type->pending, op);", "op->mesh, DT_REDUCE_SUM, op);", ["tensor", "padded"],
     "plan"),
    ("a shift goes the other way", "codegen/exchange.c",
     "op->reverse ? DT_INST_SHIFT_BACK : DT_INST_SHIFT,", "op->reverse ? DT_INST_SHIFT : DT_INST_SHIFT_BACK,",
     ["halos of four", "ring form"], "plan"),
    ("an iteration gathers ahead what it has itself", "passes/lower/order_fetch.c",
     "make_branch(w, body->of, (Turn){true, k}, true),", "make_branch(w, body->of, (Turn){true, k - 1}, true),",
     ["ahead"], "plan"),
    ("a ring buffer has a slot too few", "passes/lower/order_fetch.c",
     ": dt_order_ring(w->module, chain->ahead + 1,", ": dt_order_ring(w->module, chain->ahead,", ["ahead"], "plan"),
    ("what is on its way in the next iteration has one slot", "passes/lower/order_carry.c",
     "dt_order_ring(func->module, 2,", "dt_order_ring(func->module, 1,", ["tensor zero", "two levels"], "abort"),
    ("nobody waits for what reads a slot", "codegen/inflight.c",
     "dt_event_wait(e, turn, dt_inflight_event(e, func, result), 1);", "(void)turn;", ["tensor zero", "two levels"],
     "plan"),
    ("what comes to a slot is added to another iteration", "codegen/inflight.c",
     "part_before(scope, wanted->place, slots);", "part_before(scope, wanted->place, 1);", ["adds"], "plan"),
    ("the last iterations' sums stay in their slots", "codegen/inflight.c",
     "for (int64_t turn = n - slots; turn < n; turn++)", "for (int64_t turn = n - slots; turn < n - 1; turn++)",
     ["adds"], "plan"),
    ("buckets lie where a ring gathers", "passes/lower/order_carry.c",
     "carry->from = carry->adds ? gathered : all;", "carry->from = 0;", ["ahead"], "plan"),
    ("what a piece sums last is not waited for", "codegen/pipeline.c",
     "dt_exchange_finish(e, &e->module->entries.at[number]);", "(void)number;", ["late pipe"], "plan"),
    ("a late sum is a micro-batch too early", "codegen/exchange.c", ".first = (int32_t)e->n_micro - 1,",
     ".first = (int32_t)e->n_micro - 2,", ["late", "late cut"], "plan"),
    ("a late sum is without a micro-batch's term", "codegen/scope.c", "if (wanted[i].set && late)",
     "if (wanted[i].set && late && !late->late)", ["late", "late cut"], "plan"),
    ("a late sum is not waited for where all of it is read", "codegen/exchange.c",
     "dt_event_wait(e, done, late_event(e, loop, of, maker), 0);", "(void)done;", ["late", "late cut"], "plan"),
    ("a late sum is another rank's run", "codegen/exchange.c",
     "const DtPlace to = dt_place_run(e, from, x, y);", "const DtPlace to = *from;", ["late cut"], "plan"),
    ("a rank's terms have room for its run alone", "ir/graph.c", "    if (!store->terms)\n        return type;\n",
     "    if (store)\n        return type;\n", ["late cut"], "abort"),
    ("what ranks share is cut before its gradients cross", "passes/zero/zero.c",
     "!member->several && crosses(z, param);", "!member->several;", ["master"], "abort"),
    ("what is started is read before it is done", "passes/lower/order_start.c",
     "return op && s->done[value->id] ? s->done[value->id] : value;", "return value;", ["tensor", "ring form"],
     "abort"),
    ("a message is started before its slot is free", "passes/lower/order_messages.c",
     "end->next - end->depth + 1; /*", "end->next - end->depth; /*", ["pipeline", "tied", "late pipe"], "plan"),
    ("a stage writes what is still on its way", "passes/lower/order_messages.c",
     "if (end->sends && !is_over(", "if (end->sends && false && !is_over(", ["pipeline", "tied", "late pipe"], "plan"),
    ("the first stage starts two messages in the other order", "passes/lower/order_messages.c",
     "    if (run->direct)\n        run->stages = stages;", "    for (uint32_t i = 0, l = 0; run->direct && l < 3; l++) {\n"
     "        DtActions *list = l == 0 ? &stages[0].prologue : l == 1 ? &stages[0].period : &stages[0].epilogue;\n"
     "        for (i = 0; i + 1 < list->n; i++)\n"
     "            if (list->at[i].kind > DT_ACTION_W && list->at[i].kind < DT_ACTION_DONE_SEND &&\n"
     "                list->at[i + 1].kind > DT_ACTION_W && list->at[i + 1].kind < DT_ACTION_DONE_SEND &&\n"
     "                list->at[i].unit != list->at[i + 1].unit) {\n"
     "                const DtAction first = list->at[i];\n"
     "                list->at[i] = list->at[i + 1], list->at[i + 1] = first;\n                l = 3;\n"
     "                break;\n            }\n    }\n"
     "    if (run->direct)\n        run->stages = stages;", ["pipeline", "tied", "late pipe"], "plan"),
    ("a start's result lies where others write before it is done", "codegen/exchange.c",
     "        dt_place_touch(e, started.to);\n        dt_place_touch(e, started.from);\n", "",
     ["two levels", "zero 3", "halo"], "plan"),
    ("nobody waits for what was started", "codegen/exchange.c",
     "dt_event_wait(e, op, started.event, 0);", "dt_event_wait(e, op, started.event + 1, 0);",
     ["ring form", "tensor"], "plan"),
    ("a start stands in front of what makes its operand", "passes/lower/order_start.c",
     "s->to[maker] < maker ? s->to[maker] : maker + 1;", "s->to[maker] < maker ? s->to[maker] : maker;", ["tensor"],
     "abort"),
    ("nobody waits for what a slot holds", "passes/lower/order_start.c",
     "(s->rings && op->kind == DT_OP_RINGBUF_GET)", "(false && op->kind == DT_OP_RINGBUF_GET)", ["ahead"], "abort"),
    ("an iteration waits for the slot of the first one", "codegen/exchange.c",
     "dt_event_wait(e, op, dt_event_of(e, NULL, among, slots), 1);",
     "dt_event_wait(e, op, dt_event_of(e, NULL, among, slots), 0);", ["ahead"], "plan"),
    ("gathers into a slot have one event", "codegen/exchange.c",
     "dt_event_of(e, NULL, place_among(e->scope->func, put),\n",
     "dt_event_of(e, NULL, 0,\n", ["ahead"], "plan"),
    ("a slot's gathers lie in each other's place", "codegen/event.c",
     "place.view.offset = (int64_t)byte / (int64_t)dt_dtype_size(type->dtype);",
     "place.view.offset = 0 * (int64_t)byte;",
     ["ahead"], "plan"),
    ("what is put into a slot goes into the first one", "codegen/ringbuf.c",
     "*wanted = (DtWanted){.set = true, .place = dt_event_put(e, op, memory)};",
     "*wanted = (DtWanted){.set = true, .place = dt_event_put(e, op, memory)};\n"
     "        wanted->place.reg[DT_PLAN_REG_RINGBUF] = 0;", ["ahead"], "plan"),
    ("a ring of a piece begins with the slot that another left", "codegen/ringbuf.c",
     "        dt_event_turn(e, op->out[0]->type, true);", "        if (!e->module->pipeline)\n"
     "            dt_event_turn(e, op->out[0]->type, true);", ["rings of stages"], "plan"),
    ("a ring buffer's slots are turned only in loops", "passes/lower/order_fetch.c",
     "        ringbuf = dt_graph_ringbuf_turn(b, ringbuf);\n", "", ["ahead"], "plan"),
    # ---- memory ----
    ("a result is written over what its op reads, however it does", "passes/lower/memory_over.c",
     "        if (!x || is_taken(op, x) || (op->kind != DT_OP_ALL_REDUCE && !may_write_over(m, op, i, x)))\n",
     "        if (!x || is_taken(op, x))\n", ["zoo", "tensor"], "machine"),
    ("a result is written over a value that is read later", "passes/lower/memory_over.c",
     "    return m->last[x->id] == position && (!m->func->fused || alone);", "    return m->last[x->id] >= position;",
     ["zoo", "tensor"], "abort"),
    ("a kernel writes over what its next loop reads", "passes/lower/memory_over.c",
     "            phases[func->results.at[i]->id].phase > mine->phase)\n            return false;",
     "            phases[func->results.at[i]->id].phase > mine->phase + 9)\n            return false;",
     ["zoo", "tensor"], "machine"),
    ("what is started is written over an operand that others read", "passes/lower/memory_over.c",
     "    if (op->starts)\n        return alone;\n", "    if (op->starts)\n        return true;\n",
     ["heads"], "abort"),
    ("a result that lies elsewhere is not copied", "passes/lower/memory_results.c",
     "                results[i] = copy_of(m, results[i], old[i]);", "                m->changed = true;",
     ["zoo", "turned"], "abort"),
    ("values that change places are copied over each other", "passes/lower/memory_results.c",
     "        if (copied[i] && old[i] && is_overwritten(m, old, copied, results[i]))\n", "        if (false)\n",
     ["turned"], "abort"),
    ("a stacked input is copied when something else lies there", "passes/lower/memory_results.c",
     "        if (copied[i] && dt_memory_is_early(m->call->loop, results[i], i)) {\n",
     "        if (copied[i] && i > n) {\n", ["zoo", "pipeline"], "abort"),
    ("what is carried is said to stay, whatever it is", "passes/lower/memory_results.c",
     "    if (root != old)\n        return false;\n", "    if (root->op)\n        return false;\n", ["turned"], "abort"),
    ("a copy does not add to what lies there", "codegen/emit.c",
     "    dt_copy_value(e, op->in[0], &output.place, output.accumulate);\n",
     "    dt_copy_value(e, op->in[0], &output.place, false);\n", ["two levels", "zero 3"], "plan"),
    ("a copy is made of where it goes", "codegen/copy.c",
     "dt_place_arg(e, from, false)};\n        dt_inst_add(e, DT_INST_COPY",
     "dt_place_arg(e, to, false)};\n        dt_inst_add(e, DT_INST_COPY",
     ["zoo", "turned"], "plan"),
    ("an exchange is told to write where it cannot", "passes/lower/memory_copy.c",
     "    if (!lands && !op->late)\n        dt_memory_drop(m, out);\n", "", ["two levels", "zero 3"], "abort"),
    ("a view of what no memory holds", "passes/lower/memory_copy.c",
     "               dt_op_reads_elsewhere(op, operand);", "               false;", ["renamed positions"], "abort"),
    ("the number of an iteration is in no memory", "passes/lower/memory_copy.c",
     "        const bool is_number = m->call->loop && op->in[i] == m->func->inputs.at[0];",
     "        const bool is_number = m->call->loop && op->in[i] == m->func->results.at[0];", ["outer number"], "abort"),
    ("a library adds the sum of an operand to what lies there", "passes/lower/memory_walk.c",
     "        dropped[i] = adds(m, out) && !(parts.sums && op->func->results.at[i] == parts.result);\n",
     "        dropped[i] = false;\n", ["joined"], "plan"),
    ("a library is said to take whatever lies there", "passes/lower/memory_walk.c",
     "        if (dt_op_is_product(op) && !place_joined(m, op))\n",
     "        if (dt_op_is_product(op) && !place_joined(m, op) && !op->n_out)\n", ["apart"], "abort"),
    ("the sum of an operand is said to be that of the other one", "codegen/epilogue.c",
     "found.of_a   ? DT_PLAN_EPILOGUE_SUM_A\n                                   : DT_PLAN_EPILOGUE_SUM_B;",
     "found.of_a   ? DT_PLAN_EPILOGUE_SUM_B\n                                   : DT_PLAN_EPILOGUE_SUM_A;", ["joined"], "plan"),
    ("rows of a matrix overlap", "ir/view.c",
     "        stride = lies->row && i == lies->first ? lies->row : stride * view.extent[d];",
     "        stride = lies->row && i == lies->first ? lies->row / 2 : stride * view.extent[d];", ["crooked"], "plan"),
    ("axes lie in an order that is not theirs", "ir/view.c",
     "        const uint32_t d = lies->order[i];\n", "        const uint32_t d = lies->order[i ? i - 1 : 0];\n",
     ["halos of four", "crooked"], "plan"),
    ("memory is another's before its last reader", "ir/frame.c",
     "    range->last = position > range->last ? position : range->last;\n",
     "    range->last = range->last ? range->last : position;\n", ["zoo", "tensor"], "plan"),
    ("what a loop reads again is another's inside of it", "ir/frame.c",
     "        use(u, op->in[k], k < n_carried ? position + k : last);\n",
     "        use(u, op->in[k], k < n_carried ? position + k : position);\n", ["tensor", "zero 3"], "plan"),
    ("what is joined is in use only then", "ir/frame.c",
     "        home[value->id] = to;\n", "        home[value->id] = op->kind == DT_OP_CONCAT ? NULL : to;\n", ["experts"],
     "plan"),
    ("what is started is read no longer", "ir/frame.c",
     "        use(u, by->in[0], position);\n", "        use(u, by->in[0], 0);\n", ["tensor zero"], "plan"),
    ("two values begin where one ends later", "ir/frame.c",
     "other->first <= range->last && range->first <= other->last && behind > offset)",
     "other->first < range->last && range->first < other->last && behind > offset)", ["zoo", "tensor"], "abort"),
    ("a frame begins in another's middle", "passes/lower/memory_frame.c",
     "            l.best[i].op->base = l.best[i].offset;\n", "            l.best[i].op->base = l.best[i].offset / 128 * 64;\n",
     ["class", "padded"], "abort"),
    ("a loop's frame begins where the entry's does", "codegen/scope.c",
     "    scope->base = outer->base + op->base;\n", "    scope->base = outer->base + 0 * op->base;\n", ["class", "padded"],
     "plan"),
    ("a temporary of attention is another's before its last reader", "codegen/place.c",
     "    if (buffer->first == UINT32_MAX)\n        buffer->first = e->items.n;\n    buffer->last = e->items.n;\n",
     "    if (buffer->first == UINT32_MAX)\n        buffer->first = buffer->last = e->items.n;\n", ["tensor", "zigzag form"],
     "plan"),
    ("what tiles read again is another's inside of them", "codegen/place.c",
     "            buffer->last = e->items.n - 1;\n    }\n}", "            buffer->last = buffer->last;\n    }\n}",
     ["ring of slopes"], "plan"),
    ("tensors lie elsewhere in a bucket of gradients", "codegen/bucket.c",
     "        offset += length_of(e, op->in[i]->type, op->n_axes);\n    }\n}",
     "        offset += length_of(e, op->in[i]->type, op->n_axes) + (i == 1);\n    }\n}", ["zero 3", "pipeline"],
     "plan"),
    ("a tensor of a bucket is looked for one element before it", "ir/view.c",
     "    view->offset += offset * stride;\n", "    view->offset += (offset ? offset - 1 : 0) * stride;\n",
     ["zero 3", "pipeline"], "plan"),
    ("a part of a concat begins one element too early", "ir/view.c",
     "    view->extent[d] = part_extent(concat, i, mesh);\n",
     "    view->extent[d] = part_extent(concat, i, mesh);\n"
     "    view->offset -= i ? view->stride[d] : 0;\n", ["experts"], "plan"),
    ("prefill leaves the first new position out of a cache", "passes/decode/decode_value.c",
     "dt_graph_binary(b, DT_OP_LE, zero, number)", "dt_graph_binary(b, DT_OP_LT, zero, number)", ["cached"], "verify"),
    ("decode stores a position at all places up to it", "passes/decode/decode_value.c",
     "is_new = dt_graph_binary(b, DT_OP_EQ, at, dt_decode_start(d, s));",
     "is_new = dt_graph_binary(b, DT_OP_LE, at, dt_decode_start(d, s));", ["cached"], "verify"),
    ("what an earlier text left stays in a cache", "passes/decode/decode_value.c",
     "DtValue *written = dt_graph_binary(b, DT_OP_OR, is_new, first);",
     "DtValue *written = dt_graph_binary(b, DT_OP_AND, is_new, dt_graph_binary(b, DT_OP_OR, is_new, first));", ["cached"],
     "verify"),
    ("a window of samples counts as one sample's", "passes/rows.c",
     "is_gathered || dt_op_has_axis(op, axis) ||", "is_gathered ||", ["neighbours"], "verify"),
    ("a text goes on with what an earlier one left", "passes/decode/decode_value.c",
     "DtValue *is = dt_graph_binary(&s->b, DT_OP_EQ, dt_decode_start(d, s), zero);",
     "DtValue *is = dt_graph_binary(&s->b, DT_OP_LT, dt_decode_start(d, s), zero);", ["cached"], "verify"),
    ("positions that are not meant change what a loop carries", "passes/decode/decode.c",
     "if (carried->state[i] && !d->is_decode) {", "if (carried->state[i] && !d->n_fresh) {", ["cached"], "verify"),
    ("a running sum counts positions that are not meant", "passes/decode/decode_carry.c",
     "    if (!d->is_decode)\n        meant =", "    if (!d->n_fresh)\n        meant =", ["cached"], "verify"),
    ("a window forgets nothing", "passes/decode/decode_carry.c",
     "state->new = dt_graph_slice(b, all, d->fresh, 1, 1, n);", "state->new = dt_graph_slice(b, all, d->fresh, 0, 1, n);",
     ["cached"], "verify"),
    ("logits are those of the position after the last one", "passes/decode/decode_last.c",
     "DtValue *last = dt_graph_binary(b, DT_OP_SUB, dt_decode_count(d, d->top), one);",
     "DtValue *last = dt_graph_binary(b, DT_OP_MAX, dt_decode_count(d, d->top), one);", ["cached"], "verify"),
]
