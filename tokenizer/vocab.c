/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/vocab.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

/* The slot of a text, or the free one where it would be. */
static uint32_t *slot_of(const DtVocab *vocab, const void *text, size_t len)
{
    const size_t mask = ((size_t)1 << vocab->bits) - 1;
    size_t at = (size_t)dt_hash_bytes(text, len, 0) & mask;
    for (; vocab->slots[at] != DT_NO_TOKEN; at = (at + 1) & mask) {
        const DtTokenBytes *token = &vocab->tokens[vocab->slots[at]];
        if (token->len == len && memcmp(token->at, text, len) == 0)
            break;
    }
    return &vocab->slots[at];
}

void dt_vocab_begin(DtArena *memory, const DtTokenBytes *tokens, uint32_t n, DtVocab *ret_vocab)
{
    DtVocab *vocab = ret_vocab;
    *vocab = (DtVocab){.tokens = tokens, .bits = 4};
    while ((size_t)1 << vocab->bits < 2 * (size_t)n)
        vocab->bits++;
    vocab->slots = DT_NEW_ARRAY(memory, uint32_t, (size_t)1 << vocab->bits);
    memset(vocab->slots, 0xff, sizeof *vocab->slots << vocab->bits);
    for (uint32_t id = 0; id < n; id++) {
        if (!tokens[id].at)
            continue;
        *slot_of(vocab, tokens[id].at, tokens[id].len) = id;
        vocab->longest = tokens[id].len > vocab->longest ? tokens[id].len : vocab->longest;
    }
}

uint32_t dt_vocab_find(const DtVocab *vocab, const void *text, size_t len)
{
    return *slot_of(vocab, text, len);
}

/* ---- the trie ---- */

typedef struct Entry {
    DtTokenBytes text;
    uint32_t id;
} Entry;

/* Tokens entries[lo, hi) begin with the same `depth` bytes, which lead to the node. */
typedef struct Range {
    uint32_t lo, hi, depth;
} Range;

static int by_text(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    const uint32_t len = x->text.len < y->text.len ? x->text.len : y->text.len;
    const int order = memcmp(x->text.at, y->text.at, len);
    return order ? order : x->text.len < y->text.len ? -1 : x->text.len > y->text.len;
}

/* Adds the children of a node, and takes its own token out of the range. */
static void add_children(DtTrie *trie, const Entry *entries, Range *ranges, uint32_t node)
{
    Range range = ranges[node];
    trie->first[node] = trie->n;
    trie->token[node] = DT_NO_TOKEN;
    if (range.lo < range.hi && entries[range.lo].text.len == range.depth)
        trie->token[node] = entries[range.lo++].id;
    for (uint32_t lo = range.lo, hi; lo < range.hi; lo = hi) {
        const uint8_t byte = entries[lo].text.at[range.depth];
        for (hi = lo + 1; hi < range.hi && entries[hi].text.at[range.depth] == byte; hi++) {}
        trie->labels[trie->n] = byte;
        ranges[trie->n++] = (Range){lo, hi, range.depth + 1};
    }
}

bool dt_trie_make(DtArena *memory, const DtVocab *vocab, uint32_t n_tokens, DtTrie *ret_trie)
{
    DtTrie *trie = ret_trie;
    Entry *entries = DT_NEW_ARRAY(memory, Entry, n_tokens + 1);
    uint32_t n = 0;
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < n_tokens; id++) {
        const DtTokenBytes text = vocab->tokens[id];
        if (!text.at || dt_vocab_find(vocab, text.at, text.len) != id)
            continue;
        entries[n++] = (Entry){text, id};
        bytes += text.len;
    }
    if (bytes > DT_TRIE_BYTES)
        return false;
    qsort(entries, n, sizeof *entries, by_text);
    Range *ranges = calloc(bytes + 2, sizeof *ranges);
    if (!ranges)
        dt_arena_exhausted((bytes + 2) * sizeof *ranges);
    trie->first = DT_NEW_ARRAY(memory, uint32_t, bytes + 2);
    trie->labels = DT_NEW_ARRAY(memory, uint8_t, bytes + 2);
    trie->token = DT_NEW_ARRAY(memory, uint32_t, bytes + 2);
    trie->n = 1;
    ranges[0] = (Range){0, n, 0};
    for (uint32_t node = 0; node < trie->n; node++)
        add_children(trie, entries, ranges, node);
    trie->first[trie->n] = trie->n;
    free(ranges);
    return true;
}

uint32_t dt_trie_step(const DtTrie *trie, uint32_t node, uint8_t byte)
{
    const uint32_t first = trie->first[node], n = trie->first[node + 1] - first;
    const uint8_t *labels = trie->labels + first;
    if (n == 0)
        return 0;
    const uint8_t *found = n == 1 ? (labels[0] == byte ? labels : NULL) : memchr(labels, byte, n);
    return found ? first + (uint32_t)(found - labels) : 0;
}
