/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions READ. Where the device copies from memory of the host by itself, what the next run
 * of an entry reads first is read while the device still does this one. Of several losses the data
 * of one may hold that memory until its next turn; others are read when they are needed then. */
#ifndef DT_RUNTIME_READING_H
#define DT_RUNTIME_READING_H

#include "runtime/runtime.h"

/* When a rank is loaded. */
void dt_reading_open(DtRank *rank);
/* Reads rows first .. first + rows - 1 of the batch of this step (of an evaluation: of
 * rank->eval_batch) by the reader; places: of its inputs. False: the rank has failed. */
bool dt_reading_run(DtRank *rank, uint32_t reader, int64_t first, int64_t rows,
                    const DtPlaceAt *places);
/* Before an entry. */
void dt_reading_begin(DtRank *rank);
/* Called when all instructions of an entry have been started, which runs again in step `next`:
 * reads data for that ahead, as much as fits into free memory. Errors are reported when the data is
 * needed. */
void dt_reading_ahead(DtRank *rank, int64_t next);

#endif
