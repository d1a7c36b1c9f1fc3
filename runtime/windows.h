/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which memory of a rank the collectives of a group access, and where. It uses the plan
 * alone, so all ranks get the same result. NCCL registers that memory as a window
 * (nccl_windows.c). */
#ifndef DT_RUNTIME_WINDOWS_H
#define DT_RUNTIME_WINDOWS_H

#include "plan/plan.h"

#include <stdbool.h>

typedef enum DtWindow {
    DT_WINDOW_NONE,
    DT_WINDOW_EQUAL, /* each collective accesses the same offsets on all members */
    DT_WINDOW_ANY
} DtWindow;

/* How collectives of the group touch the arena. Members of a group over several stages run other
 * instructions, and their arenas have other sizes, so such a group has no windows. */
DtWindow dt_windows_of(const DtPlan *plan, uint32_t group, uint32_t arena);
/* Whether any group has a window of the arena. */
bool dt_windows_touch(const DtPlan *plan, uint32_t arena);
/* Whether the group may have windows, and exchanges strided blocks, which are packed into
 * contiguous memory (comm_nccl.c). */
bool dt_windows_pack(const DtPlan *plan, uint32_t group);
/* Whether the group may have windows, and gathers something while later instructions run. */
bool dt_windows_gather_beside(const DtPlan *plan, uint32_t group);

#endif
