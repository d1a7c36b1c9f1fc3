/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the simulator: instructions (simulate_inst.c), what repeats (simulate_walk.c), all stages
 * (simulate.c). */
#ifndef DT_REPORT_SIMULATE_INTERNAL_H
#define DT_REPORT_SIMULATE_INTERNAL_H

#include "plan/report/simulate.h"

enum { SIM_MOST_MOVES = 20000000, SIM_MOST_SLICES = 100000, SIM_SENT = -2, SIM_COMES = -3 };

/* A message ring: when its slots were filled and emptied. */
typedef struct SimChannel {
    double *sent, *freed; /* by slot */
    double *link;         /* until when the way between the stages is busy; all channels of one way share it */
    int64_t n_sent, n_received;
} SimChannel;

/* A collective of several stages begins when the last of them comes. */
typedef struct SimMeet {
    uint32_t members, arrived, left;
    double latest;
} SimMeet;

/* What one stage is at. Sums: DT_TIMES times, what is exposed and what runs by group, DT_COST_KINDS. */
typedef struct SimStage {
    uint32_t number;
    const DtPrice *prices; /* by instruction */
    double slower;        /* how much slower computing is beside a collective */
    double now;           /* of queue 0 */
    double *queue;        /* by queue: when it is free */
    double *event;        /* by event: when what was started under it has ended; 0: long ago */
    int32_t *group;       /* by event: of what was started, -1 nothing, SIM_SENT a message that is sent, SIM_COMES - the
                           * number of the RECV that was started: it is received where it is waited for */
    double *sum;
    int64_t reg[DT_PLAN_REGS];
    uint32_t pc, end, inst; /* where it is in its entry: item, behind the last item, instruction in the body */
    uint32_t open[DT_PLAN_MAX_DEPTH], depth; /* LOOPs around it */
    int64_t turn[DT_PLAN_MAX_DEPTH];
    bool meeting;         /* it has come to a collective of several stages */
} SimStage;

typedef struct SimMemo {
    const DtPrice *prices; /* of the stage: stages on other devices take other times */
    uint32_t first, count; /* the entry's items; entries that do the same have the same ones */
    uint32_t when;        /* bits of its WHENs on registers from outside that hold */
    int64_t ring, ring_after;
    const double *before, *after; /* queues and events since the entry began, and since it ended */
    const double *sum;    /* what it adds */
    double seconds;
} SimMemo;

typedef struct Sim {
    DtArena *arena;
    const DtPlan *plan;
    const DtCostModel *model;
    DtPrices prices;
    const DtSimulateOptions *options;
    uint32_t n_queues, n_events, n_sums;
    uint32_t *end_of;     /* by item: the END of a LOOP */
    bool *blocks;         /* by item: LOOP or CALL with something that waits for other stages */
    bool *comes;          /* by event: a RECV is started under it */
    uint32_t *own, n_own; /* events but for those of messages: these belong to no piece and no iteration that repeats */
    uint8_t *steady;      /* by item: LOOP: its iterations do the same; CALL: so does each call: SIM_.. below */
    uint8_t *group_cost;  /* by group: DtCostKind */
    double *state;        /* of a stage, for a look */
    SimChannel *channels;
    SimMeet *meets;       /* by group */
    SimStage *stages;
    DT_VEC(SimMemo) memos;
    int64_t moves;        /* instructions that were run, and stages that came to a meeting */
    bool keeps, estimated, stuck;
    DT_VEC(DtSlice) slices;
    DT_VEC(DtFlow) flows;
} Sim;

/* How many slices, or messages, are kept. */
static inline uint32_t dt_sim_most(const Sim *sim) { return sim->options->most ? sim->options->most : SIM_MOST_SLICES; }

/* simulate_inst.c. False: it waits for another stage; may_wait false: it never does. */
bool dt_sim_inst(Sim *sim, SimStage *stage, uint32_t inst, bool may_wait);
bool dt_sim_waits(const Sim *sim, const DtPlanInst *inst);

/* simulate_walk.c. Items from .. to - 1, none of which waits for another stage. */
void dt_sim_prepare(Sim *sim);
void dt_sim_items(Sim *sim, SimStage *stage, uint32_t from, uint32_t to);
void dt_sim_loop(Sim *sim, SimStage *stage, uint32_t item);
void dt_sim_call(Sim *sim, SimStage *stage, uint32_t item);
void dt_sim_set(SimStage *stage, const DtPlanSchedule *item);
static inline bool dt_sim_holds(const SimStage *stage, const DtPlanSchedule *when)
{
    return stage->reg[when->reg] >= when->first && stage->reg[when->reg] < (int64_t)when->first + when->count;
}

#endif
