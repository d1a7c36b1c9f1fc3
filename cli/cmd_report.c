/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: for a program that is compiled, and `dtc report PLAN` for a plan file. */
#include "cli/cli.h"

#include "plan/read.h"
#include "plan/report/measured.h"
#include "plan/report/text.h"

#include <string.h>

/* Returns the text of a line of a source file that was compiled, as DtReportSource. */
static const char *source_line(void *context, const char *path, uint32_t line)
{
    const DtDiags *diags = context;
    size_t len;
    for (uint32_t file = 1; diags && file <= dt_diag_files(diags); file++) {
        const char *text =
            strcmp(dt_diag_path(diags, file), path) ? NULL : dt_diag_source(diags, file, &len);
        for (uint32_t i = 1; text && i < line; i++) {
            text = strchr(text, '\n');
            text = text ? text + 1 : NULL;
        }
        if (text)
            return text;
    }
    return NULL;
}

static int add_measured(const DtCli *cli, DtArena *arena, const DtSummary *summary,
                        DtText *ret_text)
{
    DtMeasured measured;
    if (cli->report > DT_REPORT_TEXT || cli->json)
        return dt_cli_fail(DT_EXIT_USAGE, "--measured belongs to the report as text");
    if (!summary->has_time)
        return dt_cli_fail(
            DT_EXIT_USAGE,
            "the plan does not say what device it is for: "
            "dtc FILE.dsl --report --measured TRACE prices it for that of its cluster");
    const DtStatus status = dt_measured_read(arena, cli->measured, summary->plan, &measured);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    dt_text_add(ret_text, "\n");
    dt_measured_report(arena, summary, &measured, ret_text);
    return DT_EXIT_OK;
}

/* A page needs so many slices that pieces of long steps are there besides all instructions. */
static const uint32_t page_slices = 400000;

static int add_page(const DtCli *cli, const DtSummary *plans, uint32_t n, DtText *ret_text)
{
    const DtHtml page = {cli->words.at, plans, n, cli->logs.at, cli->logs.n};
    const DtStatus status = dt_html_report(&page, ret_text);
    return dt_status_ok(&status) ? DT_EXIT_OK : dt_cli_fail(status.code, "%s", status.message);
}

int dt_cli_report_plan(const DtCli *cli, const DtPlan *plan, const DtCostModel *model,
                       DtText *ret_text)
{
    const bool traces = cli->report == DT_REPORT_TRACE, draws = cli->report == DT_REPORT_HTML;
    const DtReportOptions options = {.slices = traces || draws, .insts = traces || draws,
                                     .tokens = cli->tokens, .most_slices = draws ? page_slices : 0,
                                     .price = cli->price, .source = source_line,
                                     .source_context = cli->diags};
    int code = DT_EXIT_OK;
    DtArena *arena = dt_arena_child(cli->arena);
    DtSummary summary;
    dt_summary_make(arena, plan, model, &options, &summary);
    if (traces)
        dt_trace_report(&summary, ret_text);
    else if (draws)
        code = add_page(cli, &summary, 1, ret_text);
    else if (cli->report == DT_REPORT_DOT)
        dt_dot_report(&summary, cli->details, ret_text);
    else if (cli->report == DT_REPORT_JSON || cli->json)
        dt_json_report(&summary, ret_text);
    else
        dt_text_report(&summary, ret_text);
    if (cli->details && cli->report <= DT_REPORT_TEXT && !cli->json) {
        dt_text_add(ret_text, "\n");
        dt_report_details(plan, ret_text);
    }
    if (cli->measured && code == DT_EXIT_OK)
        code = add_measured(cli, arena, &summary, ret_text);
    dt_arena_free(arena);
    return code;
}

int dt_cli_check_report(const DtCli *cli)
{
    if (cli->logs.n && cli->report != DT_REPORT_HTML)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "--log draws the curves of a run in a page: add --report=html");
    if (cli->price > 0 && cli->tokens <= 0)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "--price is for what a run costs: add how long it is, --tokens 300B");
    return DT_EXIT_OK;
}

/* Reads the plan at path; returns DT_EXIT_OK, or another code after a message. */
static int read_plan(const char *path, DtPlanFile *ret_file)
{
    const size_t len = strlen(path);
    const DtStatus status = dt_read_file(path, ret_file);
    if (dt_status_ok(&status))
        return DT_EXIT_OK;
    if (len > 4 && !strcmp(path + len - 4, ".dsl"))
        return dt_cli_fail(DT_EXIT_USAGE,
                           "%s is a program, not a plan: `dtc %s --report` reports about it, "
                           "`dtc %s -o PLAN` makes a plan",
                           path, path, path);
    return dt_cli_fail(status.code, "%s", status.message);
}

int dt_cmd_report(DtCli *cli)
{
    DtPlanFile file;
    DtText text = {0};
    if (dt_cli_check_report(cli) != DT_EXIT_OK)
        return DT_EXIT_USAGE;
    if (cli->words.n != 1)
        return dt_cli_fail(DT_EXIT_USAGE, "report needs one plan: dtc report PLAN");
    int code = read_plan(cli->words.at[0], &file);
    if (code != DT_EXIT_OK)
        return code;
    code = dt_cli_report_plan(cli, &file.plan, NULL, &text);
    code = code == DT_EXIT_OK ? dt_cli_write(cli, &text) : code;
    dt_text_free(&text);
    dt_read_close(&file);
    return code;
}

int dt_cmd_compare(DtCli *cli)
{
    DtPlanFile files[2];
    DtText text = {0};
    if (cli->measured)
        return dt_cli_fail(DT_EXIT_USAGE, "--measured belongs to the report of one plan");
    if (cli->report == DT_REPORT_TRACE || cli->report == DT_REPORT_DOT)
        return dt_cli_fail(
            DT_EXIT_USAGE,
            "compare prints text, with --json both reports, with --report=html a page; a "
            "trace or a graph is of one plan: dtc report PLAN");
    if (cli->details)
        return dt_cli_fail(DT_EXIT_USAGE, "--details belongs to the report of one plan");
    if (dt_cli_check_report(cli) != DT_EXIT_OK)
        return DT_EXIT_USAGE;
    if (cli->words.n != 2)
        return dt_cli_fail(DT_EXIT_USAGE, "compare needs two plans: dtc compare PLAN PLAN");
    for (int i = 0; i < 2; i++) {
        const int read = read_plan(cli->words.at[i], &files[i]);
        if (read != DT_EXIT_OK && i)
            dt_read_close(&files[0]);
        if (read != DT_EXIT_OK)
            return read;
    }
    DtSummary summaries[2];
    const bool draws = cli->report == DT_REPORT_HTML;
    const DtReportOptions options = {.tokens = cli->tokens, .price = cli->price, .slices = draws,
                                     .insts = draws, .most_slices = page_slices};
    int code = DT_EXIT_OK;
    for (int i = 0; i < 2; i++)
        dt_summary_make(cli->arena, &files[i].plan, NULL, &options, &summaries[i]);
    if (draws)
        code = add_page(cli, summaries, 2, &text);
    else if (cli->json || cli->report == DT_REPORT_JSON)
        dt_json_compare(cli->words.at, summaries, &text);
    else
        dt_compare_report(cli->words.at, summaries, &text);
    code = code == DT_EXIT_OK ? dt_cli_write(cli, &text) : code;
    dt_text_free(&text);
    for (int i = 0; i < 2; i++)
        dt_read_close(&files[i]);
    return code;
}
