/* SPDX-License-Identifier: Apache-2.0 */
/* What a program must have before a plan is made of it. A setting that would be ignored is an error
 * here; `--check` and `--params` accept it. */
#include "frontend/config_internal.h"

#include "cost/cost.h"

static int64_t mesh_ranks(const DtProgram *program)
{
    int64_t n = 1;
    for (uint32_t i = 0; program->parallel && i < program->parallel->mesh.n; i++)
        n *= program->parallel->mesh.axes[i].size;
    return n;
}

/* Reports a lint if a plan for processors has ranks on several machines: all ranks run as processes
 * of one machine. The plan is made all the same, since reports describe the cluster, and any
 * machine with enough memory can run it. */
static void lint_cluster(DtDiags *diags, const DtProgram *program, bool for_gpus)
{
    const DtClusterConfig *cluster = program->cluster;
    if (!cluster || !program->parallel)
        /* without a layout a program runs as one process on this machine */
        return;
    const bool gpus = cluster->kinds[0].device && cluster->kinds[0].device->is_gpu;
    if (for_gpus || (!gpus && cluster->nodes == 1))
        return;
    DtDiag *d = dt_diag_report(diags, L0593, cluster->span,
                               "the plan is for %lld CPU processes of one machine",
                               (long long)mesh_ranks(program));
    if (gpus)
        dt_diag_note(
            d, "kernels are for CPU ranks; --target=sm_90a and the like make them for GPUs as `%s`",
            cluster->kinds[0].gpu);
    if (cluster->nodes > 1)
        dt_diag_note(d,
                     "ranks on processors are all on one machine, not on %lld; those on GPUs may "
                     "be on several "
                     "(dtrun --nodes)",
                     (long long)cluster->nodes);
}

/* Reports an error and returns false if the program asks for products in tf32 and the plan is for
 * processors, which have none. */
static bool check_products(DtDiags *diags, const DtPrecision *precision, bool for_gpus)
{
    if (!precision->tf32 || for_gpus)
        return true;
    DtDiag *d =
        dt_diag_report(diags, E0472, precision->span, "processors have no products in tf32");
    dt_diag_help(d, "compile it for a GPU, --target=sm_90a, or leave `matmul` out");
    return false;
}

/* Describes a block on one line: "mesh pipe 4, data 2 on pod", "auto on pod". */
static const char *say_block(DtArena *arena, const DtParallelConfig *p)
{
    const char *text = p->is_auto ? "auto: the compiler chooses" : "mesh";
    for (uint32_t i = 0; i < p->mesh.n; i++)
        text = dt_arena_printf(arena, "%s%s %s %lld", text,
                               i            ? ","
                               : p->is_auto ? " around mesh"
                                            : "",
                               p->mesh.axes[i].name, (long long)p->mesh.axes[i].size);
    return p->cluster ? dt_arena_printf(arena, "%s, on %s", text, p->cluster) : text;
}

static void help_choose(DtDiag *d, const DtProgram *program)
{
    DtArena *arena = dt_arena_new();
    for (uint32_t i = 0; i < program->parallels.n; i++)
        dt_diag_help(d, "--parallel %s (%s)", program->parallels.at[i]->name,
                     say_block(arena, program->parallels.at[i]));
    if (program->clusters.n)
        dt_diag_help(d, "--parallel auto, for a layout that the compiler chooses%s",
                     program->clusters.n > 1 ? ", with --cluster NAME" : "");
    dt_diag_help(d, "--parallel none, for one rank");
    dt_diag_help(
        d, "the line `default` in one of the blocks chooses it where --parallel is not given");
    dt_arena_free(arena);
}

bool dt_configready_check(DtDiags *diags, const DtProgram *program, bool parallel_was_named,
                          bool for_gpus)
{
    const DtTrainConfig *train = program->train;
    if (!train) {
        dt_diag_report(diags, E0453, (DtSpan){0},
                       "a plan needs a `train` block, and the program has none");
        return false;
    }
    bool ok = true;
    if (!train->optimizer.span.file || !dt_train_steps(train)) {
        dt_diag_report(diags, E0453, train->span, "a plan needs `%s`",
                       train->optimizer.span.file ? "steps` or `epochs" : "optimizer");
        ok = false;
    }
    if (program->parallels.n > 1 && !program->parallel && !parallel_was_named) {
        DtDiag *d = dt_diag_report(diags, E0003, (DtSpan){0}, "the program has %u parallel blocks",
                                   program->parallels.n);
        help_choose(d, program);
        ok = false;
    }
    ok &= check_products(diags, &train->precision, for_gpus);
    if (ok)
        lint_cluster(diags, program, for_gpus);
    return ok;
}
