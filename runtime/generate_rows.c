/* SPDX-License-Identifier: Apache-2.0 */
/* Completions in rows of the batch, as many side by side as it has rows. After each step of the
 * model every row that is ready gets one token. A row whose text has ended takes the next prompt.
 * All ranks run the same steps and keep the same texts. */
#include "runtime/generate.h"

#include "runtime/device.h"
#include "runtime/rank.h"

#include <string.h>

void dt_generaterows_load(DtGenerator *g, DtRank *rank)
{
    g->rank = g->next.rank = rank;
    g->rows = DT_NEW_ARRAY(rank->memory, DtNextRow, g->next.n_rows);
    g->of_row = DT_NEW_ARRAY(rank->memory, DtCompletion *, g->next.n_rows);
    g->chosen = DT_NEW_ARRAY(rank->memory, DtChosen, g->next.n_rows + 1);
    g->weights = DT_NEW_ARRAY(rank->memory, double, g->next.vocab);
    g->order = DT_NEW_ARRAY(rank->memory, uint32_t, g->next.vocab);
}

static bool is_idle(const DtGenerator *g)
{
    for (int64_t r = 0; r < g->next.n_rows; r++)
        if (g->of_row[r])
            return false;
    return true;
}

/* Takes the next completion of the queue that wants tokens. */
static bool take(DtGenerator *g, DtCompletion **queue, size_t n, size_t *next, int64_t row)
{
    while (*next < n && g->of_row[row] == NULL) {
        DtCompletion *c = queue[(*next)++];
        if (c->sampling.tokens > 0) {
            g->of_row[row] = c;
            continue;
        }
        c->stop = DT_STOP_TOKENS;
        if (!g->grown(g->context, c))
            return false;
    }
    return true;
}

/* Gives idle rows completions of the queue, from number *next on. */
static bool fill(DtGenerator *g, DtCompletion **queue, size_t n, size_t *next, bool *changes)
{
    if (!g->next.ops->joins && !is_idle(g))
        return true;
    for (int64_t r = 0; r < g->next.n_rows; r++) {
        const bool was_idle = g->of_row[r] == NULL;
        if (was_idle && !take(g, queue, n, next, r))
            return false;
        *changes |= was_idle && g->of_row[r];
    }
    return true;
}

static bool begin(DtGenerator *g)
{
    for (int64_t r = 0; r < g->next.n_rows; r++) {
        const DtCompletion *c = g->of_row[r];
        g->rows[r] = c ? (DtNextRow){.tokens = c->ids.at, .n = (int64_t)c->ids.n} : (DtNextRow){0};
    }
    return g->next.ops->begin(&g->next, g->rows);
}

/* Chooses the token of a row that this rank has. */
static bool choose_token(DtGenerator *g, int64_t r)
{
    const DtCompletion *c = g->of_row[r];
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

/* Sets the token of each row that is ready to the one that its rank chooses, on all ranks. One more
 * number counts the ranks that have seen the wish to stop. */
static bool choose(DtGenerator *g)
{
    memset(g->chosen, 0, (size_t)(g->next.n_rows + 1) * sizeof *g->chosen);
    for (int64_t r = 0; r < g->next.n_rows; r++)
        if (g->rows[r].ready && g->rows[r].logits && !choose_token(g, r))
            return false;
    DtChosen *last = &g->chosen[g->next.n_rows];
    last->token = atomic_load(&g->rank->shared->stop) != 0;
    const int64_t words = (g->next.n_rows + 1) * (int64_t)(sizeof *last / sizeof(int64_t));
    if (!dt_rank_add_up(g->rank, (int64_t *)(void *)g->chosen, words))
        return false;
    g->stopped = last->token != 0;
    return true;
}

static void add_token(DtGenerator *g, DtCompletion *c, const DtChosen *chosen)
{
    double logprob;
    memcpy(&logprob, &chosen->logprob, sizeof logprob);
    c->logprob += logprob;
    dt_ids_room(&c->ids, 1);
    c->ids.at[c->ids.n++] = (uint32_t)chosen->token;
    dt_generatestop_look(&g->words, &g->ends, c);
    g->n_tokens++;
}

/* Appends the tokens of a step. ret_ended: a text has ended. */
static bool append(DtGenerator *g, bool *ret_ended)
{
    *ret_ended = false;
    for (int64_t r = 0; r < g->next.n_rows; r++) {
        DtCompletion *c = g->of_row[r];
        if (!g->rows[r].ready)
            continue;
        add_token(g, c, &g->chosen[r]);
        g->rows[r].tokens = c->ids.at;
        g->rows[r].n = (int64_t)c->ids.n;
        if (c->stop) {
            g->of_row[r] = NULL;
            *ret_ended = true;
        }
        if (!g->grown(g->context, c))
            return false;
    }
    return true;
}

bool dt_generaterows_run(DtGenerator *g, DtCompletion **queue, size_t n)
{
    size_t next = 0;
    bool changes = false;
    for (;;) {
        if (!fill(g, queue, n, &next, &changes))
            return false;
        if (is_idle(g))
            return true;
        if (changes && !begin(g))
            return false;
        if (!g->next.ops->step(&g->next, g->rows) || !choose(g))
            return false;
        if (g->stopped)
            return true;
        if (!append(g, &changes))
            return false;
    }
}
