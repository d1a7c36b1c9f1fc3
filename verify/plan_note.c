/* SPDX-License-Identifier: Apache-2.0 */
/* Reads notes, word by word and layouts of values, and reports why a plan is not proved, and
 * where. */
#include "verify/plan_internal.h"

#include "base/intern.h"
#include "plan/kinds.h"

#include <stdarg.h>

/* Appends, for example, "iteration 3 of `h`, micro-batch 2". */
void dt_certplan_say_frame(const PlanFrame *frame, DtText *text)
{
    for (; frame; frame = frame->outer) {
        if (frame->kind == PLAN_BODY)
            dt_text_printf(text, ", iteration %lld of `%s`", (long long)frame->number,
                           frame->op->loop->label ? frame->op->loop->label : "loop");
        else if (frame->kind == PLAN_ENTRY && frame->number > 0)
            dt_text_printf(text, ", micro-batch %lld", (long long)frame->number);
    }
}

bool dt_certplan_fail(PlanWalk *walk, const char *format, ...)
{
    va_list args;
    if (walk->problem->len)
        return false;
    const DtPlan *plan = walk->plan;
    if (walk->at_entry)
        dt_text_printf(walk->problem, "entry %s", dt_plan_str(plan, walk->at_entry->name));
    else
        dt_text_add(walk->problem, "plan");
    /* all stores of a class have the name of the first stage's */
    if (plan->meta->pipeline && walk->stage < dt_plan_stages(plan))
        dt_text_printf(walk->problem, " of stage %u", walk->stage);
    if (walk->inst) {
        const DtPlanSpan *span = plan->n_spans ? &plan->spans[walk->inst->span] : NULL;
        dt_text_printf(walk->problem, ", INST %u", (uint32_t)(walk->inst - plan->insts));
        if (span && span->line)
            dt_text_printf(walk->problem, " (%s line %u)", dt_plan_str(plan, span->text),
                           span->line);
    }
    dt_certplan_say_frame(walk->frame, walk->problem);
    dt_text_add(walk->problem, ": ");
    va_start(args, format);
    dt_text_vprintf(walk->problem, format, args);
    va_end(args);
    return false;
}

/* ---- notes ---- */

uint64_t dt_certplan_word(PlanWalk *walk)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (walk->note == walk->end) {
            dt_certplan_fail(walk, "the notes end");
            return 0;
        }
        uint8_t byte = *walk->note++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    dt_certplan_fail(walk, "a note is too large");
    return 0;
}

uint32_t dt_certplan_number(PlanWalk *walk)
{
    const uint64_t value = dt_certplan_word(walk);
    if (value > UINT32_MAX)
        dt_certplan_fail(walk, "a note has %llu where a number of 32 bits is",
                         (unsigned long long)value);
    return value > UINT32_MAX ? 0 : (uint32_t)value;
}

int64_t dt_certplan_signed(PlanWalk *walk)
{
    uint64_t value = dt_certplan_word(walk);
    return value & 1 ? (int64_t) ~(value >> 1) : (int64_t)(value >> 1);
}

bool dt_certplan_strides(PlanWalk *walk, const CertType *type, uint32_t flags, PlanPlace *place)
{
    for (uint32_t i = 0; flags & DT_NOTE_STRIDES && i < type->rank; i++) {
        /* All axes together span less than PLAN_BYTES elements of one rank, so no product of a
         * stride and an extent overflows. */
        const int64_t most = PLAN_BYTES / CERT_RANK / dt_certplan_local(walk, type, i);
        const uint64_t stride = dt_certplan_word(walk);
        if (stride > (uint64_t)most)
            return dt_certplan_fail(walk, "axis `%s` has a stride of %llu elements, above %lld",
                                    type->axes[i].name, (unsigned long long)stride,
                                    (long long)most);
        place->stride[i] = (int64_t)stride;
    }
    return true;
}

bool dt_certplan_layout(PlanWalk *walk, const CertType *type, uint32_t flags, PlanPlace *place)
{
    if (!dt_certplan_strides(walk, type, flags, place))
        return false;
    if (flags & DT_NOTE_DTYPE) {
        const char *dtype = dt_kinds_name(dt_certplan_number(walk));
        if (!dtype || !dt_certstep_is_wider(dtype, type->dtype))
            return dt_certplan_fail(walk, "a value of dtype %s lies as %s", type->dtype,
                                    dtype ? dtype : "none");
        place->dtype = dt_intern(dtype);
        place->size = dt_certplan_size(dtype);
    }
    return dt_certplan_spans(place) || dt_certplan_fail(walk, "elements of a value coincide");
}
