/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts in which libraries take products with epilogues: C as the product writes it; a vector
 * along C's columns (for a sum of A: along its rows); a matrix with the layout of C except for its
 * row stride. */
#include "ir/joined.h"

#include <string.h>

DtJoinedParts dt_joined_parts(const DtOp *joined)
{
    const DtFunc *func = joined->func;
    DtJoinedParts p = {.sums = strcmp(joined->text, "sum") == 0};
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_DOT)
            p.dot = op;
        if (!dt_op_is_inline(op->out[0]))
            p.result = op->out[0];
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (p.sums && op->kind == DT_OP_REDUCE)
            p.vector = op->out[0];
        for (uint32_t k = 0; !p.sums && op != p.dot && !dt_op_is_inline(op->out[0]) && k < op->n_in;
             k++)
            if (!op->in[k]->op)
                *(op->in[k]->type == p.result->type ? &p.matrix : &p.vector) = op->in[k];
    }
    if (p.sums)
        p.result = p.dot->out[0];
    for (uint32_t i = 0; !p.sums && i < func->results.n; i++)
        if (func->results.at[i] != p.result)
            p.matrix = func->results.at[i];
    return p;
}

/* Whether view is a vector with one contiguous element for each of C's rows (or columns). of: the
 * operand that has these axes. */
static bool is_vector(const DtView *view, const DtView *c, const DtView *of, int64_t step,
                      int64_t length)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < view->rank; d++) {
        const int in_c = dt_view_find(c, view->axis[d]);
        n *= view->extent[d];
        if (in_c < 0 || dt_view_find(of, view->axis[d]) < 0 ||
            (view->extent[d] > 1 && view->stride[d] * step != c->stride[in_c]))
            return false;
    }
    return n == length && view->dtype == c->dtype;
}

/* Returns the row stride of view if its layout is otherwise that of C; 0: it is not. a: the operand
 * with C's rows. */
static int64_t row_of(const DtProduct *product, const DtView *view, const DtView *c,
                      const DtView *a)
{
    int64_t row = 0;
    if (view->dtype != c->dtype)
        return 0;
    for (uint32_t d = 0; d < view->rank; d++) {
        const int in_c = dt_view_find(c, view->axis[d]);
        const bool in_a = dt_view_find(a, view->axis[d]) >= 0;
        if (in_c < 0 || (!in_a && view->extent[d] > 1 && view->stride[d] != c->stride[in_c]))
            return 0;
        if (!in_a || view->extent[d] == 1)
            continue;
        /* rows of C from one element of the axis to the next */
        const int64_t times = c->stride[in_c] / product->c_row;
        if (view->stride[d] % times || (row && view->stride[d] / times != row))
            return 0;
        row = view->stride[d] / times;
    }
    row = row ? row : product->n;
    return row >= product->n ? row : 0;
}

/* Whether the library accepts this row stride. */
static bool takes_rows(const DtTargetLimits *limits, int64_t row, DtDtype dtype)
{
    return !limits->epilogue_row || (row % limits->epilogue_row == 0 &&
                                     row * (int64_t)dt_dtype_size(dtype) % limits->row_align == 0);
}

bool dt_joined_find(const DtTargetLimits *limits, const DtJoinedParts *parts, const DtView *views,
                      DtJoinedProduct *ret_product)
{
    const DtView *const operands[2] = {&views[parts->dot->in[0]->id],
                                       &views[parts->dot->in[1]->id]},
                 *c = &views[parts->result->id];
    DtJoinedProduct found = {.matrix_row = 0};
    const DtProduct *p = &found.product;
    if (!dt_product_find(limits, parts->dot, operands[0], operands[1], c, &found.product) ||
        p->n_batch || p->c_col != 1)
        return false;
    found.of_a = parts->sums && (parts->vector->op->in[0] == parts->dot->in[0]) != p->swapped;
    if (parts->vector &&
        !is_vector(&views[parts->vector->id], c, operands[found.of_a == p->swapped],
                   found.of_a ? p->c_row : p->c_col, found.of_a ? p->m : p->n))
        return false;
    if (parts->matrix)
        found.matrix_row = row_of(p, &views[parts->matrix->id], c, operands[p->swapped]);
    *ret_product = found;
    return !parts->matrix || (found.matrix_row && takes_rows(limits, found.matrix_row, c->dtype));
}
