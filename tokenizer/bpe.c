/* SPDX-License-Identifier: Apache-2.0 */
/* Short pieces are merged in an array, in which the first merge is searched anew each time, long
 * ones with a heap of pairs. */
#include "tokenizer/bpe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 128 }; /* tokens; more are merged with a heap */

/* A token of a long piece in a list. */
typedef struct Node {
    uint32_t token, before, after;
} Node;

struct DtBpeWork {
    uint32_t *tokens;
    Node *nodes;
    uint64_t *heap; /* rank << 32 | index of the left node, smallest first */
    size_t n_heap, cap_heap, cap_nodes;
};

static void *allocate(void *old, size_t n, size_t size)
{
    void *at = n > SIZE_MAX / size ? NULL : realloc(old, n * size);
    if (!at)
        dt_arena_exhausted(n * size);
    return at;
}

/* ---- tables ---- */

static uint32_t bits_for(size_t n)
{
    uint32_t bits = 4;
    while (bits < 30 && (size_t)1 << bits < 2 * n)
        bits++;
    return bits;
}

static size_t slot_of(uint64_t pair, uint32_t bits)
{
    return (size_t)((pair ^ pair >> 29) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - bits));
}

void dt_bpe_begin(DtArena *memory, DtBpe *bpe, size_t n_merges)
{
    bpe->bits = bits_for(n_merges);
    const size_t n = (size_t)1 << bpe->bits;
    bpe->merges = DT_NEW_ARRAY(memory, DtMerge, n);
    for (size_t i = 0; i < n; i++)
        bpe->merges[i].pair = UINT64_MAX;
    for (int i = 0; i < 256; i++)
        bpe->of_byte[i] = DT_NO_TOKEN;
}

/* The slot of the pair, or the free one where it would be. */
static DtMerge *find(const DtBpe *bpe, uint32_t left, uint32_t right)
{
    const uint64_t pair = (uint64_t)left << 32 | right;
    const size_t mask = ((size_t)1 << bpe->bits) - 1;
    size_t at = slot_of(pair, bpe->bits);
    while (bpe->merges[at].pair != pair && bpe->merges[at].pair != UINT64_MAX)
        at = (at + 1) & mask;
    return &bpe->merges[at];
}

const DtMerge *dt_bpe_find(const DtBpe *bpe, uint32_t left, uint32_t right)
{
    const DtMerge *merge = find(bpe, left, right);
    return merge->pair == UINT64_MAX ? NULL : merge;
}

void dt_bpe_add(DtBpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t token)
{
    *find(bpe, left, right) = (DtMerge){(uint64_t)left << 32 | right, rank, token};
}

/* ---- the first tokens ---- */

bool dt_bpe_falls_back(const DtBpe *bpe)
{
    return bpe->over_points && bpe->of_byte[0x80] != DT_NO_TOKEN;
}

/* Writes the tokens of a code point without a token; returns how many. *unknown: the last one was
 * unknown, too. */
static size_t replace_point(const DtBpe *bpe, const uint8_t *at, size_t len, bool *unknown,
                            uint32_t *tokens)
{
    const bool fuses = bpe->fuses_unknown && *unknown;
    *unknown = false;
    if (dt_bpe_falls_back(bpe)) {
        for (size_t i = 0; i < len; i++)
            tokens[i] = bpe->of_byte[at[i]];
        return len;
    }
    *unknown = true;
    if (fuses || bpe->unknown == DT_NO_TOKEN)
        return 0;
    tokens[0] = bpe->unknown;
    return 1;
}

/* begin_tokens for a file with a prefix or a suffix. */
static size_t begin_places(const DtBpe *bpe, const uint8_t *piece, size_t len, uint32_t *tokens)
{
    size_t n = 0;
    bool unknown = false;
    for (size_t at = 0, step; at < len; at += step) {
        step = bpe->over_points ? dt_utf8_step(piece[at]) : 1;
        const uint32_t point = bpe->over_points ? dt_utf8_point(piece + at) : piece[at];
        const int place = (at > 0 ? DT_BPE_INSIDE : 0) | (at + step >= len ? DT_BPE_LAST : 0);
        const uint32_t token = dt_points_at(bpe->places[place], point);
        if (token) {
            tokens[n++] = token - 1;
            unknown = false;
        } else {
            n += replace_point(bpe, piece + at, step, &unknown, tokens + n);
        }
    }
    return n;
}

/* Writes the tokens that a piece begins as, at most one for each byte; returns how many. */
static size_t begin_tokens(const DtBpe *bpe, const uint8_t *piece, size_t len, uint32_t *tokens)
{
    size_t n = 0;
    bool unknown = false;
    if (bpe->places[0])
        return begin_places(bpe, piece, len, tokens);
    if (!bpe->over_points) {
        for (size_t i = 0; i < len; i++)
            tokens[i] = bpe->of_byte[piece[i]];
        return len;
    }
    for (size_t at = 0, step; at < len; at += step) {
        step = dt_utf8_step(piece[at]);
        const uint32_t token = dt_points_at(bpe->of_point, dt_utf8_point(piece + at));
        if (token) {
            tokens[n++] = token - 1;
            unknown = false;
        } else {
            n += replace_point(bpe, piece + at, step, &unknown, tokens + n);
        }
    }
    return n;
}

/* ---- places to cut ---- */

void dt_bpe_begin_joins(DtArena *memory, DtBpe *bpe, size_t n_pairs)
{
    bpe->join_bits = bits_for(n_pairs);
    bpe->joins = DT_NEW_ARRAY(memory, uint64_t, (size_t)1 << bpe->join_bits);
    memset(bpe->joins, 0xff, sizeof *bpe->joins << bpe->join_bits);
}

/* The slot of the pair, or the free one where it would be. */
static uint64_t *join_of(const DtBpe *bpe, uint32_t before, uint32_t after)
{
    const uint64_t pair = (uint64_t)before << 32 | after;
    const size_t mask = ((size_t)1 << bpe->join_bits) - 1;
    size_t at = slot_of(pair, bpe->join_bits);
    while (bpe->joins[at] != pair && bpe->joins[at] != UINT64_MAX)
        at = (at + 1) & mask;
    return &bpe->joins[at];
}

void dt_bpe_add_join(DtBpe *bpe, uint32_t before, uint32_t after)
{
    *join_of(bpe, before, after) = (uint64_t)before << 32 | after;
    if (before < 0x80 && after < 0x80)
        bpe->ascii_joins[before][after / 64] |= UINT64_C(1) << after % 64;
}

static bool is_joined(const DtBpe *bpe, uint32_t before, uint32_t after)
{
    if (before < 0x80 && after < 0x80 ? bpe->ascii_joins[before][after / 64] >> after % 64 & 1
                                      : *join_of(bpe, before, after) != UINT64_MAX)
        return true;
    return bpe->fuses_unknown && !dt_points_at(bpe->of_point, before) &&
           !dt_points_at(bpe->of_point, after);
}

static uint32_t point_of(const DtBpe *bpe, const uint8_t *at)
{
    return *at == ' ' ? bpe->space : dt_utf8_point(at);
}

size_t dt_bpe_cut(const DtBpe *bpe, const uint8_t *text, size_t at, size_t end)
{
    uint32_t before = point_of(bpe, text + at);
    for (at += dt_utf8_step(text[at]); at < end; at += dt_utf8_step(text[at])) {
        const uint32_t after = point_of(bpe, text + at);
        if (!is_joined(bpe, before, after))
            break;
        before = after;
    }
    return at;
}

/* ---- short pieces ---- */

static uint32_t rank_of(const DtBpe *bpe, const uint32_t *tokens, size_t at, uint32_t *ret_merged)
{
    const DtMerge *merge = dt_bpe_find(bpe, tokens[at], tokens[at + 1]);
    *ret_merged = merge ? merge->token : DT_NO_TOKEN;
    return merge ? merge->rank : UINT32_MAX;
}

/* ranks[i], merged[i]: of the pair that begins at token i. */
static size_t merge_short(const DtBpe *bpe, uint32_t *tokens, size_t n)
{
    uint32_t ranks[SHORT], merged[SHORT];
    if (n == 0)
        return 0;
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = rank_of(bpe, tokens, i, &merged[i]);
    ranks[n - 1] = merged[n - 1] = UINT32_MAX; /* no pair begins at the last one */
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == UINT32_MAX)
            break;
        tokens[best] = merged[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            tokens[i] = tokens[i + 1];
            ranks[i] = ranks[i + 1];
            merged[i] = merged[i + 1];
        }
        if (best > 0)
            ranks[best - 1] = rank_of(bpe, tokens, best - 1, &merged[best - 1]);
        if (best + 1 < n)
            ranks[best] = rank_of(bpe, tokens, best, &merged[best]);
    }
    return n;
}

/* ---- long pieces ---- */

static void push(DtBpeWork *work, uint64_t key)
{
    if (work->n_heap == work->cap_heap) {
        work->cap_heap = 2 * work->cap_heap + 1024;
        work->heap = allocate(work->heap, work->cap_heap, sizeof *work->heap);
    }
    size_t at = work->n_heap++;
    for (; at > 0 && work->heap[(at - 1) / 2] > key; at = (at - 1) / 2)
        work->heap[at] = work->heap[(at - 1) / 2];
    work->heap[at] = key;
}

static uint64_t pop(DtBpeWork *work)
{
    const uint64_t top = work->heap[0], key = work->heap[--work->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= work->n_heap)
            break;
        child += child + 1 < work->n_heap && work->heap[child + 1] < work->heap[child];
        if (work->heap[child] >= key)
            break;
        work->heap[at] = work->heap[child];
        at = child;
    }
    if (work->n_heap > 0)
        work->heap[at] = key;
    return top;
}

static void push_pair(const DtBpe *bpe, DtBpeWork *work, uint32_t left)
{
    const Node *node = &work->nodes[left];
    const DtMerge *merge = node->after == DT_NO_TOKEN
                               ? NULL
                               : dt_bpe_find(bpe, node->token, work->nodes[node->after].token);
    if (merge)
        push(work, (uint64_t)merge->rank << 32 | left);
}

/* Merges the pair of a heap entry, unless one of its tokens has been merged with another. */
static void merge_pair(const DtBpe *bpe, DtBpeWork *work, uint64_t entry)
{
    const uint32_t left = (uint32_t)entry;
    Node *node = &work->nodes[left];
    if (node->token == DT_NO_TOKEN || node->after == DT_NO_TOKEN)
        return;
    Node *right = &work->nodes[node->after];
    const DtMerge *merge = dt_bpe_find(bpe, node->token, right->token);
    if (!merge || merge->rank != entry >> 32)
        return;
    node->token = merge->token;
    node->after = right->after;
    right->token = DT_NO_TOKEN;
    if (node->after != DT_NO_TOKEN)
        work->nodes[node->after].before = left;
    if (node->before != DT_NO_TOKEN)
        push_pair(bpe, work, node->before);
    push_pair(bpe, work, left);
}

static void merge_long(const DtBpe *bpe, DtBpeWork *work, size_t n, DtIds *ids)
{
    for (size_t i = 0; i < n; i++)
        work->nodes[i] = (Node){work->tokens[i], i ? (uint32_t)i - 1 : DT_NO_TOKEN,
                                i + 1 < n ? (uint32_t)i + 1 : DT_NO_TOKEN};
    work->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(bpe, work, (uint32_t)i);
    while (work->n_heap > 0)
        merge_pair(bpe, work, pop(work));
    for (uint32_t i = 0; i != DT_NO_TOKEN; i = work->nodes[i].after)
        dt_ids_add(ids, work->nodes[i].token);
}

/* ---- any piece ---- */

DtBpeWork *dt_bpe_work_new(void)
{
    DtBpeWork *work = calloc(1, sizeof *work);
    if (!work)
        dt_arena_exhausted(sizeof *work);
    return work;
}

void dt_bpe_work_free(DtBpeWork *work)
{
    if (!work)
        return;
    free(work->tokens);
    free(work->nodes);
    free(work->heap);
    free(work);
}

/* Returns whether the piece is one token that is not merged. */
static bool take_whole(const DtBpe *bpe, const uint8_t *piece, size_t len, DtIds *ids)
{
    const uint32_t whole = bpe->whole ? dt_vocab_find(bpe->whole, piece, len) : DT_NO_TOKEN;
    if (whole != DT_NO_TOKEN)
        dt_ids_add(ids, whole);
    return whole != DT_NO_TOKEN;
}

void dt_bpe_encode(const DtBpe *bpe, DtBpeWork *work, const uint8_t *piece, size_t len, DtIds *ids)
{
    if (take_whole(bpe, piece, len, ids))
        return;
    if (len <= SHORT) {
        dt_ids_room(ids, SHORT);
        uint32_t *tokens = ids->at + ids->n;
        ids->n += merge_short(bpe, tokens, begin_tokens(bpe, piece, len, tokens));
        return;
    }
    if (len > work->cap_nodes) {
        work->cap_nodes = len + len / 2;
        work->nodes = allocate(work->nodes, work->cap_nodes, sizeof *work->nodes);
        work->tokens = allocate(work->tokens, work->cap_nodes, sizeof *work->tokens);
    }
    const size_t n = begin_tokens(bpe, piece, len, work->tokens);
    if (n > 0)
        merge_long(bpe, work, n, ids);
}

/* ---- the reference ---- */

void dt_bpe_plain(const DtBpe *bpe, const uint8_t *piece, size_t len, DtIds *ids)
{
    if (take_whole(bpe, piece, len, ids))
        return;
    dt_ids_room(ids, len);
    uint32_t *tokens = ids->at + ids->n;
    size_t n = begin_tokens(bpe, piece, len, tokens);
    for (;;) {
        const DtMerge *best = NULL;
        size_t where = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const DtMerge *merge = dt_bpe_find(bpe, tokens[i], tokens[i + 1]);
            if (merge && (!best || merge->rank < best->rank)) {
                best = merge;
                where = i;
            }
        }
        if (!best)
            break;
        tokens[where] = best->token;
        memmove(tokens + where + 1, tokens + where + 2, (n - where - 2) * sizeof *tokens);
        n--;
    }
    ids->n += n;
}
