/* SPDX-License-Identifier: Apache-2.0 */
/* dtc fmt: formats programs. Prints one file, rewrites files with -w, or tells with --check which
 * ones are not formatted (exit code 1). */
#include "cli/cli.h"

#include "base/file.h"

#include <string.h>

enum { MAX_SOURCE = 4 << 20 };

/* Formats one file; ret_code is the exit code of this file. */
static int format_file(DtCli *cli, const char *path)
{
    char *source;
    size_t len;
    DtText text = {0};
    cli->diags = dt_diag_new(cli->arena);
    DtStatus status = dt_file_read(cli->arena, path, MAX_SOURCE, &source, &len);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    uint32_t file = dt_diag_add_file(cli->diags, path, source, len);
    int code = DT_EXIT_OK;
    if (!dt_fmt(cli->diags, file, &text)) {
        dt_cli_report(cli);
        code = DT_EXIT_DIAGNOSTICS;
    } else if (cli->check || cli->write) {
        bool same = text.len == len && (!len || !memcmp(text.at, source, len));
        if (!same && cli->check) {
            printf("%s\n", path);
            code = DT_EXIT_FAILED;
        } else if (!same) {
            status = dt_file_write(path, text.at, text.len);
            if (!dt_status_ok(&status))
                code = dt_cli_fail(status.code, "%s", status.message);
        }
    } else
        code = dt_cli_print(&text);
    dt_text_free(&text);
    return code;
}

int dt_cmd_fmt(DtCli *cli)
{
    if (!cli->words.n)
        return dt_cli_fail(DT_EXIT_USAGE, "fmt needs a file: dtc fmt [--check | -w] FILE.dsl...");
    if (cli->words.n > 1 && !cli->check && !cli->write)
        return dt_cli_fail(DT_EXIT_USAGE, "several files are only formatted with -w or --check");
    int worst = DT_EXIT_OK;
    for (uint32_t i = 0; i < cli->words.n; i++) {
        int code = format_file(cli, cli->words.at[i]);
        if (code > worst)
            worst = code;
    }
    return worst;
}
