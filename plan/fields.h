/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's records described as data: for every record type its section, size and fields, from
 * fields.def. The writer renumbers strings and blobs by it, the checker does the part of its work
 * that needs no knowledge of meaning, the text form is printed and read by it, and the tests
 * mutate by it. */
#ifndef DT_PLAN_FIELDS_H
#define DT_PLAN_FIELDS_H

#include "base/text.h"
#include "plan/plan.h"

#include <stdbool.h>

typedef enum DtPlanFieldKind {
    DT_FIELD_U8,
    DT_FIELD_U16,
    DT_FIELD_U32,
    DT_FIELD_I32,
    DT_FIELD_U64,
    DT_FIELD_I64,
    DT_FIELD_F64,  /* finite */
    DT_FIELD_STR,  /* DtPlanStr */
    DT_FIELD_ENUM, /* u32 with names */
    DT_FIELD_ENUM16,
    DT_FIELD_ENUM8,
    DT_FIELD_HEX,      /* u64 that is a hash */
    DT_FIELD_BLOB,     /* u64: offset in BLOB; the next field is its length */
    DT_FIELD_BLOB_LEN, /* u64 */
    DT_FIELD_RESERVED, /* u32 or i64 (by size), zero */
} DtPlanFieldKind;

typedef struct DtPlanField {
    const char *name;
    DtPlanFieldKind kind;
    uint32_t offset, size, count; /* size: that of one of count elements */
    const char *const *names;     /* names of an enumeration */
    uint32_t n_names;
} DtPlanField;

typedef struct DtPlanRecord {
    const char *tag, *name; /* for example "INST", "insts" */
    uint32_t size, n_fields;
    const DtPlanField *fields;
    size_t at, n; /* offsets in DtPlan of the section's pointer and count */
} DtPlanRecord;

enum {
#define DT_PLAN_FIELD(tag, field, type) DT_RECORD_##field,
    DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD
        DT_RECORDS
};
extern const DtPlanRecord dt_fields_records[DT_RECORDS]; /* in the order of DT_PLAN_SECTIONS */

/* The section with this tag (4 characters); NULL: there is none. */
const DtPlanRecord *dt_fields_find(const char *tag);

/* The array and count of a section in a plan. */
const void *dt_fields_at(const DtPlan *plan, const DtPlanRecord *record);
uint32_t dt_fields_count(const DtPlan *plan, const DtPlanRecord *record);

/* Element number index of a field, as an integer. The field must not be a double. */
uint64_t dt_fields_get(const DtPlanField *field, const void *record, uint32_t index);
void dt_fields_set(const DtPlanField *field, void *record, uint32_t index, uint64_t value);

/* plantext.c: appends the value of the field with this name as `dtc dump` prints it, even if it is
 * zero; all elements of an array, separated by commas. False: the record has no such field. */
bool dt_plantext_value(const DtPlan *plan, const DtPlanRecord *record, const void *at,
                       const char *name, size_t len, DtText *ret_text);

#endif
