/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer in memory, for the files of this folder. */
#ifndef DT_TOKENIZER_INTERNAL_H
#define DT_TOKENIZER_INTERNAL_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pattern.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>

enum {
    DT_MAX_SPLITS = 8,
    DT_MAX_AROUND = 64,     /* tokens in front of a document, or after it */
    DT_MAX_TOKENS = 1 << 22 /* ids are below it */
};

/* A step that cuts pieces into matches of a pattern and what is between them. */
typedef struct DtSplit {
    DtPattern pattern;
    DtAlphabet alphabet;
    DtRegex *regex;  /* over the alphabet */
    bool drops_rest; /* what is between matches is no piece */
} DtSplit;

#define DT_NO_TOKEN UINT32_MAX

struct DtTokenizer {
    DtArena *memory;
    const char *name;     /* of the file */
    DtTokenBytes *tokens; /* what each id stands for in texts; at NULL: no token */
    const char **written; /* each token as the file writes it */
    uint32_t n_ids;
    DtAdded verbatim, normalized; /* found before, and after normalisation */
    bool nfc, space_in_front;
    DtSplit splits[DT_MAX_SPLITS];
    uint32_t n_splits;
    DtBpe bpe;
    uint32_t front[DT_MAX_AROUND], back[DT_MAX_AROUND];
    uint32_t n_front, n_back;
};

/* ---- reading the file ---- */

/* json_model.c: `model`, with its vocabulary and merges. */
DtStatus dt_jsonmodel_read(DtTokenizer *t, const json_t *model);
/* The id of a token as the file writes it, or DT_NO_TOKEN. */
uint32_t dt_jsonmodel_find(const json_t *model, const char *written);
/* Whether the model looks pieces up before it merges them. */
bool dt_jsonmodel_looks_up(const json_t *model);

/* json_steps.c: `normalizer`, `pre_tokenizer`, `post_processor`, `decoder`. */
DtStatus dt_jsonsteps_read(DtTokenizer *t, const json_t *file);

/* The type of a step, or "?". */
const char *dt_json_type(const json_t *step);
/* Fails with the name of the file in front of the message. */
DtStatus dt_json_fail(const DtTokenizer *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- parts of encoding ---- */

/* nfc.c: whether text of valid UTF-8 is certainly in NFC. */
bool dt_nfc_is(const uint8_t *text, size_t len);
/* Writes the text in NFC; it needs at most DT_NFC_GROWTH times the room. */
enum { DT_NFC_GROWTH = 3 };
size_t dt_nfc_write(const uint8_t *text, size_t len, uint8_t *ret_text);
/* The same without a look at what is in that form already: the plain reference. */
size_t dt_nfc_plain(const uint8_t *text, size_t len, uint8_t *ret_text);
/* The last place, at most len and at least 1 if there is any, at which valid text may be cut
 * without changing its NFC; 0: there is none. */
size_t dt_nfc_cut(const uint8_t *text, size_t len);

#endif
