/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank holds up the others, and whether it still works.
 *
 * Slow is not hung. A rank is named as hung only if it has made no progress and used no processor time for
 * three seconds while another rank waits for it. One that itself waits for a rank is never to blame (unless
 * they wait in a circle), nor one that would run if the machine gave it a core. One that sits in a read or
 * write may wait for a disk or for a terminal: it is named, but the run goes on. One that computes is named
 * as slow after ten times the usual duration of its instruction (and at least three seconds, so that the
 * noise of a busy machine is no news), and again the run goes on; --timeout is there to end it.
 *
 * Time is what the watcher has seen: if it was itself stopped (Ctrl-Z, a suspended laptop), that gap does not
 * count, nor for an instruction that was under way. The rules work on samples, so that tests can play any history. */
#include "runtime/watch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static const uint64_t QUIET_NS = 3000000000u, LONGEST_LOOK_NS = 500000000u,
                      COMPUTES_NS = 500000000u; /* used processor time so recently */
enum { TIMES_USUAL = 10 };

typedef struct Seen {
    DtWatchSample last;
    uint64_t still_ns; /* since its last progress */
    uint64_t idle_ns;  /* since it last used processor time */
    uint64_t lost_ns;  /* of its instruction, in gaps */
    DtWatchKind named; /* in this standstill */
} Seen;

struct DtWatch {
    uint32_t n_ranks;
    bool has_others; /* ranks elsewhere may wait for any of these */
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

static bool is_stopped(const DtWatchSample *sample)
{
    return sample->state == 'T' || sample->state == 't';
}

static void look(Seen *seen, const DtWatchSample *now, uint64_t since_ns, uint64_t gap_ns)
{
    const DtWatchSample *last = &seen->last;
    bool moved = now->progress != last->progress || now->phase != last->phase || now->mark != last->mark;
    seen->still_ns = moved ? 0 : seen->still_ns + since_ns;
    seen->idle_ns = now->cpu_ticks != last->cpu_ticks ? 0 : seen->idle_ns + since_ns;
    seen->lost_ns = now->began_ns != last->began_ns ? 0 : seen->lost_ns + gap_ns;
    if (moved)
        seen->named = DT_WATCH_NOTHING;
    seen->last = *now;
}

static uint32_t find_waiter(const DtWatch *watch, uint32_t rank)
{
    for (uint32_t r = 0; r < watch->n_ranks; r++) {
        const DtWatchSample *other = &watch->seen[r].last;
        if (r != rank && other->alive && other->waiting && other->waits_for == rank)
            return r;
    }
    return UINT32_MAX;
}

/* Whether the ranks waited for, one after the other from rank, lead back to it, all of them at a standstill. */
static bool is_in_cycle(const DtWatch *watch, uint32_t rank)
{
    uint32_t at = rank;
    for (uint32_t steps = 0; steps <= watch->n_ranks; steps++) {
        const Seen *seen = &watch->seen[at];
        if (!seen->last.alive || !seen->last.waiting || is_stopped(&seen->last) ||
            seen->still_ns < QUIET_NS || seen->last.waits_for >= watch->n_ranks)
            return false;
        at = seen->last.waits_for;
        if (at == rank)
            return true;
    }
    return false;
}

static DtWatchKind judge_idle(const DtWatch *watch, uint32_t rank)
{
    const DtWatchSample *now = &watch->seen[rank].last;
    if (is_stopped(now))
        return DT_WATCH_STOPPED;
    if (now->waiting)
        return is_in_cycle(watch, rank) ? DT_WATCH_CYCLE : DT_WATCH_NOTHING;
    if (now->state == 'R')
        return DT_WATCH_NOTHING;
    return now->state == 'D' || now->reads_or_writes ? DT_WATCH_OUTSIDE : DT_WATCH_IDLE;
}

/* How long its instruction runs. */
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

static DtWatchKind judge(const DtWatch *watch, uint32_t rank, uint32_t waiter, uint64_t now_ns)
{
    const Seen *seen = &watch->seen[rank];
    if (!seen->last.alive || seen->last.phase == DT_PHASE_DONE ||
        seen->last.phase == DT_PHASE_FAILED)
        return DT_WATCH_NOTHING;
    DtWatchKind kind = DT_WATCH_NOTHING;
    if (waiter != UINT32_MAX && seen->still_ns >= QUIET_NS && seen->idle_ns >= QUIET_NS)
        kind = judge_idle(watch, rank);
    else if (waiter != UINT32_MAX && seen->idle_ns < COMPUTES_NS && is_slow(seen, now_ns))
        kind = DT_WATCH_SLOW;
    else if (watch->has_others && is_stopped(&seen->last) && seen->still_ns >= QUIET_NS && seen->idle_ns >= QUIET_NS)
        kind = DT_WATCH_STOPPED;
    bool innocent = seen->last.waiting && !is_stopped(&seen->last);
    if (kind < DT_WATCH_STOPPED && watch->timeout_ns > 0 && seen->still_ns >= watch->timeout_ns &&
        !innocent)
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
        look(&watch->seen[r], &samples[r], since, gap);
    for (uint32_t r = 0; r < watch->n_ranks; r++) {
        uint32_t waiter = find_waiter(watch, r);
        DtWatchKind kind = judge(watch, r, waiter, now_ns);
        if (kind == DT_WATCH_NOTHING)
            continue;
        Seen *seen = &watch->seen[r];
        uint64_t ns = kind == DT_WATCH_SLOW ? runs_ns(seen, now_ns) : seen->still_ns;
        seen->named = kind;
        return (DtWatchEvent){kind, r, waiter, (double)ns * 1e-9};
    }
    return (DtWatchEvent){.kind = DT_WATCH_NOTHING, .waiter = UINT32_MAX};
}

/* ---- samples ---- */

static bool read_proc(int pid, const char *name, char *ret_text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t n = fread(ret_text, 1, size - 1, file);
    fclose(file);
    ret_text[n] = '\0';
    return n > 0;
}

/* State and processor time out of /proc/PID/stat. The name in brackets may contain anything. */
static void read_stat(int pid, DtWatchSample *sample)
{
    char text[1024];
    unsigned long long user, system;
    const char *after = read_proc(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    sample->state = 'R';
    if (after == NULL)
        return;
    if (sscanf(after + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &sample->state,
               &user, &system) == 3)
        sample->cpu_ticks = user + system;
}

/* Whether the process sits in a write to its standard output or error. Where the kernel does not tell: no. */
static bool is_printing(int pid)
{
    char text[256];
    long number;
    unsigned long first;
    if (!read_proc(pid, "syscall", text, sizeof text) ||
        sscanf(text, "%ld %lx", &number, &first) != 2)
        return false;
    return (number == SYS_write || number == SYS_writev) && (first == 1 || first == 2);
}

DtWatchSample dt_watch_sample(const DtPlan *plan, const DtSlot *slot, int pid)
{
    DtWatchSample sample = {
        .alive = pid > 0,
        .waiting = atomic_load_explicit(&slot->waiting, memory_order_relaxed) != 0,
        .waits_for = atomic_load_explicit(&slot->waits_for, memory_order_relaxed),
        .phase = atomic_load_explicit(&slot->phase, memory_order_relaxed),
        .progress = atomic_load_explicit(&slot->progress, memory_order_acquire),
        .mark = atomic_load_explicit(&slot->marks[DT_MARK_INST], memory_order_relaxed),
    };
    if (!sample.alive)
        return sample;
    uint32_t inst = atomic_load_explicit(&slot->inst, memory_order_relaxed);
    bool in_entry = inst < plan->n_insts;
    if (in_entry) {
        sample.began_ns = atomic_load_explicit(&slot->began_ns, memory_order_relaxed);
        sample.usual_ns = atomic_load_explicit(&slot->usual_ns, memory_order_relaxed);
    }
    read_stat(pid, &sample);
    sample.reads_or_writes = sample.phase == DT_PHASE_LOADING || sample.phase == DT_PHASE_SAVING ||
                             (in_entry && plan->insts[inst].kind == DT_INST_READ) ||
                             (sample.state == 'S' && !sample.waiting && is_printing(pid));
    return sample;
}
