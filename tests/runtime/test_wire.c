/* SPDX-License-Identifier: Apache-2.0 */
/* Wires between ranks of two hosts: how the ranks find each other among strangers, whose messages
 * count, how far a rank may be ahead of the other, and what a close waits for. */
#include "ranks.h"

#include "runtime/greeting.h"
#include "runtime/key.h"
#include "runtime/socket.h"
#include "runtime/ucx.h"
#include "runtime/wire.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(wire, .timeout = 60);

/* Exit codes of ranks. */
enum { GOOD, NO_WIRE = 10, WRONG_RESULT, WRONG_FAILURE, NO_FAILURE, TOO_LATE };

static const DtWireOps *transport = &dt_wire_tcp;

static uint64_t ms_since(uint64_t began_ns) { return (dt_now_ns() - began_ns) / 1000000; }

/* Runs both ranks of a pair on two hosts. */
static void run_pair(RanksWork *work)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new_hosts(2, 2, &dt_comm_tcp);
    cr_assert_not_null(all);
    ranks_run(all, work, 20, codes);
    for (uint32_t r = 0; r < 2; r++)
        cr_expect_eq(codes[r], GOOD, "rank %u ended with %d", r, codes[r]);
    ranks_free(all);
}

static bool has_ucx(void)
{
    DtUcx ucx;
    const DtStatus status = dt_ucx_open(&ucx);
#ifdef __SANITIZE_ADDRESS__
    return false; /* UCX has an allocator's hooks of its own */
#endif
    return dt_status_ok(&status);
}

typedef struct Meeting {
    Ranks *all;
    DtRank *rank;
} Meeting;

/* Rank 1 hears where rank 0 listens, as from a barrier of both. */
static bool meet(void *context)
{
    const Meeting *meeting = context;
    const DtPlan *plan = &meeting->all->plan;
    const uint32_t other = 1 - meeting->rank->rank;
    const DtSlot *there = dt_shared_slot(plan, meeting->all->host_shared[other], other);
    DtSlot *here = dt_shared_slot(plan, meeting->rank->shared, other);
    while (!atomic_load(&there->wire[2]))
        usleep(1000);
    for (int i = 0; i < 3; i++)
        atomic_store(&here->wire[i], atomic_load(&there->wire[i]));
    return true;
}

static bool open_wire(Ranks *all, DtRank *rank, bool (*meet_how)(void *context), int64_t most,
                      DtWire **ret_wire)
{
    const bool needs[] = {rank->rank == 1, rank->rank == 0};
    Meeting meeting = {all, rank};
    const bool good = dt_wire_open(rank, transport, needs, 2, (DtWireMost){.bytes = most},
                                   meet_how, &meeting, ret_wire);
    if (!good)
        fprintf(stderr, "rank %u: %s\n", rank->rank, rank->failure.message);
    return good;
}

static DtWirePost post_of(DtRank *rank, uint32_t stream, int64_t bytes, void *at)
{
    return (DtWirePost){.head = {.mark = dt_comm_mark(rank, stream, 1, 8), .stream = stream,
                                 .kind = DT_WIRE_BLOCK, .bytes = bytes},
                        .at = at};
}

/* ---- strangers ---- */

/* Connects with rank 0 as rank `number`, of an attempt. */
static DtGreetingState greet(DtRank *rank, const DtMeet *place, uint32_t number, uint32_t attempt)
{
    const DtSocketWait wait = {.until_ns = dt_now_ns() + 5000000000u};
    const DtHello hello = {.role = DT_ROLE_RANK, .node = number};
    DtGreeting g;
    uint8_t key[DT_DIGEST_BYTES];
    int fd;
    dt_key_derive(rank->shared->meet_key, "ranks", attempt, key);
    if (dt_socket_connect(place, &wait, &fd) != DT_SOCKET_OK)
        return DT_GREETING_GONE;
    dt_greeting_begin(&g, fd, key, &hello, dt_now_ns());
    while (!dt_greeting_is_done(&g)) {
        struct pollfd look = {.fd = fd, .events = dt_greeting_events(&g)};
        poll(&look, 1, 100);
        dt_greeting_step(&g, dt_now_ns());
    }
    return g.state;
}

/* Before rank 1 connects, many do without a word, and stay; one has the key of an earlier attempt;
 * others know the key, but are no rank that rank 0 expects. */
static bool meet_after_strangers(void *context)
{
    enum { STRANGERS = 300 };
    const Meeting *meeting = context;
    DtRank *rank = meeting->rank;
    const DtSocketWait wait = {.until_ns = dt_now_ns() + 5000000000u};
    DtMeet place = {.host = "127.0.0.1"};
    if (!meet(context) || rank->rank == 0)
        return true;
    place.port = (uint16_t)atomic_load(&dt_shared_slot(rank->plan, rank->shared, 0)->wire[2]);
    for (int i = 0, fd; i < STRANGERS; i++)
        if (dt_socket_connect(&place, &wait, &fd) != DT_SOCKET_OK)
            return false;
    return greet(rank, &place, 1, 1) == DT_GREETING_STRANGER &&
           greet(rank, &place, 0, 0) == DT_GREETING_REFUSED &&
           greet(rank, &place, 7, 0) == DT_GREETING_REFUSED;
}

/* Rank 1 sends a message without bytes, then one of 8; rank 0 wants the second one first. */
static int connect_among_strangers(Ranks *all, DtRank *rank)
{
    const uint64_t began = dt_now_ns();
    DtWire *wire;
    int64_t number = rank->rank == 1 ? 41 : 0;
    if (!open_wire(all, rank, meet_after_strangers, 8, &wire))
        return NO_WIRE;
    if (ms_since(began) > 8000)
        return TOO_LATE;
    DtWirePost none = post_of(rank, 0, 0, &number), some = post_of(rank, 1, 8, &number);
    bool good;
    if (rank->rank == 1) {
        dt_wire_send(wire, 0, &none);
        dt_wire_send(wire, 0, &some);
        good = dt_wire_finish(wire, &none) && dt_wire_finish(wire, &some);
    } else {
        dt_wire_recv(wire, 1, &some);
        good = dt_wire_finish(wire, &some);
        dt_wire_recv(wire, 1, &none);
        good = good && dt_wire_finish(wire, &none);
    }
    dt_wire_close(wire);
    return good && number == 41 ? GOOD : WRONG_RESULT;
}

Test(wire, strangers_keep_no_rank_out_and_do_not_come_in) { run_pair(connect_among_strangers); }

/* Rank 1 sends a message with another token, as somebody who only knows the address of rank 0 can
 * by UCX, and then its own. */
static int send_without_token(Ranks *all, DtRank *rank)
{
    DtWire *wire;
    int64_t number = 0;
    if (!open_wire(all, rank, meet, 8, &wire))
        return NO_WIRE;
    DtWirePost post = post_of(rank, 0, 8, &number);
    bool good;
    if (rank->rank == 1) {
        wire->peers[0].token ^= 1;
        number = 66;
        dt_wire_send(wire, 0, &post);
        good = dt_wire_finish(wire, &post);
        wire->peers[0].token ^= 1;
        number = 41;
        dt_wire_send(wire, 0, &post);
        good = good && dt_wire_finish(wire, &post);
    } else {
        dt_wire_recv(wire, 1, &post);
        good = dt_wire_finish(wire, &post) && number == 41;
    }
    if (transport == &dt_wire_tcp && rank->rank == 0)
        return !good && strstr(rank->failure.message, "no message of this run") ? GOOD
                                                                                : WRONG_FAILURE;
    if (transport == &dt_wire_tcp)
        return GOOD; /* rank 0 ends the connection, before or after the second message */
    if (transport == &dt_wire_ucx)
        dt_wire_close(wire);
    return good ? GOOD : WRONG_RESULT;
}

Test(wire, a_message_without_the_token_does_not_count)
{
    run_pair(send_without_token); /* a connection of sockets is the peer's, so the run ends */
    if (!has_ucx())
        cr_skip_test("no UCX here");
    transport = &dt_wire_ucx;
    run_pair(send_without_token);
}

/* ---- early messages ---- */

enum { PIECE = 1 << 18, PIECES = 160 };

static void *new_pieces(void)
{
    void *bytes = calloc(PIECES, PIECE);
    if (!bytes)
        abort();
    return bytes;
}

static DtWirePost piece_of(DtRank *rank, char *bytes, int i)
{
    DtWirePost post = post_of(rank, 0, PIECE, bytes + (size_t)i * PIECE);
    post.head.part = i;
    return post;
}

/* Rank 1 sends pieces that rank 0 does not expect, without a look at how many these are; rank 0
 * waits for another message. */
static int send_too_much(Ranks *all, DtRank *rank)
{
    static DtWirePost posts[PIECES];
    DtWire *wire;
    int64_t number = 0;
    char *bytes = new_pieces();
    if (!open_wire(all, rank, meet, PIECE, &wire))
        return NO_WIRE;
    DtWirePost some = post_of(rank, 1, 8, &number);
    bool good = true;
    if (rank->rank == 1) {
        for (int i = 0; i < PIECES; i++) {
            wire->peers[0].sent = 0;
            posts[i] = piece_of(rank, bytes, i);
            dt_wire_send(wire, 0, &posts[i]);
        }
        for (int i = 0; i < PIECES && good; i++)
            good = dt_wire_finish(wire, &posts[i]);
        return GOOD; /* rank 0 may have ended before it has all */
    }
    dt_wire_recv(wire, 1, &some);
    good = dt_wire_finish(wire, &some);
    dt_shared_abort(all->host_shared[1], DT_BY_SUPERVISOR); /* as agents tell other hosts */
    const bool is_named = strstr(rank->failure.message, "rank 1 has sent rank 0 32 messages") &&
                          strstr(rank->failure.message, "so far ahead");
    if (!is_named)
        fprintf(stderr, "rank 0: %s\n", rank->failure.message);
    return good ? NO_FAILURE : is_named ? GOOD : WRONG_FAILURE;
}

Test(wire, a_peer_cannot_fill_memory)
{
    run_pair(send_too_much);
    if (!has_ucx())
        cr_skip_test("no UCX here");
    transport = &dt_wire_ucx;
    run_pair(send_too_much);
}

/* Rank 1 sends 40 MiB and then the message for which rank 0 waits. By UCX that overtakes what rank
 * 0 has no room for, which waits at rank 1. */
static int send_ahead(Ranks *all, DtRank *rank)
{
    static DtWirePost posts[PIECES];
    DtWire *wire;
    int64_t number = rank->rank == 1 ? 41 : 0;
    char *bytes = new_pieces();
    if (!open_wire(all, rank, meet, PIECE, &wire))
        return NO_WIRE;
    DtWirePost some = post_of(rank, 1, 8, &number);
    bool good = true;
    for (int i = 0; i < PIECES; i++)
        posts[i] = piece_of(rank, bytes, i);
    if (rank->rank == 1) {
        for (int i = 0; i < PIECES; i++) {
            memset(posts[i].at, i, PIECE);
            dt_wire_send(wire, 0, &posts[i]);
        }
        dt_wire_send(wire, 0, &some);
    } else {
        dt_wire_recv(wire, 1, &some);
        good = dt_wire_finish(wire, &some) && wire->peers[0].early_bytes <= 1 << 23 &&
               wire->peers[0].n_early > 0;
        for (int i = 0; i < PIECES; i++)
            dt_wire_recv(wire, 1, &posts[i]);
    }
    for (int i = 0; i < PIECES && good; i++)
        good = dt_wire_finish(wire, &posts[i]) && posts[i].at[0] == (char)i &&
               posts[i].at[PIECE - 1] == (char)i;
    dt_wire_close(wire);
    return good && number == 41 ? GOOD : WRONG_RESULT;
}

Test(wire, messages_wait_where_there_is_room)
{
    if (!has_ucx())
        cr_skip_test("no UCX here");
    transport = &dt_wire_ucx;
    run_pair(send_ahead);
}

/* Rank 1 only sends, rank 0 only receives: rank 1 hears what rank 0 has taken. */
static int send_one_way(Ranks *all, DtRank *rank)
{
    DtWirePost posts[2];
    DtWire *wire;
    char *bytes = new_pieces();
    if (!open_wire(all, rank, meet, PIECE, &wire))
        return NO_WIRE;
    bool good = true;
    for (int i = 0; i < PIECES && good; i++) {
        DtWirePost *post = &posts[i % 2];
        good = i < 2 || dt_wire_finish(wire, post);
        *post = piece_of(rank, bytes, i);
        if (rank->rank == 1)
            dt_wire_send(wire, 0, post);
        else
            dt_wire_recv(wire, 1, post);
    }
    good = good && dt_wire_finish(wire, &posts[0]) && dt_wire_finish(wire, &posts[1]);
    dt_wire_close(wire);
    return good && (rank->rank == 0 || wire->peers[0].sent_taken > 0) ? GOOD : WRONG_RESULT;
}

Test(wire, a_sender_hears_what_was_taken)
{
    run_pair(send_one_way);
    if (!has_ucx())
        cr_skip_test("no UCX here");
    transport = &dt_wire_ucx;
    run_pair(send_one_way);
}

/* ---- the end ---- */

/* Rank 1 closes the wire at once after it has begun to send more than a connection holds. */
static int send_and_close(Ranks *all, DtRank *rank)
{
    enum { BYTES = 1 << 24 };
    DtWire *wire;
    char *bytes = malloc(BYTES);
    if (!bytes || !open_wire(all, rank, meet, BYTES, &wire))
        return NO_WIRE;
    memset(bytes, 5 * (int)rank->rank, BYTES);
    DtWirePost post = post_of(rank, 0, BYTES, bytes);
    bool good = true;
    if (rank->rank == 1) {
        dt_wire_send(wire, 0, &post);
    } else {
        usleep(300000);
        dt_wire_recv(wire, 1, &post);
        good = dt_wire_finish(wire, &post) && bytes[0] == 5 && bytes[BYTES - 1] == 5;
    }
    dt_wire_close(wire);
    free(bytes);
    return good && dt_status_ok(&rank->failure) ? GOOD : WRONG_RESULT;
}

Test(wire, a_close_sends_the_rest) { run_pair(send_and_close); }

/* Rank 1 sends after rank 0 has said that it sends no more. */
static int send_after_end(Ranks *all, DtRank *rank)
{
    enum { BYTES = 1 << 24 };
    DtWire *wire;
    char *bytes = calloc(1, BYTES);
    if (!bytes || !open_wire(all, rank, meet, BYTES, &wire))
        return NO_WIRE;
    DtWirePost post = post_of(rank, 0, BYTES, bytes);
    bool good = true;
    if (rank->rank == 0) {
        shutdown(wire->peers[0].fd, SHUT_WR);
        dt_wire_recv(wire, 1, &post);
        good = dt_wire_finish(wire, &post);
    } else {
        while (!wire->peers[0].is_gone)
            wire->ops->move(wire, 1);
        dt_wire_send(wire, 0, &post);
    }
    wire->limit_ns = 5000000000u;
    dt_wire_close(wire);
    return good && dt_status_ok(&rank->failure) ? GOOD : WRONG_RESULT;
}

Test(wire, a_peer_that_has_ended_still_reads) { run_pair(send_after_end); }

/* As above, but rank 0 neither reads nor closes while rank 1 waits for it. */
static int close_unread(Ranks *all, DtRank *rank)
{
    enum { BYTES = 1 << 24, LIMIT_MS = 300 };
    DtWire *wire;
    char *bytes = calloc(1, BYTES);
    if (!bytes || !open_wire(all, rank, meet, BYTES, &wire))
        return NO_WIRE;
    DtWirePost post = post_of(rank, 0, BYTES, bytes);
    if (rank->rank == 0) {
        while (dt_shared_aborter(all->host_shared[1]) == DT_BY_SUPERVISOR)
            usleep(10000);
        return GOOD;
    }
    wire->limit_ns = LIMIT_MS * 1000000ull;
    dt_wire_send(wire, 0, &post);
    const uint64_t began = dt_now_ns();
    dt_wire_close(wire);
    if (ms_since(began) < LIMIT_MS)
        return TOO_LATE;
    return strstr(rank->failure.message, "rank 0 has not taken its last messages") ? GOOD
                                                                                  : WRONG_FAILURE;
}

Test(wire, a_close_with_unread_messages_is_a_failure) { run_pair(close_unread); }
