/* SPDX-License-Identifier: Apache-2.0 */
/* How the supervisors of a run's nodes find each other, in steps that never wait, except while the
 * system looks up the name of node 0's host:
 *
 *     all connect with node 0, which listens where --meet says | when all are there, it sends each
 *     the address of its parent in the tree (cluster_gather.c) | the others connect with their
 *     parents, which listen at a port of their own | a node that all its children have joined joins
 *     its parent
 *
 * So node 0 sends and receives less than 2 KB for each node, once.
 *
 * In an elastic run (--elastic, --spares) node 0 listens to the end. If a node is lost, all others
 * leave the tree and connect with node 0 again. That chooses who takes part, and a new tree is
 * made, a *formation*. */
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
                      elastic_ns = 5000000000u, refused_ns = 1000000000u;

void dt_cluster_fail(DtCluster *n, DtStatus status)
{
    if (n->stage != DT_STAGE_FAILED)
        n->status = status;
    n->stage = DT_STAGE_FAILED;
}

DtStatus dt_cluster_status_of(const DtMessage *m)
{
    return dt_status_fail(m->code, "node %u: %.450s", m->node, m->text);
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

DtStatus dt_cluster_listen(DtCluster *n, uint16_t port)
{
    int fd;
    DtStatus status = dt_socket_listen(port, &fd, &n->port);
    if (dt_status_ok(&status) && !(n->newcomers = dt_newcomers_new(n->key, fd)))
        status = dt_status_fail(DT_EXIT_RETRY, "no memory to wait for other nodes");
    return status;
}

const char *dt_cluster_reason(const DtCluster *n, const DtHello *hello, bool is_there,
                              char ret_text[DT_WHY_BYTES])
{
    const uint32_t number = hello->node;
    if (dt_hello_differs(&n->facts, &hello->facts, number, ret_text))
        return ret_text;
    if (number < n->seats && number != n->node && !is_there)
        return NULL;
    snprintf(ret_text, DT_WHY_BYTES,
             "there is a node with number %u already, and another one on %s: --node is another one "
             "on each machine",
             number, hello->facts.host);
    return ret_text;
}

bool dt_cluster_answer(DtCluster *n, DtNewcomer *one, bool is_there)
{
    char text[DT_WHY_BYTES];
    const char *why = dt_cluster_reason(n, &one->hello, is_there, text);
    if (why && n->stage != DT_STAGE_REFUSES)
        dt_say("refused: %s", why);
    return dt_newcomers_answer(n->newcomers, one, n->node, why) && !why;
}

/* A node takes one of its children. */
static void take_child(DtCluster *n, DtNewcomer *one, uint64_t now_ns)
{
    const uint32_t at = dt_agent_neighbour(&n->agent, one->hello.node);
    const bool is_child = one->hello.role == DT_ROLE_AGENT && at > 0 && at < n->agent.n &&
                          one->hello.form == n->form;
    if (n->is_elastic && one->hello.form < n->form) {
        close(one->fd);
        return;
    }
    if (n->is_elastic && (n->stage != DT_STAGE_JOINS || one->hello.form > n->form)) {
        /* node 0 has told it of the next formation before this node */
        dt_newcomers_hold(n->newcomers, one);
        return;
    }
    if (!dt_cluster_answer(n, one, !is_child || n->agent.at[at].is_there))
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
        if (n->seat == 0)
            dt_cluster_take_at_root(n, &one, now_ns);
        else
            take_child(n, &one, now_ns);
    for (const char *from; (from = dt_newcomers_stranger(n->newcomers));)
        dt_say("a program on %s was refused: it knows another key (DTRUN_KEY must be the same on "
               "all nodes), or is no node of this run",
               from);
}

/* ---- other nodes ---- */

static void begin_connection(DtCluster *n, uint64_t now_ns)
{
    int fd;
    const bool to_first = n->stage == DT_STAGE_CONNECTS;
    DtHello hello = {.role = n->refuses ? DT_ROLE_REFUSES : DT_ROLE_AGENT,
                     .node = to_first ? n->seat : n->node, .form = to_first ? 0 : n->form,
                     .facts = n->facts, .port = n->newcomers ? n->port : 0};
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
        dt_cluster_fail(n, DT_OK);
    } else if (n->stage == DT_STAGE_CONNECTS) {
        n->stage = DT_STAGE_WAITS;
        n->heard_ns = n->beat_ns = now_ns;
    } else {
        n->stage = DT_STAGE_JOINS;
        dt_agent_meet(&n->agent, 0, n->goal.host, now_ns);
    }
}

static void give_up(DtCluster *n)
{
    const DtGreeting *g = &n->greeting;
    if (n->is_elastic && n->stage == DT_STAGE_GOES)
        n->stage = DT_STAGE_BROKEN;
    else if (g->state == DT_GREETING_REFUSED)
        dt_cluster_fail(n, dt_status_fail(DT_EXIT_USAGE, "%s", g->text));
    else
        dt_cluster_fail(n, dt_status_fail(DT_EXIT_USAGE,
                                          "who listens at %.200s, port %u, %.200s; all nodes need "
                                          "the same DTRUN_KEY, or the same file "
                                          "~/.config/dtrun/key",
                                          n->goal.host, n->goal.port, g->text));
}

static bool is_too_late(DtCluster *n, uint64_t now_ns)
{
    if (n->is_elastic && n->stage == DT_STAGE_GOES)
        return now_ns > n->routed_ns + elastic_ns;
    if (n->stage == DT_STAGE_GOES)
        return now_ns > n->routed_ns + join_ns;
    if (n->form == 0)
        return now_ns > n->began_ns + come_ns;
    return now_ns > n->until_ns || (n->refused_ns && now_ns > n->refused_ns + refused_ns);
}

static void be_too_late(DtCluster *n)
{
    if (n->is_elastic && n->stage == DT_STAGE_GOES)
        n->stage = DT_STAGE_BROKEN;
    else if (n->form > 0 && n->stage == DT_STAGE_CONNECTS)
        dt_cluster_fail(n, dt_status_fail(DT_EXIT_RETRY,
                                          "node 0 is gone, or the network to it: %.200s, port %u: "
                                          "%.200s",
                                          n->goal.host, n->goal.port, n->why));
    else
        dt_cluster_fail(n, dt_status_fail(DT_EXIT_RETRY,
                                          "cannot connect with %.200s, port %u: %.200s",
                                          n->goal.host, n->goal.port, n->why));
}

/* Notes why a connection was not made. */
static void note_gone(DtCluster *n, uint64_t now_ns)
{
    DtGreeting *g = &n->greeting;
    if (g->state != DT_GREETING_GONE)
        give_up(n);
    if (g->error != ECONNREFUSED)
        n->refused_ns = 0;
    else if (n->refused_ns == 0)
        n->refused_ns = now_ns;
    snprintf(n->why, sizeof n->why, "%.190s", g->text);
    close(g->fd);
    g->fd = -1;
}

/* Connects with the goal: tries again and again until somebody listens there. */
static void connect_on(DtCluster *n, uint64_t now_ns)
{
    DtGreeting *g = &n->greeting;
    if (g->fd >= 0 && dt_greeting_step(g, now_ns) == DT_GREETING_MET)
        arrive(n, now_ns);
    else if (g->fd >= 0 && dt_greeting_is_done(g))
        note_gone(n, now_ns);
    else if (g->fd < 0 && now_ns >= n->try_ns)
        begin_connection(n, now_ns);
    if (n->stage != DT_STAGE_CONNECTS && n->stage != DT_STAGE_GOES)
        return;
    if (n->refuses && now_ns > n->began_ns + refuse_ns)
        dt_cluster_fail(n, DT_OK);
    if (n->stage == DT_STAGE_CONNECTS && !n->refuses && !n->is_said &&
        now_ns > n->began_ns + say_after_ns) {
        dt_say("waits for node 0 at %.200s (%s)", n->options->meet, n->why);
        n->is_said = true;
    }
    if (is_too_late(n, now_ns))
        be_too_late(n);
}

/* Whether node 0 may say that. Where all nodes take part, their numbers stay. */
static bool is_sound(const DtCluster *n, const DtMessage *m)
{
    const bool same = m->node == n->seat && m->nodes == n->seats && m->ranks == n->ranks;
    return m->node > 0 && m->node < m->nodes && m->nodes <= n->seats && m->ranks >= m->nodes &&
           m->ranks <= n->ranks && (n->is_elastic || same) &&
           (m->port == 0) == (dt_tree_parent(m->node) == 0) &&
           strlen(m->text) < sizeof n->goal.host && (n->form == 0 || m->form > n->form);
}

/* Node 0 says which node this is, and who its parent is. */
static void take_route(DtCluster *n, const DtMessage *m, uint64_t now_ns)
{
    DtStatus status = dt_status_fail(DT_EXIT_RETRY,
                                     "node 0 says something else than where to go");
    if (is_sound(n, m))
        status = dt_cluster_take_place(n, m->nodes, m->node, m->ranks);
    if (!dt_status_ok(&status)) {
        dt_cluster_fail(n, status);
        return;
    }
    n->routed_ns = now_ns;
    n->form = m->form;
    n->route = *m;
    n->has_route = n->is_elastic;
    n->agent.base = n->agent.attempt = m->attempt;
    n->agent.is_ready = !n->is_elastic;
    n->stage = m->port == 0 ? DT_STAGE_JOINS : DT_STAGE_GOES;
    if (m->port == 0) {
        dt_agent_meet(&n->agent, 0, n->goal.host, now_ns);
        return;
    }
    dt_agentlink_close(&n->links[0]);
    n->goal.port = m->port;
    memcpy(n->goal.host, m->text, strlen(m->text) + 1);
    n->try_ns = now_ns;
    n->tries = 0;
}

/* Node 0 is silent, or has closed the connection. */
static void lose_root(DtCluster *n, uint64_t now_ns)
{
    if (n->is_elastic && n->form > 0)
        dt_cluster_regroup(n, now_ns);
    else
        dt_cluster_fail(n, dt_status_fail(DT_EXIT_RETRY,
                                          "node 0 has gone before the ranks were started"));
}

static void hear_root(DtCluster *n, const DtMessage *m, uint64_t now_ns)
{
    n->heard_ns = now_ns;
    if (m->kind == DT_MESSAGE_ROUTE)
        take_route(n, m, now_ns);
    else if (m->kind == DT_MESSAGE_FAILED)
        dt_cluster_fail(n, dt_cluster_status_of(m));
    else if (m->kind == DT_MESSAGE_RESULT) {
        n->stage = DT_STAGE_OVER;
        n->code = m->code;
    } else if (m->kind != DT_MESSAGE_BEAT)
        lose_root(n, now_ns);
}

static void wait_for_route(DtCluster *n, uint64_t now_ns)
{
    const DtMessage beat = {.kind = DT_MESSAGE_BEAT};
    DtMessage m;
    const bool lives = dt_agentlink_pump(&n->links[0]);
    int got = 0;
    while (n->stage == DT_STAGE_WAITS && (got = dt_agentlink_next(&n->links[0], &m)) > 0)
        hear_root(n, &m, now_ns);
    if (n->stage != DT_STAGE_WAITS)
        return;
    if (!lives || got != 0 || now_ns > n->heard_ns + dt_agent_silence_ns) {
        lose_root(n, now_ns);
        return;
    }
    if (now_ns > n->beat_ns + dt_agent_beat_ns) {
        n->beat_ns = now_ns;
        dt_agentlink_send(&n->links[0], &beat);
    }
    if (!n->is_said && now_ns > n->began_ns + say_after_ns) {
        dt_say(n->is_elastic ? "waits until the run needs this host"
                             : "waits until all nodes are there");
        n->is_said = true;
    }
}

/* ---- the tree ---- */

static bool is_child_missing(const DtCluster *n)
{
    bool any = false;
    for (uint32_t i = 1; i < n->agent.n; i++)
        any = any || !n->agent.at[i].is_there;
    return any;
}

/* Elastic: children that do not come are lost, and so is the formation. */
static void miss_children(DtCluster *n, uint64_t now_ns)
{
    for (uint32_t i = 1; i < n->agent.n; i++)
        if (!n->agent.at[i].is_there && !n->agent.at[i].is_lost)
            dt_agent_miss(&n->agent, i, "it has not come to its parent", now_ns);
}

static void join(DtCluster *n, uint64_t now_ns)
{
    if (dt_agent_has_joined(&n->agent) && n->agent.is_ready) {
        if (!n->is_elastic) {
            dt_newcomers_free(n->newcomers);
            n->newcomers = NULL;
        }
        n->stage = DT_STAGE_MET;
    } else if (n->is_elastic && now_ns > n->routed_ns + elastic_ns && is_child_missing(n)) {
        miss_children(n, now_ns);
        n->stage = DT_STAGE_BROKEN;
    } else if (!n->is_elastic && now_ns > n->routed_ns + 2 * join_ns) {
        const DtStatus status = dt_status_fail(
            DT_EXIT_RETRY, "the nodes below node %u have not come within %d s; a firewall must let "
                           "dtrun's connections between all hosts through",
            n->node, (int)(2 * join_ns / 1000000000u));
        dt_agent_fail(&n->agent, status.code, 0, status.message, now_ns);
        dt_cluster_fail(n, status);
    }
}

/* Whether neighbours that are there already have no news of a failure. */
static bool hear_neighbours(DtCluster *n, uint64_t now_ns)
{
    dt_cluster_pump(n, now_ns);
    dt_cluster_ask_plan(n, now_ns);
    if (n->is_elastic && n->agent.has_lost)
        n->stage = DT_STAGE_BROKEN;
    else if (n->agent.has_note)
        dt_cluster_fail(n, dt_cluster_status_of(&n->agent.note));
    else
        return true;
    n->agent.has_note = false;
    return false;
}

void dt_cluster_step(DtCluster *n, uint64_t now_ns)
{
    take_newcomers(n, now_ns);
    if (n->form > 0 && n->stage != DT_STAGE_GATHERS)
        dt_cluster_hear_waiting(n, now_ns);
    if ((n->stage == DT_STAGE_GOES || n->stage == DT_STAGE_JOINS) && !hear_neighbours(n, now_ns))
        return;
    switch (n->stage) {
    case DT_STAGE_GATHERS: dt_cluster_gather(n, now_ns); return;
    case DT_STAGE_GATHERED: dt_cluster_hear_waiting(n, now_ns); return;
    case DT_STAGE_CONNECTS:
    case DT_STAGE_GOES: connect_on(n, now_ns); return;
    case DT_STAGE_WAITS: wait_for_route(n, now_ns); return;
    case DT_STAGE_JOINS: join(n, now_ns); return;
    case DT_STAGE_REFUSES:
        if (n->n_gathered >= n->seats || now_ns > n->began_ns + refuse_ns)
            dt_cluster_fail(n, n->refuses ? DT_OK : dt_cluster_status_of(&n->refusal));
        return;
    case DT_STAGE_MET: dt_cluster_pump(n, now_ns); return;
    case DT_STAGE_BROKEN:
    case DT_STAGE_OVER:
    case DT_STAGE_FAILED: return;
    }
}

/* ---- begin and end ---- */

static void send_to_neighbour(void *context, uint32_t neighbour, const DtMessage *m)
{
    DtCluster *n = context;
    dt_agentlink_send(&n->links[neighbour], m);
}

/* Opens the socket of a node that takes others: node 0, or one that has children, or may have. */
static DtStatus open_listener(DtCluster *n)
{
    const bool has_children = n->is_elastic || dt_tree_children(n->seats, n->seat) > 0;
    if (n->seat > 0 && (n->refuses || !has_children))
        return DT_OK;
    return dt_cluster_listen(n, n->seat == 0 ? n->meet.port : 0);
}

DtStatus dt_cluster_take_place(DtCluster *n, uint32_t nodes, uint32_t node, uint32_t ranks)
{
    n->nodes = nodes;
    n->node = node;
    dt_agent_init(&n->agent, nodes, node, ranks);
    n->agent.base = n->agent.attempt = n->attempts;
    n->agent.send = send_to_neighbour;
    n->agent.context = n;
    n->agent.wait = dt_cluster_note_wait;
    n->agent.chain = dt_cluster_note_chain;
    free(n->waiters);
    free(n->stills);
    n->waiters = calloc(dt_spread_count(ranks, nodes, node), sizeof *n->waiters);
    n->stills = calloc(dt_spread_count(ranks, nodes, node), sizeof *n->stills);
    n->cycle = (DtWatchEvent){.kind = DT_WATCH_NOTHING, .waiter = UINT32_MAX};
    return n->waiters && n->stills
               ? DT_OK
               : dt_status_fail(DT_EXIT_RETRY, "no memory for %u nodes", nodes);
}

static DtStatus open_with(DtCluster *n, uint32_t ranks)
{
    n->ranks = ranks;
    n->agent = (DtAgent){.first = 1, .n = 1};
    n->stage = n->seat == 0 ? DT_STAGE_GATHERS : DT_STAGE_CONNECTS;
    n->began_ns = dt_now_ns();
    n->greeting.fd = n->refuser.fd = -1;
    n->code = DT_EXIT_RETRY;
    for (uint32_t i = 0; i <= DT_TREE_DEGREE; i++)
        n->links[i].fd = -1;
    n->gathered = n->seat == 0 ? calloc(n->seats, sizeof *n->gathered) : NULL;
    if (n->seat == 0 && !n->gathered)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for %u nodes", n->seats);
    dt_socket_make_room(n->seat == 0 ? n->seats : 1);
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
    const uint32_t seats = (uint32_t)options->nodes, seat = (uint32_t)options->node;
    if (n)
        *n = (DtCluster){.options = options, .facts = facts_of(options, plan, words),
                         .seats = seats, .seat = seat, .nodes = seats, .node = seat,
                         .is_elastic = dt_cluster_is_elastic(options), .is_over = is_over,
                         .context = context};
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

/* Each host is the node that its number says. */
static void form_of_all(DtCluster *n)
{
    DtFormation all = {.nodes = n->seats, .ranks = n->ranks,
                       .seats = calloc(n->seats, sizeof *all.seats)};
    const DtClusterRoute route = {.nodes = n->seats};
    for (uint32_t i = 0; all.seats && i < n->seats; i++)
        all.seats[i] = i;
    if (!all.seats)
        dt_cluster_fail(n, no_memory);
    else if (!dt_cluster_form(n, &all, &route))
        n->stage = DT_STAGE_GATHERS;
    if (n->stage == DT_STAGE_JOINS) {
        dt_newcomers_free(n->newcomers); /* closes the socket: later connections are refused */
        n->newcomers = NULL;
    }
    free(all.seats);
}

DtStatus dt_cluster_meet(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                         bool (*is_over)(void *context), void *context, DtCluster **ret_cluster)
{
    DtStatus status = dt_cluster_open(options, plan, words, is_over, context, ret_cluster);
    DtCluster *n = *ret_cluster;
    while (dt_status_ok(&status) && n->stage != DT_STAGE_MET && n->stage != DT_STAGE_FAILED) {
        dt_cluster_sleep(n);
        dt_cluster_step(n, dt_now_ns());
        if (n->stage == DT_STAGE_GATHERED)
            form_of_all(n);
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
        dt_cluster_begin_refusal(n, dt_now_ns());
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
    if (n->gathered)
        dt_cluster_tell_waiting(n);
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
    dt_cluster_forget_plan(n);
    free(n->gathered);
    free(n->stills);
    free(n->waiters);
    free(n);
}
