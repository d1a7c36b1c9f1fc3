/* SPDX-License-Identifier: Apache-2.0 */
/* The first and the last lines of a training run, which tell a reader of a saved output what was
 * run and what came of it:
 *
 *     model     gpt (quickstart.dsl), 836,864 parameters
 *     layout    data = 2: 2 ranks on cpu, 41.3 MiB of memory each
 *     data      fortunes.txt: 4,163 samples, 130 steps an epoch of 32 samples a step
 *     run       steps 1 to 1000, evaluation every 200 steps, checkpoints in out/checkpoint
 *     ...
 *     done      1000 steps in 1.58 min, 51.2 k tokens/s, goodput 97.2 %
 *     loss      5.5438 at the first step, 2.4312 over the last 20; evaluation: loss 2.5113
 *     files     out/checkpoint, out/log.jsonl, out/log.jsonl.html
 *     next      dtrun out/quickstart.plan --steps 2000 --resume out/checkpoint
 */
#include "runtime/banner.h"

#include "plan/report/people.h"
#include "plan/report/report.h"
#include "runtime/command.h"
#include "runtime/data.h"
#include "runtime/memory.h"
#include "runtime/outputs.h"
#include "runtime/page.h"
#include "runtime/rank.h"

#include <string.h>
#include <sys/stat.h>

/* Appends a number with commas between groups of three digits, such as "1,234,567". */
static void add_grouped(DtText *text, int64_t value)
{
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%lld", (long long)value);
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
            dt_text_add(text, ",");
        dt_text_add_n(text, &digits[i], 1);
    }
}

static void show(DtProgress *progress, const char *head, DtText *text)
{
    dt_progress_line(progress, "%-9s %s", head, text->at ? text->at : "");
    dt_text_free(text);
}

/* ---- before the first step ---- */

static void show_model(const DtRank *rank, DtProgress *progress)
{
    const DtPlanMeta *meta = &rank->meta;
    const char *source = dt_plan_str(rank->plan, meta->source), *slash = strrchr(source, '/');
    DtText text = {0};
    dt_text_printf(&text, "%s (%s), ", dt_plan_str(rank->plan, meta->model),
                   slash ? slash + 1 : source);
    add_grouped(&text, meta->parameters);
    dt_text_add(&text, " parameters");
    show(progress, "model", &text);
}

/* Returns the bytes of all arenas of the rank that has most. */
static double largest_arenas(const DtRank *rank)
{
    uint64_t most = 0;
    for (uint32_t stage = 0; stage < dt_plan_stages(rank->plan); stage++) {
        const uint64_t bytes = dt_memory_arenas(rank->options, rank->plan, stage);
        most = bytes > most ? bytes : most;
    }
    return (double)most;
}

static void show_layout(const DtRank *rank, DtProgress *progress)
{
    const DtPlan *plan = rank->plan;
    DtText text = {0};
    char memory[32];
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        dt_text_printf(&text, "%s%s = %u", m ? ", " : "", dt_plan_str(plan, plan->mesh[m].name),
                       plan->mesh[m].size);
    dt_text_printf(&text, "%s%u rank%s on %s, %s of memory%s", plan->n_mesh ? ": " : "",
                   rank->n_ranks, rank->n_ranks > 1 ? "s" : "", rank->device_ops->name,
                   dt_text_bytes(memory, largest_arenas(rank)), rank->n_ranks > 1 ? " each" : "");
    if (plan->meta->n_micro > 1)
        dt_text_printf(&text, ", %u micro-batches a step", plan->meta->n_micro);
    show(progress, "layout", &text);
}

static bool show_reader(DtRank *rank, DtProgress *progress, uint32_t reader)
{
    DtText text = {0};
    DtDataPlace place;
    const int64_t samples = dt_data_samples(rank->readers[reader]), batch = rank->meta.batch;
    DtStatus status = dt_datapaths_place(rank->memory, rank->options, rank->plan, reader, &place);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    dt_text_add(&text, place.synthetic ? "random numbers" : place.literal);
    const double mixed = rank->readers[reader]->mixed; /* the part that comes from this source */
    const double each = mixed > 0 ? mixed * (double)batch : (double)batch; /* samples of a step */
    if (mixed > 0)
        dt_text_printf(&text, ", %.4g %% of the samples", 100 * mixed);
    if (samples > 0) {
        dt_text_add(&text, ": ");
        add_grouped(&text, samples);
        dt_text_printf(&text, " sample%s", samples == 1 ? "" : "s");
    }
    if (samples > 0 && mixed > 0) {
        dt_text_printf(&text, ", an epoch of %.4g steps", (double)samples / each);
    } else if (samples > 0 && !rank->plan->readers[reader].is_eval) {
        dt_text_add(&text, ", ");
        if (samples < batch) {
            dt_text_printf(&text, "%.3g epochs a step, ", (double)batch / (double)samples);
        } else {
            add_grouped(&text, samples / batch);
            dt_text_printf(&text, " step%s an epoch of ", samples / batch == 1 ? "" : "s");
        }
        add_grouped(&text, batch);
        dt_text_printf(&text, " sample%s a step", batch == 1 ? "" : "s");
        if (rank->ramp.by > 0)
            dt_text_printf(
                &text, " (from %lld on, %lld more each time, over the first %lld samples)",
                (long long)rank->ramp.from, (long long)rank->ramp.by, (long long)rank->ramp.over);
    }
    show(progress, rank->plan->readers[reader].is_eval ? "held out" : "data", &text);
    return true;
}

static void show_run(const DtRank *rank, DtProgress *progress, int64_t first_step)
{
    const DtPlanMeta *meta = &rank->meta;
    const char *folder = dt_outputs_folder(rank->options);
    DtText text = {0};
    dt_text_printf(&text, "steps %lld to %lld", (long long)first_step + 1, (long long)meta->steps);
    if (meta->epochs > 0)
        dt_text_printf(&text, " (%g epoch%s)", meta->epochs, meta->epochs == 1 ? "" : "s");
    if (meta->eval_every > 0)
        dt_text_printf(&text, ", evaluation every %lld steps", (long long)meta->eval_every);
    dt_text_printf(&text, folder ? ", checkpoints in %s" : ", no checkpoints (--save DIR)", folder);
    show(progress, "run", &text);
}

bool dt_banner_begin(DtRank *rank, DtProgress *progress, int64_t first_step)
{
    if (progress->out == NULL || first_step >= rank->meta.steps)
        return true;
    show_model(rank, progress);
    show_layout(rank, progress);
    for (uint32_t i = 0; i < rank->plan->n_readers; i++)
        if (rank->readers[i] && !show_reader(rank, progress, i))
            return false;
    show_run(rank, progress, first_step);
    return true;
}

/* ---- after the last step ---- */

void dt_banner_step(DtRunTotals *totals, const DtStepReport *report)
{
    totals->steps++;
    totals->seconds += report->seconds;
    totals->goodput = report->goodput;
    totals->rows += report->rows;
    if (totals->steps > 2) {
        totals->timed++;
        totals->timed_rows += report->rows;
        totals->timed_seconds += report->seconds;
    }
    for (uint32_t i = 0; i < report->n_losses; i++) {
        struct DtLossTotals *loss = &totals->losses[i];
        if (!report->losses[i].taken)
            continue;
        loss->first = loss->n ? loss->first : report->losses[i].loss;
        loss->recent[loss->n++ % DT_BANNER_RECENT] = report->losses[i].loss;
    }
}

static void show_rate(const DtProgress *progress, const DtRunTotals *totals, DtText *ret_text)
{
    const bool all = totals->timed == 0;
    const double rows = (double)(all ? totals->rows : totals->timed_rows);
    const double steps = progress->batch > 0 ? rows / (double)progress->batch : 0;
    const double seconds = all ? totals->seconds : totals->timed_seconds;
    char buffer[32];
    dt_text_printf(ret_text, "%lld step%s in %s", (long long)totals->steps,
                   totals->steps == 1 ? "" : "s", dt_people_seconds(buffer, totals->seconds));
    if (seconds > 0)
        dt_text_printf(ret_text, ", %s %s/s",
                       dt_people_count(buffer, progress->items_per_step * steps / seconds),
                       progress->item);
    if (totals->goodput > 0)
        dt_text_printf(ret_text, ", goodput %.1f %%", 100 * totals->goodput);
}

static void show_losses(const DtPlan *plan, const DtRunTotals *totals, DtText *ret_text)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->n_objectives; i++) {
        const struct DtLossTotals *loss = &totals->losses[i];
        const int64_t n = loss->n < DT_BANNER_RECENT ? loss->n : DT_BANNER_RECENT;
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += loss->recent[k];
        if (n == 0)
            continue;
        if (any)
            dt_text_add(ret_text, "; ");
        if (plan->n_objectives > 1)
            dt_text_printf(ret_text, "%s ", dt_plan_str(plan, plan->objectives[i].loss));
        dt_text_printf(ret_text, "%.4f at the first step", loss->first);
        if (loss->n > 1)
            dt_text_printf(ret_text, ", %.4f over the last %lld", sum / (double)n, (long long)n);
        any = true;
    }
    if (totals->eval.n > 0) {
        dt_text_add(ret_text, any ? "; evaluation: " : "evaluation: ");
        dt_progress_shown(&totals->eval, 0, ", ", ret_text);
    }
}

static void add_file(DtText *text, const char *file)
{
    if (file)
        dt_text_printf(text, "%s%s", text->len ? ", " : "", file);
}

static void show_files(const DtRunOptions *options, const char *folder, const char *exported,
                       DtProgress *progress)
{
    DtText text = {0};
    char page[DT_PAGE_PATH];
    add_file(&text, folder);
    add_file(&text, options->log);
    add_file(&text, dt_page_path(options, page) ? page : NULL);
    add_file(&text, options->trace);
    add_file(&text, options->record);
    add_file(&text, exported);
    if (text.len)
        show(progress, "files", &text);
    dt_text_free(&text);
}

/* Says after which step the held-out loss was lowest, and where that checkpoint is, unless it was
 * not saved or is in the folder from which the run was resumed. */
static void show_best(const DtRank *rank, DtProgress *progress, const char *folder)
{
    const DtBest *best = &rank->best;
    DtText text = {0}, path = {0};
    struct stat about;
    if (!best->any)
        return;
    dt_text_printf(&text, "evaluation after step %lld: loss %.4f", (long long)best->steps,
                   best->loss);
    dt_text_printf(&path, "%s/step-%08lld", folder ? folder : "", (long long)best->steps);
    if (folder && rank->meta.keep_best && stat(path.at, &about) == 0)
        dt_text_printf(&text, ", %s", path.at);
    dt_text_free(&path);
    show(progress, "best", &text);
}

void dt_banner_end(const DtRank *rank, DtProgress *progress, const DtRunTotals *totals,
                   bool is_saved)
{
    const DtRunOptions *options = rank->options;
    const char *folder = is_saved ? dt_outputs_folder(options) : NULL;
    DtText rate = {0}, losses = {0}, command = {0};
    if (progress->out == NULL || totals->steps == 0)
        return;
    show_rate(progress, totals, &rate);
    show(progress, "done", &rate);
    show_losses(rank->plan, totals, &losses);
    show(progress, "loss", &losses);
    show_best(rank, progress, folder);
    show_files(options, folder,
               rank->step >= rank->meta.steps || dt_best_is_over(rank) ? options->export : NULL,
               progress);
    /* if the run was stopped, the message about that already has the command */
    if (folder && rank->step >= rank->meta.steps && !dt_best_is_over(rank)) {
        dt_command_resume(options, folder, 2 * rank->meta.steps, &command);
        show(progress, "next", &command);
    }
}
