/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on their way, and waiting for them.
 *
 * No call of NCCL blocks: what it answers "in progress" is asked for until it is done, and so is
 * the stream, so a rank that waits always sees that the run is to stop. It aborts its communicators
 * then: nothing on the GPU waits any more for a rank that will not come.
 *
 * Operations run on the GPU while the host is at a later instruction. Around each an event is put
 * on its stream, and one on the stream of instructions in front of what waits for it; so a rank
 * that waits knows the operation that holds it up, and whether the rank itself has come to it,
 * which it tells the others in the mapping: `arrived` counts, by rank and link, operations that it
 * has come to. The member that has come to fewer is the one waited for. */
#include "runtime/nccl_internal.h"
#include "runtime/cluster.h"
#include "runtime/comm_sync.h"

#include <time.h>

enum {
    SPINS = 200,       /* looks before the first sleep */
    SLEEP_NS = 100000  /* nanoseconds between two looks */
};

/* ---- failing ---- */

void dt_nccl_links_abort(DtNcclLinks *l)
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

static bool fail(DtNcclLinks *l, DtNcclComm *comm, int error)
{
    const bool is_remote = error == DT_NCCL_REMOTE_ERROR || error == DT_NCCL_SYSTEM_ERROR;
    const char *last = l->nccl.last_error(comm);
    if (!is_remote || !dt_sync_others_failed(l->rank))
        dt_rank_fail(l->rank, is_remote ? DT_EXIT_RETRY : DT_EXIT_FAILED,
                     "NCCL reports: %s%s%.300s", l->nccl.error_string(error),
                     last && last[0] ? ": " : "", last ? last : "");
    dt_nccl_links_abort(l);
    return false;
}

/* ---- operations that others wait for ---- */

static _Atomic uint32_t *arrived_of(const DtNcclLinks *l, uint32_t rank, const DtNcclLink *link)
{
    return &l->arrived[(size_t)rank * l->n_links + link->number];
}

/* The first member on this node that has not reached the operation; UINT32_MAX: all have. */
static uint32_t who_is_late(const DtNcclLinks *l, const DtNcclPending *p)
{
    for (uint32_t m = 0; m < p->link->size; m++) {
        const uint32_t came =
            atomic_load_explicit(arrived_of(l, p->link->ranks[m], p->link), memory_order_relaxed);
        if ((int32_t)(came - p->number) < 0 && dt_cluster_is_here(l->rank, p->link->ranks[m]))
            return p->link->ranks[m];
    }
    return UINT32_MAX;
}

static DtNcclPending *pending_at(const DtNcclLinks *l, uint32_t i)
{
    return &l->pending[(l->first + i) % DT_NCCL_PENDING];
}

static bool has_passed(const DtNcclLinks *l, DtCudaEvent *event)
{
    /* an error counts as done: the stream reports it, too */
    return l->work.driver->event_query(event) != DT_CUDA_NOT_READY;
}

/* Whether the operation has ended. If not, marks its queue as busy. Publishes that this rank has
 * reached the operation. */
static bool has_ended(DtNcclLinks *l, DtNcclPending *p)
{
    DtNcclQueue *queue = p->link->queue;
    if (p->has_ended || queue->look == l->look)
        return p->has_ended;
    queue->look = l->look;
    if (!has_passed(l, p->before))
        return false;
    atomic_store_explicit(arrived_of(l, l->rank->rank, p->link), p->number, memory_order_relaxed);
    p->has_ended = has_passed(l, p->after);
    if (p->has_ended) {
        queue->look = l->look - 1;
        atomic_fetch_add_explicit(&l->rank->slot->progress, 1, memory_order_relaxed);
    }
    return p->has_ended;
}

/* Whether instructions are held up by the operation: it is on their stream, or their stream has
 * reached a wait for it. */
static bool holds_up(const DtNcclLinks *l, const DtNcclPending *p)
{
    return p->link->stream == l->work.stream || (p->is_awaited && has_passed(l, p->awaited));
}

/* Forgets operations that have ended. Returns the first one that this rank has reached, that has
 * not ended, and for which instructions wait; NULL: there is none. */
static const DtNcclPending *look_at_pending(DtNcclLinks *l)
{
    const DtNcclPending *found = NULL;
    l->look++;
    for (uint32_t i = 0; i < l->n_pending; i++) {
        DtNcclPending *p = pending_at(l, i);
        DtNcclQueue *queue = p->link->queue;
        const bool is_first = !p->has_ended && queue->look != l->look;
        if (has_ended(l, p))
            continue;
        if (is_first)
            queue->head = p;
        if (!found && holds_up(l, p)) /* the first operation of a queue delays those after it */
            found = queue->head;
    }
    while (l->n_pending && pending_at(l, 0)->has_ended) {
        l->first = (l->first + 1) % DT_NCCL_PENDING;
        l->n_pending--;
        l->n_forgotten++;
    }
    return found;
}

/* ---- waiting ---- */

typedef struct Wait {
    uint64_t began_ns, moved_ns, deadline_ns; /* moved: the time at which the last operation
                                               * ended */
    uint64_t forgotten; /* n_forgotten at the last look */
    uint32_t looks, inst;
} Wait;

static Wait wait_new(const DtNcclLinks *l)
{
    const double timeout = l->rank->options->timeout;
    const uint64_t now = dt_now_ns();
    return (Wait){.began_ns = now,
                  .moved_ns = now,
                  .deadline_ns = timeout > 0 && timeout < 1e9 ? (uint64_t)((timeout + 2) * 1e9) : 0,
                  .inst = atomic_load_explicit(&l->rank->slot->inst, memory_order_relaxed),
                  .forgotten = l->n_forgotten};
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

/* Returns the name of the link for messages: of a channel its value and stages, of a group its
 * axes. */
static const char *name_of(DtNcclLinks *l, const DtNcclLink *link)
{
    const DtPlan *plan = l->rank->plan;
    if (link->number <= plan->n_groups)
        return dt_arena_printf(l->rank->memory, "over `%s`", axes_of(l, link));
    const DtPlanChannel *channel = &plan->channels[link->number - plan->n_groups - 1];
    return dt_arena_printf(l->rank->memory, "of `%.60s`, stage %u to %u",
                           dt_plan_str(plan, channel->name), channel->from, channel->to);
}

static bool fail_late(DtNcclLinks *l, const DtNcclPending *p, uint32_t who)
{
    const DtPlan *plan = l->rank->plan;
    const char *kind =
        p->inst < plan->n_insts ? dt_kinds_inst(plan->insts[p->inst].kind) : "operation";
    if (who == UINT32_MAX)
        dt_rank_fail(
            l->rank, DT_EXIT_RETRY,
            "all ranks%s have come to this %s %s, which takes longer than --timeout allows",
            dt_cluster_several(l->rank->options) ? " of this node" : "", kind, name_of(l, p->link));
    else
        dt_rank_fail(l->rank, DT_EXIT_RETRY,
                     "rank %u has waited for rank %u (%s %s) longer than --timeout allows",
                     l->rank->rank, who, kind, name_of(l, p->link));
    dt_nccl_links_abort(l);
    return false;
}

/* Writes to this rank's slot that it waits for rank `who`, in the instruction of the operation p; p
 * NULL: that it does not wait. */
static void say(DtNcclLinks *l, const Wait *wait, const DtNcclPending *p, uint32_t who)
{
    DtSlot *slot = l->rank->slot;
    atomic_store_explicit(&slot->inst, p ? p->inst : wait->inst, memory_order_relaxed);
    if (p)
        dt_shared_wait(slot, who, dt_now_ns());
    else
        dt_shared_go_on(slot);
}

/* Returns how long this rank waits before it reports rank `who`. If that rank waits too, it knows
 * better what blocks both, so it gets the same time again to report it. */
static uint64_t limit_of(const DtNcclLinks *l, const Wait *wait, uint32_t who)
{
    const DtRank *rank = l->rank;
    const DtSlot *slot = who < rank->n_ranks ? dt_shared_slot(rank->plan, rank->shared, who) : NULL;
    return wait->deadline_ns * (slot && dt_shared_waits(slot) ? 2 : 1);
}

/* Asks all communicators in use for errors, since the delay may be caused by a failure of another
 * operation in progress. False: one has failed. */
static bool are_well(DtNcclLinks *l, const Wait *wait)
{
    for (uint32_t i = 0; i < l->n_pending; i++) {
        const DtNcclPending *p = pending_at(l, i);
        int state = 0;
        if (p->has_ended || p->link->asked == l->look)
            continue;
        p->link->asked = l->look;
        const int error = l->nccl.state(p->link->comm, &state);
        if (error == 0 && (state == 0 || state == DT_NCCL_IN_PROGRESS))
            continue;
        say(l, wait, p, UINT32_MAX);
        return fail(l, p->link->comm, error ? error : state);
    }
    return true;
}

/* Looks once at all ranks while this rank waits; if is_full, it waits for the oldest operation
 * only. False: it must stop waiting. */
static bool look_around(DtNcclLinks *l, Wait *wait, bool is_full)
{
    const DtNcclPending *p = look_at_pending(l);
    const uint64_t now = dt_now_ns();
    if (!p && is_full && l->n_pending && has_passed(l, pending_at(l, 0)->before))
        p = pending_at(l, 0);
    if (l->n_forgotten != wait->forgotten)
        wait->moved_ns = now;
    wait->forgotten = l->n_forgotten;
    if (dt_rank_aborted(l->rank)) {
        dt_nccl_links_abort(l);
        return false;
    }
    if (wait->looks++ < SPINS)
        return true;
    const uint32_t who = p ? who_is_late(l, p) : UINT32_MAX;
    say(l, wait, p, who);
    if (!are_well(l, wait))
        return false;
    if (p && wait->deadline_ns && now - wait->moved_ns > limit_of(l, wait, who))
        return fail_late(l, p, who);
    sleep_ns(SLEEP_NS);
    return true;
}

bool dt_nccl_links_until(DtNcclLinks *l, DtIsDone *is_done, void *context)
{
    Wait wait = wait_new(l);
    bool good = !l->is_aborted;
    while (good && !is_done(context))
        good = look_around(l, &wait, false);
    if (good) {
        look_at_pending(l);
        say(l, &wait, NULL, UINT32_MAX);
    }
    return good;
}

typedef struct Drained {
    const DtCudaDriver *driver;
    DtCudaStream *stream;
} Drained;

static bool is_drained(void *context)
{
    const Drained *drained = context;
    return drained->driver->stream_query(drained->stream) != DT_CUDA_NOT_READY;
}

bool dt_nccl_links_drain(DtNcclLinks *l, DtCudaStream *stream)
{
    return dt_nccl_links_until(l, is_drained, &(Drained){l->work.driver, stream});
}

bool dt_nccl_links_wait(DtNcclLinks *l) { return dt_nccl_links_drain(l, l->work.stream); }

bool dt_nccl_links_settle(DtNcclLinks *l, DtNcclComm *comm, int result)
{
    Wait wait = wait_new(l);
    while (result == DT_NCCL_IN_PROGRESS) {
        const int error = l->nccl.state(comm, &result);
        if (error)
            result = error;
        if (result != DT_NCCL_IN_PROGRESS)
            break;
        if (dt_rank_aborted(l->rank)) {
            dt_nccl_links_abort(l);
            return false;
        }
        if (wait.deadline_ns && dt_now_ns() - wait.began_ns > wait.deadline_ns) {
            dt_rank_fail(l->rank, DT_EXIT_RETRY,
                         "rank %u has waited for NCCL longer than --timeout allows", l->rank->rank);
            dt_nccl_links_abort(l);
            return false;
        }
        if (wait.looks++ > SPINS)
            sleep_ns(SLEEP_NS);
    }
    return result == 0 || fail(l, comm, result);
}

/* ---- queues ---- */

static bool is_good(DtNcclLinks *l, int error, const char *what)
{
    return dt_device_cuda_good(l->rank, error, what);
}

static bool put_event(DtNcclLinks *l, DtCudaEvent **event, DtCudaStream *stream)
{
    const DtCudaDriver *d = l->work.driver;
    return (*event || is_good(l, d->event_new(event, DT_CUDA_EVENT_NO_TIME), "make an event")) &&
           is_good(l, d->event_record(*event, stream), "record an event");
}

static bool follow(DtNcclLinks *l, DtCudaStream *stream, DtCudaEvent *event)
{
    return is_good(l, l->work.driver->stream_follow(stream, event, 0), "wait for an event");
}

static bool is_apart(const DtNcclLinks *l, const DtNcclLink *link)
{
    return link->stream != l->work.stream;
}

bool dt_nccl_links_enter(DtNcclLinks *l, DtNcclLink *link)
{
    return !is_apart(l, link) ||
           (put_event(l, &l->here, l->work.stream) && follow(l, link->stream, l->here));
}

static bool await(DtNcclLinks *l, DtNcclPending *p)
{
    p->is_awaited = true;
    return put_event(l, &p->awaited, l->work.stream) && follow(l, l->work.stream, p->after);
}

bool dt_nccl_links_leave(DtNcclLinks *l, DtNcclLink *link, int64_t event)
{
    if (!is_apart(l, link))
        return true;
    DtNcclPending *p = pending_at(l, l->n_pending - 1);
    if (!put_event(l, &p->after, link->stream)) /* its blocks were packed before this event */
        return false;
    if (event < 0)
        return await(l, p);
    l->under[event] = l->n_forgotten + l->n_pending;
    return true;
}

bool dt_nccl_links_await(DtNcclLinks *l, int64_t event)
{
    const uint64_t number = l->under[event];
    l->under[event] = 0;
    if (number <= l->n_forgotten)
        return true;
    DtNcclPending *p = pending_at(l, (uint32_t)(number - l->n_forgotten - 1));
    return p->has_ended || await(l, p);
}

/* ---- operations ---- */

bool dt_nccl_links_begin(DtNcclLinks *l, DtNcclLink *link)
{
    Wait wait = wait_new(l);
    look_at_pending(l);
    while (l->n_pending == DT_NCCL_PENDING)
        if (!look_around(l, &wait, true))
            return false;
    if (wait.looks)
        say(l, &wait, NULL, UINT32_MAX);
    if (l->is_aborted)
        return false;
    DtNcclPending *p = pending_at(l, l->n_pending),
                  *last = l->n_pending ? pending_at(l, l->n_pending - 1) : NULL;
    p->link = link;
    p->number = ++link->begun;
    p->is_awaited = p->has_ended = false;
    p->inst = atomic_load_explicit(&l->rank->slot->inst, memory_order_relaxed);
    if (l->is_serial && last && last->link->queue != link->queue &&
        !follow(l, link->stream, last->after))
        return false;
    return put_event(l, &p->before, link->stream);
}

bool dt_nccl_links_end(DtNcclLinks *l, DtNcclLink *link, int result)
{
    DtNcclPending *p = pending_at(l, l->n_pending);
    if (!dt_nccl_links_settle(l, link->comm, result) || !put_event(l, &p->after, link->stream))
        return false;
    l->n_pending++;
    return true;
}
