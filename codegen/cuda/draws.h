/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers in kernels for GPUs: four elements by one call of the generator (draws.c). */
#ifndef DT_CODEGEN_CUDA_DRAWS_H
#define DT_CODEGEN_CUDA_DRAWS_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* The axis along which elements of a call lie, if it is not the last one, of which threads have several; or n_axes. */
uint32_t dt_draws_axis(const DtKernel *kernel, const bool *live);

/* Says how draws are printed from now on. */
void dt_draws_begin(DtPrint *c, const DtTile *tile);
bool dt_draws_has(const DtPrint *c, uint32_t k); /* whether node k is one that is made beforehand */

/* Room for what calls give across rows that a thread goes through; what they give for its elements from j on of all of
 * these, at the first one; what calls give along the row. */
void dt_draws_declare(DtPrint *c, const DtTile *tile);
void dt_draws_across(DtPrint *c, const DtTile *tile);
void dt_draws_along(DtPrint *c, const DtTile *tile);

#endif
