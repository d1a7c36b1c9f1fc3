/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that die, hang, are very slow or are told to stop, under the real supervisor (run_ranks.c):
 * which rank is named, how soon, with which exit code; and no process is left behind. */
#include "runtime/runtime.h"
#include "tests/share.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
static const double patience = 3;
#else
static const double patience = 1;
#endif

/* A run with all its output, and the times at which texts were first seen. */
typedef struct Case {
    pid_t pid;
    int out;
    char text[1 << 14];
    size_t len;
    uint64_t began_ns;
    double ended; /* seconds after the start */
    int code;     /* exit code, or 1000 + signal */
} Case;

static int ignored; /* a signal that is ignored when the next run starts; 0: none */

static double age(const Case *c) { return (double)(dt_now_ns() - c->began_ns) * 1e-9; }

static void start(Case *c, char *const *argv)
{
    int ends[2];
    *c = (Case){.began_ns = dt_now_ns()};
    cr_assert_eq(pipe(ends), 0);
    c->pid = fork();
    cr_assert_geq(c->pid, 0);
    if (c->pid == 0) {
        if (ignored)
            signal(ignored, SIG_IGN);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv(RUN_RANKS, argv);
        _exit(127);
    }
    close(ends[1]);
    c->out = ends[0];
}

#define START(c, ...) start(c, (char *[]){"run_ranks", __VA_ARGS__, NULL})

/* Reads until the text occurs, or the output ends; returns the run's age at that time. Fails after
 * `limit`. */
static double read_until(Case *c, const char *text, double limit)
{
    for (;;) {
        if (text && strstr(c->text, text))
            return age(c);
        struct pollfd poll_fd = {.fd = c->out, .events = POLLIN};
        cr_assert(age(c) < limit, "after %g s without `%s`:\n%s", age(c), text ? text : "end",
                  c->text);
        if (poll(&poll_fd, 1, 100) <= 0)
            continue;
        ssize_t n = read(c->out, c->text + c->len, sizeof c->text - 1 - c->len);
        if (n <= 0) {
            cr_assert_null(text, "it ended without `%s`:\n%s", text, c->text);
            return age(c);
        }
        c->len += (size_t)n;
    }
}

/* Whether a rank of the run is still alive. */
static bool any_left(const Case *c)
{
    for (const char *at = c->text; (at = strstr(at, "pid ")) != NULL; at += 4) {
        char path[64], state = 'Z', stat[512] = "";
        snprintf(path, sizeof path, "/proc/%ld/stat", strtol(at + 4, NULL, 10));
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(stat, sizeof stat, file) && strrchr(stat, ')'))
            state = strrchr(stat, ')')[2];
        fclose(file);
        if (state != 'Z' && state != 'X')
            return true;
    }
    return false;
}

static void expect_none_left(const Case *c)
{
    cr_expect(strstr(c->text, "pid "), "no rank has said its number");
    for (int i = 0; i < 100 && any_left(c); i++)
        usleep(20000);
    cr_expect_not(any_left(c), "a rank is left behind:\n%s", c->text);
}

static void finish(Case *c, double limit)
{
    int status;
    read_until(c, NULL, limit);
    cr_assert_eq(waitpid(c->pid, &status, 0), c->pid);
    c->ended = age(c);
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    close(c->out);
    expect_none_left(c);
}

#define HAS(c, part)     cr_expect(strstr((c)->text, part), "no `%s` in:\n%s", part, (c)->text)
#define HAS_NOT(c, part) cr_expect_null(strstr((c)->text, part), "`%s` in:\n%s", part, (c)->text)

static void expect_place(const Case *c)
{
    HAS(c, "in step 4, instruction 0 (zero)");
    HAS(c, "model.dsl:5:3: mix(x)  [h.0.mix]");
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

Test(supervisor, a_good_run_says_nothing, .timeout = 60)
{
    Case c;
    START(&c, "none", "3");
    finish(&c, 30);
    cr_expect_eq(c.code, DT_EXIT_OK);
    HAS_NOT(&c, "dtrun:");
    cr_expect_eq(count(c.text, "pid "), 3);
}

/* Returns the time from the scenario's action until the rank is named. */
static double named_after(Case *c, double limit)
{
    double acted = read_until(c, "ACT", 30);
    return read_until(c, "dtrun: rank 1", acted + limit) - acted;
}

Test(supervisor, a_killed_rank_is_named_within_a_second, .timeout = 60)
{
    Case c;
    START(&c, "killed", "4");
    double after = named_after(&c, 30);
    finish(&c, 30);
    cr_expect_lt(after, patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_RETRY);
    HAS(&c, "rank 1 was ended by signal 9");
    expect_place(&c);
    cr_expect_eq(count(c.text, "dtrun: "), 1, "only the first failure:\n%s", c.text);
}

Test(supervisor, a_crashed_rank_is_a_permanent_failure, .timeout = 60)
{
    Case c;
    START(&c, "crash", "2", "3");
    double after = named_after(&c, 30);
    finish(&c, 30);
    cr_expect_lt(after, patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_FAILED, "ended with %d", c.code);
    HAS(&c, "rank 1 was ended by signal 6");
    HAS_NOT(&c, "starting again");
}

Test(supervisor, a_rank_that_exits_is_named_within_a_second, .timeout = 60)
{
    Case c;
    START(&c, "exit", "2");
    double after = named_after(&c, 30);
    finish(&c, 30);
    cr_expect_lt(after, patience, "after %g s", after);
    cr_expect_eq(c.code, 3);
    HAS(&c, "rank 1 ended by itself with exit code 3");
    expect_place(&c);
}

Test(supervisor, the_message_of_a_rank_is_shown_once, .timeout = 60)
{
    Case c;
    START(&c, "fails", "3");
    double after = named_after(&c, 30);
    finish(&c, 30);
    cr_expect_lt(after, patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_IO);
    HAS(&c, "rank 1 failed: the disk is full of leaves");
    HAS(&c, "model.dsl:5:3: mix(x)  [h.0.mix]");
    cr_expect_eq(count(c.text, "dtrun: "), 1, "only the first failure:\n%s", c.text);
}

Test(supervisor, a_rank_with_another_plan_does_not_start, .timeout = 60)
{
    Case c;
    START(&c, "digest", "2");
    finish(&c, 30);
    cr_expect_eq(c.code, DT_EXIT_FAILED);
    HAS(&c, "dtrun: rank 1");
    HAS(&c, "before it had loaded the plan");
}

Test(supervisor, a_stopped_rank_is_named_within_five_seconds, .timeout = 60)
{
    Case c;
    START(&c, "stopped", "3");
    double after = named_after(&c, 30);
    finish(&c, 60);
    cr_expect(after > 2.5 && after < 5 * patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_RETRY);
    HAS(&c, "rank 1 is stopped");
    expect_place(&c);
}

Test(supervisor, an_idle_rank_is_named_within_five_seconds, .timeout = 60)
{
    Case c;
    START(&c, "idle", "3");
    double after = named_after(&c, 30);
    finish(&c, 60);
    cr_expect(after > 2.5 && after < 5 * patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_RETRY);
    HAS(&c, "rank 1 hangs: no progress and almost no processor time");
    expect_place(&c);
}

/* It wakes up a thousand times a second, which takes some processor time. */
Test(supervisor, a_rank_that_sleeps_and_looks_is_named_within_five_seconds, .timeout = 60)
{
    Case c;
    START(&c, "looks", "3");
    double after = named_after(&c, 30);
    finish(&c, 60);
    cr_expect(after > 2.5 && after < 5 * patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_RETRY);
    HAS(&c, "rank 1 hangs: no progress and almost no processor time");
    expect_place(&c);
}

/* The cause may have been temporary, so the message suggests to try again. */
Test(supervisor, ranks_that_wait_for_each_other_are_named, .timeout = 60)
{
    Case c;
    START(&c, "cycle", "3");
    double after = named_after(&c, 30);
    finish(&c, 60);
    cr_expect(after > 2.5 && after < 5 * patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_RETRY);
    HAS(&c, "rank 1 and rank 2 wait for each other");
}

Test(supervisor, a_slow_rank_is_reported_and_not_ended, .timeout = 60)
{
    Case c;
    START(&c, "slow", "2");
    double after = named_after(&c, 30);
    finish(&c, 60);
    cr_expect(after > 2.5 && after < 5 * patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_OK, "it goes on to its end");
    HAS(&c, "rank 1 is slow");
    expect_place(&c);
    cr_expect_eq(count(c.text, "dtrun: "), 1, "once:\n%s", c.text);
}

Test(supervisor, timeout_ends_a_rank_that_computes_on, .timeout = 60)
{
    Case c;
    START(&c, "endless", "2", "0", "2");
    double after = named_after(&c, 30);
    finish(&c, 60);
    cr_expect(after > 1.5 && after < 4 * patience, "after %g s", after);
    cr_expect_eq(c.code, DT_EXIT_RETRY);
    HAS(&c, "more than --timeout allows");
    expect_place(&c);
}

Test(supervisor, restarts_after_a_failure_that_may_be_temporary, .timeout = 60)
{
    Case c;
    START(&c, "restart", "2", "2");
    finish(&c, 60);
    cr_expect_eq(c.code, DT_EXIT_OK, "ended with %d:\n%s", c.code, c.text);
    HAS(&c, "rank 1 was ended by signal 9");
    HAS(&c, "starting again (1 of 2)");
    cr_expect_eq(count(c.text, "pid "), 4);
}

/* ---- stopping ---- */

static void stop_by(int signal)
{
    Case c;
    START(&c, "none", "2", "0", "0", "1000000");
    read_until(&c, "pid ", 30);
    usleep(300000);
    kill(c.pid, signal);
    finish(&c, 30);
    cr_expect_eq(c.code, DT_EXIT_INTERRUPTED, "ended with %d", c.code);
    HAS(&c, "finish their step");
    HAS(&c, "stopped after step");
    HAS_NOT(&c, "rank ");
}

Test(supervisor, ctrl_c_finishes_the_step, .timeout = 60) { stop_by(SIGINT); }
Test(supervisor, termination_finishes_the_step, .timeout = 60) { stop_by(SIGTERM); }

Test(supervisor, an_ignored_hang_up_stays_ignored, .timeout = 60)
{
    Case c;
    ignored = SIGHUP;
    START(&c, "none", "2", "0", "0", "300");
    read_until(&c, "pid ", 30);
    kill(c.pid, SIGHUP);
    finish(&c, 30);
    cr_expect_eq(c.code, DT_EXIT_OK, "ended with %d:\n%s", c.code, c.text);
}

Test(supervisor, children_are_seen_even_if_their_signal_was_ignored, .timeout = 60)
{
    Case c;
    ignored = SIGCHLD;
    START(&c, "killed", "2");
    finish(&c, 30);
    cr_expect_eq(c.code, DT_EXIT_RETRY);
    HAS(&c, "rank 1 was ended by signal 9");
}

/* A terminal sends the signal to the ranks as well. */
Test(supervisor, ranks_leave_ctrl_c_to_the_supervisor, .timeout = 60)
{
    Case c;
    START(&c, "none", "1", "0", "0", "1000000");
    read_until(&c, "\n", 30);
    usleep(300000);
    pid_t rank = (pid_t)strtol(strstr(c.text, "pid ") + 4, NULL, 10);
    kill(rank, SIGINT);
    kill(rank, SIGTERM);
    usleep(300000);
    kill(c.pid, SIGINT);
    finish(&c, 30);
    cr_expect_eq(c.code, DT_EXIT_INTERRUPTED, "ended with %d:\n%s", c.code, c.text);
    HAS(&c, "stopped after step");
}

Test(supervisor, a_second_ctrl_c_ends_at_once, .timeout = 60)
{
    Case c;
    START(&c, "endless", "2");
    read_until(&c, "ACT", 30);
    kill(c.pid, SIGINT);
    read_until(&c, "finish their step", 30);
    double began = age(&c);
    kill(c.pid, SIGINT);
    finish(&c, 30);
    cr_expect_lt(c.ended - began, 1.0 * patience, "after %g s", c.ended - began);
    cr_expect_eq(c.code, DT_EXIT_INTERRUPTED);
}

/* ---- the supervisor itself ---- */

Test(supervisor, ranks_die_with_the_supervisor, .timeout = 60)
{
    Case c;
    START(&c, "endless", "4");
    read_until(&c, "ACT", 30);
    kill(c.pid, SIGKILL);
    finish(&c, 30);
    cr_expect_eq(c.code, 1000 + SIGKILL);
}

Test(supervisor, a_rank_whose_supervisor_is_gone_ends_at_once, .timeout = 60)
{
    Case c;
    char fd[24];
    int status;
    DtShared shared = {.supervisor = 1 << 22}; /* the process has no parent in the run any more */
    FILE *file = tmpfile();
    cr_assert_eq(fwrite(&shared, sizeof shared, 1, file), 1u);
    cr_assert_eq(fflush(file), 0);
    snprintf(fd, sizeof fd, "%d", dup(fileno(file)));
    START(&c, "--rank", "0", "--shared", fd, "none", "1");
    read_until(&c, NULL, 10);
    cr_assert_eq(waitpid(c.pid, &status, 0), c.pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == DT_EXIT_RETRY, "%s", c.text);
    HAS_NOT(&c, "pid ");
    fclose(file);
}

/* ---- busy ranks ---- */

/* Four times as many ranks as cores, with unequal work: no rank may be named. It runs for
 * BUSY_SECONDS if that is set, else for 20 seconds in one commit of four (place 2 of
 * tests/share.py), and for 5 in the others. */
Test(late, a_process_that_does_not_end_is_ended, .timeout = 120)
{
    Case c;
    START(&c, "stays", "3");
    finish(&c, 90);
    cr_expect(c.ended > 20, "after %g s", c.ended);
    cr_expect_eq(c.code, DT_EXIT_OK);
    HAS(&c, "dtrun: rank 1 has done its work, and its process does not end");
    cr_expect_eq(count(c.text, "dtrun: "), 1);
}

Test(busy, eight_ranks_raise_no_alarm, .timeout = 900)
{
    Case c;
    const char *seconds = getenv("BUSY_SECONDS");
    seconds = seconds ? seconds : share_has(2) ? "20" : "5";
    START(&c, "busy", "8", "0", "0", "100000000", (char *)seconds);
    finish(&c, 880);
    cr_expect_eq(c.code, DT_EXIT_INTERRUPTED, "ended with %d", c.code);
    HAS_NOT(&c, "dtrun:");
    cr_expect_eq(count(c.text, "pid "), 8);
}
