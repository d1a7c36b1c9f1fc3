/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters with several kinds of nodes: the devices of the ranks of a stage (nodes.c). If all
 * nodes are equal, the one device is kind 0. */
#ifndef DT_REPORT_NODES_H
#define DT_REPORT_NODES_H

#include "base/arena.h"
#include "cost/cost.h"
#include "plan/report/memory.h"

/* The kinds of nodes that have ranks of the stage, as a bit set. */
uint32_t dt_nodes_of(const DtPlan *plan, const DtCostModel *model, uint32_t stage);

/* The device with the least memory among those of the stage. */
const DtDevice *dt_nodes_smallest(const DtPlan *plan, const DtCostModel *model, uint32_t stage);

/* The stage that needs the largest fraction of its device's memory for training, the first one
 * of equals; returns its device. */
const DtDevice *dt_nodes_worst(const DtPlan *plan, const DtCostModel *model, bool is_gpu,
                               DtMemory *ret_memory);

/* "96 h100-sxm"; of several kinds "32 h100-sxm and 64 a100-80g". Of a stage: "h100-sxm". In the
 * arena. */
const char *dt_nodes_say(DtArena *arena, const DtPlan *plan, const DtCostModel *model);
const char *dt_nodes_say_stage(DtArena *arena, const DtPlan *plan, const DtCostModel *model,
                               uint32_t stage);

/* The number of ranks of the plan on nodes of that kind. */
int64_t dt_nodes_ranks(const DtPlan *plan, const DtCostModel *model, uint32_t kind);

#endif
