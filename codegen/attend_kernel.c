/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as one kernel, where the target has these (DtTargetRow.attends): forward and
 * backward are one instruction each, which computes everything from the scores to the results.
 * attend.c cuts functions without such a kernel into loops. */
#include "codegen/attend.h"

#include "base/bug.h"
#include "base/intern.h"

typedef struct Group {
    const DtOp **ops;
    DtOutput *outputs;
    uint32_t n_ops, n_outputs;
} Group;

/* Returns the ops of scores, region and outputs, which one kernel computes, and the outputs of that
 * kernel. Their places are placeholders as yet. */
static Group group_of(DtTiling *g)
{
    DtEmit *e = g->e;
    const DtFunc *func = g->func;
    Group group = {.ops = DT_NEW_ARRAY(e->scratch, const DtOp *, func->ops.n + 1),
                   .outputs = DT_NEW_ARRAY(e->scratch, DtOutput, func->ops.n + 1)};
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const bool inside = g->part[i] == DT_TILE_SCORE || g->part[i] == DT_TILE_OUTPUT ||
                            dt_tile_is_of_region(g, i);
        if (inside && !dt_op_is_inline(op->out[0]))
            group.ops[group.n_ops++] = op;
        if (dt_tile_is_output(g, i))
            group.outputs[group.n_outputs++] =
                (DtOutput){.value = op->out[0], .place = dt_place_dense(e, op->out[0]->type, 0)};
    }
    return group;
}

/* ---- the result, for a library ---- */

/* Returns the value from which casts alone make `value`; `value` itself if no cast makes it. */
static const DtValue *uncast(const DtValue *value)
{
    while (value->op && value->op->kind == DT_OP_CAST)
        value = value->op->in[0];
    return value;
}

/* Whether the value is an operand of a score. In the backward pass the gradient of the result is
 * one, since a score multiplies it with the values. */
static bool is_scored(const DtTiling *g, const DtValue *value)
{
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        if (g->part[i] == DT_TILE_SCORE &&
            (g->func->ops.at[i]->in[0] == value || g->func->ops.at[i]->in[1] == value))
            return true;
    return false;
}

/* Returns the op that makes the value, if it has that kind and is among the ops before the scores;
 * else NULL. */
static const DtOp *before(const DtTiling *g, const DtValue *value, DtOpKind kind)
{
    return value->op && value->op->kind == kind && dt_tile_part(g, value) == DT_TILE_BEFORE
               ? value->op
               : NULL;
}

/* Whether value is the sum over the head axis of dO * O, which the backward pass of softmax
 * attention needs: dO is the operand that a score is made of, the other factor O goes to
 * *ret_result. Only the pattern is checked; the target decides whether the whole kernel is that
 * backward pass. */
static bool is_dot(const DtTiling *g, const DtValue *value, const DtValue **ret_result)
{
    const DtOp *sum = before(g, value, DT_OP_REDUCE);
    const bool is_sum = sum && sum->reduce == DT_REDUCE_SUM && sum->n_axes == 1;
    const DtOp *product = is_sum ? before(g, sum->in[0], DT_OP_MUL) : NULL;
    if (!product || dt_tile_has(value, g->t))
        return false;
    const DtValue *left = uncast(product->in[0]), *right = uncast(product->in[1]);
    const bool turned = !is_scored(g, left);
    *ret_result = turned ? left : right;
    return is_scored(g, turned ? right : left) && !is_scored(g, *ret_result) &&
           *ret_result != value &&
           (*ret_result)->type->dtype == (turned ? right : left)->type->dtype && !(*ret_result)->op;
}

static DtKAttention attention_of(DtTiling *g)
{
    DtKAttention a = {.func = g->func, .queries = g->s, .keys = g->t, .inlined = g->inlined,
                      .mask = g->masked_by};
    for (uint32_t i = 0; i < g->func->ops.n && g->e->target->library && !a.dot; i++)
        for (uint32_t k = 0; k < g->func->ops.at[i]->n_in && dt_tile_is_of_region(g, i) && !a.dot;
             k++)
            if (is_dot(g, g->func->ops.at[i]->in[k], &a.result))
                a.dot = g->func->ops.at[i]->in[k];
    a.result = a.dot ? a.result : NULL;
    /* The library's `attend` hands its row statistics to its own gradient only; a program's
     * function may use them in any way. */
    a.paired = g->call->func->library == dt_intern("attend");
    return a;
}

/* ---- kernels ---- */

static void say(DtTiling *g, const char *why)
{
    DtEmit *e = g->e;
    /* blocks of so many keys are large enough for the library's products */
    if (dt_untiled_is_reported(e, g->func) || g->n_t > DT_TARGET_MANY_KEYS)
        return;
    DtDiag *diag = dt_diag_report(e->module->diags, L0588, g->call->span,
                                  "attention without a kernel of its own: %s", why);
    dt_diag_note(diag, "function `%s`, for GPUs", g->func->name);
}

bool dt_attend_has_kernel(DtTiling *g)
{
    DtEmit *e = g->e;
    if (!e->target->attends || e->options->loops)
        return false;
    const DtKAttention attention = attention_of(g);
    const Group group = group_of(g);
    e->attention = &attention;
    const char *why = dt_launch_refuses(e, group.ops, group.n_ops, group.outputs, group.n_outputs);
    e->attention = NULL;
    if (why)
        say(g, why);
    return !why;
}

void dt_attend_launch(DtTiling *g)
{
    DtEmit *e = g->e;
    DtKAttention attention = attention_of(g);
    Group group = group_of(g);
    for (uint32_t i = 0; i < group.n_outputs; i++)
        group.outputs[i].place =
            dt_output_write(e, group.outputs[i].value, &group.outputs[i].accumulate);
    e->attention = &attention;
    bool done = dt_launch_kernel(e, group.ops, group.n_ops, group.outputs, group.n_outputs);
    if (!done && attention.dot) { /* the kernel may overwrite the memory of the result: tries
                                   * without reading the result */
        attention.dot = attention.result = NULL;
        done = dt_launch_kernel(e, group.ops, group.n_ops, group.outputs, group.n_outputs);
    }
    e->attention = NULL;
    if (!done)
        DT_BUG("attention would overwrite what it reads");
}
