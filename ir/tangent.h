/* SPDX-License-Identifier: Apache-2.0 */
/* Forward-mode derivatives, in the interpreter: beside each value its tangent, how it moves when
 * the program's parameters move along a direction. One rule per op, written without sight of the
 * derivatives that passes/grad/vjp*.c make; exact but for the rounding of doubles, no step to
 * choose. At corners, what the language says the gradient is (docs/language.md): of equal operands
 * `max` and `min` follow the second, over axes the first, `abs` nothing; `stop`, casts to integers,
 * comparisons, positions and draws move with nothing. A function that states a surrogate gradient
 * moves as that says, which has been differentiated (dt_differentiate_func). */
#ifndef DT_IR_TANGENT_H
#define DT_IR_TANGENT_H

#include "ir/interp.h"

typedef struct DtTangents {
    DtInterp *interp;
    /* the tangent of a `param` op of an entry function, of its result's type; NULL: it stays */
    DtTensor *(*direction)(void *context, const DtOp *op);
    void *context;
} DtTangents;

/* dt_interp_run with tangents: those of inputs (each of its input's type, or NULL: zero) give those
 * of results (NULL: zero). Serial programs only; aborts on an op without a rule. */
void dt_tangent_run(DtTangents *t, const DtFunc *func, DtTensor *const *inputs,
                    DtTensor *const *tangents, DtTensor **ret_results, DtTensor **ret_tangents);

/* Whether there is a rule for the op; ops without a derivative have one too. */
bool dt_tangent_has_rule(DtOpKind kind);

#endif
