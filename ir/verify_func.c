/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier's rules for functions: what callers see of one, then its body op by op; and that
 * none calls itself. */
#include "ir/verify_internal.h"

#include <string.h>

/* ---- functions ---- */

bool dt_verify_has_func(const DtVerify *v, const DtFunc *func)
{
    return dt_map_find(&v->funcs, (const char *)&func, sizeof func) != NULL;
}

static void check_params(DtVerify *v, const DtFunc *func)
{
    for (uint32_t i = 0; i < func->params.n; i++) {
        const DtFormalParam *param = &func->params.at[i];
        const DtType *type = func->inputs.at[func->n_args + i]->type;
        dt_verify_path(v, param->span, param->path, param->pattern, type, param->n_loops);
        dt_verify_init(v, param->span, &param->init);
        if (param->written_rank > DT_MAX_RANK)
            dt_verify_fail(v, param->span, "parameter %u has a written rank of %u", i,
                           param->written_rank);
    }
}

/* Whether both types have the same size and layout; pending sums over ranks may differ. */
static bool lie_alike(const DtType *a, const DtType *b)
{
    return dt_type_plain(a->dtype, a->rank, a->axes) == dt_type_plain(b->dtype, b->rank, b->axes);
}

bool dt_verify_may_be_stored(const DtType *value, const DtType *store)
{
    return !(value->partial && value->pending != DT_REDUCE_SUM) && lie_alike(value, store);
}

static void check_writes(DtVerify *v, const DtFunc *func)
{
    bool *written = DT_NEW_ARRAY(v->scratch, bool, func->params.n + 1);
    for (uint32_t i = 0; i < func->writes.n; i++) {
        uint32_t p = func->writes.at[i];
        if (p >= func->params.n || !func->params.at[p].is_state) {
            dt_verify_fail(v, func->span, "write %u does not go to a state of the function", i);
            continue;
        }
        if (written[p])
            dt_verify_fail(v, func->span, "state %u is written twice", p);
        written[p] = true;
        if (!dt_verify_may_be_stored(func->results.at[func->n_returns + i]->type,
                                     func->inputs.at[func->n_args + p]->type))
            dt_verify_fail(v, func->span, "write %u has another type than its state", i);
    }
}

static bool check_counts(DtVerify *v, const DtFunc *func)
{
    if (func->inputs.n != (uint64_t)func->n_args + func->params.n)
        return dt_verify_fail(v, func->span,
                              "the function has %u inputs, not %u arguments and %u parameters",
                              func->inputs.n, func->n_args, func->params.n);
    if (func->results.n != (uint64_t)func->n_returns + func->writes.n)
        return dt_verify_fail(v, func->span,
                              "the function has %u results, not %u returned and %u written",
                              func->results.n, func->n_returns, func->writes.n);
    if (func->kind == DT_FUNC_ENTRY && (func->inputs.n || func->writes.n))
        return dt_verify_fail(v, func->span, "an entry function has inputs or writes of its own");
    return true;
}

static bool check_stream(DtVerify *v, const DtFunc *func)
{
    const DtStream *s = func->stream;
    const DtFunc *part = s->part, *merge = s->merge, *finish = s->finish;
    if (!dt_verify_name(v, func->span, "the axis of a stream", s->axis))
        return false;
    if (!part)
        return (!merge && !finish && !s->given.n && !s->takes.n) ||
               dt_verify_fail(v, func->span, "a stream has no part but more than an axis");
    if (!merge || !dt_verify_has_func(v, part) || !dt_verify_has_func(v, merge) ||
        (finish && !dt_verify_has_func(v, finish)))
        return dt_verify_fail(v, func->span,
                              "what a stream is made of are no functions of the module");
    const uint32_t n = part->results.n;
    bool fits = s->product <= func->inputs.n && part->inputs.n == func->inputs.n &&
                merge->inputs.n == 2 * n &&
                merge->results.n == n && s->takes.n == func->results.n &&
                (finish ? finish->inputs.n == n + s->given.n : !s->given.n);
    for (uint32_t i = 0; i < s->given.n; i++)
        fits = fits && s->given.at[i] < func->inputs.n;
    for (uint32_t i = 0; i < s->takes.n; i++)
        fits =
            fits && (s->takes.at[i] < 0 ? -1 - (int64_t)s->takes.at[i] < n
                                        : finish && (uint32_t)s->takes.at[i] < finish->results.n);
    return fits || dt_verify_fail(v, func->span, "the stream of `%s` does not fit it", func->name);
}

void dt_verify_interface(DtVerify *v, const DtFunc *func)
{
    const DtFunc *links[] = {func->fwd, func->bwd, func->bwd_x, func->bwd_w};
    if ((unsigned)func->kind > DT_FUNC_BRANCH)
        dt_verify_fail(v, func->span, "the function is of no known kind");
    if (func->library)
        dt_verify_name(v, func->span, "the library function", func->library);
    for (uint32_t i = 0; i < DT_COUNT(links); i++) {
        if (links[i] && !dt_verify_has_func(v, links[i]))
            dt_verify_fail(v, func->span, "a derivative is a function outside the module");
    }
    if (func->fused && !dt_verify_has_func(v, func->fused))
        dt_verify_fail(v, func->span, "its fused form is a function outside the module");
    if (func->gradient && !dt_verify_has_func(v, func->gradient->func))
        dt_verify_fail(v, func->span, "its gradient is a function outside the module");
    if (!check_counts(v, func))
        return;
    bool ok = !func->stream || check_stream(v, func);
    for (uint32_t i = 0; i < func->inputs.n + func->results.n; i++) {
        bool input = i < func->inputs.n;
        const DtValue *value = input ? func->inputs.at[i] : func->results.at[i - func->inputs.n];
        if (value)
            ok = dt_verify_type(v, func->span, input ? "an input" : "a result", value->type) && ok;
        else
            ok = dt_verify_fail(v, func->span, "%s is missing", input ? "an input" : "a result");
    }
    if (!ok)
        return;
    check_params(v, func);
    check_writes(v, func);
}

static bool alike(const DtValue *x, const DtValue *y)
{
    bool same = x->type->dtype == y->type->dtype && x->type->rank == y->type->rank;
    for (uint32_t i = 0; same && i < x->type->rank; i++) {
        const int at = dt_type_find(y->type, x->type->axes[i].name);
        same = at >= 0 && y->type->axes[at].extent == x->type->axes[i].extent;
    }
    return same;
}

/* Checks that all functions of a stream give the same element types to parts and results; only
 * func's own types say how ranks split them. The interfaces of all functions are valid. */
static void check_stream_types(DtVerify *v, const DtFunc *func)
{
    const DtStream *s = func->stream;
    const DtFunc *part = s->part, *merge = s->merge, *finish = s->finish;
    const uint32_t n = part->results.n;
    bool ok = true;
    for (uint32_t i = 0; i < part->inputs.n; i++)
        ok = ok && alike(part->inputs.at[i], func->inputs.at[i]);
    for (uint32_t i = 0; i < 3 * n; i++)
        ok = ok &&
             alike(i < n ? merge->results.at[i] : merge->inputs.at[i - n], part->results.at[i % n]);
    for (uint32_t i = 0; finish && i < finish->inputs.n; i++)
        ok = ok && alike(finish->inputs.at[i],
                         i < n ? part->results.at[i] : func->inputs.at[s->given.at[i - n]]);
    for (uint32_t i = 0; i < s->takes.n; i++) {
        const int32_t from = s->takes.at[i];
        ok = ok && alike(func->results.at[i],
                         from < 0 ? part->results.at[-1 - from] : finish->results.at[from]);
    }
    if (!ok)
        dt_verify_fail(v, func->span, "the stream of `%s` has parts or results of other types",
                       func->name);
}

/* Checks the stated gradient of func, a function of the module whose interface is valid. */
static void check_gradient(DtVerify *v, const DtFunc *func)
{
    const DtCustomGradient *stated = func->gradient;
    const DtFunc *gradient = stated->func;
    uint32_t at = 0, to = 0;
    bool ok = gradient->params.n == 0 && gradient->kind == DT_FUNC_FN && func->kind == DT_FUNC_FN;
    for (uint32_t i = 0; i < func->results.n; i++)
        if (dt_dtype_is_float(func->results.at[i]->type->dtype))
            ok = ok && at < gradient->inputs.n &&
                 gradient->inputs.at[at++]->type == func->results.at[i]->type;
    for (uint32_t i = 0; i < stated->captured.n; i++) {
        const DtValue *value = stated->captured.at[i];
        if (value->id >= func->n_values || v->values[value->id] != value)
            dt_verify_fail(v, func->span, "the gradient reads what is no value of the function");
        ok = ok && at < gradient->inputs.n && gradient->inputs.at[at++]->type == value->type;
    }
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (dt_dtype_is_float(func->inputs.at[i]->type->dtype))
            ok = ok && to < gradient->results.n &&
                 gradient->results.at[to++]->type == func->inputs.at[i]->type;
    if (!ok || at != gradient->inputs.n || to != gradient->results.n)
        dt_verify_fail(v, func->span, "`%s` does not fit as the gradient of `%s`", gradient->name,
                       func->name);
}

/* ---- ring buffers ---- */

static bool has_ringbuf(const DtOp *op)
{
    bool has = false;
    for (uint32_t i = 0; !has && i < op->n_out; i++)
        has = dt_type_is_ringbuf(op->out[i]->type);
    return has;
}

/* Returns the ring buffer that a value was read from, directly or through views; NULL: none. */
static const DtValue *ringbuf_of(const DtValue *value)
{
    while (value->op && value->op->n_in == 1 && value->op->in && value->op->in[0] &&
           dt_op_info[value->op->kind].data == DT_DATA_VIEW && value->op->kind != DT_OP_RINGBUF_GET)
        value = value->op->in[0];
    return value->op && value->op->kind == DT_OP_RINGBUF_GET ? value->op->in[0] : NULL;
}

/* The same for a ring buffer that an entry reads from its store. */
static void check_found(DtVerify *v, const DtFunc *func, uint32_t from)
{
    const DtOp *op = func->ops.at[from];
    for (uint32_t i = 0; i < from; i++)
        if (func->ops.at[i] && func->ops.at[i]->store == op->store)
            dt_verify_fail(v, op->span, "the ring buffer `%s` is read twice", op->store->path);
}

/* A ring buffer is one piece of memory. So after a turn or put neither the old buffer nor a value
 * read from it before may be used. */
static void check_ringbufs(DtVerify *v, const DtFunc *func)
{
    bool *gone = DT_NEW_ARRAY(v->scratch, bool, (size_t)func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op && op->store && op->store->kind == DT_STORE_RINGBUF)
            check_found(v, func, i);
        for (uint32_t k = 0; op && op->in && k < op->n_in; k++) {
            const DtValue *in = op->in[k];
            const DtValue *ringbuf = !in || !in->type               ? NULL
                                     : dt_type_is_ringbuf(in->type) ? in
                                                                    : ringbuf_of(in);
            if (ringbuf && ringbuf->id < func->n_values && gone[ringbuf->id])
                dt_verify_fail(v, op->span,
                               "`%s` uses a ring buffer that has gone on, or what was in it",
                               dt_op_info[op->kind].text);
        }
        for (uint32_t k = 0; op && op->in && op->kind != DT_OP_RINGBUF_GET && k < op->n_in; k++) {
            const DtValue *in = op->in[k];
            if (!in || !in->type || !dt_type_is_ringbuf(in->type) || in->id >= func->n_values)
                continue;
            if (gone[in->id])
                dt_verify_fail(v, op->span, "`%s` goes on with a ring buffer twice",
                               dt_op_info[op->kind].text);
            gone[in->id] = true;
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++) {
        const DtValue *result = func->results.at[i];
        if (!dt_type_is_ringbuf(result->type) || result->id >= func->n_values)
            continue;
        if (gone[result->id])
            dt_verify_fail(v, func->span, "result %u is a ring buffer that has gone on", i);
        gone[result->id] = true;
    }
}

/* ---- asynchronous ops ---- */

static bool is_put(const DtOp *op, uint32_t operand)
{
    return op->kind == DT_OP_RINGBUF_PUT && operand == 1;
}

static bool is_result(const DtFunc *func, const DtValue *value)
{
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i] == value)
            return true;
    return false;
}

/* Whether values in ring buffers may be in flight: some op puts a started result there, which a
 * later iteration reads. */
bool dt_verify_starts_rings(const DtModule *module)
{
    for (uint32_t i = 0; i < module->funcs.n; i++)
        for (uint32_t k = 0; module->funcs.at[i] && k < module->funcs.at[i]->ops.n; k++) {
            const DtOp *op = module->funcs.at[i]->ops.at[k];
            if (op && op->kind == DT_OP_RINGBUF_PUT && op->n_in == 2 && op->in && op->in[1] &&
                op->in[1]->op && op->in[1]->op->starts &&
                !is_result(module->funcs.at[i], op->in[1]))
                return true;
        }
    return false;
}

static const DtValue *first_operand(const DtOp *op)
{
    return op && op->n_in && op->in ? op->in[0] : NULL;
}

/* Returns the ring buffer as it was before conditional ops (`when`) put values into its front slot;
 * NULL: one of them may turn it. */
static const DtValue *before_whens(const DtValue *ring)
{
    while (ring && ring->op && ring->op->kind == DT_OP_WHEN) {
        const DtOp *op = ring->op;
        const uint32_t input = op->ranges ? 1 : 0; /* skips the counter */
        for (uint32_t i = 0; op->func && i < op->func->ops.n; i++)
            if (!op->func->ops.at[i] || op->func->ops.at[i]->kind == DT_OP_RINGBUF_TURN)
                return NULL;
        ring = op->in && input < op->n_in ? op->in[input] : NULL;
    }
    return ring;
}

/* Whether a value was read from a slot of the body's ring buffer. An exchange may read it until
 * that slot becomes the front one again. */
static bool is_slot(const DtValue *value)
{
    const DtValue *ring =
        value->op && value->op->kind == DT_OP_RINGBUF_GET ? first_operand(value->op) : NULL;
    while (ring && ring->op && ring->op->kind == DT_OP_RINGBUF_PUT)
        ring = first_operand(ring->op);
    if (!ring || !ring->op || ring->op->kind != DT_OP_RINGBUF_TURN)
        return false;
    ring = before_whens(first_operand(ring->op));
    return ring && !ring->op && dt_type_is_ringbuf(ring->type) && ring->type->axes[0].extent > 1;
}

static bool is_started(const DtVerify *v, const DtValue *value)
{
    const bool lies = value->op && value->op->kind == DT_OP_RINGBUF_GET;
    return dt_op_is_started(value) || (v->starts_rings && lies);
}

static bool any_starts(const DtVerify *v, const DtFunc *func)
{
    bool any = false;
    for (uint32_t i = 0; !any && i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        any = op && (op->starts || op->kind == DT_OP_DONE ||
                     (v->starts_rings && op->kind == DT_OP_RINGBUF_GET));
        for (uint32_t k = 0; op && op->out && op->kind == DT_OP_LOOP && k < op->n_out; k++)
            any = any || (op->out[k] && dt_op_is_started(op->out[k]));
    }
    return any;
}

/* Whether the body returns a started op as a result of the loop, whose `done` completes that of all
 * iterations. Its operand must be in a slot of the ring buffer, which turns to it again only when
 * the op is done. */
static bool is_left(const DtFunc *func, const DtValue *value)
{
    if (func->kind == DT_FUNC_ENTRY && dt_op_late(value))
        return func->module->pipeline != NULL; /* done after all actions of the run */
    const DtValue *from = value->op && value->op->starts ? first_operand(value->op) : NULL;
    return func->kind == DT_FUNC_BODY && from && (value->op->late || is_slot(from));
}

/* Checks late sums: values that wait for the last micro-batch, or in slots, are terms of sums over
 * micro-batches, which no op may read before all are added. */
static void check_late(DtVerify *v, const DtFunc *func, const DtOp *op)
{
    uint32_t results = 0;
    const DtValue *out = op->out ? op->out[0] : NULL;
    if (op->kind != DT_OP_DONE || !out || !first_operand(op) ||
        !(dt_op_late(op->in[0]) || dt_graph_is_slotted_in(op->in[0])))
        return;
    for (uint32_t i = 0; i < func->results.n; i++)
        results += func->results.at[i] == out;
    if (func->kind != DT_FUNC_ENTRY || results != 1 || dt_graph_reads(func, out) != 1)
        dt_verify_fail(v, op->span, "`done` of a sum that is %s is not just a result of its entry",
                       dt_op_late(op->in[0]) ? "late" : "in slots");
}

static void check_loop(DtVerify *v, const DtOp *op)
{
    for (uint32_t i = 0; op->func && op->loop && i < op->loop->n_carried && i < op->func->results.n;
         i++) {
        const DtValue *result = op->func->results.at[i];
        if (result && result->op && result->op->starts)
            dt_verify_fail(v, op->span, "`loop` carries what is not done");
    }
}

/* Whether a started result of the loop is also put into a slot; it may be once. */
static bool is_slotted(DtVerify *v, const DtFunc *func, const DtOp *put)
{
    const DtValue *value = put->in[1];
    if (!value->op || !value->op->starts || value->op->late || !is_result(func, value) ||
        !is_left(func, value))
        return false;
    for (uint32_t i = 0; func->ops.at[i] != put; i++)
        if (func->ops.at[i] && func->ops.at[i]->in && is_put(func->ops.at[i], 1) &&
            func->ops.at[i]->n_in == 2 && func->ops.at[i]->in[1] == value)
            return dt_verify_fail(v, put->span, "`%s` of what is in a slot already",
                                  dt_op_info[put->kind].text);
    return true;
}

/* A started result is read by one `done`, put into a ring buffer, or returned to the loop around.
 * In the last case it may also be put into a ring buffer, where it waits to be added to the
 * result. */
static void check_starts(DtVerify *v, const DtFunc *func)
{
    uint32_t *taken = DT_NEW_ARRAY(v->scratch, uint32_t, (size_t)func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; op && op->in && k < op->n_in; k++) {
            const DtValue *in = op->in[k];
            if (!in || in->id >= func->n_values)
                continue;
            taken[in->id] += !(is_put(op, k) && is_slotted(v, func, op));
            const bool done = op->kind == DT_OP_DONE,
                       lies = in->op && in->op->kind == DT_OP_RINGBUF_GET;
            const bool wrong = is_started(v, in) ? !done && !is_put(op, k) : done && !lies;
            if (wrong && !(lies && op->starts && is_slot(in)))
                dt_verify_fail(v, op->span,
                               done ? "`%s` of what was not started"
                                    : "`%s` reads what is not done",
                               dt_op_info[op->kind].text);
        }
    }
    for (uint32_t i = 0; i < func->results.n; i++) {
        const DtValue *result = func->results.at[i];
        if (is_started(v, result) && !is_left(func, result))
            dt_verify_fail(v, func->span, "result %u is not done", i);
        else if (result->id < func->n_values)
            taken[result->id] += is_started(v, result);
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (op && op->kind == DT_OP_LOOP)
            check_loop(v, op);
        if (op)
            check_late(v, func, op);
        for (uint32_t k = 0; op && op->out && k < op->n_out; k++)
            if (op->out[k] && op->out[k]->id < func->n_values && is_started(v, op->out[k]) &&
                taken[op->out[k]->id] != 1)
                dt_verify_fail(v, op->span, "`%s` is started and done %u times",
                               dt_op_info[op->kind].text, taken[op->out[k]->id]);
    }
}

/* ---- memory that values share ---- */

/* Checks values that take over the memory of an earlier value with the same elements: no op after
 * the writer may read the earlier one, or a view of it. An asynchronous op writes from its start,
 * and reads until it is done. */
static void check_over(DtVerify *v, const DtFunc *func)
{
    uint32_t *last = DT_NEW_ARRAY(v->scratch, uint32_t, (size_t)func->n_values + 1);
    uint32_t *held = DT_NEW_ARRAY(v->scratch, uint32_t, (size_t)func->n_values + 1);
    uint32_t *made = DT_NEW_ARRAY(v->scratch, uint32_t, (size_t)func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            last[dt_op_viewed(op->in[k])->id] = i;
        for (uint32_t k = 0; k < op->n_out; k++)
            made[op->out[k]->id] = 1 + i;
        if (op->kind == DT_OP_DONE && op->in[0]->op && op->in[0]->op->starts) {
            held[dt_op_viewed(op->in[0]->op->in[0])->id] = i;
            made[op->out[0]->id] = made[op->in[0]->id];
        }
    }
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++) {
            const DtValue *value = func->ops.at[i]->out[k], *old = value->over;
            if (!old)
                continue;
            if (old->id >= func->n_values || v->values[old->id] != old ||
                made[old->id] >= made[value->id])
                dt_verify_fail(v, value->op->span,
                               "result %u takes the memory of no value that was there before", k);
            else if (!lie_alike(value->type, old->type))
                dt_verify_fail(v, value->op->span,
                               "result %u takes the memory of a value of another type", k);
            else if (last[old->id] >= made[value->id] || held[old->id] > i)
                dt_verify_fail(v, value->op->span,
                               "result %u is written over a value that is read later", k);
        }
}

/* ---- places of temporaries ---- */

static bool is_order(const DtType *type, const DtLies *lies)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        seen |= lies->order[i] < type->rank ? 1u << lies->order[i] : 0;
    return seen == (1u << type->rank) - 1;
}

/* Checks the row stride of a layout: rows must not overlap, and the number of bytes must not
 * overflow. */
static bool has_room(const DtType *type, const DtLies *lies, const DtMesh *mesh)
{
    int64_t bytes = lies->row, row = 1;
    if (!lies->row)
        return lies->first == 0;
    if (lies->first == 0 || lies->first >= type->rank ||
        __builtin_mul_overflow(bytes, dt_dtype_size(type->dtype), &bytes))
        return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        const int64_t extent = dt_type_local_extent(type, lies->order[i], mesh);
        if (i >= lies->first)
            row *= extent;
        else if (__builtin_mul_overflow(bytes, extent, &bytes))
            return false;
    }
    return lies->row >= row;
}

static void check_lies(DtVerify *v, const DtValue *value)
{
    const DtLies *lies = value->lies;
    if (value->type->rank > DT_MAX_RANK || !is_order(value->type, lies))
        dt_verify_fail(v, value->op->span, "result %u lies in an order that is not one of its axes",
                       value->index);
    else if ((dt_op_info[value->op->kind].data == DT_DATA_VIEW && !value->op->copies) ||
             dt_type_is_ringbuf(value->type))
        dt_verify_fail(v, value->op->span, "result %u has no memory of its own", value->index);
    else if (!has_room(value->type, lies, &v->module->mesh))
        dt_verify_fail(v, value->op->span,
                       "result %u lies in rows that overlap, or in too many bytes", value->index);
}

/* ---- values inside others ---- */

/* An operand that an op holds in place must be the result of another op with this reader alone, or
 * a rename that holds its own operand. Packed values, and those put into a ring buffer, may have
 * other readers. */
static void check_held(DtVerify *v, const DtOp *op, uint32_t i, const uint32_t *reads)
{
    const DtValue *value = op->in[i];
    const DtOp *by = value->op;
    const bool joins = op->kind == DT_OP_CONCAT || op->kind == DT_OP_RELABEL;
    if (!joins && op->kind != DT_OP_PACK && (op->kind != DT_OP_RINGBUF_PUT || i != 1))
        dt_verify_fail(v, op->span, "`%s` holds no operand %u", dt_op_info[op->kind].text, i);
    else if (!by || (dt_op_info[by->kind].data == DT_DATA_VIEW && by->kind != DT_OP_DONE &&
                     !(joins && by->kind == DT_OP_RELABEL && by->holds && by->holds[0])))
        dt_verify_fail(v, op->span, "operand %u is held, and nothing makes it", i);
    else if (joins && reads[value->id] != 1)
        dt_verify_fail(v, op->span, "operand %u is held, and read by others", i);
}

static void check_holds(DtVerify *v, const DtFunc *func)
{
    uint32_t *reads = DT_NEW_ARRAY(v->scratch, uint32_t, (size_t)func->n_values + 1);
    bool *held = DT_NEW_ARRAY(v->scratch, bool, (size_t)func->n_values + 1);
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            reads[func->ops.at[i]->in[k]->id]++;
    for (uint32_t i = 0; i < func->results.n; i++)
        if (func->results.at[i]->id < func->n_values)
            reads[func->results.at[i]->id]++;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; op->holds && k < op->n_in; k++) {
            if (!op->holds[k])
                continue;
            if (held[op->in[k]->id])
                dt_verify_fail(v, op->span, "operand %u is held twice", k);
            held[op->in[k]->id] = true;
            check_held(v, op, k, reads);
        }
    }
}

/* Checks the decisions of pass `memory`. */
static void check_memory(DtVerify *v, const DtFunc *func)
{
    bool over = false, holds = false;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        holds = holds || op->holds;
        if (op->copies && op->kind != DT_OP_RELABEL && op->kind != DT_OP_DOT &&
            dt_op_info[op->kind].op_class != DT_CLASS_COMM)
            dt_verify_fail(v, op->span, "`%s` is no rename, product or exchange that copies",
                           dt_op_info[op->kind].text);
        for (uint32_t k = 0; k < op->n_out; k++) {
            over = over || op->out[k]->over;
            if (op->out[k]->lies)
                check_lies(v, op->out[k]);
        }
    }
    if (over)
        check_over(v, func);
    if (holds)
        check_holds(v, func);
}

void dt_verify_body(DtVerify *v, const DtFunc *func)
{
    v->values = DT_NEW_ARRAY(v->scratch, const DtValue *, (size_t)func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        dt_verify_define(v, func->span, func->inputs.at[i], NULL, i);
    bool ringbufs = false, good = true;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        ringbufs = ringbufs || dt_type_is_ringbuf(func->inputs.at[i]->type);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const bool holds = dt_verify_op(v, func->ops.at[i]);
        ringbufs = (holds && has_ringbuf(func->ops.at[i])) || ringbufs;
        good = good && holds;
    }
    if (ringbufs)
        check_ringbufs(v, func);
    if (any_starts(v, func))
        check_starts(v, func);
    if (good)
        check_memory(v, func);
    for (uint32_t i = 0; i < func->results.n; i++) {
        const DtValue *value = func->results.at[i];
        if (value->id >= func->n_values || v->values[value->id] != value)
            dt_verify_fail(v, func->span, "result %u is not a value of the function", i);
    }
    if (func->gradient)
        check_gradient(v, func);
    if (func->stream && func->stream->part)
        check_stream_types(v, func);
}

/* ---- calls must not lead back ---- */

typedef struct Visit {
    uint32_t func, op; /* next op to visit; after the last one, operands of the stream */
} Visit;

static uint32_t number_of(const DtVerify *v, const DtFunc *func)
{
    return (uint32_t)((uintptr_t)dt_map_find(&v->funcs, (const char *)&func, sizeof func) - 1);
}

static const DtFunc *leads_to(const DtFunc *func, uint32_t i)
{
    const DtStream *s = func->stream;
    if (i < func->ops.n)
        return func->ops.at[i]->func;
    return !s ? NULL : i == func->ops.n ? s->part : i == func->ops.n + 1 ? s->merge : s->finish;
}

/* Visits functions depth-first from root. state: 1 while a function is on the stack, 2 when it is
 * done. False after a reason: a function leads back to itself. */
static bool visit(DtVerify *v, uint32_t root, unsigned char *state, Visit *stack)
{
    uint32_t depth = 0;
    stack[depth++] = (Visit){root, 0};
    state[root] = 1;
    while (depth) {
        Visit *top = &stack[depth - 1];
        const DtFunc *func = v->module->funcs.at[top->func];
        if (top->op == func->ops.n + 3) {
            state[top->func] = 2;
            depth--;
            continue;
        }
        const DtFunc *next = leads_to(func, top->op++);
        if (!next)
            continue;
        uint32_t number = number_of(v, next);
        if (state[number] == 1)
            return dt_verify_fail(v, func->span, "function `%s` calls itself through `%s`",
                                  next->name, func->name);
        if (state[number] == 0) {
            state[number] = 1;
            stack[depth++] = (Visit){number, 0};
        }
    }
    return true;
}

void dt_verify_cycles(DtVerify *v)
{
    uint32_t n = v->module->funcs.n;
    unsigned char *state = DT_NEW_ARRAY(v->scratch, unsigned char, n + 1);
    Visit *stack = DT_NEW_ARRAY(v->scratch, Visit, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (state[i] == 0 && !visit(v, i, state, stack))
            return;
    }
}
