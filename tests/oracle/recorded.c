/* SPDX-License-Identifier: Apache-2.0 */
/* The results of PyTorch, stored as a few numbers for each tensor: its norm, and its products with
 * fixed random directions, with 17 digits each. */
#include "oracle.h"

#include <math.h>
#include <string.h>

static double number(const json_t *json, const char *what)
{
    if (!json_is_number(json))
        oracle_fail("%s is not a number", what);
    return json_number_value(json);
}

/* scale: of the result; all: the norm of all gradients, for a gradient. ret_squares: the squared
 * difference along the directions is added; for a difference d its expectation is |d|^2. */
static void check_tensor(DtArena *arena, const json_t *tensors, const Result *r, double scale,
                         double all, Measure *measure, double *ret_squares)
{
    const json_t *tensor = json_object_get(tensors, r->name);
    const json_t *projections = json_object_get(tensor, "projections");
    if (tensor == NULL)
        oracle_fail("`%s` is not recorded", r->name);
    const double norm = number(json_object_get(tensor, "norm"), r->name);
    outcome_compare(measure, r->name, fabs(outcome_norm(r->tensor) / scale - norm), norm, all);
    if (json_array_size(projections) != ORACLE_PROJECTIONS)
        oracle_fail("`%s` has not %d projections", r->name, ORACLE_PROJECTIONS);
    for (uint32_t k = 0; k < ORACLE_PROJECTIONS; k++) {
        const double want = number(json_array_get(projections, k), r->name);
        const char *what = dt_arena_printf(arena, "%s, direction %u", r->name, k);
        const double off = fabs(outcome_project(r->tensor, k) / scale - want);
        outcome_compare(measure, what, off, norm, all);
        *ret_squares += off * off;
    }
}

/* Checks the error in 16 bits: it may be at most twice that of PyTorch computing everything in such
 * a dtype, relative to float64. */
static void check_error(const Sample *s, const json_t *root, double off, Measure *measure)
{
    if (s->roundoff == 0)
        return;
    const double most = 2 * number(json_object_get(root, "error"), "the error of PyTorch");
    measure->good = measure->good && off <= most;
    if (measure->verbose || !(off <= most))
        printf("%-4s all gradients are %.3g off; at most %.3g\n", off <= most ? "" : "BAD", off,
               most);
}

static void compare(const Sample *s, const Outcome *o, const json_t *root, const char *path,
                    Measure *measure)
{
    const double loss = number(json_object_get(root, "loss"), "the loss");
    const double norm = number(json_object_get(root, "norm"), "the norm of all gradients");
    const json_t *tensors = json_object_get(root, "tensors");
    outcome_compare(measure, "loss", fabs(o->loss - loss), loss, 0);
    outcome_compare(measure, "gradient norm", fabs(o->norm - norm), norm, 0);
    const double eval = number(json_object_get(root, "eval"), "the loss of `eval`");
    outcome_compare(measure, "eval", fabs(o->eval - eval), eval, 0);
    double squares = 0, ignored = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->list.n; i++) {
        if (strcmp(outcome_kind(s, o->list.at[i].store), OUTCOME_ROUNDED) == 0)
            continue;
        n++;
        const bool is_grad = o->list.at[i].store->kind == DT_STORE_GRAD;
        check_tensor(s->arena, tensors, &o->list.at[i], is_grad ? s->scale : 1, is_grad ? norm : 0,
                     measure, is_grad ? &squares : &ignored);
    }
    check_error(s, root, sqrt(squares) / norm, measure);
    for (uint32_t i = 0; i < o->predicted.n; i++)
        check_tensor(s->arena, tensors, &o->predicted.at[i], 1, 0, measure, &ignored);
    if (json_object_size(tensors) != n + o->predicted.n)
        oracle_fail("%s has %zu results, the program %u", path, json_object_size(tensors),
                    n + o->predicted.n);
}

void recorded_check(const char *folder, const Case *c, Measure *measure)
{
    Sample sample;
    Outcome outcome;
    json_error_t error;
    sample_make(&sample, c);
    const char *path = dt_arena_printf(sample.arena, "%s/%s.json", folder, c->name);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL)
        oracle_fail("%s:%d: %s", path, error.line, error.text);
    if (!json_equal(json_object_get(root, "case"), c->json))
        oracle_fail("%s was recorded for another form of the case; record it again with run.sh",
                    path);
    outcome_evaluate(&sample, &outcome);
    measure->tolerance = sample_tolerance(&sample, oracle_exact, 32);
    compare(&sample, &outcome, root, path, measure);
    json_decref(root);
    sample_free(&sample);
}
