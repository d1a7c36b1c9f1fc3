/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a step of a plan: all stages of a pipeline, each with its queues (simulate.c). */
#ifndef DT_REPORT_SIMULATE_H
#define DT_REPORT_SIMULATE_H

#include "plan/report/price.h"

/* Kinds of work in a queue of a stage. */
typedef enum DtSliceKind {
    DT_SLICE_PIECE, /* an entry that the step calls: forward, backward or gradients of a piece for a
                     * micro-batch */
    DT_SLICE_INST   /* an instruction, if instructions are kept */
} DtSliceKind;
typedef struct DtSlice {
    double begin, end;   /* seconds since the step began */
    uint32_t stage, queue;
    uint32_t what;       /* PIECE: entry of the plan; INST: number of the instruction */
    int32_t micro;       /* micro-batch */
    uint8_t kind;
} DtSlice;

/* A message from one stage to another. */
typedef struct DtFlow {
    /* seconds: the end of sending; when the receiver went on with it */
    double sent, received;
    uint32_t channel;
    int32_t micro;
} DtFlow;

/* The time of one stage by purpose; adds up to the step's time. */
typedef struct DtStageTime {
    double time[DT_TIMES];
    double *exposed; /* by group of the plan: time in which queue 0 waited for its collectives */
    double *beside;  /* by group: total time of its collectives, exposed or not */
    double end;      /* the time at which its part of the step was complete */
} DtStageTime;

typedef struct DtSimulation {
    /* of a step, with the fixed part; the mean over steps where losses take turns */
    double seconds;
    double low, high;        /* the time of a step is between these with a probability of four in
                              * five */
    double fixed;            /* the part of the step outside of instructions */
    DtStageTime *stages;     /* by stage */
    uint32_t n_stages, busiest; /* busiest: the stage that waits least for the others */
    /* seconds of the busiest stage by source of uncertainty; its waiting time is distributed
     * likewise */
    double cost[DT_COST_KINDS];
    DtSlice *slices; uint32_t n_slices;
    DtFlow *flows; uint32_t n_flows;
    /* its stages wait for each other for ever; impossible in a proved plan */
    bool stuck;
    bool estimated;          /* some loop had more kinds of iterations than are simulated */
} DtSimulation;

typedef struct DtSimulateOptions {
    bool slices;             /* keep slices of pieces and messages */
    bool insts;              /* and of instructions, for their first run */
    uint32_t objective;      /* keep the slices of this loss's step */
    uint32_t most;           /* most slices to keep, 0: 100,000 */
} DtSimulateOptions;

/* prices: of every instruction on every stage. The plan must have passed dt_check_plan. All results
 * are in the arena. */
void dt_simulate(DtArena *arena, const DtPlan *plan, const DtCostModel *model, DtPrices prices,
                 const DtSimulateOptions *options, DtSimulation *ret_simulation);

#endif
