/* SPDX-License-Identifier: Apache-2.0 */
/* The values with which both sides begin. All come from the counter generator, keyed by names, so that
 * neither side's order of evaluation nor its layout changes them. */
#include "judge/judge.h"

#include "base/hash.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

enum { NOISE = 77, DATA = 78 }; /* apart from initialisers (iteration words) and dropout (steps) */

/* u is uniform in [0, 1). Second moments are positive, and large enough that the update is smooth. */
static double noise(DtStoreKind kind, double u)
{
    switch (kind) {
    case DT_STORE_PARAM: return 0.4 * u - 0.2;
    case DT_STORE_MOMENT1: return 2e-2 * u - 1e-2;
    case DT_STORE_MOMENT2: return 1e-2 * u + 1e-4;
    default: return 0;
    }
}

void dt_judge_initial(const DtStore *store, uint64_t seed, DtTensor *ret_tensor)
{
    uint64_t key = dt_hash_text(store->path, 0);
    int64_t n = dt_type_elements(store->type);
    int64_t first = store->first ? store->first * (n / store->type->axes[0].extent) : 0;
    DtStoreKind kind = store->kind == DT_STORE_MASTER ? DT_STORE_PARAM : store->kind;
    dt_interp_init(store, seed, ret_tensor);
    for (int64_t i = 0; i < n; i++) {
        DtPhilox random = dt_philox(key, (uint64_t)(first + i), NOISE, (uint32_t)kind);
        ret_tensor->at[i] += noise(kind, dt_philox_uniform(random));
    }
}

static const DtReader *reader_of(const DtTrainConfig *train, const char *name)
{
    for (uint32_t i = 0; train && i < train->readers.n; i++)
        for (uint32_t k = 0; k < train->readers.at[i].n_inputs; k++)
            if (strcmp(train->readers.at[i].inputs[k], name) == 0)
                return &train->readers.at[i];
    return NULL;
}

bool dt_judge_input(const DtTrainConfig *train, const char *name, uint32_t step,
                    DtTensor *ret_tensor)
{
    const DtReader *reader = reader_of(train, name);
    DtDtype dtype = ret_tensor->type->dtype;
    double lo = dt_dtype_is_float(dtype) ? -1 : 0, hi = dtype == DT_BOOL ? 2 : 1;
    uint64_t key = dt_hash_text(name, 0);
    if (reader && reader->source.kind == DT_SOURCE_SYNTHETIC) {
        lo = reader->source.lo;
        hi = reader->source.hi;
    }
    for (int64_t i = 0; i < dt_type_elements(ret_tensor->type); i++) {
        double u = dt_philox_uniform(dt_philox(key, (uint64_t)i, step, DATA));
        double value = lo + (hi - lo) * u;
        ret_tensor->at[i] = dt_dtype_is_float(dtype) ? value : floor(value);
    }
    return reader != NULL || !train;
}

double dt_judge_scalar(const DtTrainConfig *train, const char *name, uint32_t step)
{
    const DtUpdate *update = &train->optimizer.update;
    double t = step + 1.0;
    if (strcmp(name, "@lr") == 0)
        return 0.05;
    if (strcmp(name, "@bias1") == 0)
        return 1 / (1 - pow(update->beta1, t));
    if (strcmp(name, "@bias2") == 0)
        return 1 / (1 - pow(update->beta2, t));
    if (strcmp(name, "@loss_scale") == 0)
        return 1024;
    return NAN;
}
