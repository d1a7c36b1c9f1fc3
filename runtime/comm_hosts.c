/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator of ranks on processors of several hosts (hosts.h). Its two names differ in the
 * transport of the wire: `ucx` and `tcp`. Sums have the same bits with either, and on one host.
 *
 * What all ranks do at once (barriers, counts, saving) goes over the connections of cluster.c. */
#include "runtime/hosts.h"

#include "runtime/device.h"
#include "runtime/reduce.h"
#include "runtime/shift.h"
#include "runtime/spread.h"

#include <string.h>

struct DtComm {
    DtHosts hosts;
};

/* ---- groups ---- */

uint32_t dt_hosts_of(const DtHostsGroup *g, uint32_t member)
{
    uint32_t host = 0;
    while (member >= g->first[host + 1])
        host++;
    return host;
}

DtWireHead dt_hosts_head(const DtHostsGroup *g, const DtHostsCall *call, DtWireKind kind,
                         int64_t part, int64_t bytes)
{
    return (DtWireHead){.mark = call->mark, .stream = g->number, .kind = kind, .part = part,
                        .bytes = bytes};
}

static uint32_t host_of(const DtRank *rank, uint32_t other)
{
    return dt_spread_node(rank->n_ranks, (uint32_t)rank->options->nodes, other);
}

static void open_group(DtHosts *hosts, uint32_t number)
{
    DtRank *rank = hosts->rank;
    DtHostsGroup *g = &hosts->groups[number];
    const DtRankGroup *known =
        number < rank->plan->n_groups ? &rank->groups[number] : &rank->world;
    *g = (DtHostsGroup){.known = known, .number = number, .lanes = UINT32_MAX,
                        .first = DT_NEW_ARRAY(rank->memory, uint32_t, known->size + 1)};
    g->here = number < rank->plan->n_groups ? dt_cluster_here(rank, known) : rank->local;
    g->shm = number < rank->plan->n_groups ? hosts->across : hosts->shm;
    for (uint32_t m = 0; m < known->size; m++) {
        if (m > 0 && host_of(rank, known->ranks[m]) == host_of(rank, known->ranks[m - 1]))
            continue;
        if (dt_cluster_is_here(rank, known->ranks[m]))
            g->host = g->n_hosts;
        g->first[g->n_hosts++] = m;
    }
    g->first[g->n_hosts] = known->size;
    for (uint32_t h = 0; h < g->n_hosts; h++)
        if (g->first[h + 1] - g->first[h] < g->lanes)
            g->lanes = g->first[h + 1] - g->first[h];
}

static DtHostsGroup *find(DtHosts *hosts, const DtRankGroup *known)
{
    for (uint32_t g = 0; g < hosts->n_groups; g++)
        if (hosts->groups[g].known->ranks == known->ranks)
            return &hosts->groups[g];
    dt_rank_fail(hosts->rank, DT_EXIT_FAILED,
                 "a collective over a group of %u ranks that is not in the plan", known->size);
    return NULL;
}

/* ---- open and close ---- */

static bool meet_all(void *context)
{
    const DtHosts *hosts = context;
    return dt_cluster_barrier(hosts->nodes);
}

/* Marks the ranks of other hosts with which this one has groups or channels in common. */
static void find_needs(const DtHosts *hosts, bool *needs)
{
    const DtRank *rank = hosts->rank;
    for (uint32_t g = 0; g < hosts->n_groups; g++) {
        const DtHostsGroup *group = &hosts->groups[g];
        for (uint32_t m = 0; group->known->me < group->known->size && m < group->known->size; m++)
            if (!dt_cluster_is_here(rank, group->known->ranks[m]))
                needs[group->known->ranks[m]] = true;
    }
    for (uint32_t c = 0; c < rank->plan->n_channels; c++)
        if (dt_hosts_channel_has(hosts->channels, c))
            needs[dt_hosts_channel_peer(hosts->channels, c)] = true;
}

static DtWireMost most_of(const DtHosts *hosts)
{
    const DtPlan *plan = hosts->rank->plan;
    DtWireMost most = {.bytes = DT_HOSTS_CHUNK};
    for (uint32_t c = 0; c < plan->n_channels; c++) {
        most.bytes = plan->channels[c].bytes > most.bytes ? plan->channels[c].bytes : most.bytes;
        if (!dt_hosts_channel_has(hosts->channels, c))
            continue;
        most.slots += plan->channels[c].slots;
        most.slot_bytes += plan->channels[c].slots * plan->channels[c].bytes;
    }
    return most;
}

static bool has_channels(const DtHosts *hosts)
{
    bool any = false;
    for (uint32_t c = 0; c < hosts->rank->plan->n_channels; c++)
        any = any || dt_hosts_channel_has(hosts->channels, c);
    return any;
}

static DtStatus open_hosts(DtRank *rank, const DtWireOps *ops, DtComm **ret_comm)
{
    DtComm *comm = DT_NEW(rank->memory, DtComm);
    DtHosts *hosts = &comm->hosts;
    *hosts = (DtHosts){.rank = rank, .n_groups = rank->plan->n_groups + 1};
    *ret_comm = comm;
    DtStatus status = dt_comm_shm.open(rank, &hosts->shm);
    if (dt_status_ok(&status))
        status = dt_comm_shm.open(rank, &hosts->across);
    if (dt_status_ok(&status))
        status = dt_cluster_join(rank, &dt_comm_shm, hosts->shm, &hosts->nodes);
    if (!dt_status_ok(&status))
        return status;
    hosts->groups = DT_NEW_ARRAY(rank->memory, DtHostsGroup, hosts->n_groups);
    for (uint32_t g = 0; g < hosts->n_groups; g++)
        open_group(hosts, g);
    hosts->channels = dt_hosts_channel_open(rank);
    hosts->pool = dt_arena_alloc(rank->memory, (size_t)DT_HOSTS_WINDOW * DT_HOSTS_SLOT);
    dt_hosts_sums_open(hosts);
    dt_hosts_moves_open(hosts);
    dt_hosts_direct_open(hosts);
    bool *needs = DT_NEW_ARRAY(rank->memory, bool, rank->n_ranks);
    find_needs(hosts, needs);
    const uint32_t streams = hosts->n_groups + rank->plan->n_channels;
    if (dt_wire_open(rank, ops, needs, streams, most_of(hosts), meet_all, hosts,
                     &hosts->wire) &&
        dt_hosts_channel_begin(hosts->channels, hosts->wire))
        return dt_hosts_thread_open(hosts, has_channels(hosts));
    return dt_rank_has_failed(rank)
               ? rank->failure
               : dt_status_fail(DT_EXIT_RETRY, "another rank failed");
}

static DtStatus open_tcp(DtRank *rank, DtComm **ret_comm)
{
    return open_hosts(rank, &dt_wire_tcp, ret_comm);
}

static DtStatus open_ucx(DtRank *rank, DtComm **ret_comm)
{
    return open_hosts(rank, &dt_wire_ucx, ret_comm);
}

static void close_hosts(DtComm *comm)
{
    if (comm->hosts.thread)
        dt_hosts_thread_close(comm->hosts.thread);
    if (comm->hosts.wire)
        dt_wire_close(comm->hosts.wire);
    dt_cluster_leave(comm->hosts.nodes);
    if (comm->hosts.across)
        dt_comm_shm.close(comm->hosts.across);
    if (comm->hosts.shm)
        dt_comm_shm.close(comm->hosts.shm);
}

/* ---- collectives ---- */

typedef bool Part(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call);

/* The members here meet, do their part and part. */
static bool between_meetings(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call, Part *part)
{
    return dt_comm_shm_meet(g->shm, &g->here, &call->shm, &call->mark) && part(hosts, g, call) &&
           dt_comm_shm_part(g->shm, &g->here);
}

static bool run_sum(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    return between_meetings(hosts, g, call, dt_hosts_sum);
}

static bool run_gather(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    return between_meetings(hosts, g, call, dt_hosts_moves_gather);
}

static bool run_all_to_all(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    return between_meetings(hosts, g, call, dt_hosts_moves_all_to_all);
}

static bool run_shift(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    return between_meetings(hosts, g, call, dt_hosts_moves_shift);
}

/* Runs a collective of several hosts, or only starts it. */
static bool run(DtHosts *hosts, DtHostsGroup *g, const DtShmCall *shm, const DtRankBlocks *blocks,
                DtHostsRun *function)
{
    DtHostsCall call = {.shm = *shm, .blocks = blocks, .e = dt_kinds_size(shm->dtype)};
    call.mark = dt_comm_mark(hosts->rank, g->number, ++g->sequence, shm->count * call.e);
    if (hosts->starts) {
        hosts->has_started = true;
        return dt_hosts_thread_start(hosts->thread, g, &call, function);
    }
    if (!dt_hosts_thread_enter(hosts->thread))
        return false;
    const bool good = function(hosts, g, &call);
    dt_hosts_thread_leave(hosts->thread);
    return good;
}

static bool is_shared(DtHosts *hosts, DtPlaceAt place)
{
    return dt_comm_shm_shares(hosts->shm, place) ||
           dt_rank_fail(hosts->rank, DT_EXIT_FAILED,
                        "a collective of several hosts over memory that the ranks of a host do not "
                        "share");
}

static bool can_reduce(DtHosts *hosts, DtPlanDtype dtype)
{
    return dt_reduce_knows(dtype) ||
           dt_rank_fail(hosts->rank, DT_EXIT_FAILED,
                        "reductions of %s between ranks do not exist yet", dt_kinds_name(dtype));
}

/* Memory that is not shared goes through this rank's bounce buffer, piece by piece. */
static bool reduce_pieces(DtHosts *hosts, DtHostsGroup *g, const DtShmCall *call)
{
    const int64_t e = dt_kinds_size(call->dtype), most = DT_SHM_BOUNCE / e;
    hosts->starts = false; /* this rank copies the pieces */
    for (int64_t done = 0, n; done < call->count; done += n) {
        DtShmCall piece = *call;
        n = piece.count = call->count - done < most ? call->count - done : most;
        piece.to = piece.from = dt_comm_shm_bounced(hosts->shm);
        dt_device_get(hosts->rank, dt_comm_shm_bounce(hosts->shm),
                      dt_device_from(call->from, done * e), n * e);
        if (!run(hosts, g, &piece, NULL, run_sum))
            return false;
        dt_device_put(hosts->rank, dt_device_from(call->to, done * e),
                      dt_comm_shm_bounce(hosts->shm), n * e);
    }
    return true;
}

/* The bytes that a member receives from others if each one sums what it owns; the same as on one
 * host (comm_shm.c), so that traffic does not depend on where the ranks are. */
static uint64_t reduced_from_others(const DtHostsGroup *g, int64_t count, int64_t e)
{
    const int64_t size = g->known->size, chunk = dt_comm_mark_chunk(count, e, g->known->size);
    int64_t first = chunk * g->known->me, last = first + chunk;
    first = first < count ? first : count;
    last = last < count ? last : count;
    return (uint64_t)(((last - first) * (size - 1) + count - (last - first)) * e);
}

static bool all_reduce(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       int64_t count, DtPlanDtype dtype, DtPlanReduce reduce)
{
    DtHosts *hosts = &comm->hosts;
    DtHostsGroup *g = find(hosts, group);
    const DtShmCall call = {DT_SHM_ALL_REDUCE, dtype, reduce, count, to, from};
    if (!g || !can_reduce(hosts, dtype))
        return false;
    if (g->n_hosts == 1)
        return dt_comm_shm.all_reduce(hosts->shm, group, to, from, count, dtype, reduce);
    g->received += reduced_from_others(g, count, dt_kinds_size(dtype));
    if (!dt_comm_shm_shares(hosts->shm, to) || !dt_comm_shm_shares(hosts->shm, from))
        return reduce_pieces(hosts, g, &call);
    return run(hosts, g, &call, NULL, run_sum);
}

static uint64_t from_others(const DtHostsGroup *g, int64_t count, DtPlanDtype dtype)
{
    return (uint64_t)(count * dt_kinds_size(dtype)) * (g->known->size - 1);
}

static bool all_gather(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype)
{
    DtHosts *hosts = &comm->hosts;
    DtHostsGroup *g = find(hosts, group);
    const DtShmCall call = {DT_SHM_ALL_GATHER, dtype, DT_PLAN_SUM, count, to, from};
    if (!g)
        return false;
    if (g->n_hosts == 1)
        return dt_comm_shm.all_gather(hosts->shm, group, to, from, blocks, count, dtype);
    g->received += from_others(g, count, dtype);
    return is_shared(hosts, from) && run(hosts, g, &call, blocks, run_gather);
}

static bool reduce_scatter(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                           const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype,
                           DtPlanReduce reduce)
{
    DtHosts *hosts = &comm->hosts;
    DtHostsGroup *g = find(hosts, group);
    const DtShmCall call = {DT_SHM_REDUCE_SCATTER, dtype, reduce, count, to, from};
    if (!g || !can_reduce(hosts, dtype))
        return false;
    if (g->n_hosts == 1)
        return dt_comm_shm.reduce_scatter(hosts->shm, group, to, from, blocks, count, dtype,
                                          reduce);
    g->received += from_others(g, count, dtype);
    return is_shared(hosts, from) && run(hosts, g, &call, blocks, run_sum);
}

static bool all_to_all(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype)
{
    DtHosts *hosts = &comm->hosts;
    DtHostsGroup *g = find(hosts, group);
    const DtShmCall call = {DT_SHM_ALL_TO_ALL, dtype, DT_PLAN_SUM, count, to, from};
    if (!g)
        return false;
    if (g->n_hosts == 1)
        return dt_comm_shm.all_to_all(hosts->shm, group, to, from, blocks, count, dtype);
    g->received += from_others(g, count, dtype);
    return is_shared(hosts, from) && run(hosts, g, &call, blocks, run_all_to_all);
}

static bool shift(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                  int64_t count, DtPlanDtype dtype, uint32_t way)
{
    DtHosts *hosts = &comm->hosts;
    DtHostsGroup *g = find(hosts, group);
    const DtShmCall call = {DT_SHM_SHIFT + way, dtype, DT_PLAN_SUM, count, to, from};
    if (!g)
        return false;
    if (g->n_hosts == 1)
        return dt_comm_shm.shift(hosts->shm, group, to, from, count, dtype, way);
    if (dt_shift_from(way, group->size, group->me) != group->me)
        g->received += (uint64_t)(count * dt_kinds_size(dtype));
    return is_shared(hosts, from) && run(hosts, g, &call, NULL, run_shift);
}

/* Waits for all that was started. */
static bool await_all(DtHosts *hosts)
{
    if (!dt_hosts_thread_enter(hosts->thread))
        return false;
    dt_hosts_thread_leave(hosts->thread);
    return true;
}

/* A barrier of members of several hosts is an all-reduce of one byte; one of all ranks also makes
 * header and slots equal. */
static bool barrier(DtComm *comm, const DtRankGroup *group)
{
    DtHosts *hosts = &comm->hosts;
    DtHostsGroup *g = find(hosts, group);
    if (!g)
        return false;
    if (group->ranks == hosts->rank->world.ranks)
        return await_all(hosts) && dt_cluster_barrier(hosts->nodes);
    if (g->n_hosts == 1)
        return dt_comm_shm.barrier(hosts->shm, group);
    const DtPlaceAt place = dt_comm_shm_bounced(hosts->shm);
    *dt_comm_shm_bounce(hosts->shm) = 0;
    const DtShmCall call = {DT_SHM_BARRIER, DT_PLAN_U8, DT_PLAN_SUM, 1, place, place};
    return run(hosts, g, &call, NULL, run_sum);
}

static uint64_t received(const DtComm *comm, const DtRankGroup *group)
{
    const DtHosts *hosts = &comm->hosts;
    uint64_t bytes = dt_comm_shm.received(hosts->shm, group);
    for (uint32_t g = 0; g < hosts->n_groups; g++)
        if (hosts->groups[g].known->ranks == group->ranks)
            bytes += hosts->groups[g].received;
    return bytes;
}

/* ---- channels ---- */

static bool send(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    DtHosts *hosts = &comm->hosts;
    if (!dt_hosts_channel_has(hosts->channels, channel))
        return dt_comm_shm.send(hosts->shm, channel, buffer, bytes, tag);
    if (!dt_hosts_thread_enter(hosts->thread))
        return false;
    const bool good = dt_hosts_channel_send(hosts->channels, channel, buffer, bytes, tag);
    dt_hosts_thread_leave(hosts->thread);
    return good;
}

static bool recv(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    DtHosts *hosts = &comm->hosts;
    if (!dt_hosts_channel_has(hosts->channels, channel))
        return dt_comm_shm.recv(hosts->shm, channel, buffer, bytes, tag);
    if (!dt_hosts_thread_enter(hosts->thread))
        return false;
    const bool good = dt_hosts_channel_recv(hosts->channels, channel, buffer, bytes, tag);
    dt_hosts_thread_leave(hosts->thread);
    return good;
}

/* ---- what is only started ---- */

static bool enter(DtComm *comm, const DtPlanInst *inst)
{
    const bool is_message = inst->kind == DT_INST_SEND || inst->kind == DT_INST_RECV;
    comm->hosts.starts = inst->event != 0 && !is_message;
    comm->hosts.has_started = false;
    return true;
}

static bool leave(DtComm *comm, const DtPlanInst *inst, int64_t event)
{
    (void)inst;
    if (comm->hosts.has_started && event >= 0)
        dt_hosts_thread_name(comm->hosts.thread, event);
    comm->hosts.starts = false;
    return true;
}

static bool await(DtComm *comm, int64_t event)
{
    return dt_hosts_thread_await(comm->hosts.thread, event);
}

static uint64_t channel_received(const DtComm *comm, uint32_t channel)
{
    return dt_hosts_channel_received(comm->hosts.channels, channel) +
           dt_comm_shm.channel_received(comm->hosts.shm, channel);
}

/* ---- all ranks ---- */

static bool get(DtComm *comm, uint32_t rank, uint32_t arena, int64_t offset, int64_t bytes,
                void *ret_bytes)
{
    return dt_cluster_get(comm->hosts.nodes, rank, arena, offset, bytes, ret_bytes);
}

static bool serve(DtComm *comm, uint32_t asker)
{
    return dt_cluster_is_here(comm->hosts.rank, asker)
               ? dt_comm_shm.serve(comm->hosts.shm, asker)
               : dt_cluster_serve(comm->hosts.nodes);
}

static void release(DtComm *comm) { dt_cluster_release(comm->hosts.nodes); }

static bool decide(DtComm *comm) { return dt_cluster_decide(comm->hosts.nodes); }

#define FUNCTIONS                                                                              \
    .close = close_hosts, .all_reduce = all_reduce, .all_gather = all_gather,                  \
    .reduce_scatter = reduce_scatter, .all_to_all = all_to_all, .shift = shift, .send = send,  \
    .recv = recv, .barrier = barrier, .received = received,                                    \
    .channel_received = channel_received, .get = get, .serve = serve, .release = release,      \
    .decide = decide, .enter = enter, .leave = leave, .await = await

const DtCommOps dt_comm_ucx = {.name = "ucx", .open = open_ucx, FUNCTIONS};
const DtCommOps dt_comm_tcp = {.name = "tcp", .open = open_tcp, FUNCTIONS};
