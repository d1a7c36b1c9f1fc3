/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over members of several hosts in which every host sends its members' terms to whoever adds
 * them up, in member order: one message from a host to another, where hosts_sums.c passes a sum
 * from host to host.
 *
 *     each      all-reduce: every host gets all terms, and adds them up itself
 *     split     all-reduce: hosts add pieces in turn, and send sums to the others
 *     scatter   reduce-scatter: the owner adds
 *
 * Which way is the shortest, dt_hosts_way says by the bytes that a host sends. On each host one
 * member works on a piece (its *handler*), so pieces are spread over the members. A few pieces are
 * on their way at a time, in slots; a rank begins a piece only after it is through with the one
 * that had its slot before, so no host is far ahead of another one. */
#include "runtime/hosts.h"

#include "runtime/device.h"
#include "runtime/reduce.h"

#include <string.h>

enum {
    LINE = 64,
    BLOCK = 4096,
    HOP = 1 << 16, /* a message costs as much as to send so many bytes */
    ADDS = 4       /* to add so many bytes costs as much as to send one */
};

typedef struct Job Job;

/* A piece that is on its way. */
typedef struct Slot {
    const Job *job;
    int64_t piece;
    DtWirePost *in, *out; /* by host of the group */
    bool is_added;        /* the sum is where this host wants it */
    bool is_through;      /* and this rank has begun to send it to others that do */
} Slot;

struct DtHostsDirect {
    Slot slots[DT_HOSTS_WINDOW];
    const void **terms; /* by member, and while a block of them is added */
    const void **block;
};

struct Job {
    DtHosts *hosts;
    DtHostsGroup *g;
    const DtHostsCall *call;
    DtHostsWay way;
    int64_t step, n;  /* elements of a piece; pieces */
    bool is_in_place; /* sums are stored where terms are sent from */
};

/* ---- which way ---- */

static uint32_t members_on(const DtHostsGroup *g, uint32_t host)
{
    return g->first[host + 1] - g->first[host];
}

static uint32_t most_members(const DtHostsGroup *g)
{
    uint32_t most = 0;
    for (uint32_t h = 0; h < g->n_hosts; h++)
        most = members_on(g, h) > most ? members_on(g, h) : most;
    return most;
}

/* Bytes that the busiest host sends, and by ADDS those that it adds, with a HOP for each message on
 * the longest way, and for the first piece of a chain what each host adds to that. */
DtHostsWay dt_hosts_way(const DtHostsGroup *g, const DtHostsCall *call)
{
    const double hosts = g->n_hosts, size = g->known->size, most = most_members(g),
                 bytes = (double)call->shm.count * (double)call->e,
                 wide = (double)call->shm.count *
                        (double)dt_kinds_size(dt_reduce_wide(call->shm.dtype)),
                 first = wide < DT_HOSTS_CHUNK ? wide : DT_HOSTS_CHUNK;
    if (g->known->size > DT_COMM_IN_ORDER)
        return DT_HOSTS_CHAIN;
    if (call->shm.kind == DT_SHM_REDUCE_SCATTER) {
        const double chain = size * wide + (hosts - 1) * (first + HOP),
                     direct = (size - most) * most * bytes;
        return direct < chain ? DT_HOSTS_SCATTER : DT_HOSTS_CHAIN;
    }
    const double chain = (hosts == 2 ? wide : wide + bytes) + most / ADDS * bytes +
                         (2 * hosts - 3) * (first + HOP),
                 each = ((hosts - 1) * most + size / ADDS) * bytes,
                 split = ((hosts - 1) * (most + 1) + size / ADDS) / hosts * bytes + HOP;
    if (chain < each && chain < split)
        return DT_HOSTS_CHAIN;
    return each < split ? DT_HOSTS_EACH : DT_HOSTS_SPLIT;
}

/* ---- pieces ---- */

static uint32_t owner_of(const Job *j, int64_t piece)
{
    return (uint32_t)(piece % j->g->known->size);
}

/* The first element of the piece, counted in its owner's block if that gets the sum alone; and how
 * many it has. */
static int64_t elements_of(const Job *j, int64_t piece, int64_t *ret_first)
{
    const int64_t number = j->way == DT_HOSTS_SCATTER ? piece / j->g->known->size : piece;
    const int64_t first = number * j->step, rest = j->call->shm.count - first;
    *ret_first = first;
    return rest < j->step ? rest : j->step;
}

/* The host that adds the piece alone; UINT32_MAX: each does. */
static uint32_t adder(const Job *j, int64_t piece)
{
    return j->way == DT_HOSTS_EACH    ? UINT32_MAX
           : j->way == DT_HOSTS_SPLIT ? (uint32_t)(piece % j->g->n_hosts)
                                      : dt_hosts_of(j->g, owner_of(j, piece));
}

static bool adds(const Job *j, int64_t piece, uint32_t host)
{
    const uint32_t alone = adder(j, piece);
    return alone == UINT32_MAX || alone == host;
}

/* The member of a host that works on the piece. */
static uint32_t handler(const Job *j, int64_t piece, uint32_t host)
{
    const DtHostsGroup *g = j->g;
    if (j->way == DT_HOSTS_EACH)
        return g->first[host] + (uint32_t)(piece % g->lanes);
    if (j->way == DT_HOSTS_SPLIT)
        return g->first[host] + (uint32_t)(piece / g->n_hosts % g->lanes);
    const uint32_t owner = owner_of(j, piece), at = owner - g->first[dt_hosts_of(g, owner)];
    return g->first[host] + at % members_on(g, host);
}

/* ---- memory ---- */

/* Where terms of a host's members are received, or laid side by side to be sent: one after another,
 * in the memory of the slot. */
static char *terms_of(const Job *j, const Slot *slot, uint32_t host)
{
    const size_t at = (size_t)(slot - j->hosts->direct->slots) * DT_HOSTS_SLOT;
    return j->hosts->pool + at + (size_t)j->g->first[host] * (size_t)(j->step * j->call->e);
}

/* Sets where the terms of the members of this host are. Several, and those of strided blocks, are
 * laid side by side if `packs`, else only the latter. */
static void find_terms(const Job *j, const Slot *slot, const void **ret_terms, bool packs)
{
    const DtHostsGroup *g = j->g;
    const uint32_t owner = j->way == DT_HOSTS_SCATTER ? owner_of(j, slot->piece) : 0,
                   here = members_on(g, g->host);
    int64_t first;
    const int64_t n = elements_of(j, slot->piece, &first), bytes = n * j->call->e;
    for (uint32_t m = 0; m < here; m++) {
        char *dense = terms_of(j, slot, g->host) + m * bytes;
        ret_terms[m] = dt_hosts_term(g, j->call, g->first[g->host] + m, owner, first, n, dense);
        if (packs && here > 1 && ret_terms[m] != dense)
            memcpy(dense, ret_terms[m], (size_t)bytes);
    }
    if (packs && here > 1)
        ret_terms[0] = terms_of(j, slot, g->host);
}

/* ---- one piece ---- */

static bool take_terms(DtWirePost *one, const char *bytes);

static void post(const Job *j, Slot *slot, uint32_t host, DtWireKind kind, bool sends,
                 const void *at)
{
    DtWirePost *one = sends ? &slot->out[host] : &slot->in[host];
    const uint32_t members = kind == DT_WIRE_RESULT ? 1
                             : sends                ? members_on(j->g, j->g->host)
                                                    : members_on(j->g, host);
    const uint32_t rank = j->g->known->ranks[handler(j, slot->piece, host)];
    int64_t first;
    const int64_t bytes = elements_of(j, slot->piece, &first) * j->call->e * members;
    one->head = dt_hosts_head(j->g, j->call, kind, slot->piece, bytes);
    one->at = (char *)(uintptr_t)at;
    one->take = kind == DT_WIRE_PARTIAL ? take_terms : NULL;
    one->context = slot;
    if (sends)
        dt_wire_send(j->hosts->wire, rank, one);
    else
        dt_wire_recv(j->hosts->wire, rank, one);
}

/* Where this rank wants the sum, in an all-reduce. */
static char *place_of(const Job *j, int64_t piece)
{
    int64_t first;
    elements_of(j, piece, &first);
    return dt_comm_shm_to(j->g->shm, &j->g->here, j->g->here.me) + first * j->call->e;
}

/* Whether the host sends the sum of the piece to others. */
static bool has_result(const Job *j, int64_t piece, uint32_t host)
{
    return j->way == DT_HOSTS_SPLIT && adder(j, piece) == host;
}

static void begin(const Job *j, Slot *slot, int64_t piece)
{
    const DtHostsGroup *g = j->g;
    const bool adds_here = adds(j, piece, g->host);
    slot->piece = piece;
    slot->job = j;
    slot->is_added = slot->is_through = false;
    for (uint32_t h = 0; h < g->n_hosts; h++)
        slot->in[h].is_done = slot->out[h].is_done = true;
    if (!adds_here || j->way == DT_HOSTS_EACH) {
        find_terms(j, slot, j->hosts->direct->terms, true);
        const void *mine = j->hosts->direct->terms[0];
        for (uint32_t h = 0; h < g->n_hosts; h++)
            if (h != g->host && adds(j, piece, h))
                post(j, slot, h, DT_WIRE_PARTIAL, true, mine);
    }
    /* a receive may add and store at once, so it comes after the sends */
    for (uint32_t h = 0; h < g->n_hosts; h++)
        slot->in[h].is_done = h == g->host || (!adds_here && !has_result(j, piece, h));
    for (uint32_t h = 0; h < g->n_hosts; h++)
        if (h != g->host && adds_here)
            post(j, slot, h, DT_WIRE_PARTIAL, false, terms_of(j, slot, h));
        else if (has_result(j, piece, h) && h != g->host)
            post(j, slot, h, DT_WIRE_RESULT, false, place_of(j, piece));
}

static bool are_done(const Job *j, const DtWirePost *posts, const DtWirePost *but)
{
    for (uint32_t h = 0; h < j->g->n_hosts; h++)
        if (!posts[h].is_done && &posts[h] != but)
            return false;
    return true;
}

/* Whether a sum may be stored: its terms are here, and those of this rank are sent if they are in
 * the same memory. */
static bool may_store(const Slot *slot, const DtWirePost *but)
{
    const Job *j = slot->job;
    return are_done(j, slot->in, but) && (!j->is_in_place || are_done(j, slot->out, NULL));
}

/* Adds the terms of a piece, block by block, and stores the sum for the members of this host.
 * Those of one host are at `bytes`. */
static void add_terms(Slot *slot, uint32_t host, const char *bytes)
{
    _Alignas(LINE) char sum[BLOCK];
    const Job *j = slot->job;
    struct DtHostsDirect *direct = j->hosts->direct;
    const DtHostsGroup *g = j->g;
    const int64_t e = j->call->e, most = BLOCK / e;
    int64_t first, n = elements_of(j, slot->piece, &first);
    for (uint32_t h = 0; h < g->n_hosts; h++)
        for (uint32_t m = g->first[h]; m < g->first[h + 1]; m++)
            direct->terms[m] = (h == host ? bytes : terms_of(j, slot, h)) +
                               (m - g->first[h]) * n * e;
    find_terms(j, slot, direct->terms + g->first[g->host], false);
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < most ? n - i : most;
        for (uint32_t m = 0; m < g->known->size; m++)
            direct->block[m] = (const char *)direct->terms[m] + i * e;
        dt_reduce_buffers(j->call->shm.dtype, j->call->shm.reduce, sum, direct->block,
                          g->known->size, some);
        dt_hosts_store(j->hosts, g, j->call, first + i, some, sum);
    }
    slot->is_added = true;
}

/* Adds terms where the transport has them, if they are the last ones. */
static bool take_terms(DtWirePost *one, const char *bytes)
{
    Slot *slot = one->context;
    if (!may_store(slot, one))
        return false;
    add_terms(slot, (uint32_t)(one - slot->in), bytes);
    return true;
}

/* Adds the piece if all of its terms are here, or stores the sum that has come; and sends on what
 * this host alone has added. Returns whether it did. */
static bool go_on(Slot *slot)
{
    const Job *j = slot->job;
    const bool adds_here = adds(j, slot->piece, j->g->host);
    int64_t first;
    if (slot->is_through || (!slot->is_added && !may_store(slot, NULL)))
        return false;
    if (adds_here && !slot->is_added) {
        add_terms(slot, UINT32_MAX, NULL);
    } else if (!adds_here && j->way == DT_HOSTS_SPLIT) {
        const int64_t n = elements_of(j, slot->piece, &first);
        dt_hosts_store(j->hosts, j->g, j->call, first, n, place_of(j, slot->piece));
    }
    slot->is_added = slot->is_through = true;
    for (uint32_t h = 0; adds_here && j->way == DT_HOSTS_SPLIT && h < j->g->n_hosts; h++)
        if (h != j->g->host)
            post(j, slot, h, DT_WIRE_RESULT, true, place_of(j, slot->piece));
    return true;
}

/* ---- all pieces ---- */

/* The next piece that this rank works on, from `piece` on; j->n: there is none. */
static int64_t next_piece(const Job *j, int64_t piece)
{
    while (piece < j->n && handler(j, piece, j->g->host) != j->g->known->me)
        piece++;
    return piece;
}

static uint32_t who(const Job *j, const Slot *slot)
{
    for (uint32_t h = 0; h < j->g->n_hosts; h++)
        if (!slot->in[h].is_done || !slot->out[h].is_done)
            return j->g->known->ranks[handler(j, slot->piece, h)];
    return UINT32_MAX;
}

static bool run(const Job *j)
{
    Slot *slots = j->hosts->direct->slots;
    DtWireWait wait = {0};
    uint64_t begun = 0, ended = 0;
    int64_t next = next_piece(j, 0);
    while (ended < begun || next < j->n) {
        bool any = false;
        for (; begun - ended < DT_HOSTS_WINDOW && next < j->n; next = next_piece(j, next + 1)) {
            begin(j, &slots[begun++ % DT_HOSTS_WINDOW], next);
            any = true;
        }
        for (uint64_t s = ended; s < begun; s++)
            any = go_on(&slots[s % DT_HOSTS_WINDOW]) || any;
        while (ended < begun && slots[ended % DT_HOSTS_WINDOW].is_through &&
               are_done(j, slots[ended % DT_HOSTS_WINDOW].out, NULL)) {
            ended++;
            any = true;
        }
        if (!any && !dt_wire_turn(j->hosts->wire, &wait, who(j, &slots[ended % DT_HOSTS_WINDOW])))
            return false;
    }
    dt_wire_go_on(j->hosts->wire, &wait);
    return true;
}

/* Elements of a piece: so that all hosts and members have some, and all terms fit into a slot. */
static int64_t step_of(const Job *j)
{
    const DtHostsGroup *g = j->g;
    const int64_t e = j->call->e, line = LINE / e,
                  shares = j->way == DT_HOSTS_SCATTER ? 1
                           : j->way == DT_HOSTS_EACH  ? g->lanes
                                                      : g->lanes * g->n_hosts;
    const int64_t one = DT_HOSTS_CHUNK / most_members(g), all = DT_HOSTS_SLOT / g->known->size,
                  most = (one < all ? one : all) / e;
    int64_t step = (j->call->shm.count + shares - 1) / shares;
    step = step < most ? step : most;
    step = (step + line - 1) / line * line;
    return step < most ? step : most;
}

bool dt_hosts_direct_run(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call, DtHostsWay way)
{
    Job j = {.hosts = hosts, .g = g, .call = call, .way = way};
    j.step = step_of(&j);
    j.n = (call->shm.count + j.step - 1) / (j.step > 0 ? j.step : 1);
    if (way == DT_HOSTS_SCATTER)
        j.n *= g->known->size;
    j.is_in_place = way == DT_HOSTS_EACH && g->here.size == 1 &&
                    dt_device_seen(hosts->rank, call->shm.to) ==
                        dt_device_seen(hosts->rank, call->shm.from);
    return run(&j);
}

void dt_hosts_direct_open(DtHosts *hosts)
{
    DtArena *memory = hosts->rank->memory;
    struct DtHostsDirect *direct = DT_NEW(memory, struct DtHostsDirect);
    const size_t nodes = (size_t)hosts->rank->options->nodes;
    for (uint32_t s = 0; s < DT_HOSTS_WINDOW; s++) {
        direct->slots[s].in = DT_NEW_ARRAY(memory, DtWirePost, nodes);
        direct->slots[s].out = DT_NEW_ARRAY(memory, DtWirePost, nodes);
    }
    direct->terms = DT_NEW_ARRAY(memory, const void *, DT_COMM_IN_ORDER);
    direct->block = DT_NEW_ARRAY(memory, const void *, DT_COMM_IN_ORDER);
    hosts->direct = direct;
}
