/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by print.c and print_draw.c: loops of one kernel in C. */
#ifndef DT_CODEGEN_CPU_PRINT_H
#define DT_CODEGEN_CPU_PRINT_H

#include "codegen/print.h"

enum { DT_PRINT_LANES = 64 };

struct DtPrintLoops {
    uint8_t *keep_phase;
    uint8_t *draw_axis;    /* print_draw.c: for a draw, 1 + the axis along which the four elements
                            * of a call are neighbours, or 0 */
    bool *drawn;           /* by node: the loop's draws have been computed and are at w<k> */
    bool trips[DT_MAX_RANK]; /* by long axis: the text reads how often the axis' loops run from
                              * e<a> */
    bool piece_trips;        /* the text reads from `pieces` how often the loop over pieces runs */
};

const char *dt_print_c_extent(DtPrint *c, uint32_t axis);
int64_t dt_print_c_vector_axis(const DtKernel *k); /* the axis along which vector lanes run; -1:
                                                    * none */

/* print_draw.c */
/* Printed at the head of a kernel, once it is known which nodes are live. */
void dt_print_c_draws_begin(DtPrint *c);
bool dt_print_c_is_across(const DtPrint *c, uint32_t k);
/* Printed after the head of the loop of that axis: computes the draws whose neighbours are along
 * it; if needed is set, only needed nodes. width: of a column's chunk of lanes, or NULL. */
void dt_print_c_draws_axis(DtPrint *c, uint32_t axis, const char *width, bool needed);
bool dt_print_c_draws_along(const DtPrint *c); /* whether the axis of the lanes has the neighbours
                                                * of a needed draw */
/* Printed before a loop over n lanes (at most DT_PRINT_LANES, or the lanes of a row). first: the
 * index of the first lane along its axis. */
void dt_print_c_draws_lanes(DtPrint *c, const char *first, long long n);
void dt_print_c_draws_end(DtPrint *c, uint32_t axis); /* printed after the loops of that axis and of
                                                       * later axes */
void dt_print_c_draw(DtPrint *c, uint32_t k);

#endif
