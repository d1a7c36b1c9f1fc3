/* SPDX-License-Identifier: Apache-2.0 */
/* The step as trace events, which Perfetto and chrome://tracing show: a process for each stage, in it a track of pieces
 * (forward, backward, gradients of parameters of a micro-batch) and one for each queue with its instructions, arrows
 * from where a message was sent to where it was taken. Times are microseconds. */
#include "plan/report/text.h"

#include "plan/kinds.h"

#include <string.h>

enum { PIECES = 1000 }; /* number of the track; queues have theirs */

static void quote(DtText *text, const char *words)
{
    dt_text_add(text, "\"");
    for (const char *c = words; *c; c++)
        if (*c == '"' || *c == '\\')
            dt_text_printf(text, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            dt_text_add(text, " ");
        else
            dt_text_add_n(text, c, 1);
    dt_text_add(text, "\"");
}

static void begin(DtText *text) { dt_text_add(text, text->at[text->len - 1] == '[' ? "\n" : ",\n"); }

static void name_track(DtText *text, const char *what, uint32_t stage, uint32_t track, const char *name)
{
    begin(text);
    dt_text_printf(text, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what, stage, track);
    quote(text, name);
    dt_text_add(text, "}}");
}

static void name_queue(const DtSummary *s, DtText *text, uint32_t stage, uint32_t queue)
{
    char name[128] = "collectives over";
    for (uint32_t g = 0; g < s->plan->n_groups; g++) {
        if (s->plan->groups[g].queue != queue)
            continue;
        for (uint32_t m = 0; m < s->plan->n_mesh; m++)
            if (s->plan->groups[g].mask >> m & 1) {
                const size_t len = strlen(name);
                snprintf(name + len, sizeof name - len, " %s", dt_plan_str(s->plan, s->plan->mesh[m].name));
            }
        name_track(text, "thread_name", stage, queue, name);
        return;
    }
}

static void name_tracks(const DtSummary *s, DtText *text)
{
    uint32_t queues = 1;
    for (uint32_t g = 0; g < s->plan->n_groups; g++)
        queues = s->plan->groups[g].queue + 1 > queues ? s->plan->groups[g].queue + 1 : queues;
    for (uint32_t stage = 0; stage < s->sim.n_stages; stage++) {
        char name[64];
        snprintf(name, sizeof name, "stage %u", stage);
        name_track(text, "process_name", stage, 0, name);
        name_track(text, "thread_name", stage, PIECES, "micro-batches");
        name_track(text, "thread_name", stage, 0, "compute");
        for (uint32_t q = 1; q < queues; q++)
            name_queue(s, text, stage, q);
    }
}

/* "gemm", "kernel attend", and its line. */
static void add_inst(const DtSummary *s, const DtSlice *slice, DtText *text)
{
    const DtPlanInst *inst = &s->plan->insts[slice->what];
    char name[96];
    snprintf(name, sizeof name, "%s%s%.60s", dt_kinds_inst(inst->kind), inst->kind == DT_INST_KERNEL ? " " : "",
             inst->kind == DT_INST_KERNEL ? dt_plan_str(s->plan, s->plan->kernels[inst->ref].name) : "");
    quote(text, name);
    dt_text_printf(text, ",\"cat\":\"%s\",\"args\":{\"micro\":%d", dt_kinds_inst(inst->kind), slice->micro);
    if (dt_report_received(s->plan, inst) > 0)
        dt_text_printf(text, ",\"bytes\":%.0f", dt_report_received(s->plan, inst));
    if (inst->span < s->plan->n_spans && s->plan->spans[inst->span].line) {
        dt_text_add(text, ",\"line\":");
        char line[200];
        snprintf(line, sizeof line, "%.100s:%u %.80s", dt_plan_str(s->plan, s->plan->spans[inst->span].file),
                 s->plan->spans[inst->span].line, dt_plan_str(s->plan, s->plan->spans[inst->span].path));
        quote(text, line);
    }
    dt_text_add(text, "}");
}

static void add_slice(const DtSummary *s, const DtSlice *slice, DtText *text)
{
    begin(text);
    dt_text_printf(text, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":", slice->stage,
                   slice->kind == DT_SLICE_PIECE ? PIECES : slice->queue, slice->begin * 1e6,
                   (slice->end - slice->begin) * 1e6);
    if (slice->kind == DT_SLICE_INST) {
        add_inst(s, slice, text);
    } else {
        char name[96];
        snprintf(name, sizeof name, "%.60s %d",
                 slice->what == UINT32_MAX ? "micro-batch" : dt_plan_str(s->plan, s->plan->entries[slice->what].name),
                 slice->micro);
        quote(text, name);
        dt_text_printf(text, ",\"cat\":\"piece\",\"args\":{\"micro\":%d}", slice->micro);
    }
    dt_text_add(text, "}");
}

static void add_flow(const DtSummary *s, uint32_t number, DtText *text)
{
    const DtFlow *flow = &s->sim.flows[number];
    const DtPlanChannel *channel = &s->plan->channels[flow->channel];
    const struct { const char *how; uint32_t stage; double at; } ends[] = {
        {"\"ph\":\"s\"", channel->from, flow->sent}, {"\"ph\":\"f\",\"bp\":\"e\"", channel->to, flow->received}};
    for (int i = 0; i < 2; i++) {
        begin(text);
        dt_text_printf(text, "{%s,\"id\":%u,\"pid\":%u,\"tid\":%d,\"ts\":%.3f,\"cat\":\"message\",\"name\":",
                       ends[i].how, number, ends[i].stage, PIECES, ends[i].at * 1e6 - (i ? 0 : 1e-3));
        quote(text, dt_plan_str(s->plan, channel->name));
        dt_text_printf(text, ",\"args\":{\"bytes\":%lld}}", (long long)channel->bytes);
    }
}

void dt_trace_report(const DtSummary *s, DtText *ret_text)
{
    dt_text_add(ret_text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    name_tracks(s, ret_text);
    for (uint32_t i = 0; i < s->sim.n_slices; i++)
        add_slice(s, &s->sim.slices[i], ret_text);
    for (uint32_t i = 0; i < s->sim.n_flows; i++)
        add_flow(s, i, ret_text);
    dt_text_add(ret_text, "\n]}\n");
}
