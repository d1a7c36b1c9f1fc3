/* SPDX-License-Identifier: Apache-2.0 */
/* A run over several machines (--nodes, --node, --meet). Each machine (node) has a supervisor,
 * which starts its share of the ranks (spread.h). NCCL
 * carries the data of ranks from GPU to GPU. Everything else works as on one machine, through the
 * mapping of a node's ranks. Every node has such a mapping, and the parts of it that all ranks need
 * are kept equal:
 *
 *   cluster_meet.c   supervisors: find each other, in a tree (tree.h)
 *   cluster_gather.c   node 0, before there is a tree
 *   cluster_cycles.c supervisors: ranks that wait for each other over nodes
 *   cluster_plan.c   supervisors: hand on a plan
 *   cluster_attempt.c  supervisors: report failures, Ctrl-C and the end
 *   cluster.c        ranks: the first one of each node is connected with that of its parent in the
 *                    tree. When all ranks meet, they exchange what changed in header and slots. So
 *                    all ranks see, after a meeting, what a rank wrote there before it. Rank 0
 *                    reads memory of ranks of other nodes to save it
 *
 * Whoever connects must know the key of the run (key.h, hello.h). What follows is neither encrypted
 * nor signed, as NCCL's data are not: the network is trusted not to change packets. */
#ifndef DT_RUNTIME_CLUSTER_H
#define DT_RUNTIME_CLUSTER_H

#include "runtime/roster.h"
#include "runtime/runtime.h"

static inline bool dt_cluster_several(const DtRunOptions *options) { return options->nodes > 1; }
/* Whether the run goes on without hosts that are lost. */
static inline bool dt_cluster_is_elastic(const DtRunOptions *options)
{
    return options->elastic > 0 || options->spares > 0;
}
/* The number of nodes that have ranks when the run begins: all but spares. */
static inline uint32_t dt_cluster_hosts(const DtRunOptions *options)
{
    const int64_t hosts = options->nodes - options->spares;
    return hosts > 1 ? (uint32_t)hosts : 1;
}
/* The number of ranks on a node; and the number of this node's first rank. A spare has those of
 * node 0. */
uint32_t dt_cluster_ranks(const DtRunOptions *options, const DtPlan *plan);
uint32_t dt_cluster_first(const DtRunOptions *options, const DtPlan *plan);
bool dt_cluster_is_here(const DtRank *rank, uint32_t other);
/* The members of the group that are on this rank's node. They follow each other, since groups list
 * ranks in order. */
DtRankGroup dt_cluster_here(const DtRank *rank, const DtRankGroup *group);

/* Checks for options that contradict each other or the plan, before anything starts. */
DtStatus dt_cluster_check(const DtRunOptions *options, const DtPlan *plan);

/* ---- supervisors ---- */

typedef struct DtCluster DtCluster;
typedef enum DtClusterNews { DT_CLUSTER_NOTHING, DT_CLUSTER_FAILED, DT_CLUSTER_STOP } DtClusterNews;
typedef struct DtClusterNote { /* FAILED: sent with the exit code and the message of that node */
    DtClusterNews news;
    uint32_t node;
    int32_t code;
    bool lost_rank;
    char text[1000];
} DtClusterNote;

/* Waits for all nodes. words: a hash of their command lines without --node; is_over: as in
 * socket.h. Errors: another plan, other command lines, a node number used twice, an invalid
 * address. */
DtStatus dt_cluster_meet(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                         bool (*is_over)(void *context), void *context, DtCluster **ret_cluster);
void dt_cluster_part(DtCluster *nodes);
/* For a node that cannot start (its data, its memory): tells the nodes that wait for it, which end
 * with its message and code. Takes up to ten seconds if nobody is there. plan: NULL if it cannot be
 * read. */
void dt_cluster_refuse(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                       const DtStatus *why);
/* ---- supervisors of a run that goes on without lost hosts: instead of dt_cluster_meet ---- */

typedef enum DtClusterTurn {
    DT_TURN_WAITS,
    DT_TURN_GATHERED, /* node 0: dt_cluster_form comes next */
    DT_TURN_ROUTED,   /* others: see dt_cluster_route; dt_cluster_have_plan comes next */
    DT_TURN_FETCHED,  /* the plan has come, see dt_cluster_fetched */
    DT_TURN_MET,      /* all nodes of the formation are there */
    DT_TURN_OVER,     /* this host takes no part, and the run has ended: dt_cluster_why */
    DT_TURN_FAILED    /* dt_cluster_why */
} DtClusterTurn;

/* The place of a node in a formation, as node 0 says it. */
typedef struct DtClusterRoute {
    uint32_t nodes, node, ranks;
    uint32_t attempts; /* so far */
    uint64_t digest;   /* of the plan */
    bool has_saved;    /* the run has saved a checkpoint */
} DtClusterRoute;

/* roster: on node 0, where the cluster notes who has come and gone; all hosts are its seats. */
DtStatus dt_cluster_begin(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                          bool (*is_over)(void *context), void *context, DtRoster *roster,
                          DtCluster **ret_cluster);
/* Sleeps until something comes, or a tenth of a second; does what can be done for the meeting; and
 * says what the supervisor must do now. */
DtClusterTurn dt_cluster_turn(DtCluster *nodes);
/* The same without sleep. */
DtClusterTurn dt_cluster_advance(DtCluster *nodes);
/* On node 0, after GATHERED: begins a formation. Of the route only digest and has_saved count.
 * False: one of the hosts has gone; choose again. */
bool dt_cluster_form(DtCluster *nodes, const DtFormation *formation, const DtClusterRoute *route);
DtClusterRoute dt_cluster_route(const DtCluster *nodes);
/* This node has the plan, whose bytes stay until the next formation; or it does not, and asks its
 * parent for it. Then these are the bytes, until one of these calls. */
void dt_cluster_have_plan(DtCluster *nodes, const uint8_t *bytes, size_t len);
void dt_cluster_need_plan(DtCluster *nodes);
const uint8_t *dt_cluster_fetched(const DtCluster *nodes, size_t *ret_len);
/* Why it failed; and the exit code of OVER or FAILED. */
DtStatus dt_cluster_why(const DtCluster *nodes, int *ret_code);
/* After an attempt: leaves the tree. All hosts that are there find each other anew. */
void dt_cluster_regroup(DtCluster *nodes, uint64_t now_ns);
/* A host that takes no part asks for the end of the run, as after a signal. False: it is not
 * connected with node 0. */
bool dt_cluster_ask_stop(DtCluster *nodes);
/* How the run ends, for hosts that take no part. */
void dt_cluster_set_code(DtCluster *nodes, int code);

/* ---- supervisors, while ranks run ---- */

/* Before ranks start: stores in the header of the mapping where and with which key the heads of
 * nodes meet. shared->meet_fd is the socket for the head of this node; close-on-exec. */
DtStatus dt_cluster_start(DtCluster *nodes, DtShared *shared);
/* Sends a message to all other nodes. lost_rank: a rank of this node was lost. */
void dt_cluster_tell(DtCluster *nodes, DtClusterNews news, int32_t code, bool lost_rank,
                     const char *text);
/* Tells other nodes, twice a second, which of their ranks the ranks of this node wait for; and adds
 * to the samples of all ranks those of ranks of other nodes that have said so. n ranks from number
 * first on are here. */
struct DtWatchSample;
struct DtWatchEvent;
void dt_cluster_share_waits(DtCluster *nodes, struct DtWatchSample *samples, uint32_t first,
                            uint32_t n);
/* Whether ranks of several nodes wait for each other: an event of a rank of this one, or of kind
 * DT_WATCH_NOTHING. Call it with each sample. */
struct DtWatchEvent dt_cluster_cycle(DtCluster *nodes, const struct DtWatchSample *samples,
                                     uint32_t first, uint32_t n, uint64_t now_ns);
/* Takes a message of another node, or notes that it has gone, without waiting. DT_CLUSTER_NOTHING:
 * there is none. */
DtClusterNote dt_cluster_hear(DtCluster *nodes);
/* Called when the ranks of this node have ended with the exit code. On node 0: waits until the
 * ranks of all nodes have ended, and returns the exit code of the whole run. Elsewhere: returns the
 * same code. */
int dt_cluster_collect(DtCluster *nodes, int code);
/* After that node 0 decides whether the ranks are started again, and tells the other nodes. False:
 * node 0 has gone. */
typedef struct DtClusterEnd {
    int code;
    bool has_saved, again; /* again: ranks are started once more */
    bool forms;            /* the run goes on with other nodes or ranks (dt_cluster_regroup) */
} DtClusterEnd;
bool dt_cluster_agree(DtCluster *nodes, DtClusterEnd *end);
/* Whether the nodes are still connected; whether Ctrl-C was pressed on another node. */
bool dt_cluster_is_whole(const DtCluster *nodes);
bool dt_cluster_was_stopped(const DtCluster *nodes);

/* ---- ranks ---- */

typedef struct DtClusterLinks DtClusterLinks;
/* Makes the communicator of a run over nodes. local: that of this node's ranks. On a single node
 * *ret_links is NULL. */
DtStatus dt_cluster_join(DtRank *rank, const DtCommOps *local, DtComm *comm,
                         DtClusterLinks **ret_links);
void dt_cluster_leave(DtClusterLinks *links);
/* All ranks meet: what any rank published before is visible to all ranks afterwards. False after a
 * failure, or when the run is to stop. */
bool dt_cluster_barrier(DtClusterLinks *links);
/* Sums 64-bit numbers over all ranks. */
bool dt_cluster_sum(DtClusterLinks *links, int64_t *numbers, int64_t n);
/* The functions get, serve and release of the communicator (DtCommOps), over nodes. */
bool dt_cluster_get(DtClusterLinks *links, uint32_t rank, uint32_t arena, int64_t offset,
                    int64_t bytes, void *ret_bytes);
bool dt_cluster_serve(DtClusterLinks *links);
bool dt_cluster_release(DtClusterLinks *links);
/* Called before each step: brings rank 0's shared->last_step to all ranks. is_decided: whether it
 * is already here, so that the call would not wait. */
bool dt_cluster_decide(DtClusterLinks *links);
bool dt_cluster_is_decided(void *links);

#endif
