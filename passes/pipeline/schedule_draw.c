/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline schedules for people: `dtc --emit=schedule` and `--emit=schedule-svg`.
 *
 *   schedule 1f1b: 2 stages, 2 pieces, 4 micro-batches
 *   run grad: bubble 20.0 % where F, B and W take equal time; in flight 2 1
 *     stage 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 ...
 *     stage 1: 1RECV_F0 1F0 1B0 1SEND_B0 ...
 *
 * In flight: micro-batches whose activations a stage keeps at once, counted per piece.
 *
 * The picture has a row per stage and a box per F, B and W, one unit of time wide (a whole backward
 * two), with its micro-batch; what is left grey is the bubble. */
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

static void simulate(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPipelineRun *run,
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
    simulate(arena, pipeline, run, &line);
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

/* ---- the picture ---- */

enum { UNIT = 24, ROW = 30, LEFT = 70, TOP = 40 }; /* pixels: one unit of time, a stage, margins */

/* Forward blue, backward green, weights orange; later pieces of a stage paler. */
static const char *const colours[2][3] = {{"#4c78a8", "#54a24b", "#f58518"},
                                          {"#9ecae9", "#a8ddb5", "#ffbf79"}};

static void draw_slice(const DtPipelineSchedule *pipeline, const DtScheduleSlice *slice,
                       DtText *text)
{
    static const char names[] = "FBW";
    const double x = LEFT + slice->start * UNIT, w = (slice->end - slice->start) * UNIT;
    const uint32_t y = TOP + slice->stage * ROW, kind = slice->action.kind;
    const uint32_t pale = slice->action.unit >= pipeline->n_stages;
    dt_text_printf(text,
                   "<rect x=\"%.0f\" y=\"%u\" width=\"%.0f\" height=\"%u\" fill=\"%s\" "
                   "stroke=\"#fff\"><title>%u%c%lld</title></rect>",
                   x, y, w, (unsigned)ROW - 4, colours[pale][kind], slice->action.unit, names[kind],
                   (long long)slice->action.micro);
    dt_text_printf(text, "<text x=\"%.0f\" y=\"%u\">%lld</text>\n", x + w / 2, y + ROW / 2 + 2,
                   (long long)slice->action.micro);
}

void dt_schedule_draw(DtArena *arena, const DtPipelineSchedule *pipeline, DtText *ret_text)
{
    DtTimeline line;
    simulate(arena, pipeline, &pipeline->runs.at[0], &line);
    const double width = LEFT + line.end * UNIT + 20;
    const uint32_t height = TOP + pipeline->n_stages * ROW + 20;
    dt_text_printf(ret_text,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%u\" "
                   "font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\">\n",
                   width, height);
    dt_text_printf(
        ret_text,
        "<text x=\"%d\" y=\"22\" text-anchor=\"start\" font-size=\"14\">%s, %u stages, %lld "
        "micro-batches: bubble %.1f %%</text>\n",
        LEFT, pipeline->schedule, pipeline->n_stages, (long long)pipeline->n_micro,
        100 * line.bubble);
    for (uint32_t s = 0; s < pipeline->n_stages; s++) {
        const uint32_t y = TOP + s * ROW;
        dt_text_printf(ret_text, "<text x=\"%d\" y=\"%u\">stage %u</text>", LEFT / 2,
                       y + ROW / 2 + 2, s);
        dt_text_printf(ret_text,
                       "<rect x=\"%.0f\" y=\"%u\" width=\"%.0f\" height=\"%u\" fill=\"#ddd\"/>\n",
                       LEFT + line.first[s] * UNIT, y, (line.last[s] - line.first[s]) * UNIT,
                       (unsigned)ROW - 4);
    }
    for (uint32_t i = 0; i < line.slices.n; i++)
        draw_slice(pipeline, &line.slices.at[i], ret_text);
    dt_text_add(ret_text, "</svg>\n");
}
