/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that computes more slowly than the others slows down all of them, since they wait for it
 * in every exchange; so all steps look alike, and the time of a step does not say whose fault it
 * is. What differs is how long a rank computes itself: the durations of its kernels, products,
 * copies, without exchanges and reads of data.
 *
 * Steps are counted in windows of at least 10 steps, which double until half of the ranks have
 * computed for 0.15 s in one. After each, ranks exchange their times. A rank is named
 * if it took 1.3 times the median of the ranks that do the same work in five windows in a row: a
 * pause of the machine spoils one window, not five. Where no other rank does the same work (a stage
 * of a pipeline), a rank is compared with the fastest window that it had itself, and with how much
 * the others have slowed down since theirs.
 *
 * Two times are judged by this rule, each on its own. The first leaves out time in which the rank
 * could have computed but had no processor: it shows slow hardware. The second counts that, too,
 * also after a wait for others: it shows a rank whose processor other processes use. A scheduler
 * deals out the time of a full machine evenly in the long run only, so these five windows must have
 * ten seconds. Where all ranks lack processors alike nobody is named. A host of which all ranks do,
 * among others that have enough, is named by one of them. */
#include "runtime/straggler.h"

#include "runtime/rank.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 10, WINDOWS = 5, MOST_STEPS = 1 << 20 };
static const double SLOWER = 1.3, WINDOW_S = 0.15, SHARED_S = 10;

/* ---- the rule ---- */

typedef struct Pace {
    double best;     /* the least seconds per step in a window; 0: there was none */
    uint32_t slow;   /* windows in a row in which the rank was slow */
    int64_t steps;   /* of these windows */
    double seconds, own, lost; /* own: seconds that the rank computed */
    bool is_named;
} Pace;

struct DtStragglerRule {
    uint32_t n;
    double least_s;     /* what the windows must have together in which a rank is slow */
    Pace *paces;
    double *sorted, *ratio;
    struct Mate *mates; /* all ranks, those of a team one after the other */
    double *middle;     /* by rank: the median of what its team computed in this window */
    bool *is_alone;     /* by rank: no other rank is in its team */
};

typedef struct Mate {
    uint32_t team, rank;
} Mate;

static int by_team(const void *a, const void *b)
{
    const Mate *x = a, *y = b;
    return x->team != y->team ? (x->team < y->team ? -1 : 1) : x->rank < y->rank ? -1 : 1;
}

DtStragglerRule *dt_straggler_rule(DtArena *memory, uint32_t n_ranks, const uint32_t *team,
                                   double least_s)
{
    DtStragglerRule *rule = DT_NEW(memory, DtStragglerRule);
    *rule = (DtStragglerRule){.n = n_ranks,
                              .least_s = least_s,
                              .paces = DT_NEW_ARRAY(memory, Pace, n_ranks),
                              .sorted = DT_NEW_ARRAY(memory, double, n_ranks),
                              .ratio = DT_NEW_ARRAY(memory, double, n_ranks),
                              .mates = DT_NEW_ARRAY(memory, Mate, n_ranks),
                              .middle = DT_NEW_ARRAY(memory, double, n_ranks),
                              .is_alone = DT_NEW_ARRAY(memory, bool, n_ranks)};
    for (uint32_t r = 0; r < n_ranks; r++)
        rule->mates[r] = (Mate){team[r], r};
    qsort(rule->mates, n_ranks, sizeof *rule->mates, by_team);
    return rule;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median; of an even number of values the lower one in the middle. */
static double median(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[(n - 1) / 2];
}

/* Sets the median of each team once, so that a window of n ranks costs n log n. */
static void find_medians(DtStragglerRule *rule, const double *own)
{
    for (uint32_t at = 0, end; at < rule->n; at = end) {
        for (end = at; end < rule->n && rule->mates[end].team == rule->mates[at].team; end++)
            rule->sorted[end - at] = own[rule->mates[end].rank];
        const double middle = median(rule->sorted, end - at);
        for (uint32_t i = at; i < end; i++) {
            rule->middle[rule->mates[i].rank] = middle;
            rule->is_alone[rule->mates[i].rank] = end - at == 1;
        }
    }
}

/* How much slower than usual the ranks of all teams are in this window. */
static double usual_ratio(DtStragglerRule *rule, const double *own, int64_t steps)
{
    for (uint32_t r = 0; r < rule->n; r++) {
        const double pace = own[r] / (double)steps, best = rule->paces[r].best;
        rule->ratio[r] = best > 0 ? pace / best : 1;
    }
    memcpy(rule->sorted, rule->ratio, rule->n * sizeof *rule->sorted);
    return median(rule->sorted, rule->n);
}

bool dt_straggler_closes(DtStragglerRule *rule, const double *own)
{
    memcpy(rule->sorted, own, rule->n * sizeof *own);
    return median(rule->sorted, rule->n) >= WINDOW_S;
}

void dt_straggler_window(DtStragglerRule *rule, const double *own, int64_t steps, double seconds,
                         bool *ret_named)
{
    const double usual = usual_ratio(rule, own, steps);
    find_medians(rule, own);
    for (uint32_t r = 0; r < rule->n; r++) {
        Pace *p = &rule->paces[r];
        const double pace = own[r] / (double)steps;
        double wanted = rule->middle[r];
        if (rule->is_alone[r])
            wanted = p->best > 0 ? p->best * (double)steps * usual : own[r];
        if (p->best == 0 || pace < p->best)
            p->best = pace;
        ret_named[r] = false;
        if (!(wanted > 0 && own[r] > SLOWER * wanted)) {
            const double best = p->best;
            *p = (Pace){.best = best};
            continue;
        }
        p->slow++;
        p->steps += steps;
        p->seconds += seconds;
        p->own += own[r];
        p->lost += own[r] - wanted;
        ret_named[r] = !p->is_named && p->slow >= WINDOWS && p->seconds >= rule->least_s;
        p->is_named = p->is_named || ret_named[r];
    }
}

double dt_straggler_lost(const DtStragglerRule *rule, uint32_t rank, double *ret_of,
                         double *ret_factor)
{
    const Pace *p = &rule->paces[rank];
    *ret_of = p->seconds;
    *ret_factor = p->own / (p->own - p->lost);
    return p->lost;
}

/* ---- measuring ---- */

/* One of the two times. */
typedef struct Judged {
    DtStragglerRule *rule;
    double *own; /* by rank: seconds of the window */
    bool *named;
} Judged;

struct DtStragglers {
    DtRank *rank;
    Judged work, all; /* without and with the time in which a rank had no processor */
    bool *is_said;    /* by rank */
    int64_t *times;   /* nanoseconds of the window: `work` by rank, `all` by rank, the steps' */
    uint64_t delayed, computed, woken; /* at the end of the last window */
    int64_t steps, wanted;      /* steps of this window so far, and at its end */
    double seconds;
};

uint64_t dt_straggler_delay(const DtRank *rank)
{
    char text[80];
    unsigned long long ran, waited;
    const ssize_t n = rank->schedstat > 0 ? pread(rank->schedstat, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

void dt_straggler_begin(DtRank *rank) { rank->delay_ns = dt_straggler_delay(rank); }

void dt_straggler_end(DtRank *rank)
{
    const uint64_t now = dt_straggler_delay(rank);
    rank->delayed_ns += now > rank->delay_ns ? now - rank->delay_ns : 0;
}

void dt_straggler_woken(const DtRank *rank, DtSlot *slot, uint64_t before)
{
    const uint64_t now = dt_straggler_delay(rank);
    if (slot == rank->slot && now > before)
        atomic_fetch_add_explicit(&slot->woken_ns, now - before, memory_order_relaxed);
}

/* Ranks of one stage with devices of one kind do the same work. */
static const uint32_t *list_teams(const DtRank *rank)
{
    const DtPlan *plan = rank->plan;
    uint32_t *team = DT_NEW_ARRAY(rank->memory, uint32_t, rank->n_ranks);
    for (uint32_t r = 0; r < rank->n_ranks; r++)
        for (team[r] = 0; team[r] < r; team[r]++)
            if (dt_rank_stage(plan, r) == dt_rank_stage(plan, team[r]) &&
                atomic_load(&dt_shared_slot(plan, rank->shared, r)->kind) ==
                    atomic_load(&dt_shared_slot(plan, rank->shared, team[r])->kind))
                break;
    return team;
}

static Judged new_judged(DtRank *rank, const uint32_t *team, double least_s)
{
    return (Judged){.rule = dt_straggler_rule(rank->memory, rank->n_ranks, team, least_s),
                    .own = DT_NEW_ARRAY(rank->memory, double, rank->n_ranks),
                    .named = DT_NEW_ARRAY(rank->memory, bool, rank->n_ranks)};
}

static uint64_t woken_of(const DtRank *rank)
{
    return atomic_load_explicit(&rank->slot->woken_ns, memory_order_relaxed);
}

static void end_window(DtStragglers *s)
{
    s->delayed = s->rank->delayed_ns;
    s->computed = s->rank->computed_ns;
    s->woken = woken_of(s->rank);
    s->steps = 0;
    s->seconds = 0;
}

DtStragglers *dt_straggler_new(DtRank *rank)
{
    if (rank->n_ranks == 1 || !rank->device_ops->is_host)
        return NULL;
    const uint32_t *team = list_teams(rank);
    DtStragglers *s = DT_NEW(rank->memory, DtStragglers);
    *s = (DtStragglers){.rank = rank,
                        .work = new_judged(rank, team, 0),
                        .all = new_judged(rank, team, SHARED_S),
                        .is_said = DT_NEW_ARRAY(rank->memory, bool, rank->n_ranks),
                        .times = DT_NEW_ARRAY(rank->memory, int64_t, 2 * rank->n_ranks + 1),
                        .wanted = STEPS};
    rank->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    end_window(s);
    return s;
}

static const char *host_of(const DtStragglers *s, uint32_t rank)
{
    return dt_shared_slot(s->rank->plan, s->rank->shared, rank)->host;
}

static void say(DtStragglers *s, const Judged *judged, uint32_t r, const char *why, DtText *text)
{
    double of, factor;
    const double lost = dt_straggler_lost(judged->rule, r, &of, &factor);
    const char *host = host_of(s, r);
    s->is_said[r] = true;
    dt_text_printf(text,
                   "rank %u%s%.60s is slow: it computes %.2g times as long as ranks with the same "
                   "work%s, which has cost %.2g of the last %.2g s; the run goes on\n",
                   r, *host ? " on host " : "", host, factor, why, lost, of);
}

/* Whether a rank of that one's host was named. */
static bool is_host_said(const DtStragglers *s, uint32_t rank)
{
    for (uint32_t r = 0; r < s->rank->n_ranks; r++)
        if (s->is_said[r] && strcmp(host_of(s, r), host_of(s, rank)) == 0)
            return true;
    return false;
}

/* Judges a window of so many seconds. */
static void judge(DtStragglers *s, double seconds, DtText *ret_said)
{
    const uint32_t n = s->rank->n_ranks;
    dt_straggler_window(s->work.rule, s->work.own, s->steps, seconds, s->work.named);
    dt_straggler_window(s->all.rule, s->all.own, s->steps, seconds, s->all.named);
    for (uint32_t r = 0; r < n && s->rank->rank == 0; r++)
        if (s->work.named[r] && !s->is_said[r])
            say(s, &s->work, r, "", ret_said);
    for (uint32_t r = 0; r < n && s->rank->rank == 0; r++)
        if (s->all.named[r] && !is_host_said(s, r))
            say(s, &s->all, r, " (other processes use its processor)", ret_said);
}

bool dt_straggler_step(DtStragglers *s, double seconds, DtText *ret_said)
{
    DtRank *rank = s->rank;
    const uint32_t n = rank->n_ranks;
    s->seconds += seconds;
    if (++s->steps < s->wanted)
        return true;
    const uint64_t took = rank->computed_ns - s->computed, delayed = rank->delayed_ns - s->delayed;
    memset(s->times, 0, (2 * n + 1) * sizeof *s->times);
    s->times[rank->rank] = (int64_t)(took > delayed ? took - delayed : 0);
    s->times[n + rank->rank] = (int64_t)(took + woken_of(rank) - s->woken);
    if (rank->rank == 0)
        s->times[2 * n] = (int64_t)(s->seconds * 1e9);
    if (!dt_rank_add_up(rank, s->times, 2 * n + 1))
        return false;
    for (uint32_t r = 0; r < n; r++) {
        s->work.own[r] = (double)s->times[r] * 1e-9;
        s->all.own[r] = (double)s->times[n + r] * 1e-9;
    }
    if (!dt_straggler_closes(s->work.rule, s->work.own) && s->wanted < MOST_STEPS) {
        s->wanted *= 2;
        return true;
    }
    judge(s, (double)s->times[2 * n] * 1e-9, ret_said);
    end_window(s);
    return true;
}
