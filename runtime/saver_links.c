/* SPDX-License-Identifier: Apache-2.0 */
/* A save over several hosts. The threads of ranks are connected by a wire of their own, since that
 * of the collectives belongs to the thread that runs the rank:
 *
 *     parts    of a chunk go from the rank that supplies them to the one that writes it, a few
 *              chunks ahead. Both compute from the plan how many bytes each has
 *     words    between rank 0 and the first rank of each other host
 *
 * A part is sent from the copy, and is received in the slot of its chunk. */
#include "runtime/saver_internal.h"

#include "runtime/cluster.h"
#include "runtime/spread.h"

#include <string.h>

enum { AHEAD = DT_SAVER_AHEAD, PARTS = 0, WORDS = 1, STREAMS = 2 };
/* numbers of messages after those of DtSaverWord */
enum { REPORT = DT_SAVER_ENDED + 1, DIGESTS };

/* The first rank of another host, as rank 0 knows it; rank 0, as that rank knows it. */
typedef struct Head {
    uint32_t rank;
    int64_t first_chunk, n_chunks; /* of the shares of its host */
    DtStatus status;
    DtWirePost word, digests;
} Head;

struct DtSaverLinks {
    struct DtSaver *saver;
    DtWire *wire;
    uint64_t limit_ns; /* of its waits when it is closed */
    Head *heads;
    uint32_t n_heads;
    char *slots[AHEAD]; /* the parts of a chunk */
    int64_t rounds, asked; /* chunks of this rank's share; those whose parts are expected */
};

static DtWireHead head_of(const DtSaverLinks *l, uint32_t stream, int64_t part, int64_t bytes)
{
    const struct DtSaver *saver = l->saver;
    return (DtWireHead){.mark = {.attempt = saver->rank->shared->attempt,
                                 .inst = UINT32_MAX,
                                 .group = stream,
                                 .step = saver->steps,
                                 .sequence = saver->number},
                        .stream = stream,
                        .kind = DT_WIRE_BLOCK,
                        .part = part,
                        .bytes = bytes};
}

/* ---- parts of chunks ---- */

static int64_t bytes_of(const DtSaverLinks *l, const DtSupply *supply, DtSharesRange share,
                        int64_t round)
{
    return dt_shares_supplied(&l->saver->shares, supply,
                              dt_shares_window(share, round, DT_CHUNK_BYTES));
}

/* Sends what may be sent now to a writer. Returns whether that was anything. */
static bool send_some(DtSaverLinks *l, DtSaverGoal *goal)
{
    const int64_t rounds = dt_shares_rounds(goal->share, DT_CHUNK_BYTES);
    bool any = false;
    while (goal->round < rounds) {
        DtWirePost *post = &goal->posts[goal->n % AHEAD];
        if (!post->is_free && !post->is_done)
            break;
        const int64_t bytes = bytes_of(l, &goal->supply, goal->share, goal->round);
        if (bytes > 0) {
            post->head = head_of(l, PARTS, goal->round, bytes);
            post->at = l->saver->copies + goal->at + goal->done;
            goal->done += bytes;
            goal->n++;
            dt_wire_send(l->wire, goal->supply.writer, post);
            any = true;
        }
        goal->round++;
    }
    return any;
}

static bool send_to_all(DtSaverLinks *l)
{
    bool any = false;
    for (uint32_t g = 0; g < l->saver->n_goals; g++)
        any = send_some(l, &l->saver->goals[g]) || any;
    return any;
}

/* Lets bytes move, or waits for a while. who: the rank for which this one waits. */
static bool turn(DtSaverLinks *l, DtWireWait *wait, uint32_t who)
{
    struct DtSaver *saver = l->saver;
    if (send_to_all(l))
        return !atomic_load(&saver->cancelled);
    const uint32_t turns = wait->turns;
    const bool good = !atomic_load(&saver->cancelled) && dt_wire_turn(l->wire, wait, who);
    if (wait->turns <= turns) /* something has moved */
        atomic_fetch_add(&saver->rank->slot->progress, 1);
    return good;
}

static bool finish(DtSaverLinks *l, DtWirePost *post, uint32_t who)
{
    DtWireWait wait = {0};
    while (!post->is_free && !post->is_done)
        if (!turn(l, &wait, who))
            return false;
    dt_wire_go_on(l->wire, &wait);
    return true;
}

static void expect(DtSaverLinks *l, int64_t round)
{
    const struct DtSaver *saver = l->saver;
    char *at = l->slots[round % AHEAD];
    for (uint32_t s = 0; s < saver->n_sources; s++) {
        DtSaverSource *source = &saver->sources[s];
        DtWirePost *post = &source->posts[round % AHEAD];
        const int64_t bytes =
            source->is_here ? 0 : bytes_of(l, &source->supply, saver->share, round);
        post->is_free = true;
        post->at = at;
        if (bytes == 0)
            continue;
        post->head = head_of(l, PARTS, round, bytes);
        at += bytes;
        dt_wire_recv(l->wire, source->supply.rank, post);
    }
}

void dt_saverlinks_begin(DtSaverLinks *l)
{
    struct DtSaver *saver = l->saver;
    for (uint32_t g = 0; g < saver->n_goals; g++)
        saver->goals[g].done = saver->goals[g].round = 0;
    l->rounds = dt_shares_rounds(saver->share, DT_CHUNK_BYTES);
    for (l->asked = 0; l->asked < l->rounds && l->asked < AHEAD; l->asked++)
        expect(l, l->asked);
}

bool dt_saverlinks_take(DtSaverLinks *l, int64_t round)
{
    const struct DtSaver *saver = l->saver;
    send_to_all(l);
    l->wire->ops->move(l->wire, 0);
    for (uint32_t s = 0; s < saver->n_sources; s++) {
        DtSaverSource *source = &saver->sources[s];
        DtWirePost *post = &source->posts[round % AHEAD];
        if (source->is_here)
            continue;
        if (!finish(l, post, source->supply.rank))
            return false;
        source->from = post->at;
    }
    return true;
}

void dt_saverlinks_used(DtSaverLinks *l)
{
    if (l->asked < l->rounds)
        expect(l, l->asked++);
}

bool dt_saverlinks_finish(DtSaverLinks *l)
{
    const struct DtSaver *saver = l->saver;
    for (uint32_t g = 0; g < saver->n_goals; g++) {
        DtSaverGoal *goal = &saver->goals[g];
        DtWireWait wait = {0};
        while (goal->round < dt_shares_rounds(goal->share, DT_CHUNK_BYTES))
            if (!turn(l, &wait, goal->supply.writer))
                return false;
        dt_wire_go_on(l->wire, &wait);
        for (uint32_t i = 0; i < AHEAD; i++)
            if (!finish(l, &goal->posts[i], goal->supply.writer))
                return false;
    }
    return true;
}

/* ---- words ---- */

static void post_word(DtSaverLinks *l, Head *head, int64_t part, bool sends)
{
    head->word.head = head_of(l, WORDS, part, sizeof head->status);
    head->word.at = (char *)&head->status;
    if (sends)
        dt_wire_send(l->wire, head->rank, &head->word);
    else
        dt_wire_recv(l->wire, head->rank, &head->word);
}

static void post_digests(DtSaverLinks *l, Head *head, bool sends)
{
    head->digests.is_free = true;
    if (head->n_chunks == 0)
        return;
    head->digests.head = head_of(l, WORDS, DIGESTS, head->n_chunks * DT_DIGEST_BYTES);
    head->digests.at = (char *)l->saver->digests[head->first_chunk];
    if (sends)
        dt_wire_send(l->wire, head->rank, &head->digests);
    else
        dt_wire_recv(l->wire, head->rank, &head->digests);
}

bool dt_saverlinks_tell(DtSaverLinks *l, DtSaverWord word, const DtStatus *status)
{
    for (uint32_t h = 0; h < l->n_heads; h++) {
        l->heads[h].status = *status;
        post_word(l, &l->heads[h], (int64_t)word, true);
    }
    for (uint32_t h = 0; h < l->n_heads; h++)
        if (!finish(l, &l->heads[h].word, l->heads[h].rank))
            return false;
    return true;
}

bool dt_saverlinks_hear(DtSaverLinks *l, DtSaverWord word, DtStatus *ret_status)
{
    Head *head = &l->heads[0];
    post_word(l, head, (int64_t)word, false);
    if (!finish(l, &head->word, head->rank))
        return false;
    *ret_status = head->status;
    ret_status->message[sizeof ret_status->message - 1] = '\0';
    return true;
}

bool dt_saverlinks_report(DtSaverLinks *l, const DtStatus *status)
{
    Head *head = &l->heads[0];
    head->status = *status;
    post_word(l, head, REPORT, true);
    post_digests(l, head, true);
    return finish(l, &head->word, head->rank) && finish(l, &head->digests, head->rank);
}

bool dt_saverlinks_collect(DtSaverLinks *l, DtStatus *ret_status)
{
    const DtRank *rank = l->saver->rank;
    *ret_status = DT_OK;
    for (uint32_t h = 0; h < l->n_heads; h++) {
        post_word(l, &l->heads[h], REPORT, false);
        post_digests(l, &l->heads[h], false);
    }
    for (uint32_t h = 0; h < l->n_heads; h++) {
        Head *head = &l->heads[h];
        if (!finish(l, &head->word, head->rank) || !finish(l, &head->digests, head->rank))
            return false;
        const DtSlot *slot = dt_shared_slot(rank->plan, rank->shared, head->rank);
        if (dt_status_ok(ret_status) && !dt_status_ok(&head->status))
            *ret_status = dt_status_fail(head->status.code, "host %.60s: %.*s", slot->host,
                                         (int)sizeof head->status.message - 80,
                                         head->status.message);
    }
    return true;
}

/* ---- open and close ---- */

/* rank: to which words go; the host whose shares' digests go with them. */
static void add_head(DtSaverLinks *l, uint32_t rank, uint32_t host)
{
    const struct DtSaver *saver = l->saver;
    Head *head = &l->heads[l->n_heads++];
    const uint32_t ranks = saver->rank->n_ranks, first = dt_spread_first(ranks, saver->hosts, host),
                   end = dt_spread_first(ranks, saver->hosts, host + 1);
    *head = (Head){.rank = rank};
    if (first >= saver->n_writers)
        return;
    const int64_t from = dt_shares_of(&saver->shares, first, saver->n_writers).from,
                  to = dt_shares_of(&saver->shares, end - 1, saver->n_writers).to;
    head->first_chunk = dt_shares_chunk(&saver->shares, from);
    head->n_chunks = dt_shares_chunk(&saver->shares, to) - head->first_chunk;
}

static void list_heads(DtSaverLinks *l)
{
    const struct DtSaver *saver = l->saver;
    const uint32_t ranks = saver->rank->n_ranks;
    l->heads = DT_NEW_ARRAY(saver->memory, Head, saver->hosts);
    for (uint32_t h = 1; saver->me == 0 && h < saver->hosts; h++)
        add_head(l, dt_spread_first(ranks, saver->hosts, h), h);
    if (saver->me > 0 && saver->me == saver->first)
        add_head(l, 0, dt_spread_node(ranks, saver->hosts, saver->me));
}

/* Allocates a slot for each chunk that is on its way. Returns its size: as much as the largest has,
 * with padding. */
static int64_t make_slots(DtSaverLinks *l)
{
    const struct DtSaver *saver = l->saver;
    int64_t most = 0;
    for (int64_t round = 0; round < dt_shares_rounds(saver->share, DT_CHUNK_BYTES); round++) {
        int64_t bytes = 0;
        for (uint32_t s = 0; s < saver->n_sources; s++)
            if (!saver->sources[s].is_here)
                bytes += bytes_of(l, &saver->sources[s].supply, saver->share, round);
        most = bytes > most ? bytes : most;
    }
    for (uint32_t i = 0; i < AHEAD; i++)
        l->slots[i] = dt_arena_alloc(saver->memory, (size_t)most + 1);
    return most;
}

static bool meet(void *context)
{
    DtRank *rank = context;
    return rank->comm_ops->barrier(rank->comm, &rank->world);
}

static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

static bool connect(DtSaverLinks *l, int64_t slot)
{
    const struct DtSaver *saver = l->saver;
    DtRank *rank = saver->rank;
    bool *needs = DT_NEW_ARRAY(saver->memory, bool, rank->n_ranks);
    for (uint32_t s = 0; s < saver->n_sources; s++)
        needs[saver->sources[s].supply.rank] |= !saver->sources[s].is_here;
    for (uint32_t g = 0; g < saver->n_goals; g++)
        needs[saver->goals[g].supply.writer] = true;
    for (uint32_t h = 0; h < l->n_heads; h++)
        needs[l->heads[h].rank] = true;
    const DtWireOps *ops = rank->comm_ops == &dt_comm_ucx ? &dt_wire_ucx : &dt_wire_tcp;
    const int64_t digests = dt_shares_chunk(&saver->shares, saver->shares.end) * DT_DIGEST_BYTES,
                  words = most_of(digests, sizeof(DtStatus));
    const DtWireMost most = {.bytes = most_of(slot, words),
                             .slots = AHEAD + 2,
                             .slot_bytes = AHEAD * slot + 2 * words};
    if (!dt_wire_open(rank, ops, needs, STREAMS, most, meet, rank, &l->wire))
        return false;
    l->wire->says = dt_wire_slot(saver->memory);
    l->limit_ns = l->wire->limit_ns;
    l->wire->limit_ns = 0; /* a disk may take its time; supervisors see the progress */
    return true;
}

bool dt_saverlinks_open(struct DtSaver *saver)
{
    DtSaverLinks *l = DT_NEW(saver->memory, DtSaverLinks);
    *l = (DtSaverLinks){.saver = saver};
    saver->links = l;
    list_heads(l);
    for (uint32_t g = 0; g < saver->n_goals; g++) {
        DtSaverGoal *goal = &saver->goals[g];
        goal->round = dt_shares_rounds(goal->share, DT_CHUNK_BYTES); /* nothing to send so far */
        for (uint32_t i = 0; i < AHEAD; i++)
            goal->posts[i].is_free = true;
    }
    return connect(l, make_slots(l));
}

void dt_saverlinks_close(DtSaverLinks *l)
{
    if (!l->wire)
        return;
    l->wire->limit_ns = l->limit_ns;
    dt_wire_close(l->wire);
    l->wire = NULL;
}
