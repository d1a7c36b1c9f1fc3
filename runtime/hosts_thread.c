/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of a rank that works on what instructions have only started: collectives of several
 * hosts that name an event. So bytes move while the rank computes, until an instruction waits for
 * the event. It works on one collective at a time, in the order in which they were started, which
 * is proved to bring all ranks to their ends (verify/plan_run.c). What an instruction does at once
 * waits until the thread is through, and then runs in the rank's own thread: there is nothing to
 * hand over where nothing overlaps.
 *
 * A rank with channels to other hosts also lets the thread look after the connections while it
 * computes: messages come into their slots, and those that it has sent go on.
 *
 * Either the thread or the rank uses the wire, never both (is_busy, is_inside). */
#include "runtime/hosts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE = 1024, LOOK_MS = 20, REST_MS = 2 };

typedef struct Op {
    DtHostsGroup *g;
    DtHostsCall call;
    DtHostsRun *run;
} Op;

struct DtHostsThread {
    DtHosts *hosts;
    pthread_t id;
    int32_t number; /* of the thread, for the system */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_started, ends;
    bool is_busy;           /* the thread uses the wire */
    bool is_inside;         /* the rank uses it */
    bool is_asleep;         /* the thread waits for the connections */
    bool looks_after;       /* it does that, since there are channels */
    uint64_t uses, seen;    /* how often the rank has used the wire; that number at its last look */
    uint64_t begun, done;   /* numbers of collectives */
    uint64_t *under;        /* by event: the last one that was started under it */
    Op *ops;                /* QUEUE of them, by number */
    struct pollfd *polls;
    int wake;               /* an eventfd that ends its sleep */
    DtSlot *says;           /* what the thread waits for */
};

/* ---- the thread ---- */

static void say_in(DtHosts *hosts, DtSlot *slot)
{
    hosts->wire->says = slot;
    dt_comm_shm_says(hosts->across, slot);
}

/* Works on the first collective. The lock is held before and after. */
static void work(DtHostsThread *t)
{
    const Op op = t->ops[t->done % QUEUE];
    t->is_busy = true;
    pthread_mutex_unlock(&t->lock);
    say_in(t->hosts, t->says);
    const bool good = op.run(t->hosts, op.g, &op.call);
    dt_shared_go_on(t->says);
    pthread_mutex_lock(&t->lock);
    t->is_busy = false;
    t->done++;
    if (!good) /* the abort word is set: no rank waits for the rest */
        t->done = t->begun;
    pthread_cond_broadcast(&t->changed);
}

/* Waits on the condition for up to `ms` milliseconds. Returns whether it was not signalled. */
static bool wait_ms(DtHostsThread *t, long ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return pthread_cond_timedwait(&t->changed, &t->lock, &until) == ETIMEDOUT;
}

/* Waits until something comes on a connection, and takes it. While the rank itself uses the wire
 * again and again, this thread rests, since the rank then takes what comes. */
static void look_after(DtHostsThread *t)
{
    if (t->is_inside || t->seen != t->uses) {
        t->seen = t->uses;
        wait_ms(t, REST_MS);
        return;
    }
    DtWire *wire = t->hosts->wire;
    uint64_t count;
    t->is_busy = true;
    pthread_mutex_unlock(&t->lock);
    const uint32_t n = wire->ops->watch(wire, t->polls);
    pthread_mutex_lock(&t->lock);
    t->is_busy = false;
    t->is_asleep = n > 0;
    pthread_cond_broadcast(&t->changed);
    if (n > 0) {
        t->polls[n] = (struct pollfd){.fd = t->wake, .events = POLLIN};
        pthread_mutex_unlock(&t->lock);
        poll(t->polls, n + 1, LOOK_MS);
        if (read(t->wake, &count, sizeof count) < 0)
            count = 0;
        pthread_mutex_lock(&t->lock);
        t->is_asleep = false;
    }
    if (t->is_inside || t->ends || t->begun > t->done)
        return;
    t->is_busy = true;
    pthread_mutex_unlock(&t->lock);
    wire->ops->move(wire, 0);
    pthread_mutex_lock(&t->lock);
    t->is_busy = false;
    pthread_cond_broadcast(&t->changed);
}

static void *run_thread(void *context)
{
    DtHostsThread *t = context;
    pthread_mutex_lock(&t->lock);
    t->number = (int32_t)gettid();
    while (!t->ends) {
        if (t->begun > t->done && !t->is_inside)
            work(t);
        else if (t->looks_after && !dt_rank_aborted(t->hosts->rank))
            look_after(t);
        else
            pthread_cond_wait(&t->changed, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- the rank ---- */

/* Says in the rank's slot for whom the thread waits. If it waits for nobody, the supervisor judges
 * the thread in the place of the rank, which waits for it. */
static void say_for(const DtHostsThread *t)
{
    DtSlot *slot = t->hosts->rank->slot;
    const uint64_t began_ns = atomic_load(&t->says->wait_began_ns);
    const bool waits = began_ns > 0;
    if ((!waits || atomic_load(&slot->wait_began_ns) < began_ns) && dt_shared_waits(slot))
        dt_shared_go_on(slot); /* the thread waits anew, since something has come */
    if (waits)
        dt_shared_wait(slot, atomic_load(&t->says->waits_for),
                       atomic_load(&t->says->wait_looked_ns));
    atomic_store_explicit(&slot->worker, waits ? 0 : t->number, memory_order_release);
}

static void end_wait(const DtHostsThread *t)
{
    DtSlot *slot = t->hosts->rank->slot;
    atomic_store_explicit(&slot->worker, 0, memory_order_release);
    if (dt_shared_waits(slot))
        dt_shared_go_on(slot);
}

/* Waits a little for the thread; then looks whether the run is to stop. */
static bool wait_briefly(DtHostsThread *t)
{
    if (wait_ms(t, LOOK_MS))
        say_for(t);
    return !dt_rank_aborted(t->hosts->rank);
}

/* Waits until collective `number` is done and, if `all`, the thread does not use the wire. The lock
 * is held. */
static bool wait_for(DtHostsThread *t, uint64_t number, bool all)
{
    bool good = true;
    while (good && (t->done < number || (all && t->is_busy)))
        good = wait_briefly(t);
    end_wait(t);
    return good && !dt_rank_aborted(t->hosts->rank);
}

bool dt_hosts_thread_enter(DtHostsThread *t)
{
    pthread_mutex_lock(&t->lock);
    const bool good = wait_for(t, t->begun, true);
    t->is_inside = good;
    t->uses++;
    pthread_mutex_unlock(&t->lock);
    if (good)
        say_in(t->hosts, t->hosts->rank->slot);
    return good;
}

void dt_hosts_thread_leave(DtHostsThread *t)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&t->lock);
    t->is_inside = false;
    if (t->is_asleep && write(t->wake, &one, sizeof one) < 0) /* it looks at the new messages */
        t->is_asleep = true;
    pthread_mutex_unlock(&t->lock);
}

bool dt_hosts_thread_start(DtHostsThread *t, DtHostsGroup *g, const DtHostsCall *call,
                           DtHostsRun *run)
{
    const uint64_t one = 1;
    bool good = true;
    pthread_mutex_lock(&t->lock);
    while (good && t->begun - t->done >= QUEUE)
        good = wait_briefly(t);
    end_wait(t);
    t->ops[t->begun++ % QUEUE] = (Op){.g = g, .call = *call, .run = run};
    if (t->is_asleep && write(t->wake, &one, sizeof one) < 0)
        t->is_asleep = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return good;
}

void dt_hosts_thread_name(DtHostsThread *t, int64_t event) { t->under[event] = t->begun; }

bool dt_hosts_thread_await(DtHostsThread *t, int64_t event)
{
    pthread_mutex_lock(&t->lock);
    const bool good = wait_for(t, t->under[event], false);
    pthread_mutex_unlock(&t->lock);
    return good;
}

DtStatus dt_hosts_thread_open(DtHosts *hosts, bool has_channels)
{
    DtRank *rank = hosts->rank;
    DtHostsThread *t = DT_NEW(rank->memory, DtHostsThread);
    pthread_condattr_t attributes;
    *t = (DtHostsThread){.hosts = hosts, .looks_after = has_channels};
    t->under = DT_NEW_ARRAY(rank->memory, uint64_t, rank->plan->meta->events + 1);
    t->ops = DT_NEW_ARRAY(rank->memory, Op, QUEUE);
    t->polls = DT_NEW_ARRAY(rank->memory, struct pollfd, hosts->wire->n_peers + 2);
    t->says = dt_wire_slot(rank->memory);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    t->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    hosts->thread = t;
    t->is_started = t->wake >= 0 && pthread_create(&t->id, NULL, run_thread, t) == 0;
    return t->is_started ? DT_OK
                         : dt_status_fail(DT_EXIT_RETRY, "no thread for messages of other hosts");
}

void dt_hosts_thread_close(DtHostsThread *t)
{
    pthread_mutex_lock(&t->lock);
    t->ends = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (t->is_started)
        pthread_join(t->id, NULL);
    if (t->wake >= 0)
        close(t->wake);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    say_in(t->hosts, t->hosts->rank->slot);
}
