/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one page without outside parts: page.html and page.js, with the numbers that the
 * script draws as JSON; also of two plans compared, and with the curves of runs. */
#include "plan/report/html.h"

#include "plan/kinds.h"
#include "plan/report/live.h"
#include "plan/report/nodes.h"
#include "plan/report/people.h"
#include "plan/report/tensors.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SLICES = 9000, MOST_TENSORS = 400, MOST_USE = 6000, MOST_WORK = 2000000,
       STAGE_WORK = 300000 };

extern const char dt_report_page[], dt_report_script[];

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
            json_object_set_new(
                memory, dt_memory_kinds[k],
                json_integer(m.arenas[k] - (k == DT_ARENA_ACTIVATIONS ? m.in_flight : 0)));
        json_object_set_new(memory, "micro-batches in flight", json_integer(m.in_flight));
        json_object_set_new(memory, "beside the plan", json_integer(beside));
        const double have =
            s->have > 0 ? dt_nodes_smallest(s->plan, &s->model, i)->memory_bytes : 0;
        json_array_append_new(stages, json_pack("{s:o, s:f}", "memory", memory, "device", have));
    }
    return stages;
}

/* ---- memory in use ---- */

/* Returns the curve of memory as a list [seconds, bytes, ..]: of points that fall together, the one
 * with most memory and the one with least. */
static json_t *json_points(const DtLivePoint *points, uint32_t n, uint32_t most)
{
    json_t *list = json_array();
    const uint32_t each = n <= most ? 1 : 2 * n / most + 1;
    for (uint32_t from = 0; from < n; from += each) {
        uint32_t low = from, high = from;
        for (uint32_t i = from; i < n && i < from + each; i++) {
            low = points[i].bytes < points[low].bytes ? i : low;
            high = points[i].bytes > points[high].bytes ? i : high;
        }
        for (int k = 0; k < (low == high ? 1 : 2); k++) {
            const DtLivePoint *point = &points[(k == 0) == (low < high) ? low : high];
            json_array_append_new(list, json_real(point->time));
            json_array_append_new(list, json_integer(point->bytes));
        }
    }
    return list;
}

/* Adds the memory of as many stages as the budget allows, the most informative first. */
static void add_use(const DtSummary *s, json_t *stages, uint32_t most)
{
    const uint32_t n_stages = s->sim.n_stages;
    int64_t work = MOST_WORK;
    DtArena *arena = dt_arena_new();
    for (uint32_t i = 0; i < n_stages + 3; i++) {
        const uint32_t stage = i == 0   ? s->worst.stage
                               : i == 1 ? s->sim.busiest
                               : i == 2 ? n_stages - 1
                                        : i - 3;
        json_t *json = json_array_get(stages, stage);
        DtLivePoint *points = NULL;
        if (json_object_get(json, "use"))
            continue;
        int64_t left = work < STAGE_WORK ? work : STAGE_WORK;
        work -= left;
        const uint32_t n = dt_live_of(arena, s, stage, &left, &points);
        work += left > 0 ? left : 0;
        json_object_set_new(json, "use", json_points(points, n, i < 3 ? most / 4 : 100));
        dt_arena_reset(arena);
    }
    dt_arena_free(arena);
}

/* ---- tensors ---- */

/* Returns the list of axes, each [name, elements, elements on a rank, numbers of the mesh axes that
 * split it]. */
static json_t *json_axes(const DtPlan *plan, uint32_t first, uint32_t n)
{
    json_t *axes = json_array();
    for (uint32_t a = first; a < first + n; a++) {
        const DtPlanAxis *axis = &plan->axes[a];
        json_t *split = json_array();
        for (int m = 0; m < DT_PLAN_SPLITS && axis->split[m]; m++)
            json_array_append_new(split, json_integer(axis->split[m] - 1));
        json_array_append_new(axes,
                              json_pack("[s, I, I, o]", dt_plan_str(plan, axis->name),
                                        (json_int_t)axis->extent, (json_int_t)axis->local, split));
    }
    return axes;
}

/* Returns the list of the mesh axes whose ranks share the store in a bucket. */
static json_t *json_shared(const DtPlan *plan, const DtPlanStore *store)
{
    const DtPlanPack *pack = dt_tensors_shared(plan, store);
    json_t *shared = json_array();
    for (uint32_t m = 0; pack && m < pack->n_split; m++)
        json_array_append_new(shared, json_integer(pack->split[m]));
    return shared;
}

static json_t *json_store(const DtPlan *plan, const DtPlanStore *store)
{
    return store ? json_pack("{s:o, s:o, s:s}", "axes",
                             json_axes(plan, store->first_axis, store->n_axes), "shared",
                             json_shared(plan, store), "dtype", dt_kinds_name(store->dtype))
                 : json_null();
}

static json_t *json_tensor(const DtPlan *plan, const DtTensor *t)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:[f, f, f], s:i, s:I}", "name",
                     dt_plan_str(plan, t->store->pattern), "own", json_store(plan, t->store),
                     "gradient", json_store(plan, t->gradient), "optimizer",
                     json_store(plan, t->optimizer), "bytes", t->own, t->gradients, t->kept,
                     "loops", (int)t->store->n_loops, "iterations", (json_int_t)t->iterations);
}

/* Adds the row of a tensor. Equal rows of several stages become one, whose "stages" are ranges:
 * [first, last, ..]. */
static void add_tensor(json_t *list, json_t *tensor, uint32_t stage)
{
    size_t i;
    json_t *known;
    json_array_foreach(list, i, known) {
        json_t *stages = json_incref(json_object_get(known, "stages"));
        json_object_del(known, "stages");
        const bool same = json_equal(known, tensor);
        json_object_set_new(known, "stages", stages); /* the values go back to the object that owned
                                                       * them */
        if (!same)
            continue;
        const size_t n = json_array_size(stages);
        if (json_integer_value(json_array_get(stages, n - 1)) + 1 == (json_int_t)stage) {
            json_array_set_new(stages, n - 1, json_integer((json_int_t)stage));
        } else {
            json_array_append_new(stages, json_integer((json_int_t)stage));
            json_array_append_new(stages, json_integer((json_int_t)stage));
        }
        json_decref(tensor);
        return;
    }
    json_object_set_new(tensor, "stages", json_pack("[i, i]", (int)stage, (int)stage));
    if (json_array_size(list) < MOST_TENSORS)
        json_array_append_new(list, tensor);
    else
        json_decref(tensor);
}

static json_t *json_tensors(const DtPlan *plan)
{
    json_t *list = json_array();
    for (uint32_t stage = 0; stage < dt_plan_stages(plan); stage++) {
        uint32_t n = 0;
        DtTensor *tensors = dt_tensors_of(plan, stage, &n);
        for (uint32_t i = 0; i < n; i++)
            add_tensor(list, json_tensor(plan, &tensors[i]), stage);
        free(tensors);
    }
    return list;
}

static json_t *json_input(const DtPlan *plan, const DtPlanInput *input)
{
    return json_pack("{s:s, s:s, s:o}", "name", dt_plan_str(plan, input->name), "dtype",
                     dt_kinds_name(input->dtype), "axes",
                     json_axes(plan, input->first_axis, input->n_axes));
}

static json_t *json_inputs(const DtPlan *plan)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < plan->n_inputs; i++)
        json_array_append_new(list, json_input(plan, &plan->inputs[i]));
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
            dt_text_printf(&name, "%s%s", name.len ? " " : "",
                           dt_plan_str(s->plan, s->plan->mesh[m].name));
    for (uint32_t g = group; g < s->plan->n_groups; g++)
        if (s->plan->groups[g].mask == mask) {
            received += traffic[g].received / s->plan->meta->n_ranks;
            runs += s->has_time ? s->sim.stages[s->sim.busiest].beside[g] : 0;
            exposed += s->has_time ? s->sim.stages[s->sim.busiest].exposed[g] : 0;
        }
    const int64_t nodes =
        s->has_time ? dt_price_spread(s->plan, mask, s->model.ranks_per_node).nodes : 1;
    json_t *axis =
        json_pack("{s:s, s:f, s:f, s:f, s:I}", "name", name.at ? name.at : "", "received", received,
                  "runs", runs, "exposed", exposed, "nodes", (json_int_t)nodes);
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
        bool repeated = traffic[g].runs == 0;
        for (uint32_t k = 0; k < g; k++)
            repeated = repeated || plan->groups[k].mask == plan->groups[g].mask;
        if (!repeated)
            json_array_append_new(axes, json_axis(s, g, traffic));
    }
    for (uint32_t c = 0; c < plan->n_channels; c++) {
        const DtPlanChannel *channel = &plan->channels[c];
        double sum = 0;
        bool repeated = false;
        for (uint32_t k = 0; k < plan->n_channels; k++)
            if (plan->channels[k].from == channel->from && plan->channels[k].to == channel->to) {
                repeated = repeated || k < c;
                sum += traffic[plan->n_groups + k].received;
            }
        if (!repeated && sum > 0)
            json_array_append_new(
                messages, json_pack("[i, i, f]", (int)channel->from, (int)channel->to, sum));
    }
    free(traffic);
    return json_pack("{s:o, s:o}", "axes", axes, "messages", messages);
}

/* ---- the page ---- */

/* Returns the list [[name, number], ..] in the order of DtTime, for the stage that waits least. */
static json_t *json_times(const DtSummary *s)
{
    json_t *times = json_array();
    for (int t = 0; t < DT_TIMES; t++)
        json_array_append_new(times,
                              json_pack("[s, f]", dt_price_times[t].name,
                                        s->has_time ? s->sim.stages[s->sim.busiest].time[t] : 0.0));
    return times;
}

static json_t *json_mesh(const DtPlan *plan)
{
    json_t *mesh = json_array();
    for (uint32_t m = 0; m < plan->n_mesh; m++) {
        const DtPlanMeshAxis *axis = &plan->mesh[m];
        json_array_append_new(mesh,
                              json_pack("[s, i]", dt_plan_str(plan, axis->name), (int)axis->size));
    }
    return mesh;
}

static json_t *json_time(const DtSummary *s)
{
    if (!s->has_time)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:i}", "step", s->sim.seconds,
                     "fixed", s->sim.fixed, "low", s->sim.low, "high", s->sim.high, "mfu", s->mfu,
                     "bubble", s->bubble, "rate", dt_report_items(s->plan) / s->sim.seconds, "item",
                     dt_report_item(s->plan), "busiest", (int)s->sim.busiest);
}

static json_t *json_plan(const DtSummary *s, const char *name, uint32_t most)
{
    DtText text = {0}, shown = {0};
    json_t *stages = json_stages(s);
    if (s->has_time)
        add_use(s, stages, most * MOST_USE / MOST_SLICES);
    dt_text_report(s, &text);
    dt_text_add_visible(&shown, name, strlen(name));
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:i, s:o, s:i, s:f, s:i, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "name", shown.at ? shown.at : "", "model", dt_plan_str(s->plan, s->plan->meta->model),
        "text", text.at ? text.at : "", "ranks", (int)s->plan->meta->n_ranks, "mesh",
        json_mesh(s->plan), "pipe", (int)s->plan->meta->pipeline - 1, "device", s->have, "worst",
        (int)s->worst.stage, "reserved", (double)s->worst.reserved, "time", json_time(s), "times",
        json_times(s), "stages", stages, "slices",
        s->has_time ? dt_html_slices(s, most) : json_null(), "tensors", json_tensors(s->plan),
        "inputs", json_inputs(s->plan), "traffic", json_traffic(s), "lines", dt_html_lines(s));
    dt_text_free(&text);
    dt_text_free(&shown);
    return json;
}

static void add_row(void *context, const char *name, const char *a, const char *b,
                    const char *change)
{
    json_array_append_new(context, json_pack("[s, s, s, s]", name, a, b, change));
}

/* Appends JSON that cannot end the script which contains it: "<" occurs in strings only, and is
 * escaped. Six digits are more than a screen can show. */
static void add_data(json_t *root, DtText *text)
{
    char *json = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(7));
    for (const char *at = json ? json : "null"; *at;) {
        const size_t n = strcspn(at, "<");
        dt_text_add_n(text, at, n);
        dt_text_add(text, at[n] ? "\\u003c" : "");
        at += n + (at[n] != '\0');
    }
    free(json);
}

/* Appends the page with its script and its data. */
static void put_page(json_t *root, DtText *text)
{
    static const char *const marks[] = {"DATA_OF_THE_REPORT", "SCRIPT_OF_THE_REPORT"};
    DtText data = {0};
    add_data(root, &data);
    const char *const parts[] = {data.at, dt_report_script}, *at = dt_report_page;
    for (int i = 0; i < 2; i++) {
        const char *mark = strstr(at, marks[i]);
        dt_text_add_n(text, at, (size_t)(mark - at));
        dt_text_add(text, parts[i]);
        at = mark + strlen(marks[i]);
    }
    dt_text_add(text, at);
    dt_text_free(&data);
}

DtStatus dt_html_report(const DtHtml *page, DtText *ret_text)
{
    json_t *plans = json_array(), *rows = json_array(), *logs = json_array();
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < page->n_logs && dt_status_ok(&status); i++) {
        json_t *log = NULL;
        status = dt_html_log(page->logs[i], &log);
        json_array_append_new(logs, log ? log : json_null());
    }
    for (uint32_t i = 0; i < page->n_plans; i++)
        json_array_append_new(plans,
                              json_plan(&page->plans[i], page->n_plans > 1 ? page->names[i] : "",
                                        MOST_SLICES / page->n_plans));
    if (page->n_plans == 2)
        dt_compare_rows(page->plans, add_row, rows);
    json_t *root = json_pack("{s:o, s:o, s:o, s:s}", "plans", plans, "rows", rows, "logs", logs,
                             "warning", page->n_plans == 2 ? dt_compare_warning(page->plans) : "");
    if (dt_status_ok(&status))
        put_page(root, ret_text);
    json_decref(root);
    return status;
}
