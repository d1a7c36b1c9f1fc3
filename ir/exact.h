/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers to compare functions by, in whatever form they are written: residues instead of digits. A number is a pair,
 * modulo q and modulo p = 2q + 1, both prime, of 60 bits and more; sums, products and quotients are those of both
 * fields. exp of (a, b) is g^b modulo p, where g has order q, so that exp(x + y) = exp(x) exp(y); it has no second
 * component. Of tanh nothing is known but that equal operands give equal results. So two functions that agree where
 * their operands are drawn are the same one, with constants that are the same numbers; by chance others do with 2^-50.
 *
 * The primes are known. Whoever fits a program to them gets no wrong plan: the certificate draws its own, and has its
 * own arithmetic (verify/residue.h). */
#ifndef DT_IR_EXACT_H
#define DT_IR_EXACT_H

#include "ir/ir.h"

typedef struct DtExact {
    uint64_t p, q;
} DtExact;

#define DT_EXACT_NONE UINT64_MAX /* as q: there is none */
enum { DT_EXACT_PRODUCTS = 32 }; /* of products and quotients no more, so that degrees stay below 2^32 */

/* What is not known, of which nothing is known that is made of it; and -inf. */
extern const DtExact dt_exact_unknown, dt_exact_lowest;

DtExact dt_exact_number(double x); /* unknown: infinite, but for -inf, or NaN */
DtExact dt_exact_draw(uint64_t seed);
/* ADD, SUB, MUL, DIV, NEG, EXP, TANH, STOP; other kinds give what is unknown. y: of two operands the second. */
DtExact dt_exact_map(DtOpKind kind, DtExact x, DtExact y);
/* The larger one, in an order that is made up, the same for all. */
DtExact dt_exact_max(DtExact x, DtExact y);
/* Equal numbers; where one has no second component, by the first. */
bool dt_exact_same(DtExact x, DtExact y);

#endif
