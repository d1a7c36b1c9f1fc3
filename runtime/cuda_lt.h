/* SPDX-License-Identifier: Apache-2.0 */
/* Declares the functions and types of cuBLASLt, without its header, and the products of a plan as
 * cuBLASLt describes them. Shared by cuda_products.c and cuda_choose.c. Names and numbers are those
 * of docs.nvidia.com/cuda/cublas, cuBLASLt. */
#ifndef DT_RUNTIME_CUDA_LT_H
#define DT_RUNTIME_CUDA_LT_H

#include "runtime/cuda_products.h"

enum {
    DT_LT_WORKSPACE = 32 << 20, /* workspace limit for every algorithm, in bytes */
    DT_LT_PROPOSALS = 16        /* number of proposals that the library is asked for */
};

/* ---- the library ---- */

typedef struct DtLtHandle DtLtHandle;
typedef struct DtLtDesc DtLtDesc;
typedef struct DtLtLayout DtLtLayout;
typedef struct DtLtPreference DtLtPreference;
typedef struct DtLtProposal { /* cublasLtMatmulHeuristicResult_t */
    DtAlgorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} DtLtProposal;

/* F(name in C, name in the library, arguments); all return 0 or an error */
#define DT_LT(F)                                                                                  \
    F(create, "cublasLtCreate", (DtLtHandle * *ret_handle))                                       \
    F(destroy, "cublasLtDestroy", (DtLtHandle * handle))                                          \
    F(property, "cublasLtGetProperty", (int type, int *ret_value))                                \
    F(desc_new, "cublasLtMatmulDescCreate", (DtLtDesc * *ret_desc, int compute, int scale))       \
    F(desc_set, "cublasLtMatmulDescSetAttribute",                                                 \
      (DtLtDesc * desc, int attribute, const void *value, size_t bytes))                          \
    F(desc_free, "cublasLtMatmulDescDestroy", (DtLtDesc * desc))                                  \
    F(layout_new, "cublasLtMatrixLayoutCreate",                                                   \
      (DtLtLayout * *ret_layout, int type, uint64_t rows, uint64_t columns, int64_t lead))        \
    F(layout_set, "cublasLtMatrixLayoutSetAttribute",                                             \
      (DtLtLayout * layout, int attribute, const void *value, size_t bytes))                      \
    F(layout_free, "cublasLtMatrixLayoutDestroy", (DtLtLayout * layout))                          \
    F(preference_new, "cublasLtMatmulPreferenceCreate", (DtLtPreference * *ret_preference))       \
    F(preference_set, "cublasLtMatmulPreferenceSetAttribute",                                     \
      (DtLtPreference * preference, int attribute, const void *value, size_t bytes))              \
    F(preference_free, "cublasLtMatmulPreferenceDestroy", (DtLtPreference * preference))          \
    F(propose, "cublasLtMatmulAlgoGetHeuristic",                                                  \
      (DtLtHandle * handle, DtLtDesc * desc, DtLtLayout * a, DtLtLayout * b, DtLtLayout * c,      \
       DtLtLayout * d, DtLtPreference * preference, int n, DtLtProposal *ret, int *ret_n))        \
    F(check, "cublasLtMatmulAlgoCheck",                                                           \
      (DtLtHandle * handle, DtLtDesc * desc, DtLtLayout * a, DtLtLayout * b, DtLtLayout * c,      \
       DtLtLayout * d, const DtAlgorithm *algorithm, DtLtProposal *ret))                          \
    F(config, "cublasLtMatmulAlgoConfigGetAttribute",                                             \
      (const DtAlgorithm *algorithm, int attribute, void *ret_value, size_t bytes,                \
       size_t *ret_written))                                                                      \
    F(multiply, "cublasLtMatmul",                                                                 \
      (DtLtHandle * handle, DtLtDesc * desc, const void *alpha, uint64_t a, DtLtLayout *a_layout, \
       uint64_t b, DtLtLayout *b_layout, const void *beta, uint64_t c, DtLtLayout *c_layout,      \
       uint64_t d, DtLtLayout *d_layout, const DtAlgorithm *algorithm, uint64_t workspace,        \
       size_t bytes, DtCudaStream *stream))

typedef struct DtLtLibrary {
#define DT_LT_MEMBER(NAME, SYMBOL, ARGUMENTS) int(*NAME) ARGUMENTS;
    DT_LT(DT_LT_MEMBER)
#undef DT_LT_MEMBER
} DtLtLibrary;

/* ---- a plan's products ---- */

typedef struct DtLtRow {
    DtCudaProduct of;
    uint32_t compute, epilogue; /* cublasComputeType_t, cublasLtEpilogue_t */
    DtLtDesc *desc;
    /* added: the layout of the matrix that the epilogue adds, if its row strides differ from the
     * result's; else equal to out */
    DtLtLayout *left, *right, *out, *added;
    /* alignment of these addresses in bytes, in all instructions that use the product */
    uint32_t aligned[DT_GEMM_OPERANDS];
    DtAlgorithm algorithm;
    bool is_refused; /* the library cannot compute it: its instructions use their second forms */
} DtLtRow;

struct DtCudaProducts {
    const DtPlan *plan;
    const DtCudaDriver *driver;
    DtCudaStream *stream;
    DtLtLibrary library;
    DtLtHandle *handle;
    DtLtPreference *preference;
    DtLtRow *rows;
    uint64_t workspace;
};

/* The algorithms that the library proposes for the record within the workspace, its best guess
 * first; returns how many, at most DT_LT_PROPOSALS, of which those with `state` 0 are usable. */
int dt_cuda_products_propose(const DtCudaProducts *products, uint32_t gemm, int n,
                             DtLtProposal *ret_proposals);
/* Starts the record's product with this algorithm. once: starts only the first product, not all
 * those of the record's loops. */
bool dt_cuda_products_begin(DtCudaProducts *products, uint32_t gemm, const DtAlgorithm *algorithm,
                            const uint64_t at[DT_GEMM_OPERANDS], bool once);

#endif
