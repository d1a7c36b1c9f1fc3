/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that cross ranks in another dtype than their own (`crossing` of the text): cast to it, summed over ranks,
 * cast back. No step of the serial program is like that, so such a cast is none but of a gradient: what the serial
 * program leaves as one, what it adds up to one, and terms of these. That an exchange is marked so is not enough. */
#include "verify/internal.h"

#include "base/intern.h"

static const char rounded_kind[] = "rounded", crossed_kind[] = "summed over ranks";

/* ---- gradients of the serial program ---- */

/* Whether an operand of a gradient is one: sums, what iterations leave, other names. */
static bool hands_on(const CertNode *x)
{
    return x->kind == dt_certkind_stack || x->kind == dt_certkind_at || x->kind == dt_certkind_total ||
           dt_cert_is(x->kind, "add") || dt_cert_is(x->kind, "relabel");
}

void dt_certcross_note(CertState *state, CertNode *gradient)
{
    DT_VEC(CertNode *) left = {0};
    DT_PUSH(state->arena, left, gradient);
    while (left.n) {
        CertNode *x = left.at[--left.n];
        CertNote *note = dt_certstep_note(state, x);
        if (note->gradient)
            continue;
        note->gradient = true;
        if (note->loop) { /* carried: the iterations add to it */
            DT_PUSH(state->arena, left, note->loop->from[note->carried]);
            DT_PUSH(state->arena, left, note->loop->made[note->carried]);
        }
        for (uint32_t i = 0; i < x->n_in; i++)
            if (hands_on(x))
                DT_PUSH(state->arena, left, x->in[i]);
            else if (dt_certstep_is_linear(x, i)) /* its terms */
                dt_certstep_note(state, dt_certsum_without(state, x, i))->gradient = true;
    }
}

/* ---- in the final program ---- */

static bool is_gradient(CertState *state, const CertNode *x)
{
    bool all = true;
    x = x->to ? x->to : x;
    if ((x->note && x->note->gradient) || dt_certstep_is_zero(x))
        return true;
    if (x->kind == dt_certkind_term || x->kind == dt_certkind_lacks || x->kind == dt_certkind_at ||
        x->kind == dt_certkind_total || dt_cert_is(x->kind, "relabel"))
        return is_gradient(state, x->in[0]); /* of a term: the op without that operand */
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

CertNode *dt_certcross_cast(CertState *state, const CertShape *shape, CertNode *x)
{
    const char *crossing = state->program->whole->crossing;
    if (!crossing || !dt_cert_is(crossing, shape->dtype) || !dt_cert_is_float(x->shape->dtype) ||
        dt_certstep_is_zero(x))
        return NULL;
    return dt_certnode_of(state->nodes, rounded_kind, dt_intern(""), shape, x);
}

CertNode *dt_certcross_moved(CertState *state, const CertOp *op, CertNode *x, int64_t total)
{
    const bool stored = total && dt_cert_is(state->program->stores.at[total - 1].kind, "grad"),
               crosses = x->kind == rounded_kind && strstr(op->attributes, " gradients") &&
                         (stored || is_gradient(state, x->in[0]));
    return crosses ? dt_certnode_of(state->nodes, crossed_kind, "", x->shape, x) : x;
}

CertNode *dt_certcross_back(CertState *state, const CertShape *shape, CertNode *x)
{
    if (x->kind == crossed_kind && x->in[0]->in[0]->shape == shape)
        return x->in[0]->in[0];
    if (!dt_certsum_is(x))
        return NULL;
    CertNode **terms = DT_NEW_ARRAY(state->arena, CertNode *, x->n_in);
    for (uint32_t i = 0; i < x->n_in; i++)
        if (!(terms[i] = dt_certcross_back(state, shape, x->in[i])))
            return NULL;
    return dt_certpack_sum(state, shape, x->n_in, terms);
}
