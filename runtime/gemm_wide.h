/* SPDX-License-Identifier: Apache-2.0 */
/* Products on a library for f32 matrices that the library cannot do by itself: gemm_wide.c. */
#ifndef DT_RUNTIME_GEMM_WIDE_H
#define DT_RUNTIME_GEMM_WIDE_H

#include "runtime/gemm.h"

/* Makes room for at most n products. The library must have room for 2 n records, from number
 * first_record on. */
DtGemmWide *dt_gemm_wide_new(DtArena *memory, const DtGemmOps *ops, DtGemmLibrary *library,
                             uint32_t first_record, uint32_t n);
/* Prepares a product of floats with any strides; *ret_index is its number here. */
bool dt_gemm_wide_prepare(DtGemmWide *wide, DtArena *memory, const DtPlanGemm *gemm,
                          uint32_t *ret_index);
/* Called after the last product is prepared: allocates memory for the tiles. */
void dt_gemm_wide_ready(DtGemmWide *wide, DtArena *memory);
bool dt_gemm_wide_run(DtGemmWide *wide, uint32_t index, const void *a, const void *b, void *c);
uint64_t dt_gemm_wide_bytes(const DtGemmWide *wide);

#endif
