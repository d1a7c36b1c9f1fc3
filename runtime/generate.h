/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a model writes on from prompts (dtrun --generate).
 *
 *   generate.c          prompts -> rows of the batch -> completions
 *   generate_predict.c  logits of the next tokens, by the entry "predict" over whole windows
 *   generate_sample.c   logits -> a token
 *   generate_text.c     text <-> tokens
 *
 * All ranks keep the same prompts and completions. The rank that has a row's logits chooses its
 * token, and all others get the token from that rank. */
#ifndef DT_RUNTIME_GENERATE_H
#define DT_RUNTIME_GENERATE_H

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

extern const DtNextOps dt_generatepredict_ops;
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

/* ---- text ---- */

/* How tokens are text: words of a tokenizer, bytes, or numbers. */
typedef struct DtWords {
    DtTokenizer *tokenizer; /* NULL: none */
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
/* Appends the bytes that a token stands for. One that is no text (the vocabulary is larger than
 * that of the tokenizer, or than 256) is its number in brackets. */
void dt_generatetext_add(const DtWords *words, uint32_t token, DtText *ret_bytes);
/* Appends the complete characters among n bytes; a byte that belongs to no character becomes \xHH.
 * ends: no more bytes will come. Returns how many bytes it took. */
size_t dt_generatetext_show(const char *bytes, size_t n, bool ends, DtText *ret_text);

#endif
