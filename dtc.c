/* SPDX-License-Identifier: Apache-2.0 */
/* dtc: the compiler. The first word may be a command; otherwise it is the program to compile. */
#include "cli/cli.h"

#include "base/intern.h"
#include "base/stack.h"
#include "runtime/inspect.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct Command {
    const char *name;
    int (*run)(DtCli *cli);
} Command;

/* dtc inspect CHECKPOINT: the runtime knows what a checkpoint is, and only the programs see it. */
static int inspect(DtCli *cli)
{
    DtText text = {0};
    if (cli->words.n != 1)
        return dt_cli_fail(DT_EXIT_USAGE, "inspect takes one checkpoint, or the folder of a run");
    const DtStatus status = dt_inspect(cli->words.at[0], cli->verify, cli->json, &text);
    const int code = dt_cli_print(&text);
    dt_text_free(&text);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    return code;
}

static const Command commands[] = {
    {"init", dt_cmd_init},
    {"fmt", dt_cmd_fmt},
    {"explain", dt_cmd_explain},
    {"inspect", inspect},
    {"dump", dt_cmd_dump},
    {"asm", dt_cmd_asm},
    {"recompile", dt_cmd_recompile},
    {"verify", dt_cmd_verify},
    {"report", dt_cmd_report},
    {"compare", dt_cmd_compare},
    {"calibrate", dt_cmd_calibrate},
    {"--calibrate", dt_cmd_calibrate},
};

typedef struct Main {
    int argc;
    char **argv;
    int code;
} Main;

static void *run(void *data)
{
    Main *all = data;
    const Command *command = NULL;
    for (size_t i = 0; all->argc > 1 && i < DT_COUNT(commands); i++)
        if (!strcmp(all->argv[1], commands[i].name))
            command = &commands[i];
    DtCli cli = {.arena = dt_arena_new(), .try_fixes = dt_cli_try_fixes};
    bool done = false;
    all->code = dt_cli_parse(&cli, all->argc, all->argv, command ? 2 : 1, &done);
    if (!done)
        all->code = command ? command->run(&cli) : dt_cmd_build(&cli);
    dt_text_free(&cli.timing);
    dt_arena_free(cli.arena);
    dt_intern_forget();
    return NULL;
}

int main(int argc, char **argv)
{
    Main all = {argc, argv, DT_EXIT_FAILED};
    pthread_t thread;
    signal(SIGXFSZ, SIG_IGN); /* files that may not grow (ulimit -f) are a full disk */
    if (dt_stack_start(run, &all, &thread))
        pthread_join(thread, NULL);
    else
        run(&all);
    return all.code;
}
