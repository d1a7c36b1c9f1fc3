/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hold the same part of a tensor hold the same bits: all of them add the same gradients
 * in the same order. A bit that flips in the memory of one rank would go unnoticed, and the run
 * would save whatever rank 0 has. So ranks compare digests: `--check-replicas N` every N steps, and
 * always before a save.
 *
 * Stores are put together by the mesh axes along which ranks have different parts of them. For each
 * such set a rank publishes one digest in its slot. After a meeting all of them compare the digests
 * of ranks with equal coordinates on these axes. Most of the ranks are right; of two, nobody knows.
 * Then they compare store by store, to name one that differs. */
#include "runtime/rank.h"

#include "base/hash.h"
#include "plan/kinds.h"

#include <stdlib.h>

/* Ranks whose digests are compared, and which of them differ from the others. */
typedef struct Odd {
    uint32_t rank;  /* the first that differs from most of its group */
    uint32_t other; /* a rank of the group that does not agree with it */
    bool any, is_even; /* is_even: half of the group has other bits, so either half may be right */
} Odd;

/* The mesh axes along which ranks have different parts of the store, as a bit set. */
static uint32_t axes_of(const DtPlan *plan, const DtPlanStore *store)
{
    uint32_t axes = 0;
    if (plan->meta->pipeline && store->stage >= 0)
        axes |= 1u << (plan->meta->pipeline - 1);
    for (uint32_t a = store->n_loops; a < store->n_axes; a++)
        for (uint32_t s = 0; s < DT_PLAN_SPLITS; s++)
            if (plan->axes[store->first_axis + a].split[s])
                axes |= 1u << (plan->axes[store->first_axis + a].split[s] - 1);
    if (store->pack == 0)
        return axes;
    const DtPlanPack *pack = &plan->packs[store->pack - 1];
    for (uint32_t s = 0; s < pack->n_split; s++)
        axes |= 1u << pack->split[s];
    return axes;
}

/* Whether training changes the store and keeps it from step to step, and several ranks hold the
 * same part of it. */
static bool is_compared(const DtPlan *plan, const DtPlanStore *store)
{
    const uint32_t axes = axes_of(plan, store);
    bool is_shared = false;
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        is_shared = is_shared || (plan->mesh[m].size > 1 && !(axes >> m & 1));
    return is_shared &&
           (store->kind == DT_PLAN_PARAM || store->kind == DT_PLAN_MASTER || store->saved);
}

/* Lists the different sets of axes. If there are more than digests in a slot, the last one takes
 * the axes of all further ones, too: ranks that agree on more axes are fewer, but still equal. */
static uint32_t list_sets(const DtPlan *plan, uint32_t ret_sets[DT_REPLICA_SETS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        uint32_t at = 0;
        const uint32_t axes = axes_of(plan, &plan->stores[i]);
        if (!is_compared(plan, &plan->stores[i]))
            continue;
        while (at < n && ret_sets[at] != axes)
            at++;
        if (at < DT_REPLICA_SETS)
            ret_sets[at] = axes;
        else
            ret_sets[DT_REPLICA_SETS - 1] |= axes;
        n = at < DT_REPLICA_SETS && at == n ? n + 1 : n;
    }
    return n;
}

static uint32_t set_of(const uint32_t *sets, uint32_t n, uint32_t axes)
{
    for (uint32_t i = 0; i < n; i++)
        if (sets[i] == axes)
            return i;
    return n - 1;
}

/* ---- digests ---- */

typedef struct Digest {
    uint64_t value;
    size_t size; /* of an element */
} Digest;

static void add_run(void *context, const int64_t *index, int64_t n, char *at)
{
    Digest *digest = context;
    (void)index;
    digest->value = dt_hash_bytes(at, (size_t)n * digest->size, digest->value);
}

/* Adds what this rank has of the store to the digest. */
static void add_store(const DtRank *rank, const DtPlanStore *store, uint64_t *digest)
{
    Digest d = {*digest, (size_t)dt_kinds_size(store->dtype)};
    int64_t iterations = 1;
    if (!dt_plan_on_stage(store->stage, rank->stage))
        return;
    for (uint32_t a = 0; a < store->n_loops; a++)
        iterations *= rank->plan->axes[store->first_axis + a].local;
    for (int64_t i = 0; i < iterations; i++)
        dt_pack_walk(rank, store, i, false, 0, add_run, &d);
    *digest = d.value;
}

static bool meet(DtRank *rank) { return rank->comm_ops->barrier(rank->comm, &rank->world); }

/* ---- comparison ---- */

/* What a rank has published, and a number that ranks with equal parts share. */
typedef struct Published {
    uint64_t part, digest;
    uint32_t rank;
} Published;

static uint64_t digest_of(const DtRank *rank, uint32_t of, uint32_t set)
{
    return atomic_load(&dt_shared_slot(rank->plan, rank->shared, of)->replicas[set]);
}

/* Numbers the combinations of coordinates on these axes. */
static uint64_t part_of(const DtPlan *plan, uint32_t rank, uint32_t axes)
{
    int64_t coord[16];
    uint64_t part = 0;
    dt_rank_coordinates(plan, rank, coord);
    for (uint32_t m = 0; m < plan->n_mesh; m++)
        if (axes >> m & 1)
            part = part * (uint64_t)plan->mesh[m].size + (uint64_t)coord[m];
    return part;
}

static int by_part(const void *a, const void *b)
{
    const Published *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->digest != y->digest)
        return x->digest < y->digest ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Looks at ranks with the same part: ranks with equal digests follow each other. */
static Odd look_at_group(const Published *group, uint32_t n)
{
    uint32_t most = 0, first = 0, least = n, odd = 0;
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && group[end].digest == group[i].digest; end++) {}
        if (end - i > most) {
            most = end - i;
            first = i;
        }
        if (end - i <= least) {
            least = end - i;
            odd = i;
        }
    }
    if (most == n)
        return (Odd){0};
    return (Odd){group[odd].rank, group[first].rank, true, 2 * most <= n};
}

/* Looks for a rank whose digest differs from those of most ranks with the same part. */
static Odd find_odd(const DtRank *rank, uint32_t set, uint32_t axes, Published *all)
{
    Odd odd = {0};
    for (uint32_t r = 0; r < rank->n_ranks; r++)
        all[r] = (Published){part_of(rank->plan, r, axes), digest_of(rank, r, set), r};
    qsort(all, rank->n_ranks, sizeof *all, by_part);
    for (uint32_t i = 0, end; i < rank->n_ranks && !odd.any; i = end) {
        for (end = i + 1; end < rank->n_ranks && all[end].part == all[i].part; end++) {}
        odd = look_at_group(all + i, end - i);
    }
    return odd;
}

/* Returns the first store of which the two ranks have different bits, or NULL. False after a
 * failure. */
static bool find_store(DtRank *rank, const Odd *odd, uint32_t set, const uint32_t *sets, uint32_t n,
                       const DtPlanStore **ret_store)
{
    const DtPlan *plan = rank->plan;
    *ret_store = NULL;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        uint64_t digest = 1;
        if (!is_compared(plan, store) || set_of(sets, n, axes_of(plan, store)) != set)
            continue;
        add_store(rank, store, &digest);
        atomic_store(&rank->slot->replicas[set], digest);
        if (!meet(rank))
            return false;
        if (*ret_store == NULL &&
            digest_of(rank, odd->rank, set) != digest_of(rank, odd->other, set))
            *ret_store = store;
        if (!meet(rank)) /* before a rank writes the next digest */
            return false;
    }
    return true;
}

static bool fail(DtRank *rank, int64_t steps, const Odd *odd, uint32_t set, const uint32_t *sets,
                 uint32_t n)
{
    const DtPlanStore *store;
    if (!find_store(rank, odd, set, sets, n, &store))
        return false;
    if (rank->rank != 0) /* rank 0 says it, and that ends the wait */
        return meet(rank) && dt_rank_fail(rank, DT_EXIT_RETRY, "replicas differ");
    const char *path = store ? dt_plan_str(rank->plan, store->path) : "a parameter";
    const char *more = "a bit has flipped in memory, or a device computes wrongly; this is not "
                       "saved, and older checkpoints are as they were";
    return odd->is_even
               ? dt_rank_fail(rank, DT_EXIT_RETRY,
                              "replicas differ after step %lld: ranks %u and %u have other bits in "
                              "`%.100s`, and nothing says which are right; %s",
                              (long long)steps, odd->rank, odd->other, path, more)
               : dt_rank_fail(rank, DT_EXIT_RETRY,
                              "replicas differ after step %lld: rank %u has other bits in `%.100s` "
                              "than rank %u and most others; %s",
                              (long long)steps, odd->rank, path, odd->other, more);
}

/* Whether all ranks have devices of one kind. Others choose algorithms of their own, so copies that
 * each rank computes for itself may differ in their last bits (a note at the start says so). */
static bool is_one_kind(const DtRank *rank)
{
    for (uint32_t r = 0; r < rank->n_ranks; r++)
        if (atomic_load(&dt_shared_slot(rank->plan, rank->shared, r)->kind) !=
            atomic_load(&rank->slot->kind))
            return false;
    return true;
}

bool dt_replicas_check(DtRank *rank, int64_t steps)
{
    const DtPlan *plan = rank->plan;
    uint32_t sets[DT_REPLICA_SETS];
    uint64_t digests[DT_REPLICA_SETS] = {0};
    const uint32_t n = list_sets(plan, sets);
    if (rank->n_ranks == 1 || n == 0 || !is_one_kind(rank))
        return true;
    for (uint32_t i = 0; i < plan->n_stores; i++) {
        const DtPlanStore *store = &plan->stores[i];
        if (is_compared(plan, store))
            add_store(rank, store, &digests[set_of(sets, n, axes_of(plan, store))]);
    }
    for (uint32_t i = 0; i < n; i++)
        atomic_store(&rank->slot->replicas[i], digests[i]);
    if (!meet(rank))
        return false;
    Odd odd = {0};
    uint32_t set = 0;
    Published *all = calloc(rank->n_ranks, sizeof *all);
    for (uint32_t i = 0; all && i < n && !odd.any; i++) {
        odd = find_odd(rank, i, sets[i], all);
        set = i;
    }
    free(all);
    if (!all)
        return dt_rank_fail(rank, DT_EXIT_RETRY, "no memory to compare %u ranks", rank->n_ranks);
    if (!meet(rank)) /* before a rank publishes the next digests */
        return false;
    return !odd.any || fail(rank, steps, &odd, set, sets, n);
}
