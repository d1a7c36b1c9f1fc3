/* SPDX-License-Identifier: Apache-2.0 */
/* Text to token ids and back, as the file tokenizer.json of a published model says.
 *
 *   tokenizer_json.c, json_*.c   the file -> DtTokenizer
 *   added.c      added and special tokens, which are cut out of a text first
 *   norm.c       normalisation: steps, each of which is one of a few kinds
 *   pattern.c, pattern_write.c, regex.c, split.c   what is left -> pieces
 *   model.c      a piece -> tokens: bpe.c, unigram.c, wordpiece.c
 *   encode.c, fill.c, units.c   documents -> tokens, on several threads, in bounded memory
 *   decode.c     tokens -> text
 *   plain.c      encoding, plainly, for tests
 *
 * The file lists normalisers, steps that split, a model, steps that add tokens, and decoders. Each
 * kind is a row of a table (json_*.c); a kind or a setting that has none is refused by name. */
#ifndef DT_TOKENIZER_TOKENIZER_H
#define DT_TOKENIZER_TOKENIZER_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "tokenizer/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DtTokenizer DtTokenizer;

/* Reads tokenizer.json in the folder, or the file itself. end: a token that follows each document,
 * or NULL. Nothing in the file is trusted; the message of a failure, which leaves *ret_tokenizer
 * NULL, names what it has. */
DtStatus dt_tokenizer_open(const char *path, const char *end, DtTokenizer **ret_tokenizer);
/* Whether that file is JSON at all, whatever it says; fails with what is wrong in it. */
DtStatus dt_tokenizer_look(const char *path);
/* The same as dt_tokenizer_open from text in memory. name: for messages. */
DtStatus dt_tokenizer_read(const char *text, size_t len, const char *name, const char *end,
                           DtTokenizer **ret_tokenizer);
void dt_tokenizer_close(DtTokenizer *tokenizer);
/* The path of the file that dt_tokenizer_open reads. */
const char *dt_tokenizer_path(DtArena *memory, const char *path);
enum { DT_TOKENIZER_MOST = 128 << 20 }; /* bytes of that file that can be read */

/* 1 + the largest id. */
uint32_t dt_tokenizer_ids(const DtTokenizer *tokenizer);
/* Whether the file calls the added token special, as those that stand for no text. */
bool dt_tokenizer_is_special(const DtTokenizer *tokenizer, uint32_t id);
/* The bytes that a token stands for after other tokens; at NULL: there is no such token. */
DtTokenBytes dt_tokenizer_bytes(const DtTokenizer *tokenizer, uint32_t id);

/* Text of tokens, one after the other: what one of them stands for may depend on whether it is the
 * first, and the end of the text may be known only with the last. */
typedef struct DtDecoding DtDecoding;
DtDecoding *dt_decode_begin(const DtTokenizer *tokenizer);
void dt_decode_free(DtDecoding *decoding);
/* Adds what a token adds to the text; false: there is no such token. Bytes of a character that has
 * several tokens come one by one. */
bool dt_decode_add(DtDecoding *decoding, uint32_t id, DtText *to);
/* Adds what is left. */
void dt_decode_end(DtDecoding *decoding, DtText *to);

/* The tokens that the post-processor puts in front of a document, and those after it, which the end
 * token is one of. */
const uint32_t *dt_tokenizer_front(const DtTokenizer *tokenizer, uint32_t *ret_n);
const uint32_t *dt_tokenizer_back(const DtTokenizer *tokenizer, uint32_t *ret_n);

/* ---- documents ---- */

/* What stands in front of a document, if it is the next part of a longer text. Each part is encoded
 * by itself; but what the tokenizer puts in front of a text (a space, or what stands for it) is
 * there only where the whole text would have it. */
typedef enum DtTextPlace {
    DT_TEXT_BEGINS,     /* nothing: a text begins */
    DT_TEXT_GOES_ON,    /* the document before it */
    DT_TEXT_AFTER_TOKEN /* a token, which the caller puts between the two */
} DtTextPlace;

/* n documents, which are read from their beginnings to their ends, one after the other. An empty
 * one has no tokens. */
typedef struct DtTextSource {
    void *context;
    uint32_t n;
    uint64_t (*bytes)(void *context, uint32_t document);
    DtStatus (*read)(void *context, uint32_t document, uint64_t at, size_t n, uint8_t *ret_bytes);
    const char *(*name)(void *context, uint32_t document);
    DtTextPlace (*place)(void *context, uint32_t document); /* NULL: each one begins a text */
    size_t block; /* bytes that are read at a time; 0: 1 MiB. Tests make blocks, and what is encoded
                   * at a time, small. */
} DtTextSource;

/* Takes the tokens of all documents in order. A failure ends the encoding. */
typedef struct DtTokenSink {
    void *context;
    DtStatus (*take)(void *context, const uint32_t *ids, size_t n);
    DtStatus (*end)(void *context, uint32_t document); /* it has no more tokens */
    /* so many bytes of all documents were read; NULL: nobody wants to know */
    DtStatus (*progress)(void *context, uint64_t bytes);
} DtTokenSink;

/* A document in memory; name: for messages. */
typedef struct DtMemoryText {
    const uint8_t *at;
    size_t len;
    const char *name;
} DtMemoryText;
/* dt_encode_memory: n such documents, which stay where they are, as a source. dt_encode_ids: a sink
 * that appends all tokens to ids. */
DtTextSource dt_encode_memory(DtMemoryText *texts, uint32_t n);
DtTokenSink dt_encode_ids(DtIds *ids);

/* Encodes documents, each between the tokens that the post-processor puts around it, on that many
 * threads. Fails, with the document and the place, for text that is not UTF-8, where a pattern
 * reaches its limits, and for pieces of more than 64 MiB. */
DtStatus dt_encode_documents(const DtTokenizer *tokenizer, const DtTextSource *source,
                             uint32_t threads, const DtTokenSink *sink);
/* The same without the tokens of the post-processor. */
DtStatus dt_encode_bare(const DtTokenizer *tokenizer, const DtTextSource *source, uint32_t threads,
                        const DtTokenSink *sink);
/* Appends the tokens of a text that will be continued: those that the post-processor puts in front,
 * but not those after it. */
DtStatus dt_encode_prompt(const DtTokenizer *tokenizer, const char *text, DtIds *ret_ids);
/* Appends what dt_encode_documents makes of one document (plain.c): the plain reference. */
DtStatus dt_plain_encode(const DtTokenizer *tokenizer, const uint8_t *text, size_t len,
                         DtIds *ret_ids);

#endif
