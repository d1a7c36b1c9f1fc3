/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the entries of a run: per piece one for F and one for B, or B and W. First the ops of each
 * part are copied into a function of its own; a value that the part reads from another part becomes
 * an argument, with the store that holds the value on the part's stage. A value that a part
 * reads
 *
 *   of its own piece         is in a SAVED store, to which the part that makes it gives it
 *   of a piece before it     comes with F, piece by piece: a CHANNEL store on each stage on the way
 *   of a piece behind it     comes with B in the same way
 *
 * Two neighbours on one stage share the store. Where the schedule runs W, B is cut in two
 * (wgrad.c): what crosses becomes a SAVED store, arguments cross where they are. Then arguments
 * become `param` ops, the schedule is filled in, and with it how many micro-batches every store has
 * to hold at once. */
#include "passes/pipeline/stage.h"

#include "base/intern.h"

#include <string.h>

/* A piece on the way of a value to a reader in another piece, and the store that holds the value
 * there. */
typedef struct Stop {
    uint32_t piece;
    DtStore *store;
} Stop;
typedef DT_VEC(Stop) Stops;

typedef struct PartResult {
    DtValue *value; /* a value of the part */
    DtEntryResult to;
} PartResult;

typedef struct Part {
    DtFunc *func;             /* NULL: the piece has no work in this phase */
    DT_VEC(DtStore *) stores; /* by argument: its store */
    DT_VEC(PartResult) results;
} Part;

/* The time for which a slot is in use: the action that writes it, and those that read it. */
typedef struct Life {
    DtAction write;
    DT_VEC(DtAction) reads;
} Life;

typedef struct Build {
    DtStager *s;
    const char *name;
    const DtExpanded *e;
    const DtAssigned *a;
    DtPipelineRun run, unfolded; /* the run by classes, and by stages */
    Part *parts[2]; /* by F and B, and by piece */
    DtValue **made; /* by value of e: the same value in the part that computes it */
    Stops *stops;   /* by value of e */
    uint32_t first_slot;
    DT_VEC(Life) lives; /* by slot of the run */
    /* of the part being built */
    Part *part;
    DtBuilder b;
    uint32_t phase, piece, turn;
    uint32_t *order,
        *first[3]; /* order: the ops of F, then of B, by pieces; first: where each piece's ops (and
                    * results) begin */
    uint32_t *result_order;
    DtValue **here; /* by value of e: the argument or copy in the part being built */
    uint32_t *here_turn;
} Build;

static DtArena *arena_of(const Build *w) { return w->s->arena; }

static const DtOpHome *home_of(const Build *w, const DtValue *value)
{
    return &w->a->ops.at[w->a->op_of.at[value->id]];
}

static Life *life_of(Build *w, const DtStore *slot)
{
    while (w->lives.n <= slot->index - w->first_slot)
        DT_PUSH(arena_of(w), w->lives, (Life){.write = {0}});
    return &w->lives.at[slot->index - w->first_slot];
}

static void reads(Build *w, const DtStore *store, uint32_t kind, uint32_t unit)
{
    if (store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL)
        DT_PUSH(arena_of(w), life_of(w, store)->reads, ((DtAction){.kind = kind, .unit = unit}));
}

static DtStore *new_slot(Build *w, DtStoreKind kind, const DtValue *value, const DtType *type,
                         uint32_t piece, DtStore *of, DtAction write)
{
    const char *name = value->name ? value->name : "v";
    const char *path =
        dt_intern_printf("%s.%s.%u@%u", w->name, name, w->s->slots.n, w->s->piece_first[piece]);
    DtStore *slot = dt_stage_slot(w->s, kind, path, type, dt_stage_of(w->s, piece), of);
    slot->span = value->op ? value->op->span : (DtSpan){0};
    life_of(w, slot)->write = write;
    return slot;
}

/* ---- values on their way ---- */

static uint32_t channel_between(Build *w, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < w->run.channels.n; i++)
        if (w->run.channels.at[i].from_piece == from && w->run.channels.at[i].to_piece == to)
            return i;
    DtChannel channel = {.from_piece = from,
                         .to_piece = to,
                         .from = dt_stage_of(w->s, from),
                         .to = dt_stage_of(w->s, to),
                         .slots = 1};
    DT_PUSH(arena_of(w), w->run.channels, channel);
    return w->run.channels.n - 1;
}

static DtStore *saved_at_home(Build *w, DtValue *value)
{
    const DtOpHome *home = home_of(w, value);
    const uint32_t phase = home->home == DT_HOME_F ? DT_ACTION_F : DT_ACTION_B;
    DtStore *slot = new_slot(w, DT_STORE_SAVED, value, value->type, home->piece, NULL,
                             (DtAction){.kind = phase, .unit = home->piece});
    DT_PUSH(arena_of(w), w->parts[phase][home->piece].results,
            ((PartResult){w->made[value->id], {.store = slot}}));
    return slot;
}

/* Returns the store that holds the value on the stage of that piece. Makes it at the first call,
 * with the channels and slots through which the value gets there from its own piece, piece by
 * piece. */
static DtStore *store_at(Build *w, DtValue *value, uint32_t piece)
{
    const DtOpHome *home = home_of(w, value);
    Stops *stops = &w->stops[value->id];
    for (uint32_t i = 0; i < stops->n; i++)
        if (stops->at[i].piece == piece)
            return stops->at[i].store;
    DtStore *store;
    if (piece == home->piece) {
        store = saved_at_home(w, value);
    } else {
        const uint32_t from = piece > home->piece ? piece - 1 : piece + 1;
        store = store_at(w, value, from);
        if (dt_stage_of(w->s, from) != dt_stage_of(w->s, piece)) {
            const uint32_t channel = channel_between(w, from, piece);
            reads(w, store, DT_ACTION_SEND, channel);
            store = new_slot(w, DT_STORE_CHANNEL, value, value->type, piece, store,
                             (DtAction){.kind = DT_ACTION_RECV, .unit = channel});
            DT_PUSH(arena_of(w), w->run.channels.at[channel].stores, store);
        }
    }
    DT_PUSH(arena_of(w), w->stops[value->id], ((Stop){piece, store}));
    return store;
}

/* ---- the ops of a part ---- */

static DtValue *argument(Build *w, const DtValue *value, const DtType *type, DtStore *store)
{
    DT_PUSH(arena_of(w), w->part->stores, store);
    return dt_graph_arg(w->part->func, type, value->name);
}

static DtValue *take(Build *w, DtValue *value);

static DtValue *read_param(Build *w, const DtValue *value)
{
    DtStore *from = value->op->store;
    const bool is_cut = w->s->loop_of[from->index] >= 0;
    if (is_cut && from->stage != (int32_t)dt_stage_of(w->s, w->piece)) {
        DtDiag *diag =
            dt_stage_refuse(w->s, E0592, value->op->span,
                            "a %s of loop `%s`, which the pipeline cuts, outside of it is not "
                            "implemented yet",
                            from->kind == DT_STORE_STATE ? "state" : "parameter",
                            w->s->loops.at[w->s->loop_of[from->index]].label);
        dt_diag_help(diag, "name another loop in the `pipeline` line");
    }
    /* stage_ranges.c has made the copies with some iterations */
    return argument(w, value, value->type,
                    is_cut ? from : dt_stage_copy(w->s, from, dt_stage_of(w->s, w->piece), 0));
}

static DtOp *copy_op(Build *w, const DtOp *op)
{
    DtValue **in = DT_NEW_ARRAY(arena_of(w), DtValue *, op->n_in + 1);
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = take(w, op->in[i]);
    w->b.span = op->span;
    w->b.path = op->path;
    DtOp *copy = dt_graph_copy(&w->b, op, in);
    for (uint32_t i = 0; i < op->n_out; i++)
        copy->out[i]->name = op->out[i]->name;
    return copy;
}

/* Returns the value in the part being built: the op's result if it is computed there, an argument
 * that reads it from a store, or the result of a copied op if every reader computes it. */
static DtValue *take(Build *w, DtValue *value)
{
    const DtOpHome *home = home_of(w, value);
    const DtHome own = w->phase == DT_ACTION_F ? DT_HOME_F : DT_HOME_B;
    if (home->home == own && home->piece == w->piece)
        return w->made[value->id];
    if (w->here_turn[value->id] == w->turn)
        return w->here[value->id];
    DtValue *made;
    if (home->home != DT_HOME_ANY)
        made = argument(w, value, value->type, store_at(w, value, w->piece));
    else if (value->op->kind == DT_OP_PARAM)
        made = read_param(w, value);
    else
        made = copy_op(w, value->op)->out[value->index];
    w->here_turn[value->id] = w->turn;
    w->here[value->id] = made;
    return made;
}

static void begin_part(Build *w, uint32_t phase, uint32_t piece)
{
    w->part = &w->parts[phase][piece];
    w->phase = phase;
    w->piece = piece;
    w->turn++;
    w->part->func = dt_graph_func(
        w->s->module, dt_intern_printf("%s.%c%u", w->name, "fb"[phase], w->s->piece_first[piece]),
        DT_FUNC_FN);
    w->part->func->span = w->e->func->span;
    w->b = (DtBuilder){.func = w->part->func};
}

/* Adds to the part the program's results that it computes (a state's new value, a gradient, a
 * metric or an output), with the stage's copies of their stores. */
static void give_results(Build *w)
{
    const DtHome own = w->phase == DT_ACTION_F ? DT_HOME_F : DT_HOME_B;
    for (uint32_t i = w->first[2][w->piece]; i < w->first[2][w->piece + 1]; i++) {
        const DtExpandedResult *result = &w->e->results.at[w->result_order[i]];
        const DtHome home = home_of(w, result->value)->home;
        const bool gradient = result->to.store && result->to.store->kind == DT_STORE_GRAD;
        if (home == DT_HOME_ANY ? gradient != (own == DT_HOME_B) : home != own)
            continue;
        PartResult given = {take(w, result->value), result->to};
        if (given.to.store)
            given.to.store = dt_stage_copy(w->s, given.to.store, dt_stage_of(w->s, w->piece),
                                           result->range < 0 ? 0 : (uint32_t)result->range);
        /* pieces on one stage may share the store */
        given.to.accumulate = given.to.accumulate || gradient;
        DT_PUSH(arena_of(w), w->part->results, given);
    }
}

static void build_part(Build *w, uint32_t phase, uint32_t piece)
{
    begin_part(w, phase, piece);
    for (uint32_t i = w->first[phase][piece]; i < w->first[phase][piece + 1]; i++) {
        const DtOp *op = w->e->func->ops.at[w->order[i]];
        const DtOp *copy = copy_op(w, op);
        for (uint32_t k = 0; k < op->n_out; k++)
            w->made[op->out[k]->id] = copy->out[k];
    }
    give_results(w);
}

/* ---- entries ---- */

/* Replaces the arguments of the function by `param` ops that read their stores, and records these
 * reads for the life of slots. Drops arguments that no op reads. */
static void read_arguments(Build *w, DtFunc *func, DtStore *const *stores, uint32_t kind,
                           uint32_t piece)
{
    const uint32_t n_ops = func->ops.n;
    DtOp **ops = func->ops.at;
    dt_graph_renumber(func);
    bool *read = DT_NEW_ARRAY(arena_of(w), bool, func->n_values + 1);
    for (uint32_t i = 0; i < n_ops; i++)
        for (uint32_t k = 0; k < ops[i]->n_in; k++)
            read[ops[i]->in[k]->id] = true;
    for (uint32_t i = 0; i < func->results.n; i++)
        read[func->results.at[i]->id] = true;
    func->ops.at = NULL;
    func->ops.n = func->ops.cap = 0;
    for (uint32_t i = 0; i < func->inputs.n; i++) {
        DtValue *input = func->inputs.at[i];
        if (!read[input->id])
            continue;
        DtOp *op = DT_NEW(arena_of(w), DtOp);
        *op = (DtOp){.kind = DT_OP_PARAM,
                     .span = stores[i]->span,
                     .text = stores[i]->path,
                     .store = stores[i],
                     .n_out = 1};
        op->out = DT_NEW_ARRAY(arena_of(w), DtValue *, 1);
        op->out[0] = input;
        input->op = op;
        input->index = 0;
        DT_PUSH(arena_of(w), func->ops, op);
        reads(w, stores[i], kind, piece);
    }
    for (uint32_t i = 0; i < n_ops; i++)
        DT_PUSH(arena_of(w), func->ops, ops[i]);
    func->inputs.n = func->n_args = 0;
    func->kind = DT_FUNC_ENTRY;
    dt_graph_renumber(func);
}

/* Makes an entry of the function, for this piece and kind of action of the run; returns its
 * number. */
static int32_t add_entry(Build *w, DtFunc *func, uint32_t kind, uint32_t piece,
                         DtStore *const *stores, uint32_t n_results, const DtEntryResult *results)
{
    const uint32_t number = w->s->piece_first[piece];
    DtEntryPoint entry = dt_entry_new(w->run.kind, NULL, DT_PART_F + kind, (int32_t)number);
    entry.func = func;
    entry.stage = (int32_t)dt_stage_of(w->s, piece);
    func->name = entry.name;
    read_arguments(w, func, stores, kind, piece);
    for (uint32_t i = 0; i < n_results; i++)
        DT_PUSH(arena_of(w), entry.results, results[i]);
    func->n_returns = func->results.n;
    DT_PUSH(arena_of(w), w->s->entries, entry);
    return (int32_t)w->s->entries.n - 1;
}

static int32_t finish_part(Build *w, uint32_t phase, uint32_t piece)
{
    Part *part = &w->parts[phase][piece];
    DtEntryResult *results = DT_NEW_ARRAY(arena_of(w), DtEntryResult, part->results.n + 1);
    for (uint32_t i = 0; i < part->results.n; i++) {
        dt_graph_return(part->func, part->results.at[i].value);
        results[i] = part->results.at[i].to;
    }
    return add_entry(w, part->func, phase, piece, part->stores.at, part->results.n, results);
}

/* ---- B and W apart ---- */

static bool is_delayed(const PartResult *result)
{
    return result->to.store && result->to.store->kind == DT_STORE_GRAD;
}

/* Gives each result of bwd_x from n_early on, which is an argument of bwd_w, a slot in which it
 * waits for W. ret_stores: by argument of bwd_w, its store. An argument of bwd_x that bwd_w reads,
 * too, stays in its own store. */
static void settle_crossing(Build *w, DtFunc *x, uint32_t n_early, uint32_t piece,
                            DtStore *const *stores, DtEntryResult *results, DtStore **ret_stores)
{
    uint32_t kept = n_early;
    for (uint32_t i = n_early; i < x->results.n; i++) {
        DtValue *value = x->results.at[i];
        if (!value->op) { /* an argument of bwd_x that bwd_w reads too */
            ret_stores[i - n_early] = stores[value->index];
            continue;
        }
        DtStore *slot = new_slot(w, DT_STORE_SAVED, value, value->type, piece, NULL,
                                 (DtAction){.kind = DT_ACTION_B, .unit = piece});
        ret_stores[i - n_early] = slot;
        results[kept].store = slot;
        x->results.at[kept++] = value;
    }
    x->results.n = kept;
}

static void finish_split(Build *w, uint32_t piece)
{
    Part *part = &w->parts[DT_ACTION_B][piece];
    DtFunc *bwd = part->func, *primal = DT_NEW(arena_of(w), DtFunc);
    const uint32_t n = part->results.n;
    bool *delayed = DT_NEW_ARRAY(arena_of(w), bool, n + 1);
    DtEntryResult *early_to = DT_NEW_ARRAY(arena_of(w), DtEntryResult, n + 1);
    DtEntryResult *delayed_to = DT_NEW_ARRAY(arena_of(w), DtEntryResult, n + 1);
    uint32_t n_early = 0, n_delayed = 0;
    for (uint32_t i = 0; i < n; i++) {
        dt_graph_return(bwd, part->results.at[i].value);
        DT_PUSH(arena_of(w), bwd->wanted, i);
        delayed[i] = is_delayed(&part->results.at[i]);
        if (delayed[i])
            delayed_to[n_delayed++] = part->results.at[i].to;
        else
            early_to[n_early++] = part->results.at[i].to;
    }
    bwd->primal = primal;
    dt_wgrad_func(bwd, delayed);
    DtFunc *x = primal->bwd_x, *weights = primal->bwd_w;
    const uint32_t n_cross = x->results.n - n_early;
    DtEntryResult *results = DT_NEW_ARRAY(arena_of(w), DtEntryResult, x->results.n + 1);
    DtStore **crossing = DT_NEW_ARRAY(arena_of(w), DtStore *, n_cross + 1);
    memcpy(results, early_to, n_early * sizeof *results);
    settle_crossing(w, x, n_early, piece, part->stores.at, results, crossing);
    w->run.pieces[piece].b =
        add_entry(w, x, DT_ACTION_B, piece, part->stores.at, x->results.n, results);
    if (n_delayed > 0)
        w->run.pieces[piece].w =
            add_entry(w, weights, DT_ACTION_W, piece, crossing, n_delayed, delayed_to);
}

/* ---- the run ---- */

/* What depths_between computed last. Most slots of a piece are written and read by the same
 * actions, so it is often asked for again. */
typedef struct LastDepth {
    DtAction write, read;
    uint32_t class;
    int64_t *depths; /* by stage of the class; NULL: there is no last result yet */
} LastDepth;

/* Returns, by stage of a class, how many slots are needed for a value that one action writes and
 * another reads. */
static const int64_t *depths_between(Build *w, uint32_t class, DtAction write, DtAction read,
                                     LastDepth *last)
{
    if (last->depths && last->class == class && dt_pipeline_same(&last->write, &write) &&
        dt_pipeline_same(&last->read, &read))
        return last->depths;
    *last = (LastDepth){write, read, class,
                        DT_NEW_ARRAY(arena_of(w), int64_t, w->s->class_more[class] + 1)};
    for (uint32_t k = 0; k <= w->s->class_more[class]; k++) {
        const uint32_t stage = w->s->class_first[class] + k;
        last->depths[k] =
            dt_schedule_depth(&w->unfolded, stage,
                              dt_stage_action_on(w->s, &w->run, &w->unfolded, write, stage),
                              dt_stage_action_on(w->s, &w->run, &w->unfolded, read, stage));
    }
    return last->depths;
}

/* Sets the depth of each slot store: the most micro-batches whose values are live at once, from the
 * action that writes them to the last one that reads them. */
static void settle_depths(Build *w)
{
    LastDepth last = {.depths = NULL};
    for (uint32_t i = 0; i < w->lives.n; i++) {
        const Life *life = &w->lives.at[i];
        DtStore *slot = w->s->slots.at[w->first_slot + i];
        const uint32_t class = (uint32_t)slot->stage, more = w->s->class_more[class];
        int64_t *depths = more ? DT_NEW_ARRAY(arena_of(w), int64_t, more + 1) : &slot->depth;
        for (uint32_t j = 0; j <= more; j++)
            depths[j] = 1;
        for (uint32_t k = 0; k < life->reads.n; k++) {
            const int64_t *between =
                depths_between(w, class, life->write, life->reads.at[k], &last);
            for (uint32_t j = 0; j <= more; j++)
                depths[j] = between[j] > depths[j] ? between[j] : depths[j];
        }
        slot->depth = depths[0];
        bool vary = false;
        for (uint32_t j = 1; j <= more; j++)
            vary = vary || depths[j] != depths[0];
        slot->depths = vary ? depths : NULL;
    }
}

/* Returns the lowest piece that has backward work; the number of pieces if none has any. */
static uint32_t lowest_backward(const Build *w)
{
    uint32_t lowest = w->s->pipeline->n_pieces;
    for (uint32_t i = 0; i < w->a->ops.n; i++)
        if (w->a->ops.at[i].home == DT_HOME_B && w->a->ops.at[i].piece < lowest)
            lowest = w->a->ops.at[i].piece;
    for (uint32_t i = 0; i < w->e->results.n; i++) {
        const DtExpandedResult *result = &w->e->results.at[i];
        if (result->to.store && result->to.store->kind == DT_STORE_GRAD && result->piece < lowest)
            lowest = result->piece;
    }
    return lowest;
}

/* If an earlier run without backward connects the same pieces, takes its schedule and its channels'
 * slots; else returns false. */
static bool share_schedule(Build *w)
{
    const DtPipelineSchedule *pipeline = w->s->whole;
    DtPipelineRun *own = &w->unfolded;
    for (uint32_t i = 0; i < pipeline->runs.n; i++) {
        const DtPipelineRun *run = &pipeline->runs.at[i];
        bool same =
            run->pieces[pipeline->n_pieces - 1].b < 0 && run->channels.n == own->channels.n;
        for (uint32_t k = 0; same && k < run->channels.n; k++)
            same = run->channels.at[k].from_piece == own->channels.at[k].from_piece &&
                   run->channels.at[k].to_piece == own->channels.at[k].to_piece;
        for (uint32_t k = 0; same && k < run->channels.n; k++)
            own->channels.at[k].slots = run->channels.at[k].slots;
        own->stages = same ? run->stages : NULL;
        if (same)
            return true;
    }
    return false;
}

static bool fill_schedule(Build *w, bool backward)
{
    DtText problem = {0};
    const DtScheduleKind *kind = backward ? w->s->kind : dt_schedule_find("forward");
    if (!backward && share_schedule(w))
        return true;
    const bool drains =
        dt_schedule_fill(arena_of(w), w->s->whole, kind, &w->unfolded, &problem);
    if (!drains) {
        DtDiag *diag = dt_stage_refuse(w->s, E0592, w->s->line->span,
                                       "schedule `%s` of this pipeline deadlocks, a case that "
                                       "is not implemented yet",
                                       kind->name);
        dt_diag_note(diag, "%s", problem.at ? problem.at : "");
        dt_diag_help(diag, "`schedule = \"1f1b\"`, or another number of micro-batches");
    }
    dt_text_free(&problem);
    return drains;
}

/* Sorts the ops by phases and pieces, and the results by pieces, into w->order, w->result_order and
 * w->first. */
static void sort_by_place(Build *w)
{
    const uint32_t n = w->s->pipeline->n_pieces, n_ops = w->a->ops.n, n_results = w->e->results.n;
    uint32_t *at[3];
    w->order = DT_NEW_ARRAY(w->s->arena, uint32_t, n_ops + 1);
    w->result_order = DT_NEW_ARRAY(w->s->arena, uint32_t, n_results + 1);
    for (int k = 0; k < 3; k++) {
        w->first[k] = DT_NEW_ARRAY(w->s->arena, uint32_t, n + 1);
        at[k] = DT_NEW_ARRAY(w->s->arena, uint32_t, n + 1);
    }
    for (uint32_t i = 0; i < n_ops; i++)
        if (w->a->ops.at[i].home >= DT_HOME_F)
            w->first[w->a->ops.at[i].home - DT_HOME_F][w->a->ops.at[i].piece + 1]++;
    for (uint32_t i = 0; i < n_results; i++)
        w->first[2][w->e->results.at[i].piece + 1]++;
    for (int k = 0; k < 3; k++)
        for (uint32_t g = 0; g < n; g++)
            w->first[k][g + 1] += w->first[k][g];
    for (uint32_t g = 0; g <= n; g++)
        w->first[1][g] += w->first[0][n];
    for (int k = 0; k < 3; k++)
        memcpy(at[k], w->first[k], (n + 1) * sizeof **at);
    for (uint32_t i = 0; i < n_ops; i++)
        if (w->a->ops.at[i].home >= DT_HOME_F)
            w->order[at[w->a->ops.at[i].home - DT_HOME_F][w->a->ops.at[i].piece]++] = i;
    for (uint32_t i = 0; i < n_results; i++)
        w->result_order[at[2][w->e->results.at[i].piece]++] = i;
}

static Build begin(DtStager *s, DtEntryKind kind, const DtExpanded *e, const DtAssigned *a)
{
    const uint32_t n = e->func->n_values + 1, n_pieces = s->pipeline->n_pieces;
    Build w = {
        .s = s, .name = dt_entry_kind_name(kind), .e = e, .a = a, .run = {.kind = kind},
        .first_slot = s->slots.n};
    w.made = DT_NEW_ARRAY(s->arena, DtValue *, n);
    w.stops = DT_NEW_ARRAY(s->arena, Stops, n);
    w.here = DT_NEW_ARRAY(s->arena, DtValue *, n);
    w.here_turn = DT_NEW_ARRAY(s->arena, uint32_t, n);
    w.run.pieces = DT_NEW_ARRAY(s->arena, DtPieceEntries, n_pieces);
    for (int phase = 0; phase < 2; phase++)
        w.parts[phase] = DT_NEW_ARRAY(s->arena, Part, n_pieces);
    for (uint32_t g = 0; g < n_pieces; g++)
        w.run.pieces[g] = (DtPieceEntries){.f = -1, .b = -1, .w = -1};
    return w;
}

bool dt_stage_build(DtStager *s, DtEntryKind kind, const DtExpanded *e, const DtAssigned *a)
{
    Build work = begin(s, kind, e, a), *w = &work;
    const uint32_t n = s->pipeline->n_pieces, lowest = lowest_backward(w);
    sort_by_place(w);
    for (uint32_t g = 0; g < n; g++)
        build_part(w, DT_ACTION_F, g);
    for (uint32_t g = n; g-- > lowest;)
        build_part(w, DT_ACTION_B, g);
    if (s->failed)
        return false;
    for (uint32_t g = 0; g < n; g++)
        w->run.pieces[g].f = finish_part(w, DT_ACTION_F, g);
    for (uint32_t g = lowest; g < n; g++) {
        if (s->kind->splits)
            finish_split(w, g);
        else
            w->run.pieces[g].b = finish_part(w, DT_ACTION_B, g);
    }
    dt_stage_unfold(s, &w->run, &w->unfolded);
    if (s->unequal || !fill_schedule(w, lowest < n))
        return false;
    settle_depths(w);
    DT_PUSH(s->arena, s->whole->runs, w->unfolded);
    return true;
}
