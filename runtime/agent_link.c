/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/agent_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_UNSENT = 1 << 18 };

void dt_agentlink_open(DtAgentLink *link, int fd)
{
    link->fd = fd;
    link->n_in = link->n_out = 0;
    link->is_broken = false;
}

void dt_agentlink_close(DtAgentLink *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    free(link->out);
    link->out = NULL;
    link->n_out = link->room = 0;
}

static bool is_later(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static bool flush(DtAgentLink *link)
{
    size_t done = 0;
    while (done < link->n_out) {
        const ssize_t n =
            send(link->fd, link->out + done, link->n_out - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (is_later(n))
            break;
        if (n < 0)
            return false;
        done += (size_t)n;
    }
    link->sent += done;
    link->n_out -= done;
    if (done > 0)
        memmove(link->out, link->out + done, link->n_out);
    return true;
}

static bool make_room(DtAgentLink *link)
{
    if (link->n_out + DT_MESSAGE_MOST <= link->room)
        return true;
    const size_t room = 2 * link->room + DT_MESSAGE_MOST;
    uint8_t *out = link->n_out > MOST_UNSENT ? NULL : realloc(link->out, room);
    if (!out)
        return false;
    link->out = out;
    link->room = room;
    return true;
}

void dt_agentlink_send(DtAgentLink *link, const DtMessage *message)
{
    if (link->fd < 0 || link->is_broken)
        return;
    if (make_room(link))
        link->n_out += dt_message_write(message, link->out + link->n_out);
    else
        link->is_broken = true;
    if (!flush(link))
        link->is_broken = true;
}

bool dt_agentlink_pump(DtAgentLink *link)
{
    if (link->fd < 0)
        return false;
    link->is_broken = link->is_broken || !flush(link);
    while (link->n_in < sizeof link->in) {
        const ssize_t n =
            recv(link->fd, link->in + link->n_in, sizeof link->in - link->n_in, MSG_DONTWAIT);
        if (is_later(n))
            return !link->is_broken;
        if (n <= 0)
            return false;
        link->n_in += (size_t)n;
    }
    return !link->is_broken;
}

int dt_agentlink_next(DtAgentLink *link, DtMessage *ret_message)
{
    const int n = dt_message_read(link->in, link->n_in, ret_message);
    if (n <= 0)
        return n;
    link->n_in -= (size_t)n;
    memmove(link->in, link->in + n, link->n_in);
    return 1;
}
