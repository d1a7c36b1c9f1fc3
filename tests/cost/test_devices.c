/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the library's devices with measurements of single operations on these devices. */
#include "cost/cost.h"
#include "frontend/lower.h"

#include <criterion/criterion.h>
#include <math.h>

static DtArena *arena;

static void open_arena(void) { arena = dt_arena_new(); }
static void close_arena(void) { dt_arena_free(arena); }
TestSuite(devices, .init = open_arena, .fini = close_arena);

static const DtDevice *device(const char *name)
{
    const DtOption set = {"cluster.gpu", dt_arena_printf(arena, "\"%s\"", name)};
    const DtLowerOptions options = {.path = "examples/gpt2.dsl", .library = "lib", .sets = &set,
                                    .n_sets = 1};
    DtDiags *diags = dt_diag_new(arena);
    const DtProgram *program = dt_lower(arena, diags, &options);
    cr_assert(program && !dt_diag_errors(diags), "%s", name);
    return program->cluster->kinds[0].device;
}

/* Returns the TFLOP/s of attention, with 16k tokens in total. */
static double attention(const DtCostModel *model, int64_t length, int64_t head, bool causal,
                        bool backward)
{
    const DtCostAttention op = {.batch = 16384 / length, .heads = 2048 / head,
                                .kv_heads = 2048 / head, .head = head, .queries = length,
                                .keys = length, .visible = causal ? 0.5 : 1, .dtype = DT_COST_F16,
                                .backward = backward};
    const double flops = (double)(op.batch * op.heads) * (double)(length * length) * op.visible *
                         (double)head * (backward ? 10 : 4);
    return flops / dt_cost_attention(model, op) * 1e-12;
}

/* FlashAttention 3's charts of FlashAttention 2 on an H100; cuDNN 9.19 on an H200. */
Test(devices, attention_as_in_charts)
{
    static const struct {
        bool fa2, causal, backward;
        int64_t length, head;
        double tflops;
    } rows[] = {{true, true, false, 16384, 128, 335}, {true, true, false, 16384, 64, 299},
                {true, false, true, 16384, 128, 322}, {false, true, false, 2048, 128, 484},
                {false, true, false, 4096, 128, 591}, {false, true, false, 8192, 128, 644},
                {false, true, true, 2048, 128, 370},  {false, true, true, 4096, 128, 474},
                {false, true, true, 8192, 128, 541}};
    DtStack fa2 = dt_stack_ours;
    fa2.has[DT_STACK_fa2] = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const DtCostModel model = {.device = device(rows[i].fa2 ? "h100-sxm" : "h200"),
                                   .stack = rows[i].fa2 ? &fa2 : NULL};
        const double ours =
            attention(&model, rows[i].length, rows[i].head, rows[i].causal, rows[i].backward);
        cr_expect(fabs(ours / rows[i].tflops - 1) < 0.13, "%d of %d: %.0f TFLOP/s, measured %.0f",
                  (int)rows[i].length, (int)rows[i].head, ours, rows[i].tflops);
    }
}

/* A product of size 8192 on an H200 with random data: 770 to 800 TFLOP/s; a copy 4.3 TB/s. Rates
 * over a long time are lower, so the library's numbers are lower, but within two standard
 * deviations. */
Test(devices, single_operations_of_an_h200)
{
    const DtCostModel model = {.device = device("h200")};
    const DtCostProduct product = {.m = 8192, .n = 8192, .k = 8192, .dtype = DT_COST_F16};
    const double rate = 2.0 * 8192 * 8192 * 8192 / dt_cost_product(&model, product);
    const double within = dt_cost_within(&model, DT_COST_KIND_PRODUCT);
    cr_expect(rate < 800e12 && rate * (1 + 2 * within) > 770e12, "%.0f TFLOP/s", rate * 1e-12);
    const double copy = 4e9 / dt_cost_kernel(&model, (DtCostKernel){.bytes = 4e9});
    cr_expect_float_eq(copy / 4.3e12, 1, 0.08, "%.2f TB/s", copy * 1e-12);
}

/* One core of a server, oneDNN: 104 to 118 GFLOP/s in f32, 203 to 231 in bf16. */
Test(devices, products_of_a_processor)
{
    const DtCostModel model = {.device = device("cpu")};
    static const int64_t shapes[][3] = {{1024, 768, 768}, {1024, 3072, 768}, {1024, 768, 3072},
                                        {4096, 3072, 768}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int half = 0; half < 2; half++) {
            const int64_t *s = shapes[i];
            const DtCostProduct op = {.m = s[0], .n = s[1], .k = s[2],
                                      .dtype = half ? DT_COST_F16 : DT_COST_F32};
            const double rate =
                2.0 * (double)(s[0] * s[1] * s[2]) / dt_cost_product(&model, op) * 1e-9;
            cr_expect(fabs(rate / (half ? 217 : 112) - 1) < 0.25, "%d %d %d: %.0f GFLOP/s",
                      (int)s[0], (int)s[1], (int)s[2], rate);
        }
}
