/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that make samples before they are needed. With each batch of samples that a rank
 * takes it wishes for those that it will take next, up to the same place of the next step. So while
 * a step runs, the threads make the next one; the rank waits only if they are slower than
 * the step. Then it makes samples itself, of the batch that it waits for.
 *
 * A failure belongs to its batch and is reported when that is taken, for the first sample that
 * failed, whichever thread was first. Batches that nobody takes (after the last step) are dropped
 * when there are too many. */
#include "runtime/data_images.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, MOST_BATCHES = 64 };
static const uint64_t MOST_BYTES = (uint64_t)1 << 31; /* of batches made ahead */

typedef struct Batch {
    int64_t first, rows;
    int64_t begun, done; /* rows: that a thread has taken; that are made */
    int64_t failed;      /* the first row that failed; rows: none */
    DtStatus status;
    char *at;
    uint64_t cap; /* bytes at `at` */
} Batch;

struct DtAhead {
    pthread_mutex_t lock;
    pthread_cond_t work, made;
    pthread_t threads[MOST_THREADS];
    uint32_t n_threads;
    bool ends;
    Batch *batches[MOST_BATCHES]; /* in the order in which they will be needed */
    uint32_t n;
    Batch *taken; /* what the last call has returned */
    size_t bytes;
    DtAheadRead *read;
    void *context;
};

typedef struct Start {
    DtAhead *ahead;
    uint32_t number;
} Start;

/* Makes one row of the batch, of which `begun` has just grown. The lock is held before and after,
 * not while the row is made. */
static void make_row(DtAhead *a, Batch *b, uint32_t thread)
{
    const int64_t row = b->begun - 1;
    pthread_mutex_unlock(&a->lock);
    DtStatus status = a->read(a->context, thread, b->first + row, b->at + (uint64_t)row * a->bytes);
    pthread_mutex_lock(&a->lock);
    if (!dt_status_ok(&status) && row < b->failed) {
        b->failed = row;
        b->status = status;
    }
    if (++b->done == b->rows)
        pthread_cond_broadcast(&a->made);
}

/* The first batch of which a row is left; NULL: none. */
static Batch *next_batch(const DtAhead *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->batches[i]->begun < a->batches[i]->rows)
            return a->batches[i];
    return NULL;
}

static void *run(void *data)
{
    const Start start = *(Start *)data;
    DtAhead *a = start.ahead;
    free(data);
    pthread_mutex_lock(&a->lock);
    while (!a->ends) {
        Batch *b = next_batch(a);
        if (!b) {
            pthread_cond_wait(&a->work, &a->lock);
            continue;
        }
        b->begun++;
        make_row(a, b, start.number);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- batches ---- */

static void free_batch(Batch *b)
{
    if (b)
        free(b->at);
    free(b);
}

static uint64_t bytes_of(const DtAhead *a)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < a->n; i++)
        bytes += a->batches[i]->cap;
    return bytes;
}

/* Takes batch i off the list, once no thread makes a row of it. */
static Batch *remove_batch(DtAhead *a, uint32_t i)
{
    Batch *b = a->batches[i];
    memmove(&a->batches[i], &a->batches[i + 1], (a->n - i - 1) * sizeof *a->batches);
    a->n--;
    return b;
}

static bool is_wished(const DtAheadWishes *wishes, int64_t first)
{
    for (uint32_t i = 0; i < wishes->n; i++)
        if (wishes->first[i] == first)
            return true;
    return false;
}

/* Drops the oldest batch, from number `from` on, that nobody wishes for and of which no row is
 * being made; false: there is none. */
static bool drop_one(DtAhead *a, uint32_t from, const DtAheadWishes *wishes)
{
    for (uint32_t i = from; i < a->n; i++)
        if (a->batches[i]->begun == a->batches[i]->done &&
            !is_wished(wishes, a->batches[i]->first)) {
            free_batch(remove_batch(a, i));
            return true;
        }
    return false;
}

static int find(const DtAhead *a, int64_t first, int64_t rows)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->batches[i]->first == first && a->batches[i]->rows == rows)
            return (int)i;
    return -1;
}

/* Adds a batch, in the memory of an old one if it is large enough. NULL: no memory. */
static Batch *add(DtAhead *a, int64_t first, int64_t rows, Batch *old)
{
    const uint64_t bytes = (uint64_t)rows * a->bytes;
    Batch *b = old;
    if (!b || b->cap < bytes) {
        free_batch(old);
        b = calloc(1, sizeof *b);
        if (b)
            b->at = malloc(bytes + 1);
        if (!b || !b->at) {
            free(b);
            return NULL;
        }
        b->cap = bytes;
    }
    *b = (Batch){
        .first = first, .rows = rows, .failed = rows, .status = DT_OK, .at = b->at, .cap = b->cap};
    a->batches[a->n++] = b;
    pthread_cond_broadcast(&a->work);
    return b;
}

/* Adds wish number i, if there is room for it besides earlier wishes and the first batch, which is
 * needed now. */
static void wish(DtAhead *a, const DtAheadWishes *wishes, uint32_t i, int64_t rows, Batch *old)
{
    const int64_t first = wishes->first[i];
    const uint64_t bytes = (uint64_t)rows * a->bytes;
    if (find(a, first, rows) >= 0) {
        free_batch(old);
        return;
    }
    while ((a->n == MOST_BATCHES || bytes_of(a) + bytes > MOST_BYTES) &&
           drop_one(a, 1, wishes)) {}
    if (a->n == MOST_BATCHES || bytes_of(a) + bytes > MOST_BYTES)
        free_batch(old);
    else
        add(a, first, rows, old);
}

/* ---- taking ---- */

DtStatus dt_ahead_take(DtAhead *a, int64_t first, int64_t rows, const DtAheadWishes *wishes,
                       const char **ret_rows)
{
    pthread_mutex_lock(&a->lock);
    Batch *old = a->taken;
    a->taken = NULL;
    int at = find(a, first, rows);
    while (at < 0 && a->n + 1 >= MOST_BATCHES && drop_one(a, 0, wishes)) {}
    if (at < 0 && a->n < MOST_BATCHES && add(a, first, rows, old)) {
        at = (int)a->n - 1;
        old = NULL;
    }
    if (at < 0) {
        pthread_mutex_unlock(&a->lock);
        return dt_status_fail(DT_EXIT_RETRY, "no memory for a batch of %lld samples",
                              (long long)rows);
    }
    Batch *b = a->batches[at]; /* the first one: it is needed now */
    memmove(&a->batches[1], &a->batches[0], (size_t)at * sizeof *a->batches);
    a->batches[0] = b;
    for (uint32_t i = 0; i < wishes->n; i++) {
        wish(a, wishes, i, rows, old);
        old = NULL;
    }
    free_batch(old);
    while (b->begun < b->rows) {
        b->begun++;
        make_row(a, b, a->n_threads);
    }
    while (b->done < b->rows)
        pthread_cond_wait(&a->made, &a->lock);
    for (uint32_t i = 0; i < a->n; i++)
        if (a->batches[i] == b)
            remove_batch(a, i--);
    a->taken = b;
    *ret_rows = b->at;
    DtStatus status = b->status;
    pthread_mutex_unlock(&a->lock);
    return status;
}

/* ---- threads ---- */

DtAhead *dt_ahead_new(uint32_t threads, size_t bytes, DtAheadRead *read, void *context)
{
    sigset_t all, before;
    DtAhead *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->bytes = bytes;
    a->read = read;
    a->context = context;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, NULL);
    pthread_cond_init(&a->made, NULL);
    sigfillset(&all); /* signals reach the thread that runs the rank */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i < threads && i < MOST_THREADS; i++) {
        Start *start = malloc(sizeof *start);
        if (start)
            *start = (Start){a, i};
        if (!start || pthread_create(&a->threads[i], NULL, run, start) != 0) {
            free(start);
            break;
        }
        a->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return a;
}

void dt_ahead_free(DtAhead *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->ends = true;
    pthread_cond_broadcast(&a->work);
    pthread_mutex_unlock(&a->lock);
    for (uint32_t i = 0; i < a->n_threads; i++)
        pthread_join(a->threads[i], NULL);
    for (uint32_t i = 0; i < a->n; i++)
        free_batch(a->batches[i]);
    free_batch(a->taken);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->work);
    pthread_cond_destroy(&a->made);
    free(a);
}
