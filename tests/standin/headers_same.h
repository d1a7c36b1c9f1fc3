/* SPDX-License-Identifier: Apache-2.0 */
/* Macros for comparing numbers with CUDA's headers (headers.sh). */
#ifndef DT_TESTS_HEADERS_SAME_H
#define DT_TESTS_HEADERS_SAME_H

#include <stddef.h>

#define SAME(THEIRS, OURS) _Static_assert((long long)(THEIRS) == (long long)(OURS), #THEIRS);
#define SAME_PLACE(THEIR_TYPE, THEIRS, OUR_TYPE, OURS) \
    SAME(offsetof(THEIR_TYPE, THEIRS), offsetof(OUR_TYPE, OURS))
#ifdef WRONG /* this comparison is meant to fail, to show that a comparison can */
SAME(1, 2)
#endif

#endif
