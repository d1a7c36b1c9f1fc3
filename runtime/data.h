/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the readers.
 *
 *   data.c         reader of a plan -> rows of a batch    data_paths.c  which files
 *   data_text.c    a stream of tokens over many files     data_bin.c    files of tokens
 *   data_known.c   files that hold no plain tokens
 *   permutation.c  order of the windows                   synthetic.c  numbers in place of files */
#ifndef DT_RUNTIME_DATA_H
#define DT_RUNTIME_DATA_H

#include "runtime/runtime.h"

/* ---- which files (data_paths.c) ---- */

/* What a reader reads after --data: a pattern of files, or random numbers. */
typedef struct DtDataPlace {
    const char *pattern; /* for glob(3), counted from the working folder or absolute */
    const char *literal; /* the same as a plain name: folders are not quoted */
    bool synthetic;
} DtDataPlace;

/* Where reader number reader finds its files. Fails for a redirect that no reader of the plan asks
 * for. */
DtStatus dt_datapaths_place(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                            uint32_t reader, DtDataPlace *ret_place);

typedef struct DtDataFiles {
    const char **at;
    uint32_t n;
} DtDataFiles;

/* Regular files that the place names, at least one, in byte order of their names; of several names
 * of one file (links) the first counts. A pattern that is itself the name of a file stands for that
 * file. */
DtStatus dt_datapaths_list(DtArena *memory, const DtDataPlace *place, DtDataFiles *ret_files);

/* ---- streams of tokens (data_text.c, data_bin.c) ---- */

/* How tokens lie in files: bytes of text, or integers of 1, 2 or 4 bytes. */
typedef struct DtTokenFormat {
    bool text;
    int width;
    bool is_signed; /* 4 bytes */
} DtTokenFormat;

/* The tokens of one file. */
typedef struct DtTokenFile {
    DtFileView view;
    const char *path;
    int64_t start; /* number of its first token in the whole stream */
    int64_t n;
    size_t skip; /* bytes before the first token */
} DtTokenFile;

/* The part from..to of the tokens of all files, one after the other. */
typedef struct DtTokens {
    DtTokenFile *files;
    uint32_t n_files;
    int64_t first, n; /* the part, in tokens of the whole stream */
    int64_t total;
    DtTokenFormat format;
} DtTokens;

/* Maps all files. from < to are parts of the whole, 0..1. */
DtStatus dt_datatext_open(DtArena *memory, const DtDataFiles *files, const DtTokenFormat *format, double from,
                          double to, DtTokens *ret_tokens);
void dt_datatext_close(DtTokens *tokens);
/* The file of token `at` of the part, which token of it that is (from 0), and where it begins. */
const DtTokenFile *dt_datatext_find(const DtTokens *tokens, int64_t at, int64_t *ret_number, int64_t *ret_byte);
/* Tokens at .. at + n - 1 of the part, 0 <= at, at + n <= tokens->n. Fails if one is not below
 * 2^31. */
DtStatus dt_datatext_read(const DtTokens *tokens, int64_t at, int64_t n, int32_t *ret_ids);

/* Finds the tokens in a mapped file: all of it, or what follows llm.c's header. Fills skip and n. Fails for files that
 * begin as those of other formats do; bytes that are no text (width 1) may be any. */
DtStatus dt_databin_layout(const DtTokenFormat *format, DtTokenFile *file);

/* Refuses a file that begins as those of another format do, and says what to use (data_known.c). text: it was to be
 * read as text. */
DtStatus dt_dataknown_refuse(bool text, const DtTokenFile *file);

/* ---- order (permutation.c) ---- */

/* One epoch of one stream: n numbers in a keyed order. */
typedef struct DtPermutation {
    uint64_t key, epoch, n;
} DtPermutation;

/* A bijection of 0 .. n - 1, computed without a table; index < n. */
uint64_t dt_permutation_at(const DtPermutation *permutation, uint64_t index);
/* A keyed number below bound (at least 1), drawn once per epoch. */
uint64_t dt_permutation_offset(const DtPermutation *permutation, uint64_t bound);

/* ---- random data (synthetic.c) ---- */

/* Range of an input: integers lo .. hi - 1, floats lo .. hi; bool ignores it. */
typedef struct DtSynthetic {
    uint64_t key;
    double lo, hi;
} DtSynthetic;

/* Elements first .. first + n - 1 of sample `sample`. false: no numbers of that dtype are made. */
bool dt_synthetic_fill(const DtSynthetic *synthetic, uint32_t dtype, int64_t sample, int64_t first,
                       int64_t n, void *ret_values);

#endif
