/* SPDX-License-Identifier: Apache-2.0 */
/* A connection between two agents: messages (message.h) that wait to be sent, and bytes of those
 * that have come. Nothing here waits. */
#ifndef DT_RUNTIME_AGENT_LINK_H
#define DT_RUNTIME_AGENT_LINK_H

#include "runtime/message.h"

typedef struct DtAgentLink {
    int fd; /* -1: none, or it is closed */
    uint8_t in[2 * DT_MESSAGE_MOST];
    size_t n_in;
    uint8_t *out; /* n_out bytes that are not sent yet */
    size_t n_out, room;
    bool is_broken; /* a message could not be sent */
    uint64_t sent;  /* bytes so far */
} DtAgentLink;

/* Takes over a connected socket. */
void dt_agentlink_open(DtAgentLink *link, int fd);
void dt_agentlink_close(DtAgentLink *link);
/* Sends it as soon as the other side takes it. If the connection is broken, or the other side has
 * taken nothing for long, the next dt_agentlink_pump says so. */
void dt_agentlink_send(DtAgentLink *link, const DtMessage *message);
/* Sends and receives what can be now. False: the connection is broken; messages that came before
 * can still be taken. */
bool dt_agentlink_pump(DtAgentLink *link);
/* Takes the next message. 1: there is one; 0: there is none; -1: the other side talks nonsense. */
int dt_agentlink_next(DtAgentLink *link, DtMessage *ret_message);

#endif
