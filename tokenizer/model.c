/* SPDX-License-Identifier: Apache-2.0 */
/* Most pieces of a text have been met before: a table keeps their tokens. It holds the last piece
 * of each hash value, so it needs no other bound. */
#include "tokenizer/model.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEPT_BITS = 16, /* pieces whose tokens are kept, as a power of 2: 8 MiB */
    KEPT_BYTES = 46,
    KEPT_TOKENS = 18
};

typedef struct DtModelKept {
    uint64_t hash;
    uint8_t len, n; /* len 0: none */
    uint8_t bytes[KEPT_BYTES];
    uint32_t ids[KEPT_TOKENS];
} Kept;
_Static_assert(sizeof(Kept) == 128, "two lines of the cache");

DtModelWork *dt_model_begin(void)
{
    DtModelWork *work = calloc(1, sizeof *work);
    Kept *kept = calloc((size_t)1 << KEPT_BITS, sizeof *kept);
    if (!work || !kept)
        dt_arena_exhausted(sizeof *kept << KEPT_BITS);
    work->kept = kept;
    work->bpe = dt_bpe_work_new();
    return work;
}

void dt_model_end(DtModelWork *work)
{
    if (!work)
        return;
    dt_bpe_work_free(work->bpe);
    free(work->paths);
    free(work->text);
    free(work->kept);
    free(work);
}

/* ---- spaces ---- */

static size_t count_spaces(const uint8_t *piece, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += piece[i] == ' ';
    return n;
}

static size_t write_spaces(const DtTokenBytes *space, const uint8_t *piece, size_t len, uint8_t *to)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (piece[i] != ' ') {
            to[n++] = piece[i];
            continue;
        }
        memcpy(to + n, space->at, space->len);
        n += space->len;
    }
    return n;
}

static void encode_new(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                       DtIds *ids)
{
    const size_t spaces = model->space.at ? count_spaces(piece, len) : 0;
    if (spaces == 0) {
        model->form.encode(model, work, piece, len, ids);
        return;
    }
    const size_t wanted = len + spaces * model->space.len;
    if (wanted > work->cap_text) {
        work->cap_text = 2 * wanted;
        work->text = realloc(work->text, work->cap_text);
        if (!work->text)
            dt_arena_exhausted(work->cap_text);
    }
    len = write_spaces(&model->space, piece, len, work->text);
    model->form.encode(model, work, work->text, len, ids);
}

/* ---- pieces ---- */

void dt_model_encode(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                     DtIds *ids)
{
    dt_ids_room(ids, KEPT_TOKENS);
    if (len == 0 || len > KEPT_BYTES) {
        if (len > 0)
            encode_new(model, work, piece, len, ids);
        return;
    }
    const uint64_t hash = dt_hash_bytes(piece, len, 0);
    Kept *kept = &work->kept[hash >> (64 - KEPT_BITS)];
    if (kept->hash == hash && kept->len == len && memcmp(kept->bytes, piece, len) == 0) {
        memcpy(ids->at + ids->n, kept->ids, kept->n * sizeof kept->ids[0]);
        ids->n += kept->n;
        return;
    }
    const size_t before = ids->n;
    encode_new(model, work, piece, len, ids);
    if (ids->n - before > KEPT_TOKENS)
        return;
    kept->hash = hash;
    kept->len = (uint8_t)len;
    kept->n = (uint8_t)(ids->n - before);
    memcpy(kept->bytes, piece, len);
    memcpy(kept->ids, ids->at + before, kept->n * sizeof kept->ids[0]);
}

void dt_model_plain(const DtModel *model, const uint8_t *piece, size_t len, DtIds *ids)
{
    const DtTokenBytes same = {(const uint8_t *)" ", 1};
    const DtTokenBytes *space = model->space.at ? &model->space : &same;
    const size_t most = len * (space->len > 1 ? space->len : 1) + 1;
    uint8_t *text = malloc(most);
    if (!text)
        dt_arena_exhausted(most);
    len = write_spaces(space, piece, len, text);
    if (len > 0)
        model->form.plain(model, text, len, ids);
    free(text);
}

/* ---- byte-pair encoding ---- */

static void encode_bpe(const DtModel *model, DtModelWork *work, const uint8_t *piece, size_t len,
                       DtIds *ids)
{
    dt_bpe_encode(&model->bpe, work->bpe, piece, len, ids);
}

static void plain_bpe(const DtModel *model, const uint8_t *piece, size_t len, DtIds *ids)
{
    dt_bpe_plain(&model->bpe, piece, len, ids);
}

const DtModelForm dt_model_bpe = {encode_bpe, plain_bpe};
