/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks of different hosts find each other.
 *
 * Each rank that needs another one listens on a port of its own and writes its address into its
 * slot. After a meeting of all ranks the one with the higher number connects. Both prove that they
 * know the key of this attempt's ranks (hello.h), which is made of the run's; so strangers, and
 * ranks of an earlier attempt, are kept out. All connections are polled together: no rank waits for
 * one while another could go on. Then each two exchange the addresses that the transport needs.
 *
 * The proof leaves both with a number that was never sent, the token of their messages: a transport
 * that lets anybody send to this rank (UCX) knows messages of the peer by it. */
#include "runtime/comm_sync.h"
#include "runtime/greeting.h"
#include "runtime/key.h"
#include "runtime/newcomers.h"
#include "runtime/socket.h"
#include "runtime/wire.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const uint64_t PATIENCE_NS = 120000000000u, AGAIN_NS = 50000000u;
enum { LOOK_MS = 50, MOST_ADDRESS = 1 << 16 };

/* A connection that this rank opens. */
typedef struct Attempt {
    DtGreeting greeting; /* its fd -1: there is none now */
    uint64_t again_ns;   /* when to open the next one */
    uint32_t tries;
    const char *why;     /* why the last one could not be opened */
} Attempt;

typedef struct Meeting {
    DtWire *wire;
    uint8_t key[DT_DIGEST_BYTES];
    DtNewcomers *newcomers;
    Attempt *attempts; /* by peer; of those with lower numbers */
    struct pollfd *polls;
    uint32_t n_missing; /* peers */
    uint64_t until_ns;
} Meeting;

static bool fail(DtWire *wire, uint32_t other, const char *what)
{
    if (!dt_rank_aborted(wire->rank))
        dt_rank_fail(wire->rank, DT_EXIT_RETRY, "rank %u cannot connect with rank %u: %s",
                     wire->rank->rank, other, what);
    return false;
}

/* ---- where ranks listen ---- */

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

/* ---- connections ---- */

/* The peer has proved who it is, by a hello with this digest. */
static void arrive(Meeting *m, DtWirePeer *peer, int fd, const uint8_t mac[DT_DIGEST_BYTES])
{
    uint8_t digest[DT_DIGEST_BYTES];
    dt_digest_keyed(m->key, mac, DT_DIGEST_BYTES, digest);
    memcpy(&peer->token, digest, sizeof peer->token);
    peer->fd = fd;
    m->n_missing--;
}

static void take_newcomers(Meeting *m)
{
    DtWire *wire = m->wire;
    DtNewcomer one;
    dt_newcomers_look(m->newcomers, dt_now_ns());
    while (dt_newcomers_take(m->newcomers, &one)) {
        const uint32_t other = one.hello.node;
        const bool is_expected = one.hello.role == DT_ROLE_RANK && other > wire->rank->rank &&
                                 other < wire->rank->n_ranks &&
                                 wire->number[other] != UINT32_MAX;
        DtWirePeer *peer = is_expected ? &wire->peers[wire->number[other]] : NULL;
        const bool good = peer && peer->fd < 0;
        if (dt_newcomers_answer(m->newcomers, &one, wire->rank->rank,
                                good ? NULL : "it expects no such rank, or has it already") &&
            good)
            arrive(m, peer, one.fd, one.hello.mac);
    }
}

static bool begin_attempt(Meeting *m, const DtWirePeer *peer, Attempt *attempt, uint64_t now_ns)
{
    const DtHello hello = {.role = DT_ROLE_RANK, .node = m->wire->rank->rank};
    DtMeet meet;
    int fd;
    if (!place_of(m->wire, peer->rank, &meet))
        return false;
    attempt->again_ns = now_ns + AGAIN_NS;
    if (dt_socket_begin(&meet, attempt->tries++, &fd))
        dt_greeting_begin(&attempt->greeting, fd, m->key, &hello, now_ns);
    else
        attempt->why = dt_socket_why();
    return true;
}

/* Does what can be done now to connect with a peer of a lower number. */
static bool connect_on(Meeting *m, DtWirePeer *peer, Attempt *attempt)
{
    const uint64_t now_ns = dt_now_ns();
    DtGreeting *g = &attempt->greeting;
    if (g->fd < 0)
        return now_ns < attempt->again_ns || begin_attempt(m, peer, attempt, now_ns);
    switch (dt_greeting_step(g, now_ns)) {
    case DT_GREETING_MET:
        if (g->welcome.node != peer->rank)
            return fail(m->wire, peer->rank, "another rank answers at its address");
        arrive(m, peer, g->fd, g->hello.mac);
        g->fd = -1;
        return true;
    case DT_GREETING_REFUSED:
    case DT_GREETING_STRANGER: return fail(m->wire, peer->rank, g->text);
    case DT_GREETING_GONE:
        close(g->fd);
        g->fd = -1;
        attempt->why = g->text;
        return true;
    default: return true;
    }
}

/* Sleeps until something has come. */
static void sleep_a_while(const Meeting *m)
{
    const DtWire *wire = m->wire;
    nfds_t n = 0;
    m->polls[n++] = (struct pollfd){.fd = dt_newcomers_fd(m->newcomers), .events = POLLIN};
    for (uint32_t p = 0; p < wire->n_peers; p++) {
        const DtGreeting *g = &m->attempts[p].greeting;
        if (g->fd >= 0)
            m->polls[n++] = (struct pollfd){.fd = g->fd, .events = dt_greeting_events(g)};
    }
    poll(m->polls, n, LOOK_MS);
}

/* The first peer that is not connected. */
static uint32_t first_missing(const Meeting *m)
{
    uint32_t p = 0;
    while (m->wire->peers[p].fd >= 0)
        p++;
    return p;
}

static bool fail_late(const Meeting *m)
{
    const DtWire *wire = m->wire;
    const uint32_t p = first_missing(m);
    const char *why = m->attempts[p].why;
    return fail(m->wire, wire->peers[p].rank, why ? why : "it has not connected within 120 s");
}

static bool connect_all(Meeting *m)
{
    DtWire *wire = m->wire;
    while (m->n_missing > 0) {
        take_newcomers(m);
        for (uint32_t p = 0; p < wire->n_peers && wire->peers[p].rank < wire->rank->rank; p++)
            if (wire->peers[p].fd < 0 && !connect_on(m, &wire->peers[p], &m->attempts[p]))
                return false;
        if (m->n_missing == 0)
            break;
        DtSyncFar far = {wire->rank, wire->peers[first_missing(m)].rank};
        if (dt_sync_look(&far))
            return false;
        if (dt_now_ns() > m->until_ns)
            return fail_late(m);
        sleep_a_while(m);
    }
    return true;
}

/* ---- addresses ---- */

/* Sends all peers what they need to reach this rank; it is short, so nobody waits here. */
static bool send_addresses(const Meeting *m)
{
    DtWire *wire = m->wire;
    uint32_t bytes = 0;
    const void *address = wire->ops->address ? wire->ops->address(wire, &bytes) : NULL;
    for (uint32_t p = 0; p < wire->n_peers; p++) {
        DtSyncFar far = {wire->rank, wire->peers[p].rank};
        const DtSocketWait wait = {dt_sync_look, &far, m->until_ns};
        const int fd = wire->peers[p].fd;
        if (dt_socket_send(fd, &bytes, sizeof bytes, &wait) != DT_SOCKET_OK ||
            (bytes > 0 && dt_socket_send(fd, address, bytes, &wait) != DT_SOCKET_OK))
            return fail(wire, wire->peers[p].rank, strerror(errno));
    }
    return true;
}

/* Takes the address of a peer, and joins it. */
static bool join(const Meeting *m, DtWirePeer *peer)
{
    DtWire *wire = m->wire;
    DtSyncFar far = {wire->rank, peer->rank};
    const DtSocketWait wait = {dt_sync_look, &far, m->until_ns};
    DtArena *memory = dt_arena_new();
    char *address = dt_arena_alloc(memory, MOST_ADDRESS);
    uint32_t bytes;
    bool good = dt_socket_recv(peer->fd, &bytes, sizeof bytes, &wait) == DT_SOCKET_OK &&
                bytes <= MOST_ADDRESS &&
                (bytes == 0 || dt_socket_recv(peer->fd, address, bytes, &wait) == DT_SOCKET_OK);
    dt_shared_go_on(wire->rank->slot);
    good = good ? wire->ops->join(wire, peer, address, bytes)
                : fail(wire, peer->rank, "its address has not come");
    dt_arena_free(memory);
    return good;
}

bool dt_wire_meet(DtWire *wire, bool (*meet)(void *context), void *context)
{
    DtArena *memory = dt_arena_new();
    int listener = -1;
    Meeting m = {.wire = wire, .n_missing = wire->n_peers};
    m.attempts = DT_NEW_ARRAY(memory, Attempt, wire->n_peers + 1);
    m.polls = DT_NEW_ARRAY(memory, struct pollfd, wire->n_peers + 1);
    for (uint32_t p = 0; p < wire->n_peers; p++)
        m.attempts[p].greeting.fd = -1;
    dt_key_derive(wire->rank->shared->meet_key, "ranks", wire->rank->shared->attempt, m.key);
    dt_socket_make_room(wire->n_peers + DT_NEWCOMERS_MOST);
    bool good = publish(wire, &listener);
    if (good && !(m.newcomers = dt_newcomers_new(m.key, listener)))
        good = dt_rank_fail(wire->rank, DT_EXIT_RETRY, "no memory for connections of other ranks");
    good = good && meet(context);
    m.until_ns = dt_now_ns() + PATIENCE_NS;
    good = good && connect_all(&m) && send_addresses(&m);
    for (uint32_t p = 0; good && p < wire->n_peers; p++)
        good = join(&m, &wire->peers[p]);
    for (uint32_t p = 0; p < wire->n_peers; p++)
        if (m.attempts[p].greeting.fd >= 0)
            close(m.attempts[p].greeting.fd);
    dt_newcomers_free(m.newcomers);
    dt_shared_go_on(wire->rank->slot);
    dt_arena_free(memory);
    return good;
}
