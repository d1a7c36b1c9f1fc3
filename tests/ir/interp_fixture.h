/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the interpreter share: a module with one function under construction, types and
 * tensors from short texts, and reading elements by axis names. The latter uses no code of the
 * interpreter. */
#ifndef DT_TESTS_INTERP_FIXTURE_H
#define DT_TESTS_INTERP_FIXTURE_H

#include "ir/interp.h"
#include "tests/type_text.h"

typedef struct Fixture {
    DtArena *arena;
    DtModule *module;
    DtFunc *func;
    DtBuilder b;
    DtInterp interp;
    uint32_t n_args;
    DtTensor *args[16];
    DtTensor *results[16];
} Fixture;

Fixture *fixture_new(void); /* freed by fixture_free, with everything made from it */
void fixture_free(Fixture *f);

/* The number of orders in which the axes of the type can be. */
int order_count(const DtType *type);

/* An argument of the function whose tensor is filled with: distinct pseudo-random quarters in [-8,
 * 8), whole for integers, 0 or 1 for bool, equal for equal axes and seed whatever the order of the
 * axes; */
DtValue *arg_random(Fixture *f, const DtType *type, int seed);
/* these values in memory order (as many as the type has elements); */
DtValue *arg_values(Fixture *f, const DtType *type, const double *values);
/* a scalar. */
DtValue *arg_scalar(Fixture *f, DtDtype dtype, double value);

/* Makes the value a result of the function, runs the function, and returns the value's tensor. */
DtTensor *run(Fixture *f, DtValue *value);

/* The element at these named coordinates. Names that the tensor does not have are ignored; all axes
 * that it has must be named. */
typedef struct Place {
    const char *axis;
    int64_t at;
} Place;
double element(const DtTensor *tensor, int n, const Place *places);
#define P(axis, at) \
    {               \
        axis, at    \
    }
#define AT(tensor, ...) \
    element((tensor), (int)DT_COUNT(((Place[]){__VA_ARGS__})), (Place[]){__VA_ARGS__})

/* Equal values, or both NaN; -0 differs from 0. */
bool same_number(double a, double b);
/* Compares two tensors in memory order; prints a message at the first difference. */
void expect_values(const DtTensor *tensor, const double *values, int n);

#endif
