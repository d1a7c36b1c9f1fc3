/* SPDX-License-Identifier: Apache-2.0 */
/* dtc calibrate: the constants of this machine's processor as a `device` block, from steps that run
 * on it; those of its GPU are calibrate_cuda.c's.
 *
 * Sizes of lib/calibrate.dsl and calibrate_small.dsl are compiled with machine code and trained for
 * some steps by dtrun, which writes how long each instruction took. Least squares give the
 * constants (cost/calibrate.h); sizes that were not fitted on say how far they can be trusted. One
 * rank on one core: how ranks share memory and cores is not measured. */
#include "cli/calibrate.h"

#include "base/file.h"
#include "codegen/target.h"
#include "cost/calibrate.h"
#include "plan/kinds.h"
#include "plan/read.h"
#include "plan/report/people.h"
#include "plan/report/price.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_DIMS = 6, RUNS = 2 }; /* the last entry of a size's dims has no name */

typedef struct Size {
    DtOption dims[MOST_DIMS];
    /* is_small: a program of calibrate_small.dsl; is_check: left out of the fit, to test the
     * constants */
    bool is_small, is_bf16, is_check;
} Size;

static const Size sizes[] = {
    {{{"batch", "2"}}, false, false, false},
    {{{"batch", "1"}, {"embed", "512"}, {"vocab", "1024"}}, false, false, false},
    {{{"batch", "4"}, {"embed", "128"}, {"heads", "4"}, {"seq", "128"}}, false, false, false},
    {{{"batch", "2"}}, false, true, false},
    {{{"batch", "8"}}, true, false, false},
    {{{"batch", "1"}, {"seq", "64"}, {"embed", "512"}, {"layers", "1"}, {"vocab", "16384"}}, false,
     false, false},
    {{{"batch", "2"}, {"embed", "384"}, {"heads", "6"}}, false, false, true},
    {{{"batch", "1"}, {"embed", "768"}, {"heads", "12"}}, false, false, true},
    {{{"batch", "2"}, {"vocab", "4096"}}, false, false, true},
    {{{"batch", "1"}, {"embed", "512"}}, false, true, true},
    {{{"batch", "16"}, {"embed", "160"}, {"hidden", "320"}, {"side", "10"}, {"chans", "40"}}, true,
     false, true},
};

typedef DT_VEC(DtTiming) Timings;

/* Measurements of one size of the programs: each instruction's median time, and how often it
 * ran. */
typedef struct Measured {
    const char *name;
    Timings timings;
    DT_VEC(double) runs;
    double beside;            /* seconds of a step in which no instruction runs */
    double read, read_bytes;  /* time and bytes of inputs */
} Measured;

/* ---- temporary files ---- */

/* A signal handler has to know them. */
static char folder[4096];
static volatile pid_t child; /* dtrun; 0: it does not run */

static void clean_up(void)
{
    static const char *const names[] = {"plan", "trace", "said", "errors", "log", "log.html"};
    char path[4200];
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        size_t n = strlen(folder);
        memcpy(path, folder, n);
        path[n++] = '/';
        memcpy(path + n, names[i], strlen(names[i]) + 1);
        unlink(path);
    }
    rmdir(folder);
}

static void clean_up_and_end(int number)
{
    if (child > 0) {
        kill(child, SIGTERM);
        waitpid(child, NULL, 0);
    }
    clean_up();
    signal(number, SIG_DFL);
    raise(number);
}

static void clean_up_on_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < DT_COUNT(numbers); i++)
        signal(numbers[i], clean_up_and_end);
}

/* ---- plans and runs ---- */

static const char *name_of(DtArena *arena, const Size *size)
{
    const char *name = size->is_bf16 ? "bf16" : "f32";
    name = size->is_small ? dt_arena_printf(arena, "small %s", name) : name;
    for (int i = 0; i < MOST_DIMS && size->dims[i].name; i++)
        name = dt_arena_printf(arena, "%s %s %s", name, size->dims[i].name, size->dims[i].value);
    return name;
}

DtStatus dt_calibrate_plan(const DtCalibrator *c, DtArena *arena, const DtOption *dims,
                           bool is_bf16, const char *path)
{
    static const DtOption bf16 = {"train.precision", "mixed(compute = bf16)"};
    DtLowerOptions options = {.path = c->program, .library = c->library, .parallel = "none",
                              .dims = dims, .sets = &bf16, .n_sets = is_bf16};
    uint8_t *bytes;
    size_t len;
    while (dims[options.n_dims].name)
        options.n_dims++;
    const DtStatus status =
        dt_cli_variant(c->cli, arena, &options, DT_VARIANT_KERNELS, &bytes, &len);
    return dt_status_ok(&status) ? dt_file_write(path, bytes, len) : status;
}

static DtStatus start_dtrun(const char *const *argv, const char *said, const char *errors)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    pid_t pid;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&files, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int error =
        posix_spawn(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (error)
        return dt_status_fail(DT_EXIT_FAILED, "cannot start %s: %s", argv[0], strerror(error));
    child = pid;
    return (DtStatus){.code = DT_EXIT_OK};
}

DtStatus dt_calibrate_run(const DtCalibrator *c, DtArena *arena, const char *const *argv,
                          const char **ret_said)
{
    const char *said = dt_arena_printf(arena, "%s/said", c->folder);
    const char *errors = dt_arena_printf(arena, "%s/errors", c->folder);
    char *text = NULL;
    size_t len = 0;
    int state = 0;
    const DtStatus started = start_dtrun(argv, said, errors);
    if (!dt_status_ok(&started))
        return started;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return dt_status_fail(DT_EXIT_FAILED, "cannot wait for %s: %s", argv[0],
                                  strerror(errno));
    child = 0;
    const bool good = WIFEXITED(state) && WEXITSTATUS(state) == 0;
    const DtStatus read = dt_file_read(arena, good ? said : errors, 1 << 24, &text, &len);
    while (!good && dt_status_ok(&read) && len > 0 && text[len - 1] == '\n')
        text[--len] = '\0';
    if (good && ret_said)
        *ret_said = dt_status_ok(&read) ? text : "";
    return good ? (DtStatus){.code = DT_EXIT_OK}
                : dt_status_fail(DT_EXIT_FAILED, "dtrun failed: %.300s",
                                 dt_status_ok(&read) ? text : "");
}

/* ---- one size ---- */

static DtCostDtype dtype_of(uint32_t dtype)
{
    return dtype == DT_PLAN_F16 || dtype == DT_PLAN_BF16 ? DT_COST_F16 : DT_COST_F32;
}

/* Fills in the work of an instruction; false: it is neither a product nor a kernel. */
static bool timing_of(const DtPlan *plan, const DtPlanInst *inst, DtTiming *ret_timing)
{
    *ret_timing = (DtTiming){.is_product = inst->kind == DT_INST_GEMM};
    if (inst->kind == DT_INST_KERNEL) {
        const DtPlanKernel *k = &plan->kernels[inst->ref];
        ret_timing->kernel = (DtCostKernel){.bytes = k->bytes, .flops = k->flops,
                                            .special = k->special};
        return true;
    }
    if (inst->kind != DT_INST_GEMM)
        return false;
    const DtPlanGemm *g = &plan->gemms[inst->ref];
    ret_timing->product = (DtCostProduct){.m = g->m, .n = g->n, .k = g->k, .batch = 1,
                                          .dtype = dtype_of(g->dtype_a),
                                          .result_bytes = (double)dt_kinds_size(g->dtype_c),
                                          .accumulates = g->accumulate};
    for (uint32_t i = 0; i < g->n_batch; i++)
        ret_timing->product.batch *= g->batch[i];
    return true;
}

/* ---- the trace ---- */

typedef DT_VEC(double) Seconds;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median, so that the first step and other work of the machine do not count. */
static double median(const Seconds *list)
{
    qsort(list->at, list->n, sizeof *list->at, by_size);
    return list->n ? list->at[list->n / 2] : 0;
}

/* The contents of a trace: times of instructions, of steps and updates. */
typedef struct Trace {
    Seconds *insts;   /* by number */
    double in_insts;  /* seconds of all instructions together */
    double in_steps;
    double steps;
} Trace;

static void take_event(DtArena *arena, const DtPlan *plan, const json_t *event, Trace *trace)
{
    const json_t *inst = json_object_get(json_object_get(event, "args"), "inst");
    const char *name = json_string_value(json_object_get(event, "name"));
    const double seconds = json_number_value(json_object_get(event, "dur")) * 1e-6;
    const json_int_t at = json_integer_value(inst);
    const char *category = json_string_value(json_object_get(event, "cat"));
    /* it is shown next to the measured time */
    if (category && strncmp(category, "predicted", 9) == 0)
        return;
    if (inst && at >= 0 && at < plan->n_insts) {
        DT_PUSH(arena, trace->insts[at], seconds);
        trace->in_insts += seconds;
    } else if (!inst && name && (!strncmp(name, "step ", 5) || !strncmp(name, "update ", 7))) {
        trace->in_steps += seconds;
        trace->steps += name[0] == 's';
    }
}

static bool read_times(DtArena *arena, const DtPlan *plan, const char *path, Measured *m)
{
    json_t *file = json_load_file(path, 0, NULL);
    const json_t *events = json_is_array(file) ? file : json_object_get(file, "traceEvents");
    Trace trace = {.insts = DT_NEW_ARRAY(arena, Seconds, plan->n_insts + 1)};
    for (size_t i = 0; i < json_array_size(events); i++)
        take_event(arena, plan, json_array_get(events, i), &trace);
    const bool good = file != NULL;
    json_decref(file);
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        DtTiming timing;
        if (trace.insts[i].n > 0 && plan->insts[i].kind == DT_INST_READ) {
            m->read += median(&trace.insts[i]);
            m->read_bytes += (double)dt_price_read_bytes(plan, &plan->insts[i]);
        }
        if (trace.insts[i].n == 0 || !timing_of(plan, &plan->insts[i], &timing))
            continue;
        timing.seconds = median(&trace.insts[i]);
        DT_PUSH(arena, m->timings, timing);
        DT_PUSH(arena, m->runs, trace.insts[i].n);
    }
    m->beside = trace.steps > 0 ? fmax(trace.in_steps - trace.in_insts, 0) / trace.steps : 0;
    return good;
}

/* Weights timings by their share of a step, since the length of steps matters. */
static void weigh(Measured *m)
{
    double all = 0;
    for (uint32_t i = 0; i < m->timings.n; i++)
        all += m->runs.at[i] * m->timings.at[i].seconds;
    for (uint32_t i = 0; i < m->timings.n && all > 0; i++)
        m->timings.at[i].weight = m->runs.at[i] * m->timings.at[i].seconds / all;
}

/* Lowers each measured time to that of another run of the same plan, where that is shorter. */
static void take_shorter(Measured *m, const Measured *other)
{
    for (uint32_t i = 0; i < m->timings.n && i < other->timings.n; i++)
        m->timings.at[i].seconds = fmin(m->timings.at[i].seconds, other->timings.at[i].seconds);
    m->beside = fmin(m->beside, other->beside);
    m->read = fmin(m->read, other->read);
}

/* Runs the plan RUNS times and keeps the shortest times, since other work of the machine disturbs
 * single runs. A plan that is only timed has no program to prove it against (--unproved). */
static DtStatus run_and_read(const DtCalibrator *c, const char *plan, Measured *m)
{
    DtArena *arena = c->cli->arena;
    const char *trace = dt_arena_printf(arena, "%s/trace", c->folder);
    const char *argv[] = {c->dtrun, plan, "--unproved", "--trace", trace, "--quiet", NULL};
    DtPlanFile file;
    DtStatus status = dt_read_file(plan, &file);
    if (!dt_status_ok(&status))
        return status;
    for (int run = 0; run < RUNS && dt_status_ok(&status); run++) {
        Measured other = {.name = m->name};
        status = dt_calibrate_run(c, arena, argv, NULL);
        if (dt_status_ok(&status) && !read_times(arena, &file.plan, trace, &other))
            status = dt_status_fail(DT_EXIT_FAILED, "dtrun's trace cannot be read");
        if (run == 0)
            *m = other;
        else
            take_shorter(m, &other);
    }
    dt_read_close(&file);
    return status;
}

static DtStatus measure(const DtCalibrator *c, const Size *size, Measured *m, Timings *fitted)
{
    DtArena *arena = c->cli->arena;
    const char *plan = dt_arena_printf(arena, "%s/plan", c->folder);
    DtCalibrator of = *c;
    *m = (Measured){.name = name_of(arena, size)};
    fprintf(stderr, "dtc: measuring %s\n", m->name);
    if (size->is_small)
        of.program = dt_arena_printf(arena, "%s/calibrate_small.dsl", c->library);
    DtStatus status = dt_calibrate_plan(&of, arena, size->dims, size->is_bf16, plan);
    if (dt_status_ok(&status))
        status = run_and_read(c, plan, m);
    weigh(m);
    for (uint32_t i = 0; !size->is_check && i < m->timings.n; i++)
        DT_PUSH(arena, *fitted, m->timings.at[i]);
    return status;
}

/* ---- the block ---- */

/* Prints the time of all products and kernels of a size, as measured and as the device file
 * predicts. */
static void compare(const DtDevice *device, const Measured *m, bool is_check)
{
    const DtCostModel model = {.device = device};
    char is[32], says[32];
    double measured = 0, predicted = 0;
    for (uint32_t i = 0; i < m->timings.n; i++) {
        const DtTiming *t = &m->timings.at[i];
        const double seconds =
            t->is_product ? dt_cost_product(&model, t->product) : dt_cost_kernel(&model, t->kernel);
        measured += t->seconds * m->runs.at[i];
        predicted += seconds * m->runs.at[i];
    }
    fprintf(stderr, "dtc: %s %s: %s, predicted %s, %+.1f %%\n",
            is_check ? "not fitted on" : "fitted on    ", m->name, dt_people_seconds(is, measured),
            dt_people_seconds(says, predicted), 100 * (predicted / measured - 1));
}

/* Returns the bytes of this processor's second-level cache; 0: the system does not say. */
static double second_cache(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (double)bytes : 0;
#else
    return 0;
#endif
}

static int write_block(const DtCalibrator *c, const char *name, const Measured *measured,
                       const Timings *fitted)
{
    DtDevice device = dt_device_new(name);
    DtCalibration fit;
    DtText text = {0};
    device.description = "one core of a processor, as measured";
    device.source = "dtc calibrate";
    device.is_gpu = false;
    device.units = 1;
    device.l2_bytes = second_cache();
    Seconds beside = {0}, rates = {0};
    for (size_t i = 0; i < DT_COUNT(sizes); i++) {
        DT_PUSH(c->cli->arena, beside, measured[i].beside);
        if (measured[i].read > 0)
            DT_PUSH(c->cli->arena, rates, measured[i].read_bytes / measured[i].read);
    }
    device.host_rate = median(&rates);
    if (!dt_calibrate(&device, fitted->at, fitted->n, median(&beside), &fit))
        return dt_cli_fail(DT_EXIT_FAILED, "the steps have too few products and kernels");
    fprintf(stderr,
            "dtc: %zu products, off by %.0f %%, and %zu kernels, by %.0f %% (root mean squares, by "
            "their time)\n",
            fit.products, 100 * fit.product_off, fit.kernels, 100 * fit.kernel_off);
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        compare(&device, &measured[i], sizes[i].is_check);
    dt_device_print(&device, &text);
    const int code = dt_cli_write(c->cli, &text);
    dt_text_free(&text);
    return code;
}

static int calibrate(const DtCalibrator *c, const char *name)
{
    Measured measured[DT_COUNT(sizes)];
    Timings fitted = {0};
    for (size_t i = 0; i < DT_COUNT(sizes); i++) {
        const DtStatus status = measure(c, &sizes[i], &measured[i], &fitted);
        if (!dt_status_ok(&status))
            return dt_cli_fail(status.code, "%s", status.message);
    }
    return write_block(c, name, measured, &fitted);
}

static bool is_name(const char *text)
{
    bool good = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || *text == '_';
    for (; good && *text; text++)
        good = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
               (*text >= '0' && *text <= '9') || *text == '_' || *text == '-';
    return good;
}

/* Reports the errors that show before anything runs. */
static int check(const DtCli *cli, const DtCalibrator *c, const char *name)
{
    const bool gpu = cli->device && !strcmp(cli->device, "cuda");
    if (cli->words.n > 1 || !is_name(name))
        return dt_cli_fail(DT_EXIT_USAGE,
                           "calibrate takes one name of a device: dtc calibrate NAME");
    if (cli->device && !gpu && strcmp(cli->device, "cpu") != 0)
        return dt_cli_fail(DT_EXIT_USAGE, "calibrate measures --device cpu or cuda, not `%.60s`",
                           cli->device);
    if (gpu && cli->target && dt_target_find(cli->target) != &dt_target_cuda_interpreted)
        return dt_cli_fail(
            DT_EXIT_USAGE,
            "calibrate --device cuda compiles for the GPU that there is: no --target");
    if (!gpu && cli->target && strncmp(cli->target, "cpu", 3))
        return dt_cli_fail(
            DT_EXIT_USAGE,
            "calibrate measures this processor; --device cuda: the GPU of this machine");
    if (!c->library)
        return dt_cli_fail(DT_EXIT_IO, "the library is not found (--library DIR)");
    return c->dtrun ? DT_EXIT_OK
                    : dt_cli_fail(DT_EXIT_IO, "dtrun is not in the folder that dtc is in");
}

int dt_cmd_calibrate(DtCli *cli)
{
    DtCalibrator c = {.cli = cli,
                      .library = cli->library ? cli->library : dt_cli_library(cli->arena),
                      .dtrun = dt_cli_dtrun(cli->arena)};
    const char *name = cli->words.n ? cli->words.at[0] : "here", *temporary = getenv("TMPDIR");
    temporary = temporary && *temporary ? temporary : "/tmp";
    int code = check(cli, &c, name);
    if (code != DT_EXIT_OK)
        return code;
    if (snprintf(folder, sizeof folder, "%s/dtc-XXXXXX", temporary) >= (int)sizeof folder ||
        !mkdtemp(folder))
        return dt_cli_fail(DT_EXIT_IO, "cannot make a folder %s: %s", folder, strerror(errno));
    clean_up_on_signals();
    c.folder = folder;
    c.program = dt_arena_printf(cli->arena, "%s/calibrate.dsl", c.library);
    if (cli->device && !strcmp(cli->device, "cuda")) {
        code = dt_calibrate_cuda(&c, name);
    } else {
        cli->target = cli->target ? cli->target : "cpu";
        code = calibrate(&c, name);
    }
    clean_up();
    return code;
}
