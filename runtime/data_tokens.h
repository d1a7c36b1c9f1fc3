/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a tokenizer turns into ids (data_tokens.c, data_tokens_make.c). The ids of all files of
 * a source are made once, into one file of the cache:
 *
 *   ids      u16, or u32 if there are more than 65,536
 *   counts   of conversations only: DT_TOKENS_COUNTS of u64 (data_chat.h)
 *   starts   u64 for each file: the number of its first id
 *   trailer  DtTokensTrailer
 *
 * Its name is a digest of the tokenizer, the end token and the files' contents. Where a text ends
 * and another begins is not visible in the stream, but for the tokens that the tokenizer puts
 * there. */
#ifndef DT_RUNTIME_DATA_TOKENS_H
#define DT_RUNTIME_DATA_TOKENS_H

#include "runtime/data.h"

#include "base/digest.h"

typedef struct DtTokensTrailer {
    char magic[8];
    uint8_t key[DT_DIGEST_BYTES];
    uint64_t n_ids, n_files;
    uint32_t width, largest; /* bytes of an id; 1 + the largest id of the tokenizer */
} DtTokensTrailer;
_Static_assert(sizeof(DtTokensTrailer) == 64, "a file has the same bytes everywhere");
#define DT_TOKENS_MAGIC "dtctok01"

/* What is turned into ids. */
struct DtChatForm;
typedef struct DtTokensSource {
    const DtTokens *texts; /* the files, as bytes */
    const char *tokenizer; /* tokenizer.json */
    const char *end;       /* a token that follows each file, or NULL */
    const struct DtChatForm *chat; /* of conversations (data_chat.h); NULL: it is plain text */
    uint64_t counts[DT_TOKENS_COUNTS]; /* of conversations, once they are open */
    uint8_t key[DT_DIGEST_BYTES];
} DtTokensSource;

/* Finds the ids of the texts in the cache, or makes them, and maps them: fills ret_tokens as
 * dt_datatext_open does, and its `documents`. texts stays open as long. */
DtStatus dt_datatokens_open(DtArena *memory, DtTokensSource *source, double from, double to,
                            DtTokens *ret_tokens);

/* data_tokens_make.c: writes the file of ids at `path`. */
DtStatus dt_datatokensmake_write(const DtTokensSource *source, const char *path);
/* How many threads encode: one for each processor that this process may use. */
uint32_t dt_datatokensmake_threads(void);

#endif
