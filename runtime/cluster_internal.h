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
#include "runtime/watch.h"

#include <poll.h>

enum { DT_CLUSTER_POLLS = 40 };

/* How far a node has come (cluster_meet.c, cluster_gather.c). */
typedef enum DtClusterStage {
    DT_STAGE_GATHERS,  /* node 0: waits for hosts */
    DT_STAGE_GATHERED, /* node 0: enough are there; dt_cluster_form says who takes part */
    DT_STAGE_CONNECTS, /* others: to node 0 */
    DT_STAGE_WAITS,    /* for node 0 to say which node this is, and who its parent is */
    DT_STAGE_GOES,     /* to the parent */
    DT_STAGE_JOINS,    /* waits for the parts of the tree below */
    DT_STAGE_REFUSES,  /* node 0: a node cannot start; tells all that come */
    DT_STAGE_MET,
    DT_STAGE_BROKEN,   /* elastic: a node was lost before all had joined */
    DT_STAGE_OVER,     /* of a node that takes no part: the run has ended, with n->code */
    DT_STAGE_FAILED    /* see status */
} DtClusterStage;

/* A host, as node 0 knows it: by seat, which is its number when the run begins (roster.h). */
typedef struct DtGathered {
    DtAgentLink *link; /* NULL: it has not come, or it takes part, or it is lost */
    uint64_t heard_ns;
    uint16_t port;     /* where it listens for its children; 0: it does not */
    char address[DT_HOST_BYTES], host[DT_HOST_BYTES];
    bool is_member;    /* of the present formation, as number `node` */
    uint32_t node;
    bool is_expected;  /* it was one of the last formation, and is not known to be lost */
    bool is_told;      /* node 0 has told it why the run does not start */
} DtGathered;

/* A rank of another node that waits for one of this node. */
typedef struct DtClusterWaiter {
    uint32_t rank;
    uint64_t began_ns, heard_ns; /* dt_now_ns() of this machine; heard_ns 0: there is none */
} DtClusterWaiter;

/* The wait of a rank of this node (cluster_cycles.c). began_ns 0: it does not wait. */
typedef struct DtClusterStill {
    uint32_t waits_for;
    uint64_t began_ns, looked_ns;
    uint32_t looks; /* that it has made when the wait was old */
} DtClusterStill;

/* The bytes of a plan that this node hands on to its children, or gets from its parent. */
typedef struct DtClusterPlan {
    const uint8_t *at; /* NULL: this node does not have it */
    size_t len;
    uint8_t *got;      /* n_got bytes of `size`, which the parent has said; size 0: it has not */
    size_t n_got, room, size;
    uint64_t asked_ns; /* 0: this node does not need it */
    size_t asked;      /* from where on it has asked for bytes */
} DtClusterPlan;

struct DtCluster {
    const DtRunOptions *options;
    uint32_t seats, seat;      /* hosts with which the run begins, spares included; this one */
    uint32_t nodes, node;      /* of the formation; node: as long as there is none, its seat */
    uint32_t ranks;            /* of the plan with which the run begins, the most */
    uint32_t form;             /* number of the formation; 0: there was none */
    uint32_t attempts;         /* before it */
    bool is_elastic;
    uint8_t key[DT_DIGEST_BYTES];
    DtFacts facts;
    DtMeet meet;
    bool (*is_over)(void *context);
    void *context;

    DtClusterStage stage;
    DtStatus status;
    int code;                  /* how the run has ended, for hosts that take no part */
    uint64_t began_ns, routed_ns, try_ns; /* of the meeting; of its second half; next attempt */
    uint64_t until_ns;         /* elastic: when it gives up to gather, or to connect with node 0 */
    uint64_t heard_ns, beat_ns; /* in WAITS: of node 0; to it. On node 0: to hosts that wait */
    uint64_t waited_ns;        /* on node 0: when it last heard hosts that wait */
    uint64_t refused_ns;       /* since when nobody listens at node 0's address; 0: somebody does */
    bool is_said, refuses;     /* refuses: this node cannot start */
    bool was_stopped;          /* a signal was sent in an earlier formation */
    uint16_t port;             /* where this node listens for its children; 0: it does not */
    DtGathered *gathered;      /* on node 0: by seat */
    uint32_t n_gathered;       /* that have a link */
    uint64_t came_ns;          /* when the last one came */
    DtRoster *roster;          /* on node 0 of an elastic run; the supervisor's */
    DtNewcomers *newcomers;
    DtGreeting greeting;
    DtMeet goal; /* with whom it connects */
    uint32_t tries;
    char why[200]; /* why the last try failed */
    DtAgentLink refuser; /* on node 0: one that is about to say why it cannot start */
    uint64_t refuser_ns;
    DtMessage refusal;
    bool has_route;            /* of WAITS: node 0 has said where this node belongs */
    DtMessage route;
    DtClusterPlan plan;

    DtClusterWaiter *waiters; /* by rank of this node */
    uint64_t told_ns;         /* when this node last told others of its waits */
    DtClusterStill *stills;   /* by rank of this node */
    uint64_t chained_ns;      /* when it last asked whether a wait belongs to a cycle */
    uint32_t chained;         /* how often it has looked at one */
    DtWatchEvent cycle;       /* that was found, if it is one */
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
/* Rank `other` of this node holds up `rank`, perhaps of another one, through waits that have lasted
 * `ms`, and have led `hops` times to another node (DtAgent.chain). */
void dt_cluster_note_chain(void *cluster, uint32_t rank, uint32_t other, uint32_t ms,
                           uint32_t hops);
/* Hears what has come from the neighbours, and looks at deadlines. */
void dt_cluster_pump(DtCluster *n, uint64_t now_ns);

/* ---- shared by cluster_meet.c and cluster_gather.c ---- */

void dt_cluster_fail(DtCluster *n, DtStatus status);
DtStatus dt_cluster_status_of(const DtMessage *m);
/* Listens for others. port 0: any. Sets n->port. */
DtStatus dt_cluster_listen(DtCluster *n, uint16_t port);
/* Why a newcomer is not taken, in ret_text or elsewhere; NULL: it is. is_there: so is another one
 * with its number. */
const char *dt_cluster_reason(const DtCluster *n, const DtHello *hello, bool is_there,
                              char ret_text[DT_WHY_BYTES]);
/* Answers a newcomer. Whether it is taken; else its connection is closed. */
bool dt_cluster_answer(DtCluster *n, DtNewcomer *one, bool is_there);
/* Makes this the node of a formation, of which nobody is connected yet. */
DtStatus dt_cluster_take_place(DtCluster *n, uint32_t nodes, uint32_t node, uint32_t ranks);

/* ---- cluster_gather.c: node 0 ---- */

void dt_cluster_gather(DtCluster *n, uint64_t now_ns);
/* Takes a host that has come, or one that is going to say why it cannot start. */
void dt_cluster_take_at_root(DtCluster *n, DtNewcomer *one, uint64_t now_ns);
/* Begins to tell all nodes, those that are here and those that come within ten seconds, why the run
 * does not start. */
void dt_cluster_begin_refusal(DtCluster *n, uint64_t now_ns);
/* Hears hosts that wait, and says to them that node 0 lives. */
void dt_cluster_hear_waiting(DtCluster *n, uint64_t now_ns);
/* Begins to gather anew, after a formation. */
void dt_cluster_gather_again(DtCluster *n, uint64_t now_ns);
/* Tells hosts that take no part how the run has ended. */
void dt_cluster_tell_waiting(DtCluster *n);

/* ---- cluster_plan.c ---- */

/* Takes a message about the plan of a neighbour. False: it may not say that. */
bool dt_cluster_hear_plan(DtCluster *n, uint32_t neighbour, const DtMessage *m);
/* Asks for what is missing, if it is time. */
void dt_cluster_ask_plan(DtCluster *n, uint64_t now_ns);
void dt_cluster_forget_plan(DtCluster *n);

#endif
