/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in tiles: finds the axes of queries and keys, and the role of each op of the
 * function (attend.c). */
#include "codegen/attend.h"

#define DT_TILE_SEVERAL "the product of queries and keys sums over several axes"

/* Records why the function has no tiles, and at which op (NULL: none in particular). Always
 * false. */
static bool differs(DtTiling *g, const DtOp *at, const char *why)
{
    g->why = (DtTileWhy){.why = why, .at = at};
    return false;
}

static bool is_region_op(const DtTiling *g, const DtOp *op)
{
    if (op->n_out != 1)
        return false;
    if (dt_op_is_pointwise(op->kind) || (op->kind == DT_OP_RELABEL && op->n_relabels == 0))
        return true;
    return op->kind == DT_OP_REDUCE && op->n_axes == 1 && op->axes[0] == g->t;
}

/* Whether the op sums away queries or other axes of a region value and keeps the keys. find_loops
 * checks the summed axes (is_of_loops). */
static bool is_total(const DtTiling *g, const DtOp *op)
{
    return op->kind == DT_OP_REDUCE && op->reduce == DT_REDUCE_SUM && !dt_op_has_axis(op, g->t) &&
           dt_tile_has(op->in[0], g->s) && dt_tile_has(op->in[0], g->t) && op->in[0]->op &&
           dt_tile_part(g, op->in[0]) == DT_TILE_REGION;
}

/* Whether the target's matrix products accept the dtypes of the contraction, as the products of
 * blocks require. */
static bool is_product(const DtTiling *g, const DtOp *op)
{
    return dt_target_multiplies(&dt_target_limits[g->e->target->kind], op->in[0]->type->dtype,
                                op->in[1]->type->dtype, op->out[0]->type->dtype);
}

/* Marks in g->leaves the region's values that op, which comes after the blocks, reads: blocks must
 * store them. False, with the reason recorded, if op reads a score or a value without queries. */
static bool leave(DtTiling *g, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtTilePart part = dt_tile_part(g, op->in[i]);
        if (part == DT_TILE_SCORE ||
            (part == DT_TILE_REGION && (!op->in[i]->op || !dt_tile_has(op->in[i], g->s))))
            return differs(g, op,
                           "this reads scores, or what has no queries, out of the middle of it");
        if (part == DT_TILE_REGION)
            g->leaves[g->position[op->in[i]->id]] = true;
    }
    return true;
}

/* Finds the role of one op; false if the function has no shape that tiles allow. */
static bool classify(DtTiling *g, const DtOp *op, DtTilePart *ret_part)
{
    const bool square =
        op->n_out == 1 && dt_tile_has(op->out[0], g->s) && dt_tile_has(op->out[0], g->t);
    bool region = false, after = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        DtTilePart part = dt_tile_part(g, op->in[i]);
        region = region || part == DT_TILE_REGION || part == DT_TILE_SCORE;
        after = after || part == DT_TILE_TOTAL || part == DT_TILE_OUTPUT || part == DT_TILE_AFTER;
    }
    if (is_total(g, op)) {
        *ret_part = DT_TILE_TOTAL;
        return true;
    }
    if (op->kind == DT_OP_DOT && (dt_tile_has(op->out[0], g->s) || region) && !is_product(g, op))
        return differs(g, op, "the target's library has no product of these dtypes");
    if (op->kind == DT_OP_DOT && !region && square && !after) {
        *ret_part = DT_TILE_SCORE;
        return op->n_axes == 1 || differs(g, op, DT_TILE_SEVERAL);
    }
    if (op->kind == DT_OP_DOT && region) {
        *ret_part = DT_TILE_OUTPUT;
        uint32_t n = 0;
        for (uint32_t i = 0; i < 2; i++) {
            DtTilePart part = dt_tile_part(g, op->in[i]);
            if (part == DT_TILE_REGION || part == DT_TILE_SCORE)
                n += dt_tile_has(op->in[i], g->s) && dt_tile_has(op->in[i], g->t);
            else if (part != DT_TILE_BEFORE)
                return differs(g, op, "this product reads what blocks leave");
        }
        /* the product sums over s and axes that become loops (the group of grouped queries), or
         * over t alone */
        const bool sums =
            n == 1 && (dt_op_has_axis(op, g->s) ? !dt_op_has_axis(op, g->t)
                                                : op->n_axes == 1 && dt_op_has_axis(op, g->t));
        return sums ||
               differs(g, op,
                       "this product of scores sums neither over keys alone nor over queries");
    }
    if (region && (after || !is_region_op(g, op))) {
        *ret_part = DT_TILE_AFTER;
        return leave(g, op);
    }
    if (!region && !after && square && is_region_op(g, op))
        region = !dt_op_is_inline(op->out[0]);
    *ret_part = region ? DT_TILE_REGION : after ? DT_TILE_AFTER : DT_TILE_BEFORE;
    return true;
}

/* Whether the cheap value is computed from positions (an iota) along axis. seen: by value id,
 * values that are known not to be. */
static bool counts_along(const DtValue *value, const char *axis, bool *seen)
{
    if (value->op->kind == DT_OP_IOTA)
        return value->op->axes[0] == axis;
    for (uint32_t i = 0; !seen[value->id] && i < value->op->n_in; i++)
        if (counts_along(value->op->in[i], axis, seen))
            return true;
    seen[value->id] = true;
    return false;
}

static bool mask_counts_along(const DtTiling *g, const char *axis)
{
    bool *seen = DT_NEW_ARRAY(g->e->scratch, bool, g->outside->n_values + 1);
    for (uint32_t i = 0; i < g->func->n_args; i++)
        if (g->inlined[i] && counts_along(g->inlined[i], axis, seen))
            return true;
    return false;
}

/* Whether axis is a better query axis than `than`, among the axes that only queries have (grouped
 * queries also have their group): the one that the mask counts along, else the longest. */
static bool is_better_query(const DtTiling *g, const DtType *z, const char *axis, const char *than)
{
    if (!than)
        return true;
    bool counts = mask_counts_along(g, axis), than_counts = mask_counts_along(g, than);
    return counts != than_counts ? counts : dt_type_extent(z, axis) >= dt_type_extent(z, than);
}

static bool find_axes(DtTiling *g)
{
    const DtOp *first = NULL, *several = NULL;
    for (uint32_t i = 0; i < g->func->ops.n; i++) {
        const DtOp *op = g->func->ops.at[i];
        if (op->kind == DT_OP_DOT && op->n_axes != 1)
            several = op;
        if (op->kind != DT_OP_DOT || op->n_axes != 1)
            continue;
        const DtType *x = op->in[0]->type, *y = op->in[1]->type, *z = op->out[0]->type;
        const char *only_x = NULL, *only_y = NULL;
        for (uint32_t d = 0; d < z->rank; d++) {
            const char *axis = z->axes[d].name;
            bool in_x = dt_type_find(x, axis) >= 0, in_y = dt_type_find(y, axis) >= 0;
            if (in_x && !in_y && is_better_query(g, z, axis, only_x))
                only_x = axis;
            if (in_y && !in_x)
                only_y = axis;
        }
        g->s = only_x;
        g->t = only_y;
        first = op;
        break;
    }
    if (!first && several)
        return differs(g, several, DT_TILE_SEVERAL);
    return (g->s && g->t) || differs(g, first, DT_TILE_NO_PRODUCT);
}

/* Whether each iteration of the loops makes its own part of op i's result, or a term of its sum. */
static bool is_of_loops(const DtTiling *g, uint32_t i)
{
    const DtOp *op = g->func->ops.at[i];
    const DtType *type = op->in[0]->type;
    for (uint32_t k = 0; k < g->n_loops; k++)
        if (!dt_tile_has(op->out[0], g->loops[k]) && !dt_op_has_axis(op, g->loops[k]))
            return false;
    for (uint32_t k = 0; g->part[i] == DT_TILE_TOTAL && k < op->n_axes; k++) {
        bool looped = op->axes[k] == g->s;
        for (uint32_t l = 0; l < g->n_loops; l++)
            looped = looped || op->axes[k] == g->loops[l];
        const uint32_t d = (uint32_t)dt_type_find(type, op->axes[k]);
        if (!looped && dt_type_local_extent(type, d, &g->e->module->mesh) > 1)
            return false;
    }
    return true;
}

/* Makes every axis of the scores but s and t a loop; false if that needs more registers than there
 * are. */
static bool find_loops(DtTiling *g)
{
    const DtMesh *mesh = &g->e->module->mesh;
    for (uint32_t i = 0; i < g->func->ops.n; i++) {
        if (g->part[i] != DT_TILE_SCORE)
            continue;
        const DtType *type = g->func->ops.at[i]->out[0]->type;
        for (uint32_t d = 0; d < type->rank; d++) {
            const char *axis = type->axes[d].name;
            int64_t extent = dt_type_local_extent(type, d, mesh);
            bool known = false;
            for (uint32_t k = 0; k < g->n_loops; k++)
                known = known || g->loops[k] == axis;
            if (axis == g->s)
                g->n_s = extent;
            else if (axis == g->t)
                g->n_t = extent;
            else if (!known && extent > 1) {
                if (g->n_loops == 4)
                    return differs(
                        g, NULL, "there are more than four axes beside those of queries and keys");
                g->loops[g->n_loops] = axis;
                g->counts[g->n_loops++] = extent;
            }
        }
    }
    return (g->n_s > 0 && g->e->scope->reg + g->n_loops < DT_PLAN_REG_SLOTS) ||
           differs(g, NULL, "it stands in too many loops");
}

/* Marks in g->leaves the region's values that are results of the function. False, with the reason
 * recorded, if a score or a region's value without queries is a result. */
static bool is_closed(DtTiling *g)
{
    for (uint32_t i = 0; i < g->func->results.n; i++) {
        const DtValue *value = g->func->results.at[i];
        DtTilePart part = dt_tile_part(g, value);
        if (part == DT_TILE_SCORE ||
            (part == DT_TILE_REGION && (!value->op || !dt_tile_has(value, g->s))))
            return differs(g, value->op, "this, a score or without queries, is a result");
        if (part == DT_TILE_REGION)
            g->leaves[g->position[value->id]] = true;
    }
    return true;
}

/* Finds the first mask of positions whose hidden scores cannot change the function's results. */
static void find_mask(DtTiling *g)
{
    bool *outputs = DT_NEW_ARRAY(g->e->scratch, bool, g->func->ops.n + 1);
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        outputs[i] = dt_tile_is_output(g, i);
    for (uint32_t i = 0; i < g->func->ops.n && !g->masked; i++) {
        const DtOp *op = g->func->ops.at[i];
        if (!dt_mask_hides(g->e, g->func, op, g->s, g->t, outputs))
            continue;
        g->mask = g->masked_by = op->in[0];
        g->masked =
            dt_visible_begin(g->e, g->scope, g->mask, g->s, g->n_s, g->t, g->n_t, &g->reach);
    }
}

/* Whether value, which is computed for each block, draws only along axes that blocks cut. seen: by
 * value id, values examined already. */
static bool draws_by_blocks(const DtTiling *g, const DtValue *value, bool *seen)
{
    const DtOp *op = value->op;
    if (seen[value->id])
        return true; /* had it drawn that way, the search would have ended with false */
    seen[value->id] = true;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!draws_by_blocks(g, op->in[i], seen))
            return false;
    for (uint32_t d = 0; op->kind == DT_OP_RNG && d < value->type->rank; d++) {
        const char *axis = value->type->axes[d].name;
        bool known = axis == g->s || axis == g->t ||
                     dt_type_local_extent(value->type, d, &g->e->module->mesh) == 1;
        for (uint32_t k = 0; k < g->n_loops; k++)
            known = known || axis == g->loops[k];
        if (!known)
            return false;
    }
    return true;
}

bool dt_tile_analyse(DtTiling *g)
{
    const DtFunc *func = g->func;
    DtArena *arena = g->e->arena;
    g->part = DT_NEW_ARRAY(arena, DtTilePart, func->ops.n + 1);
    g->position = DT_NEW_ARRAY(arena, uint32_t, func->n_values + 1);
    g->leaves = DT_NEW_ARRAY(arena, bool, func->ops.n + 1);
    g->inlined = DT_NEW_ARRAY(arena, DtValue *, func->inputs.n + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (dt_op_is_inline(g->call->in[i]) && !dt_place_find(g->e, g->call->in[i]))
            g->inlined[i] = g->call->in[i];
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t r = 0; r < func->ops.at[i]->n_out; r++)
            g->position[func->ops.at[i]->out[r]->id] = i;
    if (!find_axes(g))
        return false;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (!classify(g, func->ops.at[i], &g->part[i]))
            return false;
    uint32_t n_outputs = 0;
    if (!is_closed(g) || !find_loops(g))
        return false;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        n_outputs += dt_tile_is_output(g, i);
        if (dt_tile_is_left(g, i) && !is_of_loops(g, i))
            return differs(g, func->ops.at[i],
                           "this is alike for what other axes of the scores tell apart");
    }
    if (n_outputs > DT_TILE_VALUES)
        return differs(g, NULL, "it leaves too many values");
    for (uint32_t k = 0; k < g->n_loops; k++)
        if (mask_counts_along(g, g->loops[k])) /* inside a block there is no such axis */
            return differs(g, NULL,
                           "a mask is made of positions along an axis that queries and keys share");
    bool *seen = DT_NEW_ARRAY(g->e->scratch, bool, g->outside->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (g->inlined[i] && !draws_by_blocks(g, g->inlined[i], seen))
            return differs(g, NULL, "what is drawn for it has an axis that scores lack");
    find_mask(g);
    return true;
}
