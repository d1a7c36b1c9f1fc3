/* SPDX-License-Identifier: Apache-2.0 */
/* Cotangents of scalar maps: y = f(x, ...) elementwise, so the cotangent of x is that of y times
 * the derivative of f. Broadcasting needs no care here: what has more axes than the operand is
 * summed by the driver, which also fits the order of axes.
 *
 * At corners the language chooses (manual, "gradients at corners"): `abs` has slope 0 at 0; of
 * equal operands `max` and `min` pass the cotangent to the second; `where` selects, so that the
 * branch not taken receives exactly 0 even if its cotangent is infinite or not a number.
 *
 * Where two operands of an op are made, they are made in statements of their own: C leaves the
 * order of arguments open, and plans must not depend on the compiler that built dtc. */
#include "passes/grad/diff.h"

#include <math.h>

static DtValue *number(DtVjp *v, double x)
{
    return dt_graph_constant(&v->b, v->cotangent[0]->type->dtype, x);
}
static DtValue *unary(DtVjp *v, DtOpKind kind, DtValue *x)
{
    return dt_graph_unary(&v->b, kind, x);
}
static DtValue *binary(DtVjp *v, DtOpKind kind, DtValue *x, DtValue *y)
{
    return dt_graph_binary(&v->b, kind, x, y);
}
static DtValue *mul(DtVjp *v, DtValue *x, DtValue *y) { return binary(v, DT_OP_MUL, x, y); }

void dt_vjp_neg(DtVjp *v) { v->ret[0] = unary(v, DT_OP_NEG, v->cotangent[0]); }

void dt_vjp_abs(DtVjp *v)
{
    DtValue *g = v->cotangent[0], *x = dt_diff_in(v, 0), *zero = number(v, 0);
    DtValue *minus = unary(v, DT_OP_NEG, g), *negative = binary(v, DT_OP_LT, x, zero);
    DtValue *below = dt_graph_where(&v->b, negative, minus, zero);
    v->ret[0] = dt_graph_where(&v->b, binary(v, DT_OP_LT, zero, x), g, below);
}

void dt_vjp_exp(DtVjp *v) { v->ret[0] = mul(v, v->cotangent[0], dt_diff_out(v, 0)); }
void dt_vjp_log(DtVjp *v) { v->ret[0] = binary(v, DT_OP_DIV, v->cotangent[0], dt_diff_in(v, 0)); }

void dt_vjp_sqrt(DtVjp *v)
{
    DtValue *y = dt_diff_out(v, 0), *half = mul(v, v->cotangent[0], number(v, 0.5));
    v->ret[0] = binary(v, DT_OP_DIV, half, y);
}

/* (x^-1/2)' = -1/2 y^3 */
void dt_vjp_rsqrt(DtVjp *v)
{
    DtValue *y = dt_diff_out(v, 0), *cube = mul(v, y, mul(v, y, y));
    v->ret[0] = mul(v, mul(v, v->cotangent[0], number(v, -0.5)), cube);
}

void dt_vjp_sin(DtVjp *v)
{
    v->ret[0] = mul(v, v->cotangent[0], unary(v, DT_OP_COS, dt_diff_in(v, 0)));
}

void dt_vjp_cos(DtVjp *v)
{
    DtValue *sine = unary(v, DT_OP_SIN, dt_diff_in(v, 0));
    v->ret[0] = mul(v, unary(v, DT_OP_NEG, v->cotangent[0]), sine);
}

void dt_vjp_tanh(DtVjp *v)
{
    DtValue *y = dt_diff_out(v, 0), *square = mul(v, y, y);
    v->ret[0] = mul(v, v->cotangent[0], binary(v, DT_OP_SUB, number(v, 1), square));
}

/* erf'(x) = 2 / sqrt(pi) exp(-x^2) */
void dt_vjp_erf(DtVjp *v)
{
    DtValue *x = dt_diff_in(v, 0);
    DtValue *bell = unary(v, DT_OP_EXP, unary(v, DT_OP_NEG, mul(v, x, x)));
    v->ret[0] = mul(v, mul(v, v->cotangent[0], number(v, 2 / sqrt(M_PI))), bell);
}

void dt_vjp_cast(DtVjp *v) { v->ret[0] = v->cotangent[0]; } /* the driver casts */

void dt_vjp_add(DtVjp *v)
{
    v->ret[0] = v->cotangent[0];
    v->ret[1] = v->cotangent[0];
}

void dt_vjp_sub(DtVjp *v)
{
    v->ret[0] = v->cotangent[0];
    if (v->active[1])
        v->ret[1] = unary(v, DT_OP_NEG, v->cotangent[0]);
}

void dt_vjp_mul(DtVjp *v)
{
    if (v->active[0])
        v->ret[0] = mul(v, v->cotangent[0], dt_diff_in(v, 1));
    if (v->active[1])
        v->ret[1] = mul(v, v->cotangent[0], dt_diff_in(v, 0));
}

/* r = x / y: dx = g / y, dy = -dx r */
void dt_vjp_div(DtVjp *v)
{
    DtValue *scaled = binary(v, DT_OP_DIV, v->cotangent[0], dt_diff_in(v, 1));
    v->ret[0] = scaled;
    if (v->active[1])
        v->ret[1] = unary(v, DT_OP_NEG, mul(v, scaled, dt_diff_out(v, 0)));
}

/* r = x^y, x > 0: dx = g y x^(y-1), dy = g r log x */
void dt_vjp_pow(DtVjp *v)
{
    DtValue *g = v->cotangent[0], *x = dt_diff_in(v, 0), *y = dt_diff_in(v, 1);
    if (v->active[0]) {
        DtValue *power = binary(v, DT_OP_POW, x, binary(v, DT_OP_SUB, y, number(v, 1)));
        v->ret[0] = mul(v, mul(v, g, y), power);
    }
    if (v->active[1]) {
        DtValue *log_x = unary(v, DT_OP_LOG, x);
        v->ret[1] = mul(v, mul(v, g, dt_diff_out(v, 0)), log_x);
    }
}

static void choose(DtVjp *v, DtValue *first)
{
    DtValue *g = v->cotangent[0], *zero = number(v, 0);
    if (v->active[0])
        v->ret[0] = dt_graph_where(&v->b, first, g, zero);
    if (v->active[1])
        v->ret[1] = dt_graph_where(&v->b, first, zero, g);
}

void dt_vjp_max(DtVjp *v)
{
    DtValue *x = dt_diff_in(v, 0), *y = dt_diff_in(v, 1);
    choose(v, binary(v, DT_OP_LT, y, x));
}

void dt_vjp_min(DtVjp *v)
{
    DtValue *y = dt_diff_in(v, 1), *x = dt_diff_in(v, 0);
    choose(v, binary(v, DT_OP_LT, x, y));
}

void dt_vjp_where(DtVjp *v)
{
    DtValue *g = v->cotangent[0], *zero = number(v, 0), *c = dt_diff_in(v, 0);
    if (v->active[1])
        v->ret[1] = dt_graph_where(&v->b, c, g, zero);
    if (v->active[2])
        v->ret[2] = dt_graph_where(&v->b, c, zero, g);
}
