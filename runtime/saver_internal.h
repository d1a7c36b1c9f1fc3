/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of a save in shares:
 *
 *   saver.c        memory, and the copy that the rank makes while training stops
 *   saver_write.c  the thread: collects the rank's share chunk by chunk, and writes it
 *   saver_links.c  between hosts: what ranks of other hosts supply, and who says what when
 */
#ifndef DT_RUNTIME_SAVER_INTERNAL_H
#define DT_RUNTIME_SAVER_INTERNAL_H

#include "runtime/comm_sync.h"
#include "runtime/save.h"
#include "runtime/saver.h"
#include "runtime/wire.h"

#include <pthread.h>

/* What the threads of a host share. Counts add up over all saves of a run. */
typedef struct DtSaverCommon {
    DtSyncWord prepared; /* saves for which rank 0 has made the folder, or could not */
    DtSyncWord copied;   /* ranks that have copied */
    DtSyncWord written;  /* ranks that have written their shares, or could not */
    DtSyncWord ended;    /* saves */
    _Atomic uint32_t chunks; /* chunks written */
    _Atomic uint32_t failed; /* whether there is a failure; the thread that sets it writes it */
    _Atomic uint32_t has_folder; /* whether the folder is there, so that shares can be written */
    DtStatus failure;
    DtStatus result; /* of the save that ended last */
} DtSaverCommon;

enum { DT_SAVER_AHEAD = 4 }; /* chunks whose parts are on their way from other hosts */

/* A rank that supplies something to this rank's share. */
typedef struct DtSaverSource {
    DtSupply supply;
    int64_t coord[16];
    bool is_here;      /* on this host */
    int64_t at;        /* offset among copies of what it supplies; -1: it is on another host */
    const char *from;  /* what it supplies to the present chunk and, if it is here, the next ones */
    DtWirePost posts[DT_SAVER_AHEAD]; /* of another host */
} DtSaverSource;

/* A rank of another host to whose share this rank supplies something. */
typedef struct DtSaverGoal {
    DtSupply supply;
    DtSharesRange share;
    int64_t at, done; /* offset among copies; bytes that were sent */
    int64_t round;    /* next chunk of the share */
    uint32_t n;       /* messages so far */
    DtWirePost posts[DT_SAVER_AHEAD];
} DtSaverGoal;

typedef struct DtSaverLinks DtSaverLinks;

struct DtSaver {
    DtRank *rank;
    DtArena *memory;
    DtShares shares;
    uint32_t me, first, n_here; /* this rank; the ranks of this host */
    uint32_t hosts;             /* of the run */
    uint32_t n_writers;         /* ranks 0 .. n_writers - 1 write */
    DtSharesRange share;        /* what this rank writes; empty: nothing */
    DtSaverSource *sources;
    DtSaverGoal *goals;
    uint32_t n_sources, n_goals;
    DtSaverCommon *common;
    uint8_t (*digests)[DT_DIGEST_BYTES]; /* of all chunks */
    char *copies;                        /* what each rank of this host supplies */
    int64_t copy_at, copy_bytes, all_bytes; /* this rank's among them; of all of them */
    char *chunk;                            /* what is written next */
    DtSaverLinks *links;                    /* NULL: all ranks share a host */
    void *map;
    size_t map_bytes;
    uint32_t number; /* saves that were begun */
    int64_t steps;
    char temporary[4096]; /* the folder of the present save */
    bool runs;            /* there is a thread */
    pthread_t thread;
    atomic_bool cancelled;
    DtArena *own; /* of a save; on rank 0 */
    DtSave save;
};

/* Writes this rank's share of a save, and whatever else its thread does. */
void *dt_saverwrite_run(void *saver);

/* ---- between hosts (saver_links.c) ---- */

/* Collective: connects ranks that have something to say to each other. The lists of sources and
 * goals are complete. False after a failure. */
bool dt_saverlinks_open(struct DtSaver *saver);
void dt_saverlinks_close(DtSaverLinks *links);
/* Begins to send and to receive parts of chunks. */
void dt_saverlinks_begin(DtSaverLinks *links);
/* Waits for all parts of chunk `round` of this rank's share, to which the sources point then. */
bool dt_saverlinks_take(DtSaverLinks *links, int64_t round);
/* The writer has used them: asks the sources for the parts of another chunk. */
void dt_saverlinks_used(DtSaverLinks *links);
/* Waits until the other hosts have all that this rank supplies. */
bool dt_saverlinks_finish(DtSaverLinks *links);

/* What rank 0 tells the first rank of each other host. */
typedef enum DtSaverWord { DT_SAVER_PREPARED, DT_SAVER_ENDED } DtSaverWord;
bool dt_saverlinks_tell(DtSaverLinks *links, DtSaverWord word, const DtStatus *status);
bool dt_saverlinks_hear(DtSaverLinks *links, DtSaverWord word, DtStatus *ret_status);
/* And what these tell rank 0: whether the shares of their host are written, and the digests. */
bool dt_saverlinks_report(DtSaverLinks *links, const DtStatus *status);
bool dt_saverlinks_collect(DtSaverLinks *links, DtStatus *ret_status);

#endif
