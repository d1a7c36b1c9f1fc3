/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's communicators of a rank, one for each group of the plan, and what is on its way in them (nccl_links.c). */
#ifndef DT_RUNTIME_NCCL_LINKS_H
#define DT_RUNTIME_NCCL_LINKS_H

#include "runtime/device_cuda.h"
#include "runtime/nccl.h"

typedef struct DtNcclLink { /* a group */
    const uint32_t *ranks;  /* identifies it: the list in its DtRankGroup */
    uint32_t size, me;
    DtNcclComm *comm; /* NULL: of one rank, or this rank is no member */
    uint32_t begun;   /* operations that this rank has put on the stream */
    uint64_t received;
    uint32_t number; /* in the plan; that of all ranks is behind the last */
} DtNcclLink;

typedef struct DtNcclLinks DtNcclLinks;

/* Bytes wanted in the mapping of the ranks, a multiple of 64; none for plans that run on processors. */
uint64_t dt_nccl_links_bytes(const DtPlan *plan);

/* Joins the other ranks, all of which call it: one communicator of all, and those of groups made from it. meet: waits
 * for all ranks. Errors: no library, two ranks with one GPU, what NCCL says; and a rank that is missing. */
DtStatus dt_nccl_links_open(DtRank *rank, char *area, bool (*meet)(void *context), void *context,
                            DtNcclLinks **ret_links);
/* After what was begun, or if the run has failed at once, whatever is on its way. */
void dt_nccl_links_close(DtNcclLinks *links);

const DtNccl *dt_nccl_links_library(const DtNcclLinks *links);
const DtCudaWork *dt_nccl_links_work(const DtNcclLinks *links);
DtNcclLink *dt_nccl_links_find(const DtNcclLinks *links, const DtRankGroup *group);

/* Around the calls of one operation of a group, which go to the rank's stream. result: of the last call. False after
 * dt_rank_fail, or when the run is to stop. */
bool dt_nccl_links_begin(DtNcclLinks *links, DtNcclLink *link);
bool dt_nccl_links_end(DtNcclLinks *links, DtNcclLink *link, int result);

/* Waits until all that was begun on the stream is done; meanwhile the rank's slot says for whom, in which instruction.
 * False: the run is to stop, or a rank came too late; everything on its way was aborted. */
bool dt_nccl_links_wait(DtNcclLinks *links);

#endif
