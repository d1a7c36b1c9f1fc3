/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: records of what is computed: kernels with their launches and registers, attention
 * that a library may compute, and matrix products. check_inst.c checks the instructions that run
 * them. */
#include "plan/check_internal.h"

#include "plan/kinds.h"

static bool is_identifier(const char *text)
{
    if (!((text[0] | 32) >= 'a' && (text[0] | 32) <= 'z') && text[0] != '_')
        return false;
    for (; *text; text++)
        if (!((*text | 32) >= 'a' && (*text | 32) <= 'z') && *text != '_' &&
            !(*text >= '0' && *text <= '9'))
            return false;
    return true;
}

static bool check_kernels(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        const DtPlanKernel *kernel = &plan->kernels[i];
        if (kernel->code >= plan->n_codes)
            return dt_check_fail(check, "KERN", i, "code unit %u of %u", kernel->code,
                                 plan->n_codes);
        if (kernel->n_pointers > DT_CHECK_MAX_ARGS || kernel->n_integers > DT_CHECK_MAX_ARGS)
            return dt_check_fail(check, "KERN", i, "%u pointers and %u integers",
                                 kernel->n_pointers, kernel->n_integers);
        if (!is_identifier(dt_plan_str(plan, kernel->symbol)))
            return dt_check_fail(check, "KERN", i, "its symbol is no identifier");
        if (!dt_check_span(check, "KERN", i, kernel->span))
            return false;
    }
    return true;
}

enum { MOST_SPILLED = 1 << 19 }; /* limit for the bytes to which a thread spills registers */

static bool check_launches(Check *check)
{
    const DtPlan *plan = check->plan;
    if (plan->n_launches && plan->n_launches != plan->n_kernels)
        return dt_check_fail(check, "LNCH", 0, "%u launches of %u kernels", plan->n_launches,
                             plan->n_kernels);
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const DtPlanLaunch *launch = &plan->launches[i];
        if (launch->blocks < 1 || launch->blocks > INT32_MAX || launch->threads < 1 ||
            launch->threads > 1024 || launch->shared > 232448)
            return dt_check_fail(check, "LNCH", i, "%u blocks of %u threads and %u bytes",
                                 launch->blocks, launch->threads, launch->shared);
        const DtPlanKernel *kernel = &plan->kernels[i];
        const uint64_t words =
            (uint64_t)kernel->n_pointers + kernel->n_integers + (launch->finish > 0);
        if (8 * words > DT_PLAN_ARGUMENT_MOST)
            return dt_check_fail(check, "LNCH", i, "an argument of %llu bytes",
                                 8 * (unsigned long long)words);
        if (launch->finish > INT32_MAX || launch->workspace > DT_PLAN_WORKSPACE_MOST ||
            !launch->finish != !launch->workspace)
            return dt_check_fail(check, "LNCH", i,
                                 "%u blocks that finish with %llu bytes of workspace",
                                 launch->finish, (unsigned long long)launch->workspace);
    }
    return true;
}

static bool check_registers(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_registers; i++) {
        const DtPlanRegisters *r = &plan->registers[i], *before = i ? &r[-1] : NULL;
        if (r->kernel >= plan->n_kernels || r->code >= plan->n_codes)
            return dt_check_fail(check, "REGS", i, "kernel %u of %u, code unit %u of %u", r->kernel,
                                 plan->n_kernels, r->code, plan->n_codes);
        if (before && (r->kernel < before->kernel ||
                       (r->kernel == before->kernel && r->code <= before->code)))
            return dt_check_fail(check, "REGS", i,
                                 "kernel %u, code unit %u behind kernel %u, code unit %u",
                                 r->kernel, r->code, before->kernel, before->code);
        if (r->registers > 255 || r->spilled > MOST_SPILLED)
            return dt_check_fail(check, "REGS", i, "%u registers, %u bytes spilled", r->registers,
                                 r->spilled);
    }
    return true;
}

static bool check_sdpas(Check *check)
{
    char why[DT_CHECK_WHY];
    for (uint32_t i = 0; i < check->plan->n_sdpas; i++)
        if (!dt_check_sdpa(check->plan, i, why))
            return dt_check_fail(check, "SDPA", i, "%s", why);
    return true;
}

static bool is_real(uint32_t dtype)
{
    return dtype == DT_PLAN_F32 || dtype == DT_PLAN_BF16 || dtype == DT_PLAN_F16;
}

/* Checks what the epilogue requires of the record. */
static bool check_epilogue(Check *check, uint32_t i)
{
    const DtPlanGemm *g = &check->plan->gemms[i];
    if (g->epilogue >= DT_PLAN_EPILOGUES)
        return dt_check_fail(check, "GEMM", i, "epilogue %u", g->epilogue);
    const bool has_matrix = dt_kinds_epilogues[g->epilogue].matrix != DT_EPILOGUE_NO;
    const bool sums = dt_kinds_epilogues[g->epilogue].vector == DT_EPILOGUE_WRITE;
    if (g->epilogue && (g->n_batch || g->c_col != 1 || (g->accumulate && !sums)))
        return dt_check_fail(check, "GEMM", i,
                             "epilogue `%s` of a product in batches, of columns or that adds up",
                             dt_kinds_epilogues[g->epilogue].name);
    const int64_t strides[] = {g->matrix_row, g->matrix_col};
    for (int s = 0; s < 2; s++)
        if (strides[s] < 0 || strides[s] > DT_PLAN_MAX_BYTES || (!has_matrix && strides[s]))
            return dt_check_fail(check, "GEMM", i, "stride %lld of an epilogue",
                                 (long long)strides[s]);
    if (has_matrix && (g->matrix_col != 1 || (g->m > 1 && g->matrix_row < g->n)))
        return dt_check_fail(check, "GEMM", i, "rows of the epilogue's matrix coincide");
    return true;
}

/* Checks sizes and strides of a GEMM; check_inst.c checks that its operands are inside of
 * buffers. */
static bool check_gemms(Check *check)
{
    const DtPlan *plan = check->plan;
    for (uint32_t i = 0; i < plan->n_gemms; i++) {
        const DtPlanGemm *gemm = &plan->gemms[i];
        if (gemm->n_batch > DT_PLAN_MAX_BATCH || gemm->accumulate > 1)
            return dt_check_fail(check, "GEMM", i, "%u batch axes, accumulate %u", gemm->n_batch,
                                 gemm->accumulate);
        if (!is_real(gemm->dtype_a) || !is_real(gemm->dtype_b) || !is_real(gemm->dtype_c))
            return dt_check_fail(check, "GEMM", i, "multiplies %s and %s into %s",
                                 dt_kinds_name(gemm->dtype_a), dt_kinds_name(gemm->dtype_b),
                                 dt_kinds_name(gemm->dtype_c));
        if (!check_epilogue(check, i))
            return false;
        const int64_t sizes[] = {gemm->m, gemm->n, gemm->k};
        const int64_t strides[] = {gemm->a_row, gemm->a_col, gemm->b_row,
                                   gemm->b_col, gemm->c_row, gemm->c_col};
        for (int s = 0; s < 3; s++)
            if (sizes[s] < 1 || sizes[s] > DT_PLAN_MAX_BYTES)
                return dt_check_fail(check, "GEMM", i, "size %lld", (long long)sizes[s]);
        for (int s = 0; s < 6; s++)
            if (strides[s] < 0 || strides[s] > DT_PLAN_MAX_BYTES)
                return dt_check_fail(check, "GEMM", i, "stride %lld", (long long)strides[s]);
        if ((gemm->m > 1 && gemm->c_row == 0) || (gemm->n > 1 && gemm->c_col == 0))
            return dt_check_fail(check, "GEMM", i, "elements of the result coincide");
        for (uint32_t b = 0; b < DT_PLAN_MAX_BATCH; b++) {
            const int64_t numbers[] = {gemm->batch[b], gemm->a_batch[b], gemm->b_batch[b],
                                       gemm->c_batch[b]};
            for (int s = 0; s < 4; s++)
                if (numbers[s] < (b < gemm->n_batch && s == 0 ? 1 : 0) ||
                    numbers[s] > DT_PLAN_MAX_BYTES || (b >= gemm->n_batch && numbers[s] != 0))
                    return dt_check_fail(check, "GEMM", i, "batch axis %u", b);
            if (b < gemm->n_batch && gemm->batch[b] > 1 && gemm->c_batch[b] == 0)
                return dt_check_fail(check, "GEMM", i, "elements of the result coincide");
        }
    }
    return true;
}

bool dt_check_kernels(Check *check)
{
    return check_kernels(check) && check_launches(check) && check_registers(check) &&
           check_sdpas(check) && check_gemms(check);
}
