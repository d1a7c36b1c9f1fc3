/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: `unpack` is a view. Ops write the operands of a `pack` directly to their place in the
 * bucket; only values for which that is not possible (they have another reader, or are in memory
 * already) are copied there. Stores are zero between members; the rest of a temporary bucket, or
 * of one in a ring buffer, is zeroed. */
#include "codegen/emit.h"

static int64_t length_of(const DtEmit *e, const DtType *type, uint32_t kept)
{
    int64_t n = 1;
    for (uint32_t i = kept; i < type->rank; i++)
        n *= dt_type_local_extent(type, i, &e->module->mesh);
    return n;
}

/* Handles each operand of a pack. Without `wish` it is copied to its part of the bucket, unless it
 * is there already; with `wish` that part becomes the place where its op shall write it. */
static void each_part(DtEmit *e, const DtOp *op, const DtPlace *bucket, bool accumulate, bool wish)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtWanted **wanted = &e->scope->wanted[op->in[i]->id];
        DtWanted *part = DT_NEW(e->scratch, DtWanted);
        *part =
            (DtWanted){.set = true,
                       .accumulate = accumulate,
                       .packed = true,
                       .place = dt_place_in_bucket(e, bucket, op->in[i]->type, op->n_axes, offset)};
        const DtPlace *at = wish ? NULL : dt_place_find(e, op->in[i]);
        bool done = at && dt_place_same(at, &part->place) && !*wanted;
        if (wish && op->holds[i])
            *wanted = part;
        else if (!wish && !done)
            dt_copy_value(e, op->in[i], &part->place, accumulate);
        offset += length_of(e, op->in[i]->type, op->n_axes);
    }
}

/* Called before a function is emitted: gives each bucket that holds its parts in place an address,
 * and each part its address in the bucket as the place where it is wanted. */
void dt_bucket_claim(DtEmit *e)
{
    const DtFunc *func = e->scope->func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind != DT_OP_PACK || !op->holds)
            continue;
        const DtWanted *wanted = e->scope->wanted[op->out[0]->id];
        bool direct =
            wanted && !wanted->old && (!wanted->accumulate || dt_scope_reads(e, op->out[0]) == 0);
        DtPlace bucket = direct ? wanted->place : dt_place_own(e, op->out[0]);
        dt_place_set(e, op->out[0], bucket);
        each_part(e, op, &bucket, direct && wanted->accumulate, true);
    }
}

static void zero_rest(DtEmit *e, const DtOp *op, const DtPlace *bucket)
{
    int64_t used = 0, extent = bucket->view.extent[bucket->view.rank - 1];
    for (uint32_t i = 0; i < op->n_in; i++)
        used += length_of(e, op->in[i]->type, op->n_axes);
    if (used == extent)
        return;
    DtPlace rest = *bucket;
    rest.view.offset += used;
    rest.view.extent[rest.view.rank - 1] = extent - used;
    dt_inst_zero(e, &rest);
}

void dt_bucket_pack(DtEmit *e, const DtOp *op)
{
    DtValue *out = op->out[0];
    const DtWanted *wanted = e->scope->wanted[out->id];
    DtPlace *claimed = dt_place_find(e, out);
    if (!claimed) {
        DtPlace bucket = dt_place_own(e, out);
        dt_inst_zero(e, &bucket);
        each_part(e, op, &bucket, false, false);
        dt_place_set(e, out, bucket);
        return;
    }
    DtPlace bucket = *claimed;
    bool direct = wanted && dt_place_same(&bucket, &wanted->place);
    each_part(e, op, &bucket, direct && wanted->accumulate, false);
    if (direct)
        e->scope->wanted[out->id] = NULL;
    if (!e->buffers.at[bucket.view.buffer].fixed || bucket.reg[DT_PLAN_REG_RINGBUF])
        zero_rest(e, op, &bucket);
}
