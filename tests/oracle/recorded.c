/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch said, kept as a few numbers per gradient: its norm and its products with fixed random
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

static void check_tensor(DtArena *arena, const json_t *tensor, const Gradient *g, Measure *measure)
{
    const json_t *projections = json_object_get(tensor, "projections");
    const double norm = number(json_object_get(tensor, "norm"), g->param->path);
    gradients_compare(measure, g->param->path, fabs(gradients_norm(g->tensor) - norm), norm,
                      measure->all);
    if (json_array_size(projections) != ORACLE_PROJECTIONS)
        oracle_fail("`%s` has not %d projections", g->param->path, ORACLE_PROJECTIONS);
    for (uint32_t k = 0; k < ORACLE_PROJECTIONS; k++) {
        const double want = number(json_array_get(projections, k), g->param->path);
        const char *what = dt_arena_printf(arena, "%s, direction %u", g->param->path, k);
        gradients_compare(measure, what, fabs(gradients_project(g->tensor, k) - want), norm,
                          measure->all);
    }
}

static void compare(const Sample *s, const Gradients *g, const json_t *root, const char *path,
                    Measure *measure)
{
    const double loss = number(json_object_get(root, "loss"), "the loss");
    const json_t *tensors = json_object_get(root, "tensors");
    measure->all = number(json_object_get(root, "norm"), "the norm of all gradients");
    gradients_compare(measure, "loss", fabs(g->loss - loss), loss, 0);
    for (uint32_t i = 0; i < g->list.n; i++) {
        const json_t *tensor = json_object_get(tensors, g->list.at[i].param->path);
        if (tensor == NULL)
            oracle_fail("%s knows no gradient of `%s`", path, g->list.at[i].param->path);
        check_tensor(s->arena, tensor, &g->list.at[i], measure);
    }
    if (json_object_size(tensors) != g->list.n)
        oracle_fail("%s has %zu gradients, the program %u", path, json_object_size(tensors),
                    g->list.n);
}

void recorded_check(const char *folder, const Case *c, Measure *measure)
{
    Sample sample;
    Gradients gradients;
    json_error_t error;
    sample_make(&sample, c);
    const char *path = dt_arena_printf(sample.arena, "%s/%s.json", folder, c->name);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL)
        oracle_fail("%s:%d: %s", path, error.line, error.text);
    if (!json_equal(json_object_get(root, "case"), c->json))
        oracle_fail("%s was recorded for another form of the case; record it again with run.sh",
                    path);
    gradients_evaluate(&sample, &gradients);
    compare(&sample, &gradients, root, path, measure);
    json_decref(root);
    sample_free(&sample);
}
