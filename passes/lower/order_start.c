/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks exchange goes on beside other work: it is started as early as its operand is there, and done where its
 * result is read first.
 *
 *   before                                     after
 *     %3 = fused(..)      term of a sum          %3 = fused(..)
 *     %4 = dot(..)                               %5 = start all_reduce(%3)
 *     %5 = all_reduce(%3)                        %4 = dot(..)
 *     %6 = fused(%5, ..)                         %7 = done(%5)
 *                                                %6 = fused(%7, ..)
 *
 * Moved up is what takes no more memory than its operand: sums, blocks that change places. A gather stays where it is,
 * since its result is longer: how far ahead of its use it is done says `ahead`. Sums over stages of a pipeline stay,
 * too, as all stages come to them in one order. Views of a result wait for their readers.
 *
 * A gather into a ring buffer is done where an iteration reads it, wherever it was started.
 *
 * Where nothing runs between start and end it is no start. In the order of the ops ranks do what they did; a device
 * with queues waits at `done` alone. */
#include "passes/lower/order.h"

typedef struct Starts {
    DtFunc *func;
    DtBuilder b;
    uint16_t pipe;        /* bit of the mesh axis whose coordinate is the stage */
    bool rings;           /* what lies in ring buffers is not done yet */
    DtOp *const *ops;     /* as they were */
    uint32_t n;
    bool *placed;         /* by op */
    DT_VEC(uint32_t) rising; /* ops that wait for an operand alone */
    uint32_t *first_use;  /* by value: number of the first op that reads it; n: a result alone; 0: nobody does */
    DtValue **done;       /* by value: what its readers read instead */
    DtOp **late;          /* by value: the view that makes it and still waits for a reader */
} Starts;

static bool exchanges(const DtOp *op)
{
    return dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->kind != DT_OP_SHARD;
}

/* Whether a device does something for the op. */
static bool works(const DtOp *op)
{
    const DtOpInfo *info = &dt_op_info[op->kind];
    return info->data != DT_DATA_VIEW && info->op_class != DT_CLASS_SOURCE && op->kind != DT_OP_TURN &&
           !(op->n_out && (dt_op_is_inline(op->out[0]) || dt_type_is_ringbuf(op->out[0]->type)));
}

/* The function's ops are s->ops now, and it has none until they are given back. */
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
    const DtOp *maker = exchanges(op) ? op->in[0]->op : NULL;
    return maker && op->kind != DT_OP_ALL_GATHER && !(op->mesh & s->pipe) && works(maker);
}

/* The op, and what waits for it alone. */
static void give_with(Starts *s, uint32_t i)
{
    s->placed[i] = true;
    give(s, s->ops[i]);
    for (uint32_t k = 0; k < s->rising.n; k++)
        if (!s->placed[s->rising.at[k]] && s->ops[s->rising.at[k]]->in[0]->op == s->ops[i])
            give_with(s, s->rising.at[k]);
}

static void raise_starts(Starts *s)
{
    for (uint32_t i = 0; i < s->func->ops.n; i++)
        if (may_rise(s, s->func->ops.at[i]))
            DT_PUSH(s->func->module->arena, s->rising, i);
    if (s->rising.n == 0)
        return;
    take_ops(s);
    s->placed = DT_NEW_ARRAY(s->func->module->arena, bool, s->n + 1);
    for (uint32_t i = 0; i < s->n; i++)
        if (!s->placed[i])
            give_with(s, i);
}

/* ---- as late as the result is read ---- */

/* Whether the op only says where its operand lies: such a one of what is not done waits for a reader. */
static bool is_view(const DtOp *op)
{
    return dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in == 1 && op->n_out == 1 && op->kind != DT_OP_DONE &&
           op->kind != DT_OP_RINGBUF_GET && op->kind != DT_OP_RINGBUF_TURN;
}

static void find_uses(Starts *s)
{
    DtArena *arena = s->func->module->arena;
    s->first_use = DT_NEW_ARRAY(arena, uint32_t, s->func->n_values + 1);
    s->done = DT_NEW_ARRAY(arena, DtValue *, s->func->n_values + 1);
    s->late = DT_NEW_ARRAY(arena, DtOp *, s->func->n_values + 1);
    for (uint32_t i = 0; i < s->func->results.n; i++)
        s->first_use[s->func->results.at[i]->id] = s->n;
    for (uint32_t i = s->n; i-- > 0;)
        for (uint32_t k = 0; k < s->ops[i]->n_in; k++) {
            uint32_t *first = &s->first_use[s->ops[i]->in[k]->id];
            const uint32_t use = is_view(s->ops[i]) ? s->first_use[s->ops[i]->out[0]->id] : i;
            *first = *first && (!use || *first < use) ? *first : use;
        }
}

/* Whether something runs between the op and the first one that reads its result, which is not in the same queue. */
static bool has_beside(const Starts *s, uint32_t at)
{
    const DtOp *op = s->ops[at];
    bool any = false;
    for (uint32_t i = at + 1; !any && i < s->first_use[op->out[0]->id]; i++)
        any = works(s->ops[i]) && !(exchanges(s->ops[i]) && s->ops[i]->mesh == op->mesh);
    return any;
}

static bool is_open(const Starts *s, const DtValue *value)
{
    const DtOp *op = value->op;
    return op && (op->starts || (s->rings && op->kind == DT_OP_RINGBUF_GET)) && !s->done[value->id];
}

/* What a reader reads: the value, or what a `done` in front of it makes of it; behind that the views of it. */
static DtValue *read_done(Starts *s, DtValue *value)
{
    DtOp *op = value->op;
    if (s->late[value->id]) {
        s->late[value->id] = NULL;
        op->in[0] = read_done(s, op->in[0]);
        give(s, op);
    }
    if (!is_open(s, value))
        return op && s->done[value->id] ? s->done[value->id] : value;
    s->b.span = op->span, s->b.path = op->path;
    return s->done[value->id] = dt_graph_done(&s->b, value);
}

static void write_starts(Starts *s)
{
    take_ops(s);
    find_uses(s);
    for (uint32_t i = 0; i < s->n; i++) {
        DtOp *op = s->ops[i];
        if (is_view(op) && (is_open(s, op->in[0]) || s->late[op->in[0]->id])) {
            s->late[op->out[0]->id] = op;
            continue;
        }
        for (uint32_t k = 0; k < op->n_in && op->kind != DT_OP_RINGBUF_PUT; k++)
            op->in[k] = read_done(s, op->in[k]);
        op->starts = op->starts || (exchanges(op) && has_beside(s, i));
        give(s, op);
    }
    for (uint32_t i = 0; i < s->func->results.n; i++)
        s->func->results.at[i] = read_done(s, s->func->results.at[i]);
}

/* ---- functions ---- */

static bool has_any(const DtFunc *func, bool rings)
{
    bool any = false;
    for (uint32_t i = 0; !any && i < func->ops.n; i++)
        any = exchanges(func->ops.at[i]) || (rings && func->ops.at[i]->kind == DT_OP_RINGBUF_GET);
    return any && func->kind != DT_FUNC_KERNEL;
}

/* Whether gathers into ring buffers are started. */
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

void dt_order_starts(DtModule *module)
{
    const bool rings = starts_rings(module);
    for (uint32_t i = 0; i < module->funcs.n; i++) {
        DtFunc *func = module->funcs.at[i];
        Starts starts = {.func = func, .b = {.func = func}, .rings = rings,
                         .pipe = module->pipeline ? (uint16_t)(1u << module->pipeline->mesh) : 0};
        if (!has_any(func, rings))
            continue;
        raise_starts(&starts);
        write_starts(&starts);
        dt_graph_renumber(func);
    }
}
