/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: relays (relay.h). Each rank has some blocks of a scan, and a loop merges them:
 * instead of the parts of all blocks, one value per rank is sent, where that is less. The loop
 * becomes the only op of a function, in which the axis is whole, and a ring call of that
 * function. */
#include "passes/place/place_internal.h"

#include "base/intern.h"
#include "ir/shape.h"
#include "passes/place/relay.h"
#include "passes/place/ring.h"

#include <string.h>

static bool is_stacked(const DtOp *op, uint32_t i)
{
    return i >= op->loop->n_carried + op->loop->n_invariant;
}

/* Returns the axis whose splits say how ranks share the loop's iterations; NULL if they do not, if
 * operands disagree, or if the order of blocks is not that of the ranks. */
static const DtAxis *find_blocks(const DtOp *op, DtValue *const *in)
{
    const DtAxis *block = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtAxis *axis = is_stacked(op, i) ? &in[i]->type->axes[0] : NULL;
        if (!axis || !axis->n_split)
            continue;
        if (axis->zigzag || (block && !dt_type_same_axis(axis, block)))
            return NULL;
        block = axis;
    }
    for (uint32_t s = 1; block && s < block->n_split; s++)
        if (block->split[s - 1] > block->split[s]) /* a relay goes through ranks in the order of the
                                                    * mesh */
            return NULL;
    return block;
}

static uint16_t bits_of(const DtType *type)
{
    return (uint16_t)(dt_placerule_bits(type) | type->partial);
}

/* Whether the lines also split axes inside the body by these mesh axes. */
static bool is_split_inside(const DtPlacer *p, const DtFunc *body, uint16_t bits)
{
    bool any = false;
    for (uint32_t i = 0; i < body->inputs.n; i++)
        any = any || (bits_of(dt_placerule_of(p, body->inputs.at[i]->type, NULL, 0)) & bits);
    for (uint32_t i = 0; i < body->ops.n; i++)
        any = any || (bits_of(dt_placerule_of(p, body->ops.at[i]->out[0]->type, NULL, 0)) & bits);
    return any;
}

static double bytes_of(const DtPlacer *p, const DtType *type)
{
    return (double)dt_type_local_elements(type, &p->module->mesh) *
           (double)dt_dtype_size(type->dtype);
}

/* Whether passing on the carried values moves fewer bytes than gathering the stacked operands
 * would. */
static bool is_less(DtPlaceScope *s, const DtOp *op, DtValue *const *in)
{
    double carried = 0, gathered = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (i < op->loop->n_carried)
            carried += bytes_of(s->p, in[i]->type) * (s->uses[op->out[i]->id] ? 2 : 1);
        else if (is_stacked(op, i) && in[i]->type->axes[0].n_split)
            gathered += bytes_of(s->p, in[i]->type);
    }
    return carried < gathered;
}

/* Whether each of these mesh axes has a single rank, so that there is no neighbour to pass values
 * to. */
static bool is_one_rank(const DtMesh *mesh, uint16_t bits)
{
    for (uint32_t m = 0; m < mesh->n; m++)
        if (bits >> m & 1 && mesh->axes[m].size > 1)
            return false;
    return true;
}

uint16_t dt_placerelay_find(DtPlaceScope *s, const DtOp *op, DtValue **in)
{
    const DtAxis *block = dt_placeconvert_are_parts(op->loop->axis) ? find_blocks(op, in) : NULL;
    const uint16_t bits = block ? dt_shape_split_bits(block) : 0;
    if (is_one_rank(&s->p->module->mesh, bits) || (bits & s->p->time) || !dt_relay_takes(op) ||
        is_split_inside(s->p, op->func, bits) || !is_less(s, op, in))
        return 0;
    const DtAxis axis = *block;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!is_stacked(op, i))
            continue;
        DtAxis axes[DT_MAX_RANK];
        const DtType *type = in[i]->type;
        for (uint32_t m = 0; m < s->p->module->mesh.n; m++)
            if (bits >> m & 1 && dt_placerule_state(in[i]->type, m) != 0)
                type = dt_placerule_with(s->p, type, m, DT_PLACE_WHOLE);
        memcpy(axes, type->axes, type->rank * sizeof axes[0]);
        axes[0] = axis;
        in[i] =
            dt_placeconvert_to(s, in[i],
                               dt_type_make(type->dtype, type->rank, axes,
                                            type->partial & s->p->time, (DtReduce)type->pending));
    }
    return bits;
}

/* Returns the type with its first axis, that of iterations, whole. */
static const DtType *whole(const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[0].n_split = 0;
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

DtOp *dt_placerelay_make(DtPlaceScope *s, const DtOp *op, DtFunc *body, uint16_t mesh,
                         DtValue *const *in)
{
    DtArena *arena = s->p->module->arena;
    DtFunc *func =
        dt_graph_func(s->p->module, dt_intern_printf("%s.relay", op->func->name), DT_FUNC_FN);
    DtBuilder b = {.func = func, .span = op->span};
    DtValue **args = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1);
    func->span = op->span;
    for (uint32_t i = 0; i < op->n_in; i++)
        args[i] = dt_graph_arg(func, is_stacked(op, i) ? whole(in[i]->type) : in[i]->type, NULL);
    const DtOp *loop = dt_graph_loop(&b, body, *op->loop, args);
    DtOp *made = DT_NEW(arena, DtOp);
    *made = *op;
    made->out = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++) {
        made->out[i] = DT_NEW(arena, DtValue); /* a placeholder for results that no op reads */
        if (s->uses[op->out[i]->id])
            dt_graph_return(func, loop->out[i]);
    }
    DtOp *call = dt_ring_call(&s->b, func, NULL, op->loop->axis, mesh, in);
    for (uint32_t i = 0, k = 0; i < op->n_out; i++)
        if (s->uses[op->out[i]->id])
            made->out[i] = call->out[k++];
    return made;
}
