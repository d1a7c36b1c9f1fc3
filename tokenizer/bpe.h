/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding (Sennrich et al., 2016) over bytes: the piece begins as the tokens of its
 * bytes; of all neighbours that a merge names those of the first merge, leftmost first, become one
 * token, until none is left. */
#ifndef DT_TOKENIZER_BPE_H
#define DT_TOKENIZER_BPE_H

#include "base/arena.h"

#define DT_BPE_NONE UINT32_MAX

/* Bytes that a token stands for. */
typedef struct DtTokenBytes {
    const uint8_t *at;
    uint32_t len;
} DtTokenBytes;

typedef struct DtMerge {
    uint64_t pair; /* left token << 32 | right token; UINT64_MAX: a free slot */
    uint32_t rank, token;
} DtMerge;

typedef struct DtBpe {
    uint32_t of_byte[256]; /* DT_BPE_NONE: no text has that byte */
    DtMerge *merges;       /* a hash table of 1 << bits slots */
    uint32_t bits;
    uint32_t *whole; /* a hash table of tokens by their bytes, in which pieces are looked up before
                      * merges (ignore_merges); NULL: they are not */
    uint32_t whole_bits;
    const DtTokenBytes *tokens;
} DtBpe;

/* A growing list of token ids. */
typedef struct DtIds {
    uint32_t *at;
    size_t n, cap;
} DtIds;
/* Makes room for n more ids. */
void dt_ids_room(DtIds *ids, size_t n);

void dt_bpe_begin(DtArena *memory, DtBpe *bpe, size_t n_merges);
/* Of two merges of one pair the later one counts, as in `tokenizers`. */
void dt_bpe_add(DtBpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t token);
/* Looks pieces up among these tokens first. at NULL: no piece is that token. */
void dt_bpe_look_up(DtArena *memory, DtBpe *bpe, const DtTokenBytes *tokens, uint32_t n_tokens);
/* The merge of a pair, or NULL. */
const DtMerge *dt_bpe_find(const DtBpe *bpe, uint32_t left, uint32_t right);

/* What a thread keeps: results of pieces that it has met, and room for long ones. */
typedef struct DtBpeWork DtBpeWork;
DtBpeWork *dt_bpe_work_new(void);
void dt_bpe_work_free(DtBpeWork *work);
/* Appends the tokens of a piece. */
void dt_bpe_encode(const DtBpe *bpe, DtBpeWork *work, const uint8_t *piece, size_t len, DtIds *ids);
/* The same without tables of results, in quadratic time: the plain reference. */
void dt_bpe_plain(const DtBpe *bpe, const uint8_t *piece, size_t len, DtIds *ids);

#endif
