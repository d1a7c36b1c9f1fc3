/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-mode differentiation.
 *
 * Purpose: replaces entry "loss" by entry "grad": the loss, the new values of states, and one
 * gradient per parameter store. Every function is differentiated once for each set of active inputs
 * and seeded results (reverse.c):
 *
 *   func f(%x, %w)            func f.fwd(%x, %w)        func f.bwd(%x, %w, %h, %dy)
 *     %h = dot[e](%x, %w)       %h = dot[e](%x, %w)       %dh = mul(%dy, cos(%h))
 *     %y = sin(%h)              %y = sin(%h)              %dx = dot[f](%dh, %w)
 *     return %y                 return %y, %h             %dw = dot[b](%dh, %x)
 *                                                         return %dx, %dw
 *
 *   func loss()                              func grad()
 *     %w = param "w"                           %w = param "w"
 *     return f(%tokens, %w)                    %l, %h = call f.fwd(%tokens, %w)
 *                                              %dw = call f.bwd(%tokens, %w, %h, 1)
 *                                              return %l, %dw
 *
 * Where there are several losses (DtObjective), each entry "loss@NAME" becomes an entry
 * "grad@NAME": of those parameters that the objective's rules update; the others are constants in
 * it.
 *
 * Gradients have the dtype that `precision` says for `grads` (f32 without it), and add up over
 * micro-batches; with `loss_scale` they are that many times as large, until the update. A parameter
 * on which the loss does not depend has gradient zero.
 *
 * Requires: a verified serial module; if it has entry "loss", that starts with a float scalar.
 * Establishes: entry "grad" in the place of "loss"; stores of kind GRAD. Breaks: nothing. */
#include "passes/grad/diff.h"
#include "passes/place/ring.h"
#include "passes/replicas/replicas.h"

#include "base/bug.h"
#include "base/intern.h"
#include "ir/map.h"

#include <stdio.h>
#include <string.h>

/* An entry turned into an ordinary function: each store or named input that it reads has become one
 * input. */
typedef struct Step {
    DtFunc *func;
    DT_VEC(const DtOp *) sources; /* one per input of func */
} Step;

static DtValue *step_input(DtArena *arena, Step *step, const DtOp *op)
{
    for (uint32_t i = 0; i < step->sources.n; i++) {
        const DtOp *known = step->sources.at[i];
        if (known->kind == op->kind && known->store == op->store &&
            known->out[0]->type == op->out[0]->type &&
            (op->kind == DT_OP_PARAM || strcmp(known->text, op->text) == 0))
            return step->func->inputs.at[i];
    }
    DT_PUSH(arena, step->sources, op);
    return dt_graph_arg(step->func, op->out[0]->type, op->out[0]->name);
}

static Step make_step(DtModule *module, DtFunc *entry)
{
    Step step = {.func =
                     dt_graph_func(module, dt_intern_printf("%s.step", entry->name), DT_FUNC_FN)};
    dt_graph_renumber(entry);
    step.func->span = entry->span;
    DtBuilder b = {.func = step.func};
    DtValue **map = DT_NEW_ARRAY(module->arena, DtValue *, entry->n_values + 1);
    for (uint32_t i = 0; i < entry->ops.n; i++) {
        const DtOp *op = entry->ops.at[i];
        b.span = op->span;
        b.path = op->path;
        if (op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT) {
            map[op->out[0]->id] = step_input(module->arena, &step, op);
            continue;
        }
        DtValue **in = DT_NEW_ARRAY(module->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = map[op->in[k]->id];
        const DtOp *copy = dt_graph_copy(&b, op, in);
        for (uint32_t k = 0; k < op->n_out; k++) {
            map[op->out[k]->id] = copy->out[k];
            copy->out[k]->name = op->out[k]->name;
        }
    }
    for (uint32_t i = 0; i < entry->results.n; i++)
        dt_graph_return(step.func, map[entry->results.at[i]->id]);
    step.func->n_returns = step.func->results.n;
    return step;
}

/* Entry "grad" while it is built. */
typedef struct Grad {
    const DtPassContext *context;
    DtModule *module;
    DtBuilder b;
    Step step;
    bool *trains; /* by number of the store: whether this entry returns a gradient of the
                   * parameter */
    const DtDerivative *derivative; /* NULL: the loss depends on no parameter */
    DtValue **in, **out;            /* of the step's forward function: operands and results */
    DtValue **gradients;            /* results of its backward function */
} Grad;

/* Returns the dtype in which gradients of the store add up over micro-batches: that of `precision`
 * if it gives one, else the store's. */
static DtDtype gradient_dtype(const Grad *g, const DtStore *of)
{
    if (g->context == NULL || g->context->train == NULL ||
        !dt_dtype_is_float(g->context->train->precision.grads))
        return of->type->dtype;
    return g->context->train->precision.grads;
}

static DtStore *gradient_store(Grad *g, DtStore *of)
{
    DtStore *store = DT_NEW(g->module->arena, DtStore);
    *store = *of;
    store->kind = DT_STORE_GRAD;
    store->type = dt_type_with_dtype(of->type, gradient_dtype(g, of));
    store->init = (DtInit){.kind = DT_INIT_CONST};
    store->of = of;
    store->index = g->module->stores.n;
    DT_PUSH(g->module->arena, g->module->stores, store);
    return store;
}

static void read_sources(Grad *g)
{
    g->in = DT_NEW_ARRAY(g->module->arena, DtValue *, g->step.sources.n + 1);
    for (uint32_t i = 0; i < g->step.sources.n; i++) {
        const DtOp *op = g->step.sources.at[i];
        g->b.span = op->span;
        g->in[i] = dt_graph_source(&g->b, op->kind, op->out[0]->type, op->text, op->store);
        g->in[i]->name = op->out[0]->name;
    }
}

/* Adds the cotangent of the loss to the function being built: 1, or the loss scale, so that small
 * gradients do not vanish in 16 bits. The loss is the mean of those of replicas, each of which has
 * the gradient of its own, so it is as many times as large. */
static DtValue *seed(Grad *g, DtDtype dtype)
{
    const DtPrecision *p = g->context && g->context->train ? &g->context->train->precision : NULL;
    const double n = (double)dt_replicas_in(g->module);
    if (p == NULL || !p->dynamic_loss_scale)
        return dt_graph_constant(&g->b, dtype,
                                 n * (p != NULL && p->loss_scale > 0 ? p->loss_scale : 1));
    DtValue *scale = dt_graph_source(&g->b, DT_OP_INPUT, dt_type_scalar(DT_F32),
                                     dt_intern(DT_LOSS_SCALE_INPUT), NULL);
    if (n > 1)
        scale = dt_graph_binary(&g->b, DT_OP_MUL, scale, dt_graph_constant(&g->b, DT_F32, n));
    return dtype == DT_F32 ? scale : dt_graph_cast(&g->b, scale, dtype);
}

static void call_both(Grad *g)
{
    const DtDerivative *d = g->derivative;
    if (d == NULL) {
        g->out = dt_graph_call(&g->b, g->step.func, NULL, g->in)->out;
        return;
    }
    g->out = dt_graph_call(&g->b, d->fwd, NULL, g->in)->out;
    const uint32_t n_saved = d->bwd->saved.n;
    DtValue **in = DT_NEW_ARRAY(g->module->arena, DtValue *, n_saved + 1);
    for (uint32_t i = 0; i < n_saved; i++) {
        const DtSaved saved = d->bwd->saved.at[i];
        in[i] = saved.is_input ? g->in[saved.index] : g->out[saved.index];
    }
    in[n_saved] = seed(g, g->out[0]->type->dtype);
    g->gradients = dt_graph_call(&g->b, d->bwd, NULL, in)->out;
}

/* Returns the value of the store's gradient in entry "grad"; NULL if the loss does not depend on
 * the store. */
static DtValue *gradient_of(const Grad *g, const DtStore *store)
{
    for (uint32_t i = 0; g->derivative != NULL && i < g->step.sources.n; i++)
        if (g->step.sources.at[i]->store == store && g->derivative->cotangent[i] >= 0)
            return g->gradients[g->derivative->cotangent[i]];
    return NULL;
}

static void return_gradients(Grad *g, DtEntryPoint *entry)
{
    const uint32_t n_stores = g->module->stores.n;
    for (uint32_t i = 0; i < n_stores; i++) {
        DtStore *store = g->module->stores.at[i];
        if (!g->trains[i])
            continue;
        DtStore *to = gradient_store(g, store);
        DtValue *gradient = gradient_of(g, store);
        g->b.span = store->span;
        if (gradient == NULL)
            gradient = dt_diff_zeros(&g->b, to->type);
        dt_graph_return(g->b.func, dt_graph_fit(&g->b, gradient, to->type));
        DT_PUSH(g->module->arena, entry->results,
                ((DtEntryResult){.store = to, .accumulate = true}));
    }
}

static const DtDerivative *derive_step(DtDiff *diff, const Step *step, const bool *trains)
{
    bool *active = DT_NEW_ARRAY(diff->arena, bool, step->sources.n + 1);
    bool *seeded = DT_NEW_ARRAY(diff->arena, bool, step->func->results.n + 1);
    for (uint32_t i = 0; i < step->sources.n; i++)
        active[i] =
            step->sources.at[i]->kind == DT_OP_PARAM && trains[step->sources.at[i]->store->index];
    seeded[0] = dt_activity_of(diff, step->func, active, NULL)->active_out[0];
    return seeded[0] ? dt_diff_derive(diff, step->func, NULL, active, seeded) : NULL;
}

/* Returns an array by number of the store: whether it is a parameter that the objective trains. */
static bool *trained_by(const DtModule *module, const DtPassContext *context, const char *objective)
{
    const DtTrainConfig *train = context ? context->train : NULL;
    bool *trains = DT_NEW_ARRAY(module->arena, bool, module->stores.n + 1);
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->kind == DT_STORE_PARAM && !store->frozen)
            trains[i] = !train || train->objectives.n < 2 ||
                        dt_train_objective(train, store->path)->name == objective;
    }
    return trains;
}

static void check_loss(const DtFunc *loss)
{
    if (loss->results.n > 0 && loss->results.at[0]->type->rank == 0 &&
        dt_dtype_is_float(loss->results.at[0]->type->dtype))
        return;
    DT_BUG("entry \"loss\" does not start with a float scalar");
}

static void differentiate(DtModule *module, DtEntryPoint *entry, const DtPassContext *context)
{
    DtFunc *loss = entry->func;
    check_loss(loss);
    DtDiff diff = {.module = module, .arena = module->arena, .adds = dt_pass_joins_biases(context)};
    Grad g = {.context = context, .module = module, .step = make_step(module, loss)};
    g.trains = trained_by(module, context, entry->objective);
    g.derivative = derive_step(&diff, &g.step, g.trains);
    dt_entry_set(entry, DT_ENTRY_GRAD, DT_PART_WHOLE, -1);
    g.b = (DtBuilder){.func = dt_graph_func(module, entry->name, DT_FUNC_ENTRY)};
    g.b.func->span = loss->span;
    read_sources(&g);
    g.b.span = loss->span;
    call_both(&g);
    for (uint32_t i = 0; i < loss->results.n; i++)
        dt_graph_return(g.b.func, g.out[i]);
    entry->func = g.b.func;
    entry->results.at[0].accumulate = true;
    return_gradients(&g, entry);
    dt_graph_renumber(g.b.func);
}

static bool has_ring(const DtPassContext *context)
{
    bool any = false;
    for (uint32_t i = 0; context && context->parallel && i < context->parallel->shards.n; i++)
        any = any || context->parallel->shards.at[i].ring;
    return any;
}

/* Removes the functions that merge and finish partial results of streaming functions, which only
 * rings of ranks use, and the clauses of `stream` that name them. */
static void drop_merges(DtModule *module)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        bool merges = false;
        for (uint32_t k = 0; k < module->funcs.n; k++) {
            const DtStream *of = module->funcs.at[k]->stream;
            merges =
                merges ||
                (of && (of->merge == module->funcs.at[i] || of->finish == module->funcs.at[i]));
        }
        if (!merges)
            module->funcs.at[n++] = module->funcs.at[i];
    }
    module->funcs.n = n;
    for (uint32_t i = 0; i < n; i++)
        if (module->funcs.at[i]->stream)
            module->funcs.at[i]->stream =
                dt_ring_without_parts(module->arena, module->funcs.at[i]->stream);
}

/* Removes functions that were kept as the definition of another one (DtFunc.meant, as for a scan
 * that runs in blocks), since the two have been compared. Returns whether there were any. */
static bool drop_meanings(DtModule *module)
{
    const uint32_t before = module->funcs.n;
    DtMap dropped = {.arena = module->arena};
    uint32_t n = 0;
    for (uint32_t i = 0; i < before; i++) {
        if (module->funcs.at[i]->meant)
            dt_map_add_pointer(&dropped, module->funcs.at[i]->meant, module);
        module->funcs.at[i]->meant = NULL;
    }
    for (uint32_t i = 0; i < before; i++)
        if (!dt_map_find_pointer(&dropped, module->funcs.at[i]))
            module->funcs.at[n++] = module->funcs.at[i];
    module->funcs.n = n;
    return n < before;
}

bool dt_pass_differentiate(DtModule *module, const DtPassContext *context)
{
    bool said = false, any = false; /* any: there is a train block */
    for (DtEntryPoint *entry = NULL; (entry = dt_entry_next(module, DT_ENTRY_LOSS, entry));
         any = true)
        differentiate(module, entry, context);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        said = said || module->funcs.at[i]->gradient || module->funcs.at[i]->stream;
        module->funcs.at[i]->gradient = NULL; /* used by differentiation only */
    }
    if (said && !has_ring(context))
        drop_merges(module);
    return drop_meanings(module) || any || said;
}
