/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by index where a block of threads has some places of the indexed axes (scatter.c). */
#ifndef DT_CODEGEN_CUDA_SCATTER_H
#define DT_CODEGEN_CUDA_SCATTER_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* Completes a tile whose items are known; false: each thread goes through all points of its item. */
bool dt_scatter_tile(const DtKernel *kernel, DtTile *tile);
void dt_scatter_print(DtPrint *c, const DtTile *tile);

#endif
