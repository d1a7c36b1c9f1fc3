/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device for host code, which cannot follow its addresses: what is put there, got from
 * there, or looked at in a copy. Where the device's memory is the host's, nothing is copied twice.
 * All functions see what instructions before them have done, and instructions behind them see what
 * they did. */
#ifndef DT_RUNTIME_DEVICE_H
#define DT_RUNTIME_DEVICE_H

#include "runtime/runtime.h"

/* Bytes of an arena of this rank. */
DtPlaceAt dt_device_place(const DtRank *rank, uint32_t arena, int64_t offset, int64_t bytes);
/* Memory of the process: its address for a device that is the host, and as collectives take it. */
static inline DtDeviceAt dt_device_at(const void *host)
{
    return (DtDeviceAt){(uint64_t)(uintptr_t)host};
}
DtPlaceAt dt_device_of_host(void *at, int64_t bytes);
/* From byte `by` of the place on. */
DtPlaceAt dt_device_from(DtPlaceAt place, int64_t by);

void dt_device_put(const DtRank *rank, DtPlaceAt to, const void *from, int64_t bytes);
void dt_device_get(const DtRank *rank, void *to, DtPlaceAt from, int64_t bytes);
/* Within this rank. */
void dt_device_copy(const DtRank *rank, DtPlaceAt to, DtPlaceAt from, int64_t bytes);

/* Where host code may read and write a place itself; NULL: nowhere. */
char *dt_device_seen(const DtRank *rank, DtPlaceAt place);

/* Access of host code to a place: to the memory itself if possible, else to a copy, which is
 * written back if it was changed. */
typedef struct DtLent {
    char *at;
    DtPlaceAt place;
    bool is_copy, is_staged; /* staged: in memory from which the device copies by itself */
    /* holds a copy that is larger than the rank's buffer for instructions; else NULL */
    DtArena *own;
} DtLent;
DtLent dt_device_lend(const DtRank *rank, DtPlaceAt place);
/* For a caller who overwrites all of it: the present contents are not copied. */
DtLent dt_device_lend_new(const DtRank *rank, DtPlaceAt place);
void dt_device_back(const DtRank *rank, DtLent *lent, bool written);
/* The same before the place is known: bytes that the device copies asynchronously; the caller sets
 * the place before they are sent. False: there is no such memory, or none is free. */
bool dt_device_lend_ahead(const DtRank *rank, int64_t bytes, DtLent *ret_lent);

/* Bytes that any one instruction of the plan reads from files, at most; none for a device that is
 * the host. */
int64_t dt_device_reads(const DtRank *rank);
/* Memory for copies that the device does not make by itself, when a rank is loaded. */
DtLending *dt_device_lending_new(DtRank *rank);

#endif
