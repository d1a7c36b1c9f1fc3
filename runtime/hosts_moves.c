/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges of blocks between members of several hosts.
 *
 * Members of one host read each other's blocks in the mapping. Of an all-gather each block goes to
 * every other host once: to one member there (its *relay*), which stores it for all members of its
 * host if they receive in the mapping, as its block comes, piece by piece. Blocks of an all-to-all
 * go from their member to the one that gets them, and so do those of a shift.
 *
 * What two ranks exchange is a *flow*: the pieces of one block in order, a few at a time. The flows
 * of a rank begin in the order of the distance between the hosts, so that every host sends to
 * another one. */
#include "runtime/hosts.h"

#include "runtime/device.h"
#include "runtime/shift.h"

#include <string.h>

enum { ACTIVE = DT_HOSTS_LANES / 2 }; /* flows in each direction at a time */

typedef struct Flow {
    uint32_t rank, member; /* the other rank; the member whose block it is */
    char *at;              /* here: the block's first element */
    int64_t asked, done;   /* pieces */
} Flow;

/* The posts, and memory for pieces of strided blocks, of an active flow. */
typedef struct Lane {
    DtWirePost post[DT_HOSTS_WINDOW];
    char *piece[DT_HOSTS_WINDOW];
} Lane;

typedef struct DtHostsMoves {
    Flow *out, *in;
    Lane out_lane[ACTIVE], in_lane[ACTIVE];
} Moves;

/* An exchange: flows out and in. */
typedef struct Job {
    DtHosts *hosts;
    DtHostsGroup *g;
    const DtHostsCall *call;
    Moves *moves;
    uint32_t n_out, n_in;
    uint32_t out_done, in_done; /* the first flows, which are over */
    bool stores_all;            /* what comes in is stored for all members of the host */
    int64_t step, n;            /* elements of a piece; pieces of a block */
} Job;

/* ---- one flow ---- */

static int64_t elements_of(const Job *j, int64_t piece)
{
    const int64_t rest = j->call->shm.count - piece * j->step;
    return rest < j->step ? rest : j->step;
}

static DtWireHead head_of(const Job *j, const Flow *flow, int64_t piece)
{
    /* several blocks may come from one rank, so the number names the block, too */
    return dt_hosts_head(j->g, j->call, DT_WIRE_BLOCK, flow->member * j->n + piece,
                         elements_of(j, piece) * j->call->e);
}

/* Sends the next pieces. Returns whether there was anything to do. */
static bool send_some(const Job *j, Flow *flow, Lane *lane)
{
    const DtHostsCall *call = j->call;
    bool any = false;
    while (flow->done < flow->asked && lane->post[flow->done % DT_HOSTS_WINDOW].is_done) {
        flow->done++;
        any = true;
    }
    for (; flow->asked < j->n && flow->asked < flow->done + DT_HOSTS_WINDOW; flow->asked++) {
        const uint32_t slot = flow->asked % DT_HOSTS_WINDOW;
        const int64_t first = flow->asked * j->step;
        DtWirePost *post = &lane->post[slot];
        post->at = flow->at + first * call->e;
        if (call->blocks) {
            post->at = lane->piece[slot];
            dt_blocks_pack(call->blocks, call->blocks->from, call->e, post->at, flow->at, first,
                           elements_of(j, flow->asked));
        }
        post->head = head_of(j, flow, flow->asked);
        dt_wire_send(j->hosts->wire, flow->rank, post);
        any = true;
    }
    return any;
}

/* Stores a piece that has come. */
static void store(const Job *j, const Flow *flow, const char *bytes, int64_t piece)
{
    const DtHostsCall *call = j->call;
    const DtRankGroup *here = &j->g->here;
    const int64_t first = piece * j->step, n = elements_of(j, piece);
    const int64_t at = flow->at - dt_device_seen(j->hosts->rank, call->shm.to);
    for (uint32_t m = 0; m < here->size; m++) {
        if (m != here->me && !j->stores_all)
            continue;
        char *to =
            m == here->me ? flow->at : dt_comm_shm_to(j->g->shm, here, m) + at;
        if (call->blocks)
            dt_blocks_unpack(call->blocks, call->blocks->to, call->e, to, bytes, first, n);
        else if (to + first * call->e != bytes)
            memcpy(to + first * call->e, bytes, (size_t)(n * call->e));
    }
}

static bool take_some(const Job *j, Flow *flow, Lane *lane)
{
    const DtHostsCall *call = j->call;
    bool any = false;
    while (flow->done < flow->asked && lane->post[flow->done % DT_HOSTS_WINDOW].is_done) {
        store(j, flow, lane->post[flow->done % DT_HOSTS_WINDOW].at, flow->done);
        flow->done++;
        any = true;
    }
    for (; flow->asked < j->n && flow->asked < flow->done + DT_HOSTS_WINDOW; flow->asked++) {
        const uint32_t slot = flow->asked % DT_HOSTS_WINDOW;
        DtWirePost *post = &lane->post[slot];
        post->at = call->blocks ? lane->piece[slot] : flow->at + flow->asked * j->step * call->e;
        post->head = head_of(j, flow, flow->asked);
        dt_wire_recv(j->hosts->wire, flow->rank, post);
        any = true;
    }
    return any;
}

/* ---- all flows ---- */

typedef bool Some(const Job *j, Flow *flow, Lane *lane);

/* Works on the first flows that are not over. A lane is that of the flow's number, so flows end in
 * order. */
static bool turn(const Job *j, Flow *flows, Lane *lanes, uint32_t n, uint32_t *done, Some *some)
{
    bool any = false;
    for (uint32_t f = *done; f < n && f < *done + ACTIVE; f++)
        any = some(j, &flows[f], &lanes[f % ACTIVE]) || any;
    while (*done < n && flows[*done].done == j->n) {
        ++*done;
        any = true;
    }
    return any;
}

static uint32_t who(const Job *j)
{
    return j->in_done < j->n_in     ? j->moves->in[j->in_done].rank
           : j->out_done < j->n_out ? j->moves->out[j->out_done].rank
                                    : UINT32_MAX;
}

static bool run(Job *j)
{
    DtWireWait wait = {0};
    j->step = DT_HOSTS_CHUNK / j->call->e;
    j->n = (j->call->shm.count + j->step - 1) / j->step;
    while (j->in_done < j->n_in || j->out_done < j->n_out) {
        bool any = turn(j, j->moves->in, j->moves->in_lane, j->n_in, &j->in_done, take_some);
        any = turn(j, j->moves->out, j->moves->out_lane, j->n_out, &j->out_done, send_some) || any;
        if (!any && !dt_wire_turn(j->hosts->wire, &wait, who(j)))
            return false;
    }
    dt_wire_go_on(j->hosts->wire, &wait);
    return true;
}

static void add_out(Job *j, uint32_t member, uint32_t to, char *at)
{
    j->moves->out[j->n_out++] =
        (Flow){.rank = j->g->known->ranks[to], .member = member, .at = at};
}

static void add_in(Job *j, uint32_t member, uint32_t from, char *at)
{
    j->moves->in[j->n_in++] =
        (Flow){.rank = j->g->known->ranks[from], .member = member, .at = at};
}

/* ---- blocks here ---- */

/* The first element of the block for member p in this rank's `from`, or of member q's in `to`. */
static char *from_of(const Job *j, uint32_t p, bool has_many)
{
    const DtHostsCall *call = j->call;
    char *from = dt_device_seen(j->hosts->rank, call->shm.from);
    return from + (call->blocks ? call->blocks->from_at[p] : has_many ? p * call->shm.count : 0) *
                      call->e;
}

static char *to_of(const Job *j, uint32_t q)
{
    const DtHostsCall *call = j->call;
    return dt_device_seen(j->hosts->rank, call->shm.to) +
           (call->blocks ? call->blocks->to_at[q] : q * call->shm.count) * call->e;
}

/* Copies the block of a member of this host. */
static void copy_here(const Job *j, uint32_t q, bool has_many)
{
    const DtHostsCall *call = j->call;
    const DtHostsGroup *g = j->g;
    const uint32_t me = g->known->me;
    const char *from = dt_comm_shm_from(g->shm, &g->here, q - g->first[g->host]);
    char *to = to_of(j, q);
    from += (call->blocks ? call->blocks->from_at[me] : has_many ? me * call->shm.count : 0) *
            call->e;
    if (to == from) /* exchanged in place */
        return;
    if (call->blocks)
        dt_blocks_copy(call->blocks, call->e, to, from);
    else
        memcpy(to, from, (size_t)(call->shm.count * call->e));
}

static void copy_all_here(const Job *j, bool has_many)
{
    const DtHostsGroup *g = j->g;
    for (uint32_t i = 0; i < g->here.size; i++)
        copy_here(j, g->first[g->host] + (g->here.me + i) % g->here.size, has_many);
}

/* ---- the exchanges ---- */

static Job new_job(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    return (Job){.hosts = hosts, .g = g, .call = call, .moves = hosts->moves};
}

static uint32_t members_on(const DtHostsGroup *g, uint32_t host)
{
    return g->first[host + 1] - g->first[host];
}

bool dt_hosts_moves_gather(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    Job j = new_job(hosts, g, call);
    const uint32_t me = g->known->me, mine = g->here.me;
    j.stores_all = dt_comm_shm_shares(g->shm, call->shm.to);
    for (uint32_t d = 1; d < g->n_hosts; d++) {
        const uint32_t to = (g->host + d) % g->n_hosts,
                       from = (g->host + g->n_hosts - d) % g->n_hosts, there = members_on(g, to);
        for (uint32_t m = 0; m < there; m++)
            if (!j.stores_all || m == mine % there)
                add_out(&j, me, g->first[to] + m, from_of(&j, g->first[to] + m, false));
        for (uint32_t m = 0; m < members_on(g, from); m++)
            if (!j.stores_all || m % g->here.size == mine)
                add_in(&j, g->first[from] + m, g->first[from] + m, to_of(&j, g->first[from] + m));
    }
    copy_all_here(&j, false);
    return run(&j);
}

bool dt_hosts_moves_all_to_all(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    Job j = new_job(hosts, g, call);
    const uint32_t size = g->known->size, me = g->known->me;
    for (uint32_t d = 1; d < size; d++) {
        const uint32_t to = (me + d) % size, from = (me + size - d) % size;
        if (dt_hosts_of(g, to) != g->host)
            add_out(&j, me, to, from_of(&j, to, true));
        if (dt_hosts_of(g, from) != g->host)
            add_in(&j, from, from, to_of(&j, from));
    }
    copy_all_here(&j, true);
    return run(&j);
}

bool dt_hosts_moves_shift(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call)
{
    Job j = new_job(hosts, g, call);
    const uint32_t size = g->known->size, me = g->known->me;
    const uint32_t way = (uint32_t)call->shm.kind - DT_SHM_SHIFT;
    const uint32_t to = dt_shift_to(way, size, me), from = dt_shift_from(way, size, me);
    char *wanted = dt_device_seen(hosts->rank, call->shm.to);
    if (dt_hosts_of(g, to) != g->host)
        add_out(&j, me, to, dt_device_seen(hosts->rank, call->shm.from));
    if (dt_hosts_of(g, from) != g->host)
        add_in(&j, from, from, wanted);
    else
        memcpy(wanted, dt_comm_shm_from(g->shm, &g->here, from - g->first[g->host]),
               (size_t)(call->shm.count * call->e));
    return run(&j);
}

void dt_hosts_moves_open(DtHosts *hosts)
{
    DtArena *memory = hosts->rank->memory;
    Moves *moves = DT_NEW(memory, Moves);
    moves->out = DT_NEW_ARRAY(memory, Flow, hosts->rank->n_ranks);
    moves->in = DT_NEW_ARRAY(memory, Flow, hosts->rank->n_ranks);
    for (uint32_t i = 0; i < ACTIVE; i++)
        for (uint32_t s = 0; s < DT_HOSTS_WINDOW; s++) {
            moves->out_lane[i].piece[s] = dt_hosts_piece(hosts, i, s);
            moves->in_lane[i].piece[s] = dt_hosts_piece(hosts, ACTIVE + i, s);
        }
    hosts->moves = moves;
}
