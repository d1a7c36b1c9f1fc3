/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: reports a wrong record, and checks numbers that records of many kinds have. */
#include "plan/check_internal.h"

#include <stdarg.h>
#include <stdio.h>

bool dt_check_fail(Check *check, const char *tag, uint32_t index, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    check->status = dt_status_fail(DT_EXIT_IO, "plan record %.4s %u: %s", tag, index, text);
    return false;
}

bool dt_check_range(Check *check, const char *tag, uint32_t index, const char *what, uint64_t first,
                    uint64_t count, uint64_t n)
{
    if (first <= n && count <= n - first)
        return true;
    return dt_check_fail(check, tag, index, "%s %llu + %llu of %llu", what,
                         (unsigned long long)first, (unsigned long long)count,
                         (unsigned long long)n);
}

bool dt_check_stage(Check *check, const char *tag, uint32_t index, int32_t stage)
{
    return stage == -1 || (stage >= 0 && (uint32_t)stage < dt_plan_stages(check->plan)) ||
           dt_check_fail(check, tag, index, "stage %d of %u", stage, dt_plan_stages(check->plan));
}

bool dt_check_span(Check *check, const char *tag, uint32_t index, uint32_t span)
{
    if (span == 0 || span < check->plan->n_spans)
        return true;
    return dt_check_fail(check, tag, index, "span %u of %u", span, check->plan->n_spans);
}
