/* SPDX-License-Identifier: Apache-2.0 */
/* Checks custom gradients of functions, on every compile, before anything else.
 *
 * The custom gradient and the derivative of the function's ops are functions of the same operands:
 * the function's arguments and the cotangents of its results. They are compared as a box
 * (docs/boxes.md). If both evaluate to the same, that is a proof. If not, and both only add,
 * multiply and divide numbers and exponentials, the custom one is wrong. Other functions (tanh) and
 * comparisons of floats obey laws that a box does not know, and constants like 0.1 are rounded.
 * Then the function is tested alone, in double precision, along random directions. If that finds no
 * error, or takes too long, --verify decides, which tests the whole program.
 *
 * Arguments with a constant cotangent 0 are not checked. */
#include "cli/cli.h"

#include "base/intern.h"
#include "ir/ir.h"
#include "passes/check/judge.h"
#include "passes/passes.h"
#include "verify/box.h"

#include <math.h>

static const double most_work = 2e6; /* products in double precision, for one function */

/* ---- functions that boxes decide ---- */

/* Whether x has so few binary digits that sums and products of such numbers are exact in any
 * order. */
static bool is_round(double x)
{
    return isinf(x) || (fabs(x) < 0x1p20 && x * 0x1p10 == floor(x * 0x1p10));
}

/* Whether random evaluation over residues (a finite field) obeys all laws of an op of floats: sums,
 * products, quotients, exponentials. Rounding, comparisons and maxima do not. */
static bool is_algebraic(const DtOp *op)
{
    const bool floats = op->n_in && dt_dtype_is_float(op->in[0]->type->dtype);
    switch (op->kind) {
    case DT_OP_ABS:
    case DT_OP_FLOOR:
    case DT_OP_FLOORDIV:
    case DT_OP_MOD:
    case DT_OP_MAX:
    case DT_OP_MIN:
    case DT_OP_LT: case DT_OP_LE: case DT_OP_EQ: case DT_OP_NE:
        return !floats;
    case DT_OP_CONST:
        return is_round(op->number);
    case DT_OP_CAST:
        return !floats || dt_dtype_is_float(op->out[0]->type->dtype);
    case DT_OP_REDUCE:
        return !floats || op->reduce == DT_REDUCE_SUM;
    case DT_OP_LOG:
    case DT_OP_SQRT:
    case DT_OP_RSQRT:
    case DT_OP_SIN:
    case DT_OP_COS:
    case DT_OP_TANH:
    case DT_OP_ERF:
    case DT_OP_POW: case DT_OP_TOPK: case DT_OP_RNG:
        return false;
    default:
        return true;
    }
}

static bool has_exp(const DtFunc *func)
{
    bool has = false;
    for (uint32_t i = 0; i < func->ops.n && !has; i++)
        has = func->ops.at[i]->kind == DT_OP_EXP ||
              (func->ops.at[i]->func && has_exp(func->ops.at[i]->func));
    return has;
}

/* Whether func has only ops that residues evaluate exactly (is_algebraic), and no exponential of a
 * value that contains an exponential. hot: by value id, whether it contains one. */
static bool is_exact(DtArena *arena, const DtFunc *func, bool hot_inputs)
{
    bool *hot = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        hot[func->inputs.at[i]->id] = hot_inputs;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const bool exp = op->kind == DT_OP_EXP || (op->func && has_exp(op->func));
        bool any = op->kind == DT_OP_LOOP && exp; /* it may carry one into its next iteration */
        for (uint32_t k = 0; k < op->n_in; k++)
            any = any || hot[op->in[k]->id];
        if (!is_algebraic(op) || (op->kind == DT_OP_EXP && any) ||
            (op->func && !is_exact(arena, op->func, any)))
            return false;
        for (uint32_t k = 0; k < op->n_out; k++)
            hot[op->out[k]->id] = any || exp;
    }
    return true;
}

bool dt_cli_is_exact(const DtCli *cli, const DtFunc *func)
{
    return is_exact(cli->arena, func, false);
}

/* ---- both sides ---- */

static DtValue *zeros(DtBuilder *b, const DtType *type)
{
    DtValue *zero = dt_graph_constant(b, type->dtype, 0);
    return type->rank ? dt_graph_expand(b, zero, type) : zero;
}

static bool is_zero(const DtValue *value)
{
    while (value->op && (value->op->kind == DT_OP_EXPAND || value->op->kind == DT_OP_CAST))
        value = value->op->in[0];
    return value->op && value->op->kind == DT_OP_CONST && value->op->number == 0;
}

static bool is_float(const DtValue *value) { return dt_dtype_is_float(value->type->dtype); }

/* Returns a new function of func's operands and the cotangents of its float results. It computes
 * the cotangents of float inputs by bwd, except those that the custom gradient gives as constant 0;
 * bwd NULL: zeros. */
static const DtFunc *side_of(DtCli *cli, const DtFunc *func, const DtFunc *bwd, const char *name)
{
    const DtFunc *stated = func->gradient->func;
    DtFunc *side =
        dt_graph_func(func->module, dt_intern_printf("%s.%s", func->name, name), DT_FUNC_FN);
    DtBuilder b = {.func = side};
    DtValue **in = DT_NEW_ARRAY(cli->arena, DtValue *, func->inputs.n + func->results.n + 1),
            **cotangents = in + func->inputs.n, **made = NULL;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        in[i] = dt_graph_arg(side, func->inputs.at[i]->type, NULL);
    for (uint32_t i = 0; i < func->results.n; i++)
        cotangents[i] = is_float(func->results.at[i])
                            ? dt_graph_arg(side, func->results.at[i]->type, NULL)
                            : NULL;
    if (bwd) {
        DtValue **given = DT_NEW_ARRAY(cli->arena, DtValue *, bwd->inputs.n + 1);
        DtValue *const *kept = dt_graph_call(&b, func->fwd, NULL, in)->out;
        for (uint32_t i = 0; i < bwd->saved.n; i++)
            given[i] = (bwd->saved.at[i].is_input ? in : kept)[bwd->saved.at[i].index];
        for (uint32_t i = 0; i < bwd->seeds.n; i++)
            given[bwd->saved.n + i] = cotangents[bwd->seeds.at[i]];
        made = dt_graph_call(&b, (DtFunc *)(uintptr_t)bwd, NULL, given)->out;
    }
    for (uint32_t i = 0, k = 0, wanted = 0; i < func->inputs.n; i++) {
        const bool has = bwd && wanted < bwd->wanted.n && bwd->wanted.at[wanted] == i;
        wanted += has;
        if (is_float(func->inputs.at[i]) && !is_zero(stated->results.at[k++]))
            dt_graph_return(side, has ? made[wanted - 1] : zeros(&b, func->inputs.at[i]->type));
    }
    return side;
}

static bool has_surrogate(const DtFunc *func)
{
    bool has = func->gradient && func->gradient->is_surrogate;
    for (uint32_t i = 0; !has && i < func->ops.n; i++)
        has = func->ops.at[i]->func && has_surrogate(func->ops.at[i]->func);
    return has;
}

/* Whether double precision refutes the function's gradient, along directions of the inputs that get
 * a cotangent. */
static bool is_refuted(DtCli *cli, const DtFunc *func)
{
    bool *moves = DT_NEW_ARRAY(cli->arena, bool, func->inputs.n + 1);
    for (uint32_t i = 0, k = 0; i < func->inputs.n; i++)
        moves[i] = is_float(func->inputs.at[i]) && !is_zero(func->gradient->func->results.at[k++]);
    return dt_judge_refutes(func, moves, most_work);
}

typedef enum Told { PROVED, WRONG, NOT_TOLD } Told;

static Told compare(DtCli *cli, DtFunc *func, DtText *ret_said)
{
    const DtCustomGradient *stated = func->gradient;
    const DtStream *stream = func->stream;
    func->gradient = NULL;
    func->stream = NULL;
    const DtFunc *bwd = dt_differentiate_func(func);
    func->gradient = stated;
    const DtFunc *derived = side_of(cli, func, bwd, "derived");
    func->stream = stream;
    bwd = dt_differentiate_func(func);
    const DtFunc *claimed = side_of(cli, func, bwd, "stated");
    const DtBoxVerdict verdict = dt_cli_compare_functions(cli, claimed, derived, 1, ret_said);
    if (verdict == DT_BOX_SAME)
        return PROVED;
    if (verdict == DT_BOX_OTHER && dt_cli_is_exact(cli, claimed) && dt_cli_is_exact(cli, derived))
        return WRONG;
    return bwd && is_refuted(cli, func) ? WRONG : NOT_TOLD;
}

/* ---- all of them ---- */

static bool same_span(DtSpan x, DtSpan y)
{
    return x.file == y.file && x.lo == y.lo && x.hi == y.hi;
}

static bool is_same_op(const DtOp *x, const DtOp *y)
{
    bool same = x->kind == y->kind && same_span(x->span, y->span) && x->n_in == y->n_in &&
                x->n_out == y->n_out && x->number == y->number && !x->func == !y->func;
    for (uint32_t i = 0; same && i < x->n_in; i++)
        same = x->in[i]->id == y->in[i]->id;
    for (uint32_t i = 0; same && i < x->n_out; i++)
        same = x->out[i]->type == y->out[i]->type;
    return same;
}

/* Whether both functions were lowered from the same text with equal types and ops, as training and
 * prediction each have a copy. */
static bool is_twin(const DtFunc *x, const DtFunc *y)
{
    bool same = same_span(x->span, y->span) && x->inputs.n == y->inputs.n && x->ops.n == y->ops.n &&
                !x->gradient == !y->gradient;
    for (uint32_t i = 0; same && i < x->inputs.n; i++)
        same = x->inputs.at[i]->type == y->inputs.at[i]->type;
    for (uint32_t i = 0; same && i < x->ops.n; i++)
        same = is_same_op(x->ops.at[i], y->ops.at[i]) &&
               (!x->ops.at[i]->func || is_twin(x->ops.at[i]->func, y->ops.at[i]->func));
    return same && (!x->gradient || is_twin(x->gradient->func, y->gradient->func));
}

/* Whether a function before number i is a copy of it (is_twin), so that it has been checked
 * already. */
static bool is_known_function(const DtModule *module, uint32_t i)
{
    bool known = false;
    for (uint32_t k = 0; k < i && !known; k++)
        known = module->funcs.at[k]->gradient && is_twin(module->funcs.at[k], module->funcs.at[i]);
    return known;
}

static int say_wrong(DtCli *cli, const DtFunc *func, const DtText *said)
{
    DtDiag *d = dt_diag_report(cli->diags, E0222, func->gradient->func->span,
                               "the gradient that `%s` states is not its derivative",
                               dt_graph_source_name(func));
    if (func->stream)
        dt_diag_label(d, func->stream->part->span,
                      "or this does not give the part that the gradient takes");
    if (said->len)
        dt_diag_note(d, "evaluated with random operands: %s", dt_cli_reason(cli, said->at));
    dt_diag_help(d, "if it is meant to differ, write `surrogate` instead of `gradient`");
    return DT_EXIT_DIAGNOSTICS;
}

static void say(DtText *text, uint32_t n, const char *how, const char *of_one, const char *of_more)
{
    if (n)
        dt_text_printf(text, "%s: %u %s\n", how, n, n == 1 ? of_one : of_more);
}

/* Checks custom gradients of the program. Tests check those of the library; --verify checks them
 * here too, if it asks for all. */
int dt_cli_check_gradients(DtCli *cli, DtModule *module)
{
    const uint32_t n_funcs = module->funcs.n;
    uint32_t n[3] = {0};
    int code = DT_EXIT_OK;
    for (uint32_t i = 0; code == DT_EXIT_OK && i < n_funcs; i++) {
        DtFunc *func = module->funcs.at[i];
        DtText said = {0};
        if (!func->gradient || has_surrogate(func) || (func->library && !cli->verify) ||
            is_known_function(module, i))
            continue;
        const Told told = compare(cli, func, &said);
        n[told]++;
        if (told == WRONG)
            code = say_wrong(cli, func, &said);
        dt_text_free(&said);
        module->funcs.n = n_funcs;
        for (uint32_t k = 0; k < n_funcs; k++)
            module->funcs.at[k]->fwd = module->funcs.at[k]->bwd = NULL;
    }
    DtText text = {0};
    say(&text, n[PROVED], "proved", "custom gradient is the derivative",
        "custom gradients are the derivatives");
    say(&text, n[NOT_TOLD], "not proved, but tried along random directions", "custom gradient",
        "custom gradients");
    if (code == DT_EXIT_OK && cli->verify && text.len)
        code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}
