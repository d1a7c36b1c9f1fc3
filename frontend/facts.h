/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says of training and data, in the words of a plan's records: the facts of its
 * logical section. */
#ifndef DT_FRONTEND_FACTS_H
#define DT_FRONTEND_FACTS_H

#include "base/text.h"
#include "ir/config.h"

/* Appends a line per record. Folders of sources are those that the plan is to say. Nothing without
 * a train block. */
void dt_facts_print(const DtProgram *program, DtText *ret_text);

#endif
