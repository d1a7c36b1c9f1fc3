/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations. Entry "eval" leaves sums over the samples of one batch. They are added up over
 * batches and divided by the number of batches; the expressions of the SHOW records are evaluated
 * on these means, once. So a loss per valid token, a quotient of two sums, is the same number for
 * every size of batch. */
#include "runtime/evaluate.h"

#include "plan/show.h"
#include "runtime/idle_inputs.h"
#include "runtime/mixing.h"
#include "runtime/quantize.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { LINE_SECONDS = 10 }; /* a long evaluation prints a line after so long */

int64_t dt_evaluate_reader(const DtPlan *plan)
{
    for (uint32_t i = 0; i < plan->n_readers; i++)
        if (plan->readers[i].is_eval)
            return i;
    return -1;
}

static bool run_batch(DtRun *run, const char *entry, int64_t batch)
{
    run->rank.eval_batch = batch;
    run->rank.evaluates = true;
    const bool ok = dt_exec_entry(&run->rank, entry);
    run->rank.evaluates = false;
    return ok;
}

/* Adds `factor` times the batch's results to the sums. Those of "eval@codes" count as results of
 * "eval" of the same names, which the SHOW records are about. */
static bool add_batch(DtRun *run, const char *entry, int64_t batch, double factor)
{
    const DtPlan *plan = run->rank.plan;
    if (!run_batch(run, entry, batch))
        return false;
    for (uint32_t m = 0; m < plan->n_metrics; m++) {
        const DtPlanMetric *metric = &plan->metrics[m],
                           *to = dt_exec_metric(plan, "eval", dt_plan_str(plan, metric->name));
        if (dt_show_is_number(metric) && to && !strcmp(dt_plan_str(plan, metric->entry), entry))
            run->sums[to - plan->metrics] += factor * dt_exec_scalar(&run->rank, metric);
    }
    return true;
}

/* The extent of an evaluation: whole batches, then the remaining samples. */
typedef struct Covered {
    const char *entry;
    int64_t whole, rest, samples;
} Covered;

/* Decides whether the samples after the last whole batch are evaluated. They are if all results are
 * sums over samples. Otherwise (for example with a maximum over the batch) a result of a partial
 * batch could not be compared with one of a whole batch. */
static bool cover(DtRun *run, Covered *ret_covered)
{
    DtRank *rank = &run->rank;
    const int64_t reader = dt_evaluate_reader(rank->plan), batch = rank->meta.batch;
    if (reader < 0)
        return dt_rank_fail(
            rank, DT_EXIT_USAGE,
            "the plan has no held-out data: write `eval = every(200, data = ...)` in `train`");
    const int64_t samples = dt_data_samples(rank->readers[reader]);
    Covered c = {.whole = dt_data_batches(rank->readers[reader])};
    c.entry = ret_covered->entry;
    if (rank->meta.eval_steps > 0 && rank->meta.eval_steps <= c.whole)
        c.whole = rank->meta.eval_steps;
    else if (samples > 0 && rank->meta.eval_rest)
        c.rest = samples - c.whole * batch;
    c.samples = c.whole * batch + c.rest;
    *ret_covered = c;
    return c.samples > 0 ||
           dt_rank_fail(rank, DT_EXIT_USAGE,
                        "the held-out data has %lld samples, fewer than a batch of %lld, and what "
                        "is shown is "
                        "no expression of sums over samples: compile with a smaller batch",
                        (long long)samples, (long long)batch);
}

/* Adds the samples after the last whole batch. Batch `whole` holds them and then the last sample
 * over and over; the batch after it holds nothing but the last sample, so its sum is `batch` times
 * the term of that sample. */
static bool add_rest(DtRun *run, const Covered *covered)
{
    const double batch = (double)run->rank.meta.batch, rest = (double)covered->rest;
    return covered->rest == 0 ||
           (add_batch(run, covered->entry, covered->whole, batch) &&
            add_batch(run, covered->entry, covered->whole + 1, rest - batch));
}

/* Prints a line if none has been printed for a while. said: when the last one was. */
static void say_how_far(const DtRun *run, int64_t done, int64_t batches, uint64_t *said)
{
    const DtRank *rank = &run->rank;
    const uint64_t now = dt_now_ns();
    if (rank->rank != 0 || rank->options->quiet || now - *said < LINE_SECONDS * 1000000000ull)
        return;
    *said = now;
    fprintf(stderr, "%sevaluated %lld of %lld batches\n", run->progress.terminal ? "\r\033[K" : "",
            (long long)done, (long long)batches);
}

bool dt_evaluate(DtRun *run, bool coded, DtShown *ret_shown, int64_t *ret_samples)
{
    DtRank *rank = &run->rank;
    const uint32_t n = rank->plan->n_metrics;
    Covered covered = {.entry = coded ? DT_QUANTIZE_EVAL : "eval"};
    if (!cover(run, &covered) || !dt_mixing_average(rank))
        return false;
    memset(run->sums, 0, n * sizeof run->sums[0]);
    atomic_store(&rank->slot->phase, DT_PHASE_EVAL);
    uint64_t said = dt_now_ns();
    for (int64_t i = 0; i < covered.whole; i++) {
        if (!add_batch(run, covered.entry, i, (double)rank->meta.batch))
            return false;
        say_how_far(run, i + 1, covered.whole, &said);
    }
    if (!add_rest(run, &covered))
        return false;
    atomic_store(&rank->slot->phase, DT_PHASE_RUNNING);
    for (uint32_t m = 0; m < n; m++)
        run->sums[m] /= (double)covered.samples;
    dt_shown_over(rank, run->sums, (double)covered.samples / (double)rank->meta.batch, ret_shown);
    *ret_samples = covered.samples;
    return true;
}

/* Fails if a loss is not finite: always under --eval; in training only if the held-out data explain
 * it, since all later evaluations would fail alike. */
static bool check_losses(DtRun *run, const DtShown *shown, int64_t samples, int64_t steps)
{
    DtRank *rank = &run->rank;
    for (uint32_t i = 0; i < shown->n_losses; i++) {
        if (isfinite(shown->value[i]))
            continue;
        DtText why = {0};
        dt_idle_inputs(rank, true, 0, samples, &why);
        const bool ends = rank->options->eval || why.len > 0;
        if (ends)
            dt_rank_fail(
                rank, DT_EXIT_FAILED, "the %s over %lld samples after %lld steps is %s%s",
                shown->n_losses == 1 ? "loss" : shown->name[i], (long long)samples,
                (long long)steps, isnan(shown->value[i]) ? "not a number" : "infinite",
                why.len ? why.at : "");
        dt_text_free(&why);
        if (ends)
            return false;
    }
    return true;
}

bool dt_evaluate_and_show(DtRun *run, int64_t steps, double *ret_loss)
{
    DtShown shown;
    int64_t samples = 0;
    if (!dt_evaluate(run, false, &shown, &samples) || !check_losses(run, &shown, samples, steps))
        return false;
    if (ret_loss)
        *ret_loss = shown.n_losses > 0 ? shown.value[0] : NAN;
    if (run->rank.rank != 0)
        return true;
    DtText text = {0};
    dt_progress_shown(&shown, 0, ", ", &text);
    bool written = dt_progress_line(&run->progress, "eval after %lld steps: %s over %lld samples",
                                    (long long)steps, text.at, (long long)samples);
    dt_text_free(&text);
    if (!written && run->rank.options->eval)
        return dt_rank_fail(&run->rank, DT_EXIT_IO, "cannot write the loss: %s", strerror(errno));
    run->totals.eval = shown;
    if (run->log)
        dt_log_eval(run->log, steps, &shown, samples);
    return true;
}

bool dt_evaluate_codes(DtRun *run, int64_t steps)
{
    DtRank *rank = &run->rank;
    double full;
    DtShown shown;
    int64_t samples;
    if (!dt_evaluate_and_show(run, steps, &full) || !dt_quantize_run(rank) ||
        !dt_evaluate(run, true, &shown, &samples) || !check_losses(run, &shown, samples, steps))
        return false;
    if (rank->rank != 0)
        return true;
    DtText text = {0};
    dt_progress_shown(&shown, 0, ", ", &text);
    const double loss = shown.n_losses > 0 ? shown.value[0] : NAN;
    const bool written =
        dt_progress_line(&run->progress, "eval of codes: %s over %lld samples, %+.4g (%+.2f %%)",
                         text.at, (long long)samples, loss - full, 100 * (loss / full - 1));
    dt_text_free(&text);
    return written || dt_rank_fail(rank, DT_EXIT_IO, "cannot write the loss: %s", strerror(errno));
}
