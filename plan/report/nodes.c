/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes come in the order of ranks, those of the first kind first. So the stages of a pipeline over
 * the first mesh axis are consecutive nodes, and each is of one kind where their numbers divide so;
 * a stage with ranks of several kinds is as slow as the slowest, and has as much memory as the
 * smallest. */
#include "plan/report/nodes.h"

uint32_t dt_nodes_of(const DtPlan *plan, const DtCostModel *model, uint32_t stage)
{
    const int64_t ranks = plan->meta->n_ranks, stages = dt_plan_stages(plan);
    int64_t stride = ranks; /* so many ranks of a stage are adjacent */
    uint32_t kinds = 0;
    if (!model->n_kinds)
        return 1;
    for (uint32_t m = 0; plan->meta->pipeline && m < plan->meta->pipeline; m++)
        stride /= plan->mesh[m].size;
    for (int64_t first = stage * stride; first < ranks; first += stride * stages)
        kinds |= dt_cost_kinds_of(model, first, stride);
    return kinds;
}

const DtDevice *dt_nodes_smallest(const DtPlan *plan, const DtCostModel *model, uint32_t stage)
{
    const uint32_t kinds = dt_nodes_of(plan, model, stage);
    const DtDevice *least = NULL;
    for (uint32_t k = 0; k < dt_cost_kinds(model); k++) {
        const DtDevice *device = dt_cost_on(model, k).device;
        if (kinds >> k & 1 && (!least || device->memory_bytes < least->memory_bytes))
            least = device;
    }
    return least;
}

const DtDevice *dt_nodes_worst(const DtPlan *plan, const DtCostModel *model, bool is_gpu,
                               DtMemory *ret_memory)
{
    const DtDevice *worst = dt_nodes_smallest(plan, model, 0);
    dt_memory_worst(plan, is_gpu, ret_memory);
    if (!model->n_kinds || !(worst->memory_bytes > 0))
        return dt_nodes_smallest(plan, model, ret_memory->stage);
    dt_memory_stage(plan, 0, is_gpu, ret_memory);
    for (uint32_t s = 1; s < dt_plan_stages(plan); s++) {
        const DtDevice *device = dt_nodes_smallest(plan, model, s);
        DtMemory other;
        dt_memory_stage(plan, s, is_gpu, &other);
        if ((double)other.reserved / device->memory_bytes >
            (double)ret_memory->reserved / worst->memory_bytes) {
            *ret_memory = other;
            worst = device;
        }
    }
    return worst;
}

int64_t dt_nodes_ranks(const DtPlan *plan, const DtCostModel *model, uint32_t kind)
{
    int64_t left = plan->meta->n_ranks;
    for (uint32_t k = 0; k < model->n_kinds; k++) {
        const int64_t ranks = model->kinds[k].n * model->ranks_per_node;
        const int64_t some = k + 1 < model->n_kinds && ranks < left ? ranks : left;
        if (k == kind)
            return some;
        left -= some;
    }
    return left;
}

const char *dt_nodes_say(DtArena *arena, const DtPlan *plan, const DtCostModel *model)
{
    const char *text = "";
    for (uint32_t k = 0; k < dt_cost_kinds(model); k++)
        text = dt_arena_printf(arena, "%s%s%lld %s", text, k ? " and " : "",
                               (long long)dt_nodes_ranks(plan, model, k),
                               dt_cost_on(model, k).device->name);
    return text;
}

const char *dt_nodes_say_stage(DtArena *arena, const DtPlan *plan, const DtCostModel *model,
                               uint32_t stage)
{
    const uint32_t kinds = dt_nodes_of(plan, model, stage);
    const char *text = "";
    for (uint32_t k = 0; k < dt_cost_kinds(model); k++)
        if (kinds >> k & 1)
            text = dt_arena_printf(arena, "%s%s%s", text, *text ? " and " : "",
                                   dt_cost_on(model, k).device->name);
    return text;
}
