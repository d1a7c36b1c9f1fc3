/* SPDX-License-Identifier: Apache-2.0 */
/* What nccl_links.c, nccl_join.c and nccl_windows.c share. */
#ifndef DT_RUNTIME_NCCL_INTERNAL_H
#define DT_RUNTIME_NCCL_INTERNAL_H

#include "runtime/nccl_links.h"

enum {
    DT_NCCL_PENDING = 256 /* the most operations in progress at a time; a rank with so many waits
                           * for the oldest */
};

/* An operation in progress. Its events are made when they are first needed. */
typedef struct DtNcclPending {
    DtCudaEvent *before, *after; /* recorded on the operation's stream */
    DtCudaEvent *awaited;        /* recorded on the stream of instructions, before the first
                                  * instruction that waits for the operation */
    DtNcclLink *link;
    uint32_t number, inst; /* number of the operation in its link; number of its instruction */
    bool is_awaited, has_ended;
} DtNcclPending;

typedef struct DtNcclHeld DtNcclHeld;

struct DtNcclLinks {
    DtRank *rank;
    DtNccl nccl;
    DtCudaWork work;
    DtNcclComm *world;
    DtNcclQueue *queues; /* groups as in the plan, then channels */
    uint32_t n_queues;
    DtNcclLink *links; /* number of groups, the group of all ranks, number of channels */
    uint32_t n_links;
    _Atomic uint32_t *gpus, *arrived; /* in the mapping: by rank; [rank * n_links + link] */
    DtNcclPending *pending;           /* a ring buffer of operations */
    uint32_t first, n_pending, look;  /* look: number of the last look at all operations */
    uint64_t n_forgotten;             /* number of operations that have left the ring buffer */
    uint64_t *under;                  /* by event: 1 + number of its operation among all; 0: no
                                       * operation has the event */
    DtCudaEvent *here;                /* a place on the stream of instructions */
    DtNcclHeld *held;                 /* the list of windows, the newest first */
    bool is_serial;                   /* each operation waits for the previous one */
    bool is_aborted;
};

/* Waits until the communicator's last call, whose result is given, has completed. */
bool dt_nccl_links_settle(DtNcclLinks *links, DtNcclComm *comm, int result);
/* The same as dt_nccl_links_wait, for one stream. */
bool dt_nccl_links_drain(DtNcclLinks *links, DtCudaStream *stream);
void dt_nccl_links_abort(DtNcclLinks *links);

/* nccl_windows.c: deregisters the windows when no operation is in progress any more. False: the run
 * is to stop. */
bool dt_nccl_windows_close(DtNcclLinks *links);
/* Whether the communicator of this link (the number of a group, or n_groups: of all ranks) is to
 * gather by copy engines: windows are in use, NCCL is 2.28 or later, and the group gathers while
 * later instructions run. */
bool dt_nccl_windows_copies(const DtNcclLinks *links, uint32_t link);

#endif
