/* SPDX-License-Identifier: Apache-2.0 */
/* Which piece, and which of F and B, each op of an expanded entry belongs to.
 *
 *  - What the loss, states, metrics and outputs depend on is forward, and stands in the piece of
 *    its place in the program. The rest is backward.
 *  - Constants, positions, inputs, random draws and cheap ops of them are not assigned: they are
 *    made again wherever they are read (a draw repeats), so they never travel. So are casts and the
 *    like of a parameter: a parameter that several pieces read is on each of their stages.
 *  - Cotangents go from the last piece to the first. A backward op could run in the lowest piece of
 *    the cotangents that it reads. It goes further down where that is the home of a forward value
 *    or a parameter that it reads: to where the op is that it differentiates, so that neither has
 *    to travel. What is made of a cotangent alone, for the gradient of one parameter, goes down to
 *    where that is read: an embedding that is a piece of its own adds up its gradient itself.
 *  - What backward ops of later pieces read, and what depends on no cotangent (a forward value that
 *    is made a second time), is made in F of the pieces that have what it depends on, and travels
 *    forwards.
 *  - A parameter's gradient that adds up over several pieces is not brought together: each piece
 *    adds its terms to the gradient of its own stage, and the stages' gradients are added once per
 *    step, in "update". */
#include "passes/pipeline/stage.h"

#include <string.h>

typedef struct Assigner {
    DtStager *s;
    DtExpanded *e;
    DtAssigned *to;
    uint32_t words; /* 64-bit words of a set of pieces */
    const bool *forward;
    uint8_t *recompute, *value_recompute; /* by op, and by value: DtRecompute */
    uint64_t *value_homes; /* by value: the set of pieces whose forward part computes or receives
                            * it */
    uint64_t *store_homes; /* by store: the set of pieces whose forward part reads it */
    uint8_t *known;        /* by op: whether it depends on no cotangent */
    bool *early;           /* by op: a backward op that runs in F */
    int32_t *goal;         /* by value: the one parameter whose gradient depends on it; UNUSED:
                            * none; MORE: several */
    bool restart;      /* further early ops were found: assigns all ops again */
} Assigner;

enum { UNUSED = -1, MORE = -2 };

/* whether an op depends on no cotangent */
typedef enum Known { KNOWN_NOT_ASKED, KNOWN_NO, KNOWN_YES } Known;

static DtArena *arena_of(const Assigner *a) { return a->s->arena; }
static DtOp *op_at(const Assigner *a, uint32_t i) { return a->e->func->ops.at[i]; }
static uint32_t number_of(const Assigner *a, const DtValue *value)
{
    return a->to->op_of.at[value->id];
}

static void note_op(Assigner *a, uint32_t i, DtOpHome home)
{
    const DtOp *op = op_at(a, i);
    for (uint32_t k = 0; k < op->n_out; k++)
        DT_PUSH(arena_of(a), a->to->op_of, i);
    DT_PUSH(arena_of(a), a->to->ops, home);
}

/* ---- values that stages recompute ---- */

static bool is_cheap(const DtOp *op)
{
    const DtOpClass kind = dt_op_info[op->kind].op_class;
    return kind == DT_CLASS_MAP || kind == DT_CLASS_AXIS;
}

DtRecompute dt_stage_recompute(const DtOp *op, const uint8_t *of_value)
{
    if (op->kind == DT_OP_PARAM)
        return DT_RECOMPUTE_PARAM;
    if (dt_op_info[op->kind].op_class == DT_CLASS_SOURCE)
        return DT_RECOMPUTE_FREE;
    const DtRecompute all = op->n_in > 0 ? (DtRecompute)of_value[op->in[0]->id] : DT_RECOMPUTE_NO;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (of_value[op->in[i]->id] != all)
            return DT_RECOMPUTE_NO;
    if (all == DT_RECOMPUTE_FREE)
        return is_cheap(op) ? all : DT_RECOMPUTE_NO;
    const bool of_param = op->kind == DT_OP_CAST || dt_op_info[op->kind].data == DT_DATA_VIEW ||
                          dt_op_info[op->kind].op_class == DT_CLASS_COMM;
    return of_param && op->n_in == 1 ? all : DT_RECOMPUTE_NO;
}

/* ---- sets of pieces ---- */

static void add_home(const Assigner *a, uint64_t *sets, uint32_t i, uint32_t piece)
{
    sets[i * a->words + piece / 64] |= (uint64_t)1 << piece % 64;
}

/* Returns the largest piece that is in set number i and not above `most`; -1 if there is none. */
static int64_t largest(const Assigner *a, const uint64_t *sets, uint32_t i, uint32_t most)
{
    for (int64_t piece = most; piece >= 0; piece--)
        if (sets[i * a->words + (uint64_t)piece / 64] >> piece % 64 & 1)
            return piece;
    return -1;
}

/* Returns the parameter that a value is a view of. */
static const DtStore *param_of(const DtValue *value)
{
    while (value->op->kind != DT_OP_PARAM)
        value = value->op->in[0];
    return value->op->store;
}

static void read_forward(const Assigner *a, const DtOp *op, uint32_t piece)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint8_t recompute = a->recompute[number_of(a, op->in[i])];
        if (recompute == DT_RECOMPUTE_NO)
            add_home(a, a->value_homes, op->in[i]->id, piece);
        else if (recompute == DT_RECOMPUTE_PARAM)
            add_home(a, a->store_homes, param_of(op->in[i])->index, piece);
    }
}

/* ---- pieces ---- */

/* Returns the piece, `piece` at most, in whose backward part the op runs. It goes down to the last
 * piece whose forward part has the values and parameters that the op reads, so that these need not
 * travel. */
static uint32_t pull_down(const Assigner *a, const DtOp *op, uint32_t piece)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < op->n_in; i++) {
            const uint32_t of = number_of(a, op->in[i]);
            int64_t home = -1;
            if (a->recompute[of] == DT_RECOMPUTE_PARAM)
                home = largest(a, a->store_homes, param_of(op->in[i])->index, piece);
            else if (a->recompute[of] == DT_RECOMPUTE_NO && a->forward[of])
                home = largest(a, a->value_homes, op->in[i]->id, piece);
            if (home >= 0 && home < piece) {
                piece = (uint32_t)home;
                moved = true;
            }
        }
    }
    return piece;
}

/* Whether the op has exactly one cotangent as operand, and no operand from a forward part, which
 * would have to be passed to another piece. */
static bool is_of_cotangent(const Assigner *a, const DtOp *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const DtOpHome *home = &a->to->ops.at[number_of(a, op->in[i])];
        if (home->home == DT_HOME_F)
            return false;
        n += home->home == DT_HOME_B;
    }
    return n == 1;
}

/* Returns the piece in which a backward op runs: `lowest` (the lowest piece of the cotangents that
 * it reads), or one below where its operands or its parameter are. */
static uint32_t backward_piece(const Assigner *a, const DtOp *op, uint32_t lowest)
{
    const uint32_t piece = pull_down(a, op, lowest);
    const int32_t goal = op->n_out == 1 ? a->goal[op->out[0]->id] : MORE;
    const int64_t home = goal >= 0 && is_of_cotangent(a, op)
                             ? largest(a, a->store_homes, (uint32_t)goal, piece)
                             : -1;
    return home >= 0 ? (uint32_t)home : piece;
}

static uint32_t lowest_cotangent(const Assigner *a, const DtOp *op)
{
    uint32_t piece = a->s->pipeline->n_pieces - 1;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint32_t of = number_of(a, op->in[i]);
        if (a->to->ops.at[of].home == DT_HOME_B && a->to->ops.at[of].piece < piece)
            piece = a->to->ops.at[of].piece;
    }
    return piece;
}

static bool is_known(Assigner *a, uint32_t i)
{
    const DtOp *op = op_at(a, i);
    if (a->recompute[i] != DT_RECOMPUTE_NO || a->forward[i])
        return true;
    if (a->known[i] == KNOWN_NOT_ASKED) {
        bool known = !a->e->fixed.at[i];
        for (uint32_t k = 0; known && k < op->n_in; k++)
            known = is_known(a, number_of(a, op->in[k]));
        a->known[i] = known ? KNOWN_YES : KNOWN_NO;
    }
    return a->known[i] == KNOWN_YES;
}

/* Marks the op, and backward ops that it reads, as running in the forward part (F); a->restart
 * makes all ops be assigned again. */
static void make_early(Assigner *a, uint32_t i)
{
    if (a->recompute[i] != DT_RECOMPUTE_NO || a->forward[i] || a->early[i])
        return;
    a->early[i] = a->restart = true;
    for (uint32_t k = 0; k < op_at(a, i)->n_in; k++)
        make_early(a, number_of(a, op_at(a, i)->in[k]));
}

/* Whether all operands that come from lower pieces than the op's own can be computed in the forward
 * part (F), since they depend on no cotangent. Marks these as early. */
static bool reads_early(Assigner *a, const DtOp *op, uint32_t piece)
{
    bool good = true;
    for (uint32_t k = 0; k < op->n_in; k++) {
        const uint32_t of = number_of(a, op->in[k]);
        if (a->to->ops.at[of].home != DT_HOME_B || a->to->ops.at[of].piece >= piece)
            continue;
        good = good && is_known(a, of);
        if (good)
            make_early(a, of);
    }
    return good;
}

/* Returns the piece for an op that moves to F: the last piece whose forward part computes one of
 * its operands, or else the piece where it would run in the backward part. */
static uint32_t early_piece(const Assigner *a, const DtOp *op)
{
    int64_t piece = -1;
    for (uint32_t k = 0; k < op->n_in; k++) {
        const DtOpHome of = a->to->ops.at[number_of(a, op->in[k])];
        if (of.home == DT_HOME_F && of.piece > piece)
            piece = of.piece;
    }
    return piece >= 0 ? (uint32_t)piece : pull_down(a, op, a->s->pipeline->n_pieces - 1);
}

static bool assign_op(Assigner *a, uint32_t i, bool live)
{
    const DtOp *op = op_at(a, i);
    const uint32_t place = a->e->place.at[i];
    DtOpHome home = {live ? DT_HOME_ANY : DT_HOME_NONE, place};
    a->recompute[i] = (uint8_t)dt_stage_recompute(op, a->value_recompute);
    for (uint32_t k = 0; k < op->n_out; k++)
        a->value_recompute[op->out[k]->id] = a->recompute[i];
    if (live && a->recompute[i] == DT_RECOMPUTE_NO && (a->forward[i] || a->early[i])) {
        home = (DtOpHome){DT_HOME_F, a->early[i] ? early_piece(a, op) : place};
        read_forward(a, op, home.piece);
        for (uint32_t k = 0; k < op->n_out; k++)
            add_home(a, a->value_homes, op->out[k]->id, home.piece);
    } else if (live && a->recompute[i] == DT_RECOMPUTE_NO) {
        const uint32_t lowest = lowest_cotangent(a, op);
        home = (DtOpHome){DT_HOME_B, a->e->fixed.at[i] ? place : backward_piece(a, op, lowest)};
        if (home.piece > lowest && !reads_early(a, op, home.piece)) {
            dt_stage_refuse(a->s, E0592, op->span,
                            "a pipeline whose gradients go forwards (here to piece %u from piece "
                            "%u) is not implemented yet",
                            home.piece, lowest);
            return false;
        }
    }
    if (home.home >= DT_HOME_F && !a->e->fixed.at[i])
        /* an op on a single stage cannot be in a class of several */
        dt_stage_differ(a->s, dt_stage_of(a->s, home.piece));
    note_op(a, i, home);
    return true;
}

/* ---- gradients ---- */

typedef struct Term {
    DtValue *value;
    uint32_t piece;
} Term;
typedef DT_VEC(Term) Terms;

/* Assigns an op that was just appended to the function to the backward part (B) of a piece; returns
 * its result. */
static DtValue *added(Assigner *a, DtOp *op, uint32_t piece)
{
    note_op(a, a->e->func->ops.n - 1, (DtOpHome){DT_HOME_B, piece});
    return op->out[0];
}

/* Whether the op is applied to each stage's term of a gradient, before the sum over stages: maps,
 * and the ops around them. All others, including slices and gathers, apply to the sum, as in the
 * serial program, since the certificate proves no other order of these. */
static bool is_done_by_terms(const DtOp *op)
{
    switch (op->kind) {
    case DT_OP_CAST:
    case DT_OP_NEG:
    case DT_OP_MUL:
    case DT_OP_DIV:
    case DT_OP_WHERE:
    case DT_OP_RELABEL:
    case DT_OP_EXPAND:
    case DT_OP_REDUCE:
    case DT_OP_ALL_REDUCE:
    case DT_OP_REDUCE_SCATTER: return true;
    default: return false;
    }
}

/* Returns the operand in which the op is linear, if every piece can compute the others itself, and
 * if the op may be applied to terms of a sum; -1 if there is none. */
static int32_t linear_in(const Assigner *a, const DtOp *op)
{
    int32_t found = -1;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (a->to->ops.at[number_of(a, op->in[i])].home == DT_HOME_ANY)
            continue;
        if (found >= 0)
            return -1;
        found = (int32_t)i;
    }
    if (found < 0 || !dt_op_is_linear(op, (uint32_t)found) || !is_done_by_terms(op))
        return -1;
    if (op->kind == DT_OP_CAST) /* rounding each term would change the sum */
        return dt_dtype_size(op->out[0]->type->dtype) > dt_dtype_size(op->in[0]->type->dtype)
                   ? found
                   : -1;
    if (op->kind == DT_OP_WHERE) /* the other branch is zero */
        return dt_stage_is_zero(op->in[3 - found]) ? found : -1;
    return dt_op_is_joint(op, (uint32_t)found) ? -1 : found;
}

static bool in_one_piece(const Terms *terms)
{
    for (uint32_t i = 1; i < terms->n; i++)
        if (terms->at[i].piece != terms->at[0].piece)
            return false;
    return terms->n > 0;
}

/* Appends to ret_terms the terms of which the gradient is the sum, each with the piece that
 * computes it. Linear ops after the sum are copied for each term. */
static void find_terms(Assigner *a, DtValue *value, Terms *ret_terms)
{
    const uint32_t number = number_of(a, value);
    DtOp *op = value->op;
    Terms inner = {0};
    DtValue *rest = NULL; /* the part of the sum that no piece's gradient contains */
    const bool is_sum = op->kind == DT_OP_ADD;
    const int32_t linear = is_sum ? -1 : linear_in(a, op);
    if (a->to->ops.at[number].home != DT_HOME_B)
        return;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const uint32_t before = inner.n;
        if (is_sum || (int32_t)i == linear)
            find_terms(a, op->in[i], &inner);
        if (is_sum && inner.n == before && !dt_stage_is_zero(op->in[i]))
            rest = op->in[i];
    }
    if (inner.n == 0 || in_one_piece(&inner)) {
        DT_PUSH(arena_of(a), *ret_terms, ((Term){value, a->to->ops.at[number].piece}));
        return;
    }
    DtBuilder b = {.func = a->e->func, .span = op->span, .path = op->path};
    for (uint32_t i = 0; i < inner.n; i++) {
        Term term = inner.at[i];
        if (linear >= 0) {
            DtValue **in = DT_NEW_ARRAY(arena_of(a), DtValue *, op->n_in + 1);
            memcpy(in, op->in, op->n_in * sizeof *in);
            in[linear] = term.value;
            term.value = added(a, dt_graph_copy(&b, op, in), term.piece);
        } else if (rest && i == 0) {
            term.value = added(a, dt_graph_binary(&b, DT_OP_ADD, term.value, rest)->op, term.piece);
        }
        DT_PUSH(arena_of(a), *ret_terms, term);
    }
}

/* Returns a piece for a gradient that has no operands: the last one that reads the parameter. */
static uint32_t piece_of_constant(const Assigner *a, const DtStore *grad)
{
    const int64_t home = largest(a, a->store_homes, grad->of->index, a->s->pipeline->n_pieces - 1);
    return home >= 0 ? (uint32_t)home : 0;
}

/* Makes one result per piece that computes a term of the gradient; pieces whose term is zero give
 * none. */
static void split_gradient(Assigner *a, const DtExpandedResult *result, DtExpanded *to)
{
    Terms terms = {0};
    find_terms(a, result->value, &terms);
    if (terms.n == 0 && !dt_stage_is_zero(result->value)) {
        const Term term = {result->value, piece_of_constant(a, result->to.store)};
        DT_PUSH(arena_of(a), terms, term);
    }
    for (uint32_t i = 0; i < terms.n; i++) {
        DtExpandedResult one = *result;
        one.value = terms.at[i].value;
        one.piece = terms.at[i].piece;
        for (uint32_t k = i + 1; k < terms.n;) {
            if (terms.at[k].piece != one.piece) {
                k++;
                continue;
            }
            DtBuilder b = {.func = a->e->func, .span = one.value->op->span};
            one.value = added(a, dt_graph_binary(&b, DT_OP_ADD, one.value, terms.at[k].value)->op,
                              one.piece);
            terms.at[k] = terms.at[--terms.n];
        }
        DT_PUSH(arena_of(a), to->results, one);
    }
}

/* Marks ops as dead (DT_HOME_NONE) that no op reads since gradients were split. */
static void drop_dead(const Assigner *a)
{
    bool *wanted = DT_NEW_ARRAY(arena_of(a), bool, a->e->func->n_values + 1);
    for (uint32_t i = 0; i < a->e->results.n; i++)
        wanted[a->e->results.at[i].value->id] = true;
    for (uint32_t i = a->to->ops.n; i-- > 0;) {
        const DtOp *op = op_at(a, i);
        bool live = false;
        for (uint32_t k = 0; k < op->n_out; k++)
            live = live || wanted[op->out[k]->id];
        if (!live)
            a->to->ops.at[i].home = DT_HOME_NONE;
        for (uint32_t k = 0; live && k < op->n_in; k++)
            wanted[op->in[k]->id] = true;
    }
}

static bool is_gradient(const DtExpandedResult *result)
{
    return result->to.store && result->to.store->kind == DT_STORE_GRAD;
}

static void settle_results(Assigner *a)
{
    DtExpanded settled = {0};
    const uint32_t last = a->s->pipeline->n_pieces - 1;
    for (uint32_t i = 0; i < a->e->results.n; i++) {
        DtExpandedResult result = a->e->results.at[i];
        const DtOpHome home = a->to->ops.at[number_of(a, result.value)];
        result.piece = home.home == DT_HOME_ANY ? last : home.piece;
        if (is_gradient(&result) && result.range < 0) {
            split_gradient(a, &result, &settled);
            continue;
        }
        if (is_gradient(&result) && home.home == DT_HOME_ANY) {
            if (dt_stage_is_zero(result.value))
                continue;
            result.piece = (uint32_t)result.range;
        }
        DT_PUSH(arena_of(a), settled.results, result);
    }
    a->e->results.at = settled.results.at;
    a->e->results.n = settled.results.n;
    a->e->results.cap = settled.results.cap;
}

static bool assign_all(Assigner *a, const bool *live)
{
    const uint32_t n = a->e->func->ops.n;
    a->restart = false;
    a->to->ops.n = a->to->op_of.n = 0;
    memset(a->value_homes, 0, (size_t)a->e->func->n_values * a->words * sizeof *a->value_homes);
    memset(a->store_homes, 0, (size_t)a->s->module->stores.n * a->words * sizeof *a->store_homes);
    for (uint32_t i = 0; i < n; i++)
        if (!assign_op(a, i, live[i]))
            return false;
    return true;
}

static void add_goal(int32_t *goal, int32_t of)
{
    *goal = *goal == UNUSED || of == *goal ? of : of == UNUSED ? *goal : MORE;
}

static void find_goals(Assigner *a)
{
    const DtFunc *func = a->e->func;
    a->goal = DT_NEW_ARRAY(arena_of(a), int32_t, func->n_values + 1);
    for (uint32_t i = 0; i < func->n_values; i++)
        a->goal[i] = UNUSED;
    for (uint32_t i = 0; i < a->e->results.n; i++) {
        const DtExpandedResult *result = &a->e->results.at[i];
        const bool whole = is_gradient(result) && result->range < 0;
        add_goal(&a->goal[result->value->id], whole ? (int32_t)result->to.store->of->index : MORE);
    }
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = op_at(a, i);
        int32_t goal = a->e->fixed.at[i] ? MORE : UNUSED;
        for (uint32_t k = 0; k < op->n_out; k++)
            add_goal(&goal, a->goal[op->out[k]->id]);
        for (uint32_t k = 0; k < op->n_in; k++)
            add_goal(&a->goal[op->in[k]->id], goal);
    }
}

bool dt_stage_assign(DtStager *s, DtExpanded *e, DtAssigned *ret_assigned)
{
    DtFunc *func = e->func;
    const uint32_t n_pieces = s->pipeline->n_pieces;
    Assigner a = {.s = s, .e = e, .to = ret_assigned, .words = (n_pieces + 63) / 64};
    bool *forward = DT_NEW_ARRAY(s->arena, bool, e->results.n + 1),
         *all = DT_NEW_ARRAY(s->arena, bool, e->results.n + 1);
    *ret_assigned = (DtAssigned){0};
    for (uint32_t i = 0; i < e->results.n; i++) {
        dt_graph_return(func, e->results.at[i].value);
        forward[i] = !is_gradient(&e->results.at[i]);
        all[i] = true;
    }
    a.forward = dt_stage_ancestors(s->arena, func, forward);
    const bool *live = dt_stage_ancestors(s->arena, func, all);
    a.recompute = DT_NEW_ARRAY(s->arena, uint8_t, func->ops.n + 1);
    a.value_recompute = DT_NEW_ARRAY(s->arena, uint8_t, func->n_values + 1);
    a.value_homes = DT_NEW_ARRAY(s->arena, uint64_t, (size_t)func->n_values * a.words + 1);
    a.store_homes = DT_NEW_ARRAY(s->arena, uint64_t, (size_t)s->module->stores.n * a.words + 1);
    a.known = DT_NEW_ARRAY(s->arena, uint8_t, func->ops.n + 1);
    a.early = DT_NEW_ARRAY(s->arena, bool, func->ops.n + 1);
    find_goals(&a);
    do
        if (!assign_all(&a, live))
            return false;
    while (a.restart);
    settle_results(&a);
    drop_dead(&a);
    return true;
}
