/* SPDX-License-Identifier: Apache-2.0 */
/* The parent of the rank processes. It opens no library and starts no thread: it makes the shared
 * memory, starts this program again once per rank, and then only watches:
 *
 *   a rank ends      SIGCHLD, at once
 *   a rank fails     the abort word says who was first
 *   a rank hangs     watch.c, ten times a second
 *   Ctrl-C           the ranks finish the step
 *
 * The first failure is the one reported, with step, instruction and line of the model. Then all
 * ranks end: they see the abort word in every wait and after every body; who has not left two
 * seconds later is killed. Each rank asks the kernel to be killed when the supervisor dies, so
 * nothing is left behind in any case.
 *
 * SIGINT, SIGTERM, SIGHUP and SIGUSR1 (a batch system's warning) are blocked here and in the ranks:
 * a terminal sends them to all processes, but the supervisor alone decides. */
#include "base/hash.h"
#include "base/hostcc.h"
#include "runtime/failed_place.h"
#include "runtime/page.h"
#include "runtime/remote.h"
#include "runtime/say.h"
#include "runtime/supervisor_internal.h"
#include "runtime/tasks.h"
#include "runtime/train.h"
#include "runtime/watch.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const uint64_t GRACE_NS = 2000000000u, ECHO_NS = 10000000000u;

typedef DtSupervisor Supervisor;

/* ---- messages ---- */

static void add_place(DtText *text, const Supervisor *all, uint32_t rank, bool is_watched)
{
    dt_failedplace_add(text, all->plan, dt_shared_slot(all->plan, all->shared, rank),
                       dt_run_predicts(all->options), is_watched);
}

static void say_at(const Supervisor *all, uint32_t rank, const char *what, bool is_watched)
{
    DtText place = {0};
    add_place(&place, all, rank, is_watched);
    dt_say("%s%s%s", what, place.at ? "\n  " : "", place.at ? place.at : "");
    dt_text_free(&place);
}

/* ---- failures ---- */

static void tell_cluster(const Supervisor *all, uint32_t rank, const char *what, bool is_watched)
{
    DtText text = {0}, place = {0};
    if (!all->cluster)
        return;
    add_place(&place, all, rank, is_watched);
    dt_text_printf(&text, "%s%s%s", what, place.at ? "\n  " : "", place.at ? place.at : "");
    dt_cluster_tell(all->cluster, DT_CLUSTER_FAILED, all->code, all->has_lost, text.at);
    dt_text_free(&place);
    dt_text_free(&text);
}

/* Records the failure of a rank; only the first one counts. code: the exit code for it. */
static void fail_at(Supervisor *all, uint32_t rank, int code, const char *what, bool is_watched)
{
    if (all->failed)
        return;
    all->failed = true;
    all->failed_ns = dt_now_ns();
    all->code = code;
    say_at(all, rank, what, is_watched);
    tell_cluster(all, rank, what, is_watched);
    dt_shared_abort(all->shared, DT_BY_SUPERVISOR);
}

static void fail(Supervisor *all, uint32_t rank, int code, const char *what)
{
    fail_at(all, rank, code, what, false);
}

/* Records the failure of a rank that has already said why it failed. For errors in files, no rank
 * is named. */
static void fail_by_message(Supervisor *all, uint32_t rank)
{
    const DtSlot *slot = dt_shared_slot(all->plan, all->shared, rank);
    char what[sizeof slot->message + 64];
    int code = atomic_load(&slot->exit_code);
    if (atomic_load(&slot->by_data))
        snprintf(what, sizeof what, "%.*s", (int)sizeof slot->message - 1, slot->message);
    else
        snprintf(what, sizeof what, "rank %u failed: %.*s", rank, (int)sizeof slot->message - 1,
                 slot->message);
    fail(all, rank, code != DT_EXIT_OK ? code : DT_EXIT_FAILED, what);
}

/* Whether the program itself causes this signal: a restart would fail in the same way. */
static bool is_permanent(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
           signal == SIGABRT || signal == SIGSYS || signal == SIGTRAP;
}

/* Adds "; ..." if processes may use less memory than the machine has: a library whose allocation
 * fails may end the process. */
static void add_limit(char *ret_text, size_t size)
{
    struct rlimit limit;
    char bytes[32];
    ret_text[0] = '\0';
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(ret_text, size, "; perhaps for lack of memory: `ulimit -v` allows it %s",
                 dt_text_bytes(bytes, (double)limit.rlim_cur));
}

static void fail_by_signal(Supervisor *all, uint32_t rank, int signal)
{
    char what[300], limit[100];
    add_limit(limit, sizeof limit);
    snprintf(
        what, sizeof what, "rank %u was ended by signal %d (%s)%s", rank, signal, strsignal(signal),
        signal == SIGKILL ? "; somebody killed it, perhaps the kernel for lack of memory" : limit);
    all->has_lost |= !all->failed && !is_permanent(signal);
    fail(all, rank, is_permanent(signal) ? DT_EXIT_FAILED : DT_EXIT_RETRY, what);
}

/* Handles the end of a rank process. */
static void note_end(Supervisor *all, uint32_t rank, int status)
{
    const DtSlot *slot = dt_shared_slot(all->plan, all->shared, rank);
    int64_t first = dt_shared_aborter(all->shared);
    all->pids[rank] = 0;
    all->n_alive--;
    if (first >= 0)
        fail_by_message(all, (uint32_t)first);
    else if (WIFSIGNALED(status))
        fail_by_signal(all, rank, WTERMSIG(status));
    else if (atomic_load(&slot->phase) == DT_PHASE_FAILED)
        fail_by_message(all, rank);
    else if (atomic_load(&slot->phase) != DT_PHASE_DONE) {
        char what[200], limit[100];
        add_limit(limit, sizeof limit);
        snprintf(what, sizeof what, "rank %u ended by itself with exit code %d%s", rank,
                 WEXITSTATUS(status), limit);
        fail(all, rank, WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : DT_EXIT_FAILED, what);
    } else if (!all->failed && WEXITSTATUS(status) != DT_EXIT_OK && all->code != DT_EXIT_IO)
        all->code = WEXITSTATUS(status);
}

static void reap(Supervisor *all)
{
    for (uint32_t r = 0; r < all->n_ranks; r++) {
        int status;
        if (all->pids[r] > 0 && waitpid(all->pids[r], &status, WNOHANG) == all->pids[r])
            note_end(all, r, status);
    }
    int64_t first = dt_shared_aborter(all->shared);
    if (first >= 0 && !all->failed)
        fail_by_message(all, (uint32_t)first);
}

static void kill_all(Supervisor *all)
{
    for (uint32_t r = 0; r < all->n_ranks; r++)
        if (all->pids[r] > 0)
            kill(all->pids[r], SIGKILL);
}

/* ---- watching ---- */

/* Explains ranks that wait for each other by a loss that is not finite on some of them only: these
 * end the run, and the others go on. Returns whether there is one; only an error in the memory or
 * the device of a rank does that. */
static bool fail_by_spoilt(Supervisor *all)
{
    char what[300];
    uint32_t spoilt = 0, first = UINT32_MAX;
    int64_t step = 0;
    for (uint32_t r = all->first; r < all->first + all->n_local; r++) {
        const int64_t here = atomic_load(&dt_shared_slot(all->plan, all->shared, r)->spoilt);
        if (here == 0)
            continue;
        spoilt++;
        first = first == UINT32_MAX ? r : first;
        step = here;
    }
    if (spoilt == 0 || spoilt == all->n_ranks)
        return false;
    snprintf(what, sizeof what,
             "the loss or the norm of step %lld is not finite on rank %u, and it is on others: a "
             "bit has flipped in memory, or a device computes wrongly. Nothing is saved",
             (long long)step, first);
    fail_at(all, first, DT_EXIT_RETRY, what, true);
    return true;
}

static void name_rank(Supervisor *all, const DtWatchEvent *event)
{
    char what[300], waiter[48] = "";
    uint32_t rank = event->rank;
    const DtSlot *slot = dt_shared_slot(all->plan, all->shared, rank);
    double usual = (double)all->samples[rank].usual_ns * 1e-9;
    if (event->waiter != UINT32_MAX)
        snprintf(waiter, sizeof waiter, " while rank %u waits for it", event->waiter);
    const bool waits = event->kind == DT_WATCH_IDLE || event->kind == DT_WATCH_CYCLE;
    if (waits && fail_by_spoilt(all))
        return;
    switch (event->kind) {
    case DT_WATCH_OUTSIDE:
        snprintf(what, sizeof what,
                 "rank %u has waited for a disk or a terminal for %.1f s%s; the run goes on", rank,
                 event->seconds, waiter);
        say_at(all, rank, what, true);
        return;
    case DT_WATCH_SLOW:
        if (usual > 0)
            snprintf(what, sizeof what,
                     "rank %u is slow: it computes for %.1f s, usually %.3g s%s; the run goes on",
                     rank, event->seconds, usual, waiter);
        else
            snprintf(what, sizeof what,
                     "rank %u is slow: it computes for %.1f s outside of instructions%s; the run "
                     "goes on",
                     rank, event->seconds, waiter);
        say_at(all, rank, what, true);
        return;
    case DT_WATCH_OVER:
        snprintf(what, sizeof what,
                 "rank %u has done its work, and its process does not end: no processor time for "
                 "%.1f s; it is ended",
                 rank, event->seconds);
        say_at(all, rank, what, true);
        kill(all->pids[rank], SIGKILL);
        note_end(all, rank, atomic_load(&slot->exit_code) << 8); /* as if it had ended by itself */
        return;
    case DT_WATCH_STOPPED:
        snprintf(what, sizeof what, "rank %u is stopped and has made no progress for %.1f s%s",
                 rank, event->seconds, waiter);
        fail_at(all, rank, DT_EXIT_RETRY, what, true);
        return;
    case DT_WATCH_IDLE:
        snprintf(what, sizeof what,
                 "rank %u hangs: no progress and almost no processor time for %.1f s%s", rank,
                 event->seconds, waiter);
        fail_at(all, rank, DT_EXIT_RETRY, what, true);
        return;
    case DT_WATCH_CYCLE:
        snprintf(what, sizeof what, "rank %u and rank %u wait for each other since %.1f s", rank,
                 event->waiter, event->seconds);
        fail_at(all, rank, DT_EXIT_RETRY, what, true);
        return;
    default:
        snprintf(what, sizeof what,
                 "rank %u has made no progress for %.1f s, more than --timeout allows", rank,
                 event->seconds);
        fail_at(all, rank, DT_EXIT_RETRY, what, true);
        return;
    }
}

static void watch(Supervisor *all)
{
    for (uint32_t r = 0; r < all->n_ranks; r++)
        all->samples[r] =
            dt_watch_sample(all->plan, dt_shared_slot(all->plan, all->shared, r), all->pids[r]);
    if (all->cluster)
        dt_cluster_share_waits(all->cluster, all->samples, all->first, all->n_local);
    const uint64_t now_ns = dt_now_ns();
    DtWatchEvent event = dt_watch_step(all->watch, all->samples, now_ns);
    if (all->cluster && event.kind == DT_WATCH_NOTHING)
        event = dt_cluster_cycle(all->cluster, all->samples, all->first, all->n_local, now_ns);
    if (event.kind == DT_WATCH_NOTHING)
        return;
    const bool had_lost = all->has_lost;
    all->has_lost = true;
    name_rank(all, &event);
    all->has_lost = all->failed || had_lost;
    if (all->failed && all->pids[event.rank] > 0) /* kills a rank that did not end by itself */
        kill(all->pids[event.rank], SIGKILL);
}

/* ---- stopping ---- */

static void stop(Supervisor *all, int signal)
{
    const bool predicts = all->options->n_predict > 0 || all->options->prompts;
    const bool finishes = predicts || (!all->options->eval && !dt_run_predicts(all->options));
    /* a launcher sends its signal to all tasks, each of which hands it on */
    if (all->stops && all->options->launched && dt_now_ns() - all->stop_ns < ECHO_NS)
        return;
    if (all->stops++ == 0)
        all->stop_ns = dt_now_ns();
    if (all->cluster)
        dt_cluster_tell(all->cluster, DT_CLUSTER_STOP, 0, false, "");
    if (all->stops == 1 && finishes && !all->failed) {
        atomic_store(&all->shared->stop, 1);
        dt_say("%s: the ranks finish their %s%s; once more ends them at once",
               signal == SIGINT ? "Ctrl-C" : strsignal(signal),
               all->options->n_predict > 0 ? "batch" : "step",
               !predicts && (all->options->save || all->options->resume) ? " and save" : "");
        return;
    }
    if (!all->failed) {
        all->failed = true; /* later messages of ranks are only consequences of the first failure */
        all->failed_ns = dt_now_ns();
        all->code = DT_EXIT_INTERRUPTED;
        if (all->cluster)
            dt_cluster_tell(all->cluster, DT_CLUSTER_FAILED, DT_EXIT_INTERRUPTED, false,
                            "ended by a signal");
    }
    dt_shared_abort(all->shared, DT_BY_SUPERVISOR);
    kill_all(all);
}

/* Handles messages of other nodes. */
static void hear(Supervisor *all)
{
    DtClusterNote note;
    while (all->cluster && (note = dt_cluster_hear(all->cluster)).news != DT_CLUSTER_NOTHING) {
        if (note.news == DT_CLUSTER_STOP && all->options->node == 0) {
            all->stops++;
            atomic_store(&all->shared->stop, 1);
        } else if (note.news == DT_CLUSTER_FAILED && !all->failed) {
            all->failed = true;
            all->failed_ns = dt_now_ns();
            all->code = note.code;
            all->lost_node = note.lost_rank ? (int64_t)note.node : -1;
            dt_say("node %u: %s", note.node, note.text);
            dt_shared_abort(all->shared, DT_BY_SUPERVISOR);
        }
    }
}

/* Ends the run for a reason outside of the ranks of this node, of which all other nodes hear. */
static void fail_outside(Supervisor *all, const char *here, const char *elsewhere)
{
    if (all->failed || all->stops)
        return;
    all->failed = true;
    all->failed_ns = dt_now_ns();
    all->code = DT_EXIT_RETRY;
    dt_say("%s", here);
    if (all->cluster && !all->leaves)
        dt_cluster_tell(all->cluster, DT_CLUSTER_FAILED, all->code, false, elsewhere);
    dt_shared_abort(all->shared, DT_BY_SUPERVISOR);
}

/* Handles signals that other tasks of this host have received, and their end. */
static void hear_tasks(Supervisor *all)
{
    int64_t task = 0;
    for (int news; (news = dt_tasks_hear(all->tasks, &task)) != 0;) {
        if (news > 0) {
            stop(all, news);
            continue;
        }
        char here[100];
        snprintf(here, sizeof here, "task %lld of this host has ended before the run",
                 (long long)task);
        fail_outside(all, here, "one of its tasks has ended");
    }
}

/* Handles what the program that started this agent on its host says (remote.h). */
static void hear_leash(Supervisor *all)
{
    int news = all->options->leash ? dt_remote_hear() : 0;
    if (news > 0)
        stop(all, news);
    else if (news < 0) {
        all->stops = 0; /* it can end nothing more */
        all->leaves = all->elastic && all->options->node > 0;
        fail_outside(all, "the program that started this one has ended, or the connection to it",
                     "the program that started it has ended, or the connection to that");
    }
}

/* Sleeps until a signal comes or it is time for the next look at the ranks; handles the signals. */
static void take_signals(Supervisor *all)
{
    struct timespec time = {.tv_nsec = DT_SUPERVISOR_LOOK_NS};
    int signal;
    while ((signal = sigtimedwait(&all->signals, NULL, &time)) > 0 ||
           (signal < 0 && errno == EINTR)) {
        if (signal > 0 && signal != SIGCHLD)
            stop(all, signal);
        time.tv_nsec = 0;
    }
}

/* ---- starting ---- */

/* Starts a child process. It inherits the mapping and the locks on the files that the run writes;
 * signals have their default actions, and those of the terminal are blocked. */
static int spawn_with(const Supervisor *all, char **argv, bool is_first, pid_t *ret_pid)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t blocked = all->signals;
    sigdelset(&blocked, SIGCHLD);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_adddup2(&files, all->fd, all->fd); /* clears close-on-exec */
    for (int i = 0; i < DT_OUTPUTS; i++)
        if (all->outputs.fds[i] >= 0)
            posix_spawn_file_actions_adddup2(&files, all->outputs.fds[i], all->outputs.fds[i]);
    if (is_first && all->shared->meet_fd >= 0)
        posix_spawn_file_actions_adddup2(&files, all->shared->meet_fd, all->shared->meet_fd);
    posix_spawnattr_setsigmask(&how, &blocked);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawn(ret_pid, "/proc/self/exe", &files, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static DtStatus spawn_ranks(Supervisor *all)
{
    char rank[24], shared[24];
    char **argv = calloc((size_t)all->argc + 5, sizeof *argv);
    if (argv == NULL)
        return dt_status_fail(DT_EXIT_RETRY, "no memory to start the ranks");
    argv[0] = all->argv[0];
    argv[1] = "--rank", argv[2] = rank, argv[3] = "--shared", argv[4] = shared;
    for (int i = 1; i < all->argc; i++)
        argv[i + 4] = all->argv[i];
    snprintf(shared, sizeof shared, "%d", all->fd);
    for (uint32_t r = all->first; r < all->first + all->n_local; r++) {
        snprintf(rank, sizeof rank, "%u", r);
        dt_tasks_enter(all->tasks, r - all->first);
        int error = spawn_with(all, argv, r == all->first, &all->pids[r]);
        dt_tasks_leave(all->tasks);
        if (error != 0) {
            all->pids[r] = 0;
            free(argv);
            return dt_status_fail(DT_EXIT_RETRY, "cannot start rank %u of %u: %s", r, all->n_ranks,
                                  strerror(error));
        }
        all->n_alive++;
    }
    free(argv);
    return DT_OK;
}

static void watch_ranks(Supervisor *all)
{
    while (all->n_alive > 0) {
        take_signals(all);
        reap(all); /* so that a failure of this node is not reported as one of another node */
        hear(all);
        hear_tasks(all);
        hear_leash(all);
        if (all->failed) {
            if (dt_now_ns() - all->failed_ns > GRACE_NS)
                kill_all(all);
        } else {
            watch(all);
            dt_formation_look(all);
        }
    }
}

/* Refuses a plan with too many ranks for this machine: a plan for a large cluster would overload it
 * before its first step. */
DtStatus dt_supervisor_fits(const DtRunOptions *options, const DtPlan *plan)
{
    int64_t processors = sysconf(_SC_NPROCESSORS_ONLN), ranks = dt_cluster_ranks(options, plan);
    int64_t most = options->max_ranks > 0 ? options->max_ranks
                   : processors * 8 > 64  ? processors * 8
                                          : 64;
    if (ranks > most)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "the plan has %lld ranks, and each would be a process of this machine, which has "
            "%lld processors. Compile for fewer ranks (--parallel none: one), or allow it "
            "with --max-ranks %lld",
            (long long)ranks, (long long)processors, (long long)ranks);
    const DtStatus status = dt_page_check(options);
    return dt_status_ok(&status) ? dt_load_fits(options, plan) : status;
}

DtStatus dt_supervisor_check(const DtRunOptions *options, const DtPlan *plan)
{
    DtStatus status = dt_supervisor_fits(options, plan);
    if (!dt_status_ok(&status) || !dt_rebuild_wanted(options, plan))
        return status;
    if (!options->quiet)
        dt_say("compiling the kernels for this processor (%s)", dt_hostcc_native());
    DtArena *scratch = dt_arena_new();
    DtRebuilt codes;
    status = dt_rebuild_codes(plan, scratch, &codes);
    if (dt_status_ok(&status) && codes.said)
        fprintf(stderr, "%s", codes.said);
    dt_arena_free(scratch);
    return status;
}

/* Runs one attempt: all ranks from their start to their end. */
static void run_attempt(Supervisor *all)
{
    all->failed = all->has_lost = false;
    all->lost_node = -1;
    all->code = DT_EXIT_OK;
    all->fd = -1;
    all->watch = dt_watch_new(all->n_ranks, all->options->timeout, all->cluster != NULL);
    DtStatus status =
        all->watch ? dt_shared_create(all->plan, all->attempt, &all->fd)
                   : dt_status_fail(DT_EXIT_RETRY, "no memory to watch %u ranks", all->n_ranks);
    if (dt_status_ok(&status))
        status = dt_shared_map(all->plan, all->fd, &all->shared);
    if (dt_status_ok(&status) && all->cluster)
        status = dt_cluster_start(all->cluster, all->shared);
    all->is_apart = !dt_status_ok(&status);
    if (dt_status_ok(&status)) {
        atomic_store(&all->shared->has_saved, all->has_saved);
        all->first_ns = all->attempt == 0 ? dt_now_ns() : all->first_ns;
        all->shared->first_ns = all->first_ns;
        all->shared->useful_ns = all->useful_ns;
        atomic_store(&all->shared->saved_useful_ns, all->useful_ns);
        status = spawn_ranks(all);
        if (!dt_status_ok(&status)) {
            all->failed = true;
            kill_all(all);
        }
        watch_ranks(all);
        if (all->failed && all->options->trace)
            dt_trace_drop(all->options->trace, all->n_ranks);
    }
    if (!dt_status_ok(&status)) {
        dt_say("%s", status.message);
        all->code = status.code;
        if (all->cluster)
            dt_cluster_tell(all->cluster, DT_CLUSTER_FAILED, status.code, false, status.message);
    }
    dt_watch_free(all->watch);
}

static void end_attempt(Supervisor *all)
{
    if (all->shared && all->shared->meet_fd >= 0)
        close(all->shared->meet_fd);
    if (all->shared) {
        all->has_saved = atomic_load(&all->shared->has_saved) != 0;
        all->useful_ns = atomic_load(&all->shared->saved_useful_ns);
        all->saved_step = atomic_load(&all->shared->saved_step);
        dt_shared_unmap(all->plan, all->shared);
    }
    if (all->fd >= 0)
        close(all->fd);
    all->shared = NULL;
}

/* Whether the ranks shall be started again, as far as this node knows; if so, prints a message. */
static bool wants_restart(const Supervisor *all)
{
    const DtRunOptions *options = all->options;
    const uint32_t attempt = all->attempt;
    if (all->code != DT_EXIT_RETRY || (int64_t)attempt >= options->restarts || all->stops > 0)
        return false;
    int64_t saved = all->shared ? atomic_load(&all->shared->saved_step) : -1;
    if (saved >= 0)
        dt_say("starting again (%u of %lld) from the checkpoint after %lld steps", attempt + 1,
               (long long)options->restarts, (long long)saved);
    else
        dt_say("starting again (%u of %lld); this run has saved nothing so far", attempt + 1,
               (long long)options->restarts);
    return true;
}

/* Whether a signal is pending that ends the wait for other nodes. */
static bool is_signalled(void *context)
{
    const Supervisor *all = context;
    sigset_t come;
    if (all->options->leash && dt_remote_has())
        return true;
    return sigpending(&come) == 0 &&
           ((sigismember(&all->signals, SIGINT) && sigismember(&come, SIGINT)) ||
            sigismember(&come, SIGTERM) || sigismember(&come, SIGUSR1) ||
            (sigismember(&all->signals, SIGHUP) && sigismember(&come, SIGHUP)));
}

int dt_supervisor_asked(const DtSupervisor *all)
{
    const struct timespec none = {0};
    int signal;
    while ((signal = sigtimedwait(&all->signals, NULL, &none)) > 0)
        if (signal != SIGCHLD)
            return signal;
    return all->options->leash ? dt_remote_hear() : 0;
}

typedef enum Next { ENDS, AGAIN, FORMS } Next;

/* Whether the ranks are started again, as they were or in another formation: this node decides, or
 * with several nodes node 0. */
static Next choose_next(Supervisor *all)
{
    const DtShared *shared = all->shared;
    if (all->has_lost)
        all->lost_node = all->options->node;
    if (!all->cluster)
        return wants_restart(all) ? AGAIN : dt_formation_wanted(all) ? FORMS : ENDS;
    const bool is_cut = all->elastic && !dt_cluster_is_whole(all->cluster);
    if (all->leaves || (all->is_apart && !is_cut))
        return ENDS;
    all->code = dt_cluster_collect(all->cluster, all->code);
    all->stops += dt_cluster_was_stopped(all->cluster) + is_signalled(all);
    DtClusterEnd end = {.code = all->code, .has_saved = shared && atomic_load(&shared->has_saved)};
    end.again =
        all->options->node == 0 && dt_cluster_is_whole(all->cluster) && wants_restart(all);
    end.forms = !end.again && dt_formation_wanted(all);
    const bool is_well = end.code == DT_EXIT_OK || end.code == DT_EXIT_INTERRUPTED;
    if (is_well && !end.forms && all->is_unsaved)
        end.code = DT_EXIT_IO;
    if (!dt_cluster_agree(all->cluster, &end)) {
        if (!all->failed && !is_signalled(all))
            dt_say("node 0 has gone before it said how the run ended");
        all->code = all->code != DT_EXIT_OK ? all->code
                    : is_signalled(all)     ? DT_EXIT_INTERRUPTED
                                            : DT_EXIT_RETRY;
        return ENDS;
    }
    all->code = end.code;
    if (all->shared)
        atomic_store(&all->shared->has_saved, end.has_saved);
    return end.again ? AGAIN : end.forms ? FORMS : ENDS;
}

/* Lists the signals that the supervisor waits for. If SIGHUP is ignored (nohup), it stays ignored:
 * a blocked signal would still be delivered. */
static void choose_signals(sigset_t *ret_signals)
{
    struct sigaction hang_up;
    signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, the exit status of children would be
                               * lost */
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGUSR1);
    sigaddset(ret_signals, SIGCHLD);
    if (sigaction(SIGHUP, NULL, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN)
        sigaddset(ret_signals, SIGHUP);
}

uint64_t dt_supervisor_hash(const DtRunOptions *options, int argc, char *const *argv)
{
    uint64_t hash = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--node") == 0)
            i++;
        else if (strncmp(word, "--node=", 7) != 0 && word != options->plan_path)
            hash = dt_hash_text(word, hash + 1);
    }
    return hash;
}

void dt_supervisor_refuse(const DtRunOptions *options, const DtPlan *plan, int argc,
                          char *const *argv, const DtStatus *why)
{
    if (dt_cluster_several(options))
        dt_cluster_refuse(options, plan, dt_supervisor_hash(options, argc, argv), why);
}

static bool meet_cluster(Supervisor *all)
{
    const uint64_t words = dt_supervisor_hash(all->options, all->argc, all->argv);
    if (!dt_cluster_several(all->options))
        return true;
    if (all->elastic)
        return dt_formation_meet(all, words, is_signalled);
    const DtStatus status = dt_cluster_meet(all->options, all->plan, words, is_signalled, all,
                                            &all->cluster);
    if (!dt_status_ok(&status)) {
        dt_say("%s", status.message);
        all->code = status.code;
    }
    return dt_status_ok(&status);
}

/* Takes the pending signals that ended a wait for other nodes, so that they do not end this process
 * as well. */
static void drop_signals(const Supervisor *all)
{
    const struct timespec none = {0};
    while (sigtimedwait(&all->signals, NULL, &none) > 0)
        ;
}

/* Writes the page of the run. If that fails, a run that was otherwise good counts as failed. */
static void write_page(Supervisor *all)
{
    const DtStatus status =
        all->options->node == 0 ? dt_page_write(all->options, all->plan) : DT_OK;
    if (dt_status_ok(&status))
        return;
    dt_say("the page of the run: %s", status.message);
    all->code = all->code != DT_EXIT_OK ? all->code : status.code;
}

int dt_supervisor_run(const DtRunOptions *options, const DtPlan *plan, int argc, char *const *argv,
                      DtTasks *tasks)
{
    sigset_t before;
    Supervisor all = {.given = {options, plan, argc, argv},
                      .options = options,
                      .plan = plan,
                      .tasks = tasks,
                      .argc = argc,
                      .argv = argv,
                      .saved_step = -1,
                      .n_ranks = plan->meta->n_ranks,
                      .first = dt_cluster_first(options, plan),
                      .n_local = dt_cluster_ranks(options, plan)};
    DtStatus status = dt_supervisor_check(options, plan);
    const DtRunOptions nothing = {0}; /* only rank 0 writes the log and the checkpoints */
    if (dt_status_ok(&status))
        status = dt_formation_open(&all);
    if (dt_status_ok(&status))
        status = dt_outputs_hold(options->node == 0 ? options : &nothing, &all.outputs);
    if (!dt_status_ok(&status)) {
        dt_say("%s", status.message);
        dt_supervisor_refuse(options, plan, argc, argv, &status);
        dt_formation_close(&all);
        return status.code;
    }
    all.pids = calloc(all.n_ranks, sizeof *all.pids);
    all.samples = calloc(all.n_ranks, sizeof *all.samples);
    if (all.pids == NULL || all.samples == NULL) {
        dt_say("no memory for %u ranks", all.n_ranks);
        all.code = DT_EXIT_RETRY;
    } else {
        choose_signals(&all.signals);
        sigprocmask(SIG_BLOCK, &all.signals, &before);
        bool again = meet_cluster(&all);
        while (again) {
            run_attempt(&all);
            const Next next = choose_next(&all);
            end_attempt(&all);
            all.attempt++;
            again = next == AGAIN || (next == FORMS && dt_formation_make(&all));
        }
        dt_cluster_part(all.cluster);
        write_page(&all);
        if (all.cluster)
            drop_signals(&all);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    free(all.pids);
    free(all.samples);
    dt_formation_close(&all);
    dt_outputs_release(&all.outputs);
    return all.code;
}

/* ---- in the rank ---- */

void dt_supervisor_bind(int shared_fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "dtrun"); /* without this the process would have the name `exe`, by which it
                                  * was started */
    /* The supervisor may have died before this call: then the process already has another
     * parent. */
    DtShared *shared = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, shared_fd, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr,
                "dtrun: --rank and --shared are set by dtrun itself when it starts the ranks\n");
        _exit(DT_EXIT_USAGE);
    }
    bool orphan = shared->supervisor != (int32_t)getppid();
    munmap(shared, sizeof *shared);
    if (orphan)
        _exit(DT_EXIT_RETRY);
}
