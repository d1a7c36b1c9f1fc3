/* SPDX-License-Identifier: Apache-2.0 */
/* The device "cuda" on stand-ins of its libraries, beside "cpu": the plan of tests/runtime/tiny.c
 * gives the same bits on both, although every instruction runs late and host code cannot access the
 * device's memory. Also the messages if something is missing. */
#include "tiny.h"

#include "base/hostcc.h"
#include "runtime/device.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void begin(Tiny *tiny, const char *device, const char *target)
{
    *tiny = (Tiny){.arena = dt_arena_new()};
    tiny_open(tiny, tiny_build(tiny->arena, target, 0.3));
    tiny->options.device = device;
    if (strcmp(device, "cuda") == 0)
        tiny->options.gemm = DT_GEMM_DEFAULT;
}

static void end(Tiny *tiny)
{
    tiny_close(tiny);
    dt_arena_free(tiny->arena);
}

static void train(Tiny *tiny, const char *device, const char *target)
{
    begin(tiny, device, target);
    DtStatus status = tiny_load(tiny);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(dt_train_loaded(&tiny->run), DT_EXIT_OK, "%s", tiny->run.rank.failure.message);
}

Test(cuda, trains_as_the_cpu)
{
    Tiny cpu, cuda;
    train(&cpu, "cpu", dt_hostcc_native());
    train(&cuda, "cuda", "sm_90a");
    for (uint32_t a = 0; a < cpu.plan.n_arenas; a++) {
        const int64_t bytes = cpu.plan.arenas[a].bytes;
        char *wanted = malloc((size_t)bytes), *got = malloc((size_t)bytes);
        dt_device_get(&cpu.run.rank, wanted, dt_device_place(&cpu.run.rank, a, 0, bytes), bytes);
        dt_device_get(&cuda.run.rank, got, dt_device_place(&cuda.run.rank, a, 0, bytes), bytes);
        cr_assert_arr_eq(got, wanted, (size_t)bytes, "arena %u", a);
        free(wanted);
        free(got);
    }
    cr_assert_str_eq(cuda.run.rank.gemm_library, "cublaslt");
    end(&cpu);
    end(&cuda);
}

/* All ways in which two places can overlap. */
Test(cuda, copies_what_overlaps)
{
    Tiny tiny;
    char wanted[600], got[600];
    train(&tiny, "cuda", "sm_90a");
    const DtRank *rank = &tiny.run.rank;
    for (int64_t from = 0; from < 40; from += 13)
        for (int64_t to = 0; to < 40; to += 3)
            for (int64_t n = 1; n < 500; n += 83) {
                for (int i = 0; i < 600; i++)
                    wanted[i] = (char)(i * 7 + i / 256);
                dt_device_put(rank, dt_device_place(rank, 2, 0, 600), wanted, 600);
                memmove(wanted + to, wanted + from, (size_t)n);
                dt_device_copy(rank, dt_device_place(rank, 2, to, n),
                               dt_device_place(rank, 2, from, n), n);
                dt_device_get(rank, got, dt_device_place(rank, 2, 0, 600), 600);
                cr_assert_arr_eq(got, wanted, 600, "%d bytes from %d to %d", (int)n, (int)from,
                                 (int)to);
            }
    end(&tiny);
}

static void expect(const char *standin, const char *target, int code, const char *wanted)
{
    Tiny tiny;
    setenv("DT_STANDIN", standin, 1);
    begin(&tiny, "cuda", target);
    const DtStatus status = tiny_load(&tiny);
    cr_expect_eq(status.code, code, "%s", status.message);
    cr_expect(strstr(status.message, wanted), "%s", status.message);
    end(&tiny);
}

/* A kernel is launched with the number of threads by which its text divides the work. */
Test(cuda, launches_as_the_text_says)
{
    Tiny tiny = {.arena = dt_arena_new()};
    DtPlanBuilder *builder = tiny_build(tiny.arena, "sm_90a", 0.3);
    builder->launches.at[1].threads = 64;
    tiny_open(&tiny, builder);
    tiny.options.device = "cuda";
    tiny.options.gemm = DT_GEMM_DEFAULT;
    const DtStatus status = tiny_load(&tiny);
    cr_expect_eq(status.code, DT_EXIT_FAILED);
    cr_expect(strstr(status.message,
                     "kernel `sgd` has blocks of 32 threads, and the plan starts it with 64"),
              "%s", status.message);
    end(&tiny);
}

static void expect_of(DtPlanBuilder *builder, Tiny *tiny, const char *standin, const char *wanted)
{
    setenv("DT_STANDIN", standin, 1);
    tiny_open(tiny, builder);
    tiny->options.device = "cuda";
    tiny->options.gemm = DT_GEMM_DEFAULT;
    const DtStatus status = tiny_load(tiny);
    cr_expect_eq(dt_status_ok(&status), !wanted, "%s", status.message);
    cr_expect(!wanted || strstr(status.message, wanted), "%s", status.message);
    end(tiny);
}

/* An older driver refuses code of a newer compiler; the message names that compiler. */
Test(cuda, names_the_compiler_that_the_driver_wants)
{
    Tiny tiny = {.arena = dt_arena_new()};
    DtPlanBuilder *builder = tiny_build(tiny.arena, "sm_90a", 0.3);
    builder->codes.at[0].compiler = dt_write_str(builder, "NVRTC 13.0");
    expect_of(
        builder, &tiny, "old=1 driver=12040",
        "NVRTC 13.0 made it, and the driver knows CUDA 12.4: compile the plan where NVRTC 12 is");
}

/* Runs a kernel that needs more than the 48 KiB of shared memory that every device allows; `wanted`
 * is the expected message. */
static void shares(const char *standin, const char *wanted)
{
    Tiny tiny = {.arena = dt_arena_new()};
    DtPlanBuilder *builder = tiny_build(tiny.arena, "sm_90a", 0.3);
    builder->launches.at[1].shared = 110000;
    expect_of(builder, &tiny, standin, wanted);
}
Test(cuda, has_blocks_that_share) { shares("", NULL); }
Test(cuda, has_blocks_that_share_less)
{
    shares("shared=101376", "wants 110000 bytes of memory that a block's threads share, and this "
                            "GPU (sm_90) has 101376");
}

/* If the driver refuses a launch, the rank fails. */
Test(cuda, ends_where_registers_do_not_suffice)
{
    Tiny tiny;
    begin(&tiny, "cuda", "sm_90a");
    const DtStatus status = tiny_load(&tiny);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    setenv("DT_STANDIN", "registers=4096", 1);
    cr_expect_eq(dt_train_loaded(&tiny.run), DT_EXIT_FAILED);
    const char *said = tiny.run.rank.failure.message;
    cr_expect(strstr(said, "the GPU failed to start a kernel"), "%s", said);
    end(&tiny);
}

/* Checks that a fault ends the rank. If it is noticed late, the message names the same instruction
 * as if each instruction were waited for, unless the device cannot write its progress. */
static void fault(bool sync, const char *standin)
{
    Tiny tiny;
    setenv("DT_STANDIN", standin, 1);
    begin(&tiny, "cuda", "sm_90a");
    tiny.options.sync = sync;
    const DtStatus status = tiny_load(&tiny);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    setenv("DT_STANDIN", "fault=2", 1);
    cr_expect_eq(dt_train_loaded(&tiny.run), DT_EXIT_FAILED);
    const char *said = tiny.run.rank.failure.message;
    cr_expect(strstr(said, "an illegal memory access was encountered"), "%s", said);
    const bool is_known = standin[0] == '\0';
    cr_expect_eq(strstr(said, "--sync names the one that it is") != NULL, !is_known, "%s", said);
    const uint32_t inst = atomic_load(&tiny.run.rank.slot->inst);
    cr_expect(!is_known ||
                  (inst < tiny.plan.n_insts && tiny.plan.insts[inst].kind == DT_INST_KERNEL),
              "instruction %u", inst);
    end(&tiny);
}
Test(cuda, ends_at_a_fault) { fault(false, "unseen=1"); }
Test(cuda, ends_at_a_fault_without_memory_operations) { fault(false, "unwritten=1"); }
Test(cuda, names_what_is_at_fault) { fault(false, ""); }
Test(cuda, names_what_is_at_fault_by_waiting) { fault(true, ""); }

Test(cuda, says_what_is_missing)
{
    expect("gpus=0", "sm_90a", DT_EXIT_FAILED, "no CUDA-capable device is detected");
    expect("driver=11080", "sm_90a", DT_EXIT_FAILED, "knows CUDA 11.8, and 12.0 is the oldest");
    expect("stub=1", "sm_90a", DT_EXIT_FAILED, "libcuda.so.1 is the stub of the CUDA toolkit");
    expect("driver=12040", "sm_90a", DT_EXIT_FAILED,
           "there is no libcublasLt.so.12 in the folders of DT_CUDA_LIBRARIES");
    expect("old=1", "sm_90a", DT_EXIT_FAILED, "cannot be loaded: device kernel image is invalid");
    expect("memory=50000", "sm_90a", DT_EXIT_DOES_NOT_FIT,
           "a rank needs 32.1 MiB on its GPU, which has 48.8 KiB for each of 1");
    expect("", "cpu-v1", DT_EXIT_USAGE,
           "the plan has code for cpu-v1, and none for device `cuda`: compile it with "
           "--target=sm_90a");
    expect("", "sm_80", DT_EXIT_FAILED,
           "the plan has code for sm_80, and none for this stand-in 0 (sm_90): compile it with "
           "--target=sm_90a, or run "
           "it with --rebuild");
}

/* ---- what the host waits for ---- */

static long long stream_waits(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    long long (*count)(void) = NULL;
    *(void **)&count = dlsym(driver, "standin_stream_waits");
    return count();
}

static long long waits_of_run(int64_t steps)
{
    Tiny tiny;
    begin(&tiny, "cuda", "sm_90a");
    tiny.options.steps = steps;
    const DtStatus status = tiny_load(&tiny);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    const long long before = stream_waits();
    cr_assert_eq(dt_train_loaded(&tiny.run), DT_EXIT_OK, "%s", tiny.run.rank.failure.message);
    const long long waits = stream_waits() - before;
    end(&tiny);
    return waits;
}

/* Data, learning rates, losses and norms are copied between host and device without waiting for all
 * work that was started. */
Test(cuda, waits_for_no_step)
{
    const long long few = waits_of_run(2), more = waits_of_run(7);
    cr_expect_eq(few, more, "%lld waits for the stream in 2 steps, %lld in 7", few, more);
}
