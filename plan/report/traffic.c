/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic: the bytes of a step and its update on each group and channel, and every collective with
 * the source line that causes it. Ranks count bytes by the same closed forms when they run
 * (docs/plan.md). */
#include "plan/report/traffic.h"

#include "plan/kinds.h"
#include "plan/report/people.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups and channels ---- */

typedef struct Sums {
    const DtPlan *plan;
    DtReportTraffic *groups, *channels;
} Sums;

static void add_to_sums(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    const Sums *sums = context;
    if (dt_report_is_collective(inst)) {
        DtReportTraffic *sum = &sums->groups[inst->ref];
        sum->runs += runs;
        sum->beside += inst->event ? runs : 0;
        sum->received += (double)runs * ranks * dt_report_members(sums->plan, inst) /
                         sums->plan->groups[inst->ref].size;
    } else if (inst->kind == DT_INST_RECV) {
        DtReportTraffic *sum = &sums->channels[inst->ref];
        sum->runs += runs;
        sum->beside += inst->event ? runs : 0;
        sum->received += (double)runs * ranks * dt_report_received(sums->plan, inst);
    }
}

static void add_mixed(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    const Sums *sums = context;
    if (!dt_report_is_collective(inst))
        return;
    DtReportTraffic *sum = &sums->groups[inst->ref];
    const double received = (double)runs * ranks * dt_report_members(sums->plan, inst) /
                            sums->plan->groups[inst->ref].size *
                            dt_report_mix_share(sums->plan);
    sum->received += received;
    sum->mixed += received;
}

void dt_report_traffic(const DtPlan *plan, DtReportTraffic *ret_groups,
                       DtReportTraffic *ret_channels)
{
    Sums sums = {plan, ret_groups, ret_channels};
    memset(ret_groups, 0, plan->n_groups * sizeof *ret_groups);
    memset(ret_channels, 0, plan->n_channels * sizeof *ret_channels);
    dt_report_visit_step(plan, add_to_sums, &sums);
    for (int64_t way = 0; dt_report_visit_mix(plan, way, add_mixed, &sums);)
        way++;
}

/* The names of a group's mesh axes, "data tp". */
static void add_mesh_axes(const DtPlan *plan, uint32_t group, DtText *text)
{
    const char *space = "";
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        if (plan->groups[group].mask >> m & 1) {
            dt_text_printf(text, "%s%s", space, dt_plan_str(plan, plan->mesh[m].name));
            space = " ";
        }
}

/* ---- every collective ---- */

typedef struct Row {
    const DtPlanInst *inst;
    int64_t runs;
    double received; /* bytes received by one rank */
} Row;

typedef struct Rows {
    const DtPlan *plan;
    Row *at;
    uint32_t n, room;
} Rows;

static void add_row(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    Rows *rows = context;
    (void)ranks;
    if (!dt_report_is_collective(inst))
        return;
    if (rows->n == rows->room) {
        rows->room = rows->room ? 2 * rows->room : 256;
        rows->at = realloc(rows->at, rows->room * sizeof *rows->at);
        if (!rows->at)
            dt_arena_exhausted(rows->room * sizeof *rows->at);
    }
    rows->at[rows->n++] = (Row){inst, runs, (double)runs * dt_report_received(rows->plan, inst)};
}

static int compare(int64_t x, int64_t y) { return x < y ? -1 : x > y; }

static int by_place(const void *a, const void *b)
{
    const DtPlanInst *x = ((const Row *)a)->inst, *y = ((const Row *)b)->inst;
    int order = compare(x->kind, y->kind);
    order = order ? order : compare(x->ref, y->ref);
    order = order ? order : compare(x->span, y->span);
    return order ? order : compare(x - y, 0);
}

static int by_bytes(const void *a, const void *b)
{
    const Row *x = a, *y = b;
    return x->received != y->received ? (x->received < y->received ? 1 : -1) : by_place(a, b);
}

/* Collectives of one kind, group and line become one row. */
static void merge(Rows *rows)
{
    uint32_t n = 0;
    if (rows->n == 0)
        return;
    qsort(rows->at, rows->n, sizeof *rows->at, by_place);
    for (uint32_t i = 0; i < rows->n; i++) {
        const DtPlanInst *inst = rows->at[i].inst, *last = n ? rows->at[n - 1].inst : NULL;
        if (last && last->kind == inst->kind && last->ref == inst->ref &&
            last->span == inst->span) {
            rows->at[n - 1].runs += rows->at[i].runs;
            rows->at[n - 1].received += rows->at[i].received;
        } else
            rows->at[n++] = rows->at[i];
    }
    rows->n = n;
    qsort(rows->at, rows->n, sizeof *rows->at, by_bytes);
}

static Rows collectives_of(const DtPlan *plan)
{
    Rows rows = {.plan = plan};
    dt_report_visit_step(plan, add_row, &rows);
    merge(&rows);
    return rows;
}

/* The purpose of an instruction; "": the plan names only its kind. */
static const char *reason(const DtPlan *plan, const DtPlanInst *inst)
{
    const char *text =
        inst->span < plan->n_spans ? dt_plan_str(plan, plan->spans[inst->span].text) : "";
    return strcmp(text, dt_kinds_inst(inst->kind)) == 0 ? "" : text;
}

/* What replicas exchange. */
static void print_mixed(const DtPlan *plan, const DtReportTraffic *groups, DtText *text)
{
    const double steps = (double)plan->meta->mix_every;
    char buf[32], each[32];
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        if (!(groups[g].mixed > 0))
            continue;
        const double bytes = groups[g].mixed / plan->meta->n_ranks;
        dt_text_printf(text, "\nexchange of replicas over ");
        add_mesh_axes(plan, g, text);
        dt_text_printf(text, ", every %lld step%s: %s received by one rank, %s a step\n",
                       (long long)plan->meta->mix_every, plan->meta->mix_every == 1 ? "" : "s",
                       dt_people_bytes(buf, bytes * steps), dt_people_bytes(each, bytes));
    }
}

void dt_traffic_print(const DtPlan *plan, DtText *text)
{
    DtReportTraffic *groups = calloc(plan->n_groups + plan->n_channels + 1, sizeof *groups);
    char buf[32];
    if (!groups)
        dt_arena_exhausted((plan->n_groups + plan->n_channels + 1) * sizeof *groups);
    Rows rows = collectives_of(plan);
    dt_report_traffic(plan, groups, groups + plan->n_groups);
    const char *stages = dt_plan_stages(plan) > 1 ? ", operations of one rank of each stage" : "";
    if (rows.n)
        dt_text_printf(text, "\ntraffic of a step, received by one rank on average%s\n", stages);
    for (uint32_t g = 0; g < plan->n_groups; g++) {
        if (!groups[g].runs)
            continue;
        dt_text_printf(text, "  %8lld x  %12s  over ", (long long)groups[g].runs,
                       dt_people_bytes(buf, (groups[g].received - groups[g].mixed) /
                                                plan->meta->n_ranks));
        add_mesh_axes(plan, g, text);
        dt_text_printf(text, ", groups of %u", plan->groups[g].size);
        if (groups[g].beside)
            dt_text_printf(text, ", %lld x beside other work", (long long)groups[g].beside);
        dt_text_add(text, "\n");
    }
    print_mixed(plan, groups, text);
    if (rows.n)
        dt_text_printf(text, "\ncollectives of a step, received by one rank%s\n",
                       *stages ? " of each stage" : "");
    for (uint32_t i = 0; i < rows.n; i++) {
        const DtPlanInst *inst = rows.at[i].inst;
        const char *why = reason(plan, inst);
        dt_text_printf(text, "  %8lld x  %-14s %12s  ", (long long)rows.at[i].runs,
                       dt_kinds_inst(inst->kind), dt_people_bytes(buf, rows.at[i].received));
        add_mesh_axes(plan, inst->ref, text);
        dt_text_printf(text, "%s%s", *why ? ": " : "", why);
        dt_report_place(plan, inst->span, text);
    }
    free(groups);
    free(rows.at);
}

/* ---- JSON ---- */

static json_t *json_axes(const DtPlan *plan, uint32_t group)
{
    json_t *axes = json_array();
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        if (plan->groups[group].mask >> m & 1)
            json_array_append_new(axes, json_string(dt_plan_str(plan, plan->mesh[m].name)));
    return axes;
}

static json_t *json_mixed(const DtPlan *plan, const DtReportTraffic *groups)
{
    json_t *list = json_array();
    for (uint32_t g = 0; g < plan->n_groups; g++)
        if (groups[g].mixed > 0)
            json_array_append_new(list, json_pack("{s:o, s:f}", "axes", json_axes(plan, g),
                                                  "received", groups[g].mixed));
    return json_pack("{s:I, s:I, s:o}", "every", (json_int_t)plan->meta->mix_every, "ways",
                     (json_int_t)plan->meta->mix_ways, "groups", list);
}

json_t *dt_traffic_json(const DtPlan *plan)
{
    DtReportTraffic *groups = calloc(plan->n_groups + plan->n_channels + 1, sizeof *groups);
    json_t *by_group = json_array(), *by_channel = json_array(), *list = json_array();
    if (!groups)
        dt_arena_exhausted((plan->n_groups + plan->n_channels + 1) * sizeof *groups);
    Rows rows = collectives_of(plan);
    dt_report_traffic(plan, groups, groups + plan->n_groups);
    for (uint32_t g = 0; g < plan->n_groups; g++)
        json_array_append_new(
            by_group,
            json_pack("{s:o, s:i, s:i, s:I, s:I, s:f}", "axes", json_axes(plan, g), "ranks",
                      (int)plan->groups[g].size, "queue", (int)plan->groups[g].queue, "runs",
                      (json_int_t)groups[g].runs, "beside", (json_int_t)groups[g].beside,
                      "received", groups[g].received));
    for (uint32_t c = 0; c < plan->n_channels; c++) {
        const DtReportTraffic *sum = &groups[plan->n_groups + c];
        json_array_append_new(by_channel,
                              json_pack("{s:I, s:I, s:f}", "runs", (json_int_t)sum->runs, "beside",
                                        (json_int_t)sum->beside, "received", sum->received));
    }
    for (uint32_t i = 0; i < rows.n; i++) {
        const DtPlanInst *inst = rows.at[i].inst;
        const DtPlanSpan *span = inst->span < plan->n_spans ? &plan->spans[inst->span] : NULL;
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:I, s:f, s:s, s:s, s:i, s:s}", "kind", dt_kinds_inst(inst->kind),
                      "axes", json_axes(plan, inst->ref), "runs", (json_int_t)rows.at[i].runs,
                      "received", rows.at[i].received, "why", reason(plan, inst), "file",
                      span ? dt_plan_str(plan, span->file) : "", "line", span ? (int)span->line : 0,
                      "path", span ? dt_plan_str(plan, span->path) : ""));
    }
    json_t *made = json_pack("{s:o, s:o, s:o}", "groups", by_group, "channels", by_channel,
                             "collectives", list);
    if (plan->meta->mix_every > 0)
        json_object_set_new(made, "replicas", json_mixed(plan, groups));
    free(groups);
    free(rows.at);
    return made;
}
