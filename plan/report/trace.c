/* SPDX-License-Identifier: Apache-2.0 */
/* The step as trace events, which Perfetto and chrome://tracing show: a process for each stage. A
 * process has a track of pieces (forward, backward, gradients of parameters of a micro-batch), one
 * of instructions that compute, one for each queue of collectives, and one for each stage to which
 * it sends messages. Arrows lead from where a message was sent to where it was received. Times are
 * in microseconds, except for the price of an instruction (`predicted`): it is in seconds, and
 * contains neither waiting nor the delay by other operations that run at the same time.
 *
 * Perfetto regards the number of a track as a thread id of the whole machine. It expects that the
 * first thread of a process has the number of the process, and that 0 is the kernel's thread. So
 * all numbers here differ, and none is 0. */
#include "plan/report/trace.h"

#include "plan/kinds.h"
#include "plan/report/nodes.h"
#include "plan/report/text.h"

#include <math.h>
#include <string.h>

/* ---- words ---- */

void dt_trace_string(DtText *text, const char *string)
{
    dt_text_add(text, "\"");
    for (; *string; string++) {
        if (*string == '"' || *string == '\\')
            dt_text_printf(text, "\\%c", *string);
        else if ((unsigned char)*string < 0x20)
            dt_text_printf(text, "\\u%04x", *string);
        else
            dt_text_add_n(text, string, 1);
    }
    dt_text_add(text, "\"");
}

void dt_trace_name(const DtPlan *plan, const DtPlanInst *inst, char name[DT_INST_NAME])
{
    if (inst->kind == DT_INST_KERNEL)
        snprintf(name, DT_INST_NAME, "%.250s", dt_plan_str(plan, plan->kernels[inst->ref].name));
    else if (inst->kind == DT_INST_GEMM) {
        const DtPlanGemm *g = &plan->gemms[inst->ref];
        int64_t batch = 1;
        for (uint32_t b = 0; b < g->n_batch; b++)
            batch *= g->batch[b];
        snprintf(name, DT_INST_NAME,
                 batch > 1 ? "gemm %lldx%lldx%lld x%lld" : "gemm %lldx%lldx%lld", (long long)g->m,
                 (long long)g->n, (long long)g->k, (long long)batch);
    } else
        snprintf(name, DT_INST_NAME, "%s", dt_kinds_inst(inst->kind));
}

void dt_trace_price(const DtPrice *price, DtText *text)
{
    if (!(price->seconds > 0) || !isfinite(price->seconds))
        return;
    dt_text_add(text, ",\"predicted\":");
    dt_text_double(text, price->seconds);
}

static void begin(DtText *text)
{
    dt_text_add(text, text->at[text->len - 1] == '[' ? "\n" : ",\n");
}

/* ---- tracks ---- */

uint32_t dt_trace_queues(const DtPlan *plan)
{
    uint32_t queues = 1;
    for (uint32_t g = 0; g < plan->n_groups; g++)
        queues = plan->groups[g].queue + 1 > queues ? plan->groups[g].queue + 1 : queues;
    return queues;
}

/* Returns the number of tracks of a stage: one of pieces, then its queues, then one per destination
 * of messages. */
uint32_t dt_trace_tracks(const DtPlan *plan)
{
    return 1 + dt_trace_queues(plan) + dt_plan_stages(plan);
}

static uint32_t track_of(const DtTraceStage *stage, const DtSlice *slice)
{
    const DtPlan *plan = stage->plan;
    if (slice->kind == DT_SLICE_PIECE)
        return 0;
    const DtPlanInst *inst = &plan->insts[slice->what];
    return inst->kind == DT_INST_SEND ? 1 + dt_trace_queues(plan) + plan->channels[inst->ref].to
                                      : 1 + slice->queue;
}

void dt_trace_queue(const DtPlan *plan, uint32_t queue, char ret_name[DT_TRACE_QUEUE])
{
    snprintf(ret_name, DT_TRACE_QUEUE, queue ? "collectives over" : "compute");
    for (uint32_t g = 0; queue && g < plan->n_groups; g++) {
        if (plan->groups[g].queue != queue)
            continue;
        for (uint32_t m = 0; m < plan->n_mesh; m++)
            if (plan->groups[g].mask >> m & 1) {
                const size_t len = strlen(ret_name);
                snprintf(ret_name + len, DT_TRACE_QUEUE - len, " %s",
                         dt_plan_str(plan, plan->mesh[m].name));
            }
        return;
    }
}

static bool sends_to(const DtTraceStage *stage, uint32_t to)
{
    for (uint32_t c = 0; c < stage->plan->n_channels; c++)
        if (stage->plan->channels[c].from == stage->stage && stage->plan->channels[c].to == to)
            return true;
    return false;
}

static void name_track(const DtTraceStage *stage, uint32_t track, const char *name, DtText *text)
{
    begin(text);
    dt_text_printf(
        text, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":",
        stage->process, stage->track + track);
    char whole[200];
    snprintf(whole, sizeof whole, "%s%s", stage->prefix, name);
    dt_trace_string(text, whole);
    dt_text_printf(
        text,
        "}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%u,\"tid\":%u,\"args\":"
        "{\"sort_index\":%u}}",
        stage->process, stage->track + track, stage->order + track);
}

static void name_tracks(const DtTraceStage *stage, DtText *text)
{
    const uint32_t queues = dt_trace_queues(stage->plan);
    char name[DT_TRACE_QUEUE];
    name_track(stage, 0, "micro-batches", text);
    for (uint32_t q = 0; q < queues; q++) {
        dt_trace_queue(stage->plan, q, name);
        name_track(stage, 1 + q, name, text);
    }
    for (uint32_t to = 0; to < dt_plan_stages(stage->plan); to++) {
        snprintf(name, sizeof name, "messages to stage %u", to);
        if (sends_to(stage, to))
            name_track(stage, 1 + queues + to, name, text);
    }
}

/* ---- slices ---- */

/* Bytes that the instruction receives from other ranks, or sends to them. */
static double bytes_of(const DtPlan *plan, const DtPlanInst *inst)
{
    return inst->kind == DT_INST_SEND ? (double)plan->channels[inst->ref].bytes
                                      : dt_report_received(plan, inst);
}

/* The instruction's name, kind, predicted time, bytes and line. */
static void add_inst(const DtTraceStage *stage, const DtSlice *slice, DtText *text)
{
    const DtPlan *plan = stage->plan;
    const DtPlanInst *inst = &plan->insts[slice->what];
    char name[DT_INST_NAME];
    dt_trace_name(plan, inst, name);
    dt_trace_string(text, name);
    dt_text_printf(text, ",\"cat\":\"predicted,%s\",\"args\":{\"micro\":%d,\"of\":%u",
                   dt_kinds_inst(inst->kind), slice->micro, slice->what);
    dt_trace_price(&stage->prices[slice->what], text);
    if (bytes_of(plan, inst) > 0)
        dt_text_printf(text, ",\"bytes\":%.0f", bytes_of(plan, inst));
    if (inst->span < plan->n_spans && plan->spans[inst->span].line) {
        dt_text_add(text, ",\"line\":");
        char line[200];
        snprintf(line, sizeof line, "%.100s:%u %.80s",
                 dt_plan_str(plan, plan->spans[inst->span].file), plan->spans[inst->span].line,
                 dt_plan_str(plan, plan->spans[inst->span].path));
        dt_trace_string(text, line);
    }
    dt_text_add(text, "}");
}

/* The time `at`, in seconds of the trace's clock, in whole nanoseconds; monotonic. */
static long long nanoseconds(double at) { return (long long)floor(at * 1e9 + 0.5); }

/* The slice's `ts` and `dur` in microseconds. Both ends are rounded to whole nanoseconds, and
 * only then subtracted: a duration that is rounded by itself can reach beyond the begin of the
 * next slice, and Perfetto drops a slice that overlaps another one of its track. Perfetto
 * multiplies both numbers by 1000 and cuts off the fraction, which may be one nanosecond less
 * than was written; so a slice ends one nanosecond before the next one can begin. */
static void add_times(const DtTraceStage *stage, const DtSlice *slice, DtText *text)
{
    const long long from = nanoseconds(stage->begin + slice->begin);
    const long long to = nanoseconds(stage->begin + slice->end);
    const long long lasts = to > from ? to - from - 1 : 0;
    dt_text_printf(text, "\"ts\":%lld.%03lld,\"dur\":%lld.%03lld", from / 1000, from % 1000,
                   lasts / 1000, lasts % 1000);
}

/* the plan's record of its device may give times that are no numbers */
/* so that nanoseconds fit in 64 bits */
static bool is_clock(double at) { return at >= 0 && at <= 1e9; }
static bool is_time(const DtSlice *slice) { return is_clock(slice->begin) && is_clock(slice->end); }

static void add_slice(const DtTraceStage *stage, const DtSlice *slice, DtText *text)
{
    begin(text);
    dt_text_printf(text, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,", stage->process,
                   stage->track + track_of(stage, slice));
    add_times(stage, slice, text);
    dt_text_add(text, ",\"name\":");
    if (slice->kind == DT_SLICE_INST) {
        add_inst(stage, slice, text);
    } else {
        char name[96];
        const DtPlan *plan = stage->plan;
        snprintf(name, sizeof name, "%.60s %d",
                 slice->what == UINT32_MAX ? "micro-batch"
                                           : dt_plan_str(plan, plan->entries[slice->what].name),
                 slice->micro);
        dt_trace_string(text, name);
        dt_text_printf(text, ",\"cat\":\"predicted,piece\",\"args\":{\"micro\":%d}", slice->micro);
    }
    dt_text_add(text, "}");
}

void dt_trace_stage(const DtTraceStage *stage, DtText *ret_text)
{
    name_tracks(stage, ret_text);
    for (uint32_t i = 0; i < stage->sim->n_slices; i++)
        if (stage->sim->slices[i].stage == stage->stage && is_time(&stage->sim->slices[i]))
            add_slice(stage, &stage->sim->slices[i], ret_text);
}

/* ---- a report ---- */

static uint32_t process_of(const DtSummary *s, uint32_t stage)
{
    return 1 + stage * (1 + dt_trace_tracks(s->plan));
}

static void add_flow(const DtSummary *s, uint32_t number, DtText *text)
{
    const DtFlow *flow = &s->sim.flows[number];
    const DtPlanChannel *channel = &s->plan->channels[flow->channel];
    const struct { const char *how; uint32_t stage; double at; } ends[] = {
        {"\"ph\":\"s\"", channel->from, flow->sent},
        {"\"ph\":\"f\",\"bp\":\"e\"", channel->to, flow->received}};
    for (int i = 0; i < 2; i++) {
        /* its first track is that of the pieces */
        const uint32_t process = process_of(s, ends[i].stage);
        long long at = nanoseconds(ends[i].at);
        if (i == 0) /* within the piece that sends, which is drawn without its last nanosecond */
            at = at > 2 ? at - 2 : 0;
        begin(text);
        dt_text_printf(text,
                       "{%s,\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":%lld.%03lld,\"cat\":\"message\","
                       "\"name\":",
                       ends[i].how, number, process, process + 1, at / 1000, at % 1000);
        dt_trace_string(text, dt_plan_str(s->plan, channel->name));
        dt_text_printf(text, ",\"args\":{\"bytes\":%lld}}", (long long)channel->bytes);
    }
}

/* The name of a stage, "stage 3", with its device if nodes are of several kinds. */
static void add_stage_name(const DtSummary *s, uint32_t stage, DtText *text)
{
    DtArena *arena = dt_arena_new();
    const char *device =
        s->model.n_kinds ? dt_nodes_say_stage(arena, s->plan, &s->model, stage) : "";
    dt_trace_string(text,
                    dt_arena_printf(arena, "stage %u%s%s", stage, *device ? ", " : "", device));
    dt_arena_free(arena);
}

void dt_trace_report(const DtSummary *s, DtText *ret_text)
{
    dt_text_add(ret_text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (uint32_t i = 0; i < s->sim.n_stages; i++) {
        const uint32_t process = process_of(s, i);
        begin(ret_text);
        dt_text_printf(
            ret_text,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":", process);
        add_stage_name(s, i, ret_text);
        dt_text_add(ret_text, "}}");
        dt_trace_stage(
            &(DtTraceStage){s->plan, s->prices[i], &s->sim, i, process, process + 1, 0, 0, ""},
            ret_text);
    }
    for (uint32_t i = 0; i < s->sim.n_flows; i++)
        if (is_clock(s->sim.flows[i].sent) && is_clock(s->sim.flows[i].received))
            add_flow(s, i, ret_text);
    dt_text_add(ret_text, "\n]}\n");
}
