/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of agents on one machine:  agents [NODES [STRANGERS]]
 *
 * A process is node 0 of a run of NODES nodes (4096) with 8 ranks each; this one is all others.
 * They run the code of a supervisor: they meet in the tree, begin two attempts, end them, and part.
 * STRANGERS (200) connections say nothing. Fails if the start takes longer than AGENTS_SECONDS (3),
 * or a process sends more than 64 MB. */
#include "runtime/cluster_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 8, ATTEMPTS = 2, MOST_BYTES = 64000000 };

static DtPlanMeta meta;
static DtPlan plan = {.digest = 7, .meta = &meta, .strings = ""};
static DtRunOptions *options;
static DtCluster **all;
static struct pollfd *polls;
static nfds_t *first_poll;
static uint32_t nodes;

static bool never(void *context)
{
    (void)context;
    return false;
}

static void stop(const char *what, const DtStatus *status)
{
    fprintf(stderr, "agents: %s: %s\n", what, status ? status->message : "");
    exit(1);
}

static uint64_t bytes_sent(const DtCluster *n)
{
    uint64_t sent = 0;
    for (uint32_t i = 0; i <= DT_TREE_DEGREE; i++)
        sent += n->links[i].sent;
    return sent;
}

/* Node 0, as runtime/supervisor.c calls it. Prints how long the start took. */
static int be_root(double limit)
{
    DtShared shared;
    DtCluster *n;
    const uint64_t began = dt_now_ns();
    DtStatus status = dt_cluster_meet(&options[0], &plan, 5, never, NULL, &n);
    if (!dt_status_ok(&status))
        stop("node 0", &status);
    double start = 0;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        status = dt_cluster_start(n, &shared);
        if (!dt_status_ok(&status))
            stop("node 0", &status);
        close(shared.meet_fd);
        start = start > 0 ? start : (double)(dt_now_ns() - began) * 1e-9;
        const int code = dt_cluster_collect(n, DT_EXIT_OK);
        DtClusterEnd end = {.code = code, .again = attempt + 1 < ATTEMPTS};
        if (code != DT_EXIT_OK || !dt_cluster_agree(n, &end))
            stop("the end of an attempt", NULL);
    }
    const double took = (double)(dt_now_ns() - began) * 1e-9;
    /* a challenge, a welcome, and a route of less than 100 bytes for each node */
    const uint64_t sent = bytes_sent(n) + (uint64_t)nodes *
                                              (sizeof(DtChallenge) + sizeof(DtWelcome) + 100);
    printf("%u agents: start in %.2f s, two attempts in %.2f s; node 0 sent %.2f MB\n", nodes,
           start, took, (double)sent * 1e-6);
    dt_cluster_part(n);
    return start > limit || sent > MOST_BYTES;
}

/* Sleeps until something has come for some agent; then lets those agents do what they can. All look
 * at the time now and then. */
static void step_all(uint64_t *looked_ns)
{
    nfds_t n = 0;
    for (uint32_t i = 1; i < nodes; i++) {
        first_poll[i] = n;
        n += dt_cluster_polls(all[i], polls + n);
    }
    first_poll[nodes] = n;
    poll(polls, n, 20);
    const uint64_t now_ns = dt_now_ns();
    const bool looks = now_ns > *looked_ns + 100000000u;
    if (looks)
        *looked_ns = now_ns;
    for (uint32_t i = 1; i < nodes; i++) {
        bool has = looks;
        for (nfds_t k = first_poll[i]; k < first_poll[i + 1]; k++)
            has = has || polls[k].revents;
        if (!has)
            continue;
        dt_cluster_step(all[i], now_ns);
        if (all[i]->stage == DT_STAGE_FAILED)
            stop("an agent", &all[i]->status);
    }
}

/* What an agent does when it may: hands on the start, and ends its ranks at once. */
static bool advance(DtCluster *n, uint64_t now_ns)
{
    DtAgent *a = &n->agent;
    if (a->has_note)
        stop(a->note.text, NULL);
    if (a->has_start) {
        dt_agent_begin(a, a->start.port, a->start.token);
        dt_agent_end(a, DT_EXIT_OK, now_ns);
    }
    if (!a->has_result)
        return false;
    a->has_result = false;
    return (a->result.flags & DT_MESSAGE_AGAIN) == 0;
}

static void be_others(void)
{
    uint64_t looked_ns = 0, most = 0, sum = 0;
    uint32_t over = 0;
    bool *is_over = calloc(nodes, 1);
    for (uint32_t i = 1; i < nodes; i++) {
        const DtStatus status = dt_cluster_open(&options[i], &plan, 5, never, NULL, &all[i]);
        if (!dt_status_ok(&status))
            stop("an agent", &status);
        dt_cluster_step(all[i], dt_now_ns());
    }
    while (over < nodes - 1) {
        step_all(&looked_ns);
        for (uint32_t i = 1; i < nodes; i++)
            if (!is_over[i] && advance(all[i], dt_now_ns())) {
                is_over[i] = true;
                over++;
            }
    }
    for (uint32_t i = 1; i < nodes; i++) {
        const uint64_t sent = bytes_sent(all[i]);
        most = sent > most ? sent : most;
        sum += sent;
    }
    printf("the others sent %.2f MB together, one of them at most %.1f KB\n", (double)sum * 1e-6,
           (double)most * 1e-3);
    for (uint32_t i = 1; i < nodes; i++)
        dt_cluster_part(all[i]);
    free(is_over);
}

static void connect_strangers(int n, uint16_t port)
{
    const DtMeet meet = {.host = "127.0.0.1", .port = port};
    const DtSocketWait wait = {.until_ns = dt_now_ns() + 5000000000u};
    for (int i = 0, fd; i < n; i++)
        if (dt_socket_connect(&meet, &wait, &fd) != DT_SOCKET_OK)
            stop("a stranger cannot connect", NULL);
}

int main(int argc, char **argv)
{
    static char place[32];
    uint16_t port;
    int fd, code = 0;
    const char *given = getenv("AGENTS_SECONDS");
    nodes = argc > 1 ? (uint32_t)atoi(argv[1]) : 4096;
    const struct rlimit wanted = {.rlim_cur = 4 * nodes, .rlim_max = 4 * nodes};
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < wanted.rlim_max &&
        setrlimit(RLIMIT_NOFILE, &wanted) != 0) {
        printf("agents: skipped: `ulimit -n` allows fewer than %u descriptors\n", 4 * nodes);
        return 77;
    }
    signal(SIGPIPE, SIG_IGN);
    setenv("DTRUN_KEY", "a key of these agents", 1);
    dt_socket_make_room(4 * nodes);
    const DtStatus status = dt_socket_listen(0, &fd, &port);
    if (!dt_status_ok(&status))
        stop("a port", &status);
    close(fd);
    snprintf(place, sizeof place, "127.0.0.1:%u", port);
    meta.n_ranks = nodes * RANKS;
    options = calloc(nodes, sizeof *options);
    all = calloc(nodes, sizeof(DtCluster *));
    polls = calloc((size_t)nodes * DT_CLUSTER_POLLS, sizeof *polls);
    first_poll = calloc(nodes + 1, sizeof *first_poll);
    for (uint32_t i = 0; i < nodes; i++)
        options[i] = (DtRunOptions){.nodes = nodes, .node = i, .meet = place};
    const pid_t root = fork();
    if (root == 0) {
        code = be_root(given ? atof(given) : 3);
        fflush(stdout);
        _exit(code);
    }
    connect_strangers(argc > 2 ? atoi(argv[2]) : 200, port);
    be_others();
    if (waitpid(root, &code, 0) != root || code != 0)
        stop("node 0 failed, or was too slow", NULL);
    return 0;
}
