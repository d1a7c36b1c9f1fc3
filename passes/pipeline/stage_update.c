/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts entry "update" into one per stage. Ops that belong to one parameter (the squares of its
 * gradient, its update) are copied for every copy of the parameter that the stage holds, with the
 * copy's iterations; all other ops (learning rate, clipping) are copied once. Three things need
 * other stages:
 *
 *   %g = all_reduce[pipe; stages 0, 3](%d_w)   a parameter on several stages: its gradient is the
 *                                              sum of theirs
 *   %s = all_reduce[pipe; stages 0, 3](%next)  a state on several stages: one makes its next value,
 *                                              the others add 0
 *   %n = all_reduce[pipe](%squares)            the sum of squares behind the global norm, to which
 *                                              each stage gives those of its own parameters (of a
 *                                              shared one, the lowest stage does)
 *
 * Sums of squares are what a `sqrt` that says `gradients` takes; on the way down to the single
 * parameters, terms of other stages drop out of the additions. */
#include "passes/pipeline/stage.h"

#include "base/intern.h"

#include <string.h>

enum { NOBODY = -1, SEVERAL = -2 };

typedef struct Updater {
    DtStager *s;
    const DtEntryPoint *entry;
    const DtFunc *func;
    DT_VEC(const DtValue *) norms; /* square roots of sums of squares: the norms */
    int32_t *owner;         /* by value: the parameter store that it depends on, or NOBODY,
                             * SEVERAL */
    bool **stages;          /* by parameter or state store that is not cut, by stage: whether it is
                             * there */
    const char **members;   /* the same as a set of stages; NULL: one stage or none */
    bool *has_terms;        /* by parameter or state store: whether some stage computes its gradient
                             * or next value */
    /* what follows belongs to the stage being built */
    uint32_t stage, turn;
    DtBuilder b;
    DtValue **sums_of; /* by norm: the complete sum of squares, on the stage being built */
    DtValue **shared,
        **own; /* by value: its copy on this stage; own: for the present copy of a parameter */
    uint32_t *own_turn;
    int32_t range;  /* the piece whose iterations the present copy has */
    int32_t loop;   /* the loop whose iterations the present copy has; -1: none */
    DtValue **sums; /* by parameter or state store: its gradient or next value, summed over
                     * stages */
} Updater;

static const DtStore *param_of(const DtStore *store) { return store->of ? store->of : store; }

/* Whether stages leave terms in the store that the update adds up. */
static bool is_total(const DtStore *store)
{
    return store->kind == DT_STORE_GRAD || store->kind == DT_STORE_NEXT;
}

/* Returns the number of the norm that the value is; NOBODY if it is none. */
static int32_t norm_of(const Updater *u, const DtValue *value)
{
    for (uint32_t i = 0; i < u->norms.n; i++)
        if (u->norms.at[i] == value)
            return (int32_t)i;
    return NOBODY;
}

static void find_owners(Updater *u)
{
    for (uint32_t i = 0; i < u->func->ops.n; i++) {
        const DtOp *op = u->func->ops.at[i];
        int32_t owner = op->kind == DT_OP_PARAM ? (int32_t)param_of(op->store)->index : NOBODY;
        const bool is_norm = op->n_out == 1 && norm_of(u, op->out[0]) != NOBODY;
        for (uint32_t k = 0; k < op->n_in && !is_norm; k++) {
            const int32_t other = u->owner[op->in[k]->id];
            if (other != NOBODY && other != owner)
                owner = owner == NOBODY ? other : SEVERAL;
        }
        for (uint32_t k = 0; k < op->n_out; k++)
            u->owner[op->out[k]->id] = owner;
    }
}

static void find_norms(Updater *u)
{
    for (uint32_t i = 0; i < u->func->ops.n; i++) {
        const DtOp *op = u->func->ops.at[i];
        if (op->kind == DT_OP_SQRT && op->gradients)
            DT_PUSH(u->s->arena, u->norms, op->out[0]);
    }
    u->sums_of = DT_NEW_ARRAY(u->s->arena, DtValue *, u->norms.n + 1);
}

/* Returns the stages marked in `stages` as a set; NULL if there is only one, so that nothing has to
 * be summed over stages. */
static const char *several(const Updater *u, const bool *stages)
{
    const char *set = dt_stages_of(stages, u->s->pipeline->n_stages);
    return dt_stages_count(set) > 1 ? set : NULL;
}

/* Appends an all_reduce of the value over the stages of the set; returns the value itself if
 * `stages` is NULL. gradients: it is a gradient, else a number from which a norm is computed. */
static DtValue *across(Updater *u, DtValue *value, const char *stages, bool gradients)
{
    if (!stages)
        return value; /* a single stage: nothing to sum */
    DtOp draft = {
        .kind = DT_OP_ALL_REDUCE, .mesh = (uint16_t)(1u << u->s->pipeline->mesh), .stages = stages,
        .gradients = gradients};
    DtValue wish = *value, *out = &wish;
    draft.out = &out;
    draft.n_in = draft.n_out = 1;
    return dt_graph_copy(&u->b, &draft, &value)->out[0];
}

static DtValue *zeros(Updater *u, const DtType *type)
{
    DtValue *zero = dt_graph_constant(&u->b, type->dtype, 0);
    return type->rank == 0 ? zero : dt_graph_expand(&u->b, zero, type);
}

/* ---- values on a stage ---- */

static DtValue *copy_value(Updater *u, const DtValue *value);

/* Whether the value belongs to the present copy of a parameter: it depends on one parameter alone,
 * or on none but has the length of the parameter's loop (a mask of padding, for instance). */
static bool is_own(const Updater *u, const DtValue *value)
{
    const DtStageLoop *cut = u->loop >= 0 ? &u->s->loops.at[u->loop] : NULL;
    return u->owner[value->id] >= 0 || (u->owner[value->id] == NOBODY && cut &&
                                        dt_type_extent(value->type, cut->axis) == cut->count);
}

static DtOp *copy_op(Updater *u, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(u->s->arena, DtValue *, op->n_in + 1);
    const int32_t norm = op->n_out == 1 ? norm_of(u, op->out[0]) : NOBODY;
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = norm != NOBODY ? u->sums_of[norm] : copy_value(u, op->in[i]);
    u->b.span = op->span;
    u->b.path = op->path;
    if (u->loop < 0 || !op->n_out || !is_own(u, op->out[0]))
        return dt_graph_copy(&u->b, op, in);
    const DtStageLoop *cut = &u->s->loops.at[u->loop];
    if (op->kind == DT_OP_RNG) { /* numbered over all iterations */
        DtValue *drawn = dt_graph_copy(&u->b, op, in)->out[0];
        dt_stage_differ(u->s, u->stage);
        return dt_graph_slice(&u->b, drawn, cut->axis, cut->lo[u->range], 1,
                              cut->hi[u->range] - cut->lo[u->range])
            ->op;
    }
    return dt_stage_copy_range(&u->b, op, in, cut->axis, cut->count,
                               cut->hi[u->range] - cut->lo[u->range]);
}

/* Returns the value of the stage's present copy of the store. One op reads it for the norm and for
 * the update: pass `zero` has a collective for each op that reads a gradient. */
static DtValue *read_store(Updater *u, const DtOp *op)
{
    const DtStore *param = param_of(op->store);
    const bool total = is_total(op->store);
    if (total && u->sums[param->index])
        return u->sums[param->index];
    u->b.span = op->span;
    u->b.path = op->path;
    const uint32_t piece = u->range < 0 ? 0 : (uint32_t)u->range;
    const int32_t range = u->s->loop_of[param->index] < 0 ? -1 : (int32_t)piece;
    if (!total)
        dt_stage_copy(u->s, op->store, u->stage, piece);
    DtStageCopy *copy = dt_stage_find_copy(u->s, op->store, u->stage, range);
    if (!copy) { /* no piece of this stage computes a term */
        const DtStore *held = dt_stage_find_copy(u->s, param, u->stage, range)->store;
        return zeros(u, dt_type_with_dtype(held->type, op->store->type->dtype));
    }
    if (!copy->read) {
        copy->read =
            dt_graph_source(&u->b, DT_OP_PARAM, copy->store->type, op->text, copy->store);
        copy->read->name = op->out[0]->name;
    }
    return copy->read;
}

static DtValue *copy_value(Updater *u, const DtValue *value)
{
    const bool own = is_own(u, value);
    if (!own && u->shared[value->id])
        return u->shared[value->id];
    if (own && u->own_turn[value->id] == u->turn)
        return u->own[value->id];
    if (value->op->kind == DT_OP_PARAM) {
        u->own[value->id] = read_store(u, value->op);
        u->own_turn[value->id] = u->turn;
        return u->own[value->id];
    }
    const DtOp *op = value->op, *copy = copy_op(u, op);
    for (uint32_t i = 0; i < op->n_out; i++) {
        copy->out[i]->name = op->out[i]->name;
        if (own) {
            u->own[op->out[i]->id] = copy->out[i];
            u->own_turn[op->out[i]->id] = u->turn;
        } else {
            u->shared[op->out[i]->id] = copy->out[i];
        }
    }
    return copy->out[value->index];
}

/* ---- the norm ---- */

/* Begins the ops for another copy of a parameter: values computed for the copy before do not count
 * any more. */
static void begin_copy(Updater *u, const DtStore *param, const DtStageCopy *copy)
{
    u->turn++;
    u->range = copy->range;
    u->loop = u->s->loop_of[param->index];
}

/* Sums gradients of parameters and next values of states that several stages have terms of, before
 * everything else. All stages do so in the order of the program, so that no two wait for each
 * other. */
static void add_totals(Updater *u)
{
    for (uint32_t i = 0; i < u->func->ops.n; i++) {
        const DtOp *op = u->func->ops.at[i];
        if (op->kind != DT_OP_PARAM || !is_total(op->store) ||
            u->sums[op->store->of->index] || !u->has_terms[op->store->of->index] ||
            u->s->loop_of[op->store->of->index] >= 0 ||
            !u->stages[op->store->of->index][u->stage])
            continue;
        u->range = -1;
        u->sums[op->store->of->index] =
            across(u, read_store(u, op), u->members[op->store->of->index],
                   op->store->kind == DT_STORE_GRAD);
    }
}

static DtValue *plus(Updater *u, DtValue *x, DtValue *y)
{
    return !x ? y : !y ? x : dt_graph_binary(&u->b, DT_OP_ADD, x, y);
}

/* Appends the part of the sum that this stage computes, over its own copies of the value's
 * parameter; NULL if it has none, or a lower stage counts the parameter. */
static DtValue *own_part(Updater *u, const DtValue *value)
{
    const int32_t param = u->owner[value->id];
    DtValue *sum = NULL;
    for (uint32_t i = 0; i < u->stage && u->s->loop_of[param] < 0; i++)
        if (u->stages[param][i])
            return NULL; /* a lower stage counts the shared parameter */
    const DtStageCopies *copies = &u->s->copies[param];
    for (uint32_t i = 0; i < copies->n; i++) {
        if (copies->at[i].store->stage != (int32_t)u->stage)
            continue;
        begin_copy(u, u->s->module->stores.at[param], &copies->at[i]);
        sum = plus(u, sum, copy_value(u, value));
    }
    u->loop = -1;
    return sum;
}

static DtValue *part_of_sum(Updater *u, const DtValue *value)
{
    const DtOp *op = value->op;
    if (u->owner[value->id] >= 0)
        return own_part(u, value);
    if (u->owner[value->id] == NOBODY)
        return NULL; /* the zero with which a sum begins */
    DtValue **in = DT_NEW_ARRAY(u->s->arena, DtValue *, op->n_in + 1);
    uint32_t parts = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const bool is_part = u->owner[op->in[i]->id] != NOBODY;
        in[i] = is_part ? part_of_sum(u, op->in[i]) : copy_value(u, op->in[i]);
        parts += is_part && in[i] != NULL;
    }
    if (op->kind == DT_OP_ADD)
        return u->owner[op->in[0]->id] == NOBODY   ? in[1]
               : u->owner[op->in[1]->id] == NOBODY ? in[0]
                                                   : plus(u, in[0], in[1]);
    u->b.span = op->span;
    u->b.path = op->path;
    return parts > 0 ? dt_graph_copy(&u->b, op, in)->out[value->index] : NULL;
}

/* ---- stages ---- */

static void give(Updater *u, DtEntryPoint *entry, DtValue *value, DtEntryResult to)
{
    dt_graph_return(u->b.func, value);
    DT_PUSH(u->s->arena, entry->results, to);
}

static void update_copy(Updater *u, const DtStore *param, const DtStageCopy *copy,
                        DtEntryPoint *entry)
{
    begin_copy(u, param, copy);
    for (uint32_t i = 0; i < u->entry->results.n; i++) {
        DtEntryResult to = u->entry->results.at[i];
        if (!to.store || param_of(to.store) != param)
            continue;
        DtValue *value = copy_value(u, u->func->results.at[i]);
        to.store =
            dt_stage_copy(u->s, to.store, u->stage, copy->range < 0 ? 0 : (uint32_t)copy->range);
        give(u, entry, value, to);
    }
    u->loop = -1;
}

static void update_stage(Updater *u, uint32_t stage)
{
    const uint32_t n = u->s->pipeline->n_stages;
    const char *all = n > 1 ? dt_stages_range(0, n - 1) : NULL;
    DtEntryPoint entry =
        dt_entry_new(u->entry->kind, NULL, u->entry->part, (int32_t)u->s->class_first[stage]);
    entry.stage = (int32_t)stage;
    u->b = (DtBuilder){.func = dt_graph_func(u->s->module, entry.name, DT_FUNC_ENTRY),
                       .span = u->func->span};
    u->b.func->span = u->func->span;
    u->stage = stage;
    memset(u->shared, 0, (u->func->n_values + 1) * sizeof *u->shared);
    memset(u->sums, 0, (u->s->module->stores.n + 1) * sizeof *u->sums);
    add_totals(u);
    for (uint32_t i = 0; i < u->norms.n; i++) {
        const DtValue *squares = u->norms.at[i]->op->in[0];
        DtValue *mine = part_of_sum(u, squares);
        u->b.span = squares->op->span;
        u->sums_of[i] = across(u, mine ? mine : zeros(u, squares->type), all, false);
    }
    for (uint32_t i = 0; i < u->s->module->stores.n; i++) {
        const DtStore *param = u->s->module->stores.at[i]; /* a parameter or a state */
        const bool is_updated = param->kind == DT_STORE_PARAM || param->kind == DT_STORE_STATE;
        for (uint32_t k = 0; is_updated && k < u->s->copies[i].n; k++)
            if (u->s->copies[i].at[k].store->stage == (int32_t)stage)
                update_copy(u, param, &u->s->copies[i].at[k], &entry);
    }
    for (uint32_t i = 0; i < u->entry->results.n; i++)
        if (!u->entry->results.at[i].store)
            give(u, &entry, copy_value(u, u->func->results.at[i]), u->entry->results.at[i]);
    entry.func = u->b.func;
    entry.func->n_returns = entry.func->results.n;
    dt_graph_renumber(entry.func);
    DT_PUSH(u->s->arena, u->s->entries, entry);
}

/* Finds the stages that have each parameter and state, and those with terms of its gradient. Those
 * that no piece uses are put on the first stage: they are saved, and parameters may decay. */
static void find_stages(Updater *u)
{
    for (uint32_t i = 0; i < u->s->module->stores.n; i++) {
        const DtStore *store = u->s->module->stores.at[i];
        const DtStageCopies *copies = &u->s->copies[i];
        if ((store->kind == DT_STORE_PARAM || store->kind == DT_STORE_STATE) && copies->n == 0)
            dt_stage_copy(u->s, store, 0, 0);
        for (uint32_t k = 0; k < copies->n; k++)
            u->stages[param_of(store)->index][copies->at[k].store->stage] = true;
        if (is_total(store) && copies->n > 0)
            u->has_terms[store->of->index] = true;
    }
}

bool dt_stage_update(DtStager *s, const DtEntryPoint *entry)
{
    DtFunc *func = entry->func;
    dt_graph_renumber(func);
    const uint32_t n = func->n_values + 1, n_stores = s->module->stores.n + 1;
    Updater u = {.s = s, .entry = entry, .func = func, .loop = -1};
    u.owner = DT_NEW_ARRAY(s->arena, int32_t, n);
    u.stages = DT_NEW_ARRAY(s->arena, bool *, n_stores);
    u.members = DT_NEW_ARRAY(s->arena, const char *, n_stores);
    for (uint32_t i = 0; i < n_stores; i++)
        u.stages[i] = DT_NEW_ARRAY(s->arena, bool, s->pipeline->n_stages);
    u.has_terms = DT_NEW_ARRAY(s->arena, bool, n_stores);
    u.shared = DT_NEW_ARRAY(s->arena, DtValue *, n);
    u.own = DT_NEW_ARRAY(s->arena, DtValue *, n);
    u.own_turn = DT_NEW_ARRAY(s->arena, uint32_t, n);
    u.sums = DT_NEW_ARRAY(s->arena, DtValue *, n_stores);
    find_norms(&u);
    find_owners(&u);
    find_stages(&u);
    for (uint32_t i = 0; i < n_stores; i++)
        u.members[i] = several(&u, u.stages[i]);
    for (uint32_t stage = 0; stage < s->pipeline->n_stages; stage++)
        update_stage(&u, stage);
    return true;
}
