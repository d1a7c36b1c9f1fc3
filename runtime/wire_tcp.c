/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over plain sockets: the transport that needs no library. Each message is its head and
 * its bytes on the connection by which the two ranks found each other.
 *
 * A message whose receive is not there yet stays in the connection, and so do those after it: this
 * is what keeps a fast rank from filling the memory of a slow one. If this rank waits for that peer
 * and nothing else moves, the message that it waits for may be a later one: then it reads early
 * ones into memory of their own. */
#include "runtime/wire.h"

#include "runtime/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct End {
    DtWirePost *out, *out_last; /* messages that are sent, in order */
    size_t sent;                /* bytes of the first one, the head included */
    DtWireHead head;            /* of the message that is coming */
    size_t got;                 /* bytes of it, the head included */
    DtWirePost *into;           /* its receive; NULL: none so far */
    DtWireEarly *early;         /* where its bytes go if it has none; NULL: nowhere */
} End;

typedef struct Tcp {
    struct pollfd *polls; /* by peer */
} Tcp;

static DtStatus open_tcp(DtWire *wire)
{
    Tcp *tcp = DT_NEW(wire->rank->memory, Tcp);
    tcp->polls = DT_NEW_ARRAY(wire->rank->memory, struct pollfd, wire->n_peers + 1);
    wire->engine = tcp;
    return DT_OK;
}

static void close_tcp(DtWire *wire)
{
    for (uint32_t p = 0; p < wire->n_peers; p++) {
        End *end = wire->peers[p].end;
        if (end)
            free(end->early);
    }
}

static bool join(DtWire *wire, DtWirePeer *peer, const void *address, uint32_t bytes)
{
    (void)address, (void)bytes;
    peer->end = DT_NEW(wire->rank->memory, End);
    return true;
}

/* ---- sending ---- */

static bool is_broken(ssize_t n)
{
    return n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
}

/* Writes as much as the connection takes. Returns whether it took anything. */
static bool push(DtWirePeer *peer)
{
    End *end = peer->end;
    bool any = false;
    while (end->out && !peer->error) {
        DtWirePost *post = end->out;
        const size_t head = sizeof post->head, all = head + (size_t)post->head.bytes;
        struct iovec parts[2] = {{(char *)&post->head + end->sent, head - end->sent},
                                 {post->at, all - head}};
        if (end->sent >= head) {
            parts[0] = (struct iovec){post->at + (end->sent - head), all - end->sent};
            parts[1].iov_len = 0;
        }
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = parts[1].iov_len ? 2 : 1};
        const ssize_t n = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (is_broken(n))
            dt_wire_lost(peer, errno);
        if (n <= 0)
            break;
        any = true;
        end->sent += (size_t)n;
        if (end->sent < all)
            continue;
        end->out = post->next;
        end->sent = 0;
        dt_wire_done(post);
    }
    return any;
}

static void send_post(DtWire *wire, DtWirePeer *peer, DtWirePost *post)
{
    (void)wire;
    End *end = peer->end;
    const bool was_empty = end->out == NULL;
    if (was_empty)
        end->out = post;
    else
        end->out_last->next = post;
    end->out_last = post;
    if (was_empty)
        push(peer);
}

/* ---- receiving ---- */

/* Whether the message that is coming waits for its receive. */
static bool is_held(const End *end)
{
    return end->got == sizeof end->head && !end->into && !end->early;
}

/* Finds the receive of the message whose head is here. Returns whether reading may go on. */
static bool place(DtWire *wire, DtWirePeer *peer)
{
    End *end = peer->end;
    bool is_over;
    end->into = dt_wire_take(wire, peer, &end->head, &is_over);
    if (is_over)
        end->got = 0;
    else if (end->into && end->head.bytes == 0) {
        dt_wire_done(end->into);
        end->into = NULL;
        end->got = 0;
    }
    return is_over || end->got == 0 || end->into;
}

/* A message is whole. One without a receive may have got that meanwhile. */
static void end_message(DtWire *wire, DtWirePeer *peer)
{
    End *end = peer->end;
    DtWirePost *post = end->into;
    DtWireEarly *early = end->early;
    bool is_over;
    end->into = NULL;
    end->early = NULL;
    end->got = 0;
    if (post) {
        dt_wire_give(post, post->at);
    } else if (!(post = dt_wire_take(wire, peer, &early->head, &is_over))) {
        dt_wire_keep(peer, early);
    } else {
        dt_wire_give(post, early->bytes);
        dt_wire_drop(wire, peer, early);
    }
}

/* Reads what has come. Returns whether that was anything. */
static bool pull(DtWire *wire, DtWirePeer *peer)
{
    End *end = peer->end;
    bool any = false;
    while (!peer->is_gone && !is_held(end) && !dt_rank_has_failed(wire->rank)) {
        const size_t head = sizeof end->head;
        const bool is_head = end->got < head;
        char *bytes = is_head ? NULL : end->early ? end->early->bytes : end->into->at;
        char *at = is_head ? (char *)&end->head + end->got : bytes + (end->got - head);
        const size_t all = is_head ? head : head + (size_t)end->head.bytes;
        const ssize_t n = recv(peer->fd, at, all - end->got, MSG_DONTWAIT);
        if (n == 0 || is_broken(n))
            dt_wire_lost(peer, n == 0 ? 0 : errno);
        if (n <= 0)
            break;
        any = true;
        end->got += (size_t)n;
        if (end->got < all)
            continue;
        if (is_head) {
            place(wire, peer);
            continue;
        }
        end_message(wire, peer);
    }
    return any;
}

/* Makes room for the message of a connection that is held up, if this rank waits for a later one of
 * the same peer. */
static bool read_early(DtWire *wire, DtWirePeer *peer)
{
    End *end = peer->end;
    const bool is_other = wire->waits_for != UINT32_MAX && wire->waits_for != peer->rank;
    if (!is_held(end) || is_other ||
        !(end->early = dt_wire_early(wire, peer, &end->head, NULL)))
        return false;
    if (end->head.bytes > 0)
        return pull(wire, peer);
    end_message(wire, peer); /* to receive no bytes would look like the end of the connection */
    return true;
}

static void expect(DtWire *wire, DtWirePeer *peer)
{
    if (is_held(peer->end) && place(wire, peer))
        pull(wire, peer);
}

static uint32_t watch(DtWire *wire, struct pollfd *ret_polls)
{
    for (uint32_t p = 0; p < wire->n_peers; p++) {
        const DtWirePeer *peer = &wire->peers[p];
        const End *end = peer->end;
        const int events = (peer->is_gone || is_held(end) ? 0 : POLLIN) |
                           (end->out && !peer->error ? POLLOUT : 0);
        ret_polls[p] = (struct pollfd){.fd = events ? peer->fd : -1, .events = (short)events};
    }
    return wire->n_peers;
}

static bool move(DtWire *wire, int ms)
{
    Tcp *tcp = wire->engine;
    bool any = false;
    watch(wire, tcp->polls);
    if (poll(tcp->polls, wire->n_peers, ms) <= 0) {
        for (uint32_t p = 0; ms > 0 && p < wire->n_peers; p++)
            any = read_early(wire, &wire->peers[p]) || any;
        return any;
    }
    for (uint32_t p = 0; p < wire->n_peers; p++) {
        const short events = tcp->polls[p].revents;
        if (events & (POLLIN | POLLHUP | POLLERR))
            any = pull(wire, &wire->peers[p]) || any;
        if (events & (POLLOUT | POLLHUP | POLLERR))
            any = push(&wire->peers[p]) || any;
    }
    return any;
}

const DtWireOps dt_wire_tcp = {
    .name = "tcp",
    .open = open_tcp,
    .close = close_tcp,
    .join = join,
    .send = send_post,
    .expect = expect,
    .move = move,
    .watch = watch,
};
