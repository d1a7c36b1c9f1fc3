/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by the stand-in of cuDNN. The graphs must compute attention, which is computed here in
 * double from its definition. And every part of the description of a graph must be necessary. */
#include "base/cudalib.h"
#include "base/half.h"
#include "runtime/cuda_attend_graph.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KV = 2, QUERIES = 5, KEYS = 7, HEAD = 8,
       MOST = BATCH * HEADS * KEYS * HEAD };

typedef struct Setup {
    DtArena *arena;
    DtCudaDriver driver;
    DtCudaContext *context;
    DtCudaStream *stream;
    DtCudnn cudnn;
    DtCudnnHandle *handle;
    uint64_t at[DT_SDPA_PARTS], statistic, dot, sums, workspace;
    int capability;
    double host[DT_SDPA_PARTS][MOST], statistics[BATCH * HEADS * QUERIES];
} Setup;

static bool of_keys(uint32_t p)
{
    return p == DT_SDPA_K || p == DT_SDPA_V || p == DT_SDPA_DK || p == DT_SDPA_DV;
}
static int64_t heads_of(uint32_t p) { return of_keys(p) ? KV : HEADS; }
static int64_t rows_of(uint32_t p) { return of_keys(p) ? KEYS : QUERIES; }

/* Returns a record whose heads of one position are adjacent, as a model has them. */
static DtPlanSdpa record_of(bool backward, bool causal, int64_t window)
{
    DtPlanSdpa s = {.dtype = DT_PLAN_BF16,
                    .backward = backward,
                    .causal = causal,
                    .batch = BATCH,
                    .heads = HEADS,
                    .kv_heads = KV,
                    .queries = QUERIES,
                    .keys = KEYS,
                    .head = HEAD,
                    .window = window,
                    .scale = 0.35,
                    .workspace = 1 << 20};
    for (uint32_t p = 0; p < DT_SDPA_PARTS; p++) {
        s.pointer[p] = (int32_t)p;
        s.of_head[p] = HEAD;
        s.of_row[p] = heads_of(p) * HEAD;
        s.of_batch[p] = rows_of(p) * s.of_row[p];
    }
    return s;
}

static double *element(Setup *u, uint32_t p, int64_t b, int64_t h, int64_t row, int64_t e)
{
    return &u->host[p][((b * rows_of(p) + row) * heads_of(p) + h) * HEAD + e];
}

/* ---- attention by definition ---- */

static bool sees(const DtPlanSdpa *s, int64_t i, int64_t j)
{
    return (!s->causal || j <= i) && (s->window == 0 || i - j < s->window);
}

static double product(Setup *u, uint32_t x, uint32_t y, int64_t b, int64_t h, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t e = 0; e < HEAD; e++)
        sum += *element(u, x, b, h, i, e) * *element(u, y, b, h * KV / HEADS, j, e);
    return sum;
}

/* Computes row i of probabilities. */
static void probabilities(Setup *u, const DtPlanSdpa *s, int64_t b, int64_t h, int64_t i,
                          double *ret_p)
{
    double sum = 0;
    for (int64_t j = 0; j < KEYS; j++)
        sum += ret_p[j] =
            sees(s, i, j) ? exp(s->scale * product(u, DT_SDPA_Q, DT_SDPA_K, b, h, i, j)) : 0;
    for (int64_t j = 0; j < KEYS; j++)
        ret_p[j] /= sum;
    u->statistics[(b * HEADS + h) * QUERIES + i] = log(sum);
}

static void row_forward(Setup *u, const DtPlanSdpa *s, int64_t b, int64_t h, int64_t i)
{
    double p[KEYS];
    probabilities(u, s, b, h, i, p);
    for (int64_t e = 0; e < HEAD; e++) {
        double sum = 0;
        for (int64_t j = 0; j < KEYS; j++)
            sum += p[j] * *element(u, DT_SDPA_V, b, h * KV / HEADS, j, e);
        *element(u, DT_SDPA_O, b, h, i, e) = (double)dt_half_from_bf16(dt_half_to_bf16((float)sum));
    }
}

static void row_backward(Setup *u, const DtPlanSdpa *s, int64_t b, int64_t h, int64_t i)
{
    double p[KEYS], dot = 0;
    probabilities(u, s, b, h, i, p);
    for (int64_t e = 0; e < HEAD; e++)
        dot += *element(u, DT_SDPA_O, b, h, i, e) * *element(u, DT_SDPA_DO, b, h, i, e);
    for (int64_t j = 0; j < KEYS; j++) {
        const double slope =
            s->scale * p[j] * (product(u, DT_SDPA_DO, DT_SDPA_V, b, h, i, j) - dot);
        for (int64_t e = 0; e < HEAD; e++) {
            *element(u, DT_SDPA_DQ, b, h, i, e) +=
                slope * *element(u, DT_SDPA_K, b, h * KV / HEADS, j, e);
            *element(u, DT_SDPA_DK, b, h * KV / HEADS, j, e) +=
                slope * *element(u, DT_SDPA_Q, b, h, i, e);
            *element(u, DT_SDPA_DV, b, h * KV / HEADS, j, e) +=
                p[j] * *element(u, DT_SDPA_DO, b, h, i, e);
        }
    }
}

static void all_rows(Setup *u, const DtPlanSdpa *s,
                     void (*row)(Setup *, const DtPlanSdpa *, int64_t, int64_t, int64_t))
{
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < QUERIES; i++)
                row(u, s, b, h, i);
}

/* ---- on the device ---- */

static void put_part(Setup *u, uint32_t p)
{
    uint16_t bits[MOST];
    for (int i = 0; i < MOST; i++)
        bits[i] = dt_half_to_bf16((float)u->host[p][i]);
    cr_assert(u->driver.put(u->at[p], bits, sizeof bits, u->stream) == 0 &&
              u->driver.stream_wait(u->stream) == 0);
}

/* Returns the largest difference between a part and its expected values. */
static double far(Setup *u, uint32_t p)
{
    uint16_t bits[MOST];
    double most = 0;
    cr_assert(u->driver.get(bits, u->at[p], sizeof bits, u->stream) == 0 &&
              u->driver.stream_wait(u->stream) == 0);
    for (int64_t i = 0; i < BATCH * rows_of(p) * heads_of(p) * HEAD; i++) {
        const double d = fabs((double)dt_half_from_bf16(bits[i]) - u->host[p][i]);
        most = isnan(d) || d > most ? d : most;
    }
    return most;
}

static double far_statistic(Setup *u)
{
    float got[BATCH * HEADS * QUERIES];
    double most = 0;
    cr_assert(u->driver.get(got, u->statistic, sizeof got, u->stream) == 0 &&
              u->driver.stream_wait(u->stream) == 0);
    for (size_t i = 0; i < DT_COUNT(got); i++)
        most = fmax(most, fabs((double)got[i] - u->statistics[i]));
    return most;
}

static Setup *set_up(int capability, const char *standin)
{
    static const char *const versions[] = {"9", NULL};
    static const DtCudaLib lib = {"cudnn", versions, ""};
#define NAME(MEMBER, SYMBOL, RESULT, ARGUMENTS) SYMBOL,
    static const char *const names[] = {DT_CUDNN(NAME)};
#undef NAME
    Setup *u = calloc(1, sizeof *u);
    u->arena = dt_arena_new();
    u->capability = capability;
    setenv("DT_STANDIN", standin, 1);
    DtStatus status = dt_cuda_driver_open(u->arena, &u->driver);
    if (dt_status_ok(&status))
        status = dt_cudalib_open(u->arena, &lib, sizeof names / sizeof names[0], names,
                                 (void **)&u->cudnn);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(u->driver.retain(&u->context, 0) == 0 && u->driver.set_current(u->context) == 0 &&
              u->driver.stream_new(&u->stream, DT_CUDA_STREAM_ALONE) == 0 &&
              u->cudnn.create(&u->handle) == 0 && u->cudnn.set_stream(u->handle, u->stream) == 0);
    for (uint32_t p = 0; p < DT_SDPA_PARTS; p++) {
        cr_assert(u->driver.alloc(&u->at[p], 2 * MOST) == 0);
        for (int i = 0; i < MOST; i++)
            u->host[p][i] =
                p >= DT_SDPA_DQ
                    ? 0
                    : (double)dt_half_from_bf16(dt_half_to_bf16((float)sin(i * (1.3 + p) + p)));
        put_part(u, p);
    }
    cr_assert(u->driver.alloc(&u->statistic, 1024) == 0 && u->driver.alloc(&u->dot, 1024) == 0 &&
              u->driver.alloc(&u->sums, 4 * MOST) == 0 &&
              u->driver.alloc(&u->workspace, 1 << 20) == 0);
    return u;
}

static bool run(Setup *u, const DtCudnn *cudnn, const DtPlanSdpa *s)
{
    DtCudnnDescs descs = {.cudnn = cudnn, .arena = u->arena};
    const DtCudnnDevice device = {.handle = u->handle, .capability = u->capability};
    float scale = (float)s->scale, hidden = -INFINITY, one = 1, window = (float)s->window;
    void *operands[DT_SDPA_OPERANDS];
    DtSdpaGraph graph;
    const char *why;
    for (uint32_t p = 0; p < DT_SDPA_PARTS; p++)
        operands[p] = (void *)(uintptr_t)u->at[p];
    operands[DT_SDPA_STATISTIC] = (void *)(uintptr_t)u->statistic;
    operands[DT_SDPA_DOT] = (void *)(uintptr_t)u->dot;
    operands[DT_SDPA_DQ_SUMS] = (void *)(uintptr_t)u->sums;
    operands[DT_SDPA_SCALE] = &scale;
    operands[DT_SDPA_HIDDEN] = &hidden;
    operands[DT_SDPA_ONE] = &one;
    operands[DT_SDPA_WINDOW] = &window;
    const bool good =
        dt_sdpa_graph(&descs, &device, s, &graph, &why) &&
        dt_sdpa_execute(cudnn, u->handle, &graph, operands, (void *)(uintptr_t)u->workspace) &&
        u->driver.stream_wait(u->stream) == 0;
    dt_cudnn_descs_free(&descs);
    return good;
}

static void tear_down(Setup *u)
{
    u->cudnn.destroy(u->handle);
    dt_arena_free(u->arena);
    free(u);
}

/* Devices and versions of cuDNN: plans that it proposes, and engines that are named. In the
 * backward pass the former need 131,328 bytes. */
enum { TOO_LITTLE = 100000 };
static const struct {
    int capability;
    const char *standin;
    bool names;
} libraries[] = {{90, "", false},
                 {90, "cudnn=92501", true},
                 {100, "cudnn=91801", true},
                 {103, "cudnn=92300", true},
                 {107, "cudnn=91900", true},
                 {107, "cudnn=92800", true},
                 {120, "", false}};

Test(standin_attend, is_attention_and_its_gradient)
{
    static const struct {
        bool causal;
        int64_t window;
        size_t library;
    } masks[] = {{false, 0, 0}, {true, 0, 0}, {true, 3, 0}, {false, 2, 0}, {true, 3, 1},
                 {true, 0, 2},  {false, 2, 3}, {true, 3, 4}, {true, 3, 5}, {true, 3, 6}};
    for (size_t m = 0; m < DT_COUNT(masks); m++) {
        Setup *u =
            set_up(libraries[masks[m].library].capability, libraries[masks[m].library].standin);
        const DtPlanSdpa forward = record_of(false, masks[m].causal, masks[m].window);
        DtPlanSdpa backward = record_of(true, masks[m].causal, masks[m].window);
        if (libraries[masks[m].library].names)
            backward.workspace = TOO_LITTLE;
        all_rows(u, &forward, row_forward);
        cr_assert(run(u, &u->cudnn, &forward));
        cr_expect(far(u, DT_SDPA_O) < 0x1p-7, "mask %zu: o is off by %g", m, far(u, DT_SDPA_O));
        cr_expect(far_statistic(u) < 1e-5);
        all_rows(u, &backward, row_backward);
        cr_assert(run(u, &u->cudnn, &backward));
        for (uint32_t p = DT_SDPA_DQ; p <= DT_SDPA_DV; p++)
            cr_expect(far(u, p) < 0x1p-5, "mask %zu: part %u is off by %g", m, p, far(u, p));
        tear_down(u);
    }
}

/* Whether a graph is found, and the message if not. */
static bool finds(int capability, const char *standin, uint64_t workspace, const char **ret_why)
{
    Setup *u = set_up(capability, standin);
    DtCudnnDescs descs = {.cudnn = &u->cudnn, .arena = u->arena};
    const DtCudnnDevice device = {.handle = u->handle, .capability = capability};
    DtPlanSdpa s = record_of(true, true, 0);
    DtSdpaGraph graph;
    const char *why = "";
    s.workspace = workspace;
    const bool good = dt_sdpa_graph(&descs, &device, &s, &graph, &why);
    *ret_why = strcpy(calloc(strlen(why) + 1, 1), why);
    dt_cudnn_descs_free(&descs);
    tear_down(u);
    return good;
}

Test(standin_attend, says_why_there_is_none)
{
    static const struct {
        int capability;
        const char *standin;
        uint64_t workspace;
        const char *why; /* NULL: there is a graph */
    } cases[] = {
        {90, "cudnn=92400", TOO_LITTLE, "it wants 131328 bytes"},
        {90, "cudnn=92500", TOO_LITTLE, NULL},
        {90, "cudnn=92500", 1000, "it wants 1536 bytes"}, /* and dq in f32, in memory */
        {100, "cudnn=91800", 1 << 20, "its sums have no known order on this generation of GPUs"},
        {100, "cudnn=91801", 1000, NULL},
        {100, "cudnn=91801", 200, "it wants 256 bytes"},
        {110, "cudnn=92800", 1 << 20, "its sums have no known order on this generation of GPUs"},
        {120, "cudnn=91800", 1 << 20, NULL},
        {120, "cudnn=92800", TOO_LITTLE, "it wants 131328 bytes"},
    };
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        const char *why;
        const bool good = finds(cases[i].capability, cases[i].standin, cases[i].workspace, &why);
        cr_expect(good == !cases[i].why, "case %zu", i);
        cr_expect(good || strcmp(why, cases[i].why) == 0, "case %zu: %s", i, why);
        free((void *)(uintptr_t)why);
    }
}

/* ---- with one call less ---- */

static DtCudnn whole;
static int64_t n_calls, left_out;

/* Leaves out every attribute, except the one that makes a tensor a number: without it, the number's
 * address in the process would be used as an address of the device, which ends the process. */
static int set_but_one(DtCudnnDesc *desc, int attribute, int type, int64_t n, const void *values)
{
    enum { IS_VALUE = 908 };
    if (attribute == IS_VALUE)
        return whole.desc_set(desc, attribute, type, n, values);
    return n_calls++ == left_out ? 0 : whole.desc_set(desc, attribute, type, n, values);
}

static int done_but_one(DtCudnnDesc *desc)
{
    return n_calls++ == left_out ? 0 : whole.desc_done(desc);
}

Test(standin_attend, nothing_can_be_left_out)
{
    Setup *u = set_up(90, "");
    DtCudnn less = whole = u->cudnn;
    less.desc_set = set_but_one;
    less.desc_done = done_but_one;
    for (int pass = 0; pass < 3; pass++) { /* the last graph is by an engine that is named */
        const DtPlanSdpa s = record_of(pass > 0, true, 3);
        u->capability = pass > 1 ? 100 : 90;
        n_calls = 0, left_out = -1;
        cr_assert(run(u, &less, &s));
        const int64_t n = n_calls;
        cr_assert(n > 200);
        for (left_out = 0; left_out < n; left_out++) {
            n_calls = 0;
            cr_expect(!run(u, &less, &s), "call %lld of %lld is not missed", (long long)left_out,
                      (long long)n);
        }
    }
    tear_down(u);
}
