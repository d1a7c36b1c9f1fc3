/* SPDX-License-Identifier: Apache-2.0 */
/* Ring calls: their ops. With n ranks, q, k, v of attend, and @ring an axis of n elements, one per
 * rank:
 *
 *     q', k', v'   = the rank's parts, [@ring/context, ...]         ring_part.c: nothing moves
 *     m, u, o      = block(q', k', v', positions)                   own keys
 *     loop n - 1 times
 *       k', v'     = shift(k', v')                                  those of the rank before
 *       m, u, o    = merge of these with block(q', k', v', positions)
 *     o            = finish(m, u, o), as [seq/context, ...]
 *
 * `block`, `merge` and `finish` are what the function says of itself (DtStream). The backward part
 * goes round once, too: what lacks the keys' axis adds up in place, what belongs to keys travels
 * along with them and goes one step further, home, at the end. */
#include "passes/place/ring_internal.h"
#include "base/bug.h"
#include "passes/place/zigzag.h"

#include "base/intern.h"
#include "ir/shape.h"

#include <stdio.h>
#include <string.h>

enum { MAX_IN = 32 };

/* What becomes of an argument of the block function. STAYS: a rank uses its own value in each step.
 * TRAVELS: it moves from rank to rank with its block of keys. SELECTED: the part for the visiting
 * block is taken out of a value for all keys. POSITIONS: the positions of the visiting keys. */
typedef enum Role { STAYS, TRAVELS, SELECTED, POSITIONS } Role;
typedef struct Argument {
    Role role;
    DtValue *value;     /* the value outside of the block; POSITIONS: NULL */
    const DtType *type; /* type inside the block */
    const char *axis;   /* the axis whose positions it is, or NULL */
} Argument;

typedef struct Ring {
    DtArena *arena;
    const DtOp *call;
    const DtFunc *func;
    const DtRingFacts *facts;
    DtRingRanks ranks;
    int64_t n, length; /* n: ranks; length: keys of a block */
    const char *t;
    const DtAxis *blocks; /* the axis t, split in the order of the ranks' blocks */
    DtBuilder b;          /* adds ops to the function being built, or to the body of its loop */
    DtFunc *made;
    DtValue **local;       /* by input of func: this rank's part; NULL: not made yet */
    DtValue **outside;     /* by value id of func: the value for all blocks, if it is known
                            * already */
    DtValue **results;     /* by result of func: its value for all blocks; NULL: computed from
                            * `outside` */
    const DtValue **keyed; /* the results of func that have t */
    uint32_t n_keyed;
} Ring;

/* A round: all blocks pass once. It has a function for one block, and the sources of that
 * function's arguments. */
typedef struct Round {
    Ring *g;
    const DtFunc *func; /* a block computes ops of this function, which has the inputs of the ring's
                         * function */
    DtFunc *block;
    DtValue **clone; /* by value id of func: the same value in the block function */
    Argument args[MAX_IN];
    uint32_t n_args;
} Round;

/* ---- types ---- */

/* Returns the type that a value of func has on a rank: if ranks have different values, the ring's
 * axis is in front. */
static const DtType *local_type(const Ring *g, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 1;
    bool differs = (type->partial & g->ranks.bits) != 0;
    for (uint32_t d = 0; d < type->rank; d++, n++) {
        differs = differs || type->axes[d].name == g->t ||
                  (dt_shape_split_bits(&type->axes[d]) & g->ranks.bits);
        axes[n] = dt_ringpart_rest(&g->ranks, &type->axes[d]);
        if (axes[n].name == g->t)
            axes[n].extent = g->length;
    }
    axes[0] = g->ranks.axis;
    return dt_type_make(type->dtype, differs ? n : n - 1, differs ? axes : axes + 1,
                        type->partial & (uint16_t)~g->ranks.bits, (DtReduce)type->pending);
}

static DtValue *part_of(Ring *g, DtValue *x) { return dt_ringpart_of(&g->ranks, &g->b, x); }

/* ---- positions ---- */

static DtValue *binary(Ring *g, DtOpKind kind, DtValue *x, DtValue *y)
{
    return dt_graph_binary(&g->b, kind, x, y);
}
static DtValue *with(Ring *g, DtOpKind kind, DtValue *x, int64_t n)
{
    DtValue *y = dt_graph_constant(&g->b, DT_I32, (double)n);
    return binary(g, kind, x, y);
}

/* Appends the number of a rank's block of keys. Ranks count in the order of the mesh, blocks in the
 * order in which the mesh axes split the keys. */
static DtValue *block_number(Ring *g, DtValue *rank)
{
    const DtAxis *ring = &g->ranks.axis;
    DtValue *number = NULL;
    if (memcmp(g->blocks->split, ring->split, ring->n_split) == 0)
        return rank;
    for (uint32_t s = 0; s < ring->n_split; s++) {
        const int64_t size = g->ranks.mesh->axes[g->blocks->split[s]].size;
        int64_t stride = 1; /* the stride of this mesh axis in the number of a rank */
        for (uint32_t k = ring->n_split; ring->split[k - 1] != g->blocks->split[s]; k--)
            stride *= g->ranks.mesh->axes[ring->split[k - 1]].size;
        DtValue *digit = stride > 1 ? with(g, DT_OP_FLOORDIV, rank, stride) : rank;
        digit = with(g, DT_OP_MOD, digit, size);
        number = number ? binary(g, DT_OP_ADD, with(g, DT_OP_MUL, number, size), digit) : digit;
    }
    return number;
}

/* Appends the number of the block that is on each rank in this step of the round, i32[@ring]; step
 * NULL: the rank's own block. */
static DtValue *visitor(Ring *g, DtValue *step)
{
    DtValue *me = dt_graph_iota(&g->b, g->ranks.axis);
    return block_number(g, step ? with(g, DT_OP_MOD, binary(g, DT_OP_SUB, me, step), g->n) : me);
}

/* Appends the positions of the keys that are on each rank in this step: i32[@ring, t]. */
static DtValue *positions(Ring *g, DtValue *step)
{
    DtValue *block = visitor(g, step);
    DtValue *at = dt_graph_iota(&g->b, (DtAxis){.name = g->t, .extent = g->length});
    if (g->blocks->zigzag)
        return dt_zigzag_position(&g->b, g->n, g->blocks->extent, block, at);
    return binary(g, DT_OP_ADD, with(g, DT_OP_MUL, block, g->length), at);
}

/* ---- blocks of values that are whole along the keys ---- */

/* How the keys' axis t is cut into n blocks of `each` keys (into halves of blocks, in zigzag
 * order), and the numbers of those that are on each rank now. */
typedef struct Cut {
    const char *block, *half;
    int64_t n, each;
    DtValue *index; /* by rank: [@ring] or [@ring, @half] */
} Cut;

static Cut cut_of(Ring *g, DtValue *step)
{
    Cut cut = {
        .block = dt_intern("@block"), .n = g->n, .each = g->length, .index = visitor(g, step)};
    if (!g->blocks->zigzag)
        return cut;
    cut.half = dt_intern("@half");
    cut.n *= 2;
    cut.each /= 2;
    DtValue *half = dt_graph_iota(&g->b, (DtAxis){.name = cut.half, .extent = 2});
    cut.index = dt_zigzag_block(&g->b, g->n, cut.index, with(g, DT_OP_LT, half, 1));
    return cut;
}

static DtValue *split_axis(Ring *g, DtValue *x, const char *major, int64_t n, int64_t each)
{
    DtRelabel entry = {
        .n_from = 1, .n_to = 2, .from = {g->t}, .to = {major, g->t}, .to_extent = {n, each}};
    return dt_graph_relabel(&g->b, x, 1, &entry, NULL);
}

static DtValue *merge_axis(Ring *g, DtValue *x, const char *major, int64_t extent)
{
    DtRelabel entry = {
        .n_from = 2, .n_to = 1, .from = {major, g->t}, .to = {g->t}, .to_extent = {extent}};
    return dt_graph_relabel(&g->b, x, 1, &entry, NULL);
}

/* Appends ops that take the elements of x for the keys which are on the rank in this step; the
 * result has this type. */
static DtValue *selected(Ring *g, DtValue *x, DtValue *step, const DtType *type)
{
    Cut cut = cut_of(g, step);
    x = dt_graph_gather(&g->b, split_axis(g, x, cut.block, cut.n, cut.each), 1, &cut.block,
                        &cut.index);
    if (cut.half)
        x = merge_axis(g, x, cut.half, g->length);
    return dt_graph_reorder(&g->b, x, type);
}

/* Appends a value for all keys that is x at the keys which are on the rank in this step, and zero
 * elsewhere. */
static DtValue *spread(Ring *g, DtValue *x, DtValue *step)
{
    Cut cut = cut_of(g, step);
    DtAxis block = {.name = cut.block, .extent = cut.n};
    if (cut.half)
        x = split_axis(g, x, cut.half, 2, cut.each);
    x = dt_graph_scatter_add(&g->b, x, 1, &block, &cut.index, cut.half != NULL, &cut.half, NULL);
    return merge_axis(g, x, cut.block, g->n * g->length);
}

/* ---- the block function ---- */

static bool reduces_keys(const Ring *g, const DtOp *op)
{
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (op->axes[i] == g->t)
            return true;
    return false;
}

/* Returns a copy of op, not in any function, whose result has the type that it has on one rank.
 * wide: a product that sums over keys stays in f32 until it is complete. */
static const DtOp *like_local(Ring *g, const DtOp *op, bool wide)
{
    DtOp *like = DT_NEW(g->arena, DtOp);
    DtValue *out = DT_NEW(g->arena, DtValue);
    *like = *op;
    *out = *op->out[0];
    out->type = local_type(g, out->type);
    if (wide && op->kind == DT_OP_DOT)
        out->type = dt_type_with_dtype(out->type, DT_F32);
    like->out = DT_NEW(g->arena, DtValue *);
    like->out[0] = out;
    return like;
}

static DtValue *add_argument(Round *round, Role role, DtValue *value, const DtType *type,
                             const char *name)
{
    if (round->n_args == MAX_IN)
        DT_BUG(
            "a ring's round takes more than %d operands, which dt_ring_refuses should have counted",
            MAX_IN);
    round->args[round->n_args++] = (Argument){role, value, type, NULL};
    return dt_graph_arg(round->block, type, name);
}

/* Returns the block function's argument that holds the positions along this axis; NULL if there is
 * none. */
static DtValue *positions_along(const Round *round, const char *axis)
{
    for (uint32_t i = 0; i < round->n_args; i++)
        if (round->args[i].axis == axis)
            return round->block->inputs.at[i];
    return NULL;
}

/* Adds arguments to the block function for the positions from which a value is computed. */
static void add_positions(Round *round, const DtValue *value)
{
    Ring *g = round->g;
    const DtOp *op = value->op;
    for (uint32_t i = 0; i < op->n_in; i++)
        add_positions(round, op->in[i]);
    if (op->kind != DT_OP_IOTA || positions_along(round, op->axes[0]))
        return;
    const bool keys = op->axes[0] == g->t;
    DtValue *iota = keys ? NULL : part_of(g, dt_graph_iota(&g->b, value->type->axes[0]));
    add_argument(round, keys ? POSITIONS : STAYS, iota, local_type(g, value->type), op->axes[0]);
    round->args[round->n_args - 1].axis = op->axes[0];
}

static DtValue *clone_positional(Round *round, DtBuilder *b, const DtValue *value)
{
    const DtOp *op = value->op;
    DtValue *in[4];
    if (op->kind == DT_OP_IOTA)
        return positions_along(round, op->axes[0]);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = clone_positional(round, b, op->in[i]);
    return dt_graph_copy(b, like_local(round->g, op, false), in)->out[0];
}

static void add_input(Round *round, uint32_t i)
{
    Ring *g = round->g;
    const DtValue *input = round->func->inputs.at[i];
    const DtType *type = local_type(g, input->type);
    if (dt_ring_is_positional(g->call->in[i])) {
        add_positions(round, g->call->in[i]);
        return;
    }
    if (!g->local[i])
        g->local[i] = part_of(g, g->made->inputs.at[i]);
    Role role = g->call->in[i]->type != input->type    ? TRAVELS
                : dt_type_find(input->type, g->t) >= 0 ? SELECTED
                                                       : STAYS;
    round->clone[input->id] = add_argument(round, role, g->local[i], type, input->name);
}

/* Returns, by value id, whether the wanted values need the value, if the given ones are known. */
static bool *needed_for(const DtFunc *func, DtArena *arena, const DtValue *const *wanted,
                        uint32_t n_wanted, const DtValue *const *given, uint32_t n_given)
{
    bool *needed = DT_NEW_ARRAY(arena, bool, func->n_values + 1);
    for (uint32_t i = 0; i < n_wanted; i++)
        needed[wanted[i]->id] = true;
    for (uint32_t i = func->ops.n; i-- > 0;) {
        const DtOp *op = func->ops.at[i];
        for (uint32_t k = 0; k < n_given; k++)
            if (op->out[0] == given[k])
                needed[op->out[0]->id] = false;
        for (uint32_t k = 0; needed[op->out[0]->id] && k < op->n_in; k++)
            needed[op->in[k]->id] = true;
    }
    return needed;
}

/* Builds the function of a block that computes the wanted values of func; the given values are
 * known outside and become arguments. */
static Round begin_round(Ring *g, const DtFunc *func, const DtValue *const *wanted,
                         uint32_t n_wanted, const DtValue *const *given, uint32_t n_given)
{
    const char *name = dt_intern_printf("%s.block", g->made->name);
    Round round = {.g = g, .func = func, .block = dt_graph_func(g->func->module, name, DT_FUNC_FN)};
    const bool *needed = needed_for(func, g->arena, wanted, n_wanted, given, n_given);
    round.clone = DT_NEW_ARRAY(g->arena, DtValue *, func->n_values + 1);
    round.block->span = func->span;
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (needed[func->inputs.at[i]->id])
            add_input(&round, i);
    for (uint32_t i = 0; i < n_given; i++)
        round.clone[given[i]->id] = add_argument(&round, STAYS, g->outside[given[i]->id],
                                                 local_type(g, given[i]->type), given[i]->name);
    DtBuilder b = {.func = round.block, .span = g->call->span, .path = g->call->path};
    for (uint32_t i = 0; i < func->inputs.n; i++)
        if (needed[func->inputs.at[i]->id] && !round.clone[func->inputs.at[i]->id])
            round.clone[func->inputs.at[i]->id] = clone_positional(&round, &b, g->call->in[i]);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        if (!needed[op->out[0]->id])
            continue;
        DtValue **in = DT_NEW_ARRAY(g->arena, DtValue *, op->n_in + 1);
        bool is_wanted = false;
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = round.clone[op->in[k]->id];
        for (uint32_t k = 0; k < n_wanted; k++)
            is_wanted = is_wanted || (op->out[0] == wanted[k] && reduces_keys(g, op));
        b.span = op->span;
        round.clone[op->out[0]->id] = dt_graph_copy(&b, like_local(g, op, is_wanted), in)->out[0];
    }
    for (uint32_t i = 0; i < n_wanted; i++)
        dt_graph_return(round.block, round.clone[wanted[i]->id]);
    return round;
}

/* ---- rounds ---- */

/* Appends a call of the block function in this step (NULL: the first step, with the rank's own
 * keys). values: by argument, the value from which it comes. */
static DtOp *call_block(Round *round, DtValue *step, DtValue *const *values)
{
    Ring *g = round->g;
    DtValue *in[MAX_IN];
    for (uint32_t i = 0; i < round->n_args; i++) {
        const Argument *arg = &round->args[i];
        in[i] = arg->role == POSITIONS  ? dt_graph_reorder(&g->b, positions(g, step), arg->type)
                : arg->role == SELECTED ? selected(g, values[i], step, arg->type)
                                        : values[i];
    }
    return dt_graph_call(&g->b, round->block, NULL, in);
}

static DtValue *shift(Ring *g, DtValue *x)
{
    DtValue *y = dt_graph_comm(&g->b, DT_OP_SHIFT, x, g->ranks.bits, x->type);
    y->name = x->name;
    y->op->text = dt_intern_printf("ring over `%s`", g->t);
    return y;
}

/* What a round has made of the blocks so far (at), and which of these values move on with their
 * block of keys (travels). */
typedef struct State {
    DtValue *at[MAX_IN];
    bool travels[MAX_IN];
    uint32_t n;
} State;
typedef void Join(Ring *g, State *state, const DtOp *block, DtValue *step);

/* The loop of a round while it is made. */
typedef struct Turn {
    DtFunc *body;
    DtValue *in[3 * MAX_IN]; /* the loop's operands */
    uint32_t n;
} Turn;

/* Adds x, a value outside of the loop, to the loop's operands; returns the input of the body for
 * it. */
static DtValue *enter(Turn *turn, DtValue *x)
{
    turn->in[turn->n++] = x;
    return dt_graph_arg(turn->body, x->type, x->name);
}

/* Makes arguments inputs of the loop's body: those that travel, or those that do not. values[i]
 * becomes the input for argument i. */
static void enter_arguments(Turn *turn, const Round *round, bool travelling, DtValue **values)
{
    for (uint32_t i = 0; i < round->n_args; i++)
        if (round->args[i].role != POSITIONS && (round->args[i].role == TRAVELS) == travelling)
            values[i] = enter(turn, values[i]);
}

/* Fills the body: travelling values move on by one rank, then the block is joined to the state. */
static void make_body(Round *round, Join *join, State *state, Turn *turn, DtValue **values)
{
    Ring *g = round->g;
    DtValue *step = turn->body->inputs.at[0];
    for (uint32_t i = 0; i < round->n_args; i++)
        if (round->args[i].role == TRAVELS)
            values[i] = shift(g, values[i]);
    for (uint32_t i = 0; i < state->n; i++)
        if (state->travels[i])
            state->at[i] = shift(g, state->at[i]);
    join(g, state, call_block(round, step, values), step);
    for (uint32_t i = 0; i < round->n_args; i++)
        if (round->args[i].role == TRAVELS)
            dt_graph_return(turn->body, values[i]);
    for (uint32_t i = 0; i < state->n; i++)
        dt_graph_return(turn->body, state->at[i]);
}

/* Appends all n steps of a round: the first one here, the others in a loop. The values that it has
 * made are in state afterwards. */
static void go_round(Round *round, Join *join, State *state)
{
    Ring *g = round->g;
    DtValue *values[MAX_IN];
    DtBuilder outer = g->b;
    for (uint32_t i = 0; i < round->n_args; i++)
        values[i] = round->args[i].value;
    *state = (State){.n = 0};
    join(g, state, call_block(round, NULL, values), NULL);
    Turn turn = {.body =
                     dt_graph_func(g->func->module, dt_intern_printf("%s.body", round->block->name),
                                   DT_FUNC_BODY)};
    turn.body->span = g->call->span;
    g->b.func = turn.body;
    dt_graph_arg(turn.body, dt_type_scalar(DT_I32), "step");
    enter_arguments(&turn, round, true, values);
    for (uint32_t i = 0; i < state->n; i++)
        state->at[i] = enter(&turn, state->at[i]);
    const uint32_t n_carried = turn.n;
    enter_arguments(&turn, round, false, values);
    make_body(round, join, state, &turn, values);
    g->b = outer;
    const DtLoop loop = {.label = "ring",
                         .axis = "@step",
                         .count = g->n - 1,
                         .first = 1,
                         .n_carried = n_carried,
                         .n_invariant = turn.n - n_carried};
    const DtOp *made = dt_graph_loop(&g->b, turn.body, loop, turn.in);
    for (uint32_t i = 0; i < state->n; i++)
        state->at[i] = made->out[n_carried - state->n + i];
}

/* ---- parts ---- */

/* Returns the type in which axes are split as those of the same name in func's inputs. */
static const DtType *placed(const Ring *g, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    for (uint32_t d = 0; d < type->rank; d++) {
        axes[d] = type->axes[d];
        for (uint32_t i = 0; i < g->func->inputs.n; i++) {
            const DtType *input = g->func->inputs.at[i]->type;
            const int k = dt_type_find(input, axes[d].name);
            if (k >= 0 && input->axes[k].n_split)
                axes[d] = input->axes[k];
        }
    }
    return dt_type_plain(type->dtype, type->rank, axes);
}

/* Returns a copy of a function of the stream, whose types have no splits, in which axes are split
 * as in func's inputs. */
static const DtFunc *place_func(const Ring *g, const DtFunc *func)
{
    DtFunc *made = DT_NEW(g->arena, DtFunc);
    DtValue **map = DT_NEW_ARRAY(g->arena, DtValue *, func->n_values + 1);
    *made = (DtFunc){.module = func->module, .name = func->name, .kind = func->kind,
                     .span = func->span};
    DtBuilder b = {.func = made};
    for (uint32_t i = 0; i < func->inputs.n; i++)
        map[func->inputs.at[i]->id] =
            dt_graph_arg(made, placed(g, func->inputs.at[i]->type), func->inputs.at[i]->name);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtValue **in = DT_NEW_ARRAY(g->arena, DtValue *, op->n_in + 1);
        for (uint32_t k = 0; k < op->n_in; k++)
            in[k] = map[op->in[k]->id];
        DtValue wished = *op->out[0], *out = &wished;
        wished.type = placed(g, wished.type);
        DtOp like = *op;
        like.out = &out;
        b.span = op->span;
        b.path = op->path;
        map[op->out[0]->id] = dt_graph_copy(&b, &like, in)->out[0];
        map[op->out[0]->id]->name = op->out[0]->name;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        dt_graph_return(made, map[func->results.at[i]->id]);
    return made;
}

/* Appends x repeated along the axes of type that it lacks, without the ring's axis if x does not
 * have it. */
static DtValue *expanded(Ring *g, DtValue *x, const DtType *type)
{
    const char *ring = g->ranks.axis.name;
    const bool lacks = dt_type_find(x->type, ring) < 0 && dt_type_find(type, ring) >= 0;
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < type->rank; d++)
        if (!lacks || type->axes[d].name != ring)
            axes[n++] = type->axes[d];
    return dt_graph_expand(&g->b, x, dt_type_plain(x->type->dtype, n, axes));
}

/* Computes an elementwise function on the ranks' values `in`, appending its ops to g->b. */
static void apply(Ring *g, const DtFunc *func, DtValue *const *in, DtValue **ret_results)
{
    DtValue **map = DT_NEW_ARRAY(g->arena, DtValue *, func->n_values + 1);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        map[func->inputs.at[i]->id] = in[i];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        DtValue *of[4];
        for (uint32_t k = 0; k < op->n_in; k++)
            of[k] = map[op->in[k]->id];
        const DtType *type = local_type(g, placed(g, op->out[0]->type));
        map[op->out[0]->id] =
            op->kind == DT_OP_CONST     ? dt_graph_constant(&g->b, type->dtype, op->number)
            : op->kind == DT_OP_CAST    ? dt_graph_cast(&g->b, of[0], type->dtype)
            : op->kind == DT_OP_EXPAND  ? expanded(g, of[0], type)
            : op->kind == DT_OP_RELABEL ? of[0] /* only reorders axes */
                                        : dt_graph_map(&g->b, op->kind, op->n_in, of, NULL);
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        ret_results[i] = map[func->results.at[i]->id];
}

/* Merges the results of a block with those of earlier blocks by the function that the stream
 * states; in the first step (step NULL) keeps them as they are. */
static void join_parts(Ring *g, State *state, const DtOp *block, DtValue *step)
{
    const DtFunc *merge = g->func->stream->merge;
    DtValue *in[2 * DT_RING_PARTS], *made[DT_RING_PARTS];
    state->n = block->n_out;
    for (uint32_t i = 0; i < block->n_out; i++) {
        in[i] = state->at[i];
        in[block->n_out + i] = made[i] = block->out[i];
    }
    if (step)
        apply(g, merge, in, made);
    for (uint32_t i = 0; i < block->n_out; i++)
        state->at[i] = step ? dt_graph_fit(&g->b, made[i], state->at[i]->type) : made[i];
}

/* Builds the round of the streaming function, and the finish after it; then g->results has the
 * results of func. */
static void stream(Ring *g)
{
    const DtStream *s = g->func->stream;
    const DtFunc *part = place_func(g, s->part);
    DtValue *in[DT_RING_PARTS + DT_RING_INPUTS], *made[DT_RING_RESULTS];
    Round round =
        begin_round(g, part, (const DtValue *const *)part->results.at, part->results.n, NULL, 0);
    State state;
    go_round(&round, join_parts, &state);
    for (uint32_t i = 0; i < state.n; i++)
        in[i] = state.at[i];
    for (uint32_t i = 0; i < s->given.n; i++)
        in[state.n + i] = part_of(g, g->made->inputs.at[s->given.at[i]]);
    if (s->finish)
        apply(g, s->finish, in, made);
    for (uint32_t i = 0; i < g->func->results.n; i++) {
        const int32_t take = s->takes.at[i];
        DtValue *value = take < 0 ? state.at[-1 - take] : made[take];
        g->results[i] = dt_graph_fit(&g->b, value, local_type(g, g->func->results.at[i]->type));
    }
}

/* ---- values without keys ---- */

/* Builds, in the ring's function, a value of g->func that lacks the keys' axis, once for all blocks
 * (not inside the loop over blocks), with all it is made of. Values already built are kept in
 * g->outside. */
static DtValue *outside(Ring *g, const DtValue *value)
{
    if (g->outside[value->id])
        return g->outside[value->id];
    const DtOp *op = value->op;
    if (!op)
        return g->outside[value->id] = part_of(g, g->made->inputs.at[value->index]);
    DtValue **in = DT_NEW_ARRAY(g->arena, DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = outside(g, op->in[i]);
    return g->outside[value->id] = dt_graph_copy(&g->b, like_local(g, op, false), in)->out[0];
}

/* ---- the gradients ---- */

/* Adds a block's gradients to those of earlier blocks: sums over keys, and then gradients of keys,
 * which travel with their block or are put into a value for all keys. */
static void join_gradients(Ring *g, State *state, const DtOp *block, DtValue *step)
{
    const DtRingFacts *f = g->facts;
    state->n = block->n_out;
    for (uint32_t i = 0; i < block->n_out; i++) {
        DtValue *term = block->out[i];
        const DtType *type = i < f->n_finals ? NULL : g->keyed[i - f->n_finals]->type;
        state->travels[i] = type && (type->partial & g->ranks.bits) == g->ranks.bits;
        if (type && !state->travels[i])
            term = spread(g, term, step);
        if (step)
            term = dt_graph_reorder(&g->b, binary(g, DT_OP_ADD, state->at[i], term),
                                    state->at[i]->type);
        state->at[i] = term;
    }
}

static void differentiate(Ring *g)
{
    const DtRingFacts *f = g->facts;
    const DtValue *wanted[MAX_IN];
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_rows; i++)
        outside(g, f->rows[i]);
    for (uint32_t i = 0; i < f->n_finals; i++)
        wanted[n++] = f->finals[i];
    for (uint32_t i = 0; i < g->func->results.n; i++)
        if (dt_type_find(g->func->results.at[i]->type, g->t) >= 0)
            wanted[n++] = g->keyed[g->n_keyed++] = g->func->results.at[i];
    Round round = begin_round(g, g->func, wanted, n, f->rows, f->n_rows);
    State state;
    go_round(&round, join_gradients, &state);
    for (uint32_t i = 0; i < n; i++) {
        if (state.travels[i])
            state.at[i] = shift(g, state.at[i]);
        g->outside[wanted[i]->id] = dt_graph_cast(&g->b, state.at[i], wanted[i]->type->dtype);
    }
}

/* ---- all of it ---- */

static const DtAxis *travelling_axis(const DtOp *call)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (call->in[i]->type != call->func->inputs.at[i]->type)
            return &call->in[i]->type->axes[dt_type_find(call->in[i]->type, call->axes[0])];
    return NULL;
}

/* Removes inputs of the ring's function that no op reads. ret_in: the call's operands for the
 * others. */
static void drop_inputs(Ring *g, DtValue **ret_in)
{
    DtFunc *func = g->made;
    bool *read = DT_NEW_ARRAY(g->arena, bool, func->n_values + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_in; k++)
            read[func->ops.at[i]->in[k]->id] = true;
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        if (!read[func->inputs.at[i]->id])
            continue;
        ret_in[n] = g->call->in[i];
        func->inputs.at[n] = func->inputs.at[i];
        func->inputs.at[n]->index = n;
        n++;
    }
    func->inputs.n = func->n_args = n;
    dt_graph_renumber(func);
}

DtFunc *dt_ring_expand(const DtOp *call, DtModule *module, DtValue **ret_in)
{
    DtRingFacts form;
    const DtFunc *func = call->func;
    Ring ring = {.arena = module->arena,
                 .call = call,
                 .func = func,
                 .facts = &form,
                 .t = call->axes[0]},
         *g = &ring;
    if (!dt_ring_facts(func, g->t, g->arena, &form))
        DT_BUG("a ring call of `%s`: %s", func->name, form.reason);
    g->ranks = dt_ringpart_ranks(&module->mesh, call->mesh);
    g->n = g->ranks.axis.extent;
    g->blocks = travelling_axis(call);
    g->length = g->blocks->extent / g->n;
    g->local = DT_NEW_ARRAY(g->arena, DtValue *, func->inputs.n + 1);
    g->outside = DT_NEW_ARRAY(g->arena, DtValue *, func->n_values + 1);
    g->results = DT_NEW_ARRAY(g->arena, DtValue *, func->results.n + 1);
    g->keyed = DT_NEW_ARRAY(g->arena, const DtValue *, func->results.n + 1);
    g->made = dt_graph_func(module, dt_intern_printf("%s.ring", func->name), DT_FUNC_FN);
    g->made->span = func->span;
    g->b = (DtBuilder){.func = g->made, .span = call->span, .path = call->path};
    for (uint32_t i = 0; i < func->inputs.n; i++)
        dt_graph_arg(g->made, call->in[i]->type, func->inputs.at[i]->name);
    if (func->stream->part)
        stream(g);
    else
        differentiate(g);
    for (uint32_t i = 0; i < func->results.n; i++) {
        DtValue *value = g->results[i] ? g->results[i] : outside(g, func->results.at[i]);
        dt_graph_return(g->made, dt_ringpart_join(&g->ranks, &g->b, value, call->out[i]->type));
    }
    dt_graph_sweep(g->made);
    drop_inputs(g, ret_in);
    return g->made;
}
