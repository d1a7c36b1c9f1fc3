/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the supervisor:
 *
 *   supervisor.c  starts ranks, watches them, and says which failed
 *   formation.c   for a run that goes on without lost hosts or ranks: by which plan, and where */
#ifndef DT_RUNTIME_SUPERVISOR_INTERNAL_H
#define DT_RUNTIME_SUPERVISOR_INTERNAL_H

#include "runtime/cluster.h"
#include "runtime/elastic.h"
#include "runtime/outputs.h"
#include "runtime/roster.h"
#include "runtime/tasks.h"
#include "runtime/watch.h"

#include <signal.h>
#include <sys/types.h>

enum { DT_SUPERVISOR_LOOK_NS = 100000000 };

/* What the user started: it stays, while ranks, nodes and plan change. */
typedef struct DtGiven {
    const DtRunOptions *options;
    const DtPlan *plan;
    int argc;
    char *const *argv;
} DtGiven;

typedef struct DtSupervisor {
    DtGiven given;
    const DtRunOptions *options;
    const DtPlan *plan;
    int argc;
    char *const *argv;
    uint32_t n_ranks;
    uint32_t first, n_local; /* ranks that it starts: with several nodes only those of this node */
    DtCluster *cluster;        /* connections to the other nodes; NULL: there are none */
    DtTasks *tasks;            /* a launcher's other tasks on this host; NULL: there are none */
    bool is_apart;             /* the nodes did not start together, so they need not agree on the
                                * end */
    sigset_t signals; /* signals that are waited for; they are blocked otherwise */
    DtShared *shared; /* the mapping of this attempt */
    int fd;
    pid_t *pids; /* process number of a rank; 0: it has ended */
    uint32_t n_alive;
    DtWatch *watch;
    DtWatchSample *samples;
    DtOutputs outputs;
    uint32_t attempt;   /* number of this one, over all restarts */
    bool has_lost;      /* a rank of this node was killed, hung or was stopped in this attempt */
    bool leaves;        /* only this node ends */
    int64_t lost_node;  /* the node whose rank that was, if the attempt failed by it; else -1 */
    int64_t saved_step; /* of the newest checkpoint of this run; -1: there is none */
    bool has_saved; /* an earlier attempt has saved a checkpoint */
    uint64_t first_ns, useful_ns; /* DtShared: of the first attempt; up to that checkpoint */
    uint32_t stops; /* number of requests to stop, in all attempts */
    uint64_t stop_ns; /* dt_now_ns() at the first of them */
    int code;       /* exit code of the first failure, or DT_EXIT_OK, or DT_EXIT_INTERRUPTED */
    bool failed;
    uint64_t failed_ns; /* dt_now_ns() when it failed */

    /* formation.c, with --elastic and --spares */
    DtRoster roster;
    DtFormation formation; /* where the ranks are now */
    DtElastic *elastic;    /* NULL: the run is not elastic */
    DtStatus why;          /* why the last plan could not be made */
    uint32_t said_ranks;   /* for which it has said that it compiles, or can go on */
    DtFormation next;      /* where ranks could be, with hosts that wait, or without one more */
    uint64_t looked_ns;    /* when it last looked for that */
    uint64_t ahead_ns;     /* no plan is made ahead before that time */
    bool is_unsaved;       /* a checkpoint was not saved before other hosts took part */
    bool has_asked;        /* for the end of the run */
    DtPlanFile fewer;      /* the plan for fewer ranks; all zero: ranks have the given one */
    DtRunOptions own;      /* options of this node, with the plan's path */
    char *path, **words, numbers[2][24]; /* of the words that start ranks; NULL: the given ones */
} DtSupervisor;

/* Takes a signal that has come, or that the program hands on which started this one: its number;
 * -1: that program has gone; 0: there is none. */
int dt_supervisor_asked(const DtSupervisor *all);

/* Whether ranks may run on this machine: their number and memory. Compiles kernels for this
 * processor, if that is necessary. */
DtStatus dt_supervisor_check(const DtRunOptions *options, const DtPlan *plan);

/* Prepares for a run with --elastic, if it is one. */
DtStatus dt_formation_open(DtSupervisor *all);
void dt_formation_close(DtSupervisor *all);
/* Of several hosts: finds the others for the first time, and makes a formation of them. False: the
 * run ends, with all->code, and the user knows why. */
bool dt_formation_meet(DtSupervisor *all, uint64_t words, bool (*is_over)(void *context));
/* Node 0, while ranks run: lets them end after a save if hosts wait that the run can use, and has
 * plans made ahead. */
void dt_formation_look(DtSupervisor *all);
/* Node 0, after an attempt: whether the run goes on with other ranks or hosts. */
bool dt_formation_wanted(DtSupervisor *all);
/* Then: makes a formation, with all hosts that are there. Returns as dt_formation_meet. */
bool dt_formation_make(DtSupervisor *all);

#endif
