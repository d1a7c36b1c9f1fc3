/* SPDX-License-Identifier: Apache-2.0 */
/* Documents as rows of one length. Without packing each row is one document, then padding. With it,
 * some rows are open at a time: a document goes into the fullest where it fits. If it fits nowhere,
 * the fullest row is closed. Documents that are longer than a row lose their end, or are left out;
 * no other one is divided. So the rows depend on the documents and their order alone. */
#include "runtime/data_chat.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN_ROWS = 64 };

struct DtChatRows {
    DtChatForm form;
    uint32_t padding;
    uint64_t *counts;
    DtChatRowSink sink;
    uint32_t *words; /* of all open rows */
    size_t used[OPEN_ROWS];
    uint64_t opened[OPEN_ROWS], n_opened; /* in which order they were */
    uint32_t n;
};

DtChatRows *dt_datachatrows_new(const DtChatForm *form, uint32_t padding, uint64_t *counts,
                                const DtChatRowSink *sink)
{
    const size_t bytes = OPEN_ROWS * (size_t)form->row * sizeof(uint32_t);
    DtChatRows *rows = calloc(1, sizeof *rows);
    if (!rows)
        dt_arena_exhausted(sizeof *rows);
    rows->form = *form;
    rows->padding = padding;
    rows->counts = counts;
    rows->sink = *sink;
    rows->words = malloc(bytes);
    if (!rows->words)
        dt_arena_exhausted(bytes);
    return rows;
}

void dt_datachatrows_free(DtChatRows *rows)
{
    if (rows)
        free(rows->words);
    free(rows);
}

static uint32_t *row_at(DtChatRows *rows, uint32_t i)
{
    return rows->words + (size_t)i * (size_t)rows->form.row;
}

/* Gives row i to the sink; the last one takes its place. */
static DtStatus close_row(DtChatRows *rows, uint32_t i)
{
    const size_t row = (size_t)rows->form.row;
    uint32_t *words = row_at(rows, i);
    for (size_t at = rows->used[i]; at < row; at++)
        words[at] = rows->padding | DT_CHAT_PADDING;
    DtStatus status = rows->sink.take(rows->sink.context, words, row);
    const uint32_t last = --rows->n;
    if (last != i) {
        memcpy(words, row_at(rows, last), rows->used[last] * sizeof *words);
        rows->used[i] = rows->used[last];
        rows->opened[i] = rows->opened[last];
    }
    return status;
}

/* The fullest row that has room for n more words; rows->n: there is none. */
static uint32_t fullest(const DtChatRows *rows, size_t n)
{
    uint32_t best = rows->n;
    for (uint32_t i = 0; i < rows->n; i++) {
        if (rows->used[i] + n > (size_t)rows->form.row)
            continue;
        if (best == rows->n || rows->used[i] > rows->used[best] ||
            (rows->used[i] == rows->used[best] && rows->opened[i] < rows->opened[best]))
            best = i;
    }
    return best;
}

/* Chooses the row of a document of n words, and opens it if it is new. */
static DtStatus choose_row(DtChatRows *rows, size_t n, uint32_t *ret_row)
{
    const bool packs = rows->form.flags & DT_PLAN_CHAT_PACK;
    DtStatus status = DT_OK;
    uint32_t i = packs ? fullest(rows, n) : rows->n;
    if (i == rows->n && rows->n == (packs ? OPEN_ROWS : 1)) {
        status = close_row(rows, fullest(rows, 0));
        i = rows->n;
    }
    if (i == rows->n) {
        rows->used[i] = 0;
        rows->opened[i] = rows->n_opened++;
        rows->n++;
    }
    *ret_row = i;
    return status;
}

static uint64_t count_labels(const uint32_t *words, size_t n)
{
    uint64_t labels = 0;
    for (size_t i = 1; i < n; i++)
        labels += (words[i] & DT_CHAT_TRAINED) != 0;
    return labels;
}

/* Returns how many words of a document are in a row; 0: it is left out, since it is too long, or
 * nothing of it is trained. Counts it then. */
static size_t words_kept(DtChatRows *rows, const uint32_t *words, size_t n)
{
    const size_t most = (size_t)dt_chat_longest(&rows->form);
    if (n > most && (rows->form.flags & DT_PLAN_CHAT_DROP)) {
        rows->counts[DT_CHAT_DROPPED]++;
        return 0;
    }
    n = n > most ? most : n;
    if (count_labels(words, n) > 0)
        return n;
    rows->counts[DT_CHAT_UNTRAINED]++;
    return 0;
}

/* Puts a document into row i. */
static void put(DtChatRows *rows, uint32_t i, const uint32_t *words, size_t n, bool is_long)
{
    uint32_t *to = row_at(rows, i) + rows->used[i];
    memcpy(to, words, n * sizeof *to);
    to[0] |= DT_CHAT_FIRST;
    rows->used[i] += n;
    rows->counts[DT_CHAT_DOCUMENTS]++;
    rows->counts[DT_CHAT_TOKENS] += n;
    rows->counts[DT_CHAT_LABELS] += count_labels(words, n);
    rows->counts[DT_CHAT_CUT] += is_long;
}

DtStatus dt_datachatrows_add(DtChatRows *rows, const uint32_t *words, size_t n)
{
    uint32_t i;
    const size_t kept = words_kept(rows, words, n);
    DtStatus status = kept > 0 ? choose_row(rows, kept, &i) : DT_OK;
    if (kept > 0 && dt_status_ok(&status))
        put(rows, i, words, kept, kept < n);
    return status;
}

DtStatus dt_datachatrows_pair(DtChatRows *rows, const uint32_t *words, size_t first, size_t n)
{
    uint32_t i;
    const size_t half = (size_t)dt_chat_longest(&rows->form);
    const size_t one = words_kept(rows, words, first),
                 other = one > 0 ? words_kept(rows, words + first, n - first) : 0;
    DtStatus status = other > 0 ? choose_row(rows, 2 * half, &i) : DT_OK;
    if (other == 0 || !dt_status_ok(&status))
        return status;
    put(rows, i, words, one, one < first);
    uint32_t *row = row_at(rows, i);
    for (; rows->used[i] < half; rows->used[i]++)
        row[rows->used[i]] = rows->padding | DT_CHAT_PADDING;
    put(rows, i, words + first, other, other < n - first);
    return DT_OK;
}

DtStatus dt_datachatrows_end(DtChatRows *rows)
{
    DtStatus status = DT_OK;
    while (rows->n > 0 && dt_status_ok(&status)) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < rows->n; i++)
            if (rows->opened[i] < rows->opened[first])
                first = i;
        status = close_row(rows, first);
    }
    return status;
}
