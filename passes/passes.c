/* SPDX-License-Identifier: Apache-2.0 */
/* The table of passes. */
#include "passes/passes.h"

#include <string.h>

#define DT_PASS(NAME, FUNCTION, PROOF, PURPOSE) {NAME, FUNCTION, DT_PASS_##PROOF, PURPOSE},
const DtPass dt_passes[] = {
#include "passes/passes.def"
};
#undef DT_PASS
const uint32_t dt_n_passes = DT_COUNT(dt_passes);

const DtPass *dt_passes_find(const char *name)
{
    for (uint32_t i = 0; i < dt_n_passes; i++)
        if (strcmp(dt_passes[i].name, name) == 0)
            return &dt_passes[i];
    return NULL;
}

bool dt_pass_is_last(const DtPass *pass)
{
    return pass + 1 == dt_passes + dt_n_passes || pass[1].proof != pass->proof;
}

void dt_passes_run(DtModule *module, const DtPassContext *context, DtPassObserver *observer,
                   void *data)
{
    for (uint32_t i = 0; i < dt_n_passes; i++) {
        const bool changed = dt_passes[i].run(module, context);
        if (observer != NULL)
            observer(data, &dt_passes[i], module, changed);
    }
}
