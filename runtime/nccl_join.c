/* SPDX-License-Identifier: Apache-2.0 */
/* Makes NCCL's communicators and streams, and frees them. */
#include "runtime/comm_sync.h"
#include "runtime/nccl_internal.h"
#include "runtime/rank.h"

#include <stdlib.h>
#include <string.h>

enum { KEEPS_ORDER = 22600 }; /* the first version that starts kernels in the order of calls */

/* ---- sizes ---- */

static uint32_t n_links(const DtPlan *plan) { return plan->n_groups + 1 + plan->n_channels; }

uint64_t dt_nccl_links_bytes(const DtPlan *plan)
{
    const DtSyncWide words = (DtSyncWide)plan->meta->n_ranks * (n_links(plan) + 1);
    return plan->n_launches ? dt_sync_area((words * sizeof(uint32_t) + 63) / 64 * 64) : 0;
}

static uint32_t n_named(const DtPlan *plan)
{
    uint32_t n = 1;
    for (uint32_t g = 0; g < plan->n_groups; g++)
        n = plan->groups[g].queue >= n ? plan->groups[g].queue + 1 : n;
    return n;
}

uint32_t dt_nccl_links_queues(const DtPlan *plan) { return n_named(plan) + plan->n_channels; }

uint32_t dt_nccl_links_queue_of(const DtPlan *plan, const DtPlanInst *inst)
{
    const bool is_message = inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV;
    return is_message ? n_named(plan) + inst->ref : plan->groups[inst->ref].queue;
}

/* ---- all ranks ---- */

/* Sends the id that rank 0 made to all ranks, and tells all which rank uses which GPU. */
static bool exchange_id(DtNcclLinks *l, bool (*meet)(void *context), void *context,
                        DtNcclId *ret_id)
{
    DtShared *shared = l->rank->shared;
    _Static_assert(sizeof *ret_id == sizeof shared->nccl_id, "an id of NCCL");
    if (l->rank->rank == 0) {
        const int error = l->nccl.new_id(ret_id);
        if (error)
            return dt_rank_fail(l->rank, DT_EXIT_FAILED, "NCCL makes no id: %s: %.200s",
                                l->nccl.error_string(error), l->nccl.last_error(NULL));
        memcpy(shared->nccl_id, ret_id, sizeof shared->nccl_id);
    }
    atomic_store(&l->gpus[l->rank->rank], (uint32_t)l->work.device);
    if (!meet(context))
        return false;
    memcpy(ret_id, shared->nccl_id, sizeof *ret_id);
    return true;
}

static bool check_gpus(DtNcclLinks *l)
{
    const DtRankGroup *local = &l->rank->local;
    for (uint32_t i = 0; i < local->size; i++)
        for (uint32_t k = 0; k < i; k++)
            if (l->gpus[local->ranks[i]] == l->gpus[local->ranks[k]])
                return dt_rank_fail(l->rank, DT_EXIT_USAGE,
                                    "ranks %u and %u have one GPU, between which NCCL does not "
                                    "work: --comm shm does",
                                    local->ranks[k], local->ranks[i]);
    return true;
}

/* ---- groups and channels ---- */

/* Makes a communicator for the ranks of equal color from that of all ranks. All ranks must call it,
 * whether they are members or not. */
static bool split(DtNcclLinks *l, DtNcclLink *link, bool belongs, uint32_t color)
{
    DtNcclConfig config = dt_nccl_config(dt_nccl_windows_copies(l, link->number));
    const int result = l->nccl.split(l->world, belongs ? (int)color : DT_NCCL_NO_COLOR,
                                     belongs ? (int)link->me : 0, &link->comm, &config);
    return dt_nccl_links_settle(l, l->world, result) &&
           (!link->comm || dt_nccl_links_settle(l, link->comm, DT_NCCL_IN_PROGRESS));
}

/* Gives the link its queue and stream; the queue's stream is made for the first link that needs
 * it. */
static bool open_queue(DtNcclLinks *l, DtNcclLink *link, uint32_t number)
{
    int error = 0;
    link->queue = &l->queues[number];
    if (link->comm && !link->queue->stream)
        error = l->work.driver->stream_new(&link->queue->stream, DT_CUDA_STREAM_ALONE);
    link->stream = link->comm ? link->queue->stream : l->work.stream;
    return error == 0 ||
           dt_rank_fail(l->rank, DT_EXIT_FAILED, "the GPU has no stream for a queue: %s",
                        dt_cuda_driver_error(l->work.driver, error));
}

static bool join_group(DtNcclLinks *l, uint32_t number)
{
    const DtPlan *plan = l->rank->plan;
    const DtRankGroup *group = number < plan->n_groups ? &l->rank->groups[number] : &l->rank->world;
    DtNcclLink *link = &l->links[number];
    *link = (DtNcclLink){.ranks = group->ranks, .size = group->size, .me = group->me,
                         .number = number};
    if (group->size == l->rank->n_ranks && group->size > 1)
        link->comm = l->world;
    else if (group->size > 1 && !split(l, link, group->me < group->size, group->number))
        return false;
    return open_queue(l, link, number < plan->n_groups ? plan->groups[number].queue : 0);
}

/* Returns a number that ranks share if they differ only in their stage. */
static uint32_t number_beside(const DtRank *rank) { return dt_rank_at_stage(rank, 0); }

/* Joins the two ranks of a channel by a communicator. Messages of a channel within one stage, or
 * that is not `direct`, go through the mapping. */
static bool join_channel(DtNcclLinks *l, uint32_t number)
{
    const DtRank *rank = l->rank;
    const DtPlanChannel *channel = &rank->plan->channels[number];
    DtNcclLink *link = &l->links[rank->plan->n_groups + 1 + number];
    uint32_t *ranks = DT_NEW_ARRAY(rank->memory, uint32_t, 2);
    ranks[0] = dt_rank_at_stage(rank, channel->from);
    ranks[1] = dt_rank_at_stage(rank, channel->to);
    *link = (DtNcclLink){.ranks = ranks, .size = 2, .me = ranks[1] == rank->rank,
                         .number = rank->plan->n_groups + 1 + number};
    const bool belongs = ranks[0] == rank->rank || ranks[1] == rank->rank;
    return (!channel->direct || channel->from == channel->to ||
            split(l, link, belongs, number_beside(rank))) &&
           open_queue(l, link, n_named(rank->plan) + number);
}

/* Sends a first message through a channel: with it NCCL connects the two ranks, and meanwhile both
 * must wait. */
static bool greet(DtNcclLinks *l, DtNcclLink *link, DtDeviceAt spare)
{
    if (!dt_nccl_links_begin(l, link))
        return false;
    const int result = link->me == 0
                           ? l->nccl.send(spare.at, 1, DT_NCCL_BYTES, 1, link->comm, link->stream)
                           : l->nccl.recv(spare.at, 1, DT_NCCL_BYTES, 0, link->comm, link->stream);
    return dt_nccl_links_end(l, link, result) && dt_nccl_links_drain(l, link->stream);
}

static bool join(DtNcclLinks *l, bool (*meet)(void *context), void *context, DtDeviceAt spare)
{
    const DtPlan *plan = l->rank->plan;
    DtNcclConfig config = dt_nccl_config(dt_nccl_windows_copies(l, plan->n_groups));
    DtNcclId id;
    bool good = exchange_id(l, meet, context, &id) && check_gpus(l);
    if (good) {
        const int result =
            l->nccl.init(&l->world, (int)l->rank->n_ranks, id, (int)l->rank->rank, &config);
        good = dt_nccl_links_settle(l, l->world, result);
    }
    for (uint32_t g = 0; good && g <= plan->n_groups; g++)
        good = join_group(l, g);
    for (uint32_t c = 0; good && c < plan->n_channels; c++)
        good = join_channel(l, c);
    for (uint32_t c = plan->n_groups + 1; good && c < l->n_links; c++)
        if (l->links[c].comm)
            good = greet(l, &l->links[c], spare);
    return good;
}

DtStatus dt_nccl_links_open(DtRank *rank, char *area, bool (*meet)(void *context), void *context,
                            DtDeviceAt spare, DtNcclLinks **ret_links)
{
    DtNcclLinks *l = DT_NEW(rank->memory, DtNcclLinks);
    l->rank = rank;
    l->work = dt_device_cuda_work(rank);
    l->n_links = n_links(rank->plan);
    l->links = DT_NEW_ARRAY(rank->memory, DtNcclLink, l->n_links);
    l->n_queues = dt_nccl_links_queues(rank->plan);
    l->queues = DT_NEW_ARRAY(rank->memory, DtNcclQueue, l->n_queues);
    l->queues[0].stream = l->work.stream;
    l->pending = DT_NEW_ARRAY(rank->memory, DtNcclPending, DT_NCCL_PENDING);
    l->under = DT_NEW_ARRAY(rank->memory, uint64_t, rank->plan->meta->events + 1);
    l->gpus = (_Atomic uint32_t *)(void *)area;
    l->arrived = l->gpus + rank->n_ranks;
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    DtStatus status = dt_nccl_open(rank->memory, &l->nccl);
    if (!dt_status_ok(&status))
        return status;
    l->is_serial = l->nccl.version < KEEPS_ORDER;
    *ret_links = l;
    return join(l, meet, context, spare) ? DT_OK : dt_nccl_links_status(l);
}

DtStatus dt_nccl_links_status(const DtNcclLinks *l)
{
    return dt_rank_has_failed(l->rank)
               ? l->rank->failure
               : dt_status_fail(DT_EXIT_FAILED, "another rank failed");
}

/* ---- the end ---- */

static bool is_part(const DtNcclLinks *l, uint32_t link)
{
    return l->links[link].comm && l->links[link].comm != l->world;
}

static bool finish(DtNcclLinks *l)
{
    bool good = !dt_rank_has_failed(l->rank) && dt_nccl_links_wait(l);
    for (uint32_t q = 0; good && q < l->n_queues; q++)
        good = !l->queues[q].stream || dt_nccl_links_drain(l, l->queues[q].stream);
    good = good && dt_nccl_windows_close(l);
    for (uint32_t g = 0; good && g < l->n_links; g++)
        if (is_part(l, g))
            good = dt_nccl_links_settle(l, l->links[g].comm, l->nccl.finalize(l->links[g].comm));
    return good && (!l->world || dt_nccl_links_settle(l, l->world, l->nccl.finalize(l->world)));
}

static void free_event(const DtNcclLinks *l, DtCudaEvent *event)
{
    if (event)
        l->work.driver->event_free(event);
}

void dt_nccl_links_close(DtNcclLinks *l)
{
    const bool good = finish(l);
    for (uint32_t g = 0; good && g < l->n_links; g++)
        if (is_part(l, g))
            l->nccl.destroy(l->links[g].comm);
    if (good && l->world)
        l->nccl.destroy(l->world);
    if (!good)
        dt_nccl_links_abort(l);
    for (uint32_t q = 1; q < l->n_queues; q++)
        if (l->queues[q].stream)
            l->work.driver->stream_free(l->queues[q].stream);
    for (uint32_t i = 0; i < DT_NCCL_PENDING; i++) {
        free_event(l, l->pending[i].before);
        free_event(l, l->pending[i].after);
        free_event(l, l->pending[i].awaited);
    }
    free_event(l, l->here);
}

const DtNccl *dt_nccl_links_library(const DtNcclLinks *l) { return &l->nccl; }
const DtCudaWork *dt_nccl_links_work(const DtNcclLinks *l) { return &l->work; }

DtNcclQueue *dt_nccl_links_queue(const DtNcclLinks *l, uint32_t number)
{
    return &l->queues[number];
}

DtNcclLink *dt_nccl_links_find(const DtNcclLinks *l, const DtRankGroup *group)
{
    for (uint32_t g = 0; g <= l->rank->plan->n_groups; g++)
        if (l->links[g].ranks == group->ranks)
            return &l->links[g];
    dt_rank_fail(l->rank, DT_EXIT_FAILED,
                 "a collective over a group of %u ranks that is not in the plan", group->size);
    return NULL;
}

DtNcclLink *dt_nccl_links_channel(const DtNcclLinks *l, uint32_t channel)
{
    return &l->links[l->rank->plan->n_groups + 1 + channel];
}
