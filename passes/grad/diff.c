/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers of ops (vjp_*.c) use of the derivative being built: values of the primal
 * function, as placeholders. */
#include "passes/grad/diff.h"

DtValue *dt_diff_zeros(DtBuilder *b, const DtType *type)
{
    DtValue *zero = dt_graph_constant(b, type->dtype, 0);
    return type->rank == 0 ? zero : dt_graph_expand(b, zero, type);
}

DtValue *dt_diff_placeholder(DtReverse *r, DtCell *cell)
{
    if (cell->placeholder == NULL) {
        cell->placeholder = dt_graph_arg(r->bwd, cell->primal->type, cell->primal->name);
        DT_PUSH(r->diff->arena, r->placeholders, cell);
    }
    return cell->placeholder;
}

static DtValue *value_of_primal(DtVjp *v, const DtValue *primal)
{
    return dt_diff_placeholder(v->reverse, v->reverse->cells.at[primal->id]);
}
DtValue *dt_diff_in(DtVjp *v, uint32_t i) { return value_of_primal(v, v->op->in[i]); }
DtValue *dt_diff_out(DtVjp *v, uint32_t i) { return value_of_primal(v, v->op->out[i]); }

DtCell *dt_diff_cell(DtReverse *r, DtValue *primal)
{
    DtCell *cell = DT_NEW(r->diff->arena, DtCell);
    cell->primal = primal;
    DT_PUSH(r->diff->arena, r->cells, cell);
    return cell;
}

DtValue *dt_diff_extra(DtVjp *v, const DtType *type, uint32_t k)
{
    DtReverse *r = v->reverse;
    DtExtra *key = DT_NEW(r->diff->arena, DtExtra);
    *key = (DtExtra){v->op, k};
    DtCell *cell = dt_map_find(&r->extras, (const char *)key, sizeof *key);
    if (cell == NULL) {
        DtValue *extra = DT_NEW(r->diff->arena, DtValue);
        *extra = (DtValue){.type = type, .op = (DtOp *)v->op, .index = v->op->n_out + k,
                           .id = r->cells.n};
        cell = dt_diff_cell(r, extra);
        dt_map_add(&r->extras, (const char *)key, sizeof *key, cell);
    }
    return dt_diff_placeholder(r, cell);
}
