/* SPDX-License-Identifier: Apache-2.0 */
/* How the supervisors of a run's nodes find each other, in steps that never wait, except while the
 * system looks up the name of node 0's host:
 *
 *     all connect with node 0, which listens where --meet says | when all are there, it sends each
 *     the address of its parent in the tree, and keeps only the connections of its own children |
 *     the others connect with their parents, which listen at a port of their own | a node that all
 *     its children have joined joins its parent
 *
 * So node 0 sends and receives less than 2 KB for each node, once. */
#include "runtime/cluster_internal.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/hostcc.h"
#include "runtime/key.h"
#include "runtime/say.h"
#include "runtime/spread.h"
#include "runtime/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t say_after_ns = 5000000000u, refuse_ns = 10000000000u,
                      come_ns = 1800000000000u, join_ns = 60000000000u, again_ns = 100000000u,
                      refuser_ns = 2000000000u;

static void fail(DtCluster *n, DtStatus status)
{
    if (n->stage != DT_STAGE_FAILED)
        n->status = status;
    n->stage = DT_STAGE_FAILED;
}

/* ---- facts ---- */

/* A hash of this program's file. */
static uint64_t hash_of_program(void)
{
    static uint64_t hash;
    DtFileView view;
    if (hash)
        return hash;
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
    snprintf(facts.value[DT_FACT_DATA], DT_FACT_BYTES, "%s", options->data);
    return facts;
}

/* ---- newcomers ---- */

/* Listens for others. port 0: any; ret_port is the one that was taken. */
static DtStatus listen_at(DtCluster *n, uint16_t port, uint16_t *ret_port)
{
    int fd;
    DtStatus status = dt_socket_listen(port, &fd, ret_port);
    if (dt_status_ok(&status) && !(n->newcomers = dt_newcomers_new(n->key, fd)))
        status = dt_status_fail(DT_EXIT_RETRY, "no memory to wait for other nodes");
    return status;
}

static bool is_another(const DtCluster *n, const DtHello *hello)
{
    return hello->node < n->nodes && hello->node != n->node;
}

/* Why a newcomer is not taken; NULL: it is. */
static const char *find_reason(const DtCluster *n, const DtHello *hello, bool is_there,
                               char ret_text[DT_WHY_BYTES])
{
    if (dt_hello_differs(&n->facts, &hello->facts, hello->node, ret_text))
        return ret_text;
    if (is_another(n, hello) && !is_there)
        return NULL;
    snprintf(ret_text, DT_WHY_BYTES,
             "there is a node with number %u already, and another one on %s: --node is another one "
             "on each machine",
             hello->node, hello->facts.host);
    return ret_text;
}

/* Answers a newcomer. Whether it is taken; else its connection is closed. */
static bool answer(DtCluster *n, DtNewcomer *one, bool is_there)
{
    char text[DT_WHY_BYTES];
    const char *why = find_reason(n, &one->hello, is_there, text);
    if (why && n->stage != DT_STAGE_REFUSES)
        dt_say("refused: %s", why);
    return dt_newcomers_answer(n->newcomers, one, n->node, why) && !why;
}

static void send_now(int fd, const DtMessage *m)
{
    DtAgentLink link = {.fd = -1};
    dt_agentlink_open(&link, fd);
    dt_agentlink_send(&link, m); /* it is short: the system takes it all */
    free(link.out);
}

/* Node 0 takes a node, or one that is going to say why it cannot start. */
static void take_at_root(DtCluster *n, DtNewcomer *one)
{
    const bool is_agent = one->hello.role == DT_ROLE_AGENT;
    DtGathered *at = is_another(n, &one->hello) ? &n->gathered[one->hello.node] : NULL;
    if (!answer(n, one, at && is_agent && at->fd >= 0))
        return;
    if (n->stage == DT_STAGE_REFUSES) {
        send_now(one->fd, &n->refusal);
        n->n_gathered += at->port == 0; /* which has told one then */
        at->port = 1;
        close(one->fd);
    } else if (is_agent) {
        *at = (DtGathered){.fd = one->fd, .port = (uint16_t)one->hello.port};
        memcpy(at->address, one->from, sizeof at->address);
        memcpy(at->host, one->hello.facts.host, sizeof at->host);
        n->n_gathered++;
    } else {
        dt_agentlink_close(&n->refuser);
        dt_agentlink_open(&n->refuser, one->fd);
        n->refuser_ns = dt_now_ns();
        n->refusal.node = one->hello.node;
    }
}

/* A node takes one of its children. */
static void take_child(DtCluster *n, DtNewcomer *one, uint64_t now_ns)
{
    const uint32_t at = dt_agent_neighbour(&n->agent, one->hello.node);
    const bool is_child = one->hello.role == DT_ROLE_AGENT && at > 0 && at < n->agent.n;
    if (!answer(n, one, !is_child || n->agent.at[at].is_there))
        return;
    dt_agentlink_open(&n->links[at], one->fd);
    dt_agent_meet(&n->agent, at, one->hello.facts.host, now_ns);
}

static void take_newcomers(DtCluster *n, uint64_t now_ns)
{
    DtNewcomer one;
    if (!n->newcomers)
        return;
    dt_newcomers_look(n->newcomers, now_ns);
    while (dt_newcomers_take(n->newcomers, &one))
        if (n->node == 0)
            take_at_root(n, &one);
        else
            take_child(n, &one, now_ns);
    for (const char *from; (from = dt_newcomers_stranger(n->newcomers));)
        dt_say("a program on %s was refused: it knows another key (DTRUN_KEY must be the same on "
               "all nodes), or is no node of this run",
               from);
}

/* ---- node 0 ---- */

/* Begins to tell all nodes, those that are here and those that come within ten seconds, why the run
 * does not start. */
static void begin_refusal(DtCluster *n, uint64_t now_ns)
{
    n->stage = DT_STAGE_REFUSES;
    n->began_ns = now_ns;
    n->n_gathered = 0;
    for (uint32_t i = 0; i < n->nodes; i++) {
        DtGathered *at = &n->gathered[i];
        const bool knows = at->fd >= 0 || i == n->node || i == n->refusal.node;
        if (at->fd >= 0) {
            send_now(at->fd, &n->refusal);
            close(at->fd);
        }
        *at = (DtGathered){.fd = -1, .port = knows};
        n->n_gathered += knows;
    }
}

static DtStatus status_of(const DtMessage *m)
{
    return dt_status_fail(m->code, "node %u: %.450s", m->node, m->text);
}

/* Hears one that cannot start. */
static void hear_refuser(DtCluster *n, uint64_t now_ns)
{
    DtMessage m;
    const uint32_t node = n->refusal.node;
    if (n->refuser.fd < 0)
        return;
    const bool lives = dt_agentlink_pump(&n->refuser);
    const int got = dt_agentlink_next(&n->refuser, &m);
    if (got == 0 && lives && now_ns < n->refuser_ns + refuser_ns)
        return;
    dt_agentlink_close(&n->refuser);
    if (got <= 0 || m.kind != DT_MESSAGE_FAILED)
        return;
    n->refusal = m;
    n->refusal.node = node;
    begin_refusal(n, now_ns);
}

static void say_who_is_missing(DtCluster *n)
{
    enum { MOST = 20 };
    DtText who = {0};
    const uint32_t missing = n->nodes - 1 - n->n_gathered;
    uint32_t said = 0;
    for (uint32_t i = 1; i < n->nodes && said < MOST; i++)
        if (n->gathered[i].fd < 0)
            dt_text_printf(&who, "%s%u", said++ ? ", " : "", i);
    dt_say("waits for node %s%s of %u, which are to be started with --meet %.200s, too", who.at,
           missing > said ? ", .." : "", n->nodes, n->options->meet);
    dt_text_free(&who);
}

/* Removes nodes that went away before all were there: others may connect in their place. */
static void forget_gone(DtCluster *n)
{
    for (uint32_t i = 1; i < n->nodes; i++)
        if (n->gathered[i].fd >= 0 && dt_socket_has_gone(n->gathered[i].fd)) {
            close(n->gathered[i].fd);
            n->gathered[i].fd = -1;
            n->n_gathered--;
        }
}

/* All are there: sends each the address of its parent. */
static void send_routes(DtCluster *n, uint64_t now_ns)
{
    for (uint32_t i = 1; i < n->nodes; i++) {
        DtGathered *at = &n->gathered[i];
        const uint32_t parent = dt_tree_parent(i);
        DtMessage m = {.kind = DT_MESSAGE_ROUTE, .node = parent};
        if (parent > 0) {
            m.port = n->gathered[parent].port;
            snprintf(m.text, sizeof m.text, "%s", n->gathered[parent].address);
        }
        send_now(at->fd, &m);
        if (parent > 0) {
            close(at->fd);
        } else {
            dt_agentlink_open(&n->links[i], at->fd);
            dt_agent_meet(&n->agent, i, at->host, now_ns);
        }
        at->fd = -1;
    }
    dt_agentlink_close(&n->refuser); /* nobody would read it: polls would end at once for ever */
    dt_newcomers_free(n->newcomers); /* closes the socket: later connections are refused */
    n->newcomers = NULL;
    n->stage = DT_STAGE_JOINS;
    n->routed_ns = now_ns;
}

static void gather(DtCluster *n, uint64_t now_ns)
{
    hear_refuser(n, now_ns);
    if (n->stage != DT_STAGE_GATHERS)
        return;
    if (n->n_gathered == n->nodes - 1 || now_ns > n->try_ns) {
        forget_gone(n);
        n->try_ns = now_ns + again_ns;
    }
    if (n->n_gathered == n->nodes - 1) {
        send_routes(n, now_ns);
        return;
    }
    if (!n->is_said && now_ns > n->began_ns + say_after_ns) {
        say_who_is_missing(n);
        n->is_said = true;
    }
    if (now_ns > n->began_ns + come_ns)
        fail(n, dt_status_fail(DT_EXIT_RETRY, "%u of %u nodes have not come within %d minutes",
                               n->nodes - 1 - n->n_gathered, n->nodes - 1,
                               (int)(come_ns / 60000000000u)));
}

/* ---- other nodes ---- */

static void begin_connection(DtCluster *n, uint64_t now_ns)
{
    int fd;
    const bool is_inner = n->newcomers != NULL;
    DtHello hello = {.role = n->refuses ? DT_ROLE_REFUSES : DT_ROLE_AGENT, .node = n->node,
                     .facts = n->facts, .port = is_inner ? n->gathered->port : 0};
    n->try_ns = now_ns + again_ns;
    if (dt_socket_begin(&n->goal, n->tries++, &fd))
        dt_greeting_begin(&n->greeting, fd, n->key, &hello, now_ns);
    else
        snprintf(n->why, sizeof n->why, "%s", dt_socket_why());
}

/* Has connected with the goal. */
static void arrive(DtCluster *n, uint64_t now_ns)
{
    dt_agentlink_open(&n->links[0], n->greeting.fd);
    n->greeting.fd = -1;
    if (n->refuses) {
        dt_agentlink_send(&n->links[0], &n->refusal);
        fail(n, DT_OK);
    } else if (n->stage == DT_STAGE_CONNECTS) {
        n->stage = DT_STAGE_WAITS;
    } else {
        n->stage = DT_STAGE_JOINS;
        dt_agent_meet(&n->agent, 0, n->goal.host, now_ns);
    }
}

static void give_up(DtCluster *n)
{
    const DtGreeting *g = &n->greeting;
    const char *host = n->goal.host;
    const uint32_t port = n->goal.port;
    if (g->state == DT_GREETING_REFUSED)
        fail(n, dt_status_fail(DT_EXIT_USAGE, "%s", g->text));
    else
        fail(n, dt_status_fail(DT_EXIT_USAGE,
                               "who listens at %.200s, port %u, %.200s; all nodes need the same "
                               "DTRUN_KEY, or the same file ~/.config/dtrun/key",
                               host, port, g->text));
}

/* Connects with the goal: tries again and again until somebody listens there. */
static void connect_on(DtCluster *n, uint64_t now_ns)
{
    DtGreeting *g = &n->greeting;
    const bool to_first = n->stage == DT_STAGE_CONNECTS;
    if (g->fd >= 0 && dt_greeting_step(g, now_ns) == DT_GREETING_MET) {
        arrive(n, now_ns);
    } else if (g->fd >= 0 && dt_greeting_is_done(g)) {
        if (g->state != DT_GREETING_GONE)
            give_up(n);
        snprintf(n->why, sizeof n->why, "%.190s", g->text);
        close(g->fd);
        g->fd = -1;
    } else if (g->fd < 0 && now_ns >= n->try_ns) {
        begin_connection(n, now_ns);
    }
    if (n->refuses && now_ns > n->began_ns + refuse_ns)
        fail(n, DT_OK);
    if (to_first && !n->refuses && !n->is_said && now_ns > n->began_ns + say_after_ns) {
        dt_say("waits for node 0 at %.200s (%s)", n->options->meet, n->why);
        n->is_said = true;
    }
    if (now_ns > (to_first ? n->began_ns + come_ns : n->routed_ns + join_ns))
        fail(n, dt_status_fail(DT_EXIT_RETRY, "cannot connect with %.200s, port %u: %.200s",
                               n->goal.host, n->goal.port, n->why));
}

/* Node 0 says who the parent is. */
static void take_route(DtCluster *n, const DtMessage *m, uint64_t now_ns)
{
    n->routed_ns = now_ns;
    if (m->node != n->agent.at[0].node || (m->port == 0) != (m->node == 0) ||
        strlen(m->text) >= sizeof n->goal.host) {
        fail(n, dt_status_fail(DT_EXIT_RETRY, "node 0 says something else than where to go"));
    } else if (m->port == 0) {
        n->stage = DT_STAGE_JOINS;
        dt_agent_meet(&n->agent, 0, n->goal.host, now_ns);
    } else {
        dt_agentlink_close(&n->links[0]);
        n->goal.port = m->port;
        memcpy(n->goal.host, m->text, strlen(m->text) + 1);
        n->stage = DT_STAGE_GOES;
        n->try_ns = now_ns;
        n->tries = 0;
    }
}

static void wait_for_route(DtCluster *n, uint64_t now_ns)
{
    DtMessage m;
    const bool lives = dt_agentlink_pump(&n->links[0]);
    const int got = dt_agentlink_next(&n->links[0], &m);
    if (got == 1 && m.kind == DT_MESSAGE_ROUTE)
        take_route(n, &m, now_ns);
    else if (got == 1 && m.kind == DT_MESSAGE_FAILED)
        fail(n, status_of(&m));
    else if (!lives || got != 0)
        fail(n, dt_status_fail(DT_EXIT_RETRY,
                               "node 0 has gone before the ranks were started"));
    else if (!n->is_said && now_ns > n->began_ns + say_after_ns) {
        dt_say("waits until all nodes are there");
        n->is_said = true;
    } else if (now_ns > n->began_ns + 2 * come_ns)
        fail(n, dt_status_fail(DT_EXIT_RETRY, "node 0 waits for other nodes for too long"));
}

/* ---- the tree ---- */

static void join(DtCluster *n, uint64_t now_ns)
{
    if (dt_agent_has_joined(&n->agent)) {
        dt_newcomers_free(n->newcomers);
        n->newcomers = NULL;
        n->stage = DT_STAGE_MET;
    } else if (now_ns > n->routed_ns + 2 * join_ns) {
        const DtStatus status = dt_status_fail(
            DT_EXIT_RETRY, "the nodes below node %u have not come within %d s; a firewall must let "
                           "dtrun's connections between all hosts through",
            n->node, (int)(2 * join_ns / 1000000000u));
        dt_agent_fail(&n->agent, status.code, status.message, now_ns);
        fail(n, status);
    }
}

/* Whether neighbours that are there already have no news of a failure. */
static bool hear_neighbours(DtCluster *n, uint64_t now_ns)
{
    dt_cluster_pump(n, now_ns);
    if (!n->agent.has_note)
        return true;
    n->agent.has_note = false;
    fail(n, status_of(&n->agent.note));
    return false;
}

void dt_cluster_step(DtCluster *n, uint64_t now_ns)
{
    take_newcomers(n, now_ns);
    if ((n->stage == DT_STAGE_WAITS || n->stage == DT_STAGE_GOES || n->stage == DT_STAGE_JOINS) &&
        !hear_neighbours(n, now_ns))
        return;
    switch (n->stage) {
    case DT_STAGE_GATHERS: gather(n, now_ns); return;
    case DT_STAGE_CONNECTS:
    case DT_STAGE_GOES: connect_on(n, now_ns); return;
    case DT_STAGE_WAITS: wait_for_route(n, now_ns); return;
    case DT_STAGE_JOINS: join(n, now_ns); return;
    case DT_STAGE_REFUSES:
        if (n->n_gathered >= n->nodes || now_ns > n->began_ns + refuse_ns)
            fail(n, n->refuses ? DT_OK : status_of(&n->refusal));
        return;
    case DT_STAGE_MET: dt_cluster_pump(n, now_ns); return;
    case DT_STAGE_FAILED: return;
    }
}

/* ---- begin and end ---- */

static void send_to_neighbour(void *context, uint32_t neighbour, const DtMessage *m)
{
    DtCluster *n = context;
    dt_agentlink_send(&n->links[neighbour], m);
}

/* Opens the sockets of a node that takes others: node 0, or one that has children. */
static DtStatus open_listener(DtCluster *n)
{
    uint16_t port = 0;
    if (n->node > 0 && (n->refuses || dt_tree_children(n->nodes, n->node) == 0))
        return DT_OK;
    const DtStatus status = listen_at(n, n->node == 0 ? n->meet.port : 0, &port);
    if (n->node > 0)
        n->gathered->port = port;
    return status;
}

static DtStatus open_with(DtCluster *n, uint32_t ranks)
{
    const uint32_t n_gathered = n->node == 0 ? n->nodes : 1;
    dt_agent_init(&n->agent, n->nodes, n->node, ranks);
    n->agent.send = send_to_neighbour;
    n->agent.context = n;
    n->agent.wait = dt_cluster_note_wait;
    n->stage = n->node == 0 ? DT_STAGE_GATHERS : DT_STAGE_CONNECTS;
    n->began_ns = dt_now_ns();
    n->greeting.fd = n->refuser.fd = -1;
    for (uint32_t i = 0; i <= DT_TREE_DEGREE; i++)
        n->links[i].fd = -1;
    n->gathered = calloc(n_gathered, sizeof *n->gathered);
    n->waiters = calloc(dt_spread_count(ranks, n->nodes, n->node), sizeof *n->waiters);
    if (!n->gathered || !n->waiters)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for %u nodes", n->nodes);
    for (uint32_t i = 0; i < n_gathered; i++)
        n->gathered[i].fd = -1;
    dt_socket_make_room(n_gathered);
    DtStatus status = dt_key_find(n->key);
    if (dt_status_ok(&status))
        status = dt_socket_parse(n->options->meet, &n->meet);
    n->goal = n->meet;
    return dt_status_ok(&status) ? open_listener(n) : status;
}

static DtCluster *new_cluster(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                              bool (*is_over)(void *context), void *context)
{
    DtCluster *n = calloc(1, sizeof *n);
    if (n)
        *n = (DtCluster){.options = options, .facts = facts_of(options, plan, words),
                         .nodes = (uint32_t)options->nodes, .node = (uint32_t)options->node,
                         .is_over = is_over, .context = context};
    return n;
}

static const DtStatus no_memory = {.code = DT_EXIT_RETRY, .message = "no memory for other nodes"};

DtStatus dt_cluster_open(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                         bool (*is_over)(void *context), void *context, DtCluster **ret_cluster)
{
    *ret_cluster = new_cluster(options, plan, words, is_over, context);
    const uint32_t ranks =
        plan && plan->meta ? plan->meta->n_ranks : (uint32_t)options->nodes;
    return *ret_cluster ? open_with(*ret_cluster, ranks) : no_memory;
}

DtStatus dt_cluster_meet(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                         bool (*is_over)(void *context), void *context, DtCluster **ret_cluster)
{
    DtStatus status = dt_cluster_open(options, plan, words, is_over, context, ret_cluster);
    DtCluster *n = *ret_cluster;
    while (dt_status_ok(&status) && n->stage != DT_STAGE_MET && n->stage != DT_STAGE_FAILED) {
        dt_cluster_sleep(n);
        dt_cluster_step(n, dt_now_ns());
        if (is_over(context) && n->stage != DT_STAGE_FAILED)
            return dt_status_fail(DT_EXIT_INTERRUPTED, "stopped while it waited for %s",
                                  n->node == 0 ? "the other nodes" : "node 0");
    }
    return dt_status_ok(&status) ? n->status : status;
}

void dt_cluster_refuse(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                       const DtStatus *why)
{
    const bool is_node = options->nodes > 1 && options->node >= 0 && options->meet &&
                         options->node < options->nodes;
    DtCluster *n = is_node ? new_cluster(options, plan, words, NULL, NULL) : NULL;
    if (!n)
        return;
    n->refuses = true;
    n->refusal = (DtMessage){.kind = DT_MESSAGE_FAILED, .node = n->node, .code = why->code};
    snprintf(n->refusal.text, sizeof n->refusal.text, "%s", why->message);
    const DtStatus status = open_with(n, n->nodes);
    if (dt_status_ok(&status) && n->node == 0)
        begin_refusal(n, dt_now_ns());
    while (dt_status_ok(&status) && n->stage != DT_STAGE_FAILED) {
        dt_cluster_sleep(n);
        dt_cluster_step(n, dt_now_ns());
    }
    dt_cluster_part(n);
}

void dt_cluster_part(DtCluster *n)
{
    if (!n)
        return;
    for (uint32_t i = 0; n->node == 0 && n->gathered && i < n->nodes; i++)
        if (n->gathered[i].fd >= 0)
            close(n->gathered[i].fd);
    for (uint32_t i = 0; i <= DT_TREE_DEGREE; i++) {
        const uint64_t until_ns = dt_now_ns() + 1000000000u;
        while (n->links[i].fd >= 0 && n->links[i].n_out > 0 && dt_agentlink_pump(&n->links[i]) &&
               dt_now_ns() < until_ns)
            usleep(1000);
        dt_agentlink_close(&n->links[i]);
    }
    dt_agentlink_close(&n->refuser);
    if (n->greeting.fd >= 0)
        close(n->greeting.fd);
    dt_newcomers_free(n->newcomers);
    free(n->gathered);
    free(n->waiters);
    free(n);
}
