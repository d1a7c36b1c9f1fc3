/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a kernel's nodes, in the common subset of C and CUDA C++. The printers of targets
 * share it and put loops, or blocks and threads, around it (print.c, print_map.c).
 *
 * Names in the text: p<k> = pointers, q = integer arguments, i<a> = index along space axis a,
 * n<k> = node k, s<k> = lanes of reduction k, c<k> = a row of node k kept for later phases. */
#ifndef DT_CODEGEN_PRINT_H
#define DT_CODEGEN_PRINT_H

#include "codegen/kernel.h"

/* a node with a costly function: computed anew at each use; computed, and kept in a row; read from
 * that row */
enum { DT_PRINT_ANEW, DT_PRINT_KEEP, DT_PRINT_KEPT };

/* The state of a load that is made once per row: the thread has not loaded it; it loads it in the
 * next phase that needs it; it has loaded it. */
typedef enum DtHeld { DT_HELD_NOT, DT_HELD_NEXT, DT_HELD_THERE } DtHeld;

/* The state of printing one kernel. */
typedef struct DtPrint {
    const DtKernel *k;
    DtText *out;
    DtArena *arena;        /* scratch of this kernel */
    uint32_t depth;
    bool *needed, *defined, *live; /* by node */
    uint8_t *kept;         /* by node: DT_PRINT_ANEW .. */
    const char *kept_at;   /* text of the index into a kept row: "i1" */
    uint8_t *held;         /* by node, DtHeld; NULL if no node is held */
    bool held_in_block;    /* loads are held in memory of the block, not in registers */
    uint32_t *store_axes;  /* by store: bit set of the space axes that it runs over */
    uint32_t *store_phase;
    uint32_t last_phase;
    const DtDiags *lines;  /* if not NULL: comments say which lines nodes come from */
    uint32_t row;          /* source line of the last comment */
    /* condition under which loads happen (elsewhere they give the value for invalid indices);
     * NULL: always */
    const char *where;
    /* guarded loads always happen, and the result is selected by a bit mask */
    bool narrow;
    /* exponentials and quotients may have a relative error of 2^-20 (print_map.c) */
    bool coarse;
    /* prints the definition of n<k>, an element of a draw */
    void (*draw)(struct DtPrint *c, uint32_t k);
    /* by node: how a draw is made (cuda/draws.c); NULL: each element by itself */
    uint8_t *draws;
    /* Text of the number of iterations of a loop over the whole axis: "7". */
    const char *(*extent)(struct DtPrint *c, uint32_t axis);
    /* bit set of the axes whose index is set before the text; others need loops */
    uint32_t known;
    /* text of the index along lane_axis as an int, "(int)j + l", or NULL */
    const char *lane;
    uint32_t lane_axis;
    /* by node, by store: the element is read from (written to) entry l of a vector v<k>, o<s> or
     * w<s>; NULL: no vectors */
    bool *wide, *wide_stores;
    struct DtPrintLoops *loops; /* target "cpu": state of its printer */
} DtPrint;

/* Prepares printing: which nodes are live, when stores happen. The caller frees ret->arena. */
void dt_print_begin(const DtKernel *kernel, DtText *out, DtPrint *ret);
void dt_print_title(DtPrint *c, const DtDiags *diags); /* a comment: name and source line */
void dt_print_arguments(DtPrint *c); /* the argument list p0, p1, ... with their types */

void dt_print_line(DtPrint *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Opens loops over the axes that are not `known`; returns how many braces are open then. */
uint32_t dt_print_open(DtPrint *c, uint32_t axis);
void dt_print_close(DtPrint *c, uint32_t n); /* prints the braces that close n loops */
/* Whether a loop over that axis runs over the indices `from` to `to` of a piece only. */
bool dt_print_in_pieces(const DtPrint *c, uint32_t axis);
/* aborts: there is no text for the kernel */
_Noreturn void dt_print_fail(const DtPrint *c, const char *what);

const char *dt_print_type(const DtPrint *c, DtDtype dtype); /* the C type of an element in memory */
/* The C type of a scalar in a register: booleans are ints, so that lanes have one width; 16-bit
 * floats are widened when loaded and rounded when stored. */
const char *dt_print_register(DtDtype dtype);
/* text of an affine index: "off + 768 * i0 + i2" */
const char *dt_print_affine(DtPrint *c, int64_t base, const int64_t *coef);

void dt_print_node(DtPrint *c, uint32_t k);  /* prints the statement that defines n<k> */
void dt_print_store(DtPrint *c, const DtKStore *store);
/* Prints a `continue` for points, or rows of points, whose elements are all in their places already
 * (DtKStore.only). mask: the axes whose indices are known here. */
void dt_print_skip(DtPrint *c, uint32_t mask);
/* Prints the statements for the indices of load k, which has no guard, and returns the text of
 * the element that it reads. */
const char *dt_print_address(DtPrint *c, uint32_t k);
/* Text of the number of an element of a draw: "(uint64_t)(q[1] + 768 * i0 + i1)". counters: the
 * arguments of the generator's call after the key. */
const char *dt_print_element(DtPrint *c, const DtKNode *node, const int64_t *coef);
const char *dt_print_counters(DtPrint *c, const DtKNode *node);
void dt_print_draw(DtPrint *c, uint32_t k);  /* prints the definition of a draw by a call of the
                                              * generator for this element alone */

/* Which nodes are defined where. need: marks node k and the nodes that it is made of, as far as
 * they are not defined; define: prints the marked ones whose axes are within mask, in order.
 * sticky: they stay defined. */
void dt_print_need(DtPrint *c, uint32_t k);
void dt_print_forget(DtPrint *c);
void dt_print_define(DtPrint *c, uint32_t mask, bool sticky);
/* marks node k and the nodes that it is made of as live */
void dt_print_live(DtPrint *c, uint32_t k);

/* Reductions. identity: the initial value of the lanes; reduce: the name of the function that
 * combines them; accumulate: the statement that adds a new element to s<k>[at]. */
const char *dt_print_identity(DtPrint *c, const DtKNode *node);
const char *dt_print_reduce(const DtKNode *node);
void dt_print_accumulate(DtPrint *c, uint32_t k, const char *at);
/* Returns the text that combines x and y, such as "x + y" for a sum. */
const char *dt_print_combine(DtPrint *c, const DtKNode *node, const char *x, const char *y);
/* Whether node k is a reduction along rows that is done in that phase. */
bool dt_print_reduces_at(const DtPrint *c, uint32_t k, uint32_t phase);
/* Whether node k is a reduction that is computed in pieces. */
bool dt_print_is_in_pieces(const DtPrint *c, uint32_t k);
/* is_row_sum: whether node k is a sum over rows; adds_at: whether that phase adds to it;
 * is_row_sum_store: whether store s writes a value made of such sums. */
bool dt_print_is_row_sum(const DtPrint *c, uint32_t k);
bool dt_print_adds_at(const DtPrint *c, uint32_t k, uint32_t phase);
bool dt_print_is_row_sum_store(const DtPrint *c, uint32_t s);
/* The index of the element of a sum over rows to which a point of a row adds; ret_n: how many
 * elements there are. */
const char *dt_print_row_sum_element(DtPrint *c, int64_t *ret_n);

/* print_special.c: defines i<a> for these axes from the point's row-major number `number`. */
void dt_print_indices(DtPrint *c, uint32_t axes, const char *number);
/* Prints the addition of n<k>, the value of the kernel's store, to element `at` of the result of
 * a sum by index. */
void dt_print_scatter_add(DtPrint *c);
/* Defines t<t>, the index at which a sum by index adds along indexed axis t; a point outside the
 * axis is skipped. */
void dt_print_target(DtPrint *c, uint32_t t);
/* A kernel with a prescribed order of work (scan, top-k, sum by index), without the loops of
 * known axes. live: called first, marks the nodes that it needs. */
void dt_print_special_live(DtPrint *c);
void dt_print_special(DtPrint *c);

/* print_map.c */
const char *dt_print_map(DtPrint *c, const DtKNode *node);
const char *dt_print_pick(DtDtype dtype);
/* whether the function costs more than keeping a row of its values */
bool dt_print_is_dear(const DtKNode *node);

#endif
