/* SPDX-License-Identifier: Apache-2.0 */
/* Sums: compares a sum that the final program computes, in any order and grouping, with a serial
 * value.
 *
 * The terms of the final sum are marked. The serial value is taken apart (a sum into its terms,
 * a value accumulated by a loop into its initial value and what iterations added, a linear op on
 * a sum into the op on each term) until only marked nodes are left, each of which must be met
 * exactly once. Adjacent ranges of iterations are joined. */
#include "verify/internal.h"

typedef DT_VEC(CertNode *) Nodes;

/* A comparison of the terms of one sum with a serial value. */
typedef struct Match {
    CertState *state;
    Nodes terms, ranges; /* terms: of the present sum; ranges: terms that cover some iterations */
    int64_t left;        /* number of terms that the serial value was not found to contain yet */
    uint32_t lacks;      /* number of terms that lack the initial value of their loop */
    CertNode *of;        /* the carried value whose initial value they lack */
    uint32_t steps;
    bool all; /* splits serial sums among the terms apart, into their own terms, too */
    bool any; /* some terms are serial sums */
} Match;

enum { STEPS = 1 << 20 };

static const char any_kind[] = "any";

/* ---- carried values of loops ---- */

static int64_t start_of(const CertCarried *loop)
{
    return loop->reverse ? loop->first + loop->count : loop->first;
}
static int64_t end_of(const CertCarried *loop)
{
    return loop->reverse ? loop->first : loop->first + loop->count;
}

CertNode *dt_certsum_carried(CertState *state, const CertCarried *loop, uint32_t carried,
                             int64_t position)
{
    CertNode *at = loop->at[carried];
    if (position == end_of(loop))
        return loop->out[carried];
    /* the body leaves this one unchanged */
    if (position == start_of(loop) || loop->made[carried] == at)
        return loop->from[carried];
    return dt_certnode_make(state->nodes, (CertNode){.kind = dt_certkind_at,
                                                     .attributes = loop->symbols,
                                                     .shape = at->shape,
                                                     .n_in = 1,
                                                     .in = &at,
                                                     .lo = position});
}

static uint32_t count(const CertNode *sum, const CertNode *term)
{
    uint32_t n = 0;
    for (; dt_cert_is(sum->kind, "add"); sum = sum->in[0])
        n += count(sum->in[1], term);
    return n + (sum == term);
}

bool dt_certsum_adds(const CertCarried *loop, uint32_t carried)
{
    return loop->made[carried] && count(loop->made[carried], loop->at[carried]) == 1;
}

CertNode *dt_certsum_total(CertState *state, const CertCarried *loop, uint32_t carried, int64_t lo,
                           int64_t hi)
{
    CertNode *at = loop->at[carried];
    return dt_certnode_make(state->nodes, (CertNode){.kind = dt_certkind_total,
                                                     .attributes = loop->symbols,
                                                     .shape = at->shape,
                                                     .n_in = 1,
                                                     .in = &at,
                                                     .lo = lo,
                                                     .hi = hi});
}

CertNode *dt_certsum_lacking(CertState *state, CertNode *s, CertNode *of)
{
    CertNode *in[2] = {s, of};
    return dt_certnode_make(
        state->nodes, (CertNode){.kind = dt_certkind_lacks, .attributes = "", .shape = s->shape,
                                 .n_in = 2, .in = in});
}

/* ---- taking apart ---- */

static bool is_view(const CertNode *x)
{
    return x->n_in == 1 && (dt_cert_is(x->kind, "relabel") || dt_cert_is(x->kind, "expand"));
}

/* Finds the serial node that is s with x in place of operand i; NULL: there is none. */
static CertNode *serial_with(CertState *state, const CertNode *s, uint32_t i, CertNode *x)
{
    CertNode *in[3], parts = *s;
    if (!dt_certstep_is_known(state, x) || s->n_in > DT_COUNT(in) || x->shape != s->in[i]->shape)
        return NULL;
    memcpy(in, s->in, s->n_in * sizeof in[0]);
    in[i] = x;
    parts.in = in;
    CertNode *node = dt_certnode_find(state->nodes, &parts);
    return node && dt_certstep_is_known(state, node) ? node : NULL;
}

/* Like serial_with, but NULL if x has another dtype than s: such an op adds its terms in a wider
 * dtype. */
static CertNode *serial_term(CertState *state, const CertNode *s, uint32_t i, CertNode *x)
{
    return x->shape->dtype == s->shape->dtype ? serial_with(state, s, i, x) : NULL;
}

CertNode *dt_certsum_without(CertState *state, CertNode *s, uint32_t i)
{
    CertNode *in[3], parts = *s;
    if (s->n_in > DT_COUNT(in) || s->in[i]->kind == any_kind ||
        s->in[i]->shape->dtype != s->shape->dtype)
        return s;
    memcpy(in, s->in, s->n_in * sizeof in[0]);
    in[i] = dt_certnode_leaf(state->nodes, any_kind, "", s->in[i]->shape, 0);
    parts.in = in;
    return dt_certnode_make(state->nodes, parts);
}

CertNode *dt_certsum_term(CertState *state, CertNode *s, uint32_t i, CertNode *x)
{
    CertNode *serial = serial_term(state, s, i, x);
    if (serial)
        return serial;
    if (!is_view(s))
        s = dt_certsum_without(state, s, i);
    CertNode *in[2] = {s, x},
             parts = {.kind = dt_certkind_term, .attributes = "", .shape = s->shape, .n_in = 2,
                      .in = in, .index = i};
    if (dt_cert_is(s->kind, "relabel") || dt_cert_is(s->kind, "expand")) {
        parts = *s;
        parts.in = &in[1];
    }
    return dt_certsum_ranged(state, parts, &in[1]);
}

CertNode *dt_certsum_ranged(CertState *state, CertNode parts, CertNode **x)
{
    CertNode any = **x;
    if (any.hi && !parts.hi) {
        parts.lo = any.lo;
        parts.hi = any.hi;
        parts.over = any.over;
        any.lo = any.hi = 0;
        any.over = NULL;
        *x = dt_certnode_make(state->nodes, any);
    }
    return dt_certnode_make(state->nodes, parts);
}

static bool apart(CertState *state, CertNode *x, Nodes *ret_terms);

/* If a loop accumulates x, appends its parts to *ret_terms: the initial value, and the sum of what
 * the iterations up to x add. False: no loop does. */
static bool carried_apart(CertState *state, const CertNode *x, Nodes *ret_terms)
{
    const CertNote *note = x->kind == dt_certkind_at ? x->in[0]->note : x->note;
    const CertCarried *loop = note ? note->loop : NULL;
    if (!loop || x->kind == dt_certkind_carried || x->kind == dt_certkind_total ||
        !dt_certsum_adds(loop, note->carried))
        return false;
    const int64_t start = start_of(loop), end = x->kind == dt_certkind_at ? x->lo : end_of(loop);
    DT_PUSH(state->arena, *ret_terms, loop->from[note->carried]);
    DT_PUSH(state->arena, *ret_terms,
            dt_certsum_total(state, loop, note->carried, start < end ? start : end,
                             start < end ? end : start));
    return true;
}

/* Returns the index of an operand of x that is a sum and in which x is linear, and appends that
 * operand's terms to *ret_terms; x->n_in: there is none. */
static uint32_t sum_in(CertState *state, const CertNode *x, Nodes *ret_terms)
{
    for (uint32_t i = 0; i < x->n_in && !dt_cert_is(x->kind, "add"); i++)
        if (dt_certstep_is_linear(x, i) && (x->in[i]->hi || apart(state, x->in[i], ret_terms))) {
            if (x->in[i]->hi && !ret_terms->n)
                DT_PUSH(state->arena, *ret_terms, x->in[i]);
            return i;
        }
    return x->n_in;
}

/* Appends the terms of x to *ret_terms; false: x is no sum. */
static bool apart(CertState *state, CertNode *x, Nodes *ret_terms)
{
    Nodes inner = {0};
    if (dt_cert_is(x->kind, "add")) {
        for (uint32_t i = 0; i < x->n_in; i++)
            DT_PUSH(state->arena, *ret_terms, x->in[i]);
        return true;
    }
    if (carried_apart(state, x, ret_terms))
        return true;
    CertNode *s = x;
    uint32_t i = 0;
    if (x->hi && (is_view(x) || x->kind == dt_certkind_term))
        return false;
    if (x->kind == dt_certkind_term) {
        s = x->in[0];
        i = x->index;
        if (!apart(state, x->in[1], &inner))
            return false;
    } else {
        i = sum_in(state, x, &inner);
    }
    for (uint32_t k = 0; k < inner.n; k++)
        DT_PUSH(state->arena, *ret_terms, dt_certsum_term(state, s, i, inner.at[k]));
    return inner.n > 0;
}

static bool has(CertState *state, CertNode *want, const CertNode *x, uint32_t *steps)
{
    Nodes terms = {0};
    if (want == x || want == x->to)
        return true;
    if (*steps == 0 || !apart(state, want, &terms))
        return false;
    for (uint32_t i = 0; i < terms.n && *steps > 0; i++) {
        --*steps;
        if (has(state, terms.at[i], x, steps))
            return true;
    }
    return false;
}

bool dt_certsum_has(CertState *state, CertNode *want, const CertNode *x)
{
    uint32_t steps = 1000; /* this only looks for a better choice */
    return has(state, want, x, &steps);
}

/* ---- matching ---- */

static bool is_sum(const CertNode *x)
{
    return dt_certsum_is(x) || x->kind == dt_certkind_term || x->kind == dt_certkind_lacks ||
           x->hi || x->kind == dt_certkind_at || (is_view(x) && is_sum(x->in[0]));
}

static void collect(Match *m, CertNode *x)
{
    Nodes inner = {0};
    if (x->kind == dt_certkind_lacks) {
        m->lacks++;
        m->of = x->in[1];
        x = x->in[0];
    }
    x = x->to ? x->to : x;
    if (dt_certstep_is_zero(x))
        return;
    const bool serial = dt_cert_is(x->kind, "add") && !dt_certsum_is(x);
    m->any = m->any || serial;
    if ((is_sum(x) || (serial && m->all)) && !x->hi && ++m->steps < STEPS &&
        apart(m->state, x, &inner)) {
        for (uint32_t i = 0; i < inner.n; i++)
            collect(m, inner.at[i]);
        return;
    }
    if (x->hi) {
        DT_PUSH(m->state->arena, m->ranges, x);
        return;
    }
    x->mark++;
    m->left++;
    DT_PUSH(m->state->arena, m->terms, x);
}

static bool same_but_range(const CertNode *x, const CertNode *y)
{
    return x->kind == y->kind && x->attributes == y->attributes && x->shape == y->shape &&
           x->index == y->index && x->n_in == y->n_in &&
           memcmp(x->in, y->in, x->n_in * sizeof x->in[0]) == 0;
}

/* Whether the ranges that are left contain iterations lo .. hi - 1 of a value equal to `like`,
 * without overlap. If so, removes these ranges. */
static bool meet_range(Match *m, const CertNode *like, int64_t lo, int64_t hi)
{
    if (lo >= hi)
        return lo == hi;
    for (uint32_t i = 0; i < m->ranges.n; i++) { /* ranges are not sorted */
        CertNode *x = m->ranges.at[i];
        if (!x || x->lo != lo || x->hi > hi || x->over != like->over || !same_but_range(x, like))
            continue;
        m->ranges.at[i] = NULL;
        const bool met = meet_range(m, like, x->hi, hi);
        m->ranges.at[i] = met ? NULL : x;
        return met;
    }
    return false;
}

/* Whether x equals want but covers only some of its iterations. A term is compared by the sum of
 * which it is a term. */
static bool is_some_of(const CertNode *x, const CertNode *want)
{
    if (same_but_range(x, want))
        return true;
    if (x->kind == dt_certkind_term) {
        const CertNode *s = x->in[0];
        bool same = s->kind == want->kind && s->attributes == want->attributes &&
                    s->shape == want->shape && s->n_in == want->n_in && s->index == want->index &&
                    !s->hi && !want->hi;
        for (uint32_t i = 0; same && i < s->n_in; i++)
            same = i == x->index ? x->in[1] == want->in[i] || is_some_of(x->in[1], want->in[i])
                                 : s->in[i] == want->in[i];
        return same;
    }
    return is_view(x) && is_view(want) && x->kind == want->kind &&
           x->attributes == want->attributes && x->shape == want->shape &&
           is_some_of(x->in[0], want->in[0]);
}

/* Returns the number of iterations of the value of which x covers some; -1: it is not known. */
static int64_t all_of(const CertNode *x)
{
    const char *over = x->over;
    while (x->kind == dt_certkind_term || is_view(x))
        x = x->in[x->n_in - 1];
    return x->n_in ? dt_certnode_extent(x->in[0]->shape, over) : -1;
}

/* Whether the ranges together are want: a reduction over all iterations, or an op that is linear in
 * one. If so, removes them. */
static bool meet_all(Match *m, const CertNode *want)
{
    for (uint32_t i = 0; i < m->ranges.n; i++) {
        const CertNode *x = m->ranges.at[i];
        if (x && x->over && x->lo == 0 && is_some_of(x, want))
            return meet_range(m, x, 0, all_of(x));
    }
    return false;
}

/* want is a term of an op that widens. Returns this op applied to the term alone, which the serial
 * program may contain too; both are the same number, but different nodes (`serial_term`). Only the
 * wanted side is read so: a sum of such ops adds in the wide dtype, whereas a sum of terms may have
 * added in the narrow one. */
static CertNode *widened(CertState *state, CertNode *want)
{
    const bool term = want->kind == dt_certkind_term;
    if (want->hi || !(term || is_view(want)))
        return want;
    CertNode *s = term ? want->in[0] : want, *x = want->in[term], *in = widened(state, x);
    CertNode *found = NULL;
    if (term && dt_certstep_is_wider(s->shape->dtype, in->shape->dtype) &&
        s->shape->dtype != in->shape->dtype)
        found = serial_with(state, s, want->index, in);
    if (found || in == x)
        return found ? found : want;
    return dt_certsum_term(state, s, term ? want->index : 0, in);
}

static bool meet_mark(Match *m, CertNode *want)
{
    if (!want->mark)
        return false;
    want->mark--;
    m->left--;
    return true;
}

static bool meet(Match *m, CertNode *want)
{
    Nodes terms = {0};
    if (meet_mark(m, want) || meet_mark(m, widened(m->state, want)))
        return true;
    if (dt_certstep_is_zero(want))
        return true;
    if (want->hi ? meet_range(m, want, want->lo, want->hi) : meet_all(m, want))
        return true;
    if (++m->steps > STEPS || !apart(m->state, want, &terms))
        return false;
    for (uint32_t i = 0; i < terms.n; i++)
        if (!meet(m, terms.at[i]))
            return false;
    return true;
}

/* Whether the terms of `have` are those of `want`, each exactly once. At most `lacks` of them may
 * lack the initial value of their loop. */
static bool match(Match *m, CertNode *have, CertNode *want, uint32_t lacks)
{
    collect(m, have);
    bool good = m->lacks <= lacks && meet(m, want) && m->left == 0;
    for (uint32_t i = 0; i < m->ranges.n; i++)
        good = good && !m->ranges.at[i];
    for (uint32_t i = 0; i < m->terms.n; i++)
        m->terms.at[i]->mark = 0;
    return good;
}

bool dt_certsum_equal(CertState *state, CertNode *have, CertNode *want, CertNode **ret_lacks)
{
    Match m = {.state = state}, all = {.state = state, .all = true};
    if (have == want || (have->to && have->to == want))
        return true;
    if (!is_sum(have) || have->shape != want->shape || state->is_serial)
        return have->shape == want->shape && dt_certstep_is_zero(have) && dt_certstep_is_zero(want);
    const bool good = match(&m, have, want, ret_lacks != NULL) ||
                      (m.any && match(&all, have, want, ret_lacks != NULL));
    if (ret_lacks)
        *ret_lacks = m.of;
    if (good && !m.lacks)
        have->to = want;
    return good;
}
