/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions in pieces: the workspace for results of pieces, and the second launch (pieces.c). */
#ifndef DT_CODEGEN_CUDA_PIECES_H
#define DT_CODEGEN_CUDA_PIECES_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* how many nodes before k are reduced in pieces */
uint32_t dt_pieces_before(const DtPrint *c, uint32_t k);
/* results of each such node: the number of rows, of columns, or of elements of a row */
int64_t dt_pieces_results(const DtPrint *c, const DtTile *tile);
/* text of result r of a piece, in the workspace */
const char *dt_pieces_part(DtPrint *c, const DtTile *tile, uint32_t k);
uint64_t dt_pieces_workspace(const DtPrint *c, const DtTile *tile); /* bytes of the workspace */
void dt_pieces_print(DtPrint *c, const DtTile *tile);             /* prints the second kernel */
/* blocks and threads of the second kernel */
uint32_t dt_pieces_blocks(const DtPrint *c, const DtTile *tile);

#endif
