/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that are read together. Sample number k of one source of a block (`train`, or the data of
 * `eval`) belongs to sample number k of every other source: for example an image and its label. So
 * all of them must have the same number of samples. Then they also have the same order, since that
 * depends only on the seed, the epoch and the number of samples. Sources of random numbers get the
 * number of samples of the others. A source that the program calls `unpaired` has its own number
 * and order. */
#include "runtime/data.h"

#include <stdlib.h>

static bool is_paired(const DtData *data) { return !data->synthetic && !data->reader->unpaired; }

/* Moves the ends of the source's part (`from`, `to`) to the ends of samples. If a part could begin
 * anywhere between two numbers, paired sources would begin at different samples. For the same
 * reason each of their files must contain whole samples. */
static DtStatus cut_by_samples(DtData *data)
{
    DtTokens *tokens = &data->tokens;
    if (data->reader->sample != DT_PLAN_RAW)
        return DT_OK;
    for (uint32_t i = 0; i < tokens->n_files; i++)
        if (tokens->files[i].n % data->row != 0)
            return dt_status_fail(
                DT_EXIT_IO,
                "%.200s has %lld values, no whole number of samples of %lld (%lld are left over): "
                "is there a header, or is a part missing?",
                tokens->files[i].path, (long long)tokens->files[i].n, (long long)data->row,
                (long long)(tokens->files[i].n % data->row));
    const int64_t all = tokens->total / data->row;
    const int64_t first = (int64_t)(data->reader->from * (double)all);
    const int64_t end = data->reader->to < 1 ? (int64_t)(data->reader->to * (double)all) : all;
    tokens->first = first * data->row;
    tokens->n = (end - first) * data->row;
    return dt_data_cut(data);
}

/* Rows of arrays and tables are samples, whether there are other sources or not. */
static bool is_cut_by_samples(const DtData *data, uint32_t n_paired)
{
    const uint32_t source = data->reader->source;
    const bool has_rows = source == DT_PLAN_NPY || source == DT_PLAN_CSV;
    return !data->synthetic && (has_rows || (is_paired(data) && n_paired > 1));
}

static DtStatus refuse_numbers(const DtData *data, const DtData *other)
{
    const char *block = data->reader->is_eval ? "the data of `eval`" : "`train`";
    return dt_status_fail(
        DT_EXIT_IO,
        "%.90s has %lld samples of %lld, and %.90s has %lld samples of %lld: sample k of one "
        "source "
        "of %s belongs to sample k of the others. Where it does not, say `unpaired` in the call of "
        "the source",
        other->name, (long long)other->windows, (long long)other->row, data->name,
        (long long)data->windows, (long long)data->row, block);
}

static DtStatus pair(const DtData *data, const DtData *other)
{
    if (other->windows != data->windows)
        return refuse_numbers(data, other);
    if (other->offsets == data->offsets)
        return DT_OK;
    return dt_status_fail(
        DT_EXIT_IO,
        "%.120s and %.120s cannot be paired: each epoch of `next_token` begins at another offset, "
        "so "
        "its windows are no fixed samples. Say `unpaired` in the call of one of them",
        other->name, data->name);
}

DtStatus dt_datapair_samples(DtData *const *data, uint32_t n)
{
    DtData *first = NULL;
    uint32_t n_paired = 0;
    int64_t samples = 0;
    for (uint32_t i = 0; i < n; i++)
        n_paired += is_paired(data[i]);
    for (uint32_t i = 0; i < n; i++) {
        DtStatus status = is_cut_by_samples(data[i], n_paired) ? cut_by_samples(data[i]) : DT_OK;
        if (dt_status_ok(&status) && first && is_paired(data[i]))
            status = pair(first, data[i]);
        if (!dt_status_ok(&status))
            return dt_data_located(data[i], status);
        if (!first && is_paired(data[i]))
            first = data[i];
        if (!data[i]->synthetic && data[i]->windows > samples)
            samples = data[i]->windows;
    }
    for (uint32_t i = 0; i < n; i++)
        if (data[i]->reader->part == 0)
            data[i]->samples = first ? first->windows : samples;
    return DT_OK;
}

DtStatus dt_data_open_block(const DtRunOptions *options, const DtPlan *plan, bool is_eval,
                            DtData **readers)
{
    DtData **block = malloc((plan->n_readers + 1) * sizeof *block);
    uint32_t n = 0;
    DtStatus status =
        block ? DT_OK : dt_status_fail(DT_EXIT_RETRY, "no memory for the sources of the plan");
    for (uint32_t i = 0; i < plan->n_readers && dt_status_ok(&status); i++) {
        if (plan->readers[i].is_eval != is_eval)
            continue;
        if (!readers[i])
            status = dt_data_open(options, plan, i, &readers[i]);
        if (dt_status_ok(&status))
            block[n++] = readers[i];
    }
    if (dt_status_ok(&status))
        status = dt_datapair_samples(block, n);
    if (dt_status_ok(&status))
        dt_datamix_join(plan, readers);
    free(block);
    return status;
}
