/* SPDX-License-Identifier: Apache-2.0 */
/* --generate TEXT continues one prompt, and shows its text while it grows. --prompts FILE continues
 * the prompts of a file: so many are read ahead that prompts of similar length can be in the batch
 * together, and their completions are written in the order of the file. All ranks read the prompts;
 * rank 0 writes. */
#include "runtime/generate.h"

#include "runtime/rank.h"

#include "base/hash.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_SECONDS = 10,     /* between lines about how far it is */
    AHEAD_ROWS = 16,       /* prompts that are read ahead, for each row of the batch */
    AHEAD_TOKENS = 1 << 22 /* tokens of prompts that are read ahead, and one prompt more */
};

/* The prompts of a file that are continued at a time. */
typedef struct Many {
    DtGenerator *g;
    DtPrompts *prompts;
    DtLines lines;
    DtCompletion *at; /* in the order of the file */
    DtCompletion **queue;
    size_t n, cap;
    size_t written;       /* of at[] */
    int64_t done, total;  /* of the file: prompts whose texts have ended; all */
    uint64_t began, said; /* when */
} Many;

void dt_generate_free(DtCompletion *completion)
{
    free(completion->ids.at);
    dt_decode_free(completion->decoding);
    dt_text_free(&completion->bytes);
    json_decref(completion->source);
    *completion = (DtCompletion){0};
}

/* Finds what the plan has for generation. */
static DtStatus open(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                     DtGenerator *ret_generator)
{
    DtGenerator *g = ret_generator;
    *g = (DtGenerator){.options = options};
    const bool is_cached = dt_generatecached_rows(plan) > 0;
    const DtNextOps *ops = is_cached ? &dt_generatecached_ops : &dt_generatepredict_ops;
    DtStatus status = ops->open(memory, plan, &g->next);
    if (dt_status_ok(&status))
        status = dt_generatetext_open(memory, options, &g->next, &g->words);
    return dt_status_ok(&status) && !options->ignore_end
               ? dt_generatestop_ends(memory, options, &g->next, &g->words, &g->ends)
               : status;
}

static void close(DtGenerator *g)
{
    dt_generatetext_close(&g->words);
    free(g->ends.at);
}

/* ---- before ranks start ---- */

enum {
    MOST_CHECKED = 64 << 20, /* bytes of a file whose lines are all read before the run */
    LONG_WINDOW = 256        /* positions from which on a cache is worth a line */
};

/* Reads all prompts of a file. */
static DtStatus check_lines(const DtGenerator *g, DtPrompts *prompts, DtText *ret_notes)
{
    int64_t longer = 0;
    bool any = true;
    DtStatus status = DT_OK;
    while (any && dt_status_ok(&status)) {
        DtCompletion c;
        status = dt_generateprompts_next(prompts, &c, &any);
        longer += (int64_t)c.n_prompt > g->next.window;
        dt_generate_free(&c);
    }
    if (longer > 0)
        dt_text_printf(ret_notes,
                       "%s%lld prompt%s more than %lld tokens, the window of the model: only the "
                       "last ones count",
                       ret_notes->len ? "\n" : "", (long long)longer,
                       longer == 1 ? " has" : "s have", (long long)g->next.window);
    return status;
}

static DtStatus check_file(const DtGenerator *g, DtText *ret_notes)
{
    const DtRunOptions *options = g->options;
    DtPrompts *prompts = NULL;
    int64_t n = 0;
    DtStatus status = dt_generateprompts_open(options, &g->words, &prompts);
    if (dt_status_ok(&status))
        status = dt_generateprompts_count(prompts, &n);
    if (dt_status_ok(&status) && n == 0)
        status = dt_status_fail(
            DT_EXIT_IO, "%.300s has no prompt: it wants a line of JSON for each", options->prompts);
    if (dt_status_ok(&status) && dt_generateprompts_bytes(prompts) <= MOST_CHECKED)
        status = check_lines(g, prompts, ret_notes);
    dt_generateprompts_close(prompts);
    if (dt_status_ok(&status) && options->n_out && options->node == 0)
        status = dt_file_may_make(options->out[0], false);
    return status;
}

DtStatus dt_generate_check(const DtRunOptions *options, const DtPlan *plan, DtText *ret_notes)
{
    DtArena *memory = dt_arena_new();
    DtGenerator g;
    DtCompletion c = {0};
    DtStatus status = open(memory, options, plan, &g);
    if (dt_status_ok(&status) && !dt_generatecached_rows(plan) && g.next.window >= LONG_WINDOW)
        dt_text_printf(ret_notes,
                       "note: each token runs the model over all %lld positions; a line "
                       "`generate = cached()` in the train block adds a cache (docs/cache.md)",
                       (long long)g.next.window);
    if (dt_status_ok(&status))
        status = options->prompts ? check_file(&g, ret_notes)
                                  : dt_generateprompts_of_options(options, &g.words, &c);
    dt_generate_free(&c);
    close(&g);
    dt_arena_free(memory);
    return status;
}

/* ---- one prompt ---- */

/* Says why the text ended. */
static void say_end(const DtGenerator *g, const DtCompletion *c)
{
    DtText text = {0};
    const size_t n = c->ids.n - c->n_prompt;
    dt_text_printf(&text, "%zu token%s; ", n, n == 1 ? "" : "s");
    if (c->stop == DT_STOP_TEXT)
        dt_text_printf(&text, "ended before `%s`", c->stopped_by);
    else if (c->stop == DT_STOP_END) {
        dt_text_add(&text, "ended by ");
        dt_generatetext_add(&g->words, NULL, c->ids.at[c->ids.n - 1], &text);
    } else
        dt_text_add(&text, "as many as --tokens allows");
    dt_text_say(stderr, text.at);
    dt_text_free(&text);
}

/* Writes what is new in the text and will stay. */
static bool show(void *context, DtCompletion *c)
{
    const DtGenerator *g = context;
    DtText text = {0};
    if (g->rank->rank != 0 || g->options->json)
        return true;
    const size_t n = dt_generatestop_safe(c);
    if (n > c->shown)
        c->shown += dt_generatetext_show(c->bytes.at + c->shown, n - c->shown, c->stop != 0, &text);
    if (text.len > 0)
        fwrite(text.at, 1, text.len, stdout);
    if (c->stop)
        putchar('\n');
    dt_text_free(&text);
    return fflush(stdout) == 0 ||
           dt_rank_fail(g->rank, DT_EXIT_IO, "cannot write the text: %s", strerror(errno));
}

/* Writes the line of the completion. */
static bool write_line(const DtGenerator *g, const DtCompletion *c)
{
    DtLines lines;
    DtStatus status = dt_generatelines_open(g->options, false, &lines);
    if (dt_status_ok(&status))
        status = dt_generatelines_write(&lines, c);
    return dt_status_ok(&status) || dt_rank_fail_status(g->rank, &status);
}

/* Writes the prompt of the options, unless it is a turn of a conversation, and the text that
 * follows it. */
static bool run_one(DtGenerator *g)
{
    const bool writes = g->rank->rank == 0;
    DtCompletion c, *queue = &c;
    DtStatus status = dt_generateprompts_of_options(g->options, &g->words, &c);
    if (writes && dt_status_ok(&status) && !g->options->json && !g->words.template) {
        fputs(g->options->generate, stdout);
        if (!g->words.bytes && !g->words.tokenizer)
            putchar(' ');
    }
    g->grown = show;
    g->context = g;
    bool good = dt_status_ok(&status) ? dt_generaterows_run(g, &queue, 1)
                                      : dt_rank_fail_status(g->rank, &status);
    if (good && writes && g->options->json)
        good = write_line(g, &c);
    if (good && writes && !g->options->quiet)
        say_end(g, &c);
    dt_generate_free(&c);
    return good;
}

/* ---- prompts of a file ---- */

static void forget(Many *m)
{
    for (size_t i = 0; i < m->n; i++)
        dt_generate_free(&m->at[i]);
    m->n = m->written = 0;
}

static int by_length(const void *a, const void *b)
{
    const DtCompletion *x = *(DtCompletion *const *)a, *y = *(DtCompletion *const *)b;
    if (x->n_prompt != y->n_prompt)
        return x->n_prompt < y->n_prompt ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Reads the next prompts of the file, and sorts them by length. */
static bool read_ahead(Many *m)
{
    size_t tokens = 0;
    uint64_t digest = 0;
    DtRank *rank = m->g->rank;
    DtStatus status = DT_OK;
    forget(m);
    for (bool any = true; m->n < m->cap && tokens < AHEAD_TOKENS;) {
        DtCompletion *c = &m->at[m->n];
        status = dt_generateprompts_next(m->prompts, c, &any);
        m->n += any;
        if (!any || !dt_status_ok(&status))
            break;
        tokens += c->n_prompt;
        digest = dt_hash_bytes(c->ids.at, c->ids.n * sizeof *c->ids.at, digest + 1);
    }
    for (size_t i = 0; i < m->n; i++)
        m->queue[i] = &m->at[i];
    qsort(m->queue, m->n, sizeof *m->queue, by_length);
    return dt_status_ok(&status) ? dt_rank_check_same(rank, digest, m->g->options->prompts)
                                 : dt_rank_fail_data(rank, &status);
}

static void say_how_far(const Many *m)
{
    const double seconds = (double)(dt_now_ns() - m->began) * 1e-9;
    fprintf(stderr, "%lld of %lld prompts, %lld tokens, %.4g tokens/s", (long long)m->done,
            (long long)m->total, (long long)m->g->n_tokens,
            (double)m->g->n_tokens / (seconds > 0 ? seconds : 1));
    if (m->g->stopped)
        fprintf(stderr, "; stopped: %lld lines are written", (long long)m->lines.n);
    fputc('\n', stderr);
}

/* Writes the lines that are complete and next in the order of the file. */
static bool write_lines(void *context, DtCompletion *c)
{
    Many *m = context;
    DtRank *rank = m->g->rank;
    DtStatus status = DT_OK;
    m->done += c->stop != 0;
    for (; rank->rank == 0 && m->written < m->n && m->at[m->written].stop; m->written++)
        if (dt_status_ok(&status))
            status = dt_generatelines_write(&m->lines, &m->at[m->written]);
    if (rank->rank == 0 && !m->g->options->quiet &&
        dt_now_ns() - m->said >= LINE_SECONDS * 1000000000ull) {
        m->said = dt_now_ns();
        say_how_far(m);
    }
    return dt_status_ok(&status) || dt_rank_fail_data(rank, &status);
}

static bool continue_all(Many *m)
{
    do {
        if (!read_ahead(m) || !dt_generaterows_run(m->g, m->queue, m->n))
            return false;
    } while (m->n > 0 && !m->g->stopped);
    return true;
}

static bool run_many(DtGenerator *g)
{
    DtRank *rank = g->rank;
    const bool writes = rank->rank == 0;
    Many m = {.g = g, .cap = (size_t)g->next.n_rows * AHEAD_ROWS, .began = dt_now_ns()};
    m.at = DT_NEW_ARRAY(rank->memory, DtCompletion, m.cap);
    m.queue = DT_NEW_ARRAY(rank->memory, DtCompletion *, m.cap);
    m.said = m.began;
    m.lines.writer.fd = -1;
    g->grown = write_lines;
    g->context = &m;
    DtStatus status = dt_generateprompts_open(g->options, &g->words, &m.prompts);
    if (dt_status_ok(&status))
        status = dt_generateprompts_count(m.prompts, &m.total);
    if (dt_status_ok(&status) && writes)
        status = dt_generatelines_open(g->options, rank->shared->attempt > 0, &m.lines);
    bool good = dt_status_ok(&status) ? continue_all(&m) : dt_rank_fail_data(rank, &status);
    status = writes ? dt_generatelines_close(&m.lines) : DT_OK;
    good = good && (dt_status_ok(&status) || dt_rank_fail_data(rank, &status));
    if (good && writes && (!g->options->quiet || g->stopped))
        say_how_far(&m);
    forget(&m);
    dt_generateprompts_close(m.prompts);
    return good;
}

bool dt_generate_run(DtRank *rank, bool *ret_stopped)
{
    DtGenerator g;
    DtStatus status = open(rank->memory, rank->options, rank->plan, &g);
    bool good = dt_status_ok(&status) || dt_rank_fail_status(rank, &status);
    if (good) {
        dt_generaterows_load(&g, rank);
        good = rank->options->prompts ? run_many(&g) : run_one(&g);
    }
    *ret_stopped = g.stopped;
    close(&g);
    return good;
}
