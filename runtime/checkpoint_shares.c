/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks load a checkpoint together. They go through the chunks of its files in windows, each in
 * memory that the ranks of a host share (load_ring.h):
 *
 *     each rank reads its part of the window's chunks, compares their digests, and sends each chunk
 *     to the other hosts that need it | all agree | each rank takes its parts of the tensors that
 *     the window has
 *
 * So each byte is read from the disk once and its digest is computed once, and nothing is used
 * before that. A host needs a chunk if a rank of it holds an element that the chunk has. Chunks
 * that have nothing of a wanted tensor are not read. */
#include "runtime/load_ring.h"

#include "runtime/cluster.h"
#include "runtime/rank.h"
#include "runtime/spread.h"

#include <stdlib.h>
#include <string.h>

DtStatus dt_checkpointshares_agree(DtRank *rank, DtStatus status)
{
    /* a rank may be one part ahead of another that still reads the codes of this one */
    const uint32_t turn = rank->parts++ % 2;
    if (rank->n_ranks == 1)
        return status;
    if (!dt_status_ok(&status))
        snprintf(rank->slot->message, sizeof rank->slot->message, "%s", status.message);
    atomic_store(&rank->slot->part_code[turn], status.code);
    if (!rank->comm_ops->barrier(rank->comm, &rank->world))
        return dt_rank_has_failed(rank)
                   ? rank->failure
                   : dt_status_fail(DT_EXIT_RETRY, "the run is being ended");
    for (uint32_t r = 0; r < rank->n_ranks; r++) {
        const DtSlot *slot = dt_shared_slot(rank->plan, rank->shared, r);
        const int code = atomic_load(&slot->part_code[turn]);
        const bool several = rank->options && dt_cluster_several(rank->options);
        if (code != DT_EXIT_OK)
            return dt_status_fail(code, "%s%.60s%s%.*s", several ? "host " : "",
                                  several ? slot->host : "", several ? ": " : "",
                                  (int)sizeof slot->message - 1, slot->message);
    }
    return status;
}

/* ---- what is where ---- */

/* A chunk that has something of a wanted tensor. */
typedef struct Chunk {
    uint32_t file;
    int64_t number; /* in the file */
} Chunk;

/* The place of a wanted tensor among these chunks. */
typedef struct Place {
    uint32_t i;
    int64_t first, n; /* its chunks */
    int64_t head;     /* bytes of the first one before it */
} Place;

typedef struct Load {
    DtRank *rank;
    DtLoading *loading;
    DtLoadRing *ring;
    Chunk *chunks; /* in the order of the files */
    int64_t n_chunks;
    Place *places; /* in order */
    uint32_t n_places;
    const DtPlanStore **stores; /* by wanted tensor and stage (dt_wanted_on_stage) */
    int64_t stages;
} Load;

static int by_place(const void *a, const void *b)
{
    const Place *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* Lists the chunks that are read. Each counts once, though tensors share it. before: chunks of the
 * files before each one. */
static void list_chunks(Load *load, DtArena *memory, const int64_t *before, int64_t all)
{
    const DtLoading *loading = load->loading;
    uint8_t *needed = dt_arena_alloc(memory, (size_t)all + 1);
    int64_t *number = DT_NEW_ARRAY(memory, int64_t, all + 1), first, n;
    for (uint32_t i = 0; i < loading->wanted.n; i++) {
        const DtTensor *tensor = loading->from[i];
        dt_checkpointfiles_chunks(&loading->files, tensor, &first, &n);
        memset(needed + before[tensor->file] + first, 1, (size_t)n);
    }
    load->chunks = DT_NEW_ARRAY(memory, Chunk, all + 1);
    for (uint32_t f = 0; f < loading->files.n; f++)
        for (int64_t c = 0; c < loading->files.said[f]->n_chunks; c++) {
            number[before[f] + c] = load->n_chunks;
            if (needed[before[f] + c])
                load->chunks[load->n_chunks++] = (Chunk){f, c};
        }
    load->places = DT_NEW_ARRAY(memory, Place, loading->wanted.n + 1);
    for (uint32_t i = 0; i < loading->wanted.n; i++) {
        const DtTensor *tensor = loading->from[i];
        dt_checkpointfiles_chunks(&loading->files, tensor, &first, &n);
        if (tensor->bytes > 0)
            load->places[load->n_places++] =
                (Place){i, number[before[tensor->file] + first], n,
                        (tensor->at - loading->files.files[tensor->file].view.at) % DT_CHUNK_BYTES};
    }
    qsort(load->places, load->n_places, sizeof *load->places, by_place);
}

/* Notes which record of each wanted tensor the ranks of each stage have. */
static void list_stores(Load *load, DtArena *memory)
{
    const DtPlan *plan = load->rank->plan;
    const DtWanted *wanted = &load->loading->wanted;
    load->stages = plan->meta->pipeline ? plan->mesh[plan->meta->pipeline - 1].size : 1;
    load->stores = DT_NEW_ARRAY(memory, const DtPlanStore *, wanted->n * load->stages + 1);
    for (uint32_t i = 0; i < wanted->n; i++)
        for (int64_t stage = 0; stage < load->stages; stage++)
            load->stores[i * load->stages + stage] =
                dt_wanted_on_stage(plan, wanted->homes[i].store, (uint32_t)stage);
}

/* The part of a tensor that some chunks have: elements, and the byte of the chunks at which they
 * begin. Elements do not cross from one chunk into another. */
static DtPiece piece_of(const Load *load, const Place *place, int64_t from, int64_t end,
                        int64_t *ret_at)
{
    const DtTensor *tensor = load->loading->from[place->i];
    const int64_t e = dt_kinds_size(tensor->dtype);
    int64_t first = (from - place->first) * DT_CHUNK_BYTES - place->head,
            after = (end - place->first) * DT_CHUNK_BYTES - place->head;
    *ret_at = first < 0 ? -first : 0;
    first = first < 0 ? 0 : first;
    after = after < tensor->bytes ? after : tensor->bytes;
    return (DtPiece){first / e, after > first ? (after - first) / e : 0};
}

/* The first tensor that does not end before the chunk. */
static uint32_t first_place(const Load *load, int64_t chunk)
{
    uint32_t lo = 0, hi = load->n_places;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (load->places[middle].first + load->places[middle].n <= chunk)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* ---- who needs what ---- */

/* Whether the rank holds an element of the piece, in the store itself or in the parameter that is
 * its rounding. */
static bool rank_needs(const Load *load, uint32_t rank, const int64_t coord[16], uint32_t i,
                       DtPiece piece)
{
    const DtPlan *plan = load->rank->plan;
    const DtPlanStore *store = load->stores[i * load->stages + dt_rank_stage(plan, rank)];
    if (!store)
        return false;
    return load->loading->whole[i] || dt_pack_held(plan, coord, store, piece).n > 0 ||
           (store->kind == DT_PLAN_MASTER &&
            dt_pack_held(plan, coord, &plan->stores[store->of], piece).n > 0);
}

static bool host_needs(const Load *load, uint32_t host, int64_t chunk)
{
    const DtRank *rank = load->rank;
    const uint32_t hosts = dt_loadring_hosts(load->ring),
                   end = dt_spread_first(rank->n_ranks, hosts, host + 1);
    int64_t coord[16], at;
    for (uint32_t r = dt_spread_first(rank->n_ranks, hosts, host); r < end; r++) {
        dt_rank_coordinates(rank->plan, r, coord);
        for (uint32_t p = first_place(load, chunk);
             p < load->n_places && load->places[p].first <= chunk; p++) {
            const DtPiece piece = piece_of(load, &load->places[p], chunk, chunk + 1, &at);
            if (piece.n > 0 && rank_needs(load, r, coord, load->places[p].i, piece))
                return true;
        }
    }
    return false;
}

/* ---- windows ---- */

/* Chunks first .. end - 1. */
typedef struct Window {
    int64_t first, end;
} Window;

static Window window_at(const Load *load, int64_t first)
{
    const int64_t left = load->n_chunks - first, most = dt_loadring_chunks(load->ring);
    return (Window){first, first + (left < most ? left : most)};
}

/* Asks the system to read this rank's chunks, which it will use soon. */
static void read_ahead(const Load *load, Window window)
{
    int64_t first, end;
    dt_loadring_mine(load->ring, window.end - window.first, &first, &end);
    for (int64_t c = window.first + first; c < window.first + end; c++)
        dt_checkpointfiles_ahead(&load->loading->files, load->chunks[c].file,
                                 load->chunks[c].number);
}

static int64_t bytes_of(const Load *load, int64_t chunk)
{
    return dt_checkpointfiles_bytes(&load->loading->files, load->chunks[chunk].file,
                                    load->chunks[chunk].number);
}

/* Reads this rank's chunks. A chunk that is damaged is sent, too, since others wait for it; then
 * they hear that it is. */
static DtStatus read_mine(const Load *load, Window window, uint32_t host)
{
    DtStatus status = DT_OK;
    int64_t first, end;
    dt_loadring_mine(load->ring, window.end - window.first, &first, &end);
    for (int64_t c = first; c < end; c++) {
        const Chunk *chunk = &load->chunks[window.first + c];
        if (dt_status_ok(&status))
            status = dt_checkpointfiles_read(&load->loading->files, chunk->file, chunk->number,
                                             dt_loadring_at(load->ring, c));
        for (uint32_t h = 0; h < dt_loadring_hosts(load->ring); h++)
            if (h != host && host_needs(load, h, window.first + c))
                dt_loadring_send(load->ring, c, bytes_of(load, window.first + c), h);
        atomic_fetch_add(&load->rank->slot->progress, 1);
    }
    return status;
}

static DtStatus read_window(const Load *load, Window window)
{
    const DtRank *rank = load->rank;
    const uint32_t hosts = dt_loadring_hosts(load->ring),
                   host = dt_spread_node(rank->n_ranks, hosts, rank->rank);
    dt_loadring_begin(load->ring, window.end - window.first);
    for (int64_t c = window.first; hosts > 1 && c < window.end; c++)
        if (host_needs(load, host, c))
            dt_loadring_expect(load->ring, c - window.first, bytes_of(load, c));
    const DtStatus status = read_mine(load, window, host);
    if (dt_loadring_finish(load->ring))
        return status;
    return dt_rank_has_failed(rank) ? rank->failure
                                    : dt_status_fail(DT_EXIT_RETRY, "the run is being ended");
}

/* Takes what the window has of each tensor. */
static DtStatus take(const Load *load, Window window)
{
    DtStatus status = DT_OK;
    DtLoading *loading = load->loading;
    for (uint32_t p = first_place(load, window.first);
         p < load->n_places && load->places[p].first < window.end && dt_status_ok(&status); p++) {
        const Place *place = &load->places[p];
        const int64_t from = place->first > window.first ? place->first : window.first;
        int64_t at;
        const DtPiece piece = piece_of(load, place, from, window.end, &at);
        if (piece.n > 0)
            status = loading->take(loading, place->i, piece,
                                   dt_loadring_at(load->ring, from - window.first) + at);
    }
    return status;
}

/* Of format 1: each rank reads what it takes, and compares its digest. */
static DtStatus load_old(DtRank *rank, DtLoading *loading)
{
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < loading->wanted.n && dt_status_ok(&status); i++) {
        if (!dt_plan_on_stage(loading->wanted.homes[i].store->stage, rank->stage))
            continue;
        status = dt_checkpointfiles_check(&loading->files, loading->from[i]);
        if (dt_status_ok(&status))
            status = loading->take(loading, i, (DtPiece){0, 0}, NULL);
    }
    return dt_checkpointshares_agree(rank, status);
}

/* Tensors begin at multiples of their elements' size in all files that are written here. */
static DtStatus check_places(const Load *load)
{
    for (uint32_t p = 0; p < load->n_places; p++) {
        const DtTensor *tensor = load->loading->from[load->places[p].i];
        if (load->places[p].head % dt_kinds_size(tensor->dtype) != 0)
            return dt_status_fail(DT_EXIT_IO, "%.300s is damaged: tensor `%.100s` begins inside "
                                              "of an element",
                                  load->loading->files.paths[tensor->file], tensor->name);
    }
    return DT_OK;
}

DtStatus dt_checkpointshares_load(DtRank *rank, DtArena *memory, DtLoadRing *ring,
                                  DtLoading *loading)
{
    Load load = {.rank = rank, .loading = loading, .ring = ring};
    int64_t all = 0;
    int64_t *before = DT_NEW_ARRAY(memory, int64_t, loading->files.n + 1);
    if (!ring)
        return load_old(rank, loading);
    for (uint32_t f = 0; f < loading->files.n; f++) {
        before[f] = all;
        all += loading->files.said[f]->n_chunks;
    }
    list_chunks(&load, memory, before, all);
    list_stores(&load, memory);
    DtStatus status = check_places(&load);
    for (Window w = window_at(&load, 0); w.first < w.end && dt_status_ok(&status);
         w = window_at(&load, w.end)) {
        if (w.first == 0)
            read_ahead(&load, w);
        read_ahead(&load, window_at(&load, w.end)); /* while this one is hashed */
        status = read_window(&load, w);
        status = dt_checkpointshares_agree(rank, status);
        if (dt_status_ok(&status))
            status = take(&load, w);
    }
    return status;
}
