/* SPDX-License-Identifier: Apache-2.0 */
/* --emit=schedule-svg: the picture of a pipeline's schedule, with the times of the simulated step
 * where the devices of the cluster are known. */
#include "cli/cli.h"

#include "passes/pipeline/schedule.h"
#include "plan/report/dot.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SLICES = 1 << 22 };

/* Fills ret_line with the pieces that the simulation ran: the picture's time line of the
 * schedule. */
static void read_slices(DtArena *arena, const DtSummary *s, const DtPipelineSchedule *pipeline,
                        DtTimeline *ret_line)
{
    static const char letters[] = "fbw";
    const uint32_t n = pipeline->n_stages;
    double longest = 0, busy = 0;
    *ret_line = (DtTimeline){.first = DT_NEW_ARRAY(arena, double, n),
                             .last = DT_NEW_ARRAY(arena, double, n),
                             .busy = DT_NEW_ARRAY(arena, double, n)};
    for (uint32_t i = 0; i < s->sim.n_slices; i++) {
        const DtSlice *slice = &s->sim.slices[i];
        DtDotPart part;
        if (slice->kind != DT_SLICE_PIECE || slice->what == UINT32_MAX ||
            !dt_dot_part(s->plan, &s->plan->entries[slice->what], &part))
            continue;
        const DtAction action = {
            .kind = (uint32_t)(strchr(letters, part.kind) - letters), .unit = part.piece,
            .micro = slice->micro};
        const DtScheduleSlice made = {slice->stage, action, slice->begin, slice->end};
        DT_PUSH(arena, ret_line->slices, made);
        if (ret_line->busy[slice->stage] == 0)
            ret_line->first[slice->stage] = slice->begin;
        ret_line->last[slice->stage] = slice->end;
        ret_line->busy[slice->stage] += slice->end - slice->begin;
        ret_line->end = slice->end > ret_line->end ? slice->end : ret_line->end;
    }
    for (uint32_t stage = 0; stage < n; stage++) {
        const double length = ret_line->last[stage] - ret_line->first[stage];
        longest = length > longest ? length : longest;
        busy += ret_line->busy[stage];
    }
    ret_line->bubble = longest > 0 ? 1 - busy / (longest * n) : 0;
}

/* Reads --window=A..B, the micro-batches of the pipeline that are drawn; returns an exit code. */
static int read_window(const DtCli *cli, const DtPipelineSchedule *pipeline, DtPicture *picture)
{
    const char *window = cli->window;
    char *end = NULL;
    picture->first = picture->last = -1;
    if (!window)
        return DT_EXIT_OK;
    if (*window >= '0' && *window <= '9')
        picture->first = strtoll(window, &end, 10);
    if (end && strncmp(end, "..", 2) == 0 && end[2] >= '0' && end[2] <= '9')
        picture->last = strtoll(end + 2, &end, 10);
    if (!end || *end || picture->last < picture->first || picture->last >= pipeline->n_micro)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "--window takes A..B, micro-batches between 0 and %lld; not %s",
                           (long long)pipeline->n_micro - 1, window);
    return DT_EXIT_OK;
}

int dt_cli_picture(const DtCli *cli, const DtModule *module, const DtPlan *plan,
                   const DtCostModel *model)
{
    DtText text = {0};
    DtPicture picture;
    DtTimeline line;
    if (!module->pipeline)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "--emit=schedule-svg draws pipelines; this layout has none");
    int code = read_window(cli, module->pipeline, &picture);
    if (code != DT_EXIT_OK)
        return code;
    picture.line = NULL;
    picture.times = NULL;
    DtArena *arena = dt_arena_child(cli->arena);
    if (plan && model) {
        DtSummary summary;
        const DtReportOptions options = {.slices = true, .most_slices = MOST_SLICES};
        dt_summary_make(arena, plan, model, &options, &summary);
        if (summary.sim.n_slices >= MOST_SLICES)
            picture.times = "too many pieces to simulate each, a forward is 1, a backward 2 with "
                            "gradients, else 1";
        else if (summary.has_time) {
            read_slices(arena, &summary, module->pipeline, &line);
            picture.line = &line;
            picture.times = dt_arena_printf(arena, "a step simulated for %s",
                                            model->n_kinds ? summary.devices : model->device->name);
        }
    }
    dt_schedule_draw(arena, module->pipeline, &picture, &text);
    code = dt_cli_write(cli, &text);
    dt_text_free(&text);
    dt_arena_free(arena);
    return code;
}
