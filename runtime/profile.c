/* SPDX-License-Identifier: Apache-2.0 */
/* --profile: the time of each instruction in steps, as bytes and operations per second. A device
 * with queues of its own records time stamps before and after an instruction, which are read
 * when their buffer is full or the step is done, so that the host stays ahead of the device; for
 * other devices the host's clock is used. Instructions are grouped by kernel and by product;
 * bytes are those that must move (each operand once). */
#include "runtime/profile.h"

#include "plan/report/trace.h"

#include <stdlib.h>
#include <string.h>

enum { STAMPS = DT_DEVICE_STAMPS };

typedef struct Row {
    uint32_t inst; /* the first instruction of the row */
    uint64_t n;
    double seconds, bytes, flops;
} Row;

struct DtProfile {
    const DtRank *rank;
    Row *rows;
    uint32_t *row_of; /* by instruction: its row */
    uint32_t n_rows;
    int64_t first, n_steps;
    double seconds;              /* seconds of all steps */
    uint32_t pending[STAMPS / 2]; /* the instructions between stamps 2 i and 2 i + 1 */
    uint32_t n_pending;
    double at[STAMPS];
};

/* ---- rows ---- */

static double of_product(const DtPlanGemm *g, double *ret_bytes)
{
    double batch = 1;
    const double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    for (uint32_t d = 0; d < g->n_batch; d++)
        batch *= (double)g->batch[d];
    *ret_bytes = batch * (m * k * (double)dt_kinds_size(g->dtype_a) +
                          k * n * (double)dt_kinds_size(g->dtype_b) +
                          m * n * (double)(1 + g->accumulate) * (double)dt_kinds_size(g->dtype_c));
    const DtEpilogueInfo *epilogue = &dt_kinds_epilogues[g->epilogue];
    const double vector = epilogue->vector ? (g->epilogue == DT_PLAN_EPILOGUE_SUM_A ? m : n) : 0;
    *ret_bytes += (vector + (epilogue->matrix ? m * n : 0)) * (double)dt_kinds_size(g->dtype_c);
    return 2 * batch * m * n * k;
}

/* Sets the bytes that the instruction moves, except those that it receives; returns its
 * floating-point operations. */
static double work_of(const DtPlan *plan, const DtPlanInst *inst, double *ret_bytes)
{
    *ret_bytes = 0;
    switch (inst->kind) {
    case DT_INST_KERNEL:
        *ret_bytes = plan->kernels[inst->ref].bytes;
        return plan->kernels[inst->ref].flops;
    case DT_INST_GEMM: return of_product(&plan->gemms[inst->ref], ret_bytes);
    case DT_INST_COPY: *ret_bytes = 2 * (double)inst->count; return 0;
    case DT_INST_ZERO: *ret_bytes = (double)inst->count; return 0;
    default: return 0;
    }
}

/* Whether two instructions are shown in one row. */
static bool are_alike(const DtPlanInst *a, const DtPlanInst *b)
{
    return a->kind == b->kind && a->ref == b->ref &&
           (a->kind == DT_INST_KERNEL || a->kind == DT_INST_GEMM);
}

DtProfile *dt_profile_new(DtRank *rank, int64_t first)
{
    const DtPlan *plan = rank->plan;
    DtProfile *profile = DT_NEW(rank->memory, DtProfile);
    profile->rank = rank;
    profile->first = first;
    profile->rows = DT_NEW_ARRAY(rank->memory, Row, plan->n_insts + 1);
    profile->row_of = DT_NEW_ARRAY(rank->memory, uint32_t, plan->n_insts + 1);
    /* 1 + number of the row */
    uint32_t *kernels = DT_NEW_ARRAY(rank->memory, uint32_t, plan->n_kernels + 1);
    uint32_t *gemms = DT_NEW_ARRAY(rank->memory, uint32_t, plan->n_gemms + 1);
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        uint32_t *known = inst->kind == DT_INST_KERNEL ? &kernels[inst->ref]
                          : inst->kind == DT_INST_GEMM ? &gemms[inst->ref]
                                                       : NULL;
        if (known && *known && are_alike(inst, &plan->insts[profile->rows[*known - 1].inst])) {
            profile->row_of[i] = *known - 1;
            continue;
        }
        profile->row_of[i] = profile->n_rows;
        profile->rows[profile->n_rows++].inst = i;
        if (known)
            *known = profile->n_rows;
    }
    return profile;
}

/* ---- times ---- */

static bool is_on(const DtProfile *profile)
{
    return !profile->rank->evaluates && profile->rank->step >= profile->first;
}

static void stamp(DtProfile *profile, uint32_t number)
{
    const DtRank *rank = profile->rank;
    if (rank->device_ops->stamp)
        rank->device_ops->stamp(rank->device, number);
    else
        profile->at[number] = (double)dt_now_ns() * 1e-9;
}

static void collect(DtProfile *profile)
{
    const DtRank *rank = profile->rank;
    if (profile->n_pending && rank->device_ops->stamps)
        rank->device_ops->stamps(rank->device, 2 * profile->n_pending, profile->at);
    for (uint32_t i = 0; i < profile->n_pending; i++)
        profile->rows[profile->row_of[profile->pending[i]]].seconds +=
            profile->at[2 * i + 1] - profile->at[2 * i];
    profile->n_pending = 0;
}

void dt_profile_begin(DtProfile *profile)
{
    if (is_on(profile))
        stamp(profile, 2 * profile->n_pending);
}

void dt_profile_end(DtProfile *profile, uint32_t inst, uint64_t received)
{
    if (!is_on(profile))
        return;
    Row *row = &profile->rows[profile->row_of[inst]];
    double bytes;
    row->flops += work_of(profile->rank->plan, &profile->rank->plan->insts[inst], &bytes);
    row->bytes += bytes + (double)received;
    row->n++;
    stamp(profile, 2 * profile->n_pending + 1);
    profile->pending[profile->n_pending++] = inst;
    if (profile->n_pending == STAMPS / 2)
        collect(profile);
}

void dt_profile_step(DtProfile *profile, double seconds)
{
    if (!is_on(profile))
        return;
    collect(profile);
    profile->n_steps++;
    profile->seconds += seconds;
}

/* ---- printing ---- */

static int by_time(const void *a, const void *b)
{
    const Row *left = a, *right = b;
    return left->seconds < right->seconds   ? 1
           : left->seconds > right->seconds ? -1
                                            : left->inst > right->inst;
}

static void add_row(const DtProfile *profile, const Row *row, bool json, DtText *text)
{
    const DtPlan *plan = profile->rank->plan;
    const DtPlanInst *inst = &plan->insts[row->inst];
    const DtPlanSpan *span = inst->span < plan->n_spans ? &plan->spans[inst->span] : NULL;
    const double ms = row->seconds * 1e3 / (double)profile->n_steps,
                 seconds = row->seconds > 0 ? row->seconds : 1e-9;
    const double share = row->seconds / profile->seconds,
                 n = (double)row->n / (double)profile->n_steps;
    const double gb = row->bytes / seconds * 1e-9, tflop = row->flops / seconds * 1e-12;
    char name[DT_INST_NAME];
    dt_trace_name(plan, inst, name);
    if (!json) {
        dt_text_printf(text, "%10.3f %6.1f%% %9.0f %9.1f %9.2f  %s", ms, share * 100, n, gb, tflop,
                       name);
        if (span && span->line)
            dt_text_printf(text, "  %s:%u", dt_plan_str(plan, span->file), span->line);
        dt_text_add(text, "\n");
        return;
    }
    dt_text_printf(text, "{\"kind\":\"%s\",\"inst\":%u,\"name\":", dt_kinds_inst(inst->kind),
                   row->inst);
    dt_trace_string(text, name);
    if (span && span->line) {
        dt_text_add(text, ",\"file\":");
        dt_trace_string(text, dt_plan_str(plan, span->file));
        dt_text_printf(text, ",\"line\":%u", span->line);
    }
    dt_text_printf(
        text, ",\"ms\":%.6g,\"share\":%.6g,\"times\":%.6g,\"gb_per_s\":%.6g,\"tflop_per_s\":%.6g}",
        ms, share, n, gb, tflop);
}

/* What the plan predicts for a step, and the MFU; nothing if it does not. */
static void add_predicted(const DtRank *rank, double ms, DtText *text)
{
    const DtPlanPrediction *p = rank->plan->n_predictions ? rank->plan->predictions : NULL;
    const double peak = p ? p->peak * rank->plan->meta->n_ranks : 0;
    if (p && p->step > 0)
        dt_text_printf(text, "\"predicted_ms\":%.6g,", p->step * 1e3);
    if (peak > 0 && rank->plan->meta->model_flops > 0)
        dt_text_printf(text, "\"mfu\":%.6g,", rank->plan->meta->model_flops / (ms * 1e-3 * peak));
}

static void add_head(const DtProfile *profile, double busy, double goodput, bool json,
                     DtText *text)
{
    const DtRank *rank = profile->rank;
    const double steps = (double)profile->n_steps, ms = profile->seconds * 1e3 / steps;
    if (json) {
        dt_text_printf(
            text,
            "{\"device\":\"%s\",\"rank\":%u,\"first_step\":%lld,\"steps\":%lld,\"ms\":%.6g,",
            rank->device_ops->name, rank->rank, (long long)profile->first + 1,
            (long long)profile->n_steps, ms);
        add_predicted(rank, ms, text);
        dt_text_printf(text, "\"goodput\":%.6g,\"in_instructions\":%.6g,\"rows\":[\n", goodput,
                       busy / profile->seconds);
    } else
        dt_text_printf(
            text,
            "rank %u on %s, steps %lld to %lld: %.3f ms a step, of which instructions take %.1f%%\n"
            "%10s %7s %9s %9s %9s  %s\n",
            rank->rank, rank->device_ops->name, (long long)profile->first + 1,
            (long long)(profile->first + profile->n_steps), ms, busy / profile->seconds * 100, "ms",
            "share", "times", "GB/s", "TFLOP/s", "what");
}

bool dt_profile_print(DtProfile *profile, bool json, double goodput, FILE *out)
{
    DtText text = {0};
    double busy = 0;
    if (profile->n_steps == 0) {
        dt_text_add(&text, json ? "{\"steps\":0,\"rows\":[]}\n" : "no step was profiled\n");
    } else {
        Row *rows = DT_NEW_ARRAY(profile->rank->memory, Row, profile->n_rows + 1);
        memcpy(rows, profile->rows, profile->n_rows * sizeof *rows);
        qsort(rows, profile->n_rows, sizeof *rows, by_time);
        for (uint32_t i = 0; i < profile->n_rows; i++)
            busy += rows[i].seconds;
        add_head(profile, busy, goodput, json, &text);
        for (uint32_t i = 0; i < profile->n_rows && rows[i].n; i++) {
            dt_text_add(&text, json && i ? ",\n" : "");
            add_row(profile, &rows[i], json, &text);
        }
        dt_text_add(&text, json ? "\n]}\n" : "");
    }
    const bool good = fputs(text.at, out) >= 0 && fflush(out) == 0;
    dt_text_free(&text);
    return good;
}
