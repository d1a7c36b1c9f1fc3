/* SPDX-License-Identifier: Apache-2.0 */
/* What the comparisons with CUDA's headers (headers.sh) are made of. */
#ifndef DT_TESTS_HEADERS_SAME_H
#define DT_TESTS_HEADERS_SAME_H

#include <stddef.h>

#define SAME(THEIRS, OURS) _Static_assert((long long)(THEIRS) == (long long)(OURS), #THEIRS);
#define SAME_PLACE(THEIR_TYPE, THEIRS, OUR_TYPE, OURS) \
    SAME(offsetof(THEIR_TYPE, THEIRS), offsetof(OUR_TYPE, OURS))
#ifdef WRONG /* the comparison can fail */
SAME(1, 2)
#endif

#endif
