/* SPDX-License-Identifier: Apache-2.0 */
/* How a run goes on when hosts or ranks are lost, or when hosts come (--elastic, --spares):
 *
 *     node 0 chooses hosts and ranks (roster.h) | it has a plan made for them (elastic.h) | all
 *     take the plan, and the words that start its ranks, in the place of the present ones
 *
 * On one host there is only that host. With several, agents stay: they leave their tree, find each
 * other anew (cluster_meet.c), and those that do not find the plan in their own folder get it from
 * their parents. */
#include "base/file.h"
#include "plan/read.h"
#include "runtime/checkpoint.h"
#include "runtime/say.h"
#include "runtime/supervisor_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t look_ns = 300000000u;
/* how long it waits until it tries again to make a plan ahead that could not be made */
static const uint64_t again_ns = 60000000000u;

/* ---- the beginning ---- */

/* Which numbers of ranks the plan can have. Spares alone need no other plan. */
static DtStatus find_sizes(const DtRunOptions *options, uint32_t ranks, DtRoster *roster)
{
    DtElasticSizes sizes = {.multiple = ranks, .most = ranks};
    DtStatus status =
        options->elastic ? dt_elastic_sizes(options->plan_path, &sizes) : DT_OK;
    if (!dt_status_ok(&status))
        return dt_status_fail(DT_EXIT_USAGE, "--elastic: %.450s", status.message);
    const int64_t least = options->elastic > sizes.multiple ? options->elastic : sizes.multiple;
    roster->multiple = (uint32_t)sizes.multiple;
    roster->least = (uint32_t)least;
    if (ranks > least || options->spares > 0)
        return DT_OK;
    return dt_status_fail(DT_EXIT_USAGE,
                          "--elastic: a plan of %u ranks cannot have fewer, but for at least %lld "
                          "and multiples of %lld",
                          ranks, (long long)options->elastic, (long long)sizes.multiple);
}

DtStatus dt_formation_open(DtSupervisor *all)
{
    const DtRunOptions *options = all->given.options;
    const uint32_t ranks = all->given.plan->meta->n_ranks, hosts = dt_cluster_hosts(options),
                   seats = options->nodes > 1 ? (uint32_t)options->nodes : 1;
    if (!dt_cluster_is_elastic(options))
        return DT_OK;
    all->elastic = dt_elastic_open(options->plan_path, ranks);
    all->formation = (DtFormation){.nodes = hosts, .ranks = ranks,
                                   .seats = calloc(seats, sizeof *all->formation.seats)};
    all->next.seats = calloc(seats, sizeof *all->next.seats);
    if (!all->elastic || !all->formation.seats || !all->next.seats ||
        !dt_roster_open(&all->roster, seats, ranks / hosts, ranks))
        return dt_status_fail(DT_EXIT_RETRY, "no memory for hosts and plans");
    return options->node == 0 ? find_sizes(options, ranks, &all->roster) : DT_OK;
}

static void drop_place(DtSupervisor *all)
{
    if (all->fewer.plan.meta)
        dt_read_close(&all->fewer);
    all->fewer = (DtPlanFile){0};
    free(all->words);
    free(all->path);
    all->words = NULL;
    all->path = NULL;
}

void dt_formation_close(DtSupervisor *all)
{
    dt_elastic_close(all->elastic);
    dt_roster_close(&all->roster);
    free(all->formation.seats);
    free(all->next.seats);
    drop_place(all);
}

/* ---- the place of this host ---- */

/* The words that start ranks: the given ones, with the plan's path, and where they are. Later
 * options count more. */
static char **make_words(const DtSupervisor *all, const DtRunOptions *own, char numbers[2][24],
                         int *ret_n)
{
    const DtGiven *given = &all->given;
    char *more[] = {"--nodes", numbers[0], "--node", numbers[1], "--spares", "0", "--comm", "shm"};
    const int n_more = !all->cluster ? 0 : own->comm != given->options->comm ? 8 : 6;
    char **words = calloc((size_t)(given->argc + n_more) + 1, sizeof *words);
    for (int i = 0; words && i < given->argc; i++)
        words[i] = given->argv[i] == given->options->plan_path ? (char *)(uintptr_t)own->plan_path
                                                               : given->argv[i];
    if (words)
        memcpy(words + given->argc, more, (size_t)n_more * sizeof *more);
    *ret_n = given->argc + n_more;
    return words;
}

/* Makes this node number `node` of `nodes`, with the plan in the file; NULL: the given one. Takes
 * over the file if it succeeds. */
static DtStatus take_place(DtSupervisor *all, uint32_t nodes, uint32_t node, const char *path,
                           const DtPlanFile *file)
{
    const DtGiven *given = &all->given;
    const DtPlan *plan = file ? &file->plan : given->plan;
    DtRunOptions own = *given->options;
    own.plan_path = strdup(path);
    own.nodes = nodes;
    own.node = node;
    own.spares = 0;
    if (nodes == 1 && own.comm && (strcmp(own.comm, "ucx") == 0 || strcmp(own.comm, "tcp") == 0))
        own.comm = "shm"; /* there is no other host */
    DtStatus status = all->cluster ? dt_supervisor_fits(&own, plan)
                                   : dt_supervisor_check(&own, plan);
    int n_words;
    char **words = make_words(all, &own, all->numbers, &n_words);
    if (dt_status_ok(&status) && (!own.plan_path || !words))
        status = dt_status_fail(DT_EXIT_RETRY, "no memory for the command line");
    if (!dt_status_ok(&status)) {
        free((void *)(uintptr_t)own.plan_path);
        free(words);
        return status;
    }
    drop_place(all);
    snprintf(all->numbers[0], sizeof all->numbers[0], "%u", nodes);
    snprintf(all->numbers[1], sizeof all->numbers[1], "%u", node);
    all->own = own;
    all->options = &all->own;
    all->path = (char *)(uintptr_t)own.plan_path;
    all->argv = all->words = words;
    all->argc = n_words;
    if (file)
        all->fewer = *file;
    all->plan = file ? &all->fewer.plan : given->plan;
    all->n_ranks = all->plan->meta->n_ranks;
    all->first = dt_cluster_first(&all->own, all->plan);
    all->n_local = dt_cluster_ranks(&all->own, all->plan);
    return DT_OK;
}

/* Opens the plan for so many ranks, and takes it if it has the digest. False with a good status: it
 * is another file, or there is none. */
static bool take_plan(DtSupervisor *all, uint32_t nodes, uint32_t node, uint32_t ranks,
                      uint64_t digest, DtStatus *ret_status)
{
    char path[4096];
    DtPlanFile file;
    *ret_status = DT_OK;
    if (ranks == all->given.plan->meta->n_ranks) {
        *ret_status = take_place(all, nodes, node, all->given.options->plan_path, NULL);
        return dt_status_ok(ret_status);
    }
    dt_elastic_path(all->elastic, ranks, path);
    const DtStatus opened = dt_read_file(path, &file);
    if (!dt_status_ok(&opened))
        return false;
    const bool is_it = file.plan.digest == digest && file.plan.meta->n_ranks == ranks;
    if (is_it)
        *ret_status = take_place(all, nodes, node, path, &file);
    if (is_it && dt_status_ok(ret_status))
        return true;
    dt_read_close(&file);
    return false;
}

/* ---- node 0 ---- */

static DtStatus too_few(const DtSupervisor *all)
{
    const DtRoster *r = &all->roster;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < r->n; i++)
        slots += r->seats[i].is_there ? r->seats[i].slots : 0;
    slots = slots < r->ceiling ? slots : r->ceiling;
    return dt_status_fail(DT_EXIT_RETRY,
                          "the layout can have multiples of %u ranks, at most %u, and there are "
                          "%u; --elastic allows no fewer than %u",
                          r->multiple, r->most, slots, r->least);
}

/* Chooses ranks and hosts, has the plan made, and takes it. False with a good status: call it
 * again. */
static bool choose(DtSupervisor *all, DtStatus *ret_status)
{
    DtFormation *f = &all->formation;
    DtStatus why = all->why;
    if (!dt_roster_choose(&all->roster, f)) {
        *ret_status = dt_status_ok(&why) ? too_few(all) : why;
        return false;
    }
    *ret_status = DT_OK;
    switch (dt_elastic_get(all->elastic, f->ranks, false, &why)) {
    case DT_ELASTIC_BUSY:
        if (all->said_ranks != f->ranks)
            dt_say("compiling for %u ranks", f->ranks);
        all->said_ranks = f->ranks;
        return false;
    case DT_ELASTIC_READY:
        if (take_plan(all, f->nodes, 0, f->ranks, dt_elastic_digest(all->elastic, f->ranks), &why))
            return true;
        if (dt_status_ok(&why)) {
            dt_elastic_forget(all->elastic, f->ranks);
            return false;
        }
        break;
    case DT_ELASTIC_FAILED: break;
    }
    if (why.code == DT_EXIT_IO || why.code == DT_EXIT_INTERRUPTED)
        *ret_status = why;
    all->roster.is_bad[f->ranks] = true; /* fewer may do */
    all->why = why;
    return false;
}

static void say_how(const DtSupervisor *all, uint32_t before)
{
    const uint32_t ranks = all->formation.ranks;
    char hosts[40] = "", of[40] = "", since[80] = "; this run has saved nothing so far";
    if (all->cluster)
        snprintf(hosts, sizeof hosts, " on %u host%s", all->formation.nodes,
                 all->formation.nodes == 1 ? "" : "s");
    if (all->has_saved && all->saved_step >= 0)
        snprintf(since, sizeof since, " from the checkpoint after %lld steps",
                 (long long)all->saved_step);
    if (ranks > before)
        snprintf(of, sizeof of, "%u ranks instead of %u", ranks, before);
    else
        snprintf(of, sizeof of, "%u of %u ranks", ranks, before);
    dt_say("going on with %s%s (%s)%s", of, hosts, all->options->plan_path, since);
}

/* Ends the run, since there is no way to go on. */
static bool end_with(DtSupervisor *all, const DtStatus *status)
{
    dt_say("the run does not go on: %s", status->message);
    all->code = status->code == DT_EXIT_INTERRUPTED ? DT_EXIT_INTERRUPTED : DT_EXIT_RETRY;
    if (all->cluster)
        dt_cluster_set_code(all->cluster, all->code);
    return false;
}

/* ---- one host ---- */

static bool form_alone(DtSupervisor *all)
{
    const struct timespec look = {.tv_nsec = DT_SUPERVISOR_LOOK_NS};
    const uint32_t before = all->n_ranks;
    DtStatus status = DT_OK;
    while (!choose(all, &status)) {
        if (!dt_status_ok(&status))
            return end_with(all, &status);
        const int signal = sigtimedwait(&all->signals, NULL, &look);
        status = dt_status_fail(DT_EXIT_INTERRUPTED, "ended by a signal");
        if (signal > 0 && signal != SIGCHLD)
            return end_with(all, &status);
    }
    say_how(all, before);
    return true;
}

/* ---- several hosts ---- */

/* Node 0: chooses, and tells the hosts. False: the run ends. */
static bool form(DtSupervisor *all, uint32_t before)
{
    DtStatus status;
    if (dt_cluster_was_stopped(all->cluster)) {
        status = dt_status_fail(DT_EXIT_INTERRUPTED, "ended by a signal to another host");
        return end_with(all, &status);
    }
    if (!choose(all, &status))
        return dt_status_ok(&status) || end_with(all, &status);
    const DtClusterRoute route = {.digest = all->plan->digest, .has_saved = all->has_saved};
    if (!dt_cluster_form(all->cluster, &all->formation, &route))
        return true;
    dt_cluster_have_plan(all->cluster, all->fewer.view.at, all->fewer.view.len);
    if (before > 0)
        say_how(all, before);
    return true;
}

/* Ranks of this host read the checkpoints that the run has saved. */
static DtStatus check_checkpoints(const DtRunOptions *options, bool has_saved)
{
    const char *folder = dt_outputs_folder(options);
    if (!folder || !has_saved)
        return DT_OK;
    DtArena *memory = dt_arena_new();
    DtCheckpointList list;
    const DtStatus status = dt_checkpointlist_read(memory, folder, false, &list);
    const bool has = dt_status_ok(&status) && dt_checkpointlist_newest(&list);
    dt_arena_free(memory);
    return has ? DT_OK
               : dt_status_fail(DT_EXIT_IO,
                                "the run has saved checkpoints, and it sees none in %.300s: hosts "
                                "must share that folder",
                                folder);
}

/* Another host: takes the place that node 0 has chosen for it, if its plan is here. False: this
 * host cannot. */
static bool take_route(DtSupervisor *all, bool is_last)
{
    const DtClusterRoute r = dt_cluster_route(all->cluster);
    DtStatus status = check_checkpoints(all->given.options, r.has_saved);
    if (dt_status_ok(&status) &&
        take_plan(all, r.nodes, r.node, r.ranks, r.digest, &status)) {
        dt_cluster_have_plan(all->cluster, all->fewer.view.at, all->fewer.view.len);
        all->has_saved = r.has_saved;
        return true;
    }
    if (dt_status_ok(&status) && !is_last) {
        dt_cluster_need_plan(all->cluster);
        return true;
    }
    if (dt_status_ok(&status))
        status = dt_status_fail(DT_EXIT_FAILED, "the plan that node 0 has sent is damaged");
    dt_say("this host cannot take part: %s", status.message);
    all->code = status.code;
    return false;
}

/* Writes the plan that has come to its place, and takes it. */
static bool take_fetched(DtSupervisor *all)
{
    char path[4096];
    size_t len;
    const uint8_t *bytes = dt_cluster_fetched(all->cluster, &len);
    dt_elastic_path(all->elastic, dt_cluster_route(all->cluster).ranks, path);
    const DtStatus status = dt_file_write(path, bytes, len);
    if (dt_status_ok(&status))
        return take_route(all, true);
    dt_say("this host cannot take part: %s", status.message);
    all->code = status.code;
    return false;
}

/* Handles signals while hosts find each other. False: this host ends. */
static bool goes_on(DtSupervisor *all)
{
    const int asked = dt_supervisor_asked(all);
    if (asked == 0)
        return true;
    all->code = DT_EXIT_INTERRUPTED;
    if (all->given.options->node == 0)
        dt_cluster_set_code(all->cluster, all->code);
    else if (asked > 0 && !all->has_asked && dt_cluster_ask_stop(all->cluster)) {
        all->has_asked = true; /* node 0 tells when the run has ended */
        return true;
    }
    return false;
}

static bool end_as_told(DtSupervisor *all, DtClusterTurn turn)
{
    const DtStatus why = dt_cluster_why(all->cluster, &all->code);
    if (turn == DT_TURN_FAILED)
        dt_say("%s", why.message);
    return false;
}

/* Until all hosts of a formation have met. before: ranks of the last one; 0: there was none. */
static bool meet(DtSupervisor *all, uint32_t before)
{
    bool good = true;
    all->has_asked = false;
    while (good) {
        const DtClusterTurn turn = dt_cluster_turn(all->cluster);
        switch (turn) {
        case DT_TURN_WAITS: break;
        case DT_TURN_GATHERED: good = form(all, before); break;
        case DT_TURN_ROUTED: good = take_route(all, false); break;
        case DT_TURN_FETCHED: good = take_fetched(all); break;
        case DT_TURN_MET:
            all->attempt = dt_cluster_route(all->cluster).attempts;
            return true;
        case DT_TURN_OVER:
        case DT_TURN_FAILED: return end_as_told(all, turn);
        }
        good = good && goes_on(all);
    }
    return false;
}

bool dt_formation_meet(DtSupervisor *all, uint64_t words, bool (*is_over)(void *context))
{
    const DtStatus status =
        dt_cluster_begin(all->given.options, all->given.plan, words, is_over, all, &all->roster,
                         &all->cluster);
    if (dt_status_ok(&status))
        return meet(all, 0);
    dt_say("%s", status.message);
    all->code = status.code;
    return false;
}

bool dt_formation_make(DtSupervisor *all)
{
    const uint32_t before = all->n_ranks;
    all->said_ranks = 0;
    all->why = DT_OK;
    if (!all->cluster)
        return form_alone(all);
    dt_cluster_regroup(all->cluster, dt_now_ns());
    return meet(all, before);
}

/* ---- while ranks run ---- */

/* Has the plan for so many ranks made. True: it is there. If `dtc` refuses the layout, no plan can
 * have so many. Another failure may pass, such as no memory for dtc beside the training: it is
 * tried again after a while. */
static bool has_plan(DtSupervisor *all, uint32_t ranks, bool is_ahead)
{
    DtStatus why;
    if (dt_now_ns() < all->ahead_ns)
        return false;
    const DtElasticState state = dt_elastic_get(all->elastic, ranks, is_ahead, &why);
    if (state == DT_ELASTIC_FAILED &&
        (why.code == DT_EXIT_DIAGNOSTICS || why.code == DT_EXIT_DOES_NOT_FIT))
        all->roster.is_bad[ranks] = true;
    else if (state == DT_ELASTIC_FAILED)
        all->ahead_ns = dt_now_ns() + again_ns;
    return state == DT_ELASTIC_READY;
}

/* Hosts wait with which there would be more ranks: has the plan for them made, and then lets the
 * ranks end after a save. */
static void look_for_more(DtSupervisor *all)
{
    const uint32_t ranks = all->next.ranks;
    if (!has_plan(all, ranks, false) || atomic_exchange(&all->shared->regroup, 1))
        return;
    dt_say("there can be %u ranks; the run goes on with them after its next save", ranks);
}

/* Has the plan made that the run needs if a host is lost, or, on one host, a rank. */
static void look_for_fewer(DtSupervisor *all)
{
    uint32_t ranks = dt_roster_without_one(&all->roster, &all->next);
    if (all->formation.nodes == 1) {
        const uint32_t ceiling = all->roster.ceiling;
        all->roster.ceiling = all->n_ranks - 1;
        ranks = dt_roster_choose(&all->roster, &all->next) ? all->next.ranks : 0;
        all->roster.ceiling = ceiling;
    }
    if (ranks > 0 && ranks < all->n_ranks)
        has_plan(all, ranks, true);
}

void dt_formation_look(DtSupervisor *all)
{
    const uint64_t now_ns = dt_now_ns();
    if (!all->elastic || all->given.options->node > 0 || all->failed || all->stops ||
        now_ns < all->looked_ns + look_ns)
        return;
    const DtSlot *first = dt_shared_slot(all->plan, all->shared, 0);
    all->looked_ns = now_ns;
    if (atomic_load(&first->phase) != DT_PHASE_RUNNING)
        return;
    if (all->cluster && dt_roster_choose(&all->roster, &all->next) &&
        all->next.ranks > all->n_ranks) {
        look_for_more(all);
        return;
    }
    atomic_store(&all->shared->regroup, 0); /* a host that waited may have gone again */
    if (all->given.options->elastic)
        look_for_fewer(all);
}

/* ---- after an attempt ---- */

/* Whether ranks have ended after a save, so that other hosts can take part. */
static bool has_regrouped(DtSupervisor *all)
{
    const bool ended = all->code == DT_EXIT_INTERRUPTED || all->code == DT_EXIT_IO;
    if (!ended || !all->shared || atomic_load(&all->shared->last_step) >= 0)
        return false;
    all->is_unsaved = all->is_unsaved || all->code == DT_EXIT_IO;
    return true;
}

bool dt_formation_wanted(DtSupervisor *all)
{
    const bool has_lost_host = all->cluster && !dt_cluster_is_whole(all->cluster);
    if (!all->elastic || all->stops || all->given.options->node > 0)
        return false;
    if (has_regrouped(all))
        return true;
    if (all->code != DT_EXIT_RETRY)
        return false;
    if (all->lost_node >= 0)
        dt_roster_lose_rank(&all->roster, &all->formation, (uint32_t)all->lost_node);
    return has_lost_host || all->lost_node >= 0;
}
