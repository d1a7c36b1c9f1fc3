/* SPDX-License-Identifier: Apache-2.0 */
/* Values that an input may not have, and where they and the source are, for messages. */
#include "runtime/data.h"

#include "base/half.h"

#include <math.h>
#include <stdio.h>

DtStatus dt_data_located(const DtData *data, DtStatus status)
{
    if (data->reader->span >= data->plan->n_spans)
        return status;
    const DtPlanSpan *span = &data->plan->spans[data->reader->span];
    return dt_status_fail(status.code, "%.100s:%u:%u: %.380s", dt_plan_str(data->plan, span->file),
                          span->line, span->column, status.message);
}

void dt_data_begin_note(const DtData *data, DtText *ret_notes)
{
    const DtPlanSpan *span = &data->plan->spans[data->reader->span];
    if (ret_notes->len > 0)
        dt_text_add(ret_notes, "\ndtrun: ");
    if (data->reader->span < data->plan->n_spans)
        dt_text_printf(ret_notes, "%s:%u:%u: ", dt_plan_str(data->plan, span->file), span->line,
                       span->column);
}

int64_t dt_data_outside(const DtPlanInput *input, const int32_t *values, int64_t n)
{
    for (int64_t i = 0; input->dtype == DT_PLAN_BOOL && i < n; i++)
        if (values[i] != 0 && values[i] != 1)
            return i;
    int64_t lo = input->lo[0] > INT32_MIN ? input->lo[0] : INT32_MIN;
    int64_t last = input->hi[0] - 1 < INT32_MAX ? input->hi[0] - 1 : INT32_MAX;
    if (input->n_ranges == 0)
        return -1;
    bool outside = false;
    for (int64_t i = 0; i < n; i++)
        outside |= values[i] < lo || values[i] > last;
    for (int64_t i = 0; outside && i < n; i++) {
        bool good = false;
        for (uint32_t r = 0; r < input->n_ranges; r++)
            good |= values[i] >= input->lo[r] && values[i] < input->hi[r];
        if (!good)
            return i;
    }
    return -1;
}

DtStatus dt_data_refuse(const DtData *data, const DtPlanInput *input, int64_t at, int32_t value)
{
    const DtPlan *plan = data->plan;
    char place[140] = "", where[400];
    dt_datatext_say(&data->tokens, at, "token", where);
    if (input->dtype == DT_PLAN_BOOL)
        return dt_status_fail(DT_EXIT_IO, "%.300s is %d, and `%.60s` is an input of bool: 0 or 1",
                              where, value, dt_plan_str(plan, input->name));
    if (input->span < plan->n_spans && plan->spans[input->span].line > 0)
        snprintf(place, sizeof place, " at %.100s:%u:%u",
                 dt_plan_str(plan, plan->spans[input->span].file), plan->spans[input->span].line,
                 plan->spans[input->span].column);
    return dt_status_fail(
        DT_EXIT_IO,
        "%.170s is %d: outside `%.40s` of %lld, which `%.40s` indexes%s", where, value,
        dt_plan_str(plan, input->indexed), (long long)input->extent,
        dt_plan_str(plan, input->name), place);
}

static bool is_too_large(uint32_t dtype, float value)
{
    const float kept = dtype == DT_PLAN_F16    ? dt_half_from_f16(dt_half_to_f16(value))
                       : dtype == DT_PLAN_BF16 ? dt_half_from_bf16(dt_half_to_bf16(value))
                                               : value;
    return isinf(kept) && isfinite(value);
}

int64_t dt_data_too_large(const DtPlanInput *input, const float *values, int64_t n)
{
    for (int64_t i = 0; input->dtype != DT_PLAN_F32 && i < n; i++)
        if (is_too_large(input->dtype, values[i]))
            return i;
    return -1;
}

DtStatus dt_data_refuse_float(const DtData *data, const DtPlanInput *input, int64_t at,
                              float value)
{
    char where[400];
    dt_datatext_say(&data->tokens, at, "value", where);
    return dt_status_fail(DT_EXIT_IO,
                          "%.240s, in row %lld, is %.8g, which is infinite in %s, the dtype of "
                          "`%.60s`: divide the values, or declare it f32",
                          where, (long long)(at / data->row), (double)value,
                          dt_kinds_name(input->dtype), dt_plan_str(data->plan, input->name));
}

DtStatus dt_data_refuse_made(const DtData *data, const DtPlanInput *input, int64_t sample,
                             int64_t place, int32_t value)
{
    return dt_status_fail(DT_EXIT_IO,
                          "position %lld of sample %lld of %.200s: `%.40s` is %d, outside `%.40s` "
                          "of %lld, which it indexes",
                          (long long)place, (long long)sample, data->name,
                          dt_plan_str(data->plan, input->name), value,
                          dt_plan_str(data->plan, input->indexed), (long long)input->extent);
}
