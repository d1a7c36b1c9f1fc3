/* SPDX-License-Identifier: Apache-2.0 */
/* costprograms TREE FOLDER: writes each published row as a program of the language, with its layout
 * and the stack of its software, to FOLDER/NNN.dsl. It prints a line per row: file, table, row,
 * measured seconds, and seconds by the closed forms, separated by tabs. bench/costmodel/report.py
 * compiles the programs and compares their reports with the measured seconds.
 *
 * What a row ran comes from rows.c. This file decides how the language says it. */
#include "bench/costmodel/costmodel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const tables[SOURCES] = {
    [SC21] = "sc21",
    [RECOMPUTE] = "recomputation",
    [LAYER] = NULL, /* of one layer: no program of a training step */
    [ZERO_BUBBLE] = "zero_bubble",
    [TITAN_A100] = "torchtitan_a100",
    [TITAN_H100] = "torchtitan_h100",
    [OTHER_SCHEDULES] = "other_schedules"};

/* ---- models ---- */

/* Megatron-LM's GPT: dropout on the weights of attention and on both results of a layer. */
static const char gpt[] =
    "include \"std.dsl\"\n"
    "dim kseq = seq, head = embed // heads\n"
    /* attention with dropout of its weights: `keep` is missing in the product, not in the sum */
    "fn dropped[s, t, d](q[..., s, d], k[..., t, d], v[..., t, d], keep[..., s, t], scale, mask = "
    "true) -> [..., s, d] {\n"
    "  z = where(mask, f32(q @d k) * scale, -inf)\n"
    "  e = exp(z - max(max[t](z), -1e30))\n"
    "  o = (e / max(sum[t](e), 1e-30) * keep) @t v\n"
    "  return o\n"
    "  stream[t] {\n"
    "    z = where(mask, f32(q @d k) * scale, -inf)\n"
    "    m = max[t](z)\n"
    "    e = exp(z - max(m, -1e30))\n"
    "    return (m, sum[t](e), f32(e * keep @t v))\n"
    "  }\n"
    "  merge(m, l, u, n, k, w) {\n"
    "    most = max(m, n)\n"
    "    a = exp(max(m, -1e30) - max(most, -1e30))\n"
    "    b = exp(max(n, -1e30) - max(most, -1e30))\n"
    "    return (most, l * a + k * b, u * a + w * b)\n"
    "  }\n"
    "  finish(m, l, u) { return u / max(l, 1e-30) }\n"
    "  gradient(dy) {\n"
    "    p = exp(z - max(m, -1e30)) / max(l, 1e-30)\n"
    "    dz = p * (f32(dy @d v) * keep - sum[d](f32(dy) * f32(o)))\n"
    "    ds = dz * scale\n"
    "    return (ds @t k, ds @s q, p * keep @s dy, 0, 0, 0)\n"
    "  }\n"
    "}\n"
    "layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {\n"
    "  q = wq:linear[embed, (heads, head)](x)\n"
    "  k = wk:linear[embed, (heads, head)](x)[seq -> kseq]\n"
    "  v = wv:linear[embed, (heads, head)](x)[seq -> kseq]\n"
    "  keep = where(uniform[batch, heads, seq, kseq]() < 0.9, 1 / 0.9, 0)\n"
    "  o = dropped[seq, kseq, head](q, k, v, keep, head ** -0.5, iota[kseq] <= iota[seq])\n"
    "  return wo:linear[(heads, head), embed](o)\n"
    "}\n"
    "layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {\n"
    "  return x |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed]\n"
    "}\n"
    "model it(i32 tokens[batch, seq]) -> [batch, seq, vocab] {\n"
    "  param wte[vocab, embed] = normal(0.006)\n"
    "  param wpe[seq, embed] = normal(0.006)\n"
    "  x = wte[vocab = tokens] + wpe |> dropout(0.1)\n"
    "  repeat h in layers {\n"
    "    x = x + dropout(attention(ln1:layernorm[embed](x)), 0.1)\n"
    "    x = x + dropout(mlp(ln2:layernorm[embed](x)), 0.1)\n"
    "  }\n"
    "  return ln_f:layernorm[embed](x) @embed wte\n"
    "}\n";

/* Llama with two layers in an iteration of its loop, of which `remat` may name one. */
static const char pairs[] =
    "dim couples = layers // 2\n"
    "layer block(x[batch, seq, embed]) -> [batch, seq, embed] {\n"
    "  y = x + attention(n1:rmsnorm[embed](x))\n"
    "  return y + mlp:swiglu(n2:rmsnorm[embed](y))\n"
    "}\n"
    "model it(i32 tokens[batch, seq]) -> [batch, seq, vocab] {\n"
    "  param wte[vocab, embed] = normal(0.02)\n"
    "  x = wte[vocab = tokens]\n"
    "  repeat h in couples {\n"
    "    x = first:block(x)\n"
    "    x = second:block(x)\n"
    "  }\n"
    "  return norm:rmsnorm[embed](x) |> out:linear[embed, vocab](bias = false)\n"
    "}\n";

static bool in_pairs(const Row *row) { return row->recompute == EVERY_OTHER; }

static void print_model(FILE *out, const Row *row)
{
    if (row->is_llama) {
        fprintf(out, "include \"models/llama.dsl\"\n");
        fprintf(out, "dim kv = %" PRId64 "\n", row->kv_heads);
    }
    fprintf(out,
            "dim batch = %" PRId64 ", seq = %" PRId64 ", vocab = %" PRId64 ", layers = %" PRId64
            "\ndim embed = %" PRId64 ", heads = %" PRId64 ", ffn = %" PRId64 "\n",
            row->batch, row->seq, row->vocab, row->layers, row->hidden, row->heads, row->ffn);
    if (!row->is_llama)
        fputs(gpt, out);
    else if (in_pairs(row))
        fputs(pairs, out);
}

static void print_training(FILE *out, const Row *row)
{
    fprintf(
        out,
        "train {\n"
        "  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(bin(\"*.bin\", u32))\n"
        "  loss = mean[batch, seq](xent[vocab](%s(tokens), labels))\n"
        "  optimizer = adamw(lr = 1e-4, betas = (0.9, 0.95), eps = 1e-8, decay = 0.1, clip = 1.0)\n"
        "  precision = mixed(compute = bf16, params = bf16, master = f32, grads = bf16, reduce = "
        "%s)\n"
        "  steps = 1000\n"
        "}\n",
        row->is_llama && !in_pairs(row) ? "llama" : "it", row->is_llama ? "f32" : "bf16");
}

/* ---- layouts ---- */

static void print_remat(FILE *out, const Row *row)
{
    switch (row->recompute) {
    case NONE: return;
    case WHOLE: fprintf(out, "  remat h\n"); return;
    case CORE: fprintf(out, "  remat h (drop = dropped)\n"); return;
    case EVERY_OTHER: fprintf(out, "  remat h (drop = second)\n"); return;
    case PRODUCTS: /* the first of each two products in the order of the program, and attention */
        fprintf(out, "  remat h (keep = (wq, wv, gate, attend))\n");
        return;
    }
}

static void print_pipeline(FILE *out, const Row *row)
{
    const int64_t pieces = row->stages * row->chunks;
    const char *schedule = row->schedule == ZB_H1 ? "zb_h1"
                           : row->chunks > 1      ? "interleaved_1f1b"
                                                  : "1f1b";
    if (row->stages <= 1)
        return;
    fprintf(out, "  pipeline h on pipe (schedule = \"%s\"", schedule);
    if (row->chunks > 1)
        fprintf(out, ", chunks = %" PRId64, row->chunks);
    const int64_t all = row->layers + (row->trims_ends ? 2 : 0);
    fprintf(out, ", cuts = (");
    for (int64_t i = 1; i < pieces; i++)
        fprintf(out, "%s%" PRId64, i > 1 ? ", " : "",
                i * (all / pieces) - (row->trims_ends ? 1 : 0));
    fprintf(out, "))\n");
}

static void print_axis(FILE *out, const char *name, int64_t n, bool *is_first)
{
    if (n <= 1)
        return;
    fprintf(out, "%s%s = %" PRId64, *is_first ? "  mesh " : ", ", name, n);
    *is_first = false;
}

static void print_layout(FILE *out, const Row *row)
{
    const int64_t node = row->gpus < 8 ? row->gpus : 8;
    const int64_t micros = row->batch / row->data / row->micro;
    fprintf(out,
            "cluster pod { nodes = %" PRId64 "; gpus = %" PRId64 "; gpu = \"%s\"; stack = %s }\n",
            row->gpus / node, node, row->device, row->stack);
    fprintf(out, "parallel published on pod {\n");
    bool is_first = true;
    print_axis(out, "pipe", row->stages, &is_first);
    print_axis(out, "data", row->data, &is_first);
    print_axis(out, "tensor", row->tensor, &is_first);
    fprintf(out, "%s", is_first ? "" : "\n");
    if (row->tensor > 1)
        fprintf(out, "  shard %s, ffn, vocab on tensor\n", row->is_llama ? "kv" : "heads");
    if (row->sequence_parallel && row->tensor > 1)
        fprintf(out, "  shard seq on tensor\n");
    if (row->data > 1)
        fprintf(out, "  shard batch on data\n");
    print_pipeline(out, row);
    if (micros > 1)
        fprintf(out, "  micro batch = %" PRId64 "\n", micros);
    if (row->is_llama && row->data > 1) /* FSDP2 gathers the next layer while one computes */
        fprintf(out, "  zero 3 on data (prefetch = 1)\n");
    print_remat(out, row);
    fprintf(out, "}\n");
}

static bool write_program(DtArena *arena, const char *folder, const char *file, const Row *row)
{
    FILE *out = fopen(dt_arena_printf(arena, "%s/%s", folder, file), "w");
    if (!out) {
        fprintf(stderr, "costprograms: cannot write %s/%s\n", folder, file);
        return false;
    }
    fprintf(out, "# %s, written by bench/costmodel/costprograms.c\n", row->model);
    print_model(out, row);
    print_training(out, row);
    print_layout(out, row);
    return fclose(out) == 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: costprograms TREE FOLDER\n");
        return 2;
    }
    DtArena *arena = dt_arena_new();
    const Known known = known_read(arena, argv[1]);
    const Rows rows = rows_read(arena, dt_arena_printf(arena, "%s/bench/published", argv[1]));
    bool good = true;
    for (uint32_t i = 0; i < rows.n && good; i++) {
        const Row *row = &rows.at[i];
        if (!tables[row->source] || row->measured <= 0)
            continue;
        const Setting s = setting_of(&known, row, NOTHING);
        const char *file = dt_arena_printf(arena, "%03u.dsl", i);
        good = write_program(arena, argv[2], file, row);
        printf("%s\t%s\t%s tp%d pp%d x%d dp%d b%d r%d\t%.6g\t%.6g\n", file, tables[row->source],
               row->model, (int)row->tensor, (int)row->stages, (int)row->chunks, (int)row->data,
               (int)row->micro, (int)row->recompute, row->measured, time_total(step_of(&s)));
    }
    dt_arena_free(arena);
    return good ? 0 : 1;
}
