/* SPDX-License-Identifier: Apache-2.0 */
/* The dtype in which gradients cross ranks.
 *
 * Purpose: where `precision` has another dtype for `reduce` than for `grads` (DtModule.crossing),
 * sums of gradients over ranks are taken in it.
 *
 *   grads = f32, reduce = bf16          %g = param "w" (gradient) : f32[e]{sum data}
 *   %g = param "w" : f32[e]        =>   %n = cast(%g) : bf16[e]{sum data}
 *   (summed behind "grad")              %s = all_reduce(%n) : bf16[e]
 *                                       %t = cast(%s) : f32[e]
 *
 * A gradient that the update finds complete is kept with its pending sum instead, and the update
 * completes it. Sums that are there already, those of ZeRO's buckets and those between pipeline
 * stages that share a parameter, get the two casts.
 *
 * Requires: placed values; stage and zero have run. Establishes: no sum of gradients over ranks in
 * another dtype than `reduce`. Breaks: nothing. */
#include "passes/passes.h"

#include "base/intern.h"

#include <string.h>

typedef struct Reduce {
    DtModule *module;
    DtDtype dtype;
} Reduce;

/* ---- one function ---- */

/* Replaces op, a sum over ranks, by a cast to the dtype `reduce`, the sum in that dtype, and a cast
 * back, whose result takes the place of op's. */
static void narrow_sum(const Reduce *r, DtFunc *func, DtOp *op)
{
    DtBuilder b = {.func = func, .span = op->span, .path = op->path};
    DtValue *out = op->out[0], *x = dt_graph_cast(&b, op->in[0], r->dtype);
    DtValue narrow = *out, *wish = &narrow;
    narrow.type = dt_type_with_dtype(out->type, r->dtype);
    DtOp draft = *op;
    draft.out = &wish;
    DtValue *sum = dt_graph_copy(&b, &draft, &x)->out[0];
    DtValue *wide = dt_graph_cast(&b, sum, out->type->dtype);
    out->op = wide->op; /* readers of `out` now read the result of the cast */
    out->index = 0;
    wide->op->out[0] = out;
}

/* Replaces op, which reads a pending gradient for the update, by a read, a sum over ranks in
 * r->dtype and a cast, whose result takes the place of op's. */
static void complete(const Reduce *r, DtFunc *func, DtOp *op)
{
    DtBuilder b = {.func = func, .span = op->span, .path = op->path};
    DtValue *out = op->out[0];
    const DtType *pending = op->store->type;
    DtValue *read = dt_graph_source(&b, DT_OP_PARAM, pending, op->text, op->store);
    read->name = out->name;
    DtValue *x = dt_graph_cast(&b, read, r->dtype);
    DtValue *sum = dt_graph_comm(&b, DT_OP_ALL_REDUCE, x, pending->partial,
                                 dt_type_with_dtype(out->type, r->dtype));
    sum->op->reduce = (DtReduce)pending->pending;
    sum->op->text = dt_intern("gradients");
    sum->op->gradients = true;
    DtValue *wide = dt_graph_cast(&b, sum, out->type->dtype);
    out->op = wide->op;
    wide->op->out[0] = out;
}

static void rewrite(const Reduce *r, DtFunc *func)
{
    const uint32_t n_ops = func->ops.n;
    DtOp **ops = func->ops.at;
    func->ops.at = NULL;
    func->ops.n = func->ops.cap = 0;
    for (uint32_t i = 0; i < n_ops; i++) {
        DtOp *op = ops[i];
        if (op->kind == DT_OP_LOOP)
            rewrite(r, op->func);
        /* sums for the norm have no mesh axes */
        const bool sum = op->gradients && op->mesh && op->in[0]->type->dtype != r->dtype;
        const bool read = op->kind == DT_OP_PARAM && op->out[0]->type != op->store->type;
        if (sum)
            narrow_sum(r, func, op);
        else if (read)
            complete(r, func, op);
        else
            DT_PUSH(func->module->arena, func->ops, op);
    }
    dt_graph_renumber(func);
}

/* ---- gradients that are complete only after their entry ---- */

/* The device mesh axes over which all results that go to the store are pending. Pieces of a
 * pipeline may add to one store; sums over mesh axes that are pending in only some of the results
 * are completed in those entries. */
static uint16_t pending_of(const DtModule *module, const DtStore *store)
{
    const uint16_t time = module->mesh.n > 0 && module->mesh.axes[0].is_time ? 1 : 0;
    uint16_t bits = UINT16_MAX;
    bool any = false;
    for (uint32_t i = 0; i < module->entries.n; i++)
        for (uint32_t k = 0; k < module->entries.at[i].results.n; k++)
            if (module->entries.at[i].results.at[k].store == store &&
                module->entries.at[i].kind != DT_ENTRY_UPDATE) {
                bits &= module->entries.at[i].func->results.at[k]->type->partial;
                any = true;
            }
    return any ? bits & (uint16_t)~time : 0;
}

static void keep_pending(const Reduce *r)
{
    for (uint32_t i = 0; i < r->module->stores.n; i++) {
        DtStore *store = r->module->stores.at[i];
        if (store->kind != DT_STORE_GRAD || store->bucket != NULL || store->type->partial ||
            store->type->dtype == r->dtype)
            continue;
        const uint16_t bits = pending_of(r->module, store);
        if (bits)
            store->type = dt_type_make(store->type->dtype, store->type->rank, store->type->axes,
                                       bits, DT_REDUCE_SUM);
    }
}

bool dt_pass_reduce(DtModule *module, const DtPassContext *context)
{
    if (context->parallel == NULL || !dt_dtype_is_float(module->crossing))
        return false;
    const Reduce r = {.module = module, .dtype = module->crossing};
    keep_pending(&r);
    for (uint32_t i = 0; i < module->entries.n; i++)
        rewrite(&r, module->entries.at[i].func);
    return true;
}
