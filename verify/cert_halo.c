/* SPDX-License-Identifier: Apache-2.0 */
/* Windows over an axis that ranks share. The placed program cuts the axis into one part per rank (a new axis
 * "@axis"), moves edges of parts to neighbours by `shift`, joins and selects, takes windows of each part, and puts
 * the parts together again. All this is a map along one axis that is linear but for constants, so what it computes
 * is decided by its matrix: it is evaluated here on one vector of random numbers of the field modulo 2^61 - 1, and so
 * is the window (or fold) of the whole axis that it is to be. If the matrices differ, the results agree by chance with
 * a probability of less than 2^-50; if they agree, the value is given the number of that window. */
#include "verify/internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_NODES = 32, MAX_ELEMENTS = 1 << 24 };
static const uint64_t PRIME = (UINT64_C(1) << 61) - 1;

typedef struct Range {
    long long lo, hi, step, n;
} Range;

/* Values along three axes: "@axis", axis, and that of a window's elements; 1 where a value lacks one. */
typedef struct Field {
    int64_t p, a, w;
    uint64_t *at;
} Field;

typedef struct Known {
    const CertNode *node;
    Field field;
} Known;

typedef struct Halo {
    CertState *state;
    const char *block, *axis;
    CertNode *source;      /* what is cut into parts; NULL: not met yet */
    const CertNode *moves; /* the one window or fold */
    const char *fill;      /* what is put where there is no neighbour, NULL: nothing */
    Known known[MAX_NODES];
    uint32_t n_known;
} Halo;

/* ---- texts ---- */

static bool is(const CertNode *node, const char *kind) { return strcmp(node->kind, kind) == 0; }

static bool range_in(const char *attributes, Range *ret)
{
    const char *at = strstr(attributes, "ranges=(");
    return at &&
           sscanf(at, "ranges=(%lld %lld %lld %lld)", &ret->lo, &ret->hi, &ret->step, &ret->n) == 4;
}

/* "-inf" of " number=-inf [height]"; "0" if there is none. */
static const char *number_in(const char *attributes)
{
    const char *at = strstr(attributes, "number=");
    return at ? dt_intern_n(at + 7, strcspn(at + 7, " ")) : "0";
}

static bool names_axis(const char *attributes, const char *axis)
{
    const char *at = strstr(attributes, " [");
    size_t n = strlen(axis);
    return at && strncmp(at + 2, axis, n) == 0 && at[2 + n] == ']' && !strstr(at + 2, " [");
}

/* Whether a and b are equal but for quotes in a. */
static bool same_unquoted(const char *a, const char *b)
{
    for (; *a; a++)
        if (*a != '"' && *a != *b++)
            return false;
    return *b == 0;
}

static int64_t extent(const CertNode *node, const char *axis)
{
    for (uint32_t i = 0; i < node->shape->rank; i++)
        if (node->shape->axes[i] == axis)
            return node->shape->extents[i];
    return -1;
}

static const char *text_of(const Range *range, const char *fill, const char *axis, const char *w)
{
    return dt_intern_printf(" ranges=(%lld 0 %lld %lld)%s%s [%s] [%s]", range->lo, range->step,
                            range->n, fill ? " number=" : "", fill ? fill : "", axis, w);
}

const char *dt_certhalo_attributes(const CertOp *op, const CertValue *in)
{
    const CertType *x = in[0].type, *y = op->types[0];
    const bool is_window = strcmp(op->kind, "window") == 0;
    const CertAxis *lengths = dt_certtext_axis(is_window ? x : y, op->axes[0]),
                   *windows = dt_certtext_axis(is_window ? y : x, op->axes[0]);
    Range range;
    if (!lengths || !windows || op->n_axes != 2 || !range_in(op->attributes, &range))
        return NULL;
    bool outside = range.lo > 0 || (windows->extent - 1) * range.step + range.n > lengths->extent;
    const char *fill = is_window && outside ? number_in(op->attributes) : NULL;
    return text_of(&range, fill, op->axes[0], op->axes[1]);
}

/* ---- the field ---- */

static uint64_t constant(const char *number)
{
    char *end;
    long long value = strtoll(number, &end, 10);
    if (!*end)
        return value >= 0 ? (uint64_t)value % PRIME : PRIME - (uint64_t)-value % PRIME;
    return dt_hash_bytes(number, strlen(number), 7) % PRIME;
}

static int64_t size_of(int64_t n) { return n < 0 ? 1 : n; }

static bool new_field(Halo *h, const CertNode *node, const char *w, Field *ret)
{
    *ret = (Field){size_of(extent(node, h->block)), size_of(extent(node, h->axis)),
                   w ? size_of(extent(node, w)) : 1, NULL};
    if (ret->p * ret->a > MAX_ELEMENTS / ret->w)
        return false;
    ret->at = DT_NEW_ARRAY(h->state->arena, uint64_t, ret->p * ret->a * ret->w + 1);
    return true;
}

static uint64_t *at(const Field *f, int64_t p, int64_t a, int64_t w)
{
    return &f->at[((f->p == 1 ? 0 : p) * f->a + (f->a == 1 ? 0 : a)) * f->w + (f->w == 1 ? 0 : w)];
}

/* Element (p, a, w) of the vector that stands for the source. */
static uint64_t probe(int64_t position, int64_t w)
{
    int64_t of[2] = {position, w};
    return dt_hash_bytes(of, sizeof of, 99) % PRIME;
}

/* ---- ops ---- */

/* "ranges=(..) [height] [kh]": the second axis. */
static const char *second_axis(const CertNode *node)
{
    const char *open = strstr(node->attributes, "] [");
    return open ? dt_intern_n(open + 3, strcspn(open + 3, "]")) : NULL;
}

static void window(const Field *x, const Range *r, const char *fill, const Field *y)
{
    for (int64_t p = 0; p < y->p; p++)
        for (int64_t i = 0; i < y->a; i++)
            for (int64_t j = 0; j < y->w; j++) {
                int64_t from = i * r->step + j - r->lo;
                *at(y, p, i, j) = from < 0 || from >= x->a ? constant(fill) : *at(x, p, from, 0);
            }
}

static void fold(const Field *x, const Range *r, const Field *y)
{
    for (int64_t p = 0; p < x->p; p++)
        for (int64_t i = 0; i < x->a; i++)
            for (int64_t j = 0; j < x->w; j++) {
                int64_t to = i * r->step + j - r->lo;
                if (to >= 0 && to < y->a)
                    *at(y, p, to, 0) = (*at(y, p, to, 0) + *at(x, p, i, j)) % PRIME;
            }
}

/* slice: y's element i is x's at lo + i step; pad: x's element i is y's there. */
static void cut(const Field *x, const Range *r, const Field *y)
{
    for (int64_t p = 0; p < y->p; p++)
        for (int64_t i = 0; i < y->a; i++)
            for (int64_t w = 0; w < y->w; w++)
                *at(y, p, i, w) = *at(x, p, r->lo + i * r->step, w);
}

static void pad(const Field *x, const Range *r, const char *fill, const Field *y)
{
    for (int64_t p = 0; p < y->p; p++)
        for (int64_t i = 0; i < y->a; i++)
            for (int64_t w = 0; w < y->w; w++) {
                int64_t from = i - r->lo;
                bool inside = from >= 0 && from % r->step == 0 && from / r->step < x->a;
                *at(y, p, i, w) = inside ? *at(x, p, from / r->step, w) : constant(fill);
            }
}

static bool elementwise(const CertNode *node, const Field *in, const Field *y)
{
    const bool adds = is(node, "add"), equals = is(node, "eq");
    if ((equals && node->n_in != 2) || (!adds && !equals && node->n_in != 3))
        return false;
    for (int64_t p = 0; p < y->p; p++)
        for (int64_t a = 0; a < y->a; a++)
            for (int64_t w = 0; w < y->w; w++) {
                uint64_t sum = 0;
                for (uint32_t i = 0; adds && i < node->n_in; i++)
                    sum = (sum + *at(&in[i], p, a, w)) % PRIME;
                uint64_t x = *at(&in[0], p, a, w), z = adds ? 0 : *at(&in[1], p, a, w);
                *at(y, p, a, w) = adds ? sum : equals ? x == z : (x ? z : *at(&in[2], p, a, w));
            }
    return true;
}

static void shift(const CertNode *node, const Field *x, const Field *y)
{
    int64_t by = strstr(node->attributes, " reverse") ? 1 : y->p - 1;
    for (int64_t p = 0; p < y->p; p++)
        for (int64_t a = 0; a < y->a; a++)
            for (int64_t w = 0; w < y->w; w++)
                *at(y, p, a, w) = *at(x, (p + by) % y->p, a, w);
}

static bool concat(const CertNode *node, const Field *in, const Field *y)
{
    int64_t done = 0;
    for (uint32_t i = 0; i < node->n_in; i++)
        for (int64_t k = 0; k < in[i].a; k++, done++)
            for (int64_t p = 0; p < y->p; p++)
                for (int64_t w = 0; w < y->w; w++)
                    *at(y, p, done, w) = *at(&in[i], p, k, w);
    return done == y->a;
}

/* ---- evaluating ---- */

/* Every axis but the three is that of the source. */
static bool passes(const Halo *h, const CertNode *node, const char *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->shape->rank; i++) {
        if (node->shape->axes[i] == h->block || node->shape->axes[i] == h->axis || node->shape->axes[i] == w)
            continue;
        if (extent(h->source, node->shape->axes[i]) != node->shape->extents[i])
            return false;
        n++;
    }
    const bool windowed = w && extent(h->source, w) >= 0;
    return n + 1 + windowed == h->source->shape->rank && node->shape->dtype == h->source->shape->dtype;
}

/* The parts of the source. */
static bool source(Halo *h, const CertNode *node, const char *w, Field *ret)
{
    CertNode *x = node->in[0];
    const char *text = dt_intern_printf(" relabel(%s -> %s=%lld, %s=%lld)", h->axis, h->block,
                                        (long long)extent(node, h->block), h->axis,
                                        (long long)extent(node, h->axis));
    if (!same_unquoted(node->attributes, text) || (h->source && h->source != x) ||
        extent(x, h->block) >= 0)
        return false;
    h->source = x;
    if (!new_field(h, node, w, ret))
        return false;
    for (int64_t i = 0; i < ret->p * ret->a; i++)
        for (int64_t k = 0; k < ret->w; k++)
            ret->at[i * ret->w + k] = probe(i, k);
    return true;
}

static bool evaluate(Halo *h, const CertNode *node, const char *w, Field *ret);

static bool operands(Halo *h, const CertNode *node, const char *w, Field *in)
{
    if (node->n_in == 0 || node->n_in > 8)
        return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (!evaluate(h, node->in[i], w, &in[i]))
            return false;
    return true;
}

static bool leaf(Halo *h, const CertNode *node, Field *ret)
{
    if (!new_field(h, node, NULL, ret))
        return false;
    if (is(node, "const"))
        ret->at[0] = constant(number_in(node->attributes));
    for (int64_t p = 0; is(node, "iota") && p < ret->p; p++)
        ret->at[p] = (uint64_t)p;
    return node->shape->rank == 0 || (node->shape->rank == 1 && node->shape->axes[0] == h->block && is(node, "iota"));
}

static bool inner(Halo *h, const CertNode *node, const char *w, Field *ret)
{
    Field in[8];
    Range range = {0};
    const bool ranged = range_in(node->attributes, &range);
    if (!operands(h, node, w, in) || !new_field(h, node, w, ret))
        return false;
    if (is(node, "eq"))
        return elementwise(node, in, ret);
    if (!h->source || !passes(h, node, w) || (ranged && range.step < 1))
        return false;
    if (is(node, "add"))
        return elementwise(node, in, ret);
    if (is(node, "where")) {
        if (is(node->in[1], "const"))
            h->fill = number_in(node->in[1]->attributes);
        return elementwise(node, in, ret);
    }
    if (is(node, "shift") && names_axis(node->attributes, h->block)) {
        shift(node, in, ret);
        return true;
    }
    if (is(node, "concat") && names_axis(node->attributes, h->axis))
        return concat(node, in, ret);
    if (ranged && is(node, "slice") && names_axis(node->attributes, h->axis)) {
        if (range.lo < 0 || range.lo + (ret->a - 1) * range.step >= in[0].a)
            return false;
        cut(in, &range, ret);
        return true;
    }
    if (ranged && is(node, "pad") && names_axis(node->attributes, h->axis)) {
        pad(in, &range, number_in(node->attributes), ret);
        return true;
    }
    if (ranged && node == h->moves && is(node, "window"))
        window(in, &range, number_in(node->attributes), ret);
    else if (ranged && node == h->moves)
        fold(in, &range, ret);
    return node == h->moves;
}

static bool evaluate(Halo *h, const CertNode *node, const char *w, Field *ret)
{
    for (uint32_t i = 0; i < h->n_known; i++)
        if (h->known[i].node == node) {
            *ret = h->known[i].field;
            return true;
        }
    bool good = node->n_in == 0       ? leaf(h, node, ret)
                : is(node, "relabel") ? source(h, node, w, ret)
                                      : inner(h, node, w, ret);
    if (!good || h->n_known == MAX_NODES)
        return false;
    h->known[h->n_known++] = (Known){node, *ret};
    return true;
}

/* The one window or fold between node and the source. */
static bool find_move(Halo *h, const CertNode *node, uint32_t *n)
{
    if (++*n > 200)
        return false;
    if (is(node, "window") || is(node, "fold")) {
        if (h->moves && h->moves != node)
            return false;
        h->moves = node;
    }
    if (is(node, "relabel"))
        return true;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (!find_move(h, node->in[i], n))
            return false;
    return true;
}

/* Whether the whole axis's window or fold over range has the elements of y. */
static bool agrees(Halo *h, const Range *range, const Field *y)
{
    const bool is_window = is(h->moves, "window");
    Field whole = *y, x = {1, extent(h->source, h->axis), 1, NULL};
    whole.p = 1;
    whole.a = y->p * y->a;
    const char *w = second_axis(h->moves);
    x.w = is_window ? 1 : extent(h->source, w);
    x.at = DT_NEW_ARRAY(h->state->arena, uint64_t, x.a * x.w + 1);
    whole.at = DT_NEW_ARRAY(h->state->arena, uint64_t, whole.a * whole.w + 1);
    for (int64_t i = 0; i < x.a * x.w; i++)
        x.at[i] = probe(i / x.w, i % x.w);
    if (is_window)
        window(&x, range, h->fill ? h->fill : "0", &whole);
    else
        fold(&x, range, &whole);
    return memcmp(whole.at, y->at, (size_t)(whole.a * whole.w) * sizeof *y->at) == 0;
}

CertNode *dt_certhalo_merge(CertState *state, const CertOp *op, CertNode *x, const CertShape *shape)
{
    const CertRelabel *r = &op->relabels[0];
    uint32_t n = 0;
    if (strcmp(op->kind, "relabel") != 0 || op->n_relabels != 1 || r->n_from != 2 || r->n_to != 1 ||
        r->from[1] != r->to[0] || r->from[0][0] != '@' || strcmp(r->from[0] + 1, r->to[0]) != 0)
        return NULL;
    Halo h = {.state = state, .block = r->from[0], .axis = r->to[0]};
    Field y;
    Range range;
    if (!find_move(&h, x, &n) || !h.moves || !range_in(h.moves->attributes, &range))
        return NULL;
    const char *w = second_axis(h.moves);
    if (!w || !evaluate(&h, x, w, &y) || !h.source)
        return NULL;
    const bool is_window = is(h.moves, "window");
    int64_t length = is_window ? extent(h.source, h.axis) : y.p * y.a,
            windows = is_window ? y.p * y.a : extent(h.source, h.axis);
    if (extent(is_window ? x : h.source, w) != range.n)
        return NULL;
    for (range.lo = 0; range.lo <= range.n; range.lo++) {
        if (!agrees(&h, &range, &y))
            continue;
        bool outside = range.lo > 0 || (windows - 1) * range.step + range.n > length;
        const char *fill = !is_window || !outside ? NULL : h.fill ? h.fill : "0";
        return dt_certnode_make(state->nodes,
                                (CertNode){.kind = h.moves->kind,
                                           .attributes = text_of(&range, fill, h.axis, w),
                                           .shape = shape, .n_in = 1, .in = &h.source});
    }
    return NULL;
}
