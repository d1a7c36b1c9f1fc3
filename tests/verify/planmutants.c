/* SPDX-License-Identifier: Apache-2.0 */
/* planmutants PLAN SEED COUNT [KEEP]: the certificate of a plan file against single faults in it.
 *
 * For each kind of fault, COUNT mutants that the plan's reader still takes go to the certificate. Instructions that are
 * dropped, doubled or swapped take their notes along: such a plan is what a wrong compiler would write. A line per kind
 * says how many were rejected and how many were accepted; the latter are written to KEEP-KIND-N.plan, to be run, and
 * the first that was rejected to KEEP-KIND.plan. A line `differs` says that the verdict is another if all iterations of
 * loops are run (tried for what is accepted, and for a quarter of the rest). 1 if the plan itself does not hold.
 * Faults that are recorded: see planmutants_known.c. */
#include "base/file.h"
#include "plan/read.h"
#include "plan_fixture.h"
#include "planmutants.h"
#include "verify/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 1 << 28, TRIES = 60 };

static DtPlan plan;          /* as read */
static const uint8_t *bytes; /* of the file */
static uint8_t *copy;        /* of them, to be changed */
static DtCertSpan *spans;    /* by instruction: its note */
static DtLogicalTexts proved; /* of the plan as read */
static uint64_t state;

static uint32_t below(uint64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((state >> 33) % n) : 0;
}

#define RECORD(field, type, index) \
    ((type *)(void *)(copy + ((const uint8_t *)plan.field - bytes)) + (index))

static DtPlanArg *any_arg(DtPlanArgKind kind)
{
    for (int i = 0; i < 200; i++) {
        uint32_t at = below(plan.n_args);
        if (plan.args[at].kind == kind)
            return RECORD(args, DtPlanArg, at);
    }
    return NULL;
}

static DtPlanInst *any_inst(uint32_t first, uint32_t last)
{
    uint32_t start = below(plan.n_insts);
    for (uint32_t i = 0; i < plan.n_insts; i++) {
        uint32_t at = (start + i) % plan.n_insts;
        if (plan.insts[at].kind >= first && plan.insts[at].kind <= last)
            return RECORD(insts, DtPlanInst, at);
    }
    return NULL;
}

static bool change(int64_t *at)
{
    int64_t old = *at;
    *at = below(3) == 0 ? 0 : below(2) ? old * 2 : old + (old ? old : 64) * (below(2) ? 1 : -1);
    return *at != old;
}

/* ---- kinds ---- */

static bool offset(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS);
    static const int64_t steps[] = {64, -64, 4, -4, 128, 1024, -1024, 4096};
    return arg && (arg->base += steps[below(8)], true);
}

/* Whether the argument is one of several results: nobody may need it (what attention saves, in `eval`). */
static bool is_one_of_several(const DtPlanArg *changed)
{
    const DtPlanArg *arg = plan.args + (changed - RECORD(args, DtPlanArg, 0));
    for (uint32_t i = 0; i < plan.n_insts; i++) {
        const DtPlanInst *inst = &plan.insts[i];
        uint32_t n = 0;
        if (arg < plan.args + inst->first_arg || arg >= plan.args + inst->first_arg + inst->n_args)
            continue;
        for (uint32_t k = 0; k < inst->n_args; k++)
            n += plan.args[inst->first_arg + k].written;
        return n > 1;
    }
    return false;
}

static bool reuse(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS), *other = any_arg(DT_ARG_ADDRESS);
    if (!arg || !arg->written || !other || other->arena != arg->arena || other->base == arg->base)
        return false;
    if (is_one_of_several(arg))
        return false;
    arg->base = other->base;
    return true;
}

static bool stride(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS);
    uint32_t r = below(DT_PLAN_REG_SLOTS);
    return arg && arg->reg[r] && change(&arg->reg[r]);
}

static bool length(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_ADDRESS);
    return arg && (arg->bytes += below(2) ? 64 : -4, true);
}

static bool coordinate(void)
{
    DtPlanArg *arg = any_arg(below(2) ? DT_ARG_ADDRESS : DT_ARG_INTEGER);
    uint32_t c = below(2);
    if (arg && arg->coord[c] && below(3) == 0 && plan.n_mesh > 1)
        return arg->coord_axis[c] = (uint8_t)((arg->coord_axis[c] + 1u) % plan.n_mesh), true;
    return arg && arg->coord[c] && change(&arg->coord[c]);
}

static bool slot(void)
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

/* The LOOP around an item; 0: none. */
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

static bool same_place(const DtPlanArg *a, const DtPlanArg *b)
{
    return a->kind == DT_ARG_ADDRESS && a->arena == b->arena && a->base == b->base &&
           memcmp(a->reg, b->reg, sizeof a->reg) == 0;
}

/* The first RUN behind an item, or the last item. */
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
        depth += (plan.schedule[at].kind == DT_SCHED_LOOP) - (plan.schedule[at].kind == DT_SCHED_END);
    while (depth && ++at < plan.n_schedule);
    return at;
}

/* What some instruction of a micro-batch leaves is in slots all the time: there and wherever it is read. to: a gather's
 * argument. */
static bool squat(uint32_t guard, const DtPlanArg *to)
{
    uint32_t begin = loop_of(guard), end = end_of(begin), at = run_behind(begin + below(end - begin));
    if (plan.schedule[at].kind != DT_SCHED_RUN)
        return false;
    const DtPlanBody *body = &plan.bodies[plan.schedule[at].body];
    const DtPlanInst *inst = &plan.insts[body->first_inst + below(body->n_insts)];
    const DtPlanArg *arg = &plan.args[inst->first_arg], old = *arg;
    if (plan.schedule[begin].reg != 0 || at >= end || inst->n_args == 0 || arg->kind != DT_ARG_ADDRESS ||
        !arg->written || arg->arena != to->arena || arg->reg[DT_PLAN_REG_RINGBUF])
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

/* The same piece, which finds or leaves something else in the ring. */
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

/* What loops gather ahead: the slots, how many there are, for which iterations and micro-batches, of which iterations
 * of which loop; which piece of a pipeline does it. */
static bool ring(void)
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
    const DtPlanSchedule *run = &plan.schedule[run_behind(at)], *other = &plan.schedule[below(plan.n_schedule)];
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

static bool peer(void)
{
    DtPlanInst *inst = any_inst(DT_INST_SEND, DT_INST_RECV);
    uint32_t other = below(plan.n_channels);
    return inst && other != inst->ref && (inst->ref = other, true);
}

/* The note of an instruction that is there once. */
static bool has_note(uint32_t inst)
{
    return spans[inst].count == 1 && spans[inst].end > spans[inst].first;
}

static void cut_note(uint32_t from, uint32_t to)
{
    uint8_t *notes = copy + ((const uint8_t *)plan.blob - bytes) + plan.logical->notes;
    for (uint32_t i = 0; i < plan.n_notes; i++) {
        DtPlanNote *note = RECORD(notes, DtPlanNote, i);
        if (from < note->first || to > note->first + note->count)
            continue;
        memmove(notes + from, notes + to, note->first + note->count - to);
        note->count -= to - from;
    }
}

static const DtPlanBody *body_of(uint32_t inst, uint32_t *ret_body)
{
    for (uint32_t b = 0; b < plan.n_bodies; b++)
        if (inst >= plan.bodies[b].first_inst &&
            inst < plan.bodies[b].first_inst + plan.bodies[b].n_insts) {
            *ret_body = b;
            return &plan.bodies[b];
        }
    return NULL;
}

static bool drop(void)
{
    uint32_t at = below(plan.n_insts), b;
    const DtPlanBody *body = body_of(at, &b);
    bool silent = plan.insts[at].kind == DT_INST_ZERO || plan.insts[at].kind == DT_INST_READ ||
                  plan.insts[at].kind == DT_INST_WAIT;
    if (!body || body->n_insts < 2 || (!silent && !has_note(at)))
        return false;
    uint32_t last = body->first_inst + body->n_insts - 1;
    memmove(RECORD(insts, DtPlanInst, at), RECORD(insts, DtPlanInst, at + 1),
            (last - at) * sizeof(DtPlanInst));
    RECORD(bodies, DtPlanBody, b)->n_insts--;
    if (!silent)
        cut_note(spans[at].first, spans[at].end);
    return true;
}

/* The one after it is done as this one again. */
static bool doubled(void)
{
    uint32_t at = below(plan.n_insts - 1), b;
    const DtPlanBody *body = body_of(at, &b);
    if (!body || at + 1 >= body->first_inst + body->n_insts || !has_note(at) || !has_note(at + 1) ||
        spans[at].end != spans[at + 1].first)
        return false;
    uint32_t mine = spans[at].end - spans[at].first,
             theirs = spans[at + 1].end - spans[at + 1].first;
    uint8_t *notes = copy + ((const uint8_t *)plan.blob - bytes) + plan.logical->notes;
    if (mine > theirs)
        return false;
    *RECORD(insts, DtPlanInst, at + 1) = plan.insts[at];
    memcpy(notes + spans[at + 1].first, notes + spans[at].first, mine);
    cut_note(spans[at + 1].first + mine, spans[at + 1].end);
    return true;
}

static bool swap(void)
{
    uint32_t at = below(plan.n_insts - 1), b;
    const DtPlanBody *body = body_of(at, &b);
    if (!body || at + 1 >= body->first_inst + body->n_insts || !has_note(at) || !has_note(at + 1) ||
        spans[at].end != spans[at + 1].first)
        return false;
    uint8_t *notes = copy + ((const uint8_t *)plan.blob - bytes) + plan.logical->notes, kept[4096];
    uint32_t mine = spans[at].end - spans[at].first,
             theirs = spans[at + 1].end - spans[at + 1].first;
    if (mine > sizeof kept)
        return false;
    memcpy(kept, notes + spans[at].first, mine);
    memmove(notes + spans[at].first, notes + spans[at + 1].first, theirs);
    memcpy(notes + spans[at].first + theirs, kept, mine);
    *RECORD(insts, DtPlanInst, at) = plan.insts[at + 1];
    *RECORD(insts, DtPlanInst, at + 1) = plan.insts[at];
    return true;
}

static bool group(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_REDUCE, DT_INST_SHIFT_BACK);
    uint32_t other = below(plan.n_groups);
    if (inst && below(3) == 0 && plan.n_groups > 0) {
        DtPlanGroup *record = RECORD(groups, DtPlanGroup, inst->ref);
        record->mask = 1u << below(plan.n_mesh);
        record->size = plan.mesh[__builtin_ctz(record->mask)].size;
        return record->mask != plan.groups[inst->ref].mask && !(record->stages = 0);
    }
    return inst && other != inst->ref && (inst->ref = other, true);
}

static bool count(void)
{
    DtPlanInst *inst = RECORD(insts, DtPlanInst, below(plan.n_insts));
    return inst->count > 1 && (inst->count = below(2) ? inst->count / 2 : inst->count - 1, true);
}

static bool reduce(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_REDUCE, DT_INST_REDUCE_SCATTER);
    return inst && inst->kind != DT_INST_ALL_GATHER &&
           (inst->reduce = (uint16_t)((inst->reduce + 1 + below(2)) % 3), true);
}

static bool dtype(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_REDUCE, DT_INST_RECV);
    return inst && (inst->dtype = (uint16_t)((inst->dtype + 1 + below(8)) % 10), true);
}

static bool blocks(void)
{
    DtPlanInst *inst = any_inst(DT_INST_ALL_GATHER, DT_INST_ALL_TO_ALL);
    if (!inst)
        return false;
    if (below(2))
        return plan.n_blocks && (inst->blocks = below(plan.n_blocks + 1), true);
    if (!inst->blocks)
        return false;
    DtPlanBlocks *record = RECORD(blocks, DtPlanBlocks, inst->blocks - 1);
    uint32_t d = below(record->n_dims ? record->n_dims : 1), c = below(2);
    int64_t *const fields[] = {&record->to[d], &record->from[d], &record->to_coord[c],
                               &record->from_coord[c]};
    int64_t *field = fields[below(4)];
    return *field && change(field);
}

/* Strides of dimensions of extent 1 mean nothing. */
static DtPlanGemm meant(const DtPlanGemm *gemm)
{
    DtPlanGemm g = *gemm;
    if (g.m == 1)
        g.a_row = g.c_row = 0;
    if (g.n == 1)
        g.b_col = g.c_col = 0;
    if (g.k == 1)
        g.a_col = g.b_row = 0;
    for (uint32_t i = 0; i < DT_PLAN_MAX_BATCH; i++)
        if (i >= g.n_batch || g.batch[i] == 1)
            g.a_batch[i] = g.b_batch[i] = g.c_batch[i] = 0;
    return g;
}

static bool product(void)
{
    DtPlanInst *inst = any_inst(DT_INST_GEMM, DT_INST_GEMM);
    if (!inst)
        return false;
    const DtPlanGemm old = meant(&plan.gemms[inst->ref]);
    const bool other = below(2);
    if (other)
        inst->ref = below(plan.n_gemms);
    DtPlanGemm *gemm = RECORD(gemms, DtPlanGemm, inst->ref), now;
    int64_t *const strides[] = {&gemm->a_row, &gemm->a_col, &gemm->b_row,
                                &gemm->b_col, &gemm->c_row, &gemm->a_batch[0]};
    int64_t *field = strides[below(6)];
    if (!other && (!*field || !change(field)))
        return false;
    now = meant(gemm);
    return memcmp(&old, &now, sizeof old) != 0;
}

static bool accumulate(void)
{
    DtPlanInst *inst = any_inst(DT_INST_GEMM, DT_INST_GEMM);
    return inst && (RECORD(gemms, DtPlanGemm, inst->ref)->accumulate ^= 1u, true);
}

static bool kernel(void)
{
    DtPlanInst *inst = any_inst(DT_INST_KERNEL, DT_INST_KERNEL);
    uint32_t other = below(plan.n_kernels);
    if (!inst || other == inst->ref ||
        plan.kernels[other].n_pointers != plan.kernels[inst->ref].n_pointers ||
        plan.kernels[other].n_integers != plan.kernels[inst->ref].n_integers ||
        strcmp(dt_plan_str(&plan, plan.kernels[other].name),
               dt_plan_str(&plan, plan.kernels[inst->ref].name)) == 0)
        return false;
    inst->ref = other;
    return true;
}

/* Two of an instruction's arguments take each other's place: of those that it reads, or of those that it writes. */
static bool exchange(bool written)
{
    DtPlanInst *inst = RECORD(insts, DtPlanInst, below(plan.n_insts));
    if (inst->n_args < 2)
        return false;
    uint32_t a = inst->first_arg + below(inst->n_args), b = inst->first_arg + below(inst->n_args);
    DtPlanArg *x = RECORD(args, DtPlanArg, a), *y = RECORD(args, DtPlanArg, b), kept = *x;
    if (x->kind != y->kind || x->written != written || y->written != written || memcmp(x, y, sizeof *x) == 0)
        return false;
    *x = *y;
    *y = kept;
    return true;
}

static bool operands(void) { return exchange(false); }
static bool results(void) { return exchange(true); }

/* A block of attention that runs elsewhere, or an instruction of it that runs everywhere. */
static bool guard(void)
{
    DtPlanInst *inst = RECORD(insts, DtPlanInst, below(plan.n_insts));
    if (!inst->guards)
        return false;
    DtPlanArg *arg = RECORD(args, DtPlanArg, inst->first_arg + inst->n_args - 1u);
    switch (below(3)) {
    case 0: return inst->guards--, inst->n_args--, true;
    case 1: return arg->base += below(2) ? 1 : -1, true;
    default: return arg->coord[0] = -arg->coord[0], arg->coord[0] != 0;
    }
}

static bool store(void)
{
    uint32_t a = below(plan.n_stores), b = below(plan.n_stores);
    DtPlanStore *x = RECORD(stores, DtPlanStore, a);
    if (plan.stores[a].arena != plan.stores[b].arena ||
        plan.stores[a].offset == plan.stores[b].offset)
        return false;
    x->offset = plan.stores[b].offset;
    return true;
}

static bool loop(void)
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

static bool actions(void)
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

static bool channel(void)
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

static bool integer(void)
{
    DtPlanArg *arg = any_arg(DT_ARG_INTEGER);
    uint32_t r = below(DT_PLAN_ARG_REGS);
    return arg && (below(2) && arg->reg[r] ? change(&arg->reg[r])
                                           : (arg->base += below(2) ? 1 : -1, true));
}

static bool metric(void)
{
    DtPlanMetric *at = RECORD(metrics, DtPlanMetric, below(plan.n_metrics));
    return (at->offset += below(2) ? 64 : -64, true);
}

/* Of a store. */
static bool axis(void)
{
    const DtPlanStore *at = &plan.stores[below(plan.n_stores)];
    if (!at->n_axes)
        return false;
    uint32_t number = below(at->n_axes);
    DtPlanAxis *record = RECORD(axes, DtPlanAxis, at->first_axis + number);
    if (at->stage >= 0 && number < at->n_loops)
        return false; /* how long a loop that stages share is, only checkpoints say */
    if (below(2) && plan.n_mesh)
        return record->split[0] = (uint8_t)below(plan.n_mesh + 1u), true;
    int64_t *const fields[] = {&record->local, &record->extent};
    return change(fields[below(2)]);
}

static bool entry(void)
{
    uint32_t a = below(plan.n_entries), b = below(plan.n_entries);
    DtPlanEntry *record = RECORD(entries, DtPlanEntry, a);
    if (plan.entries[a].first == plan.entries[b].first)
        return false;
    record->first = plan.entries[b].first;
    record->count = plan.entries[b].count;
    if (below(2)) /* with its notes */
        *RECORD(notes, DtPlanNote, a) = plan.notes[b];
    return true;
}

/* Addresses of instructions that a class of stages shares move with the stage, right on the first only. */
static bool stage(void)
{
    const DtPlanEntry *first = &plan.entries[below(plan.n_entries)];
    bool shared = false;
    for (uint32_t i = 0; i < plan.n_entries; i++)
        shared = shared ||
                 (plan.entries[i].first == first->first && plan.entries[i].stage > first->stage);
    const DtPlanSchedule *item = &plan.schedule[first->first + below(first->count)];
    if (!plan.meta->pipeline || !shared || first->stage < 0 || item->kind != DT_SCHED_RUN)
        return false;
    for (uint32_t i = 0; i < plan.n_entries; i++) /* the first of them */
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

/* What is in the memory that an instruction zeroes lies, until other things lie there, in memory of its own. */
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

/* What a loop zeroes in each iteration is zeroed once, before the loop. */
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

/* A random instruction that the entry itself runs, NULL: none. */
static const DtPlanInst *inst_of(const DtPlanEntry *entry)
{
    const DtPlanSchedule *item = &plan.schedule[entry->first + below(entry->count)];
    const DtPlanBody *body = &plan.bodies[item->body];
    return item->kind == DT_SCHED_RUN ? &plan.insts[body->first_inst + below(body->n_insts)] : NULL;
}

/* What a piece of a stage (-1: of any) has for itself, up to so many (`most`) bytes, lies there. */
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
                DtPlanArg *arg = RECORD(args, DtPlanArg, plan.insts[body->first_inst + k].first_arg + a);
                if (same_place(arg, &moved)) {
                    arg->arena = (uint8_t)arena;
                    arg->base = base;
                }
            }
    }
    return true;
}

/* It lies where another piece adds up a scalar, */
static bool scratch_one(void)
{
    const DtPlanMetric *metric = &plan.metrics[below(plan.n_metrics)];
    return plan.meta->pipeline && !metric->n_axes && strcmp(dt_plan_str(&plan, metric->entry), "step") == 0 &&
           move_scratch(-1, metric->arena, metric->offset, 64);
}

/* The first argument from number `from` on that is (or is not) written, at this place (NULL: anywhere); -1: none. */
static int64_t find_arg(const DtPlanEntry *entry, int64_t from, bool written, const DtPlanArg *place)
{
    int64_t n = 0;
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanBody *body = &plan.bodies[plan.schedule[i].body];
        for (uint32_t k = 0; plan.schedule[i].kind == DT_SCHED_RUN && k < body->n_insts; k++) {
            const DtPlanInst *inst = &plan.insts[body->first_inst + k];
            for (uint32_t a = inst->first_arg; a < inst->first_arg + inst->n_args; a++, n++)
                if (n >= from && plan.args[a].kind == DT_ARG_ADDRESS && plan.args[a].written == written &&
                    (!place || same_place(&plan.args[a], place)))
                    return (n << 32) | a;
        }
    }
    return -1;
}

/* And not written before by the piece itself. */
static bool is_read_by_piece(const DtPlanArg *arg, int32_t stage)
{
    for (uint32_t i = 0; i < plan.n_entries; i++)
        if (is_named(&plan.entries[i], "grad.") && plan.entries[i].stage == stage &&
            find_arg(&plan.entries[i], 0, false, arg) >= 0 && find_arg(&plan.entries[i], 0, true, arg) < 0)
            return true;
    return false;
}

/* or where the step's prologue has left what pieces read. */
static bool prologue_one(void)
{
    const DtPlanEntry *step = &plan.entries[below(plan.n_entries)];
    const DtPlanArg *found[16];
    uint32_t n = 0;
    if (!plan.meta->pipeline || !is_named(step, "step"))
        return false;
    for (int64_t at = -1; n < DT_COUNT(found) && (at = find_arg(step, (at >> 32) + 1, true, NULL)) >= 0;)
        if (plan.args[at & UINT32_MAX].arena < DT_ARENA_KINDS &&
            is_read_by_piece(&plan.args[at & UINT32_MAX], step->stage))
            found[n++] = &plan.args[at & UINT32_MAX];
    if (n == 0)
        return false;
    const DtPlanArg *to = found[below(n)];
    return move_scratch(step->stage, to->arena, to->base, 64);
}

static bool scratch(void)
{
    for (int i = 0; i < 1000; i++)
        if (scratch_one())
            return true;
    return false;
}

static bool prologue(void)
{
    for (int i = 0; plan.meta->pipeline && i < 1000; i++)
        if (prologue_one())
            return true;
    return false;
}

static bool hoist(void)
{
    for (int i = 0; i < 200; i++)
        if (hoist_one())
            return true;
    return false;
}

static bool record(void) { return mutant_of_record(&plan, bytes, copy, below); }
static bool code(void) { return mutant_of_code(&plan, bytes, copy, below); }
static bool start(void) { return mutant_of_start(&plan, bytes, copy, below); }
static bool text(void) { return mutant_of_text(&plan, bytes, copy, below); }

static const MutantKind kinds[] =
            {{"offset", offset},
             {"reuse", reuse},
             {"stride", stride},
             {"length", length},
             {"coordinate", coordinate},
             {"slot", slot},
             {"peer", peer},
             {"drop", drop},
             {"double", doubled},
             {"swap", swap},
             {"group", group},
             {"count", count},
             {"reduce", reduce},
             {"dtype", dtype},
             {"blocks", blocks},
             {"product", product},
             {"accumulate", accumulate},
             {"kernel", kernel},
             {"operands", operands},
             {"results", results},
             {"guard", guard},
             {"store", store},
             {"loop", loop},
             {"actions", actions},
             {"channel", channel},
             {"integer", integer},
             {"metric", metric},
             {"axis", axis},
             {"entry", entry},
             {"stage", stage},
             {"hoist", hoist},
             {"scratch", scratch},
             {"prologue", prologue},
             {"ring", ring},
             {"record", record},
             {"code", code},
             {"start", start},
             {"text", text}};

/* Whether the certificate proves the plan. All iterations are run of what it proves, and of some that it does not: the
 * verdict is the same. */
static bool proves(const DtPlan *mutant, const DtLogicalTexts *texts, DtText *problem)
{
    static uint32_t refused;
    DtText said = {0};
    DtArena *arena = dt_arena_new();
    const bool part = dt_certplan_prove(arena, mutant, texts->final, problem), again = part || refused++ % 4 == 0,
               whole = again ? dt_certplan_trace(arena, mutant, texts->final, true, NULL, &said) : part;
    if (part != whole)
        printf("differs: %s of all iterations, %s of some: %s%s\n", whole ? "proved" : "refused",
               part ? "proved" : "refused", said.len ? said.at : "", problem->len ? problem->at : "");
    dt_text_free(&said);
    dt_arena_free(arena);
    return part;
}

/* Whether the certificate rejects what lies in copy; false with *ret_read false: the reader refuses it already. */
static bool rejects(size_t len, bool *ret_read)
{
    DtPlan mutant;
    DtText problem = {0};
    fixture_repair(copy, len);
    DtStatus status = dt_read_bytes(copy, len, &mutant);
    *ret_read = dt_status_ok(&status);
    if (!*ret_read)
        return false;
    DtArena *arena = dt_arena_new();
    DtLogicalTexts texts;
    DtCertCounts counts;
    bool rejected = !dt_certfile_open(arena, &mutant, &texts, &problem);
    if (!rejected && (strcmp(texts.serial, proved.serial) != 0 || strcmp(texts.placed, proved.placed) != 0 ||
                      strcmp(texts.final, proved.final) != 0))
        rejected = !dt_certfile_programs(arena, &texts, &counts, &problem);
    rejected = rejected || !proves(&mutant, &texts, &problem) || !dt_certfile_facts(arena, &mutant, &texts, &problem);
    dt_text_free(&problem);
    dt_arena_free(arena);
    return rejected;
}

static size_t file_len;
static bool rejects_copy(bool *ret_read) { return rejects(file_len, ret_read); }

static void try_kind(size_t kind, size_t len, uint32_t wanted, const char *keep)
{
    uint32_t rejected = 0, accepted = 0, refused = 0;
    for (uint32_t i = 0; i < wanted * TRIES && rejected + accepted < wanted; i++) {
        bool read;
        memcpy(copy, bytes, len);
        if (!kinds[kind].make() || memcmp(copy, bytes, len) == 0)
            continue;
        bool bad = rejects(len, &read);
        refused += !read;
        rejected += bad;
        if (!read)
            continue;
        char path[512];
        if (bad)
            snprintf(path, sizeof path, "%s-%s.plan", keep ? keep : "", kinds[kind].name);
        else
            snprintf(path, sizeof path, "%s-%s-%u.plan", keep ? keep : "", kinds[kind].name, accepted++);
        if (keep && (!bad || rejected == 1))
            (void)dt_file_write(path, copy, len);
    }
    printf("%s rejected %u accepted %u unreadable %u\n", kinds[kind].name, rejected, accepted,
           refused);
}

int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    char *file;
    size_t len;
    DtText problem = {0};
    DtCertCounts counts;
    if (argc < 4)
        return 2;
    DtStatus status = dt_file_read(arena, argv[1], MAX, &file, &len);
    bytes = (const uint8_t *)file;
    if (dt_status_ok(&status))
        status = dt_read_bytes(bytes, len, &plan);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "planmutants: %s\n", status.message);
        return 1;
    }
    copy = dt_arena_alloc(arena, len);
    spans = DT_NEW_ARRAY(arena, DtCertSpan, plan.n_insts + 1);
    if (!dt_certfile_open(arena, &plan, &proved, &problem) ||
        !dt_certfile_prove(arena, &plan, &proved, &counts, &problem) ||
        !dt_certplan_trace(arena, &plan, proved.final, false, spans, &problem)) {
        printf("fails: %s\n", problem.at);
        dt_text_free(&problem);
        dt_arena_free(arena);
        return 1;
    }
    file_len = len;
    if (argc > 4 && (strcmp(argv[2], "known") == 0 || strcmp(argv[2], "draw") == 0)) {
        const Mutants mutants = {&plan, bytes, copy, len, DT_COUNT(kinds), &state, kinds, rejects_copy};
        const int code = mutants_known(&mutants, argc, argv);
        dt_arena_free(arena);
        return code;
    }
    state = strtoull(argv[2], NULL, 10);
    for (size_t k = 0; k < DT_COUNT(kinds); k++)
        try_kind(k, len, (uint32_t)strtoul(argv[3], NULL, 10), argc > 4 ? argv[4] : NULL);
    dt_text_free(&problem);
    dt_arena_free(arena);
    return 0;
}
