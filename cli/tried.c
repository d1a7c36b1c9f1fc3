/* SPDX-License-Identifier: Apache-2.0 */
/* Tries a function that computes in blocks of an axis in double precision. Where it decides by
 * floats, a box that finds a difference to what the function returns proves nothing
 * (docs/boxes.md). It is tried as it is; if that takes too long, as the same function of the
 * program with the smallest dims for which it still has blocks. */
#include "cli/cli.h"

#include "frontend/lower.h"
#include "ir/ir.h"
#include "passes/check/judge.h"

#include <stdlib.h>
#include <string.h>

static const double most_work = 2e7; /* elements and products in double precision */

/* Returns the function of the same name in a program with other dims, if both or neither of them
 * loop over blocks; or NULL. */
static const DtFunc *find(const DtProgram *program, const DtFunc *func)
{
    for (uint32_t i = 0; program && i < program->module->funcs.n; i++) {
        const DtFunc *other = program->module->funcs.at[i];
        if (other->meant && !strcmp(other->name, func->name) &&
            !dt_cli_loop_over_blocks(other) == !dt_cli_loop_over_blocks(func))
            return other;
    }
    return NULL;
}

static const DtFunc *lowered(DtArena *arena, const DtLowerOptions *options, const DtFunc *func)
{
    DtDiags *diags = dt_diag_new(arena);
    const DtProgram *program = dt_lower(arena, diags, options);
    return dt_diag_errors(diags) ? NULL : find(program, func);
}

/* Sets the dim to the smallest of a few numbers with which the program still has the function. */
static void shrink(const DtLowerOptions *options, DtOption *dim, int64_t extent, const DtFunc *func)
{
    static const char *const tries[] = {"2", "3", "4", "6", "8", "12", "16", "24", "32", "48", "64",
                                        "96", "128"};
    const char *const before = dim->value;
    bool good = false;
    for (size_t i = 0; !good && i < DT_COUNT(tries) && strtoll(tries[i], NULL, 10) < extent; i++) {
        DtArena *arena = dt_arena_new();
        dim->value = tries[i];
        good = lowered(arena, options, func) != NULL;
        dt_arena_free(arena);
    }
    if (!good)
        dim->value = before;
}

/* Returns the function as it is in a smaller program of one rank; NULL if the program cannot be
 * made smaller. */
static const DtFunc *smaller(DtCli *cli, const DtFunc *func, const char *path)
{
    DtLowerOptions options = dt_cli_lowering(cli, path);
    options.parallel = "none";
    options.block = NULL;
    const DtProgram *program = dt_lower(cli->arena, dt_diag_new(cli->arena), &options);
    if (!program)
        return NULL;
    DtOption *dims = DT_NEW_ARRAY(cli->arena, DtOption, options.n_dims + program->dims.n + 1);
    for (uint32_t i = 0; i < options.n_dims; i++)
        dims[i] = options.dims[i];
    options.dims = dims;
    for (uint32_t i = 0; i < program->dims.n; i++) {
        const DtDim *dim = &program->dims.at[i];
        if (!dim->is_number || dim->is_given)
            continue;
        dims[options.n_dims] =
            (DtOption){.name = dim->name,
                       .value = dt_arena_printf(cli->arena, "%lld", (long long)dim->extent)};
        options.n_dims++;
        shrink(&options, &dims[options.n_dims - 1], dim->extent, func);
    }
    return lowered(cli->arena, &options, func);
}

int dt_cli_try_blocks(DtCli *cli, const DtFunc *func, const char *path)
{
    const DtJudgeAlike told = dt_judge_alike(func->meant, func, most_work);
    const DtFunc *small = told == DT_JUDGE_NOT_TRIED ? smaller(cli, func, path) : NULL;
    return small ? dt_judge_alike(small->meant, small, most_work) : told;
}
