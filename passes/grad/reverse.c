/* SPDX-License-Identifier: Apache-2.0 */
/* The derivative of one function: its backward function, op by op.
 *
 * f.bwd takes saved values (inputs of f and results of f.fwd, see saved.c), then the cotangents of
 * f's results, and returns those of f's inputs. It walks f's ops backwards; each op's handler
 * (column `gradient` of ops.def) turns the cotangents of results into those of operands, which are
 * fitted to the operand's type and added up. A missing cotangent is zero and costs nothing. While
 * it is built, values of f are placeholders; saved.c settles where each comes from. There is one
 * derivative per function and per set of active inputs and seeded results. */
#include "passes/grad/diff.h"

#include "base/intern.h"

#include <string.h>

static DtCell *cell_of(const DtReverse *r, const DtValue *value) { return r->cells.at[value->id]; }

#define DT_OP(NAME, text, inputs, class, shape, gradient, ...) \
    [DT_OP_##NAME] = dt_vjp_##gradient,
#define dt_vjp_none NULL
static DtVjpRun *const handlers[DT_OP_COUNT] = {
#include "ir/ops.def"
};
#undef dt_vjp_none
#undef DT_OP

DtVjpRun *dt_diff_handler(DtOpKind kind) { return handlers[kind]; }

/* ---- one function ---- */

/* Returns the sum of all cotangents of the value so far, with pads joined to a concatenation where
 * possible; NULL if it has none. */
static DtValue *cotangent_of(DtBuilder b, DtCell *cell)
{
    if (cell->cotangent)
        cell->cotangent = dt_diff_join_pads(b, cell->cotangent);
    return cell->cotangent;
}

static void add_cotangent(DtReverse *r, DtBuilder *b, DtCell *cell, DtValue *cotangent)
{
    (void)r;
    if (cell->cotangent != NULL)
        cotangent = dt_graph_binary(b, DT_OP_ADD, cell->cotangent, cotangent);
    cell->cotangent = cotangent;
}

static void run_op(DtReverse *r, uint32_t index)
{
    const DtOp *op = r->func->ops.at[index];
    DtArena *arena = r->diff->arena;
    DtVjp v = {.b = {.func = r->bwd, .span = op->span, .path = op->path},
               .reverse = r,
               .op = op,
               .op_index = index};
    bool seeded = false, active = false;
    v.cotangent = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++) {
        v.cotangent[i] = cotangent_of(v.b, cell_of(r, op->out[i]));
        seeded = seeded || v.cotangent[i] != NULL;
    }
    if (!seeded)
        return;
    bool *wants = DT_NEW_ARRAY(arena, bool, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++) {
        wants[i] = r->activity->active[op->in[i]->id];
        active = active || wants[i];
    }
    if (!active || handlers[op->kind] == NULL)
        return;
    v.active = wants;
    v.ret = DT_NEW_ARRAY(arena, DtValue *, op->n_in + 1);
    handlers[op->kind](&v);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (wants[i] && v.ret[i] != NULL)
            add_cotangent(r, &v.b, cell_of(r, op->in[i]),
                          dt_graph_fit(&v.b, v.ret[i], op->in[i]->type));
}

/* Uses the gradient that the function states, instead of the derivatives of its ops. */
static void run_stated(DtReverse *r)
{
    const DtCustomGradient *stated = r->func->gradient;
    DtBuilder b = {.func = r->bwd, .span = stated->func->span};
    DtValue **in = DT_NEW_ARRAY(r->diff->arena, DtValue *, stated->func->inputs.n + 1);
    uint32_t n = 0, seed = 0, result = 0;
    for (uint32_t i = 0; i < r->func->results.n; i++) {
        const DtType *type = r->func->results.at[i]->type;
        const bool is_seed = seed < r->n_seeds && r->bwd->seeds.at[seed] == i;
        if (dt_dtype_is_float(type->dtype))
            in[n++] = is_seed ? r->bwd->inputs.at[seed] : dt_diff_zeros(&b, type);
        seed += is_seed;
    }
    for (uint32_t i = 0; i < stated->captured.n; i++) {
        const DtValue *value = stated->captured.at[i];
        in[n++] = dt_diff_placeholder(r, cell_of(r, value));
        if (r->func->stream && value->op && dt_type_find(value->type, r->func->stream->axis) < 0)
            DT_PUSH(r->diff->arena, r->kept, value);
    }
    DtValue **out = dt_graph_call(&b, stated->func, NULL, in)->out;
    /* a result that is an input: its cotangent is part of the stated gradient */
    for (uint32_t i = 0; i < r->cells.n; i++)
        r->cells.at[i]->cotangent = NULL;
    for (uint32_t i = 0; i < r->func->inputs.n; i++)
        if (dt_dtype_is_float(r->func->inputs.at[i]->type->dtype))
            cell_of(r, r->func->inputs.at[i])->cotangent = out[result++];
}

/* Gives fwd and bwd their clauses of `stream`. Further results of fwd must be parts. Results of bwd
 * without the axis add up, if a custom gradient defines them. */
static void stream_both(DtReverse *r)
{
    const DtFunc *func = r->func;
    const DtStream *of = func->stream;
    DtArena *arena = r->diff->arena;
    DtFunc *fwd = r->derivative->fwd;
    DtStream *backward = DT_NEW(arena, DtStream);
    backward->axis = of->axis;
    if (func->gradient)
        r->bwd->stream = backward;
    if (fwd == func)
        return;
    DtStream *forward = DT_NEW(arena, DtStream);
    *forward = *of;
    forward->takes.n = forward->takes.cap = 0;
    forward->takes.at = NULL;
    for (uint32_t i = 0; of->part && i < fwd->results.n; i++) {
        const DtValue *value = fwd->results.at[i];
        const bool is_part =
            value->op && value->op->kind == DT_OP_CALL && value->op->func == of->part;
        if (i >= func->results.n && !is_part) {
            *forward = *backward;
            break;
        }
        DT_PUSH(arena, forward->takes,
                i < func->results.n ? of->takes.at[i] : -1 - (int32_t)value->index);
    }
    fwd->stream = forward;
}

static void make_cells(DtReverse *r)
{
    const DtFunc *func = r->func;
    for (uint32_t i = 0; i < func->n_values; i++)
        dt_diff_cell(r, NULL);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        cell_of(r, func->inputs.at[i])->primal = func->inputs.at[i];
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            cell_of(r, func->ops.at[i]->out[k])->primal = func->ops.at[i]->out[k];
}

static void add_seeds(DtReverse *r)
{
    const DtFunc *func = r->func;
    DtBuilder b = {.func = r->bwd, .span = func->span};
    for (uint32_t i = 0; i < func->results.n; i++) {
        if (!r->derivative->seeded[i] || !r->activity->active_out[i])
            continue;
        DtValue *result = func->results.at[i];
        const char *name = result->name != NULL ? dt_intern_printf("d_%s", result->name) : NULL;
        dt_graph_arg(r->bwd, result->type, name);
        DT_PUSH(r->diff->arena, r->bwd->seeds, i);
    }
    r->n_seeds = r->bwd->inputs.n;
    for (uint32_t i = 0; i < r->n_seeds; i++)
        add_cotangent(r, &b, cell_of(r, func->results.at[r->bwd->seeds.at[i]]),
                      r->bwd->inputs.at[i]);
}

static void add_results(DtReverse *r)
{
    DtBuilder b = {.func = r->bwd, .span = r->func->span};
    DtDerivative *d = r->derivative;
    for (uint32_t i = 0; i < r->func->inputs.n; i++) {
        DtCell *cell = cell_of(r, r->func->inputs.at[i]);
        d->cotangent[i] = -1;
        if (!r->activity->wanted[i])
            continue;
        d->cotangent[i] = (int32_t)r->bwd->results.n;
        DT_PUSH(r->diff->arena, r->bwd->wanted, i);
        DtValue *cotangent = cotangent_of(b, cell);
        dt_graph_return(r->bwd, cotangent ? cotangent : dt_diff_zeros(&b, cell->primal->type));
    }
    r->bwd->n_returns = r->bwd->results.n;
}

static void differentiate(DtDiff *diff, DtDerivative *d)
{
    DtFunc *func = d->func;
    const bool library = dt_library_is_whole(func);
    DtReverse r = {.diff = diff, .derivative = d, .func = func, .extras.arena = diff->arena};
    dt_graph_renumber(func);
    r.activity = dt_activity_of(diff, func, d->active_in, d->seeded);
    r.whole = library || func->stream != NULL;
    r.bwd = dt_graph_func(diff->module, dt_intern_printf("%s.bwd", func->name),
                          func->kind == DT_FUNC_BODY ? DT_FUNC_FN : func->kind);
    r.bwd->span = func->span;
    r.bwd->primal = func;
    if (library)
        r.bwd->library = dt_intern_printf("%s.bwd", func->library);
    r.of_op = DT_NEW_ARRAY(diff->arena, DtDerivative *, func->ops.n + 1);
    make_cells(&r);
    add_seeds(&r);
    if (func->gradient)
        run_stated(&r);
    for (uint32_t i = func->gradient ? 0 : func->ops.n; i-- > 0;)
        run_op(&r, i);
    add_results(&r);
    d->bwd = r.bwd;
    dt_saved_settle(&r);
    if (func->stream)
        stream_both(&r);
    func->fwd = d->fwd;
    func->bwd = d->bwd;
}

static const bool *copy_bits(DtArena *arena, const bool *bits, uint32_t n)
{
    bool *copy = DT_NEW_ARRAY(arena, bool, n + 1);
    if (n > 0)
        memcpy(copy, bits, n * sizeof *bits);
    return copy;
}

DtDerivative *dt_diff_derive(DtDiff *diff, DtFunc *func, const DtLoop *loop, const bool *active_in,
                             const bool *seeded)
{
    for (DtDerivative *d = diff->derivatives; d != NULL; d = d->next)
        if (d->func == func && d->loop == loop &&
            memcmp(d->active_in, active_in, func->inputs.n * sizeof *active_in) == 0 &&
            memcmp(d->seeded, seeded, func->results.n * sizeof *seeded) == 0)
            return d;
    DtDerivative *d = DT_NEW(diff->arena, DtDerivative);
    d->func = func;
    d->loop = loop;
    d->active_in = copy_bits(diff->arena, active_in, func->inputs.n);
    d->seeded = copy_bits(diff->arena, seeded, func->results.n);
    d->cotangent = DT_NEW_ARRAY(diff->arena, int32_t, func->inputs.n + 1);
    differentiate(diff, d);
    d->next = diff->derivatives;
    diff->derivatives = d;
    return d;
}

DtFunc *dt_differentiate_func(DtFunc *func)
{
    DtDiff diff = {.module = func->module, .arena = func->module->arena};
    bool *active = DT_NEW_ARRAY(diff.arena, bool, func->inputs.n + 1);
    bool *seeded = DT_NEW_ARRAY(diff.arena, bool, func->results.n + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        active[i] = dt_dtype_is_float(func->inputs.at[i]->type->dtype) &&
                    (i < func->n_args || !func->params.at[i - func->n_args].is_state);
    const bool *active_out = dt_activity_of(&diff, func, active, NULL)->active_out;
    bool any = false;
    for (uint32_t i = 0; i < func->n_returns; i++)
        any = (seeded[i] = active_out[i]) || any;
    return any ? dt_diff_derive(&diff, func, NULL, active, seeded)->bwd : NULL;
}
