/* SPDX-License-Identifier: Apache-2.0 */
/* The number of micro-batches in flight of interleaved pipelines: the formula compared with the
 * schedules that are compiled. */
#include "passes/pipeline/schedule.h"
#include "search/search.h"

#include <criterion/criterion.h>

typedef struct Run { DtArena *arena; DtPipelineSchedule pipeline; DtPipelineRun run; } Run;

static Run run_of(uint32_t p, uint32_t v, int64_t m)
{
    const DtScheduleKind *form = dt_schedule_find("interleaved_1f1b");
    Run r = {.arena = dt_arena_new(), .pipeline = {.n_stages = p, .n_pieces = p * v, .n_micro = m}};
    DtText problem = {0};
    r.pipeline.stage_of = DT_NEW_ARRAY(r.arena, uint32_t, p * v);
    r.run = (DtPipelineRun){.kind = DT_ENTRY_GRAD,
                            .pieces = DT_NEW_ARRAY(r.arena, DtPieceEntries, p * v)};
    for (uint32_t g = 0; g < p * v; g++) {
        r.pipeline.stage_of[g] = dt_schedule_stage(form, p, g);
        r.run.pieces[g] = (DtPieceEntries){.w = -1};
    }
    cr_assert(dt_schedule_fill(r.arena, &r.pipeline, form, &r.run, &problem), "%s", problem.at);
    return r;
}

/* Returns the largest difference over all chunks of all stages. */
static int64_t off_by(uint32_t p, uint32_t v, int64_t m)
{
    const DtLayout layout = {.size = {[DT_ROLE_PIPE] = p}, .micro = m, .chunks = v,
                             .schedule = DT_SEARCH_INTERLEAVED};
    Run r = run_of(p, v, m);
    int64_t most = 0;
    for (uint32_t g = 0; g < p * v; g++) {
        const DtAction f = {.kind = DT_ACTION_F, .unit = g}, b = {.kind = DT_ACTION_B, .unit = g};
        const int64_t is = dt_schedule_depth(&r.run, g % p, f, b),
                      said = dt_estimate_in_flight(&layout, g % p, g / p);
        most = is > said && is - said > most ? is - said : said - is > most ? said - is : most;
    }
    dt_arena_free(r.arena);
    return most;
}

Test(flight, as_in_the_schedule)
{
    static const uint32_t stages[] = {2, 3, 4, 8, 16}, chunks[] = {2, 3, 8};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++)
            for (int64_t m = 1; m <= 5 * stages[i]; m += m < stages[i] ? 1 : stages[i]) {
                const int64_t off = off_by(stages[i], chunks[k], m);
                cr_expect_eq(off, 0, "%u stages, %u chunks, %d micro-batches: off by %d", stages[i],
                             chunks[k], (int)m, (int)off);
            }
}
