/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/forms.h"

const DtPlanInst *dt_forms_of(const DtPlan *plan, uint32_t gemm)
{
    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (plan->insts[i].instead && plan->insts[i].ref == gemm)
            return &plan->insts[i];
    return NULL;
}

/* Bytes of arena INSTEAD that the body uses. */
static uint64_t bytes_of(const DtPlan *plan, const DtPlanBody *body)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < body->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[body->first_inst + i];
        for (uint32_t a = 0; a < inst->n_args; a++) {
            const DtPlanArg *arg = &plan->args[inst->first_arg + a];
            const uint64_t end = (uint64_t)(arg->base + arg->bytes);
            if (arg->kind == DT_ARG_ADDRESS && plan->arenas[arg->arena].kind == DT_ARENA_INSTEAD &&
                end > most)
                most = end;
        }
    }
    return most;
}

uint64_t dt_forms_bytes(const DtPlan *plan, uint32_t gemm)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        if (!inst->instead || inst->ref != gemm)
            continue;
        const uint64_t bytes = bytes_of(plan, &plan->bodies[inst->instead - 1]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int dt_forms_operand(const DtPlan *plan, const DtPlanInst *product, const DtPlanArg *arg)
{
    if (plan->arenas[arg->arena].kind == DT_ARENA_INSTEAD)
        return -1;
    for (uint32_t i = 0; i < product->n_args; i++) {
        DtPlanArg other = plan->args[product->first_arg + i];
        other.written = arg->written;
        if (memcmp(&other, arg, sizeof other) == 0)
            return (int)i;
    }
    return -1; /* the plan's checker has seen that it is one */
}

void dt_forms_open(DtRank *rank)
{
    rank->second = DT_NEW_ARRAY(rank->memory, bool, rank->plan->n_gemms + 1);
    for (uint32_t i = 0; i < rank->plan->n_insts && rank->options->epilogues == DT_EPILOGUES_APART;
         i++)
        if (rank->plan->insts[i].instead)
            rank->second[rank->plan->insts[i].ref] = true;
}
