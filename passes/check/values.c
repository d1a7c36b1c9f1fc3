/* SPDX-License-Identifier: Apache-2.0 */
/* The values with which both sides begin. All come from the counter generator, keyed by names, so
 * that neither side's order of evaluation nor its layout changes them. */
#include "passes/check/judge.h"

#include "base/formula.h"
#include "base/hash.h"
#include "base/philox.h"
#include "ir/round.h"

#include <math.h>
#include <string.h>

/* counter words that neither initialisers (iterations) nor dropout (steps) use */
enum { NOISE = 77, DT_JUDGE_SETTINGS = 128 };

/* Returns the initial value of an element of a store of this kind: noise made of u, which is
 * uniform in [0, 1). Second moments are positive, and large enough that the update is smooth. */
static double noise(DtStoreKind kind, double u)
{
    switch (kind) {
    case DT_STORE_PARAM: return 0.4 * u - 0.2;
    case DT_STORE_MOMENT1: return 2e-2 * u - 1e-2;
    case DT_STORE_MOMENT2: case DT_STORE_MOMENT3: case DT_STORE_MOMENT4: return 1e-2 * u + 1e-4;
    case DT_STORE_AVERAGE: return 0.2 * u - 0.1;
    default: return 0;
    }
}

void dt_judge_initial(const DtStore *store, uint64_t seed, uint32_t draw, DtTensor *ret_tensor)
{
    uint64_t key = dt_hash_text(store->path, draw);
    int64_t n = dt_type_elements(store->type);
    int64_t first = store->first ? store->first * (n / store->type->axes[0].extent) : 0;
    DtStoreKind kind = store->kind == DT_STORE_MASTER ? DT_STORE_PARAM : store->kind;
    dt_interp_init(store, seed, ret_tensor);
    for (int64_t i = 0; i < n; i++) {
        DtPhilox random = dt_philox(key, (uint64_t)(first + i), NOISE, (uint32_t)kind);
        ret_tensor->at[i] += noise(kind, dt_philox_uniform(random));
    }
}

static const DtReader *reader_of(const DtTrainConfig *train, const char *name, bool eval)
{
    const uint32_t n = !train ? 0 : eval ? train->eval_readers.n : train->readers.n;
    for (uint32_t i = 0; i < n; i++) {
        const DtReader *reader = eval ? &train->eval_readers.at[i] : &train->readers.at[i];
        for (uint32_t k = 0; k < reader->n_inputs; k++)
            if (strcmp(reader->inputs[k], name) == 0)
                return reader;
    }
    return NULL;
}

/* Returns element number `element` of a sample of synthetic data: the same number that
 * runtime/synthetic.c draws, computed by code of its own. */
static double drawn(DtDtype dtype, uint64_t key, double lo, double hi, int64_t element,
                    int64_t sample)
{
    const DtPhilox r =
        dt_philox(key, (uint64_t)element, (uint32_t)sample, (uint32_t)((uint64_t)sample >> 32));
    if (dtype == DT_BOOL)
        return r.word[0] & 1;
    if (dt_dtype_is_float(dtype))
        return dt_round_to(dtype, lo + (hi - lo) * dt_philox_uniform(r));
    const uint64_t range = (uint64_t)((int64_t)hi - (int64_t)lo),
                   bits = (uint64_t)r.word[0] << 32 | r.word[1];
    return floor(lo) + (range ? (double)(bits % range) : 0);
}

/* Fills the tensor with the synthetic batch of the step. Labels are the numbers of the stream that
 * tokens come from, one position later. */
bool dt_judge_input(const DtTrainConfig *train, const char *name, uint32_t step, bool eval,
                    DtTensor *ret_tensor)
{
    const char *own = dt_entry_input(DT_ENTRY_PREDICT, name); /* the first samples of the batch */
    name = own ? own : name;
    const DtReader *reader = reader_of(train, name, eval);
    const DtType *type = ret_tensor->type;
    const bool synthetic = reader && reader->source.kind == DT_SOURCE_SYNTHETIC;
    const double lo = synthetic ? reader->source.lo : dt_dtype_is_float(type->dtype) ? -1 : 0;
    const double hi = synthetic ? reader->source.hi : 1;
    const bool shifted =
        reader && reader->kind == DT_SAMPLE_NEXT_TOKEN && strcmp(reader->inputs[0], name) != 0;
    DtText site = {0};
    dt_text_printf(&site, "%s.%s", eval ? "eval" : "data", shifted ? reader->inputs[0] : name);
    const uint64_t key = dt_hash_text(site.at, train ? train->seed : 0);
    dt_text_free(&site);
    const int64_t samples = type->rank ? type->axes[0].extent : 1,
                  row = dt_type_elements(type) / samples,
                  batch = own && reader ? reader->types[0]->axes[0].extent : samples;
    for (int64_t i = 0; i < samples * row; i++)
        ret_tensor->at[i] =
            drawn(type->dtype, key, lo, hi, i % row + (shifted ? 1 : 0), step * batch + i / row);
    return reader != NULL || !train;
}

/* Rate and loss scale that both sides use in place of the program's; passes/check/machine.c passes
 * them to the run. */
double dt_judge_scalar(const DtTrainConfig *train, const char *name, uint32_t step)
{
    const DtJudgeWhen when = {.step = step, .updates = step + 1.0, .loss_scale = 1024};
    return dt_judge_scalar_when(train, name, &when);
}

double dt_judge_scalar_when(const DtTrainConfig *train, const char *name, const DtJudgeWhen *when)
{
    DtFormulaSetting settings[DT_JUDGE_SETTINGS];
    DtFormulaStep at = {.step = when->step,
                        .updates = when->updates,
                        .loss_scale = when->loss_scale,
                        .steps = (double)dt_train_steps(train),
                        .rows = (double)dt_train_batch(train),
                        .settings = settings};
    DtFormulaProblem problem;
    double value;
    if (strcmp(name, "@lr") == 0 && !when->own_rates)
        return 0.05;
    for (uint32_t i = 0; i < train->settings.n && i < DT_JUDGE_SETTINGS; i++)
        settings[at.n_settings++] =
            (DtFormulaSetting){train->settings.at[i].name, train->settings.at[i].value};
    for (uint32_t i = 0; i < train->scalars.n; i++)
        if (strcmp(train->scalars.at[i].name, name) == 0)
            return dt_formula_value(train->scalars.at[i].formula, dt_formula_step, &at, &value,
                                    &problem)
                       ? value
                       : NAN;
    return NAN;
}
