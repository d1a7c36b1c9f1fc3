/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions, judged with entry "predict" as it was lowered.
 *
 * Codes of weights are judged without pass `codes`: what codes and scales stand for is computed
 * here from the layout that passes/codes/codes.h documents. It is at most half a scale from the
 * weight, and the lowered "predict", with such weights, computes what it computes from codes.
 *
 * Pass `rows` leaves the entry fewer samples: the lowered "predict" computes the same for them as
 * the first ones of the batch. */
#include "passes/check/internal.h"

#include <math.h>
#include <string.h>

/* The serial store of this kind and path; NULL: there is none. */
static const DtStore *find(const DtModule *module, DtStoreKind kind, const char *path)
{
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == kind && module->stores.at[i]->path == path)
            return module->stores.at[i];
    return NULL;
}

/* The store that evaluation reads in place of a parameter or state: its average, if the program
 * keeps one. */
static const DtStore *evaluated(const DtJudge *j, const DtStore *store)
{
    const DtStore *average = find(j->of->serial, DT_STORE_AVERAGE, store->path);
    return average ? average : store;
}

/* The number of the code that belongs to an element of the weight, with index[] by axis of its
 * type. The last axis of codes is that of a group's elements. ret_half: of the byte; -1: all of
 * it. */
static int64_t code_at(const DtType *codes, const DtType *weight, const int64_t *index,
                       int *ret_half)
{
    const DtAxis *groups = &codes->axes[codes->rank - 2u], *in = &codes->axes[codes->rank - 1u];
    int64_t at = 0;
    *ret_half = -1;
    for (uint32_t i = 0; i + 1 < codes->rank; i++) {
        const int d = dt_type_find(weight, codes->axes[i].name);
        const bool is_grouped = &codes->axes[i] == groups;
        const int64_t size = is_grouped ? weight->axes[d].extent / groups->extent : 1;
        at = at * codes->axes[i].extent + index[d] / size;
        if (is_grouped) {
            const int64_t element = index[d] % size;
            if (in->extent != size)
                *ret_half = element >= in->extent;
            at = at * in->extent + element % in->extent;
        }
    }
    return at;
}

/* The weights that the codes of this parameter stand for. ret_far: the largest distance from its
 * own weights, in scales. */
static DtTensor *restored(DtJudge *j, const DtStore *codes, const DtStore *scales, double *ret_far)
{
    const DtTensor *code = j->serial[codes->index], *scale = j->serial[scales->index],
                   *weight = j->serial[evaluated(j, codes->of)->index];
    DtTensor *made = dt_interp_tensor(j->arena, weight->type);
    const int64_t n = dt_type_elements(weight->type),
                  in = codes->type->axes[codes->type->rank - 1u].extent;
    int64_t index[DT_MAX_RANK];
    *ret_far = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        int half;
        for (uint32_t d = weight->type->rank; d-- > 0; rest /= weight->type->axes[d].extent)
            index[d] = rest % weight->type->axes[d].extent;
        const int64_t at = code_at(codes->type, weight->type, index, &half);
        const double value = half < 0    ? code->at[at] - 128
                             : half == 0 ? fmod(code->at[at], 16) - 8
                                         : floor(code->at[at] / 16) - 8;
        made->at[i] = value * scale->at[at / in];
        const double far = fabs(made->at[i] - weight->at[i]);
        *ret_far = fmax(*ret_far, far > 0 ? far / scale->at[at / in] : 0);
    }
    return made;
}

typedef struct Restored {
    DtJudge *j;
    DtTensor **at; /* by number of the serial store that evaluation reads */
} Restored;

static DtTensor *source(void *context, const DtOp *op)
{
    const Restored *r = context;
    if (op->kind != DT_OP_PARAM)
        return dt_judge_given(r->j, op);
    const DtStore *store = find(r->j->of->serial, op->store->kind, op->store->path);
    if (!store)
        return NULL;
    /* it may be stored in a narrower dtype now */
    DtTensor *made = DT_NEW(r->j->arena, DtTensor);
    const DtStore *read = evaluated(r->j, store);
    *made = *(r->at[read->index] ? r->at[read->index] : r->j->serial[read->index]);
    made->type = op->out[0]->type;
    return made;
}

static bool check_weights(DtJudge *j, DtTensor **ret_at)
{
    const DtModule *serial = j->of->serial;
    for (uint32_t i = 0; i < serial->stores.n; i++) {
        const DtStore *codes = serial->stores.at[i];
        double far;
        if (codes->kind != DT_STORE_CODES)
            continue;
        ret_at[evaluated(j, codes->of)->index] =
            restored(j, codes, find(serial, DT_STORE_SCALES, codes->path), &far);
        j->out->coded++;
        if (!(far <= 0.5 + 1e-9))
            return dt_judge_problem(j, "codes of `%s` stand for weights up to %g scales off%s",
                                    codes->path, far, dt_judge_line(j, codes->span));
    }
    return true;
}

/* The elements of the tensor that belong to the first ones along each axis of the type. */
static const DtTensor *first_of(const DtJudge *j, const DtTensor *tensor, const DtType *type)
{
    DtTensor *made = dt_interp_tensor(j->arena, type);
    for (int64_t i = 0; i < dt_type_elements(type); i++) {
        int64_t at = 0, stride = 1, rest = i;
        for (uint32_t d = type->rank; d-- > 0; rest /= type->axes[d].extent) {
            at += rest % type->axes[d].extent * stride;
            stride *= tensor->type->axes[d].extent;
        }
        made->at[i] = tensor->at[at];
    }
    return made;
}

/* Whether the entry has fewer samples than as it was lowered. */
static bool has_fewer(const DtEntryPoint *predict, DtTensor *const *results)
{
    bool fewer = false;
    for (uint32_t i = 0; i < predict->results.n; i++)
        fewer = fewer || dt_type_elements(predict->func->results.at[i]->type) !=
                             dt_type_elements(results[i]->type);
    return fewer;
}

bool dt_judge_predicted(DtJudge *j, DtTensor *const *results)
{
    Restored r = {.j = j,
                  .at = DT_NEW_ARRAY(j->arena, DtTensor *, j->of->serial->stores.n + 1)};
    const DtEntryPoint *predict =
        j->of->loss ? dt_entry_whole(j->of->loss, DT_ENTRY_PREDICT, NULL) : NULL;
    if (!check_weights(j, r.at) || !predict || !(j->out->coded || has_fewer(predict, results)))
        return !j->out->problem.len;
    DtInterp interp = {.arena = j->arena, .seed = j->seed, .step = j->step, .source = source,
                       .context = &r, .path = dt_entry_draws(predict)};
    DtTensor **want = DT_NEW_ARRAY(j->arena, DtTensor *, predict->results.n + 1);
    dt_interp_run(&interp, predict->func, NULL, want);
    for (uint32_t i = 0; i < predict->results.n && !j->of->rounds; i++) {
        double far = 0, norm = 0;
        const DtTensor *wanted = first_of(j, want[i], results[i]->type);
        for (int64_t k = 0; k < dt_type_elements(wanted->type); k++) {
            far += pow(wanted->at[k] - results[i]->at[k], 2);
            norm += pow(wanted->at[k], 2);
        }
        if (!(sqrt(far) <= 1e-10 * sqrt(norm)))
            return dt_judge_problem(
                j, "entry predict: %s is not what %s: it differs by %.3g of its norm%s",
                predict->results.at[i].name,
                j->out->coded ? "the weights give that the codes stand for"
                              : "the whole batch gives for the first samples",
                sqrt(far / norm),
                dt_judge_line(j, predict->func->span));
    }
    return true;
}
