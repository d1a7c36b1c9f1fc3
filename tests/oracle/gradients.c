/* SPDX-License-Identifier: Apache-2.0 */
/* Loss and gradients in the interpreter, and the measure by which gradients are compared. */
#include "oracle.h"

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

void gradients_evaluate(Sample *s, Gradients *ret_gradients)
{
    const DtEntryPoint *entry = find_entry(s, "grad");
    DtInterp interp = {.arena = s->arena,
                       .seed = s->seed,
                       .step = s->step,
                       .source = source,
                       .context = s,
                       .path = ""};
    DtTensor **results = DT_NEW_ARRAY(s->arena, DtTensor *, entry->results.n + 1);
    bool has_loss = false;
    double squares = 0;
    *ret_gradients = (Gradients){0};
    dt_interp_run(&interp, entry->func, NULL, results);
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtEntryResult *result = &entry->results.at[i];
        if (result->store && result->store->kind == DT_STORE_GRAD) {
            Gradient gradient = {result->store->of, results[i]};
            DT_PUSH(s->arena, ret_gradients->list, gradient);
            squares += pow(gradients_norm(results[i]), 2);
        } else if (result->name && strcmp(result->name, "loss") == 0) {
            ret_gradients->loss = results[i]->at[0];
            has_loss = true;
        }
    }
    if (!has_loss || ret_gradients->list.n == 0)
        oracle_fail("%s: no loss or no gradients", s->of->name);
    ret_gradients->norm = sqrt(squares);
}

double gradients_norm(const DtTensor *tensor)
{
    double sum = 0;
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        sum += tensor->at[i] * tensor->at[i];
    return sqrt(sum);
}

double gradients_project(const DtTensor *tensor, uint64_t k)
{
    double sum = 0;
    for (int64_t i = 0; i < dt_type_elements(tensor->type); i++)
        sum += tensor->at[i] * (2 * dt_philox_uniform(dt_philox(k, (uint64_t)i, 0, 0)) - 1);
    return sum;
}

void gradients_compare(Measure *m, const char *what, double difference, double reference,
                       double all)
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
