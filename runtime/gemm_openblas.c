/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by OpenBLAS, opened at run time. Each operand must have a unit stride in one of
 * its two directions; batches are loops around cblas_sgemm. With one thread its bits do not depend
 * on how rows or columns are cut into even shards, which makes it the choice for comparing layouts
 * bit by bit. */
#include "runtime/gemm.h"
#include "runtime/new_pool.h"

#include <dlfcn.h>
#include <limits.h>

/* Values from cblas.h, so that the header is not needed to build. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void Sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void SetThreads(int n);

/* The arguments of one call. The library gets C row-major; the operands may be swapped for that. */
typedef struct Call {
    const DtPlanGemm *gemm;
    int m, n, k, lda, ldb, ldc;
    int trans_a, trans_b;
    bool swapped; /* the call computes the transpose of C as (B^T)(A^T) */
} Call;

struct DtGemmLibrary {
    void *handle;
    Sgemm *sgemm;
    Call *calls;
};

static DtStatus open_library(DtArena *memory, uint32_t n_gemms, DtGemmLibrary **ret_library)
{
    void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return dt_status_fail(DT_EXIT_FAILED,
                              "OpenBLAS cannot be used: %.120s (package libopenblas0)", dlerror());
    DtGemmLibrary *library = DT_NEW(memory, DtGemmLibrary);
    SetThreads *set_threads = NULL;
    *(void **)&library->sgemm = dlsym(handle, "cblas_sgemm");
    *(void **)&set_threads = dlsym(handle, "openblas_set_num_threads");
    if (library->sgemm == NULL || set_threads == NULL) {
        dlclose(handle);
        return dt_status_fail(DT_EXIT_FAILED, "libopenblas.so.0 lacks cblas_sgemm");
    }
    set_threads(1);
    library->handle = handle;
    library->calls = DT_NEW_ARRAY(memory, Call, n_gemms + 1);
    *ret_library = library;
    return DT_OK;
}

/* Leading dimension and transposition of an operand of rows x cols; false if neither stride is 1.
 */
static bool describe(int64_t rows, int64_t cols, int64_t row, int64_t col, int *ret_trans,
                     int *ret_ld)
{
    if ((col == 1 || cols == 1) && (row >= cols || rows == 1)) {
        *ret_trans = NO_TRANS;
        *ret_ld = (int)(rows == 1 ? cols : row);
        return row <= INT_MAX;
    }
    if ((row == 1 || rows == 1) && (col >= rows || cols == 1)) {
        *ret_trans = TRANS;
        *ret_ld = (int)(cols == 1 ? rows : col);
        return col <= INT_MAX;
    }
    return false;
}

static bool prepare(DtGemmLibrary *library, uint32_t index, const DtPlanGemm *g)
{
    Call *call = &library->calls[index];
    int trans_c;
    *call = (Call){.gemm = g, .m = (int)g->m, .n = (int)g->n, .k = (int)g->k};
    if (g->dtype_a != DT_PLAN_F32 || g->dtype_b != DT_PLAN_F32 || g->dtype_c != DT_PLAN_F32)
        return false;
    if (g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX)
        return false;
    if (!describe(g->m, g->k, g->a_row, g->a_col, &call->trans_a, &call->lda) ||
        !describe(g->k, g->n, g->b_row, g->b_col, &call->trans_b, &call->ldb) ||
        !describe(g->m, g->n, g->c_row, g->c_col, &trans_c, &call->ldc))
        return false;
    call->swapped = trans_c == TRANS;
    return true;
}

static void multiply(const DtGemmLibrary *library, const Call *call, const float *a, const float *b,
                     float *c)
{
    float beta = call->gemm->accumulate ? 1.0f : 0.0f;
    if (!call->swapped)
        library->sgemm(ROW_MAJOR, call->trans_a, call->trans_b, call->m, call->n, call->k, 1.0f, a,
                       call->lda, b, call->ldb, beta, c, call->ldc);
    else
        library->sgemm(ROW_MAJOR, call->trans_b == TRANS ? NO_TRANS : TRANS,
                       call->trans_a == TRANS ? NO_TRANS : TRANS, call->n, call->m, call->k, 1.0f,
                       b, call->ldb, a, call->lda, beta, c, call->ldc);
}

static bool run(DtGemmLibrary *library, uint32_t index, const void *a, const void *b, void *c)
{
    const Call *call = &library->calls[index];
    DtGemmBatch at = dt_gemm_batch(call->gemm, call->gemm->n_batch);
    dt_new_pool_begin();
    do
        multiply(library, call, (const float *)a + at.a, (const float *)b + at.b,
                 (float *)c + at.c);
    while (dt_gemm_batch_next(&at));
    dt_new_pool_end();
    return true;
}

static void close_library(DtGemmLibrary *library) { dlclose(library->handle); }

static uint64_t workspace(const DtGemmLibrary *library)
{
    (void)library; /* the library's own packing buffers, about 32 MiB in all, are not counted */
    return 0;
}

static bool suits(const DtGemmLibrary *library)
{
    (void)library;
    return true;
}

const DtGemmOps dt_gemm_openblas = {"openblas", open_library, suits,  prepare,
                                    run,        close_library, workspace};
