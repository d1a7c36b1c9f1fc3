/* SPDX-License-Identifier: Apache-2.0 */
/* The axis of replicas on types and on single ops. Axes have names, so nearly every op means the
 * same for each replica once its operands have one more axis. */
#include "passes/replicas/replicas.h"

#include "base/intern.h"

#include <string.h>

const DtReplicas *dt_replicas_of(const DtPassContext *context)
{
    const DtTrainConfig *train = context ? context->train : NULL;
    return train && train->replicas.mix != DT_MIX_NONE ? &train->replicas : NULL;
}

int64_t dt_replicas_in(const DtModule *module)
{
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (dt_replicas_has(module->stores.at[i]->type))
            return dt_replicas_count(module->stores.at[i]->type);
    return 1;
}

bool dt_replicas_has(const DtType *type)
{
    return dt_type_find(type, dt_intern(DT_REPLICA_AXIS)) >= 0;
}

int64_t dt_replicas_count(const DtType *type)
{
    return dt_type_extent(type, dt_intern(DT_REPLICA_AXIS));
}

const DtType *dt_replicas_type(const DtType *type, uint32_t at, int64_t n)
{
    DtAxis axes[DT_MAX_RANK + 1];
    if (dt_replicas_has(type))
        return type;
    for (uint32_t i = 0; i < type->rank; i++)
        axes[i < at ? i : i + 1] = type->axes[i];
    axes[at] = (DtAxis){.name = dt_intern(DT_REPLICA_AXIS), .extent = n};
    return dt_type_plain(type->dtype, type->rank + 1u, axes);
}

const DtType *dt_replicas_stored(const DtStore *store, const DtType *type, int64_t n)
{
    return dt_replicas_type(type, store->n_loops, n);
}

/* The operand with most axes of those that have the axis of replicas; NULL: none has. */
static const DtType *replicated(uint32_t n, DtValue *const *in)
{
    const DtType *most = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (dt_replicas_has(in[i]->type) && (!most || in[i]->type->rank > most->rank))
            most = in[i]->type;
    return most;
}

/* The result's type with the axis, which stands after as many axes as in the operand, as long as
 * these are the same: those of loops come first in both. */
static const DtType *result_type(const DtType *type, const DtType *operand)
{
    const char *axis = dt_intern(DT_REPLICA_AXIS);
    uint32_t at = 0;
    while (at < type->rank && at < operand->rank && operand->axes[at].name != axis &&
           operand->axes[at].name == type->axes[at].name)
        at++;
    return dt_replicas_type(type, at, dt_replicas_count(operand));
}

static DtValue *expanded(DtBuilder *b, DtValue *x, int64_t n)
{
    return dt_replicas_has(x->type) ? x : dt_graph_expand(b, x, dt_replicas_type(x->type, 0, n));
}

DtOp *dt_replicas_copy(DtBuilder *b, const DtOp *op, DtValue *const *in)
{
    DtArena *arena = b->func->module->arena;
    const DtType *like = replicated(op->n_in, in);
    if (!like)
        return dt_graph_copy(b, op, in);
    const int64_t n = dt_replicas_count(like);
    DtValue **now = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1),
            **wished = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    /* all operands of a concat are alike, and an index of a scatter has no axis of its own */
    for (uint32_t i = 0; i < op->n_in; i++)
        now[i] = op->kind == DT_OP_CONCAT || (op->kind == DT_OP_SCATTER_ADD && i == 0)
                     ? expanded(b, in[i], n)
                     : in[i];
    for (uint32_t i = 0; i < op->n_out; i++) {
        wished[i] = DT_NEW(arena, DtValue);
        *wished[i] = *op->out[i];
        wished[i]->type = result_type(op->out[i]->type, like);
    }
    DtOp draft = *op;
    draft.out = wished;
    return dt_graph_copy(b, &draft, now);
}

DtValue *dt_replicas_mean(DtBuilder *b, DtValue *x)
{
    const char *axis = dt_intern(DT_REPLICA_AXIS);
    if (!dt_replicas_has(x->type))
        return x;
    const double n = (double)dt_replicas_count(x->type);
    DtValue *sum = dt_graph_reduce(b, DT_REDUCE_SUM, x, 1, &axis);
    return dt_graph_binary(b, DT_OP_DIV, sum, dt_graph_constant(b, sum->type->dtype, n));
}
