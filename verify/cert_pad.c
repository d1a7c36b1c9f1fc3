/* SPDX-License-Identifier: Apache-2.0 */
/* Padding: what values of the final program contain beyond the extent that the serial program
 * gives an axis.
 *
 * Values mean their logical elements; nodes have logical extents only. So an op that works
 * elementwise along a padded axis computes what the serial op does, whatever the padding
 * contains. An op that reduces the axis must find the identity of the reduction in the padding.
 * An op that moves elements along it is refused, unless it cuts padding off or adds some. The
 * contents of padding are tracked per value: zero, a positive number, the lowest or highest
 * number, or anything. A selection by `position < extent` equals its operand on logical
 * elements. */
#include "verify/internal.h"

#include <math.h>

static CertFill fill_of_number(const char *dtype, double number)
{
    double least = dtype[0] == 'i' ? (double)INT32_MIN : (double)-INFINITY,
           most = dtype[0] == 'i' ? (double)INT32_MAX : (double)INFINITY;
    return number == 0       ? CERT_ZERO
           : number == least ? CERT_LOWEST
           : number == most  ? CERT_HIGHEST
                             : CERT_ANYTHING;
}

static bool named(const CertType *type, const char *const *names, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < n; i++) {
        const CertAxis *axis = dt_certtext_axis(type, names[i]);
        if (axis && axis->padded == k + 1)
            return true;
    }
    return false;
}

/* Returns what x contributes in the padding along padded axis number k of the program: what its own
 * padding contains or, if it is one number without that axis, that number. */
static CertFill operand(const CertValue *x, uint32_t k)
{
    double number;
    if (dt_certpack_is(x->node) || (x->type->padded >> k & 1))
        return x->fill[k];
    return dt_certnode_number(x->node, &number) ? fill_of_number(x->type->dtype, number)
                                                : CERT_ANYTHING;
}

/* Whether a value is padded along padded axis number k; for a bucket: whether some member is. */
static bool has_padding(const CertState *state, const CertValue *x, uint32_t k)
{
    bool has = x->type->padded >> k & 1;
    for (uint32_t i = 1; dt_certpack_is(x->node) && i < x->node->n_in; i += 2) {
        const CertShape *shape = x->node->in[i]->shape;
        has = has || !shape ||
              dt_certnode_extent(shape, state->program->padded[k].name) ==
                  state->program->padded[k].logical;
    }
    return has;
}

bool dt_certpad_is_zero(const CertState *state, const CertValue *x)
{
    for (uint32_t k = 0; k < state->program->n_padded; k++)
        if (has_padding(state, x, k) && x->fill[k] != CERT_ZERO)
            return false;
    return true;
}

/* Whether op is `position along padded axis k < n`; then *ret_n becomes n. */
static bool position_below(const CertState *state, const CertOp *op, const CertValue *in,
                           uint32_t k, double *ret_n)
{
    const CertShape *shape = in[0].node->shape;
    return dt_cert_is(in[0].node->kind, "iota") && shape->rank == 1 &&
           shape->axes[0] == state->program->padded[k].name && dt_cert_is(op->kind, "lt") &&
           (in[0].type->padded >> k & 1) && dt_certnode_number(in[1].node, ret_n);
}

/* The padding of a lookup or of a sum by index. An index in the padding may be out of range, and
 * then reads 0 or adds nothing. So the padding of the result is only known to be zero if that of
 * the indexed tensor is. */
static CertFill lookup(const CertOp *op, const CertValue *x, uint32_t k)
{
    const bool names =
        named(x->type, op->axes, op->n_axes, k) || named(x->type, op->axes2, op->n_axes2, k);
    const bool zero = names ? dt_certnode_is_zero(x->node) : operand(x, k) == CERT_ZERO;
    return zero ? CERT_ZERO : CERT_ANYTHING;
}

static CertFill fill(CertState *state, const CertOp *op, const CertValue *in, uint32_t k)
{
    bool zero = op->number == 0; /* outside of the operand `pad` and `window` give the fill */
    double n;
    switch (op->rule->pads) {
    case F_ANY: break;
    case F_SAME: return operand(&in[0], k);
    case F_LOOKUP: return lookup(op, &in[0], k);
    case F_WHERE:
        if (operand(&in[0], k) == CERT_ZERO)
            return operand(&in[2], k);
        return operand(&in[1], k) == operand(&in[2], k) ? operand(&in[1], k) : CERT_ANYTHING;
    case F_AND:
        zero = operand(&in[0], k) == CERT_ZERO || operand(&in[1], k) == CERT_ZERO;
        return zero ? CERT_ZERO : CERT_ANYTHING;
    case F_LESS:
        zero = k < state->program->n_padded && position_below(state, op, in, k, &n) &&
               n <= (double)state->program->padded[k].logical;
        return zero ? CERT_ZERO : CERT_ANYTHING;
    case F_ZERO:
        for (uint32_t i = 0; i < op->n_in; i++)
            zero = zero && operand(&in[i], k) == CERT_ZERO;
        return zero ? CERT_ZERO : CERT_ANYTHING;
    case F_SUM: /* zero plus a number above zero is above zero */
        if (operand(&in[0], k) == CERT_ZERO && operand(&in[1], k) == CERT_ZERO)
            return CERT_ZERO;
        for (uint32_t i = 0; i < 2; i++)
            if (operand(&in[i], k) == CERT_ZERO && dt_certnode_number(in[1 - i].node, &n) &&
                n > 0 && isfinite(n))
                return CERT_POSITIVE;
        return CERT_ANYTHING;
    case F_QUOTIENT:
        zero = operand(&in[0], k) == CERT_ZERO && (operand(&in[1], k) == CERT_POSITIVE ||
                                                   (k >= CERT_REST && !dt_certpack_is(in[1].node)));
        return zero ? CERT_ZERO : CERT_ANYTHING;
    case F_PRODUCT: /* zero times a finite number is zero */
        for (uint32_t i = 0; i < op->n_in; i++) {
            bool has = dt_certpack_is(in[i].node) || (in[i].type->padded >> k & 1);
            bool factor = in[i].type->rank == 0 || k >= CERT_REST || dt_cert_is(op->kind, "dot");
            zero = zero && (has || !factor ? operand(&in[i], k) == CERT_ZERO
                                           : dt_certpad_is_zero(state, &in[i]));
        }
        return zero ? CERT_ZERO : CERT_ANYTHING;
    }
    return CERT_ANYTHING;
}

void dt_certpad_fill(CertState *state, const CertOp *op, const CertValue *in, CertValue *ret_value)
{
    bool sum = dt_cert_is(op->kind, "all_reduce") || dt_cert_is(op->kind, "reduce_scatter");
    const bool bucket = dt_certpack_is(ret_value->node);
    if (!bucket && !ret_value->type->padded)
        return;
    for (uint32_t k = 0; k < CERT_FILLS; k++) {
        if (!(ret_value->type->padded >> k & 1) &&
            !(bucket && (k < state->program->n_padded || k >= CERT_REST)))
            continue;
        CertFill f = fill(state, op, in, k);
        /* the sum of a number that one rank has */
        if (sum && f != CERT_ZERO && dt_cert_is(op->reduce, "sum"))
            f = CERT_ANYTHING;
        if (dt_cert_is(op->kind, "pad") && !(in[0].type->padded >> k & 1))
            f = fill_of_number(ret_value->type->dtype, op->number);
        ret_value->fill[k] = (uint8_t)f;
    }
    for (uint32_t i = 0; bucket && i < op->n_in; i++) {
        /* both operands belong to stores of one path */
        if (ret_value->rest && in[i].rest && in[i].rest != ret_value->rest)
            ret_value->fill[CERT_REST] = CERT_ANYTHING;
        ret_value->rest = in[i].rest ? in[i].rest : ret_value->rest;
    }
}

/* Whether a slice or pad changes an axis only by removing or adding exactly its padding. */
static bool whole_logical(const CertOp *op, const CertType *from, const CertType *to)
{
    if (op->shifts || (!dt_cert_is(op->kind, "slice") && !dt_cert_is(op->kind, "pad")))
        return false;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const CertAxis *x = dt_certtext_axis(from, op->axes[i]),
                       *y = dt_certtext_axis(to, op->axes[i]);
        if (!x || !y || x->logical != y->logical)
            return false;
    }
    return true;
}

static bool is_true(const CertNode *x)
{
    double n;
    if (x->n_in == 1 && (dt_cert_is(x->kind, "expand") || dt_cert_is(x->kind, "relabel")))
        return is_true(x->in[0]);
    if (dt_cert_is(x->kind, "and"))
        return is_true(x->in[0]) && is_true(x->in[1]);
    return dt_cert_is(x->kind, "lt") && dt_cert_is(x->in[0]->kind, "iota") &&
           dt_certnode_number(x->in[1], &n) && n >= (double)x->in[0]->shape->extents[0];
}

CertNode *dt_certpad_selected(const CertOp *op, CertNode *const *in, uint32_t rank)
{
    const bool selects =
        dt_cert_is(op->kind, "where") && in[0]->shape && in[1]->shape && in[1]->shape->rank == rank;
    return selects && is_true(in[0]) ? in[1] : NULL;
}

CertNode *dt_certpad_identity(const CertOp *op, const CertValue *in)
{
    if (dt_cert_is(op->kind, "where") && in[1].type->rank == op->types[0]->rank &&
        is_true(in[0].node))
        return in[1].node;
    if (op->n_in == 1 && op->n_axes && whole_logical(op, in[0].type, op->types[0]))
        return in[0].node;
    return NULL;
}

static bool no(CertState *state, const CertOp *op, uint32_t k, const char *why)
{
    return dt_cert_fail(state, op, "`%s`: the padding of `%s` %s", op->kind,
                            state->program->padded[k].name, why);
}

/* Checks that operands which are reduced along padded axis k have the identity of the reduction (0,
 * the lowest or the highest number) there. Reports a problem if not. */
static bool reduces_rightly(CertState *state, const CertOp *op, const CertValue *in, uint32_t k)
{
    CertFill want = dt_cert_is(op->reduce, "max")   ? CERT_LOWEST
                    : dt_cert_is(op->reduce, "min") ? CERT_HIGHEST
                                                    : CERT_ZERO;
    uint32_t n, n_looks = dt_cert_is(op->kind, "dot") ? 2 : 1;
    const char *const *names = dt_certrule_names(op, op->rule->gone, NULL, &n);
    for (uint32_t i = 0; i < n_looks; i++)
        if (named(in[i].type, names, n, k) && in[i].fill[k] != want)
            return no(state, op, k, "does not hold the identity of what is reduced");
    return true;
}

static bool moves(const CertOp *op, const CertValue *in, uint32_t k)
{
    const CertNames columns[] = {op->rule->gone, op->rule->whole, op->rule->made};
    for (size_t c = 0; c < DT_COUNT(columns); c++) {
        const char *scratch[CERT_RANK];
        uint32_t n;
        const char *const *names = dt_certrule_names(op, columns[c], scratch, &n);
        for (uint32_t i = 0; i <= op->n_in; i++)
            if (named(i < op->n_in ? in[i].type : op->types[0], names, n, k))
                return !whole_logical(op, in[0].type, op->types[0]);
    }
    return false;
}

bool dt_certpad_check(CertState *state, const CertOp *op, const CertValue *in)
{
    CertNames gone = op->rule->gone;
    bool reduces = !op->rule->whole && (gone == N_AXES || gone == N_AXES2);
    bool divides = dt_cert_is(op->kind, "floordiv") || dt_cert_is(op->kind, "mod");
    for (uint32_t k = 0; k < state->program->n_padded; k++) {
        if (reduces ? !reduces_rightly(state, op, in, k) : moves(op, in, k))
            return no(state, op, k, "is moved");
        if (divides && op->types[0]->dtype[0] == 'i' && (op->types[0]->padded >> k & 1))
            return no(state, op, k, "is divided by");
    }
    return true;
}
