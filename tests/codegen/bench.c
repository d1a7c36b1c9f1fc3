/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include "base/hash.h"
#include "base/intern.h"
#include "passes/passes.h"
#include "tests/ir/random_elements.h"
#include "tests/look.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Bench *bench_new(void)
{
    DtArena *arena = dt_arena_new();
    Bench *t = DT_NEW(arena, Bench);
    t->arena = arena;
    t->module = dt_graph_module(arena, NULL);
    t->func = dt_graph_func(t->module, "predict", DT_FUNC_ENTRY);
    t->b.func = t->func;
    t->train.seed = 42;
    t->train.name = "bench";
    t->step = 5;
    return t;
}

void bench_free(Bench *t)
{
    dt_text_free(&t->c);
    dt_arena_free(t->arena);
}

/* ---- inputs ---- */

static DtValue *add_input(Bench *t, DtTensor *tensor)
{
    const char *path = dt_intern_printf("in%u", t->module->stores.n);
    DtStore *store = DT_NEW(t->arena, DtStore);
    *store = (DtStore){.kind = DT_STORE_PARAM, .path = path, .pattern = path, .type = tensor->type,
                       .index = t->module->stores.n};
    DT_PUSH(t->arena, t->module->stores, store);
    DT_PUSH(t->arena, t->inputs, tensor);
    return dt_graph_source(&t->b, DT_OP_PARAM, tensor->type, path, store);
}

DtValue *bench_random(Bench *t, const DtType *type, int seed)
{
    return add_input(t, random_elements(t->arena, type, seed));
}

DtValue *bench_values(Bench *t, const DtType *type, int n, const double *values)
{
    DtTensor *tensor = dt_interp_tensor(t->arena, type);
    for (int64_t i = 0; i < dt_type_elements(type); i++)
        tensor->at[i] = type->dtype == DT_F32 ? (double)(float)values[i % n] : values[i % n];
    return add_input(t, tensor);
}

DtValue *bench_sweep(Bench *t, const DtType *type, double from, double to)
{
    DtTensor *tensor = dt_interp_tensor(t->arena, type);
    int64_t n = dt_type_elements(type);
    for (int64_t i = 0; i < n; i++)
        tensor->at[i] = (float)(from + (to - from) * (double)i / (double)(n > 1 ? n - 1 : 1));
    return add_input(t, tensor);
}

DtValue *bench_mod8(DtBuilder *b, DtValue *x)
{
    return dt_graph_binary(b, DT_OP_MOD, x, dt_graph_constant(b, DT_F32, 8));
}

void bench_out(Bench *t, DtValue *value, double tolerance)
{
    dt_graph_return(t->func, value);
    DtEntryResult result = {.name = dt_intern_printf("out%u", t->results.n)};
    DT_PUSH(t->arena, t->results, result);
    DT_PUSH(t->arena, t->tolerance, tolerance);
}

/* ---- compiling and running ---- */

DtPlanBuilder *bench_plan(Bench *t, const DtCodegenOptions *options)
{
    DtPlanBuilder *builder = dt_write_new(t->arena);
    DtProgram program = {.module = t->module, .train = &t->train};
    DtStatus status = dt_codegen_plan(&program, options, builder);
    if (!dt_status_ok(&status) && getenv("BENCH_C"))
        fputs(t->c.at, stderr);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    return builder;
}

/* Returns the bits of a number that the 16-bit dtype represents exactly; the next function returns
 * the number of given bits. Both are written without the code under test. */
static uint16_t half_bits(DtDtype dtype, double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (dtype == DT_BF16) {
        float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, 4);
        return (uint16_t)(bits >> 16);
    }
    if (fabs(value) < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)(fabs(value) * 0x1p24));
    int exponent = ilogb(value);
    return (uint16_t)(sign | (exponent + 15) << 10 |
                      (int)((fabs(value) * ldexp(1, -exponent) - 1) * 1024));
}

static double half_value(DtDtype dtype, uint16_t bits)
{
    int width = dtype == DT_BF16 ? 7 : 10, bias = dtype == DT_BF16 ? 127 : 15;
    int exponent = (bits & 0x7fff) >> width, mantissa = bits & ((1 << width) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << (15 - width)) - 1)
        return mantissa ? NAN : sign * INFINITY;
    return exponent ? sign * ldexp(1 + ldexp(mantissa, -width), exponent - bias)
                    : sign * ldexp(mantissa, 1 - bias - width);
}

static void store_element(char *at, DtDtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case DT_BOOL: ((unsigned char *)at)[i] = (unsigned char)value; break;
    case DT_I32: ((int32_t *)at)[i] = (int32_t)value; break;
    case DT_F16: case DT_BF16: ((uint16_t *)at)[i] = half_bits(dtype, value); break;
    default: ((float *)at)[i] = (float)value; break;
    }
}

static double load_element(const char *at, DtDtype dtype, int64_t i)
{
    switch (dtype) {
    case DT_BOOL: return ((const unsigned char *)at)[i];
    case DT_I32: return ((const int32_t *)at)[i];
    case DT_F16: case DT_BF16: return half_value(dtype, ((const uint16_t *)at)[i]);
    default: return (double)((const float *)at)[i];
    }
}

static void fill_memory(Bench *t, DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        if (plan->arenas[a].bytes)
            memset(look_at(rank, a, 0), 0xff, (size_t)plan->arenas[a].bytes);
    for (uint32_t s = 0; s < t->inputs.n; s++) {
        const DtTensor *tensor = t->inputs.at[s];
        char *at = look_at(rank, plan->stores[s].arena, plan->stores[s].offset);
        for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
            store_element(at, tensor->type->dtype, i, tensor->at[i]);
    }
}

static double **read_metrics(Bench *t, const DtRank *rank, const char *entry)
{
    const DtPlan *plan = rank->plan;
    double **values = DT_NEW_ARRAY(t->arena, double *, plan->n_metrics + 1);
    uint32_t n_values = 0;
    for (uint32_t m = 0; m < plan->n_metrics; m++) {
        const DtPlanMetric *metric = &plan->metrics[m];
        if (strcmp(dt_plan_str(plan, metric->entry), entry) != 0)
            continue;
        int64_t n = metric->bytes / (int64_t)dt_dtype_size((DtDtype)metric->dtype);
        values[n_values] = DT_NEW_ARRAY(t->arena, double, n + 1);
        for (int64_t i = 0; i < n; i++)
            values[n_values][i] = load_element(look_at(rank, metric->arena, metric->offset),
                                               (DtDtype)metric->dtype, i);
        n_values++;
    }
    return values;
}

double **bench_run(Bench *t, DtPlanBuilder *builder, const char *entry)
{
    DtPlan plan;
    uint8_t *bytes;
    size_t len;
    DtRunOptions options = {.plan_path = "bench.plan",
                            .steps = -1,
                            .quiet = true,
                            .gemm = DT_GEMM_PLAIN,
                            .generate = ""}; /* this makes memory for predictions exist */
    DtRank rank = {0};
    int fd;
    dt_write_bytes(builder, &bytes, &len);
    DtStatus status = dt_read_bytes(bytes, len, &plan);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_shared_create(&plan, 0, &fd);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    status = dt_load_rank(&options, &plan, 0, fd, &rank);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    fill_memory(t, &rank);
    rank.step = t->step;
    cr_assert(dt_exec_entry(&rank, entry), "%s", rank.failure.message);
    double **values = read_metrics(t, &rank, entry);
    dt_load_close(&rank);
    close(fd);
    return values;
}

/* ---- comparing ---- */

static DtTensor *source(void *context, const DtOp *op)
{
    return ((Bench *)context)->inputs.at[op->store->index];
}

static bool agrees(const Bench *t, double got, double expected, double tolerance)
{
    if (isnan(expected) || isinf(expected) || isnan(got) || isinf(got))
        return (isnan(got) && isnan(expected)) || got == expected;
    if (t->bits && got == 0 && expected == 0)
        return !signbit(got) == !signbit(expected);
    return fabs(got - expected) <= tolerance * 0x1p-24 * fmax(fabs(expected), 1);
}

static uint32_t compare(Bench *t, DtTensor *const *expected, double *const *got, const char *mode)
{
    uint32_t bad = 0;
    for (uint32_t r = 0; r < t->results.n; r++) {
        const DtType *type = expected[r]->type;
        int64_t n = dt_type_elements(type), wrong = 0, first = 0;
        for (int64_t i = 0; i < n; i++)
            if (!agrees(t, got[r][i], expected[r]->at[i], t->tolerance.at[r]) && wrong++ == 0)
                first = i;
        if (wrong == 0)
            continue;
        DtText text = {0};
        dt_type_print_extents(type, &t->module->mesh, &text);
        const DtOp *op = t->func->results.at[r]->op;
        fprintf(stderr,
                "%s: result %u (`%s` %s): %lld of %lld elements wrong; element %lld is %.9g, not "
                "%.9g\n",
                mode, r, op ? dt_op_info[op->kind].text : "input", text.at, (long long)wrong,
                (long long)n, (long long)first, got[r][first], expected[r]->at[first]);
        dt_text_free(&text);
        bad++;
    }
    return bad;
}

/* Removes the decisions of pass `memory` for ops that are separate kernels. */
static void forget_memory(const DtModule *module)
{
    for (uint32_t f = 0; f < module->funcs.n; f++)
        for (uint32_t i = 0; i < module->funcs.at[f]->ops.n; i++) {
            DtOp *op = module->funcs.at[f]->ops.at[i];
            op->holds = NULL;
            op->copies = false;
            op->base = 0;
            for (uint32_t k = 0; k < op->n_out; k++)
                op->out[k]->over = NULL, op->out[k]->at = 0;
        }
    for (uint32_t f = 0; f < module->funcs.n; f++)
        module->funcs.at[f]->frame = 0;
}

/* Runs the pass and checks that the module keeps its meaning. */
static uint32_t fuse(Bench *t, DtInterp *interp, DtTensor *const *expected)
{
    DtText problems = {0};
    DtTensor **fused = DT_NEW_ARRAY(t->arena, DtTensor *, t->results.n + 1);
    double **got = DT_NEW_ARRAY(t->arena, double *, t->results.n + 1);
    forget_memory(t->module);
    dt_pass_fuse(t->module, &(DtPassContext){.train = &t->train});
    cr_assert(dt_verify_module(t->module, &problems), "%s", problems.at);
    dt_text_free(&problems);
    dt_interp_run(interp, t->func, NULL, fused);
    for (uint32_t r = 0; r < t->results.n; r++)
        got[r] = fused[r]->at;
    return compare(t, expected, got, "the pass");
}

void bench_check(Bench *t)
{
    DtText problems = {0};
    DtEntryPoint entry = dt_entry_new(DT_ENTRY_PREDICT, NULL, DT_PART_WHOLE, -1);
    entry.func = t->func;
    entry.results.at = t->results.at;
    entry.results.n = t->results.n;
    DT_PUSH(t->arena, t->module->entries, entry);
    dt_graph_renumber(t->func);
    cr_assert(dt_verify_module(t->module, &problems), "%s", problems.at);
    dt_text_free(&problems);
    DtInterp interp = {.arena = t->arena, .seed = t->train.seed, .step = t->step, .source = source,
                       .context = t, .rounds = true};
    DtTensor **expected = DT_NEW_ARRAY(t->arena, DtTensor *, t->results.n + 1);
    dt_interp_run(&interp, t->func, NULL, expected);
    uint32_t bad = 0;
    for (int unfused = 1; unfused >= 0; unfused--) {
        if (!unfused)
            bad += fuse(t, &interp, expected);
        dt_pass_memory(t->module, &(DtPassContext){.train = &t->train, .unfused = unfused});
        DtCodegenOptions options = {.target = "cpu", .source = "bench.dsl", .source_folder = "",
                                    .compiler = "test", .unfused = unfused,
                                    .ret_c = unfused ? NULL : &t->c};
        double **got = bench_run(t, bench_plan(t, &options), "predict");
        bad += compare(t, expected, got, unfused ? "unfused" : "fused");
        bench_check_memory(t, unfused);
    }
    if (bad && getenv("BENCH_C"))
        fputs(t->c.at, stderr);
    cr_assert_eq(bad, 0, "%u results differ from the interpreter", bad);
}
