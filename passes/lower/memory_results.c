/* SPDX-License-Identifier: Apache-2.0 */
/* Copies results to their places, if the ops that compute them do not write them there. The copies
 * are at the end, in an order in which no copy overwrites a value that a later one reads.
 *
 *     body(%i, %x, %y)                     body(%i, %x, %y)
 *       %1 = fused(%x, %y)                   %2 = copy(%x)
 *       return %1, %x, %x                    %1 = fused(%x, %y)
 *                                            %3 = copy(%x)
 *                                            %4 = copy(%1) over(%4=%x)
 *                                            %5 = copy(%3) over(%5=%y)
 *                                            return %4, %5, %2
 *
 * The third result is stacked: an input is copied before all ops, so that a carried value may
 * overwrite it. Carried values and stores are copied last, since other results may be the old
 * contents of their places. If a carried value or store is the old content of another's place, or
 * of its own in another order of axes, it is copied to a temporary before any is written. */
#include "passes/lower/memory.h"

/* Whether a result, at whose place the value `old` is (a carried value or a store), is that value
 * unchanged: views lead back to `old` with the same strides and offset. Then nothing has to be
 * copied. */
static bool stays(const DtMemory *m, const DtValue *value, const DtValue *old)
{
    const DtMesh *mesh = &m->func->module->mesh;
    const DtOp *chain[DT_MAX_RANK];
    uint32_t n = 0;
    const DtValue *root = value;
    for (; root != old && root->op && dt_op_viewed(root) != root; root = root->op->in[0]) {
        if (n == DT_MAX_RANK || root->op->kind == DT_OP_SHARD || root->op->kind == DT_OP_AT ||
            root->op->copies)
            return false;
        chain[n++] = root->op;
    }
    if (root != old)
        return false;
    DtView view = dt_memory_view(m, root);
    const DtView now = view;
    while (n > 0)
        if (!dt_view_through(chain[--n], mesh, &view))
            return false;
    return view.offset == now.offset && dt_view_same_strides(&view, &now);
}

bool dt_memory_lands(const DtMemory *m, const DtValue *value)
{
    const DtMemoryWish *wish = &m->wish[value->id];
    const DtOp *op = value->op;
    if (wish->part || !op || dt_op_is_inline(value) || !dt_memory_is_direct(m, value))
        return false;
    if (op->kind == DT_OP_DONE && op->in[0]->op && op->in[0]->op->kind == DT_OP_LOOP)
        return op->in[0]->index >= op->in[0]->op->loop->n_carried;
    switch (op->kind) {
    case DT_OP_PARAM:
    case DT_OP_INPUT:
    case DT_OP_AT:
    case DT_OP_WHEN:
    case DT_OP_RINGBUF_GET: return false;
    case DT_OP_PACK: return op->holds;
    case DT_OP_LOOP: return value->index >= op->loop->n_carried;
    case DT_OP_DONE: return op->in[0]->op && op->in[0]->op->starts;
    case DT_OP_CONCAT: return !op->holds || !wish->adds;
    case DT_OP_RELABEL: return op->copies || (op->holds && op->holds[0]);
    default: return dt_op_info[op->kind].data != DT_DATA_VIEW || op->n_in != 1 || op->copies;
    }
}

const DtOp *dt_memory_late(const DtValue *result)
{
    const DtOp *op = result->op;
    if (op && op->kind == DT_OP_DONE)
        op = op->in[0]->op;
    return op && op->late ? op : NULL;
}

static DtValue *copy_of(DtMemory *m, DtValue *value, DtValue *over)
{
    const DtOp *made = dt_op_made(value)->op;
    DtBuilder b = {.func = m->func, .span = m->func->span};
    if (made)
        b.span = made->span, b.path = made->path;
    DtValue *copy = dt_graph_copied(&b, value);
    copy->over = over;
    m->changed = true;
    return copy;
}

/* The value whose place result i overwrites; NULL: there is none. */
static DtValue *old_of(const DtMemory *m, uint32_t i)
{
    const DtEntryPoint *entry = m->call->entry;
    if (m->call->loop && i >= m->call->loop->n_carried)
        return m->call->slots[i] ? m->func->inputs.at[m->call->slots[i]] : NULL;
    if (m->call->loop)
        return m->func->inputs.at[1 + i];
    return entry && !entry->results.at[i].accumulate
               ? dt_memory_param(m->func, entry->results.at[i].store)
               : NULL;
}

static bool is_overwritten(const DtMemory *m, DtValue *const *old, const bool *copied,
                           const DtValue *value)
{
    const DtValue *root = dt_op_viewed(value);
    for (uint32_t i = 0; i < m->func->results.n; i++)
        if (copied[i] && old[i] == root)
            return true;
    return false;
}

/* Inserts a copy of result i at position `at` of the function (after prefetches, before all other
 * ops), and makes the copy the result. */
static void copy_first(DtMemory *m, uint32_t i, uint32_t at)
{
    m->func->results.at[i] = copy_of(m, m->func->results.at[i], NULL);
    DtOp **ops = m->func->ops.at, *copy = ops[m->func->ops.n - 1];
    for (uint32_t k = m->func->ops.n - 1; k > at; k--)
        ops[k] = ops[k - 1];
    ops[at] = copy;
}

static uint32_t first_op(const DtFunc *func)
{
    uint32_t n = 0;
    while (n < func->ops.n && dt_memory_is_ahead(func->ops.at[n]->kind))
        n++;
    return n;
}

void dt_memory_results(DtMemory *m)
{
    const uint32_t n = m->func->results.n;
    DtValue **results = m->func->results.at, **old = DT_NEW_ARRAY(m->arena, DtValue *, n + 1);
    bool *copied = DT_NEW_ARRAY(m->arena, bool, n + 1),
         *seen = DT_NEW_ARRAY(m->arena, bool, m->func->n_values + 1);
    uint32_t first = first_op(m->func);
    for (uint32_t i = 0; i < n && !m->call->leaves; i++) {
        const DtValue *value = results[i];
        old[i] = old_of(m, i);
        copied[i] = !dt_type_is_ringbuf(value->type) && !dt_memory_late(value) &&
                    !dt_graph_is_slotted(m->func, value) && !(old[i] && stays(m, value, old[i])) &&
                    (seen[value->id] || !dt_memory_lands(m, value));
        seen[value->id] = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (copied[i] && dt_memory_is_early(m->call->loop, results[i], i)) {
            copy_first(m, i, first++);
            copied[i] = false;
        }
    for (uint32_t i = 0; i < n; i++)
        if (copied[i] && old[i] && is_overwritten(m, old, copied, results[i]))
            results[i] = copy_of(m, results[i], NULL);
    for (int overwrites = 0; overwrites < 2; overwrites++)
        for (uint32_t i = 0; i < n; i++)
            if (copied[i] && (old[i] != NULL) == overwrites)
                results[i] = copy_of(m, results[i], old[i]);
}
