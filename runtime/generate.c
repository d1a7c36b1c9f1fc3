/* SPDX-License-Identifier: Apache-2.0 */
/* --generate: continues prompts, as many side by side as the batch of the plan has rows. After each
 * step of the model every row that is ready gets one token. A row whose text has ended takes the
 * next prompt. All ranks run the same steps. */
#include "runtime/generate.h"

#include "runtime/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A prompt and the text that follows it. */
typedef struct Completion {
    int64_t number; /* of the prompt in its file */
    DtIds ids;      /* the prompt's tokens, then those chosen */
    size_t n_prompt;
    DtSampling sampling;
    double logprob; /* of all tokens that were chosen */
    DtText bytes;   /* of the tokens that were chosen */
    size_t shown;   /* how many of these bytes were written */
} Completion;

/* A token that a rank chose; zeros on all other ranks, so that they can be added. */
typedef struct Chosen {
    int64_t token;
    int64_t logprob; /* the bits of the double */
} Chosen;

typedef struct Generator {
    const DtRunOptions *options;
    DtNext next;
    DtWords words;
    DtRank *rank; /* NULL: none runs yet */
    DtNextRow *rows;
    Completion **of_row; /* NULL: the row is idle */
    double *weights;     /* room for choosing */
    uint32_t *order;
    Chosen *chosen; /* of each row, in this step */
    DtText text;    /* characters about to be written */
} Generator;

/* Finds what the plan has for generation. */
static DtStatus open(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                     Generator *ret_generator)
{
    Generator *g = ret_generator;
    *g = (Generator){.options = options};
    DtStatus status = dt_generatepredict_ops.open(memory, plan, &g->next);
    return dt_status_ok(&status) ? dt_generatetext_open(memory, options, &g->next, &g->words)
                                 : status;
}

static void close(Generator *g)
{
    dt_generatetext_close(&g->words);
    dt_text_free(&g->text);
}

static void free_completion(Completion *c)
{
    free(c->ids.at);
    dt_text_free(&c->bytes);
}

static DtStatus read_prompt(const Generator *g, Completion *ret_completion)
{
    DtStatus status = dt_generatetext_read(&g->words, g->options->generate, &ret_completion->ids);
    ret_completion->n_prompt = ret_completion->ids.n;
    ret_completion->sampling = g->options->sampling;
    return status;
}

DtStatus dt_generate_check(const DtRunOptions *options, const DtPlan *plan)
{
    DtArena *memory = dt_arena_new();
    Generator g;
    Completion c = {0};
    DtStatus status = open(memory, options, plan, &g);
    if (dt_status_ok(&status))
        status = read_prompt(&g, &c);
    free_completion(&c);
    close(&g);
    dt_arena_free(memory);
    return status;
}

/* ---- writing ---- */

static bool flush(DtRank *rank)
{
    return fflush(stdout) == 0 ||
           dt_rank_fail(rank, DT_EXIT_IO, "cannot write the text: %s", strerror(errno));
}

/* Writes what is new in the text. ends: no more tokens will come. */
static bool show(Generator *g, Completion *c, bool ends)
{
    if (g->rank->rank != 0)
        return true;
    g->text.len = 0;
    c->shown +=
        dt_generatetext_show(c->bytes.at + c->shown, c->bytes.len - c->shown, ends, &g->text);
    if (g->text.len > 0)
        fwrite(g->text.at, 1, g->text.len, stdout);
    return flush(g->rank);
}

/* ---- rows ---- */

static bool has_ended(const Completion *c)
{
    return (int64_t)(c->ids.n - c->n_prompt) >= c->sampling.tokens;
}

/* Gives idle rows completions of the queue, from number *next on. Returns whether any row has
 * another text. */
static bool fill_rows(Generator *g, Completion **queue, size_t n, size_t *next)
{
    bool idle = true, changes = false;
    for (int64_t r = 0; r < g->next.n_rows; r++)
        idle &= g->of_row[r] == NULL;
    if (!idle && !g->next.ops->joins)
        return false;
    for (int64_t r = 0; r < g->next.n_rows; r++) {
        while (*next < n && has_ended(queue[*next]))
            ++*next;
        if (g->of_row[r] == NULL && *next < n) {
            g->of_row[r] = queue[(*next)++];
            changes = true;
        }
    }
    return changes;
}

static bool tell_rows(Generator *g)
{
    for (int64_t r = 0; r < g->next.n_rows; r++) {
        const Completion *c = g->of_row[r];
        g->rows[r] = c ? (DtNextRow){.tokens = c->ids.at, .n = (int64_t)c->ids.n} : (DtNextRow){0};
    }
    return g->next.ops->begin(&g->next, g->rows);
}

/* Chooses the token of a row that this rank has. */
static bool choose_token(Generator *g, int64_t r)
{
    const Completion *c = g->of_row[r];
    const DtNextChoice choice = {.logits = g->rows[r].logits,
                                 .vocab = g->next.vocab,
                                 .number = c->number,
                                 .n = (int64_t)(c->ids.n - c->n_prompt),
                                 .ids = c->ids.at,
                                 .n_ids = c->ids.n,
                                 .weights = g->weights,
                                 .order = g->order};
    double logprob = 0;
    g->chosen[r].token = dt_generatesample_choose(&c->sampling, &choice, &logprob);
    memcpy(&g->chosen[r].logprob, &logprob, sizeof logprob);
    return g->chosen[r].token >= 0 ||
           dt_rank_fail(g->rank, DT_EXIT_FAILED,
                        "the logits after token %zu of the text are not finite numbers: are the "
                        "parameters those of the model?",
                        c->ids.n);
}

/* Sets the token of each row that is ready to the one that its rank chooses, on all ranks. */
static bool choose(Generator *g)
{
    DtRank *rank = g->rank;
    memset(g->chosen, 0, (size_t)g->next.n_rows * sizeof *g->chosen);
    for (int64_t r = 0; r < g->next.n_rows; r++)
        if (g->rows[r].ready && g->rows[r].logits && !choose_token(g, r))
            return false;
    const int64_t words = g->next.n_rows * (int64_t)(sizeof *g->chosen / sizeof(int64_t));
    const DtPlaceAt place = dt_device_of_host(g->chosen, words * (int64_t)sizeof(int64_t));
    return rank->n_ranks == 1 || rank->comm_ops->all_reduce(rank->comm, &rank->world, place, place,
                                                            words, DT_PLAN_I64, DT_PLAN_SUM);
}

static void add_token(const Generator *g, Completion *c, const Chosen *chosen)
{
    double logprob;
    memcpy(&logprob, &chosen->logprob, sizeof logprob);
    c->logprob += logprob;
    dt_ids_room(&c->ids, 1);
    c->ids.at[c->ids.n++] = (uint32_t)chosen->token;
    dt_generatetext_add(&g->words, (uint32_t)chosen->token, &c->bytes);
}

/* Appends the tokens of a step. ret_ended: a text has ended. */
static bool append(Generator *g, bool *ret_ended)
{
    *ret_ended = false;
    for (int64_t r = 0; r < g->next.n_rows; r++) {
        Completion *c = g->of_row[r];
        if (!g->rows[r].ready)
            continue;
        add_token(g, c, &g->chosen[r]);
        g->rows[r].tokens = c->ids.at;
        g->rows[r].n = (int64_t)c->ids.n;
        const bool ends = has_ended(c);
        if (!show(g, c, ends))
            return false;
        if (ends)
            g->of_row[r] = NULL;
        *ret_ended |= ends;
    }
    return true;
}

/* Continues n prompts. */
static bool run(Generator *g, Completion **queue, size_t n)
{
    size_t next = 0;
    bool changes = false;
    for (;;) {
        changes |= fill_rows(g, queue, n, &next);
        bool idle = true;
        for (int64_t r = 0; r < g->next.n_rows; r++)
            idle &= g->of_row[r] == NULL;
        if (idle)
            return true;
        if (changes && !tell_rows(g))
            return false;
        if (!g->next.ops->step(&g->next, g->rows) || !choose(g) || !append(g, &changes))
            return false;
    }
}

static void load(Generator *g, DtRank *rank)
{
    g->rank = g->next.rank = rank;
    g->rows = DT_NEW_ARRAY(rank->memory, DtNextRow, g->next.n_rows);
    g->of_row = DT_NEW_ARRAY(rank->memory, Completion *, g->next.n_rows);
    g->chosen = DT_NEW_ARRAY(rank->memory, Chosen, g->next.n_rows);
    g->weights = DT_NEW_ARRAY(rank->memory, double, g->next.vocab);
    g->order = DT_NEW_ARRAY(rank->memory, uint32_t, g->next.vocab);
}

/* Writes the prompt of the options and the text that follows it. */
static bool write_on(Generator *g)
{
    const bool writes = g->rank->rank == 0;
    Completion c = {0}, *queue = &c;
    DtStatus status = read_prompt(g, &c);
    if (writes && dt_status_ok(&status)) {
        fputs(g->options->generate, stdout);
        if (!g->words.bytes && !g->words.tokenizer)
            putchar(' ');
    }
    const bool good =
        dt_status_ok(&status) ? run(g, &queue, 1) : dt_rank_fail_status(g->rank, &status);
    if (good && writes)
        putchar('\n');
    free_completion(&c);
    return good && flush(g->rank);
}

bool dt_generate_text(DtRank *rank)
{
    Generator g;
    DtStatus status = open(rank->memory, rank->options, rank->plan, &g);
    bool good = dt_status_ok(&status) || dt_rank_fail_status(rank, &status);
    if (good) {
        load(&g, rank);
        good = write_on(&g);
    }
    close(&g);
    return good;
}
