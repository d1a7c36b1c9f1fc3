/* SPDX-License-Identifier: Apache-2.0 */
/* Products by cuBLASLt: descriptors of each record are made when a plan is loaded. The first
 * algorithm that the library proposes within the workspace, for operands that begin where
 * instructions say, is used until another one is chosen (cuda_choose.c), and then that one in every
 * step. Those that add up parts of a sum in 16 bits are not asked for. */
#include "runtime/cuda_products.h"

#include "base/cudalib.h"
#include "plan/kinds.h"
#include "runtime/cuda_lt.h"
#include "runtime/forms.h"
#include "runtime/gemm.h"

#include <string.h>

enum { ALIGNED = 256 }; /* arenas begin at multiples of this many bytes, so the alignment of an
                         * operand can be at most this */

/* ---- the library ---- */

enum { /* values of the library's enumerations */
       COMPUTE_32F = 68,
       COMPUTE_32F_FAST_TF32 = 77,
       DESC_TRANSPOSED_A = 3,
       DESC_TRANSPOSED_B = 4,
       DESC_EPILOGUE = 7,
       DESC_VECTOR = 8, /* BIAS_POINTER */
       DESC_MATRIX = 11, /* EPILOGUE_AUX_POINTER */
       DESC_MATRIX_LEAD = 12,
       LAYOUT_BATCH = 5,
       LAYOUT_BATCH_STRIDE = 6,
       PREFERENCE_WORKSPACE = 1,
       PREFERENCE_SUMS = 3, /* REDUCTION_SCHEME_MASK */
       PREFERENCE_ALIGNED_A = 5, /* then B, C, D */
       OP_TRANSPOSED = 1,
       SUMS_OF_PARTS_IN_F32 = 2 /* REDUCTION_SCHEME_COMPUTE_TYPE; NONE is always allowed */
};

/* cublasLtEpilogue_t, by DtPlanEpilogue. Sums here are of the library's left operand; SUM_A and
 * SUM_B are of the operands that the library calls A and B. */
enum { SUMS_LEFT = 256, SUMS_RIGHT = 512 };
static const uint32_t epilogues[DT_PLAN_EPILOGUES] = {
    [DT_PLAN_EPILOGUE_NONE] = 1,       [DT_PLAN_EPILOGUE_BIAS] = 4,
    [DT_PLAN_EPILOGUE_ADD] = 1,        [DT_PLAN_EPILOGUE_BIAS_ADD] = 4,
    [DT_PLAN_EPILOGUE_RELU] = 2,       [DT_PLAN_EPILOGUE_BIAS_RELU] = 6,
    [DT_PLAN_EPILOGUE_GELU] = 32,      [DT_PLAN_EPILOGUE_BIAS_GELU] = 36,
    [DT_PLAN_EPILOGUE_GELU_AUX] = 160, [DT_PLAN_EPILOGUE_BIAS_GELU_AUX] = 164,
    [DT_PLAN_EPILOGUE_DGELU] = 192,
};

/* Whether the epilogue adds a matrix to the product, one that is not the result itself. */
static bool adds_matrix(const DtPlanGemm *g)
{
    return g->epilogue == DT_PLAN_EPILOGUE_ADD || g->epilogue == DT_PLAN_EPILOGUE_BIAS_ADD;
}

static int type_of(uint32_t dtype)
{
    return dtype == DT_PLAN_BF16 ? 14 : dtype == DT_PLAN_F16 ? 2 : 0;
}

static DtStatus open_library(DtArena *arena, const DtCudaDriver *driver, DtLtLibrary *ret_library)
{
    const char *const *versions = dt_cuda_driver_libraries(driver);
    const DtCudaLib lib = {
        "cublasLt", versions,
        strcmp(versions[0], "12") == 0
            ? "package libcublas-12-4 of NVIDIA's repository, or nvidia-cublas-cu12 of PyPI, since "
              "the driver runs CUDA 12"
            : "package libcublas-13-0 of NVIDIA's repository, or nvidia-cublas of PyPI"};
#define NAME(MEMBER, SYMBOL, ARGUMENTS) SYMBOL,
    static const char *const names[] = {DT_LT(NAME)};
#undef NAME
    return dt_cudalib_open(arena, &lib, sizeof names / sizeof names[0], names,
                           (void **)ret_library);
}

/* ---- a record in the library's terms ---- */

/* Describes a matrix whose element (i, j) is at i * row + j * column. */
static bool lay(int64_t rows, int64_t columns, int64_t row, int64_t column, DtCudaMatrix *ret)
{
    if (row == 1 || rows == 1) {
        *ret = (DtCudaMatrix){.rows = (uint64_t)rows,
                              .columns = (uint64_t)columns,
                              .lead = columns == 1 ? rows : column};
        if (ret->lead >= rows)
            return true;
    }
    *ret = (DtCudaMatrix){.transposed = true,
                          .rows = (uint64_t)columns,
                          .columns = (uint64_t)rows,
                          .lead = rows == 1 ? columns : row};
    return (column == 1 || columns == 1) && ret->lead >= columns;
}

static bool lay_all(const DtPlanGemm *g, bool swapped, DtCudaProduct *p)
{
    DtCudaMatrix *a = swapped ? &p->right : &p->left, *b = swapped ? &p->left : &p->right;
    const bool good = swapped ? lay(g->n, g->k, g->b_col, g->b_row, b) &&
                                    lay(g->k, g->m, g->a_col, g->a_row, a) &&
                                    lay(g->n, g->m, g->c_col, g->c_row, &p->out)
                              : lay(g->m, g->k, g->a_row, g->a_col, a) &&
                                    lay(g->k, g->n, g->b_row, g->b_col, b) &&
                                    lay(g->m, g->n, g->c_row, g->c_col, &p->out);
    p->left_is_b = swapped;
    return good && !p->out.transposed;
}

/* Whether batch axes d and d + 1 are contiguous in all operands, so that they can be merged into
 * one. */
static bool joins(const DtPlanGemm *g, uint32_t d)
{
    const int64_t n = g->batch[d + 1];
    return g->a_batch[d] == n * g->a_batch[d + 1] && g->b_batch[d] == n * g->b_batch[d + 1] &&
           g->c_batch[d] == n * g->c_batch[d + 1];
}

bool dt_cuda_product_of(const DtPlanGemm *gemm, DtCudaProduct *ret_product)
{
    DtCudaProduct *p = ret_product;
    *p = (DtCudaProduct){.inner = (uint64_t)gemm->k, .batch = 1};
    if (!lay_all(gemm, true, p) && !lay_all(gemm, false, p))
        return false;
    if (gemm->n_batch == 0)
        return true;
    p->loops = gemm->n_batch - 1;
    int64_t batch = gemm->batch[p->loops];
    for (; p->loops > 0 && joins(gemm, p->loops - 1); p->loops--)
        batch *= gemm->batch[p->loops - 1];
    if (batch > INT32_MAX)
        return false;
    p->batch = (int32_t)batch;
    const uint32_t last = gemm->n_batch - 1;
    p->left.batch = p->left_is_b ? gemm->b_batch[last] : gemm->a_batch[last];
    p->right.batch = p->left_is_b ? gemm->a_batch[last] : gemm->b_batch[last];
    p->out.batch = gemm->c_batch[last];
    return true;
}

/* ---- a plan's products ---- */

static bool make_layout(const DtLtLibrary *l, const DtCudaMatrix *m, uint32_t dtype, int32_t batch,
                        DtLtLayout **ret_layout)
{
    return l->layout_new(ret_layout, type_of(dtype), m->rows, m->columns, m->lead) == 0 &&
           l->layout_set(*ret_layout, LAYOUT_BATCH, &batch, sizeof batch) == 0 &&
           l->layout_set(*ret_layout, LAYOUT_BATCH_STRIDE, &m->batch, sizeof m->batch) == 0;
}

/* Each product passes its own addresses when it runs; until then only their alignment is known. */
static bool say_operands(const DtLtLibrary *l, const DtPlanGemm *g, DtLtRow *row, uint64_t vector,
                         uint64_t matrix)
{
    return (!dt_kinds_epilogues[g->epilogue].vector ||
            l->desc_set(row->desc, DESC_VECTOR, &vector, sizeof vector) == 0) &&
           (!dt_kinds_epilogues[g->epilogue].matrix || adds_matrix(g) ||
            l->desc_set(row->desc, DESC_MATRIX, &matrix, sizeof matrix) == 0);
}

static bool make_epilogue(const DtLtLibrary *l, const DtPlanGemm *g, DtLtRow *row)
{
    const DtCudaProduct *p = &row->of;
    DtCudaMatrix added = p->out;
    uint32_t epilogue = epilogues[g->epilogue];
    if (dt_kinds_epilogues[g->epilogue].vector == DT_EPILOGUE_WRITE)
        epilogue = (g->epilogue == DT_PLAN_EPILOGUE_SUM_B) == p->left_is_b ? SUMS_LEFT : SUMS_RIGHT;
    else if (g->epilogue && !p->left_is_b)
        return false; /* the epilogue's vector has an element for each column of C, but the library
                       * would need one for each of its rows */
    row->epilogue = epilogue;
    added.lead = g->matrix_row ? g->matrix_row : added.lead;
    row->added = row->out;
    if (adds_matrix(g) && !make_layout(l, &added, g->dtype_c, p->batch, &row->added))
        return false;
    return l->desc_set(row->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue) == 0 &&
           (!dt_kinds_epilogues[g->epilogue].matrix || adds_matrix(g) ||
            l->desc_set(row->desc, DESC_MATRIX_LEAD, &added.lead, sizeof added.lead) == 0);
}

static bool make_row(const DtLtLibrary *l, const DtPlan *plan, const DtPlanGemm *g, DtLtRow *row)
{
    const DtCudaProduct *p = &row->of;
    row->compute = dt_kinds_tf32(plan, g) ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
    const int32_t a = p->left.transposed ? OP_TRANSPOSED : 0,
                  b = p->right.transposed ? OP_TRANSPOSED : 0;
    return l->desc_new(&row->desc, (int)row->compute, type_of(DT_PLAN_F32)) == 0 &&
           l->desc_set(row->desc, DESC_TRANSPOSED_A, &a, sizeof a) == 0 &&
           l->desc_set(row->desc, DESC_TRANSPOSED_B, &b, sizeof b) == 0 &&
           make_layout(l, &p->left, p->left_is_b ? g->dtype_b : g->dtype_a, p->batch, &row->left) &&
           make_layout(l, &p->right, p->left_is_b ? g->dtype_a : g->dtype_b, p->batch,
                       &row->right) &&
           make_layout(l, &p->out, g->dtype_c, p->batch, &row->out) && make_epilogue(l, g, row);
}

/* Returns the largest power of two, at most `aligned`, that divides the bytes. */
static uint32_t common(uint32_t aligned, int64_t bytes)
{
    while ((uint64_t)bytes % aligned)
        aligned /= 2;
    return aligned;
}

/* Finds the properties of the operands in all instructions, for all values of registers and
 * coordinates. */
static void find_aligned(const DtPlan *plan, DtLtRow *rows)
{
    for (uint32_t i = 0; i < plan->n_gemms; i++)
        for (uint32_t k = 0; k < DT_GEMM_OPERANDS; k++)
            rows[i].aligned[k] = ALIGNED;
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        for (uint32_t a = 0; inst->kind == DT_INST_GEMM && a + inst->guards < inst->n_args; a++) {
            const bool only_matrix = !dt_kinds_epilogues[plan->gemms[inst->ref].epilogue].vector;
            const uint32_t k = a == DT_GEMM_VECTOR && only_matrix ? (uint32_t)DT_GEMM_MATRIX : a;
            const DtPlanArg *arg = &plan->args[inst->first_arg + a];
            uint32_t *aligned = &rows[inst->ref].aligned[k];
            *aligned = common(*aligned, arg->base);
            for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
                *aligned = common(*aligned, arg->reg[r]);
            for (uint32_t c = 0; c < DT_PLAN_COORDS; c++)
                *aligned = common(*aligned, arg->coord[c]);
        }
    }
}

/* Lowers the alignments to those that also hold for steps from one index of the record's loops to
 * the next. */
static void step_aligned(const DtPlanGemm *g, DtLtRow *row)
{
    const int64_t *const batch[] = {g->a_batch, g->b_batch, g->c_batch};
    const uint32_t dtypes[] = {g->dtype_a, g->dtype_b, g->dtype_c};
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t d = 0; d < row->of.loops; d++)
            row->aligned[k] = common(row->aligned[k], batch[k][d] * dt_kinds_size(dtypes[k]));
}

static bool prefer(const DtLtLibrary *l, DtLtPreference *preference, const DtPlanGemm *g,
                   const DtLtRow *row)
{
    const bool swapped = row->of.left_is_b;
    const uint32_t aligned[] = {row->aligned[swapped ? 1 : 0], row->aligned[swapped ? 0 : 1],
                                row->aligned[adds_matrix(g) ? DT_GEMM_MATRIX : DT_GEMM_C],
                                row->aligned[DT_GEMM_C]};
    bool good = true;
    for (int k = 0; good && k < 4; k++)
        good = l->preference_set(preference, PREFERENCE_ALIGNED_A + k, &aligned[k],
                                 sizeof aligned[k]) == 0;
    return good;
}

/* Tells the library the alignment of addresses as far as it is known. */
int dt_cuda_products_propose(const DtCudaProducts *products, uint32_t gemm, int n,
                             DtLtProposal *ret_proposals)
{
    const DtLtLibrary *l = &products->library;
    const DtPlanGemm *g = &products->plan->gemms[gemm];
    DtLtRow *row = &products->rows[gemm];
    int found = 0;
    return prefer(l, products->preference, g, row) &&
                   say_operands(l, g, row, row->aligned[DT_GEMM_VECTOR],
                                row->aligned[DT_GEMM_MATRIX]) &&
                   l->propose(products->handle, row->desc, row->left, row->right, row->added,
                              row->out, products->preference, n, ret_proposals, &found) == 0
               ? found
               : 0;
}

static bool open_row(const DtCudaProducts *products, uint32_t gemm)
{
    const DtPlanGemm *g = &products->plan->gemms[gemm];
    DtLtRow *row = &products->rows[gemm];
    DtLtProposal first = {.workspace = 0};
    if (!dt_cuda_product_of(g, &row->of) || !make_row(&products->library, products->plan, g, row))
        return false;
    step_aligned(g, row);
    if (dt_cuda_products_propose(products, gemm, 1, &first) < 1 || first.state != 0)
        return false;
    row->algorithm = first.algorithm;
    return true;
}

static DtStatus open_rows(DtCudaProducts *products)
{
    const DtLtLibrary *l = &products->library;
    const uint64_t most = DT_LT_WORKSPACE;
    const uint32_t sums = SUMS_OF_PARTS_IN_F32;
    find_aligned(products->plan, products->rows);
    if (l->preference_new(&products->preference) != 0 ||
        l->preference_set(products->preference, PREFERENCE_WORKSPACE, &most, sizeof most) != 0 ||
        l->preference_set(products->preference, PREFERENCE_SUMS, &sums, sizeof sums) != 0)
        return dt_status_fail(DT_EXIT_FAILED, "cuBLASLt takes no preferences");
    for (uint32_t i = 0; i < products->plan->n_gemms; i++) {
        const DtPlanGemm *g = &products->plan->gemms[i];
        products->rows[i].is_refused = !open_row(products, i);
        if (products->rows[i].is_refused && !dt_forms_of(products->plan, i))
            return dt_status_fail(DT_EXIT_FAILED,
                                  "product %u of the plan, %lld x %lld x %lld of %s with epilogue "
                                  "`%s`, is none that cuBLASLt does "
                                  "on this device",
                                  i, (long long)g->m, (long long)g->n, (long long)g->k,
                                  dt_kinds_name(g->dtype_a), dt_kinds_epilogues[g->epilogue].name);
    }
    return DT_OK;
}

DtStatus dt_cuda_products_open(DtArena *memory, const DtPlan *plan, const DtCudaDriver *driver,
                               DtCudaStream *stream, DtCudaProducts **ret_products)
{
    DtCudaProducts *products = DT_NEW(memory, DtCudaProducts);
    *products = (DtCudaProducts){.plan = plan, .driver = driver, .stream = stream};
    products->rows = DT_NEW_ARRAY(memory, DtLtRow, plan->n_gemms + 1);
    *ret_products = products;
    if (plan->n_gemms == 0)
        return DT_OK;
    DtStatus status = open_library(memory, driver, &products->library);
    if (!dt_status_ok(&status))
        return status;
    if (products->library.create(&products->handle) != 0)
        return dt_status_fail(DT_EXIT_FAILED, "cuBLASLt does not begin on this device");
    const int error = driver->alloc(&products->workspace, DT_LT_WORKSPACE);
    return error ? dt_status_fail(DT_EXIT_DOES_NOT_FIT, "no %d MiB for products on the device: %s",
                                  DT_LT_WORKSPACE >> 20, dt_cuda_driver_error(driver, error))
                 : open_rows(products);
}

bool dt_cuda_products_begin(DtCudaProducts *products, uint32_t gemm, const DtAlgorithm *algorithm,
                            const uint64_t at[DT_GEMM_OPERANDS], bool once)
{
    const DtPlanGemm *g = &products->plan->gemms[gemm];
    DtLtRow *row = &products->rows[gemm];
    const float one = 1, kept = g->accumulate || adds_matrix(g) ? 1 : 0;
    DtGemmBatch batch = dt_gemm_batch(g, row->of.loops);
    if (!say_operands(&products->library, g, row, at[DT_GEMM_VECTOR], at[DT_GEMM_MATRIX]))
        return false;
    do {
        const uint64_t at_a = at[DT_GEMM_A] + (uint64_t)(batch.a * dt_kinds_size(g->dtype_a));
        const uint64_t at_b = at[DT_GEMM_B] + (uint64_t)(batch.b * dt_kinds_size(g->dtype_b));
        const uint64_t at_d = at[DT_GEMM_C] + (uint64_t)(batch.c * dt_kinds_size(g->dtype_c));
        const uint64_t at_c = adds_matrix(g) ? at[DT_GEMM_MATRIX] : at_d;
        if (products->library.multiply(
                products->handle, row->desc, &one, row->of.left_is_b ? at_b : at_a, row->left,
                row->of.left_is_b ? at_a : at_b, row->right, &kept, at_c, row->added, at_d,
                row->out, algorithm, products->workspace, DT_LT_WORKSPACE, products->stream) != 0)
            return false;
    } while (!once && dt_gemm_batch_next(&batch));
    return true;
}

bool dt_cuda_products_run(DtCudaProducts *products, uint32_t gemm,
                          const uint64_t at[DT_GEMM_OPERANDS])
{
    return dt_cuda_products_begin(products, gemm, &products->rows[gemm].algorithm, at, false);
}

bool dt_cuda_products_does(const DtCudaProducts *products, uint32_t gemm)
{
    return !products->rows[gemm].is_refused;
}

uint64_t dt_cuda_products_bytes(const DtPlan *plan) { return plan->n_gemms ? DT_LT_WORKSPACE : 0; }

void dt_cuda_products_close(DtCudaProducts *products)
{
    const DtLtLibrary *l = &products->library;
    for (uint32_t i = 0; i < products->plan->n_gemms; i++) {
        DtLtRow *row = &products->rows[i];
        if (row->desc)
            l->desc_free(row->desc);
        for (int k = 0; k < 4; k++) {
            DtLtLayout *layout = k == 0   ? row->left
                                 : k == 1 ? row->right
                                 : k == 2 ? row->out
                                          : row->added;
            if (k == 3 && layout == row->out)
                break;
            if (layout)
                l->layout_free(layout);
        }
    }
    if (products->preference)
        l->preference_free(products->preference);
    if (products->workspace)
        products->driver->free(products->workspace);
    if (products->handle)
        l->destroy(products->handle);
}
