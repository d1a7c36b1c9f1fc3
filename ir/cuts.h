/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a row of items (the parts of a program, for a pipeline) into consecutive pieces. */
#ifndef DT_IR_CUTS_H
#define DT_IR_CUTS_H

#include <stdint.h>

enum { DT_CUTS_RUNS = 64 };

/* Adjacent items of equal cost. */
typedef struct DtCutsRun {
    int64_t count;
    const double *cost; /* cost of one item on stage s: cost[s * stage_step] */
} DtCutsRun;

typedef struct DtCuts {
    const DtCutsRun *runs;
    /* with more than DT_CUTS_RUNS runs, pieces are filled but not improved */
    uint32_t n_runs;
    uint32_t stage_step;      /* 0: all stages have the same costs; else 1 */
    uint32_t n_pieces, n_stages; /* at most as many pieces as items; each stage has equally many */
    const uint32_t *stage_of; /* by piece: its stage */
} DtCuts;

/* Cuts so that the largest total cost of a stage is least, and then the largest cost of a piece.
 * ret_first[g]: the first item of piece g; no piece is empty. load, size: scratch, a number per
 * stage, per piece.
 *
 * Bisection finds the least limit under which filling pieces one after the other needs no more
 * pieces than there are. With one piece per stage that is optimal. Otherwise single items are
 * then moved, each piece in between passing one on: away from the stage with the largest cost
 * while that lowers the largest cost, then from the largest piece as long as no stage exceeds
 * the largest cost. If all items between the first and the last have equal cost, like the
 * iterations of one loop, the result is optimal: of two distributions of equal items the worse
 * one has a stage with more and a stage with fewer items, and that move is allowed. Where loops
 * differ, the search may stop earlier. (With devices of several kinds, a better filling could
 * skip a slow device for which a single item is too much; that is not searched for.) */
void dt_cuts_find(const DtCuts *cuts, int64_t *ret_first, double *load, double *size);

#endif
