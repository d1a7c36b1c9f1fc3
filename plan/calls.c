/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of kernels on which two builds of their machine code are compared (base/hostrun.c):
 * address ranges and integers as instructions pass them, for the first rank in the first iteration,
 * and for the last rank in the second. */
#include "plan/calls.h"

#include <string.h>

/* calls of a kernel; instructions that are examined for another one */
enum { WAYS = 2, LOOKED_AT = 64 };

static int64_t integer_of(const DtPlan *plan, const DtPlanArg *arg, int set)
{
    int64_t value = arg->base;
    if (arg->kind == DT_ARG_STEP)
        return set ? 1000 : 1;
    for (int c = 0; set && c < DT_PLAN_COORDS; c++)
        if (arg->coord[c] != 0 && arg->coord_axis[c] < plan->n_mesh)
            value += arg->coord[c] * ((int64_t)plan->mesh[arg->coord_axis[c]].size - 1);
    for (int r = 0; set && r < DT_PLAN_ARG_REGS; r++)
        value += arg->reg[r];
    return value;
}

static DtHostCall call_of(DtArena *arena, const DtPlan *plan, const DtPlanInst *inst)
{
    const DtPlanKernel *kernel = &plan->kernels[inst->ref];
    const DtPlanArg *args = &plan->args[inst->first_arg];
    DtHostRange *ranges = DT_NEW_ARRAY(arena, DtHostRange, kernel->n_pointers + 1);
    DtHostCall call = {.unit = kernel->code,
                       .symbol = dt_plan_str(plan, kernel->symbol),
                       .n_pointers = kernel->n_pointers,
                       .n_integers = kernel->n_integers,
                       .pointers = ranges};
    for (uint32_t i = 0; i < kernel->n_pointers; i++)
        ranges[i] = (DtHostRange){args[i].arena, args[i].written != 0, args[i].base, args[i].bytes};
    for (int set = 0; set < DT_HOST_SETS; set++) {
        int64_t *integers = DT_NEW_ARRAY(arena, int64_t, kernel->n_integers + 1);
        for (uint32_t i = 0; i < kernel->n_integers; i++)
            integers[i] = integer_of(plan, &args[kernel->n_pointers + i], set);
        call.integers[set] = integers;
    }
    return call;
}

/* Whether the arguments of the instruction overlap as those of the call do: the same pairs, at the
 * same distances. */
static bool same_way(const DtPlan *plan, const DtHostCall *call, const DtPlanInst *inst)
{
    const DtPlanArg *args = &plan->args[inst->first_arg];
    for (uint32_t i = 0; i < call->n_pointers; i++)
        for (uint32_t k = 0; k < i; k++) {
            const DtHostRange *a = &call->pointers[i], *b = &call->pointers[k];
            const bool old =
                a->arena == b->arena && a->at < b->at + b->bytes && b->at < a->at + a->bytes;
            const bool now = args[i].arena == args[k].arena &&
                             args[i].base < args[k].base + args[k].bytes &&
                             args[k].base < args[i].base + args[i].bytes;
            if (old != now || (old && a->at - b->at != args[i].base - args[k].base))
                return false;
        }
    return true;
}

void dt_calls_find(DtArena *arena, const DtPlan *plan, DtHostCall **ret_calls, uint32_t *ret_n)
{
    DT_VEC(DtHostCall) calls = {0};
    typedef struct Seen { uint32_t first, ways, n; } Seen;
    Seen *seen = DT_NEW_ARRAY(arena, Seen, plan->n_kernels + 1);
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        Seen *of = inst->kind == DT_INST_KERNEL ? &seen[inst->ref] : NULL;
        if (!of || of->ways == WAYS || of->n >= LOOKED_AT)
            continue;
        of->n++;
        if (of->ways && same_way(plan, &calls.at[of->first], inst))
            continue;
        if (!of->ways)
            of->first = calls.n;
        of->ways++;
        DT_PUSH(arena, calls, call_of(arena, plan, inst));
    }
    *ret_calls = calls.at;
    *ret_n = calls.n;
}
