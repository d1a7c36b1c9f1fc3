/* SPDX-License-Identifier: Apache-2.0 */
/* A rank at work: shared by train.c and the tests, which run ranks as threads. */
#ifndef DT_RUNTIME_TRAIN_H
#define DT_RUNTIME_TRAIN_H

#include "runtime/banner.h"
#include "runtime/runtime.h"

struct DtTrialRun;

typedef struct DtRun {
    DtRank rank;
    DtProgress progress;
    DtRunTotals totals; /* on rank 0 */
    DtLog *log; /* on rank 0 */
    /* by number of the loss */
    const DtPlanMetric *loss[DT_PLAN_MAX_OBJECTIVES], *grad_norm[DT_PLAN_MAX_OBJECTIVES];
    int64_t first_step; /* number of steps done before this run */
    uint64_t useful_ns; /* time of the steps of all attempts whose result this run has */
    int64_t saved;      /* number of steps in the last checkpoint of this run, or -1 */
    int64_t saving;     /* number of steps in the checkpoint that is being written, or -1 */
    uint64_t saving_ns; /* when it began to be written */
    const char *if_not; /* what becomes of the run if it is not saved */
    int64_t not_saved;  /* number of saves that failed */
    bool unproven;      /* on rank 0: no step has begun yet with the last checkpoint's values, so
                         * older checkpoints are kept */
    int64_t sound;      /* number of steps after the last one that was not skipped */
    bool interrupted;
    bool regroups;      /* interrupted, since other hosts take part then */
    bool is_over;       /* the held-out loss falls no longer: `patience` */
    DtTraffic traffic;
    struct DtStragglers *stragglers; /* NULL: nothing is measured */
    double *sums;       /* sums of evaluations, by METR record */
    struct DtTrialRun *trial; /* NULL: there is none */
} DtRun;

/* What one turn of a step has computed. */
typedef struct DtTurn {
    double loss, grad_norm; /* grad_norm -1: the plan has none, or the update did not run */
} DtTurn;

/* Runs the entries "step" and "update" of that loss; "update" only if the loss is finite, or in a
 * trial. An update whose norm is not finite changes nothing. False after a failure. */
bool dt_train_turn(DtRun *run, uint32_t objective, DtTurn *ret_turn);

/* spoilt.c: repeats a turn whose loss or norm is not finite. All ranks call it. what: its name for
 * messages. If the same quantity is not finite again, returns true; *ret_origin is then the rank
 * that made the first such value (the place is in its slot), or UINT32_MAX if that is not known.
 * Otherwise fails, since a device computed wrongly, and names the rank that gave such a value to
 * others first. */
bool dt_spoilt_repeat(DtRun *run, uint32_t objective, const DtTurn *first, const char *what,
                      uint32_t *ret_origin);

/* Everything that a rank does between dt_load_rank and dt_load_close. Returns the exit code of the
 * rank. */
int dt_train_loaded(DtRun *run);

/* trace.c: joins the parts of all ranks into the file `path`; removes the parts of ranks that were
 * killed. */
DtStatus dt_trace_join(const DtTrace *trace, const char *path);
void dt_trace_drop(const char *path, uint32_t n_ranks);

#endif
