/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/forms.h"

#include <string.h>

const DtPlanInst *dt_forms_of(const DtPlan *plan, uint32_t gemm)
{
    for (uint32_t i = 0; i < plan->n_insts; i++)
        if (plan->insts[i].instead && plan->insts[i].ref == gemm)
            return &plan->insts[i];
    return NULL;
}

/* Returns the bytes of arena INSTEAD that the body uses. */
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
    return -1; /* not reached: the plan's checker requires one */
}

/* Sets the form of all products that have two: the second one for all, or the first. */
static void set_all(DtRank *rank, bool second)
{
    for (uint32_t i = 0; i < rank->plan->n_insts; i++)
        if (rank->plan->insts[i].instead)
            rank->second[rank->plan->insts[i].ref] = second;
}

void dt_forms_open(DtRank *rank)
{
    rank->second = DT_NEW_ARRAY(rank->memory, bool, rank->plan->n_gemms + 1);
    set_all(rank, rank->options->epilogues == DT_EPILOGUES_APART);
}

/* ---- checkpoints ---- */

const char *const dt_forms_names[] = {
    [DT_EPILOGUES_TIMED] = "timed", [DT_EPILOGUES_FUSED] = "all", [DT_EPILOGUES_APART] = "none"};

DtEpilogueWish dt_forms_wish(const char *name)
{
    DtEpilogueWish wish = DT_EPILOGUES_APART;
    while (wish > DT_EPILOGUES_TIMED && strcmp(dt_forms_names[wish], name) != 0)
        wish--;
    return wish;
}

DtEpilogueWish dt_forms_kept(const DtRank *rank)
{
    for (uint32_t i = 0; i < rank->plan->n_insts && !rank->device_ops->choose; i++)
        if (rank->plan->insts[i].instead)
            return rank->second[rank->plan->insts[i].ref] ? DT_EPILOGUES_APART : DT_EPILOGUES_FUSED;
    return DT_EPILOGUES_TIMED;
}

bool dt_forms_resume(DtRank *rank, DtEpilogueWish saved)
{
    if (saved == DT_EPILOGUES_TIMED || dt_forms_kept(rank) == DT_EPILOGUES_TIMED)
        return false;
    const DtEpilogueWish wish = rank->options->epilogues,
                         form = wish == DT_EPILOGUES_TIMED ? DT_EPILOGUES_FUSED : wish;
    if (rank->rank == 0 && rank->options->epilogues_given && form != saved)
        fprintf(stderr,
                "dtrun: note: the run goes on with --epilogues %s, which its checkpoint was "
                "trained with, and not %s\n",
                dt_forms_names[saved], dt_forms_names[wish]);
    set_all(rank, saved == DT_EPILOGUES_APART);
    return saved == DT_EPILOGUES_APART;
}
