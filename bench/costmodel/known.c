/* SPDX-License-Identifier: Apache-2.0 */
/* The library's devices and stacks, read by the compiler's own front end. */
#include "bench/costmodel/costmodel.h"

#include "frontend/lower.h"

#include <stdlib.h>
#include <string.h>

Known known_copy(DtArena *arena, const Known *known)
{
    Known copy = *known;
    copy.devices = DT_NEW_ARRAY(arena, DtDevice, known->n_devices);
    memcpy(copy.devices, known->devices, known->n_devices * sizeof *copy.devices);
    return copy;
}

Known known_read(DtArena *arena, const char *tree)
{
    DtDiags *diags = dt_diag_new(arena);
    const DtLowerOptions options = {
        .path = dt_arena_printf(arena, "%s/bench/costmodel/known.dsl", tree),
        .library = dt_arena_printf(arena, "%s/lib", tree)};
    const DtProgram *program = dt_lower(arena, diags, &options);
    if (!program || dt_diag_errors(diags)) {
        dt_diag_print(diags, stderr, false);
        exit(1);
    }
    Known known = {.n_devices = program->devices.n, .stacks = program->stacks.at,
                   .n_stacks = program->stacks.n};
    known.devices = DT_NEW_ARRAY(arena, DtDevice, program->devices.n);
    for (uint32_t i = 0; i < program->devices.n; i++)
        known.devices[i] = *program->devices.at[i];
    return known;
}
