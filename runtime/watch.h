/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rank that holds up the others (watch.c). */
#ifndef DT_RUNTIME_WATCH_H
#define DT_RUNTIME_WATCH_H

#include "runtime/runtime.h"

/* State of one rank at one moment. */
typedef struct DtWatchSample {
    bool alive;
    char state; /* of /proc: R runs, S sleeps, D waits for a device, T and t are stopped */
    bool
        reads_or_writes; /* loading, saving, reading data or printing: may wait for something
                          * outside */
    bool waiting;        /* for another rank */
    uint32_t waits_for;  /* which one, or UINT32_MAX */
    uint64_t wait_began_ns, wait_looked_ns; /* of the slot (runtime.h) */
    uint32_t phase;
    uint64_t progress;
    uint32_t mark;      /* of its device (position.h) */
    uint64_t cpu_ticks; /* processor time used so far, in any unit */
    uint64_t began_ns;  /* when its instruction began */
    uint64_t usual_ns;  /* usual duration of that; 0: not known */
} DtWatchSample;

typedef enum DtWatchKind {
    DT_WATCH_NOTHING,
    DT_WATCH_OUTSIDE, /* idle, but in something that may wait for a disk or a terminal */
    DT_WATCH_SLOW,    /* computes far longer than usual */
    DT_WATCH_STOPPED, /* from here on the run cannot go on */
    DT_WATCH_IDLE,
    DT_WATCH_CYCLE, /* ranks wait for each other */
    DT_WATCH_TIMEOUT
} DtWatchKind;

typedef struct DtWatchEvent {
    DtWatchKind kind;
    uint32_t rank;   /* who holds the others up */
    uint32_t
        waiter; /* one who waits for it, of a cycle the one that it waits for; UINT32_MAX: nobody */
    double seconds;  /* without progress, or of the slow instruction */
} DtWatchEvent;

typedef struct DtWatch DtWatch;

/* timeout: seconds without progress that end the run; 0: none. has_others: ranks on other machines
 * may wait for any of these, so one that is stopped is named whoever waits for it here. NULL if
 * there is no memory. */
DtWatch *dt_watch_new(uint32_t n_ranks, double timeout, bool has_others);
void dt_watch_free(DtWatch *watch);

/* Takes n_ranks samples of the moment now_ns (dt_now_ns) and names at most one rank. The same
 * standstill of a rank is named once. Call it about ten times a second. */
DtWatchEvent dt_watch_step(DtWatch *watch, const DtWatchSample *samples, uint64_t now_ns);

/* Sample of the process pid with that slot. */
DtWatchSample dt_watch_sample(const DtPlan *plan, const DtSlot *slot, int pid);

#endif
