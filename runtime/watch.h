/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rank that holds up the others (watch.c). */
#ifndef DT_RUNTIME_WATCH_H
#define DT_RUNTIME_WATCH_H

#include "runtime/runtime.h"

/* What is seen of one rank at one moment. */
typedef struct DtWatchSample {
    bool alive;
    char state; /* of /proc: R runs, S sleeps, D waits for a device, T and t are stopped */
    /* loading, saving, reading data or printing: the rank may wait for something outside of the
     * program */
    bool reads_or_writes;
    bool is_elsewhere;   /* a rank of another machine, of which only its wait is known */
    bool waiting;        /* waiting for another rank */
    uint32_t waits_for;  /* the rank for which it waits, or UINT32_MAX */
    uint64_t wait_began_ns, wait_looked_ns; /* progress counter of the slot (shared.h) */
    uint32_t phase;
    uint64_t progress;
    uint32_t mark;      /* progress of its device (position.h) */
    uint64_t cpu_ns;    /* processor time that its thread has used so far */
    uint64_t sleeps;    /* in state R: how often its thread has gone to sleep; 0: not known */
    uint64_t began_ns;  /* when its present instruction began */
    uint64_t usual_ns;  /* the usual duration of this instruction; 0: not known */
} DtWatchSample;

typedef enum DtWatchKind {
    DT_WATCH_NOTHING,
    DT_WATCH_OUTSIDE, /* idle, but in an operation that may wait for a disk or a terminal */
    DT_WATCH_SLOW,    /* computes far longer than usual */
    DT_WATCH_OVER,    /* it has done its work, and its process does not end */
    DT_WATCH_STOPPED, /* from here on the run cannot go on */
    DT_WATCH_IDLE,
    DT_WATCH_CYCLE, /* ranks wait for each other */
    DT_WATCH_TIMEOUT
} DtWatchKind;

typedef struct DtWatchEvent {
    DtWatchKind kind;
    uint32_t rank;   /* the rank that delays the others */
    /* a rank that waits for it; of a cycle, the rank for which it waits; UINT32_MAX: none */
    uint32_t waiter;
    double seconds;  /* time without progress, or duration of the slow instruction */
} DtWatchEvent;

typedef struct DtWatch DtWatch;

/* timeout: seconds without progress that end the run; 0: none. has_others: ranks on other machines
 * may wait for any of these ranks, so a rank that is stopped is named even if no rank here waits
 * for it. NULL if there is no memory. */
DtWatch *dt_watch_new(uint32_t n_ranks, double timeout, bool has_others);
void dt_watch_free(DtWatch *watch);

/* Takes n_ranks samples of the moment now_ns (dt_now_ns) and names at most one rank. A rank is
 * named only once for the same standstill. Call it about ten times a second. */
DtWatchEvent dt_watch_step(DtWatch *watch, const DtWatchSample *samples, uint64_t now_ns);

/* Takes a sample of the process pid, whose rank has that slot. */
DtWatchSample dt_watch_sample(const DtPlan *plan, const DtSlot *slot, int pid);

#endif
