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
 * What the call's operands should be is decided as for any call (place_choose.c); where that keeps
 * the keys in blocks, or gives every rank all queries, there is nothing to pass on. */
#include "passes/place_internal.h"

#include "passes/ring.h"

/* Whether operand type `wanted` is `now` gathered over m along axis. */
static bool is_gathered(const DtType *now, const DtType *wanted, const char *axis, uint32_t m)
{
    int d = dt_type_find(now, axis);
    return d >= 0 && dt_placerule_state(now, m) == d &&
           dt_placerule_state(wanted, m) == DT_PLACE_WHOLE;
}

/* A line with `ring` by which operand i would travel, or NULL. */
static DtPlaceLine *line_for(DtPlacer *p, const DtType *now, const DtType *wanted,
                             const char **ret_axis)
{
    for (uint32_t i = 0; i < p->n_written; i++) {
        DtPlaceLine *line = &p->lines.at[i];
        for (uint32_t k = 0; line->ring && k < line->n_axes; k++)
            if (is_gathered(now, wanted, line->axes[k], line->mesh[0])) {
                *ret_axis = line->axes[k];
                return line;
            }
    }
    return NULL;
}

static bool refuse(DtPlaceScope *s, const DtOp *op, const char *axis, const char *why)
{
    DtDiag *diag = dt_placechoose_refuse(
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
        bool is_key = false;
        for (uint32_t l = 0; axis && l < p->n_written; l++)
            for (uint32_t k = 0; k < p->lines.at[l].n_axes; k++)
                is_key = is_key || (p->lines.at[l].ring && p->lines.at[l].mesh[0] == m &&
                                    p->lines.at[l].axes[k] == axis);
        travels = travels || is_key;
        if (axis && !is_key && !queries)
            queries = axis;
    }
    return travels ? queries : NULL;
}

/* type, in which this axis is whole, with the axis in blocks. */
static const DtType *with_axis(const DtType *type, const DtAxis *block)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t d = 0; d < type->rank; d++)
        axes[d] = type->axes[d].name == block->name ? *block : type->axes[d];
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

bool dt_placering_find(DtPlaceScope *s, const DtOp *op, DtValue *const *in, const DtType **wanted,
                       DtPlaceRing *ret_ring)
{
    DtPlacer *p = s->p;
    DtPlaceLine *line = NULL;
    const char *axis = NULL;
    for (uint32_t i = 0; !line && i < op->n_in; i++)
        line = line_for(p, in[i]->type, wanted[i], &axis);
    ret_ring->axis = NULL;
    if (!line)
        return true;
    const uint32_t m = line->mesh[0];
    const DtType **types = DT_NEW_ARRAY(p->module->arena, const DtType *, op->n_in + 1);
    bool queries = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        types[i] = wanted[i];
        queries = queries || dt_placerule_state(wanted[i], m) >= 0;
        int d = dt_type_find(wanted[i], axis);
        if (d >= 0 && wanted[i]->axes[d].n_split)
            return refuse(s, op, axis, "other mesh axes split the keys too");
    }
    if (!queries)
        return true;
    const char *why = dt_ring_refuses(op->func, axis, types, m, p->module->arena);
    if (why)
        return refuse(s, op, axis, why);
    const DtAxis *block = NULL; /* all travel in the same blocks */
    for (uint32_t i = 0; i < op->n_in; i++)
        if (is_gathered(in[i]->type, wanted[i], axis, m)) {
            block = block ? block : &in[i]->type->axes[dt_type_find(in[i]->type, axis)];
            wanted[i] = with_axis(wanted[i], block);
        }
    *ret_ring = (DtPlaceRing){.axis = axis, .m = m, .types = types};
    line->has_rung = true;
    return true;
}

void dt_placering_check_used(const DtPlacer *p)
{
    for (uint32_t i = 0; i < p->n_written; i++) {
        const DtPlaceLine *line = &p->lines.at[i];
        if (!line->ring || line->has_rung)
            continue;
        DtDiag *diag = dt_diag_report(p->module->diags, L0596, line->span,
                                      "`ring` has no effect: no `attend` gathers `%s` over `%s`",
                                      line->axes[0], p->module->mesh.axes[line->mesh[0]].name);
        dt_diag_note(
            diag, "a ring replaces the gather of keys and values where queries are split over the "
                  "same mesh axis");
    }
}
