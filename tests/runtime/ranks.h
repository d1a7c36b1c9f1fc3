/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks without a plan file: a mesh, its groups, a shared and a private arena, and a mapping in
 * this process's memory, so that threads as well as forked processes can be the ranks. No test
 * framework here: the thread sanitizer cannot run under one. */
#ifndef DT_TESTS_RANKS_H
#define DT_TESTS_RANKS_H

#include "runtime/runtime.h"

#ifndef RANKS_ARENA_BYTES
#define RANKS_ARENA_BYTES (3 << 20)
#endif

enum {
    RANKS_MOST = 66,
    RANKS_GROUPS = 4,
    RANKS_ARENA = RANKS_ARENA_BYTES,
    RANKS_SHARED = 0,
    RANKS_PRIVATE = 1,
    RANKS_SLOT = 4096,
    RANKS_SLOTS = 3
};

typedef struct Ranks {
    DtPlan plan;
    DtPlanMeta meta;
    DtPlanMeshAxis mesh[2];
    DtPlanGroup groups[RANKS_GROUPS];
    DtPlanArena arenas[2];
    DtPlanChannel channels[3 * RANKS_MOST];
    DtRunOptions options;
    DtShared *shared;
    uint32_t hosts; /* 0: one. Then each has options and a mapping of its own */
    DtRunOptions host_options[RANKS_MOST];
    DtShared *host_shared[RANKS_MOST];
    char meet[32];
    char *private_arenas[RANKS_MOST];
    DtRank ranks[RANKS_MOST];
    char failures[RANKS_MOST][300]; /* used if ranks are threads; processes print their own
                                     * failures */
} Ranks;

/* The mesh is 2 x n/2 for 4 and 8 ranks, else one axis; a group for every set of its axes. Its
 * first axis is that of the stages: channel s goes from stage s to the next one (the last to the
 * first), stages + s from s to 0, 2 stages + s from 0 to s, with RANKS_SLOTS slots of RANKS_SLOT
 * bytes. NULL if there is no memory. */
Ranks *ranks_new(uint32_t n_ranks);
/* The same for ranks of several hosts, which are all this one and must be processes: their
 * communicator is opened by ranks_join, in each of them. */
Ranks *ranks_new_hosts(uint32_t n_ranks, uint32_t hosts, const DtCommOps *ops);
bool ranks_join(DtRank *rank);
void ranks_plan(Ranks *all, uint32_t n_ranks); /* Makes only the plan */
void ranks_free(Ranks *all);

/* Forks a process for each rank, which ends after `seconds` at the latest. codes[r]: the exit code
 * that `work` returned for rank r, or 1000 + signal; -1: it could not be started. */
typedef int RanksWork(Ranks *all, DtRank *rank);
void ranks_run(Ranks *all, RanksWork *work, int seconds, int codes[RANKS_MOST]);

/* A place in the arena (RANKS_SHARED or RANKS_PRIVATE) of a rank. */
DtPlaceAt ranks_place(DtRank *rank, uint32_t arena, int64_t offset);

/* Runs one rank's part of all checks of collectives: every operation, group, kind of buffer and
 * size. Returns the number of checks, or -1 with what was wrong in ret_failure (300 bytes).
 * long_sizes: also up to 70001. */
int ranks_check(DtRank *rank, bool long_sizes, char *ret_failure);

/* The same for sums of f32 alone, of all ranks. */
int ranks_check_sums(DtRank *rank, char *ret_failure);

#endif
