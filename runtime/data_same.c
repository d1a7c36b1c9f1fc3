/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a run reads the right data. A run that continues must read the data of its
 * checkpoint, and all machines of a run must read the same data. The supervisor compares before
 * ranks start (preflight.c). The first rank of each machine compares again, since files may change
 * meanwhile. */
#include "runtime/data_same.h"

#include "runtime/cluster.h"

#include <string.h>

DtStatus dt_datasame_check(const DtDataFact *saved, uint32_t n_saved, const DtDataFact *now,
                           const char *checkpoint)
{
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < n_saved && dt_status_ok(&status); i++) {
        DtText change = {0};
        if (strcmp(saved[i].input, now->input) == 0 && dt_data_changed(&saved[i], now, &change))
            status = dt_status_fail(
                DT_EXIT_IO, "`%.60s` reads other data (%.80s) than when %.100s was saved: %.150s",
                now->input, now->source, checkpoint, change.at);
        dt_text_free(&change);
    }
    return status;
}

DtStatus dt_datasame_refuse(const DtStatus *found)
{
    return dt_status_fail(found->code, "%.400s. --data-changed goes on with what is there now",
                          found->message);
}

/* Sets ret_changed if the source is another than that of the checkpoint, and the options permit
 * it. */
static DtStatus check_checkpoint(const DtRank *rank, const DtDataFact *now, bool *ret_changed)
{
    DtStatus status =
        dt_datasame_check(rank->saved_facts, rank->n_saved_facts, now, rank->shared->chosen);
    if (dt_status_ok(&status) || !rank->options->data_changed)
        return dt_status_ok(&status) ? status : dt_datasame_refuse(&status);
    *ret_changed = true;
    if (rank->rank == 0) {
        fprintf(stderr, "dtrun: note: ");
        dt_text_say(stderr, status.message);
    }
    return DT_OK;
}

/* Computes the facts of all sources. Fails if they differ from those of the checkpoint from which
 * the run continues. ret_held_out: whether held-out data differ, and the options permit it. */
static DtStatus find_facts(DtRank *rank, bool *ret_held_out)
{
    const DtPlan *plan = rank->plan;
    for (uint32_t i = 0; i < plan->n_readers; i++) {
        DtDataFact *fact = &rank->facts[rank->n_facts];
        bool changed = false;
        if (!rank->readers[i])
            continue;
        DtStatus status = dt_data_fact(rank->memory, rank->readers[i], fact);
        if (dt_status_ok(&status))
            status = check_checkpoint(rank, fact, &changed);
        *ret_held_out = *ret_held_out || (changed && plan->readers[i].is_eval);
        if (!dt_status_ok(&status))
            return status;
        rank->n_facts++;
    }
    return DT_OK;
}

/* ---- several machines ---- */

/* The facts of a source as numbers, which node 0 sends. */
typedef struct Numbers {
    int64_t samples, values, first, bytes, share;
    uint64_t digest;
} Numbers;

static Numbers numbers_of(const DtDataFact *fact)
{
    return (Numbers){fact->samples, fact->values, fact->first, fact->bytes, fact->share,
                     fact->digest};
}

static DtStatus check_node(const DtRank *rank, const DtDataFact *here, const Numbers *there)
{
    const Numbers mine = numbers_of(here);
    if (memcmp(&mine, there, sizeof mine) == 0)
        return DT_OK;
    if (here->bytes != there->bytes)
        return dt_status_fail(
            DT_EXIT_IO, "`%.60s` reads %lld bytes on node %lld (%.150s) and %lld bytes on node 0",
            here->input, (long long)here->bytes, (long long)rank->options->node, here->source,
            (long long)there->bytes);
    return dt_status_fail(DT_EXIT_IO,
                          "`%.60s` reads files with other contents on node %lld (%.150s) than on "
                          "node 0, of the same size",
                          here->input, (long long)rank->options->node, here->source);
}

/* Collective: rank 0 sends its facts, and the first rank of each other node compares them with its
 * own. */
static bool compare_nodes(DtRank *rank, bool is_first, DtStatus *ret_status)
{
    const uint32_t n = rank->plan->n_readers;
    Numbers *told = DT_NEW_ARRAY(rank->memory, Numbers, n + 1);
    for (uint32_t i = 0; i < rank->n_facts && rank->rank == 0; i++)
        told[i] = numbers_of(&rank->facts[i]);
    if (!dt_algorithms_tell(rank, 0, told, n * sizeof *told))
        return false;
    for (uint32_t i = 0; i < rank->n_facts && is_first && dt_status_ok(ret_status); i++)
        *ret_status = check_node(rank, &rank->facts[i], &told[i]);
    return true;
}

/* Collective: forgets the lowest loss on held-out data that have changed, on every rank. `changed`
 * counts on rank 0 only. */
static bool forget_best(DtRank *rank, bool changed)
{
    if (!rank->options->data_changed || !rank->best.any)
        return true;
    if (rank->n_ranks > 1 && !dt_algorithms_tell(rank, 0, &changed, sizeof changed))
        return false;
    if (changed && rank->rank == 0)
        fprintf(stderr, "dtrun: note: the lowest loss so far was on other held-out data: this run "
                        "looks for a new one\n");
    if (changed)
        rank->best = (DtBest){0};
    return true;
}

bool dt_datasame_know(DtRank *rank, DtStatus *ret_status)
{
    const bool is_first = rank->rank == dt_cluster_first(rank->options, rank->plan);
    bool held_out = false;
    *ret_status = DT_OK;
    if (is_first) {
        rank->facts = DT_NEW_ARRAY(rank->memory, DtDataFact, rank->plan->n_readers + 1);
        *ret_status = find_facts(rank, &held_out);
    }
    if (!dt_status_ok(ret_status))
        return true;
    if (dt_cluster_several(rank->options) && !compare_nodes(rank, is_first, ret_status))
        return false;
    return forget_best(rank, held_out);
}
