/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/data_sampler.h"

#include "base/hash.h"

#include <string.h>

const DtSampler *dt_datasampler_of(const DtPlanReader *reader)
{
    return reader->sample == DT_PLAN_MLM               ? &dt_datamask
           : reader->sample == DT_PLAN_SPAN_CORRUPTION ? &dt_dataspans
                                                       : NULL;
}

static DtStatus check_inputs(const DtData *data)
{
    const DtSampler *s = data->sampler;
    if (data->reader->n_inputs != s->n_inputs)
        return dt_status_fail(DT_EXIT_FAILED, "%s fills %u inputs, not %u", s->name, s->n_inputs,
                              data->reader->n_inputs);
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        const uint32_t wants = s->dtypes[i] == 'b' ? DT_PLAN_BOOL : DT_PLAN_I32;
        if (data->inputs[i].dtype != wants || data->inputs[i].row_elements < 1)
            return dt_status_fail(DT_EXIT_FAILED, "input `%.60s` must be %s for %s",
                                  dt_plan_str(data->plan, data->inputs[i].name),
                                  dt_kinds_name(wants), s->name);
    }
    return DT_OK;
}

DtStatus dt_datasampler_open(DtData *data, const char *tokenizer)
{
    const char *site = dt_arena_printf(data->memory, "%s.%s.%s", data->sampler->name,
                                       data->reader->is_eval ? "eval" : "data",
                                       dt_plan_str(data->plan, data->inputs[0].name));
    data->draws = dt_hash_text(site, data->key);
    data->tokenizer = tokenizer;
    DtStatus status = check_inputs(data);
    if (dt_status_ok(&status))
        status = data->sampler->open(data);
    if (dt_status_ok(&status))
        data->window = DT_NEW_ARRAY(data->memory, int32_t, data->row);
    return status;
}

/* Checks that the source has no token that the sampler uses as a mark. */
static DtStatus check_marks(const DtData *data, int64_t at)
{
    const DtMarks *marks = &data->marks;
    for (int64_t i = 0; i < data->row; i++) {
        if (data->window[i] < marks->lo || data->window[i] >= marks->hi)
            continue;
        char where[400];
        dt_datatext_say(&data->tokens, at + i, "token", where);
        return dt_status_fail(DT_EXIT_IO,
                              "%.250s is %d, one of the sentinels %lld to %lld of %s: `sentinel` "
                              "names the first of tokens that the data have not",
                              where, data->window[i], (long long)marks->lo,
                              (long long)marks->hi - 1, data->sampler->name);
    }
    return DT_OK;
}

/* Checks the values that the sampler made. */
static DtStatus check_made(const DtData *data, int64_t sample, char *const *rows)
{
    for (uint32_t i = 0; i < data->reader->n_inputs; i++) {
        const DtPlanInput *input = &data->inputs[i];
        if (input->dtype != DT_PLAN_I32)
            continue;
        const int32_t *values = (const int32_t *)(const void *)rows[i];
        const int64_t bad = dt_data_outside(input, values, input->row_elements);
        if (bad >= 0)
            return dt_data_refuse_made(data, input, sample, bad, values[bad]);
    }
    return DT_OK;
}

DtStatus dt_datasampler_read(DtData *data, int64_t sample, int64_t at, int64_t row,
                             char *const *inputs)
{
    char *rows[DT_DATA_SAMPLER_INPUTS];
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < data->reader->n_inputs; i++)
        rows[i] = inputs[i] +
                  row * data->inputs[i].row_elements * dt_kinds_size(data->inputs[i].dtype);
    if (data->synthetic)
        dt_synthetic_fill(&data->synthetic[0], DT_PLAN_I32, sample, 0, data->row, data->window);
    else
        status = dt_datatext_read(&data->tokens, at, data->row, data->window);
    if (dt_status_ok(&status) && !data->synthetic) {
        const int64_t bad = dt_data_outside(&data->inputs[0], data->window, data->row);
        status = bad >= 0
                     ? dt_data_refuse(data, &data->inputs[0], at + bad, data->window[bad])
                     : check_marks(data, at);
    }
    if (!dt_status_ok(&status))
        return status;
    data->sampler->make(data, sample, data->window, rows);
    return data->synthetic ? DT_OK : check_made(data, sample, rows);
}
