/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's derivative where keys travel in a ring (ring.h): so that its backward part goes round once, it gets what
 * would otherwise take a round of its own, as FlashAttention (Dao et al., 2022) does. With p = e / g(sum), e = exp(x -
 * f(most)), o = sum_t(p v), the cotangent do of o, and dp = sum_d(do v) over the axes d that keys have not:
 *
 *   most, sum             the forward part leaves them, with o
 *   sum_t(dp c p)    =>   c sum_d(do o), c without t
 *
 * Then all that the backward part sums over keys only adds up. If the function has another form it is left alone, and
 * a ring goes round twice. */
#include "passes/diff.h"
#include "passes/ring_internal.h"

typedef struct Stream {
    DtReverse *r;
    DtVjp v;
    const char *t;
    const DtValue *p, *values, *o; /* of the primal */
    DtValue *seed, *inner;         /* do; sum_d(do o), once it is there */
} Stream;

/* What is left of a product whose factors dp and p are taken away; rest NULL: 1. */
typedef struct Product {
    bool known, has_dp, has_p;
    DtValue *rest;
} Product;

static bool has(const DtValue *value, const char *axis) { return dt_type_find(value->type, axis) >= 0; }

/* Whether value stands for this one of the primal, perhaps rounded. */
static bool stands_for(const Stream *s, const DtValue *value, const DtValue *primal)
{
    if (value->op && value->op->kind == DT_OP_CAST)
        value = value->op->in[0];
    if (primal->op && primal->op->kind == DT_OP_CAST && value != s->r->cells.at[primal->id]->placeholder)
        primal = primal->op->in[0];
    return value == s->r->cells.at[primal->id]->placeholder;
}

static bool is_dp(const Stream *s, const DtOp *op)
{
    if (op->kind != DT_OP_DOT || !has(op->out[0], s->t))
        return false;
    return (op->in[0] == s->seed && stands_for(s, op->in[1], s->values)) ||
           (op->in[1] == s->seed && stands_for(s, op->in[0], s->values));
}

static DtValue *as_f32(DtBuilder *b, DtValue *x) { return dt_graph_cast(b, x, DT_F32); }

/* sum_d(do o) */
static DtValue *inner_product(Stream *s, const DtOp *dp)
{
    DtBuilder *b = &s->v.b;
    if (s->inner)
        return s->inner;
    DtValue *seed = as_f32(b, s->seed), *o = as_f32(b, dt_diff_value(&s->v, s->o));
    DtValue *product = dt_graph_binary(b, DT_OP_MUL, seed, o);
    return s->inner = dt_graph_reduce(b, DT_REDUCE_SUM, product, dp->n_axes, dp->axes);
}

static Product parse(Stream *s, DtValue *x);

/* x by y, which has no t. */
static Product parse_scaled(Stream *s, const DtOp *op, DtValue *x, DtValue *y)
{
    Product product = parse(s, x);
    if (product.rest)
        product.rest = dt_graph_binary(&s->v.b, op->kind, product.rest, y);
    else
        product.known = false;
    return product;
}

static Product parse(Stream *s, DtValue *x)
{
    const Product none = {.known = false};
    const DtOp *op = x->op;
    if (stands_for(s, x, s->p))
        return (Product){.known = true, .has_p = true};
    if (!op)
        return none;
    if (is_dp(s, op))
        return (Product){.known = true, .has_dp = true, .rest = inner_product(s, op)};
    if (op->kind == DT_OP_CAST)
        return parse(s, op->in[0]);
    if (op->kind == DT_OP_NEG) {
        Product product = parse(s, op->in[0]);
        if (product.rest)
            product.rest = dt_graph_unary(&s->v.b, DT_OP_NEG, product.rest);
        return product.rest ? product : none;
    }
    if (op->kind != DT_OP_MUL && op->kind != DT_OP_DIV)
        return none;
    if (!has(op->in[1], s->t))
        return parse_scaled(s, op, op->in[0], op->in[1]);
    if (op->kind == DT_OP_DIV)
        return none;
    if (!has(op->in[0], s->t))
        return parse_scaled(s, op, op->in[1], op->in[0]);
    const Product a = parse(s, op->in[0]), b = parse(s, op->in[1]);
    const Product *dp = a.has_dp ? &a : &b, *p = a.has_dp ? &b : &a;
    if (!a.known || !b.known || !dp->has_dp || dp->has_p || !p->has_p || p->has_dp || p->rest)
        return none;
    return (Product){true, true, true, dp->rest};
}

/* The op number i of bwd, a sum over keys, as a product without them; NULL: it is none. New ops stand before it. */
static DtValue *without_keys(Stream *s, uint32_t i)
{
    DtFunc *bwd = s->r->bwd;
    DtArena *arena = s->r->diff->arena;
    const uint32_t n_tail = bwd->ops.n - i;
    DtOp **tail = DT_NEW_ARRAY(arena, DtOp *, n_tail + 1);
    for (uint32_t k = 0; k < n_tail; k++)
        tail[k] = bwd->ops.at[i + k];
    bwd->ops.n = i;
    s->v.b = (DtBuilder){.func = bwd, .span = tail[0]->span, .path = tail[0]->path};
    s->inner = NULL;
    const Product product = parse(s, tail[0]->in[0]);
    DtValue *made = NULL;
    if (product.known && product.has_dp && product.has_p) {
        const DtType *type = tail[0]->out[0]->type;
        made = dt_graph_reorder(&s->v.b, dt_graph_cast(&s->v.b, product.rest, type->dtype), type);
    }
    for (uint32_t k = 0; k < n_tail; k++)
        DT_PUSH(arena, bwd->ops, tail[k]);
    return made;
}

static bool rewrite(Stream *s)
{
    DtFunc *bwd = s->r->bwd;
    for (uint32_t i = 0; i < bwd->ops.n; i++) {
        const DtOp *op = bwd->ops.at[i];
        if (op->kind != DT_OP_REDUCE || op->reduce != DT_REDUCE_SUM || op->n_axes != 1 || op->axes[0] != s->t)
            continue;
        DtValue *made = without_keys(s, i);
        for (uint32_t k = 0; made && k < bwd->ops.n; k++)
            for (uint32_t j = 0; j < bwd->ops.at[k]->n_in; j++)
                if (bwd->ops.at[k]->in[j] == op->out[0])
                    bwd->ops.at[k]->in[j] = made;
        if (made)
            return true;
    }
    return false;
}

void dt_stream_rewrite(DtReverse *r)
{
    DtRingForm form;
    const DtFunc *func = r->func;
    for (uint32_t i = 0; i < func->ops.n && !r->n_kept; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_REDUCE || op->reduce != DT_REDUCE_MAX || op->n_axes != 1)
            continue;
        if (!dt_ring_form(func, op->axes[0], r->diff->arena, &form) || !form.once || form.n_finals != 1 ||
            r->n_seeds != 1 || func->results.n != 1 || func->results.at[0] != form.finals[0] ||
            form.finals[0]->op->kind != DT_OP_DOT)
            continue;
        const DtOp *last = form.finals[0]->op;
        const uint32_t p = form.degree[last->in[0]->id].e == 1 ? 0 : 1;
        Stream stream = {.r = r, .v = {.reverse = r}, .t = form.t, .p = last->in[p],
                         .values = last->in[!p], .o = form.finals[0], .seed = r->bwd->inputs.at[0]};
        if (!rewrite(&stream))
            continue;
        r->kept[r->n_kept++] = form.finals[0];
        r->kept[r->n_kept++] = form.most;
        r->kept[r->n_kept++] = form.sum;
    }
}
