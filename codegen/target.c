/* SPDX-License-Identifier: Apache-2.0 */
/* Finds targets by the names of their machines. */
#include "codegen/target.h"

const DtTargetRow *dt_target_find(const char *name)
{
    static const DtTargetRow *const targets[] = {
#define DT_TARGET(NAME, FOLDER, PURPOSE, ...) &dt_target_##FOLDER,
#include "ir/targets.def"
#undef DT_TARGET
        &dt_target_cpu_interpreted, &dt_target_cuda_interpreted,
    };
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (targets[i]->has(name))
            return targets[i];
    return NULL;
}

bool dt_target_is_cpu(const char *name)
{
    const DtTargetRow *row = dt_target_find(name);
    return row && row->kind == DT_TARGET_CPU;
}
