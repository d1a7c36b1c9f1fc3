/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO: what `zero` lines ask for without effect, or get at a cost. Lints, drawn from the buckets:
 *
 *   L0522  a line cuts nothing: its mesh axes split every parameter already, or the optimizer has
 *          no state
 *   L0523  an update multiplies the same matrices on every rank (`muon`)
 *   L0595  `offload` moves nothing; `prefetch` begins no gather sooner, or saves no time
 *
 * They change nothing in the program. */
#include "passes/zero/zero_internal.h"

void dt_zero_lint_offload(const DtBuckets *z, const DtParallelConfig *config, bool for_cpu)
{
    DtDiags *diags = z->module->diags;
    for (uint32_t i = 0; i < config->zeros.n; i++) {
        const DtZero *line = &config->zeros.at[i];
        if (line->offload_host)
            dt_diag_report(diags, L0595, line->span, "%s: optimizer state stays where it is",
                           for_cpu ? "the plan is for the CPU, whose memory is the host's"
                                   : "plans for GPUs do not use the memory of the host yet");
    }
}

void dt_zero_lint_ahead(const DtBuckets *z, const DtParallelConfig *config, bool for_cpu, bool any,
                        bool nested)
{
    DtDiags *diags = z->module->diags;
    for (uint32_t i = 0; i < config->zeros.n; i++) {
        const DtZero *line = &config->zeros.at[i];
        if (line->prefetch == 0)
            continue;
        if (line->level < 3 || !any) {
            dt_diag_report(
                diags, L0595, line->span,
                line->level < 3
                    ? "only `zero 3` gathers what `prefetch` could begin sooner"
                    : "`prefetch` is for loops, and none gathers in two iterations or more");
            continue;
        }
        if (!for_cpu) /* a processor receives while it computes anyway */
            continue;
        DtDiag *diag = dt_diag_report(
            diags, L0595, line->span,
            "the plan is for the CPU, which works in order: `prefetch` takes memory for more "
            "buckets and saves no time");
        if (nested)
            dt_diag_note(diag, "a loop that has one in it which gathers ahead gathers its own "
                               "buckets where it needs them");
        dt_diag_help(diag, "without it, each iteration's parameters are gathered when it begins");
    }
}

static bool cuts(const DtBucket *bucket, const DtMesh *mesh, const DtZero *line)
{
    for (uint32_t i = 0; i < bucket->n_mesh; i++)
        for (uint32_t k = 0; k < line->n_on; k++)
            if (dt_mesh_find(mesh, line->on[k]) == bucket->mesh[i])
                return true;
    return false;
}

void dt_zero_lint_cuts(const DtBuckets *z, const DtParallelConfig *config)
{
    const DtModule *module = z->module;
    for (uint32_t i = 0; i < config->zeros.n; i++) {
        const DtZero *line = &config->zeros.at[i];
        bool finds = false, has_state = false;
        for (uint32_t b = 0; b < z->list.n; b++) {
            const DtBucket *bucket = z->list.at[b];
            finds = finds || cuts(bucket, &module->mesh, line);
            has_state =
                has_state || bucket->stores[DT_STORE_MOMENT1] || bucket->stores[DT_STORE_MASTER];
        }
        if (finds && (has_state || line->level > 1))
            continue;
        DtDiag *diag =
            dt_diag_report(module->diags, L0522, line->span, "this line has no effect: %s",
                           finds ? "the optimizer has no state that could be cut"
                                 : "no parameter is whole over these mesh axes");
        dt_diag_help(diag,
                     finds ? "`zero 2` cuts gradients, `zero 3` parameters too; or drop the line"
                           : "name the mesh axes that split the samples, or drop the line");
    }
}

/* Whether the number of ranks divides the iterations of some loop around the bucket's members, so
 * that ranks can own equally many. */
static bool divides(const DtBuckets *z, const DtBucket *bucket)
{
    const int64_t ranks = z->module->mesh.axes[bucket->mesh[0]].size;
    bool is = false;
    for (uint32_t l = 0; l < bucket->n_loops; l++)
        is = is || bucket->members.at[0]->type->axes[l].extent % ranks == 0;
    return is;
}

/* Says why every rank does all matrix products of the bucket's update: the parameter has no loop
 * iterations; ranks cannot own equally many; or an op of the update combines several. */
static const char *why_alike(const DtBuckets *z, const DtBucket *bucket)
{
    const DtMeshAxis *axis = &z->module->mesh.axes[bucket->mesh[0]];
    if (bucket->n_loops == 0)
        return "outside of loops";
    if (divides(z, bucket))
        return "the update works on several iterations at once";
    return dt_arena_printf(z->arena, "%lld iterations, and %lld ranks of `%s`",
                           (long long)bucket->members.at[0]->type->axes[0].extent,
                           (long long)axis->size, axis->name);
}

void dt_zero_lint_alike(const DtBuckets *z, const DtParallelConfig *config)
{
    enum { SHOWN = 4 };
    const DtModule *module = z->module;
    for (uint32_t i = 0; i < config->zeros.n; i++) {
        const DtZero *line = &config->zeros.at[i];
        const DtBucket *shown[SHOWN];
        uint32_t n = 0, loops = 0, uneven = 0;
        for (uint32_t b = 0; b < z->list.n; b++) {
            const DtBucket *bucket = z->list.at[b];
            if (!bucket->alike || !cuts(bucket, &module->mesh, line))
                continue;
            if (n < SHOWN)
                shown[n] = bucket;
            n++;
            loops += bucket->n_loops > 0;
            uneven += bucket->n_loops > 0 && !divides(z, bucket);
        }
        if (n == 0)
            continue;
        DtDiag *diag = dt_diag_report(
            module->diags, L0523, line->span,
            "the update of %u parameter%s multiplies the same matrices on every rank", n,
            n == 1 ? "" : "s");
        for (uint32_t k = 0; k < n && k < SHOWN; k++)
            dt_diag_note(diag, "`%s`: %s", shown[k]->members.at[0]->path, why_alike(z, shown[k]));
        if (loops == n && !uneven)
            continue;
        dt_diag_help(diag, "%s",
                     loops < n ? "matrices that a `repeat` stacks are dealt out over the ranks, "
                                 "where these divide its "
                                 "iterations; others may have an optimizer that works element by "
                                 "element (`params`)"
                               : "ranks share the work if their number divides the iterations");
    }
}
