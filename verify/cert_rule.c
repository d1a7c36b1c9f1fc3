/* SPDX-License-Identifier: Apache-2.0 */
/* The local rules: when every rank's op on its own parts computes its parts of the op's result.
 * Written a second time, independently of ir/shape*.c; docs/placement.md has the table in words.
 *
 * Over one mesh axis a value is whole, split along an axis, or partial. For each op a rule
 * determines the placement of the result; any other result type is refused. */
#include "verify/internal.h"

typedef CertCheck Rule;

struct CertCheck {
    CertState *state;
    const CertOp *op;
    const CertValue *in;
};

bool dt_certrule_same(const CertType *a, uint32_t skip, uint16_t partial, const CertType *b)
{
    if (a == b && skip == 0 && partial == a->partial)
        return true;
    if (a->dtype != b->dtype || a->rank != b->rank + skip || partial != b->partial ||
        (partial && a->pending != b->pending))
        return false;
    for (uint32_t i = 0; i < b->rank; i++)
        if (a->axes[skip + i].name != b->axes[i].name ||
            !dt_cert_same_axis(&a->axes[skip + i], &b->axes[i]))
            return false;
    return true;
}

static bool no(const Rule *r, const char *why)
{
    return dt_cert_fail(r->state, r->op, "`%s`: %s", r->op->kind, why);
}

static const CertType *operand(const Rule *r, uint32_t i) { return r->in[i].type; }
static const CertType *result(const Rule *r) { return r->op->types[0]; }

const char *const *dt_certrule_names(const CertOp *op, CertNames names, const char **scratch,
                                     uint32_t *ret_n)
{
    *ret_n = names == N_AXES    ? op->n_axes
             : names == N_AXES2 ? op->n_axes2
             : names == N_FIRST ? op->n_axes > 0
                                : 0;
    if (names != N_FROM && names != N_TO)
        return names == N_AXES2 ? op->axes2 : op->axes;
    for (uint32_t i = 0; i < op->n_relabels; i++) {
        const CertRelabel *relabel = &op->relabels[i];
        uint32_t n = names == N_FROM ? relabel->n_from : relabel->n_to;
        for (uint32_t k = 0; k < n && *ret_n < CERT_RANK; k++)
            scratch[(*ret_n)++] = names == N_FROM ? relabel->from[k] : relabel->to[k];
    }
    return scratch;
}

static bool is_in(const char *const *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i] == name)
            return true;
    return false;
}

/* Whether every axis of operand i, except those in `but`, has the same split in the result; reports
 * why not. */
static bool kept(const Rule *r, uint32_t i, const char *const *but, uint32_t n_but)
{
    const CertType *x = operand(r, i);
    for (uint32_t a = 0; a < x->rank; a++) {
        if (is_in(but, n_but, x->axes[a].name))
            continue;
        const CertAxis *to = dt_certtext_axis(result(r), x->axes[a].name);
        if (!to || !dt_cert_same_axis(to, &x->axes[a]))
            return no(r, "an axis of an operand lies otherwise in the result");
    }
    return true;
}

/* Whether every split axis of the result is split in an operand, or named in `made`; reports why
 * not. */
static bool grounded(const Rule *r, const char *const *made, uint32_t n_made)
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

/* Whether the named axes of operands are not split. Unless `strict`, an axis that the result has
 * with the same extent may be split there in the same way. */
static bool whole(const Rule *r, const char *const *names, uint32_t n, bool strict)
{
    for (uint32_t i = 0; i < r->op->n_in; i++)
        for (uint32_t k = 0; k < n; k++) {
            const CertAxis *x = dt_certtext_axis(operand(r, i), names[k]),
                           *y = dt_certtext_axis(result(r), names[k]);
            bool same = !strict && x && y && dt_cert_same_axis(x, y);
            if (!same && ((x && x->n) || (y && y->n)))
                return no(r, "an axis that must be whole is split");
        }
    return true;
}

/* ---- pending reductions ---- */

static bool pending_is(const Rule *r, uint16_t bits, const char *kind)
{
    const CertType *y = result(r);
    if (y->partial != bits)
        return no(r, "another reduction is pending in the result than follows from the operands");
    if (bits && !dt_cert_is(y->pending, kind))
        return no(r, "the pending reduction is of another kind");
    return true;
}

static bool complete(const Rule *r, uint32_t operands)
{
    for (uint32_t i = 0; i < r->op->n_in; i++)
        if ((operands >> (i < 31 ? i : 31) & 1) && operand(r, i)->partial)
            return no(r, "an operand with a pending reduction in an op that is not linear in it");
    return true;
}

/* Whether the operands in which the op is linear are all pending over the same mesh axes in the
 * same way, or are zero, and the result is too. sums_only: only sums may be pending. Reports why
 * not. */
static bool linear(const Rule *r, bool sums_only)
{
    const CertType *pending = NULL;
    for (uint32_t i = 0; i < r->op->n_in; i++)
        if (operand(r, i)->partial)
            pending = operand(r, i);
    if (!pending)
        return pending_is(r, 0, "sum");
    for (uint32_t i = 0; i < r->op->n_in; i++) {
        const CertType *x = operand(r, i);
        bool alike = x->partial == pending->partial && x->pending == pending->pending;
        bool zero = !x->partial && dt_cert_is(pending->pending, "sum") &&
                    dt_certnode_is_zero(r->in[i].node);
        if (!alike && !zero && !(r->op->rule->complete >> i & 1))
            return no(r, "a pending sum beside a term that is not");
    }
    if (sums_only && !dt_cert_is(pending->pending, "sum"))
        return no(r, "a pending maximum in an op that is linear only");
    return pending_is(r, pending->partial, pending->pending);
}

/* Returns the bit set of the mesh axes that split the named axes of operand i. */
static uint16_t bits_named(const Rule *r, uint32_t i, const char *const *names, uint32_t n)
{
    uint16_t bits = 0;
    for (uint32_t k = 0; k < n; k++)
        bits |= dt_cert_bits(dt_certtext_axis(operand(r, i), names[k]));
    return bits;
}

static bool product(const Rule *r, uint16_t bits)
{
    for (uint32_t i = 0; i < r->op->n_in; i++) {
        const CertType *x = operand(r, i);
        if ((bits & x->partial) || (x->partial && !dt_cert_is(x->pending, "sum")))
            return no(r, "a product of two values that are both pending over a mesh axis");
        bits |= x->partial;
    }
    return pending_is(r, bits, "sum");
}

static bool none(const Rule *r)
{
    for (uint32_t i = 0; i < r->op->n_out; i++)
        if (r->op->types[i]->partial)
            return no(r,
                      "another reduction is pending in the result than follows from the operands");
    return complete(r, UINT32_MAX);
}

static bool pending(const Rule *r, const char *const *gone, uint32_t n_gone)
{
    switch (r->op->rule->pending) {
    case P_NONE: return none(r);
    case P_PASS: return linear(r, false);
    case P_SUMS: return linear(r, true);
    case P_PRODUCT: return product(r, bits_named(r, 0, gone, n_gone));
    case P_OWN: break;
    }
    return true;
}

/* ---- rules of their own ---- */

static bool own_cast(const Rule *r)
{
    const bool floats =
        dt_cert_is_float(operand(r, 0)->dtype) && dt_cert_is_float(result(r)->dtype);
    return floats ? linear(r, false) : none(r);
}

static bool own_iota(const Rule *r)
{
    const CertType *y = result(r);
    return (y->rank == 1 && r->op->n_axes == 1 && r->op->axes[0] == y->axes[0].name &&
            !y->partial) ||
           no(r, "positions are of one axis");
}

static uint32_t n_zigzag(const CertType *type, const char *const *names, uint32_t n)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        const CertAxis *axis = dt_certtext_axis(type, names[i]);
        found += axis && axis->n && axis->zigzag;
    }
    return found;
}

/* Sets ret_list to the mesh axes that split consecutive axes, major to minor. False after a reason:
 * an axis is split after one of which a rank has several elements, so that a rank's part would not
 * be one block in row-major order. */
static bool blocks(const Rule *r, const CertType *type, const char *const *names, uint32_t n,
                   uint8_t *ret_list, uint32_t *ret_n)
{
    bool open = false;
    *ret_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        const CertAxis *axis = dt_certtext_axis(type, names[i]);
        if (!axis)
            return no(r, "a relabel names an axis that is not there");
        if (axis->n && open)
            return no(r, "a merged axis is split behind one that is not wholly split");
        for (uint32_t s = 0; s < axis->n; s++)
            ret_list[(*ret_n)++] = axis->split[s];
        open = open || dt_cert_local(r->state->program, axis) > 1;
    }
    return true;
}

/* The product of the extents of these axes; 0: an axis is missing, is not as long as `extents` says
 * (NULL: not checked), or is named so often that the product overflows. */
static int64_t elements(const CertType *type, const char *const *names, uint32_t n,
                        const int64_t *extents)
{
    int64_t all = 1;
    for (uint32_t i = 0; i < n; i++) {
        const CertAxis *axis = dt_certtext_axis(type, names[i]);
        if (!axis || (extents && axis->extent != extents[i]) ||
            __builtin_mul_overflow(all, axis->extent, &all))
            return 0;
    }
    return all;
}

static bool own_relabel(const Rule *r)
{
    uint8_t a[CERT_NAMES * CERT_SPLIT], b[CERT_NAMES * CERT_SPLIT];
    for (uint32_t i = 0; i < r->op->n_relabels; i++) {
        const CertRelabel *entry = &r->op->relabels[i];
        const int64_t n = elements(operand(r, 0), entry->from, entry->n_from, NULL);
        uint32_t n_a, n_b;
        if (n == 0 || n != elements(result(r), entry->to, entry->n_to, entry->extents))
            return no(r, "its axes have not as many elements as before");
        if (!blocks(r, operand(r, 0), entry->from, entry->n_from, a, &n_a) ||
            !blocks(r, result(r), entry->to, entry->n_to, b, &n_b))
            return false;
        if (n_a != n_b || memcmp(a, b, n_a) != 0)
            return no(r, "a relabelled axis changes its split");
        uint32_t zigzag[2] = {n_zigzag(operand(r, 0), entry->from, entry->n_from),
                              n_zigzag(result(r), entry->to, entry->n_to)};
        if (zigzag[0] != zigzag[1] || (zigzag[0] && (entry->n_from > 1 || entry->n_to > 1)))
            return no(r, "a zigzag axis is merged or split, or its order changes");
    }
    return true;
}

/* Whether the extents of operand and result agree: a slice (cuts) takes every step-th element of an
 * axis, from lo on; a pad inserts elements around and between, and hi at the end. */
static bool is_as_long(const Rule *r, bool cuts)
{
    const CertOp *op = r->op;
    bool same = op->n_ranges == op->n_axes;
    for (uint32_t i = 0; same && i < op->n_axes; i++) {
        const CertAxis *x = dt_certtext_axis(operand(r, 0), op->axes[i]),
                       *y = dt_certtext_axis(result(r), op->axes[i]), *whole = cuts ? x : y,
                       *part = cuts ? y : x;
        const CertRange *range = &op->ranges[i];
        same = x && y && range->lo >= 0 && range->hi >= 0 && range->step >= 1 &&
               range->lo < whole->extent &&
               part->extent - 1 <= (whole->extent - 1 - range->lo) / range->step;
        if (same)
            same = cuts ? range->n == part->extent
                        : range->hi ==
                              whole->extent - 1 - range->lo - (part->extent - 1) * range->step;
    }
    return same || no(r, "its result is not as long as it says");
}

static bool own_slice(const Rule *r) { return is_as_long(r, true); }

static bool fills(const Rule *r)
{
    return !operand(r, 0)->partial || r->op->number == 0 ||
           no(r, "a fill that is not 0 beside a pending sum");
}

static bool own_pad(const Rule *r) { return is_as_long(r, false) && fills(r); }

static bool own_concat(const Rule *r)
{
    const CertAxis *y = r->op->n_axes == 1 ? dt_certtext_axis(result(r), r->op->axes[0]) : NULL;
    int64_t rest = y ? y->extent : -1;
    for (uint32_t i = 0; i < r->op->n_in && rest >= 0; i++) {
        const CertAxis *x = dt_certtext_axis(operand(r, i), r->op->axes[0]);
        rest = x ? rest - x->extent : -1;
    }
    return rest == 0 || no(r, "its result is not as long as its operands");
}

/* Checks a window or fold over a split axis. A rank can compute the windows of its part alone only
 * if each window has one element. */
static bool own_window(const Rule *r) /* and those of a fold */
{
    const CertType *windows = dt_cert_is(r->op->kind, "window") ? result(r) : operand(r, 0);
    const CertAxis *axis = r->op->n_axes == 2 ? dt_certtext_axis(windows, r->op->axes[0]) : NULL,
                   *w = axis ? dt_certtext_axis(windows, r->op->axes[1]) : NULL;
    if (!w || (axis->n && (r->op->shifts || w->extent != 1)))
        return no(r, "its axis is split");
    return fills(r);
}

static bool own_dot(const Rule *r)
{
    for (uint32_t i = 0; i < r->op->n_axes; i++) {
        const CertAxis *a = dt_certtext_axis(operand(r, 0), r->op->axes[i]),
                       *b = dt_certtext_axis(operand(r, 1), r->op->axes[i]);
        if (!a || !b || !dt_cert_same_axis(a, b))
            return no(r, "a contracted axis lies otherwise in the two operands");
    }
    return true;
}

static bool own_reduce(const Rule *r)
{
    const CertType *x = operand(r, 0);
    if (x->partial && !dt_cert_is(x->pending, r->op->reduce))
        return no(r, "a reduction of another kind than the pending one");
    return pending_is(r, bits_named(r, 0, r->op->axes, r->op->n_axes) | x->partial, r->op->reduce);
}

static bool own_gather(const Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t bits = bits_named(r, 0, r->op->axes, r->op->n_axes);
    for (uint32_t i = 1; i < r->op->n_in; i++)
        if (!kept(r, i, NULL, 0))
            return false;
    if ((bits & x->partial) || (bits && x->partial && !dt_cert_is(x->pending, "sum")))
        return no(r, "an indexed axis is split over a mesh axis whose reduction is pending, or is "
                     "not a sum");
    return pending_is(r, bits | x->partial, x->partial ? x->pending : "sum");
}

static bool own_scatter(const Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t bits = bits_named(r, 0, r->op->axes2, r->op->n_axes2), target = 0;
    for (uint32_t i = 0; i < r->op->n_axes; i++) {
        const CertAxis *axis = dt_certtext_axis(result(r), r->op->axes[i]);
        if (!axis)
            return no(r, "a target axis is missing");
        target |= dt_cert_bits(axis);
    }
    for (uint32_t i = 0; i < r->op->n_in; i++) {
        if ((operand(r, i)->split | operand(r, i)->partial) & target)
            return no(r,
                      "a target axis is split over a mesh axis over which an operand is not whole");
        for (uint32_t k = 0; k < r->op->n_axes2; k++) {
            const CertAxis *a = dt_certtext_axis(x, r->op->axes2[k]),
                           *b = dt_certtext_axis(operand(r, i), r->op->axes2[k]);
            if (b && (!a || !dt_cert_same_axis(a, b)))
                return no(r, "an index lies otherwise than what is scattered");
        }
    }
    if (x->partial && !dt_cert_is(x->pending, "sum"))
        return no(r, "a pending maximum is scattered");
    return pending_is(r, bits | x->partial, "sum");
}

/* Checks that all results have the axes and splits of the first one, which are those of the
 * operands. */
static bool own_alike(const Rule *r)
{
    const CertType *x = result(r);
    for (uint32_t i = 1; i < r->op->n_out; i++) {
        const CertType *y = r->op->types[i];
        bool same = y->rank == x->rank;
        for (uint32_t a = 0; same && a < y->rank; a++)
            same =
                y->axes[a].name == x->axes[a].name && dt_cert_same_axis(&y->axes[a], &x->axes[a]);
        if (!same)
            return no(r, "its results lie otherwise than they should");
    }
    return true;
}

/* ---- communication ---- */

/* Whether the result's splits are the operand's without the mesh axes `gone` at their minor ends,
 * and with `came` added. No axis may lose and gain splits, and reductions stay pending except over
 * the mesh axes `done`. Reports why not. */
static bool moves(const Rule *r, uint16_t gone, uint16_t came, uint16_t done)
{
    const CertType *x = operand(r, 0), *y = result(r);
    for (uint32_t a = 0; a < x->rank; a++) {
        const CertAxis *from = &x->axes[a], *to = &y->axes[a];
        if (to->extent != from->extent || (from->n && to->n && from->zigzag != to->zigzag))
            return no(r, "an axis or its order of blocks changes");
        const uint32_t same = from->n < to->n ? from->n : to->n;
        if (memcmp(from->split, to->split, same * sizeof from->split[0]) != 0)
            return no(r, "splits other than the minor ones of its mesh axes change");
        for (uint32_t s = same; s < from->n; s++)
            gone ^= (uint16_t)(1u << from->split[s]);
        for (uint32_t s = same; s < to->n; s++)
            came ^= (uint16_t)(1u << to->split[s]);
    }
    if (gone || came)
        return no(r, "its mesh axes are not those whose splits change");
    return pending_is(r, x->partial & (uint16_t)~done, x->partial ? x->pending : "sum");
}

/* Checks a sum over stages. Stages run entries of their own, so only sums are known to meet
 * (cert_source.c). */
static bool exchanges(const Rule *r)
{
    if (r->op->mesh & (r->state->program->time | r->state->program->pipe))
        return no(r, "nothing is exchanged over time, or between stages");
    return true;
}

/* Whether the result has the operand's dtype and axes in the same order, so that elements stay at
 * their places. */
static bool is_moved(const Rule *r)
{
    const CertType *x = operand(r, 0), *y = result(r);
    bool same = x->dtype == y->dtype && x->rank == y->rank;
    for (uint32_t a = 0; same && a < x->rank; a++)
        same = x->axes[a].name == y->axes[a].name;
    return same || no(r, "what is moved changes its dtype, or the order of its axes");
}

static bool own_all_reduce(const Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t set = r->op->mesh;
    if ((x->partial & set) != set)
        return no(r, "no reduction is pending over its mesh axes");
    if (x->partial && !dt_cert_is(x->pending, r->op->reduce))
        return no(r, "it reduces in another way than is pending");
    return exchanges(r) && kept(r, 0, NULL, 0) &&
           pending_is(r, x->partial & (uint16_t)~set, r->op->reduce);
}

static bool own_reduce_scatter(const Rule *r)
{
    const CertType *x = operand(r, 0);
    uint16_t set = r->op->mesh;
    if ((x->partial & set) != set || (x->partial && !dt_cert_is(x->pending, "sum")))
        return no(r, "no sum is pending over its mesh axes");
    if (!dt_cert_is(r->op->reduce, "sum"))
        return no(r, "it makes no sum of the pending one");
    return exchanges(r) && moves(r, 0, set, set);
}

static bool own_all_gather(const Rule *r)
{
    return exchanges(r) && moves(r, r->op->mesh, 0, 0);
}

static bool own_shard(const Rule *r)
{
    const CertType *x = operand(r, 0);
    if (r->op->mesh & (x->split | x->partial))
        return no(r, "what is sliced is not whole over its mesh axes");
    return moves(r, 0, r->op->mesh, 0);
}

static bool own_all_to_all(const Rule *r)
{
    return exchanges(r) && moves(r, r->op->mesh, r->op->mesh, 0);
}

const CertAxis *dt_certrule_shifted(const CertType *type, uint16_t mesh)
{
    for (uint32_t a = 0; a < type->rank; a++) {
        const CertAxis *axis = &type->axes[a];
        bool ordered = axis->n > 0 && !axis->zigzag && dt_cert_bits(axis) == mesh;
        for (uint32_t s = 1; ordered && s < axis->n; s++)
            ordered = axis->split[s] > axis->split[s - 1];
        if (ordered)
            return axis;
    }
    return NULL;
}

/* Checks the terms of a sum: one for each rank over which it is pending, in the order of ranks, and
 * nothing of it is pending over these any more. Nothing else may follow from them: their meaning is
 * this op of the sum, whatever the terms are. */
static bool own_terms(const Rule *r)
{
    const CertType *x = operand(r, 0), *y = result(r);
    const CertAxis *axis = r->op->n_axes == 1 ? dt_certtext_axis(y, r->op->axes[0]) : NULL;
    if (!axis || dt_certtext_axis(x, r->op->axes[0]))
        return no(r, "it makes no axis of terms");
    const uint16_t set = dt_cert_bits(axis);
    if ((x->partial & set) != set || (x->partial && !dt_cert_is(x->pending, "sum")))
        return no(r, "no sum is pending over the mesh axes of its terms");
    if (set ? dt_cert_local(r->state->program, axis) != 1 || axis->zigzag
            : r->state->program->n_mesh > 0)
        return no(r, "a rank does not have one term");
    return kept(r, 0, r->op->axes, 1) && pending_is(r, x->partial & (uint16_t)~set, "sum");
}

/* Checks a shift: parts of one axis move around the ranks that hold them. */
static bool own_shift(const Rule *r)
{
    const CertType *x = operand(r, 0);
    const CertAxis *axis = dt_certrule_shifted(x, r->op->mesh);
    return exchanges(r) && ((dt_certrule_same(x, 0, x->partial, result(r)) && axis &&
                             dt_cert_local(r->state->program, axis) == 1) ||
                            no(r, "what is passed on is not one part per rank of one axis"));
}

/* Checks a `partner`: along its axis every rank has one element, on ranks in the order of the axis,
 * or all. */
static bool own_partner(const Rule *r)
{
    const CertType *x = operand(r, 0);
    const CertAxis *axis = r->op->n_axes == 1 ? dt_certtext_axis(x, r->op->axes[0]) : NULL;
    if (!axis || !dt_certrule_same(x, 0, x->partial, result(r)))
        return no(r, "it has no axis along which elements change places");
    if (axis->n == 0 && r->op->mesh == 0)
        return true;
    return exchanges(r) && ((dt_certrule_shifted(x, r->op->mesh) == axis &&
                             dt_cert_local(r->state->program, axis) == 1) ||
                            no(r, "ranks do not have one element each of its axis"));
}

/* ---- the table ---- */

static const CertRule rules[] = {
    {"param input call loop pack unpack", 0, 0, .more = true, .pending = P_OWN},
    {"const rng", 0, 1, .made = N_ANY},
    {"iota", 0, 1, .made = N_ANY, .own = own_iota},
    {"mul", 2, 1, .map = true, .pending = P_PRODUCT, .pads = F_PRODUCT},
    {"add", 2, 1, .map = true, .pending = P_SUMS, .pads = F_SUM},
    {"sub", 2, 1, .map = true, .pending = P_SUMS, .pads = F_ZERO},
    {"neg", 1, 1, .map = true, .pending = P_SUMS, .pads = F_ZERO},
    {"stop bind", 1, 1, .map = true, .pending = P_PASS, .pads = F_SAME},
    {"cast", 1, 1, .map = true, .pending = P_OWN, .pads = F_ZERO, .own = own_cast},
    {"div", 2, 1, .map = true, .pending = P_PRODUCT, .complete = 2, .pads = F_QUOTIENT},
    {"where", 3, 1, .map = true, .pending = P_PASS, .complete = 1, .pads = F_WHERE},
    {"abs sqrt", 1, 1, .map = true, .pads = F_ZERO},
    {"floor exp log rsqrt sin cos tanh erf not", 1, 1, .map = true},
    {"floordiv mod pow max min le eq ne or", 2, 1, .map = true},
    {"lt", 2, 1, .map = true, .pads = F_LESS},
    {"and", 2, 1, .map = true, .pads = F_AND},
    {"expand", 1, 1, .map = true, .made = N_ANY, .pending = P_PASS, .pads = F_SAME},
    {"terms", 1, 1, .made = N_FIRST, .pending = P_OWN, .own = own_terms},
    {"relabel", 1, 1, .gone = N_FROM, .made = N_TO, .pending = P_PASS, .pads = F_SAME,
     .own = own_relabel},
    {"slice", 1, 1, .gone = N_AXES, .whole = N_AXES, .pending = P_PASS, .pads = F_SAME,
     .own = own_slice},
    {"pad", 1, 1, .gone = N_AXES, .whole = N_AXES, .pending = P_SUMS, .pads = F_ZERO,
     .own = own_pad},
    {"window fold", 1, 1, .gone = N_AXES, .whole = N_AXES, .pending = P_SUMS, .pads = F_ZERO,
     .own = own_window},
    {"concat", 1, 1, .more = true, .gone = N_FIRST, .whole = N_FIRST, .strict = true,
     .pending = P_SUMS, .pads = F_ZERO, .own = own_concat},
    {"dot", 2, 1, .gone = N_AXES, .pending = P_PRODUCT, .pads = F_PRODUCT, .own = own_dot},
    {"reduce", 1, 1, .gone = N_AXES, .pending = P_OWN, .pads = F_ZERO, .own = own_reduce},
    {"scan", 1, 1, .whole = N_AXES, .strict = true, .pending = P_SUMS, .pads = F_ZERO},
    {"topk", 1, 2, .gone = N_FIRST, .whole = N_AXES, .strict = true, .own = own_alike},
    {"gather", 2, 1, .more = true, .gone = N_AXES, .pending = P_OWN, .complete = ~1u,
     .pads = F_LOOKUP, .own = own_gather},
    {"scatter_add", 2, 1, .more = true, .gone = N_AXES2, .made = N_AXES, .pending = P_OWN,
     .complete = ~1u, .pads = F_LOOKUP, .own = own_scatter},
    {"all_reduce", 1, 1, .moves = true, .pads = F_SAME, .own = own_all_reduce},
    {"reduce_scatter", 1, 1, .moves = true, .pads = F_SAME, .own = own_reduce_scatter},
    {"all_gather", 1, 1, .moves = true, .pads = F_SAME, .own = own_all_gather},
    {"shard", 1, 1, .moves = true, .pads = F_SAME, .own = own_shard},
    {"all_to_all", 1, 1, .moves = true, .pads = F_SAME, .own = own_all_to_all},
    {"shift", 1, 1, .pending = P_OWN, .own = own_shift},
    {"partner", 1, 1, .pending = P_OWN, .own = own_partner},
};

const CertRule *dt_certrule_find(const char *kind)
{
    size_t n = strlen(kind);
    for (size_t i = 0; i < DT_COUNT(rules); i++)
        for (const char *word = rules[i].kinds; *word; word += strspn(word, " ")) {
            size_t len = strcspn(word, " ");
            if (len == n && strncmp(word, kind, n) == 0)
                return &rules[i];
            word += len;
        }
    return NULL;
}

bool dt_certrule_check(CertState *state, const CertOp *op, const CertValue *in)
{
    const Rule check = {.state = state, .op = op, .in = in}, *r = &check;
    const CertRule *rule = op->rule;
    const char *scratch[3][CERT_RANK];
    uint32_t n_gone, n_made, n_whole;
    if (!rule)
        return no(r, "no rule for this op");
    for (uint32_t i = 0; i < op->n_out; i++)
        if ((op->types[i]->split | op->types[i]->partial) & state->program->pipe)
            return no(r, "stages have parts of one value");
    if (op->n_in < rule->n_in || (op->n_in > rule->n_in && !rule->more) ||
        op->n_out < rule->n_out || !op->n_out)
        return no(r, "other operands or results than it has");
    state->values += op->n_out;
    if (rule->moves)
        return is_moved(r) && rule->own(r);
    const char *const *gone = dt_certrule_names(op, rule->gone, scratch[0], &n_gone),
                      *const *made = dt_certrule_names(op, rule->made, scratch[1], &n_made),
                      *const *must = dt_certrule_names(op, rule->whole, scratch[2], &n_whole);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!kept(r, i, gone, n_gone))
            return false;
    return (rule->made == N_ANY || grounded(r, made, n_made)) &&
           whole(r, must, n_whole, rule->strict) && complete(r, rule->complete) &&
           pending(r, gone, n_gone) && (!rule->own || rule->own(r));
}
