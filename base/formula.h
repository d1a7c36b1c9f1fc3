/* SPDX-License-Identifier: Apache-2.0 */
/* A number of a step as text, evaluated in double precision when the step begins:
 *
 *   where(lt(step, lr.warmup), div(mul(lr.base, add(step, 1)), lr.warmup), lr.floor)
 *
 * A formula is a number, a name, or an operation on formulas. `where` evaluates only what it
 * chooses; refuse("...") has no value: its text says which setting is wrong. */
#ifndef DT_BASE_FORMULA_H
#define DT_BASE_FORMULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DT_FORMULA_LENGTH = 8192 }; /* bytes of a text at most */

/* Looks up the value of a name of `len` bytes; false if there is none. */
typedef bool DtFormulaLookup(const void *context, const char *name, size_t len, double *ret_value);

typedef struct DtFormulaProblem {
    char text[200]; /* the text of `refuse`, or the error in the formula itself */
    bool is_refused;
} DtFormulaProblem;

/* The value of a formula. False: it has none, and ret_problem says why. The text may be
 * anything. */
bool dt_formula_value(const char *text, DtFormulaLookup *lookup, const void *context,
                      double *ret_value, DtFormulaProblem *ret_problem);

/* Whether a formula has an operation of that name and so many operands. */
bool dt_formula_has(const char *operation, uint32_t n);

/* ---- the names that a run gives ---- */

/* A number that may be changed between compiling and running: `lr.base`. */
typedef struct DtFormulaSetting {
    const char *name;
    double value;
} DtFormulaSetting;

typedef struct DtFormulaStep {
    double step;       /* from 0, skipped ones count */
    double updates;    /* the number of the update, from 1; skipped ones do not count */
    double loss_scale;
    double steps;      /* of the whole run; 0: not known yet */
    double rows;       /* samples of this step */
    const DtFormulaSetting *settings;
    uint32_t n_settings;
} DtFormulaStep;

/* A lookup whose context is a DtFormulaStep. */
DtFormulaLookup dt_formula_step;

#endif
