/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products on a GPU, by cuBLASLt. */
#ifndef DT_RUNTIME_CUDA_PRODUCTS_H
#define DT_RUNTIME_CUDA_PRODUCTS_H

#include "base/arena.h"
#include "base/status.h"
#include "plan/plan.h"
#include "runtime/algorithms.h"
#include "runtime/cuda_driver.h"
#include "runtime/runtime.h"

/* A matrix in BLAS terms: elements of a column are adjacent, columns are `lead` elements apart;
 * transposed: the product reads its transpose. */
typedef struct DtCudaMatrix {
    bool transposed;
    uint64_t rows, columns; /* as stored */
    int64_t lead, batch;    /* batch: elements between the matrices of two products */
} DtCudaMatrix;

/* A GEMM record in terms of the library: D = left right (+ D), `batch` products at once,
 * repeated for each index of the record's first `loops` batch axes. left is A, or B where C's
 * rows are contiguous: then the library computes the transpose. */
typedef struct DtCudaProduct {
    DtCudaMatrix left, right, out;
    bool left_is_b;
    uint64_t inner;
    int32_t batch;
    uint32_t loops;
} DtCudaProduct;

/* False: the strides do not fit BLAS. */
bool dt_cuda_product_of(const DtPlanGemm *gemm, DtCudaProduct *ret_product);

typedef struct DtCudaProducts DtCudaProducts;
/* Opens all records of a plan, with one workspace for the products on the stream. Errors: the
 * library is missing or too old; a product that it cannot do, by number. */
DtStatus dt_cuda_products_open(DtArena *memory, const DtPlan *plan, const DtCudaDriver *driver,
                               DtCudaStream *stream, DtCudaProducts **ret_products);
bool dt_cuda_products_run(DtCudaProducts *products, uint32_t gemm,
                          const uint64_t at[DT_GEMM_OPERANDS]);
/* Whether the library does the record's product: else its instructions need their second forms. */
bool dt_cuda_products_does(const DtCudaProducts *products, uint32_t gemm);
/* cuda_choose.c: called by all ranks together before the first step. Chooses an algorithm for
 * each product and kind of GPU, used by all GPUs of that kind: the one in the resumed
 * checkpoint; else one kept from an earlier run on such a GPU; else the fastest here, by timing;
 * with --algorithms first the library's first. Appends lines for the log. gpu: name and
 * properties of the GPU, as far as the choice depends on them. */
bool dt_cuda_products_choose(DtRank *rank, DtCudaProducts *products, const char *gpu,
                             DtText *ret_said);
/* bytes of the workspace for a plan's products */
uint64_t dt_cuda_products_bytes(const DtPlan *plan);
void dt_cuda_products_close(DtCudaProducts *products);

#endif
