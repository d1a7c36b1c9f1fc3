/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: sums that may wait, and sums over time.
 *
 * A sum over ranks that is needed only at the end, once per step, stays pending until then: a
 * parameter's gradient, the loss. Where a term is added to such a sum that every rank has whole,
 * the first rank keeps the term and the others take zero, so that it counts once. Which values may
 * wait is found backwards from the results, through linear ops.
 *
 * Over time, the micro-batches, nothing can be completed in the middle of the step. What the data
 * alone decide (the number of valid labels, say) is computed by a pass over all micro-batches ahead
 * of the first: the prologue. */
#include "passes/place/place_internal.h"

#include "base/intern.h"
#include "passes/loops.h"

#include <string.h>

/* ---- sums that may wait ---- */

/* Whether a sum may stay pending through the op: the op must be linear in it, and must not read
 * each element many times, since completing the sum before the op then exchanges fewer bytes.
 * (`expand` is allowed: it mostly repeats a scalar of the loss.) */
static bool may_wait(const DtOp *op, uint32_t operand)
{
    switch (op->kind) {
    case DT_OP_DOT:
    case DT_OP_GATHER:
    case DT_OP_SCAN:
    case DT_OP_WINDOW: return false;
    default: return dt_op_is_linear(op, operand);
    }
}

static void clear(bool *lazy, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        lazy[op->in[i]->id] = false;
}

/* Marks the loop's carried operands whose sums may stay pending, judging by their uses in the body
 * and after the loop. */
static void loop_operands(bool *lazy, const DtOp *op, DtArena *arena)
{
    const DtFunc *body = op->func;
    bool *results = DT_NEW_ARRAY(arena, bool, body->results.n + 1);
    for (uint32_t i = 0; i < body->results.n; i++)
        results[i] = lazy[op->out[i]->id];
    for (bool stable = false; !stable;) {
        stable = true;
        const bool *inside = dt_placelazy_of(body, results, arena);
        for (uint32_t i = 0; i < op->loop->n_carried; i++) {
            if (!results[i] || inside[body->inputs.at[1 + i]->id])
                continue;
            results[i] = false;
            lazy[op->out[i]->id] = false;
            stable = false;
        }
    }
    for (uint32_t i = 0; i < op->n_in; i++)
        if (i >= op->loop->n_carried || !results[i])
            lazy[op->in[i]->id] = false;
}

bool *dt_placelazy_of(const DtFunc *func, const bool *results, DtArena *arena)
{
    bool *lazy = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    memset(lazy, true, func->n_values * sizeof *lazy);
    for (uint32_t i = 0; i < func->results.n; i++)
        if (!results[i])
            lazy[func->results.at[i]->id] = false;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        if (op->kind == DT_OP_LOOP) {
            loop_operands(lazy, op, arena);
            continue;
        }
        if (op->n_out != 1) {
            clear(lazy, op);
            continue;
        }
        for (uint32_t k = 0; k < op->n_in; k++)
            if (!lazy[op->out[0]->id] || !may_wait(op, k))
                lazy[op->in[k]->id] = false;
    }
    return lazy;
}

DtValue *dt_placelazy_keep_first(DtPlaceScope *s, DtValue *x, uint16_t bits)
{
    DtBuilder *b = &s->b;
    const DtDtype dtype = x->type->dtype;
    const DtTrainConfig *train = s->p->context->train;
    for (uint32_t m = 0; m < s->p->module->mesh.n; m++) {
        if (!(bits >> m & 1))
            continue;
        const DtMeshAxis *mesh = &s->p->module->mesh.axes[m];
        DtAxis axis = {.name = dt_intern_printf("@%s", mesh->name),
                       .extent = mesh->size,
                       .n_split = 1,
                       .split = {(uint8_t)m}};
        /* of micro-batches the last one, if steps may leave out earlier ones */
        const bool ramps = mesh->is_time && train && train->ramp.by > 0;
        const double kept = ramps ? (double)mesh->size - 1 : 0;
        DtValue *rank = dt_graph_iota(b, axis);
        DtValue *first = dt_graph_binary(b, DT_OP_EQ, rank, dt_graph_constant(b, DT_I32, kept));
        x = dt_graph_where(b, first, x, dt_graph_constant(b, dtype, 0));
        x = dt_graph_reduce(b, DT_REDUCE_SUM, x, 1,
                            &axis.name); /* of one element on each rank, so it is exact */
        x = dt_graph_cast(b, x, dtype);
    }
    return x;
}

/* ---- sums over time ---- */

static bool is_of_prologue(const DtOp *op) { return op->kind == DT_OP_INPUT && op->text[0] == '@'; }

static bool is_plain(const DtOp *op)
{
    if (op->kind == DT_OP_LOOP) { /* a loop along an axis of the data, such as the one for PPO's
                                   * advantages */
        bool plain = !op->func->params.n && !op->func->writes.n;
        for (uint32_t i = 0; plain && i < op->func->ops.n; i++)
            plain = is_plain(op->func->ops.at[i]);
        return plain;
    }
    return op->kind != DT_OP_PARAM && !is_of_prologue(op) &&
           dt_op_info[op->kind].op_class != DT_CLASS_STRUCT;
}

/* What a value of the entry depends on at most. OF_MORE: parameters or other values that a step
 * changes. OF_SUMS: data, and sums of data over the batch, which the entry's prologue (before all
 * micro-batches) completes. OF_DATA: data alone. */
enum { OF_MORE, OF_SUMS, OF_DATA };

/* Returns what x depends on (OF_DATA, ...). First decides it for the ops made since the last call,
 * in their order. */
static int made_of(DtPlaceScope *s, const DtValue *x)
{
    const DtFunc *func = s->b.func;
    for (; s->n_looked < func->ops.n; s->n_looked++) {
        const DtOp *op = func->ops.at[s->n_looked];
        int least = is_of_prologue(op) ? OF_SUMS : is_plain(op) ? OF_DATA : OF_MORE;
        for (uint32_t i = 0; i < op->n_in; i++) {
            const int of = dt_placeconvert_info(s, op->in[i])->made_of;
            least = of < least ? of : least;
        }
        for (uint32_t i = 0; i < op->n_out; i++)
            dt_placeconvert_info(s, op->out[i])->made_of = (uint8_t)least;
    }
    return dt_placeconvert_info(s, x)->made_of;
}

static void clone_op(DtPlaceScope *s, DtBuilder *b, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(s->p->module->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = dt_placeconvert_info(s, op->in[i])->clone;
    b->span = op->span;
    b->path = op->path;
    DtOp *copy = dt_graph_copy(b, op, in);
    if (op->kind == DT_OP_LOOP)
        copy->func = dt_loops_copy_func(op->func);
    for (uint32_t i = 0; i < op->n_out; i++)
        dt_placeconvert_info(s, op->out[i])->clone = copy->out[i];
}

/* Copies x, and the values from which it is computed, to the prologue; returns the copy. Uses a
 * list instead of recursion, since programs may be long chains of ops. */
static DtValue *clone_data(DtPlaceScope *s, DtBuilder *b, const DtValue *x)
{
    DT_VEC(const DtValue *) todo = {0};
    DT_PUSH(s->p->module->arena, todo, x);
    while (todo.n) {
        const uint32_t n = todo.n;
        const DtOp *op = todo.at[n - 1]->op;
        const bool is_cloned = dt_placeconvert_info(s, todo.at[n - 1])->clone;
        for (uint32_t i = op->n_in; !is_cloned && i-- > 0;)
            if (!dt_placeconvert_info(s, op->in[i])->clone)
                DT_PUSH(s->p->module->arena, todo, op->in[i]);
        if (todo.n > n)
            continue;
        if (!is_cloned)
            clone_op(s, b, op);
        todo.n--;
    }
    return dt_placeconvert_info(s, x)->clone;
}

/* Returns an input of the entry that holds the complete value of x, which the entry's prologue
 * computes before all micro-batches. */
static DtValue *from_prologue(DtPlaceScope *s, DtValue *x)
{
    DtPlacer *p = s->p;
    for (uint32_t i = 0; i < p->completed.n; i++)
        if (p->completed.at[i].from == x)
            return p->completed.at[i].to;
    if (!p->prologue)
        p->prologue =
            dt_graph_func(p->module, dt_intern_printf("%s.prologue", p->top->name), DT_FUNC_ENTRY);
    DtBuilder ahead = {.func = p->prologue, .span = s->b.span, .path = s->b.path};
    dt_graph_return(p->prologue, clone_data(s, &ahead, x));
    const DtType *whole = dt_type_plain(x->type->dtype, x->type->rank, x->type->axes);
    const char *name = dt_intern_printf("@%s.%u", p->prologue->name, p->completed.n);
    DtValue *input = dt_graph_source(&s->b, DT_OP_INPUT, whole, name, NULL);
    DT_PUSH(p->module->arena, p->completed, ((DtPlaceKnown){x, input}));
    return input;
}

static bool is_pending(const DtPlaceScope *s, const DtValue *x)
{
    return s->b.func == s->p->top && (x->type->partial & s->p->time) &&
           x->type->pending == DT_REDUCE_SUM;
}

void dt_placelazy_meet_sums(DtPlaceScope *s, DtValue **in, uint32_t n)
{
    bool sums = false, data = s->p->completed.n > 0;
    for (uint32_t i = 0; data && i < n; i++) {
        const int of = s->b.func == s->p->top ? made_of(s, in[i]) : OF_MORE;
        sums = sums || of == OF_SUMS;
        data = of >= (is_pending(s, in[i]) ? OF_DATA : OF_SUMS);
    }
    for (uint32_t i = 0; sums && data && i < n; i++)
        if (is_pending(s, in[i]))
            in[i] = from_prologue(s, in[i]);
}

/* Returns the op as the program writes it, if that is one line of at most 60 characters; else the
 * op's name. */
static const char *as_written(const DtPlacer *p, const DtOp *op)
{
    size_t len;
    const char *source = dt_diag_source(p->module->diags, op->span.file, &len);
    const uint32_t n = op->span.hi - op->span.lo;
    if (!source || op->span.hi > len || op->span.lo >= op->span.hi || n > 60 ||
        memchr(source + op->span.lo, '\n', n))
        return dt_op_info[op->kind].text;
    return dt_arena_strndup(p->module->arena, source + op->span.lo, n);
}

/* Reports E0590: that op needs what `needs` says, with a note that says why it cannot have that. */
static DtDiag *refuse(DtPlacer *p, const DtOp *op, const char *needs, const char *note)
{
    DtDiag *diag = dt_placerefuse_at(
        p, E0590, op->span,
        dt_arena_printf(p->module->arena, "`%s` needs %s", as_written(p, op), needs));
    dt_placerefuse_call(diag, op);
    dt_diag_note(diag, "%s", note);
    return diag;
}

DtValue *dt_placelazy_before_all(DtPlaceScope *s, DtValue *x, const DtOp *user)
{
    DtPlacer *p = s->p;
    if (is_pending(s, x) && made_of(s, x) == OF_DATA)
        return from_prologue(s, x);
    DtDiag *diag =
        refuse(p, user, "a sum over the whole batch, but `micro` cuts the batch in time",
               "a sum over micro-batches is complete only when the last one has run");
    if (is_pending(s, x) && made_of(s, x) == OF_SUMS)
        dt_diag_note(diag, "sums of data alone are made before the first micro-batch, but this one "
                           "is made of another: "
                           "write a variance as `mean[a](x * x) - mean[a](x) ** 2`");
    dt_diag_help(diag, "take statistics over groups of samples: `x[batch -> (pool, each)]`, then "
                       "sum over `each`; or drop "
                       "`micro`");
    return NULL;
}

/* Reports that op needs a sum over the whole batch in a prediction, whose inputs hold only one
 * micro-batch. */
static void refuse_prediction(DtPlacer *p, const DtOp *op)
{
    DtDiag *diag =
        refuse(p, op, "the whole batch, but a prediction has one micro-batch alone",
               "`micro` cuts the batch in time; training and evaluation take all parts of it");
    dt_diag_help(diag,
                 "keep it in a `state` for predictions, `if training then mean[a](x) else mu`; or "
                 "drop `micro`");
}

void dt_placelazy_finish(DtPlacer *p, const DtEntryPoint *of)
{
    if (!p->prologue)
        return;
    if (dt_entry_predicts(of->kind))
        refuse_prediction(p, p->completed.at[0].from->op);
    DtEntryPoint point = dt_entry_new(of->kind, of->objective, DT_PART_PROLOGUE, -1);
    point.func = p->prologue;
    for (uint32_t i = 0; i < p->completed.n; i++)
        DT_PUSH(p->module->arena, point.results,
                ((DtEntryResult){.name = p->completed.at[i].to->op->text, .accumulate = true}));
    DT_PUSH(p->module->arena, p->more, point);
    p->prologue = NULL;
    p->completed.n = 0;
}
