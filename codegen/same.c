/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are emitted alike. Stages of a pipeline that hold the same number of the same layers do the same work in
 * the same places; emitting one of them is enough. The key of an entry is everything that its instructions depend on,
 * as bytes: its ops with their operands by number, types and attributes, the places of stores and inputs that
 * they read, and where its results go. A loop's first iteration is part of it only if the body asks for its number, and
 * then as far as it does not grow with the stage. */
#include "codegen/emit.h"

#include <string.h>

typedef struct Key {
    DtEmit *e;
    DtText *text;
} Key;

#define ADD(key, value) dt_text_add_n((key)->text, (const char *)&(value), sizeof(value))

/* ---- does the iteration number matter? ---- */

static bool asks_for_number(const DtFunc *body)
{
    const DtValue *number = body->kind == DT_FUNC_BODY && body->inputs.n ? body->inputs.at[0] : NULL;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtOp *op = body->ops.at[i];
        if (op->kind == DT_OP_RNG || (op->func && asks_for_number(op->func)))
            return true;
        for (uint32_t k = 0; k < op->n_in; k++)
            if (op->in[k] == number)
                return true;
    }
    return false;
}

/* ---- parts of keys ---- */

static void add_place(Key *key, const DtPlace *place)
{
    const DtBuffer *buffer = &key->e->buffers.at[place->view.buffer];
    DtPlace copy = *place;
    copy.view.buffer = buffer->arena;
    ADD(key, copy);
    ADD(key, buffer->offset);
}

static void add_pointers(Key *key, const char *const *at, uint32_t n)
{
    ADD(key, n);
    dt_text_add_n(key->text, (const char *)at, n * sizeof *at);
}

static void add_func(Key *key, const DtFunc *func);

static void add_loop(Key *key, const DtOp *op)
{
    DtLoop loop = *op->loop;
    const bool asks = asks_for_number(op->func);
    loop.first_step = asks ? dt_launch_step(key->e, &loop) : 0;
    loop.first = asks ? loop.first - loop.first_step * key->e->class_first : 0;
    const uint32_t numbers[] = {loop.reverse, loop.n_carried, loop.n_invariant, loop.n_stacked, loop.n_stacked_out};
    ADD(key, loop.label);
    ADD(key, loop.axis);
    ADD(key, loop.count);
    ADD(key, loop.first);
    ADD(key, loop.first_step);
    ADD(key, numbers);
}

static void add_source(Key *key, const DtOp *op)
{
    if (op->store) {
        add_place(key, &key->e->stores[op->store->index]);
        return;
    }
    for (uint32_t i = 0; i < key->e->inputs.n; i++)
        if (key->e->inputs.at[i].name == op->text)
            add_place(key, &key->e->inputs.at[i].place);
}

static void add_attributes(Key *key, const DtOp *op)
{
    const uint32_t numbers[] = {op->kind,   op->n_in,    op->n_out, op->n_relabels,
                                op->reduce, op->reverse, op->mesh,  op->recomputed,
                                op->ahead,  op->starts};
    ADD(key, numbers);
    ADD(key, op->span);
    ADD(key, op->path);
    ADD(key, op->number);
    ADD(key, op->stages);
    add_pointers(key, op->axes, op->n_axes);
    add_pointers(key, op->axes2, op->n_axes2);
    if (op->ranges)
        dt_text_add_n(key->text, (const char *)op->ranges, (op->n_axes > 1 ? op->n_axes : 1) * sizeof *op->ranges);
    dt_text_add_n(key->text, (const char *)op->relabels, op->n_relabels * sizeof *op->relabels);
    if (!op->store)
        ADD(key, op->text);
    if (op->of)
        ADD(key, *op->of);
}

static void add_op(Key *key, const DtOp *op, uint32_t *number, uint32_t *n_numbers)
{
    add_attributes(key, op);
    for (uint32_t i = 0; i < op->n_in; i++)
        ADD(key, number[op->in[i]->id]);
    for (uint32_t i = 0; i < op->n_out; i++) {
        ADD(key, op->out[i]->type);
        ADD(key, op->out[i]->final);
        number[op->out[i]->id] = (*n_numbers)++;
    }
    if (op->loop)
        add_loop(key, op);
    if (op->func)
        add_func(key, op->func);
    if (op->kind == DT_OP_PARAM || op->kind == DT_OP_INPUT)
        add_source(key, op);
}

static void add_func(Key *key, const DtFunc *func)
{
    uint32_t *number = DT_NEW_ARRAY(key->e->arena, uint32_t, func->n_values + 1), n = 0;
    ADD(key, func->library);
    ADD(key, func->inputs.n);
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        ADD(key, func->inputs.at[i]->type);
        ADD(key, func->inputs.at[i]->final);
        number[func->inputs.at[i]->id] = n++;
    }
    for (uint32_t i = 0; i < func->ops.n; i++)
        add_op(key, func->ops.at[i], number, &n);
    ADD(key, func->results.n);
    for (uint32_t i = 0; i < func->results.n; i++)
        ADD(key, number[func->results.at[i]->id]);
}

void dt_same_key(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted, DtText *ret_key)
{
    Key key = {e, ret_key};
    add_func(&key, entry->func);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const uint32_t numbers[] = {wanted[i].set, wanted[i].accumulate, wanted[i].old != NULL};
        ADD(&key, numbers);
        if (wanted[i].set)
            add_place(&key, &wanted[i].place);
    }
}
