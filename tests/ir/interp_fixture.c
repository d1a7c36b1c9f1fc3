/* SPDX-License-Identifier: Apache-2.0 */
#include "interp_fixture.h"

#include "tests/ir/random_elements.h"

#include "base/hash.h"
#include "base/intern.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Fixture *fixture_new(void)
{
    DtArena *arena = dt_arena_new();
    Fixture *f = DT_NEW(arena, Fixture);
    f->arena = arena;
    f->module = dt_graph_module(arena, NULL);
    f->func = dt_graph_func(f->module, "tested", DT_FUNC_FN);
    f->b.func = f->func;
    f->interp.arena = arena;
    return f;
}

void fixture_free(Fixture *f) { dt_arena_free(f->arena); }

int order_count(const DtType *type)
{
    int count = 1;
    for (int i = 2; i <= type->rank; i++)
        count *= i;
    return count;
}

static DtValue *add_arg(Fixture *f, DtTensor *tensor)
{
    cr_assert(f->n_args < DT_COUNT(f->args));
    f->args[f->n_args++] = tensor;
    return dt_graph_arg(f->func, tensor->type, NULL);
}

DtValue *arg_random(Fixture *f, const DtType *type, int seed)
{
    return add_arg(f, random_elements(f->arena, type, seed));
}

DtValue *arg_values(Fixture *f, const DtType *type, const double *values)
{
    DtTensor *tensor = dt_interp_tensor(f->arena, type);
    memcpy(tensor->at, values, sizeof(double) * (size_t)dt_type_elements(type));
    return add_arg(f, tensor);
}

DtValue *arg_scalar(Fixture *f, DtDtype dtype, double value)
{
    return arg_values(f, dt_type_scalar(dtype), &value);
}

DtTensor *run(Fixture *f, DtValue *value)
{
    uint32_t result = f->func->results.n;
    cr_assert(result < DT_COUNT(f->results));
    dt_graph_return(f->func, value);
    dt_interp_run(&f->interp, f->func, f->args, f->results);
    cr_assert_eq(f->results[result]->type, value->type);
    return f->results[result];
}

double element(const DtTensor *tensor, int n, const Place *places)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < tensor->type->rank; i++) {
        const DtAxis *axis = &tensor->type->axes[i];
        int64_t at = -1;
        for (int k = 0; k < n; k++)
            if (strcmp(places[k].axis, axis->name) == 0)
                at = places[k].at;
        cr_assert(at >= 0 && at < axis->extent, "axis %s at %lld", axis->name, (long long)at);
        offset = offset * axis->extent + at;
    }
    return tensor->at[offset];
}

bool same_number(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

void expect_values(const DtTensor *tensor, const double *values, int n)
{
    cr_assert_eq(dt_type_elements(tensor->type), n);
    for (int i = 0; i < n; i++)
        cr_assert(same_number(tensor->at[i], values[i]), "element %d is %.17g, not %.17g", i,
                  tensor->at[i], values[i]);
}
