/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arguments of instructions: proves that they have the values which the notes state, for
 * all values of registers and coordinates. */
#include "verify/plan_internal.h"

int64_t dt_certplan_stage_step(const PlanWalk *walk, const DtPlanArg *arg)
{
    int64_t step = 0;
    for (uint32_t c = 0; c < DT_PLAN_COORDS; c++)
        step += arg->coord_axis[c] + 1u == walk->plan->meta->pipeline ? arg->coord[c] : 0;
    return step;
}

static void add_bases(PlanWalk *walk, int64_t *reg, int64_t *coord)
{
    uint64_t n = dt_certplan_word(walk);
    for (uint64_t i = 0; i < n && !walk->problem->len; i++) {
        int64_t block = dt_certplan_signed(walk), extent = (int64_t)dt_certplan_word(walk);
        uint64_t n_split = dt_certplan_word(walk);
        for (uint64_t s = 0; s < n_split && !walk->problem->len; s++) {
            uint64_t m = dt_certplan_word(walk);
            if (m >= walk->program->n_mesh || extent < 1 || extent > PLAN_BYTES ||
                block > PLAN_BYTES / extent || block < -PLAN_BYTES / extent) {
                dt_certplan_fail(walk, "an integer counts along no axis");
                break;
            }
            extent /= walk->program->size[m];
            dt_certplan_dealt(walk, (uint32_t)m, block * extent, reg, coord);
        }
    }
}

/* Adds to the base and the registers the number of elements of a random draw that come before this
 * block of attention. False: not inside a block. */
static bool add_block(PlanWalk *walk, int64_t *ret_base, int64_t *reg)
{
    const PlanTiles *tiles = &walk->tiles;
    const int64_t most = PLAN_BYTES / (tiles->n_queries + 1), per = dt_certplan_signed(walk);
    bool good = tiles->open && tiles->n_open == tiles->n_loops && per <= most && per >= -most;
    *ret_base = good ? per * tiles->at : 0;
    for (uint32_t k = 0; good && k < tiles->n_loops; k++) {
        const int64_t each = dt_certplan_signed(walk);
        good = each <= PLAN_BYTES && each >= -PLAN_BYTES;
        reg[tiles->regs[k]] += each;
    }
    return good || dt_certplan_fail(walk, "an integer counts blocks, and is in none");
}

bool dt_certplan_integer(PlanWalk *walk, const DtPlanArg *arg)
{
    PlanPlace have, want = {.bytes = 0};
    const CertEntry *entry = walk->entries.at[walk->entries.n - 1]->entry;
    int64_t step = 1, grows = 0, behind = entry->stage < 0 ? 0 : walk->stage - entry->stage;
    uint64_t kind = dt_certplan_word(walk);
    dt_certplan_raw(walk, arg, &have);
    have.arena = 0, have.bytes = 0;
    switch (kind) {
    case DT_NOTE_BASES: add_bases(walk, want.reg, want.coord); break;
    case DT_NOTE_STEP: break;
    case DT_NOTE_ELEMENT:
        if (!add_block(walk, &want.base, want.reg))
            return false;
        break;
    case DT_NOTE_ITERATION:
    case DT_NOTE_INDEX:
        for (const PlanFrame *frame = walk->frame; frame && frame->kind != PLAN_ENTRY;
             frame = frame->outer) {
            if (frame->kind != PLAN_BODY)
                continue;
            want.reg[frame->reg] = step;
            want.base += step * (frame->op->loop->first + behind * frame->op->loop->step);
            grows += step * frame->op->loop->step;
            step *= frame->op->loop->count;
            if (kind == DT_NOTE_INDEX)
                break;
        }
        break;
    default: return dt_certplan_fail(walk, "an integer has no note");
    }
    if (entry->to > entry->stage && grows != dt_certplan_stage_step(walk, arg))
        return dt_certplan_fail(
            walk, "an integer does not grow with the stage as the loop's first iteration does");
    return ((kind == DT_NOTE_STEP) == (arg->kind == DT_ARG_STEP) &&
            dt_certplan_same(&have, &want)) ||
           dt_certplan_fail(walk, "an integer is not what the kernel counts from");
}
