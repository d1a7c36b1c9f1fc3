/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: which values have memory of their own, and where in the frame of their function it is
 * (ir/frame.h).
 *
 *   before                                      after
 *   func body : body {                          func body : body frame=768 {
 *     %2 = fused(%0, %1) : f32[a=128]             %2 = fused(%0, %1) : f32[a=128] at(%2=0)
 *     %3 = fused(%2) : f32[a=64]                  %3 = fused(%2) : f32[a=64] at(%3=512)
 *     %4 = dot(%3, %1) : f32[a=32]                %4 = dot(%3, %1) : f32[a=32] at(%4=0)
 *
 * The functions that a function runs are laid out first; the frame of one is a range in use while
 * the op runs it. So a function has one layout, wherever it is run from. Ranges get their offsets
 * one after the other, each the lowest that is free. Of four orders the pass takes the one with the
 * smallest frame, which is rarely larger than the most bytes in use at once.
 *
 * Not laid out are functions of attention: what they need depends on whether the target does them
 * in one kernel or in tiles, which code generation finds out (codegen/attend.c). Neither is memory
 * of copies that an op says it may make (DtOp.copies). */
#include "passes/lower/memory.h"

#include "ir/frame.h"

#include <stdlib.h>
#include <string.h>

/* ---- which values have memory of their own ---- */

static bool is_result(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value)
            return true;
    return false;
}

/* Whether the op that makes the value writes it directly to the place where a reader wants it.
 * Copies of results (made after the walk) count as well. */
static bool is_wanted(const DtMemory *m, const DtValue *value)
{
    return value->id < m->n_walked ? dt_memory_is_direct(m, value) : is_result(m->func, value);
}

/* Whether an op whose operands are computed inside its result (DtOp.holds) is itself written to a
 * wished place. That is impossible if it would overwrite old contents, or add to contents that it
 * reads. */
static bool is_whole_wanted(const DtMemory *m, const DtOp *op)
{
    const DtMemoryWish *wish = &m->wish[op->out[0]->id];
    const bool adds = wish->adds && (op->kind == DT_OP_CONCAT || m->reads[op->out[0]->id]);
    return op->holds && wish->set && !wish->drops && !wish->old && !adds;
}

static bool has_readers(const DtMemory *m, const DtValue *value)
{
    return m->reads[value->id] || m->last[value->id] == UINT32_MAX || is_result(m->func, value);
}

/* Whether result number i of the op takes memory of its own in the function's frame. done: the
 * value that holds it in the end: the result, or the result of its `done`. */
static bool has_memory(const DtMemory *m, const DtOp *op, uint32_t i, const DtValue *done)
{
    const bool is_ringbuf = dt_type_is_ringbuf(done->type);
    if (dt_op_is_inline(op->out[i]) || op->late)
        return false;
    switch (op->kind) {
    case DT_OP_PARAM: return op->store->kind == DT_STORE_RINGBUF && !m->func->module->pipeline;
    case DT_OP_RINGBUF: return op->n_in == 0;
    case DT_OP_RINGBUF_PUT:
    case DT_OP_TURN:
    case DT_OP_WHEN:
    case DT_OP_INPUT: return false;
    case DT_OP_PACK: return !is_whole_wanted(m, op);
    case DT_OP_LOOP:
        if (i < op->loop->n_carried)
            return !is_ringbuf;
        break;
    case DT_OP_CONCAT:
        if (op->holds)
            return !is_whole_wanted(m, op);
        break;
    case DT_OP_CALL:
    case DT_OP_DOT:
    case DT_OP_COPY: break;
    default:
        if (dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in && !op->copies)
            return false;
        if (dt_op_info[op->kind].op_class != DT_CLASS_COMM && !dt_op_is_product(op) &&
            !has_readers(m, done))
            return false;
    }
    return !done->over && !is_wanted(m, done);
}

/* Sets DtValue.at to 1 for the values that entry "predict" returns to its caller without a store,
 * so that they get memory. */
static void mark_predicted(DtMemory *m)
{
    const DtEntryPoint *entry = m->call->entry;
    for (uint32_t i = 0; entry && dt_entry_predicts(entry->kind) && i < entry->results.n; i++) {
        const DtEntryResult *result = &entry->results.at[i];
        DtValue *value = m->func->results.at[i];
        if (!result->store && result->name[0] != '@' && value->type->rank &&
            !m->func->module->pipeline && value->op)
            value->at = 1;
    }
}

void dt_memory_mark(DtMemory *m)
{
    for (uint32_t i = 0; i < m->func->ops.n; i++) {
        const DtOp *op = m->func->ops.at[i];
        for (uint32_t k = 0; k < op->n_out && op->kind != DT_OP_DONE; k++) {
            DtValue *done = op->out[k]->id < m->n_walked ? dt_memory_result(m, op, k) : op->out[k];
            if (!has_memory(m, op, k, done))
                continue;
            done->at = 1;
            m->changed = true;
        }
        if (dt_frame_has(op)) {
            DtMemoryCall *call = dt_memory_call(m->calls, m->kept, op->func);
            call->inside = op->kind == DT_OP_CALL && !call->framed;
            call->framed = true;
        }
    }
    mark_predicted(m);
}

/* ---- orders ---- */

enum { TRIES = 40 }; /* placements tried for each order */

typedef struct Choice {
    DtFrameRange range;
    int64_t need; /* the most bytes in use at any op at which the range is in use */
} Choice;

static int by_size(const void *a, const void *b)
{
    const DtFrameRange *x = &((const Choice *)a)->range, *y = &((const Choice *)b)->range;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->first != y->first ? (x->first < y->first ? -1 : 1)
                                : (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_need(const void *a, const void *b)
{
    const Choice *x = a, *y = b;
    return x->need != y->need ? (x->need > y->need ? -1 : 1) : by_size(a, b);
}

static int by_life(const void *a, const void *b)
{
    const DtFrameRange *x = &((const Choice *)a)->range, *y = &((const Choice *)b)->range;
    const uint32_t life_x = x->last - x->first, life_y = y->last - y->first;
    return life_x != life_y ? (life_x > life_y ? -1 : 1) : by_size(a, b);
}

static int by_time(const void *a, const void *b)
{
    const DtFrameRange *x = &((const Choice *)a)->range, *y = &((const Choice *)b)->range;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : by_size(a, b);
}

/* ---- offsets ---- */

/* Sets each range's `need`: the most bytes in use at any op at which the range is in use. Returns
 * the most bytes in use at once. */
static int64_t find_needs(DtArena *arena, Choice *choices, uint32_t n)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < n; i++)
        end = choices[i].range.last > end ? choices[i].range.last : end;
    int64_t *live = DT_NEW_ARRAY(arena, int64_t, (size_t)end + 1), most = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t p = choices[i].range.first; p <= choices[i].range.last; p++)
            live[p] += dt_frame_aligned(choices[i].range.bytes);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t p = choices[i].range.first; p <= choices[i].range.last; p++)
            choices[i].need = live[p] > choices[i].need ? live[p] : choices[i].need;
    for (uint32_t i = 0; i < n; i++)
        most = choices[i].need > most ? choices[i].need : most;
    return most;
}

/* A frame while its ranges are placed. */
typedef struct Layout {
    DtArena *arena;
    Choice *choices;             /* the ranges to place, in order of placement */
    /* the same as ranges with offsets; best: those of the smallest frame so far */
    DtFrameRange *ranges, *best;
    uint32_t n;
    int64_t bytes;               /* bytes of that frame */
} Layout;

static int64_t end_of(const DtFrameRange *range) { return range->offset + range->bytes; }

/* Places all ranges in the present order, and keeps the offsets in l->best if the frame is the
 * smallest so far. Returns the number of the range that ends highest. */
static uint32_t try_order(Layout *l)
{
    uint32_t highest = 0;
    for (uint32_t i = 0; i < l->n; i++)
        l->ranges[i] = l->choices[i].range;
    const int64_t bytes = dt_frame_fit(l->arena, l->ranges, l->n, 0);
    for (uint32_t i = 0; i < l->n; i++)
        highest = end_of(&l->ranges[i]) > end_of(&l->ranges[highest]) ? i : highest;
    if (bytes < l->bytes) {
        DtFrameRange *ranges = l->best;
        l->best = l->ranges;
        l->ranges = ranges;
        l->bytes = bytes;
    }
    return highest;
}

/* Moves range number i to the front of the order, so that the next attempt places it first. */
static void move_to_front(Layout *l, uint32_t i)
{
    const Choice moved = l->choices[i];
    memmove(l->choices + 1, l->choices, i * sizeof moved);
    l->choices[0] = moved;
}

static void lay_out(DtFunc *func, DtArena *arena)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_need, by_life, by_time};
    const DtFrameRanges found = dt_frame_ranges(func, arena);
    Layout l = {.arena = arena, .n = found.n, .bytes = INT64_MAX};
    l.choices = DT_NEW_ARRAY(arena, Choice, (size_t)found.n + 1);
    l.ranges = DT_NEW_ARRAY(arena, DtFrameRange, (size_t)found.n + 1);
    l.best = DT_NEW_ARRAY(arena, DtFrameRange, (size_t)found.n + 1);
    for (uint32_t i = 0; i < found.n; i++) {
        l.choices[i].range = found.at[i];
        l.choices[i].range.offset = i; /* equal ones stay in the order of their ops */
    }
    const int64_t most = find_needs(arena, l.choices, found.n);
    for (size_t i = 0; i < DT_COUNT(orders) && l.bytes > most; i++) {
        qsort(l.choices, l.n, sizeof *l.choices, orders[i]);
        for (int attempt = 0; attempt < TRIES && l.bytes > most; attempt++)
            move_to_front(&l, try_order(&l));
    }
    func->frame = l.bytes;
    for (uint32_t i = 0; i < l.n; i++)
        if (l.best[i].value)
            l.best[i].value->at = 1 + l.best[i].offset;
        else
            l.best[i].op->base = l.best[i].offset;
}

/* Whether the function's frame has any content: its own values, frames of functions that it
 * runs, or values of a function that it calls once, which has no frame of its own. */
static bool has_own(const DtFunc *func)
{
    bool has = false;
    for (uint32_t i = 0; i < func->ops.n && !has; i++) {
        const DtOp *op = func->ops.at[i];
        has =
            dt_frame_has(op) && (op->func->frame || (op->kind == DT_OP_CALL && has_own(op->func)));
        for (uint32_t k = 0; k < op->n_out; k++)
            has = has || op->out[k]->at;
    }
    return has;
}

void dt_memory_frame(DtFunc *func, DtArena *kept)
{
    if (!has_own(func))
        return;
    DtArena *arena = dt_arena_child(kept);
    lay_out(func, arena);
    dt_arena_free(arena);
}
