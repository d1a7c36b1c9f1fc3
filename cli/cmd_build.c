/* SPDX-License-Identifier: Apache-2.0 */
/* dtc FILE: checks a program and produces what the options ask for. */
#include "cli/cli.h"

#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SOURCE = 4 << 20 };

/* Prints the syntax tree of the file alone, as far as it parses; needs neither includes nor the
 * library. */
static int emit_ast(DtCli *cli, const char *path)
{
    char *source;
    size_t len;
    DtText text = {0};
    DtStatus status = dt_file_read(cli->arena, path, MAX_SOURCE, &source, &len);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    dt_ast_print(dt_parse(cli->arena, cli->diags, dt_diag_add_file(cli->diags, path, source, len)),
                 &text);
    int printed = dt_cli_write(cli, &text);
    dt_text_free(&text);
    int reported = dt_cli_report(cli);
    return printed != DT_EXIT_OK ? printed : reported;
}

static int list_passes(void)
{
    DtText text = {0};
    dt_cli_list_passes(&text);
    int code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}

DtProgram *dt_cli_lower(DtCli *cli, const char *path)
{
    DtLowerOptions options = dt_cli_lowering(cli, path);
    options.ret_ast = &cli->ast;
    cli->reads = (DtSourceTexts){0};
    options.ret_sources = &cli->reads;
    DtCliClock clock = dt_cli_clock(cli);
    DtProgram *program = dt_lower(cli->arena, cli->diags, &options);
    dt_cli_lap(cli, &clock, "parse, check, lower");
    return dt_diag_errors(cli->diags) ? NULL : program;
}

/* Prints the outputs that need no passes: the table of parameters, and the lowered program. */
static int print_program(const DtCli *cli, const DtProgram *program)
{
    DtText text = {0};
    if (cli->params)
        dt_cli_params(program, cli->json, &text);
    int code = dt_cli_print(&text);
    dt_text_free(&text);
    if (cli->emit != DT_EMIT_IR || code != DT_EXIT_OK)
        return code;
    text = (DtText){0};
    dt_irtext_print(program->module, &text);
    code = dt_cli_write(cli, &text);
    dt_text_free(&text);
    return code;
}

/* Whether the program has several layouts and none is chosen. --check then checks their lines, but
 * not whether they compile. */
static bool is_open(const DtCli *cli, const DtProgram *program)
{
    return program->parallels.n > 1 && !program->parallel && !cli->parallel;
}

/* Whether the output needs passes. A table of parameters does not, nor the program as lowered, nor
 * the check of a program that has no layout or trains nothing. */
static bool wants_passes(const DtCli *cli, const DtProgram *program)
{
    if (cli->emit >= DT_EMIT_PLAN || (cli->output && !cli->emit) || cli->report ||
        cli->print_after.n || cli->time_passes || cli->verify || cli->against)
        return true;
    return !cli->params && !cli->emit && program->train && !is_open(cli, program);
}

/* Lowers the program, and lets `auto` choose the layout if the program leaves it open and the
 * output needs one. NULL after a message. */
static DtProgram *complete(DtCli *cli, const char *path, struct DtAutoChoice **ret_choice,
                           int *ret_code)
{
    DtProgram *program = dt_cli_lower(cli, path);
    *ret_code = program ? DT_EXIT_OK : dt_cli_report(cli);
    if (program && program->parallel && program->parallel->is_auto && wants_passes(cli, program)) {
        DtCliClock clock = dt_cli_clock(cli);
        *ret_code = dt_cli_auto(cli, program, path, ret_choice);
        dt_cli_lap(cli, &clock, "auto");
        cli->diags = dt_diag_new(cli->arena); /* diagnostics on the block were on its text */
        program = *ret_code == DT_EXIT_OK ? dt_cli_lower(cli, path) : NULL;
    }
    if (!program && *ret_code == DT_EXIT_OK)
        *ret_code = DT_EXIT_FAILED;
    return program;
}

/* Compiles the program; while its layout is refused, tries the next one that `auto` offers.
 * ret_program: the program that was compiled last. */
static int compile(DtCli *cli, const char *path, struct DtAutoChoice *choice,
                   DtProgram **ret_program)
{
    int code = dt_cli_compile(cli, *ret_program, path);
    while (cli->refused && dt_cli_auto_next(cli, choice)) {
        cli->diags = dt_diag_new(cli->arena);
        *ret_program = dt_cli_lower(cli, path);
        if (!*ret_program)
            return dt_cli_report(cli);
        code = dt_cli_compile(cli, *ret_program, path);
    }
    return code;
}

static int build_from(DtCli *cli, const char *path, struct DtAutoChoice **ret_choice)
{
    int code;
    DtProgram *program = complete(cli, path, ret_choice, &code);
    if (!program)
        return code;
    if (cli->verify && program->module->entries.n == 0)
        code = dt_cli_fail(DT_EXIT_USAGE, "there is nothing to verify: %s trains no model", path);
    if (code == DT_EXIT_OK && (cli->params || cli->emit == DT_EMIT_IR))
        code = print_program(cli, program);
    if (code == DT_EXIT_OK && wants_passes(cli, program))
        code = compile(cli, path, *ret_choice, &program);
    if (!program)
        return code != DT_EXIT_OK ? code : DT_EXIT_FAILED;
    DtLowerOptions options = dt_cli_lowering(cli, path);
    if (code == DT_EXIT_OK && cli->verify)
        code = dt_cli_verify(cli, &options);
    dt_diag_check_allowed(cli->diags,
                          program->module->entries.n > 0 && !dt_diag_errors(cli->diags));
    int reported = dt_cli_report(cli);
    return code != DT_EXIT_OK ? code : reported;
}

static int build(DtCli *cli, const char *path)
{
    struct DtAutoChoice *choice = NULL;
    const int code = build_from(cli, path, &choice);
    dt_cli_auto_end(choice);
    return code;
}

int dt_cli_build(DtCli *cli, const char *path)
{
    if (access(path, R_OK))
        return dt_cli_fail(DT_EXIT_IO, "cannot read %s: %s", path, strerror(errno));
    if (cli->list_passes)
        return list_passes();
    cli->diags = dt_diag_new(cli->arena);
    int code = cli->emit == DT_EMIT_AST ? emit_ast(cli, path) : build(cli, path);
    if (cli->time_passes && cli->timing.len)
        fputs(cli->timing.at, stderr);
    return code;
}

/* Refuses combinations in which one option would be ignored. */
static int check_combination(const DtCli *cli)
{
    if (cli->program)
        return dt_cli_fail(DT_EXIT_USAGE, "--program belongs to `dtc verify`");
    if (cli->ranks)
        return dt_cli_fail(DT_EXIT_USAGE, "--ranks belongs to `dtc recompile`");
    if (cli->write)
        return dt_cli_fail(DT_EXIT_USAGE, "-w belongs to `dtc fmt`");
    if (cli->text)
        return dt_cli_fail(DT_EXIT_USAGE, "--text belongs to `dtc init`");
    if (cli->device)
        return dt_cli_fail(
            DT_EXIT_USAGE,
            "--device belongs to `dtc calibrate`; --target says what kernels are for");
    if (cli->emit && cli->report)
        return dt_cli_fail(DT_EXIT_USAGE, "--emit and --report are two results; ask for one");
    const char *of_report = cli->measured     ? "--measured"
                            : cli->details    ? "--details"
                            : cli->tokens > 0 ? "--tokens"
                            : cli->price > 0  ? "--price"
                                              : NULL;
    if (of_report && !cli->report)
        return dt_cli_fail(DT_EXIT_USAGE, "%s belongs to --report", of_report);
    if (dt_cli_check_report(cli) != DT_EXIT_OK)
        return DT_EXIT_USAGE;
    if (cli->window && cli->emit != DT_EMIT_SCHEDULE_SVG)
        return dt_cli_fail(DT_EXIT_USAGE, "--window belongs to --emit=schedule-svg");
    if (cli->check && (cli->output || cli->emit || cli->report || cli->verify))
        return dt_cli_fail(DT_EXIT_USAGE, "--check does nothing else; leave it out, or %s",
                           cli->output   ? "-o"
                           : cli->emit   ? "--emit"
                           : cli->report ? "--report"
                                         : "--verify");
    return DT_EXIT_OK;
}

int dt_cmd_build(DtCli *cli)
{
    int wrong = check_combination(cli);
    if (wrong != DT_EXIT_OK)
        return wrong;
    if (!cli->words.n && cli->list_passes)
        return list_passes();
    if (!cli->words.n)
        return dt_cli_fail(DT_EXIT_USAGE, "no program: dtc FILE.dsl, or dtc --help");
    if (cli->words.n > 1)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "one program at a time, not also %s (files include one another)",
                           cli->words.at[1]);
    return dt_cli_build(cli, cli->words.at[0]);
}
