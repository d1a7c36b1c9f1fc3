/* SPDX-License-Identifier: Apache-2.0 */
/* Which losses are sums over samples, so that an evaluation may count a part of a batch
 * (ir/samples.c), and which are taken apart into such sums (lower_shown.c). */
#include "frontend/lower.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Lowers a model with tokens and a loop; `loss` and `body` are pieces of its source text.
 * ret_formula: the formula by which an evaluation computes the loss. */
static bool lowered(const char *body, const char *loss, char ret_formula[300])
{
    char path[] = "/tmp/dt_samplesXXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    FILE *file = fdopen(fd, "w");
    fprintf(
        file,
        "include \"std.dsl\"\n"
        "dim batch = 6, seq = 4, kseq = seq, vocab = 8, embed = 4, layers = 2, pool = 2, each = 3\n"
        "layer block(x[batch, seq, embed]) -> [batch, seq, embed] {\n"
        "  param w[embed, embed2] = normal(0.1)\n"
        "  %s\n"
        "  return x + gelu(x @embed w)[embed2 -> embed]\n"
        "}\n"
        "dim embed2 = embed\naxis row\n"
        "model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {\n"
        "  param wte[vocab, embed] = normal(0.1)\n"
        "  x = wte[vocab = tokens]\n"
        "  repeat h in layers { x = block(x) }\n"
        "  return x @embed wte\n"
        "}\n"
        "train {\n"
        "  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))\n"
        "  z = m(tokens)\n"
        "  l = xent[vocab](z, labels)\n"
        "  loss = %s\n"
        "  optimizer = sgd(lr = 0.1)\n"
        "  eval = every(1, data = next_token(synthetic(0, vocab)))\n"
        "  steps = 2\n"
        "}\n",
        body, loss);
    cr_assert_eq(fclose(file), 0);
    DtArena *arena = dt_arena_new();
    DtDiags *diags = dt_diag_new(arena);
    DtProgram *program = dt_lower(arena, diags, &(DtLowerOptions){.path = path, .library = "lib"});
    unlink(path);
    if (dt_diag_errors(diags))
        dt_diag_print(diags, stderr, false);
    cr_assert_not_null(program, "%s", loss);
    bool rest = program->train->eval_rest;
    for (uint32_t i = 0; i < program->train->shown.n; i++)
        if (!strcmp(program->train->shown.at[i].entry, "eval"))
            snprintf(ret_formula, 300, "%s", program->train->shown.at[i].formula);
    dt_arena_free(arena);
    return rest;
}

static bool adds_up(const char *body, const char *loss)
{
    char formula[300];
    return lowered(body, loss, formula) && !formula[0];
}

static void expect_formula(const char *loss, const char *want)
{
    char formula[300] = "";
    const bool rest = lowered("", loss, formula);
    cr_expect_str_eq(formula, want, "%s", loss);
    cr_expect_eq(rest, want[0] != 0, "%s", loss);
}

Test(samples, means_and_sums_add_up)
{
    cr_expect(adds_up("", "mean[batch, seq](l)"));
    cr_expect(adds_up("", "sum[batch, seq](l)"));
    cr_expect(adds_up("", "2.0 * mean[batch](mean[seq](l)) + 1.0"));
    cr_expect(
        adds_up("x = x / (1 + max[embed](abs(x)))", "sum[batch, seq](where(labels < 3, l, 0))"));
    cr_expect(adds_up("x = softmax[seq](x)", "mean[batch, seq](l)"));
    cr_expect(adds_up("", "sum[batch](sum[seq](l * (labels < 3)) / max(sum[seq](labels < 3), 1))"),
              "a quotient per sample");
    cr_expect(
        adds_up("if training { x = x + uniform[batch]() }", "mean[batch, seq](dropout(l, 0.1))"),
        "no draw");
    cr_expect(adds_up("", "mean[row](l[(batch, seq) -> row])"), "samples under another name");
}

Test(samples, what_needs_several_samples_does_not)
{
    cr_expect_not(adds_up("", "max[batch](mean[seq](l))"));
    cr_expect_not(adds_up("x = x + normal[batch, seq, embed](0, 0.1)", "mean[batch, seq](l)"),
                  "by place in the batch");
    cr_expect_not(adds_up("x = x - mean[batch](x)", "mean[batch, seq](l)"));
    cr_expect_not(
        adds_up("y = x[batch -> (pool, each)]; x = (y - mean[each](y))[(pool, each) -> batch]",
                "mean[batch, seq](l)"));
}

Test(samples, expressions_of_sums)
{
    expect_formula("sum[batch, seq](l * (labels < 3)) / sum[batch, seq](labels < 3)",
                   "div(loss.0, loss.1)");
    expect_formula("log(mean[batch, seq](exp(l)))", "log(loss.0)");
    expect_formula("sum[batch, seq](l) / max(sum[batch, seq](labels < 3), 1)",
                   "div(loss.0, div(max(mul(loss.1, batches), 1), batches))");
    expect_formula("sum[batch, seq](l) / max(mean[batch, seq](l), 0.5)",
                   "div(loss.0, max(loss.1, 0.5))");
    expect_formula("sum[batch, seq](l) / max(mean[batch](mean[seq](l)), 0.5)",
                   "div(loss.0, max(loss.1, 0.5))");
    expect_formula("sum[batch, seq](l) / max(sum[batch](mean[seq](l)), 0.5)",
                   "div(loss.0, div(max(mul(loss.1, batches), 0.5), batches))");
    expect_formula("sum[batch, seq](l) / max(sqrt(mean[batch, seq](l)), 0.5)",
                   "div(loss.0, max(sqrt(loss.1), 0.5))");
    expect_formula("2.0 * sqrt(mean[batch, seq](l * l) - mean[batch, seq](l) ** 2)",
                   "mul(2, sqrt(sub(loss.0, mul(loss.1, loss.1))))");
}

Test(samples, other_numbers_stay)
{
    expect_formula("max[batch](mean[seq](l))", "");
    expect_formula("exp(max[batch](mean[seq](l)))", "");
}

/* The sums of the rest are added up all the same. */
Test(samples, a_part_that_cannot_be_taken_apart)
{
    static const struct Mixed { const char *loss, *formula; } mixed[] = {
        {"sum[batch, seq](l) / sum[vocab](max[batch, seq](z))", "div(loss.0, loss.1)"},
        {"sum[vocab](max[batch, seq](z)) / sum[batch, seq](l)", "div(loss.0, loss.1)"},
        {"exp(mean[batch, seq](l)) + sum[vocab](sum[batch, seq](z) / max[batch, seq](z))",
         "add(exp(loss.0), loss.1)"},
        {"sum[batch]((mean[seq](l) - mean[batch, seq](l)) ** 2) / mean[batch, seq](l) ** 2",
         "div(loss.0, mul(loss.1, loss.1))"},
        {"sum[pool](max[each](mean[seq](l)[batch -> (pool, each)])) / sum[batch, seq](labels < 3)",
         "div(loss.0, loss.1)"},
        {"sum[vocab](max[batch, seq](z) + sum[batch, seq](z) ** 2)", ""},
    };
    for (size_t i = 0; i < sizeof mixed / sizeof mixed[0]; i++) {
        char formula[300] = "";
        const bool rest = lowered("", mixed[i].loss, formula);
        cr_expect_str_eq(formula, mixed[i].formula, "%s: %s", mixed[i].loss, formula);
        cr_expect_not(rest);
    }
}
