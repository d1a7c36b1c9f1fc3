/* SPDX-License-Identifier: Apache-2.0 */
/* Common subexpressions.
 *
 * Purpose: merges ops of one function that compute the same thing, then removes what nobody
 * uses.
 *
 *   %a = exp(%x) ; %b = exp(%x) ; f(%a, %b)   =>   %a = exp(%x) ; f(%a, %a)
 *
 * Two ops are equal if kind, attributes, result types and (merged) operands are. Random draws,
 * sends and receives, updates and loops are never merged: two draws are two draws even if a program
 * makes them under one site. A call is merged only if its function is a library function, which
 * cannot draw.
 *
 * If merged values make a loop return, or take, one value twice, it returns or takes the value
 * once.
 *
 * Requires: a verified module. Establishes: no two equal ops in a function, no dead op. Breaks:
 * nothing. */
#include "passes/passes.h"

#include "base/hash.h"
#include "passes/loops.h"

#include <string.h>

static bool may_merge(const DtOp *op)
{
    return op->kind == DT_OP_CALL ? op->func->stream != NULL
                                  : !(dt_op_info[op->kind].traits & DT_TRAIT_OWN);
}

static bool same_names(const char *const *a, const char *const *b, uint32_t n)
{
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0; /* interned */
}

static bool same_relabel(const DtRelabel *a, const DtRelabel *b)
{
    if (a->n_from != b->n_from || a->n_to != b->n_to)
        return false;
    return same_names(a->from, b->from, a->n_from) &&
           same_names(a->to, b->to, a->n_to); /* types give extents */
}

static uint32_t n_ranges(const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_SLICE:
    case DT_OP_PAD: return op->n_axes;
    case DT_OP_WINDOW:
    case DT_OP_FOLD: return 1;
    default: return 0;
    }
}

static bool same_ranges(const DtOp *a, const DtOp *b)
{
    for (uint32_t i = 0; i < n_ranges(a); i++)
        if (a->ranges[i].lo != b->ranges[i].lo || a->ranges[i].hi != b->ranges[i].hi ||
            a->ranges[i].step != b->ranges[i].step || a->ranges[i].n != b->ranges[i].n)
            return false;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_attributes(const DtOp *a, const DtOp *b)
{
    if (a->n_axes != b->n_axes || a->n_axes2 != b->n_axes2 || a->n_relabels != b->n_relabels)
        return false;
    if (!same_names(a->axes, b->axes, a->n_axes) || !same_names(a->axes2, b->axes2, a->n_axes2))
        return false;
    for (uint32_t i = 0; i < a->n_relabels; i++)
        if (!same_relabel(&a->relabels[i], &b->relabels[i]))
            return false;
    return same_ranges(a, b) && memcmp(&a->number, &b->number, sizeof a->number) == 0 &&
           a->draws == b->draws && a->reduce == b->reduce && a->reverse == b->reverse &&
           a->gradients == b->gradients && a->ahead == b->ahead && a->starts == b->starts &&
           a->store == b->store && a->func == b->func && a->mesh == b->mesh &&
           dt_stages_same(a->stages, b->stages) &&
           (a->kind == DT_OP_CALL || same_text(a->text, b->text));
}

bool dt_cse_same(const DtOp *a, const DtOp *b)
{
    if (a->kind != b->kind || a->n_in != b->n_in || a->n_out != b->n_out)
        return false;
    for (uint32_t i = 0; i < a->n_out; i++)
        if (a->out[i]->type != b->out[i]->type)
            return false;
    return may_merge(a) && may_merge(b) && same_attributes(a, b);
}

/* Returns the value that replaces this one by the map; the value itself if none does. */
static const DtValue *now(DtValue *const *map, const DtValue *value)
{
    return map[value->id] != NULL ? map[value->id] : value;
}

static bool same_op(DtValue *const *map, const DtOp *a, const DtOp *b)
{
    for (uint32_t i = 0; i < a->n_in && i < b->n_in; i++)
        if (now(map, a->in[i]) != now(map, b->in[i]))
            return false;
    return dt_cse_same(a, b);
}

static uint64_t hash_op(DtValue *const *map, const DtOp *op)
{
    uint64_t h = dt_hash_bytes(&op->number, sizeof op->number, op->kind);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtValue *in = now(map, op->in[i]);
        h = dt_hash_bytes(&in, sizeof in, h);
    }
    for (uint32_t i = 0; i < op->n_axes; i++)
        h = dt_hash_bytes(&op->axes[i], sizeof op->axes[i], h);
    h = dt_hash_bytes(&op->store, sizeof op->store, h);
    return dt_hash_bytes(&op->func, sizeof op->func, h);
}

typedef struct Table {
    DtOp **at;
    uint32_t mask;
    DtValue **map; /* by value id: its replacement; NULL: itself */
} Table;

static Table make_table(DtArena *arena, const DtFunc *func)
{
    Table table = {.mask = 15, .map = DT_NEW_ARRAY(arena, DtValue *, func->n_values + 1)};
    while (table.mask < 2 * func->ops.n)
        table.mask = 2 * table.mask + 1;
    table.at = DT_NEW_ARRAY(arena, DtOp *, table.mask + 1);
    return table;
}

/* Returns an op equal to `op` that was recorded before. If there is none, records `op` and returns
 * NULL. */
static DtOp *find_or_add(Table *table, DtOp *op)
{
    uint32_t i = (uint32_t)hash_op(table->map, op) & table->mask;
    for (; table->at[i] != NULL; i = (i + 1) & table->mask)
        if (same_op(table->map, table->at[i], op))
            return table->at[i];
    table->at[i] = op;
    return NULL;
}

static void add_alias(DtArena *arena, DtOp *op, DtAlias alias)
{
    const DtAlias *last = op->aliases;
    if (last != NULL && last->caller == alias.caller && last->name == alias.name &&
        last->out == alias.out)
        return;
    alias.next = last;
    op->aliases = DT_NEW(arena, DtAlias);
    *(DtAlias *)op->aliases = alias;
}

/* Gives the names (aliases) of `op` to `known`, the equal op that replaces it, including the
 * call in which `op` was. */
static void take_names(DtArena *arena, DtOp *known, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_out; i++) {
        const char *name = op->out[i]->name;
        if (op->caller != known->caller || (name != NULL && name != known->out[i]->name))
            add_alias(arena, known, (DtAlias){.caller = op->caller, .name = name, .out = i});
    }
    for (const DtAlias *a = op->aliases; a != NULL; a = a->next)
        add_alias(arena, known, *a);
}

uint32_t dt_cse_func(DtFunc *func)
{
    DtArena *arena = func->module->arena;
    dt_graph_renumber(func);
    Table table = make_table(arena, func);
    DtValue **map = table.map;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            if (map[op->in[k]->id] != NULL)
                op->in[k] = map[op->in[k]->id];
        DtOp *known = may_merge(op) ? find_or_add(&table, op) : NULL;
        if (known == NULL)
            continue;
        for (uint32_t k = 0; k < op->n_out; k++)
            map[op->out[k]->id] = known->out[k];
        take_names(arena, known, op);
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (map[func->results.at[i]->id] != NULL)
            func->results.at[i] = map[func->results.at[i]->id];
    const uint32_t removed = dt_graph_sweep(func);
    dt_graph_renumber(func);
    return removed;
}

DtValue **dt_cse_equals(const DtFunc *func, DtArena *arena)
{
    Table table = make_table(arena, func);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i],
                   *known = may_merge(op) ? find_or_add(&table, func->ops.at[i]) : NULL;
        for (uint32_t k = 0; known != NULL && k < op->n_out; k++)
            table.map[op->out[k]->id] = known->out[k];
    }
    return table.map;
}

/* ---- loops ---- */

static bool is_twice(DtValue *const *values, uint32_t first, uint32_t n)
{
    for (uint32_t k = first + 1; k < n; k++)
        for (uint32_t i = first; i < k; i++)
            if (values[i] == values[k])
                return true;
    return false;
}

static bool hands_out_twice(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_LOOP &&
            (is_twice(op->func->results.at, op->loop->n_carried, op->n_out) ||
             hands_out_twice(op->func)))
            return true;
    }
    return false;
}

/* Merges inputs of the loop's body that stand for one value; the ones that become unused are
 * removed when the loop is pruned. Returns whether any were merged. */
static bool join_operands(DtOp *op)
{
    const DtLoop *loop = op->loop;
    const uint32_t n_whole = loop->n_carried + loop->n_invariant;
    DtFunc *body = op->func;
    bool joined = false;
    dt_graph_renumber(body);
    DtValue **map = DT_NEW_ARRAY(body->module->arena, DtValue *, body->n_values + 1);
    for (uint32_t k = loop->n_carried + 1; k < op->n_in; k++)
        for (uint32_t i = k < n_whole ? loop->n_carried : n_whole; i < k; i++)
            if (op->in[i] == op->in[k]) {
                map[body->inputs.at[1 + k]->id] = body->inputs.at[1 + i];
                break;
            }
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_in; k++) {
            DtValue **in = &body->ops.at[i]->in[k];
            joined = joined || map[(*in)->id];
            *in = map[(*in)->id] ? map[(*in)->id] : *in;
        }
    for (uint32_t i = 0; i < body->results.n; i++) {
        DtValue **result = &body->results.at[i];
        *result = map[(*result)->id] ? map[(*result)->id] : *result;
    }
    return joined;
}

/* Merges equal operands and results of the loops in func, and then in their bodies, once; returns
 * whether anything was merged. No two loops share a body. */
static bool join_loops(DtFunc *func)
{
    bool joined = false;
    dt_graph_renumber(func);
    DtValue **map = DT_NEW_ARRAY(func->module->arena, DtValue *, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            op->in[k] = map[op->in[k]->id] ? map[op->in[k]->id] : op->in[k];
        if (op->kind != DT_OP_LOOP)
            continue;
        if (join_operands(op))
            dt_cse_func(op->func);
        joined = join_loops(op->func) || joined;
        for (uint32_t k = op->loop->n_carried + 1; k < op->n_out; k++)
            for (uint32_t n = op->loop->n_carried; n < k && !map[op->out[k]->id]; n++)
                if (op->func->results.at[n] == op->func->results.at[k]) {
                    map[op->out[k]->id] = op->out[n];
                    joined = true;
                }
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (map[func->results.at[i]->id])
            func->results.at[i] = map[func->results.at[i]->id];
    if (joined)
        dt_cse_func(func);
    dt_loops_prune(func);
    return joined;
}

bool dt_pass_cse(DtModule *module, const DtPassContext *context)
{
    (void)context;
    bool twice = false;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        dt_cse_func(module->funcs.at[i]);
    for (uint32_t i = 0; i < module->entries.n; i++)
        twice = twice || hands_out_twice(module->entries.at[i].func);
    if (!twice)
        return true;
    dt_loops_own(module);
    for (uint32_t i = 0; i < module->entries.n; i++)
        while (join_loops(module->entries.at[i].func)) {
        }
    dt_inline_drop(module);
    return true;
}
