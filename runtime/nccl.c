/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/nccl.h"

#include "base/cudalib.h"
#include "plan/kinds.h"

#include <limits.h>

enum { OLDEST = 21800, WINDOWS_SINCE = 22700, MAGIC = (int)0xcafebeef };

static const char *const versions[] = {"2", NULL};
static const DtCudaLib library = {"nccl", versions,
                                  "package libnccl2, or nvidia-nccl-cu13 of PyPI. Without it ranks "
                                  "talk through memory of the host: --comm shm"};
#define NAME(RESULT, MEMBER, SYMBOL, ARGUMENTS) SYMBOL,

DtStatus dt_nccl_open(DtArena *arena, DtNccl *ret_nccl)
{
    static const char *const names[] = {DT_NCCL(NAME)};
    DtStatus status =
        dt_cudalib_open(arena, &library, sizeof names / sizeof names[0], names, (void **)ret_nccl);
    if (!dt_status_ok(&status))
        return status;
    if (ret_nccl->get_version(&ret_nccl->version) != 0 || ret_nccl->version < OLDEST)
        return dt_status_fail(DT_EXIT_FAILED,
                              "the libnccl found here is version %d.%d, and %d.%d is the oldest "
                              "that will do; --comm shm "
                              "needs none",
                              ret_nccl->version / 10000, ret_nccl->version % 10000 / 100,
                              OLDEST / 10000, OLDEST % 10000 / 100);
    return DT_OK;
}

DtStatus dt_nccl_open_windows(DtArena *arena, DtNcclWindows *ret_windows)
{
    static const char *const names[] = {DT_NCCL_WINDOWS(NAME)};
    DtNccl nccl;
    const DtStatus status = dt_nccl_open(arena, &nccl);
    if (!dt_status_ok(&status))
        return status;
    if (nccl.version < WINDOWS_SINCE)
        return dt_status_fail(DT_EXIT_FAILED,
                              "the libnccl found here is version %d.%d, and --windows needs %d.%d",
                              nccl.version / 10000, nccl.version % 10000 / 100,
                              WINDOWS_SINCE / 10000, WINDOWS_SINCE % 10000 / 100);
    return dt_cudalib_open(arena, &library, sizeof names / sizeof names[0], names,
                           (void **)ret_windows);
}
#undef NAME

DtNcclConfig dt_nccl_config(bool copies)
{
    return (DtNcclConfig){.size = copies ? sizeof(DtNcclConfig) : offsetof(DtNcclConfig, name),
                          .magic = (unsigned)MAGIC,
                          .version = copies ? DT_NCCL_COPIES_SINCE : OLDEST,
                          .blocking = 0,
                          .cga_size = INT_MIN,
                          .min_blocks = INT_MIN,
                          .max_blocks = INT_MIN,
                          .split_share = INT_MIN,
                          .traffic_class = INT_MIN,
                          .collnet = INT_MIN,
                          .block_policy = copies ? DT_NCCL_NO_BLOCKS : INT_MIN,
                          .shrink_share = INT_MIN,
                          .nvls_blocks = INT_MIN,
                          .channels_a_peer = INT_MIN,
                          .nvlink_first = INT_MIN};
}

bool dt_nccl_reduction(uint32_t dtype, uint32_t reduce, int *ret_type, int *ret_op)
{
    static const int types[DT_PLAN_DTYPES] = {
        [DT_PLAN_BOOL] = 1, [DT_PLAN_U8] = 1,   [DT_PLAN_U16] = DT_NCCL_NONE,
        [DT_PLAN_U32] = 3,  [DT_PLAN_I32] = 2,  [DT_PLAN_I64] = 4,
        [DT_PLAN_F16] = 6,  [DT_PLAN_BF16] = 9, [DT_PLAN_F32] = 7,
        [DT_PLAN_F64] = 8};
    static const int ops[DT_PLAN_REDUCES] = {[DT_PLAN_SUM] = 0, [DT_PLAN_MAX] = 2,
                                             [DT_PLAN_MIN] = 3};
    if (dtype >= DT_PLAN_DTYPES || reduce >= DT_PLAN_REDUCES || types[dtype] == DT_NCCL_NONE)
        return false;
    *ret_type = types[dtype];
    *ret_op = dtype == DT_PLAN_BOOL && reduce == DT_PLAN_SUM ? ops[DT_PLAN_MAX] : ops[reduce];
    return true;
}
