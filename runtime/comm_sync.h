/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for other ranks through words in the shared mapping (comm_sync.c); and the sizes of areas
 * there. */
#ifndef DT_RUNTIME_COMM_SYNC_H
#define DT_RUNTIME_COMM_SYNC_H

#include "runtime/runtime.h"

/* How a wait ended. STOPPED: the abort word is set, or the rank waited for failed. LOST: that rank
 * has ended and will never come. LATE: the deadline has passed. */
typedef enum DtSyncResult { DT_SYNC_OK, DT_SYNC_STOPPED, DT_SYNC_LOST, DT_SYNC_LATE } DtSyncResult;

/* Says which rank is waited for at the moment of the call; UINT32_MAX: none. */
typedef uint32_t DtSyncWho(const void *context);

typedef struct DtSyncWait {
    const DtRank *rank; /* the rank that waits */
    DtSlot *slot;       /* where the wait is published; that of the rank, or another one */
    DtSyncWho *who;
    const void *context;
    uint64_t deadline_ns; /* longest wait; 0: none */
    uint32_t lost;        /* the rank waited for; set if the result is LOST or LATE */
} DtSyncWait;

/* Prepares a wait of the rank. Its time limit is 2 s longer than --timeout: the supervisor acts
 * first, and this limit is for the case that it cannot. */
DtSyncWait dt_sync_new(const DtRank *rank, DtSyncWho *who, const void *context);

/* Waits while the word still has the value `old`. Everything that other ranks wrote before they
 * raised the word is visible afterwards. */
DtSyncResult dt_sync_wait(DtSyncWait *wait, DtSyncWord *word, uint32_t old);

/* Turns the result of a wait into a failure of the rank; true: it ended well. what: appended to
 * the names of the ranks, "" or " (...)". */
bool dt_sync_report(DtRank *rank, DtSyncResult result, const DtSyncWait *wait, const char *what);

/* A wait for rank `who`, or for one that it stands for, through a socket: is_over of DtSocketWait,
 * with a DtSyncFar. Publishes each look. dt_shared_go_on ends it. */
typedef struct DtSyncFar {
    const DtRank *rank;
    uint32_t who;
} DtSyncFar;
bool dt_sync_look(void *far);

/* Whether the run is ended by another failure, which explains that a connection of this rank is
 * gone. Waits up to 3 s for that: the tree of agents may hear of it later than this rank. */
bool dt_sync_others_failed(const DtRank *rank);

/* Sleeps for at most 20 ms while the word has the value `old`. */
void dt_sync_sleep(DtSyncWord *word, uint32_t old);

/* Adds one to the word (publishing all earlier writes) and wakes its sleepers. */
void dt_sync_raise(DtSyncWord *word);

/* Bytes of an area of the mapping, in 128 bits so that sizes from a plan cannot overflow; saturates
 * far above the memory of any machine. */
__extension__ typedef unsigned __int128 DtSyncWide;
uint64_t dt_sync_area(DtSyncWide bytes);

#endif
