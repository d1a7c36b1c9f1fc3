/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of rematerialisation share. Private to passes/grad/remat*.c. */
#ifndef DT_PASSES_REMAT_H
#define DT_PASSES_REMAT_H

#include "passes/passes.h"

/* ---- remat_names.c ---- */

/* What a line `remat h (keep = ...)` or `(drop = ...)` means for the values of the body of h. */
typedef struct DtRematChoice {
    bool *kept;     /* per value id: may be saved. Inputs count as kept where they need no saving */
    bool *is_saved; /* per value id: the backward loop takes it over now */
} DtRematChoice;

/* Fills choice->kept for the ops of body; choice->is_saved is given. */
void dt_remat_choose(const DtRemat *line, const DtFunc *body, const DtLoop *loop,
                     DtRematChoice *choice);

#endif
