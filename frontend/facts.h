/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a program about training and data, as records of a plan. The logical section of a
 * plan contains them. */
#ifndef DT_FRONTEND_FACTS_H
#define DT_FRONTEND_FACTS_H

#include "base/text.h"
#include "ir/config.h"

extern const char *const dt_facts_samples[]; /* by DtSampleKind: "next_token" */
extern const char *const dt_facts_sources[]; /* by DtSourceKind: "text" */

/* Appends the facts of the program (inputs, sources, optimizer) as text, one line per record;
 * source folders are written as the plan has them. Appends nothing for a program without a train
 * block. */
void dt_facts_print(const DtProgram *program, DtText *ret_text);

#endif
