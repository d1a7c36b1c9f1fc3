/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's step as IR.
 *
 * Purpose: adds entry "update", which reads gradients, parameters and the optimizer's states
 * (stores MOMENT1 ..), and applies to each parameter its rule (DtUpdateRule: the function that the
 * optimizer was lowered to).
 *
 *   %g = param "w" (gradient) ...       once per parameter
 *   %n = sqrt(sum over all gradients of reduce(mul(%g, %g)))
 *   %k = lt(%n, inf)
 *   %p', %m', .. = the rule's ops, of %p, %g, %n, %m, .., inputs "@lr" ..
 *   where(%k, %p', %p), where(%k, %m', %m) ...
 *
 * If there are several losses (DtObjective), each has an entry "update@NAME" for the parameters
 * that it trains. "All parameters" and "all gradients" then mean those of that loss.
 *
 * A group of parameters with `own_norm` has a norm of its own gradients, "grad_norm.NAME".
 *
 * A step whose norm is not finite changes no parameter, moment or state. All ranks compute the same
 * norm and decide alike, on the device. An op of a rule that depends on scalars only is emitted
 * once for all parameters.
 *
 * Results: parameters and moments, each to its store, then states, then the metric "grad_norm"
 * (before clipping). A store NEXT holds the value that entry "grad" assigns to a state until this
 * entry runs. So every op of a step reads the value that the state had before it, whatever the
 * order of micro-batches and pipeline stages. Scalars of the step are inputs.
 *
 * Keys of `precision` add:
 *   master       if it is wider than the parameter, the optimizer works on a copy of that dtype
 *                (store MASTER), and the parameter is the copy, rounded
 *   loss_scale   gradients are divided by it before any other op reads them
 *
 *   %w = where(%k, %w', %w) ; %p = cast(%w)
 *
 * Rules are in f32: parameters and gradients are cast to f32, and the new values to the stores'
 * dtypes.
 *
 * Requires: stores of kind GRAD, each `of` its parameter. Establishes: entry "update". Breaks:
 * nothing. */
#include "passes/replicas/replicas.h"

#include "base/bug.h"
#include "base/intern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One parameter with its gradient, its optimizer states and their values, while its update is
 * built. */
typedef struct Updated {
    DtStore *param, *grad, *moment[DT_MAX_MOMENTS];
    DtStore *master; /* the store that is updated: the wide copy, or the parameter itself */
    DtValue *master_value, *grad_value, *moment_value[DT_MAX_MOMENTS];
    DtValue *squares; /* sum of the gradient's squares */
    const DtUpdateRule *rule;
    const DtUpdateRule *exchange; /* NULL: the layout has no `compress` line */
    DtValue *exchanged[1 + DT_MAX_MOMENTS]; /* its results: the gradient, new states */
    const DtUpdateRule *average_rule; /* NULL: the program keeps no averages */
    DtStore *average;
    DtValue *average_value;
} Updated;

typedef struct Update {
    DtModule *module;
    const DtOptimizer *optimizer;
    const DtPrecision *precision;
    DtBuilder b;
    const DtEntryPoint *grad; /* the entry whose gradients are applied */
    DtEntryPoint entry;
    DT_VEC(DtValue *) scalars; /* scalars: inputs, and results of rules computed from scalars and
                                * numbers alone */
    DtValue *norm;
    const DtTrainConfig *train;
    DtValue **norms; /* by group: the norm that its rules get as `grad_norm` */
    DtValue *unscale; /* 1 / loss scale; NULL: 1 */
    DtValue *applies; /* whether the norm is finite: the step is not skipped */
} Update;

/* Returns the number of the parameter's rules. */
static uint32_t number_of(const DtOptimizer *optimizer, const DtStore *param)
{
    for (uint32_t i = 0; i < optimizer->rules.n; i++)
        if (optimizer->rules.at[i].param->path == param->path)
            return i;
    DT_BUG("the optimizer has no rule for `%s`", param->path);
}

DtStore *dt_optimizer_beside(DtModule *module, DtStore *of, DtStoreKind kind, DtDtype dtype)
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

/* Adds the store in which the rule keeps its state number `which` for a parameter. */
static DtStore *moment_store(DtModule *module, DtStore *of, const DtUpdateRule *rule,
                             uint32_t which)
{
    const DtValue *state = rule->func->inputs.at[rule->func->n_args + which];
    DtStore *store = dt_optimizer_beside(
        module, of, (DtStoreKind)(DT_STORE_MOMENT1 + which), state->type->dtype);
    store->type = dt_replicas_has(of->type)
                      ? dt_replicas_stored(of, state->type, dt_replicas_count(of->type))
                      : state->type;
    store->init = rule->func->params.at[which].init;
    return store;
}

/* Returns the store that the update writes: the parameter itself, or a new store for its wider
 * master copy if `precision` asks for one. */
static DtStore *master_store(Update *u, DtStore *param)
{
    const DtPrecision *p = u->precision;
    if (!p->has_master || dt_dtype_size(p->master) <= dt_dtype_size(param->type->dtype))
        return param;
    return dt_optimizer_beside(u->module, param, DT_STORE_MASTER, p->master);
}

static DtValue *read_store(Update *u, DtStore *store, const char *prefix)
{
    u->b.span = store->span;
    DtValue *value = dt_graph_source(&u->b, DT_OP_PARAM, store->type, store->path, store);
    value->name = dt_intern_printf("%s%s", prefix, store->path);
    return value;
}

static DtValue *scalar(Update *u, const char *name)
{
    for (uint32_t i = 0; i < u->scalars.n; i++)
        if (u->scalars.at[i]->op->kind == DT_OP_INPUT && u->scalars.at[i]->op->text == name)
            return u->scalars.at[i];
    DtValue *value = dt_graph_source(&u->b, DT_OP_INPUT, dt_type_scalar(DT_F32), name, NULL);
    DT_PUSH(u->module->arena, u->scalars, value);
    return value;
}

/* ---- rules ---- */

static bool is_same(const DtOp *a, const DtOp *b, DtValue *const *in)
{
    bool same = a->kind == b->kind && a->n_in == b->n_in && a->number == b->number &&
                a->out[0]->type == b->out[0]->type;
    for (uint32_t i = 0; same && i < a->n_in; i++)
        same = a->in[i] == in[i];
    return same;
}

/* Copies an op of the rule's function to the entry, with these operands. An op on scalars alone is
 * copied once for all parameters; later calls return that copy. */
static const DtOp *copy_op(Update *u, const DtOp *op, DtValue *const *in)
{
    bool is_scalar = op->n_out == 1 && op->out[0]->type->rank == 0;
    for (uint32_t i = 0; i < op->n_in; i++)
        is_scalar = is_scalar && in[i]->type->rank == 0;
    is_scalar = is_scalar && !(dt_op_info[op->kind].traits & DT_TRAIT_OWN);
    for (uint32_t i = 0; is_scalar && i < u->scalars.n; i++)
        if (is_same(u->scalars.at[i]->op, op, in))
            return u->scalars.at[i]->op;
    const DtOp *copy = dt_replicas_copy(&u->b, op, in);
    if (is_scalar)
        DT_PUSH(u->module->arena, u->scalars, copy->out[0]);
    return copy;
}

/* Whether the op renames the axis of terms, or sums along it: there ranks exchange its result. The
 * result may have another axis of that name: `code[worker -> received, element -> (worker, part)]`
 * sends each rank its part of what all have. */
static bool ends_terms(const DtOp *op)
{
    const char *worker = dt_intern(DT_WORKER_AXIS);
    for (uint32_t i = 0; op->kind == DT_OP_RELABEL && i < op->n_relabels; i++)
        for (uint32_t k = 0; k < op->relabels[i].n_from; k++)
            if (op->relabels[i].from[k] == worker && op->relabels[i].to[0] != worker)
                return true;
    return op->kind == DT_OP_REDUCE && dt_op_has_axis(op, worker);
}

/* Copies the ops of a rule into the entry. now: by value of its function, with its first n inputs;
 * moments: its states. The values of its results go to ret_results. */
static void run_ops(Update *u, const DtUpdateRule *rule, uint32_t n, DtValue *const *moments,
                    DtValue **now, DtValue **ret_results)
{
    const DtFunc *func = rule->func;
    DtValue *in[DT_UPDATE_OPERANDS];
    for (uint32_t i = 0; i < rule->n_scalars; i++)
        now[func->inputs.at[n++]->id] = scalar(u, rule->scalars[i]);
    for (uint32_t i = 0; i < func->params.n; i++)
        now[func->inputs.at[n++]->id] = moments[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->n_in > DT_COUNT(in) || op->func)
            DT_BUG("an optimizer's `%s`", dt_op_info[op->kind].text);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = now[op->in[k]->id];
        const DtOp *copy = copy_op(u, op, in);
        for (uint32_t k = 0; k < op->n_out; k++)
            now[op->out[k]->id] = copy->out[k];
        if (ends_terms(op)) { /* bound: all ranks get it */
            DtValue *bound = dt_graph_unary(&u->b, DT_OP_BIND, copy->out[0]);
            bound->op->text = dt_intern("");
            now[op->out[0]->id] = bound;
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = now[func->results.at[i]->id];
}

/* The same for a rule of the parameter. two: its first two inputs, in f32. */
static void run_rule(Update *u, const DtUpdateRule *rule, const Updated *one,
                     DtValue *const two[2], DtValue **ret_results)
{
    const DtFunc *func = rule->func;
    DtValue **now = DT_NEW_ARRAY(u->module->arena, DtValue *, func->n_values + 1);
    DtValue *first[] = {two[0], two[1], u->norms[rule->group]};
    for (uint32_t n = 0; n < DT_COUNT(first); n++)
        now[func->inputs.at[n]->id] = first[n];
    run_ops(u, rule, DT_COUNT(first), one->moment_value, now, ret_results);
}

/* The same for its exchange, of the terms of the gradient. */
static void run_exchange(Update *u, Updated *one, DtValue *terms)
{
    const DtFunc *func = one->exchange->func;
    DtValue **now = DT_NEW_ARRAY(u->module->arena, DtValue *, func->n_values + 1);
    now[func->inputs.at[0]->id] = terms;
    run_ops(u, one->exchange, 1, one->moment_value + one->rule->func->params.n, now,
            one->exchanged);
}

/* ---- gradients ---- */

/* Appends ops that cast the gradient to f32 and divide it by the loss scale, so that its squares do
 * not overflow. */
static DtValue *read_gradient(Update *u, const Updated *one)
{
    DtValue *g = dt_graph_cast(&u->b, one->grad_value, DT_F32);
    return u->unscale != NULL ? dt_graph_binary(&u->b, DT_OP_MUL, g, u->unscale) : g;
}

/* The gradient as its exchange makes it of the terms that ranks have. */
static DtValue *exchange_gradient(Update *u, Updated *one)
{
    const char *worker = dt_intern(DT_WORKER_AXIS);
    const DtType *type = one->exchange->func->inputs.at[0]->type;
    DtValue *own = dt_graph_terms(&u->b, one->grad_value, worker,
                                  dt_type_with_dtype(type, one->grad_value->type->dtype));
    own->name = dt_intern_printf("terms_%s", one->param->path);
    own = dt_graph_cast(&u->b, own, DT_F32);
    if (u->unscale)
        own = dt_graph_binary(&u->b, DT_OP_MUL, own, u->unscale);
    dt_inline_calls(one->exchange->func, NULL);
    run_exchange(u, one, own);
    return one->exchanged[0];
}

/* Sums the squares of the gradient, of each replica by itself. */
static DtValue *squares(Update *u, const Updated *one)
{
    DtValue *g = one->grad_value;
    const char *axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->type->rank; i++)
        if (g->type->axes[i].name != dt_intern(DT_REPLICA_AXIS))
            axes[n++] = g->type->axes[i].name;
    DtValue *square = dt_graph_binary(&u->b, DT_OP_MUL, g, g);
    return n == 0 ? square : dt_graph_reduce(&u->b, DT_REDUCE_SUM, square, n, axes);
}

/* Appends ops that compute the norm of a group's gradients (of all gradients if group is NULL) and
 * returns it: of each replica, or the root of the mean of their squares. */
static DtValue *norm_of(Update *u, uint32_t n, const Updated *all, const DtParamGroup *group,
                        bool of_each)
{
    DtValue *sum = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (group && &u->train->groups.at[all[i].rule->group] != group)
            continue;
        u->b.span = all[i].param->span;
        sum = sum == NULL ? all[i].squares : dt_graph_binary(&u->b, DT_OP_ADD, sum, all[i].squares);
    }
    u->b.span = group ? group->span : u->optimizer->span;
    if (sum == NULL)
        sum = dt_graph_constant(&u->b, DT_F32, 0);
    if (!of_each)
        sum = dt_replicas_mean(&u->b, sum);
    DtValue *norm = dt_graph_unary(&u->b, DT_OP_SQRT, sum);
    norm->op->gradients = true;
    norm->name = group ? dt_intern_printf("grad_norm.%s", group->name) : dt_intern("grad_norm");
    return norm;
}

/* Reads all gradients, and sets u->norms to the norm that the rules of each group get as
 * `grad_norm`: that of all gradients, or of the group's own. */
static void make_norms(Update *u, uint32_t n, Updated *all)
{
    for (uint32_t i = 0; i < n; i++) {
        u->b.span = all[i].param->span;
        all[i].grad_value =
            all[i].exchange ? exchange_gradient(u, &all[i]) : read_gradient(u, &all[i]);
        all[i].squares = squares(u, &all[i]);
    }
    u->norm = norm_of(u, n, all, NULL, false);
    DtValue *each = n && dt_replicas_has(all[0].squares->type) ? norm_of(u, n, all, NULL, true)
                                                               : u->norm;
    const uint32_t n_groups = u->train->groups.n; /* 0: all parameters are in one group */
    u->norms = DT_NEW_ARRAY(u->module->arena, DtValue *, n_groups + 1);
    for (uint32_t i = 0; i <= n_groups; i++) {
        const DtParamGroup *group = i < n_groups ? &u->train->groups.at[i] : NULL;
        u->norms[i] = group && group->own_norm ? norm_of(u, n, all, group, true) : each;
    }
}

static void give(Update *u, DtValue *value, DtStore *store, const char *name)
{
    if (store)
        value = dt_graph_reorder(&u->b, value, store->type);
    dt_graph_return(u->b.func, value);
    DtEntryResult result = {.store = store, .name = name};
    DT_PUSH(u->module->arena, u->entry.results, result);
}

/* Appends an op that selects the new value, or the old one if the step is skipped since a gradient
 * is not finite. */
static DtValue *unless_skipped(Update *u, DtValue *new, DtValue *old)
{
    return dt_graph_where(&u->b, u->applies, new, old);
}

/* Stores the new average of the parameter, whose new value is `new`. */
static void average_one(Update *u, const Updated *one, DtValue *new)
{
    DtValue *two[2] = {one->average_value, dt_graph_cast(&u->b, new, DT_F32)}, *result;
    dt_inline_calls(one->average_rule->func, NULL);
    run_rule(u, one->average_rule, one, two, &result);
    give(u, unless_skipped(u, result, one->average_value), one->average, NULL);
}

static void update_one(Update *u, const Updated *one)
{
    const DtFunc *func = one->rule->func;
    DtValue *results[1 + DT_MAX_MOMENTS];
    u->b.span = one->param->span;
    dt_inline_calls(one->rule->func, NULL);
    DtValue *two[2] = {dt_graph_cast(&u->b, one->master_value, DT_F32), one->grad_value};
    run_rule(u, one->rule, one, two, results);
    DtValue *next = dt_graph_cast(&u->b, results[0], one->master->type->dtype);
    DtValue *new = unless_skipped(u, next, one->master_value);
    give(u, new, one->master, NULL);
    if (one->master != one->param)
        give(u, dt_graph_cast(&u->b, new, one->param->type->dtype), one->param, NULL);
    for (uint32_t i = 0; i < func->writes.n; i++) {
        const uint32_t which = func->writes.at[i];
        give(u, unless_skipped(u, results[1 + i], one->moment_value[which]), one->moment[which],
             NULL);
    }
    for (uint32_t i = 0; one->exchange && i < one->exchange->func->writes.n; i++) {
        const uint32_t which = func->params.n + one->exchange->func->writes.at[i];
        give(u, unless_skipped(u, one->exchanged[1 + i], one->moment_value[which]),
             one->moment[which], NULL);
    }
    if (one->average_rule)
        average_one(u, one, next);
}

/* ---- averages ---- */

/* Returns the store of the parameter's average; it begins as the parameter does. */
static DtStore *average_store(DtModule *module, DtStore *param)
{
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_AVERAGE && module->stores.at[i]->of == param)
            return module->stores.at[i];
    return dt_optimizer_beside(module, param, DT_STORE_AVERAGE, DT_F32);
}

void dt_optimizer_read_averages(DtModule *module, DtFunc *func)
{
    DtBuilder b = {.func = func};
    const uint32_t n = func->ops.n;
    uint32_t made, kept = 0;
    bool *gone = DT_NEW_ARRAY(module->arena, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        DtOp *op = func->ops.at[i];
        DtStore *average = NULL;
        for (uint32_t s = 0; op->kind == DT_OP_PARAM && s < module->stores.n; s++)
            if (module->stores.at[s]->kind == DT_STORE_AVERAGE &&
                module->stores.at[s]->of == op->store)
                average = module->stores.at[s];
        if (!average)
            continue;
        b.span = op->span;
        DtValue *value = dt_graph_source(&b, DT_OP_PARAM, average->type, average->path, average);
        value->name = dt_intern_printf("average_%s", average->path);
        dt_graph_replace(func, op->out[0],
                         dt_graph_cast(&b, value, op->out[0]->type->dtype));
        gone[i] = true;
    }
    /* the new ops come first, since others read their results */
    made = func->ops.n - n;
    DtOp **ops = DT_NEW_ARRAY(module->arena, DtOp *, func->ops.n + 1);
    memcpy(ops, func->ops.at + n, made * sizeof *ops);
    for (uint32_t i = 0; i < n; i++)
        if (!gone[i])
            ops[made + kept++] = func->ops.at[i];
    memcpy(func->ops.at, ops, (made + kept) * sizeof *ops);
    func->ops.n = made + kept;
    dt_graph_renumber(func);
}

/* ---- loss scale ---- */

static void read_loss_scale(Update *u)
{
    const DtPrecision *p = u->precision;
    if (p->dynamic_loss_scale) {
        DtValue *scale = scalar(u, dt_intern(DT_LOSS_SCALE_INPUT)),
                *one = dt_graph_constant(&u->b, DT_F32, 1);
        u->unscale = dt_graph_binary(&u->b, DT_OP_DIV, one, scale);
    } else if (p->loss_scale > 0 && p->loss_scale != 1) {
        u->unscale = dt_graph_constant(&u->b, DT_F32, 1 / p->loss_scale);
    }
}

/* Sets states to the values that "grad" computed for them, unless the step is skipped. */
static void update_states(Update *u)
{
    for (uint32_t i = 0; i < u->grad->results.n; i++) {
        DtStore *state = u->grad->results.at[i].store;
        if (state == NULL || state->kind != DT_STORE_STATE)
            continue;
        DtStore *next = dt_optimizer_beside(u->module, state, DT_STORE_NEXT, state->type->dtype);
        next->init = (DtInit){.kind = DT_INIT_CONST};
        if (u->grad->objective) { /* two losses may assign the same state */
            next->path = dt_intern_printf("%s@%s", next->path, u->grad->objective);
            next->pattern = dt_intern_printf("%s@%s", next->pattern, u->grad->objective);
        }
        u->grad->results.at[i].store = next;
        DtValue *new = read_store(u, next, "next_");
        give(u, unless_skipped(u, new, read_store(u, state, "")), state, NULL);
    }
}

/* Reads the states of the parameter's exchange, which are stored after those of its rule. */
static void read_exchange(Update *u, Updated *one, const DtUpdateRule *exchange)
{
    const DtFunc *func = exchange->func;
    const uint32_t first = one->rule->func->params.n;
    one->exchange = exchange;
    for (uint32_t k = 0; k < func->params.n; k++) {
        const DtValue *state = func->inputs.at[func->n_args + k];
        DtStore *store = dt_optimizer_beside(u->module, one->param,
                                             (DtStoreKind)(DT_STORE_MOMENT1 + first + k),
                                             state->type->dtype);
        store->type = state->type;
        store->init = func->params.at[k].init;
        one->moment[first + k] = store;
        one->moment_value[first + k] = read_store(u, store, "error_");
    }
}

/* Lists each gradient of entry "grad" with its parameter, its master copy and its optimizer states.
 * Reads the parameters before everything else in the entry. */
static Updated *list_updated(Update *u, uint32_t *ret_n)
{
    DtModule *module = u->module;
    Updated *all = DT_NEW_ARRAY(module->arena, Updated, module->stores.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->grad->results.n; i++) {
        DtStore *grad = u->grad->results.at[i].store;
        if (grad && grad->kind == DT_STORE_GRAD)
            all[n++] = (Updated){.param = grad->of, .grad = grad};
    }
    for (uint32_t i = 0; i < n; i++) {
        Updated *one = &all[i];
        one->master = master_store(u, one->param);
        one->master_value = read_store(u, one->master, "");
        one->grad_value = read_store(u, one->grad, "d_");
        const uint32_t number = number_of(u->optimizer, one->param);
        one->rule = &u->optimizer->rules.at[number];
        for (uint32_t k = 0; k < one->rule->func->params.n; k++) {
            one->moment[k] = moment_store(module, one->param, one->rule, k);
            one->moment_value[k] = read_store(u, one->moment[k], k == 0 ? "m_" : "v_");
        }
        if (u->optimizer->exchanges.n > 0)
            read_exchange(u, one, &u->optimizer->exchanges.at[number]);
        if (u->optimizer->averages.n == 0)
            continue;
        one->average_rule = &u->optimizer->averages.at[number];
        one->average = average_store(module, one->param);
        one->average_value = read_store(u, one->average, "average_");
    }
    *ret_n = n;
    return all;
}

static void add_update(DtModule *module, const DtTrainConfig *train, const DtEntryPoint *grad)
{
    Update u = {.module = module,
                .train = train,
                .grad = grad,
                .optimizer = &train->optimizer,
                .precision = &train->precision};
    u.entry = dt_entry_new(DT_ENTRY_UPDATE, grad->objective, DT_PART_WHOLE, -1);
    u.b = (DtBuilder){.func = dt_graph_func(module, u.entry.name, DT_FUNC_ENTRY),
                      .span = u.optimizer->span};
    u.b.func->span = u.optimizer->span;
    u.entry.func = u.b.func;
    uint32_t n;
    Updated *all = list_updated(&u, &n);
    u.b.span = u.optimizer->span;
    read_loss_scale(&u);
    make_norms(&u, n, all);
    u.applies = dt_graph_binary(&u.b, DT_OP_LT, u.norm, dt_graph_constant(&u.b, DT_F32, INFINITY));
    for (uint32_t i = 0; i < n; i++)
        update_one(&u, &all[i]);
    update_states(&u);
    u.b.span = u.optimizer->span;
    give(&u, u.norm, NULL, dt_intern("grad_norm"));
    u.b.func->n_returns = u.b.func->results.n;
    dt_graph_renumber(u.b.func);
    DT_PUSH(module->arena, module->entries, u.entry);
}

bool dt_pass_optimizer(DtModule *module, const DtPassContext *context)
{
    const DtTrainConfig *train = context->train;
    if (train == NULL || (!train->optimizer.rules.n && !train->optimizer.span.file))
        return false; /* the program has no optimizer */
    const DtPrecision *precision = &train->precision;
    if (dt_dtype_is_float(precision->reduce) && precision->reduce != precision->grads)
        module->crossing = precision->reduce;
    const uint32_t n_entries = module->entries.n;
    for (uint32_t i = 0; i < n_entries; i++) { /* the loop adds entries */
        const DtEntryPoint grad = module->entries.at[i];
        if (grad.kind == DT_ENTRY_GRAD && grad.part == DT_PART_WHOLE)
            add_update(module, train, &grad);
    }
    for (uint32_t i = 0; train->optimizer.averages.n && i < n_entries; i++) {
        const DtEntryKind kind = module->entries.at[i].kind;
        if (kind == DT_ENTRY_EVAL || dt_entry_predicts(kind))
            dt_optimizer_read_averages(module, module->entries.at[i].func);
    }
    return true;
}
