/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one screen of text: whether it fits, how long a step is, where the time goes, what
 * would help. `dtc explain NAME` explains each name at the beginning of a line. */
#include "plan/report/text.h"

#include "plan/kinds.h"
#include "plan/report/nodes.h"
#include "plan/report/people.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 12 };

static void line(DtText *text, const char *name) { dt_text_printf(text, "%-16s", name); }

/* Appends the name of a stage, "stage 3", with its device if nodes are of several kinds. */
static void add_stage(const DtSummary *s, uint32_t stage, DtText *text)
{
    dt_text_printf(text, "stage %u", stage);
    if (!s->has_time || !s->model.n_kinds)
        return;
    DtArena *arena = dt_arena_new();
    dt_text_printf(text, " (%s)", dt_nodes_say_stage(arena, s->plan, &s->model, stage));
    dt_arena_free(arena);
}

/* ---- the layout ---- */

/* Returns how many nodes the ranks run on; the cluster may have more. */
static int64_t nodes_used(const DtSummary *s)
{
    const int64_t each = s->model.ranks_per_node, ranks = s->plan->meta->n_ranks;
    const int64_t used = each > 0 ? ranks / each + (ranks % each != 0) : s->model.nodes;
    return used < s->model.nodes ? used : s->model.nodes;
}

static void print_head(const DtSummary *s, DtText *text)
{
    const DtPlan *plan = s->plan;
    char a[32], b[32], c[32];
    dt_text_printf(text, "%s for ", dt_plan_str(plan, plan->meta->source));
    if (s->has_time)
        dt_text_add(text, s->devices);
    else
        dt_text_printf(text, "%u %s", plan->meta->n_ranks, dt_plan_str(plan, plan->meta->target));
    if (s->has_time && nodes_used(s) > 1)
        dt_text_printf(text, " on %lld nodes", (long long)nodes_used(s));
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        dt_text_printf(text, "%s%s %u", m ? ", " : ": ", dt_plan_str(plan, plan->mesh[m].name),
                       plan->mesh[m].size);
    dt_text_printf(text, "\n%s parameters; a step is %s samples, ",
                   dt_people_count(a, (double)plan->meta->parameters),
                   dt_people_count(b, (double)plan->meta->batch));
    if (dt_report_has_tokens(plan))
        dt_text_printf(text, "%s tokens, ", dt_people_count(a, (double)plan->meta->tokens));
    dt_text_printf(text, "in %u micro-batch%s\n", plan->meta->n_micro,
                   plan->meta->n_micro == 1 ? "" : "es");
    if (plan->meta->ramp_by > 0)
        dt_text_printf(text,
                       "(a ramp: the first step is %s samples, and %s more each time, over the "
                       "first %s)\n",
                       dt_people_count(a, (double)plan->meta->ramp_from),
                       dt_people_count(b, (double)plan->meta->ramp_by),
                       dt_people_count(c, (double)plan->meta->ramp_over));
    dt_text_add(text, "\n");
}

static void print_fits(const DtSummary *s, DtText *text)
{
    const DtMemory *m = &s->worst;
    char need[32], have[32], left[32];
    const char *where = dt_plan_stages(s->plan) == 1          ? ""
                        : s->has_time && s->model.n_kinds ? " on the stage with least room"
                                                          : " on the stage with most";
    dt_people_bytes(need, (double)m->reserved);
    if (s->have <= 0) {
        line(text, s->is_gpu ? "reserved" : "allocated");
        dt_text_printf(text, "%s a rank%s; dtrun compares with the memory of its machine\n", need,
                       where);
        return;
    }
    const double free_bytes = s->have - (double)m->reserved;
    line(text, free_bytes >= 0 ? "fits" : "DOES NOT FIT");
    dt_text_printf(text, "%s of %s a rank%s: %s %s\n", need, dt_people_bytes(have, s->have), where,
                   dt_people_bytes(left, fabs(free_bytes)),
                   free_bytes >= 0 ? "are free" : "too much");
}

/* Appends flags of the stack, such as "scores, dropout_masks (of attention alone)": those that the
 * plan's price contains, or those that it does not. Returns their number. */
static uint32_t add_flags(const DtStack *stack, bool in_plan, DtText *text)
{
    uint32_t n = 0;
    for (int i = 0; i < DT_STACK_FLAGS; i++) {
        const DtStackRow *row = &dt_stack_rows[i];
        if (!stack->has[i] || (row->in_plan != NULL) != in_plan)
            continue;
        dt_text_printf(text, "%s%s", n++ ? ", " : "", row->name);
        if (in_plan && *row->in_plan)
            dt_text_printf(text, " (%s)", row->in_plan);
    }
    return n;
}

/* Whether the stack has effects that are not part of the times, and so not of the band. */
static bool leaves_out(const DtSummary *s)
{
    DtText out = {0};
    const bool some = s->model.stack && add_flags(s->model.stack, false, &out) > 0;
    dt_text_free(&out);
    return some;
}

/* Prints, for a stack (the software that is priced) other than this runtime, which of its effects
 * the times above contain and which they do not. */
static void print_stack(const DtSummary *s, DtText *text)
{
    const DtStack *stack = s->model.stack;
    DtText in = {0}, out = {0};
    const uint32_t n_in = stack ? add_flags(stack, true, &in) : 0,
                   n_out = stack ? add_flags(stack, false, &out) : 0;
    if (n_in + n_out > 0) {
        line(text, "stack");
        dt_text_printf(text, "%s, priced with %s\n", stack->name,
                       n_in ? in.at : "nothing of what it does");
        if (n_out) {
            line(text, "");
            dt_text_printf(text, "NOT in these times: %s\n", out.at);
        }
    }
    dt_text_free(&in);
    dt_text_free(&out);
}

static void print_run(const DtSummary *s, DtText *text)
{
    char a[32], b[32], c[32];
    if (s->tokens <= 0 || dt_report_items(s->plan) <= 0)
        return;
    const double steps = ceil(s->tokens / dt_report_items(s->plan)),
                 seconds = steps * s->sim.seconds;
    const double hours = seconds / 3600 * s->plan->meta->n_ranks;
    line(text, "run");
    dt_text_printf(text, "%s %s are %s step%s: %s, %s device-hours", dt_people_count(a, s->tokens),
                   dt_report_item(s->plan), dt_people_count(b, steps), steps == 1 ? "" : "s",
                   dt_people_seconds(c, seconds), dt_people_count((char[32]){0}, hours));
    if (s->price > 0)
        dt_text_printf(text, ", %s at %g per device-hour", dt_people_count(a, hours * s->price),
                       s->price);
    dt_text_add(text, "\n");
}

static void print_speed(const DtSummary *s, DtText *text)
{
    const DtPlanMeta *meta = s->plan->meta;
    char a[32], b[32], c[32];
    line(text, "step");
    dt_text_printf(text, "%s, four times in five between %s and %s%s%s\n",
                   dt_people_seconds(a, s->sim.seconds), dt_people_seconds(b, s->sim.low),
                   dt_people_seconds(c, s->sim.high),
                   leaves_out(s) ? ", if what is NOT in these times takes none" : "",
                   s->sim.estimated ? "; parts of it are extrapolated" : "");
    const double rate = dt_report_items(s->plan) / s->sim.seconds;
    line(text, dt_report_has_tokens(s->plan) ? "tokens/s" : "samples/s");
    dt_text_printf(text, "%s, %s a device\n", dt_people_count(a, rate),
                   dt_people_count(b, rate / meta->n_ranks));
    if (s->peak > 0) {
        line(text, "MFU");
        dt_text_printf(text, "%s = %s of the model / (step x %u x %s/s of %s%s)",
                       dt_people_share(a, s->mfu, 1), dt_people_flops(b, s->model_flops),
                       meta->n_ranks, dt_people_flops(c, s->peak),
                       dt_price_product(s->plan, s->dtype),
                       s->model.n_kinds ? ", the mean of the devices" : "");
        if (fabs(s->hfu - s->mfu) > 0.002)
            dt_text_printf(text, "; HFU %s", dt_people_share(a, s->hfu, 1));
        dt_text_add(text, "\n");
    }
    print_run(s, text);
}

/* ---- memory ---- */

/* Text such as "add of h.attention (gpt2.dsl:21)". */
static void add_place(const DtPlan *plan, uint32_t number, DtText *text)
{
    const DtPlanSpan *span = number < plan->n_spans ? &plan->spans[number] : NULL;
    if (!span)
        return;
    dt_text_printf(text, ", at %s%s%s", dt_plan_str(plan, span->text),
                   span->text && span->path ? " of " : "", dt_plan_str(plan, span->path));
    if (span->line)
        dt_text_printf(text, " (%s:%u)", dt_plan_str(plan, span->file), span->line);
}

/* The additional memory for "predict", on the stage that needs most. */
static void print_predict(const DtSummary *s, DtText *text)
{
    DtMemory most = s->worst, other;
    char buf[32];
    for (uint32_t i = 0; i < dt_plan_stages(s->plan); i++) {
        dt_memory_stage(s->plan, i, s->is_gpu, &other);
        most = other.predict > most.predict ? other : most;
    }
    if (!most.predict)
        return;
    line(text, "");
    dt_text_printf(text, "predict needs %s more", dt_people_bytes(buf, (double)most.predict));
    if (most.stage != s->worst.stage) {
        dt_text_add(text, " on ");
        add_stage(s, most.stage, text);
    }
    dt_text_add(text, " (dtrun --generate), training does not\n");
}

/* Prints the memory that saves need on a CPU, unless it is less than a MiB, or less than a
 * hundredth of rank 0's memory. On a GPU it is memory of the host. */
static void print_save(const DtSummary *s, DtText *text)
{
    DtMemory m;
    char buf[32];
    const int64_t bytes = dt_memory_copy(s->plan);
    dt_memory_stage(s->plan, 0, s->is_gpu, &m);
    if (s->is_gpu || bytes < 1 << 20 || bytes < m.allocated / 100)
        return;
    line(text, "");
    dt_text_printf(text, "each rank takes %s more for a copy while it saves\n",
                   dt_people_bytes(buf, (double)bytes));
}

/* Prints what a library for attention would cost: memory and, in backward, the time to write and
 * read the gradients of all scores. */
static void print_attention(const DtSummary *s, DtText *text)
{
    const double moved = dt_memory_scores(s->plan),
                 rate = s->has_time ? s->model.device->memory_rate : 0;
    char a[32], b[32];
    if (s->plan->n_sdpas == 0)
        return;
    line(text, "");
    dt_text_printf(
        text,
        "%u of %u kernels of attention may be cuDNN's (dtrun --attention), with up to %s more\n",
        s->plan->n_sdpas, s->plan->n_attentions, dt_people_bytes(a, dt_memory_attention(s->plan)));
    if (moved == 0)
        return;
    line(text, "");
    dt_text_printf(text,
                   "backward it then stores and reads gradients of scores (not on sm_10x): %s a "
                   "rank in a step",
                   dt_people_bytes(a, moved));
    if (rate > 0)
        dt_text_printf(text, ", at least %s", dt_people_seconds(b, moved / rate));
    dt_text_add(text, "\n");
}

static void print_memory(const DtSummary *s, DtText *text)
{
    const DtMemory *m = &s->worst;
    const DtPlanPeak *peak = dt_memory_peak(s->plan, m->stage);
    char a[32];
    dt_text_add(text, "\n");
    line(text, "memory");
    if (dt_plan_stages(s->plan) > 1) {
        add_stage(s, m->stage, text);
        dt_text_add(text, ": ");
    }
    const char *comma = "";
    if (s->is_gpu)
        dt_text_printf(text, "%s allocated: ", dt_people_bytes(a, (double)m->allocated));
    for (int k = 0; k < DT_ARENA_KINDS; k++)
        if (m->arenas[k] && dt_plan_is_usual((uint32_t)k)) {
            dt_text_printf(text, "%s%s %s", comma, dt_memory_kinds[k],
                           dt_people_bytes(a, (double)m->arenas[k]));
            comma = ", ";
        }
    dt_text_add(text, "\n");
    for (int k = 0; k < DT_OVERHEADS && s->is_gpu; k++) {
        if (k == 0)
            line(text, "");
        dt_text_printf(text, "%s%s %s", k ? ", " : "beside it ", dt_memory_overheads[k].name,
                       dt_people_bytes(a, (double)m->overheads[k]));
    }
    if (s->is_gpu)
        dt_text_printf(text, ": %s reserved\n", dt_people_bytes(a, (double)m->reserved));
    if (peak) {
        line(text, "");
        if (m->in_flight)
            dt_text_printf(text, "micro-batches in flight keep %s of activations; beside them",
                           dt_people_bytes(a, (double)m->in_flight));
        else
            dt_text_add(text, "activations are");
        dt_text_printf(text, " most, %s", dt_people_bytes(a, (double)peak->live));
        add_place(s->plan, peak->span, text);
        dt_text_add(text, "\n");
    }
    print_predict(s, text);
    print_save(s, text);
    print_attention(s, text);
}

/* Prints the registers of a GPU's kernels, if the plan has machine code. */
static void print_code(const DtSummary *s, DtText *text)
{
    const DtPlan *plan = s->plan;
    DtReportCode code;
    for (uint32_t i = 0; dt_report_code(plan, i, &code); i++) {
        line(text, i ? "" : "code");
        dt_text_printf(text, "%s: %u kernels, at most %u registers a thread, ", code.target,
                       code.kernels, code.registers);
        if (code.spilling) {
            dt_text_printf(text, "%u of them spill%s; most %u bytes:", code.spilling,
                           code.spilling == 1 ? "s" : "", code.spilled);
            add_place(plan, plan->kernels[code.worst].span, text);
        } else {
            dt_text_add(text, "none spills");
        }
        dt_text_add(text, "\n");
    }
    if (!plan->n_registers && plan->n_launches) {
        line(text, "code");
        dt_text_add(text,
                    "none: `dtc report PLAN` says registers and spills of a plan with code\n");
    }
}

/* ---- time ---- */

typedef struct Row { const char *name; double seconds; } Row;

static int by_seconds(const void *a, const void *b)
{
    const Row *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static void print_time(const DtSummary *s, DtText *text)
{
    const DtStageTime *busiest = &s->sim.stages[s->sim.busiest];
    Row rows[DT_TIMES];
    char a[32], b[32];
    for (int t = 0; t < DT_TIMES; t++)
        rows[t] = (Row){dt_price_times[t].name, busiest->time[t]};
    qsort(rows, DT_TIMES, sizeof *rows, by_seconds);
    dt_text_add(text, "\ntime");
    if (s->sim.n_stages > 1) {
        dt_text_add(text, " of ");
        add_stage(s, s->sim.busiest, text);
        dt_text_add(text, ", which waits least for the others");
    }
    dt_text_add(text, "\n");
    for (int t = 0; t < DT_TIMES; t++)
        if (rows[t].seconds > s->sim.seconds * 5e-4)
            dt_text_printf(text, "  %-22s %8s  %10s\n", rows[t].name,
                           dt_people_share(a, rows[t].seconds, s->sim.seconds),
                           dt_people_seconds(b, rows[t].seconds));
    if (s->sim.n_stages > 1) {
        line(text, "bubble");
        dt_text_printf(text, "%s, the mean over stages\n", dt_people_share(a, s->bubble, 1));
    }
    line(text, "limit");
    dt_text_printf(text, "%s: %s of the step\n", rows[0].name,
                   dt_people_share(a, rows[0].seconds, s->sim.seconds));
}

/* ---- traffic ---- */

typedef struct Axis { uint32_t mask; double received, exposed, runs; int64_t count, beside; } Axis;

static uint32_t gather_axes(const DtSummary *s, const DtReportTraffic *traffic, Axis *ret_axes)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < s->plan->n_groups; g++) {
        uint32_t at = 0;
        if (!traffic[g].runs)
            continue;
        while (at < n && ret_axes[at].mask != s->plan->groups[g].mask)
            at++;
        if (at == n)
            ret_axes[n++] = (Axis){.mask = s->plan->groups[g].mask};
        ret_axes[at].received += traffic[g].received / s->plan->meta->n_ranks;
        ret_axes[at].count += traffic[g].runs;
        ret_axes[at].beside += traffic[g].beside;
        if (s->has_time) {
            ret_axes[at].exposed += s->sim.stages[s->sim.busiest].exposed[g];
            ret_axes[at].runs += s->sim.stages[s->sim.busiest].beside[g];
        }
    }
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    const Axis *x = a, *y = b;
    return x->received < y->received ? 1 : x->received > y->received ? -1 : 0;
}

static void print_axis(const DtSummary *s, const Axis *axis, DtText *text)
{
    char a[32], b[32], name[64] = "";
    for (uint32_t m = 0; m < s->plan->n_mesh; m++)
        if (axis->mask >> m & 1) {
            const size_t len = strlen(name);
            snprintf(name + len, sizeof name - len, "%s%s", len ? " " : "",
                     dt_plan_str(s->plan, s->plan->mesh[m].name));
        }
    dt_text_printf(text, "  %-22s %10s received by a rank", name,
                   dt_people_bytes(a, axis->received));
    if (s->has_time)
        dt_text_printf(text, "; takes %s, of which %s exposed", dt_people_seconds(a, axis->runs),
                       dt_people_share(b, axis->exposed, axis->runs));
    dt_text_add(text, "\n");
}

static void print_traffic(const DtSummary *s, DtText *text)
{
    const DtPlan *plan = s->plan;
    DtReportTraffic *traffic = calloc(plan->n_groups + plan->n_channels + 1, sizeof *traffic);
    Axis *axes = calloc(plan->n_groups + 1, sizeof *axes);
    double messages = 0;
    char a[32];
    if (!traffic || !axes)
        dt_arena_exhausted((plan->n_groups + plan->n_channels + 1) * sizeof *traffic);
    dt_report_traffic(plan, traffic, traffic + plan->n_groups);
    const uint32_t n = gather_axes(s, traffic, axes);
    qsort(axes, n, sizeof *axes, by_bytes);
    for (uint32_t c = 0; c < plan->n_channels; c++)
        messages += traffic[plan->n_groups + c].received / plan->meta->n_ranks;
    if (n || messages > 0)
        dt_text_add(text, "\ntraffic of a step, by mesh axes\n");
    for (uint32_t i = 0; i < n && i < LINES; i++)
        if (axes[i].received >= 1e-6 * axes[0].received ||
            (s->has_time && axes[i].exposed > 1e-3 * s->sim.seconds))
            print_axis(s, &axes[i], text);
    if (messages > 0)
        dt_text_printf(text, "  %-22s %10s received by a rank, the mean\n", "messages of stages",
                       dt_people_bytes(a, messages));
    free(traffic);
    free(axes);
}

/* ---- what would help ---- */

static void print_changes(const DtSummary *s, DtText *text)
{
    char a[32], b[32];
    if (s->n_changes)
        dt_text_add(text, "\nwhat would help most\n");
    for (uint32_t i = 0; i < s->n_changes; i++)
        dt_text_printf(text, "  %s%s less  %s: %s\n", s->changes[i].bound ? "up to " : "",
                       dt_people_share(a, s->sim.seconds - s->changes[i].seconds, s->sim.seconds),
                       s->changes[i].text, dt_people_seconds(b, s->changes[i].seconds));
}

/* Prints why the report has no time for a step, and how to get one. */
static void print_no_step(const DtSummary *s, DtText *text)
{
    line(text, "step");
    if (s->plan->n_objectives == 0) {
        dt_text_add(text, "none: the program trains nothing\n");
        return;
    }
    dt_text_add(
        text,
        "not known: there is no device to price it for. It is that of a cluster in the program,\n");
    line(text, "");
    dt_text_add(text, "`cluster pod { gpus = 8; gpu = \"h100-sxm\" }`, or of a processor that `dtc "
                      "calibrate` has "
                      "measured;\n");
    line(text, "");
    dt_text_add(text, "gpu = \"cpu\" is priced by `dtc FILE.dsl --report`, but is no device that a "
                      "plan file names\n");
}

void dt_text_report(const DtSummary *s, DtText *ret_text)
{
    print_head(s, ret_text);
    print_fits(s, ret_text);
    if (s->has_time) {
        print_speed(s, ret_text);
        print_stack(s, ret_text);
    } else if (s->stuck) {
        line(ret_text, "step");
        dt_text_add(
            ret_text,
            "never ends: stages wait for each other for ever (`dtc verify PLAN` says where)\n");
    } else {
        print_no_step(s, ret_text);
    }
    print_memory(s, ret_text);
    print_code(s, ret_text);
    if (s->has_time)
        print_time(s, ret_text);
    print_traffic(s, ret_text);
    if (s->has_time)
        print_changes(s, ret_text);
}
