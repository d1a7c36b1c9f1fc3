/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between ranks of different hosts (wire.c). A transport, which moves the bytes, is a
 * struct of functions in one file: wire_tcp.c (sockets) and wire_ucx.c (UCX). All else is the same
 * for each of them: who is connected with whom (wire_meet.c), which message belongs to which
 * receive, whether both ranks are at the same operation, how long a rank waits, and what is said of
 * a lost peer.
 *
 * Every message has a head. A receive names the stream, the kind and the part that it wants; a
 * message that comes before its receive waits in the transport. The message's mark is compared with
 * that of the receive: ranks at different operations fail, and both are named.
 *
 * One thread at a time uses a wire. */
#ifndef DT_RUNTIME_WIRE_H
#define DT_RUNTIME_WIRE_H

#include "runtime/comm_mark.h"

#include <poll.h>

typedef enum DtWireKind {
    DT_WIRE_PARTIAL = 1, /* a sum to which the receiver adds */
    DT_WIRE_RESULT,      /* a whole sum */
    DT_WIRE_BLOCK,       /* elements that are not summed */
    DT_WIRE_MESSAGE,     /* of a channel */
    DT_WIRE_TAKEN,       /* the receiver of a channel has taken a message; no bytes */
    DT_WIRE_CREDIT       /* only its head counts; no bytes */
} DtWireKind;

/* The head of a message, as it travels; machines of a run have the same byte order. */
typedef struct DtWireHead {
    DtCommMark mark;
    uint64_t token;       /* of the two ranks (wire_meet.c) */
    uint64_t taken;       /* of messages of the receiver: what the sender has taken so far */
    uint32_t magic, from; /* from: the sending rank */
    uint32_t stream;      /* number of the group, or groups + 1 + number of the channel */
    uint32_t kind;        /* DtWireKind */
    uint32_t asks;        /* 1: it waits for its receive, as far as the transport can */
    uint32_t reserved;
    int64_t part;         /* which message of its kind in the operation */
    int64_t bytes;        /* that follow the head; of an expected message of a channel: the most */
    int64_t tag, step;    /* of a channel: the sender's micro-batch and step */
} DtWireHead;

/* A message that is sent or expected. It belongs to the caller, like the bytes at `at`, until it is
 * done. */
typedef struct DtWirePost {
    DtWireHead head;
    char *at;
    /* NULL, or what uses the bytes of a message that has come to the transport's own memory, so
     * that they need not be copied to `at`. It may not use the wire. False: copy them. */
    bool (*take)(struct DtWirePost *post, const char *bytes);
    void *context;         /* of `take` */
    bool is_done, is_free; /* is_free: it was never used, or its user is through with it */
    /* of the wire */
    bool is_send;
    struct DtWirePost *next;
    struct DtWirePeer *peer;
    struct DtWire *wire;
} DtWirePost;

/* A message that has come before its receive. */
typedef struct DtWireEarly {
    struct DtWireEarly *next;
    DtWireHead head;
    void *large; /* of one whose bytes have not come: what the transport has of it */
    int64_t room;
    char bytes[];
} DtWireEarly;

typedef struct DtWirePeer {
    uint32_t rank;
    int fd;       /* connection by which the two found each other; it ends when the peer does */
    uint64_t token;
    bool is_gone; /* the peer has ended that connection, and sends no more */
    int error;    /* errno if it is broken, so that this rank cannot send either; 0: it can */
    bool has_end; /* this rank has told the peer that it sends no more */
    uint32_t n_sending; /* messages that the transport has not sent yet */
    uint64_t gone_ns;
    DtWirePost *expected, *expected_last; /* receives without a message */
    DtWireEarly *early, *early_last;      /* messages without a receive */
    uint32_t n_early;
    int64_t early_bytes;
    /* Messages by their costs (wire.c): sent, of these taken by the peer as far as it has said;
     * taken here, of these what the peer has heard of */
    uint64_t sent, sent_taken, taken, taken_told;
    DtWirePost *credit;
    void *end;    /* of the transport */
} DtWirePeer;

/* The most bytes of a message; and how many messages, of how many bytes, a peer may send before
 * their receives that do not count for how far it is ahead: those of channels fill their slots. */
typedef struct DtWireMost {
    int64_t bytes, slot_bytes;
    uint32_t slots;
} DtWireMost;

typedef struct DtWire {
    DtRank *rank;
    const struct DtWireOps *ops;
    DtWirePeer *peers;
    uint32_t n_peers, *number; /* number: of the peer, by rank; UINT32_MAX: none */
    uint32_t n_streams;
    DtSlot *says;              /* where waits are published */
    void *engine;              /* of the transport */
    uint64_t *taken;           /* by stream: messages that a channel's receiver has taken */
    uint64_t moved_ns;         /* when bytes moved last */
    uint64_t limit_ns;         /* longest wait; 0: none */
    DtWireMost most;
    DtWireEarly *spare;        /* used ones */
    uint32_t waits_for;        /* the rank whose message this one waits for; UINT32_MAX: unknown */
} DtWire;

typedef struct DtWireOps {
    const char *name;
    /* Opens this rank's end, before any rank connects. */
    DtStatus (*open)(DtWire *wire);
    void (*close)(DtWire *wire); /* may be called after a failed open */
    /* What a peer needs to reach this end besides a connection. NULL: nothing. */
    const void *(*address)(DtWire *wire, uint32_t *ret_bytes);
    /* The connection peer->fd exists, and the peer's address is here. False after dt_rank_fail. */
    bool (*join)(DtWire *wire, DtWirePeer *peer, const void *address, uint32_t bytes);
    /* Begins to send. The transport sets is_done when the bytes may be overwritten. */
    void (*send)(DtWire *wire, DtWirePeer *peer, DtWirePost *post);
    /* There is a new receive for a message that has not come whole. NULL: nothing to do. */
    void (*expect)(DtWire *wire, DtWirePeer *peer);
    /* Moves what the transport has of a large early message into its receive. NULL: there are none.
     * post NULL: throws it away. */
    void (*fetch)(DtWire *wire, DtWirePost *post, void *large);
    /* Moves what can be moved now; if that is nothing, waits up to `ms` milliseconds for more.
     * Returns whether anything moved. False after dt_rank_fail, too. */
    bool (*move)(DtWire *wire, int ms);
    /* What to poll to learn that something can be moved, at most n_peers + 1 of them, while nobody
     * else uses the wire. Returns how many; 0: something can be moved now. */
    uint32_t (*watch)(DtWire *wire, struct pollfd *ret_polls);
} DtWireOps;

extern const DtWireOps dt_wire_tcp, dt_wire_ucx;

/* Connects this rank with the ranks for which needs[rank] is true. The relation must be symmetric.
 * All ranks of the run call it. meet: waits for all ranks, after which slots are equal on all
 * hosts. False after dt_rank_fail, or when the run is to stop; *ret_wire must be closed if it is
 * set. */
bool dt_wire_open(DtRank *rank, const DtWireOps *ops, const bool *needs, uint32_t n_streams,
                  DtWireMost most, bool (*meet)(void *context), void *context, DtWire **ret_wire);
/* Waits, unless the run has failed, until the peers have all that was sent, and close too; longer
 * than --timeout allows: the rank fails. */
void dt_wire_close(DtWire *wire);

/* A slot in which a thread says what it waits for, besides that of its rank (DtWire.says). */
DtSlot *dt_wire_slot(DtArena *memory);

/* Sends post->at to a rank; receives from it. Of the head, the caller sets mark, stream, kind, part
 * and bytes. */
void dt_wire_send(DtWire *wire, uint32_t to, DtWirePost *post);
void dt_wire_recv(DtWire *wire, uint32_t from, DtWirePost *post);

/* A wait: a loop of looks, and of turns while there is nothing to do. */
typedef struct DtWireWait {
    uint64_t began_ns;
    uint32_t turns; /* since the last movement */
    bool is_said;   /* the slot says that the rank waits */
} DtWireWait;
/* Moves bytes, or waits for a while. who: the rank for which this one waits, UINT32_MAX: unknown.
 * False: this rank has failed, the run is to stop, the peer has gone, or it is too late. */
bool dt_wire_turn(DtWire *wire, DtWireWait *wait, uint32_t who);
/* Ends a wait. */
void dt_wire_go_on(DtWire *wire, DtWireWait *wait);
/* Waits until the post is done. */
bool dt_wire_finish(DtWire *wire, DtWirePost *post);

/* ---- for transports ---- */

/* A message with this head has come from the peer. Returns the receive that it is for, which it no
 * longer expects; NULL: none so far, or the head says something wrong, in which case the rank has
 * failed, or the message has no bytes and is dealt with (*ret_is_over). */
DtWirePost *dt_wire_take(DtWire *wire, DtWirePeer *peer, const DtWireHead *head,
                         bool *ret_is_over);
/* For a message without a receive: memory with room for its bytes; large: what the transport has of
 * it instead. NULL after dt_rank_fail: the peer has sent more such messages than it may. */
DtWireEarly *dt_wire_early(DtWire *wire, DtWirePeer *peer, const DtWireHead *head, void *large);
/* Keeps it until there is a receive. */
void dt_wire_keep(DtWirePeer *peer, DtWireEarly *early);
/* It is not needed any more. */
void dt_wire_drop(DtWire *wire, DtWirePeer *peer, DtWireEarly *early);
/* The message of the receive has come, and its bytes are here. */
void dt_wire_give(DtWirePost *post, const char *bytes);
void dt_wire_done(DtWirePost *post);
/* The peer sends no more; error: errno, or 0 if it has ended in order and still reads. */
void dt_wire_lost(DtWirePeer *peer, int error);
/* Looks whether connections have ended that no bytes travel on. */
void dt_wire_look(DtWire *wire);

/* ---- for wire.c ---- */

/* Finds and joins all peers. False after dt_rank_fail, or when the run is to stop. */
bool dt_wire_meet(DtWire *wire, bool (*meet)(void *context), void *context);

#endif
