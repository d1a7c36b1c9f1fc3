/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in child processes: results come in order, failures are reported, children may be killed,
 * and no process is left behind. */
#include "base/apart.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 9, LONG = 3 << 20 };

typedef struct Task {
    enum { REPEAT, FAIL, KILLED, CRASH, EXIT, HANG } what;
    uint32_t n, number;
    int tells; /* HANG: the task writes its process number to this file and never ends */
} Task;

static DtStatus work(DtArena *arena, const void *data, DtText *ret_bytes)
{
    const Task *task = data;
    cr_assert_not_null(dt_arena_alloc(arena, 1000));
    switch (task->what) {
    case FAIL: return dt_status_fail(DT_EXIT_IO, "task %u has no luck", task->number);
    case KILLED: raise(SIGKILL); break;
    case CRASH: raise(SIGSEGV); break;
    case EXIT: _exit(0);
    case HANG:
        if (write(task->tells, &(pid_t){getpid()}, sizeof(pid_t)) == sizeof(pid_t))
            for (;;)
                pause();
        break;
    case REPEAT: break;
    }
    for (uint32_t i = 0; i < task->n; i++)
        dt_text_add_n(ret_bytes, &(char){(char)(i * (task->number + 1))}, 1);
    return DT_OK;
}

static DtStatus run(DtArena *arena, const Task *tasks, uint32_t n, uint32_t at_once,
                    DtApartBytes *ret)
{
    const void *list[MANY];
    for (uint32_t i = 0; i < n; i++)
        list[i] = &tasks[i];
    return dt_apart_run(arena, "counts", work, list, n, at_once, ret);
}

static uint32_t open_files(void)
{
    uint32_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void nothing_is_left(uint32_t files)
{
    cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a child is left");
    cr_expect_eq(open_files(), files);
}

Test(apart, results_come_in_the_order_of_tasks)
{
    const uint32_t files = open_files();
    for (uint32_t at_once = 1; at_once <= MANY; at_once += 2) {
        DtArena *arena = dt_arena_new();
        DtApartBytes bytes[MANY];
        Task tasks[MANY];
        for (uint32_t i = 0; i < MANY; i++) /* lengths of results: no bytes, and more than a pipe
                                             * holds */
            tasks[i] = (Task){REPEAT, i == 3 ? 0 : i == 5 ? LONG : 10 * i + 1, i, -1};
        const DtStatus status = run(arena, tasks, MANY, at_once, bytes);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        for (uint32_t i = 0; i < MANY; i++) {
            cr_assert_eq(bytes[i].len, tasks[i].n);
            for (uint32_t k = 0; k < tasks[i].n; k++)
                cr_assert_eq(bytes[i].at[k], (uint8_t)(k * (i + 1)));
        }
        nothing_is_left(files);
        dt_arena_free(arena);
    }
    DtArena *arena = dt_arena_new();
    const DtStatus status = run(arena, NULL, 0, 2, NULL);
    cr_expect(dt_status_ok(&status));
    dt_arena_free(arena);
}

/* One of three tasks is killed; the others would never end. */
static DtStatus spoilt(Task task)
{
    const uint32_t files = open_files();
    DtArena *arena = dt_arena_new();
    DtApartBytes bytes[3];
    const Task tasks[3] = {{HANG, 0, 0, -1}, task, {REPEAT, LONG, 2, -1}};
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    Task told[3];
    memcpy(told, tasks, sizeof told);
    told[0].tells = ends[1];
    const DtStatus status = run(arena, told, 3, 3, bytes);
    close(ends[0]);
    close(ends[1]);
    nothing_is_left(files);
    dt_arena_free(arena);
    return status;
}

Test(apart, a_failure_is_that_of_the_task)
{
    DtStatus status = spoilt((Task){FAIL, 0, 7, -1});
    cr_expect_eq(status.code, DT_EXIT_IO);
    cr_expect_str_eq(status.message, "task 7 has no luck");
    status = spoilt((Task){KILLED, 0, 1, -1});
    cr_expect_eq(status.code, DT_EXIT_RETRY);
    cr_expect_str_eq(status.message, "a process that counts was ended by signal 9 (Killed); the "
                                     "system does that if memory runs out");
    status = spoilt((Task){CRASH, 0, 1, -1});
    cr_expect_eq(status.code, DT_EXIT_FAILED);
    cr_expect(strstr(status.message, "a process that counts was ended by signal 11") ||
              /* the exit code of a sanitizer */
              strstr(status.message, "has ended without a result"),
              "%s", status.message);
    status = spoilt((Task){EXIT, 0, 1, -1});
    cr_expect_str_eq(status.message, "a process that counts has ended without a result");
}

/* A process that is killed while its children work takes them with it. */
Test(apart, children_end_with_their_parent, .timeout = 60)
{
    int ends[2];
    pid_t children[3];
    cr_assert_eq(pipe(ends), 0);
    const pid_t parent = fork();
    if (parent == 0) {
        DtArena *arena = dt_arena_new();
        DtApartBytes bytes[3];
        const Task tasks[3] = {{HANG, 0, 0, ends[1]}, {HANG, 0, 1, ends[1]}, {HANG, 0, 2, ends[1]}};
        run(arena, tasks, 3, 3, bytes);
        _exit(0);
    }
    close(ends[1]);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(read(ends[0], &children[i], sizeof children[i]), (ssize_t)sizeof children[i]);
    kill(parent, SIGKILL);
    cr_assert_eq(waitpid(parent, NULL, 0), parent);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    /* the child has ended: nobody holds the other end of the pipe any more */
    cr_assert_eq(poll(&end, 1, 30000), 1, "children are left");
    cr_expect_eq(read(ends[0], children, 1), 0);
    close(ends[0]);
}

Test(apart, there_is_a_processor) { cr_expect_geq(dt_apart_processors(), 1); }
