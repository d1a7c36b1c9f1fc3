/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses of as many neighbouring elements as a thread has, 16 bytes at a time (wide.c). */
#ifndef DT_CODEGEN_CUDA_WIDE_H
#define DT_CODEGEN_CUDA_WIDE_H

#include "codegen/print.h"

/* Whether every load and store along the last axis can access n neighbouring elements at once. */
bool dt_wide_all(const DtKernel *kernel, const bool *live, uint32_t n);

bool dt_wide_is_load(const DtKernel *kernel, uint32_t node, uint32_t n);

/* Makes all accesses wide, by n elements, that can be: c->wide, c->wide_stores. */
void dt_wide_choose(DtPrint *c, uint32_t n);

/* Declares the words of loads that are held in registers, before the phases of a row. */
void dt_wide_hold(DtPrint *c, uint32_t n);

/* Print the wide accesses around a loop over elements l = 0 .. n - 1, where the last axis' index is
 * the first element. dt_wide_take, before the loop: loads of needed nodes, and room for the stores
 * of this phase, which follow the loop. whole: all n elements exist, else the first `left` of them.
 * Phase UINT32_MAX: any. Held loads (c->held) are done once. */
void dt_wide_take(DtPrint *c, uint32_t n, uint32_t phase, bool whole);
void dt_wide_give(DtPrint *c, uint32_t n, uint32_t phase, bool whole);

#endif
