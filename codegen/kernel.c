/* SPDX-License-Identifier: Apache-2.0 */
/* Building kernel IR from a group of IR ops.
 *
 * The index space is that of the group's largest op: for a reduction or contraction the result's
 * axes (outer), then the axes summed away (inner). Each op becomes a node; values from outside the
 * group become loads through their views, and an axis op whose operand comes from outside becomes
 * the index map of that load, so that no padding, window or gather is ever a copy of its own unless
 * somebody keeps it. */
#include "codegen/kernel.h"

#include "base/bug.h"
#include "base/hash.h"
#include "codegen/kernel_internal.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const DtMesh *mesh_of(const DtKBuild *b) { return &b->in->module->mesh; }

_Noreturn void dt_kernel_fail(const DtKBuild *b, const DtOp *op, const char *why)
{
    const char *path = op && b->in->module->diags && op->span.file
                           ? dt_diag_path(b->in->module->diags, op->span.file) : "";
    DT_BUG("kernel of `%s` (%s): %s", op ? dt_op_info[op->kind].text : "?", path, why);
}

uint32_t dt_kernel_node(DtKBuild *b, DtKNode node)
{
    DT_PUSH(b->in->arena, b->k->nodes, node);
    return b->k->nodes.n - 1;
}

int dt_kernel_axis(const DtKBuild *b, const char *axis)
{
    for (uint32_t i = 0; i < b->k->n_axes; i++)
        if (b->k->axis[i] == axis)
            return (int)i;
    return -1;
}

/* Compares field by field: padding between fields is undefined. */
static bool same_integer(const DtKInt *x, const DtKInt *y)
{
    if (x->kind != y->kind || x->n != y->n || x->first != y->first ||
        x->per_first != y->per_first || memcmp(x->per_loop, y->per_loop, sizeof x->per_loop) != 0)
        return false;
    for (uint32_t i = 0; i < x->n; i++)
        if (!dt_type_same_axis(&x->axis[i], &y->axis[i]) || x->multiplier[i] != y->multiplier[i])
            return false;
    return true;
}

static uint32_t integer(DtKBuild *b, DtKInt value)
{
    for (uint32_t i = 0; i < b->k->ints.n; i++)
        if (same_integer(&b->k->ints.at[i], &value))
            return i;
    DT_PUSH(b->in->arena, b->k->ints, value);
    return b->k->ints.n - 1;
}

/* Returns the number of mesh axes of devices that the argument depends on. At most DT_PLAN_COORDS
 * are possible. */
static uint32_t coords_of(const DtKBuild *b, const DtKInt *bases)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < bases->n; i++)
        for (uint32_t s = 0; s < bases->axis[i].n_split; s++)
            n += !b->in->module->mesh.axes[bases->axis[i].split[s]].is_time;
    return n;
}

/* Adds the first local index of a split axis, times multiplier, to the terms of an argument;
 * nothing if the axis is not split. */
static void add_base(DtKInt *bases, const DtAxis *axis, int64_t multiplier)
{
    if (axis->n_split == 0)
        return;
    bases->axis[bases->n] = *axis;
    bases->multiplier[bases->n++] = multiplier;
}

uint32_t dt_kernel_base(DtKBuild *b, const DtType *type, const char *axis)
{
    DtKInt bases = {.kind = DT_KINT_BASES};
    add_base(&bases, &type->axes[dt_type_find(type, axis)], 1);
    return bases.n ? integer(b, bases) : DT_KNONE;
}

uint32_t dt_kernel_pointer(DtKBuild *b, const DtValue *value, const DtView *view, bool written)
{
    for (uint32_t i = 0; i < b->k->pointers.n; i++)
        if (b->k->pointers.at[i].value == value && b->k->pointers.at[i].written == written)
            return i;
    DT_PUSH(b->in->arena, b->k->pointers, ((DtKPointer){.value = value, .view = view,
                                                        .written = written}));
    return b->k->pointers.n - 1;
}

/* ---- the index space ---- */

static void add_axis(DtKBuild *b, const DtType *type, uint32_t i)
{
    DtKernel *k = b->k;
    if (dt_kernel_axis(b, type->axes[i].name) >= 0)
        return;
    if (k->n_axes == DT_MAX_RANK)
        dt_kernel_fail(b, NULL, "more axes than a kernel can have");
    k->axis[k->n_axes] = type->axes[i].name;
    k->extent[k->n_axes++] = dt_type_local_extent(type, i, mesh_of(b));
}

static bool in_list(const char *name, const char *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == name)
            return true;
    return false;
}

static void add_axes(DtKBuild *b, const DtType *type, const char *const *list, uint32_t n,
                     bool listed)
{
    for (uint32_t i = 0; i < type->rank; i++)
        if (in_list(type->axes[i].name, list, n) == listed)
            add_axis(b, type, i);
}

/* Returns the op whose axes span the kernel's index space: an op with inner axes if there is one,
 * else the op whose result has most axes. */
static const DtOp *span_op(const DtKBuild *b)
{
    const DtOp *best = NULL;
    for (uint32_t i = 0; i < b->in->n_ops; i++) {
        const DtOp *op = b->in->ops[i];
        if ((op->kind == DT_OP_REDUCE && op->n_axes) || op->kind == DT_OP_DOT ||
            op->kind == DT_OP_FOLD || op->kind == DT_OP_SCAN || op->kind == DT_OP_TOPK ||
            (op->kind == DT_OP_SCATTER_ADD && !dt_op_is_one_hot(op)))
            return op;
        if (!best || op->out[0]->type->rank > best->out[0]->type->rank)
            best = op;
    }
    return best;
}

static void space_of(DtKBuild *b)
{
    const DtOp *op = span_op(b);
    const DtType *in = op->n_in ? op->in[0]->type : NULL;
    DtKernel *k = b->k;
    switch (op->kind) {
    case DT_OP_REDUCE:
        if (b->in->n_rows)
            add_axes(b, in, b->in->rows, b->in->n_rows, true);
        else
            add_axes(b, in, op->axes, op->n_axes, false);
        k->n_outer = k->n_axes;
        for (uint32_t i = 0; i < in->rank; i++)
            add_axis(b, in, i);
        break;
    case DT_OP_SCAN: /* inner axes in the order that the op lists them */
        add_axes(b, in, op->axes, op->n_axes, false);
        k->n_outer = k->n_axes;
        for (uint32_t i = 0; i < op->n_axes; i++)
            add_axis(b, in, (uint32_t)dt_type_find(in, op->axes[i]));
        break;
    case DT_OP_TOPK:
        add_axes(b, in, op->axes, 1, false);
        k->n_outer = k->n_axes;
        add_axes(b, in, op->axes, 1, true);
        break;
    case DT_OP_SCATTER_ADD:
        for (uint32_t i = 0; i < op->n_in && !dt_op_is_one_hot(op); i++)
            add_axes(b, op->in[i]->type, NULL, 0, false);
        if (dt_op_is_one_hot(op))
            add_axes(b, op->out[0]->type, NULL, 0, false);
        k->n_outer = k->n_axes;
        break;
    case DT_OP_DOT:
        add_axes(b, op->out[0]->type, NULL, 0, false);
        k->n_outer = k->n_axes;
        add_axes(b, in, op->axes, op->n_axes, true);
        break;
    case DT_OP_FOLD:
        add_axes(b, op->out[0]->type, NULL, 0, false);
        k->n_outer = k->n_axes;
        add_axis(b, in, (uint32_t)dt_type_find(in, op->axes[1]));
        break;
    default:
        add_axes(b, op->out[0]->type, NULL, 0, false);
        k->n_outer = k->n_axes;
    }
}

/* For a kernel of one axis op: orders the loops as the memory that it writes, which may differ from
 * the order of the type's axes. */
static void order_space(DtKBuild *b)
{
    DtKernel *k = b->k;
    if (b->in->n_ops != 1 || b->in->n_outputs != 1 ||
        dt_op_info[b->in->ops[0]->kind].op_class != DT_CLASS_AXIS)
        return;
    const DtView *view = b->in->outputs[0].view;
    int64_t stride[DT_MAX_RANK];
    for (uint32_t a = 0; a < k->n_outer; a++) {
        const char *axis = k->axis[a];
        int64_t extent = k->extent[a], own = 0;
        uint32_t at = a;
        for (uint32_t d = 0; d < view->rank; d++)
            own = view->axis[d] == axis ? view->stride[d] : own;
        for (; at > 0 && stride[at - 1] < own; at--) {
            k->axis[at] = k->axis[at - 1];
            k->extent[at] = k->extent[at - 1];
            stride[at] = stride[at - 1];
        }
        k->axis[at] = axis;
        k->extent[at] = extent;
        stride[at] = own;
    }
}

/* ---- nodes ---- */

static bool in_group(const DtKBuild *b, const DtOp *op)
{
    for (uint32_t i = 0; op && i < b->in->n_ops; i++)
        if (b->in->ops[i] == op)
            return true;
    return false;
}

/* The number of a map or constant node: that of an existing equal node, if there is one. Values
 * that remat recomputes for a kernel which evaluates them anyway (passes/grad/remat_made.c) are
 * separate ops, and meet here. */
static uint32_t node_once(DtKBuild *b, DtKNode node)
{
    for (uint32_t i = 0; i < b->k->nodes.n; i++) {
        const DtKNode *known = &b->k->nodes.at[i];
        bool same = known->kind == node.kind && known->dtype == node.dtype &&
                    known->map == node.map && known->n_args == node.n_args &&
                    memcmp(&known->number, &node.number, sizeof node.number) == 0;
        for (uint32_t k = 0; same && k < node.n_args; k++)
            same = known->args[k] == node.args[k];
        if (same)
            return i;
    }
    return dt_kernel_node(b, node);
}

uint32_t dt_kernel_map(DtKBuild *b, DtOpKind kind, DtDtype dtype, uint32_t n, const uint32_t *args)
{
    DtKNode node = {.kind = DT_KNODE_MAP, .map = kind, .dtype = dtype, .n_args = n,
                    .integer = DT_KNONE, .op = b->op};
    for (uint32_t i = 0; i < n; i++) {
        node.args[i] = args[i];
        node.after_rows = node.after_rows || b->k->nodes.at[args[i]].after_rows;
        node.axes |= b->k->nodes.at[args[i]].axes;
        if (b->k->nodes.at[args[i]].phase > node.phase)
            node.phase = b->k->nodes.at[args[i]].phase;
    }
    return node_once(b, node);
}

uint32_t dt_kernel_number(DtKBuild *b, DtDtype dtype, double number)
{
    return node_once(b, (DtKNode){.kind = DT_KNODE_CONST, .dtype = dtype, .number = number,
                                  .integer = DT_KNONE, .op = b->op});
}

/* Sum, maximum or minimum of a node over the inner axes. */
static uint32_t reduction(DtKBuild *b, DtReduce reduce, DtDtype dtype, uint32_t arg)
{
    const DtKNode *a = &b->k->nodes.at[arg];
    uint32_t outer = (1u << b->k->n_outer) - 1;
    return dt_kernel_node(b, (DtKNode){.kind = DT_KNODE_REDUCE, .dtype = dtype, .reduce = reduce,
                                       .n_args = 1, .args = {arg}, .axes = outer,
                                       .phase = a->phase + 1, .integer = DT_KNONE, .op = b->op});
}

uint32_t dt_kernel_after_rows(DtKBuild *b, const DtOp *op, uint32_t arg, uint32_t axes)
{
    return dt_kernel_node(b, (DtKNode){.kind = DT_KNODE_REDUCE, .dtype = op->out[0]->type->dtype,
                                       .reduce = op->reduce, .n_args = 1, .args = {arg},
                                       .axes = axes, .after_rows = true,
                                       .phase = b->k->nodes.at[arg].phase, .integer = DT_KNONE,
                                       .op = b->op});
}

/* Adds a node that reduces arg over the outer axes, row by row, and returns its number. */
static uint32_t reduction_after_rows(DtKBuild *b, const DtOp *op, uint32_t arg)
{
    const uint32_t all = (1u << b->k->n_axes) - 1, outer = (1u << b->k->n_outer) - 1;
    return dt_kernel_after_rows(b, op, arg, all & ~outer);
}

static uint32_t iota_node(DtKBuild *b, const DtOp *op)
{
    const DtType *type = op->out[0]->type;
    DtKNode node = {.kind = DT_KNODE_IOTA, .dtype = DT_I32, .integer = DT_KNONE, .op = op};
    int axis = dt_kernel_axis(b, type->axes[0].name);
    if (axis < 0)
        dt_kernel_fail(b, op, "iota over an axis outside the space");
    node.coef[axis] = 1;
    node.axes = 1u << axis;
    const DtAxis *origin = b->in->origin ? b->in->origin(b->in->context, op) : NULL;
    DtKInt bases = {.kind = DT_KINT_BASES};
    add_base(&bases, origin ? origin : &type->axes[0], 1);
    node.integer = bases.n ? integer(b, bases) : DT_KNONE;
    return dt_kernel_node(b, node);
}

/* Whether the argument is a multiple of n on every rank, in every micro-batch and block. */
static bool is_multiple(const DtKBuild *b, const DtKInt *value, int64_t n)
{
    bool good = value->first * value->per_first % n == 0;
    for (uint32_t i = 0; i < value->n_loops; i++)
        good = good && value->per_loop[i] % n == 0;
    for (uint32_t i = 0; i < value->n; i++) {
        int64_t block = value->axis[i].extent;
        for (uint32_t s = 0; s < value->axis[i].n_split; s++) {
            block /= b->in->module->mesh.axes[value->axis[i].split[s]].size;
            good = good && value->multiplier[i] * block % n == 0;
        }
    }
    return good;
}

/* Adds to the number of a draw's first element what depends on the block's position along axis. */
static void add_block(DtKInt *element, const DtKDraw *draw, const char *axis, int64_t stride)
{
    element->first = draw->first;
    element->n_loops = draw->n_loops;
    element->reg = draw->reg;
    if (axis == draw->queries)
        element->per_first = stride;
    for (uint32_t i = 0; i < draw->n_loops; i++)
        if (axis == draw->loops[i])
            element->per_loop[i] = stride;
}

/* Element index: row-major over the logical axes sorted by name. */
static uint32_t rng_node(DtKBuild *b, const DtOp *op)
{
    const DtKDraw *draw = b->in->draw ? b->in->draw(b->in->context, op) : NULL;
    const DtType *type = draw ? draw->type : op->out[0]->type;
    DtKInt element = {.kind = DT_KINT_ELEMENT};
    DtKNode node = {.kind = DT_KNODE_RNG, .dtype = DT_F32, .draws = op->draws, .begins = true,
                    .op = op};
    uint32_t order[DT_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t at = i;
        for (; at > 0 && strcmp(type->axes[order[at - 1]].name, type->axes[i].name) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    DtKInt bases = {.kind = DT_KINT_BASES};
    int64_t stride = 1;
    for (uint32_t i = type->rank; i-- > 0;) { /* at most four mesh axes split an axis */
        const DtAxis *axis = &type->axes[order[i]];
        int at = dt_kernel_axis(b, axis->name);
        if (at >= 0) { /* an axis that the space lacks has one element here */
            node.coef[at] = stride;
            node.axes |= 1u << at;
        }
        if (draw)
            add_block(&element, draw, axis->name, stride);
        if (coords_of(b, &bases) + axis->n_split > DT_PLAN_COORDS) {
            node.begins = node.begins && is_multiple(b, &bases, op->draws);
            node.more[node.n_more++] = integer(b, bases);
            bases = (DtKInt){.kind = DT_KINT_BASES};
        }
        add_base(&bases, axis, stride);
        stride *= dt_module_logical(b->in->module, axis);
    }
    node.begins =
        node.begins && is_multiple(b, &bases, op->draws) && is_multiple(b, &element, op->draws);
    node.integer = bases.n ? integer(b, bases) : DT_KNONE;
    if (draw && bases.n)
        node.more[node.n_more++] = integer(b, element);
    else if (draw)
        node.integer = integer(b, element);
    node.step = integer(b, (DtKInt){.kind = DT_KINT_STEP});
    node.iteration = integer(b, (DtKInt){.kind = DT_KINT_ITERATION});
    DtText site = {0};
    if (b->in->path && b->in->path[0])
        dt_text_printf(&site, "%s.%s", b->in->path, op->text);
    else
        dt_text_add(&site, op->text);
    node.key = dt_hash_text(site.at, b->in->seed);
    dt_text_free(&site);
    return dt_kernel_node(b, node);
}

/* Returns an index that equals the index of the space along that axis. */
DtKIndex dt_kernel_identity(const DtKBuild *b, const char *axis)
{
    DtKIndex index = {.node = DT_KNONE, .bases = DT_KNONE};
    int at = dt_kernel_axis(b, axis);
    if (at < 0)
        dt_kernel_fail(b, b->op, "reads along an axis outside the space");
    index.coef[at] = 1;
    return index;
}

static bool is_affine(const DtKIndex *index)
{
    return !index->guard && !index->div && !index->mod && index->node == DT_KNONE;
}

/* Reads value with one index per axis of its view (in the view's order). */
uint32_t dt_kernel_load(DtKBuild *b, const DtValue *value, const DtView *view,
                        const DtKIndex *indices, double outside)
{
    DtKNode node = {.kind = DT_KNODE_LOAD, .dtype = view->dtype, .number = outside,
                    .integer = DT_KNONE, .offset = 0, .op = b->op};
    node.pointer = dt_kernel_pointer(b, value, view, false);
    node.index = DT_NEW_ARRAY(b->in->arena, DtKIndex, view->rank + 1u);
    for (uint32_t d = 0; d < view->rank; d++) {
        DtKIndex index = indices[d];
        index.stride = view->stride[d];
        if (index.node != DT_KNONE) {
            node.axes |= b->k->nodes.at[index.node].axes;
            node.after_rows = node.after_rows || b->k->nodes.at[index.node].after_rows;
            if (b->k->nodes.at[index.node].phase > node.phase)
                node.phase = b->k->nodes.at[index.node].phase;
        }
        for (uint32_t a = 0; a < b->k->n_axes; a++)
            if (index.coef[a])
                node.axes |= 1u << a;
        if (!is_affine(&index)) {
            node.index[node.n_index++] = index;
            continue;
        }
        node.offset += index.base * index.stride;
        for (uint32_t a = 0; a < b->k->n_axes; a++)
            node.coef[a] += index.coef[a] * index.stride;
    }
    return dt_kernel_node(b, node);
}

static uint32_t load_plain(DtKBuild *b, const DtValue *value)
{
    const DtView *view = b->in->view(b->in->context, value);
    if (!view)
        dt_kernel_fail(b, value->op, "its value has no place in memory");
    DtKIndex indices[DT_MAX_RANK];
    for (uint32_t d = 0; d < view->rank; d++)
        indices[d] = dt_kernel_identity(b, view->axis[d]);
    return dt_kernel_load(b, value, view, indices, 0);
}

/* Adds nodes for where(iota == index, x, 0), nested for each indexed axis, and returns the last
 * one's number. */
static uint32_t one_hot(DtKBuild *b, const DtOp *op)
{
    const DtType *type = op->out[0]->type;
    uint32_t node = dt_kernel_value(b, op->in[0]), none = dt_kernel_number(b, type->dtype, 0);
    for (uint32_t i = 0; i < op->n_axes; i++) {
        const int axis = dt_kernel_axis(b, op->axes[i]);
        DtKNode at = {.kind = DT_KNODE_IOTA, .dtype = DT_I32, .axes = 1u << axis, .op = op};
        at.coef[axis] = 1;
        at.integer = dt_kernel_base(b, type, op->axes[i]);
        const uint32_t here = dt_kernel_node(b, at), index = dt_kernel_value(b, op->in[i + 1]);
        const uint32_t is = dt_kernel_map(b, DT_OP_EQ, DT_BOOL, 2, (uint32_t[]){here, index});
        node = dt_kernel_map(b, DT_OP_WHERE, type->dtype, 3, (uint32_t[]){is, node, none});
    }
    return node;
}

static uint32_t op_node(DtKBuild *b, const DtOp *op)
{
    const DtOp *outer_op = b->op;
    b->op = op;
    uint32_t args[8], node;
    if (dt_op_info[op->kind].op_class == DT_CLASS_MAP) {
        for (uint32_t i = 0; i < op->n_in; i++)
            args[i] = dt_kernel_value(b, op->in[i]);
        node = dt_kernel_map(b, op->kind, op->out[0]->type->dtype, op->n_in, args);
    } else {
        switch (op->kind) {
        case DT_OP_RNG: node = rng_node(b, op); break;
        case DT_OP_EXPAND: node = dt_kernel_value(b, op->in[0]); break;
        case DT_OP_REDUCE: {
            uint32_t arg = dt_kernel_value(b, op->in[0]);
            if (op->n_axes == 0) /* the block has one element along the summed axes */
                node = arg;
            else if (b->in->attention && op->axes[0] != b->in->attention->keys)
                node = dt_kernel_attend_total(b, op, arg);
            else if (dt_kernel_axis(b, op->axes[0]) < (int)b->k->n_outer)
                node = reduction_after_rows(b, op, arg);
            else
                node = reduction(b, op->reduce, op->out[0]->type->dtype, arg);
            break;
        }
        case DT_OP_DOT: {
            args[0] = dt_kernel_value(b, op->in[0]);
            args[1] = dt_kernel_value(b, op->in[1]);
            uint32_t product = dt_kernel_map(b, DT_OP_MUL, DT_F32, 2, args);
            node = reduction(b, DT_REDUCE_SUM, op->out[0]->type->dtype, product);
            break;
        }
        case DT_OP_FOLD: {
            uint32_t arg = dt_kernel_fold(b, op);
            node = reduction(b, DT_REDUCE_SUM, op->out[0]->type->dtype, arg);
            break;
        }
        case DT_OP_SCATTER_ADD: node = one_hot(b, op); break;
        default: node = dt_kernel_index_map(b, op);
        }
    }
    b->op = outer_op;
    return node;
}

/* The node that computes or loads value. */
uint32_t dt_kernel_value(DtKBuild *b, const DtValue *value)
{
    for (uint32_t i = 0; i < b->known.n; i++)
        if (b->known.at[i].value == value)
            return b->known.at[i].node;
    const DtOp *op = value->op;
    uint32_t node;
    if (op && op->kind == DT_OP_CONST)
        node = dt_kernel_number(b, value->type->dtype, op->number);
    else if (op && op->kind == DT_OP_IOTA)
        node = iota_node(b, op);
    else if (in_group(b, op) || dt_op_is_inline(value))
        node = op_node(b, op);
    else if (!op && b->in->is_index && b->in->is_index(b->in->context, value))
        node = dt_kernel_node(b, (DtKNode){.kind = DT_KNODE_INT, .dtype = DT_I32,
                                           .integer = integer(b, (DtKInt){.kind = DT_KINT_INDEX})});
    else
        node = load_plain(b, value);
    DT_PUSH(b->in->arena, b->known, ((DtKKnown){value, node}));
    return node;
}

/* ---- stores ---- */

DtKStore dt_kernel_store(DtKBuild *b, const DtKOutput *out, uint32_t node)
{
    DtKStore store = {.node = node, .accumulate = out->accumulate, .only = DT_KNONE};
    store.pointer = dt_kernel_pointer(b, out->value, out->view, true);
    for (uint32_t d = 0; d < out->view->rank; d++) {
        int at = dt_kernel_axis(b, out->view->axis[d]);
        if (at >= 0)
            store.stride[at] = out->view->stride[d];
        else if (out->view->extent[d] > 1)
            dt_kernel_fail(b, out->value->op, "writes along an axis outside the space");
    }
    return store;
}

/* Scatter: the value and its indices are nodes; the target index of each axis is the value of a
 * node. */
static void scatter(DtKBuild *b, const DtOp *op)
{
    const DtKOutput *out = &b->in->outputs[0];
    b->op = op;
    uint32_t x = dt_kernel_value(b, op->in[0]);
    DtKStore store = {.node = x, .pointer = 0, .only = DT_KNONE};
    b->k->target = DT_NEW_ARRAY(b->in->arena, DtKIndex, op->n_axes + 1u);
    for (uint32_t i = 0; i < op->n_axes; i++)
        b->k->target[i] = (DtKIndex){.node = dt_kernel_value(b, op->in[i + 1]), .guard = true,
                                     .bases = DT_KNONE};
    store.pointer = dt_kernel_pointer(b, out->value, out->view, true);
    b->k->n_target = op->n_axes;
    for (uint32_t d = 0; d < out->view->rank; d++) {
        const char *axis = out->view->axis[d];
        bool target = false;
        for (uint32_t i = 0; i < op->n_axes; i++)
            if (op->axes[i] == axis) {
                DtKIndex *index = &b->k->target[i];
                index->stride = out->view->stride[d];
                index->extent = out->view->extent[d];
                index->bases = dt_kernel_base(b, op->out[0]->type, axis);
                target = true;
            }
        int at = dt_kernel_axis(b, axis);
        if (!target && at >= 0)
            store.stride[at] = out->view->stride[d];
    }
    DT_PUSH(b->in->arena, b->k->stores, store);
}

static void build_outputs(DtKBuild *b)
{
    DtKernel *k = b->k;
    const DtOp *op = b->in->ops[b->in->n_ops - 1];
    if (b->in->n_ops == 1 && !dt_op_is_one_hot(op) &&
        (op->kind == DT_OP_SCAN || op->kind == DT_OP_TOPK || op->kind == DT_OP_SCATTER_ADD)) {
        k->special = op;
        if (op->kind == DT_OP_SCATTER_ADD) {
            k->pattern = DT_KPATTERN_SCATTER;
            scatter(b, op);
            return;
        }
        k->pattern = op->kind == DT_OP_SCAN ? DT_KPATTERN_SCAN : DT_KPATTERN_TOPK;
        uint32_t node = dt_kernel_value(b, op->in[0]);
        for (uint32_t i = 0; i < b->in->n_outputs; i++) {
            DtKStore store = {.node = node, .only = DT_KNONE};
            if (op->kind == DT_OP_TOPK) { /* axis c of the result has its stride at the inner
                                           * axis */
                DtView *view = DT_NEW(b->in->arena, DtView);
                *view = *b->in->outputs[i].view;
                for (uint32_t d = 0; d < view->rank; d++)
                    if (view->axis[d] == op->axes[1])
                        view->axis[d] = op->axes[0];
                DtKOutput out = b->in->outputs[i];
                out.view = view;
                store = dt_kernel_store(b, &out, node);
            } else {
                store = dt_kernel_store(b, &b->in->outputs[i], node);
            }
            DT_PUSH(b->in->arena, k->stores, store);
        }
        return;
    }
    for (uint32_t i = 0; i < b->in->n_outputs; i++) {
        uint32_t node = dt_kernel_value(b, b->in->outputs[i].value);
        DT_PUSH(b->in->arena, k->stores, dt_kernel_store(b, &b->in->outputs[i], node));
    }
}

/* ---- loop pattern, merged axes ---- */

static uint32_t inner_mask(const DtKernel *k)
{
    return ((1u << k->n_axes) - 1) & ~((1u << k->n_outer) - 1);
}

/* COLUMN if the reductions need one phase, nothing is stored along inner axes, and memory runs
 * along the last outer axis rather than along the last inner one. That is so if more loads are of
 * neighbours along columns, or equally many and fewer of distant elements. Loads that are equal for
 * all lanes do not count. */
static DtKPattern pattern_of(const DtKernel *k)
{
    uint32_t inner = inner_mask(k);
    if (!inner || k->n_outer == 0)
        return DT_KPATTERN_ROW;
    for (uint32_t i = 0; i < k->nodes.n; i++)
        if (k->nodes.at[i].after_rows)
            return DT_KPATTERN_ROW;
    for (uint32_t i = 0; i < k->stores.n; i++) {
        const DtKNode *node = &k->nodes.at[k->stores.at[i].node];
        if ((node->axes & inner) || node->phase > 1)
            return DT_KPATTERN_ROW;
        for (uint32_t a = k->n_outer; a < k->n_axes; a++) /* the store has elements along an inner
                                                           * axis: an expanded value */
            if (k->stores.at[i].stride[a])
                return DT_KPATTERN_ROW;
    }
    const uint32_t along_row = k->n_axes - 1, along_column = k->n_outer - 1;
    /* loads of neighbouring and of distant elements */
    int row = 0, column = 0, apart_row = 0, apart_column = 0;
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        const DtKNode *node = &k->nodes.at[i];
        if (node->kind != DT_KNODE_LOAD || !(node->axes & inner))
            continue;
        row += node->coef[along_row] == 1;
        column += node->coef[along_column] == 1;
        apart_row += node->coef[along_row] > 1;
        apart_column += node->coef[along_column] > 1;
    }
    const bool columns_better = k->extent[along_row] < 16 || apart_row > apart_column;
    return column > row || (column == row && columns_better && k->extent[along_column] >= 16)
               ? DT_KPATTERN_COLUMN
               : DT_KPATTERN_ROW;
}

/* Whether axes a and a + 1 can be one loop: every address steps along a like along the whole of a +
 * 1. */
static bool collapsible(const DtKernel *k, uint32_t a)
{
    int64_t n = k->extent[a + 1];
    for (uint32_t i = 0; i < k->nodes.n; i++) {
        const DtKNode *node = &k->nodes.at[i];
        if (node->kind == DT_KNODE_IOTA || node->kind == DT_KNODE_RNG ||
            node->kind == DT_KNODE_LOAD)
            if (node->coef[a] != node->coef[a + 1] * n)
                return false;
        for (uint32_t d = 0; d < node->n_index; d++)
            if (node->index[d].coef[a] != node->index[d].coef[a + 1] * n)
                return false;
    }
    for (uint32_t i = 0; i < k->stores.n; i++)
        if (k->stores.at[i].stride[a] != k->stores.at[i].stride[a + 1] * n)
            return false;
    return true;
}

static void remove_axis(int64_t *coef, uint32_t a)
{
    memmove(&coef[a], &coef[a + 1], sizeof coef[0] * (DT_MAX_RANK - 1 - a));
    coef[DT_MAX_RANK - 1] = 0;
}

static uint32_t remove_bit(uint32_t bits, uint32_t a)
{
    uint32_t low = bits & ((1u << a) - 1), both = (bits >> a) & 3;
    return low | ((uint32_t)(both != 0) << a) | ((bits >> (a + 2)) << (a + 1));
}

static void collapse(DtKBuild *b)
{
    DtKernel *k = b->k;
    for (uint32_t a = 0; a + 1 < k->n_axes;) {
        if (a + 1 == k->n_outer || !collapsible(k, a)) {
            a++;
            continue;
        }
        k->extent[a + 1] *= k->extent[a];
        k->axis[a + 1] = dt_intern_printf("%s.%s", k->axis[a], k->axis[a + 1]);
        for (uint32_t i = 0; i < k->nodes.n; i++) {
            DtKNode *node = &k->nodes.at[i];
            remove_axis(node->coef, a);
            node->axes = remove_bit(node->axes, a);
            for (uint32_t d = 0; d < node->n_index; d++)
                remove_axis(node->index[d].coef, a);
        }
        for (uint32_t i = 0; i < k->stores.n; i++)
            remove_axis(k->stores.at[i].stride, a);
        memmove(&k->axis[a], &k->axis[a + 1], sizeof k->axis[0] * (k->n_axes - a - 1));
        memmove(&k->extent[a], &k->extent[a + 1], sizeof k->extent[0] * (k->n_axes - a - 1));
        k->n_axes--;
        if (a < k->n_outer)
            k->n_outer--;
    }
}

DtKernel *dt_kernel_build(const DtKernelInput *input)
{
    DtKBuild build = {.in = input, .k = DT_NEW(input->arena, DtKernel)};
    build.k->pattern = DT_KPATTERN_ROW;
    if (input->attention)
        return dt_kernel_attend(&build) ? build.k : NULL;
    space_of(&build);
    order_space(&build);
    build_outputs(&build);
    if (!build.k->special) {
        collapse(&build);
        build.k->pattern = pattern_of(build.k);
        dt_kernel_pieces(build.k, input->choose_order ? DT_KROW_PIECE : 64);
    }
    if (input->choose_order)
        input->choose_order(build.k);
    const DtOp *op = span_op(&build);
    build.k->span = op->span;
    dt_kernel_price(build.k, mesh_of(&build));
    return build.k;
}
