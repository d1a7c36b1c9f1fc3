/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels compiled again from the C text in the plan, for this processor: when --rebuild asks for it, and when
 * the plan's machine code is for another processor, or for a higher level than this one has. The text is
 * canonical C, so the numbers are those of the plan's own code. The supervisor compiles first, which fills the
 * compiler's cache; ranks find the results there. */
#include "base/hostcc.h"
#include "runtime/runtime.h"

bool dt_rebuild_wanted(const DtRunOptions *options, const DtPlan *plan)
{
    bool wanted = options->rebuild;
    for (uint32_t i = 0; i < plan->n_codes; i++)
        wanted |= !dt_hostcc_runs(dt_plan_str(plan, plan->codes[i].target)) &&
                  dt_hostcc_known(dt_plan_str(plan, plan->codes[i].target));
    return wanted && plan->n_codes > 0;
}

DtStatus dt_rebuild_codes(const DtPlan *plan, DtArena *memory, DtRebuilt *ret_codes)
{
    uint32_t n = plan->n_codes;
    const char *version, **texts = DT_NEW_ARRAY(memory, const char *, n + 1);
    *ret_codes = (DtRebuilt){DT_NEW_ARRAY(memory, uint8_t *, n + 1), DT_NEW_ARRAY(memory, size_t, n + 1)};
    for (uint32_t i = 0; i < n; i++)
        texts[i] = dt_arena_strndup(memory, (const char *)plan->blob + plan->codes[i].source,
                                    plan->codes[i].source_len);
    DtStatus status = dt_hostcc_compile(memory, "cpu", n, texts, ret_codes->bytes, ret_codes->lens, &version);
    if (dt_status_ok(&status))
        return status;
    return dt_status_fail(status.code, "the plan's kernels must be compiled for this processor (%s): %.300s",
                          dt_hostcc_native(), status.message);
}
