/* SPDX-License-Identifier: Apache-2.0 */
/* How a run goes on when ranks are lost (--elastic):
 *
 *     choose how many ranks there can be (roster.h) | have a plan made for them (elastic.h) | take
 *     its path, and the words that start its ranks, in the place of the present ones */
#include "plan/read.h"
#include "runtime/say.h"
#include "runtime/supervisor_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

DtStatus dt_formation_open(DtSupervisor *all)
{
    const DtRunOptions *options = all->given.options;
    const uint32_t ranks = all->given.plan->meta->n_ranks;
    DtElasticSizes sizes;
    if (!options->elastic)
        return DT_OK;
    DtStatus status = dt_elastic_sizes(options->plan_path, &sizes);
    if (!dt_status_ok(&status))
        return dt_status_fail(DT_EXIT_USAGE, "--elastic: %.450s", status.message);
    const int64_t least = options->elastic > sizes.multiple ? options->elastic : sizes.multiple;
    if (ranks <= least)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--elastic: a plan of %u ranks cannot have fewer, but for at least "
                              "%lld and multiples of %lld",
                              ranks, (long long)options->elastic, (long long)sizes.multiple);
    all->elastic = dt_elastic_open(options->plan_path, ranks);
    all->formation =
        (DtFormation){.nodes = 1, .ranks = ranks, .seats = calloc(1, sizeof(uint32_t))};
    if (!all->elastic || !all->formation.seats ||
        !dt_roster_open(&all->roster, 1, ranks, ranks))
        return dt_status_fail(DT_EXIT_RETRY, "no memory for hosts and plans");
    all->roster.multiple = (uint32_t)sizes.multiple;
    all->roster.least = (uint32_t)least;
    return DT_OK;
}

static void free_words(DtSupervisor *all)
{
    if (all->fewer.plan.meta)
        dt_read_close(&all->fewer);
    all->fewer = (DtPlanFile){0};
    if (all->words) {
        free((void *)(uintptr_t)all->own.plan_path);
        free(all->words);
    }
    all->words = NULL;
}

void dt_formation_close(DtSupervisor *all)
{
    dt_elastic_close(all->elastic);
    dt_roster_close(&all->roster);
    free(all->formation.seats);
    free_words(all);
}

/* ---- the plan ---- */

/* Puts the plan, which is open, in the place of the present one: also in the words that ranks are
 * started with. */
static DtStatus take_file(DtSupervisor *all, const DtPlanFile *file, const char *path)
{
    const DtGiven *given = &all->given;
    DtStatus status = dt_supervisor_check(given->options, &file->plan);
    char **words = calloc((size_t)given->argc + 1, sizeof *words);
    char *copy = strdup(path);
    if (dt_status_ok(&status) && (!words || !copy))
        status = dt_status_fail(DT_EXIT_RETRY, "no memory for the command line");
    if (!dt_status_ok(&status)) {
        free(words);
        free(copy);
        return status;
    }
    for (int i = 0; i < given->argc; i++)
        words[i] = given->argv[i] == given->options->plan_path ? copy : given->argv[i];
    free_words(all);
    all->own = *given->options;
    all->own.plan_path = copy;
    all->options = &all->own;
    all->argv = all->words = words;
    all->fewer = *file;
    all->plan = &all->fewer.plan;
    return DT_OK;
}

/* Opens the plan that was made for so many ranks, and takes it. False with a good status: the file
 * has changed since. */
static bool take_plan(DtSupervisor *all, uint32_t ranks, DtStatus *ret_status)
{
    char path[4096];
    DtPlanFile file;
    dt_elastic_path(all->elastic, ranks, path);
    *ret_status = DT_OK;
    const DtStatus opened = dt_read_file(path, &file);
    if (!dt_status_ok(&opened))
        return false;
    if (file.plan.digest == dt_elastic_digest(all->elastic, ranks))
        *ret_status = take_file(all, &file, path);
    else {
        dt_read_close(&file);
        return false;
    }
    if (dt_status_ok(ret_status))
        return true;
    dt_read_close(&file);
    return false;
}

/* Waits a tenth of a second. Whether a signal has come that ends the run. */
static bool is_ended(const DtSupervisor *all)
{
    const struct timespec look = {.tv_nsec = DT_SUPERVISOR_LOOK_NS};
    int signal;
    do
        signal = sigtimedwait(&all->signals, NULL, &look);
    while (signal == SIGCHLD);
    return signal > 0;
}

/* Has the plan made, and takes it. */
static DtStatus get_plan(DtSupervisor *all, uint32_t ranks)
{
    DtStatus status = DT_OK;
    for (;;) {
        const DtElasticState state = dt_elastic_get(all->elastic, ranks, false, &status);
        if (state == DT_ELASTIC_FAILED)
            return status;
        if (state == DT_ELASTIC_READY) {
            if (take_plan(all, ranks, &status) || !dt_status_ok(&status))
                return status;
            dt_elastic_forget(all->elastic, ranks);
        }
        if (is_ended(all))
            return dt_status_fail(DT_EXIT_INTERRUPTED, "ended by a signal");
    }
}

/* ---- all of it ---- */

static void say_how(const DtSupervisor *all, uint32_t before)
{
    const char *path = all->options->plan_path;
    if (all->has_saved && all->saved_step >= 0)
        dt_say("going on with %u of %u ranks (%s) from the checkpoint after %lld steps",
               all->formation.ranks, before, path, (long long)all->saved_step);
    else
        dt_say("going on with %u of %u ranks (%s); this run has saved nothing so far",
               all->formation.ranks, before, path);
}

static DtStatus too_few(const DtSupervisor *all)
{
    return dt_status_fail(DT_EXIT_RETRY,
                          "the layout can have multiples of %u ranks, at most %u, and there are "
                          "%u; --elastic allows no fewer than %u",
                          all->roster.multiple, all->roster.most, all->roster.ceiling,
                          all->roster.least);
}

bool dt_formation_make(DtSupervisor *all)
{
    const uint32_t before = all->n_ranks;
    DtStatus status = DT_OK;
    dt_roster_lose_rank(&all->roster, &all->formation, 0);
    dt_say("compiling for fewer than %u ranks", before);
    for (;;) {
        if (!dt_roster_choose(&all->roster, &all->formation)) {
            status = dt_status_ok(&status) ? too_few(all) : status;
            break;
        }
        status = get_plan(all, all->formation.ranks);
        if (dt_status_ok(&status) || status.code == DT_EXIT_INTERRUPTED ||
            status.code == DT_EXIT_IO)
            break;
        all->roster.is_bad[all->formation.ranks] = true;
    }
    if (!dt_status_ok(&status)) {
        dt_say("the run does not go on with fewer ranks: %s", status.message);
        all->code = status.code == DT_EXIT_INTERRUPTED ? DT_EXIT_INTERRUPTED : DT_EXIT_RETRY;
        return false;
    }
    all->n_ranks = all->n_local = all->formation.ranks;
    say_how(all, before);
    return true;
}
