/* SPDX-License-Identifier: Apache-2.0 */
/* The generated code against the interpreter: the case is compiled to a plan for one rank in memory, loaded
 * into this process, given the same parameters and inputs, and entry "step" is run. The runtime's readers of
 * data are replaced: a read copies the sample's inputs. */
#include "oracle.h"

#include "codegen/codegen.h"
#include "passes/passes.h"
#include "runtime/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Planned {
    DtArena *arena;
    DtPlan plan;
    DtRunOptions options;
    DtRank rank;
    int fd;
} Planned;

static void require(const Case *c, const DtStatus *status)
{
    if (!dt_status_ok(status))
        oracle_fail("%s: %s", c->name, status->message);
}

/* ---- data ---- */

struct DtData {
    const DtPlan *plan;
    const DtPlanReader *reader;
};

static const Sample *being_read; /* the runtime's interface has no place for it */

DtStatus dt_data_open(const DtRunOptions *options, const DtPlan *plan, uint32_t reader, DtData **ret_data)
{
    (void)options;
    *ret_data = malloc(sizeof **ret_data);
    **ret_data = (DtData){plan, &plan->readers[reader]};
    return DT_OK;
}

void dt_data_close(DtData *data) { free(data); }

int64_t dt_data_batches(const DtData *data)
{
    (void)data;
    return 1;
}

/* Axes of the plan are those of the type, in the same order. */
static void expect_axes(const DtPlan *plan, const char *name, uint32_t first, uint32_t n, const DtType *type)
{
    bool same = n == type->rank;
    for (uint32_t i = 0; same && i < n; i++)
        same = strcmp(dt_plan_str(plan, plan->axes[first + i].name), type->axes[i].name) == 0 &&
               plan->axes[first + i].local == type->axes[i].extent;
    if (!same)
        oracle_fail("%s: `%s` has other axes in the plan", being_read->of->name, name);
}

static void store_values(const DtTensor *tensor, uint32_t dtype, const char *name, void *ret_values)
{
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++) {
        const double value = tensor->at[i];
        switch (dtype) {
        case DT_PLAN_F32: ((float *)ret_values)[i] = (float)value; break;
        case DT_PLAN_I32: ((int32_t *)ret_values)[i] = (int32_t)value; break;
        case DT_PLAN_BOOL: ((uint8_t *)ret_values)[i] = value != 0; break;
        default: oracle_fail("`%s` has dtype %s in the plan", name, dt_kinds_name(dtype));
        }
    }
}

DtStatus dt_data_read(DtData *data, int64_t step, int64_t first, int64_t rows, char *const *inputs)
{
    const DtPlan *plan = data->plan;
    for (uint32_t i = 0; i < data->reader->n_inputs; i++) {
        const DtPlanInput *input = &plan->inputs[data->reader->first_input + i];
        const char *name = dt_plan_str(plan, input->name);
        const DtTensor *tensor = sample_input(being_read, name);
        if (tensor == NULL || step != ORACLE_STEP || first != 0 || rows != tensor->type->axes[0].extent)
            oracle_fail("%s: unexpected read of `%s`: step %lld, rows %lld from %lld", being_read->of->name,
                        name, (long long)step, (long long)rows, (long long)first);
        expect_axes(plan, name, input->first_axis, input->n_axes, tensor->type);
        store_values(tensor, input->dtype, name, inputs[i]);
    }
    return DT_OK;
}

/* ---- compiling and loading ---- */

static void compile(Planned *p, const Case *c, bool unfused)
{
    DtDiags *diags = dt_diag_new(p->arena);
    DtProgram *program = case_lower(p->arena, diags, c);
    DtPlanBuilder *builder = dt_write_new(p->arena);
    const DtPassContext context = {.train = program->train,
                                   .kernels = dt_codegen_kernels,
                                   .n_kernels = dt_codegen_n_kernels};
    const DtCodegenOptions options = {.target = "cpu", .source = c->path, .source_folder = ".",
                                      .compiler = "oracle", .unfused = unfused, .logical = ""};
    uint8_t *bytes;
    size_t len;
    dt_passes_run(program->module, &context, NULL, NULL);
    DtStatus status = dt_codegen_plan(program, &options, builder);
    require(c, &status);
    dt_write_bytes(builder, &bytes, &len);
    status = dt_read_bytes(bytes, len, &p->plan);
    require(c, &status);
}

static void load(Planned *p, const Sample *s)
{
    const DtModule *module = s->program->module;
    p->options = (DtRunOptions){.plan_path = "oracle.plan", .steps = -1, .quiet = true};
    DtStatus status = dt_shared_create(&p->plan, 0, &p->fd);
    require(s->of, &status);
    status = dt_load_rank(&p->options, &p->plan, 0, p->fd, &p->rank);
    require(s->of, &status);
    p->rank.step = s->step;
    for (uint32_t i = 0; i < p->plan.n_stores; i++) {
        const DtPlanStore *store = &p->plan.stores[i];
        const char *path = dt_plan_str(&p->plan, store->path);
        const DtTensor *values = NULL;
        for (uint32_t k = 0; k < module->stores.n; k++)
            if (s->stores[k] && strcmp(module->stores.at[k]->path, path) == 0)
                values = s->stores[k];
        if (store->kind != DT_PLAN_PARAM && store->kind != DT_PLAN_STATE)
            continue;
        if (values == NULL)
            oracle_fail("%s: the plan has a parameter `%s`", s->of->name, path);
        expect_axes(&p->plan, path, store->first_axis, store->n_axes, values->type);
        store_values(values, store->dtype, path, p->rank.arenas[store->arena] + store->offset);
    }
}

/* ---- comparing ---- */

static const DtPlanStore *gradient_of(const DtPlan *plan, const char *path)
{
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if (store->kind == DT_PLAN_GRAD && strcmp(dt_plan_str(plan, plan->stores[store->of].path), path) == 0)
            return store;
    }
    return NULL;
}

static void compare_gradient(const Planned *p, const Sample *s, const Gradient *g, Measure *measure)
{
    const char *path = g->param->path;
    const DtPlanStore *store = gradient_of(&p->plan, path);
    double squares = 0;
    if (store == NULL || store->dtype != DT_PLAN_F32)
        oracle_fail("%s: the plan has no f32 gradient of `%s`", s->of->name, path);
    expect_axes(&p->plan, path, store->first_axis, store->n_axes, g->tensor->type);
    const float *values = (const float *)(const void *)(p->rank.arenas[store->arena] + store->offset);
    for (int64_t i = 0; i < dt_type_elements(g->tensor->type); i++)
        squares += pow((double)values[i] - g->tensor->at[i], 2);
    gradients_compare(measure, path, sqrt(squares), gradients_norm(g->tensor), measure->all);
}

static void compare(const Planned *p, const Sample *s, const Gradients *g, Measure *measure)
{
    const DtPlanMetric *metric = dt_exec_metric(&p->plan, "step", "loss");
    if (metric == NULL)
        oracle_fail("%s: the plan has no loss", s->of->name);
    const double loss = dt_exec_scalar(&p->rank, metric);
    measure->all = g->norm;
    gradients_compare(measure, "loss", fabs(loss - g->loss), g->loss, 0);
    for (uint32_t i = 0; i < g->list.n; i++)
        compare_gradient(p, s, &g->list.at[i], measure);
}

void planned_check(const Case *c, bool unfused, Measure *measure)
{
    Sample sample;
    Gradients gradients;
    Planned planned = {.arena = dt_arena_new()};
    sample_make(&sample, c);
    being_read = &sample;
    gradients_evaluate(&sample, &gradients);
    compile(&planned, c, unfused);
    load(&planned, &sample);
    if (!dt_exec_entry(&planned.rank, "step"))
        oracle_fail("%s: %s", c->name, planned.rank.failure.message);
    compare(&planned, &sample, &gradients, measure);
    dt_load_close(&planned.rank);
    close(planned.fd);
    sample_free(&sample);
    dt_arena_free(planned.arena);
}
