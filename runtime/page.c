/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a run. At the end of every training run with --log FILE the supervisor writes
 * FILE.html: the curves of the log, the measured time of a step next to the predicted one, and
 * the report of the plan. It is the page of `dtc report PLAN --report=html --log FILE`
 * (plan/report/html.c). */
#include "runtime/page.h"

#include "base/file.h"
#include "plan/report/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number of slices of the simulated step that are kept, instructions included; the page shows
 * only some of them. */
static const uint32_t MOST_SLICES = 400000;

/* How every page begins (plan/report/page.html); by this a page is recognised. */
static const char title[] = "<title>dtc report</title>";
enum { TITLE_WITHIN = 512 };

static bool name_page(const DtRunOptions *options, char ret_path[DT_PAGE_PATH])
{
    return options->log && !options->eval && !dt_run_predicts(options) && !options->trial &&
           snprintf(ret_path, DT_PAGE_PATH, "%s.html", options->log) < DT_PAGE_PATH;
}

bool dt_page_path(const DtRunOptions *options, char ret_path[DT_PAGE_PATH])
{
    struct stat stat_of;
    return name_page(options, ret_path) && stat(options->log, &stat_of) == 0 &&
           S_ISREG(stat_of.st_mode);
}

/* Whether the file is a page, is empty, or does not exist. */
static bool may_be_written(const char *path)
{
    char begin[TITLE_WITHIN + 1] = {0};
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT;
    const size_t n = fread(begin, 1, TITLE_WITHIN, file);
    fclose(file);
    return n == 0 || strstr(begin, title);
}

DtStatus dt_page_check(const DtRunOptions *options)
{
    char path[DT_PAGE_PATH];
    if (!name_page(options, path) || may_be_written(path))
        return DT_OK;
    return dt_status_fail(
        DT_EXIT_IO,
        "%s exists and is no page of an earlier run: `--log %s` would overwrite it with the "
        "page of this run; give the log another name, or move that file away",
        path, options->log);
}

/* Whether the log has a line of a finished step. */
static bool has_steps(const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (file && !found && getline(&line, &size, file) >= 0)
        found = strstr(line, "\"event\":\"step\"") != NULL;
    free(line);
    if (file)
        fclose(file);
    return found;
}

DtStatus dt_page_write(const DtRunOptions *options, const DtPlan *plan)
{
    char path[DT_PAGE_PATH];
    if (!dt_page_path(options, path))
        return DT_OK;
    if (!has_steps(options->log)) {
        unlink(path);
        return DT_OK;
    }
    const DtReportOptions how = {.slices = true, .insts = true, .most_slices = MOST_SLICES};
    DtArena *arena = dt_arena_new();
    DtSummary summary;
    DtText text = {0};
    dt_summary_make(arena, plan, NULL, &how, &summary);
    const DtHtml page = {&options->plan_path, &summary, 1, &options->log, 1};
    DtStatus status = dt_html_report(&page, &text);
    if (dt_status_ok(&status))
        status = dt_file_write(path, text.at, text.len);
    dt_text_free(&text);
    dt_arena_free(arena);
    return status;
}
