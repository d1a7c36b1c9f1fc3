/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one rank: load, initial or saved parameters, then steps. A step is, for each loss
 * that it takes, the scalars of the step, the entry "step" (loss and gradients over all
 * micro-batches and ranks) and the entry "update". Before the update the loss is looked at: one
 * that is not finite ends the run before anything changes. So does a norm of gradients that is not
 * finite: the update itself then keeps what there was.
 *
 * All ranks take the same decisions: losses and norms are equal on all of them, and the wish to
 * stop (Ctrl-C) is turned into a step number by rank 0 before it begins that step, which every rank
 * reads after it. */
#include "runtime/train.h"
#include "base/file.h"
#include "runtime/banner.h"
#include "runtime/command.h"
#include "runtime/compare.h"
#include "runtime/data_same.h"
#include "runtime/device.h"
#include "runtime/evaluate.h"
#include "runtime/export.h"
#include "runtime/graphs.h"
#include "runtime/idle_inputs.h"
#include "runtime/import.h"
#include "runtime/mixing.h"
#include "runtime/outputs.h"
#include "runtime/profile.h"
#include "runtime/quantize.h"
#include "runtime/reading.h"
#include "runtime/predict.h"
#include "runtime/reference.h"
#include "runtime/saver.h"
#include "runtime/straggler.h"
#include "runtime/traffic.h"
#include "runtime/trial.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Writes each line as an event of the log; frees the text. */
static void log_lines(DtRun *run, const char *event, int64_t step, DtText *lines)
{
    for (char *line = lines->at, *end; run->log && line && (end = strchr(line, '\n'));
         line = end + 1) {
        *end = '\0';
        dt_log_event(run->log, event, step, line);
    }
    dt_text_free(lines);
}

/* ---- one step ---- */

/* Sets the scalars of the step for this loss. Returns the learning rate; NaN: there is none. */
static double write_scalars(DtRun *run, uint32_t objective)
{
    DtRank *rank = &run->rank;
    const DtPlan *plan = rank->plan;
    const char *rate = dt_plan_str(plan, plan->objectives[objective].rate);
    double lr = NAN;
    for (uint32_t i = 0; i < plan->n_scalars; i++) {
        const DtPlanScalar *scalar = &plan->scalars[i];
        const char *name = dt_plan_str(plan, scalar->name);
        double value = dt_settings_scalar(plan, scalar, &rank->settings, rank->step,
                                          rank->updates[objective] + 1, rank->scale.factor,
                                          dt_ramp_rows(&rank->ramp, rank->step));
        if (run->trial)
            value = dt_trial_scalar(run->trial, name, value);
        if (strcmp(name, rate) == 0)
            lr = value;
        float narrow = (float)value;
        const DtPlaceAt place = dt_device_place(rank, scalar->arena, scalar->offset, sizeof narrow);
        dt_device_put(rank, place, &narrow, sizeof narrow);
    }
    return lr;
}

static uint64_t largest_memory(const DtRun *run)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < run->rank.n_ranks; r++) {
        uint64_t bytes = atomic_load(&dt_shared_slot(run->rank.plan, run->rank.shared, r)->memory);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* ---- saving ---- */

static const char will_try_again[] = "the run goes on and tries again at its next save";

/* Reports a save that failed, and counts it. It does not end the run: later the disk may have room
 * again, or be there again. */
static void note_failed_save(DtRun *run, int64_t steps, const DtStatus *status, const char *further)
{
    run->not_saved++;
    if (run->rank.rank != 0)
        return;
    char line[sizeof status->message + 120];
    snprintf(line, sizeof line, "dtrun: %s; %s", status->message, further);
    if (run->progress.terminal)
        fputs("\r\033[K", stderr);
    dt_text_say(stderr, line);
    if (run->log)
        dt_log_event(run->log, "not_saved", steps, status->message);
}

/* Removes older checkpoints, once a step that began with the new checkpoint's values had a finite
 * loss and norm, or when there is no further step. A skipped step does not count: it may be the
 * first of many, until the loss scale is 1 and the run fails. While a checkpoint is being written
 * nothing is removed: both use the same names of folders. */
static void trim(DtRun *run, bool is_over)
{
    DtRank *rank = &run->rank;
    if (!run->unproven || run->saving >= 0 || (run->sound <= run->saved && !is_over))
        return;
    run->unproven = false;
    atomic_store(&rank->slot->phase, DT_PHASE_SAVING);
    DtStatus status = dt_checkpoint_trim(rank, dt_outputs_folder(rank->options));
    if (!dt_status_ok(&status))
        note_failed_save(run, rank->step, &status,
                         "older checkpoints are not removed, the run goes on");
    atomic_store(&rank->slot->phase, DT_PHASE_RUNNING);
}

/* Records how the save that was begun has ended. */
static void note_save(DtRun *run, const DtStatus *status)
{
    DtRank *rank = &run->rank;
    const char *folder = dt_outputs_folder(rank->options);
    const int64_t steps = run->saving;
    run->saving = -1;
    if (!dt_status_ok(status)) {
        note_failed_save(run, steps, status, run->if_not);
        return;
    }
    run->saved = steps;
    if (rank->rank != 0)
        return;
    char text[60];
    snprintf(text, sizeof text, "%.6f s", (double)(dt_now_ns() - run->saving_ns) * 1e-9);
    if (run->log)
        dt_log_event(run->log, "written", steps, text);
    run->unproven = true;
    dt_progress_line(&run->progress, "saved %lld steps in %s", (long long)steps, folder);
    if (run->log)
        dt_log_event(run->log, "save", steps, folder);
}

/* Waits for the save that was begun, if there is one. */
static bool finish_save(DtRun *run)
{
    DtRank *rank = &run->rank;
    DtStatus status;
    if (run->saving < 0)
        return true;
    atomic_store(&rank->slot->phase, DT_PHASE_SAVING);
    if (!dt_checkpoint_finish(rank, &status))
        return false;
    atomic_store(&rank->slot->phase, DT_PHASE_RUNNING);
    note_save(run, &status);
    return true;
}

/* Called after a step: rank 0 says as soon as it can how a save has ended. */
static void look_at_save(DtRun *run)
{
    DtStatus status;
    if (run->saving >= 0 && run->rank.rank == 0 && dt_checkpoint_is_over(&run->rank, &status))
        note_save(run, &status);
}

/* The time in nanoseconds that this thread has had a processor. */
static uint64_t processor_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* Writes for how long training has stopped since began_ns, of which it has compared replicas until
 * compared_ns. */
static void log_pause(DtRun *run, int64_t steps, uint64_t began_ns, uint64_t compared_ns,
                      uint64_t processor)
{
    char text[120];
    const uint64_t now = run->saving_ns;
    snprintf(text, sizeof text, "%.6f s, of which %.6f s copying; %.6f s on a processor",
             (double)(now - began_ns) * 1e-9, (double)(now - compared_ns) * 1e-9,
             (double)processor * 1e-9);
    if (run->log)
        dt_log_event(run->log, "copied", steps, text);
}

/* Begins a save. if_not: what becomes of the run if the disk does not take it. */
static bool save(DtRun *run, int64_t steps, const char *if_not)
{
    DtRank *rank = &run->rank;
    if (!finish_save(run))
        return false;
    trim(run, false);
    if (!dt_mixing_average(rank))
        return false;
    const uint64_t began = dt_now_ns(), processor = processor_ns();
    if (!dt_replicas_check(rank, steps))
        return false;
    const uint64_t compared = dt_now_ns();
    atomic_store(&rank->slot->phase, DT_PHASE_SAVING);
    if (rank->rank == 0)
        rank->shared->saving_useful_ns = run->useful_ns;
    if (!dt_checkpoint_begin(rank, dt_outputs_folder(rank->options), steps))
        return false;
    atomic_store(&rank->slot->phase, DT_PHASE_RUNNING);
    run->saving = steps;
    run->saving_ns = dt_now_ns();
    run->if_not = if_not;
    log_pause(run, steps, began, compared, processor_ns() - processor);
    look_at_save(run);
    return true;
}

/* ---- a step ---- */

/* Looks for inputs of the step's samples that do not count. */
static void look_for_idle(DtRank *rank, DtText *ret_why)
{
    const int64_t batch = rank->ramp.batch, rows = dt_ramp_rows(&rank->ramp, rank->step);
    dt_idle_inputs(rank, false, (rank->step + 1) * batch - rows, rows, ret_why);
}

/* Returns the name of a quantity for messages: "loss", "gradient norm"; with several losses "loss
 * `critic`". */
static const char *called(const DtRun *run, uint32_t objective, const char *what, char buffer[160])
{
    const DtPlan *plan = run->rank.plan;
    if (plan->n_objectives == 1)
        return what;
    snprintf(buffer, 160, "%s `%.100s`", what, dt_plan_str(plan, plan->objectives[objective].loss));
    return buffer;
}

/* Ends the run since the loss or the norm is not finite. The update did not run, so nothing has
 * changed. The earlier steps are saved, if they are not yet. Older checkpoints stay, since the
 * newest leads to the same end. began: losses before this one have had their update in this step,
 * so there is no consistent state to save. */
static bool end_before_update(DtRun *run, uint32_t objective, bool began, const DtTurn *turn)
{
    DtRank *rank = &run->rank;
    const bool by_loss = !isfinite(turn->loss);
    const char *of = rank->plan->n_objectives == 1 ? "gradient norm" : "gradient norm of";
    const char *more = !by_loss && rank->scale.is_dynamic ? " with a loss scale of 1" : "";
    const double value = by_loss ? turn->loss : turn->grad_norm;
    char name[160], from[48] = "";
    const char *what = called(run, objective, by_loss ? "loss" : of, name);
    uint32_t origin;
    if (!finish_save(run) || /* first, since a fault ends all threads that write */
        !dt_spoilt_repeat(run, objective, turn, what, &origin))
        return false;
    if (!began && dt_outputs_folder(rank->options) && run->saved != rank->step &&
        rank->step > run->first_step) {
        if (!save(run, rank->step, "the run ends") || !finish_save(run))
            return false;
        /* the first rank that fails ends the run, so rank 0 must print the message about its save
         * before that */
        if (rank->n_ranks > 1 && !rank->comm_ops->barrier(rank->comm, &rank->world))
            return false;
    }
    if (origin < rank->n_ranks && origin != rank->rank) /* that rank says it */
        return rank->comm_ops->barrier(rank->comm, &rank->world) && false;
    char hint[120] = "";
    if (run->saved >= 0)
        snprintf(hint, sizeof hint, "; the last checkpoint has %lld steps%s", (long long)run->saved,
                 run->saved == rank->step ? " and leads there: go on from an older one" : "");
    DtText why = {0}; /* the quotient is 0 / 0 if no sample counts */
    if (isnan(value))
        look_for_idle(rank, &why);
    if (origin < rank->n_ranks && atomic_load(&rank->slot->first_bad_ns)) {
        snprintf(from, sizeof from, "; rank %u makes the first such value", origin);
        /* for the supervisor's message; only now, as ranks that meet compare where they are */
        atomic_store(&rank->slot->inst, atomic_load(&rank->slot->first_bad_inst));
    }
    dt_rank_fail(rank, DT_EXIT_FAILED,
                 "the %s of step %lld is %s%s; %s. %s%s. The step was repeated, with the same "
                 "result%s",
                 what, (long long)rank->step + 1, isnan(value) ? "not a number" : "infinite",
                 why.len ? why.at : more,
                 began ? "losses before it in this step have had their update, which is not saved"
                       : "parameters are as before it",
                 why.len ? "A batch in which nothing counts has no loss"
                         : "Try a lower learning rate, a longer warm-up or `clip`",
                 hint, from);
    dt_text_free(&why);
    return false;
}

bool dt_train_turn(DtRun *run, uint32_t objective, DtTurn *ret_turn)
{
    DtRank *rank = &run->rank;
    const DtPlanObjective *o = &rank->plan->objectives[objective];
    const DtPlanMetric *loss = run->loss[objective], *norm = run->grad_norm[objective];
    *ret_turn = (DtTurn){.grad_norm = -1};
    rank->first_bad = (DtFirstBad){0};
    const int64_t each = rank->ramp.batch / rank->plan->meta->n_micro;
    rank->left_out = (rank->ramp.batch - dt_ramp_rows(&rank->ramp, rank->step)) / (each ? each : 1);
    const bool stepped = dt_exec_entry(rank, dt_plan_str(rank->plan, o->step));
    rank->left_out = 0;
    if (!stepped)
        return false;
    if (!run->trial && !rank->examine)
        dt_reading_ahead(rank, rank->step + o->every);
    ret_turn->loss = loss ? dt_exec_scalar(rank, loss) : 0;
    if (!isfinite(ret_turn->loss) && !run->trial)
        return true;
    if (!dt_exec_entry(rank, dt_plan_str(rank->plan, o->update)))
        return false;
    ret_turn->grad_norm = norm ? dt_exec_scalar(rank, norm) : -1;
    return true;
}

/* Runs the part of the step that minimises loss number i. began: earlier losses have had their
 * update in this step. */
static bool run_objective(DtRun *run, uint32_t i, bool began, DtLossReport *ret_report)
{
    DtRank *rank = &run->rank;
    DtTurn turn;
    const double lr = write_scalars(run, i);
    if (!dt_train_turn(run, i, &turn))
        return false;
    const bool has_norm = isfinite(turn.loss) || run->trial,
               is_good = has_norm && dt_scale_step(&rank->scale, turn.grad_norm);
    if (!is_good && !run->trial)
        return end_before_update(run, i, began, &turn);
    rank->updates[i] += !rank->scale.was_skipped;
    *ret_report = (DtLossReport){.taken = true,
                                 .skipped = rank->scale.was_skipped,
                                 .loss = turn.loss,
                                 .grad_norm = turn.grad_norm,
                                 .lr = lr};
    return true;
}

static bool run_step(DtRun *run, DtStepReport *ret_report)
{
    DtRank *rank = &run->rank;
    uint64_t began = dt_now_ns();
    bool taken[DT_PLAN_MAX_OBJECTIVES] = {false}, skipped = false, any = false;
    *ret_report = (DtStepReport){.step = rank->step + 1,
                                 .n_losses = rank->plan->n_objectives,
                                 .rows = dt_ramp_rows(&rank->ramp, rank->step)};
    dt_traffic_begin(&run->traffic, rank);
    for (uint32_t i = 0; i < ret_report->n_losses; i++) {
        taken[i] = (run->trial && !dt_trial_takes_turns(run->trial)) ||
                   (rank->step + 1) % rank->plan->objectives[i].every == 0;
        if (!taken[i])
            continue;
        if (!run_objective(run, i, any, &ret_report->losses[i]))
            return false;
        skipped = skipped || rank->scale.was_skipped;
        any = any || !rank->scale.was_skipped;
    }
    if (!dt_mixing_step(rank))
        return false;
    dt_traffic_end(&run->traffic, rank);
    if (!skipped)
        run->sound = rank->step + 1;
    look_at_save(run);
    trim(run, false);
    const uint64_t now = dt_now_ns(), first_ns = rank->shared->first_ns;
    run->useful_ns += now - began;
    ret_report->seconds = (double)(now - began) * 1e-9;
    ret_report->goodput =
        first_ns && now > first_ns ? (double)run->useful_ns / (double)(now - first_ns) : 0;
    if (rank->profile)
        dt_profile_step(rank->profile, ret_report->seconds);
    ret_report->memory = largest_memory(run);
    ret_report->scale = rank->scale;
    dt_shown_step(rank, taken, &ret_report->shown);
    return true;
}

/* ---- training ---- */

/* Writes the export of a run that came to its end. */
static bool export_parameters(DtRun *run)
{
    DtRank *rank = &run->rank;
    DtText said = {0};
    if (!rank->options->export || run->interrupted)
        return true;
    if (!dt_mixing_average(rank))
        return false;
    atomic_store(&rank->slot->phase, DT_PHASE_SAVING);
    const bool good = dt_export_write(rank, &said);
    if (good)
        atomic_store(&rank->slot->phase, DT_PHASE_RUNNING);
    if (good && rank->rank == 0)
        dt_progress_line(&run->progress, "%s", said.at);
    if (good && run->log)
        dt_log_event(run->log, "export", rank->step, rank->options->export);
    dt_text_free(&said);
    return good;
}

static bool every(int64_t n, int64_t steps) { return n > 0 && steps % n == 0; }

/* Rank 0 turns a wish to stop into the number of the last step, before it begins that step: no
 * rank can finish the step without rank 0, so all of them see the number in time. */
static void decide_stop(DtRun *run)
{
    const DtRank *rank = &run->rank;
    DtShared *shared = rank->shared;
    const bool saves = dt_outputs_folder(rank->options) &&
                       every(rank->meta.save_every, rank->step + 1) &&
                       rank->step + 1 < rank->meta.steps;
    if (rank->rank != 0 || atomic_load(&shared->last_step) != INT64_MAX)
        return;
    if (atomic_load(&shared->stop))
        atomic_store(&shared->last_step, rank->step);
    else if (atomic_load(&shared->regroup) && saves)
        atomic_store(&shared->last_step, -1 - rank->step);
}

/* After a step: whether it is the last one by rank 0's decision. False after a failure. */
static bool find_end(DtRun *run, bool *ret_ends)
{
    DtRank *rank = &run->rank;
    const int64_t last = atomic_load(&rank->shared->last_step);
    *ret_ends = last >= 0 && rank->step >= last;
    if (last >= 0)
        return true;
    if (!finish_save(run))
        return false;
    *ret_ends = run->regroups = run->saved == rank->step + 1;
    if (!*ret_ends && rank->rank == 0) /* the disk did not take it */
        atomic_store(&rank->shared->last_step, INT64_MAX);
    return true;
}

/* Evaluates after so many steps. Says so if the run ends, since the loss falls no longer. */
static bool evaluate(DtRun *run, int64_t steps, bool *ret_is_lowest)
{
    DtRank *rank = &run->rank;
    double loss;
    if (!dt_evaluate_and_show(run, steps, &loss))
        return false;
    *ret_is_lowest = dt_best_take(rank, loss, steps);
    run->is_over = dt_best_is_over(rank);
    if (!run->is_over || rank->rank != 0 || steps == rank->meta.steps)
        return true;
    DtText text = {0};
    dt_text_printf(&text, "%lld evaluation%s without a lower loss", (long long)rank->best.since,
                   rank->best.since == 1 ? "" : "s");
    if (rank->best.any)
        dt_text_printf(&text, " than %.4f after step %lld", rank->best.loss,
                       (long long)rank->best.steps);
    dt_progress_line(&run->progress, "stopped after step %lld: %s", (long long)steps, text.at);
    if (run->log)
        dt_log_event(run->log, "patience", steps, text.at);
    dt_text_free(&text);
    return true;
}

/* Says which ranks have become slow. */
static bool find_stragglers(DtRun *run, const DtStepReport *report)
{
    DtText said = {0};
    const bool good = dt_straggler_step(run->stragglers, report->seconds, &said);
    for (char *line = said.at, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        fprintf(stderr, "%sdtrun: %s\n", run->progress.terminal ? "\r\033[K" : "", line);
        if (run->log)
            dt_log_event(run->log, "slow", report->step, line);
    }
    dt_text_free(&said);
    return good;
}

static bool after_step(DtRun *run, const DtStepReport *report)
{
    DtRank *rank = &run->rank;
    int64_t steps = report->step;
    if (rank->rank == 0) {
        DtText graphs = {0};
        dt_graphs_say(rank, &graphs);
        log_lines(run, "graphs", steps, &graphs);
        dt_progress_step(&run->progress, report);
        dt_banner_step(&run->totals, report);
        if (run->log)
            dt_log_step(run->log, report, rank->plan);
    }
    if (run->stragglers && !find_stragglers(run, report))
        return false;
    if (every(rank->options->check_replicas, steps) && !dt_replicas_check(rank, steps))
        return false;
    bool last = steps == rank->meta.steps;
    bool is_lowest = false;
    if ((every(rank->meta.eval_every, steps) || (last && rank->meta.eval_every > 0)) &&
        !evaluate(run, steps, &is_lowest))
        return false;
    const bool saves = every(rank->meta.save_every, steps) || (is_lowest && rank->meta.keep_best);
    return !dt_outputs_folder(rank->options) || !saves || save(run, steps, will_try_again);
}

/* the first steps, which --profile leaves out if there are more: libraries start in them */
enum { UNUSUAL = 2 };

/* Whether what the run begins with is saved without a step of training: initial values for --steps
 * 0, or a checkpoint of a run that is over, for another folder. */
static bool saves_first(const DtRun *run)
{
    const DtRunOptions *options = run->rank.options;
    if (run->first_step == 0)
        return run->rank.meta.steps == 0;
    return (run->is_over || run->first_step >= run->rank.meta.steps) && options->save &&
           options->resume && !dt_outputs_continues(options);
}

static bool train(DtRun *run)
{
    DtRank *rank = &run->rank;
    run->interrupted = false;
    run->is_over = dt_best_is_over(rank); /* by the evaluations before the checkpoint */
    dt_traffic_open(&run->traffic, rank);
    run->stragglers = dt_straggler_new(rank);
    run->useful_ns = rank->shared->useful_ns;
    if (rank->options->profile && rank->rank == 0)
        rank->profile = dt_profile_new(
            rank, run->first_step + (rank->meta.steps - run->first_step > UNUSUAL ? UNUSUAL : 0));
    const bool first = saves_first(run);
    if (rank->rank == 0 && run->first_step >= rank->meta.steps && !first &&
        !rank->options->export)
        dt_progress_line(&run->progress,
                         "the checkpoint has %lld steps already; ask for more with --steps",
                         (long long)run->first_step);
    else if (rank->rank == 0 && run->is_over)
        dt_progress_line(&run->progress,
                         "the checkpoint is of a run that ended after %lld evaluation%s without a "
                         "lower loss; go on with --set eval.patience=N",
                         (long long)rank->best.since, rank->best.since == 1 ? "" : "s");
    for (rank->step = run->first_step; rank->step < rank->meta.steps && !run->is_over;
         rank->step++) {
        DtStepReport report;
        decide_stop(run);
        if (rank->comm_ops->decide && !rank->comm_ops->decide(rank->comm))
            return false;
        if (!run_step(run, &report) || !after_step(run, &report))
            return false;
        bool is_asked;
        if (!find_end(run, &is_asked))
            return false;
        if (run->is_over || is_asked) {
            run->interrupted = !run->is_over;
            run->regroups = run->regroups && !run->is_over;
            rank->step++;
            break;
        }
    }
    if (!finish_save(run))
        return false;
    const bool is_new = rank->step > run->first_step && run->saved != rank->step;
    if (dt_outputs_folder(rank->options) && (is_new || first) &&
        (!save(run, rank->step, will_try_again) || !finish_save(run)))
        return false;
    trim(run, !run->regroups);
    if (!export_parameters(run))
        return false;
    if (rank->profile &&
        !dt_profile_print(rank->profile, rank->options->json, run->totals.goodput, stdout))
        return dt_rank_fail(rank, DT_EXIT_IO, "cannot write the profile: %s", strerror(errno));
    if (rank->compare && !dt_compare_end(rank->compare, stdout))
        return false;
    if (rank->options->log && !dt_traffic_join(&run->traffic, rank))
        return false;
    if (run->log)
        dt_log_traffic(run->log, rank, &run->traffic);
    return true;
}

/* ---- beginning and end ---- */

static void begin_readers(DtRank *rank)
{
    for (uint32_t i = 0; i < rank->plan->n_readers; i++)
        if (rank->readers[i] && !rank->plan->readers[i].is_eval)
            dt_data_begin(rank->readers[i], &rank->ramp);
}

/* Opens the readers that the entries to be run will use, so that a missing file is an error before
 * step 0. */
static bool open_readers(DtRun *run)
{
    DtRank *rank = &run->rank;
    const DtRunOptions *options = rank->options;
    const bool trains = !options->eval && !dt_run_predicts(options) && !run->trial;
    DtStatus status = DT_OK;
    for (int is_eval = 0; is_eval < 2 && dt_status_ok(&status); is_eval++)
        if (dt_preflight_reads(options, &rank->meta, is_eval))
            status = dt_data_open_block(options, rank->plan, is_eval, rank->readers);
    if (dt_status_ok(&status) && trains && !dt_datasame_know(rank, &status))
        return false;
    if (dt_status_ok(&status) && trains)
        status = dt_epochs_resolve(rank);
    if (!dt_status_ok(&status))
        return dt_rank_fail_data(rank, &status);
    begin_readers(rank);
    for (uint32_t i = 0; run->trial && i < rank->plan->n_readers; i++)
        if (rank->readers[i] && rank->plan->readers[i].is_eval)
            dt_data_end(rank->readers[i], dt_trial_held_out(run->trial));
    return true;
}

/* Returns where the run gets its checkpoint. After a restart that is the newest one of this run,
 * not the one with which the run began; if there is none, the run begins as it did at first. */
static DtCheckpointFrom begin_with(const DtRank *rank)
{
    const DtRunOptions *options = rank->options;
    const char *folder = dt_outputs_folder(options);
    DtCheckpointFrom from = {.weights_only = options->eval || dt_run_predicts(options)};
    if (folder && atomic_load(&rank->shared->has_saved))
        from.folders[from.n++] = folder;
    if (options->resume && (from.n == 0 || strcmp(options->resume, folder) != 0))
        from.folders[from.n++] = options->resume;
    from.may_fail = options->resume == NULL;
    from.may_lack = folder && (options->or_start || options->restarts > 0 || options->elastic > 0);
    return from;
}

/* Sets the values for step 0: those of the program, of another program's files, or of a checkpoint
 * whose run does not go on. */
static bool begin_anew(DtRank *rank, bool has_values)
{
    const DtRunOptions *options = rank->options;
    const DtCheckpointFrom weights = {
        .folders = {options->weights}, .n = 1, .weights_only = true, .begins = true};
    int64_t steps;
    if ((options->import || options->n_imports) && !dt_import_load(rank, !has_values))
        return false;
    if (options->weights && !dt_checkpoint_load(rank, &weights, &steps))
        return false;
    return options->adapters == NULL || dt_import_adapters(rank);
}

/* Whether a checkpoint has given the store its values: they are not drawn then. */
static bool is_loaded(const void *context, const DtRank *rank, const DtPlanStore *store)
{
    const DtPlan *plan = rank->plan;
    bool has_master = false;
    (void)context;
    for (uint32_t s = 0; s < plan->n_stores; s++)
        has_master = has_master || (plan->stores[s].kind == DT_PLAN_MASTER &&
                                    plan->stores[s].of >= 0 && plan->stores[s].saved &&
                                    &plan->stores[plan->stores[s].of] == store);
    return store->saved || has_master;
}

/* Loads the values of the checkpoint, or sets initial ones. */
static bool load_parameters(DtRun *run)
{
    DtRank *rank = &run->rank;
    const DtCheckpointFrom from = begin_with(rank);
    int64_t steps = -1;
    run->saved = run->saving = -1;
    dt_scale_begin(rank->plan, &rank->scale);
    const bool has_values = from.n > 0 || !(rank->options->import || rank->options->n_imports);
    if (from.n > 0 && !dt_checkpoint_load(rank, &from, &steps))
        return false;
    if (steps < 0) {
        if (from.n > 0) /* an attempt may have loaded some of them */
            dt_init_zero(rank);
        return (!has_values || dt_init_stores(rank)) && begin_anew(rank, has_values);
    }
    if (!dt_init_others(rank, is_loaded, NULL))
        return false;
    run->first_step = run->saved = steps;
    if (rank->rank == 0)
        atomic_store(&rank->shared->saved_step, steps);
    return true;
}

static bool open_outputs(DtRun *run)
{
    DtRank *rank = &run->rank;
    const DtRunOptions *options = rank->options;
    DtStatus status = DT_OK;
    if (options->trace)
        status = dt_trace_open(rank, options->trace, &rank->trace);
    if (dt_status_ok(&status) && (options->record || options->compare))
        status = dt_compare_open(rank, &rank->compare);
    if (dt_status_ok(&status) && options->log && rank->rank == 0)
        status =
            dt_log_open(options->log, options->overwrite && rank->shared->attempt == 0, &run->log);
    if (dt_status_ok(&status) && rank->rank == 0 && !atomic_load(&rank->shared->has_saved))
        status = dt_outputs_overwrite(options);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    /* The loss that --eval prints is a result, not progress; so it goes to standard output. */
    FILE *out = options->eval ? stdout : options->quiet ? NULL : stderr;
    dt_progress_open(&run->progress, rank, rank->rank == 0 ? out : NULL, run->first_step,
                     rank->meta.steps);
    if (run->log)
        dt_log_start(run->log, rank, run->first_step);
    return rank->rank != 0 || options->eval || dt_run_predicts(options) || options->trial ||
           dt_banner_begin(rank, &run->progress, run->first_step);
}

/* ---- a trial ---- */

static bool begin_trial(DtRun *run)
{
    run->saved = run->saving = -1;
    dt_scale_begin(run->rank.plan, &run->rank.scale);
    return dt_trial_open(&run->rank, &run->trial) && dt_trial_begin(run->trial);
}

/* Continues as a new process with the same options would, for the trial: nothing from this process
 * may help. So all values are reset to those with which the trial began, and all counts to 0,
 * before the checkpoint is loaded. */
static bool resume(DtRun *run)
{
    DtRank *rank = &run->rank;
    memset(rank->updates, 0, sizeof rank->updates);
    rank->ramp.step = rank->ramp.samples = run->first_step = 0;
    if (!dt_trial_begin(run->trial) || !load_parameters(run))
        return false;
    begin_readers(rank);
    rank->step = run->first_step - 1; /* the last step that was finished */
    return true;
}

static bool run_event(DtRun *run, const DtTrialEvent *event, DtTrialPrinted *ret_printed)
{
    int64_t samples;
    *ret_printed = (DtTrialPrinted){0};
    switch (event->kind) {
    case DT_TRIAL_TRAIN:
        if (!run_step(run, &ret_printed->report))
            return false;
        ret_printed->shown = ret_printed->report.shown;
        return true;
    case DT_TRIAL_EVALUATE:
        run->rank.meta.eval_steps = event->batches;
        ret_printed->means = run->sums;
        return dt_evaluate(run, false, &ret_printed->shown, &samples);
    case DT_TRIAL_SAVE:
        return save(run, run->rank.step + 1, "the trial goes on") && finish_save(run);
    default: return resume(run);
    }
}

static bool run_trial(DtRun *run)
{
    const DtTrialEvent *event;
    DtTrialPrinted printed;
    dt_traffic_open(&run->traffic, &run->rank);
    for (uint32_t at = 0; (event = dt_trial_next(run->trial, at)); at++)
        if (!run_event(run, event, &printed) || !dt_trial_show(run->trial, at, &printed))
            return false;
    return true;
}

/* Lets the device choose algorithms for products, and writes to the log which ones it took. */
static bool choose_algorithms(DtRun *run)
{
    DtRank *rank = &run->rank;
    DtText said = {0};
    const bool good = !rank->device_ops->choose || rank->device_ops->choose(rank->device, &said);
    log_lines(run, "product", run->first_step, &said);
    return good;
}

static bool run_all(DtRun *run)
{
    DtRank *rank = &run->rank;
    const DtRunOptions *options = rank->options;
    if (!(options->trial ? begin_trial(run) : load_parameters(run)) || !open_readers(run) ||
        !open_outputs(run) || !choose_algorithms(run) ||
        (dt_outputs_folder(options) && !dt_saver_open(rank)))
        return false;
    for (uint32_t i = 0; i < rank->plan->n_objectives; i++) {
        const DtPlanObjective *o = &rank->plan->objectives[i];
        run->loss[i] = dt_exec_metric(rank->plan, dt_plan_str(rank->plan, o->step),
                                      dt_plan_str(rank->plan, o->loss));
        run->grad_norm[i] =
            dt_exec_metric(rank->plan, dt_plan_str(rank->plan, o->update), "grad_norm");
    }
    atomic_store(&rank->slot->phase, DT_PHASE_RUNNING);
    if (run->trial)
        return run_trial(run);
    const bool writes_text = options->generate || options->prompts;
    if ((writes_text || options->n_predict > 0) && run->saved < 0 && !options->import &&
        !options->weights && rank->rank == 0)
        dt_text_say(stderr, writes_text
                                ? "dtrun: no --resume: the parameters have their initial values, "
                                  "so this is the text of a model that has learnt nothing"
                                : "dtrun: no --resume: the parameters have their initial values, "
                                  "so these are the results of a model that has learnt nothing");
    if (dt_run_predicts(options) && !dt_quantize_run(rank))
        return false;
    if (writes_text)
        return dt_generate_run(rank, &run->interrupted);
    if (options->reference)
        return dt_reference_run(rank);
    if (options->n_predict > 0)
        return dt_predict_run(rank, &run->interrupted);
    const bool begins = !options->eval && run->saved < 0;
    if (begins && !dt_mixing_begin(rank))
        return false;
    if (options->eval)
        return options->quantized ? dt_evaluate_codes(run, run->first_step)
                                  : dt_evaluate_and_show(run, run->first_step, NULL);
    return train(run);
}

/* Prints the number of failed saves; they lead to exit code 5. */
static void say_what_is_not_saved(const DtRun *run)
{
    if (run->rank.rank != 0 || run->not_saved == 0)
        return;
    fprintf(stderr, "dtrun: %lld checkpoint%s not saved; ", (long long)run->not_saved,
            run->not_saved > 1 ? "s were" : " was");
    if (run->saved >= 0)
        fprintf(stderr, "the newest has %lld of %lld steps\n", (long long)run->saved,
                (long long)run->rank.step);
    else
        fprintf(stderr, "there is none\n"); /* steps of this run */
}

static void say_how_to_go_on(DtRun *run)
{
    const DtRunOptions *options = run->rank.options;
    const char *folder = dt_outputs_folder(options);
    if (run->rank.rank != 0 || !run->interrupted || options->prompts)
        return;
    if (options->n_predict > 0) {
        dt_text_say(stderr, "dtrun: stopped; no results are written");
        return;
    }
    if (folder) {
        DtText command = {0};
        dt_command_resume(options, folder, options->steps, &command);
        dt_command_export(options, &command);
        dt_progress_line(&run->progress, "stopped after step %lld; go on with: %s",
                         (long long)run->rank.step, command.at);
        dt_text_free(&command);
    } else
        dt_progress_line(&run->progress,
                         "stopped after step %lld; nothing is saved%s (--save DIR would)",
                         (long long)run->rank.step, options->export ? " or exported" : "");
}

/* Rank 0 joins the parts when all are written; then every rank removes its part. False after a
 * failure. */
static bool write_trace(DtRank *rank)
{
    atomic_store(&rank->slot->phase, DT_PHASE_SAVING); /* rank 0 may be waiting for a disk */
    DtStatus status = dt_trace_write(rank->trace);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    if (!rank->comm_ops->barrier(rank->comm, &rank->world))
        return false;
    status = rank->rank == 0 ? dt_trace_join(rank->trace, rank->options->trace) : DT_OK;
    return dt_status_ok(&status) ? rank->comm_ops->barrier(rank->comm, &rank->world)
                                 : dt_rank_fail_status(rank, &status);
}

/* Closes the run's outputs. good: whether the run was good so far; returns whether it still is. */
static bool close_outputs(DtRun *run, bool good)
{
    DtRank *rank = &run->rank;
    if (rank->trace) {
        good = good && write_trace(rank);
        dt_trace_close(rank->trace);
        rank->trace = NULL;
    }
    if (rank->compare)
        dt_compare_close(rank->compare);
    rank->compare = NULL;
    if (run->trial)
        dt_trial_close(run->trial);
    dt_progress_close(&run->progress);
    if (run->log) {
        DtStatus status = dt_log_close(run->log);
        if (!dt_status_ok(&status)) {
            good = dt_rank_fail_data(rank, &status); /* the exit code of a disk error */
        }
    }
    return good;
}

/* The exit code of the rank, which is also stored in its slot. If another rank's failure ended this
 * one: RETRY, without a message. */
static int finish(DtRun *run, bool good)
{
    DtRank *rank = &run->rank;
    const int code = dt_rank_has_failed(rank) ? rank->failure.code
               : !good                 ? DT_EXIT_RETRY
               : run->not_saved > 0    ? DT_EXIT_IO
               : run->interrupted      ? DT_EXIT_INTERRUPTED
                                       : DT_EXIT_OK;
    if (!dt_rank_has_failed(rank)) {
        atomic_store(&rank->slot->exit_code, code);
        atomic_store_explicit(&rank->slot->phase, DT_PHASE_DONE, memory_order_release);
    }
    return code;
}

int dt_train_loaded(DtRun *run)
{
    run->sums = DT_NEW_ARRAY(run->rank.memory, double, run->rank.plan->n_metrics + 1);
    bool good = run_all(run);
    if (good && (!run->regroups || atomic_load(&run->rank.shared->stop))) {
        say_what_is_not_saved(run);
        if (run->rank.rank == 0 && !run->rank.options->trial)
            dt_banner_end(&run->rank, &run->progress, &run->totals, run->saved >= 0);
        say_how_to_go_on(run);
    }
    return finish(run, close_outputs(run, good));
}

int dt_train_rank(const DtRunOptions *options, uint32_t rank, int shared_fd)
{
    DtPlanFile file;
    static DtRun run; /* used if there is one rank in each process */
    dt_supervisor_bind(shared_fd);
    DtStatus status = dt_read_file(options->plan_path, &file);
    if (!dt_status_ok(&status)) {
        fputs("dtrun: ", stderr);
        dt_text_say(stderr, status.message);
        return status.code;
    }
    status = dt_load_rank(options, &file.plan, rank, shared_fd, &run.rank);
    int code = status.code;
    if (dt_status_ok(&status)) {
        code = dt_train_loaded(&run);
        dt_load_close(&run.rank);
    }
    dt_read_close(&file);
    return code;
}
