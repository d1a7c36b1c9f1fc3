/* SPDX-License-Identifier: Apache-2.0 */
/* The table of target limits. */
#include "ir/target.h"

const DtTargetLimits dt_target_limits[DT_TARGET_KINDS] = {
#define DT_TARGET(NAME, FOLDER, PURPOSE, ...) [DT_TARGET_##NAME] = {__VA_ARGS__},
#include "ir/targets.def"
#undef DT_TARGET
};

/* Whether the target has a product of these dtypes. It sums in f32. */
bool dt_target_multiplies(const DtTargetLimits *limits, DtDtype a, DtDtype b, DtDtype c)
{
    return a == b && limits->products >> a & 1 && (c == a || c == DT_F32);
}
