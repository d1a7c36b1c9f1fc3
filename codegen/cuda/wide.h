/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses of as many neighbouring elements as a thread has, 16 bytes at a time (wide.c). */
#ifndef DT_CODEGEN_CUDA_WIDE_H
#define DT_CODEGEN_CUDA_WIDE_H

#include "codegen/print.h"

/* Whether each load and store that goes along the last axis can take n neighbouring elements of it at once. */
bool dt_wide_all(const DtKernel *kernel, const bool *live, uint32_t n);

bool dt_wide_is_load(const DtKernel *kernel, uint32_t node, uint32_t n);

/* Those that can be are wide from now on, by n elements: c->wide, c->wide_stores. */
void dt_wide_choose(DtPrint *c, uint32_t n);

/* Declares the words of loads that are held in registers, before the phases of a row. */
void dt_wide_hold(DtPrint *c, uint32_t n);

/* Around a loop over elements l = 0 .. n - 1 behind the last axis' index: before it, what nodes that are needed load,
 * and room for what stores of that phase write, which is written behind it. whole: all n elements are there, else as
 * many as `left` says. Phase UINT32_MAX is any. Loads that are held (c->held) are made once. */
void dt_wide_take(DtPrint *c, uint32_t n, uint32_t phase, bool whole);
void dt_wide_give(DtPrint *c, uint32_t n, uint32_t phase, bool whole);

#endif
