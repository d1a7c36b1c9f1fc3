/* SPDX-License-Identifier: Apache-2.0 */
/* Hash-consing of expressions: equal parts give the same node, so that two values are equal if
 * their nodes are. A node has no placement, no order of axes and no padding. */
#include "verify/internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <math.h>
#include <stdlib.h>

enum { SHAPES = 1 << 10 };

const char dt_certkind_tuple[] = "bucket", dt_certkind_carried[] = "carried",
           dt_certkind_stack[] = "stack", dt_certkind_at[] = "at", dt_certkind_total[] = "total",
           dt_certkind_sum[] = "sum of", dt_certkind_term[] = "a term of",
           dt_certkind_lacks[] = "a part of";

struct CertNodes {
    DtArena *arena;
    uint32_t n, cap;
    CertNode **bucket;
    const CertShape *shapes[SHAPES];
};

static bool is(const CertNode *node, const char *kind) { return dt_cert_is(node->kind, kind); }

CertNodes *dt_certnode_table(DtArena *arena)
{
    CertNodes *nodes = DT_NEW(arena, CertNodes);
    nodes->arena = arena;
    nodes->cap = 1 << 12;
    nodes->bucket = DT_NEW_ARRAY(arena, CertNode *, nodes->cap);
    return nodes;
}

static uint64_t mix(uint64_t hash, uint64_t part)
{
    hash = (hash ^ part) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const CertNode *x)
{
    uint64_t hash = mix((uint64_t)(uintptr_t)x->kind, (uint64_t)(uintptr_t)x->attributes);
    hash = mix(hash, (uint64_t)(uintptr_t)x->shape);
    hash = mix(hash, (uint64_t)x->lo * 31 + (uint64_t)x->hi * 7 + x->index +
                         (uint64_t)(uintptr_t)x->over);
    for (uint32_t i = 0; i < x->n_in; i++)
        hash = mix(hash, x->in[i]->id);
    return hash;
}

static bool equal(const CertNode *a, const CertNode *b)
{
    if (a->kind != b->kind || a->attributes != b->attributes || a->shape != b->shape ||
        a->n_in != b->n_in || a->index != b->index || a->lo != b->lo || a->hi != b->hi ||
        a->over != b->over)
        return false;
    return a->n_in == 0 || memcmp(a->in, b->in, a->n_in * sizeof a->in[0]) == 0;
}

static void grow(CertNodes *nodes)
{
    CertNode **old = nodes->bucket;
    uint32_t cap = nodes->cap;
    nodes->cap = 4 * cap;
    nodes->bucket = DT_NEW_ARRAY(nodes->arena, CertNode *, nodes->cap);
    for (uint32_t i = 0; i < cap; i++)
        for (CertNode *x = old[i], *next; x; x = next) {
            CertNode **slot = &nodes->bucket[hash_of(x) & (nodes->cap - 1)];
            next = x->next;
            x->next = *slot;
            *slot = x;
        }
}

CertNode *dt_certnode_make(CertNodes *nodes, CertNode parts)
{
    CertNode **slot = &nodes->bucket[hash_of(&parts) & (nodes->cap - 1)];
    for (CertNode *x = *slot; x; x = x->next)
        if (equal(x, &parts))
            return x;
    CertNode *node = DT_NEW(nodes->arena, CertNode);
    CertNode **in = DT_NEW_ARRAY(nodes->arena, CertNode *, parts.n_in);
    for (uint32_t i = 0; i < parts.n_in; i++)
        in[i] = parts.in[i];
    *node = parts;
    node->in = in;
    node->id = ++nodes->n;
    node->mark = 0;
    node->to = NULL;
    node->note = NULL;
    node->zero = CERT_UNKNOWN;
    node->next = *slot;
    *slot = node;
    if (nodes->n > nodes->cap)
        grow(nodes);
    return node;
}

CertNode *dt_certnode_find(const CertNodes *nodes, const CertNode *parts)
{
    for (CertNode *x = nodes->bucket[hash_of(parts) & (nodes->cap - 1)]; x; x = x->next)
        if (equal(x, parts))
            return x;
    return NULL;
}

uint32_t dt_certnode_count(const CertNodes *nodes) { return nodes->n; }

CertNode *dt_certnode_leaf(CertNodes *nodes, const char *kind, const char *attributes,
                           const CertShape *shape, uint32_t index)
{
    return dt_certnode_make(nodes, (CertNode){.kind = kind, .attributes = attributes,
                                              .shape = shape, .index = index});
}

CertNode *dt_certnode_of(CertNodes *nodes, const char *kind, const char *attributes,
                         const CertShape *shape, CertNode *x)
{
    return dt_certnode_make(nodes,
                            (CertNode){.kind = kind, .attributes = attributes, .shape = shape,
                                       .n_in = 1, .in = &x});
}

/* ---- shapes ---- */

static const CertShape *make_shape(CertNodes *nodes, const CertShape *draft)
{
    uint64_t hash = mix((uint64_t)(uintptr_t)draft->dtype, draft->rank);
    for (uint32_t i = 0; i < draft->rank; i++)
        hash = mix(mix(hash, (uint64_t)(uintptr_t)draft->axes[i]), (uint64_t)draft->extents[i]);
    const CertShape **slot = &nodes->shapes[hash % SHAPES];
    for (const CertShape *x = *slot; x; x = x->next)
        if (x->dtype == draft->dtype && x->rank == draft->rank &&
            memcmp(x->axes, draft->axes, sizeof x->axes) == 0 &&
            memcmp(x->extents, draft->extents, sizeof x->extents) == 0)
            return x;
    CertShape *shape = DT_NEW(nodes->arena, CertShape);
    *shape = *draft;
    shape->next = *slot;
    *slot = shape;
    return shape;
}

static void add_axis(CertShape *draft, const char *name, int64_t extent)
{
    uint32_t k = draft->rank++;
    for (; k > 0 && strcmp(draft->axes[k - 1], name) > 0; k--) {
        draft->axes[k] = draft->axes[k - 1];
        draft->extents[k] = draft->extents[k - 1];
    }
    draft->axes[k] = name;
    draft->extents[k] = extent;
}

const CertShape *dt_certnode_shape(CertNodes *nodes, const CertType *type)
{
    CertType *notes = (CertType *)type; /* facts that follow from a node are recorded in it */
    CertShape draft = {.dtype = type->dtype};
    if (type->shape)
        return type->shape;
    for (uint32_t i = 0; i < type->rank; i++)
        add_axis(&draft, type->axes[i].name, type->axes[i].logical);
    return notes->shape = make_shape(nodes, &draft);
}

const CertShape *dt_certnode_cast_shape(CertNodes *nodes, const CertShape *shape, const char *dtype)
{
    CertShape draft = *shape;
    draft.dtype = dtype;
    return shape->dtype == dtype ? shape : make_shape(nodes, &draft);
}

int64_t dt_certnode_extent(const CertShape *shape, const char *axis)
{
    for (uint32_t i = 0; shape && i < shape->rank; i++)
        if (shape->axes[i] == axis)
            return shape->extents[i];
    return -1;
}

const CertShape *dt_certnode_resized(CertNodes *nodes, const CertShape *shape, const char *axis,
                                     int64_t extent)
{
    CertShape draft = {.dtype = shape->dtype};
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->axes[i] != axis)
            add_axis(&draft, shape->axes[i], shape->extents[i]);
    if (extent && draft.rank < CERT_RANK)
        add_axis(&draft, axis, extent);
    return make_shape(nodes, &draft);
}

/* ---- zeros ---- */

CertNode *dt_certnode_zeros(CertNodes *nodes, const CertShape *shape, CertNode *zero)
{
    while (zero->n_in)
        zero = zero->in[0];
    return shape == zero->shape
               ? zero
               : dt_certnode_of(nodes, dt_intern("expand"), dt_intern(""), shape, zero);
}

/* Whether a number is unchanged by a cast to dtype, apart from the rounding of floats: it must not
 * become 0 or infinite, lose a fraction, or wrap. One pair of bounds serves all dtypes except f16,
 * whose least number is larger, and bool. */
static bool stays_in(const char *dtype, double n)
{
    const double least = dt_cert_is(dtype, "f16") ? 0x1p-14 : 0x1p-126;
    if (n == 0 || (n == 1 && dt_cert_is(dtype, "bool")))
        return true;
    if (dt_cert_is_float(dtype))
        return isinf(n) || (fabs(n) >= least && fabs(n) <= 65504);
    return !dt_cert_is(dtype, "bool") && n == floor(n) && fabs(n) <= 127;
}

bool dt_certnode_number(const CertNode *node, double *ret_number)
{
    const CertNode *from = node;
    while (node->n_in == 1 && (is(node, "expand") || is(node, "relabel") || is(node, "cast")))
        node = node->in[0];
    if (!is(node, "const"))
        return false;
    const char *number = strstr(node->attributes, "number=");
    const double n = number ? strtod(number + strlen("number="), NULL) : 0;
    bool same = !dt_cert_is_float(node->shape->dtype) || stays_in(node->shape->dtype, n);
    for (; from != node; from = from->in[0])
        same = same && (!is(from, "cast") || stays_in(from->shape->dtype, n));
    *ret_number = n;
    return same;
}

bool dt_certnode_is_zero(const CertNode *node)
{
    double number;
    return dt_certnode_number(node, &number) && number == 0;
}

/* ---- messages ---- */

/* The first operand of `from` that is no operand of node. */
static const CertNode *lacking(const CertNode *node, const CertNode *from)
{
    for (uint32_t i = 0; i < from->n_in; i++) {
        uint32_t k = 0;
        while (k < node->n_in && node->in[k] != from->in[i])
            k++;
        if (k == node->n_in)
            return from->in[i];
    }
    return NULL;
}

void dt_certnode_differ(const CertNode *have, const CertNode *want, DtText *ret_text)
{
    while (have->kind == want->kind && have->attributes == want->attributes &&
           have->n_in == want->n_in) {
        const CertNode *a = lacking(want, have), *b = lacking(have, want);
        for (uint32_t i = 0; !is(have, "add") && i < have->n_in; i++)
            if (have->in[i] != want->in[i]) {
                a = have->in[i];
                b = want->in[i];
                break;
            }
        if (!a || !b)
            break;
        have = a;
        want = b;
    }
    dt_text_printf(ret_text, ": `%s%s` of %u stands where the serial program has `%s%s` of %u",
                   have->kind, have->attributes, have->n_in, want->kind, want->attributes,
                   want->n_in);
}
