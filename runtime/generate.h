/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a model writes on from prompts (dtrun --generate).
 *
 *   generate.c          one prompt, or those of a file
 *   generate_rows.c     completions in rows of the batch
 *   generate_predict.c  logits of the next tokens, by the entry "predict" over whole windows
 *   generate_cached.c   the same by entries that keep a cache, where the plan has them
 *   generate_sample.c   logits -> a token
 *   generate_text.c     text <-> tokens
 *   generate_stop.c     where a text ends
 *   generate_prompts.c  command line, lines of a file -> prompts
 *   generate_lines.c    completions -> lines of a file
 *
 * All ranks keep the same prompts and completions. The rank that has a row's logits chooses its
 * token, and all others get the token from that rank. */
#ifndef DT_RUNTIME_GENERATE_H
#define DT_RUNTIME_GENERATE_H

#include "base/file.h"
#include "runtime/data_chat.h"
#include "runtime/runtime.h"

#include "tokenizer/tokenizer.h"

/* ---- logits of next tokens ---- */

/* A row of the batch, of those that all ranks have together. */
typedef struct DtNextRow {
    /* Tokens so far, at least one, the prompt's first; NULL: the row is idle. Between two calls of
     * `begin` a row only grows. */
    const uint32_t *tokens;
    int64_t n;
    /* Results of a step. ready: it computed the logits after the last token; equal on all ranks. */
    bool ready;
    const float *logits; /* [vocab], on the one rank that chooses the token; else NULL */
} DtNextRow;

/* A way to compute logits with a plan. */
typedef struct DtNext {
    const struct DtNextOps *ops;
    const DtPlan *plan;
    uint32_t reader;          /* which fills the input in training */
    const DtPlanInput *input; /* token ids, [batch, seq] */
    int64_t n_rows, vocab;
    int64_t window; /* positions: of a longer text only the last ones count */
    DtRank *rank;   /* NULL: no rank runs yet */
    void *state;
} DtNext;

typedef struct DtNextOps {
    /* Finds what it needs in the plan, and fills ret_next but for the rank. `memory` holds its
     * state. */
    DtStatus (*open)(DtArena *memory, const DtPlan *plan, DtNext *ret_next);
    /* Collective: other texts are in rows, or rows are idle now; texts of other rows may have
     * grown. */
    bool (*begin)(DtNext *next, DtNextRow *rows);
    /* Collective: runs the model once, and sets the results of all rows. A row whose text it has
     * not read to the end yet is not ready; idle rows are not. False after dt_rank_fail. */
    bool (*step)(DtNext *next, DtNextRow *rows);
    /* Texts may begin in some rows while others go on. */
    bool joins;
} DtNextOps;

extern const DtNextOps dt_generatepredict_ops, dt_generatecached_ops;
/* The rows of the entries that keep a cache; 0: the plan has no such entries. */
int64_t dt_generatecached_rows(const DtPlan *plan);
/* Finds the input of token ids, of which each rank has whole rows. option: for messages. */
DtStatus dt_generatepredict_input(const DtPlan *plan, DtNext *ret_next);

/* ---- choosing tokens ---- */

/* A number that a user gives: of the command line, or of JSON. */
typedef struct DtGivenNumber {
    bool is_whole;
    int64_t whole;
    double real; /* if it is not whole */
} DtGivenNumber;

/* Sets the number of that name, of the command line ("top-k") or of JSON ("top_k"). Fails for a
 * value outside its range. */
DtStatus dt_generatesample_set(DtSampling *sampling, const char *name, DtGivenNumber given);
/* The names in JSON; NULL: there is no name of that number. */
const char *dt_generatesample_key(size_t number);

/* What the choice of a token depends on. */
typedef struct DtNextChoice {
    const float *logits;
    int64_t vocab;
    int64_t number;      /* of the prompt in its file, which has random numbers of its own */
    int64_t n;           /* tokens that were chosen after it */
    const uint32_t *ids; /* of the text so far, prompt included; each below vocab */
    size_t n_ids;
    double *weights; /* room for `vocab` numbers each */
    uint32_t *order;
} DtNextChoice;

/* Sets weights[] to what the probabilities of all tokens are proportional to. Returns the token
 * with the largest one (of equals the first); -1: a logit is not a number, or none is finite. */
int64_t dt_generatesample_weights(const DtSampling *sampling, const DtNextChoice *choice);
/* Chooses the next token; -1 as above. ret_logprob: the logarithm of its probability in
 * softmax(logits), whatever the settings. */
int64_t dt_generatesample_choose(const DtSampling *sampling, const DtNextChoice *choice,
                                 double *ret_logprob);

/* ---- completions ---- */

/* Why a text ended. */
typedef enum DtStop {
    DT_STOP_NOT,
    DT_STOP_TOKENS, /* it has as many as it may */
    DT_STOP_END,    /* an end token */
    DT_STOP_TEXT    /* a stop text */
} DtStop;

/* A prompt and the text that follows it. Everything it points to but `stops` and stopped_by, which
 * are texts of the options or of the source, is its own. */
typedef struct DtCompletion {
    int64_t number;        /* of the prompt in its file, from 0 on */
    uint64_t line;         /* its line, from 1 on */
    struct json_t *source; /* what the line says; NULL: the prompt is of the command line */
    DtIds ids;             /* the prompt's tokens, then those chosen */
    size_t n_prompt;
    DtSampling sampling;
    const char *stops[DT_MOST_STOPS];
    uint32_t n_stops;
    DtDecoding *decoding; /* turns tokens into text, after those of the prompt; NULL: none yet */
    DtText bytes;         /* the text, without an end token or stop text */
    size_t shown;         /* how many of these bytes were written */
    DtStop stop;
    const char *stopped_by; /* the stop text */
    double logprob;         /* of all tokens that were chosen */
} DtCompletion;

void dt_generate_free(DtCompletion *completion);

/* ---- text ---- */

/* How tokens are text: words of a tokenizer, bytes, or numbers. */
typedef struct DtWords {
    DtTokenizer *tokenizer;         /* NULL: none */
    const char *path;               /* of its file */
    const DtChatTemplate *template; /* of prompts; NULL: none */
    bool bytes;
    int64_t vocab;
} DtWords;

/* Opens the tokenizer of the data that the model was trained on, if there is one. */
DtStatus dt_generatetext_open(DtArena *memory, const DtRunOptions *options, const DtNext *next,
                              DtWords *ret_words);
void dt_generatetext_close(DtWords *words);
/* Appends the tokens of a prompt: words, bytes, or decimal numbers. An empty one is what the
 * tokenizer puts in front of a text, or else a newline. */
DtStatus dt_generatetext_read(const DtWords *words, const char *prompt, DtIds *ret_ids);
/* Appends the tokens of the spans of a prompt (data_chat.h). */
DtStatus dt_generatetext_spans(const DtWords *words, const DtChatBatch *batch, DtIds *ret_ids);
/* Begins the text after the prompt's tokens; what a token stands for may depend on those before it.
 * NULL: there is no tokenizer. */
DtDecoding *dt_generatetext_begin(const DtWords *words, const uint32_t *prompt, size_t n);
/* Appends the bytes that a token stands for, by itself if decoding is NULL. One that is no text
 * (the vocabulary is larger than that of the tokenizer, or than 256) is its number in brackets. */
void dt_generatetext_add(const DtWords *words, DtDecoding *decoding, uint32_t token,
                         DtText *ret_bytes);
/* Appends the complete characters among n bytes; a byte that belongs to no character becomes \xHH.
 * ends: no more bytes will come. Returns how many bytes it took. */
size_t dt_generatetext_show(const char *bytes, size_t n, bool ends, DtText *ret_text);

/* ---- ends ---- */

/* Appends the end tokens of the model. */
DtStatus dt_generatestop_ends(DtArena *memory, const DtRunOptions *options, const DtNext *next,
                              const DtWords *words, DtIds *ret_ends);
/* Fails if the completion has stop texts, and tokens are no text. */
DtStatus dt_generatestop_may(const DtWords *words, const DtCompletion *completion);
/* Adds the last token to the text, unless it is one of the ends, and sets `stop` if the text ends
 * there. */
void dt_generatestop_look(const DtWords *words, const DtIds *ends, DtCompletion *completion);
/* How many bytes of the text stay, whatever follows: the rest may be the beginning of a stop
 * text. */
size_t dt_generatestop_safe(const DtCompletion *completion);

/* ---- rows ---- */

/* A token that a rank chose; zeros on all other ranks, so that they can be added. */
typedef struct DtChosen {
    int64_t token;
    int64_t logprob; /* the bits of the double */
} DtChosen;

typedef struct DtGenerator {
    const DtRunOptions *options;
    DtNext next;
    DtWords words;
    DtIds ends;   /* end tokens */
    DtRank *rank; /* NULL: none runs yet */
    /* called when a completion has one token more, or has ended without one; false: a failure */
    bool (*grown)(void *context, DtCompletion *completion);
    void *context;
    int64_t n_tokens; /* that were chosen so far */
    bool stopped;     /* by a signal */
    /* of generate_rows.c: */
    DtNextRow *rows;
    DtCompletion **of_row; /* NULL: the row is idle */
    DtChosen *chosen;      /* of each row, in this step */
    double *weights;       /* room for choosing */
    uint32_t *order;
} DtGenerator;

void dt_generaterows_load(DtGenerator *generator, DtRank *rank);
/* Collective: continues n completions, to their ends or until a signal stops the run. */
bool dt_generaterows_run(DtGenerator *generator, DtCompletion **queue, size_t n);

/* ---- prompts and lines ---- */

/* The prompt of --generate. The caller frees the completion, also after a failure. */
DtStatus dt_generateprompts_of_options(const DtRunOptions *options, const DtWords *words,
                                       DtCompletion *ret_completion);

/* The prompts of the file of --prompts, in order. It is closed also after a failure of open. */
typedef struct DtPrompts DtPrompts;
DtStatus dt_generateprompts_open(const DtRunOptions *options, const DtWords *words,
                                 DtPrompts **ret_prompts);
void dt_generateprompts_close(DtPrompts *prompts);
size_t dt_generateprompts_bytes(const DtPrompts *prompts);
DtStatus dt_generateprompts_count(const DtPrompts *prompts, int64_t *ret_n);
/* Reads the next prompt; ret_any: there is one. The caller frees the completion, also after a
 * failure, which names the place in the file. */
DtStatus dt_generateprompts_next(DtPrompts *prompts, DtCompletion *ret_completion, bool *ret_any);

/* Lines of completions, in the file of --out or on the standard output. */
typedef struct DtLines {
    const DtRunOptions *options;
    DtFileWriter writer;
    int64_t n; /* lines so far */
} DtLines;
/* replaces: the file may have contents, which are lost. */
DtStatus dt_generatelines_open(const DtRunOptions *options, bool replaces, DtLines *ret_lines);
DtStatus dt_generatelines_write(DtLines *lines, const DtCompletion *completion);
DtStatus dt_generatelines_close(DtLines *lines);

#endif
