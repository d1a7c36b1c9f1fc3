/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: names blocks. Afterwards every element of a part is inside its tensor, and every
 * number in a name is one of at most DT_PLAN_MAX_BYTES. */
#include "plan/check_internal.h"

#include <string.h>

#define MOST_NAMES (1 << 22) /* tensors that one record stands for */

static bool check_rules(Check *check)
{
    for (uint32_t i = 0; i < check->plan->n_rules; i++)
        if (!dt_check_span(check, "RULE", i, check->plan->rules[i].span))
            return false;
    return true;
}

/* Elements of axes from..to - 1, or -1. */
static int64_t elements(const DtPlanFileTensor *tensor, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t a = from; a < to; a++)
        if (tensor->extent[a] < 1 || __builtin_mul_overflow(n, tensor->extent[a], &n) ||
            n > DT_PLAN_MAX_BYTES)
            return -1;
    return n;
}

static bool check_hole(Check *check, const DtPlanFileTensor *tensor, uint32_t h)
{
    const DtPlanFileHole *hole = &check->plan->holes[h];
    DtWide least = hole->first, most = hole->first;
    for (uint32_t x = 0; x < DT_PLAN_MAX_RANK; x++) {
        const DtWide reach =
            x < tensor->n_index ? (DtWide)hole->factor[x] * (tensor->extent[x] - 1) : 0;
        if (x >= tensor->n_index && hole->factor[x] != 0)
            return dt_check_fail(check, "HOLE", h, "has a factor of no index");
        least += reach < 0 ? reach : 0;
        most += reach > 0 ? reach : 0;
    }
    return (least >= 0 && most <= DT_PLAN_MAX_BYTES) ||
           dt_check_fail(check, "HOLE", h, "makes numbers that no name has");
}

static bool check_part(Check *check, uint32_t p, int64_t size)
{
    const DtPlanFilePart *part = &check->plan->parts[p];
    DtWide last = part->first;
    if (part->n_axes > DT_PLAN_MAX_RANK || part->first < 0)
        return dt_check_fail(check, "PART", p, "%u axes, from element %lld on", part->n_axes,
                             (long long)part->first);
    for (uint32_t a = 0; a < DT_PLAN_MAX_RANK; a++) {
        const bool used = a < part->n_axes;
        if (used ? part->count[a] < 1 || part->count[a] > DT_PLAN_MAX_BYTES || part->stride[a] < 0
                 : part->count[a] != 0 || part->stride[a] != 0)
            return dt_check_fail(check, "PART", p, "%lld elements of axis %u, %lld apart",
                                 (long long)part->count[a], a, (long long)part->stride[a]);
        if (used)
            last += (DtWide)part->stride[a] * (part->count[a] - 1);
    }
    return last < size ||
           dt_check_fail(check, "PART", p, "reaches beyond its tensor of %lld elements",
                         (long long)size);
}

static bool check_tensor(Check *check, uint32_t t)
{
    const DtPlan *plan = check->plan;
    const DtPlanFileTensor *tensor = &plan->tensors[t];
    uint32_t numbers = 0;
    if (tensor->n_axes > DT_PLAN_MAX_RANK || tensor->n_index > tensor->n_axes)
        return dt_check_fail(check, "FTEN", t, "%u of %u axes make its names", tensor->n_index,
                             tensor->n_axes);
    const int64_t names = elements(tensor, 0, tensor->n_index),
                  size = elements(tensor, 0, tensor->n_axes);
    if (names < 0 || names > MOST_NAMES || size < 0)
        return dt_check_fail(check, "FTEN", t, "has extents that cannot be");
    for (uint32_t a = tensor->n_axes; a < DT_PLAN_MAX_RANK; a++)
        if (tensor->extent[a] != 0)
            return dt_check_fail(check, "FTEN", t, "has more extents than axes");
    for (const char *at = dt_plan_str(plan, tensor->pattern); *at; at++)
        numbers += *at == '#';
    if (numbers != tensor->n_holes)
        return dt_check_fail(check, "FTEN", t, "%u numbers in a name with %u", tensor->n_holes,
                             numbers);
    if (!dt_check_range(check, "FTEN", t, "HOLE", tensor->first_hole, tensor->n_holes,
                        plan->n_holes) ||
        !dt_check_range(check, "FTEN", t, "PART", tensor->first_part, tensor->n_parts,
                        plan->n_parts) ||
        !dt_check_span(check, "FTEN", t, tensor->span))
        return false;
    for (uint32_t h = 0; h < tensor->n_holes; h++)
        if (!check_hole(check, tensor, tensor->first_hole + h))
            return false;
    for (uint32_t p = 0; p < tensor->n_parts; p++)
        if (!check_part(check, tensor->first_part + p, size))
            return false;
    return true;
}

bool dt_check_names(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t t = 0; t < plan->n_tensors; t++)
        if (!check_tensor(check, t))
            return false;
    for (uint32_t i = 0; i < plan->n_names; i++) {
        const DtPlanNames *names = &plan->names[i];
        if (!dt_check_range(check, "NAMS", i, "FTEN", names->first_tensor, names->n_tensors,
                            plan->n_tensors) ||
            !dt_check_range(check, "NAMS", i, "RULE", names->first_rule, names->n_rules,
                            plan->n_rules) ||
            !dt_check_span(check, "NAMS", i, names->span))
            return false;
    }
    return check_rules(check);
}
