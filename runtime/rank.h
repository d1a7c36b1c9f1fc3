/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's position in the mesh. */
#ifndef DT_RUNTIME_RANK_H
#define DT_RUNTIME_RANK_H

#include "runtime/runtime.h"

/* Row-major over the mesh, the first axis slowest. */
void dt_rank_coordinates(const DtPlan *plan, uint32_t rank, int64_t ret_coord[16]);

/* The stage of a rank; 0 without a pipeline. */
uint32_t dt_rank_stage(const DtPlan *plan, uint32_t rank);

/* The rank of that stage whose other coordinates are this rank's. */
uint32_t dt_rank_at_stage(const DtRank *rank, uint32_t stage);

/* The ranks of a group record (mask and stages) of which the rank at coord is one, in rank order. If its stage
 * is not in the group: those it would belong to, me being no member number. */
DtRankGroup dt_rank_group(const DtPlan *plan, DtArena *memory, const int64_t coord[16],
                          const DtPlanGroup *record);

/* Logical index of the first element of axis on the rank with these coordinates; elements from axis->extent on
 * are padding. */
int64_t dt_rank_axis_start(const DtPlan *plan, const int64_t coord[16], const DtPlanAxis *axis);

#endif
