/* SPDX-License-Identifier: Apache-2.0 */
/* Products described to cuBLASLt, compared with the plain loops bit by bit: the stand-in adds in
 * double, too. Also the messages if a library, a device or memory is missing. */
#include "gemm_cases.h"

#include "base/half.h"
#include "plan/kinds.h"
#include "runtime/cuda_products.h"
#include "runtime/gemm.h"
#include "tests/share.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Machine {
    DtArena *arena;
    DtCudaDriver driver;
    DtCudaStream *stream;
} Machine;

static Machine machine_open(void)
{
    Machine m = {.arena = dt_arena_new()};
    const DtStatus status = dt_cuda_driver_open(m.arena, &m.driver);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert_eq(m.driver.stream_new(&m.stream, DT_CUDA_STREAM_ALONE), 0);
    return m;
}

static void machine_close(Machine *m)
{
    m->driver.stream_free(m->stream);
    dt_arena_free(m->arena);
}

static uint64_t put(const Machine *m, const void *from, size_t bytes)
{
    uint64_t at = 0;
    cr_assert_eq(m->driver.alloc(&at, bytes), 0);
    cr_assert_eq(m->driver.put(at, from, bytes, m->stream), 0);
    return at;
}

/* Returns n numbers of that dtype. */
static void *operand(uint32_t dtype, int64_t n, uint32_t seed)
{
    float *wide = gemm_numbers(n, seed);
    if (dtype == DT_PLAN_F32)
        return wide;
    uint16_t *narrow = malloc((size_t)n * sizeof *narrow);
    for (int64_t i = 0; i < n; i++)
        narrow[i] = dtype == DT_PLAN_BF16 ? dt_half_to_bf16(wide[i]) : dt_half_to_f16(wide[i]);
    free(wide);
    return narrow;
}

/* Computes the record twice: by the library, and by the plain loops. */
static const DtPlanMeta plain;

static void compare(const DtPlanGemm *g, int number)
{
    Machine m = machine_open();
    const DtPlan plan = {.meta = &plain, .gemms = g, .n_gemms = 1};
    int64_t n[DT_GEMM_OPERANDS];
    const uint32_t dtypes[] = {g->dtype_a, g->dtype_b, g->dtype_c, g->dtype_c, g->dtype_c};
    void *here[DT_GEMM_OPERANDS];
    uint64_t there[DT_GEMM_OPERANDS];
    size_t bytes[DT_GEMM_OPERANDS];
    gemm_extents(g, n);
    for (int i = 0; i < DT_GEMM_OPERANDS; i++) {
        bytes[i] = (size_t)(n[i] * dt_kinds_size(dtypes[i]));
        here[i] = operand(dtypes[i], n[i], (uint32_t)i + 1);
        there[i] = n[i] ? put(&m, here[i], bytes[i]) : 0;
    }
    DtCudaProducts *products;
    const DtStatus status = dt_cuda_products_open(m.arena, &plan, &m.driver, m.stream, &products);
    cr_assert(dt_status_ok(&status), "%d: %s", number, status.message);
    m.driver.stream_wait(m.stream); /* before the plain loops overwrite C */
    for (int twice = 0; twice < 2; twice++) {
        cr_assert(dt_cuda_products_run(products, 0, there));
        dt_gemm_plain_join(g, here[0], here[1], here[2], here[3], here[4]);
    }
    for (int i = 2; i < DT_GEMM_OPERANDS; i++) {
        char *got = malloc(bytes[i] + 1);
        if (bytes[i])
            m.driver.get(got, there[i], bytes[i], m.stream);
        m.driver.stream_wait(m.stream);
        cr_assert_arr_eq(got, here[i], bytes[i], "product %d, `%s`, operand %d", number,
                         dt_kinds_epilogues[g->epilogue].name, i);
        free(got);
    }
    dt_cuda_products_close(products);
    for (int i = 0; i < DT_GEMM_OPERANDS; i++) {
        if (there[i])
            m.driver.free(there[i]);
        free(here[i]);
    }
    machine_close(&m);
}

Test(products, and_what_happens_to_their_results)
{
    static const uint32_t dtypes[][2] = {{DT_PLAN_F32, DT_PLAN_F32}, {DT_PLAN_BF16, DT_PLAN_BF16},
                                         {DT_PLAN_F16, DT_PLAN_F16}, {DT_PLAN_BF16, DT_PLAN_F32}};
    uint32_t seed = 3;
    for (uint32_t kind = 0; kind < DT_PLAN_EPILOGUES; kind++)
        for (int i = 0; i < 4; i++) {
            const DtPlanGemm g = gemm_draw_joined(&seed, kind, dtypes[i % 4][0], dtypes[i % 4][1]);
            compare(&g, i);
        }
}

/* Returns the numbers rounded to 10 bits of mantissa, ties away from zero. */
static float *to_tf32(const float *from, int64_t n)
{
    float *to = malloc((size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++) {
        int exponent;
        const double mantissa = frexp(from[i], &exponent);
        to[i] = (float)ldexp(round(mantissa * 2048), exponent - 11);
    }
    return to;
}

static float *magnitudes(const float *from, int64_t n)
{
    float *to = malloc((size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = fabsf(from[i]);
    return to;
}

/* Checks that operands which are rounded here and multiplied by the plain loops give the same bits.
 * No result differs from the f32 product by much more than 2^-10 of the sum of magnitudes, but some
 * differ by more than rounding of sums explains. */
static void compare_tf32(const DtPlanGemm *g, double *worst)
{
    static const DtPlanMeta rounds = {.tf32 = 1};
    const DtPlan plan = {.meta = &rounds, .gemms = g, .n_gemms = 1};
    Machine m = machine_open();
    int64_t n[DT_GEMM_OPERANDS];
    gemm_extents(g, n);
    float *a = gemm_numbers(n[0], 1), *b = gemm_numbers(n[1], 2), *c = calloc((size_t)n[2], 4);
    float *got = calloc((size_t)n[2], 4), *exact = calloc((size_t)n[2], 4),
          *most = calloc((size_t)n[2], 4);
    float *operands[] = {to_tf32(a, n[0]), to_tf32(b, n[1]), magnitudes(a, n[0]),
                         magnitudes(b, n[1])};
    const uint64_t at[DT_GEMM_OPERANDS] = {put(&m, a, (size_t)n[0] * 4),
                                           put(&m, b, (size_t)n[1] * 4),
                                           put(&m, c, (size_t)n[2] * 4)};
    DtCudaProducts *products;
    const DtStatus status = dt_cuda_products_open(m.arena, &plan, &m.driver, m.stream, &products);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    m.driver.stream_wait(m.stream); /* before the plain loops overwrite C */
    cr_assert(dt_cuda_products_run(products, 0, at));
    m.driver.get(got, at[2], (size_t)n[2] * 4, m.stream);
    m.driver.stream_wait(m.stream);
    dt_gemm_plain_run(g, operands[0], operands[1], c);
    dt_gemm_plain_run(g, a, b, exact);
    dt_gemm_plain_run(g, operands[2], operands[3], most);
    cr_assert_arr_eq(got, c, (size_t)n[2] * 4);
    for (int64_t i = 0; i < n[2]; i++) {
        const double error = fabs((double)got[i] - (double)exact[i]);
        cr_assert(error <= (double)most[i] * (0x1p-10 + 0x1p-20), "off by %g of %g", error,
                  (double)most[i]);
        *worst = most[i] > 0 ? fmax(*worst, error / (double)most[i]) : *worst;
    }
    dt_cuda_products_close(products);
    for (int i = 0; i < 3; i++)
        m.driver.free(at[i]);
    for (int i = 0; i < 4; i++)
        free(operands[i]);
    for (int i = 0; i < 6; i++)
        free((float *[]){a, b, c, got, exact, most}[i]);
    machine_close(&m);
}

Test(products, in_tf32)
{
    uint32_t seed = 7;
    double worst = 0;
    for (int i = 0; i < 24; i++) {
        const DtPlanGemm g = gemm_draw(&seed);
        compare_tf32(&g, &worst);
    }
    cr_expect_gt(worst, 0x1p-12, "nothing is rounded: at most %g", worst);
}

/* Operands in 16 bits are not rounded any further. */
Test(products, of_16_bits_are_in_no_tf32)
{
    static const DtPlanMeta rounds = {.tf32 = 1};
    const DtPlan plan = {.meta = &rounds};
    for (int i = 0; i < 4; i++) {
        const DtPlanGemm g = {.dtype_a = i & 1 ? DT_PLAN_F32 : DT_PLAN_BF16,
                              .dtype_b = i & 2 ? DT_PLAN_F32 : DT_PLAN_BF16};
        cr_expect_eq(dt_kinds_tf32(&plan, &g), i == 3);
    }
}

/* The library refuses an input of GELU whose rows are not multiples of 8 elements apart. */
Test(products, refuse_what_the_library_does_not)
{
    uint32_t seed = 3;
    DtPlanGemm g = gemm_draw_joined(&seed, DT_PLAN_EPILOGUE_GELU_AUX, DT_PLAN_BF16, DT_PLAN_BF16);
    g.matrix_row++;
    Machine m = machine_open();
    const DtPlan plan = {.meta = &plain, .gemms = &g, .n_gemms = 1};
    DtCudaProducts *products;
    const DtStatus status = dt_cuda_products_open(m.arena, &plan, &m.driver, m.stream, &products);
    cr_assert(strstr(status.message, "with epilogue `gelu_aux`, is none that cuBLASLt does"), "%s",
              status.message);
    dt_cuda_products_close(products);
    machine_close(&m);
}

/* The last two operands have no unit stride. */
Test(products, are_those_of_plain_loops)
{
    for (int i = 0; i < GEMM_CASES - 2; i++)
        compare(&gemm_cases[i], i);
}

Test(products, batches_in_any_order)
{
    uint32_t seed = 1;
    for (int i = 0; i < 300; i++) {
        const DtPlanGemm g = gemm_draw(&seed);
        if (share_has((unsigned)i))
            compare(&g, i);
    }
}

Test(products, of_16_bits)
{
    uint32_t seed = 5;
    for (int i = 0; i < 80; i++) {
        DtPlanGemm g = gemm_draw(&seed);
        g.dtype_a = g.dtype_b = i % 2 ? DT_PLAN_BF16 : DT_PLAN_F16;
        g.dtype_c = i % 4 < 2 ? g.dtype_a : (uint32_t)DT_PLAN_F32;
        if (share_has((unsigned)i / 4)) /* i % 4: the dtypes */
            compare(&g, i);
    }
}

Test(products, without_unit_stride_are_none)
{
    DtCudaProduct product;
    for (int i = GEMM_CASES - 2; i < GEMM_CASES; i++)
        cr_expect_not(dt_cuda_product_of(&gemm_cases[i], &product), "product %d", i);
}

static void expect_refusal(const char *standin, const char *wanted)
{
    DtCudaDriver driver;
    setenv("DT_STANDIN", standin, 1);
    DtArena *arena = dt_arena_new();
    const DtStatus status = dt_cuda_driver_open(arena, &driver);
    cr_assert_not(dt_status_ok(&status));
    cr_assert(strstr(status.message, wanted), "%s", status.message);
    dt_arena_free(arena);
}

Test(driver, says_what_is_missing)
{
    expect_refusal("gpus=0", "no CUDA-capable device");
    expect_refusal("driver=11080", "knows CUDA 11.8, and 12.0 is the oldest");
}
