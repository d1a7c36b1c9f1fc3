/* SPDX-License-Identifier: Apache-2.0 */
/* Checks frames (frame.h): ranges end within their frame, and ranges that are live at the same
 * time do not overlap. */
#include "ir/frame.h"
#include "ir/verify_internal.h"

static const char *name_of(const DtFrameRange *range)
{
    return range->op ? range->op->func->name : range->value->name ? range->value->name : "-";
}

static DtSpan span_of(const DtFrameRange *range)
{
    return range->op ? range->op->span : range->value->op->span;
}

static bool meet(const DtFrameRange *a, const DtFrameRange *b)
{
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void check_frame(DtVerify *v, const DtFunc *func)
{
    DtArena *arena = dt_arena_child(v->scratch);
    const DtFrameRanges ranges = dt_frame_ranges(func, arena);
    for (uint32_t i = 0; i < ranges.n; i++) {
        const DtFrameRange *range = &ranges.at[i];
        if (range->offset < 0 || range->offset % DT_FRAME_ALIGN ||
            range->bytes > func->frame - range->offset)
            dt_verify_fail(v, span_of(range), "`%s` lies at %lld in a frame of %lld bytes",
                           name_of(range), (long long)range->offset, (long long)func->frame);
        for (uint32_t k = 0; k < i; k++)
            if (meet(range, &ranges.at[k]))
                dt_verify_fail(v, span_of(range), "`%s` lies where `%s` is in use", name_of(range),
                               name_of(&ranges.at[k]));
    }
    dt_arena_free(arena);
}

/* Whether the function has a value with memory in a frame, or calls one that has no frame of its
 * own and has such a value. */
static bool has_place(const DtFunc *func)
{
    bool has = false;
    for (uint32_t i = 0; i < func->ops.n && !has; i++) {
        const DtOp *op = func->ops.at[i];
        has = op->kind == DT_OP_CALL && dt_frame_has(op) && !op->func->frame && has_place(op->func);
        for (uint32_t k = 0; k < op->n_out; k++)
            has = has || op->out[k]->at;
    }
    return has;
}

/* Whether some op calls the function, so that it may run in the frame of its caller or in its
 * own. */
static bool is_called(const DtModule *module, const DtFunc *func)
{
    for (uint32_t f = 0; f < module->funcs.n; f++)
        for (uint32_t i = 0; i < module->funcs.at[f]->ops.n; i++)
            if (module->funcs.at[f]->ops.at[i]->kind == DT_OP_CALL &&
                module->funcs.at[f]->ops.at[i]->func == func)
                return true;
    return false;
}

void dt_verify_frames(DtVerify *v)
{
    for (uint32_t i = 0; i < v->module->funcs.n; i++) {
        v->func = v->module->funcs.at[i];
        if (v->func->frame)
            check_frame(v, v->func);
        else if (has_place(v->func) && !is_called(v->module, v->func))
            dt_verify_fail(v, v->func->span, "values lie in a frame that it does not have");
    }
    v->func = NULL;
}
