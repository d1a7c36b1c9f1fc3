/* SPDX-License-Identifier: Apache-2.0 */
/* --record and --compare: records what each instruction writes on one device, and compares it
 * with what it writes on another (compare.c). */
#ifndef DT_RUNTIME_COMPARE_H
#define DT_RUNTIME_COMPARE_H

#include "runtime/runtime.h"

/* Opens the file for --record or --compare. One of options->record and options->compare is set. */
DtStatus dt_compare_open(DtRank *rank, DtCompare **ret_compare);
/* Before an entry: handles memory that host code wrote. All functions return false after
 * dt_rank_fail. */
bool dt_compare_entry(DtCompare *compare);
/* Called before and after an instruction with these n addresses. */
bool dt_compare_before(DtCompare *compare, uint32_t inst, uint32_t n, const DtPlaceAt *places);
bool dt_compare_after(DtCompare *compare, uint32_t inst, uint32_t n, const DtPlaceAt *places);
/* After the last instruction: prints the result to `out`; fails if anything differed. */
bool dt_compare_end(DtCompare *compare, FILE *out);
void dt_compare_close(DtCompare *compare);

/* compare_attention.c: the difference between two machines in the result of a 16-bit attention
 * kernel at its address number `pointer`, divided by the bound of rounding; above 1 one of them is
 * wrong. An infinity equals only itself. */
double dt_compare_attention(const DtPlanAttention *attention, uint32_t pointer, const void *wanted,
                            const void *got, int64_t bytes);

#endif
