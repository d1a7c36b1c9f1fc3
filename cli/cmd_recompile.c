/* SPDX-License-Identifier: Apache-2.0 */
/* dtc recompile PLAN [--ranks N] [-o NEW]: compiles the program in a plan again, for another number
 * of ranks. Program, batch and data stay, and so the results but for rounding; each plan is proved,
 * and its program is compared with that of the old one.
 *
 * Sizes count from the layout that the program says, whatever the size of PLAN: so a plan that was
 * made for fewer ranks becomes the first one again. */
#include "cli/cli.h"

#include "plan/read.h"

#include <jansson.h>
#include <stdlib.h>

/* ---- what is said ---- */

static int print_json(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_PRESERVE_ORDER) : NULL;
    DtText line = {0};
    dt_text_printf(&line, "%s\n", text ? text : "{}");
    const int code = dt_cli_print(&line);
    dt_text_free(&line);
    free(text);
    json_decref(root);
    return code;
}

/* Says which numbers of ranks are possible, as a clause. */
static const char *possible(const DtCli *cli, const DtCliSizes *sizes)
{
    const long long fixed = sizes->fixed, most = sizes->most;
    if (fixed == most)
        return dt_arena_printf(cli->arena,
                               "only %lld: no mesh axis splits the batch and nothing else", fixed);
    if (fixed == 1)
        return dt_arena_printf(cli->arena, "1 to %lld", most);
    return dt_arena_printf(cli->arena, "multiples of %lld up to %lld, since the mesh axes that "
                                       "split more than the batch have %lld ranks",
                           fixed, most, fixed);
}

static int print_possible(const DtCli *cli, const DtCliSizes *sizes, int64_t ranks)
{
    DtText text = {0};
    if (cli->json)
        return print_json(json_pack("{s:s, s:I, s:I, s:I, s:I}", "plan", cli->old_path, "ranks",
                                    (json_int_t)ranks, "program_ranks", (json_int_t)sizes->ranks,
                                    "multiple_of", (json_int_t)sizes->fixed, "most",
                                    (json_int_t)sizes->most));
    dt_text_printf(&text, "%s is for %lld rank%s; possible are %s\n", cli->old_path,
                   (long long)ranks, ranks == 1 ? "" : "s", possible(cli, sizes));
    const int code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}

static int print_made(const DtCli *cli, const DtProgram *program)
{
    const DtParallelConfig *parallel = program->parallel;
    const bool pads = cli->resize && cli->resize->pads;
    const int64_t micro = parallel->micro < 1 ? 1 : parallel->micro;
    const int64_t batch = program->train->readers.at[0].types[0]->axes[0].extent;
    int64_t ranks = 1;
    DtText text = {0};
    json_t *mesh = json_object();
    for (uint32_t i = 0; i < parallel->mesh.n; i++) {
        ranks *= parallel->mesh.axes[i].size;
        json_object_set_new(mesh, parallel->mesh.axes[i].name,
                            json_integer((json_int_t)parallel->mesh.axes[i].size));
        dt_text_printf(&text, "%s%s = %lld", i ? ", " : "", parallel->mesh.axes[i].name,
                       (long long)parallel->mesh.axes[i].size);
    }
    int code;
    if (cli->json) {
        code = print_json(json_pack("{s:s, s:I, s:o, s:I, s:I, s:b}", "plan", cli->old_path,
                                    "ranks", (json_int_t)ranks, "mesh", mesh, "batch",
                                    (json_int_t)batch, "micro", (json_int_t)micro, "padded", pads));
    } else {
        DtText line = {0};
        dt_text_printf(&line, "%lld rank%s: mesh %s; a batch of %lld samples%s in %lld "
                              "micro-batch%s\n",
                       (long long)ranks, ranks == 1 ? "" : "s", dt_cli_text(&text),
                       (long long)batch, pads ? ", padded in memory," : "", (long long)micro,
                       micro == 1 ? "" : "es");
        code = dt_cli_print(&line);
        dt_text_free(&line);
        json_decref(mesh);
    }
    dt_text_free(&text);
    return code;
}

/* ---- compiling ---- */

/* Compiles the program with one size (NULL: that of the program) of which `others` come after. A
 * refusal is in cli->refused then, and printed if there are no others. */
static int try_size(DtCli *cli, const char *path, const DtResize *resize, uint32_t others)
{
    cli->resize = resize;
    cli->others = others;
    cli->refused = NULL;
    cli->diags = dt_diag_new(cli->arena);
    DtProgram *program = dt_cli_lower(cli, path);
    int code = program ? dt_cli_compile(cli, program, path) : DT_EXIT_DIAGNOSTICS;
    if (code != DT_EXIT_OK && others && !cli->refused && dt_diag_errors(cli->diags))
        cli->refused = dt_diag_first(cli->diags).message;
    if (code != DT_EXIT_OK && !cli->refused && dt_diag_errors(cli->diags))
        dt_cli_report(cli);
    return code == DT_EXIT_OK ? print_made(cli, program) : code;
}

static int try_sizes(DtCli *cli, const char *path, const DtCliSizes *sizes, int64_t ranks)
{
    int code = DT_EXIT_FAILED;
    if (ranks == sizes->ranks)
        return try_size(cli, path, NULL, 0);
    for (uint32_t i = 0; i < sizes->n; i++) {
        code = try_size(cli, path, &sizes->at[i], sizes->n - i - 1);
        if (code == DT_EXIT_OK || !cli->refused)
            return code;
    }
    return code;
}

static int recompile(DtCli *cli, const DtPlan *plan)
{
    DtCli made = {.arena = cli->arena};
    DtSourceTexts sources = {0};
    DtCliSizes *sizes = DT_NEW(cli->arena, DtCliSizes);
    const char *path;
    int code = dt_cli_read_origin(cli, plan, cli->words.at[0], &made, &sources, &path);
    if (code != DT_EXIT_OK)
        return code;
    made.old = plan;
    made.old_path = cli->words.at[0];
    made.program = "the program in it";
    made.sources = &sources;
    made.output = cli->output;
    made.json = cli->json;
    made.color = cli->color;
    made.no_kernels |= cli->no_kernels;
    DT_PUSH(made.arena, made.words, made.old_path);
    made.diags = dt_diag_new(made.arena);
    const DtProgram *program = dt_cli_lower(&made, path);
    if (!program)
        return dt_cli_report(&made);
    code = dt_cli_sizes(&made, program, cli->ranks, sizes);
    if (code == DT_EXIT_OK && cli->ranks == 0)
        return print_possible(&made, sizes, plan->meta->n_ranks);
    if (code == DT_EXIT_OK && cli->ranks != sizes->ranks && sizes->n == 0)
        return dt_cli_fail(DT_EXIT_FAILED, "%s cannot be for %lld rank%s; possible are %s",
                           made.old_path, (long long)cli->ranks, cli->ranks == 1 ? "" : "s",
                           possible(cli, sizes));
    return code == DT_EXIT_OK ? try_sizes(&made, path, sizes, cli->ranks) : code;
}

/* Whether an option says what the plan says already; then returns its name. */
static const char *of_program(const DtCli *cli)
{
    return cli->dims.n        ? "-D"
           : cli->sets.n      ? "--set"
           : cli->lines.n     ? "--add"
           : cli->train       ? "--train"
           : cli->parallel    ? "--parallel"
           : cli->cluster     ? "--cluster"
           : cli->synthetic   ? "--data"
           : cli->target      ? "--target"
           : cli->rows        ? "--rows"
           : cli->unfused     ? "--unfused"
           : cli->emit        ? "--emit"
           : cli->report      ? "--report"
           : cli->verify      ? "--verify"
           : cli->program     ? "--program"
                              : NULL;
}

int dt_cmd_recompile(DtCli *cli)
{
    DtPlanFile file;
    const char *option = of_program(cli);
    if (cli->words.n != 1)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "recompile needs one plan: dtc recompile PLAN --ranks N -o NEW");
    if (option)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "recompile keeps what the plan was compiled from: %s belongs to `dtc "
                           "FILE.dsl`",
                           option);
    if (cli->output && !cli->ranks)
        return dt_cli_fail(DT_EXIT_USAGE, "-o needs --ranks: for how many ranks is the new plan?");
    DtStatus status = dt_read_file(cli->words.at[0], &file);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    const int code = recompile(cli, &file.plan);
    dt_read_close(&file);
    return code;
}
