/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation: a list of steps, each of which turns text into other text:
 *
 *   map          each code point becomes some code points, or none (charmap.c)
 *   form         NFC, NFD, NFKC, NFKD (forms.c)
 *   replace      each match of a text or a pattern becomes another text
 *   strip        white space at either end goes
 *   prepend      text that is not empty gets other text in front
 *   precompiled  the map of a SentencePiece model (precompiled.c)
 *
 * Every kind that tokenizer.json knows is one or some of them (json_norm.c). Text comes in parts: a
 * step handles as much of it as no further part can change, and keeps the rest. */
#ifndef DT_TOKENIZER_NORM_H
#define DT_TOKENIZER_NORM_H

#include "tokenizer/charmap.h"
#include "tokenizer/forms.h"
#include "tokenizer/ids.h"
#include "tokenizer/precompiled.h"
#include "tokenizer/split.h"

enum { DT_MAX_NORMS = 32, DT_NORM_MOST = 128 << 20 };

/* Growing text. Beyond DT_NORM_MOST bytes nothing is added, and `full` says so. */
typedef struct DtNormText {
    uint8_t *at;
    size_t n, cap;
    bool full;
} DtNormText;
void dt_normtext_add(DtNormText *text, const uint8_t *bytes, size_t n);
/* Room for n more bytes, or NULL. */
uint8_t *dt_normtext_room(DtNormText *text, size_t n);

typedef enum DtNormKind {
    DT_NORM_MAP,
    DT_NORM_FORM,
    DT_NORM_REPLACE_TEXT,
    DT_NORM_REPLACE,
    DT_NORM_STRIP,
    DT_NORM_PREPEND,
    DT_NORM_PRECOMPILED
} DtNormKind;

typedef struct DtNorm {
    DtNormKind kind;
    DtForm form;
    DtCharmap *map;
    DtTokenBytes from, to; /* replace, prepend */
    DtSplit split;         /* replace: its pattern */
    bool left, right;      /* strip: where */
    const DtCharset *spaces;
    DtPrecompiled *precompiled;
} DtNorm;

typedef struct DtNorms {
    DtNorm at[DT_MAX_NORMS];
    uint32_t n;
    bool removes; /* a step may take away the beginning of a text */
} DtNorms;

/* One text in work. */
typedef struct DtNormRun {
    const DtNorms *norms;
    bool plain; /* without short cuts: the reference */
    struct {
        DtNormText held; /* what the step has not decided yet */
        bool begun;      /* something has left or, for strip, reached it */
        DtRegexRun *regex;
        DtNumbers numbers;
    } steps[DT_MAX_NORMS];
    DtNormText rooms[2];
    bool limited; /* a pattern reached its limits */
} DtNormRun;

DtNormRun *dt_norm_begin(const DtNorms *norms);
void dt_norm_end(DtNormRun *run);
/* Takes the next part of a text, whole code points, and appends what has become of it. ends: the
 * text does; the next part is one of another text. False: the steps make too much of it, or a
 * pattern reached its limits. */
bool dt_norm_push(DtNormRun *run, const uint8_t *text, size_t len, bool ends, DtNormText *to);
/* The next part is not the beginning of a text: nothing is put in front of it or stripped there. */
void dt_norm_go_on(DtNormRun *run);
/* The bytes that the steps hold. */
size_t dt_norm_held(const DtNormRun *run);

#endif
