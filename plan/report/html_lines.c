/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of source lines, for the page: seconds of a rank, the mean over ranks, of queue 0 and
 * of collectives, overlapped ones included; by line, layer and kind of work, with the text of
 * the lines. */
#include "plan/report/html.h"

#include <stdlib.h>
#include <string.h>

enum { AROUND = 2, MOST_TEXT = 160, MOST_LINES = 2000, MOST_COSTS = 4000 };

typedef struct Lines {
    const DtSummary *s;
    double *seconds; /* seconds by span, then by purpose */
} Lines;

static void add_seconds(void *context, const DtPlanInst *inst, int64_t runs, double ranks)
{
    Lines *lines = context;
    const size_t number = (size_t)(inst - lines->s->plan->insts);
    if (inst->span < lines->s->plan->n_spans)
        lines->seconds[inst->span * DT_TIMES + lines->s->prices[0][number].time] +=
            (double)runs * ranks * lines->s->seconds[number] / lines->s->plan->meta->n_ranks;
}

/* Returns the number of a string of the plan in the page's list, to which it is added if it is
 * new. */
static int number_of(json_t *list, uint32_t *of_string, const DtPlan *plan, DtPlanStr string)
{
    if (!of_string[string]) {
        DtText shown = {0};
        dt_text_add_visible(&shown, dt_plan_str(plan, string),
                            strnlen(dt_plan_str(plan, string), MOST_TEXT));
        json_array_append_new(list, json_string(shown.at ? shown.at : ""));
        of_string[string] = (uint32_t)json_array_size(list);
        dt_text_free(&shown);
    }
    return (int)of_string[string] - 1;
}

/* ---- texts ---- */

/* Returns a line of a file as the page shows it. */
static json_t *json_text(const char *line)
{
    DtText shown = {0};
    const size_t len = strcspn(line, "\n");
    dt_text_add_visible(&shown, line, len < MOST_TEXT ? len : MOST_TEXT);
    json_t *json = json_string(shown.at ? shown.at : "");
    dt_text_free(&shown);
    return json;
}

/* Whether the page shows a line of the file: all lines of the program; of a library those around
 * lines with a cost. */
static bool is_shown(const Lines *lines, DtPlanStr file, uint32_t line)
{
    const DtPlan *plan = lines->s->plan;
    if (!strcmp(dt_plan_str(plan, file), dt_plan_str(plan, plan->meta->source)))
        return true;
    for (uint32_t i = 0; i < plan->n_spans; i++)
        for (int t = 0; t < DT_TIMES && plan->spans[i].file == file; t++)
            if (lines->seconds[i * DT_TIMES + (uint32_t)t] > 0 &&
                line + AROUND >= plan->spans[i].line && line <= plan->spans[i].line + AROUND)
                return true;
    return false;
}

/* Returns the list [[number of the line, text], ..] of the lines that the page shows. */
static json_t *json_texts(const Lines *lines, DtPlanStr file)
{
    const DtSummary *s = lines->s;
    json_t *list = json_array();
    const char *at = s->source ? s->source(s->source_context, dt_plan_str(s->plan, file), 1) : NULL;
    for (uint32_t line = 1; at && line <= MOST_LINES; line++) {
        if (is_shown(lines, file, line))
            json_array_append_new(list, json_pack("[i, o]", (int)line, json_text(at)));
        at = strchr(at, '\n');
        at = at && at[1] ? at + 1 : NULL;
    }
    return list;
}

/* ---- costs ---- */

json_t *dt_html_lines(const DtSummary *s)
{
    const DtPlan *plan = s->plan;
    DtArena *arena = dt_arena_new();
    Lines lines = {.s = s, .seconds = DT_NEW_ARRAY(arena, double, (plan->n_spans + 1) * DT_TIMES)};
    uint32_t *file_of = DT_NEW_ARRAY(arena, uint32_t, plan->n_strings + 1);
    uint32_t *layer_of = DT_NEW_ARRAY(arena, uint32_t, plan->n_strings + 1);
    json_t *files = json_array(), *names = json_array(), *layers = json_array(),
           *costs = json_array();
    if (s->has_time)
        dt_report_visit_step(plan, add_seconds, &lines);
    for (uint32_t i = 0; i < plan->n_spans; i++)
        for (int t = 0; t < DT_TIMES; t++) {
            const double seconds = lines.seconds[i * DT_TIMES + (uint32_t)t];
            const DtPlanSpan *span = &plan->spans[i];
            if (!(seconds > 0) || json_array_size(costs) >= MOST_COSTS)
                continue;
            const size_t known = json_array_size(names);
            const int file = number_of(names, file_of, plan, span->file);
            if (json_array_size(names) > known)
                json_array_append_new(files,
                                      json_pack("{s:O, s:o}", "name", json_array_get(names, known),
                                                "lines", json_texts(&lines, span->file)));
            json_array_append_new(costs, json_pack("[i, i, i, i, f]", file, (int)span->line,
                                                   number_of(layers, layer_of, plan, span->path), t,
                                                   seconds));
        }
    dt_arena_free(arena);
    json_decref(names);
    return json_pack("{s:o, s:o, s:o}", "files", files, "layers", layers, "costs", costs);
}
