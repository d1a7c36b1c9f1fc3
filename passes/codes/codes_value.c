/* SPDX-License-Identifier: Apache-2.0 */
/* The expressions of codes. With m = 127 (8 bits) or 7 (4 bits):
 *
 *   scale = max |w| over the group / m
 *   code  = w / scale, rounded to the nearest integer (ties to even), + m + 1
 *   w'    = (code - (m + 1)) scale
 *
 * All of it in f32. A group of zeros has scale 0, and codes that stand for zeros. */
#include "passes/codes/codes.h"

#include <string.h>

static double most(const DtCodesOf *of) { return of->wish->bits == 8 ? 127 : 7; }
static int64_t in_extent(const DtCodesOf *of) { return of->group * of->wish->bits / 8; }

static DtValue *number(DtBuilder *b, double value)
{
    return dt_graph_constant(b, DT_F32, value);
}

/* ---- types ---- */

const DtType *dt_codesvalue_type(const DtCodesOf *of, bool scales)
{
    const DtType *type = of->from->type;
    const uint32_t loops = of->param->n_loops;
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < loops; i++)
        axes[n++] = type->axes[i];
    for (uint32_t summed = 0; summed < 2; summed++)
        for (uint32_t i = loops; i < type->rank; i++)
            if (i != of->axis && (of->summed[i] == of->products) == summed)
                axes[n++] = type->axes[i];
    axes[n] = type->axes[of->axis];
    axes[n++].extent /= of->group;
    if (!scales)
        axes[n++] = (DtAxis){.name = of->in, .extent = in_extent(of)};
    return dt_type_plain(scales ? DT_F32 : DT_U8, n, axes);
}

/* The type with the axis `name` in front of the last one (or as the last one). */
static const DtType *with_axis(const DtType *type, DtAxis axis, bool last, DtDtype dtype)
{
    DtAxis axes[DT_MAX_RANK];
    const uint32_t at = last ? type->rank : type->rank - 1u;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    axes[at + !last] = axes[at];
    axes[at] = axis;
    return dt_type_plain(dtype, type->rank + 1u, axes);
}

/* ---- from weights ---- */

/* x with its axis `axis` as groups, halves of a group (4 bits), and elements. */
static DtValue *grouped(DtBuilder *b, const DtCodesOf *of, DtValue *x, const char *axis)
{
    const int64_t groups = dt_type_extent(x->type, axis) / of->group;
    DtRelabel r = {.n_from = 1, .from = {axis}, .n_to = 2, .to = {axis, of->in},
                   .to_extent = {groups, of->group}};
    if (of->wish->bits == 4)
        r = (DtRelabel){.n_from = 1, .from = {axis}, .n_to = 3, .to = {axis, of->half, of->in},
                        .to_extent = {groups, 2, of->group / 2}};
    return dt_graph_relabel(b, x, 1, &r, NULL);
}

/* One half of each group of what `grouped` made; with 8 bits all of it. */
static DtValue *half_of(DtBuilder *b, const DtCodesOf *of, DtValue *x, int64_t half)
{
    const DtRelabel drop = {.n_from = 1, .from = {of->half}};
    return of->wish->bits == 8
               ? x
               : dt_graph_relabel(b, dt_graph_slice(b, x, of->half, half, 1, 1), 1, &drop, NULL);
}

static uint32_t halves(const DtCodesOf *of) { return of->wish->bits == 4 ? 2 : 1; }

/* Half of the weights, in the order of codes. */
static DtValue *half_of_weight(DtBuilder *b, const DtCodesOf *of, DtValue *weight, int64_t half)
{
    DtValue *x = grouped(b, of, weight, of->from->type->axes[of->axis].name);
    x = dt_graph_reorder(b, half_of(b, of, x, half),
                         dt_type_with_dtype(of->codes->type, weight->type->dtype));
    return dt_graph_cast(b, x, DT_F32);
}

DtValue *dt_codesvalue_scales(DtBuilder *b, const DtCodesOf *of, DtValue *weight)
{
    DtValue *largest = NULL;
    for (uint32_t h = 0; h < halves(of); h++) {
        DtValue *size = dt_graph_unary(b, DT_OP_ABS, half_of_weight(b, of, weight, h)),
                *one = dt_graph_reduce(b, DT_REDUCE_MAX, size, 1, &of->in);
        largest = largest ? dt_graph_binary(b, DT_OP_MAX, largest, one) : one;
    }
    return dt_graph_binary(b, DT_OP_DIV, largest, number(b, most(of)));
}

/* The nearest integer, of two the even one. All steps are exact in f32, but for a difference that
 * rounds to 1 and is more than 1/2 in either case. */
static DtValue *rounded(DtBuilder *b, DtValue *x)
{
    DtValue *below = dt_graph_unary(b, DT_OP_FLOOR, x),
            *part = dt_graph_binary(b, DT_OP_SUB, x, below), *half = number(b, 0.5),
            *twice = dt_graph_unary(b, DT_OP_FLOOR, dt_graph_binary(b, DT_OP_MUL, below, half)),
            *odd = dt_graph_binary(b, DT_OP_SUB, below,
                                   dt_graph_binary(b, DT_OP_MUL, twice, number(b, 2)));
    DtValue *above = dt_graph_binary(b, DT_OP_LT, half, part),
            *tie = dt_graph_binary(b, DT_OP_AND, dt_graph_binary(b, DT_OP_EQ, part, half),
                                   dt_graph_binary(b, DT_OP_EQ, odd, number(b, 1)));
    DtValue *up = dt_graph_cast(b, dt_graph_binary(b, DT_OP_OR, above, tie), DT_F32);
    return dt_graph_binary(b, DT_OP_ADD, below, up);
}

/* The codes of half of the weights as integers. */
static DtValue *code_of(DtBuilder *b, DtValue *x, const DtCodesOf *of, DtValue *scales)
{
    DtValue *is_zero = dt_graph_binary(b, DT_OP_EQ, scales, number(b, 0));
    DtValue *by = dt_graph_where(b, is_zero, number(b, 1), scales);
    DtValue *code = rounded(b, dt_graph_binary(b, DT_OP_DIV, x, by));
    /* beyond the ends only where the scale is so small that it is rounded itself */
    code = dt_graph_binary(b, DT_OP_MAX, code, number(b, -most(of)));
    code = dt_graph_binary(b, DT_OP_MIN, code, number(b, most(of)));
    return dt_graph_cast(b, dt_graph_binary(b, DT_OP_ADD, code, number(b, most(of) + 1)), DT_I32);
}

DtValue *dt_codesvalue_codes(DtBuilder *b, const DtCodesOf *of, DtValue *weight, DtValue *scales)
{
    DtValue *code = code_of(b, half_of_weight(b, of, weight, 0), of, scales);
    if (of->wish->bits == 4) {
        DtValue *upper = code_of(b, half_of_weight(b, of, weight, 1), of, scales);
        upper = dt_graph_binary(b, DT_OP_MUL, upper, dt_graph_constant(b, DT_I32, 16));
        code = dt_graph_binary(b, DT_OP_ADD, code, upper);
    }
    return dt_graph_cast(b, code, DT_U8);
}

/* ---- to weights ---- */

/* The weights that codes, as integers, stand for. */
static DtValue *weights(DtBuilder *b, const DtCodesRead *read, DtValue *code)
{
    DtValue *zero = number(b, most(read->of) + 1);
    DtValue *x = dt_graph_binary(b, DT_OP_SUB, dt_graph_cast(b, code, DT_F32), zero);
    return dt_graph_map(b, DT_OP_MUL, 2, (DtValue *[]){x, read->scales}, x->type);
}

/* Half of the codes as integers. */
static DtValue *half_codes(DtBuilder *b, const DtCodesRead *read, DtValue *codes, uint32_t half)
{
    DtValue *code = dt_graph_cast(b, codes, DT_I32);
    return read->of->wish->bits == 8
               ? code
               : dt_graph_binary(b, half ? DT_OP_FLOORDIV : DT_OP_MOD, code,
                                 dt_graph_constant(b, DT_I32, 16));
}

DtValue *dt_codesvalue_restore(DtBuilder *b, const DtCodesRead *read)
{
    const DtCodesOf *of = read->of;
    const char *axis = read->names[of->axis];
    DtRelabel merge = {.n_from = 2, .from = {axis, of->in}, .n_to = 1, .to = {axis}};
    DtValue *code = half_codes(b, read, read->codes, 0);
    if (of->wish->bits == 4) {
        const DtAxis half = {.name = of->half, .extent = 2};
        DtValue *is_first = dt_graph_binary(b, DT_OP_EQ, dt_graph_iota(b, half),
                                            dt_graph_constant(b, DT_I32, 0));
        code = dt_graph_map(b, DT_OP_WHERE, 3,
                            (DtValue *[]){is_first, code, half_codes(b, read, read->codes, 1)},
                            with_axis(code->type, half, false, DT_I32));
        merge = (DtRelabel){.n_from = 3, .from = {axis, of->half, of->in}, .n_to = 1, .to = {axis}};
    }
    DtValue *made = dt_graph_cast(b, weights(b, read, code), read->dtype);
    return dt_graph_relabel(b, made, 1, &merge, NULL);
}

/* The axes of the product's result, then those that it sums, the grouped one and its elements
 * last. */
static const DtType *space_of(const DtCodesRead *read, const DtOp *dot, const DtType *x)
{
    const DtType *to = dot->out[0]->type;
    const char *axis = read->names[read->of->axis];
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = to->rank;
    memcpy(axes, to->axes, to->rank * sizeof axes[0]);
    for (uint32_t i = 0; i < dot->n_axes; i++)
        if (dot->axes[i] != axis)
            axes[n++] = x->axes[dt_type_find(x, dot->axes[i])];
    axes[n++] = x->axes[dt_type_find(x, axis)];
    axes[n++] = x->axes[dt_type_find(x, read->of->in)];
    return dt_type_plain(DT_F32, n, axes);
}

DtValue *dt_codesvalue_product(DtBuilder *b, const DtCodesRead *read, const DtOp *dot, DtValue *x)
{
    const DtCodesOf *of = read->of;
    const char *axes[DT_MAX_RANK];
    DtValue *sum = NULL;
    DtValue *all = grouped(b, of, dt_graph_cast(b, x, DT_F32), read->names[of->axis]);
    for (uint32_t h = 0; h < halves(of); h++) {
        DtValue *part = half_of(b, of, all, h);
        const DtType *space = space_of(read, dot, part->type);
        /* a kernel consists of ops with all axes: what lacks some would be another kernel's */
        DtValue *codes = dt_graph_expand(b, read->codes, dt_type_with_dtype(space, DT_U8));
        DtValue *in[] = {part, weights(b, read, half_codes(b, read, codes, h))};
        DtValue *one = dt_graph_map(b, DT_OP_MUL, 2, in, space);
        sum = sum ? dt_graph_binary(b, DT_OP_ADD, sum, one) : one;
    }
    memcpy(axes, dot->axes, dot->n_axes * sizeof axes[0]);
    axes[dot->n_axes] = of->in;
    DtValue *made = dt_graph_reduce(b, DT_REDUCE_SUM, sum, dot->n_axes + 1u, axes);
    return dt_graph_cast(b, made, dot->out[0]->type->dtype);
}
