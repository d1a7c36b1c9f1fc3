/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the readers.
 *
 *   data.c         reader of a plan -> rows of a batch
 *   data_paths.c   which files
 *   data_text.c    a stream of numbers over many files
 *   data_tokens.c  ids of text, which a tokenizer makes once
 *   data_numbers.c numbers of a file as i32 or f32
 *   data_csv.c     numbers of a file that are written as text
 *   data_chat*.c   conversations
 *   data_sampler.c samples that are made of a window of tokens (data_mask.c, data_spans.c)
 *   data_images*.c images (data_images.h)
 *   data_bin.c     where numbers begin in a file
 *   data_idx.c     files of MNIST's format
 *   data_megatron.c pairs of files of Megatron-LM
 *   data_npy.c     files of NumPy
 *   data_shape.c   the axes of such files against those of the input
 *   data_known.c   files that hold no plain numbers
 *   data_mix.c     sources that are mixed
 *   data_pair.c    sources that are read in one order
 *   data_look.c    what is checked before the run
 *   data_refuse.c  values that an input may not have
 *   data_facts.c   what a checkpoint says of the data
 *   data_same.c    that it is the same data
 *   permutation.c  order of the windows
 *   synthetic.c    numbers in place of files */
#ifndef DT_RUNTIME_DATA_H
#define DT_RUNTIME_DATA_H

#include "runtime/runtime.h"

#include "base/spans.h"

#include <sys/types.h>

/* ---- which files (data_paths.c) ---- */

/* The source of a reader, with --data taken into account: a pattern of files, or random numbers. */
typedef struct DtDataPlace {
    const char *pattern; /* a pattern for glob(3), absolute or relative to the working folder */
    const char *literal; /* the same pattern as a plain name, in which folders are not quoted */
    bool synthetic;
} DtDataPlace;

/* Finds the place where reader number `reader` finds its files. Fails if a redirect is not used by
 * any reader of the plan. */
DtStatus dt_datapaths_place(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                            uint32_t reader, DtDataPlace *ret_place);

/* The path of the tokenizer of the reader, or NULL, with --data taken into account. */
DtStatus dt_datapaths_tokenizer(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                                uint32_t reader, const char **ret_path);

typedef struct DtDataFiles {
    const char **at;
    uint32_t n;
} DtDataFiles;

/* Regular files that the place names, at least one, in byte order of their names; if a file has
 * several names (links), the first one is used. A pattern that is itself the name of a file means
 * that file. */
DtStatus dt_datapaths_list(DtArena *memory, const DtDataPlace *place, DtDataFiles *ret_files);

/* ---- numbers in files (data_numbers.c) ---- */

typedef enum DtNumberKind {
    DT_NUMBER_UNSIGNED,
    DT_NUMBER_SIGNED,
    DT_NUMBER_FLOAT, /* of IEEE 754 */
    DT_NUMBER_BFLOAT /* bf16 */
} DtNumberKind;

/* How a file writes its numbers. */
typedef struct DtNumber {
    DtNumberKind kind;
    int width; /* bytes: 1, 2, 4 or 8 */
    bool big_endian;
} DtNumber;

static inline bool dt_datanumbers_is_float(const DtNumber *number)
{
    return number->kind >= DT_NUMBER_FLOAT;
}

/* Little-endian numbers of that DtPlanDtype. */
DtNumber dt_datanumbers_of(uint32_t dtype);
/* Converts n numbers to i32, or to f32 if they are floats. Returns how many there are before the
 * first integer that is no i32, or the first finite float that is no finite f32; n: there is
 * none. */
int64_t dt_datanumbers_convert(const uint8_t *from, const DtNumber *number, int64_t n,
                               void *ret_numbers);
/* Writes the number in decimals. */
void dt_datanumbers_say(const uint8_t *at, const DtNumber *number, char ret_text[32]);

/* ---- streams of numbers (data_text.c, data_bin.c) ---- */

/* The format of numbers in files, and in the input: integers become i32, floats become f32. */
typedef struct DtTokenFormat {
    uint32_t dtype;    /* DtPlanDtype in the file: U8 U16 U32 I32 I64 F32 F16 BF16; of `npy`: I64
                        * for any integers, F64 for any floats */
    int width;         /* bytes of a number */
    bool npy;          /* each file has a header that says how its numbers are written */
    const char *columns; /* of tables: DtPlanReader.columns, .separator, .header; NULL: no table */
    char separator;
    bool header;
    bool wants_bools;  /* for an input of bool */
    bool text;         /* bytes of text */
    bool megatron;     /* each file has an index that says so */
    bool raw;          /* files may begin with bytes that another format would begin with */
    bool stream;       /* a sampler cuts samples out of the stream, so the shape of a file means
                        * nothing */
    const char *input; /* its name, for messages */
    uint32_t n_axes;   /* elements of a sample; its axes and their extents */
    int64_t extents[DT_PLAN_MAX_RANK];
} DtTokenFormat;

/* A table as text (data_csv.c): where its lines are, and which of their fields are read. */
typedef struct DtTable {
    uint32_t n_fields;        /* of each line */
    uint32_t n_columns, *columns; /* the fields that are read, in the order of the sample */
    uint64_t *marks, *lines;  /* of each 16th row: the byte where it begins, its line from 1 on */
    struct DtTableField *fields; /* of the line that is being read */
    int64_t row;              /* where the last read has ended: this row begins at `at` */
    uint64_t at, line;
} DtTable;

/* The numbers of one file. */
typedef struct DtTokenFile {
    DtFileView view;
    const char *path;
    int64_t start; /* the number, in the whole stream, of the file's first value */
    int64_t n;
    size_t skip; /* bytes before the first number */
    DtNumber number;
    DtTable *table; /* NULL: the numbers are no text */
    dev_t device;
    ino_t inode;  /* identity of the file, by which a changed file is recognised */
    bool touched; /* the file has become shorter since dt_datatext_cut was called */
} DtTokenFile;

/* The texts that one file of ids was made from, and the number of the first id of each. */
typedef struct DtDataDocuments {
    const char **paths;
    const uint64_t *starts;
    uint32_t n;
} DtDataDocuments;

/* The part from .. to of the numbers of all files, in the order of the files. */
typedef struct DtTokens {
    DtTokenFile *files;
    uint32_t n_files;
    int64_t first, n; /* the part, as numbers in the whole stream */
    int64_t total;
    DtTokenFormat format;
    const DtDataDocuments *documents; /* the texts that the numbers were made from; NULL: none */
} DtTokens;

/* Maps all files. from < to are parts of the whole, 0..1. */
DtStatus dt_datatext_open(DtArena *memory, const DtDataFiles *files, const DtTokenFormat *format,
                          double from, double to, DtTokens *ret_tokens);
void dt_datatext_close(DtTokens *tokens);
/* Sets the part of a stream whose total is known. */
void dt_datatext_part(DtTokens *tokens, double from, double to);
/* Writes where number `at` of the part is, such as "token 3 (byte 6) of a.bin". word: what it is
 * called. */
void dt_datatext_say(const DtTokens *tokens, int64_t at, const char *word, char ret_place[400]);
/* Finds, for number `at` of the part: the file that contains it, its index in that file (from 0),
 * and its byte offset. */
const DtTokenFile *dt_datatext_find(const DtTokens *tokens, int64_t at, int64_t *ret_number,
                                    int64_t *ret_byte);
/* Reads numbers at .. at + n - 1 of the part, where 0 <= at and at + n <= tokens->n, as i32, or as
 * f32 if they are floats. Fails if one of them is none. */
DtStatus dt_datatext_read(const DtTokens *tokens, int64_t at, int64_t n, void *ret_numbers);
/* Calls read(context), which reads memory of the file and must hold nothing that would have to be
 * given back (base/tryread.h). Fails, with the place, if the file was cut short meanwhile. */
DtStatus dt_datatext_try(const DtTokens *tokens, DtTokenFile *file, void (*read)(void *),
                         void *context);
/* Fails, with the name of the file, if a file that was read since the last call has become shorter.
 * (The rest of its last page in the mapping reads as zeros.) */
DtStatus dt_datatext_cut(const DtTokens *tokens);

/* Finds the numbers in a mapped file: the whole file, or all bytes after the header of an llm.c
 * file or idx file. Fills skip and n. Fails for files that begin as those of other formats do. */
DtStatus dt_databin_layout(const DtTokenFormat *format, DtTokenFile *file);

enum { DT_DATA_SHAPE_AXES = 64 };

/* The axes of an array in a file. */
typedef struct DtDataShape {
    const char *is, *elements; /* for messages: "an idx file", "bytes" */
    bool may_stream;           /* an array of one axis may be a stream of tokens */
    uint32_t n_axes;           /* at least 1 */
    uint64_t extents[DT_DATA_SHAPE_AXES];
} DtDataShape;

/* Fails if the axes are not those that the input has (data_shape.c). */
DtStatus dt_datashape_check(const DtTokenFormat *format, const char *path,
                            const DtDataShape *shape);

/* The header of NumPy's files. Fills skip, n and number; fails if the file has none, or is not what
 * the format asks for. */
DtStatus dt_datanpy_layout(const DtTokenFormat *format, DtTokenFile *file);

/* The index of a pair of Megatron-LM's: fills skip, n and number; fails if there is none, or if it
 * does not fit the file. dt_datamegatron_look notes documents without an end token. */
DtStatus dt_datamegatron_layout(DtTokenFile *file);
DtStatus dt_datamegatron_look(const DtData *data, DtText *ret_notes);

/* The header of MNIST's files, if there is one: bytes 0, 0, type, number of axes, then their
 * extents, big-endian, the first that of the samples. Fills skip and n; fails if the file is not
 * what the format asks for. ret_is: whether the file has such a header. */
DtStatus dt_dataidx_layout(const DtTokenFormat *format, DtTokenFile *file, bool *ret_is);

/* Tables as text. dt_datacsv_layout finds the lines and columns: fills table and n, in memory of
 * the arena. dt_datacsv_read reads numbers at .. at + n - 1 of the file as dt_datatext_read does.
 * Both read the view only, and fail with the line and the column of what is wrong. */
DtStatus dt_datacsv_layout(DtArena *memory, const DtTokenFormat *format, DtTokenFile *file);
DtStatus dt_datacsv_read(const DtTokenFormat *format, const DtTokenFile *file, int64_t at,
                         int64_t n, void *ret_numbers);
/* The line of number `at` of the file, and the column of its first character, from 1 on. */
void dt_datacsv_place(const DtTokenFormat *format, const DtTokenFile *file, int64_t at,
                      uint64_t *ret_line, uint64_t *ret_column);

/* Refuses a file that begins with the bytes of another format, and says what to use instead
 * (data_known.c). text: the file was to be read as text. */
DtStatus dt_dataknown_refuse(bool text, const DtTokenFile *file);

/* ---- order (permutation.c) ---- */

/* The order of one epoch of one stream: n windows, permuted by a key. */
typedef struct DtPermutation {
    uint64_t key, epoch, n;
} DtPermutation;

/* A bijection of 0 .. n - 1, computed without a table; index < n. */
uint64_t dt_permutation_at(const DtPermutation *permutation, uint64_t index);
/* A random number below `bound` (at least 1), which depends on the key and the epoch; one for each
 * epoch. */
uint64_t dt_permutation_offset(const DtPermutation *permutation, uint64_t bound);

/* ---- random data (synthetic.c) ---- */

/* The range of an input's random numbers: integers lo .. hi - 1, floats lo .. hi; it is ignored for
 * bool. */
typedef struct DtSynthetic {
    uint64_t key;
    double lo, hi;
} DtSynthetic;

/* Makes elements first .. first + n - 1 of sample `sample`. False: there are no random numbers for
 * that dtype. */
bool dt_synthetic_fill(const DtSynthetic *synthetic, uint32_t dtype, int64_t sample, int64_t first,
                       int64_t n, void *ret_values);

/* ---- a reader ---- */

enum { DT_TOKENS_COUNTS = 8 }; /* of data_tokens.h */

typedef struct DtSampler DtSampler; /* data_sampler.h */
enum { DT_DATA_SAMPLER_INPUTS = 8 };

/* What mlm puts in place of tokens: the mask token; a random one of the n_drawn from `lo` on that
 * are not special. */
typedef struct DtMasking {
    int32_t mask;
    int32_t *special; /* ascending */
    uint32_t n_special;
    int64_t lo, n_drawn;
} DtMasking;
typedef struct DtMarks { int64_t lo, hi; } DtMarks; /* tokens that the source must not have */

struct DtData {
    struct DtData **parts; /* of the first source of a mixture: all of them (data_mix.c) */
    uint64_t *shares;
    uint32_t n_parts;      /* 0: it is no such source */
    double mixed;          /* the part of the samples that come from this source; 0: all */
    DtArena *memory;
    const DtPlan *plan;
    const DtPlanReader *reader;
    const DtPlanInput *inputs;
    const char *name;       /* the name of the file or pattern that it reads */
    DtTokens tokens;        /* n_files 0: synthetic */
    DtTokens texts;         /* what a tokenizer made them from; n_files 0: it did not */
    const char *tokenizer;  /* of conversations and samplers: its file; NULL: none */
    uint64_t counts[DT_TOKENS_COUNTS]; /* of conversations (data_chat.h) */
    struct DtImages *images; /* NULL: the source has none */
    DtSynthetic *synthetic; /* per input, NULL if there are files; of a sampler: of its tokens */
    const DtSampler *sampler; /* NULL: samples are windows of the source as they are */
    uint64_t draws;           /* its key of the generator */
    int32_t *window;          /* its tokens */
    DtMasking masking;        /* of mlm */
    DtSpanNumbers spans;      /* of span_corruption */
    DtMarks marks;            /* its sentinels */
    int64_t row;            /* distance from one window to the next, in numbers of the source */
    int64_t more;           /* 1: a window has one more number, which is the last label */
    int64_t windows;        /* samples in the files; synthetic data: INT64_MAX */
    int64_t offsets;        /* an epoch begins at a random offset below this */
    int64_t samples; /* samples of an epoch, for all sources of a block; 0: no epochs, since all
                      * sources are synthetic */
    /* for a reader of training data: the samples of each step; NULL: step t begins at t * batch */
    const DtRamp *ramp;
    uint64_t key;
};

/* Cuts the part of the stream (tokens.first, tokens.n) into windows; fails if the part is shorter
 * than one window. */
DtStatus dt_data_cut(DtData *data);

/* ---- values and places (data_refuse.c) ---- */

/* Puts the place in the source text before the message. */
DtStatus dt_data_located(const DtData *data, DtStatus status);
/* Begins a line of notes with the place in the source text. */
void dt_data_begin_note(const DtData *data, DtText *ret_notes);
/* dt_data_outside returns the index of the first of n values that the input may not have, or -1.
 * dt_data_refuse returns the failure that names it. at: the value's number in the part. */
int64_t dt_data_outside(const DtPlanInput *input, const int32_t *values, int64_t n);
DtStatus dt_data_refuse(const DtData *data, const DtPlanInput *input, int64_t at, int32_t value);
/* The same for floats: finite ones that are infinite in the input's dtype. */
int64_t dt_data_too_large(const DtPlanInput *input, const float *values, int64_t n);
DtStatus dt_data_refuse_float(const DtData *data, const DtPlanInput *input, int64_t at,
                              float value);
/* The failure for a value that a sampler made. place: in the sample. */
DtStatus dt_data_refuse_made(const DtData *data, const DtPlanInput *input, int64_t sample,
                             int64_t place, int32_t value);

/* data_mix.c: connects the sources of mixtures, which are open. dt_datamix_find returns the source
 * of a sample of a mixture, and the number that the sample has there. */
void dt_datamix_join(const DtPlan *plan, DtData **readers);
DtData *dt_datamix_find(const DtData *first, int64_t sample, int64_t *ret_sample);
/* Returns the number of the sample's first value within the source's part of the stream; of images
 * that of the image. */
int64_t dt_data_start(const DtData *data, int64_t sample);
/* Converts n numbers, which were read as f32 or i32, to the input's dtype. */
void dt_data_narrow(const DtPlanInput *input, const int32_t *values, int64_t n, char *to);
/* data_pair.c: gives n sources of one block the same number of samples. Fails, naming two of them,
 * if their numbers differ. */
DtStatus dt_datapair_samples(DtData *const *data, uint32_t n);
/* Whether the numbers in the files are floats. */
static inline bool dt_data_is_float(const DtData *data)
{
    return data->tokens.format.dtype >= DT_PLAN_F16;
}

#endif
