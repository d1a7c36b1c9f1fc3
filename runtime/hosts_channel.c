/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between stages on different hosts. A send copies its message into one of the channel's
 * slots and goes on, as through the mapping (channel.c): it waits for a free slot only, and never
 * for the other rank to come. The other rank has as many slots, each with a receive, and says when
 * it has taken a message out of one. */
#include "runtime/hosts.h"

#include "runtime/device.h"
#include "runtime/rank.h"

#include <string.h>

typedef struct Slot {
    DtWirePost post, taken; /* taken: of a receiver, the word that the slot is free again */
    char *bytes;
} Slot;

/* An end of a channel. n: messages that this rank has sent, or taken. */
typedef struct End {
    bool is_there, sends;
    uint32_t peer; /* rank */
    uint64_t n, received;
    Slot *slots;
} End;

struct DtHostsChannels {
    DtRank *rank;
    DtWire *wire;
    End *ends; /* by channel */
};

DtHostsChannels *dt_hosts_channel_open(DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    DtHostsChannels *c = DT_NEW(rank->memory, DtHostsChannels);
    *c = (DtHostsChannels){.rank = rank,
                           .ends = DT_NEW_ARRAY(rank->memory, End, plan->n_channels + 1)};
    for (uint32_t i = 0; i < plan->n_channels; i++) {
        const DtPlanChannel *channel = &plan->channels[i];
        const bool sends = channel->from == rank->stage;
        const uint32_t peer = dt_rank_at_stage(rank, sends ? channel->to : channel->from);
        if ((!sends && channel->to != rank->stage) || dt_cluster_is_here(rank, peer))
            continue;
        c->ends[i] = (End){.is_there = true, .sends = sends, .peer = peer,
                           .slots = DT_NEW_ARRAY(rank->memory, Slot, channel->slots)};
        for (uint32_t s = 0; s < channel->slots; s++) {
            c->ends[i].slots[s].bytes = dt_arena_alloc(rank->memory, (size_t)channel->bytes + 1);
            c->ends[i].slots[s].post.is_free = c->ends[i].slots[s].taken.is_free = true;
        }
    }
    return c;
}

static DtWireHead head_of(const DtHostsChannels *c, uint32_t channel, DtWireKind kind,
                          uint64_t number, int64_t bytes)
{
    const uint32_t stream = c->rank->plan->n_groups + 1 + channel;
    DtWireHead head = {.stream = stream, .kind = kind, .bytes = bytes};
    /* stages run ahead of each other, but not from one step to the next without meeting */
    head.mark = dt_comm_mark(c->rank, stream, number + 1, 0);
    head.mark.inst = UINT32_MAX;
    head.mark.step = 0;
    return head;
}

/* Expects message `number`, of any length up to a slot's: how long it is, its head says. */
static void expect(DtHostsChannels *c, uint32_t channel, uint64_t number)
{
    End *end = &c->ends[channel];
    Slot *slot = &end->slots[number % c->rank->plan->channels[channel].slots];
    slot->post.head = head_of(c, channel, DT_WIRE_MESSAGE, number,
                              c->rank->plan->channels[channel].bytes);
    slot->post.at = slot->bytes;
    dt_wire_recv(c->wire, end->peer, &slot->post);
}

bool dt_hosts_channel_begin(DtHostsChannels *c, DtWire *wire)
{
    c->wire = wire;
    for (uint32_t i = 0; i < c->rank->plan->n_channels; i++)
        for (uint32_t s = 0; c->ends[i].is_there && !c->ends[i].sends &&
                             s < c->rank->plan->channels[i].slots;
             s++)
            expect(c, i, s);
    return !dt_rank_has_failed(c->rank);
}

bool dt_hosts_channel_has(const DtHostsChannels *c, uint32_t channel)
{
    return c->ends[channel].is_there;
}

uint32_t dt_hosts_channel_peer(const DtHostsChannels *c, uint32_t channel)
{
    return c->ends[channel].peer;
}

bool dt_hosts_channel_send(DtHostsChannels *c, uint32_t channel, DtPlaceAt buffer, int64_t bytes,
                           int64_t tag)
{
    const DtPlanChannel *record = &c->rank->plan->channels[channel];
    End *end = &c->ends[channel];
    Slot *slot = &end->slots[end->n % record->slots];
    DtWireWait wait = {0};
    const uint64_t *taken = &c->wire->taken[record - c->rank->plan->channels +
                                            c->rank->plan->n_groups + 1];
    while (end->n - *taken >= record->slots || (!slot->post.is_free && !slot->post.is_done))
        if (!dt_wire_turn(c->wire, &wait, end->peer))
            return false;
    dt_wire_go_on(c->wire, &wait);
    dt_device_get(c->rank, slot->bytes, buffer, bytes);
    slot->post.head = head_of(c, channel, DT_WIRE_MESSAGE, end->n++, bytes);
    slot->post.head.tag = tag;
    slot->post.head.step = c->rank->step;
    slot->post.at = slot->bytes;
    dt_wire_send(c->wire, end->peer, &slot->post);
    atomic_fetch_add_explicit(&c->rank->slot->progress, 1, memory_order_relaxed);
    return !dt_rank_has_failed(c->rank);
}

static bool check(DtHostsChannels *c, const DtPlanChannel *channel, const DtWireHead *came,
                  int64_t bytes, int64_t tag)
{
    return (came->bytes == bytes && came->tag == tag && came->step == c->rank->step) ||
           dt_rank_fail(c->rank, DT_EXIT_FAILED,
                        "stage %u (rank %u) expects %lld bytes of `%.60s` of micro-batch %lld, "
                        "step %lld, from stage %u (rank %u), which sent %lld of micro-batch %lld, "
                        "step %lld",
                        channel->to, c->rank->rank, (long long)bytes,
                        dt_plan_str(c->rank->plan, channel->name), (long long)tag,
                        (long long)c->rank->step + 1, channel->from, came->from,
                        (long long)came->bytes, (long long)came->tag, (long long)came->step + 1);
}

bool dt_hosts_channel_recv(DtHostsChannels *c, uint32_t channel, DtPlaceAt buffer, int64_t bytes,
                           int64_t tag)
{
    const DtPlanChannel *record = &c->rank->plan->channels[channel];
    End *end = &c->ends[channel];
    Slot *slot = &end->slots[end->n % record->slots];
    if (!dt_wire_finish(c->wire, &slot->post) || !check(c, record, &slot->post.head, bytes, tag))
        return false;
    dt_device_put(c->rank, buffer, slot->bytes, bytes);
    end->received += (uint64_t)bytes;
    if (!slot->taken.is_free && !dt_wire_finish(c->wire, &slot->taken))
        return false;
    slot->taken.head = head_of(c, channel, DT_WIRE_TAKEN, end->n, 0);
    slot->taken.at = slot->bytes;
    expect(c, channel, end->n + record->slots);
    end->n++;
    dt_wire_send(c->wire, end->peer, &slot->taken);
    atomic_fetch_add_explicit(&c->rank->slot->progress, 1, memory_order_relaxed);
    return !dt_rank_has_failed(c->rank);
}

uint64_t dt_hosts_channel_received(const DtHostsChannels *c, uint32_t channel)
{
    return c->ends[channel].received;
}
