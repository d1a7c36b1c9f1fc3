/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the page share (html.c, html_slices.c, html_lines.c, html_log.c): its data as JSON. */
#ifndef DT_REPORT_HTML_H
#define DT_REPORT_HTML_H

#include "plan/report/text.h"

#include <jansson.h>

/* {"tick", "pieces", "insts", "whats", "rows", "shown"}: the simulated step in whole numbers of `tick` seconds. pieces:
 * stage, begin, duration, kind, micro-batch, one behind the other; insts: stage, row, begin, duration, number of its
 * name among whats. Of more than `most` of either the first, or those of some stages. */
json_t *dt_html_slices(const DtSummary *summary, uint32_t most);

/* {"files", "layers", "costs"}: what each line costs by layer and by what the time goes to, and the lines' texts. */
json_t *dt_html_lines(const DtSummary *summary);

/* A log of dtrun (log.jsonl) as curves; NULL with a status that says why not. */
DtStatus dt_html_log(const char *path, json_t **ret_json);

#endif
