/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of differentiation share. Private to passes/grad/differentiate.c, reverse.c,
 * activity.c, saved.c, vjp*.c.
 *
 * A function is differentiated with respect to some of its inputs (active_in) given cotangents of
 * some of its results (seeded). Each such combination has one DtDerivative: a forward function and
 * a backward one.
 *
 *   activity.c       which values depend on active inputs, which are useful to seeded results
 *   reverse.c        the backward function: the ops of the primal in reverse, a handler for each
 *   differentiate.c  the pass: entry "grad"
 *   vjp*.c           the handlers: cotangents of an op's operands from those of its results
 *   pads.c           sums of cotangents of slices
 *   saved.c          which primal values the backward function takes over or computes again */
#ifndef DT_PASSES_DIFF_H
#define DT_PASSES_DIFF_H

#include "ir/map.h"
#include "passes/passes.h"

typedef struct DtDiff DtDiff;
typedef struct DtCell DtCell;
typedef struct DtReverse DtReverse;
typedef struct DtVjp DtVjp;

/* ---- activity.c ---- */

typedef struct DtActivity {
    const DtFunc *func;
    const bool *active_in, *seeded; /* func is differentiated with respect to the inputs in
                                     * active_in, given cotangents of the results in seeded */
    bool *active, *useful;          /* per value id */
    bool *active_out;               /* per result: depends on an active input */
    bool *wanted;                   /* per input: active, and a seeded result depends on it */
    struct DtActivity *next;
} DtActivity;

/* What dt_activity_of answers for the body of a loop op, once the answers for carried values have
 * reached a fixed point. */
typedef struct DtLoopActivity {
    const DtActivity *body;
    bool *active_in, *seeded; /* of the body */
} DtLoopActivity;

/* The activity of func's values. seeded NULL: finds active values only. Equal calls return the same
 * object. */
const DtActivity *dt_activity_of(DtDiff *diff, const DtFunc *func, const bool *active_in,
                                 const bool *seeded);
/* Finds the activity of a loop's body, given for each operand of op whether it is active
 * (active_in), and for each result whether it has a cotangent (seeded, or NULL). */
DtLoopActivity dt_activity_loop(DtDiff *diff, const DtOp *op, const bool *active_in,
                                const bool *seeded);

/* ---- reverse.c ---- */

typedef struct DtDerivative {
    DtFunc *func, *fwd, *bwd;
    const DtLoop *loop; /* func is the body of this loop, else NULL */
    const bool *active_in, *seeded;
    /* per input of func: number of the result of bwd that is its cotangent, or -1 */
    int32_t *cotangent;
    struct DtDerivative *next;
} DtDerivative;

struct DtDiff {
    DtModule *module;
    DtArena *arena;
    DtActivity *activities;
    DtDerivative *derivatives;
    bool adds; /* the target's library adds biases to products */
};

/* State of differentiation for one value of the primal function. */
struct DtCell {
    DtValue *primal;
    DtValue *cotangent; /* in bwd; NULL: none yet */
    /* stands for the value in bwd until saved.c decides where it comes from */
    DtValue *placeholder;
    DtValue *handed;  /* the input of bwd through which fwd hands it over */
    DtValue *made;    /* the value in bwd that replaces the placeholder, once it exists */
    DtValue *forward; /* the value in fwd */
    /* saved.c: the cell from whose saved value this one is recomputed; NULL: it is_free */
    DtCell *root;
    bool is_free;     /* saved.c: it can be recomputed from inputs, constants and draws alone */
    bool is_input;    /* passed to bwd as it was to the function */
    bool is_result;   /* a result of the function, which the caller can hand over */
    bool needed, saved;
    bool derived; /* the backward function needs it, and computes it from other saved values */
};

/* The key of an extra value: result number k of op's forward function after op's own results. */
typedef struct DtExtra {
    const DtOp *op;
    uint64_t k;
} DtExtra;

/* State of differentiating one function. */
struct DtReverse {
    DtDiff *diff;
    DtDerivative *derivative;
    DtFunc *func, *bwd;
    const DtActivity *activity;
    bool whole; /* a library or streaming function: bwd gets its inputs and `kept`, and computes
                 * everything else again */
    DT_VEC(const DtValue *) kept; /* values of func that are saved although func is differentiated
                                   * as a whole */
    DT_VEC(DtCell *) cells; /* by id of the primal value; then the cells of extra values */
    DtMap extras;           /* cells of extra values, by DtExtra */
    DtDerivative **of_op;   /* per op of func: derivative of the callee or body, NULL if unused */
    uint32_t n_seeds;
    DT_VEC(DtCell *) placeholders; /* by input of bwd, from n_seeds on */
};

/* The differentiation of one op in the backward function. */
struct DtVjp {
    DtBuilder b; /* builds bwd with the span and path of op */
    DtReverse *reverse;
    const DtOp *op;
    uint32_t op_index;   /* in func->ops */
    DtValue **cotangent; /* per result; NULL: zero */
    const bool *active;  /* per operand: needs a cotangent */
    DtValue *
        *ret; /* per operand, as the handler left it: it may lack axes of the operand (then it is
               * constant along them), have more (they are summed), in any order */
};

typedef void DtVjpRun(DtVjp *v);

/* The derivative of func; made at the first call. */
DtDerivative *dt_diff_derive(DtDiff *diff, DtFunc *func, const DtLoop *loop, const bool *active_in,
                             const bool *seeded);

/* Values of the primal in bwd: an operand, a result, and the k-th result of the forward
 * function of op's callee or body beyond op's own results. */
DtValue *dt_diff_in(DtVjp *v, uint32_t i);
DtValue *dt_diff_out(DtVjp *v, uint32_t i);
DtValue *dt_diff_extra(DtVjp *v, const DtType *type, uint32_t k);

DtValue *dt_diff_zeros(DtBuilder *b, const DtType *type);
/* pads.c: returns sum, or an equal value with pads replaced by a concatenation. b: where it may add
 * ops. */
DtValue *dt_diff_join_pads(DtBuilder b, DtValue *sum);
DtCell *dt_diff_cell(DtReverse *r, DtValue *primal); /* a new cell for a value of the function */
DtValue *dt_diff_placeholder(DtReverse *r, DtCell *cell);

/* The handler that differentiates ops of this kind; NULL: they have no derivative. */
DtVjpRun *dt_diff_handler(DtOpKind kind);

#define DT_OP(NAME, text, inputs, class, shape, gradient, ...) DtVjpRun dt_vjp_##gradient;
#define dt_vjp_none                                                     dt_vjp_unused_
#include "ir/ops.def"
#undef dt_vjp_none
#undef DT_OP

/* ---- saved.c ---- */

/* Replaces the placeholders of bwd by saved values and recomputed ones, orders its inputs, and
 * builds fwd. */
void dt_saved_settle(DtReverse *reverse);

#endif
