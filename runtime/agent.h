/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor of a node, its *agent*, says to the agents next to it in the tree (tree.h),
 * without sockets: tests drive these functions with any history.
 *
 * Messages go along the tree. Upwards a node sends one for its whole part of the tree, when it is
 * complete; downwards and to all, each node hands on what it hears.
 *
 *     JOINED   up     all nodes of my part are connected; node 0 can begin
 *     START    down   an attempt begins
 *     FAILED   all    the first failure of an attempt; each node hands on the first that it hears
 *     STOP     all    a signal: finish the step, save, end
 *     ENDED    up     all ranks of my part have ended, with the first exit code that is not 0
 *     RESULT   down   what the attempt ended with, and whether another one begins: with these
 *                     nodes, or with others, which meet anew (cluster_meet.c)
 *     LEAVE    to the neighbours, before a node meets others anew
 *     WAIT     to one node: a rank waits long for a rank of that node
 *     BEAT     to the neighbours, each second
 *
 * States of a node: joining (from the first connection to START) | in an attempt (from START; it
 * may have failed) | ended (from ENDED, when ranks here and below have ended) | in an attempt
 * again, or over (from RESULT).
 *
 * Deadlines. A neighbour of which nothing is heard for 3.5 s is lost, and so is one that has not
 * ended its ranks 60 s after a failure, or not said the result 60 s later. A lost neighbour is a
 * failure of every attempt, and its part of the tree gets no further messages. Time in which this
 * process itself did not run (a busy machine, a suspended one) does not count against others. */
#ifndef DT_RUNTIME_AGENT_H
#define DT_RUNTIME_AGENT_H

#include "runtime/message.h"

/* Neighbour 0 is the parent, which node 0 has not; the others are children in order. */
typedef struct DtNeighbour {
    uint32_t node;
    char host[64];
    bool is_there, is_lost, has_joined, has_ended;
    bool has_left; /* the tree, but it is not lost */
    uint64_t heard_ns;
} DtNeighbour;

typedef struct DtAgent {
    uint32_t nodes, node, ranks;    /* ranks: of all nodes (spread.h) */
    uint32_t first, n;              /* neighbours first .. n - 1: first is 1 on node 0 */
    DtNeighbour at[33];
    /* Sends to a neighbour; a connection that breaks is reported by dt_agent_lose later. */
    void (*send)(void *context, uint32_t neighbour, const DtMessage *message);
    /* Rank `rank` of another node has waited for rank `other` of this one; NULL: nobody listens. */
    void (*wait)(void *context, uint32_t rank, uint32_t other, uint32_t ms);
    /* The same through waits of others, which have led `hops` times to another node. */
    void (*chain)(void *context, uint32_t rank, uint32_t other, uint32_t ms, uint32_t hops);
    void *context;
    uint64_t looked_ns, beat_ns, failed_ns, ended_ns;
    uint32_t base;           /* attempts before these nodes met; 0 when the run begins */
    uint32_t attempt;        /* base: none has begun since */
    bool is_ready;           /* this node has its plan, so it may say that it has joined */
    uint32_t failed_until;   /* attempts before this one have failed or are past; UINT32_MAX: a node
                              * is lost */
    bool has_told_joined, has_told_ended, are_ours_ended, is_over;
    bool has_lost;           /* a node anywhere is gone */
    bool has_stopped;        /* STOP was sent or heard */
    int32_t code;            /* of the first part of the tree that did not end well */
    bool has_start, has_result, has_note, has_stop_note;
    DtMessage start, result, note; /* for the supervisor to take */
    DtMessage lost;
} DtAgent;

/* Agents send a beat to their neighbours each second, and take one for lost that has been silent
 * for so long. What else the protocol waits for is stated in relation to these two. */
static const uint64_t dt_agent_beat_ns = 1000000000u, dt_agent_silence_ns = 3500000000u;

void dt_agent_init(DtAgent *agent, uint32_t nodes, uint32_t node, uint32_t ranks);
/* The number of the neighbour that is that node; or 0 of node 0, or n: it is none. */
uint32_t dt_agent_neighbour(const DtAgent *agent, uint32_t node);
/* A neighbour is connected. */
void dt_agent_meet(DtAgent *agent, uint32_t neighbour, const char *host, uint64_t now_ns);
/* A neighbour is gone. why: "its dtrun has ended, or the network to it". */
void dt_agent_lose(DtAgent *agent, uint32_t neighbour, const char *why, uint64_t now_ns);
/* A child has never been connected. */
void dt_agent_miss(DtAgent *agent, uint32_t neighbour, const char *why, uint64_t now_ns);
/* A message has come from a neighbour. False: it may not say that; lose it. */
bool dt_agent_hear(DtAgent *agent, uint32_t neighbour, const DtMessage *message, uint64_t now_ns);
/* Beats and deadlines. Call it after all that has come was heard, at least each 0.5 s. */
void dt_agent_tick(DtAgent *agent, uint64_t now_ns);

/* Whether all nodes of this part of the tree are connected. */
bool dt_agent_has_joined(const DtAgent *agent);
/* On node 0: begins an attempt. On others after has_start: hands it on. port: where the heads of
 * the children meet, on this node. */
void dt_agent_begin(DtAgent *agent, uint16_t port, uint64_t token);
/* This node has a failure. flags: DT_MESSAGE_RANK, or 0. */
void dt_agent_fail(DtAgent *agent, int32_t code, uint32_t flags, const char *text,
                   uint64_t now_ns);
/* This node has got a signal that ends the run. */
void dt_agent_stop(DtAgent *agent);
/* Tells the node of rank `other` that rank `rank` of this one has waited for it for so long. */
void dt_agent_wait(DtAgent *agent, uint32_t rank, uint32_t other, uint32_t ms);
/* Tells the node of rank `other` that a rank waits for it through others (cluster_cycles.c). */
void dt_agent_chain(DtAgent *agent, uint32_t rank, uint32_t other, uint32_t ms, uint32_t hops);
/* The ranks of this node have ended. */
void dt_agent_end(DtAgent *agent, int32_t code, uint64_t now_ns);
/* On node 0: whether those of all nodes have, or of all that are left. */
bool dt_agent_has_ended(const DtAgent *agent);
/* On node 0: tells all how the attempt ended. flags: DT_MESSAGE_SAVED, DT_MESSAGE_AGAIN,
 * DT_MESSAGE_FORM. */
void dt_agent_conclude(DtAgent *agent, int32_t code, uint32_t flags);
/* This node has its plan now. */
void dt_agent_be_ready(DtAgent *agent);

#endif
