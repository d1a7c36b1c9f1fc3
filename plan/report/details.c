/* SPDX-License-Identifier: Apache-2.0 */
/* The details of a report as text and as JSON: memory by kind and stage, what each entry runs,
 * products, kernels. */
#include "plan/report/details.h"
#include "plan/report/memory.h"
#include "plan/report/traffic.h"

#include "plan/kinds.h"
#include "plan/name.h"
#include "plan/report/people.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int64_t arena_bytes(const DtPlan *plan, uint32_t kind, uint32_t stage)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_arenas; i++)
        if (plan->arenas[i].kind == kind)
            bytes += dt_plan_arena_bytes(plan, i, stage);
    return bytes;
}

static bool same_memory(const DtPlan *plan, uint32_t stage, uint32_t other)
{
    for (uint32_t kind = 0; kind < DT_ARENA_KINDS; kind++)
        if (arena_bytes(plan, kind, stage) != arena_bytes(plan, kind, other))
            return false;
    return true;
}

/* Appends "stage 3", or "stages 3 to 7". */
static void add_stages(DtText *text, uint32_t first, uint32_t last)
{
    if (first == last)
        dt_text_printf(text, "stage %u", first);
    else
        dt_text_printf(text, "stages %u to %u", first, last);
}

/* ---- text ---- */

static void print_head(const DtPlan *plan, DtText *text)
{
    const DtPlanMeta *meta = plan->meta;
    dt_text_printf(text, "%s for %s: %u rank%s", dt_plan_str(plan, meta->source),
                   dt_plan_str(plan, meta->target), meta->n_ranks, meta->n_ranks == 1 ? "" : "s");
    for (uint32_t i = 0; i < plan->n_mesh; i++)
        dt_text_printf(text, "%s%s = %u", i ? ", " : " (", dt_plan_str(plan, plan->mesh[i].name),
                       plan->mesh[i].size);
    dt_text_printf(text, "%s, batch of %lld in %u micro-batch%s", plan->n_mesh ? ")" : "",
                   (long long)meta->batch, meta->n_micro, meta->n_micro == 1 ? "" : "es");
    if (meta->ramp_by > 0)
        dt_text_printf(text, ", from %lld on over %lld samples", (long long)meta->ramp_from,
                       (long long)meta->ramp_over);
    dt_text_printf(text, ", %lld parameters\n", (long long)meta->parameters);
}

static void print_stage_memory(const DtPlan *plan, uint32_t stage, DtText *text)
{
    char buf[32];
    int64_t total = 0;
    for (uint32_t kind = 0; kind < DT_ARENA_KINDS; kind++) {
        int64_t bytes = dt_plan_is_usual(kind) ? arena_bytes(plan, kind, stage) : 0;
        total += bytes;
        if (bytes)
            dt_text_printf(text, "  %-16s %14lld B  %10s\n", dt_memory_kinds[kind],
                           (long long)bytes, dt_people_bytes(buf, (double)bytes));
    }
    dt_text_printf(text, "  %-16s %14lld B  %10s\n", "total", (long long)total,
                   dt_people_bytes(buf, (double)total));
    for (uint32_t kind = 0; kind < DT_ARENA_KINDS; kind++) {
        int64_t bytes = dt_plan_is_usual(kind) ? 0 : arena_bytes(plan, kind, stage);
        if (bytes)
            dt_text_printf(text, "  %-16s %14lld B  %10s  not in the total: only %s takes it\n",
                           dt_memory_kinds[kind], (long long)bytes,
                           dt_people_bytes(buf, (double)bytes),
                           kind == DT_ARENA_INSTEAD ? "a product whose epilogue is a kernel"
                                                    : "dtrun --generate");
    }
}

/* Adjacent stages with equal memory share one table. */
static void print_memory(const DtPlan *plan, DtText *text)
{
    uint32_t stages = dt_plan_stages(plan);
    for (uint32_t first = 0, last; first < stages; first = last + 1) {
        for (last = first; last + 1 < stages && same_memory(plan, first, last + 1);)
            last++;
        dt_text_add(text, "\nmemory of one rank");
        if (stages > 1) {
            dt_text_add(text, " of ");
            add_stages(text, first, last);
        }
        dt_text_add(text, "\n");
        print_stage_memory(plan, first, text);
    }
}

/* Whether the entry has an outermost loop that counts down this many iterations. */
static bool has_loop(const DtPlan *plan, const DtPlanEntry *entry, int64_t iterations)
{
    uint32_t open = 0;
    for (uint32_t i = entry->first; i < entry->first + entry->count; i++) {
        const DtPlanSchedule *at = &plan->schedule[i];
        if (at->kind == DT_SCHED_LOOP && !open && at->step < 0 && at->count == iterations)
            return true;
        open += at->kind == DT_SCHED_LOOP;
        open -= at->kind == DT_SCHED_END;
    }
    return false;
}

/* Whether loops with another name have as many iterations: a schedule does not tell which of them
 * it contains. */
static bool is_like_another(const DtPlan *plan, const DtPlanSaved *saved)
{
    for (uint32_t i = 0; i < plan->n_saved; i++)
        if (plan->saved[i].iterations == saved->iterations && plan->saved[i].loop != saved->loop)
            return true;
    return false;
}

/* Returns the next piece of a pipeline, from `least` on, that contains the loop; -1: there is none,
 * or it is not known. */
static int32_t next_piece(const DtPlan *plan, const DtPlanSaved *saved, int32_t least)
{
    int32_t next = -1;
    for (uint32_t i = 0; i < plan->n_entries && !is_like_another(plan, saved); i++) {
        const DtPlanName name = dt_plan_name(dt_plan_str(plan, plan->entries[i].name));
        if (name.run == DT_PLAN_STEP && name.part == DT_PLAN_B && name.number >= least &&
            (next < 0 || name.number < next) &&
            has_loop(plan, &plan->entries[i], saved->iterations))
            next = name.number;
    }
    return next;
}

/* Appends the pieces that contain a loop of this length, such as ", in pieces 0, 2 to 5". */
static void add_pieces(const DtPlan *plan, const DtPlanSaved *saved, DtText *text)
{
    const char *comma = "";
    int32_t first = next_piece(plan, saved, 0), last;
    if (first >= 0)
        dt_text_add(text, next_piece(plan, saved, first + 1) < 0 ? ", in piece " : ", in pieces ");
    for (; first >= 0; first = next_piece(plan, saved, last + 1)) {
        for (last = first; next_piece(plan, saved, last + 1) == last + 1;)
            last++;
        dt_text_printf(text, "%s%d", comma, first);
        if (last > first)
            dt_text_printf(text, "%s%d", last > first + 1 ? " to " : ", ", last);
        comma = ", ";
    }
}

static void print_saved(const DtPlan *plan, DtText *text)
{
    char one[32], all[32], recomputed[32];
    if (plan->n_saved)
        dt_text_add(text, "\nsaved for the backward loop, of one micro-batch on one rank\n");
    for (uint32_t i = 0; i < plan->n_saved; i++) {
        const DtPlanSaved *s = &plan->saved[i];
        dt_text_printf(text, "  %-16s %8lld x  %10s  = %10s", dt_plan_str(plan, s->loop),
                       (long long)s->iterations, dt_people_bytes(one, (double)s->saved),
                       dt_people_bytes(all, (double)s->saved * (double)s->iterations));
        if (s->recomputed)
            dt_text_printf(text, ", %s of each computed again",
                           dt_people_bytes(recomputed, (double)s->recomputed));
        add_pieces(plan, s, text);
        dt_text_add(text, "\n");
    }
}

static void print_entry(const DtPlan *plan, const DtReportEntry *counts, uint32_t first,
                        uint32_t last, DtText *text)
{
    const DtReportEntry entry = *counts;
    char buf[32];
    dt_text_printf(text, "\n%s, on one rank", entry.name);
    if (dt_plan_stages(plan) > 1) {
        dt_text_add(text, " of ");
        add_stages(text, first, last);
    }
    dt_text_add(text, "\n");
    for (uint32_t kind = 0; kind < DT_INST_KINDS; kind++) {
        if (!entry.runs[kind])
            continue;
        dt_text_printf(text, "  %-16s %8lld x", dt_kinds_inst(kind), (long long)entry.runs[kind]);
        if (entry.flops[kind] > 0)
            dt_text_printf(text, "  %12s", dt_people_flops(buf, entry.flops[kind]));
        if (entry.received[kind] > 0)
            dt_text_printf(text, "  %12s received", dt_people_bytes(buf, entry.received[kind]));
        dt_text_add(text, "\n");
    }
}

static bool same_counts(const DtReportEntry *x, const DtReportEntry *y)
{
    return memcmp(x->runs, y->runs, sizeof x->runs) == 0 &&
           memcmp(x->flops, y->flops, sizeof x->flops) == 0 &&
           memcmp(x->received, y->received, sizeof x->received) == 0;
}

/* Returns the last of the consecutive stages whose entries run as much as entry `number`, which
 * share one table with it. Marks these entries in ret_done, as their table is printed. */
static uint32_t join_stages(const DtPlan *plan, uint32_t number, const DtReportEntry *counts,
                            bool *ret_done)
{
    const char *name = dt_plan_str(plan, plan->entries[number].name);
    uint32_t last = (uint32_t)plan->entries[number].stage;
    for (uint32_t i = number + 1; i < plan->n_entries; i++) {
        DtReportEntry other;
        if (plan->entries[i].stage != (int32_t)last + 1 ||
            strcmp(dt_plan_str(plan, plan->entries[i].name), name) != 0)
            continue;
        dt_report_entry(plan, i, &other);
        if (!same_counts(counts, &other))
            break;
        ret_done[i] = true;
        last++;
    }
    return last;
}

static void print_entries(const DtPlan *plan, DtText *text)
{
    bool *done = calloc(plan->n_entries + 1, sizeof *done);
    if (!done)
        dt_arena_exhausted((plan->n_entries + 1) * sizeof *done);
    for (uint32_t i = 0; i < plan->n_entries; i++) {
        DtReportEntry counts;
        int32_t stage = plan->entries[i].stage;
        if (done[i] || dt_report_is_part(plan, i))
            continue;
        dt_report_entry(plan, i, &counts);
        uint32_t last = stage >= 0 ? join_stages(plan, i, &counts, done) : dt_plan_stages(plan) - 1;
        print_entry(plan, &counts, stage >= 0 ? (uint32_t)stage : 0, last, text);
    }
    free(done);
}

/* One line of a list that is sorted by weight: a product or kernel, and how often it runs. */
typedef struct Line {
    uint32_t ref;
    uint32_t span; /* span of the first instruction */
    int64_t runs;
    double weight;
} Line;

static int by_weight(const void *a, const void *b)
{
    const Line *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->ref < y->ref ? -1 : x->ref > y->ref;
}

typedef struct Lines {
    uint32_t kind; /* runs by instruction */
    Line *at;
} Lines;

static void add_runs(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    const Lines *lines = context;
    (void)ranks;
    if (inst->kind != lines->kind)
        return;
    Line *line = &lines->at[inst->ref];
    if (!line->runs)
        line->span = inst->span;
    line->runs += runs;
}

/* Fills ret_lines with each GEMM or kernel, how often it runs in a step and its update, and its
 * work. Returns how many of them run. */
static uint32_t gather_lines(const DtPlan *plan, uint32_t kind, uint32_t n, Line *ret_lines)
{
    Lines lines = {kind, ret_lines};
    for (uint32_t i = 0; i < n; i++)
        ret_lines[i] = (Line){.ref = i};
    dt_report_visit_step(plan, add_runs, &lines);
    for (uint32_t i = 0; i < n; i++)
        ret_lines[i].weight =
            (double)ret_lines[i].runs *
            (kind == DT_INST_GEMM ? dt_report_gemm_flops(&plan->gemms[i]) : plan->kernels[i].bytes);
    qsort(ret_lines, n, sizeof *ret_lines, by_weight);
    uint32_t used = 0;
    while (used < n && ret_lines[used].runs)
        used++;
    return used;
}

enum { LISTED = 12, NAME_WIDTH = 40 };

void dt_report_place(const DtPlan *plan, uint32_t span, DtText *text)
{
    if (span < plan->n_spans && plan->spans[span].line)
        dt_text_printf(text, "  %s:%u%s%s", dt_plan_str(plan, plan->spans[span].file),
                       plan->spans[span].line, plan->spans[span].path ? " " : "",
                       dt_plan_str(plan, plan->spans[span].path));
    dt_text_add(text, "\n");
}

/* Returns the products or kernels sorted by their work, in memory that the caller frees; ret_n: how
 * many of them run. */
static Line *list_lines(const DtPlan *plan, DtPlanInstKind kind, uint32_t *ret_n)
{
    const uint32_t n_records = kind == DT_INST_GEMM ? plan->n_gemms : plan->n_kernels;
    Line *lines = calloc(n_records + 1, sizeof *lines);
    if (!lines)
        dt_arena_exhausted((n_records + 1) * sizeof *lines);
    *ret_n = gather_lines(plan, kind, n_records, lines);
    return lines;
}

/* Prints the title of n lines; returns how many of the lines are printed. */
static uint32_t print_title(const DtPlan *plan, const char *title, uint32_t n, DtText *text)
{
    if (n)
        dt_text_printf(text, "\n%s%s%s\n", title,
                       dt_plan_stages(plan) > 1 ? ", one rank of each stage" : "",
                       n > LISTED ? " (the first 12)" : "");
    return n < LISTED ? n : LISTED;
}

static int64_t batch_of(const DtPlanGemm *g)
{
    int64_t batch = 1;
    for (uint32_t k = 0; k < g->n_batch; k++)
        batch *= g->batch[k];
    return batch;
}

static void print_gemms(const DtPlan *plan, DtText *text)
{
    char buf[32];
    uint32_t n;
    Line *lines = list_lines(plan, DT_INST_GEMM, &n);
    n = print_title(plan, "matrix products of a step by work", n, text);
    for (uint32_t i = 0; i < n; i++) {
        const DtPlanGemm *g = &plan->gemms[lines[i].ref];
        dt_text_printf(text, "  %8lld x  batch %-6lld %6lld x %6lld x %6lld  %12s",
                       (long long)lines[i].runs, (long long)batch_of(g), (long long)g->m,
                       (long long)g->n, (long long)g->k, dt_people_flops(buf, lines[i].weight));
        if (g->epilogue)
            dt_text_printf(text, "  + %s", dt_kinds_epilogues[g->epilogue].name);
        dt_report_place(plan, lines[i].span, text);
    }
    free(lines);
}

/* Text such as " sm_80 40 registers, sm_90a 44 registers and 8 bytes spilled". */
static void print_registers(const DtPlan *plan, uint32_t kernel, DtText *text)
{
    uint32_t n;
    const DtPlanRegisters *of = dt_report_registers(plan, kernel, &n);
    for (uint32_t i = 0; i < n; i++) {
        dt_text_printf(text, "%s%s %u registers", i ? ", " : "  ",
                       dt_plan_str(plan, plan->codes[of[i].code].target), of[i].registers);
        if (of[i].spilled)
            dt_text_printf(text, " and %u bytes spilled", of[i].spilled);
    }
}

static void print_kernels(const DtPlan *plan, DtText *text)
{
    char buf[32];
    uint32_t n;
    Line *lines = list_lines(plan, DT_INST_KERNEL, &n);
    n = print_title(plan, "kernels of a step by bytes moved", n, text);
    for (uint32_t i = 0; i < n; i++) {
        const DtPlanKernel *kernel = &plan->kernels[lines[i].ref];
        const char *name = dt_plan_str(plan, kernel->name);
        bool cut = strlen(name) > NAME_WIDTH;
        dt_text_printf(text, "  %8lld x  %-*.*s%s %12s", (long long)lines[i].runs, NAME_WIDTH,
                       NAME_WIDTH, name, cut ? "..." : "   ",
                       dt_people_bytes(buf, lines[i].weight));
        print_registers(plan, lines[i].ref, text);
        dt_report_place(plan, lines[i].span, text);
    }
    free(lines);
}

void dt_report_details(const DtPlan *plan, DtText *ret_text)
{
    print_head(plan, ret_text);
    print_memory(plan, ret_text);
    print_saved(plan, ret_text);
    print_entries(plan, ret_text);
    dt_traffic_print(plan, ret_text);
    print_gemms(plan, ret_text);
    print_kernels(plan, ret_text);
}

/* ---- JSON ---- */

static json_t *json_saved(const DtPlan *plan)
{
    json_t *loops = json_array();
    for (uint32_t i = 0; i < plan->n_saved; i++) {
        const DtPlanSaved *s = &plan->saved[i];
        json_t *pieces = json_array();
        for (int32_t at = next_piece(plan, s, 0); at >= 0; at = next_piece(plan, s, at + 1))
            json_array_append_new(pieces, json_integer(at));
        json_array_append_new(
            loops, json_pack("{s:s, s:I, s:I, s:I, s:o}", "loop", dt_plan_str(plan, s->loop),
                             "iterations", (json_int_t)s->iterations, "saved", (json_int_t)s->saved,
                             "recomputed", (json_int_t)s->recomputed, "pieces", pieces));
    }
    return loops;
}

static json_t *json_entry(const DtPlan *plan, uint32_t number)
{
    DtReportEntry entry;
    json_t *kinds = json_array();
    dt_report_entry(plan, number, &entry);
    for (uint32_t kind = 0; kind < DT_INST_KINDS; kind++)
        if (entry.runs[kind])
            json_array_append_new(kinds,
                                  json_pack("{s:s, s:I, s:f, s:f}", "kind", dt_kinds_inst(kind),
                                            "runs", (json_int_t)entry.runs[kind], "flops",
                                            entry.flops[kind], "received", entry.received[kind]));
    return json_pack("{s:s, s:i, s:o}", "name", entry.name, "stage",
                     (int)plan->entries[number].stage, "instructions", kinds);
}

/* Writes a source place as JSON fields, as the text report shows it. */
static void set_place(json_t *json, const DtPlan *plan, uint32_t span)
{
    if (span >= plan->n_spans || !plan->spans[span].line)
        return;
    const DtPlanSpan *at = &plan->spans[span];
    json_object_set_new(json, "file", json_string(dt_plan_str(plan, at->file)));
    json_object_set_new(json, "line", json_integer(at->line));
    if (at->path)
        json_object_set_new(json, "path", json_string(dt_plan_str(plan, at->path)));
}

static json_t *json_gemms(const DtPlan *plan)
{
    uint32_t n;
    json_t *gemms = json_array();
    Line *lines = list_lines(plan, DT_INST_GEMM, &n);
    for (uint32_t i = 0; i < n; i++) {
        const DtPlanGemm *g = &plan->gemms[lines[i].ref];
        json_t *json =
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "runs", (json_int_t)lines[i].runs, "batch",
                      (json_int_t)batch_of(g), "m", (json_int_t)g->m, "n", (json_int_t)g->n, "k",
                      (json_int_t)g->k, "flops", lines[i].weight);
        set_place(json, plan, lines[i].span);
        json_array_append_new(gemms, json);
    }
    free(lines);
    return gemms;
}

static json_t *json_registers(const DtPlan *plan, uint32_t kernel)
{
    uint32_t n;
    json_t *list = json_array();
    const DtPlanRegisters *of = dt_report_registers(plan, kernel, &n);
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "target",
                                              dt_plan_str(plan, plan->codes[of[i].code].target),
                                              "registers", (json_int_t)of[i].registers, "spilled",
                                              (json_int_t)of[i].spilled));
    return list;
}

static json_t *json_code(const DtPlan *plan)
{
    DtReportCode code;
    json_t *list = json_array();
    for (uint32_t i = 0; dt_report_code(plan, i, &code); i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:I}", "target", code.target,
                                              "kernels", (json_int_t)code.kernels, "registers",
                                              (json_int_t)code.registers, "spilling",
                                              (json_int_t)code.spilling, "spilled",
                                              (json_int_t)code.spilled));
    return list;
}

static json_t *json_kernels(const DtPlan *plan)
{
    uint32_t n;
    json_t *kernels = json_array();
    Line *lines = list_lines(plan, DT_INST_KERNEL, &n);
    for (uint32_t i = 0; i < n; i++) {
        json_t *json = json_pack("{s:s, s:I, s:f}", "name",
                                 dt_plan_str(plan, plan->kernels[lines[i].ref].name), "runs",
                                 (json_int_t)lines[i].runs, "bytes", lines[i].weight);
        json_object_set_new(json, "code", json_registers(plan, lines[i].ref));
        set_place(json, plan, lines[i].span);
        json_array_append_new(kernels, json);
    }
    free(lines);
    return kernels;
}

json_t *dt_details_json(const DtPlan *plan)
{
    json_t *entries = json_array();
    for (uint32_t i = 0; i < plan->n_entries; i++)
        if (!dt_report_is_part(plan, i))
            json_array_append_new(entries, json_entry(plan, i));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "code", json_code(plan), "saved",
                     json_saved(plan), "entries", entries, "traffic", dt_traffic_json(plan),
                     "gemms", json_gemms(plan), "kernels", json_kernels(plan));
}
