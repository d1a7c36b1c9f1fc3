/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: `call[a](...) mesh={m n}`. Operands that have axis a in blocks over all of the mesh axes, where the
 * function takes it whole, count as gathered; results that have a and are pending over all of them in the
 * function count as reduced and scattered into the same blocks, and those that are alike on all of them as cut into
 * these. None of it changes what a value is, so the function's nodes stand.
 *
 * That the blocks which travel add up to this (pass `expand`, behind what is read here) is one of
 * the rules that the certificate takes as given: the merge of a streaming softmax. The interpreter
 * of all ranks evaluates the merge, step by step, against the serial program. */
#include "verify/internal.h"

bool dt_certring_is(const CertOp *op)
{
    return dt_cert_is(op->kind, "call") && (op->n_axes || op->mesh);
}

static bool same(const CertType *a, const CertType *b)
{
    return dt_certrule_same(a, 0, a->partial, b);
}

static const CertAxis *ring_axis(const CertOp *op, const CertType *type)
{
    return dt_certtext_axis(type, op->axes[0]);
}

/* Whether the ring's mesh axes, all of them and no others, split the axis: then each of the ring's ranks has a block of
 * its own, in whatever order these count. */
static bool is_block(const CertOp *op, const CertAxis *axis)
{
    uint16_t bits = 0;
    for (uint32_t s = 0; axis && s < axis->n; s++)
        bits |= (uint16_t)(1u << axis->split[s]);
    return bits != 0 && op->mesh == bits;
}

static bool same_blocks(const CertAxis *a, const CertAxis *b)
{
    return a->extent == b->extent && a->zigzag == b->zigzag && a->n == b->n &&
           memcmp(a->split, b->split, a->n * sizeof a->split[0]) == 0;
}

/* How the blocks lie; NULL: there are none, or they lie in several ways, or would meet over time. */
static const CertAxis *blocks_of(const CertState *state, const CertOp *op, const CertValue *in)
{
    const CertAxis *block = NULL;
    if (op->n_axes != 1 || (op->mesh & state->program->time))
        return NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertAxis *axis = ring_axis(op, in[i].type);
        if (is_block(op, axis) && block && !same_blocks(axis, block))
            return NULL;
        block = is_block(op, axis) ? axis : block;
    }
    return block;
}

/* type with the ring's axis lying as in `like`. */
static CertType with_axis(const CertOp *op, const CertType *type, const CertAxis *like)
{
    CertType copy = *type;
    copy.axes[ring_axis(op, type) - type->axes] = *like;
    return copy;
}

/* The mesh axes that split a value or over which it is pending. */
static uint16_t bits_of(const CertType *type)
{
    uint16_t bits = type->partial;
    for (uint32_t d = 0; d < type->rank; d++)
        for (uint32_t s = 0; s < type->axes[d].n; s++)
            bits |= (uint16_t)(1u << type->axes[d].split[s]);
    return bits;
}

static bool takes(const CertOp *op, const CertType *have, const CertType *want)
{
    const CertAxis *block = ring_axis(op, have), *whole = ring_axis(op, want);
    if (!is_block(op, block) || !whole || whole->n)
        return false;
    CertType gathered = with_axis(op, have, whole);
    return !have->partial && block->extent == whole->extent && same(&gathered, want);
}

const CertValue *dt_certring_args(CertState *state, const CertOp *op, const CertFunc *func,
                                  const CertValue *in)
{
    CertValue *args = DT_NEW_ARRAY(state->arena, CertValue, op->n_in + 1);
    const bool travel = blocks_of(state, op, in) != NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        args[i] = in[i];
        if (travel && takes(op, in[i].type, func->args.at[i]))
            args[i].type = func->args.at[i];
    }
    return args;
}

bool dt_certring_gives(const CertState *state, const CertOp *op, const CertValue *in, const CertType *made,
                       const CertType *have)
{
    const CertAxis *block = blocks_of(state, op, in), *axis = block ? ring_axis(op, made) : NULL;
    if (!block)
        return false;
    const bool alike = axis && !axis->n && !(bits_of(made) & op->mesh);
    if (!axis || ((made->partial & op->mesh) != op->mesh && !alike))
        return same(made, have);
    if (axis->n || axis->extent != block->extent || (!alike && !dt_cert_is(made->pending, "sum")))
        return false;
    CertType home = with_axis(op, made, block);
    home.partial &= (uint16_t)~op->mesh;
    if (!home.partial)
        home.pending = NULL;
    return same(&home, have);
}
