/* SPDX-License-Identifier: Apache-2.0 */
/* Readers: rows of a batch from files or random numbers. The sample of row b of step t depends only
 * on t * batch + b, so every layout and size of micro-batches trains on the same rows. A resumed
 * run with another batch size begins with the next unread sample (ramp.c).
 *
 * A stream of T tokens is cut into windows of `row` tokens (next_token: one more, which overlaps
 * with the next window). An epoch has a fixed number of windows, T / row - 1 for next_token: as
 * many as fit after every offset below `row`. So sample number s is window s % n of epoch s / n.
 * Each epoch has its own keyed offset and order. Other sources are cut without overlap and
 * offset. Held-out data is read in the order of the file. */
#include "runtime/data_chat.h"
#include "runtime/data_images.h"
#include "runtime/data_sampler.h"

#include "base/half.h"
#include "base/hash.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { SYNTHETIC_BATCHES = 100 }; /* samples of a whole evaluation on random numbers */

/* ---- opening ---- */

/* Whether the input says which of the source's numbers it takes: integers, floats or bools. */
static bool has_any_dtype(const DtPlanReader *reader)
{
    return reader->source == DT_PLAN_NPY || reader->source == DT_PLAN_CSV;
}

/* Checks that the reader can fill its inputs. tokenizer: that of its text, or NULL. */
static DtStatus check_inputs(DtData *data, const char *tokenizer)
{
    const DtPlanReader *reader = data->reader;
    const bool windows = reader->sample == DT_PLAN_NEXT_TOKEN;
    const uint32_t wanted = windows ? 2 : 1;
    const char *name = windows ? "next_token" : "a source by itself";
    if ((!windows && reader->sample != DT_PLAN_RAW && !data->sampler) ||
        (reader->source != DT_PLAN_TEXT && reader->source != DT_PLAN_BIN &&
         reader->source != DT_PLAN_MEGATRON && !has_any_dtype(reader)))
        return dt_status_fail(DT_EXIT_FAILED, "%s cannot read this source", name);
    if (data->sampler)
        return dt_datasampler_open(data, tokenizer);
    if (reader->n_inputs != wanted)
        return dt_status_fail(DT_EXIT_FAILED, "%s fills %u inputs, not %u", name, wanted,
                              reader->n_inputs);
    const bool is_array = has_any_dtype(reader) && reader->sample == DT_PLAN_RAW;
    const bool floats = is_array ? dt_kinds_is_float(data->inputs[0].dtype)
                                 : reader->source == DT_PLAN_BIN && reader->dtype >= DT_PLAN_F16;
    const bool is_bool = is_array && data->inputs[0].dtype == DT_PLAN_BOOL;
    const uint32_t dtype = is_bool || (is_array && floats) ? data->inputs[0].dtype
                           : floats                        ? DT_PLAN_F32
                                                           : DT_PLAN_I32;
    for (uint32_t i = 0; i < wanted; i++)
        if (data->inputs[i].dtype != dtype ||
            data->inputs[i].row_elements != data->inputs[0].row_elements ||
            data->inputs[i].row_elements < 1)
            return dt_status_fail(DT_EXIT_FAILED,
                                  "input `%s` must be %s and as long as the other for %s",
                                  dt_plan_str(data->plan, data->inputs[i].name),
                                  dt_kinds_name(dtype), name);
    return DT_OK;
}

/* Checks that each rank reads whole rows. */
static DtStatus check_whole_rows(const DtData *data)
{
    for (uint32_t i = 0; i < data->reader->n_inputs; i++) {
        const DtPlanInput *input = &data->inputs[i];
        for (uint32_t a = 1; a < input->n_axes; a++) {
            const DtPlanAxis *axis = &data->plan->axes[input->first_axis + a];
            if (axis->local != axis->extent)
                return dt_status_fail(
                    DT_EXIT_FAILED,
                    "input `%s`: a row that is split over ranks (axis `%s`) cannot be "
                    "read yet",
                    dt_plan_str(data->plan, input->name), dt_plan_str(data->plan, axis->name));
        }
    }
    return DT_OK;
}

DtStatus dt_data_cut(DtData *data)
{
    const DtPlanReader *reader = data->reader;
    int64_t n = data->tokens.n;
    if (!data->sampler)
        data->row = data->inputs[0].row_elements;
    data->more = reader->sample == DT_PLAN_NEXT_TOKEN;
    if (n < data->row + data->more) {
        char part[80] = "";
        if (reader->from > 0 || reader->to < 1)
            snprintf(part, sizeof part, " between %g and %g of %lld", reader->from, reader->to,
                     (long long)data->tokens.total);
        return dt_status_fail(DT_EXIT_IO,
                              "%.150s is too short: a sample takes %lld tokens, there are %lld%s",
                              data->name, (long long)(data->row + data->more), (long long)n, part);
    }
    data->offsets = 1;
    data->windows = (n - data->more) / data->row;
    if ((data->more || data->sampler) && !reader->is_eval) {
        data->windows = n / data->row > 2 ? n / data->row - 1 : 1;
        const int64_t room = n - data->windows * data->row + 1 - data->more;
        data->offsets = room < data->row ? room : data->row;
    }
    return DT_OK;
}

/* Returns the format of the source's files; width 0: `bin` cannot read the input's dtype from
 * files. */
static DtTokenFormat format_of(const DtData *data)
{
    const DtPlanReader *reader = data->reader;
    const DtPlanInput *input = &data->inputs[0];
    DtTokenFormat format = {.dtype = DT_PLAN_U8,
                            .width = 1,
                            .text = reader->source == DT_PLAN_TEXT,
                            .raw = reader->raw,
                            .stream = reader->sample != DT_PLAN_RAW,
                            .input = dt_plan_str(data->plan, input->name)};
    format.npy = reader->source == DT_PLAN_NPY;
    format.megatron = reader->source == DT_PLAN_MEGATRON;
    format.wants_bools = input->dtype == DT_PLAN_BOOL;
    if (reader->source == DT_PLAN_CSV) {
        format.columns = dt_plan_str(data->plan, reader->columns);
        format.separator = (char)reader->separator;
        format.header = reader->header;
    }
    if (has_any_dtype(reader)) {
        format.dtype = dt_kinds_is_float(input->dtype) ? DT_PLAN_F64 : DT_PLAN_I64;
        format.width = (int)dt_kinds_size(format.dtype);
    } else if (format.megatron) {
        format.dtype = DT_PLAN_I64;
        format.width = (int)dt_kinds_size(format.dtype);
    } else if (!format.text) {
        const bool known = reader->dtype > DT_PLAN_BOOL && reader->dtype < DT_PLAN_F64;
        format.dtype = reader->dtype;
        format.width = known ? (int)dt_kinds_size(reader->dtype) : 0;
    }
    for (uint32_t a = 1; a < input->n_axes; a++)
        format.extents[format.n_axes++] = data->plan->axes[input->first_axis + a].extent;
    return format;
}

/* Opens the ids of texts, which a tokenizer makes if the cache does not have them. */
static DtStatus open_ids(DtData *data, const DtDataFiles *files, const DtTokenFormat *format,
                         const char *tokenizer)
{
    const DtPlanReader *reader = data->reader;
    const char *end = dt_plan_str(data->plan, reader->end);
    DtTokensSource source = {.texts = &data->texts,
                             .tokenizer = dt_tokenizer_path(data->memory, tokenizer),
                             .end = *end ? end : NULL};
    DtStatus status = dt_datatext_open(data->memory, files, format, 0, 1, &data->texts);
    return dt_status_ok(&status) ? dt_datatokens_open(data->memory, &source, reader->from,
                                                      reader->to, &data->tokens)
                                 : status;
}

/* Opens a source of conversations. */
static DtStatus open_chat(DtData *data, const DtDataPlace *place, const char *tokenizer)
{
    DtDataFiles files;
    DtStatus status = check_whole_rows(data);
    if (dt_status_ok(&status))
        status = dt_datapaths_list(data->memory, place, &files);
    return dt_status_ok(&status) ? dt_datachat_open(data, &files, tokenizer) : status;
}

static DtStatus open_images(DtData *data, const DtRunOptions *options, const DtDataPlace *place)
{
    DtStatus status = check_whole_rows(data);
    return dt_status_ok(&status) ? dt_dataimages_open(data, options, place) : status;
}

static DtStatus open_files(DtData *data, const DtRunOptions *options, const DtDataPlace *place,
                           const char *tokenizer)
{
    const DtPlanReader *reader = data->reader;
    DtDataFiles files;
    if (reader->source == DT_PLAN_IMAGES && reader->sample == DT_PLAN_SAMPLE_IMAGES)
        return open_images(data, options, place);
    if (reader->source == DT_PLAN_CHAT && reader->sample == DT_PLAN_SAMPLE_CHAT)
        return open_chat(data, place, tokenizer);
    DtStatus status =
        check_inputs(data, tokenizer ? dt_tokenizer_path(data->memory, tokenizer) : NULL);
    if (dt_status_ok(&status))
        status = check_whole_rows(data);
    const DtTokenFormat format = format_of(data);
    if (dt_status_ok(&status) && format.width == 0)
        status = dt_status_fail(DT_EXIT_FAILED,
                                "`bin` reads u8, u16, u32, i32, i64, f32, f16 or bf16, not %s",
                                dt_kinds_name(reader->dtype));
    if (dt_status_ok(&status))
        status = dt_datapaths_list(data->memory, place, &files);
    if (dt_status_ok(&status))
        status = tokenizer ? open_ids(data, &files, &format, tokenizer)
                           : dt_datatext_open(data->memory, &files, &format, reader->from,
                                              reader->to, &data->tokens);
    return dt_status_ok(&status) ? dt_data_cut(data) : status;
}

/* Returns the range of random numbers that replace the data of files: numbers that the program can
 * use as an index. For an input that is no index: bytes for token ids, ten classes for images, and
 * floats in -1 .. 1. */
static DtSynthetic usual_range(const DtPlanReader *reader, uint32_t number,
                               const DtPlanInput *input)
{
    if (input->dtype >= DT_PLAN_F16)
        return (DtSynthetic){.lo = -1, .hi = 1};
    if (input->draw_lo < input->draw_hi)
        return (DtSynthetic){.lo = (double)input->draw_lo, .hi = (double)input->draw_hi};
    bool classes = reader->sample == DT_PLAN_SAMPLE_IMAGES && number == 1;
    return (DtSynthetic){.lo = 0, .hi = classes ? 10 : input->dtype == DT_PLAN_BOOL ? 2 : 256};
}

/* Returns the range of a stream that fills all inputs: only numbers that every input can use as an
 * index. */
static DtSynthetic stream_range(const DtData *data)
{
    DtSynthetic range = usual_range(data->reader, 0, &data->inputs[0]);
    bool said = data->inputs[0].draw_lo < data->inputs[0].draw_hi;
    for (uint32_t i = 1; i < data->reader->n_inputs; i++) {
        const DtPlanInput *input = &data->inputs[i];
        if (input->draw_lo >= input->draw_hi)
            continue;
        range.lo = said && range.lo > (double)input->draw_lo ? range.lo : (double)input->draw_lo;
        range.hi = said && range.hi < (double)input->draw_hi ? range.hi : (double)input->draw_hi;
        said = true;
    }
    return range;
}

/* Leaves sentinels out of random tokens, which a sampler makes samples of. */
static void leave_marks(const DtData *data, DtSynthetic *made)
{
    if (data->marks.lo < data->marks.hi && made->hi > (double)data->marks.lo)
        made->hi = (double)data->marks.lo;
}

static DtStatus open_synthetic(DtData *data)
{
    const DtPlanReader *reader = data->reader;
    DtStatus status = check_whole_rows(data);
    if (!dt_status_ok(&status))
        return status;
    if (data->sampler)
        status = dt_datasampler_open(data, NULL);
    if (!dt_status_ok(&status))
        return status;
    data->synthetic = DT_NEW_ARRAY(data->memory, DtSynthetic, reader->n_inputs);
    for (uint32_t i = 0; i < reader->n_inputs; i++) {
        const DtPlanInput *input = &data->inputs[i];
        DtSynthetic *made = &data->synthetic[i];
        *made = reader->source == DT_PLAN_SYNTHETIC
                    ? (DtSynthetic){.lo = reader->lo, .hi = reader->hi}
                : reader->sample == DT_PLAN_NEXT_TOKEN ? stream_range(data)
                                                       : usual_range(reader, i, input);
        const char *site = dt_arena_printf(data->memory, "%s.%s", reader->is_eval ? "eval" : "data",
                                           dt_plan_str(data->plan, input->name));
        made->key = dt_hash_text(site, data->plan->meta->seed);
        if (reader->part > 1)
            made->key = dt_hash_text("part", made->key + reader->part);
        leave_marks(data, made);
        if (!dt_synthetic_fill(made, data->sampler ? DT_PLAN_I32 : input->dtype, 0, 0, 0, NULL))
            return dt_status_fail(DT_EXIT_FAILED,
                                  "input `%s`: no random %s between %g and %g can be made",
                                  dt_plan_str(data->plan, input->name), dt_kinds_name(input->dtype),
                                  made->lo, made->hi);
    }
    if (reader->sample == DT_PLAN_NEXT_TOKEN &&
        (reader->n_inputs != 2 || data->inputs[0].dtype != data->inputs[1].dtype ||
         data->inputs[0].row_elements != data->inputs[1].row_elements))
        return dt_status_fail(DT_EXIT_FAILED, "next_token fills two inputs of one type");
    data->windows = INT64_MAX;
    return DT_OK;
}

DtStatus dt_data_open(const DtRunOptions *options, const DtPlan *plan, uint32_t reader,
                      DtData **ret_data)
{
    DtArena *memory = dt_arena_new();
    DtData *data = DT_NEW(memory, DtData);
    DtDataPlace place;
    const char *tokenizer = NULL;
    *data = (DtData){.memory = memory,
                     .plan = plan,
                     .reader = &plan->readers[reader],
                     .inputs = &plan->inputs[plan->readers[reader].first_input],
                     .sampler = dt_datasampler_of(&plan->readers[reader]),
                     .key = dt_hash_text("data", plan->meta->seed)};
    if (data->reader->unpaired)
        data->key = dt_hash_text(dt_plan_str(plan, data->inputs[0].name), data->key);
    if (data->reader->part > 0)
        data->key = dt_hash_text(dt_arena_printf(memory, "part %u", data->reader->part), data->key);
    DtStatus status = dt_datapaths_place(memory, options, plan, reader, &place);
    if (dt_status_ok(&status) && !place.synthetic)
        status = dt_datapaths_tokenizer(memory, options, plan, reader, &tokenizer);
    if (dt_status_ok(&status)) {
        data->name = place.literal;
        status = place.synthetic ? open_synthetic(data)
                                 : open_files(data, options, &place, tokenizer);
        if (!dt_status_ok(&status))
            status = dt_data_located(data, status);
    }
    if (!dt_status_ok(&status)) {
        dt_data_close(data);
        return status;
    }
    data->samples = data->synthetic ? 0 : data->windows;
    *ret_data = data;
    return DT_OK;
}

DtStatus dt_data_open_file(const DtRunOptions *options, const DtPlan *plan,
                           const DtPlanInput *input, const char *path, DtData **ret_data)
{
    DtStatus images = dt_dataimages_open_input(options, plan, input, path, ret_data);
    if (!dt_status_ok(&images) || *ret_data)
        return images;
    DtArena *memory = dt_arena_new();
    DtData *data = DT_NEW(memory, DtData);
    DtPlanReader *reader = DT_NEW(memory, DtPlanReader);
    const DtDataFiles files = {&path, 1};
    *reader = (DtPlanReader){.sample = DT_PLAN_RAW, .source = DT_PLAN_NPY, .is_eval = 1,
                             .n_inputs = 1, .to = 1, .span = UINT32_MAX};
    *data = (DtData){
        .memory = memory, .plan = plan, .reader = reader, .inputs = input, .name = path};
    DtStatus status = check_inputs(data, NULL);
    if (dt_status_ok(&status))
        status = check_whole_rows(data);
    const DtTokenFormat format = format_of(data);
    if (dt_status_ok(&status))
        status = dt_datatext_open(memory, &files, &format, 0, 1, &data->tokens);
    if (dt_status_ok(&status))
        status = dt_data_cut(data);
    if (!dt_status_ok(&status)) {
        dt_data_close(data);
        return status;
    }
    data->samples = data->windows;
    *ret_data = data;
    return DT_OK;
}

void dt_data_close(DtData *data)
{
    dt_dataimages_close(data);
    dt_datatext_close(&data->tokens);
    dt_datatext_close(&data->texts);
    dt_arena_free(data->memory);
}

int64_t dt_data_batches(const DtData *data)
{
    return data->samples == 0 ? SYNTHETIC_BATCHES : data->samples / data->plan->meta->batch;
}

int64_t dt_data_samples(const DtData *data) { return data->samples; }

void dt_data_begin(DtData *data, const DtRamp *ramp) { data->ramp = ramp; }

void dt_data_end(DtData *data, int64_t samples)
{
    if (data->synthetic)
        data->samples = samples;
}

/* ---- reading ---- */

/* After the end of held-out data the last sample is repeated. */
static int64_t within(const DtData *data, int64_t sample)
{
    if (data->reader->is_eval && data->samples > 0 && sample >= data->samples)
        sample = data->samples - 1;
    return sample;
}

int64_t dt_data_start(const DtData *data, int64_t sample)
{
    sample = within(data, sample);
    int64_t epoch = sample / data->windows, index = sample % data->windows;
    if (data->reader->is_eval)
        return index * data->row;
    DtPermutation order = {data->key, (uint64_t)epoch, (uint64_t)data->windows};
    return (int64_t)dt_permutation_offset(&order, (uint64_t)data->offsets) +
           (int64_t)dt_permutation_at(&order, (uint64_t)index) * data->row;
}

static void read_synthetic(const DtData *data, int64_t sample, int64_t row, char *const *inputs)
{
    bool shifted = data->reader->sample == DT_PLAN_NEXT_TOKEN;
    for (uint32_t i = 0; i < data->reader->n_inputs; i++) {
        const DtPlanInput *input = &data->inputs[i];
        char *to = inputs[i] + row * input->row_elements * dt_kinds_size(input->dtype);
        /* Labels are taken from the same stream, one position later. */
        dt_synthetic_fill(&data->synthetic[shifted ? 0 : i], input->dtype, sample, shifted ? i : 0,
                          input->row_elements, to);
    }
}

void dt_data_narrow(const DtPlanInput *input, const int32_t *values, int64_t n, char *to)
{
    if (dt_kinds_size(input->dtype) == (int64_t)sizeof *values) {
        memcpy(to, values, (size_t)n * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, &values[i], sizeof value);
        const uint16_t half =
            input->dtype == DT_PLAN_F16 ? dt_half_to_f16(value) : dt_half_to_bf16(value);
        if (input->dtype == DT_PLAN_BOOL)
            to[i] = (char)values[i];
        else
            memcpy(to + i * (int64_t)sizeof half, &half, sizeof half);
    }
}

/* Reads n values for number i of the inputs as i32 or f32. at: the first value in the part. */
static DtStatus read_checked(const DtData *data, uint32_t i, int64_t at, int64_t n, int32_t *to)
{
    const DtPlanInput *input = &data->inputs[i];
    const float *floats = (const float *)(const void *)to;
    const bool is_float = dt_data_is_float(data);
    DtStatus status = dt_datatext_read(&data->tokens, at, n, to);
    if (!dt_status_ok(&status))
        return status;
    const int64_t bad =
        is_float ? dt_data_too_large(input, floats, n) : dt_data_outside(input, to, n);
    if (bad < 0)
        return DT_OK;
    return is_float ? dt_data_refuse_float(data, input, at + bad, floats[bad])
                    : dt_data_refuse(data, input, at + bad, to[bad]);
}

/* Reads the values of one sample for number i of the inputs. at: the first value in the part. */
static DtStatus read_values(const DtData *data, uint32_t i, int64_t at, char *to)
{
    enum { BLOCK = 1024 };
    const DtPlanInput *input = &data->inputs[i];
    const int64_t size = dt_kinds_size(input->dtype);
    int32_t values[BLOCK];
    if (size == (int64_t)sizeof *values)
        return read_checked(data, i, at, data->row, (int32_t *)(void *)to);
    for (int64_t done = 0; done < data->row; done += BLOCK) {
        const int64_t n = data->row - done < BLOCK ? data->row - done : BLOCK;
        DtStatus status = read_checked(data, i, at + done, n, values);
        if (!dt_status_ok(&status))
            return status;
        dt_data_narrow(input, values, n, to + done * size);
    }
    return DT_OK;
}

static DtStatus read_row(DtData *data, int64_t sample, int64_t row, char *const *inputs)
{
    if (data->n_parts > 0)
        data = dt_datamix_find(data, sample, &sample);
    sample = within(data, sample);
    if (data->synthetic && !data->sampler) {
        read_synthetic(data, sample, row, inputs);
        return DT_OK;
    }
    int64_t start = data->synthetic ? 0 : dt_data_start(data, sample);
    DtStatus status = DT_OK;
    if (data->sampler) {
        status = dt_datasampler_read(data, sample, start, row, inputs);
        return dt_status_ok(&status) ? status : dt_data_located(data, status);
    }
    if (data->reader->source == DT_PLAN_CHAT) {
        status = dt_datachat_read(data, start, row, inputs);
        return dt_status_ok(&status) ? status : dt_data_located(data, status);
    }
    for (uint32_t i = 0; i < data->reader->n_inputs && dt_status_ok(&status); i++) {
        const int64_t size = dt_kinds_size(data->inputs[i].dtype);
        status = read_values(data, i, start + i, inputs[i] + row * data->row * size);
    }
    return dt_status_ok(&status) ? status : dt_data_located(data, status);
}

DtStatus dt_data_read(DtData *data, int64_t step, int64_t first, int64_t rows, char *const *inputs)
{
    int64_t batch = data->plan->meta->batch, sample;
    if (step < 0 || first < 0 || __builtin_mul_overflow(step, batch, &sample))
        sample = INT64_MIN;
    else if (data->ramp)
        sample = dt_ramp_first(data->ramp, step) - (batch - dt_ramp_rows(data->ramp, step));
    if (sample < -batch || __builtin_add_overflow(sample, first + rows, &sample))
        return dt_status_fail(DT_EXIT_FAILED,
                              "no sample has a number as large as step %lld of %lld samples",
                              (long long)step, (long long)batch);
    /* an input that the program does not use is read as a whole, also rows before the step's */
    sample = sample < rows ? 0 : sample - rows;
    if (data->images) {
        DtStatus status = dt_dataimages_read(data, sample, rows, inputs);
        return dt_status_ok(&status) ? status : dt_data_located(data, status);
    }
    for (int64_t row = 0; row < rows; row++) {
        DtStatus status = read_row(data, sample + row, row, inputs);
        if (!dt_status_ok(&status))
            return status;
    }
    DtStatus status = dt_datatext_cut(&data->tokens);
    return dt_status_ok(&status) ? status : dt_data_located(data, status);
}
