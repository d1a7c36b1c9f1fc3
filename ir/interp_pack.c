/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: buckets (ir/shape_pack.c). A bucket of split tensors has one row per rank of the mesh axes
 * that split them, and a row holds that rank's local elements; so the meaning on one rank already depends
 * on the splits in the types. */
#include "ir/interp_eval.h"

/* The elements of a tensor in the order in which a bucket holds them. */
typedef struct Order {
    const DtType *type;
    const DtMesh *mesh;
    uint32_t n_kept;
    int64_t row;                 /* which rank of the mesh axes that split type */
    int64_t base[DT_MAX_RANK];   /* of the rank's part on each axis */
    int64_t local[DT_MAX_RANK], at[DT_MAX_RANK];
} Order;

static int64_t coordinate(const Order *o, uint8_t mesh_axis)
{
    uint16_t bits = 0;
    int64_t row = o->row, found = 0;
    for (uint32_t i = 0; i < o->type->rank; i++)
        for (uint32_t s = 0; s < o->type->axes[i].n_split; s++)
            bits |= (uint16_t)(1u << o->type->axes[i].split[s]);
    for (int m = DT_MAX_MESH - 1; m >= 0; m--) {
        if (!(bits >> m & 1))
            continue;
        if (m == mesh_axis)
            found = row % o->mesh->axes[m].size;
        row /= o->mesh->axes[m].size;
    }
    return found;
}

static Order order_of(const DtInterp *interp, const DtOp *op, const DtType *type, int64_t row)
{
    Order o = {.type = type, .mesh = &interp->func->module->mesh, .n_kept = op->n_axes, .row = row};
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t block = 0;
        for (uint32_t s = 0; s < type->axes[i].n_split; s++)
            block = block * o.mesh->axes[type->axes[i].split[s]].size + coordinate(&o, type->axes[i].split[s]);
        if (type->axes[i].n_split && type->axes[i].zigzag)
            dt_interp_fail(interp, op, "a bucket of tensors split in zigzag order");
        o.local[i] = dt_type_local_extent(type, i, o.mesh);
        o.base[i] = block * o.local[i];
    }
    return o;
}

/* Index in the whole tensor of where we are. */
static int64_t index_of(const Order *o)
{
    int64_t index = 0;
    for (uint32_t i = 0; i < o->type->rank; i++)
        index = index * o->type->axes[i].extent + o->base[i] + o->at[i];
    return index;
}

/* The next element behind the kept axes; false after the last. */
static bool next_element(Order *o)
{
    for (uint32_t i = o->type->rank; i-- > o->n_kept;) {
        if (++o->at[i] < o->local[i])
            return true;
        o->at[i] = 0;
    }
    return false;
}

static bool next_kept(Order *o)
{
    for (uint32_t i = o->n_kept; i-- > 0;) {
        if (++o->at[i] < o->local[i])
            return true;
        o->at[i] = 0;
    }
    return false;
}

/* Copies between tensor and the bucket's elements from `offset` on, in one direction. */
static void move(const DtInterp *interp, const DtOp *op, DtTensor *bucket, DtTensor *tensor, int64_t offset, bool packs)
{
    const DtType *type = bucket->type;
    int64_t extent = type->axes[type->rank - 1].extent, place = 0;
    int64_t rows = type->rank > op->n_axes + 1 ? type->axes[op->n_axes].extent : 1;
    for (int64_t row = 0; row < rows; row++) {
        Order o = order_of(interp, op, tensor->type, row);
        place = 0;
        do {
            double *at = bucket->at + (place * rows + row) * extent + offset;
            do {
                double *element = &tensor->at[index_of(&o)];
                *(packs ? at : element) = *(packs ? element : at);
                at++;
            } while (next_element(&o));
            place++;
        } while (next_kept(&o));
    }
}

void dt_eval_pack(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        int64_t n = dt_type_local_elements(in[i]->type, &interp->func->module->mesh);
        for (uint32_t k = 0; k < op->n_axes; k++)
            n /= in[i]->type->axes[k].extent;
        move(interp, op, out[0], in[i], offset, true);
        offset += n;
    }
}

void dt_eval_unpack(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    move(interp, op, in[0], out[0], (int64_t)op->number, false);
}
