/* SPDX-License-Identifier: Apache-2.0 */
/* Loss, gradients and the optimizer's step, as the interpreter computes them; and how tensors are
 * compared. */
#include "oracle.h"

#include "base/formula.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

static DtTensor *source(void *context, const DtOp *op)
{
    const Sample *s = context;
    DtTensor *tensor =
        op->kind == DT_OP_PARAM ? s->stores[op->store->index] : sample_input(s, op->text);
    if (tensor == NULL)
        oracle_fail("%s: no values for `%s`", s->of->name, op->text ? op->text : op->store->path);
    if (tensor->type != op->out[0]->type)
        oracle_fail("%s: `%s` has another type", s->of->name,
                    op->text ? op->text : op->store->path);
    return tensor;
}

static const DtEntryPoint *find_entry(const Sample *s, const char *name)
{
    const DtModule *module = s->program->module;
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (strcmp(module->entries.at[i].name, name) == 0)
            return &module->entries.at[i];
    oracle_fail("%s has no entry `%s`", s->of->name, name);
}

static DtTensor **run_entry(Sample *s, const DtEntryPoint *entry)
{
    DtInterp interp = {.arena = s->arena,
                       .seed = s->seed,
                       .step = s->step,
                       .source = source,
                       .context = s,
                       .rounds = s->roundoff > 0,
                       .path = ""};
    DtTensor **results = DT_NEW_ARRAY(s->arena, DtTensor *, entry->results.n + 1);
    dt_interp_run(&interp, entry->func, NULL, results);
    return results;
}

const char *outcome_kind(const Sample *s, const DtStore *store)
{
    const DtModule *module = s->program->module;
    if (s->program->train->precision.has_master)
        return case_kind(store);
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_MASTER && module->stores.at[i]->of == store)
            return OUTCOME_ROUNDED;
    return store->kind == DT_STORE_MASTER ? case_kind(store->of) : case_kind(store);
}

/* Writes results to stores. Gradients and next values of states stay in their stores, where the
 * update reads them. */
static void add_results(Sample *s, const DtEntryPoint *entry, DtTensor *const *results,
                        Outcome *outcome)
{
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtStore *store = entry->results.at[i].store;
        if (store == NULL)
            continue;
        const bool is_read = store->kind == DT_STORE_GRAD || store->kind == DT_STORE_NEXT;
        if (is_read)
            s->stores[store->index] = results[i];
        if (store->kind == DT_STORE_NEXT)
            continue;
        const char *name = dt_arena_printf(s->arena, "%s%s/%s", is_read ? "" : "new_",
                                           outcome_kind(s, store), store->path);
        DT_PUSH(s->arena, outcome->list, ((Result){name, store, results[i]}));
    }
}

/* The results of an entry that are looked up by their names. */
typedef struct Results {
    const DtEntryPoint *entry;
    DtTensor *const *at;
} Results;

static bool look_up(const void *context, const char *name, size_t len, double *ret_value)
{
    const Results *results = context;
    if (len == strlen("batches") && strncmp(name, "batches", len) == 0) {
        *ret_value = 1;
        return true;
    }
    for (uint32_t i = 0; i < results->entry->results.n; i++) {
        const char *has = results->entry->results.at[i].name;
        if (has && strlen(has) == len && strncmp(has, name, len) == 0) {
            *ret_value = results->at[i]->at[0];
            return true;
        }
    }
    return false;
}

/* Returns the value, for one batch, of a result with that name, or of a formula of results. */
static double named(const Sample *s, const DtEntryPoint *entry, DtTensor *const *results,
                    const char *name)
{
    const Results of = {entry, results};
    DtFormulaProblem problem = {0};
    double value = 0;
    for (uint32_t i = 0; i < s->program->train->shown.n; i++) {
        const DtShownValue *shown = &s->program->train->shown.at[i];
        if (strcmp(shown->entry, entry->name) != 0 || strcmp(shown->name, name) != 0 ||
            !shown->formula[0])
            continue;
        if (!dt_formula_value(shown->formula, look_up, &of, &value, &problem))
            oracle_fail("%s: `%s` of entry `%s`: %s", s->of->name, name, entry->name, problem.text);
        return value;
    }
    if (!look_up(&of, name, strlen(name), &value))
        oracle_fail("%s: entry `%s` has no result `%s`", s->of->name, entry->name, name);
    return value;
}

void outcome_evaluate(Sample *s, Outcome *ret_outcome)
{
    const DtEntryPoint *grad = find_entry(s, "grad"), *update = find_entry(s, "update");
    const DtEntryPoint *eval = find_entry(s, "eval"), *predict = find_entry(s, "predict");
    Outcome outcome = {0};
    DtTensor **results = run_entry(s, grad);
    outcome.loss = named(s, grad, results, "loss");
    add_results(s, grad, results, &outcome);
    if (outcome.list.n == 0)
        oracle_fail("%s: no gradients", s->of->name);
    results = run_entry(s, update);
    outcome.norm = named(s, update, results, "grad_norm");
    add_results(s, update, results, &outcome);
    results = run_entry(s, eval);
    outcome.eval = named(s, eval, results, "loss");
    results = run_entry(s, predict);
    for (uint32_t i = 0; i < predict->results.n; i++) {
        const char *name = dt_arena_printf(s->arena, "predict/%s", predict->results.at[i].name);
        DT_PUSH(s->arena, outcome.predicted, ((Result){name, NULL, results[i]}));
    }
    *ret_outcome = outcome;
}

double outcome_norm(const DtTensor *tensor)
{
    double sum = 0;
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        sum += tensor->at[i] * tensor->at[i];
    return sqrt(sum);
}

double outcome_project(const DtTensor *tensor, uint64_t k)
{
    double sum = 0;
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        sum += tensor->at[i] * (2 * dt_philox_uniform(dt_philox(k, (uint64_t)i, 0, 0)) - 1);
    return sum;
}

void outcome_compare(Measure *m, const char *what, double difference, double reference, double all)
{
    const double relative = difference / fmax(fabs(reference), 1e-3 * all);
    const bool close = isfinite(difference) && isfinite(reference) &&
                       difference <= m->tolerance * fmax(fabs(reference), 1e-3 * all);
    m->good = m->good && close;
    m->worst = difference > 0 ? fmax(m->worst, relative) : m->worst;
    if (m->verbose || !close)
        printf("%-4s %-40s norm %-12.6g difference %-10.3g relative %.3g\n", close ? "" : "BAD",
               what, reference, difference, relative);
}
