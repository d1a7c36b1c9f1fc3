/* SPDX-License-Identifier: Apache-2.0 */
/* Reuses the check of attention in blocks from an earlier iteration of the loops around it. Reads
 * of values that the blocks computed find the same values again if the accesses have the same
 * positions relative to each other: accesses whose addresses depend alike on the loops' registers
 * always have; the others must be disjoint, then and now. What is left to check are reads of other
 * values, accumulations, and the results. */
#include "verify/plan_internal.h"

#include <string.h>

enum { MOST_CLASSES = 64 };

typedef struct Read {
    uint32_t value;
    const DtPlanArg *arg;
    PlanPlace place;
    int64_t base;            /* where all of the value is */
    int64_t at, rows, width; /* where the block that reads it is */
} Read;

/* Accesses of an arena whose addresses depend alike on all registers, except those of the loops
 * over blocks. lo, hi: range of bytes if registers without a value are 0; above: how much these may
 * add at most. */
typedef struct Class {
    const DtPlanArg *like;
    int64_t lo, hi, above;
    bool written;
} Class;

struct PlanTileMemo {
    const uint8_t *note, *end;
    const DtPlanEntry *entry;
    bool bad; /* its reads cannot be reused: it is checked each time */
    DT_VEC(Read) reads;
    DT_VEC(const DtPlanArg *) args; /* the accesses, each place once */
    DT_VEC(const DtPlanArg *) outputs; /* those of them that are outputs, block by block */
    const DtPlanArg *output[8];     /* by output: the first access that writes it */
};

static struct PlanTileMemo *find(const PlanWalk *walk, const uint8_t *note)
{
    for (uint32_t i = 0; i < walk->memos.n; i++)
        if (walk->memos.at[i]->note == note && walk->memos.at[i]->entry == walk->at_entry)
            return walk->memos.at[i];
    return NULL;
}

/* ---- recording the first check ---- */

void dt_certmemo_begin(PlanWalk *walk, const uint8_t *note)
{
    walk->memo = NULL;
    if (find(walk, note))
        return;
    walk->memo = DT_NEW(walk->arena, struct PlanTileMemo);
    *walk->memo = (struct PlanTileMemo){.note = note, .entry = walk->at_entry};
}

static bool depends_alike(const PlanWalk *walk, const DtPlanArg *a, const DtPlanArg *b, bool known);

/* Records one read that stands for the reads of all blocks of a value: if the value is at the same
 * place again, all of them are right. */
void dt_certmemo_read(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, const PlanPlace *place,
                      int64_t base)
{
    struct PlanTileMemo *memo = walk->memo;
    const PlanTiles *tiles = &walk->tiles;
    for (uint32_t i = 0; memo && i < memo->reads.n; i++) {
        const Read *read = &memo->reads.at[i];
        if (read->value == value && read->base == base && depends_alike(walk, read->arg, arg, true))
            return;
    }
    if (memo)
        DT_PUSH(walk->arena, memo->reads, ((Read){value, arg, *place, base, tiles->at, tiles->rows,
                                                  tiles->width}));
}

void dt_certmemo_output(PlanWalk *walk, const DtPlanArg *arg)
{
    if (walk->memo)
        DT_PUSH(walk->arena, walk->memo->outputs, arg);
}

void dt_certmemo_zero(PlanWalk *walk, uint64_t stamp)
{
    if (walk->memo && stamp < walk->opened)
        walk->memo->bad = true;
}

static bool is_same(const DtPlanArg *a, const DtPlanArg *b)
{
    return a == b || (a->base == b->base && memcmp(a, b, sizeof *a) == 0);
}

static void add_arg(PlanWalk *walk, struct PlanTileMemo *memo, const DtPlanArg *arg)
{
    for (uint32_t i = 0; i < memo->args.n; i++)
        if (is_same(memo->args.at[i], arg))
            return;
    DT_PUSH(walk->arena, memo->args, arg);
}

static void list_args(PlanWalk *walk, struct PlanTileMemo *memo, uint32_t from, uint32_t to)
{
    const DtPlan *plan = walk->plan;
    for (uint32_t i = from; i < to; i++) {
        const DtPlanBody *body =
            plan->schedule[i].kind == DT_SCHED_RUN ? &plan->bodies[plan->schedule[i].body] : NULL;
        for (uint32_t k = 0; body && k < body->n_insts; k++) {
            const DtPlanInst *inst = &plan->insts[body->first_inst + k];
            for (uint32_t a = 0; a < inst->n_args; a++)
                if (plan->args[inst->first_arg + a].kind == DT_ARG_ADDRESS)
                    add_arg(walk, memo, &plan->args[inst->first_arg + a]);
        }
    }
}

/* ---- whether all places are as they were ---- */

static bool is_of_blocks(const PlanWalk *walk, uint32_t reg)
{
    for (uint32_t k = 0; k < walk->tiles.n_open; k++)
        if (walk->tiles.regs[k] == reg)
            return true;
    return false;
}

/* Whether two arguments are in one arena and depend in the same way on registers other than those
 * of loops over blocks. known: compares the registers that have a value; otherwise those without
 * one (slots). */
static bool depends_alike(const PlanWalk *walk, const DtPlanArg *a, const DtPlanArg *b, bool known)
{
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
        if (a->reg[r] != b->reg[r] && known == (walk->count[r] == 0) && !is_of_blocks(walk, r))
            return false;
    return a->arena == b->arena;
}

static Class class_of(const PlanWalk *walk, const DtPlanArg *arg)
{
    Class class = {.like = arg, .written = arg->written};
    PlanPlace place;
    dt_certplan_arg(walk, arg, &place);
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++) {
        if (!place.reg[r] || is_of_blocks(walk, r))
            continue;
        class.above += place.reg[r] * (walk->count[r] - 1); /* registers of slots are not
                                                             * negative */
        place.reg[r] = 0;
    }
    dt_certplan_hull(walk, &place, &class.lo, &class.hi);
    return class;
}

static bool touches(const PlanWalk *walk, const Class *a, const Class *b)
{
    const bool alike = depends_alike(walk, a->like, b->like, false);
    return (a->written || b->written) && a->like->arena == b->like->arena &&
           a->lo < b->hi + (alike ? 0 : b->above) && b->lo < a->hi + (alike ? 0 : a->above);
}

/* Whether accesses whose addresses depend on different loop registers (of those that have a value)
 * touch no common byte, where at least one of them writes. Registers of loops over blocks may take
 * any value of their loop. False also if there are too many classes to compare. */
static bool lies_apart(const PlanWalk *walk, const struct PlanTileMemo *memo)
{
    Class classes[MOST_CLASSES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < memo->args.n; i++) {
        const Class now = class_of(walk, memo->args.at[i]);
        uint32_t c = 0;
        while (c < n && !(depends_alike(walk, classes[c].like, now.like, true) &&
                          depends_alike(walk, classes[c].like, now.like, false)))
            c++;
        if (c == MOST_CLASSES)
            return false;
        if (c == n)
            classes[n++] = now;
        classes[c].lo = now.lo < classes[c].lo ? now.lo : classes[c].lo;
        classes[c].hi = now.hi > classes[c].hi ? now.hi : classes[c].hi;
        classes[c].written = classes[c].written || now.written;
    }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < a; b++)
            if (!depends_alike(walk, classes[a].like, classes[b].like, true) &&
                touches(walk, &classes[a], &classes[b]))
                return false;
    return true;
}

/* Ends the record of the first check: adds the accesses of items from .. to, and marks the record
 * as bad if accesses may overlap in other iterations (lies_apart). */
void dt_certmemo_end(PlanWalk *walk, uint32_t from, uint32_t to)
{
    struct PlanTileMemo *memo = walk->memo;
    walk->memo = NULL;
    if (!memo)
        return;
    memo->end = walk->note;
    memcpy(memo->output, walk->tiles.arg, sizeof memo->output);
    list_args(walk, memo, from, to);
    memo->bad = memo->bad || !lies_apart(walk, memo);
    DT_PUSH(walk->arena, walk->memos, memo);
}

static bool lies_alike(const PlanPlace *a, const PlanPlace *b)
{
    PlanPlace moved = *b;
    dt_certplan_put(&moved, a);
    return dt_certplan_alike(a, &moved);
}

static bool reads_same(PlanWalk *walk, const struct PlanTileMemo *memo)
{
    PlanTiles *tiles = &walk->tiles;
    bool same = true;
    tiles->block = 1;
    for (uint32_t i = 0; same && i < memo->reads.n; i++) {
        const Read *read = &memo->reads.at[i];
        PlanPlace place;
        tiles->at = read->at, tiles->rows = read->rows, tiles->width = read->width;
        same = dt_certplan_is_there(walk, read->value, read->arg, &place) &&
               lies_alike(&place, &read->place);
    }
    tiles->block = 0;
    tiles->at = tiles->rows = tiles->width = 0;
    return same;
}

static bool is_of_output(const struct PlanTileMemo *memo, const DtPlanArg *arg)
{
    for (uint32_t i = 0; i < memo->outputs.n; i++)
        if (is_same(memo->outputs.at[i], arg))
            return true;
    return false;
}

static bool writes_same(PlanWalk *walk, const struct PlanTileMemo *memo)
{
    for (uint32_t i = 0; i < memo->args.n; i++) {
        PlanPlace place;
        if (!memo->args.at[i]->written || is_of_output(memo, memo->args.at[i]))
            continue;
        dt_certplan_arg(walk, memo->args.at[i], &place);
        dt_certplan_spoil(walk, &place, false);
        if (!dt_certplan_may_write(walk, &place))
            return false;
    }
    for (uint32_t i = 0; i < walk->tiles.n_outputs; i++)
        if (!dt_certplan_place_output(walk, i, memo->output[i]))
            return false;
    return true;
}

/* Gives the registers of the loops over blocks their first values, and enters these loops in
 * walk->tiles. The first one is item `at`. */
static void open_loops(PlanWalk *walk, uint32_t at, uint32_t end)
{
    PlanTiles *tiles = &walk->tiles;
    for (uint32_t i = at; i < end; i++) {
        const DtPlanSchedule *item = &walk->plan->schedule[i];
        if (item->kind != DT_SCHED_LOOP)
            continue;
        tiles->regs[tiles->n_open] = item->reg;
        tiles->n_open++;
        walk->count[item->reg] = item->count;
    }
    walk->depth = tiles->n_open;
    walk->opened = ++walk->clock;
    walk->holes.n = 0;
}

static void close_loops(PlanWalk *walk)
{
    while (walk->tiles.n_open > 0) {
        const uint32_t reg = walk->tiles.regs[--walk->tiles.n_open];
        dt_certplan_widen(walk, reg);
        walk->count[reg] = 0;
    }
    walk->depth = 0;
}

bool dt_certmemo_repeats(PlanWalk *walk, const uint8_t *note, uint32_t at, uint32_t end)
{
    const struct PlanTileMemo *memo = find(walk, note);
    if (!memo || memo->bad)
        return false;
    open_loops(walk, at, end);
    const bool same = lies_apart(walk, memo) && reads_same(walk, memo);
    if (same && writes_same(walk, memo))
        walk->note = memo->end;
    close_loops(walk);
    walk->tiles.open = !same;
    if (same && !walk->problem->len)
        dt_certplan_untile(walk);
    return same;
}
