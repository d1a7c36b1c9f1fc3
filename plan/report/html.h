/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the page share (html.c, html_slices.c, html_lines.c, html_log.c): its data as
 * JSON. */
#ifndef DT_REPORT_HTML_H
#define DT_REPORT_HTML_H

#include "plan/report/text.h"

#include <jansson.h>

/* {"tick", "pieces", "insts", "whats", "rows", "shown"}: the simulated step in whole numbers of
 * `tick` seconds. pieces: stage, begin, duration, kind, micro-batch, flattened; insts: stage,
 * row, begin, duration, index of its name in whats. If there are more than `most` of either, the
 * first ones, or those of some stages. */
json_t *dt_html_slices(const DtSummary *summary, uint32_t most);

/* {"files", "layers", "costs"}: the time of each source line by layer and kind of work, and the
 * text of the lines. */
json_t *dt_html_lines(const DtSummary *summary);

/* A log of dtrun (log.jsonl) as curves; NULL with a status that says why not. */
DtStatus dt_html_log(const char *path, json_t **ret_json);

#endif
