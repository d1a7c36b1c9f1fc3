/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

#include <string.h>

static const uint32_t of_host = UINT32_MAX; /* arena of a place that is the process's own memory */

DtPlaceAt dt_device_place(const DtRank *rank, uint32_t arena, int64_t offset, int64_t bytes)
{
    return (DtPlaceAt){{rank->arenas[arena].at + (uint64_t)offset}, arena, offset, bytes};
}

DtPlaceAt dt_device_of_host(void *at, int64_t bytes)
{
    return (DtPlaceAt){dt_device_at(at), of_host, 0, bytes};
}

DtPlaceAt dt_device_from(DtPlaceAt place, int64_t by)
{
    return (DtPlaceAt){{place.at.at + (uint64_t)by}, place.arena, place.offset + by, place.bytes - by};
}

char *dt_device_seen(const DtRank *rank, DtPlaceAt place)
{
    if (place.arena != of_host && !rank->device_ops->is_host)
        return NULL;
    return (char *)(uintptr_t)place.at.at; // NOLINT(performance-no-int-to-ptr)
}

void dt_device_put(const DtRank *rank, DtPlaceAt to, const void *from, int64_t bytes)
{
    char *seen = dt_device_seen(rank, to);
    if (seen)
        memcpy(seen, from, (size_t)bytes);
    else
        rank->device_ops->put(rank->device, to.at, from, bytes);
}

void dt_device_get(const DtRank *rank, void *to, DtPlaceAt from, int64_t bytes)
{
    const char *seen = dt_device_seen(rank, from);
    if (seen)
        memcpy(to, seen, (size_t)bytes);
    else
        rank->device_ops->get(rank->device, to, from.at, bytes);
}

void dt_device_copy(const DtRank *rank, DtPlaceAt to, DtPlaceAt from, int64_t bytes)
{
    const char *seen = dt_device_seen(rank, from);
    char *wanted = dt_device_seen(rank, to);
    if (seen)
        dt_device_put(rank, to, seen, bytes);
    else if (wanted)
        dt_device_get(rank, wanted, from, bytes);
    else
        rank->device_ops->copy(rank->device, to.at, from.at, bytes);
}

DtLent dt_device_lend(const DtRank *rank, DtPlaceAt place)
{
    DtLent lent = {.at = dt_device_seen(rank, place), .place = place};
    if (!lent.at) {
        lent.copy = dt_arena_new();
        lent.at = dt_arena_alloc(lent.copy, (size_t)place.bytes + 1);
        dt_device_get(rank, lent.at, place, place.bytes);
    }
    return lent;
}

void dt_device_back(const DtRank *rank, DtLent *lent, bool written)
{
    if (!lent->copy)
        return;
    if (written)
        dt_device_put(rank, lent->place, lent->at, lent->place.bytes);
    dt_arena_free(lent->copy);
}
