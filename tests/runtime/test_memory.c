/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is allocated inside a step: the allocator of the process is replaced by one that counts.
 * Not for builds with sanitizers, which have allocators of their own. */
#include "tiny.h"

#include "base/hostcc.h"
#include "tests/count_calls.h"

#include <criterion/criterion.h>
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

Test(memory, the_counter_counts)
{
    long before = calls;
    void *volatile at = malloc(10);
    free(at);
    cr_assert_eq(calls, before + 1);
}

Test(memory, plain) { cr_assert_eq(calls_in_steps(DT_GEMM_PLAIN), 0); }
Test(memory, chosen) { cr_assert_eq(calls_in_steps(DT_GEMM_DEFAULT), 0); }

Test(memory, onednn)
{
    if (!__builtin_cpu_supports("avx512f"))
        cr_skip_test("without AVX-512 oneDNN takes its buffers in every call, and is not what dtrun chooses");
    cr_assert_eq(calls_in_steps(DT_GEMM_ONEDNN), 0);
}
Test(memory, openblas) { cr_assert_eq(calls_in_steps(DT_GEMM_OPENBLAS), 0); }
