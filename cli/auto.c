/* SPDX-License-Identifier: Apache-2.0 */
/* `auto` of a parallel block: runs the search and says what was chosen. */
#include "cli/auto.h"
#include "cli/fit.h"

#include "plan/report/people.h"

#include <math.h>
#include <string.h>

enum { SHOWN = 4 };

/* ---- what it says ---- */

/* Nothing was worth a trial, since nothing compiles or divides. */
static void refuse_all(const DtAuto *a, DtSpan span, const DtSearch *search)
{
    DtDiag *d = dt_diag_report(a->cli->diags, E0513, span, "`auto` finds no layout for %lld devices",
                               (long long)a->space.devices);
    if (search->why)
        dt_diag_note(d, "of %u that were compiled for their parts none will do; the first: %s", search->n_cards,
                     search->why);
    else if (search->n_layouts)
        dt_diag_note(d, "parameters, gradients and optimizer alone do not fit, however they are split");
    else
        dt_diag_note(d, "%s = %lld, axes of parameters and iterations of loops do not divide over so many ranks",
                     a->space.samples.name, (long long)a->space.samples.extent);
}

static void refuse_memory(const DtAuto *a, DtSpan span, const DtSearch *search)
{
    char need[32], have[32];
    double bytes = search->smallest.bytes;
    for (uint32_t i = 0; i < search->trials.n; i++)
        if (search->trials.at[i].seconds > 0)
            bytes = fmin(bytes, search->trials.at[i].bytes);
    DtDiag *d = dt_diag_report(a->cli->diags, E0701, span, "no layout fits: the smallest needs about %s a rank, of %s",
                               dt_people_bytes(need, bytes), dt_people_bytes(have, a->space.memory));
    for (uint32_t i = 0; i < search->trials.n && i < SHOWN; i++)
        dt_diag_note(d, "tried: %s: %s", dt_layout_say(a->arena, &a->space, &search->trials.at[i].layout),
                     search->trials.at[i].why);
    if (!search->trials.n)
        dt_diag_note(d, "that one: %s", dt_layout_say(a->arena, &a->space, &search->smallest_layout));
    dt_diag_help(d, "take more devices, a smaller model, or more of their memory: `auto (memory = 0.97)`");
}

static int refuse(const DtAuto *a, const DtProgram *program, const DtSearch *search)
{
    const DtSpan span = program->parallel->auto_span;
    const bool fits_not = search->smallest.bytes > 0 && a->space.memory > 0;
    if (fits_not)
        refuse_memory(a, span, search);
    else
        refuse_all(a, span, search);
    dt_cli_report(a->cli);
    return fits_not ? DT_EXIT_DOES_NOT_FIT : DT_EXIT_DIAGNOSTICS;
}

static void say_other(const DtAuto *a, const DtTrial *t, const DtTrial *best, DtText *text)
{
    char buf[32], share[32];
    const double longer = t->seconds / best->seconds - 1;
    dt_text_printf(text, "auto: not %s: ", dt_layout_say(a->arena, &a->space, &t->layout));
    if (t->why)
        dt_text_printf(text, "%s\n", t->why);
    else if (a->space.wants_memory)
        dt_text_printf(text, "%s a rank\n", dt_people_bytes(buf, t->bytes));
    else if (longer < 0.0005)
        dt_text_printf(text, "%s, as fast\n", dt_people_seconds(buf, t->seconds));
    else
        dt_text_printf(text, "%s, %s longer\n", dt_people_seconds(buf, t->seconds), dt_people_share(share, longer, 1));
}

static void say_others(const DtAuto *a, const DtSearch *search, DtText *text)
{
    for (uint32_t i = 0, n = 0; i < search->trials.n && n < SHOWN; i++)
        if (memcmp(&search->trials.at[i].layout, &search->best.layout, sizeof search->best.layout)) {
            say_other(a, &search->trials.at[i], &search->best, text);
            n++;
        }
}

/* What would make it faster: links, memory. */
static void say_wishes(DtAuto *a, const DtSearch *search, DtText *text)
{
    char seconds[32], bytes[32];
    double links[2];
    static const char *const names[] = {"links inside a node", "network"};
    dt_auto_links(a, &search->best.layout, &links[0], &links[1]);
    for (int i = 0; i < 2; i++)
        if (links[i] > 0 && links[i] < 0.99 * search->best.seconds)
            dt_text_printf(text, "auto: with twice the %s this one takes %s\n", names[i],
                           dt_people_seconds(seconds, links[i]));
    if (search->larger.seconds > 0)
        dt_text_printf(text, "auto: with %s more a rank about %s: %s\n",
                       dt_people_bytes(bytes, search->larger.bytes - a->space.memory),
                       dt_people_seconds(seconds, search->larger.seconds),
                       dt_layout_say(a->arena, &a->space, &search->larger_layout));
}

static void say(DtAuto *a, const DtSearch *search, double took)
{
    char s[32], low[32], high[32], bytes[32], have[32], gap[32], time[32];
    const DtTrial *best = &search->best;
    DtText text = {0};
    dt_text_printf(&text, "auto: %u layouts; parts of %u compiled, %u priced that may fit, %u simulated, in %s\n",
                   search->n_layouts, search->n_cards, search->n_fit, search->trials.n, dt_people_seconds(time, took));
    dt_text_add(&text, a->cli->block);
    dt_text_printf(&text, "auto: a step takes %s (%s to %s)", dt_people_seconds(s, best->seconds),
                   dt_people_seconds(low, best->low), dt_people_seconds(high, best->high));
    dt_text_printf(&text, ", a rank %s", dt_people_bytes(bytes, best->bytes));
    if (a->space.memory > 0)
        dt_text_printf(&text, " of %s", dt_people_bytes(have, a->model.device->memory_bytes));
    if (a->space.wants_memory)
        dt_text_add(&text, "\n");
    else if (isfinite(search->bound))
        dt_text_printf(&text, "; no layout of these is faster by more than %s\n",
                       dt_people_share(gap, dt_search_gap(search), 1));
    else
        dt_text_add(&text, "; all others were simulated, too\n");
    say_others(a, search, &text);
    if (!a->space.wants_memory)
        say_wishes(a, search, &text);
    fputs(text.at, stderr);
    dt_text_free(&text);
}

/* ---- how many devices ---- */

typedef struct Sizes {
    DtSearch best;
    int64_t devices;     /* of the best; 0: there is none */
    DtSearch last;       /* of the last number that was tried */
    uint32_t n;
    DtText table;
} Sizes;

static double cost_of(const DtProgram *program, const DtSearch *search, int64_t devices)
{
    const char *goal = program->parallel->auto_goal;
    return !strcmp(goal, "memory")         ? search->best.bytes
           : !strcmp(goal, "device_hours") ? search->best.seconds * (double)devices
                                           : search->best.seconds;
}

static void add_row(const DtAuto *a, const DtSearch *search, int64_t devices, DtText *table)
{
    char seconds[32], total[32];
    dt_text_printf(table, "auto: %6lld devices: ", (long long)devices);
    if (search->best.seconds > 0)
        dt_text_printf(table, "%s a step, %s of devices: %s\n", dt_people_seconds(seconds, search->best.seconds),
                       dt_people_seconds(total, search->best.seconds * (double)devices),
                       dt_layout_say(a->arena, &a->space, &search->best.layout));
    else
        dt_text_add(table, "no layout will do\n");
}

static void search_size(DtAuto *a, const DtProgram *program, const DtSearchHost *host, int64_t devices, Sizes *sizes)
{
    DtSearch *search = &sizes->last;
    a->space.devices = devices;
    dt_search_run(a->arena, &a->space, &a->model, host, search);
    add_row(a, search, devices, &sizes->table);
    sizes->n++;
    if (search->best.seconds > 0 && (!sizes->devices || cost_of(program, search, devices) <
                                                            cost_of(program, &sizes->best, sizes->devices))) {
        sizes->best = *search;
        sizes->devices = devices;
    }
}

/* Those of the cluster, or between least and most: one, two, four ... nodes. */
static void search_sizes(DtAuto *a, const DtProgram *program, const DtSearchHost *host, Sizes *sizes)
{
    const int64_t *gpus = program->parallel->auto_gpus, node = a->space.node;
    if (!gpus[0])
        search_size(a, program, host, a->space.devices, sizes);
    for (int64_t n = node; gpus[0] && n <= gpus[1]; n *= 2)
        if (n >= gpus[0])
            search_size(a, program, host, n, sizes);
}

/* ---- all ---- */

static bool check_sizes(DtCli *cli, const DtProgram *program)
{
    const DtParallelConfig *p = program->parallel;
    const int64_t *gpus = p->auto_gpus, node = program->cluster ? program->cluster->gpus : 1;
    int64_t n = node;
    while (gpus[0] && n < gpus[0] && n <= gpus[1])
        n *= 2;
    if (gpus[0] && p->mesh.n)
        dt_diag_report(cli->diags, E0513, p->auto_span,
                       "a `mesh` line says how many devices there are, and so does `gpus`");
    else if (gpus[0] && n > gpus[1])
        dt_diag_report(cli->diags, E0513, p->auto_span,
                       "no power of two of nodes with %lld devices each has %lld to %lld of them", (long long)node,
                       (long long)gpus[0], (long long)gpus[1]);
    else
        return true;
    return false;
}

static void take(DtAuto *a, const DtProgram *program, const Sizes *sizes, double took)
{
    DtCli *cli = a->cli;
    DtText text = {0};
    a->space.devices = sizes->devices;
    dt_layout_print(&a->space, &sizes->best.best.layout, &text);
    cli->block = dt_arena_strndup(cli->arena, text.at, text.len);
    dt_text_free(&text);
    if (program->parallel->auto_gpus[0]) {
        const char *nodes = dt_arena_printf(cli->arena, "%lld", (long long)(sizes->devices / a->space.node));
        const char *key = dt_arena_printf(cli->arena, "%s.nodes", a->space.cluster);
        DT_PUSH(cli->arena, cli->sets, ((DtOption){key, nodes}));
        fputs(sizes->table.at, stderr);
        fprintf(stderr, "auto: taken as if cluster `%s` said `nodes = %s` (--set %s=%s)\n", a->space.cluster, nodes,
                key, nodes);
    }
    say(a, &sizes->best, took);
}

int dt_cli_auto(DtCli *cli, const DtProgram *program, const char *path)
{
    DtAuto a;
    const DtSearchHost host = {.context = &a, .card = dt_auto_card, .simulate = dt_auto_simulate};
    const char *target = cli->target;
    struct timespec begin, end;
    Sizes sizes = {.n = 0};
    int code = DT_EXIT_OK;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (!check_sizes(cli, program) || !dt_auto_begin(cli, program, path, &a))
        return dt_cli_report(cli);
    if (!cli->target)
        cli->target = dt_fit_target(program);
    search_sizes(&a, program, &host, &sizes);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (sizes.devices)
        take(&a, program, &sizes, (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    else
        code = refuse(&a, program, &sizes.last);
    cli->target = target;
    dt_text_free(&sizes.table);
    dt_arena_free(a.arena);
    return code;
}
