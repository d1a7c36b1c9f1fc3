/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the graph share (dot.c, dot_links.c, dot_stores.c). */
#ifndef DT_REPORT_DOT_H
#define DT_REPORT_DOT_H

#include "plan/report/text.h"

/* so many stages are all drawn; of more, so many at each end */
enum { DT_DOT_ALL = 8, DT_DOT_ENDS = 2, DT_DOT_NAME = 48 };

/* A node for forward (f), backward (b) or gradients (w) of a piece. */
typedef struct DtDotPart {
    uint32_t stage, piece;
    char kind;
} DtDotPart;

/* Reads the name of an entry; false: it is no piece of a step. */
bool dt_dot_part(const DtPlan *plan, const DtPlanEntry *entry, DtDotPart *ret_part);
void dt_dot_name_part(const DtDotPart *part, char node[DT_DOT_NAME]);
bool dt_dot_draws(const DtPlan *plan, bool details, uint32_t stage);

/* Draws arrows for messages; arrows to stages that are not drawn lead to node "rest". */
void dt_dot_links(DtArena *arena, const DtPlan *plan, bool details, DtText *text);

/* Appends text inside of an HTML label. */
void dt_dot_add_html(DtText *text, const char *words);

/* Draws node "m<stage>": the tensors of a rank of the stage that are kept from step to step,
 * largest first. */
void dt_dot_stores(const DtSummary *summary, uint32_t stage, bool details, DtText *text);

#endif
