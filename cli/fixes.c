/* SPDX-License-Identifier: Apache-2.0 */
/* Fixes of diagnostics are compiled before they are shown: the file is read as it would be with the
 * fix, the program is checked and laid out as before, and what that draws says whether the fix
 * mends (base/diag_fix.c). A fix that cannot be compiled here, of a line that the command line gave
 * for example, is shown as words without the changed line. */
#include "cli/fit.h"

#include "base/file.h"
#include "codegen/codegen.h"
#include "codegen/target.h"
#include "passes/passes.h"

#include <string.h>

enum { MOST = 32 }; /* fixes that are compiled; of further ones the words are shown */

/* Runs placement for a program without errors, since it reports errors of the layout. */
static void lay_out(const DtCli *cli, DtArena *arena, const DtProgram *program)
{
    const DtParallelConfig *parallel = program->parallel;
    if (!program->train || !program->cluster || !parallel || parallel->is_auto ||
        !program->module->entries.n)
        return;
    const char *name = cli->target ? cli->target : dt_fit_target(arena, program);
    const DtTargetRow *target = name ? dt_target_find(name) : NULL;
    if (!target)
        return;
    const DtPassContext context = {.train = program->train,
                                   .parallel = parallel,
                                   .cluster = program->cluster,
                                   .target = target->kind,
                                   .unfused = cli->unfused};
    dt_passes_run(program->module, &context, NULL, NULL);
}

static DtDiagMends mends(const DtCli *cli, const DtDiagFix *fix)
{
    const DtDiags *before = cli->diags;
    DtArena *arena = dt_arena_child(cli->arena);
    DtDiags *after = dt_diag_new(arena);
    DtLowerOptions options =
        dt_cli_lowering(cli, dt_diag_path(before, 1)); /* the main file is added first */
    options.replaced = dt_diag_path(before, fix->at.file);
    options.text = dt_diag_fix_text(before, arena, fix, &options.text_len);
    const DtProgram *program = dt_lower(arena, after, &options);
    if (program && !dt_diag_errors(after))
        lay_out(cli, arena, program);
    const DtDiagMends how = dt_diag_fix_mends(before, fix, after);
    dt_arena_free(arena);
    return how;
}

/* Whether the fix is in a file that dt_lower reads. */
static bool is_in_program(const DtCli *cli, const DtDiagFix *fix)
{
    const char *path = dt_diag_path(cli->diags, fix->at.file);
    char *text;
    size_t len, shown;
    DtArena *arena = dt_arena_child(cli->arena);
    const char *source = dt_diag_source(cli->diags, fix->at.file, &shown);
    const DtStatus status = dt_file_read(arena, path, SIZE_MAX / 2, &text, &len);
    const bool is = source && dt_status_ok(&status) && len == shown && !memcmp(text, source, len);
    dt_arena_free(arena);
    return is;
}

/* Whether the fix is kept. If another error shows on the changed line (the first one may have
 * hidden it), only the words of the fix are kept, if they make sense alone. */
static bool keep(const DtCli *cli, uint32_t number, const DtDiagFix *fix)
{
    const DtDiagMends how = mends(cli, fix);
    const bool says =
        !strncmp(fix->says, "did you mean `", 14) || !strncmp(fix->says, "write `", 7);
    if (how == DT_FIX_MAKES_ANOTHER && says)
        dt_diag_fix_demote(cli->diags, number);
    else if (how != DT_FIX_MENDS)
        dt_diag_fix_drop(cli->diags, number);
    return how == DT_FIX_MENDS;
}

void dt_cli_try_fixes(const DtCli *cli)
{
    DtDiagFix fix;
    uint32_t number = 0, tried = 0;
    while (dt_diag_fix_at(cli->diags, number, &fix)) {
        if (fix.code == E0701) /* cli/fit.c has compiled it, with the plan's memory */
            number++;
        else if (tried++ >= MOST || !is_in_program(cli, &fix))
            dt_diag_fix_demote(cli->diags, number);
        else
            number += keep(cli, number, &fix);
    }
}
