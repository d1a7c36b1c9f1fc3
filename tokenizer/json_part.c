/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of tokenizer.json are read with. Its steps are rows of tables; one that has none
 * is refused by its name, and so is every setting of a step that is not supported. */
#include "tokenizer/internal.h"

#include <stdarg.h>

const char *dt_json_type(const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    return type ? type : "?";
}

DtStatus dt_json_fail(const DtTokenizer *t, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return dt_status_fail(DT_EXIT_IO, "%.150s: %s", t->name, message);
}

/* ---- steps ---- */

enum { MAX_NESTED = 8 };

static DtStatus read_steps(DtTokenizer *t, const json_t *step, const char *kind, const char *list,
                           const DtJsonStep *table, size_t n, int depth)
{
    DtStatus status = DT_OK;
    if (!step || json_is_null(step))
        return DT_OK;
    if (depth > MAX_NESTED)
        return dt_json_fail(t, "its %s is nested too deeply", kind);
    const char *type = dt_json_type(step);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *members = json_object_get(step, list);
        if (!json_is_array(members))
            return dt_json_fail(t, "its %s is a Sequence without `%s`", kind, list);
        for (size_t i = 0; i < json_array_size(members) && dt_status_ok(&status); i++)
            status = read_steps(t, json_array_get(members, i), kind, list, table, n, depth + 1);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].type, type) == 0)
            return table[i].read(t, step);
    return dt_json_fail(t, "its %s is %.60s, which is not supported", kind, type);
}

DtStatus dt_json_steps(DtTokenizer *t, const json_t *file, const char *kind, const char *list,
                       const DtJsonStep *table, size_t n)
{
    return read_steps(t, json_object_get(file, kind), kind, list, table, n, 0);
}

DtTokenBytes dt_json_text(DtTokenizer *t, const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    const size_t len = text ? strlen(text) : 0;
    const uint8_t *kept = text ? (const uint8_t *)dt_arena_strndup(t->memory, text, len) : NULL;
    return (DtTokenBytes){kept, (uint32_t)len};
}

DtStatus dt_json_pattern(DtTokenizer *t, const json_t *step, DtPattern *ret_pattern,
                         DtTokenBytes *ret_text)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const DtTokenBytes regex = dt_json_text(t, pattern, "Regex");
    *ret_text = dt_json_text(t, pattern, "String");
    if ((regex.at == NULL) == (ret_text->at == NULL))
        return dt_json_fail(t, "a step %.40s has %s", dt_json_type(step),
                            regex.at ? "two patterns, a Regex and a String" : "no pattern");
    DtStatus status = regex.at
                          ? dt_pattern_read(t->memory, (const char *)regex.at, ret_pattern)
                          : dt_pattern_literal(t->memory, (const char *)ret_text->at, ret_pattern);
    return dt_status_ok(&status) ? DT_OK : dt_json_fail(t, "%s", status.message);
}
