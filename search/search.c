/* SPDX-License-Identifier: Apache-2.0 */
/* The search: makes cards of classes, estimates all their layouts, and compiles the best ones. */
#include "search/search.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_CARDS = 240, MOST_TRIALS = 6, MOST_TRIED = 16, MOST_STEPS = 64 };
/* estimates of memory may be wrong by this factor, so the compiled plan decides whether a layout
 * fits */
static const double ROOM = 1.05;
/* a layout that needs more memory is reported if its time is at most this part */
static const double FASTER = 0.99;
/* a layout whose estimated memory is this many times that of the device might still fit */
static const double UNSURE = 1.5;
static const double GAIN = 0.99;      /* micro-batches of twice the size are tried only if they take
                                       * less than this part of the time for each sample */
static const double LARGER = 0.95;    /* and at least this part of it */
/* of the products that would have to be recomputed, at least this part is */
static const double MOSTLY = 0.9;
static const double NEAR = 1.02;      /* layouts with an estimate within this factor of the best are
                                       * tried too */

typedef struct Candidate {
    DtLayout layout;
    DtEstimate estimate;
    bool tried;
} Candidate;

typedef struct Correction { double seconds, bytes; } Correction;

typedef struct Searcher {
    DtArena *arena;
    const DtSpace *space;
    const DtCostModel *model;
    const DtSearchHost *host;
    DtSearch *search;
    /* candidates: the layouts that may fit; larger: those that do not fit by their estimates */
    DT_VEC(Candidate) candidates, larger;
    double best;              /* the smallest estimate so far */
    const DtCard *plain;      /* the last card of a class without recomputation, and such a
                               * layout */
    const DtLayout *of;
    Correction corrections[DT_SEARCH_SCHEDULES + 1][4];
    bool no_micro;            /* the program cannot be split into micro-batches */
} Searcher;

/* Returns what the search minimises: seconds of a step, or bytes if the block asks for the least
 * memory. */
static double cost_of(const DtSpace *space, double seconds, double bytes)
{
    return space->wants_memory ? bytes : seconds;
}

/* ---- classes ---- */

/* The least memory of a rank for parameters, gradients and optimizer state, if everything that can
 * be split is split. */
static double least_state(const Searcher *x, const DtLayout *l)
{
    const double ranks =
        (double)(l->size[DT_ROLE_PIPE] * l->size[DT_ROLE_TENSOR] * l->size[DT_ROLE_EXPERT]);
    const double replicas = l->zero ? (double)dt_layout_replicas(l) : 1;
    const double each = x->space->parameter_bytes, first = l->zero == 3 ? 0 : l->zero == 2 ? 2 : 6;
    return x->space->parameters / ranks * (fmin(first, each) + fmax(each - first, 0) / replicas);
}

static bool may_fit(const Searcher *x, const DtLayout *layout)
{
    return x->space->memory == 0 || least_state(x, layout) <= x->space->memory;
}

static void add_candidate(Searcher *x, const DtLayout *layout, const DtCard *card)
{
    Candidate c = {.layout = *layout, .estimate = dt_estimate(x->space, x->model, layout, card)};
    DtSearch *s = x->search;
    if (!(c.estimate.seconds < INFINITY))
        return;
    if (s->smallest.bytes == 0 || c.estimate.bytes < s->smallest.bytes) {
        s->smallest = c.estimate;
        s->smallest_layout = c.layout;
    }
    if (x->space->memory > 0 && c.estimate.bytes > ROOM * x->space->memory) {
        DT_PUSH(x->arena, x->larger, c);
        return;
    }
    s->n_fit++;
    x->best = fmin(x->best, cost_of(x->space, c.estimate.seconds, c.estimate.bytes));
    DT_PUSH(x->arena, x->candidates, c);
}

/* Layouts that are adjacent in the list. Unless stated otherwise, they are of one class: within a
 * replica, their ranks do the same work. */
typedef struct Class {
    const DtLayout *at;
    uint32_t n;
} Class;

/* Whether the class has valid layouts. If the program cannot be split into micro-batches, a class
 * with micro-batches has none. */
static bool is_open(const Searcher *x, const DtLayout *layout)
{
    return may_fit(x, layout) && !(x->no_micro && layout->micro > 1);
}

/* Returns the layout of the class with the fewest micro-batches, but at least this many; NULL if
 * there is none. */
static const DtLayout *with_micro(Class class, int64_t least)
{
    const DtLayout *few = NULL;
    for (uint32_t i = 0; i < class.n; i++)
        if (class.at[i].micro >= least && (!few || class.at[i].micro < few->micro))
            few = &class.at[i];
    return few;
}

/* Compiles a small layout of the class to measure its times (the class's card): one replica with
 * all samples; or, if that cannot be compiled, as few replicas and micro-batches as a layout of the
 * class has, or one micro-batch. Returns NULL, or why none could be compiled. */
static const char *make_card(Searcher *x, Class class, DtCard *card)
{
    const DtLayout *some = with_micro(class, 2), *none = with_micro(class, 1);
    DtLayout members[3];
    uint32_t n = 0;
    if (!x->no_micro)
        members[n++] = dt_layout_of_class(x->space, class.at, true);
    if (!x->no_micro && some)
        members[n++] = dt_layout_of_class(x->space, some, false);
    if (none && none->micro == 1)
        members[n++] = dt_layout_of_class(x->space, none, false);
    const char *why = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const char *not = x->host->card(x->host->context, &members[i], card);
        x->search->n_cards++;
        if (!not) {
            x->no_micro = x->no_micro || (i > 0 && members[i].micro == 1);
            return NULL;
        }
        why = why ? why : not;
    }
    return why;
}

/* How much of the program's work a rank of this class does, relative to the work of a class without
 * any splits for one sample. */
static double share_of(const Searcher *x, const DtLayout *l)
{
    return (double)dt_layout_local(x->space, l) /
           (double)(l->size[DT_ROLE_CONTEXT] * l->size[DT_ROLE_TENSOR]);
}

static bool some_open(const Searcher *x, Class class)
{
    for (uint32_t i = 0; i < class.n; i++)
        if (is_open(x, &class.at[i]))
            return true;
    return false;
}

/* Lowers the search's bound for layouts that were not estimated, perhaps of several classes, but
 * might be good. Their time is bounded by the card of another class, since they do a certain share
 * of its work or more: splits never make less work of it, and tiles of larger micro-batches leave a
 * little less idle. */
static void leave_out(Searcher *x, Class some)
{
    if (!x->plain && some_open(x, some))
        x->search->bound = 0; /* without a card nothing is known about them */
    for (uint32_t i = 0; x->plain && i < some.n; i++) {
        const double by = LARGER * share_of(x, &some.at[i]) / share_of(x, x->of);
        DtCard less = *x->plain;
        less.front.work *= by;
        less.back.work *= by;
        for (uint32_t k = 0; k < x->space->n_loops; k++)
            less.loops[k].work *= by;
        if (is_open(x, &some.at[i]))
            x->search->bound =
                fmin(x->search->bound, dt_estimate_bound(x->space, x->model, &some.at[i], &less));
    }
}

/* Makes the card of the class, and adds its layouts to the candidates with their estimates. Returns
 * the card; NULL if there is none. */
static const DtCard *look_at(Searcher *x, Class class)
{
    if (!some_open(x, class))
        return NULL;
    if (x->search->n_cards >= MOST_CARDS) {
        leave_out(x, class);
        return NULL;
    }
    DtCard *card = DT_NEW(x->arena, DtCard);
    const char *why = make_card(x, class, card);
    if (why) {
        x->search->why = x->search->why ? x->search->why : why;
        return NULL;
    }
    for (uint32_t i = 0; i < class.n; i++)
        if (is_open(x, &class.at[i]))
            add_candidate(x, &class.at[i], card);
    return card;
}

/* ---- which classes are worth a card ---- */

/* Returns an estimate that is too low for the class: as if recomputation cost nothing except most
 * of the products. 0 if memory is minimised, since recomputation saves memory. */
static double hope_of(const Searcher *x, Class class)
{
    const double share = x->space->remats[class.at->remat].recomputed;
    DtCard dearer = *x->plain;
    double hope = INFINITY;
    for (uint32_t i = 0; i < x->space->n_loops; i++)
        dearer.loops[i].backward +=
            MOSTLY * share * dearer.loops[i].weights; /* the forward pass has as many products as
                                                       * the gradients of weights */
    for (uint32_t i = 0; i < class.n; i++)
        if (may_fit(x, &class.at[i]))
            hope = fmin(hope, dt_estimate(x->space, x->model, &class.at[i], &dearer).seconds);
    return x->space->wants_memory ? 0 : hope; /* recomputation needs less memory */
}

static double per_sample(const DtSpace *s, const DtLayout *l, const DtCard *card)
{
    double seconds =
        card->front.forward + card->front.backward + card->back.forward + card->back.backward;
    for (uint32_t i = 0; i < s->n_loops; i++)
        seconds += (card->loops[i].forward + card->loops[i].backward) * (double)s->loops[i].count;
    return seconds / (double)dt_layout_local(s, l);
}

/* Visits classes that differ only in how much they recompute, with micro-batches of equal size:
 * classes[0] recomputes nothing, the last one everything. The last one is visited first: if even
 * that does not fit, none does. A class in between is skipped if it is slower than the best known
 * layout even when recomputation costs the least possible. */
static void look_at_remats(Searcher *x, const Class *classes, uint32_t n)
{
    const bool known = x->plain && x->of == classes[0].at;
    bool some = true;
    for (uint32_t k = 1; k < n; k++) {
        const Class class = classes[k == 1 ? n - 1 : k - 1];
        const uint32_t before = x->search->n_fit;
        if (!some || (known && hope_of(x, class) > x->best)) {
            leave_out(x, class);
            continue;
        }
        look_at(x, class);
        some = k > 1 || x->search->n_fit > before;
    }
}

/* Visits classes of equal sizes, from small micro-batches to large ones. Stops when larger ones
 * bring no gain any more. */
static void look_at_sizes(Searcher *x, const DtLayout *at, uint32_t n)
{
    const bool in_context = at->size[DT_ROLE_CONTEXT] > 1 && !x->space->has_mesh;
    double before = INFINITY; /* seconds of a sample with smaller micro-batches */
    bool gains = true;
    for (uint32_t first = 0, end; first < n; first = end) {
        const int64_t local = dt_layout_local(x->space, &at[first]);
        Class classes[DT_SPACE_REMATS];
        uint32_t n_classes = 0, from = first;
        for (end = first; end < n && dt_layout_local(x->space, &at[end]) == local; end++)
            if (end + 1 == n || !dt_layout_same_class(x->space, &at[end], &at[end + 1])) {
                classes[n_classes++] = (Class){&at[from], end + 1 - from};
                from = end + 1;
            }
        /* the same work per rank as with fewer ranks that have more samples */
        if (!gains || (in_context && local > 1)) {
            leave_out(x, (Class){&at[first], end - first});
            continue;
        }
        const DtCard *card = look_at(x, classes[0]);
        if (card) {
            gains = !x->space->wants_memory &&
                    per_sample(x->space, classes[0].at, card) < GAIN * before;
            before = per_sample(x->space, classes[0].at, card);
            x->plain = card;
            x->of = classes[0].at;
        }
        look_at_remats(x, classes, n_classes);
    }
}

static bool same_sizes(const DtLayout *a, const DtLayout *b)
{
    return a->size[DT_ROLE_CONTEXT] == b->size[DT_ROLE_CONTEXT] &&
           a->size[DT_ROLE_EXPERT] == b->size[DT_ROLE_EXPERT] &&
           a->size[DT_ROLE_TENSOR] == b->size[DT_ROLE_TENSOR];
}

/* Whether a split over more ranks than before brings nothing any more: a split over fewer ranks had
 * layouts that fit, and the last increase made nothing faster, and would not with more memory
 * either. (A split over more ranks needs less memory.) */
static bool is_useless(const double *best, int steps)
{
    return steps >= 2 && best[0] < INFINITY && best[steps - 1] >= best[steps - 2];
}

/* Whether a layout that does not fit, among those from number `from` on, would be faster than all
 * that fit. */
static bool is_hindered(const Searcher *x, uint32_t from)
{
    for (uint32_t i = from; i < x->larger.n; i++)
        if (cost_of(x->space, x->larger.at[i].estimate.seconds, x->larger.at[i].estimate.bytes) <
            x->best)
            return true;
    return false;
}

/* Visits the tensor splits for each split of experts and each split of positions. Tensors and
 * positions go from few ranks to many, as long as that helps. Experts go from many to few: fewer
 * ranks are no sign that more would not help, since one expert that a rank has alone is fastest. */
static void look_at_all(Searcher *x, const DtLayouts *all)
{
    /* the smallest estimate after each step, for positions and for tensors */
    double best[2][MOST_STEPS];
    int steps[2] = {0};
    uint32_t larger = 0;
    for (uint32_t first = 0, end; first < all->n; first = end) {
        const DtLayout *l = &all->at[first], *last = first ? &all->at[first - 1] : NULL;
        for (end = first + 1; end < all->n && same_sizes(l, &all->at[end]); end++)
            ;
        const bool context = last && l->size[DT_ROLE_CONTEXT] != last->size[DT_ROLE_CONTEXT];
        const bool expert =
            last && (context || l->size[DT_ROLE_EXPERT] != last->size[DT_ROLE_EXPERT]);
        if (last && steps[1] < MOST_STEPS)
            best[1][steps[1]++] = x->best;
        steps[1] = expert ? 0 : steps[1];
        if (context && steps[0] < MOST_STEPS)
            best[0][steps[0]++] = x->best;
        const bool useless = (is_useless(best[0], steps[0]) || is_useless(best[1], steps[1])) &&
                             !is_hindered(x, larger);
        larger = x->larger.n;
        if (useless)
            leave_out(x, (Class){l, end - first});
        else
            look_at_sizes(x, l, end - first);
    }
}

/* ---- trials ---- */

static double cost_of_trial(const DtSpace *space, const DtTrial *t)
{
    return t->seconds > 0 ? cost_of(space, t->seconds, t->bytes) : INFINITY;
}

static int by_cost(const void *a, const void *b, void *context)
{
    const double s = cost_of_trial(context, a), t = cost_of_trial(context, b);
    return s < t ? -1 : s > t;
}

/* Makes the simplest layout the winner (s->best) among those whose times cannot be told from the
 * best one's. */
static void choose(const DtSpace *space, DtSearch *s)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < s->trials.n; i++)
        if (!s->trials.at[i].why)
            least = fmin(least, cost_of_trial(space, &s->trials.at[i]));
    for (uint32_t i = 0; i < s->trials.n; i++) {
        const DtTrial *t = &s->trials.at[i];
        if (!t->why && cost_of_trial(space, t) <= least * DT_SEARCH_ALIKE &&
            (s->best.seconds == 0 ||
             dt_layout_parts(&t->layout) < dt_layout_parts(&s->best.layout)))
            s->best = *t;
    }
}

/* Returns the ratios of simulated to estimated seconds and bytes that were seen in layouts of this
 * kind (schedule, level of zero). */
static Correction *correction(Searcher *x, const DtLayout *l)
{
    return &x->corrections[l->size[DT_ROLE_PIPE] > 1 ? 1 + l->schedule : 0][l->zero];
}

/* Compiles a candidate and simulates its plan, and records the trial and how far its estimate was
 * off. If the layout fits, lowers *best and counts it in *good. */
static void try_one(Searcher *x, Candidate *c, double *best, uint32_t *good)
{
    DtTrial trial = {.layout = c->layout, .estimate = c->estimate};
    Correction *learned = correction(x, &c->layout);
    trial.why = x->host->simulate(x->host->context, &c->layout, &trial);
    c->tried = true;
    if (trial.why) {
        trial.seconds = 0;
    } else {
        learned->seconds = trial.seconds / c->estimate.seconds;
        learned->bytes = trial.bytes / c->estimate.bytes;
        if (x->space->memory > 0 && trial.bytes > x->space->memory)
            trial.why = "it does not fit";
    }
    if (!trial.why) {
        *best = fmin(*best, cost_of_trial(x->space, &trial));
        ++*good;
    }
    DT_PUSH(x->arena, x->search->trials, trial);
}

/* Returns the candidate with the lowest corrected estimate that was not compiled yet; NULL if none
 * is left that may fit. ret_cost: that estimate. */
static Candidate *next_candidate(Searcher *x, double *ret_cost)
{
    Candidate *next = NULL;
    *ret_cost = INFINITY;
    for (uint32_t i = 0; i < x->candidates.n; i++) {
        Candidate *c = &x->candidates.at[i];
        const Correction *learned = correction(x, &c->layout);
        const double bytes = c->estimate.bytes * learned->bytes;
        const double cost = cost_of(x->space, c->estimate.seconds * learned->seconds, bytes);
        const bool fits = x->space->memory == 0 || bytes <= x->space->memory;
        if (!c->tried && fits && cost < *ret_cost) {
            next = c;
            *ret_cost = cost;
        }
    }
    return next;
}

static void try_candidates(Searcher *x)
{
    uint32_t good = 0;
    double best = INFINITY, cost;
    for (Candidate *c; good < MOST_TRIALS && x->search->trials.n < MOST_TRIED &&
                       (c = next_candidate(x, &cost));) {
        if (cost > NEAR * best)
            break;
        try_one(x, c, &best, &good);
    }
    if (x->search->trials.n)
        qsort_r(x->search->trials.at, x->search->trials.n, sizeof *x->search->trials.at, by_cost,
                (void *)(uintptr_t)x->space);
    choose(x->space, x->search);
    for (uint32_t i = 0; i < x->candidates.n; i++) {
        const Candidate *c = &x->candidates.at[i];
        const double bytes = c->estimate.bytes * correction(x, &c->layout)->bytes;
        if (!c->tried && (x->space->memory == 0 || bytes <= x->space->memory))
            x->search->bound = fmin(x->search->bound, c->estimate.bound);
    }
    for (uint32_t i = 0; i < x->larger.n; i++)
        if (x->larger.at[i].estimate.bytes <= UNSURE * x->space->memory)
            x->search->bound = fmin(x->search->bound, x->larger.at[i].estimate.bound);
}

/* Finds the layout that would be faster than the winner and needs the least additional memory
 * (s->larger). */
static void find_larger(Searcher *x)
{
    DtSearch *s = x->search;
    for (uint32_t i = 0; i < x->larger.n; i++) {
        const Candidate *c = &x->larger.at[i];
        if (c->estimate.seconds * correction(x, &c->layout)->seconds < FASTER * s->best.seconds &&
            (s->larger.seconds == 0 || c->estimate.bytes < s->larger.bytes)) {
            s->larger = c->estimate;
            s->larger_layout = c->layout;
        }
    }
}

void dt_search_refuse(const DtSpace *space, DtSearch *search, const char *why)
{
    for (uint32_t i = 0; i < search->trials.n; i++) {
        DtTrial *t = &search->trials.at[i];
        if (!t->why && dt_layout_same(&t->layout, &search->best.layout)) {
            t->why = why;
            t->seconds = 0;
        }
    }
    search->best = (DtTrial){.seconds = 0};
    choose(space, search);
}

double dt_search_gap(const DtSearch *search)
{
    return search->best.seconds > 0 ? fmax(0, 1 - search->bound / search->best.seconds) : 0;
}

void dt_search_run(DtArena *arena, const DtSpace *space, const DtCostModel *model,
                   const DtSearchHost *host, DtSearch *ret_search)
{
    Searcher x = {.arena = arena, .space = space, .model = model, .host = host,
                  .search = ret_search, .best = INFINITY};
    DtLayouts all;
    *ret_search = (DtSearch){.bound = INFINITY};
    for (int i = 0; i <= DT_SEARCH_SCHEDULES; i++)
        for (int z = 0; z < 4; z++)
            x.corrections[i][z] = (Correction){.seconds = 1, .bytes = 1 / ROOM};
    dt_layout_list(arena, space, &all);
    ret_search->n_layouts = all.n;
    if (all.n == DT_LAYOUTS_MOST)
        ret_search->bound = 0; /* there are more */
    look_at_all(&x, &all);
    try_candidates(&x);
    find_larger(&x);
}
