/* SPDX-License-Identifier: Apache-2.0 */
/* Text that all loop patterns share about the item of a thread or of a group of threads
 * (items.c). */
#ifndef DT_CODEGEN_CUDA_ITEMS_H
#define DT_CODEGEN_CUDA_ITEMS_H

#include "codegen/cuda/tile.h"
#include "codegen/print.h"

/* Prints the indices i0, i1, .. of the axes that number items, computed from the number r of the
 * item. */
void dt_items_indices(DtPrint *c, const DtTile *tile);
/* Prints r, piece, from, to: item and piece of number u. here: "", or "!here ? from : ", which
 * makes the piece of an absent group empty. */
void dt_items_piece(DtPrint *c, const DtTile *tile, const char *u, const char *here);
/* Marks the nodes that stores need (of sums over rows, if these are in pieces); prints these stores
 * and their nodes. */
void dt_items_need_stores(DtPrint *c);
void dt_items_stores(DtPrint *c);
/* Opens a loop over n elements of a thread, from j on along the last axis. */
void dt_items_elements(DtPrint *c, uint32_t n);
/* The first declares and initialises s<k>[lanes] for each reduction of a phase; the second prints
 * how s<k>[at] takes an element. */
void dt_items_lanes(DtPrint *c, uint32_t phase, uint32_t lanes);
void dt_items_accumulate(DtPrint *c, uint32_t phase, const char *at);

#endif
