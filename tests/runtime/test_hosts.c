/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over ranks of several hosts: every way that such a sum may take (hosts.h) gives the bits of
 * the plain one, terms added in member order; and hosts take the way that sends fewer bytes. */
#include "ranks.h"

#include "runtime/device.h"
#include "runtime/hosts.h"
#include "runtime/reduce.h"
#include "runtime/ucx.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { GOOD, NO_COMM = 10, NO_SUM, WRONG_BITS };

static const DtCommOps *comm_ops = &dt_comm_tcp;

static const struct {
    DtPlanDtype dtype;
    DtPlanReduce reduce;
    int64_t count; /* below, at and above the size of a piece, and of all pieces on their way */
} cases[] = {
    {DT_PLAN_F32, DT_PLAN_SUM, 0},        {DT_PLAN_F32, DT_PLAN_SUM, 1},
    {DT_PLAN_F32, DT_PLAN_SUM, 1000},     {DT_PLAN_F32, DT_PLAN_SUM, 65536},
    {DT_PLAN_F32, DT_PLAN_SUM, 65537},    {DT_PLAN_F32, DT_PLAN_SUM, 300001},
    {DT_PLAN_BF16, DT_PLAN_SUM, 70003},   {DT_PLAN_F16, DT_PLAN_MAX, 7001},
    {DT_PLAN_I64, DT_PLAN_SUM, 40007},    {DT_PLAN_U8, DT_PLAN_MIN, 100001},
};

/* A number of the dtype: of floats one between -2 and 2, so that sums depend on their order. */
static void draw(DtPlanDtype dtype, char *at, int64_t n, uint64_t seed)
{
    uint16_t halves[1];
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const float f = (float)((double)(seed >> 11) * 0x1p-51 - 2);
        const size_t e = (size_t)dt_kinds_size(dtype);
        if (dtype == DT_PLAN_F32) {
            memcpy(at + (size_t)i * e, &f, e);
        } else if (dtype == DT_PLAN_BF16 || dtype == DT_PLAN_F16) {
            dt_reduce_narrow(dtype, halves, &f, 1);
            memcpy(at + (size_t)i * e, halves, e);
        } else {
            memcpy(at + (size_t)i * e, &seed, e);
        }
    }
}

/* What member `member` adds: of a reduce-scatter, a block for each member. */
static char *term_of(size_t c, uint32_t member, int64_t n)
{
    char *term = malloc((size_t)(n * dt_kinds_size(cases[c].dtype)) + 1);
    cr_assert_not_null(term);
    draw(cases[c].dtype, term, n, 977 * c + member);
    return term;
}

/* The sum that the rank should get. */
static char *plain_sum(const DtRank *rank, size_t c, bool scatters)
{
    const uint32_t size = rank->n_ranks;
    const int64_t n = cases[c].count, e = dt_kinds_size(cases[c].dtype);
    const void *terms[RANKS_MOST];
    char *whole[RANKS_MOST], *sum = malloc((size_t)(n * e) + 1);
    cr_assert_not_null(sum);
    for (uint32_t m = 0; m < size; m++) {
        whole[m] = term_of(c, m, scatters ? n * size : n);
        terms[m] = whole[m] + (scatters ? rank->rank * n * e : 0);
    }
    dt_reduce_buffers(cases[c].dtype, cases[c].reduce, sum, terms, size, n);
    for (uint32_t m = 0; m < size; m++)
        free(whole[m]);
    return sum;
}

/* One sum by one way, of the terms at `mine`. in_place: it is stored where the terms are. */
static int sum_once(DtRank *rank, size_t c, DtHostsWay way, bool scatters, bool in_place,
                    const char *mine, const char *want)
{
    static uint64_t sequence;
    DtHosts *hosts = (DtHosts *)(void *)rank->comm; /* its first member */
    DtHostsGroup *g = &hosts->groups[rank->plan->n_groups - 1];
    const int64_t n = cases[c].count, e = dt_kinds_size(cases[c].dtype),
                  sent = scatters ? n * rank->n_ranks : n;
    const DtPlaceAt from = ranks_place(rank, RANKS_SHARED, 0),
                    to = in_place ? from : ranks_place(rank, RANKS_SHARED, RANKS_ARENA / 2);
    DtHostsCall call = {.shm = {scatters ? DT_SHM_REDUCE_SCATTER : DT_SHM_ALL_REDUCE,
                                cases[c].dtype, cases[c].reduce, n, to, from},
                        .e = e};
    call.mark = dt_comm_mark(rank, g->number, ++sequence, n * e);
    memcpy(dt_device_seen(rank, from), mine, (size_t)(sent * e));
    const bool good = dt_comm_shm_meet(g->shm, &g->here, &call.shm, &call.mark) &&
                      dt_hosts_sum_by(hosts, g, &call, way) &&
                      dt_comm_shm_part(g->shm, &g->here);
    const bool is_equal = good && memcmp(dt_device_seen(rank, to), want, (size_t)(n * e)) == 0;
    if (!is_equal)
        fprintf(stderr, "rank %u, case %zu, way %d%s: %s\n", rank->rank, c, way,
                in_place ? " in place" : "", good ? "other bits" : rank->failure.message);
    return is_equal ? GOOD : good ? WRONG_BITS : NO_SUM;
}

/* One sum by all of its ways. */
static int sum_by_all(DtRank *rank, size_t c, bool scatters)
{
    static const DtHostsWay ways[2][3] = {{DT_HOSTS_CHAIN, DT_HOSTS_EACH, DT_HOSTS_SPLIT},
                                          {DT_HOSTS_CHAIN, DT_HOSTS_SCATTER}};
    const int64_t sent = scatters ? cases[c].count * rank->n_ranks : cases[c].count;
    int code = GOOD;
    if (sent * dt_kinds_size(cases[c].dtype) > RANKS_ARENA / 2)
        return GOOD;
    char *mine = term_of(c, rank->rank, sent), *want = plain_sum(rank, c, scatters);
    for (int w = 0; w < 3 - scatters; w++)
        for (int in_place = 0; in_place < 2 - scatters && code == GOOD; in_place++)
            code = sum_once(rank, c, ways[scatters][w], scatters, in_place, mine, want);
    free(mine);
    free(want);
    return code;
}

static int sum_all(Ranks *all, DtRank *rank)
{
    int code = ranks_join(rank) ? GOOD : NO_COMM;
    (void)all;
    for (size_t c = 0; c < DT_COUNT(cases) && code == GOOD; c++) {
        code = sum_by_all(rank, c, false);
        if (code == GOOD)
            code = sum_by_all(rank, c, true);
    }
    if (code == GOOD)
        rank->comm_ops->close(rank->comm);
    return code;
}

static void check_ways(uint32_t n, uint32_t hosts)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new_hosts(n, hosts, comm_ops);
    cr_assert_not_null(all);
    all->plan.n_channels = 0; /* so that no thread looks after the wire */
    ranks_run(all, sum_all, 100, codes);
    for (uint32_t r = 0; r < n; r++)
        cr_expect_eq(codes[r], GOOD, "rank %u of %u on %u hosts ended with %d", r, n, hosts,
                     codes[r]);
    ranks_free(all);
}

Test(hosts, every_way_of_a_sum_has_the_same_bits, .timeout = 120)
{
    check_ways(2, 2);
    check_ways(3, 3);
    check_ways(6, 3);
}

Test(hosts, every_way_has_them_by_ucx, .timeout = 120)
{
    DtUcx ucx;
    const DtStatus status = dt_ucx_open(&ucx);
    if (!dt_status_ok(&status))
        cr_skip_test("%s", status.message);
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("UCX has an allocator's hooks of its own");
#endif
    comm_ops = &dt_comm_ucx;
    check_ways(2, 2);
    check_ways(6, 3);
}

static DtHostsWay way_of(uint32_t hosts, uint32_t per_host, DtShmKind kind, DtPlanDtype dtype,
                         int64_t count)
{
    uint32_t first[9];
    const DtRankGroup known = {.size = hosts * per_host};
    const DtHostsCall call = {.shm = {.kind = kind, .dtype = dtype, .count = count},
                              .e = dt_kinds_size(dtype)};
    for (uint32_t h = 0; h <= hosts; h++)
        first[h] = h * per_host;
    return dt_hosts_way(&(DtHostsGroup){.known = &known, .n_hosts = hosts, .first = first}, &call);
}

Test(hosts, the_way_is_that_of_the_fewest_bytes)
{
    const DtShmKind reduce = DT_SHM_ALL_REDUCE, scatter = DT_SHM_REDUCE_SCATTER;
    cr_expect_eq(way_of(2, 1, reduce, DT_PLAN_F32, 1000), DT_HOSTS_EACH);
    cr_expect_eq(way_of(4, 1, reduce, DT_PLAN_F32, 1000), DT_HOSTS_EACH);
    cr_expect_eq(way_of(4, 1, reduce, DT_PLAN_F32, 1000000), DT_HOSTS_SPLIT);
    cr_expect_eq(way_of(8, 1, reduce, DT_PLAN_BF16, 1000000), DT_HOSTS_SPLIT);
    cr_expect_eq(way_of(2, 8, reduce, DT_PLAN_F32, 1000), DT_HOSTS_EACH);
    cr_expect_eq(way_of(2, 8, reduce, DT_PLAN_F32, 1000000), DT_HOSTS_CHAIN, "each host adds");
    cr_expect_eq(way_of(8, 1, scatter, DT_PLAN_F32, 1000000), DT_HOSTS_SCATTER);
    cr_expect_eq(way_of(2, 4, scatter, DT_PLAN_F32, 1000000), DT_HOSTS_CHAIN);
    cr_expect_eq(way_of(8, 9, reduce, DT_PLAN_F32, 1000), DT_HOSTS_CHAIN, "as on a ring");
}
