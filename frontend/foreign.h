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

/* dt_foreign_help adds help to diag: how this language spells the name of another one, with a line
 * as an example, and a fix if `at` is the name's place. False if no row has the name for that kind
 * of place. If no row has the exact name, case is ignored. dt_foreign_is adds nothing; ret_ours:
 * the word that can replace the name, or "". */
bool dt_foreign_is(DtForeignPlace place, const char *name, const char **ret_ours);
bool dt_foreign_help(DtDiag *diag, DtForeignPlace place, DtSpan at, const char *name);

/* Whether the name is a module of another framework, as `torch` or `nn`, after which a dot
 * follows. */
bool dt_foreign_is_module(const char *name);

#endif
