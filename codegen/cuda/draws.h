/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers in kernels for GPUs: four elements by one call of the generator (draws.c). */
#ifndef DT_CODEGEN_CUDA_DRAWS_H
#define DT_CODEGEN_CUDA_DRAWS_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* The axis along which the four elements of a call are neighbours, if it is not the last one, of
 * which a thread has several elements; else n_axes. */
uint32_t dt_draws_axis(const DtKernel *kernel, const bool *live);

/* Prepares printing: records the draws of the kernel, and how each is computed. */
void dt_draws_begin(DtPrint *c, const DtTile *tile);
bool dt_draws_has(const DtPrint *c, uint32_t k); /* whether calls compute node k in advance */

/* Print, in this order: the arrays for results of calls across the rows that a thread loops over;
 * at the first of these rows, the calls for all of them and the thread's elements from j on; calls
 * along the row. */
void dt_draws_declare(DtPrint *c, const DtTile *tile);
void dt_draws_across(DtPrint *c, const DtTile *tile);
void dt_draws_along(DtPrint *c, const DtTile *tile);

#endif
