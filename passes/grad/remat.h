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

/* ---- remat_roots.c ---- */

/* Whether only kernels read value in func, as it is or through views. */
bool dt_remat_read_by_kernels(const DtFunc *func, const DtValue *value);

/* Without a line: keeps what is saved, but products instead of what is made of them on the way. is_needed, per value
 * id: the backward loop needs it in memory. False: nothing changes. */
bool dt_remat_choose_products(const DtPassContext *context, const DtFunc *body, const DtLoop *loop,
                              const bool *is_needed, DtRematChoice *choice);

/* ---- remat_made.c ---- */

/* Without a line: of what is kept, drops what the backward part makes again of other kept values at no cost. same, per
 * value id of the backward body: the value of body that an input is, else NULL; filled for its ops. False: nothing
 * changes. */
bool dt_remat_drop_made(const DtFunc *body, const DtLoop *loop, const DtFunc *backward, const bool *is_needed,
                        const DtValue **same, DtRematChoice *choice);

#endif
