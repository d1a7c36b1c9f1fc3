/* SPDX-License-Identifier: Apache-2.0 */
/* Does not save values that the backward part can recompute from other saved values at no cost.
 * In silu(g) * u the derivative of silu evaluates exp(g), so silu(g), which the gradient of u
 * reads, need not be saved in addition to g.
 *
 *   forward   %e = exp(%g) ; %s = div(%g, add(1, %e)) ; %y = mul(%s, %u)     hands over g, u, s
 *   backward  %e' = exp(%g) ; ..; %du = mul(%dy, %s)                         recomputes s from g
 *
 * No cost means: the value is made by a few arithmetic maps, or by expensive ones (exp, tanh)
 * that the backward body evaluates on the same operands anyway; only kernels read it there, so
 * it need not be in memory; and its operands have no more bytes than the value itself, so no
 * kernel reads more, even one that did not read them before. Copies of an op that end up in one
 * kernel become one op there (pass `fuse`). One function alone cannot decide that (saved.c): the
 * function whose derivative has the exponential, the reader of its result, and the maker of its
 * argument are three. */
#include "passes/grad/remat.h"

#include <string.h>

enum { FEW = 16 }; /* times fewer elements than the value has: a gain, a bias */

typedef struct Made {
    const DtRematChoice *choice;
    const DtLoop *loop;
    bool *in_backward; /* by value id of the forward body: whether the backward body computes it
                        * too */
    bool *seen;  /* values whose bytes are counted already */
    double bytes;
    const DtValue *of; /* the value that would be recomputed */
} Made;

static double bytes_of(const DtValue *value)
{
    return (double)dt_type_elements(value->type) * (double)dt_dtype_size(value->type->dtype);
}

/* ---- values that the backward body computes ---- */

/* Returns the op of body that computes the same as op would from the operands `in`; NULL if there
 * is none. */
static const DtOp *find_same(const DtFunc *body, const DtOp *op, const DtValue *const *in)
{
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtOp *there = body->ops.at[i];
        bool same = there->kind == op->kind && there->n_in == op->n_in;
        for (uint32_t k = 0; same && k < op->n_in; k++)
            same = there->in[k] == in[k];
        if (same && dt_cse_same(there, op))
            return there;
    }
    return NULL;
}

static void find_in_backward(Made *m, const DtFunc *body, const DtFunc *backward,
                             const DtValue **same)
{
    const DtValue **in = DT_NEW_ARRAY(body->module->arena, const DtValue *, backward->n_values + 1);
    for (uint32_t i = 0; i < backward->ops.n; i++) {
        const DtOp *op = backward->ops.at[i];
        bool known = op->n_out == 1 && dt_op_is_cheap(op->kind);
        for (uint32_t k = 0; known && k < op->n_in; k++)
            known = (in[k] = same[op->in[k]->id]) != NULL;
        const DtOp *there = known ? find_same(body, op, in) : NULL;
        if (!there)
            continue;
        same[op->out[0]->id] = there->out[0];
        m->in_backward[there->out[0]->id] = true;
    }
}

/* ---- operands of a value ---- */

/* Whether the backward body has the value in memory. */
static bool is_there(const Made *m, const DtValue *value)
{
    while (value->op && dt_op_info[value->op->kind].data == DT_DATA_VIEW && value->op->n_in == 1 &&
           !m->choice->kept[value->id])
        value = value->op->in[0];
    if (value->op)
        return m->choice->kept[value->id];
    return value->index == 0 || value->index > m->loop->n_carried || m->choice->is_saved[value->id];
}

/* Whether maps at no cost compute the value from values in memory; adds the bytes of these to the
 * count. */
static bool is_made(Made *m, const DtValue *value)
{
    if (m->seen[value->id])
        return true;
    m->seen[value->id] = true;
    if (value != m->of && is_there(m, value)) {
        if (dt_type_elements(value->type) * FEW > dt_type_elements(m->of->type))
            m->bytes += bytes_of(value);
        return true;
    }
    const DtOp *op = value->op;
    if (op && (op->kind == DT_OP_CONST || op->kind == DT_OP_IOTA))
        return true;
    bool is = op && dt_op_is_pointwise(op->kind) && dt_op_is_cheap(op->kind) &&
              (!dt_op_is_dear(op->kind) || m->in_backward[value->id]);
    for (uint32_t i = 0; is && i < op->n_in; i++)
        is = is_made(m, op->in[i]);
    return is;
}

bool dt_remat_drop_made(const DtFunc *body, const DtLoop *loop, const DtFunc *backward,
                        const bool *is_needed, const DtValue **same, DtRematChoice *choice)
{
    DtArena *arena = body->module->arena;
    Made made = {.choice = choice, .loop = loop}, *m = &made;
    bool some = false;
    m->in_backward = DT_NEW_ARRAY(arena, bool, body->n_values + 1);
    m->seen = DT_NEW_ARRAY(arena, bool, body->n_values + 1);
    find_in_backward(m, body, backward, same);
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtValue *value = body->ops.at[i]->out[0];
        if (!choice->kept[value->id] || !choice->is_saved[value->id] || is_needed[value->id])
            continue;
        m->of = value;
        m->bytes = 0;
        memset(m->seen, 0, body->n_values * sizeof *m->seen);
        if (!is_made(m, value) || m->bytes > bytes_of(value))
            continue;
        choice->kept[value->id] = false;
        some = true;
    }
    return some;
}
