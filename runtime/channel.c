/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between stages, over the mapping that the ranks of one machine share.
 *
 * Each channel of the plan exists once per set of ranks that differ in their stage only. It is a
 * ring of `slots` slots with two counters: messages sent, raised by the sender alone, and messages
 * taken, raised by the receiver alone. A send waits while sent - taken = slots, a receive while
 * they are equal; neither waits for the other rank to come. Messages are copied into and out of
 * their slot, so both buffers are free when the instruction is done.
 *
 * Each message carries its length, a tag (the micro-batch) and the step: ends that disagree fail
 * instead of computing nonsense. */
#include "runtime/channel.h"

#include "runtime/comm_sync.h"
#include "runtime/device.h"
#include "runtime/rank.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 64 };

typedef struct Slot {
    _Alignas(LINE) int64_t bytes;
    int64_t tag, step;
    _Alignas(LINE) char data[];
} Slot;

typedef struct Ring {
    DtSyncWord sent, taken;
    char slots[];
} Ring;

/* A channel as this rank uses it. The rank counts its messages itself, to find the next slot,
 * because the counters in the mapping wrap around. */
typedef struct End {
    Ring *ring;
    uint32_t next_sent, next_taken;
    uint64_t received;
} End;

struct DtChannels {
    DtRank *rank;
    End *ends; /* by channel */
};

/* ---- layout ---- */

static uint64_t slot_bytes(const DtPlanChannel *channel)
{
    return dt_sync_area(sizeof(Slot) + ((DtSyncWide)channel->bytes + LINE - 1) / LINE * LINE);
}

static uint64_t ring_bytes(const DtPlanChannel *channel)
{
    return dt_sync_area(sizeof(Ring) + (DtSyncWide)slot_bytes(channel) * channel->slots);
}

uint64_t dt_channel_bytes(const DtPlan *plan)
{
    DtSyncWide bytes = 0;
    uint32_t copies = plan->n_channels ? plan->meta->n_ranks / dt_plan_stages(plan) : 0;
    for (uint32_t c = 0; c < plan->n_channels; c++)
        bytes += (DtSyncWide)ring_bytes(&plan->channels[c]) * copies;
    return dt_sync_area(bytes);
}

/* Returns the number of the channel's instance that this rank uses; ranks that differ only in their
 * stage share one. */
static uint32_t copy_number(const DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    uint32_t number = 0;
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        if (m + 1 != plan->meta->pipeline)
            number = number * plan->mesh[m].size + (uint32_t)rank->coord[m];
    return number;
}

DtChannels *dt_channel_open(DtRank *rank, char *area)
{
    const DtPlan *plan = rank->plan;
    DtChannels *channels = DT_NEW(rank->memory, DtChannels);
    channels->rank = rank;
    channels->ends = DT_NEW_ARRAY(rank->memory, End, plan->n_channels + 1);
    for (uint32_t c = 0; c < plan->n_channels; c++) {
        uint64_t bytes = ring_bytes(&plan->channels[c]);
        channels->ends[c].ring = (Ring *)(void *)(area + bytes * copy_number(rank));
        area += bytes * (plan->meta->n_ranks / dt_plan_stages(plan));
    }
    return channels;
}

/* ---- waiting ---- */

static uint32_t who_is_peer(const void *context) { return *(const uint32_t *)context; }

/* Waits while the word of the channel still has the value `old`. peer_stage: the stage whose rank
 * raises it. */
static bool wait_while(DtChannels *channels, uint32_t c, uint32_t peer_stage, DtSyncWord *word,
                       uint32_t old)
{
    DtRank *rank = channels->rank;
    const DtPlanChannel *channel = &rank->plan->channels[c];
    char what[128];
    uint32_t peer = dt_rank_at_stage(rank, peer_stage);
    DtSyncWait wait = dt_sync_new(rank, who_is_peer, &peer);
    const DtSyncResult result = dt_sync_wait(&wait, word, old);
    if (result == DT_SYNC_OK)
        return true;
    snprintf(what, sizeof what, " (`%.60s`, stage %u to %u)",
             dt_plan_str(rank->plan, channel->name), channel->from, channel->to);
    return dt_sync_report(rank, result, &wait, what);
}

/* The slot for message number *next; then increments *next. */
static Slot *take_slot(const DtPlanChannel *channel, Ring *ring, uint32_t *next)
{
    uint32_t number = *next;
    *next = number + 1 == channel->slots ? 0 : number + 1;
    return (Slot *)(void *)(ring->slots + number * slot_bytes(channel));
}

/* ---- messages ---- */

bool dt_channel_send(DtChannels *channels, uint32_t c, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    const DtPlanChannel *channel = &channels->rank->plan->channels[c];
    End *end = &channels->ends[c];
    Ring *ring = end->ring;
    uint32_t sent = atomic_load_explicit(&ring->sent.value, memory_order_relaxed);
    if (!wait_while(channels, c, channel->to, &ring->taken, sent - channel->slots))
        return false;
    Slot *slot = take_slot(channel, ring, &end->next_sent);
    slot->bytes = bytes;
    slot->tag = tag;
    slot->step = channels->rank->step;
    dt_device_get(channels->rank, slot->data, buffer, bytes);
    dt_sync_raise(&ring->sent);
    atomic_fetch_add_explicit(&channels->rank->slot->progress, 1, memory_order_relaxed);
    return true;
}

bool dt_channel_recv(DtChannels *channels, uint32_t c, DtPlaceAt buffer, int64_t bytes, int64_t tag)
{
    DtRank *rank = channels->rank;
    const DtPlanChannel *channel = &rank->plan->channels[c];
    End *end = &channels->ends[c];
    Ring *ring = end->ring;
    uint32_t taken = atomic_load_explicit(&ring->taken.value, memory_order_relaxed);
    if (!wait_while(channels, c, channel->from, &ring->sent, taken))
        return false;
    const Slot *slot = take_slot(channel, ring, &end->next_taken);
    if (slot->bytes != bytes || slot->tag != tag || slot->step != rank->step)
        return dt_rank_fail(rank, DT_EXIT_FAILED,
                            "stage %u expects %lld bytes of `%.60s` of micro-batch %lld, step "
                            "%lld, from stage %u, which sent %lld of micro-batch %lld, step %lld",
                            channel->to, (long long)bytes, dt_plan_str(rank->plan, channel->name),
                            (long long)tag, (long long)rank->step + 1, channel->from,
                            (long long)slot->bytes, (long long)slot->tag,
                            (long long)slot->step + 1);
    dt_device_put(rank, buffer, slot->data, bytes);
    dt_sync_raise(&ring->taken);
    end->received += (uint64_t)bytes;
    atomic_fetch_add_explicit(&rank->slot->progress, 1, memory_order_relaxed);
    return true;
}

uint64_t dt_channel_received(const DtChannels *channels, uint32_t channel)
{
    return channels->ends[channel].received;
}
