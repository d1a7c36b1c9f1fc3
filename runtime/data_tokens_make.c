/* SPDX-License-Identifier: Apache-2.0 */
/* Turns texts into a file of ids, on all processors that this process may use. The ids are written
 * as they are made, beside the place of the file, which they take when all are there: neither an
 * end in between nor a full disk leaves a file that looks whole. */
#include "runtime/data_tokens.h"

#include "base/tryread.h"
#include "tokenizer/tokenizer.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_IDS = 1 << 18, SAY_SECONDS = 5, MOST_THREADS = 64 };

typedef struct Making {
    const DtTokensSource *source;
    DtFileWriter writer;
    DtTokensTrailer trailer;
    uint64_t *starts;     /* of each file */
    uint8_t *waiting;     /* ids that are not written yet */
    size_t n_waiting;     /* bytes */
    uint64_t bytes;       /* of all texts */
    uint64_t began, said; /* nanoseconds */
    bool has_said;
} Making;

/* ---- reading ---- */

static uint64_t text_bytes(void *context, uint32_t document)
{
    return ((const Making *)context)->source->texts->files[document].view.len;
}

static const char *text_name(void *context, uint32_t document)
{
    return ((const Making *)context)->source->texts->files[document].path;
}

static DtStatus read_text(void *context, uint32_t document, uint64_t at, size_t n, uint8_t *to)
{
    const DtTokenFile *file = &((const Making *)context)->source->texts->files[document];
    if (dt_tryread_copy(&file->view, to, file->view.at + at, n))
        return dt_status_fail(DT_EXIT_IO, "%.300s was cut short while it is read", file->path);
    return DT_OK;
}

/* ---- writing ---- */

static DtStatus flush(Making *m)
{
    DtStatus status = dt_file_writer_append(&m->writer, m->waiting, m->n_waiting);
    m->n_waiting = 0;
    return status;
}

static DtStatus take_ids(void *context, const uint32_t *ids, size_t n)
{
    Making *m = context;
    for (size_t i = 0; i < n; i++) {
        if (m->n_waiting == WRITE_IDS * sizeof *ids) {
            DtStatus status = flush(m);
            if (!dt_status_ok(&status))
                return status;
        }
        memcpy(m->waiting + m->n_waiting, &ids[i], m->trailer.width); /* little-endian */
        m->n_waiting += m->trailer.width;
    }
    m->trailer.n_ids += n;
    return DT_OK;
}

static DtStatus end_text(void *context, uint32_t document)
{
    Making *m = context;
    m->starts[document + 1] = m->trailer.n_ids;
    return DT_OK;
}

/* ---- progress ---- */

static double mb(uint64_t bytes) { return (double)bytes / 1e6; }

static DtStatus say_progress(void *context, uint64_t done)
{
    Making *m = context;
    const uint64_t now = dt_now_ns();
    if (now - m->said < SAY_SECONDS * UINT64_C(1000000000))
        return DT_OK;
    m->said = now;
    m->has_said = true;
    fprintf(stderr, "dtrun: tokens of %s: %.0f of %.0f MB, %.1f MB/s\n",
            m->source->texts->files[0].path, mb(done), mb(m->bytes),
            mb(done) / ((double)(now - m->began) * 1e-9));
    return DT_OK;
}

static void say_end(const Making *m)
{
    if (m->has_said)
        fprintf(stderr, "dtrun: %llu tokens of %.0f MB, made in %.0f s; the cache keeps them\n",
                (unsigned long long)m->trailer.n_ids, mb(m->bytes),
                (double)(dt_now_ns() - m->began) * 1e-9);
}

/* ---- the file ---- */

uint32_t dt_datatokensmake_threads(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : (uint32_t)n;
}

static DtStatus write_ids(Making *m, const DtTokenizer *tokenizer)
{
    const DtTokens *texts = m->source->texts;
    const DtTextSource from = {m, texts->n_files, text_bytes, read_text, text_name, NULL, 0};
    const DtTokenSink to = {m, take_ids, end_text, say_progress};
    DtStatus status = dt_encode_documents(tokenizer, &from, dt_datatokensmake_threads(), &to);
    if (dt_status_ok(&status))
        status = flush(m);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&m->writer, m->starts, texts->n_files * sizeof *m->starts);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&m->writer, &m->trailer, sizeof m->trailer);
    if (dt_status_ok(&status))
        return dt_file_writer_commit(&m->writer);
    dt_file_writer_abandon(&m->writer);
    return status;
}

DtStatus dt_datatokensmake_write(const DtTokensSource *source, const char *path)
{
    DtTokenizer *tokenizer = NULL;
    Making m = {.source = source, .began = dt_now_ns(), .said = dt_now_ns()};
    DtStatus status = dt_tokenizer_open(source->tokenizer, source->end, &tokenizer);
    if (!dt_status_ok(&status))
        return status;
    m.trailer = (DtTokensTrailer){.n_files = source->texts->n_files,
                                  .largest = dt_tokenizer_ids(tokenizer)};
    m.trailer.width = m.trailer.largest <= 1 << 16 ? 2 : 4;
    memcpy(m.trailer.magic, DT_TOKENS_MAGIC, sizeof m.trailer.magic);
    memcpy(m.trailer.key, source->key, sizeof m.trailer.key);
    for (uint32_t i = 0; i < source->texts->n_files; i++)
        m.bytes += source->texts->files[i].view.len;
    DtArena *memory = dt_arena_new();
    m.starts = DT_NEW_ARRAY(memory, uint64_t, source->texts->n_files + 1);
    m.waiting = dt_arena_alloc(memory, WRITE_IDS * sizeof(uint32_t));
    status = dt_file_writer_open(&m.writer, path);
    if (dt_status_ok(&status))
        status = write_ids(&m, tokenizer);
    if (dt_status_ok(&status))
        say_end(&m);
    dt_arena_free(memory);
    dt_tokenizer_close(tokenizer);
    return status;
}
