/* SPDX-License-Identifier: Apache-2.0 */
/* Turns lines of JSON into the cached file of samples. Lines are read into batches of documents,
 * whose texts are encoded together, on all processors that this process may use. */
#include "runtime/data_chat.h"

#include "base/tryread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 1 << 20,
    BATCH_BYTES = 1 << 22, /* of the texts of a batch, and one line more */
    MOST_LINE = 1 << 26,   /* bytes */
    WRITE_WORDS = 1 << 18,
    SAY_SECONDS = 5
};

typedef struct Making {
    const DtTokensSource *source;
    const DtTokenizer *tokenizer;
    DtFileWriter writer;
    DtTokensTrailer trailer;
    uint64_t *starts; /* of each file */
    uint64_t counts[DT_TOKENS_COUNTS];
    uint32_t *waiting; /* words that are not written yet */
    size_t n_waiting;
    DtChatRows *rows;
    DtChatBatch batch;
    DtChatTokens tokens; /* of the batch */
    DtIds words;         /* of one document */
    DtText line;
    uint64_t said;
    bool has_said;
} Making;

/* ---- rows ---- */

static DtStatus flush(Making *m)
{
    DtStatus status =
        dt_file_writer_append(&m->writer, m->waiting, m->n_waiting * sizeof *m->waiting);
    m->n_waiting = 0;
    return status;
}

static DtStatus take_row(void *context, const uint32_t *words, size_t n)
{
    Making *m = context;
    for (size_t at = 0; at < n;) {
        const size_t room = WRITE_WORDS - m->n_waiting, take = n - at < room ? n - at : room;
        memcpy(m->waiting + m->n_waiting, words + at, take * sizeof *words);
        m->n_waiting += take;
        at += take;
        if (m->n_waiting < WRITE_WORDS)
            continue;
        DtStatus status = flush(m);
        if (!dt_status_ok(&status))
            return status;
    }
    m->trailer.n_ids += n;
    return DT_OK;
}

/* ---- documents ---- */

static void *room(void *at, size_t bytes)
{
    void *more = realloc(at, bytes ? bytes : 1);
    if (!more)
        dt_arena_exhausted(bytes);
    return more;
}

static DtStatus encode_batch(Making *m)
{
    return dt_datachatencode_run(m->tokenizer, &m->batch, m->source->texts->files[0].path,
                                 dt_datatokensmake_threads(), &m->tokens);
}

static void add_words(Making *m, const uint32_t *ids, size_t n, bool trained)
{
    dt_ids_room(&m->words, n);
    for (size_t i = 0; i < n; i++)
        m->words.at[m->words.n++] = ids[i] | (trained ? DT_CHAT_TRAINED : 0);
}

static void add_span(Making *m, size_t number)
{
    const DtChatSpan *span = &m->batch.spans[number];
    size_t n;
    const uint32_t *ids =
        dt_datachatencode_ids(m->tokenizer, &m->batch, &m->tokens, number, &n);
    add_words(m, ids, n, span->trained || (m->source->chat->flags & DT_PLAN_CHAT_ALL));
}

/* Turns the documents of the batch into rows, and forgets them. */
static DtStatus end_batch(Making *m)
{
    size_t span = 0;
    DtStatus status = encode_batch(m);
    const bool pairs = dt_chat_has_pairs(m->source->chat);
    size_t first = 0;
    for (size_t d = 0; d < m->batch.n_documents && dt_status_ok(&status); d++) {
        const bool is_first = !pairs || d % 2 == 0;
        if (is_first)
            m->words.n = 0;
        else
            first = m->words.n;
        for (; span < m->batch.documents[d].end; span++)
            add_span(m, span);
        if (!pairs)
            status = dt_datachatrows_add(m->rows, m->words.at, m->words.n);
        else if (!is_first)
            status = dt_datachatrows_pair(m->rows, m->words.at, first, m->words.n);
    }
    m->batch.n_spans = m->batch.n_documents = m->batch.text.len = 0;
    return status;
}

/* ---- lines ---- */

static DtStatus end_line(Making *m, uint32_t file, uint64_t number)
{
    const char *at = m->line.at;
    size_t len = m->line.len;
    if (number == 1 && len >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3, len -= 3;
    while (len > 0 && strchr(" \t\r", at[len - 1]))
        len--;
    DtStatus status =
        len ? dt_datachatline_read(&m->batch, m->source->chat, at, len, file, number) : DT_OK;
    m->line.len = 0;
    if (!dt_status_ok(&status))
        return dt_status_fail(DT_EXIT_IO, "%.200s:%llu: %.300s",
                              m->source->texts->files[file].path, (unsigned long long)number,
                              status.message);
    return m->batch.text.len >= BATCH_BYTES || m->batch.n_documents >= BATCH_BYTES / 64
               ? end_batch(m)
               : DT_OK;
}

static void say_progress(Making *m, uint32_t file, uint64_t at)
{
    const uint64_t now = dt_now_ns();
    if (now - m->said < SAY_SECONDS * UINT64_C(1000000000))
        return;
    m->said = now;
    m->has_said = true;
    fprintf(stderr, "dtrun: samples of %s: %.0f of %.0f MB\n", m->source->texts->files[file].path,
            (double)at / 1e6, (double)m->source->texts->files[file].view.len / 1e6);
}

/* Adds the bytes of a chunk to lines, and ends those that it ends. */
static DtStatus read_chunk(Making *m, uint32_t file, const char *chunk, size_t n, uint64_t *line)
{
    DtStatus status = DT_OK;
    while (n > 0 && dt_status_ok(&status)) {
        const char *newline = memchr(chunk, '\n', n);
        const size_t part = newline ? (size_t)(newline - chunk) : n;
        if (m->line.len + part > MOST_LINE)
            return dt_status_fail(DT_EXIT_IO, "%.250s:%llu: the line has more than %d MiB",
                                  m->source->texts->files[file].path, (unsigned long long)*line,
                                  MOST_LINE >> 20);
        dt_text_add_n(&m->line, chunk, part);
        if (newline)
            status = end_line(m, file, (*line)++);
        chunk += part + (newline != NULL);
        n -= part + (newline != NULL);
    }
    return status;
}

static DtStatus read_file(Making *m, uint32_t file)
{
    const DtTokenFile *f = &m->source->texts->files[file];
    char *chunk = room(NULL, CHUNK);
    uint64_t line = 1;
    DtStatus status = DT_OK;
    m->starts[file] = m->trailer.n_ids;
    for (size_t at = 0; at < f->view.len && dt_status_ok(&status); at += CHUNK) {
        const size_t n = f->view.len - at < CHUNK ? f->view.len - at : CHUNK;
        say_progress(m, file, at);
        if (dt_tryread_copy(&f->view, chunk, f->view.at + at, n))
            status = dt_status_fail(DT_EXIT_IO, "%.300s was cut short while it is read", f->path);
        else
            status = read_chunk(m, file, chunk, n, &line);
    }
    if (dt_status_ok(&status) && m->line.len > 0)
        status = end_line(m, file, line);
    free(chunk);
    return status;
}

/* ---- the tokenizer ---- */

/* Finds the id of a text that must be one token. */
static DtStatus find_token(Making *m, const char *token, uint32_t *ret_id)
{
    DtStatus status = DT_OK;
    m->batch.n_spans = m->batch.n_documents = m->batch.text.len = 0;
    dt_datachatline_text(&m->batch, token, strlen(token), false);
    status = encode_batch(m);
    m->batch.n_spans = m->batch.text.len = 0;
    if (dt_status_ok(&status) && m->tokens.ids.n != 1)
        return dt_status_fail(DT_EXIT_IO,
                              "the tokenizer has no token %s, which template %s writes: choose the "
                              "template that the model was trained with; `alpaca` needs no tokens "
                              "of its own",
                              token, m->source->chat->template);
    *ret_id = m->tokens.ids.n ? m->tokens.ids.at[0] : 0;
    return status;
}

/* Checks that the tokenizer has what the template needs, and chooses the id of padding: the last
 * token of a document. */
static DtStatus look_at_tokenizer(Making *m, uint32_t *ret_padding)
{
    const DtChatForm *form = m->source->chat;
    const DtChatTemplate *template =
        form->template ? dt_datachattemplate_find(form->template) : NULL;
    uint32_t n_back;
    const uint32_t *back = dt_tokenizer_back(m->tokenizer, &n_back);
    DtStatus status = DT_OK;
    *ret_padding = n_back ? back[n_back - 1] : 0;
    if (form->template && !template)
        return dt_status_fail(DT_EXIT_IO, "there is no template `%.60s`", form->template);
    if (m->trailer.largest > DT_CHAT_ID)
        return dt_status_fail(DT_EXIT_IO, "the tokenizer has ids of more than 28 bits");
    if ((!template || dt_datachattemplate_ends(template)) && n_back == 0)
        return dt_status_fail(DT_EXIT_IO,
                              "the tokenizer puts no token after a text, so the model would never "
                              "learn to end: say `end = \"TOKEN\"` in the call of `chat`");
    const char *const *tokens = template ? dt_datachattemplate_tokens(template) : NULL;
    for (; tokens && *tokens && dt_status_ok(&status); tokens++)
        status = find_token(m, *tokens, ret_padding);
    return status;
}

/* ---- the file ---- */

static DtStatus write_samples(Making *m)
{
    const DtTokens *texts = m->source->texts;
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < texts->n_files && dt_status_ok(&status); i++)
        status = read_file(m, i);
    if (dt_status_ok(&status))
        status = end_batch(m);
    if (dt_status_ok(&status))
        status = dt_datachatrows_end(m->rows);
    if (dt_status_ok(&status) && m->trailer.n_ids == 0)
        status = dt_status_fail(DT_EXIT_IO,
                                "there is no sample in %.250s: %llu documents are too long, %llu "
                                "have nothing to train",
                                texts->files[0].path,
                                (unsigned long long)m->counts[DT_CHAT_DROPPED],
                                (unsigned long long)m->counts[DT_CHAT_UNTRAINED]);
    if (dt_status_ok(&status))
        status = flush(m);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&m->writer, m->counts, sizeof m->counts);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&m->writer, m->starts, texts->n_files * sizeof *m->starts);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&m->writer, &m->trailer, sizeof m->trailer);
    return status;
}

static void free_making(Making *m)
{
    dt_datachatrows_free(m->rows);
    dt_datachatline_free(&m->batch);
    dt_text_free(&m->line);
    dt_datachatencode_free(&m->tokens);
    free(m->words.at);
    free(m->starts);
    free(m->waiting);
}

/* Makes the file with an open tokenizer. */
static DtStatus make_file(Making *m, const char *path)
{
    const uint32_t n_files = m->source->texts->n_files;
    uint32_t padding;
    const DtChatRowSink sink = {m, take_row};
    m->trailer = (DtTokensTrailer){.n_files = n_files,
                                   .largest = dt_tokenizer_ids(m->tokenizer),
                                   .width = sizeof(uint32_t)};
    memcpy(m->trailer.magic, DT_TOKENS_MAGIC, sizeof m->trailer.magic);
    memcpy(m->trailer.key, m->source->key, sizeof m->trailer.key);
    DtStatus status = look_at_tokenizer(m, &padding);
    if (!dt_status_ok(&status))
        return status;
    m->starts = room(NULL, (n_files + 1) * sizeof *m->starts);
    m->waiting = room(NULL, WRITE_WORDS * sizeof *m->waiting);
    m->rows = dt_datachatrows_new(m->source->chat, padding, m->counts, &sink);
    status = dt_file_writer_open(&m->writer, path);
    if (!dt_status_ok(&status))
        return status;
    status = write_samples(m);
    if (dt_status_ok(&status))
        return dt_file_writer_commit(&m->writer);
    dt_file_writer_abandon(&m->writer);
    return status;
}

DtStatus dt_datachatmake_write(const DtTokensSource *source, const char *path)
{
    DtTokenizer *tokenizer = NULL;
    Making m = {.source = source, .said = dt_now_ns()};
    DtStatus status = dt_tokenizer_open(source->tokenizer, source->end, &tokenizer);
    if (!dt_status_ok(&status))
        return status;
    m.tokenizer = tokenizer;
    status = make_file(&m, path);
    if (dt_status_ok(&status) && m.has_said)
        fprintf(stderr, "dtrun: %llu samples are made; the cache keeps them\n",
                (unsigned long long)m.trailer.n_ids / (unsigned long long)source->chat->row);
    free_making(&m);
    dt_tokenizer_close(tokenizer);
    return status;
}
