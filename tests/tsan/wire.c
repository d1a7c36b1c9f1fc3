/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that moves bytes between hosts (runtime/hosts_thread.c), for the thread sanitizer: two
 * ranks on each of two hosts, threads of this process like the threads that belong to them, start
 * sums, send and receive messages meanwhile, and wait for the sums. Then a rank fails while its
 * thread waits for a sum that others do not begin: the thread sees that, and all close. */
#include "../runtime/ranks.h"

#include "runtime/cluster.h"
#include "runtime/device.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, HOSTS = 2, ROUNDS = 40, COUNT = 3000, MESSAGE = 100, EVENTS = 2 };

static float *at(DtRank *rank, uint32_t arena, int64_t offset)
{
    return (float *)(void *)dt_device_seen(rank, ranks_place(rank, arena, offset));
}

/* Starts a sum of 1 + rank + number over all ranks. */
static bool start_sum(DtRank *rank, int64_t event, int number)
{
    const DtPlanInst inst = {.kind = DT_INST_ALL_REDUCE, .event = 1 + (uint32_t)event};
    const DtPlaceAt place = ranks_place(rank, RANKS_SHARED, event * 65536);
    const DtCommOps *ops = rank->comm_ops;
    for (int i = 0; i < COUNT; i++)
        at(rank, RANKS_SHARED, event * 65536)[i] = (float)(1 + (int)rank->rank + number);
    return ops->enter(rank->comm, &inst) &&
           ops->all_reduce(rank->comm, &rank->groups[rank->plan->n_groups - 1], place, place,
                           COUNT, DT_PLAN_F32, DT_PLAN_SUM) &&
           ops->leave(rank->comm, &inst, event);
}

static bool end_sum(DtRank *rank, int64_t event, int number)
{
    if (!rank->comm_ops->await(rank->comm, event))
        return false;
    for (int i = 0; i < COUNT; i++)
        if (at(rank, RANKS_SHARED, event * 65536)[i] != (float)(10 + RANKS * number))
            return dt_rank_fail(rank, DT_EXIT_FAILED, "a sum is wrong");
    return true;
}

/* Sends to the next stage, on the other host, and receives from the previous one. */
static bool exchange(DtRank *rank, int number)
{
    const DtCommOps *ops = rank->comm_ops;
    const uint32_t stages = dt_plan_stages(rank->plan), last = (rank->stage + stages - 1) % stages;
    float *sent = at(rank, RANKS_PRIVATE, 0), *got = at(rank, RANKS_PRIVATE, 4096);
    for (int i = 0; i < MESSAGE; i++)
        sent[i] = (float)(number + i);
    if (!ops->send(rank->comm, rank->stage, ranks_place(rank, RANKS_PRIVATE, 0),
                   MESSAGE * sizeof *sent, number) ||
        !ops->recv(rank->comm, last, ranks_place(rank, RANKS_PRIVATE, 4096), MESSAGE * sizeof *got,
                   number))
        return false;
    return memcmp(sent, got, MESSAGE * sizeof *sent) == 0 ||
           dt_rank_fail(rank, DT_EXIT_FAILED, "a message is wrong");
}

static void *run(void *context)
{
    DtRank *rank = context;
    bool good = ranks_join(rank) && rank->comm_ops->barrier(rank->comm, &rank->world);
    for (int round = 0; good && round < ROUNDS; round++) {
        for (int e = 0; good && e < EVENTS; e++)
            good = start_sum(rank, e, round + e);
        usleep((rank->rank + (uint32_t)round) % 5 * 1000); /* so that threads meet in all ways */
        good = good && exchange(rank, round);
        for (int e = 0; good && e < EVENTS; e++)
            good = end_sum(rank, e, round + e);
    }
    if (rank->comm)
        rank->comm_ops->close(rank->comm);
    return NULL;
}

static atomic_bool is_over; /* rank 0 has failed */

/* Both ranks of the first host begin the sum, so that their threads wait for the other host, whose
 * ranks only wait until it is over: nobody here tells them of a failure on another host. */
static void *run_failing(void *context)
{
    DtRank *rank = context;
    const bool is_first = dt_cluster_is_here(rank, 0);
    bool good = ranks_join(rank) && rank->comm_ops->barrier(rank->comm, &rank->world);
    if (good && is_first)
        good = start_sum(rank, 0, 0);
    usleep(50000);
    if (rank->rank == 0)
        dt_rank_fail(rank, DT_EXIT_FAILED, "planned");
    if (good && is_first && rank->comm_ops->await(rank->comm, 0))
        dt_rank_fail(rank, DT_EXIT_FAILED, "a sum without the other host");
    if (rank->rank == 0)
        atomic_store_explicit(&is_over, true, memory_order_relaxed);
    while (good && !is_first && !atomic_load_explicit(&is_over, memory_order_relaxed))
        usleep(1000);
    if (rank->comm)
        rank->comm_ops->close(rank->comm);
    return NULL;
}

/* planned: the message of rank 0, NULL: no rank is to fail. Returns how many are otherwise. */
static int run_all(void *(*function)(void *), const char *planned)
{
    Ranks *all = ranks_new_hosts(RANKS, HOSTS, &dt_comm_tcp);
    pthread_t threads[RANKS];
    int failed = 0;
    if (!all)
        return RANKS;
    for (uint32_t r = 0; r < RANKS; r++)
        if (pthread_create(&threads[r], NULL, function, &all->ranks[r]) != 0)
            return RANKS;
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        const char *want = r == 0 && planned ? planned : "";
        const bool good = strcmp(all->ranks[r].failure.message, want) == 0 &&
                          dt_rank_has_failed(&all->ranks[r]) == (want[0] != '\0');
        failed += !good;
        if (!good)
            printf("rank %u: \"%s\", not \"%s\"\n", r, all->ranks[r].failure.message, want);
    }
    ranks_free(all);
    return failed;
}

int main(void)
{
    const int failed = run_all(run, NULL) + run_all(run_failing, "planned");
    printf("%d passed, %d failed\n", 2 * RANKS - failed, failed);
    return failed > 0;
}
