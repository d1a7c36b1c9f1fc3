/* SPDX-License-Identifier: Apache-2.0 */
/* Rematerialisation.
 *
 * Purpose: what `remat h` does not keep is computed again in the backward loop instead of being
 * saved.
 *
 *   %y, %xs, %hs = loop h (%x, %w)            %y, %xs = loop h (%x, %w)
 *     %h = dot[e](%x, %w)                       %h = dot[e](%x, %w)
 *     %y = sin(%h)                              %y = sin(%h)
 *     return %y, %x, %h                         return %y, %x
 *   %dx, %dw = loop h reversed             =>   %dx, %dw = loop h reversed
 *              (%dy, %w, %xs, %hs)                         (%dy, %w, %xs)
 *     %dh = mul(%dy, cos(%hs))                  %h = dot[e](%xs, %w)
 *     ...                                       %dh = mul(%dy, cos(%h))
 *
 * For every value that the backward loop takes from the forward loop, the line decides whether it
 * is kept (remat_names.c). A value that is not kept is computed in the backward body, just before
 * its first use, by copies of the forward ops, which begin with kept values, the iteration number,
 * and the inputs of the forward body. The backward loop gets invariant and stacked inputs as the
 * forward loop did; carried inputs must be saved in each iteration. A kept value that was not saved
 * so far is saved if the backward body needs it, unless cheap ops compute it from saved values.
 * Random draws give the same numbers again, since both loops have the same label and iteration
 * numbers. An inner loop of the body is recomputed as a loop. If the named loop is itself inside
 * the body of another loop, values that pass from its forward to its backward part also pass from
 * that loop's forward part to its backward part.
 *
 * A loop that no line names saves results of products instead of values that kernels compute from
 * them (remat_roots.c), and does not save what its backward part can recompute at no cost
 * (remat_made.c).
 *
 * Requires: calls inlined, loops of entry "grad" as differentiate makes them. Establishes: the
 * backward loops of the named loops take over kept values only; DtOp.recomputed records what they
 * would have taken over without the line. Breaks: nothing. */
#include "passes/grad/remat.h"

#include "base/intern.h"
#include "passes/loops.h"

#include <string.h>

/* A loop of the forward part and the loop of the backward part that differentiates it. */
typedef struct Pair {
    const struct Pair *outer; /* the pair in whose bodies both loops are; NULL: they are in one
                               * function */
    DtFunc *forward_func;     /* the function that contains the forward loop */
    DtOp *forward, *backward;
} Pair;

typedef struct Remat {
    const DtPassContext *context;
    DtArena *arena;
    bool *is_label; /* by `remat` line: some loop has its label */
    bool is_trial;  /* only looks for changes, makes none */
    bool found;     /* a change was found */
} Remat;

/* State of one pair of loops while its backward body is rebuilt. */
typedef struct Redo {
    const Pair *pair;
    DtArena *arena;
    DtRematChoice choice;
    DtValue **made;     /* by value id of the forward body: the same value in the backward body */
    /* by value id: 1 if cheap ops compute it from values that the backward body has, -1 if not, 0
     * if not known yet */
    signed char *cheap;
    bool by_kernels;    /* recomputed values stay inside kernels and are never stored in memory */
} Redo;

/* ---- pairs ---- */

static bool is_rename(const DtOp *op)
{
    return op->kind == DT_OP_RELABEL && op->n_relabels == 1 && op->relabels[0].n_from == 1 &&
           op->relabels[0].n_to == 1;
}

/* The value of the forward function that a value of the backward function is; NULL: none. */
static DtValue *origin(const Pair *outer, DtValue *value)
{
    if (outer == NULL)
        return value;
    if (value->op != NULL) { /* a saved value that is renamed outside of the body, and renamed back
                              * inside */
        const DtValue *from = is_rename(value->op) ? origin(outer, value->op->in[0]) : NULL;
        const bool back = from != NULL && from->op != NULL && is_rename(from->op) &&
                          from->op->in[0]->type == value->type;
        return back ? from->op->in[0] : NULL;
    }
    const DtOp *f = outer->forward, *b = outer->backward;
    if (value->index <= b->loop->n_carried)
        return NULL;
    DtValue *from = origin(outer->outer, b->in[value->index - 1]);
    if (from == NULL)
        return NULL;
    const bool is_stacked = value->index > b->loop->n_carried + b->loop->n_invariant;
    if (is_stacked && from->op == f && from->index >= f->loop->n_carried)
        return f->func->results.at[from->index];
    for (uint32_t i = f->loop->n_carried; i < f->n_in; i++)
        if (f->in[i] == from && is_stacked == (i >= f->loop->n_carried + f->loop->n_invariant))
            return f->func->inputs.at[1 + i];
    return NULL;
}

/* The value that the forward body hands over as operand i of the backward loop, NULL if it does
 * not. */
static DtValue *handed_over(const Pair *pair, uint32_t i)
{
    const DtLoop *loop = pair->backward->loop;
    if (i < loop->n_carried + loop->n_invariant)
        return NULL;
    const DtValue *from = origin(pair->outer, pair->backward->in[i]);
    if (from == NULL || from->op != pair->forward || from->index < pair->forward->loop->n_carried)
        return NULL;
    return pair->forward->func->results.at[from->index];
}

static bool is_pair(const Pair *pair)
{
    const DtLoop *f = pair->forward->loop, *b = pair->backward->loop;
    if (f->label != b->label || f->axis != b->axis || f->count != b->count ||
        f->reverse == b->reverse)
        return false;
    for (uint32_t i = 0; i < pair->backward->n_in; i++)
        if (handed_over(pair, i) != NULL)
            return true;
    return false;
}

/* ---- inputs of the backward body ---- */

/* The value of the forward body that a result stands for: itself or, if it is a renaming, its
 * operand. A stacked value that has an axis with the loop's name leaves the body under another
 * name. */
static DtValue *behind_result(const Pair *pair, DtValue *result)
{
    const DtOp *op = result->op;
    const bool renamed =
        op != NULL && is_rename(op) && op->relabels[0].from[0] == pair->forward->loop->axis;
    return renamed ? op->in[0] : result;
}

/* The result of the forward body for a value: itself, or a renamed copy. */
static DtValue *as_result(const Pair *pair, DtValue *value)
{
    const char *axis = pair->forward->loop->axis;
    DtFunc *body = pair->forward->func;
    if (dt_type_find(value->type, axis) < 0)
        return value;
    for (uint32_t i = pair->forward->loop->n_carried; i < body->results.n; i++)
        if (behind_result(pair, body->results.at[i]) == value)
            return body->results.at[i];
    DtBuilder b = {.func = body};
    if (value->op != NULL)
        b = (DtBuilder){.func = body, .span = value->op->span, .path = value->op->path};
    return dt_graph_rename(&b, value, axis, dt_intern_printf("%s.again", axis), NULL);
}

/* Appends the inverse rename of an input that carries a saved value: from the axis name outside of
 * the loop to the one inside. It comes before all other ops of the backward body. */
static DtValue *renamed_back(const Pair *pair, DtValue *input, const DtValue *result,
                             const DtType *type)
{
    DtFunc *body = pair->backward->func;
    DtBuilder b = {.func = body, .span = pair->backward->span};
    const DtRelabel *there = &result->op->relabels[0];
    DtValue *value = dt_graph_rename(&b, input, there->to[0], there->from[0], type);
    for (uint32_t i = body->ops.n - 1; i > 0; i--)
        body->ops.at[i] = body->ops.at[i - 1];
    body->ops.at[0] = value->op;
    return value;
}

/* Returns the value of the backward body that equals a value of the forward body. If there is none
 * yet, the forward loop saves the value, and the backward loop gets it as an operand. */
static DtValue *bring(const Pair *pair, DtValue *value)
{
    DtOp *f = pair->forward, *b = pair->backward;
    const uint32_t n_carried = f->loop->n_carried;
    if (value->op == NULL && value->index == 0)
        return b->func->inputs.at[0];
    if (value->op == NULL && value->index > n_carried) {
        DtValue *given = f->in[value->index - 1];
        if (pair->outer != NULL)
            given = bring(pair->outer, given);
        return dt_loops_take(b, given, value->index > n_carried + f->loop->n_invariant,
                             value->name);
    }
    DtValue *result = as_result(pair, value);
    DtValue *saved = dt_loops_hand_out(pair->forward_func, f, result);
    if (pair->outer != NULL)
        saved = bring(pair->outer, saved);
    DtValue *input = dt_loops_take(b, saved, true, value->name);
    if (result == value)
        return input;
    return renamed_back(pair, input, result, value->type);
}

/* ---- computing again ---- */

static bool is_given(const Redo *r, const DtValue *value)
{
    return value->op == NULL &&
           (value->index == 0 || value->index > r->pair->forward->loop->n_carried);
}

/* Whether cheap ops compute the value from values that the backward body gets anyway, so that
 * nothing more has to be saved for it. */
static bool is_cheaply_made(Redo *r, const DtValue *value)
{
    const uint32_t id = value->id;
    if (r->cheap[id] != 0)
        return r->cheap[id] > 0;
    bool cheap = is_given(r, value) || (r->choice.is_saved[id] && r->choice.kept[id]);
    if (!cheap && value->op != NULL && dt_op_is_cheap(value->op->kind)) {
        cheap = true;
        for (uint32_t i = 0; cheap && i < value->op->n_in; i++)
            cheap = is_cheaply_made(r, value->op->in[i]);
    }
    r->cheap[id] = cheap ? 1 : -1;
    return cheap;
}

static DtValue *recompute(Redo *r, DtValue *value);

/* Passes saved values of an inner loop's iterations into the copy of that loop, which then does not
 * compute them again. */
static void take_inner(Redo *r, const DtOp *op, DtOp *copy)
{
    for (uint32_t i = op->loop->n_carried; i < op->n_out; i++) {
        DtValue *inside = copy->func->results.at[i], *out = op->out[i];
        if (!r->choice.is_saved[out->id] || !r->choice.kept[out->id] || inside->op == NULL)
            continue;
        DtValue *input = dt_loops_take(copy, recompute(r, out), true, inside->name);
        for (uint32_t k = 0; k < copy->func->ops.n; k++)
            for (uint32_t n = 0; n < copy->func->ops.at[k]->n_in; n++)
                if (copy->func->ops.at[k]->in[n] == inside)
                    copy->func->ops.at[k]->in[n] = input;
        for (uint32_t k = 0; k < op->loop->n_carried; k++)
            if (copy->func->results.at[k] == inside)
                copy->func->results.at[k] = input;
    }
}

static void copy_op(Redo *r, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(r->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = recompute(r, op->in[i]);
    DtBuilder b = {.func = r->pair->backward->func, .span = op->span, .path = op->path};
    DtOp *copy = dt_graph_copy(&b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++) {
        const uint32_t id = op->out[i]->id;
        if (r->choice.is_saved[id] && r->choice.kept[id])
            continue; /* it is saved: the copy of the inner loop takes it as an input, too */
        if (r->made[id] == NULL)
            r->made[id] = copy->out[i];
        if (r->choice.is_saved[id] && !r->by_kernels && i < 32)
            copy->recomputed |= 1u << i;
    }
    if (op->kind != DT_OP_LOOP)
        return;
    copy->func = dt_loops_copy_func(op->func);
    r->pair->backward->func->ops.n--; /* removes the copy while take_inner appends inputs, which
                                       * must come first */
    take_inner(r, op, copy);
    DT_PUSH(r->arena, r->pair->backward->func->ops, copy);
}

/* Returns the value of the backward body that equals a value of the forward body: a saved one, or
 * ops appended to the backward body that compute it again. */
static DtValue *recompute(Redo *r, DtValue *value)
{
    DtValue **made = &r->made[value->id];
    if (*made != NULL)
        return *made;
    const bool carried = value->op == NULL && !is_given(r, value);
    const bool kept = r->choice.kept[value->id];
    if (is_given(r, value) || carried || (kept && r->choice.is_saved[value->id]) ||
        (kept && !is_cheaply_made(r, value)))
        *made = bring(r->pair, value);
    else
        copy_op(r, value->op);
    return *made;
}

/* ---- one pair ---- */

/* Returns, for each input of the backward body by value id, the saved result of the forward body
 * that the input no longer carries; else NULL. */
static DtValue **find_dropped(Redo *r)
{
    const Pair *pair = r->pair;
    DtFunc *body = pair->backward->func;
    DtValue **dropped = DT_NEW_ARRAY(r->arena, DtValue *, body->n_values + 1);
    for (uint32_t i = 0; i < pair->backward->n_in; i++) {
        DtValue *result = handed_over(pair, i);
        const DtValue *value = result != NULL ? behind_result(pair, result) : NULL;
        if (value != NULL && value->op != NULL && !r->choice.kept[value->id])
            dropped[body->inputs.at[1 + i]->id] = result;
    }
    return dropped;
}

static void find_saved(Redo *r)
{
    const Pair *pair = r->pair;
    r->choice.is_saved = DT_NEW_ARRAY(r->arena, bool, pair->forward->func->n_values + 1);
    for (uint32_t i = 0; i < pair->backward->n_in; i++) {
        DtValue *result = handed_over(pair, i);
        if (result != NULL)
            r->choice.is_saved[behind_result(pair, result)->id] = true;
    }
}

/* Returns the value that readers of an input, which is no longer passed to the backward body, read
 * instead. *replaced keeps it for the next call. */
static DtValue *instead(Redo *r, DtValue **replaced, DtValue *result)
{
    DtValue *value = behind_result(r->pair, result);
    if (*replaced != NULL)
        return *replaced;
    *replaced = recompute(r, value);
    if (value != result) {
        DtBuilder b = {.func = r->pair->backward->func, .span = r->pair->backward->span};
        const DtRelabel *out = &result->op->relabels[0];
        *replaced = dt_graph_rename(&b, *replaced, out->from[0], out->to[0], result->type);
    }
    return *replaced;
}

/* Rebuilds the ops of the backward body; each is preceded by the recomputation of its operands. */
static void rebuild_backward(Redo *r)
{
    DtFunc *body = r->pair->backward->func;
    DtValue **dropped = find_dropped(r);
    const uint32_t n_old = body->n_values, n_ops = body->ops.n;
    DtValue **replaced = DT_NEW_ARRAY(r->arena, DtValue *, n_old + 1);
    DtOp **ops = body->ops.at;
    body->ops.at = NULL;
    body->ops.n = body->ops.cap = 0;
    for (uint32_t i = 0; i < n_ops; i++) {
        for (uint32_t k = 0; k < ops[i]->n_in; k++) {
            const uint32_t id = ops[i]->in[k]->id;
            if (id < n_old && dropped[id] != NULL)
                ops[i]->in[k] = instead(r, &replaced[id], dropped[id]);
        }
        DT_PUSH(r->arena, body->ops, ops[i]);
    }
    for (uint32_t i = 0; i < body->results.n; i++) {
        const uint32_t id = body->results.at[i]->id;
        if (id < n_old && dropped[id] != NULL)
            body->results.at[i] = instead(r, &replaced[id], dropped[id]);
    }
}

/* Whether two equal ops of this kind may become one: random draws of one site and iteration are the
 * same numbers, and views of one value the same memory. */
static bool may_be_one(const DtOp *op)
{
    return op->kind == DT_OP_RNG || (dt_op_info[op->kind].data == DT_DATA_VIEW && op->n_in == 1);
}

static bool is_one(const DtOp *a, const DtOp *b)
{
    if (a->kind == DT_OP_RNG)
        return b->kind == DT_OP_RNG && a->out[0]->type == b->out[0]->type &&
               strcmp(a->text, b->text) == 0;
    return a->kind == b->kind && a->in[0] == b->in[0] && dt_cse_same(a, b);
}

/* The backward body may merge random draws and lookups with recomputed ones. Everything else
 * that it computes from saved values stays separate from recomputed values: if merged, it would
 * have to be stored in memory in between. */
static void merge_draws(Redo *r)
{
    DtFunc *body = r->pair->backward->func;
    DtValue **map = DT_NEW_ARRAY(r->arena, DtValue *, body->n_values + 1);
    for (uint32_t i = 0; i < body->ops.n; i++) {
        DtOp *op = body->ops.at[i];
        for (uint32_t k = 0; k < op->n_in; k++)
            if (map[op->in[k]->id] != NULL)
                op->in[k] = map[op->in[k]->id];
        for (uint32_t k = 0; may_be_one(op) && map[op->out[0]->id] == NULL && k < i; k++) {
            const DtOp *known = body->ops.at[k];
            if (map[known->out[0]->id] == NULL && is_one(op, known))
                map[op->out[0]->id] = known->out[0];
        }
    }
    for (uint32_t i = 0; i < body->results.n; i++)
        if (map[body->results.at[i]->id] != NULL)
            body->results.at[i] = map[body->results.at[i]->id];
}

static void redo(Redo *r)
{
    const uint32_t n = r->pair->forward->func->n_values + 1;
    r->made = DT_NEW_ARRAY(r->arena, DtValue *, n);
    r->cheap = DT_NEW_ARRAY(r->arena, signed char, n);
    rebuild_backward(r);
    merge_draws(r);
    dt_graph_renumber(r->pair->backward->func);
}

static void redo_line(const Remat *remat, const Pair *pair, const DtRemat *line)
{
    Redo r = {.pair = pair, .arena = remat->arena};
    find_saved(&r);
    dt_remat_choose(line, pair->forward->func, pair->forward->loop, &r.choice);
    redo(&r);
}

/* By value id of the forward body: whether the backward body needs the value in memory, for ops
 * other than kernels or to pass it on. */
static bool *find_needed(const Pair *pair, DtArena *arena)
{
    const DtFunc *body = pair->backward->func;
    bool *needed = DT_NEW_ARRAY(arena, bool, pair->forward->func->n_values + 1);
    for (uint32_t i = 0; i < pair->backward->n_in; i++) {
        DtValue *result = handed_over(pair, i);
        const DtValue *input = body->inputs.at[1 + i];
        bool kernels = result && behind_result(pair, result) == result &&
                       dt_remat_read_by_kernels(body, input);
        for (uint32_t k = 0; kernels && k < body->results.n; k++)
            kernels = body->results.at[k] != input;
        if (result && !kernels)
            needed[behind_result(pair, result)->id] = true;
    }
    return needed;
}

/* Returns, by value id of the backward body, the value of the forward body that an input carries;
 * NULL for other values. */
static const DtValue **find_same(const Pair *pair, DtArena *arena)
{
    const DtOp *f = pair->forward, *b = pair->backward;
    const DtValue **same = DT_NEW_ARRAY(arena, const DtValue *, b->func->n_values + 1);
    same[b->func->inputs.at[0]->id] = f->func->inputs.at[0];
    for (uint32_t i = b->loop->n_carried; i < b->n_in; i++) {
        const DtValue **to = &same[b->func->inputs.at[1 + i]->id];
        const bool is_stacked = i >= b->loop->n_carried + b->loop->n_invariant;
        const DtValue *given = handed_over(pair, i) ? NULL : origin(pair->outer, b->in[i]);
        *to = handed_over(pair, i);
        for (uint32_t k = f->loop->n_carried; given && k < f->n_in; k++)
            if (f->in[k] == given && is_stacked == (k >= f->loop->n_carried + f->loop->n_invariant))
                *to = f->func->inputs.at[1 + k];
    }
    return same;
}

/* Decides what a pair of loops saves that no `remat` line names, and rebuilds its backward body if
 * that differs from what is saved now (in a trial only notes that it would). */
static void redo_free(Remat *remat, const Pair *pair)
{
    Redo r = {.pair = pair, .arena = remat->arena, .by_kernels = true};
    find_saved(&r);
    const bool *needed = find_needed(pair, remat->arena);
    const DtOp *f = pair->forward;
    bool some = dt_remat_choose_products(remat->context, f->func, f->loop, needed, &r.choice);
    some = dt_remat_drop_made(f->func, f->loop, pair->backward->func, needed,
                              find_same(pair, remat->arena), &r.choice) ||
           some;
    if (!some)
        return;
    remat->found = true;
    if (!remat->is_trial)
        redo(&r);
}

/* ---- the pass ---- */

/* Whether the name is the loop's label or the end of it: `h` and `student.h` both name the loop of
 * label `student.h`. */
static bool has_label(const DtOp *loop, const char *name)
{
    const size_t n = strlen(name), len = strlen(loop->loop->label);
    return len >= n && strcmp(loop->loop->label + len - n, name) == 0 &&
           (len == n || loop->loop->label[len - n - 1] == '.');
}

/* Returns the `remat` line that names the loop: by its label, or by its axis if no loop has such a
 * label. NULL if there is none. */
static const DtRemat *line_of(const Remat *remat, const DtOp *loop)
{
    const DtParallelConfig *config = remat->context->parallel;
    for (uint32_t i = 0; config && i < config->remats.n; i++)
        if (has_label(loop, config->remats.at[i].loop))
            return &config->remats.at[i];
    for (uint32_t i = 0; config && i < config->remats.n; i++)
        if (strcmp(loop->loop->axis, config->remats.at[i].loop) == 0 && !remat->is_label[i])
            return &config->remats.at[i];
    return NULL;
}

static void visit(Remat *remat, const Pair *outer, DtFunc *forward, DtFunc *backward);

static void visit_pair(Remat *remat, const Pair *pair)
{
    const DtRemat *line = line_of(remat, pair->forward);
    remat->found = remat->found || line != NULL;
    if (line == NULL)
        redo_free(remat, pair);
    else if (!remat->is_trial)
        redo_line(remat, pair, line);
    visit(remat, pair, pair->forward->func, pair->backward->func);
    visit(remat, NULL, pair->backward->func,
          pair->backward->func); /* forward loops that are run again */
}

/* Visits each pair of a forward loop in one function and its backward loop in the other, outer
 * pairs first. */
static void visit(Remat *remat, const Pair *outer, DtFunc *forward, DtFunc *backward)
{
    DT_VEC(Pair) pairs = {0};
    for (uint32_t i = 0; i < forward->ops.n; i++)
        for (uint32_t k = 0; forward->ops.at[i]->kind == DT_OP_LOOP && k < backward->ops.n; k++) {
            const Pair pair = {outer, forward, forward->ops.at[i], backward->ops.at[k]};
            if (pair.backward->kind == DT_OP_LOOP && is_pair(&pair))
                DT_PUSH(remat->arena, pairs, pair);
        }
    for (uint32_t i = 0; i < pairs.n; i++)
        visit_pair(remat, &pairs.at[i]);
}

static void find_labels(Remat *remat, const DtModule *module)
{
    const DtParallelConfig *config = remat->context->parallel;
    remat->is_label = DT_NEW_ARRAY(remat->arena, bool, config->remats.n + 1);
    for (uint32_t f = 0; f < module->funcs.n; f++)
        for (uint32_t i = 0; i < module->funcs.at[f]->ops.n; i++)
            for (uint32_t k = 0; k < config->remats.n; k++)
                if (module->funcs.at[f]->ops.at[i]->kind == DT_OP_LOOP &&
                    has_label(module->funcs.at[f]->ops.at[i], config->remats.at[k].loop))
                    remat->is_label[k] = true;
}

/* Visits all pairs of loops in entries "grad"; is_trial: changes nothing. Returns whether a change
 * was found. */
static bool visit_all(Remat *remat, DtModule *module, bool is_trial)
{
    remat->is_trial = is_trial;
    for (uint32_t i = 0; i < module->entries.n; i++) {
        DtFunc *func = module->entries.at[i].func;
        if (module->entries.at[i].kind != DT_ENTRY_GRAD)
            continue;
        visit(remat, NULL, func, func);
        if (!is_trial)
            dt_loops_prune(func);
    }
    return remat->found;
}

bool dt_pass_remat(DtModule *module, const DtPassContext *context)
{
    Remat remat = {.context = context, .arena = module->arena};
    if (context->parallel != NULL)
        find_labels(&remat, module);
    if (!visit_all(&remat, module, true))
        return false;
    dt_loops_own(module);
    return visit_all(&remat, module, false);
}
