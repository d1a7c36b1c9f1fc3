/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of all kernels are one unit, and its code is its text with a zero behind it. */
#include "codegen/emit.h"
#include "codegen/interpreted/interpreted.h"

DtStatus dt_interpreted_build(DtEmit *e)
{
    DtText text = {0};
    for (uint32_t i = 0; i < e->kernel_texts.n; i++)
        dt_text_add(&text, e->kernel_texts.at[i]);
    dt_text_add_n(&text, "", 1);
    DtPlanCode code = {.target = e->plan->meta.at[0].target,
                       .compiler = dt_write_str(e->plan, "none: interpreted"),
                       .source_len = text.len - 1};
    code.source = dt_write_blob(e->plan, text.at, code.source_len);
    code.binary_len = e->options->no_kernels ? 0 : text.len;
    code.binary = dt_write_blob(e->plan, text.at, code.binary_len);
    DT_PUSH(e->plan->arena, e->plan->codes, code);
    for (uint32_t i = 0; i < e->plan->kernels.n; i++)
        e->plan->kernels.at[i].code = 0;
    dt_text_free(&text);
    return DT_OK;
}
