/* SPDX-License-Identifier: Apache-2.0 */
/* --predict: the model's results for files of inputs, NumPy's arrays whose first axis counts
 * samples. The entry "predict" runs for as many samples at a time as its inputs hold. The last ones
 * are padded with the last sample, whose further results are dropped.
 *
 * Which inputs the model reads is found in the instructions of the entry: labels, say, are inputs
 * of the plan, but the model's result does not depend on them.
 *
 * A result lies on the ranks of its stage, in parts if its axes are split. A piece of it at a time
 * is brought together as the sum of what all ranks have: of ranks that have the same elements only
 * the first contributes, the others have zeros. The sum is one of integers, over the bits of the
 * elements, so that it is exact and the same over several machines. Rank 0 writes the pieces. So
 * memory does not grow with the number of samples, nor with the size of the result. */
#include "runtime/predict.h"

#include "runtime/data.h"
#include "runtime/device.h"
#include "runtime/predict_files.h"
#include "runtime/rank.h"
#include "runtime/reduce.h"

#include <string.h>

enum {
    PIECE = 1 << 17,    /* elements that ranks add at a time */
    LINE_SECONDS = 10   /* between lines about how far it is */
};

/* The part of a result that this rank has. */
typedef struct Part {
    const DtPlanAxis *axes;
    uint32_t n_axes, batch;
    int64_t start[DT_PLAN_MAX_RANK]; /* of each axis, in the logical tensor */
    int64_t local[DT_PLAN_MAX_RANK]; /* elements without padding */
    int64_t stride[DT_PLAN_MAX_RANK], logical[DT_PLAN_MAX_RANK]; /* here; in a sample of the file */
    bool gives;                      /* no earlier rank has these elements */
} Part;

/* A piece of the results of a pass: elements first .. first + n - 1 of samples, row-major. */
typedef struct Piece {
    int64_t first, n, rows; /* rows: samples of the pass */
    char *to;
} Piece;

/* ---- the parts of results ---- */

bool dt_predict_gives(const DtRank *rank, const DtPlanMetric *metric)
{
    const DtPlan *plan = rank->plan;
    bool first = dt_plan_on_stage(metric->stage, rank->stage);
    for (uint32_t m = 0; m < plan->n_mesh; m++) {
        bool splits = m + 1 == plan->meta->pipeline;
        for (uint32_t a = 0; a < metric->n_axes; a++)
            for (int s = 0; s < DT_PLAN_SPLITS; s++)
                splits |= plan->axes[metric->first_axis + a].split[s] == m + 1;
        first &= splits || rank->coord[m] == 0;
    }
    return first;
}

static void find_part(const DtRank *rank, const DtResult *result, Part *ret_part)
{
    const DtPlanMetric *metric = result->metric;
    Part *p = ret_part;
    int64_t stride = 1, logical = 1;
    *p = (Part){.axes = rank->plan->axes + metric->first_axis, .n_axes = metric->n_axes,
                .batch = result->batch, .gives = dt_predict_gives(rank, metric)};
    for (uint32_t a = p->n_axes; a-- > 0; stride *= p->axes[a].local) {
        const DtPlanAxis *axis = &p->axes[a];
        p->start[a] = dt_rank_axis_start(rank->plan, rank->coord, axis);
        const int64_t there = axis->extent - p->start[a];
        p->local[a] = there < 0 ? 0 : there < axis->local ? there : axis->local;
        p->stride[a] = stride;
        p->logical[a] = logical;
        if (a != p->batch)
            logical *= axis->extent;
    }
    p->logical[p->batch] = logical;
    p->local[p->batch] = p->axes[p->batch].local;
}

/* Copies n elements, `step` apart in this rank's memory, as the file has them. */
static void copy(uint32_t dtype, char *to, const char *from, int64_t step, int64_t n)
{
    const int64_t size = dt_kinds_size(dtype);
    const bool is_half = dtype == DT_PLAN_F16 || dtype == DT_PLAN_BF16;
    if (step == 1 && !is_half)
        memcpy(to, from, (size_t)(n * size));
    else if (step == 1)
        dt_reduce_widen(dtype, (float *)(void *)to, (const uint16_t *)(const void *)from, n);
    else
        for (int64_t i = 0; i < n; i++)
            copy(dtype, to + i * (is_half ? (int64_t)sizeof(float) : size),
                 from + i * step * size, 1, 1);
}

/* Copies what a run of neighbours has of the piece: n elements from number `at` on. */
static void give_run(const DtResult *result, const Piece *piece, int64_t at, int64_t n,
                     const char *from, int64_t step)
{
    const uint32_t dtype = result->metric->dtype;
    const int64_t skip = piece->first > at ? piece->first - at : 0;
    const int64_t end = piece->first + piece->n < at + n ? piece->first + piece->n - at : n;
    if (skip < end)
        copy(dtype, piece->to + (at + skip - piece->first) * result->width,
             from + skip * step * dt_kinds_size(dtype), step, end - skip);
}

/* Goes on to the next index of all axes but `batch` and `inner`; false: there is none. */
static bool next_index(const Part *p, uint32_t inner, int64_t *index)
{
    for (uint32_t a = p->n_axes; a-- > 0;) {
        if (a == p->batch || a == inner)
            continue;
        if (++index[a] < p->local[a])
            return true;
        index[a] = 0;
    }
    return false;
}

/* Copies this rank's elements of one sample. row: its number in this rank's part. */
static void give_sample(const Part *p, const DtResult *result, const Piece *piece, int64_t row,
                        const char *from)
{
    const int64_t size = dt_kinds_size(result->metric->dtype);
    int64_t index[DT_PLAN_MAX_RANK] = {0};
    const uint32_t last = p->n_axes - 1;
    const uint32_t inner = last != p->batch ? last : last > 0 ? last - 1 : UINT32_MAX;
    for (uint32_t a = 0; a < p->n_axes; a++)
        if (p->local[a] == 0)
            return;
    index[p->batch] = row;
    do {
        int64_t here = 0, there = 0;
        for (uint32_t a = 0; a < p->n_axes; a++) {
            here += index[a] * p->stride[a];
            there += (p->start[a] + index[a]) * p->logical[a];
        }
        give_run(result, piece, there, inner == UINT32_MAX ? 1 : p->local[inner],
                 from + here * size, inner == UINT32_MAX ? 1 : p->stride[inner]);
    } while (next_index(p, inner, index));
}

static void give(const Part *p, const DtResult *result, const Piece *piece, const char *from)
{
    const int64_t one = p->logical[p->batch], start = p->start[p->batch];
    int64_t row = piece->first / one - start, end = (piece->first + piece->n - 1) / one + 1;
    end = (end < piece->rows ? end : piece->rows) - start;
    end = end < p->local[p->batch] ? end : p->local[p->batch];
    for (row = row > 0 ? row : 0; p->gives && row < end; row++)
        give_sample(p, result, piece, row, from);
}

/* ---- a pass ---- */

/* Puts samples first .. into this rank's part of the inputs. */
static DtStatus write_inputs(const DtPredict *p, DtRank *rank, int64_t first)
{
    for (uint32_t i = 0; i < p->n_columns; i++) {
        const DtColumn *column = &p->columns[i];
        const DtPlanInput *input = column->input;
        const DtPlanAxis *axis = &rank->plan->axes[input->first_axis];
        const int64_t start = first + dt_rank_axis_start(rank->plan, rank->coord, axis);
        const int64_t bytes = axis->local * input->row_elements * dt_kinds_size(input->dtype);
        DtStatus status = dt_data_read(column->data, 0, start, axis->local,
                                       (char *const[]){column->rows});
        if (!dt_status_ok(&status))
            return status;
        dt_device_put(rank, dt_device_place(rank, input->arena, input->offset, bytes), column->rows,
                      bytes);
    }
    return DT_OK;
}

/* Brings the samples of one result together, and appends them to its file on rank 0. */
static bool write_result(const DtPredict *p, DtResult *result, DtRank *rank, int64_t rows)
{
    Part part;
    DtStatus status = DT_OK;
    bool good = true;
    const DtPlanMetric *metric = result->metric;
    find_part(rank, result, &part);
    const int64_t all = rows * part.logical[part.batch];
    DtLent lent = {0};
    if (part.gives)
        lent = dt_device_lend(
            rank, dt_device_place(rank, metric->arena, metric->offset, metric->bytes));
    for (int64_t at = 0; at < all && good; at += PIECE) {
        const Piece piece = {at, all - at < PIECE ? all - at : PIECE, rows, (char *)p->piece};
        const int64_t bytes = piece.n * result->width;
        const int64_t words = (bytes + (int64_t)sizeof *p->piece - 1) / (int64_t)sizeof *p->piece;
        memset(p->piece, 0, (size_t)words * sizeof *p->piece);
        give(&part, result, &piece, lent.at);
        good = dt_rank_add_up(rank, p->piece, words);
        if (good && rank->rank == 0)
            status = dt_file_writer_append(&result->writer, piece.to, (size_t)bytes);
        good = good && (dt_status_ok(&status) || dt_rank_fail_data(rank, &status));
    }
    if (part.gives)
        dt_device_back(rank, &lent, false);
    return good;
}

/* Predicts samples first .. of the files. */
static bool run_pass(const DtPredict *p, DtRank *rank, int64_t first)
{
    const int64_t rows = p->samples - first < p->pass ? p->samples - first : p->pass;
    DtStatus status = write_inputs(p, rank, first);
    if (!dt_status_ok(&status))
        return dt_rank_fail_data(rank, &status);
    if (!dt_exec_entry(rank, "predict"))
        return false;
    for (uint32_t i = 0; i < p->n_results; i++)
        if (!write_result(p, &p->results[i], rank, rows))
            return false;
    return true;
}

/* ---- all of it ---- */

/* Fails unless all ranks have mapped the same files. */
static bool check_same(const DtPredict *p, DtRank *rank)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < p->n_columns; i++) {
        DtDataFact fact;
        DtStatus status = dt_data_fact(rank->memory, p->columns[i].data, &fact);
        if (!dt_status_ok(&status))
            return dt_rank_fail_data(rank, &status);
        digest = digest * 31 + fact.digest;
    }
    return dt_rank_check_same(rank, digest, p->columns[0].path);
}

/* Whether any rank has seen the wish to stop. False also after a failure. */
static bool goes_on(DtRank *rank, bool *ret_stopped)
{
    int64_t stops = atomic_load(&rank->shared->stop) != 0;
    if (!dt_rank_add_up(rank, &stops, 1))
        return false;
    *ret_stopped = stops != 0;
    return stops == 0;
}

static void say_how_far(const DtPredict *p, const DtRank *rank, int64_t first, uint64_t *said)
{
    const uint64_t now = dt_now_ns();
    if (rank->rank != 0 || rank->options->quiet || now - *said < LINE_SECONDS * 1000000000ull)
        return;
    *said = now;
    fprintf(stderr, "%lld of %lld samples\n", (long long)first, (long long)p->samples);
}

static bool run_passes(const DtPredict *p, DtRank *rank, bool *ret_stopped)
{
    uint64_t said = dt_now_ns();
    rank->evaluates = true;
    for (int64_t first = 0; first < p->samples; first += p->pass) {
        rank->eval_batch = first / p->pass;
        if (!goes_on(rank, ret_stopped))
            return *ret_stopped;
        if (!run_pass(p, rank, first))
            return false;
        say_how_far(p, rank, first, &said);
    }
    return true;
}

bool dt_predict_run(DtRank *rank, bool *ret_stopped)
{
    DtPredict p;
    if (!dt_exec_has(rank, "predict"))
        return dt_rank_fail(rank, DT_EXIT_USAGE, "the plan has no entry `predict`");
    DtStatus status = dt_predictfiles_open(rank->memory, rank->options, rank->plan, &p);
    if (dt_status_ok(&status) && rank->rank == 0)
        status = dt_predictfiles_create(&p);
    bool good = dt_status_ok(&status) || dt_rank_fail_data(rank, &status);
    p.piece = DT_NEW_ARRAY(rank->memory, int64_t, PIECE);
    for (uint32_t i = 0; i < p.n_columns && good; i++) {
        const DtPlanInput *input = p.columns[i].input;
        p.columns[i].rows = DT_NEW_ARRAY(rank->memory, char,
                                         rank->plan->axes[input->first_axis].local *
                                             input->row_elements * dt_kinds_size(input->dtype));
    }
    *ret_stopped = false;
    good = good && check_same(&p, rank) && run_passes(&p, rank, ret_stopped);
    status = good && rank->rank == 0 && !*ret_stopped ? dt_predictfiles_commit(&p) : DT_OK;
    good = good && (dt_status_ok(&status) || dt_rank_fail_data(rank, &status));
    if (good && rank->rank == 0 && !*ret_stopped && !rank->options->quiet)
        dt_predictfiles_say(&p);
    dt_predictfiles_close(&p);
    return good;
}
