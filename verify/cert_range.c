/* SPDX-License-Identifier: Apache-2.0 */
/* Iterations: which ones a stacked value covers, and what that means to an op.
 *
 * The node of a stacked value says nothing of the range, since a loop cut into stages leaves it in ranges. An op that
 * treats all iterations alike hands the range on. One that works along the axis (it renames, cuts, shifts, gathers it)
 * makes something else of another range, and says so in its attributes. Cutting consecutive iterations out of a
 * value gives its node with that range, and putting ranges that adjoin together gives the node with all of
 * them. What is repeated along the axis is the same in any range. */
#include "verify/internal.h"

#include "base/intern.h"

static CertLoopAxis *find(const CertProgram *program, const char *axis)
{
    for (uint32_t i = 0; i < program->loop_axes.n; i++)
        if (program->loop_axes.at[i].name == axis)
            return &program->loop_axes.at[i];
    return NULL;
}

void dt_certrange_add(CertProgram *program, const CertLoop *loop)
{
    CertLoopAxis *known = find(program, loop->axis);
    if (!known)
        DT_PUSH(program->arena, program->loop_axes, ((CertLoopAxis){loop->axis, loop->count}));
    else if (known->count < loop->count)
        known->count = loop->count;
}

/* A program is read before it is evaluated, the serial one first: both know its loops. */
static bool is_loop(const CertProgram *program, const char *axis) { return find(program->whole, axis) != NULL; }

static bool is_whole(const CertProgram *program, const CertAxis *axis, int64_t first)
{
    const CertLoopAxis *loop = find(program->whole, axis->name);
    return !loop || (first == 0 && loop->count == axis->extent);
}

bool dt_certrange_of(CertState *state, const CertOp *op, const CertValue *in, CertValue *ret_value)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!in[i].loop || !dt_certtext_axis(ret_value->type, in[i].loop))
            continue;
        const bool same = ret_value->loop == in[i].loop;
        if (same && in[i].first == CERT_ANY)
            continue;
        if (ret_value->loop && !(same && (ret_value->first == in[i].first || ret_value->first == CERT_ANY)))
            return dt_certfunc_fail(state, op, "`%s` of values of different iterations", op->kind);
        ret_value->loop = in[i].loop;
        ret_value->first = in[i].first;
    }
    return true;
}

const CertShape *dt_certrange_shape(CertState *state, const CertOp *op, const CertValue *in, const CertValue *value)
{
    const CertShape *shape = dt_certnode_shape(state->nodes, value->type, value->loop);
    int64_t extent = -1;
    for (uint32_t i = 0; value->loop && i < op->n_in; i++) {
        const CertShape *x = in[i].node->shape;
        for (uint32_t a = 0; x && a < x->rank; a++) {
            if (x->axes[a] != value->loop)
                continue;
            if (x->extents[a] < 0 || (extent >= 0 && extent != x->extents[a]))
                return shape;
            extent = x->extents[a];
        }
    }
    if (extent < 0)
        return shape;
    CertType *whole = DT_NEW(state->arena, CertType);
    *whole = *value->type;
    for (uint32_t a = 0; a < whole->rank; a++)
        if (whole->axes[a].name == value->loop)
            whole->axes[a].logical = extent;
    return dt_certnode_closed(state->nodes, shape, whole, NULL);
}

const CertShape *dt_certrange_all(CertState *state, const CertShape *shape)
{
    CertType *all = NULL;
    for (uint32_t a = 0; a < shape->rank; a++) {
        const CertLoopAxis *loop = shape->extents[a] < 0 ? find(state->program->whole, shape->axes[a]) : NULL;
        if (!loop)
            continue;
        all = all ? all : DT_NEW(state->arena, CertType);
        all->axes[all->rank++] = (CertAxis){.name = loop->name, .logical = loop->count};
    }
    return all ? dt_certnode_closed(state->nodes, shape, all, NULL) : shape;
}

void dt_certrange_close(const CertProgram *program, CertValue *value)
{
    const CertAxis *axis = value->loop ? dt_certtext_axis(value->type, value->loop) : NULL;
    if (!axis || (value->first != CERT_ANY && !is_whole(program, axis, value->first)))
        return;
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

/* Whether the op does not treat all places of the axis alike. */
static bool works_along(const CertOp *op, const char *axis)
{
    bool works = has(op->axes, op->n_axes, axis) || has(op->axes2, op->n_axes2, axis);
    for (uint32_t i = 0; i < op->n_relabels; i++)
        works = works || has(op->relabels[i].from, op->relabels[i].n_from, axis);
    return works;
}

const char *dt_certrange_attributes(const CertProgram *program, const CertOp *op, const CertValue *in)
{
    const char *attributes = op->attributes;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertAxis *axis = in[i].loop ? dt_certtext_axis(in[i].type, in[i].loop) : NULL;
        const int64_t first = in[i].first == CERT_ANY ? 0 : in[i].first;
        if (axis && works_along(op, axis->name) && !is_whole(program, axis, first))
            attributes = dt_intern_printf("%s %u: %lld..%lld", attributes, i, (long long)first,
                                          (long long)(first + axis->extent));
    }
    return attributes;
}

void dt_certrange_repeat(const CertProgram *program, const CertOp *op, const CertValue *in, CertValue *out)
{
    if (!dt_cert_is(op->kind, "expand") || dt_certnode_is_zero(in[0].node))
        return;
    for (uint32_t i = 0; i < out->type->rank; i++) {
        const char *axis = out->type->axes[i].name;
        if (out->loop || dt_certtext_axis(in[0].type, axis) || !is_loop(program, axis))
            continue;
        out->loop = axis;
        out->first = CERT_ANY;
    }
}

/* What value is of its node: all of it if it covers the node's own extent. */
static void tag(CertValue *value, const char *axis, int64_t first)
{
    const CertShape *shape = value->node->shape;
    const CertAxis *range = dt_certtext_axis(value->type, axis);
    value->loop = axis;
    value->first = first;
    for (uint32_t i = 0; shape && i < shape->rank; i++)
        if (shape->axes[i] == axis && first == 0 && shape->extents[i] == range->extent)
            value->loop = NULL;
}

static bool is_cut(const CertProgram *program, const CertOp *op, const CertValue *in)
{
    const char *axis = op->n_axes == 1 && op->n_ranges == 1 ? op->axes[0] : NULL;
    return axis && dt_cert_is(op->kind, "slice") && op->ranges[0].step == 1 && is_loop(program, axis) &&
           (!in[0].loop || in[0].loop == axis) && in[0].node->shape && !dt_certpack_is(in[0].node);
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

bool dt_certrange_cut(const CertProgram *program, const CertOp *op, const CertValue *in, CertValue *out)
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
