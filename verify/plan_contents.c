/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of memory at the current instruction: which value, store, input, zeros or sum each
 * piece of it holds. Instructions that write a place end what was there before; those that read
 * one ask whether it holds a value, is zero, or has been added to. */
#include "verify/plan_internal.h"

PlanRegion *dt_certplan_hold(PlanWalk *walk, PlanRegionKind kind, const PlanPlace *place)
{
    PlanRegion *region = DT_NEW(walk->scratch, PlanRegion);
    *region = (PlanRegion){.kind = kind, .place = *place, .alive = true, .depth = walk->depth,
                           .stamp = ++walk->clock, .id = -1};
    dt_certplan_push_region(walk, region);
    return region;
}

void dt_certplan_hold_store(PlanWalk *walk, int64_t store, const PlanPlace *place)
{
    PlanRegion *region = dt_certplan_hold(walk, PLAN_STORE, place);
    region->id = store;
    region->next = walk->of_store[store];
    walk->of_store[store] = region;
}

PlanRegion *dt_certplan_hold_input(PlanWalk *walk, const char *name, const PlanPlace *place)
{
    PlanRegion *region = dt_certplan_hold(walk, PLAN_INPUT, place);
    region->name = name;
    region->next = walk->inputs;
    walk->inputs = region;
    return region;
}

PlanRegion *dt_certplan_define(PlanWalk *walk, PlanFrame *frame, uint32_t value,
                               const PlanPlace *place, bool added)
{
    frame = dt_certplan_home(walk, frame, value);
    PlanRegion *region = dt_certplan_hold(walk, added ? PLAN_ADDED : PLAN_VALUE, place);
    region->next = frame->regions[value];
    region->of = &frame->regions[value];
    frame->regions[value] = region;
    return region;
}

void dt_certplan_define_by(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place,
                           bool added, const DtPlanArg *arg)
{
    PlanRegion *region = dt_certplan_define(walk, frame, value, place, added);
    region->arg = arg;
    if (added)
        walk->added[arg - walk->plan->args] = region->stamp;
}

/* Adds a hole to zeroed memory or to a store, unless it has that hole: the bytes around the written
 * ones are as before. */
static void add_hole(PlanWalk *walk, PlanRegion *region, const PlanPlace *written)
{
    for (const PlanHole *hole = region->holes; hole; hole = hole->next)
        if (dt_certplan_same(&hole->place, written))
            return;
    PlanHole *hole = DT_NEW(walk->scratch, PlanHole);
    *hole = (PlanHole){*written, region->holes};
    region->holes = hole;
    if (walk->depth)
        DT_PUSH(walk->arena, walk->holes, hole);
}

bool dt_certplan_in_hole(const PlanWalk *walk, const PlanRegion *region, const PlanPlace *place)
{
    for (const PlanHole *hole = region->holes; hole; hole = hole->next)
        if (dt_certplan_meets(walk, &hole->place, place))
            return true;
    return false;
}

/* Forgets what regions contain that were written before the time `before` and that the write may
 * overlap; zeroed regions and stores around it get a hole. ahead: it is a write of a loop over
 * blocks that is about to be walked; then zeros and sums stay, since each instruction that adds
 * checks them again. */
static void spoil(PlanWalk *walk, const PlanPlace *written, bool ahead, uint64_t before)
{
    const PlanList *near = dt_certplan_near(walk, written);
    for (uint32_t i = 0; i < near->n; i++) {
        PlanRegion *region = near->at[i];
        if (region->alive && region->stamp < before &&
            !(ahead && (region->kind == PLAN_ZERO || region->kind == PLAN_ADDED)) &&
            dt_certplan_meets(walk, &region->place, written)) {
            region->alive = (region->kind == PLAN_ZERO || region->kind == PLAN_STORE) &&
                            dt_certplan_contains(walk, &region->place, written) &&
                            !dt_certplan_same(&region->place, written);
            if (region->alive)
                add_hole(walk, region, written);
        }
    }
}

void dt_certplan_spoil(PlanWalk *walk, const PlanPlace *written, bool ahead)
{
    if (ahead)
        dt_certplan_is_still(walk, written);
    else
        dt_certplan_wrote(walk, written);
    spoil(walk, written, ahead, UINT64_MAX);
}

void dt_certplan_spoil_old(PlanWalk *walk, const PlanPlace *written, uint64_t before)
{
    spoil(walk, written, false, before);
}

/* Whether the place is a different one in each iteration of the loops over blocks that are deeper
 * than `outer` and at most `inner`. */
static bool has_iterations(const PlanWalk *walk, const PlanPlace *place, uint32_t outer,
                           uint32_t inner)
{
    for (uint32_t r = 0; r < DT_PLAN_REGS; r++) {
        int64_t step = r < DT_PLAN_ARG_REGS ? place->reg[r] : 0;
        bool between = walk->open[r] > outer && walk->open[r] <= inner;
        if (between && walk->count[r] > 1 && step < place->bytes && -step < place->bytes)
            return false;
    }
    return true;
}

bool dt_certplan_is_zero(PlanWalk *walk, const PlanPlace *place, uint32_t depth, bool fresh)
{
    const PlanList *near = dt_certplan_near(walk, place);
    for (uint32_t i = 0; i < near->n; i++) {
        const PlanRegion *region = near->at[i];
        if (region->alive && region->kind == PLAN_ZERO && region->depth <= depth &&
            dt_certplan_contains(walk, &region->place, place) &&
            !dt_certplan_in_hole(walk, region, place) &&
            (!fresh || has_iterations(walk, place, region->depth, depth))) {
            dt_certplan_log(walk, region->stamp);
            dt_certmemo_zero(walk, region->stamp);
            return true;
        }
    }
    dt_certplan_log(walk, 0);
    return false;
}

bool dt_certplan_is_added(PlanWalk *walk, const PlanPlace *place, uint32_t depth)
{
    const PlanList *near = dt_certplan_near(walk, place);
    for (uint32_t i = 0; i < near->n; i++) {
        const PlanRegion *region = near->at[i];
        if (region->alive && region->kind == PLAN_ADDED && region->depth <= depth &&
            dt_certplan_meets(walk, &region->place, place)) {
            dt_certplan_log(walk, region->stamp);
            return true;
        }
    }
    dt_certplan_log(walk, 0);
    return false;
}

/* Whether the value was computed in the present block of attention, and so has the layout of a
 * block. */
static bool is_block(const PlanWalk *walk, uint32_t value)
{
    return walk->tiles.open && walk->tiles.mark[value] == walk->tiles.block;
}

static bool is_found(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, const PlanPlace *place,
                     PlanPlace *ret_place)
{
    PlanFinds found;
    const uint32_t n =
        dt_certplan_find(walk, walk->frame, value, walk->tiles.open ? NULL : place, &found);
    for (uint32_t i = 0; i < n; i++) {
        if (walk->tiles.open && walk->tiles.mark[value] && found.at[i].stamp <= walk->tiles.began)
            continue; /* an earlier block has computed it */
        const int64_t base = found.at[i].place.base;
        if (walk->tiles.open && !is_block(walk, value))
            dt_certplan_cut(walk, &found.at[i].place);
        if (!found.at[i].added && !found.at[i].summed &&
            dt_certplan_same(&found.at[i].place, place)) {
            *ret_place = found.at[i].place;
            dt_certplan_log(walk, found.at[i].stamp);
            if (walk->tiles.open && !is_block(walk, value))
                dt_certmemo_read(walk, value, arg, ret_place, base);
            return true;
        }
    }
    return false;
}

bool dt_certplan_is_there(PlanWalk *walk, uint32_t value, const DtPlanArg *arg,
                          PlanPlace *ret_place)
{
    PlanPlace place;
    dt_certplan_arg(walk, arg, &place);
    return is_found(walk, value, arg, &place, ret_place) ||
           (dt_certplan_assume(walk, walk->frame, value, &place) &&
            is_found(walk, value, arg, &place, ret_place));
}
