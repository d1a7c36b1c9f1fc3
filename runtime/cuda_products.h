/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products on a GPU, by cuBLASLt. */
#ifndef DT_RUNTIME_CUDA_PRODUCTS_H
#define DT_RUNTIME_CUDA_PRODUCTS_H

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"
#include "runtime/choices.h"
#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

/* A matrix as BLAS has it: columns are adjacent, `lead` elements apart; transposed: the product reads its transpose. */
typedef struct DtCudaMatrix {
    bool transposed;
    uint64_t rows, columns; /* as they lie */
    int64_t lead, batch;    /* batch: elements between the matrices of two products */
} DtCudaMatrix;

/* A GEMM record as products that the library does: D = left right (+ D), all in `batch` products at once, once for
 * each index of the record's first `loops` batch axes. left is A or, where C's rows are adjacent, B: the transpose is
 * computed then. */
typedef struct DtCudaProduct {
    DtCudaMatrix left, right, out;
    bool left_is_b;
    uint64_t inner;
    int32_t batch;
    uint32_t loops;
} DtCudaProduct;

/* False: no strides of BLAS say this product. */
bool dt_cuda_product_of(const DtPlanGemm *gemm, DtCudaProduct *ret_product);

typedef struct DtCudaProducts DtCudaProducts;
/* All records of a plan, with one workspace for those that run on the stream. Errors: the library is missing or too
 * old, a product that it does not do, with its number. */
DtStatus dt_cuda_products_open(DtArena *memory, const DtPlan *plan, const DtCudaDriver *driver,
                               DtCudaStream *stream, DtCudaProducts **ret_products);
bool dt_cuda_products_run(DtCudaProducts *products, uint32_t gemm, const uint64_t at[DT_GEMM_OPERANDS]);
/* cuda_choose.c: before the first step, by all ranks together: one algorithm for each product and kind of GPU, which
 * all GPUs of that kind use: the checkpoint's that the run goes on from; else one kept from an earlier run on such a
 * GPU; else the fastest here, timed; with --algorithms first the library's first. Adds lines for the log. gpu: what
 * the GPU is called and has, as far as it decides how products are computed. */
bool dt_cuda_products_choose(DtRank *rank, DtCudaProducts *products, const char *gpu, DtText *ret_said);
uint64_t dt_cuda_products_bytes(const DtPlan *plan); /* of the workspace that a plan's need */
void dt_cuda_products_close(DtCudaProducts *products);

#endif
