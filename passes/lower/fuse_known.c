/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that are complete before a product runs, such as the number of positions that a mask
 * leaves, for a loss that is a mean over them.
 *
 *     keep  = cast(labels != ignored)
 *     count = sum[batch, seq](keep)
 *     loss     = sum[batch, seq](xent(logits, labels) * keep)
 *     d_logits = (softmax(logits) - onehot(labels)) * keep / count
 *
 * The loss and its gradient can be one kernel, which reads the logits once, if no value between
 * them depends on that kernel: with a plain mean none does. Here the count must not. So it stays
 * in a kernel apart from ops that depend on products, though it could be summed along with the
 * loss; and the small maps that it is made of (keep) are copied for it if the loss reads them
 * too, since those are part of the loss's kernel.
 *
 * Neither a copy nor its original is ever written: a kernel recomputes only what no other kernel
 * has in memory. There is no copy if it would not share the kernel of its sum (it does if it is
 * no smaller and no larger than the summed value), or if others read the original (a piece of a
 * pipeline keeps it for weight gradients).
 *
 * requires     that ops have their numbers in the reference program (DtValue.final), as copies
 * do
 *
 * establishes  such a sum depends on no kernel that comes after a product */
#include "passes/lower/fuse_internal.h"

#include <string.h>

/* FEW: a small value has so many times fewer elements: maps than values that depend on products,
 * and a sum than its operands */
enum { FEW = 16,
       DEEP = 8 };

typedef struct Known {
    const DtFunc *func;
    bool *known;  /* by value id: computed from an entry's inputs by maps, sums and exchanges
                   * alone */
    bool *behind; /* by value id: an op that is not known reads it */
    bool *waited; /* by value id: a value that is not known depends on it */
    int64_t most; /* elements of the largest value that is not known */
} Known;

static int64_t elements(const Known *k, const DtValue *value)
{
    return dt_type_local_elements(value->type, &k->func->module->mesh);
}

static bool keeps_known(const DtOp *op)
{
    static const DtOpKind also[] = {DT_OP_EXPAND, DT_OP_RELABEL, DT_OP_SLICE, DT_OP_REDUCE};
    const DtOpClass class = dt_op_info[op->kind].op_class;
    bool does = class == DT_CLASS_SOURCE || class == DT_CLASS_MAP || class == DT_CLASS_COMM;
    for (uint32_t i = 0; i < DT_COUNT(also); i++)
        does = does || op->kind == also[i];
    return does && op->n_out == 1 && op->kind != DT_OP_RNG;
}

static void look(Known *k)
{
    const DtFunc *func = k->func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        bool is = keeps_known(op);
        for (uint32_t j = 0; j < op->n_in; j++)
            is = is && k->known[op->in[j]->id];
        for (uint32_t j = 0; j < op->n_in && !is; j++)
            k->behind[op->in[j]->id] = true;
        for (uint32_t r = 0; r < op->n_out; r++) {
            k->known[op->out[r]->id] = is;
            if (!is && elements(k, op->out[r]) > k->most)
                k->most = elements(k, op->out[r]);
        }
    }
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        bool waited = false;
        for (uint32_t r = 0; r < op->n_out; r++)
            waited = waited || !k->known[op->out[r]->id] || k->waited[op->out[r]->id];
        for (uint32_t j = 0; j < op->n_in && waited; j++)
            k->waited[op->in[j]->id] = true;
    }
}

static Known known_of(const DtFunc *func, DtArena *scratch)
{
    const uint32_t n = func->n_values + 1;
    Known k = {.func = func, .known = DT_NEW_ARRAY(scratch, bool, n),
               .behind = DT_NEW_ARRAY(scratch, bool, n), .waited = DT_NEW_ARRAY(scratch, bool, n)};
    look(&k);
    return k;
}

/* Whether op is a sum that is known before any product and on which a value after products depends.
 * The sum must have FEW times fewer elements than its operand, and that FEW times fewer than the
 * largest value after products. */
static bool is_sum(const Known *k, const DtOp *op)
{
    return op->kind == DT_OP_REDUCE && k->known[op->out[0]->id] && k->waited[op->out[0]->id] &&
           elements(k, op->out[0]) * FEW <= elements(k, op->in[0]) &&
           elements(k, op->in[0]) * FEW <= k->most;
}

/* Whether the value is a cheap elementwise function with the same axes as the operand that the sum
 * adds up. */
static bool is_map(const DtValue *value, const DtOp *sum)
{
    const DtType *type = sum->in[0]->type;
    bool is = value->op && dt_op_is_pointwise(value->op->kind) && !dt_op_is_dear(value->op->kind) &&
              !dt_op_is_inline(value) && value->type->rank == type->rank;
    for (uint32_t i = 0; is && i < type->rank; i++)
        is = dt_type_find(value->type, type->axes[i].name) >= 0;
    return is;
}

/* Whether an op that depends on products reads the value, or a value from which elementwise ops
 * compute it (at most `depth` of them in a row). */
static bool is_shared(const Known *k, const DtValue *value, const DtOp *sum, uint32_t depth)
{
    const bool map = is_map(value, sum) && depth > 0;
    bool is = map && k->behind[value->id];
    for (uint32_t i = 0; map && i < value->op->n_in; i++)
        is = is || is_shared(k, value->op->in[i], sum, depth - 1);
    return is;
}

static DtValue *copy_for_sum(DtBuilder *b, const Known *k, DtValue *value, const DtOp *sum,
                             uint32_t depth)
{
    if (!is_map(value, sum) || depth == 0)
        return value;
    const DtOp *op = value->op;
    DtValue **in = DT_NEW_ARRAY(k->func->module->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = copy_for_sum(b, k, op->in[i], sum, depth - 1);
    DtOp *copy = dt_graph_copy(b, op, in);
    copy->span = op->span, copy->path = op->path;
    return copy->out[0];
}

static bool is_copied(const Known *k, const DtOp *op)
{
    return is_sum(k, op) && is_shared(k, op->in[0], op, DEEP);
}

uint32_t dt_fuse_copy_known(DtFunc *func, DtArena *scratch, DtFuseCopied **ret_copied)
{
    const Known k = known_of(func, scratch);
    uint32_t n = 0, n_ops = func->ops.n;
    for (uint32_t i = 0; i < n_ops; i++)
        n += is_copied(&k, func->ops.at[i]);
    *ret_copied = DT_NEW_ARRAY(scratch, DtFuseCopied, n + 1);
    if (n == 0)
        return 0;
    DtOp *const *ops = func->ops.at;
    DtBuilder b = {.func = func};
    memset(&func->ops, 0, sizeof func->ops);
    n = 0;
    for (uint32_t i = 0; i < n_ops; i++) {
        DtOp *op = ops[i];
        if (is_copied(&k, op)) {
            DtValue **in = DT_NEW_ARRAY(func->module->arena, DtValue *, 1);
            (*ret_copied)[n++] = (DtFuseCopied){.sum = op, .in = op->in, .first = func->ops.n};
            in[0] = copy_for_sum(&b, &k, op->in[0], op, DEEP);
            op->in = in;
        }
        DT_PUSH(func->module->arena, func->ops, op);
    }
    dt_graph_renumber(func);
    return n;
}

/* Whether all readers of the op at the position are in its own group. */
static bool stays_inside(const DtFunc *func, uint32_t position, const uint32_t *group)
{
    const DtValue *value = func->ops.at[position]->out[0];
    bool does = true;
    for (uint32_t i = 0; i < func->results.n; i++)
        does = does && func->results.at[i] != value;
    for (uint32_t i = 0; i < func->ops.n && does; i++)
        for (uint32_t j = 0; j < func->ops.at[i]->n_in; j++)
            does = does && (func->ops.at[i]->in[j] != value || group[i] == group[position]);
    return does;
}

bool dt_fuse_keeps_copies(const DtFunc *func, const DtFuseCopied *copied, uint32_t n,
                          const uint32_t *group)
{
    bool does = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = copied[i].first;
        while (func->ops.at[at] != copied[i].sum)
            at++;
        for (uint32_t k = copied[i].first; k < at; k++) {
            const uint32_t number = func->ops.at[k]->out[0]->final;
            does = does && group[k] == group[at];
            for (uint32_t o = 0; o < func->ops.n && does; o++)
                does = func->ops.at[o]->n_out == 0 || func->ops.at[o]->out[0]->final != number ||
                       stays_inside(func, o, group);
        }
    }
    return does;
}

void dt_fuse_drop_copies(DtFunc *func, const DtFuseCopied *copied, uint32_t n)
{
    uint32_t kept = n ? copied[0].first : func->ops.n;
    for (uint32_t i = 0, at = kept; i < n; i++) {
        copied[i].sum->in = copied[i].in;
        while (at < copied[i].first)
            func->ops.at[kept++] = func->ops.at[at++];
        while (func->ops.at[at] != copied[i].sum)
            at++;
        if (i + 1 == n)
            while (at < func->ops.n)
                func->ops.at[kept++] = func->ops.at[at++];
    }
    func->ops.n = kept;
    dt_graph_renumber(func);
}

/* The kind of an op whose operands are known. A value computed from a known sum may be larger (the
 * weights of all positions, from their number); it then belongs to the ops that wait for the
 * sum. */
static DtFuseKnown made_of(const Known *k, const DtFusion *f, const DtFuseKnown *known,
                           const DtOp *op)
{
    DtFuseKnown is = is_sum(k, op) ? DT_FUSE_SUM_KNOWN : DT_FUSE_KNOWN;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint32_t position = f->position[op->in[i]->id];
        if (position == UINT32_MAX || known[position] == DT_FUSE_KNOWN)
            continue;
        if (known[position] == DT_FUSE_BEHIND || elements(k, op->out[0]) > elements(k, op->in[i]))
            return DT_FUSE_BEHIND;
        is = DT_FUSE_SUM_KNOWN;
    }
    return is;
}

/* Whether the op's result is read by sums that are known before any product, or by ops that only
 * serve these, and by nothing else. */
static bool is_for_sums(const DtFusion *f, const DtFuseKnown *known, const DtOp *op)
{
    const uint32_t id = op->out[0]->id;
    bool is = !f->is_result[id] && f->reader[id] < f->reader[id + 1];
    for (uint32_t r = f->reader[id]; r < f->reader[id + 1]; r++)
        is = is && known[f->readers[r]] == DT_FUSE_SUM_KNOWN;
    return is;
}

DtFuseKnown *dt_fuse_known(const DtFusion *f)
{
    const DtFunc *func = f->func;
    const Known k = known_of(func, f->arena);
    DtFuseKnown *known = DT_NEW_ARRAY(f->arena, DtFuseKnown, func->ops.n + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        known[i] =
            op->n_out && k.known[op->out[0]->id] ? made_of(&k, f, known, op) : DT_FUSE_BEHIND;
    }
    for (uint32_t i = func->ops.n; i-- > 0;)
        if (known[i] == DT_FUSE_KNOWN && is_for_sums(f, known, func->ops.at[i]))
            known[i] = DT_FUSE_SUM_KNOWN;
    return known;
}
