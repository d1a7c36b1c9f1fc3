/* SPDX-License-Identifier: Apache-2.0 */
/* Spreads kernels over units of code. Compilers run next to each other, one for each unit, and the
 * kernel cache keeps units; but each unit costs the start of a compiler and the prelude again, so
 * small plans have one. */
#include "codegen/units.h"

#include "base/hostcache.h"

#include <string.h>

DtUnits dt_units_spread(DtEmit *e, uint32_t most, size_t bytes)
{
    const uint32_t n = e->kernel_texts.n;
    size_t *sizes = DT_NEW_ARRAY(e->arena, size_t, n + 1), filled[DT_UNITS_MOST] = {0}, all = 0;
    DtUnits units = {.of = DT_NEW_ARRAY(e->arena, uint32_t, n + 1)};
    for (uint32_t i = 0; i < n; i++)
        all += sizes[i] = strlen(dt_hostcache_code(e->arena, e->kernel_texts.at[i]));
    const size_t wanted = all / bytes;
    units.n = wanted < 1 ? 1 : wanted > most ? most : (uint32_t)wanted;
    /* takes the longest kernel first, and gives each to the shortest unit so far */
    for (uint32_t done = 0; done < n; done++) {
        uint32_t longest = n, least = 0;
        for (uint32_t i = 0; i < n; i++)
            if (sizes[i] != SIZE_MAX && (longest == n || sizes[i] > sizes[longest]))
                longest = i;
        for (uint32_t u = 1; u < units.n; u++)
            if (filled[u] < filled[least])
                least = u;
        filled[least] += sizes[longest];
        units.of[longest] = least;
        sizes[longest] = SIZE_MAX;
    }
    return units;
}

const char *dt_units_text(DtEmit *e, const DtUnits *units, uint32_t unit, DtText *prelude)
{
    for (uint32_t i = 0; i < e->kernel_texts.n; i++)
        if (units->of[i] == unit)
            dt_text_add(prelude, e->kernel_texts.at[i]);
    const char *kept = dt_arena_strndup(e->arena, prelude->at, prelude->len);
    dt_text_free(prelude);
    return kept;
}
