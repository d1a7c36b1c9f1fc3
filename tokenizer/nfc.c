/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation form C (Unicode Standard Annex 15): code points are decomposed, marks are put into
 * the order of their combining classes, and pairs are composed. Most text is in that form already,
 * which one look at each code point tells. */
#include "tokenizer/internal.h"

#include "tokenizer/utf8.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Decomposed {
    uint32_t point;
    int n;
    uint32_t to[4];
} Decomposed;
typedef struct Composed {
    uint32_t first, second, point;
} Composed;
typedef struct Marks {
    int combining;
    uint32_t first, last;
} Marks;

static const Decomposed decomposed[] = {
#define DT_DECOMPOSED(point, n, a, b, c, d) {point, n, {a, b, c, d}},
#define DT_COMPOSED(first, second, point)
#define DT_COMBINING(combining, first, last)
#include "tokenizer/nfc.def"
};
static const Composed composed[] = {
#define DT_DECOMPOSED(point, n, a, b, c, d)
#define DT_COMPOSED(first, second, point) {first, second, point},
#define DT_COMBINING(combining, first, last)
#include "tokenizer/nfc.def"
};
static const Marks marks[] = {
#define DT_DECOMPOSED(point, n, a, b, c, d)
#define DT_COMPOSED(first, second, point)
#define DT_COMBINING(combining, first, last) {combining, first, last},
#include "tokenizer/nfc.def"
};

/* Syllables of Hangul are computed from their letters (Unicode Standard, 3.12). */
enum {
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    S_BASE = 0xac00,
    N_L = 19,
    N_V = 21,
    N_T = 28,
    N_S = N_L * N_V * N_T
};

/* ---- tables ---- */

static const Decomposed *find_decomposed(uint32_t point)
{
    size_t lo = 0, hi = DT_COUNT(decomposed);
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (decomposed[middle].point < point)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < DT_COUNT(decomposed) && decomposed[lo].point == point ? &decomposed[lo] : NULL;
}

static int combining_of(uint32_t point)
{
    size_t lo = 0, hi = DT_COUNT(marks);
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (marks[middle].last < point)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < DT_COUNT(marks) && marks[lo].first <= point ? marks[lo].combining : 0;
}

/* What two code points become, or 0. */
static uint32_t compose(uint32_t first, uint32_t second)
{
    size_t lo = 0, hi = DT_COUNT(composed);
    if (first - L_BASE < N_L && second - V_BASE < N_V)
        return S_BASE + ((first - L_BASE) * N_V + (second - V_BASE)) * N_T;
    if (first - S_BASE < N_S && (first - S_BASE) % N_T == 0 && second - T_BASE - 1 < N_T - 1)
        return first + (second - T_BASE);
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        const Composed *at = &composed[middle];
        if (at->first < first || (at->first == first && at->second < second))
            lo = middle + 1;
        else
            hi = middle;
    }
    const bool found =
        lo < DT_COUNT(composed) && composed[lo].first == first && composed[lo].second == second;
    return found ? composed[lo].point : 0;
}

/* One bit for each code point. changing: it is decomposed for good, or may join the one before it.
 * special: it does that, or it is a mark. */
static uint8_t changing[DT_UTF8_POINTS / 8], special[DT_UTF8_POINTS / 8];

static void note(uint32_t point, bool changes)
{
    const uint8_t bit = (uint8_t)(1 << point % 8);
    special[point / 8] |= bit;
    changing[point / 8] |= changes ? bit : 0;
}

static bool is_composed(uint32_t point)
{
    for (size_t i = 0; i < DT_COUNT(composed); i++)
        if (composed[i].point == point)
            return true;
    return false;
}

static void note_all(void)
{
    for (size_t i = 0; i < DT_COUNT(decomposed); i++)
        if (!is_composed(decomposed[i].point))
            note(decomposed[i].point, true);
    for (size_t i = 0; i < DT_COUNT(composed); i++)
        note(composed[i].second, true);
    for (size_t i = 0; i < DT_COUNT(marks); i++)
        for (uint32_t c = marks[i].first; c <= marks[i].last; c++)
            note(c, false);
    for (uint32_t v = 0; v < N_V; v++)
        note(V_BASE + v, true);
    for (uint32_t t = 1; t < N_T; t++)
        note(T_BASE + t, true);
}

static bool is_special(uint32_t point)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, note_all);
    return special[point / 8] >> point % 8 & 1;
}

/* ---- whether anything is to be done ---- */

bool dt_nfc_is(const uint8_t *text, size_t len)
{
    enum { FIRST_LEAD = 0xcc }; /* of U+0300; those before it never change */
    int last = 0;
    for (size_t at = 0; at < len; at += dt_utf8_step(text[at])) {
        if (text[at] < FIRST_LEAD) {
            last = 0;
            continue;
        }
        const uint32_t point = dt_utf8_point(text + at);
        if (!is_special(point)) {
            last = 0;
            continue;
        }
        const int combining = combining_of(point);
        /* A mark that joins nothing and is in order stays. */
        if ((changing[point / 8] >> point % 8 & 1) || combining < last)
            return false;
        last = combining;
    }
    return true;
}

size_t dt_nfc_cut(const uint8_t *text, size_t len)
{
    while (len > 0) {
        do
            len--;
        while (len > 0 && (text[len] & 0xc0) == 0x80);
        if (!is_special(dt_utf8_point(text + len)))
            break;
    }
    return len;
}

/* ---- the form ---- */

static size_t decompose(const uint8_t *text, size_t len, uint32_t *ret_points)
{
    size_t n = 0;
    for (size_t at = 0; at < len; at += dt_utf8_step(text[at])) {
        const uint32_t point = dt_utf8_point(text + at), s = point - S_BASE;
        const Decomposed *found = point < 0xc0 ? NULL : find_decomposed(point);
        if (s < N_S) {
            ret_points[n++] = L_BASE + s / (N_V * N_T);
            ret_points[n++] = V_BASE + s % (N_V * N_T) / N_T;
            if (s % N_T)
                ret_points[n++] = T_BASE + s % N_T;
            continue;
        }
        for (int i = 0; found && i < found->n; i++)
            ret_points[n++] = found->to[i];
        if (!found)
            ret_points[n++] = point;
    }
    return n;
}

/* A mark and its combining class in the upper bits; equal classes keep their order. */
static int by_class(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Puts each run of marks into the order of their classes. */
static void order(uint32_t *points, uint8_t *classes, size_t n, uint64_t *room)
{
    for (size_t i = 0; i < n; i++)
        classes[i] = (uint8_t)(points[i] < 0x300 ? 0 : combining_of(points[i]));
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first; end < n && classes[end]; end++)
            room[end - first] =
                (uint64_t)classes[end] << 56 | (uint64_t)(end - first) << 24 | points[end];
        if (end - first > 1)
            qsort(room, end - first, sizeof *room, by_class);
        for (size_t i = first; i < end; i++) {
            points[i] = (uint32_t)(room[i - first] & 0xffffff);
            classes[i] = (uint8_t)(room[i - first] >> 56);
        }
        end += end < n;
    }
}

/* Composes in place; returns how many are left. A code point joins the last starter unless
 * something between them has a class that is as high, or is a starter itself. */
static size_t join(uint32_t *points, const uint8_t *classes, size_t n)
{
    size_t kept = 0, starter = SIZE_MAX;
    int last = 0; /* the class of what was kept last after the starter; -1: nothing was */
    for (size_t i = 0; i < n; i++) {
        const bool reaches = starter != SIZE_MAX && last < (int)classes[i];
        const uint32_t whole = reaches ? compose(points[starter], points[i]) : 0;
        if (whole) {
            points[starter] = whole;
            continue;
        }
        last = classes[i];
        if (classes[i] == 0) {
            starter = kept;
            last = -1;
        }
        points[kept++] = points[i];
    }
    return kept;
}

size_t dt_nfc_plain(const uint8_t *text, size_t len, uint8_t *ret_text)
{
    /* A decomposition has at most 4 code points, and more than one only from 2 bytes on. */
    const size_t most = 2 * len + 4;
    uint32_t *points = malloc(most * sizeof *points);
    uint64_t *room = malloc(most * sizeof *room);
    uint8_t *classes = malloc(most);
    if (!points || !room || !classes)
        dt_arena_exhausted(most * (sizeof *points + sizeof *room + 1));
    size_t n = decompose(text, len, points), at = 0;
    order(points, classes, n, room);
    n = join(points, classes, n);
    for (size_t i = 0; i < n; i++)
        at += dt_utf8_write(points[i], ret_text + at);
    free(points);
    free(room);
    free(classes);
    return at;
}

size_t dt_nfc_write(const uint8_t *text, size_t len, uint8_t *ret_text)
{
    enum { PART = 256 }; /* bytes, so that one mark does not cost a long text much */
    size_t n = 0;
    for (size_t at = 0, end; at < len; at = end) {
        end = len - at < PART ? len : at + PART;
        while (end < len && ((text[end] & 0xc0) == 0x80 || is_special(dt_utf8_point(text + end))))
            end++;
        if (dt_nfc_is(text + at, end - at)) {
            memcpy(ret_text + n, text + at, end - at);
            n += end - at;
        } else {
            n += dt_nfc_plain(text + at, end - at, ret_text + n);
        }
    }
    return n;
}
