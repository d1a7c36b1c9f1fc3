/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier's part for modules that are cut into pipeline stages (pipeline.h): stores and
 * entries stand on stages that exist, an entry touches stores of its own stage only and takes part
 * in every sum over stages that it asks for, channels join the stages of their pieces, and every
 * stage runs each of its pieces, and each end of its channels, exactly once per micro-batch,
 * channels in order of micro-batches. */
#include "ir/pipeline.h"
#include "ir/verify_internal.h"

#include <string.h>

static const DtSpan nowhere = {0};

/* ---- stores and entries ---- */

static bool is_stage(const DtPipelineSchedule *pipeline, int32_t stage, uint32_t more)
{
    return stage >= -1 && (stage < 0 ? more == 0 : (int64_t)stage + more < pipeline->n_stages);
}

/* Checks the fields that only stores of a class of stages have. */
static void check_class(DtVerify *v, const DtStore *store)
{
    const bool slots = store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL;
    const DtStore *within = store->within;
    bool ok = store->more > 0 || (!store->depths && !within && store->first_step == 0);
    ok = ok && (!store->depths || (slots && store->depths[0] == store->depth));
    for (uint32_t k = 0; ok && store->depths && k <= store->more; k++)
        ok = store->depths[k] > 0;
    if (store->kind == DT_STORE_CHANNEL && store->more > 0)
        ok = ok && within && within->stage == store->stage && within->more == store->more &&
             within->type == store->type;
    const int64_t last = store->first + (int64_t)store->more * store->first_step;
    if (store->first_step != 0)
        ok = ok && store->whole && last >= 0 && last + store->type->axes[0].extent <= store->whole;
    if (!ok)
        dt_verify_fail(v, store->span, "store `%s` is not one of a class of stages", store->path);
}

static void check_store(DtVerify *v, const DtStore *store)
{
    const DtPipelineSchedule *pipeline = v->module->pipeline;
    const bool slots = store->kind == DT_STORE_SAVED || store->kind == DT_STORE_CHANNEL;
    if (!is_stage(pipeline, store->stage, store->more) || (slots && store->stage < 0)) {
        dt_verify_fail(v, store->span, "store `%s` stands on stage %d", store->path, store->stage);
        return;
    }
    check_class(v, store);
    const DtStore *owner = store->kind == DT_STORE_CHANNEL ? NULL : store->of;
    if (owner && (store->stage != owner->stage || store->more != owner->more))
        dt_verify_fail(v, store->span, "store `%s` stands on stage %d, its parameter on %d",
                       store->path, store->stage, owner->stage);
    if (store->bucket &&
        (store->stage != store->bucket->stage || store->more != store->bucket->more))
        dt_verify_fail(v, store->span, "store `%s` stands on stage %d, its bucket on %d",
                       store->path, store->stage, store->bucket->stage);
    if (store->of && store->kind == DT_STORE_CHANNEL &&
        dt_pipeline_on(store->stage, store->more, store->of->stage))
        dt_verify_fail(v, store->span, "store `%s` receives from its own stage", store->path);
}

/* Checks that entries of a class only touch stores of the same class. */
static bool is_here(const DtStore *store, const DtEntryPoint *entry)
{
    return entry->stage < 0 || store->stage < 0 ||
           (store->stage == entry->stage && store->more == entry->more);
}

/* Checks an all_reduce over stages: all stages exist, and the entry's own stage (or class) is among
 * them. */
static void check_across(DtVerify *v, const DtEntryPoint *entry, const DtOp *op)
{
    const DtPipelineSchedule *pipeline = v->module->pipeline;
    if (op->mesh != 1u << pipeline->mesh || entry->stage < 0 ||
        !dt_stages_is_valid(op->stages, pipeline->n_stages) ||
        !dt_stages_has_all(op->stages, (uint32_t)entry->stage, entry->more))
        dt_verify_fail(v, op->span,
                       "entry `%s` of stage %d adds up over stages that lack it or do not exist",
                       entry->name, entry->stage);
}

static void check_entry(DtVerify *v, const DtEntryPoint *entry)
{
    if (!is_stage(v->module->pipeline, entry->stage, entry->more)) {
        dt_verify_fail(v, entry->func->span, "entry `%s` stands on stage %d", entry->name,
                       entry->stage);
        return;
    }
    for (uint32_t i = 0; i < entry->func->ops.n; i++) {
        const DtOp *op = entry->func->ops.at[i];
        const DtStore *store = op->store;
        if (op->stages)
            check_across(v, entry, op);
        if (store && !is_here(store, entry))
            dt_verify_fail(v, op->span, "entry `%s` of stage %d reads `%s` of stage %d",
                           entry->name, entry->stage, store->path, store->stage);
    }
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        if (store && !is_here(store, entry))
            dt_verify_fail(v, entry->func->span, "entry `%s` of stage %d writes `%s` of stage %d",
                           entry->name, entry->stage, store->path, store->stage);
    }
}

/* ---- runs ---- */

static bool check_piece_entry(DtVerify *v, const DtPipelineRun *run, uint32_t piece, int32_t number)
{
    const DtEntryPoint *entry = number >= 0 && (uint32_t)number < v->module->entries.n
                                    ? &v->module->entries.at[number]
                                    : NULL;
    if (number >= 0 &&
        (!entry || entry->stage < 0 ||
         !dt_pipeline_on(entry->stage, entry->more, v->module->pipeline->stage_of[piece])))
        return dt_verify_fail(v, nowhere, "piece %u of run `%s` has an entry of another stage",
                              piece, dt_entry_kind_name(run->kind));
    return entry != NULL;
}

/* Checks that another twin of a piece's entry has the same results as the entry. */
static void check_form(DtVerify *v, const DtPipelineRun *run, uint32_t piece, uint32_t kind,
                       uint32_t i)
{
    const DtPieceEntries *entries = &run->pieces[piece];
    const int32_t first = dt_pipeline_entry(entries, kind), number = entries->twins[kind].at[i];
    if (first < 0 || !check_piece_entry(v, run, piece, first) ||
        !check_piece_entry(v, run, piece, number))
        return;
    const DtEntryPoint *a = &v->module->entries.at[first], *b = &v->module->entries.at[number];
    bool alike = a->results.n == b->results.n && a->stage == b->stage && a->more == b->more;
    for (uint32_t k = 0; alike && k < a->results.n; k++)
        alike = a->results.at[k].store == b->results.at[k].store &&
                a->results.at[k].name == b->results.at[k].name &&
                a->func->results.at[k]->type == b->func->results.at[k]->type;
    if (!alike)
        dt_verify_fail(v, nowhere, "piece %u of run `%s` has entries with other results as one",
                       piece, dt_entry_kind_name(run->kind));
}

static void check_piece(DtVerify *v, const DtPipelineRun *run, uint32_t piece)
{
    const DtPieceEntries *entries = &run->pieces[piece];
    for (uint32_t kind = DT_ACTION_F; kind <= DT_ACTION_W; kind++) {
        check_piece_entry(v, run, piece, dt_pipeline_entry(entries, kind));
        for (uint32_t i = 0; i < entries->twins[kind].n; i++)
            check_form(v, run, piece, kind, i);
    }
    if (entries->f < 0)
        dt_verify_fail(v, nowhere, "piece %u of run `%s` has no forward entry", piece,
                       dt_entry_kind_name(run->kind));
}

static bool check_channel(DtVerify *v, const DtPipelineRun *run, uint32_t number)
{
    const DtPipelineSchedule *pipeline = v->module->pipeline;
    const DtChannel *c = &run->channels.at[number];
    if (c->from_piece >= pipeline->n_pieces || c->to_piece >= pipeline->n_pieces ||
        c->from != pipeline->stage_of[c->from_piece] || c->to != pipeline->stage_of[c->to_piece] ||
        c->from == c->to || c->slots < 1 || c->stores.n == 0)
        return dt_verify_fail(v, nowhere, "channel %u of run `%s` joins no two stages", number,
                              dt_entry_kind_name(run->kind));
    if (c->from_piece + 1 != c->to_piece && c->to_piece + 1 != c->from_piece)
        return dt_verify_fail(v, nowhere, "channel %u of run `%s` joins pieces %u and %u", number,
                              dt_entry_kind_name(run->kind), c->from_piece, c->to_piece);
    for (uint32_t i = 0; i < c->stores.n; i++) {
        const DtStore *to = c->stores.at[i];
        const DtStore *from = to ? dt_pipeline_source(c, to) : NULL;
        if (!to || to->index >= v->module->stores.n || v->module->stores.at[to->index] != to ||
            to->kind != DT_STORE_CHANNEL || !dt_pipeline_on(to->stage, to->more, c->to) || !from ||
            from->stage < 0 || !dt_pipeline_on(from->stage, from->more, c->from) ||
            from->type != to->type)
            return dt_verify_fail(v, nowhere,
                                  "channel %u of run `%s` fills a store that is not its", number,
                                  dt_entry_kind_name(run->kind));
    }
    return true;
}

/* For a stage: the micro-batch expected next of each piece's F, B and W, and of each end of each
 * channel. */
typedef struct Seen {
    uint32_t n; /* number of entries in each array */
    int64_t *next[DT_ACTION_KINDS];
    int64_t *begin[DT_ACTION_KINDS]; /* the same at the beginning of a repetition of the period; -1:
                                      * the repetition was checked */
    bool *open[2];                   /* by channel: a message has been started, and not ended, at
                                      * its sending (receiving) end */
} Seen;

/* Returns the kind under which an action is counted: a message counts once, at its start or, if it
 * is not asynchronous, when it is sent or received. */
static uint32_t counted(uint32_t kind)
{
    return kind == DT_ACTION_START_SEND   ? DT_ACTION_SEND
           : kind == DT_ACTION_START_RECV ? DT_ACTION_RECV
                                          : kind;
}

static bool ends_message(uint32_t kind)
{
    return kind == DT_ACTION_DONE_SEND || kind == DT_ACTION_DONE_RECV;
}

/* Checks that a started message has ended before the next one starts at that end of the channel. */
static bool check_message(const DtAction *action, Seen *seen)
{
    const bool done = ends_message(action->kind);
    const uint32_t end = dt_pipeline_is_send(action->kind) ? 0 : 1;
    bool *open = &seen->open[end][action->unit];
    if (*open != done || (done && seen->next[end ? DT_ACTION_RECV : DT_ACTION_SEND][action->unit] !=
                                      action->micro + 1))
        return false;
    *open = action->kind == DT_ACTION_START_SEND || action->kind == DT_ACTION_START_RECV;
    return true;
}

static bool check_action(DtVerify *v, const DtPipelineRun *run, uint32_t stage, DtAction action,
                         Seen *seen)
{
    const DtPipelineSchedule *pipeline = v->module->pipeline;
    const bool transfer = action.kind >= DT_ACTION_SEND;
    if (action.kind >= DT_ACTION_KINDS ||
        action.unit >= (transfer ? run->channels.n : pipeline->n_pieces))
        return dt_verify_fail(v, nowhere, "stage %u of run `%s` has an action of no kind or piece",
                              stage, dt_entry_kind_name(run->kind));
    const uint32_t piece = dt_pipeline_piece(run, &action);
    if (pipeline->stage_of[piece] != stage)
        return dt_verify_fail(v, nowhere, "stage %u of run `%s` has an action of piece %u", stage,
                              dt_entry_kind_name(run->kind), piece);
    const DtPieceEntries *entries = &run->pieces[piece];
    if ((action.kind == DT_ACTION_B && entries->b < 0) ||
        (action.kind == DT_ACTION_W && entries->w < 0) ||
        (action.twin && (transfer || action.twin > entries->twins[action.kind].n)))
        return dt_verify_fail(v, nowhere, "stage %u of run `%s` runs an entry that piece %u lacks",
                              stage, dt_entry_kind_name(run->kind), piece);
    if (action.kind >= DT_ACTION_START_SEND && !run->direct)
        return dt_verify_fail(v, nowhere, "run `%s` starts messages and is not direct",
                              dt_entry_kind_name(run->kind));
    if (transfer && !check_message(&action, seen))
        return dt_verify_fail(v, nowhere,
                              "stage %u of run `%s`: a message of channel %u, micro-batch %lld, "
                              "begins before the last "
                              "one is done, or ends without beginning",
                              stage, dt_entry_kind_name(run->kind), action.unit,
                              (long long)action.micro);
    if (ends_message(action.kind))
        return true;
    if (seen->next[counted(action.kind)][action.unit]++ != action.micro)
        return dt_verify_fail(
            v, nowhere,
            "stage %u of run `%s`: an action of piece %u is for micro-batch %lld, "
            "out of order",
            stage, dt_entry_kind_name(run->kind), piece, (long long)action.micro);
    return true;
}

static bool check_list(DtVerify *v, const DtPipelineRun *run, uint32_t stage, const DtActions *list,
                       Seen *seen)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (!check_action(v, run, stage, list->at[i], seen))
            return false;
    return true;
}

/* Checks the first repetition of the period action by action. All others are like it if every
 * action of the period occurs `step` times in it. */
static bool check_period(DtVerify *v, const DtPipelineRun *run, uint32_t stage, Seen *seen)
{
    const DtStageActions *actions = &run->stages[stage];
    const DtActions *period = &actions->period;
    if (actions->count == 0)
        return true;
    for (uint32_t i = 0; i < period->n; i++)
        if (period->at[i].kind < DT_ACTION_KINDS && period->at[i].unit < seen->n)
            seen->begin[counted(period->at[i].kind)][period->at[i].unit] =
                seen->next[counted(period->at[i].kind)][period->at[i].unit];
    bool *open[2] = {DT_NEW_ARRAY(v->scratch, bool, seen->n),
                     DT_NEW_ARRAY(v->scratch, bool, seen->n)};
    for (int k = 0; k < 2; k++)
        memcpy(open[k], seen->open[k], seen->n * sizeof **open);
    if (!check_list(v, run, stage, period, seen))
        return false;
    for (int k = 0; k < 2; k++)
        if (actions->count > 1 && memcmp(open[k], seen->open[k], seen->n * sizeof **open) != 0)
            return dt_verify_fail(
                v, nowhere,
                "stage %u of run `%s` starts messages in a turn that the next one does not expect",
                stage, dt_entry_kind_name(run->kind));
    for (uint32_t i = 0; i < period->n; i++) {
        const DtAction *action = &period->at[i];
        int64_t *begin = &seen->begin[counted(action->kind)][action->unit];
        int64_t *next = &seen->next[counted(action->kind)][action->unit];
        if (ends_message(action->kind))
            continue;
        if (*begin >= 0 && *next - *begin != actions->step && actions->count > 1)
            return dt_verify_fail(v, nowhere,
                                  "stage %u of run `%s`: an action of piece %u is for micro-batch "
                                  "%lld, out of order",
                                  stage, dt_entry_kind_name(run->kind),
                                  dt_pipeline_piece(run, action),
                                  (long long)(action->micro + actions->step));
        if (*begin >= 0)
            *next += (actions->count - 1) * actions->step;
        *begin = -1;
    }
    return true;
}

static void check_run(DtVerify *v, const DtPipelineRun *run)
{
    const DtPipelineSchedule *pipeline = v->module->pipeline;
    Seen seen;
    for (uint32_t i = 0; i < pipeline->n_pieces; i++)
        check_piece(v, run, i);
    for (uint32_t i = 0; i < run->channels.n; i++)
        if (!check_channel(v, run, i))
            return;
    seen.n = pipeline->n_pieces + run->channels.n;
    for (int k = 0; k < DT_ACTION_KINDS; k++) {
        seen.next[k] = DT_NEW_ARRAY(v->scratch, int64_t, seen.n);
        seen.begin[k] = DT_NEW_ARRAY(v->scratch, int64_t, seen.n);
    }
    for (int k = 0; k < 2; k++)
        seen.open[k] = DT_NEW_ARRAY(v->scratch, bool, seen.n);
    for (uint32_t s = 0; s < pipeline->n_stages; s++)
        if (!check_list(v, run, s, &run->stages[s].prologue, &seen) ||
            !check_period(v, run, s, &seen) ||
            !check_list(v, run, s, &run->stages[s].epilogue, &seen))
            return;
    for (uint32_t i = 0; i < pipeline->n_pieces; i++) {
        const int32_t entries[] = {run->pieces[i].f, run->pieces[i].b, run->pieces[i].w};
        for (int k = DT_ACTION_F; k <= DT_ACTION_W; k++)
            if (entries[k] >= 0 && seen.next[k][i] != pipeline->n_micro)
                dt_verify_fail(v, nowhere, "run `%s` runs piece %u %lld times, not %lld",
                               dt_entry_kind_name(run->kind), i, (long long)seen.next[k][i],
                               (long long)pipeline->n_micro);
    }
    for (uint32_t i = 0; i < run->channels.n; i++)
        for (int k = DT_ACTION_SEND; k <= DT_ACTION_RECV; k++)
            if (seen.next[k][i] != pipeline->n_micro)
                dt_verify_fail(v, nowhere,
                               "run `%s` uses an end of channel %u %lld times, not %lld",
                               dt_entry_kind_name(run->kind), i, (long long)seen.next[k][i],
                               (long long)pipeline->n_micro);
    for (uint32_t i = 0; i < run->channels.n; i++)
        if (seen.open[0][i] || seen.open[1][i])
            dt_verify_fail(v, nowhere, "run `%s` ends before a message of channel %u is done",
                           dt_entry_kind_name(run->kind), i);
}

void dt_verify_pipeline(DtVerify *v)
{
    const DtPipelineSchedule *pipeline = v->module->pipeline;
    if (!pipeline)
        return;
    if (pipeline->mesh >= v->module->mesh.n ||
        v->module->mesh.axes[pipeline->mesh].size != pipeline->n_stages ||
        pipeline->n_stages > DT_PIPELINE_STAGES || pipeline->n_pieces == 0 ||
        pipeline->n_micro < 1 || pipeline->n_micro > DT_PIPELINE_MICRO) {
        dt_verify_fail(v, nowhere, "the pipeline's stages are not those of a mesh axis");
        return;
    }
    for (uint32_t i = 0; i < pipeline->n_pieces; i++)
        if (pipeline->stage_of[i] >= pipeline->n_stages) {
            dt_verify_fail(v, nowhere, "piece %u stands on stage %u", i, pipeline->stage_of[i]);
            return;
        }
    for (uint32_t i = 0; i < v->module->stores.n; i++)
        check_store(v, v->module->stores.at[i]);
    for (uint32_t i = 0; i < v->module->entries.n; i++)
        check_entry(v, &v->module->entries.at[i]);
    for (uint32_t i = 0; i < pipeline->runs.n && !v->n_problems; i++)
        check_run(v, &pipeline->runs.at[i]);
}
