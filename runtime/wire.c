/* SPDX-License-Identifier: Apache-2.0 */
/* Who is connected with whom, and which message belongs to which receive.
 *
 * When ranks are loaded, each one that needs another listens on a port of its own and writes its
 * address into its slot. After a meeting of all ranks the one with the higher number connects. Both
 * say who they are, and exchange the addresses that the transport needs. The connection stays open:
 * it ends when the process at its other end does, whatever moves the bytes. A rank that still waits
 * for such a peer first gives the other hosts' supervisors time to say what happened there. */
#include "runtime/wire.h"

#include "runtime/cluster.h"
#include "runtime/comm_sync.h"
#include "runtime/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t MAGIC = 0x57495245u; /* "ERIW" */
static const uint64_t PATIENCE_NS = 120000000000u, GONE_NS = 500000000u, CLOSE_NS = 2000000000u;
enum {
    SPINS = 30,      /* turns before the first sleep */
    SLEEP_MS = 20,   /* the longest sleep */
    HELP_MS = 3000,  /* how long a rank waits for the message about a lost peer's failure */
    MOST_ADDRESS = 1 << 16,
    MOST_WAITING = 256 /* connections that have not said yet whose they are */
};

/* The first message on a connection. */
typedef struct Hello {
    uint32_t magic, attempt, rank, to;
    uint64_t digest, token;
    uint32_t address; /* bytes of the transport's address, which follow */
    uint32_t reserved;
} Hello;

/* ---- finding each other ---- */

static bool is_over(void *context) { return dt_rank_aborted(context); }

static DtSocketWait patience(const DtWire *wire)
{
    return (DtSocketWait){is_over, wire->rank, dt_now_ns() + PATIENCE_NS};
}

static bool fail(DtWire *wire, uint32_t other, const char *what)
{
    if (!dt_rank_aborted(wire->rank))
        dt_rank_fail(wire->rank, DT_EXIT_RETRY, "rank %u cannot connect with rank %u: %s",
                     wire->rank->rank, other, what);
    return false;
}

/* Publishes where this rank listens. An address of zeros: where all hosts meet. */
static bool publish(DtWire *wire, int *ret_listener)
{
    DtRank *rank = wire->rank;
    DtMeet meet;
    uint16_t port = 0;
    unsigned char here[16] = {0};
    DtStatus status = dt_socket_parse(rank->options->meet, &meet);
    if (dt_status_ok(&status) && rank->options->node > 0)
        status = dt_socket_here(&meet, here);
    if (dt_status_ok(&status))
        status = dt_socket_listen(0, ret_listener, &port);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    uint64_t words[2];
    memcpy(words, here, sizeof words);
    atomic_store(&rank->slot->wire[0], words[0]);
    atomic_store(&rank->slot->wire[1], words[1]);
    atomic_store(&rank->slot->wire[2], (uint64_t)port);
    return true;
}

/* Where the rank listens, as it has published it. */
static bool place_of(DtWire *wire, uint32_t other, DtMeet *ret_meet)
{
    const DtSlot *slot = dt_shared_slot(wire->rank->plan, wire->rank->shared, other);
    const uint64_t words[2] = {atomic_load(&slot->wire[0]), atomic_load(&slot->wire[1])};
    const DtStatus status = dt_socket_parse(wire->rank->options->meet, ret_meet);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(wire->rank, &status);
    if (words[0] || words[1])
        dt_socket_text((const unsigned char *)words, ret_meet);
    ret_meet->port = (uint16_t)atomic_load(&slot->wire[2]);
    return ret_meet->port != 0 || fail(wire, other, "it has not said where it listens");
}

static Hello hello_to(const DtWire *wire, uint32_t other, uint32_t bytes)
{
    const DtShared *shared = wire->rank->shared;
    return (Hello){.magic = MAGIC,
                   .attempt = shared->attempt,
                   .rank = wire->rank->rank,
                   .to = other,
                   .digest = shared->digest,
                   .token = shared->meet_token,
                   .address = bytes};
}

static bool greet(DtWire *wire, uint32_t other, int fd)
{
    uint32_t bytes = 0;
    const void *address = wire->ops->address ? wire->ops->address(wire, &bytes) : NULL;
    const Hello hello = hello_to(wire, other, bytes);
    const DtSocketWait wait = patience(wire);
    return (dt_socket_send(fd, &hello, sizeof hello, &wait) == DT_SOCKET_OK &&
            (bytes == 0 || dt_socket_send(fd, address, bytes, &wait) == DT_SOCKET_OK)) ||
           fail(wire, other, strerror(errno));
}

static bool is_of_this_run(const DtWire *wire, const Hello *hello)
{
    const DtShared *shared = wire->rank->shared;
    return hello->magic == MAGIC && hello->attempt == shared->attempt &&
           hello->to == wire->rank->rank && hello->digest == shared->digest &&
           hello->token == shared->meet_token && hello->rank < wire->rank->n_ranks &&
           hello->address <= MOST_ADDRESS && wire->number[hello->rank] != UINT32_MAX;
}

/* Takes the transport's address of a peer, and joins it. */
static bool join(DtWire *wire, DtWirePeer *peer, const Hello *hello)
{
    const DtSocketWait wait = patience(wire);
    DtArena *memory = dt_arena_new();
    char *address = dt_arena_alloc(memory, hello->address + 1);
    bool good = hello->address == 0 ||
                dt_socket_recv(peer->fd, address, hello->address, &wait) == DT_SOCKET_OK ||
                fail(wire, peer->rank, "its address has not come");
    good = good && wire->ops->join(wire, peer, address, hello->address);
    dt_arena_free(memory);
    return good;
}

static bool connect_to(DtWire *wire, DtWirePeer *peer)
{
    DtMeet meet;
    const DtSocketWait wait = patience(wire);
    if (!place_of(wire, peer->rank, &meet))
        return false;
    if (dt_socket_connect(&meet, &wait, &peer->fd) != DT_SOCKET_OK)
        return fail(wire, peer->rank, dt_socket_why());
    return greet(wire, peer->rank, peer->fd);
}

/* Connections that were accepted, and have not said all of their hello. */
typedef struct Waiting {
    struct {
        int fd;
        size_t got;
        Hello hello;
    } at[MOST_WAITING];
    uint32_t n;
} Waiting;

/* The others stay in the order in which they were accepted. */
static void drop_waiting(Waiting *waiting, uint32_t i)
{
    waiting->n--;
    memmove(&waiting->at[i], &waiting->at[i + 1], (waiting->n - i) * sizeof waiting->at[0]);
}

/* Accepts a connection if there is one. If too many have not said their hello, the oldest is
 * closed: a rank says it at once, so silent strangers keep no rank out. */
static bool accept_one(Waiting *waiting, int listener)
{
    const int fd = dt_socket_accept(listener);
    if (fd < 0)
        return false;
    if (waiting->n == MOST_WAITING) {
        close(waiting->at[0].fd);
        drop_waiting(waiting, 0);
    }
    waiting->at[waiting->n].fd = fd;
    waiting->at[waiting->n++].got = 0;
    return true;
}

/* Reads what connection i has said. Returns the peer that it is, if it has said all of it. */
static DtWirePeer *hear(DtWire *wire, Waiting *waiting, uint32_t i, Hello *ret_hello)
{
    Hello *hello = &waiting->at[i].hello;
    const int fd = waiting->at[i].fd;
    const ssize_t n = recv(fd, (char *)hello + waiting->at[i].got,
                           sizeof *hello - waiting->at[i].got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return NULL;
    waiting->at[i].got += n > 0 ? (size_t)n : 0;
    if (n > 0 && waiting->at[i].got < sizeof *hello)
        return NULL;
    *ret_hello = *hello;
    drop_waiting(waiting, i);
    DtWirePeer *peer = n > 0 && is_of_this_run(wire, ret_hello)
                           ? &wire->peers[wire->number[ret_hello->rank]]
                           : NULL;
    if (!peer || peer->fd >= 0) { /* of a stranger */
        close(fd);
        return NULL;
    }
    peer->fd = fd;
    return peer;
}

static bool accept_rest(DtWire *wire, int listener, uint32_t missing)
{
    const uint64_t until_ns = dt_now_ns() + PATIENCE_NS;
    Waiting waiting = {.n = 0};
    bool good = true;
    while (good && missing > 0) {
        bool any = accept_one(&waiting, listener);
        for (uint32_t i = 0; good && i < waiting.n; i++) {
            Hello hello;
            DtWirePeer *peer = hear(wire, &waiting, i, &hello);
            if (!peer)
                continue;
            any = true;
            missing--;
            good = join(wire, peer, &hello) && greet(wire, peer->rank, peer->fd);
        }
        if (good && !any && dt_rank_aborted(wire->rank))
            good = false;
        else if (good && !any && dt_now_ns() > until_ns)
            good = dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                                "%u ranks of other hosts have not connected within %u s", missing,
                                (unsigned)(PATIENCE_NS / 1000000000u));
        else if (good && !any)
            usleep(1000);
    }
    for (uint32_t i = 0; i < waiting.n; i++)
        close(waiting.at[i].fd);
    return good;
}

/* Connects with the ranks of lower numbers, lets the others connect, and hears what the first say
 * about themselves: in this order no rank waits for one that waits for it. */
static bool connect_all(DtWire *wire, int listener)
{
    uint32_t below = 0;
    while (below < wire->n_peers && wire->peers[below].rank < wire->rank->rank)
        if (!connect_to(wire, &wire->peers[below++]))
            return false;
    if (!accept_rest(wire, listener, wire->n_peers - below))
        return false;
    for (uint32_t p = 0; p < below; p++) {
        Hello hello;
        const DtSocketWait wait = patience(wire);
        DtWirePeer *peer = &wire->peers[p];
        if (dt_socket_recv(peer->fd, &hello, sizeof hello, &wait) != DT_SOCKET_OK ||
            !is_of_this_run(wire, &hello) || hello.rank != peer->rank)
            return fail(wire, peer->rank, "it does not answer as a rank of this run");
        if (!join(wire, peer, &hello))
            return false;
    }
    return true;
}

static DtWire *new_wire(DtRank *rank, const DtWireOps *ops, const bool *needs, uint32_t n_streams)
{
    DtWire *wire = DT_NEW(rank->memory, DtWire);
    const double timeout = rank->options->timeout;
    *wire = (DtWire){.rank = rank, .ops = ops, .n_streams = n_streams, .says = rank->slot,
                     .limit_ns = timeout > 0 && timeout < 1e9 ? (uint64_t)((timeout + 2) * 1e9)
                                                              : 0};
    wire->number = DT_NEW_ARRAY(rank->memory, uint32_t, rank->n_ranks);
    wire->peers = DT_NEW_ARRAY(rank->memory, DtWirePeer, rank->n_ranks);
    wire->taken = DT_NEW_ARRAY(rank->memory, uint64_t, n_streams);
    for (uint32_t r = 0; r < rank->n_ranks; r++) {
        wire->number[r] = needs[r] ? wire->n_peers : UINT32_MAX;
        if (needs[r])
            wire->peers[wire->n_peers++] = (DtWirePeer){.rank = r, .fd = -1};
    }
    return wire;
}

bool dt_wire_open(DtRank *rank, const DtWireOps *ops, const bool *needs, uint32_t n_streams,
                  int64_t most_bytes, bool (*meet)(void *context), void *context,
                  DtWire **ret_wire)
{
    DtWire *wire = new_wire(rank, ops, needs, n_streams);
    int listener = -1;
    wire->most_bytes = most_bytes;
    *ret_wire = wire;
    dt_socket_make_room(wire->n_peers + MOST_WAITING);
    const DtStatus status = ops->open(wire);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    const bool good = publish(wire, &listener) && meet(context) && connect_all(wire, listener);
    if (listener >= 0)
        close(listener);
    return good;
}

/* Sends the rest, says that nothing more comes, and waits until the peers have said so, too: a
 * connection that is closed while unread bytes are here would take away what the peer has not read
 * yet. */
static void part(DtWire *wire)
{
    const uint64_t until_ns = dt_now_ns() + CLOSE_NS;
    bool is_waiting = true, is_said = false;
    while (is_waiting && dt_now_ns() < until_ns && !dt_rank_aborted(wire->rank)) {
        for (uint32_t p = 0; wire->n_sending == 0 && !is_said && p < wire->n_peers; p++)
            shutdown(wire->peers[p].fd, SHUT_WR);
        is_said = is_said || wire->n_sending == 0;
        is_waiting = false;
        wire->ops->move(wire, 1);
        dt_wire_look(wire);
        for (uint32_t p = 0; p < wire->n_peers; p++)
            is_waiting = is_waiting || !wire->peers[p].is_gone;
    }
}

void dt_wire_close(DtWire *wire)
{
    bool is_whole = dt_status_ok(&wire->rank->failure) && !dt_rank_aborted(wire->rank);
    for (uint32_t p = 0; p < wire->n_peers; p++)
        is_whole = is_whole && wire->peers[p].fd >= 0;
    if (is_whole)
        part(wire);
    wire->ops->close(wire);
    for (uint32_t p = 0; p < wire->n_peers; p++)
        if (wire->peers[p].fd >= 0)
            close(wire->peers[p].fd);
}

/* ---- messages ---- */

static DtWirePeer *peer_of(DtWire *wire, uint32_t rank) { return &wire->peers[wire->number[rank]]; }

static void begin(DtWire *wire, DtWirePeer *peer, DtWirePost *post)
{
    post->head.magic = MAGIC;
    post->head.from = wire->rank->rank;
    post->is_done = post->is_free = post->is_send = false;
    post->next = NULL;
    post->peer = peer;
    post->wire = wire;
}

void dt_wire_send(DtWire *wire, uint32_t to, DtWirePost *post)
{
    DtWirePeer *peer = peer_of(wire, to);
    begin(wire, peer, post);
    post->is_send = true;
    wire->n_sending++;
    wire->ops->send(wire, peer, post);
}

void dt_wire_recv(DtWire *wire, uint32_t from, DtWirePost *post)
{
    DtWirePeer *peer = peer_of(wire, from);
    begin(wire, peer, post);
    if (peer->expected_last)
        peer->expected_last->next = post;
    else
        peer->expected = post;
    peer->expected_last = post;
    wire->ops->expect(wire, peer);
}

void dt_wire_done(DtWirePost *post)
{
    if (post->is_send)
        post->wire->n_sending--;
    post->is_done = true;
    post->wire->moved_ns = dt_now_ns();
}

void dt_wire_lost(DtWire *wire, DtWirePeer *peer, int error)
{
    (void)wire;
    if (peer->is_gone)
        return;
    peer->is_gone = true;
    peer->error = error;
    peer->gone_ns = dt_now_ns();
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {[DT_WIRE_PARTIAL] = "the sum",
                                        [DT_WIRE_RESULT] = "the result",
                                        [DT_WIRE_BLOCK] = "the exchange",
                                        [DT_WIRE_MESSAGE] = "message",
                                        [DT_WIRE_TAKEN] = "message taken"};
    return kind < DT_COUNT(names) && names[kind] ? names[kind] : "something unknown";
}

/* Whether the ranks are at different operations. */
static bool differs(const DtWirePost *post, const DtWireHead *head)
{
    const bool is_this = post->head.kind == head->kind && post->head.part == head->part;
    return !dt_comm_mark_same(&post->head.mark, &head->mark) ||
           (is_this && (head->kind == DT_WIRE_MESSAGE ? post->head.bytes < head->bytes
                                                      : post->head.bytes != head->bytes));
}

static bool is_sound(const DtWire *wire, const DtWirePeer *peer, const DtWireHead *head)
{
    return head->magic == MAGIC && head->from == peer->rank && head->stream < wire->n_streams &&
           head->bytes >= 0 && head->kind >= DT_WIRE_PARTIAL && head->kind <= DT_WIRE_TAKEN &&
           (head->kind != DT_WIRE_TAKEN || head->bytes == 0);
}

static void unlink_post(DtWirePeer *peer, DtWirePost *before, DtWirePost *post)
{
    if (before)
        before->next = post->next;
    else
        peer->expected = post->next;
    if (peer->expected_last == post)
        peer->expected_last = before;
    post->next = NULL;
}

DtWirePost *dt_wire_take(DtWire *wire, DtWirePeer *peer, const DtWireHead *head, bool *ret_is_over)
{
    DtWirePost *before = NULL;
    *ret_is_over = false;
    if (!is_sound(wire, peer, head)) {
        dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                     "rank %u has sent something that is no message of this run", peer->rank);
        return NULL;
    }
    if (head->kind == DT_WIRE_TAKEN) {
        wire->taken[head->stream]++;
        *ret_is_over = true;
        return NULL;
    }
    for (DtWirePost *post = peer->expected; post; before = post, post = post->next) {
        if (post->head.stream != head->stream ||
            post->head.mark.sequence < head->mark.sequence)
            continue;
        if (differs(post, head)) {
            dt_comm_mark_fail(wire->rank, &post->head.mark, kind_name(post->head.kind), peer->rank,
                              &head->mark, kind_name(head->kind));
            return NULL;
        }
        if (post->head.kind != head->kind || post->head.part != head->part)
            continue;
        unlink_post(peer, before, post);
        post->head = *head;
        return post;
    }
    return NULL;
}

/* ---- waiting ---- */

void dt_wire_look(DtWire *wire)
{
    for (uint32_t p = 0; p < wire->n_peers; p++) {
        DtWirePeer *peer = &wire->peers[p];
        char byte;
        if (peer->fd < 0 || peer->is_gone)
            continue;
        const ssize_t n = recv(peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            dt_wire_lost(wire, peer, n == 0 ? 0 : errno);
    }
}

/* Whether another rank's failure explains a lost connection: the message about it comes later. */
static bool is_others_failure(const DtWire *wire)
{
    for (int ms = 0; ms < HELP_MS && !dt_rank_aborted(wire->rank); ms += 10)
        usleep(10000);
    return dt_rank_aborted(wire->rank);
}

static bool fail_gone(DtWire *wire, const DtWirePeer *peer)
{
    return !is_others_failure(wire) &&
           dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                        "the connection of rank %u to rank %u is gone%s%s", wire->rank->rank,
                        peer->rank, peer->error ? ": " : "",
                        peer->error ? strerror(peer->error) : "");
}

/* What a wait that lasts looks at: failures, the limit, a peer that has gone. */
static bool may_go_on(DtWire *wire, DtWireWait *wait, uint32_t who)
{
    const uint64_t now = dt_now_ns();
    const DtWirePeer *peer = who < wire->rank->n_ranks && wire->number[who] != UINT32_MAX
                                 ? peer_of(wire, who)
                                 : NULL;
    if (dt_rank_aborted(wire->rank))
        return false;
    dt_shared_wait(wire->says, who, now);
    wait->is_said = true;
    dt_wire_look(wire);
    for (uint32_t p = 0; !peer && p < wire->n_peers; p++)
        if (wire->peers[p].is_gone)
            peer = &wire->peers[p];
    if (peer && peer->is_gone && now > peer->gone_ns + GONE_NS && now > wire->moved_ns + GONE_NS)
        return fail_gone(wire, peer);
    if (wire->limit_ns == 0 || now - wait->began_ns <= wire->limit_ns)
        return true;
    return who < wire->rank->n_ranks
               ? dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                              "rank %u has waited for rank %u longer than --timeout allows",
                              wire->rank->rank, who)
               : dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                              "rank %u has waited for ranks of other hosts longer than --timeout "
                              "allows",
                              wire->rank->rank);
}

bool dt_wire_turn(DtWire *wire, DtWireWait *wait, uint32_t who)
{
    const bool sleeps = wait->turns >= SPINS;
    if (wait->turns == 0)
        wait->began_ns = dt_now_ns();
    wait->turns++;
    if (sleeps && !may_go_on(wire, wait, who))
        return false;
    if (wire->ops->move(wire, sleeps ? SLEEP_MS : 0))
        wait->turns = 0;
    return dt_status_ok(&wire->rank->failure);
}

void dt_wire_go_on(DtWire *wire, DtWireWait *wait)
{
    if (wait->is_said)
        dt_shared_go_on(wire->says);
    *wait = (DtWireWait){0};
}

bool dt_wire_finish(DtWire *wire, DtWirePost *post)
{
    DtWireWait wait = {0};
    while (!post->is_done)
        if (!dt_wire_turn(wire, &wait, post->peer->rank))
            return false;
    dt_wire_go_on(wire, &wait);
    return true;
}
