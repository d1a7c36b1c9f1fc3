/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes of a kernel say, in the common subset of C and CUDA C++: shared by the printers of targets, which put
 * loops, or blocks and threads, around it (print.c, print_map.c).
 *
 * Names in the text: p<k> = pointers, q = integer arguments, i<a> = index along space axis a, n<k> = node k, s<k> =
 * lanes of reduction k, c<k> = a row of node k kept for later phases. */
#ifndef DT_CODEGEN_PRINT_H
#define DT_CODEGEN_PRINT_H

#include "codegen/kernel.h"

enum { DT_PRINT_ANEW, DT_PRINT_KEEP, DT_PRINT_KEPT }; /* recompute; compute and keep in a row; read from the row */

/* Of a load that a row makes once: a thread does so in the next phase that needs it; it has done so. */
typedef enum DtHeld { DT_HELD_NOT, DT_HELD_NEXT, DT_HELD_THERE } DtHeld;

/* The state of printing one kernel. */
typedef struct DtPrint {
    const DtKernel *k;
    DtText *out;
    DtArena *arena;        /* scratch of this kernel */
    uint32_t depth;
    bool *needed, *defined, *live; /* by node */
    uint8_t *kept;         /* by node */
    const char *kept_at;   /* its element of a row that is kept: "i1" */
    uint8_t *held;         /* by node, DtHeld; NULL: none is */
    bool held_in_block;    /* in memory of the block, not in registers */
    uint32_t *store_axes;  /* space axes that a store runs over */
    uint32_t *store_phase;
    uint32_t last_phase;
    const DtDiags *lines;  /* if not NULL: comments say which lines nodes come from */
    uint32_t row;          /* of the last comment */
    const char *where;     /* loads happen if this is so, or give what those outside do; NULL: always */
    bool narrow;           /* guarded loads always happen, and choose by bits */
    bool coarse;           /* exponentials and quotients may be off by 2^-20 of themselves (print_map.c) */
    void (*draw)(struct DtPrint *c, uint32_t k); /* defines n<k>, an element of a draw */
    uint8_t *draws;        /* by node: how it is made (cuda/draws.c); NULL: each element by itself */
    /* How often a loop over the whole axis runs: "7". */
    const char *(*extent)(struct DtPrint *c, uint32_t axis);
    uint32_t known;        /* bits: axes whose index is a thread's; others need loops */
    const char *lane;      /* the index along lane_axis as an int: "(int)j + l"; NULL: it is not at hand */
    uint32_t lane_axis;
    bool *wide, *wide_stores; /* by node, by store: element l of what lies in v<k>, o<s>, w<s>; NULL: none does */
    struct DtPrintLoops *loops; /* of the target "cpu": its own state */
} DtPrint;

/* Ready to print: which nodes are live, when stores happen. The caller frees ret->arena. */
void dt_print_begin(const DtKernel *kernel, DtText *out, DtPrint *ret);
void dt_print_title(DtPrint *c, const DtDiags *diags); /* a comment: name and source line */
void dt_print_arguments(DtPrint *c); /* p0, p1, ...: its addresses, each of its type */

void dt_print_line(DtPrint *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Loops over axes that are not known; how many braces are open then. */
uint32_t dt_print_open(DtPrint *c, uint32_t axis);
void dt_print_close(DtPrint *c, uint32_t n); /* that many braces */
/* Whether a loop of that axis has the indices of a piece only: `from` to `to`. */
bool dt_print_in_pieces(const DtPrint *c, uint32_t axis);
_Noreturn void dt_print_fail(const DtPrint *c, const char *what); /* it has no text */

const char *dt_print_type(const DtPrint *c, DtDtype dtype); /* in memory */
/* Of a scalar in a register: booleans are ints, so that lanes have one width; 16-bit floats are widened
 * when loaded and rounded when stored. */
const char *dt_print_register(DtDtype dtype);
const char *dt_print_affine(DtPrint *c, int64_t base, const int64_t *coef); /* "off + 768 * i0 + i2" */

void dt_print_node(DtPrint *c, uint32_t k);  /* the statement that defines n<k> */
void dt_print_store(DtPrint *c, const DtKStore *store);
/* Statements for the indices of load k, which have no guard, and the element that it reads. */
const char *dt_print_address(DtPrint *c, uint32_t k);
/* An element of a draw: "(uint64_t)(q[1] + 768 * i0 + i1)", and what else a call is made of, behind the key. */
const char *dt_print_element(DtPrint *c, const DtKNode *node, const int64_t *coef);
const char *dt_print_counters(DtPrint *c, const DtKNode *node);
void dt_print_draw(DtPrint *c, uint32_t k);  /* the statement, by a call for the element alone */

/* Which nodes a place needs: need marks node k and what it is made of, up to what is defined; define prints those whose
 * axes are within mask, in order. sticky: they stay defined. */
void dt_print_need(DtPrint *c, uint32_t k);
void dt_print_forget(DtPrint *c);
void dt_print_define(DtPrint *c, uint32_t mask, bool sticky);
void dt_print_live(DtPrint *c, uint32_t k);  /* node k and what it is made of */

/* Reductions: what their lanes begin with, the name of the function that combines them, s<k>[at] and a new element. */
const char *dt_print_identity(DtPrint *c, const DtKNode *node);
const char *dt_print_reduce(const DtKNode *node);
void dt_print_accumulate(DtPrint *c, uint32_t k, const char *at);
const char *dt_print_combine(DtPrint *c, const DtKNode *node, const char *x, const char *y); /* "x + y" */
bool dt_print_reduces_at(const DtPrint *c, uint32_t k, uint32_t phase); /* along rows, in that phase */
bool dt_print_is_in_pieces(const DtPrint *c, uint32_t k); /* a reduction that is made in pieces */
/* A sum over rows, one of what that phase has; a store of what is made of such sums. */
bool dt_print_is_late_sum(const DtPrint *c, uint32_t k);
bool dt_print_adds_at(const DtPrint *c, uint32_t k, uint32_t phase);
bool dt_print_is_late_store(const DtPrint *c, uint32_t s);
/* The element of such a sum that a point of a row adds to, and how many there are. */
const char *dt_print_late_element(DtPrint *c, int64_t *ret_n);

/* print_special.c: i<a> of these axes, of point number `number` of them. */
void dt_print_indices(DtPrint *c, uint32_t axes, const char *number);
/* Adds the value n<k> of the kernel's store to element `at` of what a sum by index adds to. */
void dt_print_scatter_add(DtPrint *c);
/* t<t>, where a sum by index adds along indexed axis t; a point that is outside is passed over. */
void dt_print_target(DtPrint *c, uint32_t t);
/* A kernel whose order of work is part of its meaning, but for the loops of known axes; live: before
 * all else, which nodes it needs. */
void dt_print_special_live(DtPrint *c);
void dt_print_special(DtPrint *c);

/* print_map.c */
const char *dt_print_map(DtPrint *c, const DtKNode *node);
const char *dt_print_pick(DtDtype dtype);
bool dt_print_is_dear(const DtKNode *node); /* computing it again costs more than keeping a row of it */

#endif
