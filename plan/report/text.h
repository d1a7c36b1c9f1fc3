/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of a report: a screen of text (text.c), JSON (json.c), a trace (trace.c), a page
 * (html.c), a graph (dot.c); two plans compared (compare.c). */
#ifndef DT_REPORT_TEXT_H
#define DT_REPORT_TEXT_H

#include "base/status.h"
#include "plan/report/summary.h"

void dt_text_report(const DtSummary *summary, DtText *ret_text);

/* The report as one JSON object, docs/report.md. */
void dt_json_report(const DtSummary *summary, DtText *ret_text);

/* Trace events as Perfetto and chrome://tracing read them; the summary must have been made with
 * slices. */
void dt_trace_report(const DtSummary *summary, DtText *ret_text);

/* One page of HTML without outside parts (html.c), of one plan or of two compared; the summaries
 * must have been made with slices and instructions. names: of the plans, if there are two; logs:
 * files that dtrun wrote. Fails if one of these cannot be read. */
typedef struct DtHtml {
    const char *const *names;
    const DtSummary *plans; uint32_t n_plans;
    const char *const *logs; uint32_t n_logs;
} DtHtml;
DtStatus dt_html_report(const DtHtml *page, DtText *ret_text);

/* A graph for Graphviz (dot.c): stages, their work, messages, collectives, stores. details: draws
 * all stages. */
void dt_dot_report(const DtSummary *summary, bool details, DtText *ret_text);

/* Compares two plans. names: those of their files. As text; or as one JSON object that contains
 * both reports. */
void dt_compare_report(const char *const names[2], const DtSummary summaries[2], DtText *ret_text);
/* A sentence that says what is not comparable; "": everything is. */
const char *dt_compare_warning(const DtSummary summaries[2]);
/* The numbers of a comparison, one row each; change: "+4.1 %", "x 12.3", or "". */
typedef void DtCompareRow(void *context, const char *name, const char *a, const char *b,
                          const char *change);
void dt_compare_rows(const DtSummary summaries[2], DtCompareRow *row, void *context);
void dt_json_compare(const char *const names[2], const DtSummary summaries[2], DtText *ret_text);

#endif
