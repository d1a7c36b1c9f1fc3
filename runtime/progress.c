/* SPDX-License-Identifier: Apache-2.0 */
/* What a person sees of a run: on a terminal one line that is rewritten a few times a second,
 * otherwise a line for the first step, the last, about fifty in between, and whenever 30 s have
 * passed without one.
 *
 *     step 120/2000  loss 2.4931  norm 0.81  lr 9.6e-04  51.2 k tokens/s  97.1 MiB  ETA 1 min 32 s
 *
 * While a ramp lasts (`ramp = batch(..)`), `batch 16` says how many samples the step takes.
 *
 * Where the input is no tokens (images, rows) it is samples/s. A plan that says what a step takes
 * on its device has that behind the rest:
 *
 *     ... ETA 1 min 32 s  412 ms a step, predicted 398 ms  MFU 41.2 %
 *
 * Where there are several losses each has its norm and its rate behind it. Updates that a loss
 * scale skipped so far are counted behind the norms.
 */
#include "runtime/runtime.h"

#include "plan/report/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

void dt_progress_open(DtProgress *progress, const DtRank *rank, FILE *out, int64_t first_step,
                      int64_t last_step)
{
    const char *no_color = getenv("NO_COLOR");
    bool terminal = out && isatty(fileno(out));
    *progress = (DtProgress){.out = out, .terminal = terminal,
                             .color = terminal && !(no_color && no_color[0]),
                             .first_step = first_step, .last_step = last_step,
                             .items_per_step = dt_report_items(rank->plan),
                             .batch = rank->ramp.batch,
                             .item = dt_report_item(rank->plan),
                             .began_ns = dt_now_ns(),
                             .shown_step = -1,
                             .period_ns = terminal ? 200000000u : 30000000000u};
    const DtPlan *plan = rank->plan;
    if (plan->n_predictions == 0)
        return;
    progress->predicted = plan->predictions->step;
    progress->flops = plan->meta->model_flops;
    progress->peak = plan->predictions->peak * plan->meta->n_ranks;
}

/* The number of steps between two lines if the output is no terminal: 1, 2, 5, 10, 20, 50 ... so
 * that there are at most about fifty lines. */
static int64_t line_distance(const DtProgress *progress)
{
    static const int factors[3] = {1, 2, 5};
    int64_t steps = progress->last_step - progress->first_step, ten = 1;
    for (int i = 0;; i++) {
        if (i > 0 && i % 3 == 0)
            ten *= 10;
        if (steps / (ten * factors[i % 3]) <= 50)
            return ten * factors[i % 3];
    }
}

static bool is_due(const DtProgress *progress, const DtStepReport *report, uint64_t now)
{
    if (report->step == progress->last_step || progress->shown_step < 0)
        return true;
    if (now - progress->shown_ns >= progress->period_ns)
        return true;
    return !progress->terminal && report->step % line_distance(progress) == 0;
}

static void print_duration(char buf[40], double seconds)
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s < 60)
        snprintf(buf, 40, "%d s", (int)s);
    else if (s < 3600)
        snprintf(buf, 40, "%d min %d s", (int)(s / 60), (int)(s % 60));
    else
        snprintf(buf, 40, "%lld h %d min", (long long)(s / 3600), (int)(s / 60 % 60));
}

static void print_rate(char buf[40], double rate)
{
    if (rate >= 1e6)
        snprintf(buf, 40, "%.2f M", rate * 1e-6);
    else if (rate >= 1e3)
        snprintf(buf, 40, "%.1f k", rate * 1e-3);
    else
        snprintf(buf, 40, "%.1f", rate);
}

void dt_progress_shown(const DtShown *shown, uint32_t first, const char *between, DtText *ret_text)
{
    for (uint32_t i = first; i < shown->n; i++)
        dt_text_printf(ret_text, "%s%s %.4f", i ? between : "", shown->name[i], shown->value[i]);
}

static void add_norm(const DtLossReport *loss, DtText *text)
{
    if (!(loss->grad_norm < 0))
        dt_text_printf(text, "  norm %.3g", loss->grad_norm);
}

/* Adds losses and metrics, norms and rates. */
static void add_values(const DtStepReport *report, DtText *text)
{
    uint32_t n = 0;
    for (uint32_t i = 0; report->n_losses > 1 && i < report->n_losses && n < report->shown.n_losses;
         i++) {
        const DtLossReport *loss = &report->losses[i];
        if (!loss->taken)
            continue;
        dt_text_printf(text, "%s%s %.4f", n ? "  " : "", report->shown.name[n], loss->loss);
        n++;
        add_norm(loss, text);
        dt_text_printf(text, "  lr %.2e", loss->lr);
    }
    dt_progress_shown(&report->shown, n, "  ", text);
    if (report->n_losses == 1)
        add_norm(&report->losses[0], text);
    if (report->scale.skipped > 0)
        dt_text_printf(text, "  skipped %lld", (long long)report->scale.skipped);
    if (report->n_losses == 1)
        dt_text_printf(text, "  lr %.2e", report->losses[0].lr);
}

/* Adds the compiler's prediction, and the MFU from the operations of the serial program (`dtc
 * explain MFU`). */
static void add_predicted(const DtProgress *progress, DtText *text)
{
    const double mean = progress->seconds_per_step;
    if (progress->predicted <= 0 || mean <= 0)
        return;
    dt_text_printf(text, "  %.3g ms a step, predicted %.3g ms", mean * 1e3,
                   progress->predicted * 1e3);
    if (progress->flops > 0 && progress->peak > 0)
        dt_text_printf(text, "  MFU %.1f %%", 100 * progress->flops / (mean * progress->peak));
}

void dt_progress_step(DtProgress *progress, const DtStepReport *report)
{
    char memory[32], eta[40], rate[40];
    uint64_t now = dt_now_ns();
    double *mean = &progress->seconds_per_step;
    /* The first step is slower, since it accesses all memory for the first time; it does not
     * count. */
    *mean = report->step <= progress->first_step + 2 ? report->seconds
                                                     : 0.95 * *mean + 0.05 * report->seconds;
    if (progress->out == NULL || !is_due(progress, report, now))
        return;
    progress->shown_ns = now;
    progress->shown_step = report->step;
    DtText shown = {0}, predicted = {0};
    add_values(report, &shown);
    add_predicted(progress, &predicted);
    print_duration(eta, (double)(progress->last_step - report->step) * *mean);
    const double part = progress->batch > 0 ? (double)report->rows / (double)progress->batch : 1;
    if (part < 1) /* of a ramp */
        dt_text_printf(&shown, "  batch %lld", (long long)report->rows);
    print_rate(rate, progress->items_per_step * part / (*mean > 0 ? *mean : 1));
    fprintf(progress->out, "%s%sstep %lld/%lld%s  %s  %s %s/s  %s  ETA %s%s%s",
            progress->terminal ? "\r" : "", progress->color ? "\033[1m" : "",
            (long long)report->step, (long long)progress->last_step,
            progress->color ? "\033[0m" : "", shown.at ? shown.at : "", rate, progress->item,
            dt_text_bytes(memory, (double)report->memory), eta, predicted.at ? predicted.at : "",
            progress->terminal ? "\033[K" : "\n");
    dt_text_free(&shown);
    dt_text_free(&predicted);
    if (progress->terminal && report->step == progress->last_step)
        fputc('\n', progress->out);
    fflush(progress->out);
}

bool dt_progress_line(DtProgress *progress, const char *format, ...)
{
    va_list args;
    if (progress->out == NULL)
        return true;
    if (progress->terminal)
        fputs("\r\033[K", progress->out);
    DtText line = {0};
    dt_text_add(&line, "");
    va_start(args, format);
    dt_text_vprintf(&line, format, args);
    va_end(args);
    dt_text_say(progress->out, line.at);
    dt_text_free(&line);
    return fflush(progress->out) == 0;
}

void dt_progress_close(DtProgress *progress)
{
    if (progress->out && progress->terminal && progress->shown_step >= 0 &&
        progress->shown_step != progress->last_step)
        fputc('\n', progress->out);
    *progress = (DtProgress){0};
}
