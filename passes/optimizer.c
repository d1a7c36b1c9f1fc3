/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's step as IR.
 *
 * Purpose: adds entry "update", which reads gradients, parameters and moments, and makes stores for
 * moments.
 *
 *   %g = param "w" (gradient) ...       once per parameter
 *   %n = sqrt(sum over all gradients of reduce(mul(%g, %g)))
 *   %s = min(clip / (%n + 1e-6), 1)     as torch.nn.utils.clip_grad_norm_ does; 1 if clip is 0
 *   %p', %m', %v' = update adamw(%p, %g, %m, %v, @lr, %s, @bias1, @bias2)
 *   %k = lt(%n, inf) ; where(%k, %p', %p), where(%k, %m', %m) ...
 *
 * So a step whose norm is not finite changes nothing: neither parameters and moments nor states. All ranks know the
 * whole norm and decide alike, on the device.
 *
 * Results: parameters and moments, each to its store, then states, then the metric "grad_norm" (before
 * clipping). What entry "grad" assigns to a state waits in a store NEXT until here: all reads of a step see the
 * value from before it, in whatever order micro-batches and pipeline stages run. The scalars of the step are
 * inputs: "@lr" the learning rate, "@bias1" = 1/(1 - beta1^t), "@bias2" = 1/(1 - beta2^t), t counting applied
 * updates from 1. Parameters for which `decay_if` does not hold, get decay 0.
 *
 * `precision` adds to that:
 *   master       where it is wider than the parameter, the optimizer works on a copy of that dtype (store
 *                MASTER), and the parameter is the copy, rounded
 *   loss_scale   gradients are divided by it, in the norm and where they are used
 *
 *   %w = where(%k, %w', %w) ; %p = cast(%w)
 *
 * Requires: stores of kind GRAD, each `of` its parameter. Establishes: entry "update". Breaks:
 * nothing. */
#include "passes/passes.h"

#include "base/intern.h"

#include <math.h>
#include <stdlib.h>

/* One parameter with what belongs to it; moment values NULL where the optimizer keeps none. */
typedef struct Slot {
    DtStore *param, *grad, *moment[2];
    DtStore *master; /* what is updated: the wide copy, or the parameter itself */
    DtValue *master_value, *grad_value, *moment_value[2];
} Slot;

typedef struct Update {
    DtModule *module;
    const DtOptimizer *optimizer;
    const DtPrecision *precision;
    DtBuilder b;
    DtEntryPoint entry;
    DtValue *lr, *scale, *bias[2];
    DtValue *unscale; /* 1 / loss scale; NULL: 1 */
    DtValue *applies; /* whether the norm is finite: the step is not skipped */
} Update;

static uint32_t n_moments(const DtUpdate *update)
{
    if (update->kind == DT_UPDATE_ADAMW)
        return 2;
    return update->momentum != 0 ? 1 : 0;
}

/* A store for what belongs to another, with the same initial value. */
static DtStore *beside(DtModule *module, DtStore *of, DtStoreKind kind, DtDtype dtype)
{
    DtStore *store = DT_NEW(module->arena, DtStore);
    *store = *of;
    store->kind = kind;
    store->type = dt_type_with_dtype(of->type, dtype);
    store->of = of;
    store->index = module->stores.n;
    DT_PUSH(module->arena, module->stores, store);
    return store;
}

static DtStore *moment_store(DtModule *module, DtStore *of, uint32_t which)
{
    DtStore *store =
        beside(module, of, which == 0 ? DT_STORE_MOMENT1 : DT_STORE_MOMENT2, DT_F32);
    store->init = (DtInit){.kind = DT_INIT_CONST};
    return store;
}

/* The parameter itself, or a wider copy if `precision` asks for one. */
static DtStore *master_store(Update *u, DtStore *param)
{
    const DtPrecision *p = u->precision;
    if (!p->has_master || dt_dtype_size(p->master) <= dt_dtype_size(param->type->dtype))
        return param;
    return beside(u->module, param, DT_STORE_MASTER, p->master);
}

static DtValue *read_store(Update *u, DtStore *store, const char *prefix)
{
    u->b.span = store->span;
    DtValue *value = dt_graph_source(&u->b, DT_OP_PARAM, store->type, store->path, store);
    value->name = dt_intern_printf("%s%s", prefix, store->path);
    return value;
}

/* The sum of squares in f32. Gradients are unscaled before, so that their squares do not overflow. */
static DtValue *squares(Update *u, DtValue *gradient)
{
    DtValue *g = dt_graph_cast(&u->b, gradient, DT_F32);
    if (u->unscale != NULL)
        g = dt_graph_binary(&u->b, DT_OP_MUL, g, u->unscale);
    const char *axes[DT_MAX_RANK];
    for (uint32_t i = 0; i < g->type->rank; i++)
        axes[i] = g->type->axes[i].name;
    DtValue *square = dt_graph_binary(&u->b, DT_OP_MUL, g, g);
    return g->type->rank == 0 ? square
                              : dt_graph_reduce(&u->b, DT_REDUCE_SUM, square, g->type->rank, axes);
}

static DtValue *global_norm(Update *u, uint32_t n, const Slot *slots)
{
    DtValue *sum = NULL;
    for (uint32_t i = 0; i < n; i++) {
        u->b.span = slots[i].param->span;
        DtValue *part = squares(u, slots[i].grad_value);
        sum = sum == NULL ? part : dt_graph_binary(&u->b, DT_OP_ADD, sum, part);
    }
    u->b.span = u->optimizer->span;
    if (sum == NULL)
        sum = dt_graph_constant(&u->b, DT_F32, 0);
    DtValue *norm = dt_graph_unary(&u->b, DT_OP_SQRT, sum);
    norm->name = dt_intern("grad_norm");
    return norm;
}

/* What gradients are multiplied with: by clipping, and by unscaling. */
static DtValue *gradient_scale(Update *u, DtValue *norm)
{
    DtValue *one = dt_graph_constant(&u->b, DT_F32, 1);
    if (u->optimizer->clip <= 0)
        return u->unscale != NULL ? u->unscale : one;
    DtValue *floor = dt_graph_constant(&u->b, DT_F32, 1e-6);
    DtValue *clip = dt_graph_constant(&u->b, DT_F32, u->optimizer->clip);
    DtValue *ratio =
        dt_graph_binary(&u->b, DT_OP_DIV, clip, dt_graph_binary(&u->b, DT_OP_ADD, norm, floor));
    DtValue *clipped = dt_graph_binary(&u->b, DT_OP_MIN, ratio, one);
    return u->unscale != NULL ? dt_graph_binary(&u->b, DT_OP_MUL, clipped, u->unscale) : clipped;
}

static DtValue *scalar(Update *u, const char *name)
{
    return dt_graph_source(&u->b, DT_OP_INPUT, dt_type_scalar(DT_F32), dt_intern(name), NULL);
}

static void give(Update *u, DtValue *value, DtStore *store, const char *name)
{
    dt_graph_return(u->b.func, value);
    DtEntryResult result = {.store = store, .name = name};
    DT_PUSH(u->module->arena, u->entry.results, result);
}

/* The new value, or the old one if the step is skipped. */
static DtValue *unless_skipped(Update *u, DtValue *new, DtValue *old)
{
    return dt_graph_where(&u->b, u->applies, new, old);
}

static void update_one(Update *u, const Slot *slot)
{
    DtUpdate update = u->optimizer->update;
    const uint32_t n = n_moments(&update);
    DtValue *in[8] = {slot->master_value, slot->grad_value};
    uint32_t n_in = 2;
    for (uint32_t i = 0; i < n; i++)
        in[n_in++] = slot->moment_value[i];
    in[n_in++] = u->lr;
    in[n_in++] = u->scale;
    for (uint32_t i = 0; update.kind == DT_UPDATE_ADAMW && i < 2; i++)
        in[n_in++] = u->bias[i];
    if (!slot->param->decays)
        update.decay = 0;
    u->b.span = slot->param->span;
    const DtOp *op = dt_graph_update(&u->b, update, n_in, in);
    DtValue *new = unless_skipped(u, op->out[0], slot->master_value);
    give(u, new, slot->master, NULL);
    if (slot->master != slot->param)
        give(u, dt_graph_cast(&u->b, new, slot->param->type->dtype), slot->param, NULL);
    for (uint32_t i = 0; i < n; i++)
        give(u, unless_skipped(u, op->out[1 + i], slot->moment_value[i]), slot->moment[i], NULL);
}

/* ---- loss scale ---- */

static void read_loss_scale(Update *u)
{
    const DtPrecision *p = u->precision;
    if (p->dynamic_loss_scale) {
        DtValue *scale = scalar(u, DT_LOSS_SCALE_INPUT), *one = dt_graph_constant(&u->b, DT_F32, 1);
        u->unscale = dt_graph_binary(&u->b, DT_OP_DIV, one, scale);
    } else if (p->loss_scale > 0 && p->loss_scale != 1) {
        u->unscale = dt_graph_constant(&u->b, DT_F32, 1 / p->loss_scale);
    }
}

/* States take the values that "grad" made for them, unless the step is skipped. */
static void update_states(Update *u)
{
    DtEntryPoint *grad = dt_entry_whole(u->module, DT_ENTRY_GRAD);
    for (uint32_t i = 0; grad != NULL && i < grad->results.n; i++) {
        DtStore *state = grad->results.at[i].store;
        if (state == NULL || state->kind != DT_STORE_STATE)
            continue;
        DtStore *next = beside(u->module, state, DT_STORE_NEXT, state->type->dtype);
        next->init = (DtInit){.kind = DT_INIT_CONST};
        grad->results.at[i].store = next;
        DtValue *new = read_store(u, next, "next_");
        give(u, unless_skipped(u, new, read_store(u, state, "")), state, NULL);
    }
}

/* One slot per gradient store; their values, first all parameters', so that the text reads in
 * groups. */
static Slot *make_slots(Update *u, uint32_t *ret_n)
{
    DtModule *module = u->module;
    Slot *slots = DT_NEW_ARRAY(module->arena, Slot, module->stores.n + 1);
    const uint32_t n_stores = module->stores.n;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_stores; i++) {
        DtStore *grad = module->stores.at[i];
        if (grad->kind == DT_STORE_GRAD)
            slots[n++] = (Slot){.param = grad->of, .grad = grad};
    }
    for (uint32_t i = 0; i < n; i++) {
        Slot *slot = &slots[i];
        slot->master = master_store(u, slot->param);
        slot->master_value = read_store(u, slot->master, "");
        slot->grad_value = read_store(u, slot->grad, "d_");
        for (uint32_t k = 0; k < n_moments(&u->optimizer->update); k++) {
            slot->moment[k] = moment_store(module, slot->param, k);
            slot->moment_value[k] = read_store(u, slot->moment[k], k == 0 ? "m_" : "v_");
        }
    }
    *ret_n = n;
    return slots;
}

bool dt_pass_optimizer(DtModule *module, const DtPassContext *context)
{
    if (context->train == NULL)
        return false;
    Update u = {.module = module,
                .optimizer = &context->train->optimizer,
                .precision = &context->train->precision};
    if (dt_dtype_is_float(u.precision->reduce) && u.precision->reduce != u.precision->grads)
        module->crossing = u.precision->reduce;
    u.entry = dt_entry_new(DT_ENTRY_UPDATE, DT_PART_WHOLE, -1);
    u.b = (DtBuilder){.func = dt_graph_func(module, u.entry.name, DT_FUNC_ENTRY), .span = u.optimizer->span};
    u.b.func->span = u.optimizer->span;
    u.entry.func = u.b.func;
    uint32_t n;
    const Slot *slots = make_slots(&u, &n);
    u.b.span = u.optimizer->span;
    read_loss_scale(&u);
    DtValue *norm = global_norm(&u, n, slots);
    u.scale = gradient_scale(&u, norm);
    u.applies = dt_graph_binary(&u.b, DT_OP_LT, norm, dt_graph_constant(&u.b, DT_F32, INFINITY));
    u.lr = scalar(&u, "@lr");
    if (u.optimizer->update.kind == DT_UPDATE_ADAMW) {
        u.bias[0] = scalar(&u, "@bias1");
        u.bias[1] = scalar(&u, "@bias2");
    }
    for (uint32_t i = 0; i < n; i++)
        update_one(&u, &slots[i]);
    update_states(&u);
    u.b.span = u.optimizer->span;
    give(&u, norm, NULL, dt_intern("grad_norm"));
    u.b.func->n_returns = u.b.func->results.n;
    dt_graph_renumber(u.b.func);
    DT_PUSH(module->arena, module->entries, u.entry);
    return true;
}
