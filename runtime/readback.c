/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/readback.h"

#include "runtime/device.h"

#include <string.h>

typedef struct Link {
    uint32_t metric, next; /* links of lists. next: 1 + number of the next link of the same
                            * instruction; 0: none */
} Link;

struct DtReadback {
    uint32_t *first; /* by instruction: its first link, like `next` */
    DT_VEC(Link) links;
    bool noted[DT_DEVICE_CELLS]; /* by metric: the cell that has its value from this run of its
                                  * entry, or the last one */
};

/* Whether the instruction may write the scalar. An address that depends on a register may be
 * anywhere in its arena. */
static bool may_write(const DtRank *rank, uint32_t inst, const DtPlanMetric *metric)
{
    const DtPlan *plan = rank->plan;
    const DtPlanInst *of = &plan->insts[inst];
    for (uint32_t i = 0; i < of->n_args; i++) {
        const DtPlanArg *arg = &plan->args[of->first_arg + i];
        bool moves = false;
        if (arg->kind != DT_ARG_ADDRESS || !arg->written || arg->arena != metric->arena)
            continue;
        for (int r = 0; r < DT_PLAN_ARG_REGS; r++)
            moves = moves || arg->reg[r] != 0;
        const int64_t begin = rank->arg_base[of->first_arg + i];
        if (moves ||
            (begin < metric->offset + metric->bytes && metric->offset < begin + arg->bytes))
            return true;
    }
    return false;
}

static void add_link(DtRank *rank, uint32_t inst, uint32_t metric)
{
    struct DtReadback *early = rank->readback;
    const Link link = {metric, early->first[inst]};
    DT_PUSH(rank->memory, early->links, link);
    early->first[inst] = early->links.n;
}

/* Records that the scalar is to be read back after the instruction that writes it or, if that one
 * is only started, after the instruction that waits for it. Events of a ring have numbers that
 * depend on its position. */
static void link_writer(DtRank *rank, uint32_t inst, uint32_t metric)
{
    const DtPlan *plan = rank->plan;
    const DtPlanInst *of = &plan->insts[inst];
    add_link(rank, inst, metric);
    for (uint32_t i = 0; of->event && i < plan->n_insts; i++) {
        const DtPlanInst *wait = &plan->insts[i];
        if (wait->kind == DT_INST_WAIT &&
            (wait->event == of->event || wait->event_step || of->event_step))
            add_link(rank, i, metric);
    }
}

static bool is_scalar(const DtPlanMetric *metric)
{
    return metric->n_axes == 0 && metric->bytes <= 8;
}

void dt_readback_open(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    if (!rank->device_ops->note || plan->n_metrics == 0)
        return;
    rank->readback = DT_NEW(rank->memory, struct DtReadback);
    rank->readback->first = DT_NEW_ARRAY(rank->memory, uint32_t, plan->n_insts + 1);
    for (uint32_t m = 0; m < plan->n_metrics && m < DT_DEVICE_CELLS; m++)
        for (uint32_t i = 0; i < plan->n_insts && is_scalar(&plan->metrics[m]); i++)
            if (may_write(rank, i, &plan->metrics[m]))
                link_writer(rank, i, m);
}

bool dt_readback_has(const DtRank *rank, uint32_t inst)
{
    return rank->readback && rank->readback->first[inst] != 0;
}

void dt_readback_note(DtRank *rank, uint32_t inst)
{
    struct DtReadback *early = rank->readback;
    for (uint32_t l = early ? early->first[inst] : 0; l; l = early->links.at[l - 1].next) {
        const uint32_t m = early->links.at[l - 1].metric;
        const DtPlanMetric *metric = &rank->plan->metrics[m];
        const DtPlaceAt place = dt_device_place(rank, metric->arena, metric->offset, metric->bytes);
        rank->device_ops->note(rank->device, m, place.at, metric->bytes);
        early->noted[m] = true;
    }
}

void dt_readback_begin(DtRank *rank, const char *entry)
{
    for (uint32_t m = 0; rank->readback && m < rank->plan->n_metrics && m < DT_DEVICE_CELLS; m++)
        if (strcmp(dt_plan_str(rank->plan, rank->plan->metrics[m].entry), entry) == 0)
            rank->readback->noted[m] = false;
}

bool dt_readback_get(const DtRank *rank, const DtPlanMetric *metric, void *to, int64_t bytes)
{
    const size_t m = (size_t)(metric - rank->plan->metrics);
    if (!rank->readback || m >= DT_DEVICE_CELLS || !rank->readback->noted[m] ||
        bytes > metric->bytes)
        return false;
    rank->device_ops->noted(rank->device, (uint32_t)m, to, bytes);
    return true;
}
