/* SPDX-License-Identifier: Apache-2.0 */
/* Units of code: appends kernels to the prelude, compiles the text with the host compiler, and
 * stores the machine code in the plan. */
#include "codegen/cpu/cpu.h"
#include "codegen/emit.h"
#include "codegen/units.h"

#include "base/hostcc.h"
#include "plan/calls.h"

#include <string.h>
#include <time.h>

/* A unit takes gcc some 30 ms more, in which it compiles 1,500 bytes of kernels with -O3. */
enum { MOST_UNITS = 4, UNIT_BYTES = 4 << 10 };

static const char *unit_text(DtEmit *e, const DtUnits *units, uint32_t unit)
{
    DtText text = {0};
    dt_text_add(&text, dt_prelude_c);
    return dt_units_text(e, units, unit, &text);
}

/* Lists in task->calls how the plan calls each kernel, from the plan's records so far. */
static void find_calls(DtEmit *e, DtHostTask *task)
{
    const DtPlanBuilder *b = e->plan;
    const DtPlan plan = {.meta = b->meta.at, .n_meta = b->meta.n, .mesh = b->mesh.at,
                         .n_mesh = b->mesh.n, .kernels = b->kernels.at, .n_kernels = b->kernels.n,
                         .args = b->args.at, .n_args = b->args.n, .insts = b->insts.at,
                         .n_insts = b->insts.n, .strings = b->strings.at,
                         .n_strings = b->strings.n};
    DtHostCall *calls;
    dt_calls_find(e->arena, &plan, &calls, &task->n_calls);
    task->calls = calls;
}

static void report_wrong(DtEmit *e, const DtHostTask *task, const DtHostResult *result)
{
    for (uint32_t i = 0; i < result->n_wrong; i++)
        for (uint32_t k = 0; k < e->plan->kernels.n; k++) {
            if (strcmp(e->plan->strings.at + e->plan->kernels.at[k].symbol, result->wrong[i]) != 0)
                continue;
            DtDiag *diag = dt_diag_report(e->module->diags, L0598, e->kernel_spans.at[k],
                                          "the C compiler builds kernel `%s` wrongly",
                                          dt_hostcc_name(e->arena, task, result->wrong[i]));
            dt_diag_note(diag, "as `%s` builds it, it computes another thing than as `%s` does",
                         result->version, result->other);
            dt_diag_note(
                diag,
                "its unit of code is built without vectorisation, which agrees: right, but slow");
            dt_diag_help(diag, "name another compiler in DT_CC, or another version of it");
            break;
        }
}

static void report_code(DtEmit *e, const DtHostTask *task, const DtHostResult *result)
{
    if (!e->module->diags)
        return;
    report_wrong(e, task, result);
    if (result->n_not_compared) {
        DtDiag *diag =
            dt_diag_report(e->module->diags, L0599, (DtSpan){0},
                           "machine code that is not compared with an independent build");
        dt_diag_note(diag, "%s", result->why_not);
        if (!dt_hostcc_runs(task->target))
            dt_diag_help(diag, "`dtrun --rebuild` builds and compares it where it runs");
    }
    if (result->no_cache) {
        DtDiag *diag =
            dt_diag_report(e->module->diags, L0004, (DtSpan){0}, "the kernel cache is not used");
        dt_diag_note(diag, "%s", result->no_cache);
    }
}

DtStatus dt_cpu_build(DtEmit *e)
{
    const DtUnits units = dt_units_spread(e, MOST_UNITS, UNIT_BYTES);
    const char *texts[MOST_UNITS];
    DtHostTask task = {.target = e->options->target, .n = units.n, .texts = texts};
    DtHostResult result = {.version = ""};
    DtStatus status = DT_OK;
    for (uint32_t u = 0; u < units.n; u++)
        texts[u] = unit_text(e, &units, u);
    for (uint32_t i = 0; i < e->plan->kernels.n; i++)
        e->plan->kernels.at[i].code = units.of[i];
    struct timespec from, until;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (!e->options->no_kernels) {
        find_calls(e, &task);
        status = dt_hostcc_compile(e->arena, &task, &result);
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (e->options->ret_host_seconds)
        *e->options->ret_host_seconds =
            (double)(until.tv_sec - from.tv_sec) + (double)(until.tv_nsec - from.tv_nsec) * 1e-9;
    for (uint32_t u = 0; dt_status_ok(&status) && u < units.n; u++) {
        const DtHostBytes binary = result.units ? result.units[u] : (DtHostBytes){0};
        DtPlanCode code = {.target = e->plan->meta.at[0].target,
                           .compiler = dt_write_str(e->plan, result.version),
                           .source_len = strlen(texts[u]), .binary_len = binary.len};
        code.source = dt_write_blob(e->plan, texts[u], code.source_len);
        code.binary = binary.len ? dt_write_blob(e->plan, binary.at, binary.len) : 0;
        DT_PUSH(e->plan->arena, e->plan->codes, code);
    }
    if (dt_status_ok(&status))
        report_code(e, &task, &result);
    return status;
}
