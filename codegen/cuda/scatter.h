/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by index where a block of threads has some places of the indexed axes (scatter.c). */
#ifndef DT_CODEGEN_CUDA_SCATTER_H
#define DT_CODEGEN_CUDA_SCATTER_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* Completes a tile whose items are known; false: the kernel has no tile of this kind, and each
 * thread loops over all points of its item. */
bool dt_scatter_tile(const DtKernel *kernel, DtTile *tile);
/* Cuts the points of a sum into few places into pieces. */
void dt_scatter_pieces(DtKernel *kernel);
int64_t dt_scatter_results(const DtKernel *kernel); /* number of elements of the result */
/* prints the second kernel, which adds up pieces */
void dt_scatter_finish(DtPrint *c, const DtTile *tile);
void dt_scatter_print(DtPrint *c, const DtTile *tile);

#endif
