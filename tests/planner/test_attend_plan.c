/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of attention, planned by cuDNN itself where it is installed, for devices that need not be
 * there (devices.h). So its engines are asked whether they know these graphs, and how much
 * workspace they need, which dtc says beforehand. Nothing is run. */
#include "devices.h"

#include <criterion/criterion.h>
#include <string.h>

/* Forward; backward with the gradients of all scores in the workspace; without them. */
typedef enum Wish { FORWARD, SCORES, LINEAR, WISHES } Wish;
enum { IN_ALL = 0xff };

typedef struct Shape {
    int64_t batch, heads, kv_heads, queries, keys, head, window;
    uint32_t causal, dtype, wishes; /* set for those that are tried, since a graph takes half a
                                     * second */
} Shape;
static const Shape shapes[] = {
    {4, 12, 12, 1024, 1024, 64, 0, 1, DT_PLAN_BF16, 1 << SCORES}, /* GPT-2 */
    {2, 8, 2, 333, 333, 96, 0, 1, DT_PLAN_F16, IN_ALL},     /* several heads share keys */
    {2, 4, 1, 512, 512, 128, 64, 1, DT_PLAN_F16, 1 << SCORES},
    {1, 2, 2, 7, 1000, 8, 0, 0, DT_PLAN_BF16, 1 << SCORES},
    /* Llama 3, whose gradients of scores need 4.3 GB */
    {1, 32, 8, 8192, 8192, 128, 0, 1, DT_PLAN_BF16, 1 << LINEAR},
};

/* Returns the workspace that dtc states beforehand (codegen/cuda/attend_library.c). */
static uint64_t workspace_of(const Shape *shape, Wish wish)
{
    const int64_t rows = (shape->queries + 63) / 64 * 64, columns = (shape->keys + 127) / 128 * 128,
                  each = shape->heads > shape->kv_heads ? 2 * shape->keys * shape->head : 0,
                  linear = 4 * shape->queries * shape->head + rows / 8 + 4 * each;
    return 4096 + (uint64_t)(shape->batch * shape->heads) *
                      (uint64_t)(wish == FORWARD  ? 0
                                 : wish == SCORES ? 2 * (rows * columns + each)
                                                  : linear);
}

/* Returns a record with strides as in a model: heads of one position are adjacent; in gradients of
 * keys and values, positions of one head are. */
static DtPlanSdpa record_of(const Shape *shape, Wish wish)
{
    DtPlanSdpa s = {.dtype = shape->dtype,
                    .backward = wish != FORWARD,
                    .causal = shape->causal,
                    .batch = shape->batch,
                    .heads = shape->heads,
                    .kv_heads = shape->kv_heads,
                    .queries = shape->queries,
                    .keys = shape->keys,
                    .head = shape->head,
                    .window = shape->window,
                    .scale = 0.125,
                    .workspace = workspace_of(shape, wish)};
    for (uint32_t p = 0; p < DT_SDPA_PARTS; p++) {
        const bool kv = p == DT_SDPA_K || p == DT_SDPA_V,
                   slopes = p == DT_SDPA_DK || p == DT_SDPA_DV;
        const int64_t heads = kv || slopes ? shape->kv_heads : shape->heads,
                      n = kv || slopes ? shape->keys : shape->queries;
        s.pointer[p] = (int32_t)p;
        s.of_row[p] = slopes ? shape->head : heads * shape->head;
        s.of_head[p] = slopes ? n * shape->head : shape->head;
        s.of_batch[p] = heads * n * shape->head;
    }
    return s;
}

/* Whether that version of cuDNN has an engine for this request. */
static bool has(const PlannerDevice *device, size_t version, const Shape *shape, Wish wish)
{
    const size_t from = wish == SCORES   ? device->in_order
                        : wish == LINEAR ? device->linear
                                         : PLANNER_OLDEST;
    const bool is_enough = workspace_of(shape, SCORES) <= workspace_of(shape, LINEAR);
    return (from && version >= from) ||
           (wish == LINEAR && is_enough && version >= device->in_order);
}

static void plan_one(const DtCudnn *cudnn, DtArena *arena, const PlannerDevice *of,
                     const DtCudnnDevice *device, const Shape *shape, Wish wish)
{
    const DtPlanSdpa record = record_of(shape, wish);
    DtCudnnDescs descs = {.cudnn = cudnn, .arena = arena};
    DtSdpaGraph graph;
    const char *why = "";
    const bool wanted = has(of, cudnn->version(), shape, wish),
               is = dt_sdpa_graph(&descs, device, &record, &graph, &why);
    cr_expect(is == wanted, "%s, shape %d, wish %d: %s", of->name, (int)(shape - shapes), (int)wish,
              why);
    cr_expect(!is || graph.workspace + graph.sums <= record.workspace);
    cr_expect(is || strstr(why, "it wants ") || strstr(why, "no known order"), "%s", why);
    dt_cudnn_descs_free(&descs);
}

Test(attend_plan, the_library_knows_the_graphs)
{
    DtArena *arena = dt_arena_new();
    DtCudnn cudnn;
    cr_assert(planner_open(arena, &cudnn));
    for (size_t d = 0; d < PLANNER_DEVICES; d++) {
        const DtCudnnDevice device = {.properties = planner_properties(&cudnn, &planner_devices[d]),
                                      .capability = planner_devices[d].capability};
        cr_assert(device.properties != NULL);
        for (size_t i = 0; i < WISHES * DT_COUNT(shapes); i++)
            if (shapes[i / WISHES].wishes >> i % WISHES & 1 &&
                (i % WISHES != LINEAR || planner_devices[d].linear))
                plan_one(&cudnn, arena, &planner_devices[d], &device, &shapes[i / WISHES],
                         (Wish)(i % WISHES));
        cudnn.desc_free(device.properties);
    }
    dt_arena_free(arena);
}

/* Exit status 77 without libcudnn.so.9 of version 9.16 or later. main() does this because Criterion
 * does not report a case that it skips. */
int main(int argc, char **argv)
{
    DtArena *arena = dt_arena_new();
    DtCudnn cudnn;
    const bool is_here = planner_open(arena, &cudnn);
    dt_arena_free(arena);
    if (!is_here)
        return 77;
    struct criterion_test_set *tests = criterion_initialize();
    const int failed = criterion_handle_args(argc, argv, true) && !criterion_run_all_tests(tests);
    criterion_finalize(tests);
    return failed;
}
