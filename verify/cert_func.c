/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and loops: computes the results of a function from its operands. A function is
 * evaluated once for equal operands in the same loops.
 *
 * The body of a loop is evaluated for "the iteration". Each value that a serial loop carries is
 * a node of its own in it; two loops of the serial program are equal if their initial values are
 * equal and their bodies compute the same from the same nodes. A value that a final loop carries
 * equals that of a serial loop if it begins with the serial loop's value and the body computes
 * its next value. */
#include "verify/internal.h"

#include "base/intern.h"


enum { MOST_OPS = 1 << 22 }; /* limits the number of ops: a text in which each function calls the
                              * next one twice would take exponential time */

static const char part_kind[] = "part", behind_kind[] = "behind", iteration_kind[] = "iteration";

/* A cached evaluation of a function: for these operands, inside these loops, under these names. */
typedef struct CertMemo Memo;
struct CertMemo {
    const CertFunc *func;
    const char *context; /* identifies the loops around it */
    const CertCarried *inside;
    CertCalled names;
    CertValue *in, *out;
    uint32_t values;
    const char *problem; /* why the evaluation failed, or NULL */
    uint64_t hash;
    Memo *next;
};

/* Returns zeroed memory for n values, which is valid until the function at this depth returns. */
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

/* ---- for all ---- */

void dt_certfunc_cover(CertState *state, const char *loop, int64_t first, CertValue *value)
{
    CertNode *number = value->node;
    if (value->loop == loop && value->first == CERT_ANY)
        value->first = first;
    /* a bucket of such values is stacked when it is packed */
    bool zeros = dt_certpack_is(number) && value->loop == loop;
    for (uint32_t i = 1; zeros && i < number->n_in; i += 2)
        zeros = dt_certnode_is_zero(number->in[i]);
    if (zeros)
        value->first = first;
    if ((value->loop == loop) || !dt_certnode_is_zero(number))
        return;
    while (number->n_in)
        number = number->in[0];
    value->loop = loop;
    value->first = first;
    value->node = dt_certnode_of(state->nodes, dt_intern("expand"), dt_intern(""),
                                 dt_certrange_all(state, value->type, loop), number);
}

/* ---- functions ---- */

static bool run_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                   CertValue *out);

/* Records the first op of the second serial program whose value does not occur in the first one. */
static void note_news(CertState *state, const CertOp *op, const CertValue *out)
{
    CertMeant *meant = state->meant;
    const bool inner = dt_cert_is(op->kind, "call") || dt_cert_is(op->kind, "loop");
    for (uint32_t i = 0; i < op->n_out && !inner && !meant->news; i++)
        if (out[i].node && !dt_certstep_is_known(state, out[i].node)) {
            meant->news = op;
            meant->news_in = state->func;
        }
}

static bool run(CertState *state, const CertFunc *func, const char *context,
                const CertCalled *names, const CertValue *inputs, CertValue *ret_results)
{
    const CertFunc *outer = state->func;
    const CertCalled outer_names = state->meant->names;
    if (state->depth == CERT_DEPTH)
        return dt_cert_fail(state, NULL, "functions call each other too deeply");
    CertValue *values = values_of(state, func->n_values + func->most_in + 1),
              *in = values + func->n_values;
    state->depth++;
    for (uint32_t i = 0; i < func->n_args; i++)
        values[i] = inputs[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = values[op->in[k]];
        state->func = func;
        state->meant->names = *names;
        if (++state->meant->ops > MOST_OPS)
            return dt_cert_fail(state, op, "functions that call others so often are not followed");
        if (!run_op(state, op, context, in, &values[op->first_out]))
            return false;
        if (state->is_serial && state->meant->known)
            note_news(state, op, &values[op->first_out]);
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = values[func->results.at[i]];
    state->depth--;
    state->func = outer;
    state->meant->names = outer_names;
    return true;
}

/* The state before an attempt to match a loop, to which go_back returns if the attempt fails. */
typedef struct Before {
    const CertFunc *func;
    uint32_t depth;
    CertCalled names;
    const CertCarried *inside;
    size_t said;
} Before;

static Before before(const CertState *state)
{
    return (Before){state->func, state->depth, state->meant->names, state->meant->inside,
                    state->problem->len};
}

static void go_back(CertState *state, const Before *to)
{
    state->func = to->func;
    state->depth = to->depth;
    state->meant->names = to->names;
    state->meant->inside = to->inside;
    state->problem->len = to->said;
}

static Memo **memo_slot(CertState *state, uint64_t hash)
{
    if (state->n_memos >= state->most_memos) {
        const uint32_t old = state->most_memos, most = old ? 4 * old : 1 << 10;
        Memo **from = state->memo, **to = DT_NEW_ARRAY(state->arena, Memo *, most);
        for (uint32_t i = 0; i < old; i++)
            for (Memo *m = from[i], *next; m; m = next) {
                Memo **slot = &to[(m->hash ^ m->hash >> 32) % most];
                next = m->next;
                m->next = *slot;
                *slot = m;
            }
        state->memo = to;
        state->most_memos = most;
    }
    return &state->memo[(hash ^ hash >> 32) % state->most_memos];
}

/* The results of func for known operands, from the cache if possible; NULL after a problem.
 * Functions of the final program with equal text share cached results; serial ones do not, since
 * each has numbers of its own. */
static const Memo *evaluate(CertState *state, const CertFunc *func, const char *context,
                            const CertCalled *names, const CertValue *in)
{
    const CertFunc *key = state->is_serial ? func : func->same;
    uint64_t hash =
        (uint64_t)(uintptr_t)key ^ (uint64_t)(uintptr_t)context ^ (uint64_t)(uintptr_t)names->label;
    size_t size = func->n_args * sizeof in[0];
    for (uint32_t i = 0; i < func->n_args; i++)
        hash = (hash ^ in[i].node->id) * UINT64_C(0x9E3779B97F4A7C15);
    for (Memo *m = *memo_slot(state, hash); m; m = m->next)
        if (m->hash == hash && m->func == key && m->context == context &&
            m->inside == state->meant->inside && m->names.path == names->path &&
            m->names.label == names->label && (size == 0 || memcmp(m->in, in, size) == 0)) {
            state->values += m->values;
            if (m->problem)
                dt_cert_fail(state, NULL, "%s", m->problem);
            return m->problem ? NULL : m;
        }
    Memo *memo = DT_NEW(state->arena, Memo);
    *memo = (Memo){.func = key, .context = context, .inside = state->meant->inside, .names = *names,
                   .hash = hash};
    memo->in = DT_NEW_ARRAY(state->arena, CertValue, func->n_args);
    memo->out = DT_NEW_ARRAY(state->arena, CertValue, func->results.n);
    if (size)
        memcpy(memo->in, in, size);
    const uint32_t values = state->values;
    const size_t said = state->problem->len;
    if (!run(state, func, context, names, in, memo->out))
        memo->problem = dt_arena_printf(
            state->arena, "%s", state->problem->len > said ? state->problem->at + said : "");
    memo->values = state->values - values;
    Memo **slot = memo_slot(state, hash); /* evaluating it has changed the table */
    memo->next = *slot;
    *slot = memo;
    state->n_memos++;
    return memo->problem ? NULL : memo;
}

static bool same_types(CertState *state, const CertOp *op, const CertType *have, uint32_t skip,
                       const CertType *want, const char *what)
{
    return dt_certrule_same(have, skip, have->partial, want) ||
           dt_cert_fail(state, op, "%s of `%s` lies otherwise than its function says", what,
                        op->func);
}

/* ---- calls ---- */

/* The results of a call are those of its function. Ops inside have the call's names before their
 * own, as if the call were inlined. */
static bool call_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                    CertValue *out)
{
    const CertFunc *func = dt_certtext_func(state->program, op->func);
    const CertCalled *outer = &state->meant->names;
    if (!func || func->n_args != op->n_in || func->results.n != op->n_out)
        return dt_cert_fail(state, op,
                            "a call of a function that is not there or takes other operands");
    const CertCalled names = {dt_certstep_join(outer->path, dt_certstep_join(op->path, op->text)),
                              dt_certstep_join(outer->label, op->text)};
    const CertValue *args = dt_certring_is(op) ? dt_certring_args(state, op, func, in) : in;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!same_types(state, op, args[i].type, 0, func->args.at[i], "an argument"))
            return false;
    const Memo *memo = evaluate(state, func, context, &names, args);
    for (uint32_t i = 0; memo && i < op->n_out; i++) {
        out[i] = memo->out[i];
        if (dt_certring_is(op) && dt_certring_gives(state, op, in, out[i].type, op->types[i]))
            out[i].type = op->types[i];
        if (!same_types(state, op, out[i].type, 0, op->types[i], "a result"))
            return false;
    }
    return memo != NULL;
}

/* ---- loops ---- */

/* A loop that is being evaluated. context identifies it together with the loops around it; symbols
 * is text of its place and direction, equal for loops that may be the same. */
typedef struct Stack {
    CertState *state;
    CertLoop loop; /* only the iterations of this stage */
    const char *context, *symbols;
} Stack;

/* For a loop of the final program, the loop of the serial program that it is compared with.
 * carried, by carried value: its number in the serial loop. lacks, by carried value: it does not
 * begin as the serial one does, so only the terms that iterations add are compared. */
typedef struct Goes {
    const CertCarried *loop;
    uint32_t *carried;
    bool *lacks;
} Goes;

/* Returns the node of one iteration's slice of a stacked value, in the loop s->context. */
static CertNode *part_of(void *data, CertNode *node)
{
    const Stack *s = data;
    node = dt_certrange_whole(node, &s->loop);
    if (node->kind == dt_certkind_stack && node->attributes == s->context)
        return node->in[0];
    const CertShape *shape = dt_certnode_resized(s->state->nodes, node->shape, s->loop.axis, 0);
    return dt_certnode_of(s->state->nodes, part_kind, s->context, shape, node);
}

/* Returns the node of an iteration's result stacked over all iterations of the loop s->context. */
static CertNode *stack_of(void *data, CertNode *node)
{
    const Stack *s = data;
    const int64_t count = dt_certrange_count(s->state, s->loop.axis);
    const CertShape *shape = dt_certnode_resized(s->state->nodes, node->shape, s->loop.axis,
                                                 count < 0 ? s->loop.count : count);
    return dt_certnode_of(s->state->nodes, dt_certkind_stack, s->context, shape, node);
}

/* Returns the node with which a value enters or leaves the loop over axis `loop`. If the value
 * covers some iterations of another loop, it is a node for those iterations alone. */
static CertNode *fixed(CertState *state, CertValue value, const char *loop)
{
    if (!value.loop || value.loop == loop ||
        (!dt_certpack_is(value.node) && dt_certstep_is_zero(value.node)))
        return value.node;
    dt_certrange_fix(state, &value);
    return value.node;
}

static bool is_stacked(CertState *state, const CertOp *op, const CertType *whole,
                       const CertType *part)
{
    const CertAxis *axis = &whole->axes[0];
    if (whole->rank == 0 || axis->name != op->loop->axis || axis->n ||
        axis->extent != op->loop->count)
        return dt_cert_fail(state, op, "a stacked value does not hold the iterations of the loop");
    return same_types(state, op, whole, 1, part, "a stacked value");
}

/* Sets goes->carried[k] to the serial loop's carried value that k corresponds to (by its number),
 * and goes->lacks[k]. False: there is none, or k begins otherwise and iterations do more than add
 * to it. */
static bool find_carried(const Stack *stack, const CertFunc *body, uint32_t k, CertNode *from,
                         Goes *goes)
{
    CertState *state = stack->state;
    const CertLoop *loop = &stack->loop;
    const int64_t start = loop->reverse ? loop->first + loop->count : loop->first;
    const CertMeaning *m = dt_certstep_numbered(state, body->means.at[1 + k]);
    while (m && (m->node->kind != dt_certkind_carried || m->node->note->loop != goes->loop))
        m = m->next;
    if (!m)
        return false;
    const CertNode *c = m->node;
    goes->carried[k] = c->note->carried;
    goes->lacks[k] = !dt_certsum_equal(
        state, from, dt_certsum_carried(state, goes->loop, goes->carried[k], start), NULL);
    return !goes->lacks[k] || dt_certsum_adds(goes->loop, goes->carried[k]);
}

/* Returns the node that stands for carried value k inside the body: in a serial program a new one
 * (or goes->loop's), in the final program that of the serial loop. NULL after a problem. */
static CertNode *carried_node(Stack *stack, const CertOp *op, const CertFunc *body, uint32_t k,
                              const CertValue *from, const CertShape *shape, Goes *goes)
{
    CertState *state = stack->state;
    if (state->is_serial) {
        CertNode *at = goes->loop ? goes->loop->at[k] : NULL;
        if (!at || at->shape != shape)
            at = dt_certnode_make(state->nodes, (CertNode){.kind = dt_certkind_carried,
                                                           .attributes = stack->symbols,
                                                           .shape = shape,
                                                           .index = k,
                                                           .lo = ++state->meant->symbols});
        dt_certstep_number(state, body->first + 1 + k, at);
        return at;
    }
    if (!find_carried(stack, body, k, from->node, goes)) {
        dt_cert_fail(state, op, "carried value %u does not begin with what it says it means", k);
        return NULL;
    }
    CertNode *at = goes->loop->at[goes->carried[k]];
    return goes->lacks[k] ? dt_certsum_lacking(state, at, at) : at;
}

/* Computes the body's inputs; false after a problem. */
static bool loop_inputs(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in,
                        CertValue *inputs, Goes *goes)
{
    const CertLoop *loop = &stack->loop;
    CertState *state = stack->state;
    inputs[0] = (CertValue){.type = body->args.at[0]};
    inputs[0].node = dt_certnode_leaf(state->nodes, iteration_kind, stack->context,
                                      dt_certnode_shape(state->nodes, inputs[0].type), 0);
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
                return dt_cert_fail(state, op,
                                    "a stacked operand does not hold the iterations of the loop");
            to->node = dt_certpack_each(state, fixed(state, whole, loop->axis), part_of, stack);
            to->loop = NULL;
            to->first = 0;
            continue;
        }
        if (!same_types(state, op, in[i].type, 0, type, "an operand"))
            return false;
        if (i >= loop->carried)
            continue;
        /* an initial value only shows that it is whole, or the same in any range */
        dt_certrange_close(state, to);
        memset(to->fill, CERT_ANYTHING, sizeof to->fill);
        to->node =
            carried_node(stack, op, body, i, &in[i], dt_certrange_all(state, type, to->loop), goes);
        if (!to->node)
            return false;
    }
    return true;
}

/* Sets the nodes with which the body's results leave the loop (see `fixed`). False after a problem:
 * a carried value covers other iterations than it did before. */
static bool fix_results(Stack *stack, const CertOp *op, const CertValue *inputs, CertValue *out)
{
    for (uint32_t k = 0; k < op->n_out; k++) {
        CertValue *made = &out[k];
        const CertValue *came = k < stack->loop.carried ? &inputs[1 + k] : NULL;
        if (came && came->loop) {
            dt_certfunc_cover(stack->state, came->loop, came->first, made);
            if (made->loop != came->loop || made->first != came->first)
                return dt_cert_fail(stack->state, op,
                                    "a carried value becomes one of other iterations");
            continue;
        }
        made->node = fixed(stack->state, *made, NULL);
        made->loop = NULL;
        made->first = 0;
    }
    return true;
}

/* Fills *loop with the nodes of a serial loop's operands and carried values, adds it to the serial
 * loops, and notes it at the nodes of carried values. Returns loop. */
static CertCarried *note_loop(const Stack *stack, CertCarried *loop, const CertValue *in,
                              const CertValue *inputs, const CertValue *made)
{
    CertState *state = stack->state;
    const uint32_t n = (uint32_t)stack->loop.carried;
    *loop = (CertCarried){.symbols = stack->symbols,
                          .first = stack->loop.first,
                          .count = stack->loop.count,
                          .reverse = stack->loop.reverse,
                          .n = n,
                          .n_in = loop->n_in,
                          .inside = state->meant->inside};
    CertNode **operands = DT_NEW_ARRAY(state->arena, CertNode *, loop->n_in);
    for (uint32_t i = 0; i < loop->n_in; i++)
        operands[i] = in[i].node;
    loop->in = operands;
    CertNode **all = DT_NEW_ARRAY(state->arena, CertNode *, (size_t)4 * n);
    loop->from = all;
    loop->at = all + n;
    loop->made = all + 2 * n;
    loop->out = all + 3 * n;
    DT_PUSH(state->arena, state->meant->loops, loop);
    for (uint32_t k = 0; k < n; k++) {
        loop->from[k] = in[k].node;
        loop->at[k] = inputs[1 + k].node;
        loop->made[k] = made[k].node;
        loop->out[k] = dt_certnode_of(state->nodes, behind_kind, stack->symbols, loop->at[k]->shape,
                                      loop->at[k]);
        dt_certstep_note(state, loop->at[k])->loop = dt_certstep_note(state, loop->out[k])->loop =
            loop;
        loop->at[k]->note->carried = loop->out[k]->note->carried = k;
    }
    return loop;
}

/* Returns the node of carried value k after a loop of the final program; NULL: the body does not
 * compute its next value as the serial loop does. */
static CertNode *behind(const Stack *stack, uint32_t k, const Goes *goes, const CertValue *from,
                        CertNode *made)
{
    CertState *state = stack->state;
    const CertLoop *loop = &stack->loop;
    const CertCarried *serial = goes->loop;
    CertNode *lacks = NULL, *at = serial->at[goes->carried[k]];
    if (!dt_certsum_equal(state, made, serial->made[goes->carried[k]], &lacks) ||
        lacks != (goes->lacks[k] ? at : NULL))
        return NULL;
    if (!lacks)
        return dt_certsum_carried(state, serial, goes->carried[k],
                                  loop->reverse ? loop->first : loop->first + loop->count);
    CertNode *terms[2] = {from->node, dt_certsum_total(state, serial, goes->carried[k], loop->first,
                                                       loop->first + loop->count)};
    return dt_certpack_sum(state, terms[1]->shape, 2, terms);
}

static bool becomes_other(CertState *state, const CertOp *op, uint32_t k, const CertNode *made,
                          const Goes *goes)
{
    if (state->problem->len)
        return false;
    dt_cert_fail(state, op, "carried value %u does not become what it says it means", k);
    if (made)
        dt_certnode_differ(made, goes->loop->made[goes->carried[k]], state->problem);
    return false;
}

static bool loop_results(Stack *stack, const CertOp *op, const CertValue *in, const CertValue *made,
                         const Goes *goes, const CertCarried *serial, CertValue *out)
{
    const CertLoop *loop = &stack->loop;
    CertState *state = stack->state;
    for (uint32_t k = 0; k < op->n_out; k++) {
        memcpy(out[k].fill, made[k].fill, sizeof made[k].fill);
        out[k].rest = made[k].rest;
        if (k >= loop->carried) {
            if (!is_stacked(state, op, op->types[k], made[k].type))
                return false;
            out[k].node = dt_certpack_each(state, made[k].node, stack_of, stack);
            out[k].loop = loop->axis;
            out[k].first = loop->first;
            continue;
        }
        if (!same_types(state, op, made[k].type, 0, in[k].type, "a carried result") ||
            !same_types(state, op, made[k].type, 0, op->types[k], "a result"))
            return false;
        out[k].loop = made[k].loop;
        out[k].first = made[k].first;
        out[k].node = serial ? serial->out[k] : behind(stack, k, goes, &in[k], made[k].node);
        if (!out[k].node)
            return becomes_other(state, op, k, made[k].node, goes);
    }
    return true;
}

static const CertCalled no_names = {"", ""};

/* Whether the body computes, from the nodes that this serial loop carries, what its own body
 * does. */
static bool is_unchanged(const CertCarried *loop, const CertValue *made)
{
    bool same = true;
    for (uint32_t k = 0; same && k < loop->n; k++)
        same = made[k].node == loop->made[k];
    return same;
}

/* Evaluates a loop. means: the serial loop that it is; in a serial program, one that it may equal
 * (NULL: it is new). */
static bool run_loop(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in,
                     const CertCarried *means, CertValue *out)
{
    CertState *state = stack->state;
    const uint32_t n = (uint32_t)op->loop->carried;
    Goes goes = {means, DT_NEW_ARRAY(state->arena, uint32_t, n),
                 DT_NEW_ARRAY(state->arena, bool, n)};
    CertValue *inputs = DT_NEW_ARRAY(state->arena, CertValue, op->n_in + 1),
              *made = DT_NEW_ARRAY(state->arena, CertValue, op->n_out);
    const Before start = before(state);
    if (!loop_inputs(stack, op, body, in, inputs, &goes))
        return false;
    CertCarried *fresh = state->is_serial && !means ? DT_NEW(state->arena, CertCarried) : NULL;
    if (fresh)
        *fresh = (CertCarried){.symbols = stack->symbols, .n_in = op->n_in};
    state->meant->inside = fresh ? fresh : means;
    const Memo *memo = evaluate(state, body, stack->context, &no_names, inputs);
    state->meant->inside = start.inside;
    if (!memo)
        return false;
    memcpy(made, memo->out, op->n_out * sizeof *made);
    if (!fix_results(stack, op, inputs, made) ||
        (state->is_serial && means && !is_unchanged(means, made)))
        return false;
    const CertCarried *serial = fresh              ? note_loop(stack, fresh, in, inputs, made)
                                : state->is_serial ? means
                                                   : NULL;
    return loop_results(stack, op, in, made, &goes, serial, out);
}

/* Whether the loop has the serial loop's place and direction, and only iterations that the serial
 * loop has. */
static bool is_part(const Stack *stack, const CertCarried *serial)
{
    const CertLoop *loop = &stack->loop;
    return serial->symbols == stack->symbols && loop->first >= serial->first &&
           loop->first + loop->count <= serial->first + serial->count;
}

/* Whether each carried value of the loop has a counterpart in the serial loop (goes->carried is
 * set) and begins as that one does. */
static bool begins_alike(const Stack *stack, const CertFunc *body, const CertValue *in, Goes *goes)
{
    bool alike = true;
    for (uint32_t k = 0; alike && k < stack->loop.carried; k++)
        alike = find_carried(stack, body, k, in[k].node, goes) && !goes->lacks[k];
    return alike;
}

/* Whether the serial loop may be the one to match: it is inside the serial loop that is being
 * matched, or not inside a loop of that place. So inner loops are not tried for every outer one. */
static bool is_inside(const CertState *state, const CertCarried *serial)
{
    const CertCarried *inside = state->meant->inside;
    return !inside || !serial->inside || serial->inside == inside ||
           serial->inside->symbols != inside->symbols;
}

/* Evaluates a loop of the final program. Its body may belong to several serial loops with the same
 * numbers: tries each until one matches. */
static bool any_loop(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in,
                     CertValue *out)
{
    CertState *state = stack->state;
    const uint32_t n = (uint32_t)stack->loop.carried;
    const Before start = before(state);
    Goes goes = {NULL, DT_NEW_ARRAY(state->arena, uint32_t, n),
                 DT_NEW_ARRAY(state->arena, bool, n)};
    for (int pass = 0; pass < 2; pass++)
        for (const CertMeaning *m = dt_certstep_numbered(state, body->means.at[1]); m;
             m = m->next) {
            const CertCarried *serial = goes.loop = m->node->note ? m->node->note->loop : NULL;
            if (m->node->kind != dt_certkind_carried || !serial || !is_part(stack, serial) ||
                !is_inside(state, serial) || begins_alike(stack, body, in, &goes) != (pass == 0))
                continue;
            go_back(state, &start); /* forgets why another loop did not match */
            if (run_loop(stack, op, body, in, serial, out))
                return true;
        }
    return dt_cert_fail(state, op, "a loop that carries what no loop of the serial program does");
}

/* A serial loop: the one met before, in another entry or text, if it has the same operands and
 * computes the same; else a new one. */
static bool serial_loop(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in,
                        CertValue *out)
{
    CertState *state = stack->state;
    const CertLoop *loop = &stack->loop;
    const Before start = before(state);
    for (uint32_t i = 0; loop->carried && i < state->meant->loops.n; i++) {
        CertCarried *known = state->meant->loops.at[i];
        bool alike = known->symbols == stack->symbols && known->first == loop->first &&
                     known->count == loop->count && known->n == loop->carried &&
                     known->n_in == op->n_in;
        for (uint32_t k = 0; alike && k < known->n_in; k++)
            alike = known->in[k] == in[k].node;
        if (alike && run_loop(stack, op, body, in, known, out)) {
            known->inside = known->inside == state->meant->inside ? known->inside : NULL;
            return true;
        }
        go_back(state, &start);
    }
    return run_loop(stack, op, body, in, NULL, out);
}

static bool loop_op(CertState *state, const CertOp *op, const char *outer_context,
                    const CertValue *in, CertValue *out)
{
    const CertLoop *loop = op->loop;
    const CertFunc *body = dt_certtext_func(state->program, op->func);
    if (!loop || !body || body->n_args != 1 + op->n_in || body->results.n != op->n_out ||
        op->n_in != loop->carried + loop->invariant + loop->stacked ||
        op->n_out != loop->carried + loop->stacked_out)
        return dt_cert_fail(state, op, "a loop whose body is not there or takes other operands");
    if (loop->step && state->depth > 1)
        return dt_cert_fail(state, op, "a loop in a function has other iterations on each stage");
    Stack stack = {
        .state = state,
        .loop = *loop,
        .context = dt_intern_printf("%s/%s", outer_context,
                                    dt_certstep_join(state->meant->names.label, loop->label))};
    stack.loop.first += state->behind * loop->step;
    stack.symbols = dt_intern_printf("%s %s", stack.context, loop->reverse ? "down" : "up");
    if (state->is_serial)
        return serial_loop(&stack, op, body, in, out);
    if (!loop->carried)
        return run_loop(&stack, op, body, in, NULL, out);
    return any_loop(&stack, op, body, in, out);
}

/* ---- all ---- */

static bool run_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                   CertValue *out)
{
    bool across = (op->mesh & state->program->pipe) && dt_cert_is(op->kind, "all_reduce");
    bool source = dt_cert_is(op->kind, "param") || dt_cert_is(op->kind, "input");
    for (uint32_t i = 0; i < op->n_out; i++)
        out[i] = (CertValue){.type = op->types[i]};
    if ((across || source) && (state->depth > 1 || op->n_out != 1 || op->n_in != across))
        return dt_cert_fail(state, op, "`%s` inside a function, or of other operands", op->kind);
    if (source)
        return state->source(state, op, out);
    if (across)
        return state->across(state, op, in[0], out);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!in[i].node)
            return true; /* values that depend on it are not known yet either */
    if (dt_cert_is(op->kind, "call"))
        return call_op(state, op, context, in, out);
    if (dt_cert_is(op->kind, "loop"))
        return loop_op(state, op, context, in, out);
    return dt_certstep_op(state, op, context, in, out);
}

bool dt_certfunc_run(CertState *state, const CertFunc *func, CertValue *ret_results)
{
    state->depth = 0;
    return run(state, func, dt_intern(""), &no_names, NULL, ret_results);
}
