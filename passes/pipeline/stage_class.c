/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of equal stages. In a long pipeline most stages do the same with other iterations of the
 * same loops:
 *
 *   stages 0 .. 63, layers 0 .. 127     classes 0, 1 .. 62, 63
 *
 * The pass cuts the program as if each class were one stage with the pieces of its first stage, so
 * that its work and what it makes do not grow with the number of stages. What differs within a
 * class is the number of the first iteration, and how many slots there are; dt_pipeline_unfold
 * (ir/pipeline_unfold.c) says it stage by stage.
 *
 * Stages can be of one class if each of their pieces is a range of one loop and nothing else,
 * equally long on all. That is decided beforehand. Cutting then shows whether the stages are equal:
 * no op may run on only one of them, and a stage must send what it receives, for the next range of
 * iterations:
 *
 *   carried value i of the loop      comes as the loop's operand i, goes as its result i
 *   what passes through              comes and goes unchanged
 *
 * Where that fails, the class loses its ends, where loops begin and end, or is given up, and the
 * pass begins again. */
#include "passes/pipeline/stage.h"

#include <stdlib.h>
#include <string.h>

/* ---- which stages ---- */

/* Returns the one loop of whose iterations the piece consists; NULL if it has other ops, or
 * iterations of several loops. */
static const DtStageLoop *only_loop(const DtStager *s, uint32_t piece)
{
    const DtStageLoop *only = NULL;
    for (uint32_t i = 0; i <= s->loops.n; i++)
        if (s->segment_piece[i] == piece)
            return NULL;
    for (uint32_t i = 0; i < s->loops.n; i++) {
        const DtStageLoop *loop = &s->loops.at[i];
        if (loop->hi[piece] <= loop->lo[piece])
            continue;
        if (only)
            return NULL;
        only = loop;
    }
    return only;
}

/* Whether the piece has a neighbour on both sides, and both are on other stages. */
static bool stands_alone(const DtPipelineSchedule *pipeline, uint32_t piece)
{
    const uint32_t stage = pipeline->stage_of[piece];
    return piece > 0 && piece + 1 < pipeline->n_pieces && pipeline->stage_of[piece - 1] != stage &&
           pipeline->stage_of[piece + 1] != stage;
}

/* Whether stages `stage` and `stage` + 1 have equal work: each of their pieces consists of as many
 * iterations of the same loop. */
static bool joins_next(const DtStager *s, uint32_t stage)
{
    const DtPipelineSchedule *pipeline = s->pipeline;
    for (uint32_t a = 0; a < pipeline->n_pieces; a++) {
        if (pipeline->stage_of[a] != stage)
            continue;
        const uint32_t b = dt_pipeline_like(pipeline, a, stage + 1);
        const DtStageLoop *loop = only_loop(s, a);
        if (!loop || only_loop(s, b) != loop || !stands_alone(pipeline, a) ||
            !stands_alone(pipeline, b) || loop->hi[a] - loop->lo[a] != loop->hi[b] - loop->lo[b])
            return false;
    }
    return true;
}

static void find_classes(DtStager *s, uint32_t *ret_n)
{
    const uint32_t n = s->pipeline->n_stages;
    uint32_t stage = 0;
    s->class_first = DT_NEW_ARRAY(s->arena, uint32_t, n);
    s->class_more = DT_NEW_ARRAY(s->arena, uint32_t, n);
    s->differs = DT_NEW_ARRAY(s->arena, bool, n);
    for (*ret_n = 0; stage < n; stage++, ++*ret_n) {
        s->class_first[*ret_n] = stage;
        while (stage + 1 < n && !s->apart[stage] && !s->apart[stage + 1] && joins_next(s, stage))
            stage++;
        s->class_more[*ret_n] = stage - s->class_first[*ret_n];
    }
}

/* ---- the pipeline by classes ---- */

/* Changes the pieces of segments (ops outside of loops) from numbers by stage to numbers by class.
 * They are on stages that are alone in their class. */
static void renumber_segments(DtStager *s)
{
    for (uint32_t i = 0; i <= s->loops.n; i++)
        for (uint32_t g = 0; g < s->pipeline->n_pieces; g++)
            if (s->piece_first[g] == s->segment_piece[i]) {
                s->segment_piece[i] = g;
                break;
            }
}

static void renumber_loop(const DtStager *s, DtStageLoop *loop)
{
    const uint32_t n = s->pipeline->n_pieces;
    int64_t *lo = DT_NEW_ARRAY(s->arena, int64_t, n), *hi = DT_NEW_ARRAY(s->arena, int64_t, n);
    for (uint32_t g = 0; g < n; g++) {
        lo[g] = loop->lo[s->piece_first[g]];
        hi[g] = loop->hi[s->piece_first[g]];
    }
    loop->lo = lo;
    loop->hi = hi;
}

void dt_stage_classes(DtStager *s)
{
    DtPipelineSchedule *by_class = DT_NEW(s->arena, DtPipelineSchedule);
    const DtPipelineSchedule *whole = s->whole;
    *by_class = *whole;
    find_classes(s, &by_class->n_stages);
    by_class->n_pieces = whole->n_pieces / whole->n_stages * by_class->n_stages;
    by_class->stage_of = DT_NEW_ARRAY(s->arena, uint32_t, by_class->n_pieces);
    s->piece_first = DT_NEW_ARRAY(s->arena, uint32_t, by_class->n_pieces);
    uint32_t *next = DT_NEW_ARRAY(s->arena, uint32_t,
                                  by_class->n_stages); /* by class: the next piece of its first
                                                        * stage */
    for (uint32_t g = 0; g < by_class->n_pieces; g++) {
        const uint32_t class = dt_schedule_stage(s->kind, by_class->n_stages, g);
        by_class->stage_of[g] = class;
        while (whole->stage_of[next[class]] != s->class_first[class])
            next[class]++;
        s->piece_first[g] = next[class]++;
    }
    s->pipeline = by_class;
    renumber_segments(s);
    for (uint32_t i = 0; i < s->loops.n; i++)
        renumber_loop(s, &s->loops.at[i]);
}

void dt_stage_differ(DtStager *s, uint32_t class)
{
    if (s->class_more[class] > 0)
        s->differs[class] = s->unequal = true;
}

void dt_stage_take_apart(DtStager *s)
{
    for (uint32_t i = 0; i < s->pipeline->n_stages; i++) {
        const uint32_t first = s->class_first[i], last = first + s->class_more[i];
        const bool known = (first > 0 && s->apart[first - 1]) ||
                           (last + 1 < s->whole->n_stages && s->apart[last + 1]);
        for (uint32_t stage = first; s->differs[i] && stage <= last; stage++)
            s->apart[stage] = known || stage == first || stage == last;
    }
}

/* Whether the piece is on a class of several stages. */
static bool is_many(const DtStager *s, uint32_t piece)
{
    return s->class_more[dt_stage_of(s, piece)] > 0;
}

/* Returns the piece, numbered by stages, that a piece of a class is on one of the class's
 * stages. */
static uint32_t piece_on(const DtStager *s, uint32_t piece, uint32_t stage)
{
    return dt_pipeline_like(s->whole, s->piece_first[piece], stage);
}

int64_t dt_stage_step(const DtStager *s, const DtStageLoop *loop, uint32_t piece)
{
    if (!is_many(s, piece))
        return 0;
    const uint32_t next = piece_on(s, piece, s->class_first[dt_stage_of(s, piece)] + 1);
    const int64_t n = loop->hi[piece] - loop->lo[piece];
    return next > s->piece_first[piece] ? n : -n;
}

/* ---- channels within a class ---- */

static const DtChannel *channel_of(const DtPipelineRun *run, uint32_t piece, bool forward,
                                   bool into)
{
    for (uint32_t i = 0; i < run->channels.n; i++) {
        const DtChannel *c = &run->channels.at[i];
        if ((into ? c->to_piece : c->from_piece) == piece &&
            (c->to_piece > c->from_piece) == forward)
            return c;
    }
    return NULL;
}

/* Whether some loop of the entry takes the contents of `in` as a carried value and leaves that
 * carried value in `out`. */
static bool carries(const DtEntryPoint *entry, const DtStore *in, const DtStore *out)
{
    for (uint32_t i = 0; i < entry->func->ops.n; i++) {
        const DtOp *op = entry->func->ops.at[i];
        for (uint32_t k = 0; op->loop && k < op->loop->n_carried; k++) {
            if (!op->in[k]->op || op->in[k]->op->store != in)
                continue;
            for (uint32_t r = 0; r < entry->results.n; r++)
                if (entry->results.at[r].store == out && entry->func->results.at[r] == op->out[k])
                    return true;
        }
    }
    return false;
}

/* Returns the store that a stage sends on to the next stage of its class when it receives `in`:
 * `in` itself, or what loops of the entry make of it. NULL unless there is exactly one. */
static DtStore *passed_on(const DtEntryPoint *entry, const DtStore *in, const DtChannel *out)
{
    DtStore *found = NULL;
    for (uint32_t k = 0; k < out->stores.n; k++) {
        DtStore *from = out->stores.at[k]->of;
        if (from != in && !carries(entry, in, from))
            continue;
        if (found || from->type != in->type)
            return NULL;
        found = from;
    }
    return found;
}

static bool receives_what_it_sends(const DtStager *s, const DtPipelineRun *run, uint32_t piece,
                                   bool forward)
{
    const DtChannel *in = channel_of(run, piece, forward, true);
    const DtChannel *out = channel_of(run, piece, forward, false);
    const int32_t entry = forward ? run->pieces[piece].f : run->pieces[piece].b;
    if (!in || !out || entry < 0)
        return in == out;
    if (in->stores.n != out->stores.n)
        return false;
    for (uint32_t i = 0; i < in->stores.n; i++) {
        DtStore *store = in->stores.at[i];
        store->within = passed_on(&s->entries.at[entry], store, out);
        for (uint32_t k = 0; k < i; k++)
            if (in->stores.at[k]->within == store->within)
                return false;
        if (!store->within)
            return false;
    }
    return true;
}

/* ---- runs by stages ---- */

static void add_channel(DtStager *s, const DtChannel *by_class, uint32_t to, DtPipelineRun *run)
{
    DtChannel channel = *by_class;
    channel.to_piece = to;
    channel.from_piece = by_class->to_piece > by_class->from_piece ? to - 1 : to + 1;
    channel.from = s->whole->stage_of[channel.from_piece];
    channel.to = s->whole->stage_of[to];
    DT_PUSH(s->arena, run->channels, channel);
}

void dt_stage_unfold(DtStager *s, const DtPipelineRun *run, DtPipelineRun *ret_run)
{
    *ret_run = (DtPipelineRun){.kind = run->kind};
    ret_run->pieces = DT_NEW_ARRAY(s->arena, DtPieceEntries, s->whole->n_pieces);
    for (uint32_t g = 0; g < s->pipeline->n_pieces; g++) {
        const uint32_t class = dt_stage_of(s, g);
        for (uint32_t k = 0; k <= s->class_more[class]; k++)
            ret_run->pieces[piece_on(s, g, s->class_first[class] + k)] = run->pieces[g];
        if (is_many(s, g) &&
            (!receives_what_it_sends(s, run, g, true) || !receives_what_it_sends(s, run, g, false)))
            dt_stage_differ(s, class);
    }
    for (uint32_t i = 0; i < run->channels.n; i++) {
        const DtChannel *channel = &run->channels.at[i];
        const uint32_t class = dt_stage_of(s, channel->to_piece);
        for (uint32_t k = 0; k <= s->class_more[class]; k++)
            add_channel(s, channel, piece_on(s, channel->to_piece, s->class_first[class] + k),
                        ret_run);
    }
}

DtAction dt_stage_action_on(const DtStager *s, const DtPipelineRun *run,
                            const DtPipelineRun *unfolded, DtAction action, uint32_t stage)
{
    const uint32_t piece = piece_on(s, dt_pipeline_piece(run, &action), stage);
    const bool sends = action.kind == DT_ACTION_SEND;
    DtAction on = action;
    if (!sends && action.kind != DT_ACTION_RECV) {
        on.unit = piece;
        return on;
    }
    const DtChannel *c = &run->channels.at[action.unit];
    on.unit = (uint32_t)(channel_of(unfolded, piece, c->to_piece > c->from_piece, !sends) -
                         unfolded->channels.at);
    return on;
}

/* ---- at the end ---- */

static const char *stages_of(const DtStager *s, const char *classes)
{
    bool has[DT_STAGES_MOST] = {false};
    for (uint32_t i = 0; i < s->pipeline->n_stages; i++)
        for (uint32_t k = 0; k <= s->class_more[i] && dt_stages_has(classes, i); k++)
            has[s->class_first[i] + k] = true;
    return dt_stages_of(has, s->whole->n_stages);
}

void dt_stage_settle_classes(DtStager *s)
{
    for (uint32_t i = 0; i < s->module->stores.n; i++) {
        DtStore *store = s->module->stores.at[i];
        store->more = s->class_more[store->stage];
        store->stage = (int32_t)s->class_first[store->stage];
    }
    for (uint32_t i = 0; i < s->entries.n; i++) {
        DtEntryPoint *entry = &s->entries.at[i];
        entry->more = s->class_more[entry->stage];
        entry->stage = (int32_t)s->class_first[entry->stage];
        for (uint32_t k = 0; k < entry->func->ops.n; k++) {
            DtOp *op = entry->func->ops.at[k];
            op->stages = op->stages ? stages_of(s, op->stages) : NULL;
        }
    }
}
