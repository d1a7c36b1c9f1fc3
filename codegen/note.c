/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the notes for the certificate (plan/notes.h): which ops of the final program each
 * instruction computes, and which values its arguments are. Notes are written in the order of
 * items. */
#include "codegen/emit.h"

#include "plan/notes.h"

#include <string.h>

static void word(DtEmit *e, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    for (; value > 127; value >>= 7)
        bytes[n++] = (char)(value | 128);
    bytes[n++] = (char)value;
    dt_text_add_n(&e->notes, bytes, n);
}

static void signed_word(DtEmit *e, int64_t value)
{
    word(e, value < 0 ? ~((uint64_t)value << 1) : (uint64_t)value << 1);
}

static uint32_t number_of(const DtEmit *e, const DtValue *value)
{
    return e->scope->number[value->id];
}

/* Returns, by value id, the numbers that the reference program gives to the function's values. */
uint32_t *dt_note_numbers(DtEmit *e, const DtFunc *func)
{
    uint32_t *number = DT_NEW_ARRAY(e->scratch, uint32_t, func->n_values + 1), n = 0;
    for (uint32_t i = 0; i < func->inputs.n; i++, n++)
        number[func->inputs.at[i]->id] =
            func->inputs.at[i]->final ? func->inputs.at[i]->final - 1 : n;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out; k++, n++) {
            const DtValue *made = dt_op_made(op->out[k]);
            number[op->out[k]->id] = made->final ? made->final - 1 : n;
        }
    }
    return number;
}

/* ---- frames ---- */

static void slot(DtEmit *e, const DtPlace *place)
{
    const DtBuffer *buffer = &e->buffers.at[place->view.buffer];
    uint32_t reg = 0;
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
        if (place->reg[r])
            reg = r;
    word(e, buffer->arena);
    signed_word(e, buffer->offset + place->view.offset * (int64_t)dt_dtype_size(place->view.dtype));
    signed_word(e, place->reg[reg]);
    if (place->reg[reg])
        word(e, reg);
}

static bool has_slots(const DtStore *store)
{
    return store && (store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL);
}

void dt_note_entry(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted)
{
    uint32_t index = (uint32_t)(entry - e->module->entries.at);
    word(e, DT_NOTE_ENTRY);
    word(e, e->module->pipeline && entry->part != DT_PART_PROLOGUE
                ? 0
                : 1 + index); /* several stages may share a piece */
    for (uint32_t i = 0; i < entry->func->ops.n; i++) {
        const DtOp *op = entry->func->ops.at[i];
        if (op->kind == DT_OP_PARAM && has_slots(op->store))
            slot(e, &e->stores[op->store->index]);
        for (uint32_t k = 0; op->kind == DT_OP_INPUT && strchr(op->text, '.') && k < e->inputs.n;
             k++)
            if (e->inputs.at[k].name == op->text)
                slot(e, &e->inputs.at[k].place);
    }
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtEntryResult *result = &entry->results.at[i];
        if (has_slots(result->store) || (result->name && result->name[0] == '@'))
            slot(e, &wanted[i].place);
    }
}

/* The op's first result that exists in the reference program. Ring buffers that pass `order`
 * added to a loop's results come first and are skipped. */
static const DtValue *name_of(const DtOp *op)
{
    uint32_t k = 0;
    while (k + 1 < op->n_out && !dt_op_made(op->out[k])->final)
        k++;
    return dt_op_made(op->out[k])->final ? op->out[k] : op->out[0];
}

void dt_note_op(DtEmit *e, uint32_t kind, const DtOp *op)
{
    word(e, kind);
    if (op)
        word(e, number_of(e, name_of(op)));
}

void dt_note_carry(DtEmit *e, const DtOp *loop, uint32_t number)
{
    dt_note_op(e, DT_NOTE_CARRY, loop);
    word(e, number);
}

void dt_note_ahead(DtEmit *e, const DtAheadOf *of)
{
    word(e, DT_NOTE_AHEAD);
    word(e, of->loop);
    word(e, of->piece ? 1 + DT_NOTE_PHASES * (of->piece - 1) + of->kind : (uint64_t)of->turn);
}

void dt_note_behind(DtEmit *e, const DtOp *loop, int64_t number)
{
    word(e, DT_NOTE_BEHIND);
    word(e, loop ? 1 + (uint64_t)number_of(e, name_of(loop)) : 0);
    word(e, (uint64_t)number);
}

void dt_note_store(DtEmit *e, uint32_t kind, const DtStore *store)
{
    word(e, kind);
    word(e, store->index);
}

void dt_note_sum(DtEmit *e, uint32_t n, const DtStore *const *stores)
{
    word(e, DT_NOTE_SUM);
    word(e, n);
    for (uint32_t i = 0; i < n; i++)
        word(e, stores[i] ? 1 + stores[i]->index : 0);
}

void dt_note_part(DtEmit *e, const DtValue *value)
{
    word(e, DT_NOTE_PART);
    word(e, number_of(e, value));
}

/* ---- instructions ---- */

void dt_note_forms(DtEmit *e, size_t first, size_t second)
{
    const size_t end = e->notes.len;
    const char *notes = dt_arena_strndup(e->scratch, e->notes.at + first, end - first);
    e->notes.len = first;
    word(e, DT_NOTE_FORMS);
    word(e, second - first);
    word(e, end - second);
    dt_text_add_n(&e->notes, notes, end - first);
}

void dt_note_do(DtEmit *e, const DtOp *const *ops, uint32_t n)
{
    word(e, DT_NOTE_DO);
    word(e, n);
    for (uint32_t i = 0; i < n; i++)
        word(e, number_of(e, ops[i]->out[0]));
}

void dt_note_read(DtEmit *e, const DtValue *value)
{
    word(e, (uint64_t)number_of(e, value) * DT_NOTE_FLAGS);
}

/* Writes the strides of the value's axes, in their order. */
static void strides(DtEmit *e, const DtValue *value, const DtView *view)
{
    for (uint32_t i = 0; i < value->type->rank; i++)
        for (uint32_t d = 0; d < view->rank; d++)
            if (view->axis[d] == value->type->axes[i].name)
                word(e, (uint64_t)view->stride[d]);
}

void dt_note_read_as(DtEmit *e, const DtValue *value, const DtView *view, uint32_t flags)
{
    const DtPlace place = {.view = *view};
    bool whole = !e->in_blocks && view->rank == value->type->rank;
    for (uint32_t d = 0; whole && d < view->rank; d++)
        whole = dt_type_find(value->type, view->axis[d]) >= 0;
    if (whole && !dt_place_is_dense(&place, value->type, &e->module->mesh))
        flags |= DT_NOTE_STRIDES;
    word(e, (uint64_t)number_of(e, value) * DT_NOTE_FLAGS + flags);
    if (flags & DT_NOTE_STRIDES)
        strides(e, value, view);
}

void dt_note_write(DtEmit *e, const DtValue *value, const DtPlace *place, uint32_t flags)
{
    dt_note_over(e, value, place, flags, NULL);
}

void dt_note_over(DtEmit *e, const DtValue *value, const DtPlace *place, uint32_t flags,
                  const DtValue *old)
{
    const DtMesh *mesh = &e->module->mesh;
    const DtView *view = &place->view;
    bool whole = view->rank == value->type->rank &&
                 !(flags & DT_NOTE_OF_BLOCK); /* a block has fewer axes than the whole value */
    flags &= DT_NOTE_FLAGS - 1;
    if (whole && !dt_place_is_dense(place, value->type, mesh))
        flags |= DT_NOTE_STRIDES;
    if (view->dtype != value->type->dtype)
        flags |= DT_NOTE_DTYPE;
    if (old)
        flags |= DT_NOTE_IN_PLACE;
    word(e, (uint64_t)number_of(e, value) * DT_NOTE_FLAGS + flags);
    if (old)
        word(e, number_of(e, old));
    if (flags & DT_NOTE_STRIDES)
        strides(e, value, view);
    if (flags & DT_NOTE_DTYPE)
        word(e, view->dtype);
}

void dt_note_integer(DtEmit *e, const DtKInt *value)
{
    static const uint8_t kinds[] = {[DT_KINT_BASES] = DT_NOTE_BASES,
                                    [DT_KINT_STEP] = DT_NOTE_STEP,
                                    [DT_KINT_ITERATION] = DT_NOTE_ITERATION,
                                    [DT_KINT_INDEX] = DT_NOTE_INDEX,
                                    [DT_KINT_ELEMENT] = DT_NOTE_ELEMENT};
    word(e, kinds[value->kind]);
    if (value->kind == DT_KINT_ELEMENT) {
        signed_word(e, value->per_first);
        for (uint32_t i = 0; i < value->n_loops; i++)
            signed_word(e, value->per_loop[i]);
    }
    if (value->kind != DT_KINT_BASES)
        return;
    word(e, value->n);
    for (uint32_t i = 0; i < value->n; i++) {
        signed_word(e, value->multiplier[i]);
        word(e, (uint64_t)value->axis[i].extent);
        word(e, value->axis[i].n_split);
        for (uint32_t s = 0; s < value->axis[i].n_split; s++)
            word(e, value->axis[i].split[s]);
    }
}

/* ---- attention ---- */

/* Writes where the axis is: the number of a value that has it, and its position in that value's
 * type. */
static void axis_word(DtEmit *e, const char *axis)
{
    const DtFunc *func = e->scope->func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtValue *value = func->ops.at[i]->out[0];
        int d = dt_type_find(value->type, axis);
        if (d < 0)
            continue;
        word(e, number_of(e, value));
        word(e, (uint64_t)d);
        return;
    }
}

void dt_note_tiles(DtEmit *e, uint32_t n_loops, const char *const *loops, const char *queries,
                   const char *keys, const DtValue *mask)
{
    word(e, DT_NOTE_TILES);
    word(e, n_loops);
    for (uint32_t i = 0; i < n_loops; i++)
        axis_word(e, loops[i]);
    axis_word(e, queries);
    axis_word(e, keys);
    word(e, mask ? 1 + (uint64_t)number_of(e, mask) : 0);
}

void dt_note_words(DtEmit *e, uint32_t n, const int64_t *words)
{
    for (uint32_t i = 0; i < n; i++)
        word(e, (uint64_t)words[i]);
}
