/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends to whom in a shift. */
#ifndef DT_RUNTIME_SHIFT_H
#define DT_RUNTIME_SHIFT_H

#include "base/pairs.h"

#include <stdbool.h>

/* A member gets what the member before has (member 0: the last), what the one after has (the last:
 * member 0), or what its partner has in round way - DT_SHIFT_PAIRS, which may be itself. */
enum { DT_SHIFT_BEFORE, DT_SHIFT_AFTER, DT_SHIFT_PAIRS };

/* Of n members, the one from which member i gets its elements. */
static inline uint32_t dt_shift_from(uint32_t way, uint32_t n, uint32_t i)
{
    return way >= DT_SHIFT_PAIRS ? (uint32_t)dt_pairs_partner(n, way - DT_SHIFT_PAIRS, i)
                                 : (i + (way == DT_SHIFT_AFTER ? 1 : n - 1)) % n;
}

/* The one that gets those of member i. */
static inline uint32_t dt_shift_to(uint32_t way, uint32_t n, uint32_t i)
{
    return dt_shift_from(way < DT_SHIFT_PAIRS ? DT_SHIFT_AFTER - way : way, n, i);
}

#endif
