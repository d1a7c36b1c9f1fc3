/* SPDX-License-Identifier: Apache-2.0 */
/* Windows over an axis that ranks share. The placed program cuts the axis into one part per rank (new axes "@axis",
 * "@axis.part"), moves edges of parts to neighbours by `shift`, joins and selects, takes windows of each part, and
 * puts the parts together again. All this is a map along one axis that is linear but for constants, so what it
 * computes is decided by its matrix: it is evaluated here on one vector of random numbers of the field modulo 2^61 -
 * 1, and so is the window (or fold) of the whole axis that it is to be. If the matrices differ, the results agree by
 * chance with a probability of less than 2^-50; if they agree, the value is given the number of that window. */
#include "verify/internal.h"

#include "base/hash.h"
#include "base/intern.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_STEPS = 200, MAX_IN = 8, MAX_ELEMENTS = 1 << 22 };
static const uint64_t PRIME = (UINT64_C(1) << 61) - 1;

typedef struct Range {
    long long lo, hi, step, n;
} Range;

typedef enum Does {
    NUMBER,
    POSITION,
    SOURCE,
    ADD,
    EQUAL,
    WHERE,
    SHIFT,
    JOIN,
    CUT,
    PAD,
    WINDOW,
    FOLD
} Does;

/* A node as it is evaluated: `length` elements along the axis, of each of `parts`. */
typedef struct Step {
    Does does;
    uint32_t n_in, in[MAX_IN];
    Range range;
    uint64_t number; /* a constant, or what is put where nothing is; of a shift: by how many parts */
    int64_t parts, length;
} Step;

typedef struct Halo {
    const char *block, *part, *axis; /* "@axis", "@axis.part", axis */
    const char *w;                   /* the axis of a window's elements; NULL: not met yet */
    CertNode *source;             /* what is cut into parts; NULL: not met yet */
    const CertNode *moves;        /* the one window or fold */
    const char *fill;             /* what is put where there is no neighbour, NULL: nothing */
    uint32_t n;
    Step steps[MAX_STEPS];
} Halo;

/* ---- texts ---- */

static bool is(const CertNode *node, const char *kind) { return dt_cert_is(node->kind, kind); }

static bool range_in(const char *attributes, Range *ret)
{
    const char *at = strstr(attributes, "ranges=(");
    return at && sscanf(at, "ranges=(%lld %lld %lld %lld)", &ret->lo, &ret->hi, &ret->step,
                        &ret->n) == 4 && ret->step > 0;
}

/* "-inf" of " number=-inf [height]"; "0" if there is none. */
static const char *number_in(const char *attributes)
{
    const char *at = strstr(attributes, "number=");
    return at ? dt_intern_n(at + 7, strcspn(at + 7, " ")) : "0";
}

static uint64_t constant(const char *number)
{
    char *end;
    long long value = strtoll(number, &end, 10);
    if (!*end)
        return value >= 0 ? (uint64_t)value % PRIME : PRIME - (uint64_t)-value % PRIME;
    return dt_hash_bytes(number, strlen(number), 7) % PRIME;
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

/* Whether a window reaches over the ends of the axis. */
static bool reaches_over(const Range *range, int64_t windows, int64_t length)
{
    return range->lo > 0 || (windows - 1) * range->step + range->n > length;
}

const char *dt_certhalo_attributes(const CertOp *op, const CertValue *in)
{
    const CertType *x = in[0].type, *y = op->types[0];
    const bool is_window = dt_cert_is(op->kind, "window");
    const CertAxis *lengths = dt_certtext_axis(is_window ? x : y, op->axes[0]),
                   *windows = dt_certtext_axis(is_window ? y : x, op->axes[0]);
    Range range;
    if (!lengths || !windows || op->n_axes != 2 || !range_in(op->attributes, &range))
        return NULL;
    bool outside = is_window && reaches_over(&range, windows->extent, lengths->extent);
    return text_of(&range, outside ? number_in(op->attributes) : NULL, op->axes[0], op->axes[1]);
}

/* ---- from nodes to steps ---- */

/* Every axis but the three is that of the source. */
static bool passes(const Halo *h, const CertNode *node)
{
    const CertShape *shape = node->shape, *from = h->source->shape;
    uint32_t n = 0;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const char *axis = shape->axes[i];
        if (axis == h->block || axis == h->part || axis == h->w)
            continue;
        if (extent(h->source, axis) != shape->extents[i])
            return false;
        n++;
    }
    const bool windowed = h->w && extent(h->source, h->w) >= 0;
    return n + 1 + windowed == from->rank && shape->dtype == from->dtype;
}

/* The parts of the source. */
static bool is_source(Halo *h, CertNode *node)
{
    const char *text = dt_intern_printf(" relabel(%s -> %s=%lld, %s=%lld)", h->axis, h->block,
                                        (long long)extent(node, h->block), h->part,
                                        (long long)extent(node, h->part));
    bool first = !h->source;
    h->source = first ? node->in[0] : h->source;
    return same_unquoted(node->attributes, text) && h->source == node->in[0] &&
           extent(h->source, h->block) < 0;
}

/* The one window or fold; its second axis is that of a window's elements. */
static bool is_move(Halo *h, const CertNode *node)
{
    const char *open = strstr(node->attributes, "] [");
    bool first = !h->moves;
    h->moves = first ? node : h->moves;
    h->w = open ? dt_intern_n(open + 3, strcspn(open + 3, "]")) : NULL;
    return h->w && h->moves == node;
}

/* What a node with operands does, and whether it may. */
static bool inner(Halo *h, const CertNode *node, Step *step)
{
    const Step *x = &h->steps[step->in[0]];
    const bool ranged = range_in(node->attributes, &step->range), add = is(node, "add"),
               along = names_axis(node->attributes, h->part);
    int64_t joined = 0;
    for (uint32_t i = 0; i < step->n_in; i++)
        joined += h->steps[step->in[i]].length;
    step->number = constant(number_in(node->attributes));
    step->does = add              ? ADD
                 : is(node, "eq") ? EQUAL
                 : is(node, "where") ? WHERE
                 : is(node, "shift") ? SHIFT
                 : is(node, "concat") ? JOIN
                 : is(node, "slice")  ? CUT
                 : is(node, "pad")    ? PAD
                 : is(node, "window") ? WINDOW
                                      : FOLD;
    if (step->does == EQUAL)
        return node->n_in == 2;
    if ((step->does == WINDOW || is(node, "fold")) && !is_move(h, node))
        return false;
    if (!h->source || !passes(h, node))
        return false;
    if (step->does == WHERE && is(node->in[1], "const"))
        h->fill = number_in(node->in[1]->attributes);
    switch (step->does) {
    case ADD: return true;
    case WHERE: return node->n_in == 3;
    case SHIFT:
        step->number = strstr(node->attributes, " reverse") ? 1 : (uint64_t)step->parts - 1;
        return names_axis(node->attributes, h->block);
    case JOIN: return along && joined == step->length;
    case CUT:
        return ranged && along && step->range.lo >= 0 &&
               step->range.lo + (step->length - 1) * step->range.step < x->length;
    case PAD: return ranged && along;
    case WINDOW: return ranged;
    default: return ranged && is(node, "fold");
    }
}

/* Makes the step of a node behind those of its operands; its number, or -1 if it is none that is known. */
static int look(Halo *h, CertNode *node)
{
    Step step = {.n_in = node->n_in};
    bool good = node->shape && node->n_in <= MAX_IN;
    if (!good)
        return -1;
    step.parts = extent(node, h->block);
    step.length = extent(node, h->part) < 0 ? 1 : extent(node, h->part);
    if (is(node, "const")) {
        step.number = constant(number_in(node->attributes));
        good = node->shape->rank == 0;
    } else if (is(node, "iota")) {
        step.does = POSITION;
        good = node->shape->rank == 1 && node->shape->axes[0] == h->block;
    } else if (is(node, "relabel")) {
        step.does = SOURCE;
        good = is_source(h, node);
    } else {
        for (uint32_t i = 0; i < node->n_in; i++) {
            int in = look(h, node->in[i]);
            if (in < 0)
                return -1;
            step.in[i] = (uint32_t)in;
        }
        good = node->n_in > 0 && inner(h, node, &step);
    }
    if (!good || h->n == MAX_STEPS)
        return -1;
    h->steps[h->n] = step;
    return (int)h->n++;
}

/* ---- values ---- */

/* Element (p, a, w) of the vector that stands for the source. */
static uint64_t probe(int64_t position, int64_t w)
{
    int64_t of[2] = {position, w};
    return dt_hash_bytes(of, sizeof of, 99) % PRIME;
}

static uint64_t at(const Halo *h, uint32_t step, int64_t p, int64_t a, int64_t w);

/* A window or fold of x, which is step `in` or, whole, the source itself. */
static uint64_t moved(const Halo *h, const Step *s, const Range *r, int64_t length, int in,
                      int64_t p, int64_t a, int64_t w)
{
    uint64_t sum = 0;
    int64_t from = a * r->step + w - r->lo;
    if (s->does == WINDOW && (from < 0 || from >= length))
        return s->number;
    if (s->does == WINDOW)
        return in < 0 ? probe(from, 0) : at(h, (uint32_t)in, p, from, 0);
    for (int64_t j = 0; j < r->n; j++) {
        int64_t i = (a + r->lo - j) / r->step;
        if (a + r->lo - j >= 0 && i * r->step + j - r->lo == a && i < length)
            sum = (sum + (in < 0 ? probe(i, j) : at(h, (uint32_t)in, p, i, j))) % PRIME;
    }
    return sum;
}

/* An element of what a step makes; a value without an axis is the same all along it. */
static uint64_t at(const Halo *h, uint32_t step, int64_t p, int64_t a, int64_t w)
{
    const Step *s = &h->steps[step], *x = &h->steps[s->in[0]];
    uint64_t sum = 0;
    uint32_t k = 0;
    switch (s->does) {
    case NUMBER: return s->number;
    case POSITION: return (uint64_t)p;
    case SOURCE: return probe(p * s->length + a, h->moves && is(h->moves, "fold") ? w : 0);
    case EQUAL: return at(h, s->in[0], p, a, w) == at(h, s->in[1], p, a, w);
    case WHERE: return at(h, s->in[at(h, s->in[0], p, a, w) ? 1 : 2], p, a, w);
    case SHIFT: return at(h, s->in[0], (p + (int64_t)s->number) % s->parts, a, w);
    case CUT: return at(h, s->in[0], p, s->range.lo + a * s->range.step, w);
    case WINDOW:
    case FOLD: return moved(h, s, &s->range, x->length, (int)s->in[0], p, a, w);
    case ADD:
        for (; k < s->n_in; k++)
            sum = (sum + at(h, s->in[k], p, a, w)) % PRIME;
        return sum;
    case JOIN:
        for (; a >= h->steps[s->in[k]].length; k++)
            a -= h->steps[s->in[k]].length;
        return at(h, s->in[k], p, a, w);
    case PAD:
        a -= s->range.lo;
        if (a < 0 || a % s->range.step || a / s->range.step >= x->length)
            return s->number;
        return at(h, s->in[0], p, a / s->range.step, w);
    }
    return 0;
}

/* Whether the whole axis's window or fold over range has the elements of the last step. */
static bool agrees(const Halo *h, const Range *range, int64_t n_w)
{
    const Step *last = &h->steps[h->n - 1];
    const Step whole = {.does = is(h->moves, "window") ? WINDOW : FOLD,
                        .number = constant(h->fill ? h->fill : "0")};
    for (int64_t i = 0; i < last->parts * last->length; i++)
        for (int64_t w = 0; w < n_w; w++)
            if (at(h, h->n - 1, i / last->length, i % last->length, w) !=
                moved(h, &whole, range, extent(h->source, h->axis), -1, 0, i, w))
                return false;
    return true;
}

CertNode *dt_certhalo_merge(CertState *state, const CertOp *op, CertNode *x, const CertShape *shape)
{
    const CertRelabel *r = &op->relabels[0];
    Range range;
    if (op->n_relabels != 1 || r->n_from != 2 || r->n_to != 1 ||
        r->from[0] != dt_intern_printf("@%s", r->to[0]) || r->from[1] != dt_intern_printf("@%s.part", r->to[0]))
        return NULL;
    Halo *h = DT_NEW(state->arena, Halo);
    *h = (Halo){.block = r->from[0], .part = r->from[1], .axis = r->to[0]};
    if (look(h, x) < 0 || !h->moves || !h->source || !range_in(h->moves->attributes, &range))
        return NULL;
    const Step *last = &h->steps[h->n - 1];
    const bool is_window = is(h->moves, "window");
    int64_t n = last->parts * last->length, whole = extent(h->source, h->axis),
            n_w = is_window ? extent(x, h->w) : 1;
    if (last->parts < 1 || extent(is_window ? x : h->source, h->w) != range.n ||
        n > MAX_ELEMENTS / range.n)
        return NULL;
    for (range.lo = 0; range.lo <= range.n; range.lo++) {
        if (!agrees(h, &range, n_w))
            continue;
        bool outside = is_window && reaches_over(&range, n, whole);
        const char *fill = !outside ? NULL : h->fill ? h->fill : "0";
        return dt_certnode_make(state->nodes,
                                (CertNode){.kind = h->moves->kind,
                                           .attributes = text_of(&range, fill, h->axis, h->w),
                                           .shape = shape, .n_in = 1, .in = &h->source});
    }
    return NULL;
}
