/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and loops: from the nodes of the inputs to the nodes of the results, each op's placement checked on
 * the way. A function is evaluated once for the same operands in the same loops.
 *
 * A loop's body is evaluated for "the iteration". What the loop carries is a symbol in it, `carried`; a stacked
 * operand is one `part` of a stack. A carried value is the node `chain`: where the loop starts, and, of it and all
 * carried values that it depends on, what they start from and what the body makes of them. "Its value at the
 * iteration" is `at(chain)`, its value behind the loop `behind(chain)`; the body is evaluated again with the
 * former in place of the symbols for what leaves the loop. So:
 *  - A stack that one loop has left and another over the same iterations reads is what the first body computed
 *    there. A value that is computed again has the number of the one that was saved.
 *  - A loop that continues where another with the same body ended is that loop: a loop cut into pipeline stages has
 *    the number of the whole one.
 *  - Which other values a loop carries or leaves is without meaning: a loop may be done as two. */
#include "verify/internal.h"

#include "base/intern.h"

#include <stdarg.h>
#include <stdio.h>

enum { MEMOS = 1 << 10 };

static const char part_kind[] = "part", range_kind[] = "range", behind_kind[] = "behind",
                  iteration_kind[] = "iteration";

/* A function evaluated for operands. */
typedef struct CertMemo Memo;
struct CertMemo {
    const CertFunc *func;
    const char *context; /* names the loops around it */
    CertValue *in, *out;
    uint32_t values;
    bool *needs;        /* of a loop's body: see Chains */
    CertAgain *again;   /* of a loop's body: what of its first run it reads */
    CertNode ***bodies; /* by carried value: what its chain consists of, beside where it starts */
    Memo *next;
};

void dt_certfunc_cover(CertState *state, const char *loop, int64_t first, CertValue *value)
{
    CertNode *number = value->node;
    if (value->loop == loop && value->first == CERT_ANY)
        value->first = first;
    bool zeros = dt_certpack_is(number) && value->loop == loop; /* a bucket of them is stacked when it is packed */
    for (uint32_t i = 1; zeros && i < number->n_in; i += 2)
        zeros = dt_certnode_is_zero(number->in[i]);
    if (zeros)
        value->first = first;
    if (value->loop || !dt_certnode_is_zero(number))
        return;
    while (number->n_in)
        number = number->in[0];
    value->loop = loop;
    value->first = first;
    value->node = dt_certnode_of(state->nodes, dt_intern("expand"), dt_intern(""),
                                 dt_certnode_shape(state->nodes, value->type, loop), number);
}

bool dt_certfunc_fail(CertState *state, const CertOp *op, const char *format, ...)
{
    va_list args;
    uint32_t line = 1;
    if (state->problem->len)
        return false;
    va_start(args, format);
    dt_text_vprintf(state->problem, format, args);
    va_end(args);
    if (!op)
        return false;
    for (const char *c = state->program->text; c < op->at; c++)
        line += *c == '\n';
    const char *end = op->at + strcspn(op->at, "\n"), *span = end;
    while (span > op->at && *span != ' ')
        span--;
    dt_text_printf(state->problem, " (function %s, line %u of the program %.*s)",
                   state->func ? state->func->name : "?", line, (int)(end - span), span);
    return false;
}

/* ---- ops ---- */

static const CertNode *only(const CertNode *x, const char *kind, uint32_t n)
{
    return dt_cert_is(x->kind, kind) && x->n_in == n ? x : NULL;
}

/* x of reduce[@m](where(iota[@m] == 0, x, 0)), which is x kept on the first rank; or NULL. */
static CertNode *kept_on_first(const CertOp *op, const CertValue *in)
{
    if (!dt_cert_is(op->kind, "reduce") || op->n_axes != 1 || op->axes[0][0] != '@')
        return NULL;
    const CertNode *where = only(in[0].node, "where", 3);
    const CertNode *first = where ? only(where->in[0], "eq", 2) : NULL;
    const CertShape *iota = first && only(first->in[0], "iota", 0) ? first->in[0]->shape : NULL;
    if (!iota || !dt_cert_is(op->reduce, "sum") || !dt_certnode_is_zero(where->in[2]) ||
        !dt_certnode_is_zero(first->in[1]) || iota->rank != 1 || iota->axes[0] != op->axes[0])
        return NULL;
    for (uint32_t i = 0; i < where->in[1]->shape->rank; i++)
        if (where->in[1]->shape->axes[i] == op->axes[0])
            return NULL;
    return where->in[1];
}

/* The node of a result where more than its operands and attributes matters: random draws have the place of their
 * loops, reductions over iterations say which. */
static CertNode *node_of(CertState *state, const CertOp *op, const char *context,
                         const CertValue *in, const CertShape *shape, CertNode *const *nodes,
                         uint32_t index)
{
    const CertAxis *loop = op->n_in && in[0].loop ? dt_certtext_axis(in[0].type, in[0].loop) : NULL;
    CertNode parts = {.kind = op->kind, .attributes = op->attributes, .shape = shape,
                      .n_in = op->n_in, .in = nodes, .index = index};
    if (dt_cert_is(op->kind, "rng")) {
        parts.attributes = dt_intern_printf("%s %s %s %s", op->attributes, context,
                                            op->path ? op->path : "", op->text);
        return dt_certnode_make(state->nodes, parts);
    }
    if (dt_cert_is(op->kind, "shift")) {
        const CertAxis *axis = dt_certrule_shifted(in[0].type, op->mesh);
        parts.attributes = dt_intern_printf("%s [%s]", op->attributes, axis->name);
        return dt_certnode_make(state->nodes, parts);
    }
    if (dt_cert_is(op->kind, "window") || dt_cert_is(op->kind, "fold")) {
        const char *attributes = dt_certhalo_attributes(op, in);
        parts.attributes = attributes ? attributes : op->attributes;
        return dt_certnode_make(state->nodes, parts);
    }
    if (dt_cert_is(op->kind, "relabel")) {
        CertNode *merged = dt_certhalo_merge(state, op, nodes[0], shape);
        if (merged)
            return merged;
    }
    bool sums = dt_cert_is(op->kind, "reduce") && dt_cert_is(op->reduce, "sum");
    for (uint32_t i = 0; loop && sums && i < op->n_axes; i++)
        if (op->axes[i] == in[0].loop) {
            parts.lo = in[0].first == CERT_ANY ? 0 : in[0].first;
            parts.hi = parts.lo + loop->extent;
            return dt_certnode_linear(state->nodes, op, parts);
        }
    const char *attributes = dt_certrange_attributes(state->program, op, in);
    if (attributes == op->attributes)
        return dt_certnode_op(state->nodes, op, shape, nodes, index);
    CertOp along = *op;
    along.attributes = attributes;
    return dt_certnode_op(state->nodes, &along, shape, nodes, index);
}

static bool plain_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                     CertValue *out)
{
    CertNode *few[16],
        **nodes = op->n_in <= 16 ? few : DT_NEW_ARRAY(state->arena, CertNode *, op->n_in);
    const CertProgram *program = state->program;
    bool buckets = false;
    if (dt_cert_is(op->kind, "pack") || dt_cert_is(op->kind, "unpack"))
        return dt_certpack_op(state, op, in, out);
    if (!dt_certrule_check(state, op, in) ||
        (program->n_padded && !dt_certpad_check(state, op, in)))
        return false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        CertValue x = in[i];
        if (i && in[0].loop && dt_cert_is(op->kind, "update") && dt_certtext_axis(x.type, in[0].loop))
            dt_certfunc_cover(state, in[0].loop, in[0].first, &x); /* element by element: zeros of any iterations */
        nodes[i] = x.node;
        buckets = buckets || dt_certpack_is(nodes[i]);
    }
    bool moves = op->rule->moves || dt_cert_is(op->kind, "bind");
    CertNode *same = moves                  ? nodes[0]
                     : buckets || !op->n_in ? NULL
                                            : kept_on_first(op, in);
    if (!same && !buckets && op->n_in)
        same = dt_certpad_identity(op, in);
    if (op->n_in && op->n_out == 1 && dt_certrange_cut(program, op, in, &out[0])) {
        if (program->n_padded)
            dt_certpad_fill(state, op, in, &out[0]);
        return true;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!dt_certrange_of(state, op, in, &out[i]))
            return false;
        dt_certrange_repeat(program, op, in, &out[i]);
        out[i].node = same;
        if (!same && buckets && !dt_certpack_map(state, op, in, i, &out[i]))
            return false;
        if (!same && !buckets)
            out[i].node =
                node_of(state, op, context, in, dt_certrange_shape(state, op, in, &out[i]), nodes, i);
        if (program->n_padded)
            dt_certpad_fill(state, op, in, &out[i]);
    }
    return true;
}

/* ---- functions ---- */

static bool run(CertState *state, const CertFunc *func, const char *context,
                const CertValue *inputs, CertValue *ret_results);

/* What func makes of these operands, all of which are known; NULL after a problem. */
static Memo *evaluate(CertState *state, const CertFunc *func, const char *context,
                      const CertValue *in)
{
    uint64_t hash = (uint64_t)(uintptr_t)func->same ^ (uint64_t)(uintptr_t)context;
    size_t size = func->n_args * sizeof in[0];
    for (uint32_t i = 0; i < func->n_args; i++)
        hash = (hash ^ in[i].node->id) * UINT64_C(0x9E3779B97F4A7C15);
    if (!state->memo)
        state->memo = DT_NEW_ARRAY(state->arena, Memo *, MEMOS);
    Memo **slot = &state->memo[(hash ^ hash >> 32) % MEMOS];
    for (Memo *m = *slot; m; m = m->next)
        if (m->func == func->same && m->context == context &&
            (size == 0 || memcmp(m->in, in, size) == 0)) {
            state->values += m->values;
            return m;
        }
    Memo *memo = DT_NEW(state->arena, Memo);
    *memo = (Memo){.func = func->same, .context = context, .next = *slot};
    memo->in = DT_NEW_ARRAY(state->arena, CertValue, func->n_args);
    memo->out = DT_NEW_ARRAY(state->arena, CertValue, func->results.n);
    if (size)
        memcpy(memo->in, in, size);
    const CertFunc *outer = state->func;
    uint32_t values = state->values;
    if (!run(state, func, context, in, memo->out))
        return NULL;
    state->func = outer;
    memo->values = state->values - values;
    memo->next = *slot; /* evaluating it has filled the table */
    *slot = memo;
    return memo;
}

static bool same_types(CertState *state, const CertOp *op, const CertType *have, uint32_t skip,
                       const CertType *want, const char *what)
{
    return dt_certrule_same(have, skip, have->partial, want) ||
           dt_certfunc_fail(state, op, "%s of `%s` lies otherwise than its function says", what,
                            op->func);
}

static bool call_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                    CertValue *out)
{
    const CertFunc *func = dt_certtext_func(state->program, op->func);
    if (!func || func->n_args != op->n_in || func->results.n != op->n_out)
        return dt_certfunc_fail(state, op,
                                "a call of a function that is not there or takes other operands");
    const CertValue *args = dt_certring_is(op) ? dt_certring_args(state, op, func, in) : in;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!same_types(state, op, args[i].type, 0, func->args.at[i], "an argument"))
            return false;
    const Memo *memo = evaluate(state, func, context, args);
    for (uint32_t i = 0; memo && i < op->n_out; i++) {
        out[i] = memo->out[i];
        if (dt_certring_is(op) && dt_certring_gives(state, op, in, out[i].type, op->types[i]))
            out[i].type = op->types[i];
        if (!same_types(state, op, out[i].type, 0, op->types[i], "a result"))
            return false;
    }
    return memo != NULL;
}

/* ---- chains: what a loop carries ---- */

typedef struct Chains {
    CertState *state;
    const char *symbols; /* attributes of this loop's symbols */
    uint32_t n, n_out;
    Memo *memo;         /* the body, of symbols */
    const bool *needs;  /* n + 1 rows of n: chain i depends on chain k; what leaves the loop stacked does */
    const CertValue *from;
    CertNode **chain;
    int64_t start;
} Chains;

static bool *find_needs(const Chains *c)
{
    bool *needs = DT_NEW_ARRAY(c->state->arena, bool, (c->n + 1) * (c->n + 1));
    for (uint32_t i = 0; i < c->n_out; i++) {
        bool *row = &needs[(i < c->n ? i : c->n) * c->n];
        dt_certnode_symbols(c->state->nodes, c->memo->out[i].node, c->symbols, i <= c->n, row);
        if (i < c->n)
            row[i] = true;
    }
    for (uint32_t k = 0; k < c->n; k++)
        for (uint32_t i = 0; i <= c->n; i++)
            for (uint32_t j = 0; needs[i * c->n + k] && j < c->n; j++)
                needs[i * c->n + j] |= needs[k * c->n + j];
    return needs;
}

/* What the body makes of k and all that it depends on, k first, in bound symbols. */
static CertNode **bodies_of(const Chains *c, uint32_t k)
{
    DtArena *arena = c->state->arena;
    uint32_t *order = DT_NEW_ARRAY(arena, uint32_t, c->n), n = 1;
    CertNode **bodies = DT_NEW_ARRAY(arena, CertNode *, c->n);
    bool fresh = true;
    for (uint32_t i = 0; i < c->n; i++)
        order[i] = i == k ? 0 : c->needs[k * c->n + i] ? n++ : 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->needs[k * c->n + i]) {
            bodies[order[i]] = dt_certnode_bind(c->state->nodes, c->memo->out[i].node, c->symbols,
                                                order, fresh);
            fresh = false;
        }
    return bodies;
}

/* The chain of carried value k that starts from from[] at start. */
static CertNode *make_chain(Chains *c, uint32_t k, CertNode *const *from, const char *attributes)
{
    CertNode **in = DT_NEW_ARRAY(c->state->arena, CertNode *, 2 * c->n);
    Memo *memo = c->memo;
    uint32_t n = 1;
    if (!memo->bodies)
        memo->bodies = DT_NEW_ARRAY(c->state->arena, CertNode **, c->n);
    if (!memo->bodies[k])
        memo->bodies[k] = bodies_of(c, k);
    for (uint32_t i = 0; i < c->n; i++)
        if (c->needs[k * c->n + i]) {
            uint32_t at = i == k ? 0 : n++;
            in[2 * at] = from[i];
            in[2 * at + 1] = memo->bodies[k][at];
        }
    return dt_certnode_make(
        c->state->nodes,
        (CertNode){.kind = dt_certkind_chain, .attributes = attributes, .n_in = 2 * n, .in = in});
}

/* As the end of a loop, if it is. */
static CertNode *end_of(CertNode *x) { return x->behind ? x->behind : x; }

static CertNode *chain_of(Chains *c, uint32_t k)
{
    CertNode **from = DT_NEW_ARRAY(c->state->arena, CertNode *, c->n);
    CertNode *first = end_of(c->from[k].node);
    bool goes_on = true; /* every value that k depends on comes from the end of the same loop */
    if (c->chain[k])
        return c->chain[k];
    for (uint32_t i = 0; i < c->n; i++) {
        CertNode *x = end_of(c->from[i].node);
        bool behind = x->kind == behind_kind && x->lo == c->start;
        goes_on = goes_on && (behind || !c->needs[k * c->n + i]);
        from[i] = behind ? x->in[0]->in[0] : x;
    }
    if (goes_on && make_chain(c, k, from, first->in[0]->attributes) == first->in[0])
        return c->chain[k] = first->in[0];
    for (uint32_t i = 0; i < c->n; i++)
        from[i] = c->from[i].node;
    return c->chain[k] = make_chain(c, k, from,
                                    dt_intern_printf("%s %lld", c->symbols, (long long)c->start));
}

/* Where the body reads what a first run of the loop has left: takes carried values for those of that run if their
 * chains turn out to be its chains (cert_again.c). */
static void recall(Chains *c, const char *context, const CertValue *inputs)
{
    DtArena *arena = c->state->arena;
    CertNode **at = DT_NEW_ARRAY(arena, CertNode *, c->n), **symbols = DT_NEW_ARRAY(arena, CertNode *, c->n);
    Memo *memo = c->memo, *like = DT_NEW(arena, Memo);
    if (!memo->again) {
        memo->again = DT_NEW(arena, CertAgain);
        *memo->again = (CertAgain){.state = c->state, .context = context, .symbols = c->symbols};
        dt_certagain_list(memo->again, memo->out, c->n_out);
    }
    if (!dt_certagain_match(memo->again, c->from, c->n, at))
        return;
    for (uint32_t k = 0; k < c->n; k++)
        symbols[k] = inputs[1 + k].node;
    *like = (Memo){.out = DT_NEW_ARRAY(arena, CertValue, c->n_out)};
    memcpy(like->out, memo->out, c->n_out * sizeof like->out[0]);
    dt_certagain_replace(memo->again, at, symbols, c->n, like->out, c->n_out);
    Chains first = *c;
    first.memo = like;
    first.chain = DT_NEW_ARRAY(arena, CertNode *, c->n);
    first.needs = find_needs(&first);
    for (uint32_t k = 0; k < c->n; k++)
        if (at[k] && chain_of(&first, k) != at[k]->in[0])
            return;
    *c = first;
}

static bool is_own(const Chains *c, const CertNode *x, uint32_t k)
{
    return (x->kind == dt_certkind_carried && x->attributes == c->symbols && x->index == k) ||
           (x->kind == dt_certkind_at && x->in[0] == c->chain[k]);
}

/* Carried value k behind the loop if the body only adds to it what does not depend on it: what it started from and
 * the sum over the iterations, which several loops may share; NULL if it is no such. last: made where what the
 * loop carries are chains. */
static CertNode *accumulated(const Chains *c, uint32_t k, const CertLoop *loop, const char *context,
                             const CertNode *last)
{
    const CertNode *sum = c->memo->out[k].node;
    CertNodes *nodes = c->state->nodes;
    uint32_t n = 0, own = 0;
    CertNode *const *in, *const *made;
    if (!dt_cert_is(sum->kind, "add") || !dt_cert_is(last->kind, "add"))
        return NULL;
    const uint32_t n_in = dt_certnode_terms(nodes, sum, &in), n_made = dt_certnode_terms(nodes, last, &made);
    for (uint32_t i = 0; i < n_in; i++) {
        bool *needs = DT_NEW_ARRAY(c->state->arena, bool, c->n);
        if (is_own(c, in[i], k)) {
            own++;
            continue;
        }
        dt_certnode_symbols(nodes, in[i], c->symbols, true, needs);
        for (uint32_t j = 0; j < c->n; j++)
            if (needs[j] && c->needs[j * c->n + k])
                return NULL;
    }
    CertNode **terms = DT_NEW_ARRAY(c->state->arena, CertNode *, n_made + 1);
    for (uint32_t i = 0; i < n_made; i++) {
        CertNode *term = made[i];
        if (is_own(c, term, k))
            continue;
        CertNode *stack = dt_certnode_of(nodes, dt_certkind_stack, context, term->shape, term);
        terms[n++] = dt_certnode_make(nodes, (CertNode){.kind = dt_certkind_total,
                                                        .attributes = context,
                                                        .shape = term->shape,
                                                        .n_in = 1,
                                                        .in = &stack,
                                                        .lo = loop->first,
                                                        .hi = loop->first + loop->count});
    }
    if (own != 1 || n + 1 != n_made)
        return NULL;
    terms[n++] = c->from[k].node;
    return dt_certnode_sum(nodes, sum->shape, n, terms);
}

/* ---- loops ---- */

typedef struct Stack {
    CertState *state;
    CertLoop loop; /* of this stage */
    const char *context;
} Stack;

/* One iteration's part of a stacked value, in the loop that context names. */
static CertNode *part_of(void *data, CertNode *node)
{
    const Stack *s = data;
    if (node->kind == dt_certkind_stack && node->attributes == s->context)
        return node->in[0];
    return dt_certnode_of(s->state->nodes, part_kind, s->context,
                          dt_certnode_sliced(s->state->nodes, node->shape), node);
}

/* What the iterations of the loop that context names leave, stacked along axis. */
static CertNode *stack_of(void *data, CertNode *node)
{
    const Stack *s = data;
    const CertShape *shape = dt_certnode_stacked(s->state->nodes, node->shape, s->loop.axis);
    return dt_certnode_of(s->state->nodes, dt_certkind_stack, s->context, shape, node);
}

typedef struct Fixed {
    CertState *state;
    const CertValue *value;
    const char *attributes;
} Fixed;

static CertNode *range_of(void *data, CertNode *node)
{
    const Fixed *f = data;
    const CertShape *shape = dt_certnode_closed(f->state->nodes, node->shape, f->value->type, NULL);
    return dt_certnode_of(f->state->nodes, range_kind, f->attributes, shape, node);
}

/* A value of some iterations of another loop's axis goes into or out of a loop as what it is: those of its node. */
static CertNode *fixed(CertState *state, CertValue value, const char *loop)
{
    if (!value.loop || value.loop == loop || (!dt_certpack_is(value.node) && dt_certnode_is_zero(value.node)))
        return value.node;
    dt_certrange_close(state->program, &value);
    if (!value.loop)
        return value.node;
    const CertAxis *axis = dt_certtext_axis(value.type, value.loop);
    Fixed data = {state, &value, NULL};
    data.attributes = dt_intern_printf("%s %lld..%lld", value.loop, (long long)value.first,
                                       (long long)(value.first + axis->extent));
    return dt_certpack_each(state, value.node, range_of, &data);
}

static bool is_stacked(CertState *state, const CertOp *op, const CertType *whole,
                       const CertType *part)
{
    const CertAxis *axis = &whole->axes[0];
    if (whole->rank == 0 || axis->name != op->loop->axis || axis->n ||
        axis->extent != op->loop->count)
        return dt_certfunc_fail(state, op,
                                "a stacked value does not hold the iterations of the loop");
    return same_types(state, op, whole, 1, part, "a stacked value");
}

/* The body's inputs; false after a problem. */
static bool loop_inputs(Stack *stack, const CertOp *op, const CertFunc *body, const char *symbols,
                        const CertValue *in, CertValue *inputs)
{
    const CertLoop *loop = &stack->loop;
    CertState *state = stack->state;
    inputs[0] = (CertValue){.type = body->args.at[0]};
    inputs[0].node = dt_certnode_leaf(state->nodes, iteration_kind, stack->context,
                                      dt_certnode_shape(state->nodes, inputs[0].type, NULL), 0);
    for (uint32_t i = 0; i < op->n_in; i++) {
        CertValue *to = &inputs[1 + i];
        const CertType *type = body->args.at[1 + i];
        *to = in[i];
        if (i >= loop->carried + loop->invariant)
            dt_certfunc_cover(state, loop->axis, loop->first, to);
        to->type = type;
        if (i >= loop->carried + loop->invariant) {
            int64_t first = to->loop == loop->axis ? to->first : 0;
            CertValue whole = *to;
            whole.type = in[i].type;
            if (!is_stacked(state, op, in[i].type, type))
                return false;
            if (first != loop->first)
                return dt_certfunc_fail(
                    state, op, "a stacked operand does not hold the iterations of the loop");
            to->node = dt_certpack_each(state, fixed(state, whole, loop->axis), part_of, stack);
            to->loop = NULL;
            to->first = 0;
            continue;
        }
        if (!same_types(state, op, in[i].type, 0, type, "an operand"))
            return false;
        if (i >= loop->carried)
            continue;
        dt_certrange_close(state->program, to); /* of what goes in alone is known that it is whole, or of any range */
        memset(to->fill, CERT_ANYTHING, sizeof to->fill);
        to->node = dt_certnode_leaf(state->nodes, dt_certkind_carried, symbols,
                                    dt_certnode_shape(state->nodes, type, to->loop), i);
    }
    return true;
}

/* What the body leaves: a carried value as it came, others as what they are whatever loop they are in. */
static bool fix_results(Stack *stack, const CertOp *op, const CertValue *inputs, const Memo *memo)
{
    for (uint32_t k = 0; memo && k < op->n_out; k++) {
        CertValue *made = &memo->out[k];
        const CertValue *came = k < stack->loop.carried ? &inputs[1 + k] : NULL;
        if (came && came->loop) {
            dt_certfunc_cover(stack->state, came->loop, came->first, made);
            if (made->loop != came->loop || made->first != came->first)
                return dt_certfunc_fail(stack->state, op, "a carried value becomes one of other iterations");
            continue;
        }
        made->node = fixed(stack->state, *made, NULL);
        made->loop = NULL;
        made->first = 0;
    }
    return memo != NULL;
}

/* Whether another carried value, or what leaves the loop stacked, depends on k. */
static bool is_needed(const Chains *c, uint32_t k)
{
    bool needed = c->needs[c->n * c->n + k];
    for (uint32_t i = 0; i < c->n; i++)
        needed = needed || (i != k && c->needs[i * c->n + k]);
    return needed;
}

/* The body of chains where another carried value, or what leaves the loop, depends on them. */
static const Memo *evaluate_inside(Chains *c, const CertFunc *body, const char *context,
                                   CertValue *inputs)
{
    for (uint32_t k = 0; k < c->n; k++) {
        if (!is_needed(c, k))
            continue;
        inputs[1 + k].node = dt_certnode_of(c->state->nodes, dt_certkind_at, c->symbols,
                                            inputs[1 + k].node->shape, chain_of(c, k));
    }
    uint32_t values = c->state->values; /* the same ops again */
    const Memo *memo = evaluate(c->state, body, context, inputs);
    c->state->values = values;
    return memo;
}

/* Carried value k behind the loop. */
static CertNode *behind_of(Chains *c, uint32_t k, const CertLoop *loop, const CertType *type)
{
    CertNode *chain = chain_of(c, k);
    return dt_certnode_make(c->state->nodes,
                            (CertNode){.kind = behind_kind, .attributes = c->symbols,
                                       .shape = dt_certnode_shape(c->state->nodes, type, NULL), .n_in = 1,
                                       .in = &chain, .lo = loop->reverse ? loop->first : loop->first + loop->count});
}

static bool loop_results(Chains *c, const CertOp *op, Stack *stack, const Memo *inside,
                         CertValue *out)
{
    const CertLoop *loop = &stack->loop;
    CertState *state = c->state;
    for (uint32_t k = 0; k < op->n_out; k++) {
        const CertValue *made = &inside->out[k];
        memcpy(out[k].fill, made->fill, sizeof made->fill);
        if (k >= c->n) {
            if (!is_stacked(state, op, op->types[k], made->type))
                return false;
            out[k].node = dt_certpack_each(state, made->node, stack_of, stack);
            out[k].loop = loop->axis;
            out[k].first = loop->first;
            continue;
        }
        if (!same_types(state, op, made->type, 0, c->from[k].type, "a carried result") ||
            !same_types(state, op, made->type, 0, op->types[k], "a result"))
            return false;
        out[k].loop = made->loop;
        out[k].first = made->first;
        out[k].node = accumulated(c, k, loop, stack->context, made->node);
        if (out[k].node && is_needed(c, k)) /* the same loop may go on from there, elsewhere */
            out[k].node->behind = behind_of(c, k, loop, op->types[k]);
        if (out[k].node)
            continue;
        out[k].node = behind_of(c, k, loop, op->types[k]);
    }
    return true;
}

static bool loop_op(CertState *state, const CertOp *op, const char *outer_context,
                    const CertValue *in, CertValue *out)
{
    const CertLoop *loop = op->loop;
    const CertFunc *body = dt_certtext_func(state->program, op->func);
    if (!loop || !body || body->n_args != 1 + op->n_in || body->results.n != op->n_out ||
        op->n_in != loop->carried + loop->invariant + loop->stacked ||
        op->n_out != loop->carried + loop->stacked_out)
        return dt_certfunc_fail(state, op,
                                "a loop whose body is not there or takes other operands");
    if (loop->step && state->depth > 1)
        return dt_certfunc_fail(state, op,
                                "a loop in a function has other iterations on each stage");
    Stack stack = {state, *loop, dt_intern_printf("%s/%s", outer_context, loop->label)};
    stack.loop.first += state->behind * loop->step;
    loop = &stack.loop;
    const char *symbols = dt_intern_printf("%s %s", stack.context, loop->reverse ? "down" : "up");
    CertValue *inputs = DT_NEW_ARRAY(state->arena, CertValue, op->n_in + 1);
    if (!loop_inputs(&stack, op, body, symbols, in, inputs))
        return false;
    Memo *memo = evaluate(state, body, stack.context, inputs);
    if (!fix_results(&stack, op, inputs, memo))
        return false;
    Chains chains = {.state = state, .symbols = symbols, .memo = memo, .from = in,
                     .n = (uint32_t)loop->carried, .n_out = op->n_out,
                     .chain = DT_NEW_ARRAY(state->arena, CertNode *, loop->carried),
                     .start = loop->reverse ? loop->first + loop->count : loop->first};
    if (!memo->needs)
        memo->needs = find_needs(&chains);
    chains.needs = memo->needs;
    recall(&chains, stack.context, inputs);
    const Memo *inside = evaluate_inside(&chains, body, stack.context, inputs);
    return fix_results(&stack, op, inputs, inside) && loop_results(&chains, op, &stack, inside, out);
}

/* ---- functions ---- */

static bool run_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                   CertValue *out)
{
    bool across = (op->mesh & state->program->pipe) && dt_cert_is(op->kind, "all_reduce");
    bool source = dt_cert_is(op->kind, "param") || dt_cert_is(op->kind, "input");
    for (uint32_t i = 0; i < op->n_out; i++)
        out[i] = (CertValue){.type = op->types[i]};
    if ((across || source) && (state->depth > 1 || op->n_out != 1 || op->n_in != across))
        return dt_certfunc_fail(state, op, "`%s` inside a function, or of other operands",
                                op->kind);
    if (source)
        return state->source(state, op, out);
    if (across)
        return state->across(state, op, in[0], out);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!in[i].node)
            return true; /* what follows is not known yet either */
    if (dt_cert_is(op->kind, "call"))
        return call_op(state, op, context, in, out);
    if (dt_cert_is(op->kind, "loop"))
        return loop_op(state, op, context, in, out);
    return plain_op(state, op, context, in, out);
}

/* Memory for n values, zeroed, until the function at this depth returns. */
static CertValue *values_of(CertState *state, uint32_t n)
{
    CertValues *values = &state->frames[state->depth];
    if (values->n < n) {
        values->n = 2 * n;
        values->at = DT_NEW_ARRAY(state->arena, CertValue, values->n);
    }
    memset(values->at, 0, n * sizeof *values->at);
    return values->at;
}

static bool run(CertState *state, const CertFunc *func, const char *context,
                const CertValue *inputs, CertValue *ret_results)
{
    if (state->depth == CERT_DEPTH)
        return dt_certfunc_fail(state, NULL, "functions call each other too deeply");
    CertValue *values = values_of(state, func->n_values + func->most_in + 1), *in = values + func->n_values;
    state->depth++;
    state->func = func;
    for (uint32_t i = 0; i < func->n_args; i++)
        values[i] = inputs[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = values[op->in[k]];
        CertValue *out = &values[op->first_out];
        if (!run_op(state, op, context, in, out))
            return false;
        if (op->n_out == 1 && !op->alone && out->node)
            out->node = dt_certnode_close(state->nodes, out->node);
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = values[func->results.at[i]];
    state->depth--;
    return true;
}

bool dt_certfunc_run(CertState *state, const CertFunc *func, CertValue *ret_results)
{
    state->depth = 0;
    return run(state, func, dt_intern(""), NULL, ret_results);
}
