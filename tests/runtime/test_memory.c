/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is allocated inside a step: the test replaces the allocator of the process by one that
 * counts calls. This is not possible in builds with sanitizers, which have their own allocators. */
#include "tiny.h"

#include "base/hostcc.h"
#include "runtime/gemm.h"
#include "tests/count_calls.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static long calls_in_steps(DtGemmKind gemm)
{
    Tiny tiny = {.arena = dt_arena_new()};
    tiny_open(&tiny, tiny_build(tiny.arena, dt_hostcc_native(), 0.1));
    tiny.options.gemm = gemm;
    DtStatus status = tiny_load(&tiny);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    long first = 0;
    for (int64_t step = 0; step < 20; step++) {
        if (step == 2)
            first = calls;
        tiny.run.rank.step = step;
        if (!dt_exec_entry(&tiny.run.rank, "step") || !dt_exec_entry(&tiny.run.rank, "update"))
            cr_assert_fail("%s", tiny.run.rank.failure.message);
    }
    long during = calls - first;
    tiny_close(&tiny);
    dt_arena_free(tiny.arena);
    return during;
}

/* Returns how many times products of matrices with gaps between their rows allocate memory. */
static long calls_with_gaps(DtGemmKind kind)
{
    enum { SIZE = 64, GAP = 200, BATCH = 3, STEP = SIZE * GAP };
    static float a[BATCH * STEP], b[BATCH * STEP], c[BATCH * STEP];
    const DtPlanGemm gemm = {.dtype_a = DT_PLAN_F32, .dtype_b = DT_PLAN_F32, .dtype_c = DT_PLAN_F32,
                             .m = SIZE, .n = SIZE, .k = SIZE, .n_batch = 1, .batch = {BATCH},
                             .a_batch = {STEP}, .b_batch = {STEP}, .c_batch = {STEP}, .a_row = GAP,
                             .a_col = 1, .b_row = 1, .b_col = GAP, .c_row = GAP, .c_col = 1};
    const DtPlan plan = {.gemms = &gemm, .n_gemms = 1};
    DtArena *arena = dt_arena_new();
    DtGemms gemms;
    DtStatus status = dt_gemm_open(&plan, arena, kind, &gemms);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    long first = 0;
    for (int i = 0; i < 20; i++) {
        first = i == 2 ? calls : first;
        cr_assert(dt_gemm_run(&gemms, 0, a, b, c));
    }
    long during = calls - first;
    dt_gemm_close(&gemms);
    dt_arena_free(arena);
    return during;
}

Test(memory, the_counter_counts)
{
    long before = calls;
    void *volatile at = malloc(10);
    free(at);
    cr_assert_eq(calls, before + 1);
    cr_assert_eq(posix_memalign((void **)&at, 4096, 123456), 0);
    free(at);
    cr_assert_eq(calls, before + 2);
    cr_assert_eq(posix_memalign((void **)&at, 64, 123000), 0); /* the same buffer */
    free(at);
    cr_assert_eq(calls, before + 2);
}

Test(memory, buffers_are_what_was_asked_for)
{
    enum { N = 40 };
    void *at[N];
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            size_t align = (size_t)8 << (i % 11), bytes = (i * 977) << (i % 9);
            cr_assert_eq(posix_memalign(&at[i], align, bytes), 0);
            cr_assert_eq((uintptr_t)at[i] % align, 0);
            memset(at[i], (int)i, bytes);
        }
        for (size_t i = 0; i < N; i++) {
            const unsigned char *bytes = at[i];
            for (size_t b = 0; b < (i * 977) << (i % 9); b++)
                cr_assert_eq(bytes[b], i);
            free(i % 5 == round ? realloc(at[i], 100 + 10000 * round) : at[i]);
        }
    }
    cr_assert_eq(posix_memalign(&at[0], 24, 100), EINVAL);
}

/* Allocates like the code that oneDNN generates for products. */
Test(memory, buffers_that_stay_are_in_nobodys_way)
{
    enum { N = 3000 };
    static void *stay[N];
    void *at = NULL;
    for (size_t i = 0; i < N; i++)
        cr_assert_eq(posix_memalign(&stay[i], 4096, 4096 << (i % 4)), 0);
    cr_assert_eq(posix_memalign(&at, 64, 30000), 0);
    free(at);
    long before = calls;
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(posix_memalign(&at, 64, 30000), 0);
        free(at);
    }
    cr_assert_eq(calls, before);
    for (size_t i = 0; i < N; i++)
        free(stay[i]);
    for (size_t i = 0; i < N; i++)
        cr_assert_eq(posix_memalign(&stay[i], 4096, 4096 << (i % 4)), 0);
    cr_assert_eq(calls, before);
    for (size_t i = 0; i < N; i++)
        free(stay[i]);
}

Test(memory, plain) { cr_assert_eq(calls_in_steps(DT_GEMM_PLAIN), 0); }
Test(memory, chosen) { cr_assert_eq(calls_in_steps(DT_GEMM_DEFAULT), 0); }

Test(memory, onednn) { cr_assert_eq(calls_in_steps(DT_GEMM_ONEDNN), 0); }
Test(memory, openblas) { cr_assert_eq(calls_in_steps(DT_GEMM_OPENBLAS), 0); }
Test(memory, onednn_with_gaps) { cr_assert_eq(calls_with_gaps(DT_GEMM_ONEDNN), 0); }
Test(memory, openblas_with_gaps) { cr_assert_eq(calls_with_gaps(DT_GEMM_OPENBLAS), 0); }
