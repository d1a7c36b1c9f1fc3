/* SPDX-License-Identifier: Apache-2.0 */
/* What nccl_links.c, nccl_join.c and nccl_windows.c share. */
#ifndef DT_RUNTIME_NCCL_INTERNAL_H
#define DT_RUNTIME_NCCL_INTERNAL_H

#include "runtime/nccl_links.h"

enum {
    DT_NCCL_PENDING = 256 /* operations on their way at most; a rank waits for the oldest then */
};

/* An operation on its way. Events are made when first needed. */
typedef struct DtNcclPending {
    DtCudaEvent *before, *after; /* on its stream */
    DtCudaEvent *awaited;        /* recorded on the stream of instructions, before the first one
                                  * that waits for the operation */
    DtNcclLink *link;
    uint32_t number, inst; /* of the operation in its link; of its instruction */
    bool is_awaited, has_ended;
} DtNcclPending;

typedef struct DtNcclHeld DtNcclHeld;

struct DtNcclLinks {
    DtRank *rank;
    DtNccl nccl;
    DtCudaWork work;
    DtNcclComm *world;
    DtNcclQueue *queues; /* as in the plan, then channels */
    uint32_t n_queues;
    DtNcclLink *links; /* groups, all ranks, channels */
    uint32_t n_links;
    _Atomic uint32_t *gpus, *arrived; /* in the mapping: by rank; [rank * n_links + link] */
    DtNcclPending *pending;           /* a ring */
    uint32_t first, n_pending, look;  /* look: number of the last one */
    uint64_t n_forgotten;             /* operations that have left the ring */
    uint64_t *under;                  /* by event: 1 + number of its operation among all, 0: no
                                       * instruction waits for one */
    DtCudaEvent *here;                /* a place on the stream of instructions */
    DtNcclHeld *held;                 /* windows, the newest first */
    bool is_serial;                   /* each operation waits for the one before it */
    bool is_aborted;
};

/* Waits until the communicator's last call, with this result, has completed. */
bool dt_nccl_links_settle(DtNcclLinks *links, DtNcclComm *comm, int result);
/* As dt_nccl_links_wait, for a stream. */
bool dt_nccl_links_drain(DtNcclLinks *links, DtCudaStream *stream);
void dt_nccl_links_abort(DtNcclLinks *links);

/* nccl_windows.c: takes windows back, once nothing is on its way. False: the run is to stop. */
bool dt_nccl_windows_close(DtNcclLinks *links);
/* Whether the communicator of the link of this number is to gather by copy engines. */
bool dt_nccl_windows_copies(const DtNcclLinks *links, uint32_t link);

#endif
