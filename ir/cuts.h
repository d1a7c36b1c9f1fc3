/* SPDX-License-Identifier: Apache-2.0 */
/* Where a row of items, which a program is to a pipeline, is cut into consecutive pieces. */
#ifndef DT_IR_CUTS_H
#define DT_IR_CUTS_H

#include <stdint.h>

enum { DT_CUTS_RUNS = 64 };

/* Items behind one another that cost alike. */
typedef struct DtCutsRun {
    int64_t count;
    const double *cost; /* of one, on stage s: at s * stage_step */
} DtCutsRun;

typedef struct DtCuts {
    const DtCutsRun *runs;
    uint32_t n_runs;          /* of more than DT_CUTS_RUNS pieces are filled, and nothing is moved */
    uint32_t stage_step;      /* 0: stages are alike; or 1 */
    uint32_t n_pieces, n_stages; /* no more pieces than items; as many of each stage */
    const uint32_t *stage_of; /* of each piece */
} DtCuts;

/* Cuts so that what the stage with most has of all its pieces costs as little as can be, and then the largest piece.
 * ret_first[g]: the first item of piece g; none is empty. load, size: room for a number per stage, per piece.
 *   Pieces are filled one after the other up to the least limit under which that takes no more of them than there are,
 * found by bisection. Where each stage has one piece that is the answer. Else single items are moved then, each piece
 * between handing one on: away from the stage with most while that makes the most less, and then from the largest
 * piece as long as no stage gets more than the most. If the items between the first and the last cost alike, as the
 * iterations of one loop do, no other cuts are better: of two ways to share out equal items some stage has more and
 * some stage has fewer in the worse one, and that move is not refused. Where loops differ it may stop before. (With
 * devices of several kinds a piece of which the only item is too much for a slow one could be passed by by a better
 * filling; that is not looked for.) */
void dt_cuts_find(const DtCuts *cuts, int64_t *ret_first, double *load, double *size);

#endif
