/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in child processes. A child is a copy of this process, so nothing needs to be found,
 * started or handed over, and it sends what it makes through a pipe: a status, then bytes; the end
 * of the pipe is the end of the child. Nothing is written to a disk. A child ends with this
 * process, however its parent ends: signals of the terminal reach it, too, and the kernel kills it
 * when its parent is gone.
 *
 * * Of several threads a child has only the one that made it. The C library's own locks (memory,
 * files, the loader) are free in a child; nothing that another thread of ours may hold is touched
 * there. */
#include "base/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Child {
    pid_t pid;   /* 0: not started, or ended */
    int from;    /* pipe from the child */
    DtText sent;
} Child;

typedef struct Run {
    const char *what;
    DtApartWork *work;
    const void *const *tasks;
    Child *children;      /* by task */
    struct pollfd *files; /* by task */
    uint32_t begun, running;
} Run;

uint32_t dt_apart_processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                              : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n > 1 ? (uint32_t)n : 1;
}

/* ---- the child ---- */

static void send(int to, const void *bytes, size_t len)
{
    for (const char *at = bytes; len;) {
        const ssize_t n = write(to, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(1);
        at += n, len -= (size_t)n;
    }
}

static _Noreturn void child(const Run *run, uint32_t task, int to, pid_t parent)
{
    static const int ours[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                               SIGABRT};
    for (size_t i = 0; i < DT_COUNT(ours); i++)
        signal(ours[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    DtArena *arena = dt_arena_new();
    DtText bytes = {0};
    const DtStatus status = run->work(arena, run->tasks[task], &bytes);
    send(to, &status, sizeof status);
    send(to, bytes.at, bytes.len);
    _exit(0);
}

/* ---- the parent ---- */

static DtStatus begin(Run *run)
{
    Child *next = &run->children[run->begun];
    const pid_t parent = getpid();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return dt_status_fail(DT_EXIT_RETRY, "cannot make a pipe to a process that %s: %s",
                              run->what, strerror(errno));
    const pid_t pid = fork();
    if (pid == 0)
        child(run, run->begun, ends[1], parent);
    const int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return dt_status_fail(DT_EXIT_RETRY, "cannot start a process that %s: %s", run->what,
                              strerror(error));
    }
    next->pid = pid;
    next->from = ends[0];
    run->begun++;
    run->running++;
    return DT_OK;
}

/* Waits until the child has ended; returns its exit status as waitpid gives it. */
static int reap(Run *run, Child *of)
{
    int state = 0;
    while (waitpid(of->pid, &state, 0) < 0 && errno == EINTR)
        ;
    close(of->from);
    of->pid = 0;
    run->running--;
    return state;
}

/* Waits for the end of a child that has closed its end of the pipe, and returns the status that it
 * sent; an error if it ended otherwise. */
static DtStatus end(Run *run, Child *of)
{
    DtStatus status;
    const int state = reap(run, of);
    if (WIFSIGNALED(state))
        return dt_status_fail(
            WTERMSIG(state) == SIGKILL ? DT_EXIT_RETRY : DT_EXIT_FAILED,
            "a process that %s was ended by signal %d (%s)%s", run->what, WTERMSIG(state),
            strsignal(WTERMSIG(state)),
            WTERMSIG(state) == SIGKILL ? "; the system does that if memory runs out" : "");
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0 || of->sent.len < sizeof status)
        return dt_status_fail(DT_EXIT_FAILED, "a process that %s has ended without a result",
                              run->what);
    memcpy(&status, of->sent.at, sizeof status);
    return status;
}

/* Appends the bytes that the child has sent to of->sent, as far as they are available; 0: it will
 * send no more. */
static ssize_t take(Child *of)
{
    static char piece[1 << 16];
    ssize_t n;
    do
        n = read(of->from, piece, sizeof piece);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        dt_text_add_n(&of->sent, piece, (size_t)n);
    return n;
}

/* Waits until a child has sent something, and reads it; ends children that send no more. */
static DtStatus wait_for_one(Run *run)
{
    for (uint32_t i = 0; i < run->begun; i++) /* poll() ignores the entries of children that have
                                               * ended (-1) */
        run->files[i] = (struct pollfd){.fd = run->children[i].pid ? run->children[i].from : -1,
                                        .events = POLLIN};
    if (poll(run->files, run->begun, -1) < 0)
        return errno == EINTR
                   ? DT_OK
                   : dt_status_fail(DT_EXIT_FAILED, "cannot wait for a process that %s: %s",
                                    run->what, strerror(errno));
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < run->begun && dt_status_ok(&status); i++)
        if (run->files[i].revents && take(&run->children[i]) <= 0)
            status = end(run, &run->children[i]);
    return status;
}

/* Kills the children that still run; their results are not needed. */
static void end_all(Run *run)
{
    for (uint32_t i = 0; i < run->begun; i++)
        if (run->children[i].pid) {
            kill(run->children[i].pid, SIGKILL);
            reap(run, &run->children[i]);
        }
}

DtStatus dt_apart_run(DtArena *arena, const char *what, DtApartWork *work, const void *const *tasks,
                      uint32_t n, uint32_t at_once, DtApartBytes *ret_bytes)
{
    Run run = {.what = what, .work = work, .tasks = tasks,
               .children = DT_NEW_ARRAY(arena, Child, n + 1),
               .files = DT_NEW_ARRAY(arena, struct pollfd, n + 1)};
    DtStatus status = DT_OK;
    while (dt_status_ok(&status) && (run.begun < n || run.running)) {
        while (dt_status_ok(&status) && run.begun < n && run.running < at_once)
            status = begin(&run);
        if (dt_status_ok(&status))
            status = wait_for_one(&run);
    }
    end_all(&run);
    for (uint32_t i = 0; i < n; i++) {
        DtText *sent = &run.children[i].sent;
        if (dt_status_ok(&status)) {
            ret_bytes[i].len = sent->len - sizeof status;
            ret_bytes[i].at = (const uint8_t *)dt_arena_strndup(arena, sent->at + sizeof status,
                                                                ret_bytes[i].len);
        }
        dt_text_free(sent);
    }
    return status;
}
