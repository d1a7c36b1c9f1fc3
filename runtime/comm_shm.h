/* SPDX-License-Identifier: Apache-2.0 */
/* For communicators of several hosts (hosts.h): what the members of one host do together in a
 * collective of members of several hosts (comm_shm.c). It begins by a meeting, after which each of
 * them can read what the others send, and write where they receive if that is in the mapping. It
 * ends when all part. */
#ifndef DT_RUNTIME_COMM_SHM_H
#define DT_RUNTIME_COMM_SHM_H

#include "runtime/comm_mark.h"

typedef enum DtShmKind {
    DT_SHM_ALL_REDUCE = 1,
    DT_SHM_ALL_GATHER,
    DT_SHM_REDUCE_SCATTER,
    DT_SHM_ALL_TO_ALL,
    DT_SHM_BARRIER,
    DT_SHM_SHIFT /* and the way, of shift.h */
} DtShmKind;
const char *dt_comm_shm_kind(uint32_t kind); /* its name */

typedef struct DtShmCall {
    DtShmKind kind;
    DtPlanDtype dtype;
    DtPlanReduce reduce;
    int64_t count;
    DtPlaceAt to, from;
} DtShmCall;

/* here: the members on this host, as `dt_cluster_here` says. mark: what the rank is at in the whole
 * group. False: the members disagree, or the run is to stop. */
bool dt_comm_shm_meet(DtComm *shm, const DtRankGroup *here, const DtShmCall *call,
                      const DtCommMark *mark);
bool dt_comm_shm_part(DtComm *shm, const DtRankGroup *here);
/* After a meeting: where member number `member` of `here` has what it sends; where it receives,
 * NULL: not in the mapping. */
char *dt_comm_shm_from(const DtComm *shm, const DtRankGroup *here, uint32_t member);
char *dt_comm_shm_to(const DtComm *shm, const DtRankGroup *here, uint32_t member);

/* Whether ranks of this host can access the place. */
bool dt_comm_shm_shares(const DtComm *shm, DtPlaceAt place);
/* Memory of this rank that the others can access, DT_SHM_BOUNCE bytes. A place in it is named by
 * dt_comm_shm_bounced. */
enum { DT_SHM_BOUNCE = 1 << 16 };
char *dt_comm_shm_bounce(const DtComm *shm);
DtPlaceAt dt_comm_shm_bounced(const DtComm *shm);

/* The slot in which waits are published; that of the rank at first. */
void dt_comm_shm_says(DtComm *shm, DtSlot *slot);

#endif
