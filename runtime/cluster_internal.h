/* SPDX-License-Identifier: Apache-2.0 */
/* What the files cluster_*.c know of the connections of a supervisor (cluster.h). */
#ifndef DT_RUNTIME_CLUSTER_INTERNAL_H
#define DT_RUNTIME_CLUSTER_INTERNAL_H

#include "runtime/agent.h"
#include "runtime/cluster.h"
#include "runtime/greeting.h"
#include "runtime/agent_link.h"
#include "runtime/newcomers.h"
#include "runtime/socket.h"
#include "runtime/tree.h"

#include <poll.h>

enum { DT_CLUSTER_POLLS = 40 };

/* How far a node has come (cluster_meet.c). */
typedef enum DtClusterStage {
    DT_STAGE_GATHERS,  /* node 0: waits for all nodes */
    DT_STAGE_CONNECTS, /* others: to node 0 */
    DT_STAGE_WAITS,    /* for node 0 to say who its parent is */
    DT_STAGE_GOES,     /* to the parent */
    DT_STAGE_JOINS,    /* waits for the parts of the tree below */
    DT_STAGE_REFUSES,  /* node 0: a node cannot start; tells all that come */
    DT_STAGE_MET,
    DT_STAGE_FAILED    /* see status */
} DtClusterStage;

/* A node that has come to node 0. */
typedef struct DtGathered {
    int fd; /* -1: it has not */
    uint16_t port;
    char address[DT_HOST_BYTES], host[DT_HOST_BYTES];
} DtGathered;

/* A rank of another node that waits for one of this node. */
typedef struct DtClusterWaiter {
    uint32_t rank;
    uint64_t began_ns, heard_ns; /* dt_now_ns() of this machine; heard_ns 0: there is none */
} DtClusterWaiter;

struct DtCluster {
    const DtRunOptions *options;
    uint32_t nodes, node;
    uint8_t key[DT_DIGEST_BYTES];
    DtFacts facts;
    DtMeet meet;
    bool (*is_over)(void *context);
    void *context;

    DtClusterStage stage;
    DtStatus status;
    uint64_t began_ns, routed_ns, try_ns; /* of the meeting; of its second half; next attempt */
    bool is_said, refuses;                /* refuses: this node cannot start */
    DtGathered *gathered;                 /* on node 0: by node */
    uint32_t n_gathered;
    DtNewcomers *newcomers;
    DtGreeting greeting;
    DtMeet goal; /* with whom it connects */
    uint32_t tries;
    char why[200]; /* why the last try failed */
    DtAgentLink refuser; /* on node 0: one that is about to say why it cannot start */
    uint64_t refuser_ns;
    DtMessage refusal;

    DtClusterWaiter *waiters; /* by rank of this node */
    uint64_t told_ns;         /* when this node last told others of its waits */
    DtAgent agent;
    DtAgentLink links[1 + DT_TREE_DEGREE]; /* by neighbour */
};

/* plan: NULL if it cannot be read. The cluster is to be parted in any case. */
DtStatus dt_cluster_open(const DtRunOptions *options, const DtPlan *plan, uint64_t words,
                         bool (*is_over)(void *context), void *context, DtCluster **ret_cluster);
/* Does what can be done now for the meeting, without waiting. */
void dt_cluster_step(DtCluster *n, uint64_t now_ns);
/* What to poll for, at most DT_CLUSTER_POLLS. */
nfds_t dt_cluster_polls(const DtCluster *n, struct pollfd *ret_polls);
/* Sleeps until something has come, or a tenth of a second. */
void dt_cluster_sleep(const DtCluster *n);
/* Rank `rank` of another node has waited for rank `other` of this one (DtAgent.wait). */
void dt_cluster_note_wait(void *cluster, uint32_t rank, uint32_t other, uint32_t ms);
/* Hears what has come from the neighbours, and looks at deadlines. */
void dt_cluster_pump(DtCluster *n, uint64_t now_ns);

#endif
