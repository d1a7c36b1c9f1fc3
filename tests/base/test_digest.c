/* SPDX-License-Identifier: Apache-2.0 */
/* Digests equal those of Python's hashlib.blake2b(digest_size=32) over the parts, each part
 * preceded by its length in eight bytes. */
#include "base/digest.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *hex(const uint8_t *bytes)
{
    static char text[DT_DIGEST_TEXT];
    dt_digest_text(bytes, text);
    return text;
}

Test(digest, reference_values)
{
    DtDigest digest;
    uint8_t bytes[DT_DIGEST_BYTES];
    dt_digest_begin(&digest);
    dt_digest_add(&digest, NULL, 0);
    dt_digest_end(&digest, bytes);
    cr_assert_str_eq(hex(bytes),
                     "81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c");
    dt_digest_begin(&digest);
    dt_digest_add(&digest, "abc", 3);
    dt_digest_end(&digest, bytes);
    cr_assert_str_eq(hex(bytes),
                     "3bdc62cfd65e3b78e3d90e32e0a91ebfbc229c30abe54e6abd16c5d4def0db7b");
}

Test(digest, parts_are_told_apart)
{
    DtDigest digest;
    uint8_t bytes[DT_DIGEST_BYTES];
    dt_digest_begin(&digest);
    dt_digest_add(&digest, "ab", 2);
    dt_digest_add(&digest, "c", 1);
    dt_digest_end(&digest, bytes);
    cr_assert_str_eq(hex(bytes),
                     "20263e794775e4edf2b306c0f306af9e50175c831c857604b481e847f790bf95");
}
