/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a group of threads has (rows.c). */
#ifndef DT_CODEGEN_CUDA_ROWS_H
#define DT_CODEGEN_CUDA_ROWS_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* By node: the number of phases in which the elements of a row need the node. */
const uint32_t *dt_rows_uses(DtPrint *c);
void dt_rows_print(DtPrint *c, const DtTile *tile);
/* prints a kernel that also sums over rows */
void dt_rows_print_summed(DtPrint *c, const DtTile *tile);

#endif
