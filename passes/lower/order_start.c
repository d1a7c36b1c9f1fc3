/* SPDX-License-Identifier: Apache-2.0 */
/* Overlaps exchanges between ranks with computation: starts them as soon as their operand is
 * computed, and waits for them before their first reader.
 *
 *   before                                     after
 *     %3 = fused(..)      term of a sum          %3 = fused(..)
 *     %4 = dot(..)                               %5 = start all_reduce(%3)
 *     %5 = all_reduce(%3)                        %4 = dot(..)
 *     %6 = fused(%5, ..)                         %7 = done(%5)
 *                                                %6 = fused(%7, ..)
 *
 * Exchanges whose result is no longer than their operand move up: sums, and all_to_all. They move
 * up as far as the function's peak of live bytes allows (order_live.c), and end before keeping
 * their operand alive would raise the peak. A gather stays in place, since its result is longer;
 * `ahead` moves it. Sums over stages of a pipeline stay too, as all stages must reach them in one
 * order. Views of a result wait for their readers. If an exchange would overlap with nothing,
 * order_fill.c looks for work.
 *
 * The end of a gather into a ring buffer is where an iteration reads it, wherever it was
 * started.
 *
 * An exchange without overlap is not started. Ranks compute the same, in the order of the ops; a
 * device with queues only waits at `done`. */
#include "passes/lower/order.h"

typedef struct Starts {
    DtFunc *func;
    DtBuilder b;
    uint16_t pipe;        /* bit of the mesh axis of pipeline stages */
    bool rings;           /* ring buffers do not have their final contents yet */
    DtOp *const *ops;     /* the ops in their old order */
    uint32_t n;
    DtOrderLive live;
    uint32_t *to;         /* by op: number of the op before which it moves */
    DT_VEC(uint32_t) open; /* ops that are started */
    uint32_t *until;      /* by such an op: the position before which its `done` must be */
    /* by value: number of the first op that reads it; n: only a result; 0: never read */
    uint32_t *first_use;
    DtValue **done;       /* by value: the result of its `done`, which its readers read instead */
    DtOp **unread;          /* by value: the view that makes it, if it waits for the view's first
                             * reader */
} Starts;

bool dt_order_exchanges(const DtOp *op)
{
    return dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->kind != DT_OP_SHARD;
}

/* Whether a device has work to do for the op; a view needs none. */
static bool works(const DtOp *op)
{
    const DtOpInfo *info = &dt_op_info[op->kind];
    return info->data != DT_DATA_VIEW && info->op_class != DT_CLASS_SOURCE &&
           op->kind != DT_OP_TURN &&
           !(op->n_out && (dt_op_is_inline(op->out[0]) || dt_type_is_ringbuf(op->out[0]->type)));
}

bool dt_order_is_beside(const DtOp *op, const DtOp *exchange)
{
    return works(op) && !(dt_order_exchanges(op) && op->mesh == exchange->mesh);
}

/* Takes the ops out of the function, so that they can be appended to it one by one in the new
 * order. */
static void take_ops(Starts *s)
{
    s->ops = s->func->ops.at;
    s->n = s->func->ops.n;
    s->func->ops.at = NULL;
    s->func->ops.n = s->func->ops.cap = 0;
}

static void give(Starts *s, DtOp *op) { DT_PUSH(s->func->module->arena, s->func->ops, op); }

/* ---- as early as the operand is there ---- */

static bool may_rise(const Starts *s, const DtOp *op)
{
    const DtOp *maker = dt_order_exchanges(op) ? op->in[0]->op : NULL;
    return maker && op->kind != DT_OP_ALL_GATHER && !(op->mesh & s->pipe) && works(maker);
}

/* Returns the bytes that become live if op number i starts early: those of its result, unless an
 * all_reduce overwrites its operand. */
static int64_t cost_of(const Starts *s, uint32_t i)
{
    const DtOp *op = s->func->ops.at[i];
    const bool over = op->kind == DT_OP_ALL_REDUCE && s->live.last[op->in[0]->id] == i &&
                      s->live.bytes[op->in[0]->id];
    return over ? 0 : s->live.bytes[op->out[0]->id];
}

/* Returns the number of the op before which op number i moves: just after the op that computes its
 * operand, or as far up as the peak of live bytes allows. Records the bytes that are live
 * longer. */
static uint32_t rise(Starts *s, uint32_t i, const uint32_t *number)
{
    const uint32_t maker = number[s->func->ops.at[i]->in[0]->id];
    const uint32_t least = s->to[maker] < maker ? s->to[maker] : maker + 1;
    const int64_t bytes = cost_of(s, i);
    uint32_t to = i;
    while (to > least && dt_order_has_room(&s->live, to - 1, to, bytes))
        to--;
    dt_order_take_room(&s->live, to, i, bytes);
    return to;
}

/* Moves each op before op number s->to of it, in the order in which they were. */
static void give_ordered(Starts *s)
{
    DtArena *arena = s->func->module->arena;
    take_ops(s);
    uint32_t *first = DT_NEW_ARRAY(arena, uint32_t, s->n + 1),
             *next = DT_NEW_ARRAY(arena, uint32_t, s->n + 1);
    for (uint32_t i = s->n; i-- > 0;)
        if (s->to[i] < i)
            next[i] = first[s->to[i]], first[s->to[i]] = i + 1;
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t k = first[i]; k; k = next[k - 1])
            give(s, s->ops[k - 1]);
        if (s->to[i] == i)
            give(s, s->ops[i]);
    }
}

uint32_t *dt_order_numbers(DtArena *arena, const DtFunc *func)
{
    uint32_t *number = DT_NEW_ARRAY(arena, uint32_t, func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            number[func->ops.at[i]->out[k]->id] = i;
    return number;
}

static void raise_starts(Starts *s)
{
    const uint32_t n = s->func->ops.n, *number = dt_order_numbers(s->func->module->arena, s->func);
    bool any = false;
    s->to = DT_NEW_ARRAY(s->func->module->arena, uint32_t, n + 1);
    s->live = dt_order_live(s->func->module->arena, s->func);
    for (uint32_t i = 0; i < n; i++) {
        s->to[i] = may_rise(s, s->func->ops.at[i]) ? rise(s, i, number) : i;
        any = any || s->to[i] < i;
    }
    if (any)
        give_ordered(s);
}

/* ---- as late as the result is read ---- */

bool dt_order_is_view(const DtOp *op)
{
    return dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in == 1 && op->n_out == 1 &&
           op->kind != DT_OP_DONE && op->kind != DT_OP_RINGBUF_GET &&
           op->kind != DT_OP_RINGBUF_TURN;
}

static void find_uses(Starts *s)
{
    DtArena *arena = s->func->module->arena;
    s->first_use = DT_NEW_ARRAY(arena, uint32_t, s->func->n_values + 1);
    s->done = DT_NEW_ARRAY(arena, DtValue *, s->func->n_values + 1);
    s->unread = DT_NEW_ARRAY(arena, DtOp *, s->func->n_values + 1);
    for (uint32_t i = 0; i < s->func->results.n; i++)
        s->first_use[s->func->results.at[i]->id] = s->n;
    for (uint32_t i = s->n; i-- > 0;)
        for (uint32_t k = 0; k < s->ops[i]->n_in; k++) {
            uint32_t *first = &s->first_use[s->ops[i]->in[k]->id];
            const uint32_t use =
                dt_order_is_view(s->ops[i]) ? s->first_use[s->ops[i]->out[0]->id] : i;
            *first = *first && (!use || *first < use) ? *first : use;
        }
}

/* Returns the bytes that are live longer if op number i becomes asynchronous: those of its operand,
 * unless this op is not the last reader or an all_reduce overwrites it. */
static int64_t held_by(const Starts *s, uint32_t i)
{
    const DtOp *op = s->ops[i];
    const DtValue *from = dt_op_viewed(op->in[0]);
    const bool over = op->kind == DT_OP_ALL_REDUCE && from == op->in[0];
    return s->live.last[from->id] == i && !over ? s->live.bytes[from->id] : 0;
}

/* Whether the exchange op becomes asynchronous: an op of another queue can run at the same time,
 * before the first reader of its result and before its operand would raise the peak of live bytes.
 * Sets s->until to the position for its `done`. */
static bool goes_on(Starts *s, uint32_t at)
{
    const DtOp *op = s->ops[at];
    const uint32_t use = s->first_use[op->out[0]->id];
    const int64_t bytes = held_by(s, at);
    bool any = false;
    uint32_t until = at + 1;
    for (; until < use && dt_order_has_room(&s->live, until, until + 1, bytes); until++)
        any = any || dt_order_is_beside(s->ops[until], op);
    if (any)
        dt_order_take_room(&s->live, at + 1, until, bytes);
    s->until[at] = until;
    return any;
}

static bool is_open(const Starts *s, const DtValue *value)
{
    const DtOp *op = value->op;
    return op && (dt_op_is_started(value) || (s->rings && op->kind == DT_OP_RINGBUF_GET)) &&
           !s->done[value->id];
}

/* Whether the asynchronous value is completed after its iteration (order_carry.c), or after its
 * piece of a pipeline (order_late.c), so that it gets no `done` here. */
static bool is_carried(const DtFunc *func, const DtValue *value)
{
    if (func->kind == DT_FUNC_ENTRY && func->module->pipeline && dt_op_late(value))
        return true;
    const DtOp *from = value->op && value->op->starts ? value->op->in[0]->op : NULL;
    return from &&
           (from->kind == DT_OP_RINGBUF_GET || (value->op->late && func->kind == DT_FUNC_BODY));
}

/* Returns what a reader of the value reads: the result of a `done`, which is appended if the value
 * is in flight; a view that waited for a reader is appended too. */
static DtValue *read_done(Starts *s, DtValue *value)
{
    DtOp *op = value->op;
    if (s->unread[value->id]) {
        s->unread[value->id] = NULL;
        op->in[0] = read_done(s, op->in[0]);
        give(s, op);
    }
    if (!is_open(s, value))
        return op && s->done[value->id] ? s->done[value->id] : value;
    s->b.span = op->span, s->b.path = op->path;
    return s->done[value->id] = dt_graph_done(&s->b, value);
}

/* Emits the `done` of every exchange that must be done before op number i. */
static void finish(Starts *s, uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->open.n; k++) {
        const uint32_t at = s->open.at[k];
        if (s->until[at] == i)
            read_done(s, s->ops[at]->out[0]);
        else
            s->open.at[n++] = at;
    }
    s->open.n = n;
}

static void write_starts(Starts *s)
{
    s->live = dt_order_live(s->func->module->arena, s->func);
    take_ops(s);
    s->until = DT_NEW_ARRAY(s->func->module->arena, uint32_t, s->n + 1);
    find_uses(s);
    for (uint32_t i = 0; i < s->n; i++) {
        DtOp *op = s->ops[i];
        finish(s, i);
        if (dt_order_is_view(op) && (is_open(s, op->in[0]) || s->unread[op->in[0]->id])) {
            s->unread[op->out[0]->id] = op;
            continue;
        }
        const bool waits = op->kind != DT_OP_RINGBUF_PUT && op->kind != DT_OP_DONE && !op->starts;
        for (uint32_t k = 0; k < op->n_in && waits; k++)
            op->in[k] = read_done(s, op->in[k]);
        if (!op->starts && dt_order_exchanges(op) && goes_on(s, i)) {
            op->starts = true;
            DT_PUSH(s->func->module->arena, s->open, i);
        }
        give(s, op);
    }
    for (uint32_t i = 0; i < s->func->results.n; i++)
        if (!is_carried(s->func, s->func->results.at[i]))
            s->func->results.at[i] = read_done(s, s->func->results.at[i]);
}

/* ---- functions ---- */

static bool has_any(const DtFunc *func, bool rings)
{
    bool any = false;
    for (uint32_t i = 0; !any && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        any = dt_order_exchanges(op) || (rings && op->kind == DT_OP_RINGBUF_GET);
        for (uint32_t k = 0; !any && k < op->n_out; k++)
            any = dt_op_is_started(op->out[k]);
    }
    return any && func->kind != DT_FUNC_KERNEL;
}

/* Whether some function of the module puts asynchronous results of gathers into ring buffers. */
static bool starts_rings(const DtModule *module)
{
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; k < module->funcs.at[i]->ops.n; k++) {
            const DtOp *op = module->funcs.at[i]->ops.at[k];
            if (op->kind == DT_OP_RINGBUF_PUT && op->in[1]->op && op->in[1]->op->starts)
                return true;
        }
    return false;
}

static void begin(Starts *s, DtFunc *func, bool rings)
{
    const DtModule *module = func->module;
    *s = (Starts){.func = func, .b = {.func = func}, .rings = rings,
                  .pipe = module->pipeline ? (uint16_t)(1u << module->pipeline->mesh) : 0};
}

void dt_order_starts(DtModule *module)
{
    const bool rings = starts_rings(module);
    Starts starts;
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        begin(&starts, module->funcs.at[i], rings);
        if (!has_any(starts.func, rings))
            continue;
        raise_starts(&starts);
        dt_order_fill(starts.func, starts.pipe);
    }
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (module->entries.at[i].kind == DT_ENTRY_GRAD)
            dt_order_late(&module->entries.at[i]);
    dt_order_carry(module);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        begin(&starts, module->funcs.at[i], rings);
        if (!has_any(starts.func, rings))
            continue;
        write_starts(&starts);
        dt_graph_renumber(starts.func);
    }
}
