/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in tiles: emits a call of a function that streams (the library's `attend` or a user's
 * own), or of its gradient, without a buffer of queries times keys. After Dao et al.,
 * "FlashAttention" (2022), but the whole row of scores of a block of queries is kept, since on a
 * CPU it fits the cache.
 *
 * The function's own ops define the computation; this file only cuts them. With s the query axis, t
 * the key axis and every other axis of the scores a loop:
 *
 *   before     ops that depend on no scores: emitted first, as usual
 *   scores     contractions whose result has s and t: one matrix product per block of queries
 *   region     everything between: scale, mask, softmax, its derivative: one row kernel per block
 *   outputs    contractions of a region value: sums over t give the block's rows (o, dq); sums
 *   over s
 *              accumulate over the blocks and, with grouped queries, over the loop of the group
 *              (dk, dv)
 *   after      ops that depend on outputs
 *
 * A result of the region is an output too, which the row kernel writes: without t (the maximum and
 * sum of a ring's block), or with both axes, block by block (the gradient of a bias per query and
 * key). So is a sum over queries, or over axes that are loops (the gradient of a bias that a batch
 * shares): blocks accumulate it. A value with s and t that depends on no scores (a mask of
 * positions in memory) belongs to the region as well. Axes of which a rank has one element are no
 * loops.
 *
 * With a mask of positions a block reads only keys up to the last one that some of its queries
 * may see (visible.c). If that depends on the rank or on the step of a ring, there are several
 * blocks, and guards run one of them. A function without these parts is emitted op by op. */
#include "codegen/attend.h"

#include "base/bug.h"
#include "base/intern.h"
#include "plan/notes.h"

#include <string.h>

/* ---- one block of queries ---- */

/* Returns the part of a value's place that one block uses. Axes that became loops are removed
 * (their registers move the address), and the axes of queries and keys are cut to the block's. */
static DtPlace cut(const DtTiling *g, DtPlace place)
{
    DtView *view = &place.view;
    uint32_t first = g->e->scope->reg + 1, rank = 0;
    for (uint32_t d = 0; d < view->rank; d++) {
        bool looped = false;
        for (uint32_t k = 0; k < g->n_loops; k++)
            if (view->axis[d] == g->loops[k]) {
                place.reg[first + k] += view->stride[d] * (int64_t)dt_dtype_size(view->dtype);
                looped = true;
            }
        if (looped)
            continue;
        view->axis[rank] = view->axis[d];
        view->extent[rank] = view->extent[d];
        view->stride[rank] = view->stride[d];
        if (view->axis[rank] == g->s) {
            view->offset += g->at * view->stride[rank];
            view->extent[rank] = g->rows;
        } else if (view->axis[rank] == g->t) {
            view->extent[rank] = g->keys;
        }
        rank++;
    }
    view->rank = (uint8_t)rank;
    return place;
}

/* Returns the type that a value has inside a block: without the axes that became loops, with local
 * extents, and with the block's numbers of queries and keys. */
static const DtType *block_type(const DtTiling *g, const DtType *type)
{
    DtAxis axes[DT_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < type->rank; d++) {
        bool looped = false;
        for (uint32_t k = 0; k < g->n_loops; k++)
            looped = looped || type->axes[d].name == g->loops[k];
        if (looped)
            continue;
        axes[n] = (DtAxis){.name = type->axes[d].name,
                           .extent = dt_type_local_extent(type, d, &g->e->module->mesh)};
        if (axes[n].name == g->s)
            axes[n].extent = g->rows;
        else if (axes[n].name == g->t)
            axes[n].extent = g->keys;
        n++;
    }
    return dt_type_plain(type->dtype, n, axes);
}

static DtValue *clone_inline(DtTiling *g, DtBuilder *b, const DtValue *value, DtValue **clones);

/* Clones the op of a random draw for the block, and records in e->draws which part of the whole
 * draw the block has, so that its elements keep their numbers. Returns the clone's result. */
static DtValue *block_draw(DtTiling *g, DtBuilder *b, const DtValue *value)
{
    DtValue wished = *value, *out = &wished;
    DtOp draft = *value->op;
    wished.type = block_type(g, value->type);
    draft.out = &out;
    DtValue *made = dt_graph_copy(b, &draft, NULL)->out[0];
    made->made_anew = 2;
    DT_PUSH(g->e->arena, g->e->draws,
            ((DtKDraw){made->op, value->type, g->s, g->loops, g->at, g->n_loops,
                       g->e->scope->reg + 1}));
    return made;
}

static DtValue *make_inline(DtTiling *g, DtBuilder *b, const DtValue *value, DtValue **clones)
{
    const DtOp *op = value->op;
    DtValue *in[4];
    if (op->kind == DT_OP_CONST)
        return dt_graph_constant(b, value->type->dtype, op->number);
    if (op->kind == DT_OP_IOTA) {
        DtValue *iota = dt_graph_iota(b, block_type(g, value->type)->axes[0]);
        if (value->type->axes[0].n_split)
            DT_PUSH(g->e->arena, g->e->origins, ((DtOrigin){iota->op, &value->type->axes[0]}));
        g->numbered = g->numbered || op->axes[0] == g->s;
        if (op->axes[0] != g->s || g->at == 0)
            return iota;
        return dt_graph_binary(b, DT_OP_ADD, iota, dt_graph_constant(b, DT_I32, (double)g->at));
    }
    if (op->kind == DT_OP_RNG)
        return block_draw(g, b, value);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = clone_inline(g, b, op->in[i], clones);
    if (op->kind == DT_OP_EXPAND)
        return dt_graph_expand(b, in[0], block_type(g, value->type));
    const DtType *wish = block_type(g, value->type);
    return op->kind == DT_OP_CAST ? dt_graph_cast(b, in[0], value->type->dtype)
                                  : dt_graph_map(b, op->kind, op->n_in, in, wish);
}

/* Computes a cheap value, of the function or its caller, for the block: positions of queries start
 * at the block's first query. clones: by value id, those made already. */
static DtValue *clone_inline(DtTiling *g, DtBuilder *b, const DtValue *value, DtValue **clones)
{
    if (!clones[value->id])
        clones[value->id] = make_inline(g, b, value, clones);
    return clones[value->id];
}

/* Returns the value that stands for `value` in the block's own function, made at the first call: a
 * cheap value is computed again, any other becomes an argument. */
static DtValue *clone_of(DtTiling *g, DtBuilder *b, const DtValue *value)
{
    if (g->clone[value->id])
        return g->clone[value->id];
    DtValue *copy;
    if (!value->op && g->inlined[value->index])
        copy = clone_inline(g, b, g->inlined[value->index], g->clone_outside);
    else if (value->op && dt_op_is_inline(value))
        copy = clone_inline(g, b, value, g->clone);
    else
        copy = dt_graph_arg(b->func, block_type(g, value->type), value->name);
    g->clone[value->id] = copy;
    return copy;
}

/* Copies the region's ops into a function of their own. Arguments must come first, so a first round
 * adds the operands, and a second the ops. */
static DtFunc *block_func(DtTiling *g)
{
    DtFunc *block = dt_graph_func((DtModule *)(uintptr_t)g->e->module, "block", DT_FUNC_BODY);
    DtBuilder b = {.func = block, .span = g->call->span, .path = g->call->path};
    g->clone = DT_NEW_ARRAY(g->e->arena, DtValue *, g->func->n_values + 1);
    g->clone_outside = DT_NEW_ARRAY(g->e->arena, DtValue *, g->outside->n_values + 1);
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        for (uint32_t j = 0; dt_tile_is_of_region(g, i) && j < g->func->ops.at[i]->n_in; j++) {
            const DtValue *value = g->func->ops.at[i]->in[j];
            bool region = value->op && g->part[g->position[value->id]] == DT_TILE_REGION;
            bool is_inline =
                (!value->op && g->inlined[value->index]) || (value->op && dt_op_is_inline(value));
            if (!region && !is_inline)
                clone_of(g, &b, value);
        }
    for (uint32_t i = 0; i < g->func->ops.n; i++) {
        const DtOp *op = g->func->ops.at[i];
        if (!dt_tile_is_of_region(g, i))
            continue;
        DtValue **in = DT_NEW_ARRAY(g->e->arena, DtValue *, op->n_in + 1);
        for (uint32_t j = 0; j < op->n_in; j++)
            in[j] = clone_of(g, &b, op->in[j]);
        DtOp draft = *op;
        DtValue wished = *op->out[0], *out = &wished;
        wished.type = block_type(g, op->out[0]->type);
        draft.out = &out;
        if (g->part[i] == DT_TILE_TOTAL) { /* points also run along s, whose terms the store adds
                                            * up; loops cover the other axes */
            draft.axes = &g->s;
            draft.n_axes = dt_op_has_axis(op, g->s);
        }
        g->clone[op->out[0]->id] = dt_graph_copy(&b, &draft, in)->out[0];
    }
    return block;
}

/* Finds the memory of a score that the value can take over, and marks it in `taken`: memory of its
 * dtype, dense in the value's order of axes, that no other value took. NULL: there is none. */
static const DtPlace *free_score(const DtTiling *g, const DtPlace *score_of, bool *taken,
                                 const DtValue *value)
{
    for (uint32_t i = 0; i < g->func->n_values; i++) {
        if (!score_of[i].set || taken[i] || score_of[i].view.dtype != value->type->dtype ||
            !dt_place_is_dense(&score_of[i], value->type, &g->e->module->mesh))
            continue;
        taken[i] = true;
        return &score_of[i];
    }
    return NULL;
}

/* Emits the kernel of the region, the ops between the scores and the products that read their
 * results. It writes the values that products read, over the memory of a score where one fits, and
 * its outputs. */
static void emit_region(DtTiling *g, DtFunc *block, const DtPlace *score_of,
                        const DtPlace *outputs_of, const bool *adds, DtPlace *ret_places)
{
    DtEmit *e = g->e;
    DtScope *inner = dt_scope_new(e, block, NULL, e->scope->path);
    inner->reg = e->scope->reg;
    for (uint32_t i = 0; i < g->func->n_values; i++)
        if (g->clone[i])
            inner->number[g->clone[i]->id] = g->scope->number[i];
    const DtScope *kept = e->scope;
    DtOutput outputs[2 * DT_TILE_VALUES];
    const DtValue *sources[DT_TILE_VALUES];
    uint32_t n = 0, n_all, n_ops = 0;
    const DtOp **ops = DT_NEW_ARRAY(e->arena, const DtOp *, block->ops.n + 1);
    for (uint32_t i = 0; i < g->func->n_values; i++)
        if (g->clone[i] && !g->clone[i]->op)
            inner->places[g->clone[i]->id] =
                score_of[i].set ? score_of[i] : cut(g, g->scope->places[i]);
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        for (uint32_t j = 0; g->part[i] == DT_TILE_OUTPUT && j < 2; j++) {
            const DtValue *value = g->func->ops.at[i]->in[j];
            bool known = dt_tile_part(g, value) != DT_TILE_REGION;
            for (uint32_t k = 0; k < n; k++)
                known = known || sources[k] == value;
            if (!known && n < DT_TILE_VALUES)
                sources[n++] = value;
        }
    n_all = n;
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        if (dt_tile_is_left(g, i))
            outputs[n_all++] = (DtOutput){.value = g->clone[g->func->ops.at[i]->out[0]->id],
                                          .place = cut(g, outputs_of[i]), .accumulate = adds[i],
                                          .block = true};
    if (n_all == 0) /* products take the scores as they are */
        return;
    for (uint32_t i = 0; i < block->ops.n; i++)
        if (!dt_op_is_inline(block->ops.at[i]->out[0]))
            ops[n_ops++] = block->ops.at[i];
    e->scope = inner;
    bool done = false;
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        if (g->part[i] == DT_TILE_TOTAL && dt_op_has_axis(g->func->ops.at[i], g->s))
            e->rows = g->s;
    for (int in_place = 1; !done && in_place >= 0; in_place--) {
        bool *taken = DT_NEW_ARRAY(e->arena, bool, g->func->n_values + 1);
        for (uint32_t k = 0; k < n; k++) {
            DtValue *value = g->clone[sources[k]->id];
            const DtPlace *score = in_place ? free_score(g, score_of, taken, value) : NULL;
            outputs[k] = (DtOutput){
                .value = value,
                .place = score ? *score : dt_place_temporary(e, value->type, value->name)};
        }
        e->like = g->rows == g->like_rows && g->keys == g->like_keys && !g->numbered ? g->like : 0;
        e->repeats = true;
        done = dt_launch_kernel(e, ops, n_ops, outputs, n_all);
        e->like = 0, e->repeats = false;
    }
    e->rows = NULL;
    if (!done)
        DT_BUG("the region between attention's products is no kernel");
    /* equal blocks share a text */
    g->like_rows = g->rows, g->like_keys = g->keys, g->like = 1 + e->launched;
    e->scope = (DtScope *)(uintptr_t)kept;
    for (uint32_t k = 0; k < n; k++)
        ret_places[sources[k]->id] = outputs[k].place;
}

/* A block's matrix product; `settle` has made sure that its operands allow one. */
static void product(DtTiling *g, const DtOp *op, const DtPlace *to, bool accumulates)
{
    DtPlace operands[2] = {*dt_copy_require(g->e, op->in[0]), *dt_copy_require(g->e, op->in[1])};
    if (op->copies)
        dt_gemm_straighten(g->e, op, operands, to);
    if (!dt_gemm_emit(g->e, op, operands, to, accumulates))
        DT_BUG("a product of attention's blocks is no matrix product");
}

static void emit_block(DtTiling *g, const DtPlace *buffers, const DtPlace *outputs,
                       const bool *accumulates)
{
    DtEmit *e = g->e;
    const DtFunc *func = g->func;
    DtPlace *kept = e->scope->places, *cuts = g->cuts, *scores = g->scores, *here = g->here;
    DtFunc *block = block_func(g);
    for (uint32_t i = 0; i < func->n_values; i++) {
        cuts[i].set = scores[i].set = here[i].set = false;
        if (kept[i].set)
            here[i] = cut(g, kept[i]);
    }
    e->scope->places = here;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (g->part[i] == DT_TILE_SCORE) {
            DtValue *value = func->ops.at[i]->out[0];
            scores[value->id] =
                dt_place_dense(e, block_type(g, value->type), buffers[value->id].view.buffer);
            cuts[value->id] = scores[value->id];
            product(g, func->ops.at[i], &scores[value->id], false);
        }
    e->scope->places = kept;
    emit_region(g, block, scores, outputs, accumulates, cuts);
    e->scope->places = here;
    for (uint32_t i = 0; i < func->n_values; i++)
        if (cuts[i].set)
            here[i] = cuts[i];
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (g->part[i] == DT_TILE_OUTPUT) {
            DtPlace to = cut(g, outputs[i]);
            product(g, func->ops.at[i], &to, accumulates[i]);
        }
    e->scope->places = kept;
}

/* ---- the whole ---- */

/* One block: queries at .. at + rows - 1 in one case, that is, on the ranks and in the iterations
 * where they see equally many keys. */
typedef struct Block {
    int64_t at, rows;
    DtVisibleCase of;
} Block;

/* Returns the earlier block that these queries can join, or NULL: one just before them in the same
 * case, where both take the fewest keys, 1. most: rows that a block may have. */
static Block *hidden_before(Block *blocks, uint32_t n, const Block *these, int64_t most)
{
    const DtVisibleCase *of = &these->of;
    for (uint32_t i = 0; i < n && of->keys == 1; i++)
        if (blocks[i].of.keys == 1 && blocks[i].at + blocks[i].rows == these->at &&
            blocks[i].rows + these->rows <= most && blocks[i].of.first == of->first &&
            blocks[i].of.last == of->last && blocks[i].of.sum_of.number == of->sum_of.number &&
            blocks[i].of.sum_of.reg == of->sum_of.reg)
            return &blocks[i];
    return NULL;
}

/* Fills ret_blocks with the blocks into which the queries are cut, in order, and returns how many
 * there are. On every rank, in every iteration, they cover each query once. */
static uint32_t list_blocks(DtTiling *g, int64_t rows_of_all, Block *ret_blocks)
{
    const int64_t half = g->n_s / 2;
    const uint32_t most = g->n_s > rows_of_all * (g->e->target->blocks_most / DT_VISIBLE_CASES)
                              ? 2
                              : DT_VISIBLE_CASES;
    uint32_t n = 0;
    for (int64_t at = 0, rows; at < g->n_s; at += rows) {
        DtVisibleCase cases[DT_VISIBLE_CASES] = {{.is_first = true, .is_last = true,
                                                  .keys = g->n_t}};
        rows = at + rows_of_all < g->n_s ? rows_of_all : g->n_s - at;
        if (g->masked && g->reach.uses && at < half && at + rows > half)
            rows = half - at; /* the halves of a zigzag order see different keys */
        const uint32_t n_cases = g->masked ? dt_visible_cases(&g->reach, at, rows, most, cases) : 1;
        for (uint32_t i = 0; i < n_cases; i++) {
            const Block these = {at, rows, cases[i]};
            Block *before = hidden_before(ret_blocks, n, &these, rows_of_all * g->n_t);
            if (before)
                before->rows += rows;
            else
                ret_blocks[n++] = these;
        }
    }
    return n;
}

/* Returns the key under which replay.c finds the blocks' instructions again: everything that they
 * depend on except the iterations of loops. The pieces of a pipeline then share instructions. */
static DtReplay key_of(DtTiling *g, const Block *blocks, uint32_t n, const DtPlace *buffers,
                       const DtPlace *outputs, const bool *accumulates)
{
    DtEmit *e = g->e;
    const DtFunc *func = g->func;
    DtReplay key = {.hash = 0};
    const void *const owners[] = {func, g->outside, g->call};
    const char *path = e->scope->path ? e->scope->path : "";
    dt_replay_add(&key, owners, sizeof owners);
    dt_replay_add(&key, &e->scope->reg, sizeof e->scope->reg);
    dt_replay_add(&key, path, strlen(path) + 1);
    for (uint32_t i = 0; i < func->n_values; i++) {
        const bool parts[] = {e->scope->places[i].set, buffers[i].set};
        dt_replay_add(&key, parts, sizeof parts);
        if (parts[0])
            dt_replay_place(e, &key, &e->scope->places[i]);
        if (parts[1])
            dt_replay_buffer(e, &key, buffers[i].view.buffer);
    }
    for (uint32_t i = 0; i < func->ops.n; i++) {
        if (!dt_tile_is_output(g, i))
            continue;
        dt_replay_place(e, &key, &outputs[i]);
        dt_replay_add(&key, &accumulates[i], sizeof accumulates[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const int64_t numbers[] = {blocks[i].at, blocks[i].rows, blocks[i].of.keys};
        dt_replay_add(&key, numbers, sizeof numbers);
        if (g->masked)
            dt_visible_guard(&g->reach, &blocks[i].of);
        dt_replay_guards(e, &key);
        e->n_guards = 0;
    }
    return key;
}

static void emit_blocks(DtTiling *g, int64_t rows, const DtPlace *buffers, const DtPlace *outputs,
                        const bool *accumulates)
{
    DtEmit *e = g->e;
    Block *blocks =
        DT_NEW_ARRAY(e->scratch, Block, (e->target->blocks_most + 1) * DT_VISIBLE_CASES);
    const uint32_t n = list_blocks(g, rows, blocks);
    DtReplay replay = key_of(g, blocks, n, buffers, outputs, accumulates);
    if (dt_replay_repeat(e, &replay))
        return;
    for (uint32_t i = 0; i < n; i++) {
        g->at = blocks[i].at, g->rows = blocks[i].rows, g->keys = blocks[i].of.keys;
        if (g->masked)
            dt_visible_guard(&g->reach, &blocks[i].of);
        dt_note_op(e, DT_NOTE_BLOCK, NULL);
        dt_note_words(e, 3, (int64_t[]){g->at, g->rows, g->keys});
        emit_block(g, buffers, outputs, accumulates);
        e->n_guards = 0;
    }
    dt_replay_end(e, &replay);
}

static void note_tiles(DtTiling *g, const DtPlace *outputs, const uint32_t *flags)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        n += dt_tile_is_output(g, i);
    dt_note_tiles(g->e, g->n_loops, g->loops, g->s, g->t, g->masked ? g->mask : NULL);
    dt_note_words(g->e, 1, &n);
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        if (dt_tile_is_output(g, i))
            dt_note_write(g->e, g->func->ops.at[i]->out[0], &outputs[i], flags[i]);
}

/* Where blocks write the results that they compute. Each array is indexed by the position of the op
 * in the function. */
typedef struct Left {
    DtPlace *at, *wanted; /* where blocks write the result; its final place */
    bool *adds;           /* adds to the wanted memory */
    bool *accumulates;    /* over blocks */
    uint32_t *flags;      /* of notes */
} Left;

/* Whether blocks accumulate op i's result in memory that is zeroed before: several blocks add terms
 * to an element, or masked blocks leave out elements, which are zeros. */
static bool adds_up(const DtTiling *g, uint32_t i)
{
    const DtOp *op = g->func->ops.at[i];
    bool adds = dt_op_has_axis(op, g->s) ||
                (g->masked && g->part[i] != DT_TILE_OUTPUT && dt_tile_has(op->out[0], g->t));
    for (uint32_t k = 0; g->part[i] == DT_TILE_TOTAL && k < g->n_loops; k++)
        adds = adds || dt_op_has_axis(op, g->loops[k]);
    return adds;
}

static Left place_outputs(DtTiling *g, int64_t rows, DtPlace *buffers)
{
    DtEmit *e = g->e;
    const DtFunc *func = g->func;
    const uint32_t n = func->ops.n + 1;
    Left left = {DT_NEW_ARRAY(e->scratch, DtPlace, n), DT_NEW_ARRAY(e->scratch, DtPlace, n),
                 DT_NEW_ARRAY(e->scratch, bool, n), DT_NEW_ARRAY(e->scratch, bool, n),
                 DT_NEW_ARRAY(e->scratch, uint32_t, n)};
    for (uint32_t i = 0; i < func->ops.n; i++) {
        DtValue *value = func->ops.at[i]->n_out ? func->ops.at[i]->out[0] : NULL;
        if (g->part[i] == DT_TILE_SCORE) {
            buffers[value->id].set = true;
            buffers[value->id].view.buffer = dt_place_buffer(
                e, value->name, rows * g->n_t * (int64_t)dt_dtype_size(value->type->dtype));
        }
        if (!dt_tile_is_output(g, i))
            continue;
        left.wanted[i] = left.at[i] = dt_output_write(e, value, &left.adds[i]);
        left.accumulates[i] = left.adds[i];
        left.flags[i] = left.adds[i] ? DT_NOTE_ADDS : 0;
        if (!adds_up(g, i))
            continue;
        if (value->type->dtype != DT_F32) { /* blocks are summed in f32, and the sum is rounded
                                             * once */
            left.at[i] =
                dt_place_temporary(e, dt_type_with_dtype(value->type, DT_F32), value->name);
            left.accumulates[i] = false;
        }
        left.flags[i] = left.accumulates[i] ? DT_NOTE_ADDS : DT_NOTE_ZEROED;
        if (!left.accumulates[i])
            dt_inst_zero(e, &left.at[i]);
        left.accumulates[i] = true;
    }
    return left;
}

/* Makes sure that products can read the value by strides: if it is broadcast along an axis (stride
 * 0), it is copied to a dense temporary, which becomes its place. */
static void settle(DtTiling *g, DtValue *value)
{
    DtPlace *place = dt_copy_require(g->e, value);
    for (uint32_t d = 0; d < place->view.rank; d++)
        if (place->view.stride[d] == 0 && place->view.extent[d] > 1) {
            DtPlace dense = dt_place_temporary(g->e, value->type, value->name);
            dt_copy_value(g->e, value, &dense, false);
            dt_place_set(g->e, value, dense);
            return;
        }
}

static void emit_tiles(DtTiling *g)
{
    DtEmit *e = g->e;
    const DtFunc *func = g->func;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t j = 0; (g->part[i] == DT_TILE_SCORE || g->part[i] == DT_TILE_OUTPUT) && j < 2;
             j++)
            if (dt_tile_part(g, func->ops.at[i]->in[j]) == DT_TILE_BEFORE)
                settle(g, func->ops.at[i]->in[j]);
    DtPlace *buffers = DT_NEW_ARRAY(e->scratch, DtPlace, func->n_values + 1);
    const int64_t rows = e->target->block_rows(g->n_s, g->n_t);
    g->cuts = DT_NEW_ARRAY(e->scratch, DtPlace, func->n_values + 1);
    g->scores = DT_NEW_ARRAY(e->scratch, DtPlace, func->n_values + 1);
    g->here = DT_NEW_ARRAY(e->scratch, DtPlace, func->n_values + 1);
    const Left left = place_outputs(g, rows, buffers);
    for (uint32_t k = 0; k < g->n_loops; k++)
        DT_PUSH(e->arena, e->items,
                ((DtItem){.kind = DT_ITEM_LOOP,
                           .span = g->call->span,
                           .loop = {.kind = DT_SCHED_LOOP,
                                    .reg = e->scope->reg + 1 + k,
                                    .step = 1,
                                    .count = g->counts[k]}}));
    note_tiles(g, left.at, left.flags);
    uint32_t begin = e->items.n;
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (dt_tile_is_output(g, i))
            dt_place_begin(e, &left.at[i]);
    e->in_blocks = true;
    emit_blocks(g, rows, buffers, left.at, left.accumulates);
    e->in_blocks = false;
    dt_note_op(e, DT_NOTE_BLOCK, NULL);
    dt_note_words(e, 3, (int64_t[]){0, 0, 0});
    for (uint32_t k = g->n_loops; k-- > 0;)
        DT_PUSH(e->arena, e->items,
                ((DtItem){.kind = DT_ITEM_END,
                           .loop = {.kind = DT_SCHED_END, .reg = e->scope->reg + 1 + k}}));
    dt_place_extend(e, begin);
    for (uint32_t i = 0; i < func->ops.n; i++)
        if (dt_tile_is_output(g, i) && left.at[i].view.dtype != left.wanted[i].view.dtype) {
            dt_place_set(e, func->ops.at[i]->out[0], left.at[i]);
            dt_copy_value(e, func->ops.at[i]->out[0], &left.wanted[i], left.adds[i]);
            dt_place_set(e, func->ops.at[i]->out[0], left.wanted[i]);
        }
}

/* The position of the function's op whose value has that number in the reference program, or -1. */
static int64_t op_of_number(const DtTiling *g, uint32_t number)
{
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        if (g->scope->number[g->func->ops.at[i]->out[0]->id] == number)
            return i;
    return -1;
}

static void emit_one_before(DtTiling *g, uint32_t position, bool *done);

/* Emits the earlier ops that compute the operands of op, unless they are emitted already. A fused
 * kernel is emitted at its first op, so operands of its later ops may still be missing. */
static void emit_operands(DtTiling *g, const DtOp *op, bool *done)
{
    for (uint32_t k = 0; k < op->n_in; k++)
        for (uint32_t i = 0; op->in[k]->op && i < g->func->ops.n; i++)
            if (g->func->ops.at[i] == op->in[k]->op)
                emit_one_before(g, i, done);
}

/* Emits ops that fuse.c put into one kernel as one kernel, if all of them belong to the part before
 * the scores. done: by op position. */
static void emit_fused_before(DtTiling *g, const DtOp *fused, bool *done)
{
    DtEmit *e = g->e;
    const DtFunc *kernel = fused->func;
    const DtOp **ops = DT_NEW_ARRAY(e->scratch, const DtOp *, kernel->ops.n + 1);
    DtOutput *outputs = DT_NEW_ARRAY(e->scratch, DtOutput, kernel->results.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < kernel->ops.n; i++) {
        const DtValue *value = kernel->ops.at[i]->out[0];
        const int64_t at = value->final ? op_of_number(g, value->final - 1) : -1;
        if (at < 0 ||
            (g->part[at] != DT_TILE_BEFORE && !dt_op_is_inline(g->func->ops.at[at]->out[0])) ||
            done[at])
            return;
        if (!dt_op_is_inline(g->func->ops.at[at]->out[0]))
            ops[n++] = g->func->ops.at[at];
    }
    for (uint32_t r = 0; r < kernel->results.n; r++) {
        if (!kernel->results.at[r]->op)
            return;
        outputs[r].value =
            g->func->ops.at[op_of_number(g, kernel->results.at[r]->final - 1)]->out[0];
    }
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        for (uint32_t k = 0; k < n; k++)
            done[i] = done[i] || g->func->ops.at[i] == ops[k];
    for (uint32_t i = 0; i < n; i++) {
        emit_operands(g, ops[i], done);
        for (uint32_t k = 0; k < ops[i]->n_in; k++)
            if (!ops[i]->in[k]->op)
                dt_copy_require(e, ops[i]->in[k]);
    }
    for (uint32_t r = 0; r < kernel->results.n; r++) {
        outputs[r] = dt_output_of(e, outputs[r].value);
        dt_place_set(e, outputs[r].value, outputs[r].place);
    }
    if (n == 0 || !dt_launch_kernel(e, ops, n, outputs, kernel->results.n))
        DT_BUG("a kernel before attention would overwrite what it reads");
}

static void emit_one_before(DtTiling *g, uint32_t position, bool *done)
{
    const DtOp *op = g->func->ops.at[position];
    const DtFunc *fused = g->func->fused;
    if (g->part[position] != DT_TILE_BEFORE || done[position] || dt_op_is_inline(op->out[0]))
        return;
    for (uint32_t f = 0; fused && f < fused->ops.n && !done[position]; f++) {
        const DtOp *kernel = fused->ops.at[f];
        bool has = false;
        for (uint32_t k = 0; kernel->kind == DT_OP_FUSED && k < kernel->func->ops.n; k++)
            has = has ||
                  (kernel->func->ops.at[k]->out[0]->final &&
                   kernel->func->ops.at[k]->out[0]->final - 1 == g->scope->number[op->out[0]->id]);
        if (has)
            emit_fused_before(g, kernel, done);
    }
    if (done[position])
        return;
    done[position] = true;
    emit_operands(g, op, done);
    dt_emit_op(g->e, op);
}

static void emit_before(DtTiling *g)
{
    bool *done = DT_NEW_ARRAY(g->e->scratch, bool, g->func->ops.n + 1);
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        emit_one_before(g, i, done);
}

bool dt_attend_emit(DtEmit *e, const DtOp *call, DtScope *scope, DtTileWhy *ret_why)
{
    DtTiling tiling = {.e = e, .call = call, .func = call->func, .outside = e->scope->func,
                       .scope = scope};
    DtTiling *g = &tiling;
    DtScope *outer = e->scope;
    DtModule *module = (DtModule *)(uintptr_t)e->module;
    uint32_t n_funcs = module->funcs.n;
    if (!dt_tile_analyse(g)) {
        *ret_why = g->why;
        return false;
    }
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!g->inlined[i])
            scope->places[g->func->inputs.at[i]->id] = *dt_copy_require(e, call->in[i]);
    dt_note_op(e, DT_NOTE_CALL, call);
    e->scope = scope;
    dt_concat_claim(e);
    emit_before(g);
    for (uint32_t i = 0; i < g->func->ops.n; i++) {
        const bool inside = g->part[i] == DT_TILE_SCORE || g->part[i] == DT_TILE_OUTPUT ||
                            dt_tile_is_of_region(g, i);
        for (uint32_t j = 0; inside && j < g->func->ops.at[i]->n_in; j++) {
            DtValue *value = g->func->ops.at[i]->in[j];
            if (dt_tile_part(g, value) != DT_TILE_BEFORE)
                continue;
            if (!dt_tile_is_of_region(g, i))
                dt_copy_require(e, value);
            else if (!value->op || !dt_op_is_inline(value))
                dt_copy_require(e, value);
        }
    }
    if (dt_attend_has_kernel(g))
        dt_attend_launch(g);
    else
        emit_tiles(g);
    for (uint32_t i = 0; i < g->func->ops.n; i++)
        if (g->part[i] == DT_TILE_AFTER)
            dt_emit_op(e, g->func->ops.at[i]);
    e->scope = outer;
    module->funcs.n = n_funcs; /* the block is not the module's; names stay free */
    return true;
}
