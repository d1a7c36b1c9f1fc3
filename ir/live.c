/* SPDX-License-Identifier: Apache-2.0 */
/* Liveness, backwards from the results of entries through calls and loops. A function that several
 * calls share is visited once: a value that one call needs counts as needed by all, so a parameter
 * that is read is never called dead. */
#include "ir/live.h"

#include "ir/map.h"

typedef struct Live {
    DtArena *arena;
    DtMap values; /* by function: a flag for each value */
    bool *stores;
    bool changed;
} Live;

static bool *flags_of(Live *live, const DtFunc *func)
{
    bool *flags = dt_map_find_pointer(&live->values, func);
    if (!flags) {
        flags = DT_NEW_ARRAY(live->arena, bool, func->n_values + 1);
        dt_map_add_pointer(&live->values, func, flags);
    }
    return flags;
}

static void mark(Live *live, const DtFunc *func, const DtValue *value)
{
    bool *flag = &flags_of(live, func)[value->id];
    live->changed = live->changed || !*flag;
    *flag = true;
}

static bool is_live(Live *live, const DtFunc *func, const DtValue *value)
{
    return flags_of(live, func)[value->id];
}

static void visit_call(Live *live, const DtFunc *func, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_out && i < op->func->results.n; i++)
        if (is_live(live, func, op->out[i]))
            mark(live, op->func, op->func->results.at[i]);
    for (uint32_t i = 0; i < op->n_in && i < op->func->inputs.n; i++)
        if (is_live(live, op->func, op->func->inputs.at[i]))
            mark(live, func, op->in[i]);
}

/* Marks what a loop needs: a carried value that an iteration reads is a result of the previous
 * iteration. */
static void visit_loop(Live *live, const DtFunc *func, const DtOp *op)
{
    const DtFunc *body = op->func;
    for (uint32_t i = 0; i < op->n_out; i++)
        if (is_live(live, func, op->out[i]))
            mark(live, body, body->results.at[i]);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!is_live(live, body, body->inputs.at[1 + i]))
            continue;
        mark(live, func, op->in[i]);
        if (i < op->loop->n_carried)
            mark(live, body, body->results.at[i]);
    }
}

static void visit(Live *live, const DtFunc *func)
{
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        bool any = false;
        for (uint32_t k = 0; k < op->n_out; k++)
            any = any || is_live(live, func, op->out[k]);
        if (!any)
            continue;
        if (op->kind == DT_OP_PARAM && op->store)
            live->stores[op->store->index] = true;
        if (op->kind == DT_OP_LOOP)
            visit_loop(live, func, op);
        else if (op->func)
            visit_call(live, func, op);
        else
            for (uint32_t k = 0; k < op->n_in; k++)
                mark(live, func, op->in[k]);
    }
}

bool *dt_live_stores(const DtModule *module, DtArena *arena)
{
    Live live = {.arena = arena,
                 .values = {.arena = arena},
                 .stores = DT_NEW_ARRAY(arena, bool, module->stores.n + 1)};
    bool trains = false;
    for (uint32_t i = 0; i < module->entries.n; i++)
        trains = trains || module->entries.at[i].kind == DT_ENTRY_LOSS;
    for (uint32_t i = 0; i < module->entries.n; i++) {
        const DtEntryPoint *entry = &module->entries.at[i];
        for (uint32_t k = 0;
             k < entry->func->results.n && (!trains || entry->kind != DT_ENTRY_PREDICT); k++)
            mark(&live, entry->func, entry->func->results.at[k]);
    }
    for (live.changed = true; live.changed;) {
        live.changed = false;
        for (uint32_t i = module->funcs.n; i-- > 0;)
            visit(&live, module->funcs.at[i]);
    }
    return live.stores;
}
