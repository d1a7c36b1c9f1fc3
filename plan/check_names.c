/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: names blocks. Afterwards every element of a part is inside its tensor, and every
 * number in a name is one of at most DT_PLAN_MAX_BYTES. */
#include "plan/check_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_NAMES (1 << 22) /* tensors that one record stands for */

/* A check in progress, and the tag and index of the first record that is wrong. */
typedef struct Names {
    const DtPlan *plan;
    const char *tag;
    uint32_t index;
    char *why;
} Names;

static bool fails(Names *check, const char *tag, uint32_t index, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool fails(Names *check, const char *tag, uint32_t index, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(check->why, DT_CHECK_WHY, format, args);
    va_end(args);
    check->tag = tag;
    check->index = index;
    return false;
}

static bool spans(Names *check, const char *tag, uint32_t index, uint32_t span)
{
    return span == 0 || span < check->plan->n_spans ||
           fails(check, tag, index, "span %u of %u", span, check->plan->n_spans);
}

static bool has(Names *check, const char *tag, uint32_t index, const char *what, uint64_t first,
                uint64_t count, uint64_t n)
{
    return (first <= n && count <= n - first) ||
           fails(check, tag, index, "%llu %s records from %llu of %llu", (unsigned long long)count,
                 what, (unsigned long long)first, (unsigned long long)n);
}

static bool check_rules(Names *check)
{
    for (uint32_t i = 0; i < check->plan->n_rules; i++)
        if (!spans(check, "RULE", i, check->plan->rules[i].span))
            return false;
    return true;
}

/* Returns the number of elements of axes from .. to - 1; -1 if it is too large or an extent is
 * below 1. */
static int64_t elements(const DtPlanFileTensor *tensor, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t a = from; a < to; a++)
        if (tensor->extent[a] < 1 || __builtin_mul_overflow(n, tensor->extent[a], &n) ||
            n > DT_PLAN_MAX_BYTES)
            return -1;
    return n;
}

/* Whether the text is so many numbers of at most nine digits, with commas between. */
static bool is_list(const char *text, uint32_t n)
{
    uint32_t found = 0;
    while (*text) {
        const size_t digits = strspn(text, "0123456789");
        if (digits < 1 || digits > 9 || (text[digits] != ',' && text[digits] != '\0'))
            return false;
        found++;
        text += digits + (text[digits] == ',' && text[digits + 1] != '\0');
        if (*text == ',')
            return false;
    }
    return found == n;
}

static bool check_hole(Names *check, const DtPlanFileTensor *tensor, uint32_t h)
{
    const DtPlanFileHole *hole = &check->plan->holes[h];
    DtWide least = hole->first, most = hole->first;
    for (uint32_t x = 0; x < DT_PLAN_MAX_RANK; x++) {
        const DtWide reach =
            x < tensor->n_index ? (DtWide)hole->factor[x] * (tensor->extent[x] - 1) : 0;
        if (x >= tensor->n_index && hole->factor[x] != 0)
            return fails(check, "HOLE", h, "has a factor of no index");
        least += reach < 0 ? reach : 0;
        most += reach > 0 ? reach : 0;
    }
    if (!is_list(dt_plan_str(check->plan, hole->list), hole->n_list))
        return fails(check, "HOLE", h, "lists other than %u numbers", hole->n_list);
    return (least >= 0 && most < (hole->n_list ? hole->n_list : DT_PLAN_MAX_BYTES)) ||
           fails(check, "HOLE", h, "makes numbers that no name has");
}

static bool check_part(Names *check, uint32_t p, int64_t size)
{
    const DtPlanFilePart *part = &check->plan->parts[p];
    DtWide last = part->first;
    if (part->n_axes > DT_PLAN_MAX_RANK || part->first < 0)
        return fails(check, "PART", p, "%u axes, from element %lld on", part->n_axes,
                     (long long)part->first);
    for (uint32_t a = 0; a < DT_PLAN_MAX_RANK; a++) {
        const bool used = a < part->n_axes;
        if (used ? part->count[a] < 1 || part->count[a] > DT_PLAN_MAX_BYTES || part->stride[a] < 0
                 : part->count[a] != 0 || part->stride[a] != 0)
            return fails(check, "PART", p, "%lld elements of axis %u, %lld apart",
                         (long long)part->count[a], a, (long long)part->stride[a]);
        if (used)
            last += (DtWide)part->stride[a] * (part->count[a] - 1);
    }
    return last < size ||
           fails(check, "PART", p, "reaches beyond its tensor of %lld elements", (long long)size);
}

static bool check_tensor(Names *check, uint32_t t)
{
    const DtPlan *plan = check->plan;
    const DtPlanFileTensor *tensor = &plan->tensors[t];
    uint32_t numbers = 0;
    if (tensor->n_axes > DT_PLAN_MAX_RANK || tensor->n_index > tensor->n_axes)
        return fails(check, "FTEN", t, "%u of %u axes make its names", tensor->n_index,
                     tensor->n_axes);
    const int64_t names = elements(tensor, 0, tensor->n_index),
                  size = elements(tensor, 0, tensor->n_axes);
    if (names < 0 || names > MOST_NAMES || size < 0)
        return fails(check, "FTEN", t, "has extents that cannot be");
    for (uint32_t a = tensor->n_axes; a < DT_PLAN_MAX_RANK; a++)
        if (tensor->extent[a] != 0)
            return fails(check, "FTEN", t, "has more extents than axes");
    for (const char *at = dt_plan_str(plan, tensor->pattern); *at; at++)
        numbers += *at == '#';
    if (numbers != tensor->n_holes)
        return fails(check, "FTEN", t, "%u numbers in a name with %u", tensor->n_holes, numbers);
    if (!has(check, "FTEN", t, "HOLE", tensor->first_hole, tensor->n_holes, plan->n_holes) ||
        !has(check, "FTEN", t, "PART", tensor->first_part, tensor->n_parts, plan->n_parts) ||
        !spans(check, "FTEN", t, tensor->span))
        return false;
    for (uint32_t h = 0; h < tensor->n_holes; h++)
        if (!check_hole(check, tensor, tensor->first_hole + h))
            return false;
    for (uint32_t p = 0; p < tensor->n_parts; p++)
        if (!check_part(check, tensor->first_part + p, size))
            return false;
    return true;
}

static bool check_all(Names *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t t = 0; t < plan->n_tensors; t++)
        if (!check_tensor(check, t))
            return false;
    for (uint32_t i = 0; i < plan->n_names; i++) {
        const DtPlanNames *names = &plan->names[i];
        if (!has(check, "NAMS", i, "FTEN", names->first_tensor, names->n_tensors,
                 plan->n_tensors) ||
            !has(check, "NAMS", i, "RULE", names->first_rule, names->n_rules, plan->n_rules) ||
            !spans(check, "NAMS", i, names->span))
            return false;
        if (names->adapters > 1)
            return fails(check, "NAMS", i, "adapters %u", names->adapters);
    }
    return check_rules(check);
}

bool dt_check_names(const DtPlan *plan, const char **ret_tag, uint32_t *ret_index,
                    char ret_why[DT_CHECK_WHY])
{
    Names check = {.plan = plan, .tag = "NAMS", .why = ret_why};
    const bool good = check_all(&check);
    *ret_tag = check.tag;
    *ret_index = check.index;
    return good;
}
