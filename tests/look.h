/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DT_TESTS_LOOK_H
#define DT_TESTS_LOOK_H

#include "runtime/device.h"

/* Where the memory of a rank on a processor is. */
static inline char *look_at(const DtRank *rank, uint32_t arena, int64_t offset)
{
    return dt_device_seen(rank, dt_device_place(rank, arena, offset, 0));
}

#endif
