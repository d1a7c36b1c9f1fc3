/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives with threads as ranks, for the thread sanitizer: a plain program, because
 * Criterion cannot start under it.
 *
 *   collectives            all checks with 1, 2, 3, 4 and 8 ranks
 *   collectives --planted  the same threads with a planted fault: a rank writes into the buffer of
 *                          a rank of another group while that one is being reduced. The sanitizer
 *                          must object. */
#include "../runtime/ranks.h"

#include <pthread.h>
#include <string.h>

static void *run_checks(void *context)
{
    DtRank *rank = context;
    Ranks *all = (Ranks *)(void *)((char *)(rank - rank->rank) - offsetof(Ranks, ranks));
    if (ranks_check(rank, false, all->failures[rank->rank]) <= 0)
        dt_rank_fail(rank, DT_EXIT_FAILED, "a check failed");
    return NULL;
}

/* Ranks 0 and 1 are a row of a 2 x 2 mesh; groups[1] contains 0 with 1, and 2 with 3. */
static void *run_planted(void *context)
{
    DtRank *rank = context;
    DtPlaceAt buffer = ranks_place(rank, RANKS_SHARED, 0);
    for (int i = 0; i < 200; i++) {
        if (!rank->comm_ops->all_reduce(rank->comm, &rank->groups[1], buffer, buffer, 64,
                                        DT_PLAN_F32, DT_PLAN_SUM))
            return NULL;
        if (rank->rank == 2)
            ((float *)(void *)rank->peer_arenas[0])[i % 64] = 0;
    }
    return NULL;
}

/* Runs the checks; returns the number of ranks that failed. */
static int run_threads(uint32_t n, void *(*function)(void *))
{
    Ranks *all = ranks_new(n);
    pthread_t threads[RANKS_MOST];
    int failed = 0;
    if (all == NULL)
        return (int)n;
    for (uint32_t r = 0; r < n; r++)
        if (pthread_create(&threads[r], NULL, function, &all->ranks[r]) != 0)
            return (int)n;
    for (uint32_t r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < n; r++)
        if (!dt_status_ok(&all->ranks[r].failure)) {
            failed++;
            printf("%u ranks: %s\n", n, all->failures[r]);
        }
    ranks_free(all);
    return failed;
}

int main(int argc, char **argv)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 8};
    int passed = 0, failed = 0;
    if (argc > 1 && strcmp(argv[1], "--planted") == 0)
        return run_threads(4, run_planted);
    for (size_t i = 0; i < DT_COUNT(counts); i++)
        run_threads(counts[i], run_checks) == 0 ? passed++ : failed++;
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
