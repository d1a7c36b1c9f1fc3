/* SPDX-License-Identifier: Apache-2.0 */
/* What turns a piece of text into tokens. Each kind of model is a row of a table (json_model.c):
 *
 *   bpe.c         byte-pair encoding, over bytes or over code points
 *   unigram.c     the most probable tokens
 *   wordpiece.c   the longest token, again and again; and whole words alone
 *
 * A table of pieces and their tokens stands in front of all of them. */
#ifndef DT_TOKENIZER_MODEL_H
#define DT_TOKENIZER_MODEL_H

#include "tokenizer/bpe.h"

typedef struct DtModel DtModel;
typedef struct DtModelWork DtModelWork;

typedef struct DtModelForm {
    /* Appends the tokens of a piece that is not empty. */
    void (*encode)(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                   DtIds *ids);
    /* The same, slowly and without tables: the plain reference. */
    void (*plain)(const DtModel *model, const uint8_t *piece, size_t len, DtIds *ids);
} DtModelForm;

struct DtModel {
    DtModelForm form;
    DtTokenBytes space; /* what a space of a piece is to the model; at NULL: a space */
    const DtVocab *vocab;
    uint32_t unknown; /* the token of text that has none */
    DtBpe bpe;
    /* unigram */
    DtTrie trie;
    const double *scores;  /* of each token */
    double unknown_score;  /* of a code point */
    uint32_t of_byte[256]; /* bytes of text without a token, or DT_NO_TOKEN */
    DtTokenBytes prefix;   /* WordPiece, BPE: of tokens that begin inside of a word */
    DtTokenBytes suffix;   /* BPE: of tokens that end a word */
    /* WordPiece */
    uint32_t inside;      /* the node of the trie after it; 0: no token has it */
    bool no_prefix;       /* it is empty */
    uint32_t most_points; /* longer words are unknown */
};

/* The rows of the kinds. */
extern const DtModelForm dt_model_bpe, dt_model_unigram, dt_model_wordpiece, dt_model_wordlevel;

/* What the unigram model knows of the best path to a byte of a piece. */
typedef struct DtModelPath {
    double score;
    size_t first; /* where its last token begins; SIZE_MAX: there is no path */
    uint32_t token;
} DtModelPath;

struct DtModelWork {
    struct DtModelKept *kept; /* pieces that were met, and their tokens */
    uint8_t *text;            /* a piece with other spaces */
    size_t cap_text;
    DtBpeWork *bpe;
    DtModelPath *paths;
    size_t cap_paths;
};

DtModelWork *dt_model_begin(void);
void dt_model_end(DtModelWork *work);
/* Appends the tokens of a piece. */
void dt_model_encode(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                     DtIds *ids);
void dt_model_plain(const DtModel *model, const uint8_t *piece, size_t len, DtIds *ids);

#endif
