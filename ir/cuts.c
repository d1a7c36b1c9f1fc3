/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts of a pipeline; see cuts.h. Items are counted by runs of equal ones. So filling takes one
 * step for each run in a piece. Moving an item changes the loads of the pieces where runs meet
 * only: every other piece passes on an item that costs as much as the one that it receives. */
#include "ir/cuts.h"

#include <math.h>
#include <stdbool.h>

static const double LESS = 1 - 1e-9;  /* smaller differences come from the order of additions */
static const double NEAR = 1 - 1e-12; /* relative accuracy of the least limit */

typedef struct Cutter {
    const DtCuts *c;
    int64_t n_items;
    int64_t *first;
    double *load, *size; /* total cost of each stage, of each piece */
} Cutter;

static double cost_of(const Cutter *x, uint32_t run, uint32_t piece)
{
    return x->c->runs[run].cost[x->c->stage_of[piece] * x->c->stage_step];
}

static double cost_at(const Cutter *x, int64_t item, uint32_t piece)
{
    uint32_t run = 0;
    for (; item >= x->c->runs[run].count; run++)
        item -= x->c->runs[run].count;
    return cost_of(x, run, piece);
}

/* ---- filling ---- */

/* Returns how many of n items of this cost go into a piece that may get `left` more cost: as many
 * as fit, but at least `stay` items are left for the pieces that follow. */
static int64_t room(double left, double cost, int64_t n, int64_t stay)
{
    const double fit = cost > 0 ? floor(left / cost) : (double)n;
    const int64_t most = fit >= (double)n ? n : fit > 0 ? (int64_t)fit : 0;
    return most < n - stay ? most : n - stay > 0 ? n - stay : 0;
}

/* Fills pieces in order with a cost of at most `limit` each, and at least one item (x->first).
 * False: n_pieces do not suffice. *ret_least: the smallest limit that would fill some piece
 * differently, if there is one; *ret_most: the cost of the largest piece. */
static bool fill(const Cutter *x, double limit, double *ret_least, double *ret_most)
{
    const uint32_t n = x->c->n_pieces;
    int64_t behind = 0; /* items that are in pieces already */
    uint32_t piece = 0;
    double at = 0;
    x->first[0] = 0;
    *ret_least = INFINITY;
    *ret_most = 0;
    for (uint32_t r = 0; r < x->c->n_runs; r++)
        for (int64_t left = x->c->runs[r].count; left > 0;) {
            const int64_t rest = x->n_items - behind, stay = n - 1 - piece - (rest - left);
            int64_t k = room(limit - at, cost_of(x, r, piece), left, stay > 0 ? stay : 0);
            if (k < left)
                *ret_least = fmin(*ret_least, at + (double)(k + 1) * cost_of(x, r, piece));
            if (k == 0 && behind > x->first[piece]) {
                if (piece + 1 == n)
                    return false;
                x->first[++piece] = behind;
                at = 0;
                continue;
            }
            if (k == 0 && cost_of(x, r, piece) > limit)
                return false;
            k = k ? k : 1;
            at += (double)k * cost_of(x, r, piece);
            *ret_most = fmax(*ret_most, at);
            behind += k;
            left -= k;
        }
    return true;
}

/* The least limit, by bisection; it skips limits that would fill pieces exactly as a limit tried
 * before. */
static void fill_all(const Cutter *x)
{
    double lo = 0, hi = 0, least, filled;
    for (uint32_t r = 0; r < x->c->n_runs; r++) {
        double most = 0;
        for (uint32_t s = 0; s < (x->c->stage_step ? x->c->n_stages : 1); s++)
            most = fmax(most, x->c->runs[r].cost[s]);
        hi += most * (double)x->c->runs[r].count;
    }
    hi *= 1 + 1e-9;
    while (lo < hi * NEAR) {
        const double limit = (lo + hi) / 2;
        if (fill(x, limit, &least, &filled))
            hi = fmin(limit, filled / NEAR);
        else
            lo = fmax(limit, least * NEAR < hi ? least * NEAR : limit);
    }
    fill(x, hi, &least, &filled);
}

static int64_t end_of(const Cutter *x, uint32_t piece)
{
    return piece + 1 < x->c->n_pieces ? x->first[piece + 1] : x->n_items;
}

static void add_up(const Cutter *x)
{
    const DtCuts *c = x->c;
    uint32_t piece = 0;
    int64_t item = 0;
    for (uint32_t s = 0; s < c->n_stages; s++)
        x->load[s] = 0;
    for (uint32_t g = 0; g < c->n_pieces; g++)
        x->size[g] = 0;
    for (uint32_t r = 0; r < c->n_runs; r++)
        for (int64_t left = c->runs[r].count, k; left > 0; left -= k, item += k) {
            while (item >= end_of(x, piece))
                piece++;
            k = end_of(x, piece) - item < left ? end_of(x, piece) - item : left;
            x->size[piece] += (double)k * cost_of(x, r, piece);
        }
    for (uint32_t g = 0; g < c->n_pieces; g++)
        x->load[c->stage_of[g]] += x->size[g];
}

/* ---- moving single items ---- */

/* A change of a piece's cost by moving one item: for the two pieces at its ends, and those between
 * them where runs of equal items meet. */
typedef struct Change { uint32_t piece; double by; } Change;

typedef struct Move {
    uint32_t from, to, n;
    Change at[2 + DT_CUTS_RUNS];
    double worst, then; /* Moves are compared by `worst`, then by `then`; worst INFINITY: the move
                         * is not allowed. */
} Move;

static uint32_t piece_of(const Cutter *x, int64_t item)
{
    uint32_t lo = 0, hi = x->c->n_pieces;
    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;
        if (x->first[mid] <= item)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Sets *m to the move of one item from a piece to another one: each piece between them passes one
 * on and receives one. Of those only the pieces listed in `meet`, where runs of equal items meet,
 * change their cost. */
static void move_of(const Cutter *x, const uint32_t *meet, uint32_t from, uint32_t to, Move *m)
{
    const bool up = from < to; /* the item moves to a later piece */
    const uint32_t lo = up ? from : to, hi = up ? to : from;
    m->from = from;
    m->to = to;
    m->n = 2;
    m->at[0] = (Change){from, -cost_at(x, up ? end_of(x, from) - 1 : x->first[from], from)};
    m->at[1] = (Change){to, cost_at(x, up ? x->first[to] - 1 : end_of(x, to), to)};
    for (uint32_t r = 0; r + 1 < x->c->n_runs; r++) {
        const uint32_t g = meet[r];
        if (g <= lo || g >= hi || (r > 0 && meet[r - 1] == g))
            continue;
        const int64_t in = up ? x->first[g] - 1 : end_of(x, g),
                      out = up ? end_of(x, g) - 1 : x->first[g];
        m->at[m->n++] = (Change){g, cost_at(x, in, g) - cost_at(x, out, g)};
    }
}

static double load_with(const Cutter *x, const Move *m, uint32_t stage)
{
    double load = x->load[stage];
    for (uint32_t i = 0; i < m->n; i++)
        load += x->c->stage_of[m->at[i].piece] == stage ? m->at[i].by : 0;
    return load;
}

/* Sets m->worst to the largest load of a stage (or with `stages` false: cost of a piece) among
 * those that the move changes, or to INFINITY if the move does not help; and m->then, which decides
 * between equal moves. */
static void judge(const Cutter *x, bool stages, double most, double most_load, Move *m)
{
    m->worst = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const double load = load_with(x, m, x->c->stage_of[m->at[i].piece]);
        const double size = x->size[m->at[i].piece] + m->at[i].by;
        m->worst = fmax(m->worst, stages ? load : size);
        if ((stages ? load : size) >= most * LESS || load * LESS > most_load)
            m->worst = INFINITY;
    }
    m->then = stages ? x->size[m->to] - x->size[m->from] : load_with(x, m, x->c->stage_of[m->to]);
}

static bool is_better(const Move *a, const Move *b)
{
    return a->worst < b->worst * LESS ||
           (a->worst * LESS <= b->worst && a->then < b->then - (1 - LESS) * b->worst);
}

static void make(const Cutter *x, const Move *m)
{
    for (uint32_t g = m->from + 1; g <= m->to; g++)
        x->first[g]--;
    for (uint32_t g = m->to + 1; g <= m->from; g++)
        x->first[g]++;
    for (uint32_t i = 0; i < m->n; i++) {
        x->size[m->at[i].piece] += m->at[i].by;
        x->load[x->c->stage_of[m->at[i].piece]] += m->at[i].by;
    }
}

static uint32_t largest(const double *of, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < n; i++)
        most = of[i] > of[most] ? i : most;
    return most;
}

/* Makes the best move of one item away from the stage with the largest load or (stages false) from
 * the largest piece. False: no move helps. */
static bool improve(const Cutter *x, bool stages)
{
    const DtCuts *c = x->c;
    const uint32_t stage = largest(x->load, c->n_stages), piece = largest(x->size, c->n_pieces);
    uint32_t meet[2][DT_CUTS_RUNS]; /* of moves to earlier, to later pieces */
    int64_t start = 0;
    Move best = {.worst = INFINITY}, m;
    for (uint32_t r = 0; r + 1 < c->n_runs; r++) {
        start += c->runs[r].count;
        meet[0][r] = piece_of(x, start - 1);
        meet[1][r] = piece_of(x, start);
    }
    for (uint32_t from = 0; from < c->n_pieces; from++) {
        if (end_of(x, from) - x->first[from] < 2 ||
            (stages ? c->stage_of[from] != stage : from != piece))
            continue;
        for (uint32_t to = 0; to < c->n_pieces; to++) {
            if (to == from)
                continue;
            move_of(x, meet[to > from], from, to, &m);
            judge(x, stages, stages ? x->load[stage] : x->size[piece], x->load[stage], &m);
            if (m.worst < INFINITY && is_better(&m, &best))
                best = m;
        }
    }
    if (best.worst < INFINITY)
        make(x, &best);
    return best.worst < INFINITY;
}

void dt_cuts_find(const DtCuts *cuts, int64_t *ret_first, double *load, double *size)
{
    Cutter x = {.c = cuts, .first = ret_first, .load = load, .size = size};
    for (uint32_t r = 0; r < cuts->n_runs; r++)
        x.n_items += cuts->runs[r].count;
    fill_all(&x);
    if (cuts->n_pieces == cuts->n_stages || cuts->n_runs > DT_CUTS_RUNS)
        return;
    add_up(&x);
    for (int64_t i = 0; i < x.n_items && improve(&x, true); i++)
        ;
    for (int64_t i = 0; i < x.n_items && improve(&x, false); i++)
        ;
}
