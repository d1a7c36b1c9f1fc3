/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the options of dtc, and what all commands share: messages, output, times. */
#include "cli/cli.h"

#include "base/file.h"
#include "base/intern.h"
#include "codegen/target.h"
#include "plan/report/people.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
#define DT_CLI_OPTION(ID, name, letter, value, group, help) OPTION_##ID,
#include "cli/options.def"
#undef DT_CLI_OPTION
};

static const DtOptionRow rows[] = {
#define DT_CLI_OPTION(ID, name, letter, value, group, help) {name, letter, value, group, help},
#include "cli/options.def"
#undef DT_CLI_OPTION
};

static const DtOptionTable option_table = {
    .program = "dtc",
    .version = DT_VERSION,
    .purpose = "compiles a model and a layout of it over many devices to one execution plan",
    .synopsis = "FILE.dsl [-o PLAN] [--parallel NAME] [-D dim=N]... [--set block.key=value]...\n"
                "FILE.dsl --check | --params | --emit=STAGE | --report | --verify\n"
                "init DIR [--text 'mine/*.txt'] [--device NAME] [-o FILE.dsl]\n"
                "fmt [--check | -w] FILE.dsl...\n"
                "dump PLAN\n"
                "asm TEXT -o PLAN\n"
                "verify PLAN [--program FILE.dsl]\n"
                "inspect CHECKPOINT [--verify] [--json]\n"
                "recompile PLAN [--ranks N] [-o NEW]\n"
                "report PLAN [--report=text|json|trace|html|dot]\n"
                "compare PLAN PLAN [--json | --report=html]\n"
                "calibrate [NAME] [--device cpu|cuda] [-o FILE]\n"
                "explain CODE | NAME | settings",
    .epilogue =
        "Examples:\n"
        "  dtc examples/gpt2.dsl --params\n"
        "  dtc examples/quickstart.dsl -o out/plan\n"
        "  dtc examples/quickstart.dsl -o out/small.plan --parallel none -D batch=8 "
        "--set train.steps=100\n"
        "\n"
        "Data goes to standard output, messages to standard error. NO_COLOR is honoured.\n"
        "Exit codes: 0 done, 2 usage, 3 the program has errors, 4 it does not fit the devices,\n"
        "5 a file could not be read or written, 1 anything else.\n"
        "\n"
        "A plan contains machine code: running it trusts its author as running any program does.\n"
        "dtc itself never loads the code of a plan.\n",
    .rows = rows,
    .n_rows = DT_COUNT(rows),
};

/* ---- messages and output ---- */

int dt_cli_fail(int code, const char *format, ...)
{
    DtText text = {0};
    va_list args;
    dt_text_add(&text, "dtc: ");
    va_start(args, format);
    dt_text_vprintf(&text, format, args);
    va_end(args);
    dt_text_say(stderr, text.at);
    dt_text_free(&text);
    return code;
}

int dt_cli_refuse(DtCli *cli, int code, const char *format, ...)
{
    DtText text = {0};
    va_list args;
    va_start(args, format);
    dt_text_vprintf(&text, format, args);
    va_end(args);
    if (cli->others &&
        (code == DT_EXIT_FAILED || code == DT_EXIT_DIAGNOSTICS || code == DT_EXIT_DOES_NOT_FIT))
        cli->refused = dt_arena_strndup(cli->arena, text.at, text.len);
    else
        dt_cli_fail(code, "%s", text.at);
    dt_text_free(&text);
    return code;
}

int dt_cli_print(const DtText *text)
{
    bool ok = !text->len || fwrite(text->at, 1, text->len, stdout) == text->len;
    if (ok && !fflush(stdout))
        return DT_EXIT_OK;
    return dt_cli_fail(DT_EXIT_IO, "cannot write to standard output: %s", strerror(errno));
}

const char *dt_cli_text(const DtText *text) { return text->at ? text->at : ""; }

const char *dt_cli_position(const DtCli *cli, const char *message)
{
    DtSpan span;
    uint32_t line, column;
    const char *at = strrchr(message, '@');
    if (!at || sscanf(at, "@%u:%u-%u", &span.file, &span.lo, &span.hi) != 3 || span.file < 1 ||
        span.file > dt_diag_files(cli->diags))
        return "";
    dt_diag_position(cli->diags, span, &line, &column);
    return dt_arena_printf(cli->arena, " (in %s:%u)", dt_diag_path(cli->diags, span.file), line);
}

int dt_cli_write(const DtCli *cli, const DtText *text)
{
    if (!cli->output)
        return dt_cli_print(text);
    DtStatus status = dt_file_write(cli->output, text->at, text->len);
    return dt_status_ok(&status) ? DT_EXIT_OK : dt_cli_fail(status.code, "%s", status.message);
}

int dt_cli_report(const DtCli *cli)
{
    bool any = dt_diag_errors(cli->diags) || dt_diag_lints(cli->diags);
    if (cli->try_fixes)
        cli->try_fixes(cli);
    if (any && cli->json)
        dt_diag_print_json(cli->diags, stderr);
    else if (any)
        dt_diag_print(cli->diags, stderr, cli->color);
    return dt_diag_errors(cli->diags) ? DT_EXIT_DIAGNOSTICS : DT_EXIT_OK;
}

DtCliClock dt_cli_clock(const DtCli *cli)
{
    DtCliClock clock = {.bytes = dt_arena_used(cli->arena)};
    clock_gettime(CLOCK_MONOTONIC, &clock.start);
    return clock;
}

void dt_cli_lap_apart(DtCli *cli, DtCliClock *clock, const char *what, double seconds,
                      const char *apart)
{
    struct timespec now;
    char grown[32];
    clock_gettime(CLOCK_MONOTONIC, &now);
    double ms = (double)(now.tv_sec - clock->start.tv_sec) * 1e3 +
                (double)(now.tv_nsec - clock->start.tv_nsec) * 1e-6;
    dt_text_bytes(grown, (double)(dt_arena_used(cli->arena) - clock->bytes));
    dt_text_printf(&cli->timing, "%-24s %10.3f ms %12s\n", what, ms - seconds * 1e3, grown);
    if (apart)
        dt_text_printf(&cli->timing, "%-24s %10.3f ms\n", apart, seconds * 1e3);
    *clock = dt_cli_clock(cli);
}

void dt_cli_lap(DtCli *cli, DtCliClock *clock, const char *what)
{
    dt_cli_lap_apart(cli, clock, what, 0, NULL);
}

/* ---- options ---- */

/* Cuts `name=value` at the first `=` into ret_option. False: there is no `=`, or nothing before or
 * after it. */
static bool cut(DtCli *cli, const char *text, DtOption *ret_option)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return false;
    ret_option->name = dt_arena_strndup(cli->arena, text, (size_t)(equals - text));
    ret_option->value = equals + 1;
    return true;
}

/* Returns the position of the option's value in a list of words; -1 after a message. */
static int choose(const char *option, const char *value, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(words[i], value))
            return (int)i;
    const char *nearest = dt_text_nearest(value, words, n);
    char list[200] = "";
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", words[i]);
    }
    if (nearest)
        dt_cli_fail(DT_EXIT_USAGE, "%s cannot be %s; did you mean %s?", option, value, nearest);
    else
        dt_cli_fail(DT_EXIT_USAGE, "%s cannot be %s; it is one of %s", option, value, list);
    return -1;
}

static int read_color(DtCli *cli, const char *value)
{
    static const char *const words[] = {"auto", "always", "never"};
    int when = choose("--color", value, words, DT_COUNT(words));
    if (when > 0)
        cli->color = when == 1;
    return when < 0 ? DT_EXIT_USAGE : DT_EXIT_OK;
}

static int read_emit(DtCli *cli, const char *value)
{
    static const char *const words[] = {"ast", "ir", "plan", "c", "cuda", "schedule",
                                        "schedule-svg", "layout"};
    int stage = choose("--emit", value, words, DT_COUNT(words));
    if (stage >= 0)
        cli->emit = (DtCliEmit)(DT_EMIT_AST + stage);
    return stage < 0 ? DT_EXIT_USAGE : DT_EXIT_OK;
}

static int read_report(DtCli *cli, const char *value)
{
    static const char *const words[] = {"text", "json", "trace", "html", "dot"};
    int format = value ? choose("--report", value, words, DT_COUNT(words)) : 0;
    if (format >= 0)
        cli->report = (DtCliReport)(DT_REPORT_TEXT + format);
    return format < 0 ? DT_EXIT_USAGE : DT_EXIT_OK;
}

/* Reads a count or an amount, such as "300B" or "2.5"; returns an exit code. */
static int read_amount(const char *option, const char *value, double *ret_amount)
{
    if (dt_people_read(value, ret_amount))
        return DT_EXIT_OK;
    return dt_cli_fail(DT_EXIT_USAGE,
                       "%s takes a number above 0, with k, M, B or T behind it: 300B, 2.5; not %s",
                       option, value);
}

/* Reads --ranks; returns an exit code. */
static int read_ranks(DtCli *cli, const char *value)
{
    char *end;
    errno = 0;
    cli->ranks = strtoll(value, &end, 10);
    if (end != value && !*end && !errno && cli->ranks > 0 && cli->ranks <= 1 << 24)
        return DT_EXIT_OK;
    return dt_cli_fail(DT_EXIT_USAGE, "--ranks takes a number from 1 to 16777216, not %s", value);
}

static int read_pair(DtCli *cli, int id, const char *value)
{
    DtOption option;
    if (!cut(cli, value, &option))
        return dt_cli_fail(DT_EXIT_USAGE,
                           id == OPTION_DIM ? "-D takes name=number, not %s"
                                            : "--set takes block.key=value, not %s",
                           value);
    if (id == OPTION_DIM)
        DT_PUSH(cli->arena, cli->dims, option);
    else
        DT_PUSH(cli->arena, cli->sets, option);
    return DT_EXIT_OK;
}

static int read_option(DtCli *cli, int id, const char *value)
{
    switch (id) {
    case DT_OPTIONS_WORD: DT_PUSH(cli->arena, cli->words, value); break;
    case OPTION_OUTPUT: cli->output = value; break;
    case OPTION_CHECK: cli->check = true; break;
    case OPTION_PARAMS: cli->params = true; break;
    case OPTION_EMIT: return read_emit(cli, value);
    case OPTION_REPORT: return read_report(cli, value);
    case OPTION_DETAILS: cli->details = true; break;
    case OPTION_MEASURED: cli->measured = value; break;
    case OPTION_LOG: DT_PUSH(cli->arena, cli->logs, value); break;
    case OPTION_WINDOW: cli->window = value; break;
    case OPTION_TOKENS: return read_amount("--tokens", value, &cli->tokens);
    case OPTION_PRICE: return read_amount("--price", value, &cli->price);
    case OPTION_DIM:
    case OPTION_SET: return read_pair(cli, id, value);
    case OPTION_ADD: DT_PUSH(cli->arena, cli->lines, value); break;
    case OPTION_TRAIN: cli->train = dt_intern(value); break;
    case OPTION_PARALLEL: cli->parallel = dt_intern(value); break;
    case OPTION_CLUSTER: cli->cluster = dt_intern(value); break;
    case OPTION_DATA:
        cli->synthetic = true;
        if (strcmp(value, "synthetic"))
            return dt_cli_fail(DT_EXIT_USAGE, "--data takes `synthetic`; files are redirected when "
                                              "the plan runs: dtrun --data OLD=NEW");
        break;
    case OPTION_LIBRARY: cli->library = value; break;
    case OPTION_PROGRAM: cli->program = value; break;
    case OPTION_TARGET: cli->target = value; break;
    case OPTION_RANKS: return read_ranks(cli, value);
    case OPTION_DEVICE: cli->device = value; break;
    case OPTION_TEXT: cli->text = value; break;
    case OPTION_NO_KERNELS: cli->no_kernels = true; break;
    case OPTION_ROWS:
        cli->rows = value;
        if (!dt_target_find(value))
            return dt_cli_fail(DT_EXIT_USAGE, "--rows takes a target, as cpu or sm_90a, not %s",
                               value);
        break;
    case OPTION_EPILOGUES:
        cli->epilogues = !strcmp(value, "all") ? 1 : !strcmp(value, "none") ? 0 : -1;
        if (cli->epilogues < 0 && strcmp(value, "auto"))
            return dt_cli_fail(DT_EXIT_USAGE, "--epilogues is all, none or auto");
        break;
    case OPTION_UNFUSED: cli->unfused = true; break;
    case OPTION_LIST_PASSES: cli->list_passes = true; break;
    case OPTION_VERIFY: cli->verify = true; break;
    case OPTION_PRINT_AFTER: DT_PUSH(cli->arena, cli->print_after, value); break;
    case OPTION_TIME_PASSES: cli->time_passes = true; break;
    case OPTION_WRITE: cli->write = true; break;
    case OPTION_JSON: cli->json = true; break;
    case OPTION_COLOR: return read_color(cli, value);
    default: break;
    }
    return DT_EXIT_OK;
}

uint32_t dt_cli_epilogues(const DtCli *cli)
{
    const uint32_t usual = dt_target_limits[dt_target_find(cli->target)->kind].epilogues;
    return cli->epilogues < 0 ? usual : cli->epilogues ? DT_EPILOGUES_ALL : 0;
}

static int print_help(int id)
{
    DtText text = {0};
    if (id == OPTION_HELP)
        dt_options_help(&option_table, &text);
    else if (id == OPTION_MAN)
        dt_options_man(&option_table, &text);
    else
        dt_text_printf(&text, "dtc %s\n", DT_VERSION);
    int code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}

int dt_cli_parse(DtCli *cli, int argc, char *const *argv, int first, bool *ret_done)
{
    DtOptions options;
    const char *no_color = getenv("NO_COLOR");
    cli->color = isatty(STDERR_FILENO) && !(no_color && *no_color);
    cli->epilogues = -1;
    *ret_done = true;
    dt_options_open(&options, &option_table, argc, argv, first);
    for (;;) {
        int id = dt_options_next(&options);
        if (id == DT_OPTIONS_END)
            break;
        if (id == DT_OPTIONS_WRONG)
            return dt_cli_fail(DT_EXIT_USAGE, "%s", options.message);
        if (id == OPTION_HELP || id == OPTION_MAN || id == OPTION_VERSION)
            return print_help(id);
        int code = read_option(cli, id, options.value);
        if (code != DT_EXIT_OK)
            return code;
    }
    *ret_done = false;
    return DT_EXIT_OK;
}
