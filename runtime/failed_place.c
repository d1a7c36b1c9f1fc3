/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank failed, in words: the step, the instruction, and the line of the model. */
#include "runtime/failed_place.h"

#include "runtime/position.h"

#include <string.h>

static const char *const inst_names[DT_INST_KINDS] = {
    [DT_INST_KERNEL] = "kernel",
    [DT_INST_GEMM] = "matrix product",
    [DT_INST_COPY] = "copy",
    [DT_INST_ZERO] = "zero",
    [DT_INST_READ] = "read of data",
    [DT_INST_ALL_REDUCE] = "all-reduce",
    [DT_INST_ALL_GATHER] = "all-gather",
    [DT_INST_REDUCE_SCATTER] = "reduce-scatter",
    [DT_INST_ALL_TO_ALL] = "all-to-all",
    [DT_INST_SHIFT] = "shift",
    [DT_INST_SHIFT_BACK] = "shift back",
    [DT_INST_SEND] = "send",
    [DT_INST_RECV] = "receive",
    [DT_INST_WAIT] = "wait"};

/* Adds `before`, then a string of the plan, which may contain any bytes. */
static void add_name(DtText *text, const char *before, const DtPlan *plan, DtPlanStr name)
{
    const char *string = dt_plan_str(plan, name);
    dt_text_add(text, before);
    dt_text_add_escaped(text, string, strlen(string), false);
}

static void add_instruction(DtText *text, const DtPlan *plan, uint32_t index)
{
    const DtPlanInst *inst = &plan->insts[index];
    dt_text_printf(text, ", instruction %u (%s", index,
                   inst->kind < DT_INST_KINDS ? inst_names[inst->kind] : "unknown");
    if (inst->kind == DT_INST_KERNEL && inst->ref < plan->n_kernels) {
        add_name(text, " `", plan, plan->kernels[inst->ref].name);
        dt_text_add(text, "`");
    }
    if ((inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV) &&
        inst->ref < plan->n_channels) {
        add_name(text, " `", plan, plan->channels[inst->ref].name);
        dt_text_printf(text, "`, stage %u to %u", plan->channels[inst->ref].from,
                       plan->channels[inst->ref].to);
    }
    dt_text_add(text, ")");
    if (inst->span >= plan->n_spans)
        return;
    const DtPlanSpan *span = &plan->spans[inst->span];
    if (span->line > 0) {
        add_name(text, "\n  ", plan, span->file);
        dt_text_printf(text, ":%u:%u", span->line, span->column);
        add_name(text, ": ", plan, span->text);
    }
    if (*dt_plan_str(plan, span->path)) {
        add_name(text, "  [", plan, span->path);
        dt_text_add(text, "]");
    }
}

/* Returns the instruction at which the rank is; or that of its device, if the rank waits for its
 * device and not for another rank. */
static DtPositionAt find_place(const DtPlan *plan, const DtSlot *slot, bool is_watched)
{
    DtPositionAt marked;
    if (is_watched && !dt_shared_waits(slot) && dt_position_read(plan, slot, &marked))
        return marked;
    return (DtPositionAt){.inst = atomic_load(&slot->inst), .n_insts = 1,
                          .step = atomic_load(&slot->step)};
}

void dt_failedplace_add(DtText *text, const DtPlan *plan, const DtSlot *slot, bool predicts,
                        bool is_watched)
{
    const DtPositionAt at = find_place(plan, slot, is_watched);
    long long step = (long long)at.step + 1; /* counted from 1, as progress lines and the log do */
    const uint32_t phase = atomic_load(&slot->phase);
    const bool by_data = atomic_load(&slot->by_data) != 0;
    const bool has_begun = atomic_load(&slot->began_ns) != 0;
    if (by_data && (!has_begun || predicts))
        return;
    if (phase == DT_PHASE_NONE)
        dt_text_add(text, "before it had loaded the plan");
    else if (phase == DT_PHASE_LOADING)
        dt_text_add(text, "while it loaded the plan");
    else if (phase == DT_PHASE_SAVING)
        dt_text_printf(text, "while it saved after step %lld", step);
    else if (phase == DT_PHASE_EVAL)
        dt_text_add(text, "in an evaluation");
    else if (!has_begun) /* the rank has run no instruction yet: while it was loading it may have
                          * waited for others */
        dt_text_add(text, "before its first step");
    else
        dt_text_printf(text, "in step %lld", step);
    if (at.inst >= plan->n_insts || by_data)
        return;
    if (at.n_insts > 1)
        dt_text_printf(text, ", in one of %u instructions from this one on", at.n_insts);
    add_instruction(text, plan, at.inst);
}
