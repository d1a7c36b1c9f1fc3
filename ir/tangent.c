/* SPDX-License-Identifier: Apache-2.0 */
/* Forward mode: see tangent.h. Most ops are linear in what is moved, so that the interpreter's own
 * handler makes the tangent from tangents; maps have a slope in each operand; what chooses an
 * element follows it; calls and loops carry tangents as they carry values. */
#include "ir/tangent.h"

#include "ir/interp_eval.h"

#include <math.h>
#include <string.h>

typedef enum Rule {
    MISSING,
    STILL,    /* its tangent is zero */
    LINEAR,   /* linear in all its float operands together */
    BILINEAR, /* linear in each of two operands */
    SLOPES,   /* a map: has a derivative, slope() */
    REDUCED,  /* the tangent of a sum; of a maximum or minimum, that of the first equal element */
    CHOSEN,   /* topk */
    INSIDE    /* call, loop */
} Rule;

static const Rule rules[DT_OP_COUNT] = {
    [DT_OP_PARAM] = STILL, /* a parameter gets its tangent from the caller */
    [DT_OP_INPUT] = STILL,        [DT_OP_CONST] = STILL,    [DT_OP_IOTA] = STILL,
    [DT_OP_RNG] = STILL,          [DT_OP_FLOOR] = STILL,    [DT_OP_NOT] = STILL,
    [DT_OP_STOP] = STILL,         [DT_OP_FLOORDIV] = STILL, [DT_OP_MOD] = STILL,
    [DT_OP_LT] = STILL,           [DT_OP_LE] = STILL,       [DT_OP_EQ] = STILL,
    [DT_OP_NE] = STILL,           [DT_OP_AND] = STILL,      [DT_OP_OR] = STILL,
    [DT_OP_NEG] = LINEAR,         [DT_OP_BIND] = LINEAR,    [DT_OP_CAST] = LINEAR,
    [DT_OP_ADD] = LINEAR,         [DT_OP_SUB] = LINEAR,     [DT_OP_WHERE] = LINEAR,
    [DT_OP_RELABEL] = LINEAR,     [DT_OP_SLICE] = LINEAR,   [DT_OP_PAD] = LINEAR,
    [DT_OP_CONCAT] = LINEAR,      [DT_OP_EXPAND] = LINEAR,  [DT_OP_WINDOW] = LINEAR,
    [DT_OP_FOLD] = LINEAR,        [DT_OP_SCAN] = LINEAR,    [DT_OP_GATHER] = LINEAR,
    [DT_OP_SCATTER_ADD] = LINEAR, [DT_OP_DOT] = BILINEAR,   [DT_OP_MUL] = SLOPES,
    [DT_OP_DIV] = SLOPES,         [DT_OP_POW] = SLOPES,     [DT_OP_MAX] = SLOPES,
    [DT_OP_MIN] = SLOPES,         [DT_OP_ABS] = SLOPES,     [DT_OP_EXP] = SLOPES,
    [DT_OP_LOG] = SLOPES,         [DT_OP_SQRT] = SLOPES,    [DT_OP_RSQRT] = SLOPES,
    [DT_OP_SIN] = SLOPES,         [DT_OP_COS] = SLOPES,     [DT_OP_TANH] = SLOPES,
    [DT_OP_ERF] = SLOPES,         [DT_OP_REDUCE] = REDUCED, [DT_OP_TOPK] = CHOSEN,
    [DT_OP_CALL] = INSIDE,        [DT_OP_LOOP] = INSIDE,
};

bool dt_tangent_has_rule(DtOpKind kind) { return rules[kind] != MISSING; }

/* ---- maps ---- */

/* Returns the derivative of y = op(x[0], x[1]) with respect to x[i]. */
static double slope(const DtInterp *interp, const DtOp *op, uint32_t i, const double x[2], double y)
{
    switch (op->kind) {
    case DT_OP_ABS: return x[0] > 0 ? 1 : x[0] < 0 ? -1 : 0;
    case DT_OP_EXP: return exp(x[0]);
    case DT_OP_LOG: return 1 / x[0];
    case DT_OP_SQRT: return 1 / (2 * sqrt(x[0]));
    case DT_OP_RSQRT: return -1 / (2 * x[0] * sqrt(x[0]));
    case DT_OP_SIN: return cos(x[0]);
    case DT_OP_COS: return -sin(x[0]);
    case DT_OP_TANH: return 1 / (cosh(x[0]) * cosh(x[0]));
    case DT_OP_ERF: return M_2_SQRTPI * exp(-x[0] * x[0]);
    case DT_OP_MUL: return x[1 - i];
    case DT_OP_DIV: return i == 0 ? 1 / x[1] : -x[0] / (x[1] * x[1]);
    case DT_OP_POW: return i == 0 ? x[1] * pow(x[0], x[1] - 1) : y * log(x[0]);
    case DT_OP_MAX: return (x[0] > x[1]) == (i == 0);
    case DT_OP_MIN: return (x[0] < x[1]) == (i == 0);
    default: dt_interp_fail(interp, op, "no slope of this map is known");
    }
}

static void move_map(DtInterp *interp, const DtOp *op, DtTensor *const *in, DtTensor *const *moves,
                     const DtTensor *out, DtTensor *ret)
{
    DtWalk walk = dt_interp_walk(interp, op, ret->type, NULL);
    int64_t strides[2][DT_WALK_AXES];
    for (uint32_t i = 0; i < op->n_in; i++)
        dt_interp_strides(interp, op, &walk, in[i]->type, 0, NULL, strides[i]);
    const double *y = out->at;
    double *to = ret->at;
    do {
        double x[2] = {0}, sum = 0;
        for (uint32_t i = 0; i < op->n_in; i++)
            x[i] = in[i]->at[dt_walk_offset(&walk, strides[i])];
        for (uint32_t i = 0; i < op->n_in; i++) {
            const double by = moves[i] ? moves[i]->at[dt_walk_offset(&walk, strides[i])] : 0;
            /* without a tangent, an infinite slope must not give NaN */
            sum += by != 0 ? by * slope(interp, op, i, x, *y) : 0;
        }
        *to++ = sum;
        y++;
    } while (dt_walk_next(&walk));
}

/* ---- linear ops ---- */

/* Computes the tangent of an op by the op's own handler, with operand i (or all, i < 0) replaced by
 * its tangent; operands that are no floats are kept, and fills are zero. */
static void move_linear(DtInterp *interp, const DtOp *op, DtTensor *const *in,
                        DtTensor *const *moves, int i, DtTensor *ret)
{
    DtTensor **now = DT_NEW_ARRAY(interp->arena, DtTensor *, op->n_in + 1), *out[1];
    DtOp draft = *op;
    draft.number = 0;
    for (uint32_t k = 0; k < op->n_in; k++) {
        const bool moves_here = dt_dtype_is_float(in[k]->type->dtype) && (i < 0 || i == (int)k);
        now[k] = !moves_here ? in[k]
                 : moves[k]  ? moves[k]
                             : dt_interp_tensor(interp->arena, in[k]->type);
    }
    dt_interp_op(interp, &draft, now, out);
    for (int64_t k = 0; k < dt_type_elements(ret->type); k++)
        ret->at[k] += out[0]->at[k];
}

/* ---- ops that select elements ---- */

/* Sets ret to the tangent of a maximum or minimum over axes: that of the first equal element, in
 * row-major order of the op's list. */
static void move_extreme(DtInterp *interp, const DtOp *op, const DtTensor *x, const DtTensor *move,
                         const DtTensor *out, DtTensor *ret)
{
    const int64_t n = dt_type_elements(out->type);
    int64_t *first = DT_NEW_ARRAY(interp->arena, int64_t, n);
    DtWalk walk = dt_interp_walk(interp, op, x->type, NULL);
    int64_t kept[DT_WALK_AXES];
    dt_walk_strides(&walk, out->type, kept);
    int64_t at = 0;
    do {
        const int64_t to = dt_walk_offset(&walk, kept);
        int64_t number = 0;
        for (uint32_t i = 0; i < op->n_axes; i++) {
            const int place = dt_walk_find(&walk, op->axes[i]);
            number = number * walk.extent[place] + walk.at[place];
        }
        if (x->at[at] == out->at[to] && (first[to] == 0 || number < first[to] - 1)) {
            first[to] = number + 1;
            ret->at[to] = move->at[at];
        }
        at++;
    } while (dt_walk_next(&walk));
}

static void move_reduced(DtInterp *interp, const DtOp *op, DtTensor *const *in,
                         DtTensor *const *moves, DtTensor *const *out, DtTensor *ret)
{
    if (op->reduce == DT_REDUCE_SUM)
        move_linear(interp, op, in, moves, -1, ret);
    else
        move_extreme(interp, op, in[0], moves[0], out[0], ret);
}

/* Sets ret to the tangents of topk's values, which are those of the selected elements. */
static void move_topk(DtInterp *interp, const DtOp *op, const DtTensor *move, DtTensor *const *out,
                      DtTensor *ret)
{
    DtWalk walk = dt_interp_walk(interp, op, ret->type, NULL);
    const uint32_t axis = dt_interp_axis(interp, op, move->type, op->axes[0]);
    int64_t from[DT_WALK_AXES], chosen[DT_WALK_AXES];
    dt_interp_strides(interp, op, &walk, move->type, 1, op->axes, from);
    dt_interp_strides(interp, op, &walk, out[1]->type, 0, NULL, chosen);
    double *to = ret->at;
    do {
        const int64_t index = (int64_t)out[1]->at[dt_walk_offset(&walk, chosen)];
        *to++ = move->at[dt_walk_offset(&walk, from) + index * dt_walk_stride(move->type, axis)];
    } while (dt_walk_next(&walk));
}

/* ---- calls and loops ---- */

static void run_call(DtTangents *t, const DtOp *op, DtTensor *const *in, DtTensor *const *moves,
                     DtTensor **out, DtTensor **ret_moves)
{
    DtInterp *interp = t->interp;
    const char *outer = interp->path;
    interp->path = dt_interp_push(interp, op->text);
    dt_tangent_run(t, op->func, in, moves, out, ret_moves);
    interp->path = outer;
}

/* Puts an iteration's tangent into its slice of *whole, which is created for the first tangent that
 * is not zero. */
static void keep_slice(DtInterp *interp, const DtOp *op, const DtType *type, DtTensor **whole,
                       const DtTensor *made, int64_t iteration)
{
    if (!made)
        return;
    if (!*whole)
        *whole = dt_interp_tensor(interp->arena, type);
    DtTensor *to = dt_interp_slice(interp, op, *whole, made->type, iteration);
    memcpy(to->at, made->at, sizeof(double) * (size_t)dt_type_elements(made->type));
}

/* Runs one iteration. out and ret_moves: values and tangents of carried values, which it replaces,
 * then of stacked results. */
static void run_iteration(DtTangents *t, const DtOp *op, DtTensor *const *in,
                          DtTensor *const *moves, int64_t iteration, DtTensor **out,
                          DtTensor **ret_moves)
{
    const DtLoop *loop = op->loop;
    const DtFunc *body = op->func;
    DtInterp *interp = t->interp;
    DtTensor **given = DT_NEW_ARRAY(interp->arena, DtTensor *, 2 * body->inputs.n),
             **given_moves = given + body->inputs.n;
    DtTensor **made = DT_NEW_ARRAY(interp->arena, DtTensor *, 2 * body->results.n + 1),
             **made_moves = made + body->results.n;
    given[0] = dt_interp_tensor(interp->arena, dt_type_scalar(DT_I32));
    given[0]->at[0] = (double)(loop->first + iteration);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const bool stacked = i >= loop->n_carried + loop->n_invariant;
        const DtType *type = body->inputs.at[1 + i]->type;
        const DtTensor *value = i < loop->n_carried ? out[i] : in[i],
                       *move = i < loop->n_carried ? ret_moves[i] : moves[i];
        given[1 + i] = stacked ? dt_interp_slice(interp, op, value, type, iteration)
                               : (DtTensor *)(uintptr_t)value;
        given_moves[1 + i] = stacked && move ? dt_interp_slice(interp, op, move, type, iteration)
                                             : (DtTensor *)(uintptr_t)move;
    }
    dt_tangent_run(t, body, given, given_moves, made, made_moves);
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (i < loop->n_carried) {
            out[i] = made[i];
            ret_moves[i] = made_moves[i];
        } else {
            keep_slice(interp, op, op->out[i]->type, &out[i], made[i], iteration);
            keep_slice(interp, op, op->out[i]->type, &ret_moves[i], made_moves[i], iteration);
        }
    }
}

static void run_loop(DtTangents *t, const DtOp *op, DtTensor *const *in, DtTensor *const *moves,
                     DtTensor **out, DtTensor **ret_moves)
{
    const DtLoop *loop = op->loop;
    DtInterp *interp = t->interp;
    const char *outer_path = interp->path;
    const uint32_t outer_iteration = interp->iteration;
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        out[i] = in[i];
        ret_moves[i] = moves[i];
    }
    interp->path = dt_interp_push(interp, loop->label);
    for (int64_t k = 0; k < loop->count; k++) {
        const int64_t iteration = loop->reverse ? loop->count - 1 - k : k;
        interp->iteration =
            outer_iteration * (uint32_t)loop->count + (uint32_t)(loop->first + iteration);
        run_iteration(t, op, in, moves, iteration, out, ret_moves);
    }
    interp->path = outer_path;
    interp->iteration = outer_iteration;
}

/* ---- the driver ---- */

static DtTensor *moved(DtTangents *t, const DtOp *op, DtTensor *const *in, DtTensor *const *moves,
                       DtTensor *const *out)
{
    DtInterp *interp = t->interp;
    DtTensor *made = dt_interp_tensor(interp->arena, op->out[0]->type);
    switch (rules[op->kind]) {
    case LINEAR: move_linear(interp, op, in, moves, -1, made); break;
    case SLOPES: move_map(interp, op, in, moves, out[0], made); break;
    case REDUCED: move_reduced(interp, op, in, moves, out, made); break;
    case CHOSEN: move_topk(interp, op, moves[0], out, made); break;
    case BILINEAR:
        for (uint32_t i = 0; i < op->n_in; i++)
            if (moves[i])
                move_linear(interp, op, in, moves, (int)i, made);
        break;
    default: dt_interp_fail(interp, op, "a forward derivative that is not known");
    }
    return made;
}

static void run_op(DtTangents *t, const DtOp *op, DtTensor *const *in, DtTensor *const *moves,
                   DtTensor **out, DtTensor **ret_moves)
{
    bool any = false;
    for (uint32_t i = 0; i < op->n_in; i++)
        any = any || moves[i];
    if (op->kind == DT_OP_CALL) {
        run_call(t, op, in, moves, out, ret_moves);
        return;
    }
    if (op->kind == DT_OP_LOOP) {
        run_loop(t, op, in, moves, out, ret_moves);
        return;
    }
    dt_interp_op(t->interp, op, in, out);
    if (rules[op->kind] == MISSING)
        dt_interp_fail(t->interp, op, "no forward derivative of this op is known");
    if (op->kind == DT_OP_PARAM && t->direction)
        ret_moves[0] = t->direction(t->context, op);
    else if (any && rules[op->kind] != STILL && dt_dtype_is_float(op->out[0]->type->dtype))
        ret_moves[0] = moved(t, op, in, moves, out);
}

/* Tangents through a surrogate gradient g, which is linear: w = J^T dy. The tangents of the results
 * are J times those of the inputs. Since J^T is the derivative of g in dy, g.bwd computes this
 * product, with the inputs' tangents as seeds. */
static void move_by_surrogate(DtTangents *t, const DtFunc *func, DtTensor *const *values,
                              DtTensor *const *moves, DtTensor **ret_tangents)
{
    DtArena *arena = t->interp->arena;
    const DtCustomGradient *stated = func->gradient;
    const DtFunc *g = stated->func, *bwd = g->bwd;
    const uint32_t n_seeds = g->inputs.n - stated->captured.n;
    DtTensor **in = DT_NEW_ARRAY(arena, DtTensor *, g->inputs.n + 1);
    DtTensor **moved = DT_NEW_ARRAY(arena, DtTensor *, g->results.n + 1);
    uint32_t n = 0;
    memset(ret_tangents, 0, func->results.n * sizeof ret_tangents[0]);
    if (!bwd) /* the gradient does not depend on the cotangents */
        return;
    for (uint32_t i = 0; i < g->inputs.n; i++)
        in[i] = i < n_seeds ? dt_interp_tensor(arena, g->inputs.at[i]->type)
                            : values[stated->captured.at[i - n_seeds]->id];
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (dt_dtype_is_float(func->inputs.at[i]->type->dtype))
            moved[n++] = moves[func->inputs.at[i]->id];
    DtTensor **kept = DT_NEW_ARRAY(arena, DtTensor *, g->fwd->results.n + 1);
    DtTensor **given = DT_NEW_ARRAY(arena, DtTensor *, bwd->inputs.n + 1);
    DtTensor **made = DT_NEW_ARRAY(arena, DtTensor *, bwd->results.n + 1);
    dt_interp_run(t->interp, g->fwd, in, kept);
    for (uint32_t i = 0; i < bwd->saved.n; i++)
        given[i] =
            bwd->saved.at[i].is_input ? in[bwd->saved.at[i].index] : kept[bwd->saved.at[i].index];
    for (uint32_t i = 0; i < bwd->seeds.n; i++) {
        DtTensor *move = moved[bwd->seeds.at[i]];
        given[bwd->saved.n + i] =
            move ? move : dt_interp_tensor(arena, bwd->inputs.at[bwd->saved.n + i]->type);
    }
    dt_interp_run(t->interp, bwd, given, made);
    for (uint32_t i = 0; i < bwd->wanted.n; i++)
        for (uint32_t k = 0, seed = 0; k < func->results.n; k++)
            if (dt_dtype_is_float(func->results.at[k]->type->dtype) && seed++ == bwd->wanted.at[i])
                ret_tangents[k] = made[i];
}

void dt_tangent_run(DtTangents *t, const DtFunc *func, DtTensor *const *inputs,
                    DtTensor *const *tangents, DtTensor **ret_results, DtTensor **ret_tangents)
{
    DtInterp *interp = t->interp;
    const DtFunc *outer = interp->func;
    interp->func = func;
    DtTensor **values = DT_NEW_ARRAY(interp->arena, DtTensor *, 2 * func->n_values + 1),
             **moves = values + func->n_values;
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        values[func->inputs.at[i]->id] = inputs[i];
        moves[func->inputs.at[i]->id] = tangents ? tangents[i] : NULL;
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtTensor **in = DT_NEW_ARRAY(interp->arena, DtTensor *, 2 * (op->n_in + op->n_out) + 1),
                 **in_moves = in + op->n_in;
        DtTensor **out = in_moves + op->n_in, **out_moves = out + op->n_out;
        for (uint32_t k = 0; k < op->n_in; k++) {
            in[k] = values[op->in[k]->id];
            in_moves[k] = moves[op->in[k]->id];
        }
        run_op(t, op, in, in_moves, out, out_moves);
        for (uint32_t k = 0; k < op->n_out; k++) {
            values[op->out[k]->id] = out[k];
            moves[op->out[k]->id] = out_moves[k];
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++) {
        ret_results[i] = values[func->results.at[i]->id];
        ret_tangents[i] = moves[func->results.at[i]->id];
    }
    if (func->gradient && func->gradient->is_surrogate)
        move_by_surrogate(t, func, values, moves, ret_tangents);
    interp->func = outer;
}
