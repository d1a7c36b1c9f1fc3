/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of watch.c on random histories of a machine under load. A simulation has 2 to 5 ranks
 * on too few cores: they compute, sleep in reads and writes, raise their words and wait for those
 * of others, as runtime/comm_sync.c does it. Runnable ranks may get no core for seconds, also in
 * the middle of publishing a wait; the watcher reads slot and /proc at different moments, and is
 * itself late at times.
 *
 * Healthy histories are generated from one order of events, so they end; the watcher must blame
 * nobody. In the others a rank falls asleep, is stopped, or a cycle of waits is planted; the
 * watcher must find each, and name the right one. WATCH_HISTORIES says how many; a failure names
 * its seed. */
#include "runtime/watch.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 5,
    OPS = 160,
    TICK_MS = 10,
    LONGEST_STARVED = 1200,
    LONGEST_OP = 900,
    LOOKS_EVERY = 2
};
static const uint64_t TICK_NS = TICK_MS * 1000000u;

typedef enum OpKind { COMPUTE, OUTSIDE, RAISE, WAIT, SLEEP, POLL, STOP, END } OpKind;
typedef struct Op {
    OpKind kind;
    int ticks;                   /* duration of COMPUTE and OUTSIDE */
    bool counts, saves, on_disk; /* its end is visible progress; phase SAVING; state D */
    uint32_t value[MOST];        /* WAIT: the value that the words of others must reach */
} Op;

typedef struct Slot {
    uint64_t began, looked, progress, inst_began;
    uint32_t who;
} Slot;

typedef struct Rank {
    Op ops[OPS];
    int n_ops, at, left; /* ticks left of the present op */
    uint32_t word;
    bool asleep;        /* sleeps in a futex wait, until woken or until `look_tick` */
    bool waits, stores; /* inside of the wait: the rank has looked and is about to publish what it
                         * found */
    Slot next;
    int64_t look_tick, starved_until;
    double cpu;
    uint64_t sleeps;    /* how often it has gone to sleep */
    Slot slot, old; /* old: its state one tick ago */
    /* Ticks in reads and writes since it computed or slept in a wait; ticks of its present
     * instruction without waits. */
    int64_t outside_ticks, old_outside_ticks, worked_ticks, old_worked_ticks;
} Rank;

typedef enum Fault { HEALTHY, HANGS, POLLS, STOPS, CYCLE, FAULTS } Fault;

typedef struct Machine {
    uint64_t random;
    int n, cores;
    int load; /* in percent: how often a rank that could run gets no core although one is idle */
    int64_t tick;
    Fault fault;
    uint32_t guilty; /* a set of ranks, as bits */
    uint32_t made[MOST];
    Rank ranks[MOST];
} Machine;

static uint64_t draw(Machine *m)
{
    uint64_t z = m->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(Machine *m, int n) { return (int)(draw(m) % (uint64_t)n); }
static uint64_t now_of(const Machine *m) { return 1000000000u + (uint64_t)m->tick * TICK_NS; }

/* ---- programs ---- */

static Op *add(Machine *m, int rank, OpKind kind)
{
    Rank *r = &m->ranks[rank];
    Op *op = &r->ops[r->n_ops++];
    cr_assert_lt(r->n_ops, OPS);
    *op = (Op){.kind = kind, .ticks = 1};
    m->made[rank] += kind == RAISE;
    return op;
}

/* Returns a duration: mostly short, sometimes far longer than the watcher's limit. */
static int duration(Machine *m)
{
    return below(m, 8) ? 1 + below(m, 30) : 1 + below(m, LONGEST_OP);
}

static void add_work(Machine *m, int rank)
{
    Op *op = add(m, rank, below(m, 3) ? COMPUTE : OUTSIDE);
    op->ticks = duration(m);
    op->counts = below(m, 3) != 0;
    op->on_disk = below(m, 2);
}

/* Adds a barrier at which the ranks of the set meet. */
static void add_barrier(Machine *m, uint32_t set, bool saves)
{
    for (int r = 0; r < m->n; r++)
        if (set >> r & 1)
            add(m, r, RAISE);
    for (int r = 0; r < m->n; r++) {
        if (!(set >> r & 1))
            continue;
        Op *op = add(m, r, WAIT);
        op->saves = saves;
        op->counts = below(m, 2);
        for (int o = 0; o < m->n; o++)
            op->value[o] = o != r && (set >> o & 1) ? m->made[o] : 0;
    }
}

/* Adds a message: one rank waits for another one, which need not wait. */
static void add_message(Machine *m, int from, int to)
{
    add(m, from, RAISE);
    Op *op = add(m, to, WAIT);
    op->value[from] = m->made[from];
    op->counts = below(m, 2);
}

/* Adds a save: rank 0 writes what it receives from one rank after the other; all wait until this
 * ends (runtime/checkpoint.c). */
static void add_save(Machine *m)
{
    for (int r = 1; r < m->n; r++) {
        add_message(m, r, 0);
        Op *op = add(m, 0, below(m, 2) ? COMPUTE : OUTSIDE);
        op->saves = true;
        op->ticks = duration(m);
        add_message(m, 0, r);
    }
    add_barrier(m, (1u << m->n) - 1, true);
}

static void add_event(Machine *m)
{
    const uint32_t all = (1u << m->n) - 1;
    const int a = below(m, m->n), b = (a + 1 + below(m, m->n - 1)) % m->n;
    switch (below(m, 6)) {
    case 0: add_save(m); break;
    case 1: add_message(m, a, b); break;
    case 2: add_barrier(m, 1u << a | 1u << b, false); break;
    case 3: add_barrier(m, all, false); break;
    default: add_work(m, a); break;
    }
}

/* Adds a cycle: each of the ranks waits for a word that the next one raises only afterwards. */
static void add_cycle(Machine *m)
{
    const int length = 2 + below(m, m->n - 1), first = below(m, m->n);
    for (int i = 0; i < length; i++) {
        const int r = (first + i) % m->n, next = (first + (i + 1) % length) % m->n;
        add(m, r, WAIT)->value[next] = m->made[next] + 1;
        m->guilty |= 1u << r;
    }
    for (int r = 0; r < m->n; r++)
        add(m, r, RAISE);
}

static void add_fault(Machine *m)
{
    const int r = below(m, m->n);
    if (m->fault == CYCLE) {
        add_cycle(m);
        return;
    }
    add(m, r, m->fault == HANGS ? SLEEP : m->fault == POLLS ? POLL : STOP);
    m->guilty = 1u << r;
}

static void generate(Machine *m, uint64_t seed, Fault fault)
{
    *m = (Machine){.random = seed * FAULTS + (uint64_t)fault, .fault = fault};
    m->n = 2 + below(m, MOST - 1);
    m->cores = 1 + below(m, m->n);
    m->load = below(m, 95);
    for (int i = below(m, 8); i > 0; i--)
        add_event(m);
    if (fault != HEALTHY)
        add_fault(m);
    add_barrier(m, (1u << m->n) - 1, false);
    for (int r = 0; r < m->n; r++)
        add(m, r, END);
    for (int r = 0; r < m->n; r++) {
        m->ranks[r].left = m->ranks[r].ops[0].ticks;
        m->ranks[r].slot.who = UINT32_MAX;
        m->ranks[r].slot.inst_began = now_of(m);
    }
}

/* ---- the machine ---- */

static Op *op_of(Rank *r) { return &r->ops[r->at]; }

static uint32_t who_is_behind(Machine *m, const Op *op)
{
    for (int o = 0; o < m->n; o++)
        if (m->ranks[o].word < op->value[o])
            return (uint32_t)o;
    return UINT32_MAX;
}

static void end_op(Machine *m, Rank *r)
{
    r->slot.progress += op_of(r)->counts;
    if (op_of(r)->counts) {
        r->slot.inst_began = now_of(m);
        r->worked_ticks = 0;
    }
    r->at++;
    r->left = op_of(r)->ticks;
}

/* Changes a word of the slot: a rank that sleeps on this rank's word can run again. */
static void raise_word(Machine *m, Rank *r)
{
    r->word++;
    for (int o = 0; o < m->n; o++)
        if (m->ranks[o].asleep && op_of(&m->ranks[o])->value[r - m->ranks] > 0)
            m->ranks[o].asleep = false;
}

static void publish(Rank *r)
{
    const uint64_t began = r->slot.began ? r->slot.began : r->next.looked;
    r->slot.who = r->next.who;
    r->slot.looked = r->next.looked;
    r->slot.began = began;
    r->stores = false;
}

/* Does one round of a wait. False: the wait is over. */
static bool turn(Machine *m, Rank *r)
{
    if (r->stores)
        publish(r);
    const uint32_t who = who_is_behind(m, op_of(r));
    if (who == UINT32_MAX) {
        r->slot.began = 0;
        r->slot.who = UINT32_MAX;
        r->waits = false;
        return false;
    }
    r->waits = true;
    r->next.who = who;
    r->next.looked = now_of(m);
    r->stores = true;
    if (below(m, 50) == 0) /* the core is given to another process before the rank can publish
                            * that */
        return true;
    publish(r);
    if (below(m, 50) != 0) {
        r->asleep = true;
        r->sleeps++;
        r->outside_ticks = 0;
        r->look_tick = m->tick + LOOKS_EVERY;
    }
    return true;
}

/* Runs a rank for one tick on a core. */
static void run(Machine *m, Rank *r)
{
    for (;;) {
        switch (op_of(r)->kind) {
        case COMPUTE:
            r->cpu += 1;
            r->outside_ticks = 0;
            if (--r->left == 0)
                end_op(m, r);
            return;
        case RAISE:
            raise_word(m, r);
            r->cpu += 0.01;
            end_op(m, r);
            break;
        case WAIT:
            r->cpu += 0.001;
            if (turn(m, r))
                return;
            end_op(m, r);
            break;
        case POLL: /* it looks at something for a moment, and sleeps until the next tick */
            r->cpu += 0.05;
            r->sleeps++;
            r->look_tick = m->tick + 1;
            return;
        default: return; /* OUTSIDE, SLEEP, STOP: the rank sleeps in these */
        }
        if (below(m, 20) == 0)
            return; /* preempted between two ops */
    }
}

static bool is_runnable(const Rank *r, int64_t tick)
{
    const OpKind kind = r->ops[r->at].kind;
    return kind == COMPUTE || kind == RAISE || (kind == WAIT && !r->asleep) ||
           (kind == POLL && tick >= r->look_tick);
}

/* Sleeps in OUTSIDE end by themselves, but then the rank needs a core to go on. */
static void pass_time(Rank *r, int64_t tick)
{
    if (r->asleep && tick >= r->look_tick)
        r->asleep = false;
    if (op_of(r)->kind == OUTSIDE)
        r->outside_ticks++;
}

static void step(Machine *m)
{
    int cores = m->cores;
    const int first = below(m, m->n);
    m->tick++;
    for (int i = 0; i < m->n; i++) {
        Rank *r = &m->ranks[(first + i) % m->n];
        r->old = r->slot;
        r->old_outside_ticks = r->outside_ticks;
        r->old_worked_ticks = r->worked_ticks;
        r->worked_ticks += r->slot.began == 0;
        pass_time(r, m->tick);
        if (op_of(r)->kind == OUTSIDE && --r->left <= 0) {
            r->sleeps++;
            end_op(m, r);
        }
        else if (is_runnable(r, m->tick)) {
            if (below(m, 4000) == 0)
                r->starved_until = m->tick + below(m, LONGEST_STARVED);
            if (cores > 0 && m->tick >= r->starved_until && below(m, 100) >= m->load) {
                cores--;
                run(m, r);
            }
        }
    }
}

/* ---- the watcher ---- */

static char state_of(const Rank *r, int64_t tick)
{
    const Op *op = &r->ops[r->at];
    if (op->kind == STOP)
        return 'T';
    return is_runnable(r, tick) ? 'R' : op->kind == OUTSIDE && op->on_disk ? 'D' : 'S';
}

static DtWatchSample sample(Machine *m, const Rank *r)
{
    const Op *op = &r->ops[r->at];
    /* The fields are read one after the other, as in dt_watch_sample. */
    const Slot *early = below(m, 3) ? &r->slot : &r->old, *late = below(m, 10) ? early : &r->slot;
    return (DtWatchSample){.alive = op->kind != END,
                           .state = state_of(r, m->tick),
                           .reads_or_writes = op->saves || op->kind == OUTSIDE,
                           .waiting = late->began != 0,
                           .waits_for = below(m, 2) ? early->who : late->who,
                           .wait_began_ns = late->began,
                           .wait_looked_ns = early->looked,
                           .phase = op->saves ? DT_PHASE_SAVING : DT_PHASE_RUNNING,
                           .progress = early->progress,
                           .cpu_ns = (uint64_t)r->cpu * TICK_NS,
                           .sleeps = state_of(r, m->tick) == 'R' ? r->sleeps : 0,
                           .began_ns = early->inst_began,
                           .usual_ns = 1000000};
}

static bool has_ended(const Machine *m)
{
    bool ended = true;
    for (int r = 0; r < m->n; r++)
        ended &= m->ranks[r].ops[m->ranks[r].at].kind == END;
    return ended;
}

/* Whether the ranks at fault have reached the op in which they stay, and for how many ticks no
 * other rank could go on. */
static bool is_fault_complete(Machine *m)
{
    for (int i = 0; i < m->n; i++) {
        Rank *r = &m->ranks[i];
        const OpKind kind = op_of(r)->kind;
        const bool stays =
            kind == SLEEP || kind == POLL || kind == STOP ||
            (kind == WAIT && r->slot.began && who_is_behind(m, op_of(r)) != UINT32_MAX);
        if (!stays)
            return false;
    }
    return true;
}

/* Checks the watcher's message: if it says something about a rank, that must be true. */
static void check_news(Machine *m, const DtWatchEvent *event, uint64_t seed)
{
    const Rank *r = &m->ranks[event->rank];
    if (event->kind == DT_WATCH_OUTSIDE)
        cr_assert(r->outside_ticks >= 280 || r->old_outside_ticks >= 280,
                  "history %llu: rank %u was outside for %lld ticks only", (unsigned long long)seed,
                  event->rank, (long long)r->outside_ticks);
    else
        /* of three seconds; the watcher does not see waits that begin and end between two samples,
         * which are at most 210 ticks apart */
        cr_assert(r->worked_ticks >= 300 - 210 || r->old_worked_ticks >= 300 - 210,
                  "history %llu: rank %u is slow, and has waited for others for all but %lld ticks",
                  (unsigned long long)seed, event->rank, (long long)r->worked_ticks);
}

/* Ends at the first event that ends a run. ret_ticks: ticks since the fault was complete. */
static DtWatchEvent play(Machine *m, uint64_t seed, int64_t *ret_ticks)
{
    DtWatch *watch = dt_watch_new((uint32_t)m->n, 0, false);
    DtWatchEvent event = {.kind = DT_WATCH_NOTHING};
    int64_t look = 0, complete = -1;
    cr_assert_not_null(watch);
    while (!has_ended(m) && event.kind < DT_WATCH_STOPPED && m->tick < 200000) {
        step(m);
        if (complete < 0 && m->fault != HEALTHY && is_fault_complete(m))
            complete = m->tick;
        if (m->tick < look)
            continue;
        DtWatchSample samples[MOST];
        for (int r = 0; r < m->n; r++)
            samples[r] = sample(m, &m->ranks[r]);
        event = dt_watch_step(watch, samples, now_of(m));
        if (event.kind != DT_WATCH_NOTHING && event.kind < DT_WATCH_STOPPED)
            check_news(m, &event, seed);
        look = m->tick + 10 + (below(m, 30) ? below(m, 3) : below(m, 200));
    }
    dt_watch_free(watch);
    *ret_ticks = m->tick - (complete < 0 ? m->tick : complete);
    return event;
}

static uint64_t histories(void)
{
    const char *text = getenv("WATCH_HISTORIES");
    return text ? strtoull(text, NULL, 10) : 4000;
}

Test(watch_load, healthy_ranks_are_never_blamed, .timeout = 3600)
{
    static Machine m;
    int64_t ticks;
    for (uint64_t seed = 0; seed < histories(); seed++) {
        generate(&m, seed, HEALTHY);
        const DtWatchEvent event = play(&m, seed, &ticks);
        cr_assert_lt(event.kind, DT_WATCH_STOPPED,
                     "history %llu: rank %u is blamed (kind %d) after %.1f s at tick %lld",
                     (unsigned long long)seed, event.rank, event.kind, event.seconds,
                     (long long)m.tick);
        cr_assert(has_ended(&m), "history %llu does not end", (unsigned long long)seed);
    }
}

Test(watch_load, faults_are_found, .timeout = 3600)
{
    static const DtWatchKind kinds[FAULTS] = {
        [HANGS] = DT_WATCH_IDLE, [POLLS] = DT_WATCH_IDLE,
        [STOPS] = DT_WATCH_STOPPED, [CYCLE] = DT_WATCH_CYCLE};
    static Machine m;
    int64_t ticks, most = 0, all_polls = 0, n_polls = 0;
    for (uint64_t seed = 0; seed < histories(); seed++) {
        const Fault fault = (Fault)(1 + seed % (FAULTS - 1));
        generate(&m, seed, fault);
        const DtWatchEvent event = play(&m, seed, &ticks);
        cr_assert_eq(event.kind, kinds[fault], "history %llu: fault %d, and kind %d",
                     (unsigned long long)seed, fault, event.kind);
        cr_assert(m.guilty >> event.rank & 1,
                  "history %llu: rank %u is blamed for a fault of others", (unsigned long long)seed,
                  event.rank);
        most = fault != POLLS && ticks > most ? ticks : most;
        all_polls += fault == POLLS ? ticks : 0;
        n_polls += fault == POLLS;
    }
    /* a loop that sleeps and looks may lack a core for any time, so that nobody sees it sleep */
    cr_assert_lt((double)all_polls / (double)n_polls, 600, "%.1f s",
                 (double)all_polls / (double)n_polls / 100);
    /* The limit: three seconds, twice the longest time that a waiting rank gets no core to look,
     * and some samples of the watcher. */
    cr_assert_lt(most, 300 + 2 * LONGEST_STARVED + 500, "a fault was found only after %.1f s",
                 (double)most / 100);
}
