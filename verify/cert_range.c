/* SPDX-License-Identifier: Apache-2.0 */
/* Iterations: which ones a stacked value covers, and how ops treat them.
 *
 * The node of a stacked value is that of all iterations, since a loop cut into stages computes
 * it in ranges. An op that treats all iterations alike passes the range on. For an op that works
 * along the axis (renames, slices, shifts, gathers it), or that combines different iterations, a
 * range is a value of its own, and a node. A slice of consecutive iterations has the value's
 * node with that range, and concatenated adjacent ranges have the node with all of them. A value
 * that is repeated along the axis is the same in any range. */
#include "verify/internal.h"

#include "base/intern.h"

static const char range_kind[] = "range";

static CertLoopAxis *find(const CertProgram *program, const char *axis)
{
    for (uint32_t i = 0; i < program->loop_axes.n; i++)
        if (program->loop_axes.at[i].name == axis)
            return &program->loop_axes.at[i];
    return NULL;
}

static void add(CertProgram *program, const CertLoop *loop)
{
    CertLoopAxis *known = find(program, loop->axis);
    if (!known)
        DT_PUSH(program->arena, program->loop_axes, ((CertLoopAxis){loop->axis, loop->count}));
    else if (known->count < loop->count)
        known->count = loop->count;
}

void dt_certrange_note(CertProgram *program)
{
    for (uint32_t i = 0; i < CERT_FUNCS; i++)
        for (const CertFunc *func = program->funcs[i]; func; func = func->next)
            for (uint32_t k = 0; k < func->ops.n; k++)
                if (func->ops.at[k]->loop)
                    add(program, func->ops.at[k]->loop);
}

/* Loops of a program are known when it is evaluated, since all of it is read first; the serial
 * program is read before the final one. */
static bool is_loop(const CertProgram *program, const char *axis)
{
    return find(program->whole, axis) != NULL;
}

int64_t dt_certrange_count(const CertState *state, const char *axis)
{
    const CertLoopAxis *loop = find(state->program->whole, axis);
    return loop ? loop->count : -1;
}

const CertShape *dt_certrange_all(CertState *state, const CertType *type, const char *loop)
{
    CertType *notes = (CertType *)type; /* keeps what is derived from the type */
    const int64_t count =
        loop && dt_certtext_axis(type, loop) ? dt_certrange_count(state, loop) : -1;
    const CertShape *shape = dt_certnode_shape(state->nodes, type);
    if (count < 0)
        return shape;
    if (type->all_of != loop) {
        notes->all_of = loop;
        notes->all = dt_certnode_resized(state->nodes, shape, loop, count);
    }
    return type->all;
}

/* An operand that has the axis but no loop covers all iterations, from 0 on. An operand whose
 * iterations are all equal adapts to the others. */
bool dt_certrange_of(const CertOp *op, const CertValue *in, CertValue *ret_value)
{
    bool whole = false;
    const char *loop = NULL;
    int64_t first = CERT_ANY;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!in[i].loop || !dt_certtext_axis(ret_value->type, in[i].loop))
            continue;
        if ((loop && loop != in[i].loop) ||
            (first != CERT_ANY && in[i].first != CERT_ANY && first != in[i].first))
            return false;
        loop = in[i].loop;
        first = first == CERT_ANY ? in[i].first : first;
    }
    for (uint32_t i = 0; loop && i < op->n_in; i++)
        whole = whole || (!in[i].loop && dt_certtext_axis(in[i].type, loop));
    if (whole && first != CERT_ANY && first != 0)
        return false;
    ret_value->loop = whole && first == CERT_ANY ? NULL : loop;
    ret_value->first = ret_value->loop ? first : 0;
    return true;
}

const CertShape *dt_certrange_shape(CertState *state, const CertOp *op, const CertValue *in,
                                    const CertValue *value)
{
    const CertShape *shape = dt_certrange_all(state, value->type, value->loop);
    int64_t extent = -1;
    for (uint32_t i = 0; value->loop && i < op->n_in; i++) {
        const int64_t x = dt_certnode_extent(in[i].node->shape, value->loop);
        if (x >= 0 && extent >= 0 && extent != x)
            return shape;
        extent = x >= 0 ? x : extent;
    }
    return extent < 0 ? shape : dt_certnode_resized(state->nodes, shape, value->loop, extent);
}

/* A value is whole if it covers its node's own extent. */
bool dt_certrange_some(const CertState *state, const CertValue *value, int64_t *ret_lo,
                       int64_t *ret_hi)
{
    const CertAxis *axis = value->loop ? dt_certtext_axis(value->type, value->loop) : NULL;
    if (!axis)
        return false;
    const int64_t extent = value->node->shape ? dt_certnode_extent(value->node->shape, axis->name)
                                              : dt_certrange_count(state, axis->name);
    *ret_lo = value->first == CERT_ANY ? 0 : value->first;
    *ret_hi = *ret_lo + axis->extent;
    return *ret_lo != 0 || *ret_hi != extent;
}

void dt_certrange_close(const CertState *state, CertValue *value)
{
    int64_t lo, hi;
    if (!value->loop || dt_certrange_some(state, value, &lo, &hi))
        return;
    value->loop = NULL;
    value->first = 0;
}

typedef struct Range {
    CertState *state;
    const char *axis, *attributes;
    int64_t extent;
} Range;

static CertNode *range_of(void *data, CertNode *node)
{
    const Range *r = data;
    const CertShape *shape = dt_certnode_resized(r->state->nodes, node->shape, r->axis, r->extent);
    return dt_certnode_of(r->state->nodes, range_kind, r->attributes, shape, node);
}

static const char *iterations(const char *loop, int64_t lo, int64_t hi)
{
    return dt_intern_printf("%s %lld..%lld", loop, (long long)lo, (long long)hi);
}

CertNode *dt_certrange_whole(CertNode *node, const CertLoop *loop)
{
    const bool is = node->kind == range_kind && loop->first == 0 &&
                    node->attributes == iterations(loop->axis, 0, loop->count);
    return is ? node->in[0] : node;
}

void dt_certrange_fix(CertState *state, CertValue *value)
{
    int64_t lo, hi;
    if (dt_certrange_some(state, value, &lo, &hi)) {
        Range data = {state, value->loop, iterations(value->loop, lo, hi), hi - lo};
        value->node = dt_certpack_each(state, value->node, range_of, &data);
    }
    value->loop = NULL;
    value->first = 0;
}

static bool has(const char *const *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i] == name)
            return true;
    return false;
}

/* Whether the op treats positions of the axis differently. */
static bool works_along(const CertOp *op, const char *axis)
{
    bool works = has(op->axes, op->n_axes, axis) || has(op->axes2, op->n_axes2, axis);
    for (uint32_t i = 0; i < op->n_relabels; i++)
        works = works || has(op->relabels[i].from, op->relabels[i].n_from, axis);
    return works;
}

bool dt_certrange_adds(const CertOp *op)
{
    return dt_cert_is(op->kind, "reduce") && dt_cert_is(op->reduce, "sum");
}

/* Gives zeros among the operands that no loop has stacked the iterations of `like`, with which they
 * are combined. True if it changed any. */
static bool cover(CertState *state, const CertOp *op, const CertValue *like, CertValue *settled)
{
    bool any = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        CertValue *x = &settled[i];
        if (x->loop || !dt_certtext_axis(x->type, like->loop))
            continue;
        dt_certfunc_cover(state, like->loop, like->first, x);
        any = any || x->loop;
    }
    return any;
}

static bool agree(const CertOp *op, const CertValue *in)
{
    bool same = true;
    for (uint32_t i = 0; i < op->n_out && same; i++) {
        CertValue result = {.type = op->types[i]};
        same = dt_certrange_of(op, in, &result);
    }
    return same;
}

const CertValue *dt_certrange_settle(CertState *state, const CertOp *op, const CertValue *in)
{
    const CertValue *like = NULL;
    for (uint32_t i = 0; i < op->n_in; i++)
        like = in[i].loop && (!like || like->first == CERT_ANY) ? &in[i] : like;
    if (!like)
        return in;
    CertValue *settled = DT_NEW_ARRAY(state->arena, CertValue, op->n_in);
    memcpy(settled, in, op->n_in * sizeof *in);
    bool changed = op->n_in > 1 && cover(state, op, like, settled);
    const bool same = agree(op, settled);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!settled[i].loop ||
            (same && (dt_certrange_adds(op) || !works_along(op, settled[i].loop))))
            continue;
        dt_certrange_fix(state, &settled[i]);
        changed = true;
    }
    return changed ? settled : in;
}

void dt_certrange_repeat(const CertProgram *program, const CertOp *op, const CertValue *in,
                         CertValue *out)
{
    if (!dt_cert_is(op->kind, "expand"))
        return;
    for (uint32_t i = 0; i < out->type->rank; i++) {
        const char *axis = out->type->axes[i].name;
        if (out->loop || dt_certtext_axis(in[0].type, axis) || !is_loop(program, axis))
            continue;
        out->loop = axis;
        out->first = CERT_ANY;
    }
}

/* Records in the value which iterations of its node it covers: from `first` on along the axis, or
 * all if the value is as long as the node. */
static void tag(CertValue *value, const char *axis, int64_t first)
{
    const bool whole = first == 0 && dt_certnode_extent(value->node->shape, axis) ==
                                         dt_certtext_axis(value->type, axis)->extent;
    value->loop = whole ? NULL : axis;
    value->first = first;
}

static bool is_cut(const CertProgram *program, const CertOp *op, const CertValue *in)
{
    const char *axis = op->n_in == 1 && op->n_axes == 1 && op->n_ranges == 1 ? op->axes[0] : NULL;
    return axis && dt_cert_is(op->kind, "slice") && op->ranges[0].step == 1 &&
           is_loop(program, axis) && (!in[0].loop || in[0].loop == axis) && in[0].node->shape &&
           !dt_certpack_is(in[0].node);
}

static bool is_joined(const CertProgram *program, const CertOp *op, const CertValue *in)
{
    const char *axis = op->n_axes == 1 && op->n_in ? op->axes[0] : NULL;
    int64_t next = in[0].first;
    const bool any = next == CERT_ANY;
    if (!axis || !dt_cert_is(op->kind, "concat") || !is_loop(program, axis))
        return false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (in[i].loop != axis || in[i].node != in[0].node || in[i].first != next)
            return false;
        next += any ? 0 : dt_certtext_axis(in[i].type, axis)->extent;
    }
    return true;
}

bool dt_certrange_cut(const CertProgram *program, const CertOp *op, const CertValue *in,
                      CertValue *out)
{
    const bool cut = is_cut(program, op, in);
    if (!cut && !is_joined(program, op, in))
        return false;
    out->node = in[0].node;
    if (in[0].loop && in[0].first == CERT_ANY) {
        out->loop = in[0].loop;
        out->first = CERT_ANY;
        return true;
    }
    tag(out, op->axes[0], (in[0].loop ? in[0].first : 0) + (cut ? op->ranges[0].lo : 0));
    return true;
}
