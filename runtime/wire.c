/* SPDX-License-Identifier: Apache-2.0 */
/* Which message belongs to which receive, and what becomes of a wait.
 *
 * The connection by which two ranks found each other (wire_meet.c) stays open: it ends when the
 * process at its other end does, whatever moves the bytes. A rank that still waits for such a peer
 * first gives the other hosts' supervisors time to say what happened there. */
#include "runtime/wire.h"

#include "runtime/comm_sync.h"
#include "runtime/straggler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t MAGIC = 0x57495245u; /* "ERIW" */
static const uint64_t GONE_NS = 500000000u;
enum {
    SPINS = 30,           /* turns before the first sleep */
    SLEEP_MS = 20,        /* the longest sleep */
    HEAD_COST = 4096,     /* bytes for which a message counts besides its own */
    MOST_AHEAD = 1 << 23, /* bytes that a peer has not taken yet, before later messages wait */
    MOST_ASKED = 256,     /* messages of a peer that wait */
    EARLY_ROOM = 1 << 18
};

/* ---- open and close ---- */

static DtWire *new_wire(DtRank *rank, const DtWireOps *ops, const bool *needs, uint32_t n_streams)
{
    DtWire *wire = DT_NEW(rank->memory, DtWire);
    const double timeout = rank->options->timeout;
    *wire = (DtWire){.rank = rank, .ops = ops, .n_streams = n_streams, .says = rank->slot,
                     .waits_for = UINT32_MAX,
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
                  DtWireMost most, bool (*meet)(void *context), void *context, DtWire **ret_wire)
{
    DtWire *wire = new_wire(rank, ops, needs, n_streams);
    wire->most = most;
    *ret_wire = wire;
    const DtStatus status = ops->open(wire);
    return dt_status_ok(&status) ? dt_wire_meet(wire, meet, context)
                                 : dt_rank_fail_status(rank, &status);
}

/* Tells peers that have all messages that no more come. Returns the first peer that lacks some, or
 * has not told this rank the same; NULL: there is none. */
static const DtWirePeer *say_end(DtWire *wire)
{
    const DtWirePeer *first = NULL;
    for (uint32_t p = 0; p < wire->n_peers; p++) {
        DtWirePeer *peer = &wire->peers[p];
        if (peer->error)
            continue;
        if (peer->n_sending == 0 && !peer->has_end) {
            shutdown(peer->fd, SHUT_WR);
            peer->has_end = true;
        }
        if (!first && (peer->n_sending > 0 || !peer->is_gone))
            first = peer;
    }
    return first;
}

/* Sends the rest, says that nothing more comes, and waits until the peers have said so, too: a
 * connection that is closed while unread bytes are here would take away what the peer has not read
 * yet. A peer that reads nothing for as long as --timeout allows fails this rank. */
static void part(DtWire *wire)
{
    const uint64_t began_ns = dt_now_ns();
    for (const DtWirePeer *peer; (peer = say_end(wire)) && !dt_rank_aborted(wire->rank);) {
        wire->ops->move(wire, 1);
        dt_wire_look(wire);
        const uint64_t since_ns = wire->moved_ns > began_ns ? wire->moved_ns : began_ns;
        if (wire->limit_ns && dt_now_ns() > since_ns + wire->limit_ns)
            dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                         peer->has_end ? "rank %u is done, and rank %u has not ended its "
                                         "connection within the time that --timeout allows"
                                       : "rank %u is done, and rank %u has not taken its last "
                                         "messages within the time that --timeout allows",
                         wire->rank->rank, peer->rank);
    }
}

static void free_early(DtWire *wire, DtWireEarly *early)
{
    for (DtWireEarly *next; early; early = next) {
        next = early->next;
        if (early->large)
            wire->ops->fetch(wire, NULL, early->large);
        free(early);
    }
}

void dt_wire_close(DtWire *wire)
{
    bool is_whole = !dt_rank_has_failed(wire->rank) && !dt_rank_aborted(wire->rank);
    for (uint32_t p = 0; p < wire->n_peers; p++)
        is_whole = is_whole && wire->peers[p].fd >= 0;
    if (is_whole)
        part(wire);
    for (uint32_t p = 0; p < wire->n_peers; p++)
        free_early(wire, wire->peers[p].early);
    wire->ops->close(wire);
    free_early(wire, wire->spare);
    for (uint32_t p = 0; p < wire->n_peers; p++)
        if (wire->peers[p].fd >= 0)
            close(wire->peers[p].fd);
}

/* ---- messages ---- */

DtSlot *dt_wire_slot(DtArena *memory)
{
    const uintptr_t line = _Alignof(DtSlot);
    char *at = dt_arena_alloc(memory, sizeof(DtSlot) + line);
    at += (line - (uintptr_t)at % line) % line;
    DtSlot *slot = (DtSlot *)(void *)at;
    atomic_store(&slot->waits_for, UINT32_MAX);
    return slot;
}

static DtWirePeer *peer_of(DtWire *wire, uint32_t rank) { return &wire->peers[wire->number[rank]]; }

/* Whether a peer may send the message before its receive, and so many like it that they fill
 * memory. A channel has as many receives as slots. */
static bool counts(const DtWireHead *head)
{
    return head->kind <= DT_WIRE_BLOCK && !head->asks;
}

static uint64_t cost_of(const DtWireHead *head) { return (uint64_t)head->bytes + HEAD_COST; }

static void begin(DtWire *wire, DtWirePeer *peer, DtWirePost *post)
{
    post->head.magic = MAGIC;
    post->head.from = wire->rank->rank;
    post->head.token = peer->token;
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
    post->head.asks = 0;
    post->head.asks =
        counts(&post->head) &&
        peer->sent - peer->sent_taken + cost_of(&post->head) > (uint64_t)MOST_AHEAD;
    peer->sent += counts(&post->head) ? cost_of(&post->head) : 0;
    post->head.taken = peer->taken_told = peer->taken;
    peer->n_sending++;
    wire->ops->send(wire, peer, post);
}

/* Tells a peer that only sends how much this rank has taken. */
static void tell_taken(DtWire *wire, DtWirePeer *peer)
{
    if (peer->taken - peer->taken_told < MOST_AHEAD / 2)
        return;
    if (!peer->credit) {
        peer->credit = DT_NEW(wire->rank->memory, DtWirePost);
        *peer->credit = (DtWirePost){.head = {.kind = DT_WIRE_CREDIT}, .is_done = true};
    }
    if (peer->credit->is_done)
        dt_wire_send(wire, peer->rank, peer->credit);
}

/* ---- early messages ---- */

static bool may_keep(DtWire *wire, const DtWirePeer *peer, int64_t bytes)
{
    const int64_t most = MOST_AHEAD + wire->most.slot_bytes;
    return (peer->n_early < MOST_AHEAD / HEAD_COST + MOST_ASKED + wire->most.slots &&
            peer->early_bytes + bytes <= most) ||
           dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                        "rank %u has sent rank %u %u messages, %lld bytes, of operations that rank "
                        "%u has not reached, and more: it may not be so far ahead",
                        peer->rank, wire->rank->rank, peer->n_early, (long long)peer->early_bytes,
                        wire->rank->rank);
}

/* A used one with so much room, or a new one. */
static DtWireEarly *find_room(DtWire *wire, int64_t bytes)
{
    DtWireEarly **at = &wire->spare;
    while (*at && (*at)->room < bytes)
        at = &(*at)->next;
    DtWireEarly *early = *at;
    if (early) {
        *at = early->next;
        return early;
    }
    const int64_t room = bytes > EARLY_ROOM ? bytes : EARLY_ROOM;
    if (!(early = malloc(sizeof *early + (size_t)room)))
        dt_arena_exhausted((size_t)room);
    early->room = room;
    return early;
}

DtWireEarly *dt_wire_early(DtWire *wire, DtWirePeer *peer, const DtWireHead *head, void *large)
{
    const int64_t bytes = large ? 0 : head->bytes;
    if (head->bytes > wire->most.bytes) {
        dt_rank_fail(wire->rank, DT_EXIT_RETRY,
                     "rank %u sends %lld bytes, more than any operation of the plan", peer->rank,
                     (long long)head->bytes);
        return NULL;
    }
    if (!may_keep(wire, peer, bytes))
        return NULL;
    DtWireEarly *early = find_room(wire, bytes);
    early->next = NULL;
    early->head = *head;
    early->large = large;
    peer->n_early++;
    peer->early_bytes += bytes;
    return early;
}

void dt_wire_keep(DtWirePeer *peer, DtWireEarly *early)
{
    *(peer->early_last ? &peer->early_last->next : &peer->early) = early;
    peer->early_last = early;
}

void dt_wire_drop(DtWire *wire, DtWirePeer *peer, DtWireEarly *early)
{
    peer->n_early--;
    peer->early_bytes -= early->large ? 0 : early->head.bytes;
    early->large = NULL;
    early->next = wire->spare;
    wire->spare = early;
}

/* Gives early messages to the receives that there are now. */
static void give_early(DtWire *wire, DtWirePeer *peer)
{
    DtWireEarly *before = NULL;
    for (DtWireEarly *early = peer->early, *next; early; early = next) {
        bool is_over;
        DtWirePost *post = dt_wire_take(wire, peer, &early->head, &is_over);
        next = early->next;
        if (!post) {
            before = early;
            continue;
        }
        *(before ? &before->next : &peer->early) = next;
        if (peer->early_last == early)
            peer->early_last = before;
        if (early->large)
            wire->ops->fetch(wire, post, early->large);
        else
            dt_wire_give(post, early->bytes);
        dt_wire_drop(wire, peer, early);
    }
}

/* ---- messages that come ---- */

void dt_wire_recv(DtWire *wire, uint32_t from, DtWirePost *post)
{
    DtWirePeer *peer = peer_of(wire, from);
    begin(wire, peer, post);
    if (peer->expected_last)
        peer->expected_last->next = post;
    else
        peer->expected = post;
    peer->expected_last = post;
    tell_taken(wire, peer);
    give_early(wire, peer);
    if (wire->ops->expect && !post->is_done)
        wire->ops->expect(wire, peer);
}

void dt_wire_give(DtWirePost *post, const char *bytes)
{
    if (bytes != post->at && !(post->take && post->take(post, bytes)))
        memcpy(post->at, bytes, (size_t)post->head.bytes);
    dt_wire_done(post);
}

void dt_wire_done(DtWirePost *post)
{
    if (post->is_send)
        post->peer->n_sending--;
    post->is_done = true;
    post->wire->moved_ns = dt_now_ns();
}

void dt_wire_lost(DtWirePeer *peer, int error)
{
    if (!peer->error)
        peer->error = error;
    if (peer->is_gone)
        return;
    peer->is_gone = true;
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
    return head->magic == MAGIC && head->from == peer->rank && head->token == peer->token &&
           head->stream < wire->n_streams && head->taken <= peer->sent &&
           head->bytes >= 0 && head->kind >= DT_WIRE_PARTIAL && head->kind <= DT_WIRE_CREDIT &&
           (head->kind < DT_WIRE_TAKEN || head->bytes == 0);
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
    if (head->taken > peer->sent_taken)
        peer->sent_taken = head->taken;
    if (head->kind >= DT_WIRE_TAKEN) {
        wire->taken[head->stream] += head->kind == DT_WIRE_TAKEN;
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
        peer->taken += counts(head) ? cost_of(head) : 0;
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
            dt_wire_lost(peer, n == 0 ? 0 : errno);
    }
}

static bool fail_gone(DtWire *wire, const DtWirePeer *peer)
{
    return !dt_sync_others_failed(wire->rank) &&
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
    wire->waits_for = who;
    wait->turns++;
    if (sleeps && !may_go_on(wire, wait, who))
        return false;
    const uint64_t delay = sleeps ? dt_straggler_delay(wire->rank) : 0;
    if (wire->ops->move(wire, sleeps ? SLEEP_MS : 0)) {
        wait->turns = 0;
        if (sleeps)
            dt_straggler_woken(wire->rank, wire->says, delay);
        if (wait->is_said) { /* a wait in which something comes is not one of a cycle */
            dt_shared_go_on(wire->says);
            wait->is_said = false;
        }
    }
    return !dt_rank_has_failed(wire->rank);
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
