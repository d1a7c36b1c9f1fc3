/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the simulator: instructions (simulate_inst.c), repetitions
 * (simulate_walk.c), all stages (simulate.c). */
#ifndef DT_REPORT_SIMULATE_INTERNAL_H
#define DT_REPORT_SIMULATE_INTERNAL_H

#include "plan/report/simulate.h"

enum { SIM_MOST_MOVES = 20000000, SIM_MOST_SLICES = 100000, SIM_SENT = -2, SIM_COMES = -3 };

/* A channel's slots: when each was filled and emptied. */
typedef struct SimChannel {
    double *sent, *freed; /* times by slot */
    /* when the link between the stages is free again; channels in one direction share it */
    double *link;
    int64_t n_sent, n_received;
} SimChannel;

/* A collective of several stages, which begins when the last one arrives. */
typedef struct SimMeet {
    uint32_t members, arrived, left;
    double latest;
} SimMeet;

/* State of one stage. Sums: DT_TIMES times, exposed and total time by group, DT_COST_KINDS. */
typedef struct SimStage {
    uint32_t number;
    const DtPrice *prices; /* by instruction */
    double slower;        /* factor by which computing is slower while a collective runs */
    double now;           /* time of queue 0 */
    double *queue;        /* by queue: when it is free again */
    double *event;        /* by event: when the communication under it ends; 0: long ago */
    /* by event: the group of the communication; -1 nothing, SIM_SENT a message being sent,
     * SIM_COMES - number of a RECV that was started and is received at its WAIT */
    int32_t *group;
    double *sum;
    int64_t reg[DT_PLAN_REGS];
    /* position in the entry: item, end of the items, instruction in the body */
    uint32_t pc, end, inst;
    uint32_t open[DT_PLAN_MAX_DEPTH], depth; /* open LOOPs */
    int64_t turn[DT_PLAN_MAX_DEPTH];
    bool meeting;         /* it has arrived at a collective of several stages, and waits */
} SimStage;

typedef struct SimMemo {
    const DtPrice *prices; /* A run of a piece that may repeat. The stage: others may have other
                            * prices. */
    uint32_t first, count; /* its items, which other entries may share */
    uint32_t when;        /* bits: which of its WHENs on outer registers hold */
    int64_t ring, ring_after;
    /* how long queues and events were busy at its beginning and end, relative to these times */
    const double *before, *after;
    const double *sum;    /* the sums that the run adds */
    double seconds;
} SimMemo;

typedef struct Sim {
    DtArena *arena;
    const DtPlan *plan;
    const DtCostModel *model;
    DtPrices prices;
    const DtSimulateOptions *options;
    uint32_t n_queues, n_events, n_sums;
    uint32_t *end_of;     /* by item: the END of its LOOP */
    bool *blocks;         /* by item: a LOOP or CALL inside of which the stage waits for others */
    bool *comes;          /* by number of an event less 1: whether a RECV signals it,
                           * so that a WAIT for it may wait for another stage */
    /* events that no message uses, of no piece and no repeating iteration */
    uint32_t *own, n_own;
    /* by item: whether iterations of a LOOP, or runs of a CALL, repeat: SIM_.. below */
    uint8_t *steady;
    uint8_t *group_cost;  /* by group: its DtCostKind */
    double *state;        /* scratch memory: the state of a stage */
    SimChannel *channels;
    SimMeet *meets;       /* by group: the collective of several stages */
    SimStage *stages;
    DT_VEC(SimMemo) memos;
    /* instructions simulated so far, and arrivals at collectives of several stages */
    int64_t moves;
    bool keeps, estimated, stuck;
    DT_VEC(DtSlice) slices;
    DT_VEC(DtFlow) flows;
} Sim;

/* The most slices, or messages, that are kept. */
static inline uint32_t dt_sim_most(const Sim *sim)
{
    return sim->options->most ? sim->options->most : SIM_MOST_SLICES;
}

/* simulate_inst.c: runs an instruction; false: it waits for another stage. may_wait false: it must
 * not wait. */
bool dt_sim_inst(Sim *sim, SimStage *stage, uint32_t inst, bool may_wait);
bool dt_sim_waits(const Sim *sim, const DtPlanInst *inst);

/* simulate_walk.c: runs items from .. to - 1, none of which waits for another stage. */
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
