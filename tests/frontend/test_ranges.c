/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of an input the program can use (ir/ranges.c), and the range from which random data
 * for it are drawn. */
#include "frontend/lower.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static DtArena *arena;

static const char *text_of(const DtIntSet *set)
{
    const char *text = "";
    for (uint32_t i = 0; i < set->n; i++) {
        const char *lo =
            set->lo[i] == INT64_MIN ? "" : dt_arena_printf(arena, "%lld", (long long)set->lo[i]);
        const char *hi =
            set->hi[i] == INT64_MAX ? "" : dt_arena_printf(arena, "%lld", (long long)set->hi[i]);
        text = dt_arena_printf(arena, "%s%s%s..%s", text, i ? " " : "", lo, hi);
    }
    return text;
}

static DtProgram *program_with(const char *before, const char *statements, const char *loss)
{
    char path[] = "/tmp/dt_rangesXXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    FILE *file = fdopen(fd, "w");
    fprintf(file,
            "include \"std.dsl\"\n"
            "dim batch = 6, seq = 4, kseq = seq, vocab = 20, small = 5, embed = 4, layers = 3\n"
            "axis row\n"
            "%s\n"
            "model m(i32 t[batch, seq], i32 other[batch, seq]) -> [] {\n"
            "  param table[vocab, embed] = normal(0.1)\n"
            "  param little[small, embed] = normal(0.1)\n"
            "  param head[embed, vocab] = normal(0.1)\n"
            "  z = little[small = other] @embed head\n"
            "  %s\n"
            "  return %s\n"
            "}\n"
            "train {\n"
            "  i32 t[batch, seq] = bin(\"a.bin\", u16)\n"
            "  i32 other[batch, seq] = bin(\"a.bin\", u16)\n"
            "  loss = m(t, other)\n"
            "  optimizer = sgd(lr = 0.1)\n"
            "  steps = 2\n"
            "}\n",
            before, statements, loss);
    cr_assert_eq(fclose(file), 0);
    DtDiags *diags = dt_diag_new(arena);
    DtProgram *program = dt_lower(arena, diags, &(DtLowerOptions){.path = path, .library = "lib"});
    unlink(path);
    if (dt_diag_errors(diags))
        dt_diag_print(diags, stderr, false);
    cr_assert_not_null(program, "%s %s", statements, loss);
    return program;
}

static DtInputRange range_with(const char *before, const char *statements, const char *loss)
{
    return program_with(before, statements, loss)->train->readers.at[0].ranges[0];
}

/* Checks the ranges of an input's values. allowed: as text_of prints it; drawn: "lo..hi", or "" if
 * nothing in the program limits the values. */
static void expect_with(const char *before, const char *statements, const char *loss,
                        const char *allowed, const char *drawn)
{
    arena = dt_arena_new();
    DtInputRange range = range_with(before, statements, loss);
    const char *text = text_of(&range.allowed);
    cr_expect_str_eq(text, allowed, "%s; %s: allowed %s, not %s", statements, loss, text, allowed);
    text = range.lo < range.hi
               ? dt_arena_printf(arena, "%lld..%lld", (long long)range.lo, (long long)range.hi)
               : "";
    cr_expect_str_eq(text, drawn, "%s; %s: drawn from %s, not %s", statements, loss, text, drawn);
    cr_expect_eq(range.axis != NULL, strcmp(allowed, "..") != 0, "%s", loss);
    if (range.axis && !strcmp(range.axis, "vocab"))
        cr_expect_eq(range.extent, 20);
    dt_arena_free(arena);
}

static void expect(const char *loss, const char *allowed, const char *drawn)
{
    expect_with("", "", loss, allowed, drawn);
}

#define ALL "[batch, seq, embed]"

Test(ranges, an_index_must_be_inside_its_axis)
{
    expect("sum" ALL "(table[vocab = t])", "0..20", "0..20");
    expect("sum" ALL "(table[vocab = stop(t)] * 2.0)", "0..20", "0..20");
    expect("sum" ALL "(table[vocab = t]) + sum" ALL "(little[small = t])", "0..5", "0..5");
    expect("sum[batch, seq](z[vocab = t])", "0..20", "0..20");
    expect("sum" ALL "(table[vocab = t + 3])", "-3..17", "-3..17");
    expect("sum" ALL "(table[vocab = t - 3])", "3..23", "3..23");
}

Test(ranges, what_is_no_index_may_be_anything)
{
    expect("sum[batch, seq, vocab](z * t)", "..", "");
    expect("sum" ALL "(table[vocab = t % size[vocab]])", "..", "");
    expect("sum" ALL "(table[vocab = t // 2])", "..", "");
    expect_with("", "unused = table[vocab = t]", "sum[batch, seq, vocab](z)", "..", "0..20");
}

Test(ranges, values_are_the_same_under_other_names_and_in_parts)
{
    expect("sum[batch, kseq, embed](table[vocab = t[seq -> kseq]])", "0..20", "0..20");
    expect("sum[row, embed](table[vocab = t[(batch, seq) -> row]])", "0..20", "0..20");
    expect("sum[batch, embed](table[vocab = t[seq = 1]])", "0..20", "0..20");
    expect("sum[batch, embed](table[vocab = max[seq](t)])", "0..20", "0..20");
    expect("sum" ALL "(table[vocab = t[seq = (iota[seq] + 1) % 4]])", "0..20", "0..20");
}

Test(ranges, calls_and_loops_are_followed)
{
    static const char embedding[] = "layer emb(i32 i[batch, seq]) -> [batch, seq, embed] {\n"
                                    "  param w[vocab, embed] = normal(1.0); return w[vocab = i]\n}";
    static const char adding[] =
        "layer add(x[batch, seq, embed], i32 i[batch, seq]) -> [batch, seq, embed] {\n"
        "  param w[small, embed] = normal(1.0); return x + w[small = i]\n}";
    static const char reading[] =
        "fn read(w[vocab, embed], i32 i[...]) -> [..., embed] { return w[vocab = i] }";
    static const char safe[] = "fn safe(w[vocab, embed], i32 i[...]) -> [..., embed] {\n"
                               "  return where(i >= 0 and i < size[vocab], w[vocab = i], 0)\n}";
    expect_with(embedding, "", "sum" ALL "(emb(t))", "0..20", "0..20");
    expect_with(adding, "x = table[vocab = other]; repeat h in layers { x = add(x, t) }",
                "sum" ALL "(x)", "0..5", "0..5");
    expect_with("", "x = table[vocab = other]; i = t\n"
                    "  repeat h in layers { x = x + table[vocab = i]; i = i[seq = 0] + 0 * i }",
                "sum" ALL "(x)", "0..20", "0..20");
    expect_with(safe, "", "sum" ALL "(safe(table, t))", "..", "0..20");
    expect_with(reading, "", "sum" ALL "(where(t < 20, read(table, t), 0))", "0..", "0..20");
}

Test(ranges, a_condition_on_the_index_says_that_outside_is_meant)
{
    expect("sum[batch, seq](xent[vocab](z, t))", "..", "0..20");
    expect("sum" ALL "(where(t < 20, table[vocab = t], 1.0))", "0..", "0..20");
    expect("sum" ALL "(where(t >= 0, table[vocab = t], 1.0))", "..20", "0..20");
    expect("sum" ALL "(where(t >= 20, 1.0, table[vocab = t]))", "0..", "0..20");
    expect("sum" ALL "(where(not (t < 0 or 20 <= t), table[vocab = t], 1.0))", "..", "0..20");
    expect("sum[batch, seq](where(t != 65535, lse[vocab](z) - z[vocab = t], 0))",
           "0..20 65535..65536", "0..20");
    expect("sum" ALL "(table[vocab = t] * (t >= 0 and t < size[vocab]))", "..", "0..20");
    expect("sum" ALL "(table[vocab = t] * where(t < 20, 1.0, 0.0))", "0..", "0..20");
    expect("sum" ALL "(table[vocab = where(t < 20, t, 0)])", "0..", "0..20");
    expect("sum" ALL "(table[vocab = min(t, 19)])", "0..", "0..20");
    expect("sum" ALL "(table[vocab = min(max(t, 0), 19)])", "..", "0..20");
    /* a table for rare tokens covers the rest of the range */
    expect("sum" ALL "(where(t < 20, table[vocab = t], little[small = t - 20]))", "0..25", "0..25");
}

Test(ranges, another_condition_does_not)
{
    expect("sum" ALL "(where(other < 20, table[vocab = t], 1.0))", "0..20", "0..20");
    expect("sum" ALL "(where(t < 21, table[vocab = t], 1.0))", "0..20 21..", "0..20");
    expect("sum" ALL "(where(t < 20, 1.0, table[vocab = t]))", "..20", "0..20");
    expect("sum" ALL "(where(t[seq = 0] < 20, table[vocab = t], 1.0))", "0..20", "0..20");
    expect("sum" ALL "(where(t[seq = 0] < 20, softmax[seq](table[vocab = t]), 1.0))", "0..20",
           "0..20");
    expect("where(max[batch, seq](t) < 20, sum" ALL "(table[vocab = t]), 1.0)", "0..20", "0..20");
    expect_with("", "x = softmax[seq](table[vocab = t])", "sum" ALL "(where(t < 20, x, 1.0))",
                "0..20", "0..20");
}

Test(ranges, elements_that_are_scattered_outside_are_lost)
{
    expect("sum[vocab](scatter[batch, seq](f32(other), vocab = t))", "0..20", "0..20");
    expect("sum[vocab](scatter[batch, seq](f32(other), vocab = where(t < 20, t, -1)))", "0..",
           "0..20");
}

/* A loss, and the values of `t` for which some sum in it is surely 0. */
static const struct Idle {
    const char *loss;
    int64_t lo, hi;
    bool found, divides, is_bounded;
} idles[] = {
    {"sum[batch, seq](c) / sum[batch, seq](t >= 5)", -9, 5, true, true, false},
    {"sum[batch, seq](c) / sum[batch, seq](t >= 5)", -9, 6, false, false, false},
    {"-sum[batch, seq](c * (t < 3)) / sum[batch](sum[seq](f32(t < 3)))", 3, 9, true, true, false},
    {"sum[batch, seq](c) / mean[batch, seq](f32(t == 7))", 8, 900, true, true, false},
    {"sum[batch, seq](c) / max(sum[batch, seq](t == 7), 1)", 8, 9, true, true, true},
    {"sum[batch, seq](c) / (sum[batch, seq](t == 7) + 1)", 8, 9, false, false, false},
    {"sum[batch, kseq](c[seq -> kseq]) / sum[batch, kseq](t[seq -> kseq] > 4)", 0, 5, true, true,
     false},
    {"sum[batch](c[seq = 0]) / sum[batch](t[seq = 1] > 4)", 0, 5, false, false, false},
    {"mean[batch, seq](xent[vocab](z, t))", 20, 99, true, false, false},
    {"mean[batch, seq](xent[vocab](z, t))", 19, 99, false, false, false},
    {"mean[batch, seq](where(t != 7, c, 0))", 7, 8, true, false, false},
    {"mean[batch, seq](where(t != 7, c, 1))", 7, 8, false, false, false},
    {"sum[batch, seq](c) * sum[batch, seq](t > 8)", 0, 9, true, false, false},
    {"sum[batch, seq](c) + sum[batch, seq](t > 8)", 0, 9, false, false, false},
    {"sum[batch, seq](c) / max[batch, seq](where(t < 0, 1.0, 2.0))", 0, 9, false, false, false},
};

Test(ranges, a_sum_that_counts_no_value_is_found)
{
    for (size_t i = 0; i < DT_COUNT(idles); i++) {
        arena = dt_arena_new();
        const DtProgram *program = program_with("", "c = sum[vocab](z)", idles[i].loss);
        const DtIntSet values = dt_intset_range(idles[i].lo, idles[i].hi);
        DtIdleSum idle = {.divides = false};
        const char *name = program->train->readers.at[0].inputs[0];
        const bool found = dt_ranges_idle(program->module, name, &values, &idle);
        cr_expect_eq(found, idles[i].found, "%s: found %d", idles[i].loss, found);
        if (found && idles[i].found) {
            cr_expect_eq(idle.divides, idles[i].divides, "%s", idles[i].loss);
            cr_expect_eq(idle.is_bounded, idles[i].is_bounded, "%s", idles[i].loss);
        }
        dt_arena_free(arena);
    }
}
