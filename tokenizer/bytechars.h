/* SPDX-License-Identifier: Apache-2.0 */
/* How tokens over bytes are written: each byte as one printable character, itself if it is one in
 * Latin-1, else the next free one from U+0100 on (GPT-2's encoder.py). */
#ifndef DT_TOKENIZER_BYTECHARS_H
#define DT_TOKENIZER_BYTECHARS_H

#include "base/arena.h"
#include "tokenizer/ids.h"

#include <stdbool.h>

/* The bytes that the characters of a token stand for; false: one of them stands for none. */
bool dt_bytechars_read(DtArena *memory, const char *written, DtTokenBytes *ret_bytes);
/* The character of a byte. */
uint32_t dt_bytechars_of(uint8_t byte);

#endif
