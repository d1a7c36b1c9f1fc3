/* SPDX-License-Identifier: Apache-2.0 */
/* Weights are rounded once a step.
 *
 * Purpose: a weight that is stored wider than layers read it would be cast at each use, in each
 * micro-batch, forward and backward. If only such casts read it, it is stored in their dtype. The
 * update, which alone needs more, uses a master copy (passes/grad/optimizer.c) as if `precision`
 * had asked for one:
 *
 *   grad:   %1 = param() : f32[k, n] store=w      =>    %1 = param() : bf16[k, n] store=w
 *           %2 = cast(%1) : bf16[k, n]                  dot(%x, %1)
 *           dot(%x, %2)
 *   update: %1 = param() : f32[k, n] store=w            %1 = param() : f32[k, n] store=w's master
 *           return .. %3                                return .. %3, cast(%3)
 *             result store=w                              result store=w's master, result store=w
 *
 * Checkpoints and initial values are those of the copy, in the dtype of `params`; the parameter is
 * always its rounding. This pays if the cast must be in memory. Gains and biases, whose casts only
 * kernels compute, stay as they are; an exception is a bias that the target's library adds to a
 * product.
 *
 * A parameter may pass through inputs of functions and loops' bodies. An input can be narrow if all
 * calls pass narrow values, and only casts and narrow inputs read it. All inputs are candidates at
 * first; those that fail are removed until nothing changes.
 *
 * Requires: entries "grad" and "update". Establishes: see above. Breaks: nothing. */
#include "passes/passes.h"
#include "passes/place/ring.h"

typedef struct Narrow {
    DtModule *module;
    bool *updates;     /* by function: whether it is (part of) an entry that updates parameters */
    uint32_t n_stores; /* before masters were added */
    DtDtype dtype;     /* the dtype in which layers compute */
    bool adds;         /* the target's library adds biases to products */
    bool **input;      /* by function, by input: whether it can be narrow */
    bool **pays; /* by function, by input: whether some cast of the value is stored in memory */
    bool **in_memory;  /* by function, by value id: ops other than kernels of maps and sums read the
                        * value */
    bool *store;       /* by number of the store: whether it can be narrow */
    bool changed;
} Narrow;

static bool is_wider(const Narrow *n, const DtType *type)
{
    return dt_dtype_is_float(type->dtype) && dt_dtype_size(type->dtype) > dt_dtype_size(n->dtype);
}

/* Returns the flag that says whether a value can be narrow (be stored in 16 bits); NULL if the
 * value is neither a parameter nor an input. */
static bool *state_of(Narrow *n, uint32_t f, const DtValue *value)
{
    if (n->updates[f])
        return NULL;
    if (!value->op)
        return &n->input[f][value->index];
    return value->op->kind == DT_OP_PARAM ? &n->store[value->op->store->index] : NULL;
}

/* Returns the number of the input of op's function that receives operand k: the same number for a
 * call, one more for a loop, whose input 0 counts iterations. -1 if op has no function. */
static int64_t input_of(const DtOp *op, uint32_t k)
{
    return op->kind == DT_OP_CALL ? (int64_t)k : op->kind == DT_OP_LOOP ? (int64_t)k + 1 : -1;
}

static void cross_out(Narrow *n, bool *state)
{
    n->changed = n->changed || (state && *state);
    if (state)
        *state = false;
}

static void look_at_operand(Narrow *n, uint32_t f, const DtOp *op, uint32_t k)
{
    bool *state = state_of(n, f, op->in[k]);
    const int64_t input = input_of(op, k);
    if (input < 0) {
        if (op->kind != DT_OP_CAST || op->out[0]->type->dtype != n->dtype)
            cross_out(n, state);
        return;
    }
    bool *given = &n->input[dt_graph_number(n->module, op->func)][input];
    if (op->kind == DT_OP_LOOP && k < op->loop->n_carried)
        cross_out(n, given);
    if (!state || !*state)
        cross_out(n, given);
    if (!*given)
        cross_out(n, state);
}

static void look_at_all(Narrow *n)
{
    for (n->changed = true; n->changed;) {
        n->changed = false;
        for (uint32_t f = 0; f < n->module->funcs.n; f++) {
            const DtFunc *func = n->module->funcs.at[f];
            for (uint32_t i = 0; i < func->ops.n; i++)
                for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
                    look_at_operand(n, f, func->ops.at[i], k);
            for (uint32_t i = 0; i < func->results.n; i++)
                cross_out(n, state_of(n, f, func->results.at[i]));
        }
    }
}

/* ---- which parameters pay ---- */

/* Whether op reads operand k from memory: it is no kernel of maps and sums, or passes the value to
 * ops that read it so. */
static bool reads_memory(const Narrow *n, uint32_t f, const DtOp *op, uint32_t k)
{
    const int64_t input = input_of(op, k);
    if (input >= 0)
        return n->in_memory[dt_graph_number(n->module, op->func)][op->func->inputs.at[input]->id];
    if (dt_op_info[op->kind].data == DT_DATA_VIEW)
        return n->in_memory[f][op->out[0]->id];
    const DtValue *other = n->adds && op->kind == DT_OP_ADD ? op->in[1 - k] : NULL;
    if (other && other->op && other->op->kind == DT_OP_DOT)
        return true;
    return !dt_op_is_pointwise(op->kind) && op->kind != DT_OP_REDUCE;
}

static void find_memory(Narrow *n)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t f = 0; f < n->module->funcs.n; f++)
            for (uint32_t i = n->module->funcs.at[f]->ops.n; i-- > 0;) {
                const DtOp *op = n->module->funcs.at[f]->ops.at[i];
                for (uint32_t k = 0; k < op->n_in; k++) {
                    bool *in_memory = &n->in_memory[f][op->in[k]->id];
                    if (!*in_memory && reads_memory(n, f, op, k))
                        *in_memory = more = true;
                }
            }
    }
}

/* Marks the parameters, and inputs that parameters are passed to, whose cast would be stored in
 * memory for some reader. */
static void find_what_pays(Narrow *n, bool *ret_stores)
{
    find_memory(n);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t f = 0; f < n->module->funcs.n; f++)
            for (uint32_t i = n->module->funcs.at[f]->ops.n; i-- > 0;) {
                const DtOp *op = n->module->funcs.at[f]->ops.at[i];
                for (uint32_t k = 0; k < op->n_in; k++) {
                    const DtValue *value = op->in[k];
                    const bool *state = state_of(n, f, value);
                    const int64_t input = input_of(op, k);
                    if (!state || !*state)
                        continue;
                    bool *pays = value->op ? &ret_stores[value->op->store->index]
                                           : &n->pays[f][value->index];
                    if (!*pays &&
                        (input < 0 ? n->in_memory[f][op->out[0]->id]
                                   : n->pays[dt_graph_number(n->module, op->func)][input]))
                        *pays = more = true;
                }
            }
    }
}

/* ---- doing it ---- */

/* Changes the dtype of narrow inputs and parameters of the function to that of their casts, and
 * removes the casts. */
static void narrow_func(Narrow *n, uint32_t f)
{
    DtFunc *func = n->module->funcs.at[f];
    DtValue **now = DT_NEW_ARRAY(n->module->arena, DtValue *, func->n_values + 1); /* by value id */
    bool any = false;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        /* the dtype of the cast's operand */
        const bool *state = op->kind == DT_OP_CAST ? state_of(n, f, op->in[0]) : NULL;
        for (uint32_t k = 0; k < op->n_in; k++)
            if (now[op->in[k]->id])
                op->in[k] = now[op->in[k]->id];
        if (!state || !*state)
            continue;
        now[op->out[0]->id] = op->in[0];
        any = true;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (now[func->results.at[i]->id])
            func->results.at[i] = now[func->results.at[i]->id];
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (n->input[f][i])
            func->inputs.at[i]->type = dt_type_with_dtype(func->inputs.at[i]->type, n->dtype);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtValue *value = func->ops.at[i]->kind == DT_OP_PARAM ? func->ops.at[i]->out[0] : NULL;
        const bool *state = value ? state_of(n, f, value) : NULL;
        if (state && *state)
            value->type = dt_type_with_dtype(value->type, n->dtype);
    }
    if (any) {
        dt_graph_sweep(func);
        dt_graph_renumber(func);
    }
}

static DtStore *master_of(DtModule *module, DtStore *store)
{
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_MASTER && module->stores.at[i]->of == store)
            return module->stores.at[i];
    DtStore *master = DT_NEW(module->arena, DtStore);
    *master = *store;
    master->kind = DT_STORE_MASTER;
    master->of = store;
    master->index = module->stores.n;
    DT_PUSH(module->arena, module->stores, master);
    return master;
}

/* The next entry that updates parameters. */
static DtEntryPoint *next_update(const DtModule *module, const DtEntryPoint *before)
{
    for (uint32_t i = before ? (uint32_t)(before - module->entries.at) + 1 : 0;
         i < module->entries.n; i++)
        if (dt_entry_updates(module->entries.at[i].kind))
            return &module->entries.at[i];
    return NULL;
}

/* Makes the entry write the master copy, and also its rounding. */
static void update_master(const Narrow *n, DtEntryPoint *update, uint32_t result)
{
    DtArena *arena = n->module->arena;
    DtFunc *func = update->func;
    DtStore *store = update->results.at[result].store, *master = master_of(n->module, store);
    DtValue *new = func->results.at[result];
    DtBuilder b = {.func = func, .span = store->span, .path = new->op ? new->op->path : NULL};
    DtValue *rounded = dt_graph_cast(&b, new, n->dtype);
    const DtEntryResult last = {.store = store};
    DT_PUSH(arena, func->results, rounded);
    DT_PUSH(arena, update->results, last);
    update->results.at[result].store = master;
    for (uint32_t i = func->results.n - 1; i > result + 1; i--) {
        func->results.at[i] = func->results.at[i - 1];
        update->results.at[i] = update->results.at[i - 1];
    }
    func->results.at[result + 1] = rounded;
    update->results.at[result + 1] = last;
    func->n_returns = func->results.n;
    store->type = dt_type_with_dtype(store->type, n->dtype);
}

/* Makes the entry read the master copies of narrow parameters. */
static void read_masters(const Narrow *n, const DtEntryPoint *update)
{
    for (uint32_t i = 0; i < update->func->ops.n; i++) {
        DtOp *op = update->func->ops.at[i];
        if (op->kind == DT_OP_PARAM && op->store->index < n->n_stores &&
            n->store[op->store->index])
            op->store = master_of(n->module, op->store);
    }
}

static bool is_update(const DtModule *module, const DtFunc *func)
{
    const DtEntryPoint *update = NULL;
    while ((update = next_update(module, update)) && update->func != func)
        continue;
    return update != NULL;
}

static void begin(Narrow *n, const DtPassContext *context)
{
    DtModule *module = n->module;
    n->updates = DT_NEW_ARRAY(module->arena, bool, module->funcs.n + 1);
    n->input = DT_NEW_ARRAY(module->arena, bool *, module->funcs.n + 1);
    n->pays = DT_NEW_ARRAY(module->arena, bool *, module->funcs.n + 1);
    n->in_memory = DT_NEW_ARRAY(module->arena, bool *, module->funcs.n + 1);
    n->store = DT_NEW_ARRAY(module->arena, bool, module->stores.n + 1);
    const bool *streams = dt_ring_functions(module);
    for (uint32_t f = 0; f < module->funcs.n; f++) {
        const DtFunc *func = module->funcs.at[f];
        n->updates[f] = is_update(module, func);
        n->input[f] = DT_NEW_ARRAY(module->arena, bool, func->inputs.n + 1);
        n->pays[f] = DT_NEW_ARRAY(module->arena, bool, func->inputs.n + 1);
        n->in_memory[f] = DT_NEW_ARRAY(module->arena, bool, func->n_values + 1);
        for (uint32_t i = 0; i < func->inputs.n; i++)
            n->input[f][i] = is_wider(n, func->inputs.at[i]->type) &&
                             !dt_inline_keeps(context, func) && !streams[f];
    }
    n->n_stores = module->stores.n;
    for (const DtEntryPoint *update = NULL; (update = next_update(module, update));)
        for (uint32_t i = 0; i < update->results.n; i++) {
            const DtStore *store = update->results.at[i].store;
            if (store && store->kind == DT_STORE_PARAM)
                n->store[store->index] = is_wider(n, store->type);
        }
}

/* Changes the entry's updates of narrow parameters to read and write their master copies; returns
 * whether there are any. */
static bool update_masters(const Narrow *n, DtEntryPoint *update)
{
    bool any = false;
    for (uint32_t i = 0; i < update->results.n; i++) {
        const DtStore *store = update->results.at[i].store;
        if (!store || store->kind != DT_STORE_PARAM || store->index >= n->n_stores ||
            !n->store[store->index])
            continue;
        update_master(n, update, i++);
        any = true;
    }
    return any;
}

bool dt_pass_narrow(DtModule *module, const DtPassContext *context)
{
    DtEntryPoint *update = next_update(module, NULL);
    if (!update || !context->train || context->train->precision.compute == DT_F32)
        return false;
    Narrow n = {.module = module, .dtype = context->train->precision.compute,
                .adds = dt_pass_joins_biases(context)};
    bool *pays = DT_NEW_ARRAY(module->arena, bool, module->stores.n + 1), any = false;
    begin(&n, context);
    look_at_all(&n);
    find_what_pays(&n, pays);
    for (uint32_t i = 0; i < module->stores.n; i++)
        n.store[i] = n.store[i] && pays[i];
    look_at_all(&n);
    for (; update; update = next_update(module, update)) {
        any = update_masters(&n, update) || any;
        read_masters(&n, update);
    }
    for (uint32_t f = 0; any && f < module->funcs.n; f++)
        narrow_func(&n, f);
    return any;
}
