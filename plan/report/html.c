/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one page that needs no network: page.html, with the numbers that its script draws in it as JSON. */
#include "plan/report/text.h"

#include "plan/report/nodes.h"
#include "plan/report/people.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SLICES = 9000, MOST_LINES = 60, MOST_TEXT = 160 };

extern const char dt_report_page[];

/* ---- time line ---- */

static int by_begin(const void *a, const void *b)
{
    const DtSlice *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->stage < y->stage ? -1 : x->stage > y->stage;
}

/* "grad.f3": 0 forward, 1 backward, 2 gradients of parameters; 3: a whole micro-batch. */
static int kind_of(const DtSummary *s, const DtSlice *slice)
{
    const char *name = slice->what == UINT32_MAX ? "" : dt_plan_str(s->plan, s->plan->entries[slice->what].name);
    const char *dot = strrchr(name, '.') ? strchr(name, '.') : NULL;
    return dot && dot[1] == 'f' ? 0 : dot && dot[1] == 'b' ? 1 : dot && dot[1] == 'w' ? 2 : 3;
}

/* Pieces, by their begin, in an array of the caller's; instructions are left out. */
static DtSlice *pieces_of(const DtSummary *s, uint32_t *ret_n)
{
    DtSlice *slices = calloc(s->sim.n_slices + 1, sizeof *slices);
    uint32_t n = 0;
    if (!slices)
        dt_arena_exhausted((s->sim.n_slices + 1) * sizeof *slices);
    for (uint32_t i = 0; i < s->sim.n_slices; i++)
        if (s->sim.slices[i].kind == DT_SLICE_PIECE)
            slices[n++] = s->sim.slices[i];
    qsort(slices, n, sizeof *slices, by_begin);
    *ret_n = n;
    return slices;
}

/* [stage, begin, end, kind, micro-batch]; of more than the page holds the first. */
static json_t *json_slices(const DtSummary *s, const DtSlice *slices, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n && i < MOST_SLICES; i++)
        json_array_append_new(list, json_pack("[i, f, f, i, i]", (int)slices[i].stage, slices[i].begin, slices[i].end,
                                              kind_of(s, &slices[i]), (int)slices[i].micro));
    return list;
}

/* ---- memory ---- */

static json_t *json_stages(const DtSummary *s)
{
    json_t *stages = json_array();
    for (uint32_t i = 0; i < dt_plan_stages(s->plan); i++) {
        DtMemory m;
        dt_memory_stage(s->plan, i, s->is_gpu, &m);
        json_t *memory = json_object();
        int64_t beside = m.reserved - m.allocated;
        for (int k = 0; k < DT_ARENA_PREDICT; k++)
            json_object_set_new(memory, dt_memory_kinds[k],
                                json_integer(m.arenas[k] - (k == DT_ARENA_ACTIVATIONS ? m.in_flight : 0)));
        json_object_set_new(memory, "micro-batches in flight", json_integer(m.in_flight));
        json_object_set_new(memory, "beside the plan", json_integer(beside));
        const double have = s->have > 0 ? dt_nodes_smallest(s->plan, &s->model, i)->memory_bytes : 0;
        json_array_append_new(stages, json_pack("{s:o, s:f}", "memory", memory, "device", have));
    }
    return stages;
}

/* How much of what is allocated on the stage with most is in use: what lives throughout, what micro-batches between
 * their forward and their backward keep, temporaries while something runs. [seconds, bytes] where it changes. */
static json_t *json_use(const DtSummary *s, const DtSlice *slices, uint32_t n)
{
    const DtMemory *m = &s->worst;
    const double still = (double)(m->reserved - m->arenas[DT_ARENA_ACTIVATIONS]);
    const double temporaries = (double)(m->arenas[DT_ARENA_ACTIVATIONS] - m->in_flight);
    int64_t flying = 0, most = 1;
    json_t *list = json_array();
    for (int pass = 0; pass < 2; pass++) {
        flying = 0;
        for (uint32_t i = 0; i < n && i < MOST_SLICES; i++) {
            const int kind = kind_of(s, &slices[i]);
            if (slices[i].stage != m->stage)
                continue;
            flying += kind == 0;
            most = flying > most ? flying : most;
            const double kept = (double)m->in_flight * (double)flying / (double)most;
            if (pass) {
                json_array_append_new(list, json_pack("[f, f]", slices[i].begin, still + kept + temporaries));
                json_array_append_new(list, json_pack("[f, f]", slices[i].end, still + kept));
            }
            flying -= kind == 1 && flying > 0;
        }
    }
    if (json_array_size(list) == 0)
        json_array_append_new(list, json_pack("[f, f]", 0.0, still + temporaries));
    return list;
}

/* ---- traffic ---- */

static json_t *json_axis(const DtSummary *s, uint32_t group, const DtReportTraffic *traffic)
{
    const uint32_t mask = s->plan->groups[group].mask;
    DtText name = {0};
    double received = 0, runs = 0, exposed = 0;
    for (uint32_t m = 0; m < s->plan->n_mesh; m++)
        if (mask >> m & 1)
            dt_text_printf(&name, "%s%s", name.len ? " " : "", dt_plan_str(s->plan, s->plan->mesh[m].name));
    for (uint32_t g = group; g < s->plan->n_groups; g++)
        if (s->plan->groups[g].mask == mask) {
            received += traffic[g].received / s->plan->meta->n_ranks;
            runs += s->has_time ? s->sim.stages[s->sim.busiest].beside[g] : 0;
            exposed += s->has_time ? s->sim.stages[s->sim.busiest].exposed[g] : 0;
        }
    const int64_t nodes = s->has_time ? dt_price_spread(s->plan, mask, s->model.ranks_per_node).nodes : 1;
    json_t *axis = json_pack("{s:s, s:f, s:f, s:f, s:I}", "name", name.at ? name.at : "", "received", received, "runs",
                             runs, "exposed", exposed, "nodes", (json_int_t)nodes);
    dt_text_free(&name);
    return axis;
}

static json_t *json_traffic(const DtSummary *s)
{
    const DtPlan *plan = s->plan;
    json_t *axes = json_array(), *messages = json_array();
    DtReportTraffic *traffic = calloc(plan->n_groups + plan->n_channels + 1, sizeof *traffic);
    if (!traffic)
        dt_arena_exhausted((plan->n_groups + plan->n_channels + 1) * sizeof *traffic);
    dt_report_traffic(plan, traffic, traffic + plan->n_groups);
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        bool again = traffic[g].runs == 0;
        for (uint32_t k = 0; k < g; k++)
            again = again || plan->groups[k].mask == plan->groups[g].mask;
        if (!again)
            json_array_append_new(axes, json_axis(s, g, traffic));
    }
    for (uint32_t c = 0; c < plan->n_channels; c++) {
        const DtPlanChannel *channel = &plan->channels[c];
        double sum = 0;
        bool again = false;
        for (uint32_t k = 0; k < plan->n_channels; k++)
            if (plan->channels[k].from == channel->from && plan->channels[k].to == channel->to) {
                again = again || k < c;
                sum += traffic[plan->n_groups + k].received;
            }
        if (!again && sum > 0)
            json_array_append_new(messages, json_pack("[i, i, f]", (int)channel->from, (int)channel->to, sum));
    }
    free(traffic);
    return json_pack("{s:o, s:o}", "axes", axes, "messages", messages);
}

/* ---- lines ---- */

typedef struct Line { uint32_t span; double seconds; } Line;
typedef struct Lines { const DtSummary *s; Line *at; double all; } Lines;

static void add_seconds(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    Lines *lines = context;
    const double seconds = (double)runs * ranks * lines->s->seconds[inst - lines->s->plan->insts];
    if (inst->span < lines->s->plan->n_spans) {
        lines->at[inst->span].seconds += seconds;
        lines->all += seconds;
    }
}

static int by_seconds(const void *a, const void *b)
{
    const Line *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

/* Spans of one line are one. */
static void merge(const DtPlan *plan, Line *lines)
{
    for (uint32_t i = 0; i < plan->n_spans; i++)
        for (uint32_t k = 0; k < i && lines[i].seconds > 0; k++)
            if (plan->spans[k].line == plan->spans[i].line && plan->spans[k].file == plan->spans[i].file) {
                lines[k].seconds += lines[i].seconds;
                lines[i].seconds = 0;
            }
}

static json_t *json_line(const DtSummary *s, const Line *line, double all)
{
    const DtPlanSpan *span = &s->plan->spans[line->span];
    const char *source = s->source ? s->source(s->source_context, dt_plan_str(s->plan, span->file), span->line) : NULL;
    char at[200], text[MOST_TEXT + 1];
    snprintf(at, sizeof at, "%.150s:%u", dt_plan_str(s->plan, span->file), span->line);
    snprintf(text, sizeof text, "%.*s", source ? (int)strcspn(source, "\n") : MOST_TEXT,
             source ? source : dt_plan_str(s->plan, span->path));
    DtText shown = {0};
    dt_text_add_visible(&shown, text, strlen(text));
    json_t *json = json_pack("{s:s, s:f, s:f, s:s}", "at", at, "seconds", line->seconds / s->plan->meta->n_ranks,
                             "share", line->seconds / all, "text", shown.at ? shown.at : "");
    dt_text_free(&shown);
    return json;
}

/* Of queue 0 and of collectives, also those that run beside it: seconds of a rank, the mean. */
static json_t *json_lines(const DtSummary *s)
{
    json_t *list = json_array();
    Lines lines = {.s = s, .at = calloc(s->plan->n_spans + 1, sizeof *lines.at)};
    if (!lines.at)
        dt_arena_exhausted((s->plan->n_spans + 1) * sizeof *lines.at);
    for (uint32_t i = 0; i < s->plan->n_spans; i++)
        lines.at[i].span = i;
    if (s->has_time)
        dt_report_visit_step(s->plan, add_seconds, &lines);
    merge(s->plan, lines.at);
    qsort(lines.at, s->plan->n_spans, sizeof *lines.at, by_seconds);
    for (uint32_t i = 0; i < s->plan->n_spans && i < MOST_LINES && lines.at[i].seconds > 0; i++)
        json_array_append_new(list, json_line(s, &lines.at[i], lines.all));
    free(lines.at);
    return list;
}

/* ---- the page ---- */

void dt_html_report(const DtSummary *s, DtText *ret_text)
{
    static const char mark[] = "DATA_OF_THE_REPORT";
    DtText text = {0};
    uint32_t n = 0;
    DtSlice *slices = pieces_of(s, &n);
    const double step = s->has_time ? s->sim.seconds : 1.0;
    dt_text_report(s, &text);
    const double shown = n > MOST_SLICES ? slices[MOST_SLICES - 1].begin : step;
    json_t *root = json_pack("{s:s, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "text", text.at ? text.at : "", "step",
                             step, "shown", shown, "device", s->have, "stages", json_stages(s), "slices",
                             json_slices(s, slices, n), "use", json_use(s, slices, n), "traffic", json_traffic(s),
                             "lines", json_lines(s));
    /* No "</script>" inside; six digits are more than a screen has. */
    char *json = root ? json_dumps(root, JSON_COMPACT | JSON_ESCAPE_SLASH | JSON_REAL_PRECISION(7)) : NULL;
    const char *at = strstr(dt_report_page, mark);
    if (json && at) {
        dt_text_add_n(ret_text, dt_report_page, (size_t)(at - dt_report_page));
        dt_text_add(ret_text, json);
        dt_text_add(ret_text, at + sizeof mark - 1);
    }
    free(json);
    json_decref(root);
    free(slices);
    dt_text_free(&text);
}
