/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/reading.h"

#include "plan/kinds.h"
#include "runtime/device.h"

enum { INPUTS = 256, MOST = 64, AHEAD_INPUTS = 16 };

typedef struct Batch {
    uint32_t reader;
    int64_t step, first, rows;
} Batch;

typedef struct Ready { /* a batch that was read before it is needed */
    Batch batch;
    DtLent inputs[AHEAD_INPUTS];
} Ready;

struct DtReading {
    Batch seen[MOST]; /* the batches that were read in this run of the entry */
    Ready ready[MOST];
    uint32_t n_seen, n_ready;
};

void dt_reading_open(DtRank *rank)
{
    if (rank->device_ops->lend)
        rank->reading = DT_NEW(rank->memory, struct DtReading);
}

static bool open(DtRank *rank, uint32_t reader)
{
    if (rank->readers[reader])
        return true;
    const DtStatus status = dt_data_open_block(rank->options, rank->plan,
                                               rank->plan->readers[reader].is_eval, rank->readers);
    return dt_status_ok(&status) || dt_rank_fail_status(rank, &status);
}

static int64_t bytes_of(const DtRank *rank, const DtPlanReader *reader, uint32_t i, int64_t rows)
{
    const DtPlanInput *input = &rank->plan->inputs[reader->first_input + i];
    return rows * input->row_elements * dt_kinds_size(input->dtype);
}

static DtStatus read_rows(DtRank *rank, const Batch *batch, DtLent *lent)
{
    const DtPlanReader *reader = &rank->plan->readers[batch->reader];
    char *inputs[INPUTS];
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        inputs[i] = lent[i].at;
    return dt_data_read(rank->readers[batch->reader], batch->step, batch->first, batch->rows,
                        inputs);
}

/* ---- ahead ---- */

static bool same(const Batch *a, const Batch *b)
{
    return a->reader == b->reader && a->step == b->step && a->first == b->first &&
           a->rows == b->rows;
}

static void give_back(DtRank *rank, Ready *ready, uint32_t n, bool written)
{
    for (uint32_t i = 0; i < n; i++)
        dt_device_back(rank, &ready->inputs[i], written);
}

/* Drops data that was read in advance for earlier steps, in which the entry did not run. */
static void drop_old(DtRank *rank)
{
    struct DtReading *reading = rank->reading;
    uint32_t n = 0;
    for (uint32_t i = 0; i < reading->n_ready; i++) {
        Ready *ready = &reading->ready[i];
        if (ready->batch.step < rank->step)
            give_back(rank, ready, rank->plan->readers[ready->batch.reader].n_inputs, false);
        else
            reading->ready[n++] = *ready;
    }
    reading->n_ready = n;
}

/* Whether the batch was read in advance. If so, starts copying it to its places. */
static bool use_ready(DtRank *rank, const Batch *wanted, const DtPlaceAt *places)
{
    struct DtReading *reading = rank->reading;
    uint32_t at = 0;
    while (at < reading->n_ready && !same(&reading->ready[at].batch, wanted))
        at++;
    if (at == reading->n_ready)
        return false;
    Ready *ready = &reading->ready[at];
    const uint32_t n = rank->plan->readers[wanted->reader].n_inputs;
    for (uint32_t i = 0; i < n; i++)
        ready->inputs[i].place = places[i];
    give_back(rank, ready, n, true);
    for (reading->n_ready--; at < reading->n_ready; at++)
        reading->ready[at] = reading->ready[at + 1];
    return true;
}

static bool read_ahead(DtRank *rank, Ready *ready)
{
    const Batch *batch = &ready->batch;
    const DtPlanReader *reader = &rank->plan->readers[batch->reader];
    uint32_t n = 0;
    while (n < reader->n_inputs &&
           dt_device_lend_ahead(rank, bytes_of(rank, reader, n, batch->rows), &ready->inputs[n]))
        n++;
    DtStatus status = DT_OK;
    const bool fits = n == reader->n_inputs;
    if (fits)
        status = read_rows(rank, batch, ready->inputs);
    if (fits && dt_status_ok(&status))
        return true;
    give_back(rank, ready, n, false);
    return false;
}

void dt_reading_begin(DtRank *rank)
{
    if (rank->reading)
        rank->reading->n_seen = 0;
}

void dt_reading_ahead(DtRank *rank, int64_t next)
{
    struct DtReading *reading = rank->reading;
    if (!reading || next >= rank->meta.steps)
        return;
    drop_old(rank);
    for (uint32_t i = 0; i < reading->n_seen && reading->n_ready < MOST; i++) {
        Ready *ready = &reading->ready[reading->n_ready];
        ready->batch = reading->seen[i];
        ready->batch.step = next;
        if (!read_ahead(rank, ready))
            break;
        reading->n_ready++;
    }
}

/* ---- when it is needed ---- */

/* Remembers the batch so that the next run can read it ahead. Only whole inputs count, since the
 * places of parts of inputs are not known in advance. */
static void note(DtRank *rank, const Batch *batch, bool is_whole)
{
    struct DtReading *reading = rank->reading;
    const bool is_small = rank->plan->readers[batch->reader].n_inputs <= AHEAD_INPUTS;
    if (reading && !rank->evaluates && is_whole && is_small && reading->n_seen < MOST)
        reading->seen[reading->n_seen++] = *batch;
}

bool dt_reading_run(DtRank *rank, uint32_t number, int64_t first, int64_t rows,
                    const DtPlaceAt *places)
{
    const DtPlanReader *reader = &rank->plan->readers[number];
    const Batch batch = {.reader = number, .step = reader->is_eval ? rank->eval_batch : rank->step,
                         .first = first, .rows = rows};
    DtLent lent[INPUTS];
    bool is_whole = true;
    if (!open(rank, number))
        return false;
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        is_whole = is_whole && places[i].bytes == bytes_of(rank, reader, i, rows);
    note(rank, &batch, is_whole);
    if (rank->reading && !rank->evaluates && use_ready(rank, &batch, places))
        return true;
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        lent[i] = places[i].bytes == bytes_of(rank, reader, i, rows)
                      ? dt_device_lend_new(rank, places[i])
                      : dt_device_lend(rank, places[i]);
    const DtStatus status = read_rows(rank, &batch, lent);
    for (uint32_t i = 0; i < reader->n_inputs; i++)
        dt_device_back(rank, &lent[i], dt_status_ok(&status));
    if (!dt_status_ok(&status) && rank->slot)
        atomic_store(&rank->slot->by_data, 1);
    return dt_status_ok(&status) || dt_rank_fail_status(rank, &status);
}
