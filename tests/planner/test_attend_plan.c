/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of attention, planned by cuDNN itself where it is installed, for devices that need not be there: it wants
 * their properties and a driver that agrees (driver.c). So its engines are asked whether they know these graphs, and
 * how much workspace they need, which dtc says beforehand. Nothing is run. */
#include "base/cudalib.h"
#include "runtime/cuda_attend_graph.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { DEVICE = 38, DEVICE_JSON = 2702, IS_CHAR = 24 };

typedef struct Device {
    const char *name;
    int generation, processors, shared; /* 900: 9.0; bytes */
} Device;
static const Device devices[] = {{"NVIDIA A100-SXM4-80GB", 800, 108, 166912}, {"NVIDIA H200", 900, 132, 232448}};

typedef struct Shape {
    int64_t batch, heads, kv_heads, queries, keys, head, window;
    uint32_t causal, dtype;
} Shape;
static const Shape shapes[] = {
    {4, 12, 12, 1024, 1024, 64, 0, 1, DT_PLAN_BF16}, /* GPT-2 */
    {2, 8, 2, 333, 333, 96, 0, 1, DT_PLAN_F16},      /* heads that share keys */
    {2, 4, 1, 512, 512, 128, 64, 1, DT_PLAN_F16},
    {1, 2, 2, 7, 1000, 8, 0, 0, DT_PLAN_BF16},
};

static bool open_library(DtArena *arena, DtCudnn *ret_cudnn)
{
    static const char *const versions[] = {"9", NULL};
    static const DtCudaLib lib = {"cudnn", versions, ""};
#define NAME(MEMBER, SYMBOL, RESULT, ARGUMENTS) SYMBOL,
    static const char *const names[] = {DT_CUDNN(NAME)};
#undef NAME
    DtStatus status = dt_cudalib_open(arena, &lib, sizeof names / sizeof names[0], names, (void **)ret_cudnn);
    return dt_status_ok(&status) && ret_cudnn->version() >= 91600;
}

static DtCudnnDesc *properties_of(const DtCudnn *cudnn, const Device *device)
{
    DtCudnnDesc *desc = NULL;
    char text[1200];
    const int n = snprintf(
        text, sizeof text,
        "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"deviceVer\": %d, "
        "\"driverVer\": 13000, \"multiProcessorCount\": %d, \"regsPerBlock\": 65536, \"smClockRateKHz\": 1980000, "
        "\"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560, \"warpSize\": 32, \"maxSharedMemoryPerBlock\": "
        "49152, "
        "\"maxSharedMemoryPerBlockOptin\": %d, \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, "
        "\"pciDeviceId\": 0, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, "
        "\"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"cudaDeviceId\": 0, \"totalGlobalMem\": 80000000000, "
        "\"deviceName\": \"%s\"}",
        device->generation, device->processors, device->shared, device->name);
    const bool good = cudnn->desc_new(DEVICE, &desc) == 0 &&
                      cudnn->desc_set(desc, DEVICE_JSON, IS_CHAR, n, text) == 0 && cudnn->desc_done(desc) == 0;
    return good ? desc : NULL;
}

/* As a model has them: heads of one position are adjacent; gradients of keys and values heads apart. */
static DtPlanSdpa record_of(const Shape *shape, bool backward)
{
    DtPlanSdpa s = {.dtype = shape->dtype,
                    .backward = backward,
                    .causal = shape->causal,
                    .batch = shape->batch,
                    .heads = shape->heads,
                    .kv_heads = shape->kv_heads,
                    .queries = shape->queries,
                    .keys = shape->keys,
                    .head = shape->head,
                    .window = shape->window,
                    .scale = 0.125};
    const int64_t rows = (shape->queries + 63) / 64 * 64, columns = (shape->keys + 127) / 128 * 128,
                  each = shape->heads > shape->kv_heads ? 2 * shape->keys * shape->head : 0;
    s.workspace = 4096 + (backward ? (uint64_t)(2 * shape->batch * shape->heads * (rows * columns + each)) : 0);
    for (uint32_t p = 0; p < DT_SDPA_PARTS; p++) {
        const bool kv = p == DT_SDPA_K || p == DT_SDPA_V, slopes = p == DT_SDPA_DK || p == DT_SDPA_DV;
        const int64_t heads = kv || slopes ? shape->kv_heads : shape->heads,
                      n = kv || slopes ? shape->keys : shape->queries;
        s.pointer[p] = (int32_t)p;
        s.of_row[p] = slopes ? shape->head : heads * shape->head;
        s.of_head[p] = slopes ? n * shape->head : shape->head;
        s.of_batch[p] = heads * n * shape->head;
    }
    return s;
}

Test(attend_plan, the_library_knows_the_graphs)
{
    DtArena *arena = dt_arena_new();
    DtCudnn cudnn;
    if (!open_library(arena, &cudnn)) {
        dt_arena_free(arena);
        cr_skip("there is no libcudnn.so.9 of version 9.16 or later");
        return;
    }
    for (size_t d = 0; d < DT_COUNT(devices); d++) {
        const DtCudnnDevice device = {.properties = properties_of(&cudnn, &devices[d])};
        cr_assert(device.properties != NULL);
        for (size_t i = 0; i < 2 * DT_COUNT(shapes); i++) {
            const DtPlanSdpa record = record_of(&shapes[i / 2], i % 2);
            DtCudnnDescs descs = {.cudnn = &cudnn, .arena = arena};
            DtSdpaGraph graph;
            const char *why = "";
            cr_expect(dt_sdpa_graph(&descs, &device, &record, &graph, &why), "%s, shape %zu, %s: %s", devices[d].name,
                      i / 2, i % 2 ? "backward" : "forward", why);
            cr_expect(graph.workspace <= record.workspace);
            dt_cudnn_descs_free(&descs);
        }
        cudnn.desc_free(device.properties);
    }
    dt_arena_free(arena);
}
