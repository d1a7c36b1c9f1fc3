/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by print_c.c, print_map.c and print_special.c: the state of printing one kernel. */
#ifndef DT_CODEGEN_PRINT_C_H
#define DT_CODEGEN_PRINT_C_H

#include "codegen/kernel.h"

enum { DT_PRINT_LANES = 64 };
enum { DT_PRINT_ANEW, DT_PRINT_KEEP, DT_PRINT_KEPT }; /* recompute; compute and keep in a row; read from the row */

typedef struct DtPrintC {
    const DtKernel *k;
    DtText *out;
    DtArena *arena;        /* scratch of this kernel */
    uint32_t depth;
    bool *needed, *defined, *live;
    uint8_t *kept, *keep_phase;
    uint32_t *store_axes;  /* space axes that a store runs over */
    uint32_t *store_phase;
    uint32_t last_phase;
    uint8_t *draw_axis;    /* print_draw.c: of a draw, 1 + the axis along which the elements of a call lie, or 0 */
    bool *drawn;           /* its elements are there, at w<k> */
    bool trips[DT_MAX_RANK]; /* of a long axis: e<a> says how often its loops run */
    bool narrow;           /* the innermost loop is so short that it may be unrolled, and one around it vectorised */
} DtPrintC;

void dt_print_c_line(DtPrintC *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void dt_print_c_open_loop(DtPrintC *c, uint32_t axis);
const char *dt_print_c_extent(DtPrintC *c, uint32_t axis);
void dt_print_c_close(DtPrintC *c, uint32_t n);
void dt_print_c_node(DtPrintC *c, uint32_t k);
void dt_print_c_store(DtPrintC *c, const DtKStore *store);
void dt_print_c_special(DtPrintC *c);
_Noreturn void dt_print_c_fail(const DtPrintC *c, const char *what); /* it has no text */

const char *dt_print_c_affine(DtPrintC *c, int64_t base, const int64_t *coef);
int64_t dt_print_c_vector_axis(const DtKernel *k); /* along which lanes run; -1: none */

/* print_draw.c */
void dt_print_c_draws_begin(DtPrintC *c); /* at the head of a kernel, once it is known which nodes are live */
bool dt_print_c_is_across(const DtPrintC *c, uint32_t k);
/* Behind the head of the loop of that axis: draws across it, needed ones only where that is said. width: of a column's
 * chunk of lanes, or NULL. */
void dt_print_c_draws_axis(DtPrintC *c, uint32_t axis, const char *width, bool needed);
bool dt_print_c_draws_along(const DtPrintC *c); /* whether a needed one is along the lanes */
/* Before a loop over n lanes, DT_PRINT_LANES at most, whose first has that index along the lanes' axis. */
void dt_print_c_draws_lanes(DtPrintC *c, const char *first, long long n);
void dt_print_c_draws_end(DtPrintC *c, uint32_t axis); /* behind the loops of that axis and later ones */
void dt_print_c_draw(DtPrintC *c, uint32_t k);

/* print_map.c */
const char *dt_print_c_map(DtPrintC *c, const DtKNode *node);
const char *dt_print_c_pick(DtDtype dtype);
bool dt_print_c_is_dear(const DtKNode *node); /* computing it again costs more than keeping a row of it */

#endif
