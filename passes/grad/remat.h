/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of rematerialisation share. Private to passes/grad/remat*.c. */
#ifndef DT_PASSES_REMAT_H
#define DT_PASSES_REMAT_H

#include "passes/passes.h"

/* ---- remat_names.c ---- */

/* The effect of a line `remat h (keep = ...)` or `(drop = ...)` on the values of the body of h. */
typedef struct DtRematChoice {
    bool *kept;     /* per value id: may be saved; inputs count as kept if they need no saving */
    bool *is_saved; /* per value id: the backward loop reads it as saved at present */
} DtRematChoice;

/* Fills choice->kept for the ops of body; choice->is_saved is given. */
void dt_remat_choose(const DtRemat *line, const DtFunc *body, const DtLoop *loop,
                     DtRematChoice *choice);

/* ---- remat_roots.c ---- */

/* Whether only kernels read the value in func, directly or through views. */
bool dt_remat_read_by_kernels(const DtFunc *func, const DtValue *value);

/* Without a `remat` line: keeps what is saved, but saves results of products instead of values
 * computed from them on the way. is_needed, per value id: the backward loop needs the value in
 * memory. False: nothing changes. */
bool dt_remat_choose_products(const DtPassContext *context, const DtFunc *body, const DtLoop *loop,
                              const bool *is_needed, DtRematChoice *choice);

/* ---- remat_made.c ---- */

/* Without a `remat` line: does not save values that the backward part recomputes from other
 * saved values at no cost. same, per value id of the backward body: the value of body that an
 * input is, else NULL; filled in for its ops. False: nothing changes. */
bool dt_remat_drop_made(const DtFunc *body, const DtLoop *loop, const DtFunc *backward,
                        const bool *is_needed, const DtValue **same, DtRematChoice *choice);

#endif
