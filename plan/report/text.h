/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of a report: a screen of text (text.c), JSON (json.c), a trace (trace.c), a page (html.c), a graph (dot.c); of
 * two plans beside each other (compare.c). */
#ifndef DT_REPORT_TEXT_H
#define DT_REPORT_TEXT_H

#include "plan/report/summary.h"

void dt_text_report(const DtSummary *summary, DtText *ret_text);

/* One object, docs/report.md. */
void dt_json_report(const DtSummary *summary, DtText *ret_text);

/* Trace events as Perfetto and chrome://tracing read them; the summary must have been made with slices. */
void dt_trace_report(const DtSummary *summary, DtText *ret_text);

/* One page of HTML that needs nothing else (html.c); slices as for a trace. */
void dt_html_report(const DtSummary *summary, DtText *ret_text);

/* A graph for Graphviz (dot.c): stages, what they do, messages, collectives, stores; details: all of them. */
void dt_dot_report(const DtSummary *summary, bool details, DtText *ret_text);

/* Two plans beside each other; names: of their files. As text, and the reports of both as one object. */
void dt_compare_report(const char *const names[2], const DtSummary summaries[2], DtText *ret_text);
void dt_json_compare(const char *const names[2], const DtSummary summaries[2], DtText *ret_text);

#endif
