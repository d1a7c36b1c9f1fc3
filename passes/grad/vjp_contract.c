/* SPDX-License-Identifier: Apache-2.0 */
/* Cotangents of contractions. Those of `dot` are dots again: with x[m, k] @k w[k, n], dx = dy @n w
 * and dw = dy @m x; batch axes stay batch axes. */
#include "passes/grad/diff.h"

/* Returns the cotangent of one operand of a product (dot), given the other operand: multiplies the
 * result's cotangent by it and sums over the axes that the operand does not have. */
static DtValue *dot_operand(DtVjp *v, const DtType *type, DtValue *other)
{
    DtValue *g = dt_graph_cast(&v->b, v->cotangent[0], other->type->dtype);
    const char *axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < other->type->rank; i++)
        if (dt_type_find(type, other->type->axes[i].name) < 0)
            axes[n++] = other->type->axes[i].name;
    if (n == 0) /* an outer product needs no sum, so a product of maps does */
        return dt_graph_binary(&v->b, DT_OP_MUL, g, other);
    return dt_graph_dot(&v->b, g, other, n, axes, type->dtype, type);
}

void dt_vjp_dot(DtVjp *v)
{
    if (v->active[0])
        v->ret[0] = dot_operand(v, v->op->in[0]->type, dt_diff_in(v, 1));
    if (v->active[1])
        v->ret[1] = dot_operand(v, v->op->in[1]->type, dt_diff_in(v, 0));
}

/* Positions are i32; the largest i32 stands for "no position". */
static bool is_countable(const DtType *type, uint32_t n, const char *const *axes)
{
    double elements = 1;
    for (uint32_t i = 0; i < n; i++)
        elements *= (double)dt_type_extent(type, axes[i]);
    return elements < INT32_MAX;
}

/* Position of each element in the row-major order of the listed axes, as i32. */
static DtValue *position(DtVjp *v, const DtType *type, uint32_t n, const char *const *axes)
{
    DtValue *at = NULL;
    for (uint32_t i = 0; i < n; i++) {
        DtAxis axis = {.name = axes[i], .extent = dt_type_extent(type, axes[i])};
        DtValue *iota = dt_graph_iota(&v->b, axis);
        if (at != NULL) {
            DtValue *extent = dt_graph_constant(&v->b, DT_I32, (double)axis.extent);
            iota = dt_graph_binary(&v->b, DT_OP_ADD, dt_graph_binary(&v->b, DT_OP_MUL, at, extent),
                                   iota);
        }
        at = iota;
    }
    return at;
}

/* True at the first element of x, in row-major order of the axes, that equals `extreme`, the
 * maximum or minimum over them. If there are too many elements to number: the first along the first
 * axis whose own extreme is that one, and there the first along the rest. */
static DtValue *first_equal(DtVjp *v, DtValue *x, DtValue *extreme, uint32_t n,
                            const char *const *axes)
{
    if (n > 1 && !is_countable(x->type, n, axes)) {
        DtValue *inner = dt_graph_reduce(&v->b, v->op->reduce, x, n - 1, axes + 1);
        return dt_graph_binary(&v->b, DT_OP_AND, first_equal(v, inner, extreme, 1, axes),
                               first_equal(v, x, inner, n - 1, axes + 1));
    }
    DtValue *equal = dt_graph_binary(&v->b, DT_OP_EQ, x, extreme);
    DtValue *at = position(v, x->type, n, axes);
    DtValue *last = dt_graph_constant(&v->b, DT_I32, INT32_MAX);
    DtValue *candidates = dt_graph_where(&v->b, equal, at, last);
    DtValue *first = dt_graph_reduce(&v->b, DT_REDUCE_MIN, candidates, n, axes);
    return dt_graph_binary(&v->b, DT_OP_AND, equal,
                           dt_graph_binary(&v->b, DT_OP_EQ, candidates, first));
}

void dt_vjp_reduce(DtVjp *v)
{
    v->ret[0] = v->cotangent[0]; /* the cotangent of a sum is constant along the summed axes, which
                                  * the caller adds */
    if (v->op->reduce != DT_REDUCE_SUM) {
        DtValue *zero = dt_graph_constant(&v->b, v->cotangent[0]->type->dtype, 0);
        DtValue *first =
            first_equal(v, dt_diff_in(v, 0), dt_diff_out(v, 0), v->op->n_axes, v->op->axes);
        v->ret[0] = dt_graph_where(&v->b, first, v->cotangent[0], zero);
    }
}

void dt_vjp_scan(DtVjp *v)
{
    v->ret[0] = dt_graph_scan(&v->b, v->cotangent[0], v->op->n_axes, v->op->axes, !v->op->reverse);
}

void dt_vjp_topk(DtVjp *v)
{
    const char *a = v->op->axes[0], *c = v->op->axes[1];
    DtAxis target = {.name = a, .extent = dt_type_extent(v->op->in[0]->type, a)};
    DtValue *index = dt_diff_out(v, 1);
    v->ret[0] =
        dt_graph_scatter_add(&v->b, v->cotangent[0], 1, &target, &index, 1, &c, v->op->in[0]->type);
}
