/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that are nearly what a record of a plan says, as text of the final program: ops on
 * values of one type, with a constant that is another one by 1e-3 to 1e-12 of it, or with a term, a
 * clamp, a cap, a threshold more. */
#ifndef DT_TESTS_VERIFY_NEAR_H
#define DT_TESTS_VERIFY_NEAR_H

#include "base/text.h"

typedef struct Near {
    DtText text;
    uint64_t random;
    uint32_t next;     /* number of the next value that is written */
    const char *type;  /* type of values: "f32[m=2, n=4]" */
    int constant, fault; /* the number of constants before the one that is changed */
} Near;

enum { NEAR_FAULTS = 9 }; /* kind of fault. 0: a changed constant; others: see near_spoiled */

uint32_t near_dice(Near *n, uint32_t sides);
uint32_t near_literal(Near *n, double x);
uint32_t near_constant(Near *n, double x); /* text of the function */
uint32_t near_unary(Near *n, const char *kind, uint32_t x);
uint32_t near_binary(Near *n, const char *kind, uint32_t x, uint32_t y);
/* `below` where x is less than the number, else y. */
uint32_t near_below(Near *n, uint32_t x, double number, uint32_t below, uint32_t y);
/* y with the fault n->fault, which makes another function of x and y; y itself if that fault is
 * none of these. */
uint32_t near_spoiled(Near *n, uint32_t x, uint32_t y);

#endif
