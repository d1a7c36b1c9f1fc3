/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of attention in a library's layout: [batch, heads, rows, head] with one stride each. The
 * axes that queries and keys share are divided into two lists, batch and heads. The axes of a list
 * are merged into one axis, if the strides of all tensors allow it. Axes that keys lack are query
 * heads that share a head of keys; they are the last ones of the heads. */
#include "codegen/cuda/cuda.h"

typedef struct Lists {
    /* batch first, then heads of keys, then heads that share these */
    uint32_t axis[DT_MAX_RANK], n, n_batch, n_kv;
} Lists;

static bool varies(const DtKernel *k, uint32_t axis)
{
    return axis < k->attend->queries && k->extent[axis] > 1;
}

static int64_t count(const DtKernel *k, const Lists *lists, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t i = from; i < to; i++)
        n *= k->extent[lists->axis[i]];
    return n;
}

/* Fills the lists of axes; false: K and V do not lack the same axes. */
static bool list_axes(const DtKernel *k, const DtKRows *keys, const DtKRows *values,
                      Lists *ret_lists)
{
    *ret_lists = (Lists){.n = 0};
    for (int shared = 0; shared < 2; shared++) {
        for (uint32_t a = 0; a < k->attend->queries; a++) {
            const bool of_keys = keys->stride[a] != 0;
            if (varies(k, a) && of_keys != (values->stride[a] != 0))
                return false;
            if (varies(k, a) && of_keys == !shared)
                ret_lists->axis[ret_lists->n++] = a;
        }
        if (!shared)
            ret_lists->n_kv = ret_lists->n;
    }
    return true;
}

/* Finds the single stride with which axes from .. to - 1 can be merged; false: there is none. none:
 * the stride to give if there are no such axes. */
static bool join(const DtKernel *k, const DtKRows *rows, const Lists *lists, uint32_t from,
                 uint32_t to, int64_t none, int64_t *ret_stride)
{
    int64_t next = 0; /* the stride that the axis outside of the last one must have */
    *ret_stride = none;
    for (uint32_t i = to; i-- > from;) {
        const uint32_t axis = lists->axis[i];
        if (i + 1 == to)
            *ret_stride = rows->stride[axis];
        else if (rows->stride[axis] != next)
            return false;
        next = k->extent[axis] * rows->stride[axis];
    }
    return true;
}

enum { EACH = 8 }; /* elements in 16 bytes: libraries require addresses to be multiples of that */

static bool lay_part(const DtKernel *k, const DtCudaPart *part, const Lists *lists, uint32_t number,
                     DtPlanSdpa *s)
{
    const uint32_t rows = part->of_keys ? k->attend->keys : k->attend->queries;
    s->pointer[number] = (int32_t)part->rows.pointer;
    s->offset[number] = part->rows.offset;
    s->of_row[number] = part->rows.stride[rows];
    const int64_t all = k->extent[rows] * part->rows.stride[rows];
    if (!join(k, &part->rows, lists, lists->n_batch, part->of_kv ? lists->n_kv : lists->n, all,
              &s->of_head[number]) ||
        !join(k, &part->rows, lists, 0, lists->n_batch, all * s->heads, &s->of_batch[number]))
        return false;
    const int64_t places[] = {s->offset[number], s->of_row[number], s->of_head[number],
                              s->of_batch[number]};
    for (size_t i = 0; i < sizeof places / sizeof places[0] && part->rows.depth; i++)
        if (places[i] % EACH)
            return false;
    return !part->rows.depth || (part->rows.along == 1 && part->rows.depth == s->head);
}

bool dt_cuda_lay(const DtKernel *kernel, const DtCudaPart parts[DT_SDPA_PARTS],
                 DtPlanSdpa *ret_sdpa)
{
    DtPlanSdpa *s = ret_sdpa;
    Lists lists;
    if (!list_axes(kernel, &parts[DT_SDPA_K].rows, &parts[DT_SDPA_V].rows, &lists))
        return false;
    s->queries = kernel->extent[kernel->attend->queries];
    s->keys = kernel->extent[kernel->attend->keys];
    s->head = parts[DT_SDPA_Q].rows.depth;
    for (lists.n_batch = 0; lists.n_batch <= lists.n_kv; lists.n_batch++) {
        bool good = true;
        s->batch = count(kernel, &lists, 0, lists.n_batch);
        s->heads = count(kernel, &lists, lists.n_batch, lists.n);
        s->kv_heads = count(kernel, &lists, lists.n_batch, lists.n_kv);
        for (uint32_t p = 0; p < DT_SDPA_PARTS && good; p++) {
            s->pointer[p] = -1;
            s->offset[p] = s->of_batch[p] = s->of_head[p] = s->of_row[p] = 0;
            good = !parts[p].is_there || lay_part(kernel, &parts[p], &lists, p, s);
        }
        if (good)
            return true;
    }
    return false;
}
