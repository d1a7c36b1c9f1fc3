/* SPDX-License-Identifier: Apache-2.0 */
/* Token ids, and the bytes that tokens stand for. */
#ifndef DT_TOKENIZER_IDS_H
#define DT_TOKENIZER_IDS_H

#include <stddef.h>
#include <stdint.h>

#define DT_NO_TOKEN UINT32_MAX

/* Bytes that a token stands for. */
typedef struct DtTokenBytes {
    const uint8_t *at;
    uint32_t len;
} DtTokenBytes;

/* A growing list of token ids. */
typedef struct DtIds {
    uint32_t *at;
    size_t n, cap;
} DtIds;
/* Makes room for n more ids. */
void dt_ids_room(DtIds *ids, size_t n);
static inline void dt_ids_add(DtIds *ids, uint32_t id)
{
    if (ids->n == ids->cap)
        dt_ids_room(ids, 1);
    ids->at[ids->n++] = id;
}

#endif
