/* SPDX-License-Identifier: Apache-2.0 */
/* A bucket of gradients that is full at the end of an iteration is summed over ranks while the next iteration runs.
 *
 *   before                                    after
 *                                               %r = ringbuf()                         two slots
 *   %x, %g = loop(..)                           %x, %r', %g = loop(.., %r)
 *     ..                                          %t = ringbuf_turn(%ringbuf)          what reads this slot is done
 *     %5 = pack(%3, %4)                           %5 = pack(%3, %4)
 *                                                 %u = ringbuf_put(%t, %5)
 *                                                 %7 = ringbuf_get(%u)
 *     %6 = reduce_scatter(%5)                     %6 = start reduce_scatter(%7)
 *     return %x', %6                              return %x', %u, %6
 *                                               %h = done(%g)                          of all iterations
 *
 * Gradients of an iteration are written into one slot while the other one is on its way. That takes a bucket more; what
 * has work beside it in its own iteration is done there.
 *
 * It is for loops of an entry that runs once a step: where micro-batches add up, a result is added to the store in its
 * iteration. And one ring at a time turns, so a loop that gathers ahead, or whose entry does, keeps to itself. */
#include "passes/lower/order.h"

#include "base/intern.h"
#include "ir/shape.h"

#include <string.h>

/* Results of a body that go on. */
typedef struct Carry {
    DtModule *module;
    DtFunc *func; /* which has the loop */
    DtOp *loop;
    DT_VEC(DtOp *) moves;
    int64_t bytes;   /* of a slot */
    uint16_t splits; /* mesh axes on which it holds different things */
} Carry;

static uint32_t number_of(const DtFunc *func, const DtOp *op)
{
    uint32_t n = 0;
    while (func->ops.at[n] != op)
        n++;
    return n;
}

/* Whether something runs beside the op until its function ends. */
static bool has_beside(const DtFunc *body, const DtOp *op)
{
    bool has = false;
    for (uint32_t i = number_of(body, op) + 1; !has && i < body->ops.n; i++)
        has = dt_order_is_beside(body->ops.at[i], op);
    return has;
}

static bool is_bucket(const DtFunc *body, const DtValue *value)
{
    const DtOp *op = value->op, *pack = op && dt_order_exchanges(op) ? op->in[0]->op : NULL;
    uint32_t results = 0;
    for (uint32_t i = 0; i < body->results.n; i++)
        results += body->results.at[i] == value;
    return pack && pack->kind == DT_OP_PACK && op->kind != DT_OP_ALL_GATHER && results == 1 &&
           dt_graph_reads(body, value) == results && dt_graph_reads(body, pack->out[0]) == 1 && !has_beside(body, op);
}

/* Whether no other op has the body. */
static bool is_alone(const DtModule *module, const DtFunc *body)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++)
            n += module->funcs.at[i]->ops.at[k]->func == body;
    return n == 1;
}

static void list_moves(Carry *c)
{
    const DtFunc *body = c->loop->func;
    for (uint32_t i = c->loop->loop->n_carried; i < body->results.n; i++) {
        const DtValue *value = body->results.at[i];
        if (!is_bucket(body, value))
            continue;
        const DtType *type = value->op->in[0]->type;
        DT_PUSH(c->module->arena, c->moves, value->op);
        c->bytes += dt_order_slot_bytes(c->module, type);
        c->splits |= type->partial;
        for (uint32_t a = 0; a < type->rank; a++)
            c->splits |= dt_shape_split_bits(&type->axes[a]);
    }
}

/* One more at place `at` of a list. */
static void insert(DtArena *arena, DtValue ***list, uint32_t *n, uint32_t at, DtValue *value)
{
    DtValue **more = DT_NEW_ARRAY(arena, DtValue *, *n + 2);
    for (uint32_t i = 0; i <= *n; i++)
        more[i] = i < at ? (*list)[i] : i == at ? value : (*list)[i - 1];
    *list = more;
    ++*n;
}

static void number_again(DtValue *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        list[i]->index = i;
}

static DtValue *new_ring(DtFunc *func, const DtType *type, DtOp *op)
{
    DtValue *value = DT_NEW(func->module->arena, DtValue);
    *value = (DtValue){.type = type, .op = op, .name = dt_intern("ringbuf"), .id = func->n_values++};
    return value;
}

static bool goes_on(const Carry *c, const DtOp *op)
{
    for (uint32_t i = 0; i < c->moves.n; i++)
        if (c->moves.at[i] == op)
            return true;
    return false;
}

static void change_body(const Carry *c, const DtType *type)
{
    DtFunc *body = c->loop->func;
    DtArena *arena = c->module->arena;
    const uint32_t n_carried = c->loop->loop->n_carried, n = body->ops.n;
    DtOp *const *ops = body->ops.at;
    DtBuilder b = {.func = body, .span = c->loop->span};
    DtValue *ring = new_ring(body, type, NULL);
    int64_t byte = 0;
    memset(&body->ops, 0, sizeof body->ops);
    insert(arena, &body->inputs.at, &body->inputs.n, 1 + n_carried, ring);
    body->inputs.cap = body->inputs.n;
    body->n_args++;
    number_again(body->inputs.at, body->inputs.n);
    ring = dt_graph_ringbuf_turn(&b, ring);
    for (uint32_t i = 0; i < n; i++) {
        DtOp *op = ops[i];
        if (goes_on(c, op)) {
            DtValue *bucket = op->in[0];
            b.span = op->span, b.path = op->path;
            ring = dt_graph_ringbuf_put(&b, ring, bucket, byte);
            op->in[0] = dt_graph_ringbuf_get(&b, ring, byte, bucket->type);
            op->in[0]->name = bucket->name, op->in[0]->means = bucket->means, op->in[0]->final = bucket->final;
            op->starts = true;
            byte += dt_order_slot_bytes(c->module, bucket->type);
        }
        DT_PUSH(arena, body->ops, op);
    }
    insert(arena, &body->results.at, &body->results.n, n_carried, ring);
    body->results.cap = body->results.n;
    body->n_returns++;
    dt_graph_renumber(body);
}

static void change_loop(Carry *c, DtValue *ring)
{
    DtOp *op = c->loop;
    DtLoop *loop = DT_NEW(c->module->arena, DtLoop);
    *loop = *op->loop;
    insert(c->module->arena, &op->in, &op->n_in, loop->n_carried, ring);
    insert(c->module->arena, &op->out, &op->n_out, loop->n_carried, new_ring(c->func, ring->type, op));
    number_again(op->out, op->n_out);
    loop->n_carried++;
    op->loop = loop;
}

void dt_order_carry(DtFunc *func)
{
    DtModule *module = func->module;
    if (dt_order_uses(func))
        return;
    const uint32_t n = func->ops.n;
    DtOp *const *ops = func->ops.at;
    Carry *carries = DT_NEW_ARRAY(module->arena, Carry, n + 1);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        carries[i] = (Carry){.module = module, .func = func, .loop = ops[i]};
        if (ops[i]->kind == DT_OP_LOOP && ops[i]->loop->count > 1 && is_alone(module, ops[i]->func))
            list_moves(&carries[i]);
        any = any || carries[i].moves.n;
    }
    if (!any)
        return;
    memset(&func->ops, 0, sizeof func->ops);
    for (uint32_t i = 0; i < n; i++) {
        Carry carry = carries[i];
        if (carry.moves.n) {
            DtBuilder b = {.func = func, .span = ops[i]->span, .path = ops[i]->path};
            const DtType *type = dt_order_ring(module, 2, carry.bytes, carry.splits);
            DtValue *ring = dt_graph_ringbuf(&b, type, NULL);
            change_body(&carry, type);
            change_loop(&carry, ring);
        }
        DT_PUSH(module->arena, func->ops, ops[i]);
    }
    dt_graph_renumber(func);
}
