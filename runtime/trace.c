/* SPDX-License-Identifier: Apache-2.0 */
/* --trace: what ran when, as Chrome trace events (opens in Perfetto, ui.perfetto.dev). Each rank
 * keeps the times of its instructions in a ring made at load, so that the steps themselves
 * allocate nothing; the last ones before the end are what is written. Every rank writes a part
 * beside the file, which is made at load, so that a place where none can be is an error then; rank
 * 0 joins them. Of a run that fails nothing is left: ranks remove their parts, the supervisor those
 * of ranks that were killed. Lanes: entries, compute, communication; a slice names the DSL line it
 * stands for, one of communication also the ranks and the bytes that this one received.
 *
 * A plan that says what device it was priced for has that beside what was measured (predicted.c):
 * each slice the price of its instruction, each step that of a step and a counter of how many times
 * as long it took; and behind the lanes of each rank those of the simulated step, drawn where the
 * last step begins.
 *
 * Perfetto takes numbers of threads for those of a whole machine, the first
 * thread of a process for the one with the number of the process, and 0 for the kernel's: so no two
 * are equal, and none is 0. */
#include "runtime/predicted.h"
#include "runtime/rank.h"
#include "runtime/train.h"

#include "base/file.h"
#include "plan/report/trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SLICES = 1 << 17, MAX_STEPS = 1 << 10, MAX_PATH = 4000 };

typedef struct Slice {
    uint32_t inst;
    uint32_t took_ns;
    uint64_t began_ns, received;
} Slice;
typedef struct Step {
    const char *entry;
    int64_t step;
    uint64_t began_ns, ended_ns;
} Step;

struct DtTrace {
    const DtRank *rank;
    char path[4096];
    Slice *slices;
    uint64_t n_slices; /* number of slices ever recorded; the ring keeps only the last ones */
    Step steps[MAX_STEPS];
    uint64_t n_steps;
};

static void part_path(const char *path, uint32_t rank, char ret_path[4096])
{
    snprintf(ret_path, 4096, "%.*s.rank%u", MAX_PATH, path, rank);
}

DtStatus dt_trace_open(const DtRank *rank, const char *path, DtTrace **ret_trace)
{
    DtTrace *trace = calloc(1, sizeof *trace);
    Slice *slices = calloc(MAX_SLICES, sizeof *slices);
    if (trace == NULL || slices == NULL || strlen(path) > MAX_PATH) {
        free(trace);
        free(slices);
        return dt_status_fail(DT_EXIT_RETRY, "cannot make the trace %.100s", path);
    }
    trace->rank = rank;
    trace->slices = slices;
    part_path(path, rank->rank, trace->path);
    DtStatus status = dt_file_write(trace->path, "", 0);
    if (!dt_status_ok(&status)) {
        free(slices);
        free(trace);
        return status;
    }
    *ret_trace = trace;
    return DT_OK;
}

void dt_trace_inst(DtTrace *trace, uint32_t inst, uint64_t began_ns, uint64_t ended_ns,
                   uint64_t received)
{
    uint64_t took = ended_ns - began_ns;
    trace->slices[trace->n_slices++ % MAX_SLICES] =
        (Slice){inst, took > UINT32_MAX ? UINT32_MAX : (uint32_t)took, began_ns, received};
}

void dt_trace_step(DtTrace *trace, const char *entry, int64_t step, uint64_t began_ns,
                   uint64_t ended_ns)
{
    trace->steps[trace->n_steps++ % MAX_STEPS] = (Step){entry, step, began_ns, ended_ns};
}

/* ---- writing ---- */

/* The tracks of a rank, from top to bottom; each is a thread of a process. */
typedef enum Lane { ENTRIES, COMPUTE, COMMUNICATION, LANES } Lane;

static uint32_t process_of_rank(uint32_t rank) { return rank * (LANES + 1) + 1; }
static uint32_t process_of(const DtTrace *trace) { return process_of_rank(trace->rank->rank); }
static uint32_t thread_of(const DtTrace *trace, Lane lane)
{
    return process_of(trace) + 1 + (uint32_t)lane;
}

static bool is_message(const DtPlanInst *inst)
{
    return inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV;
}

static bool is_communication(const DtPlanInst *inst)
{
    return inst->kind >= DT_INST_ALL_REDUCE && inst->kind <= DT_INST_RECV;
}

/* Adds, for a collective, the mesh axes along which it runs, and its ranks. */
static void add_group(DtText *text, const DtRank *rank, const DtPlanInst *inst)
{
    const DtPlan *plan = rank->plan;
    const DtRankGroup *group = &rank->groups[inst->ref];
    DtText axes = {0};
    dt_text_add(&axes, "");
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        if (plan->groups[inst->ref].mask >> m & 1)
            dt_text_printf(&axes, "%s%s", axes.len ? " " : "",
                           dt_plan_str(plan, plan->mesh[m].name));
    dt_text_add(text, ",\"group\":");
    dt_trace_string(text, axes.at);
    dt_text_free(&axes);
    dt_text_add(text, ",\"ranks\":[");
    for (uint32_t m = 0; m < group->size; m++)
        dt_text_printf(text, "%s%u", m ? "," : "", group->ranks[m]);
    dt_text_add(text, "]");
}

/* Adds, for a message, its channel and the rank at the other end. */
static void add_channel(DtText *text, const DtRank *rank, const DtPlanInst *inst)
{
    const DtPlanChannel *channel = &rank->plan->channels[inst->ref];
    bool sends = inst->kind == DT_INST_SEND;
    dt_text_add(text, ",\"channel\":");
    dt_trace_string(text, dt_plan_str(rank->plan, channel->name));
    dt_text_printf(text, ",\"%s\":%u", sends ? "to" : "from",
                   dt_rank_at_stage(rank, sends ? channel->to : channel->from));
    if (sends)
        dt_text_printf(text, ",\"sent\":%lld",
                       (long long)(inst->count * dt_kinds_size(inst->dtype)));
}

static void add_slice(DtText *text, const DtTrace *trace, const DtPredicted *predicted,
                      const Slice *slice)
{
    const DtPlan *plan = trace->rank->plan;
    const DtPlanInst *inst = &plan->insts[slice->inst];
    char name[DT_INST_NAME];
    dt_trace_name(plan, inst, name);
    dt_text_add(text, "{\"name\":");
    dt_trace_string(text, name);
    dt_text_printf(
        text, ",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"inst\":%u",
        process_of(trace), thread_of(trace, is_communication(inst) ? COMMUNICATION : COMPUTE),
        (double)slice->began_ns * 1e-3, (double)slice->took_ns * 1e-3, slice->inst);
    const DtPrice *prices = dt_predicted_prices(predicted, trace->rank->stage);
    if (prices)
        dt_trace_price(&prices[slice->inst], text);
    if (is_message(inst))
        add_channel(text, trace->rank, inst);
    else if (is_communication(inst))
        add_group(text, trace->rank, inst);
    if (is_communication(inst) && inst->kind != DT_INST_SEND)
        dt_text_printf(text, ",\"received\":%llu", (unsigned long long)slice->received);
    if (inst->span < plan->n_spans && plan->spans[inst->span].line > 0) {
        const DtPlanSpan *span = &plan->spans[inst->span];
        char line[400];
        snprintf(line, sizeof line, "%.300s:%u:%u", dt_plan_str(plan, span->file), span->line,
                 span->column);
        dt_text_add(text, ",\"line\":");
        dt_trace_string(text, line);
        dt_text_add(text, ",\"path\":");
        dt_trace_string(text, dt_plan_str(plan, span->path));
        dt_text_add(text, ",\"op\":");
        dt_trace_string(text, dt_plan_str(plan, span->text));
    }
    dt_text_add(text, "}},\n");
}

/* Adds an entry that names a thread of this rank's process; thread 0: the process itself. */
static void add_metadata(DtText *text, const DtTrace *trace, uint32_t thread, const char *name,
                         const char *what)
{
    dt_text_printf(text, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%u,", name, process_of(trace));
    if (thread)
        dt_text_printf(text, "\"tid\":%u,", thread);
    dt_text_printf(text, "\"args\":{%s}},\n", what);
}

static void add_names(DtText *text, const DtTrace *trace)
{
    static const char *const lanes[LANES] = {"entries", "compute", "communication"};
    const DtRank *rank = trace->rank;
    char what[64], stage[32] = "";
    if (rank->plan->meta->pipeline > 0)
        snprintf(stage, sizeof stage, ", stage %u", rank->stage);
    snprintf(what, sizeof what, "\"name\":\"rank %u%s\"", rank->rank, stage);
    add_metadata(text, trace, 0, "process_name", what);
    snprintf(what, sizeof what, "\"sort_index\":%u", rank->rank);
    add_metadata(text, trace, 0, "process_sort_index", what);
    for (Lane lane = 0; lane < LANES; lane++) {
        snprintf(what, sizeof what, "\"name\":\"%s\"", lanes[lane]);
        add_metadata(text, trace, thread_of(trace, lane), "thread_name", what);
        snprintf(what, sizeof what, "\"sort_index\":%u", (uint32_t)lane);
        add_metadata(text, trace, thread_of(trace, lane), "thread_sort_index", what);
    }
}

/* Whether the entry is part of a step, and not of an evaluation. */
static bool is_training(const DtPlan *plan, const char *entry)
{
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        if (strcmp(entry, dt_plan_str(plan, plan->objectives[i].step)) == 0 ||
            strcmp(entry, dt_plan_str(plan, plan->objectives[i].update)) == 0)
            return true;
    return false;
}

static void add_step(DtText *text, const DtTrace *trace, const DtPredicted *predicted,
                     const Step *step)
{
    dt_text_printf(
        text, "{\"name\":\"%s %lld\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f",
        step->entry, (long long)step->step, process_of(trace), thread_of(trace, ENTRIES),
        (double)step->began_ns * 1e-3, (double)(step->ended_ns - step->began_ns) * 1e-3);
    if (predicted->step > 0 && is_training(trace->rank->plan, step->entry)) {
        dt_text_add(text, ",\"args\":{\"predicted_step\":");
        dt_text_double(text, predicted->step);
        dt_text_add(text, "}");
    }
    dt_text_add(text, "},\n");
}

/* Draws the ratio of measured to predicted time of a step's entries, whose slices begin at number
 * `first`, at the beginning of the first one. Returns the number of the slice after them. */
static uint64_t add_ratio(DtText *text, const DtTrace *trace, const DtPredicted *predicted,
                          uint64_t first)
{
    const Step *begin = &trace->steps[first % MAX_STEPS];
    uint64_t took = 0, i = first;
    for (; i < trace->n_steps && trace->steps[i % MAX_STEPS].step == begin->step; i++)
        if (is_training(trace->rank->plan, trace->steps[i % MAX_STEPS].entry))
            took += trace->steps[i % MAX_STEPS].ended_ns - trace->steps[i % MAX_STEPS].began_ns;
    if (took > 0)
        dt_text_printf(text,
                       "{\"name\":\"measured / predicted\",\"ph\":\"C\",\"pid\":%u,\"ts\":%.3f,"
                       "\"args\":{\"ratio\":%.6g}},\n",
                       process_of(trace), (double)begin->began_ns * 1e-3,
                       (double)took * 1e-9 / predicted->step);
    return i;
}

static void add_events(DtText *text, const DtTrace *trace, const DtPredicted *predicted)
{
    add_names(text, trace);
    uint64_t first = trace->n_steps > MAX_STEPS ? trace->n_steps - MAX_STEPS : 0;
    for (uint64_t i = first; i < trace->n_steps; i++)
        add_step(text, trace, predicted, &trace->steps[i % MAX_STEPS]);
    for (uint64_t i = first; i < trace->n_steps && predicted->step > 0;)
        i = add_ratio(text, trace, predicted, i);
    first = trace->n_slices > MAX_SLICES ? trace->n_slices - MAX_SLICES : 0;
    for (uint64_t i = first; i < trace->n_slices; i++)
        add_slice(text, trace, predicted, &trace->slices[i % MAX_SLICES]);
}

DtStatus dt_trace_write(const DtTrace *trace)
{
    DtText text = {0};
    DtPredicted predicted;
    dt_predicted_open(trace->rank->plan, &predicted);
    add_events(&text, trace, &predicted);
    DtStatus status = dt_file_write(trace->path, text.at, text.len);
    dt_predicted_close(&predicted);
    dt_text_free(&text);
    return status;
}

void dt_trace_close(DtTrace *trace)
{
    unlink(trace->path);
    free(trace->slices);
    free(trace);
}

void dt_trace_drop(const char *path, uint32_t n_ranks)
{
    char part[4096];
    for (uint32_t r = 0; strlen(path) <= MAX_PATH && r < n_ranks; r++) {
        part_path(path, r, part);
        unlink(part);
    }
}

/* Adds the simulated step next to each rank's tracks, from the time at which this rank's last step
 * begins. All ranks of a machine have one clock. */
static void add_predicted(DtText *text, const DtTrace *trace)
{
    const DtPlan *plan = trace->rank->plan;
    const uint64_t first = trace->n_steps > MAX_STEPS ? trace->n_steps - MAX_STEPS : 0;
    uint64_t i = trace->n_steps;
    DtPredicted predicted;
    while (i > first && plan->n_objectives &&
           strcmp(trace->steps[(i - 1) % MAX_STEPS].entry,
                  dt_plan_str(plan, plan->objectives[0].step)) != 0)
        i--;
    dt_predicted_open(plan, &predicted);
    if (i > first && dt_predicted_simulate(&predicted))
        for (uint32_t r = 0; r < trace->rank->n_ranks; r++)
            dt_predicted_rank(
                &predicted, r,
                (DtPredictedAt){process_of_rank(r), process_of_rank(trace->rank->n_ranks), LANES,
                                (double)trace->steps[(i - 1) % MAX_STEPS].began_ns * 1e-9},
                text);
    dt_predicted_close(&predicted);
}

DtStatus dt_trace_join(const DtTrace *trace, const char *path)
{
    const DtRank *rank = trace->rank;
    DtText text = {0};
    DtArena *memory = dt_arena_new();
    DtStatus status = DT_OK;
    dt_text_add(&text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (uint32_t r = 0; dt_status_ok(&status) && r < rank->n_ranks; r++) {
        char part[4096], *piece;
        size_t len;
        part_path(path, r, part);
        status = dt_file_read(memory, part, (size_t)1 << 31, &piece, &len);
        if (dt_status_ok(&status))
            dt_text_add_n(&text, piece, len);
    }
    if (text.len > 2 && text.at[text.len - 2] == ',')
        text.len -= 2; /* without the last comma */
    add_predicted(&text, trace);
    dt_text_add(&text, "\n]}\n");
    if (dt_status_ok(&status))
        status = dt_file_write(path, text.at, text.len);
    dt_text_free(&text);
    dt_arena_free(memory);
    return status;
}
