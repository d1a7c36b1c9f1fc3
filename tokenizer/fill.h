/* SPDX-License-Identifier: Apache-2.0 */
/* Turns documents into items: texts between added tokens, these tokens, and the documents' ends. */
#ifndef DT_TOKENIZER_FILL_H
#define DT_TOKENIZER_FILL_H

#include "tokenizer/internal.h"

typedef enum DtFillKind { DT_FILL_TEXT, DT_FILL_TOKEN, DT_FILL_END } DtFillKind;

typedef struct DtFillItem {
    DtFillKind kind;
    uint32_t token, document;
    size_t first, end; /* of the text */
    uint64_t from;     /* about where in the document it begins, for messages */
    bool closed;       /* the text ends there; else more of it follows */
} DtFillItem;

/* Which tokens of the post-processor stand around a document. */
typedef enum DtFillAround {
    DT_FILL_BOTH,  /* around one that is not empty */
    DT_FILL_FRONT, /* in front of a prompt, also of an empty one */
    DT_FILL_BARE
} DtFillAround;

typedef struct DtFill {
    const DtTokenizer *tokenizer;
    const DtTextSource *source;
    DtFillAround around;
    /* bytes of the document that are no items yet */
    uint8_t *raw;
    size_t n_raw, cap_raw;
    uint64_t raw_at; /* where in the document they begin */
    DtNormRun *norm; /* NULL: texts stay as they are */
    DtNormText made; /* what it has made of a text, while added tokens are looked for in it */
    bool limited;    /* normalisation reached its limits */
    bool fresh;      /* nothing of the text has become an item */
    bool joined;     /* text follows the last one without a token between them */
    bool in_text;    /* the last item that is no end is a text */
    /* the normalised text of all items */
    uint8_t *text;
    size_t n_text, cap_text;
    DtFillItem *items;
    size_t n_items, cap_items;
    bool open; /* the last item is a text that is not closed */
    uint32_t document;
    bool inside; /* a part of that document has been read */
    uint64_t at, size;
    uint64_t n_read; /* bytes of all documents */
} DtFill;

void dt_fill_begin(DtFill *fill, const DtTokenizer *tokenizer, const DtTextSource *source,
                   DtFillAround around);
void dt_fill_end(DtFill *fill);
enum { DT_FILL_BLOCK = 1 << 20 };
/* The bytes that are read at a time. */
static inline size_t dt_fill_block(const DtTextSource *source)
{
    return source->block ? source->block : DT_FILL_BLOCK;
}
/* Reads documents until there are `wanted` bytes of text, and at least one block. */
DtStatus dt_fill_more(DtFill *fill, size_t wanted);
/* Forgets all items, but for the text of an open one from `at` on. */
void dt_fill_keep(DtFill *fill, size_t at);
/* Whether all documents were read. */
bool dt_fill_done(const DtFill *fill);

#endif
