/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles kernels again for this processor, from the C text in the plan. This happens with
 * --rebuild, and if the plan's machine code is for another processor or for a higher instruction
 * set level. The text is canonical C, so results are the same as those of the plan's own code. The
 * supervisor compiles first and fills the compiler's cache, where the ranks find the results. */
#include "base/hostcc.h"
#include "base/text.h"
#include "plan/calls.h"
#include "runtime/runtime.h"

bool dt_rebuild_wanted(const DtRunOptions *options, const DtPlan *plan)
{
    bool wanted = options->rebuild;
    if (plan->n_launches > 0) /* for GPUs see device_cuda.c */
        return false;
    for (uint32_t i = 0; i < plan->n_codes; i++)
        wanted |= !dt_hostcc_runs(dt_plan_str(plan, plan->codes[i].target)) &&
                  dt_hostcc_known(dt_plan_str(plan, plan->codes[i].target));
    return wanted && plan->n_codes > 0;
}

DtStatus dt_rebuild_codes(const DtPlan *plan, DtArena *memory, DtRebuilt *ret_codes)
{
    const uint32_t n = plan->n_codes;
    const char **texts = DT_NEW_ARRAY(memory, const char *, n + 1);
    DtHostTask task = {.target = "cpu", .n = n, .texts = texts};
    DtHostCall *calls;
    DtHostResult result;
    for (uint32_t i = 0; i < n; i++)
        texts[i] = dt_arena_strndup(memory, (const char *)plan->blob + plan->codes[i].source,
                                    plan->codes[i].source_len);
    dt_calls_find(memory, plan, &calls, &task.n_calls);
    task.calls = calls;
    DtStatus status = dt_hostcc_compile(memory, &task, &result);
    *ret_codes = (DtRebuilt){.units = result.units};
    if (!dt_status_ok(&status))
        return dt_status_fail(status.code,
                              "the plan's kernels must be compiled for this processor (%s): %.300s",
                              dt_hostcc_native(), status.message);
    DtText said = {0};
    for (uint32_t i = 0; i < result.n_wrong; i++)
        dt_text_printf(&said,
                       "warning: `%s` builds kernel `%s` wrongly (`%s` tells another result); it "
                       "is built without "
                       "vectorisation, right but slow\n",
                       result.version, dt_hostcc_name(memory, &task, result.wrong[i]),
                       result.other);
    if (result.n_not_compared)
        dt_text_printf(&said,
                       "warning: machine code is not compared with an independent build: %s\n",
                       result.why_not);
    if (result.no_cache)
        dt_text_printf(&said, "warning: the kernel cache is not used: %s\n", result.no_cache);
    if (said.len)
        ret_codes->said = dt_arena_strndup(memory, said.at, said.len);
    dt_text_free(&said);
    return DT_OK;
}
