/* SPDX-License-Identifier: Apache-2.0 */
/* dtc init: writes a program that trains a model of Hugging Face further, from its config.json.
 * Weights are not read. */
#include "cli/init.h"

#include "base/file.h"
#include "base/modelconfig.h"
#include "frontend/config.h"
#include "plan/report/people.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the folder ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Whether a file of the folder, which may be a file itself, is in the format of llama.cpp. */
static bool has_gguf(const char *folder)
{
    DIR *dir = opendir(folder);
    bool found = ends_with(folder, ".gguf");
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir)) != NULL;)
        found = ends_with(entry->d_name, ".gguf");
    if (dir)
        closedir(dir);
    return found;
}

/* Reports a folder without config.json; returns the exit code. */
static int no_config(const char *folder)
{
    struct stat about;
    if (has_gguf(folder))
        return dt_cli_fail(DT_EXIT_USAGE,
                           "%.300s is quantised for llama.cpp: init takes the folder of the "
                           "safetensors model that it was made from",
                           folder);
    if (stat(folder, &about) != 0 && errno == ENOENT)
        return dt_cli_fail(DT_EXIT_IO,
                           "there is no folder %.200s; a model of the Hub is downloaded by `hf "
                           "download NAME --local-dir FOLDER`",
                           folder);
    if (stat(folder, &about) == 0 && !S_ISDIR(about.st_mode))
        return dt_cli_fail(DT_EXIT_USAGE,
                           "%.300s is no folder; init takes the folder with config.json", folder);
    return dt_cli_fail(DT_EXIT_IO,
                       "%.300s has no config.json, which says how large the model is; init takes "
                       "the folder of a model of Hugging Face",
                       folder);
}

static int read_config(DtInitCommand *init)
{
    DtArena *arena = init->cli->arena;
    struct stat about;
    init->config_path = dt_arena_printf(arena, "%s/config.json", init->folder);
    if (stat(init->config_path, &about) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return no_config(init->folder);
    const DtStatus status = dt_modelconfig_read(arena, init->config_path, &init->config);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    const char *quantised = dt_modelconfig_quantised(arena, init->config, init->folder);
    if (quantised)
        return dt_cli_fail(DT_EXIT_USAGE, "%s", quantised);
    init->type = json_string_value(json_object_get(init->config, "model_type"));
    return init->type ? DT_EXIT_OK
                      : dt_cli_fail(DT_EXIT_USAGE,
                                    "%.300s has no `model_type`, by which the program of the "
                                    "library is chosen",
                                    init->config_path);
}

/* ---- the command line ---- */

/* Refuses a device that the library lacks, with those whose names begin so, or the nearest. */
static int check_device(const DtInitCommand *init)
{
    bool begins = false;
    const char *names[256], *list = "", *device = init->cli->device;
    const uint32_t n =
        dt_library_blocks(init->cli->arena, init->library, "device", names, DT_COUNT(names));
    for (uint32_t i = 0; device && i < n; i++)
        if (!strcmp(names[i], device))
            return DT_EXIT_OK;
    if (!device)
        return DT_EXIT_OK;
    for (uint32_t i = 0; i < n; i++)
        begins |= !strncmp(names[i], device, strlen(device));
    const char *nearest = begins ? NULL : dt_text_nearest(device, names, n);
    for (uint32_t i = 0; i < n; i++)
        if (!begins || !strncmp(names[i], device, strlen(device)))
            list = dt_arena_printf(init->cli->arena, "%s%s%s", list, *list ? ", " : "", names[i]);
    return nearest
               ? dt_cli_fail(DT_EXIT_USAGE, "there is no device %.60s; did you mean %s?", device,
                             nearest)
               : dt_cli_fail(DT_EXIT_USAGE, "there is no device %.60s; there are %s", device, list);
}

static int check(const DtInitCommand *init)
{
    const DtCli *cli = init->cli;
    struct stat about;
    if (cli->words.n != 1)
        return dt_cli_fail(DT_EXIT_USAGE, "init takes the folder of a model: dtc init DIR "
                                          "[--text 'mine/*.txt'] [-o my.dsl]");
    if (cli->dims.n || cli->sets.n || cli->lines.n || cli->train || cli->parallel || cli->cluster ||
        cli->check || cli->params || cli->verify || cli->write || cli->emit || cli->report ||
        cli->target || cli->synthetic || cli->no_kernels)
        return dt_cli_fail(DT_EXIT_USAGE, "init writes a program, and takes --text, --device, "
                                          "--library and -o; other options are for what dtc makes "
                                          "of the program");
    if (!init->library)
        return dt_cli_fail(DT_EXIT_IO, "the library is not found (--library DIR)");
    if (cli->output && stat(cli->output, &about) == 0 && S_ISREG(about.st_mode))
        return dt_cli_fail(DT_EXIT_USAGE,
                           "%.300s exists and is not overwritten: remove it, or name another file",
                           cli->output);
    if (cli->output && stat(cli->output, &about) == 0 && S_ISDIR(about.st_mode))
        return dt_cli_fail(DT_EXIT_IO, "%.300s is a folder; name a file", cli->output);
    return check_device(init);
}

/* ---- the command ---- */

static int write_program(const DtCli *cli, const DtText *text)
{
    if (!cli->output)
        return dt_cli_print(text);
    const DtStatus status = dt_file_write_new(cli->output, text->at, text->len);
    return dt_status_ok(&status) ? DT_EXIT_OK : dt_cli_fail(status.code, "%s", status.message);
}

/* Says what was written, and what is next. */
static void report(const DtInitCommand *init)
{
    char count[32];
    const char *output = init->cli->output;
    DtArena *arena = init->cli->arena;
    dt_text_say(stderr, dt_arena_printf(arena, "dtc: %s%s%s has %s parameters; layouts %s for %s%s",
                                        output ? output : "", output ? ": " : "", init->file,
                                        dt_people_count(count, init->parameters), init->layouts,
                                        init->cli->device ? init->cli->device : "cpu",
                                        init->cli->device ? "" : " (--device: for GPUs)"));
    if (init->data == DT_INIT_ARRAYS)
        dt_text_say(stderr, dt_arena_printf(arena,
                                            "dtc: the program reads arrays of NumPy, an element of "
                                            "the first axis for each sample: %s",
                                            dt_initarrays_files(init)));
    if (init->data == DT_INIT_IMAGES)
        dt_text_say(stderr, dt_arena_printf(arena,
                                            "dtc: the program reads PNG and JPEG files, in a "
                                            "folder for each class: %s",
                                            dt_initimages_files()));
    if (init->note)
        dt_text_say(stderr, init->note);
    if (*init->lacks)
        dt_text_say(stderr, dt_arena_printf(arena,
                                            "dtc: %s: needs more memory than the devices have; "
                                            "`dtc FILE --parallel auto --cluster node` looks for "
                                            "other layouts",
                                            init->lacks));
}

int dt_cmd_init(DtCli *cli)
{
    DtInitCommand init = {.cli = cli,
                          .library = cli->library ? cli->library : dt_cli_library(cli->arena),
                          .output = cli->output ? cli->output : "my.dsl"};
    DtText text = {0};
    int code = check(&init);
    if (code != DT_EXIT_OK)
        return code;
    init.folder = cli->words.at[0];
    for (size_t n = strlen(init.folder); n > 1 && init.folder[n - 1] == '/'; n--)
        init.folder = dt_arena_strndup(cli->arena, init.folder, n - 1);
    code = read_config(&init);
    if (code == DT_EXIT_OK)
        code = dt_initlibrary_choose(&init);
    if (code == DT_EXIT_OK)
        code = dt_initprogram_write(&init, &text);
    if (code == DT_EXIT_OK)
        code = write_program(cli, &text);
    if (code == DT_EXIT_OK)
        report(&init);
    json_decref(init.config);
    dt_text_free(&text);
    return code;
}
