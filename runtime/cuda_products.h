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
    uint64_t rows, columns; /* extents as stored */
    int64_t lead, batch;    /* batch: elements from the matrix of one product to that of the next */
} DtCudaMatrix;

/* A GEMM record as the library sees it: D = left right (+ D), for `batch` products at once; this is
 * repeated for each index of the record's first `loops` batch axes. left is A. But if the rows of C
 * are contiguous, the library computes the transpose, and left is B. */
typedef struct DtCudaProduct {
    DtCudaMatrix left, right, out;
    bool left_is_b;
    uint64_t inner;
    int32_t batch;
    uint32_t loops;
} DtCudaProduct;

/* False: BLAS cannot describe these strides. */
bool dt_cuda_product_of(const DtPlanGemm *gemm, DtCudaProduct *ret_product);

typedef struct DtCudaProducts DtCudaProducts;
/* Opens all records of a plan, with one workspace for the products on the stream. Errors: the
 * library is missing or too old, or it cannot compute a product, whose number is in the message. */
DtStatus dt_cuda_products_open(DtArena *memory, const DtPlan *plan, const DtCudaDriver *driver,
                               DtCudaStream *stream, DtCudaProducts **ret_products);
bool dt_cuda_products_run(DtCudaProducts *products, uint32_t gemm,
                          const uint64_t at[DT_GEMM_OPERANDS]);
/* Whether the library can compute the record's product. If not, its instructions must use their
 * second forms. */
bool dt_cuda_products_does(const DtCudaProducts *products, uint32_t gemm);
/* cuda_choose.c: called by all ranks together before the first step. Chooses an algorithm for each
 * product and kind of GPU, used by all GPUs of that kind: the algorithm in the resumed checkpoint;
 * else the one that an earlier run on such a GPU stored; else the fastest one, by measuring. With
 * --algorithms first it is the library's first proposal. Appends lines for the log. gpu: the
 * properties of the GPU on which the choice depends, including its name. */
bool dt_cuda_products_choose(DtRank *rank, DtCudaProducts *products, const char *gpu,
                             DtText *ret_said);
/* bytes of the workspace for a plan's products */
uint64_t dt_cuda_products_bytes(const DtPlan *plan);
void dt_cuda_products_close(DtCudaProducts *products);

#endif
