/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that stand for exactly one text wherever it occurs, such as <|endoftext|>. */
#ifndef DT_TOKENIZER_ADDED_H
#define DT_TOKENIZER_ADDED_H

#include "base/arena.h"
#include "tokenizer/charset.h"
#include "tokenizer/ids.h"

typedef struct DtAddedToken {
    DtTokenBytes text;
    uint32_t id;
    bool lstrip, rstrip; /* it takes the white space before it, after it */
    bool special;        /* no text: the file says so */
} DtAddedToken;

/* A node of a trie: the byte that leads to it. */
typedef struct DtAddedNode {
    uint8_t byte;
    uint32_t child, sibling; /* 0: none */
    uint32_t token;          /* 1 + index of the token that ends here; 0: none does */
} DtAddedNode;

typedef struct DtAdded {
    DT_VEC(DtAddedToken) tokens;
    DT_VEC(DtAddedNode) nodes;
    uint32_t roots[256]; /* the node of each first byte; 0: none */
    size_t longest;      /* bytes */
    bool lstrips;        /* any does */
    DtCharset spaces;
} DtAdded;

void dt_added_begin(DtArena *memory, DtAdded *added);
/* False: there is a token of that text. */
bool dt_added_add(DtArena *memory, DtAdded *added, const DtAddedToken *token);

/* Where a token was found. */
typedef struct DtAddedMatch {
    const DtAddedToken *token;
    size_t first, end;
} DtAddedMatch;
/* Finds the first of them that begins in [from, to) and the longest that begins there; it may end
 * anywhere up to len. */
bool dt_added_find(const DtAdded *added, const uint8_t *text, size_t len, size_t from, size_t to,
                   DtAddedMatch *ret_match);
/* The beginning of the white space that ends at `end`, not before `least`. */
size_t dt_added_space_before(const DtAdded *added, const uint8_t *text, size_t least, size_t end);
/* The end of the white space that begins at `first`. */
size_t dt_added_space_after(const DtAdded *added, const uint8_t *text, size_t first, size_t len);

#endif
