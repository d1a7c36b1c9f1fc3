/* SPDX-License-Identifier: Apache-2.0 */
/* --record and --compare: what each instruction wrote, on one device, beside what it writes on another (compare.c). */
#ifndef DT_RUNTIME_COMPARE_H
#define DT_RUNTIME_COMPARE_H

#include "runtime/runtime.h"

/* The rank's, as its options say; options->record or options->compare is set. */
DtStatus dt_compare_open(DtRank *rank, DtCompare **ret_compare);
/* Before an entry: what host code has put into memory. All functions are false after dt_rank_fail. */
bool dt_compare_entry(DtCompare *compare);
/* Around an instruction with these addresses, n of them. */
bool dt_compare_before(DtCompare *compare, uint32_t inst, uint32_t n, const DtPlaceAt *places);
bool dt_compare_after(DtCompare *compare, uint32_t inst, uint32_t n, const DtPlaceAt *places);
/* Behind the last one: says what came out on `out`, and fails if anything differed. */
bool dt_compare_end(DtCompare *compare, FILE *out);
void dt_compare_close(DtCompare *compare);

/* compare_attention.c: how far apart two machines are in what a kernel of attention in 16 bits writes at its address
 * number `pointer`, over what rounding explains; more than 1: one of them is wrong. An infinity is equal to itself
 * alone. */
double dt_compare_attention(const DtPlanAttention *attention, uint32_t pointer, const void *wanted, const void *got,
                            int64_t bytes);

#endif
