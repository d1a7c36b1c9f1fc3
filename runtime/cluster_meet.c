/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisors of a run's nodes. Node 0 listens where --meet says; the others connect, greet
 * (hello.h) and stay connected, so a node that ends is noticed by its connection. All messages
 * after the greeting have one size. */
#include "runtime/cluster.h"
#include "runtime/greeting.h"
#include "runtime/key.h"
#include "runtime/newcomers.h"
#include "runtime/socket.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/hostcc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { START = 16, ENDED, RESULT }; /* kinds of messages in addition to those of DtClusterNews */
enum { LOOK_MS = 100 };
static const uint64_t magic = 0x33444f4e4e555244u, /* "DRUNNOD3" */
                      say_after_ns = 5000000000u, send_patience_ns = 60000000000u,
                      report_ns = 10000000000u, come_ns = 1800000000000u;

typedef struct Message {
    uint64_t magic, token;
    uint32_t kind, node, port;
    int32_t code;
    uint32_t has_saved, again;
    char text[1000];
} Message;

struct DtCluster {
    const DtRunOptions *options;
    uint8_t key[DT_DIGEST_BYTES];
    DtFacts facts;     /* what the other nodes must have, too */
    DtNewcomers *newcomers; /* on node 0, while nodes may come */
    int *fds;          /* connections by node; other nodes than 0 have only the one to node 0. -1:
                        * none, or the node has gone */
    bool *has_ended;   /* the nodes whose ranks have ended in this attempt */
    bool was_stopped;  /* Ctrl-C was pressed on another node */
    int code;          /* exit code of the first node that did not end well */
    Message refusal;   /* of a node that cannot start; kind 0: there is none */
    uint32_t nodes, node;
    bool (*is_over)(void *context);
    void *context;
};

/* ---- options ---- */

uint32_t dt_cluster_ranks(const DtRunOptions *options, const DtPlan *plan)
{
    return options->nodes > 1 ? plan->meta->n_ranks / (uint32_t)options->nodes
                              : plan->meta->n_ranks;
}

uint32_t dt_cluster_first(const DtRunOptions *options, const DtPlan *plan)
{
    return options->nodes > 1 ? dt_cluster_ranks(options, plan) * (uint32_t)options->node : 0;
}

bool dt_cluster_is_here(const DtRank *rank, uint32_t other)
{
    const uint32_t first = dt_cluster_first(rank->options, rank->plan);
    return other >= first && other - first < dt_cluster_ranks(rank->options, rank->plan);
}

DtRankGroup dt_cluster_here(const DtRank *rank, const DtRankGroup *group)
{
    DtRankGroup here = *group;
    uint32_t first = 0, end = group->size;
    if (!rank->options || !dt_cluster_several(rank->options))
        return here;
    while (first < end && !dt_cluster_is_here(rank, group->ranks[first]))
        first++;
    while (end > first && !dt_cluster_is_here(rank, group->ranks[end - 1]))
        end--;
    here.ranks = group->ranks + first;
    here.size = end - first;
    here.me = group->me - first;
    return here;
}

DtStatus dt_cluster_check(const DtRunOptions *options, const DtPlan *plan)
{
    const long long nodes = options->nodes, ranks = plan->meta->n_ranks;
    DtMeet meet;
    if (nodes == 0 && (options->node > 0 || options->meet))
        return dt_status_fail(DT_EXIT_USAGE,
                              "--node and --meet are of a run over several machines: how many is "
                              "said by --nodes");
    if (nodes <= 1 && options->node == 0)
        return DT_OK;
    if (options->node < 0 || options->node >= nodes)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--nodes %lld needs --node I on each machine, from 0 to %lld", nodes,
                              nodes - 1);
    if (!options->meet)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "--nodes %lld needs --meet HOST:PORT, the same on each machine: node 0's "
            "address and a free port there",
            nodes);
    if (ranks % nodes)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "the plan has %lld ranks, which are not the same number on each of %lld "
            "nodes",
            ranks, nodes);
    if (dt_run_predicts(options) && plan->n_channels)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "--%s with a pipeline needs all stages on one machine: compile the model without a "
            "pipeline for it",
            options->generate        ? "generate"
            : options->prompts       ? "prompts"
            : options->n_predict > 0 ? "predict"
                                     : "reference");
    return dt_socket_parse(options->meet, &meet);
}

/* ---- messages ---- */

static Message message(const DtCluster *n, uint32_t kind)
{
    return (Message){.magic = magic, .kind = kind, .node = n->node};
}

static bool send_to(DtCluster *n, uint32_t node, const Message *m)
{
    const DtSocketWait wait = {n->is_over, n->context, dt_now_ns() + send_patience_ns};
    return n->fds[node] >= 0 && dt_socket_send(n->fds[node], m, sizeof *m, &wait) == DT_SOCKET_OK;
}

static void lose(DtCluster *n, uint32_t node)
{
    close(n->fds[node]);
    n->fds[node] = -1;
}

static DtSocketResult receive(DtCluster *n, uint32_t node, uint64_t until_ns, Message *m)
{
    const DtSocketWait wait = {n->is_over, n->context, until_ns};
    const DtSocketResult result = dt_socket_recv(n->fds[node], m, sizeof *m, &wait);
    m->text[sizeof m->text - 1] = '\0';
    if (result == DT_SOCKET_OK && m->magic != magic) {
        errno = EPROTO;
        return DT_SOCKET_CLOSED;
    }
    return result;
}

/* The exit code of a run in which another node has failed. */
static int32_t code_of_failure(int32_t code)
{
    return code > 0 && code < 256 ? code : DT_EXIT_RETRY;
}

/* ---- facts ---- */

/* A hash of this program's file. */
static uint64_t hash_of_program(void)
{
    DtFileView view;
    uint64_t hash = 0;
    const DtStatus status = dt_file_map("/proc/self/exe", &view);
    if (dt_status_ok(&status)) {
        hash = dt_hash_bytes(view.at, view.len, 0);
        dt_file_unmap(&view);
    }
    return hash;
}

static void set_number(DtFacts *facts, DtFact fact, uint64_t number)
{
    snprintf(facts->value[fact], DT_FACT_BYTES, "%016llx", (unsigned long long)number);
}

/* plan: NULL if it cannot be read. */
static DtFacts facts_of(const DtRunOptions *options, const DtPlan *plan, uint64_t words)
{
    DtFacts facts = {0};
    if (gethostname(facts.host, sizeof facts.host - 1) != 0 || !*facts.host)
        snprintf(facts.host, sizeof facts.host, "an unnamed host");
    if (plan)
        set_number(&facts, DT_FACT_PLAN, plan->digest);
    snprintf(facts.value[DT_FACT_NODES], DT_FACT_BYTES, "%lld", (long long)options->nodes);
    set_number(&facts, DT_FACT_OPTIONS, words);
    snprintf(facts.value[DT_FACT_VERSION], DT_FACT_BYTES, "%s", DT_VERSION);
    set_number(&facts, DT_FACT_BUILD, hash_of_program());
    if (plan && plan->meta && strncmp(dt_plan_str(plan, plan->meta->target), "cpu", 3) == 0)
        snprintf(facts.value[DT_FACT_PROCESSOR], DT_FACT_BYTES, "%s", dt_hostcc_native());
    return facts;
}

/* ---- meeting ---- */

/* Sleeps until a newcomer does something, or a short while; then says who knows another key. */
static void look_at_newcomers(DtCluster *n)
{
    struct pollfd look = {.fd = dt_newcomers_fd(n->newcomers), .events = POLLIN};
    poll(&look, 1, LOOK_MS);
    dt_newcomers_look(n->newcomers, dt_now_ns());
    for (const char *from; (from = dt_newcomers_stranger(n->newcomers));) {
        DtText line = {0};
        dt_text_printf(&line,
                       "dtrun: a program on %s was refused: it knows another key (docs/cluster.md: "
                       "DTRUN_KEY), or is no node of this run",
                       from);
        dt_text_say(stderr, line.at);
        dt_text_free(&line);
    }
}

/* What ends the run of this node, since another one cannot start. An exit code is 1 to 255. */
static DtStatus status_of(const Message *m)
{
    return dt_status_fail(code_of_failure(m->code), "node %u: %.450s", m->node, m->text);
}

static bool is_another(const DtCluster *n, const DtHello *hello)
{
    return hello->node < n->nodes && hello->node != n->node;
}

/* Answers the nodes that come with the message, until all that n->has_ended does not have have
 * come, at most for `report_ns`. */
static void answer_rest(DtCluster *n, const Message *answer)
{
    const uint64_t until_ns = dt_now_ns() + report_ns;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < n->nodes; i++)
        missing += i != n->node && !n->has_ended[i];
    while (missing > 0 && dt_now_ns() < until_ns && !n->is_over(n->context)) {
        DtNewcomer one;
        char why[DT_WHY_BYTES];
        look_at_newcomers(n);
        while (dt_newcomers_take(n->newcomers, &one)) {
            const DtSocketWait wait = {.until_ns = dt_now_ns() + 1000000000u};
            const bool differs = dt_hello_differs(&n->facts, &one.hello.facts, one.hello.node, why);
            const bool is_new = is_another(n, &one.hello) && !n->has_ended[one.hello.node];
            if (!dt_newcomers_answer(n->newcomers, &one, n->node, differs ? why : NULL) || differs)
                continue;
            missing -= is_new;
            n->has_ended[one.hello.node] = n->has_ended[one.hello.node] || is_new;
            dt_socket_send(one.fd, answer, sizeof *answer, &wait);
            close(one.fd);
        }
    }
}

/* A node that cannot start ends the run of all nodes: of those that have come, and of those that
 * come a little later. */
static void tell_refusal(DtCluster *n)
{
    const Message *m = &n->refusal;
    n->has_ended[m->node] = true;
    for (uint32_t i = 1; i < n->nodes; i++)
        if (n->fds[i] >= 0) {
            send_to(n, i, m);
            n->has_ended[i] = true;
        }
    answer_rest(n, m);
}

/* Why a node is not taken; NULL: it is. */
static const char *find_reason(const DtCluster *n, const DtHello *hello,
                               char ret_text[DT_WHY_BYTES])
{
    if (dt_hello_differs(&n->facts, &hello->facts, hello->node, ret_text))
        return ret_text;
    if (!is_another(n, hello) || (hello->role == DT_ROLE_AGENT && n->fds[hello->node] >= 0)) {
        snprintf(ret_text, DT_WHY_BYTES,
                 "there is a node with number %u already, and another one on %s: --node is another "
                 "one on each machine",
                 hello->node, hello->facts.host);
        return ret_text;
    }
    return NULL;
}

/* One that knows the key: a node of this run, or one that cannot start. */
static void welcome(DtCluster *n, DtNewcomer *one, uint32_t *ret_missing)
{
    char text[DT_WHY_BYTES];
    const char *why = find_reason(n, &one->hello, text);
    if (why) {
        DtText line = {0};
        dt_text_printf(&line, "dtrun: refused: %s", why);
        dt_text_say(stderr, line.at);
        dt_text_free(&line);
    }
    if (!dt_newcomers_answer(n->newcomers, one, n->node, why) || why)
        return;
    if (one->hello.role == DT_ROLE_AGENT) {
        n->fds[one->hello.node] = one->fd;
        --*ret_missing;
        return;
    }
    Message m = {0};
    const DtSocketWait wait = {n->is_over, n->context, dt_now_ns() + 1000000000u};
    if (one->hello.role == DT_ROLE_REFUSES &&
        dt_socket_recv(one->fd, &m, sizeof m, &wait) == DT_SOCKET_OK && m.magic == magic &&
        m.kind == DT_CLUSTER_FAILED) {
        m.text[sizeof m.text - 1] = '\0';
        m.node = one->hello.node;
        n->refusal = m;
    }
    close(one->fd);
}

static void say_who_is_missing(const DtCluster *n)
{
    DtText who = {0};
    for (uint32_t i = 1; i < n->nodes; i++)
        if (n->fds[i] < 0)
            dt_text_printf(&who, "%s%u", who.len ? ", " : "", i);
    DtText line = {0};
    dt_text_printf(
        &line, "dtrun: waits for node %s of %u, which are to be started with --meet %.200s, too",
        who.at, n->nodes, n->options->meet);
    dt_text_say(stderr, line.at);
    dt_text_free(&line);
    dt_text_free(&who);
}

/* Removes nodes that went away before all nodes were there: others may connect in their place. */
static void forget_gone(DtCluster *n, uint32_t *ret_missing)
{
    for (uint32_t i = 1; i < n->nodes; i++)
        if (n->fds[i] >= 0 && dt_socket_has_gone(n->fds[i])) {
            lose(n, i);
            ++*ret_missing;
        }
}

static DtStatus listen_there(DtCluster *n, uint16_t port)
{
    uint16_t got;
    int fd;
    DtStatus status = dt_socket_listen(port, &fd, &got);
    if (dt_status_ok(&status) && !(n->newcomers = dt_newcomers_new(n->key, fd)))
        status = dt_status_fail(DT_EXIT_RETRY, "no memory to wait for other nodes");
    return status;
}

static DtStatus gather(DtCluster *n, uint16_t port)
{
    uint32_t missing = n->nodes - 1;
    DtStatus status = listen_there(n, port);
    bool is_said = false;
    const uint64_t began = dt_now_ns();
    while (dt_status_ok(&status) && missing > 0) {
        DtNewcomer one;
        look_at_newcomers(n);
        forget_gone(n, &missing);
        while (missing > 0 && !n->refusal.kind && dt_newcomers_take(n->newcomers, &one))
            welcome(n, &one, &missing);
        if (n->refusal.kind) {
            tell_refusal(n);
            status = status_of(&n->refusal);
            break;
        }
        if (n->is_over(n->context))
            return dt_status_fail(DT_EXIT_INTERRUPTED,
                                  "stopped while it waited for the other nodes");
        if (!is_said && dt_now_ns() - began > say_after_ns) {
            say_who_is_missing(n);
            is_said = true;
        }
        if (dt_now_ns() - began > come_ns)
            status = dt_status_fail(DT_EXIT_RETRY, "%u of %u nodes have not come within %d minutes",
                                    missing, n->nodes - 1, (int)(come_ns / 60000000000u));
    }
    dt_newcomers_free(n->newcomers); /* closes the socket: later connections are refused */
    n->newcomers = NULL;
    return status;
}

/* Greets who listens at the other end of n->fds[0]. */
static DtGreetingState greet(DtCluster *n, DtRole role, DtGreeting *g)
{
    const DtHello hello = {.role = role, .node = n->node, .facts = n->facts};
    dt_greeting_begin(g, n->fds[0], n->key, &hello, dt_now_ns());
    while (!dt_greeting_is_done(g) && !n->is_over(n->context)) {
        struct pollfd look = {.fd = g->fd, .events = dt_greeting_events(g)};
        poll(&look, 1, LOOK_MS);
        dt_greeting_step(g, dt_now_ns());
    }
    return g->state;
}

/* Connects with node 0, and tries again if that fails, until wait->until_ns. The status of LATE is
 * that nobody is there. */
static DtSocketResult reach(DtCluster *n, const DtMeet *meet, const DtSocketWait *wait, DtRole role,
                            DtGreeting *g)
{
    for (;;) {
        const DtSocketResult result = dt_socket_connect(meet, wait, &n->fds[0]);
        if (result != DT_SOCKET_OK)
            return result;
        if (greet(n, role, g) != DT_GREETING_GONE && dt_greeting_is_done(g))
            return DT_SOCKET_OK;
        lose(n, 0);
        if (n->is_over(n->context))
            return DT_SOCKET_OVER;
        if (wait->until_ns && dt_now_ns() > wait->until_ns)
            return DT_SOCKET_LATE;
        usleep(LOOK_MS * 1000);
    }
}

static DtStatus go_there(DtCluster *n, const DtMeet *meet)
{
    DtGreeting g;
    DtSocketWait wait = {n->is_over, n->context, dt_now_ns() + say_after_ns};
    DtSocketResult result = reach(n, meet, &wait, DT_ROLE_AGENT, &g);
    if (result == DT_SOCKET_LATE) {
        DtText line = {0};
        dt_text_printf(&line, "dtrun: waits for node 0 at %.200s (%s)", n->options->meet,
                       dt_socket_why());
        dt_text_say(stderr, line.at);
        dt_text_free(&line);
        wait.until_ns = dt_now_ns() + come_ns;
        result = reach(n, meet, &wait, DT_ROLE_AGENT, &g);
    }
    if (result == DT_SOCKET_OVER)
        return dt_status_fail(DT_EXIT_INTERRUPTED, "stopped while it waited for node 0");
    if (result != DT_SOCKET_OK)
        return dt_status_fail(DT_EXIT_RETRY, "node 0 has not come to %.200s within %d minutes",
                              n->options->meet, (int)(come_ns / 60000000000u));
    if (g.state == DT_GREETING_REFUSED)
        return dt_status_fail(DT_EXIT_USAGE, "%s", g.text);
    if (g.state == DT_GREETING_STRANGER)
        return dt_status_fail(DT_EXIT_USAGE,
                              "who listens at %.200s %.200s; all nodes need the same DTRUN_KEY, or "
                              "the same file ~/.config/dtrun/key",
                              n->options->meet, g.text);
    return DT_OK;
}

/* plan: NULL if it cannot be read. */
static DtStatus open_meeting(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                             bool (*is_over)(void *context), void *context, DtMeet *ret_meet,
                             DtCluster **ret_cluster)
{
    DtCluster *n = calloc(1, sizeof *n);
    *ret_cluster = n;
    if (n)
        *n = (DtCluster){.options = options, .facts = facts_of(options, plan, words),
                         .nodes = (uint32_t)options->nodes, .node = (uint32_t)options->node,
                         .is_over = is_over, .context = context};
    if (n) {
        n->fds = calloc(n->nodes, sizeof *n->fds);
        n->has_ended = calloc(n->nodes, sizeof *n->has_ended);
    }
    if (!n || !n->fds || !n->has_ended)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for %lld nodes", (long long)options->nodes);
    for (uint32_t i = 0; i < n->nodes; i++)
        n->fds[i] = -1;
    dt_socket_make_room(n->nodes);
    const DtStatus status = dt_key_find(n->key);
    return dt_status_ok(&status) ? dt_socket_parse(options->meet, ret_meet) : status;
}

DtStatus dt_cluster_meet(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                         bool (*is_over)(void *context), void *context, DtCluster **ret_cluster)
{
    DtMeet meet;
    const DtStatus status =
        open_meeting(options, plan, words, is_over, context, &meet, ret_cluster);
    if (!dt_status_ok(&status))
        return status;
    DtCluster *n = *ret_cluster;
    return n->node == 0 ? gather(n, meet.port) : go_there(n, &meet);
}

/* ---- a node that cannot start ---- */

static bool never(void *context)
{
    (void)context;
    return false;
}

void dt_cluster_refuse(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                       const DtStatus *why)
{
    DtCluster *n = NULL;
    DtMeet meet;
    const bool is_node = options->nodes > 1 && options->node >= 0 && options->meet &&
                         options->node < options->nodes;
    DtStatus status = DT_OK;
    if (!is_node)
        return;
    status = open_meeting(options, plan, words, never, NULL, &meet, &n);
    if (dt_status_ok(&status)) {
        const DtSocketWait wait = {never, NULL, dt_now_ns() + report_ns};
        Message m = message(n, DT_CLUSTER_FAILED);
        m.code = why->code;
        snprintf(m.text, sizeof m.text, "%s", why->message);
        DtGreeting g;
        if (n->node == 0)
            status = listen_there(n, meet.port);
        if (n->node == 0 && dt_status_ok(&status))
            answer_rest(n, &m);
        else if (n->node != 0 && reach(n, &meet, &wait, DT_ROLE_REFUSES, &g) == DT_SOCKET_OK &&
                 g.state == DT_GREETING_MET)
            send_to(n, 0, &m);
    }
    dt_cluster_part(n);
}

void dt_cluster_part(DtCluster *n)
{
    if (!n)
        return;
    for (uint32_t i = 0; n->fds && i < n->nodes; i++)
        if (n->fds[i] >= 0)
            close(n->fds[i]);
    dt_newcomers_free(n->newcomers);
    free(n->fds);
    free(n->has_ended);
    free(n);
}

/* ---- an attempt ---- */

static DtStatus start_all(DtCluster *n, DtShared *shared)
{
    Message m = message(n, START);
    uint16_t port;
    int fd;
    for (uint32_t i = 1; i < n->nodes; i++)
        if (n->fds[i] < 0 || dt_socket_has_gone(n->fds[i]))
            return dt_status_fail(DT_EXIT_RETRY, "node %u has gone before the ranks were started",
                                  i);
    const DtStatus status = dt_socket_listen(0, &fd, &port);
    if (!dt_status_ok(&status))
        return status;
    if (getrandom(&m.token, sizeof m.token, 0) != (ssize_t)sizeof m.token)
        return dt_status_fail(DT_EXIT_RETRY, "no random number for the nodes: %s", strerror(errno));
    m.port = port;
    shared->meet_fd = fd;
    shared->meet_port = port;
    shared->meet_token = m.token;
    dt_key_derive(n->key, "heads", m.token, shared->meet_key);
    for (uint32_t i = 1; i < n->nodes; i++)
        if (!send_to(n, i, &m))
            return dt_status_fail(DT_EXIT_RETRY, "node %u has gone before the ranks were started",
                                  i);
    return DT_OK;
}

DtStatus dt_cluster_start(DtCluster *n, DtShared *shared)
{
    Message m;
    shared->meet_fd = -1;
    n->code = DT_EXIT_OK;
    for (uint32_t i = 0; i < n->nodes; i++)
        n->has_ended[i] = false;
    if (n->node == 0)
        return start_all(n, shared);
    DtSocketResult result = receive(n, 0, dt_now_ns() + say_after_ns, &m);
    if (result == DT_SOCKET_LATE) {
        dt_text_say(stderr, "dtrun: waits until all nodes are there");
        result = receive(n, 0, 0, &m);
    }
    if (result == DT_SOCKET_OVER)
        return dt_status_fail(DT_EXIT_INTERRUPTED, "stopped while it waited for the other nodes");
    if (result != DT_SOCKET_OK)
        return dt_status_fail(DT_EXIT_RETRY, "node 0 has gone before the ranks were started");
    if (m.kind == DT_CLUSTER_FAILED)
        return status_of(&m);
    if (m.kind != START || m.port == 0 || m.port > 65535)
        return dt_status_fail(DT_EXIT_RETRY, "node 0 says something else than to start");
    shared->meet_port = m.port;
    shared->meet_token = m.token;
    dt_key_derive(n->key, "heads", m.token, shared->meet_key);
    return DT_OK;
}

static void pass_on(DtCluster *n, const Message *m, uint32_t from)
{
    for (uint32_t i = 0; i < n->nodes; i++)
        if (i != from && n->fds[i] >= 0)
            send_to(n, i, m);
}

void dt_cluster_tell(DtCluster *n, DtClusterNews news, int32_t code, const char *text)
{
    Message m = message(n, news);
    m.code = code;
    snprintf(m.text, sizeof m.text, "%s", text);
    pass_on(n, &m, n->node);
}

static DtClusterNote note_of(const Message *m)
{
    DtClusterNote note = {.news = (DtClusterNews)m->kind, .node = m->node, .code = m->code};
    if (note.news == DT_CLUSTER_FAILED)
        note.code = code_of_failure(m->code);
    snprintf(note.text, sizeof note.text, "%s", m->text);
    return note;
}

/* Reports the failure of a node that could not report it itself, because it has gone. */
static DtClusterNote fail_node(DtCluster *n, uint32_t node, int code, const char *what)
{
    Message m = message(n, DT_CLUSTER_FAILED);
    m.node = node;
    m.code = code;
    snprintf(m.text, sizeof m.text, "%s", what);
    if (n->node == 0)
        pass_on(n, &m, node);
    return note_of(&m);
}

static DtClusterNote gone(DtCluster *n, uint32_t node)
{
    lose(n, node);
    return fail_node(n, node, DT_EXIT_RETRY,
                     "it has gone: its dtrun has ended, or the network to it");
}

static bool is_failure(int code)
{
    return code != DT_EXIT_OK && code != DT_EXIT_INTERRUPTED && code != DT_EXIT_IO;
}

static void note_end(DtCluster *n, uint32_t node, const Message *m)
{
    n->has_ended[node] = true;
    if (n->code == DT_EXIT_OK && m->code != DT_EXIT_OK)
        n->code = code_of_failure(m->code);
}

DtClusterNote dt_cluster_hear(DtCluster *n)
{
    for (uint32_t i = 0; i < n->nodes; i++) {
        Message m;
        if (n->fds[i] < 0 || !dt_socket_has(n->fds[i]))
            continue;
        if (receive(n, i, dt_now_ns() + say_after_ns, &m) != DT_SOCKET_OK)
            return gone(n, i);
        if (m.kind == ENDED)
            note_end(n, i, &m);
        if (m.kind == ENDED && is_failure(m.code)) /* normally the node itself has reported its
                                                    * failure before that */
            return fail_node(n, i, m.code, "its ranks have failed, as it says itself");
        if (m.kind != DT_CLUSTER_FAILED && m.kind != DT_CLUSTER_STOP)
            continue;
        if (n->node == 0)
            pass_on(n, &m, i);
        return note_of(&m);
    }
    return (DtClusterNote){.news = DT_CLUSTER_NOTHING};
}

/* ---- the end of an attempt ---- */

/* Waits for messages or a signal. False: a signal has come. */
static bool await_end(DtCluster *n, uint32_t node)
{
    Message m;
    while (n->fds[node] >= 0 && !n->has_ended[node]) {
        const DtSocketResult result = receive(n, node, 0, &m);
        if (result == DT_SOCKET_OVER)
            return false;
        if (result != DT_SOCKET_OK) {
            gone(n, node);
            n->code = n->code == DT_EXIT_OK ? DT_EXIT_RETRY : n->code;
        } else if (m.kind == ENDED)
            note_end(n, node, &m);
        else if (m.kind == DT_CLUSTER_FAILED)
            pass_on(n, &m, node);
        n->was_stopped = n->was_stopped || (result == DT_SOCKET_OK && m.kind == DT_CLUSTER_STOP);
    }
    return true;
}

bool dt_cluster_is_whole(const DtCluster *n)
{
    for (uint32_t i = 0; i < n->nodes; i++)
        if (i != n->node && n->fds[i] < 0 && (n->node == 0 || i == 0))
            return false;
    return true;
}

bool dt_cluster_was_stopped(const DtCluster *n) { return n->was_stopped; }

int dt_cluster_collect(DtCluster *n, int code)
{
    Message m = message(n, ENDED);
    m.code = code;
    if (n->node != 0) {
        send_to(n, 0, &m);
        return code;
    }
    for (uint32_t i = 1; i < n->nodes; i++)
        if (!await_end(n, i))
            return code == DT_EXIT_OK ? DT_EXIT_INTERRUPTED : code;
    return code == DT_EXIT_OK ? n->code : code;
}

bool dt_cluster_agree(DtCluster *n, DtClusterEnd *end)
{
    Message m = message(n, RESULT);
    m.code = end->code;
    m.has_saved = end->has_saved;
    m.again = end->again;
    if (n->node == 0) {
        pass_on(n, &m, 0);
        return true;
    }
    do {
        if (n->fds[0] < 0 || receive(n, 0, 0, &m) != DT_SOCKET_OK)
            return false;
    } while (m.kind != RESULT);
    const int code = m.code == DT_EXIT_OK ? DT_EXIT_OK : code_of_failure(m.code);
    *end = (DtClusterEnd){.code = code, .has_saved = m.has_saved != 0, .again = m.again != 0};
    return true;
}
