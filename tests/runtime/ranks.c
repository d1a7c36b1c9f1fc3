/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shift.h"
#include "ranks.h"

#include "runtime/cluster.h"
#include "runtime/device.h"
#include "runtime/rank.h"
#include "runtime/socket.h"
#include "runtime/spread.h"
#include "tests/look.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the ranks ---- */

void ranks_plan(Ranks *all, uint32_t n)
{
    bool two_axes = n == 4 || n == 8;
    all->meta = (DtPlanMeta){.n_ranks = n, .n_micro = 1, .pipeline = 1, .events = 2};
    all->mesh[0].size = two_axes ? 2 : n;
    all->mesh[1].size = two_axes ? n / 2 : 1;
    all->arenas[RANKS_SHARED] = (DtPlanArena){.shared = 1, .bytes = RANKS_ARENA};
    all->arenas[RANKS_PRIVATE] = (DtPlanArena){.bytes = RANKS_ARENA};
    all->plan = (DtPlan){.meta = &all->meta,
                         .n_meta = 1,
                         .mesh = all->mesh,
                         .n_mesh = two_axes ? 2 : 1,
                         .groups = all->groups,
                         .arenas = all->arenas,
                         .n_arenas = 2,
                         .channels = all->channels,
                         .strings = "",
                         .n_strings = 1};
    for (uint32_t mask = 1; mask < 1u << all->plan.n_mesh; mask++) {
        uint32_t size = (mask & 1 ? all->mesh[0].size : 1) * (mask & 2 ? all->mesh[1].size : 1);
        all->groups[mask - 1] = (DtPlanGroup){.mask = mask, .size = size};
        all->plan.n_groups = mask;
    }
    uint32_t stages = all->mesh[0].size;
    for (uint32_t c = 0; c < 3 * stages; c++) {
        uint32_t s = c % stages;
        uint32_t ends[3][2] = {{s, (s + 1) % stages}, {s, 0}, {0, s}};
        all->channels[c] = (DtPlanChannel){.from = ends[c / stages][0],
                                           .to = ends[c / stages][1],
                                           .slots = RANKS_SLOTS,
                                           .bytes = RANKS_SLOT};
    }
    all->plan.n_channels = 3 * stages;
}

static void make_rank(Ranks *all, uint32_t r)
{
    DtRank *rank = &all->ranks[r];
    DtSharedLayout layout;
    const uint32_t host = all->hosts ? dt_spread_node(all->meta.n_ranks, all->hosts, r) : 0;
    dt_shared_layout(&all->plan, &layout);
    *rank = (DtRank){.options = all->hosts ? &all->host_options[host] : &all->options,
                     .plan = &all->plan,
                     .meta = all->meta,
                     .rank = r,
                     .n_ranks = all->meta.n_ranks,
                     .memory = dt_arena_new(),
                     .shared = all->hosts ? all->host_shared[host] : all->shared,
                     .comm_ops = &dt_comm_shm,
                     .device_ops = &dt_device_cpu,
                     .failure = DT_OK};
    rank->slot = dt_shared_slot(&all->plan, rank->shared, r);
    rank->arenas = DT_NEW_ARRAY(rank->memory, DtDeviceAt, 2);
    rank->peer_arenas = DT_NEW_ARRAY(rank->memory, char *, 2 * rank->n_ranks);
    for (uint32_t q = 0; q < rank->n_ranks; q++)
        rank->peer_arenas[2 * q] = (char *)rank->shared + layout.arenas + q * layout.rank_bytes +
                                   layout.arena[RANKS_SHARED];
    rank->arenas[RANKS_SHARED] = dt_device_at(rank->peer_arenas[2 * r]);
    rank->arenas[RANKS_PRIVATE] = dt_device_at(all->private_arenas[r]);
    dt_rank_coordinates(&all->plan, r, rank->coord);
    rank->groups = DT_NEW_ARRAY(rank->memory, DtRankGroup, all->plan.n_groups);
    for (uint32_t g = 0; g < all->plan.n_groups; g++)
        rank->groups[g] = dt_rank_group(&all->plan, rank->memory, rank->coord, &all->groups[g]);
    rank->stage = dt_rank_stage(&all->plan, r);
    rank->world =
        dt_rank_group(&all->plan, rank->memory, rank->coord,
                      &(DtPlanGroup){.mask = (1u << all->plan.n_mesh) - 1});
    rank->local = dt_cluster_here(rank, &rank->world);
    atomic_store(&rank->slot->waits_for, UINT32_MAX);
    atomic_store(&rank->slot->inst, UINT32_MAX);
}

bool ranks_join(DtRank *rank)
{
    const DtStatus status = rank->comm_ops->open(rank, &rank->comm);
    return dt_status_ok(&status);
}

static DtShared *new_mapping(const Ranks *all)
{
    DtSharedLayout layout;
    dt_shared_layout(&all->plan, &layout);
    DtShared *shared =
        mmap(NULL, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return NULL;
    shared->n_ranks = all->meta.n_ranks;
    return shared;
}

Ranks *ranks_new(uint32_t n_ranks)
{
    Ranks *all = calloc(1, sizeof *all);
    if (all == NULL)
        return NULL;
    ranks_plan(all, n_ranks);
    all->shared = new_mapping(all);
    if (all->shared == NULL) {
        free(all);
        return NULL;
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        all->private_arenas[r] = aligned_alloc(64, RANKS_ARENA);
        if (all->private_arenas[r] != NULL)
            make_rank(all, r);
        if (all->private_arenas[r] == NULL || !ranks_join(&all->ranks[r])) {
            ranks_free(all);
            return NULL;
        }
    }
    return all;
}

Ranks *ranks_new_hosts(uint32_t n_ranks, uint32_t hosts, const DtCommOps *ops)
{
    Ranks *all = calloc(1, sizeof *all);
    uint16_t port;
    int fd = -1;
    if (all == NULL)
        return NULL;
    ranks_plan(all, n_ranks);
    all->hosts = hosts;
    const DtStatus status = dt_socket_listen(0, &fd, &port);
    bool good = dt_status_ok(&status);
    snprintf(all->meet, sizeof all->meet, "127.0.0.1:%u", (unsigned)port);
    for (uint32_t h = 0; good && h < hosts; h++) {
        all->host_options[h] =
            (DtRunOptions){.nodes = hosts, .node = h, .meet = all->meet, .timeout = 20};
        all->host_shared[h] = new_mapping(all);
        good = all->host_shared[h] != NULL;
        if (good) {
            all->host_shared[h]->meet_fd = h == 0 ? fd : -1;
            all->host_shared[h]->meet_port = port;
            snprintf(all->host_shared[h]->meet_host, sizeof all->host_shared[h]->meet_host, "%s",
                     "127.0.0.1");
        }
    }
    all->shared = all->host_shared[0];
    for (uint32_t r = 0; good && r < n_ranks; r++) {
        all->private_arenas[r] = aligned_alloc(64, RANKS_ARENA);
        good = all->private_arenas[r] != NULL;
        if (good)
            make_rank(all, r);
        all->ranks[r].comm_ops = ops;
    }
    if (good)
        return all;
    ranks_free(all);
    return NULL;
}

void ranks_free(Ranks *all)
{
    DtSharedLayout layout;
    dt_shared_layout(&all->plan, &layout);
    for (uint32_t r = 0; r < all->meta.n_ranks; r++) {
        if (all->ranks[r].memory)
            dt_arena_free(all->ranks[r].memory);
        free(all->private_arenas[r]);
    }
    if (all->hosts && all->host_shared[0])
        close(all->host_shared[0]->meet_fd);
    for (uint32_t h = 0; h < all->hosts; h++)
        if (all->host_shared[h])
            munmap(all->host_shared[h], layout.total);
    if (!all->hosts)
        munmap(all->shared, layout.total);
    free(all);
}

void ranks_run(Ranks *all, RanksWork *work, int seconds, int codes[RANKS_MOST])
{
    pid_t pids[RANKS_MOST];
    for (uint32_t r = 0; r < all->meta.n_ranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            alarm((unsigned)seconds);
            _exit(work(all, &all->ranks[r]));
        }
    }
    for (uint32_t r = 0; r < all->meta.n_ranks; r++) {
        int status;
        codes[r] = pids[r] < 0 || waitpid(pids[r], &status, 0) != pids[r] ? -1
                   : WIFEXITED(status)                                    ? WEXITSTATUS(status)
                                                                          : 1000 + WTERMSIG(status);
    }
}

/* The ranks of these tests are threads, and their device is the CPU. */
static char *seen(DtPlaceAt place)
{
    return dt_device_seen(&(DtRank){.device_ops = &dt_device_cpu}, place);
}

DtPlaceAt ranks_place(DtRank *rank, uint32_t arena, int64_t offset)
{
    return dt_device_place(rank, arena, offset, RANKS_ARENA - offset);
}

/* ---- values ---- */

/* Returns the value of element i that a rank has in round `salt`: values whose sums depend on the
 * order of additions. */
static uint64_t bits_of(uint32_t rank, int64_t i, uint64_t salt)
{
    uint64_t x = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u + rank * 0xbf58476d1ce4e5b9u +
                 salt * 0x94d049bb133111ebu;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static double value_of(DtPlanDtype dtype, uint32_t rank, int64_t i, uint64_t salt)
{
    uint64_t bits = bits_of(rank, i, salt);
    switch (dtype) {
    case DT_PLAN_F32:
        return (double)(float)(((double)(bits >> 11) * 0x1p-53 - 0.5) *
                               ((bits & 7) == 0 ? 1e6 : 1.0));
    case DT_PLAN_I32: return (double)(int32_t)(bits >> 36);
    default: return (double)(bits % 30); /* sums of eight of these fit into a byte */
    }
}

static void put(DtPlanDtype dtype, char *at, int64_t i, double value)
{
    switch (dtype) {
    case DT_PLAN_F32: ((float *)(void *)at)[i] = (float)value; break;
    case DT_PLAN_I32: ((int32_t *)(void *)at)[i] = (int32_t)value; break;
    default: ((uint8_t *)at)[i] = (uint8_t)value; break;
    }
}

static double get(DtPlanDtype dtype, const char *at, int64_t i)
{
    switch (dtype) {
    case DT_PLAN_F32: return (double)((const float *)(const void *)at)[i];
    case DT_PLAN_I32: return (double)((const int32_t *)(const void *)at)[i];
    default: return (double)((const uint8_t *)at)[i];
    }
}

/* Reduces element i over the members in the arithmetic of the dtype: up to 64 members in their
 * order, more along a ring, from the member after the owner of the element to the owner. */
static double reduced(DtPlanDtype dtype, DtPlanReduce reduce, const DtRankGroup *group, int64_t i,
                      uint64_t salt, uint32_t owner)
{
    const uint32_t first = group->size > 64 ? owner + 1 : 0;
    double sum = value_of(dtype, group->ranks[first % group->size], i, salt);
    for (uint32_t m = 1; m < group->size; m++) {
        double next = value_of(dtype, group->ranks[(first + m) % group->size], i, salt);
        switch (reduce) {
        case DT_PLAN_MAX: sum = next > sum ? next : sum; break;
        case DT_PLAN_MIN: sum = next < sum ? next : sum; break;
        default:
            sum = dtype == DT_PLAN_F32 ? (double)((float)sum + (float)next) : sum + next;
            break;
        }
    }
    return sum;
}

/* The owner of element i of an all-reduce: members own equally many elements, in whole lines of 64
 * bytes. */
static uint32_t owner_of(int64_t i, int64_t count, int64_t element, uint32_t members)
{
    const int64_t line = 64 / element, each = (count + members - 1) / members;
    return (uint32_t)(i / ((each + line - 1) / line * line));
}

/* ---- checks ---- */

typedef struct Check {
    DtRank *rank;
    const DtRankGroup *group;
    uint32_t arena;
    DtPlanDtype dtype;
    int64_t count, element;
    uint64_t salt;
    int done;
    char *failure;
} Check;

static bool wrong(const Check *check, const char *what, int64_t at)
{
    if (dt_status_ok(&check->rank->failure))
        snprintf(check->failure, 300,
                 "rank %u: %s of %lld elements of dtype %d over %u ranks, arena %u: wrong at %lld",
                 check->rank->rank, what, (long long)check->count, (int)check->dtype,
                 check->group->size, check->arena, (long long)at);
    else
        snprintf(check->failure, 300, "rank %u: %s: %.200s", check->rank->rank, what,
                 check->rank->failure.message);
    return false;
}

static void fill(const Check *check, char *at, int64_t count, uint32_t as_rank)
{
    for (int64_t i = 0; i < count; i++)
        put(check->dtype, at, i, value_of(check->dtype, as_rank, i, check->salt));
}

/* Checks how many bytes all members have received since `before`; the numbers are exchanged through
 * the communicator itself. */
static bool check_received(Check *check, uint64_t before, uint64_t expected_of_all)
{
    DtRank *rank = check->rank;
    uint64_t mine = rank->comm_ops->received(rank->comm, check->group) - before, all = 0;
    DtPlaceAt from = ranks_place(rank, RANKS_SHARED, 0), to = ranks_place(rank, RANKS_PRIVATE, 0);
    memcpy(seen(from), &mine, sizeof mine);
    if (!rank->comm_ops->all_gather(rank->comm, check->group, to, from, NULL, 1, DT_PLAN_I64))
        return wrong(check, "all-gather of bytes", 0);
    for (uint32_t m = 0; m < check->group->size; m++)
        all += ((uint64_t *)(void *)seen(to))[m];
    return all == expected_of_all || wrong(check, "count of bytes received", (int64_t)all);
}

static bool check_all_reduce(Check *check, DtPlanReduce reduce, bool in_place)
{
    DtRank *rank = check->rank;
    uint64_t before = rank->comm_ops->received(rank->comm, check->group);
    DtPlaceAt buffer = ranks_place(rank, check->arena, 256);
    DtPlaceAt from = in_place ? buffer : ranks_place(rank, check->arena, RANKS_ARENA / 2);
    fill(check, seen(from), check->count, rank->rank);
    put(check->dtype, seen(buffer), check->count, 77);
    if (!rank->comm_ops->all_reduce(rank->comm, check->group, buffer, from, check->count,
                                    check->dtype, reduce))
        return wrong(check, "all-reduce", -1);
    for (int64_t i = 0; i < check->count; i++)
        if (get(check->dtype, seen(buffer), i) !=
            reduced(check->dtype, reduce, check->group, i, check->salt,
                    owner_of(i, check->count, check->element, check->group->size)))
            return wrong(check, "all-reduce", i);
    if (get(check->dtype, seen(buffer), check->count) != 77)
        return wrong(check, "all-reduce wrote behind its end", check->count);
    return check_received(check, before,
                          (uint64_t)(2 * (check->group->size - 1) * check->count * check->element));
}

static bool check_all_gather(Check *check, bool in_place)
{
    DtRank *rank = check->rank;
    uint64_t before = rank->comm_ops->received(rank->comm, check->group);
    int64_t bytes = check->count * check->element, total = bytes * check->group->size;
    DtPlaceAt to = ranks_place(rank, check->arena, 64);
    DtPlaceAt from = ranks_place(
        rank, check->arena, in_place ? 64 + check->group->me * bytes : 64 + (total + 63) / 64 * 64);
    memset(seen(to), 0x55, (size_t)total);
    fill(check, seen(from), check->count, rank->rank);
    if (!rank->comm_ops->all_gather(rank->comm, check->group, to, from, NULL, check->count,
                                    check->dtype))
        return wrong(check, "all-gather", -1);
    for (uint32_t m = 0; m < check->group->size; m++)
        for (int64_t i = 0; i < check->count; i++)
            if (get(check->dtype, seen(to) + m * bytes, i) !=
                value_of(check->dtype, check->group->ranks[m], i, check->salt))
                return wrong(check, "all-gather", m * check->count + i);
    return check_received(check, before,
                          (uint64_t)(check->group->size * (check->group->size - 1) * bytes));
}

static bool check_reduce_scatter(Check *check, bool in_place)
{
    DtRank *rank = check->rank;
    uint64_t before = rank->comm_ops->received(rank->comm, check->group);
    int64_t bytes = check->count * check->element, total = check->count * check->group->size;
    DtPlaceAt from = ranks_place(rank, check->arena, 0);
    DtPlaceAt to = in_place
                       ? ranks_place(rank, check->arena, check->group->me * bytes)
                       : ranks_place(rank, RANKS_PRIVATE, RANKS_ARENA - (bytes + 63) / 64 * 64);
    fill(check, seen(from), total, rank->rank);
    if (!rank->comm_ops->reduce_scatter(rank->comm, check->group, to, from, NULL, check->count,
                                        check->dtype, DT_PLAN_SUM))
        return wrong(check, "reduce-scatter", -1);
    for (int64_t i = 0; i < check->count; i++) {
        int64_t at = check->group->me * check->count + i;
        if (get(check->dtype, seen(to), i) !=
            reduced(check->dtype, DT_PLAN_SUM, check->group, at, check->salt, check->group->me))
            return wrong(check, "reduce-scatter", i);
    }
    return check_received(check, before,
                          (uint64_t)(check->group->size * (check->group->size - 1) * bytes));
}

static bool check_all_to_all(Check *check)
{
    DtRank *rank = check->rank;
    uint64_t before = rank->comm_ops->received(rank->comm, check->group);
    int64_t total = check->count * check->group->size;
    if (total * check->element > RANKS_ARENA / 2) /* the two buffers may be in the same arena */
        return true;
    DtPlaceAt from = ranks_place(rank, check->arena, 0);
    DtPlaceAt to =
        ranks_place(rank, RANKS_PRIVATE, RANKS_ARENA - (total * check->element + 63) / 64 * 64);
    fill(check, seen(from), total, rank->rank);
    if (!rank->comm_ops->all_to_all(rank->comm, check->group, to, from, NULL, check->count,
                                    check->dtype))
        return wrong(check, "all-to-all", -1);
    for (int64_t i = 0; i < total; i++)
        if (get(check->dtype, seen(to), i) !=
            value_of(check->dtype, check->group->ranks[i / check->count],
                     check->group->me * check->count + i % check->count, check->salt))
            return wrong(check, "all-to-all", i);
    return check_received(
        check, before,
        (uint64_t)(check->group->size * (check->group->size - 1) * check->count * check->element));
}

/* Whether two members meet in a round, by the tournament's rule; nobody meets itself. */
static bool meet(uint32_t n, uint32_t round, uint32_t i, uint32_t j)
{
    const uint32_t rounds = n % 2 ? n : n - 1;
    if (i == j)
        return false;
    if (i == rounds || j == rounds)
        return 2 * (i == rounds ? j : i) % rounds == round;
    return (i + j) % rounds == round;
}

static bool check_shift(Check *check, uint32_t way)
{
    DtRank *rank = check->rank;
    const DtRankGroup *group = check->group;
    uint64_t before = rank->comm_ops->received(rank->comm, group);
    DtPlaceAt from = ranks_place(rank, check->arena, 0),
              to = ranks_place(rank, RANKS_PRIVATE, RANKS_ARENA / 2);
    fill(check, seen(from), check->count, rank->rank);
    if (!rank->comm_ops->shift(rank->comm, group, to, from, check->count, check->dtype, way))
        return wrong(check, "shift", -1);
    uint32_t with = (group->me + (way == DT_SHIFT_AFTER ? 1 : group->size - 1)) % group->size;
    if (way >= DT_SHIFT_PAIRS) { /* i and j meet in round i + j of the others than the last */
        const uint32_t round = (uint32_t)way - DT_SHIFT_PAIRS;
        for (with = 0; with < group->size && !meet(group->size, round, with, group->me);)
            with++;
    }
    uint32_t source = group->ranks[with < group->size ? with : group->me];
    for (int64_t i = 0; i < check->count; i++)
        if (get(check->dtype, seen(to), i) != value_of(check->dtype, source, i, check->salt))
            return wrong(check, "shift", i);
    const uint32_t alone = way >= DT_SHIFT_PAIRS ? group->size % 2 : group->size == 1;
    return check_received(check, before,
                          (uint64_t)((group->size - alone) * check->count * check->element));
}

/* Tensors [3, m, 5], in which m = members x count is split over the group along the second axis;
 * and [3, members x 2, count x members], in which a split moves from the last axis to the second
 * one. */
typedef struct Strided {
    int64_t to_at[RANKS_MOST], from_at[RANKS_MOST];
    DtRankBlocks blocks;
} Strided;

static void strided(Strided *s, uint32_t members, DtRankBlocks blocks, int64_t to, int64_t from)
{
    for (uint32_t m = 0; m < members; m++) {
        s->to_at[m] = m * to;
        s->from_at[m] = m * from;
    }
    s->blocks = blocks;
    s->blocks.to_at = s->to_at;
    s->blocks.from_at = s->from_at;
}

static bool gather_middle(Check *check, uint32_t source)
{
    DtRank *rank = check->rank;
    const DtRankGroup *group = check->group;
    int64_t n = check->count, whole = n * group->size;
    DtPlaceAt from = ranks_place(rank, source, 64), to = ranks_place(rank, 1 - source, 0);
    Strided s;
    strided(
        &s, group->size,
        (DtRankBlocks){.n_dims = 2, .extent = {3, 5 * n}, .to = {5 * whole, 1}, .from = {5 * n, 1}},
        5 * n, 0);
    fill(check, seen(from), 15 * n, rank->rank);
    if (!rank->comm_ops->all_gather(rank->comm, group, to, from, &s.blocks, 15 * n, check->dtype))
        return wrong(check, "strided all-gather", -1);
    for (int64_t i = 0; i < 15 * whole; i++) {
        int64_t a = i / (5 * whole), m = i / 5 % whole, c = i % 5;
        if (get(check->dtype, seen(to), i) !=
            value_of(check->dtype, group->ranks[m / n], (a * n + m % n) * 5 + c, check->salt))
            return wrong(check, "strided all-gather", i);
    }
    return true;
}

static bool scatter_middle(Check *check, uint32_t source)
{
    DtRank *rank = check->rank;
    const DtRankGroup *group = check->group;
    int64_t n = check->count, whole = n * group->size;
    DtPlaceAt from = ranks_place(rank, source, 64), to = ranks_place(rank, 1 - source, 0);
    Strided s;
    strided(
        &s, group->size,
        (DtRankBlocks){.n_dims = 2, .extent = {3, 5 * n}, .to = {5 * n, 1}, .from = {5 * whole, 1}},
        0, 5 * n);
    fill(check, seen(from), 15 * whole, rank->rank);
    if (!rank->comm_ops->reduce_scatter(rank->comm, group, to, from, &s.blocks, 15 * n,
                                        check->dtype, DT_PLAN_SUM))
        return wrong(check, "strided reduce-scatter", -1);
    for (int64_t i = 0; i < 15 * n; i++) {
        int64_t a = i / (5 * n), m = group->me * n + i / 5 % n, c = i % 5;
        if (get(check->dtype, seen(to), i) !=
            reduced(check->dtype, DT_PLAN_SUM, group, (a * whole + m) * 5 + c, check->salt,
                    group->me))
            return wrong(check, "strided reduce-scatter", i);
    }
    return true;
}

static bool move_split(Check *check, uint32_t source)
{
    DtRank *rank = check->rank;
    const DtRankGroup *group = check->group;
    int64_t n = check->count, size = group->size; /* from: [3, 2 size, n], to: [3, 2, n size] */
    DtPlaceAt from = ranks_place(rank, source, 64), to = ranks_place(rank, 1 - source, 0);
    Strided s;
    strided(&s, group->size,
            (DtRankBlocks){.n_dims = 3,
                           .extent = {3, 2, n},
                           .to = {2 * n * size, n * size, 1},
                           .from = {2 * size * n, n, 1}},
            n, 2 * n);
    fill(check, seen(from), 6 * n * size, rank->rank);
    if (!rank->comm_ops->all_to_all(rank->comm, group, to, from, &s.blocks, 6 * n, check->dtype))
        return wrong(check, "strided all-to-all", -1);
    for (int64_t i = 0; i < 6 * n * size; i++) {
        int64_t a = i / (2 * n * size), b = i / (n * size) % 2, c = i % (n * size);
        if (get(check->dtype, seen(to), i) !=
            value_of(check->dtype, group->ranks[c / n],
                     (a * 2 * size + group->me * 2 + b) * n + c % n, check->salt))
            return wrong(check, "strided all-to-all", i);
    }
    return true;
}

/* Whether the group has members on several hosts. Between these only all-reduces take what the
 * ranks of a host do not share. */
static bool is_of_hosts(const Check *check)
{
    return dt_cluster_here(check->rank, check->group).size < check->group->size;
}

static bool check_strided(Check *check)
{
    for (uint32_t source = 0; source < (is_of_hosts(check) ? 1u : 2u); source++)
        if (!gather_middle(check, source) || !scatter_middle(check, source) ||
            !move_split(check, source))
            return false;
    return true;
}

/* Every stage fills all slots of the channel to the next stage, then empties those of the previous
 * one: so sends only wait for slots. It also works with one stage, which sends to itself. */
static bool check_messages(Check *check)
{
    DtRank *rank = check->rank;
    const DtPlan *plan = rank->plan;
    uint32_t stages = dt_plan_stages(plan), last = (rank->stage + stages - 1) % stages;
    uint32_t peer = (rank->rank + rank->n_ranks - rank->n_ranks / stages) % rank->n_ranks;
    int64_t bytes = check->count * check->element;
    uint64_t before = rank->comm_ops->channel_received(rank->comm, last);
    DtPlaceAt from = ranks_place(rank, check->arena, 0),
              to = ranks_place(rank, RANKS_PRIVATE, RANKS_ARENA / 2);
    for (uint64_t turn = 0; turn < 2; turn++) {
        for (uint64_t m = 0; m < RANKS_SLOTS; m++) {
            for (int64_t i = 0; i < check->count; i++)
                put(check->dtype, seen(from), i,
                    value_of(check->dtype, rank->rank, i, check->salt + m));
            if (!rank->comm_ops->send(rank->comm, rank->stage, from, bytes, (int64_t)m))
                return wrong(check, "send", -1);
        }
        for (uint64_t m = 0; m < RANKS_SLOTS; m++) {
            if (!rank->comm_ops->recv(rank->comm, last, to, bytes, (int64_t)m))
                return wrong(check, "receive", -1);
            for (int64_t i = 0; i < check->count; i++)
                if (get(check->dtype, seen(to), i) !=
                    value_of(check->dtype, peer, i, check->salt + m))
                    return wrong(check, "receive", i);
        }
    }
    return rank->comm_ops->channel_received(rank->comm, last) - before ==
               (uint64_t)bytes * 2 * RANKS_SLOTS ||
           wrong(check, "count of bytes received", bytes);
}

/* Checks that no rank leaves a barrier before all have arrived: each rank has a plain counter that
 * shows this. */
static bool check_barrier(Check *check)
{
    DtRank *rank = check->rank;
    int64_t *mine = (int64_t *)(void *)look_at(rank, RANKS_SHARED, RANKS_ARENA - 64);
    for (int round = 0; round < 5; round++) {
        if (!rank->comm_ops->barrier(rank->comm, check->group))
            return wrong(check, "barrier", round);
        *mine = (int64_t)check->salt + round;
        if (!rank->comm_ops->barrier(rank->comm, check->group))
            return wrong(check, "barrier", round);
        for (uint32_t m = 0; m < check->group->size; m++) {
            if (!dt_cluster_is_here(rank, check->group->ranks[m]))
                continue;
            const char *arena = rank->peer_arenas[2 * check->group->ranks[m]];
            if (*(const int64_t *)(const void *)(arena + RANKS_ARENA - 64) !=
                (int64_t)check->salt + round)
                return wrong(check, "barrier", round);
        }
    }
    return true;
}

static unsigned char letter(uint32_t rank, uint32_t arena, int64_t i, int round)
{
    return (unsigned char)(i * 31 + i / 251 + 7 * (int64_t)rank + 3 * arena + round);
}

/* Checks that rank 0 can read all arenas of all ranks while the others serve it. */
static bool check_fetch(Check *check)
{
    enum { FROM = 24, BYTES = 600001 };
    static unsigned char got[BYTES]; /* the arena of rank 0 */
    DtRank *rank = check->rank;
    const DtCommOps *ops = rank->comm_ops;
    for (int round = 0; round < 2; round++) {
        for (uint32_t a = 0; a < 2; a++)
            for (int64_t i = 0; i < BYTES; i++)
                *look_at(rank, a, FROM + i) = (char)letter(rank->rank, a, i, round);
        if (!ops->barrier(rank->comm, &rank->world))
            return wrong(check, "barrier", round);
        if (rank->rank != 0) {
            if (!ops->serve(rank->comm, 0))
                return wrong(check, "serve", round);
            continue;
        }
        for (uint32_t m = 0; m < rank->n_ranks; m++)
            for (uint32_t a = 0; a < 2; a++) {
                if (!ops->get(rank->comm, m, a, FROM, BYTES, got))
                    return wrong(check, "get", m);
                for (int64_t i = 0; i < BYTES; i++)
                    if (got[i] != letter(m, a, i, round))
                        return wrong(check, "get", i);
            }
        ops->release(rank->comm);
    }
    check->done++;
    return true;
}

static bool check_one(Check *check)
{
    /* Does everything twice: the same values must give the same bits. */
    bool good = check_all_reduce(check, DT_PLAN_SUM, true) &&
                check_all_reduce(check, DT_PLAN_SUM, false) &&
                check_all_reduce(check, DT_PLAN_MAX, true) &&
                check_all_reduce(check, DT_PLAN_MIN, true);
    if (check->arena != RANKS_SHARED && is_of_hosts(check)) {
        check->done += 4;
        return good;
    }
    const uint64_t rounds = (uint64_t)dt_pairs_rounds(check->group->size);
    good = good && check_all_gather(check, false) &&
                check_all_gather(check, true) && check_reduce_scatter(check, false) &&
                check_reduce_scatter(check, true) &&
                check_all_to_all(check) && check_shift(check, DT_SHIFT_BEFORE) &&
                check_shift(check, DT_SHIFT_AFTER) &&
                check_shift(check, DT_SHIFT_PAIRS + (uint32_t)(check->salt % rounds)) &&
                (check->count * check->element > RANKS_SLOT || check_messages(check));
    check->done += 13;
    if (check->arena == RANKS_SHARED && check->count > 0 && check->count < 200) {
        good = good && check_strided(check);
        check->done += 3;
    }
    return good;
}

int ranks_check(DtRank *rank, bool long_sizes, char *ret_failure)
{
    enum { LONG = 5000 };
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 16, 17, 64, 129, 1023, 4097, 20011, 70001};
    static const DtPlanDtype dtypes[] = {DT_PLAN_F32, DT_PLAN_I32, DT_PLAN_U8};
    size_t n_sizes = DT_COUNT(sizes) - (long_sizes ? 0 : 2);
    Check check = {.rank = rank, .failure = ret_failure};
    for (uint32_t g = 0; g <= rank->plan->n_groups; g++) {
        check.group = g < rank->plan->n_groups ? &rank->groups[g] : &rank->world;
        check.salt += 100;
        if (!check_barrier(&check))
            return -1;
        if (check.group == &rank->world && !check_fetch(&check))
            return -1;
        if (check.group == &rank->world)
            break;
        for (check.arena = 0; check.arena < 2; check.arena++)
            for (size_t d = 0; d < DT_COUNT(dtypes); d++)
                for (size_t s = 0; s < n_sizes; s++) {
                    /* each long size with one dtype in each arena */
                    if (sizes[s] > LONG && (s + d) % DT_COUNT(dtypes) != check.arena)
                        continue;
                    check.dtype = dtypes[d];
                    check.element = dt_kinds_size(check.dtype);
                    check.count = sizes[s];
                    check.salt += 5;
                    if (!check_one(&check))
                        return -1;
                }
    }
    return check.done;
}

int ranks_check_sums(DtRank *rank, char *ret_failure)
{
    static const int64_t sizes[] = {1, 1000, 10007};
    Check check = {.rank = rank, .group = &rank->world, .dtype = DT_PLAN_F32, .element = 4,
                   .failure = ret_failure};
    for (check.arena = 0; check.arena < 2; check.arena++)
        for (size_t s = 0; s < DT_COUNT(sizes); s++) {
            check.count = sizes[s];
            check.salt += 5;
            const bool scatters = rank->local.size == rank->n_ranks || check.arena == RANKS_SHARED;
            if (!check_all_reduce(&check, DT_PLAN_SUM, true) ||
                !check_all_reduce(&check, DT_PLAN_SUM, false) ||
                (scatters && !check_reduce_scatter(&check, false)))
                return -1;
            check.done += 3;
        }
    return check.done;
}
