/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators and waiting for them.
 *
 * No call of NCCL blocks: what it answers "in progress" is asked for until it is done, and so is the stream, so a rank
 * that waits always sees that the run is to stop. It aborts its communicators then: nothing on the GPU waits any more
 * for a rank that will not come.
 *
 * Operations run on the GPU while the host is at a later instruction. Around each an event is put on the stream; so a
 * rank that waits knows the first operation that has not ended, and if the rank itself has come to it, which it tells
 * the others in the mapping: `arrived` counts, by rank and group, operations that it has come to. The member that has
 * come to fewer is the one waited for. */
#include "runtime/nccl_links.h"

#include "runtime/comm_sync.h"

#include <time.h>

enum {
    PENDING = 256,     /* operations on their way at most; a rank waits for the oldest then */
    SPINS = 200,       /* looks before the first sleep */
    SLEEP_NS = 100000, /* between two looks */
    PATIENCE_S = 3     /* for the news of whose failure it was that NCCL felt */
};

typedef struct Shared { /* in the mapping; behind it a GPU's number per rank, then the counts */
    DtNcclId id;
} Shared;

typedef struct Pending {
    DtCudaEvent *before, *after; /* made when first needed */
    DtNcclLink *link;
    uint32_t number, inst; /* of the operation in its group; of its instruction */
} Pending;

struct DtNcclLinks {
    DtRank *rank;
    DtNccl nccl;
    DtCudaWork work;
    DtNcclComm *world;
    DtNcclLink *links; /* by group, then that of all ranks */
    uint32_t n_links;
    Shared *shared;
    _Atomic uint32_t *gpus, *arrived; /* arrived: [rank * n_links + group] */
    Pending *pending;                 /* a ring */
    uint32_t first, n_pending;
    bool is_aborted;
};

/* ---- the mapping ---- */

static uint32_t n_links(const DtPlan *plan) { return plan->n_groups + 1; }

uint64_t dt_nccl_links_bytes(const DtPlan *plan)
{
    const DtSyncWide words = (DtSyncWide)plan->meta->n_ranks * (n_links(plan) + 1);
    return plan->n_launches ? dt_sync_area((sizeof(Shared) + words * sizeof(uint32_t) + 63) / 64 * 64) : 0;
}

/* ---- failing ---- */

static void abort_all(DtNcclLinks *l)
{
    if (l->is_aborted)
        return;
    l->is_aborted = true;
    for (uint32_t g = 0; g < l->n_links; g++)
        if (l->links[g].comm && l->links[g].comm != l->world)
            l->nccl.abort(l->links[g].comm);
    if (l->world)
        l->nccl.abort(l->world);
}

static void sleep_ns(long ns) { nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); }

/* Where a rank ends the others feel it before they are told: they get time to hear whose failure it is. */
static bool is_others_failure(const DtNcclLinks *l)
{
    const uint64_t began = dt_now_ns();
    while (!dt_rank_aborted(l->rank) && dt_now_ns() - began < PATIENCE_S * 1000000000ull)
        sleep_ns(10 * SLEEP_NS);
    return dt_rank_aborted(l->rank);
}

static bool fail(DtNcclLinks *l, DtNcclComm *comm, int error)
{
    const bool is_remote = error == DT_NCCL_REMOTE_ERROR || error == DT_NCCL_SYSTEM_ERROR;
    const char *last = l->nccl.last_error(comm);
    if (!is_remote || !is_others_failure(l))
        dt_rank_fail(l->rank, is_remote ? DT_EXIT_RETRY : DT_EXIT_FAILED, "NCCL reports: %s%s%.300s",
                     l->nccl.error_string(error), last && last[0] ? ": " : "", last ? last : "");
    abort_all(l);
    return false;
}

/* ---- what others wait for ---- */

static _Atomic uint32_t *arrived_of(const DtNcclLinks *l, uint32_t rank, const DtNcclLink *link)
{
    return &l->arrived[(size_t)rank * l->n_links + link->number];
}

/* The first member that has not come to the operation; UINT32_MAX: all have. */
static uint32_t who_is_late(const DtNcclLinks *l, const Pending *p)
{
    for (uint32_t m = 0; m < p->link->size; m++) {
        const uint32_t came = atomic_load_explicit(arrived_of(l, p->link->ranks[m], p->link), memory_order_relaxed);
        if ((int32_t)(came - p->number) < 0)
            return p->link->ranks[m];
    }
    return UINT32_MAX;
}

static Pending *oldest(DtNcclLinks *l) { return l->n_pending ? &l->pending[l->first] : NULL; }

static bool has_passed(const DtNcclLinks *l, DtCudaEvent *event)
{
    return l->work.driver->event_query(event) != DT_CUDA_NOT_READY; /* an error is the stream's too */
}

/* Forgets what has ended. True: this rank has come to the oldest operation that has not. */
static bool look_at_pending(DtNcclLinks *l)
{
    for (Pending *p; (p = oldest(l)) != NULL;) {
        if (!has_passed(l, p->before))
            return false;
        atomic_store_explicit(arrived_of(l, l->rank->rank, p->link), p->number, memory_order_relaxed);
        if (!has_passed(l, p->after))
            return true;
        l->first = (l->first + 1) % PENDING;
        l->n_pending--;
        atomic_fetch_add_explicit(&l->rank->slot->progress, 1, memory_order_relaxed);
    }
    return false;
}

/* ---- waiting ---- */

typedef struct Wait {
    uint64_t began_ns, moved_ns, deadline_ns; /* moved: when an operation ended last */
    uint32_t looks, inst, left;
} Wait;

static Wait wait_new(const DtNcclLinks *l)
{
    const double timeout = l->rank->options->timeout;
    const uint64_t now = dt_now_ns();
    return (Wait){.began_ns = now,
                  .moved_ns = now,
                  .deadline_ns = timeout > 0 && timeout < 1e9 ? (uint64_t)((timeout + 2) * 1e9) : 0,
                  .inst = atomic_load_explicit(&l->rank->slot->inst, memory_order_relaxed),
                  .left = l->n_pending};
}

static const char *axes_of(DtNcclLinks *l, const DtNcclLink *link)
{
    const DtPlan *plan = l->rank->plan;
    const char *axes = "";
    for (uint32_t m = 0; link->number < plan->n_groups && m < plan->n_mesh; m++)
        if (plan->groups[link->number].mask >> m & 1)
            axes = dt_arena_printf(l->rank->memory, "%s%s%s", axes, axes[0] ? ", " : "",
                                   dt_plan_str(plan, plan->mesh[m].name));
    return axes;
}

static bool fail_late(DtNcclLinks *l, const Pending *p, uint32_t who)
{
    const DtPlan *plan = l->rank->plan;
    const char *kind = p->inst < plan->n_insts ? dt_kinds_inst(plan->insts[p->inst].kind) : "operation";
    if (who == UINT32_MAX)
        dt_rank_fail(l->rank, DT_EXIT_RETRY,
                     "all ranks have come to this %s over `%s`, which takes longer than --timeout allows", kind,
                     axes_of(l, p->link));
    else
        dt_rank_fail(l->rank, DT_EXIT_RETRY,
                     "rank %u has waited for rank %u (%s over `%s`) longer than --timeout allows", l->rank->rank, who,
                     kind, axes_of(l, p->link));
    abort_all(l);
    return false;
}

/* Whom the slot says that the rank waits for, and in which instruction; NULL: for nobody. */
static void say(DtNcclLinks *l, const Wait *wait, const Pending *p, uint32_t who)
{
    DtSlot *slot = l->rank->slot;
    atomic_store_explicit(&slot->inst, p ? p->inst : wait->inst, memory_order_relaxed);
    atomic_store_explicit(&slot->waits_for, who, memory_order_relaxed);
    atomic_store_explicit(&slot->waiting, p != NULL, memory_order_relaxed);
}

/* One look at how things stand while this rank waits. False: it should not any more. */
static bool look_around(DtNcclLinks *l, Wait *wait)
{
    const Pending *p = look_at_pending(l) ? oldest(l) : NULL;
    const uint64_t now = dt_now_ns();
    if (l->n_pending != wait->left)
        wait->moved_ns = now;
    wait->left = l->n_pending;
    if (dt_rank_aborted(l->rank)) {
        abort_all(l);
        return false;
    }
    if (wait->looks++ < SPINS)
        return true;
    const uint32_t who = p ? who_is_late(l, p) : UINT32_MAX;
    int state = 0;
    say(l, wait, p, who);
    if (p && (l->nccl.state(p->link->comm, &state) != 0 || (state != 0 && state != DT_NCCL_IN_PROGRESS)))
        return fail(l, p->link->comm, state);
    if (p && wait->deadline_ns && now - wait->moved_ns > wait->deadline_ns)
        return fail_late(l, p, who);
    sleep_ns(SLEEP_NS);
    return true;
}

bool dt_nccl_links_wait(DtNcclLinks *l)
{
    Wait wait = wait_new(l);
    bool good = !l->is_aborted;
    while (good && l->work.driver->stream_query(l->work.stream) == DT_CUDA_NOT_READY)
        good = look_around(l, &wait);
    if (good) {
        look_at_pending(l);
        say(l, &wait, NULL, UINT32_MAX);
    }
    return good;
}

/* Until the communicator's last call is done, of which this was the result. */
static bool settle(DtNcclLinks *l, DtNcclComm *comm, int result)
{
    Wait wait = wait_new(l);
    while (result == DT_NCCL_IN_PROGRESS) {
        const int error = l->nccl.state(comm, &result);
        if (error)
            result = error;
        if (result != DT_NCCL_IN_PROGRESS)
            break;
        if (dt_rank_aborted(l->rank)) {
            abort_all(l);
            return false;
        }
        if (wait.deadline_ns && dt_now_ns() - wait.began_ns > wait.deadline_ns) {
            dt_rank_fail(l->rank, DT_EXIT_RETRY, "rank %u has waited for NCCL longer than --timeout allows",
                         l->rank->rank);
            abort_all(l);
            return false;
        }
        if (wait.looks++ > SPINS)
            sleep_ns(SLEEP_NS);
    }
    return result == 0 || fail(l, comm, result);
}

/* ---- operations ---- */

static bool put_event(DtNcclLinks *l, DtCudaEvent **event)
{
    const DtCudaDriver *d = l->work.driver;
    int error = *event ? 0 : d->event_new(event, DT_CUDA_EVENT_NO_TIME);
    if (error == 0)
        error = d->event_record(*event, l->work.stream);
    return error == 0 || dt_rank_fail(l->rank, DT_EXIT_FAILED, "the GPU failed to record an event: %s",
                                      dt_cuda_driver_error(d, error));
}

bool dt_nccl_links_begin(DtNcclLinks *l, DtNcclLink *link)
{
    Wait wait = wait_new(l);
    look_at_pending(l);
    while (l->n_pending == PENDING)
        if (!look_around(l, &wait))
            return false;
    if (wait.looks)
        say(l, &wait, NULL, UINT32_MAX);
    if (l->is_aborted)
        return false;
    Pending *p = &l->pending[(l->first + l->n_pending) % PENDING];
    p->link = link;
    p->number = ++link->begun;
    p->inst = atomic_load_explicit(&l->rank->slot->inst, memory_order_relaxed);
    return put_event(l, &p->before);
}

bool dt_nccl_links_end(DtNcclLinks *l, DtNcclLink *link, int result)
{
    Pending *p = &l->pending[(l->first + l->n_pending) % PENDING];
    if (!settle(l, link->comm, result) || !put_event(l, &p->after))
        return false;
    l->n_pending++;
    return true;
}

/* ---- joining ---- */

/* Hands the id of rank 0 to all; also says who has which GPU. One machine: through the mapping. */
static bool exchange_id(DtNcclLinks *l, bool (*meet)(void *context), void *context, DtNcclId *ret_id)
{
    if (l->rank->rank == 0) {
        const int error = l->nccl.new_id(&l->shared->id);
        if (error)
            return dt_rank_fail(l->rank, DT_EXIT_FAILED, "NCCL makes no id: %s: %.200s", l->nccl.error_string(error),
                                l->nccl.last_error(NULL));
    }
    atomic_store(&l->gpus[l->rank->rank], (uint32_t)l->work.device);
    if (!meet(context))
        return false;
    *ret_id = l->shared->id;
    return true;
}

static bool check_gpus(DtNcclLinks *l)
{
    for (uint32_t a = 0; a < l->rank->n_ranks; a++)
        for (uint32_t b = 0; b < a; b++)
            if (l->gpus[a] == l->gpus[b])
                return dt_rank_fail(l->rank, DT_EXIT_USAGE,
                                    "ranks %u and %u have one GPU, between which NCCL does not work: --comm shm does",
                                    b, a);
    return true;
}

/* The group's part of the communicator of all ranks. All call it, members or not. */
static bool split(DtNcclLinks *l, const DtRankGroup *group, DtNcclLink *link)
{
    DtNcclConfig config = dt_nccl_config();
    const bool belongs = group->me < group->size;
    if (group->size == 1)
        return true;
    if (group->size == l->rank->n_ranks) {
        link->comm = l->world;
        return true;
    }
    const int result = l->nccl.split(l->world, belongs ? (int)group->number : DT_NCCL_NO_COLOR,
                                     belongs ? (int)group->me : 0, &link->comm, &config);
    return settle(l, l->world, result) && (!link->comm || settle(l, link->comm, DT_NCCL_IN_PROGRESS));
}

static bool join(DtNcclLinks *l, bool (*meet)(void *context), void *context)
{
    DtNcclConfig config = dt_nccl_config();
    DtRank *rank = l->rank;
    DtNcclId id;
    if (!exchange_id(l, meet, context, &id) || !check_gpus(l))
        return false;
    const int result = l->nccl.init(&l->world, (int)rank->n_ranks, id, (int)rank->rank, &config);
    if (!settle(l, l->world, result))
        return false;
    for (uint32_t g = 0; g < l->n_links; g++) {
        const DtRankGroup *group = g + 1 < l->n_links ? &rank->groups[g] : &rank->world;
        l->links[g] = (DtNcclLink){.ranks = group->ranks, .size = group->size, .me = group->me, .number = g};
        if (!split(l, group, &l->links[g]))
            return false;
    }
    return true;
}

DtStatus dt_nccl_links_open(DtRank *rank, char *area, bool (*meet)(void *context), void *context,
                            DtNcclLinks **ret_links)
{
    DtNcclLinks *l = DT_NEW(rank->memory, DtNcclLinks);
    l->rank = rank;
    l->work = dt_device_cuda_work(rank);
    l->n_links = n_links(rank->plan);
    l->links = DT_NEW_ARRAY(rank->memory, DtNcclLink, l->n_links);
    l->pending = DT_NEW_ARRAY(rank->memory, Pending, PENDING);
    l->shared = (Shared *)(void *)area;
    l->gpus = (_Atomic uint32_t *)(void *)(area + sizeof(Shared));
    l->arrived = l->gpus + rank->n_ranks;
    DtStatus status = dt_nccl_open(rank->memory, &l->nccl);
    if (!dt_status_ok(&status))
        return status;
    *ret_links = l;
    if (join(l, meet, context))
        return DT_OK;
    return dt_status_ok(&rank->failure) ? dt_status_fail(DT_EXIT_FAILED, "another rank failed") : rank->failure;
}

void dt_nccl_links_close(DtNcclLinks *l)
{
    bool good = dt_status_ok(&l->rank->failure) && dt_nccl_links_wait(l);
    for (uint32_t g = 0; good && g < l->n_links; g++)
        if (l->links[g].comm && l->links[g].comm != l->world)
            good = settle(l, l->links[g].comm, l->nccl.finalize(l->links[g].comm));
    if (good && l->world)
        good = settle(l, l->world, l->nccl.finalize(l->world));
    for (uint32_t g = 0; good && g < l->n_links; g++)
        if (l->links[g].comm && l->links[g].comm != l->world)
            l->nccl.destroy(l->links[g].comm);
    if (good && l->world)
        l->nccl.destroy(l->world);
    if (!good)
        abort_all(l);
    for (uint32_t i = 0; i < PENDING; i++) {
        if (l->pending[i].before)
            l->work.driver->event_free(l->pending[i].before);
        if (l->pending[i].after)
            l->work.driver->event_free(l->pending[i].after);
    }
}

const DtNccl *dt_nccl_links_library(const DtNcclLinks *l) { return &l->nccl; }
const DtCudaWork *dt_nccl_links_work(const DtNcclLinks *l) { return &l->work; }

DtNcclLink *dt_nccl_links_find(const DtNcclLinks *l, const DtRankGroup *group)
{
    for (uint32_t g = 0; g < l->n_links; g++)
        if (l->links[g].ranks == group->ranks)
            return &l->links[g];
    dt_rank_fail(l->rank, DT_EXIT_FAILED, "a collective over a group of %u ranks that is not in the plan",
                 group->size);
    return NULL;
}
