/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the simulator: instructions (simulate_inst.c), repetitions
 * (simulate_walk.c), all stages (simulate.c). */
#ifndef DT_REPORT_SIMULATE_INTERNAL_H
#define DT_REPORT_SIMULATE_INTERNAL_H

#include "plan/report/simulate.h"

enum { SIM_MOST_MOVES = 20000000, SIM_MOST_SLICES = 100000, SIM_SENT = -2, SIM_COMES = -3 };

/* A message ring: when its slots were filled and emptied. */
typedef struct SimChannel {
    double *sent, *freed; /* by slot */
    /* the time until which the link between the stages is busy; channels in one direction share
     * it */
    double *link;
    int64_t n_sent, n_received;
} SimChannel;

/* A collective of several stages, which begins when the last of them arrives. */
typedef struct SimMeet {
    uint32_t members, arrived, left;
    double latest;
} SimMeet;

/* State of one stage. Sums: DT_TIMES times, exposed and total time by group, DT_COST_KINDS. */
typedef struct SimStage {
    uint32_t number;
    const DtPrice *prices; /* by instruction */
    double slower;        /* factor by which computing is slower during a collective */
    double now;           /* of queue 0 */
    double *queue;        /* by queue: the time at which it is free */
    double *event;        /* by event: the end of the communication started under it; 0: long ago */
    /* by event: the group of the communication; -1 nothing, SIM_SENT a message being sent,
     * SIM_COMES - number of the RECV that was started: it is received at the wait */
    int32_t *group;
    double *sum;
    int64_t reg[DT_PLAN_REGS];
    /* position in its entry: item, end of the items, instruction in the body */
    uint32_t pc, end, inst;
    uint32_t open[DT_PLAN_MAX_DEPTH], depth; /* open LOOPs */
    int64_t turn[DT_PLAN_MAX_DEPTH];
    bool meeting;         /* it has arrived at a collective of several stages */
} SimStage;

typedef struct SimMemo {
    const DtPrice *prices; /* of the stage: other devices have other prices */
    uint32_t first, count; /* the entry's items; entries that do the same have the same ones */
    uint32_t when;        /* bit set: which of its WHENs on outer registers hold */
    int64_t ring, ring_after;
    /* queues and events when the entry began and ended, relative to these times */
    const double *before, *after;
    const double *sum;    /* the sums that it adds */
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
    bool *blocks;         /* by item: a LOOP or CALL that contains waits for other stages */
    bool *comes;          /* by event: a RECV is started under it */
    /* events that do not belong to messages: of no piece and no repeating iteration */
    uint32_t *own, n_own;
    /* by item: whether iterations of a LOOP, or runs of a CALL, repeat: SIM_.. below */
    uint8_t *steady;
    uint8_t *group_cost;  /* by group: DtCostKind */
    double *state;        /* scratch: the state of a stage */
    SimChannel *channels;
    SimMeet *meets;       /* by group */
    SimStage *stages;
    DT_VEC(SimMemo) memos;
    /* instructions that were run, and arrivals at collectives of several stages */
    int64_t moves;
    bool keeps, estimated, stuck;
    DT_VEC(DtSlice) slices;
    DT_VEC(DtFlow) flows;
} Sim;

/* How many slices, or messages, are kept. */
static inline uint32_t dt_sim_most(const Sim *sim)
{
    return sim->options->most ? sim->options->most : SIM_MOST_SLICES;
}

/* simulate_inst.c. False: it waits for another stage; may_wait false: that cannot happen. */
bool dt_sim_inst(Sim *sim, SimStage *stage, uint32_t inst, bool may_wait);
bool dt_sim_waits(const Sim *sim, const DtPlanInst *inst);

/* simulate_walk.c. Items from .. to - 1; none of them waits for another stage. */
void dt_sim_prepare(Sim *sim);
void dt_sim_items(Sim *sim, SimStage *stage, uint32_t from, uint32_t to);
void dt_sim_loop(Sim *sim, SimStage *stage, uint32_t item);
void dt_sim_call(Sim *sim, SimStage *stage, uint32_t item);
void dt_sim_set(SimStage *stage, const DtPlanSchedule *item);
static inline bool dt_sim_holds(const SimStage *stage, const DtPlanSchedule *when)
{
    return stage->reg[when->reg] >= when->first &&
           stage->reg[when->reg] < (int64_t)when->first + when->count;
}

#endif
