/* SPDX-License-Identifier: Apache-2.0 */
/* dtc: the compiler. The first word may be a command; otherwise it is the program to compile. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

typedef struct Command {
    const char *name;
    int (*run)(DtCli *cli);
} Command;

static const Command commands[] = {
    {"fmt", dt_cmd_fmt},
    {"explain", dt_cmd_explain},
    {"dump", dt_cmd_dump},
    {"asm", dt_cmd_asm},
};

int main(int argc, char **argv)
{
    const Command *command = NULL;
    for (size_t i = 0; argc > 1 && i < DT_COUNT(commands); i++)
        if (!strcmp(argv[1], commands[i].name))
            command = &commands[i];
    DtCli cli = {.arena = dt_arena_new()};
    bool done = false;
    int code = dt_cli_parse(&cli, argc, argv, command ? 2 : 1, &done);
    if (!done)
        code = command ? command->run(&cli) : dt_cmd_build(&cli);
    dt_text_free(&cli.timing);
    dt_arena_free(cli.arena);
    return code;
}
