/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by attend.c, which prints attention, attend_hidden.c, which says when a tile of it is left
 * out, and attend_online.c, which makes one pass of three. */
#ifndef DT_CODEGEN_CUDA_ATTEND_PRINT_H
#define DT_CODEGEN_CUDA_ATTEND_PRINT_H

#include "codegen/cuda/attend.h"
#include "codegen/print.h"

/* Nodes of attention in one pass (attend_online.c). */
enum { DT_ONLINE_SUMS = 4 };
typedef struct DtOnlineSum {
    uint32_t sum;              /* reduction of exp */
    uint32_t exp, from, grown; /* exp(from), from = x - grown, which is made of the maximum */
} DtOnlineSum;
typedef struct DtOnline {
    uint32_t max; /* reduction */
    DtOnlineSum sums[DT_ONLINE_SUMS];
    uint32_t n_sums;
    uint32_t node, divisor; /* operand of the product: the exp of `product`, or that divided by
                             * divisor, else DT_KNONE */
    const DtOnlineSum *product;
} DtOnline;

typedef struct DtAttendPrint {
    DtPrint *c;
    const DtAttendTile *tile;
    const DtRole *role;
    bool *have;      /* by node: w<k> is there */
    bool *reduces;   /* by node: a reduction along the columns of this role */
    const DtOnline *online; /* NULL: a pass for each phase */
} DtAttendPrint;

/* Prints `continue` for the tiles of keys that the mask hides from every row of the block. keep:
 * the last tile is processed even if all tiles before it were hidden. */
void dt_attend_print_hidden(DtAttendPrint *a, bool keep);

/* Whether the role's columns can be processed in one pass; prints that pass, up to the results. */
bool dt_attend_is_online(DtAttendPrint *a, DtOnline *ret_online);
void dt_attend_print_online(DtAttendPrint *a, const DtOnline *online);

/* dt_attend_mark marks a node's operands. The others print marked nodes: those of rows alone; tiles
 * of columns and their scores; elements that a node of the phase uses; products. */
void dt_attend_mark(DtAttendPrint *a, uint32_t node);
void dt_attend_print_rows(DtAttendPrint *a);
void dt_attend_print_load(DtAttendPrint *a);
void dt_attend_print_elements(DtAttendPrint *a, uint32_t phase);
void dt_attend_print_sums(DtAttendPrint *a);

/* Body of a kernel of attention. */
void dt_attend_print(DtPrint *c, const DtAttendTile *tile);
const char *dt_attend_element(DtDtype dtype); /* of names of functions: "bf16" */

#endif
