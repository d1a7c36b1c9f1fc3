/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several nodes as if they had one mapping. The first rank of each node, its *head*, is
 * connected with rank 0, the head of node 0. A meeting of all:
 *
 *     ranks of a node meet | heads send rank 0 the data of their nodes, and get that of all |
 *     they meet again
 *
 * The data are the slots, each written on its own node, and the header from last_step on.
 * Between two meetings only one rank writes a byte of the header: rank 0 takes the bytes that
 * changed on any node. */
#include "runtime/cluster.h"

#include "runtime/comm_sync.h"
#include "runtime/device.h"
#include "runtime/greeting.h"
#include "runtime/newcomers.h"
#include "runtime/rank.h"
#include "runtime/socket.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
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
    uint32_t nodes, node, per_node;
    bool is_head;
    int *fds;          /* on rank 0: by node; on heads of other nodes: element 0 only, the
                        * connection with rank 0 */
    char *published;   /* this part of the header as it was on all nodes after the last meeting */
    char *copy;        /* buffers for the data of one node, and for all of its slots */
    uint32_t decided;  /* steps */
};

/* ---- numbers that nodes publish ---- */

static const size_t part_at = offsetof(DtShared, last_step),
                    part_bytes = sizeof(DtShared) - offsetof(DtShared, last_step);

static char *part_of(const DtClusterLinks *l) { return (char *)l->rank->shared + part_at; }

static char *slots_of(const DtClusterLinks *l, uint32_t node)
{
    return (char *)dt_shared_slot(l->rank->plan, l->rank->shared, node * l->per_node);
}

static size_t slots_bytes(const DtClusterLinks *l) { return l->per_node * sizeof(DtSlot); }

/* ---- connections ---- */

static bool is_over(void *context) { return dt_rank_aborted(context); }

static DtSocketWait wait_new(const DtClusterLinks *l)
{
    const double timeout = l->rank->options->timeout;
    return (DtSocketWait){.is_over = is_over,
                          .context = l->rank,
                          .until_ns = timeout > 0 && timeout < 1e9
                                          ? dt_now_ns() + (uint64_t)((timeout + 2) * 1e9)
                                          : 0};
}

/* Whether the failure of a connection comes from a rank of another node: waits a while for the
 * message about it, which arrives after the connections have ended. */
static bool is_others_failure(const DtClusterLinks *l)
{
    const uint64_t until = dt_now_ns() + 3000000000u;
    while (!dt_rank_aborted(l->rank) && dt_now_ns() < until)
        usleep(10000);
    return dt_rank_aborted(l->rank);
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
        if (is_others_failure(l))
            return false;
        return dt_rank_fail(l->rank, DT_EXIT_RETRY, "the connection to node %u is gone%s%s", node,
                            error ? ": " : "", error ? strerror(error) : "");
    }
}

static bool transfer(DtClusterLinks *l, uint32_t node, bool sends, void *bytes, size_t n)
{
    DtSlot *slot = l->rank->slot;
    const DtSocketWait wait = wait_new(l);
    dt_shared_wait(slot, UINT32_MAX, dt_now_ns()); /* waits for a rank of another node */
    const DtSocketResult result = sends ? dt_socket_send(l->fds[node], bytes, n, &wait)
                                        : dt_socket_recv(l->fds[node], bytes, n, &wait);
    dt_shared_go_on(slot);
    atomic_fetch_add_explicit(&slot->progress, 1, memory_order_relaxed);
    return report(l, result, node);
}

static bool give(DtClusterLinks *l, uint32_t node, const void *bytes, size_t n)
{
    return transfer(l, node, true, (void *)(uintptr_t)bytes, n);
}

static bool take(DtClusterLinks *l, uint32_t node, void *bytes, size_t n)
{
    return transfer(l, node, false, bytes, n);
}

/* On rank 0: takes heads that know the key, until all are there. */
static bool accept_heads(DtClusterLinks *l)
{
    const DtShared *shared = l->rank->shared;
    const uint64_t until = dt_now_ns() + PATIENCE_S * 1000000000ull;
    uint32_t missing = l->nodes - 1;
    DtNewcomers *newcomers = dt_newcomers_new(shared->meet_key, shared->meet_fd);
    if (!newcomers)
        return dt_rank_fail(l->rank, DT_EXIT_RETRY, "no memory for connections of other nodes");
    while (missing > 0 && !dt_rank_aborted(l->rank) && dt_now_ns() < until) {
        struct pollfd look = {.fd = dt_newcomers_fd(newcomers), .events = POLLIN};
        DtNewcomer one;
        poll(&look, 1, LOOK_MS);
        dt_newcomers_look(newcomers, dt_now_ns());
        while (dt_newcomers_take(newcomers, &one)) {
            const uint32_t node = one.hello.node;
            const bool good = one.hello.role == DT_ROLE_HEAD && node > 0 && node < l->nodes &&
                              l->fds[node] < 0;
            if (!dt_newcomers_answer(newcomers, &one, 0, good ? NULL : "it is here already") ||
                !good)
                continue;
            l->fds[node] = one.fd;
            missing--;
        }
    }
    dt_newcomers_free(newcomers);
    if (missing == 0 || dt_rank_aborted(l->rank))
        return missing == 0;
    return dt_rank_fail(l->rank, DT_EXIT_RETRY, "%u of %u nodes have not come within %d s", missing,
                        l->nodes - 1, PATIENCE_S);
}

/* Greets rank 0 over the new connection. */
static bool greet_first(DtClusterLinks *l)
{
    const DtHello hello = {.role = DT_ROLE_HEAD, .node = l->node};
    DtGreeting g;
    dt_greeting_begin(&g, l->fds[0], l->rank->shared->meet_key, &hello, dt_now_ns());
    while (!dt_greeting_is_done(&g) && !dt_rank_aborted(l->rank)) {
        struct pollfd look = {.fd = g.fd, .events = dt_greeting_events(&g)};
        poll(&look, 1, LOOK_MS);
        dt_greeting_step(&g, dt_now_ns());
    }
    if (g.state == DT_GREETING_MET || dt_rank_aborted(l->rank) || is_others_failure(l))
        return g.state == DT_GREETING_MET;
    return dt_rank_fail(l->rank, DT_EXIT_RETRY, "cannot greet rank 0: it %.200s", g.text);
}

static bool connect_head(DtClusterLinks *l)
{
    const DtShared *shared = l->rank->shared;
    const DtSocketWait wait = {is_over, l->rank, dt_now_ns() + PATIENCE_S * 1000000000ull};
    DtMeet meet;
    const DtStatus status = dt_socket_parse(l->rank->options->meet, &meet);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(l->rank, &status);
    meet.port = (uint16_t)shared->meet_port;
    const DtSocketResult result = dt_socket_connect(&meet, &wait, &l->fds[0]);
    if (result == DT_SOCKET_LATE)
        return dt_rank_fail(l->rank, DT_EXIT_RETRY,
                            "cannot connect to rank 0 at %.200s, port %u: %s", meet.host, meet.port,
                            dt_socket_why());
    return report(l, result, 0) && greet_first(l);
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
                          .per_node = dt_cluster_ranks(rank->options, rank->plan)};
    l->is_head = rank->local.me == 0;
    l->fds = DT_NEW_ARRAY(rank->memory, int, l->nodes);
    for (uint32_t i = 0; i < l->nodes; i++)
        l->fds[i] = -1;
    l->published = dt_arena_alloc(rank->memory, part_bytes);
    memcpy(l->published, part_of(l), part_bytes);
    l->copy =
        l->is_head ? dt_arena_alloc(rank->memory, part_bytes + l->nodes * slots_bytes(l)) : NULL;
    *ret_links = l;
    dt_socket_make_room(l->nodes);
    if (!l->is_head || (l->node == 0 ? accept_heads(l) : connect_head(l)))
        return DT_OK;
    return dt_status_ok(&rank->failure) ? dt_status_fail(DT_EXIT_RETRY, "another rank failed")
                                        : rank->failure;
}

void dt_cluster_leave(DtClusterLinks *l)
{
    for (uint32_t i = 0; l && i < l->nodes; i++)
        if (l->fds[i] >= 0)
            close(l->fds[i]);
}

/* ---- meetings ---- */

static bool meet_here(DtClusterLinks *l) { return l->local->barrier(l->comm, &l->rank->local); }

/* Copies into the header those bytes that another node has changed: those that differ from the last
 * common state. */
static void merge(DtClusterLinks *l, const char *theirs)
{
    char *mine = part_of(l);
    for (size_t i = 0; i < part_bytes; i++)
        if (theirs[i] != l->published[i])
            mine[i] = theirs[i];
}

static bool exchange_as_first(DtClusterLinks *l)
{
    for (uint32_t i = 1; i < l->nodes; i++) {
        if (!take(l, i, l->copy, part_bytes) || !take(l, i, slots_of(l, i), slots_bytes(l)))
            return false;
        merge(l, l->copy);
    }
    for (uint32_t i = 1; i < l->nodes; i++)
        if (!give(l, i, part_of(l), part_bytes) ||
            !give(l, i, slots_of(l, 0), l->nodes * slots_bytes(l)))
            return false;
    return true;
}

static bool exchange_with_first(DtClusterLinks *l)
{
    char *slots = l->copy + part_bytes;
    if (!give(l, 0, part_of(l), part_bytes) || !give(l, 0, slots_of(l, l->node), slots_bytes(l)) ||
        !take(l, 0, l->copy, part_bytes) || !take(l, 0, slots, l->nodes * slots_bytes(l)))
        return false;
    memcpy(part_of(l), l->copy, part_bytes);
    for (uint32_t i = 0; i < l->nodes; i++)
        if (i != l->node)
            memcpy(slots_of(l, i), slots + i * slots_bytes(l), slots_bytes(l));
    return true;
}

bool dt_cluster_barrier(DtClusterLinks *l)
{
    if (!meet_here(l))
        return false;
    if (l->is_head && !(l->node == 0 ? exchange_as_first(l) : exchange_with_first(l)))
        return false;
    if (l->is_head)
        memcpy(l->published, part_of(l), part_bytes);
    return meet_here(l);
}

static uint32_t head_of(const void *context)
{
    const DtClusterLinks *l = context;
    return l->node * l->per_node;
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
    if (l->node == 0) {
        for (uint32_t i = 1; l->rank->rank == 0 && i < l->nodes; i++)
            if (!give(l, i, &last, sizeof last))
                return false;
        return true;
    }
    if (l->is_head) {
        if (!take(l, 0, &last, sizeof last))
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

static bool sum_as_first(DtClusterLinks *l, int64_t *numbers, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof *numbers;
    int64_t *theirs = DT_NEW_ARRAY(l->rank->memory, int64_t, (size_t)n);
    for (uint32_t i = 1; i < l->nodes; i++) {
        if (!take(l, i, theirs, bytes))
            return false;
        for (int64_t k = 0; k < n; k++)
            numbers[k] += theirs[k];
    }
    for (uint32_t i = 1; i < l->nodes; i++)
        if (!give(l, i, numbers, bytes))
            return false;
    return true;
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
    else if (l->node == 0 ? !sum_as_first(l, numbers, n)
                          : !give(l, 0, numbers, bytes) || !take(l, 0, numbers, bytes))
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
    const uint32_t node = rank / l->per_node;
    return give(l, node, &ask, sizeof ask) && take(l, node, ret_bytes, (size_t)bytes);
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

static bool answer(DtClusterLinks *l, const Ask *ask)
{
    enum { PIECE = 1 << 20 };
    DtArena *memory = dt_arena_new();
    char *piece = dt_arena_alloc(memory, PIECE);
    bool good = is_bounded(l, ask) ||
                dt_rank_fail(l->rank, DT_EXIT_FAILED,
                             "rank 0 asks for what no rank of node %u holds", l->node);
    for (int64_t done = 0; good && done < ask->bytes; done += PIECE) {
        const int64_t n = ask->bytes - done < PIECE ? ask->bytes - done : PIECE;
        good = l->local->get(l->comm, ask->rank, ask->arena, ask->offset + done, n, piece) &&
               give(l, 0, piece, (size_t)n);
    }
    dt_arena_free(memory);
    return good;
}

bool dt_cluster_serve(DtClusterLinks *l)
{
    Ask ask;
    if (!l->is_head)
        return l->local->serve(l->comm, l->node * l->per_node);
    for (;;) {
        if (!take(l, 0, &ask, sizeof ask))
            return false;
        if (ask.bytes == 0) {
            atomic_store(&l->rank->shared->save_code, (int32_t)ask.save_code);
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
    for (uint32_t i = 1; i < l->nodes; i++)
        if (!give(l, i, &none, sizeof none))
            return false;
    return true;
}
