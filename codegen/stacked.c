/* SPDX-License-Identifier: Apache-2.0 */
/* For reports: the bytes that each loop stacks for its backward loop, and the bytes that the
 * backward loop recomputes instead (`remat`), in one iteration of one micro-batch on one rank. */
#include "codegen/emit.h"

/* Whether a stacked result is saved for a backward loop: of this function, of the function that
 * contains this loop, or of another piece of a pipeline. Results of an entry are no such values:
 * they are states, which the program itself keeps. */
static bool is_saved(const DtModule *module, const DtFunc *func, const DtValue *out)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            if (func->ops.at[i]->in[k] == out &&
                (func->ops.at[i]->kind == DT_OP_LOOP || func->ops.at[i]->kind == DT_OP_RELABEL))
                return true;
    for (uint32_t r = 0; r < func->results.n; r++) {
        if (dt_op_copied(func->results.at[r]) != out)
            continue;
        if (func->kind == DT_FUNC_BODY)
            return true;
        for (uint32_t n = 0; n < module->entries.n; n++) {
            const DtEntryPoint *entry = &module->entries.at[n];
            if (entry->func == func && entry->results.at[r].store &&
                entry->results.at[r].store->kind == DT_STORE_SAVED)
                return true;
        }
    }
    return false;
}

static int64_t recomputed(const DtEmit *e, const DtFunc *body)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < body->ops.n; i++)
        if (body->ops.at[i]->kind == DT_OP_FUSED)
            bytes += recomputed(e, body->ops.at[i]->func);
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_out && k < 32; k++)
            if (body->ops.at[i]->recomputed >> k & 1)
                bytes += dt_place_bytes(e, body->ops.at[i]->out[k]->type);
    return bytes;
}

/* Records of one entry. */
typedef DT_VEC(DtPlanSaved) Loops;

static void add_loop(DtEmit *e, Loops *loops, const DtOp *op, int64_t saved, int64_t recomputed)
{
    DtPlanStr name = dt_write_str(e->plan, op->loop->label);
    if (saved == 0 && recomputed == 0)
        return;
    for (uint32_t i = 0; i < loops->n; i++) {
        DtPlanSaved *known = &loops->at[i];
        if (known->loop == name && known->iterations == op->loop->count) {
            known->saved += saved;
            known->recomputed += recomputed;
            return;
        }
    }
    DtPlanSaved record = {.loop = name, .iterations = op->loop->count, .saved = saved,
                          .recomputed = recomputed};
    record.span = dt_finish_span(e, op->span, op->path, "loop");
    DT_PUSH(e->arena, *loops, record);
}

static void add_loops(DtEmit *e, Loops *loops, const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        int64_t saved = 0;
        if (op->kind != DT_OP_LOOP)
            continue;
        for (uint32_t k = op->loop->n_carried; !op->loop->reverse && k < op->n_out; k++)
            if (is_saved(e->module, func, op->out[k]))
                saved += dt_place_bytes(e, op->out[k]->type) / op->loop->count;
        add_loop(e, loops, op, saved, recomputed(e, op->func));
        add_loops(e, loops, op->func);
    }
}

/* Pieces of a pipeline with equally many iterations of a loop count once. The forward entry gives
 * the saved bytes, the backward entry the recomputed ones. */
static void settle(DtEmit *e, const DtPlanSaved *loop)
{
    for (uint32_t i = 0; i < e->plan->saved.n; i++) {
        DtPlanSaved *known = &e->plan->saved.at[i];
        if (known->loop != loop->loop || known->iterations != loop->iterations)
            continue;
        known->saved = loop->saved > known->saved ? loop->saved : known->saved;
        known->recomputed =
            loop->recomputed > known->recomputed ? loop->recomputed : known->recomputed;
        return;
    }
    DT_PUSH(e->plan->arena, e->plan->saved, *loop);
}

void dt_stacked_records(DtEmit *e)
{
    for (uint32_t i = 0; i < e->module->entries.n; i++) {
        Loops loops = {0};
        add_loops(e, &loops, e->module->entries.at[i].func);
        for (uint32_t k = 0; k < loops.n; k++)
            settle(e, &loops.at[k]);
    }
}
