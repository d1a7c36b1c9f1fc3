/* SPDX-License-Identifier: Apache-2.0 */
/* Each library, compared with the plain loops: shapes, transpositions, batches, strides,
 * broadcasts, adding. */
#include "gemm_cases.h"

#include "base/half.h"
#include "runtime/gemm.h"
#include "runtime/reduce.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void compare(DtGemmKind kind, const DtPlanGemm *g, size_t index)
{
    DtPlan plan = {.gemms = g, .n_gemms = 1};
    DtArena *arena = dt_arena_new();
    DtGemms gemms;
    DtStatus status = dt_gemm_open(&plan, arena, kind, &gemms);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(gemms.n_plain, 0, "case %zu runs in the plain loops", index);
    int64_t n_c = gemm_extent(g, g->m, g->c_row, g->n, g->c_col, g->c_batch);
    float *a = gemm_numbers(gemm_extent(g, g->m, g->a_row, g->k, g->a_col, g->a_batch), 1);
    float *b = gemm_numbers(gemm_extent(g, g->k, g->b_row, g->n, g->b_col, g->b_batch), 2);
    float *c = gemm_numbers(n_c, 3), *expected = gemm_numbers(n_c, 3);
    for (int twice = 0; twice < 2; twice++) {
        cr_assert(dt_gemm_run(&gemms, 0, a, b, c));
        dt_gemm_plain_run(g, a, b, expected);
    }
    for (int64_t i = 0; i < n_c; i++)
        cr_assert_float_eq(c[i], expected[i],
                           1e-5f * sqrtf((float)g->k) + 1e-6f * fabsf(expected[i]),
                           "case %zu element %ld: %g instead of %g", index, i, c[i], expected[i]);
    free(a);
    free(b);
    free(c);
    free(expected);
    dt_gemm_close(&gemms);
    dt_arena_free(arena);
}

/* Batch axes in any order of memory, some of which an operand lacks. */
Test(gemm, batches_equal_plain)
{
    uint32_t seed = 1;
    for (int i = 0; i < 300; i++) {
        const DtPlanGemm g = gemm_draw(&seed);
        compare(DT_GEMM_ONEDNN, &g, i);
        compare(DT_GEMM_OPENBLAS, &g, i);
    }
}

/* bf16 operands: oneDNN's sums are in f32, so a result rounded to bf16 may differ in its last
 * place. */
Test(gemm, bf16_equals_plain)
{
    for (uint32_t to_f32 = 0; to_f32 < 2; to_f32++)
        for (uint32_t accumulate = 0; accumulate < 2; accumulate++) {
            enum { M = 24, N = 40, K = 56 };
            DtPlanGemm g = {.accumulate = accumulate,
                            .dtype_a = DT_PLAN_BF16,
                            .dtype_b = DT_PLAN_BF16,
                            .dtype_c = to_f32 ? DT_PLAN_F32 : DT_PLAN_BF16,
                            .m = M,
                            .n = N,
                            .k = K,
                            .a_row = K,
                            .a_col = 1,
                            .b_row = 1,
                            .b_col = K,
                            .c_row = N,
                            .c_col = 1};
            DtPlan plan = {.gemms = &g, .n_gemms = 1};
            DtArena *arena = dt_arena_new();
            DtGemms gemms;
            float *from = gemm_numbers(M * K + K * N, 7);
            static uint16_t a[M * K], b[K * N];
            static float c[2][M * N];
            for (int i = 0; i < M * K; i++)
                a[i] = dt_half_to_bf16(from[i]);
            for (int i = 0; i < K * N; i++)
                b[i] = dt_half_to_bf16(from[M * K + i]);
            memset(c, 0, sizeof c);
            DtStatus status = dt_gemm_open(&plan, arena, DT_GEMM_ONEDNN, &gemms);
            cr_assert(dt_status_ok(&status), "%s", status.message);
            cr_assert(dt_gemm_run(&gemms, 0, a, b, c[0]));
            dt_gemm_plain_run(&g, a, b, c[1]);
            for (int i = 0; i < M * N; i++) {
                float value[2];
                for (int k = 0; k < 2; k++)
                    value[k] = to_f32
                                   ? c[k][i]
                                   : dt_half_from_bf16(((const uint16_t *)(const void *)c[k])[i]);
                cr_assert_float_eq(value[0], value[1],
                                   to_f32 ? 2e-5f : fabsf(value[1]) / 64 + 1e-3f);
            }
            free(from);
            dt_gemm_close(&gemms);
            dt_arena_free(arena);
        }
}

/* The last two cases are computed in tiles. */
Test(gemm, onednn_equals_plain)
{
    for (size_t i = 0; i < GEMM_CASES; i++)
        compare(DT_GEMM_ONEDNN, &gemm_cases[i], i);
}

Test(gemm, openblas_equals_plain)
{
    for (size_t i = 0; i < GEMM_CASES; i++)
        compare(DT_GEMM_OPENBLAS, &gemm_cases[i], i);
}

/* ---- tiles ---- */

/* Returns n random numbers of the dtype. */
static void *halves(int64_t n, uint32_t seed, uint32_t dtype)
{
    float *from = gemm_numbers(n, seed);
    if (dtype == DT_PLAN_F32)
        return from;
    uint16_t *at = malloc((size_t)n * sizeof *at);
    dt_reduce_narrow((DtPlanDtype)dtype, at, from, n);
    free(from);
    return at;
}

static float value_of(const void *at, int64_t i, uint32_t dtype)
{
    float value;
    if (dtype == DT_PLAN_F32)
        return ((const float *)at)[i];
    dt_reduce_widen((DtPlanDtype)dtype, &value, (const uint16_t *)at + i, 1);
    return value;
}

/* Returns the tolerance: half a unit in the last place of values below 64, and errors of f32 sums
 * of k products below 1. */
static float allowed(uint32_t dtype, int64_t k, float value)
{
    float unit = dtype == DT_PLAN_BF16 ? 0x1p-8f : dtype == DT_PLAN_F16 ? 0x1p-11f : 0;
    return 2e-6f * sqrtf((float)k) * 4 + 2 * unit * fabsf(value);
}

static void check_tiles(DtGemmKind kind, DtPlanGemm g)
{
    DtPlan plan = {.gemms = &g, .n_gemms = 1};
    DtArena *arena = dt_arena_new();
    DtGemms gemms;
    DtStatus status = dt_gemm_open(&plan, arena, kind, &gemms);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(gemms.n_plain, 0);
    cr_assert_eq(gemms.ways[0], DT_GEMM_BY_TILES);
    int64_t n_c = gemm_extent(&g, g.m, g.c_row, g.n, g.c_col, g.c_batch);
    void *a = halves(gemm_extent(&g, g.m, g.a_row, g.k, g.a_col, g.a_batch), 1, g.dtype_a);
    void *b = halves(gemm_extent(&g, g.k, g.b_row, g.n, g.b_col, g.b_batch), 2, g.dtype_b);
    void *c = halves(n_c, 3, g.dtype_c), *expected = halves(n_c, 3, g.dtype_c);
    cr_assert(dt_gemm_run(&gemms, 0, a, b, c));
    dt_gemm_plain_run(&g, a, b, expected);
    for (int64_t i = 0; i < n_c; i++) {
        float x = value_of(c, i, g.dtype_c), y = value_of(expected, i, g.dtype_c);
        cr_assert_float_eq(x, y, allowed(g.dtype_c, g.k, y),
                           "%ld x %ld x %ld, element %ld: %g instead of %g", g.m, g.n, g.k, i, x,
                           y);
    }
    free(a);
    free(b);
    free(c);
    free(expected);
    dt_gemm_close(&gemms);
    dt_arena_free(arena);
}

/* Several tiles in each direction with incomplete tiles at the edges, all dtypes, rows or columns
 * contiguous in memory, with and without adding. */
Test(gemm, tiles_of_16_bits_equal_plain)
{
    static const uint32_t dtypes[][3] = {{DT_PLAN_BF16, DT_PLAN_BF16, DT_PLAN_BF16},
                                         {DT_PLAN_BF16, DT_PLAN_BF16, DT_PLAN_F32},
                                         {DT_PLAN_F16, DT_PLAN_F16, DT_PLAN_F16},
                                         {DT_PLAN_F16, DT_PLAN_F16, DT_PLAN_F32}};
    static const int64_t sizes[][3] = {{5, 7, 3}, {1, 530, 20}, {515, 3, 9}, {30, 40, 1100},
                                       {515, 3, 1100}, {1, 1, 1}};
    for (size_t d = 0; d < DT_COUNT(dtypes); d++)
        for (size_t i = 0; i < DT_COUNT(sizes); i++)
            for (int how = 0; how < 8; how++) {
                int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
                bool ta = how & 1, tb = how & 2;
                check_tiles(DT_GEMM_OPENBLAS,
                            (DtPlanGemm){.accumulate = how >= 4, .dtype_a = dtypes[d][0],
                                         .dtype_b = dtypes[d][1], .dtype_c = dtypes[d][2], .m = m,
                                         .n = n, .k = k, .a_row = ta ? 1 : k, .a_col = ta ? m : 1,
                                         .b_row = tb ? 1 : n, .b_col = tb ? k : 1, .c_row = n,
                                         .c_col = 1});
            }
}

/* Operands that no library accepts as matrices: overlapping rows, broadcast rows, no unit stride, a
 * batch with one weight for all. */
Test(gemm, tiles_of_any_strides_equal_plain)
{
    static const DtPlanGemm shapes[] = {
        {F32, .m = 40, .n = 9, .k = 12, .a_row = 2, .a_col = 3, .b_row = 9, .b_col = 1, .c_row = 9,
         .c_col = 1},
        {F32, .m = 40, .n = 9, .k = 12, .a_row = 0, .a_col = 1, .b_row = 20, .b_col = 2,
         .c_row = 19, .c_col = 2},
        {F32, .n_batch = 2, .accumulate = 1, .m = 7, .n = 5, .k = 6, .batch = {2, 3},
         .a_batch = {100, 30}, .b_batch = {0, 70}, .c_batch = {105, 35}, .a_row = 3, .a_col = 2,
         .b_row = 10, .b_col = 2, .c_row = 5, .c_col = 1},
    };
    for (size_t i = 0; i < DT_COUNT(shapes); i++) {
        check_tiles(DT_GEMM_OPENBLAS, shapes[i]);
        check_tiles(DT_GEMM_ONEDNN, shapes[i]);
    }
}

Test(gemm, plain_by_hand)
{
    const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1};
    float c[4] = {100, 100, 100, 100};
    DtPlanGemm g = {F32,        .accumulate = 1, .m = 2,     .n = 2,     .k = 3,    .a_row = 3,
                    .a_col = 1, .b_row = 2,      .b_col = 1, .c_row = 2, .c_col = 1};
    dt_gemm_plain_run(&g, a, b, c);
    cr_assert_eq(c[0], 104);
    cr_assert_eq(c[1], 105);
    cr_assert_eq(c[2], 110);
    cr_assert_eq(c[3], 111);
}

/* In float, adding 1 to 2^30 changes nothing. */
Test(gemm, plain_adds_up_in_double)
{
    const float a[4] = {0x1p30f, 1, 1, -0x1p30f}, b[4] = {1, 1, 1, 1};
    float c = 1;
    DtPlanGemm g = {F32,        .accumulate = 1, .m = 1,     .n = 1,     .k = 4,    .a_row = 4,
                    .a_col = 1, .b_row = 1,      .b_col = 1, .c_row = 1, .c_col = 1};
    dt_gemm_plain_run(&g, a, b, &c);
    cr_assert_eq(c, 3);
}

Test(gemm, other_dtypes_are_refused)
{
    DtPlanGemm g = gemm_cases[0];
    DtPlan plan = {.gemms = &g, .n_gemms = 1};
    DtArena *arena = dt_arena_new();
    DtGemms gemms;
    g.dtype_a = DT_PLAN_F64;
    DtStatus status = dt_gemm_open(&plan, arena, DT_GEMM_DEFAULT, &gemms);
    cr_assert(strstr(status.message, "f64 matrices"), "%s", status.message);
    dt_arena_free(arena);
}

/* Compares each epilogue after a library's product with the plain loops, which round once. C may
 * differ by the rounding before the epilogue, times the epilogue's slope: below 1.13 for GELU, and
 * 4 for its gradient, per unit of m. */
static void check_joined(DtGemmKind kind, const DtPlanGemm *g)
{
    DtPlan plan = {.gemms = g, .n_gemms = 1};
    DtArena *arena = dt_arena_new();
    DtGemms gemms;
    DtStatus status = dt_gemm_open(&plan, arena, kind, &gemms);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    const uint32_t dtypes[5] = {g->dtype_a, g->dtype_b, g->dtype_c, g->dtype_c, g->dtype_c};
    int64_t n[5];
    void *got[5], *want[5];
    gemm_extents(g, n);
    for (uint32_t i = 0; i < 5; i++) {
        const bool narrow = dtypes[i] != DT_PLAN_F32;
        got[i] = narrow ? halves(n[i], i + 1, dtypes[i]) : (void *)gemm_numbers(n[i], i + 1);
        want[i] = narrow ? halves(n[i], i + 1, dtypes[i]) : (void *)gemm_numbers(n[i], i + 1);
    }
    cr_assert(dt_gemm_join(&gemms, 0, got[0], got[1], got[2], got[3], got[4]));
    dt_gemm_plain_join(g, want[0], want[1], want[2], want[3], want[4]);
    for (uint32_t i = 2; i < 5; i++)
        for (int64_t k = 0; k < n[i]; k++) {
            const float x = value_of(got[i], k, dtypes[i]), y = value_of(want[i], k, dtypes[i]);
            const float size = fabsf(y) > 8 ? fabsf(y) : 8;
            cr_assert_float_eq(x, y, allowed(dtypes[i], g->k, size),
                               "`%s` operand %u, %ld: %g, not %g",
                               dt_kinds_epilogues[g->epilogue].name, i, k, x, y);
        }
    for (uint32_t i = 0; i < 5; i++) {
        free(got[i]);
        free(want[i]);
    }
    dt_gemm_close(&gemms);
    dt_arena_free(arena);
}

Test(gemm, epilogues_equal_plain)
{
    uint32_t seed = 9;
    for (uint32_t e = 0; e < DT_PLAN_EPILOGUES; e++)
        for (int i = 0; i < 8; i++) {
            const uint32_t dtype = i % 2 ? DT_PLAN_BF16 : DT_PLAN_F32;
            const DtPlanGemm g =
                gemm_draw_joined(&seed, e, dtype, i % 4 == 3 ? (uint32_t)DT_PLAN_F32 : dtype);
            check_joined(DT_GEMM_ONEDNN, &g);
            check_joined(DT_GEMM_OPENBLAS, &g);
        }
}
