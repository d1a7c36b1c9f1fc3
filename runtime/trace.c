/* SPDX-License-Identifier: Apache-2.0 */
/* --trace: what ran when, as Chrome trace events (opens in Perfetto, ui.perfetto.dev). Each rank
 * keeps the times of its instructions in a ring made at load, so that the steps themselves
 * allocate nothing; the last ones before the end are what is written. Every rank writes a part
 * beside the file, which is made at load, so that a place where none can be is an error then; rank 0 joins
 * them. Of a run that fails nothing is left: ranks remove their parts, the supervisor those of ranks that were killed.
 * Lanes: compute, communication, entries; a slice names the DSL line it stands for. */
#include "runtime/train.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SLICES = 1 << 17, MAX_STEPS = 1 << 10, MAX_PATH = 4000 };

typedef struct Slice {
    uint32_t inst;
    uint32_t took_ns;
    uint64_t began_ns;
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
    uint64_t n_slices; /* ever; the ring holds the last ones */
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

void dt_trace_inst(DtTrace *trace, uint32_t inst, uint64_t began_ns, uint64_t ended_ns)
{
    uint64_t took = ended_ns - began_ns;
    trace->slices[trace->n_slices++ % MAX_SLICES] =
        (Slice){inst, took > UINT32_MAX ? UINT32_MAX : (uint32_t)took, began_ns};
}

void dt_trace_step(DtTrace *trace, const char *entry, int64_t step, uint64_t began_ns,
                   uint64_t ended_ns)
{
    trace->steps[trace->n_steps++ % MAX_STEPS] = (Step){entry, step, began_ns, ended_ns};
}

/* ---- writing ---- */

static void add_json_string(DtText *text, const char *string)
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

static bool is_communication(const DtPlanInst *inst)
{
    return inst->kind >= DT_INST_ALL_REDUCE && inst->kind <= DT_INST_BARRIER;
}

static void add_inst_name(DtText *text, const DtPlan *plan, const DtPlanInst *inst)
{
    char name[300];
    if (inst->kind == DT_INST_KERNEL)
        snprintf(name, sizeof name, "%.250s", dt_plan_str(plan, plan->kernels[inst->ref].name));
    else if (inst->kind == DT_INST_GEMM) {
        const DtPlanGemm *g = &plan->gemms[inst->ref];
        int64_t batch = 1;
        for (uint32_t b = 0; b < g->n_batch; b++)
            batch *= g->batch[b];
        snprintf(name, sizeof name, batch > 1 ? "gemm %lldx%lldx%lld x%lld" : "gemm %lldx%lldx%lld",
                 (long long)g->m, (long long)g->n, (long long)g->k, (long long)batch);
    } else
        snprintf(name, sizeof name, "%s", dt_kinds_inst(inst->kind));
    add_json_string(text, name);
}

static void add_slice(DtText *text, const DtTrace *trace, const Slice *slice)
{
    const DtPlan *plan = trace->rank->plan;
    const DtPlanInst *inst = &plan->insts[slice->inst];
    dt_text_add(text, "{\"name\":");
    add_inst_name(text, plan, inst);
    dt_text_printf(
        text, ",\"ph\":\"X\",\"pid\":%u,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"inst\":%u",
        trace->rank->rank, is_communication(inst) ? 2 : 1, (double)slice->began_ns * 1e-3,
        (double)slice->took_ns * 1e-3, slice->inst);
    if (inst->span < plan->n_spans) {
        const DtPlanSpan *span = &plan->spans[inst->span];
        char line[400];
        snprintf(line, sizeof line, "%.300s:%u:%u", dt_plan_str(plan, span->file), span->line,
                 span->column);
        dt_text_add(text, ",\"line\":");
        add_json_string(text, line);
        dt_text_add(text, ",\"path\":");
        add_json_string(text, dt_plan_str(plan, span->path));
        dt_text_add(text, ",\"op\":");
        add_json_string(text, dt_plan_str(plan, span->text));
    }
    dt_text_add(text, "}},\n");
}

static void add_events(DtText *text, const DtTrace *trace)
{
    static const char *const lanes[] = {"entries", "compute", "communication"};
    uint32_t rank = trace->rank->rank;
    dt_text_printf(
        text,
        "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}},\n",
        rank, rank);
    for (int lane = 0; lane < 3; lane++)
        dt_text_printf(text,
                       "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%d,\"args\":{"
                       "\"name\":\"%s\"}},\n",
                       rank, lane, lanes[lane]);
    uint64_t first = trace->n_steps > MAX_STEPS ? trace->n_steps - MAX_STEPS : 0;
    for (uint64_t i = first; i < trace->n_steps; i++) {
        const Step *step = &trace->steps[i % MAX_STEPS];
        dt_text_printf(
            text,
            "{\"name\":\"%s %lld\",\"ph\":\"X\",\"pid\":%u,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f},\n",
            step->entry, (long long)step->step, rank, (double)step->began_ns * 1e-3,
            (double)(step->ended_ns - step->began_ns) * 1e-3);
    }
    first = trace->n_slices > MAX_SLICES ? trace->n_slices - MAX_SLICES : 0;
    for (uint64_t i = first; i < trace->n_slices; i++)
        add_slice(text, trace, &trace->slices[i % MAX_SLICES]);
}

DtStatus dt_trace_write(const DtTrace *trace)
{
    DtText text = {0};
    add_events(&text, trace);
    DtStatus status = dt_file_write(trace->path, text.at, text.len);
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

DtStatus dt_trace_join(const DtRank *rank, const char *path)
{
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
        text.len -= 2; /* the last comma */
    dt_text_add(&text, "\n]}\n");
    if (dt_status_ok(&status))
        status = dt_file_write(path, text.at, text.len);
    dt_text_free(&text);
    dt_arena_free(memory);
    return status;
}
