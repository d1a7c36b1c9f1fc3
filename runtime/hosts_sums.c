/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over members of several hosts, with the bits that `shm` gives: each element is added from
 * left to right in the order of comm_mark.c.
 *
 * The members of a host follow each other in that order, so a sum travels from host to host:
 *
 *     host 0: m0 + m1  ->  host 1: + m2 + m3  ->  host 2: + m4 + m5 = the sum
 *
 * in pieces, so that all hosts add at the same time. Between hosts 16-bit floats travel as f32, the
 * sum of an all-reduce as it is, around the ring of hosts: host 2 -> host 0 -> host 1. A sum of a
 * reduce-scatter goes to its owner. On each host one member works on a piece (its *handler*): it
 * reads the terms of the others in the mapping, and stores the sum for all of them.
 *
 * That is best for large sums of hosts with several members; others go a shorter way
 * (hosts_direct.c).
 *
 * In groups of more than 64 members the sum of an element begins behind its owner and ends with it:
 * then a host can be the first and the last one for it, and adds twice.
 *
 * Each rank works through its pieces in three tracks: what it adds first, what it adds later, and
 * sums that come from another host. A track never waits for another one, so pieces may be on their
 * way everywhere, a few of each track at a time. */
#include "runtime/hosts.h"

#include "runtime/device.h"
#include "runtime/reduce.h"

#include <string.h>

enum { FIRST, LATER, RESULTS };

/* The pieces of one collective. Blocks of `own` elements belong to one owner each, and have `per`
 * pieces of `step` elements. */
typedef struct Job {
    DtHosts *hosts;
    DtHostsGroup *g;
    const DtHostsCall *call;
    bool scatters; /* the owner alone gets the sum */
    bool rotates;  /* the order depends on the owner */
    int64_t count, own, step, per, n;
    DtPlanDtype wide;
    int64_t wide_e;
} Job;

/* Members first .. last - 1 of a host, which a sum visits. */
typedef struct Visit {
    uint32_t host, first, last;
} Visit;

/* ---- pieces ---- */

static uint32_t owner_of(const Job *j, int64_t piece) { return (uint32_t)(piece / j->per); }

/* The first element of the piece, counted in the block of its owner if that gets it alone; and how
 * many it has, perhaps none. */
static int64_t elements_of(const Job *j, int64_t piece, int64_t *ret_first)
{
    const int64_t within = piece % j->per * j->step, at = owner_of(j, piece) * j->own;
    int64_t n = j->own - within < j->step ? j->own - within : j->step;
    *ret_first = j->scatters ? within : at + within;
    if (!j->scatters && at + within + n > j->count)
        n = j->count - at - within;
    return n > 0 ? n : 0;
}

/* The member of a host that works on the piece. */
static uint32_t handler(const Job *j, int64_t piece, uint32_t host)
{
    const DtHostsGroup *g = j->g;
    if (!j->scatters)
        return g->first[host] + (uint32_t)(piece % g->lanes);
    const uint32_t owner = owner_of(j, piece), at = owner - g->first[dt_hosts_of(g, owner)];
    return g->first[host] + at % (g->first[host + 1] - g->first[host]);
}

static Visit visit_all(const DtHostsGroup *g, uint32_t host)
{
    return (Visit){host, g->first[host], g->first[host + 1]};
}

/* The number of visits of the sum of a piece. */
static uint32_t n_visits(const Job *j, int64_t piece)
{
    const uint32_t owner = owner_of(j, piece), host = j->rotates ? dt_hosts_of(j->g, owner) : 0;
    return j->g->n_hosts + (j->rotates && owner + 1 < j->g->first[host + 1]);
}

static Visit visit_of(const Job *j, int64_t piece, uint32_t v)
{
    const DtHostsGroup *g = j->g;
    if (!j->rotates)
        return visit_all(g, v);
    const uint32_t owner = owner_of(j, piece), host = dt_hosts_of(g, owner),
                   is_cut = n_visits(j, piece) > g->n_hosts;
    if (is_cut && v == 0)
        return (Visit){host, owner + 1, g->first[host + 1]};
    if (v + 1 == n_visits(j, piece))
        return (Visit){host, g->first[host], owner + 1};
    return visit_all(g, (host + 1 + v - is_cut) % g->n_hosts);
}

static uint32_t last_host(const Job *j, int64_t piece)
{
    return visit_of(j, piece, n_visits(j, piece) - 1).host;
}

/* The visit of a piece that belongs to a track of this rank; UINT32_MAX: there is none. */
static uint32_t visit_in(const Job *j, int64_t piece, int track)
{
    const uint32_t n = n_visits(j, piece);
    int found = 0;
    for (uint32_t v = 0; v < n; v++)
        if (visit_of(j, piece, v).host == j->g->host && found++ == track)
            return v;
    return UINT32_MAX;
}

/* Whether this rank has a part in the piece, in the track. */
static bool has_part(const Job *j, int64_t piece, int track)
{
    int64_t first;
    const uint32_t last = last_host(j, piece);
    if (elements_of(j, piece, &first) == 0 || handler(j, piece, j->g->host) != j->g->known->me)
        return false;
    if (track != RESULTS)
        return visit_in(j, piece, track) != UINT32_MAX;
    return last != j->g->host && (!j->scatters || owner_of(j, piece) == j->g->known->me);
}

/* ---- what is sent to whom ---- */

static uint32_t rank_of(const Job *j, int64_t piece, uint32_t host)
{
    return j->g->known->ranks[handler(j, piece, host)];
}

/* The rank from which the track gets the piece; UINT32_MAX: from none, it begins a sum. */
static uint32_t sender(const Job *j, int64_t piece, int track)
{
    const uint32_t hosts = j->g->n_hosts;
    if (track == RESULTS)
        return rank_of(j, piece,
                       j->scatters ? last_host(j, piece) : (j->g->host + hosts - 1) % hosts);
    const uint32_t v = visit_in(j, piece, track);
    return v == 0 ? UINT32_MAX : rank_of(j, piece, visit_of(j, piece, v - 1).host);
}

/* The rank to which the track sends it on; UINT32_MAX: to none. *ret_kind: as what. */
static uint32_t receiver(const Job *j, int64_t piece, int track, DtWireKind *ret_kind)
{
    const uint32_t hosts = j->g->n_hosts, next = (j->g->host + 1) % hosts;
    *ret_kind = DT_WIRE_RESULT;
    if (track != RESULTS) {
        const uint32_t v = visit_in(j, piece, track);
        if (v + 1 < n_visits(j, piece)) {
            *ret_kind = DT_WIRE_PARTIAL;
            return rank_of(j, piece, visit_of(j, piece, v + 1).host);
        }
        if (j->scatters) {
            const uint32_t owner = owner_of(j, piece);
            return dt_hosts_of(j->g, owner) == j->g->host ? UINT32_MAX
                                                          : j->g->known->ranks[owner];
        }
        return rank_of(j, piece, next);
    }
    return j->scatters || next == last_host(j, piece) ? UINT32_MAX : rank_of(j, piece, next);
}

static int64_t bytes_of(const Job *j, int64_t n, DtWireKind kind)
{
    return n * (kind == DT_WIRE_PARTIAL ? j->wide_e : j->call->e);
}

/* ---- elements ---- */

const char *dt_hosts_term(const DtHostsGroup *g, const DtHostsCall *call, uint32_t member,
                          uint32_t owner, int64_t first, int64_t n, char *dense)
{
    const char *from = dt_comm_shm_from(g->shm, &g->here, member - g->first[g->host]);
    if (call->shm.kind != DT_SHM_REDUCE_SCATTER)
        return from + first * call->e;
    if (!call->blocks)
        return from + (owner * call->shm.count + first) * call->e;
    dt_blocks_pack(call->blocks, call->blocks->from, call->e, dense,
                   from + call->blocks->from_at[owner] * call->e, first, n);
    return dense;
}

/* Adds the terms of the visit to `acc`, which is empty if the visit is the first one. Returns where
 * the sum is: in `acc`, or where the only term is. */
static const char *add_terms(const Job *j, int64_t piece, uint32_t v, char *acc)
{
    const Visit visit = visit_of(j, piece, v);
    int64_t first;
    const int64_t n = elements_of(j, piece, &first);
    for (uint32_t m = visit.first; m < visit.last; m++)
        j->hosts->terms[m - visit.first] =
            dt_hosts_term(j->g, j->call, m, owner_of(j, piece), first, n,
                          j->hosts->dense + (size_t)(m - visit.first) * DT_HOSTS_CHUNK);
    if (v == 0 && visit.last - visit.first == 1 && j->wide == j->call->shm.dtype &&
        !j->call->blocks)
        return j->hosts->terms[0]; /* nobody writes there before the sum has come back */
    dt_reduce_go_on(j->call->shm.dtype, j->call->shm.reduce, acc, v == 0, j->hosts->terms,
                    visit.last - visit.first, n);
    return acc;
}

void dt_hosts_store(DtHosts *hosts, const DtHostsGroup *g, const DtHostsCall *call, int64_t first,
                    int64_t n, const char *sum)
{
    if (call->shm.kind != DT_SHM_REDUCE_SCATTER) {
        for (uint32_t m = 0; m < g->here.size; m++) {
            char *to = dt_comm_shm_to(g->shm, &g->here, m) + first * call->e;
            if (to != sum)
                memcpy(to, sum, (size_t)(n * call->e));
        }
        return;
    }
    char *to = dt_device_seen(hosts->rank, call->shm.to);
    if (call->blocks)
        dt_blocks_unpack(call->blocks, call->blocks->to, call->e, to, sum, first, n);
    else if (to + first * call->e != sum)
        memcpy(to + first * call->e, sum, (size_t)(n * call->e));
}

/* Where a sum from another host is received: where this rank wants it, if that is contiguous. */
static char *place_of_result(const Job *j, int64_t piece, char *otherwise)
{
    const DtHostsCall *call = j->call;
    int64_t first;
    elements_of(j, piece, &first);
    if (call->blocks)
        return otherwise;
    return (j->scatters ? dt_device_seen(j->hosts->rank, call->shm.to)
                        : dt_comm_shm_to(j->g->shm, &j->g->here, j->g->here.me)) +
           first * call->e;
}

/* ---- tracks ---- */

/* Asks for pieces as long as there is room for them. */
static void ask(const Job *j, int track)
{
    DtHostsTrack *t = &j->hosts->tracks[track];
    for (; t->asked < j->n && t->n_asked < t->n_done + DT_HOSTS_WINDOW; t->asked++) {
        const int64_t piece = t->asked;
        const uint32_t slot = t->n_asked % DT_HOSTS_WINDOW;
        int64_t first;
        if (!has_part(j, piece, track))
            continue;
        if (!t->out[slot].is_done && !t->out[slot].is_free) /* its bytes are still being sent */
            return;
        t->n_asked++;
        const uint32_t from = sender(j, piece, track);
        if (from == UINT32_MAX) {
            t->in[slot].is_done = true;
            continue;
        }
        const DtWireKind kind = track == RESULTS ? DT_WIRE_RESULT : DT_WIRE_PARTIAL;
        t->in[slot].head = dt_hosts_head(j->g, j->call, kind, piece,
                                         bytes_of(j, elements_of(j, piece, &first), kind));
        t->in[slot].at =
            track == RESULTS ? place_of_result(j, piece, t->came[slot]) : t->came[slot];
        dt_wire_recv(j->hosts->wire, from, &t->in[slot]);
    }
}

/* Works on the next piece of a track if it has come. Returns whether it was. */
static bool work(const Job *j, int track)
{
    DtHostsTrack *t = &j->hosts->tracks[track];
    while (t->done < j->n && !has_part(j, t->done, track))
        t->done++;
    const uint32_t slot = t->n_done % DT_HOSTS_WINDOW;
    if (t->done == j->n || t->n_asked == t->n_done || !t->in[slot].is_done)
        return false;
    const int64_t piece = t->done;
    int64_t first;
    const int64_t n = elements_of(j, piece, &first);
    DtWireKind kind;
    const uint32_t to = receiver(j, piece, track, &kind);
    const char *bytes = track == RESULTS ? t->in[slot].at : t->came[slot];
    if (track != RESULTS) {
        bytes = add_terms(j, piece, visit_in(j, piece, track), t->came[slot]);
        if (kind == DT_WIRE_RESULT && j->wide != j->call->shm.dtype) {
            dt_reduce_round(j->call->shm.dtype, t->goes[slot], bytes, n);
            bytes = t->goes[slot];
        }
    }
    if (kind == DT_WIRE_RESULT && (!j->scatters || to == UINT32_MAX))
        dt_hosts_store(j->hosts, j->g, j->call, first, n, bytes);
    t->out[slot].is_free = true;
    if (to != UINT32_MAX) {
        t->out[slot].head = dt_hosts_head(j->g, j->call, kind, piece, bytes_of(j, n, kind));
        t->out[slot].at = (char *)(uintptr_t)bytes;
        dt_wire_send(j->hosts->wire, to, &t->out[slot]);
    }
    t->done++;
    t->n_done++;
    return true;
}

static bool is_sent(const DtHostsTrack *t)
{
    for (uint32_t s = 0; s < DT_HOSTS_WINDOW; s++)
        if (!t->out[s].is_free && !t->out[s].is_done)
            return false;
    return true;
}

/* The rank for which this one waits: the sender of the first piece that has not come. */
static uint32_t who(const Job *j)
{
    for (int track = 0; track < DT_HOSTS_TRACKS; track++) {
        const DtHostsTrack *t = &j->hosts->tracks[track];
        const uint32_t slot = t->n_done % DT_HOSTS_WINDOW;
        if (t->n_asked > t->n_done && !t->in[slot].is_done)
            return t->in[slot].peer->rank;
        for (uint32_t s = 0; s < DT_HOSTS_WINDOW; s++)
            if (!t->out[s].is_free && !t->out[s].is_done)
                return t->out[s].peer->rank;
    }
    return UINT32_MAX;
}

static bool run(const Job *j)
{
    DtWireWait wait = {0};
    bool is_over = false;
    for (int track = 0; track < DT_HOSTS_TRACKS; track++) {
        DtHostsTrack *t = &j->hosts->tracks[track];
        t->asked = t->done = 0;
        t->n_asked = t->n_done = 0;
        for (uint32_t s = 0; s < DT_HOSTS_WINDOW; s++)
            t->in[s].is_done = false, t->out[s].is_free = true;
    }
    while (!is_over) {
        bool any = false;
        is_over = true;
        for (int track = 0; track < DT_HOSTS_TRACKS; track++) {
            DtHostsTrack *t = &j->hosts->tracks[track];
            ask(j, track);
            while (work(j, track)) {
                any = true;
                ask(j, track);
            }
            is_over = is_over && t->done == j->n && is_sent(t);
        }
        if (!is_over && !any && !dt_wire_turn(j->hosts->wire, &wait, who(j)))
            return false;
    }
    dt_wire_go_on(j->hosts->wire, &wait);
    return true;
}

/* ---- the collectives ---- */

static Job new_job(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call, bool scatters)
{
    Job j = {.hosts = hosts, .g = g, .call = call, .scatters = scatters,
             .rotates = g->known->size > DT_COMM_IN_ORDER, .count = call->shm.count};
    j.wide = dt_reduce_wide(call->shm.dtype);
    j.wide_e = dt_kinds_size(j.wide);
    j.step = DT_HOSTS_CHUNK / j.wide_e;
    j.own = scatters    ? j.count
            : j.rotates ? dt_comm_mark_chunk(j.count, call->e, g->known->size)
                        : j.count;
    j.per = (j.own + j.step - 1) / j.step;
    j.n = j.own == 0 ? 0 : j.per * (scatters || j.rotates ? g->known->size : 1);
    return j;
}

bool dt_hosts_sum_by(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call, DtHostsWay way)
{
    const Job j = new_job(hosts, g, call, call->shm.kind == DT_SHM_REDUCE_SCATTER);
    return way == DT_HOSTS_CHAIN ? run(&j) : dt_hosts_direct_run(hosts, g, call, way);
}

bool dt_hosts_sum(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    return dt_hosts_sum_by(hosts, g, call, dt_hosts_way(g, call));
}

void dt_hosts_sums_open(DtHosts *hosts)
{
    DtArena *memory = hosts->rank->memory;
    for (uint32_t track = 0; track < DT_HOSTS_TRACKS; track++)
        for (uint32_t s = 0; s < DT_HOSTS_WINDOW; s++) {
            hosts->tracks[track].came[s] = dt_hosts_piece(hosts, 2 * track, s);
            hosts->tracks[track].goes[s] = dt_hosts_piece(hosts, 2 * track + 1, s);
        }
    hosts->dense = dt_arena_alloc(memory, (size_t)hosts->rank->local.size * DT_HOSTS_CHUNK);
    hosts->terms = DT_NEW_ARRAY(memory, const void *, hosts->rank->local.size + 1);
}
