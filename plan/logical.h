/* SPDX-License-Identifier: Apache-2.0 */
/* The logical section: the programs that a plan claims to compute, for the certificate.
 *
 * Four texts, each with a NUL after it, compressed together:
 *
 *   serial   the program with gradients and updates, as IR text, before it is distributed
 *   facts    its settings of training and data, as fields of records (below)
 *   placed   the program distributed over ranks
 *   final    the same with rings and the zigzag order expanded: the program that notes refer to
 *
 * Facts are lines in the text form of a plan: a tag and fields by name, zeros included, of the
 * record that must have these values: META once, SETT, SCAL, OBJE and SHOW in their order, READ in
 * the order of readers, each followed by its inputs INPT, and these by their AXISs. Fields that
 * depend on the layout are left out. */
#ifndef DT_PLAN_LOGICAL_H
#define DT_PLAN_LOGICAL_H

#include "plan/write.h"

#include <stdbool.h>

typedef struct DtLogicalTexts {
    const char *serial, *facts, *placed, *final;
} DtLogicalTexts;

/* Adds the section; notes may be empty. All kernels and their code must already be in the builder.
 * False: the texts exceed a gigabyte. */
bool dt_logical_write(DtPlanBuilder *builder, const DtLogicalTexts *texts, const DtText *notes);

/* False: the plan has no valid logical section. */
bool dt_logical_read(DtArena *arena, const DtPlan *plan, DtLogicalTexts *ret_texts);

/* A cryptographic digest of the kernels, which notes name by number and no certificate can
 * inspect: every kernel's symbol and arguments, the source and the machine code of every unit. */
void dt_logical_code(const DtPlan *plan, uint64_t ret_code[4]);

#endif
