/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of the certificate by steps. An op on a bucket is an op of each member, and that is the serial op of what
 * the members mean: found among those that use them. */
#include "verify/step.h"

#include "base/intern.h"

/* The axes that a reduction of all of a member is over, as attributes say it. */
static const char *all_axes(const CertShape *shape)
{
    DtText text = {0};
    dt_text_add(&text, "");
    for (uint32_t a = 0; a < shape->rank; a++)
        dt_text_printf(&text, " [%s]", shape->axes[a]);
    const char *axes = dt_intern_n(text.at, text.len);
    dt_text_free(&text);
    return axes;
}

/* A reduction of the whole bucket: the sum of the members' reductions. Padding must be zero. */
static bool reduce(CertState *state, const CertOp *op, const CertValue *in, CertValue *out)
{
    const CertNode *bucket = in[0].node;
    const uint32_t n = bucket->n_in / 2;
    CertNode **terms = DT_NEW_ARRAY(state->arena, CertNode *, n);
    const CertShape *shape = dt_certnode_shape(state->nodes, op->types[0], NULL);
    const CertAxis *loop = in[0].loop ? dt_certtext_axis(in[0].type, in[0].loop) : NULL;
    if (op->n_axes != in[0].type->rank || !dt_cert_is(op->reduce, "sum"))
        return dt_certfunc_fail(state, op, "a bucket is reduced over some of its axes only");
    for (uint32_t i = 0; i < n; i++) {
        CertNode *member = bucket->in[2 * i + 1];
        const bool zero = dt_step_is_zero(member);
        if (!(zero || dt_cert_is(member->kind, "mul")) || !dt_certpad_is_zero(state, &in[0]))
            return dt_certfunc_fail(state, op, "a bucket is reduced whose padding may be other than 0");
        terms[i] = zero ? dt_certnode_zeros(state->nodes, shape, member)
                        : dt_certnode_make(state->nodes,
                                           (CertNode){.kind = op->kind, .attributes = all_axes(member->shape),
                                                      .shape = shape, .n_in = 1, .in = &member,
                                                      .lo = loop ? in[0].first : 0,
                                                      .hi = loop ? in[0].first + loop->extent : 0});
        const StepNote *note = member->note;
        for (uint32_t k = 0; !zero && note && k < note->users.n; k++) {
            CertNode *s = note->users.at[k];
            if (s->kind == op->kind && s->attributes == terms[i]->attributes && s->lo == terms[i]->lo &&
                s->hi == terms[i]->hi && s->shape == shape)
                terms[i] = s;
        }
    }
    out->node = dt_step_sum(state, shape, n, terms);
    return true;
}

bool dt_step_pack(CertState *state, const CertOp *op, const CertValue *in, uint32_t index, CertValue *out)
{
    const CertNode *first = NULL;
    if (dt_cert_is(op->kind, "reduce"))
        return reduce(state, op, in, out);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertNode *node = dt_certpack_is(in[i].node) ? in[i].node : NULL;
        bool same = !node || !first || node->n_in == first->n_in;
        for (uint32_t k = 0; node && first && same && k < node->n_in; k += 2)
            same = node->in[k] == first->in[k];
        if (!same || (!node && in[i].type->rank))
            return dt_certfunc_fail(state, op, "`%s` of a bucket and something else", op->kind);
        first = node ? node : first;
    }
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, first->n_in),
             **parts = DT_NEW_ARRAY(state->arena, CertNode *, op->n_in);
    for (uint32_t k = 1; k < first->n_in; k += 2) {
        for (uint32_t i = 0; i < op->n_in; i++)
            parts[i] = dt_certpack_is(in[i].node) ? in[i].node->in[k] : in[i].node;
        const CertShape *shape = dt_certnode_cast_shape(state->nodes, first->in[k]->shape, op->types[index]->dtype);
        shape = dt_certnode_closed(state->nodes, shape, op->types[index], out->loop);
        if (!out->loop)
            shape = dt_certrange_all(state, shape);
        nodes[k - 1] = first->in[k - 1];
        nodes[k] = op->rule->moves ? dt_step_moved(state, op, parts[0])
                                   : dt_step_member(state, op, shape, parts, index);
    }
    out->node = dt_certnode_make(state->nodes, (CertNode){.kind = dt_certkind_tuple, .attributes = "",
                                                          .n_in = first->n_in, .in = nodes});
    return true;
}

typedef struct Moved {
    CertState *state;
    const CertOp *op;
} Moved;

static CertNode *moved(void *data, CertNode *member)
{
    const Moved *m = data;
    return dt_step_moved(m->state, m->op, member);
}

CertNode *dt_step_moved_all(CertState *state, const CertOp *op, CertNode *x)
{
    Moved data = {state, op};
    return dt_certpack_each(state, x, moved, &data);
}

CertNode *dt_step_sum(CertState *state, const CertShape *shape, uint32_t n, CertNode *const *in)
{
    if (!dt_certpack_is(in[0])) {
        CertNode *only = NULL;
        uint32_t left = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!dt_step_is_zero(in[i])) {
                only = in[i];
                left++;
            }
        if (left < 2)
            return only ? only : in[0];
        return dt_step_node(state, (CertNode){.kind = dt_intern("add"), .attributes = dt_stepkind_sum,
                                              .shape = shape, .n_in = n, .in = in});
    }
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, in[0]->n_in),
             **terms = DT_NEW_ARRAY(state->arena, CertNode *, n);
    for (uint32_t k = 0; k < in[0]->n_in; k++) {
        for (uint32_t i = 0; i < n; i++) {
            if (!dt_certpack_is(in[i]) || in[i]->n_in != in[0]->n_in || (k % 2 == 0 && in[i]->in[k] != in[0]->in[k]))
                return NULL;
            terms[i] = in[i]->in[k];
        }
        nodes[k] = k % 2 ? dt_step_sum(state, terms[0]->shape, n, terms) : in[0]->in[k];
    }
    return dt_certnode_make(state->nodes, (CertNode){.kind = dt_certkind_tuple, .attributes = "", .n_in = in[0]->n_in,
                                                     .in = nodes});
}

bool dt_step_same(CertState *state, CertNode *have, CertNode *want)
{
    return dt_step_equal(state, have, want, NULL);
}
