/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates one op: gives the nodes of its results from those of its operands, and checks its
 * placement (cert.h). */
#include "verify/internal.h"

#include "base/intern.h"

#include <math.h>

static const char rounded_kind[] = "rounded", crossed_kind[] = "summed over ranks";

static bool is(const CertNode *node, const char *kind) { return dt_cert_is(node->kind, kind); }

/* ---- nodes ---- */

const char *dt_certstep_join(const char *prefix, const char *name)
{
    if (!prefix || !*prefix)
        return name && *name ? name : prefix;
    return name && *name ? dt_intern_printf("%s.%s", prefix, name) : prefix;
}

CertNote *dt_certstep_note(CertState *state, CertNode *node)
{
    if (!node->note)
        node->note = DT_NEW(state->arena, CertNote);
    return node->note;
}

const CertMeaning *dt_certstep_numbered(const CertState *state, uint32_t number)
{
    return number < state->meant->n ? state->meant->by_number[number] : NULL;
}

void dt_certstep_number(CertState *state, uint32_t number, CertNode *node)
{
    CertMeaning **at = state->numbers ? &state->meant->by_number[number] : NULL;
    if (!at || (*at && (*at)->node == node))
        return;
    CertMeaning *meaning = DT_NEW(state->arena, CertMeaning);
    *meaning = (CertMeaning){node, *at};
    *at = meaning;
}

/* Whether the node is known to be zero: sums and products of zeros, and linear ops of zero. The
 * node keeps the answer for the next call. */
bool dt_certstep_is_zero(const CertNode *node)
{
    CertNode *note = (CertNode *)(uintptr_t)node;
    if (node->zero != CERT_UNKNOWN)
        return node->zero == CERT_YES;
    const bool term = node->kind == dt_certkind_term,
               sum = term || is(node, "mul") ||
                     (is(node, "reduce") && !strstr(node->attributes, "reduce="));
    bool zero = sum && node->n_in;
    for (uint32_t i = term; zero && i < node->n_in; i++)
        zero = dt_certstep_is_zero(node->in[i]);
    zero = zero || dt_certnode_is_zero(node);
    note->zero = zero ? CERT_YES : CERT_NO;
    return zero;
}

bool dt_certstep_is_wider(const char *a, const char *b)
{
    return dt_cert_is(a, b) || (dt_cert_is(a, "f64") && dt_cert_is_float(b)) ||
           (dt_cert_is(a, "f32") && (dt_cert_is(b, "bf16") || dt_cert_is(b, "f16")));
}

bool dt_certstep_is_linear(const CertNode *x, uint32_t i)
{
    if (is(x, "mul") || is(x, "neg") || is(x, "relabel") || is(x, "expand") || is(x, "add"))
        return true;
    if (is(x, "cast")) /* terms may be added up wider than they would be, never narrower */
        return dt_certstep_is_wider(x->shape->dtype, x->in[0]->shape->dtype);
    if (is(x, "where"))
        return i > 0 && dt_certstep_is_zero(x->in[3 - i]);
    if (is(x, "div"))
        return i == 0 && dt_cert_is_float(x->shape->dtype);
    return is(x, "reduce") && !strstr(x->attributes, "reduce=");
}

/* ---- from the parts of an op to the equal serial value ---- */

/* Whether a relabel only renames one axis; then *ret_from and *ret_to are its names. */
static bool is_rename(const CertNode *x, const char **ret_from, const char **ret_to)
{
    const CertShape *a = x->in[0]->shape, *b = x->shape;
    uint32_t n = 0;
    if (!is(x, "relabel") || a->rank != b->rank || strchr(x->attributes, ',') ||
        strpbrk(x->attributes, "@:"))
        return false;
    *ret_from = *ret_to = NULL;
    for (uint32_t i = 0; i < a->rank; i++) {
        uint32_t k = 0;
        while (k < b->rank && b->axes[k] != a->axes[i])
            k++;
        if (k == b->rank) {
            *ret_from = a->axes[i];
            n++;
        }
    }
    for (uint32_t i = 0; i < b->rank; i++) {
        uint32_t k = 0;
        while (k < a->rank && a->axes[k] != b->axes[i])
            k++;
        if (k == a->rank)
            *ret_to = b->axes[i];
    }
    return n == 1 && *ret_to;
}

/* Returns the node of a relabel or expand: the operand itself if it only reorders axes, or the
 * operand's operand if it undoes a renaming. */
static CertNode *view(CertState *state, CertNode parts)
{
    const char *from, *to, *first, *last;
    CertNode *x = parts.in[0];
    if (dt_cert_is(parts.kind, "relabel") && !*parts.attributes && x->shape == parts.shape)
        return x;
    if (is_rename(&parts, &from, &to) && x->n_in == 1 && is_rename(x, &first, &last) &&
        first == to && last == from && x->in[0]->shape == parts.shape)
        return x->in[0];
    parts.in = &x;
    return dt_certsum_ranged(state, parts, &x);
}

static bool is_view(const CertNode *parts)
{
    return dt_cert_is(parts->kind, "relabel") || dt_cert_is(parts->kind, "expand");
}

/* Returns the serial node that was proved equal to the node, or the node itself. */
static CertNode *known_as(CertNode *node) { return node->to ? node->to : node; }

/* Returns the serial node with these parts; NULL: there is none. */
static CertNode *serial_of(CertState *state, const CertNode *parts)
{
    CertNode *node = dt_certnode_find(state->nodes, parts);
    node = node ? known_as(node) : NULL;
    return node && dt_certstep_is_known(state, node) ? node : NULL;
}

static bool alike(const CertNode *a, const CertNode *b)
{
    return a->kind == b->kind && a->attributes == b->attributes && a->shape == b->shape &&
           a->n_in == b->n_in && a->index == b->index && a->lo == b->lo && a->hi == b->hi &&
           a->over == b->over;
}

/* Whether parts are those of s, apart from one operand at most; ret_but: the index of that operand,
 * n_in if all are equal. */
static bool fits(CertState *state, const CertNode *parts, const CertNode *s, uint32_t *ret_but)
{
    uint32_t but = parts->n_in;
    if (!alike(parts, s))
        return false;
    for (uint32_t i = 0; i < parts->n_in; i++) {
        if (dt_certsum_equal(state, parts->in[i], s->in[i], NULL))
            continue;
        if (but < parts->n_in)
            return false;
        but = i;
    }
    *ret_but = but;
    return true;
}

/* Returns the operand that an addition equals, since the other one is zero; or NULL. */
static CertNode *one_of(const CertNode *parts)
{
    for (uint32_t i = 0; i < 2 && dt_cert_is(parts->kind, "add"); i++)
        if (dt_certstep_is_zero(parts->in[1 - i]) && parts->in[i]->shape == parts->shape)
            return parts->in[i];
    return NULL;
}

/* For a cast that reverses a cast to a wider dtype: returns the value before both; or NULL. */
static CertNode *before_widening(const CertNode *parts)
{
    const CertNode *x = parts->n_in == 1 ? parts->in[0] : NULL;
    return x && dt_cert_is(parts->kind, "cast") && is(x, "cast") &&
                   x->in[0]->shape == parts->shape &&
                   dt_certstep_is_wider(x->shape->dtype, parts->shape->dtype)
               ? x->in[0]
               : NULL;
}

/* Returns the node for an addition with these parts; `of`: the serial values that its recorded
 * number names. It is one of these if it has the same terms, or that one without the initial value
 * of a loop. Otherwise it is a sum of its own, which may be a part of one of them. */
static CertNode *add(CertState *state, CertNode parts, const CertMeaning *of)
{
    CertNode *one = one_of(&parts), *other[2] = {parts.in[1], parts.in[0]};
    CertNode turned = parts;
    turned.in = other;
    if (one || (one = serial_of(state, &parts)) || (one = serial_of(state, &turned)))
        return one;
    parts.attributes = dt_certkind_sum;
    for (const CertMeaning *m = of; m; m = m->next) {
        CertNode sum = parts, *s = m->node;
        CertNode *lacks = NULL;
        if (is(s, "add") && dt_certsum_equal(state, &sum, s, &lacks))
            return lacks ? dt_certsum_lacking(state, s, lacks) : s;
    }
    return dt_certnode_make(state->nodes, parts);
}

/* Returns the node for an op whose recorded number names serial nodes s: s itself; s with another
 * operand in which it is linear (a term of s); or s over other iterations. The first s that fits
 * counts. NULL: none does. */
static CertNode *said(CertState *state, CertNode parts, uint32_t number)
{
    CertNode *term = NULL;
    for (const CertMeaning *m = dt_certstep_numbered(state, number); m; m = m->next) {
        CertNode range = parts, *s = m->node;
        uint32_t but;
        range.lo = s->lo;
        range.hi = s->hi;
        range.over = s->over;
        if ((s->hi && s->over != parts.over) || !fits(state, &range, s, &but))
            continue;
        const bool same = s->lo == parts.lo && s->hi == parts.hi;
        if (same && but == parts.n_in)
            return s;
        if (but == parts.n_in) {
            parts.in = s->in;
            return dt_certnode_make(state->nodes, parts);
        }
        if (!same || !dt_certstep_is_linear(s, but))
            continue;
        term = dt_certsum_term(state, s, but, parts.in[but]);
        if (dt_certsum_has(state, s->in[but], parts.in[but]))
            break; /* several calls of a function share the number */
    }
    return term;
}

/* ---- gradients that cross ranks in another dtype than their own ---- */

/* Sums that cross ranks in another dtype (`crossing` of the text): they are cast to it, summed over
 * ranks, and cast back. The serial program has no such step. So the casts are ignored, but only for
 * gradients: values that the serial program stores as one or adds to one, and terms of these. A
 * mark in the text alone is not enough. */

/* Whether x, the node of a gradient or of a part of one, is made of parts of that gradient: it is a
 * sum, a result of iterations, or a renaming. */
static bool hands_on(const CertNode *x)
{
    return x->kind == dt_certkind_stack || x->kind == dt_certkind_at ||
           x->kind == dt_certkind_total || dt_cert_is(x->kind, "add") ||
           dt_cert_is(x->kind, "relabel");
}

void dt_certstep_gradient(CertState *state, CertNode *gradient)
{
    DT_VEC(CertNode *) left = {0};
    DT_PUSH(state->arena, left, gradient);
    while (left.n) {
        CertNode *x = left.at[--left.n];
        CertNote *note = dt_certstep_note(state, x);
        if (note->gradient)
            continue;
        note->gradient = true;
        if (note->loop) { /* carried by a loop whose iterations add to it */
            DT_PUSH(state->arena, left, note->loop->from[note->carried]);
            DT_PUSH(state->arena, left, note->loop->made[note->carried]);
        }
        for (uint32_t i = 0; i < x->n_in; i++)
            if (hands_on(x))
                DT_PUSH(state->arena, left, x->in[i]);
            else if (dt_certstep_is_linear(x, i)) /* terms of the sum */
                dt_certstep_note(state, dt_certsum_without(state, x, i))->gradient = true;
    }
}

static bool is_gradient(CertState *state, const CertNode *x)
{
    bool all = true;
    x = x->to ? x->to : x;
    if ((x->note && x->note->gradient) || dt_certstep_is_zero(x))
        return true;
    if (x->kind == dt_certkind_term || x->kind == dt_certkind_lacks || x->kind == dt_certkind_at ||
        x->kind == dt_certkind_total || dt_cert_is(x->kind, "relabel"))
        return is_gradient(state, x->in[0]); /* for a term: the op with another operand */
    if (x->hi) {
        CertNode whole = *x;
        whole.lo = whole.hi = 0;
        whole.over = NULL;
        const CertNode *of = dt_certnode_find(state->nodes, &whole);
        return of && is_gradient(state, of);
    }
    for (uint32_t i = 0; all && i < x->n_in; i++)
        all = dt_certsum_is(x) && is_gradient(state, x->in[i]);
    return all && x->n_in;
}

/* Returns x cast to the dtype in which gradients cross ranks, as a node that remembers x; NULL: the
 * shape has another dtype, or x is no float or is zero. */
static CertNode *cast_across(CertState *state, const CertShape *shape, CertNode *x)
{
    const char *crossing = state->program->whole->crossing;
    if (!crossing || !dt_cert_is(crossing, shape->dtype) || !dt_cert_is_float(x->shape->dtype) ||
        dt_certstep_is_zero(x))
        return NULL;
    return dt_certnode_of(state->nodes, rounded_kind, dt_intern(""), shape, x);
}

CertNode *dt_certstep_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total)
{
    const bool stored = total && dt_cert_is(state->program->stores.at[total - 1].kind, "grad"),
               crosses = x->kind == rounded_kind && strstr(op->attributes, " gradients") &&
                         (stored || is_gradient(state, x->in[0]));
    return crosses ? dt_certnode_of(state->nodes, crossed_kind, "", x->shape, x) : x;
}

/* For a sum over ranks or stages whose operand was cast for the exchange (cast_across): returns its
 * node in the dtype before that cast; NULL: it is no such sum. */
static CertNode *cast_back(CertState *state, const CertShape *shape, CertNode *x)
{
    if (x->kind == crossed_kind && x->in[0]->in[0]->shape == shape)
        return x->in[0]->in[0];
    if (!dt_certsum_is(x))
        return NULL;
    CertNode **terms = DT_NEW_ARRAY(state->arena, CertNode *, x->n_in);
    for (uint32_t i = 0; i < x->n_in; i++)
        if (!(terms[i] = cast_back(state, shape, x->in[i])))
            return NULL;
    return dt_certpack_sum(state, shape, x->n_in, terms);
}

/* ---- the results of ops ---- */

/* Returns the node of x cast to the shape's dtype. number: the serial cast that it must equal. */
static CertNode *cast(CertState *state, const CertShape *shape, CertNode *x, uint32_t number)
{
    CertNode parts = {.kind = dt_intern("cast"), .attributes = dt_intern(""), .shape = shape,
                      .n_in = 1, .in = &x};
    if (x->shape == shape)
        return x;
    CertNode *wide = cast_back(state, shape, x);
    if (wide)
        return wide;
    CertNode *before = before_widening(&parts);
    if (before)
        return before;
    CertNode *node = serial_of(state, &parts);
    if (!node)
        node = said(state, parts, number);
    if (!node)
        node = cast_across(state, shape, x); /* the serial program has no such step */
    return node ? node : dt_certnode_make(state->nodes, parts);
}

/* Whether a node has this recorded number. If very many nodes share the number (calls of one
 * function), it assumes so after some of them, since the search would take quadratic time. */
static bool has_number(const CertState *state, const CertNode *node, uint32_t number)
{
    enum { MOST = 64 };
    const CertMeaning *m = dt_certstep_numbered(state, number);
    for (uint32_t i = 0; m && m->node != node && i < MOST; i++)
        m = m->next;
    return m != NULL;
}

/* The serial value that equals the result of an op with these parts. number: the hint. A result may
 * equal several serial values (the root of a sum of zeros is also that of 0, which another function
 * uses); then the hint decides. */
static CertNode *meant(CertState *state, const CertOp *op, CertNode parts, uint32_t number)
{
    if (is_view(&parts))
        return view(state, parts);
    if (dt_cert_is(op->kind, "add"))
        return add(state, parts, dt_certstep_numbered(state, number));
    if (dt_cert_is(op->kind, "cast"))
        return cast(state, parts.shape, parts.in[0], number);
    CertNode *node = serial_of(state, &parts);
    if (!node || !has_number(state, node, number)) {
        CertNode *other = said(state, parts, number);
        node = other && (!node || dt_certstep_is_known(state, other)) ? other : node;
    }
    return node ? node : dt_certnode_make(state->nodes, parts);
}

CertNode *dt_certstep_member(CertState *state, const CertOp *op, const CertShape *shape,
                             CertNode *const *in, uint32_t index)
{
    /* sums that were settled before */
    CertNode **known = DT_NEW_ARRAY(state->arena, CertNode *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        known[i] = known_as(in[i]);
    CertNode parts = {
        .kind = op->kind, .attributes = op->attributes, .shape = shape, .n_in = op->n_in,
        .in = known, .index = index};
    CertNode *node = dt_cert_is(op->kind, "add") ? one_of(&parts) : NULL;
    node = node ? node : serial_of(state, &parts);
    if (!node && dt_cert_is(op->kind, "cast"))
        return cast(state, shape, known[0], 0);
    return node ? node : dt_certnode_make(state->nodes, parts);
}

/* ---- ops ---- */

/* For reduce[@m](where(iota[@m] == k, x, 0)), which keeps x on one rank alone: returns x in the
 * sum's dtype; otherwise NULL. */
static CertNode *kept_on_one(CertState *state, const CertOp *op, const CertNode *where)
{
    if (!dt_cert_is(op->kind, "reduce") || op->n_axes != 1 || op->axes[0][0] != '@' ||
        !is(where, "where"))
        return NULL;
    const CertNode *first = is(where->in[0], "eq") ? where->in[0] : NULL;
    const CertShape *iota = first && is(first->in[0], "iota") ? first->in[0]->shape : NULL;
    double kept;
    if (!iota || !dt_cert_is(op->reduce, "sum") || !dt_certstep_is_zero(where->in[2]) ||
        iota->rank != 1 || iota->axes[0] != op->axes[0] ||
        !dt_certnode_number(first->in[1], &kept) || kept != floor(kept) || kept < 0 ||
        kept >= (double)iota->extents[0])
        return NULL;
    for (uint32_t i = 0; i < where->in[1]->shape->rank; i++)
        if (where->in[1]->shape->axes[i] == op->axes[0])
            return NULL;
    CertNode *x = where->in[1];
    const CertShape *shape = dt_certnode_cast_shape(state->nodes, x->shape, op->types[0]->dtype);
    return x->shape == shape
               ? x
               : dt_certnode_of(state->nodes, dt_intern("cast"), dt_intern(""), shape, x);
}

/* Returns the parts that determine the result of an op: its operands and attributes; for random
 * draws also the loops around it; for reductions over iterations also which ones. */
static CertNode parts_of(CertState *state, const CertOp *op, const char *context,
                         const CertValue *in, const CertShape *shape, CertNode *const *nodes,
                         uint32_t index)
{
    CertNode parts = {
        .kind = op->kind, .attributes = op->attributes, .shape = shape, .n_in = op->n_in,
        .in = nodes, .index = index};
    const bool sums = dt_certrange_adds(op);
    int64_t lo, hi;
    if (dt_cert_is(op->kind, "rng")) {
        const CertCalled *names = &state->meant->names;
        parts.attributes = dt_intern_printf("%s %s %s %s", op->attributes, context,
                                            dt_certstep_join(names->path, op->path),
                                            dt_certstep_join(names->label, op->text));
    } else if (dt_cert_is(op->kind, "shift")) {
        parts.attributes = dt_intern_printf("%s [%s]", op->attributes,
                                            dt_certrule_shifted(in[0].type, op->mesh)->name);
    } else if (dt_cert_is(op->kind, "window") || dt_cert_is(op->kind, "fold")) {
        const char *attributes = dt_certhalo_attributes(op, in);
        parts.attributes = attributes ? attributes : op->attributes;
    } else {
        for (uint32_t i = 0; sums && i < op->n_axes; i++)
            if (op->axes[i] == in[0].loop && dt_certrange_some(state, &in[0], &lo, &hi)) {
                parts.lo = lo;
                parts.hi = hi;
                parts.over = in[0].loop;
            }
    }
    return parts;
}

static CertNode *serial_node(CertState *state, CertNode parts, uint32_t number)
{
    CertNode *node = one_of(&parts);
    node = node ? node : before_widening(&parts);
    if (!node)
        node = dt_certnode_make(state->nodes, parts);
    dt_certstep_number(state, number, node);
    return node;
}

static CertNode *node_of(CertState *state, const CertOp *op, const CertNode *parts,
                         const CertShape *shape)
{
    if (op->n_in == 0)
        return dt_certnode_make(state->nodes, *parts);
    if (state->is_serial) {
        if (is_view(parts))
            return view(state, *parts);
        return serial_node(state, *parts, state->func->first + op->first_out + parts->index);
    }
    const uint32_t number = op->means ? op->means[parts->index] : 0;
    CertNode *merged = dt_cert_is(op->kind, "relabel")
                           ? dt_certhalo_merge(state, op, parts->in[0], shape, number)
                           : NULL;
    if (merged) {
        CertNode *window = said(state, *merged, number);
        return window ? window : merged;
    }
    return meant(state, op, *parts, number);
}

/* Returns the node of the operand that op equals, possibly with other padding or placement; or
 * NULL. */
static CertNode *identity(CertState *state, const CertOp *op, const CertValue *in, bool buckets)
{
    if (dt_cert_is(op->kind, "bind"))
        return in[0].node;
    if (op->rule->moves && !dt_certpack_is(in[0].node))
        return dt_certstep_moved(state, op, in[0].node, in[0].total);
    if (op->rule->moves || buckets || !op->n_in)
        return NULL;
    CertNode *same = kept_on_one(state, op, in[0].node);
    return same ? same : dt_certpad_identity(op, in);
}

bool dt_certstep_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                    CertValue *out)
{
    CertNode *few[16],
        **nodes = op->n_in <= 16 ? few : DT_NEW_ARRAY(state->arena, CertNode *, op->n_in);
    const CertProgram *program = state->program;
    bool buckets = false;
    if (dt_cert_is(op->kind, "pack") || dt_cert_is(op->kind, "unpack"))
        return dt_certpack_op(state, op, in, out);
    if (!dt_certrule_check(state, op, in) ||
        (program->n_padded && !dt_certpad_check(state, op, in)))
        return false;
    const bool cuts = op->n_out == 1 && dt_certrange_cut(program, op, in, &out[0]);
    if (!cuts)
        in = dt_certrange_settle(state, op, in);
    for (uint32_t i = 0; i < op->n_in; i++) {
        nodes[i] = known_as(in[i].node);
        buckets = buckets || dt_certpack_is(nodes[i]);
    }
    CertNode *same = cuts ? out[0].node : identity(state, op, in, buckets);
    if (same && same->shape && same->shape->dtype != op->types[0]->dtype)
        return dt_cert_fail(state, op, "`%s` hands on a value of another dtype than its result",
                            op->kind);
    if (cuts) {
        dt_certpad_fill(state, op, in, &out[0]);
        return true;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        dt_certrange_of(op, in, &out[i]);
        dt_certrange_repeat(program, op, in, &out[i]);
        out[i].node = same;
        if (!same && buckets && !dt_certpack_map(state, op, in, i, &out[i]))
            return false;
        if (!same && !buckets) {
            const CertShape *shape = dt_certrange_shape(state, op, in, &out[i]);
            const CertNode parts = parts_of(state, op, context, in, shape, nodes, i);
            out[i].node = node_of(state, op, &parts, shape);
        }
        if (op->n_in == 1 && in[0].total && (op->rule->moves || dt_cert_is(op->kind, "cast"))) {
            out[i].total = in[0].total;
            out[i].node = state->total(state, in[0].total - 1, out[i].node);
        }
        dt_certpad_fill(state, op, in, &out[i]);
    }
    return true;
}
