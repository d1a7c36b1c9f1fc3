/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's coordinates in the mesh, its groups, the sizes of its arenas; and how a failure of the
 * rank is recorded. */
#include "runtime/rank.h"

#include "base/stages.h"
#include "runtime/device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t dt_rank_arena(const DtRunOptions *options, const DtPlan *plan, uint32_t arena,
                       uint32_t stage)
{
    const uint32_t kind = plan->arenas[arena].kind;
    const bool is_there = kind == DT_ARENA_INSTEAD
                              ? options->epilogues == DT_EPILOGUES_APART
                              : dt_run_reads_codes(options) || !dt_plan_predicts(kind);
    return is_there ? (uint64_t)dt_plan_arena_bytes(plan, arena, stage) : 0;
}

uint64_t dt_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether this is the first failure of the rank. A thread of the rank may fail, too
 * (hosts_thread.c). */
static bool is_first_failure(DtRank *rank, const DtStatus *status)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const bool is_first = !dt_rank_has_failed(rank);
    if (is_first) {
        rank->failure = *status;
        atomic_store_explicit(&rank->has_failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return is_first;
}

bool dt_rank_fail_status(DtRank *rank, const DtStatus *status)
{
    if (!is_first_failure(rank, status))
        return false;
    if (rank->slot) {
        /* Other processes may read the message when the phase is stored. */
        snprintf(rank->slot->message, sizeof rank->slot->message, "%s", status->message);
        atomic_store(&rank->slot->exit_code, status->code);
        atomic_store_explicit(&rank->slot->phase, DT_PHASE_FAILED, memory_order_release);
    }
    if (rank->shared)
        dt_shared_abort(rank->shared, rank->rank);
    return false;
}

bool dt_rank_fail(DtRank *rank, int code, const char *format, ...)
{
    DtStatus status = {.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(status.message, sizeof status.message, format, args);
    va_end(args);
    return dt_rank_fail_status(rank, &status);
}

bool dt_rank_fail_data(DtRank *rank, const DtStatus *status)
{
    atomic_store(&rank->slot->by_data, 1);
    return dt_rank_fail_status(rank, status);
}

bool dt_rank_add_up(DtRank *rank, int64_t *numbers, int64_t n)
{
    const DtPlaceAt place = dt_device_of_host(numbers, n * (int64_t)sizeof *numbers);
    return rank->n_ranks == 1 || rank->comm_ops->all_reduce(rank->comm, &rank->world, place, place,
                                                            n, DT_PLAN_I64, DT_PLAN_SUM);
}

bool dt_rank_check_same(DtRank *rank, uint64_t digest, const char *path)
{
    bool same = true;
    uint32_t other = 0;
    int64_t *digests = calloc(rank->n_ranks, sizeof *digests);
    if (!digests)
        dt_arena_exhausted(rank->n_ranks * sizeof *digests);
    digests[rank->rank] = (int64_t)digest;
    const bool good = dt_rank_add_up(rank, digests, rank->n_ranks);
    for (uint32_t r = 1; r < rank->n_ranks && good && same; r++) {
        same = digests[r] == digests[0];
        other = r;
    }
    free(digests);
    const DtStatus status =
        dt_status_fail(DT_EXIT_IO, "rank %u reads other contents of %.200s than rank 0", other,
                       path);
    return good && (same || dt_rank_fail_data(rank, &status));
}

void dt_rank_coordinates(const DtPlan *plan, uint32_t rank, int64_t ret_coord[16])
{
    for (uint32_t m = plan->n_mesh; m-- > 0;) {
        ret_coord[m] = rank % plan->mesh[m].size;
        rank /= plan->mesh[m].size;
    }
}

static uint32_t rank_at(const DtPlan *plan, const int64_t coord[16])
{
    uint32_t rank = 0;
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        rank = rank * plan->mesh[m].size + (uint32_t)coord[m];
    return rank;
}

uint32_t dt_rank_stage(const DtPlan *plan, uint32_t rank)
{
    int64_t coord[16];
    if (plan->meta->pipeline == 0)
        return 0;
    dt_rank_coordinates(plan, rank, coord);
    return (uint32_t)coord[plan->meta->pipeline - 1];
}

uint32_t dt_rank_at_stage(const DtRank *rank, uint32_t stage)
{
    int64_t at[16];
    memcpy(at, rank->coord, sizeof at);
    if (rank->plan->meta->pipeline > 0)
        at[rank->plan->meta->pipeline - 1] = stage;
    return rank_at(rank->plan, at);
}

DtRankGroup dt_rank_group(const DtPlan *plan, DtArena *memory, const int64_t coord[16],
                          const DtPlanGroup *record)
{
    DtRankGroup group = {.me = UINT32_MAX};
    const char *stages = dt_plan_str(plan, record->stages);
    uint32_t mask = record->mask, all = 1, self = 0;
    int64_t at[16];
    for (uint32_t m = 0; m < plan->n_mesh; m++) {
        if (mask >> m & 1) {
            self = self * plan->mesh[m].size + (uint32_t)coord[m];
            all *= plan->mesh[m].size;
        } else
            group.number = group.number * plan->mesh[m].size + (uint32_t)coord[m];
    }
    uint32_t *ranks = DT_NEW_ARRAY(memory, uint32_t, all);
    for (uint32_t member = 0; member < all; member++) {
        uint32_t rest = member;
        memcpy(at, coord, sizeof at);
        for (uint32_t m = plan->n_mesh; m-- > 0;)
            if (mask >> m & 1) {
                at[m] = rest % plan->mesh[m].size;
                rest /= plan->mesh[m].size;
            }
        if (*stages && !dt_stages_has(stages, (uint32_t)at[plan->meta->pipeline - 1]))
            continue;
        if (member == self)
            group.me = group.size;
        ranks[group.size++] = rank_at(plan, at);
    }
    group.ranks = ranks;
    return group;
}

int64_t dt_rank_axis_start(const DtPlan *plan, const int64_t coord[16], const DtPlanAxis *axis)
{
    int64_t part = 0;
    for (int s = 0; s < DT_PLAN_SPLITS && axis->split[s] > 0; s++)
        part = part * plan->mesh[axis->split[s] - 1].size + coord[axis->split[s] - 1];
    return axis->first + part * axis->local;
}
