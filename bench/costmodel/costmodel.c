/* SPDX-License-Identifier: Apache-2.0 */
/* costmodel [--rows | --left-out | --ablation] TREE: published training steps beside predicted
 * ones.
 *
 * Alone it prints errors by source and bubbles with the constants of the tree, and ends with status
 * 1 if one is above its limit; with --rows each row, too. --left-out fits the constants without
 * each source in turn and predicts that source, with the share of rows that lie in the band that
 * the model gives itself. --ablation does so with a part of the model taken away. */
#include "bench/costmodel/costmodel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Errors in percent, above which the program fails. If two sources have one title, their rows count
 * together. */
static const struct Limit {
    const char *title;
    Source first, last;
    uint32_t rows;
    double mean, worst;
} limits[] = {
    {"SC21 Table 1", SC21, SC21, 10, 3, 6},
    {"recomputation Table 5, dp 8", RECOMPUTE, RECOMPUTE, 9, 3, 7},
    {"its Table 4, layers", LAYER, LAYER, 10, 2, 4},
    {"zero bubble, 1F1B", ZERO_BUBBLE, ZERO_BUBBLE, 33, 4, 9},
    {"torchtitan, bf16", TITAN_A100, TITAN_H100, 17, 6, 12},
};

static const char *const names[SOURCES] = {
    [SC21] = "SC21 Table 1",
    [RECOMPUTE] = "recomputation Table 5",
    [LAYER] = "its Table 4",
    [ZERO_BUBBLE] = "zero bubble, 1F1B",
    [TITAN_A100] = "torchtitan, A100, eager",
    [TITAN_H100] = "torchtitan, H100 500 W",
    [OTHER_SCHEDULES] = "zero bubble, other schedules"};

typedef struct Error { double sum, signed_sum, worst; uint32_t n, inside; } Error;

static void add_error(Error *e, double error, double band)
{
    e->sum += fabs(error);
    e->signed_sum += error;
    e->worst = fmax(e->worst, fabs(error));
    e->n++;
    e->inside += fabs(log1p(error)) <= band;
}

static double mean_of(const Error *e) { return e->n ? 100 * e->sum / e->n : 0; }

static void print_row(const Row *row, Time t, double band)
{
    static const char *const what[] = {"step", "forward", "backward"};
    static const char *const recompute[] = {"none", "core", "every 2nd", "products", "whole"};
    const double seconds = time_total(t);
    printf("%-30.30s %-8s tp %-2d pp %-2d x %d dp %-3d micro %-2d recompute %-9s %10.4f %10.4f "
           "%+6.1f %%  +-%4.1f |",
           row->model, what[row->what], (int)row->tensor, (int)row->stages, (int)row->chunks,
           (int)row->data, (int)row->micro, recompute[row->recompute], row->measured, seconds,
           100 * (seconds / row->measured - 1), 100 * band);
    for (int k = 0; k < DT_COST_KINDS; k++)
        printf(" %4.1f", 100 * t.at[k] / seconds);
    printf("\n");
}

/* Predicts the rows of one source with the constants of `known`. */
static Error predict_source(const Known *known, Rows rows, Source source, Without without,
                            bool prints)
{
    Error error = {0};
    if (prints)
        printf("\n%s: measured and predicted seconds, error, band; %% of products, kernels, "
               "attention, collectives "
               "in a node and across, messages, fixed\n",
               names[source]);
    for (uint32_t i = 0; i < rows.n; i++) {
        const Row *row = &rows.at[i];
        if (row->source != source)
            continue;
        const Setting s = setting_of(known, row, without);
        const Time t = step_of(&s);
        const double band = dt_cost_band(&s.model, t.at);
        if (prints)
            print_row(row, t, band);
        add_error(&error, time_total(t) / row->measured - 1, band);
    }
    return error;
}

static void predict(const Known *known, Rows rows, Without without, bool prints,
                    Error ret_errors[SOURCES])
{
    for (int k = 0; k < SOURCES; k++)
        ret_errors[k] = predict_source(known, rows, (Source)k, without, prints);
}

static bool above(const char *what, double value, double limit)
{
    if (value <= limit)
        return false;
    printf("  above: %s is %.2f, the limit %.2f\n", what, value, limit);
    return true;
}

/* For schedules with interleaved chunks, and with weight gradients in the bubbles: no constant is
 * fitted on these rows. */
static void print_others(const Error *e)
{
    printf("%-30s %4u %6.1f     %%  %6.1f     %% %+6.1f %%   not fitted, no limit\n",
           names[OTHER_SCHEDULES], e->n, mean_of(e), 100 * e->worst, 100 * e->signed_sum / e->n);
}

static int check_errors(const Error errors[SOURCES])
{
    bool bad = false;
    printf("\n%-30s %4s %13s %14s %7s\n", "", "rows", "mean (limit)", "worst (limit)", "bias");
    for (size_t i = 0; i < DT_COUNT(limits); i++) {
        Error e = {0};
        for (int k = (int)limits[i].first; k <= (int)limits[i].last; k++) {
            e.sum += errors[k].sum;
            e.signed_sum += errors[k].signed_sum;
            e.worst = fmax(e.worst, errors[k].worst);
            e.n += errors[k].n;
        }
        printf("%-30s %4u %6.1f (%g) %%  %6.1f (%g) %% %+6.1f %%\n", limits[i].title, e.n,
               mean_of(&e), limits[i].mean, 100 * e.worst, limits[i].worst,
               100 * e.signed_sum / e.n);
        bad = above("mean error", mean_of(&e), limits[i].mean) || bad;
        bad = above("worst error", 100 * e.worst, limits[i].worst) || bad;
        if (e.n != limits[i].rows) {
            printf("  there should be %u rows\n", limits[i].rows);
            bad = true;
        }
    }
    print_others(&errors[OTHER_SCHEDULES]);
    return bad;
}

/* ---- bubbles ---- */

/* The share of the step in which a stage is idle, if each stage takes the profiled times. */
static double bubble(const Profile *p, Schedule schedule)
{
    enum { MOST = 512 };
    double forward[MOST], backward[MOST], weight[MOST];
    const int64_t chunks = schedule == INTERLEAVED ? p->chunks : 1;
    for (int64_t i = 0; i < chunks * p->stages && i < MOST; i++) {
        forward[i] = p->forward / (double)chunks;
        weight[i] = p->weight / (double)chunks;
        backward[i] = p->backward / (double)chunks + (schedule == ZB_H1 ? 0 : weight[i]);
    }
    const Pipeline run = {schedule, p->stages, chunks, p->micro_batches, forward, backward, weight,
                          p->message};
    const double seconds = pipeline_run(run);
    return 1 - (double)p->micro_batches * (p->forward + p->backward + p->weight) / seconds;
}

static int check_bubbles(Profiles profiles, bool prints)
{
    double worst[3] = {0};
    for (uint32_t i = 0; i < profiles.n; i++) {
        const Profile *p = &profiles.at[i];
        const double published[3] = {p->bubble_1f1b, p->bubble_interleaved, p->bubble_zb_h1};
        for (int k = 0; k < 3; k++) {
            const double ours = bubble(p, (Schedule)k);
            worst[k] = fmax(worst[k], 100 * fabs(ours - published[k]));
            if (prints)
                printf("%-30s %s %2d stages, %3d micro-batches: %6.2f %%, published %6.2f\n",
                       k ? "" : p->model,
                       k == 0   ? "1F1B       "
                       : k == 1 ? "interleaved"
                                : "ZB-H1      ",
                       (int)p->stages, (int)p->micro_batches, 100 * ours, 100 * published[k]);
        }
    }
    printf("bubbles of %u profiles, points off: 1F1B %.3f (0.1), ZB-H1 %.3f (0.1), interleaved "
           "%.2f (0.5)\n",
           profiles.n, worst[0], worst[2], worst[1]);
    bool bad = above("1F1B", worst[0], 0.1);
    bad = above("ZB-H1", worst[2], 0.1) || bad;
    return above("interleaved", worst[1], 0.5) || bad || profiles.n != 12;
}

/* ---- what is left out ---- */

static void left_out(DtArena *arena, const Known *known, Rows rows, Without without,
                     Error ret_errors[SOURCES])
{
    for (int k = 0; k < FITTED_SOURCES; k++) {
        Known fit = known_copy(arena, known);
        fit_constants(&fit, rows, (Source)k, without);
        ret_errors[k] = predict_source(&fit, rows, (Source)k, without, false);
    }
}

static int print_left_out(DtArena *arena, const Known *known, Rows rows)
{
    Error errors[SOURCES];
    uint32_t n = 0, inside = 0;
    bool bad = false;
    left_out(arena, known, rows, NOTHING, errors);
    printf("%-30s %4s %6s %6s %7s %s\n", "fitted without", "rows", "mean", "worst", "bias",
           "within the band");
    for (int k = 0; k < FITTED_SOURCES; k++) {
        const Error *e = &errors[k];
        printf("%-30s %4u %4.1f %% %4.1f %% %+5.1f %% %u\n", names[k], e->n, mean_of(e),
               100 * e->worst, 100 * e->signed_sum / e->n, e->inside);
        n += e->n;
        inside += e->inside;
        bad |= above(names[k], mean_of(e), k == TITAN_A100 ? 15 : 8);
    }
    printf("within the band: %u of %u, %.0f %% (80)\n", inside, n, 100.0 * inside / n);
    return bad | above("what the band misses", 100 - 100.0 * inside / n, 20);
}

static void print_ablation(DtArena *arena, const Known *known, Rows rows)
{
    static const char *const parts[WITHOUTS] = {
        [NOTHING] = "nothing",
        [TILES] = "tiles, waves and launches of products",
        [STEPS] = "tiles; Calculon's table instead",
        [KERNELS] = "memory-bound kernels",
        [LAUNCHES] = "launches of kernels",
        [ATTENTION] = "attention",
        [COLLECTIVES] = "collectives",
        [SHARE] = "what computes beside them is slower",
        [MESSAGES] = "messages",
        [BUBBLE] = "the bubble",
        [HEAD] = "head and loss",
        [OPTIMIZER] = "optimizer",
        [FIXED] = "fixed time and jitter of a step"};
    printf("%-40s", "mean error, %: all fitted | left out");
    for (int k = 0; k < FITTED_SOURCES; k++)
        printf(" %-23.23s", names[k]);
    printf("\n");
    for (int w = 0; w < WITHOUTS; w++) {
        Error together[SOURCES], apart[SOURCES];
        Known fit = known_copy(arena, known);
        fit_constants(&fit, rows, SOURCES, (Without)w);
        predict(&fit, rows, (Without)w, false, together);
        left_out(arena, known, rows, (Without)w, apart);
        printf("%-40s", parts[w]);
        for (int k = 0; k < FITTED_SOURCES; k++)
            printf(" %4.1f | %-16.1f", mean_of(&together[k]), mean_of(&apart[k]));
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const char *option = argc == 3 ? argv[1] : "", *tree = argc > 1 ? argv[argc - 1] : ".";
    DtArena *arena = dt_arena_new();
    const Known known = known_read(arena, tree);
    const char *folder = dt_arena_printf(arena, "%s/bench/published", tree);
    const Rows rows = rows_read(arena, folder);
    int bad = 0;
    if (!strcmp(option, "--left-out")) {
        bad = print_left_out(arena, &known, rows);
    } else if (!strcmp(option, "--ablation")) {
        print_ablation(arena, &known, rows);
    } else {
        Error errors[SOURCES];
        predict(&known, rows, NOTHING, !strcmp(option, "--rows"), errors);
        bad = check_errors(errors) |
              check_bubbles(profiles_read(arena, folder), !strcmp(option, "--rows"));
    }
    dt_arena_free(arena);
    return bad;
}
