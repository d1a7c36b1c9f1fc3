/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreter: the scalar maps. A map visits every place of its result; each operand is read at the
 * coordinates whose axis names it has, so operands broadcast and permute by name.
 *
 * Floats are computed in double with libm. Integers are computed modulo 2^64 and cut to the dtype,
 * which is the same as wrapping at every step. Corner cases are listed in interp.h. */
#include "ir/interp_eval.h"

#include "base/bug.h"
#include "ir/round.h"

#include <math.h>

static double unary_float(const DtInterp *interp, const DtOp *op, double x)
{
    switch (op->kind) {
    case DT_OP_NEG: return -x;
    case DT_OP_ABS: return fabs(x);
    case DT_OP_FLOOR: return floor(x);
    case DT_OP_EXP: return exp(x);
    case DT_OP_LOG: return log(x);
    case DT_OP_SQRT: return sqrt(x);
    case DT_OP_RSQRT: return 1.0 / sqrt(x);
    case DT_OP_SIN: return sin(x);
    case DT_OP_COS: return cos(x);
    case DT_OP_TANH: return tanh(x);
    case DT_OP_ERF: return erf(x);
    case DT_OP_STOP:
    case DT_OP_BIND: return x;
    default: dt_interp_fail(interp, op, "the op is not defined on floats");
    }
}

static double unary_whole(const DtInterp *interp, const DtOp *op, DtDtype dtype, double x)
{
    uint64_t bits = (uint64_t)dt_round_whole(x);
    switch (op->kind) {
    case DT_OP_NEG: return dt_round_wrap(dtype, -bits);
    case DT_OP_ABS: return dt_round_wrap(dtype, x < 0 ? -bits : bits);
    case DT_OP_NOT: return x == 0;
    case DT_OP_STOP:
    case DT_OP_BIND: return x;
    default: dt_interp_fail(interp, op, "the op is not defined on integers and booleans");
    }
}

/* Returns a number converted to the result's dtype. The driver rounds it to a float dtype, if it
 * rounds at all. */
static double cast(DtDtype from, DtDtype to, double x)
{
    if (dt_dtype_is_float(to))
        return x;
    if (to == DT_BOOL || dt_dtype_is_float(from))
        return dt_round_to(to, x);
    return dt_round_wrap(to, (uint64_t)dt_round_whole(x));
}

static double unary(const DtInterp *interp, const DtOp *op, DtDtype from, DtDtype to, double x)
{
    if (op->kind == DT_OP_CAST)
        return cast(from, to, x);
    return dt_dtype_is_float(from) ? unary_float(interp, op, x) : unary_whole(interp, op, from, x);
}

static double floor_divide(double x, double y, DtDtype dtype)
{
    int64_t a = dt_round_whole(x), b = dt_round_whole(y);
    if (b == 0)
        return 0;
    if (b == -1) /* INT64_MIN / -1 has no quotient in C */
        return dt_round_wrap(dtype, -(uint64_t)a);
    return dt_round_wrap(dtype, (uint64_t)(a / b - (a % b != 0 && (a < 0) != (b < 0))));
}

static double floor_modulo(double x, double y, DtDtype dtype)
{
    int64_t a = dt_round_whole(x), b = dt_round_whole(y);
    if (b == 0)
        return x;
    if (b == -1)
        return 0;
    int64_t rest = a % b;
    return dt_round_wrap(dtype, (uint64_t)(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest));
}

_Noreturn static void refuse(DtOpKind kind, DtDtype dtype)
{
    DT_BUG("interpreter: `%s` is not defined on %s", dt_op_info[kind].text, dt_dtype_name(dtype));
}

static double binary_float(DtOpKind kind, DtDtype dtype, double x, double y)
{
    switch (kind) {
    case DT_OP_ADD: return x + y;
    case DT_OP_SUB: return x - y;
    case DT_OP_MUL: return x * y;
    case DT_OP_DIV: return x / y;
    case DT_OP_FLOORDIV: return floor(x / y);
    case DT_OP_MOD: return x - floor(x / y) * y;
    case DT_OP_POW: return pow(x, y);
    default: refuse(kind, dtype);
    }
}

static double binary_whole(DtOpKind kind, DtDtype dtype, double x, double y)
{
    uint64_t a = (uint64_t)dt_round_whole(x), b = (uint64_t)dt_round_whole(y);
    switch (kind) {
    case DT_OP_ADD: return dt_round_wrap(dtype, a + b);
    case DT_OP_SUB: return dt_round_wrap(dtype, a - b);
    case DT_OP_MUL: return dt_round_wrap(dtype, a * b);
    case DT_OP_FLOORDIV: return floor_divide(x, y, dtype);
    case DT_OP_MOD: return floor_modulo(x, y, dtype);
    default: refuse(kind, dtype);
    }
}

double dt_interp_binary(DtOpKind kind, DtDtype dtype, double x, double y)
{
    switch (kind) {
    case DT_OP_MAX: return x > y || isnan(x) ? x : y;
    case DT_OP_MIN: return x < y || isnan(x) ? x : y;
    case DT_OP_LT: return x < y;
    case DT_OP_LE: return x <= y;
    case DT_OP_EQ: return x == y;
    case DT_OP_NE: return x != y;
    case DT_OP_AND: return x != 0 && y != 0;
    case DT_OP_OR: return x != 0 || y != 0;
    default:
        return dt_dtype_is_float(dtype) ? binary_float(kind, dtype, x, y)
                                        : binary_whole(kind, dtype, x, y);
    }
}

void dt_eval_map(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor **out)
{
    DtWalk walk = dt_interp_walk(interp, op, out[0]->type, NULL);
    int64_t strides[3][DT_WALK_AXES];
    for (uint32_t i = 0; i < op->n_in; i++)
        dt_interp_strides(interp, op, &walk, in[i]->type, 0, NULL, strides[i]);
    DtDtype from = in[0]->type->dtype, to = out[0]->type->dtype;
    double *result = out[0]->at;
    do {
        double x[3] = {0};
        for (uint32_t i = 0; i < op->n_in; i++)
            x[i] = in[i]->at[dt_walk_offset(&walk, strides[i])];
        if (op->kind == DT_OP_WHERE)
            *result++ = x[0] != 0 ? x[1] : x[2];
        else if (op->n_in == 1)
            *result++ = unary(interp, op, from, to, x[0]);
        else
            *result++ = dt_interp_binary(op->kind, from, x[0], x[1]);
    } while (dt_walk_next(&walk));
}
