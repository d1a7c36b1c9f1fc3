/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/windows.h"

static bool may_have(const DtPlan *plan, uint32_t group)
{
    const uint32_t mask = plan->groups[group].mask;
    return plan->groups[group].size > 1 &&
           (dt_plan_stages(plan) == 1 || !(mask >> (plan->meta->pipeline - 1) & 1));
}

static bool is_of(const DtPlanInst *inst, uint32_t group)
{
    return inst->kind >= DT_INST_ALL_REDUCE && inst->kind <= DT_INST_SHIFT_BACK &&
           inst->ref == group;
}

/* Whether the argument has the same offset on all members of the group: they run the same
 * instructions with the same registers, and differ in coordinates of the mesh axes in mask only. */
static bool is_equal(const DtPlanArg *arg, uint32_t mask)
{
    for (int c = 0; c < DT_PLAN_COORDS; c++)
        if (arg->coord[c] != 0 && mask >> arg->coord_axis[c] & 1)
            return false;
    return true;
}

DtWindow dt_windows_of(const DtPlan *plan, uint32_t group, uint32_t arena)
{
    DtWindow window = DT_WINDOW_NONE;
    for (uint32_t i = 0; may_have(plan, group) && i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        for (uint32_t a = 0; is_of(inst, group) && a < inst->n_args; a++) {
            const DtPlanArg *arg = &plan->args[inst->first_arg + a];
            if (arg->kind != DT_ARG_ADDRESS || arg->arena != arena)
                continue;
            if (!is_equal(arg, plan->groups[group].mask))
                return DT_WINDOW_ANY;
            window = DT_WINDOW_EQUAL;
        }
    }
    return window;
}

bool dt_windows_touch(const DtPlan *plan, uint32_t arena)
{
    for (uint32_t g = 0; g < plan->n_groups; g++)
        if (dt_windows_of(plan, g, arena) != DT_WINDOW_NONE)
            return true;
    return false;
}

bool dt_windows_pack(const DtPlan *plan, uint32_t group)
{
    for (uint32_t i = 0; may_have(plan, group) && i < plan->n_insts; i++)
        if (is_of(&plan->insts[i], group) && plan->insts[i].blocks)
            return true;
    return false;
}

bool dt_windows_gather_beside(const DtPlan *plan, uint32_t group)
{
    for (uint32_t i = 0; may_have(plan, group) && i < plan->n_insts; i++)
        if (is_of(&plan->insts[i], group) && plan->insts[i].kind == DT_INST_ALL_GATHER &&
            plan->insts[i].event)
            return true;
    return false;
}
