/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead (runtime/data_ahead.c), with more threads than processors: the rows of each batch
 * are those of its samples, in whatever order batches are taken and wished for, a failure is the
 * one of the first sample that fails, and the end of a run leaves nothing behind, also while rows
 * are made. */
#include "runtime/data_images.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 6, ROWS = 7, VALUES = 33, STEPS = 150, RUNS = 8, FAILS = 1000000 };

static atomic_int busy[THREADS + 1]; /* each thread makes one row at a time */
static _Atomic int64_t made;

static int64_t value_of(int64_t sample, int at) { return sample * VALUES + at; }

static DtStatus read_sample(void *context, uint32_t thread, int64_t sample, char *ret_row)
{
    int64_t *values = (int64_t *)(void *)ret_row;
    (void)context;
    if (thread > THREADS || atomic_fetch_add(&busy[thread], 1) != 0)
        abort();
    for (int i = 0; i < VALUES; i++)
        values[i] = value_of(sample, i);
    atomic_fetch_add(&made, 1);
    atomic_fetch_sub(&busy[thread], 1);
    return sample >= FAILS && sample % 3 == 1
               ? dt_status_fail(DT_EXIT_IO, "sample %lld", (long long)sample)
               : DT_OK;
}

static bool check(int64_t first, const char *rows)
{
    for (int64_t r = 0; r < ROWS; r++)
        for (int i = 0; i < VALUES; i++)
            if (((const int64_t *)(const void *)rows)[r * VALUES + i] != value_of(first + r, i)) {
                printf("sample %lld has another value\n", (long long)(first + r));
                return false;
            }
    return true;
}

/* Takes batches as a run does: mostly the next one, which was wished for; sometimes another. */
static bool take_all(DtAhead *ahead, uint32_t run)
{
    for (int64_t step = 0; step < STEPS; step++) {
        const int64_t first = (step % 17 == 16 ? 500 + step : step) * ROWS;
        DtAheadWishes wishes = {.n = (uint32_t)(step + run) % 5};
        const char *rows;
        for (uint32_t i = 0; i < wishes.n; i++)
            wishes.first[i] = (step + 1 + i) * ROWS;
        DtStatus status = dt_ahead_take(ahead, first, ROWS, &wishes, &rows);
        if (!dt_status_ok(&status) || !check(first, rows))
            return false;
    }
    return true;
}

static bool fails_first(DtAhead *ahead)
{
    const DtAheadWishes wishes = {.first = {FAILS + ROWS}, .n = 1};
    const char *rows;
    for (int64_t first = FAILS; first <= FAILS + ROWS; first += ROWS) {
        char wanted[60];
        const DtStatus status = dt_ahead_take(ahead, first, ROWS, &wishes, &rows);
        snprintf(wanted, sizeof wanted, "sample %lld",
                 (long long)(first + (1 - first % 3 + 3) % 3));
        if (dt_status_ok(&status) || strcmp(status.message, wanted) != 0) {
            printf("said: %s, not: %s\n", status.message, wanted);
            return false;
        }
    }
    return true;
}

int main(void)
{
    for (uint32_t run = 0; run < RUNS; run++) {
        const DtAheadWishes wishes = {.first = {9 * ROWS, 10 * ROWS, 11 * ROWS}, .n = 3};
        const char *rows;
        DtAhead *ahead =
            dt_ahead_new(run % (THREADS + 1), VALUES * sizeof(int64_t), read_sample, NULL);
        if (!ahead || !take_all(ahead, run) || !fails_first(ahead))
            return 1;
        DtStatus status = dt_ahead_take(ahead, 8 * ROWS, ROWS, &wishes, &rows);
        if (!dt_status_ok(&status) || !check(8 * ROWS, rows))
            return 1;
        dt_ahead_free(ahead); /* while the wishes are made */
    }
    printf("%lld samples\n", (long long)atomic_load(&made));
    return 0;
}
