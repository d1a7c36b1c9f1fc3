/* SPDX-License-Identifier: Apache-2.0 */
/* Writes out chains of loops that gather ahead: the op that makes the ring buffer, its contents
 * before the first loop, and the gathers of each iteration for the one `ahead` later, in the
 * same loop, in the next one, or in the first one of the next micro-batch or of the next piece. */
#include "passes/lower/order.h"

#include "base/intern.h"

#include <string.h>

typedef DT_VEC(DtValue *) Values;

/* A function while its prefetching loops are rewritten. */
typedef struct Writer {
    DtModule *module;
    DtFunc *func;
    DtBuilder b;
    const DtOrderHanded *handed; /* what is passed to the present chain; NULL: nothing */
    const DtType *ringbuf;          /* the type of the ring buffer */
    /* state: the ring buffer, as the last op left it; micro: the number of the micro-batch, or NULL
     * if no op reads it */
    DtValue *state, *micro;
    DT_VEC(const DtOp *) early;  /* params that were copied to before the loops that need them */
} Writer;

DtOp *dt_order_copy_op(DtFunc *to, const DtOp *op, DtValue **map)
{
    DtOp *copy = dt_graph_clone(to->module->arena, op, map);
    for (uint32_t i = 0; i < copy->n_out; i++)
        copy->out[i]->id = to->n_values++;
    DT_PUSH(to->module->arena, to->ops, copy);
    return copy;
}

/* ---- the gathers of an iteration, as a function ---- */

/* Which iteration of a loop is meant: the one that is `turn` iterations after a counter's, or
 * (counts false) number `turn` of those that run. */
typedef struct Turn {
    bool counts;
    int64_t turn; /* added to the counter, or the number itself */
} Turn;

/* Returns what the gather of an iteration reads of the loop's operand number i: its slice for that
 * iteration if it is stacked, else the operand itself. */
static DtValue *read_operand(DtBuilder *b, const DtOrderLoop *of, uint32_t i, DtValue *operand,
                             DtValue *counter, int64_t turn)
{
    const DtLoop *loop = &of->loop;
    const int64_t sign = loop->reverse ? -1 : 1, from = loop->reverse ? loop->count - 1 : 0;
    const uint32_t number = 1 + i;
    if (i >= loop->n_carried + loop->n_invariant)
        operand = dt_graph_at(b, operand, counter, from + sign * turn, counter ? sign : 0);
    operand->final =
        of->body->inputs.at[number]->final ? of->body->inputs.at[number]->final : 1 + number;
    return operand;
}

/* Whether a prefetched gather reads the value, itself the result of a gather. */
static bool is_gathered_on(const DtFunc *body, const DtValue *value)
{
    for (uint32_t i = 0; i < body->ops.n; i++)
        if (dt_order_is_ahead(body->ops.at[i]) && body->ops.at[i]->in[0] == value)
            return true;
    return false;
}

/* Makes a branch that gathers for an iteration: from (counter,) ring buffer and operands to the
 * ring buffer. starts: the gathers run on until the iteration reads the slot. */
static DtFunc *make_branch(const Writer *w, const DtOrderLoop *of, Turn turn, bool starts)
{
    const DtFunc *body = of->body;
    DtFunc *func =
        dt_graph_func(w->module, dt_intern_printf("%s.fetch", body->name), DT_FUNC_BRANCH);
    DtBuilder b = {.func = func, .span = body->span};
    DtValue **map = DT_NEW_ARRAY(w->module->arena, DtValue *, body->n_values + 1);
    DtValue *counter = turn.counts ? dt_graph_arg(func, dt_type_scalar(DT_I32), "turn") : NULL;
    DtValue *ringbuf = dt_graph_arg(func, w->ringbuf, "ringbuf");
    int64_t byte = 0;
    func->span = body->span;
    for (uint32_t i = 1; i < body->inputs.n; i++)
        if (dt_order_is_gathered(body, i))
            map[body->inputs.at[i]->id] =
                dt_graph_arg(func, of->in[i - 1]->type, of->in[i - 1]->name);
    for (uint32_t i = 1; i < body->inputs.n; i++) {
        DtValue **value = &map[body->inputs.at[i]->id];
        if (*value)
            *value = read_operand(&b, of, i - 1, *value, counter, turn.turn);
    }
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtOp *op = body->ops.at[i];
        if (!dt_order_is_ahead(op))
            continue;
        DtOp *copy = dt_order_copy_op(func, op, map);
        copy->ahead = 0;
        if (!dt_order_is_kept(body, op->out[0]))
            continue;
        copy->starts = starts && !is_gathered_on(body, op->out[0]);
        ringbuf = dt_graph_ringbuf_put(&b, ringbuf, copy->out[0], byte);
        byte += dt_order_slot_bytes(w->module, op->out[0]->type);
    }
    dt_graph_return(func, ringbuf);
    return func;
}

/* ---- who calls it ---- */

/* Returns the operand for gathers that are placed in the function being written. A parameter is
 * read there by a new op, unless the function reads it already. */
static DtValue *find_operand(Writer *w, DtValue *value)
{
    if (!value->op || value->op->kind != DT_OP_PARAM)
        return value;
    for (uint32_t i = 0; i < w->func->ops.n; i++) {
        DtOp *op = w->func->ops.at[i];
        if (op->kind == DT_OP_PARAM && op->store == value->op->store)
            return op->out[0];
    }
    DtStore *store = value->op->store;
    DtValue *made = dt_graph_source(&w->b, DT_OP_PARAM, store->type, NULL, store);
    made->name = value->name;
    return made;
}

/* Appends to ret_list the loop's operands that its prefetched gathers read; a branch takes them
 * after counter and ring buffer. */
static void list_operands(Writer *w, const DtOrderLoop *of, Values *ret_list)
{
    for (uint32_t i = 1; i < of->body->inputs.n; i++)
        if (dt_order_is_gathered(of->body, i))
            DT_PUSH(w->module->arena, *ret_list, find_operand(w, of->in[i - 1]));
}

/* Appends the gathers for the first iterations of a chain, as many as it runs ahead, each of which
 * fills a slot of the ring buffer; returns the ring buffer after them. */
static DtValue *write_first(Writer *w, DtBuilder *b, const DtOrderChain *chain, DtValue *ringbuf,
                            const Values *operands)
{
    const DtOrderLoop *of = &chain->loops.at[0];
    for (int64_t j = 0; j < chain->ahead; j++) {
        Values in = {0};
        const DtAheadOf whose = {.loop = of->final, .turn = j};
        DT_PUSH(w->module->arena, in, ringbuf);
        for (uint32_t i = 0; i < operands->n; i++)
            DT_PUSH(w->module->arena, in, operands->at[i]);
        ringbuf = dt_graph_when(b, make_branch(w, of, (Turn){false, j}, true), NULL, &whose, in.at)
                      ->out[0];
        ringbuf = dt_graph_ringbuf_turn(b, ringbuf);
    }
    return ringbuf;
}

/* Appends a `when` that, in the first micro-batch only, begins the ring buffer and gathers for the
 * first iterations of the chain; returns the ring buffer. */
static DtValue *write_first_micro(Writer *w, const DtOrderChain *chain, DtValue *ringbuf)
{
    DtFunc *func =
        dt_graph_func(w->module, dt_intern_printf("%s.first", w->func->name), DT_FUNC_BRANCH);
    DtBuilder b = {.func = func, .span = w->b.span};
    Values operands = {0}, in = {0}, args = {0};
    DT_PUSH(w->module->arena, in, w->micro);
    DT_PUSH(w->module->arena, in, ringbuf);
    list_operands(w, &chain->loops.at[0], &operands);
    func->span = w->b.span;
    dt_graph_arg(func, w->micro->type, "micro");
    DtValue *inside = dt_graph_arg(func, w->ringbuf, "ringbuf");
    for (uint32_t i = 0; i < operands.n; i++) {
        DT_PUSH(w->module->arena, in, operands.at[i]);
        DT_PUSH(w->module->arena, args,
                dt_graph_arg(func, operands.at[i]->type, operands.at[i]->name));
    }
    inside = dt_graph_ringbuf(&b, w->ringbuf, inside);
    dt_graph_return(func, write_first(w, &b, chain, inside, &args));
    return dt_graph_when(&w->b, func, &(DtRange){.lo = 0, .n = 1}, NULL, in.at)->out[0];
}

/* Sets w->state to the chain's ring buffer before its first loop: a new one, or the one that was
 * handed on. Gathers for the first iterations are appended, unless an earlier piece has run
 * them. */
static void write_begin(Writer *w, const DtOrderChain *chain)
{
    const DtOrderHanded *handed = w->handed;
    DtStore *store = handed ? handed->store : NULL;
    Values operands = {0};
    w->state = w->micro = NULL;
    if (store) {
        w->state = dt_graph_source(&w->b, DT_OP_PARAM, store->type, NULL, store);
        w->state->name = dt_intern("ringbuf");
    }
    if (handed && handed->n_micro) {
        w->micro = dt_graph_turn(&w->b);
        w->micro->name = dt_intern("micro");
        w->state = write_first_micro(w, chain, w->state);
        return;
    }
    if (handed && handed->goes_on)
        return;
    w->state = dt_graph_ringbuf(&w->b, w->ringbuf, w->state);
    w->state->name = dt_intern("ringbuf");
    list_operands(w, &chain->loops.at[0], &operands);
    w->state = write_first(w, &w->b, chain, w->state, &operands);
}

/* ---- loops ---- */

/* The new body of a loop while it is built, and the operands that it takes in addition. */
typedef struct Body {
    const DtOrderChain *chain;
    /* next: the loop whose first gathers the last iterations of `of` perform; NULL: none */
    const DtOrderLoop *of, *next;
    DtAheadOf whose;              /* for `next` */
    Values outer;                 /* invariants that the loop takes in addition */
    DtFunc *func;
    DtBuilder b;
    DtValue **map;                /* by value id of the old body: the value in the new one */
    DtValue *turn, *ringbuf;
    DtValue **inner;              /* the inputs of the body for `outer` */
} Body;

static void add_outer(Writer *w, Body *body, DtValue *value)
{
    for (uint32_t i = 0; i < body->outer.n; i++)
        if (body->outer.at[i] == value)
            return;
    DT_PUSH(w->module->arena, body->outer, value);
}

static DtValue *inner_of(const Body *body, const DtValue *value)
{
    uint32_t i = 0;
    while (body->outer.at[i] != value)
        i++;
    return body->inner[i];
}

static bool is_read(const DtFunc *body, const DtValue *value)
{
    bool read = dt_order_is_kept(body, value);
    for (uint32_t i = 0; !read && i < body->results.n; i++)
        read = body->results.at[i] == value;
    return read;
}

/* Whether the new loop keeps operand i of the old one. It drops stacked operands that nothing but
 * prefetched gathers reads. */
static bool stays(const DtOrderLoop *of, uint32_t i)
{
    return i < of->loop.n_carried + of->loop.n_invariant ||
           is_read(of->body, of->body->inputs.at[1 + i]) || !dt_order_is_gathered(of->body, 1 + i);
}

static void copy_input(Body *body, uint32_t i)
{
    const DtValue *old = body->of->body->inputs.at[i];
    DtValue *made = dt_graph_arg_like(body->func, old->type, old);
    made->final = old->final ? old->final : 1 + i;
    body->map[old->id] = made;
}

static void make_inputs(Writer *w, Body *body)
{
    const DtLoop *loop = &body->of->loop;
    const uint32_t n_carried = 1 + loop->n_carried, n_whole = n_carried + loop->n_invariant;
    body->inner = DT_NEW_ARRAY(w->module->arena, DtValue *, body->outer.n + 1);
    for (uint32_t i = 0; i < n_carried; i++)
        copy_input(body, i);
    body->ringbuf = dt_graph_arg(body->func, w->ringbuf, "ringbuf");
    for (uint32_t i = n_carried; i < n_whole; i++)
        copy_input(body, i);
    for (uint32_t i = 0; i < body->outer.n; i++)
        body->inner[i] = dt_graph_arg(body->func, body->outer.at[i]->type, body->outer.at[i]->name);
    for (uint32_t i = n_whole; i < body->of->body->inputs.n; i++)
        if (stays(body->of, i - 1))
            copy_input(body, i);
}

/* Appends a `when` op that runs the branch (the gathers for an iteration of a loop) if `turn` is in
 * the range; *ringbuf becomes its result. */
static void write_when(Writer *w, DtBuilder *b, DtValue *turn, DtValue **ringbuf,
                       const Values *operands, DtFunc *branch, DtRange range,
                       const DtAheadOf *whose)
{
    Values in = {0};
    DT_PUSH(w->module->arena, in, turn);
    DT_PUSH(w->module->arena, in, *ringbuf);
    for (uint32_t i = 0; i < operands->n; i++)
        DT_PUSH(w->module->arena, in, operands->at[i]);
    *ringbuf = dt_graph_when(b, branch, &range, whose, in.at)->out[0];
}

static void inner_operands(Writer *w, const Body *body, const DtOrderLoop *of, Values *ret_list)
{
    Values outer = {0};
    list_operands(w, of, &outer);
    for (uint32_t i = 0; i < outer.n; i++)
        DT_PUSH(w->module->arena, *ret_list, inner_of(body, outer.at[i]));
}

/* Lets the last iterations gather for the first ones of the next micro-batch: appends a `when` that
 * does nothing in the last micro-batch, with the gathers' `when` inside. */
static void write_next_micro(Writer *w, Body *body, DtFunc *branch, DtRange range,
                             const Values *operands)
{
    DtFunc *func =
        dt_graph_func(w->module, dt_intern_printf("%s.next", body->of->body->name), DT_FUNC_BRANCH);
    DtBuilder b = {.func = func, .span = w->b.span};
    Values in = {0}, args = {0};
    func->span = w->b.span;
    dt_graph_arg(func, w->micro->type, "micro");
    DtValue *ringbuf = dt_graph_arg(func, w->ringbuf, "ringbuf"),
            *turn = dt_graph_arg(func, body->turn->type, "turn");
    DT_PUSH(w->module->arena, in, body->turn);
    for (uint32_t i = 0; i < operands->n; i++) {
        DT_PUSH(w->module->arena, in, operands->at[i]);
        DT_PUSH(w->module->arena, args,
                dt_graph_arg(func, operands->at[i]->type, operands->at[i]->name));
    }
    write_when(w, &b, turn, &ringbuf, &args, branch, range, &body->whose);
    dt_graph_return(func, ringbuf);
    write_when(w, &body->b, inner_of(body, w->micro), &body->ringbuf, &in, func,
               (DtRange){.lo = 0, .n = w->handed->n_micro - 1}, NULL);
}

static void write_fetches(Writer *w, Body *body)
{
    const int64_t n = body->of->loop.count, k = body->chain->ahead;
    const DtAheadOf own = {.turn = k};
    Values operands = {0}, next = {0};
    body->turn = dt_graph_turn(&body->b);
    body->turn->name = dt_intern("turn");
    inner_operands(w, body, body->of, &operands);
    write_when(w, &body->b, body->turn, &body->ringbuf, &operands,
               make_branch(w, body->of, (Turn){true, k}, true), (DtRange){.lo = 0, .n = n - k},
               &own);
    if (body->next) {
        const DtRange range = {.lo = n - k, .n = k};
        DtFunc *branch = make_branch(w, body->next, (Turn){true, k - n}, !body->whose.piece);
        inner_operands(w, body, body->next, &next);
        if (w->micro && body->of == &body->chain->loops.at[body->chain->loops.n - 1])
            write_next_micro(w, body, branch, range, &next);
        else
            write_when(w, &body->b, body->turn, &body->ringbuf, &next, branch, range, &body->whose);
    }
    body->ringbuf = dt_graph_ringbuf_turn(&body->b, body->ringbuf);
    body->ringbuf->name = dt_intern("ringbuf");
}

/* Completes the new body: it reads the iteration's gathered values from the ring buffer's slot,
 * runs the other ops of the old body, and returns their results and the ring buffer. */
static void write_rest(Writer *w, Body *body)
{
    const DtFunc *old = body->of->body;
    int64_t byte = 0;
    for (uint32_t i = 0; i < old->ops.n; i++) {
        const DtOp *op = old->ops.at[i];
        if (!dt_order_is_ahead(op) || !dt_order_is_kept(old, op->out[0]))
            continue;
        body->b.span = op->span, body->b.path = op->path;
        DtValue *value = dt_graph_ringbuf_get(&body->b, body->ringbuf, byte, op->out[0]->type);
        value->name = op->out[0]->name;
        value->means = op->out[0]->means;
        value->final = op->out[0]->final;
        body->map[op->out[0]->id] = value;
        byte += dt_order_slot_bytes(w->module, op->out[0]->type);
    }
    for (uint32_t i = 0; i < old->ops.n; i++)
        if (!dt_order_is_ahead(old->ops.at[i]))
            dt_order_copy_op(body->func, old->ops.at[i], body->map);
    for (uint32_t i = 0; i < old->results.n; i++) {
        if (i == body->of->loop.n_carried)
            dt_graph_return(body->func, body->ringbuf);
        dt_graph_return(body->func, body->map[old->results.at[i]->id]);
    }
    if (old->results.n == body->of->loop.n_carried)
        dt_graph_return(body->func, body->ringbuf);
}

static void push_ring(Writer *w, DtOp *op, Values *list)
{
    DtValue *value = DT_NEW(w->module->arena, DtValue);
    *value = (DtValue){.type = w->ringbuf, .op = op, .name = dt_intern("ringbuf"),
                       .id = w->func->n_values++};
    DT_PUSH(w->module->arena, *list, value);
}

/* Gives the loop op the new body, without the operands that it no longer reads, with the operands
 * of gathers and the ring buffer as its last carried value. */
static void change_loop(Writer *w, const Body *body)
{
    const DtOrderLoop *of = body->of;
    DtOp *op = of->op;
    DtLoop *loop = DT_NEW(w->module->arena, DtLoop);
    Values in = {0}, out = {0};
    *loop = of->loop;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (i == loop->n_carried)
            DT_PUSH(w->module->arena, in, w->state);
        if (i == loop->n_carried + loop->n_invariant)
            for (uint32_t k = 0; k < body->outer.n; k++)
                DT_PUSH(w->module->arena, in, body->outer.at[k]);
        if (stays(of, i))
            DT_PUSH(w->module->arena, in, of->in[i]);
        else
            loop->n_stacked--;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (i == loop->n_carried)
            push_ring(w, op, &out);
        DT_PUSH(w->module->arena, out, op->out[i]);
    }
    if (op->n_out == loop->n_carried)
        push_ring(w, op, &out);
    for (uint32_t i = 0; i < out.n; i++)
        out.at[i]->index = i;
    w->state = out.at[loop->n_carried];
    loop->n_carried++;
    loop->n_invariant += body->outer.n;
    op->func = body->func;
    op->loop = loop;
    op->in = in.at, op->n_in = in.n;
    op->out = out.at, op->n_out = out.n;
}

/* Returns the loop whose first gathers the last iterations of loop `number` of the chain run: the
 * next one of the chain, or the first of the next micro-batch or piece; NULL if there is none.
 * ret_whose describes it for notes. */
static const DtOrderLoop *next_of(const Writer *w, const DtOrderChain *chain, uint32_t number,
                                  DtAheadOf *ret_whose)
{
    const bool last = number + 1 == chain->loops.n;
    const DtOrderLoop *next = !last               ? &chain->loops.at[number + 1]
                              : !w->handed        ? NULL
                              : w->handed->n_micro ? &chain->loops.at[0]
                                                   : w->handed->next;
    *ret_whose = (DtAheadOf){.loop = next ? next->final : 0};
    if (last && next && !w->handed->n_micro)
        ret_whose->piece = 1 + w->handed->piece, ret_whose->kind = w->handed->kind;
    return next;
}

static void write_loop(Writer *w, const DtOrderChain *chain, uint32_t number)
{
    const DtOrderLoop *of = &chain->loops.at[number];
    Body body = {.chain = chain, .of = of,
                 .func = dt_graph_func(w->module, of->body->name, DT_FUNC_BODY)};
    Values operands = {0};
    body.b = (DtBuilder){.func = body.func, .span = of->op->span};
    body.func->span = of->body->span;
    body.map = DT_NEW_ARRAY(w->module->arena, DtValue *, of->body->n_values + 1);
    body.next = next_of(w, chain, number, &body.whose);
    list_operands(w, of, &operands);
    if (body.next)
        list_operands(w, body.next, &operands);
    for (uint32_t i = 0; i < operands.n; i++)
        add_outer(w, &body, operands.at[i]);
    if (w->micro && number + 1 == chain->loops.n)
        add_outer(w, &body, w->micro);
    make_inputs(w, &body);
    write_fetches(w, &body);
    write_rest(w, &body);
    change_loop(w, &body);
}

/* ---- functions ---- */

static bool has_op(const DtFunc *func, const DtOp *op)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (func->ops.at[i] == op)
            return true;
    return false;
}

/* Moves the `param` ops that loops of the chain gather before the first of these loops. */
static void read_params(Writer *w, const DtOrderChain *chain)
{
    for (uint32_t k = 0; k < chain->loops.n; k++)
        for (uint32_t i = 1; i < chain->loops.at[k].body->inputs.n; i++) {
            DtOp *op = chain->loops.at[k].in[i - 1]->op;
            if (!dt_order_is_gathered(chain->loops.at[k].body, i) || !op ||
                op->kind != DT_OP_PARAM || has_op(w->func, op))
                continue;
            DT_PUSH(w->module->arena, w->func->ops, op);
            DT_PUSH(w->module->arena, w->early, op);
        }
}

static bool is_early(const Writer *w, const DtOp *op)
{
    for (uint32_t i = 0; i < w->early.n; i++)
        if (w->early.at[i] == op)
            return true;
    return false;
}

static const DtOrderChain *chain_of(const DtOrderChain *chains, const DtOp *op,
                                    uint32_t *ret_number)
{
    for (; chains; chains = chains->next)
        for (*ret_number = 0; *ret_number < chains->loops.n; ++*ret_number)
            if (chains->loops.at[*ret_number].op == op)
                return chains;
    return NULL;
}

void dt_order_write(DtFunc *func, DtOrderChain *chains, const DtOrderHanded *handed)
{
    Writer writer = {.module = func->module, .func = func, .b = {.func = func}, .handed = handed},
           *w = &writer;
    DtOp *const *ops = func->ops.at;
    const uint32_t n = func->ops.n;
    memset(&func->ops, 0, sizeof func->ops);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number;
        const DtOrderChain *chain = chain_of(chains, ops[i], &number);
        if (is_early(w, ops[i]))
            continue;
        if (chain) {
            w->b.span = ops[i]->span, w->b.path = ops[i]->path;
            w->ringbuf = handed && handed->store
                          ? handed->store->type
                          : dt_order_ring(w->module, chain->ahead + 1, chain->bytes, chain->splits);
        }
        if (chain && number == 0) {
            read_params(w, chain);
            write_begin(w, chain);
        }
        if (chain)
            write_loop(w, chain, number);
        DT_PUSH(w->module->arena, func->ops, ops[i]);
    }
    if (handed && handed->store)
        dt_graph_return(func, w->state);
    dt_graph_renumber(func);
}
