/* SPDX-License-Identifier: Apache-2.0 */
/* Memory between host and GPU (runtime/cuda_host.c) on the stand-in, whose copies are made late:
 * data that are put or sent arrive completely, however often the rings wrap around; a cell gets the
 * value at the time of `note`; and if nobody waits for a copy before its piece is reused, data are
 * lost, so the test can notice that. */
#include "tiny.h"

#include "runtime/cuda_host.h"
#include "runtime/device.h"
#include "runtime/device_cuda.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void open_tiny(Tiny *tiny)
{
    *tiny = (Tiny){.arena = dt_arena_new()};
    tiny_open(tiny, tiny_build(tiny->arena, "sm_90a", 0.3));
    tiny->options.device = "cuda";
    tiny->options.gemm = DT_GEMM_DEFAULT;
    const DtStatus status = tiny_load(tiny);
    cr_assert(dt_status_ok(&status), "%s", status.message);
}

static void close_tiny(Tiny *tiny)
{
    tiny_close(tiny);
    dt_arena_free(tiny->arena);
}

static uint8_t byte_of(int64_t i, int round) { return (uint8_t)(i * 31 + i / 251 + round * 17); }

/* Puts data of many sizes to the same place without waiting for any of them: the last one must
 * remain. Returns the number of wrong bytes. */
static int64_t put_all(const DtRank *rank, DtPlaceAt place)
{
    int64_t wrong = 0;
    uint8_t *wanted = malloc((size_t)place.bytes), *got = malloc((size_t)place.bytes);
    for (int round = 0; round < 40; round++) {
        const int64_t bytes = place.bytes * (round % 7 + 1) / 7, at = place.bytes - bytes;
        uint8_t *given = malloc((size_t)bytes);
        for (int64_t i = 0; i < bytes; i++)
            wanted[at + i] = given[i] = byte_of(i, round);
        dt_device_put(rank, dt_device_from(place, at), given, bytes);
        memset(given, 0, (size_t)bytes); /* the owner of the memory continues to use it */
        free(given);
    }
    rank->device_ops->get(rank->device, got, place.at, place.bytes);
    for (int64_t i = 0; i < place.bytes; i++)
        wrong += wanted[i] != got[i];
    free(wanted);
    free(got);
    return wrong;
}

static DtPlaceAt large_place(const DtRank *rank, int64_t bytes)
{
    DtPlaceAt place = {.bytes = bytes};
    const DtStatus status = rank->device_ops->arena(rank->device, (uint64_t)bytes, &place.at);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    return place;
}

Test(host, puts_what_is_larger_than_its_ring)
{
    Tiny tiny;
    open_tiny(&tiny);
    cr_expect_eq(put_all(&tiny.run.rank, large_place(&tiny.run.rank, 5 << 20)), 0);
    close_tiny(&tiny);
}

Test(host, is_noticed_where_nobody_waits)
{
    Tiny tiny;
    open_tiny(&tiny);
    const DtPlaceAt place = large_place(&tiny.run.rank, 5 << 20);
    setenv("DT_STANDIN", "hasty=1", 1);
    cr_expect_gt(put_all(&tiny.run.rank, place), 0);
    close_tiny(&tiny);
}

/* Pieces are sent, dropped and held in turn. When the ring is full, a piece that is held is not
 * taken away from its owner. */
Test(host, lends_until_it_is_full)
{
    enum { SOME = 700, HELD = 10, ALL = 64 }; /* ten pieces of 768 bytes */
    Tiny tiny;
    DtCudaHost *host;
    char *lent[ALL], got[ALL * SOME];
    open_tiny(&tiny);
    DtRank *rank = &tiny.run.rank;
    const DtCudaWork work = dt_device_cuda_work(rank);
    const DtPlaceAt place = large_place(rank, ALL * SOME);
    const DtStatus status =
        dt_cuda_host_open(rank, work.driver, work.stream, HELD * 768 / 2 + 100, &host);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_expect_null(dt_cuda_host_lend(host, HELD * 768 + 201), "more than there is");
    for (uint32_t i = 0; i < HELD; i++) {
        lent[i] = dt_cuda_host_lend(host, SOME);
        memset(lent[i], (int)i + 1, SOME);
    }
    cr_expect_null(dt_cuda_host_lend(host, SOME), "all are held");
    for (uint32_t i = 0; i < HELD; i++) {
        const uint32_t at = (i + 2) % HELD;
        if (at % 3)
            dt_cuda_host_send(host, lent[at], dt_device_from(place, at * SOME).at, SOME);
        else
            dt_cuda_host_drop(host, lent[at]);
    }
    for (uint32_t i = HELD; i < ALL; i++) { /* and repeats that */
        lent[i] = dt_cuda_host_lend(host, SOME - i);
        cr_assert_not_null(lent[i], "piece %u", i);
        memset(lent[i], (int)i + 1, SOME - i);
        if (i % 3)
            dt_cuda_host_send(host, lent[i], dt_device_from(place, i * SOME).at, SOME - i);
        else
            dt_cuda_host_drop(host, lent[i]);
    }
    rank->device_ops->get(rank->device, got, place.at, ALL * SOME);
    for (uint32_t i = 0; i < ALL; i++)
        for (uint32_t k = 0; k < SOME - (i < HELD ? 0 : i); k++)
            cr_assert_eq(got[i * SOME + k], i % 3 ? (char)(i + 1) : 0, "piece %u, byte %u", i, k);
    dt_cuda_host_close(host);
    close_tiny(&tiny);
}

Test(host, notes_what_was_there)
{
    Tiny tiny;
    open_tiny(&tiny);
    const DtRank *rank = &tiny.run.rank;
    const DtPlaceAt place = large_place(rank, 8);
    for (int32_t i = 0; i < 200; i++) {
        int32_t got = -1;
        dt_device_put(rank, place, &i, sizeof i);
        rank->device_ops->note(rank->device, (uint32_t)i % DT_DEVICE_CELLS, place.at, sizeof i);
        dt_device_put(rank, place, &(int32_t){-7}, sizeof i);
        rank->device_ops->noted(rank->device, (uint32_t)i % DT_DEVICE_CELLS, &got, sizeof got);
        cr_expect_eq(got, i);
    }
    close_tiny(&tiny);
}
