/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and loops of the certificate by steps: see step.h. */
#include "verify/step.h"

#include "base/intern.h"

#include <stdio.h>

enum { MEMOS = 1 << 10 };

static const char part_kind[] = "part", range_kind[] = "range", behind_kind[] = "behind",
                  iteration_kind[] = "iteration", argument_kind[] = "argument";

/* A function of the final program, checked for operands. */
typedef struct CertMemo Memo;
struct CertMemo {
    const CertFunc *func;
    const char *context; /* names the loops around it */
    CertValue *in, *out;
    uint32_t values;
    Memo *next;
};

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

static bool run_op(CertState *state, const CertOp *op, const char *context, const CertValue *in, CertValue *out);

static bool run(CertState *state, const CertFunc *func, const char *context, const CertValue *inputs,
                CertValue *ret_results)
{
    if (state->depth == CERT_DEPTH)
        return dt_certfunc_fail(state, NULL, "functions call each other too deeply");
    const CertFunc *outer = state->func;
    CertValue *values = values_of(state, func->n_values + func->most_in + 1), *in = values + func->n_values;
    state->depth++;
    for (uint32_t i = 0; i < func->n_args; i++)
        values[i] = inputs[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = values[op->in[k]];
        state->func = func;
        if (!run_op(state, op, context, in, &values[op->first_out]))
            return false;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = values[func->results.at[i]];
    state->depth--;
    state->func = outer;
    return true;
}

/* What func makes of these operands, all of which are known; NULL after a problem. */
static Memo *evaluate(CertState *state, const CertFunc *func, const char *context, const CertValue *in)
{
    uint64_t hash = (uint64_t)(uintptr_t)func->same ^ (uint64_t)(uintptr_t)context;
    size_t size = func->n_args * sizeof in[0];
    for (uint32_t i = 0; i < func->n_args; i++)
        hash = (hash ^ in[i].node->id) * UINT64_C(0x9E3779B97F4A7C15);
    if (!state->memo)
        state->memo = DT_NEW_ARRAY(state->arena, Memo *, MEMOS);
    Memo **slot = &state->memo[(hash ^ hash >> 32) % MEMOS];
    for (Memo *m = *slot; m && !state->is_serial; m = m->next)
        if (m->func == func->same && m->context == context && (size == 0 || memcmp(m->in, in, size) == 0)) {
            state->values += m->values;
            return m;
        }
    Memo *memo = DT_NEW(state->arena, Memo);
    *memo = (Memo){.func = func->same, .context = context};
    memo->in = DT_NEW_ARRAY(state->arena, CertValue, func->n_args);
    memo->out = DT_NEW_ARRAY(state->arena, CertValue, func->results.n);
    if (size)
        memcpy(memo->in, in, size);
    uint32_t values = state->values;
    if (!run(state, func, context, in, memo->out))
        return NULL;
    memo->values = state->values - values;
    memo->next = *slot; /* evaluating it has filled the table */
    *slot = memo;
    return memo;
}

static bool same_types(CertState *state, const CertOp *op, const CertType *have, uint32_t skip, const CertType *want,
                       const char *what)
{
    return dt_certrule_same(have, skip, have->partial, want) ||
           dt_certfunc_fail(state, op, "%s of `%s` lies otherwise than its function says", what, op->func);
}

/* ---- calls ---- */

static CertNode *argument(CertState *state, const CertFunc *func, uint32_t i)
{
    return dt_certnode_leaf(state->nodes, argument_kind, func->name,
                            dt_certnode_shape(state->nodes, func->args.at[i], NULL), i);
}

/* The loops around what a function does, whoever calls it. */
static const char *inside(const CertFunc *func) { return dt_intern_printf("in %s", func->name); }

/* What a function of the serial program makes of its arguments; NULL after a problem. */
static CertNode **made_by(CertState *state, const CertFunc *func)
{
    Step *step = state->step;
    for (uint32_t i = 0; i < step->funcs.n; i++)
        if (step->funcs.at[i].func == func)
            return step->funcs.at[i].made;
    CertValue *args = DT_NEW_ARRAY(state->arena, CertValue, func->n_args),
              *out = DT_NEW_ARRAY(state->arena, CertValue, func->results.n);
    CertNode **made = DT_NEW_ARRAY(state->arena, CertNode *, func->results.n);
    for (uint32_t i = 0; i < func->n_args; i++)
        args[i] = (CertValue){.node = argument(state, func, i), .type = func->args.at[i]};
    if (!run(state, func, inside(func), args, out))
        return NULL;
    for (uint32_t i = 0; i < func->results.n; i++)
        made[i] = out[i].node;
    DT_PUSH(state->arena, step->funcs, ((StepMade){func, made}));
    return made;
}

static bool serial_call(CertState *state, const CertOp *op, const CertFunc *func, const char *context,
                        const CertValue *in, CertValue *out)
{
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, op->n_in),
             **outs = DT_NEW_ARRAY(state->arena, CertNode *, op->n_out), **made = made_by(state, func);
    for (uint32_t i = 0; i < op->n_in; i++)
        nodes[i] = in[i].node;
    for (uint32_t i = 0; made && i < op->n_out; i++) {
        outs[i] = dt_step_node(state, (CertNode){.kind = op->kind, .attributes = context, .n_in = op->n_in,
                                                 .in = nodes, .index = i,
                                                 .shape = dt_certnode_shape(state->nodes, op->types[i], NULL)});
        StepNote *note = dt_step_note(state, outs[i]);
        note->func = func;
        note->outs = outs;
        note->made = made;
        dt_step_number(state, state->func->first + op->first_out + i, outs[i]);
        out[i].node = outs[i];
    }
    return made != NULL;
}

/* Of the serial calls with the number that op says: one in these loops whose operands mean these. */
static const CertNode *called(CertState *state, const CertOp *op, const char *context, const CertValue *in)
{
    const StepMeaning *m = op->means && op->n_out ? dt_step_numbered(state, op->means[0]) : NULL;
    for (; m; m = m->next) {
        const CertNode *s = m->node;
        bool good = s->note && s->note->func && s->index == 0 && s->attributes == context && s->n_in == op->n_in &&
                    s->note->func->results.n == op->n_out;
        for (uint32_t i = 0; good && i < op->n_in; i++)
            good = dt_step_equal(state, in[i].node, s->in[i], NULL);
        if (good)
            return s;
    }
    return NULL;
}

static bool call_op(CertState *state, const CertOp *op, const char *context, const CertValue *in, CertValue *out)
{
    const CertFunc *func = dt_certtext_func(state->program, op->func);
    if (!func || func->n_args != op->n_in || func->results.n != op->n_out)
        return dt_certfunc_fail(state, op, "a call of a function that is not there or takes other operands");
    if (state->is_serial)
        return serial_call(state, op, func, context, in, out);
    const CertNode *s = called(state, op, context, in);
    if (!s)
        return dt_certfunc_fail(state, op, "a call that is none of the serial program's, or of other values");
    const CertValue *args = dt_certring_is(op) ? dt_certring_args(state, op, func, in) : in;
    CertValue *inner = DT_NEW_ARRAY(state->arena, CertValue, op->n_in);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!same_types(state, op, args[i].type, 0, func->args.at[i], "an argument"))
            return false;
        inner[i] = args[i];
        inner[i].type = func->args.at[i];
        inner[i].node = argument(state, s->note->func, i);
    }
    const Memo *memo = evaluate(state, func, inside(s->note->func), inner);
    for (uint32_t i = 0; memo && i < op->n_out; i++) {
        if (!dt_step_equal(state, memo->out[i].node, s->note->made[i], NULL))
            return dt_certfunc_fail(state, op, "`%s` does not make what `%s` does", op->func, s->note->func->name);
        out[i] = memo->out[i];
        out[i].node = s->note->outs[i];
        if (dt_certring_is(op) && dt_certring_gives(state, op, in, out[i].type, op->types[i]))
            out[i].type = op->types[i];
        if (!same_types(state, op, out[i].type, 0, op->types[i], "a result"))
            return false;
    }
    return memo != NULL;
}

/* ---- loops ---- */

typedef struct Stack {
    CertState *state;
    CertLoop loop; /* of this stage */
    const char *context, *symbols;
} Stack;

/* What a loop of the final program carries: number in the serial loop that it means; whether it did not begin with what
 * that one did: then what is added is looked at. */
typedef struct Goes {
    const StepLoop *loop;
    uint32_t *carried;
    bool *lacks;
} Goes;

/* One iteration's part of a stacked value, in the loop that context names. */
static CertNode *part_of(void *data, CertNode *node)
{
    const Stack *s = data;
    if (node->kind == dt_certkind_stack && node->attributes == s->context)
        return node->in[0];
    return dt_certnode_of(s->state->nodes, part_kind, s->context, dt_certnode_sliced(s->state->nodes, node->shape),
                          node);
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
    if (!value.loop || value.loop == loop || (!dt_certpack_is(value.node) && dt_step_is_zero(value.node)))
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

static bool is_stacked(CertState *state, const CertOp *op, const CertType *whole, const CertType *part)
{
    const CertAxis *axis = &whole->axes[0];
    if (whole->rank == 0 || axis->name != op->loop->axis || axis->n || axis->extent != op->loop->count)
        return dt_certfunc_fail(state, op, "a stacked value does not hold the iterations of the loop");
    return same_types(state, op, whole, 1, part, "a stacked value");
}

/* Which carried value of the serial loop k is, by its number, and how it begins. */
static bool find_carried(const Stack *stack, const CertFunc *body, uint32_t k, CertNode *from, Goes *goes)
{
    CertState *state = stack->state;
    const CertLoop *loop = &stack->loop;
    const int64_t start = loop->reverse ? loop->first + loop->count : loop->first;
    const StepMeaning *m = dt_step_numbered(state, body->means.at[1 + k]);
    while (m && (m->node->kind != dt_certkind_carried || m->node->note->loop != goes->loop))
        m = m->next;
    if (!m)
        return false;
    const CertNode *c = m->node;
    goes->carried[k] = c->note->carried;
    goes->lacks[k] = !dt_step_equal(state, from, dt_step_carried(state, goes->loop, goes->carried[k], start), NULL);
    return !goes->lacks[k] || dt_step_adds(goes->loop, goes->carried[k]);
}

/* What stands for carried value k in the body. */
static CertNode *carried_node(Stack *stack, const CertOp *op, const CertFunc *body, uint32_t k, const CertValue *from,
                              const CertShape *shape, Goes *goes)
{
    CertState *state = stack->state;
    if (state->is_serial) {
        CertNode *at = dt_step_node(state, (CertNode){.kind = dt_certkind_carried, .attributes = stack->symbols,
                                                      .shape = shape, .index = k});
        dt_step_number(state, body->first + 1 + k, at);
        return at;
    }
    if (!find_carried(stack, body, k, from->node, goes)) {
        dt_certfunc_fail(state, op, "carried value %u does not begin with what it says it means", k);
        return NULL;
    }
    CertNode *at = goes->loop->at[goes->carried[k]];
    return goes->lacks[k] ? dt_certnode_of(state->nodes, dt_stepkind_lacks, "", at->shape, at) : at;
}

/* The body's inputs; false after a problem. */
static bool loop_inputs(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in, CertValue *inputs,
                        Goes *goes)
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
                return dt_certfunc_fail(state, op, "a stacked operand does not hold the iterations of the loop");
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
        to->node = carried_node(stack, op, body, i, &in[i], dt_certnode_shape(state->nodes, type, to->loop), goes);
        if (!to->node)
            return false;
    }
    return true;
}

/* What the body leaves: a carried value as it came, others as what they are whatever loop they are in. */
static bool fix_results(Stack *stack, const CertOp *op, const CertValue *inputs, CertValue *out)
{
    for (uint32_t k = 0; k < op->n_out; k++) {
        CertValue *made = &out[k];
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
    return true;
}

/* Notes what the serial loop carries. */
static StepLoop *note_loop(const Stack *stack, const CertValue *in, const CertValue *inputs, const CertValue *made)
{
    CertState *state = stack->state;
    StepLoop *loop = DT_NEW(state->arena, StepLoop);
    const uint32_t n = (uint32_t)stack->loop.carried;
    *loop = (StepLoop){.symbols = stack->symbols, .first = stack->loop.first, .count = stack->loop.count,
                       .reverse = stack->loop.reverse, .n = n};
    CertNode **all = DT_NEW_ARRAY(state->arena, CertNode *, (size_t)4 * n);
    loop->from = all;
    loop->at = all + n;
    loop->made = all + 2 * n;
    loop->out = all + 3 * n;
    for (uint32_t k = 0; k < n; k++) {
        loop->from[k] = in[k].node;
        loop->at[k] = inputs[1 + k].node;
        loop->made[k] = made[k].node;
        loop->out[k] = dt_step_node(state, (CertNode){.kind = behind_kind, .attributes = stack->symbols,
                                                      .shape = inputs[1 + k].node->shape, .n_in = 1,
                                                      .in = &loop->at[k]});
        dt_step_note(state, loop->at[k])->loop = dt_step_note(state, loop->out[k])->loop = loop;
        loop->at[k]->note->carried = loop->out[k]->note->carried = k;
    }
    return loop;
}

/* Carried value k behind the final loop, if the body has made the next of it; NULL: it has not. */
static CertNode *behind(const Stack *stack, uint32_t k, const Goes *goes, const CertValue *from, CertNode *made)
{
    CertState *state = stack->state;
    const CertLoop *loop = &stack->loop;
    const StepLoop *serial = goes->loop;
    bool lacks = false;
    if (!dt_step_equal(state, made, serial->made[goes->carried[k]], &lacks) || lacks != goes->lacks[k])
        return NULL;
    if (!lacks)
        return dt_step_carried(state, serial, goes->carried[k],
                               loop->reverse ? loop->first : loop->first + loop->count);
    CertNode *terms[2] = {from->node, dt_step_total(state, serial, goes->carried[k], loop->first,
                                                    loop->first + loop->count)};
    return dt_step_sum(state, terms[1]->shape, 2, terms);
}

static bool loop_results(Stack *stack, const CertOp *op, const CertValue *in, const CertValue *made, const Goes *goes,
                         const StepLoop *serial, CertValue *out)
{
    const CertLoop *loop = &stack->loop;
    CertState *state = stack->state;
    for (uint32_t k = 0; k < op->n_out; k++) {
        memcpy(out[k].fill, made[k].fill, sizeof made[k].fill);
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
            return dt_certfunc_fail(state, op, "carried value %u does not become what it says it means", k);
    }
    return true;
}

static bool run_loop(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in, const StepLoop *means,
                     CertValue *out)
{
    CertState *state = stack->state;
    const uint32_t n = (uint32_t)op->loop->carried;
    Goes goes = {means, DT_NEW_ARRAY(state->arena, uint32_t, n), DT_NEW_ARRAY(state->arena, bool, n)};
    CertValue *inputs = DT_NEW_ARRAY(state->arena, CertValue, op->n_in + 1),
              *made = DT_NEW_ARRAY(state->arena, CertValue, op->n_out);
    if (!loop_inputs(stack, op, body, in, inputs, &goes))
        return false;
    const Memo *memo = evaluate(state, body, stack->context, inputs);
    if (!memo)
        return false;
    memcpy(made, memo->out, op->n_out * sizeof *made);
    if (!fix_results(stack, op, inputs, made))
        return false;
    StepLoop *serial = state->is_serial ? note_loop(stack, in, inputs, made) : NULL;
    if (!loop_results(stack, op, in, made, &goes, serial, out))
        return false;
    for (uint32_t i = 0; serial && i < op->n_in; i++)
        DT_PUSH(state->arena, serial->in, in[i].node);
    for (uint32_t i = 0; serial && i < op->n_out; i++)
        DT_PUSH(state->arena, serial->result, out[i]);
    return true;
}

/* Whether its iterations are some of the serial loop's, in the same order. */
static bool is_part(const Stack *stack, const StepLoop *serial)
{
    const CertLoop *loop = &stack->loop;
    return serial->symbols == stack->symbols && loop->first >= serial->first &&
           loop->first + loop->count <= serial->first + serial->count;
}

/* Whether all that the loop carries begins with what the serial one carries there. */
static bool begins_alike(const Stack *stack, const CertFunc *body, const CertValue *in, Goes *goes)
{
    bool alike = true;
    for (uint32_t k = 0; alike && k < stack->loop.carried; k++)
        alike = find_carried(stack, body, k, in[k].node, goes) && !goes->lacks[k];
    return alike;
}

/* A body may belong to several loops of the serial program: one of them is meant. */
static bool any_loop(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in, CertValue *out)
{
    CertState *state = stack->state;
    const CertFunc *outer = state->func;
    const uint32_t depth = state->depth, n = (uint32_t)stack->loop.carried;
    const size_t said = state->problem->len;
    Goes goes = {NULL, DT_NEW_ARRAY(state->arena, uint32_t, n), DT_NEW_ARRAY(state->arena, bool, n)};
    for (int pass = 0; pass < 2; pass++)
        for (const StepMeaning *m = dt_step_numbered(state, body->means.at[1]); m; m = m->next) {
            const StepLoop *serial = goes.loop = m->node->note ? m->node->note->loop : NULL;
            if (m->node->kind != dt_certkind_carried || !serial || !is_part(stack, serial) ||
                begins_alike(stack, body, in, &goes) != (pass == 0))
                continue;
            state->problem->len = said; /* what another one was not */
            if (run_loop(stack, op, body, in, serial, out))
                return true;
            state->func = outer;
            state->depth = depth;
        }
    return dt_certfunc_fail(state, op, "a loop that carries what no loop of the serial program does");
}

/* What it made when it was run before, in another entry, of the same; NULL: it was not. */
static const StepLoop *known_loop(const Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in)
{
    CertState *state = stack->state;
    const CertLoop *loop = &stack->loop;
    const StepMeaning *m = loop->carried ? dt_step_numbered(state, body->first + 1) : NULL;
    for (; m; m = m->next) {
        const StepLoop *known = m->node->note ? m->node->note->loop : NULL;
        bool same = known && known->symbols == stack->symbols && known->first == loop->first &&
                    known->count == loop->count && known->n == loop->carried && known->in.n == op->n_in;
        for (uint32_t i = 0; same && i < op->n_in; i++)
            same = known->in.at[i] == in[i].node;
        if (same)
            return known;
    }
    return NULL;
}

static bool serial_loop(Stack *stack, const CertOp *op, const CertFunc *body, const CertValue *in, CertValue *out)
{
    const StepLoop *known = known_loop(stack, op, body, in);
    if (!known)
        return run_loop(stack, op, body, in, NULL, out);
    memcpy(out, known->result.at, op->n_out * sizeof *out);
    return true;
}

static bool loop_op(CertState *state, const CertOp *op, const char *outer_context, const CertValue *in, CertValue *out)
{
    const CertLoop *loop = op->loop;
    const CertFunc *body = dt_certtext_func(state->program, op->func);
    if (!loop || !body || body->n_args != 1 + op->n_in || body->results.n != op->n_out ||
        op->n_in != loop->carried + loop->invariant + loop->stacked || op->n_out != loop->carried + loop->stacked_out)
        return dt_certfunc_fail(state, op, "a loop whose body is not there or takes other operands");
    if (loop->step && state->depth > 1)
        return dt_certfunc_fail(state, op, "a loop in a function has other iterations on each stage");
    Stack stack = {.state = state, .loop = *loop,
                   .context = dt_intern_printf("%s/%s", outer_context, loop->label)};
    stack.loop.first += state->behind * loop->step;
    stack.symbols = dt_intern_printf("%s %s", stack.context, loop->reverse ? "down" : "up");
    if (state->is_serial)
        return serial_loop(&stack, op, body, in, out);
    if (!loop->carried)
        return run_loop(&stack, op, body, in, NULL, out);
    return any_loop(&stack, op, body, in, out);
}

/* ---- all ---- */

static bool run_op(CertState *state, const CertOp *op, const char *context, const CertValue *in, CertValue *out)
{
    bool across = (op->mesh & state->program->pipe) && dt_cert_is(op->kind, "all_reduce");
    bool source = dt_cert_is(op->kind, "param") || dt_cert_is(op->kind, "input");
    for (uint32_t i = 0; i < op->n_out; i++)
        out[i] = (CertValue){.type = op->types[i]};
    if ((across || source) && (state->depth > 1 || op->n_out != 1 || op->n_in != across))
        return dt_certfunc_fail(state, op, "`%s` inside a function, or of other operands", op->kind);
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
    return dt_step_op(state, op, context, in, out);
}

bool dt_step_run(CertState *state, const CertFunc *func, CertValue *ret_results)
{
    state->depth = 0;
    return run(state, func, dt_intern(""), NULL, ret_results);
}
