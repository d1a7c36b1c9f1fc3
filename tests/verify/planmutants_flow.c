/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of planmutants in schedules, in slots and rings, and in where values are stored while
 * these run. */
#include "planmutants.h"

#include <string.h>

bool mutant_slot(void)
{
    if (below(2)) {
        DtPlanArg *arg = any_arg(DT_ARG_ADDRESS);
        uint32_t r = DT_PLAN_REG_SLOTS + below(DT_PLAN_N_SLOTS);
        return arg && arg->reg[r] && change(&arg->reg[r]);
    }
    DtPlanSchedule *item = RECORD(schedule, DtPlanSchedule, below(plan.n_schedule));
    if (item->kind != DT_SCHED_SET)
        return false;
    if (item->count > 1 && below(2))
        item->count--;
    else
        item->first += below(2) ? 1 : -1;
    return true;
}

/* Returns the LOOP that contains an item; 0: none. */
static uint32_t loop_of(uint32_t item)
{
    for (uint32_t depth = 0; item > 0; item--) {
        uint32_t kind = plan.schedule[item - 1].kind;
        if (kind == DT_SCHED_LOOP && depth-- == 0)
            return item - 1;
        depth += kind == DT_SCHED_END;
    }
    return 0;
}

bool same_place(const DtPlanArg *a, const DtPlanArg *b)
{
    return a->kind == DT_ARG_ADDRESS && a->arena == b->arena && a->base == b->base &&
           memcmp(a->reg, b->reg, sizeof a->reg) == 0;
}

/* Returns the first RUN after an item, or the last item. */
static uint32_t run_behind(uint32_t at)
{
    do
        at++;
    while (at + 1 < plan.n_schedule && plan.schedule[at].kind != DT_SCHED_RUN);
    return at < plan.n_schedule ? at : plan.n_schedule - 1;
}

static uint32_t end_of(uint32_t loop)
{
    uint32_t depth = 0, at = loop;
    do
        depth +=
            (plan.schedule[at].kind == DT_SCHED_LOOP) - (plan.schedule[at].kind == DT_SCHED_END);
    while (depth && ++at < plan.n_schedule);
    return at;
}

/* A value that an instruction of a micro-batch makes is in slots throughout: it is written there,
 * and read there. to: argument of a gather. */
static bool squat(uint32_t guard, const DtPlanArg *to)
{
    uint32_t begin = loop_of(guard), end = end_of(begin),
             at = run_behind(begin + below(end - begin));
    if (plan.schedule[at].kind != DT_SCHED_RUN)
        return false;
    const DtPlanBody *body = &plan.bodies[plan.schedule[at].body];
    const DtPlanInst *inst = &plan.insts[body->first_inst + below(body->n_insts)];
    const DtPlanArg *arg = &plan.args[inst->first_arg], old = *arg;
    if (plan.schedule[begin].reg != 0 || at >= end || inst->n_args == 0 ||
        arg->kind != DT_ARG_ADDRESS || !arg->written || arg->arena != to->arena ||
        arg->reg[DT_PLAN_REG_RINGBUF])
        return false;
    for (uint32_t i = begin; i < end; i++) {
        const DtPlanBody *each = &plan.bodies[plan.schedule[i].body];
        for (uint32_t k = 0; plan.schedule[i].kind == DT_SCHED_RUN && k < each->n_insts; k++) {
            const DtPlanInst *of = &plan.insts[each->first_inst + k];
            for (uint32_t a = of->first_arg; a < of->first_arg + of->n_args; a++)
                if (same_place(&plan.args[a], &old))
                    RECORD(args, DtPlanArg, a)->base = to->base;
        }
    }
    return true;
}

/* The same piece finds another value in the ring, or leaves another one there. */
static bool call_other(DtPlanSchedule *item)
{
    uint32_t other = below(plan.n_entries);
    const char *name = dt_plan_str(&plan, plan.entries[item->body].name);
    size_t len = strcspn(name, ".");
    len += name[len] ? 1 + strcspn(name + len + 1, ".") : 0;
    if (other == item->body || plan.entries[other].stage != plan.entries[item->body].stage ||
        strncmp(name, dt_plan_str(&plan, plan.entries[other].name), len) != 0)
        return false;
    item->body = other;
    return true;
}

/* Changes what loops gather ahead: the slots, their number, the iterations and micro-batches in
 * which it is gathered, the iterations and the loop for which it is; the piece of a pipeline that
 * gathers it. */
bool mutant_ring(void)
{
    uint32_t at = below(plan.n_schedule);
    DtPlanSchedule *item = RECORD(schedule, DtPlanSchedule, at);
    if (item->kind == DT_SCHED_CALL)
        return call_other(item);
    if (item->kind == DT_SCHED_SET && item->reg == DT_PLAN_REG_RINGBUF && below(4) == 0)
        switch (below(3)) {
        case 0: return --item->count > 0;
        case 1: item->first += below(2) ? 1 : -1; return true;
        default: item->step = !item->step; return true;
        }
    if (item->kind != DT_SCHED_WHEN)
        return false;
    const DtPlanSchedule *run = &plan.schedule[run_behind(at)],
                         *other = &plan.schedule[below(plan.n_schedule)];
    if (run->kind != DT_SCHED_RUN)
        return false;
    const DtPlanBody *body = &plan.bodies[run->body];
    const DtPlanInst *inst = &plan.insts[body->first_inst + below(body->n_insts)];
    DtPlanArg *to = RECORD(args, DtPlanArg, inst->first_arg), *from = to + 1;
    switch (below(8)) {
    case 0: item->first += below(2) ? 1 : -1; return true;
    case 1: return item->count -= below(2) ? 1 : -1, item->count > 0;
    case 2: return item->body -= below(2) ? 1 : -1u, item->body > 0;
    case 3: return change(&to->reg[DT_PLAN_REG_RINGBUF]);
    case 4: from->base += from->bytes * (below(2) ? 1 : -1); return true;
    case 5: return change(&from->reg[1]);
    case 6: return squat(at, to);
    default:
        if (other->kind != DT_SCHED_WHEN)
            return false;
        other = &plan.schedule[run_behind((uint32_t)(other - plan.schedule))];
        RECORD(schedule, DtPlanSchedule, run - plan.schedule)->body = other->body;
        return other->kind == DT_SCHED_RUN && other->body != run->body;
    }
}

bool mutant_loop(void)
{
    DtPlanSchedule *item = RECORD(schedule, DtPlanSchedule, below(plan.n_schedule));
    if (item->kind != DT_SCHED_LOOP || item->count < 2)
        return false;
    if (below(2))
        item->count--;
    else
        item->first += item->step, item->count--;
    return true;
}

bool mutant_actions(void)
{
    uint32_t at = below(plan.n_schedule - 1);
    DtPlanSchedule *item = RECORD(schedule, DtPlanSchedule, at), kept = item[0];
    if (item[0].kind == DT_SCHED_LOOP || item[0].kind == DT_SCHED_END ||
        item[1].kind == DT_SCHED_LOOP || item[1].kind == DT_SCHED_END ||
        memcmp(&item[0], &item[1], sizeof kept) == 0)
        return false;
    item[0] = item[1];
    item[1] = kept;
    return true;
}

bool mutant_channel(void)
{
    if (!plan.n_channels)
        return false;
    DtPlanChannel *at = RECORD(channels, DtPlanChannel, below(plan.n_channels));
    if (at->slots > 1 && below(2))
        at->slots--;
    else
        at->to = (at->to + 1) % dt_plan_stages(&plan);
    return true;
}

static bool is_message(const DtPlanInst *inst)
{
    return inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV || inst->kind == DT_INST_WAIT;
}

/* Whether the item runs nothing but messages. */
static bool runs_messages(const DtPlanSchedule *item)
{
    const DtPlanBody *body = &plan.bodies[item->body];
    bool all = item->kind == DT_SCHED_RUN && body->n_insts > 0;
    for (uint32_t i = 0; all && i < body->n_insts; i++)
        all = is_message(&plan.insts[body->first_inst + i]);
    return all;
}

/* Exchanges the messages of two items; what is between them stays. */
static bool exchange_messages(void)
{
    const uint32_t at = below(plan.n_schedule);
    uint32_t other = at + 1;
    while (other < plan.n_schedule && plan.schedule[other].kind != DT_SCHED_LOOP &&
           plan.schedule[other].kind != DT_SCHED_END && !runs_messages(&plan.schedule[other]))
        other++;
    if (other >= plan.n_schedule || !runs_messages(&plan.schedule[at]) ||
        !runs_messages(&plan.schedule[other]) ||
        plan.schedule[at].body == plan.schedule[other].body)
        return false;
    RECORD(schedule, DtPlanSchedule, at)->body = plan.schedule[other].body;
    RECORD(schedule, DtPlanSchedule, other)->body = plan.schedule[at].body;
    return true;
}

/* Changes the order in which a stage begins messages and waits for what it began; or whether
 * messages need room in channels. */
bool mutant_message(void)
{
    DtPlanInst *inst = any_inst(DT_INST_SEND, DT_INST_RECV);
    if (!inst || below(3) == 0)
        return inst && exchange_messages();
    if (below(8) == 0) {
        DtPlanChannel *channel = RECORD(channels, DtPlanChannel, below(plan.n_channels));
        channel->direct = !channel->direct;
        return true;
    }
    const uint32_t at = (uint32_t)(inst - RECORD(insts, DtPlanInst, 0));
    const DtPlanBody *body = body_of(at);
    if (!body || at + 1 >= body->first_inst + body->n_insts || !is_message(&plan.insts[at + 1]))
        return false;
    inst[0] = plan.insts[at + 1];
    inst[1] = plan.insts[at];
    return true;
}

bool mutant_entry(void)
{
    uint32_t a = below(plan.n_entries), b = below(plan.n_entries);
    DtPlanEntry *record = RECORD(entries, DtPlanEntry, a);
    if (plan.entries[a].first == plan.entries[b].first)
        return false;
    record->first = plan.entries[b].first;
    record->count = plan.entries[b].count;
    if (below(2)) /* together with their notes */
        *RECORD(notes, DtPlanNote, a) = plan.notes[b];
    return true;
}

/* An instruction that a class of stages shares: its addresses move with the stage, so they are
 * right on the first stage only. */
bool mutant_stage(void)
{
    const DtPlanEntry *first = &plan.entries[below(plan.n_entries)];
    bool shared = false;
    for (uint32_t i = 0; i < plan.n_entries; i++)
        shared = shared ||
                 (plan.entries[i].first == first->first && plan.entries[i].stage > first->stage);
    const DtPlanSchedule *item = &plan.schedule[first->first + below(first->count)];
    if (!plan.meta->pipeline || !shared || first->stage < 0 || item->kind != DT_SCHED_RUN)
        return false;
    for (uint32_t i = 0; i < plan.n_entries; i++) /* the first of these */
        if (plan.entries[i].first == first->first && plan.entries[i].stage < first->stage)
            return false;
    const DtPlanBody *body = &plan.bodies[item->body];
    const DtPlanInst *inst = &plan.insts[body->first_inst + below(body->n_insts)];
    DtPlanArg *arg =
        inst->n_args ? RECORD(args, DtPlanArg, inst->first_arg + below(inst->n_args)) : NULL;
    if (!arg || arg->kind != DT_ARG_ADDRESS || arg->coord[DT_PLAN_COORDS - 1])
        return false;
    arg->coord[DT_PLAN_COORDS - 1] = 64;
    arg->coord_axis[DT_PLAN_COORDS - 1] = (uint8_t)(plan.meta->pipeline - 1);
    arg->base -= 64 * (int64_t)first->stage;
    return true;
}

/* Moves the value in memory that an instruction zeroes to memory of its own, until another value is
 * stored there. */
static void move_apart(uint32_t zero, uint32_t end)
{
    const DtPlanArg old = plan.args[plan.insts[zero].first_arg];
    DtPlanArena *arena = RECORD(arenas, DtPlanArena, old.arena);
    int64_t base = (arena->bytes + 63) / 64 * 64;
    for (uint32_t i = zero; i < end; i++) {
        bool again = false;
        for (uint32_t a = plan.insts[i].first_arg;
             a < plan.insts[i].first_arg + plan.insts[i].n_args; a++)
            again =
                again || (i > zero + 1 && plan.args[a].written && same_place(&plan.args[a], &old));
        if (again)
            break;
        for (uint32_t a = plan.insts[i].first_arg;
             a < plan.insts[i].first_arg + plan.insts[i].n_args; a++)
            if (same_place(&plan.args[a], &old))
                RECORD(args, DtPlanArg, a)->base = base;
    }
    arena->bytes = base + (old.bytes + 63) / 64 * 64;
    for (uint32_t i = old.arena; i < plan.n_sizes; i += plan.n_arenas)
        RECORD(sizes, DtPlanArenaSize, i)->bytes = arena->bytes;
}

/* Zeroes memory once, before a loop that zeroes it in each iteration. */
static bool hoist_one(void)
{
    uint32_t at = below(plan.n_schedule), before = loop_of(at);
    if (plan.schedule[at].kind != DT_SCHED_RUN || before == 0 || plan.schedule[before].count < 2)
        return false;
    while (before > 0 && plan.schedule[before].kind != DT_SCHED_RUN)
        before--;
    if (plan.schedule[before].kind != DT_SCHED_RUN)
        return false;
    const DtPlanBody *from = &plan.bodies[plan.schedule[at].body],
                     *to = &plan.bodies[plan.schedule[before].body];
    uint32_t zero = from->first_inst + below(from->n_insts), end = to->first_inst + to->n_insts;
    if (plan.insts[zero].kind != DT_INST_ZERO || end > from->first_inst || from->n_insts < 2)
        return false;
    move_apart(zero, from->first_inst + from->n_insts);
    memmove(RECORD(insts, DtPlanInst, end + 1), &plan.insts[end],
            (zero - end) * sizeof(DtPlanInst));
    *RECORD(insts, DtPlanInst, end) = plan.insts[zero];
    for (uint32_t b = 0; b < plan.n_bodies; b++)
        if (plan.bodies[b].n_insts && plan.bodies[b].first_inst >= end &&
            plan.bodies[b].first_inst <= zero)
            RECORD(bodies, DtPlanBody, b)->first_inst++;
    RECORD(bodies, DtPlanBody, from - plan.bodies)->n_insts--;
    RECORD(bodies, DtPlanBody, to - plan.bodies)->n_insts++;
    return true;
}

static bool is_named(const DtPlanEntry *entry, const char *name)
{
    return strncmp(dt_plan_str(&plan, entry->name), name, strlen(name)) == 0;
}

/* Returns a random instruction that the entry itself runs; NULL: there is none. */
static const DtPlanInst *inst_of(const DtPlanEntry *entry)
{
    const DtPlanSchedule *item = &plan.schedule[entry->first + below(entry->count)];
    const DtPlanBody *body = &plan.bodies[item->body];
    return item->kind == DT_SCHED_RUN ? &plan.insts[body->first_inst + below(body->n_insts)] : NULL;
}

/* Memory that a piece of a stage (-1: of any stage) has for itself, of at most `most` bytes. */
static bool move_scratch(int32_t stage, uint32_t arena, int64_t base, int64_t most)
{
    const DtPlanEntry *piece = &plan.entries[below(plan.n_entries)];
    const bool is_there = is_named(piece, "grad.") && (stage < 0 || piece->stage == stage);
    const DtPlanInst *inst = is_there ? inst_of(piece) : NULL;
    if (!inst || inst->n_args == 0 || inst->kind > DT_INST_GEMM)
        return false;
    const DtPlanArg *args = &plan.args[inst->first_arg + inst->n_args - 1];
    if (args->kind != DT_ARG_ADDRESS || args->bytes > most || !args->written || args->reg[1] ||
        plan.arenas[args->arena].kind != DT_ARENA_ACTIVATIONS)
        return false;
    const DtPlanArg moved = *args;
    for (uint32_t i = piece->first; i < piece->first + piece->count; i++) {
        const DtPlanBody *body = &plan.bodies[plan.schedule[i].body];
        for (uint32_t k = 0; plan.schedule[i].kind == DT_SCHED_RUN && k < body->n_insts; k++)
            for (uint32_t a = 0; a < plan.insts[body->first_inst + k].n_args; a++) {
                DtPlanArg *arg =
                    RECORD(args, DtPlanArg, plan.insts[body->first_inst + k].first_arg + a);
                if (same_place(arg, &moved)) {
                    arg->arena = (uint8_t)arena;
                    arg->base = base;
                }
            }
    }
    return true;
}

/* Moves memory that a piece has for itself to where pieces add up a scalar of the step. */
static bool scratch_one(void)
{
    const DtPlanMetric *metric = &plan.metrics[below(plan.n_metrics)];
    return plan.n_metrics && plan.meta->pipeline && !metric->n_axes &&
           strcmp(dt_plan_str(&plan, metric->entry), "step") == 0 &&
           move_scratch(-1, metric->arena, metric->offset, 64);
}

/* Returns the first argument from number `from` on that is written (or is not written), at this
 * place (NULL: at any); -1: there is none. */
static int64_t find_arg(const DtPlanEntry *entry, int64_t from, bool written,
                        const DtPlanArg *place)
{
    int64_t n = 0;
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanBody *body = &plan.bodies[plan.schedule[i].body];
        for (uint32_t k = 0; plan.schedule[i].kind == DT_SCHED_RUN && k < body->n_insts; k++) {
            const DtPlanInst *inst = &plan.insts[body->first_inst + k];
            for (uint32_t a = inst->first_arg; a < inst->first_arg + inst->n_args; a++, n++)
                if (n >= from && plan.args[a].kind == DT_ARG_ADDRESS &&
                    plan.args[a].written == written && (!place || same_place(&plan.args[a], place)))
                    return (n << 32) | a;
        }
    }
    return -1;
}

/* Whether a piece of the stage reads the argument, and does not write it itself. */
static bool is_read_by_piece(const DtPlanArg *arg, int32_t stage)
{
    for (uint32_t i = 0; i < plan.n_entries; i++)
        if (is_named(&plan.entries[i], "grad.") && plan.entries[i].stage == stage &&
            find_arg(&plan.entries[i], 0, false, arg) >= 0 &&
            find_arg(&plan.entries[i], 0, true, arg) < 0)
            return true;
    return false;
}

/* or where the step's prologue has stored values that pieces read */
static bool prologue_one(void)
{
    const DtPlanEntry *step = &plan.entries[below(plan.n_entries)];
    const DtPlanArg *found[16];
    uint32_t n = 0;
    if (!plan.meta->pipeline || !is_named(step, "step"))
        return false;
    for (int64_t at = -1;
         n < DT_COUNT(found) && (at = find_arg(step, (at >> 32) + 1, true, NULL)) >= 0;)
        if (plan.args[at & UINT32_MAX].arena < DT_ARENA_KINDS &&
            is_read_by_piece(&plan.args[at & UINT32_MAX], step->stage))
            found[n++] = &plan.args[at & UINT32_MAX];
    if (n == 0)
        return false;
    const DtPlanArg *to = found[below(n)];
    return move_scratch(step->stage, to->arena, to->base, 64);
}

bool mutant_scratch(void)
{
    for (int i = 0; i < 1000; i++)
        if (scratch_one())
            return true;
    return false;
}

bool mutant_prologue(void)
{
    for (int i = 0; plan.meta->pipeline && i < 1000; i++)
        if (prologue_one())
            return true;
    return false;
}

bool mutant_hoist(void)
{
    for (int i = 0; i < 200; i++)
        if (hoist_one())
            return true;
    return false;
}
