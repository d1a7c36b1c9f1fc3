/* SPDX-License-Identifier: Apache-2.0 */
/* What a text of JSON contains, counted before a parser allocates for it: a text of a stranger may
 * have a value in each two bytes, for which a parser needs 50 bytes and more. */
#ifndef DT_BASE_JSONSHAPE_H
#define DT_BASE_JSONSHAPE_H

#include <stdint.h>

typedef struct DtJsonShape {
    uint64_t brackets; /* lists and objects */
    uint64_t depth;    /* how deep these contain each other */
    uint64_t values;   /* at least as many as a parser finds */
} DtJsonShape;

DtJsonShape dt_jsonshape_count(const char *text, uint64_t len);

#endif
