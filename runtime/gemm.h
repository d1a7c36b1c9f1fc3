/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products for the CPU. Each library has a table of functions, in a file of its own. When a
 * plan is loaded, the library prepares every GEMM record; in a step it allocates nothing. */
#ifndef DT_RUNTIME_GEMM_H
#define DT_RUNTIME_GEMM_H

#include "runtime/runtime.h"

typedef struct DtGemmLibrary DtGemmLibrary; /* state of a library */

typedef struct DtGemmOps {
    const char *name;
    /* Fails if the library is not installed; the message names the package. memory: for the
     * lifetime of the library. */
    DtStatus (*open)(DtArena *memory, uint32_t n_gemms, DtGemmLibrary **ret_library);
    /* Whether the library has fast code for this processor. */
    bool (*suits)(const DtGemmLibrary *library);
    /* Prepares record number `index`; false: this library cannot compute it. */
    bool (*prepare)(DtGemmLibrary *library, uint32_t index, const DtPlanGemm *gemm);
    /* Computes C (+)= A B on one thread. */
    bool (*run)(DtGemmLibrary *library, uint32_t index, const void *a, const void *b, void *c);
    void (*close)(DtGemmLibrary *library);
    uint64_t (*workspace)(const DtGemmLibrary *library); /* bytes of memory that the library
                                                          * holds */
} DtGemmOps;

extern const DtGemmOps dt_gemm_onednn, dt_gemm_openblas;

/* The reference implementation: three loops, sums in double, any strides; f32, bf16 and f16. */
void dt_gemm_plain_run(const DtPlanGemm *gemm, const void *a, const void *b, void *c);
/* The same with the record's epilogue, which is applied to the sums in double. */
void dt_gemm_plain_join(const DtPlanGemm *gemm, const void *a, const void *b, void *c, void *vector,
                        void *matrix);

double dt_gemm_get(const void *matrix, int64_t at, uint32_t dtype);
void dt_gemm_put(void *matrix, int64_t at, uint32_t dtype, float value);

/* Epilogues of products (gemm_epilogue.c). Returns element (i, j) of C for the sum x, in double. */
double dt_gemm_epilogue_of(const DtPlanGemm *gemm, double x, int64_t i, int64_t j,
                           const void *vector, void *matrix);
/* The loops that run before and after a library's product to compute its epilogue, and the record
 * of that plain product. */
DtPlanGemm dt_gemm_epilogue_inner(const DtPlanGemm *gemm);
void dt_gemm_epilogue_begin(const DtPlanGemm *gemm, void *c, const void *matrix);
void dt_gemm_epilogue_end(const DtPlanGemm *gemm, const void *a, const void *b, void *c,
                          void *vector, void *matrix);
/* Computes the sums of A's rows or of B's columns. */
void dt_gemm_epilogue_sum(const DtPlanGemm *gemm, const void *a, const void *b, void *vector);

/* Walks over the products of one record: offsets, in elements, at which each product begins in the
 * three matrices. The walk goes over the first n batch axes. */
typedef struct DtGemmBatch {
    const DtPlanGemm *gemm;
    uint32_t n;
    int64_t at[DT_PLAN_MAX_BATCH], a, b, c;
} DtGemmBatch;
DtGemmBatch dt_gemm_batch(const DtPlanGemm *gemm, uint32_t n);
bool dt_gemm_batch_next(DtGemmBatch *batch); /* false: it was the last product */

typedef struct DtGemmWide DtGemmWide; /* gemm_wide.h */

typedef enum DtGemmWay { DT_GEMM_BY_LOOPS, DT_GEMM_BY_LIBRARY, DT_GEMM_BY_TILES } DtGemmWay;

/* A plan's products on the chosen library. */
typedef struct DtGemms {
    const DtPlan *plan;
    DtPlanGemm *inner;    /* the records without their epilogues, as the library sees them */
    const DtGemmOps *ops; /* NULL: all products run in the plain loops */
    DtGemmLibrary *library;
    DtGemmWide *wide;  /* computes the products that the library does not support, tile by tile */
    uint8_t *ways;     /* DtGemmWay, per record */
    uint32_t *numbers; /* of a record computed BY_TILES: its index in `wide` */
    uint32_t n_plain;  /* number of records that run in the plain loops */
} DtGemms;

/* kind DEFAULT: oneDNN if it has fast code for the processor, else OpenBLAS, else oneDNN without
 * fast code; an error if there is none of them. */
DtStatus dt_gemm_open(const DtPlan *plan, DtArena *memory, DtGemmKind kind, DtGemms *ret_gemms);
bool dt_gemm_run(const DtGemms *gemms, uint32_t index, const void *a, const void *b, void *c);
/* The same with the record's epilogue. Its vector and matrix may be NULL if the epilogue has
 * none. */
bool dt_gemm_join(const DtGemms *gemms, uint32_t index, const void *a, const void *b, void *c,
                  void *vector, void *matrix);
uint64_t dt_gemm_workspace(const DtGemms *gemms);
void dt_gemm_close(DtGemms *gemms);

#endif
