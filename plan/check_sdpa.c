/* SPDX-License-Identifier: Apache-2.0 */
/* SDPA records, and the instructions of their kernels: checks that a library stays within the
 * memory that the instruction may read and write. */
#include "plan/check_internal.h"

#include "plan/kinds.h"

#include <stdarg.h>
#include <stdio.h>

enum { MOST_HEAD = 256 };

__attribute__((format(printf, 2, 3))) static bool wrong(char *ret_why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ret_why, DT_CHECK_WHY, format, args);
    va_end(args);
    return false;
}

static bool is_wanted(const DtPlanSdpa *s, uint32_t part)
{
    return s->backward || part <= DT_SDPA_O;
}

static bool is_row(uint32_t part) { return part == DT_SDPA_MAX || part == DT_SDPA_SUM; }

/* Checks which parts a record has: m and l come together, and always in backward passes; fields
 * that the pass does not use are empty. */
static bool check_pointers(const DtPlan *plan, const DtPlanSdpa *s, char *ret_why)
{
    const uint32_t n = plan->kernels[s->kernel].n_pointers;
    const bool rows = s->pointer[DT_SDPA_MAX] >= 0;
    for (uint32_t p = 0; p < DT_SDPA_PARTS; p++) {
        const bool needed = is_wanted(s, p) || (is_row(p) && rows);
        if ((s->pointer[p] >= 0) != needed || s->pointer[p] < -1 ||
            (needed && (uint32_t)s->pointer[p] >= n))
            return wrong(ret_why, "part %u is pointer %d of %u", p, s->pointer[p], n);
        for (uint32_t o = 0; o < p && needed; o++)
            if (s->pointer[o] == s->pointer[p] && (p > DT_SDPA_V || o > DT_SDPA_V))
                return wrong(ret_why, "parts %u and %u are pointer %d", o, p, s->pointer[p]);
        const int64_t places[] = {s->offset[p], s->of_batch[p], s->of_head[p], s->of_row[p]};
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++)
            if (places[k] < 0 || places[k] > DT_PLAN_MAX_BYTES || (!needed && places[k]))
                return wrong(ret_why, "part %u lies at steps of %lld", p, (long long)places[k]);
    }
    return true;
}

bool dt_check_sdpa(const DtPlan *plan, uint32_t i, char ret_why[DT_CHECK_WHY])
{
    const DtPlanSdpa *s = &plan->sdpas[i];
    const int64_t counts[] = {s->batch, s->heads, s->kv_heads, s->queries, s->keys};
    if (s->kernel >= plan->n_kernels || (i && s->kernel <= plan->sdpas[i - 1].kernel) ||
        !plan->n_launches)
        return wrong(ret_why, "is of kernel %u of %u, not in their order, or for no GPU", s->kernel,
                     plan->n_kernels);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        if (counts[k] < 1 || counts[k] > INT32_MAX)
            return wrong(ret_why, "counts are out of range");
    if ((DtWide)s->batch * s->heads * s->queries > DT_PLAN_MAX_BYTES || s->heads % s->kv_heads ||
        s->head < 8 || s->head % 8 || s->head > MOST_HEAD)
        return wrong(ret_why, "%lld heads of %lld, %lld of keys", (long long)s->heads,
                     (long long)s->head, (long long)s->kv_heads);
    if ((s->dtype != DT_PLAN_BF16 && s->dtype != DT_PLAN_F16) || s->backward > 1 || s->causal > 1 ||
        s->window < 0 || s->window > INT32_MAX || s->workspace > DT_PLAN_SDPA_WORKSPACE_MOST)
        return wrong(ret_why, "a form that no attention has");
    return check_pointers(plan, s, ret_why);
}

/* The number of bytes up to the end of the last element. */
static DtWide bytes_of(const DtPlanSdpa *s, uint32_t part)
{
    const bool of_keys =
        part == DT_SDPA_K || part == DT_SDPA_V || part == DT_SDPA_DK || part == DT_SDPA_DV;
    const int64_t heads = of_keys ? s->kv_heads : s->heads,
                  rows = of_keys ? s->keys : s->queries;
    const DtWide last = s->offset[part] + (DtWide)(s->batch - 1) * s->of_batch[part] +
                        (DtWide)(heads - 1) * s->of_head[part] +
                        (DtWide)(rows - 1) * s->of_row[part] + (is_row(part) ? 0 : s->head - 1);
    return (last + 1) * (is_row(part) ? 4 : dt_kinds_size(s->dtype));
}

static bool is_written(const DtPlanSdpa *s, uint32_t part)
{
    return s->backward ? part >= DT_SDPA_DQ : part >= DT_SDPA_O;
}

bool dt_check_attention(const DtPlan *plan, const DtPlanInst *inst, char ret_why[DT_CHECK_WHY])
{
    for (uint32_t i = 0; i < plan->n_sdpas && plan->sdpas[i].kernel <= inst->ref; i++)
        for (uint32_t p = 0; p < DT_SDPA_PARTS && plan->sdpas[i].kernel == inst->ref; p++) {
            const DtPlanSdpa *s = &plan->sdpas[i];
            const DtPlanArg *arg =
                s->pointer[p] >= 0 ? &plan->args[inst->first_arg + (uint32_t)s->pointer[p]] : NULL;
            if (arg && (bytes_of(s, p) > arg->bytes || arg->written != is_written(s, p)))
                return wrong(ret_why, "part %u of its record of SDPA is larger, or %s", p,
                             arg->written ? "written" : "read");
        }
    return true;
}
