/* SPDX-License-Identifier: Apache-2.0 */
/* A step whose loss or norm of gradients is not finite. Its cause is the program (too high a rate,
 * a logarithm of 0) or a device that computes wrongly, and only the second one is cured by another
 * start. So all ranks repeat the step, once. Nothing has to be kept for that: until the update
 * nothing changes, an update with such a norm changes nothing, and data and random numbers are
 * functions of the step's number. A second run that is finite is the proof of a fault.
 *
 * Before they repeat it, ranks compare when each of them first gave such a value to others
 * (examine.c): all of them have it in the end, but one had it first. */
#include "runtime/examine.h"
#include "runtime/train.h"

#include <math.h>

static bool meet(DtRank *rank) { return rank->comm_ops->barrier(rank->comm, &rank->world); }

static void publish(DtRank *rank)
{
    atomic_store(&rank->slot->first_bad_inst, rank->first_bad.inst);
    atomic_store(&rank->slot->first_bad_ns, rank->first_bad.ns);
}

/* Publishes what this rank has noticed. Returns in *ret_first the rank that noticed such a value
 * first; UINT32_MAX: none did. */
static bool find_first(DtRank *rank, uint32_t *ret_first)
{
    uint64_t earliest = UINT64_MAX;
    *ret_first = rank->n_ranks == 1 ? 0 : UINT32_MAX;
    publish(rank);
    if (rank->n_ranks > 1 && !meet(rank))
        return false;
    for (uint32_t r = 0; r < rank->n_ranks; r++) {
        const DtSlot *slot = dt_shared_slot(rank->plan, rank->shared, r);
        const uint64_t ns = atomic_load(&slot->first_bad_ns);
        if (ns == 0 || ns >= earliest)
            continue;
        earliest = ns;
        *ret_first = r;
    }
    return rank->n_ranks == 1 || meet(rank); /* before a rank publishes anew */
}

static const char *word_of(double value)
{
    return isnan(value) ? "not a number" : value < 0 ? "-infinite" : "infinite";
}

/* Ends the run, since the second run of the step is another one. The rank that gave such a value
 * first says so. */
static bool fail(DtRank *rank, const char *what, double first, double second, uint32_t origin)
{
    char again[40], by[120] = "";
    if (isfinite(second))
        snprintf(again, sizeof again, "%.9g", second);
    else
        snprintf(again, sizeof again, "%s", word_of(second));
    if (origin == UINT32_MAX)
        snprintf(by, sizeof by, "no rank can be named, since none looks at what its device gives");
    else if (rank->n_ranks == 1)
        snprintf(by, sizeof by, "there is one rank");
    else
        snprintf(by, sizeof by, "rank %u gave the first such value to others", origin);
    if (rank->rank != (origin == UINT32_MAX ? 0 : origin))
        return meet(rank) && dt_rank_fail(rank, DT_EXIT_RETRY, "a step has two results");
    const uint32_t inst = atomic_load(&rank->slot->first_bad_inst);
    if (rank->n_ranks > 1 && origin != UINT32_MAX)
        atomic_store(&rank->slot->inst, inst); /* for the supervisor's message */
    return dt_rank_fail(rank, DT_EXIT_RETRY,
                        "the %s of step %lld was %s, and is %s when the step is repeated: a bit "
                        "has flipped in memory, or a device computes wrongly; %s. Nothing is saved",
                        what, (long long)rank->step + 1, word_of(first), again, by);
}

bool dt_spoilt_repeat(DtRun *run, uint32_t objective, const DtTurn *first, const char *what,
                      uint32_t *ret_origin)
{
    DtRank *rank = &run->rank;
    DtTurn second;
    uint32_t given;
    const bool by_loss = !isfinite(first->loss);
    atomic_store(&rank->slot->spoilt, rank->step + 1);
    if (!find_first(rank, &given))
        return false;
    const uint32_t inst = rank->first_bad.inst;
    dt_examine_open(rank);
    const bool ran = dt_train_turn(run, objective, &second);
    dt_examine_close(rank);
    if (!ran)
        return false;
    const bool same = by_loss ? !isfinite(second.loss)
                              : isfinite(second.loss) && !isfinite(second.grad_norm);
    if (!same) {
        atomic_store(&rank->slot->first_bad_inst, inst);
        return by_loss ? fail(rank, what, first->loss, second.loss, given)
                       : fail(rank, what, first->grad_norm,
                              isfinite(second.loss) ? second.grad_norm : second.loss, given);
    }
    return dt_replicas_check(rank, rank->step) && find_first(rank, ret_origin);
}
