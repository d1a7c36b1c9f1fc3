/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces data and checkpoints in tests of other parts of a rank: rows are functions of the sample
 * number, and a checkpoint only remembers that it was asked for. */
#include "tiny.h"

#include "base/philox.h"
#include "runtime/saver.h"
#include "tests/look.h"

#include <stdlib.h>
#include <string.h>

int64_t tiny_saves, tiny_saved_step;

float tiny_x(int64_t sample, int64_t column)
{
    return (float)(dt_philox_uniform(dt_philox(1, (uint64_t)(sample * TINY_IN + column), 0, 0)) *
                       2 -
                   1);
}

float tiny_truth(int64_t row, int64_t column) { return (float)(row - column) * 0.5f; }

struct DtData {
    const DtPlan *plan;
    uint32_t reader;
};

DtStatus dt_data_open(const DtRunOptions *options, const DtPlan *plan, uint32_t reader,
                      DtData **ret_data)
{
    (void)options;
    *ret_data = malloc(sizeof **ret_data);
    **ret_data = (DtData){plan, reader};
    return DT_OK;
}

/* No test of these predicts for a file. */
DtStatus dt_data_open_file(const DtRunOptions *options, const DtPlan *plan,
                           const DtPlanInput *input, const char *path, DtData **ret_data)
{
    (void)options;
    (void)plan, (void)input, (void)ret_data;
    return dt_status_fail(DT_EXIT_IO, "cannot open %s", path);
}

DtStatus dt_data_open_block(const DtRunOptions *options, const DtPlan *plan, bool is_eval,
                            DtData **readers)
{
    for (uint32_t i = 0; i < plan->n_readers; i++)
        if (plan->readers[i].is_eval == is_eval && !readers[i])
            dt_data_open(options, plan, i, &readers[i]);
    return DT_OK;
}

void dt_data_end(DtData *data, int64_t samples)
{
    (void)data;
    (void)samples;
}

void dt_data_begin(DtData *data, const DtRamp *ramp)
{
    (void)data;
    (void)ramp;
}

DtStatus dt_data_fact(DtArena *memory, const DtData *data, DtDataFact *ret_fact)
{
    (void)memory;
    (void)data;
    *ret_fact = (DtDataFact){.input = "x"};
    return DT_OK;
}

bool dt_data_changed(const DtDataFact *before, const DtDataFact *now, DtText *ret_text)
{
    (void)before;
    (void)now;
    (void)ret_text;
    return false;
}

void dt_data_close(DtData *data) { free(data); }

int64_t dt_data_batches(const DtData *data)
{
    (void)data;
    return TINY_HELD_OUT / TINY_BATCH;
}

int64_t dt_data_samples(const DtData *data)
{
    (void)data;
    return TINY_HELD_OUT;
}

DtStatus dt_data_look(const DtData *data, DtText *ret_notes)
{
    (void)data;
    (void)ret_notes;
    return DT_OK;
}

DtStatus dt_data_read(DtData *data, int64_t step, int64_t first, int64_t rows, char *const *inputs)
{
    memset(inputs[0], 0, (size_t)rows * TINY_WINDOW * 4);
    for (int64_t r = 0; r < rows; r++) {
        int64_t sample = step * TINY_BATCH + first + r;
        if (data->plan->readers[data->reader].is_eval && sample >= TINY_HELD_OUT)
            sample = TINY_HELD_OUT - 1;
        for (int64_t o = 0; o < TINY_OUT; o++) {
            float target = 0;
            for (int64_t i = 0; i < TINY_IN; i++) {
                ((float *)(void *)inputs[1])[r * TINY_IN + i] = tiny_x(sample, i);
                target += tiny_x(sample, i) * tiny_truth(i, o);
            }
            ((float *)(void *)inputs[2])[r * TINY_OUT + o] = target;
        }
    }
    return DT_OK;
}

bool dt_checkpoint_begin(DtRank *rank, const char *folder, int64_t steps)
{
    (void)folder;
    tiny_saves++;
    tiny_saved_step = steps;
    atomic_store(&rank->shared->saved_step, steps);
    return true;
}

bool dt_checkpoint_finish(DtRank *rank, DtStatus *ret_status)
{
    (void)rank;
    *ret_status = DT_OK;
    return true;
}

bool dt_checkpoint_is_over(DtRank *rank, DtStatus *ret_status)
{
    return dt_checkpoint_finish(rank, ret_status);
}

bool dt_saver_open(DtRank *rank)
{
    (void)rank;
    return true;
}

void dt_saver_close(DtRank *rank) { (void)rank; }

DtStatus dt_checkpoint_trim(const DtRank *rank, const char *folder)
{
    (void)rank, (void)folder;
    return DT_OK;
}

bool dt_checkpoint_load(DtRank *rank, const DtCheckpointFrom *from, int64_t *ret_steps)
{
    (void)from;
    for (int i = 0; i < TINY_IN; i++)
        for (int o = 0; o < TINY_OUT; o++)
            ((float *)(void *)look_at(rank, 0, 0))[i * TINY_OUT + o] = tiny_truth(i, o);
    *ret_steps = 30;
    return true;
}
