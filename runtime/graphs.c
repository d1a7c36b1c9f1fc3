/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graphs.h"

#include "runtime/readback.h"

#include <string.h>

DtStatus dt_graphs_check(const DtRunOptions *options, const DtDeviceOps *device)
{
    const struct {
        bool is_set;
        const char *name;
    } others[] = {{options->profile, "profile"}, {options->trace != NULL, "trace"},
                  {options->sync, "sync"}, {options->record != NULL, "record"},
                  {options->compare != NULL, "compare"}};
    if (!options->graph)
        return DT_OK;
    for (size_t i = 0; i < DT_COUNT(others); i++)
        if (others[i].is_set)
            return dt_status_fail(
                DT_EXIT_USAGE,
                "--graph and --%s exclude each other: one begins many instructions at "
                "once, the other looks at each",
                others[i].name);
    return device->capture
               ? DT_OK
               : dt_status_fail(DT_EXIT_USAGE,
                                "--graph is for GPUs, and this plan runs on device `%s`",
                                device->name);
}

DtGraphsWay dt_graphs_way(DtGraphs *graphs)
{
    if (!graphs)
        return DT_GRAPHS_PLAIN;
    const int64_t run = graphs->runs++;
    return run == 0 ? DT_GRAPHS_PLAIN : run == 1 ? DT_GRAPHS_CAPTURE : DT_GRAPHS_REPLAY;
}

static bool is_work(const DtPlanInst *inst)
{
    return inst->kind == DT_INST_KERNEL || inst->kind == DT_INST_GEMM ||
           inst->kind == DT_INST_COPY || inst->kind == DT_INST_ZERO;
}

bool dt_graphs_close(DtRank *rank, DtGraphs *graphs)
{
    DtGraphItem item = {.is_graph = true, .inst = graphs->first};
    if (!graphs->is_open)
        return true;
    graphs->is_open = false;
    if (!rank->device_ops->captured(rank->device, &item.graph))
        return false;
    DT_PUSH(rank->memory, graphs->items, item);
    graphs->n_graphs++;
    return rank->device_ops->replay(rank->device, item.graph);
}

static bool open(DtRank *rank, DtGraphs *graphs, uint32_t inst)
{
    if (graphs->is_open)
        return true;
    graphs->is_open = rank->device_ops->capture(rank->device);
    graphs->first = inst;
    return graphs->is_open;
}

bool dt_graphs_takes(DtRank *rank, DtGraphs *graphs, uint32_t inst, const int64_t *reg, bool is_due,
                     bool *ret_good)
{
    const DtPlanInst *of = &rank->plan->insts[inst];
    *ret_good = true;
    if (is_work(of)) {
        *ret_good = !is_due || open(rank, graphs, inst);
        graphs->n_inside += is_due;
        return true;
    }
    DtGraphItem item = {.inst = inst};
    memcpy(item.reg, reg, sizeof item.reg);
    *ret_good = dt_graphs_close(rank, graphs);
    DT_PUSH(rank->memory, graphs->items, item);
    graphs->n_outside++;
    return false;
}

bool dt_graphs_note(DtRank *rank, DtGraphs *graphs, uint32_t inst)
{
    const DtGraphItem item = {.is_note = true, .inst = inst};
    if (!dt_graphs_close(rank, graphs))
        return false;
    DT_PUSH(rank->memory, graphs->items, item);
    dt_readback_note(rank, inst);
    return true;
}

void dt_graphs_say(DtRank *rank, DtText *ret_said)
{
    for (uint32_t e = 0; rank->graphs && e < rank->plan->n_entries; e++) {
        DtGraphs *g = &rank->graphs[e];
        if (g->runs < 2 || g->is_said)
            continue;
        g->is_said = true;
        const char *name = dt_plan_str(rank->plan, rank->plan->entries[e].name);
        dt_text_printf(ret_said, "%s: %u graph%s of %u instructions", name, g->n_graphs,
                       g->n_graphs == 1 ? "" : "s", g->n_inside);
        if (g->n_outside)
            dt_text_printf(ret_said, ", %u outside of them", g->n_outside);
        dt_text_add(ret_said, "\n");
    }
}
