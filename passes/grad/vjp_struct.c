/* SPDX-License-Identifier: Apache-2.0 */
/* Cotangents through calls and loops.
 *
 * A call of f becomes a call of f.fwd in the forward part and one of f.bwd here, under the same
 * label, so that random draws repeat under the same path.
 *
 *   forward   %x', %saved = loop h in 12 (carried %x, stacked %w) body.fwd
 *   backward  %dx, %dw = loop h in 12 reversed (carried %dx', stacked %w, %saved) body.bwd.step
 *
 * The backward loop runs the body's bwd from the last iteration to the first. It carries the
 * cotangents of carried values and, added up, those of invariants; cotangents of stacked operands
 * come out stacked. What the body's bwd reads of the body's inputs it gets as the forward loop did:
 * stacked operands stacked, invariants whole, the iteration as the iteration. */
#include "passes/grad/diff.h"

#include "base/intern.h"
#include "passes/loops.h"

/* Returns what v->op passes to the backward function of d as its saved operand i: an operand of the
 * call, a result of it, or an extra result of the forward function. */
static DtValue *saved_operand(DtVjp *v, const DtDerivative *d, uint32_t i)
{
    const DtSaved saved = d->bwd->saved.at[i];
    if (saved.is_input)
        return dt_diff_in(v, saved.index);
    if (saved.index < v->op->n_out)
        return dt_diff_out(v, saved.index);
    return dt_diff_extra(v, d->fwd->results.at[saved.index]->type, saved.index - v->op->n_out);
}

void dt_vjp_call(DtVjp *v)
{
    const DtOp *op = v->op;
    DtReverse *r = v->reverse;
    DtArena *arena = r->diff->arena;
    bool *seeded = DT_NEW_ARRAY(arena, bool, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++)
        seeded[i] = v->cotangent[i] != NULL && r->activity->active[op->out[i]->id];
    DtDerivative *d = dt_diff_derive(r->diff, op->func, NULL, v->active, seeded);
    r->of_op[v->op_index] = d;
    DtValue **in = DT_NEW_ARRAY(arena, DtValue *, d->bwd->inputs.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->bwd->saved.n; i++)
        in[n++] = saved_operand(v, d, i);
    for (uint32_t i = 0; i < d->bwd->seeds.n; i++)
        in[n++] = v->cotangent[d->bwd->seeds.at[i]];
    const DtOp *call = dt_graph_call(&v->b, d->bwd, op->text, in);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (d->cotangent[i] >= 0)
            v->ret[i] = call->out[d->cotangent[i]];
}

/* ---- loops ---- */

/* The backward loop while it is built: operands here and inputs of its body step by step alike. */
typedef struct Backward {
    DtVjp *v;
    const DtOp *op;        /* the forward loop */
    const DtDerivative *d; /* of its body */
    const bool *seeded;    /* carried and stacked results that have cotangents */
    DtFunc *step;          /* the body */
    DtBuilder b;           /* adds ops to `step` */
    DtLoop loop;
    DT_VEC(DtValue *) in; /* operands of the loop */
    DtValue **saved;      /* in step: operands of d->bwd */
    DtValue **seeds;
    /* by carried value of op: its number among the values that the backward loop carries, or -1 */
    int32_t *carried;
    int32_t *sums; /* by invariant of op: the number of its cotangents' sum among these, or -1 */
} Backward;

static DtArena *arena_of(const Backward *l) { return l->v->reverse->diff->arena; }

static DtValue *operand(Backward *l, DtValue *value, const DtType *inside, const char *name)
{
    DT_PUSH(arena_of(l), l->in, value);
    return dt_graph_arg(l->step, inside, name);
}

/* Returns which kind of input of the body input i is: 0 the iteration's number, 1 carried, 2
 * invariant, 3 stacked. */
static int role(const DtLoop *loop, uint32_t i)
{
    return i == 0 ? 0 : i <= loop->n_carried ? 1 : i <= loop->n_carried + loop->n_invariant ? 2 : 3;
}

static void add_carried(Backward *l)
{
    const DtLoop *loop = l->op->loop;
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        l->carried[i] = -1;
        if (!l->seeded[i] && l->d->cotangent[1 + i] < 0)
            continue;
        const DtType *type = l->op->in[i]->type;
        DtValue *start = l->v->cotangent[i];
        if (start == NULL || !l->seeded[i])
            start = dt_diff_zeros(&l->v->b, type);
        l->carried[i] = (int32_t)l->in.n;
        DtValue *inside = operand(l, start, type, NULL);
        if (l->seeded[i])
            l->seeds[i] = inside;
    }
    for (uint32_t i = 0; i < loop->n_invariant; i++) {
        l->sums[i] = -1;
        if (l->d->cotangent[1 + loop->n_carried + i] < 0)
            continue;
        const DtType *type = l->op->in[loop->n_carried + i]->type;
        l->sums[i] = (int32_t)l->in.n;
        operand(l, dt_diff_zeros(&l->v->b, type), type, NULL);
    }
    l->loop.n_carried = l->in.n;
}

static void add_invariants(Backward *l)
{
    for (uint32_t i = 0; i < l->d->bwd->saved.n; i++) {
        const DtSaved saved = l->d->bwd->saved.at[i];
        if (!saved.is_input || role(l->op->loop, saved.index) != 2)
            continue;
        const DtValue *inside = l->d->bwd->inputs.at[i];
        l->saved[i] = operand(l, dt_diff_in(l->v, saved.index - 1), inside->type, inside->name);
        l->loop.n_invariant++;
    }
}

static void add_stacked(Backward *l)
{
    const DtOp *op = l->op;
    for (uint32_t i = 0; i < l->d->bwd->saved.n; i++) {
        const DtSaved saved = l->d->bwd->saved.at[i];
        const DtValue *inside = l->d->bwd->inputs.at[i];
        DtValue *outside;
        if (l->saved[i] != NULL)
            continue;
        if (saved.is_input)
            outside = dt_diff_in(l->v, saved.index - 1);
        else if (saved.index < op->n_out)
            outside = dt_diff_out(l->v, saved.index);
        else
            outside = dt_diff_extra(l->v, dt_loops_stacked(op->loop, inside->type),
                                    saved.index - op->n_out);
        l->saved[i] = operand(l, outside, inside->type, inside->name);
        l->loop.n_stacked++;
    }
    for (uint32_t i = op->loop->n_carried; i < op->n_out; i++)
        if (l->seeded[i]) {
            l->seeds[i] = operand(l, l->v->cotangent[i], op->func->results.at[i]->type, NULL);
            l->loop.n_stacked++;
        }
}

/* Fills the body of the backward loop: it calls the backward function of the forward body, adds the
 * cotangents of invariants to carried sums, and returns the cotangents of carried and stacked
 * values. */
static void fill_step(Backward *l)
{
    const DtFunc *bwd = l->d->bwd;
    const DtLoop *loop = l->op->loop;
    DtValue **in = DT_NEW_ARRAY(arena_of(l), DtValue *, bwd->inputs.n + 1);
    for (uint32_t i = 0; i < bwd->saved.n; i++)
        in[i] = l->saved[i];
    for (uint32_t i = 0; i < bwd->seeds.n; i++)
        in[bwd->saved.n + i] = l->seeds[bwd->seeds.at[i]];
    DtValue **out = dt_graph_call(&l->b, l->d->bwd, NULL, in)->out;
    for (uint32_t i = 0; i < loop->n_carried; i++) {
        const int32_t at = l->d->cotangent[1 + i];
        if (l->carried[i] >= 0)
            dt_graph_return(l->step, at >= 0 ? out[at] : dt_diff_zeros(&l->b, l->op->in[i]->type));
    }
    for (uint32_t i = 0; i < loop->n_invariant; i++) {
        const int32_t at = l->d->cotangent[1 + loop->n_carried + i];
        if (at >= 0)
            dt_graph_return(l->step, dt_graph_binary(&l->b, DT_OP_ADD,
                                                     l->step->inputs.at[1 + l->sums[i]], out[at]));
    }
    for (uint32_t i = loop->n_carried + loop->n_invariant; i < l->op->n_in; i++)
        if (l->d->cotangent[1 + i] >= 0) {
            dt_graph_return(l->step, out[l->d->cotangent[1 + i]]);
            l->loop.n_stacked_out++;
        }
    l->step->n_returns = l->step->results.n;
    dt_graph_renumber(l->step);
}

static void take_results(Backward *l, const DtOp *made)
{
    const DtLoop *loop = l->op->loop;
    uint32_t stacked = l->loop.n_carried;
    for (uint32_t i = 0; i < l->op->n_in; i++) {
        if (l->d->cotangent[1 + i] < 0)
            continue;
        switch (role(loop, 1 + i)) {
        case 1: l->v->ret[i] = made->out[l->carried[i]]; break;
        case 2: l->v->ret[i] = made->out[l->sums[i - loop->n_carried]]; break;
        default: l->v->ret[i] = made->out[stacked++]; break;
        }
    }
}

void dt_vjp_loop(DtVjp *v)
{
    const DtOp *op = v->op;
    DtReverse *r = v->reverse;
    DtArena *arena = r->diff->arena;
    bool *given = DT_NEW_ARRAY(arena, bool, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++)
        given[i] = v->cotangent[i] != NULL && r->activity->active[op->out[i]->id];
    const DtLoopActivity a = dt_activity_loop(r->diff, op, v->active, given);
    DtDerivative *d = dt_diff_derive(r->diff, op->func, op->loop, a.active_in, a.seeded);
    r->of_op[v->op_index] = d;
    Backward l = {.v = v, .op = op, .d = d, .seeded = a.seeded};
    l.step =
        dt_graph_func(r->diff->module, dt_intern_printf("%s.step", d->bwd->name), DT_FUNC_BODY);
    l.step->span = op->func->span;
    l.b = (DtBuilder){.func = l.step, .span = op->span};
    l.loop = (DtLoop){.label = op->loop->label,
                      .axis = op->loop->axis,
                      .count = op->loop->count,
                      .reverse = !op->loop->reverse}; /* loops of programs run forwards, but IR may
                                                       * contain others */
    l.saved = DT_NEW_ARRAY(arena, DtValue *, d->bwd->saved.n + 1);
    l.seeds = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    l.carried = DT_NEW_ARRAY(arena, int32_t, op->loop->n_carried + 1);
    l.sums = DT_NEW_ARRAY(arena, int32_t, op->loop->n_invariant + 1);
    DtValue *iteration = dt_graph_arg(l.step, dt_type_scalar(DT_I32), "i");
    for (uint32_t i = 0; i < d->bwd->saved.n; i++)
        if (d->bwd->saved.at[i].is_input && d->bwd->saved.at[i].index == 0)
            l.saved[i] = iteration;
    add_carried(&l);
    add_invariants(&l);
    add_stacked(&l);
    fill_step(&l);
    take_results(&l, dt_graph_loop(&v->b, l.step, l.loop, l.in.at));
}
