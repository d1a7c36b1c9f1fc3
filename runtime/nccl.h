/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL without its header: the functions that the runtime calls, by the names, types and numbers of
 * its API (docs.nvidia.com/deeplearning/nccl). Those that return an int return 0,
 * DT_NCCL_IN_PROGRESS of a communicator that does not block, or an error. */
#ifndef DT_RUNTIME_NCCL_H
#define DT_RUNTIME_NCCL_H

#include "base/arena.h"
#include "base/status.h"
#include "runtime/cuda_driver.h"

typedef struct DtNcclComm DtNcclComm; /* ncclComm_t is a pointer to it */

typedef struct DtNcclId { /* ncclUniqueId */
    char bytes[128];
} DtNcclId;

/* ncclConfig_t of version 2.28. With the size and number of 2.18 it ends before `name`. All later
 * versions read it and use defaults for later members. */
typedef struct DtNcclConfig {
    size_t size;
    unsigned magic, version;
    int blocking, cga_size, min_blocks, max_blocks;
    const char *net;
    int split_share, traffic_class;
    const char *name;
    int collnet, block_policy, shrink_share, nvls_blocks, channels_a_peer, nvlink_first;
} DtNcclConfig;

/* F(result, name in C, name in the library, arguments) */
#define DT_NCCL(F)                                                                               \
    F(int, get_version, "ncclGetVersion", (int *ret_version))                                    \
    F(int, new_id, "ncclGetUniqueId", (DtNcclId * ret_id))                                       \
    F(int, init, "ncclCommInitRankConfig",                                                       \
      (DtNcclComm * *ret_comm, int n_ranks, DtNcclId id, int rank, DtNcclConfig *config))        \
    F(int, split, "ncclCommSplit",                                                               \
      (DtNcclComm * comm, int color, int key, DtNcclComm **ret_comm, DtNcclConfig *config))      \
    F(int, finalize, "ncclCommFinalize", (DtNcclComm * comm))                                    \
    F(int, destroy, "ncclCommDestroy", (DtNcclComm * comm))                                      \
    F(int, abort, "ncclCommAbort", (DtNcclComm * comm))                                          \
    F(int, state, "ncclCommGetAsyncError", (DtNcclComm * comm, int *ret_state))                  \
    F(const char *, error_string, "ncclGetErrorString", (int error))                             \
    F(const char *, last_error, "ncclGetLastError", (DtNcclComm * comm))                         \
    F(int, group_start, "ncclGroupStart", (void))                                                \
    F(int, group_end, "ncclGroupEnd", (void))                                                    \
    F(int, all_reduce, "ncclAllReduce",                                                          \
      (uint64_t from, uint64_t to, size_t count, int type, int op, DtNcclComm *comm,             \
       DtCudaStream *stream))                                                                    \
    F(int, reduce_scatter, "ncclReduceScatter",                                                  \
      (uint64_t from, uint64_t to, size_t count, int type, int op, DtNcclComm *comm,             \
       DtCudaStream *stream))                                                                    \
    F(int, all_gather, "ncclAllGather",                                                          \
      (uint64_t from, uint64_t to, size_t count, int type, DtNcclComm *comm,                     \
       DtCudaStream *stream))                                                                    \
    F(int, send, "ncclSend",                                                                     \
      (uint64_t from, size_t count, int type, int peer, DtNcclComm *comm, DtCudaStream *stream)) \
    F(int, recv, "ncclRecv",                                                                     \
      (uint64_t to, size_t count, int type, int peer, DtNcclComm *comm, DtCudaStream *stream))

/* Functions for windows (version 2.27 and later), which are looked up only if windows are wanted.
 * at: memory allocated by `alloc`; all members of the communicator register equally many bytes. The
 * registration is complete when the communicator's state says so. */
typedef struct DtNcclWindow DtNcclWindow; /* ncclWindow_t is a pointer to it */
#define DT_NCCL_WINDOWS(F)                                                                   \
    F(int, alloc, "ncclMemAlloc", (uint64_t * ret_at, size_t bytes))                         \
    F(int, free, "ncclMemFree", (uint64_t at))                                               \
    F(int, add, "ncclCommWindowRegister",                                                    \
      (DtNcclComm * comm, uint64_t at, size_t bytes, DtNcclWindow * *ret_window, int flags)) \
    F(int, drop, "ncclCommWindowDeregister", (DtNcclComm * comm, DtNcclWindow * window))     \
    F(const char *, error_string, "ncclGetErrorString", (int error))

typedef struct DtNcclWindows {
#define DT_NCCL_MEMBER(RESULT, NAME, SYMBOL, ARGUMENTS) RESULT(*NAME) ARGUMENTS;
    DT_NCCL_WINDOWS(DT_NCCL_MEMBER)
#undef DT_NCCL_MEMBER
} DtNcclWindows;

typedef struct DtNccl {
#define DT_NCCL_MEMBER(RESULT, NAME, SYMBOL, ARGUMENTS) RESULT(*NAME) ARGUMENTS;
    DT_NCCL(DT_NCCL_MEMBER)
#undef DT_NCCL_MEMBER
    int version; /* version as a number: 22809 is 2.28.9 */
} DtNccl;

enum { /* values of NCCL's enumerations */
    DT_NCCL_IN_PROGRESS = 7,
    DT_NCCL_SYSTEM_ERROR = 2,
    DT_NCCL_INVALID_USAGE = 5,
    DT_NCCL_REMOTE_ERROR = 6,
    DT_NCCL_NO_COLOR = -1,
    DT_NCCL_BYTES = 1, /* ncclUint8 */
    DT_NCCL_WINDOW_DEFAULT = 0,
    DT_NCCL_WINDOW_SYMMETRIC = 1, /* all members' collectives access the window at equal offsets */
    DT_NCCL_NO_BLOCKS = 2,        /* the policy in ncclConfig_t: copy engines instead of kernels,
                                   * where they can do the operation */
    DT_NCCL_NONE = -1,
    DT_NCCL_COPIES_SINCE = 22800 /* the first version that can gather by copy engines, and has the
                                  * policy in its config */
};

/* Loads the library. Errors: there is none, or it is older than 2.18. */
DtStatus dt_nccl_open(DtArena *arena, DtNccl *ret_nccl);

/* Looks up the functions for windows. Errors: there is no library, or it is older than 2.27. */
DtStatus dt_nccl_open_windows(DtArena *arena, DtNcclWindows *ret_windows);

/* Configuration of a communicator whose calls do not block. copies: from 2.28 on, gathers use copy
 * engines. */
DtNcclConfig dt_nccl_config(bool copies);

/* How NCCL reduces elements of this dtype: its numbers of the type and of the operation. False: it
 * cannot. A bool is a byte that is 0 or 1; its sum, `or`, is the maximum. */
bool dt_nccl_reduction(uint32_t dtype, uint32_t reduce, int *ret_type, int *ret_op);

#endif
