/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics as JSON lines, for editors. Lines and columns count from 1, columns in characters;
 * texts that are not UTF-8 (a path may be) are shown with question marks. */
#include "base/diag_internal.h"
#include "base/text.h"

#include <jansson.h>
#include <string.h>

static json_t *string(const char *text)
{
    json_t *json = json_string(text);
    if (json)
        return json;
    DtText visible = {0};
    dt_text_add_visible(&visible, text, strlen(text));
    json = json_string(visible.at ? visible.at : "");
    dt_text_free(&visible);
    return json;
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *place(const DtDiags *diags, DtSpan span)
{
    uint32_t line, column, end_line, end_column;
    DtSpan end = {span.file, span.hi, span.hi};
    json_t *object = json_object();
    dt_diag_position(diags, span, &line, &column);
    dt_diag_position(diags, end, &end_line, &end_column);
    set(object, "file", string(dt_diag_path(diags, span.file)));
    set(object, "line", json_integer(line));
    set(object, "column", json_integer(column));
    set(object, "end_line", json_integer(end_line));
    set(object, "end_column", json_integer(end_column));
    return object;
}

static json_t *whole(const DtDiag *diag)
{
    const DtDiags *diags = diag->diags;
    const DtDiagRow *row = &dt_diag_rows[diag->code];
    json_t *object = diag->span.file ? place(diags, diag->span) : json_object();
    json_t *labels = json_array(), *notes = json_array(), *help = json_array();
    for (uint32_t i = 0; i < diag->parts.n; i++) {
        const DtDiagPart *part = &diag->parts.at[i];
        if (part->kind == DT_PART_NOTE) {
            json_array_append_new(notes, string(part->text));
            continue;
        }
        json_t *entry = part->span.file ? place(diags, part->span) : json_object();
        set(entry, "text", string(part->text));
        if (part->kind == DT_PART_FIX)
            set(entry, "insert", string(part->insert));
        json_array_append_new(part->kind == DT_PART_LABEL ? labels : help, entry);
    }
    set(object, "code", json_string(row->name));
    set(object, "severity", json_string(row->severity == DT_SEVERITY_ERROR ? "error" : "warning"));
    set(object, "message", string(diag->message));
    if (diag->caret)
        set(object, "caret", string(diag->caret));
    set(object, "labels", labels);
    set(object, "notes", notes);
    set(object, "help", help);
    return object;
}

void dt_diag_print_json(const DtDiags *diags, FILE *out)
{
    uint32_t n;
    DtDiag **list = dt_diag_sorted(diags, &n);
    for (uint32_t i = 0; i < n; i++) {
        json_t *object = whole(list[i]);
        json_dumpf(object, out, JSON_COMPACT | JSON_SORT_KEYS);
        fputc('\n', out);
        json_decref(object);
    }
}
