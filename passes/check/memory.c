/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks hold between entries: the initial values of stores, cut into parts, and the way back
 * from parts (of buckets, of stages) to the tensors of the serial program. */
#include "passes/check/internal.h"

#include "ir/interp_eval.h"
#include "ir/pipeline.h"

#include <string.h>

/* ---- values of the ranks ---- */

/* Whether the rank's pipeline stage has the store; stores of no stage are on all ranks. */
static bool holds(const DtJudge *j, const DtStore *store, uint32_t rank)
{
    const DtPipelineSchedule *pipeline = j->of->placed->pipeline;
    return !pipeline || store->stage < 0 ||
           dt_ranks_coordinate(j->mesh, rank, pipeline->mesh) == store->stage;
}

static DtTensor **slices(DtJudge *j, const DtTensor *whole, const DtStore *store)
{
    DtTensor **parts = DT_NEW_ARRAY(j->arena, DtTensor *, j->n);
    for (uint32_t rank = 0; rank < j->n; rank++)
        if (holds(j, store, rank))
            parts[rank] = dt_ranks_slice(j->arena, whole, store->type, j->mesh, rank);
    return parts;
}

/* Makes a tensor of `type` with the elements whose coordinates tensor has too, and zeros
 * elsewhere. */
static DtTensor *resized(DtJudge *j, const DtTensor *tensor, const DtType *type)
{
    DtTensor *made = dt_interp_tensor(j->arena, type);
    for (int64_t i = 0; i < dt_type_elements(type); i++) {
        int64_t rest = i, from = 0, stride = 1;
        bool inside = true;
        for (uint32_t a = type->rank; a-- > 0;) {
            int64_t at = rest % type->axes[a].extent, extent = tensor->type->axes[a].extent;
            rest /= type->axes[a].extent;
            inside = inside && at < extent;
            from += at * stride;
            stride *= extent;
        }
        made->at[i] = inside ? tensor->at[from] : 0;
    }
    return made;
}

static DtTensor *initial(DtJudge *j, const DtStore *store)
{
    DtStore logical = *store;
    logical.type = dt_module_logical_type(j->of->placed, store->type);
    DtTensor *tensor = dt_interp_tensor(j->arena, logical.type);
    dt_judge_initial(&logical, j->seed, 0, tensor);
    dt_judge_round(j, tensor);
    return logical.type == store->type ? tensor : resized(j, tensor, store->type);
}

/* Makes a `pack` op of the bucket, or an `unpack` of one store, with just the attributes and types
 * that the interpreter needs to run it. */
static DtOp bucket_op(DtJudge *j, DtOpKind kind, const DtType *bucket, int64_t offset)
{
    DtOp op = {.kind = kind,
               .number = (double)offset,
               .axes = DT_NEW_ARRAY(j->arena, const char *, DT_MAX_RANK)};
    while (op.n_axes < bucket->rank && bucket->axes[op.n_axes].name[0] != '@') {
        op.axes[op.n_axes] = bucket->axes[op.n_axes].name;
        op.n_axes++;
    }
    return op;
}

static DtTensor *run_bucket_op(DtJudge *j, DtOp *op, DtTensor *const *in, const DtType *type)
{
    const DtFunc func = {.module = (DtModule *)(uintptr_t)j->of->placed, .name = "bucket"};
    DtInterp interp = {.arena = j->arena, .func = &func};
    DtValue *values = DT_NEW_ARRAY(j->arena, DtValue, op->n_in + 1), *out = &values[op->n_in];
    op->in = DT_NEW_ARRAY(j->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++) {
        values[i].type = in[i]->type;
        op->in[i] = &values[i];
    }
    out->type = type;
    op->out = &out;
    op->n_out = 1;
    DtTensor *made;
    dt_interp_op(&interp, op, in, &made);
    return made;
}

/* Returns the contents of a bucket at the start: the initial values of the stores in it, packed. */
static DtTensor *initial_bucket(DtJudge *j, const DtStore *bucket)
{
    const DtModule *module = j->of->placed;
    DtOp op = bucket_op(j, DT_OP_PACK, bucket->type, 0);
    DtTensor **in = DT_NEW_ARRAY(j->arena, DtTensor *, module->stores.n);
    int64_t *offset = DT_NEW_ARRAY(j->arena, int64_t, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->bucket != bucket)
            continue;
        uint32_t at = op.n_in++; /* in order of offsets */
        for (; at > 0 && offset[at - 1] > store->bucket_offset; at--) {
            offset[at] = offset[at - 1];
            in[at] = in[at - 1];
        }
        offset[at] = store->bucket_offset;
        in[at] = initial(j, store);
    }
    return op.n_in ? run_bucket_op(j, &op, in, bucket->type) : NULL;
}

static bool is_remembered(DtStoreKind kind)
{
    return kind == DT_STORE_PARAM || kind == DT_STORE_STATE ||
           (kind >= DT_STORE_MOMENT1 && kind <= DT_STORE_MOMENT4) || kind == DT_STORE_MASTER ||
           kind == DT_STORE_AVERAGE;
}

DtTensor **dt_judge_parts(DtJudge *j, const DtTensor *serial, const DtStore *placed)
{
    const DtType *logical = dt_module_logical_type(j->of->placed, placed->type);
    return slices(j, logical == placed->type ? serial : resized(j, serial, placed->type), placed);
}

void dt_judge_begin(DtJudge *j)
{
    const DtModule *serial = j->of->serial, *placed = j->of->placed;
    j->serial = DT_NEW_ARRAY(j->arena, DtTensor *, serial->stores.n + 1);
    j->before = DT_NEW_ARRAY(j->arena, DtTensor *, serial->stores.n + 1);
    j->parts = DT_NEW_ARRAY(j->arena, DtTensor **, placed->stores.n + 1);
    j->slots = DT_NEW_ARRAY(j->arena, DtSlot *, placed->stores.n + 1);
    j->rings = DT_NEW_ARRAY(j->arena, DtTensor **, placed->stores.n + 1);
    for (uint32_t i = 0; i < serial->stores.n; i++)
        if (is_remembered(serial->stores.at[i]->kind))
            j->serial[i] = initial(j, serial->stores.at[i]);
    for (uint32_t i = 0; i < placed->stores.n; i++) {
        const DtStore *store = placed->stores.at[i];
        if (!is_remembered(store->kind) || store->bucket)
            continue;
        DtTensor *whole = initial_bucket(j, store);
        j->parts[i] = slices(j, whole ? whole : initial(j, store), store);
    }
}

/* ---- as one tensor ---- */

/* Joins the ranks' parts of one placed store to one tensor, with its padding; NULL if the store was
 * never written. */
static DtTensor *joined_padded(DtJudge *j, const DtStore *store)
{
    const DtStore *holder = store->bucket ? store->bucket : store;
    if (!j->parts[holder->index])
        return NULL;
    DtTensor *whole = dt_ranks_join(j->arena, j->parts[holder->index], holder->type, j->mesh);
    if (holder == store)
        return whole;
    DtOp op = bucket_op(j, DT_OP_UNPACK, holder->type, store->bucket_offset);
    op.n_in = 1;
    return run_bucket_op(j, &op, &whole, store->type);
}

static DtTensor *joined(DtJudge *j, const DtStore *store)
{
    DtTensor *whole = joined_padded(j, store);
    const DtType *logical = dt_module_logical_type(j->of->placed, store->type);
    return whole && logical != store->type ? resized(j, whole, logical) : whole;
}

/* Whether the placed type has the axes of the serial one; the leading axis may be a range. */
static bool fits(const DtType *placed, const DtType *serial, const DtStore *store)
{
    bool same = placed->rank == serial->rank;
    for (uint32_t i = 0; same && i < serial->rank; i++) {
        int64_t extent = i == 0 && store->whole ? store->whole : placed->axes[i].extent;
        same = placed->axes[i].name == serial->axes[i].name && extent == serial->axes[i].extent;
    }
    return same;
}

/* Copies one stage's iterations into the whole tensor; seen: elements that were copied before. */
static bool add_range(DtJudge *j, const DtStore *store, const DtTensor *part, DtTensor *whole,
                      bool *seen)
{
    int64_t n = dt_type_elements(part->type);
    int64_t first = store->first ? store->first * (n / part->type->axes[0].extent) : 0;
    for (int64_t i = 0; i < n; i++) {
        double *to = &whole->at[first + i];
        if (!seen[first + i] || store->kind == DT_STORE_GRAD)
            *to += part->at[i];
        else if (!dt_ranks_equal(*to, part->at[i]))
            return dt_judge_problem(
                j, "stages hold different copies of `%s`: %.17g, and %.17g on stage %d",
                store->path, *to, part->at[i], store->stage);
        seen[first + i] = true;
    }
    return true;
}

DtTensor *dt_judge_whole(DtJudge *j, const DtStore *serial, const DtStore **ret_placed)
{
    DtTensor *whole = dt_interp_tensor(j->arena, serial->type);
    int64_t n = dt_type_elements(serial->type);
    bool *seen = DT_NEW_ARRAY(j->arena, bool, n);
    *ret_placed = NULL;
    for (uint32_t i = 0; i < j->of->placed->stores.n; i++) {
        const DtStore *store = j->of->placed->stores.at[i];
        if (store->kind != serial->kind || strcmp(store->path, serial->path) != 0)
            continue;
        DtTensor *part = joined(j, store);
        if (!part)
            continue;
        *ret_placed = store;
        if (!fits(part->type, serial->type, store)) {
            dt_judge_problem(j, "`%s` has other axes than in the serial program%s", store->path,
                             dt_judge_line(j, store->span));
            return NULL;
        }
        if (!add_range(j, store, part, whole, seen))
            return NULL;
    }
    if (!*ret_placed && serial->kind == DT_STORE_GRAD)
        return whole; /* a gradient of zeros: pieces of a pipeline do not store it */
    for (int64_t i = 0; i < n; i++)
        if (!seen[i]) {
            dt_judge_problem(j, "no rank holds element %lld of `%s`%s", (long long)i, serial->path,
                             dt_judge_line(j, serial->span));
            return NULL;
        }
    return whole;
}
