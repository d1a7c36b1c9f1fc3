/* SPDX-License-Identifier: Apache-2.0 */
/* Sums gradients that accumulate over micro-batches over ranks during the last micro-batch: each
 * bucket when its last term is added. Before that each rank only accumulates its own terms in the
 * result.
 *
 *   before                                      after
 *     body: %5 = pack(%3, %4)                     body: %5 = pack(%3, %4)
 *           return %x, %5                               %6 = start late all_reduce(%5)
 *                                                       return %x, %6
 *     %x, %g = loop(..)                           %x, %g = loop(..)
 *     return %g       completed at the end        %h = done(%g)
 *                                                 return %h
 *
 * A late sum has the meaning of any other: each micro-batch sums its terms over ranks, and the
 * result accumulates these sums. So the interpreter needs no rule for it. The machine runs the two
 * sums in the other order. That needs no memory, since the sum is done in the result, which nobody
 * else reads. It overlaps with everything before the next late sum of the same result.
 *
 * It applies to results that the entry would complete after all micro-batches; pass `zero` packs
 * them. A piece of a pipeline returns them without `done`, which then comes after all actions of
 * the run, since the previous stage waits for the piece. */
#include "passes/lower/order.h"

#include "base/bug.h"
#include "base/intern.h"

#include <string.h>

/* Whether the value is a packed bucket of gradients that is one result of the function and that
 * nothing else reads. */
static bool is_bucket(const DtFunc *func, const DtValue *value)
{
    uint32_t results = 0;
    for (uint32_t i = 0; i < func->results.n; i++)
        results += func->results.at[i] == value;
    return value->op && value->op->kind == DT_OP_PACK && results == 1 &&
           dt_graph_reads(func, value) == 1;
}

static const DtType *summed_type(const DtType *type, uint16_t mesh)
{
    return dt_type_make(type->dtype, type->rank, type->axes, (uint16_t)(type->partial & ~mesh),
                        (DtReduce)type->pending);
}

/* Inserts an asynchronous all_reduce of result i after the op that makes it, which runs in the last
 * micro-batch only (DtOp.late), and makes it the result. */
static void sum_result(DtFunc *func, uint32_t i, uint16_t mesh)
{
    DtValue *value = func->results.at[i];
    const uint32_t n = func->ops.n;
    DtOp *const *ops = func->ops.at;
    DtBuilder b = {.func = func, .span = value->op->span, .path = value->op->path};
    memset(&func->ops, 0, sizeof func->ops);
    for (uint32_t k = 0; k < n; k++) {
        DT_PUSH(func->module->arena, func->ops, ops[k]);
        if (ops[k] != value->op)
            continue;
        DtValue *sum =
            dt_graph_comm(&b, DT_OP_ALL_REDUCE, value, mesh, summed_type(value->type, mesh));
        sum->op->starts = sum->op->late = sum->op->gradients = true;
        sum->op->text = dt_intern("gradients");
        func->results.at[i] = sum;
    }
    dt_graph_renumber(func);
}

/* Marks the reduce_scatter that makes result i as a sum that runs in the last micro-batch only
 * (DtOp.late) and asynchronously. For buckets that ranks shard it exists already, and the store has
 * memory for each rank's terms. */
static void cut_late(DtFunc *func, uint32_t i)
{
    const DtValue *value = func->results.at[i];
    DtOp *op = value->op;
    if (op && op->kind == DT_OP_LOOP)
        op = op->func->results.at[value->index]->op;
    if (!op || op->kind != DT_OP_REDUCE_SCATTER)
        DT_BUG("gradients that ranks add up are not cut where they are made");
    op->starts = op->late = true;
}

/* Whether the value is a loop's result that stacks one bucket of gradients per iteration, and
 * nothing else reads it. In the body it may be marked as late already, if another loop has the same
 * body. */
static bool is_stacked_bucket(const DtFunc *func, const DtValue *value)
{
    const DtOp *op = value->op;
    if (!op || op->kind != DT_OP_LOOP || value->index < op->loop->n_carried ||
        dt_graph_reads(func, value) != 1)
        return false;
    const DtValue *inside = op->func->results.at[value->index];
    return (inside->op && inside->op->late) || is_bucket(op->func, inside);
}

static void sum_late(DtFunc *func, uint32_t i, uint16_t mesh)
{
    DtValue *value = func->results.at[i];
    if (is_bucket(func, value)) {
        sum_result(func, i, mesh);
    } else if (is_stacked_bucket(func, value)) {
        const DtOp *inside = value->op->func->results.at[value->index]->op;
        if (!inside->late)
            sum_result(value->op->func, value->index, mesh);
        value->type = summed_type(value->type, mesh);
    }
}

/* Returns the mesh axes over which result number i, an accumulated gradient, would be summed after
 * all micro-batches, as bits; 0: none. */
static uint16_t summed_over(const DtEntryPoint *entry, uint32_t i)
{
    const DtStore *store = entry->results.at[i].store;
    const DtType *type = entry->func->results.at[i]->type;
    const bool adds = store && store->kind == DT_STORE_GRAD && entry->results.at[i].accumulate;
    const DtModule *module = entry->func->module;
    const uint16_t time = module->mesh.axes[0].is_time ? 1 : 0,
                   pipe = module->pipeline ? (uint16_t)(1u << module->pipeline->mesh) : 0;
    const uint16_t mesh =
        adds && type->pending == DT_REDUCE_SUM ? type->partial & ~store->type->partial & ~time : 0;
    return mesh & pipe ? 0 : mesh; /* pipeline stages sum after all micro-batches */
}

static bool has_terms(const DtEntryResult *result) { return result->store && result->store->terms; }

bool dt_order_adds(const DtModule *module)
{
    return module->pipeline ||
           (module->mesh.n && module->mesh.axes[0].is_time && module->mesh.axes[0].size > 1);
}

bool dt_order_has_late(const DtModule *module)
{
    bool has = false;
    for (uint32_t i = 0; dt_order_adds(module) && i < module->entries.n; i++)
        for (uint32_t k = 0; k < module->entries.at[i].results.n; k++)
            has = has || (module->entries.at[i].kind == DT_ENTRY_GRAD &&
                          (summed_over(&module->entries.at[i], k) ||
                           has_terms(&module->entries.at[i].results.at[k])));
    return has;
}

void dt_order_late(DtEntryPoint *entry)
{
    for (uint32_t i = 0; dt_order_adds(entry->func->module) && i < entry->results.n; i++) {
        const uint16_t mesh = summed_over(entry, i);
        if (has_terms(&entry->results.at[i]))
            cut_late(entry->func, i);
        else if (mesh)
            sum_late(entry->func, i, mesh);
    }
}
