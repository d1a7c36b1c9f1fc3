/* SPDX-License-Identifier: Apache-2.0 */
/* The generated code against the interpreter: the case is compiled to a plan in memory, loaded into this
 * process, one thread per rank, given the same parameters and inputs, and entry "step" is run. The runtime's
 * readers of data are replaced: a read copies the sample's inputs. */
#include "oracle.h"

#include "base/intern.h"
#include "codegen/codegen.h"
#include "passes/passes.h"
#include "runtime/runtime.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RANKS = 8 };

typedef struct Planned {
    DtArena *arena;
    DtPlan plan;
    DtRunOptions options;
    DtRank ranks[MAX_RANKS];
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

DtStatus dt_data_open(const DtRunOptions *options, const DtPlan *plan, uint32_t reader,
                      DtData **ret_data)
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
static void expect_axes(const DtPlan *plan, const char *name, uint32_t first, uint32_t n,
                        const DtType *type)
{
    bool same = n == type->rank;
    for (uint32_t i = 0; same && i < n; i++)
        same = strcmp(dt_plan_str(plan, plan->axes[first + i].name), type->axes[i].name) == 0 &&
               plan->axes[first + i].extent == type->axes[i].extent;
    if (!same)
        oracle_fail("%s: `%s` has other axes in the plan", being_read->of->name, name);
}

/* Elements first .. first + n - 1. */
static void store_values(const DtTensor *tensor, int64_t first, int64_t n, uint32_t dtype,
                         const char *name, void *ret_values)
{
    for (int64_t i = 0; i < n; i++) {
        const double value = tensor->at[first + i];
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
        if (tensor == NULL || step != ORACLE_STEP || first < 0 ||
            first + rows > tensor->type->axes[0].extent)
            oracle_fail("%s: unexpected read of `%s`: step %lld, rows %lld from %lld",
                        being_read->of->name, name, (long long)step, (long long)rows,
                        (long long)first);
        expect_axes(plan, name, input->first_axis, input->n_axes, tensor->type);
        const int64_t row = dt_type_elements(tensor->type) / tensor->type->axes[0].extent;
        store_values(tensor, first * row, rows * row, input->dtype, name, inputs[i]);
    }
    return DT_OK;
}

/* ---- compiling and loading ---- */

static int64_t count_of(const Case *c, const char *key, int64_t most)
{
    const json_t *json = json_object_get(c->json, key);
    const int64_t n = json ? json_integer_value(json) : 1;
    if (n < 1 || n > most)
        oracle_fail("%s: bad number of %s", c->name, key);
    return n;
}

/* The batch over as many ranks and micro-batches as the case asks for. */
static DtParallelConfig *layout_of(DtArena *arena, const Case *c)
{
    DtParallelConfig *layout = DT_NEW(arena, DtParallelConfig);
    *layout = (DtParallelConfig){.name = "oracle", .micro_axis = dt_intern("batch")};
    layout->micro = count_of(c, "micro", 1000);
    const int64_t ranks = count_of(c, "ranks", MAX_RANKS);
    if (ranks == 1)
        return layout;
    const DtShard shard = {
        .axes = {dt_intern("batch")}, .n_axes = 1, .mesh = {dt_intern("data")}, .n_mesh = 1};
    DT_PUSH(arena, layout->shards, shard);
    layout->mesh = (DtMesh){.n = 1, .axes = {{.name = dt_intern("data"), .size = ranks}}};
    return layout;
}

static void compile(Planned *p, const Case *c, bool unfused)
{
    DtDiags *diags = dt_diag_new(p->arena);
    DtProgram *program = case_lower(p->arena, diags, c);
    DtPlanBuilder *builder = dt_write_new(p->arena);
    program->parallel = layout_of(p->arena, c);
    const DtPassContext context = {.train = program->train,
                                   .parallel = program->parallel,
                                   .kernels = dt_codegen_kernels,
                                   .n_kernels = dt_codegen_n_kernels};
    const DtCodegenOptions options = {.target = "cpu",
                                      .source = c->path,
                                      .source_folder = ".",
                                      .compiler = "oracle",
                                      .unfused = unfused,
                                      .logical = ""};
    uint8_t *bytes;
    size_t len;
    dt_passes_run(program->module, &context, NULL, NULL);
    if (dt_diag_errors(diags)) {
        dt_diag_print(diags, stderr, false);
        oracle_fail("%s cannot be placed", c->name);
    }
    DtStatus status = dt_codegen_plan(program, &options, builder);
    require(c, &status);
    dt_write_bytes(builder, &bytes, &len);
    status = dt_read_bytes(bytes, len, &p->plan);
    require(c, &status);
}

static void load_rank(Planned *p, const Sample *s, uint32_t number)
{
    const DtModule *module = s->program->module;
    DtRank *rank = &p->ranks[number];
    DtStatus status = dt_load_rank(&p->options, &p->plan, number, p->fd, rank);
    require(s->of, &status);
    rank->step = s->step;
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
        store_values(values, 0, dt_type_elements(values->type), store->dtype, path,
                     rank->arenas[store->arena] + store->offset);
    }
}

static void load(Planned *p, const Sample *s)
{
    p->options = (DtRunOptions){.plan_path = "oracle.plan", .steps = -1, .quiet = true};
    if (p->plan.meta->n_ranks != count_of(s->of, "ranks", MAX_RANKS))
        oracle_fail("%s: the plan is for %u ranks", s->of->name, p->plan.meta->n_ranks);
    DtStatus status = dt_shared_create(&p->plan, 0, &p->fd);
    require(s->of, &status);
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++)
        load_rank(p, s, r);
}

static void *run_rank(void *rank)
{
    dt_exec_entry(rank, "step");
    return NULL;
}

static void run(Planned *p, const Case *c)
{
    pthread_t threads[MAX_RANKS];
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++)
        if (pthread_create(&threads[r], NULL, run_rank, &p->ranks[r]) != 0)
            oracle_fail("no thread for a rank");
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++)
        require(c, &p->ranks[r].failure);
}

/* ---- comparing ---- */

static const DtPlanStore *gradient_of(const DtPlan *plan, const char *path)
{
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if (store->kind == DT_PLAN_GRAD &&
            strcmp(dt_plan_str(plan, plan->stores[store->of].path), path) == 0)
            return store;
    }
    return NULL;
}

static void compare_gradient(const DtRank *rank, const Sample *s, const Gradient *g,
                             Measure *measure)
{
    const char *path = g->param->path;
    const DtPlanStore *store = gradient_of(rank->plan, path);
    double squares = 0;
    if (store == NULL || store->dtype != DT_PLAN_F32)
        oracle_fail("%s: the plan has no f32 gradient of `%s`", s->of->name, path);
    expect_axes(rank->plan, path, store->first_axis, store->n_axes, g->tensor->type);
    const float *values = (const float *)(const void *)(rank->arenas[store->arena] + store->offset);
    for (int64_t i = 0; i < dt_type_elements(g->tensor->type); i++)
        squares += pow((double)values[i] - g->tensor->at[i], 2);
    gradients_compare(measure, path, sqrt(squares), gradients_norm(g->tensor), measure->all);
}

static void compare(const DtRank *rank, const Sample *s, const Gradients *g, Measure *measure)
{
    const DtPlanMetric *metric = dt_exec_metric(rank->plan, "step", "loss");
    if (metric == NULL)
        oracle_fail("%s: the plan has no loss", s->of->name);
    const double loss = dt_exec_scalar(rank, metric);
    measure->all = g->norm;
    gradients_compare(measure, "loss", fabs(loss - g->loss), g->loss, 0);
    for (uint32_t i = 0; i < g->list.n; i++)
        compare_gradient(rank, s, &g->list.at[i], measure);
}

void planned_check(const Case *c, bool unfused, Measure *measure)
{
    Sample sample;
    Gradients gradients;
    static Planned planned;
    planned = (Planned){.arena = dt_arena_new()};
    sample_make(&sample, c);
    being_read = &sample;
    gradients_evaluate(&sample, &gradients);
    compile(&planned, c, unfused);
    load(&planned, &sample);
    run(&planned, c);
    for (uint32_t r = 0; r < planned.plan.meta->n_ranks; r++)
        compare(&planned.ranks[r], &sample, &gradients, measure);
    for (uint32_t r = 0; r < planned.plan.meta->n_ranks; r++)
        dt_load_close(&planned.ranks[r]);
    close(planned.fd);
    sample_free(&sample);
    dt_arena_free(planned.arena);
}
