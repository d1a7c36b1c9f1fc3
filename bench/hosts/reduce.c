/* SPDX-License-Identifier: Apache-2.0 */
/* Times an all-reduce of f32 between ranks on several hosts, which are this machine: reduce COMM
 * RANKS HOSTS BYTES.. Each rank prints a line "BYTES MICROSECONDS PROCESSOR" for each size: the
 * median of rounds, and the microseconds of its processor that an all-reduce takes. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double processor_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static bool time_size(DtRank *rank, int64_t bytes)
{
    const int64_t n = 20000000 / (bytes + 20000) + 2;
    double took[ROUNDS];
    const DtPlaceAt at = ranks_place(rank, RANKS_SHARED, 0);
    const DtRankGroup *group = &rank->groups[rank->plan->n_groups - 1];
    double used = 0;
    for (int round = -1; round < ROUNDS; round++) {
        used = round == 0 ? processor_us() : used;
        const uint64_t began = dt_now_ns();
        for (int64_t i = 0; i < n; i++)
            if (!rank->comm_ops->all_reduce(rank->comm, group, at, at, bytes / 4, DT_PLAN_F32,
                                            DT_PLAN_MAX))
                return false;
        if (round >= 0)
            took[round] = (double)(dt_now_ns() - began) * 1e-3 / (double)n;
    }
    qsort(took, ROUNDS, sizeof *took, compare);
    printf("%lld %.2f %.2f\n", (long long)bytes, took[ROUNDS / 2],
           (processor_us() - used) / (double)(n * ROUNDS));
    return true;
}

static int run(DtRank *rank, int n, char **sizes)
{
    bool good = ranks_join(rank);
    for (int i = 0; good && i < n; i++)
        good = time_size(rank, atoll(sizes[i]));
    if (!good)
        fprintf(stderr, "rank %u: %s\n", rank->rank, rank->failure.message);
    if (good)
        rank->comm_ops->close(rank->comm);
    fflush(stdout);
    return !good;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    const DtCommOps *ops = strcmp(argv[1], "ucx") == 0 ? &dt_comm_ucx : &dt_comm_tcp;
    const uint32_t n = (uint32_t)atoi(argv[2]);
    Ranks *all = ranks_new_hosts(n, (uint32_t)atoi(argv[3]), ops);
    int status, code = 0;
    if (!all)
        return 1;
    all->plan.n_channels = 0; /* then nobody looks after the connections meanwhile */
    for (uint32_t r = 0; r < n; r++)
        if (fork() == 0)
            _exit(run(&all->ranks[r], argc - 4, argv + 4));
    while (wait(&status) > 0)
        code |= status;
    ranks_free(all);
    return code != 0;
}
