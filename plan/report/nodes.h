/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of several kinds of nodes: which devices the ranks of a stage are (nodes.c). Where all nodes are alike, the
 * one device is kind 0. */
#ifndef DT_REPORT_NODES_H
#define DT_REPORT_NODES_H

#include "base/arena.h"
#include "cost/cost.h"
#include "plan/report/memory.h"

/* Kinds of the nodes that ranks of the stage are on, a set of bits. */
uint32_t dt_nodes_of(const DtPlan *plan, const DtCostModel *model, uint32_t stage);

/* The device with least memory of those of the stage. */
const DtDevice *dt_nodes_smallest(const DtPlan *plan, const DtCostModel *model, uint32_t stage);

/* The stage that needs the largest part of its device's memory to train, the first of equal ones; its device. */
const DtDevice *dt_nodes_worst(const DtPlan *plan, const DtCostModel *model, bool is_gpu, DtMemory *ret_memory);

/* "96 h100-sxm"; of several kinds "32 h100-sxm and 64 a100-80g". Of a stage: "h100-sxm". In the arena. */
const char *dt_nodes_say(DtArena *arena, const DtPlan *plan, const DtCostModel *model);
const char *dt_nodes_say_stage(DtArena *arena, const DtPlan *plan, const DtCostModel *model, uint32_t stage);

/* Ranks of the plan on nodes of that kind. */
int64_t dt_nodes_ranks(const DtPlan *plan, const DtCostModel *model, uint32_t kind);

#endif
