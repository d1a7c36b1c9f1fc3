/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: programs of examples/, shrunk, evaluated by three parties on the same parameters
 * and inputs.
 *
 *   the interpreter (double precision)  case.c makes the values, outcome.c evaluates
 *   PyTorch (float64, models.py)        run.py compares with `oracle export`, writes recorded/
 *   generated code (float32)            planned.c compiles, loads and runs the plan
 *
 * `oracle check` compares the interpreter with what PyTorch once said, so that no PyTorch is
 * needed; `oracle plan` compares the generated code with the interpreter. Dropout is on: all
 * three draw the same numbers.
 *
 * The measure, for each tensor: |difference| <= tolerance * max(|reference|, 1e-3 * |all
 * gradients|) in Euclidean norms, since some true gradients (of the bias of keys) are zero.
 *
 * A case that computes in 16 bits is evaluated by the interpreter with every result rounded to its
 * dtype. PyTorch stays in float64, and says beside that how far it is from that when it computes
 * everything in 16 bits: over all gradients together the interpreter may be twice as far.
 * Tolerances are multiples of the unit roundoff of the dtype, see sample_tolerance. */
#ifndef DT_TESTS_ORACLE_H
#define DT_TESTS_ORACLE_H

#include "frontend/lower.h"
#include "ir/interp.h"

#include <jansson.h>

/* One entry of cases.json. */
typedef struct Case {
    const char *name, *path;
    DtOption dims[24], sets[8];
    uint32_t n_dims, n_sets;
    const char *parallel; /* block of the program for which the plan is made; NULL: see json */
    /* "ranges": integer inputs have values in [lo, hi); "micro", "ranks": of the plan, 1 if
     * absent */
    const json_t *json;
} Case;

/* An input of the program and its values. */
typedef struct Input {
    const char *name;
    DtTensor *tensor;
} Input;

/* A case, lowered and differentiated, with values. */
typedef struct Sample {
    const Case *of;
    DtArena *arena;
    DtDiags *diags;
    DtProgram *program;
    DtTensor **stores; /* by number of the store; gradients are NULL until they are computed */
    DT_VEC(Input) inputs;
    uint64_t seed;
    uint32_t step;
    double scale;    /* dtype of the loss that is differentiated, and hence of gradients */
    double roundoff; /* half the distance from 1 to the next number of the dtype; 0: f32 */
} Sample;

/* As case_kind, but for a store whose master copy nobody asked for (pass `narrow`): it is the
 * rounding of the copy, and neither recorded nor given to others; the copy is the parameter. */
#define OUTCOME_ROUNDED "rounded"
const char *outcome_kind(const Sample *s, const DtStore *store);

/* A gradient, or the value of a parameter, its master copy, a moment or a state after the
 * optimizer's step. */
typedef struct Result {
    const char *name; /* names "grad/PATH", "new_param/PATH", "new_moment1/PATH", "new_state/PATH"
                       * ... */
    const DtStore *store; /* the store in the serial program */
    DtTensor *tensor;
} Result;

typedef struct Outcome {
    double loss, norm; /* norm: that of all gradients together, before clipping and without the loss
                        * scale */
    double eval;       /* the loss without dropout, with the states before the step */
    DT_VEC(Result) list;
    DT_VEC(Result) predicted; /* results of the model without dropout; store NULL */
} Outcome;

enum { ORACLE_STEP = 3, ORACLE_PROJECTIONS = 3 };
extern const double oracle_lr; /* learning rate of the optimizer's step: large enough to change f32
                                * values visibly */
extern const double oracle_exact, oracle_single; /* tolerances: double and single precision */

_Noreturn void oracle_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- case.c ---- */

/* Reads all cases of a file, in order. They point into the returned object, which the caller
 * frees. */
json_t *case_read_all(DtArena *arena, const char *path, Case **ret_cases, uint32_t *ret_n);
/* Lowers the program as the case says, for this block or "none". Ends the process on errors. */
DtProgram *case_lower(DtArena *arena, DtDiags *diags, const Case *c, const char *parallel);
/* Makes everything about one case; free it with sample_free. */
void sample_make(Sample *sample, const Case *c);
void sample_free(Sample *sample);
/* The tensor of that name; NULL: there is none. */
DtTensor *sample_input(const Sample *sample, const char *name);
const char *case_kind(const DtStore *store);                    /* "param", "grad", "moment1" ... */
bool case_is_given(const DtStore *store); /* whether it has a value before the step */
/* Tolerance of tensors: `single` in f32. In 16 bits `units` of roundoff: each operation of a chain
 * may be off by one; the largest measured error is half of the tolerance. */
double sample_tolerance(const Sample *sample, double single, double units);

/* ---- outcome.c ---- */

/* Entries "grad", "update", "eval" and "predict" in double precision, rounded where the case
 * computes in 16 bits; all with the initial parameters and states. */
void outcome_evaluate(Sample *sample, Outcome *ret_outcome);
double outcome_norm(const DtTensor *tensor);
/* The product <tensor, direction number k>: elements of the direction are 2 u - 1, where u is
 * Philox with key k, counted row-major. */
double outcome_project(const DtTensor *tensor, uint64_t k);

/* The state of a comparison. */
typedef struct Measure {
    double tolerance;
    bool verbose, good; /* good: no difference has been too large so far */
    double worst;       /* largest relative difference so far */
} Measure;

/* Compares the norm of a difference with the norm of the reference. all: the norm of all gradients
 * if the tensor is a gradient, else 0. Prints a line on failure, or always if verbose. */
void outcome_compare(Measure *measure, const char *what, double difference, double reference,
                     double all);

/* ---- export.c ---- */

/* A safetensors file: param/PATH, moment1/PATH, moment2/PATH, state/PATH ..., input/NAME, all
 * results, value/loss, value/norm, value/eval. Gradients are without the loss scale. */
void export_write(const Sample *sample, const Outcome *outcome, const char *path);

/* ---- recorded.c ---- */

/* Compares the interpreter's values with recorded/NAME.json. */
void recorded_check(const char *folder, const Case *c, Measure *measure);

/* ---- planned.c ---- */

/* Compiles the case to a plan, loads and runs it, and compares the results with the
 * interpreter's. */
void planned_check(const Case *c, bool unfused, Measure *measure);

#endif
