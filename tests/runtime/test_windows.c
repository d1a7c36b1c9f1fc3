/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which windows a plan wants: mesh data = 2, tensor = 2, and arenas that collectives use in
 * different ways. */
#include "runtime/windows.h"

#include <criterion/criterion.h>

enum { DATA, TENSOR, BOTH, ALONE, STAGES, GROUPS };
enum { SAME, APART, IDLE, SIDE, ARENAS };

#define AT(...) {.kind = DT_ARG_ADDRESS, .bytes = 64, .arena = __VA_ARGS__}

static const DtPlanMeta meta, of_stages = {.pipeline = 3};
static const DtPlanMeshAxis mesh[] = {{.size = 2}, {.size = 2}, {.size = 2}};
static const DtPlanGroup groups[GROUPS] = {[DATA] = {.mask = 1, .size = 2},
                                           [TENSOR] = {.mask = 2, .size = 2, .queue = 1},
                                           [BOTH] = {.mask = 3, .size = 4},
                                           [ALONE] = {.mask = 2, .size = 1},
                                           [STAGES] = {.mask = 5, .size = 4}};
static const DtPlanArg args[] = {
    /* data: an all-reduce in place, of each layer */
    AT(SAME, .base = 128, .reg = {64}),
    /* data: a gather from a different place on each member */
    AT(SAME), AT(APART, .coord = {256}, .coord_axis = {0}),
    /* tensor: the same member of data has the same value for all of these */
    AT(APART), AT(SIDE, .coord = {256}, .coord_axis = {0}),
    AT(APART, .coord = {0, 512}, .coord_axis = {0, 1}),      /* both mesh axes */
    AT(IDLE), AT(SAME),                                      /* a group of one rank; a kernel */
    AT(IDLE), {.kind = DT_ARG_INTEGER, .arena = IDLE}};
static const DtPlanInst insts[] = {
    {.kind = DT_INST_ALL_REDUCE, .ref = DATA, .n_args = 1},
    {.kind = DT_INST_ALL_GATHER, .ref = DATA, .n_args = 2, .first_arg = 1, .event = 1},
    {.kind = DT_INST_ALL_GATHER, .ref = TENSOR, .n_args = 2, .first_arg = 3, .blocks = 1},
    {.kind = DT_INST_SHIFT_BACK, .ref = BOTH, .n_args = 1, .first_arg = 5},
    {.kind = DT_INST_ALL_REDUCE, .ref = ALONE, .n_args = 1, .first_arg = 6},
    {.kind = DT_INST_KERNEL, .ref = DATA, .n_args = 2, .first_arg = 8},
    {.kind = DT_INST_ALL_GATHER, .ref = STAGES, .n_args = 2, .first_arg = 1, .blocks = 1,
     .event = 1}};

static DtPlan plan_of(const DtPlanMeta *of)
{
    return (DtPlan){.meta = of, .mesh = mesh, .n_mesh = 3, .groups = groups, .n_groups = GROUPS,
                    .n_arenas = ARENAS, .insts = insts, .n_insts = sizeof insts / sizeof insts[0],
                    .args = args};
}

Test(windows, equal_offsets_are_those_without_coordinates_of_the_group)
{
    static const DtWindow wanted[GROUPS][ARENAS] = {
        [DATA] = {DT_WINDOW_EQUAL, DT_WINDOW_ANY, DT_WINDOW_NONE, DT_WINDOW_NONE},
        [TENSOR] = {DT_WINDOW_NONE, DT_WINDOW_EQUAL, DT_WINDOW_NONE, DT_WINDOW_EQUAL},
        [BOTH] = {DT_WINDOW_NONE, DT_WINDOW_ANY, DT_WINDOW_NONE, DT_WINDOW_NONE},
        [STAGES] = {DT_WINDOW_EQUAL, DT_WINDOW_ANY, DT_WINDOW_NONE, DT_WINDOW_NONE}};
    const DtPlan plan = plan_of(&meta);
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t a = 0; a < ARENAS; a++)
            cr_expect_eq(dt_windows_of(&plan, g, a), wanted[g][a], "group %u, arena %u", g, a);
    cr_expect(dt_windows_touch(&plan, SAME) && dt_windows_touch(&plan, APART) &&
              dt_windows_touch(&plan, SIDE));
    cr_expect_not(dt_windows_touch(&plan, IDLE));
}

Test(windows, sides_and_copies)
{
    const DtPlan plan = plan_of(&meta);
    cr_expect(dt_windows_pack(&plan, TENSOR) && !dt_windows_pack(&plan, DATA) &&
              dt_windows_pack(&plan, STAGES));
    cr_expect(dt_windows_gather_beside(&plan, DATA) && dt_windows_gather_beside(&plan, STAGES));
    cr_expect_not(dt_windows_gather_beside(&plan, TENSOR));
}

Test(windows, none_over_stages)
{
    const DtPlan plan = plan_of(&of_stages);
    for (uint32_t a = 0; a < ARENAS; a++)
        cr_expect_eq(dt_windows_of(&plan, STAGES, a), DT_WINDOW_NONE);
    cr_expect_not(dt_windows_pack(&plan, STAGES));
    cr_expect_not(dt_windows_gather_beside(&plan, STAGES));
    cr_expect_eq(dt_windows_of(&plan, DATA, SAME), DT_WINDOW_EQUAL);
}
