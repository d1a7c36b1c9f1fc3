/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's record of the data that the run has read, by which a resumed run recognises
 * other data: the position of a run is a number of samples, which is meaningful only for the
 * same data. */
#include "runtime/data_images.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

enum { SHARES = 1000000000 };

/* Of a stream at most this many pieces of this size are hashed, spread evenly over it: 1 MiB, which
 * takes less than a millisecond once the data is in memory. */
enum { PIECES = 256, PIECE = 4096 };

typedef struct Piece {
    const uint8_t *at;
    size_t len;
    uint64_t digest; /* of all earlier sources; then also of this one */
} Piece;

static void add_piece(void *context)
{
    Piece *piece = context;
    piece->digest = dt_hash_bytes(piece->at, piece->len, piece->digest);
}

/* Adds the bytes at .. at + PIECE - 1 of all files, in the order of the files, to the digest. */
static DtStatus add_bytes(const DtTokens *tokens, uint64_t at, uint64_t *digest)
{
    uint64_t left = PIECE;
    for (uint32_t i = 0; i < tokens->n_files && left > 0; i++) {
        DtTokenFile *file = &tokens->files[i];
        if (at >= file->view.len) {
            at -= file->view.len;
            continue;
        }
        const uint64_t there = file->view.len - at;
        Piece piece = {file->view.at + at, there < left ? there : left, *digest};
        DtStatus status = dt_datatext_try(tokens, file, add_piece, &piece);
        if (!dt_status_ok(&status))
            return status;
        *digest = piece.digest;
        left -= piece.len;
        at = 0;
    }
    return DT_OK;
}

static DtStatus digest_of(const DtTokens *tokens, uint64_t bytes, uint64_t *ret_digest)
{
    uint64_t digest = 0;
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < tokens->n_files; i++) {
        const uint64_t len = tokens->files[i].view.len;
        digest = dt_hash_bytes(&len, sizeof len, digest);
    }
    const uint64_t most = (uint64_t)PIECES * PIECE,
                   step = bytes > most ? (bytes - PIECE) / (PIECES - 1) : PIECE;
    for (uint64_t i = 0; i < PIECES && i * step < bytes && dt_status_ok(&status); i++)
        status = add_bytes(tokens, i * step, &digest);
    *ret_digest = digest;
    return status;
}

DtStatus dt_data_fact(DtArena *memory, const DtData *data, DtDataFact *ret_fact)
{
    DtDataFact *fact = ret_fact;
    *fact =
        (DtDataFact){.input = dt_arena_printf(memory, "%s%s", data->reader->is_eval ? "eval." : "",
                                              dt_plan_str(data->plan, data->inputs[0].name)),
                     .source = data->synthetic ? "random numbers" : data->name,
                     .share = llround(data->mixed * SHARES)};
    if (data->reader->part > 1)
        fact->input = dt_arena_printf(memory, "%s.%u", fact->input, data->reader->part);
    if (data->synthetic)
        return DT_OK;
    fact->samples = data->windows;
    fact->values = data->row + data->more;
    if (data->images) {
        DtStatus status = dt_dataimages_fact(data, fact);
        return dt_status_ok(&status) ? status : dt_data_located(data, status);
    }
    fact->first = data->tokens.first;
    for (uint32_t i = 0; i < data->tokens.n_files; i++)
        fact->bytes += (int64_t)data->tokens.files[i].view.len;
    DtStatus status = digest_of(&data->tokens, (uint64_t)fact->bytes, &fact->digest);
    return dt_status_ok(&status) ? status : dt_data_located(data, status);
}

/* Appends how a number has changed, such as "4000 bytes, now 5000"; returns whether it has. */
static bool add_change(DtText *text, const char *what, int64_t before, int64_t now)
{
    if (before != now)
        dt_text_printf(text, "%s%lld %s, now %lld", text->len ? "; " : "", (long long)before, what,
                       (long long)now);
    return before != now;
}

/* Appends which of the run's samples come from a source. share: 0 if it is no part of a mixture. */
static void add_share(DtText *text, int64_t share)
{
    if (share > 0)
        dt_text_printf(text, "%.6g of the mixture's samples", (double)share / SHARES);
    else
        dt_text_add(text, "all samples");
}

bool dt_data_changed(const DtDataFact *before, const DtDataFact *now, DtText *ret_text)
{
    if ((before->bytes == 0) != (now->bytes == 0) && before->share == now->share) {
        dt_text_add(ret_text,
                    before->bytes ? "files, now random numbers" : "random numbers, now files");
        return true;
    }
    bool changed = before->share != now->share;
    if (changed) {
        add_share(ret_text, before->share);
        dt_text_add(ret_text, ", now ");
        add_share(ret_text, now->share);
    }
    changed |= add_change(ret_text, "bytes", before->bytes, now->bytes);
    changed |= add_change(ret_text, "samples", before->samples, now->samples);
    changed |= add_change(ret_text, "values in a sample", before->values, now->values);
    changed |=
        add_change(ret_text, "values before the first that is read", before->first, now->first);
    if (!changed && before->digest != now->digest)
        dt_text_add(ret_text, "other contents of the same size");
    return changed || before->digest != now->digest;
}
