/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several nodes as if they had one mapping. The first rank of each node, its *head*, is
 * connected with the head of the node's parent in the tree (tree.h). A meeting of all:
 *
 *     ranks of a node meet | heads send their parents what changed in their part of the tree since
 *     the last meeting, and get what changed anywhere | they meet again
 *
 * Changes (changes.h) are of the slots, each written on its own node, from `memory` to `message`,
 * and of the header from last_step on. Between two meetings only one rank writes a byte of the
 * header. */
#include "runtime/cluster.h"

#include "runtime/changes.h"
#include "runtime/comm_sync.h"
#include "runtime/device.h"
#include "runtime/greeting.h"
#include "runtime/newcomers.h"
#include "runtime/rank.h"
#include "runtime/socket.h"
#include "runtime/spread.h"
#include "runtime/tree.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_S = 120, LOOK_MS = 100 };

/* what rank 0 asks a node for: bytes of a rank; bytes 0: it asks for no more, and says how the save
 * ended */
typedef struct Ask {
    uint32_t rank, arena;
    int64_t offset, bytes, save_code;
} Ask;

struct DtClusterLinks {
    DtRank *rank;
    const DtCommOps *local;
    DtComm *comm;
    uint32_t nodes, node;
    uint32_t first, n_here; /* ranks of this node */
    bool is_head;
    uint32_t n_children;
    int fds[1 + DT_TREE_DEGREE]; /* of a head: with the parent, and with the children in order */
    char *header, *slots; /* the published parts of this node as they were after the last meeting */
    DtChanges all, got;   /* the changes of a meeting; those of one child, or of the parent */
    uint32_t decided;     /* steps */
};

/* ---- what nodes publish ---- */

static const size_t part_at = offsetof(DtShared, last_step),
                    part_bytes = sizeof(DtShared) - offsetof(DtShared, last_step),
                    slot_at = offsetof(DtSlot, memory),
                    slot_bytes = offsetof(DtSlot, marks) - offsetof(DtSlot, memory);
_Static_assert((sizeof(DtShared) - offsetof(DtShared, last_step)) % 4 == 0 &&
                   (offsetof(DtSlot, marks) - offsetof(DtSlot, memory)) % 4 == 0,
               "changes are of words");

static char *part_of(const DtClusterLinks *l) { return (char *)l->rank->shared + part_at; }

static char *slot_of(void *links, uint32_t rank)
{
    const DtClusterLinks *l = links;
    return (char *)dt_shared_slot(l->rank->plan, l->rank->shared, rank) + slot_at;
}

static DtChangedMemory memory_of(DtClusterLinks *l)
{
    return (DtChangedMemory){.header = part_of(l), .header_bytes = part_bytes,
                             .slot_bytes = slot_bytes, .slot = slot_of, .context = l,
                             .n_ranks = l->rank->n_ranks};
}

static uint32_t first_of(const DtClusterLinks *l, uint32_t node)
{
    return dt_spread_first(l->rank->n_ranks, l->nodes, node);
}

/* Which child has the rank in its part of the tree; -1: none has. */
static int64_t towards(const DtClusterLinks *l, uint32_t rank)
{
    return dt_tree_towards(l->node, dt_spread_node(l->rank->n_ranks, l->nodes, rank));
}

static uint32_t node_of(const DtClusterLinks *l, uint32_t neighbour)
{
    return neighbour == 0 ? dt_tree_parent(l->node)
                          : dt_tree_first_child(l->node) + neighbour - 1;
}

/* ---- connections ---- */

/* A wait for the head of a node. */
static DtSyncFar far_of(const DtClusterLinks *l, uint32_t node)
{
    return (DtSyncFar){.rank = l->rank, .who = first_of(l, node)};
}

static DtSocketWait wait_new(const DtClusterLinks *l, DtSyncFar *far)
{
    const double timeout = l->rank->options->timeout;
    return (DtSocketWait){.is_over = dt_sync_look,
                          .context = far,
                          .until_ns = timeout > 0 && timeout < 1e9
                                          ? dt_now_ns() + (uint64_t)((timeout + 2) * 1e9)
                                          : 0};
}

/* Turns the result of a transfer into a failure of the rank, unless the transfer succeeded: then
 * true. */
static bool report(DtClusterLinks *l, DtSocketResult result, uint32_t node)
{
    const int error = errno;
    switch (result) {
    case DT_SOCKET_OK: return true;
    case DT_SOCKET_OVER: return false;
    case DT_SOCKET_LATE:
        return dt_rank_fail(l->rank, DT_EXIT_RETRY,
                            "rank %u has waited for node %u longer than --timeout allows",
                            l->rank->rank, node);
    default:
        if (dt_sync_others_failed(l->rank))
            return false;
        return dt_rank_fail(l->rank, DT_EXIT_RETRY, "the connection to node %u is gone%s%s", node,
                            error ? ": " : "", error ? strerror(error) : "");
    }
}

static bool transfer(DtClusterLinks *l, uint32_t neighbour, bool sends, void *bytes, size_t n)
{
    DtSlot *slot = l->rank->slot;
    DtSyncFar far = far_of(l, node_of(l, neighbour));
    const DtSocketWait wait = wait_new(l, &far);
    const DtSocketResult result = sends ? dt_socket_send(l->fds[neighbour], bytes, n, &wait)
                                        : dt_socket_recv(l->fds[neighbour], bytes, n, &wait);
    dt_shared_go_on(slot);
    atomic_fetch_add_explicit(&slot->progress, 1, memory_order_relaxed);
    return report(l, result, node_of(l, neighbour));
}

static bool give(DtClusterLinks *l, uint32_t neighbour, const void *bytes, size_t n)
{
    return transfer(l, neighbour, true, (void *)(uintptr_t)bytes, n);
}

static bool take(DtClusterLinks *l, uint32_t neighbour, void *bytes, size_t n)
{
    return transfer(l, neighbour, false, bytes, n);
}

static bool give_down(DtClusterLinks *l, const void *bytes, size_t n)
{
    for (uint32_t i = 1; i <= l->n_children; i++)
        if (!give(l, i, bytes, n))
            return false;
    return true;
}

/* The node of the first child whose head has not come. */
static uint32_t first_missing(const DtClusterLinks *l)
{
    uint32_t child = 0;
    while (l->fds[1 + child] >= 0)
        child++;
    return dt_tree_first_child(l->node) + child;
}

/* Takes the heads of children that know the key, until all are there. */
static bool accept_heads(DtClusterLinks *l)
{
    const DtShared *shared = l->rank->shared;
    const uint64_t until = dt_now_ns() + PATIENCE_S * 1000000000ull;
    uint32_t missing = l->n_children;
    DtNewcomers *newcomers = dt_newcomers_new(shared->meet_key, shared->meet_fd);
    if (!newcomers)
        return dt_rank_fail(l->rank, DT_EXIT_RETRY, "no memory for connections of other nodes");
    while (missing > 0 && dt_now_ns() < until) {
        struct pollfd look = {.fd = dt_newcomers_fd(newcomers), .events = POLLIN};
        DtSyncFar far = far_of(l, first_missing(l));
        DtNewcomer one;
        if (poll(&look, 1, LOOK_MS) <= 0 && dt_sync_look(&far))
            break;
        dt_newcomers_look(newcomers, dt_now_ns());
        while (dt_newcomers_take(newcomers, &one)) {
            const uint32_t child = one.hello.node - dt_tree_first_child(l->node);
            const bool good = one.hello.role == DT_ROLE_HEAD && child < l->n_children &&
                              l->fds[1 + child] < 0;
            if (!dt_newcomers_answer(newcomers, &one, l->node,
                                     good ? NULL : "it is here already, or another node's") ||
                !good)
                continue;
            l->fds[1 + child] = one.fd;
            missing--;
        }
    }
    dt_newcomers_free(newcomers);
    dt_shared_go_on(l->rank->slot);
    if (missing == 0 || dt_rank_aborted(l->rank))
        return missing == 0;
    return dt_rank_fail(l->rank, DT_EXIT_RETRY,
                        "%u of %u nodes below node %u have not come within %d s", missing,
                        l->n_children, l->node, PATIENCE_S);
}

/* Greets the head of the parent over the new connection. */
static DtGreetingState greet_parent(DtClusterLinks *l, DtSyncFar *far, DtGreeting *g)
{
    const DtHello hello = {.role = DT_ROLE_HEAD, .node = l->node};
    dt_greeting_begin(g, l->fds[0], l->rank->shared->meet_key, &hello, dt_now_ns());
    while (!dt_greeting_is_done(g) && !dt_rank_aborted(l->rank)) {
        struct pollfd look = {.fd = g->fd, .events = dt_greeting_events(g)};
        if (poll(&look, 1, LOOK_MS) <= 0)
            dt_sync_look(far);
        dt_greeting_step(g, dt_now_ns());
    }
    return g->state;
}

/* Connects with the head of the parent. That one may listen long before it answers, while it waits
 * for its own parent. */
static bool connect_head(DtClusterLinks *l)
{
    const DtShared *shared = l->rank->shared;
    const uint32_t parent = node_of(l, 0);
    DtSyncFar far = far_of(l, parent);
    const DtSocketWait wait = {dt_sync_look, &far, dt_now_ns() + PATIENCE_S * 1000000000ull};
    DtMeet meet = {.port = (uint16_t)shared->meet_port};
    DtGreeting g = {.text = ""};
    snprintf(meet.host, sizeof meet.host, "%s", shared->meet_host);
    for (;;) {
        const DtSocketResult result = dt_socket_connect(&meet, &wait, &l->fds[0]);
        if (result == DT_SOCKET_LATE)
            return dt_rank_fail(l->rank, DT_EXIT_RETRY,
                                "cannot connect with the first rank of node %u at %.200s, port %u: "
                                "%s",
                                parent, meet.host, meet.port, dt_socket_why());
        if (result != DT_SOCKET_OK)
            return report(l, result, parent);
        if (greet_parent(l, &far, &g) == DT_GREETING_MET || dt_rank_aborted(l->rank))
            return g.state == DT_GREETING_MET;
        if (g.state != DT_GREETING_GONE || dt_now_ns() > wait.until_ns)
            return !dt_sync_others_failed(l->rank) &&
                   dt_rank_fail(l->rank, DT_EXIT_RETRY,
                                "cannot greet the first rank of node %u: it %.200s", parent,
                                g.text);
        close(l->fds[0]);
        l->fds[0] = -1;
        usleep(LOOK_MS * 1000);
    }
}

/* Connects a head with its children and its parent. */
static bool connect_all(DtClusterLinks *l)
{
    const bool has_parent = l->node == 0 || connect_head(l);
    dt_shared_go_on(l->rank->slot);
    return has_parent && (l->n_children == 0 || accept_heads(l));
}

DtStatus dt_cluster_join(DtRank *rank, const DtCommOps *local, DtComm *comm,
                         DtClusterLinks **ret_links)
{
    *ret_links = NULL;
    if (!dt_cluster_several(rank->options))
        return DT_OK;
    DtClusterLinks *l = DT_NEW(rank->memory, DtClusterLinks);
    *l = (DtClusterLinks){.rank = rank, .local = local, .comm = comm,
                          .nodes = (uint32_t)rank->options->nodes,
                          .node = (uint32_t)rank->options->node,
                          .first = dt_cluster_first(rank->options, rank->plan),
                          .n_here = dt_cluster_ranks(rank->options, rank->plan)};
    l->is_head = rank->local.me == 0;
    l->n_children = dt_tree_children(l->nodes, l->node);
    for (uint32_t i = 0; i <= DT_TREE_DEGREE; i++)
        l->fds[i] = -1;
    /* the same on all nodes before the first meeting */
    l->header = dt_arena_alloc(rank->memory, part_bytes);
    memcpy(l->header, part_of(l), part_bytes);
    l->slots = dt_arena_alloc(rank->memory, l->n_here * slot_bytes);
    memset(l->slots, 0, l->n_here * slot_bytes);
    *ret_links = l;
    if (!l->is_head || connect_all(l))
        return DT_OK;
    return dt_rank_has_failed(rank)
               ? rank->failure
               : dt_status_fail(DT_EXIT_RETRY, "another rank failed");
}

void dt_cluster_leave(DtClusterLinks *l)
{
    for (uint32_t i = 0; l && i <= DT_TREE_DEGREE; i++)
        if (l->fds[i] >= 0)
            close(l->fds[i]);
    if (l) {
        dt_changes_free(&l->all);
        dt_changes_free(&l->got);
    }
}

/* ---- meetings ---- */

static bool meet_here(DtClusterLinks *l) { return l->local->barrier(l->comm, &l->rank->local); }

/* Receives a list of changes, and writes it to the mapping. */
static bool take_changes(DtClusterLinks *l, uint32_t neighbour)
{
    uint64_t len;
    const DtChangedMemory memory = memory_of(l);
    if (!take(l, neighbour, &len, sizeof len))
        return false;
    if (len > dt_changes_most(&memory))
        return dt_rank_fail(l->rank, DT_EXIT_RETRY, "node %u sends %llu bytes of changes",
                            node_of(l, neighbour), (unsigned long long)len);
    if (len > l->got.room) {
        uint8_t *at = realloc(l->got.at, len);
        if (!at)
            return dt_rank_fail(l->rank, DT_EXIT_RETRY, "no memory to meet other nodes");
        l->got.at = at;
        l->got.room = len;
    }
    l->got.len = len;
    return take(l, neighbour, l->got.at, len) &&
           (dt_changes_apply(&memory, l->got.at, len) ||
            dt_rank_fail(l->rank, DT_EXIT_RETRY, "node %u sends changes of no rank",
                         node_of(l, neighbour)));
}

static bool give_changes(DtClusterLinks *l, uint32_t neighbour, const DtChanges *changes)
{
    const uint64_t len = changes->len;
    return give(l, neighbour, &len, sizeof len) && give(l, neighbour, changes->at, len);
}

/* Makes l->all what changed in this part of the tree since the last meeting. */
static bool gather_changes(DtClusterLinks *l)
{
    DtChanges *all = &l->all;
    all->len = 0;
    dt_changes_find(all, UINT32_MAX, part_of(l), l->header, part_bytes);
    for (uint32_t r = 0; r < l->n_here; r++)
        dt_changes_find(all, l->first + r, slot_of(l, l->first + r), l->slots + r * slot_bytes,
                        slot_bytes);
    for (uint32_t i = 1; i <= l->n_children; i++) {
        if (!take_changes(l, i))
            return false;
        dt_changes_add(all, l->got.at, l->got.len);
    }
    dt_changes_join(all);
    return !all->is_short ||
           dt_rank_fail(l->rank, DT_EXIT_RETRY, "no memory to meet other nodes");
}

static bool exchange(DtClusterLinks *l)
{
    const DtChanges *changes = &l->all;
    if (!gather_changes(l))
        return false;
    if (l->node > 0) {
        if (!give_changes(l, 0, &l->all) || !take_changes(l, 0))
            return false;
        changes = &l->got;
    }
    for (uint32_t i = 1; i <= l->n_children; i++)
        if (!give_changes(l, i, changes))
            return false;
    memcpy(l->header, part_of(l), part_bytes);
    return true;
}

bool dt_cluster_barrier(DtClusterLinks *l)
{
    return meet_here(l) && (!l->is_head || exchange(l)) && meet_here(l);
}

static uint32_t head_of(const void *context)
{
    const DtClusterLinks *l = context;
    return l->first;
}

bool dt_cluster_is_decided(void *links)
{
    const DtClusterLinks *l = links;
    if (l->node == 0)
        return true;
    return l->is_head ? dt_socket_has(l->fds[0])
                      : atomic_load(&l->rank->shared->decided.value) != l->decided;
}

bool dt_cluster_decide(DtClusterLinks *l)
{
    DtShared *shared = l->rank->shared;
    int64_t last = atomic_load(&shared->last_step);
    l->decided++;
    if (l->node == 0)
        return !l->is_head || give_down(l, &last, sizeof last);
    if (l->is_head) {
        if (!take(l, 0, &last, sizeof last) || !give_down(l, &last, sizeof last))
            return false;
        atomic_store(&shared->last_step, last);
        dt_sync_raise(&shared->decided);
        return true;
    }
    DtSyncWait wait = dt_sync_new(l->rank, head_of, l);
    const DtSyncResult result = dt_sync_wait(&wait, &shared->decided, l->decided - 1);
    return dt_sync_report(l->rank, result, &wait, "");
}

/* ---- sums ---- */

static bool sum_here(DtClusterLinks *l, int64_t *numbers, int64_t n)
{
    const DtPlaceAt place = dt_device_of_host(numbers, n * (int64_t)sizeof *numbers);
    return l->local->all_reduce(l->comm, &l->rank->local, place, place, n, DT_PLAN_I64,
                                DT_PLAN_SUM);
}

/* Adds the numbers of the heads below and above; all heads have the sum then. */
static bool sum_heads(DtClusterLinks *l, int64_t *numbers, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof *numbers;
    int64_t *theirs = malloc(bytes ? bytes : 1);
    bool good = theirs || dt_rank_fail(l->rank, DT_EXIT_RETRY, "no memory to add numbers");
    for (uint32_t i = 1; good && i <= l->n_children; i++) {
        good = take(l, i, theirs, bytes);
        for (int64_t k = 0; good && k < n; k++)
            numbers[k] = (int64_t)((uint64_t)numbers[k] + (uint64_t)theirs[k]);
    }
    free(theirs);
    return good && (l->node == 0 || (give(l, 0, numbers, bytes) && take(l, 0, numbers, bytes))) &&
           give_down(l, numbers, bytes);
}

/* Sums over the ranks of the node, then over the nodes. For the latter each head contributes the
 * sum of its node. */
bool dt_cluster_sum(DtClusterLinks *l, int64_t *numbers, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof *numbers;
    if (!sum_here(l, numbers, n))
        return false;
    if (!l->is_head)
        memset(numbers, 0, bytes);
    else if (!sum_heads(l, numbers, n))
        return false;
    return sum_here(l, numbers, n);
}

/* ---- reading memory of other nodes ---- */

bool dt_cluster_get(DtClusterLinks *l, uint32_t rank, uint32_t arena, int64_t offset, int64_t bytes,
                    void *ret_bytes)
{
    const Ask ask = {.rank = rank, .arena = arena, .offset = offset, .bytes = bytes};
    if (dt_cluster_is_here(l->rank, rank) || bytes == 0)
        return l->local->get(l->comm, rank, arena, offset, bytes, ret_bytes);
    const uint32_t child = 1 + (uint32_t)towards(l, rank);
    return give(l, child, &ask, sizeof ask) && take(l, child, ret_bytes, (size_t)bytes);
}

/* Whether the byte range that rank 0 asks for is inside of the arena by this node's plan; rank 0
 * has checked it against its own. */
static bool is_bounded(const DtClusterLinks *l, const Ask *ask)
{
    const DtPlan *plan = l->rank->plan;
    if (!dt_cluster_is_here(l->rank, ask->rank) || ask->arena >= plan->n_arenas)
        return false;
    const int64_t room = dt_plan_arena_bytes(plan, ask->arena, dt_rank_stage(plan, ask->rank));
    return ask->offset >= 0 && ask->bytes > 0 && ask->bytes <= room &&
           ask->offset <= room - ask->bytes;
}

enum { PIECE = 1 << 20 };

/* Sends the parent n bytes from `done` on of what it asks for: of a rank of this node, or of one
 * below, to which the question has been handed on (child). */
static bool answer_piece(DtClusterLinks *l, const Ask *ask, int64_t child, int64_t done, int64_t n,
                         char *piece)
{
    const bool good = child < 0 ? l->local->get(l->comm, ask->rank, ask->arena,
                                                ask->offset + done, n, piece)
                                : take(l, 1 + (uint32_t)child, piece, (size_t)n);
    return good && give(l, 0, piece, (size_t)n);
}

static bool answer(DtClusterLinks *l, const Ask *ask)
{
    const int64_t child = towards(l, ask->rank);
    char *piece = malloc(PIECE);
    bool good = piece || dt_rank_fail(l->rank, DT_EXIT_RETRY, "no memory to send what is saved");
    if (good && child >= 0)
        good = give(l, 1 + (uint32_t)child, ask, sizeof *ask);
    else if (good)
        good = is_bounded(l, ask) ||
               dt_rank_fail(l->rank, DT_EXIT_FAILED,
                            "rank 0 asks for what no rank of node %u holds", l->node);
    for (int64_t done = 0; good && done < ask->bytes; done += PIECE)
        good = answer_piece(l, ask, child, done,
                            ask->bytes - done < PIECE ? ask->bytes - done : PIECE, piece);
    free(piece);
    return good;
}

bool dt_cluster_serve(DtClusterLinks *l)
{
    Ask ask;
    if (!l->is_head)
        return l->local->serve(l->comm, l->first);
    for (;;) {
        if (!take(l, 0, &ask, sizeof ask))
            return false;
        if (ask.bytes == 0) {
            atomic_store(&l->rank->shared->save_code, (int32_t)ask.save_code);
            if (!give_down(l, &ask, sizeof ask))
                return false;
            break;
        }
        if (!answer(l, &ask))
            return false;
    }
    l->local->release(l->comm);
    return true;
}

bool dt_cluster_release(DtClusterLinks *l)
{
    const Ask none = {.save_code = atomic_load(&l->rank->shared->save_code)};
    l->local->release(l->comm);
    return give_down(l, &none, sizeof none);
}
