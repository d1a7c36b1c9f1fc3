/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to text. Steps change each token as the file writes it, which may depend on whether it is
 * the first one:
 *
 *   wordpiece   ##ing -> ing, others get a space in front
 *   metaspace   _the -> " the", "the" if it is the first
 *   replace     a text becomes another one
 *   strip       a text goes at either end, so many times
 *   suffix      the</w> -> the, and the next token gets a space in front
 *
 * Then they are joined: tokens of bytes (over_bytes) or some that stand for one byte (falls_back)
 * become bytes, and `strip` may follow. With no step at all there is a space between tokens. */
#ifndef DT_TOKENIZER_DECODE_H
#define DT_TOKENIZER_DECODE_H

#include "tokenizer/norm.h"

enum { DT_MAX_DECODERS = 16, DT_MAX_STRIP = 64 };

typedef enum DtDecodeKind {
    DT_DECODE_WORDPIECE,
    DT_DECODE_METASPACE,
    DT_DECODE_REPLACE,
    DT_DECODE_STRIP,
    DT_DECODE_SUFFIX
} DtDecodeKind;

typedef struct DtDecoder {
    DtDecodeKind kind;
    DtTokenBytes text;    /* the prefix, the mark, what is stripped, the suffix */
    bool drops_first;     /* metaspace: the marks of the first token are no spaces */
    DtNorms *norms;       /* of replace, and how wordpiece cleans up */
    uint32_t start, stop; /* strip: how often at most */
} DtDecoder;

typedef struct DtDecoders {
    DtDecoder at[DT_MAX_DECODERS];
    uint32_t n;
    bool joins, over_bytes, falls_back, fused;
    bool strips; /* what was joined */
    DtDecoder strip;
} DtDecoders;

#endif
