/* SPDX-License-Identifier: Apache-2.0 */
/* The map of a SentencePiece model, `precompiled_charsmap`: its number of bytes, a double array
 * (Aoe, 1989, in the form of Darts) over the bytes of texts, and the texts that they become, each
 * of which a byte 0 ends.
 *
 * As in `tokenizers`, a grapheme of less than 6 bytes becomes, as a whole, what the shortest text
 * becomes that it begins with; else each of its code points is looked up so. */
#ifndef DT_TOKENIZER_PRECOMPILED_H
#define DT_TOKENIZER_PRECOMPILED_H

#include "tokenizer/grapheme.h"
#include "tokenizer/ids.h"

#include <stdbool.h>

enum { DT_PRECOMPILED_LONGEST = 1024 }; /* bytes that a text becomes */

typedef struct DtPrecompiled {
    uint32_t *units;
    uint32_t n_units;
    const uint8_t *texts;
    size_t n_texts;
    DtGraphemes *graphemes;
    DtTokenBytes ascii[128]; /* what each becomes; at NULL: itself */
} DtPrecompiled;

/* Reads a map that is written in base64. Returns why it cannot be read, or NULL. */
const char *dt_precompiled_read(DtArena *memory, const char *base64, DtPrecompiled *ret_map);
/* What the shortest text becomes that these bytes begin with; at NULL: none does. */
DtTokenBytes dt_precompiled_find(const DtPrecompiled *map, const uint8_t *text, size_t len);

#endif
