/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the graph share (dot.c, dot_links.c, dot_stores.c). */
#ifndef DT_REPORT_DOT_H
#define DT_REPORT_DOT_H

#include "plan/report/text.h"

/* so many stages are all drawn; else so many at each end */
enum { DT_DOT_ALL = 8, DT_DOT_ENDS = 2, DT_DOT_NAME = 48 };

/* A piece's forward (f), backward (b) or gradients (w). */
typedef struct DtDotPart {
    uint32_t stage, piece;
    char kind;
} DtDotPart;

/* False: the entry is none of a step's. */
bool dt_dot_part(const DtPlan *plan, const DtPlanEntry *entry, DtDotPart *ret_part);
void dt_dot_name_part(const DtDotPart *part, char node[DT_DOT_NAME]);
bool dt_dot_draws(const DtPlan *plan, bool details, uint32_t stage);

/* Arrows for messages; those that go where no stage is drawn go to node "rest". */
void dt_dot_links(DtArena *arena, const DtPlan *plan, bool details, DtText *text);

/* Text inside of a label that is HTML. */
void dt_dot_add_html(DtText *text, const char *words);

/* Node "m<stage>": the tensors of a rank of the stage that last from step to step, largest
 * first. */
void dt_dot_stores(const DtSummary *summary, uint32_t stage, bool details, DtText *text);

#endif
