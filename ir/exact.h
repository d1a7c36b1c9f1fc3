/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for comparing functions regardless of how they are written: residues instead of
 * digits. A number is a pair modulo q and modulo p = 2q + 1, both prime, of 60 bits or more;
 * sums, products and quotients are those of both fields. exp of (a, b) is g^b modulo p, where g
 * has order q, so that exp(x + y) = exp(x) exp(y); it has no second component. tanh is only
 * known to give equal results for equal operands. Two functions that agree on random operands
 * are equal, constants included, except with probability 2^-50.
 *
 * The primes are fixed. A program that exploits them gets no wrong plan: the certificate draws
 * its own primes, and has its own arithmetic (verify/residue.h). */
#ifndef DT_IR_EXACT_H
#define DT_IR_EXACT_H

#include "ir/ir.h"

typedef struct DtExact {
    uint64_t p, q;
} DtExact;

#define DT_EXACT_NONE UINT64_MAX /* as q: the number has no component modulo q */
enum { DT_EXACT_PRODUCTS = 32 }; /* the most products and quotients in a function, so that degrees
                                  * stay below 2^32 */

/* An unknown number, which makes results unknown, too; and minus infinity. */
extern const DtExact dt_exact_unknown, dt_exact_lowest;

DtExact dt_exact_number(double x); /* unknown if x is infinite (other than -inf) or NaN */
DtExact dt_exact_draw(uint64_t seed);
/* ADD, SUB, MUL, DIV, NEG, EXP, TANH, STOP; other kinds give an unknown number. y: the second
 * operand, if there are two. */
DtExact dt_exact_map(DtOpKind kind, DtExact x, DtExact y);
/* The larger of two numbers, in a fixed order that has no meaning. */
DtExact dt_exact_max(DtExact x, DtExact y);
/* Whether the numbers are equal; if one has no component modulo q, by the other one. */
bool dt_exact_same(DtExact x, DtExact y);

#endif
