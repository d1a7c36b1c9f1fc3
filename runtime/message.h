/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between agents (agent.h), as bytes: a length, a kind, numbers, and a text. The reader
 * takes any bytes; what it accepts is in range. */
#ifndef DT_RUNTIME_MESSAGE_H
#define DT_RUNTIME_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DtMessageKind {
    DT_MESSAGE_BEAT = 1, /* the sender lives */
    DT_MESSAGE_ROUTE,    /* from node 0: you are node `node` of `nodes`, for `ranks` ranks, in
                          * formation `form`; attempts so far; token: the plan's digest; text and
                          * port are your parent's address; port 0: you are connected with it */
    DT_MESSAGE_JOINED,   /* to the parent: all nodes of my part of the tree are here */
    DT_MESSAGE_START,    /* to children: begin attempt; heads meet at `port` with `token` */
    DT_MESSAGE_FAILED,   /* to all: node, code, text: why the attempt has failed */
    DT_MESSAGE_STOP,     /* to all: finish the step, save, end */
    DT_MESSAGE_ENDED,    /* to the parent: all ranks of my part of the tree have ended with code */
    DT_MESSAGE_RESULT,   /* to children: exit code of the attempt, and whether another one begins */
    DT_MESSAGE_WAIT,     /* to the node of a rank: rank `node` waits for it; token: that rank, and
                          * in its upper half for how many milliseconds */
    DT_MESSAGE_LEAVE,    /* to the neighbours: I leave the tree, and find node 0 anew */
    DT_MESSAGE_NEED,     /* to the parent: bytes of the plan from offset `token` on */
    DT_MESSAGE_PIECE,    /* to a child: such bytes (text), of as many as the plan has: `ranks`, and
                          * `nodes` times 2^32 */
    DT_MESSAGE_CHAIN,    /* as WAIT, but through waits of others, over `ranks` nodes; the shortest
                          * of these waits */
    DT_MESSAGE_KINDS
} DtMessageKind;

enum { DT_MESSAGE_SAVED = 1, /* flags. The run has saved a checkpoint */
       DT_MESSAGE_AGAIN = 2, /* another attempt begins */
       DT_MESSAGE_LOST = 4,  /* of FAILED: the node is gone, so no attempt of these nodes follows */
       DT_MESSAGE_RANK = 8,  /* of FAILED: a rank was lost */
       DT_MESSAGE_FORM = 16, /* of RESULT: the run goes on with other nodes or ranks */
       DT_MESSAGE_FLAGS = 31 };
enum { DT_MESSAGE_TEXT = 1000, DT_MESSAGE_MOST = 48 + DT_MESSAGE_TEXT };

typedef struct DtMessage {
    DtMessageKind kind;
    uint32_t node, attempt;
    int32_t code; /* an exit code, 0 to 255; of FAILED not 0 */
    uint16_t port;
    uint32_t flags;
    uint32_t nodes, ranks, form;
    uint64_t token;
    uint32_t n_bytes;           /* of PIECE: the text is any bytes, and has so many */
    char text[DT_MESSAGE_TEXT]; /* without control characters but ends of lines */
} DtMessage;

/* Returns the number of bytes written. */
size_t dt_message_write(const DtMessage *message, uint8_t ret_bytes[DT_MESSAGE_MOST]);
/* Reads one message at the start of n bytes. Returns the number of bytes it has; 0: it is not
 * complete; -1: these are no messages. */
int dt_message_read(const uint8_t *bytes, size_t n, DtMessage *ret_message);

#endif
