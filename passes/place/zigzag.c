/* SPDX-License-Identifier: Apache-2.0 */
/* Zigzag order: ops that must know it, by ops that do not. A rank's part is taken as it lies by a
 * relabel to an axis @ring with one place per rank (shape_axis.c), where it may be called the part
 * of a split into plain blocks. Mesh axes that split an axis before and after an exchange are taken
 * away first: what is left of the axis is in zigzag order itself. */
#include "passes/place/zigzag.h"

#include "base/intern.h"

#include <string.h>

typedef struct Zigzag {
    DtBuilder b;
    const DtMesh *mesh;
    const char *ring;
} Zigzag;

static bool differs(const DtAxis *a, const DtAxis *b)
{
    return ((a->n_split && a->zigzag) || (b->n_split && b->zigzag)) && !dt_type_same_axis(a, b);
}

/* Returns the tensor along whose axes op's indices count: a gather's table, or a scatter_add's
 * result; NULL for other ops. */
static const DtType *looked_up(const DtOp *op)
{
    return op->kind == DT_OP_GATHER        ? op->in[0]->type
           : op->kind == DT_OP_SCATTER_ADD ? op->out[0]->type
                                           : NULL;
}

static bool is_zigzag(const DtType *type, const char *axis)
{
    int d = dt_type_find(type, axis);
    return d >= 0 && type->axes[d].n_split && type->axes[d].zigzag;
}

bool dt_zigzag_is(const DtOp *op)
{
    if (op->n_out != 1)
        return false;
    const DtType *type = op->out[0]->type, *table = looked_up(op);
    for (uint32_t i = 0; table && i < op->n_axes; i++)
        if (is_zigzag(table, op->axes[i]))
            return true;
    const bool source = op->kind == DT_OP_IOTA || op->kind == DT_OP_RNG;
    for (uint32_t d = 0; d < type->rank; d++) {
        if (source && type->axes[d].n_split && type->axes[d].zigzag)
            return true;
        if (dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->n_in &&
            differs(&op->in[0]->type->axes[d], &type->axes[d]))
            return true;
    }
    return false;
}

uint32_t dt_zigzag_axes(const DtType *type)
{
    uint32_t n = 1; /* for all ranks; and for those of the mesh axes that are taken away */
    for (uint32_t d = 0; d < type->rank; d++)
        n += type->axes[d].zigzag && type->axes[d].n_split > 1;
    return n;
}

/* ---- types ---- */

static const DtType *with_axis(const DtType *type, uint32_t d, DtAxis axis)
{
    DtAxis axes[DT_MAX_RANK];
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[d] = axis;
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

/* Axis number d in plain blocks; whole. */
static const DtType *in_blocks(const DtType *type, uint32_t d)
{
    DtAxis axis = type->axes[d];
    axis.zigzag = 0;
    return with_axis(type, d, axis);
}
static const DtType *whole(const DtType *type, uint32_t d)
{
    DtAxis axis = type->axes[d];
    axis.n_split = 0;
    return with_axis(type, d, axis);
}

/* ---- positions ---- */

/* x op n. One op after the other: plans must not depend on the order in which a compiler of C
 * evaluates arguments. */
static DtValue *with(DtBuilder *b, DtOpKind kind, DtValue *x, int64_t n)
{
    DtValue *y = dt_graph_constant(b, DT_I32, (double)n);
    return dt_graph_binary(b, kind, x, y);
}

DtValue *dt_zigzag_block(DtBuilder *b, int64_t n, DtValue *rank, DtValue *is_first)
{
    DtValue *end = dt_graph_constant(b, DT_I32, (double)(2 * n - 1));
    DtValue *last = dt_graph_binary(b, DT_OP_SUB, end, rank);
    return dt_graph_where(b, is_first, rank, last);
}

DtValue *dt_zigzag_position(DtBuilder *b, int64_t n, int64_t extent, DtValue *rank, DtValue *at)
{
    int64_t half = extent / (2 * n);
    DtValue *is_first = with(b, DT_OP_LT, at, half);
    DtValue *begin = with(b, DT_OP_MUL, dt_zigzag_block(b, n, rank, is_first), half);
    return dt_graph_binary(b, DT_OP_ADD, begin, with(b, DT_OP_MOD, at, half));
}

/* Returns an axis of that name for the first n mesh axes that split `axis`: it has one element for
 * each of their ranks. */
static DtAxis parts_of(const Zigzag *z, const DtAxis *axis, uint32_t n, const char *name)
{
    DtAxis parts = {.name = name, .extent = 1, .n_split = (uint8_t)n};
    for (uint32_t s = 0; s < n; s++) {
        parts.split[s] = axis->split[s];
        parts.extent *= z->mesh->axes[axis->split[s]].size;
    }
    return parts;
}

static DtAxis ring_of(const Zigzag *z, const DtAxis *axis)
{
    return parts_of(z, axis, axis->n_split, z->ring);
}

static int64_t ranks_of(const Zigzag *z, const DtAxis *axis) { return ring_of(z, axis).extent; }

/* Returns type with axis number d replaced by two: `parts`, and the rest of the axis, split by the
 * other mesh axes. */
static const DtType *taken(const DtType *type, uint32_t d, DtAxis parts)
{
    DtAxis axes[DT_MAX_RANK], *rest = &axes[d + 1];
    memcpy(axes, type->axes, d * sizeof axes[0]);
    memcpy(rest, type->axes + d, (type->rank - d) * sizeof axes[0]);
    axes[d] = parts;
    rest->extent /= parts.extent;
    rest->n_split = (uint8_t)(rest->n_split - parts.n_split);
    memmove(rest->split, rest->split + parts.n_split, rest->n_split);
    return dt_type_make(type->dtype, type->rank + 1, axes, type->partial, (DtReduce)type->pending);
}

/* Appends the positions of the elements of each rank's part: i32[@ring, a]. */
static DtValue *own_positions(Zigzag *z, const DtAxis *axis)
{
    DtValue *rank = dt_graph_iota(&z->b, ring_of(z, axis));
    DtAxis part = {.name = axis->name, .extent = axis->extent / ranks_of(z, axis)};
    DtValue *at = dt_graph_iota(&z->b, part);
    return dt_zigzag_position(&z->b, ranks_of(z, axis), axis->extent, rank, at);
}

/* Appends the positions of the elements of all parts, one part after the other: i32[a]. */
static DtValue *all_positions(Zigzag *z, const DtAxis *axis)
{
    int64_t n = ranks_of(z, axis);
    DtValue *at = dt_graph_iota(&z->b, (DtAxis){.name = axis->name, .extent = axis->extent});
    DtValue *rank = with(&z->b, DT_OP_FLOORDIV, at, axis->extent / n);
    at = with(&z->b, DT_OP_MOD, at, axis->extent / n);
    return dt_zigzag_position(&z->b, n, axis->extent, rank, at);
}

/* Appends, for positions along the axis, their place among the parts in zigzag order: the inverse
 * of all_positions. Positions outside of the axis stay outside. */
static DtValue *place_of(Zigzag *z, const DtAxis *axis, DtValue *at)
{
    DtBuilder *b = &z->b;
    int64_t n = ranks_of(z, axis), half = axis->extent / (2 * n);
    DtValue *block = with(b, DT_OP_FLOORDIV, at, half);
    DtValue *is_first = with(b, DT_OP_LT, block, n);
    DtValue *rank = dt_zigzag_block(b, n, block, is_first);
    DtValue *first = with(b, DT_OP_MUL, rank, 2 * half);
    DtValue *second = with(b, DT_OP_ADD, first, half);
    DtValue *begin = dt_graph_where(b, is_first, first, second);
    return dt_graph_binary(b, DT_OP_ADD, begin, with(b, DT_OP_MOD, at, half));
}

static DtValue *places(Zigzag *z, const DtAxis *axis)
{
    DtAxis plain = {.name = axis->name, .extent = axis->extent};
    return place_of(z, axis, dt_graph_iota(&z->b, plain));
}

/* ---- parts ---- */

/* Appends a relabel that splits axis number d of x into `parts` and the axis within a part. */
static DtValue *take(Zigzag *z, DtValue *x, uint32_t d, DtAxis parts)
{
    const DtAxis *axis = &x->type->axes[d];
    DtRelabel entry = {.n_from = 1,
                       .n_to = 2,
                       .from = {axis->name},
                       .to = {parts.name, axis->name},
                       .to_extent = {parts.extent, axis->extent / parts.extent}};
    return dt_graph_relabel(&z->b, x, 1, &entry, taken(x->type, d, parts));
}

/* Appends a relabel that merges the axis `parts` of x with the axis after it, to a value of this
 * type. */
static DtValue *put(Zigzag *z, DtValue *x, const char *parts, const DtType *type, uint32_t d)
{
    const char *axis = type->axes[d].name;
    DtRelabel entry = {.n_from = 2,
                       .n_to = 1,
                       .from = {parts, axis},
                       .to = {axis},
                       .to_extent = {type->axes[d].extent}};
    return dt_graph_relabel(&z->b, x, 1, &entry, type);
}

/* Appends the value of this type that has the parts x, of which @ring counts the ranks. */
static DtValue *join(Zigzag *z, DtValue *x, const DtType *type, uint32_t d)
{
    return put(z, x, z->ring, type, d);
}

/* Appends the value of this type whose parts are those of x; just the order differs in which both
 * split axis d. */
static DtValue *as(Zigzag *z, DtValue *x, const DtType *type, uint32_t d)
{
    return join(z, take(z, x, d, ring_of(z, &type->axes[d])), type, d);
}

static DtValue *look_up(Zigzag *z, DtValue *x, const char *axis, DtValue *index)
{
    return dt_graph_gather(&z->b, x, 1, &axis, &index);
}

/* Appends each rank's part, in zigzag order, of axis d of x, which is whole there. */
static DtValue *own_part(Zigzag *z, DtValue *x, const DtType *type, uint32_t d)
{
    const DtAxis *axis = &type->axes[d];
    return join(z, look_up(z, x, axis->name, own_positions(z, axis)), type, d);
}

/* ---- ops ---- */

static DtValue *source(Zigzag *z, const DtOp *op)
{
    const DtType *type = op->out[0]->type, *plain = type;
    if (op->kind == DT_OP_IOTA)
        return join(z, own_positions(z, &type->axes[0]), type, 0);
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->axes[d].n_split && type->axes[d].zigzag)
            plain = whole(plain, d);
    DtValue *x = dt_graph_rng(&z->b, plain, op->text);
    x->op->number = op->number;
    for (uint32_t d = 0; d < type->rank; d++)
        if (type->axes[d].n_split && type->axes[d].zigzag)
            x = own_part(z, x, with_axis(x->type, d, type->axes[d]), d);
    return x;
}

/* op from x to this type, which have no mesh axes of an axis that changes in common. */
static DtValue *exchange_all(Zigzag *z, const DtOp *op, DtValue *x, const DtType *to)
{
    const DtType *from = x->type, *made = to;
    for (uint32_t d = 0; d < from->rank; d++) {
        const DtAxis *lost = &from->axes[d], *gained = &to->axes[d];
        if (!differs(lost, gained))
            continue;
        made = in_blocks(made, d);
        if (op->kind == DT_OP_SHARD)
            x = own_part(z, x, with_axis(x->type, d, *gained), d);
        else if (lost->n_split)
            x = as(z, x, in_blocks(x->type, d), d);
        else
            x = dt_graph_reorder(&z->b, look_up(z, x, gained->name, all_positions(z, gained)),
                                 x->type);
    }
    if (op->kind == DT_OP_SHARD)
        return x;
    x = dt_graph_comm(&z->b, op->kind, x, op->mesh, made);
    x->op->text = op->text;
    x->op->reduce = op->reduce;
    for (uint32_t d = 0; d < from->rank; d++) {
        const DtAxis *lost = &from->axes[d], *gained = &to->axes[d];
        if (!differs(lost, gained))
            continue;
        if (gained->n_split)
            x = as(z, x, with_axis(x->type, d, *gained), d);
        else
            x = dt_graph_reorder(&z->b, look_up(z, x, lost->name, places(z, lost)), x->type);
    }
    return x;
}

static uint32_t common_splits(const DtAxis *a, const DtAxis *b)
{
    uint32_t n = 0;
    while (n < a->n_split && n < b->n_split && a->split[n] == b->split[n])
        n++;
    return n;
}

static DtValue *exchange(Zigzag *z, const DtOp *op, DtValue *x)
{
    const DtType *from = op->in[0]->type, *to = op->out[0]->type;
    const DtType *types[DT_MAX_RANK]; /* of the result, before parts were taken away */
    uint32_t at[DT_MAX_RANK], n = 0;
    const char *names[DT_MAX_RANK];
    for (uint32_t d = 0; d < from->rank; d++) {
        const DtAxis *lost = &from->axes[d], *gained = &op->out[0]->type->axes[d];
        const uint32_t common = common_splits(lost, gained);
        if (!differs(lost, gained) || common == 0)
            continue;
        const DtAxis parts = parts_of(z, lost, common, dt_intern_printf("@ring.%s", lost->name));
        types[n] = to, at[n] = d + n, names[n] = parts.name;
        to = taken(to, at[n], parts);
        x = take(z, x, at[n++], parts);
    }
    x = exchange_all(z, op, x, to);
    while (n-- > 0)
        x = put(z, x, names[n], types[n], at[n]);
    return x;
}

/* Limits positions to -1 for all those before the axis, and to its extent for all those after it,
 * since place_of multiplies them. */
static DtValue *near_axis(Zigzag *z, const DtAxis *axis, DtValue *at)
{
    at = with(&z->b, DT_OP_MAX, at, -1);
    return with(&z->b, DT_OP_MIN, at, axis->extent);
}

/* Appends a gather or scatter_add along zigzag axes as one along plain blocks of the same parts,
 * with indices translated to places among the parts. */
static DtValue *lookup(Zigzag *z, const DtOp *op, DtValue **in)
{
    const DtType *table = looked_up(op), *made = op->out[0]->type;
    DtValue wished = *op->out[0], *out = &wished;
    DtOp draft = *op;
    for (uint32_t i = 0; i < op->n_axes; i++) {
        if (!is_zigzag(table, op->axes[i]))
            continue;
        const uint32_t d = (uint32_t)dt_type_find(table, op->axes[i]);
        in[1 + i] = place_of(z, &table->axes[d], near_axis(z, &table->axes[d], in[1 + i]));
        if (op->kind == DT_OP_GATHER)
            in[0] = as(z, in[0], in_blocks(in[0]->type, d), d);
        else
            made = in_blocks(made, d);
    }
    wished.type = made;
    draft.out = &out;
    DtValue *y = dt_graph_copy(&z->b, &draft, in)->out[0];
    for (uint32_t d = 0; op->kind == DT_OP_SCATTER_ADD && d < made->rank; d++)
        if (!dt_type_same_axis(&y->type->axes[d], &op->out[0]->type->axes[d]))
            y = as(z, y, with_axis(y->type, d, op->out[0]->type->axes[d]), d);
    return y;
}

DtFunc *dt_zigzag_expand(const DtOp *op, DtModule *module)
{
    DtFunc *made =
        dt_graph_func(module, dt_intern_printf("%s.zigzag", dt_op_info[op->kind].text), DT_FUNC_FN);
    Zigzag zigzag = {.b = {.func = made, .span = op->span, .path = op->path},
                     .mesh = &module->mesh,
                     .ring = dt_intern("@ring")},
           *z = &zigzag;
    DtValue **in = DT_NEW_ARRAY(module->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = dt_graph_arg(made, op->in[i]->type, op->in[i]->name);
    DtValue *y = !op->n_in       ? source(z, op)
                 : looked_up(op) ? lookup(z, op, in)
                                 : exchange(z, op, in[0]);
    dt_graph_return(made, dt_graph_reorder(&z->b, y, op->out[0]->type));
    return made;
}
