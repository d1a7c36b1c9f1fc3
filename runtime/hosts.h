/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the communicator of ranks on processors of several hosts:
 *
 *   comm_hosts.c     opens it, and chooses for each group and channel who moves its bytes: `shm`
 *                    where all members share a host, else the wire
 *   hosts_sums.c     sums over members of several hosts, in the order of comm_mark.c
 *   hosts_direct.c   the same where terms go to who adds them, since that sends fewer bytes
 *   hosts_moves.c    exchanges of blocks between them
 *   hosts_channel.c  messages between stages on different hosts
 *   hosts_thread.c   works on what instructions have only started
 *   wire.h           messages between two ranks
 *
 * The members of a group that share a host work together in its mapping: what the hosts of a group
 * exchange, each host sends and receives once, whatever the number of its members, except small or
 * few terms of sums. */
#ifndef DT_RUNTIME_HOSTS_H
#define DT_RUNTIME_HOSTS_H

#include "runtime/blocks.h"
#include "runtime/cluster.h"
#include "runtime/comm_shm.h"
#include "runtime/wire.h"

/* A group as this rank uses it. */
typedef struct DtHostsGroup {
    const DtRankGroup *known;
    DtRankGroup here;   /* the members on this host */
    DtComm *shm;        /* through which these meet */
    uint32_t number;    /* of the group in the plan, and of its stream */
    uint32_t n_hosts;   /* hosts with members; 1: all members share one */
    uint32_t host;      /* number of this one among them */
    uint32_t *first;    /* [n_hosts + 1]: number of the first member on each host; then the size */
    uint32_t lanes;     /* members on the host that has fewest */
    uint64_t sequence;  /* collectives so far */
    uint64_t received;  /* bytes */
} DtHostsGroup;

typedef struct DtHostsChannels DtHostsChannels;
typedef struct DtHostsThread DtHostsThread;

enum {
    DT_HOSTS_CHUNK = 1 << 17, /* bytes of a piece of a collective */
    DT_HOSTS_WINDOW = 8,      /* pieces on their way in each direction */
    DT_HOSTS_TRACKS = 3,
    DT_HOSTS_LANES = 8, /* of WINDOW pieces each, for which a rank has memory */
    DT_HOSTS_SLOT = DT_HOSTS_LANES * DT_HOSTS_CHUNK
};

/* How a sum travels: from host to host; or the ways of hosts_direct.c. */
typedef enum DtHostsWay {
    DT_HOSTS_CHAIN,
    DT_HOSTS_EACH,
    DT_HOSTS_SPLIT,
    DT_HOSTS_SCATTER
} DtHostsWay;

/* Pieces of one kind that this rank works through in order (hosts_sums.c). */
typedef struct DtHostsTrack {
    DtWirePost in[DT_HOSTS_WINDOW], out[DT_HOSTS_WINDOW];
    char *came[DT_HOSTS_WINDOW], *goes[DT_HOSTS_WINDOW];
    int64_t asked, done;      /* next piece to ask for, next piece to work on */
    uint32_t n_asked, n_done; /* how many of them this rank has part in */
} DtHostsTrack;

typedef struct DtHosts {
    DtRank *rank;
    DtComm *shm;           /* for groups and channels of this host, and all of its ranks */
    DtComm *across;        /* for the members here of groups of several hosts */
    DtHostsThread *thread;
    bool starts;           /* the next collective is only started, if it is one of several hosts */
    bool has_started;      /* it was */
    DtClusterLinks *nodes; /* for what all ranks do, and for saving */
    DtWire *wire;
    DtHostsGroup *groups;  /* as in the plan, then the group of all ranks */
    uint32_t n_groups;
    DtHostsChannels *channels;
    /* LANES x WINDOW pieces, of the one collective that this rank works on (dt_hosts_piece) */
    char *pool;
    DtHostsTrack tracks[DT_HOSTS_TRACKS];
    char *dense;              /* a chunk for each member of this host */
    const void **terms;       /* for the addresses of such members, and one more */
    struct DtHostsMoves *moves; /* hosts_moves.c */
    struct DtHostsDirect *direct; /* hosts_direct.c */
} DtHosts;

/* A collective of several hosts. blocks NULL: contiguous ones. */
typedef struct DtHostsCall {
    DtShmCall shm;
    const DtRankBlocks *blocks;
    int64_t e; /* bytes of an element */
    DtCommMark mark;
} DtHostsCall;

/* Runs a collective of several hosts, from the meeting of its members here to their parting. False:
 * the run is to stop. */
typedef bool DtHostsRun(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call);

/* The host of a member. */
uint32_t dt_hosts_of(const DtHostsGroup *g, uint32_t member);
/* The head of a message of the collective. */
DtWireHead dt_hosts_head(const DtHostsGroup *g, const DtHostsCall *call, DtWireKind kind,
                         int64_t part, int64_t bytes);

/* Memory for piece 0 .. WINDOW - 1 of a lane. */
static inline char *dt_hosts_piece(const DtHosts *hosts, uint32_t lane, uint32_t piece)
{
    return hosts->pool + ((size_t)lane * DT_HOSTS_WINDOW + piece) * DT_HOSTS_CHUNK;
}

void dt_hosts_sums_open(DtHosts *hosts);
void dt_hosts_moves_open(DtHosts *hosts);
void dt_hosts_direct_open(DtHosts *hosts);

/* Where n elements of a member of this host begin, from `first` on; of a reduce-scatter: of its
 * block for `owner`. They are in the mapping or, of strided blocks, copied to `dense`. */
const char *dt_hosts_term(const DtHostsGroup *g, const DtHostsCall *call, uint32_t member,
                          uint32_t owner, int64_t first, int64_t n, char *dense);
/* Stores n elements of a sum, from `first` on, where the members of this host want them; of a
 * reduce-scatter: where this rank does. */
void dt_hosts_store(DtHosts *hosts, const DtHostsGroup *g, const DtHostsCall *call, int64_t first,
                    int64_t n, const char *sum);

/* The way of a sum, the same on all members; a sum by one of the ways that it may take, whose bits
 * are the same; and by one of hosts_direct.c. */
DtHostsWay dt_hosts_way(const DtHostsGroup *g, const DtHostsCall *call);
bool dt_hosts_sum_by(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call, DtHostsWay way);
bool dt_hosts_direct_run(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call, DtHostsWay way);

/* All collectives of several hosts; their members here have met. False: the run is to stop. */
bool dt_hosts_sum(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call);
bool dt_hosts_moves_gather(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call);
bool dt_hosts_moves_all_to_all(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call);
bool dt_hosts_moves_shift(DtHosts *hosts, DtHostsGroup *g, const DtHostsCall *call);

/* has_channels: whether a channel leads to another host. */
DtStatus dt_hosts_thread_open(DtHosts *hosts, bool has_channels);
void dt_hosts_thread_close(DtHostsThread *thread);
/* Waits until all that was started is done; then the rank itself uses the wire, until it leaves.
 * False: the run is to stop. */
bool dt_hosts_thread_enter(DtHostsThread *thread);
void dt_hosts_thread_leave(DtHostsThread *thread);
/* Starts a collective; names the event of the last one (from 0); waits for an event. */
bool dt_hosts_thread_start(DtHostsThread *thread, DtHostsGroup *g, const DtHostsCall *call,
                           DtHostsRun *run);
void dt_hosts_thread_name(DtHostsThread *thread, int64_t event);
bool dt_hosts_thread_await(DtHostsThread *thread, int64_t event);

/* Channels whose ends are on different hosts; has: whether this rank has such an end. */
DtHostsChannels *dt_hosts_channel_open(DtRank *rank);
bool dt_hosts_channel_begin(DtHostsChannels *channels, DtWire *wire);
bool dt_hosts_channel_has(const DtHostsChannels *channels, uint32_t channel);
uint32_t dt_hosts_channel_peer(const DtHostsChannels *channels, uint32_t channel);
bool dt_hosts_channel_send(DtHostsChannels *channels, uint32_t channel, DtPlaceAt buffer,
                           int64_t bytes, int64_t tag);
bool dt_hosts_channel_recv(DtHostsChannels *channels, uint32_t channel, DtPlaceAt buffer,
                           int64_t bytes, int64_t tag);
uint64_t dt_hosts_channel_received(const DtHostsChannels *channels, uint32_t channel);

#endif
