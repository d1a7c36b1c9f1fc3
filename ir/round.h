/* SPDX-License-Identifier: Apache-2.0 */
/* What a real number becomes when it is stored in a dtype. The one definition that the interpreter
 * and tests share; generated kernels are compared with it. */
#ifndef DT_IR_ROUND_H
#define DT_IR_ROUND_H

#include "ir/ir.h"

/* Floats: to nearest, ties to even, once from the double; subnormals kept; overflow to infinity;
 * NaN stays NaN. bool: value != 0. Integers: towards zero, then saturated to the range; NaN gives
 * 0. */
double dt_round_to(DtDtype dtype, double value);

/* An integer value (bits modulo 2^64) as dtype holds it: the low bits, as C's unsigned arithmetic
 * does. bool: bits != 0. Not for floats (aborts). */
double dt_round_wrap(DtDtype dtype, uint64_t bits);

/* The whole number in value, saturated to int64_t; NaN gives 0. */
int64_t dt_round_whole(double value);

#endif
