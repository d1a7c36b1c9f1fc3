/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan keeps of its compilation (plan/origin.h), and how it is compiled again from that,
 * perhaps on another machine: files of the program have paths in the folder that the plan names,
 * where only data and tokenizers are looked for; texts come from the plan. */
#include "cli/cli.h"

#include "base/file.h"
#include "plan/origin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing ---- */

static void add_option(const DtCli *cli, DtOrigin *origin, const char *name, const char *value)
{
    if (value && *value) {
        DT_PUSH(cli->arena, origin->words, name);
        DT_PUSH(cli->arena, origin->words, value);
    }
}

static void add_pairs(const DtCli *cli, DtOrigin *origin, const char *name, const DtOption *pairs,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        add_option(cli, origin, name,
                   dt_arena_printf(cli->arena, "%s=%s", pairs[i].name, pairs[i].value));
}

static void add_flag(const DtCli *cli, DtOrigin *origin, const char *name, bool is_set)
{
    if (is_set)
        DT_PUSH(cli->arena, origin->words, name);
}

void dt_cli_write_origin(const DtCli *cli, DtPlanBuilder *builder)
{
    DtOrigin origin = {.block = cli->block};
    add_pairs(cli, &origin, "--dim", cli->dims.at, cli->dims.n);
    add_pairs(cli, &origin, "--set", cli->sets.at, cli->sets.n);
    for (uint32_t i = 0; i < cli->lines.n; i++)
        add_option(cli, &origin, "--add", cli->lines.at[i]);
    add_option(cli, &origin, "--train", cli->train);
    add_option(cli, &origin, "--parallel", cli->parallel);
    add_option(cli, &origin, "--cluster", cli->cluster);
    add_option(cli, &origin, "--data", cli->synthetic ? "synthetic" : NULL);
    add_option(cli, &origin, "--target", cli->target);
    add_option(cli, &origin, "--rows", cli->rows);
    add_option(cli, &origin, "--epilogues",
               cli->epilogues < 0 ? NULL : cli->epilogues ? "all" : "none");
    add_flag(cli, &origin, "--unfused", cli->unfused);
    add_flag(cli, &origin, "--no-kernels", cli->no_kernels);
    for (uint32_t i = 0; i < cli->reads.n; i++) {
        const DtSourceText *read = &cli->reads.at[i];
        const DtOriginFile file = {read->name, read->text, read->len, read->is_library};
        DT_PUSH(cli->arena, origin.files, file);
    }
    dt_origin_write(builder, &origin); /* a plan of texts that are too long has none */
}

/* ---- reading ---- */

/* Whether these are words that dt_cli_write_origin writes. Others would let a plan of a stranger
 * print, write or read what the caller did not ask for. */
static bool are_written(const char *const *words, uint32_t n)
{
    static const char *const valued[] = {"--dim",     "--set",  "--add",    "--train",
                                         "--parallel", "--cluster", "--data", "--target",
                                         "--rows",    "--epilogues"};
    for (uint32_t i = 0; i < n; i++) {
        bool takes_value = false;
        for (size_t k = 0; k < DT_COUNT(valued); k++)
            takes_value |= !strcmp(words[i], valued[k]);
        if (takes_value ? ++i == n
                        : strcmp(words[i], "--unfused") && strcmp(words[i], "--no-kernels"))
            return false;
    }
    return true;
}

/* The length of the folder of a path, with the slash; 0: it names none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash + 1 - path) : 0;
}

/* Returns where a file of the program is, whose main file was `main` when it was compiled and is in
 * `folder` now. */
static const char *place(DtArena *arena, const char *name, const char *main, const char *folder)
{
    const size_t n = folder_length(main);
    if (strncmp(name, main, n) != 0 || (n == 0 && *name == '/'))
        return name;
    return dt_arena_printf(arena, "%s/%s", folder, name + n);
}

int dt_cli_read_origin(DtCli *cli, const DtPlan *plan, const char *plan_path, DtCli *ret_options,
                       DtSourceTexts *ret_sources, const char **ret_path)
{
    DtOrigin origin;
    bool done;
    if (!dt_origin_read(cli->arena, plan, &origin))
        return dt_cli_fail(DT_EXIT_FAILED,
                           "%s does not hold the program that it was compiled from, as plans of "
                           "older versions: compile the program for the ranks instead",
                           plan_path);
    const char *library = dt_cli_library(cli->arena);
    const char *folder =
        dt_file_beside(cli->arena, plan_path, dt_plan_str(plan, plan->meta->source_folder));
    if (!library)
        library = "library";
    ret_options->library = library;
    for (uint32_t i = 0; i < origin.files.n; i++) {
        const DtOriginFile *file = &origin.files.at[i];
        const DtSourceText source = {
            .path = file->is_library
                        ? dt_arena_printf(cli->arena, "%s/%s", library, file->name)
                        : place(cli->arena, file->name, origin.files.at[0].name, folder),
            .name = file->name, .text = file->text, .len = file->len,
            .is_library = file->is_library};
        DT_PUSH(cli->arena, *ret_sources, source);
    }
    *ret_path = ret_sources->at[0].path;
    if (!are_written(origin.words.at, origin.words.n))
        return dt_cli_fail(DT_EXIT_FAILED, "%s holds other options than dtc writes", plan_path);
    const int code =
        dt_cli_parse(ret_options, (int)origin.words.n, (char *const *)origin.words.at, 0, &done);
    ret_options->block = origin.block;
    return code;
}

const char *dt_cli_old_folder(const DtCli *cli, const char *folder, const char *to)
{
    DtArena *arena = cli->arena;
    const char *inside = dt_arena_printf(arena, "%s/.", folder);
    const size_t n = folder_length(cli->old_path);
    if (access(inside, F_OK) == 0)
        return dt_cli_folder_from(arena, inside, to);
    char *from = realpath(dt_file_beside(arena, cli->old_path, "."), NULL);
    char *here = realpath(dt_file_beside(arena, to ? to : "./plan", "."), NULL);
    const bool stays = from && here && strcmp(from, here) == 0;
    free(from);
    free(here);
    if (stays && strncmp(folder, cli->old_path, n) == 0)
        return folder + n;
    return folder;
}
