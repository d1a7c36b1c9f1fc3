/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON: one shape for all layouts, docs/report.md. */
#include "plan/report/details.h"
#include "plan/report/nodes.h"
#include "plan/report/text.h"

#include "plan/kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* version of the shape: increases when a field is removed or changes its meaning */
enum { VERSION = 3 };

static json_t *memory_of(const DtSummary *s, uint32_t stage)
{
    DtMemory m;
    json_t *json = json_object(), *beside = json_object();
    dt_memory_stage(s->plan, stage, s->is_gpu, &m);
    for (int k = 0; k < DT_ARENA_KINDS; k++)
        json_object_set_new(json, dt_memory_kinds[k], json_integer(m.arenas[k]));
    for (int k = 0; k < DT_OVERHEADS; k++)
        json_object_set_new(beside, dt_memory_overheads[k].name, json_integer(m.overheads[k]));
    json_object_set_new(json, "total", json_integer(m.allocated + m.predict));
    json_object_set_new(json, "allocated", json_integer(m.allocated));
    json_object_set_new(json, "for_predict", json_integer(m.predict));
    json_object_set_new(json, "beside", beside);
    json_object_set_new(json, "reserved", json_integer(m.reserved));
    if (s->has_time) {
        DtArena *arena = dt_arena_new();
        json_object_set_new(json, "device",
                            json_string(dt_nodes_say_stage(arena, s->plan, &s->model, stage)));
        dt_arena_free(arena);
    } else {
        json_object_set_new(json, "device", json_string(""));
    }
    return json;
}

static json_t *peak_of(const DtSummary *s)
{
    const DtPlanPeak *peak = dt_memory_peak(s->plan, s->worst.stage);
    if (!peak || peak->span >= s->plan->n_spans)
        return json_null();
    const DtPlanSpan *span = &s->plan->spans[peak->span];
    json_t *largest = json_array();
    for (size_t i = 0; i < sizeof peak->bytes / sizeof peak->bytes[0] && peak->bytes[i]; i++)
        json_array_append_new(largest, json_integer(peak->bytes[i]));
    return json_pack("{s:I, s:s, s:i, s:s, s:o}", "bytes", (json_int_t)peak->live, "file",
                     dt_plan_str(s->plan, span->file), "line", (int)span->line, "path",
                     dt_plan_str(s->plan, span->path), "largest", largest);
}

static json_t *json_memory(const DtSummary *s)
{
    json_t *stages = json_array();
    for (uint32_t i = 0; i < dt_plan_stages(s->plan); i++)
        json_array_append_new(stages, memory_of(s, i));
    return json_pack(
        "{s:o, s:i, s:o, s:o, s:I, s:o}", "device", s->have > 0 ? json_real(s->have) : json_null(),
        "worst", (int)s->worst.stage, "fits",
        s->have > 0 ? json_boolean((double)s->worst.reserved <= s->have) : json_null(), "peak",
        peak_of(s), "for_save", (json_int_t)dt_memory_copy(s->plan), "stages", stages);
}

static json_t *stage_time(const DtSummary *s, uint32_t stage)
{
    const DtStageTime *time = &s->sim.stages[stage];
    json_t *json = json_pack("{s:f}", "end", time->end), *groups = json_array();
    for (int t = 0; t < DT_TIMES; t++)
        json_object_set_new(json, dt_price_times[t].name, json_real(time->time[t]));
    for (uint32_t g = 0; g < s->plan->n_groups; g++)
        json_array_append_new(
            groups, json_pack("{s:f, s:f}", "runs", time->beside[g], "exposed", time->exposed[g]));
    json_object_set_new(json, "groups", groups);
    return json;
}

static json_t *json_time(const DtSummary *s)
{
    if (!s->has_time)
        return json_null();
    json_t *stages = json_array(), *changes = json_array();
    for (uint32_t i = 0; i < s->sim.n_stages; i++)
        json_array_append_new(stages, stage_time(s, i));
    for (uint32_t i = 0; i < s->n_changes; i++)
        json_array_append_new(changes,
                              json_pack("{s:s, s:f, s:b}", "change", s->changes[i].text, "step",
                                        s->changes[i].seconds, "bound", s->changes[i].bound));
    json_t *json =
        json_pack("{s:f, s:f, s:f, s:f, s:b, s:f, s:f, s:f}", "step", s->sim.seconds, "low",
                  s->sim.low, "high", s->sim.high, "fixed", s->sim.fixed, "extrapolated",
                  s->sim.estimated, "mfu", s->mfu, "hfu", s->hfu, "bubble", s->bubble);
    json_object_set_new(json, "tokens_per_second",
                        dt_report_has_tokens(s->plan)
                            ? json_real((double)s->plan->meta->tokens / s->sim.seconds)
                            : json_null());
    json_object_set_new(json, "samples_per_second",
                        json_real((double)s->plan->meta->batch / s->sim.seconds));
    json_object_set_new(json, "flops", json_real(s->flops));
    json_object_set_new(json, "model_flops", json_real(s->model_flops));
    json_object_set_new(json, "peak", json_real(s->peak));
    json_object_set_new(json, "dtype", json_string(dt_price_product(s->plan, s->dtype)));
    json_object_set_new(json, "busiest", json_integer(s->sim.busiest));
    json_object_set_new(json, "stages", stages);
    json_object_set_new(json, "changes", changes);
    return json;
}

/* Returns the list of nodes by kind, in the order of ranks. */
static json_t *json_nodes(const DtSummary *s)
{
    json_t *list = json_array();
    for (uint32_t k = 0; s->has_time && k < dt_cost_kinds(&s->model); k++) {
        const DtDevice *device = dt_cost_on(&s->model, k).device;
        const int64_t n = s->model.n_kinds ? s->model.kinds[k].n : s->model.nodes;
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:f}", "device", device->name,
                                              "nodes", (json_int_t)n, "ranks",
                                              (json_int_t)dt_nodes_ranks(s->plan, &s->model, k),
                                              "memory", device->memory_bytes));
    }
    return list;
}

static json_t *json_run(const DtSummary *s)
{
    if (s->tokens <= 0 || !s->has_time || dt_report_items(s->plan) <= 0)
        return json_null();
    const double steps = ceil(s->tokens / dt_report_items(s->plan)),
                 seconds = steps * s->sim.seconds;
    const double hours = seconds / 3600 * s->plan->meta->n_ranks;
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "tokens", s->tokens, "steps", steps, "seconds",
                     seconds, "device_hours", hours, "money",
                     s->price > 0 ? json_real(hours * s->price) : json_null());
}

/* Returns the list of the stack's flags that are not part of the plan's price. */
static json_t *json_left_out(const DtSummary *s)
{
    json_t *list = json_array();
    for (int i = 0; s->has_time && s->model.stack && i < DT_STACK_FLAGS; i++)
        if (s->model.stack->has[i] && !dt_stack_rows[i].in_plan)
            json_array_append_new(list, json_string(dt_stack_rows[i].name));
    return list;
}

static json_t *json_of(const DtSummary *s)
{
    const DtPlan *plan = s->plan;
    const DtPlanMeta *meta = plan->meta;
    json_t *mesh = json_object();
    for (uint32_t i = 0; i < plan->n_mesh; i++)
        json_object_set_new(mesh, dt_plan_str(plan, plan->mesh[i].name),
                            json_integer(plan->mesh[i].size));
    json_t *root =
        json_pack("{s:i, s:s, s:s, s:s, s:s}", "report", VERSION, "source",
                  dt_plan_str(plan, meta->source), "target", dt_plan_str(plan, meta->target),
                  "device", s->has_time ? s->model.device->name : "", "stack",
                  s->has_time && s->model.stack ? s->model.stack->name : "ours");
    json_t *layout =
        json_pack("{s:i, s:i, s:i, s:I, s:I, s:I, s:f, s:o}", "ranks", (int)meta->n_ranks, "stages",
                  (int)dt_plan_stages(plan), "micro_batches", (int)meta->n_micro, "batch",
                  (json_int_t)meta->batch, "tokens",
                  (json_int_t)(dt_report_has_tokens(plan) ? meta->tokens : 0), "parameters",
                  (json_int_t)meta->parameters, "flops", meta->flops, "mesh", mesh);
    json_object_update(root, layout);
    json_decref(layout);
    if (meta->ramp_by > 0)
        json_object_set_new(root, "ramp",
                            json_pack("{s:I, s:I, s:I}", "from", (json_int_t)meta->ramp_from, "by",
                                      (json_int_t)meta->ramp_by, "over",
                                      (json_int_t)meta->ramp_over));
    json_object_set_new(root, "stack_left_out", json_left_out(s));
    json_object_set_new(root, "nodes", json_nodes(s));
    json_object_set_new(root, "memory", json_memory(s));
    json_object_set_new(root, "time", json_time(s));
    json_object_set_new(root, "run", json_run(s));
    json_t *details = dt_details_json(plan);
    json_object_update(root, details);
    json_decref(details);
    return root;
}

static void print_json(json_t *root, DtText *text)
{
    char *dumped = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (dumped)
        dt_text_printf(text, "%s\n", dumped);
    free(dumped);
    json_decref(root);
}

void dt_json_report(const DtSummary *s, DtText *ret_text) { print_json(json_of(s), ret_text); }

void dt_json_compare(const char *const names[2], const DtSummary summaries[2], DtText *ret_text)
{
    json_t *plans = json_array();
    for (int i = 0; i < 2; i++) {
        json_t *plan = json_of(&summaries[i]);
        json_object_set_new(plan, "plan", json_string(names[i]));
        json_array_append_new(plans, plan);
    }
    print_json(json_pack("{s:i, s:o}", "compare", VERSION, "plans", plans), ret_text);
}
