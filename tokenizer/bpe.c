/* SPDX-License-Identifier: Apache-2.0 */
/* Most pieces of a text have been met before: a table keeps their tokens. It holds the last piece
 * of each hash value, so it needs no other bound. Other pieces are merged: short ones in an array,
 * in which the first merge is searched anew each time, long ones with a heap of pairs. */
#include "tokenizer/bpe.h"

#include "base/hash.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEPT_BITS = 16, /* pieces whose tokens are kept, as a power of 2: 8 MiB */
    KEPT_BYTES = 46,
    KEPT_TOKENS = 18,
    SHORT = 128 /* longer pieces are merged with a heap */
};

typedef struct Kept {
    uint64_t hash;
    uint8_t len, n; /* len 0: none */
    uint8_t bytes[KEPT_BYTES];
    uint32_t ids[KEPT_TOKENS];
} Kept;
_Static_assert(sizeof(Kept) == 128, "two lines of the cache");

/* A token of a long piece in a list. */
typedef struct Node {
    uint32_t token, before, after;
} Node;

struct DtBpeWork {
    Kept *kept;
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

void dt_ids_room(DtIds *ids, size_t n)
{
    if (ids->cap - ids->n >= n)
        return;
    ids->cap = 2 * ids->cap + n + 64;
    ids->at = allocate(ids->at, ids->cap, sizeof *ids->at);
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
        bpe->of_byte[i] = DT_BPE_NONE;
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

void dt_bpe_look_up(DtArena *memory, DtBpe *bpe, const DtTokenBytes *tokens, uint32_t n_tokens)
{
    bpe->tokens = tokens;
    bpe->whole_bits = bits_for(n_tokens);
    const size_t n = (size_t)1 << bpe->whole_bits;
    bpe->whole = DT_NEW_ARRAY(memory, uint32_t, n);
    for (size_t i = 0; i < n; i++)
        bpe->whole[i] = DT_BPE_NONE;
    for (uint32_t id = 0; id < n_tokens; id++) {
        size_t at;
        if (!tokens[id].at)
            continue;
        at = (size_t)dt_hash_bytes(tokens[id].at, tokens[id].len, 0) & (n - 1);
        while (bpe->whole[at] != DT_BPE_NONE)
            at = (at + 1) & (n - 1);
        bpe->whole[at] = id;
    }
}

static uint32_t find_whole(const DtBpe *bpe, const uint8_t *piece, size_t len)
{
    const size_t mask = ((size_t)1 << bpe->whole_bits) - 1;
    size_t at = (size_t)dt_hash_bytes(piece, len, 0) & mask;
    for (; bpe->whole[at] != DT_BPE_NONE; at = (at + 1) & mask) {
        const DtTokenBytes *token = &bpe->tokens[bpe->whole[at]];
        if (token->len == len && memcmp(token->at, piece, len) == 0)
            return bpe->whole[at];
    }
    return DT_BPE_NONE;
}

/* ---- short pieces ---- */

static uint32_t rank_of(const DtBpe *bpe, const uint32_t *tokens, size_t at, uint32_t *ret_merged)
{
    const DtMerge *merge = dt_bpe_find(bpe, tokens[at], tokens[at + 1]);
    *ret_merged = merge ? merge->token : DT_BPE_NONE;
    return merge ? merge->rank : UINT32_MAX;
}

/* ranks[i], merged[i]: of the pair that begins at token i. */
static size_t merge_short(const DtBpe *bpe, const uint8_t *piece, size_t len, uint32_t *tokens)
{
    uint32_t ranks[SHORT], merged[SHORT];
    size_t n = len;
    for (size_t i = 0; i < len; i++)
        tokens[i] = bpe->of_byte[piece[i]];
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
    const DtMerge *merge = node->after == DT_BPE_NONE
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
    if (node->token == DT_BPE_NONE || node->after == DT_BPE_NONE)
        return;
    Node *right = &work->nodes[node->after];
    const DtMerge *merge = dt_bpe_find(bpe, node->token, right->token);
    if (!merge || merge->rank != entry >> 32)
        return;
    node->token = merge->token;
    node->after = right->after;
    right->token = DT_BPE_NONE;
    if (node->after != DT_BPE_NONE)
        work->nodes[node->after].before = left;
    if (node->before != DT_BPE_NONE)
        push_pair(bpe, work, node->before);
    push_pair(bpe, work, left);
}

static void merge_long(const DtBpe *bpe, DtBpeWork *work, const uint8_t *piece, size_t len,
                       DtIds *ids)
{
    if (len > work->cap_nodes) {
        work->cap_nodes = len + len / 2;
        work->nodes = allocate(work->nodes, work->cap_nodes, sizeof *work->nodes);
    }
    for (size_t i = 0; i < len; i++)
        work->nodes[i] = (Node){bpe->of_byte[piece[i]], i ? (uint32_t)i - 1 : DT_BPE_NONE,
                                i + 1 < len ? (uint32_t)i + 1 : DT_BPE_NONE};
    work->n_heap = 0;
    for (size_t i = 0; i + 1 < len; i++)
        push_pair(bpe, work, (uint32_t)i);
    while (work->n_heap > 0)
        merge_pair(bpe, work, pop(work));
    for (uint32_t i = 0; i != DT_BPE_NONE; i = work->nodes[i].after) {
        dt_ids_room(ids, 1);
        ids->at[ids->n++] = work->nodes[i].token;
    }
}

/* ---- any piece ---- */

DtBpeWork *dt_bpe_work_new(void)
{
    DtBpeWork *work = calloc(1, sizeof *work);
    Kept *kept = calloc((size_t)1 << KEPT_BITS, sizeof *kept);
    if (!work || !kept)
        dt_arena_exhausted(sizeof *kept << KEPT_BITS);
    work->kept = kept;
    return work;
}

void dt_bpe_work_free(DtBpeWork *work)
{
    if (!work)
        return;
    free(work->kept);
    free(work->nodes);
    free(work->heap);
    free(work);
}

static void encode_new(const DtBpe *bpe, DtBpeWork *work, const uint8_t *piece, size_t len,
                       DtIds *ids)
{
    const uint32_t whole = bpe->whole ? find_whole(bpe, piece, len) : DT_BPE_NONE;
    if (whole != DT_BPE_NONE)
        ids->at[ids->n++] = whole;
    else if (len <= SHORT)
        ids->n += merge_short(bpe, piece, len, ids->at + ids->n);
    else
        merge_long(bpe, work, piece, len, ids);
}

void dt_bpe_encode(const DtBpe *bpe, DtBpeWork *work, const uint8_t *piece, size_t len, DtIds *ids)
{
    dt_ids_room(ids, len <= SHORT ? SHORT : 1);
    if (len == 0 || len > KEPT_BYTES) {
        if (len > 0)
            encode_new(bpe, work, piece, len, ids);
        return;
    }
    const uint64_t hash = dt_hash_bytes(piece, len, 0);
    Kept *kept = &work->kept[hash >> (64 - KEPT_BITS)];
    if (kept->hash == hash && kept->len == len && memcmp(kept->bytes, piece, len) == 0) {
        memcpy(ids->at + ids->n, kept->ids, kept->n * sizeof kept->ids[0]);
        ids->n += kept->n;
        return;
    }
    const size_t before = ids->n;
    encode_new(bpe, work, piece, len, ids);
    if (ids->n - before > KEPT_TOKENS)
        return;
    kept->hash = hash;
    kept->len = (uint8_t)len;
    kept->n = (uint8_t)(ids->n - before);
    memcpy(kept->bytes, piece, len);
    memcpy(kept->ids, ids->at + before, kept->n * sizeof kept->ids[0]);
}

/* ---- the reference ---- */

void dt_bpe_plain(const DtBpe *bpe, const uint8_t *piece, size_t len, DtIds *ids)
{
    dt_ids_room(ids, len);
    uint32_t *tokens = ids->at + ids->n;
    size_t n = len;
    for (uint32_t id = 0; bpe->whole && id < (1u << bpe->whole_bits); id++) {
        const uint32_t whole = bpe->whole[id];
        if (whole != DT_BPE_NONE && bpe->tokens[whole].len == len &&
            memcmp(bpe->tokens[whole].at, piece, len) == 0) {
            ids->at[ids->n++] = whole;
            return;
        }
    }
    for (size_t i = 0; i < len; i++)
        tokens[i] = bpe->of_byte[piece[i]];
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
