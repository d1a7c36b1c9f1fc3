/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that generate with a cache (passes/decode): the judge lets each row of them read the text
 * of a sample, in chunks that are not full and position by position, and compares the logits after
 * each step with those that "predict" computes there from all of the sample. Caches begin with
 * infinities and NaN, and new positions that are not meant are filled with other tokens: neither
 * may change a result. Rows have different lengths. */
#include "passes/check/internal.h"

#include "base/hash.h"
#include "base/philox.h"

#include <math.h>
#include <string.h>

enum { NOISE = 78, MOST_DECODED = 8 };

/* Number of the element with these coordinates, one for each axis of the type. */
static int64_t element_of(const DtType *type, const int64_t *at)
{
    int64_t element = 0;
    for (uint32_t a = 0; a < type->rank; a++)
        element = element * type->axes[a].extent + at[a];
    return element;
}

static void coordinates_of(const DtType *type, int64_t element, int64_t *ret_at)
{
    for (uint32_t a = type->rank; a-- > 0; element /= type->axes[a].extent)
        ret_at[a] = element % type->axes[a].extent;
}

/* The input of "predict" for the program's input of this name; NULL: there is none. */
static const DtOp *input_of(const DtJudge *j, const char *name)
{
    const DtEntryPoint *predict = dt_entry_whole(j->of->serial, DT_ENTRY_PREDICT, NULL);
    for (uint32_t i = 0; predict && i < predict->func->ops.n; i++) {
        const DtOp *op = predict->func->ops.at[i];
        if (op->kind != DT_OP_INPUT)
            continue;
        const char *own = dt_entry_input(DT_ENTRY_PREDICT, op->text);
        if (strcmp(own ? own : op->text, name) == 0)
            return op;
    }
    return NULL;
}

/* Fills an input with the new positions of each row, out of the samples that "predict" reads. */
static bool take_new(const DtJudge *j, const DtTensor *all, DtTensor *made)
{
    const DtType *type = made->type;
    int64_t at[DT_MAX_RANK], from[DT_MAX_RANK];
    if (type->rank != all->type->rank)
        return false;
    for (int64_t i = 0; i < dt_type_elements(type); i++) {
        coordinates_of(type, i, at);
        memcpy(from, at, sizeof from);
        const int64_t row = at[0], n = all->type->axes[0].extent;
        from[0] = row % n;
        if (type->rank > 1 && type->axes[1].name != all->type->axes[1].name) {
            const int64_t seq = all->type->axes[1].extent;
            from[1] = at[1] + j->start[row];
            if (at[1] >= j->count[row]) /* not meant: another token */
                from[1] = seq - 1 - from[1];
            from[1] = from[1] < 0 ? 0 : from[1] >= seq ? seq - 1 : from[1];
        }
        made->at[i] = all->at[element_of(all->type, from)];
    }
    return true;
}

DtTensor *dt_judge_fed(DtJudge *j, const DtOp *op)
{
    const char *name = strchr(op->text, ':');
    DtTensor *made = dt_interp_tensor(j->arena, op->out[0]->type);
    if (!name || !j->start)
        return NULL;
    name++;
    const bool starts = strcmp(name, "start") == 0;
    if (starts || strcmp(name, "count") == 0) {
        for (int64_t r = 0; r < dt_type_elements(made->type); r++)
            made->at[r] = (double)(starts ? j->start : j->count)[r];
        return made;
    }
    const DtOp *input = input_of(j, name);
    DtTensor *all = input ? dt_interp_tensor(j->arena, input->out[0]->type) : NULL;
    if (!all || !dt_judge_input(j->of->train, input->text, j->step, false, all))
        return NULL;
    dt_judge_round(j, all);
    return take_new(j, all, made) ? made : NULL;
}

/* Fills caches with numbers that no result may depend on. */
static void spoil_caches(DtJudge *j)
{
    const DtModule *serial = j->of->serial, *placed = j->of->placed;
    for (uint32_t i = 0; i < serial->stores.n; i++) {
        const DtStore *store = serial->stores.at[i];
        if (store->kind != DT_STORE_CACHE)
            continue;
        DtTensor *noise = dt_interp_tensor(j->arena, store->type);
        const uint64_t key = dt_hash_text(store->path, j->seed);
        for (int64_t e = 0; e < dt_type_elements(store->type); e++) {
            const double u = dt_philox_uniform(dt_philox(key, (uint64_t)e, NOISE, 0));
            noise->at[e] = !dt_dtype_is_float(store->type->dtype) ? floor(4 * u) == 1
                           : u < 0.4                              ? 40 * u - 20
                           : u < 0.6                              ? INFINITY
                           : u < 0.8                              ? -INFINITY
                                                                  : NAN;
        }
        dt_judge_round(j, noise);
        j->serial[i] = noise;
        for (uint32_t k = 0; k < placed->stores.n; k++)
            if (placed->stores.at[k]->kind == DT_STORE_CACHE &&
                strcmp(placed->stores.at[k]->path, store->path) == 0)
                j->parts[k] = dt_judge_parts(j, noise, placed->stores.at[k]);
    }
}

/* Compares the logits [rows, vocab] after a step with those of "predict". */
static bool compare_logits(DtJudge *j, const DtTensor *all, const DtTensor *got, int64_t rows)
{
    const DtType *type = all->type;
    const DtType *input = input_of(j, j->of->train->readers.at[0].inputs[0])->out[0]->type;
    double difference = 0, norm = 0;
    int64_t at[DT_MAX_RANK] = {0}, n = 0;
    for (int64_t r = 0; r < rows; r++) {
        if (j->count[r] == 0)
            continue;
        n++;
        for (int64_t v = 0; v < dt_type_elements(got->type) / rows; v++) {
            for (uint32_t a = 0; a < type->rank; a++)
                at[a] = type->axes[a].name == input->axes[0].name   ? r % type->axes[a].extent
                        : type->axes[a].name == input->axes[1].name ? j->start[r] + j->count[r] - 1
                                                                    : v;
            const double want = all->at[element_of(type, at)];
            const double is = got->at[r * (dt_type_elements(got->type) / rows) + v];
            difference += (is - want) * (is - want);
            norm += want * want;
        }
    }
    const double relative = sqrt(difference) / (norm > 0 ? sqrt(norm) : 1);
    j->out->generated += (uint32_t)n;
    if (!(relative <= j->out->generation))
        j->out->generation = relative;
    return relative <= dt_judge_tolerance(j) ||
           dt_judge_problem(j,
                            "generating with a cache: the logits of position %lld of row 0 (and of "
                            "others at that step) differ by %.3g of their norm from those of "
                            "\"predict\"",
                            (long long)(j->start[0] + j->count[0] - 1), relative);
}

static bool step(DtJudge *j, DtEntryKind kind, const DtTensor *all, int64_t rows)
{
    if (!dt_judge_entry(j, kind, NULL))
        return false;
    for (uint32_t i = 0; i < j->named.n; i++)
        if (!compare_logits(j, all,
                            dt_ranks_join(j->arena, j->named.at[i].at, j->named.at[i].type,
                                          j->mesh),
                            rows))
            return false;
    for (int64_t r = 0; r < rows; r++)
        j->start[r] += j->count[r];
    return true;
}

bool dt_judge_generation(DtJudge *j, DtTensor *const *predicted)
{
    const DtEntryPoint *prefill = dt_entry_whole(j->of->serial, DT_ENTRY_PREFILL, NULL);
    if (!prefill || !j->of->train || !predicted)
        return true;
    const DtOp *tokens = input_of(j, j->of->train->readers.at[0].inputs[0]);
    const DtType *logits = prefill->func->results.at[0]->type;
    int64_t rows = logits->axes[0].extent, chunk = 1;
    const int64_t seq = tokens->out[0]->type->axes[1].extent;
    for (uint32_t i = 0; i < prefill->func->ops.n; i++)
        if (prefill->func->ops.at[i]->kind == DT_OP_INPUT &&
            prefill->func->ops.at[i]->out[0]->type->rank > 1)
            chunk = prefill->func->ops.at[i]->out[0]->type->axes[1].extent;
    j->start = DT_NEW_ARRAY(j->arena, int64_t, rows);
    j->count = DT_NEW_ARRAY(j->arena, int64_t, rows);
    spoil_caches(j);
    bool good = true;
    /* chunks that are not full, and one in which a row has nothing new */
    for (int64_t k = 0; good && k < 3; k++) {
        for (int64_t r = 0; r < rows; r++) {
            const int64_t left = seq - j->start[r], odd = r % 2;
            const int64_t some = k == 0   ? chunk / 2 - odd
                                 : k == 1 ? chunk / 4
                                          : chunk / 8;
            j->count[r] = some > 0 ? some : 1;
            if (k == (odd ? 1 : 2) && chunk > 1)
                j->count[r] = 0;
            j->count[r] = j->count[r] > left ? left : j->count[r];
        }
        good = step(j, DT_ENTRY_PREFILL, predicted[0], rows);
    }
    for (int64_t k = 0; good && k < MOST_DECODED; k++) {
        int64_t most = 0;
        for (int64_t r = 0; r < rows; r++) {
            j->count[r] = 1;
            most = j->start[r] > most ? j->start[r] : most;
        }
        if (most >= seq)
            break;
        good = step(j, DT_ENTRY_DECODE, predicted[0], rows);
    }
    j->start = j->count = NULL;
    return good;
}
