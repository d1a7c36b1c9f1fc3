/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation forms (Unicode Standard Annex 15): code points are decomposed, marks are put into
 * the order of their combining classes, and for C and KC pairs are composed. Most text is in its
 * form already, which one look at each code point tells. */
#include "tokenizer/forms.h"

#include "base/arena.h"
#include "tokenizer/utf8.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct Decomposed {
    uint32_t point;
    int n;
    uint32_t to[4];
} Decomposed;
typedef struct Compatible {
    uint32_t point, n;
} Compatible;
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

static const Compatible compatible[] = {
#define DT_COMPATIBLE(point, n, ...) {point, n},
#define DT_LOWER(point, n, a, b)
#include "tokenizer/forms.def"
};
static const uint32_t compatible_to[] = {
#define DT_COMPATIBLE(point, n, ...) __VA_ARGS__,
#define DT_LOWER(point, n, a, b)
#include "tokenizer/forms.def"
};
static const struct {
    uint32_t point, n, to[2];
} lower[] = {
#define DT_COMPATIBLE(point, n, ...)
#define DT_LOWER(point, n, a, b) {point, n, {a, b}},
#include "tokenizer/forms.def"
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

/* What a code point does, a bit for each form. */
enum {
    CHANGES = 1, /* it does not stay as it is, or may join the one before it */
    FOLLOWS = 16 /* it may be moved before the one in front of it, or join it */
};
static uint8_t traits[DT_UTF8_POINTS];
static uint32_t compatible_at[DT_COUNT(compatible)]; /* where each decomposition begins */

static bool is_canonical(DtForm form) { return form == DT_NFC || form == DT_NFD; }
static bool composes(DtForm form) { return form == DT_NFC || form == DT_NFKC; }

static const Compatible *find_compatible(uint32_t point)
{
    size_t lo = 0, hi = DT_COUNT(compatible);
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (compatible[middle].point < point)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < DT_COUNT(compatible) && compatible[lo].point == point ? &compatible[lo] : NULL;
}

static bool is_composed(uint32_t point)
{
    for (size_t i = 0; i < DT_COUNT(composed); i++)
        if (composed[i].point == point)
            return true;
    return false;
}

static void note(uint32_t point, bool composing, int trait)
{
    for (int form = 0; form < DT_FORMS; form++)
        if (!composing || composes((DtForm)form))
            traits[point] |= (uint8_t)(trait << form);
}

/* A code point of which a decomposition is known. */
static void note_decomposed(uint32_t point, uint32_t first, bool is_compatible)
{
    const bool stays = !is_compatible && is_composed(point);
    for (int form = 0; form < DT_FORMS; form++) {
        if (is_compatible && is_canonical((DtForm)form))
            continue;
        if (!stays || !composes((DtForm)form))
            traits[point] |= (uint8_t)(CHANGES << form);
        if (traits[first] & FOLLOWS << form)
            traits[point] |= (uint8_t)(FOLLOWS << form);
    }
}

static void note_all(void)
{
    uint32_t at = 0;
    for (size_t i = 0; i < DT_COUNT(composed); i++)
        note(composed[i].second, true, CHANGES | FOLLOWS);
    for (size_t i = 0; i < DT_COUNT(marks); i++)
        for (uint32_t c = marks[i].first; c <= marks[i].last; c++)
            note(c, false, FOLLOWS);
    for (uint32_t v = 0; v < N_V; v++)
        note(V_BASE + v, true, CHANGES | FOLLOWS);
    for (uint32_t t = 1; t < N_T; t++)
        note(T_BASE + t, true, CHANGES | FOLLOWS);
    for (uint32_t h = 0; h < N_S; h++)
        traits[S_BASE + h] |= CHANGES << DT_NFD | CHANGES << DT_NFKD;
    for (size_t i = 0; i < DT_COUNT(decomposed); i++)
        note_decomposed(decomposed[i].point, decomposed[i].to[0], false);
    for (size_t i = 0; i < DT_COUNT(compatible); at += compatible[i++].n) {
        compatible_at[i] = at;
        note_decomposed(compatible[i].point, compatible_to[at], true);
    }
}

/* The traits of a code point in the form. */
static int traits_of(DtForm form, uint32_t point)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, note_all);
    return traits[point] >> form;
}

/* ---- whether anything is to be done ---- */

bool dt_forms_is(DtForm form, const uint8_t *text, size_t len)
{
    enum { FIRST_LEAD = 0xcc }; /* of U+0300; composed text does not change before it */
    const uint8_t first = form == DT_NFC ? FIRST_LEAD : 0x80;
    int last = 0;
    for (size_t at = 0; at < len; at += dt_utf8_step(text[at])) {
        if (text[at] < first) {
            last = 0;
            continue;
        }
        const uint32_t point = dt_utf8_point(text + at);
        const int is = traits_of(form, point);
        if (is & CHANGES)
            return false;
        if (!(is & FOLLOWS)) {
            last = 0;
            continue;
        }
        const int combining = combining_of(point);
        if (combining < last) /* a mark that joins nothing and is in order stays */
            return false;
        last = combining;
    }
    return true;
}

size_t dt_forms_cut(DtForm form, const uint8_t *text, size_t len)
{
    while (len > 0) {
        do
            len--;
        while (len > 0 && (text[len] & 0xc0) == 0x80);
        if (!(traits_of(form, dt_utf8_point(text + len)) & FOLLOWS))
            break;
    }
    return len;
}

/* ---- the form ---- */

/* Writes the decomposition of a code point; returns how many it has. */
static size_t decompose_point(DtForm form, uint32_t point, uint32_t *ret_points)
{
    const uint32_t s = point - S_BASE;
    const Compatible *other = is_canonical(form) || point < 0xa0 ? NULL : find_compatible(point);
    const Decomposed *found = point < 0xc0 || other ? NULL : find_decomposed(point);
    if (s < N_S) {
        ret_points[0] = L_BASE + s / (N_V * N_T);
        ret_points[1] = V_BASE + s % (N_V * N_T) / N_T;
        ret_points[2] = T_BASE + s % N_T;
        return s % N_T ? 3 : 2;
    }
    const uint32_t n = other ? other->n : found ? (uint32_t)found->n : 1;
    const uint32_t *to = other   ? compatible_to + compatible_at[other - compatible]
                         : found ? found->to
                                 : &point;
    memcpy(ret_points, to, n * sizeof *to);
    return n;
}

static size_t decompose(DtForm form, const uint8_t *text, size_t len, uint32_t *ret_points)
{
    size_t n = 0;
    traits_of(form, 0);
    for (size_t at = 0; at < len; at += dt_utf8_step(text[at]))
        n += decompose_point(form, dt_utf8_point(text + at), ret_points + n);
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

size_t dt_forms_plain(DtForm form, const uint8_t *text, size_t len, uint8_t *ret_text)
{
    /* A decomposition has at most 4 code points, a compatible one 18, and more than one only from 2
     * bytes on. */
    const size_t most = (is_canonical(form) ? 2 : 9) * len + 18;
    uint32_t *points = malloc(most * sizeof *points);
    uint64_t *room = malloc(most * sizeof *room);
    uint8_t *classes = malloc(most);
    if (!points || !room || !classes)
        dt_arena_exhausted(most * (sizeof *points + sizeof *room + 1));
    size_t n = decompose(form, text, len, points), at = 0;
    order(points, classes, n, room);
    if (composes(form))
        n = join(points, classes, n);
    for (size_t i = 0; i < n; i++)
        at += dt_utf8_write(points[i], ret_text + at);
    free(points);
    free(room);
    free(classes);
    return at;
}

size_t dt_forms_write(DtForm form, const uint8_t *text, size_t len, uint8_t *ret_text)
{
    enum { PART = 256 }; /* bytes, so that one mark does not cost a long text much */
    size_t n = 0;
    for (size_t at = 0, end; at < len; at = end) {
        end = len - at < PART ? len : at + PART;
        while (end < len && ((text[end] & 0xc0) == 0x80 ||
                             (traits_of(form, dt_utf8_point(text + end)) & FOLLOWS)))
            end++;
        if (dt_forms_is(form, text + at, end - at)) {
            memcpy(ret_text + n, text + at, end - at);
            n += end - at;
        } else {
            n += dt_forms_plain(form, text + at, end - at, ret_text + n);
        }
    }
    return n;
}

/* ---- lower case ---- */

void dt_forms_each_lower(void *context, void (*take)(void *context, uint32_t point, uint32_t n,
                                                     const uint32_t *to))
{
    for (size_t i = 0; i < DT_COUNT(lower); i++)
        take(context, lower[i].point, lower[i].n, lower[i].to);
}
