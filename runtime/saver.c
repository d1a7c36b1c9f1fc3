/* SPDX-License-Identifier: Apache-2.0 */
/* A save in shares. The ranks of a machine share memory for a copy of everything that a checkpoint
 * holds, with each byte at its position among the checkpoint's files (shares.h):
 *
 *     rank    copies to it the elements that it supplies, and goes on with training
 *     thread  of each rank, once all ranks have copied: writes that rank's share, chunk by chunk,
 *             with a digest of each, and syncs its files
 *     thread  of rank 0, besides: makes the folder before; when all have synced, writes the
 *             manifest and renames the folder
 *
 * So training stops for as long as a copy takes. A copy is used again when the save before has
 * ended. */
#include "runtime/saver.h"

#include "runtime/cluster.h"
#include "runtime/comm_sync.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/save.h"

#include "base/page.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What threads of all ranks share. Counts add up over all saves of a run. */
typedef struct Common {
    DtSyncWord prepared; /* saves for which rank 0 has made the folder, or could not */
    DtSyncWord copied;   /* ranks that have copied */
    DtSyncWord written;  /* ranks that have written their shares, or could not */
    DtSyncWord ended;    /* saves */
    _Atomic uint32_t chunks; /* chunks written */
    _Atomic uint32_t failed; /* whether there is a failure; the thread that sets it writes it */
    DtStatus failure;
    DtStatus result; /* of the save that ended last */
    char temporary[4096];
} Common;

struct DtSaver {
    DtRank *rank;
    DtArena *memory;
    DtShares shares;
    DtSharesRange share; /* this rank's */
    uint32_t me, n;      /* its number among the writers */
    Common *common;
    uint8_t (*digests)[DT_DIGEST_BYTES]; /* of all chunks */
    char *image;         /* the bytes of the checkpoint by position */
    void *map;
    size_t map_bytes;
    uint32_t number;     /* saves that were begun */
    int64_t steps;
    bool runs;           /* there is a thread */
    pthread_t thread;
    atomic_bool cancelled;
    DtArena *own;        /* of a save; on rank 0 */
    DtSave save;
};

/* ---- waiting in threads ---- */

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

/* ---- writing ---- */

static void note_failure(struct DtSaver *saver, const DtStatus *status)
{
    if (atomic_exchange(&saver->common->failed, 1) == 0)
        saver->common->failure = *status;
}

static DtStatus write_chunks(struct DtSaver *saver, uint32_t f, DtPiece bytes,
                             DtSharedFile *part)
{
    const DtSharesFile *file = &saver->shares.files[f];
    const int64_t first = dt_save_first_chunk(&saver->shares, f);
    DtStatus status = DT_OK;
    const int64_t end = bytes.first + bytes.n;
    for (int64_t at = bytes.first, n; at < end && dt_status_ok(&status); at += n) {
        const int64_t left = end - at;
        const char *from = saver->image + file->at + at;
        n = left < DT_CHUNK_BYTES ? left : DT_CHUNK_BYTES;
        if (atomic_load(&saver->cancelled) || atomic_load(&saver->common->failed))
            return dt_status_fail(DT_EXIT_IO, "the save was ended");
        dt_digest_of(from, (size_t)n, saver->digests[first + at / DT_CHUNK_BYTES]);
        status = dt_file_shared_write(part, at, from, (size_t)n);
        atomic_fetch_add(&saver->common->chunks, 1);
        atomic_fetch_add(&saver->rank->slot->progress, 1);
    }
    return status;
}

static DtStatus write_share(struct DtSaver *saver)
{
    DtStatus status = DT_OK;
    char path[4096 + 64];
    DtSharedFile part;
    for (uint32_t f = 0; f < saver->shares.n_files && dt_status_ok(&status); f++) {
        const DtPiece bytes = dt_shares_in_file(&saver->shares.files[f], saver->share);
        if (bytes.n == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", saver->common->temporary,
                 saver->shares.files[f].name);
        status = dt_file_shared_open(&part, path);
        if (dt_status_ok(&status))
            status = write_chunks(saver, f, bytes, &part);
        status = dt_file_shared_close(&part, status);
    }
    return status;
}

/* ---- the thread ---- */

static void prepare(struct DtSaver *saver)
{
    Common *common = saver->common;
    DtStatus status = dt_save_prepare(&saver->save, &saver->shares);
    atomic_store(&common->failed, 0);
    common->failure = DT_OK;
    if (!dt_status_ok(&status))
        note_failure(saver, &status);
    strcpy(common->temporary, saver->save.temporary);
    dt_sync_raise(&common->prepared);
}

static DtStatus given_up(void)
{
    return dt_status_fail(DT_EXIT_RETRY, "the run is being ended");
}

static void end(struct DtSaver *saver, bool is_written)
{
    Common *common = saver->common;
    const DtStatus status = is_written ? common->failure : given_up();
    common->result = dt_save_commit(&saver->save, &saver->shares,
                                    (const uint8_t(*)[DT_DIGEST_BYTES])saver->digests, status);
    dt_sync_raise(&common->ended);
}

static void *run(void *context)
{
    struct DtSaver *saver = context;
    Common *common = saver->common;
    const bool is_first = saver->me == 0;
    const uint32_t all = saver->number * saver->n;
    if (is_first)
        prepare(saver);
    DtStatus status = given_up();
    if (wait_for(saver, &common->prepared, saver->number) && !atomic_load(&common->failed) &&
        wait_for(saver, &common->copied, all))
        status = write_share(saver);
    if (!dt_status_ok(&status)) /* a share that nobody wrote is never part of a checkpoint */
        note_failure(saver, &status);
    dt_sync_raise(&common->written);
    if (is_first)
        end(saver, wait_for(saver, &common->written, all) && !atomic_load(&saver->cancelled) &&
                       !dt_rank_aborted(saver->rank));
    return NULL;
}

/* Starts the thread, which blocks signals, so that these reach the thread that runs the rank. */
static void start(struct DtSaver *saver)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    saver->runs = pthread_create(&saver->thread, NULL, run, saver) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!saver->runs)
        run(saver);
}

static void join(struct DtSaver *saver)
{
    if (saver->runs)
        pthread_join(saver->thread, NULL);
    saver->runs = false;
    if (saver->own)
        dt_arena_free(saver->own);
    saver->own = NULL;
}

/* ---- the copy ---- */

/* Elements of a tensor on their way to the copy. */
typedef struct Copy {
    struct DtSaver *saver;
    const DtPlanStore *store;
    char *to; /* the piece's first element */
    int64_t size;
    bool sound;
} Copy;

static void copy_run(void *context, int64_t first, int64_t n, const char *at)
{
    Copy *copy = context;
    memcpy(copy->to + first * copy->size, at, (size_t)(n * copy->size));
    copy->sound = copy->sound && dt_save_is_sound(copy->store, at, n);
}

/* Copies elements in blocks that fit a cache of the processor, or a transfer from a device. */
static bool copy_held(void *context, uint32_t i, DtPiece held, DtPiece piece)
{
    struct DtSaver *saver = context;
    DtRank *rank = saver->rank;
    const DtHome *home = &saver->shares.homes[i];
    const DtPlanStore *store = home->store;
    const int64_t e = dt_kinds_size(store->dtype),
                  most = (rank->device_ops->is_host ? 1 << 18 : 1 << 22) / e;
    Copy copy = {.saver = saver,
                 .store = store,
                 .to = saver->image + saver->shares.at[i] + piece.first * e,
                 .size = e,
                 .sound = true};
    for (int64_t done = 0; done < held.n && copy.sound; done += most) {
        const DtPiece block = {held.first + done, held.n - done < most ? held.n - done : most};
        const int64_t offset =
            dt_pack_offset(rank->plan, rank->coord, store, home->iteration, block.first);
        DtLent lent =
            dt_device_lend(rank, dt_device_place(rank, store->arena, offset, block.n * e));
        dt_pack_runs(rank->plan, rank->coord, store, block, lent.at, piece, copy_run, &copy);
        dt_device_back(rank, &lent, false);
    }
    atomic_fetch_add(&rank->slot->progress, 1);
    if (copy.sound)
        return true;
    DtStatus status = dt_save_unsound(store, saver->shares.tensors[i].name);
    status = dt_save_failed(saver->steps, &status);
    return dt_rank_fail_status(rank, &status);
}

bool dt_saver_begin(DtRank *rank, const char *folder, int64_t steps)
{
    struct DtSaver *saver = rank->saver;
    saver->number++;
    saver->steps = steps;
    if (saver->me == 0) {
        saver->own = dt_arena_new();
        dt_save_describe(rank, saver->own, folder, steps, &saver->save);
        for (uint32_t f = 0; f < saver->shares.n_files; f++)
            memcpy(saver->image + saver->shares.files[f].at, saver->shares.files[f].header,
                   (size_t)saver->shares.files[f].header_bytes);
    }
    if (saver->number == 1)
        dt_file_be_late(rank->rank);
    const DtSharesRange all = {0, saver->shares.end};
    const bool good = dt_shares_supply(&saver->shares, rank->coord, all, copy_held, saver);
    if (good)
        dt_sync_raise(&saver->common->copied);
    start(saver);
    return good;
}

static uint32_t who_ends(const void *context)
{
    (void)context;
    return 0;
}

bool dt_saver_is_over(DtRank *rank, DtStatus *ret_status)
{
    struct DtSaver *saver = rank->saver;
    const uint32_t ended = atomic_load_explicit(&saver->common->ended.value, memory_order_acquire);
    if ((int32_t)(ended - saver->number) < 0)
        return false;
    join(saver);
    *ret_status = saver->common->result;
    if (!dt_status_ok(ret_status))
        *ret_status = dt_save_failed(saver->steps, ret_status);
    return true;
}

bool dt_saver_finish(DtRank *rank, DtStatus *ret_status)
{
    struct DtSaver *saver = rank->saver;
    DtSyncWord *ended = &saver->common->ended;
    if (saver->me == 0)
        join(saver);
    while (!dt_saver_is_over(rank, ret_status)) {
        DtSyncWait wait = dt_sync_new(rank, who_ends, NULL);
        wait.deadline_ns = 0; /* a disk may take its time; the supervisor sees rank 0's progress */
        const uint32_t value = atomic_load(&ended->value);
        if ((int32_t)(value - saver->number) < 0 &&
            !dt_sync_report(rank, dt_sync_wait(&wait, ended, value), &wait, ""))
            return false;
    }
    if (!dt_status_ok(ret_status) && ret_status->code != DT_EXIT_IO)
        return dt_rank_fail_status(rank, ret_status);
    return true;
}

/* ---- memory ---- */

/* Whether the machine, or this container, has room for so many bytes besides the arenas of its
 * ranks. */
static bool fits(const DtRank *rank, uint64_t bytes)
{
    bool contained;
    const uint64_t limit = dt_memory_limit("", &contained);
    uint64_t used = 0;
    for (uint32_t r = 0; r < rank->n_ranks && !rank->device_ops->arena; r++)
        for (uint32_t a = 0; a < rank->plan->n_arenas; a++)
            used += dt_rank_arena(rank->options, rank->plan, a, dt_rank_stage(rank->plan, r));
    return used < limit && bytes < (limit - used) / 16 * 15;
}

/* Makes the memory that ranks share as large as it has to be. Ranks' other shared memory comes
 * first in the file. */
static bool make(const DtRank *rank, uint64_t first, uint64_t bytes)
{
    if (rank->n_ranks == 1)
        return true;
    return ftruncate(rank->shared_fd, (off_t)(first + bytes)) == 0;
}

static bool map(struct DtSaver *saver, uint64_t first)
{
    const DtRank *rank = saver->rank;
    const int flags = rank->n_ranks == 1 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(NULL, saver->map_bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE,
                    rank->n_ranks == 1 ? -1 : rank->shared_fd,
                    rank->n_ranks == 1 ? 0 : (off_t)first);
    if (at == MAP_FAILED)
        return false;
    madvise(at, saver->map_bytes, MADV_HUGEPAGE); /* only a hint */
    saver->map = at;
    return true;
}

static bool meet(DtRank *rank)
{
    return rank->n_ranks == 1 || rank->comm_ops->barrier(rank->comm, &rank->world);
}

/* Divides the mapping: what threads share, digests, the copy. Its pages are touched here once, so
 * that no save waits for them. */
static void divide(struct DtSaver *saver, uint64_t before)
{
    saver->common = saver->map;
    saver->digests = (void *)((char *)saver->map + dt_page_up(sizeof(Common)));
    saver->image = (char *)saver->map + before;
    const DtSharesRange share = saver->share;
    for (int64_t at = share.from; at < share.to; at += (int64_t)dt_page_bytes())
        ((volatile char *)saver->image)[at] = 0;
}

bool dt_saver_open(DtRank *rank)
{
    DtArena *memory = dt_arena_new();
    struct DtSaver *saver = DT_NEW(memory, struct DtSaver);
    DtSharedLayout layout = {0};
    if (rank->options && dt_cluster_several(rank->options)) {
        dt_arena_free(memory);
        return true;
    }
    *saver = (struct DtSaver){.rank = rank, .memory = memory, .me = rank->rank, .n = rank->n_ranks};
    DtStatus status = dt_shares_list(
        rank->plan, memory, rank->save_file ? rank->save_file : DT_SHARES_FILE_BYTES,
        &saver->shares);
    if (!dt_status_ok(&status)) {
        dt_arena_free(memory);
        return dt_rank_fail_status(rank, &status);
    }
    saver->share = dt_shares_of(&saver->shares, saver->me, saver->n);
    if (rank->n_ranks > 1)
        dt_shared_layout(rank->plan, &layout);
    const uint64_t before = dt_page_up(sizeof(Common)) +
                            dt_page_up((uint64_t)dt_save_first_chunk(&saver->shares,
                                                                     saver->shares.n_files) *
                                       DT_DIGEST_BYTES);
    saver->map_bytes = dt_page_up(before + (uint64_t)saver->shares.end);
    if (rank->rank == 0 && (!fits(rank, saver->map_bytes) ||
                            !make(rank, layout.total, saver->map_bytes)))
        atomic_store(&rank->shared->no_copy, 1);
    bool good = meet(rank);
    if (good && !atomic_load(&rank->shared->no_copy) && !map(saver, layout.total))
        atomic_store(&rank->shared->no_copy, 1);
    good = good && meet(rank);
    if (good && !atomic_load(&rank->shared->no_copy)) {
        divide(saver, before);
        rank->saver = saver;
        return true;
    }
    if (saver->map)
        munmap(saver->map, saver->map_bytes);
    dt_arena_free(memory);
    return good;
}

void dt_saver_close(DtRank *rank)
{
    struct DtSaver *saver = rank->saver;
    if (saver == NULL)
        return;
    atomic_store(&saver->cancelled, true);
    join(saver);
    munmap(saver->map, saver->map_bytes);
    DtArena *memory = saver->memory;
    dt_arena_free(memory);
    rank->saver = NULL;
}
