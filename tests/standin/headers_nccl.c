/* SPDX-License-Identifier: Apache-2.0 */
/* Compares runtime/nccl.h with NCCL's header. */
#include <nccl.h>

#include "headers_same.h"
#include "runtime/nccl.h"

SAME(sizeof(ncclUniqueId), sizeof(DtNcclId))
SAME(ncclInProgress, DT_NCCL_IN_PROGRESS)
SAME(ncclSystemError, DT_NCCL_SYSTEM_ERROR)
SAME(ncclInvalidUsage, DT_NCCL_INVALID_USAGE)
SAME(ncclRemoteError, DT_NCCL_REMOTE_ERROR)
SAME(NCCL_SPLIT_NOCOLOR, DT_NCCL_NO_COLOR)
SAME(ncclUint8, DT_NCCL_BYTES)
SAME_PLACE(ncclConfig_t, size, DtNcclConfig, size)
SAME_PLACE(ncclConfig_t, magic, DtNcclConfig, magic)
SAME_PLACE(ncclConfig_t, version, DtNcclConfig, version)
SAME_PLACE(ncclConfig_t, blocking, DtNcclConfig, blocking)
SAME_PLACE(ncclConfig_t, cgaClusterSize, DtNcclConfig, cga_size)
SAME_PLACE(ncclConfig_t, minCTAs, DtNcclConfig, min_blocks)
SAME_PLACE(ncclConfig_t, maxCTAs, DtNcclConfig, max_blocks)
SAME_PLACE(ncclConfig_t, netName, DtNcclConfig, net)
SAME_PLACE(ncclConfig_t, splitShare, DtNcclConfig, split_share)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
SAME_PLACE(ncclConfig_t, trafficClass, DtNcclConfig, traffic_class)
SAME_PLACE(ncclConfig_t, commName, DtNcclConfig, name)
SAME_PLACE(ncclConfig_t, collnetEnable, DtNcclConfig, collnet)
SAME_PLACE(ncclConfig_t, CTAPolicy, DtNcclConfig, block_policy)
SAME_PLACE(ncclConfig_t, shrinkShare, DtNcclConfig, shrink_share)
SAME_PLACE(ncclConfig_t, nvlsCTAs, DtNcclConfig, nvls_blocks)
SAME_PLACE(ncclConfig_t, nChannelsPerNetPeer, DtNcclConfig, channels_a_peer)
SAME_PLACE(ncclConfig_t, nvlinkCentricSched, DtNcclConfig, nvlink_first)
SAME(NCCL_WIN_DEFAULT, DT_NCCL_WINDOW_DEFAULT)
SAME(NCCL_WIN_COLL_SYMMETRIC, DT_NCCL_WINDOW_SYMMETRIC)
SAME(NCCL_CTA_POLICY_ZERO, DT_NCCL_NO_BLOCKS)
#endif
