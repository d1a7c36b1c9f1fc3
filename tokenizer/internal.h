/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer in memory, for the files of this folder. */
#ifndef DT_TOKENIZER_INTERNAL_H
#define DT_TOKENIZER_INTERNAL_H

#include "tokenizer/added.h"
#include "tokenizer/decode.h"
#include "tokenizer/model.h"
#include "tokenizer/norm.h"
#include "tokenizer/split.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <string.h>

enum {
    DT_MAX_SPLITS = 8,
    DT_MAX_AROUND = 64,     /* tokens in front of a document, or after it */
    DT_MAX_TOKENS = 1 << 22 /* ids are below it */
};

struct DtTokenizer {
    DtArena *memory;
    const char *name;      /* of the file */
    DtTokenBytes *written; /* each token as the file writes it; at NULL: no token */
    DtTokenBytes *pieces;  /* the text that becomes it: over bytes these, else as it is written */
    DtTokenBytes *tokens;  /* what each stands for in texts, after other tokens */
    uint32_t n_ids;
    DtVocab vocab; /* of `written`, while the file is read only the model's */
    bool over_bytes;
    DtAdded verbatim, normalized; /* found before, and after normalisation */
    DtNorms norms;
    DtTokenBytes front; /* in front of a text between added tokens; at NULL: none */
    bool front_first;   /* only of one that begins the document */
    DtSplit splits[DT_MAX_SPLITS];
    uint32_t n_splits;
    DtModel model;
    DtDecoders decoders;
    uint32_t before[DT_MAX_AROUND], back[DT_MAX_AROUND];
    uint32_t n_before, n_back;
};

/* Whether a text begins as one with the tokenizer's text in front of it: with a space or what
 * stands for it. */
static inline bool dt_tokenizer_fronted(const DtTokenizer *t, const uint8_t *text, size_t len)
{
    const DtTokenBytes *space = &t->model.space;
    return (len > 0 && text[0] == ' ') ||
           (space->at && len >= space->len && memcmp(text, space->at, space->len) == 0);
}

/* ---- reading the file ---- */

/* Each part of the file is read by a file of its own: `model`; `normalizer`; `pre_tokenizer`;
 * `post_processor` and `decoder`. */
DtStatus dt_jsonmodel_read(DtTokenizer *t, const json_t *model);
DtStatus dt_jsonnorm_read(DtTokenizer *t, const json_t *file);
DtStatus dt_jsonsplit_read(DtTokenizer *t, const json_t *file);
DtStatus dt_jsonsteps_read(DtTokenizer *t, const json_t *file);

/* A step of the file is a row of a table, which reads it. */
typedef struct DtJsonStep {
    const char *type;
    DtStatus (*read)(DtTokenizer *t, const json_t *step);
} DtJsonStep;
/* Reads the part of the file that is called `kind`: a step, or each of a Sequence, whose members
 * are called `list`. A step that has no row is refused by its name. */
DtStatus dt_json_steps(DtTokenizer *t, const json_t *file, const char *kind, const char *list,
                       const DtJsonStep *table, size_t n);
/* A text of the file, kept; at NULL: it has none. */
DtTokenBytes dt_json_text(DtTokenizer *t, const json_t *object, const char *name);
/* Reads `pattern` of a step: {"String": ..} or {"Regex": ..}. *ret_text: what the former says. */
DtStatus dt_json_pattern(DtTokenizer *t, const json_t *step, DtPattern *ret_pattern,
                         DtTokenBytes *ret_text);

/* decode.c: finds what each token stands for. */
void dt_decode_all(DtTokenizer *t);

/* The type of a step, or "?". */
const char *dt_json_type(const json_t *step);
/* Fails with the name of the file in front of the message. */
DtStatus dt_json_fail(const DtTokenizer *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
