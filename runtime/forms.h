/* SPDX-License-Identifier: Apache-2.0 */
/* Which form a product with an epilogue has in this run (plan.h, INST): either the library computes
 * the epilogue, or a kernel does. All instructions of a GEMM record have the same form. */
#ifndef DT_RUNTIME_FORMS_H
#define DT_RUNTIME_FORMS_H

#include "runtime/runtime.h"

/* The first instruction of the record that has a second form; NULL: it has one form. */
const DtPlanInst *dt_forms_of(const DtPlan *plan, uint32_t gemm);
/* Bytes of arena INSTEAD that second forms of instructions of the record touch. */
uint64_t dt_forms_bytes(const DtPlan *plan, uint32_t gemm);
/* Which argument of the product an argument of its second form is; -1: memory of arena INSTEAD. */
int dt_forms_operand(const DtPlan *plan, const DtPlanInst *product, const DtPlanArg *arg);
/* Called before the first entry: every product uses its first form, or with --epilogues=none its
 * second one, if it has one. */
void dt_forms_open(DtRank *rank);
/* The words of --epilogues. */
extern const char *const dt_forms_names[DT_EPILOGUES_APART + 1];
DtEpilogueWish dt_forms_wish(const char *name); /* Also returns DT_EPILOGUES_TIMED for an unknown
                                                 * name. */
/* For checkpoints of devices that do not choose a form for each product: the form of all that have
 * two. TIMED: none has two, or the device chooses. */
DtEpilogueWish dt_forms_kept(const DtRank *rank);
/* A run on such a device continues with the form of its checkpoint, whatever its options are.
 * Returns whether that is the second form, which needs arena INSTEAD (dt_load_instead). */
bool dt_forms_resume(DtRank *rank, DtEpilogueWish saved);
/* Whether the second form of the instruction is to run in its place. */
static inline bool dt_forms_is_second(const DtRank *rank, const DtPlanInst *inst)
{
    return inst->instead && rank->second[inst->ref];
}

#endif
