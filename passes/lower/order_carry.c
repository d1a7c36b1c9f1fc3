/* SPDX-License-Identifier: Apache-2.0 */
/* Sums a bucket of gradients that is complete at the end of an iteration over ranks while the next
 * iteration runs.
 *
 *   before                                    after
 *                                               %r = ringbuf()                         two slots
 *   %x, %g = loop(..)                           %x, %r', %g = loop(.., %r)
 *     ..                                          %t = ringbuf_turn(%ringbuf)          the
 *     slot's last reader is done
 *     %5 = pack(%3, %4)                           %5 = pack(%3, %4)
 *                                                 %u = ringbuf_put(%t, %5)
 *                                                 %7 = ringbuf_get(%u)
 *     %6 = reduce_scatter(%5)                     %6 = start reduce_scatter(%7)
 *     return %x', %6                              return %x', %u, %6
 *                                               %h = done(%g)                          of all
 *                                               iterations
 *
 * Gradients of an iteration are written into one slot while the other is in flight. That takes one
 * more bucket. Exchanges that overlap with work of their own iteration end there instead.
 *
 * If results accumulate over micro-batches, the sum of an iteration is not written to the result,
 * but into the slot as well:
 *
 *                                                 %6 = start reduce_scatter(%7)
 *                                                 %v = ringbuf_put(%u, %6)           after the
 *                                                 bucket
 *                                                 return %x', %v, %6
 *
 * When the slot becomes the front one again, its sum is added to the result of its iteration. After
 * the loop, the `done` of its result adds those of the remaining slots, before the next loop whose
 * ring turns. So each term is added in its micro-batch, and sums have the bits of exchanges without
 * overlap.
 *
 * Only one ring turns at a time. So a loop that gathers ahead puts its buckets into its own
 * slots, after the gathered values. If other loops of its entry gather ahead, or other pieces of
 * its stage, but not the loop itself, the loop is left as it is. Loops that accumulate may share
 * the bytes of one ring. */
#include "passes/lower/order.h"

#include "base/intern.h"
#include "ir/shape.h"

#include <string.h>

/* A loop whose body reduces buckets in each iteration, and lets the reductions run on in the
 * next. */
typedef struct Carry {
    DtModule *module;
    const DtEntryPoint *entry;
    DtFunc *func; /* the function that contains the loop */
    DtOp *loop;
    bool adds; /* adds: results accumulate over micro-batches, so the reduced sums go into the slot
                * too */
    DT_VEC(DtOp *) moves;
    const DtType *ring; /* the type of the ring buffer that the loop carries already; NULL: none */
    int64_t from, bytes; /* bytes of a slot: before the buckets; in all */
    uint16_t splits;    /* mesh axes on which ranks have different contents in the slot */
} Carry;

static uint32_t number_of(const DtFunc *func, const DtOp *op)
{
    uint32_t n = 0;
    while (func->ops.at[n] != op)
        n++;
    return n;
}

/* Whether the body runs an op between this one and its end on which a device can work during the
 * exchange. */
static bool has_beside(const DtFunc *body, const DtOp *op)
{
    bool has = false;
    for (uint32_t i = number_of(body, op) + 1; !has && i < body->ops.n; i++)
        has = dt_order_is_beside(body->ops.at[i], op);
    return has;
}

/* Whether an op after this one still reads a slot of the ring buffer directly, so that the slot is
 * not free for the op's result. */
static bool is_read_behind(const DtFunc *body, const DtOp *op)
{
    bool is = false;
    for (uint32_t i = number_of(body, op) + 1; !is && i < body->ops.n; i++)
        for (uint32_t k = 0; !is && k < body->ops.at[i]->n_in; k++) {
            const DtValue *in = body->ops.at[i]->in[k];
            is = !dt_type_is_ringbuf(in->type) && dt_type_is_ringbuf(dt_op_viewed(in)->type);
        }
    return is;
}

static bool is_bucket(const DtFunc *body, const DtValue *value)
{
    const DtOp *op = value->op, *pack = op && dt_order_exchanges(op) ? op->in[0]->op : NULL;
    uint32_t results = 0;
    for (uint32_t i = 0; i < body->results.n; i++)
        results += body->results.at[i] == value;
    return pack && pack->kind == DT_OP_PACK && op->kind != DT_OP_ALL_GATHER && !op->late &&
           results == 1 && dt_graph_reads(body, value) == results &&
           dt_graph_reads(body, pack->out[0]) == 1 && !has_beside(body, op) &&
           !is_read_behind(body, op);
}

bool dt_order_is_alone(const DtModule *module, const DtFunc *body)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++)
            n += module->funcs.at[i]->ops.at[k]->func == body;
    return n == 1;
}

/* Returns the index of the first ring buffer among the n values; -1 if there is none. */
static int32_t ring_among(DtValue *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (dt_type_is_ringbuf(list[i]->type))
            return (int32_t)i;
    return -1;
}

static void add_slot(Carry *c, const DtType *type)
{
    c->bytes += dt_order_slot_bytes(c->module, type);
    c->splits |= type->partial;
    for (uint32_t a = 0; a < type->rank; a++)
        c->splits |= dt_shape_split_bits(&type->axes[a]);
}

/* Whether result number i of the loop is a result of the entry that accumulates over micro-batches,
 * and nothing else reads it. */
static bool is_added(const Carry *c, uint32_t i)
{
    const DtValue *value = c->loop->out[i];
    bool is = false;
    for (uint32_t k = 0; !is && k < c->func->results.n; k++)
        is = c->func->results.at[k] == value && c->entry->results.at[k].accumulate;
    return is && dt_graph_reads(c->func, value) == 1;
}

static void list_moves(Carry *c)
{
    const DtFunc *body = c->loop->func;
    const int32_t at = ring_among(body->results.at, c->loop->loop->n_carried);
    c->ring = at >= 0 ? body->results.at[at]->type : NULL;
    if (c->ring) {
        c->from = c->bytes = c->ring->axes[c->ring->rank - 1].extent;
        for (uint32_t a = 0; a < c->ring->rank; a++)
            c->splits |= dt_shape_split_bits(&c->ring->axes[a]);
    }
    for (uint32_t i = c->loop->loop->n_carried; i < body->results.n; i++) {
        const DtValue *value = body->results.at[i];
        if (!is_bucket(body, value) || (c->adds && !is_added(c, i)))
            continue;
        const DtType *type = value->op->in[0]->type;
        DT_PUSH(c->module->arena, c->moves, value->op);
        add_slot(c, type);
        if (c->adds)
            add_slot(c, value->type);
    }
}

/* Inserts value at index `at` of a list of *n values. */
static void insert(DtArena *arena, DtValue ***list, uint32_t *n, uint32_t at, DtValue *value)
{
    DtValue **more = DT_NEW_ARRAY(arena, DtValue *, *n + 2);
    for (uint32_t i = 0; i <= *n; i++)
        more[i] = i < at ? (*list)[i] : i == at ? value : (*list)[i - 1];
    *list = more;
    ++*n;
}

static void renumber(DtValue *const *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        list[i]->index = i;
}

static DtValue *new_ring(DtFunc *func, const DtType *type, DtOp *op)
{
    DtValue *value = DT_NEW(func->module->arena, DtValue);
    *value = (DtValue){.type = type, .op = op, .name = dt_intern("ringbuf"),
                       .id = func->n_values++};
    return value;
}

static bool goes_on(const Carry *c, const DtOp *op)
{
    for (uint32_t i = 0; i < c->moves.n; i++)
        if (c->moves.at[i] == op)
            return true;
    return false;
}

/* Adds the ring buffer that the loop carries to the inputs of its body, and returns it with the
 * next slot in front. */
static DtValue *add_ring(const Carry *c, const DtType *type, DtBuilder *b)
{
    DtFunc *body = c->loop->func;
    DtValue *ring = new_ring(body, type, NULL);
    insert(c->module->arena, &body->inputs.at, &body->inputs.n, 1 + c->loop->loop->n_carried, ring);
    body->inputs.cap = body->inputs.n;
    body->n_args++;
    renumber(body->inputs.at, body->inputs.n);
    return dt_graph_ringbuf_turn(b, ring);
}

static void change_body(const Carry *c, const DtType *type)
{
    DtFunc *body = c->loop->func;
    DtArena *arena = c->module->arena;
    const uint32_t n_carried = c->loop->loop->n_carried, n = body->ops.n;
    const int32_t at = c->ring ? ring_among(body->results.at, n_carried) : -1;
    DtOp *const *ops = body->ops.at;
    DtBuilder b = {.func = body, .span = c->loop->span};
    int64_t byte = c->from;
    memset(&body->ops, 0, sizeof body->ops);
    DtValue *ring = c->ring ? body->results.at[at] : add_ring(c, type, &b);
    for (uint32_t i = 0; i < n; i++) {
        DtOp *op = ops[i];
        if (goes_on(c, op)) {
            DtValue *bucket = op->in[0];
            b.span = op->span, b.path = op->path;
            ring = dt_graph_ringbuf_put(&b, ring, bucket, byte);
            op->in[0] = dt_graph_ringbuf_get(&b, ring, byte, bucket->type);
            op->in[0]->name = bucket->name, op->in[0]->means = bucket->means,
            op->in[0]->final = bucket->final;
            op->starts = true;
            byte += dt_order_slot_bytes(c->module, bucket->type);
        }
        DT_PUSH(arena, body->ops, op);
        if (goes_on(c, op) && c->adds) {
            ring = dt_graph_ringbuf_put(&b, ring, op->out[0], byte);
            byte += dt_order_slot_bytes(c->module, op->out[0]->type);
        }
    }
    if (c->ring) {
        body->results.at[at] = ring;
    } else {
        insert(arena, &body->results.at, &body->results.n, n_carried, ring);
        body->results.cap = body->results.n;
        body->n_returns++;
    }
    dt_graph_renumber(body);
}

/* ---- larger slots ---- */

static void widen_list(DtValue *const *list, uint32_t n, const DtType *from, const DtType *to)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i]->type == from)
            list[i]->type = to;
}

/* Changes the type of ring buffers from `from` to `to` in the function and in all functions that it
 * runs. */
static void widen(DtFunc *func, const DtType *from, const DtType *to)
{
    widen_list(func->inputs.at, func->inputs.n, from, to);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        widen_list(func->ops.at[i]->out, func->ops.at[i]->n_out, from, to);
        if (func->ops.at[i]->func)
            widen(func->ops.at[i]->func, from, to);
    }
}

/* Returns how many ops of the function, and of functions that it runs, make ring buffers of this
 * type. */
static uint32_t count_rings(const DtFunc *func, const DtType *type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        n += op->kind == DT_OP_RINGBUF && op->out[0]->type == type;
        n += op->func ? count_rings(op->func, type) : 0;
    }
    return n;
}

static void change_loop(Carry *c, DtValue *ring)
{
    DtOp *op = c->loop;
    DtLoop *loop = DT_NEW(c->module->arena, DtLoop);
    *loop = *op->loop;
    insert(c->module->arena, &op->in, &op->n_in, loop->n_carried, ring);
    insert(c->module->arena, &op->out, &op->n_out, loop->n_carried,
           new_ring(c->func, ring->type, op));
    renumber(op->out, op->n_out);
    loop->n_carried++;
    op->loop = loop;
}

static Carry look(DtEntryPoint *entry, DtOp *op)
{
    Carry carry = {.module = entry->func->module, .entry = entry, .func = entry->func, .loop = op,
                   .adds = dt_order_adds(entry->func->module)};
    if (op->kind == DT_OP_LOOP && op->loop->count > 1 && dt_order_is_alone(carry.module, op->func))
        list_moves(&carry);
    return carry;
}

/* If the loop's sums accumulate, completes the reductions that are still in flight in the slots of
 * its ring buffer (adds a `done` for each result), before another loop uses the slots. */
static void finish(const Carry *carry, DtBuilder *b)
{
    for (uint32_t i = 0; i < carry->func->results.n && carry->adds; i++) {
        DtValue **result = &carry->func->results.at[i];
        if ((*result)->op == carry->loop && dt_op_is_started(*result))
            *result = dt_graph_done(b, *result);
    }
}

/* Gives each loop of the entry that lets reductions run on into the next iteration a ring buffer of
 * its own, of two slots. */
static void carry_alone(DtEntryPoint *entry)
{
    DtFunc *func = entry->func;
    const uint32_t n = func->ops.n;
    DtOp *const *ops = func->ops.at;
    Carry *carries = DT_NEW_ARRAY(func->module->arena, Carry, n + 1), *before = NULL;
    for (uint32_t i = 0; i < n; i++)
        carries[i] = look(entry, ops[i]);
    memset(&func->ops, 0, sizeof func->ops);
    for (uint32_t i = 0; i < n; i++) {
        Carry *carry = &carries[i];
        if (carry->moves.n) {
            DtBuilder b = {.func = func, .span = ops[i]->span, .path = ops[i]->path};
            const DtType *type = dt_order_ring(func->module, 2, carry->bytes, carry->splits);
            if (before)
                finish(before, &b);
            DtValue *ring = dt_graph_ringbuf(&b, type, NULL);
            change_body(carry, type);
            change_loop(carry, ring);
            before = carry;
        }
        DT_PUSH(func->module->arena, func->ops, ops[i]);
    }
    dt_graph_renumber(func);
}

/* ---- slots of gathers that run ahead ---- */

typedef DT_VEC(Carry) Carries;

/* Whether op uses a ring buffer: makes one, takes one as operand, or has a function that uses one.
 * From there on the ring of the loop before is no longer advanced. */
static bool takes_ring(const DtOp *op)
{
    return op->kind == DT_OP_RINGBUF || (op->func && dt_order_uses(op->func)) ||
           (op->n_in && ring_among(op->in, op->n_in) >= 0);
}

/* Completes the reductions in flight in a ring's slots before the next op of the function that uses
 * a ring buffer. For those in flight at the end of the function, see order_start.c. */
static void finish_early(const Carry *carry)
{
    DtFunc *func = carry->func;
    uint32_t at = number_of(func, carry->loop) + 1;
    while (at < func->ops.n && !takes_ring(func->ops.at[at]))
        at++;
    if (at == func->ops.n)
        return;
    DtBuilder b = {.func = func, .span = carry->loop->span, .path = carry->loop->path};
    const uint32_t n = func->ops.n;
    finish(carry, &b);
    for (uint32_t i = n; i < func->ops.n; i++, at++) { /* the ops just added are at the end of the
                                                        * function; moves them here */
        DtOp *done = func->ops.at[i];
        memmove(func->ops.at + at + 1, func->ops.at + at, (i - at) * sizeof done);
        func->ops.at[at] = done;
    }
    dt_graph_renumber(func);
}

/* Appends to ret_list the loops of an entry that carry a ring buffer of this type and have
 * reductions to let run on. */
static void list_carries(DtEntryPoint *entry, const DtType *ring, Carries *ret_list)
{
    for (uint32_t i = 0; i < entry->func->ops.n; i++) {
        const Carry carry = look(entry, entry->func->ops.at[i]);
        if (carry.moves.n && carry.ring == ring)
            DT_PUSH(entry->func->module->arena, *ret_list, carry);
    }
}

/* Returns the type of a ring buffer whose slots have room for the buckets of all these loops, and
 * sets where each loop's buckets begin in a slot. Loops share bytes if all reductions of one are
 * done before the next one turns the ring. */
static const DtType *larger(const Carries *list)
{
    const DtType *ring = list->at[0].ring;
    const int64_t gathered = list->at[0].from;
    int64_t all = gathered;
    uint16_t splits = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        Carry *carry = &list->at[i];
        const int64_t bytes = carry->bytes - gathered;
        carry->from = carry->adds ? gathered : all;
        all = carry->from + bytes > all ? carry->from + bytes : all;
        splits |= carry->splits;
    }
    return dt_order_ring(list->at[0].module, ring->axes[0].extent, all, splits);
}

static void change_all(const Carries *list, const DtType *type)
{
    for (uint32_t i = 0; i < list->n; i++) {
        change_body(&list->at[i], type);
        if (list->at[i].adds)
            finish_early(&list->at[i]);
    }
}

/* Lets the reductions of loops run on in slots of the ring buffer that the entry makes for
 * prefetches, if it makes one of its type only. Enlarges its slots for the buckets. */
static void carry_with(DtEntryPoint *entry)
{
    for (uint32_t i = 0; i < entry->func->ops.n; i++) {
        const DtOp *op = entry->func->ops.at[i];
        const DtType *ring = op->kind == DT_OP_RINGBUF && op->n_in == 0 ? op->out[0]->type : NULL;
        Carries list = {0};
        if (!ring || count_rings(entry->func, ring) != 1)
            continue;
        list_carries(entry, ring, &list);
        if (!list.n)
            continue;
        const DtType *type = larger(&list);
        widen(entry->func, ring, type);
        change_all(&list, type);
    }
}

static bool has_ring(const DtEntryPoint *entry, const DtStore *store)
{
    bool has = false;
    for (uint32_t i = 0; i < entry->results.n; i++)
        has = has || (store ? entry->results.at[i].store == store
                            : entry->results.at[i].store &&
                                  entry->results.at[i].store->kind == DT_STORE_RINGBUF);
    return has;
}

/* Lets the reductions of loops run on in slots of the ring buffer in this store, which
 * micro-batches or pieces of the pipeline pass on. Enlarges its slots in all entries that use
 * it. */
static void carry_handed(DtModule *module, DtStore *store)
{
    Carries list = {0};
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (module->entries.at[i].kind == DT_ENTRY_GRAD && has_ring(&module->entries.at[i], store))
            list_carries(&module->entries.at[i], store->type, &list);
    if (!list.n)
        return;
    const DtType *type = larger(&list), *old = store->type;
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (has_ring(&module->entries.at[i], store))
            widen(module->entries.at[i].func, old, type);
    store->type = type;
    change_all(&list, type);
}

/* Whether another entry of the same kind on the entry's stages has a ring buffer that pieces pass
 * to each other. If this entry advanced one of its own in between, they would lose the front
 * slot. */
static bool is_beside_ring(const DtModule *module, const DtEntryPoint *entry)
{
    bool is = false;
    for (uint32_t i = 0; !is && i < module->entries.n; i++) {
        const DtEntryPoint *other = &module->entries.at[i];
        const int32_t last = entry->stage + (int32_t)entry->more,
                      others = other->stage + (int32_t)other->more;
        is = other->kind == entry->kind && has_ring(other, NULL) && other->stage <= last &&
             entry->stage <= others;
    }
    return is;
}

void dt_order_carry(DtModule *module)
{
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_RINGBUF)
            carry_handed(module, module->stores.at[i]);
    for (uint32_t i = 0; i < module->entries.n; i++) {
        DtEntryPoint *entry = &module->entries.at[i];
        if (entry->kind != DT_ENTRY_GRAD || is_beside_ring(module, entry))
            continue;
        (dt_order_uses(entry->func) ? carry_with : carry_alone)(entry);
    }
}
