/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding (Sennrich et al., 2016): the piece begins as the tokens of its bytes, or of
 * its code points; of all neighbours that a merge names those of the first merge, leftmost first,
 * become one token, until none is left. A file may mark where in a piece they stand: by a prefix of
 * all but the first one, by a suffix of the last one (GPT-1 and CLIP: `</w>`), which their tokens
 * then have.
 *
 * A file may leave whole documents in one piece (Llama 2, Gemma). No token reaches across two code
 * points that follow each other in no token, so such text is cut there: `dt_bpe_cut`. */
#ifndef DT_TOKENIZER_BPE_H
#define DT_TOKENIZER_BPE_H

#include "base/arena.h"
#include "tokenizer/ids.h"
#include "tokenizer/points.h"
#include "tokenizer/vocab.h"

typedef struct DtMerge {
    uint64_t pair; /* left token << 32 | right token; UINT64_MAX: a free slot */
    uint32_t rank, token;
} DtMerge;

/* Bits of a place in a piece: it is not the first; it is the last. */
enum { DT_BPE_INSIDE = 1, DT_BPE_LAST = 2, DT_BPE_PLACES = 4 };

typedef struct DtBpe {
    bool over_points;      /* pieces begin as code points; else as bytes */
    uint32_t of_byte[256]; /* DT_NO_TOKEN: no text has that byte, or, over code points, bytes do not
                            * stand for those without a token (byte_fallback) */
    DtPoints *of_point;    /* 1 + token; 0: none */
    uint32_t unknown;      /* the token of other code points; DT_NO_TOKEN: they are dropped */
    bool fuses_unknown;    /* one for several of them in a row */
    DtMerge *merges;       /* a hash table of 1 << bits slots */
    uint32_t bits;
    /* if there is a prefix or a suffix: 1 + the token of a code point, or of a byte, by its place
     * in the piece (0: it has none); NULL: places make no difference */
    DtPoints *places[DT_BPE_PLACES];
    const DtVocab *whole; /* pieces are looked up here before merges (ignore_merges); NULL: not */
    /* pairs of code points that follow each other in a token: those of ASCII as bits, all in a hash
     * table, whose free slots are UINT64_MAX; NULL: text cannot be cut */
    uint64_t *joins, ascii_joins[128][2];
    uint32_t join_bits;
    uint32_t space; /* the code point that a space stands for */
} DtBpe;

void dt_bpe_begin(DtArena *memory, DtBpe *bpe, size_t n_merges);
/* Of two merges of one pair the later one counts, as in `tokenizers`. */
void dt_bpe_add(DtBpe *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t token);
/* The merge of a pair, or NULL. */
const DtMerge *dt_bpe_find(const DtBpe *bpe, uint32_t left, uint32_t right);

/* Whether the byte tokens stand for code points that have no token. */
bool dt_bpe_falls_back(const DtBpe *bpe);

/* Begins the table of pairs that cannot be cut, of at most n_pairs. */
void dt_bpe_begin_joins(DtArena *memory, DtBpe *bpe, size_t n_pairs);
void dt_bpe_add_join(DtBpe *bpe, uint32_t before, uint32_t after);
/* The first place after `at` where text[..end) can be cut, or `end`. */
size_t dt_bpe_cut(const DtBpe *bpe, const uint8_t *text, size_t at, size_t end);

/* What a thread needs to merge long pieces. */
typedef struct DtBpeWork DtBpeWork;
DtBpeWork *dt_bpe_work_new(void);
void dt_bpe_work_free(DtBpeWork *work);
/* Appends the tokens of a piece. */
void dt_bpe_encode(const DtBpe *bpe, DtBpeWork *work, const uint8_t *piece, size_t len, DtIds *ids);
/* The same in quadratic time: the plain reference. */
void dt_bpe_plain(const DtBpe *bpe, const uint8_t *piece, size_t len, DtIds *ids);

#endif
