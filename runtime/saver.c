/* SPDX-License-Identifier: Apache-2.0 */
/* A save in shares. Each rank copies what it supplies to a checkpoint (shares.h), one element after
 * the other, and goes on with training. Its thread then collects a share of the files and writes
 * it:
 *
 *     rank    copies what it supplies, ordered by the share to which it belongs
 *     thread  of each rank, once all ranks of the host have copied: takes from their copies, and
 *             from what other hosts send, one chunk of its share after the other, makes the digest,
 *             writes it past the system's cache, and syncs the files (saver_write.c)
 *     thread  of rank 0, besides: makes the folder before; when all have synced, writes the
 *             manifest and renames the folder
 *
 * So training stops for as long as a copy takes. A copy is used again when the save before has
 * ended. The ranks of a host share the memory of their copies. What one host supplies to a share of
 * another goes over a wire (saver_links.c). If hosts do not share the folder, ranks of the first
 * host write everything. */
#include "runtime/saver_internal.h"

#include "runtime/cluster.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "runtime/outputs.h"
#include "runtime/same_folder.h"
#include "runtime/spread.h"

#include "base/page.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the copy ---- */

/* Elements on their way to the copy. */
typedef struct Copy {
    struct DtSaver *saver;
    char *to;
    const DtPlanStore *store; /* of the elements that are looked at */
    bool sound;
} Copy;

static void look_run(void *context, int64_t first, int64_t n, const char *at)
{
    Copy *copy = context;
    (void)first;
    copy->sound = copy->sound && dt_save_is_sound(copy->store, at, n);
}

/* Whether the elements may be saved. Those in padding, which may be anything, do not count. */
static bool is_sound(Copy *copy, DtPiece held, const char *at, DtPiece piece)
{
    const DtRank *rank = copy->saver->rank;
    copy->sound = true;
    if (!dt_save_is_sound(copy->store, at, held.n))
        dt_pack_runs(rank->plan, rank->coord, copy->store, held, at, piece, look_run, copy);
    return copy->sound;
}

/* Copies elements in blocks that fit a cache of the processor, or a transfer from a device. */
static bool copy_held(void *context, uint32_t i, DtPiece held, DtPiece piece)
{
    Copy *copy = context;
    struct DtSaver *saver = copy->saver;
    DtRank *rank = saver->rank;
    const DtHome *home = &saver->shares.homes[i];
    const DtPlanStore *store = copy->store = home->store;
    const int64_t e = dt_kinds_size(store->dtype),
                  most = (rank->device_ops->is_host ? 1 << 18 : 1 << 22) / e;
    bool sound = true;
    for (int64_t done = 0; done < held.n && sound; done += most) {
        const DtPiece block = {held.first + done, held.n - done < most ? held.n - done : most};
        const int64_t offset =
            dt_pack_offset(rank->plan, rank->coord, store, home->iteration, block.first);
        DtLent lent =
            dt_device_lend(rank, dt_device_place(rank, store->arena, offset, block.n * e));
        memcpy(copy->to, lent.at, (size_t)(block.n * e));
        sound = is_sound(copy, block, lent.at, piece);
        dt_device_back(rank, &lent, false);
        copy->to += block.n * e;
    }
    atomic_fetch_add(&rank->slot->progress, 1);
    if (sound)
        return true;
    DtStatus status = dt_save_unsound(store, saver->shares.tensors[i].name);
    status = dt_save_failed(saver->steps, &status);
    return dt_rank_fail_status(rank, &status);
}

static bool copy_all(struct DtSaver *saver)
{
    Copy copy = {.saver = saver, .to = saver->copies + saver->copy_at};
    DtSupply supply = {.rank = saver->me, .hosts = saver->hosts};
    for (; supply.writer < saver->n_writers; supply.writer++)
        if (!dt_shares_supply(&saver->shares, &supply,
                              dt_shares_of(&saver->shares, supply.writer, saver->n_writers),
                              copy_held, &copy))
            return false;
    return true;
}

/* ---- the thread ---- */

/* Starts the thread, which blocks signals, so that these reach the thread that runs the rank. */
static void start(struct DtSaver *saver)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    saver->runs = pthread_create(&saver->thread, NULL, dt_saverwrite_run, saver) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!saver->runs)
        dt_saverwrite_run(saver);
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

bool dt_saver_begin(DtRank *rank, const char *folder, int64_t steps)
{
    struct DtSaver *saver = rank->saver;
    char path[4096];
    saver->number++;
    saver->steps = steps;
    DtStatus status = dt_checkpointlist_paths(folder, steps, rank->shared->attempt, path,
                                              saver->temporary);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    if (saver->me == 0) {
        saver->own = dt_arena_new();
        dt_save_describe(rank, saver->own, folder, steps, &saver->save);
    }
    if (saver->number == 1)
        dt_file_be_late(rank->rank);
    const bool good = copy_all(saver);
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

/* ---- who supplies what ---- */

static void add_source(struct DtSaver *saver, const DtSupply *supply, int64_t at)
{
    DtSaverSource *source = &saver->sources[saver->n_sources++];
    *source = (DtSaverSource){.supply = *supply, .is_here = at >= 0, .at = at};
    dt_rank_coordinates(saver->shares.plan, supply->rank, source->coord);
}

/* Notes what the ranks of this host supply, one copy after the other: to this rank's share, and
 * what this rank supplies to other hosts. Each copy begins at a page. */
static void list_here(struct DtSaver *saver)
{
    int64_t at = 0;
    const uint32_t end = saver->first + saver->n_here;
    DtSupply s = {.hosts = saver->hosts};
    for (s.rank = saver->first; s.rank < end; s.rank++) {
        const int64_t begin = at = (int64_t)dt_page_up((uint64_t)at);
        for (s.writer = 0; s.writer < saver->n_writers; s.writer++) {
            const DtSharesRange share =
                dt_shares_of(&saver->shares, s.writer, saver->n_writers);
            const int64_t bytes = dt_shares_supplied(&saver->shares, &s, share);
            const bool is_there = s.writer < saver->first || s.writer >= end;
            if (bytes > 0 && s.writer == saver->me)
                add_source(saver, &s, at);
            if (bytes > 0 && s.rank == saver->me && is_there)
                saver->goals[saver->n_goals++] =
                    (DtSaverGoal){.supply = s, .share = share, .at = at};
            at += bytes;
        }
        if (s.rank == saver->me) {
            saver->copy_at = begin;
            saver->copy_bytes = at - begin;
        }
    }
    saver->all_bytes = at;
}

/* Notes which ranks of other hosts supply something to this rank's share. */
static void list_there(struct DtSaver *saver)
{
    DtSupply s = {.writer = saver->me, .hosts = saver->hosts};
    for (; s.rank < saver->rank->n_ranks && saver->me < saver->n_writers; s.rank++)
        if ((s.rank < saver->first || s.rank >= saver->first + saver->n_here) &&
            dt_shares_supplied(&saver->shares, &s, saver->share) > 0)
            add_source(saver, &s, -1);
}

static void list_all(struct DtSaver *saver)
{
    if (saver->me < saver->n_writers)
        saver->share = dt_shares_of(&saver->shares, saver->me, saver->n_writers);
    saver->sources = DT_NEW_ARRAY(saver->memory, DtSaverSource, saver->rank->n_ranks);
    saver->goals = DT_NEW_ARRAY(saver->memory, DtSaverGoal, saver->rank->n_ranks);
    list_here(saver);
    list_there(saver);
}

/* ---- memory ---- */

/* Whether the machine, or this container, has room for so many bytes besides the arenas of its
 * ranks. */
static bool fits(const struct DtSaver *saver, uint64_t bytes)
{
    const DtRank *rank = saver->rank;
    bool contained;
    const uint64_t limit = dt_memory_limit("", &contained);
    uint64_t used = 0;
    for (uint32_t r = saver->first; r < saver->first + saver->n_here && !rank->device_ops->arena;
         r++)
        used += dt_memory_arenas(rank->options, rank->plan, dt_rank_stage(rank->plan, r));
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

/* Gives this rank's part of the copies its pages, so that no save waits for them. */
static void touch(char *at, int64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (bytes > 0 && madvise(at, (size_t)bytes, MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (int64_t done = 0; done < bytes; done += (int64_t)dt_page_bytes())
        ((volatile char *)at)[done] = 0;
}

/* Divides the mapping: what threads share, digests, the copies. */
static void divide(struct DtSaver *saver, uint64_t before)
{
    saver->common = saver->map;
    saver->digests = (void *)((char *)saver->map + dt_page_up(sizeof(DtSaverCommon)));
    saver->copies = (char *)saver->map + before;
    const uintptr_t chunk = (uintptr_t)dt_arena_alloc(saver->memory,
                                                      DT_CHUNK_BYTES + dt_page_bytes());
    saver->chunk = (char *)dt_page_up(chunk);
    touch(saver->copies + saver->copy_at, saver->copy_bytes);
}

/* Whether all ranks could do a thing. False in *ret_all: some could not. False: after a failure. */
static bool could_all(DtRank *rank, bool could, bool *ret_all)
{
    int64_t without = !could;
    if (!dt_rank_add_up(rank, &without, 1))
        return false;
    *ret_all = without == 0;
    return true;
}

/* ---- open and close ---- */

/* Finds out whether all hosts share the folder, and who writes. */
static bool choose_writers(struct DtSaver *saver)
{
    DtRank *rank = saver->rank;
    bool is_shared = true;
    if (saver->hosts > 1 &&
        !dt_samefolder_look(rank, dt_outputs_folder(rank->options), &is_shared))
        return false;
    saver->n_writers =
        is_shared ? rank->n_ranks : dt_spread_first(rank->n_ranks, saver->hosts, 1);
    list_all(saver);
    return true;
}

static bool make_memory(struct DtSaver *saver, bool *ret_good)
{
    DtRank *rank = saver->rank;
    DtSharedLayout layout = {0};
    if (rank->n_ranks > 1)
        dt_shared_layout(rank->plan, &layout);
    const int64_t chunks = dt_shares_chunk(&saver->shares, saver->shares.end);
    const uint64_t before = dt_page_up(sizeof(DtSaverCommon)) +
                            dt_page_up((uint64_t)chunks * DT_DIGEST_BYTES);
    saver->map_bytes = dt_page_up(before + (uint64_t)saver->all_bytes + 1);
    const bool makes = saver->me == saver->first;
    if (!could_all(rank, !makes || (fits(saver, saver->map_bytes) &&
                                    make(rank, layout.total, saver->map_bytes)),
                   ret_good))
        return false;
    if (*ret_good && !could_all(rank, map(saver, layout.total), ret_good))
        return false;
    if (*ret_good)
        divide(saver, before);
    return true;
}

bool dt_saver_open(DtRank *rank)
{
    DtArena *memory = dt_arena_new();
    struct DtSaver *saver = DT_NEW(memory, struct DtSaver);
    bool has_room = false;
    const bool is_alone = !rank->options || !dt_cluster_several(rank->options);
    *saver = (struct DtSaver){.rank = rank,
                              .memory = memory,
                              .me = rank->rank,
                              .hosts = is_alone ? 1 : (uint32_t)rank->options->nodes,
                              .first = rank->local.size ? rank->local.ranks[0] : 0,
                              .n_here = rank->local.size ? rank->local.size : rank->n_ranks};
    DtStatus status = dt_shares_list(
        rank->plan, memory, rank->save_file ? rank->save_file : DT_SHARES_FILE_BYTES,
        &saver->shares);
    rank->saver = saver;
    bool good = dt_status_ok(&status) || dt_rank_fail_status(rank, &status);
    good = good && choose_writers(saver) && make_memory(saver, &has_room);
    if (good && has_room && saver->hosts > 1)
        good = dt_saverlinks_open(saver);
    if (!good || !has_room)
        dt_saver_close(rank);
    return good;
}

void dt_saver_close(DtRank *rank)
{
    struct DtSaver *saver = rank->saver;
    if (saver == NULL)
        return;
    atomic_store(&saver->cancelled, true);
    join(saver);
    if (saver->links)
        dt_saverlinks_close(saver->links);
    if (saver->map)
        munmap(saver->map, saver->map_bytes);
    DtArena *memory = saver->memory;
    dt_arena_free(memory);
    rank->saver = NULL;
}
