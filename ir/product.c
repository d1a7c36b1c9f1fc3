/* SPDX-License-Identifier: Apache-2.0 */
/* A contraction as a strided batched matrix product. Its axes fall into four groups: batch (in both
 * operands and the result), rows m (first operand and result), columns n (second operand and
 * result), and k (summed). Each of m, n, k must be one strided run in both tensors that hold it, or
 * all but one of its axes become batch axes (m and n only) with stride 0 in the operand that lacks
 * them. If the summed axes are no such run, one operand or both are copied first. Examples: a loop
 * along an axis leaves a gradient that has this axis outermost, unlike the values around it; a
 * patch of an image has two axes with others between them. */
#include "ir/product.h"

#include <string.h>

typedef struct Run { /* axes that form one run */
    int64_t extent, s1, s2; /* strides in the two tensors that have the group */
} Run;

typedef struct Runs {
    Run at[DT_MAX_RANK];
    uint32_t n;
} Runs;

static bool has(const DtView *view, const char *axis) { return dt_view_find(view, axis) >= 0; }

/* Adds axes, which come in decreasing stride of the first tensor, to the runs. Neighbours that are
 * contiguous in both tensors become one run. */
static void add_run(Runs *runs, int64_t extent, int64_t s1, int64_t s2)
{
    if (extent == 1)
        return;
    uint32_t at = runs->n++;
    for (; at > 0 && runs->at[at - 1].s1 < s1; at--)
        runs->at[at] = runs->at[at - 1];
    runs->at[at] = (Run){extent, s1, s2};
}

static void join(Runs *runs)
{
    for (uint32_t i = 0; i + 1 < runs->n;) {
        Run *a = &runs->at[i], *b = &runs->at[i + 1];
        if (a->s1 != b->s1 * b->extent || a->s2 != b->s2 * b->extent) {
            i++;
            continue;
        }
        *a = (Run){a->extent * b->extent, b->s1, b->s2};
        memmove(b, b + 1, sizeof *b * (runs->n - i - 2));
        runs->n--;
    }
}

static bool add_batch(DtProduct *g, int64_t extent, int64_t a, int64_t b, int64_t c)
{
    if (g->n_batch == DT_PRODUCT_BATCH)
        return false;
    g->batch[g->n_batch] = extent;
    g->a_batch[g->n_batch] = a;
    g->b_batch[g->n_batch] = b;
    g->c_batch[g->n_batch++] = c;
    return true;
}

/* Removes the largest run and returns it: it stays a dimension of the matrices, the others become
 * batch dimensions. */
static Run take_largest(Runs *runs)
{
    uint32_t best = 0;
    if (runs->n == 0)
        return (Run){1, 0, 0};
    for (uint32_t i = 1; i < runs->n; i++)
        if (runs->at[i].extent > runs->at[best].extent)
            best = i;
    Run run = runs->at[best];
    memmove(&runs->at[best], &runs->at[best + 1], sizeof run * (runs->n - best - 1));
    runs->n--;
    return run;
}

/* Sorts the axes into rows m, columns n, summed axes k, and batch axes (g). False: an axis of the
 * result is in neither operand. */
static bool classify(const DtOp *op, const DtView *a, const DtView *b, const DtView *c, Runs *m,
                     Runs *n, Runs *k, DtProduct *g)
{
    for (uint32_t d = 0; d < a->rank; d++)
        if (dt_op_has_axis(op, a->axis[d]))
            add_run(k, a->extent[d], a->stride[d], dt_view_stride(b, a->axis[d]));
    for (uint32_t d = 0; d < c->rank; d++) {
        const char *axis = c->axis[d];
        bool in_a = has(a, axis), in_b = has(b, axis);
        if (in_a && in_b) {
            if (c->extent[d] > 1 && !add_batch(g, c->extent[d], dt_view_stride(a, axis),
                                               dt_view_stride(b, axis), c->stride[d]))
                return false;
        } else if (in_a) {
            add_run(m, c->extent[d], dt_view_stride(a, axis), c->stride[d]);
        } else if (in_b) {
            add_run(n, c->extent[d], dt_view_stride(b, axis), c->stride[d]);
        } else {
            return false;
        }
    }
    join(m);
    join(n);
    join(k);
    return true;
}

/* Exchanges rows and columns of the product, so that the result's columns are adjacent in
 * memory. */
static void transpose(DtProduct *g)
{
#define SWAP(x, y) do { int64_t t = (x); (x) = (y); (y) = t; } while (0)
    SWAP(g->m, g->n);
    SWAP(g->a_row, g->b_col);
    SWAP(g->a_col, g->b_row);
    SWAP(g->c_row, g->c_col);
    for (uint32_t i = 0; i < DT_PRODUCT_BATCH; i++)
        SWAP(g->a_batch[i], g->b_batch[i]);
#undef SWAP
}

/* Strides of dimensions of extent 1 do not matter; sets them to those of a dense matrix, which
 * every library accepts. */
static void tidy(DtProduct *g)
{
    if (g->k == 1) {
        g->a_col = g->m > 1 && g->a_row == 1 ? g->m : 1;
        g->b_row = g->n > 1 && g->b_col == 1 ? g->n : 1;
    }
    if (g->m == 1) {
        g->a_row = g->a_col == 1 ? g->k : 1;
        g->c_row = g->c_col == 1 ? g->n : 1;
    }
    if (g->n == 1) {
        g->b_col = g->b_row == 1 ? g->k : 1;
        g->c_col = g->c_row == 1 ? g->m : 1;
    }
}

/* Whether elements (i, j) at i * row + j * column are a matrix with one leading dimension. */
static bool has_lead(int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    return ((row == 1 || rows == 1) && (columns == 1 || column >= rows)) ||
           ((column == 1 || columns == 1) && (rows == 1 || row >= columns));
}

bool dt_product_find(const DtTargetLimits *limits, const DtOp *op, const DtView *a, const DtView *b,
                     const DtView *c, DtProduct *ret_product)
{
    DtProduct g = {.n_batch = 0};
    Runs m = {.n = 0}, n = {.n = 0}, k = {.n = 0};
    if (!dt_target_multiplies(limits, a->dtype, b->dtype, c->dtype))
        return false;
    if (!classify(op, a, b, c, &m, &n, &k, &g) || k.n > 1)
        return false;
    Run rows = take_largest(&m), columns = take_largest(&n), sums = take_largest(&k);
    for (uint32_t i = 0; i < m.n; i++)
        if (!add_batch(&g, m.at[i].extent, m.at[i].s1, 0, m.at[i].s2))
            return false;
    for (uint32_t i = 0; i < n.n; i++)
        if (!add_batch(&g, n.at[i].extent, 0, n.at[i].s1, n.at[i].s2))
            return false;
    g.m = rows.extent, g.n = columns.extent, g.k = sums.extent;
    g.a_row = rows.s1, g.c_row = rows.s2, g.b_col = columns.s1, g.c_col = columns.s2,
    g.a_col = sums.s1, g.b_row = sums.s2;
    if ((g.k > 1 && (!g.a_col || !g.b_row)) || (g.m > 1 && !g.a_row) || (g.n > 1 && !g.b_col))
        return false; /* an operand is an expanded value: a kernel reads it without a copy */
    g.swapped = columns.extent > 1 && g.c_col != 1;
    if (g.swapped)
        transpose(&g);
    tidy(&g);
    if (limits->wants_runs &&
        !(has_lead(g.m, g.k, g.a_row, g.a_col) && has_lead(g.k, g.n, g.b_row, g.b_col) &&
          has_lead(g.m, g.n, g.c_row, g.c_col)))
        return false;
    *ret_product = g;
    return true;
}

/* ---- operands in another order ---- */

typedef struct Axes { /* names of axes, outermost first */
    const char *at[DT_MAX_RANK];
    uint32_t n;
} Axes;

static void add(Axes *axes, uint32_t first, const DtView *view, uint32_t d)
{
    uint32_t at = axes->n++;
    for (; at > first && dt_view_stride(view, axes->at[at - 1]) < view->stride[d]; at--)
        axes->at[at] = axes->at[at - 1];
    axes->at[at] = view->axis[d];
}

/* Appends the summed axes of view in their order in memory. */
static void add_summed(const DtOp *op, const DtView *view, Axes *ret_axes)
{
    for (uint32_t d = 0, first = ret_axes->n; d < view->rank; d++)
        if (dt_op_has_axis(op, view->axis[d]))
            add(ret_axes, first, view, d);
}

/* Appends the axes of the result c that x has, in c's order: those that the other operand has, too
 * (in_other), or those that it lacks. */
static void add_kept(const DtView *c, const DtView *x, const DtView *other, bool in_other,
                     Axes *ret_axes)
{
    for (uint32_t d = 0, first = ret_axes->n; d < c->rank; d++)
        if (has(x, c->axis[d]) && has(other, c->axis[d]) == in_other)
            add(ret_axes, first, c, d);
}

/* Whether the axis along which elements are adjacent in memory is summed. */
static bool sums_neighbours(const DtOp *op, const DtView *view)
{
    uint32_t best = view->rank;
    for (uint32_t d = 0; d < view->rank; d++)
        if (view->extent[d] > 1 && (best == view->rank || view->stride[d] < view->stride[best]))
            best = d;
    return best < view->rank && dt_op_has_axis(op, view->axis[best]);
}

/* Returns the view of a copy of x that has the summed axes in the given order and keeps neighbours
 * in memory near. */
static DtView straight(const DtOp *op, const DtView *x, const DtView *other, const DtView *c,
                       const Axes *sums)
{
    DtView view = *x;
    Axes order = {.n = 0};
    bool inner = sums_neighbours(op, x);
    int64_t stride = 1;
    add_kept(c, x, other, true, &order);
    if (inner)
        add_kept(c, x, other, false, &order);
    for (uint32_t i = 0; i < sums->n; i++)
        order.at[order.n++] = sums->at[i];
    if (!inner)
        add_kept(c, x, other, false, &order);
    view.offset = 0;
    view.buffer = 0;
    for (uint32_t i = order.n; i-- > 0;)
        for (uint32_t d = 0; d < view.rank; d++)
            if (view.axis[d] == order.at[i]) {
                view.stride[d] = stride;
                stride *= view.extent[d];
            }
    return view;
}

/* Returns how many elements a copy of operand x has, if copying it pays (DtTargetLimits.copy_pays)
 * and keeps its values (a copy of a value stored in a wider dtype would round it); else -1. */
static int64_t copied(const DtValue *value, const DtView *x, const DtView *c, int64_t pays)
{
    int64_t elements = 1, uses = 1;
    for (uint32_t d = 0; d < x->rank; d++)
        elements *= x->extent[d];
    for (uint32_t d = 0; d < c->rank; d++)
        uses *= has(x, c->axis[d]) ? 1 : c->extent[d];
    return x->dtype == value->type->dtype && uses >= pays ? elements : -1;
}

/* Whether both operands move along every summed axis: none has stride 0 there. */
static bool moves_both(const DtOp *op, const DtView *a, const DtView *b)
{
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->extent[d] > 1 && dt_op_has_axis(op, a->axis[d]) &&
            (!a->stride[d] || !dt_view_stride(b, a->axis[d])))
            return false;
    return true;
}

uint32_t dt_product_straighten(const DtTargetLimits *limits, const DtOp *op,
                               const DtView operands[2], const DtView *c, DtView ret_copies[2])
{
    DtProduct product;
    int64_t least = INT64_MAX;
    uint32_t chosen = 0;
    if (!moves_both(op, &operands[0], &operands[1]))
        return 0;
    for (uint32_t copies = 1; copies < 4; copies++) { /* bit i: operand i would be copied */
        Axes sums = {.n = 0};
        int64_t elements = 0;
        add_summed(op, &operands[copies == 1], &sums);
        DtView view[2] = {operands[0], operands[1]};
        for (uint32_t i = 0; i < 2 && elements >= 0; i++)
            if (copies >> i & 1) {
                int64_t more = copied(op->in[i], &operands[i], c, limits->copy_pays);
                elements = more < 0 ? -1 : elements + more;
                view[i] = straight(op, &operands[i], &operands[1 - i], c, &sums);
            }
        if (elements < 0 || elements >= least ||
            !dt_product_find(limits, op, &view[0], &view[1], c, &product))
            continue;
        least = elements;
        chosen = copies;
        ret_copies[0] = view[0], ret_copies[1] = view[1];
    }
    return chosen;
}
