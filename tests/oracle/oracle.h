/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: programs of examples/, shrunk, evaluated by three parties on the same parameters and inputs.
 *
 *   the interpreter  (double precision)          case.c makes the values, gradients.c evaluates
 *   PyTorch          (float64, models.py)        run.py compares with `oracle export` and writes recorded/
 *   generated code   (float32)                   planned.c compiles, loads and runs entry "step"
 *
 * `oracle check` compares the interpreter with what PyTorch once said, so that no PyTorch is needed;
 * `oracle plan` compares the generated code with the interpreter. Dropout is on: all three draw the same
 * numbers.
 *
 * The measure, for each tensor: |difference| <= tolerance * max(|reference|, 1e-3 * |all gradients|) in
 * Euclidean norms, since some true gradients (of the bias of keys) are zero. */
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
    const json_t *
        json; /* "ranges": values of integer inputs are in [lo, hi); "micro", "ranks": of the plan, 1 without */
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
    DtTensor **stores; /* by number of the store; NULL unless a parameter or state */
    DT_VEC(Input) inputs;
    uint64_t seed;
    uint32_t step;
} Sample;

/* A gradient and the parameter that it belongs to. */
typedef struct Gradient {
    const DtStore *param;
    DtTensor *tensor;
} Gradient;

typedef struct Gradients {
    double loss, norm; /* norm: of all gradients together */
    DT_VEC(Gradient) list;
} Gradients;

enum { ORACLE_STEP = 3, ORACLE_PROJECTIONS = 3 };
extern const double oracle_exact, oracle_single; /* tolerances: double and single precision */

_Noreturn void oracle_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- case.c ---- */

/* All cases of a file, in order. */
void case_read_all(DtArena *arena, const char *path, Case **ret_cases, uint32_t *ret_n);
/* Lowers the program as the case says, for one rank; everything in f32. Ends the process on errors. */
DtProgram *case_lower(DtArena *arena, DtDiags *diags, const Case *c);
/* Everything about one case; free with sample_free. */
void sample_make(Sample *sample, const Case *c);
void sample_free(Sample *sample);
DtTensor *sample_input(const Sample *sample, const char *name); /* NULL: none of that name */

/* ---- gradients.c ---- */

/* Entry "grad" in double precision. */
void gradients_evaluate(Sample *sample, Gradients *ret_gradients);
double gradients_norm(const DtTensor *tensor);
/* <tensor, direction number k>: elements are 2 u - 1 of Philox with key k, counted row-major. */
double gradients_project(const DtTensor *tensor, uint64_t k);

/* A comparison under way. all: norm of all gradients. */
typedef struct Measure {
    double tolerance, all;
    bool verbose, good; /* good: nothing has failed so far */
    double worst;       /* largest relative difference so far */
} Measure;

/* One norm of a difference against the norm of the reference; for the loss all is 0. Prints a line on failure,
 * or always if verbose. */
void gradients_compare(Measure *measure, const char *what, double difference, double reference,
                       double all);

/* ---- export.c ---- */

/* Parameters, inputs, loss and gradients as a safetensors file: param/PATH, input/NAME, grad/PATH, loss. */
void export_write(const Sample *sample, const Gradients *gradients, const char *path);

/* ---- recorded.c ---- */

/* Compares with recorded/NAME.json. */
void recorded_check(const char *folder, const Case *c, Measure *measure);

/* ---- planned.c ---- */

/* Compiles, loads, runs and compares. */
void planned_check(const Case *c, bool unfused, Measure *measure);

#endif
