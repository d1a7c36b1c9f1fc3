/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: the second form of a product with an epilogue (plan.h, INST). Its instructions
 * access only the product's own arguments and values that they pass to each other in arena INSTEAD,
 * so no other instruction can tell which form ran. */
#include "plan/check_internal.h"

#include <stdio.h>

static bool is_instead(const DtPlan *plan, const DtPlanArg *arg)
{
    return plan->arenas[arg->arena].kind == DT_ARENA_INSTEAD;
}

/* Whether both arguments are the same bytes for all registers and coordinates. */
static bool is_same(const DtPlanArg *a, const DtPlanArg *b)
{
    return a->kind == b->kind && a->arena == b->arena && a->base == b->base &&
           a->bytes == b->bytes && memcmp(a->reg, b->reg, sizeof a->reg) == 0 &&
           memcmp(a->coord, b->coord, sizeof a->coord) == 0 &&
           memcmp(a->coord_axis, b->coord_axis, sizeof a->coord_axis) == 0;
}

/* Whether one of the instruction's arguments is equal to arg; written: only among those that it
 * writes. */
static bool has_arg(const DtPlan *plan, const DtPlanInst *inst, const DtPlanArg *arg, bool written)
{
    for (uint32_t i = 0; i < inst->n_args; i++) {
        const DtPlanArg *other = &plan->args[inst->first_arg + i];
        if ((other->written || !written) && is_same(other, arg))
            return true;
    }
    return false;
}

/* Whether instruction number `number` of a second form may access the argument: an address of
 * the product itself, or memory of arena INSTEAD that it writes or that an earlier instruction
 * wrote. */
static bool may_touch(const DtPlan *plan, const DtPlanInst *product, const DtPlanBody *body,
                      uint32_t number, const DtPlanArg *arg)
{
    if (arg->kind != DT_ARG_ADDRESS || (is_instead(plan, arg) && arg->written))
        return true;
    if (!is_instead(plan, arg))
        return has_arg(plan, product, arg, arg->written);
    bool found = false;
    for (uint32_t i = 0; !found && i < number; i++)
        found = has_arg(plan, &plan->insts[body->first_inst + i], arg, true);
    return found;
}

/* Whether the instruction is a kernel, or a product without an epilogue, and has no guards. */
static bool is_plain(const DtPlan *plan, const DtPlanInst *inst)
{
    const bool is_product =
        inst->kind == DT_INST_GEMM && inst->ref < plan->n_gemms && !plan->gemms[inst->ref].epilogue;
    return (inst->kind == DT_INST_KERNEL || is_product) && !inst->instead && !inst->guards;
}

bool dt_check_instead(const DtPlan *plan, const DtPlanInst *product, char ret_why[DT_CHECK_WHY])
{
    if (product->kind != DT_INST_GEMM || product->guards || !plan->gemms[product->ref].epilogue) {
        snprintf(ret_why, DT_CHECK_WHY,
                 "has a second form, and is no product with an epilogue that always runs");
        return false;
    }
    if (product->instead > plan->n_bodies || plan->bodies[product->instead - 1].n_insts == 0) {
        snprintf(ret_why, DT_CHECK_WHY, "its second form is body %u of %u", product->instead - 1,
                 plan->n_bodies);
        return false;
    }
    const DtPlanBody *body = &plan->bodies[product->instead - 1];
    for (uint32_t i = 0; i < body->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[body->first_inst + i];
        bool good = is_plain(plan, inst);
        for (uint32_t a = 0; good && a < inst->n_args; a++)
            good = may_touch(plan, product, body, i, &plan->args[inst->first_arg + a]);
        if (!good) {
            snprintf(ret_why, DT_CHECK_WHY,
                     "instruction %u of its second form is no kernel or product of its own "
                     "arguments",
                     body->first_inst + i);
            return false;
        }
    }
    return true;
}
