/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's position in the mesh. */
#ifndef DT_RUNTIME_RANK_H
#define DT_RUNTIME_RANK_H

#include "runtime/runtime.h"

/* Row-major over the mesh, the first axis slowest. */
void dt_rank_coordinates(const DtPlan *plan, uint32_t rank, int64_t ret_coord[16]);

/* The ranks that differ from coord only in the mesh axes of mask, in rank order. */
DtRankGroup dt_rank_group(const DtPlan *plan, DtArena *memory, const int64_t coord[16],
                          uint32_t mask);

/* Logical index of this rank's first element of axis; elements from axis->extent on are padding. */
int64_t dt_rank_axis_start(const DtRank *rank, const DtPlanAxis *axis);

#endif
