/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the times of a trace with prices. Medians are used, so that runs delayed by other
 * work on the machine do not count. The waiting of a collective or message for other ranks is in
 * its time, and not in its price. */
#include "plan/report/measured.h"

#include "plan/kinds.h"
#include "plan/report/people.h"
#include "plan/report/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 };

typedef DT_VEC(double) Times;

/* Consecutive trace entries of one step, on one process. */
typedef struct Step {
    json_int_t process, number;
    double begin, end, seconds; /* seconds: time of its entries */
    bool kept;                  /* the trace also has its instructions */
} Step;

/* The range of time in which instructions of a process begin, as far as they are in the trace. */
typedef struct Process {
    json_int_t number;
    double begin, end;
} Process;

typedef struct Reader {
    DtArena *arena;
    const DtPlan *plan;
    const json_t *events;
    DT_VEC(Step) steps;
    DT_VEC(Process) processes;
    Times *insts;   /* times by instruction */
    bool other;     /* the trace has an instruction that the plan lacks */
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

/* ---- events ---- */

typedef struct Event {
    const char *name;
    json_int_t process, inst; /* inst -1: the slice is an entry */
    double begin, seconds;
} Event;

/* Reads one event of a trace; false: it is no slice of time. */
static bool read_event(const Reader *r, size_t at, Event *ret)
{
    const json_t *event = json_array_get(r->events, at);
    const json_t *inst = json_object_get(json_object_get(event, "args"), "inst");
    ret->name = json_string_value(json_object_get(event, "name"));
    ret->process = json_integer_value(json_object_get(event, "pid"));
    ret->inst = json_is_integer(inst) ? json_integer_value(inst) : -1;
    ret->begin = json_number_value(json_object_get(event, "ts")) * 1e-6;
    ret->seconds = json_number_value(json_object_get(event, "dur")) * 1e-6;
    const char *category = json_string_value(json_object_get(event, "cat"));
    /* it is shown next to the measured time */
    if (category && strncmp(category, "predicted", 9) == 0)
        return false;
    return ret->name && json_is_number(json_object_get(event, "dur")) && ret->seconds >= 0 &&
           isfinite(ret->seconds) && isfinite(ret->begin);
}

/* Reads a name such as "step 3", "update 3", or "step@near 3" for one of several losses. */
static bool is_entry(const char *name, json_int_t *ret_number)
{
    const size_t n = !strncmp(name, "step", 4) ? 4 : !strncmp(name, "update", 6) ? 6 : 0;
    const char *blank = strrchr(name, ' ');
    if (!n || !blank || (name[n] != ' ' && name[n] != '@'))
        return false;
    *ret_number = atoll(blank + 1);
    return true;
}

static void add_entry(Reader *r, const Event *e, json_int_t number)
{
    uint32_t i = r->steps.n;
    while (i > 0 &&
           (r->steps.at[i - 1].process != e->process || r->steps.at[i - 1].number != number))
        i--;
    if (i == 0) {
        DT_PUSH(r->arena, r->steps, ((Step){e->process, number, e->begin, e->begin + e->seconds,
                                            e->seconds, false}));
        return;
    }
    Step *step = &r->steps.at[i - 1];
    step->begin = fmin(step->begin, e->begin);
    step->end = fmax(step->end, e->begin + e->seconds);
    step->seconds += e->seconds;
}

static void add_process(Reader *r, const Event *e)
{
    uint32_t i = 0;
    while (i < r->processes.n && r->processes.at[i].number != e->process)
        i++;
    if (i == r->processes.n)
        DT_PUSH(r->arena, r->processes, ((Process){e->process, e->begin, e->begin + e->seconds}));
    r->processes.at[i].begin = fmin(r->processes.at[i].begin, e->begin);
    r->processes.at[i].end = fmax(r->processes.at[i].end, e->begin + e->seconds);
}

/* dtrun keeps so many instructions and so many entries: only steps with all of both count. The
 * first instruction begins shortly after its step; the first step of the trace is complete
 * unless earlier slices were dropped. */
static void keep_steps(Reader *r)
{
    for (uint32_t i = 0; i < r->steps.n; i++)
        for (uint32_t k = 0; k < r->processes.n; k++) {
            Step *step = &r->steps.at[i];
            const Process *p = &r->processes.at[k];
            if (p->number == step->process)
                step->kept = (step->begin >= p->begin || step->number == 0) &&
                             step->end > p->begin && step->begin < p->end;
        }
}

static int by_begin(const void *a, const void *b)
{
    const Step *x = a, *y = b;
    return x->process != y->process ? (x->process < y->process ? -1 : 1)
           : x->begin < y->begin    ? -1
                                    : x->begin > y->begin;
}

/* Returns the step, of the event's process, in which the event begins; NULL: the trace lacks it, or
 * it is not used. */
static const Step *step_of(const Reader *r, const Event *e)
{
    uint32_t lo = 0, hi = r->steps.n;
    while (lo < hi) {
        const uint32_t at = (lo + hi) / 2;
        const Step *s = &r->steps.at[at];
        if (s->process < e->process || (s->process == e->process && s->begin <= e->begin))
            lo = at + 1;
        else
            hi = at;
    }
    const Step *s = lo > 0 ? &r->steps.at[lo - 1] : NULL;
    return s && s->kept && s->process == e->process && e->begin <= s->end ? s : NULL;
}

static void read_events(Reader *r)
{
    Event e;
    json_int_t number;
    for (size_t i = 0; i < json_array_size(r->events); i++)
        if (read_event(r, i, &e)) {
            if (e.inst >= 0)
                add_process(r, &e);
            else if (is_entry(e.name, &number))
                add_entry(r, &e, number);
        }
    keep_steps(r);
    if (r->steps.n)
        qsort(r->steps.at, r->steps.n, sizeof *r->steps.at, by_begin);
    for (size_t i = 0; i < json_array_size(r->events); i++) {
        if (!read_event(r, i, &e) || e.inst < 0)
            continue;
        r->other = r->other || e.inst >= r->plan->n_insts;
        if (e.inst < r->plan->n_insts && step_of(r, &e))
            DT_PUSH(r->arena, r->insts[e.inst], e.seconds);
    }
}

DtStatus dt_measured_read(DtArena *arena, const char *path, const DtPlan *plan,
                          DtMeasured *ret_measured)
{
    json_error_t error;
    json_t *trace = json_load_file(path, 0, &error);
    Reader r = {.arena = arena, .plan = plan,
                .insts = DT_NEW_ARRAY(arena, Times, plan->n_insts + 1),
                .events = json_is_array(trace) ? trace : json_object_get(trace, "traceEvents")};
    DtMeasured *m = ret_measured;
    Times all = {0}, later = {0};
    *m = (DtMeasured){.insts = DT_NEW_ARRAY(arena, DtMeasuredInst, plan->n_insts + 1)};
    if (!trace)
        return dt_status_fail(DT_EXIT_IO, "cannot read the trace %.200s: %.200s", path, error.text);
    read_events(&r);
    json_decref(trace);
    for (uint32_t i = 0; i < r.steps.n; i++) {
        const Step *step = &r.steps.at[i];
        if (!step->kept)
            continue;
        DT_PUSH(arena, all, step->seconds);
        if (step->number > 0)
            DT_PUSH(arena, later, step->seconds);
    }
    if (!all.n || r.other)
        return dt_status_fail(
            DT_EXIT_IO,
            "%.200s is not a trace of this plan's steps: dtrun PLAN --trace FILE makes one", path);
    m->n_ranks = r.processes.n;
    m->n_steps = all.n / r.processes.n;
    m->step = later.n ? median(&later) : median(&all);
    for (uint32_t i = 0; i < plan->n_insts; i++)
        m->insts[i] = (DtMeasuredInst){.runs = (double)r.insts[i].n / (double)all.n,
                                       .seconds = median(&r.insts[i])};
    return (DtStatus){.code = DT_EXIT_OK};
}

/* ---- report ---- */

typedef struct Off {
    uint32_t inst;
    double measured, predicted; /* the median step */
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
    dt_text_printf(text, "  %-22s %10s %10s", name, dt_people_seconds(a, measured),
                   dt_people_seconds(b, predicted));
    if (measured > 0 && predicted > 0)
        dt_text_printf(text, " %+8.1f %%", 100 * (predicted / measured - 1));
    dt_text_add(text, "\n");
}

/* Prints the time outside of instructions: host work between them, and other waiting. Instructions
 * that overlap may take more than the step; then there is no rest. */
static void print_rest(DtText *text, double measured, double predicted, double by_time[DT_TIMES][2])
{
    double rest[2] = {measured, predicted};
    for (int k = 0; k < DT_TIMES; k++)
        for (int i = 0; i < 2; i++)
            rest[i] -= by_time[k][i];
    for (int i = 0; i < 2; i++)
        rest[i] = rest[i] > 0 ? rest[i] : 0;
    if (rest[0] > 1e-3 * measured || rest[1] > 1e-3 * predicted)
        print_row(text, "not in instructions", rest[0], rest[1]);
}

static const char *name_of(const DtPlan *plan, const DtPlanInst *inst)
{
    return inst->kind == DT_INST_KERNEL ? dt_plan_str(plan, plan->kernels[inst->ref].name)
                                        : dt_kinds_inst(inst->kind);
}

void dt_measured_report(DtArena *arena, const DtSummary *summary, const DtMeasured *measured,
                        DtText *ret_text)
{
    const DtPlan *plan = summary->plan;
    Off *off = DT_NEW_ARRAY(arena, Off, plan->n_insts + 1);
    double by_time[DT_TIMES][2] = {{0}};
    uint32_t n = 0;
    dt_text_printf(ret_text, "measured: %u step%s of %u rank%s, times of a step on one rank\n",
                   measured->n_steps, measured->n_steps == 1 ? "" : "s", measured->n_ranks,
                   measured->n_ranks == 1 ? "" : "s");
    dt_text_printf(ret_text, "  %-22s %10s %10s %10s\n", "", "measured", "predicted", "off by");
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtMeasuredInst *m = &measured->insts[i];
        const uint8_t time = summary->prices[0][i].time;
        if (m->runs == 0)
            continue;
        off[n] = (Off){i, m->runs * m->seconds, m->runs * summary->seconds[i]};
        by_time[time][0] += off[n].measured;
        by_time[time][1] += off[n++].predicted;
    }
    for (int k = 0; k < DT_TIMES; k++)
        if (by_time[k][0] > 0)
            print_row(ret_text, dt_price_times[k].name, by_time[k][0], by_time[k][1]);
    print_rest(ret_text, measured->step, summary->sim.seconds, by_time);
    print_row(ret_text, "step", measured->step, summary->sim.seconds);
    qsort(off, n, sizeof *off, by_off);
    dt_text_printf(ret_text, "farthest off\n");
    for (uint32_t i = 0; i < n && i < SHOWN; i++) {
        char a[32], b[32];
        dt_text_printf(ret_text, "  %10s %10s  %-24.24s", dt_people_seconds(a, off[i].measured),
                       dt_people_seconds(b, off[i].predicted),
                       name_of(plan, &plan->insts[off[i].inst]));
        dt_report_place(plan, plan->insts[off[i].inst].span, ret_text);
    }
}
