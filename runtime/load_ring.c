/* SPDX-License-Identifier: Apache-2.0 */
/* Each chunk is read by one rank of the run. It goes to one rank of each other host that needs it,
 * the one with the reader's number on its host, which receives it into the memory that the ranks of
 * that host share. So two ranks are connected if they may read for each other's hosts. */
#include "runtime/load_ring.h"

#include "runtime/cluster.h"
#include "runtime/rank.h"
#include "runtime/saver_internal.h"
#include "runtime/spread.h"
#include "runtime/wire.h"

#include "base/page.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNKS = 4 /* of a window, by rank of the host that has most */, WINDOWS = 2 };

struct DtLoadRing {
    DtRank *rank;
    DtArena *memory;
    uint32_t hosts, readers; /* readers: ranks; 1: this one is alone */
    int64_t chunks;
    char *at;
    size_t bytes;
    uint64_t offset; /* in the file that ranks share */
    DtWire *wire;    /* NULL: all ranks share a host */
    uint64_t limit_ns;
    uint64_t number; /* of the window */
    int64_t n;       /* its chunks */
    DtWirePost *posts;
    uint32_t n_posts;
};

int64_t dt_loadring_chunks(const DtLoadRing *ring) { return ring->chunks; }

uint32_t dt_loadring_hosts(const DtLoadRing *ring) { return ring->hosts; }

/* ---- who reads what ---- */

/* Chunks are spread evenly over readers, and each has a run of them. */
static uint32_t reader_of(const DtLoadRing *ring, int64_t chunk)
{
    return (uint32_t)(chunk * ring->readers / ring->n);
}

void dt_loadring_mine(const DtLoadRing *ring, int64_t n, int64_t *ret_first, int64_t *ret_end)
{
    const int64_t me = ring->readers > 1 ? ring->rank->rank : 0, all = ring->readers;
    *ret_first = (me * n + all - 1) / all;
    *ret_end = ((me + 1) * n + all - 1) / all;
}

static uint32_t host_of(const DtLoadRing *ring, uint32_t rank)
{
    return dt_spread_node(ring->rank->n_ranks, ring->hosts, rank);
}

/* The rank that receives on a host what this one has read. */
static uint32_t receiver(const DtLoadRing *ring, uint32_t reader, uint32_t host)
{
    const uint32_t ranks = ring->rank->n_ranks;
    const uint32_t number = reader - dt_spread_first(ranks, ring->hosts, host_of(ring, reader));
    return dt_spread_first(ranks, ring->hosts, host) +
           number % dt_spread_count(ranks, ring->hosts, host);
}

/* ---- a window ---- */

void dt_loadring_begin(DtLoadRing *ring, int64_t n)
{
    ring->number++;
    ring->n = n;
    ring->n_posts = 0;
}

char *dt_loadring_at(const DtLoadRing *ring, int64_t chunk)
{
    const int64_t window = (int64_t)(ring->number % WINDOWS) * ring->chunks;
    return ring->at + (window + chunk) * DT_CHUNK_BYTES;
}

static DtWirePost *new_post(DtLoadRing *ring, int64_t chunk, int64_t bytes)
{
    DtWirePost *post = &ring->posts[ring->n_posts++];
    *post = (DtWirePost){.at = dt_loadring_at(ring, chunk),
                         .head = {.mark = {.attempt = ring->rank->shared->attempt,
                                           .inst = UINT32_MAX,
                                           .sequence = ring->number},
                                  .kind = DT_WIRE_BLOCK,
                                  .part = chunk,
                                  .bytes = bytes}};
    return post;
}

void dt_loadring_send(DtLoadRing *ring, int64_t chunk, int64_t bytes, uint32_t host)
{
    DtWirePost *post = new_post(ring, chunk, bytes);
    dt_wire_send(ring->wire, receiver(ring, ring->rank->rank, host), post);
    ring->wire->ops->move(ring->wire, 0);
}

void dt_loadring_expect(DtLoadRing *ring, int64_t chunk, int64_t bytes)
{
    const uint32_t reader = reader_of(ring, chunk), me = ring->rank->rank;
    if (!ring->wire || dt_cluster_is_here(ring->rank, reader) ||
        receiver(ring, reader, host_of(ring, me)) != me)
        return;
    dt_wire_recv(ring->wire, reader, new_post(ring, chunk, bytes));
}

bool dt_loadring_finish(DtLoadRing *ring)
{
    for (uint32_t i = 0; i < ring->n_posts; i++) {
        if (!dt_wire_finish(ring->wire, &ring->posts[i]))
            return false;
        atomic_fetch_add(&ring->rank->slot->progress, 1);
    }
    return true;
}

/* ---- open and close ---- */

/* Makes the memory that the ranks of a host share large enough. What they share besides comes first
 * in the file. */
static DtStatus make(const DtLoadRing *ring)
{
    if (ftruncate(ring->rank->shared_fd, (off_t)(ring->offset + ring->bytes)) == 0)
        return DT_OK;
    return dt_status_fail(DT_EXIT_DOES_NOT_FIT, "no %zu bytes to load a checkpoint: %s",
                          ring->bytes, strerror(errno));
}

static DtStatus map(DtLoadRing *ring)
{
    const bool is_alone = ring->readers == 1;
    void *at = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE,
                    MAP_NORESERVE | (is_alone ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED),
                    is_alone ? -1 : ring->rank->shared_fd, is_alone ? 0 : (off_t)ring->offset);
    if (at == MAP_FAILED)
        return dt_status_fail(DT_EXIT_DOES_NOT_FIT, "no %zu bytes to load a checkpoint: %s",
                              ring->bytes, strerror(errno));
    ring->at = at;
    return DT_OK;
}

static bool meet(void *context)
{
    DtRank *rank = context;
    return rank->comm_ops->barrier(rank->comm, &rank->world);
}

/* Where the memory that the ranks of a host share ends, with that of their saver. */
static uint64_t shared_end(const DtRank *rank)
{
    DtSharedLayout layout;
    dt_shared_layout(rank->plan, &layout);
    return layout.total + (rank->saver ? rank->saver->map_bytes : 0);
}

static DtStatus connect(DtLoadRing *ring)
{
    DtRank *rank = ring->rank;
    const uint32_t me = rank->rank, here = host_of(ring, me);
    bool *needs = DT_NEW_ARRAY(ring->memory, bool, rank->n_ranks);
    for (uint32_t r = 0; r < rank->n_ranks; r++)
        needs[r] = host_of(ring, r) != here &&
                   (receiver(ring, me, host_of(ring, r)) == r || receiver(ring, r, here) == me);
    /* this rank receives at most a whole window, and sends each chunk that it reads to all hosts */
    const int64_t reads = ring->chunks / ring->readers + 1;
    ring->posts = DT_NEW_ARRAY(ring->memory, DtWirePost, ring->chunks + reads * ring->hosts);
    const DtWireOps *ops = rank->comm_ops == &dt_comm_ucx ? &dt_wire_ucx : &dt_wire_tcp;
    /* a host may read its part of a window while this one still takes the window before */
    const DtWireMost most = {.bytes = DT_CHUNK_BYTES,
                             .slots = (uint32_t)reads,
                             .slot_bytes = reads * DT_CHUNK_BYTES};
    if (!dt_wire_open(rank, ops, needs, 1, most, meet, rank, &ring->wire))
        return dt_rank_has_failed(rank)
                   ? rank->failure
                   : dt_status_fail(DT_EXIT_RETRY, "the run is being ended");
    ring->limit_ns = ring->wire->limit_ns;
    ring->wire->limit_ns = 0; /* a disk may take its time; supervisors see the progress */
    return DT_OK;
}

DtStatus dt_loadring_open(DtRank *rank, DtArena *memory, DtLoadRing **ret_ring)
{
    DtLoadRing *ring = *ret_ring = DT_NEW(memory, DtLoadRing);
    const bool several = rank->options && dt_cluster_several(rank->options);
    *ring = (DtLoadRing){.rank = rank,
                         .memory = memory,
                         .hosts = several ? (uint32_t)rank->options->nodes : 1,
                         .readers = rank->local.size ? rank->n_ranks : 1};
    const uint32_t most = dt_spread_count(ring->readers, ring->hosts, 0);
    ring->chunks = (int64_t)CHUNKS * most;
    ring->bytes = (size_t)(WINDOWS * ring->chunks) * DT_CHUNK_BYTES;
    ring->offset = ring->readers > 1 ? shared_end(rank) : 0;
    DtStatus status = DT_OK;
    if (ring->readers > 1 && rank->local.me == 0)
        status = make(ring);
    status = dt_checkpointshares_agree(rank, status);
    if (dt_status_ok(&status))
        status = dt_checkpointshares_agree(rank, map(ring));
    return dt_status_ok(&status) && ring->hosts > 1 ? connect(ring) : status;
}

void dt_loadring_close(DtLoadRing *ring)
{
    if (ring->wire) {
        ring->wire->limit_ns = ring->limit_ns;
        dt_wire_close(ring->wire);
    }
    if (ring->at)
        munmap(ring->at, ring->bytes);
    const DtStatus status = dt_checkpointshares_agree(ring->rank, DT_OK);
    if (dt_status_ok(&status) && ring->readers > 1 && ring->rank->local.me == 0 &&
        ftruncate(ring->rank->shared_fd, (off_t)ring->offset) != 0)
        ring->bytes = 0; /* the memory stays until the run ends */
}
