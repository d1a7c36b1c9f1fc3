/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator with processes as ranks: values and bytes of every operation for 1 to 8 ranks;
 * and every kind of wait when the rank waited for aborts, ends, disagrees or never comes. */
#include "ranks.h"

#include "base/half.h"
#include "runtime/device.h"
#include "runtime/reduce.h"
#include "runtime/ucx.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- values ---- */

static int check_values(Ranks *all, DtRank *rank)
{
    char failure[300];
    if (ranks_check(rank, all->hosts != 4, failure) > 0) /* long ones with one and two hosts */
        return 0;
    fprintf(stderr, "%s\n", failure);
    return 1;
}

static void check_collectives(uint32_t n)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new(n);
    cr_assert_not_null(all);
    ranks_run(all, check_values, 100, codes);
    for (uint32_t r = 0; r < n; r++)
        cr_expect_eq(codes[r], 0, "rank %u of %u ended with %d", r, n, codes[r]);
    ranks_free(all);
}

Test(comm, collectives_of_1_process, .timeout = 120) { check_collectives(1); }
Test(comm, collectives_of_2_processes, .timeout = 120) { check_collectives(2); }
Test(comm, collectives_of_3_processes, .timeout = 120) { check_collectives(3); }
Test(comm, collectives_of_4_processes, .timeout = 120) { check_collectives(4); }
Test(comm, collectives_of_8_processes, .timeout = 120) { check_collectives(8); }

static int check_hosts(Ranks *all, DtRank *rank)
{
    if (!ranks_join(rank)) {
        fprintf(stderr, "rank %u: %s\n", rank->rank, rank->failure.message);
        return 1;
    }
    const int code = check_values(all, rank);
    rank->comm_ops->close(rank->comm);
    return code;
}

/* Ranks of several hosts, over a wire: the same checks as on one host, which know the order of
 * sums. */
static void check_collectives_of_hosts(uint32_t n, uint32_t hosts, const DtCommOps *ops)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new_hosts(n, hosts, ops);
    cr_assert_not_null(all);
    ranks_run(all, check_hosts, 100, codes);
    for (uint32_t r = 0; r < n; r++)
        cr_expect_eq(codes[r], 0, "rank %u of %u on %u hosts ended with %d", r, n, hosts, codes[r]);
    ranks_free(all);
}

Test(comm, collectives_of_2_hosts_by_sockets, .timeout = 120)
{
    check_collectives_of_hosts(8, 2, &dt_comm_tcp);
}
Test(comm, collectives_of_4_hosts_by_sockets, .timeout = 120)
{
    check_collectives_of_hosts(8, 4, &dt_comm_tcp);
}

/* Hosts whose numbers of ranks differ by one. */
Test(comm, collectives_of_uneven_hosts_by_sockets, .timeout = 120)
{
    check_collectives_of_hosts(8, 3, &dt_comm_tcp);
    check_collectives_of_hosts(3, 2, &dt_comm_tcp);
}

Test(comm, collectives_of_hosts_by_ucx, .timeout = 120)
{
    DtUcx ucx;
    const DtStatus status = dt_ucx_open(&ucx);
    if (!dt_status_ok(&status))
        cr_skip_test("%s", status.message);
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("UCX has an allocator's hooks of its own");
#endif
    check_collectives_of_hosts(8, 4, &dt_comm_ucx);
}

static int check_sums(Ranks *all, DtRank *rank)
{
    char failure[300];
    (void)all;
    if (ranks_check_sums(rank, failure) > 0)
        return 0;
    fprintf(stderr, "%s\n", failure);
    return 1;
}

static int check_sums_of_hosts(Ranks *all, DtRank *rank)
{
    return ranks_join(rank) ? check_sums(all, rank) : 1;
}

/* 64 members are the most whose terms are added in member order. */
Test(comm, sums_of_many_members_follow_a_ring, .timeout = 120)
{
    static const uint32_t numbers[] = {64, 65};
    int codes[RANKS_MOST];
    for (size_t i = 0; i < DT_COUNT(numbers); i++) {
        Ranks *all = ranks_new(numbers[i]);
        cr_assert_not_null(all);
        ranks_run(all, check_sums, 100, codes);
        for (uint32_t r = 0; r < numbers[i]; r++)
            cr_expect_eq(codes[r], 0, "rank %u of %u ended with %d", r, numbers[i], codes[r]);
        ranks_free(all);
    }
    Ranks *all = ranks_new_hosts(66, 3, &dt_comm_tcp);
    cr_assert_not_null(all);
    ranks_run(all, check_sums_of_hosts, 100, codes);
    for (uint32_t r = 0; r < 66; r++)
        cr_expect_eq(codes[r], 0, "rank %u of 66 on 3 hosts ended with %d", r, codes[r]);
    ranks_free(all);
}

/* Sets `to` to the value of x, reduced with y. */
static void reduce_two(DtPlanDtype dtype, DtPlanReduce reduce, void *to, const void *x,
                       const void *y, int64_t count)
{
    const void *from[2] = {x, y};
    dt_reduce_buffers(dtype, reduce, to, from, 2, count);
}

Test(comm, reductions_of_other_dtypes)
{
    static const float x[4] = {1, NAN, 3, NAN}, y[4] = {2, 1, NAN, NAN};
    static const int64_t a[2] = {INT64_MAX, -3}, b[2] = {1, 5};
    static const uint8_t p[4] = {0, 0, 1, 1}, q[4] = {0, 1, 0, 1}, either[4] = {0, 1, 1, 1},
                         both[4] = {0, 0, 0, 1};
    float f[4];
    int64_t i[2];
    uint8_t u[4];
    reduce_two(DT_PLAN_F32, DT_PLAN_MAX, f, x, y, 4);
    cr_expect(f[0] == 2 && isnan(f[1]) && isnan(f[2]) && isnan(f[3]), "a NaN wins");
    reduce_two(DT_PLAN_I64, DT_PLAN_SUM, i, a, b, 2);
    cr_expect(i[0] == INT64_MIN && i[1] == 2, "integer sums wrap");
    reduce_two(DT_PLAN_BOOL, DT_PLAN_SUM, u, p, q, 4);
    cr_expect_arr_eq(u, either, 4);
    reduce_two(DT_PLAN_BOOL, DT_PLAN_MIN, u, p, q, 4);
    cr_expect_arr_eq(u, both, 4);
}

/* Sums that two ranks compute one after the other have the bits of a sum at once. */
Test(comm, sums_in_parts_have_the_same_bits)
{
    enum { N = 1031, MEMBERS = 5 };
    static const DtPlanReduce reduces[] = {DT_PLAN_SUM, DT_PLAN_MAX, DT_PLAN_MIN};
    static _Alignas(8) unsigned char x[MEMBERS][N * 8], once[N * 8], wide[N * 8], parts[N * 8];
    const void *from[MEMBERS];
    uint64_t seed = 1;
    for (uint32_t m = 0; m < MEMBERS; m++)
        from[m] = x[m];
    for (uint32_t dtype = 0; dtype < DT_PLAN_DTYPES; dtype++) {
        const size_t bytes = N * (size_t)dt_kinds_size(dtype);
        if (!dt_reduce_knows(dtype))
            continue;
        for (size_t i = 0; i < bytes; i++)
            for (uint32_t m = 0; m < MEMBERS; m++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                x[m][i] = dtype == DT_PLAN_BOOL ? seed >> 63 : (unsigned char)(seed >> 56);
            }
        for (size_t r = 0; r < DT_COUNT(reduces); r++)
            for (uint32_t cut = 1; cut < MEMBERS; cut++) {
                dt_reduce_buffers(dtype, reduces[r], once, from, MEMBERS, N);
                dt_reduce_go_on(dtype, reduces[r], wide, true, from, cut, N);
                dt_reduce_go_on(dtype, reduces[r], wide, false, from + cut, MEMBERS - cut, N);
                dt_reduce_round(dtype, parts, wide, N);
                cr_expect(memcmp(once, parts, bytes) == 0, "dtype %u, cut %u", dtype, cut);
            }
    }
}

/* 256 + 1 + 1: bf16 has 8 bits of mantissa, so rounding after each addition would lose both
 * ones. */
Test(comm, sums_of_16_bit_floats_are_rounded_once)
{
    for (int f16 = 0; f16 < 2; f16++) {
        float big = f16 ? 2048 : 256;
        uint16_t x[3], to[1];
        for (int m = 0; m < 3; m++)
            x[m] = f16 ? dt_half_to_f16(m ? 1 : big) : dt_half_to_bf16(m ? 1 : big);
        const void *from[3] = {&x[0], &x[1], &x[2]};
        dt_reduce_buffers(f16 ? DT_PLAN_F16 : DT_PLAN_BF16, DT_PLAN_SUM, to, from, 3, 1);
        cr_expect_eq(f16 ? dt_half_from_f16(to[0]) : dt_half_from_bf16(to[0]), big + 2);
    }
}

/* Sums over all members, over whole blocks and the elements after them: powers of two, so that sums
 * are exact in any order. */
Test(comm, reductions_of_16_bit_floats_take_every_element)
{
    enum { MOST = 1031, MEMBERS = 8 };
    static const DtPlanReduce reduces[] = {DT_PLAN_SUM, DT_PLAN_MAX, DT_PLAN_MIN};
    static const int64_t counts[] = {1, 3, 511, 512, 513, 1024, MOST};
    static uint16_t x[MEMBERS][MOST], to[MOST + 1];
    const void *from[MEMBERS];
    for (uint32_t m = 0; m < MEMBERS; m++)
        from[m] = x[m];
    for (int f16 = 0; f16 < 2; f16++)
        for (uint32_t n = 2; n <= MEMBERS; n++)
            for (size_t c = 0; c < DT_COUNT(counts); c++)
                for (size_t r = 0; r < DT_COUNT(reduces); r++) {
                    for (uint32_t m = 0; m < n; m++)
                        for (int64_t i = 0; i < counts[c]; i++) {
                            float value =
                                (float)(1u << (m + (uint32_t)i) % MEMBERS) * (i % 3 ? 1.0f : -1.0f);
                            x[m][i] = f16 ? dt_half_to_f16(value) : dt_half_to_bf16(value);
                        }
                    memset(to, 0x55, sizeof to);
                    dt_reduce_buffers(f16 ? DT_PLAN_F16 : DT_PLAN_BF16, reduces[r], to, from, n,
                                      counts[c]);
                    cr_assert_eq(to[counts[c]], 0x5555, "written behind the end");
                    for (int64_t i = 0; i < counts[c]; i++) {
                        float want = f16 ? dt_half_from_f16(x[0][i]) : dt_half_from_bf16(x[0][i]);
                        for (uint32_t m = 1; m < n; m++) {
                            float next =
                                f16 ? dt_half_from_f16(x[m][i]) : dt_half_from_bf16(x[m][i]);
                            want = r == 0 ? want + next : (r == 1) == (next > want) ? next : want;
                        }
                        cr_assert_eq(f16 ? dt_half_from_f16(to[i]) : dt_half_from_bf16(to[i]), want,
                                     "element %lld of %lld, %u members", (long long)i,
                                     (long long)counts[c], n);
                    }
                }
}

/* Every 16-bit number to float and back; values between two 16-bit numbers are rounded to the
 * nearest. */
Test(comm, halves_are_exact)
{
    for (uint32_t i = 0; i < 1 << 16; i++) {
        uint16_t x = (uint16_t)i;
        float f = dt_half_from_f16(x), b = dt_half_from_bf16(x);
        cr_assert(isnan(f) ? isnan(dt_half_from_f16(dt_half_to_f16(f))) : dt_half_to_f16(f) == x,
                  "f16 %x", i);
        cr_assert(isnan(b) ? isnan(dt_half_from_bf16(dt_half_to_bf16(b))) : dt_half_to_bf16(b) == x,
                  "bf16 %x", i);
        if ((x & 0x7fff) >= 0x7bff || (x & 0x8000))
            continue;
        float next = dt_half_from_f16((uint16_t)(x + 1)), middle = (f + next) / 2;
        cr_assert_eq(dt_half_to_f16(middle), x % 2 ? x + 1 : x, "ties to even after %x", i);
        cr_assert_eq(dt_half_to_f16(nextafterf(middle, 0)), x);
        cr_assert_eq(dt_half_to_f16(nextafterf(middle, INFINITY)), x + 1);
    }
    cr_expect_eq(dt_half_to_f16(65519.99f), 0x7bff);
    cr_expect_eq(dt_half_to_f16(65520), 0x7c00);
    cr_expect_eq(dt_half_from_f16(0x3555), 0.333251953125f);
    cr_expect_eq(dt_half_from_f16(1), 0x1p-24f);
}

/* ---- waits ---- */

enum {
    BY_ALL_REDUCE,
    BY_ALL_GATHER,
    BY_REDUCE_SCATTER,
    BY_ALL_TO_ALL,
    BY_SHIFT,
    BY_SEND,
    BY_RECV,
    BY_SERVE,
    BY_BARRIER,
    N_OPERATIONS
};
static const char *const names[N_OPERATIONS] = {"all-reduce", "all-gather", "reduce-scatter",
                                                "all-to-all", "shift", "send", "receive", "serve",
                                                "barrier"};
static int operation; /* the operation that is tested */

/* Runs the operation; rank 0 is the other side. */
static bool operate(DtRank *rank)
{
    const DtCommOps *ops = rank->comm_ops;
    const DtRankGroup *group = &rank->groups[rank->plan->n_groups - 1];
    uint32_t stages = dt_plan_stages(rank->plan);
    DtPlaceAt a = ranks_place(rank, RANKS_SHARED, 0), b = ranks_place(rank, RANKS_SHARED, 1 << 16);
    switch (operation) {
    case BY_ALL_REDUCE:
        return ops->all_reduce(rank->comm, group, a, a, 100, DT_PLAN_F32, DT_PLAN_SUM);
    case BY_ALL_GATHER: return ops->all_gather(rank->comm, group, b, a, NULL, 100, DT_PLAN_F32);
    case BY_REDUCE_SCATTER:
        return ops->reduce_scatter(rank->comm, group, b, a, NULL, 100, DT_PLAN_F32, DT_PLAN_SUM);
    case BY_ALL_TO_ALL: return ops->all_to_all(rank->comm, group, b, a, NULL, 100, DT_PLAN_F32);
    case BY_SHIFT: return ops->shift(rank->comm, group, b, a, 100, DT_PLAN_F32, false);
    case BY_SEND: /* one message more than the channel has slots */
        for (uint32_t m = 0; m <= RANKS_SLOTS; m++)
            if (!ops->send(rank->comm, stages + rank->stage, a, 400, m))
                return false;
        return true;
    case BY_RECV: return ops->recv(rank->comm, 2 * stages + rank->stage, a, 400, 0);
    case BY_SERVE: return ops->serve(rank->comm, 0);
    default: return ops->barrier(rank->comm, group);
    }
}

/* Exit codes of the tests below; 0: everything was as expected. */
enum { WRONG_RESULT = 10, NO_FAILURE, WRONG_FAILURE, TOO_LATE, SLOT_SILENT };

static bool wait_until_waiting(Ranks *all)
{
    for (int i = 0; i < 5000; i++) {
        uint32_t waiting = 0;
        for (uint32_t r = 1; r < all->meta.n_ranks; r++) {
            DtSlot *slot = dt_shared_slot(&all->plan, all->shared, r);
            waiting += dt_shared_waits(slot) && atomic_load(&slot->waits_for) == 0;
        }
        if (waiting == all->meta.n_ranks - 1)
            return true;
        usleep(1000);
    }
    return false;
}

static int abort_or_wait(Ranks *all, DtRank *rank)
{
    if (rank->rank == 0) {
        if (!wait_until_waiting(all))
            return SLOT_SILENT;
        dt_shared_abort(all->shared, DT_BY_SUPERVISOR);
        return 0;
    }
    if (operate(rank))
        return WRONG_RESULT;
    return dt_status_ok(&rank->failure) ? 0 : WRONG_FAILURE; /* the failure is another rank's */
}

Test(comm, abort_ends_every_wait, .timeout = 60)
{
    int codes[RANKS_MOST];
    for (operation = 0; operation < N_OPERATIONS; operation++) {
        Ranks *all = ranks_new(3);
        uint64_t began = dt_now_ns();
        ranks_run(all, abort_or_wait, 20, codes);
        for (int r = 0; r < 3; r++)
            cr_expect_eq(codes[r], 0, "%s: rank %d ended with %d", names[operation], r, codes[r]);
        cr_expect_lt((double)(dt_now_ns() - began), 5e9, "%s", names[operation]);
        ranks_free(all);
    }
}

static int end_or_wait(Ranks *all, DtRank *rank)
{
    if (rank->rank == 0) {
        if (!wait_until_waiting(all))
            return SLOT_SILENT;
        atomic_store(&rank->slot->phase, DT_PHASE_DONE);
        return 0;
    }
    if (operate(rank))
        return WRONG_RESULT;
    if (!dt_status_ok(&rank->failure)) /* one of them reports it; the others learn it from the abort
                                        * word */
        return strstr(rank->failure.message, "rank 0 has ended") ? 0 : WRONG_FAILURE;
    return dt_rank_aborted(rank) ? 0 : NO_FAILURE;
}

Test(comm, a_rank_that_has_ended_is_not_waited_for, .timeout = 60)
{
    int codes[RANKS_MOST];
    for (operation = 0; operation < N_OPERATIONS; operation++) {
        Ranks *all = ranks_new(3);
        ranks_run(all, end_or_wait, 20, codes);
        for (int r = 0; r < 3; r++)
            cr_expect_eq(codes[r], 0, "%s: rank %d ended with %d", names[operation], r, codes[r]);
        cr_expect_gt(dt_shared_aborter(all->shared), 0, "%s: a waiting rank failed first",
                     names[operation]);
        ranks_free(all);
    }
}

/* Rank 0 is killed inside of the collective: the others only see that it never arrives again. */
static int die_or_wait(Ranks *all, DtRank *rank)
{
    const DtRankGroup *group = &rank->world;
    DtPlaceAt buffer = ranks_place(rank, RANKS_SHARED, 0);
    for (int i = 0;; i++) {
        if (rank->rank == 0 && i == 500)
            raise(SIGKILL);
        if (rank->rank == 1 && i == 500) {
            usleep(200000);
            dt_shared_abort(all->shared, DT_BY_SUPERVISOR);
        }
        if (!rank->comm_ops->all_reduce(rank->comm, group, buffer, buffer, 1000, DT_PLAN_F32,
                                        DT_PLAN_SUM))
            return i == 500 && dt_status_ok(&rank->failure) ? 0 : WRONG_RESULT;
    }
}

Test(comm, a_killed_rank_leaves_the_others_able_to_end, .timeout = 60)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new(4);
    ranks_run(all, die_or_wait, 30, codes);
    cr_expect_eq(codes[0], 1000 + SIGKILL);
    for (int r = 1; r < 4; r++)
        cr_expect_eq(codes[r], 0, "rank %d ended with %d", r, codes[r]);
    ranks_free(all);
}

static int come_late(Ranks *all, DtRank *rank)
{
    (void)all;
    if (rank->rank == 0) {
        sleep(4);
        return 0;
    }
    uint64_t began = dt_now_ns();
    if (operate(rank))
        return WRONG_RESULT;
    if (dt_now_ns() - began > 3000000000u)
        return TOO_LATE;
    return strstr(rank->failure.message, "rank 0 longer than --timeout") ? 0 : WRONG_FAILURE;
}

Test(comm, a_deadline_ends_a_wait, .timeout = 60)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new(2);
    all->options.timeout = 0.1; /* the limit, and two seconds in which the supervisor may act */
    operation = BY_ALL_REDUCE;
    ranks_run(all, come_late, 20, codes);
    cr_expect_eq(codes[1], 0, "ended with %d", codes[1]);
    ranks_free(all);
}

static int disagree(Ranks *all, DtRank *rank)
{
    (void)all;
    int64_t count = rank->rank == 2 ? 99 : 100;
    DtPlaceAt buffer = ranks_place(rank, RANKS_SHARED, 0);
    if (rank->comm_ops->all_reduce(rank->comm, &rank->world, buffer, buffer, count, DT_PLAN_F32,
                                   DT_PLAN_SUM))
        return WRONG_RESULT;
    return dt_rank_aborted(rank) ? 0 : NO_FAILURE;
}

Test(comm, members_that_disagree_fail, .timeout = 60)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new(3);
    ranks_run(all, disagree, 20, codes);
    for (int r = 0; r < 3; r++)
        cr_expect_eq(codes[r], 0, "rank %d ended with %d", r, codes[r]);
    int64_t first = dt_shared_aborter(all->shared);
    cr_assert(first >= 0);
    const DtSlot *slot = dt_shared_slot(&all->plan, all->shared, (uint32_t)first);
    cr_expect(strstr(slot->message, "different collectives"), "%s", slot->message);
    ranks_free(all);
}

/* Two all-reduces of equal size, which rank 1 does in the other order. */
static int swap(Ranks *all, DtRank *rank)
{
    (void)all;
    DtPlaceAt buffer = ranks_place(rank, RANKS_SHARED, 0);
    for (uint32_t i = 0; i < 2; i++) {
        atomic_store(&rank->slot->inst, rank->rank == 1 ? 8 - i : 7 + i);
        if (!rank->comm_ops->all_reduce(rank->comm, &rank->world, buffer, buffer, 100, DT_PLAN_F32,
                                        DT_PLAN_SUM))
            return dt_rank_aborted(rank) ? 0 : NO_FAILURE;
    }
    return WRONG_RESULT;
}

Test(comm, swapped_collectives_of_equal_size_fail, .timeout = 60)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new(3);
    for (uint32_t r = 0; r < 3; r++)
        all->ranks[r].stage = 0; /* ranks of one stage run the same instructions */
    ranks_run(all, swap, 20, codes);
    for (int r = 0; r < 3; r++)
        cr_expect_eq(codes[r], 0, "rank %d ended with %d", r, codes[r]);
    const int64_t first = dt_shared_aborter(all->shared);
    cr_assert(first >= 0);
    const char *message = dt_shared_slot(&all->plan, all->shared, (uint32_t)first)->message;
    cr_expect(strstr(message, "instruction 7") && strstr(message, "instruction 8"), "%s", message);
    ranks_free(all);
}

/* ---- several hosts ---- */

enum { LATE_MS = 400, SOON_MS = 200 };

static uint64_t ms_since(uint64_t began_ns) { return (dt_now_ns() - began_ns) / 1000000; }

/* Starts two all-reduces, which host 1 reaches late, and waits for them. */
static int start_early(Ranks *all, DtRank *rank)
{
    const DtPlanInst inst = {.kind = DT_INST_ALL_REDUCE, .event = 1};
    const DtCommOps *ops = rank->comm_ops;
    const DtRankGroup *group = &rank->groups[rank->plan->n_groups - 1];
    const DtPlaceAt places[2] = {ranks_place(rank, RANKS_SHARED, 0),
                                 ranks_place(rank, RANKS_SHARED, 4096)};
    (void)all;
    if (!ranks_join(rank) || !ops->barrier(rank->comm, &rank->world))
        return WRONG_RESULT;
    for (int i = 0; i < 2; i++)
        *(float *)(void *)dt_device_seen(rank, places[i]) = (float)(rank->rank + 1 + 10 * i);
    if (rank->rank > 1)
        usleep(LATE_MS * 1000);
    const uint64_t began = dt_now_ns();
    for (int i = 0; i < 2; i++)
        if (!ops->enter(rank->comm, &inst) ||
            !ops->all_reduce(rank->comm, group, places[i], places[i], 1, DT_PLAN_F32,
                             DT_PLAN_SUM) ||
            !ops->leave(rank->comm, &inst, i))
            return WRONG_RESULT;
    if (ms_since(began) > SOON_MS)
        return TOO_LATE;
    for (int i = 0; i < 2; i++)
        if (!ops->await(rank->comm, i) ||
            *(float *)(void *)dt_device_seen(rank, places[i]) != (float)(10 + 40 * i))
            return WRONG_RESULT;
    if (rank->rank < 2 && ms_since(began) < SOON_MS)
        return NO_FAILURE; /* it has not waited for host 1 */
    ops->close(rank->comm);
    return 0;
}

Test(comm, collectives_of_hosts_go_on_in_a_thread, .timeout = 60)
{
    int codes[RANKS_MOST];
    Ranks *all = ranks_new_hosts(4, 2, &dt_comm_tcp);
    cr_assert_not_null(all);
    ranks_run(all, start_early, 20, codes);
    for (int r = 0; r < 4; r++)
        cr_expect_eq(codes[r], 0, "rank %d ended with %d", r, codes[r]);
    ranks_free(all);
}

/* Two ranks of one stage on two hosts; their group is that of the second mesh axis. */
static Ranks *new_pair(void)
{
    Ranks *all = ranks_new_hosts(2, 2, &dt_comm_tcp);
    for (uint32_t r = 0; all && r < 2; r++)
        all->ranks[r].stage = 0;
    return all;
}

static int swap_between_hosts(Ranks *all, DtRank *rank)
{
    return ranks_join(rank) ? swap(all, rank) : WRONG_RESULT;
}

Test(comm, swapped_collectives_between_hosts_fail, .timeout = 60)
{
    int codes[RANKS_MOST];
    Ranks *all = new_pair();
    cr_assert_not_null(all);
    ranks_run(all, swap_between_hosts, 20, codes);
    for (uint32_t r = 0; r < 2; r++)
        cr_expect_eq(codes[r], 0, "rank %u ended with %d", r, codes[r]);
    const char *message = dt_shared_slot(&all->plan, all->host_shared[1], 1)->message;
    cr_expect(strstr(message, "rank 0 at") && strstr(message, "rank 1 at") &&
                  strstr(message, "instruction 7") && strstr(message, "instruction 8"),
              "%s", message);
    ranks_free(all);
}

/* Rank 1 ends without a word, and its supervisor says nothing either. */
static int lose_a_host(Ranks *all, DtRank *rank)
{
    const DtPlaceAt at = ranks_place(rank, RANKS_SHARED, 0);
    (void)all;
    if (!ranks_join(rank))
        return WRONG_RESULT;
    if (rank->rank == 1)
        return 0;
    const uint64_t began = dt_now_ns();
    if (rank->comm_ops->all_reduce(rank->comm, &rank->groups[rank->plan->n_groups - 1], at, at,
                                   100, DT_PLAN_F32, DT_PLAN_SUM))
        return WRONG_RESULT;
    if (ms_since(began) > 8000)
        return TOO_LATE;
    return strstr(rank->failure.message, "connection of rank 0 to rank 1 is gone") ? 0
                                                                                  : WRONG_FAILURE;
}

Test(comm, a_lost_host_ends_a_wait, .timeout = 60)
{
    int codes[RANKS_MOST];
    Ranks *all = new_pair();
    cr_assert_not_null(all);
    ranks_run(all, lose_a_host, 20, codes);
    for (uint32_t r = 0; r < 2; r++)
        cr_expect_eq(codes[r], 0, "rank %u ended with %d", r, codes[r]);
    ranks_free(all);
}

Test(comm, what_cannot_be_done_is_an_error)
{
    Ranks *all = ranks_new(1);
    DtRank *rank = &all->ranks[0];
    const DtRankGroup stranger = {.size = 2, .ranks = (const uint32_t[]){0, 1}};
    DtPlaceAt buffer = ranks_place(rank, 0, 0);
    cr_expect_not(rank->comm_ops->all_reduce(rank->comm, &rank->world, buffer, buffer, 1,
                                             DT_PLAN_U16, DT_PLAN_SUM));
    cr_expect(strstr(rank->failure.message, "u16"), "%s", rank->failure.message);
    rank->failure = DT_OK;
    atomic_store(&rank->has_failed, false);
    cr_expect_not(rank->comm_ops->barrier(rank->comm, &stranger));
    cr_expect(strstr(rank->failure.message, "not in the plan"), "%s", rank->failure.message);
    rank->failure = DT_OK;
    atomic_store(&rank->has_failed, false);
    DtPlaceAt place = ranks_place(rank, 0, 0);
    cr_expect(rank->comm_ops->send(rank->comm, 0, place, 8, 4));
    cr_expect_not(rank->comm_ops->recv(rank->comm, 0, place, 8, 5));
    cr_expect(strstr(rank->failure.message, "of micro-batch 5"), "%s", rank->failure.message);
    ranks_free(all);
}
