/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the schedule of a plan as indented text: what runs, in which order, how often, and from
 * which line. */
#include "plan/report/report.h"

#include "plan/kinds.h"

#include <string.h>

static void indent(DtText *text, uint32_t depth)
{
    for (uint32_t i = 0; i <= depth; i++)
        dt_text_add(text, "  ");
}

/* Prints an instruction and its work: the kernel's name, the product's shape, or the collective's
 * mesh axes. */
static void print_inst(const DtPlan *plan, const DtPlanInst *inst, DtText *text)
{
    dt_text_add(text, dt_kinds_inst(inst->kind));
    if (inst->event)
        dt_text_printf(text, inst->kind == DT_INST_WAIT ? " for event %u" : " started as event %u",
                       inst->event - 1);
    if (inst->event_step)
        dt_text_printf(text, " + %u r%u", inst->event_step, DT_PLAN_REG_RINGBUF);
    if (inst->kind == DT_INST_KERNEL) {
        dt_text_printf(text, " %s", dt_plan_str(plan, plan->kernels[inst->ref].name));
    } else if (inst->kind == DT_INST_GEMM) {
        const DtPlanGemm *g = &plan->gemms[inst->ref];
        dt_text_add(text, " ");
        for (uint32_t i = 0; i < g->n_batch; i++)
            dt_text_printf(text, "%lld x ", (long long)g->batch[i]);
        dt_text_printf(text, "[%lld, %lld] @ [%lld, %lld]%s", (long long)g->m, (long long)g->k,
                       (long long)g->k, (long long)g->n, g->accumulate ? ", added" : "");
    } else if ((inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV) &&
               inst->ref < plan->n_channels) {
        const DtPlanChannel *c = &plan->channels[inst->ref];
        dt_text_printf(text, " %s, stage %u to %u, %lld elements", dt_plan_str(plan, c->name),
                       c->from, c->to, (long long)inst->count);
    } else if (dt_report_is_collective(inst) && inst->ref < plan->n_groups) {
        for (uint32_t i = 0; i < plan->n_mesh; i++)
            if (plan->groups[inst->ref].mask >> i & 1)
                dt_text_printf(text, " %s", dt_plan_str(plan, plan->mesh[i].name));
        dt_text_printf(text, ", %lld elements", (long long)inst->count);
    }
    if (inst->span < plan->n_spans && plan->spans[inst->span].line)
        dt_text_printf(text, "    # %s:%u%s%s", dt_plan_str(plan, plan->spans[inst->span].file),
                       plan->spans[inst->span].line, plan->spans[inst->span].path ? " " : "",
                       dt_plan_str(plan, plan->spans[inst->span].path));
    dt_text_add(text, "\n");
}

static void print_body(const DtPlan *plan, const DtPlanBody *body, uint32_t depth, DtText *text)
{
    for (uint32_t i = 0; i < body->n_insts; i++) {
        indent(text, depth);
        print_inst(plan, &plan->insts[body->first_inst + i], text);
    }
}

/* Prints a SET, for example "r5 = (r7 + 3) mod 4". */
static void print_set(const DtPlanSchedule *s, DtText *text)
{
    dt_text_printf(text, "r%u = %s", s->reg, s->count ? "(" : "");
    if (s->step != 0 && s->step != 1)
        dt_text_printf(text, "%lld ", (long long)s->step);
    if (s->step != 0)
        dt_text_printf(text, "r%u", s->body);
    if (s->plus != 0)
        dt_text_printf(text, s->step ? " + r%u" : "r%u", s->plus);
    if (s->first != 0 || (s->step == 0 && s->plus == 0))
        dt_text_printf(text, s->step || s->plus ? " + %lld" : "%lld", (long long)s->first);
    if (s->count)
        dt_text_printf(text, ") mod %lld", (long long)s->count);
    dt_text_add(text, "\n");
}

static void print_entry(const DtPlan *plan, const DtPlanEntry *entry, DtText *text)
{
    uint32_t depth = 0, n_when = 0, behind[2]; /* behind: the item after the WHEN's last one */
    dt_text_printf(text, "%s", dt_plan_str(plan, entry->name));
    if (dt_plan_stages(plan) > 1 && entry->stage >= 0)
        dt_text_printf(text, ", stage %d", entry->stage);
    dt_text_add(text, "\n");
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanSchedule *s = &plan->schedule[i];
        for (; n_when && i == behind[n_when - 1]; n_when--)
            depth--;
        if (s->kind == DT_SCHED_RUN) {
            print_body(plan, &plan->bodies[s->body], depth, text);
        } else if (s->kind == DT_SCHED_CALL) {
            indent(text, depth);
            dt_text_printf(text, "%s\n", dt_plan_str(plan, plan->entries[s->body].name));
        } else if (s->kind == DT_SCHED_SET) {
            indent(text, depth);
            print_set(s, text);
        } else if (s->kind == DT_SCHED_WHEN && n_when < 2) {
            indent(text, depth++);
            dt_text_printf(text, "if %d <= r%u < %lld:\n", s->first, s->reg,
                           (long long)s->first + s->count);
            behind[n_when++] = i + 1 + s->body;
        } else if (s->kind == DT_SCHED_LOOP) {
            indent(text, depth++);
            dt_text_printf(text, "%lld times: r%u = %lld, %lld, ...\n", (long long)s->count, s->reg,
                           (long long)s->first, (long long)(s->first + s->step));
        } else if (depth) {
            depth--;
        }
    }
}

void dt_report_schedule(const DtPlan *plan, DtText *ret_text)
{
    for (uint32_t i = 0; i < plan->n_entries; i++)
        print_entry(plan, &plan->entries[i], ret_text);
}
