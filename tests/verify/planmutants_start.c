/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in what goes on beside other work: nobody waits for it, or between its start and the wait something else is
 * written where it reads or writes. Ranks that run in the order of their instructions compute the same all along. */
#include "planmutants.h"

typedef struct Flight {
    uint32_t start, wait; /* instructions of one body */
} Flight;

static bool find_flight(const DtPlan *plan, uint32_t (*below)(uint64_t n), Flight *ret_flight)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < plan->n_bodies; b++) {
        const DtPlanBody *body = &plan->bodies[b];
        for (uint32_t i = body->first_inst; i < body->first_inst + body->n_insts; i++) {
            const DtPlanInst *start = &plan->insts[i];
            uint32_t wait = i + 1;
            while (wait < body->first_inst + body->n_insts &&
                   (plan->insts[wait].kind != DT_INST_WAIT || plan->insts[wait].event != start->event))
                wait++;
            if (start->kind != DT_INST_WAIT && start->event && !start->event_step &&
                wait < body->first_inst + body->n_insts && below(++n) == 0)
                *ret_flight = (Flight){i, wait};
        }
    }
    return n > 0;
}

/* The first result of an instruction between the two goes where that argument of the start is. */
static bool overwrite(const DtPlan *plan, const uint8_t *bytes, uint8_t *copy, const Flight *flight, uint32_t at,
                      uint32_t of)
{
    const DtPlanInst *start = &plan->insts[flight->start], *inst = &plan->insts[at];
    const DtPlanArg *to = &plan->args[start->first_arg + of];
    if (at <= flight->start || at >= flight->wait || of >= start->n_args)
        return false;
    for (uint32_t a = inst->first_arg; a < inst->first_arg + inst->n_args; a++) {
        DtPlanArg *arg = (DtPlanArg *)(void *)(copy + ((const uint8_t *)&plan->args[a] - bytes));
        if (arg->kind != DT_ARG_ADDRESS || !arg->written)
            continue;
        arg->arena = to->arena;
        arg->base = to->base;
        for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
            arg->reg[r] = to->reg[r];
        for (uint32_t c = 0; c < DT_PLAN_COORDS; c++)
            arg->coord[c] = to->coord[c], arg->coord_axis[c] = to->coord_axis[c];
        return true;
    }
    return false;
}

bool mutant_of_start(const DtPlan *plan, const uint8_t *bytes, uint8_t *copy, uint32_t (*below)(uint64_t n))
{
    Flight flight;
    if (!find_flight(plan, below, &flight))
        return false;
    DtPlanInst *insts = (DtPlanInst *)(void *)(copy + ((const uint8_t *)plan->insts - bytes));
    DtPlanMeta *meta = (DtPlanMeta *)(void *)(copy + ((const uint8_t *)plan->meta - bytes));
    switch (below(4)) {
    case 0: insts[flight.start].event = ++meta->events; return true; /* which nobody waits for */
    case 1: insts[flight.wait].event = ++meta->events; return true;  /* which nobody starts */
    default:
        return overwrite(plan, bytes, copy, &flight, flight.start + 1 + below(flight.wait - flight.start), below(2));
    }
}
