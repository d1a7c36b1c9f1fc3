/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is lowered for, as far as passes have to know: numbers. Code generation reads the same row, and has
 * the rest (codegen/target.h). */
#ifndef DT_IR_TARGET_H
#define DT_IR_TARGET_H

#include "ir/ir.h"

typedef enum DtTargetKind {
#define DT_TARGET(NAME, FOLDER, PURPOSE, ...) DT_TARGET_##NAME,
#include "ir/targets.def"
#undef DT_TARGET
    DT_TARGET_KINDS
} DtTargetKind;

/* What may happen to a product's result: epilogues.def. */
typedef enum DtEpilogue {
#define DT_EPILOGUE(NAME, text, vector, matrix, meaning) DT_EPILOGUE_##NAME,
#include "ir/epilogues.def"
#undef DT_EPILOGUE
    DT_EPILOGUES
} DtEpilogue;
enum { DT_EPILOGUES_ALL = (1 << DT_EPILOGUES) - 1 };

typedef struct DtTargetLimits {
    uint32_t kernel_ops;    /* ops of a kernel, at most: each may need registers and a pointer */
    int64_t row_sum_least;  /* elements of a sum over rows that is made beside the rows, at least: a shorter one is */
                            /* not worth its loop */
    int64_t row_sums_most;  /* elements of all such sums of a kernel, at most: where it keeps them is small */
    int64_t few_rows, long_row; /* fewer rows than that, of more elements each, are reduced by a kernel that does */
                            /* nothing else: it can cut them into pieces (codegen/kernel.h) */
    int64_t row_align;      /* bytes of which the rows of a matrix begin at multiples: one access of the widest kind */
    uint32_t epilogues;     /* that its library of products has: bits of DtEpilogue; if any, sums of operands, too */
    int64_t epilogue_row;   /* elements of which the rows of a matrix that an epilogue reads or writes lie a multiple */
                            /* apart, and of row_align bytes; 0: any */
    int64_t row_gap_least;  /* bytes of a row, at least, for a gap behind it: a shorter one gains nothing */
    uint32_t products;      /* bit per DtDtype: of which its library has products, into the same dtype or f32 */
    bool wants_runs;        /* its library takes matrices only in which rows or columns are neighbours in memory, and */
                            /* the others do not overlap */
    int64_t copy_pays;      /* products that each element of an operand is part of, at least, for a copy of it to be */
                            /* little beside them */
} DtTargetLimits;

/* By DtTargetKind. */
extern const DtTargetLimits dt_target_limits[DT_TARGET_KINDS];

/* Whether the target's library has products of a and b into c. */
bool dt_target_multiplies(const DtTargetLimits *limits, DtDtype a, DtDtype b, DtDtype c);

#endif
