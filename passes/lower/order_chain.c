/* SPDX-License-Identifier: Apache-2.0 */
/* Which loops gather ahead, and share a ring buffer: the loops of one function that have equal
 * `ahead` and run one after the other, if no other ring buffer turns between them. Their iterations
 * are numbered through, across the ends of loops; so a chain takes no more memory than its
 * hungriest loop. All but the first gather parameters as stored, which are there long before the
 * loop. */
#include "passes/lower/order.h"

#include "base/intern.h"
#include "ir/shape.h"

bool dt_order_is_ahead(const DtOp *op) { return op->kind == DT_OP_ALL_GATHER && op->ahead > 0; }

/* Returns how many iterations ahead the prefetched gathers among the function's own ops run; 0 if
 * there are none. */
static int64_t ahead_of(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (dt_order_is_ahead(func->ops.at[i]))
            return func->ops.at[i]->ahead;
    return 0;
}

bool dt_order_uses(const DtFunc *func)
{
    bool uses = ahead_of(func) > 0;
    for (uint32_t i = 0; !uses && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        uses = op->kind == DT_OP_RINGBUF || (op->func && dt_order_uses(op->func));
    }
    return uses;
}

bool dt_order_is_kept(const DtFunc *body, const DtValue *value)
{
    for (uint32_t i = 0; i < body->ops.n; i++)
        for (uint32_t k = 0; k < body->ops.at[i]->n_in; k++)
            if (body->ops.at[i]->in[k] == value && !dt_order_is_ahead(body->ops.at[i]))
                return true;
    return false;
}

bool dt_order_is_gathered(const DtFunc *body, uint32_t input)
{
    for (uint32_t i = 0; i < body->ops.n; i++)
        if (dt_order_is_ahead(body->ops.at[i]) && body->ops.at[i]->in[0] == body->inputs.at[input])
            return true;
    return false;
}

static bool gathers_stored(const DtOp *loop)
{
    bool all = true;
    for (uint32_t i = 1; i < loop->func->inputs.n; i++) {
        const DtOp *op = loop->in[i - 1]->op;
        all = all && (!dt_order_is_gathered(loop->func, i) || (op && op->kind == DT_OP_PARAM));
    }
    return all;
}

int64_t dt_order_slot_bytes(const DtModule *module, const DtType *type)
{
    const int64_t bytes =
        dt_type_local_elements(type, &module->mesh) * (int64_t)dt_dtype_size(type->dtype);
    return (bytes + DT_RING_ALIGN - 1) / DT_RING_ALIGN * DT_RING_ALIGN;
}

/* Enlarges the slots of the chain so that the values which one iteration of the body gathers fit
 * into one, and records the mesh axes that split these. */
static void add_slot(DtOrderChain *chain, const DtFunc *body)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtValue *value = body->ops.at[i]->out[0];
        if (!dt_order_is_ahead(body->ops.at[i]) || !dt_order_is_kept(body, value))
            continue;
        bytes += dt_order_slot_bytes(body->module, value->type);
        for (uint32_t k = 0; k < value->type->rank; k++)
            chain->splits |= dt_shape_split_bits(&value->type->axes[k]);
    }
    chain->bytes = bytes > chain->bytes ? bytes : chain->bytes;
}

DtOrderChain *dt_order_chains(DtArena *arena, const DtFunc *func, bool *ret_whole)
{
    DtOrderChain *chains = NULL;
    bool goes_on = false;
    *ret_whole = true;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtOp *op = func->ops.at[i];
        const int64_t ahead = op->kind == DT_OP_LOOP ? ahead_of(op->func) : 0;
        if (!ahead) { /* only one ring buffer can turn at a time */
            const bool takes = op->func && dt_order_uses(op->func);
            *ret_whole = *ret_whole && !takes;
            goes_on = goes_on && !takes;
            continue;
        }
        goes_on = goes_on && chains->ahead == ahead && gathers_stored(op);
        if (!goes_on) {
            DtOrderChain *chain = DT_NEW(arena, DtOrderChain);
            *chain = (DtOrderChain){.ahead = ahead, .next = chains};
            *ret_whole = *ret_whole && !chains && gathers_stored(op);
            chains = chain;
        }
        DT_PUSH(arena, chains->loops, ((DtOrderLoop){op, *op->loop, op->func, op->in,
                                                     op->out[0]->final}));
        add_slot(chains, op->func);
        goes_on = true;
    }
    *ret_whole = *ret_whole && chains;
    return chains;
}

const DtType *dt_order_ring(const DtModule *module, int64_t slots, int64_t bytes, uint16_t splits)
{
    DtAxis axes[DT_MAX_RANK] = {{.name = dt_intern("@ringbuf"), .extent = slots}};
    uint32_t n = 1;
    for (uint8_t m = 0; m < module->mesh.n; m++)
        if (splits >> m & 1)
            axes[n++] = (DtAxis){.name = dt_intern_printf("@on.%s", module->mesh.axes[m].name),
                                 .extent = module->mesh.axes[m].size, .n_split = 1, .split = {m}};
    axes[n++] = (DtAxis){.name = dt_intern("@slot"), .extent = bytes};
    return dt_type_plain(DT_U8, n, axes);
}
