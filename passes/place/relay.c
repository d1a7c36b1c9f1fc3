/* SPDX-License-Identifier: Apache-2.0 */
/* Relays: their ops. With @ring an axis of one element per rank (ring_part.c), `own` the loop over
 * a rank's iterations:
 *
 * what only adds up, carried' = carried + term:
 *   total  = own(0)                                   what a rank's iterations add
 *   start  = start + sum of the totals of the ranks before: one gather
 * anything else:
 *   loop n - 1 times                                  the rank before has ended rightly one step
 *                                                     earlier
 *     start = shift(own(start)), but the first rank's stays
 * and then
 *   last, before = own(start);   last is that of the last rank
 *
 * A loop that goes backwards has its ranks in the reverse order. Every rank does as much as one
 * that has all of the axis would, or, where it only adds up, twice its own part. */
#include "passes/place/relay.h"

#include "base/intern.h"
#include "passes/place/ring.h"
#include "passes/place/ring_internal.h"

enum { MOST = 16 };

typedef struct Relay {
    DtArena *arena;
    const DtOp *call;
    const DtOp *op; /* the loop, as in the relay's function */
    DtRingRanks ranks;
    DtBuilder b; /* adds ops to the function being built, or to the body of its loop */
    DtFunc *own; /* the body of the loop over a rank's own iterations */
    int64_t length; /* number of a rank's iterations */
    uint32_t n;     /* number of carried values */
} Relay;

bool dt_relay_is(const DtOp *op)
{
    return dt_ring_is(op) && op->func->ops.n == 1 && op->func->ops.at[0]->kind == DT_OP_LOOP &&
           op->func->ops.at[0]->loop->axis == op->axes[0];
}

/* ---- what can be one ---- */

/* Returns, by value id of the loop's body, whether the value depends on carried values. */
static bool *find_dependents(const DtOp *loop, DtArena *arena)
{
    const DtFunc *body = loop->func;
    bool *depends = DT_NEW_ARRAY(arena, bool, body->n_values + 1);
    for (uint32_t i = 0; i < loop->loop->n_carried; i++)
        depends[body->inputs.at[1 + i]->id] = true;
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtOp *op = body->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            for (uint32_t r = 0; depends[op->in[k]->id] && r < op->n_out; r++)
                depends[op->out[r]->id] = true;
    }
    return depends;
}

/* Whether value is x plus terms, none of which depends on carried values. */
static bool is_sum_with(const DtValue *value, const DtValue *x, const bool *depends)
{
    while (value != x) {
        const DtOp *op = value->op;
        if (!op || op->kind != DT_OP_ADD || depends[op->in[0]->id] == depends[op->in[1]->id])
            return false;
        value = op->in[depends[op->in[0]->id] ? 0 : 1];
    }
    return true;
}

static bool only_adds_up(const DtOp *loop, DtArena *arena)
{
    const bool *depends = find_dependents(loop, arena);
    bool adds = true;
    for (uint32_t i = 0; adds && i < loop->loop->n_carried; i++)
        adds = is_sum_with(loop->func->results.at[i], loop->func->inputs.at[1 + i], depends);
    return adds;
}

bool dt_relay_takes(const DtOp *op)
{
    const DtLoop *loop = op->loop;
    const DtFunc *body = op->func;
    bool takes = loop->n_carried && loop->n_stacked && op->n_in <= MOST &&
                 body->results.n <= MOST && body->n_args == body->inputs.n && !body->writes.n &&
                 !loop->first && !loop->first_step && !dt_graph_reads(body, body->inputs.at[0]);
    for (uint32_t i = 0; takes && i < body->inputs.n; i++)
        takes = body->inputs.at[i]->type->rank + 2 <= DT_MAX_RANK;
    for (uint32_t i = 0; takes && i < body->ops.n; i++) {
        const DtOp *inner = body->ops.at[i];
        takes = dt_ring_takes(inner) && inner->out[0]->type->rank + 2 <= DT_MAX_RANK;
    }
    return takes;
}

/* ---- a rank's iterations ---- */

/* Returns the type with an axis of ranks added in front, for a value that differs from rank to
 * rank. */
static const DtType *of_ranks(const Relay *r, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    axes[0] = r->ranks.axis;
    for (uint32_t d = 0; d < type->rank; d++)
        axes[1 + d] = type->axes[d];
    return dt_type_make(type->dtype, type->rank + 1u, axes, type->partial, (DtReduce)type->pending);
}

static bool is_of_ranks(const Relay *r, const DtValue *x)
{
    return dt_type_find(x->type, r->ranks.axis.name) >= 0;
}

/* Returns x with an axis of ranks in front, repeated along it if x has none, and its other axes in
 * the order of `type`. */
static DtValue *for_ranks(const Relay *r, DtBuilder *b, DtValue *x, const DtType *type)
{
    if (!is_of_ranks(r, x))
        x = dt_graph_expand(b, x, of_ranks(r, x->type));
    return dt_graph_reorder(b, x, of_ranks(r, type));
}

/* Appends a copy of op. If an operand has an axis of ranks, so has the result: each rank computes
 * with its own values. */
static DtValue *copy_op(const Relay *r, DtBuilder *b, const DtOp *op, DtValue *const *in)
{
    bool any = false;
    for (uint32_t i = 0; i < op->n_in; i++)
        any = any || is_of_ranks(r, in[i]);
    DtValue wished = *op->out[0], *out = &wished;
    if (any)
        wished.type = of_ranks(r, wished.type);
    DtOp like = *op;
    like.out = &out;
    return dt_graph_copy(b, &like, in)->out[0];
}

static DtFunc *make_own(const Relay *r)
{
    const DtFunc *body = r->op->func;
    const DtLoop *loop = r->op->loop;
    DtFunc *own = dt_graph_func(body->module, dt_intern_printf("%s.own", body->name), DT_FUNC_BODY);
    DtValue **map = DT_NEW_ARRAY(r->arena, DtValue *, body->n_values + 1);
    DtBuilder b = {.func = own, .span = r->op->span};
    own->span = body->span;
    for (uint32_t i = 0; i < body->inputs.n; i++) {
        const DtValue *input = body->inputs.at[i];
        const bool alike =
            i == 0 || (i > loop->n_carried && i <= loop->n_carried + loop->n_invariant);
        map[input->id] =
            dt_graph_arg(own, alike ? input->type : of_ranks(r, input->type), input->name);
    }
    for (uint32_t i = 0; i < body->ops.n; i++) {
        const DtOp *op = body->ops.at[i];
        DtValue *in[4];
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = map[op->in[k]->id];
        b.span = op->span;
        b.path = op->path;
        map[op->out[0]->id] = copy_op(r, &b, op, in);
    }
    for (uint32_t i = 0; i < body->results.n; i++)
        dt_graph_return(own,
                        for_ranks(r, &b, map[body->results.at[i]->id], body->results.at[i]->type));
    return own;
}

/* Appends the loop over a rank's own iterations, which begins with these carried values; others:
 * the loop's other operands, by number. */
static const DtOp *run_own(Relay *r, DtValue *const *carried, DtValue *const *others)
{
    DtValue *in[MOST];
    DtLoop loop = *r->op->loop;
    loop.count = r->length;
    for (uint32_t i = 0; i < r->op->n_in; i++)
        in[i] = i < r->n ? carried[i] : others[i];
    return dt_graph_loop(&r->b, r->own, loop, in);
}

/* ---- what stands before them ---- */

/* Appends a value by rank: whether the rank is the first one in the loop's order, or (not first)
 * the last one. */
static DtValue *is_end(Relay *r, bool first)
{
    const int64_t number = first == r->op->loop->reverse ? r->ranks.axis.extent - 1 : 0;
    return dt_graph_binary(&r->b, DT_OP_EQ, dt_graph_iota(&r->b, r->ranks.axis),
                           dt_graph_constant(&r->b, DT_I32, (double)number));
}

static DtValue *cross(Relay *r, DtOpKind kind, DtValue *x, const DtType *type)
{
    DtValue *y = dt_graph_comm(&r->b, kind, x, r->ranks.bits, type);
    y->op->text = dt_intern_printf("prefixes along `%s`", r->op->loop->axis);
    return y;
}

/* Appends a value by rank: the sum of x over the ranks whose iterations come before those of the
 * rank. */
static DtValue *before(Relay *r, DtValue *x)
{
    DtAxis axes[DT_MAX_RANK], from = r->ranks.axis;
    const char *name = dt_intern("@from");
    for (uint32_t d = 0; d < x->type->rank; d++)
        axes[d] = x->type->axes[d];
    axes[0].n_split = from.n_split = 0;
    from.name = name;
    DtValue *all =
        cross(r, DT_OP_ALL_GATHER, x, dt_type_plain(x->type->dtype, x->type->rank, axes));
    all = dt_graph_rename(&r->b, all, r->ranks.axis.name, name, NULL);
    DtValue *them = dt_graph_iota(&r->b, from), *me = dt_graph_iota(&r->b, r->ranks.axis);
    const bool reverse = r->op->loop->reverse;
    DtValue *mask = dt_graph_binary(&r->b, DT_OP_LT, reverse ? me : them, reverse ? them : me);
    DtValue *some = dt_graph_where(&r->b, mask, all, dt_graph_constant(&r->b, x->type->dtype, 0));
    /* the reduction adds 16-bit floats up in f32 */
    DtValue *sum = dt_graph_reduce(&r->b, DT_REDUCE_SUM, some, 1, &name);
    return dt_graph_reorder(&r->b, dt_graph_cast(&r->b, sum, x->type->dtype), x->type);
}

static void add_up(Relay *r, DtValue **start, DtValue *const *others)
{
    DtValue *zeros[MOST];
    for (uint32_t i = 0; i < r->n; i++)
        zeros[i] = dt_graph_expand(&r->b, dt_graph_constant(&r->b, start[i]->type->dtype, 0),
                                   start[i]->type);
    const DtOp *total = run_own(r, zeros, others);
    for (uint32_t i = 0; i < r->n; i++)
        start[i] = dt_graph_reorder(
            &r->b, dt_graph_binary(&r->b, DT_OP_ADD, start[i], before(r, total->out[i])),
            start[i]->type);
}

/* Appends one step of the relay: all ranks run their own iterations from `start`, and pass the
 * carried values to the next rank, which gets them in start. The first rank keeps its initial
 * values. */
static void hand_on(Relay *r, DtValue *const *first, DtValue **start, DtValue *const *others)
{
    const DtOp *own = run_own(r, start, others);
    DtValue *is_first = is_end(r, true);
    for (uint32_t i = 0; i < r->n; i++) {
        DtValue *shifted = cross(r, DT_OP_SHIFT, own->out[i], own->out[i]->type);
        shifted->op->reverse = r->op->loop->reverse;
        start[i] = dt_graph_reorder(&r->b, dt_graph_where(&r->b, is_first, first[i], shifted),
                                    first[i]->type);
    }
}

static void go_along(Relay *r, DtValue **start, DtValue *const *others)
{
    const DtBuilder outer = r->b;
    const uint32_t n_in = r->op->n_in;
    DtFunc *body = dt_graph_func(r->own->module, dt_intern_printf("%s.steps", r->call->func->name),
                                 DT_FUNC_BODY);
    DtValue *first[MOST], *now[MOST], *inner[MOST], *in[2 * MOST];
    uint32_t n = 0;
    body->span = r->call->span;
    r->b.func = body;
    dt_graph_arg(body, dt_type_scalar(DT_I32), "step");
    for (uint32_t i = 0; i < r->n; i++)
        now[i] = dt_graph_arg(body, (in[n++] = start[i])->type, NULL);
    for (uint32_t i = 0; i < r->n; i++)
        first[i] = dt_graph_arg(body, (in[n++] = start[i])->type, NULL);
    for (uint32_t i = r->n; i < n_in; i++)
        inner[i] = dt_graph_arg(body, (in[n++] = others[i])->type, NULL);
    hand_on(r, first, now, inner);
    for (uint32_t i = 0; i < r->n; i++)
        dt_graph_return(body, now[i]);
    r->b = outer;
    const DtLoop loop = {.label = "ring",
                         .axis = "@step",
                         .count = r->ranks.axis.extent - 1,
                         .first = 1,
                         .n_carried = r->n,
                         .n_invariant = n - r->n};
    const DtOp *made = dt_graph_loop(&r->b, body, loop, in);
    for (uint32_t i = 0; i < r->n; i++)
        start[i] = made->out[i];
}

/* ---- all of it ---- */

/* Returns the rank's part of a stacked value, with the loop's axis first after that of ranks. */
static DtValue *take_stacked(Relay *r, DtValue *x)
{
    DtAxis axes[DT_MAX_RANK], swap;
    x = dt_ringpart_of(&r->ranks, &r->b, x);
    for (uint32_t d = 0; d < x->type->rank; d++)
        axes[d] = x->type->axes[d];
    const int at = dt_type_find(x->type, r->op->loop->axis);
    swap = axes[at];
    for (int d = at; d > 0; d--)
        axes[d] = axes[d - 1];
    axes[0] = swap;
    return dt_graph_reorder(&r->b, x,
                            dt_type_make(x->type->dtype, x->type->rank, axes, x->type->partial,
                                         (DtReduce)x->type->pending));
}

/* Returns x of the last rank in the loop's order, on all ranks. */
static DtValue *last(Relay *r, DtValue *x, const DtType *type)
{
    DtValue *mine =
        dt_graph_where(&r->b, is_end(r, false), x, dt_graph_constant(&r->b, x->type->dtype, 0));
    DtValue *sum = dt_graph_reduce(&r->b, DT_REDUCE_SUM, mine, 1, &r->ranks.axis.name);
    sum = dt_graph_cast(&r->b, sum, type->dtype); /* exact: only one term is not zero */
    sum = cross(r, DT_OP_ALL_REDUCE, sum, type);
    sum->op->reduce = DT_REDUCE_SUM;
    return sum;
}

static void make_results(Relay *r, const DtOp *own)
{
    const DtFunc *func = r->call->func;
    for (uint32_t i = 0; i < func->results.n; i++) {
        const uint32_t k = func->results.at[i]->index; /* its number among the loop's results */
        const DtType *type = r->call->out[i]->type;
        dt_graph_return(r->b.func, k < r->n
                                       ? last(r, own->out[k], type)
                                       : dt_ringpart_join(&r->ranks, &r->b, own->out[k], type));
    }
}

DtFunc *dt_relay_expand(const DtOp *call, DtModule *module, DtValue **ret_in)
{
    const DtFunc *func = call->func;
    const DtOp *op = func->ops.at[0];
    Relay relay = {.arena = module->arena, .call = call, .op = op, .n = op->loop->n_carried},
          *r = &relay;
    DtValue *start[MOST], *others[MOST];
    r->ranks = dt_ringpart_ranks(&module->mesh, call->mesh);
    r->length = op->loop->count / r->ranks.axis.extent;
    DtFunc *made = dt_graph_func(module, dt_intern_printf("%s.ranks", func->name), DT_FUNC_FN);
    made->span = func->span;
    r->own = make_own(r);
    r->b = (DtBuilder){.func = made, .span = call->span, .path = call->path};
    for (uint32_t i = 0; i < func->inputs.n; i++)
        dt_graph_arg(made, call->in[i]->type, func->inputs.at[i]->name);
    for (uint32_t i = 0; i < op->n_in; i++) { /* the loop's operands are the function's inputs, in
                                               * order */
        DtValue *x = made->inputs.at[op->in[i]->index];
        if (i < r->n)
            start[i] = for_ranks(r, &r->b, x, x->type);
        else
            others[i] = i < r->n + op->loop->n_invariant ? x : take_stacked(r, x);
    }
    (only_adds_up(op, r->arena) ? add_up : go_along)(r, start, others);
    make_results(r, run_own(r, start, others));
    for (uint32_t i = 0; i < func->inputs.n; i++)
        ret_in[i] = call->in[i];
    return made;
}
