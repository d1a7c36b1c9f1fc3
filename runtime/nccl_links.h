/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's communicators of a rank, one for each group and each channel of the plan (nccl_join.c),
 * their windows (nccl_windows.c), their queues, and what is on its way in them (nccl_links.c).
 *
 * A queue is a stream of the GPU. Queue 0 is that of all instructions; each other one that the plan
 * names, and each end of a channel, is a stream of its own. An operation there begins when what was
 * put on the stream of instructions before it is done, and what is put there later waits for it
 * where the plan says so.
 *
 * Why no rank waits for ever. A GPU promises of two streams only that each goes on if the other one
 * does: kernels of NCCL that wait for other ranks may keep a later one from beginning, on whatever
 * stream. So it is not enough that all operations could go on at once. dtc puts the operations of
 * all stages in one order, in which every rank begins its own (passes/lower/order_messages.c); the
 * certificate proves that all ranks come to their ends even if each does one thing at a time, in
 * the order in which it was begun (verify/plan_run.c). One thread of a rank begins all. What a
 * device does must then follow what that thread did: NCCL sees to that from version 2.26 on
 * (NCCL_LAUNCH_ORDER_IMPLICIT=1); with an older one each operation waits for the one before it, on
 * whatever stream. Where a call of NCCL itself waits for other ranks, which the first message
 * between two does, to connect them, it is made when ranks are loaded, channel by channel. */
#ifndef DT_RUNTIME_NCCL_LINKS_H
#define DT_RUNTIME_NCCL_LINKS_H

#include "runtime/device_cuda.h"
#include "runtime/nccl.h"

typedef struct DtNcclQueue {
    DtCudaStream *stream; /* NULL: nothing of this rank needs the queue */
    DtDeviceAt sent, got; /* buffers into which strided blocks of its operations are packed */
    uint32_t look;        /* number of the last look that found the queue busy */
    struct DtNcclPending *head; /* its first operation that had not ended at that look */
} DtNcclQueue;

typedef struct DtNcclLink { /* the communicator of a group or of a channel */
    const uint32_t *ranks;  /* of a group: its list of members in DtRankGroup, which identifies
                             * it */
    uint32_t size, me;
    /* NULL: the group has one rank, this rank is no member, or messages go through the mapping */
    DtNcclComm *comm;
    DtNcclQueue *queue;
    DtCudaStream *stream; /* the stream of its operations: that of the queue; without comm, that of
                           * instructions */
    uint32_t begun;     /* number of operations that this rank has put on the stream */
    uint64_t received;
    uint32_t asked;     /* number of the last look at which its communicator was asked for its
                         * state */
    uint32_t number; /* groups as in the plan, the group of all ranks, then channels as in the
                      * plan */
} DtNcclLink;

typedef struct DtNcclLinks DtNcclLinks;

/* Bytes that this needs in the mapping of the ranks, a multiple of 64; 0 for plans for
 * processors. */
uint64_t dt_nccl_links_bytes(const DtPlan *plan);
/* Number of queues of a rank: those that the plan names, and one for each channel. */
uint32_t dt_nccl_links_queues(const DtPlan *plan);
/* The queue of an instruction that is a collective or message. */
uint32_t dt_nccl_links_queue_of(const DtPlan *plan, const DtPlanInst *inst);

/* Makes one communicator of all ranks, and from it those of groups and channels. All ranks call it.
 * meet: waits for all ranks. spare: some bytes of GPU memory. Errors: there is no library, two
 * ranks use the same GPU, NCCL reports an error, or a rank is missing. */
DtStatus dt_nccl_links_open(DtRank *rank, char *area, bool (*meet)(void *context), void *context,
                            DtDeviceAt spare, DtNcclLinks **ret_links);
/* The status of dt_nccl_links_open, that is, why the links could not be opened; for the message
 * when a rank is loaded. */
DtStatus dt_nccl_links_status(const DtNcclLinks *links);
/* Registers the memory that collectives access with NCCL, for --windows. side: bytes of a queue's
 * buffers for strided blocks. All ranks call it. */
bool dt_nccl_windows_open(DtNcclLinks *links, uint64_t (*side)(const DtRank *rank, uint32_t queue));
/* Closes the links after all started work, or, if the run has failed, at once. */
void dt_nccl_links_close(DtNcclLinks *links);

const DtNccl *dt_nccl_links_library(const DtNcclLinks *links);
const DtCudaWork *dt_nccl_links_work(const DtNcclLinks *links);
DtNcclQueue *dt_nccl_links_queue(const DtNcclLinks *links, uint32_t number);
DtNcclLink *dt_nccl_links_find(const DtNcclLinks *links, const DtRankGroup *group);
DtNcclLink *dt_nccl_links_channel(const DtNcclLinks *links, uint32_t channel);

/* Work that is put on the stream of the link's queue after this call waits for all earlier
 * instructions. */
bool dt_nccl_links_enter(DtNcclLinks *links, DtNcclLink *link);
/* The next instruction waits for the operation that was put there. If an event is given (its number
 * from 0; -1: none), the instructions after dt_nccl_links_await wait instead. */
bool dt_nccl_links_leave(DtNcclLinks *links, DtNcclLink *link, int64_t event);
bool dt_nccl_links_await(DtNcclLinks *links, int64_t event);

/* The two are called before and after NCCL's calls of one operation, which goes to the stream of
 * the link's queue. result: that of the last call. False after dt_rank_fail, or when the run is to
 * stop. */
bool dt_nccl_links_begin(DtNcclLinks *links, DtNcclLink *link);
bool dt_nccl_links_end(DtNcclLinks *links, DtNcclLink *link, int result);

/* Waits until all operations that instructions have begun are done. Meanwhile the rank's slot says
 * for which rank, and in which instruction, it waits. False: the run is to stop, or a rank came too
 * late; then all operations in progress were aborted. */
bool dt_nccl_links_wait(DtNcclLinks *links);
/* The same, but waits until is_done returns true. */
bool dt_nccl_links_until(DtNcclLinks *links, DtIsDone *is_done, void *context);

#endif
