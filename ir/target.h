/* SPDX-License-Identifier: Apache-2.0 */
/* The target that a program is lowered for, as far as passes must know it: numbers. Code
 * generation uses the same row and has the rest (codegen/target.h). */
#ifndef DT_IR_TARGET_H
#define DT_IR_TARGET_H

#include "ir/ir.h"

typedef enum DtTargetKind {
#define DT_TARGET(NAME, FOLDER, PURPOSE, ...) DT_TARGET_##NAME,
#include "ir/targets.def"
#undef DT_TARGET
    DT_TARGET_KINDS
} DtTargetKind;

/* Functions of a product's result that the library may compute in the same call: epilogues.def. */
typedef enum DtEpilogue {
#define DT_EPILOGUE(NAME, text, vector, matrix, meaning) DT_EPILOGUE_##NAME,
#include "ir/epilogues.def"
#undef DT_EPILOGUE
    DT_EPILOGUES
} DtEpilogue;
enum { DT_EPILOGUES_ALL = (1 << DT_EPILOGUES) - 1 };

typedef struct DtTargetLimits {
    uint32_t kernel_ops;    /* most ops of a kernel: each may need registers and a pointer */
    /* fewest elements of a sum over rows that is computed along with the rows */
    int64_t row_sum_least;
                            /* (a shorter sum is not worth its loop) */
    /* most elements of all such sums of a kernel: the memory for them is small */
    int64_t row_sums_most;
    /* fewer rows than few_rows, with more elements each than long_row, are reduced by a kernel of
     * their own */
    int64_t few_rows, long_row;
                            /* (such a kernel can cut the rows into pieces: codegen/kernel.h) */
    int64_t row_align;      /* alignment of matrix rows in bytes: one access of the widest kind */
    /* bit set of DtEpilogue that its library supports; if any, it supports sums of operands too */
    uint32_t epilogues;
    /* the row stride of a matrix that an epilogue reads or writes is a multiple of this number of
     * elements */
    int64_t epilogue_row;
                            /* (and of row_align bytes; 0: any stride will do) */
    /* fewest bytes of a row that gets a gap after it: a shorter row gains nothing */
    int64_t row_gap_least;
    /* bit per DtDtype: the library has products of that dtype, into the same dtype or f32 */
    uint32_t products;
    /* the library needs matrices with contiguous rows or columns */
    bool wants_runs;
                            /* (in which different rows or columns do not overlap) */
    /* an operand is worth a copy if each of its elements is part of at least so many products */
    int64_t copy_pays;
                            /* (fewer products cost less than the copy) */
} DtTargetLimits;

/* By DtTargetKind. */
extern const DtTargetLimits dt_target_limits[DT_TARGET_KINDS];

/* Whether the target's library multiplies a and b into c. */
bool dt_target_multiplies(const DtTargetLimits *limits, DtDtype a, DtDtype b, DtDtype c);

#endif
