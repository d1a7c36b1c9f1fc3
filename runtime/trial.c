/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's part in a trial. The ranks write the values that they hold, one rank after the other. A
 * rank whose values another rank has already written compares its own with these, bit by bit; the
 * first difference is recorded. */
#include "runtime/trial.h"

#include "plan/kinds.h"
#include "plan/name.h"
#include "plan/show.h"
#include "runtime/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct DtTrialRun {
    DtRank *rank;
    DtTrial *trial;
    size_t bytes;
    DtTrialLayout layout;
    char *twice[2]; /* buffers for one iteration of the largest tensor, filled with two different
                     * backgrounds */
};

/* Maps the file of a trial; with ret_bytes NULL only its head. */
static DtStatus map(const char *path, size_t *ret_bytes, DtTrial **ret_trial)
{
    struct stat about;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0 || about.st_size < (off_t)sizeof(DtTrial)) {
        const DtStatus status =
            dt_status_fail(DT_EXIT_USAGE, "--trial %.200s: %s", path,
                           fd < 0 ? strerror(errno) : "it is no trial: dtc makes them");
        if (fd >= 0)
            close(fd);
        return status;
    }
    const size_t bytes = ret_bytes ? (size_t)about.st_size : sizeof(DtTrial);
    DtTrial *trial = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (trial == MAP_FAILED)
        return dt_status_fail(DT_EXIT_RETRY, "--trial: cannot map it: %s", strerror(errno));
    if (memcmp(trial->magic, DT_TRIAL_MAGIC, sizeof trial->magic) != 0) {
        munmap(trial, bytes);
        return dt_status_fail(DT_EXIT_USAGE, "--trial %.200s: it is no trial: dtc makes them",
                              path);
    }
    *ret_trial = trial;
    if (ret_bytes)
        *ret_bytes = bytes;
    return DT_OK;
}

void dt_trial_bind(const char *path)
{
    DtTrial *trial = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    DtStatus status = map(path, NULL, &trial);
    if (!dt_status_ok(&status))
        return; /* the ranks report it */
    const bool orphan = trial->owner != (int32_t)getppid();
    munmap(trial, sizeof *trial);
    if (orphan)
        _exit(DT_EXIT_RETRY);
}

/* Returns the bytes of one iteration's logical tensor. */
static int64_t iteration_bytes(const DtPlan *plan, const DtPlanStore *store)
{
    int64_t n = dt_kinds_size(store->dtype);
    for (uint32_t a = store->n_loops; a < store->n_axes; a++)
        n *= plan->axes[store->first_axis + a].extent;
    return n;
}

bool dt_trial_open(DtRank *rank, DtTrialRun **ret_run)
{
    DtTrialRun *run = DT_NEW(rank->memory, DtTrialRun);
    const DtPlan *plan = rank->plan;
    run->rank = rank;
    DtStatus status = map(rank->options->trial, &run->bytes, &run->trial);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    *ret_run = run;
    const uint32_t events = run->trial->events; /* only once: other ranks may already be writing
                                                 * there */
    if (run->trial->digest != plan->digest ||
        !dt_trial_layout(rank->memory, plan, events, &run->layout) ||
        run->layout.bytes > run->bytes)
        return dt_rank_fail(rank, DT_EXIT_USAGE, "--trial: it is one of another plan");
    int64_t most = 1;
    for (uint32_t i = 0; i < run->layout.n; i++)
        most = run->layout.tensors[i].bytes > most ? run->layout.tensors[i].bytes : most;
    for (int i = 0; i < 2; i++)
        run->twice[i] = dt_arena_alloc(rank->memory, (size_t)most);
    rank->meta.steps = events;
    return true;
}

void dt_trial_close(DtTrialRun *run) { munmap(run->trial, run->bytes); }

double dt_trial_scalar(const DtTrialRun *run, const char *name, double value)
{
    return strcmp(name, "@lr") == 0 && !run->trial->is_life ? run->trial->lr : value;
}

bool dt_trial_takes_turns(const DtTrialRun *run) { return run->trial->is_life; }

int64_t dt_trial_held_out(const DtTrialRun *run) { return run->trial->held_out; }

/* Sets the rank's step and counts before a step of the script. If the script leaves steps out, the
 * number of updates is that of a run without gaps. */
static void next_step(DtTrialRun *run, uint32_t at, const DtTrialEvent *step)
{
    DtRank *rank = run->rank;
    const int64_t number = step->number;
    for (uint32_t i = 0; i < rank->plan->n_objectives; i++)
        if (at == 0 || number != rank->step + 1)
            rank->updates[i] = number / (run->trial->is_life ? rank->plan->objectives[i].every : 1);
    rank->step = number;
    if (rank->scale.is_dynamic && step->loss_scale > 0)
        rank->scale.factor = step->loss_scale;
    if (rank->scale.is_dynamic && step->good >= 0)
        rank->scale.good = step->good;
}

const DtTrialEvent *dt_trial_next(DtTrialRun *run, uint32_t at)
{
    if (at >= (uint64_t)run->rank->meta.steps)
        return NULL;
    const DtTrialEvent *event = &run->trial->script[at];
    if (event->kind == DT_TRIAL_TRAIN)
        next_step(run, at, event);
    return event;
}

/* Returns the offset, in a set of values, of the iteration that is number `local` on this rank; -1:
 * it is outside of the tensor. */
static int64_t place_of(const DtTrialRun *run, uint32_t store, int64_t local)
{
    const DtPlanStore *record = &run->rank->plan->stores[store];
    const int64_t bytes = iteration_bytes(run->rank->plan, record);
    const DtTrialTensor *tensor = &run->layout.tensors[run->layout.of_store[store]];
    const int64_t at = dt_trial_iteration(run->rank->plan, record, local) * bytes;
    return at >= 0 && at <= tensor->bytes - bytes ? tensor->at + at : -1;
}

static bool is_here(const DtTrialRun *run, uint32_t store)
{
    return run->layout.of_store[store] >= 0 &&
           dt_plan_on_stage(run->rank->plan->stores[store].stage, run->rank->stage);
}

bool dt_trial_begin(DtTrialRun *run)
{
    const DtPlan *plan = run->rank->plan;
    const char *values = (const char *)run->trial + run->layout.begin;
    for (uint32_t s = 0; s < plan->n_stores; s++)
        for (int64_t i = 0; is_here(run, s) && i < dt_trial_iterations(plan, &plan->stores[s]);
             i++) {
            const int64_t at = place_of(run, s, i);
            if (at < 0)
                return dt_rank_fail(run->rank, DT_EXIT_FAILED,
                                    "the plan is broken: `%.200s` has iterations that its "
                                    "loop has not",
                                    dt_plan_str(plan, plan->stores[s].path));
            dt_pack_take(run->rank, &plan->stores[s], i, values + at, NULL);
        }
    if (run->rank->rank == 0)
        run->trial->began = 1;
    return true;
}

/* ---- showing ---- */

/* Writes those of n bytes of a tensor that this rank has (`has` not 0) to `to`, and notes the first
 * that differs from what an earlier rank has shown. */
static void show(DtTrialRun *run, uint32_t event, int64_t tensor, int64_t first, const char *from,
                 const char *has, int64_t n, char *to, char *shown)
{
    DtTrialCopies *copies = &run->trial->copies;
    for (int64_t i = 0; i < n; i++) {
        if (!has[i])
            continue;
        if (shown[i] && to[i] != from[i] && !copies->found)
            *copies = (DtTrialCopies){1, event, run->rank->rank, 0, tensor, first + i};
        if (!shown[i])
            to[i] = from[i];
        shown[i] = 1;
    }
}

/* Finds which bytes of an iteration this rank has: those in which the two copies, made on different
 * backgrounds, agree. */
static void show_iteration(DtTrialRun *run, uint32_t event, uint32_t store, int64_t local)
{
    const DtPlanStore *record = &run->rank->plan->stores[store];
    const int64_t n = iteration_bytes(run->rank->plan, record), at = place_of(run, store, local);
    const int64_t tensor = run->layout.of_store[store];
    char *values = (char *)run->trial + dt_trial_values(&run->layout, event) + at;
    for (int b = 0; b < 2; b++) {
        memset(run->twice[b], b ? 0xff : 0, (size_t)n);
        dt_pack_give(run->rank, record, local, run->twice[b]);
    }
    for (int64_t i = 0; i < n; i++)
        run->twice[1][i] = run->twice[1][i] == run->twice[0][i];
    show(run, event, tensor, at - run->layout.tensors[tensor].at, run->twice[0], run->twice[1], n,
         values, values + run->layout.values);
}

/* The value of a METR record after the event; false: it is not compared. */
static bool scalar_of(const DtTrialRun *run, const DtPlanMetric *metric,
                      const DtTrialPrinted *printed, double *ret_value)
{
    const DtPlan *plan = run->rank->plan;
    const bool is_eval = dt_plan_name(dt_plan_str(plan, metric->entry)).run == DT_PLAN_EVAL;
    const bool has = printed->means ? is_eval
                                    : printed->report.n_losses > 0 &&
                                          dt_plan_is_step(plan, metric->entry);
    if (!has || metric->n_axes || (printed->means && !dt_show_is_number(metric)) ||
        !dt_plan_on_stage(metric->stage, run->rank->stage))
        return false;
    *ret_value = printed->means ? printed->means[metric - plan->metrics]
                                : dt_exec_scalar(run->rank, metric);
    return true;
}

/* The value of a SHOW record after the event; false: it is not compared. Only rank 0 prints
 * these. */
static bool shown_of(const DtTrialRun *run, const DtPlanShow *show, const DtTrialPrinted *printed,
                     double *ret_value)
{
    const DtPlan *plan = run->rank->plan;
    const bool is_eval = dt_plan_name(dt_plan_str(plan, show->entry)).run == DT_PLAN_EVAL;
    if (run->rank->rank != 0 || is_eval != (printed->means != NULL))
        return false;
    for (uint32_t i = 0; i < printed->shown.n; i++)
        if (strcmp(printed->shown.name[i], dt_plan_str(plan, show->name)) == 0) {
            *ret_value = printed->shown.value[i];
            return true;
        }
    return false;
}

static void show_scalars(DtTrialRun *run, uint32_t event, const DtTrialPrinted *printed)
{
    static const char all[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const DtPlan *plan = run->rank->plan;
    char *to = (char *)run->trial + dt_trial_scalars(&run->layout, event);
    for (uint32_t m = 0; m < plan->n_metrics + plan->n_shows; m++) {
        const DtPlanMetric *metric = m < plan->n_metrics ? &plan->metrics[m] : NULL;
        double value = 0;
        if (metric ? !scalar_of(run, metric, printed, &value)
                   : !shown_of(run, &plan->shows[m - plan->n_metrics], printed, &value))
            continue;
        show(run, event, -1, m * 8, (const char *)&value, all, 8, to + m * 8,
             to + run->layout.scalars + m * 8);
    }
}

static void show_course(DtTrialRun *run, uint32_t at, const DtStepReport *report)
{
    const DtRank *rank = run->rank;
    DtTrialEvent *event = &run->trial->script[at];
    event->taken = event->skipped = 0;
    for (uint32_t i = 0; i < report->n_losses; i++) {
        event->taken |= (uint32_t)report->losses[i].taken << i;
        event->skipped |= (uint32_t)report->losses[i].skipped << i;
    }
    event->loss_scale_after = rank->scale.factor;
    event->good_after = rank->scale.good;
    event->steps_after = rank->step + 1;
    memcpy(event->updates_after, rank->updates, sizeof event->updates_after);
}

bool dt_trial_show(DtTrialRun *run, uint32_t at, const DtTrialPrinted *printed)
{
    DtRank *rank = run->rank;
    const DtPlan *plan = rank->plan;
    if (rank->rank == 0)
        show_course(run, at, &printed->report);
    for (uint32_t turn = 0; turn < rank->n_ranks; turn++) {
        for (uint32_t s = 0; turn == rank->rank && s < plan->n_stores; s++)
            for (int64_t i = 0; is_here(run, s) && i < dt_trial_iterations(plan, &plan->stores[s]);
                 i++)
                show_iteration(run, at, s, i);
        if (turn == rank->rank) {
            show_scalars(run, at, printed);
            atomic_fetch_add(&rank->slot->progress, 1);
            run->trial->done += turn + 1 == rank->n_ranks;
        }
        if (rank->n_ranks > 1 && !rank->comm_ops->barrier(rank->comm, &rank->world))
            return false;
    }
    return true;
}
