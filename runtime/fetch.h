/* SPDX-License-Identifier: Apache-2.0 */
/* Lets one rank read memory of other ranks (fetch.c). */
#ifndef DT_RUNTIME_FETCH_H
#define DT_RUNTIME_FETCH_H

#include "runtime/runtime.h"

typedef struct DtFetch DtFetch;

/* Bytes that this needs in the mapping, a multiple of 64. */
uint64_t dt_fetch_bytes(const DtPlan *plan);

/* area: dt_fetch_bytes() bytes in the rank's memory, zeroed at start, aligned to 64. */
DtFetch *dt_fetch_open(DtRank *rank, char *area);

/* These three work as the functions of DtCommOps with the same names. */
bool dt_fetch_get(DtFetch *fetch, uint32_t rank, uint32_t arena, int64_t offset, int64_t bytes,
                  void *ret_bytes);
bool dt_fetch_serve(DtFetch *fetch, uint32_t asker);
void dt_fetch_release(DtFetch *fetch);

#endif
