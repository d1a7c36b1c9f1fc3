/* SPDX-License-Identifier: Apache-2.0 */
/* Times of a trace beside prices. Medians: a run that something else on the machine held up is not what the instruction
 * takes. What a collective or a message waits for others is in its time, and not in its price. */
#include "plan/report/measured.h"

#include "plan/kinds.h"
#include "plan/report/people.h"
#include "plan/report/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8, MOST_RANKS = 4096 };

typedef DT_VEC(double) Times;

typedef struct Reader {
    DtArena *arena;
    const DtPlan *plan;
    Times *insts;   /* by instruction */
    Times steps;    /* of all ranks; those of step 0 in first */
    Times first;
    json_int_t ranks[MOST_RANKS]; uint32_t n_ranks; /* processes of the trace that had a step */
    bool other;     /* an instruction that the plan has not */
} Reader;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(Times *times)
{
    if (!times->n)
        return 0;
    qsort(times->at, times->n, sizeof *times->at, by_value);
    return times->at[times->n / 2];
}

static void add_rank(Reader *r, json_int_t process)
{
    for (uint32_t i = 0; i < r->n_ranks; i++)
        if (r->ranks[i] == process)
            return;
    if (r->n_ranks < MOST_RANKS)
        r->ranks[r->n_ranks++] = process;
}

/* An entry's event is named "step 3"; its update is a part of the step for this. */
static void read_event(Reader *r, const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *inst = json_object_get(json_object_get(event, "args"), "inst");
    const double seconds = json_number_value(json_object_get(event, "dur")) * 1e-6;
    if (!name || !(seconds >= 0) || !isfinite(seconds))
        return;
    if (json_is_integer(inst)) {
        const json_int_t at = json_integer_value(inst);
        r->other = r->other || at < 0 || at >= r->plan->n_insts;
        if (at >= 0 && at < r->plan->n_insts)
            DT_PUSH(r->arena, r->insts[at], seconds);
    } else if (!strncmp(name, "step ", 5)) {
        add_rank(r, json_integer_value(json_object_get(event, "pid")));
        if (strcmp(name, "step 0"))
            DT_PUSH(r->arena, r->steps, seconds);
        else
            DT_PUSH(r->arena, r->first, seconds);
    }
}

DtStatus dt_measured_read(DtArena *arena, const char *path, const DtPlan *plan, DtMeasured *ret_measured)
{
    json_error_t error;
    json_t *trace = json_load_file(path, 0, &error);
    const json_t *events = json_is_array(trace) ? trace : json_object_get(trace, "traceEvents");
    Reader r = {.arena = arena, .plan = plan, .insts = DT_NEW_ARRAY(arena, Times, plan->n_insts + 1)};
    if (!trace)
        return dt_status_fail(DT_EXIT_IO, "cannot read the trace %.200s: %.200s", path, error.text);
    for (size_t i = 0; i < json_array_size(events); i++)
        read_event(&r, json_array_get(events, i));
    json_decref(trace);
    const uint32_t n = r.steps.n + r.first.n;
    if (!n || r.other)
        return dt_status_fail(DT_EXIT_IO,
                              "%.200s is not a trace of this plan's steps: dtrun PLAN --trace FILE makes one", path);
    DtMeasured *m = ret_measured;
    *m = (DtMeasured){.n_ranks = r.n_ranks, .n_steps = n / r.n_ranks,
                      .insts = DT_NEW_ARRAY(arena, DtMeasuredInst, plan->n_insts + 1)};
    m->step = r.steps.n ? median(&r.steps) : median(&r.first);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        m->insts[i] = (DtMeasuredInst){.seconds = median(&r.insts[i]), .runs = (double)r.insts[i].n / (double)n};
    return (DtStatus){.code = DT_EXIT_OK};
}

/* ---- report ---- */

typedef struct Off {
    uint32_t inst;
    double measured, predicted; /* of a step */
} Off;

static int by_off(const void *a, const void *b)
{
    const Off *x = a, *y = b;
    const double s = fabs(x->measured - x->predicted), t = fabs(y->measured - y->predicted);
    return s > t ? -1 : s < t;
}

static void print_row(DtText *text, const char *name, double measured, double predicted)
{
    char a[32], b[32];
    dt_text_printf(text, "  %-22s %10s %10s", name, dt_people_seconds(a, measured), dt_people_seconds(b, predicted));
    if (measured > 0 && predicted > 0)
        dt_text_printf(text, " %+8.1f %%", 100 * (predicted / measured - 1));
    dt_text_add(text, "\n");
}

static const char *name_of(const DtPlan *plan, const DtPlanInst *inst)
{
    return inst->kind == DT_INST_KERNEL ? dt_plan_str(plan, plan->kernels[inst->ref].name) : dt_kinds_inst(inst->kind);
}

void dt_measured_report(DtArena *arena, const DtSummary *summary, const DtMeasured *measured, DtText *ret_text)
{
    const DtPlan *plan = summary->plan;
    Off *off = DT_NEW_ARRAY(arena, Off, plan->n_insts + 1);
    double by_time[DT_TIMES][2] = {{0}};
    uint32_t n = 0;
    dt_text_printf(ret_text, "measured: %u step%s of %u rank%s, times of a step on one rank\n", measured->n_steps,
                   measured->n_steps == 1 ? "" : "s", measured->n_ranks, measured->n_ranks == 1 ? "" : "s");
    dt_text_printf(ret_text, "  %-22s %10s %10s %10s\n", "", "measured", "predicted", "off by");
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtMeasuredInst *m = &measured->insts[i];
        const DtPrice *price = &summary->prices[i];
        if (m->runs == 0)
            continue;
        off[n] = (Off){i, m->runs * m->seconds, m->runs * price->seconds};
        by_time[price->time][0] += off[n].measured;
        by_time[price->time][1] += off[n++].predicted;
    }
    for (int k = 0; k < DT_TIMES; k++)
        if (by_time[k][0] > 0)
            print_row(ret_text, dt_price_times[k].name, by_time[k][0], by_time[k][1]);
    print_row(ret_text, "step", measured->step, summary->sim.seconds);
    qsort(off, n, sizeof *off, by_off);
    dt_text_printf(ret_text, "farthest off\n");
    for (uint32_t i = 0; i < n && i < SHOWN; i++) {
        char a[32], b[32];
        dt_text_printf(ret_text, "  %10s %10s  %-24.24s", dt_people_seconds(a, off[i].measured),
                       dt_people_seconds(b, off[i].predicted), name_of(plan, &plan->insts[off[i].inst]));
        dt_report_place(plan, plan->insts[off[i].inst].span, ret_text);
    }
}
