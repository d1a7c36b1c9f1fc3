/* SPDX-License-Identifier: Apache-2.0 */
/* Expands an entry for its pieces: every named loop, forward or backward, becomes one loop per
 * piece that has iterations of it.
 *
 *   %w = param h.w : [h=4, ..]                    %w0 = param h.w : [h=2, ..]
 *                                                 %w1 = param h.w : [h=2, ..]
 *   %y, %s = loop h x 4 (%x, %w)             =>   %y0, %s0 = loop h x 2 (%x, %w0)
 *   %dx, %dw = loop h x 4 reverse (%dy, %w, %s)   %y, %s1 = loop h x 2 from 2 (%y0, %w1)
 *   return %dw                                    %dy1, %dw1 =
 *                                                     loop h x 2 from 2 reverse (%dy, %w1, %s1)
 *                                                 %dx, %dw0 = loop h x 2 reverse (%dy1, %w0, %s0)
 *                                                 return %dw0, %dw1
 *
 * Carried values go from range to range. Stacked ones are cut: a parameter becomes one `param` per
 * range, what another cut loop stacked is taken range by range, and ops that treat all iterations
 * alike are made once per range. All other values are sliced, and ops that need all iterations at
 * once get the parts concatenated. A carried value that a backward loop only adds to, from zero,
 * and that ends in gradients of parameters alone, starts from zero in every range: its parts are
 * added where the gradient is used, not sent along. */
#include "passes/pipeline/stage.h"

#include <string.h>

typedef struct Expander {
    DtStager *s;
    const DtEntryPoint *entry;
    const DtFunc *func;
    DtExpanded *to;
    DtBuilder b;
    uint32_t place; /* the piece of the op that is made next */
    bool fixed;
    DtValue **whole;  /* by value of func: the value as a whole; NULL: not made yet */
    DtValue ***parts; /* by value of func, by named loop and piece: its part; NULL: not cut so
                       * far */
} Expander;

/* ---- making ops ---- */

static DtArena *arena_of(const Expander *x) { return x->s->arena; }

/* Records the present piece in `place`, and `fixed`, for the ops that were just appended. */
static void stamp(Expander *x)
{
    while (x->to->place.n < x->b.func->ops.n) {
        DT_PUSH(arena_of(x), x->to->place, x->place);
        DT_PUSH(arena_of(x), x->to->fixed, x->fixed);
    }
}

static const DtType *with_extent(const DtType *type, const char *axis, int64_t from, int64_t extent)
{
    DtAxis axes[DT_MAX_RANK];
    if (type->rank == 0)
        return type;
    memcpy(axes, type->axes, type->rank * sizeof axes[0]);
    for (uint32_t i = 0; i < type->rank; i++)
        if (axes[i].name == axis && axes[i].extent == from)
            axes[i].extent = extent;
    return dt_type_make(type->dtype, type->rank, axes, type->partial, (DtReduce)type->pending);
}

DtOp *dt_stage_copy_range(DtBuilder *b, const DtOp *op, DtValue *const *in, const char *axis,
                          int64_t from, int64_t extent)
{
    DtArena *arena = b->func->module->arena;
    DtOp draft = *op;
    draft.out = DT_NEW_ARRAY(arena, DtValue *, op->n_out + 1);
    for (uint32_t i = 0; i < op->n_out; i++) {
        draft.out[i] = DT_NEW(arena, DtValue);
        *draft.out[i] = *op->out[i];
        draft.out[i]->type = with_extent(op->out[i]->type, axis, from, extent);
    }
    b->span = op->span;
    b->path = op->path;
    return dt_graph_copy(b, &draft, in);
}

static bool has_axis(const DtType *type, const DtStageLoop *loop)
{
    return dt_type_extent(type, loop->axis) == loop->count;
}

/* ---- values of one range ---- */

static DtValue *whole(Expander *x, const DtValue *value);
static DtValue *part(Expander *x, const DtValue *value, int32_t loop, uint32_t piece);

/* Whether the op works along other axes than the loop's, so that its result can be computed for
 * each range of iterations by itself. */
static bool is_alike(const DtOp *op, const DtStageLoop *loop)
{
    const DtOpClass kind = dt_op_info[op->kind].op_class;
    for (uint32_t i = 0; i < op->n_relabels; i++)
        for (uint32_t k = 0; k < 4; k++)
            if ((k < op->relabels[i].n_from && op->relabels[i].from[k] == loop->axis) ||
                (k < op->relabels[i].n_to && op->relabels[i].to[k] == loop->axis))
                return false;
    for (uint32_t i = 0; i < op->n_axes; i++)
        if (op->axes[i] == loop->axis)
            return false;
    return kind == DT_CLASS_MAP || kind == DT_CLASS_AXIS ||
           (kind == DT_CLASS_COMM && op->n_in == 1) || op->kind == DT_OP_REDUCE ||
           op->kind == DT_OP_DOT;
}

static bool is_stacked_param(const DtOp *op, const DtStageLoop *loop)
{
    const DtStore *store = op->store;
    return op->kind == DT_OP_PARAM && store->n_loops > 0 &&
           store->type->axes[0].name == loop->axis && store->type->axes[0].extent == loop->count;
}

static DtValue *make_part(Expander *x, const DtValue *value, int32_t number, uint32_t piece)
{
    const DtStageLoop *loop = &x->s->loops.at[number];
    const int64_t n = loop->hi[piece] - loop->lo[piece];
    const DtOp *op = value->op;
    if (!has_axis(value->type, loop))
        return whole(x, value);
    if (is_stacked_param(op, loop)) {
        DtStore *store = dt_stage_copy(x->s, op->store, dt_stage_of(x->s, piece), piece);
        x->b.span = op->span;
        DtValue *made = dt_graph_source(&x->b, DT_OP_PARAM, store->type, op->text, store);
        made->name = value->name;
        return made;
    }
    if (!is_alike(op, loop))
        dt_stage_differ(x->s, dt_stage_of(x->s, piece));
    if (!is_alike(op, loop))
        return dt_graph_slice(&x->b, whole(x, value), loop->axis, loop->lo[piece], 1, n);
    DtValue **in = DT_NEW_ARRAY(arena_of(x), DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = part(x, op->in[i], number, piece);
    return dt_stage_copy_range(&x->b, op, in, loop->axis, loop->count, n)->out[value->index];
}

/* Returns where x keeps a piece's part of a value, for one named loop. A value may be cut for
 * several loops, as a gradient of zeros is. */
static DtValue **part_at(Expander *x, const DtValue *value, int32_t loop, uint32_t piece)
{
    DtValue ***parts = &x->parts[value->id];
    const uint32_t n = x->s->pipeline->n_pieces;
    if (!*parts)
        *parts = DT_NEW_ARRAY(arena_of(x), DtValue *, (size_t)x->s->loops.n * n);
    return *parts + (size_t)loop * n + piece;
}

static DtValue *part(Expander *x, const DtValue *value, int32_t loop, uint32_t piece)
{
    DtValue **at = part_at(x, value, loop, piece);
    if (!*at) {
        const uint32_t place = x->place;
        const bool fixed = x->fixed;
        stamp(x);
        x->place = piece;
        x->fixed = true;
        DtValue *made = make_part(x, value, loop, piece);
        stamp(x);
        x->place = place;
        x->fixed = fixed;
        *at = made;
    }
    return *at;
}

static DtValue *whole(Expander *x, const DtValue *value)
{
    const int32_t number = x->whole[value->id] ? -1 : dt_stage_loop(x->s, value->op);
    if (number < 0)
        return x->whole[value->id];
    DtValue **in = DT_NEW_ARRAY(arena_of(x), DtValue *, x->s->whole->n_pieces);
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->s->pipeline->n_pieces; i++) {
        const uint32_t class = dt_stage_of(x->s, i);
        DtValue *made = *part_at(x, value, number, i);
        if (!made)
            continue;
        /* One copy per stage gives the concatenation its extent. If an op reads the whole, the
         * stages differ, and the pass starts again with smaller classes. */
        for (uint32_t k = 0; k <= x->s->class_more[class]; k++)
            in[n++] = made;
    }
    x->whole[value->id] =
        n == 1 ? in[0] : dt_graph_concat(&x->b, x->s->loops.at[number].axis, n, in);
    return x->whole[value->id];
}

/* ---- sums that a backward loop carries ---- */

bool dt_stage_is_zero(const DtValue *value)
{
    const DtOp *op = value->op;
    while (op && (op->kind == DT_OP_EXPAND || op->kind == DT_OP_CAST))
        op = op->in[0]->op;
    return op && op->kind == DT_OP_CONST && op->number == 0;
}

/* Whether all that the body does with carried value i is to add terms to it. */
static bool is_added_to(const DtFunc *body, uint32_t i)
{
    const DtValue *input = body->inputs.at[1 + i], *at = body->results.at[i];
    uint32_t uses = 0;
    for (uint32_t k = 0; k < body->ops.n; k++)
        for (uint32_t j = 0; j < body->ops.at[k]->n_in; j++)
            uses += body->ops.at[k]->in[j] == input;
    for (uint32_t k = 0; k < body->results.n; k++)
        uses += body->results.at[k] == input;
    while (
        at !=
        input) { /* follows the adds: along their first operands, or the second one if that is the
                  * input */
        if (!at->op || at->op->kind != DT_OP_ADD)
            return false;
        at = at->op->in[1] == input ? input : at->op->in[0];
    }
    return uses == 1;
}

/* Whether nothing but linear ops (sums, casts, renames, sums over ranks) and gradients of
 * parameters depends on the value. from: the number of its op. */
static bool ends_in_gradients(const Expander *x, const DtValue *value, uint32_t from)
{
    const DtFunc *func = x->func;
    bool *depends = DT_NEW_ARRAY(arena_of(x), bool, func->n_values + 1);
    depends[value->id] = true;
    for (uint32_t i = from + 1; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        bool any = false;
        for (uint32_t k = 0; k < op->n_in; k++)
            any = any || depends[op->in[k]->id];
        if (!any)
            continue;
        if (op->kind != DT_OP_ADD && op->kind != DT_OP_CAST && op->kind != DT_OP_RELABEL &&
            op->kind != DT_OP_ALL_REDUCE)
            return false;
        depends[op->out[0]->id] = true;
    }
    for (uint32_t i = 0; i < func->results.n; i++)
        if (depends[func->results.at[i]->id] &&
            (!x->entry->results.at[i].store ||
             x->entry->results.at[i].store->kind != DT_STORE_GRAD))
            return false;
    return true;
}

static bool starts_anew(const Expander *x, uint32_t index, uint32_t carried)
{
    const DtOp *op = x->func->ops.at[index];
    return op->loop->reverse && dt_stage_is_zero(op->in[carried]) &&
           is_added_to(op->func, carried) && ends_in_gradients(x, op->out[carried], index);
}

/* ---- loops ---- */

static void expand_range(Expander *x, const DtOp *op, int32_t number, uint32_t piece,
                         const bool *anew, DtValue **carried)
{
    const DtStageLoop *cut = &x->s->loops.at[number];
    DtLoop loop = *op->loop;
    DtValue **in = DT_NEW_ARRAY(arena_of(x), DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (i < loop.n_carried)
            in[i] = anew[i] ? whole(x, op->in[i]) : carried[i];
        else
            in[i] = i < loop.n_carried + loop.n_invariant ? whole(x, op->in[i])
                                                          : part(x, op->in[i], number, piece);
    }
    loop.first += cut->lo[piece];
    loop.first_step = dt_stage_step(x->s, cut, piece);
    loop.count = cut->hi[piece] - cut->lo[piece];
    x->b.span = op->span;
    x->b.path = op->path;
    stamp(x);
    x->place = piece;
    x->fixed = true;
    const DtOp *made = dt_graph_loop(&x->b, op->func, loop, in);
    stamp(x);
    for (uint32_t i = 0; i < op->n_out; i++) {
        made->out[i]->name = op->out[i]->name;
        if (i >= loop.n_carried || anew[i])
            *part_at(x, op->out[i], number, piece) = made->out[i];
        else
            carried[i] = made->out[i];
    }
}

/* Appends the sum of the terms that the n pieces' ranges of the loop have computed, each
 * accumulated from zero. */
static DtValue *sum_of_parts(Expander *x, const DtValue *value, int32_t number, uint32_t n)
{
    DtValue *sum = NULL;
    for (uint32_t i = n; i-- > 0;) {
        DtValue *term = *part_at(x, value, number, i);
        if (term)
            sum = sum ? dt_graph_binary(&x->b, DT_OP_ADD, sum, term) : term;
    }
    return sum;
}

static void expand_loop(Expander *x, uint32_t index, int32_t number)
{
    const DtOp *op = x->func->ops.at[index];
    const DtStageLoop *cut = &x->s->loops.at[number];
    const uint32_t n = x->s->pipeline->n_pieces, n_carried = op->loop->n_carried, place = x->place;
    DtValue **carried = DT_NEW_ARRAY(arena_of(x), DtValue *, n_carried + 1);
    bool *anew = DT_NEW_ARRAY(arena_of(x), bool, n_carried + 1);
    for (uint32_t i = 0; i < n_carried; i++) {
        carried[i] = whole(x, op->in[i]);
        anew[i] = starts_anew(x, index, i);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t piece = op->loop->reverse ? n - 1 - i : i;
        if (cut->hi[piece] > cut->lo[piece])
            expand_range(x, op, number, piece, anew, carried);
    }
    x->fixed = false;
    x->place = op->loop->reverse ? place : x->s->segment_piece[number + 1];
    for (uint32_t i = 0; i < n_carried; i++)
        x->whole[op->out[i]->id] = anew[i] ? sum_of_parts(x, op->out[i], number, n) : carried[i];
    stamp(x);
}

/* ---- the rest ---- */

static void expand_op(Expander *x, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(arena_of(x), DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = whole(x, op->in[i]);
    x->b.span = op->span;
    x->b.path = op->path;
    const DtOp *copy = dt_graph_copy(&x->b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++) {
        copy->out[i]->name = op->out[i]->name;
        x->whole[op->out[i]->id] = copy->out[i];
    }
    stamp(x);
}

/* Whether the op is in the function call or layer of that path, or in one inside of it. */
static bool is_inside(const DtOp *op, const char *path)
{
    const size_t n = strlen(path);
    return op->path && strncmp(op->path, path, n) == 0 && (op->path[n] == 0 || op->path[n] == '.');
}

/* Begins the next piece if the forward op is the first one of the layer that a named cut names. */
static void pass_named_cut(Expander *x, const DtOp *op, bool forward)
{
    const DtPipeline *line = x->s->line;
    while (forward && x->place < line->n_named_cuts && is_inside(op, line->named_cuts[x->place]))
        x->place++;
}

static int32_t loop_of_store(const Expander *x, const DtStore *store)
{
    const DtStore *of = !store ? NULL : store->of ? store->of : store;
    return of ? x->s->loop_of[of->index] : -1;
}

static void expand_results(Expander *x)
{
    for (uint32_t i = 0; i < x->func->results.n; i++) {
        const DtEntryResult to = x->entry->results.at[i];
        const int32_t number = loop_of_store(x, to.store);
        const DtValue *value = x->func->results.at[i];
        for (uint32_t g = 0; number >= 0 && g < x->s->pipeline->n_pieces; g++) {
            const DtStageLoop *loop = &x->s->loops.at[number];
            if (loop->hi[g] > loop->lo[g])
                DT_PUSH(arena_of(x), x->to->results,
                        ((DtExpandedResult){part(x, value, number, g), to, (int32_t)g, g}));
        }
        if (number < 0)
            DT_PUSH(arena_of(x), x->to->results, ((DtExpandedResult){whole(x, value), to, -1, 0}));
        stamp(x);
    }
}

/* Sets s->loop_of to this loop for the parameters that value takes its iterations from. seen: by
 * value id, values that were visited. */
static void find_stacked(DtStager *s, const DtValue *value, int32_t number, bool *seen)
{
    const DtStageLoop *loop = &s->loops.at[number];
    if (seen[value->id] || !has_axis(value->type, loop))
        return;
    seen[value->id] = true;
    if (is_stacked_param(value->op, loop))
        s->loop_of[value->op->store->index] = number;
    else if (is_alike(value->op, loop))
        for (uint32_t i = 0; i < value->op->n_in; i++)
            find_stacked(s, value->op->in[i], number, seen);
}

void dt_stage_find_stacked(DtStager *s, const DtEntryPoint *entry)
{
    DtFunc *func = entry->func;
    dt_graph_renumber(func);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const int32_t number = dt_stage_loop(s, op);
        bool *seen = number >= 0 ? DT_NEW_ARRAY(s->arena, bool, func->n_values + 1) : NULL;
        for (uint32_t k = 0; number >= 0 && k < op->n_in; k++)
            find_stacked(s, op->in[k], number, seen);
    }
}

bool dt_stage_ranges(DtStager *s, const DtEntryPoint *entry, DtExpanded *ret_expanded)
{
    DtFunc *func = entry->func;
    dt_graph_renumber(func);
    *ret_expanded = (DtExpanded){.func = dt_graph_func(s->module, func->name, DT_FUNC_ENTRY)};
    ret_expanded->func->span = func->span;
    Expander x = {.s = s,
                  .entry = entry,
                  .func = func,
                  .to = ret_expanded,
                  .b = {.func = ret_expanded->func}};
    const bool *forward =
        dt_stage_ancestors(s->arena, func, dt_stage_forward_results(s->arena, entry));
    x.whole = DT_NEW_ARRAY(s->arena, DtValue *, func->n_values + 1);
    x.parts = DT_NEW_ARRAY(s->arena, DtValue **, func->n_values + 1);
    x.place = s->segment_piece[0];
    for (uint32_t i = 0; i < func->ops.n; i++) {
        const DtOp *op = func->ops.at[i];
        const int32_t number = dt_stage_loop(s, op);
        pass_named_cut(&x, op, forward[i]);
        if (number >= 0)
            expand_loop(&x, i, number);
        else
            expand_op(&x, op);
    }
    if (s->line->n_named_cuts && x.place < s->line->n_named_cuts) {
        DtDiag *diag = dt_stage_refuse(s, E0606, s->line->span,
                                       "`%s` is not an instance behind the cuts before it",
                                       s->line->named_cuts[x.place]);
        dt_diag_help(
            diag, "name instances of the model's top level, in the order in which they are called");
        return false;
    }
    expand_results(&x);
    dt_graph_renumber(ret_expanded->func);
    return true;
}
