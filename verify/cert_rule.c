/* SPDX-License-Identifier: Apache-2.0 */
/* The local rules: when an op done by every rank on its own parts gives its parts of the op's meaning. Written
 * a second time, apart from ir/shape*.c; docs/placement.md has the table in words.
 *
 * Over one mesh axis a value is whole, split along an axis, or partial. A rule fixes, for each op, how the
 * result lies; a result type that says anything else is refused. */
#include "verify/internal.h"

#include <string.h>

typedef struct Rule {
    CertState *state;
    const CertOp *op;
    const CertValue *in;
} Rule;

typedef bool Check(Rule *r);

static uint16_t bits_of(const CertAxis *axis)
{
    uint16_t bits = 0;
    for (uint32_t i = 0; i < axis->n; i++)
        bits |= (uint16_t)(1u << axis->split[i]);
    return bits;
}

static uint16_t split_bits(const CertType *type)
{
    uint16_t bits = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        bits |= bits_of(&type->axes[i]);
    return bits;
}

static bool same_split(const CertAxis *a, const CertAxis *b)
{
    return a->extent == b->extent && a->n == b->n && memcmp(a->split, b->split, a->n) == 0 &&
           a->zigzag == b->zigzag;
}

bool dt_certrule_same(const CertType *a, const CertType *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->partial != b->partial ||
        (a->partial && a->pending != b->pending))
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->axes[i].name != b->axes[i].name || !same_split(&a->axes[i], &b->axes[i]))
            return false;
    return true;
}

static bool no(Rule *r, const char *why)
{
    return dt_certfunc_fail(r->state, r->op, "`%s`: %s", r->op->kind, why);
}

static const CertType *operand(const Rule *r, uint32_t i) { return r->in[i].type; }
static const CertType *result(const Rule *r) { return r->op->types[0]; }

static bool is_in(const char *const *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i] == name)
            return true;
    return false;
}

/* Every axis of operand i but those in `but` lies in the result as in the operand. */
static bool kept(Rule *r, uint32_t i, const char *const *but, uint32_t n_but)
{
    const CertType *x = operand(r, i);
    for (uint32_t a = 0; a < x->rank; a++) {
        if (is_in(but, n_but, x->axes[a].name))
            continue;
        const CertAxis *to = dt_certtext_axis(result(r), x->axes[a].name);
        if (!to || !same_split(to, &x->axes[a]))
            return no(r, "an axis of an operand lies otherwise in the result");
    }
    return true;
}

/* Every split axis of the result is one of an operand's or in `made`. */
static bool grounded(Rule *r, const char *const *made, uint32_t n_made)
{
    const CertType *y = result(r);
    for (uint32_t a = 0; a < y->rank; a++) {
        bool found = y->axes[a].n == 0 || is_in(made, n_made, y->axes[a].name);
        for (uint32_t i = 0; i < r->op->n_in && !found; i++)
            found = dt_certtext_axis(operand(r, i), y->axes[a].name) != NULL;
        if (!found)
            return no(r, "a split of the result comes from nowhere");
    }
    return true;
}

static bool pending_is(Rule *r, uint16_t bits, const char *kind)
{
    const CertType *y = result(r);
    if (y->partial != bits)
        return no(r, "another reduction is pending in the result than follows from the operands");
    if (bits && strcmp(y->pending, kind) != 0)
        return no(r, "the pending reduction is of another kind");
    return true;
}

static bool complete(Rule *r, uint32_t i)
{
    return !operand(r, i)->partial ||
           no(r, "an operand with a pending reduction in an op that is not linear in it");
}

static bool is_float(const char *dtype)
{
    return dtype[0] == 'f' || dtype[0] == 'b' ? strcmp(dtype, "bool") != 0 : false;
}

/* ---- maps ---- */

static bool map_axes(Rule *r)
{
    for (uint32_t i = 0; i < r->op->n_in; i++)
        if (!kept(r, i, NULL, 0))
            return false;
    return grounded(r, NULL, 0);
}

static bool all_complete(Rule *r)
{
    for (uint32_t i = 0; i < r->op->n_in; i++)
        if (!complete(r, i))
            return false;
    return pending_is(r, 0, "sum");
}

static bool check_map(Rule *r) { return map_axes(r) && all_complete(r); }

/* Linear in operands from.. together: all pending alike, or zero. */
static bool linear(Rule *r, uint32_t from, bool sums_only)
{
    const CertType *pending = NULL;
    for (uint32_t i = from; i < r->op->n_in; i++)
        if (operand(r, i)->partial)
            pending = operand(r, i);
    for (uint32_t i = from; pending && i < r->op->n_in; i++) {
        const CertType *x = operand(r, i);
        bool alike = x->partial == pending->partial && x->pending == pending->pending;
        bool zero = !x->partial && strcmp(pending->pending, "sum") == 0 &&
                    dt_certnode_is_zero(r->in[i].node);
        if (!alike && !zero)
            return no(r, "a pending sum beside a term that is not");
    }
    if (pending && sums_only && strcmp(pending->pending, "sum") != 0)
        return no(r, "a pending maximum in an op that is linear only");
    return pending_is(r, pending ? pending->partial : 0, pending ? pending->pending : "sum");
}

static bool check_sum(Rule *r) { return map_axes(r) && linear(r, 0, true); }
static bool check_pass(Rule *r) { return map_axes(r) && linear(r, 0, false); }
static bool check_where(Rule *r) { return map_axes(r) && complete(r, 0) && linear(r, 1, false); }

static bool check_cast(Rule *r)
{
    if (is_float(operand(r, 0)->dtype) && is_float(result(r)->dtype))
        return check_pass(r);
    return check_map(r);
}

static bool multilinear(Rule *r, uint16_t more)
{
    uint16_t bits = more;
    for (uint32_t i = 0; i < r->op->n_in; i++) {
        const CertType *x = operand(r, i);
        if ((bits & x->partial) || (x->partial && strcmp(x->pending, "sum") != 0))
            return no(r, "a product of two values that are both pending over a mesh axis");
        bits |= x->partial;
    }
    return pending_is(r, bits, "sum");
}

static bool check_mul(Rule *r) { return map_axes(r) && multilinear(r, 0); }
static bool check_div(Rule *r) { return map_axes(r) && complete(r, 1) && multilinear(r, 0); }

static bool check_expand(Rule *r)
{
    return kept(r, 0, NULL, 0) &&
           linear(r, 0, false); /* new axes may be split at will: every element is equal */
}

/* ---- axis ops ---- */

static int64_t local(const CertState *state, const CertAxis *axis)
{
    int64_t n = axis->extent;
    for (uint32_t i = 0; i < axis->n; i++)
        n /= state->program->size[axis->split[i]];
    return n;
}

/* The mesh axes of consecutive axes as one list, major to minor: legal if what stands before a split axis is one
 * element per rank, so that every rank's part is one block of the row-major numbers. */
static bool blocks(Rule *r, const CertType *type, const char *const *names, uint32_t n,
                   uint8_t *ret_list, uint32_t *ret_n)
{
    bool open = false;
    *ret_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const CertAxis *axis = dt_certtext_axis(type, names[i]);
        if (!axis)
            return no(r, "a relabel names an axis that is not there");
        if (axis->zigzag && n > 1)
            return no(r, "a zigzag axis is merged or split");
        if (axis->n && open)
            return no(r, "a merged axis is split behind one that is not wholly split");
        for (uint32_t s = 0; s < axis->n; s++)
            if (*ret_n < 8)
                ret_list[(*ret_n)++] = axis->split[s];
        open = open || local(r->state, axis) > 1;
    }
    return true;
}

static bool check_relabel(Rule *r)
{
    const char *from[CERT_RANK], *to[CERT_RANK];
    uint32_t n_from = 0, n_to = 0;
    for (uint32_t i = 0; i < r->op->n_relabels; i++) {
        const CertRelabel *entry = &r->op->relabels[i];
        uint8_t a[8], b[8];
        uint32_t n_a, n_b;
        if (!blocks(r, operand(r, 0), entry->from, entry->n_from, a, &n_a) ||
            !blocks(r, result(r), entry->to, entry->n_to, b, &n_b))
            return false;
        if (n_a != n_b || memcmp(a, b, n_a) != 0)
            return no(r, "a relabelled axis changes its split");
        for (uint32_t k = 0; k < entry->n_from && n_from < CERT_RANK; k++)
            from[n_from++] = entry->from[k];
        for (uint32_t k = 0; k < entry->n_to && n_to < CERT_RANK; k++)
            to[n_to++] = entry->to[k];
    }
    return kept(r, 0, from, n_from) && grounded(r, to, n_to) && linear(r, 0, false);
}

static bool named_whole(Rule *r, uint32_t i, const char *const *names, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const CertAxis *x = dt_certtext_axis(operand(r, i), names[k]),
                       *y = dt_certtext_axis(result(r), names[k]);
        bool same = x && y && same_split(x, y) &&
                    strcmp(r->op->kind, "scan") != 0; /* of unchanged extent */
        if (!same && ((x && x->n) || (y && y->n)))
            return no(r, "an axis that must be whole is split");
    }
    return true;
}

static bool check_slice(Rule *r)
{
    return named_whole(r, 0, r->op->axes, r->op->n_axes) &&
           kept(r, 0, r->op->axes, r->op->n_axes) && grounded(r, NULL, 0) && linear(r, 0, false);
}

static bool check_fill(Rule *r) /* pad, window, fold */
{
    if (operand(r, 0)->partial && r->op->fills && strcmp(r->op->kind, "fold") != 0)
        return no(r, "a fill that is not 0 beside a pending sum");
    return named_whole(r, 0, r->op->axes, r->op->n_axes) &&
           kept(r, 0, r->op->axes, r->op->n_axes) && grounded(r, NULL, 0) && linear(r, 0, true);
}

static bool check_concat(Rule *r)
{
    for (uint32_t i = 0; i < r->op->n_in; i++) {
        const CertAxis *x = dt_certtext_axis(operand(r, i), r->op->axes[0]);
        if (!x || x->n || !kept(r, i, r->op->axes, 1))
            return no(r, "a joined axis is split");
    }
    return named_whole(r, 0, r->op->axes, 1) && grounded(r, NULL, 0) && linear(r, 0, true);
}

/* ---- contractions ---- */

static bool check_dot(Rule *r)
{
    uint16_t bits = 0;
    for (uint32_t i = 0; i < r->op->n_axes; i++) {
        const CertAxis *a = dt_certtext_axis(operand(r, 0), r->op->axes[i]),
                       *b = dt_certtext_axis(operand(r, 1), r->op->axes[i]);
        if (!a || !b || !same_split(a, b))
            return no(r, "a contracted axis lies otherwise in the two operands");
        bits |= bits_of(a);
    }
    for (uint32_t i = 0; i < 2; i++)
        if (!kept(r, i, r->op->axes, r->op->n_axes))
            return false;
    return grounded(r, NULL, 0) && multilinear(r, bits);
}

/* Mesh axes of the axes of operand i in names. */
static uint16_t bits_named(Rule *r, uint32_t i, const char *const *names, uint32_t n)
{
    uint16_t bits = 0;
    for (uint32_t k = 0; k < n; k++) {
        const CertAxis *axis = dt_certtext_axis(operand(r, i), names[k]);
        bits |= axis ? bits_of(axis) : 0;
    }
    return bits;
}

static bool check_reduce(Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t bits = bits_named(r, 0, r->op->axes, r->op->n_axes);
    if (x->partial && x->pending != r->op->reduce)
        return no(r, "a reduction of another kind than the pending one");
    return kept(r, 0, r->op->axes, r->op->n_axes) && grounded(r, NULL, 0) &&
           pending_is(r, (uint16_t)(bits | x->partial), r->op->reduce);
}

static bool check_scan(Rule *r)
{
    return named_whole(r, 0, r->op->axes, r->op->n_axes) && map_axes(r) && linear(r, 0, true);
}

static bool check_topk(Rule *r)
{
    const CertAxis *from = dt_certtext_axis(operand(r, 0), r->op->axes[0]),
                   *to = dt_certtext_axis(result(r), r->op->axes[1]);
    if (!from || !to || from->n || to->n)
        return no(r, "an axis that must be whole is split");
    return kept(r, 0, r->op->axes, 1) && grounded(r, NULL, 0) && all_complete(r) &&
           r->op->types[1]->partial == 0;
}

static bool check_gather(Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t bits = bits_named(r, 0, r->op->axes, r->op->n_axes);
    if (!kept(r, 0, r->op->axes, r->op->n_axes))
        return false;
    for (uint32_t i = 1; i < r->op->n_in; i++)
        if (!complete(r, i) || !kept(r, i, NULL, 0))
            return false;
    if ((bits & x->partial) || (bits && x->partial && strcmp(x->pending, "sum") != 0))
        return no(r, "an indexed axis is split over a mesh axis whose reduction is pending, or is "
                     "not a sum");
    return grounded(r, NULL, 0) &&
           pending_is(r, (uint16_t)(bits | x->partial), x->partial ? x->pending : "sum");
}

static bool check_scatter(Rule *r)
{
    uint16_t bits = bits_named(r, 0, r->op->axes2, r->op->n_axes2), target = 0;
    for (uint32_t i = 0; i < r->op->n_axes; i++) {
        const CertAxis *axis = dt_certtext_axis(result(r), r->op->axes[i]);
        if (!axis)
            return no(r, "a target axis is missing");
        target |= bits_of(axis);
    }
    for (uint32_t i = 0; i < r->op->n_in; i++) {
        if (i > 0 && !complete(r, i))
            return false;
        if ((split_bits(operand(r, i)) | operand(r, i)->partial) & target)
            return no(r,
                      "a target axis is split over a mesh axis over which an operand is not whole");
        if (!kept(r, i, r->op->axes2, r->op->n_axes2))
            return false;
        if (bits_named(r, i, r->op->axes2, r->op->n_axes2) & (uint16_t)~bits)
            return no(r, "an index lies otherwise than what is scattered");
    }
    if (operand(r, 0)->partial && strcmp(operand(r, 0)->pending, "sum") != 0)
        return no(r, "a pending maximum is scattered");
    return grounded(r, r->op->axes, r->op->n_axes) &&
           pending_is(r, (uint16_t)(bits | operand(r, 0)->partial), "sum");
}

/* An optimizer's step: element by element, on values that lie alike. */
static bool check_update(Rule *r)
{
    for (uint32_t i = 0; i < r->op->n_in; i++)
        if (!complete(r, i) || !kept(r, i, NULL, 0))
            return false;
    for (uint32_t i = 0; i < r->op->n_out; i++) {
        const CertType *y = r->op->types[i];
        if (y->partial || y->rank != operand(r, 0)->rank)
            return no(r, "the new values lie otherwise than the old ones");
        for (uint32_t a = 0; a < y->rank; a++)
            if (!same_split(&y->axes[a], &operand(r, 0)->axes[a]) ||
                y->axes[a].name != operand(r, 0)->axes[a].name)
                return no(r, "the new values lie otherwise than the old ones");
    }
    return true;
}

/* ---- communication ---- */

/* The splits of the result are those of the operand without, or with, minor mesh axes of set. */
static bool minor(Rule *r, const CertType *more, const CertType *less, uint16_t set)
{
    uint16_t seen = 0;
    for (uint32_t a = 0; a < more->rank; a++) {
        const CertAxis *x = &more->axes[a], *y = dt_certtext_axis(less, x->name);
        if (!y || y->extent != x->extent || y->n > x->n || memcmp(x->split, y->split, y->n) != 0)
            return no(r, "splits other than the minor ones of its mesh axes change");
        if ((x->zigzag && x->n) != (y->zigzag && y->n) && x->n == y->n)
            return no(r, "the order of blocks changes");
        for (uint32_t s = y->n; s < x->n; s++)
            seen |= (uint16_t)(1u << x->split[s]);
    }
    return (more->rank == less->rank && seen == set) ||
           no(r, "its mesh axes are not those whose splits change");
}

static bool check_all_reduce(Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t set = r->op->mesh;
    if ((x->partial & set) != set || (set & r->state->program->time))
        return no(r, "no reduction is pending over its mesh axes");
    if (x->pending != r->op->reduce)
        return no(r, "it reduces in another way than is pending");
    return map_axes(r) && pending_is(r, (uint16_t)(x->partial & ~set), x->pending);
}

static bool check_reduce_scatter(Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t set = r->op->mesh;
    if ((x->partial & set) != set || strcmp(x->pending, "sum") != 0 ||
        (set & r->state->program->time))
        return no(r, "no sum is pending over its mesh axes");
    return minor(r, result(r), x, set) && pending_is(r, (uint16_t)(x->partial & ~set), x->pending);
}

static bool unchanged_pending(Rule *r)
{
    const CertType *x = operand(r, 0);
    return pending_is(r, x->partial, x->partial ? x->pending : "sum");
}

static bool check_all_gather(Rule *r)
{
    if (r->op->mesh & r->state->program->time)
        return no(r, "nothing is exchanged over time");
    return minor(r, operand(r, 0), result(r), r->op->mesh) && unchanged_pending(r);
}

static bool check_shard(Rule *r)
{
    const CertType *x = operand(r, 0);
    if (r->op->mesh & (uint16_t)(split_bits(x) | x->partial))
        return no(r, "what is sliced is not whole over its mesh axes");
    return minor(r, result(r), x, r->op->mesh) && unchanged_pending(r);
}

/* Mesh axes leave the minor end of some axes and come to the minor end of others. */
static bool check_all_to_all(Rule *r)
{
    const CertType *x = operand(r, 0), *y = result(r);
    uint16_t gone = 0, came = 0;
    if ((r->op->mesh & r->state->program->time) || x->rank != y->rank)
        return no(r, "nothing is exchanged over time");
    for (uint32_t a = 0; a < x->rank; a++) {
        const CertAxis *from = &x->axes[a], *to = dt_certtext_axis(y, from->name);
        if (!to || to->extent != from->extent || (from->n && to->n && from->zigzag != to->zigzag))
            return no(r, "the axes change");
        uint32_t same = 0;
        while (same < from->n && same < to->n && from->split[same] == to->split[same])
            same++;
        if (same < from->n && same < to->n)
            return no(r, "an axis both loses and gets mesh axes");
        for (uint32_t s = same; s < from->n; s++)
            gone |= (uint16_t)(1u << from->split[s]);
        for (uint32_t s = same; s < to->n; s++)
            came |= (uint16_t)(1u << to->split[s]);
    }
    if (gone != came || gone != r->op->mesh)
        return no(r, "its mesh axes are not those that move");
    return unchanged_pending(r);
}

const CertAxis *dt_certrule_shifted(const CertType *type, uint16_t mesh)
{
    for (uint32_t a = 0; a < type->rank; a++) {
        const CertAxis *axis = &type->axes[a];
        bool ordered = axis->n > 0 && !axis->zigzag && bits_of(axis) == mesh;
        for (uint32_t s = 1; ordered && s < axis->n; s++)
            ordered = axis->split[s] > axis->split[s - 1];
        if (ordered)
            return axis;
    }
    return NULL;
}

/* Parts of one axis go round the ranks that hold them. */
static bool check_shift(Rule *r)
{
    if (r->op->mesh & r->state->program->time)
        return no(r, "nothing is exchanged over time");
    if (!dt_certrule_same(operand(r, 0), result(r)) || !dt_certrule_shifted(operand(r, 0), r->op->mesh))
        return no(r, "what is passed on is not one part per rank of one axis");
    return true;
}

/* ---- the table ---- */

static const struct {
    const char *kind;
    uint32_t n_in; /* operands; at least so many if more */
    bool more;
    uint32_t n_out;
    Check *check;
} rules[] = {
    {"neg", 1, false, 1, check_sum},
    {"stop", 1, false, 1, check_pass},
    {"bind", 1, false, 1, check_pass},
    {"cast", 1, false, 1, check_cast},
    {"add", 2, false, 1, check_sum},
    {"sub", 2, false, 1, check_sum},
    {"mul", 2, false, 1, check_mul},
    {"div", 2, false, 1, check_div},
    {"where", 3, false, 1, check_where},
    {"abs", 1, false, 1, check_map},
    {"floor", 1, false, 1, check_map},
    {"exp", 1, false, 1, check_map},
    {"log", 1, false, 1, check_map},
    {"sqrt", 1, false, 1, check_map},
    {"rsqrt", 1, false, 1, check_map},
    {"sin", 1, false, 1, check_map},
    {"cos", 1, false, 1, check_map},
    {"tanh", 1, false, 1, check_map},
    {"erf", 1, false, 1, check_map},
    {"not", 1, false, 1, check_map},
    {"floordiv", 2, false, 1, check_map},
    {"mod", 2, false, 1, check_map},
    {"pow", 2, false, 1, check_map},
    {"max", 2, false, 1, check_map},
    {"min", 2, false, 1, check_map},
    {"lt", 2, false, 1, check_map},
    {"le", 2, false, 1, check_map},
    {"eq", 2, false, 1, check_map},
    {"ne", 2, false, 1, check_map},
    {"and", 2, false, 1, check_map},
    {"or", 2, false, 1, check_map},
    {"expand", 1, false, 1, check_expand},
    {"relabel", 1, false, 1, check_relabel},
    {"slice", 1, false, 1, check_slice},
    {"pad", 1, false, 1, check_fill},
    {"window", 1, false, 1, check_fill},
    {"fold", 1, false, 1, check_fill},
    {"concat", 1, true, 1, check_concat},
    {"dot", 2, false, 1, check_dot},
    {"reduce", 1, false, 1, check_reduce},
    {"scan", 1, false, 1, check_scan},
    {"topk", 1, false, 2, check_topk},
    {"gather", 2, true, 1, check_gather},
    {"scatter_add", 2, true, 1, check_scatter},
    {"update", 3, true, 1, check_update},
    {"all_reduce", 1, false, 1, check_all_reduce},
    {"reduce_scatter", 1, false, 1, check_reduce_scatter},
    {"all_gather", 1, false, 1, check_all_gather},
    {"shard", 1, false, 1, check_shard},
    {"all_to_all", 1, false, 1, check_all_to_all},
    {"shift", 1, false, 1, check_shift},
};

bool dt_certrule_check(CertState *state, const CertOp *op, const CertValue *in)
{
    Rule rule = {.state = state, .op = op, .in = in};
    for (size_t i = 0; i < DT_COUNT(rules); i++) {
        if (strcmp(rules[i].kind, op->kind) != 0)
            continue;
        if (op->n_in < rules[i].n_in || (op->n_in > rules[i].n_in && !rules[i].more) ||
            op->n_out < rules[i].n_out)
            return no(&rule, "other operands or results than it has");
        state->values += op->n_out;
        return rules[i].check(&rule);
    }
    if (op->n_in == 0 && op->n_out == 1) { /* const, iota, rng: complete, split at will */
        state->values++;
        return op->types[0]->partial == 0 || no(&rule, "a source with a pending reduction");
    }
    return no(&rule, "no rule for this op");
}
