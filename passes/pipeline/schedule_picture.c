/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline's schedule as a picture: `dtc --emit=schedule-svg`. Each stage has a row, and each F,
 * B and W a box with its micro-batch; grey parts are the bubble. Below is an axis of time, in
 * seconds if the time line is in seconds.
 *
 *   zb_h1, 4 stages, 8 micro-batches: bubble 10.3 %
 *   [] forward  [] backward  [] gradients  [] waiting          times: a step simulated for a100-80g
 *   stage 0  [0][1][2][3]    [0][0][4]..
 *   stage 1     [0][1][2]  [0][1][0]..
 *            |----+----|----+----|
 *            0        10 ms     20 ms
 *
 * A picture that is too wide for viewers is first drawn smaller, down to 4 pixels for a forward; if
 * that is not enough the middle is left out, and the picture says how much: warm-up and cool-down
 * stay, as far as they fit. */
#include "passes/pipeline/schedule.h"

#include <math.h>

enum { WIDEST = 4000, LEFT = 70, RIGHT = 30, TOP = 62, BELOW = 50, GAP = 60, BOX = 24, LEAST = 4,
       ROW = 30, ROWS = 64, TICK = 110 };

/* A part of the time line, drawn from pixel x on. */
typedef struct Span {
    double from, to, x;
} Span;

typedef struct Drawing {
    const DtPipelineSchedule *pipeline;
    const DtTimeline *line;
    bool seconds;
    double scale; /* pixels per unit of time */
    Span spans[2];
    uint32_t n_spans, row; /* row: height of a stage, in pixels */
    DtText *text;
} Drawing;

static const char *const names[] = {"forward", "backward", "gradients", "waiting"};
static const char *const classes[] = {"k0", "k1", "k2", "w"};
static const char *const colours[] = {"#4c78a8", "#54a24b", "#f58518"};

/* ---- the content of the picture ---- */

static double mean_forward(const DtTimeline *line)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < line->slices.n; i++)
        if (line->slices.at[i].action.kind == DT_ACTION_F) {
            sum += line->slices.at[i].end - line->slices.at[i].start;
            n++;
        }
    return sum > 0 ? sum / n : 1;
}

/* Finds the ramps: warm-up ends when every stage has begun its first backward; cool-down begins
 * when the first stage has finished its last forward. */
static void find_ramps(const Drawing *d, DtArena *arena, double *ret_warm, double *ret_cool)
{
    const uint32_t n = d->pipeline->n_stages;
    double *begins = DT_NEW_ARRAY(arena, double, n), *ends = DT_NEW_ARRAY(arena, double, n);
    *ret_warm = 0;
    *ret_cool = d->line->end;
    for (uint32_t i = 0; i < d->line->slices.n; i++) {
        const DtScheduleSlice *slice = &d->line->slices.at[i];
        double *begin = &begins[slice->stage], *end = &ends[slice->stage];
        if (slice->action.kind == DT_ACTION_B && (*begin == 0 || slice->start < *begin))
            *begin = slice->start;
        if (slice->action.kind == DT_ACTION_F && slice->end > *end)
            *end = slice->end;
    }
    for (uint32_t s = 0; s < n; s++) {
        *ret_warm = fmax(*ret_warm, begins[s]);
        *ret_cool = fmin(*ret_cool, ends[s]);
    }
}

/* Returns the time from the first action of the micro-batches that the picture shows to the end of
 * their last one. */
static Span window_of(const DtTimeline *line, const DtPicture *picture)
{
    Span window = {line->end, 0, LEFT};
    for (uint32_t i = 0; i < line->slices.n; i++) {
        const DtScheduleSlice *slice = &line->slices.at[i];
        if (slice->action.micro < picture->first || slice->action.micro > picture->last)
            continue;
        window.from = slice->start < window.from ? slice->start : window.from;
        window.to = slice->end > window.to ? slice->end : window.to;
    }
    return window;
}

static void choose_spans(Drawing *d, DtArena *arena, const DtPicture *picture)
{
    const double unit = mean_forward(d->line), inner = WIDEST - LEFT - RIGHT;
    const bool all = picture->first < 0;
    const Span whole = all ? (Span){0, d->line->end, LEFT} : window_of(d->line, picture);
    const double length = whole.to - whole.from;
    double warm = length / 2, cool = whole.from;
    d->spans[0] = whole;
    d->n_spans = 1;
    d->scale = BOX / unit;
    if (length * d->scale <= inner)
        return;
    if (all)
        find_ramps(d, arena, &warm, &cool);
    const double half = (inner - GAP) / 2, ramp = fmax(warm, all ? whole.to - cool : warm);
    d->scale = fmin(BOX / unit, fmax(LEAST / unit, ramp > 0 ? half / (1.1 * ramp) : 0));
    d->scale = length * LEAST / unit <= inner ? fmax(d->scale, LEAST / unit) : d->scale;
    if (length * d->scale <= inner)
        return;
    if (!all && length * LEAST / unit <= inner) { /* the whole schedule was requested, so it is
                                                   * drawn smaller */
        d->scale = inner / length;
        return;
    }
    d->n_spans = 2;
    d->spans[0].to = whole.from + half / d->scale;
    d->spans[1] = (Span){whole.to - half / d->scale, whole.to, LEFT + half + GAP};
}

/* ---- boxes ---- */

static uint32_t top_of(const Drawing *d, uint32_t stage) { return TOP + stage * d->row; }

static uint32_t height_of(const Drawing *d) { return d->row > 8 ? d->row - 4 : d->row - 1; }

/* Returns how late the piece is among the pieces of its stage: 0 for the first, 1 for the last. */
static double later_part(const DtPipelineSchedule *pipeline, uint32_t piece)
{
    const uint32_t chunks = pipeline->n_pieces / pipeline->n_stages;
    return chunks > 1 ? (double)(piece / pipeline->n_stages) / (chunks - 1) : 0;
}

static void draw_slice(const Drawing *d, const Span *span, const DtScheduleSlice *slice)
{
    static const char letters[] = "FBW";
    const double from = fmax(slice->start, span->from), to = fmin(slice->end, span->to);
    const double x = span->x + (from - span->from) * d->scale, w = (to - from) * d->scale;
    const uint32_t y = top_of(d, slice->stage), kind = slice->action.kind;
    const double opacity = 1 - 0.6 * later_part(d->pipeline, slice->action.unit);
    if (to <= from)
        return;
    dt_text_printf(d->text, "<rect class=\"%s\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%u\"",
                   classes[kind], x, y, w, height_of(d));
    if (opacity < 1)
        dt_text_printf(d->text, " fill-opacity=\"%.2f\"", opacity);
    dt_text_printf(d->text, "><title>%u%c%lld</title></rect>", slice->action.unit, letters[kind],
                   (long long)slice->action.micro);
    const int64_t micro = slice->action.micro;
    if (d->row >= 16 && w >= 3 + 7 * (micro > 999 ? 4 : micro > 99 ? 3 : micro > 9 ? 2 : 1))
        dt_text_printf(d->text, "<text x=\"%.1f\" y=\"%u\">%lld</text>", x + w / 2,
                       y + d->row / 2 + 2, (long long)micro);
    dt_text_add(d->text, "\n");
}

static void draw_stages(const Drawing *d)
{
    const uint32_t n = d->pipeline->n_stages, every = d->row >= 12 ? 1 : 12 / d->row + 1;
    for (uint32_t s = 0; s < n; s++) {
        if (s % every == 0)
            dt_text_printf(d->text, "<text x=\"%d\" y=\"%u\">stage %u</text>", LEFT / 2,
                           top_of(d, s) + d->row / 2 + 2, s);
        for (uint32_t k = 0; k < d->n_spans; k++) {
            const Span *span = &d->spans[k];
            const double from = fmax(d->line->first[s], span->from),
                         to = fmin(d->line->last[s], span->to);
            if (to > from)
                dt_text_printf(
                    d->text,
                    "<rect class=\"w\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%u\"/>\n",
                    span->x + (from - span->from) * d->scale, top_of(d, s), (to - from) * d->scale,
                    height_of(d));
        }
    }
    for (uint32_t k = 0; k < d->n_spans; k++)
        for (uint32_t i = 0; i < d->line->slices.n; i++)
            draw_slice(d, &d->spans[k], &d->line->slices.at[i]);
}

/* ---- time ---- */

/* Writes a time: "12.5 ms" with as many digits as a scale with steps of that size needs, or a
 * number of units if times are not seconds. */
static void add_time(const Drawing *d, double time, double step)
{
    static const struct { double size; const char *name; } units[] = {{1, "s"}, {1e-3, "ms"},
                                                                      {1e-6, "us"}};
    int unit = 0;
    while (d->seconds && unit < 2 && step < units[unit].size * 0.5 && time < 60)
        unit++;
    const double size = d->seconds ? units[unit].size : 1,
                 digits = ceil(-log10(step / size) - 1e-9);
    dt_text_printf(d->text, "%.*f%s%s", digits > 0 ? (int)digits : 0, time / size,
                   d->seconds ? " " : "", d->seconds ? units[unit].name : "");
}

/* Returns the smallest step of a scale that is at least `least`: 1, 2 or 5 times a power of ten. */
static double step_of(double least)
{
    const double power = pow(10, floor(log10(least)));
    return least <= power       ? power
           : least <= 2 * power ? 2 * power
           : least <= 5 * power ? 5 * power
                                : 10 * power;
}

static void draw_axis(const Drawing *d)
{
    const double step = step_of(TICK / d->scale);
    const uint32_t y = top_of(d, d->pipeline->n_stages) + 4;
    for (uint32_t k = 0; k < d->n_spans; k++) {
        const Span *span = &d->spans[k];
        dt_text_printf(d->text, "<path class=\"a\" d=\"M%.1f %uH%.1f\"/>", span->x, y,
                       span->x + (span->to - span->from) * d->scale);
        for (double i = fmax(0, ceil(span->from / step - 1e-9)); i * step <= span->to; i++) {
            const double x = span->x + (i * step - span->from) * d->scale;
            dt_text_printf(d->text,
                           "<path class=\"a\" d=\"M%.1f %uv6\"/><text x=\"%.1f\" y=\"%u\">", x, y,
                           x, y + 20);
            add_time(d, i * step, step);
            dt_text_add(d->text, "</text>\n");
        }
    }
    dt_text_printf(d->text, "<text x=\"%d\" y=\"%u\">%s</text>\n", LEFT / 2, y + 20,
                   d->seconds ? "time" : "forwards");
}

/* Draws two dotted lines where a part of the time line is left out, and writes its length between
 * them. */
static void draw_gap(const Drawing *d)
{
    const double x = d->spans[1].x - GAP, missing = d->spans[1].from - d->spans[0].to;
    const uint32_t y = top_of(d, d->pipeline->n_stages);
    for (int i = 0; i < 2; i++)
        dt_text_printf(d->text, "<path class=\"g\" d=\"M%.1f %dV%u\"/>", x + i * GAP, TOP, y);
    dt_text_printf(d->text, "<text transform=\"translate(%.1f %u) rotate(-90)\" font-size=\"14\">",
                   x + GAP / 2 + 5, TOP + (y - TOP) / 2);
    add_time(d, missing, missing / 100);
    dt_text_add(d->text, "</text>\n");
}

/* ---- around it ---- */

static void draw_head(const Drawing *d, const DtPicture *picture)
{
    const DtPipelineSchedule *p = d->pipeline;
    dt_text_printf(
        d->text,
        "<text x=\"%d\" y=\"22\" text-anchor=\"start\" font-size=\"14\">%s, %u stages, %lld "
        "micro-batches: bubble %.1f %%",
        LEFT, p->schedule, p->n_stages, (long long)p->n_micro, 100 * d->line->bubble);
    if (picture->first >= 0)
        dt_text_printf(d->text, "; micro-batches %lld to %lld", (long long)picture->first,
                       (long long)picture->last);
    if (d->n_spans > 1)
        dt_text_printf(
            d->text,
            "; %.0f %% of the time is left out between the dotted lines (--window=A..B: what "
            "micro-batches A to B do)",
            100 * (d->spans[1].from - d->spans[0].to) / d->line->end);
    dt_text_add(d->text, "</text>\n");
}

static void draw_legend(const Drawing *d, const DtPicture *picture)
{
    bool has[3] = {false};
    uint32_t x = LEFT;
    for (uint32_t i = 0; i < d->line->slices.n; i++)
        has[d->line->slices.at[i].action.kind] = true;
    for (uint32_t k = 0; k <= 3; k++) {
        if (k < 3 && !has[k])
            continue;
        dt_text_printf(
            d->text,
            "<rect class=\"%s\" x=\"%u\" y=\"36\" width=\"14\" height=\"14\"/><text x=\"%u\" "
            "y=\"47\" text-anchor=\"start\">%s</text>\n",
            classes[k], x, x + 20, names[k]);
        x += 100;
    }
    dt_text_printf(d->text, "<text x=\"%u\" y=\"47\" text-anchor=\"start\">%s; times: %s</text>\n",
                   x,
                   d->pipeline->n_pieces > d->pipeline->n_stages
                       ? "numbers: micro-batches, paler: later pieces"
                       : "numbers: micro-batches",
                   picture->times ? picture->times
                                  : "a forward is 1, a backward with gradients 2, parts of it 1");
}

void dt_schedule_draw(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPicture *picture,
                      DtText *ret_text)
{
    DtTimeline equal;
    Drawing drawing = {.pipeline = pipeline, .line = picture->line, .text = ret_text},
            *d = &drawing;
    d->seconds = picture->line != NULL;
    if (!d->line) {
        dt_schedule_equal(arena, pipeline, &pipeline->runs.at[0], &equal);
        d->line = &equal;
    }
    d->row = pipeline->n_stages <= ROWS ? ROW : ROWS * ROW / pipeline->n_stages;
    d->row = d->row < 6 ? 6 : d->row;
    choose_spans(d, arena, picture);
    const Span *last = &d->spans[d->n_spans - 1];
    const double width = last->x + (last->to - last->from) * d->scale + RIGHT;
    dt_text_printf(
        ret_text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%u\" "
        "font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\">\n<style>"
        ".k0{fill:%s}.k1{fill:%s}.k2{fill:%s}.w{fill:#ddd}.k0,.k1,.k2{stroke:#fff;stroke-width:%s}"
        ".a{stroke:#333;fill:none}.g{stroke:#333;stroke-dasharray:2 4;fill:none}</style>\n",
        width < 900 ? 900 : width, top_of(d, pipeline->n_stages) + BELOW, colours[0], colours[1],
        colours[2], d->row >= 16 ? "1" : "0.3");
    draw_head(d, picture);
    draw_legend(d, picture);
    draw_stages(d);
    draw_axis(d);
    if (d->n_spans > 1)
        draw_gap(d);
    dt_text_add(ret_text, "</svg>\n");
}
