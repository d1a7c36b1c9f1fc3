/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tensors in the graph of a plan (tensors.c). */
#include "plan/report/dot.h"

#include "plan/report/people.h"
#include "plan/report/tensors.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 10 };

void dt_dot_add_html(DtText *text, const char *words)
{
    DtText shown = {0};
    dt_text_add_visible(&shown, words, strlen(words));
    for (const char *c = shown.at ? shown.at : ""; *c; c++)
        if (*c == '&' || *c == '<' || *c == '>' || *c == '"')
            dt_text_add(text, *c == '&'   ? "&amp;"
                              : *c == '<' ? "&lt;"
                              : *c == '>' ? "&gt;"
                                          : "&quot;");
        else
            dt_text_add_n(text, c, 1);
    dt_text_free(&shown);
}

static void add_cell(DtText *text, const char *align, const char *words)
{
    dt_text_printf(text, "<td align=\"%s\">", align);
    dt_dot_add_html(text, words);
    dt_text_add(text, "</td>");
}

static void add_row(DtText *text, const char *name, const char *placement, const DtTensor *row)
{
    char bytes[32];
    const double sizes[] = {row->own, row->gradients, row->kept};
    dt_text_add(text, "<tr>");
    add_cell(text, "left", name);
    add_cell(text, "left", placement);
    for (int i = 0; i < 3; i++)
        add_cell(text, "right", sizes[i] > 0 ? dt_people_bytes(bytes, sizes[i]) : "");
    dt_text_add(text, "</tr>");
}

void dt_dot_stores(const DtSummary *s, uint32_t stage, bool details, DtText *text)
{
    uint32_t n = 0;
    DtTensor *rows = dt_tensors_of(s->plan, stage, &n), rest = {0};
    dt_text_printf(
        text,
        "    m%u [shape=plain, label=<<table border=\"0\" cellborder=\"1\" cellspacing=\"0\" "
        "cellpadding=\"3\" bgcolor=\"white\"><tr><td><b>tensor</b></td><td><b>placement</b></td>"
        "<td><b>own</b></td><td><b>gradient</b></td><td><b>optimizer</b></td></tr>",
        stage);
    for (uint32_t i = 0; i < n; i++) {
        if (i >= ROWS && n > ROWS + 1 && !details) {
            rest.own += rows[i].own;
            rest.gradients += rows[i].gradients;
            rest.kept += rows[i].kept;
            continue;
        }
        DtText placement = {0}, kept = {0};
        dt_tensors_placement(s->plan, rows[i].store, &placement);
        if (rows[i].optimizer)
            dt_tensors_placement(s->plan, rows[i].optimizer, &kept);
        const bool same =
            kept.len >= placement.len && strncmp(kept.at, placement.at, placement.len) == 0;
        if (kept.len && !(same && kept.len == placement.len))
            dt_text_printf(&placement, ", optimizer%s%s", same ? "" : " ",
                           kept.at + (same ? placement.len : 0));
        add_row(text, dt_plan_str(s->plan, rows[i].store->pattern), placement.at, &rows[i]);
        dt_text_free(&placement);
        dt_text_free(&kept);
    }
    char more[32];
    snprintf(more, sizeof more, "%u more", n - ROWS);
    if (rest.own + rest.gradients + rest.kept > 0)
        add_row(text, more, "", &rest);
    dt_text_add(text, "</table>>]\n");
    free(rows);
}
