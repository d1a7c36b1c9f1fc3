/* SPDX-License-Identifier: Apache-2.0 */
/* Reads plan files; every number is bounded before it is used. */
#ifndef DT_PLAN_READ_H
#define DT_PLAN_READ_H

#include "base/file.h"
#include "base/text.h"
#include "plan/plan.h"

typedef struct DtPlanFile {
    DtFileView view;
    DtPlan plan;
} DtPlanFile;

/* Maps the file at path, and checks header, digest, sections and every record (dt_check_plan). */
DtStatus dt_read_file(const char *path, DtPlanFile *ret_file);
void dt_read_close(DtPlanFile *file);
DtStatus dt_read_bytes(const uint8_t *bytes, size_t len, DtPlan *ret_plan);

/* Bounds every index, string, address (over all values of its registers and coordinates), nesting
 * of the schedule and size; so that the runtime needs no further checks. */
DtStatus dt_check_plan(const DtPlan *plan);

/* Canonical text (`dtc dump`) and back (`dtc asm`): identical bytes. */
void dt_plantext_dump(const DtPlan *plan, DtText *ret_text);
DtStatus dt_plantext_read(DtArena *arena, const char *text, size_t len, uint8_t **ret_bytes,
                          size_t *ret_len);

#endif
