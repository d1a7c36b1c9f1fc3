/* SPDX-License-Identifier: Apache-2.0 */
/* Epilogues of matrix products on the CPU (plan/epilogues.def), as loops before and after a
 * library's product. A matrix that the epilogue adds is copied to C before the product, which then
 * adds to C. Everything else is applied to C after the product, when C is already rounded. (The
 * plain loops in gemm_plain.c and cuBLASLt round after the epilogue.) */
#include "runtime/gemm.h"

#include <math.h>
#include <string.h>

static const double scale = 0.79788456080286535588, cubic = 0.044715; /* sqrt(2 / pi) */

static double gelu(double x) { return 0.5 * x * (1 + tanh(scale * (x + cubic * x * x * x))); }

static double gelu_slope(double x)
{
    const double t = tanh(scale * (x + cubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
}

static bool adds_matrix(const DtPlanGemm *g)
{
    return g->epilogue == DT_PLAN_EPILOGUE_ADD || g->epilogue == DT_PLAN_EPILOGUE_BIAS_ADD;
}

double dt_gemm_epilogue_of(const DtPlanGemm *g, double x, int64_t i, int64_t j, const void *vector,
                           void *matrix)
{
    const int64_t at = i * g->matrix_row + j * g->matrix_col;
    if (dt_kinds_epilogues[g->epilogue].vector == DT_EPILOGUE_READ)
        x += dt_gemm_get(vector, j, g->dtype_c);
    if (dt_kinds_epilogues[g->epilogue].matrix == DT_EPILOGUE_WRITE)
        dt_gemm_put(matrix, at, g->dtype_c, (float)x);
    switch ((DtPlanEpilogue)g->epilogue) {
    case DT_PLAN_EPILOGUE_ADD:
    case DT_PLAN_EPILOGUE_BIAS_ADD: return x + dt_gemm_get(matrix, at, g->dtype_c);
    case DT_PLAN_EPILOGUE_RELU:
    case DT_PLAN_EPILOGUE_BIAS_RELU: return x > 0 || isnan(x) ? x : 0;
    case DT_PLAN_EPILOGUE_GELU:
    case DT_PLAN_EPILOGUE_BIAS_GELU:
    case DT_PLAN_EPILOGUE_GELU_AUX:
    case DT_PLAN_EPILOGUE_BIAS_GELU_AUX: return gelu(x);
    case DT_PLAN_EPILOGUE_DGELU: return x * gelu_slope(dt_gemm_get(matrix, at, g->dtype_c));
    default: return x;
    }
}

DtPlanGemm dt_gemm_epilogue_inner(const DtPlanGemm *gemm)
{
    DtPlanGemm inner = *gemm;
    inner.accumulate = inner.accumulate || adds_matrix(gemm);
    inner.epilogue = DT_PLAN_EPILOGUE_NONE;
    inner.matrix_row = inner.matrix_col = 0;
    return inner;
}

void dt_gemm_epilogue_begin(const DtPlanGemm *g, void *c, const void *matrix)
{
    const int64_t unit = dt_kinds_size(g->dtype_c);
    for (int64_t i = 0; adds_matrix(g) && (c != matrix || g->c_row != g->matrix_row) && i < g->m;
         i++)
        memmove((char *)c + i * g->c_row * unit, (const char *)matrix + i * g->matrix_row * unit,
                (size_t)(g->n * unit));
}

void dt_gemm_epilogue_sum(const DtPlanGemm *g, const void *a, const void *b, void *vector)
{
    enum { LANES = 64 };
    if (dt_kinds_epilogues[g->epilogue].vector != DT_EPILOGUE_WRITE)
        return;
    const bool rows = g->epilogue == DT_PLAN_EPILOGUE_SUM_A;
    const void *from = rows ? a : b;
    const uint32_t dtype = rows ? g->dtype_a : g->dtype_b;
    const int64_t n = rows ? g->m : g->n, step = rows ? g->a_row : g->b_col,
                  down = rows ? g->a_col : g->b_row;
    for (int64_t first = 0; first < n; first += LANES) {
        double sum[LANES] = {0};
        const int64_t lanes = n - first < LANES ? n - first : LANES;
        for (int64_t k = 0; k < g->k; k++)
            for (int64_t l = 0; l < lanes; l++)
                sum[l] += dt_gemm_get(from, (first + l) * step + k * down, dtype);
        for (int64_t l = 0; l < lanes; l++)
            dt_gemm_put(vector, first + l, g->dtype_c, (float)sum[l]);
    }
}

void dt_gemm_epilogue_end(const DtPlanGemm *g, const void *a, const void *b, void *c, void *vector,
                          void *matrix)
{
    DtPlanGemm behind = *g;
    if (adds_matrix(g))
        behind.epilogue =
            g->epilogue == DT_PLAN_EPILOGUE_ADD ? DT_PLAN_EPILOGUE_NONE : DT_PLAN_EPILOGUE_BIAS;
    dt_gemm_epilogue_sum(g, a, b, vector);
    if (behind.epilogue == DT_PLAN_EPILOGUE_NONE ||
        dt_kinds_epilogues[behind.epilogue].vector == DT_EPILOGUE_WRITE)
        return;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const int64_t at = i * g->c_row + j;
            const double x = dt_gemm_get(c, at, g->dtype_c);
            dt_gemm_put(c, at, g->dtype_c,
                        (float)dt_gemm_epilogue_of(&behind, x, i, j, vector, matrix));
        }
}
