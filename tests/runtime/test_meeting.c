/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of a run that cannot start, before all have met: nobody waits for them. Each node but the
 * one that the test is itself is a process. */
#include "runtime/cluster.h"
#include "runtime/socket.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 5, NODES = 3 };
static const DtPlan plan = {.digest = 7};
static DtRunOptions options[NODES];
static DtShared shared;

static void setup(void)
{
    static char meet[32];
    int fd;
    uint16_t port;
    const DtStatus status = dt_socket_listen(0, &fd, &port);
    cr_assert(dt_status_ok(&status));
    close(fd);
    snprintf(meet, sizeof meet, "127.0.0.1:%u", port);
    for (int i = 0; i < NODES; i++)
        options[i] = (DtRunOptions){.nodes = NODES, .node = i, .meet = meet};
    signal(SIGPIPE, SIG_IGN);
    setenv("DTRUN_KEY", "a key of these tests", 1);
}

TestSuite(meeting, .init = setup, .timeout = 30);

static bool goes_on(void *context)
{
    (void)context;
    return false;
}

static void refuse(int node, const DtPlan *of, uint64_t words, int code)
{
    const DtStatus why = dt_status_fail(code, "x.bin on node %d is gone", node);
    dt_cluster_refuse(&options[node], of, words, &why);
}

/* A node that could start: why it does not. */
static DtStatus come(int node)
{
    DtCluster *cluster;
    DtStatus status = dt_cluster_meet(&options[node], &plan, WORDS, goes_on, NULL, &cluster);
    if (dt_status_ok(&status) && node)
        status = dt_cluster_start(cluster, &shared);
    dt_cluster_part(cluster);
    return status;
}

/* Starts a process that ends with 0 if its node is told of the other one and gets its exit code. */
static pid_t begin(int node, int other)
{
    const pid_t pid = fork();
    if (pid)
        return pid;
    char said[64];
    const DtStatus status = come(node);
    snprintf(said, sizeof said, "node %d: x.bin on node %d is gone", other, other);
    _exit(status.code != DT_EXIT_IO || strcmp(status.message, said) != 0);
}

static void expect_told(pid_t pid)
{
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
}

Test(meeting, a_node_that_cannot_start_ends_the_others)
{
    const pid_t first = begin(0, 1), second = begin(2, 1);
    usleep(100000);
    refuse(1, &plan, WORDS, DT_EXIT_IO);
    expect_told(first);
    expect_told(second);
}

/* Node 2 comes when node 0 knows that node 1 cannot start. */
Test(meeting, nodes_that_come_later_are_told)
{
    const pid_t first = begin(0, 1);
    refuse(1, &plan, WORDS, DT_EXIT_IO);
    usleep(300000);
    expect_told(begin(2, 1));
    expect_told(first);
}

/* No code of a peer makes a run that did not start end well. */
Test(meeting, codes_of_others_are_exit_codes)
{
    pid_t pids[2];
    for (int i = 0; i < 2; i++)
        if ((pids[i] = fork()) == 0)
            _exit(come(2 * i).code != DT_EXIT_RETRY);
    refuse(1, &plan, WORDS, 256);
    expect_told(pids[0]);
    expect_told(pids[1]);
}

Test(meeting, so_does_one_that_cannot_read_its_plan)
{
    const pid_t first = begin(0, 2), second = begin(1, 2);
    refuse(2, NULL, WORDS, DT_EXIT_IO);
    expect_told(first);
    expect_told(second);
}

Test(meeting, so_does_node_0)
{
    const pid_t first = begin(1, 0), second = begin(2, 0);
    const uint64_t began = dt_now_ns();
    refuse(0, &plan, WORDS, DT_EXIT_IO);
    cr_expect_lt(dt_now_ns() - began, 8000000000u, "it waits, though all have been told");
    expect_told(first);
    expect_told(second);
}

/* A node of another run, or with another plan, does not count. */
Test(meeting, another_run_is_left_out)
{
    const DtPlan other = {.digest = 8};
    const pid_t first = begin(0, 1), second = begin(2, 1);
    refuse(1, &other, WORDS, DT_EXIT_FAILED);
    refuse(1, &plan, WORDS + 1, DT_EXIT_FAILED);
    refuse(1, &plan, WORDS, DT_EXIT_IO);
    expect_told(first);
    expect_told(second);
}
