/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of structure (call, fused, loop) and communication. */
#include "ir/shape.h"

#include "base/pairs.h"

#include <math.h>
#include <string.h>

static const char *op_name(const DtShape *s) { return dt_op_info[s->op->kind].text; }

static bool same(DtShape *s, const char *what, uint32_t i, const DtType *got, const DtType *wanted)
{
    if (got == wanted)
        return true;
    return dt_shape_fail(s, "%s %u of `%s` is %s, not %s", what, i, op_name(s),
                         dt_shape_text(s, got), dt_shape_text(s, wanted));
}

/* Whether `longer` is split as `shorter` is and then by minor mesh axes, whose bits are added to
 * *bits. */
static bool extends(const DtAxis *longer, const DtAxis *shorter, uint16_t *bits)
{
    if (longer->name != shorter->name || longer->extent != shorter->extent ||
        longer->n_split < shorter->n_split ||
        memcmp(longer->split, shorter->split, shorter->n_split) != 0)
        return false;
    if (shorter->n_split && longer->zigzag != shorter->zigzag)
        return false;
    for (uint32_t i = shorter->n_split; i < longer->n_split; i++)
        *bits |= (uint16_t)(1u << longer->split[i]);
    return true;
}

/* Collects in *lost the mesh axes that split x but not y, and in *gained those that split y but not
 * x. False if anything else differs. */
static bool compare_splits(const DtType *x, const DtType *y, uint16_t *lost, uint16_t *gained)
{
    if (x->rank != y->rank || x->dtype != y->dtype)
        return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (!extends(&x->axes[i], &y->axes[i], lost) && !extends(&y->axes[i], &x->axes[i], gained))
            return false;
    }
    return true;
}

/* Whether an operand of a ring call travels: its blocks of the ring's axis lie on the ring's ranks,
 * in any order of their mesh axes, and the function takes them as one. */
static bool travels(const DtShape *s, const DtType *x, const DtType *wanted)
{
    uint16_t lost = 0, gained = 0;
    int t = dt_type_find(x, s->op->axes[0]);
    return t >= 0 && !x->partial && !wanted->partial && compare_splits(x, wanted, &lost, &gained) &&
           lost == s->op->mesh && gained == 0 && dt_shape_split_bits(&x->axes[t]) == s->op->mesh;
}

/* Checks a result that has the ring's axis. If its sum is pending over all of the ring, it comes
 * back complete, in the blocks of travelling operands. If all ranks of the ring have it, each keeps
 * its block. */
static const DtType *home(const DtShape *s, const DtType *type, const DtAxis *block)
{
    int t = dt_type_find(type, block->name);
    uint16_t used = type->partial;
    for (uint32_t d = 0; d < type->rank; d++)
        used |= dt_shape_split_bits(&type->axes[d]);
    const bool alike = !(used & s->op->mesh) && t >= 0 && !type->axes[t].n_split;
    if (t < 0 || ((type->partial & s->op->mesh) != s->op->mesh && !alike))
        return type;
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[t] = *block;
    return dt_type_make(type->dtype, type->rank, axes, type->partial & (uint16_t)~s->op->mesh,
                        (DtReduce)type->pending);
}

static bool ring_call(DtShape *s)
{
    const DtFunc *func = s->op->func;
    const DtAxis *block = NULL;
    uint16_t mesh = s->op->mesh;
    if (s->op->n_axes != 1 || mesh == 0 || (s->mesh && mesh >> s->mesh->n))
        return dt_shape_fail(s, "a ring has one axis, and mesh axes that exist");
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        const DtType *x = s->op->in[i]->type, *wanted = func->inputs.at[i]->type;
        if (x == wanted)
            continue;
        if (!travels(s, x, wanted))
            return same(s, "operand", i, x, wanted);
        const DtAxis *axis = &x->axes[dt_type_find(x, s->op->axes[0])];
        if (block && !dt_type_same_axis(axis, block))
            return dt_shape_fail(s, "operands of a ring travel in different blocks");
        block = axis;
    }
    if (!block)
        return dt_shape_fail(s, "no operand of a ring travels");
    for (uint32_t i = 0; i < func->results.n; i++)
        s->out[i] = home(s, func->results.at[i]->type, block);
    return true;
}

/* Results: those of func. Operands are its inputs, type for type; those of a ring call may travel
 * (passes/place/ring.h). */
bool dt_shape_call(DtShape *s)
{
    const DtFunc *func = s->op->func;
    if (!func)
        return dt_shape_fail(s, "`%s` names no function", op_name(s));
    if (s->op->n_in != func->inputs.n)
        return dt_shape_fail(s, "`%s` passes %u operands to `%s`, which takes %u", op_name(s),
                             s->op->n_in, func->name, func->inputs.n);
    if ((s->op->kind == DT_OP_FUSED) != (func->kind == DT_FUNC_KERNEL))
        return dt_shape_fail(s, "`%s` of `%s`, which is %s kernel", op_name(s), func->name,
                             s->op->kind == DT_OP_FUSED ? "no" : "a");
    if (func->kind == DT_FUNC_BRANCH)
        return dt_shape_fail(s, "`%s` of `%s`, which is for `when` alone", op_name(s), func->name);
    if (s->op->kind == DT_OP_CALL && (s->op->n_axes || s->op->mesh))
        return ring_call(s);
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        if (!same(s, "operand", i, s->op->in[i]->type, func->inputs.at[i]->type))
            return false;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        s->out[i] = func->results.at[i]->type;
    return true;
}

/* ---- loop ---- */

/* Returns type with the loop's axis before the others; NULL after a reason. */
static const DtType *stacked(DtShape *s, const DtType *type)
{
    DtShapeType t = {.dtype = type->dtype,
                     .rank = 1,
                     .partial = type->partial,
                     .pending = (DtReduce)type->pending};
    t.axes[0] = (DtAxis){.name = s->op->loop->axis, .extent = s->op->loop->count};
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!dt_shape_add(s, &t, &type->axes[i]))
            return NULL;
    }
    const char *problem = dt_type_check(t.dtype, t.rank, t.axes, t.partial, t.pending);
    if (problem) {
        dt_shape_fail(s, "stacked over `%s`: %s", s->op->loop->axis, problem);
        return NULL;
    }
    return dt_type_make(t.dtype, t.rank, t.axes, t.partial, t.pending);
}

static bool check_loop(DtShape *s)
{
    const DtLoop *loop = s->op->loop;
    const DtFunc *body = s->op->func;
    if (!loop || !body || !loop->axis || !loop->label)
        return dt_shape_fail(s, "`loop` lacks its body, label or axis");
    if (body->kind == DT_FUNC_BRANCH)
        return dt_shape_fail(s, "`loop` over `%s`, which is for `when` alone", body->name);
    if (loop->count < 1 || loop->count > INT32_MAX)
        return dt_shape_fail(s, "`loop` runs %lld times", (long long)loop->count);
    uint64_t n_in = (uint64_t)loop->n_carried + loop->n_invariant + loop->n_stacked;
    uint64_t n_out = (uint64_t)loop->n_carried + loop->n_stacked_out;
    if (s->op->n_in != n_in || body->inputs.n != n_in + 1 || body->results.n != n_out)
        return dt_shape_fail(s,
                             "`loop` has %u operands, its body %u inputs and %u results; "
                             "wanted are %llu, %llu and %llu",
                             s->op->n_in, body->inputs.n, body->results.n, (unsigned long long)n_in,
                             (unsigned long long)n_in + 1, (unsigned long long)n_out);
    return same(s, "iteration number", 0, body->inputs.at[0]->type, dt_type_scalar(DT_I32));
}

/* Results: the carried values, then the stacked ones. See DtLoop. */
bool dt_shape_loop(DtShape *s)
{
    if (!check_loop(s))
        return false;
    const DtLoop *loop = s->op->loop;
    const DtFunc *body = s->op->func;
    uint32_t n_whole = loop->n_carried + loop->n_invariant;
    for (uint32_t i = 0; i < s->op->n_in; i++) {
        const DtType *wanted = body->inputs.at[i + 1]->type;
        if (i >= n_whole && !(wanted = stacked(s, wanted)))
            return false;
        if (!same(s, "operand", i, s->op->in[i]->type, wanted))
            return false;
    }
    for (uint32_t i = 0; i < body->results.n; i++) {
        const DtType *type = body->results.at[i]->type;
        if (i < loop->n_carried &&
            !same(s, "carried result", i, type, body->inputs.at[i + 1]->type))
            return false;
        s->out[i] = i < loop->n_carried ? type : stacked(s, type);
        if (!s->out[i])
            return false;
    }
    return true;
}

/* ---- communication ---- */

static bool comm_fail(DtShape *s, const DtType *x, const DtType *y)
{
    return dt_shape_fail(s, "`%s` over its mesh axes does not lead from %s to %s", op_name(s),
                         dt_shape_text(s, x), dt_shape_text(s, y));
}

/* Result: the wish, which must be what the kind makes of the operand over the mesh axes in
 * op->mesh:
 *   all_gather      drops minor splits       shard           adds minor splits
 *   all_reduce      completes a reduction    reduce_scatter  completes it and adds minor splits
 *   all_to_all      moves minor splits to other axes
 *   all_reduce over pipeline stages, shift
 *                   the operand's type */
bool dt_shape_comm(DtShape *s)
{
    const DtType *x = s->op->in[0]->type, *y = dt_shape_wish(s, 0);
    uint16_t lost = 0, gained = 0, mesh = s->op->mesh;
    if (mesh == 0 || (s->mesh && mesh >> s->mesh->n))
        return dt_shape_fail(s, "`%s` names no mesh axes, or some that do not exist", op_name(s));
    if (s->op->stages) { /* the operand holds the stage's term of a sum, which types do not show */
        s->out[0] = x;
        return s->op->kind == DT_OP_ALL_REDUCE || comm_fail(s, x, y);
    }
    if (!y)
        return dt_shape_fail(s, "`%s` needs a result type", op_name(s));
    if (!compare_splits(x, y, &lost, &gained))
        return comm_fail(s, x, y);
    uint16_t completed = x->partial & (uint16_t)~y->partial;
    bool same_pending = x->partial == y->partial && x->pending == y->pending;
    bool completes = completed == mesh && (y->partial & ~x->partial) == 0 &&
                     (y->partial == 0 || y->pending == x->pending);
    bool ok = false;
    switch (s->op->kind) {
    case DT_OP_ALL_GATHER: ok = same_pending && lost == mesh && gained == 0; break;
    case DT_OP_SHARD: ok = same_pending && lost == 0 && gained == mesh; break;
    case DT_OP_ALL_TO_ALL: ok = same_pending && lost == mesh && gained == mesh; break;
    case DT_OP_ALL_REDUCE: ok = completes && lost == 0 && gained == 0; break;
    case DT_OP_REDUCE_SCATTER: ok = completes && lost == 0 && gained == mesh; break;
    case DT_OP_SHIFT: ok = x == y; break;
    default: break;
    }
    if (!ok)
        return comm_fail(s, x, y);
    s->out[0] = y;
    return true;
}

/* Result: the operand's type. */
bool dt_shape_partner(DtShape *s)
{
    const DtOp *op = s->op;
    const DtType *x = op->in[0]->type;
    const int at = op->n_axes == 1 ? dt_type_find(x, op->axes[0]) : -1;
    if (at < 0)
        return dt_shape_fail(s, "`partner` is along one axis of its operand");
    const DtAxis *axis = &x->axes[at];
    const uint16_t mesh = dt_shape_split_bits(axis);
    const double rounds = (double)dt_pairs_rounds(axis->extent);
    if (op->mesh != mesh || axis->zigzag ||
        (mesh && s->mesh && dt_type_local_extent(x, (uint32_t)at, s->mesh) != 1))
        return dt_shape_fail(s, "`partner` along %s: a rank has one element, or all", axis->name);
    for (uint32_t k = 1; k < axis->n_split; k++)
        if (axis->split[k] < axis->split[k - 1])
            return dt_shape_fail(s, "`partner` along %s, which is split in another order than that "
                                 "of the mesh", axis->name);
    if (!(op->number >= 0 && op->number <= rounds) || op->number != floor(op->number) ||
        (op->number > 0 && op->reverse))
        return dt_shape_fail(s, "`partner` in round %g of %g", op->number - 1, rounds);
    s->out[0] = x;
    return true;
}
