/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated step for the page: pieces of all stages, and instructions, each where it runs
 * for the first time. */
#include "plan/report/html.h"

#include "plan/report/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* TICKS: the most ticks that the time of a step is divided into, finer than a screen shows at any
 * zoom */
static const double TICKS = 1e7;

/* Returns the phase of a slice's entry, "grad.f3": 0 forward, 1 backward, 2 gradients of
 * parameters; 3: a whole micro-batch. */
static int kind_of(const DtSummary *s, const DtSlice *slice)
{
    const char *name =
        slice->what == UINT32_MAX ? "" : dt_plan_str(s->plan, s->plan->entries[slice->what].name);
    const char *dot = strrchr(name, '.') ? strchr(name, '.') : NULL;
    return dot && dot[1] == 'f' ? 0 : dot && dot[1] == 'b' ? 1 : dot && dot[1] == 'w' ? 2 : 3;
}

static int by_begin(const void *a, const void *b)
{
    const DtSlice *x = *(const DtSlice *const *)a, *y = *(const DtSlice *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->stage < y->stage ? -1 : x->stage > y->stage;
}

/* Returns the slices of a kind, of one stage or (UINT32_MAX) of all stages, sorted by begin; the
 * caller frees the array. */
static const DtSlice **slices_of(const DtSummary *s, uint8_t kind, uint32_t stage, uint32_t *ret_n)
{
    const DtSlice **slices = calloc(s->sim.n_slices + 1, sizeof *slices);
    uint32_t n = 0;
    if (!slices)
        dt_arena_exhausted((s->sim.n_slices + 1) * sizeof *slices);
    for (uint32_t i = 0; i < s->sim.n_slices; i++) {
        const DtSlice *slice = &s->sim.slices[i];
        /* a plan's record of its device may give times that are no numbers */
        const bool is_time = isfinite(slice->begin) && isfinite(slice->end);
        if (slice->kind == kind && (stage == UINT32_MAX || slice->stage == stage) && is_time)
            slices[n++] = slice;
    }
    qsort(slices, n, sizeof *slices, by_begin);
    *ret_n = n;
    return slices;
}

static void add_number(json_t *list, double number)
{
    json_array_append_new(list, json_integer((json_int_t)number));
}

static void add_times(json_t *list, const DtSlice *slice, double tick)
{
    const double begin = floor(slice->begin / tick);
    add_number(list, begin);
    add_number(list, floor(slice->end / tick) - begin);
}

static json_t *json_pieces(const DtSummary *s, uint32_t most, double tick, double *ret_shown)
{
    uint32_t n = 0;
    const DtSlice **slices = slices_of(s, DT_SLICE_PIECE, UINT32_MAX, &n);
    json_t *list = json_array();
    for (uint32_t i = 0; i < n && i < most; i++) {
        add_number(list, slices[i]->stage);
        add_times(list, slices[i], tick);
        add_number(list, kind_of(s, slices[i]));
        add_number(list, slices[i]->micro);
    }
    *ret_shown = n > most ? slices[most - 1]->begin : s->sim.seconds;
    free(slices);
    return list;
}

/* ---- instructions ---- */

typedef struct Insts {
    const DtSummary *s;
    double tick;
    uint32_t most, n, n_queues;
    json_t *list, *whats;
    int *what;    /* by instruction: its number among whats, -1: none yet */
    bool *done;   /* by stage: slices that are taken */
} Insts;

/* Returns [name, number of its purpose, line] for an instruction. */
static json_t *json_what(const DtSummary *s, uint32_t number)
{
    const DtPlanInst *inst = &s->plan->insts[number];
    char name[DT_INST_NAME], line[200] = "";
    dt_trace_name(s->plan, inst, name);
    if (inst->span < s->plan->n_spans && s->plan->spans[inst->span].line) {
        const DtPlanSpan *span = &s->plan->spans[inst->span];
        snprintf(line, sizeof line, "%.100s:%u %.80s", dt_plan_str(s->plan, span->file), span->line,
                 dt_plan_str(s->plan, span->path));
    }
    DtText shown = {0};
    dt_text_add_visible(&shown, name, strnlen(name, 80));
    dt_text_add(&shown, "\n");
    dt_text_add_visible(&shown, line, strlen(line));
    json_t *json = json_pack("[s, i]", shown.at ? shown.at : "", (int)s->prices[0][number].time);
    dt_text_free(&shown);
    return json ? json : json_pack("[s, i]", "?", 0);
}

/* Adds all instructions of a stage; for the first stage, as many as there is room for. */
static void add_stage(Insts *insts, uint32_t stage)
{
    uint32_t n = 0;
    if (insts->done[stage])
        return;
    const DtSlice **slices = slices_of(insts->s, DT_SLICE_INST, stage, &n);
    const bool fits = insts->n == 0 || insts->n + n <= insts->most;
    for (uint32_t i = 0; fits && i < n && i < insts->most; i++) {
        const DtSlice *slice = slices[i];
        const bool message = insts->s->plan->insts[slice->what].kind == DT_INST_SEND;
        if (insts->what[slice->what] < 0) {
            insts->what[slice->what] = (int)json_array_size(insts->whats);
            json_array_append_new(insts->whats, json_what(insts->s, slice->what));
        }
        add_number(insts->list, stage);
        add_number(insts->list, message ? insts->n_queues : slice->queue);
        add_times(insts->list, slice, insts->tick);
        add_number(insts->list, insts->what[slice->what]);
    }
    insts->n = (uint32_t)json_array_size(insts->list) / 5;
    insts->done[stage] = true;
    free(slices);
}

static json_t *json_rows(const DtPlan *plan, uint32_t n_queues)
{
    json_t *rows = json_array();
    char name[DT_TRACE_QUEUE];
    for (uint32_t q = 0; q < n_queues; q++) {
        dt_trace_queue(plan, q, name);
        json_array_append_new(rows, json_string(name));
    }
    json_array_append_new(rows, json_string("messages"));
    return rows;
}

json_t *dt_html_slices(const DtSummary *s, uint32_t most)
{
    const DtPlan *plan = s->plan;
    DtArena *arena = dt_arena_new();
    Insts insts = {.s = s, .tick = s->sim.seconds / TICKS, .most = most,
                   .n_queues = dt_trace_queues(plan), .list = json_array(), .whats = json_array(),
                   .what = DT_NEW_ARRAY(arena, int, plan->n_insts + 1),
                   .done = DT_NEW_ARRAY(arena, bool, s->sim.n_stages)};
    double shown = 0;
    for (uint32_t i = 0; i < plan->n_insts; i++)
        insts.what[i] = -1;
    json_t *pieces = json_pieces(s, most, insts.tick, &shown);
    add_stage(&insts, s->worst.stage);
    add_stage(&insts, s->sim.busiest);
    add_stage(&insts, s->sim.n_stages - 1);
    for (uint32_t i = 0; i < s->sim.n_stages; i++)
        add_stage(&insts, i);
    json_t *json = json_pack("{s:f, s:f, s:o, s:o, s:o, s:o}", "tick", insts.tick, "shown", shown,
                             "pieces", pieces, "insts", insts.list, "whats", insts.whats, "rows",
                             json_rows(plan, insts.n_queues));
    dt_arena_free(arena);
    return json;
}
