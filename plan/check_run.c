/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: the program. For each stage, walks the schedule of every entry (loops nest and end,
 * registers are set before they are read, the number of runs is bounded) and collects, for each
 * body, the range of every register over all places that run it. Then it checks the instructions of
 * each body (check_inst.c).
 *
 * The walk is one pass over the items. A register that is set inside a loop has no value when an
 * iteration begins, so no iteration depends on the one before, and the range of a SET follows from
 * the loops around and in front of it. Items guarded by a WHEN run with its register within the
 * WHEN's range; a register that they set has no value after them. The ring's register keeps its
 * value from iteration to iteration: every SET of it has a modulus, which bounds it. */
#include "plan/check_internal.h"

#include "plan/kinds.h"

#include <stdlib.h>
#include <string.h>

/* What an entry leaves in registers: `looped` is the bit set of registers that its loops reset
 * to 0 after the entry; `slots` the largest modulus with which it sets the ring register. */
typedef struct Leaves {
    uint32_t looped;
    int64_t slots;
} Leaves;

/* What the check knows of one stage: the bodies that it runs, and the items visited. */
typedef struct Stage {
    uint32_t number;
    CheckHull *hulls; /* by body */
    uint32_t *list;   /* numbers of the bodies that it runs */
    uint32_t n;
    int64_t items; /* items visited so far, on all stages */
    Leaves *leaves; /* what is known of entries that were walked, by number */
} Stage;

/* ---- schedules ---- */

typedef struct Nest {
    uint32_t entry, end;                      /* number of the entry; the number after its last
                                               * item */
    uint32_t n_open, open[DT_PLAN_MAX_DEPTH]; /* registers of the loops around the present item */
    CheckRange reg[DT_PLAN_REGS];
    uint32_t unset;                      /* bits: registers without a value */
    int64_t runs[DT_PLAN_MAX_DEPTH + 1]; /* by depth: how many times the present item runs */
    int64_t total;
    Leaves leaves;
    uint32_t n_when;     /* number of open WHENs */
    bool trains;         /* the entry is not used for predictions only */
    bool called;         /* the items are those of a called entry, */
    uint32_t least_open; /* which must not end these loops */
} Nest;

static void widen(Stage *stage, uint32_t body, const Nest *nest)
{
    CheckHull *hull = &stage->hulls[body];
    if (!hull->runs)
        stage->list[stage->n++] = body;
    for (int r = 0; r < DT_PLAN_REGS; r++) {
        if (!hull->runs || nest->reg[r].lo < hull->reg[r].lo)
            hull->reg[r].lo = nest->reg[r].lo;
        if (!hull->runs || nest->reg[r].hi > hull->reg[r].hi)
            hull->reg[r].hi = nest->reg[r].hi;
    }
    hull->unset |= nest->unset;
    hull->trains = hull->trains || nest->trains;
    hull->runs = true;
}

static const int64_t limit = (int64_t)1 << 31;

static bool is_open(const Nest *nest, uint32_t reg)
{
    for (uint32_t i = 0; i < nest->n_open; i++)
        if (nest->open[i] == reg)
            return true;
    return false;
}

static CheckRange hull_of(CheckRange a, CheckRange b)
{
    return (CheckRange){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

/* Widens the ranges of registers after items that may have run or not: registers of their loops may
 * be 0, and the ring's slot any below `slots`. */
static void leave(Nest *nest, uint32_t looped, int64_t slots)
{
    for (uint32_t r = 0; r < DT_PLAN_REGS; r++)
        if (looped >> r & 1)
            nest->reg[r] = hull_of(nest->reg[r], (CheckRange){0, 0});
    if (slots > 0)
        nest->reg[DT_PLAN_REG_RINGBUF] =
            hull_of(nest->reg[DT_PLAN_REG_RINGBUF], (CheckRange){0, slots - 1});
}

/* Returns the bits of the registers, other than the ring's, that items set from the LOOP at index
 * up to its END. The ranges of the ring's register, and of those of inner loops, become those of
 * all iterations. A missing END is found later. */
static uint32_t set_within(const DtPlan *plan, uint32_t index, Nest *nest, const Stage *stage)
{
    uint32_t bits = 0, end = nest->end;
    int64_t depth = 0;
    for (uint32_t i = index; i < end; i++) {
        const DtPlanSchedule *item = &plan->schedule[i];
        depth += item->kind == DT_SCHED_LOOP;
        depth -= item->kind == DT_SCHED_END;
        if (depth <= 0)
            break;
        if (item->kind == DT_SCHED_SET && item->reg == DT_PLAN_REG_RINGBUF)
            leave(nest, 0, item->count);
        else if (item->kind == DT_SCHED_SET && item->reg < DT_PLAN_REGS)
            bits |= 1u << item->reg;
        if (item->kind == DT_SCHED_LOOP && i > index && item->reg < DT_PLAN_REGS)
            leave(nest, 1u << item->reg, 0);
        if (item->kind == DT_SCHED_CALL && item->body < nest->entry)
            leave(nest, stage->leaves[item->body].looped, stage->leaves[item->body].slots);
    }
    return bits;
}

static bool open_loop(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest,
                      const Stage *stage)
{
    if (item->reg >= DT_PLAN_REGS || nest->n_open == DT_PLAN_MAX_DEPTH)
        return dt_check_fail(check, "SCHD", index, "loop of register %u at depth %u", item->reg,
                             nest->n_open);
    if (is_open(nest, item->reg))
        return dt_check_fail(check, "SCHD", index, "register %u counts two nested loops",
                             item->reg);
    if (item->count < 1 || item->count > DT_CHECK_MAX_RUNS || item->first < -limit ||
        item->first > limit || item->step < -limit || item->step > limit)
        return dt_check_fail(check, "SCHD", index, "%lld times from %lld by %lld",
                             (long long)item->count, (long long)item->first, (long long)item->step);
    /* each is below 2^62, so the sum fits in 64 bits */
    int64_t last = item->first + (int64_t)item->step * (item->count - 1);
    if (last < -(limit << 9) || last > limit << 9)
        return dt_check_fail(check, "SCHD", index, "counts to %lld", (long long)last);
    nest->unset |= set_within(check->plan, index, nest, stage);
    nest->leaves.looped |= 1u << item->reg;
    nest->reg[item->reg] = (CheckRange){item->first < last ? item->first : last,
                                        item->first < last ? last : item->first};
    nest->unset &= ~(1u << item->reg);
    nest->open[nest->n_open++] = item->reg;
    nest->runs[nest->n_open] = nest->runs[nest->n_open - 1] * item->count;
    if (nest->runs[nest->n_open] > DT_CHECK_MAX_RUNS)
        return dt_check_fail(check, "SCHD", index, "runs more than %d times", DT_CHECK_MAX_RUNS);
    return true;
}

static bool end_loop(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest)
{
    /* An END may name the register of its loop, for readers. */
    if (nest->n_open == nest->least_open || item->body != 0 ||
        (item->reg != 0 && item->reg != nest->open[nest->n_open - 1]))
        return dt_check_fail(check, "SCHD", index, "ends no loop");
    uint32_t reg = nest->open[--nest->n_open];
    nest->reg[reg] = (CheckRange){0, 0};
    nest->unset &= ~(1u << reg);
    return true;
}

/* Whether the items belong to a step of a ramp, which runs the last micro-batches only. */
static bool is_ramped(const DtPlan *plan, uint32_t entry)
{
    const char *name = dt_plan_str(plan, plan->entries[entry].name);
    bool is_step = false;
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        is_step |= strcmp(dt_plan_str(plan, plan->objectives[i].step), name) == 0;
    return plan->meta->ramp_by > 0 && is_step;
}

static bool set_register(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest)
{
    if ((nest->called && item->reg != DT_PLAN_REG_RINGBUF) || item->reg >= DT_PLAN_REGS ||
        item->body >= DT_PLAN_REGS || item->plus >= DT_PLAN_REGS || is_open(nest, item->reg))
        return dt_check_fail(check, "SCHD", index, "sets register %u out of %u", item->reg,
                             item->body);
    if (item->count < 0 || item->count > limit || item->first < -limit || item->first > limit ||
        item->step < -limit || item->step > limit ||
        (item->reg == DT_PLAN_REG_RINGBUF && item->count == 0))
        return dt_check_fail(check, "SCHD", index, "%lld + %lld of a register, modulo %lld",
                             (long long)item->first, (long long)item->step, (long long)item->count);
    if (item->step != 0 && item->body == 0 && is_ramped(check->plan, nest->entry))
        return dt_check_fail(check, "SCHD", index,
                             "a register counts micro-batches, of which a ramp leaves some out");
    if ((item->step != 0 && nest->unset >> item->body & 1) ||
        (item->plus != 0 && nest->unset >> item->plus & 1))
        return dt_check_fail(check, "SCHD", index, "register %u or %u has no value", item->body,
                             item->plus);
    CheckRange from = nest->reg[item->body]; /* below 2^40: times 2^31 it stays within 128 bits */
    CheckRange plus = item->plus ? nest->reg[item->plus] : (CheckRange){0, 0};
    DtWide x = (DtWide)item->step * from.lo + item->first,
           y = (DtWide)item->step * from.hi + item->first;
    CheckWide sum = {(x < y ? x : y) + plus.lo, (x < y ? y : x) + plus.hi};
    if (sum.lo < -((DtWide)limit << 9) || sum.hi > (DtWide)limit << 9)
        return dt_check_fail(check, "SCHD", index, "register %u leaves its range", item->reg);
    bool wraps = item->count != 0 && (sum.lo < 0 || sum.hi >= item->count);
    nest->reg[item->reg] =
        wraps ? (CheckRange){0, item->count - 1} : (CheckRange){(int64_t)sum.lo, (int64_t)sum.hi};
    nest->unset &= ~(1u << item->reg);
    if (item->reg == DT_PLAN_REG_RINGBUF && item->count > nest->leaves.slots)
        nest->leaves.slots = item->count;
    return true;
}

static bool check_items(Check *check, uint32_t from, uint32_t to, Nest *nest, Stage *stage);

static bool call_entry(Check *check, uint32_t index, const DtPlanSchedule *item, Nest *nest,
                       Stage *stage)
{
    const DtPlan *plan = check->plan;
    if (nest->called || item->body >= nest->entry ||
        !dt_plan_on_stage(plan->entries[item->body].stage, stage->number))
        return dt_check_fail(check, "SCHD", index, "cannot call entry %u from entry %u", item->body,
                             nest->entry);
    const DtPlanEntry *entry = &plan->entries[item->body];
    Nest inner = *nest;
    inner.called = true;
    inner.end = entry->first + entry->count;
    inner.least_open = nest->n_open;
    if (!check_items(check, entry->first, inner.end, &inner, stage))
        return false;
    nest->total = inner.total;
    nest->leaves = inner.leaves;
    memcpy(nest->reg, inner.reg, sizeof inner.reg);
    nest->unset = inner.unset;
    return inner.n_open == nest->n_open ||
           dt_check_fail(check, "SCHD", index, "a loop of the called entry does not end");
}

static bool check_item(Check *check, uint32_t index, Nest *nest, Stage *stage)
{
    const DtPlanSchedule *item = &check->plan->schedule[index];
    if (item->plus != 0 && item->kind != DT_SCHED_SET)
        return dt_check_fail(check, "SCHD", index, "only SET adds a register");
    if (++stage->items > DT_CHECK_MAX_ITEMS)
        return dt_check_fail(check, "SCHD", index, "the schedules have more than %d items",
                             DT_CHECK_MAX_ITEMS);
    if (item->kind == DT_SCHED_LOOP) {
        if (item->body != 0)
            return dt_check_fail(check, "SCHD", index, "a loop names a body");
        return open_loop(check, index, item, nest, stage);
    }
    if (item->kind == DT_SCHED_SET)
        return set_register(check, index, item, nest);
    if (item->first != 0 || item->step != 0 || item->count != 0 ||
        (item->reg != 0 && item->kind != DT_SCHED_END))
        return dt_check_fail(check, "SCHD", index, "only loops count");
    if (item->kind == DT_SCHED_END)
        return end_loop(check, index, item, nest);
    if (item->kind == DT_SCHED_CALL)
        return call_entry(check, index, item, nest, stage);
    if (item->body >= check->plan->n_bodies)
        return dt_check_fail(check, "SCHD", index, "body %u of %u", item->body,
                             check->plan->n_bodies);
    nest->total += nest->runs[nest->n_open];
    if (nest->total > DT_CHECK_MAX_RUNS)
        return dt_check_fail(check, "SCHD", index, "runs more than %d bodies", DT_CHECK_MAX_RUNS);
    widen(stage, item->body, nest);
    return true;
}

/* Checks a WHEN: its items run for a part of a register's values. */
static bool check_when(Check *check, uint32_t index, uint32_t end, Nest *nest, Stage *stage)
{
    const DtPlan *plan = check->plan;
    const DtPlanSchedule *item = &plan->schedule[index];
    uint32_t set = 0;
    if (item->plus != 0 || item->step != 0 || item->reg >= DT_PLAN_REGS || item->body < 1 ||
        item->body >= end - index || item->count < 1)
        return dt_check_fail(check, "SCHD", index, "guards %u items by register %u", item->body,
                             item->reg);
    for (uint32_t i = index + 1; i <= index + item->body; i++) {
        const DtPlanSchedule *inner = &plan->schedule[i];
        if (inner->kind != DT_SCHED_RUN && inner->kind != DT_SCHED_SET &&
            inner->kind != DT_SCHED_WHEN)
            return dt_check_fail(check, "SCHD", i, "only RUN, SET and WHEN are guarded");
        set |= inner->kind == DT_SCHED_SET ? 1u << (inner->reg & 31) : 0;
    }
    if (nest->unset >> item->reg & 1)
        return dt_check_fail(check, "SCHD", index, "register %u has no value", item->reg);
    if (nest->n_when == 2)
        return dt_check_fail(check, "SCHD", index, "three guards in one another");
    const CheckRange all = nest->reg[item->reg], part = {item->first,
                                                         (int64_t)item->first + item->count - 1},
                     ring = nest->reg[DT_PLAN_REG_RINGBUF];
    nest->reg[item->reg] = (CheckRange){part.lo > all.lo ? part.lo : all.lo,
                                        part.hi < all.hi ? part.hi : all.hi};
    if (nest->reg[item->reg].lo > nest->reg[item->reg].hi) {
        nest->reg[item->reg] = all;
        /* a piece is called for other micro-batches as well */
        return (plan->meta->pipeline && item->reg == 0) ||
               dt_check_fail(check, "SCHD", index, "what it guards never runs");
    }
    if (item->reg == 0 && part.lo != (int64_t)plan->meta->n_micro - 1 &&
        is_ramped(plan, nest->entry))
        return dt_check_fail(check, "SCHD", index,
                             "a step of a ramp may leave out the micro-batches that it guards");
    nest->n_when++;
    if (!check_items(check, index + 1, index + 1 + item->body, nest, stage))
        return false;
    if (set >> item->reg & 1)
        return dt_check_fail(check, "SCHD", index, "register %u is set where it guards", item->reg);
    nest->n_when--;
    nest->reg[item->reg] = all;
    /* the called items may have run or not: the ring's register has either value */
    nest->unset |= set & ~(1u << DT_PLAN_REG_RINGBUF);
    if (set >> DT_PLAN_REG_RINGBUF & 1)
        nest->reg[DT_PLAN_REG_RINGBUF] = hull_of(ring, nest->reg[DT_PLAN_REG_RINGBUF]);
    return true;
}

static bool check_items(Check *check, uint32_t from, uint32_t to, Nest *nest, Stage *stage)
{
    for (uint32_t i = from; i < to; i++) {
        const DtPlanSchedule *item = &check->plan->schedule[i];
        if (item->kind != DT_SCHED_WHEN) {
            if (!check_item(check, i, nest, stage))
                return false;
            continue;
        }
        if (!check_when(check, i, to, nest, stage))
            return false;
        i += item->body;
    }
    return true;
}

static bool check_entry_records(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const DtPlanEntry *entry = &plan->entries[e];
        if (!dt_check_range(check, "ENTR", e, "schedule", entry->first, entry->count,
                            plan->n_schedule) ||
            !dt_check_stage(check, "ENTR", e, entry->stage))
            return false;
        for (uint32_t o = 0; o < e; o++) {
            const DtPlanEntry *other = &plan->entries[o];
            if ((other->stage < 0 || dt_plan_on_stage(entry->stage, (uint32_t)other->stage)) &&
                strcmp(dt_plan_str(plan, other->name), dt_plan_str(plan, entry->name)) == 0)
                return dt_check_fail(check, "ENTR", e, "an entry occurs twice");
        }
    }
    return true;
}

static bool walk_entries(Check *check, Stage *stage)
{
    const DtPlan *plan = check->plan;
    for (uint32_t e = 0; e < plan->n_entries; e++) {
        const DtPlanEntry *entry = &plan->entries[e];
        if (!dt_plan_on_stage(entry->stage, stage->number))
            continue;
        Nest nest = {.entry = e, .end = entry->first + entry->count, .runs = {1},
                     .trains = !dt_check_predicts(plan, entry->name)};
        if (!check_items(check, entry->first, nest.end, &nest, stage))
            return false;
        if (nest.n_open != 0)
            return dt_check_fail(check, "ENTR", e, "a loop does not end within the entry");
        stage->leaves[e] = nest.leaves;
    }
    return true;
}

/* ---- bodies ---- */

/* Checks the second form of a product, with the ranges of registers with which the product runs. */
static bool check_second(const CheckInst *product)
{
    const DtPlan *plan = product->check->plan;
    const uint32_t b = product->inst->instead - 1;
    char why[DT_CHECK_WHY];
    if (!dt_check_range(product->check, "INST", product->index, "bodies", b, 1, plan->n_bodies))
        return false;
    for (uint32_t i = 0; i < plan->bodies[b].n_insts; i++) {
        const uint32_t index = plan->bodies[b].first_inst + i;
        CheckInst at = *product;
        at.inst = &plan->insts[index];
        at.index = index;
        at.is_second = true;
        if (!dt_check_inst(&at))
            return false;
    }
    return dt_check_instead(plan, product->inst, why) ||
           dt_check_fail(product->check, "INST", product->index, "%s", why);
}

/* Checks a body with these ranges of registers. Sets `ran` for the bodies of second forms. */
static bool check_body(Check *check, uint32_t b, uint32_t stage, const CheckHull *hull, bool *ran)
{
    const DtPlan *plan = check->plan;
    const DtPlanBody *body = &plan->bodies[b];
    for (uint32_t i = 0; i < body->n_insts; i++) {
        uint32_t index = body->first_inst + i;
        const CheckInst at = {check, &plan->insts[index], index, stage, hull, false};
        if (!dt_check_inst(&at) || (at.inst->instead && !check_second(&at)))
            return false;
        if (at.inst->instead)
            ran[at.inst->instead - 1] = true;
    }
    return true;
}

/* Walks all entries of a stage, and sets ret_ran[b] for the bodies that it runs. */
static bool check_stage(Check *check, Stage *stage, bool *ret_ran)
{
    if (!walk_entries(check, stage))
        return false;
    for (uint32_t i = 0; i < stage->n; i++)
        if (!check_body(check, stage->list[i], stage->number, &stage->hulls[stage->list[i]],
                        ret_ran))
            return false;
    for (uint32_t i = 0; i < stage->n; i++) {
        stage->hulls[stage->list[i]] = (CheckHull){.runs = false};
        ret_ran[stage->list[i]] = true;
    }
    stage->n = 0;
    return true;
}

static bool check_all(Check *check, Stage *stage, bool *ran)
{
    const DtPlan *plan = check->plan;
    const CheckHull still = {.runs = true};
    for (uint32_t b = 0; b < plan->n_bodies; b++)
        if (!dt_check_range(check, "BODY", b, "instructions", plan->bodies[b].first_inst,
                            plan->bodies[b].n_insts, plan->n_insts))
            return false;
    if (!check_entry_records(check))
        return false;
    for (uint32_t s = 0; s < dt_plan_stages(plan); s++) {
        stage->number = s;
        if (!check_stage(check, stage, ran))
            return false;
    }
    /* Checks bodies that never run, too, since reports read them. */
    for (uint32_t b = 0; b < plan->n_bodies; b++)
        if (!ran[b] && !check_body(check, b, 0, &still, ran))
            return false;
    return check->events == plan->meta->events ||
           dt_check_fail(check, "META", 0, "%u events, where instructions name %lld",
                         plan->meta->events, (long long)check->events);
}

bool dt_check_run(Check *check)
{
    const DtPlan *plan = check->plan;
    size_t n = (size_t)plan->n_bodies + 1;
    Stage stage = {.hulls = calloc(n, sizeof(CheckHull)), .list = calloc(n, sizeof(uint32_t)),
                   .leaves = calloc((size_t)plan->n_entries + 1, sizeof(Leaves))};
    bool *ran = calloc(n, sizeof *ran);
    bool good = stage.hulls != NULL && stage.list != NULL && stage.leaves != NULL && ran != NULL
                    ? check_all(check, &stage, ran)
                    : dt_check_fail(check, "BODY", plan->n_bodies, "no memory left for checking");
    free(stage.hulls);
    free(stage.list);
    free(stage.leaves);
    free(ran);
    return good;
}
