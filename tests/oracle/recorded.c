/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch said, kept as a few numbers per tensor: its norm and its products with fixed random
 * directions, 17 digits each. */
#include "oracle.h"

#include <math.h>
#include <string.h>

static double number(const json_t *json, const char *what)
{
    if (!json_is_number(json))
        oracle_fail("%s is not a number", what);
    return json_number_value(json);
}

static void check_tensor(DtArena *arena, const json_t *tensors, const Result *r, double all,
                         Measure *measure)
{
    const json_t *tensor = json_object_get(tensors, r->name);
    const json_t *projections = json_object_get(tensor, "projections");
    if (tensor == NULL)
        oracle_fail("`%s` is not recorded", r->name);
    const double norm = number(json_object_get(tensor, "norm"), r->name);
    outcome_compare(measure, r->name, fabs(outcome_norm(r->tensor) - norm), norm, all);
    if (json_array_size(projections) != ORACLE_PROJECTIONS)
        oracle_fail("`%s` has not %d projections", r->name, ORACLE_PROJECTIONS);
    for (uint32_t k = 0; k < ORACLE_PROJECTIONS; k++) {
        const double want = number(json_array_get(projections, k), r->name);
        const char *what = dt_arena_printf(arena, "%s, direction %u", r->name, k);
        outcome_compare(measure, what, fabs(outcome_project(r->tensor, k) - want), norm, all);
    }
}

static void compare(const Sample *s, const Outcome *o, const json_t *root, const char *path,
                    Measure *measure)
{
    const double loss = number(json_object_get(root, "loss"), "the loss");
    const double norm = number(json_object_get(root, "norm"), "the norm of all gradients");
    const json_t *tensors = json_object_get(root, "tensors");
    outcome_compare(measure, "loss", fabs(o->loss - loss), loss, 0);
    outcome_compare(measure, "gradient norm", fabs(o->norm - norm), norm, 0);
    for (uint32_t i = 0; i < o->list.n; i++) {
        const double all = o->list.at[i].store->kind == DT_STORE_GRAD ? norm : 0;
        check_tensor(s->arena, tensors, &o->list.at[i], all, measure);
    }
    for (uint32_t i = 0; i < o->predicted.n; i++)
        check_tensor(s->arena, tensors, &o->predicted.at[i], 0, measure);
    if (json_object_size(tensors) != o->list.n + o->predicted.n)
        oracle_fail("%s has %zu results, the program %u", path, json_object_size(tensors),
                    o->list.n + o->predicted.n);
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
    compare(&sample, &outcome, root, path, measure);
    json_decref(root);
    sample_free(&sample);
}
