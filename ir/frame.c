/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the ranges of a function's frame with their live ranges, and assigns their offsets. */
#include "ir/frame.h"

#include "ir/view.h"

int64_t dt_frame_aligned(int64_t bytes)
{
    return (bytes + DT_FRAME_ALIGN - 1) / DT_FRAME_ALIGN * DT_FRAME_ALIGN;
}

int64_t dt_frame_bytes(const DtValue *value, const DtMesh *mesh)
{
    const DtView view = dt_view_own(value, mesh, 0);
    return dt_view_span(&view) * (int64_t)dt_dtype_size(view.dtype);
}

bool dt_frame_has(const DtOp *op)
{
    return op->func && (op->kind == DT_OP_LOOP || op->kind == DT_OP_WHEN ||
                        (op->kind == DT_OP_CALL && !op->func->fused));
}

/* ---- whose memory a value is in ---- */

/* Records the memory in which the operands of op are made, possibly through renames. A rename that
 * holds its operand's memory, and is no part of a larger value, is the home of that memory. */
static void add_held(const DtOp *op, const DtValue **home)
{
    for (uint32_t k = 0; op->holds && k < op->n_in; k++) {
        const DtValue *value = op->in[k],
                      *to = op->kind == DT_OP_RINGBUF_PUT ? op->in[0] : op->out[0];
        const bool renames = op->kind == DT_OP_CONCAT || op->kind == DT_OP_RELABEL;
        while (renames && value->op && value->op->kind == DT_OP_RELABEL)
            value = value->op->in[0];
        if (!op->holds[k] || home[value->id])
            continue;
        home[value->id] = to;
        if (op->kind == DT_OP_RELABEL)
            home[to->id] = to;
    }
}

/* Returns the value whose memory result number i of op shares; NULL: it shares none. */
static const DtValue *home_of(const DtOp *op, uint32_t i)
{
    const bool is_ringbuf = dt_type_is_ringbuf(op->out[i]->type),
               is_view = op->n_in && dt_op_info[op->kind].data == DT_DATA_VIEW && !op->copies;
    if (op->out[i]->over && (!is_view || op->kind == DT_OP_DONE))
        return op->out[i]->over;
    switch (op->kind) {
    case DT_OP_WHEN: return op->in[i + (op->ranges ? 1 : 0)];
    case DT_OP_LOOP: return i < op->loop->n_carried && is_ringbuf ? op->in[i] : NULL;
    case DT_OP_DONE:
        return op->in[0]->op && op->in[0]->op->kind == DT_OP_RINGBUF_GET ? op->in[0] : NULL;
    case DT_OP_RINGBUF:
    case DT_OP_RINGBUF_PUT: return op->n_in ? op->in[0] : NULL;
    default: return is_view ? op->in[0] : NULL;
    }
}

/* Returns, by value id, the value whose memory it shares, or is a part of; NULL: it has memory of
 * its own, or none in the function. */
static const DtValue **find_homes(const DtFunc *func, DtArena *arena)
{
    const DtValue **home = DT_NEW_ARRAY(arena, const DtValue *, (size_t)func->n_values + 1);
    for (uint32_t i = func->ops.n; i-- > 0;) { /* a joined value may be part of another one */
        const DtOp *op = func->ops.at[i];
        add_held(op, home);
        if (op->kind == DT_OP_DONE && op->in[0]->op && op->in[0]->op->kind != DT_OP_RINGBUF_GET)
            home[op->in[0]->id] = op->out[0];
    }
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
            const DtValue *value = func->ops.at[i]->out[k];
            if (value->at || home[value->id] == value)
                home[value->id] = NULL;
            else if (!home[value->id])
                home[value->id] = home_of(func->ops.at[i], k);
        }
    return home;
}

/* ---- in use ---- */

/* A function while its ops are visited. */
typedef struct Uses {
    /* the caller in whose frame it is, and the call; NULL: the function has its own frame */
    const struct Uses *caller;
    const DtOp *call;
    const DtFunc *func;
    const DtEntryPoint *entry; /* the entry whose function it is, or NULL */
    const DtValue **home;      /* by value id: the value whose memory it shares, see find_homes */
    uint32_t *range;           /* by value id: 1 + number of its range */
    DtFrameRanges *ranges;
    DtArena *arena;
} Uses;

static void use(const Uses *u, const DtValue *value, uint32_t position);

/* For a value of a function that uses its caller's frame: records that the caller's values for
 * which it stands, as input or as result, are in use at this position. */
static void use_outside(const Uses *u, const DtValue *value, uint32_t position)
{
    if (!value->op)
        use(u->caller, u->call->in[value->index], position);
    for (uint32_t i = 0; value->op && i < u->func->results.n; i++)
        if (u->func->results.at[i] == value)
            use(u->caller, u->call->out[i], position);
}

static void use(const Uses *u, const DtValue *value, uint32_t position)
{
    while (u->home[value->id])
        value = u->home[value->id];
    if (!u->range[value->id]) {
        if (u->caller)
            use_outside(u, value, position);
        return;
    }
    DtFrameRange *range = &u->ranges->at[u->range[value->id] - 1];
    range->first = position < range->first ? position : range->first;
    range->last = position > range->last ? position : range->last;
}

/* Records that a `done` uses the started op's operand, and the ring buffer's slots that other
 * iterations wrote. */
static void use_started(const Uses *u, const DtOp *done, uint32_t position)
{
    const DtOp *by = done->in[0]->op;
    if (by && by->starts)
        use(u, by->in[0], position);
    for (uint32_t i = 0; by && by->kind == DT_OP_LOOP && i < by->loop->n_carried; i++)
        if (dt_type_is_ringbuf(by->out[i]->type))
            use(u, by->out[i], position);
}

static const DtEntryPoint *entry_of(const DtFunc *func)
{
    for (uint32_t i = 0; func->kind == DT_FUNC_ENTRY && i < func->module->entries.n; i++)
        if (func->module->entries.at[i].func == func)
            return &func->module->entries.at[i];
    return NULL;
}

/* Whether the value is the ring buffer of an entry that runs once per micro-batch: it then keeps
 * its memory in all of them. */
static bool is_always_there(const Uses *u, const DtValue *value)
{
    const DtMesh *mesh = &u->func->module->mesh;
    return u->entry && dt_type_is_ringbuf(value->type) && mesh->n && mesh->axes[0].is_time &&
           mesh->axes[0].size > 1 &&
           (u->entry->kind == DT_ENTRY_GRAD || u->entry->kind == DT_ENTRY_EVAL);
}

static Uses begin(const DtFunc *func, DtFrameRanges *ranges, DtArena *arena)
{
    const size_t n = (size_t)func->n_values + 1;
    Uses u = {.func = func, .entry = entry_of(func), .ranges = ranges, .arena = arena};
    u.range = DT_NEW_ARRAY(arena, uint32_t, n);
    u.home = find_homes(func, arena);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
            DtValue *value = func->ops.at[i]->out[k];
            if (!value->at)
                continue;
            DT_PUSH(arena, *ranges, ((DtFrameRange){dt_frame_bytes(value, &func->module->mesh),
                                                    value->at - 1, UINT32_MAX, 0, value, NULL}));
            u.range[value->id] = ranges->n;
            if (is_always_there(&u, value))
                use(&u, value, 0);
        }
    return u;
}

static uint32_t use_all(const Uses *u, uint32_t position);

/* Records uses by op and returns the position after it. Positions are the moments at which ranges
 * may begin or end. An op has one position; a loop has one for each carried value, whose initial
 * value is copied at that moment, and one more; a call of a function in the caller's frame has all
 * positions of that function. */
static uint32_t use_by(const Uses *u, DtOp *op, uint32_t position)
{
    const uint32_t n_carried = op->kind == DT_OP_LOOP ? op->loop->n_carried : 0,
                   last = position + n_carried;
    if (op->kind == DT_OP_CALL && dt_frame_has(op) && !op->func->frame) {
        Uses inner = begin(op->func, u->ranges, u->arena);
        inner.caller = u;
        inner.call = op;
        const uint32_t end = use_all(&inner, position);
        for (uint32_t k = 0; k < op->n_out; k++)
            use(u, op->out[k], end);
        return end + 1;
    }
    for (uint32_t k = 0; k < op->n_in; k++)
        use(u, op->in[k], k < n_carried ? position + k : last);
    for (uint32_t k = 0; k < op->n_out; k++)
        use(u, op->out[k], k < n_carried ? position + k : last);
    for (uint32_t k = 0; k < n_carried; k++)
        use(u, op->out[k], last);
    if (op->kind == DT_OP_DONE)
        use_started(u, op, position);
    if (dt_frame_has(op) && op->func->frame)
        DT_PUSH(u->arena, *u->ranges, ((DtFrameRange){op->func->frame, op->base, last, last, NULL,
                                                      op}));
    return last + 1;
}

static uint32_t use_all(const Uses *u, uint32_t position)
{
    for (uint32_t i = 0; i < u->func->ops.n; i++)
        position = use_by(u, u->func->ops.at[i], position);
    return position;
}

DtFrameRanges dt_frame_ranges(const DtFunc *func, DtArena *arena)
{
    DtFrameRanges ranges = {0};
    const Uses u = begin(func, &ranges, arena);
    const uint32_t end = use_all(&u, 0);
    /* values that an entry returns only to its caller are read at the end */
    for (uint32_t i = 0; i < func->results.n; i++) {
        use(&u, func->results.at[i], end);
        if (u.entry && i < u.entry->results.n && u.entry->results.at[i].accumulate)
            use(&u, func->results.at[i], 0);
    }
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            if (is_always_there(&u, func->ops.at[i]->out[k]))
                use(&u, func->ops.at[i]->out[k], end);
    return ranges;
}

/* ---- offsets ---- */

/* Inserts range number `which` into the list of n ranges that is sorted by offset. */
static void insert(uint32_t *order, uint32_t n, const DtFrameRange *ranges, uint32_t which)
{
    for (; n > 0 && ranges[order[n - 1]].offset > ranges[which].offset; n--)
        order[n] = order[n - 1];
    order[n] = which;
}

/* Returns the lowest offset at which the range overlaps none of the n ranges before it that are
 * live at the same time. */
static int64_t lowest(const uint32_t *order, uint32_t n, const DtFrameRange *ranges,
                      const DtFrameRange *range)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        const DtFrameRange *other = &ranges[order[i]];
        const int64_t behind = dt_frame_aligned(other->offset + other->bytes);
        if (other->offset >= offset + range->bytes)
            break;
        if (other->first <= range->last && range->first <= other->last && behind > offset)
            offset = behind;
    }
    return offset;
}

int64_t dt_frame_fit(DtArena *arena, DtFrameRange *ranges, uint32_t n, uint32_t from)
{
    uint32_t *order = DT_NEW_ARRAY(arena, uint32_t, (size_t)n + 1); /* by offset */
    int64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i >= from)
            ranges[i].offset = lowest(order, i, ranges, &ranges[i]);
        insert(order, i, ranges, i);
        const int64_t behind = dt_frame_aligned(ranges[i].offset + ranges[i].bytes);
        end = behind > end ? behind : end;
    }
    return end;
}
