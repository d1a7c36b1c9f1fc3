/* SPDX-License-Identifier: Apache-2.0 */
/* Pipeline schedules: every action occurs once, there is no deadlock, and bubbles and activations
 * in flight are the published ones. Times: F = B = W = 1, a whole backward pass 2, transfers 0.
 * Bubbles are compared exactly, as numbers of time units. */
#include "golden.h"
#include "passes/pipeline/schedule.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    DtArena *arena;
    const DtScheduleKind *form;
    DtPipelineSchedule pipeline;
    DtPipelineRun run;
} Case;

static void join(Case *c, uint32_t from, uint32_t to)
{
    const uint32_t *stage_of = c->pipeline.stage_of;
    DtChannel channel = {
        .from_piece = from, .to_piece = to, .from = stage_of[from], .to = stage_of[to]};
    if (channel.from != channel.to)
        DT_PUSH(c->arena, c->run.channels, channel);
}

/* name: of the schedule, or "forward:" and the name of the schedule that placed the pieces. */
static Case *make(const char *name, uint32_t p, uint32_t v, int64_t m)
{
    DtArena *arena = dt_arena_new();
    Case *c = DT_NEW(arena, Case);
    const bool forward = strncmp(name, "forward:", 8) == 0;
    const DtScheduleKind *places = dt_schedule_find(forward ? name + 8 : name);
    cr_assert(places, "%s", name);
    c->arena = arena;
    c->form = forward ? dt_schedule_find("forward") : places;
    c->pipeline =
        (DtPipelineSchedule){.schedule = name, .n_stages = p, .n_pieces = p * v, .n_micro = m};
    c->pipeline.stage_of = DT_NEW_ARRAY(arena, uint32_t, p * v);
    c->run.kind = DT_ENTRY_GRAD;
    c->run.pieces = DT_NEW_ARRAY(arena, DtPieceEntries, p * v);
    for (uint32_t g = 0; g < p * v; g++) {
        c->pipeline.stage_of[g] = dt_schedule_stage(places, p, g);
        c->run.pieces[g] =
            (DtPieceEntries){.b = forward ? -1 : 0, .w = !forward && c->form->splits ? 0 : -1};
    }
    for (uint32_t g = 0; g + 1 < p * v; g++) {
        join(c, g, g + 1);
        if (!forward)
            join(c, g + 1, g);
    }
    DtText problem = {0};
    cr_assert(dt_schedule_fill(arena, &c->pipeline, c->form, &c->run, &problem),
              "%s p=%u v=%u m=%lld\n%s", name, p, v, (long long)m, problem.at);
    dt_text_free(&problem);
    return c;
}

static DtTimeline timeline(Case *c, double pair)
{
    const uint32_t n = c->pipeline.n_pieces;
    double *one = DT_NEW_ARRAY(c->arena, double, n), *b = DT_NEW_ARRAY(c->arena, double, n);
    DtTimeline line;
    for (uint32_t i = 0; i < n; i++) {
        one[i] = 1;
        b[i] = c->form->splits ? 1 : 2;
    }
    const DtScheduleTimes times = {.f = one, .b = b, .w = one, .pair = pair};
    dt_schedule_simulate(c->arena, &c->pipeline, &c->run, &times, &line);
    return line;
}

/* Returns the idle time of the stage that works longest. */
static double idle(const Case *c, const DtTimeline *line)
{
    double longest = 0, most = 0;
    for (uint32_t s = 0; s < c->pipeline.n_stages; s++) {
        longest =
            longest > line->last[s] - line->first[s] ? longest : line->last[s] - line->first[s];
        most = most > line->busy[s] ? most : line->busy[s];
    }
    return longest - most;
}

static const struct {
    const char *name;
    uint32_t least, most; /* number of pieces of each stage */
} all[] = {{"gpipe", 1, 1},
           {"1f1b", 1, 1},
           {"interleaved_1f1b", 2, 4},
           {"zb_h1", 1, 1},
           {"zb_v", 2, 2},
           {"dualpipe_v", 2, 2},
           {"forward:1f1b", 1, 1},
           {"forward:interleaved_1f1b", 2, 3},
           {"forward:zb_v", 2, 2}};

/* Checks that each stage runs each action once and in the order of micro-batches; then runs all
 * stages against each other. */
static void expect_whole(const Case *c, const char *name)
{
    int64_t *next[DT_ACTION_KINDS];
    const uint32_t n = c->pipeline.n_pieces + c->run.channels.n;
    for (int k = 0; k < DT_ACTION_KINDS; k++)
        next[k] = DT_NEW_ARRAY(c->arena, int64_t, n);
    for (uint32_t s = 0; s < c->pipeline.n_stages; s++)
        for (int64_t i = 0; i < dt_pipeline_count(&c->run.stages[s]); i++) {
            const DtAction a = dt_pipeline_at(&c->run.stages[s], i);
            cr_assert_eq(a.micro, next[a.kind][a.unit]++, "%s p=%u m=%lld", name,
                         c->pipeline.n_stages, (long long)c->pipeline.n_micro);
        }
    for (uint32_t g = 0; g < c->pipeline.n_pieces; g++) {
        cr_assert_eq(next[DT_ACTION_F][g], c->pipeline.n_micro);
        cr_assert_eq(next[DT_ACTION_B][g], c->run.pieces[g].b < 0 ? 0 : c->pipeline.n_micro);
        cr_assert_eq(next[DT_ACTION_W][g], c->run.pieces[g].w < 0 ? 0 : c->pipeline.n_micro);
    }
    DtText problem = {0};
    cr_assert(dt_schedule_check(&c->pipeline, &c->run, &problem), "%s p=%u v=%u m=%lld\n%s", name,
              c->pipeline.n_stages, c->pipeline.n_pieces / c->pipeline.n_stages,
              (long long)c->pipeline.n_micro, problem.at);
    dt_text_free(&problem);
}

Test(schedule, every_action_once_and_no_deadlock)
{
    for (size_t i = 0; i < DT_COUNT(all); i++)
        for (uint32_t p = 1; p <= 6; p++)
            for (uint32_t v = all[i].least; v <= all[i].most; v++)
                for (int64_t m = 1; m <= 3 * p + 2; m++) {
                    Case *c = make(all[i].name, p, v, m);
                    expect_whole(c, all[i].name);
                    const bool uneven =
                        /* rounds that have different sizes */
                        all[i].least != all[i].most && m % p != 0;
                    for (uint32_t k = 0; k < c->run.channels.n; k++)
                        cr_expect_leq(c->run.channels.at[k].slots, uneven ? 4 : 2,
                                      "%s p=%u v=%u m=%lld needs %lld", all[i].name, p, v,
                                      (long long)m, (long long)c->run.channels.at[k].slots);
                    dt_arena_free(c->arena);
                }
}

/* idle time in units; on stage s, the micro-batches in flight, counted in pieces */
typedef double Units(int64_t p, int64_t v, int64_t m);
typedef int64_t Flight(int64_t p, int64_t v, int64_t m, int64_t s);

static double as_1f1b(int64_t p, int64_t v, int64_t m)
{
    (void)v;
    (void)m;
    return 3.0 * (double)(p - 1);
}
static double third(int64_t p, int64_t v, int64_t m)
{
    (void)v;
    (void)m;
    return (double)(p - 1);
}
static double none(int64_t p, int64_t v, int64_t m)
{
    (void)p;
    (void)v;
    (void)m;
    return 0;
}
static int64_t all_of_them(int64_t p, int64_t v, int64_t m, int64_t s)
{
    (void)p;
    (void)v;
    (void)s;
    return m;
}
static int64_t towards_end(int64_t p, int64_t v, int64_t m, int64_t s)
{
    (void)v;
    (void)m;
    return p - s;
}
static int64_t stages(int64_t p, int64_t v, int64_t m, int64_t s)
{
    (void)v;
    (void)m;
    (void)s;
    return p;
}
static int64_t two_per_stage(int64_t p, int64_t v, int64_t m, int64_t s)
{
    (void)v;
    (void)m;
    (void)s;
    return 2 * p;
}
static int64_t one_more(int64_t p, int64_t v, int64_t m, int64_t s)
{
    (void)v;
    (void)m;
    (void)s;
    return 2 * p + 1;
}
static int64_t interleaved(int64_t p, int64_t v, int64_t m, int64_t s)
{
    const int64_t ahead = 2 * (p - s - 1) + (v - 1) * p + 1;
    return m == p || ahead > m * v ? m * v : ahead;
}

/* The unit of an interleaved or there-and-back schedule is a piece: 1/v of a stage's work, so
 * 3(p-1) units are 1/v of the idle time of 1f1b. m: at least least(p); a multiple of p in some
 * rows. */
static const struct {
    const char *name;
    uint32_t v;
    bool multiples;
    int64_t a, b; /* m >= a p + b for this schedule */
    Units *idle;
    Flight *flight;
} published[] = {
    {"gpipe", 1, false, 1, 0, as_1f1b, all_of_them},
    {"1f1b", 1, false, 1, 0, as_1f1b, towards_end},
    {"interleaved_1f1b", 2, true, 1, 0, as_1f1b, interleaved},
    {"interleaved_1f1b", 3, true, 1, 0, as_1f1b, interleaved},
    {"interleaved_1f1b", 4, true, 1, 0, as_1f1b, interleaved},
    {"zb_h1", 1, false, 2, -1, third, stages},
    {"zb_v", 2, false, 2, -1, none, two_per_stage},
    {"dualpipe_v", 2, false, 2, 0, third, one_more},
};

Test(schedule, bubbles_and_activations_as_published)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 8, 16};
    for (size_t i = 0; i < DT_COUNT(published); i++)
        for (size_t k = 0; k < DT_COUNT(sizes); k++) {
            const int64_t p = sizes[k], v = published[i].v,
                          least = published[i].a * p + published[i].b;
            for (int64_t m = least; m <= 4 * p; m++) {
                if (published[i].multiples && m % p != 0)
                    continue;
                Case *c = make(published[i].name, (uint32_t)p, (uint32_t)v, m);
                const DtTimeline line = timeline(c, 0);
                cr_expect_eq(idle(c, &line), published[i].idle(p, v, m),
                             "%s p=%lld v=%lld m=%lld: %g", published[i].name, (long long)p,
                             (long long)v, (long long)m, idle(c, &line));
                for (int64_t s = 0; s < p; s++)
                    cr_expect_eq(dt_schedule_in_flight(&c->run, (uint32_t)s),
                                 published[i].flight(p, v, m, s),
                                 "%s p=%lld v=%lld m=%lld stage %lld: %lld in flight",
                                 published[i].name, (long long)p, (long long)v, (long long)m,
                                 (long long)s,
                                 (long long)dt_schedule_in_flight(&c->run, (uint32_t)s));
                dt_arena_free(c->arena);
            }
        }
}

/* The idle share of all stages' time is (p-1)/(m+p-1), also in the number that is printed. */
Test(schedule, bubble_fraction)
{
    Case *c = make("1f1b", 4, 1, 8);
    DtTimeline line = timeline(c, 0);
    cr_expect_float_eq(line.bubble, 3.0 / 11, 1e-15);
    dt_arena_free(c->arena);
    c = make("interleaved_1f1b", 4, 2, 8);
    line = timeline(c, 0);
    cr_expect_float_eq(line.bubble, 3.0 / 2 / (8 + 3.0 / 2), 1e-15);
    dt_arena_free(c->arena);
}

/* The table of DeepSeek's DualPipe: with pairs of F and B of another piece that take F&B together,
 * the bubble is (PP/2 - 1)(F&B + B - 3W) for PP = 2p pieces and B = 2 the whole backward. Its
 * example: 4 ranks, 10 micro-batches. */
Test(schedule, dualpipe_v_with_overlap)
{
    static const double together[] = {2, 2.5, 3};
    static const uint32_t sizes[] = {2, 3, 4, 6, 8};
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        for (size_t k = 0; k < DT_COUNT(together); k++) {
            const uint32_t p = sizes[i];
            const int64_t m = p <= 5 ? 10 : 2 * p;
            Case *c = make("dualpipe_v", p, 2, m);
            const DtTimeline line = timeline(c, together[k]);
            double most = 0;
            for (uint32_t s = 0; s < p; s++)
                most = most > line.end - line.busy[s] ? most : line.end - line.busy[s];
            cr_expect_float_eq(most, (p - 1) * (together[k] + 2 - 3), 1e-12, "p=%u F&B=%g: %g", p,
                               together[k], most);
            dt_arena_free(c->arena);
        }
}

/* Lists are kept as prologue, period, epilogue: their length does not grow with the number of
 * micro-batches. */
Test(schedule, long_lists_are_short)
{
    static const char *const names[] = {"1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "dualpipe_v"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        const uint32_t v = i == 1 || i > 2 ? 2 : 1, p = 8;
        uint32_t kept[2] = {0};
        for (int k = 0; k < 2; k++) {
            Case *c = make(names[i], p, v, k ? 512 : 64);
            expect_whole(c, names[i]);
            for (uint32_t s = 0; s < p; s++) {
                const DtStageActions *a = &c->run.stages[s];
                kept[k] += a->prologue.n + a->period.n + a->epilogue.n;
            }
            dt_arena_free(c->arena);
        }
        cr_expect_eq(kept[0], kept[1], "%s: %u actions for 64 micro-batches, %u for 512", names[i],
                     kept[0], kept[1]);
        cr_expect_leq(kept[1], p * (14 * p * v), "%s: %u", names[i], kept[1]);
    }
}

/* Slots: the largest number of micro-batches between two actions. */
Test(schedule, slots_of_values)
{
    Case *c = make("1f1b", 4, 1, 8);
    const DtAction f = {.kind = DT_ACTION_F, .unit = 1}, b = {.kind = DT_ACTION_B, .unit = 1};
    DtAction recv = {.kind = DT_ACTION_RECV};
    while (c->run.channels.at[recv.unit].to_piece != 1 ||
           c->run.channels.at[recv.unit].from_piece != 0)
        recv.unit++;
    cr_expect_eq(dt_schedule_depth(&c->run, 1, f, b), 3);
    cr_expect_eq(dt_schedule_depth(&c->run, 1, recv, f), 1);
    cr_expect_eq(dt_schedule_depth(&c->run, 1, recv, b), 3);
    cr_expect_eq(dt_schedule_depth(&c->run, 1, f, f), 1);
    dt_arena_free(c->arena);
}

/* Returns the same depth, counted in the whole list of actions. */
static int64_t depth_by_list(const Case *c, uint32_t stage, const DtAction *write,
                             const DtAction *read)
{
    int64_t live = 0, most = 0;
    for (int64_t i = 0; i < dt_pipeline_count(&c->run.stages[stage]); i++) {
        const DtAction a = dt_pipeline_at(&c->run.stages[stage], i);
        live += dt_pipeline_same(&a, write);
        most = live > most ? live : most;
        live -= dt_pipeline_same(&a, read);
    }
    return most;
}

/* Also for periods in which more actions begin than end: all gradients of parameters may be delayed
 * until after the period. */
Test(schedule, slots_as_the_whole_list_needs)
{
    static const uint32_t sizes[] = {1, 2, 5, 16};
    for (size_t i = 0; i < DT_COUNT(all); i++)
        for (size_t k = 0; k < DT_COUNT(sizes); k++)
            for (int64_t m = 1; m <= 3 * sizes[k] + 2; m++) {
                Case *c = make(all[i].name, sizes[k], all[i].least, m);
                for (uint32_t g = 0; g < c->pipeline.n_pieces; g++)
                    for (uint32_t kind = DT_ACTION_F; kind <= DT_ACTION_W; kind++) {
                        const DtAction f = {.kind = DT_ACTION_F, .unit = g},
                                       read = {.kind = kind, .unit = g};
                        const uint32_t s = c->pipeline.stage_of[g];
                        if ((kind == DT_ACTION_B && c->run.pieces[g].b < 0) ||
                            (kind == DT_ACTION_W && c->run.pieces[g].w < 0))
                            continue;
                        cr_assert_eq(dt_schedule_depth(&c->run, s, f, read),
                                     depth_by_list(c, s, &f, &read), "%s p=%u m=%lld piece %u",
                                     all[i].name, sizes[k], (long long)m, g);
                    }
                dt_arena_free(c->arena);
            }
}

/* ---- errors are found ---- */

static void expect_stuck(Case *c, const char *message)
{
    DtText problem = {0};
    cr_expect_not(dt_schedule_check(&c->pipeline, &c->run, &problem), "%s", message);
    cr_expect(problem.at && strstr(problem.at, message), "wanted: %s\ngot: %s", message,
              problem.at ? problem.at : "");
    dt_text_free(&problem);
}

static void replace(Case *c, uint32_t stage, const char *text)
{
    const char *problem;
    cr_assert(dt_pipeline_read_actions(c->arena, &c->run, text, &c->run.stages[stage], &problem),
              "%s", problem);
}

Test(schedule, deadlocks_are_found)
{
    Case *c = make("1f1b", 2, 1, 2);
    replace(c, 0, "0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1");
    replace(c, 1, "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1");
    expect_stuck(c, "stage 0 waits for ever in 0RECV_B0\nstage 1 waits for ever in 1RECV_F1");
    replace(c, 1, "1F0 1RECV_F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1");
    expect_stuck(c, "stage 1: 1F0 runs before its input is there");
    replace(c, 1, "1RECV_F0 1B0 1F0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1");
    expect_stuck(c, "stage 1: 1B0 runs before its forward");
    replace(c, 0, "0F0 0SEND_F0 0F1 0SEND_F1 0B0 0RECV_B0 0RECV_B1 0B1");
    expect_stuck(c, "stage 0: 0B0 runs before its cotangents are there");
    replace(c, 0, "0SEND_F0 0F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1");
    expect_stuck(c, "stage 0: 0SEND_F0 sends what is not made yet");
    dt_arena_free(c->arena);
}

/* Two stages that both send three before they receive: two places are not enough, three are. */
Test(schedule, places_in_transit_count)
{
    Case *c = make("1f1b", 2, 1, 4);
    replace(c, 0,
            "0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2 0F3 0SEND_F3 0RECV_B0 0B0 0RECV_B1 0B1 "
            "0RECV_B2 0B2 0RECV_B3 0B3");
    replace(c, 1,
            "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2 "
            "1RECV_F3 1F3 1B3 1SEND_B3");
    DtText problem = {0};
    cr_expect(dt_schedule_check(&c->pipeline, &c->run, &problem), "%s", problem.at);
    c->run.channels.at[0].slots = c->run.channels.at[1].slots = 1;
    expect_stuck(c, "waits for ever in 1SEND_B1");
    dt_text_free(&problem);
    dt_arena_free(c->arena);
}

/* ---- as text ---- */

/* Every schedule on 4 stages with 8 micro-batches, and 1f1b with so many that a period shows. */
Test(schedule, golden)
{
    DtText text = {0};
    for (size_t i = 0; i < 7; i++) {
        const char *name = i < 6 ? all[i].name : "1f1b";
        Case *c = make(name, 4, i < 6 ? all[i].least : 1, i < 6 ? 8 : 100);
        DT_PUSH(c->arena, c->pipeline.runs, c->run);
        dt_schedule_print(c->arena, &c->pipeline, &text);
        dt_text_add(&text, "\n");
        dt_arena_free(c->arena);
    }
    golden_compare("passes/schedules", &text);
    dt_text_free(&text);
}

Test(schedule, picture)
{
    Case *c = make("zb_v", 2, 2, 4);
    DtText text = {0};
    uint32_t boxes = 0;
    DT_PUSH(c->arena, c->pipeline.runs, c->run);
    dt_schedule_draw(c->arena, &c->pipeline, &(DtPicture){.first = -1, .last = -1}, &text);
    for (const char *at = text.at; (at = strstr(at, "<title>")); at++)
        boxes++;
    cr_expect_eq(boxes, 2 * 2 * 3 * 4);
    cr_expect(strstr(text.at, "zb_v, 2 stages, 4 micro-batches: bubble 0.0 %"));
    cr_expect(strstr(text.at, "</svg>\n"));
    cr_expect(strstr(text.at, "a forward is 1"));
    dt_text_free(&text);
    dt_arena_free(c->arena);
}

/* Returns the width that the picture states. */
static double width_of(const DtText *text)
{
    return strtod(strstr(text->at, "width=\"") + 7, NULL);
}

/* If there are many micro-batches, the middle is left out; if there are many stages, boxes are
 * small; a window of micro-batches is drawn completely. */
Test(schedule, wide_pictures)
{
    static const struct {
        uint32_t p;
        int64_t m, first, last;
        bool whole;
    } rows[] = {{4, 40, -1, -1, true}, {4, 400, -1, -1, false}, {64, 512, -1, -1, false},
                {200, 300, -1, -1, false}, {4, 400, 200, 210, true}, {64, 512, 0, 0, true},
                {64, 512, 0, 511, false}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        Case *c = make("1f1b", rows[i].p, 1, rows[i].m);
        DtText text = {0};
        char first[40], last[40];
        DT_PUSH(c->arena, c->pipeline.runs, c->run);
        dt_schedule_draw(c->arena, &c->pipeline,
                         &(DtPicture){.first = rows[i].first, .last = rows[i].last}, &text);
        cr_expect_leq(width_of(&text), 4000, "row %zu", i);
        cr_expect_eq(strstr(text.at, "is left out") == NULL, rows[i].whole, "row %zu", i);
        snprintf(first, sizeof first, "<title>0F%lld<",
                 (long long)(rows[i].first < 0 ? 0 : rows[i].first));
        snprintf(last, sizeof last, "<title>0B%lld<",
                 (long long)(rows[i].last < 0 ? rows[i].m - 1 : rows[i].last));
        cr_expect(strstr(text.at, first) && strstr(text.at, last), "row %zu lacks %s or %s", i,
                  first, last);
        dt_text_free(&text);
        dt_arena_free(c->arena);
    }
}
