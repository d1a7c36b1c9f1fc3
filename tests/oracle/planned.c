/* SPDX-License-Identifier: Apache-2.0 */
/* The generated code against the interpreter: the case is compiled to a plan in memory, loaded
 * into this process, one thread per rank, given the same parameters and inputs, and entries
 * "step", "predict", "eval" and "update" are run. The runtime's readers of data are replaced: a
 * read copies the sample's inputs. In a layout that splits parameters, each rank is given its
 * parts, and what it makes is compared with its parts of what the serial program makes. */
#include "oracle.h"

#include "base/half.h"
#include "base/intern.h"
#include "codegen/codegen.h"
#include "ir/interp_ranks.h"
#include "passes/passes.h"
#include "plan/show.h"
#include "runtime/runtime.h"
#include "tests/look.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RANKS = 8 };

typedef struct Planned {
    DtArena *arena;
    const DtModule *placed; /* a program whose stores describe the parts of each rank */
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

static const Sample *being_read; /* a static variable, because the runtime's interface has no
                                  * argument for it */

DtStatus dt_data_open(const DtRunOptions *options, const DtPlan *plan, uint32_t reader,
                      DtData **ret_data)
{
    (void)options;
    *ret_data = malloc(sizeof **ret_data);
    **ret_data = (DtData){plan, &plan->readers[reader]};
    return DT_OK;
}

DtStatus dt_data_open_block(const DtRunOptions *options, const DtPlan *plan, bool is_eval,
                            DtData **readers)
{
    for (uint32_t i = 0; i < plan->n_readers; i++)
        if (plan->readers[i].is_eval == is_eval && !readers[i])
            dt_data_open(options, plan, i, &readers[i]);
    return DT_OK;
}

void dt_data_begin(DtData *data, const DtRamp *ramp)
{
    (void)data;
    (void)ramp;
}

DtStatus dt_data_fact(DtArena *memory, const DtData *data, DtDataFact *ret_fact)
{
    (void)memory;
    (void)data;
    *ret_fact = (DtDataFact){.input = "x"};
    return DT_OK;
}

bool dt_data_changed(const DtDataFact *before, const DtDataFact *now, DtText *ret_text)
{
    (void)before;
    (void)now;
    (void)ret_text;
    return false;
}

void dt_data_close(DtData *data) { free(data); }

int64_t dt_data_batches(const DtData *data)
{
    (void)data;
    return 1;
}

/* Checks that the axes in the plan are those of the type, in the same order. */
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

/* Copies elements first .. first + n - 1 of a tensor to ret_values, in this dtype. */
static void store_values(const DtTensor *tensor, int64_t first, int64_t n, uint32_t dtype,
                         const char *name, void *ret_values)
{
    for (int64_t i = 0; i < n; i++) {
        const double value = tensor->at[first + i];
        switch (dtype) {
        case DT_PLAN_F32: ((float *)ret_values)[i] = (float)value; break;
        case DT_PLAN_BF16: ((uint16_t *)ret_values)[i] = dt_half_to_bf16((float)value); break;
        case DT_PLAN_F16: ((uint16_t *)ret_values)[i] = dt_half_to_f16((float)value); break;
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
        /* an evaluation reads the first batch */
        const int64_t wanted = data->reader->is_eval ? 0 : ORACLE_STEP;
        if (tensor == NULL || step != wanted || first < 0 ||
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

/* Returns a layout that splits the batch over as many ranks and micro-batches as the case says. */
static DtParallelConfig *batch_layout(DtArena *arena, const Case *c)
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
    DtProgram *program = case_lower(p->arena, diags, c, c->parallel ? c->parallel : "none");
    DtPlanBuilder *builder = dt_write_new(p->arena);
    if (!c->parallel)
        program->parallel = batch_layout(p->arena, c);
    p->placed = program->module;
    const DtPassContext context = {.train = program->train,
                                   .parallel = program->parallel,
                                   .cluster = program->cluster,
                                   .unfused = unfused};
    const DtCodegenOptions options = {.target = "cpu",
                                      .source = c->path,
                                      .source_folder = ".",
                                      .compiler = "oracle",
                                      .unfused = unfused,
                                      .logical = &(DtLogicalTexts){"", "", "", ""}};
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

/* The type that a store of the serial program has in the placed program when it is complete. */
static const DtType *held_type(const Planned *p, const DtStore *store)
{
    for (uint32_t i = 0; i < p->placed->stores.n; i++) {
        const DtStore *placed = p->placed->stores.at[i];
        if (placed->kind == store->kind && strcmp(placed->path, store->path) == 0)
            return dt_type_plain(placed->type->dtype, placed->type->rank, placed->type->axes);
    }
    oracle_fail("the placed program has no `%s`", store->path);
}

/* Returns a rank's part of a value. The ranks of the plan are the first of the placed program's
 * ranks, which also count micro-batches. */
static const DtTensor *part_of(Planned *p, uint32_t rank, const DtStore *store,
                               const DtTensor *whole)
{
    return dt_ranks_slice(p->arena, whole, held_type(p, store), &p->placed->mesh, rank);
}

static const DtPlanStore *find_store(const DtRank *rank, const Sample *s, const DtStore *wanted)
{
    for (uint32_t i = 0; i < rank->plan->n_stores; i++) {
        const DtPlanStore *store = &rank->plan->stores[i];
        const char *path = dt_plan_str(rank->plan, store->path);
        if (store->kind != wanted->kind || strcmp(path, wanted->path) != 0)
            continue;
        const bool is_cut = store->pack && rank->plan->packs[store->pack - 1].n_split;
        if (is_cut || (store->pack && wanted->kind != DT_STORE_GRAD) || rank->plan->n_sizes)
            oracle_fail("%s: no cases for buckets that are cut, and pipelines", s->of->name);
        return store;
    }
    oracle_fail("%s: the plan has no `%s`", s->of->name, wanted->path);
}

/* Sets the values of all stores that persist beyond a step. */
static void fill_stores(Planned *p, DtRank *rank, const Sample *s)
{
    const DtModule *module = s->program->module;
    uint32_t n = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (!case_is_given(store))
            continue;
        const DtPlanStore *place = find_store(rank, s, store);
        const DtTensor *part = part_of(p, rank->rank, store, s->stores[i]);
        expect_axes(rank->plan, store->path, place->first_axis, place->n_axes, store->type);
        store_values(part, 0, dt_type_elements(part->type), place->dtype, store->path,
                     look_at(rank, place->arena, place->offset));
        n++;
    }
    for (uint32_t i = 0; i < rank->plan->n_stores; i++) {
        const uint32_t kind = rank->plan->stores[i].kind;
        n -= kind != DT_PLAN_GRAD && kind != DT_PLAN_NEXT;
    }
    if (n != 0)
        oracle_fail("%s: the plan has other stores", s->of->name);
}

static void fill_scalars(DtRank *rank, const Sample *s)
{
    for (uint32_t i = 0; i < rank->plan->n_scalars; i++) {
        const DtPlanScalar *scalar = &rank->plan->scalars[i];
        const char *name = dt_plan_str(rank->plan, scalar->name);
        store_values(sample_input(s, name), 0, 1, DT_PLAN_F32, name,
                     look_at(rank, scalar->arena, scalar->offset));
    }
}

static void load(Planned *p, const Sample *s)
{
    p->options = (DtRunOptions){.plan_path = "oracle.plan", .steps = -1, .quiet = true,
                                .generate = ""}; /* this makes memory for predictions exist */
    const uint32_t n_ranks = p->plan.meta->n_ranks;
    if (s->of->parallel ? n_ranks > MAX_RANKS : n_ranks != count_of(s->of, "ranks", MAX_RANKS))
        oracle_fail("%s: the plan is for %u ranks", s->of->name, p->plan.meta->n_ranks);
    DtStatus status = dt_shared_create(&p->plan, 0, &p->fd);
    require(s->of, &status);
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++) {
        DtRank *rank = &p->ranks[r];
        status = dt_load_rank(&p->options, &p->plan, r, p->fd, rank);
        require(s->of, &status);
        rank->step = s->step;
        fill_stores(p, rank, s);
        fill_scalars(rank, s);
    }
}

typedef struct Work {
    DtRank *rank;
    const char *entry;
} Work;

static void *run_entry(void *work)
{
    const Work *w = work;
    dt_exec_entry(w->rank, w->entry);
    return NULL;
}

/* Runs all ranks at once, as threads. */
static void run(Planned *p, const Case *c, const char *entry)
{
    pthread_t threads[MAX_RANKS];
    Work work[MAX_RANKS];
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++) {
        work[r] = (Work){&p->ranks[r], entry};
        if (pthread_create(&threads[r], NULL, run_entry, &work[r]) != 0)
            oracle_fail("no thread for a rank");
    }
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++)
        require(c, &p->ranks[r].failure);
}

/* ---- comparing ---- */

static void compare_metric(const DtRank *rank, const Sample *s, const char *entry, const char *name,
                           double want, Measure *measure)
{
    const DtPlanMetric *metric = dt_exec_metric(rank->plan, entry, name);
    if (metric == NULL)
        oracle_fail("%s: the plan has no %s", s->of->name, name);
    outcome_compare(measure, name, fabs(dt_exec_scalar(rank, metric) - want), want, 0);
}

static double value_at(const char *values, uint32_t dtype, int64_t i, const char *name)
{
    const float *singles = (const float *)(const void *)values;
    const uint16_t *halves = (const uint16_t *)(const void *)values;
    switch (dtype) {
    case DT_PLAN_F32: return (double)singles[i];
    case DT_PLAN_BF16: return (double)dt_half_from_bf16(halves[i]);
    case DT_PLAN_F16: return (double)dt_half_from_f16(halves[i]);
    default: oracle_fail("`%s` has dtype %s in the plan", name, dt_kinds_name(dtype));
    }
}

static double distance(const char *values, uint32_t dtype, const DtTensor *reference,
                       const char *name)
{
    double squares = 0;
    for (int64_t i = 0; i < dt_type_elements(reference->type); i++)
        squares += pow(value_at(values, dtype, i, name) - reference->at[i], 2);
    return sqrt(squares);
}

/* Copies the store's elements to contiguous memory. Gradients of several parameters may be in a
 * bucket, one for each iteration. */
static const char *elements_of(Planned *p, const DtRank *rank, const DtPlanStore *store, int64_t n)
{
    const DtPlan *plan = rank->plan;
    const char *values = look_at(rank, store->arena, store->offset);
    if (!store->pack)
        return values;
    const DtPlanPack *pack = &plan->packs[store->pack - 1];
    const int64_t size = store->dtype == DT_PLAN_F32 ? 4 : 2;
    int64_t times = 1;
    for (uint32_t i = 0; i < store->n_loops; i++)
        times *= plan->axes[store->first_axis + i].extent;
    char *all = DT_NEW_ARRAY(p->arena, char, n * size + 1);
    for (int64_t t = 0; t < times; t++)
        memcpy(all + t * (n / times) * size, values + (t * pack->extent + pack->offset) * size,
               (size_t)(n / times * size));
    return all;
}

/* Compares the rank's part; a difference is measured against the norm of the whole tensor. */
static void compare_result(Planned *p, const DtRank *rank, const Sample *s, const Result *r,
                           double all, Measure *measure)
{
    const DtPlanStore *store = find_store(rank, s, r->store);
    const DtTensor *part = part_of(p, rank->rank, r->store, r->tensor);
    expect_axes(rank->plan, r->name, store->first_axis, store->n_axes, r->tensor->type);
    const char *values = elements_of(p, rank, store, dt_type_elements(part->type));
    outcome_compare(measure, r->name, distance(values, store->dtype, part, r->name),
                    outcome_norm(r->tensor), all);
}

/* Checks that the data which "step" has left in the inputs is the whole batch. */
static void compare_predicted(const DtRank *rank, const Sample *s, const Outcome *o,
                              Measure *measure)
{
    for (uint32_t i = 0; i < o->predicted.n; i++) {
        const Result *r = &o->predicted.at[i];
        const DtPlanMetric *metric =
            dt_exec_metric(rank->plan, "predict", r->name + strlen("predict/"));
        if (metric == NULL)
            oracle_fail("%s: the plan has no result `%s`", s->of->name, r->name);
        expect_axes(rank->plan, r->name, metric->first_axis, metric->n_axes, r->tensor->type);
        const char *values = look_at(rank, metric->arena, metric->offset);
        outcome_compare(measure, r->name, distance(values, metric->dtype, r->tensor, r->name),
                        outcome_norm(r->tensor), 0);
    }
}

/* Gradients are compared before the update, which may overwrite their memory. */
static void compare(Planned *p, const DtRank *rank, const Sample *s, const Outcome *o, bool updated,
                    Measure *measure)
{
    if (updated)
        compare_metric(rank, s, "update", "grad_norm", o->norm, measure);
    else
        compare_metric(rank, s, "step", "loss", o->loss, measure);
    for (uint32_t i = 0; i < o->list.n; i++) {
        const bool is_gradient = o->list.at[i].store->kind == DT_STORE_GRAD;
        if (is_gradient != updated)
            compare_result(p, rank, s, &o->list.at[i], is_gradient ? o->norm * s->scale : 0,
                           measure);
    }
}

static double read_scalar(const void *context, const DtPlanMetric *metric)
{
    return dt_exec_scalar(context, metric);
}

/* Compares the loss that dtrun shows after an evaluation of one batch: the SHOW record's value. */
static void compare_shown(const DtRank *rank, const Sample *s, const char *entry, const char *name,
                          double want, Measure *measure)
{
    const DtPlan *plan = rank->plan;
    DtFormulaProblem problem = {0};
    double value;
    for (uint32_t i = 0; i < plan->n_shows; i++) {
        const DtPlanShow *show = &plan->shows[i];
        if (strcmp(dt_plan_str(plan, show->entry), entry) != 0 ||
            strcmp(dt_plan_str(plan, show->name), name) != 0)
            continue;
        if (!dt_show_value(plan, show, 1, read_scalar, rank, &value, &problem))
            oracle_fail("%s: `%s` of `%s`: %s", s->of->name, name, entry, problem.text);
        outcome_compare(measure, name, fabs(value - want), want, 0);
        return;
    }
    oracle_fail("%s: the plan shows no `%s` of `%s`", s->of->name, name, entry);
}

/* Sets everything except states to its value before the step. */
static void check_forward(Planned *p, const Case *c, const Sample *s, const Outcome *o,
                          Measure *measure)
{
    if (p->plan.meta->n_ranks * p->plan.meta->n_micro == 1) {
        run(p, c, "predict");
        compare_predicted(p->ranks, s, o, measure);
    }
    if (!dt_exec_has(p->ranks, "eval"))
        return;
    run(p, c, "eval");
    for (uint32_t r = 0; r < p->plan.meta->n_ranks; r++)
        compare_shown(&p->ranks[r], s, "eval", "loss", o->eval, measure);
}

void planned_check(const Case *c, bool unfused, Measure *measure)
{
    Sample sample;
    Outcome outcome;
    static Planned planned;
    planned = (Planned){.arena = dt_arena_new()};
    sample_make(&sample, c);
    being_read = &sample;
    measure->tolerance = sample_tolerance(&sample, oracle_single, 32);
    outcome_evaluate(&sample, &outcome);
    compile(&planned, c, unfused);
    load(&planned, &sample);
    for (int updated = 0; updated < 2; updated++) {
        run(&planned, c, updated ? "update" : "step");
        for (uint32_t r = 0; r < planned.plan.meta->n_ranks; r++)
            compare(&planned, &planned.ranks[r], &sample, &outcome, updated, measure);
        if (!updated)
            check_forward(&planned, c, &sample, &outcome, measure);
    }
    for (uint32_t r = 0; r < planned.plan.meta->n_ranks; r++)
        dt_load_close(&planned.ranks[r]);
    close(planned.fd);
    sample_free(&sample);
    dt_arena_free(planned.arena);
}
