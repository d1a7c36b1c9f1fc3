/* SPDX-License-Identifier: Apache-2.0 */
/* Checking derivatives by central differences in double precision.
 *
 * A check holds one function under construction. `check_gradients` differentiates it, runs forward
 * and backward part in the interpreter, and compares <cotangent of inputs, direction> with the
 * difference quotient of <cotangent of results, results> along random directions: all inputs
 * together, then each alone; and with what forward derivatives (ir/tangent.h) make of the
 * direction. The step is 1e-5; inputs lie on a lattice whose points are more than
 * ten steps from each other, from 0 and from where the tested functions have corners. */
#ifndef DT_TESTS_GRADCHECK_H
#define DT_TESTS_GRADCHECK_H

#include "ir/interp.h"
#include "passes/passes.h"
#include "tests/type_text.h"

enum { CHECK_INPUTS = 64 };

typedef struct Check {
    DtArena *arena;
    DtModule *module;
    DtFunc *func;
    DtBuilder b;
    DtInterp interp;
    uint32_t n;
    DtTensor *in[CHECK_INPUTS]; /* the inputs of func, in order */
    unsigned seed;
} Check;

Check *check_new(void);
void check_free(Check *c);

/* Another function in the module, to be called or looped over; c->b builds in it until check_main.
 * */
DtFunc *check_func(Check *c, const char *name, DtFuncKind kind);
void check_main(Check *c);

/* Arguments of the function: distinct lattice points in (-1.5, 1.5); in (0.3, 2); integers in [lo,
 * hi); random bools. */
DtValue *input(Check *c, const char *axes);
DtValue *input_positive(Check *c, const char *axes);
DtValue *input_integers(Check *c, const char *axes, int lo, int hi);
DtValue *input_bool(Check *c, const char *axes);
/* The same for a parameter. */
DtValue *input_param(Check *c, const char *axes, const char *path);

/* Fills a tensor with distinct lattice points between lo and hi. */
void fill_lattice(DtTensor *tensor, double lo, double hi, unsigned *seed);

/* Runs the forward and the backward part of func: ret_results (of func), ret_cotangents (for each
 * wanted input, from bwd). */
void run_backward(DtInterp *interp, DtFunc *bwd, DtTensor *const *in, DtTensor *const *seeds,
                  DtTensor **ret_results, DtTensor **ret_cotangents);

/* The operands of bwd, from the forward part's inputs and results and the cotangents of the
 * results. */
void backward_operands(const DtFunc *bwd, DtTensor *const *in, DtTensor *const *forward,
                       DtTensor *const *seeds, DtTensor **ret_operands);

/* Checks that the module is valid according to the verifier; otherwise the test fails with its
 * report. */
void expect_valid(const DtModule *module);

/* Compares, and returns the backward function. expect_wanted: how many inputs must get a cotangent.
 * */
DtFunc *check_gradients(Check *c, uint32_t expect_wanted);
/* The same for a given function and given inputs. name: for messages. */
DtFunc *check_function(DtInterp *interp, DtFunc *func, DtTensor *const *in, unsigned seed,
                       const char *name);

double dot_tensors(const DtTensor *a, const DtTensor *b);
double max_difference(const DtTensor *a, const DtTensor *b);

#endif
