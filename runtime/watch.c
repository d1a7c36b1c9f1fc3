/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rank that holds up the others, and whether that rank still works.
 *
 * Slow is not hung. The watcher ends a run only for a condition that it has seen in every sample of
 * three seconds: a rank that sleeps, waits for nobody and uses almost no processor time; a stopped
 * rank; ranks that wait for each other. Time without progress alone says nothing, since a healthy
 * rank spends it waiting for others or for a core. The beginning and the end of a wait are
 * progress.
 *
 * A wait counts against the rank waited for once it is three seconds old, and only if the waiter
 * has looked since that rank came to a standstill: a waiter that was woken and has no core yet
 * still says that it waits. A cycle of waits is real if every member has looked after the youngest
 * of the waits began, since by then nobody in it could wake anybody.
 *
 * A rank that waits for others is never to blame unless it waits in a cycle, nor is one that would
 * run if the machine gave it a core. A rank in a read or a write may wait for a disk or for a
 * terminal: the watcher names it, but the run goes on. A rank that computes is named as slow after
 * ten times the usual duration of its instruction, waits not counted (and at least three seconds,
 * so that the noise of a busy machine is no news), and again the run goes on; --timeout is there to
 * end it. Work outside of instructions has no usual duration: the watcher names it after three
 * seconds. A rank that has done its work, and whose process does not end, is named after twenty.
 *
 * A loop that sleeps and looks, again and again, is no work: such a rank uses a little processor
 * time, and on a busy machine it often waits for a core when the watcher looks. A rank works if it
 * has used a fifth of the time since the last look, or if it has waited for a core in every look of
 * a second, without going to sleep in between.
 *
 * A rank of another machine counts as a waiter, if that machine says so, and is never to blame
 * here: its own machine judges it. Nor does a cycle of waits lead through it, since a message
 * between machines may be under way for long: cluster_cycles.c judges such cycles.
 *
 * Time is what the watcher has seen: if it was itself stopped (Ctrl-Z, a suspended laptop), that
 * gap does not count, nor for an instruction that was under way. The rules work on samples, so that
 * tests can play any history. */
#include "runtime/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint64_t QUIET_NS = 3000000000u, LONGEST_LOOK_NS = 500000000u,
                      COMPUTES_NS = 500000000u, /* used processor time so recently */
                      READY_NS = 1000000000u, OVER_NS = 20000000000u;
enum { TIMES_USUAL = 10, SHARE = 5 /* a rank that uses less than 1 / SHARE of a core sleeps */ };

/* What a rank did in one sample. OUTSIDE: it reads, writes or prints, so it may wait for something
 * outside of the program; SLEEPS: none of the others. */
typedef enum Does { RUNS, WAITS, STOPPED, OUTSIDE, SLEEPS } Does;

typedef struct Seen {
    DtWatchSample last;
    Does does;
    uint64_t does_ns;  /* for how long every sample has shown this activity */
    uint64_t still_ns; /* time since its last progress, or since a wait began or ended */
    uint64_t still_at; /* dt_now_ns() of the first sample of this standstill */
    uint64_t idle_ns;  /* since it last used processor time */
    uint64_t ready_ns; /* for how long it has waited for a core in every sample */
    bool is_ready;     /* it does so now */
    uint64_t lost_ns;  /* of its instruction, in gaps and in waits */
    DtWatchKind named; /* times that it looked and had to wait on, in this standstill */
} Seen;

struct DtWatch {
    uint32_t n_ranks;
    bool has_others; /* ranks on other machines may wait for any of these ranks */
    uint64_t timeout_ns, last_ns;
    Seen seen[];
};

DtWatch *dt_watch_new(uint32_t n_ranks, double timeout, bool has_others)
{
    DtWatch *watch = calloc(1, sizeof *watch + n_ranks * sizeof(Seen));
    if (watch) {
        watch->n_ranks = n_ranks;
        watch->has_others = has_others;
        watch->timeout_ns = timeout > 0 && timeout < 1e9 ? (uint64_t)(timeout * 1e9) : 0;
    }
    return watch;
}

void dt_watch_free(DtWatch *watch) { free(watch); }

/* ---- rules ---- */

/* Whether the rank waits for a core, and has not slept since it did so at the last look. */
static bool is_ready(const DtWatchSample *now, const DtWatchSample *last)
{
    return now->state == 'R' && (last->state != 'R' || now->sleeps == last->sleeps);
}

/* since_ns: time since the last sample; ready_ns: for how long it has waited for a core. */
static Does does(const DtWatchSample *now, const DtWatchSample *last, uint64_t since_ns,
                 uint64_t ready_ns)
{
    const uint64_t used = now->cpu_ns > last->cpu_ns ? now->cpu_ns - last->cpu_ns : 0;
    if (now->state == 'T' || now->state == 't')
        return STOPPED;
    if (now->waiting)
        return WAITS;
    if (now->state == 'D' || now->reads_or_writes)
        return now->state == 'R' || used > 0 ? RUNS : OUTSIDE;
    return (used > 0 && used >= since_ns / SHARE) || ready_ns >= READY_NS ? RUNS : SLEEPS;
}

/* Whether a wait began or ended since the last sample. */
static bool is_other_wait(const DtWatchSample *now, const DtWatchSample *last)
{
    if (now->waiting != last->waiting)
        return true;
    if (!now->waiting)
        return now->wait_looked_ns != last->wait_looked_ns; /* a rank that has gone on may be named
                                                             * again later */
    return now->waits_for != last->waits_for || now->wait_began_ns != last->wait_began_ns;
}

/* Updates what is known of a rank by a new sample. since_ns: time since the last sample, without
 * the time in which the watcher itself was stopped. */
static void look(Seen *seen, const DtWatchSample *now, uint64_t now_ns, uint64_t since_ns,
                 uint64_t gap_ns)
{
    const DtWatchSample *last = &seen->last;
    seen->ready_ns = is_ready(now, last) ? seen->ready_ns + since_ns : 0;
    seen->is_ready = is_ready(now, last);
    const Does doing = does(now, last, since_ns, seen->ready_ns);
    const bool moved = now->progress != last->progress || now->phase != last->phase ||
                       now->mark != last->mark || is_other_wait(now, last);
    seen->still_ns = moved ? 0 : seen->still_ns + since_ns;
    seen->still_at = moved || seen->still_at == 0 ? now_ns : seen->still_at;
    seen->does_ns = doing != seen->does ? 0 : seen->does_ns + since_ns;
    seen->idle_ns = now->cpu_ns != last->cpu_ns ? 0 : seen->idle_ns + since_ns;
    seen->lost_ns = now->began_ns != last->began_ns
                        ? 0
                        : seen->lost_ns + gap_ns + (now->waiting ? since_ns : 0);
    if (moved)
        seen->named = DT_WATCH_NOTHING;
    seen->does = doing;
    seen->last = *now;
}

static bool waits_long(const Seen *seen)
{
    return seen->last.alive && seen->does == WAITS && seen->still_ns >= QUIET_NS;
}

/* Returns a rank that has waited long for this one, and has looked again since this one made its
 * last progress; UINT32_MAX: there is none. */
static uint32_t find_waiter(const DtWatch *watch, uint32_t rank)
{
    for (uint32_t r = 0; r < watch->n_ranks; r++) {
        const Seen *other = &watch->seen[r];
        if (r != rank && waits_long(other) && other->last.waits_for == rank &&
            other->last.wait_looked_ns > watch->seen[rank].still_at)
            return r;
    }
    return UINT32_MAX;
}

/* Whether the ranks waited for, one after the other from rank, lead back to it, each by a wait that
 * cannot end any more. */
static bool is_in_cycle(const DtWatch *watch, uint32_t rank)
{
    uint64_t youngest_ns = 0, looked_ns = UINT64_MAX;
    uint32_t at = rank;
    for (uint32_t steps = 0; steps <= watch->n_ranks; steps++) {
        const Seen *seen = &watch->seen[at];
        if (!waits_long(seen) || seen->last.is_elsewhere ||
            seen->last.waits_for >= watch->n_ranks)
            return false;
        youngest_ns =
            seen->last.wait_began_ns > youngest_ns ? seen->last.wait_began_ns : youngest_ns;
        looked_ns = seen->last.wait_looked_ns < looked_ns ? seen->last.wait_looked_ns : looked_ns;
        at = seen->last.waits_for;
        if (at == rank)
            return looked_ns > youngest_ns;
    }
    return false;
}

/* Returns what is wrong with a rank for which another one waits (find_waiter). */
static DtWatchKind judge_still(const DtWatch *watch, uint32_t rank)
{
    static const DtWatchKind kinds[] = {[STOPPED] = DT_WATCH_STOPPED,
                                        [OUTSIDE] = DT_WATCH_OUTSIDE,
                                        [SLEEPS] = DT_WATCH_IDLE,
                                        [RUNS] = DT_WATCH_NOTHING};
    const Does doing = watch->seen[rank].does;
    if (doing == WAITS)
        return is_in_cycle(watch, rank) ? DT_WATCH_CYCLE : DT_WATCH_NOTHING;
    if (watch->seen[rank].is_ready) /* it may have been woken just now */
        return DT_WATCH_NOTHING;
    return kinds[doing];
}

/* Returns how long the rank's instruction has run, without gaps and waits. */
static uint64_t runs_ns(const Seen *seen, uint64_t now_ns)
{
    uint64_t since = seen->last.began_ns + seen->lost_ns;
    return seen->last.began_ns == 0 || now_ns < since ? 0 : now_ns - since;
}

static bool is_slow(const Seen *seen, uint64_t now_ns)
{
    uint64_t took = runs_ns(seen, now_ns);
    return !seen->last.waiting && seen->last.usual_ns > 0 && took > QUIET_NS &&
           took / TIMES_USUAL > seen->last.usual_ns;
}

/* Whether the rank computes, in the middle of training, what is no instruction of the plan. */
static bool is_busy_outside(const Seen *seen)
{
    return seen->last.began_ns == 0 && seen->still_ns >= QUIET_NS &&
           (seen->last.phase == DT_PHASE_RUNNING || seen->last.phase == DT_PHASE_EVAL);
}

/* Whether its process stays although its work is done. */
static bool is_over(const Seen *seen)
{
    return seen->last.phase == DT_PHASE_DONE && seen->does != RUNS && seen->does_ns >= OVER_NS;
}

static DtWatchKind judge(const DtWatch *watch, uint32_t rank, uint32_t waiter, uint64_t now_ns)
{
    const Seen *seen = &watch->seen[rank];
    if (!seen->last.alive || seen->last.is_elsewhere || seen->last.phase == DT_PHASE_FAILED)
        return DT_WATCH_NOTHING;
    if (seen->last.phase == DT_PHASE_DONE)
        return is_over(seen) && seen->named != DT_WATCH_OVER ? DT_WATCH_OVER : DT_WATCH_NOTHING;
    DtWatchKind kind = DT_WATCH_NOTHING;
    const bool is_still = seen->still_ns >= QUIET_NS && seen->does_ns >= QUIET_NS;
    if (waiter != UINT32_MAX && is_still)
        kind = judge_still(watch, rank);
    if (waiter != UINT32_MAX && kind == DT_WATCH_NOTHING && seen->does == RUNS &&
        seen->idle_ns < COMPUTES_NS &&
        (is_slow(seen, now_ns) || is_busy_outside(seen)))
        kind = DT_WATCH_SLOW;
    if (watch->has_others && is_still && seen->does == STOPPED)
        kind = DT_WATCH_STOPPED;
    if (kind < DT_WATCH_STOPPED && watch->timeout_ns > 0 && seen->still_ns >= watch->timeout_ns &&
        seen->does != WAITS)
        kind = DT_WATCH_TIMEOUT;
    return kind > seen->named ? kind : DT_WATCH_NOTHING;
}

DtWatchEvent dt_watch_step(DtWatch *watch, const DtWatchSample *samples, uint64_t now_ns)
{
    uint64_t since = watch->last_ns > 0 ? now_ns - watch->last_ns : 0;
    uint64_t gap = since > LONGEST_LOOK_NS ? since - LONGEST_LOOK_NS : 0;
    since -= gap;
    watch->last_ns = now_ns;
    for (uint32_t r = 0; r < watch->n_ranks; r++)
        look(&watch->seen[r], &samples[r], now_ns, since, gap);
    for (uint32_t r = 0; r < watch->n_ranks; r++) {
        uint32_t waiter = find_waiter(watch, r);
        DtWatchKind kind = judge(watch, r, waiter, now_ns);
        if (kind == DT_WATCH_NOTHING)
            continue;
        Seen *seen = &watch->seen[r];
        uint64_t ns = kind == DT_WATCH_SLOW && seen->last.began_ns ? runs_ns(seen, now_ns)
                      : kind == DT_WATCH_OVER                      ? seen->does_ns
                                                                   : seen->still_ns;
        seen->named = kind;
        if (kind == DT_WATCH_CYCLE)
            waiter = seen->last.waits_for; /* ranks outside of the cycle may wait for this rank */
        return (DtWatchEvent){kind, r, waiter, (double)ns * 1e-9};
    }
    return (DtWatchEvent){.kind = DT_WATCH_NOTHING, .waiter = UINT32_MAX};
}

/* ---- samples ---- */

/* The thread of a process whose work a sample shows; number 0: all of them. */
typedef struct Thread {
    int pid, number;
} Thread;

static bool read_proc(Thread of, const char *name, char *ret_text, size_t size)
{
    char path[64], thread[32] = "";
    if (of.number > 0)
        snprintf(thread, sizeof thread, "task/%d/", of.number);
    snprintf(path, sizeof path, "/proc/%d/%s%s", of.pid, thread, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t n = fread(ret_text, 1, size - 1, file);
    fclose(file);
    ret_text[n] = '\0';
    return n > 0;
}

/* Reads the state and the processor time from the file `stat`. The process name in brackets may
 * contain any characters. */
static void read_stat(Thread of, DtWatchSample *sample)
{
    char text[1024];
    unsigned long long user, system;
    const char *after = read_proc(of, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    const long ticks = sysconf(_SC_CLK_TCK);
    sample->state = 'R';
    if (after == NULL)
        return;
    if (sscanf(after + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &sample->state,
               &user, &system) == 3)
        sample->cpu_ns = (user + system) * (1000000000u / (uint64_t)(ticks > 0 ? ticks : 100));
}

static uint64_t read_sleeps(Thread of)
{
    static const char name[] = "\nvoluntary_ctxt_switches:";
    char text[4096];
    const char *at = read_proc(of, "status", text, sizeof text) ? strstr(text, name) : NULL;
    return at ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
}

/* Whether the process blocks in a write to its standard output or error; false if the kernel gives
 * no information. */
static bool is_printing(Thread of)
{
    char text[256];
    long number;
    unsigned long first;
    if (!read_proc(of, "syscall", text, sizeof text) ||
        sscanf(text, "%ld %lx", &number, &first) != 2)
        return false;
    return (number == SYS_write || number == SYS_writev) && (first == 1 || first == 2);
}

DtWatchSample dt_watch_sample(const DtPlan *plan, const DtSlot *slot, int pid)
{
    /* The fields are read in the opposite order to that in which dt_shared_wait writes them, so
     * that the time of a look never belongs to a later wait than the other fields. */
    const uint64_t looked_ns = atomic_load_explicit(&slot->wait_looked_ns, memory_order_acquire);
    const uint32_t waits_for = atomic_load_explicit(&slot->waits_for, memory_order_acquire);
    DtWatchSample sample = {
        .alive = pid > 0,
        .wait_began_ns = atomic_load_explicit(&slot->wait_began_ns, memory_order_acquire),
        .waits_for = waits_for,
        .wait_looked_ns = looked_ns,
        .phase = atomic_load_explicit(&slot->phase, memory_order_relaxed),
        .progress = atomic_load_explicit(&slot->progress, memory_order_acquire),
        .mark = atomic_load_explicit(&slot->marks[DT_MARK_INST], memory_order_relaxed),
    };
    sample.waiting = sample.wait_began_ns != 0;
    if (!sample.alive)
        return sample;
    uint32_t inst = atomic_load_explicit(&slot->inst, memory_order_relaxed);
    bool in_entry = inst < plan->n_insts;
    if (in_entry) {
        sample.began_ns = atomic_load_explicit(&slot->began_ns, memory_order_relaxed);
        sample.usual_ns = atomic_load_explicit(&slot->usual_ns, memory_order_relaxed);
    }
    sample.reads_or_writes = sample.phase == DT_PHASE_LOADING || sample.phase == DT_PHASE_SAVING ||
                             (in_entry && plan->insts[inst].kind == DT_INST_READ);
    /* reads and writes have threads that work for the main one */
    const int worker = atomic_load_explicit(&slot->worker, memory_order_acquire);
    const Thread of = {pid, sample.reads_or_writes ? 0 : worker > 0 ? worker : pid};
    read_stat(of, &sample);
    sample.sleeps = sample.state == 'R' ? read_sleeps(of) : 0;
    sample.reads_or_writes |= sample.state == 'S' && !sample.waiting && is_printing(of);
    return sample;
}
