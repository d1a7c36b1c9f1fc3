/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of this processor, from traces of plans that ran on it:
 *
 *   calibrate NAME PLAN TRACE [PLAN TRACE].. [-- PLAN TRACE ..]
 *
 * TRACE is what `dtrun PLAN --trace TRACE` wrote. Prints a `device` block of that name, fitted on the pairs in front
 * of `--`; and on stderr, for each pair, the time of all products and kernels of the trace, measured and predicted:
 * pairs behind `--` were not fitted on. bench/calibrate.sh makes plans and traces. */
#include "base/arena.h"
#include "cost/calibrate.h"
#include "plan/kinds.h"
#include "plan/read.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef DT_VEC(DtTiming) Timings;
typedef DT_VEC(double) Times;

typedef struct Pair {
    const char *name;
    Timings timings; /* one for each instruction that the trace has, its least time */
    Times runs;      /* how often each ran */
} Pair;

static void fail(const char *message, const char *what)
{
    fprintf(stderr, "calibrate: %s: %s\n", what, message);
    exit(1);
}

static DtCostDtype dtype_of(uint32_t dtype)
{
    return dtype == DT_PLAN_F16 || dtype == DT_PLAN_BF16 ? DT_COST_F16 : DT_COST_F32;
}

/* What an instruction computes; false: it is neither a product nor a kernel. */
static bool timing_of(const DtPlan *plan, const DtPlanInst *inst, DtTiming *ret_timing)
{
    *ret_timing = (DtTiming){0};
    if (inst->kind == DT_INST_KERNEL) {
        const DtPlanKernel *k = &plan->kernels[inst->ref];
        ret_timing->kernel = (DtCostKernel){.bytes = k->bytes, .flops = k->flops};
        return true;
    }
    if (inst->kind != DT_INST_GEMM)
        return false;
    const DtPlanGemm *g = &plan->gemms[inst->ref];
    ret_timing->is_product = true;
    ret_timing->product = (DtCostProduct){.m = g->m, .n = g->n, .k = g->k, .batch = 1, .dtype = dtype_of(g->dtype_a),
                                          .result_bytes = (double)dt_kinds_size(g->dtype_c),
                                          .accumulates = g->accumulate};
    for (uint32_t i = 0; i < g->n_batch; i++)
        ret_timing->product.batch *= g->batch[i];
    return true;
}

static Pair read_pair(DtArena *arena, const char *plan_path, const char *trace_path)
{
    DtPlanFile *file = DT_NEW(arena, DtPlanFile); /* open until the program ends */
    DtStatus status = dt_read_file(plan_path, file);
    if (!dt_status_ok(&status))
        fail(status.message, plan_path);
    json_error_t error;
    json_t *trace = json_load_file(trace_path, 0, &error);
    if (!trace)
        fail(error.text, trace_path);
    const json_t *events = json_is_array(trace) ? trace : json_object_get(trace, "traceEvents");
    Times *times = DT_NEW_ARRAY(arena, Times, file->plan.n_insts);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const json_t *inst = json_object_get(json_object_get(event, "args"), "inst");
        const json_int_t at = json_integer_value(inst);
        if (inst && at >= 0 && at < file->plan.n_insts)
            DT_PUSH(arena, times[at], json_number_value(json_object_get(event, "dur")) * 1e-6);
    }
    json_decref(trace);
    Pair pair = {.name = plan_path};
    for (uint32_t i = 0; i < file->plan.n_insts; i++) {
        DtTiming timing;
        if (!times[i].n || !timing_of(&file->plan, &file->plan.insts[i], &timing))
            continue;
        timing.seconds = times[i].at[0]; /* the least: what else runs on the machine only adds to it */
        for (uint32_t k = 1; k < times[i].n; k++)
            timing.seconds = fmin(timing.seconds, times[i].at[k]);
        DT_PUSH(arena, pair.timings, timing);
        DT_PUSH(arena, pair.runs, (double)times[i].n);
    }
    return pair;
}

static void compare(const DtDevice *device, const Pair *pair, const char *how)
{
    const DtCostModel model = {.device = device};
    double measured[2] = {0}, predicted[2] = {0};
    for (uint32_t i = 0; i < pair->timings.n; i++) {
        const DtTiming *t = &pair->timings.at[i];
        const double seconds = t->is_product ? dt_cost_product(&model, t->product) : dt_cost_kernel(&model, t->kernel);
        measured[t->is_product] += t->seconds * pair->runs.at[i];
        predicted[t->is_product] += seconds * pair->runs.at[i];
    }
    const double all = measured[0] + measured[1];
    fprintf(stderr, "%-8s %-32s %9.3f s, predicted %9.3f, %+5.1f %% (products %+5.1f, kernels %+5.1f)\n", how,
            pair->name, all, predicted[0] + predicted[1], 100 * ((predicted[0] + predicted[1]) / all - 1),
            100 * (predicted[1] / fmax(measured[1], 1e-12) - 1), 100 * (predicted[0] / fmax(measured[0], 1e-12) - 1));
}

int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    DtDevice device = dt_device_new(argc > 1 ? argv[1] : "");
    DT_VEC(Pair) pairs = {0};
    Timings all = {0};
    uint32_t n_fitted = 0;
    bool others = false;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--")) {
            others = true;
            continue;
        }
        if (i + 1 >= argc)
            fail("a plan needs a trace", argv[i]);
        const Pair pair = read_pair(arena, argv[i], argv[i + 1]);
        for (uint32_t k = 0; !others && k < pair.timings.n; k++)
            DT_PUSH(arena, all, pair.timings.at[k]);
        DT_PUSH(arena, pairs, pair);
        n_fitted += !others;
        i++;
    }
    DtCalibration c;
    device.description = "this machine, one core of it";
    device.source = "measured: bench/calibrate.sh";
    device.is_gpu = false;
    device.units = 1;
    if (!dt_calibrate(&device, all.at, all.n, &c))
        fail("too few products and kernels", argc > 1 ? argv[1] : "NAME PLAN TRACE ..");
    DtText text = {0};
    dt_device_print(&device, &text);
    fputs(text.at, stdout);
    fprintf(stderr, "%zu products, off by %.0f %%; %zu kernels, off by %.0f %% (root mean squares of single ones)\n",
            c.products, 100 * c.product_off, c.kernels, 100 * c.kernel_off);
    for (uint32_t i = 0; i < pairs.n; i++)
        compare(&device, &pairs.at[i], i < n_fitted ? "fitted" : "not");
    dt_text_free(&text);
    dt_arena_free(arena);
    return 0;
}
