/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens by their text: a hash table, and a trie for the tokens that a text begins with. */
#ifndef DT_TOKENIZER_VOCAB_H
#define DT_TOKENIZER_VOCAB_H

#include "base/arena.h"
#include "tokenizer/ids.h"

#include <stdbool.h>

typedef struct DtVocab {
    const DtTokenBytes *tokens; /* of each id; at NULL: there is no such token */
    uint32_t *slots, bits;      /* ids; DT_NO_TOKEN: free */
    uint32_t longest;           /* bytes of a token */
} DtVocab;

/* Of two tokens of one text the later one is found. */
void dt_vocab_begin(DtArena *memory, const DtTokenBytes *tokens, uint32_t n, DtVocab *ret_vocab);
/* The id of the token of that text, or DT_NO_TOKEN. */
uint32_t dt_vocab_find(const DtVocab *vocab, const void *text, size_t len);

/* Nodes are numbered breadth first, so the children of one are neighbours, in order of their bytes.
 * Node 0 is the root. */
typedef struct DtTrie {
    uint32_t n;
    uint32_t
        *first; /* of each node: its first child; the children end where the next node's begin */
    uint8_t *labels; /* the byte that leads to each node */
    uint32_t *token; /* the token that ends there, or DT_NO_TOKEN */
} DtTrie;

enum { DT_TRIE_BYTES = 32 << 20 }; /* of all tokens together */
/* False: the tokens have more bytes than that. */
bool dt_trie_make(DtArena *memory, const DtVocab *vocab, uint32_t n_tokens, DtTrie *ret_trie);
/* The child for the byte; 0: there is none. */
uint32_t dt_trie_step(const DtTrie *trie, uint32_t node, uint8_t byte);

#endif
