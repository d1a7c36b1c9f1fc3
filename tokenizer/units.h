/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a text that threads encode at the same time.
 *
 * Where a piece begins follows from the text after it alone: a pattern looks ahead, never back
 * (pattern.c refuses what does). So a unit may begin anywhere. Its first pieces may be wrong, but
 * as soon as one of them begins where the piece of the unit before it ends, all that follow are
 * those of the whole text. Each unit notes where its first pieces began, and encode.c joins. */
#ifndef DT_TOKENIZER_UNITS_H
#define DT_TOKENIZER_UNITS_H

#include "tokenizer/tokenizer.h"

enum { DT_UNIT_MARKS = 1024 };

/* A piece begins at byte `at`, before which the unit has made `ids` tokens. */
typedef struct DtUnitMark {
    size_t at, ids;
} DtUnitMark;

typedef struct DtUnit {
    size_t first, limit; /* its pieces begin in [first, limit) */
    size_t visible;      /* the text is known up to here */
    bool closed;         /* it ends there */
    size_t item;         /* whose text it is, for encode.c */
    /* results */
    DtIds ids;
    DtUnitMark *marks; /* the first of its pieces, at most DT_UNIT_MARKS */
    uint32_t n_marks;
    size_t reached; /* where its last piece ends */
    bool undecided; /* that is before the limit, since what follows `visible` decides */
    bool limited;   /* a pattern reached its limits there */
} DtUnit;

/* The threads, with what each keeps between units. */
typedef struct DtCrew DtCrew;
DtCrew *dt_units_crew(const DtTokenizer *tokenizer, uint32_t threads);
void dt_units_dismiss(DtCrew *crew);
/* Fills the results of n units of the text. */
void dt_units_run(DtCrew *crew, const uint8_t *text, DtUnit *units, size_t n);

#endif
