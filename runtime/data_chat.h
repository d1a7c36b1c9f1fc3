/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations, prompts with completions, and texts: lines of JSON that become samples.
 *
 *   data_chat.c           a reader of samples
 *   data_chat_make.c      files -> the cached file of samples
 *   data_chat_rows.c      documents -> rows of one length
 *   data_chat_line.c      a line of JSON -> a document
 *   data_chat_encode.c    a document -> tokens
 *   data_chat_template.c  turns -> text
 *
 * The cached file is that of data_tokens.h with words of 32 bits in place of ids: `row` of them
 * are a sample. A word is an id and bits. The label of a position is the id of the next word, if
 * that is trained and of the same document. */
#ifndef DT_RUNTIME_DATA_CHAT_H
#define DT_RUNTIME_DATA_CHAT_H

#include "runtime/data_tokens.h"

#include "tokenizer/tokenizer.h"

enum {
    DT_CHAT_ID = (1 << 28) - 1,
    DT_CHAT_TRAINED = 1 << 28, /* the model learns to predict this token */
    DT_CHAT_FIRST = 1 << 29,   /* a document begins here */
    DT_CHAT_PADDING = 1 << 30
};

/* What the cached file says of itself. */
typedef enum DtChatCount {
    DT_CHAT_DOCUMENTS,
    DT_CHAT_TOKENS, /* without padding */
    DT_CHAT_LABELS, /* tokens that are predicted */
    DT_CHAT_CUT,
    DT_CHAT_DROPPED,
    DT_CHAT_UNTRAINED, /* documents that were left out as none of their tokens is trained */
    DT_CHAT_COUNTS
} DtChatCount;
_Static_assert((int)DT_CHAT_COUNTS <= (int)DT_TOKENS_COUNTS, "the file has room for them");

/* How documents become samples. */
typedef struct DtChatForm {
    const char *template; /* its name; NULL: none */
    uint32_t flags;       /* DT_PLAN_CHAT_ */
    int64_t row;          /* tokens of a sample */
} DtChatForm;

/* Samples are pairs of documents, of a preference: a half of the row for each. */
static inline bool dt_chat_has_pairs(const DtChatForm *form)
{
    return form->flags & DT_PLAN_CHAT_PAIRS;
}
/* The most tokens of a document. */
static inline int64_t dt_chat_longest(const DtChatForm *form)
{
    return dt_chat_has_pairs(form) ? form->row / 2 : form->row;
}

/* ---- documents (data_chat_line.c, data_chat_template.c) ---- */

typedef struct DtChatTemplate DtChatTemplate;

typedef enum DtChatSpanKind {
    DT_CHAT_TEXT,
    DT_CHAT_FRONT,  /* the tokens in front of a document, as the tokenizer says */
    DT_CHAT_BACK,   /* those after it */
    DT_CHAT_BETWEEN /* the same after a turn of a prompt, where they are not trained */
} DtChatSpanKind;

/* A part of a document that is turned into tokens by itself. */
typedef struct DtChatSpan {
    DtChatSpanKind kind;
    bool trained;
    DtTextPlace place; /* of a text: what stands in front of it */
    size_t first, len; /* in the text of the batch */
} DtChatSpan;

typedef struct DtChatDocument {
    size_t end; /* the end of its spans; they begin where those of the last one end */
    uint32_t file;
    uint64_t line;
} DtChatDocument;

/* Documents that are encoded together. Its memory is malloc'ed. */
typedef struct DtChatBatch {
    DtText text;
    DtChatSpan *spans;
    DtChatDocument *documents;
    size_t n_spans, cap_spans, n_documents, cap_documents;
} DtChatBatch;

/* Appends text to the document; parts that are trained alike are joined. */
void dt_datachatline_text(DtChatBatch *batch, const char *text, size_t len, bool trained);
void dt_datachatline_around(DtChatBatch *batch, DtChatSpanKind kind);
/* Appends the document of a line of JSON, or the two of a preference. Fails if it is none; the
 * message says why, but not where. file, line: where it is. */
DtStatus dt_datachatline_read(DtChatBatch *batch, const DtChatForm *form, const char *text,
                              size_t len, uint32_t file, uint64_t line);
void dt_datachatline_free(DtChatBatch *batch);
/* Appends the spans of a prompt: "prompt", "instruction", "messages" or "conversations" of an
 * object of JSON, and what stands in front of the answer. template: NULL: none. Other fields, a
 * completion among them, are left alone. */
struct json_t;
DtStatus dt_datachatline_ask(DtChatBatch *batch, const DtChatTemplate *template,
                             const struct json_t *object);
/* The same for one turn of the user. */
DtStatus dt_datachatline_ask_text(DtChatBatch *batch, const DtChatTemplate *template,
                                  const char *text, size_t len);

/* The tokens of a batch. Its memory is malloc'ed; zeros are none. */
typedef struct DtChatTokens {
    DtIds ids;    /* of all texts */
    size_t *ends; /* by span: the end of its ids among them, and of those before it */
    size_t *texts;
} DtChatTokens;
/* Encodes all texts of a batch on that many threads. name: for messages. */
DtStatus dt_datachatencode_run(const DtTokenizer *tokenizer, const DtChatBatch *batch,
                               const char *name, uint32_t threads, DtChatTokens *tokens);
/* The tokens of a span; *ret_n of them. */
const uint32_t *dt_datachatencode_ids(const DtTokenizer *tokenizer, const DtChatBatch *batch,
                                      const DtChatTokens *tokens, size_t span, size_t *ret_n);
void dt_datachatencode_free(DtChatTokens *tokens);

typedef enum DtChatRole {
    DT_CHAT_SYSTEM,
    DT_CHAT_USER,
    DT_CHAT_ASSISTANT
} DtChatRole;

typedef struct DtChatTurn {
    DtChatRole role;
    const char *text;
    size_t len;
    const char *input; /* what an instruction is about, or NULL */
    size_t input_len;
} DtChatTurn;

/* NULL: there is none of that name. */
const DtChatTemplate *dt_datachattemplate_find(const char *name);
/* The tokens that a template writes, up to NULL: each must be one of the tokenizer. */
const char *const *dt_datachattemplate_tokens(const DtChatTemplate *template);
/* Whether its turns of the assistant end with the tokens after a document. */
bool dt_datachattemplate_ends(const DtChatTemplate *template);
/* The text that ends its turns of the assistant; "": none. */
const char *dt_datachattemplate_end(const DtChatTemplate *template);
/* The name of the template that text in Jinja seems to be, by its tokens; NULL: not known. */
const char *dt_datachattemplate_guess(const char *jinja);
/* Appends a document of n turns, of which the assistant's are trained from number `trained` on;
 * fails for an order of turns that the template does not have. */
DtStatus dt_datachattemplate_write(DtChatBatch *batch, const DtChatTemplate *template,
                                   const DtChatTurn *turns, size_t n, size_t trained);
/* The same for turns that the assistant is to answer: what stands in front of the answer follows
 * them. */
DtStatus dt_datachattemplate_ask(DtChatBatch *batch, const DtChatTemplate *template,
                                 const DtChatTurn *turns, size_t n);

/* ---- samples (data_chat_rows.c) ---- */

typedef struct DtChatRows DtChatRows;

/* Takes rows of words in order. */
typedef struct DtChatRowSink {
    void *context;
    DtStatus (*take)(void *context, const uint32_t *words, size_t n);
} DtChatRowSink;

/* padding: the id at the end of a row that documents do not fill. counts: DT_CHAT_COUNTS numbers,
 * to which each document adds. */
DtChatRows *dt_datachatrows_new(const DtChatForm *form, uint32_t padding, uint64_t *counts,
                                const DtChatRowSink *sink);
/* Adds a document of n words, of which those that are trained are marked. */
DtStatus dt_datachatrows_add(DtChatRows *rows, const uint32_t *words, size_t n);
/* Adds a sample of two documents, the first one of `first` words. */
DtStatus dt_datachatrows_pair(DtChatRows *rows, const uint32_t *words, size_t first, size_t n);
/* Gives all rows that are left to the sink. */
DtStatus dt_datachatrows_end(DtChatRows *rows);
void dt_datachatrows_free(DtChatRows *rows);

/* ---- the cached file ---- */

/* data_chat_make.c: writes the file of samples at `path`. */
DtStatus dt_datachatmake_write(const DtTokensSource *source, const char *path);

/* data_chat.c: opens the samples of a reader whose data->texts are to be the files. */
DtStatus dt_datachat_open(DtData *data, const DtDataFiles *files, const char *tokenizer);
/* Reads the sample that begins at number `at` of the part into row `row` of each input. */
DtStatus dt_datachat_read(const DtData *data, int64_t at, int64_t row, char *const *inputs);
/* Reads the words of the sample: ids and bits. */
DtStatus dt_datachat_words(const DtData *data, int64_t at, uint32_t *ret_words);
/* Checks all samples, and says how many there are; warns of another template in
 * tokenizer_config.json. */
DtStatus dt_datachat_look(const DtData *data, DtText *ret_notes);

#endif
