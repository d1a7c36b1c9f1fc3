/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions READ. If the device can copy from host memory by itself, the data that the next run
 * of an entry reads first are read while the device still runs the present step. With several
 * losses, the data of one may occupy this memory until its next turn; data of the others are then
 * read when they are needed. */
#ifndef DT_RUNTIME_READING_H
#define DT_RUNTIME_READING_H

#include "runtime/runtime.h"

/* Called when a rank is loaded. */
void dt_reading_open(DtRank *rank);
/* Reads rows first .. first + rows - 1 of this step's batch (in an evaluation: of batch
 * rank->eval_batch) by the reader. places: where its inputs are stored. False: the rank has
 * failed. */
bool dt_reading_run(DtRank *rank, uint32_t reader, int64_t first, int64_t rows,
                    const DtPlaceAt *places);
/* Called before an entry. */
void dt_reading_begin(DtRank *rank);
/* Called when all instructions of an entry have been started, which will run again in step `next`:
 * reads data for that step, as much as fits into free memory. Errors are reported when the data are
 * needed. */
void dt_reading_ahead(DtRank *rank, int64_t next);

#endif
