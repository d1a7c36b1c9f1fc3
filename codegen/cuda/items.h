/* SPDX-License-Identifier: Apache-2.0 */
/* What all forms of kernels say of the item that a thread, or a group of threads, has (items.c). */
#ifndef DT_CODEGEN_CUDA_ITEMS_H
#define DT_CODEGEN_CUDA_ITEMS_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* i0 .. of the free axes, from the number r of the item. */
void dt_items_indices(DtPrint *c, const DtTile *tile);
/* r, piece, from, to: item and piece of number u; here: "", or what ends none at once, "!here ? from : ". */
void dt_items_piece(DtPrint *c, const DtTile *tile, const char *u, const char *here);
/* Marks the nodes that stores need (of sums over rows, if these are in pieces); prints these stores
 * and their nodes. */
void dt_items_need_stores(DtPrint *c);
void dt_items_stores(DtPrint *c);
/* Opens a loop over n elements of a thread, from j on along the last axis. */
void dt_items_elements(DtPrint *c, uint32_t n);
/* s<k>[lanes] of the reductions of a phase; an element of each. */
void dt_items_lanes(DtPrint *c, uint32_t phase, uint32_t lanes);
void dt_items_accumulate(DtPrint *c, uint32_t phase, const char *at);

#endif
