/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in what goes on beside other work. Ranks that run in the order of their instructions
 * compute the same all along, so that no run tells which of them count: of kind `start` all do, of
 * kind `event` planraces.py says. */
#include "planmutants.h"

#include <string.h>

static DtPlanInst *inst_at(uint32_t i) { return RECORD(insts, DtPlanInst, i); }

/* Gives instruction i an event that no other instruction uses. */
static bool apart(uint32_t i)
{
    DtPlanMeta *meta = COPY_OF(plan.meta);
    inst_at(i)->event = ++meta->events;
    inst_at(i)->event_step = 0;
    return true;
}

/* ---- starts and waits of one body ---- */

typedef struct Started {
    uint32_t start, wait;
} Started;

static bool find_started(Started *ret_started)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < plan.n_bodies; b++) {
        const DtPlanBody *body = &plan.bodies[b];
        for (uint32_t i = body->first_inst; i < body->first_inst + body->n_insts; i++) {
            const DtPlanInst *start = &plan.insts[i];
            uint32_t wait = i + 1;
            while (
                wait < body->first_inst + body->n_insts &&
                (plan.insts[wait].kind != DT_INST_WAIT || plan.insts[wait].event != start->event))
                wait++;
            if (start->kind != DT_INST_WAIT && start->event && !start->event_step &&
                wait < body->first_inst + body->n_insts && below(++n) == 0)
                *ret_started = (Started){i, wait};
        }
    }
    return n > 0;
}

/* Gives the argument the place of the other one; its length stays. slot: the number of the slot, if
 * that place is in a ring buffer. */
static void put_at(const DtPlanArg *arg, const DtPlanArg *to, int64_t slot)
{
    DtPlanArg *now = COPY_OF(arg);
    now->arena = to->arena;
    now->base = to->base;
    memcpy(now->reg, to->reg, sizeof now->reg);
    memcpy(now->coord, to->coord, sizeof now->coord);
    memcpy(now->coord_axis, to->coord_axis, sizeof now->coord_axis);
    if (slot >= 0) {
        now->base += slot * now->reg[DT_PLAN_REG_RINGBUF];
        now->reg[DT_PLAN_REG_RINGBUF] = 0;
    }
}

/* Writes the first result of an instruction between a start and its wait where that argument of the
 * start is. */
static bool overwrite(const Started *started, uint32_t at, uint32_t of)
{
    const DtPlanInst *start = &plan.insts[started->start], *inst = &plan.insts[at];
    if (at <= started->start || at >= started->wait || of >= start->n_args)
        return false;
    for (uint32_t a = inst->first_arg; a < inst->first_arg + inst->n_args; a++) {
        if (plan.args[a].kind != DT_ARG_ADDRESS || !plan.args[a].written)
            continue;
        put_at(&plan.args[a], &plan.args[start->first_arg + of], -1);
        return true;
    }
    return false;
}

/* Makes all slots of a ring the same slot. */
static bool one_slot(void)
{
    bool any = false;
    for (uint32_t i = 0; i < plan.n_args; i++) {
        const DtPlanArg *arg = &plan.args[i];
        DtPlanArg *now = COPY_OF(arg);
        any = any || (arg->kind == DT_ARG_ADDRESS && arg->reg[DT_PLAN_REG_RINGBUF]);
        if (arg->kind == DT_ARG_ADDRESS)
            now->reg[DT_PLAN_REG_RINGBUF] = 0;
    }
    return any;
}

/* ---- messages ---- */

/* Finds the end of a message that is received, and the RUN of its body, with a call after it. */
static bool find_late(uint32_t *ret_run, uint32_t *ret_call)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan.n_schedule; i++) {
        const DtPlanSchedule *item = &plan.schedule[i];
        const DtPlanBody *body = &plan.bodies[item->kind == DT_SCHED_RUN ? item->body : 0];
        bool receives = false;
        for (uint32_t k = 0; item->kind == DT_SCHED_RUN && k < body->n_insts; k++)
            for (uint32_t s = 0;
                 plan.insts[body->first_inst + k].kind == DT_INST_WAIT && s < plan.n_insts; s++)
                receives =
                    receives || (plan.insts[s].kind == DT_INST_RECV && plan.insts[s].event &&
                                 plan.insts[s].event == plan.insts[body->first_inst + k].event);
        uint32_t call = i + 1;
        while (receives && call < plan.n_schedule && plan.schedule[call].kind == DT_SCHED_SET)
            call++;
        if (receives && call < plan.n_schedule && plan.schedule[call].kind == DT_SCHED_CALL &&
            below(++n) == 0)
            *ret_run = i, *ret_call = call;
    }
    return n > 0;
}

/* Moves the wait for a message after the piece that comes next, which mostly reads it. */
static bool wait_late(void)
{
    uint32_t run = 0, call = 0;
    if (!find_late(&run, &call))
        return false;
    const DtPlanSchedule item = plan.schedule[run];
    memmove(RECORD(schedule, DtPlanSchedule, run), &plan.schedule[run + 1],
            (call - run) * sizeof item);
    *RECORD(schedule, DtPlanSchedule, call) = item;
    return true;
}

/* Finds a message that is started; or (ends) an instruction that waits for one. */
static bool find_message(bool ends, uint32_t *ret_inst)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan.n_insts; i++) {
        const DtPlanInst *inst = &plan.insts[i];
        if (!inst->event || (inst->kind != DT_INST_SEND && inst->kind != DT_INST_RECV))
            continue;
        for (uint32_t k = 0; k < plan.n_insts; k++)
            if ((ends ? plan.insts[k].kind == DT_INST_WAIT && plan.insts[k].event == inst->event
                      : k == i) &&
                below(++n) == 0)
                *ret_inst = k;
    }
    return n > 0;
}

static bool message(void)
{
    uint32_t at = 0;
    if (below(2))
        return find_message(false, &at) && apart(at); /* nobody waits for the message */
    return find_message(true, &at) && apart(at);      /* nobody starts the message */
}

bool mutant_start(void)
{
    Started started = {0};
    if (plan.n_channels && below(2))
        return message();
    if (below(8) == 0)
        return one_slot();
    if (!find_started(&started))
        return false;
    switch (below(4)) {
    case 0: return apart(started.start); /* nobody waits for it */
    case 1: return apart(started.wait);  /* nobody starts it */
    default:
        return overwrite(&started, started.start + 1 + below(started.wait - started.start),
                         below(2));
    }
}

/* ---- any event, in any slot, and what anybody does meanwhile ---- */

/* Finds a random instruction with an event, more often one of a ring buffer's slot; if `starts`,
 * one that starts an operation. */
static bool any_event(bool starts, uint32_t *ret_inst)
{
        const uint32_t from = below(plan.n_insts);
    const bool ring = below(3) != 0;
    for (uint32_t pass = ring ? 0 : 1; pass < 2; pass++)
        for (uint32_t i = 0; i < plan.n_insts; i++) {
            const uint32_t at = (from + i) % plan.n_insts;
            const DtPlanInst *inst = &plan.insts[at];
            if (!inst->event || (starts && inst->kind == DT_INST_WAIT) ||
                (pass == 0 && !inst->event_step))
                continue;
            *ret_inst = at;
            return true;
        }
    return false;
}

static bool other_event(uint32_t i)
{
    DtPlanInst *inst = inst_at(i);
    const uint32_t old = inst->event, step = inst->event_step;
    if (below(2))
        inst->event = 1 + below(plan.meta->events);
    else
        inst->event_step = below(4);
    return inst->event != old || inst->event_step != step;
}

/* Gives some argument of some instruction a place that a start reads or writes. */
static bool meet(void)
{
        uint32_t start;
    const DtPlanInst *inst = &plan.insts[below(plan.n_insts)];
    if (!any_event(true, &start) || inst->n_args == 0)
        return false;
    const DtPlanInst *started = &plan.insts[start];
    const DtPlanArg
        *arg = &plan.args[inst->first_arg + below(inst->n_args)],
        *to = &plan.args[started->first_arg + (arg->written ? below(started->n_args) : 0)];
    if (arg->kind != DT_ARG_ADDRESS || to->kind != DT_ARG_ADDRESS || arg == to)
        return false;
    put_at(arg, to, to->reg[DT_PLAN_REG_RINGBUF] && below(2) ? (int64_t)below(3) : -1);
    return true;
}

/* Moves a wait to another place: before any instruction of any body. A wait has no note that would
 * have to move as well. */
static bool move_wait(uint32_t wait)
{
        const uint32_t to = below(plan.n_insts);
    const DtPlanBody *from_body = body_of(wait), *to_body = body_of(to);
    if (plan.insts[wait].kind != DT_INST_WAIT || !from_body || !to_body || from_body->n_insts < 2 ||
        (from_body != to_body && below(4)))
        return false;
    if (to < wait)
        memmove(inst_at(to + 1), &plan.insts[to], (wait - to) * sizeof(DtPlanInst));
    else
        memmove(inst_at(wait), &plan.insts[wait + 1], (to - wait) * sizeof(DtPlanInst));
    *inst_at(to) = plan.insts[wait];
    for (uint32_t b = 0; b < plan.n_bodies && from_body != to_body; b++) {
        const DtPlanBody *old = &plan.bodies[b];
        DtPlanBody *now = COPY_OF(old);
        now->n_insts += (old == to_body) - (old == from_body);
        if (to < wait && old->first_inst > to && old->first_inst <= wait)
            now->first_inst++;
        else if (to > wait && old->first_inst > wait && old->first_inst <= to)
            now->first_inst--;
    }
    return true;
}

/* Uses the slots of a ring in another order. */
static bool turn_otherwise(void)
{
    const DtPlanSchedule *item = &plan.schedule[below(plan.n_schedule)];
    DtPlanSchedule *now = COPY_OF(item);
    if (item->kind != DT_SCHED_SET || item->reg != DT_PLAN_REG_RINGBUF)
        return false;
    switch (below(3)) {
    case 0: now->first = (int32_t)below(5); break;
    case 1: now->step = (int32_t)below(3); break;
    default: now->count = 1 + (int32_t)below(4);
    }
    return memcmp(now, item, sizeof *now) != 0;
}

bool mutant_event(void)
{
    uint32_t at;
    if (plan.n_channels && below(4) == 0)
        return wait_late();
    if (!any_event(false, &at))
        return false;
    switch (below(8)) {
    case 0: return apart(at);
    case 1: return other_event(at);
    case 2: return turn_otherwise();
    case 3: return move_wait(at);
    default: return meet();
    }
}
