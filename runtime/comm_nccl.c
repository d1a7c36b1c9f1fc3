/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives and messages between GPUs by NCCL. Each begins in the queue of its group or channel
 * when the work started before it is done, and the host continues meanwhile. The next instruction
 * waits for it, unless it was only started (plan.h, INST). nccl_links.h explains why ranks never
 * deadlock.
 *
 * Strided blocks (plan.h, BLOK) are packed before and unpacked after, by copies on the queue's
 * stream, in memory of each queue that is allocated when a rank is loaded. Data that is not summed
 * moves as bytes.
 *
 * A few things go through the mapping, by `shm`, once the GPU is done with earlier work: numbers
 * of the host, barriers, data that rank 0 saves, and messages of channels that need slots. */
#include "runtime/blocks.h"
#include "runtime/cluster.h"
#include "runtime/device.h"
#include "runtime/nccl_links.h"
#include "runtime/shift.h"

struct DtComm {
    DtRank *rank;
    DtComm *shm; /* for transfers through the mapping */
    DtClusterLinks *nodes; /* connections for transfers between machines; NULL on one machine */
    DtNcclLinks *links;
    const DtNccl *nccl;
};

/* ---- strided blocks ---- */

/* Returns the bytes that the instruction packs before the exchange and unpacks after it; 0 if its
 * blocks are contiguous. */
static uint64_t packed_bytes(const DtRank *rank, const DtPlanInst *inst)
{
    const bool exchanges = inst->kind == DT_INST_ALL_GATHER ||
                           inst->kind == DT_INST_REDUCE_SCATTER || inst->kind == DT_INST_ALL_TO_ALL;
    return exchanges && inst->blocks
               ? (uint64_t)(inst->count * dt_kinds_size(inst->dtype)) * rank->groups[inst->ref].size
               : 0;
}

/* Returns the bytes of a queue's buffers: those of its largest operation, since operations of one
 * queue never overlap. */
static uint64_t memory_side(const DtRank *rank, uint32_t queue)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < rank->plan->n_insts; i++) {
        const DtPlanInst *inst = &rank->plan->insts[i];
        const uint64_t bytes = packed_bytes(rank, inst);
        if (bytes > most && dt_nccl_links_queue_of(rank->plan, inst) == queue)
            most = bytes;
    }
    return (most + DT_PLAN_ALIGN - 1) / DT_PLAN_ALIGN * DT_PLAN_ALIGN;
}

static uint64_t memory(const DtRank *rank)
{
    uint64_t bytes = DT_PLAN_ALIGN;
    for (uint32_t q = 0; q < dt_nccl_links_queues(rank->plan); q++)
        bytes += 2 * memory_side(rank, q);
    return bytes;
}

/* Whether n blocks of `count` elements with these strides, of which the first begins at `at`, are
 * contiguous. */
static bool is_dense(const DtRankBlocks *blocks, const int64_t *strides, const int64_t *at,
                     uint32_t n, int64_t count)
{
    int64_t dense[DT_PLAN_BLOCK_DIMS] = {0};
    dt_blocks_set_dense(blocks, dense);
    for (uint32_t d = 0; d < blocks->n_dims; d++)
        if (blocks->extent[d] > 1 && strides[d] != dense[d])
            return false;
    for (uint32_t m = 0; m < n; m++)
        if (at && at[m] != m * count)
            return false;
    return true;
}

/* Copies one block of elements of e bytes from `from` to `to`. */
static bool copy_block(DtComm *comm, const DtNcclLink *link, const DtRankBlocks *blocks, int64_t e,
                       DtDeviceAt to, DtDeviceAt from)
{
    const DtCudaDriver *d = dt_nccl_links_work(comm->links)->driver;
    DtBlockWalk walk = dt_blocks_rows(blocks);
    int error;
    do {
        const DtCudaRows rows = {.from = {.kind = DT_CUDA_ON_DEVICE,
                                          .device = from.at + (uint64_t)(walk.from * e),
                                          .pitch = (size_t)(walk.from_row * e)},
                                 .to = {.kind = DT_CUDA_ON_DEVICE,
                                        .device = to.at + (uint64_t)(walk.to * e),
                                        .pitch = (size_t)(walk.to_row * e)},
                                 .bytes = (size_t)(walk.run * e),
                                 .rows = (size_t)walk.rows};
        error = d->copy_rows(&rows, link->stream);
    } while (error == 0 && dt_blocks_next(&walk));
    return dt_device_cuda_good(comm->rank, error, "copy rows");
}

/* An exchange of blocks of `count` elements of e bytes: sends `sends` blocks of `from`, receives
 * `gets` blocks into `to`. blocks NULL: they are contiguous; else packed_to and packed_from are
 * contiguous copies. */
typedef struct Exchange {
    DtPlaceAt to, from;
    const DtRankBlocks *blocks;
    int64_t count, e;
    uint32_t sends, gets;
    uint64_t packed_to, packed_from;
} Exchange;

static DtDeviceAt at_block(uint64_t at, int64_t element, int64_t e)
{
    return (DtDeviceAt){at + (uint64_t)(element * e)};
}

static bool pack(DtComm *comm, const DtNcclLink *link, Exchange *x)
{
    const DtRankBlocks *blocks = x->blocks;
    x->packed_to = x->to.at.at;
    x->packed_from = x->from.at.at;
    if (!blocks)
        return true;
    if (!is_dense(blocks, blocks->to, x->gets > 1 ? blocks->to_at : NULL, x->gets, x->count))
        x->packed_to = link->queue->got.at;
    if (is_dense(blocks, blocks->from, x->sends > 1 ? blocks->from_at : NULL, x->sends, x->count))
        return true;
    DtRankBlocks together = *blocks;
    dt_blocks_set_dense(blocks, together.to);
    x->packed_from = link->queue->sent.at;
    for (uint32_t p = 0; p < x->sends; p++)
        if (!copy_block(comm, link, &together, x->e, at_block(x->packed_from, p * x->count, x->e),
                        at_block(x->from.at.at, x->sends > 1 ? blocks->from_at[p] : 0, x->e)))
            return false;
    return true;
}

static bool unpack(DtComm *comm, const DtNcclLink *link, const Exchange *x)
{
    if (x->packed_to == x->to.at.at)
        return true;
    DtRankBlocks apart = *x->blocks;
    dt_blocks_set_dense(x->blocks, apart.from);
    for (uint32_t q = 0; q < x->gets; q++)
        if (!copy_block(comm, link, &apart, x->e,
                        at_block(x->to.at.at, x->gets > 1 ? x->blocks->to_at[q] : 0, x->e),
                        at_block(x->packed_to, q * x->count, x->e)))
            return false;
    return true;
}

/* ---- open and close ---- */

/* All ranks meet, through NCCL if they are on several nodes: only the ranks of one node share a
 * mapping. */
static bool meet(void *context)
{
    DtComm *comm = context;
    return comm->nodes ? dt_cluster_barrier(comm->nodes)
                       : dt_comm_shm.barrier(comm->shm, &comm->rank->world);
}

/* Refuses, before anything runs, reductions of types that NCCL cannot add. */
static DtStatus check_reductions(const DtPlan *plan)
{
    int type, op;
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        const DtPlanInst *inst = &plan->insts[i];
        if ((inst->kind == DT_INST_ALL_REDUCE || inst->kind == DT_INST_REDUCE_SCATTER) &&
            !dt_nccl_reduction(inst->dtype, inst->reduce, &type, &op))
            return dt_status_fail(
                DT_EXIT_FAILED,
                "instruction %u reduces %s between ranks, which NCCL cannot; --comm shm may", i,
                dt_kinds_name(inst->dtype));
    }
    return DT_OK;
}

static DtStatus make_sides(DtRank *rank, DtNcclLinks *links)
{
    DtStatus (*make)(DtDeviceState *, uint64_t, DtDeviceAt *) =
        rank->options->windows ? rank->device_ops->window : rank->device_ops->arena;
    DtStatus status = DT_OK;
    for (uint32_t q = 0; dt_status_ok(&status) && q < dt_nccl_links_queues(rank->plan); q++) {
        DtNcclQueue *queue = dt_nccl_links_queue(links, q);
        const uint64_t side = memory_side(rank, q);
        status = make(rank->device, side, &queue->sent);
        if (dt_status_ok(&status))
            status = make(rank->device, side, &queue->got);
    }
    if (dt_status_ok(&status) && !dt_nccl_windows_open(links, memory_side))
        return dt_nccl_links_status(links);
    return status;
}

static DtStatus open_nccl(DtRank *rank, DtComm **ret_comm)
{
    DtComm *comm = DT_NEW(rank->memory, DtComm);
    char *area = dt_shared_comm(rank->plan, rank->shared) + dt_comm_shm_bytes(rank->plan);
    DtDeviceAt spare;
    comm->rank = rank;
    DtStatus status = check_reductions(rank->plan);
    if (dt_status_ok(&status))
        status = rank->device_ops->arena(rank->device, DT_PLAN_ALIGN, &spare);
    if (dt_status_ok(&status))
        status = dt_comm_shm.open(rank, &comm->shm);
    if (dt_status_ok(&status))
        status = dt_cluster_join(rank, &dt_comm_shm, comm->shm, &comm->nodes);
    if (dt_status_ok(&status))
        status = dt_nccl_links_open(rank, area, meet, comm, spare, &comm->links);
    if (dt_status_ok(&status))
        status = make_sides(rank, comm->links);
    if (comm->links)
        comm->nccl = dt_nccl_links_library(comm->links);
    *ret_comm = comm;
    return status;
}

static void close_nccl(DtComm *comm)
{
    if (comm->links)
        dt_nccl_links_close(comm->links);
    dt_cluster_leave(comm->nodes);
    if (comm->shm)
        dt_comm_shm.close(comm->shm);
}

/* ---- operations ---- */

static bool wait(DtComm *comm) { return !comm->links || dt_nccl_links_wait(comm->links); }

static bool wait_until(DtComm *comm, DtIsDone *is_done, void *context)
{
    return !comm->links || dt_nccl_links_until(comm->links, is_done, context);
}

/* Turns NCCL's "in progress" into 0: calls inside of a group are not complete before the group
 * ends. */
static int begun(int result) { return result == DT_NCCL_IN_PROGRESS ? 0 : result; }

static int swap_bytes(DtComm *comm, const DtNcclLink *link, size_t bytes, uint64_t from,
                      uint32_t to_member, uint64_t to, uint32_t from_member)
{
    const int result = begun(
        comm->nccl->send(from, bytes, DT_NCCL_BYTES, (int)to_member, link->comm, link->stream));
    return result ? result
                  : begun(comm->nccl->recv(to, bytes, DT_NCCL_BYTES, (int)from_member, link->comm,
                                           link->stream));
}

/* Ends a group of NCCL calls in any case, even after an error: inside of a group the communicator
 * cannot be aborted. */
static int end_group(const DtNccl *nccl, int result)
{
    const int ended = nccl->group_end();
    return result ? result : ended;
}

/* Returns the bytes that a member receives from the others in an all-reduce in which each member
 * sums one share of the elements. */
static uint64_t reduced_from_others(const DtNcclLink *link, int64_t count, int64_t e)
{
    const int64_t size = link->size, me = link->me,
                  share = count * (me + 1) / size - count * me / size;
    return (uint64_t)((share * (size - 1) + count - share) * e);
}

static bool all_reduce(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       int64_t count, DtPlanDtype dtype, DtPlanReduce reduce)
{
    DtNcclLink *link = dt_nccl_links_find(comm->links, group);
    const int64_t e = dt_kinds_size(dtype);
    int type = 0, op = 0;
    const bool is_known = group->ranks == comm->rank->world.ranks && dtype == DT_PLAN_I64 &&
                          reduce == DT_PLAN_SUM && to.at.at == from.at.at; /* traffic.c */
    if (comm->nodes && dt_device_seen(comm->rank, from) && !is_known)
        return dt_rank_fail(comm->rank, DT_EXIT_FAILED,
                            "numbers of the host are added up over machines in one way");
    if (comm->nodes && dt_device_seen(comm->rank, from))
        return wait(comm) &&
               dt_cluster_sum(comm->nodes, (int64_t *)(void *)dt_device_seen(comm->rank, from),
                              count);
    if (dt_device_seen(comm->rank, from))
        return wait(comm) &&
               dt_comm_shm.all_reduce(comm->shm, group, to, from, count, dtype, reduce);
    if (!link || !dt_nccl_reduction(dtype, reduce, &type, &op))
        return false;
    if (!link->comm) {
        if (to.at.at != from.at.at)
            dt_device_copy(comm->rank, to, from, count * e);
        return true;
    }
    link->received += reduced_from_others(link, count, e);
    return dt_nccl_links_begin(comm->links, link) &&
           dt_nccl_links_end(comm->links, link,
                             comm->nccl->all_reduce(from.at.at, to.at.at, (size_t)count, type, op,
                                                    link->comm, link->stream));
}

/* Runs the exchange, when all blocks are contiguous; returns NCCL's result. */
typedef int Call(DtComm *comm, const DtNcclLink *link, const Exchange *x, int type, int op);

static int call_all_gather(DtComm *comm, const DtNcclLink *link, const Exchange *x, int type,
                           int op)
{
    (void)type, (void)op;
    return comm->nccl->all_gather(x->packed_from, x->packed_to, (size_t)(x->count * x->e),
                                  DT_NCCL_BYTES, link->comm, link->stream);
}

static int call_reduce_scatter(DtComm *comm, const DtNcclLink *link, const Exchange *x, int type,
                               int op)
{
    return comm->nccl->reduce_scatter(x->packed_from, x->packed_to, (size_t)x->count, type, op,
                                      link->comm, link->stream);
}

static int call_all_to_all(DtComm *comm, const DtNcclLink *link, const Exchange *x, int type,
                           int op)
{
    (void)type, (void)op;
    const size_t bytes = (size_t)(x->count * x->e);
    const DtNccl *n = comm->nccl;
    int result = n->group_start();
    if (result)
        return result;
    for (uint32_t m = 0; result == 0 && m < link->size; m++)
        result = swap_bytes(comm, link, bytes, x->packed_from + m * bytes, m,
                            x->packed_to + m * bytes, m);
    return end_group(n, result);
}

static bool exchange(DtComm *comm, const DtRankGroup *group, Exchange x, Call *call, int type,
                     int op)
{
    DtNcclLink *link = dt_nccl_links_find(comm->links, group);
    if (!link || !pack(comm, link, &x))
        return false;
    if (link->comm) {
        link->received += (uint64_t)(x.count * x.e) * (link->size - 1);
        if (!dt_nccl_links_begin(comm->links, link) ||
            !dt_nccl_links_end(comm->links, link, call(comm, link, &x, type, op)))
            return false;
    /* runs on the stream of instructions, like the copies that pack blocks */
    } else if (x.packed_to != x.packed_from)
        comm->rank->device_ops->copy(comm->rank->device, (DtDeviceAt){x.packed_to},
                                     (DtDeviceAt){x.packed_from}, x.count * x.e);
    return unpack(comm, link, &x);
}

static bool all_gather(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype)
{
    const Exchange x = {to, from, blocks, count, dt_kinds_size(dtype), .sends = 1,
                        .gets = group->size};
    return exchange(comm, group, x, call_all_gather, 0, 0);
}

static bool reduce_scatter(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                           const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype,
                           DtPlanReduce reduce)
{
    const Exchange x = {to, from, blocks, count, dt_kinds_size(dtype), .sends = group->size,
                        .gets = 1};
    int type = 0, op = 0;
    return dt_nccl_reduction(dtype, reduce, &type, &op) &&
           exchange(comm, group, x, call_reduce_scatter, type, op);
}

static bool all_to_all(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype)
{
    const Exchange x = {to, from, blocks, count, dt_kinds_size(dtype), .sends = group->size,
                        .gets = group->size};
    return exchange(comm, group, x, call_all_to_all, 0, 0);
}

static bool shift(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                  int64_t count, DtPlanDtype dtype, uint32_t way)
{
    DtNcclLink *link = dt_nccl_links_find(comm->links, group);
    const size_t bytes = (size_t)(count * dt_kinds_size(dtype));
    if (!link)
        return false;
    const uint32_t behind = dt_shift_to(way, link->size, link->me),
                   before = dt_shift_from(way, link->size, link->me);
    if (!link->comm || before == link->me) {
        dt_device_copy(comm->rank, to, from, (int64_t)bytes);
        return true;
    }
    if (!dt_nccl_links_begin(comm->links, link))
        return false;
    int result = comm->nccl->group_start();
    if (result == 0)
        result =
            end_group(comm->nccl,
                      swap_bytes(comm, link, bytes, from.at.at, behind, to.at.at, before));
    link->received += bytes;
    return dt_nccl_links_end(comm->links, link, result);
}

static uint64_t received(const DtComm *comm, const DtRankGroup *group)
{
    const DtNcclLink *link = dt_nccl_links_find(comm->links, group);
    return link ? link->received : 0;
}

/* ---- queues ---- */

static DtNcclLink *link_of(const DtComm *comm, const DtPlanInst *inst)
{
    const bool is_message = inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV;
    return is_message ? dt_nccl_links_channel(comm->links, inst->ref)
                      : dt_nccl_links_find(comm->links, &comm->rank->groups[inst->ref]);
}

static bool starts(const DtComm *comm, uint32_t channel)
{
    return dt_nccl_links_channel(comm->links, channel)->comm != NULL;
}

static bool enter(DtComm *comm, const DtPlanInst *inst)
{
    return dt_nccl_links_enter(comm->links, link_of(comm, inst));
}

static bool leave(DtComm *comm, const DtPlanInst *inst, int64_t event)
{
    return dt_nccl_links_leave(comm->links, link_of(comm, inst), event);
}

static bool await(DtComm *comm, int64_t event) { return dt_nccl_links_await(comm->links, event); }

/* ---- messages ---- */

static bool send(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    DtNcclLink *link = dt_nccl_links_channel(comm->links, channel);
    if (!link->comm)
        return wait(comm) && dt_comm_shm.send(comm->shm, channel, buffer, bytes, tag);
    return dt_nccl_links_begin(comm->links, link) &&
           dt_nccl_links_end(comm->links, link,
                             comm->nccl->send(buffer.at.at, (size_t)bytes, DT_NCCL_BYTES,
                                              1 - (int)link->me, link->comm, link->stream));
}

static bool recv(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    DtNcclLink *link = dt_nccl_links_channel(comm->links, channel);
    if (!link->comm)
        return wait(comm) && dt_comm_shm.recv(comm->shm, channel, buffer, bytes, tag);
    link->received += (uint64_t)bytes;
    return dt_nccl_links_begin(comm->links, link) &&
           dt_nccl_links_end(comm->links, link,
                             comm->nccl->recv(buffer.at.at, (size_t)bytes, DT_NCCL_BYTES,
                                              1 - (int)link->me, link->comm, link->stream));
}

static uint64_t channel_received(const DtComm *comm, uint32_t channel)
{
    return dt_nccl_links_channel(comm->links, channel)->received +
           dt_comm_shm.channel_received(comm->shm, channel);
}

/* ---- through the mapping ---- */

static bool barrier(DtComm *comm, const DtRankGroup *group)
{
    if (comm->nodes && group->ranks == comm->rank->world.ranks)
        return wait(comm) && meet(comm);
    return wait(comm) && dt_comm_shm.barrier(comm->shm, group);
}

static bool get(DtComm *comm, uint32_t rank, uint32_t arena, int64_t offset, int64_t bytes,
                void *ret_bytes)
{
    return wait(comm) &&
           (comm->nodes ? dt_cluster_get(comm->nodes, rank, arena, offset, bytes, ret_bytes)
                        : dt_comm_shm.get(comm->shm, rank, arena, offset, bytes, ret_bytes));
}

static bool serve(DtComm *comm, uint32_t asker)
{
    return wait(comm) && (comm->nodes && !dt_cluster_is_here(comm->rank, asker)
                              ? dt_cluster_serve(comm->nodes)
                              : dt_comm_shm.serve(comm->shm, asker));
}

static void release(DtComm *comm)
{
    if (comm->nodes)
        dt_cluster_release(comm->nodes);
    else
        dt_comm_shm.release(comm->shm);
}

/* Waits until rank 0 has decided whether the next step is the last one. Rank 0 may be many
 * instructions behind, so this rank also polls its own started operations. */
static bool decide(DtComm *comm)
{
    return !comm->nodes || (dt_nccl_links_until(comm->links, dt_cluster_is_decided, comm->nodes) &&
                            dt_cluster_decide(comm->nodes));
}

const DtCommOps dt_comm_nccl = {
    .name = "nccl",
    .open = open_nccl,
    .close = close_nccl,
    .all_reduce = all_reduce,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_to_all = all_to_all,
    .shift = shift,
    .send = send,
    .recv = recv,
    .barrier = barrier,
    .received = received,
    .channel_received = channel_received,
    .get = get,
    .serve = serve,
    .release = release,
    .decide = decide,
    .memory = memory,
    .starts = starts,
    .enter = enter,
    .leave = leave,
    .await = await,
    .wait = wait_until,
};
