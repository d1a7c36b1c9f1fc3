/* SPDX-License-Identifier: Apache-2.0 */
/* The hash makes keys of random sites and digests, so its values are part of what a program means.
 * It must equal XXH3 of the reference implementation. Philox is compared with the vectors of the
 * Random123 distribution. */
#include "base/hash.h"
#include "base/philox.h"
#include "base/status.h"

#include <criterion/criterion.h>
#include <string.h>

Test(hash, reference_values)
{
    cr_assert_eq(dt_hash_bytes(NULL, 0, 0), 0x2D06800538D394C2u);
    cr_assert_eq(dt_hash_text("", 0), 0x2D06800538D394C2u);
    cr_assert_eq(dt_hash_text("a", 0), 0xE6C632B61E964E1Fu);
    cr_assert_eq(dt_hash_text("abc", 0), 0x78AF5F94892F3950u);
    cr_assert_neq(dt_hash_text("abc", 1), dt_hash_text("abc", 0));
    cr_assert_eq(dt_hash_bytes("h.attention.wq.w", 16, 42), dt_hash_text("h.attention.wq.w", 42));
}

/* Lengths just below and above the sizes of the library's inner buffer and blocks, hashed in pieces
 * of every size. */
Test(hash, streams)
{
    uint8_t bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + i / 256);
    for (size_t len = 0; len <= sizeof bytes; len = len * 3 / 2 + 1)
        for (size_t piece = 1; piece <= len + 1; piece = piece * 2 + 1) {
            DtHashStream *stream = dt_hash_begin(len % 3);
            for (size_t at = 0; at < len; at += piece)
                dt_hash_add(stream, bytes + at, len - at < piece ? len - at : piece);
            dt_hash_add(stream, NULL, 0);
            cr_assert_eq(dt_hash_end(stream), dt_hash_bytes(bytes, len, len % 3), "%zu %zu", len,
                         piece);
        }
}

Test(philox, random123_vectors)
{
    DtPhilox zero = dt_philox(0, 0, 0, 0);
    cr_assert_eq(
        memcmp(zero.word, (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, 16), 0);
    DtPhilox ones = dt_philox(UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX);
    cr_assert_eq(
        memcmp(ones.word, (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}, 16), 0);
    DtPhilox pi = dt_philox(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x13198a2e, 0x03707344);
    cr_assert_eq(memcmp(pi.word, (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}, 16),
                 0);
}

Test(philox, moments)
{
    enum { N = 200000 };
    double mean = 0, square = 0, least = 1, most = 0, normal = 0, normal_square = 0;
    for (int i = 0; i < N; i++) {
        DtPhilox r = dt_philox(99, (uint64_t)i, 0, 0);
        double u = dt_philox_uniform(r), z = dt_philox_normal(r);
        mean += u / N;
        square += u * u / N;
        least = u < least ? u : least;
        most = u > most ? u : most;
        normal += z / N;
        normal_square += z * z / N;
    }
    cr_assert(least >= 0 && most < 1);
    cr_assert_float_eq(mean, 0.5, 5 * 0.2887 / sqrt(N));
    cr_assert_float_eq(square, 1.0 / 3, 5 * 0.2982 / sqrt(N));
    cr_assert_float_eq(normal, 0, 5 / sqrt(N));
    cr_assert_float_eq(normal_square, 1, 5 * sqrt(2.0) / sqrt(N));
}

Test(status, message_is_cut_not_overrun)
{
    DtStatus ok = DT_OK;
    cr_assert(dt_status_ok(&ok));
    DtStatus bad = dt_status_fail(DT_EXIT_IO, "%1000d", 1);
    cr_assert_not(dt_status_ok(&bad));
    cr_assert_eq(bad.code, 5);
    cr_assert_eq(strlen(bad.message), sizeof bad.message - 1);
}
