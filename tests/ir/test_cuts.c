/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts of a pipeline, compared with all possible cuts of rows that are small enough to try all. */
#include "ir/cuts.h"

#include <criterion/criterion.h>
#include <math.h>

enum { PIECES = 16 };

typedef struct Row {
    DtCuts cuts;
    DtCutsRun runs[8];
    double cost[8][PIECES];
    uint32_t stage_of[1024];
} Row;

/* the cost of the stage with the most work, and of the largest piece */
typedef struct Result { double load, size; } Result;

static uint32_t draw(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static double cost_at(const Row *row, int64_t item, uint32_t piece)
{
    uint32_t run = 0;
    for (; item >= row->runs[run].count; run++)
        item -= row->runs[run].count;
    return row->runs[run].cost[row->stage_of[piece] * row->cuts.stage_step];
}

static int64_t n_items(const Row *row)
{
    int64_t n = 0;
    for (uint32_t r = 0; r < row->cuts.n_runs; r++)
        n += row->runs[r].count;
    return n;
}

static Result result_of(const Row *row, const int64_t *first)
{
    double load[64] = {0};
    Result ret = {0, 0};
    for (uint32_t g = 0; g < row->cuts.n_pieces; g++) {
        const int64_t end = g + 1 < row->cuts.n_pieces ? first[g + 1] : n_items(row);
        double size = 0;
        cr_assert_lt(first[g], end, "no piece is empty");
        for (int64_t i = first[g]; i < end; i++)
            size += cost_at(row, i, g);
        load[row->stage_of[g]] += size;
        ret.size = fmax(ret.size, size);
        ret.load = fmax(ret.load, load[row->stage_of[g]]);
    }
    return ret;
}

static bool is_less(Result a, Result b)
{
    return a.load < b.load * (1 - 1e-6) ||
           (a.load <= b.load * (1 + 1e-6) && a.size < b.size * (1 - 1e-6));
}

static void try_all(const Row *row, uint32_t piece, int64_t *first, Result *best)
{
    if (piece == row->cuts.n_pieces) {
        const Result r = result_of(row, first);
        *best = is_less(r, *best) ? r : *best;
        return;
    }
    for (int64_t i = first[piece - 1] + 1; i <= n_items(row) - (row->cuts.n_pieces - piece); i++) {
        first[piece] = i;
        try_all(row, piece + 1, first, best);
    }
}

static Result found(const Row *row)
{
    static double load[64], size[1024];
    static int64_t first[1024];
    dt_cuts_find(&row->cuts, first, load, size);
    cr_assert_eq(first[0], 0);
    return result_of(row, first);
}

static void begin(Row *row, uint32_t stages, uint32_t chunks, bool there_and_back)
{
    row->cuts = (DtCuts){.runs = row->runs, .n_stages = stages, .n_pieces = stages * chunks,
                         .stage_of = row->stage_of};
    for (uint32_t g = 0; g < stages * chunks; g++)
        row->stage_of[g] = there_and_back && g >= stages ? 2 * stages - 1 - g : g % stages;
}

static void add(Row *row, int64_t count, double cost)
{
    DtCutsRun *run = &row->runs[row->cuts.n_runs];
    *run = (DtCutsRun){.count = count, .cost = row->cost[row->cuts.n_runs++]};
    row->cost[row->cuts.n_runs - 1][0] = cost;
}

/* Draws a loop with a part before and after it, on stages of one kind or of two. */
static void draw_row(uint64_t *seed, Row *row)
{
    const uint32_t stages = 2 + draw(seed, 2), chunks = 2 + draw(seed, stages == 2 ? 2 : 1);
    begin(row, stages, chunks, chunks == 2 && draw(seed, 3) == 0);
    const double each = 1 + draw(seed, 9), front = draw(seed, 30) / 10.0,
                 back = draw(seed, 40) / 10.0;
    const int64_t n = 5 + draw(seed, 7);
    if (front > 0)
        add(row, 1, front * each);
    add(row, n, each);
    if (back > 0)
        add(row, 1, back * each);
    while (n_items(row) < row->cuts.n_pieces)
        row->runs[row->cuts.n_runs > 1 ? 1 : 0].count++;
    row->cuts.stage_step = draw(seed, 4) == 0;
    for (uint32_t r = 0; row->cuts.stage_step && r < row->cuts.n_runs; r++)
        for (uint32_t s = 1; s < stages; s++)
            row->cost[r][s] = row->cost[r][0] * (s % 2 ? 2 : 1); /* stages of two kinds */
}

Test(cuts, none_are_better_of_one_loop)
{
    uint64_t seed = 1;
    int64_t first[PIECES] = {0};
    for (int i = 0; i < 3000; i++) {
        Row row = {0};
        Result best = {INFINITY, INFINITY};
        draw_row(&seed, &row);
        const Result is = found(&row);
        try_all(&row, 1, first, &best);
        cr_expect_not(is_less(best, is), "row %d: %g and %g, least %g and %g", i, is.load, is.size,
                      best.load, best.size);
    }
}

/* A stage has less than one item more than the mean. */
Test(cuts, two_loops_are_balanced)
{
    uint64_t seed = 2;
    for (int i = 0; i < 1000; i++) {
        Row row = {0};
        const uint32_t stages = 2 + draw(&seed, 8), chunks = 2 + draw(&seed, 3),
                       half = stages * chunks / 2;
        const double other = 1 + draw(&seed, 20) / 10.0;
        double sum = 0, most = 0;
        begin(&row, stages, chunks, chunks == 2 && draw(&seed, 3) == 0);
        add(&row, 1, 0.1 + draw(&seed, 30) / 10.0);
        add(&row, half + draw(&seed, 40), 1);
        add(&row, half + draw(&seed, 40), other);
        add(&row, 1, 0.1 + draw(&seed, 40) / 10.0);
        for (uint32_t r = 0; r < row.cuts.n_runs; r++) {
            sum += row.cost[r][0] * (double)row.runs[r].count;
            most = fmax(most, row.cost[r][0]);
        }
        const Result is = found(&row);
        cr_expect_lt(is.load, sum / stages + most, "row %d: %g of %g", i, is.load, sum / stages);
    }
}

/* Pieces are filled one after the other as far as possible; if each stage has one piece, nothing is
 * moved. */
Test(cuts, one_piece_each_is_filled)
{
    Row row = {0};
    int64_t first[4];
    double load[4], size[4];
    begin(&row, 4, 1, false);
    add(&row, 1, 0.5);
    add(&row, 9, 1);
    dt_cuts_find(&row.cuts, first, load, size);
    cr_expect(first[1] == 3 && first[2] == 6 && first[3] == 9);
}
