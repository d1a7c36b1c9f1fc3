/* SPDX-License-Identifier: Apache-2.0 */
/* dtc calibrate --device cuda: the constants of this machine's first GPU, from steps of a small GPT
 * in several sizes.
 *
 * dtrun gives the GPU's name. Its data sheet is the library's device of that name, if there is
 * one; else peaks are the highest measured rates. Each size is compiled for the GPU and run with
 * --profile, which has the device's own time of each instruction. The smallest one also runs
 * without, with one layer and with several, to measure the start of an operation. Sizes grow
 * until a step would take too long, so a slow device is measured in small ones. Only one GPU is
 * measured: neither exchanges between GPUs, nor how one slows down when it is hot. */
#include "cli/calibrate.h"

#include "base/gpucode.h"
#include "base/diag.h"
#include "cost/calibrate.h"
#include "plan/read.h"
#include "plan/report/memory.h"
#include "plan/report/people.h"
#include "plan/report/price.h"
#include "plan/report/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DIMS = 7 };                       /* the last entry of a list of dims has no name */
static const double LONGEST = 1, ROOM = 0.85; /* seconds of a step; share of the memory that is
                                               * free */

/* FEW, MANY: few and many operations; both are timed without --profile */
typedef enum Use { FIT, CHECK, FEW, MANY } Use;
typedef struct Size {
    Use use;
    bool is_f32;
    DtOption dims[MOST_DIMS];
} Size;

#define SIZE(use, is_f32, b, s, e, h, v, l)                                            \
    {use, is_f32, {{"batch", b}, {"seq", s}, {"embed", e}, {"heads", h}, {"vocab", v}, \
                   {"layers", l}}}
static const Size sizes[] = { /* each size has at most some forty times the work of the one before
                               * it */
    SIZE(FEW, false, "1", "32", "64", "1", "64", "1"),
    SIZE(MANY, false, "1", "32", "64", "1", "64", "4"),
    SIZE(FIT, false, "1", "64", "128", "2", "128", "1"),
    SIZE(FIT, true, "1", "64", "128", "2", "128", "1"),
    SIZE(CHECK, false, "1", "32", "128", "1", "64", "1"),
    SIZE(FIT, false, "2", "256", "256", "4", "1024", "1"),
    SIZE(FIT, false, "4", "512", "512", "8", "4096", "2"),
    SIZE(CHECK, false, "2", "512", "768", "12", "8192", "2"),
    SIZE(FIT, true, "2", "1024", "1024", "8", "8192", "1"),
    SIZE(FIT, false, "8", "1024", "1024", "8", "16384", "2"),
    SIZE(CHECK, false, "4", "2048", "1024", "16", "32768", "2"),
    SIZE(FIT, false, "8", "2048", "2048", "16", "32768", "2"),
    SIZE(CHECK, false, "2", "4096", "2560", "20", "32768", "2"),
    SIZE(FIT, false, "2", "8192", "4096", "32", "32768", "1"),
};

typedef DT_VEC(DtGpuTiming) Timings;

/* The measurements of one size of the programs; the operations have the same order in timings and
 * runs. */
typedef struct Measured {
    const char *name;
    bool is_there;
    Timings timings;
    DT_VEC(double) runs; /* by operation: how often a step runs it */
} Measured;

typedef struct Cuda {
    const DtCalibrator *c;
    DtArena *arena;
    const char *plan, *log, *gpu; /* gpu: its name */
    double room;                  /* bytes of it that are free */
    double flops, seconds;        /* of the last step */
    Timings fitted;
    DtGpuStep steps[2];
    Measured measured[DT_COUNT(sizes)];
} Cuda;

static const DtStatus fine = {.code = DT_EXIT_OK};

/* ---- the GPU ---- */

/* The device of the library for the driver's name without the maker: the whole name must match,
 * since names of others (GH200, H200 NVL) contain it. */
static const char *known_as(const char *name)
{
    static const struct { const char *name, *device; } rows[] = {
        {"A100-SXM4-40GB", "a100-40g"}, {"A100-SXM4-80GB", "a100-80g"},
        {"H100 80GB HBM3", "h100-sxm"}, {"H100 PCIe", "h100-pcie"}, {"H200", "h200"},
        {"H800", "h800"}, {"B200", "b200"}, {"L40S", "l40s"}, {"V100-SXM2-16GB", "v100-16g"},
        {"V100-SXM2-32GB", "v100-32g"},
    };
    static const char *const makers[] = {"NVIDIA ", "Tesla "};
    for (size_t i = 0; i < DT_COUNT(makers); i++)
        name += strncmp(name, makers[i], strlen(makers[i])) == 0 ? strlen(makers[i]) : 0;
    for (size_t i = 0; i < DT_COUNT(rows); i++)
        if (strcmp(name, rows[i].name) == 0)
            return rows[i].device;
    return NULL;
}

/* Returns the target whose code runs on a GPU of this compute capability (90: 9.0); NULL: none that
 * can be made here. */
static const char *target_of(json_int_t capability)
{
    return dt_gpucode_for((int)capability / 10, (int)capability % 10);
}

/* Returns the library's device of that name, as the calibration program lowers with it; NULL: it
 * does not lower. */
static const DtDevice *device_named(const Cuda *cuda, const char *name)
{
    const DtOption set = {"cluster.gpu", dt_arena_printf(cuda->arena, "\"%s\"", name)};
    const DtLowerOptions options = {.path = cuda->c->program, .library = cuda->c->library,
                                    .parallel = "one", .sets = &set, .n_sets = 1};
    DtDiags *diags = dt_diag_new(cuda->arena);
    const DtProgram *program = dt_lower(cuda->arena, diags, &options);
    return program && !dt_diag_errors(diags) && program->cluster ? program->cluster->kinds[0].device
                                                                 : NULL;
}

static DtStatus read_gpu(Cuda *cuda, const json_t *gpu, const char *name, DtDevice *ret_device)
{
    const json_int_t capability = json_integer_value(json_object_get(gpu, "capability"));
    const char *said = json_string_value(json_object_get(gpu, "name")),
               *like = said ? known_as(said) : NULL;
    const DtDevice *known = like ? device_named(cuda, like) : NULL;
    if (!said)
        return dt_status_fail(DT_EXIT_FAILED, "dtrun --gpus --json names no GPU");
    if (!target_of(capability))
        return dt_status_fail(
            DT_EXIT_FAILED,
            "%s has compute capability %d.%d, and code can be made for 8.0 to 8.9, 9.0, 10.0", said,
            (int)capability / 10, (int)capability % 10);
    cuda->gpu = dt_arena_printf(cuda->arena, "%s", said);
    /* --target is only given for a stand-in of the driver, which interprets kernels */
    if (!cuda->c->cli->target)
        cuda->c->cli->target = target_of(capability);
    cuda->room = ROOM * (double)json_integer_value(json_object_get(gpu, "free"));
    *ret_device = known ? *known : dt_device_new(name);
    ret_device->name = name;
    ret_device->description = cuda->gpu;
    ret_device->source =
        known ? dt_arena_printf(cuda->arena, "dtc calibrate; peaks and links as \"%s\"", like)
              : "dtc calibrate; peaks are what products and copies reached";
    if (!known) {
        ret_device->memory_rate = json_real_value(json_object_get(gpu, "copies"));
        ret_device->l2_bytes = (double)json_integer_value(json_object_get(gpu, "cache"));
    }
    ret_device->units = (double)json_integer_value(json_object_get(gpu, "multiprocessors"));
    ret_device->memory_bytes = (double)json_integer_value(json_object_get(gpu, "memory"));
    fprintf(stderr, "dtc: GPU 0 is %s, %s%s\n", said,
            known ? "with the data sheet of " : "whose data sheet is not known", known ? like : "");
    return fine;
}

static DtStatus find_gpu(Cuda *cuda, const char *name, DtDevice *ret_device)
{
    const char *const argv[] = {cuda->c->dtrun, "--gpus", "--json", NULL};
    const char *said = "";
    DtStatus status = dt_calibrate_run(cuda->c, cuda->arena, argv, &said);
    if (!dt_status_ok(&status))
        return status;
    json_t *list = json_loads(said, 0, NULL);
    status = json_array_size(list)
                 ? read_gpu(cuda, json_array_get(list, 0), name, ret_device)
                 : dt_status_fail(DT_EXIT_FAILED, "dtrun --gpus --json lists no GPU: %.200s", said);
    json_decref(list);
    return status;
}

/* ---- one size ---- */

static const char *name_of(DtArena *arena, const Size *size)
{
    const char *name = size->is_f32 ? "f32" : "bf16";
    for (int i = 0; size->dims[i].name; i++)
        name = dt_arena_printf(arena, "%s %s %s", name, size->dims[i].name, size->dims[i].value);
    return name;
}

/* Reads a profile of dtrun. Its rows are kernels and products, each with the mean time of a run. */
static DtStatus read_profile(Cuda *cuda, const DtPlan *plan, const char *said, Measured *m)
{
    json_t *root = json_loads(said, 0, NULL);
    const json_t *rows = json_object_get(root, "rows");
    cuda->seconds = json_number_value(json_object_get(root, "ms")) * 1e-3;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const json_int_t inst = json_integer_value(json_object_get(row, "inst"));
        const double ms = json_number_value(json_object_get(row, "ms"));
        const double times = json_number_value(json_object_get(row, "times"));
        DtGpuTiming timing = {.seconds = times > 0 ? ms * 1e-3 / times : 0};
        if (inst < 0 || inst >= plan->n_insts || timing.seconds <= 0 ||
            !dt_price_op(plan, &plan->insts[inst], &timing.op))
            continue;
        DT_PUSH(cuda->arena, m->timings, timing);
        DT_PUSH(cuda->arena, m->runs, times);
    }
    json_decref(root);
    return m->timings.n ? fine
                        : dt_status_fail(DT_EXIT_FAILED,
                                         "dtrun --profile --json has no times: %.200s", said);
}

/* Returns the seconds of the shortest step in a log, without the first two steps. */
static double least_step(const char *path)
{
    FILE *file = fopen(path, "r");
    double least = 0;
    int n = 0;
    for (json_t *line; file && (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL));
         json_decref(line)) {
        const char *event = json_string_value(json_object_get(line, "event"));
        const double seconds = json_number_value(json_object_get(line, "seconds"));
        if (event && !strcmp(event, "step") && n++ >= 2 && (least == 0 || seconds < least))
            least = seconds;
    }
    if (file)
        fclose(file);
    return least;
}

/* Counts how many kernels a step starts, for dt_report_visit_step. */
typedef struct Count {
    const DtPlan *plan;
    double n;
} Count;

static void count(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    Count *c = context;
    DtCostOp op;
    (void)ranks;
    if (dt_price_op(c->plan, inst, &op))
        c->n += (double)runs *
                (op.kind == DT_COST_OP_KERNEL && op.kernel.kernels > 1 ? op.kernel.kernels : 1);
}

/* Times steps without --profile, so that no events are recorded between operations. */
static DtStatus time_steps(Cuda *cuda, const DtPlan *plan, DtGpuStep *ret_step)
{
    const char *const argv[] = {cuda->c->dtrun, cuda->plan, "--unproved", "--attention",
                                "generated", "--quiet", "--steps", "12", "--log", cuda->log, NULL};
    unlink(cuda->log); /* dtrun appends to an existing log */
    const DtStatus status = dt_calibrate_run(cuda->c, cuda->arena, argv, NULL);
    Count counted = {.plan = plan};
    dt_report_visit_step(plan, count, &counted);
    *ret_step = (DtGpuStep){least_step(cuda->log), counted.n};
    if (!dt_status_ok(&status))
        return status;
    return ret_step->seconds > 0 ? fine
                                 : dt_status_fail(DT_EXIT_FAILED, "dtrun's log has no steps");
}

static DtStatus profile(Cuda *cuda, const DtPlan *plan, Measured *m)
{
    const char *const argv[] = {cuda->c->dtrun, cuda->plan, "--unproved", "--attention",
                                "generated", "--quiet", "--steps", "6", "--profile", "--json",
                                NULL};
    const char *said = "";
    const DtStatus status = dt_calibrate_run(cuda->c, cuda->arena, argv, &said);
    return dt_status_ok(&status) ? read_profile(cuda, plan, said, m) : status;
}

static double dim(const Size *size, const char *name)
{
    for (int i = 0; size->dims[i].name; i++)
        if (!strcmp(size->dims[i].name, name))
            return atof(size->dims[i].value);
    return 1;
}

/* Returns roughly how many operations the products of a step have. */
static double work_of(const Size *size)
{
    const double embed = dim(size, "embed"), tokens = dim(size, "batch") * dim(size, "seq");
    return 6 * tokens * embed * (12 * embed * dim(size, "layers") + dim(size, "vocab"));
}

static DtStatus run_size(Cuda *cuda, const Size *size, Measured *m)
{
    DtPlanFile file;
    DtMemory memory;
    DtStatus status = dt_read_file(cuda->plan, &file);
    if (!dt_status_ok(&status))
        return status;
    dt_memory_worst(&file.plan, true, &memory);
    m->is_there = (double)memory.allocated <= cuda->room;
    if (m->is_there && (size->use == FEW || size->use == MANY))
        status = time_steps(cuda, &file.plan, &cuda->steps[size->use == MANY]);
    else if (m->is_there)
        status = profile(cuda, &file.plan, m);
    dt_read_close(&file);
    for (uint32_t i = 0; size->use == FIT && i < m->timings.n; i++)
        DT_PUSH(cuda->arena, cuda->fitted, m->timings.at[i]);
    return status;
}

static DtStatus measure(Cuda *cuda, const Size *size, Measured *m)
{
    const bool profiled = size->use == FIT || size->use == CHECK;
    *m = (Measured){.name = name_of(cuda->arena, size)};
    if (profiled && work_of(size) > cuda->flops &&
        cuda->seconds * work_of(size) > cuda->flops * LONGEST)
        return fine;
    fprintf(stderr, "dtc: measuring %s\n", m->name);
    DtStatus status =
        dt_calibrate_plan(cuda->c, cuda->arena, size->dims, !size->is_f32, cuda->plan);
    if (dt_status_ok(&status))
        status = run_size(cuda, size, m);
    if (!m->is_there && dt_status_ok(&status))
        fprintf(stderr, "dtc: left out: it needs more memory than is free\n");
    if (m->is_there && profiled)
        cuda->flops = work_of(size);
    return status;
}

/* ---- the block ---- */

/* Prints the time of all operations of a size, as events saw it and as the device predicts it; its
 * `launch` is the one that events see. */
static void compare(const DtDevice *fitted, double start, const Size *size, const Measured *m)
{
    DtDevice device = *fitted;
    const DtCostModel model = {.device = &device};
    char is[32], says[32];
    double measured = 0, predicted = 0;
    device.at[DT_COST_launch].value = start;
    for (uint32_t i = 0; i < m->timings.n; i++) {
        measured += m->timings.at[i].seconds * m->runs.at[i];
        predicted += dt_cost_op(&model, &m->timings.at[i].op) * m->runs.at[i];
    }
    if (measured > 0)
        fprintf(stderr, "dtc: %s %s: %s, predicted %s, %+.1f %%\n",
                size->use == CHECK ? "not fitted on" : "fitted on    ", m->name,
                dt_people_seconds(is, measured), dt_people_seconds(says, predicted),
                100 * (predicted / measured - 1));
}

static int write_block(Cuda *cuda, DtDevice *device)
{
    static const char *const kinds[DT_COST_OPS] = {[DT_COST_OP_PRODUCT] = "products",
                                                   [DT_COST_OP_KERNEL] = "kernels",
                                                   [DT_COST_OP_ATTENTION] = "attention kernels"};
    DtGpuCalibration fit;
    DtText text = {0};
    char start[32], launch[32];
    if (!dt_calibrate_gpu(device, cuda->fitted.at, cuda->fitted.n, cuda->steps, &fit))
        return dt_cli_fail(DT_EXIT_FAILED, "the steps have too few products and kernels");
    for (int k = 0; k < DT_COST_OPS; k++)
        fprintf(stderr, "dtc: %zu %s, off by %.0f %% (root mean square of single ones)\n", fit.n[k],
                kinds[k], 100 * fit.off[k]);
    fprintf(stderr, "dtc: starting an operation takes %s by events, %s of a step\n",
            dt_people_seconds(start, fit.start),
            dt_people_seconds(launch, device->at[DT_COST_launch].value));
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        compare(device, fit.start, &sizes[i], &cuda->measured[i]);
    dt_device_print(device, &text);
    const int code = dt_cli_write(cuda->c->cli, &text);
    dt_text_free(&text);
    return code;
}

int dt_calibrate_cuda(const DtCalibrator *c, const char *name)
{
    DtArena *arena = c->cli->arena;
    Cuda *cuda = DT_NEW(arena, Cuda);
    DtDevice device;
    *cuda = (Cuda){.c = c, .arena = arena, .plan = dt_arena_printf(arena, "%s/plan", c->folder),
                   .log = dt_arena_printf(arena, "%s/log", c->folder)};
    DtStatus status = find_gpu(cuda, name, &device);
    for (size_t i = 0; i < DT_COUNT(sizes) && dt_status_ok(&status); i++)
        status = measure(cuda, &sizes[i], &cuda->measured[i]);
    return dt_status_ok(&status) ? write_block(cuda, &device)
                                 : dt_cli_fail(status.code, "%s", status.message);
}
