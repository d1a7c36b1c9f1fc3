/* SPDX-License-Identifier: Apache-2.0 */
/* Writing, reading and checking plan files, and their text form. */
#ifndef DT_PLAN_WRITE_H
#define DT_PLAN_WRITE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/plan.h"

/* A plan under construction. Fill the vectors, then dt_write_file. Strings are interned per
 * plan. */
typedef struct DtPlanBuilder {
    DtArena *arena;
#define DT_PLAN_FIELD(tag, field, type) DT_VEC(type) field;
    DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD
    DT_VEC(char) strings;
    DT_VEC(uint8_t) blob;
} DtPlanBuilder;

DtPlanBuilder *dt_write_new(DtArena *arena);
/* equal texts get the same offset */
DtPlanStr dt_write_str(DtPlanBuilder *builder, const char *text);
/* returns an offset in BLOB, a multiple of 64 bytes */
uint64_t dt_write_blob(DtPlanBuilder *builder, const void *bytes, uint64_t len);

/* The bytes of the file; they depend on the records alone. */
void dt_write_bytes(DtPlanBuilder *builder, uint8_t **ret_bytes, size_t *ret_len);
DtStatus dt_write_file(DtPlanBuilder *builder, const char *path); /* Writes the file atomically. */

#endif
