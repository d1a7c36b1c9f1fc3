/* SPDX-License-Identifier: Apache-2.0 */
/* Names of other frameworks: the rows of foreign.def. */
#ifndef DT_FRONTEND_FOREIGN_H
#define DT_FRONTEND_FOREIGN_H

#include "base/diag.h"

typedef enum DtForeignPlace {
    DT_FOREIGN_VALUE,
    DT_FOREIGN_FIELD,
    DT_FOREIGN_ARGUMENT,
    DT_FOREIGN_OPTIMIZER,
    DT_FOREIGN_SCHEDULE,
    DT_FOREIGN_SETTING,
    DT_FOREIGN_LAYOUT,
    DT_FOREIGN_STATEMENT
} DtForeignPlace;

/* Adds the spelling of this language for the name, with a line as an example; at: the name's place,
 * or nowhere, for a fix. False: no row has the name for that kind of place, and nothing is added.
 * If no row has the exact name, case is ignored. dt_foreign_is adds nothing; ret_ours: the word
 * that can replace it, or "". */
bool dt_foreign_is(DtForeignPlace place, const char *name, const char **ret_ours);
bool dt_foreign_help(DtDiag *diag, DtForeignPlace place, DtSpan at, const char *name);

/* Whether the name is a module of another framework, which precedes a dot. */
bool dt_foreign_is_module(const char *name);

#endif
