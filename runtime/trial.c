/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's side of a trial. Ranks show what they hold one after the other; who holds what another one has shown
 * compares it instead, bit by bit, and the first difference is noted. */
#include "runtime/trial.h"

#include "plan/kinds.h"
#include "plan/name.h"
#include "plan/trial.h"
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
    char *twice[2]; /* an iteration of the largest tensor, on two backgrounds */
};

/* The head alone is mapped if ret_bytes is NULL. */
static DtStatus map(const char *path, size_t *ret_bytes, DtTrial **ret_trial)
{
    struct stat about;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0 || about.st_size < (off_t)sizeof(DtTrial)) {
        const DtStatus status = dt_status_fail(DT_EXIT_USAGE, "--trial %.200s: %s", path,
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
        return dt_status_fail(DT_EXIT_USAGE, "--trial %.200s: it is no trial: dtc makes them", path);
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
        return; /* the ranks say so */
    const bool orphan = trial->owner != (int32_t)getppid();
    munmap(trial, sizeof *trial);
    if (orphan)
        _exit(DT_EXIT_RETRY);
}

/* Bytes of one iteration's logical tensor. */
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
    const uint32_t steps = run->trial->steps; /* once: others may write there */
    if (run->trial->digest != plan->digest || !dt_trial_layout(rank->memory, plan, steps, &run->layout) ||
        run->layout.bytes > run->bytes)
        return dt_rank_fail(rank, DT_EXIT_USAGE, "--trial: it is one of another plan");
    int64_t most = 1;
    for (uint32_t i = 0; i < run->layout.n; i++)
        most = run->layout.tensors[i].bytes > most ? run->layout.tensors[i].bytes : most;
    for (int i = 0; i < 2; i++)
        run->twice[i] = dt_arena_alloc(rank->memory, (size_t)most);
    rank->meta.steps = steps;
    return true;
}

void dt_trial_close(DtTrialRun *run) { munmap(run->trial, run->bytes); }

double dt_trial_scalar(const DtTrialRun *run, const char *name, double value)
{
    return strcmp(name, "@lr") == 0 && !run->trial->is_life ? run->trial->lr : value;
}

bool dt_trial_takes_turns(const DtTrialRun *run) { return run->trial->is_life; }

/* Where the script leaves steps out, the updates are those that a run without skipped steps has
 * made before. */
bool dt_trial_next(DtTrialRun *run, uint32_t at)
{
    DtRank *rank = run->rank;
    if (at >= (uint64_t)rank->meta.steps)
        return false;
    const DtTrialStep *step = &run->trial->script[at];
    const int64_t number = step->number;
    for (uint32_t i = 0; i < rank->plan->n_objectives; i++)
        if (at == 0 || number != rank->step + 1)
            rank->updates[i] = number / (run->trial->is_life ? rank->plan->objectives[i].every : 1);
    rank->step = number;
    if (rank->scale.is_dynamic && step->loss_scale > 0)
        rank->scale.factor = step->loss_scale;
    if (rank->scale.is_dynamic && step->good >= 0)
        rank->scale.good = step->good;
    return true;
}

/* Where iteration `local` of a store that this rank has a part of lies in its tensor; -1: it cannot. */
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
        for (int64_t i = 0; is_here(run, s) && i < dt_trial_iterations(plan, &plan->stores[s]); i++) {
            const int64_t at = place_of(run, s, i);
            if (at < 0)
                return dt_rank_fail(run->rank, DT_EXIT_FAILED, "the plan is broken: `%.200s` has iterations that its "
                                    "loop has not", dt_plan_str(plan, plan->stores[s].path));
            dt_pack_take(run->rank, &plan->stores[s], i, values + at);
        }
    if (run->rank->rank == 0)
        run->trial->began = 1;
    return true;
}

/* ---- showing ---- */

/* n bytes, of which this rank has those marked in `has`, with all bits set. */
static void show(DtTrialRun *run, int64_t step, int64_t tensor, int64_t first, const char *from, const char *has,
                 int64_t n, char *to, char *shown)
{
    DtTrialCopies *copies = &run->trial->copies;
    for (int64_t i = 0; i < n; i++) {
        if (!has[i])
            continue;
        if (shown[i] && to[i] != from[i] && !copies->found)
            *copies = (DtTrialCopies){1, (uint32_t)step, run->rank->rank, 0, tensor, first + i};
        if (!shown[i])
            to[i] = from[i];
        shown[i] = 1;
    }
}

/* Which bytes of an iteration are on this rank: those in which two copies on different
 * backgrounds agree. */
static void show_iteration(DtTrialRun *run, int64_t step, uint32_t store, int64_t local)
{
    const DtPlanStore *record = &run->rank->plan->stores[store];
    const int64_t n = iteration_bytes(run->rank->plan, record), at = place_of(run, store, local);
    const int64_t tensor = run->layout.of_store[store];
    char *values = (char *)run->trial + dt_trial_values(&run->layout, (uint32_t)step) + at;
    for (int b = 0; b < 2; b++) {
        memset(run->twice[b], b ? 0xff : 0, (size_t)n);
        dt_pack_give(run->rank, record, local, run->twice[b]);
    }
    for (int64_t i = 0; i < n; i++)
        run->twice[1][i] = run->twice[1][i] == run->twice[0][i];
    show(run, step, tensor, at - run->layout.tensors[tensor].at, run->twice[0], run->twice[1], n, values,
         values + run->layout.values);
}

static void show_scalars(DtTrialRun *run, int64_t step, bool evaluated)
{
    const DtPlan *plan = run->rank->plan;
    char *to = (char *)run->trial + dt_trial_scalars(&run->layout, (uint32_t)step);
    for (uint32_t m = 0; m < plan->n_metrics; m++) {
        const DtPlanMetric *metric = &plan->metrics[m];
        static const char all[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        const bool is_eval = dt_plan_name(dt_plan_str(plan, metric->entry)).run == DT_PLAN_EVAL;
        if (metric->n_axes || !dt_plan_on_stage(metric->stage, run->rank->stage) ||
            (!dt_plan_is_step(plan, metric->entry) && !(evaluated && is_eval)))
            continue;
        const double value = dt_exec_scalar(run->rank, metric);
        show(run, step, -1, m * 8, (const char *)&value, all, 8, to + m * 8, to + run->layout.scalars + m * 8);
    }
}

static void show_course(DtTrialRun *run, uint32_t at, const DtStepReport *report)
{
    DtTrialStep *step = &run->trial->script[at];
    step->taken = step->skipped = 0;
    for (uint32_t i = 0; i < report->n_losses; i++) {
        step->taken |= (uint32_t)report->losses[i].taken << i;
        step->skipped |= (uint32_t)report->losses[i].skipped << i;
    }
    step->loss_scale_after = report->scale.factor;
    step->good_after = report->scale.good;
}

bool dt_trial_show(DtTrialRun *run, uint32_t at, const DtStepReport *report, bool evaluated)
{
    DtRank *rank = run->rank;
    const DtPlan *plan = rank->plan;
    if (rank->rank == 0)
        show_course(run, at, report);
    for (uint32_t turn = 0; turn < rank->n_ranks; turn++) {
        for (uint32_t s = 0; turn == rank->rank && s < plan->n_stores; s++)
            for (int64_t i = 0; is_here(run, s) && i < dt_trial_iterations(plan, &plan->stores[s]); i++)
                show_iteration(run, at, s, i);
        if (turn == rank->rank) {
            show_scalars(run, at, evaluated);
            atomic_fetch_add(&rank->slot->progress, 1);
            run->trial->done += turn + 1 == rank->n_ranks;
        }
        if (rank->n_ranks > 1 && !rank->comm_ops->barrier(rank->comm, &rank->world))
            return false;
    }
    return true;
}
