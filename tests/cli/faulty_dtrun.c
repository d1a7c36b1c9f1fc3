/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun with a bug, for machine.sh: linked with --wrap. DT_FAULT_IN says which: "sum" (the last
 * element of what ranks add up is that of the first rank alone), "copies" (rank 1 has another
 * parameter than the others after a step), "data" (the last random number of a sample is another
 * one), "scale" (a skipped step does not start the count of good updates anew), "rate" (scalars are
 * those of the step after), "resume" (a resumed run has an update too many), "load" (a checkpoint's
 * first parameter is loaded wrongly), "eval" (an evaluation changes the first parameter), "window"
 * (windows of files after the first one begin a number early), or none. */
#include "runtime/data.h"
#include "runtime/reduce.h"
#include "runtime/runtime.h"
#include "tests/look.h"

#include <stdlib.h>
#include <string.h>

void __real_dt_reduce_buffers(DtPlanDtype dtype, DtPlanReduce reduce, void *to,
                              const void *const *from, uint32_t n, int64_t count);
void __wrap_dt_reduce_buffers(DtPlanDtype dtype, DtPlanReduce reduce, void *to,
                              const void *const *from, uint32_t n, int64_t count);
bool __real_dt_synthetic_fill(const DtSynthetic *synthetic, uint32_t dtype, int64_t sample,
                              int64_t first, int64_t n, void *ret_values);
bool __wrap_dt_synthetic_fill(const DtSynthetic *synthetic, uint32_t dtype, int64_t sample,
                              int64_t first, int64_t n, void *ret_values);

bool __real_dt_scale_step(DtScale *scale, double grad_norm);
bool __wrap_dt_scale_step(DtScale *scale, double grad_norm);
double __real_dt_settings_scalar(const DtPlan *plan, const DtPlanScalar *scalar,
                                 const DtRunSettings *settings, int64_t step, int64_t updates,
                                 double loss_scale, int64_t rows);
double __wrap_dt_settings_scalar(const DtPlan *plan, const DtPlanScalar *scalar,
                                 const DtRunSettings *settings, int64_t step, int64_t updates,
                                 double loss_scale, int64_t rows);

DtStatus __real_dt_datatext_read(const DtTokens *tokens, int64_t at, int64_t n, void *ret_numbers);
DtStatus __wrap_dt_datatext_read(const DtTokens *tokens, int64_t at, int64_t n, void *ret_numbers);
bool __real_dt_exec_entry(DtRank *rank, const char *entry);
bool __wrap_dt_exec_entry(DtRank *rank, const char *entry);
bool __real_dt_checkpoint_load(DtRank *rank, const DtCheckpointFrom *from, int64_t *ret_steps);
bool __wrap_dt_checkpoint_load(DtRank *rank, const DtCheckpointFrom *from, int64_t *ret_steps);

static bool is_fault_in(const char *place)
{
    const char *wanted = getenv("DT_FAULT_IN");
    return wanted && strcmp(wanted, place) == 0;
}

void __wrap_dt_reduce_buffers(DtPlanDtype dtype, DtPlanReduce reduce, void *to,
                              const void *const *from, uint32_t n, int64_t count)
{
    __real_dt_reduce_buffers(dtype, reduce, to, from, n, count);
    if (dtype != DT_PLAN_F32 || count == 0)
        return;
    if (is_fault_in("sum"))
        memcpy((float *)to + count - 1, (const float *)from[0] + count - 1, sizeof(float));
}

bool __wrap_dt_synthetic_fill(const DtSynthetic *synthetic, uint32_t dtype, int64_t sample,
                              int64_t first, int64_t n, void *ret_values)
{
    const bool good = __real_dt_synthetic_fill(synthetic, dtype, sample, first, n, ret_values);
    if (good && n > 0 && dtype == DT_PLAN_I32 && is_fault_in("data"))
        ((int32_t *)ret_values)[n - 1] ^= 1;
    return good;
}

bool __wrap_dt_exec_entry(DtRank *rank, const char *entry)
{
    const DtPlanStore *store = rank->plan->stores;
    const bool good = __real_dt_exec_entry(rank, entry);
    const bool is_copy = rank->rank == 1 && strcmp(entry, "update") == 0 && is_fault_in("copies");
    const bool is_eval = strcmp(entry, "eval") == 0 && rank->eval_batch == 0 && is_fault_in("eval");
    if (good && store->kind == DT_PLAN_PARAM && (is_copy || is_eval))
        *look_at(rank, store->arena, store->offset) ^= 1;
    return good;
}

DtStatus __wrap_dt_datatext_read(const DtTokens *tokens, int64_t at, int64_t n, void *ret_numbers)
{
    return __real_dt_datatext_read(tokens, at - (at > 0 && is_fault_in("window")), n, ret_numbers);
}

bool __wrap_dt_checkpoint_load(DtRank *rank, const DtCheckpointFrom *from, int64_t *ret_steps)
{
    const DtPlanStore *store = rank->plan->stores;
    const bool good = __real_dt_checkpoint_load(rank, from, ret_steps);
    rank->updates[0] += is_fault_in("resume");
    if (good && store->kind == DT_PLAN_PARAM && is_fault_in("load"))
        *look_at(rank, store->arena, store->offset) ^= 1;
    return good;
}

bool __wrap_dt_scale_step(DtScale *scale, double grad_norm)
{
    const int64_t good = scale->good;
    const bool goes_on = __real_dt_scale_step(scale, grad_norm);
    if (scale->was_skipped && is_fault_in("scale"))
        scale->good = good;
    return goes_on;
}

double __wrap_dt_settings_scalar(const DtPlan *plan, const DtPlanScalar *scalar,
                                 const DtRunSettings *settings, int64_t step, int64_t updates,
                                 double loss_scale, int64_t rows)
{
    return __real_dt_settings_scalar(plan, scalar, settings, step + is_fault_in("rate"), updates,
                                     loss_scale, rows);
}
