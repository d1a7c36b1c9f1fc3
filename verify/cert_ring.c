/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: `call[a](...) mesh={m n}`. Operands whose axis a is in blocks over all of the mesh
 * axes, where the function takes it whole, count as gathered. Results with axis a that are
 * pending over all of them in the function count as reduce-scattered into the same blocks, and
 * results that are equal on all of them as sliced into these. None of this changes a value's
 * meaning, so the function's nodes stay.
 *
 * That the travelling blocks really compute this is proved elsewhere: for the functions that
 * pass `expand` writes, by boxes (box.h). */
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

/* Whether exactly the ring's mesh axes split the axis. Then each of the ring's ranks has a block of
 * its own, in any order of these mesh axes. */
static bool is_block(const CertOp *op, const CertAxis *axis)
{
    const uint16_t bits = dt_cert_bits(axis);
    return bits != 0 && op->mesh == bits;
}

/* Returns the axis with the splits of the blocks in which operands travel; NULL: no operand has
 * such blocks, they disagree, or micro-batches would split the blocks. */
static const CertAxis *blocks_of(const CertState *state, const CertOp *op, const CertValue *in)
{
    const CertAxis *block = NULL;
    if (op->n_axes != 1 || (op->mesh & state->program->time))
        return NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertAxis *axis = ring_axis(op, in[i].type);
        if (is_block(op, axis) && block && !dt_cert_same_axis(axis, block))
            return NULL;
        block = is_block(op, axis) ? axis : block;
    }
    return block;
}

/* Returns the type with the ring's axis split as `like` is. */
static CertType with_axis(const CertOp *op, const CertType *type, const CertAxis *like)
{
    CertType copy = *type;
    copy.axes[ring_axis(op, type) - type->axes] = *like;
    return copy;
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

bool dt_certring_gives(const CertState *state, const CertOp *op, const CertValue *in,
                       const CertType *made, const CertType *have)
{
    const CertAxis *block = blocks_of(state, op, in), *axis = block ? ring_axis(op, made) : NULL;
    if (!block)
        return false;
    const bool alike = axis && !axis->n && !((made->partial | made->split) & op->mesh);
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
