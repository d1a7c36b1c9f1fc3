/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two plans: the numbers of their reports, and the relative differences. */
#include "plan/report/text.h"

#include "plan/report/people.h"

#include <math.h>
#include <string.h>

typedef const char *People(char buf[32], double value);

static const char *percent(char buf[32], double value) { return dt_people_share(buf, value, 1); }

typedef struct Rows { DtCompareRow *row; void *context; } Rows;

static void add(const Rows *rows, const char *name, People *people, double a, double b)
{
    char x[32], y[32], change[32] = "";
    if (a > 0 && b / a >= 9.995)
        snprintf(change, sizeof change, "x %.3g", b / a);
    else if (a > 0 && fabs(b / a - 1) >= 5e-4)
        snprintf(change, sizeof change, "%+.1f %%", 100 * (b / a - 1));
    rows->row(rows->context, name, people(x, a), people(y, b), change);
}

/* Returns the name of the plan's model, or its file's if the program predicts nothing and so names
 * no model. */
static const char *model_of(const DtPlan *plan)
{
    const char *model = dt_plan_str(plan, plan->meta->model);
    return *model ? model : dt_plan_str(plan, plan->meta->source);
}

static void add_layout(DtText *text, const DtSummary *s, const char *name)
{
    const DtPlanMeta *meta = s->plan->meta;
    char parameters[32], items[32];
    dt_text_printf(text, "%s: %s of %s parameters, %s %s a step; ", name, model_of(s->plan),
                   dt_people_count(parameters, (double)meta->parameters),
                   dt_people_count(items, dt_report_items(s->plan)), dt_report_item(s->plan));
    if (s->has_time)
        dt_text_add(text, s->devices);
    else
        dt_text_printf(text, "%u %s", meta->n_ranks, dt_plan_str(s->plan, meta->target));
    for (uint32_t m = 0; m < s->plan->n_mesh; m++)
        dt_text_printf(text, "%s%s %u", m ? ", " : ": ",
                       dt_plan_str(s->plan, s->plan->mesh[m].name), s->plan->mesh[m].size);
    dt_text_printf(text, "; %u micro-batch%s\n", meta->n_micro, meta->n_micro == 1 ? "" : "es");
}

const char *dt_compare_warning(const DtSummary summaries[2])
{
    const DtPlan *a = summaries[0].plan, *b = summaries[1].plan;
    const bool named = a->meta->model && b->meta->model;
    if (a->meta->parameters != b->meta->parameters || (named && strcmp(model_of(a), model_of(b))))
        return "These are different models: only MFU, HFU and bubble compare.";
    if (dt_report_items(a) != dt_report_items(b))
        return "Their steps are of different sizes: compare what is a second, not what is a step.";
    return "";
}

/* Compares tokens per second, or samples per second if one of the plans has no tokens; with
 * --tokens also the time of a run. */
static void add_speed(const Rows *rows, const DtSummary *a, const DtSummary *b)
{
    const DtSummary *both[2] = {a, b};
    const bool tokens = dt_report_has_tokens(a->plan) && dt_report_has_tokens(b->plan);
    double rate[2], seconds[2], hours[2];
    for (int i = 0; i < 2; i++) {
        const DtPlanMeta *meta = both[i]->plan->meta;
        rate[i] = (double)(tokens ? meta->tokens : meta->batch) / both[i]->sim.seconds;
        seconds[i] = ceil(both[i]->tokens / dt_report_items(both[i]->plan)) * both[i]->sim.seconds;
        hours[i] = seconds[i] / 3600 * meta->n_ranks;
    }
    add(rows, tokens ? "tokens/s" : "samples/s", dt_people_count, rate[0], rate[1]);
    add(rows, tokens ? "tokens/s a device" : "samples/s a device", dt_people_count,
        rate[0] / a->plan->meta->n_ranks, rate[1] / b->plan->meta->n_ranks);
    if (a->tokens <= 0)
        return;
    add(rows, "run", dt_people_seconds, seconds[0], seconds[1]);
    add(rows, "device-hours", dt_people_count, hours[0], hours[1]);
    if (a->price > 0)
        add(rows, "money", dt_people_count, hours[0] * a->price, hours[1] * b->price);
}

/* Returns how many bytes a rank receives in a step by collectives and messages, the mean over
 * ranks. */
static double received(const DtSummary *s)
{
    DtArena *arena = dt_arena_new();
    DtReportTraffic *traffic =
        DT_NEW_ARRAY(arena, DtReportTraffic, s->plan->n_groups + s->plan->n_channels + 1);
    double bytes = 0;
    dt_report_traffic(s->plan, traffic, traffic + s->plan->n_groups);
    for (uint32_t i = 0; i < s->plan->n_groups + s->plan->n_channels; i++)
        bytes += traffic[i].received / s->plan->meta->n_ranks;
    dt_arena_free(arena);
    return bytes;
}

void dt_compare_rows(const DtSummary summaries[2], DtCompareRow *row, void *context)
{
    const DtSummary *a = &summaries[0], *b = &summaries[1];
    const Rows all = {row, context}, *rows = &all;
    if (a->has_time && b->has_time) {
        add(rows, "step", dt_people_seconds, a->sim.seconds, b->sim.seconds);
        add_speed(rows, a, b);
        add(rows, "MFU", percent, a->mfu, b->mfu);
        add(rows, "HFU", percent, a->hfu, b->hfu);
        add(rows, "mean bubble", percent, a->bubble, b->bubble);
        for (int t = 0; t < DT_TIMES; t++) {
            const double x = a->sim.stages[a->sim.busiest].time[t],
                         y = b->sim.stages[b->sim.busiest].time[t];
            if (x > 0 || y > 0)
                add(rows, dt_price_times[t].name, dt_people_seconds, x, y);
        }
    }
    add(rows, "memory of a rank", dt_people_bytes, (double)a->worst.reserved,
        (double)b->worst.reserved);
    for (int k = 0; k < DT_ARENA_KINDS; k++)
        if (a->worst.arenas[k] || b->worst.arenas[k])
            add(rows, dt_memory_kinds[k], dt_people_bytes, (double)a->worst.arenas[k],
                (double)b->worst.arenas[k]);
    add(rows, "received by a rank", dt_people_bytes, received(a), received(b));
    add(rows, "operations of a step", dt_people_flops,
        a->flops > 0 ? a->flops : a->plan->meta->flops,
        b->flops > 0 ? b->flops : b->plan->meta->flops);
}

static void print_row(void *context, const char *name, const char *a, const char *b,
                      const char *change)
{
    dt_text_printf(context, "  %-24s %14s %14s %10s\n", name, a, b, change);
}

void dt_compare_report(const char *const names[2], const DtSummary summaries[2], DtText *text)
{
    for (int i = 0; i < 2; i++)
        add_layout(text, &summaries[i], names[i]);
    if (*dt_compare_warning(summaries))
        dt_text_printf(text, "%s\n", dt_compare_warning(summaries));
    dt_text_add(text, "\n");
    if (!summaries[0].has_time || !summaries[1].has_time)
        dt_text_add(text, "  no times: a plan says no device (its cluster is of processors)\n");
    dt_compare_rows(summaries, print_row, text);
}
