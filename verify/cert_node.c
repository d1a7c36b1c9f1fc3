/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of expressions: equal parts give the same node (hash-consing), so that two values are equal if
 * their nodes are. Placement is no part of a node; the order of axes is not either. */
#include "verify/internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 16 };

struct CertNodes {
    DtArena *arena;
    uint32_t n;
    CertNode *bucket[BUCKETS];
};

CertNodes *dt_certnode_table(DtArena *arena)
{
    CertNodes *nodes = DT_NEW(arena, CertNodes);
    nodes->arena = arena;
    return nodes;
}

static uint64_t hash_of(const CertNode *x)
{
    uint64_t parts[5] = {(uint64_t)(uintptr_t)x->kind, (uint64_t)(uintptr_t)x->attributes,
                         (uint64_t)(uintptr_t)x->dtype, x->rank, x->index};
    uint64_t hash = dt_hash_bytes(parts, sizeof parts, x->n_in);
    for (uint32_t i = 0; i < x->n_in; i++)
        hash = hash * UINT64_C(0x9E3779B97F4A7C15) + x->in[i]->id;
    return hash ^ hash >> 29;
}

static bool equal(const CertNode *a, const CertNode *b)
{
    if (a->kind != b->kind || a->attributes != b->attributes || a->dtype != b->dtype ||
        a->rank != b->rank || a->n_in != b->n_in || a->index != b->index)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->axes[i] != b->axes[i] || a->extents[i] != b->extents[i])
            return false;
    return a->n_in == 0 || memcmp(a->in, b->in, a->n_in * sizeof a->in[0]) == 0;
}

static CertNode *intern_node(CertNodes *nodes, const CertNode *draft)
{
    CertNode **slot = &nodes->bucket[hash_of(draft) % BUCKETS];
    for (CertNode *x = *slot; x; x = x->next)
        if (equal(x, draft))
            return x;
    CertNode *node = DT_NEW(nodes->arena, CertNode);
    *node = *draft;
    node->id = ++nodes->n;
    node->in = DT_NEW_ARRAY(nodes->arena, CertNode *, draft->n_in + 1);
    for (uint32_t i = 0; i < draft->n_in; i++)
        node->in[i] = draft->in[i];
    node->axes = DT_NEW_ARRAY(nodes->arena, const char *, draft->rank + 1);
    node->extents = DT_NEW_ARRAY(nodes->arena, int64_t, draft->rank + 1);
    for (uint32_t i = 0; i < draft->rank; i++) {
        node->axes[i] = draft->axes[i];
        node->extents[i] = draft->extents[i];
    }
    node->next = *slot;
    *slot = node;
    return node;
}

CertNode *dt_certnode_make(CertNodes *nodes, const char *kind, const char *attributes,
                           const CertType *type, uint32_t n_in, CertNode *const *in, uint32_t index)
{
    const char *axes[CERT_RANK];
    int64_t extents[CERT_RANK];
    CertNode draft = {.kind = dt_intern(kind),
                      .attributes = dt_intern(attributes),
                      .dtype = type ? type->dtype : NULL,
                      .axes = axes,
                      .extents = extents,
                      .n_in = n_in,
                      .in = (CertNode **)in,
                      .index = index};
    for (uint32_t i = 0; type && i < type->rank; i++) { /* sorted by insertion */
        uint32_t k = draft.rank++;
        for (; k > 0 && strcmp(axes[k - 1], type->axes[i].name) > 0; k--) {
            axes[k] = axes[k - 1];
            extents[k] = extents[k - 1];
        }
        axes[k] = type->axes[i].name;
        extents[k] = type->axes[i].extent;
    }
    return intern_node(nodes, &draft);
}

CertType dt_certnode_type(const CertNode *node)
{
    CertType type = {.dtype = node->dtype, .rank = node->rank};
    for (uint32_t i = 0; i < node->rank; i++)
        type.axes[i] = (CertAxis){.name = node->axes[i], .extent = node->extents[i]};
    return type;
}

/* ---- sums ---- */

static int by_id(const void *a, const void *b)
{
    const CertNode *x = *(CertNode *const *)a, *y = *(CertNode *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void join_ranges(CertNodes *nodes, CertNode **terms, uint32_t *n);

CertNode *dt_certnode_sum(CertNodes *nodes, const CertType *type, uint32_t n, CertNode *const *in)
{
    DT_VEC(CertNode *) terms = {0};
    const char *add = dt_intern("add");
    for (uint32_t i = 0; i < n; i++) {
        if (dt_certnode_is_zero(in[i]) && n > 1)
            continue;
        bool inner = in[i]->kind == add && in[i]->dtype == type->dtype;
        for (uint32_t k = 0; k < (inner ? in[i]->n_in : 1); k++)
            DT_PUSH(nodes->arena, terms, inner ? in[i]->in[k] : in[i]);
    }
    join_ranges(nodes, terms.at, &terms.n);
    if (terms.n == 1 && terms.at[0]->rank == type->rank && terms.at[0]->dtype == type->dtype)
        return terms.at[0];
    if (terms.n)
        qsort(terms.at, terms.n, sizeof terms.at[0], by_id);
    return dt_certnode_make(nodes, "add", "", type, terms.n, terms.at, 0);
}

CertNode *dt_certnode_cast(CertNodes *nodes, const CertType *type, CertNode *x)
{
    const char *dtype = x->dtype ? x->dtype : "";
    bool floats = (dtype[0] == 'f' || dtype[0] == 'b') && strcmp(dtype, "bool") != 0 &&
                  (type->dtype[0] == 'f' || type->dtype[0] == 'b') &&
                  strcmp(type->dtype, "bool") != 0;
    if (x->dtype == type->dtype)
        return x;
    if (floats && strcmp(x->kind, "cast") == 0 && x->in[0]->dtype == type->dtype)
        return x->in[0]; /* there and back: only rounding lies between */
    if (!floats || strcmp(x->kind, "add") != 0)
        return dt_certnode_make(nodes, "cast", "", type, 1, &x, 0);
    CertNode **terms = DT_NEW_ARRAY(nodes->arena, CertNode *, x->n_in + 1);
    for (uint32_t i = 0; i < x->n_in; i++) {
        CertType term = dt_certnode_type(x->in[i]);
        term.dtype = type->dtype;
        terms[i] = dt_certnode_cast(nodes, &term, x->in[i]);
    }
    return dt_certnode_sum(nodes, type, x->n_in, terms);
}

bool dt_certnode_is_zero(const CertNode *node)
{
    static const char *pass[] = {"expand", "relabel", "cast"};
    for (;;) {
        if (strcmp(node->kind, "const") == 0)
            return strstr(node->attributes, "number=") == NULL;
        bool through = false;
        for (size_t i = 0; i < DT_COUNT(pass); i++)
            through = through || strcmp(node->kind, pass[i]) == 0;
        if (!through)
            return false;
        node = node->in[0];
    }
}

/* ---- replacing ---- */

struct CertReplace {
    CertNodes *nodes;
    CertMap *map;
    void *data;
    uint32_t n;
    CertNode **done; /* by id */
};

CertReplace *dt_certnode_replacing(CertNodes *nodes, CertMap *map, void *data)
{
    CertReplace *r = DT_NEW(nodes->arena, CertReplace);
    *r = (CertReplace){.nodes = nodes, .map = map, .data = data, .n = nodes->n};
    r->done = DT_NEW_ARRAY(nodes->arena, CertNode *, nodes->n + 1);
    return r;
}

CertNode *dt_certnode_replace(CertReplace *r, CertNode *x)
{
    if (x->id <= r->n && r->done[x->id])
        return r->done[x->id];
    CertNode *to = r->map(r->data, x);
    if (!to) {
        bool changed = false;
        CertNode **in = DT_NEW_ARRAY(r->nodes->arena, CertNode *, x->n_in + 1);
        for (uint32_t i = 0; i < x->n_in; i++) {
            in[i] = dt_certnode_replace(r, x->in[i]);
            changed = changed || in[i] != x->in[i];
        }
        to = x;
        if (changed) {
            if (strcmp(x->kind, "add") == 0)
                qsort(in, x->n_in, sizeof in[0], by_id);
            CertNode draft = *x;
            draft.in = in;
            to = intern_node(r->nodes, &draft);
        }
    }
    if (x->id <= r->n)
        r->done[x->id] = to;
    return to;
}

/* ---- sums over pipeline stages ---- */

/* "... over=2:4": what stands before it, and the range. */
static bool range_of(const CertNode *node, size_t *ret_base, long long *ret_lo, long long *ret_hi)
{
    const char *at = strcmp(node->kind, "reduce") == 0 ? strstr(node->attributes, " over=") : NULL;
    if (!at)
        return false;
    *ret_base = (size_t)(at - node->attributes);
    return sscanf(at, " over=%lld:%lld", ret_lo, ret_hi) == 2;
}

typedef struct Range {
    CertNode *node;
    size_t base;
    long long lo, hi;
} Range;

/* By what is reduced, how, and where the range begins. */
static int by_range(const void *a, const void *b)
{
    const Range *x = a, *y = b;
    if (x->node->in[0] != y->node->in[0])
        return x->node->in[0]->id < y->node->in[0]->id ? -1 : 1;
    size_t base = x->base < y->base ? x->base : y->base;
    int order = strncmp(x->node->attributes, y->node->attributes, base);
    if (order == 0 && x->base != y->base)
        order = x->base < y->base ? -1 : 1;
    return order ? order : x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Reductions of one value over ranges that adjoin become one. */
static void join_ranges(CertNodes *nodes, CertNode **terms, uint32_t *n)
{
    Range *ranges = DT_NEW_ARRAY(nodes->arena, Range, *n + 1);
    uint32_t n_ranges = 0, rest = 0;
    for (uint32_t i = 0; i < *n; i++) {
        Range *range = &ranges[n_ranges];
        range->node = terms[i];
        if (terms[i]->n_in == 1 && range_of(terms[i], &range->base, &range->lo, &range->hi))
            n_ranges++;
        else
            terms[rest++] = terms[i];
    }
    if (n_ranges)
        qsort(ranges, n_ranges, sizeof ranges[0], by_range);
    for (uint32_t i = 0; i < n_ranges;) {
        const Range *first = &ranges[i];
        long long hi = first->hi;
        uint32_t k = i + 1;
        for (; k < n_ranges && ranges[k].node->in[0] == first->node->in[0] &&
               ranges[k].base == first->base &&
               strncmp(ranges[k].node->attributes, first->node->attributes, first->base) == 0 &&
               ranges[k].lo == hi;
             k++)
            hi = ranges[k].hi;
        CertNode draft = *first->node;
        draft.attributes = dt_intern_printf("%.*s over=%lld:%lld", (int)first->base,
                                            first->node->attributes, first->lo, hi);
        terms[rest++] = k > i + 1 ? intern_node(nodes, &draft) : first->node;
        i = k;
    }
    *n = rest;
}

/* ---- messages ---- */

static bool holds(const CertNode *node, const CertNode *x)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] == x)
            return true;
    return false;
}

void dt_certnode_differ(const CertNode *have, const CertNode *want, DtText *ret_text)
{
    for (int depth = 0; depth < 1000; depth++) {
        const CertNode *a = NULL, *b = NULL;
        bool sum = strcmp(have->kind, "add") == 0 && have->kind == want->kind;
        if (!sum && (have->kind != want->kind || have->attributes != want->attributes ||
                     have->n_in != want->n_in))
            break;
        uint32_t only_a = 0, only_b = 0;
        for (uint32_t i = 0; i < have->n_in; i++)
            if (sum ? !holds(want, have->in[i]) : have->in[i] != want->in[i]) {
                a = a ? a : have->in[i];
                b = sum || b ? b : want->in[i];
                only_a++;
            }
        for (uint32_t i = 0; sum && i < want->n_in; i++)
            if (!holds(have, want->in[i])) {
                b = b ? b : want->in[i];
                only_b++;
            }
        if (!a || !b || only_a != (sum ? only_b : only_a)) {
            dt_text_printf(ret_text, ": a sum of %u terms, %u of them others, stands for one of %u",
                           have->n_in, only_a, want->n_in);
            return;
        }
        have = a;
        want = b;
    }
    dt_text_printf(ret_text, ": `%s%s` of %u stands where the serial program has `%s%s` of %u",
                   have->kind, have->attributes, have->n_in, want->kind, want->attributes,
                   want->n_in);
}
