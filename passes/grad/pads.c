/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of pads. If a function takes a tensor apart, the cotangent of each part is padded to the
 * whole. If the parts cover an axis without overlap, the sum of the pads is their concatenation,
 * which needs no addition: kernels write each part at its place.
 *
 *   dx = pad[two](da, 0 before, 1 behind) + pad[two](db, 1 before, 0 behind)
 *   =>   dx = concat[two](da, db) */
#include "passes/grad/diff.h"

enum { MOST_TERMS = 64 };

/* The summands of a chain of additions, in order, and the ops that add them. */
typedef struct Terms {
    DtValue *at[MOST_TERMS];
    const DtOp *adds[MOST_TERMS];
    uint32_t n;
} Terms;

static bool list_terms(DtValue *sum, Terms *ret)
{
    uint32_t n = 1;
    for (const DtValue *x = sum;
         x->op && x->op->kind == DT_OP_ADD && x->op->in[0]->type == sum->type; n++)
        x = x->op->in[0];
    ret->n = n;
    if (n > MOST_TERMS)
        return false;
    for (; n > 1; sum = sum->op->in[0]) {
        ret->at[--n] = sum->op->in[1];
        ret->adds[n] = sum->op;
    }
    ret->at[0] = sum;
    return true;
}

/* The pad op that makes the term, if it pads one axis with zeros, without gaps between elements;
 * else NULL. */
static const DtOp *pad_of(const DtValue *term, const DtType *type)
{
    const DtOp *op = term->op;
    const bool is = op && op->kind == DT_OP_PAD && op->n_axes == 1 && op->ranges[0].step == 1 &&
                    op->number == 0;
    return is && term->type == type ? op : NULL;
}

/* Returns the index of the first term that is a pad along axis with `lo` elements before its
 * operand; terms->n if there is none. */
static uint32_t pad_at(const Terms *terms, const char *axis, int64_t lo, const DtType *type)
{
    uint32_t i = 0;
    for (; i < terms->n; i++) {
        const DtOp *op = pad_of(terms->at[i], type);
        if (op && op->axes[0] == axis && op->ranges[0].lo == lo)
            break;
    }
    return i;
}

/* Finds pads among the terms that together cover the axis from its first element to its last,
 * without overlap. ret_parts: their n operands, in order along the axis; ret_used: marks these
 * terms. False if there are none. */
static bool cover(const Terms *terms, const char *axis, const DtType *type, DtValue **ret_parts,
                  uint32_t *ret_n, bool *ret_used)
{
    const int64_t extent = dt_type_extent(type, axis);
    int64_t lo = 0;
    for (*ret_n = 0; lo < extent;) {
        const uint32_t i = pad_at(terms, axis, lo, type);
        if (i == terms->n)
            return false;
        DtValue *part = terms->at[i]->op->in[0];
        lo += dt_type_extent(part->type, axis);
        ret_used[i] = true;
        ret_parts[(*ret_n)++] = part;
    }
    return *ret_n > 1;
}

/* Appends the concatenation of the parts, and adds the unused terms to it. */
static DtValue *joined(DtBuilder b, const Terms *terms, const DtOp *pad, DtValue *const *parts,
                       uint32_t n, const bool *used)
{
    b.span = pad->span, b.path = pad->path;
    DtValue *sum = dt_graph_concat(&b, pad->axes[0], n, parts);
    for (uint32_t i = 0; i < terms->n; i++) {
        if (used[i])
            continue;
        const DtOp *add = terms->adds[i > 0 ? i : 1];
        b.span = add->span, b.path = add->path;
        sum = dt_graph_binary(&b, DT_OP_ADD, sum, terms->at[i]);
    }
    return sum;
}

DtValue *dt_diff_join_pads(DtBuilder b, DtValue *sum)
{
    Terms terms;
    if (!list_terms(sum, &terms))
        return sum;
    for (uint32_t i = 0; i < terms.n; i++) {
        const DtOp *pad = pad_of(terms.at[i], sum->type);
        bool used[MOST_TERMS] = {false};
        DtValue *parts[MOST_TERMS];
        uint32_t n;
        if (pad && cover(&terms, pad->axes[0], sum->type, parts, &n, used))
            return joined(b, &terms, pad, parts, n, used);
    }
    return sum;
}
