/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by cuDNN in place of a plan's kernels. A graph for each shape is made when the plan
 * is loaded, with the first plan that the library proposes, and runs in every step. So a run's
 * bits are always the same on the same device and version. The maximum and sum of a row are
 * stored as by the plan's kernels, so that either may follow the other; a kernel of the plan
 * converts between these and the library's one statistic (plan.h, SDPA). */
#include "runtime/cuda_attend.h"
#include "runtime/cuda_attend_graph.h"

#include "base/cudalib.h"

#include <math.h>
#include <string.h>

/* Older versions compute wrong results if the number of keys is not a multiple of 128. */
enum { OLDEST = 91600, ALIGNED = 16, PLACED = 256 };

typedef struct Row {
    DtSdpaGraph graph;
    bool is_there;
    float scale, hidden, one, window; /* numbers that the graph reads from here */
    DtCudaFunction *statistic;
} Row;

struct DtCudaAttends {
    const DtPlan *plan;
    const DtCudaDriver *driver;
    DtCudaStream *stream;
    DtCudnn cudnn;
    DtCudnnHandle *handle;
    DtCudnnDescs descs;
    const char *name;
    Row *rows;           /* by record */
    uint32_t *of_kernel; /* 1 + number of the record; 0: no record */
    uint64_t workspace, bytes;
    bool paused;
};

/* ---- the library ---- */

static DtStatus open_library(DtArena *arena, DtCudnn *ret_cudnn)
{
    static const char *const versions[] = {"9", NULL};
    static const DtCudaLib lib = {"cudnn", versions,
                                  "package cudnn9-cuda-13 of NVIDIA's repository, or "
                                  "nvidia-cudnn-cu13 of PyPI"};
#define NAME(MEMBER, SYMBOL, RESULT, ARGUMENTS) SYMBOL,
    static const char *const names[] = {DT_CUDNN(NAME)};
#undef NAME
    DtStatus status =
        dt_cudalib_open(arena, &lib, sizeof names / sizeof names[0], names, (void **)ret_cudnn);
    if (!dt_status_ok(&status))
        return status;
    const size_t version = ret_cudnn->version();
    return version >= OLDEST
               ? DT_OK
               : dt_status_fail(DT_EXIT_FAILED,
                                "cuDNN here is %zu.%zu.%zu, and %d.%d is the oldest that will do",
                                version / 10000, version % 10000 / 100, version % 100,
                                OLDEST / 10000, OLDEST % 10000 / 100);
}

static DtStatus begin(DtCudaAttends *a)
{
    const size_t version = a->cudnn.version();
    a->name = dt_arena_printf(a->descs.arena, "cudnn %zu.%zu.%zu", version / 10000,
                              version % 10000 / 100, version % 100);
    if (a->cudnn.create(&a->handle) == 0 && a->cudnn.set_stream(a->handle, a->stream) == 0)
        return DT_OK;
    return dt_status_fail(DT_EXIT_FAILED, "cuDNN does not begin on this device");
}

/* ---- records ---- */

/* Whether the addresses of all tensors are multiples of their alignment, for all values of
 * registers and coordinates. */
static bool is_aligned(const DtPlan *plan, const DtPlanSdpa *s)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        for (uint32_t p = 0;
             p < DT_SDPA_PARTS && inst->kind == DT_INST_KERNEL && inst->ref == s->kernel; p++) {
            if (s->pointer[p] < 0 || p == DT_SDPA_MAX || p == DT_SDPA_SUM)
                continue;
            const DtPlanArg *arg = &plan->args[inst->first_arg + (uint32_t)s->pointer[p]];
            bits |= (uint64_t)arg->base;
            for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
                bits |= (uint64_t)arg->reg[r];
            for (uint32_t c = 0; c < DT_PLAN_COORDS; c++)
                bits |= (uint64_t)arg->coord[c];
        }
    }
    return bits % ALIGNED == 0;
}

/* Whether one graph serves both records: they differ only in kernel, addresses and row
 * statistics. */
static bool is_alike(DtPlanSdpa x, DtPlanSdpa y)
{
    x.kernel = y.kernel = 0;
    memset(x.pointer, 0, sizeof x.pointer);
    memset(y.pointer, 0, sizeof y.pointer);
    memset(x.offset, 0, sizeof x.offset);
    memset(y.offset, 0, sizeof y.offset);
    for (uint32_t p = DT_SDPA_MAX; p <= DT_SDPA_SUM; p++) {
        x.of_batch[p] = x.of_head[p] = x.of_row[p] = 0;
        y.of_batch[p] = y.of_head[p] = y.of_row[p] = 0;
    }
    return memcmp(&x, &y, sizeof x) == 0;
}

static uint64_t placed(uint64_t bytes) { return (bytes + PLACED - 1) / PLACED * PLACED; }

/* Returns the bytes of an operand that has one number for each query. */
static uint64_t row_bytes(const DtPlanSdpa *s)
{
    return placed((uint64_t)(s->batch * s->heads * s->queries) * sizeof(float));
}

/* Builds the library's graph for a record. Returns NULL, or the reason why the library does not
 * compute it. */
static const char *find_graph(DtCudaAttends *a, uint32_t number, int capability)
{
    const DtPlanSdpa *s = &a->plan->sdpas[number];
    Row *row = &a->rows[number];
    const char *why = NULL;
    *row = (Row){.scale = (float)s->scale, .hidden = -INFINITY, .one = 1,
                 .window = (float)s->window};
    if (!is_aligned(a->plan, s))
        return "its tensors begin at no multiples of 16 bytes";
    for (uint32_t i = 0; i < number; i++)
        if (a->rows[i].is_there && is_alike(*s, a->plan->sdpas[i])) {
            row->graph = a->rows[i].graph;
            row->is_there = true;
            return NULL;
        }
    const DtCudnnDevice device = {.handle = a->handle, .capability = capability};
    row->is_there = dt_sdpa_graph(&a->descs, &device, s, &row->graph, &why);
    return row->is_there ? NULL : why;
}

static DtStatus refused(const DtPlanSdpa *s, const char *why)
{
    return dt_status_fail(DT_EXIT_FAILED,
                          "cuDNN does no attention %s of %lld x %lld heads of %lld, %lld queries "
                          "and %lld keys, in %s and with "
                          "at most %llu bytes of workspace: %.300s",
                          s->backward ? "backward" : "forward", (long long)s->batch,
                          (long long)s->heads, (long long)s->head, (long long)s->queries,
                          (long long)s->keys, dt_kinds_name(s->dtype),
                          (unsigned long long)s->workspace, why);
}

/* Builds the graphs of all records. Returns an error about the first one that the library does not
 * compute, which counts with --attention cudnn only. */
static DtStatus find_graphs(DtCudaAttends *a, int capability)
{
    DtStatus first = DT_OK;
    for (uint32_t i = 0; i < a->plan->n_sdpas; i++) {
        const DtPlanSdpa *s = &a->plan->sdpas[i];
        const char *why = find_graph(a, i, capability);
        if (why && dt_status_ok(&first))
            first = refused(s, why);
        if (why)
            continue;
        const uint64_t bytes =
            2 * row_bytes(s) + placed(a->rows[i].graph.sums) + placed(a->rows[i].graph.workspace);
        a->bytes = bytes > a->bytes ? bytes : a->bytes;
        a->of_kernel[s->kernel] = i + 1;
    }
    return first;
}

DtStatus dt_cuda_attends_open(DtArena *memory, const DtPlan *plan, const DtCudaDriver *driver,
                              DtCudaStream *stream, int capability, DtAttention wish,
                              DtCudaAttends **ret_attends, const char **ret_why)
{
    *ret_attends = NULL;
    *ret_why = NULL;
    if (plan->n_sdpas == 0 && wish == DT_ATTENTION_CUDNN)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--attention cudnn: the plan has no attention that cuDNN does");
    if (plan->n_sdpas == 0 || wish == DT_ATTENTION_GENERATED)
        return DT_OK;
    DtCudaAttends *a = DT_NEW(memory, DtCudaAttends);
    *a = (DtCudaAttends){.plan = plan, .driver = driver, .stream = stream};
    a->descs = (DtCudnnDescs){.cudnn = &a->cudnn, .arena = memory};
    a->rows = DT_NEW_ARRAY(memory, Row, plan->n_sdpas);
    a->of_kernel = DT_NEW_ARRAY(memory, uint32_t, plan->n_kernels + 1);
    DtStatus status = open_library(memory, &a->cudnn);
    const bool opened = dt_status_ok(&status);
    if (opened)
        status = begin(a);
    if (dt_status_ok(&status)) {
        *ret_attends = a;
        status = find_graphs(a, capability);
    } else if (opened) {
        dt_cuda_attends_close(a);
    }
    if (dt_status_ok(&status) || wish == DT_ATTENTION_CUDNN)
        return status;
    *ret_why = dt_arena_strndup(memory, status.message, strlen(status.message));
    return DT_OK;
}

uint64_t dt_cuda_attends_bytes(const DtCudaAttends *attends)
{
    return attends ? attends->bytes : 0;
}
const char *dt_cuda_attends_name(const DtCudaAttends *attends) { return attends->name; }
void dt_cuda_attends_place(DtCudaAttends *attends, uint64_t workspace)
{
    attends->workspace = workspace;
}

void dt_cuda_attends_statistic(DtCudaAttends *attends, uint32_t record, DtCudaFunction *function)
{
    attends->rows[record].statistic = function;
}

bool dt_cuda_attends_has(const DtCudaAttends *attends, uint32_t kernel)
{
    return attends && !attends->paused && attends->of_kernel[kernel] > 0;
}

void dt_cuda_attends_pause(DtCudaAttends *attends, bool pause) { attends->paused = pause; }

/* ---- steps ---- */

static bool run_statistic(const DtCudaAttends *a, const DtPlanSdpa *s, const Row *row,
                          const uint64_t at[DT_SDPA_PARTS])
{
    enum { MOST_BLOCKS = 1024 };
    const int64_t rows = s->batch * s->heads * s->queries,
                  blocks = (rows + DT_PLAN_STATISTIC_THREADS - 1) / DT_PLAN_STATISTIC_THREADS;
    uint64_t arguments[] = {a->workspace, at[DT_SDPA_MAX], at[DT_SDPA_SUM], 0};
    void *parameters[] = {arguments};
    if (s->pointer[DT_SDPA_MAX] < 0)
        return true;
    return a->driver->launch(row->statistic,
                             (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1,
                             DT_PLAN_STATISTIC_THREADS, 1, 1, 0, a->stream, parameters, NULL) == 0;
}

static void *address(uint64_t at) { return (void *)(uintptr_t)at; }

bool dt_cuda_attends_run(DtCudaAttends *attends, uint32_t kernel, const DtDeviceAt *pointers,
                         const char **ret_why)
{
    DtCudaAttends *a = attends;
    const uint32_t number = a->of_kernel[kernel] - 1;
    const DtPlanSdpa *s = &a->plan->sdpas[number];
    Row *row = &a->rows[number];
    const uint64_t dot = a->workspace + row_bytes(s), sums = dot + row_bytes(s);
    uint64_t at[DT_SDPA_PARTS] = {0};
    void *operands[DT_SDPA_OPERANDS] = {NULL};
    for (uint32_t p = 0; p < DT_SDPA_PARTS; p++) {
        const int64_t each = p == DT_SDPA_MAX || p == DT_SDPA_SUM ? 1 : dt_kinds_size(s->dtype);
        if (s->pointer[p] >= 0)
            at[p] = pointers[s->pointer[p]].at + (each > 1 ? (uint64_t)(s->offset[p] * each) : 0);
        operands[p] = address(at[p]);
    }
    operands[DT_SDPA_STATISTIC] = address(a->workspace);
    operands[DT_SDPA_DOT] = address(dot);
    operands[DT_SDPA_DQ_SUMS] = address(sums);
    operands[DT_SDPA_SCALE] = &row->scale;
    operands[DT_SDPA_HIDDEN] = &row->hidden;
    operands[DT_SDPA_ONE] = &row->one;
    operands[DT_SDPA_WINDOW] = &row->window;
    *ret_why = "the kernel of its statistic does not start";
    if (s->backward && !run_statistic(a, s, row, at))
        return false;
    if (!dt_sdpa_execute(&a->cudnn, a->handle, &row->graph, operands,
                         address(sums + placed(row->graph.sums)))) {
        *ret_why = dt_cudnn_error(&a->cudnn, a->descs.arena);
        return false;
    }
    return s->backward || run_statistic(a, s, row, at);
}

void dt_cuda_attends_close(DtCudaAttends *attends)
{
    if (!attends)
        return;
    dt_cudnn_descs_free(&attends->descs);
    if (attends->handle)
        attends->cudnn.destroy(attends->handle);
    attends->handle = NULL;
}
