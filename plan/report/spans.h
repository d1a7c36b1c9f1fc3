/* SPDX-License-Identifier: Apache-2.0 */
/* A set of bytes by their addresses (spans.c). */
#ifndef DT_REPORT_SPANS_H
#define DT_REPORT_SPANS_H

#include "base/arena.h"

#include <stdbool.h>

typedef struct DtBytes { int64_t from, to; } DtBytes;
typedef struct DtSpans {
    DtArena *arena;
    DT_VEC(DtBytes) spans; /* ascending; no two touch */
    int64_t bytes;         /* bytes of all spans */
} DtSpans;

void dt_spans_add(DtSpans *set, int64_t from, int64_t to);
void dt_spans_remove(DtSpans *set, int64_t from, int64_t to);
/* Whether some of these bytes are in the set. */
bool dt_spans_meet(const DtSpans *set, int64_t from, int64_t to);

#endif
