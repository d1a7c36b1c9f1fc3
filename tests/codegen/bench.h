/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of code generation share: one entry "predict" under construction whose inputs are
 * stores with known values, and its way through the back end: compiled to a plan in memory, read
 * and checked, loaded and run by the runtime as one rank, with every temporary and every result
 * filled with NaN (all bits set) before, and compared with the interpreter.
 *
 * The interpreter rounds every result to its dtype, so arithmetic must agree to the bit. What may
 * differ is said per result in units of 2^-24 (half the spacing of f32 at 1):
 *
 *     |got - expected| <= tolerance * 2^-24 * max(|expected|, 1)
 *
 * Sums: random numbers are quarters below 8, so that products are multiples of 1/16 below 64 and
 * sums of up to 2^14 of them have at most 24 bits: exact in any order, tolerance 0. */
#ifndef DT_TESTS_BENCH_H
#define DT_TESTS_BENCH_H

#include "codegen/codegen.h"
#include "ir/interp.h"
#include "runtime/runtime.h"
#include "tests/type_text.h"

typedef struct Bench {
    DtArena *arena;
    DtModule *module;
    DtFunc *func;
    DtBuilder b;
    DtTrainConfig train; /* the seed */
    DT_VEC(DtTensor *) inputs;   /* by store index */
    DT_VEC(DtEntryResult) results;
    DT_VEC(double) tolerance;    /* by result */
    uint32_t step;
    bool bits;                   /* -0 and 0 differ */
    DtText c;                    /* C text of the fused kernels */
} Bench;

/* Axes of an op, by their interned names. */
#define AXES(...) DT_COUNT(((const char *[]){__VA_ARGS__})), ((const char *[]){__VA_ARGS__})
static inline const char *named(const char *axis) { return axis_of(axis, 1).name; }

Bench *bench_new(void);
void bench_free(Bench *t);

/* Inputs: quarters in [-8, 8) (whole numbers for integers, 0 or 1 for bool) that depend on the
 * named coordinates, not on the order; the values given, repeated to fill the type; a dense
 * sweep. */
DtValue *bench_random(Bench *t, const DtType *type, int seed);
DtValue *bench_values(Bench *t, const DtType *type, int n, const double *values);
DtValue *bench_sweep(Bench *t, const DtType *type, double from, double to);

/* Reduces x modulo 8, so that it is below 8, and in quarters if x is: then sums stay exact. */
DtValue *bench_mod8(DtBuilder *b, DtValue *x);

/* value becomes a result of the entry. */
void bench_out(Bench *t, DtValue *value, double tolerance);

/* Compiles fused and unfused, runs both, compares both with the interpreter and counts bad
 * elements. */
void bench_check(Bench *t);

/* One plan of the bench's entry, with its program filled in. */
DtPlanBuilder *bench_plan(Bench *t, const DtCodegenOptions *options);
/* Fills the memory with NaN, loads the plan and runs the entry; returns the values of its metrics
 * in order. */
double **bench_run(Bench *t, DtPlanBuilder *builder, const char *entry);

/* Checks that no buffer overwrites bytes of another one that are still read (test_fusion.c). */
void bench_check_memory(Bench *t, bool unfused);

#endif
