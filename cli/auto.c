/* SPDX-License-Identifier: Apache-2.0 */
/* `auto` of a parallel block: runs the search, for one number of devices or several, and takes
 * the best layout. */
#include "cli/auto.h"
#include "cli/fit.h"

#include "plan/report/people.h"

#include <math.h>
#include <string.h>

/* ---- how many devices ---- */

typedef struct Size {
    int64_t devices;
    DtSearch search;
} Size;

typedef struct Sizes {
    DT_VEC(Size) tried;
    DtText table;
} Sizes;

typedef struct DtAutoChoice {
    DtAuto a;
    const DtProgram *program;
    Sizes sizes;
    uint32_t n_sets; /* number of the command line's --set options */
    double took;     /* seconds of the search */
} DtAutoChoice;

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
        dt_text_printf(table, "%s a step, %s of devices: %s\n",
                       dt_people_seconds(seconds, search->best.seconds),
                       dt_people_seconds(total, search->best.seconds * (double)devices),
                       dt_layout_say(a->arena, &a->space, &search->best.layout));
    else
        dt_text_add(table, "no layout will do\n");
}

static void search_size(DtAuto *a, const DtSearchHost *host, int64_t devices, Sizes *sizes)
{
    Size size = {.devices = devices};
    a->space.devices = devices;
    dt_search_run(a->arena, &a->space, &a->model, host, &size.search);
    add_row(a, &size.search, devices, &sizes->table);
    DT_PUSH(a->arena, sizes->tried, size);
}

/* Returns the size with the lowest cost among those for which a layout fits; NULL: none fits. */
static Size *best_of(const DtProgram *program, const Sizes *sizes)
{
    Size *best = NULL;
    for (uint32_t i = 0; i < sizes->tried.n; i++) {
        Size *size = &sizes->tried.at[i];
        if (size->search.best.seconds > 0 &&
            (!best || cost_of(program, &size->search, size->devices) <
                          cost_of(program, &best->search, best->devices)))
            best = size;
    }
    return best;
}

/* Returns how many trials, over all sizes, found no reason against their layout. */
static uint32_t count(const Sizes *sizes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < sizes->tried.n; i++)
        for (uint32_t t = 0; t < sizes->tried.at[i].search.trials.n; t++)
            n += !sizes->tried.at[i].search.trials.at[t].why;
    return n;
}

/* Searches for layouts on each number of nodes: that of the cluster, or one, two, four ... between
 * least and most. */
static void search_sizes(DtAuto *a, const DtProgram *program, const DtSearchHost *host,
                         Sizes *sizes)
{
    const int64_t *gpus = program->parallel->auto_gpus, node = a->space.node;
    if (!gpus[0])
        search_size(a, host, a->space.devices, sizes);
    for (int64_t n = node; gpus[0] && n <= gpus[1]; n *= 2)
        if (n >= gpus[0])
            search_size(a, host, n, sizes);
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
    else if (gpus[0] && program->cluster && program->cluster->n_kinds > 1)
        dt_diag_report(cli->diags, E0513, p->auto_span,
                       "`gpus` chooses how many nodes of one kind, and cluster `%s` has several: "
                       "its `nodes` say how "
                       "many of each",
                       program->cluster->name);
    else if (gpus[0] && n > gpus[1])
        dt_diag_report(cli->diags, E0513, p->auto_span,
                       "no power of two of nodes with %lld devices each has %lld to %lld of them",
                       (long long)node, (long long)gpus[0], (long long)gpus[1]);
    else
        return true;
    return false;
}

static int refuse(const DtAuto *a, const DtProgram *program, const Sizes *sizes)
{
    if (sizes->tried.n > 1 && !a->cli->json)
        fputs(sizes->table.at, stderr);
    return dt_auto_refuse(a, program, &sizes->tried.at[sizes->tried.n - 1].search);
}

static void take(DtAutoChoice *choice, const Size *size)
{
    DtAuto *a = &choice->a;
    DtCli *cli = a->cli;
    DtText text = {0};
    cli->others = count(&choice->sizes) - 1;
    cli->sets.n = choice->n_sets;
    a->space.devices = size->devices;
    dt_layout_print(&a->space, &size->search.best.layout, &text);
    cli->block = dt_arena_strndup(cli->arena, text.at, text.len);
    dt_text_free(&text);
    if (choice->program->parallel->auto_gpus[0]) {
        const char *nodes =
            dt_arena_printf(cli->arena, "%lld", (long long)(size->devices / a->space.node));
        const char *key = dt_arena_printf(cli->arena, "%s.nodes", a->space.cluster);
        DT_PUSH(cli->arena, cli->sets, ((DtOption){key, nodes}));
        if (!cli->json) {
            fputs(dt_cli_text(&choice->sizes.table), stderr);
            dt_text_free(&choice->sizes.table); /* printed only once */
            fprintf(stderr, "auto: taken as if cluster `%s` said `nodes = %s` (--set %s=%s)\n",
                    a->space.cluster, nodes, key, nodes);
        }
    }
    dt_auto_say(a, &size->search, choice->took);
}

/* Returns the text of the layout's parallel block in one line. */
static const char *in_one_line(const DtAuto *a, const DtLayout *layout, DtArena *arena)
{
    DtText text = {0}, one = {0};
    dt_layout_print(&a->space, layout, &text);
    for (const char *at = text.at, *end; *at; at = *end ? end + 1 : end) {
        at += strspn(at, " ");
        end = at + strcspn(at, "\n");
        const bool opens = end > at && end[-1] == '{', last = !*end || !strcmp(end, "\n}\n");
        dt_text_printf(&one, "%.*s%s", (int)(end - at), at,
                       *at == '}'      ? ""
                       : opens || last ? " "
                                       : "; ");
    }
    const char *line = dt_arena_strndup(arena, one.at, one.len);
    dt_text_free(&text);
    dt_text_free(&one);
    return line;
}

int64_t dt_auto_least(const DtAuto *a)
{
    const double state = a->space.parameters * a->space.parameter_bytes;
    return a->space.memory > 0 ? (int64_t)ceil(state / a->space.memory) : 1;
}

bool dt_auto_would(DtCli *cli, const DtProgram *program, const char *path, DtAutoWould *ret_would)
{
    DtCli open = *cli; /* the same command, with a block that leaves all open */
    DtAuto a;
    const DtSearchHost host = {.context = &a, .card = dt_auto_card, .simulate = dt_auto_simulate};
    Sizes sizes = {.table = {0}};
    *ret_would = (DtAutoWould){.line = NULL};
    open.diags = dt_diag_new(cli->arena);
    open.lines.n = 0;
    open.block = dt_arena_printf(cli->arena, "parallel %s on %s { auto }", program->parallel->name,
                                 program->cluster->name);
    const DtLowerOptions options = dt_cli_lowering(&open, path);
    DtProgram *whole = dt_lower(cli->arena, open.diags, &options);
    if (!whole || dt_diag_errors(open.diags))
        return false;
    const bool good = dt_auto_begin(&open, whole, path, &a);
    if (good) {
        open.target = cli->target ? cli->target : dt_fit_target(cli->arena, whole);
        search_size(&a, &host, a.space.devices, &sizes);
    }
    if (good)
        *ret_would = (DtAutoWould){.state = a.space.parameters * a.space.parameter_bytes,
                                   .devices = a.space.devices, .least = dt_auto_least(&a)};
    const Size *best = good ? best_of(whole, &sizes) : NULL;
    if (best) {
        ret_would->line = in_one_line(&a, &best->search.best.layout, cli->arena);
        ret_would->seconds = best->search.best.seconds;
    }
    dt_text_free(&sizes.table);
    dt_arena_free(a.arena);
    return good;
}

int dt_cli_auto(DtCli *cli, const DtProgram *program, const char *path, DtAutoChoice **ret_choice)
{
    DtAutoChoice *choice = DT_NEW(cli->arena, DtAutoChoice);
    const DtSearchHost host = {.context = &choice->a, .card = dt_auto_card,
                               .simulate = dt_auto_simulate};
    const char *target = cli->target;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (!check_sizes(cli, program))
        return dt_cli_report(cli);
    *choice = (DtAutoChoice){.program = program, .n_sets = cli->sets.n};
    *ret_choice = choice;
    if (!dt_auto_begin(cli, program, path, &choice->a))
        return dt_cli_report(cli);
    if (!cli->target)
        cli->target = dt_fit_target(cli->arena, program);
    search_sizes(&choice->a, program, &host, &choice->sizes);
    clock_gettime(CLOCK_MONOTONIC, &end);
    choice->took =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    const Size *best = best_of(program, &choice->sizes);
    int code = DT_EXIT_OK;
    if (best)
        take(choice, best);
    else
        code = refuse(&choice->a, program, &choice->sizes);
    cli->target = target;
    return code;
}

bool dt_cli_auto_next(DtCli *cli, DtAutoChoice *choice)
{
    Size *size = best_of(choice->program, &choice->sizes);
    DtAuto *a = &choice->a;
    a->space.devices = size->devices;
    if (!cli->json)
        fprintf(stderr, "auto: refused: %s: %s\n",
                dt_layout_say(a->arena, &a->space, &size->search.best.layout), cli->refused);
    dt_search_refuse(&a->space, &size->search,
                     cli->json ? cli->refused : "its plan was refused, as is said above");
    cli->refused = NULL;
    size = best_of(choice->program, &choice->sizes);
    if (size)
        take(choice, size);
    return size;
}

void dt_cli_auto_end(DtAutoChoice *choice)
{
    if (!choice)
        return;
    dt_text_free(&choice->sizes.table);
    dt_arena_free(choice->a.arena);
}
