/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of expressions: equal parts give the same node (hash-consing), so that two values are equal if
 * their nodes are. Placement is no part of a node; the order of axes is not either, nor is padding. */
#include "verify/internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <math.h>
#include <stdlib.h>

enum { SHAPES = 1 << 10, SPREAD = 256, LONG = 32, LISTED = 1 << 16 };
#define COUNTED (INT64_C(1) << 48)

const char dt_certkind_tuple[] = "bucket", dt_certkind_carried[] = "carried",
           dt_certkind_bound[] = "bound", dt_certkind_stack[] = "stack", dt_certkind_chain[] = "chain",
           dt_certkind_at[] = "at", dt_certkind_total[] = "total";

static const char of_tree[] = " of a tree of terms"; /* attributes of such sums, and of nothing else */

struct CertNodes {
    DtArena *arena;
    uint32_t n, cap, walk;
    CertNode **bucket;
    const CertShape *shapes[SHAPES];
    const char *add, *cast, *none;
};

static bool is(const CertNode *node, const char *kind) { return dt_cert_is(node->kind, kind); }

CertNodes *dt_certnode_table(DtArena *arena)
{
    CertNodes *nodes = DT_NEW(arena, CertNodes);
    nodes->arena = arena;
    nodes->add = dt_intern("add");
    nodes->cast = dt_intern("cast");
    nodes->none = dt_intern("");
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
    hash = mix(hash, (uint64_t)x->lo * 31 + (uint64_t)x->hi * 7 + x->index);
    for (uint32_t i = 0; i < x->n_in; i++)
        hash = mix(hash, x->in[i]->id);
    return hash;
}

static bool equal(const CertNode *a, const CertNode *b)
{
    if (a->kind != b->kind || a->attributes != b->attributes || a->shape != b->shape ||
        a->n_in != b->n_in || a->index != b->index || a->lo != b->lo || a->hi != b->hi)
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
    node->behind = NULL;
    node->room = 0;
    node->given = CERT_UNKNOWN;
    node->next = *slot;
    *slot = node;
    if (nodes->n > nodes->cap)
        grow(nodes);
    return node;
}

CertNode *dt_certnode_leaf(CertNodes *nodes, const char *kind, const char *attributes,
                           const CertShape *shape, uint32_t index)
{
    return dt_certnode_make(nodes, (CertNode){.kind = kind, .attributes = attributes,
                                              .shape = shape, .index = index});
}

CertNode *dt_certnode_of(CertNodes *nodes, const char *kind, const char *attributes,
                         const CertShape *shape, CertNode *x)
{
    return dt_certnode_make(nodes, (CertNode){.kind = kind, .attributes = attributes,
                                              .shape = shape, .n_in = 1, .in = &x});
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

const CertShape *dt_certnode_shape(CertNodes *nodes, const CertType *type, const char *loop)
{
    loop = loop && dt_certtext_axis(type, loop) ? loop : NULL;
    CertType *notes = (CertType *)type; /* what follows from it is noted in it */
    if (!loop ? type->shape != NULL : type->open_loop == loop)
        return loop ? type->open : type->shape;
    CertShape draft = {.dtype = type->dtype};
    for (uint32_t i = 0; i < type->rank; i++)
        add_axis(&draft, type->axes[i].name,
                 type->axes[i].name == loop ? -1 : type->axes[i].logical);
    const CertShape *shape = make_shape(nodes, &draft);
    *(loop ? &notes->open : &notes->shape) = shape;
    notes->open_loop = loop ? loop : notes->open_loop;
    return shape;
}

const CertShape *dt_certnode_cast_shape(CertNodes *nodes, const CertShape *shape, const char *dtype)
{
    CertShape draft = *shape;
    draft.dtype = dtype;
    return shape->dtype == dtype ? shape : make_shape(nodes, &draft);
}

const CertShape *dt_certnode_stacked(CertNodes *nodes, const CertShape *shape, const char *axis)
{
    CertShape draft = *shape;
    if (draft.rank < CERT_RANK)
        add_axis(&draft, axis, -1);
    return make_shape(nodes, &draft);
}

const CertShape *dt_certnode_closed(CertNodes *nodes, const CertShape *shape, const CertType *type,
                                    const char *loop)
{
    CertShape draft = *shape;
    for (uint32_t i = 0; i < draft.rank; i++) {
        const CertAxis *axis = dt_certtext_axis(type, draft.axes[i]);
        if (draft.extents[i] < 0 && draft.axes[i] != loop && axis)
            draft.extents[i] = axis->logical;
    }
    return make_shape(nodes, &draft);
}

const CertShape *dt_certnode_sliced(CertNodes *nodes, const CertShape *shape)
{
    CertShape draft = {.dtype = shape->dtype};
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->extents[i] >= 0)
            add_axis(&draft, shape->axes[i], shape->extents[i]);
    return make_shape(nodes, &draft);
}

/* ---- sums ---- */

static int by_id(const void *a, const void *b)
{
    const CertNode *x = *(CertNode *const *)a, *y = *(CertNode *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* By what is reduced over iterations, how, and where the range begins; the others behind. */
static int by_range(const void *a, const void *b)
{
    const CertNode *x = *(CertNode *const *)a, *y = *(CertNode *const *)b;
    bool ranges[2] = {x->hi != 0, y->hi != 0};
    if (ranges[0] != ranges[1])
        return ranges[0] ? -1 : 1;
    if (!ranges[0])
        return by_id(a, b);
    if (x->in[0] != y->in[0])
        return x->in[0]->id < y->in[0]->id ? -1 : 1;
    if (x->attributes != y->attributes)
        return (uintptr_t)x->attributes < (uintptr_t)y->attributes ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static bool same_but_range(const CertNode *x, const CertNode *y)
{
    return x->hi && y->hi && x->in[0] == y->in[0] && x->kind == y->kind &&
           x->attributes == y->attributes;
}

/* Reductions of one value over ranges that adjoin become one; there may be several of one range. */
static uint32_t join_ranges(CertNodes *nodes, CertNode **terms, uint32_t n)
{
    uint32_t to = 0;
    qsort(terms, n, sizeof terms[0], by_range);
    for (uint32_t i = 0; i < n; i++) {
        CertNode *x = terms[i];
        uint32_t at = to; /* behind the one that x goes on with */
        while (at > 0 && same_but_range(terms[at - 1], x) && terms[at - 1]->hi != x->lo)
            at--;
        if (at > 0 && same_but_range(terms[at - 1], x)) {
            CertNode joined = *terms[at - 1];
            joined.hi = x->hi;
            terms[at - 1] = dt_certnode_make(nodes, joined);
        } else {
            terms[to++] = x;
        }
    }
    return to;
}

/* Whether the terms of a sum are a tree, but for those that are reductions over iterations. */
static bool is_tree(const CertNodes *nodes, const CertNode *x)
{
    return x->kind == nodes->add && x->attributes == of_tree;
}

/* How many operands of a sum are a tree: the first, or none. */
static uint32_t n_trees(const CertNode *x)
{
    return x->in[0]->kind == dt_certkind_terms || x->in[0]->kind == dt_certkind_times;
}

static int64_t count_terms(const CertNodes *nodes, uint32_t n, CertNode *const *in)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += in[i]->kind != nodes->add ? 1 : is_tree(nodes, in[i]) ? in[i]->lo : in[i]->n_in;
    return count;
}

/* A sum of these, not more than SPREAD of them. */
static CertNode *few_terms(CertNodes *nodes, const CertShape *shape, uint32_t n, CertNode **terms)
{
    if (n == 1 && terms[0]->shape && terms[0]->shape->rank == shape->rank && terms[0]->shape->dtype == shape->dtype)
        return terms[0];
    if (n)
        qsort(terms, n, sizeof terms[0], by_id);
    return dt_certnode_make(
        nodes, (CertNode){.kind = nodes->add, .attributes = nodes->none, .shape = shape, .n_in = n, .in = terms});
}

/* The sum of a tree, or NULL, and of n reductions over iterations, behind a free place in `terms`. */
static CertNode *many_terms(CertNodes *nodes, const CertShape *shape, CertNode *tree, uint32_t n, CertNode **terms)
{
    if (n > 1)
        n = join_ranges(nodes, terms + 1, n);
    const int64_t count = n + (tree ? dt_certterms_count(tree) : 0);
    CertNode *few[SPREAD];
    if (count <= SPREAD) {
        const uint32_t in_tree = tree ? dt_certterms_list(tree, few) : 0;
        memcpy(few + in_tree, terms + 1, n * sizeof few[0]);
        return few_terms(nodes, shape, in_tree + n, few);
    }
    if (n)
        qsort(terms + 1, n, sizeof terms[0], by_id);
    terms[0] = tree;
    return dt_certnode_make(nodes, (CertNode){.kind = nodes->add,
                                              .attributes = of_tree,
                                              .shape = shape,
                                              .lo = count,
                                              .n_in = n + (tree != NULL),
                                              .in = tree ? terms : terms + 1});
}

/* The same of operands that have many terms. */
static CertNode *long_sum(CertNodes *nodes, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    CertNode *tree = NULL, **terms = NULL;
    for (uint32_t pass = 0, to = 1;; pass++, to = 1) { /* counts the reductions; takes all */
        for (uint32_t i = 0; i < n; i++) {
            const bool inner = in[i]->kind == nodes->add && in[i]->shape->dtype == shape->dtype;
            if (n > 1 && dt_certnode_is_zero(in[i]))
                continue;
            for (uint32_t k = 0; k < (inner ? in[i]->n_in : 1); k++) {
                CertNode *term = inner ? in[i]->in[k] : in[i];
                const bool ranges = term->hi && term->kind != dt_certkind_terms;
                if (pass && ranges)
                    terms[to] = term;
                else if (pass)
                    tree = dt_certterms_join(nodes, tree, term);
                to += ranges;
            }
        }
        for (uint32_t i = 0; i < n && pass && !tree && to == 1; i++)
            if (in[i]->shape == shape)
                return in[i]; /* all of them are zeros */
        if (pass)
            return many_terms(nodes, shape, tree, to - 1, terms);
        terms = DT_NEW_ARRAY(nodes->arena, CertNode *, to);
    }
}

/* Sums of more terms than can be counted stay as they are: terms. */
static CertNode *sum_of_sums(CertNodes *nodes, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    CertNode **terms = DT_NEW_ARRAY(nodes->arena, CertNode *, n);
    for (uint32_t i = 0; i < n; i++)
        terms[i] = dt_certnode_close(nodes, in[i]);
    return few_terms(nodes, shape, n, terms);
}

CertNode *dt_certnode_sum(CertNodes *nodes, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    const int64_t most = count_terms(nodes, n, in);
    uint32_t n_terms = 0, n_ranges = 0;
    if (most > SPREAD)
        return most <= COUNTED || n < 2 ? long_sum(nodes, shape, n, in) : sum_of_sums(nodes, shape, n, in);
    CertNode *terms[SPREAD];
    for (uint32_t i = 0; i < n; i++) {
        bool inner = in[i]->kind == nodes->add && in[i]->shape->dtype == shape->dtype;
        if (n > 1 && dt_certnode_is_zero(in[i]))
            continue;
        for (uint32_t k = 0; k < (inner ? in[i]->n_in : 1); k++) {
            terms[n_terms] = inner ? in[i]->in[k] : in[i];
            n_ranges += terms[n_terms++]->hi != 0;
        }
    }
    for (uint32_t i = 0; i < n && n_terms == 0; i++)
        if (in[i]->shape == shape)
            return in[i]; /* all of them are zeros */
    if (n_ranges > 1)
        n_terms = join_ranges(nodes, terms, n_terms);
    return few_terms(nodes, shape, n_terms, terms);
}

uint32_t dt_certnode_terms(CertNodes *nodes, const CertNode *sum, CertNode *const **ret_terms)
{
    *ret_terms = sum->in;
    if (!is_tree(nodes, sum))
        return sum->n_in;
    CertNode **terms = sum->lo > LISTED ? NULL : DT_NEW_ARRAY(nodes->arena, CertNode *, sum->lo);
    *ret_terms = terms;
    if (!terms)
        return 0;
    const uint32_t trees = n_trees(sum), n = trees ? dt_certterms_list(sum->in[0], terms) : 0;
    memcpy(terms + n, sum->in + trees, (sum->n_in - trees) * sizeof terms[0]);
    return n + sum->n_in - trees;
}

void dt_certnode_mark_sums(CertFunc *func)
{
    enum { NONE, ONE_SUM, OTHERS };
    const char *add = dt_intern("add");
    uint8_t *reader = calloc(func->n_values + 1, 1);
    const CertOp **by = calloc(func->n_values + 1, sizeof *by);
    if (!reader || !by)
        dt_arena_exhausted(func->n_values);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++) {
            reader[op->in[k]] = reader[op->in[k]] == NONE && op->kind == add && op->n_out == 1 ? ONE_SUM : OTHERS;
            by[op->in[k]] = op;
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        reader[func->results.at[i]] = OTHERS;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        CertOp *op = func->ops.at[i];
        op->alone = op->kind == add && op->n_out == 1 && reader[op->first_out] == ONE_SUM &&
                    by[op->first_out]->types[0]->dtype == op->types[0]->dtype;
    }
    free(reader);
    free(by);
}

/* The operands' terms as an open sum: the longest open operand, with those of the others. */
static CertNode *open_sum(CertNodes *nodes, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    CertNode *sum = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (in[i]->room && (!sum || in[i]->n_in > sum->n_in))
            sum = in[i];
    const CertNode *taken = sum;
    if (!sum) {
        sum = DT_NEW(nodes->arena, CertNode);
        *sum = (CertNode){.kind = nodes->add, .attributes = nodes->none};
    }
    sum->shape = shape;
    for (uint32_t i = 0; i < n; i++) {
        const bool inner = in[i]->kind == nodes->add && in[i]->shape->dtype == shape->dtype;
        if (in[i] == taken || dt_certnode_is_zero(in[i]))
            continue;
        for (uint32_t k = 0; k < (inner ? in[i]->n_in : 1); k++) {
            if (sum->n_in == sum->room)
                sum->in = dt_arena_grow(nodes->arena, (void *)(uintptr_t)sum->in, &sum->room, sizeof sum->in[0]);
            ((CertNode **)(uintptr_t)sum->in)[sum->n_in++] = inner ? in[i]->in[k] : in[i];
        }
    }
    return sum;
}

CertNode *dt_certnode_close(CertNodes *nodes, CertNode *x)
{
    return x->room ? dt_certnode_sum(nodes, x->shape, 1, &x) : x;
}

static bool is_long(const CertNodes *nodes, uint32_t n, CertNode *const *in)
{
    for (uint32_t i = 0; i < n; i++)
        if (is_tree(nodes, in[i]))
            return false;
    return count_terms(nodes, n, in) > LONG;
}

CertNode *dt_certnode_cast(CertNodes *nodes, const char *dtype, CertNode *x)
{
    const CertShape *shape = dt_certnode_cast_shape(nodes, x->shape, dtype);
    bool floats = dt_cert_is_float(x->shape->dtype) && dt_cert_is_float(dtype);
    if (x->shape == shape)
        return x;
    if (floats && is(x, "cast") && x->in[0]->shape->dtype == dtype)
        return x->in[0]; /* there and back: only rounding lies between */
    if (floats && x->kind == dt_certkind_total && x->in[0]->kind == dt_certkind_stack) { /* as a sum is */
        CertNode total = *x, *term = dt_certnode_cast(nodes, dtype, x->in[0]->in[0]);
        CertNode *stack = dt_certnode_of(nodes, dt_certkind_stack, x->in[0]->attributes,
                                         dt_certnode_cast_shape(nodes, x->in[0]->shape, dtype), term);
        total.shape = shape;
        total.in = &stack;
        return dt_certnode_make(nodes, total);
    }
    CertNode *const *in = NULL;
    const uint32_t n = floats && x->kind == nodes->add ? dt_certnode_terms(nodes, x, &in) : 0;
    if (!n)
        return dt_certnode_of(nodes, nodes->cast, nodes->none, shape, x);
    CertNode **terms = DT_NEW_ARRAY(nodes->arena, CertNode *, n);
    for (uint32_t i = 0; i < n; i++)
        terms[i] = dt_certnode_cast(nodes, dtype, in[i]);
    return dt_certnode_sum(nodes, shape, n, terms);
}

/* ---- linear ops ---- */

/* Whether every op before x is a cheap one of sources, as masks and scales are: no rank waits for what it depends on.
 * Positions among blocks are none: cert_halo.c and cert_func.c look at what is selected by them. */
static bool is_given(CertNode *x)
{
    static const char *const sources[] = {"source", "input of", "const", "rng", "iota"};
    static const char *const axis_ops[] = {"relabel", "slice", "pad", "concat"};
    if (x->given != CERT_UNKNOWN)
        return x->given == CERT_GIVEN;
    const CertRule *rule = x->n_in ? dt_certrule_find(x->kind) : NULL;
    bool given = (rule && rule->map) || x->kind == dt_certkind_terms || x->kind == dt_certkind_times;
    for (size_t i = 0; !x->n_in && i < DT_COUNT(sources); i++)
        given = given || is(x, sources[i]);
    for (size_t i = 0; x->n_in && i < DT_COUNT(axis_ops); i++)
        given = given || is(x, axis_ops[i]);
    for (uint32_t i = 0; given && x->shape && i < x->shape->rank; i++)
        given = x->shape->axes[i][0] != '@';
    for (uint32_t i = 0; given && i < x->n_in; i++)
        given = is_given(x->in[i]);
    x->given = given ? CERT_GIVEN : CERT_MADE;
    return given;
}

/* Terms that have all axes of the sum; more of them than this stay together: what is made of them costs too much. */
static bool is_spreadable(const CertNodes *nodes, const CertNode *x)
{
    bool good = x->kind == nodes->add && !is_tree(nodes, x) && x->n_in <= SPREAD;
    for (uint32_t i = 0; good && i < x->n_in; i++)
        good = x->in[i]->shape == x->shape;
    return good;
}

/* The operand, a sum, in which op is linear while the others are given; -1: none, or several. */
static int linear_in(const CertNodes *nodes, const CertOp *op, const CertNode *x)
{
    uint32_t sums = 0, made = 0, n = x->n_in;
    for (uint32_t i = 0; i < n && n <= 3; i++)
        sums |= (uint32_t)(x->in[i]->kind == nodes->add) << i;
    if (!sums || strchr(x->attributes, '@'))
        return -1;
    for (uint32_t i = 0; i < n; i++)
        made |= (uint32_t)!is_given(x->in[i]) << i;
    const uint32_t only = made ? made : sums;
    const int found = only == 1 ? 0 : only == 2 ? 1 : only == 4 ? 2 : -1;
    if (found < 0 || !(sums >> found & 1) || !is_spreadable(nodes, x->in[found]))
        return -1;
    if (is(x, "mul") || is(x, "neg") || is(x, "relabel") || is(x, "expand"))
        return found;
    if (is(x, "where")) /* zero where it is not the sum */
        return found > 0 && dt_certnode_is_zero(x->in[3 - found]) ? found : -1;
    bool linear = is(x, "reduce") ? dt_cert_is(op->reduce, "sum")
                                  : is(x, "div") && found == 0 && dt_cert_is_float(x->shape->dtype);
    return linear ? found : -1;
}

/* Whether it is zero whatever its extents are: a product or sum of zeros. */
static bool stays_zero(const CertOp *op, const CertNode *x)
{
    bool zero = is(x, "mul") || (is(x, "reduce") && dt_cert_is(op->reduce, "sum"));
    for (uint32_t i = 0; zero && i < x->n_in; i++)
        zero = dt_certnode_is_zero(x->in[i]);
    return zero;
}

CertNode *dt_certnode_zeros(CertNodes *nodes, const CertShape *shape, CertNode *zero)
{
    while (zero->n_in)
        zero = zero->in[0];
    return shape == zero->shape ? zero : dt_certnode_of(nodes, dt_intern("expand"), nodes->none, shape, zero);
}

CertNode *dt_certnode_linear(CertNodes *nodes, const CertOp *op, CertNode parts)
{
    CertNode *in[3], *terms[SPREAD];
    if (stays_zero(op, &parts))
        return dt_certnode_zeros(nodes, parts.shape, parts.in[0]);
    int spread = linear_in(nodes, op, &parts);
    if (spread < 0)
        return dt_certnode_make(nodes, parts);
    const CertNode *sum = parts.in[spread];
    memcpy(in, parts.in, parts.n_in * sizeof in[0]);
    parts.in = in;
    for (uint32_t i = 0; i < sum->n_in; i++) {
        in[spread] = sum->in[i];
        terms[i] = dt_certnode_make(nodes, parts);
    }
    return dt_certnode_sum(nodes, parts.shape, sum->n_in, terms);
}

CertNode *dt_certnode_op(CertNodes *nodes, const CertOp *op, const CertShape *shape,
                         CertNode *const *in, uint32_t index)
{
    if (op->alone && is_long(nodes, op->n_in, in))
        return open_sum(nodes, shape, op->n_in, in);
    if (op->kind == nodes->add)
        return dt_certnode_sum(nodes, shape, op->n_in, in);
    if (op->kind == nodes->cast)
        return dt_certnode_cast(nodes, shape->dtype, in[0]);
    return dt_certnode_linear(nodes, op, (CertNode){.kind = op->kind, .attributes = op->attributes,
                                                    .shape = shape, .n_in = op->n_in, .in = in,
                                                    .index = index});
}

bool dt_certnode_number(const CertNode *node, double *ret_number)
{
    while (node->n_in == 1 && (is(node, "expand") || is(node, "relabel") || is(node, "cast")))
        node = node->in[0];
    if (!is(node, "const"))
        return false;
    const char *number = strstr(node->attributes, "number=");
    *ret_number = number ? strtod(number + strlen("number="), NULL) : 0;
    return true;
}

bool dt_certnode_is_zero(const CertNode *node)
{
    double number;
    return dt_certnode_number(node, &number) && number == 0;
}

/* ---- symbols of loops ---- */

static bool is_symbol(const CertNode *x, const char *loop)
{
    return x->kind == dt_certkind_carried && x->attributes == loop;
}

static void walk(CertNodes *nodes, CertNode *x, const char *loop, bool *ret_needs)
{
    if (x->mark == nodes->walk)
        return;
    x->mark = nodes->walk;
    if (is_symbol(x, loop))
        ret_needs[x->index] = true;
    for (uint32_t i = 0; i < x->n_in; i++)
        walk(nodes, x->in[i], loop, ret_needs);
}

void dt_certnode_symbols(CertNodes *nodes, CertNode *x, const char *loop, bool fresh,
                         bool *ret_needs)
{
    nodes->walk += fresh;
    walk(nodes, x, loop, ret_needs);
}

uint32_t dt_certnode_walk(CertNodes *nodes) { return ++nodes->walk; }

CertNode *dt_certnode_with(CertNodes *nodes, const CertNode *x, CertNode **in)
{
    CertNode draft = *x;
    if (x->kind == dt_certkind_terms)
        return dt_certterms_join(nodes, in[0], in[1]);
    const uint32_t first = is_tree(nodes, x) ? n_trees(x) : 0;
    if (x->kind == nodes->add)
        qsort(in + first, x->n_in - first, sizeof in[0], by_id);
    draft.in = in;
    return dt_certnode_make(nodes, draft);
}

static CertNode *bind(CertNodes *nodes, CertNode *x, const char *loop, const uint32_t *order)
{
    if (x->mark == nodes->walk)
        return x->to;
    CertNode *to = x;
    if (is_symbol(x, loop)) {
        to = dt_certnode_leaf(nodes, dt_certkind_bound, loop, x->shape, order[x->index]);
    } else if (x->n_in) {
        CertNode *few[16],
            **in = x->n_in <= 16 ? few : DT_NEW_ARRAY(nodes->arena, CertNode *, x->n_in);
        bool changed = false;
        for (uint32_t i = 0; i < x->n_in; i++) {
            in[i] = bind(nodes, x->in[i], loop, order);
            changed = changed || in[i] != x->in[i];
        }
        to = changed ? dt_certnode_with(nodes, x, in) : x;
    }
    x->mark = nodes->walk;
    x->to = to;
    return to;
}

CertNode *dt_certnode_bind(CertNodes *nodes, CertNode *x, const char *loop, const uint32_t *order,
                           bool fresh)
{
    nodes->walk += fresh;
    return bind(nodes, x, loop, order);
}

/* ---- messages ---- */

/* The first operand of `from` that is none of node's. */
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
    while (have->kind == want->kind && have->attributes == want->attributes && have->n_in == want->n_in &&
           have->attributes != of_tree) {
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
