/* SPDX-License-Identifier: Apache-2.0 */
/* The order of training data: a permutation without a table, windows once per epoch, and the same
 * rows for every layout. The reference is written from the description alone, with a table of the
 * whole network. */
#include "data_fixture.h"

#include "base/hash.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---- the permutation ---- */

/* Computes Philox-4x32-10 as described in its paper. */
static void philox(const uint32_t counter[4], uint64_t key, uint32_t ret_words[4])
{
    uint32_t x[4], k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    memcpy(x, counter, sizeof x);
    for (int round = 0; round < 10; round++) {
        uint64_t a = 0xD2511F53ull * x[0], b = 0xCD9E8D57ull * x[2];
        uint32_t y[4] = {(uint32_t)(b >> 32) ^ x[1] ^ k[0], (uint32_t)b,
                         (uint32_t)(a >> 32) ^ x[3] ^ k[1], (uint32_t)a};
        memcpy(x, y, sizeof x);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(ret_words, x, sizeof x);
}

/* Returns the permutation by the Feistel network, as a table of all 2^bits values. */
static uint32_t *network_table(uint64_t key, uint64_t epoch, int bits)
{
    uint32_t *table = malloc(sizeof *table << bits);
    uint32_t half = (uint32_t)bits / 2, mask = (1u << half) - 1;
    for (uint32_t v = 0; v < 1u << bits; v++) {
        uint32_t pair[2] = {v >> half, v & mask};
        for (uint32_t round = 0; round < 8; round++) {
            uint32_t words[4],
                counter[4] = {pair[1], (uint32_t)(epoch >> 32), (uint32_t)epoch, round};
            philox(counter, key, words);
            uint32_t next[2] = {pair[1], (pair[0] ^ words[0]) & mask};
            memcpy(pair, next, sizeof pair);
        }
        table[v] = pair[0] << half | pair[1];
    }
    return table;
}

static void expect_reference(uint64_t key, uint64_t epoch, uint64_t n)
{
    int bits = 2;
    while ((uint64_t)1 << bits < n)
        bits += 2;
    uint32_t *table = network_table(key, epoch, bits);
    DtPermutation p = {key, epoch, n};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t want = table[i];
        while (want >= n)
            want = table[want];
        cr_assert_eq(dt_permutation_at(&p, i), want, "n %llu, index %llu", (unsigned long long)n,
                     (unsigned long long)i);
    }
    free(table);
}

Test(order, permutation_is_the_network_of_the_reference)
{
    for (uint64_t n = 2; n < 70; n++)
        expect_reference(99 * n, n % 3, n);
    expect_reference(1, 0, 1000);
    expect_reference(0xfedcba9876543210ull, 0x123456789ull, 5000);
}

static void expect_bijection(DtPermutation p)
{
    bool *seen = calloc(p.n, 1);
    for (uint64_t i = 0; i < p.n; i++) {
        uint64_t to = dt_permutation_at(&p, i);
        cr_assert_lt(to, p.n);
        cr_assert(!seen[to], "n %llu: %llu twice", (unsigned long long)p.n, (unsigned long long)to);
        seen[to] = true;
    }
    free(seen);
}

Test(order, permutation_is_a_bijection)
{
    for (uint64_t n = 1; n < 200; n++)
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            expect_bijection((DtPermutation){5, epoch, n});
    expect_bijection((DtPermutation){5, 1ull << 40, 30011});
}

Test(order, permutation_of_large_sets_stays_inside_and_apart)
{
    static const uint64_t sizes[] = {(1ull << 32) - 1, (1ull << 32) + 1, 1ull << 40,
                                     (1ull << 62) + 5, INT64_MAX};
    for (size_t s = 0; s < DT_COUNT(sizes); s++) {
        DtPermutation p = {17, 2, sizes[s]};
        uint64_t seen[64];
        for (uint64_t i = 0; i < 64; i++) {
            seen[i] = dt_permutation_at(&p, sizes[s] - 1 - i);
            cr_assert_lt(seen[i], sizes[s]);
            for (uint64_t k = 0; k < i; k++)
                cr_assert_neq(seen[k], seen[i]);
        }
    }
}

/* Returns the chi-square statistic of ten equally likely places: with 9 degrees of freedom it is
 * above 35 in only 6 of 100,000 cases. */
static double chi_square(const uint32_t counts[10], uint32_t n)
{
    double sum = 0, mean = n / 10.0;
    for (int i = 0; i < 10; i++)
        sum += (counts[i] - mean) * (counts[i] - mean) / mean;
    return sum;
}

Test(order, epochs_are_uniform)
{
    uint32_t offsets[10] = {0};
    for (uint64_t index = 0; index < 10; index++) {
        uint32_t places[10] = {0};
        for (uint64_t epoch = 0; epoch < 5000; epoch++)
            places[dt_permutation_at(&(DtPermutation){3, epoch, 10}, index)]++;
        cr_assert_lt(chi_square(places, 5000), 35.0, "index %llu", (unsigned long long)index);
    }
    for (uint64_t epoch = 0; epoch < 5000; epoch++)
        offsets[dt_permutation_offset(&(DtPermutation){3, epoch, 1000}, 10)]++;
    cr_assert_lt(chi_square(offsets, 5000), 35.0);
}

/* ---- windows ---- */

static DataFixture f;
enum { SEQ = 8, BATCH = 5 };

static void setup(void)
{
    fixture_open(&f, SEQ, BATCH);
    fixture_glob(&f, DT_PLAN_BIN, DT_PLAN_U32, "data.bin");
}
static void teardown(void) { fixture_close(&f); }

TestSuite(windows, .init = setup, .fini = teardown);

static int32_t sample_at(DtData *data, int64_t sample)
{
    int32_t tokens[SEQ], labels[SEQ];
    fixture_read(data, sample / BATCH, sample % BATCH, 1, tokens, labels);
    for (int i = 0; i < SEQ; i++) {
        cr_assert_eq(tokens[i], tokens[0] + i);
        cr_assert_eq(labels[i], tokens[0] + i + 1);
    }
    return tokens[0];
}

/* Reads one epoch from this sample on, and checks that its windows begin after one offset, and that
 * each occurs once. Returns the offset. */
static int32_t expect_epoch(DtData *data, int64_t sample, int64_t windows, int64_t n)
{
    bool *seen = calloc((size_t)windows, 1);
    int32_t lowest = INT32_MAX;
    for (int64_t i = 0; i < windows; i++) {
        int32_t start = sample_at(data, sample + i);
        lowest = start < lowest ? start : lowest;
    }
    cr_assert_lt(lowest, SEQ);
    for (int64_t i = 0; i < windows; i++) {
        int32_t start = sample_at(data, sample + i);
        int64_t window = (start - lowest) / SEQ;
        cr_assert_eq((start - lowest) % SEQ, 0);
        cr_assert(window < windows && !seen[window]);
        cr_assert_leq(start + SEQ + 1, n);
        seen[window] = true;
    }
    free(seen);
    return lowest;
}

/* Returns the number of windows of an epoch by its description: as many as fit after every offset
 * below SEQ; at least one. */
static int64_t windows_of(int64_t n)
{
    int64_t worst = (n - (SEQ - 1) - 1) / SEQ;
    return worst < 1 ? 1 : worst;
}

Test(windows, each_once_per_epoch_for_every_length)
{
    for (uint32_t n = SEQ + 1; n < 12 * SEQ; n++) {
        fixture_count(&f, "data.bin", 0, n);
        DtData *data = fixture_data(&f);
        int64_t windows = windows_of(n);
        for (int64_t epoch = 0; epoch < 4; epoch++)
            expect_epoch(data, epoch * windows, windows, n);
        cr_assert_eq(dt_data_batches(data), windows / BATCH);
        dt_data_close(data);
    }
}

Test(windows, epochs_differ_in_offset_and_order)
{
    enum { N = 997 };
    fixture_count(&f, "data.bin", 0, N);
    DtData *data = fixture_data(&f);
    int64_t windows = windows_of(N), same = 0;
    uint32_t offsets[SEQ] = {0};
    for (int64_t epoch = 0; epoch < 64; epoch++) {
        offsets[expect_epoch(data, epoch * windows, windows, N)]++;
        same += sample_at(data, epoch * windows) / SEQ == sample_at(data, 0) / SEQ;
    }
    for (int i = 0; i < SEQ; i++)
        cr_assert(offsets[i] > 0 && offsets[i] < 24, "offset %d %u times of 64", i, offsets[i]);
    cr_assert_lt(same, 10, "64 epochs begin alike");
    dt_data_close(data);
}

Test(windows, rows_are_those_of_the_reference)
{
    enum { N = 500 };
    fixture_count(&f, "data.bin", 0, N);
    DtData *data = fixture_data(&f);
    int64_t windows = windows_of(N);
    uint64_t key = dt_hash_text("data", f.meta.seed);
    uint32_t *table = NULL;
    int64_t table_epoch = -1;
    for (int64_t step = 0; step < 40; step++)
        for (int64_t row = 0; row < BATCH; row++) {
            int64_t sample = step * BATCH + row, epoch = sample / windows, at = sample % windows;
            if (epoch != table_epoch) {
                free(table);
                table = network_table(key, (uint64_t)epoch, 6); /* 61 windows in 64 */
                table_epoch = epoch;
            }
            uint32_t words[4], counter[4] = {0, 0, (uint32_t)epoch, 255};
            philox(counter, key, words);
            uint64_t offset = ((uint64_t)words[0] << 32 | words[1]) % SEQ, window = table[at];
            while (window >= (uint64_t)windows)
                window = table[window];
            cr_assert_eq(sample_at(data, sample), (int32_t)(offset + window * SEQ), "sample %lld",
                         (long long)sample);
        }
    free(table);
    dt_data_close(data);
}

Test(windows, rows_do_not_depend_on_ranks_or_micro_batches)
{
    enum { ROWS = 8 };
    int32_t whole[ROWS * SEQ], parts[ROWS * SEQ], labels[ROWS * SEQ], labels_of_parts[ROWS * SEQ];
    fixture_count(&f, "data.bin", 0, 300);
    f.meta.batch = ROWS;
    DtData *one = fixture_data(&f);
    for (int64_t step = 0; step < 30; step++) {
        fixture_read(one, step, 0, ROWS, whole, labels);
        for (int64_t ranks = 1; ranks <= 8; ranks *= 2)
            for (int64_t rank = ranks; rank-- > 0;) { /* each rank has a reader of its own */
                DtData *data = fixture_data(&f);
                int64_t rows = ROWS / ranks, first = rank * rows;
                fixture_read(data, step, first, rows, parts + first * SEQ,
                             labels_of_parts + first * SEQ);
                dt_data_close(data);
                if (rank == 0) {
                    cr_assert_arr_eq(parts, whole, sizeof whole);
                    cr_assert_arr_eq(labels_of_parts, labels, sizeof labels);
                }
            }
    }
    dt_data_close(one);
}

Test(windows, another_seed_is_another_order)
{
    int same = 0;
    fixture_count(&f, "data.bin", 0, 3000);
    DtData *a = fixture_data(&f);
    int32_t first[100];
    for (int i = 0; i < 100; i++)
        first[i] = sample_at(a, i);
    dt_data_close(a);
    f.meta.seed = 8;
    DtData *b = fixture_data(&f);
    for (int i = 0; i < 100; i++)
        same += sample_at(b, i) == first[i];
    cr_assert_lt(same, 10);
    dt_data_close(b);
}
