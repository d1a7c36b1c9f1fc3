/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers a program with the options of the command line, and makes further plans of it with
 * other options, to compare them. These are not proved, printed or written. */
#include "cli/cli.h"

#include "codegen/codegen.h"
#include "codegen/target.h"
#include "passes/passes.h"
#include "plan/write.h"

#include <string.h>

DtLowerOptions dt_cli_lowering(const DtCli *cli, const char *path)
{
    return (DtLowerOptions){.path = path,
                            .library = cli->library ? cli->library : dt_cli_library(cli->arena),
                            .dims = cli->dims.at,
                            .n_dims = cli->dims.n,
                            .sets = cli->sets.at,
                            .n_sets = cli->sets.n,
                            .lines = cli->lines.at,
                            .n_lines = cli->lines.n,
                            .block = cli->block,
                            .train = cli->train,
                            .parallel = cli->parallel,
                            .cluster = cli->cluster,
                            .synthetic = cli->synthetic,
                            .sources = cli->sources,
                            .resize = cli->resize};
}

/* Leaves only the entries that train, and the losses and metrics that these show. */
static void keep_training(DtProgram *program)
{
    DtModule *module = program->module;
    const DtEntryPoint eval = dt_entry_new(DT_ENTRY_EVAL, NULL, DT_PART_WHOLE, -1);
    DtTrainConfig *train = program->train;
    uint32_t n = 0, n_shown = 0;
    for (uint32_t i = 0; i < module->entries.n; i++)
        if (module->entries.at[i].kind == DT_ENTRY_LOSS)
            module->entries.at[n++] = module->entries.at[i];
    module->entries.n = n;
    for (uint32_t i = 0; train && i < train->shown.n; i++)
        if (strcmp(train->shown.at[i].entry, eval.name))
            train->shown.at[n_shown++] = train->shown.at[i];
    if (train)
        train->shown.n = n_shown;
}

DtStatus dt_cli_variant(const DtCli *cli, DtArena *arena, const DtLowerOptions *options,
                        DtVariant what, uint8_t **ret_bytes, size_t *ret_len)
{
    DtDiags *diags = dt_diag_new(arena);
    DtProgram *program = dt_lower(arena, diags, options);
    if (!program || dt_diag_errors(diags))
        return dt_status_fail(DT_EXIT_DIAGNOSTICS, "the program is refused: %.400s",
                              dt_diag_errors(diags) ? dt_diag_first(diags).message : "");
    if (what == DT_VARIANT_STEP)
        keep_training(program);
    const DtPassContext context = {.train = program->train, .parallel = program->parallel,
                                   .cluster = program->cluster,
                                   .target = dt_target_find(cli->target)->kind,
                                   .epilogues = dt_cli_epilogues(cli), .unfused = cli->unfused};
    dt_passes_run(program->module, &context, NULL, NULL);
    if (dt_diag_errors(diags) || !dt_codegen_check(program->module))
        return dt_status_fail(DT_EXIT_DIAGNOSTICS, "there is no plan for this layout: %.400s",
                              dt_diag_errors(diags) ? dt_diag_first(diags).message : "");
    const DtCodegenOptions how = {.target = cli->target, .source = options->path,
                                  .source_folder = ".", .compiler = "dtc",
                                  .no_kernels = what != DT_VARIANT_KERNELS,
                                  .no_texts = what == DT_VARIANT_STEP, .unfused = cli->unfused};
    DtPlanBuilder *builder = dt_write_new(arena);
    const DtStatus status = dt_codegen_plan(program, &how, builder);
    if (dt_status_ok(&status))
        dt_write_bytes(builder, ret_bytes, ret_len);
    return status;
}
