/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between the ranks of one machine, over the mapping that they share. Processes in a
 * run, threads in unit tests: the code is the same.
 *
 * Each group has an area in the mapping: a barrier and a line per member. A collective is
 *
 *     announce where the own buffer is | barrier | read what the others announced | barrier
 *
 * Buffers in shared arenas are read and written in place, block by block where a collective runs
 * along an inner axis (blocks.c). Others, all of a device whose memory is its own, go piece by
 * piece through a bounce buffer per rank; strided blocks are laid side by side before, and taken
 * apart afterwards. In an all-reduce each member owns a chunk of the elements: it adds that chunk
 * of all members in the order of comm_mark.c and stores the sum to all, so every element is summed
 * once, in the same order on every run.
 *
 * A collective whose members disagree about what is being done, or in which instruction of which
 * step, fails instead of computing nonsense. */
#include "runtime/blocks.h"

#include "base/page.h"
#include "base/stages.h"
#include "runtime/channel.h"
#include "runtime/cluster.h"
#include "runtime/comm_shm.h"
#include "runtime/comm_sync.h"
#include "runtime/device.h"
#include "runtime/fetch.h"
#include "runtime/reduce.h"
#include "runtime/shift.h"

#include <string.h>

enum { LINE = 64, BOUNCE = DT_SHM_BOUNCE, BLOCK = 4096 };
/* number of the arena of a buffer that goes through the bounce buffer */
static const uint32_t BOUNCED = UINT32_MAX;

/* What a member publishes about the collective that it has reached, for the check that all members
 * agree. */
typedef struct Notice {
    DtCommMark mark;
    uint32_t kind, dtype, reduce;
    uint32_t arena; /* where its buffer is; BOUNCED: in its bounce buffer */
    int64_t offset, count;
    uint32_t to_arena; /* where this member's sum of an all-reduce is to be stored */
    int64_t to_offset; /* and where it receives, in a collective of several hosts */
} Notice;

typedef struct Member {
    _Alignas(LINE) _Atomic uint32_t arrived; /* number of barriers at which this member has
                                              * arrived */
    Notice notice;                           /* written before this member arrives at a barrier;
                                              * others read it after the barrier */
} Member;

/* Start of a group's area; members follow. */
typedef struct Area {
    DtSyncWord barrier;                    /* value: barriers completed */
    _Alignas(LINE) _Atomic uint32_t count; /* number of members that have arrived at the present
                                            * barrier */
} Area;

/* A group as this rank uses it. */
typedef struct Group {
    const uint32_t *ranks; /* identifies the group: the list of members in its DtRankGroup */
    uint32_t size, me;
    Area *area;
    Member *members;
    uint32_t number;       /* of the group in the plan */
    uint32_t came;         /* number of barriers at which this rank has arrived */
    uint64_t done;         /* number of collectives, or pieces of them, that this rank has begun */
    uint64_t received;
    const void **from, **scratch; /* by member: the address for the collective that is running */
} Group;

struct DtComm {
    DtRank *rank;
    DtSlot *says;  /* where waits are published */
    Group *groups; /* one for each group of the plan, then the group of all ranks */
    uint32_t n_groups;
    char *bounces; /* BOUNCE bytes per rank */
    char *sum;     /* another BOUNCE bytes: the result of a reduction before it is copied to the
                    * device */
    DtChannels *channels;
    DtFetch *fetch;
};

/* ---- layout ---- */

/* Returns the size of group number g; the number after the last group means the group of all
 * ranks. */
static uint32_t group_size(const DtPlan *plan, uint32_t g)
{
    return g < plan->n_groups ? plan->groups[g].size : plan->meta->n_ranks;
}

/* Returns the bytes of the area of one group of that record. */
static uint64_t area_bytes(const DtPlan *plan, uint32_t g)
{
    DtSyncWide size = group_size(plan, g);
    return dt_sync_area(sizeof(Area) + size * sizeof(Member));
}

/* Returns the bytes of all areas of a group record. Groups that contain only some stages are
 * numbered as if they contained all stages. */
static uint64_t areas_bytes(const DtPlan *plan, uint32_t g)
{
    uint32_t stages =
        g < plan->n_groups ? dt_stages_count(dt_plan_str(plan, plan->groups[g].stages)) : 0;
    uint32_t size = group_size(plan, g);
    if (stages)
        size = size / stages * dt_plan_stages(plan);
    return dt_sync_area((DtSyncWide)area_bytes(plan, g) * (plan->meta->n_ranks / size));
}

static uint64_t bounces_at(const DtPlan *plan)
{
    uint64_t at = 0;
    for (uint32_t g = 0; g <= plan->n_groups; g++)
        at = dt_sync_area((DtSyncWide)at + areas_bytes(plan, g));
    return dt_page_up(at);
}

static uint64_t channels_at(const DtPlan *plan)
{
    return bounces_at(plan) + (uint64_t)plan->meta->n_ranks * BOUNCE;
}

static uint64_t fetch_at(const DtPlan *plan)
{
    return dt_sync_area((DtSyncWide)channels_at(plan) + dt_channel_bytes(plan));
}

uint64_t dt_comm_shm_bytes(const DtPlan *plan)
{
    return dt_sync_area((DtSyncWide)fetch_at(plan) + dt_fetch_bytes(plan));
}

static DtStatus open_shm(DtRank *rank, DtComm **ret_comm)
{
    const DtPlan *plan = rank->plan;
    DtComm *comm = DT_NEW(rank->memory, DtComm);
    char *at = dt_shared_comm(plan, rank->shared);
    comm->rank = rank;
    comm->says = rank->slot;
    comm->n_groups = plan->n_groups + 1;
    comm->groups = DT_NEW_ARRAY(rank->memory, Group, comm->n_groups);
    comm->bounces = at + bounces_at(plan);
    comm->sum = dt_arena_alloc(rank->memory, BOUNCE);
    comm->channels = dt_channel_open(rank, at + channels_at(plan));
    comm->fetch = dt_fetch_open(rank, at + fetch_at(plan));
    for (uint32_t g = 0; g < comm->n_groups; g++) {
        /* members of this machine only; then the group of all ranks of the machine */
        const DtRankGroup here =
            g < plan->n_groups ? dt_cluster_here(rank, &rank->groups[g]) : rank->local;
        const DtRankGroup *known = &here;
        Group *group = &comm->groups[g];
        char *area = at + area_bytes(plan, g) * known->number;
        *group = (Group){.ranks = known->ranks,
                         .number = g,
                         .size = known->size,
                         .me = known->me,
                         .area = (Area *)(void *)area,
                         .members = (Member *)(void *)(area + sizeof(Area)),
                         .from = DT_NEW_ARRAY(rank->memory, const void *, known->size),
                         .scratch = DT_NEW_ARRAY(rank->memory, const void *, known->size)};
        at += areas_bytes(plan, g);
    }
    *ret_comm = comm;
    return DT_OK;
}

static void close_shm(DtComm *comm)
{
    (void)comm;
} /* nothing to close: all of its memory is in the rank's arena and in the mapping */

static Group *group_of(const DtComm *comm, const DtRankGroup *known)
{
    for (uint32_t g = 0; g < comm->n_groups; g++)
        if (comm->groups[g].ranks == known->ranks)
            return &comm->groups[g];
    return NULL;
}

static Group *find_group(DtComm *comm, const DtRankGroup *known)
{
    Group *group = group_of(comm, known);
    if (group == NULL)
        dt_rank_fail(comm->rank, DT_EXIT_FAILED,
                     "a collective over a group of %u ranks that is not in the plan", known->size);
    return group;
}

static uint64_t received_shm(const DtComm *comm, const DtRankGroup *known)
{
    const Group *group = group_of(comm, known);
    return group ? group->received : 0;
}

/* ---- waiting ---- */

/* Returns the first member that has not arrived at the barrier. */
static uint32_t who_is_missing(const void *context)
{
    const Group *group = context;
    for (uint32_t m = 0; m < group->size; m++)
        if ((int32_t)(atomic_load_explicit(&group->members[m].arrived, memory_order_relaxed) -
                      group->came) < 0)
            return group->ranks[m];
    return UINT32_MAX;
}

static bool wait_for_all(DtComm *comm, Group *group)
{
    Area *area = group->area;
    uint32_t before = group->came++;
    if (group->size == 1)
        return true;
    atomic_store_explicit(&group->members[group->me].arrived, group->came, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&area->count, 1, memory_order_acq_rel) == group->size - 1) {
        atomic_store_explicit(&area->count, 0, memory_order_relaxed);
        dt_sync_raise(&area->barrier);
        return true;
    }
    DtSyncWait wait = dt_sync_new(comm->rank, who_is_missing, group);
    wait.slot = comm->says;
    DtSyncResult result = dt_sync_wait(&wait, &area->barrier, before);
    return dt_sync_report(comm->rank, result, &wait, "");
}

/* ---- buffers ---- */

/* One piece of a collective: what this rank announces, and the bytes of an element. */
typedef struct Piece {
    Notice notice;
    int64_t element;
} Piece;

static char *bounce_of(const DtComm *comm, uint32_t rank)
{
    return comm->bounces + (uint64_t)rank * BOUNCE;
}

static bool is_shared(const DtComm *comm, DtPlaceAt place)
{
    return comm->rank->device_ops->is_host && place.arena < comm->rank->plan->n_arenas &&
           comm->rank->plan->arenas[place.arena].shared;
}

static char *at_rank(const DtComm *comm, uint32_t rank, uint32_t arena, int64_t offset)
{
    if (arena == BOUNCED)
        return bounce_of(comm, rank);
    return comm->rank->peer_arenas[(size_t)rank * comm->rank->plan->n_arenas + arena] + offset;
}

static char *buffer_of(const DtComm *comm, const Group *group, uint32_t member)
{
    const Notice *notice = &group->members[member].notice;
    return at_rank(comm, group->ranks[member], notice->arena, notice->offset);
}

const char *dt_comm_shm_kind(uint32_t kind)
{
    static const char *const names[] = {
        [DT_SHM_ALL_REDUCE] = "all-reduce",
        [DT_SHM_ALL_GATHER] = "all-gather",
        [DT_SHM_REDUCE_SCATTER] = "reduce-scatter",
        [DT_SHM_ALL_TO_ALL] = "all-to-all",
        [DT_SHM_BARRIER] = "barrier",
        [DT_SHM_SHIFT + DT_SHIFT_BEFORE] = "shift",
        [DT_SHM_SHIFT + DT_SHIFT_AFTER] = "shift back",
    };
    if (kind >= DT_SHM_SHIFT + DT_SHIFT_PAIRS)
        return "exchange of pairs";
    return kind < DT_COUNT(names) && names[kind] ? names[kind] : "unknown collective";
}

/* Checks that all members are in the same collective: kind, dtype, reduction, count, way (in place
 * or not), step and instruction are equal. */
static bool check_agreement(DtComm *comm, const Group *group, const Notice *mine)
{
    for (uint32_t m = 0; m < group->size; m++) {
        const Notice *other = &group->members[m].notice;
        if (other->kind != mine->kind || other->dtype != mine->dtype ||
            other->reduce != mine->reduce || other->count != mine->count ||
            (other->arena == BOUNCED) != (mine->arena == BOUNCED) ||
            !dt_comm_mark_same(&other->mark, &mine->mark))
            return dt_comm_mark_fail(comm->rank, &mine->mark, dt_comm_shm_kind(mine->kind),
                                     group->ranks[m], &other->mark, dt_comm_shm_kind(other->kind));
    }
    return true;
}

/* Publishes this rank's notice and waits for all members: afterwards all buffers are ready, and all
 * members agree on the collective. */
static bool meet(DtComm *comm, Group *group, Notice *notice)
{
    notice->mark = dt_comm_mark(comm->rank, group->number, ++group->done,
                                notice->count * dt_kinds_size((DtPlanDtype)notice->dtype));
    group->members[group->me].notice = *notice;
    return wait_for_all(comm, group) && check_agreement(comm, group, notice);
}

static bool part(DtComm *comm, Group *group)
{
    atomic_fetch_add_explicit(&comm->rank->slot->progress, 1, memory_order_relaxed);
    return wait_for_all(comm, group);
}

static Piece new_piece(const DtComm *comm, DtShmKind kind, DtPlaceAt buffer, DtPlanDtype dtype,
                       DtPlanReduce reduce)
{
    return (Piece){.notice = {.kind = kind,
                              .dtype = dtype,
                              .reduce = reduce,
                              .arena = is_shared(comm, buffer) ? buffer.arena : BOUNCED,
                              .offset = buffer.offset},
                   .element = dt_kinds_size(dtype)};
}

/* Returns how many elements the next piece has: all that are left or, through bounce buffers, as
 * many as fit if a buffer holds `width` blocks of them. */
static int64_t piece_count(const Piece *piece, int64_t left, uint32_t width)
{
    int64_t most = BOUNCE / piece->element / width;
    return piece->notice.arena != BOUNCED || left < most ? left : most;
}

static bool can_reduce(DtComm *comm, DtPlanDtype dtype)
{
    return dt_reduce_knows(dtype) || dt_rank_fail(comm->rank, DT_EXIT_FAILED,
                                                  "reductions of %s between ranks do not "
                                                  "exist yet",
                                                  dt_kinds_name(dtype));
}

static bool fits_bounce(DtComm *comm, const Piece *piece, uint32_t width)
{
    return piece->notice.arena != BOUNCED || BOUNCE / piece->element / width > 0 ||
           dt_rank_fail(comm->rank, DT_EXIT_FAILED,
                        "%u ranks are too many for a reduction outside shared memory", width);
}

/* ---- collectives ---- */

/* Fills group->from with the addresses of all members' data, from byte `at` on. They begin with
 * member `first`, which follows the last one. */
static const void *const *sources(const DtComm *comm, Group *group, uint32_t first, int64_t at)
{
    for (uint32_t m = 0; m < group->size; m++)
        group->from[m] = buffer_of(comm, group, (first + m) % group->size) + at;
    return group->from;
}

/* The addresses of all terms of the block that this member owns, in the order of the sum. */
static const void *const *terms(const DtComm *comm, Group *group, int64_t at)
{
    return sources(comm, group, dt_comm_mark_first(group->size, group->me), at);
}

/* Returns the address at which a member wants the sum of an all-reduce. */
static char *target_of(const DtComm *comm, const Group *group, uint32_t member)
{
    const Notice *notice = &group->members[member].notice;
    return at_rank(comm, group->ranks[member], notice->to_arena, notice->to_offset);
}

/* Sums elements first .. last - 1 of a piece of all members, block by block, and stores them to
 * all. Element 0 of the piece is element `at` of the collective; chunk: the elements that one
 * member owns. */
static void reduce_range(const DtComm *comm, Group *group, const Piece *piece, int64_t first,
                         int64_t last, int64_t at, int64_t chunk)
{
    _Alignas(LINE) char sum[BLOCK];
    int64_t e = piece->element, step = BLOCK / e, n;
    for (int64_t i = first; i < last; i += n) {
        const int64_t owner = (at + i) / chunk, owned = (owner + 1) * chunk - at;
        n = last - i < step ? last - i : step;
        n = owned - i < n ? owned - i : n;
        dt_reduce_buffers(
            piece->notice.dtype, piece->notice.reduce, sum,
            sources(comm, group, dt_comm_mark_first(group->size, (uint32_t)owner), i * e),
            group->size, n);
        for (uint32_t m = 0; m < group->size; m++)
            memcpy(target_of(comm, group, m) + i * e, sum, (size_t)(n * e));
    }
}

/* The elements of a piece of `count` elements that this member sums. */
static void own_chunk(const Group *group, int64_t count, int64_t element, int64_t *ret_first,
                      int64_t *ret_last)
{
    int64_t chunk = dt_comm_mark_chunk(count, element, group->size);
    int64_t first = chunk * group->me, last = first + chunk;
    *ret_first = first < count ? first : count;
    *ret_last = last < count ? last : count;
}

static bool all_reduce(DtComm *comm, const DtRankGroup *known, DtPlaceAt to, DtPlaceAt from,
                       int64_t count, DtPlanDtype dtype, DtPlanReduce reduce)
{
    Group *group = find_group(comm, known);
    if (group == NULL || !can_reduce(comm, dtype))
        return false;
    if (group->size == 1) {
        if (to.at.at != from.at.at)
            dt_device_copy(comm->rank, to, from, count * dt_kinds_size(dtype));
        return true;
    }
    Piece piece = new_piece(comm, DT_SHM_ALL_REDUCE, from, dtype, reduce);
    bool bounces = piece.notice.arena == BOUNCED || !is_shared(comm, to);
    if (bounces)
        piece.notice.arena = BOUNCED;
    piece.notice.to_arena = bounces ? BOUNCED : to.arena;
    piece.notice.to_offset = to.offset;
    int64_t e = piece.element, done = 0, first, last;
    char *bounce = bounce_of(comm, comm->rank->rank);
    do {
        int64_t n = piece.notice.count = piece_count(&piece, count - done, 1);
        if (bounces)
            dt_device_get(comm->rank, bounce, dt_device_from(from, done * e), n * e);
        if (!meet(comm, group, &piece.notice))
            return false;
        own_chunk(group, n, e, &first, &last);
        reduce_range(comm, group, &piece, first, last, done,
                     dt_comm_mark_chunk(count, e, group->size));
        group->received +=
            (uint64_t)((last - first) * (group->size - 1) + n - (last - first)) * (uint64_t)e;
        if (!part(comm, group))
            return false;
        if (bounces)
            dt_device_put(comm->rank, dt_device_from(to, done * e), bounce, n * e);
        done += n;
    } while (done < count);
    return true;
}

/* ---- exchanges ---- */

/* The data of an exchange: either blocks as in the plan, or contiguous blocks, which go through the
 * bounce buffers in pieces. */
typedef struct Exchange {
    Piece piece;
    DtPlaceAt to, from;
    int64_t count;
    uint32_t sends; /* number of blocks in `from` */
    const DtRankBlocks *blocks;
} Exchange;

static bool shifts(const Exchange *x)
{
    return x->piece.notice.kind >= DT_SHM_SHIFT;
}

/* The index of member q's block among the blocks that this member receives; -1: it receives
 * none. */
static int64_t block_number(const Exchange *x, const Group *group, uint32_t q)
{
    if (!shifts(x))
        return q;
    return q == dt_shift_from(x->piece.notice.kind - DT_SHM_SHIFT, group->size, group->me) ? 0 : -1;
}

/* Returns the bytes that this member receives for n elements of every block; its own block does not
 * count. */
static uint64_t from_others(const Exchange *x, const Group *group, int64_t n)
{
    uint32_t blocks = group->size - 1;
    if (shifts(x))
        blocks = dt_shift_from(x->piece.notice.kind - DT_SHM_SHIFT, group->size, group->me) !=
                 group->me;
    return (uint64_t)(n * x->piece.element) * blocks;
}

/* Exchanges all blocks at once, directly from the members' buffers. */
static bool exchange_in_place(DtComm *comm, Group *group, Exchange *x)
{
    DtRankBlocks line = {.n_dims = 1, .extent = {x->count}, .to = {1}, .from = {1}};
    const DtRankBlocks *blocks = x->blocks ? x->blocks : &line;
    int64_t e = x->piece.element, size = group->size, me = group->me;
    int64_t from_at = x->blocks ? x->blocks->from_at[me] : x->sends > 1 ? me * x->count : 0;
    char *wanted = dt_device_seen(comm->rank, x->to);
    x->piece.notice.count = x->count;
    if (!meet(comm, group, &x->piece.notice))
        return false;
    if (x->piece.notice.kind == DT_SHM_REDUCE_SCATTER) {
        dt_blocks_reduce(blocks, x->piece.notice.dtype, x->piece.notice.reduce, wanted,
                         terms(comm, group, from_at * e), group->size, group->scratch);
    } else {
        for (int64_t i = 0; i < size; i++) {
            int64_t q = (me + i) % size; /* each member begins with another one, so that not all
                                          * read from the same member at once */
            int64_t number = block_number(x, group, (uint32_t)q);
            if (number < 0)
                continue;
            char *to = wanted + (x->blocks ? x->blocks->to_at[q] : number * x->count) * e;
            const char *from = buffer_of(comm, group, (uint32_t)q) + from_at * e;
            if (to != from) /* the buffer is exchanged in place: other members are still reading
                             * it */
                dt_blocks_copy(blocks, e, to, from);
        }
    }
    group->received += from_others(x, group, x->count);
    return part(comm, group);
}

/* Exchanges n elements of every block through the bounce buffers, in which blocks are
 * contiguous. */
static bool exchange_piece(DtComm *comm, Group *group, Exchange *x, int64_t done, int64_t n)
{
    int64_t e = x->piece.element;
    char *bounce = bounce_of(comm, comm->rank->rank);
    x->piece.notice.count = n;
    for (uint32_t m = 0; m < x->sends; m++)
        dt_device_get(comm->rank, bounce + m * n * e,
                      dt_device_from(x->from, (m * x->count + done) * e), n * e);
    if (!meet(comm, group, &x->piece.notice))
        return false;
    const int64_t own_at = x->sends > 1 ? group->me * n * e : 0;
    if (x->piece.notice.kind == DT_SHM_REDUCE_SCATTER) {
        dt_reduce_buffers(x->piece.notice.dtype, x->piece.notice.reduce, comm->sum,
                          terms(comm, group, own_at), group->size, n);
        dt_device_put(comm->rank, dt_device_from(x->to, done * e), comm->sum, n * e);
    } else {
        const void *const *from = sources(comm, group, 0, own_at);
        for (uint32_t q = 0; q < group->size; q++) {
            int64_t number = block_number(x, group, q);
            if (number >= 0)
                dt_device_put(comm->rank, dt_device_from(x->to, (number * x->count + done) * e),
                              from[q], n * e);
        }
    }
    group->received += from_others(x, group, n);
    return part(comm, group);
}

/* Exchanges contiguous blocks piece by piece. */
static bool exchange_pieces(DtComm *comm, Group *group, Exchange *x)
{
    if (!fits_bounce(comm, &x->piece, x->sends))
        return false;
    int64_t done = 0;
    do {
        int64_t n = piece_count(&x->piece, x->count - done, x->sends);
        if (!exchange_piece(comm, group, x, done, n))
            return false;
        done += n;
    } while (done < x->count);
    return true;
}

/* The same as exchange_pieces for strided blocks: makes contiguous copies and exchanges these. */
static bool exchange_strided(DtComm *comm, Group *group, const Exchange *x)
{
    const DtRankBlocks *blocks = x->blocks;
    const bool sums = x->piece.notice.kind == DT_SHM_REDUCE_SCATTER;
    const int64_t e = x->piece.element, bytes = x->count * e;
    const uint32_t gets = sums ? 1 : group->size;
    DtRankBlocks apart = *blocks, together = *blocks;
    dt_blocks_set_dense(blocks, together.to);
    dt_blocks_set_dense(blocks, apart.from);
    DtArena *memory = dt_arena_new();
    char *sent = dt_arena_alloc(memory, (size_t)(bytes * x->sends));
    char *got = dt_arena_alloc(memory, (size_t)(bytes * gets));
    DtLent from = dt_device_lend(comm->rank, x->from);
    for (uint32_t p = 0; p < x->sends; p++)
        dt_blocks_copy(&together, e, sent + p * bytes, from.at + blocks->from_at[p] * e);
    dt_device_back(comm->rank, &from, false);
    Exchange dense = *x;
    dense.from = dt_device_of_host(sent, bytes * x->sends);
    dense.to = dt_device_of_host(got, bytes * gets);
    dense.blocks = NULL;
    const bool good = exchange_pieces(comm, group, &dense);
    DtLent to = dt_device_lend(comm->rank, x->to);
    for (uint32_t q = 0; good && q < gets; q++)
        dt_blocks_copy(&apart, e, to.at + (sums ? 0 : blocks->to_at[q]) * e, got + q * bytes);
    dt_device_back(comm->rank, &to, good);
    dt_arena_free(memory);
    return good;
}

/* Exchanges blocks directly from the members' buffers or, where these are not in the mapping, in
 * pieces through bounce buffers. blocks, sends, count: as in Exchange; sends 0: `from` has one
 * block for each member. */
static bool exchange(DtComm *comm, const DtRankGroup *known, Piece piece, DtPlaceAt to,
                     DtPlaceAt from, const DtRankBlocks *blocks, int64_t count, uint32_t sends)
{
    Group *group = find_group(comm, known);
    if (group == NULL)
        return false;
    Exchange x = {.piece = piece,
                  .to = to,
                  .from = from,
                  .count = count,
                  .sends = sends ? sends : group->size,
                  .blocks = blocks};
    if (piece.notice.arena != BOUNCED)
        return exchange_in_place(comm, group, &x);
    return blocks ? exchange_strided(comm, group, &x) : exchange_pieces(comm, group, &x);
}

static bool all_gather(DtComm *comm, const DtRankGroup *known, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype)
{
    const Piece piece = new_piece(comm, DT_SHM_ALL_GATHER, from, dtype, DT_PLAN_SUM);
    return exchange(comm, known, piece, to, from, blocks, count, 1);
}

static bool reduce_scatter(DtComm *comm, const DtRankGroup *known, DtPlaceAt to, DtPlaceAt from,
                           const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype,
                           DtPlanReduce reduce)
{
    const Piece piece = new_piece(comm, DT_SHM_REDUCE_SCATTER, from, dtype, reduce);
    return can_reduce(comm, dtype) && exchange(comm, known, piece, to, from, blocks, count, 0);
}

static bool all_to_all(DtComm *comm, const DtRankGroup *known, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype)
{
    const Piece piece = new_piece(comm, DT_SHM_ALL_TO_ALL, from, dtype, DT_PLAN_SUM);
    return exchange(comm, known, piece, to, from, blocks, count, 0);
}

static bool shift(DtComm *comm, const DtRankGroup *known, DtPlaceAt to, DtPlaceAt from,
                  int64_t count, DtPlanDtype dtype, uint32_t way)
{
    const Piece piece = new_piece(comm, DT_SHM_SHIFT + way, from, dtype, DT_PLAN_SUM);
    return exchange(comm, known, piece, to, from, NULL, count, 1);
}

static bool barrier(DtComm *comm, const DtRankGroup *known)
{
    Group *group = find_group(comm, known);
    Notice notice = {.kind = DT_SHM_BARRIER, .arena = BOUNCED};
    return group != NULL && meet(comm, group, &notice) && part(comm, group);
}

/* ---- collectives of several hosts ---- */

void dt_comm_shm_says(DtComm *comm, DtSlot *slot) { comm->says = slot; }

bool dt_comm_shm_shares(const DtComm *comm, DtPlaceAt place)
{
    return is_shared(comm, place) || place.arena == BOUNCED;
}

char *dt_comm_shm_bounce(const DtComm *comm) { return bounce_of(comm, comm->rank->rank); }

DtPlaceAt dt_comm_shm_bounced(const DtComm *comm)
{
    return dt_device_of_host(dt_comm_shm_bounce(comm), BOUNCE);
}

static void announce(const DtComm *comm, DtPlaceAt place, uint32_t *ret_arena, int64_t *ret_offset)
{
    const bool is_there = is_shared(comm, place);
    *ret_arena = is_there ? place.arena : BOUNCED;
    *ret_offset = is_there ? place.offset : 0;
}

bool dt_comm_shm_meet(DtComm *comm, const DtRankGroup *here, const DtShmCall *call,
                      const DtCommMark *mark)
{
    Group *group = find_group(comm, here);
    Notice notice = {.kind = call->kind, .dtype = call->dtype, .reduce = call->reduce,
                     .count = call->count};
    if (group == NULL)
        return false;
    announce(comm, call->from, &notice.arena, &notice.offset);
    announce(comm, call->to, &notice.to_arena, &notice.to_offset);
    notice.mark = *mark;
    group->members[group->me].notice = notice;
    return wait_for_all(comm, group) && check_agreement(comm, group, &notice);
}

bool dt_comm_shm_part(DtComm *comm, const DtRankGroup *here)
{
    Group *group = find_group(comm, here);
    return group != NULL && part(comm, group);
}

char *dt_comm_shm_from(const DtComm *comm, const DtRankGroup *here, uint32_t member)
{
    return buffer_of(comm, group_of(comm, here), member);
}

char *dt_comm_shm_to(const DtComm *comm, const DtRankGroup *here, uint32_t member)
{
    const Group *group = group_of(comm, here);
    return target_of(comm, group, member);
}

/* ---- channels ---- */

static bool send(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    return dt_channel_send(comm->channels, channel, buffer, bytes, tag);
}

static bool recv(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    return dt_channel_recv(comm->channels, channel, buffer, bytes, tag);
}

static uint64_t channel_received(const DtComm *comm, uint32_t channel)
{
    return dt_channel_received(comm->channels, channel);
}

/* ---- reading memory of other ranks ---- */

static bool get(DtComm *comm, uint32_t rank, uint32_t arena, int64_t offset, int64_t bytes,
                void *ret_bytes)
{
    return dt_fetch_get(comm->fetch, rank, arena, offset, bytes, ret_bytes);
}

static bool serve(DtComm *comm, uint32_t asker) { return dt_fetch_serve(comm->fetch, asker); }

static void release(DtComm *comm) { dt_fetch_release(comm->fetch); }

const DtCommOps dt_comm_shm = {
    .name = "shm",
    .open = open_shm,
    .close = close_shm,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_to_all = all_to_all,
    .shift = shift,
    .send = send,
    .recv = recv,
    .barrier = barrier,
    .received = received_shm,
    .channel_received = channel_received,
    .get = get,
    .serve = serve,
    .release = release,
};
