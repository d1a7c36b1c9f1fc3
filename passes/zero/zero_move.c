/* SPDX-License-Identifier: Apache-2.0 */
/* Changes the placement of a bucket: gathers, slices or reduce-scatters it. */
#include "passes/zero/zero_internal.h"

#include <string.h>

static DtValue *comm(DtBuilder *b, DtOpKind kind, DtValue *x, uint16_t mesh, const uint8_t *split,
                     uint32_t n_split, const char *why)
{
    DtAxis axes[DT_MAX_RANK];
    const DtType *type = x->type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    DtAxis *flat = &axes[type->rank - 1];
    flat->n_split = (uint8_t)n_split;
    memset(flat->split, 0, sizeof flat->split);
    memcpy(flat->split, split, n_split);
    uint16_t partial =
        kind == DT_OP_REDUCE_SCATTER ? (uint16_t)(type->partial & ~mesh) : type->partial;
    DtValue *y = dt_graph_comm(b, kind, x, mesh,
                               dt_type_make(type->dtype, type->rank, axes, partial, DT_REDUCE_SUM));
    y->op->text = why;
    y->op->gradients = kind == DT_OP_REDUCE_SCATTER; /* a bucket has no other pending sums */
    return y;
}

/* Mesh axes from..i may go in one collective: Their numbers must ascend, so that the group's ranks
 * are in the order of blocks, and a sum must be pending over all of them or none. */
static bool joins(const DtBucket *bucket, const DtType *type, uint32_t from, uint32_t i)
{
    return i - from < DT_ZERO_AT_ONCE && bucket->mesh[i] > bucket->mesh[i - 1] &&
           (type->partial >> bucket->mesh[i] & 1) == (type->partial >> bucket->mesh[from] & 1);
}

static uint16_t bits_of(const DtBucket *bucket, uint32_t from, uint32_t to)
{
    uint16_t bits = 0;
    for (uint32_t i = from; i < to; i++)
        bits |= (uint16_t)(1u << bucket->mesh[i]);
    return bits;
}

DtValue *dt_zero_move(DtBuilder *b, const DtBucket *bucket, DtValue *x, uint32_t from, uint32_t to,
                      const char *why)
{
    while (from < to) {
        uint32_t end = from + 1;
        while (end < to && joins(bucket, x->type, from, end))
            end++;
        bool sums = x->type->partial >> bucket->mesh[from] & 1;
        x = comm(b, sums ? DT_OP_REDUCE_SCATTER : DT_OP_SHARD, x, bits_of(bucket, from, end),
                 bucket->mesh, end, why);
        from = end;
    }
    while (from > to) {
        uint32_t first = from - 1;
        while (first > to && from - first < DT_ZERO_AT_ONCE &&
               bucket->mesh[first - 1] < bucket->mesh[first])
            first--;
        x = comm(b, DT_OP_ALL_GATHER, x, bits_of(bucket, first, from), bucket->mesh, first, why);
        from = first;
    }
    return x;
}

DtValue *dt_zero_complete(DtBuilder *b, DtValue *x, uint16_t mesh, const char *why)
{
    const DtType *type = x->type;
    mesh &= type->partial;
    if (!mesh)
        return x;
    const DtType *whole = dt_type_make(type->dtype, type->rank, type->axes,
                                       (uint16_t)(type->partial & ~mesh), (DtReduce)type->pending);
    DtValue *sum = dt_graph_comm(b, DT_OP_ALL_REDUCE, x, mesh, whole);
    sum->op->reduce = (DtReduce)type->pending;
    sum->op->text = why;
    sum->op->gradients = type->rank > 0; /* a scalar is a term of the norm */
    sum->name = x->name;
    return sum;
}
