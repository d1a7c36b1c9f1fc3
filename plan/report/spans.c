/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of bytes: sorted arrays of a few hundred spans. A change moves all spans after it. */
#include "plan/report/spans.h"

#include <string.h>

/* Returns the number of the first span that ends at or after this address. */
static uint32_t find(const DtSpans *l, int64_t at)
{
    uint32_t lo = 0, hi = l->spans.n;
    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (l->spans.at[mid].to < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Replaces spans first .. last - 1 by the n spans at `by`. */
static void replace(DtSpans *l, uint32_t first, uint32_t last, const DtBytes *by, uint32_t n)
{
    while (l->spans.n + n > l->spans.cap)
        l->spans.at = dt_arena_grow(l->arena, l->spans.at, &l->spans.cap, sizeof *l->spans.at);
    memmove(l->spans.at + first + n, l->spans.at + last, (l->spans.n - last) * sizeof *l->spans.at);
    memcpy(l->spans.at + first, by, n * sizeof *by);
    l->spans.n = l->spans.n + n - (last - first);
}

void dt_spans_add(DtSpans *l, int64_t from, int64_t to)
{
    const uint32_t first = find(l, from);
    uint32_t last = first;
    DtBytes all = {from, to};
    for (; last < l->spans.n && l->spans.at[last].from <= to; last++) {
        const DtBytes *one = &l->spans.at[last];
        l->bytes -= one->to - one->from;
        all.from = one->from < all.from ? one->from : all.from;
        all.to = one->to > all.to ? one->to : all.to;
    }
    l->bytes += all.to - all.from;
    replace(l, first, last, &all, 1);
}

void dt_spans_remove(DtSpans *l, int64_t from, int64_t to)
{
    const uint32_t first = find(l, from);
    uint32_t last = first, n = 0;
    DtBytes rest[2];
    for (; last < l->spans.n && l->spans.at[last].from < to; last++) {
        const DtBytes *one = &l->spans.at[last];
        l->bytes -= one->to - one->from;
        if (one->from < from)
            rest[n++] = (DtBytes){one->from, from};
        if (one->to > to)
            rest[n++] = (DtBytes){to, one->to};
    }
    if (last == first)
        return;
    for (uint32_t i = 0; i < n; i++)
        l->bytes += rest[i].to - rest[i].from;
    replace(l, first, last, rest, n);
}

bool dt_spans_meet(const DtSpans *l, int64_t from, int64_t to)
{
    const uint32_t first = find(l, from + 1);
    return first < l->spans.n && l->spans.at[first].from < to;
}
