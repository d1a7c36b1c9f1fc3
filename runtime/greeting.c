/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/greeting.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const uint64_t connect_ns = 3000000000u, patience_ns = 10000000000u;

void dt_greeting_begin(DtGreeting *g, int fd, const uint8_t key[DT_DIGEST_BYTES],
                       const DtHello *hello, uint64_t now_ns)
{
    *g = (DtGreeting){.state = DT_GREETING_CONNECTS, .fd = fd, .key = key, .hello = *hello,
                      .until_ns = now_ns + connect_ns};
}

short dt_greeting_events(const DtGreeting *g)
{
    return g->state == DT_GREETING_CONNECTS ? POLLOUT : POLLIN;
}

static void fail(DtGreeting *g, DtGreetingState state, const char *why)
{
    g->state = state;
    snprintf(g->text, sizeof g->text, "%s", why);
}

/* Whether the socket is connected now. */
static bool has_connected(DtGreeting *g)
{
    struct pollfd look = {.fd = g->fd, .events = POLLOUT};
    int error = 0;
    socklen_t len = sizeof error;
    if (poll(&look, 1, 0) <= 0)
        return false;
    getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    g->error = error;
    if (error)
        fail(g, DT_GREETING_GONE, strerror(error));
    return !error;
}

/* Receives the rest of a message of n bytes. True: it is complete. */
static bool receive(DtGreeting *g, void *message, size_t n)
{
    const ssize_t got = recv(g->fd, (char *)message + g->got, n - g->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return false;
    if (got <= 0) {
        /* Who listens reads a hello to its end before it refuses it, and so ends the connection in
         * order. One that is reset had the hello unread: its process has ended. */
        if (got == 0 && g->state == DT_GREETING_WANTS_WELCOME && g->got == 0)
            fail(g, DT_GREETING_STRANGER, "closed the connection without a word, as to a program "
                                          "with another key");
        else
            fail(g, DT_GREETING_GONE, got == 0 ? "the connection was closed" : strerror(errno));
        return false;
    }
    g->got += (size_t)got;
    if (g->got < n)
        return false;
    g->got = 0;
    return true;
}

static void take_challenge(DtGreeting *g)
{
    const DtStatus status = dt_hello_answer(g->key, &g->challenge, &g->hello);
    if (!dt_status_ok(&status)) {
        fail(g, DT_GREETING_STRANGER, status.message);
        return;
    }
    g->state = DT_GREETING_WANTS_WELCOME;
    if (send(g->fd, &g->hello, sizeof g->hello, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t)sizeof g->hello)
        fail(g, DT_GREETING_GONE, strerror(errno));
}

static void take_welcome(DtGreeting *g)
{
    if (!dt_hello_is_welcome(g->key, &g->hello, &g->welcome))
        fail(g, DT_GREETING_STRANGER, "does not know the key of this run");
    else if (g->welcome.is_refused)
        fail(g, DT_GREETING_REFUSED, g->welcome.text);
    else
        g->state = DT_GREETING_MET;
}

DtGreetingState dt_greeting_step(DtGreeting *g, uint64_t now_ns)
{
    if (g->state == DT_GREETING_CONNECTS && has_connected(g)) {
        g->state = DT_GREETING_WANTS_CHALLENGE;
        g->until_ns = now_ns + patience_ns;
    }
    if (g->state == DT_GREETING_WANTS_CHALLENGE &&
        receive(g, &g->challenge, sizeof g->challenge))
        take_challenge(g);
    if (g->state == DT_GREETING_WANTS_WELCOME && receive(g, &g->welcome, sizeof g->welcome))
        take_welcome(g);
    if (!dt_greeting_is_done(g) && now_ns > g->until_ns)
        fail(g, DT_GREETING_GONE, "no answer");
    return g->state;
}
