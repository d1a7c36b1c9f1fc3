/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: buckets (ir/shape_pack.c). A bucket of split tensors has one row per rank of the
 * mesh axes that split them, and a row holds that rank's local elements; so the meaning on one rank
 * already depends on the splits in the types. */
#include "ir/interp_eval.h"
#include "ir/interp_ranks.h"
#include "ir/shape.h"

/* The elements of one rank's part of a tensor, in the order in which a bucket holds them. */
typedef struct Order {
    const DtType *type;
    const DtMesh *mesh;
    uint32_t rank;
    DtWalk kept, rest; /* over the places of the kept axes; over the part's other axes */
} Order;

/* Returns the rank that row number `row` of a bucket belongs to: its coordinates on the mesh axes
 * that split type's axes after the kept ones are `row`, row-major, and 0 on other mesh axes. */
static uint32_t rank_of(const DtType *type, uint32_t kept, const DtMesh *mesh, int64_t row)
{
    uint16_t bits = 0;
    uint32_t rank = 0;
    for (uint32_t i = kept; i < type->rank; i++)
        bits |= dt_shape_split_bits(&type->axes[i]);
    for (uint32_t m = mesh->n; m-- > 0;) {
        if (!(bits >> m & 1))
            continue;
        rank = dt_ranks_move(mesh, rank, m, row % mesh->axes[m].size);
        row /= mesh->axes[m].size;
    }
    return rank;
}

static Order order_of(const DtInterp *interp, const DtOp *op, const DtType *type, int64_t row)
{
    Order o = {.type = type, .mesh = &interp->func->module->mesh};
    o.rank = rank_of(type, op->n_axes, o.mesh, row);
    for (uint32_t i = 0; i < type->rank; i++)
        dt_walk_add_axis(i < op->n_axes ? &o.kept : &o.rest, type->axes[i].name,
                         i < op->n_axes ? type->axes[i].extent
                                        : dt_type_local_extent(type, i, o.mesh));
    return o;
}

/* Returns the index, in the whole tensor, of the element at the present place. */
static int64_t index_of(const Order *o)
{
    int64_t index = 0;
    for (uint32_t i = 0; i < o->type->rank; i++) {
        const DtAxis *axis = &o->type->axes[i];
        const bool is_kept = i < o->kept.rank;
        index = index * axis->extent +
                (is_kept ? o->kept.at[i]
                         : dt_ranks_global(axis, o->mesh, o->rank, o->rest.at[i - o->kept.rank]));
    }
    return index;
}

/* Copies a tensor's elements into the bucket from `offset` on (packs), or from there into the
 * tensor. */
static void move(const DtInterp *interp, const DtOp *op, DtTensor *bucket, DtTensor *tensor,
                 int64_t offset, bool packs)
{
    const DtType *type = bucket->type;
    int64_t extent = type->axes[type->rank - 1].extent;
    int64_t rows = type->rank > op->n_axes + 1 ? type->axes[op->n_axes].extent : 1;
    for (int64_t row = 0; row < rows; row++) {
        Order o = order_of(interp, op, tensor->type, row);
        int64_t place = 0;
        do {
            double *at = bucket->at + (place * rows + row) * extent + offset;
            do {
                double *element = &tensor->at[index_of(&o)];
                *(packs ? at : element) = *(packs ? element : at);
                at++;
            } while (dt_walk_next(&o.rest));
            place++;
        } while (dt_walk_next(&o.kept));
    }
}

void dt_eval_pack(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        int64_t n = 1;
        for (uint32_t k = op->n_axes; k < in[i]->type->rank; k++)
            n *= dt_type_local_extent(in[i]->type, k, &interp->func->module->mesh);
        move(interp, op, out[0], in[i], offset, true);
        offset += n;
    }
}

void dt_eval_unpack(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    move(interp, op, in[0], out[0], (int64_t)op->number, false);
}
