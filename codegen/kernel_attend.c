/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel IR of attention: the ops of a streaming function, whose roles attend_parts.c found.
 * Products of queries and keys become SCORE nodes, what is computed from them ordinary nodes,
 * and products with such a value sums. */
#include "codegen/kernel_internal.h"

#include <string.h>

static bool has(const DtValue *value, const char *axis)
{
    return dt_type_find(value->type, axis) >= 0;
}

static bool is_square(const DtKBuild *b, const DtValue *value)
{
    return has(value, b->in->attention->queries) && has(value, b->in->attention->keys);
}

static bool is_score(const DtKBuild *b, const DtOp *op)
{
    return op->kind == DT_OP_DOT && is_square(b, op->out[0]) && !is_square(b, op->in[0]) &&
           !is_square(b, op->in[1]);
}

/* ---- the space ---- */

static bool add(DtKernel *k, const char *axis, int64_t extent)
{
    if (k->n_axes == DT_MAX_RANK)
        return false;
    k->axis[k->n_axes] = axis;
    k->extent[k->n_axes++] = extent;
    return true;
}

/* Finds the axes of the space: those of the scores, then queries, then keys. */
static bool find_space(DtKBuild *b)
{
    const DtKAttention *a = b->in->attention;
    const DtMesh *mesh = &b->in->module->mesh;
    int64_t queries = 0, keys = 0;
    for (uint32_t i = 0; i < b->in->n_ops; i++) {
        const DtType *type = b->in->ops[i]->out[0]->type;
        for (uint32_t d = 0; is_score(b, b->in->ops[i]) && d < type->rank; d++) {
            const char *axis = type->axes[d].name;
            const int64_t extent = dt_type_local_extent(type, d, mesh);
            if (axis == a->queries)
                queries = extent;
            else if (axis == a->keys)
                keys = extent;
            else if (dt_kernel_axis(b, axis) < 0 && !add(b->k, axis, extent))
                return false;
        }
    }
    b->k->attend->queries = b->k->n_axes;
    b->k->attend->keys = b->k->n_axes + 1;
    b->k->n_outer = b->k->n_axes + 1;
    return queries > 0 && keys > 0 && add(b->k, a->queries, queries) && add(b->k, a->keys, keys);
}

/* Whether each op can become a node: values have no axes outside the space, except those that
 * products sum or leave. */
static bool fits(const DtKBuild *b)
{
    for (uint32_t i = 0; i < b->in->n_ops; i++) {
        const DtOp *op = b->in->ops[i];
        for (uint32_t d = 0; op->kind != DT_OP_DOT && d < op->out[0]->type->rank; d++)
            if (dt_kernel_axis(b, op->out[0]->type->axes[d].name) < 0)
                return false;
        for (uint32_t k = 0; op->kind != DT_OP_DOT && k < op->n_in; k++)
            for (uint32_t d = 0; d < op->in[k]->type->rank; d++)
                if (dt_kernel_axis(b, op->in[k]->type->axes[d].name) < 0)
                    return false;
    }
    return true;
}

/* ---- products ---- */

/* Describes the view as rows: it has at most one axis outside of the space, which runs along its
 * rows. written: the view is a result. */
static bool rows_of(DtKBuild *b, const DtValue *value, const DtView *view, bool written,
                    DtKRows *ret)
{
    *ret = (DtKRows){.depth = 1, .along = 1};
    if (!view)
        return false;
    ret->pointer = dt_kernel_pointer(b, value, view, written);
    bool found = false;
    for (uint32_t d = 0; d < view->rank; d++) {
        const int at = dt_kernel_axis(b, view->axis[d]);
        if (at >= 0) {
            ret->stride[at] = view->stride[d];
        } else if (view->extent[d] > 1) {
            if (found || view->extent[d] > UINT16_MAX)
                return false;
            found = true;
            ret->depth = (uint32_t)view->extent[d];
            ret->along = view->stride[d];
        }
    }
    return true;
}

static bool add_score(DtKBuild *b, const DtOp *op)
{
    const char *queries = b->in->attention->queries;
    const uint32_t of_queries = has(op->in[0], queries) ? 0 : 1;
    const DtValue *q = op->in[of_queries], *k = op->in[1 - of_queries];
    DtKScore score = {.dtype = q->type->dtype};
    DtKAttend *a = b->k->attend;
    b->op = op;
    if (op->n_axes != 1 || !rows_of(b, q, b->in->view(b->in->context, q), false, &score.query) ||
        !rows_of(b, k, b->in->view(b->in->context, k), false, &score.key) ||
        score.query.depth != score.key.depth)
        return false;
    score.node = dt_kernel_node(b, (DtKNode){.kind = DT_KNODE_SCORE, .dtype = DT_F32,
                                             .integer = DT_KNONE, .op = op,
                                             .axes = (1u << b->k->n_axes) - 1});
    DT_PUSH(b->in->arena, a->scores, score);
    DT_PUSH(b->in->arena, b->known, ((DtKKnown){op->out[0], score.node}));
    return true;
}

static bool add_sum(DtKBuild *b, const DtOp *op, const DtKOutput *out)
{
    const uint32_t square = is_square(b, op->in[0]) ? 0 : 1;
    const DtValue *p = op->in[square], *of = op->in[1 - square];
    DtKAttend *a = b->k->attend;
    DtKSum sum = {.dtype = of->type->dtype, .over_keys = dt_op_has_axis(op, b->in->attention->keys),
                  .accumulate = out->accumulate};
    for (uint32_t i = 0; i < a->queries; i++)
        sum.away |= (uint32_t)dt_op_has_axis(op, b->k->axis[i]) << i;
    if (!rows_of(b, of, b->in->view(b->in->context, of), false, &sum.of) ||
        !rows_of(b, out->value, out->view, true, &sum.to) || sum.of.depth != sum.to.depth ||
        (sum.over_keys && sum.away))
        return false;
    sum.node = dt_kernel_value(b, p);
    DT_PUSH(b->in->arena, a->sums, sum);
    return true;
}

uint32_t dt_kernel_attend_total(DtKBuild *b, const DtOp *op, uint32_t arg)
{
    uint32_t axes = 0;
    for (uint32_t a = 0; a < b->k->n_axes; a++)
        axes |= (uint32_t)has(op->out[0], b->k->axis[a]) << a;
    return dt_kernel_after_rows(b, op, arg, axes);
}

/* ---- all of it ---- */

static void price(DtKBuild *b)
{
    DtKernel *k = b->k;
    double points = 1;
    for (uint32_t a = 0; a < k->n_axes; a++)
        points *= (double)k->extent[a];
    dt_kernel_price(k, &b->in->module->mesh);
    for (uint32_t i = 0; i < k->attend->scores.n; i++)
        k->flops += 2 * points * k->attend->scores.at[i].query.depth;
    for (uint32_t i = 0; i < k->attend->sums.n; i++)
        k->flops += 2 * points * k->attend->sums.at[i].of.depth;
}

/* The number of the pointer that reads the value; the number of pointers if none does. */
static uint32_t reads(const DtKBuild *b, const DtValue *value)
{
    uint32_t i = 0;
    while (i < b->k->pointers.n &&
           (b->k->pointers.at[i].value != value || b->k->pointers.at[i].written))
        i++;
    return i;
}

/* Appends a pointer to the result of attention, which a library's backward function needs. */
static void add_result(DtKBuild *b)
{
    const DtKAttention *a = b->in->attention;
    const uint32_t dot = reads(b, a->dot), n = b->k->pointers.n;
    if (dot < n && reads(b, a->result) == n &&
        rows_of(b, a->result, b->in->view(b->in->context, a->result), false, &b->k->attend->result))
        b->k->attend->dot = dot;
    else
        b->k->pointers.n = n;
}

bool dt_kernel_attend(DtKBuild *b)
{
    const DtKernelInput *in = b->in;
    const DtKAttention *a = in->attention;
    b->k->pattern = DT_KPATTERN_ATTEND;
    b->k->attend = DT_NEW(in->arena, DtKAttend);
    b->k->attend->mask = b->k->attend->dot = DT_KNONE;
    b->k->attend->paired = a->paired;
    if (!find_space(b) || !fits(b))
        return false;
    for (uint32_t i = 0; i < in->n_ops; i++)
        if (is_score(b, in->ops[i]) && !add_score(b, in->ops[i]))
            return false;
    for (uint32_t i = 0; i < a->func->n_args; i++)
        if (a->inlined[i]) {
            const DtKKnown known = {a->func->inputs.at[i], dt_kernel_value(b, a->inlined[i])};
            DT_PUSH(in->arena, b->known, known);
        }
    for (uint32_t i = 0; i < in->n_outputs; i++) {
        const DtKOutput *out = &in->outputs[i];
        const DtOp *op = out->value->op;
        b->op = op;
        if (op->kind != DT_OP_DOT) {
            const uint32_t node = dt_kernel_value(b, out->value);
            DT_PUSH(in->arena, b->k->stores, dt_kernel_store(b, out, node));
        } else if (!add_sum(b, op, out)) {
            return false;
        }
    }
    if (a->mask)
        b->k->attend->mask = dt_kernel_value(b, a->mask);
    if (a->result)
        add_result(b);
    b->k->span = in->ops[0]->span;
    price(b);
    return true;
}
