/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of a plan, one record a line, fields by name, zeros left out:
 *
 *     plan 12
 *     INST kind=gemm n_args=3 first_arg=12 ref=2 # 7
 *     ARGS arena=3 written=1 base=4096 bytes=65536 reg=(0, 512) # 14
 *     CODE target="cpu-v4" compiler="gcc 12.2.0" binary=base64 source=text # 0
 *     :f0VMRgIBAQAAAA...
 *     .
 *     |void k0(char *const *p, const int64_t *i)
 *     .
 *
 * Blobs follow their record, in the order of its fields, each ended by a line with a dot: base64
 * lines after ':', or lines of text after '|' (the last one after '\' if no newline ends it). The
 * number after '#' is the record's index, for people. plantext_read.c reads all this back. */
#include "plan/fields.h"
#include "plan/read.h"

#include <inttypes.h>
#include <string.h>

static void print_string(DtText *text, const char *string)
{
    dt_text_add(text, "\"");
    for (size_t n; *string; string += n) {
        n = strcspn(string, "\"\\");
        dt_text_add_escaped(text, string, n, false);
        if (string[n])
            dt_text_printf(text, "\\%c", string[n++]);
    }
    dt_text_add(text, "\"");
}

/* Whether text can be shown as such: it has no control characters but tab and newline. Its UTF-8 is
 * not checked: bytes pass through unchanged in either form. */
static bool is_text(const uint8_t *bytes, uint64_t len)
{
    for (uint64_t i = 0; i < len; i++)
        if ((bytes[i] < 0x20 && bytes[i] != '\t' && bytes[i] != '\n') || bytes[i] == 0x7f)
            return false;
    return true;
}

static void print_lines(DtText *text, const uint8_t *bytes, uint64_t len)
{
    for (uint64_t at = 0; at < len;) {
        const uint8_t *end = memchr(bytes + at, '\n', len - at);
        uint64_t n = end ? (uint64_t)(end - (bytes + at)) : len - at;
        dt_text_add(text, end ? "|" : "\\");
        dt_text_add_n(text, (const char *)bytes + at, n);
        dt_text_add(text, "\n");
        at += n + (end ? 1 : 0);
    }
}

static void print_base64(DtText *text, const uint8_t *bytes, uint64_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { LINE = 72 };
    for (uint64_t at = 0; at < len; at += LINE) {
        char line[LINE / 3 * 4];
        size_t n = 0;
        for (uint64_t i = at; i < len && i < at + LINE; i += 3) {
            uint32_t bits = (uint32_t)bytes[i] << 16;
            bits |= i + 1 < len ? (uint32_t)bytes[i + 1] << 8 : 0;
            bits |= i + 2 < len ? bytes[i + 2] : 0;
            line[n++] = digits[bits >> 18];
            line[n++] = digits[bits >> 12 & 63];
            line[n++] = i + 1 < len ? digits[bits >> 6 & 63] : '=';
            line[n++] = i + 2 < len ? digits[bits & 63] : '=';
        }
        dt_text_add(text, ":");
        dt_text_add_n(text, line, n);
        dt_text_add(text, "\n");
    }
}

static void print_number(DtText *text, const DtPlanField *field, const uint8_t *at,
                         uint32_t element)
{
    uint64_t value = dt_fields_get(field, at, element);
    double number;
    switch (field->kind) {
    case DT_FIELD_F64:
        memcpy(&number, &value, sizeof number);
        dt_text_double(text, number);
        break;
    case DT_FIELD_HEX: dt_text_printf(text, "0x%016" PRIx64, value); break;
    case DT_FIELD_I32:
    case DT_FIELD_I64: dt_text_printf(text, "%" PRId64, (int64_t)value); break;
    case DT_FIELD_ENUM:
    case DT_FIELD_ENUM16:
    case DT_FIELD_ENUM8: dt_text_add(text, field->names[value]); break;
    default: dt_text_printf(text, "%" PRIu64, value);
    }
}

/* Prints the elements of an array up to the last one that is not zero. */
static void print_array(DtText *text, const DtPlanField *field, const uint8_t *at)
{
    uint32_t n = field->count;
    while (n > 0 && dt_fields_get(field, at, n - 1) == 0)
        n--;
    if (n == 0)
        return;
    dt_text_printf(text, " %s=(", field->name);
    for (uint32_t i = 0; i < n; i++) {
        dt_text_add(text, i > 0 ? ", " : "");
        print_number(text, field, at, i);
    }
    dt_text_add(text, ")");
}

static void print_field(const DtPlan *plan, DtText *text, const DtPlanField *field,
                        const uint8_t *at)
{
    uint64_t value = dt_fields_get(field, at, 0);
    bool is_first_name = field->names != NULL && field->offset == 0; /* the kind is always shown */
    if (field->kind == DT_FIELD_RESERVED || field->kind == DT_FIELD_BLOB_LEN)
        return;
    if (field->count > 1) {
        print_array(text, field, at);
        return;
    }
    if (field->kind == DT_FIELD_BLOB) {
        uint64_t len = dt_fields_get(field + 1, at, 0);
        if (len > 0)
            dt_text_printf(text, " %s=%s", field->name,
                           is_text(plan->blob + value, len) ? "text" : "base64");
        return;
    }
    if (field->kind == DT_FIELD_STR) {
        if (plan->strings[value] == '\0')
            return;
        dt_text_printf(text, " %s=", field->name);
        print_string(text, plan->strings + value);
        return;
    }
    if (value == 0 && !is_first_name)
        return;
    dt_text_printf(text, " %s=", field->name);
    print_number(text, field, at, 0);
}

static void print_blobs(const DtPlan *plan, DtText *text, const DtPlanRecord *record,
                        const uint8_t *at)
{
    for (uint32_t f = 0; f < record->n_fields; f++) {
        const DtPlanField *field = &record->fields[f];
        if (field->kind != DT_FIELD_BLOB || dt_fields_get(field + 1, at, 0) == 0)
            continue;
        const uint8_t *bytes = plan->blob + dt_fields_get(field, at, 0);
        uint64_t len = dt_fields_get(field + 1, at, 0);
        if (is_text(bytes, len))
            print_lines(text, bytes, len);
        else
            print_base64(text, bytes, len);
        dt_text_add(text, ".\n");
    }
}

bool dt_plantext_value(const DtPlan *plan, const DtPlanRecord *record, const void *at,
                       const char *name, size_t len, DtText *ret_text)
{
    for (uint32_t f = 0; f < record->n_fields; f++) {
        const DtPlanField *field = &record->fields[f];
        if (strncmp(field->name, name, len) != 0 || field->name[len] ||
            field->kind >= DT_FIELD_BLOB)
            continue;
        if (field->kind == DT_FIELD_STR)
            print_string(ret_text, dt_plan_str(plan, (DtPlanStr)dt_fields_get(field, at, 0)));
        for (uint32_t i = 0; i < field->count && field->kind != DT_FIELD_STR; i++) {
            dt_text_add(ret_text, i ? "," : "");
            print_number(ret_text, field, at, i);
        }
        return true;
    }
    return false;
}

void dt_plantext_dump(const DtPlan *plan, DtText *ret_text)
{
    dt_text_printf(ret_text, "plan %d\n", DT_PLAN_VERSION);
    for (int s = 0; s < DT_RECORDS; s++) {
        const DtPlanRecord *record = &dt_fields_records[s];
        const uint8_t *at = dt_fields_at(plan, record);
        uint32_t n = dt_fields_count(plan, record);
        for (uint32_t i = 0; i < n; i++, at += record->size) {
            dt_text_add_n(ret_text, record->tag, 4);
            for (uint32_t f = 0; f < record->n_fields; f++)
                print_field(plan, ret_text, &record->fields[f], at);
            dt_text_printf(ret_text, " # %u\n", i);
            print_blobs(plan, ret_text, record, at);
        }
    }
}
