/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline schedules for people, as text: `dtc --emit=schedule`. Pictures: schedule_picture.c.
 *
 *   schedule 1f1b: 2 stages, 2 pieces, 4 micro-batches
 *   run grad: bubble 20.0 % where F, B and W take equal time; in flight 2 1
 *     stage 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 ...
 *     stage 1: 1RECV_F0 1F0 1B0 1SEND_B0 ...
 *
 * In flight: micro-batches whose activations a stage keeps at once, counted per piece.
 */
#include "passes/pipeline/schedule.h"

static double *equal_times(DtArena *arena, const DtPipelineSchedule *pipeline, double time)
{
    double *times = DT_NEW_ARRAY(arena, double, pipeline->n_pieces);
    for (uint32_t i = 0; i < pipeline->n_pieces; i++)
        times[i] = time;
    return times;
}

static bool has_w(const DtPipelineSchedule *pipeline, const DtPipelineRun *run)
{
    for (uint32_t i = 0; i < pipeline->n_pieces; i++)
        if (run->pieces[i].w >= 0)
            return true;
    return false;
}

void dt_schedule_equal(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPipelineRun *run,
                       DtTimeline *ret_line)
{
    const DtScheduleTimes times = {.f = equal_times(arena, pipeline, 1),
                                   .b = equal_times(arena, pipeline, has_w(pipeline, run) ? 1 : 2),
                                   .w = equal_times(arena, pipeline, 1)};
    dt_schedule_simulate(arena, pipeline, run, &times, ret_line);
}

static void count(DtText *text, int64_t n, const char *one, const char *many, const char *end)
{
    dt_text_printf(text, "%lld %s%s", (long long)n, n == 1 ? one : many, end);
}

static void print_head(const DtPipelineSchedule *pipeline, DtText *text)
{
    dt_text_printf(text, "schedule %s: ", pipeline->schedule);
    count(text, pipeline->n_stages, "stage", "stages", ", ");
    count(text, pipeline->n_pieces, "piece", "pieces", ", ");
    count(text, pipeline->n_micro, "micro-batch", "micro-batches", "\n");
}

static void print_run(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPipelineRun *run,
                      DtText *text)
{
    DtTimeline line;
    dt_schedule_equal(arena, pipeline, run, &line);
    dt_text_printf(text, "run %s: bubble %.1f %% where F, B and W take equal time; in flight",
                   dt_entry_kind_name(run->kind), 100 * line.bubble);
    for (uint32_t s = 0; s < pipeline->n_stages; s++)
        dt_text_printf(text, " %lld", (long long)dt_schedule_in_flight(run, s));
    dt_text_add(text, "\n");
    for (uint32_t s = 0; s < pipeline->n_stages; s++) {
        dt_text_printf(text, "  stage %u: ", s);
        dt_pipeline_print_actions(run, &run->stages[s], text);
        dt_text_add(text, "\n");
    }
}

void dt_schedule_print(DtArena *arena, const DtPipelineSchedule *pipeline, DtText *ret_text)
{
    print_head(pipeline, ret_text);
    for (uint32_t i = 0; i < pipeline->runs.n; i++)
        print_run(arena, pipeline, &pipeline->runs.at[i], ret_text);
}
