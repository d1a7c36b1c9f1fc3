/* SPDX-License-Identifier: Apache-2.0 */
/* The search of `auto`, compared with all layouts: every layout of small spaces (spaces.dsl) is
 * compiled and simulated. No layout may be faster than the winner by more than the printed gap, and
 * no bound may be above the layout's simulated time. DT_SEARCH_ALL=1: tests all spaces, otherwise
 * only the small ones. */
#include "cli/auto.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Space {
    const char *train, *gpus, *memory; /* memory: as a share of a device's */
    bool is_large;
    const char *nodes, *gpu;           /* a cluster of two kinds of nodes; NULL: one node of the
                                        * file's cluster */
} Space;

typedef struct Seen {
    double error[4096]; /* errors of estimates, for layouts that compile */
    /* the same for bytes; by schedule, the first entry is for layouts without stages */
    double memory[DT_SEARCH_SCHEDULES][4096];
    uint32_t n, n_memory[DT_SEARCH_SCHEDULES], refused;
    uint32_t of[DT_SEARCH_SCHEDULES]; /* number of layouts with stages that compile */
    double best;        /* seconds of the fastest layout that fits */
} Seen;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Checks that the planned memory is close to the estimate, whatever a schedule delays. Otherwise
 * layouts would be compiled in vain, or never. */
static void expect_memory(Seen *seen)
{
    for (int k = 0; k < DT_SEARCH_SCHEDULES; k++) {
        double *memory = seen->memory[k];
        const uint32_t n = seen->n_memory[k];
        if (!n)
            continue;
        qsort(memory, n, sizeof *memory, by_value);
        fprintf(
            stderr,
            "  schedule %d: bytes of %u layouts off by %+.1f to %+.1f %%, the median %+.1f %%\n", k,
            n, 100 * memory[0], 100 * memory[n - 1], 100 * memory[n / 2]);
        cr_expect(fabs(memory[n / 2]) < 0.12, "schedule %d: bytes are off by %.1f %% in the median",
                  k, 100 * memory[n / 2]);
        cr_expect(memory[n / 10] > -0.25 && memory[n - 1 - n / 10] < 0.2,
                  "schedule %d: %.1f to %.1f %%", k, 100 * memory[n / 10],
                  100 * memory[n - 1 - n / 10]);
    }
}

static DtProgram *lower(DtCli *cli, const Space *space, const char *path)
{
    const char *memory = dt_arena_printf(cli->arena, "auto (memory = %s)", space->memory);
    DT_PUSH(cli->arena, cli->sets, ((DtOption){"cluster.gpus", space->gpus}));
    if (space->nodes) {
        DT_PUSH(cli->arena, cli->sets, ((DtOption){"cluster.nodes", space->nodes}));
        DT_PUSH(cli->arena, cli->sets, ((DtOption){"cluster.gpu", space->gpu}));
    }
    DT_PUSH(cli->arena, cli->lines, memory);
    cli->train = space->train;
    cli->target = "sm_80";
    cli->epilogues = -1;
    cli->diags = dt_diag_new(cli->arena);
    const DtLowerOptions options = dt_cli_lowering(cli, path);
    DtProgram *program = dt_lower(cli->arena, cli->diags, &options);
    if (dt_diag_errors(cli->diags))
        dt_diag_print(cli->diags, stderr, false);
    cr_assert_eq(dt_diag_errors(cli->diags), 0);
    return program;
}

/* Compiles the layout, and compares it with its estimate. */
static void look_at(DtAuto *a, const DtLayout *layout, const DtCard *card, Seen *seen)
{
    const DtEstimate estimate = dt_estimate(&a->space, &a->model, layout, card);
    DtTrial trial = {.layout = *layout};
    if (!(estimate.seconds < INFINITY))
        return;
    if (dt_auto_simulate(a, layout, &trial)) {
        seen->refused++;
        return;
    }
    seen->of[layout->schedule] += layout->size[DT_ROLE_PIPE] > 1;
    cr_expect_leq(estimate.bound, trial.seconds * (1 + 1e-9), "%s: bound %g above %g",
                  dt_layout_say(a->arena, &a->space, layout), estimate.bound, trial.seconds);
    if (seen->n < 4096)
        seen->error[seen->n++] = fabs(estimate.seconds / trial.seconds - 1);
    const DtSearchSchedule schedule =
        layout->size[DT_ROLE_PIPE] > 1 ? layout->schedule : DT_SEARCH_1F1B;
    if (seen->n_memory[schedule] < 4096)
        seen->memory[schedule][seen->n_memory[schedule]++] = estimate.bytes / trial.bytes - 1;
    if (trial.bytes <= a->space.memory)
        seen->best = fmin(seen->best, trial.seconds);
}

/* ret_of: adds the number of layouts with each schedule. */
static void compare(const Space *space, uint32_t *ret_of)
{
    static Seen seen;
    DtCli cli = {.arena = dt_arena_new()};
    DtAuto a;
    DtLayouts all;
    DtSearch search;
    DtCard card;
    bool has_card = false;
    const DtProgram *program = lower(&cli, space, "tests/search/spaces.dsl");
    cr_assert(dt_auto_begin(&cli, program, "tests/search/spaces.dsl", &a));
    const DtSearchHost host = {.context = &a, .card = dt_auto_card, .simulate = dt_auto_simulate};
    dt_search_run(a.arena, &a.space, &a.model, &host, &search);
    dt_layout_list(a.arena, &a.space, &all);
    seen = (Seen){.best = INFINITY};
    for (uint32_t i = 0; i < all.n; i++) {
        if (i == 0 || !dt_layout_same_class(&a.space, &all.at[i - 1], &all.at[i])) {
            const DtLayout member = dt_layout_of_class(&a.space, &all.at[i], true);
            has_card = dt_auto_card(&a, &member, &card) == NULL;
        }
        if (has_card)
            look_at(&a, &all.at[i], &card, &seen);
    }
    qsort(seen.error, seen.n, sizeof *seen.error, by_value);
    fprintf(stderr,
            "%s on %s x %s: %u layouts, %u compile; best %.4g s, chosen %.4g s, gap %.1f %%; ",
            space->train, space->nodes ? space->nodes : "1", space->gpus, all.n, seen.n, seen.best,
            search.best.seconds, 100 * dt_search_gap(&search));
    fprintf(stderr, "estimates off by %.1f %% (median), %.1f %% (nine of ten), %.1f %% (worst)\n",
            100 * seen.error[seen.n / 2], 100 * seen.error[seen.n * 9 / 10],
            100 * seen.error[seen.n - 1]);
    expect_memory(&seen);
    for (int k = 0; k < DT_SEARCH_SCHEDULES; k++)
        ret_of[k] += seen.of[k];
    cr_expect_gt(seen.n, all.n / 2, "most layouts of the list compile");
    cr_assert_gt(search.best.seconds, 0);
    cr_expect_geq(seen.best, search.best.seconds * (1 - dt_search_gap(&search)) * (1 - 1e-9),
                  "a layout takes %g s, the chosen one %g, with a gap of %g", seen.best,
                  search.best.seconds, dt_search_gap(&search));
    dt_arena_free(a.arena);
    dt_arena_free(cli.arena);
}

#define FAST_AND_SLOW "(\"h100-sxm\", \"a100-80g\")"
#define LARGE_AND_SMALL "(\"h100-sxm\", \"a100-40g\")"
#define SMALL_AND_LARGE "(\"a100-40g\", \"h100-sxm\")"

Test(search, nothing_beats_the_gap)
{
    static const Space spaces[] = {
        {"wide", "4", "0.9", false, NULL, NULL}, {"deep", "2", "0.9", false, NULL, NULL},
        {"gpt", "2", "0.9", false, NULL, NULL}, {"gpt", "2", "0.03", false, NULL, NULL},
        {"wide", "8", "0.9", true, NULL, NULL}, {"deep", "8", "0.03", true, NULL, NULL},
        {"gpt", "4", "0.9", true, NULL, NULL}, {"gpt", "4", "0.03", true, NULL, NULL},
        {"mixture", "2", "0.9", true, NULL, NULL}, {"mixture", "4", "0.05", true, NULL, NULL},
        {"deep", "1", "0.9", false, "(1, 2)", FAST_AND_SLOW},
        {"gpt", "1", "0.05", false, "(1, 1)", LARGE_AND_SMALL},
        {"gpt", "2", "0.9", true, "(1, 1)", FAST_AND_SLOW},
        {"deep", "2", "0.1", true, "(2, 1)", SMALL_AND_LARGE},
    };
    uint32_t of[DT_SEARCH_SCHEDULES] = {0};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!spaces[i].is_large || getenv("DT_SEARCH_ALL"))
            compare(&spaces[i], of);
    for (int k = 0; k < DT_SEARCH_OTHER; k++)
        cr_expect_gt(of[k], 0, "no layout with schedule %d was tried", k);
}
