/* SPDX-License-Identifier: Apache-2.0 */
/* Finds targets by the names of their machines. */
#include "codegen/target.h"

const DtTargetRow *dt_target_find(const char *name)
{
    static const DtTargetRow *const targets[] = {
#define DT_TARGET(NAME, FOLDER, PURPOSE, ...) &dt_target_##FOLDER,
#include "ir/targets.def"
#undef DT_TARGET
    };
    for (uint32_t i = 0; i < DT_TARGET_KINDS; i++)
        if (targets[i]->has(name))
            return targets[i];
    return NULL;
}
