/* SPDX-License-Identifier: Apache-2.0 */
/* dtc dump PLAN prints a plan as canonical text; dtc asm TEXT -o PLAN rebuilds the identical bytes.
 * The code in a plan is treated as data. */
#include "cli/cli.h"

#include "base/file.h"
#include "plan/read.h"

#include <string.h>

enum { MAX_TEXT = 1 << 30 };

int dt_cmd_dump(DtCli *cli)
{
    DtPlanFile file;
    DtText text = {0};
    if (cli->words.n != 1)
        return dt_cli_fail(DT_EXIT_USAGE, "dump needs one plan: dtc dump PLAN");
    DtStatus status = dt_read_file(cli->words.at[0], &file);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    dt_plantext_dump(&file.plan, &text);
    int code = DT_EXIT_OK;
    if (cli->output) {
        status = dt_file_write(cli->output, text.at, text.len);
        if (!dt_status_ok(&status))
            code = dt_cli_fail(status.code, "%s", status.message);
    } else
        code = dt_cli_print(&text);
    dt_text_free(&text);
    dt_read_close(&file);
    return code;
}

int dt_cmd_asm(DtCli *cli)
{
    char *text;
    uint8_t *bytes;
    size_t len, n_bytes;
    if (cli->words.n != 1 || !cli->output)
        return dt_cli_fail(DT_EXIT_USAGE, "asm needs a text and an output: dtc asm TEXT -o PLAN");
    DtStatus status = dt_file_read(cli->arena, cli->words.at[0], MAX_TEXT, &text, &len);
    if (dt_status_ok(&status))
        status = dt_plantext_read(cli->arena, text, len, &bytes, &n_bytes);
    if (dt_status_ok(&status))
        status = dt_file_write(cli->output, bytes, n_bytes);
    return dt_status_ok(&status) ? DT_EXIT_OK : dt_cli_fail(status.code, "%s", status.message);
}
