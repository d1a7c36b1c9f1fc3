/* SPDX-License-Identifier: Apache-2.0 */
/* Windows (--windows): what collectives of a group touch is memory that NCCL made, and each
 * communicator is told of it once. So members reach each other's memory without copies between, by
 * kernels with less to do, or, for gathers that go on beside other work, by copy engines instead of
 * kernels.
 *
 * All members tell of the same memory in the same order: arenas and sides have the same sizes on
 * all of them, and the communicators are gone through in the order in which they were made, so no
 * two ranks wait for each other. Where the system has no windows NCCL gives none and does as
 * without. */
#include "runtime/nccl_internal.h"
#include "runtime/rank.h"
#include "runtime/windows.h"

struct DtNcclHeld {
    DtNcclComm *comm;
    uint64_t at;
    DtNcclWindow *window; /* NULL: the system has no windows */
    DtNcclHeld *next;
};

static bool is_held(const DtNcclLinks *l, const DtNcclComm *comm, uint64_t at)
{
    const DtNcclHeld *held = l->held;
    while (held && (held->comm != comm || held->at != at))
        held = held->next;
    return held != NULL;
}

static bool hold(DtNcclLinks *l, DtNcclComm *comm, DtDeviceAt place, uint64_t bytes, DtWindow kind)
{
    if (kind == DT_WINDOW_NONE || bytes == 0 || is_held(l, comm, place.at))
        return true;
    DtNcclHeld *held = DT_NEW(l->rank->memory, DtNcclHeld);
    *held = (DtNcclHeld){.comm = comm, .at = place.at, .next = l->held};
    l->held = held;
    const int flags = kind == DT_WINDOW_EQUAL ? DT_NCCL_WINDOW_SYMMETRIC : DT_NCCL_WINDOW_DEFAULT;
    return dt_nccl_links_settle(l, comm,
                                l->work.windows->add(comm, place.at, bytes, &held->window, flags));
}

/* The kind of window that an arena gets in a communicator. Groups with equal ranks may share a
 * communicator, so the collectives of all these groups count. */
static DtWindow kind_of(const DtNcclLinks *l, const DtNcclComm *comm, uint32_t arena)
{
    DtWindow most = DT_WINDOW_NONE;
    for (uint32_t g = 0; g < l->rank->plan->n_groups; g++) {
        const DtWindow one =
            l->links[g].comm == comm ? dt_windows_of(l->rank->plan, g, arena) : DT_WINDOW_NONE;
        most = one > most ? one : most;
    }
    return most;
}

static bool hold_all(DtNcclLinks *l, uint32_t group,
                     uint64_t (*side)(const DtRank *rank, uint32_t queue))
{
    const DtRank *rank = l->rank;
    const DtNcclLink *link = &l->links[group];
    bool good = true;
    for (uint32_t a = 0; good && a < rank->plan->n_arenas; a++)
        good = hold(l, link->comm, rank->arenas[a],
                    dt_rank_arena(rank->options, rank->plan, a, rank->stage),
                    kind_of(l, link->comm, a));
    if (!dt_windows_pack(rank->plan, group))
        return good;
    const uint64_t bytes = side(rank, rank->plan->groups[group].queue);
    return good && hold(l, link->comm, link->queue->sent, bytes, DT_WINDOW_EQUAL) &&
           hold(l, link->comm, link->queue->got, bytes, DT_WINDOW_EQUAL);
}

/* Prints, on rank 0, that windows were requested but the system does not support them. */
static void say_missing(const DtNcclLinks *l)
{
    uint32_t n = 0, missing = 0;
    for (const DtNcclHeld *held = l->held; held; held = held->next) {
        n++;
        missing += held->window == NULL;
    }
    if (missing && l->rank->rank == 0)
        dt_text_say(stderr,
                    dt_arena_printf(
                        l->rank->memory,
                        "dtrun: note: NCCL has no windows for %u of %u pieces of memory on this "
                        "system (--windows), and does as without",
                        missing, n));
}

bool dt_nccl_windows_open(DtNcclLinks *l, uint64_t (*side)(const DtRank *rank, uint32_t queue))
{
    bool good = true;
    for (uint32_t g = 0; good && l->work.windows && g < l->rank->plan->n_groups; g++)
        good = !l->links[g].comm || hold_all(l, g, side);
    if (good)
        say_missing(l);
    return good;
}

bool dt_nccl_windows_close(DtNcclLinks *l)
{
    bool good = true;
    for (DtNcclHeld *held = l->held; good && held; held = held->next)
        if (held->window)
            good = dt_nccl_links_settle(l, held->comm,
                                        l->work.windows->drop(held->comm, held->window));
    return good;
}

bool dt_nccl_windows_copies(const DtNcclLinks *l, uint32_t link)
{
    const DtPlan *plan = l->rank->plan;
    bool found = false;
    for (uint32_t g = 0;
         l->work.windows && l->nccl.version >= DT_NCCL_COPIES_SINCE && g < plan->n_groups; g++) {
        const bool is_its =
            g == link || (link == plan->n_groups && l->rank->groups[g].size == l->rank->n_ranks);
        found = found || (is_its && dt_windows_gather_beside(plan, g));
    }
    return found;
}
