/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a save. It collects a chunk of its rank's share from what ranks supply, makes the
 * digest while the chunk is in a cache, and writes it. The thread of rank 0 also makes the folder
 * before, and writes the manifest and renames the folder when all shares are synced. */
#include "runtime/saver_internal.h"

#include "base/reserve.h"

#include <stdlib.h>
#include <string.h>

/* ---- waiting ---- */

/* Waits until the count has reached a number. False: the run is to end. Only the main thread says
 * in the rank's slot what the rank waits for. */
static bool wait_for(struct DtSaver *saver, DtSyncWord *word, uint32_t number)
{
    uint32_t seen = 0;
    for (;;) {
        const uint32_t value = atomic_load_explicit(&word->value, memory_order_acquire);
        if ((int32_t)(value - number) >= 0)
            return true;
        if (atomic_load(&saver->cancelled) || dt_rank_aborted(saver->rank))
            return false;
        const uint32_t chunks = atomic_load(&saver->common->chunks);
        if (chunks != seen) /* rank 0 makes progress as long as any writer does */
            atomic_fetch_add(&saver->rank->slot->progress, 1);
        seen = chunks;
        dt_sync_sleep(word, value);
    }
}

static DtStatus given_up(void)
{
    return dt_status_fail(DT_EXIT_RETRY, "the run is being ended");
}

static void note_failure(struct DtSaver *saver, const DtStatus *status)
{
    if (atomic_exchange(&saver->common->failed, 1) == 0)
        saver->common->failure = *status;
}

/* ---- a chunk ---- */

/* The chunk that is collected: a range of positions, all of one file. */
typedef struct Chunk {
    struct DtSaver *saver;
    DtSharesRange range;
    uint32_t file;
    DtPiece bytes; /* of the file */
} Chunk;

/* Elements that a source supplies. */
typedef struct Part {
    Chunk *chunk;
    DtSaverSource *source;
    int64_t to, size, n; /* offset of the piece in the chunk; bytes of an element; of all so far */
    const char *from;    /* the first of the elements held */
} Part;

static void put_run(void *context, int64_t first, int64_t n, const char *at)
{
    Part *part = context;
    memcpy(part->chunk->saver->chunk + part->to + first * part->size, at,
           (size_t)(n * part->size));
    part->n += n * part->size;
}

static bool put_held(void *context, uint32_t i, DtPiece held, DtPiece piece)
{
    Part *part = context;
    const DtShares *shares = &part->chunk->saver->shares;
    const DtPlanStore *store = shares->homes[i].store;
    part->size = dt_kinds_size(store->dtype);
    part->to = shares->at[i] + piece.first * part->size - part->chunk->range.from;
    dt_pack_runs(shares->plan, part->source->coord, store, held, part->from, piece, put_run, part);
    part->from += held.n * part->size;
    return true;
}

/* Copies what all sources supply, and the header, to the place of the chunk. It begins at a page,
 * so that the disk reads it from there. */
static DtStatus collect(Chunk *chunk)
{
    struct DtSaver *saver = chunk->saver;
    const DtSharesFile *file = &saver->shares.files[chunk->file];
    const int64_t header = file->header_bytes - chunk->bytes.first;
    int64_t n = header < 0 ? 0 : header < chunk->bytes.n ? header : chunk->bytes.n;
    if (n > 0)
        memcpy(saver->chunk, file->header + chunk->bytes.first, (size_t)n);
    for (uint32_t s = 0; s < saver->n_sources; s++) {
        DtSaverSource *source = &saver->sources[s];
        Part part = {.chunk = chunk, .source = source, .from = source->from};
        dt_shares_supply(&saver->shares, &source->supply, chunk->range, put_held, &part);
        n += part.n;
    }
    return n == chunk->bytes.n
               ? DT_OK
               : dt_status_fail(DT_EXIT_FAILED, "the plan is broken: ranks supply %lld of %lld "
                                                "bytes of a chunk",
                                (long long)n, (long long)chunk->bytes.n);
}

/* Goes on to the next chunk in what ranks of this host supply. */
static void pass(const Chunk *chunk)
{
    struct DtSaver *saver = chunk->saver;
    for (uint32_t s = 0; s < saver->n_sources; s++) {
        DtSaverSource *source = &saver->sources[s];
        if (source->is_here)
            source->from += dt_shares_supplied(&saver->shares, &source->supply, chunk->range);
    }
}

/* ---- a share ---- */

/* The file of which a share is being written. */
typedef struct Writing {
    DtSharedFile part;
    uint32_t file; /* UINT32_MAX: none */
} Writing;

static DtStatus change_file(struct DtSaver *saver, Writing *writing, uint32_t file)
{
    char path[4096 + 64];
    if (writing->file == file)
        return DT_OK;
    DtStatus status = writing->file == UINT32_MAX ? DT_OK
                                                  : dt_file_shared_close(&writing->part, DT_OK);
    writing->file = UINT32_MAX;
    if (!dt_status_ok(&status) || file == UINT32_MAX)
        return status;
    snprintf(path, sizeof path, "%s/%s", saver->temporary, saver->shares.files[file].name);
    status = dt_file_shared_open(&writing->part, path);
    writing->file = dt_status_ok(&status) ? file : UINT32_MAX;
    const DtPiece mine = dt_shares_in_file(&saver->shares.files[file], saver->share);
    return dt_status_ok(&status) ? dt_reserve_space(writing->part.fd, path, mine.first, mine.n)
                                 : status;
}

static DtStatus write_chunk(Chunk *chunk, Writing *writing)
{
    struct DtSaver *saver = chunk->saver;
    DtStatus status = change_file(saver, writing, chunk->file);
    if (dt_status_ok(&status))
        status = collect(chunk);
    if (!dt_status_ok(&status))
        return status;
    dt_digest_of(saver->chunk, (size_t)chunk->bytes.n,
                 saver->digests[dt_shares_chunk(&saver->shares, chunk->range.from)]);
    return dt_file_shared_write(&writing->part, chunk->bytes.first, saver->chunk,
                                (size_t)chunk->bytes.n);
}

/* The chunk at these positions. False: none is there, between two files. */
static bool chunk_at(struct DtSaver *saver, DtSharesRange range, Chunk *ret_chunk)
{
    *ret_chunk = (Chunk){.saver = saver, .range = range};
    for (; ret_chunk->file < saver->shares.n_files; ret_chunk->file++) {
        ret_chunk->bytes = dt_shares_in_file(&saver->shares.files[ret_chunk->file], range);
        if (ret_chunk->bytes.n > 0)
            return true;
    }
    return false;
}

/* Does what there is to do with one chunk. After a failure nothing is written, but ranks of other
 * hosts still get what they wait for, and this rank takes what they send. */
static bool do_chunk(struct DtSaver *saver, int64_t round, Writing *writing, DtStatus *status)
{
    Chunk chunk;
    const DtSharesRange range = dt_shares_window(saver->share, round, DT_CHUNK_BYTES);
    if (atomic_load(&saver->cancelled) ||
        (saver->links && !dt_saverlinks_take(saver->links, round)))
        return false;
    if (dt_status_ok(status) && atomic_load(&saver->common->failed))
        *status = dt_status_fail(DT_EXIT_IO, "the save was ended");
    if (dt_status_ok(status) && chunk_at(saver, range, &chunk)) {
        *status = write_chunk(&chunk, writing);
        pass(&chunk);
        if (!dt_status_ok(status))
            note_failure(saver, status);
    }
    if (saver->links)
        dt_saverlinks_used(saver->links);
    atomic_fetch_add(&saver->common->chunks, 1);
    atomic_fetch_add(&saver->rank->slot->progress, 1);
    return true;
}

static DtStatus write_share(struct DtSaver *saver)
{
    const int64_t rounds = dt_shares_rounds(saver->share, DT_CHUNK_BYTES);
    Writing writing = {.part.fd = -1, .file = UINT32_MAX};
    DtStatus status = DT_OK;
    bool good = true;
    for (uint32_t s = 0; s < saver->n_sources; s++)
        saver->sources[s].from = saver->copies + saver->sources[s].at;
    if (saver->links)
        dt_saverlinks_begin(saver->links);
    for (int64_t round = 0; good && round < rounds; round++)
        good = do_chunk(saver, round, &writing, &status);
    if (saver->links && good)
        good = dt_saverlinks_finish(saver->links);
    if (!good)
        status = given_up();
    if (!dt_status_ok(&status))
        return dt_file_shared_close(&writing.part, status);
    return change_file(saver, &writing, UINT32_MAX);
}

/* ---- the thread ---- */

static void take_status(struct DtSaver *saver, const DtStatus *status)
{
    atomic_store(&saver->common->failed, 0);
    atomic_store(&saver->common->has_folder, dt_status_ok(status));
    saver->common->failure = DT_OK;
    if (!dt_status_ok(status))
        note_failure(saver, status);
    dt_sync_raise(&saver->common->prepared);
}

/* Rank 0 makes the folder; the first rank of another host hears that it has. */
static void prepare(struct DtSaver *saver)
{
    DtStatus status;
    if (saver->me == 0) {
        status = dt_save_prepare(&saver->save, &saver->shares);
        if (saver->links && !dt_saverlinks_tell(saver->links, DT_SAVER_PREPARED, &status))
            status = given_up();
    } else if (!dt_saverlinks_hear(saver->links, DT_SAVER_PREPARED, &status))
        status = given_up();
    take_status(saver, &status);
}

/* Ends the save once all ranks of this host are through. Rank 0 hears from the other hosts, puts
 * the checkpoint in its place and says so. */
static void end(struct DtSaver *saver, bool is_written)
{
    DtSaverCommon *common = saver->common;
    DtStatus status = is_written ? common->failure : given_up(), others;
    if (saver->me > 0) {
        if (!dt_saverlinks_report(saver->links, &status) ||
            !dt_saverlinks_hear(saver->links, DT_SAVER_ENDED, &common->result))
            common->result = given_up();
        dt_sync_raise(&common->ended);
        return;
    }
    if (saver->links && !dt_saverlinks_collect(saver->links, &others))
        others = given_up();
    if (saver->links && dt_status_ok(&status))
        status = others;
    common->result = dt_save_commit(&saver->save, &saver->shares,
                                    (const uint8_t(*)[DT_DIGEST_BYTES])saver->digests, status);
    if (saver->links) /* if a host is gone, that ends the run, and the checkpoint is there */
        dt_saverlinks_tell(saver->links, DT_SAVER_ENDED, &common->result);
    dt_sync_raise(&common->ended);
}

void *dt_saverwrite_run(void *context)
{
    struct DtSaver *saver = context;
    DtSaverCommon *common = saver->common;
    const bool is_head = saver->me == saver->first;
    const uint32_t all = saver->number * saver->n_here;
    if (is_head)
        prepare(saver);
    DtStatus status = given_up();
    /* a rank that fails before this one is here changes nothing: other hosts wait for its parts */
    if (wait_for(saver, &common->prepared, saver->number) && atomic_load(&common->has_folder) &&
        wait_for(saver, &common->copied, all))
        status = write_share(saver);
    if (!dt_status_ok(&status)) /* a share that nobody wrote is never part of a checkpoint */
        note_failure(saver, &status);
    dt_sync_raise(&common->written);
    if (is_head)
        end(saver, wait_for(saver, &common->written, all) && !atomic_load(&saver->cancelled) &&
                       !dt_rank_aborted(saver->rank));
    return NULL;
}
