/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and loops: from the nodes of the inputs to the nodes of the results, each op's placement checked on
 * the way.
 *
 * A loop's body is evaluated once, for "the iteration". What the loop carries is a symbol in it,
 * `carried`; a stacked operand is the `slice` of a stack. A carried value is the node `chain`: where the loop starts,
 * and, of it and all carried values that it depends on, what they start from and what the body makes of
 * them. Outside the body "its value at the iteration" is `at(chain)`, its value behind the loop `behind(chain)`. So:
 *  - A stack that one loop has left and another over the same iterations reads is what the first body computed
 *    there. A value that is computed again has the number of the one that was saved.
 *  - A loop that continues where another with the same body ended is that loop: a loop cut into pipeline stages has
 *    the number of the whole one.
 *  - Which other values a loop carries or leaves is without meaning: a loop may be done as two. */
#include "verify/internal.h"

#include "base/intern.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

bool dt_certfunc_fail(CertState *state, const CertOp *op, const char *format, ...)
{
    va_list args;
    if (state->problem->len)
        return false;
    va_start(args, format);
    dt_text_vprintf(state->problem, format, args);
    va_end(args);
    if (op)
        dt_text_printf(state->problem, " (function %s, line %u of the program %s)",
                       state->func ? state->func->name : "?", op->line, op->where);
    return false;
}

const CertType *dt_certfunc_open(CertState *state, const CertType *type, const char *loop)
{
    const CertAxis *axis = loop ? dt_certtext_axis(type, loop) : NULL;
    if (!axis)
        return type;
    CertType *copy = DT_NEW(state->arena, CertType);
    *copy = *type;
    copy->axes[axis - type->axes].extent = -1;
    return copy;
}

static bool is(const CertOp *op, const char *kind) { return strcmp(op->kind, kind) == 0; }

/* What an op's text says beside its operands and result. */
static const char *attributes_of(const CertOp *op, const char *context, const CertValue *in)
{
    DtText text = {0};
    const char *window = is(op, "window") || is(op, "fold") ? dt_certhalo_attributes(op, in) : NULL;
    if (window)
        return window;
    dt_text_add(&text, op->attributes);
    if (is(op, "shift"))
        dt_text_printf(&text, " [%s]", dt_certrule_shifted(in[0].type, op->mesh)->name);
    const char *axes[CERT_RANK];
    for (uint32_t i = 0; i < op->n_axes; i++) { /* the order of what is summed over is free */
        uint32_t k = i;
        for (; (is(op, "reduce") || is(op, "dot")) && k > 0 && strcmp(axes[k - 1], op->axes[i]) > 0;
             k--)
            axes[k] = axes[k - 1];
        axes[k] = op->axes[i];
    }
    for (uint32_t i = 0; i < op->n_axes; i++)
        dt_text_printf(&text, " [%s]", axes[i]);
    for (uint32_t i = 0; i < op->n_axes2; i++)
        dt_text_printf(&text, " ;[%s]", op->axes2[i]);
    if (is(op, "rng"))
        dt_text_printf(&text, " %s %s %s", context, op->path ? op->path : "",
                       op->text ? op->text : "");
    if (is(op, "reduce") && in[0].loop)
        for (uint32_t i = 0; i < op->n_axes; i++)
            if (op->axes[i] == in[0].loop)
                dt_text_printf(
                    &text, " over=%lld:%lld", (long long)in[0].first,
                    (long long)(in[0].first + dt_certtext_axis(in[0].type, in[0].loop)->extent));
    const char *result = dt_intern_n(text.at, text.len);
    dt_text_free(&text);
    return result;
}

/* x of reduce[@m](where(iota[@m] == 0, x, 0)), which is x kept on the first rank; or NULL. */
static CertNode *kept_on_first(const CertOp *op, const CertValue *in)
{
    const CertNode *where = in[0].node;
    if (!is(op, "reduce") || op->n_axes != 1 || op->axes[0][0] != '@' ||
        strcmp(op->reduce, "sum") != 0 || strcmp(where->kind, "where") != 0 ||
        !dt_certnode_is_zero(where->in[2]))
        return NULL;
    const CertNode *first = where->in[0];
    if (strcmp(first->kind, "eq") != 0 || strcmp(first->in[0]->kind, "iota") != 0 ||
        !dt_certnode_is_zero(first->in[1]))
        return NULL;
    if (first->in[0]->rank != 1 || first->in[0]->axes[0] != op->axes[0])
        return NULL;
    for (uint32_t i = 0; i < where->in[1]->rank; i++)
        if (where->in[1]->axes[i] == op->axes[0])
            return NULL;
    return where->in[1];
}

static bool moves_only(const CertOp *op)
{
    static const char *const kinds[] = {"bind",       "all_reduce", "reduce_scatter",
                                        "all_gather", "all_to_all", "shard"};
    for (size_t i = 0; i < DT_COUNT(kinds); i++)
        if (is(op, kinds[i]))
            return true;
    return false;
}

/* Iterations that the result covers: those of the operands, which agree. */
static bool range_of(CertState *state, const CertOp *op, const CertValue *in, CertValue *ret_value)
{
    ret_value->loop = NULL;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!in[i].loop || !dt_certtext_axis(ret_value->type, in[i].loop))
            continue;
        if (ret_value->loop && (ret_value->loop != in[i].loop || ret_value->first != in[i].first))
            return dt_certfunc_fail(state, op, "`%s` of values of different iterations", op->kind);
        ret_value->loop = in[i].loop;
        ret_value->first = in[i].first;
    }
    return true;
}

static bool plain_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                     CertValue *out)
{
    CertNode **nodes = DT_NEW_ARRAY(state->arena, CertNode *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        nodes[i] = in[i].node;
    if (is(op, "pack") || is(op, "unpack"))
        return dt_certpack_op(state, op, in, out);
    if (!dt_certrule_check(state, op, in))
        return false;
    bool on_buckets = false;
    for (uint32_t i = 0; i < op->n_in; i++)
        on_buckets = on_buckets || dt_certpack_is(in[i].node);
    const char *attributes = attributes_of(op, context, in);
    for (uint32_t i = 0; i < op->n_out; i++) {
        out[i].type = op->types[i];
        if (!range_of(state, op, in, &out[i]))
            return false;
        const CertType *type = dt_certfunc_open(state, op->types[i], out[i].loop);
        CertNode *kept = op->n_in ? kept_on_first(op, in) : NULL;
        if (!kept && is(op, "relabel"))
            kept = dt_certhalo_merge(state, op, nodes[0], type);
        if (moves_only(op)) {
            out[i].node = nodes[0];
        } else if (on_buckets) {
            if (!dt_certpack_map(state, op, attributes, in, i, &out[i]))
                return false;
        } else if (kept) {
            out[i].node = kept;
        } else if (is(op, "add")) {
            out[i].node = dt_certnode_sum(state->nodes, type, op->n_in, nodes);
        } else if (is(op, "cast")) {
            out[i].node = dt_certnode_cast(state->nodes, type, nodes[0]);
        } else {
            out[i].node =
                dt_certnode_make(state->nodes, op->kind, attributes, type, op->n_in, nodes, i);
        }
    }
    return true;
}

/* ---- calls and loops ---- */

static bool same_types(CertState *state, const CertOp *op, const CertType *have,
                       const CertType *want, const char *what)
{
    return dt_certrule_same(have, want) ||
           dt_certfunc_fail(state, op, "%s of `%s` lies otherwise than its function says", what,
                            op->func);
}

static bool call_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                    CertValue *out)
{
    const CertFunc *func = dt_certtext_func(state->program, op->func), *outer = state->func;
    if (!func || func->n_args != op->n_in || func->results.n != op->n_out)
        return dt_certfunc_fail(state, op,
                                "a call of a function that is not there or takes other operands");
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!same_types(state, op, in[i].type, func->args.at[i], "an argument"))
            return false;
    bool ok = dt_certfunc_run(state, func, context, in, out);
    for (uint32_t i = 0; ok && i < op->n_out; i++)
        ok = same_types(state, op, out[i].type, op->types[i], "a result");
    state->func = outer;
    return ok;
}

/* ---- chains: what a loop carries ---- */

typedef struct Chains {
    CertState *state;
    const char *symbols; /* attributes of this loop's symbols */
    uint32_t n;
    CertNode *const *from, *const *made;
    bool *needs; /* n x n: chain i depends on chain k */
    CertNode **chain;
    int64_t start;
    uint32_t *order; /* of the chain being made: its number of each carried value */
} Chains;

static void find_symbols(const Chains *c, const CertNode *x, bool *seen, bool *needs)
{
    if (seen[x->id])
        return;
    seen[x->id] = true;
    if (x->attributes == c->symbols && strcmp(x->kind, "carried") == 0)
        needs[x->index] = true;
    for (uint32_t i = 0; i < x->n_in; i++)
        find_symbols(c, x->in[i], seen, needs);
}

static void find_needs(Chains *c)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->n; i++)
        most = c->made[i]->id > most ? c->made[i]->id : most;
    for (uint32_t i = 0; i < c->n; i++) { /* operands are older than what is made of them */
        find_symbols(c, c->made[i], DT_NEW_ARRAY(c->state->arena, bool, most + 1),
                     &c->needs[i * c->n]);
        c->needs[i * c->n + i] = true;
    }
    for (uint32_t k = 0; k < c->n; k++)
        for (uint32_t i = 0; i < c->n; i++)
            for (uint32_t j = 0; j < c->n; j++)
                c->needs[i * c->n + j] |= c->needs[i * c->n + k] && c->needs[k * c->n + j];
}

static CertNode *numbered(void *data, CertNode *node)
{
    Chains *c = data;
    if (node->attributes != c->symbols || strcmp(node->kind, "carried") != 0)
        return NULL;
    CertType type = dt_certnode_type(node);
    return dt_certnode_make(c->state->nodes, "carried", "", &type, 0, NULL, c->order[node->index]);
}

/* The chain of carried value k that starts from from[] at start. */
static CertNode *make_chain(Chains *c, uint32_t k, CertNode *const *from, const char *attributes)
{
    CertNode **in = DT_NEW_ARRAY(c->state->arena, CertNode *, 2 * c->n + 1);
    uint32_t n = 0;
    c->order[k] = n++;
    for (uint32_t i = 0; i < c->n; i++)
        if (i != k && c->needs[k * c->n + i])
            c->order[i] = n++;
    CertReplace *replace = dt_certnode_replacing(c->state->nodes, numbered, c);
    for (uint32_t i = 0; i < c->n; i++)
        if (c->needs[k * c->n + i]) {
            in[2 * c->order[i]] = from[i];
            in[2 * c->order[i] + 1] = dt_certnode_replace(replace, c->made[i]);
        }
    return dt_certnode_make(c->state->nodes, "chain", attributes, NULL, 2 * n, in, 0);
}

/* The chain that this loop continues: every value that k depends on comes from the end of the same loop. NULL if it
 * begins one. */
static CertNode *continued(Chains *c, uint32_t k)
{
    const char *end = dt_intern_printf("end=%lld", (long long)c->start);
    CertNode **from = DT_NEW_ARRAY(c->state->arena, CertNode *, c->n + 1);
    for (uint32_t i = 0; i < c->n; i++) {
        from[i] = c->from[i];
        if (!c->needs[k * c->n + i])
            continue;
        if (strcmp(c->from[i]->kind, "behind") != 0 || c->from[i]->attributes != end)
            return NULL;
        from[i] = c->from[i]->in[0]->in[0];
    }
    CertNode *chain = c->from[k]->in[0];
    return make_chain(c, k, from, chain->attributes) == chain ? chain : NULL;
}

static void make_chains(Chains *c)
{
    find_needs(c);
    for (uint32_t k = 0; k < c->n; k++) {
        CertNode *chain = continued(c, k);
        c->chain[k] =
            chain ? chain
                  : make_chain(c, k, c->from,
                               dt_intern_printf("%s %lld", c->symbols, (long long)c->start));
    }
}

/* Carried value k behind the loop if the body only adds to it what does not depend on it: what it started from and
 * the sum over the iterations, which several loops may share; NULL if it is no such. */
static CertNode *accumulated(Chains *c, uint32_t k, const char *context, int64_t lo, int64_t hi,
                             CertReplace *replace)
{
    const CertNode *sum = c->made[k];
    CertNode **terms = DT_NEW_ARRAY(c->state->arena, CertNode *, sum->n_in + 2);
    uint32_t n = 0, own = 0;
    if (strcmp(sum->kind, "add") != 0)
        return NULL;
    for (uint32_t i = 0; i < sum->n_in; i++) {
        CertNode *term = sum->in[i];
        bool *needs = DT_NEW_ARRAY(c->state->arena, bool, c->n + 1);
        if (term->attributes == c->symbols && strcmp(term->kind, "carried") == 0 &&
            term->index == k) {
            own++;
            continue;
        }
        find_symbols(c, term, DT_NEW_ARRAY(c->state->arena, bool, term->id + 1), needs);
        for (uint32_t j = 0; j < c->n; j++)
            if (needs[j] && c->needs[j * c->n + k])
                return NULL;
        terms[n++] = dt_certnode_replace(replace, term);
    }
    if (own != 1)
        return NULL;
    CertType type = dt_certnode_type(sum), part;
    for (uint32_t i = 0; i < n; i++) {
        part = dt_certnode_type(terms[i]);
        CertNode *stack =
            dt_certnode_make(c->state->nodes, "stack", context, &part, 1, &terms[i], 0);
        terms[i] = dt_certnode_make(
            c->state->nodes, "reduce",
            dt_intern_printf("iterations %s over=%lld:%lld", context, (long long)lo, (long long)hi),
            &part, 1, &stack, 0);
    }
    terms[n++] = c->from[k];
    return dt_certnode_sum(c->state->nodes, &type, n, terms);
}

static CertNode *at_iteration(void *data, CertNode *node)
{
    Chains *c = data;
    if (node->attributes != c->symbols || strcmp(node->kind, "carried") != 0)
        return NULL;
    CertType type = dt_certnode_type(node);
    return dt_certnode_make(c->state->nodes, "at", "", &type, 1, &c->chain[node->index], 0);
}

/* What is done to each member of a bucket. */
typedef struct Member {
    CertState *state;
    const char *context, *axis;
} Member;

static CertNode *slice_of(CertState *state, CertNode *stack, const char *context,
                          const CertType *type);

/* The type of a member without (slice), or before it gets (stack), its loop axis. */
static CertType member_type(const CertNode *node)
{
    CertType type = {.dtype = node->dtype};
    for (uint32_t i = 0; i < node->rank; i++)
        if (node->extents[i] >= 0)
            type.axes[type.rank++] = (CertAxis){.name = node->axes[i], .extent = node->extents[i]};
    return type;
}

static CertNode *slice_member(void *data, CertNode *member)
{
    Member *m = data;
    CertType type = member_type(member);
    return slice_of(m->state, member, m->context, &type);
}

static CertNode *stack_of(CertState *state, CertNode *node, const char *axis, const char *context,
                          const CertType *type);

static CertNode *stack_member(void *data, CertNode *member)
{
    Member *m = data;
    CertType type = member_type(member);
    return stack_of(m->state, member, m->axis, m->context, &type);
}

/* What the iterations of the loop that context names leave, stacked along axis. */
static CertNode *stack_of(CertState *state, CertNode *node, const char *axis, const char *context,
                          const CertType *type)
{
    Member member = {state, context, axis};
    if (dt_certpack_is(node))
        return dt_certpack_each(state, node, stack_member, &member);
    CertType whole = *type;
    whole.axes[whole.rank++] = (CertAxis){.name = axis, .extent = -1};
    return dt_certnode_make(state->nodes, "stack", context, &whole, 1, &node, 0);
}

/* One iteration's part of a stacked value, in the loop that context names. */
static CertNode *slice_of(CertState *state, CertNode *stack, const char *context,
                          const CertType *type)
{
    Member member = {state, context, NULL};
    if (dt_certpack_is(stack))
        return dt_certpack_each(state, stack, slice_member, &member);
    if (strcmp(stack->kind, "stack") == 0 && stack->attributes == context)
        return stack->in[0];
    return dt_certnode_make(state->nodes, "slice", context, type, 1, &stack, 0);
}

/* The body's inputs; false after a problem. */
static bool loop_inputs(CertState *state, const CertOp *op, const CertFunc *body,
                        const char *context, const char *symbols, const CertValue *in,
                        CertValue *inputs)
{
    const CertLoop *loop = &op->loop;
    inputs[0] = (CertValue){.type = body->args.at[0]};
    inputs[0].node =
        dt_certnode_make(state->nodes, "iteration", context, body->args.at[0], 0, NULL, 0);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const CertType *type = body->args.at[1 + i];
        inputs[1 + i] = (CertValue){.type = type};
        if (i < loop->carried + loop->invariant) {
            if (!same_types(state, op, in[i].type, type, "an operand"))
                return false;
            inputs[1 + i] = in[i];
            if (i < loop->carried)
                inputs[1 + i].node =
                    dt_certnode_make(state->nodes, "carried", symbols, type, 0, NULL, i);
            continue;
        }
        const CertType *whole = in[i].type;
        CertType rest = *whole;
        int64_t first = in[i].loop == loop->axis ? in[i].first : 0;
        if (whole->rank == 0 || whole->axes[0].name != loop->axis || whole->axes[0].n ||
            whole->axes[0].extent != loop->count || first != loop->first)
            return dt_certfunc_fail(state, op,
                                    "a stacked operand does not hold the iterations of the loop");
        rest.rank--;
        memmove(&rest.axes[0], &whole->axes[1], rest.rank * sizeof rest.axes[0]);
        if (!same_types(state, op, &rest, type, "a stacked operand"))
            return false;
        inputs[1 + i].node = slice_of(state, in[i].node, context, type);
    }
    return true;
}

static bool loop_op(CertState *state, const CertOp *op, const char *outer_context,
                    const CertValue *in, CertValue *out)
{
    const CertLoop *loop = &op->loop;
    const CertFunc *body = dt_certtext_func(state->program, op->func), *outer = state->func;
    uint32_t n_in = loop->carried + loop->invariant + loop->stacked,
             n_out = loop->carried + loop->stacked_out;
    if (!body || body->n_args != 1 + op->n_in || body->results.n != op->n_out || op->n_in != n_in ||
        op->n_out != n_out)
        return dt_certfunc_fail(state, op,
                                "a loop whose body is not there or takes other operands");
    const char *context = dt_intern_printf("%s/%s", outer_context, loop->label);
    const char *symbols = dt_intern_printf("%s %s", context, loop->reverse ? "down" : "up");
    CertValue *inputs = DT_NEW_ARRAY(state->arena, CertValue, n_in + 1),
              *results = DT_NEW_ARRAY(state->arena, CertValue, n_out + 1);
    CertNode **from = DT_NEW_ARRAY(state->arena, CertNode *, n_out + 1),
             **made = DT_NEW_ARRAY(state->arena, CertNode *, n_out + 1);
    if (!loop_inputs(state, op, body, context, symbols, in, inputs) ||
        !dt_certfunc_run(state, body, context, inputs, results))
        return false;
    state->func = outer;
    for (uint32_t k = 0; k < loop->carried; k++) {
        if (!same_types(state, op, results[k].type, in[k].type, "a carried result"))
            return false;
        from[k] = in[k].node;
        made[k] = results[k].node;
    }
    Chains chains = {.state = state,
                     .symbols = symbols,
                     .n = loop->carried,
                     .from = from,
                     .made = made,
                     .needs = DT_NEW_ARRAY(state->arena, bool, loop->carried * loop->carried + 1),
                     .chain = DT_NEW_ARRAY(state->arena, CertNode *, loop->carried + 1),
                     .order = DT_NEW_ARRAY(state->arena, uint32_t, loop->carried + 1),
                     .start = loop->reverse ? loop->first + loop->count : loop->first};
    make_chains(&chains);
    CertReplace *replace = dt_certnode_replacing(state->nodes, at_iteration, &chains);
    int64_t end = loop->reverse ? loop->first : loop->first + loop->count;
    for (uint32_t k = 0; k < n_out; k++) {
        out[k] = (CertValue){.type = op->types[k]};
        if (k < loop->carried) {
            out[k].node =
                accumulated(&chains, k, context, loop->first, loop->first + loop->count, replace);
            if (!out[k].node)
                out[k].node = dt_certnode_make(state->nodes, "behind",
                                               dt_intern_printf("end=%lld", (long long)end),
                                               op->types[k], 1, &chains.chain[k], 0);
            if (!same_types(state, op, results[k].type, op->types[k], "a result"))
                return false;
            continue;
        }
        CertType rest = *op->types[k];
        if (rest.rank == 0 || rest.axes[0].name != loop->axis || rest.axes[0].n ||
            rest.axes[0].extent != loop->count)
            return dt_certfunc_fail(state, op,
                                    "a stacked result does not hold the iterations of the loop");
        rest.rank--;
        memmove(&rest.axes[0], &op->types[k]->axes[1], rest.rank * sizeof rest.axes[0]);
        if (!same_types(state, op, results[k].type, &rest, "a stacked result"))
            return false;
        if (rest.rank + 1 >= CERT_RANK)
            return dt_certfunc_fail(state, op, "a stacked result has too many axes");
        out[k].node = stack_of(state, dt_certnode_replace(replace, results[k].node), loop->axis,
                               context, results[k].type);
        out[k].loop = loop->axis;
        out[k].first = loop->first;
    }
    return true;
}

/* ---- functions ---- */

static bool is_across(const CertState *state, const CertOp *op)
{
    for (uint32_t m = 0; state->program->pipe && m < state->program->n_mesh; m++)
        if (state->program->mesh[m] == state->program->pipe && is(op, "all_reduce") &&
            (op->mesh >> m & 1))
            return true;
    return false;
}

static bool run_op(CertState *state, const CertOp *op, const char *context, const CertValue *in,
                   CertValue *out)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        out[i] = (CertValue){.type = op->types[i]};
    if (is(op, "param") || is(op, "input"))
        return state->source(state, op, out);
    if (is_across(state, op))
        return state->across(state, op, in[0], out);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!in[i].node)
            return true; /* what follows is not known yet either */
    if (is(op, "call") || is(op, "fused"))
        return call_op(state, op, context, in, out);
    if (is(op, "loop"))
        return loop_op(state, op, context, in, out);
    return plain_op(state, op, context, in, out);
}

bool dt_certfunc_run(CertState *state, const CertFunc *func, const char *context,
                     const CertValue *inputs, CertValue *ret_results)
{
    CertValue *values = DT_NEW_ARRAY(state->arena, CertValue, func->n_values + 1);
    if (state->depth == MAX_DEPTH)
        return dt_certfunc_fail(state, NULL, "functions call each other too deeply");
    state->depth++;
    for (uint32_t i = 0; i < func->n_args; i++)
        values[i] = inputs[i];
    state->func = func;
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const CertOp *op = func->ops.at[i];
        CertValue *in = DT_NEW_ARRAY(state->arena, CertValue, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = values[op->in[k]];
        if (!run_op(state, op, context, in, &values[op->first_out]))
            return false;
        state->func = func;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = values[func->results.at[i]];
    state->depth--;
    return true;
}
