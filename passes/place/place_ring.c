/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: rings. `shard kseq on context (ring = true)` makes of a call of `attend`, whose keys
 * would be gathered over `context`, a ring call (ring.h): its operands with kseq stay in their
 * blocks, and the gradients of keys and values come back in these, complete.
 *
 *     %g = all_gather[context](%k)
 *     %o = call(%q, %g, ...) func=attend.2
 *  =>
 *     %o = call[kseq](%q, %k, ...) func=attend.2 mesh={context}
 *
 * The placement of the call's operands is decided as for any call (place_choose.c). If that leaves
 * the keys split, or gives every rank all queries, no ring is needed. Of several mesh axes that
 * split the keys only some may be the ring's; the others are gathered before, if they are the minor
 * ones. */
#include "passes/place/place_internal.h"

#include "ir/shape.h"
#include "passes/place/ring.h"

/* Whether the line makes keys travel along `axis` over mesh axis m. */
static bool is_written(const DtPlaceLine *line, const char *axis, uint32_t m)
{
    bool has = false, over = false;
    for (uint32_t k = 0; line->ring && k < line->n_axes; k++)
        has = has || line->axes[k] == axis;
    for (uint32_t k = 0; has && k < line->n_mesh; k++)
        over = over || line->mesh[k] == m;
    return over;
}

static bool is_any_written(const DtPlacer *p, const char *axis, uint32_t m)
{
    for (uint32_t i = 0; i < p->n_written; i++)
        if (is_written(&p->lines.at[i], axis, m))
            return true;
    return false;
}

/* The mesh axes over which lines with `ring` make an operand travel: they split axis d of its type
 * `now`, and `wanted` would gather it. Mesh axes of one rank do not count. */
static uint16_t ring_of(const DtPlacer *p, const DtType *now, uint32_t d, const DtType *wanted)
{
    uint16_t bits = 0;
    for (uint32_t s = 0; s < now->axes[d].n_split; s++) {
        const uint32_t m = now->axes[d].split[s];
        if (p->module->mesh.axes[m].size > 1 && dt_placerule_state(wanted, m) == DT_PLACE_WHOLE &&
            is_any_written(p, now->axes[d].name, m))
            bits |= (uint16_t)(1u << m);
    }
    return bits;
}

static bool refuse(DtPlaceScope *s, const DtOp *op, const char *axis, const char *why)
{
    DtDiag *diag = dt_placerefuse_at(
        s->p, E0592, op->span,
        dt_arena_printf(s->p->module->arena, "a ring over `%s` is not implemented for this call",
                        axis));
    dt_diag_note(diag, "%s", why);
    dt_diag_help(diag, "leave `(ring = true)` out: keys and values are gathered then");
    return false;
}

const char *dt_placering_queries(const DtPlacer *p, const DtOp *op, DtValue *const *in, uint32_t m)
{
    const char *queries = NULL;
    bool travels = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        int d = dt_placerule_state(in[i]->type, m);
        const char *axis = d >= 0 ? in[i]->type->axes[d].name : NULL;
        const bool is_key = axis && is_any_written(p, axis, m);
        travels = travels || is_key;
        if (axis && !is_key && !queries)
            queries = axis;
    }
    return travels ? queries : NULL;
}

/* Returns the axis split by the ring's mesh axes alone. */
static DtAxis block_of(const DtAxis *axis, uint16_t ring)
{
    DtAxis block = *axis;
    block.n_split = 0;
    for (uint32_t s = 0; s < axis->n_split; s++)
        if (ring >> axis->split[s] & 1)
            block.split[block.n_split++] = axis->split[s];
    return block;
}

/* Returns the type in which the axis of that name, whole in `type`, is split as `block` is. */
static const DtType *with_axis(const DtType *type, const DtAxis *block)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t d = 0; d < type->rank; d++)
        axes[d] = type->axes[d].name == block->name ? *block : type->axes[d];
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

/* Returns the type with this axis whole, as the called function sees it. */
static const DtType *without_splits(const DtPlacer *p, const DtType *type, const char *axis)
{
    const int d = dt_type_find(type, axis);
    while (d >= 0 && type->axes[d].n_split)
        type = dt_placerule_with(p, type, type->axes[d].split[0], DT_PLACE_WHOLE);
    return type;
}

/* Returns the mesh axes over which every result is split or pending, so that no rank repeats
 * another's work; 0 if the function does not accept these operands. */
static uint16_t used_by_results(DtPlaceScope *s, const DtOp *op, const DtType *const *types)
{
    uint16_t used = UINT16_MAX;
    const DtType **out = DT_NEW_ARRAY(s->p->module->arena, const DtType *, op->n_out + 1);
    if (dt_placechoose_derive(s, op, types, out))
        return 0;
    for (uint32_t i = 0; i < op->n_out; i++)
        used &= dt_placerule_bits(out[i]) | out[i]->partial;
    return used;
}

/* The mesh axes over which the keys of some operand are to travel: queries, and so all results, are
 * split over them. 0 if there are none. Operands computed from positions do not matter, since every
 * block computes them again. ret_block: the keys' axis with its splits; ret_types: the types that
 * the function takes. */
static uint16_t find_blocks(DtPlaceScope *s, const DtOp *op, DtValue *const *in,
                            const DtType **wanted, DtAxis *ret_block, const DtType **ret_types)
{
    uint16_t ring = 0;
    for (uint32_t i = 0; i < op->n_in; i++)
        for (uint32_t d = 0;
             !ring && !dt_placeconvert_info(s, in[i])->is_free && d < in[i]->type->rank; d++) {
            ring = ring_of(s->p, in[i]->type, d, wanted[i]);
            *ret_block = in[i]->type->axes[d];
            for (uint32_t k = 0; ring && k < op->n_in; k++)
                ret_types[k] = without_splits(s->p, wanted[k], ret_block->name);
            ring &= ring ? used_by_results(s, op, ret_types) : 0;
        }
    return ring;
}

/* Whether an operand travels around the ring: mesh axes of the ring split its axis in its type
 * `now`, and none of them splits it in `wanted`. */
static bool travels(const DtType *now, const DtType *wanted, const DtAxis *block, uint16_t ring)
{
    const int d = dt_type_find(now, block->name);
    return d >= 0 && (dt_shape_split_bits(&now->axes[d]) & ring) &&
           !(dt_placerule_bits(wanted) & ring) && !(wanted->partial & ring);
}

bool dt_placering_find(DtPlaceScope *s, const DtOp *op, DtValue *const *in, const DtType **wanted,
                       DtPlaceRing *ret_ring)
{
    DtPlacer *p = s->p;
    DtAxis keys;
    ret_ring->axis = NULL;
    const DtType **types = DT_NEW_ARRAY(p->module->arena, const DtType *, op->n_in + 1);
    const uint16_t ring = find_blocks(s, op, in, wanted, &keys, types);
    if (!ring)
        return true;
    const DtAxis block = block_of(&keys, ring);
    for (uint32_t i = 0; i < op->n_in; i++)
        wanted[i] = types[i];
    const char *why = dt_ring_refuses(op->func, keys.name, types, ring, p->module->arena);
    if (why)
        return refuse(s, op, keys.name, why);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (travels(in[i]->type, wanted[i], &block, ring))
            wanted[i] = with_axis(wanted[i], &block); /* all travelling operands get the same
                                                       * blocks */
    *ret_ring = (DtPlaceRing){.axis = keys.name, .mesh = ring, .types = types};
    for (uint32_t i = 0; i < p->n_written; i++)
        for (uint32_t s2 = 0; s2 < block.n_split; s2++)
            if (is_written(&p->lines.at[i], block.name, block.split[s2]))
                p->lines.at[i].has_rung = true;
    return true;
}
