/* SPDX-License-Identifier: Apache-2.0 */
/* Order: makes the order of communication a part of the program.
 *
 * Purpose: a gather with `ahead=k` runs k iterations before its own. Its result stays in a ring
 * buffer, a value of k + 1 slots that loops carry and pass on. An iteration writes the front slot
 * and turns the ring buffer; then the new front slot has the values that the iteration reads.
 *
 *   k = 1                              before                            after
 *                                      %p = param h.w                    %p = param h.w
 *                                                                        %r = ringbuf()
 *                                                                        %s = when(%r, %p) fetch
 *                                                                        of iteration 0
 *                                                                        %t = ringbuf_turn(%s)
 *   loop of n                          loop(%x, %p)                      loop(%x, %t, %p)
 *     body, iteration i of n             %w = all_gather(%p i)             %i = turn()
 *                                                                          when(%i in 0 .. n-2)
 *                                                                          fetch of %i + 1
 *                                                                          when(%i is n-1) fetch
 *                                                                          of the next loop's 0
 *                                                                          ringbuf_turn
 *                                                                          %w = ringbuf_get()
 *
 * A slot is free when its iteration ends, which is before the gathers for the iteration k + 1
 * later. So k + 1 slots suffice, nothing is copied, and a turn increments a number. A backward loop
 * counts down.
 *
 * If one chain contains all loops of an entry, the ring buffer passes to the next micro-batch: it
 * is a store, only the first micro-batch does the first gathers, and the last loop gathers for the
 * first one, except in the last micro-batch. (Not if the batch has a ramp.) In a pipeline the
 * entries of pieces pass it on (order_pieces.c). It never survives the update.
 *
 * Then exchanges are started and done (order_start.c), and so are messages between stages of a
 * pipeline (order_messages.c).
 *
 * Requires: values by their numbers (fuse). Establishes: no gather has `ahead`. Breaks: numbers
 * of values;
 * each keeps its old one (DtValue.final). */
#include "passes/lower/order.h"

#include "base/intern.h"

void dt_order_finals(DtFunc *func)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->inputs.n; i++, n++)
        func->inputs.at[i]->final = func->inputs.at[i]->final ? func->inputs.at[i]->final : 1 + n;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++, n++) {
            DtValue *value = func->ops.at[i]->out[k];
            /* a fused op's results are numbered by the ops in it */
            if (!value->final && func->ops.at[i]->kind != DT_OP_FUSED)
                value->final = 1 + n;
        }
}

static bool is_ordered(const DtOp *op) { return dt_op_info[op->kind].op_class == DT_CLASS_COMM; }

static bool has_any(const DtModule *module, bool (*is)(const DtOp *op))
{
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++)
            if (is(module->funcs.at[i]->ops.at[k]))
                return true;
    return false;
}

static void write_plain(DtFunc *func)
{
    bool whole;
    DtOrderChain *chains = dt_order_chains(func->module->arena, func, &whole);
    if (chains)
        dt_order_write(func, chains, NULL);
}

/* An entry that runs once for each of n micro-batches. */
static void write_entry(DtModule *module, DtEntryPoint *entry, int64_t n_micro)
{
    bool whole;
    DtOrderChain *chain = dt_order_chains(module->arena, entry->func, &whole);
    DtOrderHanded handed = {.n_micro = n_micro};
    if (!chain || !whole || n_micro < 2)
        return;
    DtStore *store = handed.store = DT_NEW(module->arena, DtStore);
    *store =
        (DtStore){.kind = DT_STORE_RINGBUF,
                  .index = module->stores.n,
                  .stage = -1,
                  .span = entry->func->span,
                  .type = dt_order_ring(module, chain->ahead + 1, chain->bytes, chain->splits)};
    store->path = store->pattern = dt_intern_printf("%s.@ringbuf", entry->name);
    DT_PUSH(module->arena, module->stores, store);
    dt_order_write(entry->func, chain, &handed);
    DT_PUSH(module->arena, entry->results, ((DtEntryResult){.store = store}));
}

/* ramps: a step may run some of the micro-batches only, so none begins with what another one has
 * gathered. */
static void write_gathers(DtModule *module, bool ramps)
{
    const bool times = module->mesh.n && module->mesh.axes[0].is_time;
    const uint32_t n = module->funcs.n;
    bool *done = DT_NEW_ARRAY(module->arena, bool, module->entries.n + 1);
    if (module->pipeline)
        dt_order_pieces(module, done);
    for (uint32_t i = 0; i < module->entries.n && !module->pipeline; i++) {
        DtEntryPoint *entry = &module->entries.at[i];
        if ((entry->kind == DT_ENTRY_GRAD && !ramps) || entry->kind == DT_ENTRY_EVAL)
            write_entry(module, entry, times ? module->mesh.axes[0].size : 1);
    }
    for (uint32_t i = 0; i < n; i++)
        write_plain(module->funcs.at[i]);
    dt_inline_drop(module);
}

static void order_exchanges(DtModule *module, bool ramps)
{
    for (uint32_t i = 0; i < module->funcs.n; i++)
        if (module->funcs.at[i]->kind != DT_FUNC_KERNEL)
            dt_order_finals(module->funcs.at[i]);
    if (has_any(module, dt_order_is_ahead))
        write_gathers(module, ramps);
    dt_order_starts(module);
}

bool dt_pass_order(DtModule *module, const DtPassContext *context)
{
    const bool ramps = context && context->train && context->train->ramp.by > 0;
    const bool exchanges = has_any(module, is_ordered) || dt_order_has_late(module);
    if (exchanges)
        order_exchanges(module, ramps);
    dt_order_messages(module);
    return exchanges || module->pipeline;
}
