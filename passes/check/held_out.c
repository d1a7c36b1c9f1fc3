/* SPDX-License-Identifier: Apache-2.0 */
/* Held-out data in files. The trial gets files of random numbers in place of those that the program
 * names. This file knows from the manual (docs/data.md), not from the runtime, which numbers each
 * sample consists of. A part of a stream is cut into windows in the order of the file; `next_token`
 * has one number more, the last label. The part ends with that number, or just before one more
 * window; the samples fill no whole batches.
 *
 *   .  .  . [0  1  2  3][4  5  6  7][8  9 10 11] 12  .     part, windows of 4, labels one later
 * */
#include "passes/check/internal.h"

#include "base/hash.h"
#include "base/philox.h"
#include "frontend/facts.h"
#include "ir/round.h"

#include <math.h>
#include <string.h>

/* A test needs no longer stream; a program that requires one is not covered. */
enum { MOST_NUMBERS = 1 << 20 };

static bool is_file(const DtSource *source)
{
    return !source->tokenizer && (source->kind == DT_SOURCE_TEXT ||
                                  source->kind == DT_SOURCE_BIN || source->kind == DT_SOURCE_NPY);
}

/* The reader as the program writes it: "csv(..)". */
static const char *written(DtArena *arena, const DtReader *reader)
{
    const bool is_sampler =
        reader->kind == DT_SAMPLE_MLM || reader->kind == DT_SAMPLE_SPAN_CORRUPTION;
    return dt_arena_printf(arena, "%s(..%s)",
                           is_sampler ? dt_facts_samples[reader->kind]
                                      : dt_facts_sources[reader->source.kind],
                           !is_sampler && reader->source.tokenizer ? ", tokenizer = .." : "");
}

static const DtReader *reader_of(const DtTrainConfig *train, const char *input)
{
    for (uint32_t i = 0; i < train->eval_readers.n; i++)
        for (uint32_t k = 0; k < train->eval_readers.at[i].n_inputs; k++)
            if (strcmp(train->eval_readers.at[i].inputs[k], input) == 0)
                return &train->eval_readers.at[i];
    return NULL;
}

/* Whether part * total is so far from a boundary between whole numbers that every way of rounding
 * begins the part at the same number. */
static bool is_exact(double part, int64_t total)
{
    const double at = part * (double)total;
    return fabs(at - round(at)) < 1e-9 && floor(at) == round(at);
}

/* The shortest stream whose part begins and ends with a sample of `row` numbers (1: anywhere) and
 * has `least` numbers; 0: none. */
static int64_t total_of(const DtSource *source, int64_t row, int64_t least)
{
    for (int64_t total = (least + row - 1) / row * row; total < MOST_NUMBERS; total += row) {
        const int64_t from = (int64_t)round(source->from * (double)total);
        const int64_t to = (int64_t)round(source->to * (double)total);
        if (is_exact(source->from, total) && is_exact(source->to, total) && from % row == 0 &&
            to % row == 0 && to - from >= least)
            return total;
    }
    return 0;
}

/* The dtype of the numbers in the file. An array has numbers of the input's kind. */
static DtDtype dtype_of(const DtReader *reader)
{
    const DtDtype input = reader->types[0]->dtype;
    const DtDtype of_array = input == DT_BOOL           ? DT_U8
                             : dt_dtype_is_float(input) ? DT_F32
                                                        : DT_I32;
    return reader->source.kind == DT_SOURCE_TEXT  ? DT_U8
           : reader->source.kind == DT_SOURCE_NPY ? of_array
                                                  : reader->source.dtype;
}

/* Fills the file with random numbers lo ... hi - 1 of the synthetic source (or floats between
 * them), as far as the file's dtype can hold them. The first four integers are hi - 1, not 0, since
 * headers of file formats may begin with zeros. */
static void draw(const DtReader *synthetic, uint64_t seed, DtJudgeFile *file)
{
    const uint64_t key = dt_hash_text(file->name, seed);
    const double most = file->dtype == DT_U8 ? 256 : file->dtype == DT_U16 ? 65536 : 0x1p31;
    const double lo = fmax(synthetic->source.lo, file->dtype < DT_I32 ? 0 : synthetic->source.lo);
    const double hi = fmin(synthetic->source.hi, most);
    for (int64_t i = 0; i < file->n; i++) {
        const double u = dt_philox_uniform(dt_philox(key, (uint64_t)i, 0, 0));
        const double drawn = i < 4 && !dt_dtype_is_float(file->dtype) ? hi - 1 : lo + (hi - lo) * u;
        const bool is_array = file->reader->source.kind == DT_SOURCE_NPY;
        const DtDtype rounds = is_array ? file->reader->types[0]->dtype : file->dtype;
        file->numbers[i] =
            dt_dtype_is_float(file->dtype) ? dt_round_to(rounds, drawn) : floor(drawn);
    }
}

/* Makes the file that the reader reads, with random contents and at least `samples` samples. False
 * if this test does not cover the reader's kind of source. */
static bool make_file(DtArena *arena, const DtTrainConfig *synthetic, const DtReader *reader,
                      int64_t samples, bool longer, DtJudgeFile *ret_file)
{
    const DtReader *drawn = reader_of(synthetic, reader->inputs[0]);
    const bool is_stream = reader->kind == DT_SAMPLE_NEXT_TOKEN;
    const DtSource *source = &reader->source;
    if (!drawn || drawn->source.kind != DT_SOURCE_SYNTHETIC ||
        (is_stream ? source->kind == DT_SOURCE_NPY : reader->kind != DT_SAMPLE_RAW))
        return false;
    const int64_t row = dt_type_elements(reader->types[0]) / reader->types[0]->axes[0].extent;
    /* a source that is no stream consists of whole samples */
    const int64_t least = row * samples + (is_stream ? 1 + longer * (row - 1) : 0);
    const int64_t total = total_of(source, is_stream ? 1 : row, least);
    if (!total)
        return false;
    *ret_file = (DtJudgeFile){.name = source->glob,
                              .dtype = dtype_of(reader),
                              .numbers = DT_NEW_ARRAY(arena, double, total),
                              .n = total,
                              .reader = reader,
                              .row = row,
                              .first = (int64_t)round(source->from * (double)total)};
    const int64_t part = (int64_t)round(source->to * (double)total) - ret_file->first;
    ret_file->samples = (part - is_stream) / row;
    draw(drawn, synthetic->seed, ret_file);
    return true;
}

uint32_t dt_judge_files(DtArena *arena, const DtTrainConfig *synthetic, const DtTrainConfig *train,
                        int64_t samples, bool longer, DtJudgeFile **ret_files,
                        const char **ret_not)
{
    uint32_t n = 0;
    *ret_not = NULL;
    DtJudgeFile *files = DT_NEW_ARRAY(arena, DtJudgeFile, train->eval_readers.n + 1);
    for (uint32_t i = 0; i < train->eval_readers.n; i++) {
        const DtReader *reader = &train->eval_readers.at[i];
        if (reader->source.kind == DT_SOURCE_SYNTHETIC)
            continue;
        bool covers = is_file(&reader->source) &&
                      make_file(arena, synthetic, reader, samples, longer, &files[n]) &&
                      files[n].samples == files[0].samples;
        for (uint32_t k = 0; covers && k < n; k++) /* a file has one description */
            covers = strcmp(files[k].name, files[n].name) != 0;
        if (!covers) {
            *ret_not = written(arena, reader);
            return 0;
        }
        n++;
    }
    *ret_files = files;
    return n;
}

bool dt_judge_file_input(const DtJudgeFile *files, uint32_t n, const char *name, int64_t batch,
                         DtTensor *ret_tensor)
{
    for (uint32_t f = 0; f < n; f++) {
        const DtJudgeFile *file = &files[f];
        for (uint32_t k = 0; k < file->reader->n_inputs; k++) {
            if (strcmp(file->reader->inputs[k], name) != 0)
                continue;
            const int64_t rows = ret_tensor->type->axes[0].extent;
            for (int64_t i = 0; i < rows * file->row; i++) {
                const int64_t sample = batch * rows + i / file->row;
                const int64_t is = sample < file->samples ? sample : file->samples - 1;
                ret_tensor->at[i] =
                    file->numbers[file->first + is * file->row + i % file->row + k];
            }
            return true;
        }
    }
    return false;
}
