/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tensors in the graph of a plan: parameters and states of a stage, what belongs to them, how they are
 * placed. Those of one pattern (h.#.w) are one row. */
#include "plan/report/dot.h"

#include "plan/kinds.h"
#include "plan/report/people.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 10 };

typedef struct Row {
    const DtPlanStore *store, *optimizer; /* the first one, and what the optimizer keeps for it, if anything */
    double own, gradients, kept;          /* bytes on a rank */
} Row;

void dt_dot_add_html(DtText *text, const char *words)
{
    DtText shown = {0};
    dt_text_add_visible(&shown, words, strlen(words));
    for (const char *c = shown.at ? shown.at : ""; *c; c++)
        if (*c == '&' || *c == '<' || *c == '>' || *c == '"')
            dt_text_add(text, *c == '&' ? "&amp;" : *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : "&quot;");
        else
            dt_text_add_n(text, c, 1);
    dt_text_free(&shown);
}

/* Of its elements on a rank: in a bucket the record's bytes are those of all tensors in it, of this rank's block or of
 * all blocks. */
static double bytes_of(const DtPlan *plan, const DtPlanStore *store)
{
    const DtPlanPack *pack = store->pack ? &plan->packs[store->pack - 1] : NULL;
    double bytes = (double)dt_kinds_size(store->dtype), bucket = bytes;
    for (uint32_t a = 0; a < store->n_axes; a++) {
        const double local = (double)plan->axes[store->first_axis + a].local;
        bytes *= local;
        bucket *= a < store->n_loops ? local : 1;
    }
    if (pack && (double)store->bytes <= bucket * (double)pack->run)
        for (uint32_t m = 0; m < pack->n_split; m++)
            bytes /= plan->mesh[pack->split[m]].size;
    return bytes;
}

static void add_store(const DtPlan *plan, const DtPlanStore *store, Row *row)
{
    const double bytes = bytes_of(plan, store);
    if (store->kind == DT_PLAN_PARAM || store->kind == DT_PLAN_STATE)
        row->own += bytes;
    else if (store->kind == DT_PLAN_GRAD || store->kind == DT_PLAN_NEXT)
        row->gradients += bytes;
    else {
        row->kept += bytes;
        row->optimizer = row->optimizer ? row->optimizer : store;
    }
}

static double sum_of(const Row *row) { return row->own + row->gradients + row->kept; }

static int by_bytes(const void *a, const void *b)
{
    const Row *x = a, *y = b;
    if (sum_of(x) != sum_of(y))
        return sum_of(x) < sum_of(y) ? 1 : -1;
    return x->store < y->store ? -1 : x->store > y->store;
}

/* The rows of a stage in an array of the caller's. */
static Row *rows_of(const DtPlan *plan, uint32_t stage, uint32_t *ret_n)
{
    Row *rows = calloc(plan->n_stores + 1, sizeof *rows);
    uint32_t n = 0;
    if (!rows)
        dt_arena_exhausted((plan->n_stores + 1) * sizeof *rows);
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i], *of = store->of >= 0 ? &plan->stores[store->of] : store;
        uint32_t k = 0;
        if (!dt_plan_store_on(store, stage) || store->kind == DT_PLAN_SAVED || store->kind == DT_PLAN_CHANNEL)
            continue;
        while (k < n && rows[k].store->pattern != of->pattern)
            k++;
        if (k == n)
            rows[n++].store = of;
        add_store(plan, store, &rows[k]);
    }
    qsort(rows, n, sizeof *rows, by_bytes);
    *ret_n = n;
    return rows;
}

/* "[vocab / tensor data, embed]": axes, and the mesh axes that split each. */
static void add_placement(const DtPlan *plan, const DtPlanStore *store, DtText *text)
{
    dt_text_add(text, "[");
    for (uint32_t a = 0; a < store->n_axes; a++) {
        const DtPlanAxis *axis = &plan->axes[store->first_axis + a];
        dt_text_printf(text, "%s%s", a ? ", " : "", dt_plan_str(plan, axis->name));
        for (int m = 0; m < DT_PLAN_SPLITS && axis->split[m]; m++)
            dt_text_printf(text, "%s%s", m ? " " : " / ", dt_plan_str(plan, plan->mesh[axis->split[m] - 1].name));
    }
    dt_text_add(text, "]");
    const DtPlanPack *pack = store->pack ? &plan->packs[store->pack - 1] : NULL;
    for (uint32_t m = 0; pack && m < pack->n_split; m++)
        dt_text_printf(text, "%s%s", m ? " " : " / ", dt_plan_str(plan, plan->mesh[pack->split[m]].name));
}

static void add_cell(DtText *text, const char *align, const char *words)
{
    dt_text_printf(text, "<td align=\"%s\">", align);
    dt_dot_add_html(text, words);
    dt_text_add(text, "</td>");
}

static void add_row(DtText *text, const char *name, const char *placement, const Row *row)
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
    Row *rows = rows_of(s->plan, stage, &n), rest = {0};
    dt_text_printf(text, "    m%u [shape=plain, label=<<table border=\"0\" cellborder=\"1\" cellspacing=\"0\" "
                         "cellpadding=\"3\" bgcolor=\"white\"><tr><td><b>tensor</b></td><td><b>placement</b></td>"
                         "<td><b>own</b></td><td><b>gradient</b></td><td><b>optimizer</b></td></tr>", stage);
    for (uint32_t i = 0; i < n; i++) {
        if (i >= ROWS && n > ROWS + 1 && !details) {
            rest.own += rows[i].own;
            rest.gradients += rows[i].gradients;
            rest.kept += rows[i].kept;
            continue;
        }
        DtText placement = {0}, kept = {0};
        add_placement(s->plan, rows[i].store, &placement);
        if (rows[i].optimizer)
            add_placement(s->plan, rows[i].optimizer, &kept);
        const bool same = kept.len >= placement.len && strncmp(kept.at, placement.at, placement.len) == 0;
        if (kept.len && !(same && kept.len == placement.len))
            dt_text_printf(&placement, ", optimizer%s%s", same ? "" : " ", kept.at + (same ? placement.len : 0));
        add_row(text, dt_plan_str(s->plan, rows[i].store->pattern), placement.at, &rows[i]);
        dt_text_free(&placement);
        dt_text_free(&kept);
    }
    char more[32];
    snprintf(more, sizeof more, "%u more", n - ROWS);
    if (sum_of(&rest) > 0)
        add_row(text, more, "", &rest);
    dt_text_add(text, "</table>>]\n");
    free(rows);
}
