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
/* Memory of this process: as an address for a device whose memory is the host's, and as a place for
 * collectives. */
static inline DtDeviceAt dt_device_at(const void *host)
{
    return (DtDeviceAt){(uint64_t)(uintptr_t)host};
}
DtPlaceAt dt_device_of_host(void *at, int64_t bytes);
/* The place that is `by` bytes after this one. */
DtPlaceAt dt_device_from(DtPlaceAt place, int64_t by);

void dt_device_put(const DtRank *rank, DtPlaceAt to, const void *from, int64_t bytes);
void dt_device_get(const DtRank *rank, void *to, DtPlaceAt from, int64_t bytes);
/* Copies from one place to another within this rank. */
void dt_device_copy(const DtRank *rank, DtPlaceAt to, DtPlaceAt from, int64_t bytes);

/* The address at which host code can read and write a place directly; NULL: it cannot. */
char *dt_device_seen(const DtRank *rank, DtPlaceAt place);

/* Access of host code to a place: to the memory itself if possible, else to a copy, which is
 * written back if it was changed. */
typedef struct DtLent {
    char *at;
    DtPlaceAt place;
    bool is_copy, is_staged; /* staged: the copy is in memory from which the device copies by
                              * itself */
    /* a copy that is larger than the rank's buffer for instructions; else NULL */
    DtArena *own;
} DtLent;
DtLent dt_device_lend(const DtRank *rank, DtPlaceAt place);
/* For a caller that overwrites all of the place: its present contents are not copied. */
DtLent dt_device_lend_new(const DtRank *rank, DtPlaceAt place);
void dt_device_back(const DtRank *rank, DtLent *lent, bool written);
/* The same before the place is known: lends memory for bytes that the device will copy
 * asynchronously. The caller sets the place before it sends them. False: the device has no such
 * memory, or none is free. */
bool dt_device_lend_ahead(const DtRank *rank, int64_t bytes, DtLent *ret_lent);

/* The most bytes that one instruction of the plan reads from files; 0 for a device whose memory is
 * the host's. */
int64_t dt_device_reads(const DtRank *rank);
/* Allocates the memory for copies that the device does not make by itself; called when a rank is
 * loaded. */
DtLending *dt_device_lending_new(DtRank *rank);

#endif
