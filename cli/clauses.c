/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the clauses after a function's `return`, on every compile, before anything else. A
 * function that computes in blocks must compute what it returns, otherwise it is refused. The
 * merge of a streaming function must obey the laws that rings rely on, otherwise a lint says so:
 * on one rank nothing is merged, and a ring whose parts do not add up to the function's result
 * is refused. */
#include "cli/cli.h"

#include "base/intern.h"
#include "ir/ir.h"
#include "passes/check/judge.h"
#include "verify/box.h"

#include <string.h>

enum {
    MOST_PARTS = 16, /* tests of each law */
    TRIES = 2        /* of a law */
};

static bool same_span(DtSpan x, DtSpan y) { return x.file == y.file && x.lo == y.lo; }

/* ---- merges ---- */

/* A function that is being built to state one law of `merge`, such as that the order of merges does
 * not matter. */
typedef struct Law {
    const DtFunc *merge;
    DtBuilder b;
    uint32_t n; /* values of a part */
} Law;

/* Begins a new function of n_blocks parts, which are put into ret_blocks one after the other (law.n
 * values each). */
static Law begin_law(const DtFunc *merge, const char *side, uint32_t n_blocks, DtValue **ret_blocks)
{
    DtFunc *func =
        dt_graph_func(merge->module, dt_intern_printf("%s.%s", merge->name, side), DT_FUNC_FN);
    Law law = {.merge = merge, .b = {.func = func}, .n = merge->inputs.n / 2};
    for (uint32_t i = 0; i < n_blocks * law.n; i++)
        ret_blocks[i] = dt_graph_arg(func, merge->inputs.at[i % law.n]->type, NULL);
    return law;
}

static DtValue *const *merge(Law *law, DtValue *const *x, DtValue *const *y)
{
    DtValue *in[2 * MOST_PARTS];
    for (uint32_t i = 0; i < law->n; i++) {
        in[i] = x[i];
        in[law->n + i] = y[i];
    }
    return dt_graph_call(&law->b, (DtFunc *)(uintptr_t)law->merge, NULL, in)->out;
}

static const DtFunc *end_law(const Law *law, DtValue *const *part)
{
    for (uint32_t i = 0; i < law->n; i++)
        dt_graph_return(law->b.func, part[i]);
    return law->b.func;
}

/* Returns a function that merges three blocks: the first two first, or the last two first. */
static const DtFunc *of_three(const DtFunc *func, bool first)
{
    DtValue *x[3 * MOST_PARTS];
    Law law = begin_law(func, first ? "first" : "last", 3, x);
    DtValue *const *two = first ? merge(&law, x, x + law.n) : merge(&law, x + law.n, x + 2 * law.n);
    return end_law(&law, first ? merge(&law, two, x + 2 * law.n) : merge(&law, x, two));
}

static const DtFunc *of_two(const DtFunc *func, bool turned)
{
    DtValue *x[2 * MOST_PARTS];
    Law law = begin_law(func, turned ? "turned" : "plain", 2, x);
    return end_law(&law, turned ? merge(&law, x + law.n, x) : merge(&law, x, x + law.n));
}

/* Prints func and the functions that it calls. */
static void print_with_calls(const DtFunc *func, bool *printed, DtText *text)
{
    const uint32_t number = dt_graph_number(func->module, func);
    if (printed[number])
        return;
    printed[number] = true;
    dt_irtext_print_func(func, text);
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i]->func)
            print_with_calls(func->ops.at[i]->func, printed, text);
}

/* Whether x and y are equal as far as random evaluation shows. It tries twice: which of two maxima
 * is larger is random there, and a wrong law may need a certain order of three (of six: with one
 * element, the forty decisions of an evaluation miss it once in 1,500 times). */
static bool do_the_same(DtCli *cli, const DtFunc *x, const DtFunc *y, DtText *ret_said)
{
    return dt_cli_compare_functions(cli, x, y, TRIES, ret_said) != DT_BOX_OTHER;
}

int dt_cli_compare_functions(DtCli *cli, const DtFunc *x, const DtFunc *y, uint32_t tries,
                             DtText *ret_said)
{
    DtText text = {0};
    bool *printed = DT_NEW_ARRAY(cli->arena, bool, x->module->funcs.n + 1);
    print_with_calls(x, printed, &text);
    print_with_calls(y, printed, &text);
    DtBoxVerdict verdict = DT_BOX_SAME;
    for (uint32_t i = 0; i < tries && verdict == DT_BOX_SAME; i++)
        verdict = dt_box_functions(cli->arena, text.at, x->name, y->name, ret_said);
    dt_text_free(&text);
    return verdict;
}

const char *dt_cli_reason(const DtCli *cli, const char *said)
{
    const char *op = strstr(said, ": `");
    return op ? dt_arena_strndup(cli->arena, said, (size_t)(op - said)) : said;
}

static void say_law(DtCli *cli, const DtFunc *func, const char *law, const char *help,
                    const DtText *said)
{
    DtDiag *d = dt_diag_report(cli->diags, L0209, func->stream->merge->span,
                               "the `merge` of `%s` %s", dt_graph_source_name(func), law);
    dt_diag_note(d, "evaluated with random parts: %s", dt_cli_text(said));
    dt_diag_help(d, "%s", help);
}

/* Checks that the merge of a ring allows blocks in any order; that of a `scan` must only be
 * associative. */
static void check_merge(DtCli *cli, const DtFunc *func)
{
    DtText said = {0};
    const DtFunc *merge = func->stream->merge;
    if (merge->inputs.n > 2 * MOST_PARTS)
        return;
    if (!do_the_same(cli, of_three(merge, true), of_three(merge, false), &said))
        say_law(cli, func, "depends on which of three blocks are merged first",
                "what two blocks give together is what one block would give that is both", &said);
    else if (!func->stream->is_ordered &&
             !do_the_same(cli, of_two(merge, false), of_two(merge, true), &said))
        say_law(cli, func, "depends on which of two blocks comes first",
                "a ring merges blocks in whatever order they come; if they are to stay in theirs, "
                "this is a `scan`, "
                "not a `stream`",
                &said);
    dt_text_free(&said);
}

/* ---- the part before the first block ---- */

/* The loop over blocks of a function with `emit` (frontend/lower_scan.c), which carries the part
 * before each block. */
const DtOp *dt_cli_loop_over_blocks(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_LOOP && op->loop->label == dt_intern("blocks") &&
            op->loop->n_carried && op->loop->n_stacked == op->loop->n_carried &&
            op->loop->n_stacked_out == op->loop->n_carried)
            return op;
    }
    return NULL;
}

/* Copies value and its operands into the law; map: by value id, the copy or NULL. */
static DtValue *copy_into(Law *law, DtArena *arena, const DtValue *value, DtValue **map)
{
    if (map[value->id] || !value->op)
        return map[value->id];
    const DtOp *op = value->op;
    DtValue **in = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = copy_into(law, arena, op->in[i], map);
    const DtOp *made = dt_graph_copy(&law->b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        map[op->out[i]->id] = made->out[i];
    return map[value->id];
}

/* A function of func's inputs and a part: returns the part, merged with the one before the first
 * block (merged) or as it is. */
static const DtFunc *of_neutral(DtCli *cli, const DtFunc *func, const DtOp *loop, bool merged)
{
    const uint32_t n = loop->loop->n_carried, n_invariant = loop->loop->n_invariant;
    const DtFunc *body = loop->func;
    DtFunc *made = dt_graph_func(func->module,
                                 dt_intern_printf("%s.%s", func->name, merged ? "begun" : "plain"),
                                 DT_FUNC_FN);
    Law law = {.b = {.func = made}, .n = n};
    DtValue **outside = DT_NEW_ARRAY(cli->arena, DtValue *, func->n_values + 1),
            **inside = DT_NEW_ARRAY(cli->arena, DtValue *, body->n_values + 1),
            **part = DT_NEW_ARRAY(cli->arena, DtValue *, n);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        outside[func->inputs.at[i]->id] = dt_graph_arg(made, func->inputs.at[i]->type, NULL);
    for (uint32_t i = 0; i < n; i++) {
        part[i] = dt_graph_arg(made, body->inputs.at[1 + i]->type, NULL);
        inside[body->inputs.at[1 + n + n_invariant + i]->id] = part[i];
    }
    if (!merged)
        return end_law(&law, part);
    inside[body->inputs.at[0]->id] = dt_graph_constant(&law.b, DT_I32, 0);
    for (uint32_t i = 0; i < n + n_invariant; i++)
        inside[body->inputs.at[1 + i]->id] = copy_into(&law, cli->arena, loop->in[i], outside);
    for (uint32_t i = 0; i < n; i++)
        part[i] = copy_into(&law, cli->arena, body->results.at[i], inside);
    return end_law(&law, part);
}

/* Checks that merging the part before the first block changes nothing. A function that is compared
 * with its blocks as a whole needs no further check. */
static void check_neutral(DtCli *cli, const DtFunc *func)
{
    DtText said = {0};
    DtModule *module = func->module;
    const uint32_t n_funcs = module->funcs.n;
    const DtOp *loop = dt_cli_loop_over_blocks(func);
    if (!loop || loop->loop->n_carried > MOST_PARTS)
        return;
    const DtOp *first = loop->in[0]->op;
    const DtFunc *plain = of_neutral(cli, func, loop, false),
                 *begun = of_neutral(cli, func, loop, true);
    if (!do_the_same(cli, begun, plain, &said)) {
        DtDiag *d = dt_diag_report(
            cli->diags, L0209, first && first->span.file ? first->span : func->span,
            "what `neutral` of `%s` gives is not neutral", dt_graph_source_name(func));
        dt_diag_note(d, "merged with a random part it is not that part: %s", dt_cli_text(&said));
        dt_diag_help(
            d, "right if the axis begins with it; else the first block has too much or too little");
    }
    dt_text_free(&said);
    module->funcs.n = n_funcs;
}

/* Checks each merge that a function of the program states once, however many calls there are. */
static void check_merges(DtCli *cli, DtModule *module)
{
    const uint32_t n_funcs = module->funcs.n;
    DtSpan last = {0};
    for (uint32_t i = 0; i < n_funcs; i++) {
        const DtFunc *func = module->funcs.at[i];
        const DtFunc *merge = func->stream ? func->stream->merge : NULL;
        if (!merge || func->library || same_span(merge->span, last))
            continue;
        last = merge->span;
        check_merge(cli, func);
        module->funcs.n = n_funcs;
    }
}

/* ---- parts ---- */

/* Returns the results of func on one block that is the whole axis. */
static const DtFunc *of_whole(DtCli *cli, const DtFunc *func)
{
    const DtStream *stream = func->stream;
    DtFunc *made =
        dt_graph_func(func->module, dt_intern_printf("%s.whole", func->name), DT_FUNC_FN);
    DtBuilder b = {.func = made};
    DtValue **in = DT_NEW_ARRAY(cli->arena, DtValue *, func->inputs.n + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        in[i] = dt_graph_arg(made, func->inputs.at[i]->type, NULL);
    const DtOp *part = dt_graph_call(&b, stream->part, NULL, in), *finish = NULL;
    if (stream->finish) {
        DtValue **given = DT_NEW_ARRAY(cli->arena, DtValue *, part->n_out + stream->given.n + 1);
        for (uint32_t i = 0; i < part->n_out; i++)
            given[i] = part->out[i];
        for (uint32_t i = 0; i < stream->given.n; i++)
            given[part->n_out + i] = in[stream->given.at[i]];
        finish = dt_graph_call(&b, stream->finish, NULL, given);
    }
    for (uint32_t i = 0; i < func->results.n; i++) {
        const int32_t from = stream->takes.at[i];
        dt_graph_return(made, from < 0 ? part->out[-1 - from] : finish->out[from]);
    }
    return made;
}

/* Whether one block that is all of the axis gives something else than func returns: then it is not
 * the merge. */
static bool fails_whole(DtCli *cli, DtFunc *func)
{
    DtText said = {0};
    const DtFunc *whole = of_whole(cli, func);
    func->stream = NULL; /* compares results only: where the function streams them to does not
                          * matter */
    func->gradient = NULL;
    const bool fails = dt_cli_compare_functions(cli, whole, func, TRIES, &said) == DT_BOX_OTHER;
    dt_text_free(&said);
    return fails;
}

/* Returns the first function of that source name that states how it streams (in blocks); NULL:
 * none. */
static DtFunc *find_stream(const DtModule *module, const char *name)
{
    for (uint32_t i = 0; i < module->funcs.n; i++)
        if (module->funcs.at[i]->stream && !strcmp(dt_graph_source_name(module->funcs.at[i]), name))
            return module->funcs.at[i];
    return NULL;
}

bool dt_cli_blame_stream(DtCli *cli, const char *path, const char *name, const char *why)
{
    const DtLowerOptions options = dt_cli_lowering(cli, path);
    /* the program as lowered, before any pass */
    DtProgram *program = dt_lower(cli->arena, dt_diag_new(cli->arena), &options);
    DtFunc *func = program ? find_stream(program->module, name) : NULL;
    if (!func || func->library)
        return false;
    const DtStream *stream = func->stream;
    const bool adds = same_span(stream->merge->span, stream->part->span),
               whole = fails_whole(cli, func);
    const char *gives = stream->finish ? " and `finish` give" : " gives";
    DtDiag *d = dt_diag_report(cli->diags, E0223, whole ? stream->part->span : stream->merge->span,
                               "`%s` is not what its blocks come to", name);
    if (whole)
        dt_diag_caret(d, "of all of `%s` as one block this%s something else than `return`",
                      stream->axis, gives);
    else if (adds)
        dt_diag_caret(d, "without `merge` the parts of blocks are added up");
    else
        dt_diag_caret(
            d, "of the parts of two blocks this does not make that of one block that is both");
    dt_diag_note(d, "all ranks of the ring, evaluated with random operands: %s",
                 dt_cli_reason(cli, why));
    dt_diag_help(
        d, "%s",
        whole ? "write the same in both, also of a row that a mask hides altogether and of bounds, "
                "as in `max(m, -1e30)`"
              : "without `(ring = true)` nothing is merged");
    return true;
}

/* ---- blocks ---- */

/* Reports L0208: the function is too large to be compared with its blocks. Further calls of it are
 * not reported, and the search continues: with shorter axes they may be compared. */
static void say_too_large(DtCli *cli, const DtFunc *func, DtSpan *last)
{
    if (same_span(func->span, *last))
        return;
    *last = func->span;
    DtDiag *d =
        dt_diag_report(cli->diags, L0208, func->span,
                       "that `%s` computes in blocks what it returns is too large to be proved",
                       dt_graph_source_name(func));
    dt_diag_help(d, "compile it once with shorter axes (`-D`): that is proved");
    if (!func->library)
        check_neutral(cli, func);
}

/* Reports L0208: blocks and function agree in double precision, which proves nothing. The proof
 * evaluates in a finite field, where the larger of two floats is arbitrary. */
static void say_tried(DtCli *cli, const DtFunc *func, DtSpan *last)
{
    if (same_span(func->span, *last))
        return;
    *last = func->span;
    DtDiag *d = dt_diag_report(cli->diags, L0208, func->span,
                               "that `%s` computes in blocks what it returns is tried, not proved",
                               dt_graph_source_name(func));
    dt_diag_note(d, "run in double precision on random numbers, both give the same; there is no "
                    "proof where the larger of some floats decides");
}

/* Reports E0223: blocks and function compute different results. told: the result of the comparison
 * in double precision. */
static int say_other(DtCli *cli, const DtFunc *func, const DtText *said, DtJudgeAlike told)
{
    DtDiag *d = dt_diag_report(cli->diags, E0223, func->span,
                               "`%s` does not compute in blocks what it returns",
                               dt_graph_source_name(func));
    dt_diag_note(d, "evaluated with random operands: %s", dt_cli_reason(cli, dt_cli_text(said)));
    if (told == DT_JUDGE_NOT_TRIED) {
        dt_diag_note(
            d,
            "the larger of some floats may decide, which this does not know; to run both in double "
            "precision would take too long, or they give no finite number");
        dt_diag_help(d, "compile it once with shorter axes (`-D`): there it is tried");
    }
    dt_diag_help(d, "look at its `scan`, `merge`, `neutral` and `emit`: what is emitted in a block "
                    "is what `return` "
                    "has there, made of what stands before the block and of the block alone");
    return DT_EXIT_DIAGNOSTICS;
}

/* Proves, before anything else, that blocks and custom gradients agree with the functions
 * that have them. */
static int check_blocks(DtCli *cli, const DtModule *module, const char *path)
{
    DtText text = {0};
    DtSpan last = {0};
    uint32_t n = 0, proved = 0;
    int code = DT_EXIT_OK;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        n += module->funcs.at[i]->meant != NULL;
    if (n)
        dt_irtext_print(module, &text);
    for (uint32_t i = 0; code == DT_EXIT_OK && i < module->funcs.n; i++) {
        const DtFunc *func = module->funcs.at[i];
        DtText said = {0};
        if (!func->meant)
            continue;
        const DtBoxVerdict verdict =
            dt_box_functions(cli->arena, text.at, func->meant->name, func->name, &said);
        if (verdict == DT_BOX_SAME) {
            proved++;
        } else if (verdict == DT_BOX_LARGE) {
            say_too_large(cli, func, &last);
        } else {
            const bool exact = dt_cli_is_exact(cli, func) && dt_cli_is_exact(cli, func->meant);
            const DtJudgeAlike told = exact ? DT_JUDGE_UNLIKE : dt_cli_try_blocks(cli, func, path);
            if (told == DT_JUDGE_ALIKE)
                say_tried(cli, func, &last);
            else
                code = say_other(cli, func, &said, told);
        }
        dt_text_free(&said);
    }
    dt_text_free(&text);
    if (proved && code == DT_EXIT_OK && cli->verify) {
        DtText line = {0};
        dt_text_printf(&line, "proved: in blocks %u function%s what %s\n", proved,
                       proved == 1 ? " computes" : "s compute",
                       proved == 1 ? "it returns" : "they return");
        code = dt_cli_print(&line);
        dt_text_free(&line);
    }
    return code;
}

int dt_cli_check_clauses(DtCli *cli, DtModule *module, const char *path)
{
    check_merges(cli, module);
    return check_blocks(cli, module, path);
}
