/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in blocks: its ops run once per block of queries, inside loops over the other axes of
 * the scores. A block has all keys, or those that the mask does not hide (plan_mask.c); guards
 * restrict it to some coordinates and ring steps. At each of these points, blocks must cover the
 * queries in order, and each block must write all outputs: its part of each or, if an op sums over
 * queries or over a loop, a term that is added. Other results of a block belong to that block
 * only. */
#include "verify/plan_internal.h"

#include <string.h>

static const char *axis_note(PlanWalk *walk, int64_t *ret_extent)
{
    uint64_t value = dt_certplan_word(walk), axis = dt_certplan_word(walk);
    if (value >= walk->frame->func->n_values ||
        axis >= dt_certplan_type(walk->frame, (uint32_t)value)->rank) {
        dt_certplan_fail(walk, "a note names no axis");
        return "";
    }
    const CertType *type = dt_certplan_type(walk->frame, (uint32_t)value);
    *ret_extent = dt_certplan_local(walk, type, (uint32_t)axis);
    return type->axes[axis].name;
}

static bool sums(const CertOp *op, const char *axis)
{
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (op->axes[i] == axis)
            return true;
    return false;
}

/* Checks an output: for each looped axis, either the output has it or its op sums over it. An
 * output may not accumulate a reduction over keys, since each block would add all keys. Outputs
 * with keys are added to zeros, so that elements which blocks leave out are zero. */
static bool is_output(PlanWalk *walk, const CertOp *op, uint32_t flags)
{
    const PlanTiles *tiles = &walk->tiles;
    const bool adds = flags & (DT_NOTE_ADDS | DT_NOTE_ZEROED), dot = strcmp(op->kind, "dot") == 0,
               reduce = strcmp(op->kind, "reduce") == 0, over = sums(op, tiles->keys);
    bool sum = (dot || reduce) && sums(op, tiles->queries);
    bool good = sum || dt_certtext_axis(op->types[0], tiles->queries);
    for (uint32_t k = 0; k < tiles->n_loops; k++) {
        bool away = (dot || reduce) && sums(op, tiles->loops[k]);
        sum = sum || away;
        good = good && (away || dt_certtext_axis(op->types[0], tiles->loops[k]));
    }
    good = good && (dot || reduce || dt_certplan_is_of_block(walk, op)) &&
           (dot || !sum || (!over && (!op->reduce || strcmp(op->reduce, "sum") == 0)));
    const bool left = !dot && tiles->causal && dt_certtext_axis(op->types[0], tiles->keys);
    if (left && !dt_certplan_hides(walk, reduce ? op->in[0] : op->first_out))
        return dt_certplan_fail(walk, "blocks leave out keys of an output that are not zero");
    return (good && (sum || left) == adds) ||
           dt_certplan_fail(walk, "an output of attention is not one of its blocks");
}

static bool names(const PlanTiles *tiles, const char *axis)
{
    bool found = axis == tiles->queries;
    for (uint32_t k = 0; k < tiles->n_loops; k++)
        found = found || axis == tiles->loops[k];
    return found;
}

/* Whether the op, applied to blocks of its operands, gives the block of its result: it works along
 * no axis that is cut. */
bool dt_certplan_is_of_block(const PlanWalk *walk, const CertOp *op)
{
    const PlanTiles *tiles = &walk->tiles;
    bool cut = false;
    for (uint32_t i = 0; i < op->n_axes + op->n_axes2; i++)
        cut = cut || (names(tiles, i < op->n_axes ? op->axes[i] : op->axes2[i - op->n_axes]) &&
                      strcmp(op->kind, "iota") != 0);
    for (uint32_t e = 0; e < op->n_relabels; e++)
        for (uint32_t i = 0; i < op->relabels[e].n_from; i++)
            cut = cut || names(tiles, op->relabels[e].from[i]);
    return !cut;
}

bool dt_certplan_tiles(PlanWalk *walk)
{
    PlanTiles *tiles = &walk->tiles;
    uint64_t n = dt_certplan_word(walk);
    if (tiles->open || n > 4)
        return dt_certplan_fail(walk, "attention inside attention");
    *tiles = (PlanTiles){.open = true, .n_loops = (uint32_t)n};
    for (uint32_t i = 0; i < n; i++)
        tiles->loops[i] = axis_note(walk, &tiles->counts[i]);
    tiles->queries = axis_note(walk, &tiles->n_queries);
    tiles->keys = axis_note(walk, &tiles->n_keys);
    tiles->mask.value = dt_certplan_number(walk);
    tiles->causal = tiles->mask.value != 0;
    tiles->n_outputs = dt_certplan_number(walk);
    tiles->mark = DT_NEW_ARRAY(walk->arena, uint32_t, walk->frame->func->n_values + 1);
    if (tiles->causal && !dt_certplan_mask(walk))
        return false;
    if (tiles->n_outputs > DT_COUNT(tiles->output))
        return dt_certplan_fail(walk, "attention has %u outputs", tiles->n_outputs);
    for (uint32_t i = 0; i < tiles->n_outputs && !walk->problem->len; i++) {
        uint64_t word = dt_certplan_word(walk);
        const CertOp *op = dt_certplan_op(walk, word / DT_NOTE_FLAGS);
        tiles->flags[i] = (uint32_t)(word % DT_NOTE_FLAGS);
        if (!op || !is_output(walk, op, tiles->flags[i]))
            return false;
        tiles->output[i] = op->first_out;
        dt_certplan_dense(walk, op->types[0], &tiles->place[i]);
        if (!dt_certplan_layout(walk, op->types[0], tiles->flags[i], &tiles->place[i]))
            return false;
    }
    return !walk->problem->len;
}

/* Begins the next block, whose rows and keys the note gives. Checks that all outputs of the block
 * before were written. */
bool dt_certplan_block(PlanWalk *walk)
{
    PlanTiles *tiles = &walk->tiles;
    int64_t at = (int64_t)dt_certplan_word(walk), rows = (int64_t)dt_certplan_word(walk),
            keys = (int64_t)dt_certplan_word(walk);
    if (!tiles->open || tiles->n_open != tiles->n_loops)
        return dt_certplan_fail(walk, "a block outside of attention");
    for (uint32_t i = 0; tiles->block && i < tiles->n_outputs; i++)
        if (tiles->wrote[i] != tiles->block)
            return dt_certplan_fail(walk, "a block of attention lacks output %u", i);
    int64_t next = tiles->at + tiles->rows;
    if (rows == 0) {
        if (tiles->causal ? !dt_certplan_covered(walk) : next != tiles->n_queries)
            return dt_certplan_fail(walk, "blocks end at query %lld of %lld", (long long)next,
                                    (long long)tiles->n_queries);
        tiles->open = false;
        return tiles->n_loops || dt_certplan_untile(walk);
    }
    if (at < 0 || (at != next && !tiles->causal) || rows < 0 || rows > tiles->n_queries - at ||
        keys > tiles->n_keys || keys < (tiles->causal ? 1 : tiles->n_keys))
        return dt_certplan_fail(walk, "a block of %lld queries from %lld and %lld keys",
                                (long long)rows, (long long)at, (long long)keys);
    tiles->at = at, tiles->rows = rows, tiles->width = keys;
    tiles->block++;
    tiles->began = walk->clock;
    return true;
}

void dt_certplan_cut(const PlanWalk *walk, PlanPlace *place)
{
    const PlanTiles *tiles = &walk->tiles;
    uint32_t rank = 0;
    for (uint32_t d = 0; d < place->rank; d++) {
        bool looped = false;
        for (uint32_t k = 0; k < tiles->n_loops; k++)
            if (place->axis[d] == tiles->loops[k]) {
                place->reg[tiles->regs[k]] += place->stride[d] * place->size;
                looped = true;
            }
        if (looped)
            continue;
        place->axis[rank] = place->axis[d];
        place->extent[rank] = place->extent[d];
        place->stride[rank] = place->stride[d];
        if (place->axis[rank] == tiles->queries) {
            place->base += tiles->at * place->stride[rank] * place->size;
            place->extent[rank] = tiles->rows;
        } else if (place->axis[rank] == tiles->keys) {
            place->extent[rank] = tiles->width;
        }
        rank++;
    }
    place->rank = rank;
    dt_certplan_spans(place);
}

void dt_certplan_pack_block(const PlanWalk *walk, PlanPlace *place)
{
    dt_certplan_cut(walk, place);
    dt_certplan_pack(place, 0, 1);
}

static uint32_t output_of(const PlanTiles *tiles, uint32_t value)
{
    uint32_t i = 0;
    while (i < tiles->n_outputs && tiles->output[i] != value)
        i++;
    return i;
}

bool dt_certplan_is_output(const PlanWalk *walk, uint32_t value)
{
    return walk->tiles.open && output_of(&walk->tiles, value) < walk->tiles.n_outputs;
}

/* Records the place of the whole output, found from the argument of its first block. If blocks add
 * to it, checks that it is zero; otherwise forgets what was there. */
bool dt_certplan_place_output(PlanWalk *walk, uint32_t i, const DtPlanArg *arg)
{
    PlanTiles *tiles = &walk->tiles;
    PlanPlace *whole = &tiles->place[i], have;
    struct PlanTileMemo *const memo = walk->memo;
    dt_certplan_arg(walk, arg, &have);
    tiles->placed[i] = true;
    tiles->arg[i] = arg;
    dt_certplan_put(whole, &have);
    for (uint32_t k = 0; k < tiles->n_loops; k++)
        whole->reg[tiles->regs[k]] = 0;
    if (!(tiles->flags[i] & (DT_NOTE_ADDS | DT_NOTE_ZEROED))) {
        dt_certplan_spoil(walk, whole, false);
        return true;
    }
    const uint32_t depth = walk->depth - tiles->n_loops;
    walk->memo = NULL; /* zeros must be checked each time */
    const bool zero = dt_certplan_is_zero(walk, whole, depth, !(tiles->flags[i] & DT_NOTE_ADDS));
    walk->memo = memo;
    return (zero && !dt_certplan_is_added(walk, whole, walk->depth)) ||
           dt_certplan_fail(walk, "output %u of attention is added to memory that is not zero", i);
}

/* The first block determines the place of the output; every other block must be its block of
 * that place. */
bool dt_certplan_output(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, uint32_t flags,
                        PlanPlace *ret_place)
{
    PlanTiles *tiles = &walk->tiles;
    uint32_t i = output_of(tiles, value);
    PlanPlace have;
    dt_certplan_arg(walk, arg, &have);
    dt_certmemo_output(walk, arg);
    if (!tiles->placed[i] && !dt_certplan_place_output(walk, i, arg))
        return false;
    const bool adds = tiles->flags[i] & (DT_NOTE_ADDS | DT_NOTE_ZEROED);
    *ret_place = tiles->place[i];
    dt_certplan_cut(walk, ret_place);
    tiles->wrote[i] = tiles->block;
    return (dt_certplan_same(ret_place, &have) && adds == (flags & DT_NOTE_ADDS ? true : false)) ||
           dt_certplan_fail(walk, "a block of attention's output %u goes elsewhere", i);
}

void dt_certplan_beside(PlanWalk *walk, const PlanPlace *written)
{
    PlanTiles *tiles = &walk->tiles;
    bool known = !tiles->open;
    for (uint32_t i = 0; !known && i < tiles->others.n; i++)
        known = dt_certplan_same(&tiles->others.at[i], written);
    if (!known)
        DT_PUSH(walk->arena, tiles->others, *written);
}

/* Checks that output i overlaps no other output, and nothing else that blocks write: blocks write
 * their parts in turn, in each iteration of the loops around them. */
static bool lies_alone(PlanWalk *walk, uint32_t i)
{
    const PlanTiles *tiles = &walk->tiles;
    for (uint32_t o = 0; o < i; o++)
        if (dt_certplan_meets(walk, &tiles->place[i], &tiles->place[o]))
            return dt_certplan_fail(walk, "outputs %u and %u of attention overlap", o, i);
    for (uint32_t o = 0; o < tiles->others.n; o++)
        if (dt_certplan_meets(walk, &tiles->place[i], &tiles->others.at[o]))
            return dt_certplan_fail(walk, "what a block of attention writes overlaps output %u", i);
    return true;
}

/* Checks lies_alone for all outputs when the inner loops have ended. The registers of loops over
 * blocks have no value here. */
static bool lie_alone(PlanWalk *walk)
{
    const PlanTiles *tiles = &walk->tiles;
    int64_t kept[DT_PLAN_REGS];
    bool alone = true;
    memcpy(kept, walk->count, sizeof kept);
    for (uint32_t k = 0; k < tiles->n_loops; k++)
        walk->count[tiles->regs[k]] = tiles->counts[k];
    for (uint32_t i = 0; alone && i < tiles->n_outputs; i++)
        alone = lies_alone(walk, i);
    memcpy(walk->count, kept, sizeof kept);
    return alone;
}

bool dt_certplan_untile(PlanWalk *walk)
{
    PlanTiles *tiles = &walk->tiles;
    /* values inside of blocks have ended */
    for (uint32_t v = 0; v < walk->frame->func->n_values; v++)
        for (PlanRegion *region = tiles->mark[v] ? walk->frame->regions[v] : NULL; region;
             region = region->next)
            region->alive = false;
    for (uint32_t i = 0; i < tiles->n_outputs; i++)
        if (!tiles->placed[i])
            return dt_certplan_fail(walk, "output %u of attention was not made", i);
    if (!lie_alone(walk))
        return false;
    for (uint32_t i = 0; i < tiles->n_outputs; i++) {
        bool added = tiles->flags[i] & DT_NOTE_ADDS;
        if (!dt_certplan_may_write(walk, &tiles->place[i]))
            return false;
        if (added)
            dt_certplan_wrote(walk, &tiles->place[i]);
        else
            dt_certplan_spoil(walk, &tiles->place[i], false);
        dt_certplan_define_by(walk, walk->frame, tiles->output[i], &tiles->place[i], added,
                              tiles->arg[i]);
    }
    return true;
}
