/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks of a machine load a checkpoint together. They map its files, so the system keeps the
 * pages that one rank has read for the other ranks. They go through the chunks of the files in
 * windows:
 *
 *     each rank reads its share of the window's chunks, and compares their digests | agree |
 *     each rank takes its part of those tensors that end in the window
 *
 * So each byte is read from the disk once and its digest is computed once, and nothing is used
 * before that. Chunks in which no rank of the machine has a tensor are not read. */
#include "runtime/checkpoint.h"

#include "runtime/cluster.h"
#include "runtime/rank.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 16 }; /* of a window, by rank */

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
    for (uint32_t r = 0; r < rank->n_ranks && dt_status_ok(&status); r++) {
        const DtSlot *slot = dt_shared_slot(rank->plan, rank->shared, r);
        const int code = atomic_load(&slot->part_code[turn]);
        if (code != DT_EXIT_OK)
            status = dt_status_fail(code, "%.*s", (int)sizeof slot->message - 1, slot->message);
    }
    return status;
}

/* The state of a load of one kind of files. */
typedef struct Load {
    DtRank *rank;
    DtLoading *loading;
    int64_t *before;  /* by file: chunks of the files before it */
    int64_t n_chunks; /* of all files */
    uint8_t *needed;  /* by chunk */
    uint32_t *order;  /* wanted tensors in the order in which they end */
} Load;

/* Whether a rank of this machine has the store, or another stage's record of the same one. */
static bool is_here(const DtRank *rank, const DtPlanStore *store)
{
    const DtPlan *plan = rank->plan;
    const uint32_t first = rank->local.size ? rank->local.ranks[0] : 0;
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtPlanStore *other = &plan->stores[s];
        const bool same = other == store || (other->kind == store->kind &&
                                             strcmp(dt_plan_str(plan, other->path),
                                                    dt_plan_str(plan, store->path)) == 0);
        for (uint32_t r = 0; same && r < rank->local.size; r++)
            if (dt_plan_on_stage(other->stage, dt_rank_stage(plan, first + r)))
                return true;
    }
    return rank->local.size == 0;
}

/* Marks the chunks of tensors that ranks of this machine have. All of them mark the same. */
static void mark(Load *load)
{
    const DtRank *rank = load->rank;
    const DtLoading *loading = load->loading;
    const bool alone = rank->local.size == rank->n_ranks || !rank->plan->meta->pipeline;
    int64_t first, n;
    for (uint32_t i = 0; i < loading->wanted.n; i++) {
        const DtTensor *tensor = loading->from[i];
        if (!alone && !is_here(rank, loading->wanted.homes[i].store))
            continue;
        dt_checkpointfiles_chunks(&loading->files, tensor, &first, &n);
        memset(load->needed + load->before[tensor->file] + first, 1, (size_t)n);
    }
}

/* The number of chunks until the end of a tensor. */
static int64_t end_of(const Load *load, const DtTensor *tensor)
{
    int64_t first, n;
    dt_checkpointfiles_chunks(&load->loading->files, tensor, &first, &n);
    return load->before[tensor->file] + first + n;
}

typedef struct End {
    int64_t end;
    uint32_t i;
} End;

static int by_end(const void *a, const void *b)
{
    const End *x = a, *y = b;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static void put_in_order(Load *load, DtArena *memory)
{
    const uint32_t n = load->loading->wanted.n;
    End *ends = DT_NEW_ARRAY(memory, End, n + 1);
    load->order = DT_NEW_ARRAY(memory, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++)
        ends[i] = (End){end_of(load, load->loading->from[i]), i};
    qsort(ends, n, sizeof *ends, by_end);
    for (uint32_t i = 0; i < n; i++)
        load->order[i] = ends[i].i;
}

/* What is done to this rank's share of the chunks of a window. */
typedef DtStatus Act(Load *load, uint32_t file, int64_t chunk);

static DtStatus read_ahead(Load *load, uint32_t file, int64_t chunk)
{
    dt_checkpointfiles_ahead(&load->loading->files, file, chunk);
    return DT_OK;
}

static DtStatus check(Load *load, uint32_t file, int64_t chunk)
{
    atomic_fetch_add(&load->rank->slot->progress, 1);
    return dt_checkpointfiles_check_chunk(&load->loading->files, file, chunk);
}

/* Does that to this rank's share of the chunks first .. end - 1: each rank has a run of them, so
 * that it reads a file on end. */
static DtStatus each_of_share(Load *load, int64_t first, int64_t end, Act *act)
{
    const DtRank *rank = load->rank;
    const int64_t ranks = rank->local.size ? rank->local.size : 1;
    int64_t needed = 0, number = 0;
    DtStatus status = DT_OK;
    uint32_t f = 0;
    for (int64_t chunk = first; chunk < end; chunk++)
        needed += load->needed[chunk];
    const int64_t from = needed * rank->local.me / ranks,
                  to = needed * (rank->local.me + 1) / ranks;
    for (int64_t chunk = first; chunk < end && dt_status_ok(&status); chunk++) {
        while (f + 1 < load->loading->files.n && load->before[f + 1] <= chunk)
            f++;
        if (load->needed[chunk] && number++ >= from && number <= to)
            status = act(load, f, chunk - load->before[f]);
    }
    return status;
}

/* Takes the tensors from number *at on, in order, that end before the chunk. */
static DtStatus take_until(Load *load, int64_t end, uint32_t *at)
{
    DtStatus status = DT_OK;
    DtLoading *loading = load->loading;
    for (; *at < loading->wanted.n && dt_status_ok(&status); ++*at) {
        const uint32_t i = load->order[*at];
        if (end_of(load, loading->from[i]) > end)
            break;
        if (!dt_plan_on_stage(loading->wanted.homes[i].store->stage, load->rank->stage))
            continue;
        if (load->n_chunks == 0) /* of format 1: each rank looks at what it takes */
            status = dt_checkpointfiles_check(&loading->files, loading->from[i]);
        if (dt_status_ok(&status))
            status = loading->take(loading, i);
    }
    return status;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

DtStatus dt_checkpointshares_load(DtRank *rank, DtArena *memory, DtLoading *loading)
{
    Load load = {.rank = rank, .loading = loading};
    const int64_t window = CHUNKS * (int64_t)(rank->local.size ? rank->local.size : 1);
    uint32_t at = 0;
    DtStatus status = DT_OK;
    load.before = DT_NEW_ARRAY(memory, int64_t, loading->files.n + 1);
    for (uint32_t f = 0; f < loading->files.n; f++) {
        load.before[f] = load.n_chunks;
        load.n_chunks += loading->files.said[f]->n_chunks;
    }
    load.needed = dt_arena_alloc(memory, (size_t)load.n_chunks + 2);
    put_in_order(&load, memory);
    if (load.n_chunks > 0)
        mark(&load);
    for (int64_t first = 0; first < load.n_chunks; first += window) {
        const int64_t end = least(first + window, load.n_chunks);
        if (dt_status_ok(&status) && first == 0)
            each_of_share(&load, first, end, read_ahead);
        if (dt_status_ok(&status)) /* the disk reads the next window while this one is hashed */
            each_of_share(&load, end, least(end + window, load.n_chunks), read_ahead);
        if (dt_status_ok(&status))
            status = each_of_share(&load, first, end, check);
        status = dt_checkpointshares_agree(rank, status);
        if (!dt_status_ok(&status))
            return status;
        status = take_until(&load, end, &at);
    }
    return load.n_chunks == 0 ? take_until(&load, INT64_MAX, &at) : status;
}
