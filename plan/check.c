/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: whatever a plan file holds, after dt_check_plan said yes every index, string,
 * address and size in it is within bounds, so that the runtime and the reports use it without
 * further checks.
 *
 * First the checks that follow from the field tables: strings end inside STRS and are UTF-8,
 * enumerations have a name, blobs lie in BLOB, reserved fields are zero, doubles are finite. Then
 * records by themselves (check_record.c); then the program (check_run.c).
 *
 * Free by design, since no memory or loop depends on them: names and texts, digests and keys,
 * predicted costs, queue numbers, seeds, schedule constants of the optimizer. */
#include "plan/check_internal.h"

#include "base/text.h"
#include "plan/fields.h"
#include "plan/kinds.h"
#include "plan/read.h"

#include <math.h>
#include <string.h>

/* ---- checks of bytes and text ---- */

/* Length of the UTF-8 character at text (1..4), or 0. Overlong forms and surrogates are refused. */
static int utf8_length(const uint8_t *text, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (text[0] < 0x80)
        return 1;
    int n = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || (size_t)n > left)
        return 0;
    uint32_t code = text[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    return code >= least[n] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? n : 0;
}

static bool check_strings(Check *check)
{
    const DtPlan *plan = check->plan;
    if (plan->n_strings == 0 || plan->strings[0] != '\0' ||
        plan->strings[plan->n_strings - 1] != '\0')
        return dt_check_fail(check, "STRS", 0,
                             "the string table does not start and end with an empty string");
    for (size_t i = 0; i < plan->n_strings;) {
        int n = utf8_length((const uint8_t *)plan->strings + i, plan->n_strings - i);
        if (n == 0)
            return dt_check_fail(check, "STRS", 0, "byte %zu is not UTF-8", i);
        i += (size_t)n;
    }
    return true;
}

/* Whether a string starts at the offset. An offset into the middle of a string is refused: it may
 * lie inside of a UTF-8 character. */
static bool check_string(Check *check, uint64_t offset)
{
    const DtPlan *plan = check->plan;
    return offset < plan->n_strings && (offset == 0 || plan->strings[offset - 1] == '\0');
}

static bool check_field(Check *check, const DtPlanRecord *record, uint32_t index,
                        const DtPlanField *field, const uint8_t *at, uint32_t element)
{
    const DtPlan *plan = check->plan;
    uint64_t value = dt_fields_get(field, at, element);
    double number;
    switch (field->kind) {
    case DT_FIELD_STR:
        if (!check_string(check, value))
            return dt_check_fail(check, record->tag, index, "%s: no string starts at %llu",
                                 field->name, (unsigned long long)value);
        break;
    case DT_FIELD_F64:
        memcpy(&number, &value, sizeof number);
        /* check_stores checks these */
        const bool may_be_infinite = strcmp(field->name, "init_a") == 0;
        if (isnan(number) || (isinf(number) && !may_be_infinite))
            return dt_check_fail(check, record->tag, index, "%s is not finite", field->name);
        break;
    case DT_FIELD_ENUM:
    case DT_FIELD_ENUM16:
    case DT_FIELD_ENUM8:
        if (value >= field->n_names)
            return dt_check_fail(check, record->tag, index, "%s: no kind has number %llu",
                                 field->name, (unsigned long long)value);
        break;
    case DT_FIELD_BLOB:
        if (value % DT_PLAN_ALIGN != 0)
            return dt_check_fail(check, record->tag, index, "%s is not aligned", field->name);
        return dt_check_range(check, record->tag, index, field->name, value,
                              dt_fields_get(field + 1, at, 0), plan->n_blob);
    case DT_FIELD_RESERVED:
        if (value != 0)
            return dt_check_fail(check, record->tag, index, "%s is not zero", field->name);
        break;
    default: break;
    }
    return true;
}

static bool check_fields(Check *check)
{
    for (int s = 0; s < DT_RECORDS; s++) {
        const DtPlanRecord *record = &dt_fields_records[s];
        const uint8_t *at = dt_fields_at(check->plan, record);
        uint32_t n = dt_fields_count(check->plan, record);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t f = 0; f < record->n_fields; f++)
                for (uint32_t e = 0; e < record->fields[f].count; e++)
                    if (!check_field(check, record, i, &record->fields[f],
                                     at + (size_t)i * record->size, e))
                        return false;
    }
    return true;
}

/* ---- all of it ---- */

DtStatus dt_check_plan(const DtPlan *plan)
{
    Check check = {.plan = plan, .status = DT_OK};
    if (check_strings(&check) && check_fields(&check) && dt_check_records(&check) &&
        dt_check_run(&check))
        return DT_OK;
    return check.status;
}
