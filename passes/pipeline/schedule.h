/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of work of pipeline stages (schedule.c), what they cost and whether they can deadlock
 * (schedule_run.c), and how they are shown (schedule_draw.c). The data structures are in
 * ir/pipeline.h. */
#ifndef DT_PASSES_SCHEDULE_H
#define DT_PASSES_SCHEDULE_H

#include "ir/pipeline.h"

typedef struct DtLister DtLister;

typedef struct DtScheduleKind {
    const char *name; /* name in the program: `pipeline h on pipe (schedule = ...)` */
    bool splits;      /* gradients of parameters (W) are separate actions */
    /* two pieces per stage: s and 2 * stages - 1 - s; else piece g is on g mod stages */
    bool there_and_back;
    void (*list)(DtLister *lister);
} DtScheduleKind;

/* dt_schedule_find returns the schedule of that name, NULL if there is none; "forward" is the one
 * of runs without backward. dt_schedule_stage returns the stage that has a piece. */
const DtScheduleKind *dt_schedule_find(const char *name);
uint32_t dt_schedule_stage(const DtScheduleKind *kind, uint32_t n_stages, uint32_t piece);

/* Fills run->stages from run->pieces (the entries of each piece) and run->channels (the pieces
 * that they connect), and the channels' slots: as few as pass dt_schedule_check, at least 2.
 * O(list) time, O(prologue + period + epilogue) memory. False: no number of slots suffices;
 * ret_problem says why. */
bool dt_schedule_fill(DtArena *arena, const DtPipelineSchedule *pipeline,
                      const DtScheduleKind *kind, DtPipelineRun *run, DtText *ret_problem);

/* Returns in how many micro-batches at once a value is live, from the end of action `write` to the
 * end of action `read`. On the stage each of the two runs once per micro-batch, in order of
 * micro-batches (DtAction.micro is not read). */
int64_t dt_schedule_depth(const DtPipelineRun *run, uint32_t stage, DtAction write, DtAction read);

/* Runs the actions of all stages against each other as ranks do: SEND waits for a free slot of
 * its channel, RECV or DONE_RECV for a full one. True if all come to their ends and no action
 * runs before its inputs are there; otherwise ret_problem says what is stuck. */
bool dt_schedule_check(const DtPipelineSchedule *pipeline, const DtPipelineRun *run,
                       DtText *ret_problem);

/* Finds a repetition in the list, and splits it into prologue, period (repeated) and epilogue,
 * which stand for exactly the same actions. */
void dt_schedule_compress(const DtActions *list, DtStageActions *ret_actions);

typedef struct DtScheduleTimes {
    const double *f, *b, *w; /* seconds of each piece's F, B and W; w is unused if there are no W
                              * actions */
    double transfer;         /* time from a SEND to the earliest end of its RECV */
    /* > 0: an F directly followed by the backward of another piece (dualpipe_v) runs as one
     * action of that length, as on devices that overlap them */
    double pair;
} DtScheduleTimes;

typedef struct DtScheduleSlice {
    uint32_t stage;
    DtAction action;
    double start, end;
} DtScheduleSlice;

typedef struct DtTimeline {
    double end; /* of the last action; the first one starts at 0 */
    double *first, *last,
        *busy; /* per stage: start of its first action, end of its last, sum of actions' times */
    double bubble; /* idle part of the stages' time: 1 - sum of busy / (stages * longest stage) */
    DT_VEC(DtScheduleSlice) slices; /* F, B, W, in order per stage */
} DtTimeline;

/* Computes the time line of a run: every stage runs its actions in order, each as soon as it can.
 * The run must pass dt_schedule_check. */
void dt_schedule_simulate(DtArena *arena, const DtPipelineSchedule *pipeline,
                          const DtPipelineRun *run, const DtScheduleTimes *times,
                          DtTimeline *ret_timeline);

/* Returns the most micro-batches at once whose forward has run on a piece of the stage, but not
 * their last backward action: activations in flight, counted by pieces. */
int64_t dt_schedule_in_flight(const DtPipelineRun *run, uint32_t stage);

/* Computes the time line of a run in which F, B and W take one unit of time each, and a B without a
 * separate W takes two. */
void dt_schedule_equal(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPipelineRun *run,
                       DtTimeline *ret_line);

/* Writes all runs of a module's pipeline as text, with their time lines for equal times. */
void dt_schedule_print(DtArena *arena, const DtPipelineSchedule *pipeline, DtText *ret_text);

typedef struct DtPicture {
    const DtTimeline *line; /* in seconds; NULL: the time line with equal times */
    const char *times;      /* where the times come from, as text in the picture; NULL: equal
                             * times */
    /* draws only the time in which these micro-batches are in the pipeline; -1: all */
    int64_t first, last;
} DtPicture;

/* Draws the first run as an SVG picture, at most about 4,000 pixels wide. */
void dt_schedule_draw(DtArena *arena, const DtPipelineSchedule *pipeline, const DtPicture *picture,
                      DtText *ret_text);

#endif
