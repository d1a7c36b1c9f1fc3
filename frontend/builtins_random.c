/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: initialisers, draws of a step, dropout. Every draw is made of uniform numbers
 * (`rng`), whose site is the instance path and the ordinal among the draws of the layer
 * (dt_frame_site). */
#include "frontend/lower_internal.h"

#include <math.h>
#include <string.h>

static bool check_std(DtLower *l, const DtBuiltinCall *c, uint32_t arg, double std)
{
    if (std >= 0 && !isinf(std))
        return true;
    dt_report_error(l, E0406, c->arg[arg]->span,
                    "the standard deviation is %g; it cannot be negative or infinite", std);
    return false;
}

static bool check_range(DtLower *l, const DtBuiltinCall *c, double lo, double hi)
{
    if (lo < hi && isfinite(lo) && isfinite(hi))
        return true;
    dt_report_error(l, E0406, c->expr->span, "the range from %g to %g is empty or infinite", lo,
                    hi);
    return false;
}

/* ---- initialisers ---- */

static DtVal init_val(DtLower *l, const DtBuiltinCall *c, DtInit init)
{
    if (l->in_init)
        return (DtVal){.kind = DT_VAL_INIT, .init = init};
    DtDiag *d = dt_report_error(l, E0407, c->expr->span,
                                "`%s` is an initialiser of `param` and `state`, not a value",
                                c->builtin->name);
    if (init.kind == DT_INIT_CONST)
        dt_diag_help(d, "a constant broadcasts: write `%g`", init.a);
    else
        dt_diag_help(
            d, "random numbers that are drawn anew in every step have axes: `%s[batch, ...](%s)`",
            c->builtin->name, init.kind == DT_INIT_NORMAL ? "mean, std" : "lo, hi");
    return dt_val_error();
}

DtVal dt_builtin_zeros(DtLower *l, DtBuiltinCall *c)
{
    return init_val(l, c, (DtInit){.kind = DT_INIT_CONST, .a = 0});
}
DtVal dt_builtin_ones(DtLower *l, DtBuiltinCall *c)
{
    return init_val(l, c, (DtInit){.kind = DT_INIT_CONST, .a = 1});
}

DtVal dt_builtin_normal(DtLower *l, DtBuiltinCall *c)
{
    double std;
    if (!dt_val_number_of(l, &c->val[0], c->arg[0], "the standard deviation", &std) ||
        !check_std(l, c, 0, std))
        return dt_val_error();
    return init_val(l, c, (DtInit){.kind = DT_INIT_NORMAL, .a = std});
}

DtVal dt_builtin_uniform(DtLower *l, DtBuiltinCall *c)
{
    double lo, hi;
    bool ok = dt_val_number_of(l, &c->val[0], c->arg[0], "the lower end", &lo);
    ok &= dt_val_number_of(l, &c->val[1], c->arg[1], "the upper end", &hi);
    return ok && check_range(l, c, lo, hi)
               ? init_val(l, c, (DtInit){.kind = DT_INIT_UNIFORM, .a = lo, .b = hi})
               : dt_val_error();
}

/* ---- draws ---- */

/* Returns the type of a draw, which has the axes in brackets: each with the extent that it has in
 * arguments, or its own. In the rule of an optimizer the axes of loops come first, since each
 * iteration draws anew. NULL after a report. */
static const DtType *draw_type(DtLower *l, DtBuiltinCall *c)
{
    DtAxisList all = dt_builtin_all_axes(l, c);
    DtAxis axes[DT_MAX_RANK];
    const DtStore *of = l->now && l->now->frame->is_rule ? l->updated : NULL;
    const uint32_t loops = of ? of->n_loops : 0;
    if (!l->now) {
        dt_report_error(l, E0401, c->expr->span, "`%s` is a tensor, and here a constant is needed",
                        c->builtin->name);
        return NULL;
    }
    if (loops + all.names.n > DT_MAX_RANK) {
        dt_report_error(l, E0312, c->expr->span, "the result would have more than %d axes",
                        DT_MAX_RANK);
        return NULL;
    }
    for (uint32_t i = 0; i < loops; i++)
        axes[i] = (DtAxis){.name = of->type->axes[i].name, .extent = of->type->axes[i].extent};
    for (uint32_t i = 0; i < all.names.n; i++) {
        DtAxis *axis = &axes[loops + i];
        *axis = (DtAxis){.name = all.names.at[i], .extent = -1};
        for (uint32_t k = 0; k < c->n && axis->extent < 0; k++)
            if (c->arg[k] && c->val[k].kind == DT_VAL_TENSOR)
                axis->extent = dt_type_extent(c->val[k].tensor.value->type, axis->name);
        if (axis->extent < 0)
            axis->extent = dt_axes_extent(l, axis->name, all.span,
                                          dt_arena_printf(l->arena, "`%s`", c->builtin->name));
        if (axis->extent < 0)
            return NULL;
    }
    return dt_axes_type(l, c->expr->span, DT_F32, loops + all.names.n, axes);
}

/* Appends a draw of random f32 numbers, uniform in 0 .. 1 without 1, at this site (the name that
 * numbers the draw). */
static DtValue *draw(DtLower *l, const DtType *type, const char *site)
{
    DtTrainConfig *train = l->program->train;
    DtValue *x = dt_graph_rng(&l->now->frame->b, type, site);
    if (train && train->draws_one)
        x->op->draws = 1;
    if (train)
        train->draws = x->op->draws;
    return x;
}

static DtValue *uniform_draw(DtLower *l, const DtBuiltinCall *c, const DtType *type)
{
    return draw(l, type, dt_frame_site(l, l->now->frame, c->builtin->name));
}

/* Applies an operation (add, sub or mul) to two constants, or to tensors. */
static DtVal combine(DtLower *l, DtOpKind kind, DtVal a, DtVal b)
{
    if (!dt_val_is_constant(&a) || !dt_val_is_constant(&b)) {
        DtVal pair[2] = {a, b};
        return dt_val_map(l, kind, pair, NULL, 2, true);
    }
    double x = dt_val_number(&a), y = dt_val_number(&b);
    return dt_val_float(kind == DT_OP_SUB ? x - y : kind == DT_OP_MUL ? x * y : x + y);
}

static DtVal argument(DtLower *l, const DtBuiltinCall *c, uint32_t i, double otherwise, bool *ok)
{
    if (!c->arg[i])
        return dt_val_float(otherwise);
    *ok &= dt_val_check(l, &c->val[i], c->arg[i]);
    return c->val[i];
}

/* Returns base + scale * drawn, in the dtype of base and scale. */
static DtVal scaled(DtLower *l, DtVal base, DtVal scale, DtValue *drawn)
{
    DtVal product = combine(l, DT_OP_MUL, dt_val_of(l, drawn, true), scale);
    return dt_val_is_error(&product) ? product : combine(l, DT_OP_ADD, product, base);
}

DtVal dt_builtin_uniform_over(DtLower *l, DtBuiltinCall *c)
{
    bool ok = true;
    DtVal lo = argument(l, c, 0, 0, &ok), hi = argument(l, c, 1, 1, &ok);
    if (ok && dt_val_is_constant(&lo) && dt_val_is_constant(&hi))
        ok = check_range(l, c, dt_val_number(&lo), dt_val_number(&hi));
    const DtType *type = ok ? draw_type(l, c) : NULL;
    DtVal width = type ? combine(l, DT_OP_SUB, hi, lo) : dt_val_error();
    return dt_val_is_error(&width) ? width : scaled(l, lo, width, uniform_draw(l, c, type));
}

/* Appends a draw of standard normal numbers, made of two uniform draws (Box and Muller). The first
 * number is subtracted from 1, so that its logarithm is finite. */
static DtValue *normal_draw(DtLower *l, const DtBuiltinCall *c, const DtType *type)
{
    DtBuilder *b = &l->now->frame->b;
    DtValue *u = uniform_draw(l, c, type), *v = uniform_draw(l, c, type);
    DtValue *rest = dt_graph_binary(b, DT_OP_SUB, dt_graph_constant(b, DT_F32, 1), u);
    DtValue *square = dt_graph_binary(b, DT_OP_MUL, dt_graph_unary(b, DT_OP_LOG, rest),
                                      dt_graph_constant(b, DT_F32, -2));
    DtValue *angle =
        dt_graph_binary(b, DT_OP_MUL, v, dt_graph_constant(b, DT_F32, 6.283185307179586));
    return dt_graph_binary(b, DT_OP_MUL, dt_graph_unary(b, DT_OP_SQRT, square),
                           dt_graph_unary(b, DT_OP_COS, angle));
}

DtVal dt_builtin_normal_over(DtLower *l, DtBuiltinCall *c)
{
    bool ok = true;
    DtVal mean = argument(l, c, 0, 0, &ok), std = argument(l, c, 1, 1, &ok);
    if (ok && dt_val_is_constant(&std))
        ok = check_std(l, c, 1, dt_val_number(&std));
    const DtType *type = ok ? draw_type(l, c) : NULL;
    return type ? scaled(l, mean, std, normal_draw(l, c, type)) : dt_val_error();
}

/* Evaluates `bernoulli`: true where a uniform random number is below p. */
DtVal dt_builtin_bernoulli(DtLower *l, DtBuiltinCall *c)
{
    if (!dt_val_check(l, &c->val[0], c->arg[0]))
        return dt_val_error();
    if (dt_val_is_constant(&c->val[0])) {
        double p = dt_val_number(&c->val[0]);
        if (!(p >= 0 && p <= 1)) {
            dt_report_error(l, E0406, c->arg[0]->span, "the probability is %g; it lies in 0 .. 1",
                            p);
            return dt_val_error();
        }
    }
    const DtType *type = draw_type(l, c);
    if (!type)
        return dt_val_error();
    DtVal pair[2] = {dt_val_of(l, uniform_draw(l, c, type), false),
                     dt_val_of(l, dt_val_use(l, &c->val[0], DT_F32), false)};
    return dt_val_map(l, DT_OP_LT, pair, NULL, 2, true);
}

/* ---- dropout ---- */

/* Evaluates `dropout`: keeps an element, divided by 1 - p, where a uniform random number is at
 * least p. In evaluation nothing is dropped, but the draw gets its site, so that the sites of later
 * draws stay the same. */
DtVal dt_builtin_dropout(DtLower *l, DtBuiltinCall *c)
{
    double p;
    bool ok = dt_val_check(l, &c->val[0], c->arg[0]);
    if (!dt_val_number_of(l, &c->val[1], c->arg[1], "the rate of `dropout`", &p) || !ok)
        return dt_val_error();
    if (!(p >= 0 && p < 1)) {
        DtDiag *d =
            dt_report_error(l, E0406, c->arg[1]->span,
                            "the rate of `dropout` is %g; it lies in 0 .. 1, 1 excluded", p);
        dt_diag_note(d, "it is the probability that an element becomes 0");
        return dt_val_error();
    }
    if (c->val[0].kind != DT_VAL_TENSOR || !dt_dtype_is_float(dt_val_dtype(&c->val[0]))) {
        dt_report_error(l, E0403, c->arg[0]->span, "`dropout` needs a float tensor, and this is %s",
                        dt_report_type(l, &c->val[0]));
        return dt_val_error();
    }
    DtFrame *frame = l->now->frame;
    const char *site = dt_frame_site(l, frame, "dropout");
    if (!l->training || p == 0)
        return c->val[0];
    DtValue *x = dt_val_tensor(l, &c->val[0]);
    DtDtype dtype = x->type->dtype;
    DtValue *uniform = draw(l, dt_type_with_dtype(x->type, DT_F32), site);
    DtValue *kept =
        dt_graph_binary(&frame->b, DT_OP_LE, dt_graph_constant(&frame->b, DT_F32, p), uniform);
    DtValue *scaled =
        dt_graph_binary(&frame->b, DT_OP_MUL, x, dt_graph_constant(&frame->b, dtype, 1 / (1 - p)));
    return dt_val_of(
        l, dt_graph_where(&frame->b, kept, scaled, dt_graph_constant(&frame->b, dtype, 0)),
        c->val[0].weak);
}
