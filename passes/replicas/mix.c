/* SPDX-License-Identifier: Apache-2.0 */
/* What replicas exchange.
 *
 * Purpose: adds the entries of kind MIX. The run executes "mix" after every step whose number is a
 * multiple of DtReplicas.every.
 *
 *   local n            mix             w = mean over replicas
 *   .. (outer = ..)                    w = a = the outer optimizer's, of a and a - mean
 *   gossip ring        mix             w = (w of the replica before + w + w of the next) / 3
 *   gossip pairs       mix@0, mix@1..  w = (w + w of the other of the pair) / 2: one of them, drawn
 *   all                mix@average     average = mean, for what evaluates and saves
 *                      mix@spread      w = a = average, for a run that begins
 *
 * w is a parameter (its master copy, if it has one), or a state. a is the parameter after the last
 * average (Douillard et al., DiLoCo, 2023): a store of path `w@outer`, the moment after those of
 * the outer optimizer.
 *
 * Requires: pass `optimizer` has run. Establishes: see above. Breaks: nothing. */
#include "passes/replicas/replicas.h"

#include "base/bug.h"
#include "base/intern.h"

#include <math.h>
#include <string.h>

/* A parameter or state that replicas exchange. */
typedef struct Mixed {
    DtStore *store;  /* what steps read */
    DtStore *target; /* what is exchanged: the master copy, or the store itself */
    DtStore *average;
    const DtUpdateRule *outer; /* NULL: there is no outer optimizer */
    DtStore *anchor, *state[DT_MAX_MOMENTS];
    /* in the entry that is being built: */
    DtValue *value, *mean, *anchor_value, *gradient;
} Mixed;

typedef struct Mix {
    DtModule *module;
    const DtTrainConfig *train;
    const DtReplicas *replicas;
    DT_VEC(Mixed) all;
    DtBuilder b;
    DtEntryPoint entry;
} Mix;

static DtStore *find_store(const DtModule *module, DtStoreKind kind, const DtStore *of)
{
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == kind && module->stores.at[i]->of == of)
            return module->stores.at[i];
    return NULL;
}

/* Adds a store for the outer optimizer. */
static DtStore *outer_store(Mix *m, const Mixed *one, uint32_t number, const DtType *type)
{
    DtStore *store = dt_optimizer_beside(m->module, one->store,
                                         (DtStoreKind)(DT_STORE_MOMENT1 + number), DT_F32);
    store->type = type;
    store->path = dt_intern_printf("%s@outer", store->path);
    store->pattern = dt_intern_printf("%s@outer", store->pattern);
    store->init = (DtInit){.kind = DT_INIT_CONST};
    return store;
}

static void find_outer(Mix *m, Mixed *one)
{
    const DtOptimizer *o = &m->train->optimizer;
    for (uint32_t i = 0; i < o->outers.n; i++)
        if (o->outers.at[i].param->path == one->store->path)
            one->outer = &o->outers.at[i];
    if (!one->outer || one->store->kind != DT_STORE_PARAM)
        return;
    const DtFunc *func = one->outer->func;
    for (uint32_t i = 0; i < func->params.n; i++) {
        one->state[i] = outer_store(m, one, i, func->inputs.at[func->n_args + i]->type);
        one->state[i]->init = func->params.at[i].init;
    }
    one->anchor = outer_store(m, one, func->params.n, one->average->type);
}

static void list_all(Mix *m)
{
    const uint32_t n = m->module->stores.n;
    for (uint32_t i = 0; i < n; i++) {
        DtStore *average = m->module->stores.at[i];
        if (average->kind != DT_STORE_AVERAGE)
            continue;
        DtStore *master = find_store(m->module, DT_STORE_MASTER, average->of);
        Mixed one = {.store = average->of, .target = master ? master : average->of,
                     .average = average};
        find_outer(m, &one);
        DT_PUSH(m->module->arena, m->all, one);
    }
}

/* ---- entries ---- */

static void begin(Mix *m, const char *name)
{
    m->entry = dt_entry_new(DT_ENTRY_MIX, name ? dt_intern(name) : NULL, DT_PART_WHOLE, -1);
    m->b = (DtBuilder){.func = dt_graph_func(m->module, m->entry.name, DT_FUNC_ENTRY),
                       .span = m->replicas->span};
    m->b.func->span = m->replicas->span;
    m->entry.func = m->b.func;
}

static void end(Mix *m)
{
    m->b.func->n_returns = m->b.func->results.n;
    dt_graph_renumber(m->b.func);
    DT_PUSH(m->module->arena, m->module->entries, m->entry);
}

static DtValue *read_store(Mix *m, DtStore *store, const char *prefix)
{
    DtValue *value = dt_graph_source(&m->b, DT_OP_PARAM, store->type, store->path, store);
    value->name = dt_intern_printf("%s%s", prefix, store->path);
    return value;
}

static void give(Mix *m, DtValue *value, DtStore *store)
{
    const DtEntryResult result = {.store = store};
    dt_graph_return(m->b.func, dt_graph_fit(&m->b, value, store->type));
    DT_PUSH(m->module->arena, m->entry.results, result);
}

/* Stores what replicas have from now on, each its part of `value`, or all of them the same. */
static void give_replicas(Mix *m, const Mixed *one, DtValue *value)
{
    give(m, value, one->target);
    if (one->target != one->store)
        give(m, m->b.func->results.at[m->b.func->results.n - 1], one->store);
}

/* Reads what all replicas have, in f32. */
static void read_all(Mix *m)
{
    for (uint32_t i = 0; i < m->all.n; i++) {
        Mixed *one = &m->all.at[i];
        one->value = dt_graph_cast(&m->b, read_store(m, one->target, ""), DT_F32);
    }
}

/* ---- averages ---- */

static void make_means(Mix *m)
{
    for (uint32_t i = 0; i < m->all.n; i++)
        m->all.at[i].mean = dt_replicas_mean(&m->b, m->all.at[i].value);
}

/* The norm of all gradients of the outer optimizer. */
static DtValue *outer_norm(Mix *m)
{
    DtValue *sum = NULL;
    for (uint32_t i = 0; i < m->all.n; i++) {
        const Mixed *one = &m->all.at[i];
        const char *axes[DT_MAX_RANK];
        if (!one->outer)
            continue;
        DtValue *squares = dt_graph_binary(&m->b, DT_OP_MUL, one->gradient, one->gradient);
        for (uint32_t a = 0; a < squares->type->rank; a++)
            axes[a] = squares->type->axes[a].name;
        if (squares->type->rank)
            squares = dt_graph_reduce(&m->b, DT_REDUCE_SUM, squares, squares->type->rank, axes);
        sum = sum ? dt_graph_binary(&m->b, DT_OP_ADD, sum, squares) : squares;
    }
    return sum ? dt_graph_unary(&m->b, DT_OP_SQRT, sum) : NULL;
}

/* Appends the ops of the outer optimizer for a parameter; the values of its results go to
 * ret_results. */
static void run_outer(Mix *m, const Mixed *one, DtValue *norm, DtValue **ret_results)
{
    const DtFunc *func = one->outer->func;
    DtValue **now = DT_NEW_ARRAY(m->module->arena, DtValue *, func->n_values + 1);
    DtValue *const first[] = {one->anchor_value, one->gradient, norm};
    DtValue *in[DT_UPDATE_OPERANDS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < DT_COUNT(first); i++)
        now[func->inputs.at[n++]->id] = first[i];
    for (uint32_t i = 0; i < one->outer->n_scalars; i++)
        now[func->inputs.at[n++]->id] = dt_graph_source(
            &m->b, DT_OP_INPUT, dt_type_scalar(DT_F32), one->outer->scalars[i], NULL);
    for (uint32_t i = 0; i < func->params.n; i++)
        now[func->inputs.at[n++]->id] = read_store(m, one->state[i], "outer_");
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->n_out != 1 || op->n_in > DT_COUNT(in) || op->func)
            DT_BUG("an outer optimizer's `%s`", dt_op_info[op->kind].text);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = now[op->in[k]->id];
        now[op->out[0]->id] = dt_graph_copy(&m->b, op, in)->out[0];
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = now[func->results.at[i]->id];
}

static void give_outer(Mix *m, const Mixed *one, DtValue *norm)
{
    DtValue *results[1 + DT_MAX_MOMENTS];
    const DtFunc *func = one->outer->func;
    dt_inline_calls(one->outer->func, NULL);
    run_outer(m, one, norm, results);
    give(m, results[0], one->anchor);
    for (uint32_t i = 0; i < func->writes.n; i++)
        give(m, results[1 + i], one->state[func->writes.at[i]]);
    give_replicas(m, one, results[0]);
}

static void add_average(Mix *m)
{
    begin(m, NULL);
    read_all(m);
    make_means(m);
    for (uint32_t i = 0; i < m->all.n; i++) {
        Mixed *one = &m->all.at[i];
        m->b.span = one->store->span;
        if (!one->anchor)
            continue;
        one->anchor_value = read_store(m, one->anchor, "outer_");
        one->gradient = dt_graph_binary(&m->b, DT_OP_SUB, one->anchor_value, one->mean);
    }
    DtValue *norm = outer_norm(m);
    for (uint32_t i = 0; i < m->all.n; i++) {
        m->b.span = m->all.at[i].store->span;
        if (m->all.at[i].anchor)
            give_outer(m, &m->all.at[i], norm);
        else
            give_replicas(m, &m->all.at[i], m->all.at[i].mean);
    }
    end(m);
}

/* ---- gossip ---- */

/* The mean of a replica and those that it meets: both neighbours in the ring, which are one if
 * there are two replicas, or its partner in a round of pairs. */
static DtValue *meet(Mix *m, DtValue *x, int64_t round)
{
    const char *axis = dt_intern(DT_REPLICA_AXIS);
    const int64_t n = m->replicas->n;
    const bool two = m->replicas->mix == DT_MIX_RING && n > 2;
    if (n == 1)
        return x;
    DtValue *other = dt_graph_partner(&m->b, x, axis, false,
                                      m->replicas->mix == DT_MIX_PAIRS ? 1 + round : 0, 0);
    DtValue *sum = dt_graph_binary(&m->b, DT_OP_ADD, x, other);
    if (two)
        sum = dt_graph_binary(&m->b, DT_OP_ADD, sum, dt_graph_partner(&m->b, x, axis, true, 0, 0));
    return dt_graph_binary(&m->b, DT_OP_DIV, sum,
                           dt_graph_constant(&m->b, DT_F32, two ? 3 : 2));
}

static void add_gossip(Mix *m)
{
    const int64_t ways = dt_replicas_ways(m->replicas);
    for (int64_t way = 0; way < ways; way++) {
        begin(m, ways > 1 ? dt_intern_printf("%lld", (long long)way) : NULL);
        read_all(m);
        for (uint32_t i = 0; i < m->all.n; i++) {
            m->b.span = m->all.at[i].store->span;
            give_replicas(m, &m->all.at[i], meet(m, m->all.at[i].value, way));
        }
        end(m);
    }
}

/* ---- what others read ---- */

static void add_read(Mix *m)
{
    begin(m, DT_ENTRY_AVERAGE);
    read_all(m);
    make_means(m);
    for (uint32_t i = 0; i < m->all.n; i++)
        give(m, m->all.at[i].mean, m->all.at[i].average);
    end(m);
}

static void add_spread(Mix *m)
{
    begin(m, DT_ENTRY_SPREAD);
    for (uint32_t i = 0; i < m->all.n; i++)
        m->all.at[i].mean = read_store(m, m->all.at[i].average, "average_");
    for (uint32_t i = 0; i < m->all.n; i++) {
        if (m->all.at[i].anchor)
            give(m, m->all.at[i].mean, m->all.at[i].anchor);
        give_replicas(m, &m->all.at[i], m->all.at[i].mean);
    }
    end(m);
}

bool dt_pass_mix(DtModule *module, const DtPassContext *context)
{
    Mix m = {.module = module, .train = context->train, .replicas = dt_replicas_of(context)};
    if (!m.replicas || !m.train || !dt_entry_next(module, DT_ENTRY_UPDATE, NULL))
        return false;
    list_all(&m);
    if (m.replicas->mix == DT_MIX_AVERAGE)
        add_average(&m);
    else
        add_gossip(&m);
    add_read(&m);
    add_spread(&m);
    return true;
}
