/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shares.h"

#include "base/text.h"

#include <string.h>

/* ---- files ---- */

/* Puts tensors of wide elements before those of narrow ones. A header is a multiple of eight bytes
 * long, so then every element begins at a multiple of its size. */
static void add_by_size(const DtWanted *wanted, DtShares *shares)
{
    static const int64_t sizes[] = {8, 4, 2, 1};
    for (size_t s = 0; s < DT_COUNT(sizes); s++)
        for (uint32_t i = 0; i < wanted->n; i++)
            if (dt_kinds_size(wanted->tensors[i].dtype) == sizes[s]) {
                shares->tensors[shares->n] = wanted->tensors[i];
                shares->homes[shares->n++] = wanted->homes[i];
            }
}

/* At least the bytes that the description of a tensor takes in a header. */
static int64_t described(const DtTensor *tensor)
{
    enum { FIXED = 100, NUMBER = 21, ESCAPED = 6 };
    return FIXED + NUMBER * tensor->n_axes + ESCAPED * (int64_t)strlen(tensor->name);
}

/* Cuts the tensors from number `first` on into files of at most `most` bytes; returns how many.
 * Only counts if `files` is NULL. */
static uint32_t cut(const DtShares *shares, DtSavedFile kind, uint32_t first, int64_t most,
                    DtSharesFile *files)
{
    uint32_t n = 0, from = first;
    int64_t bytes = 0;
    for (uint32_t i = first; i <= shares->n; i++) {
        const bool is_end = i == shares->n;
        const int64_t more =
            is_end ? 0 : shares->tensors[i].bytes + described(&shares->tensors[i]);
        if (!is_end && (i == from || bytes <= most - more)) {
            bytes += more;
            continue;
        }
        if (files)
            files[n] = (DtSharesFile){.kind = kind, .first = from, .n = i - from};
        n++;
        from = i;
        bytes = more;
    }
    return n;
}

static DtStatus too_large(void)
{
    return dt_status_fail(DT_EXIT_FAILED,
                          "the plan is broken: its tensors have too many bytes for a checkpoint");
}

static DtStatus describe(DtArena *memory, DtShares *shares, DtSharesFile *file)
{
    DtText header = {0};
    DtStatus status =
        dt_safetensors_header(file->name, shares->tensors + file->first, file->n, &header);
    if (!dt_status_ok(&status))
        return status;
    file->header = dt_arena_strndup(memory, header.at, header.len);
    file->header_bytes = file->bytes = (int64_t)header.len;
    dt_text_free(&header);
    file->before = shares->bytes;
    file->at = (shares->end + DT_CHUNK_BYTES - 1) / DT_CHUNK_BYTES * DT_CHUNK_BYTES;
    if (file->at > INT64_MAX / 4) /* then file->at + file->bytes does not overflow below */
        return too_large();
    for (uint32_t i = file->first; i < file->first + file->n; i++) {
        shares->at[i] = file->at + file->bytes;
        if (__builtin_add_overflow(file->bytes, shares->tensors[i].bytes, &file->bytes) ||
            file->bytes > INT64_MAX / 4)
            return too_large();
    }
    shares->bytes += file->bytes;
    shares->end = file->at + file->bytes;
    return DT_OK;
}

DtStatus dt_shares_list(const DtPlan *plan, DtArena *memory, int64_t most, DtShares *ret_shares)
{
    static const char *const kinds[] = {"model", "optimizer"};
    DtWanted wanted[DT_SAVED_FILES];
    DtShares *s = ret_shares;
    uint32_t n = 0, first[DT_SAVED_FILES], cuts[DT_SAVED_FILES];
    *s = (DtShares){.plan = plan};
    for (int f = 0; f < DT_SAVED_FILES; f++) {
        DtStatus status = dt_wanted_of_stage(plan, 0, memory, f, &wanted[f]);
        if (!dt_status_ok(&status))
            return status;
        n += wanted[f].n;
    }
    s->tensors = DT_NEW_ARRAY(memory, DtTensor, n + 1);
    s->homes = DT_NEW_ARRAY(memory, DtHome, n + 1);
    s->at = DT_NEW_ARRAY(memory, int64_t, n + 1);
    for (int f = 0; f < DT_SAVED_FILES; f++) {
        first[f] = s->n;
        add_by_size(&wanted[f], s);
        cuts[f] = cut(s, f, first[f], most, NULL);
        s->files = dt_arena_alloc(memory, (s->n_files + cuts[f]) * sizeof *s->files);
        s->n_files += cuts[f];
    }
    for (uint32_t f = 0, at = 0; f < DT_SAVED_FILES; at += cuts[f++]) {
        const uint32_t all = s->n;
        s->n = f + 1 < DT_SAVED_FILES ? first[f + 1] : all;
        cut(s, f, first[f], most, s->files + at);
        s->n = all;
        for (uint32_t i = 0; i < cuts[f]; i++) {
            DtSharesFile *file = &s->files[at + i];
            file->name = cuts[f] == 1 ? dt_manifest_files[f]
                                      : dt_arena_printf(memory, "%s-%05u-of-%05u.safetensors",
                                                        kinds[f], i + 1, cuts[f]);
            DtStatus status = describe(memory, s, file);
            if (!dt_status_ok(&status))
                return status;
        }
    }
    return DT_OK;
}

/* ---- shares ---- */

/* The position of the chunk that begins nearest to the byte with this number, of those of all
 * files. */
static int64_t nearest_chunk(const DtShares *s, int64_t number)
{
    uint32_t f = 0;
    while (f + 1 < s->n_files && s->files[f + 1].before <= number)
        f++;
    const DtSharesFile *file = &s->files[f];
    const int64_t chunk =
        (number - file->before + DT_CHUNK_BYTES / 2) / DT_CHUNK_BYTES * DT_CHUNK_BYTES;
    if (chunk < file->bytes)
        return file->at + chunk;
    return f + 1 < s->n_files ? s->files[f + 1].at : s->end;
}

static int64_t begin_of(const DtShares *s, uint32_t writer, uint32_t n_writers)
{
    if (writer == 0 || writer == n_writers)
        return writer ? s->end : 0;
    const int64_t whole = s->bytes / n_writers, rest = s->bytes % n_writers;
    return nearest_chunk(s, whole * writer + rest * writer / n_writers);
}

DtSharesRange dt_shares_of(const DtShares *shares, uint32_t writer, uint32_t n_writers)
{
    return (DtSharesRange){begin_of(shares, writer, n_writers),
                           begin_of(shares, writer + 1, n_writers)};
}

DtSharesRange dt_shares_window(DtSharesRange share, int64_t round, int64_t most)
{
    const int64_t all = share.to - share.from;
    const int64_t first = all / most < round ? all : round * most;
    const int64_t n = all - first < most ? all - first : most;
    return (DtSharesRange){share.from + first, share.from + first + n};
}

int64_t dt_shares_rounds(DtSharesRange share, int64_t most)
{
    return (share.to - share.from + most - 1) / most;
}

DtPiece dt_shares_in_file(const DtSharesFile *file, DtSharesRange range)
{
    const int64_t from = range.from > file->at ? range.from - file->at : 0,
                  end = range.to - file->at < file->bytes ? range.to - file->at : file->bytes;
    return (DtPiece){from, end > from ? end - from : 0};
}

int64_t dt_shares_bytes(const DtShares *shares, DtSharesRange range)
{
    int64_t bytes = 0;
    for (uint32_t f = 0; f < shares->n_files; f++)
        bytes += dt_shares_in_file(&shares->files[f], range).n;
    return bytes;
}

/* ---- who supplies what ---- */

/* The first tensor that does not end before the position. */
static uint32_t first_at(const DtShares *s, int64_t position)
{
    uint32_t lo = 0, hi = s->n;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (s->at[middle] + s->tensors[middle].bytes <= position)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

bool dt_shares_supply(const DtShares *shares, const DtSupply *supply, DtSharesRange range,
                      DtSharesGive give, void *context)
{
    const uint32_t first_tensor = first_at(shares, range.from);
    for (uint32_t i = first_tensor; i < shares->n && shares->at[i] < range.to; i++) {
        const DtPlanStore *store = shares->homes[i].store;
        const int64_t e = dt_kinds_size(store->dtype), bytes = shares->tensors[i].bytes;
        int64_t first = range.from - shares->at[i], end = range.to - shares->at[i];
        if (bytes == 0)
            continue;
        first = first > 0 ? first / e : 0;
        end = end < bytes ? end / e : bytes / e;
        const DtPiece piece = {first, end - first};
        const DtPiece held = dt_pack_supplied(shares->plan, supply, store, piece);
        if (held.n > 0 && !give(context, i, held, piece))
            return false;
    }
    return true;
}

typedef struct Sum {
    const DtShares *shares;
    int64_t bytes;
} Sum;

static bool add_held(void *context, uint32_t i, DtPiece held, DtPiece piece)
{
    Sum *sum = context;
    (void)piece;
    sum->bytes += held.n * dt_kinds_size(sum->shares->homes[i].store->dtype);
    return true;
}

int64_t dt_shares_supplied(const DtShares *shares, const DtSupply *supply, DtSharesRange range)
{
    Sum sum = {.shares = shares};
    dt_shares_supply(shares, supply, range, add_held, &sum);
    return sum.bytes;
}

int64_t dt_shares_chunk(const DtShares *shares, int64_t position)
{
    int64_t chunk = 0;
    for (uint32_t f = 0; f < shares->n_files && shares->files[f].at < position; f++) {
        const DtPiece before = dt_shares_in_file(&shares->files[f], (DtSharesRange){0, position});
        chunk += dt_manifest_chunks(before.n);
    }
    return chunk;
}
