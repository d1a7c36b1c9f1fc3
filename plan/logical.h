/* SPDX-License-Identifier: Apache-2.0 */
/* The logical section: what a plan says it does, for the certificate.
 *
 * Four texts, each with a NUL behind it, compressed as one:
 *
 *   serial   the program with gradients and updates, as IR text, before anything is spread
 *   facts    what it says of training and data, in records' words (below)
 *   placed   the program as ranks have it
 *   final    the same where rings and the zigzag order are written out: what notes speak of
 *
 * Facts are lines in the form of a plan's text: a tag and fields by name, zeros too, of the record
 * that they are to equal: META once, SETT, SCAL, OBJE and SHOW in their order, READ in the order of
 * readers, each with its inputs INPT behind it, these with their AXISs. Fields that a layout
 * decides are not among them. */
#ifndef DT_PLAN_LOGICAL_H
#define DT_PLAN_LOGICAL_H

#include "plan/write.h"

#include <stdbool.h>

typedef struct DtLogicalTexts {
    const char *serial, *facts, *placed, *final;
} DtLogicalTexts;

/* Adds the section; notes may be empty. All kernels and their code are in the builder. False: the texts have more
 * than a gigabyte. */
bool dt_logical_write(DtPlanBuilder *builder, const DtLogicalTexts *texts, const DtText *notes);

/* False: the plan has no such section, or not these texts. */
bool dt_logical_read(DtArena *arena, const DtPlan *plan, DtLogicalTexts *ret_texts);

/* A cryptographic digest of what notes name by number, and no certificate can look into: every kernel's symbol and how
 * it is called, the source and the machine code of every unit. */
void dt_logical_code(const DtPlan *plan, uint64_t ret_code[4]);

#endif
