/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as one kernel, where the target has these (DtTargetRow.attends): forward and backward are an instruction
 * each, which does all ops from the scores to what is left of them. attend.c cuts what has no kernel into loops. */
#include "codegen/attend.h"

#include "base/bug.h"

typedef struct Group {
    const DtOp **ops;
    DtOutput *outputs;
    uint32_t n_ops, n_outputs;
} Group;

/* ret: the outputs lie nowhere yet. */
static Group group_of(DtTiling *g)
{
    DtEmit *e = g->e;
    const DtFunc *func = g->func;
    Group group = {.ops = DT_NEW_ARRAY(e->scratch, const DtOp *, func->ops.n + 1),
                   .outputs = DT_NEW_ARRAY(e->scratch, DtOutput, func->ops.n + 1)};
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const bool inside = g->part[i] == DT_TILE_SCORE || g->part[i] == DT_TILE_OUTPUT || dt_tile_is_of_region(g, i);
        if (inside && !dt_op_is_inline(op->out[0]))
            group.ops[group.n_ops++] = op;
        if (dt_tile_is_output(g, i))
            group.outputs[group.n_outputs++] =
                (DtOutput){.value = op->out[0], .place = dt_place_dense(e, op->out[0]->type, 0)};
    }
    return group;
}

static void say(DtTiling *g, const char *why)
{
    DtEmit *e = g->e;
    for (uint32_t i = 0; i < e->refused.n; i++)
        if (e->refused.at[i] == g->func)
            return;
    DT_PUSH(e->arena, e->refused, g->func);
    DtDiag *diag = dt_diag_report(e->module->diags, L0588, g->call->span, "attention without a kernel of its own: %s",
                                  why);
    dt_diag_note(diag, "function `%s`, for GPUs", g->func->name);
}

bool dt_attend_has_kernel(DtTiling *g)
{
    DtEmit *e = g->e;
    if (!e->target->attends || e->options->loops)
        return false;
    const DtKAttention attention = {g->func, g->s, g->t, g->inlined, g->masked_by};
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
    const DtKAttention attention = {g->func, g->s, g->t, g->inlined, g->masked_by};
    Group group = group_of(g);
    for (uint32_t i = 0; i < group.n_outputs; i++)
        group.outputs[i].place = dt_output_write(e, group.outputs[i].value, &group.outputs[i].accumulate);
    e->attention = &attention;
    const bool done = dt_launch_kernel(e, group.ops, group.n_ops, group.outputs, group.n_outputs);
    e->attention = NULL;
    if (!done)
        DT_BUG("attention would overwrite what it reads");
}
